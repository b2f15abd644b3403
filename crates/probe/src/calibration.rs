//! What a reading of the counter takes, found around chains of dependent instructions whose lengths are known.
//!
//! Two readings with nothing between them do not tell what two readings take of work that stands between them: where no
//! fence stands behind a reading, the work begins while the reading still goes on, and what they share would be taken off
//! twice. So readings are put around chains of several lengths. What a step takes is the slope of the line through them,
//! and what the line has left at no step is what the readings add to work.

use std::hint::black_box;

use crate::compare::Random;
use crate::histogram::Histogram;

/// Steps of the chains. The shortest takes longer than a reading, so that all that can overlap with it does.
const CHAINS: [u32; 4] = [40, 80, 120, 160];
/// Each batch makes a line of its own; the middle one counts, so that a disturbed minority of them does not.
const BATCHES: usize = 9;
/// Pairs of readings around nothing, and around each chain, in a batch.
const PAIRS: usize = 160;
/// Before a pair runs a chain of up to so many steps, so that no pair meets the counter always at the same place of its step.
const BEFORE_MAX: usize = 32;
/// Pairs around chains of up to [`STEP_CHAIN_MAX`] steps, by which the counter's own step is found.
const STEP_PAIRS: usize = 2_048;
const STEP_CHAIN_MAX: usize = 64;

/// What reading the counter takes, and how finely it counts; all in ticks.
#[derive(Clone, Debug)]
pub struct Calibration {
    bare: Histogram,
    bare_mean: f64,
    taken: f64,
    unsure: f64,
    step: f64,
}

impl Calibration {
    /// Calibrates what `pair` does: it runs a chain of so many steps (its first argument) unmeasured, then gives the ticks
    /// between two readings around a chain of so many (its second), around nothing where that is 0.
    pub(crate) fn of(mut pair: impl FnMut(u32, u32) -> u64) -> Calibration {
        let mut random = Random::new(1);
        let step = step_of(&mut random, &mut pair);
        let mut bare = Histogram::new();
        let (mut bare_means, mut taken) = (Vec::new(), Vec::new());
        for _ in 0..BATCHES {
            let mut read = [const { Vec::new() }; CHAINS.len() + 1];
            for _ in 0..PAIRS {
                let lengths = std::iter::once(0).chain(CHAINS);
                for (values, steps) in read.iter_mut().zip(lengths) {
                    values.push(pair(steps_below(&mut random, BEFORE_MAX), steps));
                }
            }
            read[0].iter().for_each(|&ticks| bare.record(ticks));
            let [nothing, chains @ ..] = read.map(mean_of_body);
            bare_means.push(nothing);
            taken.push(at_no_step(chains));
        }
        let (bare_mean, (taken, unsure)) = (middle(bare_means).0, middle(taken));
        Calibration { bare, bare_mean, taken: taken.max(0.0), unsure, step }
    }

    /// The distribution of two readings with nothing between them.
    #[must_use]
    pub fn bare(&self) -> &Histogram {
        &self.bare
    }

    /// Its mean without the slowest percent, which are interrupts.
    #[must_use]
    pub fn bare_mean_ticks(&self) -> f64 {
        self.bare_mean
    }

    /// What two readings add to work between them that is longer than one of them: what is to be taken off.
    #[must_use]
    pub fn taken_ticks(&self) -> f64 {
        self.taken
    }

    /// How far [`Calibration::taken_ticks`] may be off, from how its batches differ.
    #[must_use]
    pub fn unsure_ticks(&self) -> f64 {
        self.unsure
    }

    /// How much of a reading and the work behind it can go on at once: work that is shorter than this hides within, wholly
    /// or in part, so it may read long by as much.
    #[must_use]
    pub fn overlap_ticks(&self) -> f64 {
        (self.bare_mean - self.taken).abs()
    }

    /// By how much the counter goes on at once; no single reading is finer. At least 1.
    #[must_use]
    pub fn step_ticks(&self) -> f64 {
        self.step
    }

    /// How much more than the mean the longest of 99 in 100 readings around nothing takes, beyond what the counter's step
    /// explains.
    #[must_use]
    pub fn spread_ticks(&self) -> f64 {
        (self.bare.quantile(0.99) as f64 - self.bare_mean - self.step).max(0.0)
    }

    /// Is a dearer way to read, which has this calibration, worth its price beside a cheaper one? It is where it takes more
    /// off the overlap than it costs more.
    pub(crate) fn is_worth_more_than(&self, cheaper: &Calibration) -> bool {
        let gain = cheaper.overlap_ticks() - self.overlap_ticks();
        gain > self.bare_mean - cheaper.bare_mean && gain > cheaper.unsure + self.unsure
    }
}

/// A pair of readings around a chain, for [`Calibration::of`].
#[inline(always)]
pub(crate) fn pair(before: u32, steps: u32, read: impl Fn() -> u64) -> u64 {
    black_box(chain(black_box(1), before));
    let (begin, steps) = (black_box(1), black_box(steps));
    if steps == 0 {
        let from = read();
        return read().saturating_sub(from);
    }
    let from = read();
    black_box(chain(begin, steps));
    read().saturating_sub(from)
}

/// Steps of which each needs the one before. In line, so that between two readings is nothing else.
#[inline(always)]
pub(crate) fn chain(begin: u64, steps: u32) -> u64 {
    (0..steps).fold(begin, |x, _| x.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (x >> 7))
}

/// The mean of those that are not among the slowest percent.
pub(crate) fn mean_of_body(mut values: Vec<u64>) -> f64 {
    values.sort_unstable();
    let body = &values[..(values.len() * 99).div_ceil(100)];
    body.iter().sum::<u64>() as f64 / body.len().max(1) as f64
}

/// What the line of least squares through the chains' means has at no step.
fn at_no_step(means: [f64; CHAINS.len()]) -> f64 {
    let count = CHAINS.len() as f64;
    let (mid_steps, mid) =
        (CHAINS.iter().sum::<u32>() as f64 / count, means.iter().sum::<f64>() / count);
    let off = |steps: u32| f64::from(steps) - mid_steps;
    let (along, across) =
        CHAINS.iter().zip(means).fold((0.0, 0.0), |(along, across), (&steps, mean)| {
            (along + off(steps) * (mean - mid), across + off(steps) * off(steps))
        });
    mid - mid_steps * along / across
}

/// The middle one, and half of what lies between the quarters.
fn middle(mut values: Vec<f64>) -> (f64, f64) {
    values.sort_unstable_by(f64::total_cmp);
    let at = |quarter: usize| values[(values.len() - 1) * quarter / 4];
    (at(2), (at(3) - at(1)) / 2.0)
}

/// By how much the counter goes on at once. Chains of all lengths leave no number of ticks out but those that the counter
/// never shows: so it is the distance between neighbours among the numbers that were read. Three quarters of them count, as
/// a hypervisor that scales the counter makes of one number two neighbours.
fn step_of(random: &mut Random, pair: &mut impl FnMut(u32, u32) -> u64) -> f64 {
    let mut any = || {
        let (before, steps) =
            (steps_below(random, BEFORE_MAX), 1 + steps_below(random, STEP_CHAIN_MAX));
        pair(before, steps)
    };
    let mut read: Vec<u64> = (0..STEP_PAIRS).map(|_| any()).collect();
    read.sort_unstable();
    let longest = read[STEP_PAIRS - 1];
    read.truncate(STEP_PAIRS * 19 / 20);
    read.dedup();
    let mut gaps: Vec<u64> = read.windows(2).map(|two| two[1] - two[0]).collect();
    gaps.sort_unstable();
    // All within one step of the counter: that is at least as long as the longest.
    gaps.get(gaps.len() * 3 / 4).copied().unwrap_or(longest).max(1) as f64
}

fn steps_below(random: &mut Random, limit: usize) -> u32 {
    u32::try_from(random.below(limit)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nanos::Nanos;
    use crate::stage::{StageFigures, stage};
    use crate::timer::TimerCost;

    /// What a step of the chain takes on each stand-in, ticks: four cycles of a core at 3.7 GHz beside a counter of 2.6 GHz.
    const A_STEP: f64 = 4.0 * 26.0 / 37.0;
    const CHECKED: [u32; 6] = [10, 20, 40, 80, 120, 200];
    const LAPS: usize = 4_000;

    /// A processor that this machine need not be: its time is computed, so a test sees the same every run.
    #[derive(Clone)]
    struct StandIn {
        /// Ticks from the moment that a reading shows to its end.
        reading: f64,
        /// For so long before a reading ends, work behind it goes on already.
        shadow: f64,
        /// By how much the counter goes on at once.
        step: f64,
        /// When the work so far is done, and when the last reading has ended.
        done: f64,
        read: f64,
        /// One reading in 1,000 meets an interrupt.
        interrupted: bool,
        random: Random,
    }

    impl StandIn {
        fn new(reading: f64, shadow: f64, step: f64) -> StandIn {
            StandIn {
                reading,
                shadow,
                step,
                done: 1e6,
                read: 0.0,
                interrupted: true,
                random: Random::new(7),
            }
        }

        /// The processor that the tests were first seen green on.
        fn plain() -> StandIn {
            StandIn::new(36.0, 0.0, 2.0)
        }

        fn coarse() -> StandIn {
            StandIn::new(78.0, 0.0, 26.0)
        }

        fn overlapping() -> StandIn {
            StandIn::new(78.0, 31.0, 1.0)
        }

        /// A Zen 4 or 5 as it was seen: readings of 30 ns of which 12 go on beside the work, steps of 10 ns.
        fn coarse_and_overlapping() -> StandIn {
            StandIn::new(78.0, 31.0, 26.0)
        }

        /// The same processor with a second fence, which costs 3 ns.
        fn fenced(&self) -> StandIn {
            StandIn { reading: self.reading + 8.0, shadow: 0.0, ..self.clone() }
        }

        /// Waits until all before is done. One in 64 takes a little longer.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        fn read(&mut self) -> u64 {
            let begun = self.done.max(self.read);
            let late = match self.random.below(1_000) {
                0 if self.interrupted => 5_000.0,
                at if at % 64 == 1 => 4.0,
                _ => 0.0,
            };
            self.read = begun + self.reading + late;
            self.done = self.read - self.shadow;
            ((begun / self.step).floor() * self.step) as u64
        }

        fn work(&mut self, steps: u32) {
            self.done += f64::from(steps) * A_STEP;
        }

        fn pair(&mut self, before: u32, steps: u32) -> u64 {
            self.work(before);
            let from = self.read();
            self.work(steps);
            self.read() - from
        }

        fn calibration(&mut self) -> Calibration {
            Calibration::of(|before, steps| self.pair(before, steps))
        }

        fn timer(&mut self) -> TimerCost {
            let (bare, laps) = (self.calibration(), self.calibration());
            let longest = bare.bare().quantile(0.95) as f64;
            TimerCost::new(bare, &laps, longest)
        }

        /// Spans around chains of so many steps, said to be so many items.
        fn spans(&mut self, steps: u32, items: u32) -> StageFigures {
            let (mut writer, reader) = stage();
            for _ in 0..LAPS {
                let before = steps_below(&mut self.random, BEFORE_MAX);
                writer.record(self.pair(before, steps), items);
            }
            reader.read()
        }

        /// Turns of three laps, with one reading between two of them.
        fn laps(&mut self, steps: u32) -> StageFigures {
            let (mut writer, reader) = stage();
            for _ in 0..LAPS / 3 {
                let before = steps_below(&mut self.random, BEFORE_MAX);
                self.work(before);
                let mut last = self.read();
                for _ in 0..3 {
                    self.work(steps);
                    let now = self.read();
                    writer.record(now - last, 1);
                    last = now;
                }
            }
            reader.read()
        }
    }

    fn ticks_of(nanos: Nanos) -> (f64, f64) {
        let a_tick = crate::Cycles::get().ns_per_tick();
        (nanos.low_ns() / a_tick, nanos.high_ns() / a_tick)
    }

    /// Mean and quantiles of chains of all lengths are what they are known to be, within the error that is stated. The table
    /// that it prints stands in `docs/measuring.md`.
    fn all_is_right(name: &str, mut stand_in: StandIn) {
        let timer = stand_in.timer();
        stand_in.interrupted = false;
        let (around_nothing, adds) = (timer.calibration().bare_mean_ticks(), timer.mean_ticks());
        println!("{name}: {around_nothing:.0} ticks around nothing, {adds:.0} added to work");
        for steps in CHECKED {
            let known = f64::from(steps) * A_STEP;
            let (spans, laps, batch) =
                (stand_in.spans(steps, 1), stand_in.laps(steps), stand_in.spans(steps, 10));
            for (what, figures, known) in
                [("span", &spans, known), ("lap", &laps, known), ("batch", &batch, known / 10.0)]
            {
                let (low, high) = ticks_of(timer.mean(figures));
                if what != "batch" {
                    let (read, error) = (f64::midpoint(low, high), (high - low) / 2.0);
                    let once = read + adds - around_nothing;
                    println!(
                        "{name}, {what}: {steps} steps, {known:.1} known, {read:.1} +- {error:.1}; {once:.1} less what is around nothing"
                    );
                }
                let told = format!("{what} of {steps} steps, {known:.1} ticks; {timer}");
                assert!(low <= known && known <= high, "mean {low}..{high}: {told}");
                for q in [0.05, 0.5, 0.9] {
                    let (low, high) = ticks_of(timer.quantile(figures, q));
                    assert!(low <= known && known <= high, "q {q} {low}..{high}: {told}");
                }
            }
        }
    }

    #[test]
    fn all_is_right_on_a_plain_processor() {
        all_is_right("plain", StandIn::plain());
    }

    #[test]
    fn all_is_right_where_the_counter_goes_on_by_26_ticks() {
        all_is_right("coarse", StandIn::coarse());
    }

    #[test]
    fn all_is_right_where_work_begins_in_the_shadow_of_a_reading() {
        all_is_right("overlapping", StandIn::overlapping());
    }

    #[test]
    fn all_is_right_where_both_are_so() {
        all_is_right("both", StandIn::coarse_and_overlapping());
        all_is_right("both, fenced", StandIn::coarse_and_overlapping().fenced());
    }

    /// What is taken off is what a reading adds to work, not what it takes around nothing.
    #[test]
    fn what_is_taken_off_is_what_readings_add() {
        for (mut stand_in, adds) in [
            (StandIn::plain(), 36.0),
            (StandIn::coarse(), 78.0),
            (StandIn::overlapping(), 47.0),
            (StandIn::coarse_and_overlapping(), 47.0),
            (StandIn::coarse_and_overlapping().fenced(), 86.0),
        ] {
            let found = stand_in.calibration();
            assert!((found.taken_ticks() - adds).abs() < 2.0, "{adds}: {found:?}");
            assert!((found.bare_mean_ticks() - stand_in.reading).abs() < 1.0, "{found:?}");
        }
    }

    #[test]
    fn the_step_of_a_counter_is_found() {
        for step in [1.0, 2.0, 3.0, 10.0, 26.0, 41.0, 100.0, 1_000.0] {
            let found = StandIn::new(78.0, 31.0, step).calibration().step_ticks();
            assert!((found - step).abs() <= 1.0, "{found} for {step}");
        }
        // A counter that a hypervisor scales goes on by 26 and a bit.
        let found = StandIn::new(78.0, 0.0, 26.4).calibration().step_ticks();
        assert!((24.0..=28.0).contains(&found), "{found}");
        assert_eq!(Calibration::of(|_, _| 0).step_ticks(), 1.0, "a counter that stands still");
    }

    /// The second fence is taken where it is worth more than it costs.
    #[test]
    fn the_way_to_read_is_chosen_by_what_it_gains() {
        let worth = |mut light: StandIn| {
            let mut fenced = light.fenced();
            fenced.calibration().is_worth_more_than(&light.calibration())
        };
        assert!(!worth(StandIn::plain()) && !worth(StandIn::coarse()));
        assert!(worth(StandIn::overlapping()) && worth(StandIn::coarse_and_overlapping()));
        assert!(!worth(StandIn::new(36.0, 6.0, 2.0)), "a gain of 6 ticks for 8");
    }

    /// A third of the batches is disturbed: the processor works at half its speed for a while.
    #[test]
    fn a_disturbed_minority_of_batches_moves_nothing() {
        let (mut stand_in, mut calls) = (StandIn::plain(), 0);
        let found = Calibration::of(|before, steps| {
            calls += 1;
            let in_batches = 1_000_usize..3_000;
            let slower = if in_batches.contains(&(calls - STEP_PAIRS.min(calls))) { 2 } else { 1 };
            stand_in.pair(before, steps) * slower
        });
        assert!((found.taken_ticks() - 36.0).abs() < 2.0, "{found:?}");
    }

    /// On the processor that the fault was seen on, with the way to read that is chosen there, the mean of a chain of 40
    /// steps is stated to within 15 %.
    #[test]
    fn the_stated_error_of_a_short_chain_is_small() {
        for mut stand_in in [StandIn::plain(), StandIn::coarse_and_overlapping().fenced()] {
            let timer = stand_in.timer();
            stand_in.interrupted = false;
            let (low, high) = ticks_of(timer.mean(&stand_in.spans(40, 1)));
            assert!((high - low) / 2.0 < 0.15 * 40.0 * A_STEP, "{low}..{high}: {timer}");
        }
    }

    #[test]
    fn a_counter_that_goes_back_takes_no_time_and_no_panic() {
        let ticks = std::cell::Cell::new(u64::MAX);
        let back = || {
            ticks.set(ticks.get() - 3);
            ticks.get()
        };
        let found = Calibration::of(|before, steps| pair(before, steps, back));
        assert_eq!(
            (found.taken_ticks(), found.bare_mean_ticks(), found.step_ticks()),
            (0.0, 0.0, 1.0)
        );
    }

    #[test]
    fn the_slowest_percent_is_no_part_of_the_mean() {
        let values = (0..200).map(|at| if at == 0 { 1_000_000 } else { 30 }).collect();
        assert_eq!(mean_of_body(values), 30.0);
        assert_eq!(mean_of_body(vec![7]), 7.0);
    }
}
