//! What the admin API asks of this node.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::mpsc::{Sender as Commands, channel};
use std::time::Duration;

use axum::body::Bytes;
use door_fix::gate::counts::FixCounts;
use gate_auction::{Fates, Reason};
use gate_profile::Window;
use ledger::{Amount, WindowKind, WindowLimit};
use serde_json::Value;
use watch::cluster::Cluster;
use watch::fix::{
    FixChange, FixError, FixKillChange, FixKills, FixMessages, FixOrders, FixPage, FixSession,
};
use watch::node::{
    AuditRecord, Cap, Detail, Edit, EditError, Edited, Fields, Holds, Lines, NamedHolds, Refusals,
    Refused, Source, TokenReach, WindowState,
};
use watch::report::{Report, ReportAsk, ReportError};
use watch::vault::{Vault, VaultPage};
use weir_budgets::campaign_index::{CampaignAd, CampaignIndex};
use weir_config::config::Config;
use weir_door::Tokens;
use weir_edits::Edits;
use weir_node::bank::rows::{SurveyPart, SurveyRow};
use weir_node::bank::{Command, ask};
use weir_till::LastRefusal;

use super::metrics;
use super::status::{self, Bounds, Identity};
use super::survey::{Found, Latest, SharedTallies};
use crate::admin::Status;
use crate::costs::openmetrics::Exposition;
use crate::standby::of_bank;

/// Refusals of a budget in one answer.
const RECENT_MAX: usize = 100;
/// How long workers may take to answer.
const WORKERS_WAIT: Duration = Duration::from_secs(5);

/// The node, as the admin door sees it.
pub(crate) struct Watched {
    pub(super) commands: Commands<Command>,
    pub(super) status: Status,
    pub(super) edits: Edits,
    pub(super) latest: Arc<Latest>,
    pub(super) tallies: SharedTallies,
    pub(super) identity: Identity,
    pub(super) bounds: Bounds,
    pub(super) config: Config,
    pub(super) tokens: Tokens,
}

impl watch::Node for Watched {
    fn edit(&self, edit: Edit) -> Result<Edited, EditError> {
        self.edits.edit(edit)
    }

    fn id_of(&self, handle: &str) -> Option<u64> {
        let made = || ask(&self.commands, |reply| Command::Find { handle: handle.into(), reply });
        self.edits.id_of(handle).or_else(|| made().flatten())
    }

    fn reach(&self, id: u64, before: Option<&str>, after: Option<&str>) -> Vec<TokenReach> {
        let reach = |(token, gains): (String, bool)| TokenReach { token, gains };
        self.tokens.reach(id, before, after).into_iter().map(reach).collect()
    }

    fn fields(&self, id: u64) -> Option<Fields> {
        self.edits.fields(id).or_else(|| self.removed(id))
    }

    fn replay(&self, who: &str, key: &str, digest: &[u8; 32]) -> Result<Option<Edited>, EditError> {
        self.edits.replay(who, key, digest)
    }

    fn revision(&self, id: u64) -> Option<u64> {
        self.edits.revision(id)
    }

    fn source(&self, id: u64) -> Option<Source> {
        let (place, changed) = self.edits.source(id)?;
        let place = place?;
        Some(Source { line: place.line, text: place.read(&self.config.budgets.file), changed })
    }

    fn detail(&self, id: u64) -> Option<Detail> {
        let found = self.latest.get()?;
        let slot = *found.slots.get(&id)?;
        let part = self.part(slot)?;
        let row = *part.rows.first()?;
        let made = self.tallies(|tallies| tallies.made(slot as usize));
        let caps = ad(&found.figures.scene.campaign_index, id).map_or_else(Vec::new, caps);
        let holds = holds(made, &row);
        let windows = part.windows.into_iter().map(window).collect();
        let amounts = Some(super::survey::of_row(&row, false));
        let (count, hold) = part.named_holds;
        let named_holds = NamedHolds { count, hold };
        Some(Detail { lines: lines(&row), amounts, holds, caps, windows, named_holds })
    }

    fn refusals(&self, id: u64) -> Option<Refusals> {
        let found = self.latest.get()?;
        let slot = *found.slots.get(&id)?;
        let mut verdicts = self.tallies(|tallies| tallies.refusals(slot as usize));
        verdicts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let fates = self.fates(&found, id);
        let sum = |count: &dyn Fn(&Fates) -> u64| fates.iter().map(count).sum::<u64>();
        let reasons = Reason::ALL.map(|reason| (reason.name(), sum(&|fates| fates.of(reason))));
        let outbid = [("outbid", sum(&|fates| fates.outbid.into()))];
        let why = reasons.into_iter().chain(outbid).filter(|(_, count)| *count > 0);
        let mut why: Vec<_> = why.map(|(reason, count)| (reason.to_string(), count)).collect();
        why.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        Some(Refusals {
            verdicts: verdicts.iter().map(|(of, count)| (of.name().to_string(), *count)).collect(),
            survey_every: self.status.survey_every(),
            auctioned: sum(&|fates| fates.auctioned),
            surveyed: sum(&|fates| fates.impressions),
            why,
            recent: self.last_refusals(&found, slot),
            recent_of: self.status.counters().iter().map(|of| of.refusals.remembered()).sum(),
        })
    }

    fn audit(&self, budget: Option<u64>, before: Option<u64>, max: usize) -> Vec<AuditRecord> {
        self.edits.audit(budget, before, max)
    }

    fn audit_record(&self, record: u64) -> Option<AuditRecord> {
        self.edits.audit_record(record)
    }

    fn fix_sessions(&self) -> Result<Vec<FixSession>, FixError> {
        super::fix::sessions(self.status.fix())
    }

    fn fix_refused_logons(&self) -> u64 {
        self.status.counters().iter().map(|of| of.of::<FixCounts>().refused_logons.get()).sum()
    }

    fn fix_messages(&self, session: &str, page: &FixPage) -> Result<FixMessages, FixError> {
        super::fix::messages(&self.config.node.data_dir.join("fix"), session, page)
    }

    fn fix_orders(
        &self,
        from: u64,
        max: usize,
        budget: Option<u64>,
    ) -> Result<FixOrders, FixError> {
        super::fix::orders(self.status.fix(), from, max, budget)
    }

    fn fix_act(&self, change: FixChange) -> Result<FixSession, FixError> {
        super::fix::act(self.status.fix(), &self.edits, change)
    }

    fn fix_kills(&self) -> Result<FixKills, FixError> {
        super::fix::kills(self.status.fix())
    }

    fn fix_kill(&self, change: FixKillChange) -> Result<FixKills, FixError> {
        super::fix::kill(self.status.fix(), &self.edits, change)
    }

    fn report(&self, ask: &ReportAsk) -> Result<Report, ReportError> {
        super::report::report(self.status.figures(), ask)
    }

    fn vault(&self, page: &VaultPage) -> Vault {
        super::vault::vault(&self.status, page)
    }

    fn cluster(&self) -> Option<Cluster> {
        Some(of_bank(&self.config, self.status.pulse().on_log()?))
    }

    fn status(&self) -> Value {
        let Some(found) = self.latest.get() else { return Value::Null };
        status::status(&found.figures, &self.status, &self.identity, &self.bounds)
    }

    fn costs(&self) -> Value {
        crate::costs::last_minute(self.status.metrics())
    }

    fn config(&self) -> Value {
        self.status.config().to_json()
    }

    fn metrics(&self) -> Bytes {
        let mut text = Exposition::default();
        self.status.metrics().write(&mut text);
        if let Some(found) = self.latest.get() {
            let (identity, bounds) = (&self.identity, &self.bounds);
            metrics::write(&mut text, &found.figures, &self.status, identity, bounds);
        }
        text.finish().into()
    }

    fn ready(&self) -> Result<(), String> {
        self.status.pulse().check_turns()?;
        self.status.pulse().check_clock()?;
        let report = ask(&self.commands, |reply| Command::Report { reply });
        let report = report.ok_or("the bank does not answer")?;
        match report.journal.failure {
            Some(failure) => Err(format!("the journal cannot seal: {failure}")),
            None => self.status.check_budgets(),
        }
    }
}

impl Watched {
    /// A budget that the bank knows and nobody configures, any more or at all: of its configuration nothing else is left.
    fn removed(&self, id: u64) -> Option<Fields> {
        let found = self.latest.get()?;
        found.slots.get(&id)?;
        if id >= ledger::spec::MADE_ID_MIN {
            // Its template has the rest.
            return Some(Fields::from_iter([("id".into(), id.into())]));
        }
        Some(Fields::from_iter([("id".into(), id.into()), ("status".into(), "ended".into())]))
    }

    fn part(&self, slot: u32) -> Option<SurveyPart> {
        ask(&self.commands, |reply| Command::Survey {
            from_slot: slot,
            max: 1,
            rows: Vec::new(),
            reply,
        })
    }

    fn tallies<T>(&self, read: impl FnOnce(&super::tallies::Tallies) -> T) -> T {
        read(&self.tallies.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// The last asks of a budget, and of those under it, that got nothing, as far as workers remember; newest first.
    fn last_refusals(&self, found: &Found, slot: u32) -> Vec<Refused> {
        let counters = self.status.counters().iter();
        let now_ms = found.figures.as_of_ms;
        let all = counters.flat_map(|counters| counters.refusals.read(now_ms));
        let mut last: Vec<LastRefusal> =
            self.tallies(|tallies| all.filter(|one| tallies.is_within(one.slot, slot)).collect());
        last.sort_by_key(|one| std::cmp::Reverse(one.at_ms));
        last.truncate(RECENT_MAX);
        let ids: HashMap<u32, u64> = found.slots.iter().map(|(id, slot)| (*slot, *id)).collect();
        let refused = |one: LastRefusal| {
            let budget = *ids.get(&one.slot)?;
            Some(Refused { at_ms: one.at_ms, verdict: one.verdict.name().to_string(), budget })
        };
        last.into_iter().filter_map(refused).collect()
    }

    /// What became of a campaign in all workers' auctions; nothing of a budget that does not bid.
    fn fates(&self, found: &Found, id: u64) -> Vec<Fates> {
        if ad(&found.figures.scene.campaign_index, id).is_none() {
            return Vec::new();
        }
        let (reply, answers) = channel();
        let campaigns = Arc::from([id]);
        if self.commands.send(Command::Fates { campaigns, reply }).is_err() {
            return Vec::new();
        }
        let workers = self.status.counters().iter();
        let answers = workers.filter_map(|_| answers.recv_timeout(WORKERS_WAIT).ok());
        answers.flatten().map(|(_, fates)| fates).collect()
    }
}

impl super::survey::Catalogue for Edits {
    fn statics(&self) -> weir_edits::Statics {
        Edits::statics(self)
    }
}

fn ad(campaign_index: &CampaignIndex, id: u64) -> Option<&CampaignAd> {
    campaign_index.slot(id).map(|slot| campaign_index.ad(slot))
}

/// What became of a budget's own holds. `made` and `row` are some tenths of a second apart.
fn holds(made: u64, row: &SurveyRow) -> Holds {
    let resolved = row.resolved;
    let over = resolved.ended.saturating_add(row.expired_holds);
    Holds {
        made,
        open: Some(made.saturating_sub(over)),
        settled: Some(resolved.settled),
        released: Some(resolved.released),
        expired: Some(row.expired_holds),
        late: Some(resolved.late),
    }
}

fn window((window, used, ends_ms): (WindowLimit, Amount, u64)) -> WindowState {
    let bucket = window.kind == WindowKind::Bucket;
    WindowState { period: window.period.name(), bucket, limit: window.limit, used, ends_ms }
}

fn lines(row: &SurveyRow) -> Lines {
    let line = &row.line;
    let less =
        |a: ledger::Amount, b: ledger::Amount| ledger::Amount::new(a.get().saturating_sub(b.get()));
    Lines {
        free: line.free,
        purses: line.purses,
        held: less(less(line.held, row.suspended), line.expired),
        suspended: row.suspended,
        expired: line.expired,
        settled: line.settled,
        over_settled: line.over_settled,
        late: line.late,
        inferred: line.inferred,
        unknown_order: line.unknown_order,
    }
}

/// Caps of the campaign, and those of its creatives, each once.
fn caps(ad: &CampaignAd) -> Vec<Cap> {
    let cap = |cap: &gate_profile::Cap, of: String| Cap {
        max: cap.limit.into(),
        per: word(cap.window).to_string(),
        of,
    };
    let mut caps: Vec<Cap> = ad.caps.iter().map(|of| cap(of, "campaign".into())).collect();
    for (number, creative) in ad.creatives.iter().enumerate() {
        let own = creative.caps.iter().filter(|cap| cap.item == creative.item);
        let mut of = String::from("creative");
        // Writing to a string does not fail.
        let _ = write!(of, " {}", number + 1);
        caps.extend(own.map(|own| cap(own, of.clone())));
    }
    caps
}

/// As in the budgets file.
fn word(window: Window) -> &'static str {
    match window {
        Window::Minute => "minute",
        Window::Hour => "hour",
        Window::Day => "day",
        Window::Week => "week",
        Window::Lifetime => "lifetime",
        Window::RollingHour => "rolling-hour",
        Window::RollingDay => "rolling-day",
        Window::RollingWeek => "rolling-week",
    }
}
