//! What a queue did, for reports.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::shared::Shared;

/// A look at a queue from any thread, without locks.
#[derive(Clone, Debug)]
pub struct Gauge {
    shared: Arc<Shared>,
    pushes: Arc<[Arc<Pushes>]>,
}

/// What one producer counts, on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Pushes {
    taken: AtomicU64,
    refused: AtomicU64,
}

impl Pushes {
    /// An item was taken. Only the producer's thread counts, so no read-modify-write is needed.
    #[inline]
    pub(crate) fn count_taken(&self) {
        self.taken.store(self.taken.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// An item found no room.
    pub(crate) fn count_refused(&self) {
        self.refused.store(self.refused.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }
}

/// What a queue did since it was made, all producers together. Read while it runs, the numbers are not of one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Items that were taken into the queue.
    pub pushed: u64,
    /// Items that were given back because there was no room.
    pub refused: u64,
    /// Items that the work took in a call that returned.
    pub done: u64,
    /// Items that the work took in a call that panicked: some of them may be done.
    pub in_doubt: u64,
    /// Calls of the work that panicked.
    pub panics: u64,
    /// Calls of the work that returned.
    pub batches: u64,
    /// Pushes that found the worker asleep and woke it: each made a system call.
    pub wakes: u64,
    /// The longest time that an item waited and was worked on: from the worker's last look before the item came (or
    /// the call that woke the worker) to the end of the item's batch. So it is too short by the moment between
    /// a push and its call at most (a millisecond where the push came just as the worker fell asleep), and too long by
    /// one batch or nap at most.
    pub longest_wait: Duration,
}

impl Figures {
    /// Items that are not done: in the queue, or in the hands of the work.
    #[must_use]
    pub fn depth(&self) -> u64 {
        self.pushed.saturating_sub(self.done.saturating_add(self.in_doubt))
    }
}

impl Gauge {
    pub(crate) fn new(shared: Arc<Shared>, pushes: Vec<Arc<Pushes>>) -> Gauge {
        Gauge { shared, pushes: pushes.into() }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Reads the figures.
    #[must_use]
    pub fn read(&self) -> Figures {
        // What is done is read before what was pushed: the other way round, more could seem done than pushed.
        let mut figures = self.shared.worked();
        for pushes in &*self.pushes {
            let (taken, refused) = (&pushes.taken, &pushes.refused);
            figures.pushed = figures.pushed.saturating_add(taken.load(Ordering::Relaxed));
            figures.refused = figures.refused.saturating_add(refused.load(Ordering::Relaxed));
        }
        figures
    }
}
