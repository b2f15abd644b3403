//! What one thread of a node counts and others read: figures of purses, verdicts by budget, signs of life. Each has one writer.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use ::counters::{Counter, counters};
use ledger::Amount;
use probe::ClockState;
use wire::{Reason, Verdict};

use crate::doors::fix::counts::FixCounts;
use crate::doors::keys::counts::KeysCounts;
use crate::doors::openrtb::counts::SeenCounts;
use crate::doors::spend;
use crate::refusals::LastRefusals;
use crate::thread::ThreadMeter;

/// What one worker says of one purse. Written by the worker only, now and then; read by the bank.
#[derive(Debug, Default)]
pub struct SlotGauge {
    held: AtomicI64,
    free: AtomicI64,
    made: AtomicU64,
}

impl SlotGauge {
    /// For the worker whose purse it is: what is in holds, what is free, and how many holds it made in the run.
    pub fn set(&self, held: Amount, free: Amount, made: u64) {
        self.held.store(held.get(), Relaxed);
        self.free.store(free.get(), Relaxed);
        self.made.store(made, Relaxed);
    }

    /// Holds made in the run, without those that were undone.
    pub fn made(&self) -> u64 {
        self.made.load(Relaxed)
    }

    /// In holds whose deadline was not reported yet.
    pub(crate) fn held(&self) -> Amount {
        Amount::new(self.held.load(Relaxed))
    }
}

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

/// Verdicts that refuse an ask have codes below this: none is lost, or the crate does not compile.
pub const REFUSALS_END: usize = TALLIES + 1;

/// Counters of a slot, which fill a cache line. `Granted` is not counted there: the highest code of a refusal has its place.
const TALLIES: usize = 16;

const _: () = assert!(
    are_asks_below(&verdict_codes(), REFUSALS_END),
    "a verdict on an ask has no place in the tallies and in the last refusals: give these more room"
);

/// Have all verdicts on asks codes below this? Those on resolves begin at `Confirmed`.
pub(crate) const fn are_asks_below(codes: &[u8], end: usize) -> bool {
    let mut i = 0;
    while i < codes.len() {
        if codes[i] as usize >= end && codes[i] < Verdict::Confirmed.as_raw() {
            return false;
        }
        i += 1;
    }
    true
}

/// The codes of all verdicts of the schema.
pub(crate) const fn verdict_codes() -> [u8; Verdict::ALL.len()] {
    let mut codes = [0; Verdict::ALL.len()];
    let mut i = 0;
    while i < codes.len() {
        codes[i] = Verdict::ALL[i].as_raw();
        i += 1;
    }
    codes
}

/// How often one worker refused asks of one budget, by verdict. A cache line, written by the worker alone, at each refused ask;
/// grants cost nothing here, for the purse numbers its holds ([`SlotGauge::made`]). Counts wrap: readers take differences.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct SlotTally([AtomicU32; TALLIES]);

const _: () = assert!(size_of::<SlotTally>() == 64);

impl SlotTally {
    /// There is one writer: no locked instruction is needed.
    #[inline(always)]
    pub fn refused(&self, verdict: Verdict) {
        let count = &self.0[usize::from(verdict.as_raw()) % TALLIES];
        count.store(count.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// How often, by the code of a verdict that refuses an ask; 0 for others.
    pub fn count(&self, verdict: usize) -> u32 {
        match verdict {
            1..REFUSALS_END => self.0[verdict % TALLIES].load(Relaxed),
            _ => 0,
        }
    }
}

/// What one worker says of all slots.
#[derive(Clone, Debug)]
pub struct SlotCells {
    /// What its purses hold, by slot.
    pub gauges: Arc<[SlotGauge]>,
    /// What it answered, by slot.
    pub tallies: Arc<[SlotTally]>,
}

impl SlotCells {
    /// For so many slots, all 0.
    #[must_use]
    pub fn new(slots: usize) -> SlotCells {
        SlotCells {
            gauges: (0..slots).map(|_| SlotGauge::default()).collect(),
            tallies: (0..slots).map(|_| SlotTally::default()).collect(),
        }
    }
}

/// What all workers last said that they hold for a slot.
pub(crate) fn reported_held(workers: &[SlotCells], slot: u32) -> Amount {
    let gauges = workers.iter().filter_map(|cells| cells.gauges.get(slot as usize));
    let held = gauges.map(SlotGauge::held);
    // A measurement, no balance: at the end of the range it stays there.
    held.fold(Amount::ZERO, |sum, held| Amount::new(sum.get().saturating_add(held.get())))
}

counters! {
    /// Counters of one worker. Written by it alone, read by anybody.
    #[derive(Debug)]
    pub struct WorkerCounters of Counter, in "doors.batch" {
        remembered: "Asks answered from memory (flag `remember`).";
        out_of_scope: "Asks that named a budget outside the scopes of their token; answered `unknown_budget`.";
        waiting: "Frames and notices that wait for the bank now.", level(), name("resolves_waiting"), elsewhere("weir_queue_depth");
        clock_back: "Backward steps of the system's clock that a worker held back.";
    } also {
        /// Asks by verdict.
        pub(crate) verdicts: Vec<AtomicU64>,
        /// Confirms, settles and releases by verdict.
        pub(crate) resolved: Vec<AtomicU64>,
        /// Frames refused by reason.
        pub(crate) refused: Vec<AtomicU64>,
        /// The last refused asks.
        pub refusals: LastRefusals,
        /// The OpenRTB door's.
        pub openrtb: SeenCounts,
        /// The spend door's.
        pub spend: spend::counts::SeenCalls,
        /// The FIX door's.
        pub fix: FixCounts,
        /// The keys door's.
        pub keys: KeysCounts,
        /// Which kernel thread it is, for its CPU time.
        pub thread: ThreadMeter,
    }
}

impl Default for WorkerCounters {
    fn default() -> WorkerCounters {
        let row = || (0..256).map(|_| AtomicU64::new(0)).collect();
        WorkerCounters {
            verdicts: row(),
            resolved: row(),
            refused: row(),
            refusals: LastRefusals::default(),
            remembered: Counter::default(),
            out_of_scope: Counter::default(),
            waiting: Counter::default(),
            clock_back: Counter::default(),
            openrtb: SeenCounts::default(),
            spend: spend::counts::SeenCalls::default(),
            fix: FixCounts::default(),
            keys: KeysCounts::default(),
            thread: ThreadMeter::default(),
        }
    }
}

impl WorkerCounters {
    /// Asks that got this verdict.
    pub fn verdict(&self, verdict: Verdict) -> u64 {
        self.verdicts[usize::from(verdict.as_raw())].load(Relaxed)
    }

    pub(crate) fn resolved(&self, verdict: Verdict) -> u64 {
        self.resolved[usize::from(verdict.as_raw())].load(Relaxed)
    }

    /// Frames that were refused for this reason.
    pub fn refused(&self, reason: Reason) -> u64 {
        self.refused[usize::from(reason.as_raw())].load(Relaxed)
    }

    /// CPU time of the worker's thread, ns; 0 where the kernel does not tell.
    pub(crate) fn cpu_ns(&self) -> u64 {
        self.thread.cpu_ns()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_on_an_ask_that_would_not_be_counted_is_found() {
        let mut codes = verdict_codes().to_vec();
        assert!(are_asks_below(&codes, REFUSALS_END));
        for code in 17..Verdict::Confirmed.as_raw() {
            codes.push(code);
            assert!(!are_asks_below(&codes, REFUSALS_END), "{code}");
            codes.pop();
        }
        codes.push(15);
        assert!(are_asks_below(&codes, REFUSALS_END));
    }

    /// Every one of them, with the code that the schema gives it.
    #[test]
    fn every_refused_ask_is_counted() {
        let tally = SlotTally::default();
        let refusals = Verdict::ALL.iter().filter(|v| (1..32).contains(&v.as_raw()));
        for (number, verdict) in (1..).zip(refusals) {
            (0..number).for_each(|_| tally.refused(*verdict));
            assert_eq!(tally.count(verdict.as_raw().into()), number, "{verdict:?}");
        }
    }
}
