//! Playing an exchange: requests over HTTP to an OpenRTB door, auctions of its own on the bids, notices called back, and
//! the books audited through the batch door. See `proof/hammer/README.md`.
//!
//! Where to look: `requests` is what the sending thread sends, `auction` the rules of the market, `notices` the calling back,
//! `bodies` the requests, `books` what the audit compares.

mod auction;
mod bids;
mod bodies;
mod books;
mod http;
mod macros;
mod notices;
mod price;
mod report;
mod requests;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use hdrhistogram::Histogram;

use crate::HammerError;
use crate::args::Args;
use crate::audit::{Auditor, Row};
use crate::control::{Caller, Control, Totals, dial};
use crate::desk::{self, Desk, Times};
use crate::drive::{Figures, drive};
use crate::latency::{Quantiles, histogram};
use crate::plan::{LATE_MARGIN_NS, ns};
use crate::progress::Screen;
use crate::report::ScheduleReport;
use crate::run::{PROGRESS_EVERY, TICK, check_cores, per};
use crate::tally::{Tally, snapshot};

pub use bodies::BodiesReport;
pub use notices::KindCounts;
pub use report::ExchangeReport;

use auction::MarketShares;
use bodies::Bodies;
use books::Books;
use notices::Notifier;
use report::ExchangeMoment;
use requests::{ExchangePlan, Requests, Traded};

/// Life of an unconfirmed hold where no batch door tells it, in ns: what a node does by default.
const HOLD_NS_DEFAULT: u64 = 2_000_000_000;
/// The longest delay of the guide, in its minutes, and half of it again.
const DELAY_MINUTES_MAX: u64 = 45;

/// The node's books before the run, and who reads them.
struct Bank {
    control: Control,
    base: Vec<Row>,
    totals: Totals,
}

/// Plays an exchange as `args` say. Setting `stop` ends the load early; draining and the last audit still happen.
///
/// # Errors
/// The run could not be made: wrong usage, nothing there, no usable body. What goes wrong during the run is in the report.
pub fn run_exchange(args: &Args, stop: &AtomicBool) -> Result<ExchangeReport, HammerError> {
    args.check()?;
    check_cores(args)?;
    let mut bank = args.books.as_deref().map(|door| bank(args, door)).transpose()?;
    let plan = plan(args, bank.as_ref())?;
    let streams = connect_all(args)?;
    let budgets = bank.as_ref().map_or(0, |bank| bank.base.len());
    let books = Books::new(budgets);
    let address =
        streams[0].peer_addr().map_err(|source| system("the target's address", source))?;
    let lines = usize::try_from(args.notice_connections).unwrap_or(1);
    let notifier = Notifier::new(&books, address, lines, streams.len(), ns(args.timeout));
    let start = Instant::now();
    let totals_before = bank.as_ref().map(|bank| bank.totals);
    let tallies = std::slice::from_ref(&books.tally);
    let desk = bank.take().zip(args.books.as_deref()).map(|(bank, door)| {
        let ids: Vec<u64> = bank.base.iter().map(|row| row.id).collect();
        let auditor = Auditor::untold(&bank.base, &ids, args.exclusive);
        let caller = caller(args, door);
        Desk::new(caller, bank.control, auditor, &bank.base, tallies, ids.len(), start)
            .with_patience(args.audit_patience)
    });
    let (screen, last) = (Screen::new(args), ExchangeMoment::default());
    let latency = histogram();
    let mut watch = ExchangeSupervisor {
        desk,
        books: &books,
        start,
        latency,
        screen,
        last,
        totals_before,
        server_ns: None,
    };
    let requests = Requests::new(&plan, &books, streams, notifier, start);
    let traded = load(args, requests, stop, &mut watch)?;
    watch.finish();
    Ok(report(args, &plan, &books, traded, watch))
}

fn caller<'a>(args: &'a Args, target: &'a str) -> Caller<'a> {
    Caller { target, auth: &args.auth, client_id: 0, timeout: args.timeout }
}

fn system(what: &'static str, source: std::io::Error) -> HammerError {
    HammerError::System { what, source }
}

fn bank(args: &Args, door: &str) -> Result<Bank, HammerError> {
    let mut control = Control::connect(caller(args, door))?;
    let base = control.books()?;
    if base.is_empty() {
        return Err(HammerError::NoBudgets);
    }
    let totals = control.totals()?;
    Ok(Bank { control, base, totals })
}

fn plan(args: &Args, bank: Option<&Bank>) -> Result<ExchangePlan, HammerError> {
    let hold_ns =
        bank.map_or(HOLD_NS_DEFAULT, |bank| u64::from(bank.control.welcome.hold_ms) * 1_000_000);
    let late_ns = hold_ns + LATE_MARGIN_NS;
    let minute_ns = ns(args.settle_delay);
    let longest_ns = minute_ns.saturating_mul(DELAY_MINUTES_MAX);
    let late_longest_ns = if args.late > 0.0 { late_ns } else { 0 };
    let index = |bank: &Bank| (0..).zip(&bank.base).map(|(index, row)| (row.id, index)).collect();
    let budgets: Option<HashMap<u64, usize>> = bank.map(index);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Ok(ExchangePlan {
        bodies: bodies(args)?,
        host: args.target()?.to_owned(),
        depth: usize::try_from(args.depth).unwrap_or(1),
        rate: args.rate,
        seed: args.seed,
        id_salt: table::spread(args.seed) ^ ns(now),
        load_ns: ns(args.duration),
        drain_ns: ns(args.drain).saturating_add(longest_ns.max(late_longest_ns)),
        minute_ns,
        late_ns,
        shares: MarketShares::new(args),
        budgets,
    })
}

fn bodies(args: &Args) -> Result<Bodies, HammerError> {
    let host = args.target()?;
    let Some(path) = &args.requests else {
        let made_up: Vec<String> =
            crate::openrtb::generate(args.seed, u64::from(args.bodies)).collect();
        let lines = made_up.iter().map(|line| line.as_bytes());
        return Ok(Bodies::render(lines, host, args.gzip, args.seed));
    };
    let text =
        std::fs::read(path).map_err(|source| HammerError::File { path: path.clone(), source })?;
    let lines = text.split(|&byte| byte == b'\n');
    let bodies = Bodies::render(lines, host, args.gzip, args.seed);
    let report = bodies.report();
    if report.used == 0 {
        let first = report.bad_lines.first().cloned().unwrap_or_else(|| "the file is empty".into());
        return Err(HammerError::OpenRtbAllBad { path: path.clone(), lines: report.bad, first });
    }
    Ok(bodies)
}

fn connect_all(args: &Args) -> Result<Vec<mio::net::TcpStream>, HammerError> {
    let connect = |_| {
        let stream = dial(caller(args, args.target()?))?;
        stream.set_nonblocking(true).map_err(|source| system("a non-blocking socket", source))?;
        Ok(mio::net::TcpStream::from_std(stream))
    };
    (0..args.connections).map(connect).collect()
}

/// Runs the sending thread to its end, and watches it.
fn load<'a>(
    args: &Args,
    requests: Requests<'a>,
    stop: &AtomicBool,
    watch: &mut ExchangeSupervisor<'_>,
) -> Result<Traded<'a>, HammerError> {
    let loaded = AtomicBool::new(false);
    let failed = |source| system("the sending thread", source);
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().name("hammer-0".into());
        let handle = builder.spawn_scoped(scope, || {
            if let Some(id) = args.core.map(usize::from) {
                core_affinity::set_for_current(core_affinity::CoreId { id });
            }
            drive(requests, stop, &loaded).map(Requests::finish)
        });
        let handle = handle.map_err(failed)?;
        watch.until(args, &loaded, || handle.is_finished());
        let panicked = |_| failed(std::io::Error::other("it panicked; this is a bug"));
        handle.join().map_err(panicked)?.map_err(failed)
    })
}

/// The main thread's part of a run.
struct ExchangeSupervisor<'a> {
    desk: Option<Desk<'a>>,
    books: &'a Books,
    start: Instant,
    latency: Histogram<u64>,
    screen: Screen,
    last: ExchangeMoment,
    totals_before: Option<Totals>,
    /// CPU time of the node's workers while requests were sent, in ns.
    server_ns: Option<u64>,
}

impl ExchangeSupervisor<'_> {
    /// Audits and shows progress until `is_done`.
    fn until(&mut self, args: &Args, loaded: &AtomicBool, is_done: impl Fn() -> bool) {
        let mut audits = Times::new(args);
        let mut show_at = PROGRESS_EVERY;
        let mut is_loading = true;
        while !is_done() {
            std::thread::sleep(TICK);
            let elapsed = self.start.elapsed();
            if is_loading && loaded.load(Ordering::Acquire) {
                is_loading = false;
                self.read_cpu();
            }
            if audits.is_due(elapsed) {
                self.audit(false);
                let ended = self.start.elapsed();
                audits.made(ended, ended.saturating_sub(elapsed));
            }
            if elapsed >= show_at {
                self.show();
                show_at += PROGRESS_EVERY;
            }
        }
        // Load and drain may both have ended between two looks.
        if is_loading {
            self.read_cpu();
        }
    }

    fn audit(&mut self, last: bool) {
        if let Some(desk) = &mut self.desk {
            desk.audit(last);
        }
    }

    fn read_cpu(&mut self) {
        let totals = self.desk.as_mut().and_then(|desk| desk.totals(false));
        self.server_ns = totals
            .zip(self.totals_before)
            .and_then(|(now, before)| now.worker_cpu_ns.checked_sub(before.worker_cpu_ns));
    }

    fn show(&mut self) {
        let interval = self.books.tally.latency.collect(&mut self.latency);
        let latency = Quantiles::of(&interval);
        let now = ExchangeMoment::read(self.books, self.start.elapsed().as_secs_f64());
        let audited = self.desk.as_ref().map(|desk| &desk.books);
        let last = &self.last;
        self.screen
            .show(|| now.line(last, &latency, audited), || now.block(last, &latency, audited));
        self.last = now;
    }

    fn finish(&mut self) {
        self.audit(true);
        self.show();
        self.screen.end();
    }
}

fn report(
    args: &Args,
    plan: &ExchangePlan,
    books: &Books,
    traded: Traded<'_>,
    watch: ExchangeSupervisor<'_>,
) -> ExchangeReport {
    let read = |counter: &AtomicU64| counter.load(Ordering::Acquire);
    let (bids, wins, billed) = (read(&books.bids), read(&books.wins), read(&books.tally.settles));
    let spend_micros = books.spend.load(Ordering::Acquire);
    let Traded { run, counts: out, notifier } = traded;
    let auditor = watch.desk.as_ref().map(|desk| &desk.auditor);
    let duration_s = Duration::from_nanos(run.load_ns).as_secs_f64();
    let latency_us = Quantiles::of(&watch.latency);
    let mut report = ExchangeReport {
        target: plan.host.clone(),
        mode: if args.rate.is_some() { "open" } else { "closed" },
        duration_s,
        connections: args.connections,
        depth: args.depth,
        notice_connections: args.notice_connections,
        seed: args.seed,
        bodies: plan.bodies.report(),
        requests: out.sent,
        requests_per_s: ratio(run.answered_loaded, duration_s),
        bytes_sent: books.tally.bytes_sent.load(Ordering::Acquire),
        bytes_received: books.tally.bytes_received.load(Ordering::Acquire),
        no_bids: out.no_bids,
        with_bids: out.with_bids,
        bid_rate: share(out.with_bids, out.statuses.values().sum()),
        bids,
        bids_test: out.test_bids,
        timeouts: out.timeouts,
        goodput_per_s: ratio(out.with_bids.saturating_sub(out.timeouts), duration_s),
        wins,
        win_rate: share(wins, out.offers),
        cpm_bid_micros: mean(out.bid_sum, out.offers),
        billed,
        spend_micros,
        cpm_paid_micros: mean(i128::from(spend_micros) * 1_000, billed),
        unanswered_micros: unanswered_micros(&books.tally),
        unbilled: out.unbilled,
        late: out.late,
        bad_macros: out.bad_macros,
        absurd: out.absurd,
        notices: notifier.counts.iter().map(|(kind, n)| (kind.name(), n.clone())).collect(),
        latency_us,
        notice_latency_us: Quantiles::of(&notifier.latency),
        schedule: schedule(args, &run, &latency_us),
        server_ns_per_request: watch.server_ns.and_then(|ns| per(ns, run.answered_loaded)),
        hammer_ns_per_request: run.cpu_ns.and_then(|ns| per(ns, run.answered_loaded)),
        audits: auditor.map_or(0, |a| a.audits),
        budgets: books.tally.cells.len(),
        over_micros: auditor.map_or(0, Auditor::over_micros),
        duplicates_booked: auditor.map_or(0, Auditor::unexplained_budgets),
        lost_acks: notifier.lost() + auditor.map_or(0, Auditor::missing_budgets),
        lost_answers: out.lost_answers,
        looks_failed: watch.desk.as_ref().map_or(0, |desk| desk.looks_failed),
        audit_outcome: desk::Outcome::NotAudited,
        audit: String::new(),
        errors: run.errors.iter().chain(&notifier.refusals).cloned().collect(),
        notes: Vec::new(),
        wrongs: Vec::new(),
        statuses: out.statuses,
        bids_dropped: out.dropped,
    };
    report.notes = notes(args, &report, out.let_go, notifier.broken);
    say_outcome(&mut report, watch.desk.as_ref());
    report
}

fn unanswered_micros(tally: &Tally) -> i64 {
    let sums = snapshot(std::slice::from_ref(tally), tally.cells.len());
    sums.iter().map(|s| s.sent.saturating_sub(s.answered)).sum()
}

/// How late the one sender was, in the open loop.
fn schedule(args: &Args, run: &Figures, latency: &Quantiles) -> Option<ScheduleReport> {
    args.rate.map(|rate| ScheduleReport::new(rate, &run.lateness, latency, run.load_ns, 1))
}

/// What the audit came to.
fn say_outcome(report: &mut ExchangeReport, desk: Option<&Desk<'_>>) {
    let unanswered = report.lost_acks + report.lost_answers > 0;
    if let Some(desk) = desk {
        report.audit_outcome = desk.outcome(report.duplicates_booked > 0, unanswered);
    }
    report.wrongs = wrongs(report, desk);
    report.audit = match (report.wrongs.is_empty(), desk) {
        (true, Some(_)) => "ok".into(),
        (true, None) => "not audited".into(),
        (false, _) => report.wrongs.join("; "),
    };
}

/// All that keeps the audit from being `ok`, in words.
fn wrongs(report: &ExchangeReport, desk: Option<&Desk<'_>>) -> Vec<String> {
    let (over, twice) = (report.over_micros, report.duplicates_booked);
    let (acks, answers) = (report.lost_acks, report.lost_answers);
    let counted = [
        (over > 0).then(|| format!("{over} micros over")),
        (twice > 0).then(|| format!("{twice} budgets with more booked than billed")),
        (acks > 0).then(|| format!("{acks} lost acknowledgements")),
        (answers > 0).then(|| format!("{answers} requests never answered")),
    ];
    let found = desk.map(|desk| {
        let unsaid = desk.auditor.findings_count - desk.auditor.findings.len() as u64;
        let more = (unsaid > 0).then(|| format!("{unsaid} more findings like these"));
        desk.faults.iter().chain(&desk.auditor.findings).cloned().chain(more)
    });
    let found =
        found.into_iter().flatten().chain(desk.and_then(|desk| desk.could_not_look.clone()));
    counted.into_iter().flatten().chain(found).chain(report.errors.iter().cloned()).collect()
}

fn notes(args: &Args, report: &ExchangeReport, let_go: u64, broken: u64) -> Vec<String> {
    let unsent: u64 = report.notices.values().map(|counts| counts.unsent).sum();
    [
        (args.books.is_none()).then(|| "no --books HOST:PORT: nothing was audited".into()),
        (!args.exclusive)
            .then(|| "other clients may be active: only lower bounds were audited".into()),
        report.schedule.as_ref().and_then(ScheduleReport::note),
        (unsent > 0).then(|| format!("{unsent} notices were not called before the drain ended")),
        (let_go > 0).then(|| format!("{let_go} wins were dropped: too many notices waited")),
        (broken > 0)
            .then(|| format!("{broken} notices lost their connection and were called again")),
        (report.bids == 0).then(|| "there was no bid: no money moved".into()),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn mean(sum: i128, count: u64) -> i64 {
    i64::try_from(sum / i128::from(count.max(1))).unwrap_or(i64::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "a share with four decimals")]
fn share(part: u64, whole: u64) -> f64 {
    (part as f64 * 10_000.0 / whole.max(1) as f64).round() / 10_000.0
}

#[expect(clippy::cast_precision_loss, reason = "a rate with one decimal")]
fn ratio(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { (count as f64 * 10.0 / seconds).round() / 10.0 } else { 0.0 }
}
