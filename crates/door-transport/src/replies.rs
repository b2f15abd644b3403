//! Answers that come later, in another order, from other threads: each leaves its connection in the order of the
//! requests.
//!
//! A request [reserves](Replies::reserve) its place, and the [`Ticket`] for it goes wherever the answer is made. Whoever
//! has the answer [fills](Replies::fill) the place in the worker's turn; what is complete from the front on is written.
//! Tickets of a connection that is gone reach nobody; so do tickets that were filled already. Both are counted.
//! Everything is bounded: places per worker, places per connection, bytes that wait for others before them.

use std::collections::VecDeque;

use crate::buffer::Out;
use crate::outbox::Outbox;
use crate::service::ConnId;

/// The place of one answer: of which connection, and which in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    conn: ConnId,
    sequence: u64,
}

impl Ticket {
    /// The ticket as two numbers, for a message to another thread and back.
    pub fn to_bits(self) -> (u64, u64) {
        (self.conn.to_bits(), self.sequence)
    }

    /// The ticket that [`to_bits`](Self::to_bits) gave.
    pub fn from_bits((conn, sequence): (u64, u64)) -> Self {
        Self { conn: ConnId::from_bits(conn), sequence }
    }

    /// The connection.
    pub fn conn(self) -> ConnId {
        self.conn
    }
}

/// What became of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filled {
    /// It was written, and perhaps others behind it.
    Written,
    /// It waits for those before it.
    Kept,
    /// Its connection is gone.
    Gone,
    /// Its place is filled already.
    Repeated,
    /// Too many bytes wait; the connection is being closed, since its order can not be kept without this one.
    TooMuch,
}

/// Limits of one worker's replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyLimits {
    /// Places reserved at once, of all connections.
    pub places_max: usize,
    /// Places reserved at once, of one connection.
    pub connection_places_max: usize,
    /// Bytes of answers that wait for others before them, of all connections.
    pub bytes_max: usize,
}

/// The places of one connection.
#[derive(Default)]
struct Queue {
    /// Whose it is; a slot that is used again is another connection's.
    conn: Option<ConnId>,
    /// The number of the first place in `places`.
    first: u64,
    places: VecDeque<Option<Vec<u8>>>,
    /// The number of the next place. It goes on over all connections of the slot.
    next: u64,
}

/// All answers of a worker that are to come.
pub struct Replies {
    limits: ReplyLimits,
    queues: Vec<Queue>,
    places: usize,
    bytes: usize,
    spare: Vec<Vec<u8>>,
    dropped: u64,
    repeated: u64,
}

/// Vectors kept for their memory, and the largest of them.
const SPARE_MAX: usize = 64;
const SPARE_BYTES_MAX: usize = 16 * 1024;

impl Replies {
    /// No places yet.
    pub fn new(limits: ReplyLimits) -> Self {
        Self {
            limits,
            queues: Vec::new(),
            places: 0,
            bytes: 0,
            spare: Vec::new(),
            dropped: 0,
            repeated: 0,
        }
    }

    /// Reserves the next place of `conn`; `None` when there are too many. A service then [pauses](crate::Step::Pause) or
    /// refuses the request.
    pub fn reserve(&mut self, conn: ConnId) -> Option<Ticket> {
        let slot = conn.slot() as usize;
        if slot >= self.queues.len() {
            self.queues.resize_with(slot + 1, Queue::default);
        }
        if self.queues[slot].conn != Some(conn) {
            self.clear(slot);
            self.queues[slot].conn = Some(conn);
        }
        let queue = &mut self.queues[slot];
        if self.places >= self.limits.places_max
            || queue.places.len() >= self.limits.connection_places_max
        {
            return None;
        }
        if queue.places.is_empty() {
            queue.first = queue.next;
        }
        queue.places.push_back(None);
        let sequence = queue.next;
        queue.next += 1;
        self.places += 1;
        Some(Ticket { conn, sequence })
    }

    /// Whether answers of `conn` are still to come: then one that is known at once takes a place too, so that it does
    /// not overtake them.
    pub fn is_waiting(&self, conn: ConnId) -> bool {
        self.queue(conn).is_some_and(|queue| !queue.places.is_empty())
    }

    /// Takes the answer to the request with `ticket`, and writes what is complete.
    pub fn fill<C>(&mut self, ticket: Ticket, answer: &[u8], outbox: &mut Outbox<'_, C>) -> Filled {
        let filled = self.keep(ticket, answer);
        match filled {
            Filled::Written => {
                let written = outbox.with(ticket.conn, |_, out| self.write(ticket.conn, out));
                if written.is_none() {
                    self.dropped += 1;
                    self.closed(ticket.conn);
                    return Filled::Gone;
                }
            }
            Filled::TooMuch => {
                outbox.close(ticket.conn);
                self.closed(ticket.conn);
            }
            Filled::Gone => self.dropped += 1,
            Filled::Repeated => self.repeated += 1,
            Filled::Kept => {}
        }
        filled
    }

    /// Puts the answer into its place.
    fn keep(&mut self, ticket: Ticket, answer: &[u8]) -> Filled {
        let left = self.limits.bytes_max.saturating_sub(self.bytes);
        let Some(queue) = self.queues.get_mut(ticket.conn.slot() as usize) else {
            return Filled::Gone;
        };
        if queue.conn != Some(ticket.conn) || ticket.sequence >= queue.next {
            return Filled::Gone;
        }
        let Some(index) = ticket.sequence.checked_sub(queue.first) else { return Filled::Repeated };
        let place = usize::try_from(index).ok().and_then(|index| queue.places.get_mut(index));
        let Some(place) = place else { return Filled::Repeated };
        if place.is_some() {
            return Filled::Repeated;
        }
        if index > 0 && answer.len() > left {
            return Filled::TooMuch;
        }
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.extend_from_slice(answer);
        self.bytes += bytes.len();
        *place = Some(bytes);
        if index == 0 { Filled::Written } else { Filled::Kept }
    }

    /// Writes all answers from the front up to the first that is missing.
    fn write(&mut self, conn: ConnId, out: &mut Out<'_>) {
        let Some(queue) = self.queues.get_mut(conn.slot() as usize) else { return };
        while let Some(bytes) = queue.places.front_mut().and_then(Option::take) {
            out.write(&bytes);
            queue.places.pop_front();
            queue.first += 1;
            self.places -= 1;
            self.bytes -= bytes.len();
            recycle(&mut self.spare, bytes);
        }
    }

    /// The connection is gone ([`Service::closed`](crate::Service::closed)): its places are free again.
    pub fn closed(&mut self, conn: ConnId) {
        if self.queue(conn).is_some() {
            self.clear(conn.slot() as usize);
        }
    }

    fn queue(&self, conn: ConnId) -> Option<&Queue> {
        self.queues.get(conn.slot() as usize).filter(|queue| queue.conn == Some(conn))
    }

    fn clear(&mut self, slot: usize) {
        let queue = &mut self.queues[slot];
        queue.conn = None;
        self.places -= queue.places.len();
        for bytes in queue.places.drain(..).flatten() {
            self.bytes -= bytes.len();
            recycle(&mut self.spare, bytes);
        }
    }

    /// Places reserved now: a worker with some is not [drained](crate::Turn::drained).
    pub fn len(&self) -> usize {
        self.places
    }

    /// Whether no answer is to come.
    pub fn is_empty(&self) -> bool {
        self.places == 0
    }

    /// Bytes of answers that wait for others before them.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Answers whose connection was gone, since the start.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Answers to requests that were answered already, since the start.
    pub fn repeated(&self) -> u64 {
        self.repeated
    }
}

fn recycle(spare: &mut Vec<Vec<u8>>, mut bytes: Vec<u8>) {
    if spare.len() < SPARE_MAX && bytes.capacity() <= SPARE_BYTES_MAX {
        bytes.clear();
        spare.push(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ReplyLimits =
        ReplyLimits { places_max: 4, connection_places_max: 3, bytes_max: 10 };

    fn conn(slot: u32, generation: u32) -> ConnId {
        ConnId { slot, generation }
    }

    #[test]
    fn places_and_bytes_are_bounded() {
        let mut replies = Replies::new(LIMITS);
        let tickets: Vec<Ticket> = (0..3).map(|_| replies.reserve(conn(0, 0)).unwrap()).collect();
        assert_eq!(replies.reserve(conn(0, 0)), None, "of one connection");
        assert!(replies.reserve(conn(1, 0)).is_some());
        assert_eq!(replies.reserve(conn(1, 0)), None, "of all");
        assert_eq!(replies.keep(tickets[2], b"12345"), Filled::Kept);
        assert_eq!(replies.keep(tickets[1], b"123456"), Filled::TooMuch);
        assert_eq!(replies.keep(tickets[0], b"of any length: it leaves at once"), Filled::Written);
        replies.closed(conn(0, 0));
        replies.closed(conn(1, 0));
        assert!(replies.is_empty() && replies.bytes() == 0);
    }

    #[test]
    fn tickets_of_the_past_reach_nobody() {
        let mut replies = Replies::new(LIMITS);
        let old = replies.reserve(conn(0, 0)).unwrap();
        assert_eq!(Ticket::from_bits(old.to_bits()), old);
        replies.closed(conn(0, 0));
        assert_eq!(replies.keep(old, b"x"), Filled::Gone);
        let new = replies.reserve(conn(0, 1)).unwrap();
        assert_eq!(replies.keep(old, b"x"), Filled::Gone);
        assert_eq!(replies.keep(new, b"x"), Filled::Written);
        assert_eq!(replies.keep(new, b"x"), Filled::Repeated);
        // A ticket that was never given out.
        let ahead = Ticket { conn: conn(0, 1), sequence: new.sequence + 1 };
        assert_eq!(replies.keep(ahead, b"x"), Filled::Gone);
    }
}
