//! A histogram that one thread writes and others read, without a locked instruction. `proof/interleavings` runs this file under
//! all orders in which writer and reader can meet in it.

use crate::histogram::{BUCKETS, Histogram, bucket_of};
use crate::sync::{Arc, AtomicU64, Ordering};

/// Makes a shared histogram: its one writer and a reader, of which there may be clones.
#[must_use]
pub fn shared_histogram() -> (Recorder, Reader) {
    let counts = (0..BUCKETS).map(|_| AtomicU64::new(0)).collect();
    let shared = Arc::new(SharedCounts { counts, max: AtomicU64::new(0) });
    (Recorder(Arc::clone(&shared)), Reader(shared))
}

/// The writing end. There is only one (it is no `Clone`, and recording needs `&mut`), so a plain load
/// and a plain store do what would otherwise take an atomic addition, in half the time.
#[derive(Debug)]
pub struct Recorder(Arc<SharedCounts>);

/// The reading end.
#[derive(Clone, Debug)]
pub struct Reader(Arc<SharedCounts>);

#[derive(Debug)]
struct SharedCounts {
    counts: Box<[AtomicU64]>,
    max: AtomicU64,
}

impl Recorder {
    /// Counts one value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.record_many(value, 1);
    }

    /// Counts `times` values at once.
    #[inline]
    pub fn record_many(&mut self, value: u64, times: u64) {
        let count = &self.0.counts[bucket_of(value)];
        let max = &self.0.max;
        // The maximum first, and the count tells of it: a reader that sees the count sees its maximum too.
        if times > 0 && value > max.load(Ordering::Relaxed) {
            max.store(value, Ordering::Relaxed);
        }
        let counted = count.load(Ordering::Relaxed).wrapping_add(times);
        count.store(counted, Ordering::Release);
    }

    /// Another reader.
    #[must_use]
    pub fn reader(&self) -> Reader {
        Reader(Arc::clone(&self.0))
    }
}

impl Reader {
    /// Copies what has been counted so far. While the writer goes on, the copy may lack its last values, and `max` may
    /// belong to a value that is not yet among the counts; it is never below one that is. Nothing is ever counted twice.
    #[must_use]
    pub fn read(&self) -> Histogram {
        let counts = self.0.counts.iter().map(|count| count.load(Ordering::Acquire));
        Histogram::from_counts(counts, || self.0.max.load(Ordering::Relaxed))
    }
}
