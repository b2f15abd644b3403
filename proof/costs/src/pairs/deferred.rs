//! Work inline against work deferred: a settlement is written as a line of text into a file.
//!
//! The hot thread makes settlements; what is timed is its part alone: all of the work inline, or handing it to a thread
//! through one of the queues. What the work costs altogether is in the detail: deferring does not make it less.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs::File;
use std::hint::black_box;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering, fence};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use after::{After, Items, Producer, PushError, Setup};
use probe::compare::Random;
use probe::{Cycles, Histogram, ticks};
use rustix::time::{ClockId, clock_gettime};

use super::{Meaning, Pair};
use crate::race::{Done, TimedWay, race_timed};
use crate::{Error, Size};

const ROUNDS: usize = 15;
/// Settlements of one round. Every queue has room for them: what is compared is handing over, not waiting.
const SETTLEMENTS: usize = 20_000;
/// Settlements of one turn of the event loop: the inline way flushes once per turn.
const TURN: usize = 64;
const SEED: u64 = 0xaf7e;
/// More than any round takes.
const FINISH_WITHIN: Duration = Duration::from_secs(60);
/// Long enough for a worker to write the settlements of a round, and to fall asleep.
const CATCH_UP: Duration = Duration::from_millis(15);
/// Long enough for a worker to fall asleep.
const PAUSE: Duration = Duration::from_millis(3);

/// Makes `after/deferred` and `after/wake`.
///
/// # Errors
/// The file could not be written, or the ways wrote different ones.
pub fn run(size: Size) -> Result<Vec<Pair>, Error> {
    Ok(vec![deferred(size)?, wake(size)?])
}

fn deferred(size: Size) -> Result<Pair, Error> {
    let folder = tempfile::tempdir().map_err(|source| failed("making a folder", source))?;
    let path = folder.path().join("settled.txt");
    let settled = settlements(size.pick(SETTLEMENTS, 500));
    for way in WAYS {
        one_round(way, &path, &settled, None)?;
    }
    let ways: Vec<TimedWay<'_>> = WAYS
        .into_iter()
        .map(|way| {
            let (path, settled) = (&path, &settled);
            let round: Box<dyn FnMut() -> (Done, Duration) + '_> =
                Box::new(move || match one_round(way, path, settled, None) {
                    Ok(round) => (round.done, round.hot),
                    // It worked before; what went wrong since then shows as unequal work.
                    Err(_) => (Done { operations: 1, result: 0 }, Duration::from_nanos(1)),
                });
            (way.name(), round)
        })
        .collect();
    let outcomes = race_timed(size.pick(ROUNDS, 1), ways)?;
    let what = format!(
        "Settlements written to a file as lines of text, {} a round: the time of the thread that makes them. Inline it formats \
         and writes, and flushes every {TURN}; deferred it pushes, and another thread does the rest and flushes once per batch.",
        settled.len()
    );
    let meaning = Meaning {
        rival: Some("inline"),
        faster: "a hot path that only pushes does not feel what is formatted and written for it; the work is not less, it is on \
                 another core",
        slower: "deferring does not pay on this machine",
        level: "deferring does not pay on this machine",
    };
    let detail = tails(size, &path, &settled)?;
    Ok(Pair::new("after/deferred", what, "settlement", outcomes, &meaning).with_detail(detail))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    After,
    Inline,
    Sync,
    Unbounded,
    Mutex,
}

const WAYS: [Kind; 5] = [Kind::After, Kind::Inline, Kind::Sync, Kind::Unbounded, Kind::Mutex];

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::After => "after",
            Kind::Inline => "inline",
            Kind::Sync => "std sync_channel",
            Kind::Unbounded => "std channel, unbounded",
            Kind::Mutex => "Mutex<VecDeque>, Condvar",
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Settlement {
    at_ms: u64,
    budget: u64,
    hold: u64,
    micros: u64,
}

fn settlements(count: usize) -> Vec<Settlement> {
    let mut random = Random::new(SEED);
    let settlement = |at| Settlement {
        at_ms: 1_795_000_000_000 + at,
        budget: 1 + random.below(50_000) as u64,
        hold: random.draw(),
        micros: random.below(9_000_000) as u64,
    };
    (0..count as u64).map(settlement).collect()
}

/// The work: lines into a file. A disk that fails shows in what the file holds at the end.
struct Lines(BufWriter<File>);

impl Lines {
    fn new(path: &Path) -> Result<Lines, Error> {
        let file = File::create(path).map_err(|source| failed("making a file", source))?;
        Ok(Lines(BufWriter::with_capacity(64 * 1_024, file)))
    }

    fn write(&mut self, line: Settlement) {
        let Settlement { at_ms, budget, hold, micros } = line;
        let (units, rest) = (micros / 1_000_000, micros % 1_000_000);
        let _ = writeln!(
            self.0,
            "{at_ms} settled budget={budget} hold={hold:016x} amount={units}.{rest:06} USD"
        );
    }

    fn flush(&mut self) {
        let _ = self.0.flush();
    }
}

/// The result of a round.
struct Round {
    /// The settlements, and a hash of the file.
    done: Done,
    /// Time of the hot thread.
    hot: Duration,
    /// Processor time of the whole process, with starting and ending the other thread.
    cpu: Duration,
}

fn one_round(
    kind: Kind,
    path: &Path,
    settled: &[Settlement],
    each: Option<&mut Histogram>,
) -> Result<Round, Error> {
    let began = cpu_time();
    let hot = match kind {
        Kind::After => hot(ByAfter::start(path, settled.len())?, settled, each),
        Kind::Inline => hot(Inline { lines: Lines::new(path)?, in_turn: 0 }, settled, each),
        Kind::Sync => hot(ByChannel::bounded(path, settled.len())?, settled, each),
        Kind::Unbounded => hot(ByChannel::unbounded(path)?, settled, each),
        Kind::Mutex => hot(ByMutex::start(path, settled.len())?, settled, each),
    };
    let cpu = cpu_time().saturating_sub(began);
    let file = std::fs::read(path).map_err(|source| failed("reading a file back", source))?;
    let result = file.iter().fold(0_u64, |sum, byte| sum.wrapping_mul(31) ^ u64::from(*byte));
    Ok(Round { done: Done { operations: settled.len() as u64, result }, hot, cpu })
}

/// Hands all settlements over twice, and ends; the time is that of the second handing over, when the queue's memory has
/// been touched.
fn hot(mut way: impl Hand, settled: &[Settlement], each: Option<&mut Histogram>) -> Duration {
    settled.iter().for_each(|line| way.hand(*line));
    std::thread::sleep(CATCH_UP);
    let began = Instant::now();
    match each {
        None => settled.iter().for_each(|line| way.hand(black_box(*line))),
        Some(each) => {
            for line in settled {
                let from = ticks();
                way.hand(black_box(*line));
                each.record(ticks().saturating_sub(from));
            }
        }
    }
    let took = began.elapsed();
    way.finish();
    took
}

/// A way to get a settlement written.
trait Hand {
    fn hand(&mut self, line: Settlement);
    /// Returns when all is written.
    fn finish(self);
}

struct Inline {
    lines: Lines,
    in_turn: usize,
}

impl Hand for Inline {
    fn hand(&mut self, line: Settlement) {
        self.lines.write(line);
        self.in_turn += 1;
        if self.in_turn == TURN {
            self.lines.flush();
            self.in_turn = 0;
        }
    }

    fn finish(mut self) {
        self.lines.flush();
    }
}

struct ByAfter {
    producer: Producer<Settlement>,
    after: After,
}

impl ByAfter {
    fn start(path: &Path, capacity: usize) -> Result<ByAfter, Error> {
        let mut lines = Lines::new(path)?;
        let mut setup = Setup::new("settled-lines", capacity);
        let producer = setup.producer();
        let after = setup.start(move |items: &mut Items<'_, Settlement>| {
            items.for_each(|line| lines.write(line));
            lines.flush();
        });
        let after = after.map_err(|error| failed("starting a thread", error.source))?;
        Ok(ByAfter { producer, after })
    }
}

impl Hand for ByAfter {
    #[inline]
    fn hand(&mut self, line: Settlement) {
        if let Err(PushError::Full(line)) = self.producer.push(line) {
            let _ = self.producer.push_wait(line, FINISH_WITHIN);
        }
    }

    fn finish(self) {
        let _ = self.after.finish(FINISH_WITHIN);
    }
}

struct ByChannel<S> {
    sender: S,
    thread: JoinHandle<()>,
}

impl ByChannel<mpsc::SyncSender<Settlement>> {
    fn bounded(path: &Path, capacity: usize) -> Result<Self, Error> {
        let (sender, receiver) = mpsc::sync_channel(capacity);
        Ok(ByChannel { sender, thread: write_all(path, receiver)? })
    }
}

impl ByChannel<mpsc::Sender<Settlement>> {
    fn unbounded(path: &Path) -> Result<Self, Error> {
        let (sender, receiver) = mpsc::channel();
        Ok(ByChannel { sender, thread: write_all(path, receiver)? })
    }
}

/// A thread that writes what it receives, and flushes when there is nothing more at the moment.
fn write_all(path: &Path, receiver: mpsc::Receiver<Settlement>) -> Result<JoinHandle<()>, Error> {
    let mut lines = Lines::new(path)?;
    Ok(std::thread::spawn(move || {
        while let Ok(line) = receiver.recv() {
            lines.write(line);
            receiver.try_iter().for_each(|line| lines.write(line));
            lines.flush();
        }
    }))
}

impl Hand for ByChannel<mpsc::SyncSender<Settlement>> {
    #[inline]
    fn hand(&mut self, line: Settlement) {
        if let Err(mpsc::TrySendError::Full(line)) = self.sender.try_send(line) {
            let _ = self.sender.send(line);
        }
    }

    fn finish(self) {
        drop(self.sender);
        let _ = self.thread.join();
    }
}

impl Hand for ByChannel<mpsc::Sender<Settlement>> {
    #[inline]
    fn hand(&mut self, line: Settlement) {
        let _ = self.sender.send(line);
    }

    fn finish(self) {
        drop(self.sender);
        let _ = self.thread.join();
    }
}

struct ByMutex {
    shared: std::sync::Arc<Shared>,
    thread: JoinHandle<()>,
}

struct Shared {
    /// The queue, and whether it ends.
    queue: Mutex<(VecDeque<Settlement>, bool)>,
    arrived: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, (VecDeque<Settlement>, bool)> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ByMutex {
    fn start(path: &Path, capacity: usize) -> Result<ByMutex, Error> {
        let mut lines = Lines::new(path)?;
        let queue = Mutex::new((VecDeque::with_capacity(capacity), false));
        let shared = std::sync::Arc::new(Shared { queue, arrived: Condvar::new() });
        let own = std::sync::Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            let mut batch = VecDeque::with_capacity(capacity);
            loop {
                let idle = |(queue, ends): &mut (VecDeque<_>, bool)| queue.is_empty() && !*ends;
                let waited = own.arrived.wait_while(own.lock(), idle);
                let mut guard = waited.unwrap_or_else(PoisonError::into_inner);
                if guard.0.is_empty() {
                    return;
                }
                std::mem::swap(&mut guard.0, &mut batch);
                drop(guard);
                batch.drain(..).for_each(|line| lines.write(line));
                lines.flush();
            }
        });
        Ok(ByMutex { shared, thread })
    }
}

impl Hand for ByMutex {
    fn hand(&mut self, line: Settlement) {
        let mut guard = self.shared.lock();
        guard.0.push_back(line);
        drop(guard);
        self.shared.arrived.notify_one();
    }

    fn finish(self) {
        self.shared.lock().1 = true;
        self.shared.arrived.notify_one();
        let _ = self.thread.join();
    }
}

/// The spread of the hot path, and what the whole costs.
fn tails(size: Size, path: &Path, settled: &[Settlement]) -> Result<String, Error> {
    let ns_per_tick = Cycles::get().ns_per_tick();
    let mut text = String::from(
        "One by one, with the two readings of the counter that time it; and the processor time of the whole process, ns a \
         settlement:\n\n| way | p50 ns | p99 ns | p99.9 ns | longest ns | both cores ns |\n\
         | :--- | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for way in WAYS {
        let (mut each, mut cpu) = (Histogram::new(), Vec::new());
        for _ in 0..size.pick(ROUNDS, 1) {
            one_round(way, path, settled, Some(&mut each))?;
            let round = one_round(way, path, settled, None)?;
            cpu.push(round.cpu.as_nanos() as f64 / (2 * settled.len()) as f64);
        }
        let ns = |ticks: u64| ticks as f64 * ns_per_tick;
        let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|q| ns(each.quantile(q)));
        let (name, longest, cpu) = (way.name(), ns(each.max()), probe::compare::median(cpu));
        let _ = writeln!(
            text,
            "| {name} | {p50:.0} | {p99:.0} | {p999:.0} | {longest:.0} | {cpu:.0} |"
        );
    }
    Ok(text)
}

/// What it costs a producer that the worker can sleep.
fn wake(size: Size) -> Result<Pair, Error> {
    let items = size.pick(20_000, 500);
    let awake = AtomicU8::new(0);
    let worker = std::thread::current();
    let ways: Vec<TimedWay<'_>> = vec![
        (
            "a look at the flag, as after does it",
            pushes(items, || {
                std::sync::atomic::compiler_fence(Ordering::SeqCst);
                black_box(awake.load(Ordering::Relaxed));
            }),
        ),
        ("nothing: the worker looks by itself", pushes(items, || {})),
        (
            "a fence, then the flag",
            pushes(items, || {
                fence(Ordering::SeqCst);
                black_box(awake.load(Ordering::Relaxed));
            }),
        ),
        ("unpark at every push", pushes(items, || worker.unpark())),
    ];
    let outcomes = race_timed(size.pick(ROUNDS, 1), ways)?;
    let what = "Push an item into `table::ring`, and see to it that the worker wakes up, which is awake; one thread, 500 pushes \
                at a time into an empty ring.";
    let meaning = Meaning {
        rival: Some("a fence, then the flag"),
        faster: "the flag is read without a fence, and a worker that just fell asleep looks again by itself",
        slower: "a fence would cost less than leaving it out; `after` could do without its second look",
        level: "a fence would cost nothing; `after` could do without its second look",
    };
    let detail = wakes(size)?;
    Ok(Pair::new("after/wake", what, "push", outcomes, &meaning).with_detail(detail))
}

/// Pushes with `then` after each. Only pushes are timed; the ring is emptied in between.
fn pushes<'a>(
    items: u64,
    mut then: impl FnMut() + 'a,
) -> Box<dyn FnMut() -> (Done, Duration) + 'a> {
    const AT_ONCE: u64 = 500;
    let (mut sender, mut receiver) = table::ring::channel(1_024);
    Box::new(move || {
        let (mut sum, mut took, mut pushed) = (0_u64, Duration::ZERO, 0);
        while pushed < items {
            let began = Instant::now();
            for item in pushed..pushed + AT_ONCE {
                let _ = sender.try_send(black_box(item));
                then();
            }
            took += began.elapsed();
            pushed += AT_ONCE;
            sum = std::iter::from_fn(|| receiver.recv()).fold(sum, u64::wrapping_add);
        }
        (Done { operations: pushed, result: sum }, took)
    })
}

/// The dear case: pushes that find the worker asleep.
fn wakes(size: Size) -> Result<String, Error> {
    let mut setup = Setup::new("sleeper", 16);
    let mut producer = setup.producer();
    let after =
        setup.start(|items: &mut Items<'_, u64>| items.for_each(|item| _ = black_box(item)));
    let after = after.map_err(|error| failed("starting a thread", error.source))?;
    let gauge = after.gauge();
    let mut took = Vec::new();
    for item in 0..size.pick(200, 3) {
        std::thread::sleep(PAUSE);
        let (before, began) = (gauge.read().wakes, Instant::now());
        let _ = producer.push(item);
        let ns = began.elapsed().as_nanos() as f64;
        if gauge.read().wakes > before {
            took.push(ns);
        }
    }
    let _ = after.finish(FINISH_WITHIN);
    if took.is_empty() {
        return Ok("The worker never slept.\n".to_owned());
    }
    let (count, median) = (took.len(), probe::compare::median(took));
    Ok(format!(
        "A push of `after` that finds the worker asleep, and wakes it, takes {median:.0} ns (median of {count}); it happens at \
         most once in a pause of the load.\n"
    ))
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

fn failed(action: &str, source: std::io::Error) -> Error {
    Error::Io { action: action.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_writes_every_line_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let settled = settlements(300);
        let mut inline: Option<String> = None;
        for way in WAYS {
            let path = folder.path().join("lines");
            let mut each = Histogram::new();
            let round = one_round(way, &path, &settled, Some(&mut each)).unwrap();
            assert_eq!((round.done.operations, each.count()), (300, 300));
            let text = std::fs::read_to_string(&path).unwrap();
            assert_eq!(text.lines().count(), 600, "{}", way.name());
            assert_eq!(inline.get_or_insert_with(|| text.clone()), &text, "{}", way.name());
        }
        let text = inline.unwrap();
        let Settlement { at_ms, budget, .. } = settled[0];
        assert!(text.starts_with(&format!("{at_ms} settled budget={budget} hold=")), "{text}");
    }
}
