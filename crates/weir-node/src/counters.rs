//! What one thread of a node counts and others read: figures of purses, verdicts by budget, signs of life. Each has one writer.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicI64, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::time::Instant;

use ::counters::{Counter, counters};
use probe::ClockState;
use weir_till::LastRefusals;

use crate::thread::ThreadMeter;

/// Signs of life of the bank's thread. Written by it alone, read by anybody.
#[derive(Debug)]
pub struct Pulse {
    started: Instant,
    /// When the last turn began, ms after `started`.
    turned_ms: AtomicU64,
    /// How far the node's time is ahead of the system's; below 0, behind it.
    clock_ahead_ms: AtomicI64,
    /// For how long the two have been apart.
    clock_held_ms: AtomicU64,
    /// How often that was for longer than `CLOCK_HELD_MS_MAX`.
    clock_held: AtomicU64,
}

/// A clock that is not the system's for longer than this needs a person: the node is not ready.
pub(crate) const CLOCK_HELD_MS_MAX: u64 = 5_000;

/// A bank whose last turn began longer ago than this is stuck: a turn takes a few milliseconds. Long beside what a busy machine
/// leaves a thread off its core.
pub(crate) const TURN_AGE_MS_MAX: u64 = 2_000;

impl Default for Pulse {
    fn default() -> Pulse {
        Pulse {
            started: Instant::now(),
            turned_ms: AtomicU64::new(0),
            clock_ahead_ms: AtomicI64::new(0),
            clock_held_ms: AtomicU64::new(0),
            clock_held: AtomicU64::new(0),
        }
    }
}

impl Pulse {
    /// A turn begins.
    pub(crate) fn turn(&self) {
        self.turned_ms.store(self.elapsed_ms(), Relaxed);
    }

    /// How long ago the last turn began, ms. It sleeps for about 1 ms where there is nothing to do.
    pub fn age_ms(&self) -> u64 {
        self.elapsed_ms().saturating_sub(self.turned_ms.load(Relaxed))
    }

    /// How the bank's clock stands. True if it has been apart from the system's for too long.
    pub(crate) fn clock(&self, state: &ClockState) -> bool {
        let ms = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
        self.clock_ahead_ms.store(ms(state.ahead_ms()) - ms(state.behind_ms()), Relaxed);
        let was = self.clock_held_ms.swap(state.held_ms(), Relaxed) >= CLOCK_HELD_MS_MAX;
        let is = state.held_ms() >= CLOCK_HELD_MS_MAX;
        if is && !was {
            self.clock_held.fetch_add(1, Relaxed);
        }
        is
    }

    /// How far the node's time is ahead of the system's, ms; below 0, behind it.
    pub fn clock_ahead_ms(&self) -> i64 {
        self.clock_ahead_ms.load(Relaxed)
    }

    /// For how long the two have been more than [`probe::STEP_MS`] apart, ms.
    pub fn clock_held_ms(&self) -> u64 {
        self.clock_held_ms.load(Relaxed)
    }

    /// How often that was for longer than `CLOCK_HELD_MS_MAX`.
    pub fn clock_held(&self) -> u64 {
        self.clock_held.load(Relaxed)
    }

    /// Is the node's time the system's?
    ///
    /// # Errors
    /// Since when not, and how far it is off.
    pub fn check_clock(&self) -> Result<(), String> {
        let (held_ms, ahead_ms) = (self.clock_held_ms(), self.clock_ahead_ms());
        if held_ms < CLOCK_HELD_MS_MAX {
            return Ok(());
        }
        let how = match ahead_ms >= 0 {
            true => format!(
                "it is {ahead_ms} ms ahead of the system's time of day, and stands still once that step has stood for {} s",
                probe::STEP_STANDS_MS / 1_000
            ),
            false => format!(
                "it stays {} ms behind the system's time of day, which steps",
                ahead_ms.unsigned_abs()
            ),
        };
        Err(format!("the node's clock is held, for {held_ms} ms now: {how}"))
    }

    /// Has the bank taken its turns lately?
    ///
    /// # Errors
    /// For how long not.
    pub fn check_turns(&self) -> Result<(), String> {
        match self.age_ms() {
            0..=TURN_AGE_MS_MAX => Ok(()),
            age_ms => Err(format!(
                "the bank's last turn began {age_ms} ms ago: settlements wait, and purses are not filled"
            )),
        }
    }

    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// How often the bank took back what calls at other workers than this gave. Written by the bank, before the calls are answered, and read where an
/// ask is refused; on a line of its own, as the worker writes what is beside it.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct ReturnedElsewhere(AtomicU64);

impl ReturnedElsewhere {
    pub(crate) fn note(&self) {
        self.0.fetch_add(1, Release);
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.load(Acquire)
    }
}

/// What one door of a worker counts, for whoever knows of what type it is.
pub type DoorCounts = Arc<dyn Any + Send + Sync>;

counters! {
    /// Counters of one worker, and of its doors. Written by it alone, read by anybody.
    #[derive(Debug, Default)]
    pub struct WorkerCounters of Counter, in "doors.batch" {
        waiting: "Frames and notices that wait for the bank now.", level(), name("resolves_waiting"), elsewhere("weir_queue_depth");
        clock_back: "Backward steps of the system's clock that a worker held back.";
    } also {
        /// What its doors count.
        doors: Vec<DoorCounts>,
        /// The last refused asks.
        pub refusals: Arc<LastRefusals>,
        /// Money that calls at other workers gave back.
        pub(crate) returned: ReturnedElsewhere,
        /// Which kernel thread it is, for its CPU time.
        pub thread: ThreadMeter,
    }
}

impl WorkerCounters {
    /// Counters of a worker whose doors count in these.
    pub fn with(doors: Vec<DoorCounts>) -> WorkerCounters {
        WorkerCounters { doors, ..WorkerCounters::default() }
    }

    /// What the door that counts in a `C` counted.
    ///
    /// # Panics
    /// If the worker's set has no such door.
    pub fn of<C: Any>(&self) -> &C {
        self.doors.iter().find_map(|counts| counts.downcast_ref()).expect(NO_SUCH_DOOR)
    }

    /// The same, for the door itself, which writes there.
    pub(crate) fn own<C: Any + Send + Sync>(&self) -> Arc<C> {
        let mut own = self.doors.iter().filter_map(|counts| Arc::clone(counts).downcast().ok());
        own.next().expect(NO_SUCH_DOOR)
    }

    /// CPU time of the worker's thread, ns; 0 where the kernel does not tell.
    pub(crate) fn cpu_ns(&self) -> u64 {
        self.thread.cpu_ns()
    }
}

const NO_SUCH_DOOR: &str = "each door of a set counts in a type of its own";
