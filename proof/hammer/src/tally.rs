//! The hammer's own books while it runs: counters with one writer (a sending thread) and one reader (the audit).
//!
//! Every counter only grows, so a reader that chooses its order of reading gets bounds that hold, without a lock.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::latency::HandOver;

/// Verdict codes are below this; a larger one on the wire counts at the last place.
pub(crate) const VERDICTS: usize = 64;
/// Frame refusal reasons are below this.
pub(crate) const REASONS: usize = 16;

/// Money of one budget as one sending thread knows it, in micros, since the start of the run.
/// One cache line, so that budgets do not slow each other.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Cell {
    /// Amounts of the holds that a settle or a release was sent for.
    pub ended: AtomicI64,
    /// Amounts of all settles sent; a repeated settle counts once.
    pub sent: AtomicI64,
    /// Of those, the amounts whose final answer is in.
    pub answered: AtomicI64,
    /// Acknowledged within the hold.
    pub settled: AtomicI64,
    /// Acknowledged above the hold.
    pub over: AtomicI64,
    /// Acknowledged after the hold was gone.
    pub late: AtomicI64,
    /// Of `over` and `late`, what this hammer brought about itself.
    pub debts_own: AtomicI64,
}

/// Adds to a counter that only this thread writes: a plain load and store, not a locked instruction.
#[inline]
pub(crate) fn add(counter: &AtomicI64, value: i64) {
    let sum = counter.load(Ordering::Relaxed).wrapping_add(value);
    counter.store(sum, Ordering::Release);
}

/// The same for a count.
#[inline]
pub(crate) fn count(counter: &AtomicU64, value: u64) {
    let sum = counter.load(Ordering::Relaxed).wrapping_add(value);
    counter.store(sum, Ordering::Release);
}

/// What one sending thread publishes.
#[derive(Debug)]
pub(crate) struct Tally {
    /// Micros granted, by budget index. Apart from the cells: it is the only one touched for every grant.
    pub granted: Box<[AtomicI64]>,
    /// The rest, by budget index.
    pub cells: Box<[Cell]>,
    /// Frames of asks sent.
    pub frames_sent: AtomicU64,
    /// Frames of asks answered.
    pub frames_answered: AtomicU64,
    /// Asks answered.
    pub decisions: AtomicU64,
    /// Answers by verdict code.
    pub verdicts: [AtomicU64; VERDICTS],
    /// Refused frames by reason code.
    pub reasons: [AtomicU64; REASONS],
    /// Bytes written.
    pub bytes_sent: AtomicU64,
    /// Bytes read.
    pub bytes_received: AtomicU64,
    /// Settles acknowledged (repeats not counted).
    pub settles: AtomicU64,
    /// Slowest answer to a frame of asks since the audit last took it away, in ns. The one counter that two threads
    /// write: a store that crosses the taking counts in the next interval, which the audit allows for.
    pub latency_ns_max: AtomicU64,
    /// Latency histograms of frames of asks on their way to the reader.
    pub latency: HandOver,
}

impl Tally {
    /// All zero, for this many budgets.
    #[must_use]
    pub(crate) fn new(budgets: usize) -> Self {
        Self {
            granted: std::iter::repeat_with(AtomicI64::default).take(budgets).collect(),
            cells: std::iter::repeat_with(Cell::default).take(budgets).collect(),
            frames_sent: AtomicU64::default(),
            frames_answered: AtomicU64::default(),
            decisions: AtomicU64::default(),
            verdicts: std::array::from_fn(|_| AtomicU64::default()),
            reasons: std::array::from_fn(|_| AtomicU64::default()),
            bytes_sent: AtomicU64::default(),
            bytes_received: AtomicU64::default(),
            settles: AtomicU64::default(),
            latency_ns_max: AtomicU64::default(),
            latency: HandOver::default(),
        }
    }
}

/// One budget's counters at one reading, summed over the threads, in micros.
///
/// Read in this order: `ended_low`, `answered`, the acknowledged lines, `granted`, `ended_high`, `sent`. So every settle
/// in `answered` is also in the acknowledged lines, and every grant in `granted_low` was there before it was ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    /// `ended`, read before `granted`.
    pub ended_low: i64,
    /// See [`Cell::answered`].
    pub answered: i64,
    /// See [`Cell::settled`].
    pub settled: i64,
    /// See [`Cell::over`].
    pub over: i64,
    /// See [`Cell::late`].
    pub late: i64,
    /// See [`Cell::debts_own`].
    pub debts_own: i64,
    /// See [`Tally::granted`].
    pub granted: i64,
    /// `ended`, read after `granted`.
    pub ended_high: i64,
    /// See [`Cell::sent`].
    pub sent: i64,
}

/// Reads all budgets' counters.
#[must_use]
pub(crate) fn snapshot(tallies: &[Tally], budgets: usize) -> Vec<Sums> {
    let mut sums = vec![Sums::default(); budgets];
    for tally in tallies {
        for ((sum, cell), granted) in sums.iter_mut().zip(&tally.cells).zip(&tally.granted) {
            let get = |counter: &AtomicI64| counter.load(Ordering::Acquire);
            sum.ended_low = sum.ended_low.saturating_add(get(&cell.ended));
            sum.answered = sum.answered.saturating_add(get(&cell.answered));
            sum.settled = sum.settled.saturating_add(get(&cell.settled));
            sum.over = sum.over.saturating_add(get(&cell.over));
            sum.late = sum.late.saturating_add(get(&cell.late));
            sum.debts_own = sum.debts_own.saturating_add(get(&cell.debts_own));
            sum.granted = sum.granted.saturating_add(get(granted));
            sum.ended_high = sum.ended_high.saturating_add(get(&cell.ended));
            sum.sent = sum.sent.saturating_add(get(&cell.sent));
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_sum_over_threads() {
        let tallies = [Tally::new(2), Tally::new(2)];
        add(&tallies[0].granted[1], 7);
        add(&tallies[1].granted[1], 8);
        add(&tallies[1].cells[1].sent, 5);
        add(&tallies[0].cells[0].settled, 3);
        let sums = snapshot(&tallies, 2);
        assert_eq!((sums[1].granted, sums[1].sent), (15, 5));
        assert_eq!((sums[0].settled, sums[0].granted), (3, 0));
    }

    #[test]
    fn a_cell_is_one_cache_line() {
        assert_eq!(size_of::<Cell>(), 64);
    }
}
