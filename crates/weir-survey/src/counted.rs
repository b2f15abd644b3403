//! All counters of a node, read at one place: `/stat`, `GET /v1/node`, `/metrics` and the table in the documentation come from here.
//!
//! What a counter is called and means stands where it is counted ([`counters::counters!`]); here stands only which structs of counters a
//! node has, and those counters that are one number per reason of a list.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use counters::{Definition, Family, Kind, Unit, counters};
use door_batch::gate::counts::BatchCounts;
use door_fix::gate::counts::FixCounts;
use door_keys::gate::counts::KeysCounts;
use door_openrtb::counts::{ExchangeCounts, Happening, Reasons, by_exchange, happenings};
use door_spend::gate::counts as spend;
use door_transport::{CloseReason, Counters, HandshakeFailure};
use figures_store::Progress;
use ledger_journal::Kept;
use serde_json::{Map, Value, json};
use weir_door::WorkerCounters;
use weir_node::bank::Report;
use weir_node::memory::{self, Memory};
use weir_till::Totals;
use wire::{Reason, Verdict};

use crate::admin::Status;
use crate::costs::openmetrics::{Exposition, FamilyKind, Unit as FamilyUnit};

counters! {
    /// What became of the budgets file.
    #[derive(Clone, Copy, Debug, Default)]
    pub(crate) struct FileCounts of u64, in "budgets_file" {
        loads: "Sets of budgets that came into force.";
        refused: "Sets of budgets that were refused.", failing("budgets_refused", "/docs/budgets.md");
    }
}

counters! {
    /// What the bank's thread counts beside its books.
    #[derive(Clone, Copy, Debug, Default)]
    struct ClockCounts of u64, in "clock" {
        holds: "Times that the node's clock was held for 5 seconds, because the system's stepped.", failing("clock_held", "/docs/operations.md#the-clock");
    }
}

counters! {
    /// What became of alerts.
    #[derive(Clone, Copy, Debug, Default)]
    struct AlertsSent of u64, in "alerts" {
        delivered: "Alerts that the receiver took.";
        given_up: "Alerts that the receiver did not take in three days.", failing("alerts_given_up", "/docs/alerts.md");
        waiting: "Alerts that wait for their next attempt.", level();
    }
}

const VERDICTS: Definition = Definition::new("doors.batch", "verdicts", "Asks by verdict.")
    .by("verdict")
    .elsewhere("weir_decisions");
const RESOLVED: Definition = Definition::new(
    "doors.batch",
    "resolved",
    "Confirms, settles and releases by verdict; `forged`, `foreign`, `too_old` and `expired` should be rare.",
)
.by("verdict")
.elsewhere("weir_resolves");
const REFUSED: Definition = Definition::new(
    "doors.batch",
    "refused_frames",
    "Frames refused whole, by reason; anything but `busy` points to a faulty client.",
)
.by("reason")
.failing("frame_", "/docs/formats.md");
const PARTS: Definition = Definition::new(
    "memory",
    "parts",
    "What the largest parts of the node kept when they were last built; what they allocated since is in `in_use` alone.",
)
.level()
.bytes()
.by("part");
const CLOSED: Definition =
    Definition::new("doors.batch", "closed", "Closed connections, by cause.").by("cause");
const HANDSHAKES_FAILED: Definition =
    Definition::new("transport", "handshakes_failed", "TLS handshakes that failed, by cause.")
        .by("cause");
const OPENRTB: [(Reasons, Definition); 5] = [
    (
        Reasons::NoBids,
        Definition::new("doors.openrtb", "no_bids", "Requests without a bid, by reason.")
            .by("reason")
            .elsewhere("weir_decisions"),
    ),
    (
        Reasons::BadRequests,
        Definition::new("doors.openrtb", "bad_requests", "Requests answered 400, by reason.")
            .by("reason"),
    ),
    (
        Reasons::Refusals,
        Definition::new(
            "doors.openrtb",
            "refused_http",
            "Requests that are no sound HTTP, by reason.",
        )
        .by("reason"),
    ),
    (
        Reasons::Violations,
        Definition::new(
            "doors.openrtb",
            "violations",
            "Bids of ours that failed their own check and were not sent: report them as a bug.",
        )
        .by("check")
        .failing("bids_unsound", "/docs/openrtb.md"),
    ),
    (
        Reasons::Withheld,
        Definition::new(
            "doors.openrtb",
            "withheld",
            "Requests of whose data something was not used, by what forbids it.",
        )
        .by("cause"),
    ),
];

const SPEND: [(spend::CallReasons, Definition); 5] = [
    (
        spend::CallReasons::Calls,
        Definition::new("doors.spend", "calls", "Calls with an outcome, by which.").by("call"),
    ),
    (
        spend::CallReasons::Asks,
        Definition::new("doors.spend", "asks", "Reserve and spend by verdict.")
            .by("verdict")
            .elsewhere("weir_decisions"),
    ),
    (
        spend::CallReasons::Resolves,
        Definition::new("doors.spend", "resolves", "Confirm, settle and release by verdict.")
            .by("verdict"),
    ),
    (
        spend::CallReasons::Faults,
        Definition::new(
            "doors.spend",
            "faults",
            "Requests and entries of batches that are no calls, by reason.",
        )
        .by("reason"),
    ),
    (
        spend::CallReasons::Refusals,
        Definition::new(
            "doors.spend",
            "refused_http",
            "Requests that are no sound HTTP, by reason.",
        )
        .by("reason"),
    ),
];

/// A counter with its value, over all workers.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    definition: Definition,
    count: Count,
}

#[derive(Clone, Debug)]
enum Count {
    One(u64),
    /// By label; those that never occurred may be missing.
    Each(Vec<(&'static str, u64)>),
}

/// All counters of a node.
#[derive(Clone, Debug, Default)]
pub struct Registry(Vec<Counted>);

/// Where counters are read.
#[derive(Clone, Copy, Default)]
struct Places<'a> {
    loops: &'a [door_transport::Handle],
    workers: &'a [Arc<WorkerCounters>],
    report: Option<&'a Report>,
    profiles: Option<&'a gate_profile::Figures>,
    file: Option<&'a FileCounts>,
    clock: Option<&'a ClockCounts>,
    alerts: Option<&'a AlertsSent>,
    memory: Option<Memory>,
    figures: Option<Progress>,
}

impl Registry {
    /// How a node's counters stand.
    pub(crate) fn read(status: &Status, report: &Report) -> Registry {
        let (profiles, file) = (status.profiles().figures(), status.file_counts());
        let clock = ClockCounts { holds: status.pulse().clock_held() };
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let alerts = status.alerts();
        let alerts = AlertsSent {
            delivered: of(&alerts.delivered),
            given_up: of(&alerts.given_up),
            waiting: of(&alerts.waiting),
        };
        Registry::of(Places {
            loops: status.handles(),
            workers: status.counters(),
            report: Some(report),
            profiles: Some(&profiles),
            file: Some(&file),
            clock: Some(&clock),
            alerts: Some(&alerts),
            memory: Some(Memory::read()),
            figures: Some(status.figures().progress()),
        })
    }

    /// Every counter with its place in `/stat`, its family in `/metrics` and its meaning as a Markdown table, as docs/watching.md has it.
    #[must_use]
    pub fn table() -> String {
        let rows: Vec<String> =
            Registry::of(Places::default()).0.iter().map(|one| one.definition.row()).collect();
        format!("| counter | family | meaning |\n| --- | --- | --- |\n{}", rows.concat())
    }

    fn of(places: Places<'_>) -> Registry {
        let Places { loops, workers, report, profiles, file, clock, alerts, memory, figures } =
            places;
        let openrtb = workers.iter().map(|worker| worker.of());
        let mut all = Registry::default();
        all.add(Totals::DEFINITIONS, report.iter().map(|report| report.totals.values()));
        all.each(VERDICTS, report.map(|report| named(&report.totals.verdicts)));
        all.each(RESOLVED, report.map(|report| named(&report.resolved)));
        let batch = workers.iter().map(|worker| worker.of::<BatchCounts>());
        let refused = |reason: &Reason| {
            (reason.name(), batch.clone().map(|counts| counts.refused(*reason)).sum())
        };
        all.each(REFUSED, Some(Reason::ALL.iter().map(refused).collect()));
        all.add(BatchCounts::DEFINITIONS, batch.map(BatchCounts::values));
        all.add(WorkerCounters::DEFINITIONS, workers.iter().map(|worker| worker.values()));
        all.add(Counters::DEFINITIONS, loops.iter().map(|one| one.counters().values()));
        let over_loops = |read: &dyn Fn(&Counters) -> u64| {
            loops.iter().map(|one| read(one.counters())).sum::<u64>()
        };
        let closed = |why: CloseReason| (why.name(), over_loops(&|one| one.closed(why)));
        all.each(CLOSED, Some(CloseReason::ALL.into_iter().map(closed).collect()));
        let failed =
            |why: HandshakeFailure| (why.name(), over_loops(&|one| one.handshakes_failed(why)));
        all.each(HANDSHAKES_FAILED, Some(HandshakeFailure::ALL.into_iter().map(failed).collect()));
        all.add(&Happening::DEFINITIONS, [happenings(openrtb.clone())].into_iter());
        for (reasons, definition) in OPENRTB {
            all.each(definition, Some(reasons.sums(openrtb.clone())));
        }
        let exchanges = by_exchange(openrtb.clone());
        for (at, definition) in ExchangeCounts::DEFINITIONS.iter().enumerate() {
            let counts = exchanges.iter().map(|(name, counts)| (*name, counts[at]));
            all.each(*definition, Some(counts.collect()));
        }
        let calls = workers.iter().map(|worker| worker.of());
        all.add(&spend::Happening::DEFINITIONS, [spend::happenings(calls.clone())].into_iter());
        for (reasons, definition) in SPEND {
            all.each(definition, Some(reasons.sums(calls.clone())));
        }
        all.add(
            FixCounts::DEFINITIONS,
            workers.iter().map(|worker| worker.of::<FixCounts>().values()),
        );
        all.add(
            KeysCounts::DEFINITIONS,
            workers.iter().map(|worker| worker.of::<KeysCounts>().values()),
        );
        all.add(ledger::Counts::DEFINITIONS, report.iter().map(|report| report.bank.values()));
        let journals = report.map(|report| &report.journal);
        let journal = journals.iter().map(|journal| journal.values());
        all.add(ledger_journal::Figures::DEFINITIONS, journal);
        all.add(Kept::DEFINITIONS, journals.iter().map(|journal| journal.kept.values()));
        all.add(gate_profile::Figures::DEFINITIONS, profiles.iter().map(|found| found.values()));
        all.add(FileCounts::DEFINITIONS, file.iter().map(|file| file.values()));
        all.add(ClockCounts::DEFINITIONS, clock.iter().map(|clock| clock.values()));
        all.add(AlertsSent::DEFINITIONS, alerts.iter().map(|alerts| alerts.values()));
        all.add(Memory::DEFINITIONS, memory.iter().map(Memory::values));
        all.each(PARTS, memory.map(|_| memory::by_part()));
        all.add(Progress::DEFINITIONS, figures.iter().map(Progress::values));
        all
    }

    /// Counters that stand in several places, one row of values for each.
    fn add(&mut self, definitions: &[Definition], rows: impl Iterator<Item = Vec<u64>>) {
        let mut sums = vec![0_u64; definitions.len()];
        for row in rows {
            sums.iter_mut().zip(row).for_each(|(sum, value)| *sum = sum.saturating_add(value));
        }
        let counted = definitions.iter().zip(sums);
        self.0.extend(
            counted.map(|(definition, sum)| Counted {
                definition: *definition,
                count: Count::One(sum),
            }),
        );
    }

    fn each(&mut self, definition: Definition, counts: Option<Vec<(&'static str, u64)>>) {
        self.0.push(Counted { definition, count: Count::Each(counts.unwrap_or_default()) });
    }

    /// Puts each counter into the JSON of `/stat`, at its place. Of those by label, only what occurred.
    pub(crate) fn write_stat(&self, stat: &mut Map<String, Value>) {
        for Counted { definition, count } in &self.0 {
            if let (Count::Each(counts), true) = (count, definition.name.contains('*')) {
                let path = format!("{}.{}", definition.place, definition.name);
                let occurred = counts.iter().filter(|(_, count)| *count > 0);
                occurred
                    .for_each(|(of, count)| insert(stat, &path.replace('*', of), (*count).into()));
                continue;
            }
            let value = match count {
                Count::One(count) => (*count).into(),
                Count::Each(counts) => {
                    let occurred = counts.iter().filter(|(_, count)| *count > 0);
                    occurred
                        .map(|(label, count)| ((*label).to_string(), Value::from(*count)))
                        .collect()
                }
            };
            insert(stat, &format!("{}.{}", definition.place, definition.name), value);
        }
    }

    /// Every value, for `GET /v1/node`. Of those by label, only what occurred.
    pub(crate) fn to_json(&self) -> Vec<Value> {
        let mut all = Vec::new();
        for Counted { definition, count } in &self.0 {
            let row = |of: Option<&str>, count: u64| {
                json!({
                    "counter": format!("{}.{}", definition.place, definition.name),
                    "of": of, "unit": definition.unit.name(), "count": count,
                })
            };
            match count {
                Count::One(count) => all.push(row(None, *count)),
                Count::Each(counts) => {
                    let occurred = counts.iter().filter(|(_, count)| *count > 0);
                    all.extend(occurred.map(|(label, count)| row(Some(label), *count)));
                }
            }
        }
        all
    }

    /// What should not happen: its code, how often it did, where it is explained.
    pub(crate) fn errors(&self) -> Vec<(String, u64, &'static str)> {
        let mut errors = Vec::new();
        for Counted { definition, count } in &self.0 {
            let Some(failing) = definition.failing else { continue };
            let code = failing.code;
            match count {
                Count::One(count) => errors.push((code.to_string(), *count, failing.page)),
                Count::Each(counts) if code.ends_with('_') => {
                    let each = counts.iter();
                    errors.extend(
                        each.map(|(label, count)| (format!("{code}{label}"), *count, failing.page)),
                    );
                }
                Count::Each(counts) => {
                    let sum = counts.iter().map(|(_, count)| count).sum();
                    errors.push((code.to_string(), sum, failing.page));
                }
            }
        }
        errors
    }

    /// The families of `/metrics` that are one counter.
    pub(crate) fn write_families(&self, text: &mut Exposition) {
        for Counted { definition, count } in &self.0 {
            if matches!(definition.family, Family::Elsewhere(_)) {
                continue;
            }
            let kind = match definition.kind {
                Kind::Sum => FamilyKind::Counter,
                Kind::Level => FamilyKind::Gauge,
            };
            let name = definition.family_name();
            match (definition.unit, name.strip_suffix("_bytes")) {
                (Unit::Bytes, Some(name)) => {
                    text.in_unit(name, FamilyUnit::Bytes, kind, definition.help)
                }
                _ => text.family(&name, kind, definition.help),
            }
            match (count, definition.label) {
                (Count::Each(counts), Some(label)) => {
                    counts.iter().for_each(|(of, count)| text.count(&[(label, of)], *count));
                }
                (Count::Each(_), None) => {}
                (Count::One(count), _) => text.count(&[], *count),
            }
        }
    }
}

fn named(verdicts: &[(Verdict, u64)]) -> Vec<(&'static str, u64)> {
    verdicts.iter().map(|(verdict, count)| (verdict.name(), *count)).collect()
}

/// Puts a value into nested objects, which are made where they are missing; a dot stands before each.
fn insert(object: &mut Map<String, Value>, path: &str, value: Value) {
    let Some((first, rest)) = path.split_once('.') else {
        object.insert(path.to_string(), value);
        return;
    };
    let inner = object.entry(first).or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(inner) = inner {
        insert(inner, rest, value);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn all() -> Vec<Definition> {
        Registry::of(Places::default()).0.into_iter().map(|one| one.definition).collect()
    }

    #[test]
    fn no_two_counters_have_one_name() {
        let all = all();
        let stat: BTreeSet<String> =
            all.iter().map(|one| format!("{}.{}", one.place, one.name)).collect();
        assert_eq!(stat.len(), all.len());
        let own: Vec<String> = all
            .iter()
            .filter(|one| !matches!(one.family, Family::Elsewhere(_)))
            .map(Definition::family_name)
            .collect();
        assert_eq!(own.iter().collect::<BTreeSet<_>>().len(), own.len(), "{own:?}");
        let codes: Vec<&str> =
            all.iter().filter_map(|one| one.failing).map(|failing| failing.code).collect();
        assert_eq!(codes.iter().collect::<BTreeSet<_>>().len(), codes.len(), "{codes:?}");
    }

    #[test]
    fn a_counter_is_shown_at_each_place() {
        let mut all = Registry::default();
        let plain =
            Definition::new("doors.batch", "reads.hot", "Help.").failing("hot", "/docs/x.md");
        all.add(&[plain], [vec![2], vec![3]].into_iter());
        all.add(
            &[Definition::new("transport", "memory_bytes", "Bytes.").bytes().level()],
            [vec![9]].into_iter(),
        );
        all.each(
            Definition::new("bank", "closed", "Why.").by("cause"),
            Some(vec![("idle", 4), ("late", 0)]),
        );
        let each = Definition::new("doors.batch", "of.*.reads", "Reads.").by("who");
        all.each(each.family("weir_reads_of"), Some(vec![("a", 6), ("b", 0)]));
        let mut stat = Map::new();
        all.write_stat(&mut stat);
        let expected = json!({
            "doors": { "batch": { "reads": { "hot": 5 }, "of": { "a": { "reads": 6 } } } }, "transport": { "memory_bytes": 9 },
            "bank": { "closed": { "idle": 4 } },
        });
        assert_eq!(Value::Object(stat), expected);
        assert_eq!(all.errors(), [("hot".to_string(), 5, "/docs/x.md")]);
        let closed = json!({ "counter": "bank.closed", "of": "idle", "unit": "", "count": 4 });
        assert_eq!((all.to_json().len(), &all.to_json()[2]), (4, &closed));
        let mut text = Exposition::default();
        all.write_families(&mut text);
        let text = text.finish();
        for line in [
            "# TYPE weir_transport_memory_bytes gauge\n",
            "weir_transport_memory_bytes 9\n",
            "weir_bank_closed_total{cause=\"idle\"} 4\n",
            "weir_reads_of_total{who=\"a\"} 6\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
        assert!(!text.contains("reads_hot"), "weir_errors has it: {text}");
    }

    /// `weir stat --counters` prints it.
    #[test]
    fn the_documentation_has_every_counter_as_it_is_defined() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/watching.md");
        let page = std::fs::read_to_string(page).unwrap();
        for row in Registry::table().lines() {
            assert!(
                page.contains(row),
                "docs/watching.md lacks the row of `weir stat --counters`\n{row}"
            );
        }
        let names: BTreeSet<String> =
            all().iter().map(|one| format!("{}.{}", one.place, one.name)).collect();
        let is_row = |line: &&str| {
            let name = line.strip_prefix("| `").and_then(|rest| rest.split('`').next());
            name.is_some_and(|name| names.contains(name.trim_end_matches(".*")))
        };
        assert_eq!(page.lines().filter(is_row).count(), all().len(), "one row per counter");
    }
}
