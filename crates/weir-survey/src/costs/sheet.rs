//! From what a node measured to its cost sheet.
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts and times of a measurement, below 2^52, for people"
)]

use probe::sheet::{Alternative, Group, Requests, Row as SheetRow, Sheet, Totals};
use probe::{Cycles, Nanos, StageFigures, TimerCost};
use weir_node::measured::{Measured, MeasuredThread};

use super::known::{self, Alternatives, Baseline};
use super::rows::{Beside, KERNEL, PROBES, Per, Probes, ROWS, Row, THREADS};

/// The kernel tells its own share of a thread's time in steps of this, ns...
const KERNEL_STEP_NS: f64 = 10e6;
/// ...and knows it from where the thread was at each of its ticks, which most kernels have every so many ns.
const KERNEL_TICK_NS: f64 = 4e6;
/// Standard deviations within which 19 of 20 estimates are.
const DEVIATIONS: f64 = 1.96;

/// Where and when a sheet was made.
#[derive(Clone, Debug)]
pub(crate) struct Heading {
    /// What was measured.
    pub(crate) title: String,
    /// The machine.
    pub(crate) machine: String,
    /// The moment.
    pub(crate) date: String,
    /// What else a reader must know.
    pub(crate) notes: Vec<String>,
}

/// What figures are made with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instruments<'a> {
    /// What the timer takes.
    pub(crate) timer: &'a TimerCost,
    /// Nanoseconds of a tick.
    pub(crate) ns_per_tick: f64,
    /// What rows were compared with.
    pub(crate) alternatives: &'a Alternatives,
    /// What rows take in instructions.
    pub(crate) baseline: &'a Baseline,
}

impl Instruments<'static> {
    /// Those of this process.
    pub(crate) fn get() -> Instruments<'static> {
        Instruments {
            timer: TimerCost::get(),
            ns_per_tick: Cycles::get().ns_per_tick(),
            alternatives: known::alternatives(),
            baseline: known::baseline(),
        }
    }
}

/// Rows and the kernel's processor time of threads that differ by more than this part of it are no balance.
const BALANCE_MAX: f64 = 0.10;

/// The sheet of what was measured over a while. Where the rows of a group do not come to its processor time, a note says so
/// and why: [`shown`] and [`json`] tell no balance then.
pub(crate) fn sheet(measured: &Measured, with: &Instruments<'_>, heading: Heading) -> Sheet {
    let mut sheet = recorded(measured, with, heading);
    for (group, (kind, _)) in sheet.groups.iter().zip(THREADS) {
        if is_off(&group.totals()) {
            sheet.notes.push(no_balance(group, &Kind::of(kind, measured, with)));
        }
    }
    sheet
}

fn is_off(totals: &Totals) -> bool {
    totals.unaccounted_share().is_some_and(|share| share.abs() > BALANCE_MAX)
}

/// A sheet for a table: a group without a balance has no processor time in it, and so the sum has none.
pub(crate) fn shown(sheet: &Sheet) -> Sheet {
    let mut shown = sheet.clone();
    for group in shown.groups.iter_mut().filter(|group| is_off(&group.totals())) {
        group.cpu_ns = None;
    }
    shown
}

/// [`json`] as text; as the sheet writes it where all is in balance.
pub(crate) fn json_text(sheet: &Sheet) -> String {
    let off = sheet.groups.iter().any(|group| is_off(&group.totals())) || is_off(&sheet.totals());
    if off { json(sheet).to_string() } else { sheet.json() }
}

/// A sheet as JSON: of a group, or of the sum, that has no balance, what is not accounted for is null.
pub(crate) fn json(sheet: &Sheet) -> serde_json::Value {
    let mut json: serde_json::Value = serde_json::from_str(&sheet.json()).unwrap_or_default();
    let groups = sheet
        .groups
        .iter()
        .enumerate()
        .map(|(at, group)| (format!("/groups/{at}/totals"), group.totals()));
    for (path, _) in groups.chain([("/totals".into(), sheet.totals())]).filter(|(_, of)| is_off(of))
    {
        let totals = json.pointer_mut(&path).and_then(serde_json::Value::as_object_mut);
        let told = totals.into_iter().flatten().filter(|(name, _)| name.starts_with("unaccounted"));
        told.for_each(|(_, value)| *value = serde_json::Value::Null);
    }
    json
}

/// Why a group has no balance. A row is the time between two boundaries, by the clock of the wall: what passes while another
/// thread has the core is in it.
fn no_balance(group: &Group, kind: &Kind<'_>) -> String {
    let micros = |ns: f64| ns / 1_000.0;
    let (recorded, cpu) = (group.totals().recorded.middle_ns(), group.cpu_ns.unwrap_or(0.0));
    let [sampled, turns, lost] = [
        kind.sum(|thread| thread.sampled),
        kind.sum(|thread| thread.turns),
        kind.sum(|thread| thread.preempted),
    ];
    format!(
        "NO BALANCE of {}: its rows come to {:.0} us, the kernel counts {:.0} us of processor time. Rows are times by the \
         clock, so waiting for a core is in them (it was lost {lost} times), and {sampled} measured turns stand for {turns}; \
         more traffic, a quieter machine or more measured turns (probes.every) bring them together",
        group.name,
        micros(recorded),
        micros(cpu)
    )
}

fn recorded(measured: &Measured, with: &Instruments<'_>, heading: Heading) -> Sheet {
    let Heading { title, machine, date, notes } = heading;
    let count = measured.all_requests();
    let groups = THREADS.into_iter().map(|(kind, name)| Kind::of(kind, measured, with).group(name));
    Sheet {
        title,
        machine,
        date,
        seconds: measured.seconds,
        requests: Requests { unit: Per::Request.name().to_string(), count },
        groups: groups.collect(),
        notes,
    }
}

/// What the probes took of all threads, ns.
pub(crate) fn probes_ns(measured: &Measured, with: &Instruments<'_>) -> f64 {
    measured.threads.iter().map(|thread| own_ns(thread, with)).sum()
}

/// What the probes of a thread took, ns: a reading of the timer a lap, and the time in which they brought their sums up to
/// date.
fn own_ns(thread: &MeasuredThread, with: &Instruments<'_>) -> f64 {
    let ticks = laps(thread) as f64 * with.timer.mean_ticks() + thread.own_ticks as f64;
    ticks * with.ns_per_tick
}

/// Times that a thread read the timer.
fn laps(thread: &MeasuredThread) -> u64 {
    let parts = thread.parts.iter().flat_map(|parts| &parts.parts);
    thread.stages.iter().chain(parts).map(|(_, recorded)| recorded.laps).sum()
}

/// The threads of one kind.
struct Kind<'a> {
    kind: Probes,
    threads: Vec<&'a MeasuredThread>,
    seconds: f64,
    with: &'a Instruments<'a>,
}

impl<'a> Kind<'a> {
    fn of(kind: Probes, measured: &'a Measured, with: &'a Instruments<'a>) -> Kind<'a> {
        let is_of = |thread: &&MeasuredThread| Probes::of_thread(&thread.name) == Some(kind);
        let threads = measured.threads.iter().filter(is_of).collect();
        Kind { kind, threads, seconds: measured.seconds, with }
    }

    fn group(&self, name: &str) -> Group {
        let mut rows: Vec<SheetRow> = Vec::new();
        let parts_of = self.threads.iter().find_map(|thread| Some(thread.parts.as_ref()?.of));
        let own = || ROWS.iter().filter(|row| row.probes == self.kind);
        for row in own().filter(|row| !row.waits) {
            rows.extend(self.stage(row));
            if Some(row.stage) == parts_of {
                let parts = ROWS.iter().filter(|row| row.probes == Probes::Judge);
                rows.extend(parts.filter_map(|row| self.part(row)));
            }
        }
        rows.extend(self.probes());
        rows.extend(self.kernel());
        // Below the kernel, whose processor time is in it.
        rows.extend(own().filter(|row| row.waits).filter_map(|row| self.stage(row)));
        Group { name: name.to_string(), cpu_ns: Some(self.sum(|thread| thread.cpu_ns)), rows }
    }

    /// A stage; nothing where nothing was recorded.
    fn stage(&self, row: &Row) -> Option<SheetRow> {
        let of = |thread: &'a MeasuredThread| find(&thread.stages, row.stage);
        let recorded = merged(self.threads.iter().filter_map(|thread| of(thread)))?;
        let count = self.scaled(|thread| of(thread).map_or(0, |recorded| recorded.items));
        let requests = match row.per {
            Per::Second => self.seconds,
            per => self.scaled(|thread| requests(per, &thread.stages)),
        };
        let depth = u8::from(row.waits);
        Some(self.row(row, depth, &recorded, (count, requests)))
    }

    /// What a stage is made of, by turns that were sampled for just that.
    fn part(&self, row: &Row) -> Option<SheetRow> {
        let parts = || self.threads.iter().filter_map(|thread| thread.parts.as_ref());
        let recorded = merged(parts().filter_map(|parts| find(&parts.parts, row.stage)))?;
        let scaled = |stage: &str| -> f64 {
            let items = |recorded: &StageFigures| recorded.items as f64;
            let of = |parts| find(parts, stage).map_or(0.0, items);
            parts().map(|all| of(&all.parts) * ratio(all.turns, all.sampled)).sum()
        };
        Some(self.row(row, 1, &recorded, (scaled(row.stage), scaled(CHECK))))
    }

    fn row(
        &self,
        row: &Row,
        depth: u8,
        recorded: &StageFigures,
        (count, requests): (f64, f64),
    ) -> SheetRow {
        let quantile = |q| Some(self.with.timer.quantile(recorded, q));
        let mean = self.with.timer.mean(recorded);
        let (p50, p99) = (quantile(0.5), quantile(0.99));
        let per = Requests { unit: row.per.name().to_string(), count: requests.round() as u64 };
        SheetRow { depth, per, count, mean, p50, p99, ..self.fixed(row) }
    }

    /// What is known of a row without measuring.
    fn fixed(&self, row: &Row) -> SheetRow {
        let workloads = &self.with.baseline.workloads;
        let instructions = row.instructions.and_then(|workload| workloads.get(workload));
        SheetRow {
            name: row.name.to_string(),
            place: row.file.to_string(),
            depth: 0,
            per: Requests { unit: row.per.name().to_string(), count: 0 },
            count: 0.0,
            mean: Nanos::exact(0.0),
            p50: None,
            p99: None,
            instructions: instructions.map(|workload| workload.instructions),
            alternative: row.alternative.and_then(|of| alternative(of, self.with.alternatives)),
            justification: Some(row.why.to_string()),
        }
    }

    /// What the probes took. They were at work in sampled turns only, so this is not scaled up.
    fn probes(&self) -> Option<SheetRow> {
        let laps = self.sum(laps);
        let ns: f64 = self.threads.iter().map(|thread| own_ns(thread, self.with)).sum();
        let mean = Nanos::exact(ns / laps);
        (laps > 0.0).then(|| SheetRow { mean, count: laps, ..self.whole(&PROBES) })
    }

    /// The kernel's part of the threads' time, as the kernel tells it.
    fn kernel(&self) -> Option<SheetRow> {
        let turns = self.sum(|thread| thread.turns);
        let ns = self.sum(|thread| thread.system_ns);
        let user_ns = self.sum(|thread| thread.user_ns);
        let ticks = (user_ns + ns) / KERNEL_TICK_NS;
        let share = ns / (user_ns + ns).max(1.0);
        let sampled_ns = DEVIATIONS * (ticks * share * (1.0 - share)).sqrt() * KERNEL_TICK_NS;
        let error_ns = (KERNEL_STEP_NS * self.threads.len() as f64).hypot(sampled_ns);
        let mean = Nanos::new(ns / turns, error_ns / turns);
        (turns > 0.0).then(|| SheetRow { mean, count: turns, ..self.whole(&KERNEL) })
    }

    /// A row of the threads as a whole.
    fn whole(&self, row: &Row) -> SheetRow {
        let per = match self.kind {
            Probes::Worker | Probes::Judge => Per::Request,
            Probes::Bank => Per::Message,
            Probes::Writer => Per::Group,
        };
        let count = self.scaled(|thread| requests(per, &thread.stages)).round() as u64;
        SheetRow { per: Requests { unit: per.name().to_string(), count }, ..self.fixed(row) }
    }

    fn sum(&self, of: impl Fn(&MeasuredThread) -> u64) -> f64 {
        self.threads.iter().map(|thread| of(thread) as f64).sum()
    }

    /// What was counted in sampled turns, for as many turns as they stand for.
    fn scaled(&self, of: impl Fn(&'a MeasuredThread) -> u64) -> f64 {
        let weight = |thread: &MeasuredThread| ratio(thread.turns, thread.sampled);
        self.threads.iter().map(|thread| of(thread) as f64 * weight(thread)).sum()
    }
}

/// The part of judging whose items are asks.
const CHECK: &str = "check";

fn requests(per: Per, stages: &[(&'static str, StageFigures)]) -> u64 {
    let counted = per.counted_by().into_iter().filter_map(|name| find(stages, name));
    counted.map(|recorded| recorded.items).sum()
}

fn find<'a>(stages: &'a [(&'static str, StageFigures)], name: &str) -> Option<&'a StageFigures> {
    stages.iter().find(|(known, _)| *known == name).map(|(_, recorded)| recorded)
}

/// All records as one; `None` if nothing was recorded of an item.
fn merged<'a>(mut records: impl Iterator<Item = &'a StageFigures>) -> Option<StageFigures> {
    let mut all = records.next()?.clone();
    records.for_each(|more| all.merge(more));
    (all.items > 0).then_some(all)
}

fn alternative(beside: Beside, all: &Alternatives) -> Option<Alternative> {
    let (pair, ours, other) = all.find(beside.pair, beside.case)?;
    Some(Alternative {
        name: other.name.clone(),
        ours_ns: ours.ns,
        ns: other.ns,
        ratio: other.ratio,
        ratio_low: other.ratio_low,
        ratio_high: other.ratio_high,
        measured: all.origin(pair),
    })
}

fn ratio(of: u64, to: u64) -> f64 {
    if to > 0 { of as f64 / to as f64 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use probe::Histogram;
    use probe::sheet::Flag;
    use weir_node::measured::MeasuredParts;

    /// Ticks so many that the timer's error is far below them.
    const MANY: u64 = 1_000_000_000;

    fn recorded_of(ticks: u64, laps: u64, items: u64) -> StageFigures {
        let mut an_item = Histogram::new();
        an_item.record_many((ticks * 16).checked_div(items).unwrap_or(0), items);
        StageFigures { ticks, laps, items, an_item, spread: probe::Spread::default() }
    }

    fn thread(
        name: &str,
        (turns, sampled): (u64, u64),
        stages: Vec<(&'static str, StageFigures)>,
    ) -> MeasuredThread {
        MeasuredThread {
            name: name.to_string(),
            cpu_ns: 2_000_000_000,
            user_ns: 1_500_000_000,
            system_ns: 500_000_000,
            preempted: 0,
            turns,
            sampled,
            own_ticks: 0,
            lost_laps: 0,
            lost_ticks: 0,
            stages,
            parts: None,
            instructions: None,
        }
    }

    fn sheet_of(threads: Vec<MeasuredThread>, with: &Instruments<'_>) -> Sheet {
        let text = String::new;
        let heading = Heading { title: text(), machine: text(), date: text(), notes: vec![] };
        let measured =
            Measured { seconds: 2.0, requests: vec![vec![640, 4], vec![20, 0]], threads };
        recorded(&measured, with, heading)
    }

    fn find_row<'a>(sheet: &'a Sheet, group: &str, name: &str) -> &'a SheetRow {
        let group = sheet.groups.iter().find(|of| of.name == group).unwrap();
        group.rows.iter().find(|row| row.name == name).unwrap_or_else(|| panic!("no {name}"))
    }

    #[track_caller]
    fn near(found: f64, expected: f64) {
        let off = (found - expected).abs();
        assert!(off <= expected.abs() * 1e-9, "{found} is not {expected}");
    }

    /// Ns of so many ticks that hold so many readings of the timer.
    fn ns(ticks: u64, laps: u64, with: &Instruments<'_>) -> f64 {
        (ticks as f64 - laps as f64 * with.timer.mean_ticks()) * with.ns_per_tick
    }

    #[test]
    fn a_stage_is_scaled_up_from_its_sampled_turns() {
        let with = Instruments::get();
        let stages = vec![
            ("frame_decode", recorded_of(MANY, 10, 10)),
            ("lookup", recorded_of(2 * MANY, 10, 100)),
            ("token", recorded_of(MANY, 10, 40)),
        ];
        let sheet = sheet_of(vec![thread("worker 0", (640, 10), stages)], &with);
        assert_eq!((sheet.requests.count, sheet.seconds), (664, 2.0));
        let lookup = find_row(&sheet, "worker", "table of budgets");
        near(lookup.mean.middle_ns(), ns(2 * MANY, 10, &with) / 100.0);
        // One turn in 64 was sampled; requests are counted in the same turns.
        near(lookup.count, 6_400.0);
        assert_eq!((lookup.per.unit.as_str(), lookup.per.count), ("ask", 6_400));
        near(lookup.per_request().unwrap(), 1.0);
        near(lookup.total().middle_ns(), ns(2 * MANY, 10, &with) * 64.0);
        let frame = find_row(&sheet, "worker", "frame, read in place");
        near(frame.per_request().unwrap(), 0.1);
        near(frame.ns_per_request().unwrap().middle_ns(), ns(MANY, 10, &with) / 100.0);
        let token = find_row(&sheet, "worker", "hold token");
        near(token.per_request().unwrap(), 0.4);
    }

    #[test]
    fn workers_are_added_each_by_its_own_share_of_turns() {
        let with = Instruments::get();
        let lookup = |items| vec![("lookup", recorded_of(MANY, 1, items))];
        let threads = vec![
            thread("worker 0", (100, 10), lookup(30)),
            thread("worker 1", (100, 50), lookup(70)),
            thread("worker 2", (0, 0), vec![("lookup", recorded_of(0, 0, 0))]),
        ];
        let sheet = sheet_of(threads, &with);
        let row = find_row(&sheet, "worker", "table of budgets");
        near(row.count, 30.0 * 10.0 + 70.0 * 2.0);
        near(row.mean.middle_ns(), ns(2 * MANY, 2, &with) / 100.0);
        assert_eq!(sheet.groups[0].cpu_ns, Some(6e9));
    }

    #[test]
    fn parts_stand_below_their_stage_and_are_not_added_to_it() {
        let with = Instruments::get();
        let mut worker = thread("worker 0", (64, 1), vec![("judge", recorded_of(MANY, 1, 10))]);
        let part = |items| recorded_of(MANY, 10, items);
        worker.parts = Some(MeasuredParts {
            of: "judge",
            turns: 63,
            sampled: 3,
            parts: vec![("check", part(20)), ("pacing", part(20)), ("purse", part(10))],
        });
        let sheet = sheet_of(vec![worker], &with);
        let names: Vec<_> =
            sheet.groups[0].rows.iter().map(|row| (row.depth, &*row.name)).collect();
        let expected = [(0, "judging an ask"), (1, "amount and unit"), (1, "plan"), (1, "purse")];
        assert_eq!(names[..4], expected);
        let purse = find_row(&sheet, "worker", "purse");
        near(purse.count, 210.0);
        near(purse.per_request().unwrap(), 0.5);
        let judge = find_row(&sheet, "worker", "judging an ask").total();
        let rest = ["probes", "kernel"].map(|name| find_row(&sheet, "worker", name).total());
        near(
            sheet.groups[0].totals().recorded.middle_ns(),
            (judge + rest[0] + rest[1]).middle_ns(),
        );
    }

    #[test]
    fn probes_and_the_kernel_have_rows_of_their_own() {
        let with = Instruments::get();
        let mut worker = thread("worker 0", (100, 10), vec![("send", recorded_of(MANY, 40, 40))]);
        worker.own_ticks = 1_000;
        let sheet = sheet_of(vec![worker], &with);
        let probes = find_row(&sheet, "worker", "probes");
        near(probes.count, 40.0);
        let own = 40.0 * with.timer.mean_ticks() + 1_000.0;
        near(probes.total().middle_ns(), own * with.ns_per_tick);
        let kernel = find_row(&sheet, "worker", "kernel");
        near(kernel.count, 100.0);
        near(kernel.total().middle_ns(), 5e8);
        // As far as the kernel's steps tell, and its 500 ticks, of which a quarter were in it.
        let sampled = 1.96 * (500.0_f64 * 0.25 * 0.75).sqrt() * KERNEL_TICK_NS;
        near(
            kernel.total().high_ns() - kernel.total().low_ns(),
            2.0 * KERNEL_STEP_NS.hypot(sampled),
        );
    }

    /// What takes the same time whatever comes is told a second, not divided by the traffic of the moment.
    #[test]
    fn the_slow_loop_is_counted_a_second() {
        let with = Instruments::get();
        let of = |messages| {
            let stages = vec![
                ("booking", recorded_of(MANY, 4, messages)),
                ("pacing", recorded_of(MANY, 4, 4)),
            ];
            sheet_of(vec![thread("bank", (4, 4), stages)], &with)
        };
        for messages in [4, 4_000_000] {
            let sheet = of(messages);
            let pacing = find_row(&sheet, "bank", "slow loop of pacing");
            assert_eq!((pacing.per.unit.as_str(), pacing.per.count), ("second", 2));
            near(pacing.ns_per_request().unwrap().middle_ns(), ns(MANY, 4, &with) / 2.0);
            assert_eq!(find_row(&sheet, "bank", "booking").per.unit, "message");
        }
    }

    /// Threads of which the rows come to so many times the processor time that the kernel counts.
    fn balance(times: f64) -> Sheet {
        let with = Instruments::get();
        let ticks = (2e9 * times / with.ns_per_tick) as u64;
        let mut bank = thread("bank", (40, 40), vec![("booking", recorded_of(ticks, 40, 40))]);
        (bank.system_ns, bank.preempted) = (0, 7);
        let text = String::new;
        let heading = Heading { title: text(), machine: text(), date: text(), notes: vec![] };
        let threads = vec![bank];
        let measured =
            Measured { seconds: 2.0, requests: vec![vec![640, 4], vec![20, 0]], threads };
        sheet(&measured, &with, heading)
    }

    #[test]
    fn no_balance_is_told_where_rows_and_processor_time_are_far_apart() {
        for times in [0.95, 1.0, 1.05] {
            let sheet = balance(times);
            let bank = &sheet.groups[1];
            assert!(
                bank.totals().unaccounted_share().is_some_and(|share| share.abs() < 0.1),
                "{times}"
            );
            assert_eq!(sheet.notes, Vec::<String>::new());
        }
        for times in [0.0, 0.5, 0.88, 1.12, 4.35, 131.0] {
            let sheet = balance(times);
            let table = shown(&sheet);
            assert_eq!(table.groups[1].totals().unaccounted_share(), None, "{times}");
            assert_eq!(table.totals().unaccounted_share(), None, "{times}");
            let json = json(&sheet);
            for totals in [&json["groups"][1]["totals"], &json["totals"]] {
                for name in ["unaccounted_ns", "unaccounted_ns_per_request", "unaccounted_share"] {
                    assert_eq!(totals.get(name), Some(&serde_json::Value::Null), "{times}: {name}");
                }
                assert!(totals["cpu_ns_per_request"].is_number(), "{times}: {totals}");
            }
            let [note] = &sheet.notes[..] else { panic!("{times}: {:?}", sheet.notes) };
            assert!(note.contains("NO BALANCE of bank") && note.contains("lost 7 times"), "{note}");
        }
    }

    /// The writer waits for the disk: that is no processor time, and none of the sum.
    #[test]
    fn what_waits_is_told_but_not_added() {
        let with = Instruments::get();
        let stages =
            vec![("seal_wait", recorded_of(MANY, 5, 5)), ("tell", recorded_of(MANY, 5, 5))];
        let sheet = sheet_of(vec![thread("journal-writer", (5, 5), stages)], &with);
        let sealed = find_row(&sheet, "journal writer", "sealed write");
        assert_eq!(sealed.depth, 1);
        near(sealed.per_request().unwrap(), 1.0);
        let added = ["telling who waits", "probes", "kernel"];
        let added: Nanos =
            added.map(|name| find_row(&sheet, "journal writer", name).total()).into_iter().sum();
        near(sheet.groups[2].totals().recorded.middle_ns(), added.middle_ns());
    }

    #[test]
    fn an_idle_node_has_a_sheet_without_figures() {
        let with = Instruments::get();
        let sheet = sheet_of(vec![thread("worker 0", (0, 0), vec![])], &with);
        assert!(sheet.groups.iter().all(|group| group.rows.is_empty()));
        let unknown = thread("admin", (1, 1), vec![("lookup", recorded_of(MANY, 1, 1))]);
        assert!(sheet_of(vec![unknown], &with).groups.iter().all(|group| group.rows.is_empty()));
        assert_eq!(sheet_of(vec![], &with).groups.len(), THREADS.len());
    }

    #[test]
    fn what_is_known_from_elsewhere_stands_beside_the_figures() {
        let alternatives: Alternatives = serde_json::from_str(
            r#"{"machine":"m","date":"d","pairs":[{"id":"allocation/frame","operation":"frame","cases":[
                {"name":"kept","ns":20.0,"ratio":1.0,"ratio_low":1.0,"ratio_high":1.0},
                {"name":"fresh","ns":15.0,"ratio":0.75,"ratio_low":0.7,"ratio_high":0.8}]}]}"#,
        )
        .unwrap();
        let baseline: Baseline =
            serde_json::from_str(r#"{"workloads":{"table":{"instructions":41.5,"unit":"key"}}}"#)
                .unwrap();
        let with =
            Instruments { alternatives: &alternatives, baseline: &baseline, ..Instruments::get() };
        let stages =
            vec![("encode", recorded_of(MANY, 10, 100)), ("lookup", recorded_of(MANY, 10, 100))];
        let sheet = sheet_of(vec![thread("worker 0", (1, 1), stages)], &with);
        let answer = find_row(&sheet, "worker", "answer's frame");
        assert_eq!(answer.instructions, None);
        let other = answer.alternative.as_ref().unwrap();
        assert_eq!(
            (other.name.as_str(), other.measured.as_str()),
            ("fresh", "frame of allocation/frame, m, d")
        );
        // A quarter less than here.
        let per_ask = answer.ns_per_request().unwrap().middle_ns();
        near(answer.saving_ns_per_request().unwrap(), -0.25 * per_ask);
        assert_eq!(answer.flags(), [Flag::AlternativeCheaper]);
        let lookup = find_row(&sheet, "worker", "table of budgets");
        assert_eq!((lookup.instructions, &lookup.alternative), (Some(41.5), &None));
        assert_eq!(lookup.flags(), [Flag::NoAlternative]);
    }
}
