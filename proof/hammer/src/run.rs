//! A run from beginning to end: handshake, load, audits, drain, last audit, report.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use wire::Reason;

use crate::HammerError;
use crate::args::Args;
use crate::asks::{AskTable, Draw, Shares};
use crate::audit::{Auditor, Row};
use crate::control::{Caller, Control, Totals, Welcome};
use crate::desk::{Desk, Times};
use crate::drive::drive;
use crate::frames::{Frames, NoticeCounts, Sent};
use crate::latency::{Quantiles, histogram};
use crate::openrtb;
use crate::plan::Plan;
use crate::progress::{Moment, Progress};
use crate::report::{OpenRtbReport, Report, ScheduleReport, grouped};
use crate::tally::{Tally, snapshot};
use crate::timetable::Lateness;

/// Between two looks at the threads.
pub(crate) const TICK: Duration = Duration::from_millis(10);
/// Between two lines of progress.
pub(crate) const PROGRESS_EVERY: Duration = Duration::from_secs(1);
/// How long the node's totals may take to agree after the last answer.
const TOTALS_SETTLE: Duration = Duration::from_secs(2);

/// Loads the target as `args` say, and audits it. Setting `stop` ends the load early; draining and the last audit still
/// happen.
///
/// # Errors
/// The run could not be made: wrong usage, no node there, a refused handshake, nothing to ask. What goes wrong during
/// the run is in the report.
pub fn run(args: &Args, stop: &AtomicBool) -> Result<Report, HammerError> {
    args.check()?;
    check_cores(args)?;
    let mut control = Control::connect(caller(args, 0)?)?;
    check_welcome(args, &control.welcome)?;
    let base = control.books()?;
    let ids: Vec<u64> = match args.budgets {
        Some(n) => (1..=u64::from(n)).collect(),
        None => base.iter().map(|row| row.id).collect(),
    };
    if ids.is_empty() {
        return Err(HammerError::NoBudgets);
    }
    let (table, mapped) = table(args, &ids, &base)?;
    let plan = Plan::new(args, &control.welcome, table, &ids);
    let streams = connect_all(args)?;
    let tallies: Vec<Tally> = (0..args.threads).map(|_| Tally::new(ids.len())).collect();
    let totals = control.totals()?;
    let auditor = Auditor::new(&base, &ids, plan.hold_sure_ns, args.exclusive);
    let start = Instant::now();
    let supervisor = Supervisor {
        desk: Desk::new(caller(args, 0)?, control, auditor, &base, &tallies, ids.len(), start)
            .with_patience(args.audit_patience),
        tallies: &tallies,
        start,
        latency: histogram(),
        progress: Progress::new(args),
        totals_before: totals,
        totals_loaded: None,
    };
    let (outcomes, done) = load(args, &plan, &tallies, streams, stop, start, supervisor)?;
    Ok(report(args, ids.len(), mapped, &tallies, &outcomes, done))
}

fn caller(args: &Args, client_id: u64) -> Result<Caller<'_>, HammerError> {
    let (target, auth, timeout) = (args.target()?, args.auth.as_str(), args.timeout);
    Ok(Caller { target, auth, client_id, timeout })
}

/// Pinning must not fail in silence: the figures would be those of another arrangement.
pub(crate) fn check_cores(args: &Args) -> Result<(), HammerError> {
    let Some(first) = args.core else { return Ok(()) };
    let ids: Vec<usize> =
        core_affinity::get_core_ids().unwrap_or_default().iter().map(|core| core.id).collect();
    let first = usize::from(first);
    match (first..first + usize::from(args.threads)).find(|id| !ids.contains(id)) {
        None => Ok(()),
        Some(id) => Err(HammerError::Usage {
            flag: "core",
            found: format!("core {id} is needed"),
            expected: format!("cores this process may use: {ids:?}"),
        }),
    }
}

/// What can only be judged with the node's limits in hand.
fn check_welcome(args: &Args, welcome: &Welcome) -> Result<(), HammerError> {
    if args.batch > welcome.batch_max {
        return Err(HammerError::Usage {
            flag: "batch",
            found: args.batch.to_string(),
            expected: format!("at most {}, what the node takes", welcome.batch_max),
        });
    }
    let hold = Duration::from_millis(u64::from(welcome.hold_ms));
    if args.settle_delay >= hold {
        return Err(HammerError::Usage {
            flag: "settle-delay",
            found: format!("{:?}", args.settle_delay),
            expected: format!(
                "less than a hold lives at this node, {hold:?} (for late settles: --late)"
            ),
        });
    }
    Ok(())
}

fn table(
    args: &Args,
    ids: &[u64],
    base: &[Row],
) -> Result<(AskTable, Option<OpenRtbReport>), HammerError> {
    let shares = Shares {
        win: args.win,
        confirm: args.confirm,
        price: args.price_share,
        loss_notice_lost: args.loss_notice_lost,
        win_notice_lost: args.win_notice_lost,
        repeat: args.repeat,
        over: args.over,
        late: args.late,
    };
    let Some(path) = &args.asks_from else {
        let (skew, amount, users, seed) = (args.skew, args.amount, args.users, args.seed);
        let draw = Draw { budgets: ids.len(), skew, amount, users, seed };
        return Ok((AskTable::synthetic(&draw, &shares, args.batch), None));
    };
    let text =
        std::fs::read(path).map_err(|source| HammerError::File { path: path.clone(), source })?;
    let units: BTreeMap<u64, [u8; 4]> = base.iter().map(|row| (row.id, row.unit)).collect();
    let units: Vec<[u8; 4]> =
        ids.iter().map(|id| units.get(id).copied().unwrap_or_default()).collect();
    let (asks, mapped) = openrtb::map_lines(&text, &units, args.floor_default);
    if asks.is_empty() {
        return Err(HammerError::OpenRtbAllBad {
            path: path.clone(),
            lines: mapped.lines,
            first: mapped.bad_lines.first().cloned().unwrap_or_else(|| "the file is empty".into()),
        });
    }
    Ok((AskTable::replay(&asks, &shares, args.seed, args.batch), Some(mapped)))
}

/// Opens all connections, and deals them to the threads in turn.
fn connect_all(args: &Args) -> Result<Vec<Vec<mio::net::TcpStream>>, HammerError> {
    let mut dealt: Vec<Vec<_>> = (0..args.threads).map(|_| Vec::new()).collect();
    let threads = u32::from(args.threads);
    for number in 0..args.connections {
        let stream = Control::connect(caller(args, u64::from(number) + 1)?)?.into_stream();
        stream
            .set_nonblocking(true)
            .map_err(|source| HammerError::System { what: "a non-blocking socket", source })?;
        let thread = usize::try_from(number % threads).unwrap_or(0);
        dealt[thread].push(mio::net::TcpStream::from_std(stream));
    }
    Ok(dealt)
}

/// Runs the threads to their end, with the supervisor beside them.
fn load<'a>(
    args: &Args,
    plan: &Plan,
    tallies: &[Tally],
    streams: Vec<Vec<mio::net::TcpStream>>,
    stop: &AtomicBool,
    start: Instant,
    mut supervisor: Supervisor<'a>,
) -> Result<(Vec<Sent>, Done<'a>), HammerError> {
    let loaded: Vec<AtomicBool> = tallies.iter().map(|_| AtomicBool::new(false)).collect();
    let system = |source| HammerError::System { what: "a sending thread", source };
    let outcomes = std::thread::scope(|scope| {
        let mut handles = Vec::new();
        for (thread, own) in streams.into_iter().enumerate() {
            let (tally, loaded) = (&tallies[thread], &loaded[thread]);
            let core = args.core.map(|first| usize::from(first) + thread);
            let builder = std::thread::Builder::new().name(format!("hammer-{thread}"));
            let handle = builder.spawn_scoped(scope, move || {
                if let Some(id) = core {
                    core_affinity::set_for_current(core_affinity::CoreId { id });
                }
                let frames = Frames::new(plan, tally, own, thread as u64, start);
                let result = drive(frames, stop, loaded).map(Frames::finish);
                loaded.store(true, Ordering::Release);
                result
            });
            handles.push(handle.map_err(system)?);
        }
        supervisor.watch(args, &loaded, || handles.iter().all(|h| h.is_finished()));
        let mut outcomes = Vec::new();
        for handle in handles {
            let joined = handle.join().map_err(|_| {
                system(std::io::Error::other("a sending thread panicked; this is a bug"))
            })?;
            outcomes.push(joined.map_err(system)?);
        }
        Ok(outcomes)
    })?;
    let done = supervisor.finish(&outcomes, args.exclusive);
    Ok((outcomes, done))
}

/// The main thread's part of a run.
struct Supervisor<'a> {
    desk: Desk<'a>,
    tallies: &'a [Tally],
    start: Instant,
    latency: Histogram<u64>,
    progress: Progress,
    totals_before: Totals,
    totals_loaded: Option<Totals>,
}

/// What the supervisor leaves behind.
struct Done<'a> {
    desk: Desk<'a>,
    latency: Histogram<u64>,
    server_ns_per_request: Option<f64>,
}

impl<'a> Supervisor<'a> {
    /// Audits and shows progress until `is_done`.
    fn watch(&mut self, args: &Args, loaded: &[AtomicBool], is_done: impl Fn() -> bool) {
        let mut audits = Times::new(args);
        let mut show_at = PROGRESS_EVERY;
        while !is_done() {
            std::thread::sleep(TICK);
            let elapsed = self.start.elapsed();
            if self.totals_loaded.is_none() && loaded.iter().all(|l| l.load(Ordering::Acquire)) {
                self.read_loaded_totals();
            }
            if audits.is_due(elapsed) {
                self.desk.audit(false);
                let ended = self.start.elapsed();
                audits.made(ended, ended.saturating_sub(elapsed));
            }
            if elapsed >= show_at {
                self.show();
                show_at += PROGRESS_EVERY;
            }
        }
        // Load and drain may both have ended between two looks.
        if self.totals_loaded.is_none() {
            self.read_loaded_totals();
        }
    }

    fn show(&mut self) {
        let mut interval = histogram();
        for tally in self.tallies {
            let _ = interval.add(tally.latency.collect(&mut self.latency));
        }
        let moment = Moment::read(self.tallies, self.start.elapsed().as_secs_f64());
        self.progress.show(moment, &Quantiles::of(&interval), &self.desk.books);
    }

    /// The node's CPU time while the load ran, without the drain.
    fn read_loaded_totals(&mut self) {
        let totals = self.desk.totals(false);
        self.totals_loaded = Some(totals.unwrap_or(self.totals_before));
    }

    fn finish(mut self, outcomes: &[Sent], exclusive: bool) -> Done<'a> {
        self.desk.audit(true);
        if exclusive {
            self.check_totals(outcomes);
        }
        self.show();
        self.progress.end();
        let before = self.totals_before;
        let server_ns_per_request = self.totals_loaded.and_then(|totals| {
            let cpu_ns = totals.worker_cpu_ns.checked_sub(before.worker_cpu_ns)?;
            per(cpu_ns, totals.decisions.checked_sub(before.decisions)?)
        });
        let Self { desk, latency, .. } = self;
        Done { desk, latency, server_ns_per_request }
    }

    /// The node's own counters must have moved by what we saw. Its workers publish them now and then: give them time.
    fn check_totals(&mut self, outcomes: &[Sent]) {
        let moment = Moment::read(self.tallies, 0.0);
        // Answers that a lost connection swallowed are in the node's count but not in ours.
        let swallowed = outcomes.iter().any(|o| o.lost_answers > 0 || !o.run.errors.is_empty());
        let flagged = outcomes.iter().map(|o| o.notices.flagged).sum::<u64>();
        let ours =
            [("decisions", moment.decisions), ("granted", moment.granted), ("repeats", flagged)];
        let until = Instant::now() + TOTALS_SETTLE;
        loop {
            let Some(totals) = self.desk.totals(true) else { return };
            let before = self.totals_before;
            let theirs = [
                totals.decisions.wrapping_sub(before.decisions),
                totals.granted.wrapping_sub(before.granted),
                totals.repeats.wrapping_sub(before.repeats),
            ];
            let agrees = |ours: u64, theirs: u64| {
                if swallowed { theirs >= ours } else { theirs == ours }
            };
            if ours.iter().zip(theirs).all(|(own, their)| agrees(own.1, their)) {
                return;
            }
            if Instant::now() >= until {
                for ((name, own), their) in ours.into_iter().zip(theirs) {
                    if !agrees(own, their) {
                        self.desk.fault(format!(
                            "the node's totals moved by {their} {name}, we saw {own}"
                        ));
                    }
                }
                return;
            }
            std::thread::sleep(TICK);
        }
    }
}

/// `ns / count`; `None` where nothing was counted or measured.
pub(crate) fn per(ns: u64, count: u64) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
    (count > 0 && ns > 0).then(|| (ns as f64 * 10.0 / count as f64).round() / 10.0)
}

fn report(
    args: &Args,
    budgets: usize,
    openrtb: Option<OpenRtbReport>,
    tallies: &[Tally],
    outcomes: &[Sent],
    done: Done<'_>,
) -> Report {
    let moment = Moment::read(tallies, 0.0);
    let sum = |get: &dyn Fn(&Tally) -> u64| tallies.iter().map(get).sum::<u64>();
    let load_ns = outcomes.iter().map(|o| o.run.load_ns).max().unwrap_or(0);
    let duration_s = Duration::from_nanos(load_ns).as_secs_f64();
    let loaded: u64 = outcomes.iter().map(|o| o.run.answered_loaded).sum();
    let notices = add_notices(outcomes);
    let money = Money::of(&snapshot(tallies, budgets));
    let auditor = &done.desk.auditor;
    let duplicates_booked = notices.duplicates.max(auditor.unexplained_budgets());
    let lost_acks = notices.lost + auditor.missing_budgets();
    let lost_answers: u64 = outcomes.iter().map(|o| o.lost_answers).sum();
    let errors = errors(&moment, outcomes);
    let over_micros = auditor.over_micros();
    let wrongs =
        wrongs(over_micros, duplicates_booked, lost_acks, lost_answers, &done.desk, &errors);
    let cpu_ns: Option<u64> = outcomes.iter().map(|o| o.run.cpu_ns).sum();
    let latency_us = Quantiles::of(&done.latency);
    let schedule = schedule(args, outcomes, &latency_us, load_ns);
    let notes = notes(args, &moment, &notices, schedule.as_ref());
    Report {
        target: args.target.clone().unwrap_or_default(),
        mode: if args.rate.is_some() { "open" } else { "closed" },
        duration_s,
        connections: args.connections,
        depth: args.depth,
        batch: args.batch,
        threads: args.threads,
        budgets,
        seed: args.seed,
        decisions: moment.decisions,
        decisions_per_s: per_s(loaded, duration_s),
        granted: moment.granted,
        granted_micros: money.granted,
        refused: moment.refused,
        frames_refused: frames_refused(tallies),
        frames: sum(&|t| t.frames_sent.load(Ordering::Acquire)),
        bytes_sent: sum(&|t| t.bytes_sent.load(Ordering::Acquire)),
        bytes_received: sum(&|t| t.bytes_received.load(Ordering::Acquire)),
        settled_micros: money.settled,
        over_settled_micros: money.over,
        late_micros: money.late,
        unanswered_micros: money.unanswered,
        notices,
        over_micros,
        duplicates_booked,
        lost_acks,
        lost_answers,
        latency_us,
        notice_latency_us: notice_latency(outcomes),
        schedule,
        server_ns_per_request: done.server_ns_per_request,
        hammer_ns_per_request: cpu_ns.and_then(|ns| per(ns, loaded)),
        audits: auditor.audits,
        promise_checks: auditor.promise_checks,
        looks_failed: done.desk.looks_failed,
        audit_outcome: done.desk.outcome(duplicates_booked > 0, lost_acks + lost_answers > 0),
        audit: if wrongs.is_empty() { "ok".into() } else { wrongs.join("; ") },
        errors,
        notes,
        openrtb,
    }
}

/// How late all threads sent, in the open loop.
fn schedule(
    args: &Args,
    outcomes: &[Sent],
    latency: &Quantiles,
    load_ns: u64,
) -> Option<ScheduleReport> {
    let mut lateness = Lateness { waited_ns: Some(0), ..Lateness::new() };
    outcomes.iter().for_each(|outcome| lateness.add(&outcome.run.lateness));
    args.rate.map(|rate| ScheduleReport::new(rate, &lateness, latency, load_ns, args.threads))
}

#[expect(clippy::cast_precision_loss, reason = "a rate, of which one decimal is shown")]
fn per_s(count: u64, duration_s: f64) -> f64 {
    let rate = if duration_s > 0.0 { count as f64 / duration_s } else { 0.0 };
    (rate * 10.0).round() / 10.0
}

/// The first faults, in words.
fn errors(moment: &Moment, outcomes: &[Sent]) -> Vec<String> {
    let faults = outcomes.iter().flat_map(|o| o.run.errors.clone());
    nothing_known(moment).into_iter().chain(faults).take(20).collect()
}

/// What is wrong where every ask met an unknown budget, or a node without a budget in force: such a run has tried nothing, and its audit proves nothing.
fn nothing_known(moment: &Moment) -> Option<String> {
    let of = |verdict: wire::Verdict| moment.refused.get(verdict.name()).copied().unwrap_or(0);
    let unknown = of(wire::Verdict::UnknownBudget) + of(wire::Verdict::Busy);
    (unknown > 0 && unknown == moment.decisions).then(|| {
        format!(
            "ALL {} asks were answered unknown_budget or busy: no budget that was asked is in force, so nothing was tried; look into the node's log \
             and /readyz, whether it refused its budgets file, or was started in the data folder of other budgets (--data)",
            grouped(unknown)
        )
    })
}

/// All that keeps the audit from being `ok`, in words.
fn wrongs(
    over_micros: i64,
    duplicates_booked: u64,
    lost_acks: u64,
    lost_answers: u64,
    desk: &Desk<'_>,
    errors: &[String],
) -> Vec<String> {
    let counted = [
        (over_micros > 0).then(|| format!("{over_micros} base units over")),
        (duplicates_booked > 0).then(|| format!("{duplicates_booked} duplicates booked")),
        (lost_acks > 0).then(|| format!("{lost_acks} lost acknowledgements")),
        (lost_answers > 0).then(|| format!("{lost_answers} frames of asks never answered")),
    ];
    let unsaid = desk.auditor.findings_count - desk.auditor.findings.len() as u64;
    let more = (unsaid > 0).then(|| format!("{unsaid} more findings like these"));
    counted
        .into_iter()
        .flatten()
        .chain(desk.faults.iter().cloned())
        .chain(desk.auditor.findings.iter().cloned())
        .chain(more)
        .chain(desk.could_not_look.clone())
        .chain(errors.iter().cloned())
        .collect()
}

/// Sums over all budgets, in micros.
struct Money {
    granted: i64,
    settled: i64,
    over: i64,
    late: i64,
    unanswered: i64,
}

impl Money {
    fn of(sums: &[crate::tally::Sums]) -> Self {
        let sum = |get: &dyn Fn(&crate::tally::Sums) -> i64| {
            sums.iter().fold(0_i64, |all, s| all.saturating_add(get(s)))
        };
        Self {
            granted: sum(&|s| s.granted),
            settled: sum(&|s| s.settled),
            over: sum(&|s| s.over),
            late: sum(&|s| s.late),
            unanswered: sum(&|s| s.sent - s.answered),
        }
    }
}

fn add_notices(outcomes: &[Sent]) -> NoticeCounts {
    outcomes.iter().map(|o| o.notices).fold(NoticeCounts::default(), NoticeCounts::plus)
}

fn notice_latency(outcomes: &[Sent]) -> Quantiles {
    let mut all = histogram();
    for outcome in outcomes {
        let _ = all.add(&outcome.notice_latency);
    }
    Quantiles::of(&all)
}

fn frames_refused(tallies: &[Tally]) -> BTreeMap<&'static str, u64> {
    let mut refused = BTreeMap::new();
    for tally in tallies {
        for (code, counter) in (0_u8..).zip(&tally.reasons) {
            let count = counter.load(Ordering::Acquire);
            if count > 0 {
                let name = Reason::from_raw(code).map_or("unknown_reason", Reason::name);
                *refused.entry(name).or_default() += count;
            }
        }
    }
    refused
}

fn notes(
    args: &Args,
    moment: &Moment,
    notices: &NoticeCounts,
    schedule: Option<&ScheduleReport>,
) -> Vec<String> {
    let mut notes: Vec<String> = schedule.and_then(ScheduleReport::note).into_iter().collect();
    let mut note = |when: bool, text: String| {
        if when {
            notes.push(text);
        }
    };
    note(
        notices.unsent > 0,
        format!("{} notices were not sent before the drain ended", notices.unsent),
    );
    note(
        notices.dropped > 0,
        format!("{} wins were dropped: too many notices waited", notices.dropped),
    );
    note(notices.put_off > 0, format!("{} notices were put off by the node", notices.put_off));
    note(
        moment.granted == 0 && moment.decisions > 0,
        "nothing was granted: the audit saw no money move".into(),
    );
    note(!args.exclusive, "other clients may be active: only lower bounds were audited".into());
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_in_which_no_budget_was_known_is_a_fault() {
        let moment = |unknown: u64, decisions| Moment {
            decisions,
            refused: BTreeMap::from([
                ("unknown_budget", unknown / 2),
                ("busy", unknown.div_ceil(2)),
            ]),
            ..Moment::default()
        };
        let told = nothing_known(&moment(21_600_000, 21_600_000)).unwrap();
        assert!(told.starts_with("ALL 21,600,000 asks were answered unknown_budget"), "{told}");
        assert!(told.contains("--data"), "{told}");
        for (unknown, decisions) in [(5, 6), (0, 6), (0, 0)] {
            assert_eq!(nothing_known(&moment(unknown, decisions)), None);
        }
    }
}
