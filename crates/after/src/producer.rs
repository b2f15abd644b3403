//! The hot end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use table::ring::{SendError, Sender};

use crate::figures::Pushes;
use crate::shared::Shared;

/// Between two looks of a [`Producer::push_wait`] at a full queue.
const LOOK_AGAIN: Duration = Duration::from_micros(100);

/// One thread's end of the queue. Dropping it leaves its items to the worker.
#[derive(Debug)]
pub struct Producer<T> {
    ring: Sender<T>,
    pushes: Arc<Pushes>,
    shared: Arc<Shared>,
}

/// Why an item was not taken; it comes back in the error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PushError<T> {
    /// No room: the worker is behind. Counted. Drop the item by a stated rule, or try again later.
    #[error("the queue is full: its worker is behind; drop the item or try again later")]
    Full(T),
    /// The queue ends or has ended, no item will ever be taken again. Stop pushing.
    #[error("the queue has ended; stop pushing")]
    Closed(T),
}

impl<T> Producer<T> {
    pub(crate) fn new(ring: Sender<T>, pushes: Arc<Pushes>, shared: Arc<Shared>) -> Producer<T> {
        Producer { ring, pushes, shared }
    }

    /// Hands one item to the worker. Never blocks, never allocates; makes a system call only if the worker sleeps.
    ///
    /// # Errors
    /// [`PushError::Full`] when there is no room, [`PushError::Closed`] when the queue ends; either gives the item
    /// back.
    #[inline]
    pub fn push(&mut self, item: T) -> Result<(), PushError<T>> {
        if self.shared.is_closed() {
            return Err(PushError::Closed(item));
        }
        self.ring.try_send(item).map_err(|error| self.refused(error))?;
        self.pushes.count_taken();
        self.shared.wake_if_asleep();
        Ok(())
    }

    #[cold]
    fn refused(&self, error: SendError<T>) -> PushError<T> {
        match error {
            SendError::Full(item) => {
                self.pushes.count_refused();
                PushError::Full(item)
            }
            SendError::Closed(item) => PushError::Closed(item),
        }
    }

    /// As [`push`](Self::push), for callers that may wait: while there is no room it sleeps, `within` at most. A wait
    /// that ends without room counts as one refusal.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn push_wait(&mut self, item: T, within: Duration) -> Result<(), PushError<T>> {
        let began = Instant::now();
        while self.ring.room() == 0 && !self.is_closed() {
            let left = within.saturating_sub(began.elapsed());
            if left.is_zero() {
                break;
            }
            std::thread::sleep(LOOK_AGAIN.min(left));
        }
        self.push(item)
    }

    /// Items that fit at this moment; more may fit later, never fewer.
    #[must_use]
    pub fn room(&self) -> usize {
        self.ring.room()
    }

    /// True when no item will ever be taken again.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.is_closed() || self.ring.is_closed()
    }
}
