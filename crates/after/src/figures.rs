//! What a queue did, for reports.

use std::sync::Arc;
use std::time::Duration;

use table::ring;

use crate::shared::Shared;

/// A look at a queue from any thread, without locks.
#[derive(Clone, Debug)]
pub struct Gauge {
    shared: Arc<Shared>,
    rings: Arc<[ring::Gauge]>,
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
    pub(crate) fn new(shared: Arc<Shared>, rings: Vec<ring::Gauge>) -> Gauge {
        Gauge { shared, rings: rings.into() }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Reads the figures.
    #[must_use]
    pub fn read(&self) -> Figures {
        // What is done is read before what was pushed: the other way round, more could seem done than pushed.
        let mut figures = self.shared.worked();
        for counts in self.rings.iter().map(ring::Gauge::read) {
            figures.pushed = figures.pushed.saturating_add(counts.sent);
            figures.refused = figures.refused.saturating_add(counts.full);
        }
        figures
    }
}
