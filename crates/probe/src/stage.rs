//! The record of one stage: its writer on the thread that is measured, its reader on any other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::histogram::Histogram;
use crate::shared::{Reader, Recorder, shared_histogram};

/// Histograms count in parts of a tick, so that a batch of many items keeps its precision.
pub(crate) const PARTS_A_TICK: u64 = 16;

/// What was recorded of one stage in the passes that were sampled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageFigures {
    /// Ticks, with those that reading the counter took: one reading a lap (see [`TimerCost`](crate::TimerCost)).
    pub ticks: u64,
    /// Times that it was passed.
    pub laps: u64,
    /// Items that it handled.
    pub items: u64,
    /// Sixteenths of a tick an item: of each lap the mean over its items, counted once an item.
    pub an_item: Histogram,
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
        let items = u64::from(items);
        add(&self.sums.ticks, ticks);
        add(&self.sums.laps, 1);
        add(&self.sums.items, items);
        if let Some(an_item) = ticks.saturating_mul(PARTS_A_TICK).checked_div(items) {
            self.an_item.record_many(an_item, items);
        }
    }
}

impl StageReader {
    /// The ticks so far, and nothing else.
    pub(crate) fn ticks(&self) -> u64 {
        self.sums.ticks.load(Relaxed)
    }

    /// What was recorded so far. While the writer goes on, the numbers may be one pass apart from each other.
    pub(crate) fn read(&self) -> StageFigures {
        StageFigures {
            ticks: self.sums.ticks.load(Relaxed),
            laps: self.sums.laps.load(Relaxed),
            items: self.sums.items.load(Relaxed),
            an_item: self.an_item.read(),
        }
    }
}

impl StageFigures {
    /// What was recorded between an earlier reading of the same stage and this one.
    #[must_use]
    pub fn since(&self, earlier: &StageFigures) -> StageFigures {
        StageFigures {
            ticks: self.ticks.saturating_sub(earlier.ticks),
            laps: self.laps.saturating_sub(earlier.laps),
            items: self.items.saturating_sub(earlier.items),
            an_item: self.an_item.since(&earlier.an_item),
        }
    }

    /// Adds what another thread recorded of the same stage.
    pub fn merge(&mut self, other: &StageFigures) {
        self.ticks = self.ticks.saturating_add(other.ticks);
        self.laps = self.laps.saturating_add(other.laps);
        self.items = self.items.saturating_add(other.items);
        self.an_item.merge(&other.an_item);
    }
}

/// There is one writer: no locked instruction is needed.
#[inline(always)]
pub(crate) fn add(sum: &AtomicU64, more: u64) {
    sum.store(sum.load(Relaxed).wrapping_add(more), Relaxed);
}
