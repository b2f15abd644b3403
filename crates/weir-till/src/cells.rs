//! What a worker says of budgets, slot by slot: what its purses hold, and how often it refused. Each cell has one writer.

use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use ledger::{Amount, MADE_SLOT};
use wire::Verdict;

/// What one worker says of one purse. Written by the worker only, where something changed; read by the bank.
#[derive(Debug, Default)]
pub struct SlotGauge {
    held: AtomicI64,
    made: AtomicU64,
}

impl SlotGauge {
    /// For the worker whose purse it is: what is in holds, and how many holds it made in the run.
    pub fn set(&self, held: Amount, made: u64) {
        self.held.store(held.get(), Relaxed);
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
    /// What its purses of made budgets hold.
    pub made: Arc<MadeHeld>,
}

impl SlotCells {
    /// For so many slots, all 0.
    #[must_use]
    pub fn new(slots: usize) -> SlotCells {
        SlotCells {
            gauges: (0..slots).map(|_| SlotGauge::default()).collect(),
            tallies: (0..slots).map(|_| SlotTally::default()).collect(),
            made: Arc::default(),
        }
    }

    /// As [`SlotCells::new`]; what the worker says of made budgets stays.
    #[must_use]
    pub fn grown(&self, slots: usize) -> SlotCells {
        SlotCells { made: Arc::clone(&self.made), ..SlotCells::new(slots) }
    }
}

/// Made budgets whose cells come at once, and how often: more than `budgets.templates_max` may be.
const MADE_STEP: usize = 4_096;
const MADE_STEPS: usize = 1_024;

/// What one worker's purses of made budgets have in holds whose deadline was not reported yet, by slot counted from [`MADE_SLOT`]. Cells
/// come as the worker meets such budgets; of those beyond the last step nothing is said.
#[derive(Debug)]
pub struct MadeHeld(Box<[OnceLock<Box<[AtomicI64]>>]>);

impl Default for MadeHeld {
    fn default() -> MadeHeld {
        MadeHeld((0..MADE_STEPS).map(|_| OnceLock::new()).collect())
    }
}

impl MadeHeld {
    /// For the worker whose purse it is.
    pub fn set(&self, made: usize, held: Amount) {
        let Some(step) = self.0.get(made / MADE_STEP) else { return };
        let cells = step.get_or_init(|| (0..MADE_STEP).map(|_| AtomicI64::new(0)).collect());
        cells[made % MADE_STEP].store(held.get(), Relaxed);
    }

    /// What the worker last said; nothing of a budget that it never met.
    #[must_use]
    pub fn get(&self, made: usize) -> Amount {
        let cells = self.0.get(made / MADE_STEP).and_then(OnceLock::get);
        cells.map_or(Amount::ZERO, |cells| Amount::new(cells[made % MADE_STEP].load(Relaxed)))
    }
}

/// What all workers last said that they hold for a slot.
pub fn reported_held(workers: &[SlotCells], slot: u32) -> Amount {
    let held = workers.iter().map(|cells| match slot.checked_sub(MADE_SLOT) {
        None => cells.gauges.get(slot as usize).map_or(Amount::ZERO, SlotGauge::held),
        Some(made) => cells.made.get(made as usize),
    });
    // A measurement, no balance: at the end of the range it stays there.
    held.fold(Amount::ZERO, |sum, held| Amount::new(sum.get().saturating_add(held.get())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_workers_hold_of_made_budgets_outlives_a_configuration() {
        let workers = [SlotCells::new(1), SlotCells::new(1)];
        let slots = [0, 1, 4_095, 4_096, 3_999_999];
        for (slot, cells) in slots.iter().flat_map(|slot| workers.iter().map(move |w| (slot, w))) {
            cells.made.set(*slot, Amount::new(7));
        }
        let workers = workers.each_ref().map(|cells| cells.grown(9));
        let held = |made: usize| {
            let slot = MADE_SLOT + u32::try_from(made).unwrap();
            reported_held(&workers, slot).get()
        };
        assert_eq!(slots.map(held), [14; 5]);
        assert_eq!([2, 4_097, 8_192, 100_000_000].map(held), [0; 4]);
        workers[0].made.set(1, Amount::ZERO);
        workers[0].made.set(100_000_000, Amount::new(1));
        assert_eq!((held(1), held(0), reported_held(&workers, 1).get()), (7, 14, 0));
    }

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
