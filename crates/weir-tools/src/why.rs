//! `weir why`: why a campaign does not bid, counted by a running node; or one request explained against all campaigns
//! of a file, by the code of the auction itself.

use std::io::{self, Write};
use std::path::Path;

use admin_client::{Client, FetchError, harmless};
use door_openrtb::translate::{Lists, Terms, User};
use gate_auction::{BidContext, Bidder, Explanation, Outcome, Reason, Request, Scratch, Step};
use gate_profile::Profile;
use money::Instant;
use openrtb::{BadRequest, BidRequest, ReadLimits, Reader};
use serde_json::Value;
use weir_budgets::budgets::{Budget, LineError};
use weir_budgets::campaign_index::{self, CampaignIndex, ExchangeTerms};
use weir_config::config::Config;
use weir_survey::SAMPLE_MIN;

use crate::WhichBudget;
use crate::words::sentence;

/// Why there is no explanation.
#[derive(Debug, thiserror::Error)]
pub enum WhyError {
    /// A file cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The request is none.
    #[error("{path}: {source}; expected one bid request of OpenRTB 2.5 or 2.6 as JSON")]
    Request {
        /// The file.
        path: String,
        /// The fault in it.
        source: BadRequest,
    },
    /// The campaigns are not sound.
    #[error("{0}")]
    Campaigns(String),
    /// The answer cannot be written.
    #[error("the answer cannot be written: {0}")]
    Write(#[from] io::Error),
}

/// Asks a node why a campaign does not bid, and how it stands. What of the second is not known is `null`.
///
/// # Errors
/// [`FetchError`].
pub fn fetch(client: &Client, campaign: &WhichBudget) -> Result<Value, FetchError> {
    let mut answer: Value = client.get(&format!("/why?campaign={campaign}"))?;
    let Some(id) = answer.get("campaign").and_then(Value::as_u64) else { return Ok(answer) };
    let budget: Value = client.get(&format!("/v1/budgets/{id}")).unwrap_or_default();
    for field in ["status", "reason", "since_ms"] {
        answer[field] = budget.get(field).cloned().unwrap_or_default();
    }
    Ok(answer)
}

/// How a campaign stands: its status since when, the reason, and what part of its price it bids at present.
fn print_standing(answer: &Value, out: &mut dyn Write) -> io::Result<()> {
    let text = |of: &Value| harmless(of.as_str().unwrap_or(""));
    let (status, reason) = (text(&answer["status"]), text(&answer["reason"]));
    if !status.is_empty() {
        let since = answer["since_ms"]
            .as_u64()
            .map_or_else(String::new, |since_ms| format!(" since {}", Instant::from_ms(since_ms)));
        let why = match &*reason {
            "" => String::new(),
            reason => format!(": {}", harmless(sentence(reason))),
        };
        writeln!(out, "{}{since}{why}", status.replace('_', " "))?;
    }
    let pace = &answer["pace"];
    let (pacing, part) = (text(&pace["pacing"]), pace["multiplier_ppm"].as_u64());
    match part.filter(|part| *part < FULL_PPM && matches!(&*pacing, "curve" | "steer" | "auto")) {
        Some(part) => writeln!(
            out,
            "it bids {}.{} % of its price at present: {pacing} goes lower while its money would be spent too fast, and begins low",
            part / 10_000,
            part / 1_000 % 10
        ),
        None => Ok(()),
    }
}

/// The whole price, in millionths.
const FULL_PPM: u64 = 1_000_000;
/// Reasons that are told first.
const FIRST_REASONS: usize = 2;

/// The largest reasons with their shares, where the sample is large enough.
fn print_first(rows: &[(&str, u64)], wanted: u64, out: &mut dyn Write) -> io::Result<()> {
    let is_reason = |(name, _): &&(&str, u64)| ![Reason::Targeting.name(), "bid"].contains(name);
    let first = rows.iter().filter(is_reason).take(FIRST_REASONS);
    let first: Vec<String> = first
        .map(|(name, count)| {
            format!("{} {} %", harmless(sentence(name)), count * 100 / wanted.max(1))
        })
        .collect();
    match first.is_empty() {
        true => Ok(()),
        false => writeln!(out, "what keeps it most from those that it wants: {}", first.join("; ")),
    }
}

/// The counters of a campaign for people. `answer` is what the node's admin door said.
///
/// # Errors
/// `out` cannot be written.
pub fn print_counts(answer: &Value, out: &mut dyn Write) -> io::Result<()> {
    let text = |key: &str| harmless(answer.get(key).and_then(Value::as_str).unwrap_or(""));
    let number = |key: &str| answer.get(key).and_then(Value::as_u64).unwrap_or(0);
    let (campaign, surveyed) = (number("campaign"), number("surveyed"));
    writeln!(out, "campaign {campaign} {}", text("name"))?;
    print_standing(answer, out)?;
    writeln!(
        out,
        "{surveyed} impressions surveyed of {} that were auctioned; shares are of these",
        number("auctioned")
    )?;
    let counts = answer.get("counts").and_then(Value::as_object);
    let mut rows: Vec<(&str, u64)> = counts
        .into_iter()
        .flatten()
        .map(|(name, count)| (name.as_str(), count.as_u64().unwrap_or(0)))
        .filter(|(_, count)| *count > 0)
        .collect();
    rows.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let wanted = surveyed.saturating_sub(number_of(&rows, Reason::Targeting.name()));
    if wanted < SAMPLE_MIN {
        writeln!(
            out,
            "it wants {wanted} of them; shares are shown from {SAMPLE_MIN} wanted impressions on. For more of them wait, or start the node with \
             WEIR_OPENRTB__SURVEY_EVERY=1 while there is little traffic"
        )?;
    } else {
        print_first(&rows, wanted, out)?;
    }
    for (name, count) in rows {
        let share = if wanted < SAMPLE_MIN { "-".into() } else { share(count, surveyed) };
        writeln!(
            out,
            "{:<10} {count:>12} {share:>10}  {}",
            harmless(name),
            harmless(sentence(name))
        )?;
    }
    Ok(())
}

fn number_of(rows: &[(&str, u64)], name: &str) -> u64 {
    rows.iter().find(|(of, _)| *of == name).map_or(0, |(_, count)| *count)
}

fn share(count: u64, of: u64) -> String {
    let millionths = u128::from(count) * 1_000_000 / u128::from(of.max(1));
    format!("{}.{:04} %", millionths / 10_000, millionths % 10_000)
}

/// What to explain.
#[derive(Debug)]
pub struct Question<'a> {
    /// The file of campaigns.
    pub campaigns: &'a Path,
    /// The file with one bid request.
    pub request: &'a Path,
    /// Only this campaign, with all its steps.
    pub campaign: Option<&'a WhichBudget>,
    /// A line for each campaign.
    pub all: bool,
}

/// Explains one request, impression by impression. Money, plans and caps are not looked at: they are a running node's.
///
/// # Errors
/// [`WhyError`].
pub fn explain(
    question: &Question<'_>,
    config: &Config,
    now: Instant,
    out: &mut dyn Write,
) -> Result<(), WhyError> {
    let read = campaign_index::read(question.campaigns, &ExchangeTerms::of(config), now);
    let (budgets, campaign_index) = read.map_err(|errors| lines(&errors))?;
    let path = question.request.display().to_string();
    let mut body = std::fs::read(question.request)
        .map_err(|source| WhyError::Read { path: path.clone(), source })?;
    let (terms, profile) = (Terms::new(config), Profile::default());
    let mut lists = Lists::default();
    let explained = Reader::default().read(&mut body, &ReadLimits::default(), |request| {
        let user = User { profile: &profile, privacy: terms.privacy(&request.top) };
        lists.with(request, &campaign_index, &terms, &user, now, |keys| {
            Explainer {
                question,
                campaign_index: &campaign_index,
                budgets: &budgets,
                request,
                keys,
            }
            .run(out)
        })
    });
    explained.map_err(|source| WhyError::Request { path, source })?
}

fn lines(errors: &[LineError]) -> WhyError {
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    WhyError::Campaigns(lines.join("\n"))
}

struct Explainer<'a> {
    question: &'a Question<'a>,
    campaign_index: &'a CampaignIndex,
    budgets: &'a [Budget],
    request: &'a BidRequest<'a>,
    keys: &'a Request<'a>,
}

/// What players can show and campaigns want of them; all else behind an auction says yes.
struct Players<'a> {
    campaign_index: &'a CampaignIndex,
    request: &'a BidRequest<'a>,
}

impl BidContext for Players<'_> {
    fn may_show(&self, bidder: Bidder, impression: usize, creative: usize) -> Result<(), Reason> {
        let (ad, imp) = (self.campaign_index.ad(bidder.slot), &self.request.imps[impression]);
        if !ad.wants_player(creative, imp) {
            return Err(Reason::Targeting);
        }
        let is_playable = ad.creatives.get(creative).is_some_and(|one| one.fits_player(imp));
        if is_playable { Ok(()) } else { Err(Reason::Blocked) }
    }
}

impl Explainer<'_> {
    fn run(&self, out: &mut dyn Write) -> Result<(), WhyError> {
        let mut scratch = Scratch::default();
        writeln!(out, "request {}, {} campaigns", self.request.id, self.campaign_index.len())?;
        for (at, imp) in self.request.imps.iter().enumerate() {
            let players = Players { campaign_index: self.campaign_index, request: self.request };
            let all = self.campaign_index.index().explain(self.keys, at, &mut scratch, &players);
            writeln!(out, "\nimpression {}", imp.id)?;
            self.print_funnel(&all, out)?;
            self.print_bidders(&all, out)?;
            self.print_asked(&all, out)?;
        }
        writeln!(out, "\nPlans, budgets and caps were not asked: they are a running node's.")?;
        Ok(())
    }

    /// How many campaigns got past each step.
    fn print_funnel(&self, all: &[Explanation], out: &mut dyn Write) -> io::Result<()> {
        let steps = all.iter().map(|one| one.steps.len()).max().unwrap_or(0);
        let mut left = all.len();
        for at in 0..steps {
            let passed = all.iter().filter(|one| passed(one, at)).count();
            let Some(step) = all.iter().find_map(|one| one.steps.get(at)) else { break };
            if passed < left {
                writeln!(out, "  {:<28} {:>7} of {left} left", question_of(step), passed)?;
            }
            left = passed;
        }
        Ok(())
    }

    fn print_bidders(&self, all: &[Explanation], out: &mut dyn Write) -> io::Result<()> {
        let bids = all.iter().filter(|one| matches!(one.outcome, Outcome::Bids(_)));
        let mut any = false;
        for one in bids {
            any = true;
            writeln!(out, "  {} {}", self.named(one.campaign), outcome(one.outcome))?;
        }
        if !any {
            writeln!(out, "  no campaign bids")?;
        }
        Ok(())
    }

    fn print_asked(&self, all: &[Explanation], out: &mut dyn Write) -> io::Result<()> {
        if self.question.all {
            for one in all {
                writeln!(out, "  {} {}", self.named(one.campaign), ending(one))?;
            }
        }
        let Some(asked) = self.question.campaign else { return Ok(()) };
        let mut budgets = self.budgets.iter().map(|budget| &budget.spec);
        let found = budgets.find(|spec| asked.is(spec.id, spec.handle.as_ref()));
        let Some(one) = found.and_then(|spec| all.iter().find(|one| one.campaign == spec.id))
        else {
            return writeln!(out, "  campaign {asked} is not in the file, or does not bid");
        };
        writeln!(out, "  {}", self.named(one.campaign))?;
        for step in &one.steps {
            writeln!(out, "    {:<28} {}", question_of(step), answer_to(step))?;
        }
        writeln!(out, "    {}", outcome(one.outcome))
    }

    fn named(&self, campaign: u64) -> String {
        let name = self.budgets.iter().find(|budget| budget.spec.id == campaign);
        format!("campaign {campaign} {}", name.map_or("", |budget| &budget.name))
    }
}

fn passed(one: &Explanation, at: usize) -> bool {
    one.steps.len() > at && one.steps[..=at].iter().all(|step| !is_no(step))
}

fn is_no(step: &Step) -> bool {
    matches!(
        step,
        Step::Wants(_, false)
            | Step::Fits(false)
            | Step::MayDeal(false)
            | Step::Offers(Err(_))
            | Step::Able(Err(_))
    )
}

fn ending(one: &Explanation) -> String {
    match one.steps.iter().find(|step| is_no(step)) {
        Some(step) => format!("{} {}", question_of(step), answer_to(step)),
        None => outcome(one.outcome),
    }
}

fn question_of(step: &Step) -> String {
    match step {
        Step::Wants(dimension, _) => format!("wants {}?", format!("{dimension:?}").to_lowercase()),
        Step::Fits(_) => "has a creative that fits?".into(),
        Step::MayDeal(_) => "has one of the deals?".into(),
        Step::Offers(_) => "may be shown for its price?".into(),
        Step::Shows(_) => "shows creative".into(),
        Step::Able(_) => "is able to pay?".into(),
    }
}

fn answer_to(step: &Step) -> String {
    let yes = |yes: bool| if yes { "yes" } else { "no" };
    match step {
        Step::Wants(_, holds) | Step::Fits(holds) | Step::MayDeal(holds) => yes(*holds).into(),
        Step::Offers(Ok(price)) => format!("yes, with {}", cpm(price.micros())),
        Step::Offers(Err(reason)) | Step::Able(Err(reason)) => {
            format!("no: {} ({})", reason.name(), sentence(reason.name()))
        }
        Step::Shows(creative) => format!("number {}", creative + 1),
        Step::Able(Ok(())) => "yes".into(),
    }
}

fn outcome(outcome: Outcome) -> String {
    match outcome {
        Outcome::Bids(price) => format!("bids {}", cpm(price.micros())),
        Outcome::Outbid => format!("is outbid: {}", sentence("outbid")),
        Outcome::Not(reason) => format!("does not bid: {}", reason.name()),
    }
}

fn cpm(micros: i64) -> String {
    format!("{}.{:06} CPM", micros / 1_000_000, micros % 1_000_000)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn who_does_not_want_a_player_or_cannot_be_played_does_not_bid() {
        let folder = tempfile::tempdir().unwrap();
        let (campaigns, request) = (folder.path().join("c.jsonl"), folder.path().join("r.json"));
        let line = |id: u64, markup: &str, video: Value| {
            let film = json!({"id": "v", "format": "video", "duration_s": 15, "adomain": ["a.example"], "markup": markup});
            json!({"id": id, "name": "n", "limit": "9", "bid": "2.00", "creatives": [film], "targeting": {"video": video}}).to_string()
        };
        let lines = [
            line(1, "<VAST version=\"4.0\"/>", json!({"plcmt": {"any": ["instream"]}})),
            line(2, "<VAST version=\"2.0\"/>", json!({})),
        ];
        std::fs::write(&campaigns, lines.join("\n")).unwrap();
        let bidders = |video: Value| {
            let body = json!({"id": "r", "imp": [{"id": "1", "video": video}]});
            std::fs::write(&request, body.to_string()).unwrap();
            let question =
                Question { campaigns: &campaigns, request: &request, campaign: None, all: true };
            let mut out = Vec::new();
            explain(&question, &Config::default(), Instant::from_ms(0), &mut out).unwrap();
            let told = String::from_utf8(out).unwrap();
            let is_out = |id: u64| {
                let line = format!("campaign {id} n may be shown for its price? no");
                told.lines().any(|one| one.trim().starts_with(&line))
            };
            [1, 2].map(|id| !is_out(id))
        };
        assert_eq!(bidders(json!({"plcmt": 1})), [true, true]);
        assert_eq!(bidders(json!({"plcmt": 2})), [false, true]);
        assert_eq!(bidders(json!({"plcmt": 1, "protocols": [7]})), [true, false]);
    }

    fn printed(answer: &Value) -> String {
        let mut out = Vec::new();
        print_counts(answer, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn it_begins_with_status_reason_present_bid_and_the_two_largest_reasons() {
        let told = printed(&json!({
            "campaign": 1, "name": "Shoes", "surveyed": 500, "auctioned": 512_000, "survey_every": 1024,
            "status": "limited", "reason": "outbid", "since_ms": 1_795_564_800_000_u64,
            "pace": {"pacing": "curve", "multiplier_ppm": 423_000},
            "counts": {"targeting": 400, "bid": 1, "outbid": 61, "floor": 33, "cap": 5},
        }));
        let lines: Vec<&str> = told.lines().collect();
        assert_eq!(
            lines[1],
            "limited since 2026-11-25T00:00:00Z: another campaign of this node goes before it"
        );
        assert!(lines[2].starts_with("it bids 42.3 % of its price at present: curve"), "{told}");
        assert_eq!(
            lines[4],
            format!(
                "what keeps it most from those that it wants: {} 61 %; {} 33 %",
                sentence("outbid"),
                sentence("floor")
            )
        );
    }

    #[test]
    fn few_are_shown_as_counts_with_how_to_get_more_and_nothing_is_made_up() {
        let told = printed(&json!({
            "campaign": 1, "name": "Shoes", "surveyed": 12, "auctioned": 12_000, "survey_every": 1024, "pace": null,
            "status": null, "counts": {"outbid": 12},
        }));
        assert!(told.contains("it wants 12 of them") && told.contains("SURVEY_EVERY=1"), "{told}");
        assert!(told.contains("outbid               12          -"), "{told}");
        assert!(!told.contains("since") && !told.contains("it bids"), "{told}");
        // A whole price, and a strategy that does not follow it, need no word.
        for pace in [
            json!({"pacing": "curve", "multiplier_ppm": 1_000_000}),
            json!({"pacing": "coin", "multiplier_ppm": 5}),
        ] {
            assert!(!printed(&json!({"campaign": 1, "pace": pace})).contains("it bids"));
        }
    }
}
