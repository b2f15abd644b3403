//! What the batch door counts, a worker.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use counters::{Counter, counters};
use wire::{Reason, Verdict};

counters! {
    /// Counters of one worker. Written by it alone, read by anybody.
    #[derive(Debug)]
    pub struct BatchCounts of Counter, in "doors.batch" {
        remembered: "Asks answered from memory (flag `remember`).";
        out_of_scope: "Asks that named a budget outside the scopes of their token; answered `unknown_budget`.";
    } also {
        /// Asks by verdict.
        pub verdicts: Vec<AtomicU64>,
        /// Confirms, extends, settles and releases by verdict.
        pub resolved: Vec<AtomicU64>,
        /// Frames refused by reason.
        pub(crate) refused: Vec<AtomicU64>,
    }
}

impl Default for BatchCounts {
    fn default() -> BatchCounts {
        let row = || (0..256).map(|_| AtomicU64::new(0)).collect();
        BatchCounts {
            verdicts: row(),
            resolved: row(),
            refused: row(),
            remembered: Counter::default(),
            out_of_scope: Counter::default(),
        }
    }
}

impl BatchCounts {
    /// Asks that got this verdict.
    pub fn verdict(&self, verdict: Verdict) -> u64 {
        self.verdicts[usize::from(verdict.as_raw())].load(Relaxed)
    }

    /// Confirms, settles and releases that got this verdict.
    pub fn resolved(&self, verdict: Verdict) -> u64 {
        self.resolved[usize::from(verdict.as_raw())].load(Relaxed)
    }

    /// Frames that were refused for this reason.
    pub fn refused(&self, reason: Reason) -> u64 {
        self.refused[usize::from(reason.as_raw())].load(Relaxed)
    }
}
