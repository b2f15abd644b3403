//! What reading the counter costs itself, and figures from which that has been taken.
#![allow(clippy::cast_precision_loss, reason = "ticks and counts of a measurement, below 2^52")]

use std::sync::OnceLock;

use crate::cycles::{Cycles, ticks_ordered};
use crate::histogram::Histogram;
use crate::laps::{Laps, Stage};
use crate::nanos::Nanos;
use crate::stage::{PARTS_A_TICK, StageFigures};

/// Pairs of readings that are measured.
const PAIRS: usize = 16_384;
/// Turns around nothing, of which one in so many is sampled.
const EMPTY_TURNS: usize = 65_536;
const EMPTY_EVERY: u32 = 16;

/// The least that an item of real work takes: an instruction of a processor that retires 8 at once.
const ITEM_TICKS_MIN: f64 = 0.125;

/// What passes between two ordered readings of the counter with nothing between them: a distribution, not one number.
/// Every lap, and every span, holds one such reading.
///
/// The mean of bare readings, one after the other, is taken from means. A lap around nothing takes more, for the code around
/// the reading; in a program some of that overlaps with other work. So by that much the figures may be off. In a large
/// program that samples rarely, that code is also cold: a lap of nothing may read some 5 ns above this error.
#[derive(Clone, Debug)]
pub struct TimerCost {
    pairs: Histogram,
    mean: f64,
    resolution: f64,
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
    /// The cost on this machine, measured once a process (some 2 ms, and 20 for [`Cycles::get`]).
    pub fn get() -> &'static TimerCost {
        static COST: OnceLock<TimerCost> = OnceLock::new();
        COST.get_or_init(TimerCost::measure)
    }

    /// Measures it.
    #[must_use]
    pub fn measure() -> TimerCost {
        let mut read = vec![0; PAIRS + 1];
        read.fill_with(ticks_ordered);
        let between: Vec<u64> = read.windows(2).map(|two| two[1].saturating_sub(two[0])).collect();
        let mut pairs = Histogram::new();
        between.iter().for_each(|&ticks| pairs.record(ticks));
        let mean = mean_of_body(between.into_iter(), &pairs);
        let spread = pairs.quantile(0.99) as f64 - mean;
        let resolution = spread.max(empty_lap() - mean).max(1.0);
        TimerCost { pairs, mean, resolution }
    }

    /// The distribution of two readings with nothing between them, in ticks.
    #[must_use]
    pub fn distribution(&self) -> &Histogram {
        &self.pairs
    }

    /// Its mean without the slowest percent, which are interrupts; in ticks.
    #[must_use]
    pub fn mean_ticks(&self) -> f64 {
        self.mean
    }

    /// How far what is left of a lap may be off, in ticks: the timer's spread (p99 less mean), or what 19 of 20 empty laps
    /// take beyond a bare reading, whichever is more. At least 1.
    #[must_use]
    pub fn resolution_ticks(&self) -> f64 {
        self.resolution
    }

    /// The mean of an item of a stage, ns, without the timer: the timer's mean is taken from the stage's mean.
    #[must_use]
    pub fn mean(&self, stage: &StageFigures) -> Nanos {
        let items = stage.items.max(1) as f64;
        let laps = stage.laps as f64 / items;
        nanos(stage.ticks as f64 / items - laps * self.mean, laps * self.resolution)
    }

    /// All the time of a stage, ns, without the timer.
    #[must_use]
    pub fn total(&self, stage: &StageFigures) -> Nanos {
        let laps = stage.laps as f64;
        nanos(stage.ticks as f64 - laps * self.mean, laps * self.resolution)
    }

    /// The quantile `q` (0 to 1) of an item of a stage, ns, without the timer.
    ///
    /// Quantiles of a difference are not the difference of quantiles. But the timer's distribution is narrow, so it shifts
    /// the stage's by its median, and blurs it by no more than its spread; that, and the width of a bucket, is the error.
    /// Of a batch only the mean over its items is known: it carries a share of one reading.
    #[must_use]
    pub fn quantile(&self, stage: &StageFigures, q: f64) -> Nanos {
        let laps = stage.laps as f64 / stage.items.max(1) as f64;
        let ticks = stage.an_item.quantile(q) as f64 / PARTS_A_TICK as f64;
        let bucket = ticks / 64.0;
        let median = self.pairs.quantile(0.5) as f64;
        nanos(ticks - laps * median, laps * self.resolution + bucket)
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

/// The mean of those that are not among the slowest percent.
fn mean_of_body(values: impl Iterator<Item = u64>, distribution: &Histogram) -> f64 {
    let longest = distribution.quantile(0.99);
    let body = values.filter(|&ticks| ticks <= longest);
    let (sum, count) = body.fold((0, 0), |(sum, count), ticks| (sum + ticks, count + 1u64));
    sum as f64 / count.max(1) as f64
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

    /// A timer of 30 to 34 ticks, mean 31, that is known to 6.
    fn timer() -> TimerCost {
        let mut pairs = Histogram::new();
        pairs.record_many(30, 90);
        pairs.record_many(34, 10);
        TimerCost { pairs, mean: 31.0, resolution: 6.0 }
    }

    fn stage(ticks: u64, laps: u64, items: u64) -> StageFigures {
        let mut an_item = Histogram::new();
        an_item.record_many(ticks * PARTS_A_TICK / items, items);
        StageFigures { ticks, laps, items, an_item }
    }

    /// Both ends in ticks, without what the calibration may be off.
    fn ticks_of(nanos: Nanos) -> (f64, f64) {
        let cycles = Cycles::get();
        let off = nanos.middle_ns() * cycles.error_ppm() / 1e6;
        let ticks = |ns: f64| (ns / cycles.ns_per_tick() * 10.0).round() / 10.0;
        (ticks(nanos.low_ns() + off), ticks(nanos.high_ns() - off))
    }

    #[test]
    fn means_lose_the_timers_mean_once_a_lap() {
        assert_eq!(ticks_of(timer().mean(&stage(1_310, 10, 10))), (94.0, 106.0));
        assert_eq!(ticks_of(timer().mean(&stage(1_310, 10, 1_000))), (0.9, 1.1));
        assert_eq!(ticks_of(timer().total(&stage(1_310, 10, 1_000))), (940.0, 1_060.0));
    }

    #[test]
    fn quantiles_are_shifted_by_the_timers_median() {
        // 640 ticks a lap, error 6 + 1/64 of the value.
        assert_eq!(ticks_of(timer().quantile(&stage(640, 1, 1), 0.99)), (594.0, 626.0));
        assert_eq!(ticks_of(timer().quantile(&stage(640, 1, 64), 0.5)), (9.3, 9.8));
    }

    #[test]
    fn what_is_below_the_resolution_is_never_zero_or_less() {
        for ticks in [0, 10, 31, 36] {
            let mean = timer().mean(&stage(ticks, 1, 1));
            assert!(mean.to_string().starts_with("< ") && mean.high_ns() >= 0.0, "{mean}");
        }
        assert!(!timer().mean(&stage(38, 1, 1)).is_below());
    }

    #[test]
    fn work_that_is_not_there_is_told_from_work_that_is_short() {
        assert_eq!(timer().trust(&stage(310, 10, 10)), Trust::Unresolved);
        assert_eq!(timer().trust(&stage(310, 10, 10_000)), Trust::Empty);
        assert_eq!(timer().trust(&stage(10_000, 10, 10_000)), Trust::Measured);
    }

    #[test]
    fn nothing_recorded_is_nothing_known() {
        let nothing = StageFigures { ticks: 0, laps: 0, items: 0, an_item: Histogram::new() };
        assert!(timer().mean(&nothing).is_below() && timer().quantile(&nothing, 0.5).is_below());
    }

    #[test]
    fn the_slowest_percent_is_no_part_of_the_mean() {
        let values = || (0..200).map(|at| if at == 0 { 1_000_000 } else { 30 });
        let mut distribution = Histogram::new();
        values().for_each(|value| distribution.record(value));
        assert_eq!(mean_of_body(values(), &distribution), 30.0);
    }

    #[test]
    fn the_real_timer_has_a_cost_and_a_spread() {
        let timer = TimerCost::get();
        assert!(timer.distribution().count() == PAIRS as u64);
        assert!(timer.mean_ticks() > 0.0 && timer.resolution_ticks() >= 1.0);
        assert!(timer.mean_ticks() <= timer.distribution().quantile(0.99) as f64);
    }
}
