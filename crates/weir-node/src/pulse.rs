//! Signs of life of the bank's thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use ledger_cluster::At;
use probe::{ClockState, Lease};

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
    /// Another node is the bank of the log.
    is_fenced: AtomicBool,
    on_log: Option<OnLog>,
}

/// A run on a log on other machines, for whoever looks.
#[derive(Debug)]
pub struct OnLog {
    /// Number of the run.
    pub run: u32,
    /// What the log's answers renew.
    pub lease: Arc<Lease>,
    /// Where the log ends.
    pub at: Arc<At>,
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
            is_fenced: AtomicBool::new(false),
            on_log: None,
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

    /// Of a run on such a log; `None`: it is on the own disk.
    pub(crate) fn of(on_log: Option<OnLog>) -> Pulse {
        Pulse { on_log, ..Pulse::default() }
    }

    /// The log on other machines; `None`: it is on the own disk.
    pub fn on_log(&self) -> Option<&OnLog> {
        self.on_log.as_ref()
    }

    /// Another node is the bank of the log: this one has ended.
    pub(crate) fn fence(&self) {
        self.is_fenced.store(true, Relaxed);
    }

    /// Is another node the bank of the log?
    pub fn is_fenced(&self) -> bool {
        self.is_fenced.load(Relaxed)
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
