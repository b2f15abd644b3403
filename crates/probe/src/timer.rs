//! What reading the counter costs itself, and figures from which that has been taken.
#![allow(clippy::cast_precision_loss, reason = "ticks and counts of a measurement, below 2^52")]

use std::fmt;
use std::hint::black_box;
use std::sync::OnceLock;

use crate::calibration::{Calibration, chain, pair};
use crate::cycles::{Cycles, ticks_ordered};
use crate::histogram::Histogram;
use crate::laps::{Laps, LapsReader, Stage};
use crate::nanos::{Nanos, three_figures};
use crate::stage::{PARTS_A_TICK, StageFigures};

/// Turns around nothing, of which one in so many is sampled.
const EMPTY_TURNS: usize = 65_536;
const EMPTY_EVERY: u32 = 16;

/// The least that an item of real work takes: an instruction of a processor that retires 8 at once.
const ITEM_TICKS_MIN: f64 = 0.125;

/// What reading the counter adds to the work between two ordered readings, and how far that is known. Every lap, and every
/// span, holds one such reading.
///
/// What is taken off is what readings add to chains of known lengths ([`Calibration`]), from means and quantiles alike. What
/// is left may be off by what work and reading can share, by how laps differ from bare readings, and by the counter's step.
/// In a large program that samples rarely, the code of a lap is also cold: a lap of nothing may read some 5 ns above this
/// error.
#[derive(Clone, Debug)]
pub struct TimerCost {
    calibration: Calibration,
    bias: f64,
}

/// Can the figures of a stage be believed?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The stage costs more than the timer's error.
    Measured,
    /// Too short to be told from nothing. More items between two readings would tell.
    Unresolved,
    /// Less than one instruction an item: the work is not there. The compiler removed it, most likely because nobody uses
    /// its result ([`std::hint::black_box`]).
    Empty,
}

impl TimerCost {
    /// The cost on this machine, measured once per process (some 10 ms, and 20 for [`Cycles::get`]).
    pub fn get() -> &'static TimerCost {
        static COST: OnceLock<TimerCost> = OnceLock::new();
        COST.get_or_init(TimerCost::measure)
    }

    /// Measures it.
    #[must_use]
    pub fn measure() -> TimerCost {
        let bare = Calibration::of(|before, steps| pair(before, steps, ticks_ordered));
        TimerCost::new(bare, &of_laps(), empty_lap())
    }

    /// From the calibration of bare readings, that of laps, and the ticks that 19 of 20 laps around nothing stay within.
    pub(crate) fn new(bare: Calibration, laps: &Calibration, empty_lap: f64) -> TimerCost {
        let longest_empty = empty_lap - bare.bare_mean_ticks() - bare.step_ticks();
        let laps_differ = (laps.taken_ticks() - bare.taken_ticks()).abs();
        let spread = bare.spread_ticks().max(longest_empty).max(laps_differ);
        let bias = bare.overlap_ticks() + spread.max(bare.unsure_ticks()).max(1.0);
        TimerCost { calibration: bare, bias }
    }

    /// How it was found, and what a reading takes around nothing.
    #[must_use]
    pub fn calibration(&self) -> &Calibration {
        &self.calibration
    }

    /// The distribution of two readings with nothing between them, in ticks.
    #[must_use]
    pub fn distribution(&self) -> &Histogram {
        self.calibration.bare()
    }

    /// What a reading adds to the lap that it ends; in ticks. It is taken off means, quantiles and sums.
    #[must_use]
    pub fn mean_ticks(&self) -> f64 {
        self.calibration.taken_ticks()
    }

    /// How far what is left of a single lap may be off, in ticks: [`TimerCost::bias_ticks`] and the counter's step.
    #[must_use]
    pub fn resolution_ticks(&self) -> f64 {
        self.bias + self.calibration.step_ticks()
    }

    /// How far what is left of laps may be off on average, however many they are, in ticks: what a reading and work can share,
    /// and the most of: the timer's spread, what 19 of 20 empty laps take beyond a bare reading, by how much a reading adds
    /// more or less to a lap than to a bare chain, how far the calibration's batches differ, and 1.
    #[must_use]
    pub fn bias_ticks(&self) -> f64 {
        self.bias
    }

    /// The mean of an item of a stage, ns, without the timer.
    #[must_use]
    pub fn mean(&self, stage: &StageFigures) -> Nanos {
        let items = stage.items.max(1) as f64;
        let (left, error) = self.left_of(stage);
        nanos(left / items, error / items)
    }

    /// All the time of a stage, ns, without the timer.
    #[must_use]
    pub fn total(&self, stage: &StageFigures) -> Nanos {
        let (left, error) = self.left_of(stage);
        nanos(left, error)
    }

    /// The ticks of a stage without the timer, and how far they may be off. Laps meet the counter anywhere within its step, so
    /// what that adds to some it takes from others: of a sum it grows with the root of their number only. Where turns are a
    /// sample, the others may differ from it.
    fn left_of(&self, stage: &StageFigures) -> (f64, f64) {
        let laps = stage.laps as f64;
        let timer = laps * self.bias + laps.sqrt() * self.calibration.step_ticks();
        let sample = stage.spread.error_ticks(stage.ticks as f64, stage.items as f64);
        // The two have nothing to do with each other.
        (stage.ticks as f64 - laps * self.mean_ticks(), timer.hypot(sample))
    }

    /// The quantile `q` (0 to 1) of an item of a stage, ns, without the timer.
    ///
    /// Quantiles of a difference are not the difference of quantiles. But the timer's distribution is narrow, so it shifts
    /// the stage's by what is taken off, and blurs it by no more than its spread and the counter's step; that, and the width
    /// of a bucket, is the error. Of a batch only the mean over its items is known: it carries a share of one reading.
    #[must_use]
    pub fn quantile(&self, stage: &StageFigures, q: f64) -> Nanos {
        let laps = stage.laps as f64 / stage.items.max(1) as f64;
        let ticks = stage.an_item.quantile(q) as f64 / PARTS_A_TICK as f64;
        let bucket = ticks / 64.0;
        nanos(ticks - laps * self.mean_ticks(), laps * self.resolution_ticks() + bucket)
    }

    /// Can the figures of a stage whose items are work, each at least an instruction, be believed?
    #[must_use]
    pub fn trust(&self, stage: &StageFigures) -> Trust {
        let mean = self.mean(stage);
        if !mean.is_below() {
            Trust::Measured
        } else if mean.high_ns() < ITEM_TICKS_MIN * Cycles::get().ns_per_tick() {
            Trust::Empty
        } else {
            Trust::Unresolved
        }
    }
}

/// Ticks to ns, with the error of the calibration.
fn nanos(ticks: f64, error: f64) -> Nanos {
    let cycles = Cycles::get();
    let error = error + ticks.abs() * cycles.error_ppm() / 1e6;
    Nanos::new(ticks * cycles.ns_per_tick(), error * cycles.ns_per_tick())
}

impl fmt::Display for TimerCost {
    /// One sentence: what is taken off, what was measured around nothing, how far it is known, and the counter's step.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = |ticks: f64| three_figures(ticks * Cycles::get().ns_per_tick());
        let calibration = &self.calibration;
        write!(
            f,
            "a reading adds {} ns to work ({} ns around nothing), known to {} ns; the counter's step is {} ns",
            ns(self.mean_ticks()),
            ns(calibration.bare_mean_ticks()),
            ns(self.bias),
            ns(calibration.step_ticks()),
        )
    }
}

/// What a reading adds to laps: the calibration through the very code of [`Laps`].
fn of_laps() -> Calibration {
    let (mut laps, reader) = Laps::<Nothing>::new(1);
    Calibration::of(|before, steps| lap(&mut laps, &reader, before, steps))
}

fn lap(laps: &mut Laps<Nothing>, reader: &LapsReader<Nothing>, before: u32, steps: u32) -> u64 {
    let (recorded, begin, steps) = (reader.ticks(Nothing), black_box(1), black_box(steps));
    laps.begin();
    black_box(chain(black_box(1), before));
    laps.skip();
    if steps > 0 {
        black_box(chain(begin, steps));
    }
    laps.lap(Nothing, 1);
    // What was sampled is recorded when the turn is over.
    laps.begin();
    reader.ticks(Nothing).saturating_sub(recorded)
}

/// The ticks that 19 of 20 laps around nothing stay within: the very code of [`Laps`], in turns that are sampled now and
/// then as in a program. The processor expects a turn that is not sampled, and is wrong where one is.
fn empty_lap() -> f64 {
    let (mut laps, reader) = Laps::<Nothing>::new(EMPTY_EVERY);
    for _ in 0..EMPTY_TURNS {
        laps.begin();
        laps.lap(Nothing, 1);
    }
    drop(laps);
    let most = reader.read().stages.first().map_or(0, |nothing| nothing.an_item.quantile(0.95));
    most as f64 / PARTS_A_TICK as f64
}

#[derive(Clone, Copy)]
struct Nothing;

impl Stage for Nothing {
    const ALL: &'static [Nothing] = &[Nothing];

    fn index(self) -> usize {
        0
    }

    fn name(self) -> &'static str {
        "nothing"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::Spread;

    /// A timer that adds 31 ticks, known to 6; the counter goes on by 3.
    fn timer() -> TimerCost {
        let calibration = Calibration::of(|_, steps| 31 + 3 * u64::from(steps));
        let timer = TimerCost { calibration, bias: 6.0 };
        assert_eq!((timer.mean_ticks().round(), timer.calibration().step_ticks()), (31.0, 3.0));
        timer
    }

    fn stage(ticks: u64, laps: u64, items: u64) -> StageFigures {
        let mut an_item = Histogram::new();
        an_item.record_many((ticks * PARTS_A_TICK).checked_div(items).unwrap_or(0), items);
        StageFigures { ticks, laps, items, an_item, spread: Spread::default() }
    }

    /// Both ends in ticks, without what the calibration may be off.
    fn ticks_of(nanos: Nanos) -> (f64, f64) {
        let cycles = Cycles::get();
        let off = nanos.middle_ns() * cycles.error_ppm() / 1e6;
        let ticks = |ns: f64| (ns / cycles.ns_per_tick() * 10.0).round() / 10.0;
        (ticks(nanos.low_ns() + off), ticks(nanos.high_ns() - off))
    }

    #[test]
    fn means_lose_what_a_reading_adds_once_a_lap() {
        // Known to 6 a lap, and to the counter's step by the root of the laps: 3 * 3 / 9.
        assert_eq!(ticks_of(timer().mean(&stage(9 * 131, 9, 9))), (93.0, 107.0));
        assert_eq!(ticks_of(timer().mean(&stage(9 * 131, 9, 900))), (0.9, 1.1));
        assert_eq!(ticks_of(timer().total(&stage(9 * 131, 9, 900))), (837.0, 963.0));
    }

    #[test]
    fn quantiles_are_shifted_by_what_a_reading_adds() {
        // 640 ticks a lap, error 6 + 3 + 1/64 of the value.
        assert_eq!(ticks_of(timer().quantile(&stage(640, 1, 1), 0.99)), (590.0, 628.0));
        assert_eq!(ticks_of(timer().quantile(&stage(640, 1, 64), 0.5)), (9.2, 9.8));
    }

    #[test]
    fn what_is_below_the_resolution_is_never_zero_or_less() {
        for ticks in [0, 10, 31, 39] {
            let mean = timer().mean(&stage(ticks, 1, 1));
            assert!(mean.to_string().starts_with("< ") && mean.high_ns() >= 0.0, "{mean}");
        }
        assert!(!timer().mean(&stage(41, 1, 1)).is_below());
    }

    #[test]
    fn work_that_is_not_there_is_told_from_work_that_is_short() {
        assert_eq!(timer().trust(&stage(310, 10, 10)), Trust::Unresolved);
        assert_eq!(timer().trust(&stage(310, 10, 10_000)), Trust::Empty);
        assert_eq!(timer().trust(&stage(10_000, 10, 10_000)), Trust::Measured);
    }

    #[test]
    fn nothing_recorded_is_nothing_known() {
        let nothing = stage(0, 0, 0);
        assert!(timer().mean(&nothing).is_below() && timer().quantile(&nothing, 0.5).is_below());
    }

    #[test]
    fn the_real_timer_has_a_cost_and_a_spread() {
        let timer = TimerCost::get();
        assert!(timer.distribution().count() > 0 && timer.mean_ticks() >= 0.0);
        assert!(timer.bias_ticks() >= 1.0 && timer.resolution_ticks() > timer.bias_ticks());
        assert!(timer.to_string().contains("ns around nothing"), "{timer}");
    }
}
