//! One thread hands items to one other thread: [`rtrb`]'s ring with names, close and counters.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Makes a ring for `capacity` items (at least 1) and its two ends. Allocates here and never again.
#[must_use]
pub fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let (producer, consumer) = rtrb::RingBuffer::new(capacity.max(1));
    let counters = Arc::new(Counters::default());
    let sender = Sender { producer, counters: Arc::clone(&counters), sent: 0, full: 0 };
    (sender, Receiver { consumer, counters, received: 0 })
}

/// The writing end. Dropping it closes the ring; what is in it can still be received.
#[derive(Debug)]
pub struct Sender<T> {
    producer: rtrb::Producer<T>,
    counters: Arc<Counters>,
    sent: u64,
    full: u64,
}

/// The reading end. Dropping it closes the ring and drops what is in it.
#[derive(Debug)]
pub struct Receiver<T> {
    consumer: rtrb::Consumer<T>,
    counters: Arc<Counters>,
    received: u64,
}

/// Why an item was not taken; it comes back in the error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError<T> {
    /// No room now. Counted. Try again after the receiver ran, or drop the item by a stated rule.
    #[error("the ring is full; try again after the receiver has run")]
    Full(T),
    /// The receiver is gone, no item will ever be taken again. Stop sending.
    #[error("the ring is closed: its receiver is gone; stop sending")]
    Closed(T),
}

/// A look at a ring from a third thread, for reports.
#[derive(Clone, Debug)]
pub struct Gauge(Arc<Counters>);

/// What went through a ring since it was made. Read while it runs, the three numbers are not of one
/// instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Items that were sent.
    pub sent: u64,
    /// Items that were received.
    pub received: u64,
    /// Times that an item found no room.
    pub full: u64,
}

impl Counts {
    /// Items in the ring: sent and not yet received.
    #[must_use]
    pub fn depth(&self) -> u64 {
        self.sent.saturating_sub(self.received)
    }
}

/// One cache line an end, so that counting does not make the two threads share one.
#[derive(Debug, Default)]
struct Counters {
    sender: SenderCounters,
    receiver: ReceiverCounters,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct SenderCounters {
    sent: AtomicU64,
    full: AtomicU64,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct ReceiverCounters {
    received: AtomicU64,
}

impl<T> Sender<T> {
    /// Puts one item in.
    ///
    /// # Errors
    /// [`SendError::Full`] when there is no room, [`SendError::Closed`] when the receiver is gone;
    /// either gives the item back.
    #[inline]
    pub fn try_send(&mut self, item: T) -> Result<(), SendError<T>> {
        if self.is_closed() {
            return Err(SendError::Closed(item));
        }
        match self.producer.push(item) {
            Ok(()) => {
                self.sent += 1;
                self.counters.sender.sent.store(self.sent, Ordering::Relaxed);
                Ok(())
            }
            Err(rtrb::PushError::Full(item)) => {
                self.full += 1;
                self.counters.sender.full.store(self.full, Ordering::Relaxed);
                Err(SendError::Full(item))
            }
        }
    }

    /// Items that fit at this moment; more may fit later, never fewer.
    #[must_use]
    pub fn room(&self) -> usize {
        self.producer.slots()
    }

    /// True when the receiver is gone.
    #[inline]
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.producer.is_abandoned()
    }

    /// A look at the counters for another thread.
    #[must_use]
    pub fn gauge(&self) -> Gauge {
        Gauge(Arc::clone(&self.counters))
    }
}

impl<T> Receiver<T> {
    /// Takes one item out; `None` when there is none now (see [`Receiver::is_closed`]).
    #[inline]
    pub fn recv(&mut self) -> Option<T> {
        let item = self.consumer.pop().ok()?;
        self.count(1);
        Some(item)
    }

    /// Takes out up to `max` items, in order, and gives each to `take`, until none is left. Returns
    /// how many. Counts once a call.
    pub fn drain(&mut self, max: usize, mut take: impl FnMut(T)) -> usize {
        // One by one on purpose: `pop` looks at the sender's position only when what it knew of is
        // used up. Asking for a chunk looks every time, which was slower where the receiver is fast.
        let mut taken = 0;
        while taken < max
            && let Ok(item) = self.consumer.pop()
        {
            take(item);
            taken += 1;
        }
        self.count(taken as u64);
        taken
    }

    /// Items in the ring at this moment; more may come, never fewer.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.consumer.slots()
    }

    /// True when the sender is gone and every item was taken out: nothing will come any more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        // The order matters: the last item is visible before the sender is gone.
        self.consumer.is_abandoned() && self.consumer.is_empty()
    }

    /// A look at the counters for another thread.
    #[must_use]
    pub fn gauge(&self) -> Gauge {
        Gauge(Arc::clone(&self.counters))
    }

    #[inline]
    fn count(&mut self, items: u64) {
        self.received += items;
        self.counters.receiver.received.store(self.received, Ordering::Relaxed);
    }
}

impl Gauge {
    /// Reads the counters.
    #[must_use]
    pub fn read(&self) -> Counts {
        // `received` first: read the other way round, a busy ring could look over-emptied.
        let received = self.0.receiver.received.load(Ordering::Relaxed);
        let sent = self.0.sender.sent.load(Ordering::Relaxed);
        Counts { sent, received, full: self.0.sender.full.load(Ordering::Relaxed) }
    }
}
