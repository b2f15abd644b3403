//! What a worker says of budgets, slot by slot: what its purses hold, and how often it refused. Each cell has one writer.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};

use ledger::Amount;
use wire::Verdict;

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
    pub fn held(&self) -> Amount {
        Amount::new(self.held.load(Relaxed))
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
pub const fn are_asks_below(codes: &[u8], end: usize) -> bool {
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
pub const fn verdict_codes() -> [u8; Verdict::ALL.len()] {
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
pub fn reported_held(workers: &[SlotCells], slot: u32) -> Amount {
    let gauges = workers.iter().filter_map(|cells| cells.gauges.get(slot as usize));
    let held = gauges.map(SlotGauge::held);
    // A measurement, no balance: at the end of the range it stays there.
    held.fold(Amount::ZERO, |sum, held| Amount::new(sum.get().saturating_add(held.get())))
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
