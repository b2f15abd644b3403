//! The record of one stage: its writer on the thread that is measured, its reader on any other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::histogram::Histogram;
use crate::shared::{Reader, Recorder, shared_histogram};

/// Histograms count in parts of a tick, so that a batch of many items keeps its precision.
pub(crate) const PARTS_A_TICK: u64 = 16;

/// The figures that were recorded of one stage in the passes that were sampled.
#[derive(Clone, Debug, PartialEq)]
pub struct StageFigures {
    /// Ticks, with those that reading the counter took: one reading a lap (see [`TimerCost`](crate::TimerCost)).
    pub ticks: u64,
    /// Times that it was passed.
    pub laps: u64,
    /// Items that it handled.
    pub items: u64,
    /// Sixteenths of a tick an item: of each lap the mean over its items, counted once per item.
    pub an_item: Histogram,
    /// How the turns that were sampled differ: what is known of the others.
    pub spread: Spread,
}

/// Sums over the turns that were sampled and held the stage. All 0 where every turn is sampled: nothing is then guessed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// Turns.
    pub turns: f64,
    /// Ticks of the turn, squared.
    pub ticks_squared: f64,
    /// Ticks times items.
    pub ticks_items: f64,
    /// Items, squared.
    pub items_squared: f64,
}

#[derive(Debug)]
pub(crate) struct StageWriter {
    sums: Arc<Sums>,
    an_item: Recorder,
}

#[derive(Clone, Debug)]
pub(crate) struct StageReader {
    sums: Arc<Sums>,
    an_item: Reader,
}

#[derive(Debug, Default)]
struct Sums {
    ticks: AtomicU64,
    laps: AtomicU64,
    items: AtomicU64,
    /// Of [`Spread`], each the bits of an `f64`.
    spread: [AtomicU64; 4],
}

pub(crate) fn stage() -> (StageWriter, StageReader) {
    let sums = Arc::new(Sums::default());
    let (recorder, reader) = shared_histogram();
    (
        StageWriter { sums: Arc::clone(&sums), an_item: recorder },
        StageReader { sums, an_item: reader },
    )
}

impl StageWriter {
    /// One pass that took so many ticks for so many items.
    #[inline]
    pub(crate) fn record(&mut self, ticks: u64, items: u32) {
        self.record_apart(ticks, items);
        let items = u64::from(items);
        if let Some(an_item) = ticks.saturating_mul(PARTS_A_TICK).checked_div(items) {
            self.an_item.record_many(an_item, items);
        }
    }

    /// The same of a pass whose time is known as a sum only: it is in no quantile.
    #[inline]
    pub(crate) fn record_apart(&mut self, ticks: u64, items: u32) {
        add(&self.sums.ticks, ticks);
        add(&self.sums.laps, 1);
        add(&self.sums.items, u64::from(items));
    }

    /// A sampled turn came to so many ticks and items, as one of a sample.
    pub(crate) fn turn(&mut self, ticks: u64, items: u64) {
        #[allow(clippy::cast_precision_loss, reason = "of one turn, far below 2^52")]
        let (ticks, items) = (ticks as f64, items as f64);
        let more = [1.0, ticks * ticks, ticks * items, items * items];
        for (sum, more) in self.sums.spread.iter().zip(more) {
            sum.store((f64::from_bits(sum.load(Relaxed)) + more).to_bits(), Relaxed);
        }
    }
}

impl StageReader {
    /// The ticks so far, and nothing else.
    pub(crate) fn ticks(&self) -> u64 {
        self.sums.ticks.load(Relaxed)
    }

    /// The figures that were recorded so far. While the writer goes on, the numbers may be one pass apart from each other.
    pub(crate) fn read(&self) -> StageFigures {
        StageFigures {
            ticks: self.sums.ticks.load(Relaxed),
            laps: self.sums.laps.load(Relaxed),
            items: self.sums.items.load(Relaxed),
            an_item: self.an_item.read(),
            spread: Spread::read(&self.sums.spread),
        }
    }
}

impl StageFigures {
    /// The figures that were recorded between an earlier reading of the same stage and this one.
    #[must_use]
    pub fn since(&self, earlier: &StageFigures) -> StageFigures {
        StageFigures {
            ticks: self.ticks.saturating_sub(earlier.ticks),
            laps: self.laps.saturating_sub(earlier.laps),
            items: self.items.saturating_sub(earlier.items),
            an_item: self.an_item.since(&earlier.an_item),
            spread: self.spread.plus(&earlier.spread, -1.0),
        }
    }

    /// Adds what another thread recorded of the same stage.
    pub fn merge(&mut self, other: &StageFigures) {
        self.ticks = self.ticks.saturating_add(other.ticks);
        self.laps = self.laps.saturating_add(other.laps);
        self.items = self.items.saturating_add(other.items);
        self.an_item.merge(&other.an_item);
        self.spread = self.spread.plus(&other.spread, 1.0);
    }
}

impl Spread {
    fn read(sums: &[AtomicU64; 4]) -> Spread {
        let [turns, ticks_squared, ticks_items, items_squared] =
            sums.each_ref().map(|sum| f64::from_bits(sum.load(Relaxed)));
        Spread { turns, ticks_squared, ticks_items, items_squared }
    }

    fn plus(&self, other: &Spread, times: f64) -> Spread {
        Spread {
            turns: self.turns + times * other.turns,
            ticks_squared: self.ticks_squared + times * other.ticks_squared,
            ticks_items: self.ticks_items + times * other.ticks_items,
            items_squared: self.items_squared + times * other.items_squared,
        }
    }

    /// How far the ticks of all items may be from those of a sample of the same number of turns, 19 times in 20: what turns
    /// differ by from so many ticks an item. 0 where every turn was sampled; all of them for fewer than two turns.
    pub(crate) fn error_ticks(&self, ticks: f64, items: f64) -> f64 {
        if self.turns <= 0.0 || items <= 0.0 {
            return 0.0;
        }
        if self.turns < 2.0 {
            return ticks;
        }
        let each = ticks / items;
        let squares =
            self.ticks_squared - 2.0 * each * self.ticks_items + each * each * self.items_squared;
        // Rounding may leave less than nothing.
        DEVIATIONS * (squares.max(0.0) * self.turns / (self.turns - 1.0)).sqrt()
    }
}

/// Standard deviations within which 19 of 20 estimates are.
const DEVIATIONS: f64 = 1.96;

/// There is one writer: no locked instruction is needed.
#[inline(always)]
pub(crate) fn add(sum: &AtomicU64, more: u64) {
    sum.store(sum.load(Relaxed).wrapping_add(more), Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_turns_differ_by_is_the_error_of_a_sample() {
        let (mut writer, reader) = stage();
        let mut turn = |ticks, items| {
            writer.record_apart(ticks, items);
            writer.turn(ticks, u64::from(items));
        };
        assert_eq!(reader.read().spread.error_ticks(0.0, 0.0), 0.0);
        turn(100, 10);
        assert_eq!(reader.read().spread.error_ticks(100.0, 10.0), 100.0, "one turn tells nothing");
        turn(200, 20);
        let alike = reader.read();
        assert_eq!(alike.spread.error_ticks(300.0, 30.0), 0.0, "as many ticks an item");
        turn(130, 10);
        turn(170, 20);
        let read = reader.read();
        // Residuals of 0, 0, 30, -30 about 10 ticks an item.
        let wanted = 1.96 * (1_800.0_f64 * 4.0 / 3.0).sqrt();
        assert!((read.spread.error_ticks(600.0, 60.0) - wanted).abs() < 1e-9);
        assert_eq!(read.since(&alike).spread.turns, 2.0);
    }
}
