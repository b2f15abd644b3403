//! How far the counts have come. The background thread writes, workers read without a lock.

use crate::sync::{AtomicU64, Ordering};

/// Numbers of impressions, which only grow. What was done before a number was stored is seen by whoever reads it.
#[derive(Debug)]
pub(crate) struct Positions {
    written: AtomicU64,
    folded: AtomicU64,
}

impl Positions {
    pub(crate) fn new(last_seq: u64) -> Positions {
        Positions { written: AtomicU64::new(last_seq), folded: AtomicU64::new(last_seq) }
    }

    /// All counts up to this one are in the log, on disk.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    pub(crate) fn set_written(&self, seq: u64) {
        self.written.store(seq, Ordering::Release);
    }

    /// All counts up to this one are in the store, and their users in the filter: memory may forget them.
    pub(crate) fn folded(&self) -> u64 {
        self.folded.load(Ordering::Acquire)
    }

    pub(crate) fn set_folded(&self, seq: u64) {
        self.folded.store(seq, Ordering::Release);
    }
}
