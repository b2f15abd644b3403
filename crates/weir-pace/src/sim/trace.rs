//! A user's own traffic and campaigns: "what would this plan have done yesterday?".
//!
//! # The file
//! A `.jsonl` file, one object per line, of three kinds. Campaigns stand before the requests that name them; requests may
//! stand in any order. Amounts are **text in quotes**, in units of the one currency of the trace, with at most six
//! decimals; they are read exactly and never become a float. An unknown field is an error.
//!
//! ```jsonl
//! {"start":"2026-11-19T00:00:00+01:00"}
//! {"campaign":{"id":1,"budget":"100.00"}}
//! {"campaign":{"id":7,"budget":"25.50","plan":"linear"}}
//! {"t":"2026-11-19T08:00:00+01:00","price":"0.0019","eligible":{"1":"0.004"}}
//! {"t":"2026-11-19T20:15:30.250+01:00","price":"0.0030","eligible":{"1":"0.0031","7":"0.0025"}}
//! {"t":"2026-11-20T08:00:00+01:00","price":"0.0021","eligible":{"1":"0.004"},"id":"8f2c-11"}
//! {"t":1795183200.5,"price":"0","eligible":{}}
//! ```
//!
//! | line | field | meaning |
//! |---|---|---|
//! | campaign | `id` | its number |
//! | | `budget` | what it may spend on the simulated day, above 0 |
//! | | `plan` | `"learned"` from the first day (the default), `"linear"`, or 24 whole weights, one per hour of the day |
//! | request | `t` | when: RFC 3339, or seconds (since 1970, or since the first day began; decimals allowed) |
//! | | `price` | the highest outside bid for one impression; `"0"` if nobody else wanted it |
//! | | `eligible` | who may bid, and what the impression is worth to it: the highest bid allowed, above 0 |
//! | | `id` | optional text; coins and ties come from it, else from the number of the line |
//! | start | `start` | optional, once: when the first day begins; else midnight UTC before the first request |
//!
//! Requests may also be a `.csv` file with the columns `t`, `price`, `eligible` (`1:0.004 7:0.0025`) and optionally
//! `id`. Its campaigns are read from the file beside it whose name ends in `.campaigns.jsonl` instead of `.csv`.
//!
//! # The days
//! A day is 24 hours. If the trace spans two, the second is simulated, and plan, forecast and landscape come from the
//! first, as they would have on the evening between. If it spans one, they come from that day itself: a forecast better
//! than anybody's, and a [warning](Trace::warnings) says so. More than two days are an error.

use std::path::Path;

use money::Instant;

use super::day::{ARRIVALS_ONE, Auction, Day, DayCampaign, DayRequest, MINUTES, PLAN_ONE};
use super::day_landscape::{Replay, replay_among_rivals};
use super::trace_read::{self, CampaignLine, PlanLine, RequestLine, TraceLines};
pub use super::trace_read::{CAMPAIGNS_MAX, ERRORS_MAX, LINE_BYTES_MAX, REQUESTS_MAX, TraceError};

const DAY_MS: u64 = 86_400_000;
/// A first day that covers less of the 24 hours than this is worth a warning.
const COVERED_MS_MIN: u64 = 20 * 3_600_000;

/// A user's traffic and campaigns, read.
#[derive(Debug)]
pub struct Trace {
    lines: TraceLines,
    /// The day that is simulated.
    today: Vec<DayRequest>,
    /// The day before, if there is one.
    yesterday: Option<Vec<DayRequest>>,
    /// When the simulated day begins.
    start_ms: u64,
    warnings: Vec<String>,
}

impl Trace {
    /// Reads a trace: a `.jsonl` file, or a `.csv` file and its campaigns.
    ///
    /// # Errors
    /// All that is wrong with it, each with its file and line, at most [`ERRORS_MAX`].
    pub fn read(path: &Path) -> Result<Trace, Vec<TraceError>> {
        let mut lines = trace_read::read(path)?;
        lines.requests.sort_by_key(|request| request.at_ms);
        let first_ms = lines.requests.first().map_or(0, |request| request.at_ms);
        let start_ms = lines.start_ms.unwrap_or(first_ms - first_ms % DAY_MS);
        let outside = |request: &&RequestLine| {
            request.at_ms < start_ms || request.at_ms - start_ms >= 2 * DAY_MS
        };
        let outside: Vec<_> = lines.requests.iter().filter(outside).take(ERRORS_MAX).collect();
        if !outside.is_empty() {
            let file = path.display().to_string();
            return Err(outside
                .into_iter()
                .map(|request| misplaced(&file, request, start_ms))
                .collect());
        }
        Ok(Trace::split(lines, start_ms))
    }

    /// What a reader of the results should know about the trace.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The day to simulate. The auction matters for the landscape.
    pub fn day(&self, auction: Auction) -> Day {
        let known = self.yesterday.as_ref().unwrap_or(&self.today);
        let replays = replay_among_rivals(&self.known_day(known), auction);
        let counts = self.counts(known);
        let places = self.lines.campaigns.iter().zip(replays.iter().zip(counts));
        Day {
            campaigns: places
                .map(|(line, (replay, counts))| {
                    campaign(line.id, line.budget(), &line.plan, &counts, replay, auction)
                })
                .collect(),
            requests: self.today.clone(),
            eligible: self.lines.eligible.clone(),
            start_ms: self.start_ms,
            outages: Vec::new(),
            restarts: Vec::new(),
        }
    }

    /// The day that plan, forecast and landscape come from.
    fn known_day(&self, known: &[DayRequest]) -> Day {
        let budget =
            |line: &CampaignLine| DayCampaign { budget: line.budget(), ..DayCampaign::default() };
        Day {
            campaigns: self.lines.campaigns.iter().map(budget).collect(),
            requests: known.to_vec(),
            eligible: self.lines.eligible.clone(),
            ..Day::default()
        }
    }

    /// Splits requests in order of time, all within two days, at midnight.
    fn split(mut lines: TraceLines, start_ms: u64) -> Trace {
        let requests = std::mem::take(&mut lines.requests);
        let second = requests.partition_point(|request| request.at_ms - start_ms < DAY_MS);
        let (first, second) = requests.split_at(second);
        let of = |requests: &[RequestLine], start_ms| -> Vec<DayRequest> {
            requests.iter().map(|request| on_day(request, start_ms)).collect()
        };
        let mut trace = Trace {
            lines,
            today: of(first, start_ms),
            yesterday: None,
            start_ms,
            warnings: Vec::new(),
        };
        if !second.is_empty() {
            trace.start_ms = start_ms + DAY_MS;
            trace.yesterday = Some(std::mem::replace(&mut trace.today, of(second, trace.start_ms)));
        }
        trace.warnings = trace.find_warnings();
        trace
    }

    fn find_warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let known = self.yesterday.as_ref().unwrap_or(&self.today);
        if self.yesterday.is_none() {
            warnings.push(
                "the trace has one day: plan, forecast and landscape come from that day itself, so real results \
                 would be worse; give the day before it too"
                    .to_owned(),
            );
        } else if let [first, .., last] = known.as_slice()
            && u64::from(last.at_ms - first.at_ms) < COVERED_MS_MIN
        {
            let time = |at_ms: u32| Instant::from_ms(self.start_ms - DAY_MS + u64::from(at_ms));
            warnings.push(format!(
                "the first day has requests from {} to {} only, so plan and forecast know nothing of the rest; \
                 \"start\" says when a day begins",
                time(first.at_ms),
                time(last.at_ms)
            ));
        }
        for (line, counts) in self.lines.campaigns.iter().zip(self.counts(known)) {
            if counts.iter().sum::<u64>() == 0 {
                let id = line.id;
                warnings.push(format!(
                    "campaign {id} is eligible for no request of the day that forecasts come from: it has no \
                     forecast, and a learned plan is linear"
                ));
            }
        }
        warnings
    }

    /// Eligible requests of each campaign by minute.
    fn counts(&self, requests: &[DayRequest]) -> Vec<Vec<u64>> {
        let mut counts = vec![vec![0; MINUTES]; self.lines.campaigns.len()];
        for request in requests {
            let first = request.first as usize;
            for eligible in &self.lines.eligible[first..first + usize::from(request.count)] {
                counts[usize::from(eligible.campaign)][request.at_ms as usize / 60_000] += 1;
            }
        }
        counts
    }
}

fn misplaced(file: &str, request: &RequestLine, start_ms: u64) -> TraceError {
    let [found, from, to] =
        [request.at_ms, start_ms, start_ms.saturating_add(2 * DAY_MS)].map(Instant::from_ms);
    TraceError::Line {
        file: file.to_owned(),
        line: request.line,
        text: format!(
            "t: found {found}, expected a time of the two days from {from} to before {to}"
        ),
    }
}

/// A request within the day that begins at this time.
fn on_day(request: &RequestLine, start_ms: u64) -> DayRequest {
    DayRequest {
        id: request.id,
        // Below 86,400,000, as it lies within that day.
        at_ms: u32::try_from(request.at_ms - start_ms).unwrap_or(0),
        first: request.first,
        count: request.count,
        price: request.price,
    }
}

fn campaign(
    id: u64,
    budget: i64,
    plan: &PlanLine,
    counts: &[u64],
    replay: &Replay,
    auction: Auction,
) -> DayCampaign {
    let linear = || vec![1; MINUTES];
    let plan = match plan {
        PlanLine::Learned if counts.iter().any(|&count| count > 0) => shares(counts),
        PlanLine::Learned | PlanLine::Linear => shares(&linear()),
        PlanLine::Hours(weights) => {
            let minute = |minute: usize| u64::from(weights[minute / 60]);
            shares(&(0..MINUTES).map(minute).collect::<Vec<_>>())
        }
    };
    let arrivals = sums(counts).into_iter().map(|sum| sum * ARRIVALS_ONE).collect();
    DayCampaign { id, budget, plan, arrivals, landscape: replay.landscape(auction) }
}

/// Cumulative shares of minutes, of which one at least is above 0.
fn shares(minutes: &[u64]) -> Vec<u64> {
    let sums = sums(minutes);
    let whole = u128::from(sums[minutes.len()].max(1));
    let share = |sum: u64| u128::from(sum) * u128::from(PLAN_ONE) / whole;
    // At most one, as no sum is above the last.
    sums.into_iter().map(|sum| u64::try_from(share(sum)).unwrap_or(PLAN_ONE)).collect()
}

/// Sums before each minute and at the end.
fn sums(minutes: &[u64]) -> Vec<u64> {
    let mut sums = Vec::with_capacity(minutes.len() + 1);
    let mut sum = 0;
    sums.push(sum);
    for minute in minutes {
        sum += minute;
        sums.push(sum);
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::day::Eligible;
    use std::fs;
    use tempfile::TempDir;

    /// The example of the module's own documentation.
    fn example() -> String {
        let text = include_str!("trace.rs");
        let (_, rest) = text.split_once("//! ```jsonl\n").unwrap();
        let (block, _) = rest.split_once("//! ```").unwrap();
        block.lines().map(|line| line.trim_start_matches("//! ").to_owned() + "\n").collect()
    }

    fn read(files: &[(&str, &str)]) -> Result<Trace, Vec<String>> {
        let folder = TempDir::new().unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let result = Trace::read(&folder.path().join(files[0].0));
        let prefix = format!("{}/", folder.path().display());
        result.map_err(|errors| {
            errors.iter().map(|error| error.to_string().replace(&prefix, "")).collect()
        })
    }

    fn jsonl(text: &str) -> Result<Trace, Vec<String>> {
        read(&[("t.jsonl", text)])
    }

    /// The errors of a file that begins with a good campaign and goes on like this.
    fn errors(rest: &str) -> Vec<String> {
        jsonl(&format!("{{\"campaign\":{{\"id\":1,\"budget\":\"1\"}}}}\n{rest}")).unwrap_err()
    }

    #[test]
    fn the_documented_example_is_two_days() {
        let trace = jsonl(&example()).unwrap();
        let day = trace.day(Auction::Second);
        assert_eq!(Instant::from_ms(day.start_ms).to_string(), "2026-11-19T23:00:00Z");
        let found: Vec<_> = day.requests.iter().map(|r| (r.at_ms, r.price, r.count)).collect();
        assert_eq!(found, [(28_800_000, 2100, 1), (54_000_500, 0, 0)]);
        assert_eq!(day.eligible(&day.requests[0]), [Eligible { campaign: 0, value: 4000 }]);
        let budgets: Vec<_> = day.campaigns.iter().map(|c| (c.id, c.budget)).collect();
        assert_eq!(budgets, [(1, 100_000_000), (7, 25_500_000)]);
        let [warning] = trace.warnings() else { panic!("{:?}", trace.warnings()) };
        assert!(warning.contains("from 2026-11-19T07:00:00Z to 2026-11-19T19:15:30.250Z only"));
    }

    #[test]
    fn the_first_day_is_the_forecast_of_the_second() {
        let day = jsonl(&example()).unwrap().day(Auction::Second);
        let [learned, linear] = &day.campaigns[..] else { panic!("two campaigns") };
        // Eight in the morning, and a quarter past eight in the evening.
        let arrivals = [480, 481, 1215, 1216, 1440].map(|minute| learned.arrivals[minute]);
        assert_eq!(arrivals, [0, 256, 256, 512, 512]);
        assert_eq!(learned.plan[481], PLAN_ONE / 2);
        assert_eq!(linear.plan[360], PLAN_ONE / 4);
        assert_eq!(linear.arrivals[1440], 256);
        // Full bids win both for 0.0049; the other campaign's one for nothing, as it bids less.
        assert_eq!(learned.landscape[24], (1 << 32, 4900 * 65_536 / 2));
        assert_eq!(linear.landscape[24], (1 << 32, 0));
    }

    #[test]
    fn one_day_is_its_own_forecast_and_says_so() {
        let trace = jsonl(
            "{\"campaign\":{\"id\":1,\"budget\":\"1\"}}\n{\"campaign\":{\"id\":2,\"budget\":\"1\"}}\n\
             {\"t\":60,\"price\":\"0\",\"eligible\":{\"1\":\"0.000001\"}}\n",
        )
        .unwrap();
        let day = trace.day(Auction::First);
        assert_eq!((day.start_ms, day.requests.len()), (0, 1));
        assert_eq!(day.campaigns[0].arrivals[2], 256);
        assert_eq!(day.campaigns[1].landscape, []);
        assert_eq!(day.campaigns[1].plan[720], PLAN_ONE / 2);
        assert_eq!(trace.warnings().len(), 2, "{:?}", trace.warnings());
        assert!(trace.warnings()[0].starts_with("the trace has one day"));
        assert!(trace.warnings()[1].starts_with("campaign 2 is eligible for no request"));
    }

    #[test]
    fn hours_are_a_plan() {
        let hours = format!("{}1,3", "0,".repeat(22));
        let text = format!(
            "{{\"campaign\":{{\"id\":1,\"budget\":\"1\",\"plan\":[{hours}]}}}}\n\
             {{\"t\":0,\"price\":\"0\",\"eligible\":{{}}}}"
        );
        let day = jsonl(&text).unwrap().day(Auction::Second);
        let plan = [1320, 1380, 1440].map(|minute| day.campaigns[0].plan[minute]);
        assert_eq!(plan, [0, PLAN_ONE / 4, PLAN_ONE]);
    }

    #[test]
    fn a_csv_file_has_its_campaigns_beside_it() {
        let campaigns = ("t.campaigns.jsonl", "{\"campaign\":{\"id\":5,\"budget\":\"1\"}}\n");
        let csv = "id,t,price,eligible\na,90000.25,0.001,5:0.002\n,2,0.001,\n";
        let day = read(&[("t.csv", csv), campaigns]).unwrap().day(Auction::Second);
        assert_eq!((day.start_ms, day.requests.len()), (86_400_000, 1));
        assert_eq!(
            (day.requests[0].at_ms, day.eligible(&day.requests[0])[0].value),
            (3_600_250, 2000)
        );

        let csv = "t,price,eligible\n0,x,\n0,0,5\n0,0\n0,0,5:1 5:1\n";
        assert_eq!(
            read(&[("t.csv", csv), campaigns]).unwrap_err(),
            [
                "t.csv:2: price: amount \"x\": found 'x' at character 1, expected a digit",
                "t.csv:3: eligible: found \"5\", expected campaign:value such as 1:0.004",
                "t.csv:4: found 2 fields, expected 3",
                "t.csv:5: eligible: found campaign 5 twice, expected it once",
            ]
        );
        assert_eq!(
            read(&[("t.csv", "t,cost\n"), campaigns]).unwrap_err(),
            [
                "t.csv:1: found column \"cost\", expected t, price, eligible and, if there are any, id"
            ]
        );
        let empty = read(&[("t.csv", csv), ("t.campaigns.jsonl", "")]).unwrap_err();
        assert!(empty[0].starts_with("t.campaigns.jsonl: found no campaign"), "{empty:?}");
        let missing = read(&[("t.csv", "t,price,eligible\n")]).unwrap_err();
        assert!(missing[0].starts_with("t.campaigns.jsonl: cannot be read: "), "{missing:?}");
    }

    #[test]
    fn wrong_lines_say_where_what_and_what_else() {
        for (line, expected) in [
            (
                r#"{"t":0,"price":0.0021,"eligible":{}}"#,
                "t.jsonl:2: column 21: invalid type: floating point `0.0021`, expected an amount as text in \
                 quotes, such as \"0.0021\"",
            ),
            (
                r#"{"t":0,"price":"0,21","eligible":{}}"#,
                "t.jsonl:2: column 21: amount \"0,21\": found ',' at character 2, expected a digit, a decimal \
                 point or the end",
            ),
            (
                r#"{"t":0,"price":"-1","eligible":{}}"#,
                "t.jsonl:2: price: found -1.00, expected 0.00 to 1000000000.00",
            ),
            (
                r#"{"t":0,"price":"1","eligible":{"2":"1"}}"#,
                "t.jsonl:2: eligible: found campaign 2, expected a campaign of a line before this one",
            ),
            (
                r#"{"t":0,"price":"1","eligible":{"1":"0"}}"#,
                "t.jsonl:2: eligible: found 0.00, expected 0.000001 to 1000000000.00",
            ),
            (
                r#"{"campaign":{"id":1,"budget":"2"}}"#,
                "t.jsonl:2: found campaign 1 again, expected each campaign once",
            ),
            (
                r#"{"campaign":{"id":2,"budget":"0"}}"#,
                "t.jsonl:2: budget: found 0.00, expected 0.000001 to 1000000000000.00",
            ),
            (
                r#"{"t":0,"eligible":{}}"#,
                "t.jsonl:2: found t, eligible; expected campaign alone, start alone, or t, price, eligible (and id)",
            ),
        ] {
            assert_eq!(errors(line), [expected]);
        }
        for (line, part) in [
            (r#"{"t":"today","price":"1","eligible":{}}"#, "expected a digit"),
            (r#"{"t":-1,"price":"1","eligible":{}}"#, "expected a time such as"),
            (r#"{"t":0,"price":"1","eligible":{"1":"1","1":"1"}}"#, "found campaign 1 twice"),
            (r#"{"t":0,"price":"1","eligible":{"x":"1"}}"#, "found campaign \"x\""),
            (r#"{"t":0,"cost":"1"}"#, "unknown field `cost`, expected one of"),
            (r#"{"campaign":{"id":2,"budget":"1","plan":[1,2]}}"#, "invalid length 2, expected"),
            (
                r#"{"campaign":{"id":2,"budget":"1","plan":"fast"}}"#,
                "string \"fast\", expected \"learned\"",
            ),
            ("nonsense", "column 2: expected"),
        ] {
            let found = errors(line);
            assert!(found.len() == 1 && found[0].starts_with("t.jsonl:2: "), "{found:?}");
            assert!(found[0].contains(part), "{found:?}");
        }
    }

    #[test]
    fn a_third_day_is_refused_at_its_line() {
        let request = |t: u64| format!("{{\"t\":{t},\"price\":\"1\",\"eligible\":{{}}}}\n");
        assert_eq!(
            errors(&(request(172_800) + &request(0))),
            ["t.jsonl:2: t: found 1970-01-03T00:00:00Z, expected a time of the two days from \
                 1970-01-01T00:00:00Z to before 1970-01-03T00:00:00Z"]
        );
        let early = "{\"start\":86400}\n".to_owned() + &request(0);
        assert!(errors(&early)[0].starts_with("t.jsonl:3: t: found 1970-01-01T00:00:00Z"));
    }

    #[test]
    fn nothing_to_simulate_is_an_error() {
        assert!(jsonl("").unwrap_err()[0].starts_with("t.jsonl: found no campaign"));
        assert!(errors("\n\n")[0].starts_with("t.jsonl: found no request"));
        assert!(read(&[("t.txt", "")]).unwrap_err()[0].contains("expected a name that ends in"));
    }

    #[test]
    fn only_so_many_errors_are_told() {
        assert_eq!(errors(&"x\n".repeat(ERRORS_MAX + 5)).len(), ERRORS_MAX);
    }

    #[test]
    fn a_line_without_an_end_is_not_read_into_memory() {
        let long = "x".repeat(usize::try_from(LINE_BYTES_MAX).unwrap() + 1);
        let found = errors(&long);
        assert_eq!(
            found,
            ["t.jsonl:2: found more than 1048576 bytes without an end, expected a shorter line"]
        );
    }

    #[test]
    fn an_id_decides_the_hash_and_a_line_stands_in_for_it() {
        let text = |line: &str| {
            let rest = r#"{"t":0,"price":"1","eligible":{},"id":"a"}"#;
            format!("{{\"campaign\":{{\"id\":1,\"budget\":\"1\"}}}}\n{line}\n{rest}\n{rest}\n")
        };
        let day = jsonl(&text(r#"{"t":0,"price":"1","eligible":{}}"#)).unwrap().day(Auction::First);
        let ids: Vec<_> = day.requests.iter().map(|request| request.id).collect();
        assert!(ids[0] != ids[1] && ids[1] == ids[2], "{ids:?}");
    }
}
