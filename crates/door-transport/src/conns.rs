//! A worker's connections: a slab of slots with generations.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::buffer::{Buffer, Output, Pool};
use crate::dial::{DialFailure, DialId};
use crate::options::Limits;
use crate::service::{CloseReason, ConnId};
use crate::tls_session::Session;

/// No instant: the clock of a worker starts at 0 and counts milliseconds.
pub(crate) const NEVER: u64 = u64::MAX;

/// Where a connection is in its life. It only moves downwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// We asked to be connected; there is no answer yet.
    Connecting,
    /// Read and answered.
    Open,
    /// Not read any more; its answers go out, then it ends.
    Finishing(CloseReason),
    /// Its answers are out and so is our end of stream. What the peer still sends is read and
    /// dropped: closing with unread bytes would be a reset, which takes the answers away again.
    Lingering(CloseReason),
    /// To be taken out as soon as the kernel holds nothing of it.
    Dead(CloseReason),
}

/// Since when bytes of a connection may have waited to be read: after its socket was last seen empty. All in ms of the loop.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Arrived {
    /// Of the message that is read next.
    pub(crate) message_ms: u64,
    /// Of the last bytes received.
    pub(crate) chunk_ms: u64,
    /// The loop's round in which the socket was last known to have bytes, or may have had some.
    pub(crate) filled_round: u64,
}

impl Arrived {
    /// Of a connection that is new in this round: its peer may have sent at once.
    pub(crate) fn new(since_ms: u64, round: u64) -> Arrived {
        Arrived { message_ms: since_ms, chunk_ms: since_ms, filled_round: round }
    }

    /// Bytes came in this round, in which a socket that was empty got them after `since_ms`; whether there are more of them.
    #[inline]
    pub(crate) fn chunk(&mut self, since_ms: u64, round: u64, more: bool) {
        // What was left in the socket is told in the next round.
        if round > self.filled_round + 1 {
            self.chunk_ms = since_ms;
        }
        if more {
            self.filled_round = round;
        }
    }
}

/// One connection. The last group belongs to the backend.
pub(crate) struct Connection<C> {
    pub(crate) fd: OwnedFd,
    /// What the service keeps; gone once the service was told of the end, not yet there during a TLS handshake.
    pub(crate) user: Option<C>,
    pub(crate) phase: Phase,
    pub(crate) limits: Limits,
    /// The start of an unfinished message; while paused, everything unread.
    pub(crate) input: Buffer,
    /// The size of the message that begins the input, 0 if not known.
    pub(crate) need: usize,
    pub(crate) output: Output,
    /// The part of `output.len()` and `input.len()`, and of the memory of both, that the totals count.
    pub(crate) output_counted: usize,
    pub(crate) input_counted: usize,
    pub(crate) output_memory_counted: usize,
    pub(crate) input_memory_counted: usize,
    /// Not read, because answers wait.
    pub(crate) paused: bool,
    /// Paused by the service, which will say when to read on.
    pub(crate) waiting: bool,
    /// The peer's stream ended while paused; what it sent before is still to be answered.
    pub(crate) ended: bool,
    /// Bytes that it may still be read while the loop stops: what came before the stop while it was paused.
    pub(crate) behind: usize,
    /// The dial that this is the connection of, where we opened it, and what went wrong with it so far.
    pub(crate) dial: Option<(DialId, Option<DialFailure>)>,
    /// Where the connection has TLS.
    pub(crate) tls: Option<Box<Session>>,
    /// On the list of those the backend must look at.
    pub(crate) dirty: bool,
    pub(crate) arrived: Arrived,
    /// When the last whole message came, or the connection.
    pub(crate) message_ms: u64,
    /// Since when a message is unfinished, or `NEVER`.
    pub(crate) partial_ms: u64,
    /// When the peer last took answers, or they began to wait.
    pub(crate) progress_ms: u64,
    /// When lingering ends.
    pub(crate) linger_until_ms: u64,

    /// Epoll: watched for bytes. io_uring: a receive is armed.
    pub(crate) reading: bool,
    /// Epoll: watched for room. io_uring: a send is in flight.
    pub(crate) writing: bool,
    /// io_uring: the armed receive is being cancelled.
    pub(crate) cancelling: bool,
}

impl<C> Connection<C> {
    pub(crate) fn new(fd: OwnedFd, limits: Limits, now_ms: u64) -> Self {
        Self {
            fd,
            limits,
            user: None,
            phase: Phase::Open,
            input: Buffer::default(),
            need: 0,
            output: Output::default(),
            output_counted: 0,
            input_counted: 0,
            output_memory_counted: 0,
            input_memory_counted: 0,
            paused: false,
            waiting: false,
            ended: false,
            behind: 0,
            dial: None,
            tls: None,
            dirty: false,
            arrived: Arrived::default(),
            message_ms: now_ms,
            partial_ms: NEVER,
            progress_ms: now_ms,
            linger_until_ms: NEVER,
            reading: false,
            writing: false,
            cancelling: false,
        }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Makes what waits ready to be sent as it goes over the wire; see `output.flying()`. Plain bytes of a connection
    /// with TLS have no other way there than through its encryption.
    #[inline]
    pub(crate) fn take_off(&mut self, pool: &mut Pool) {
        match &mut self.tls {
            None => self.output.take_off(),
            Some(tls) => tls.seal(&mut self.output, pool, self.phase != Phase::Open),
        }
    }

    /// Whether what comes is kept instead of being handed over: while the answers of all are `choked`, whoever has unsent ones waits.
    pub(crate) fn is_held(&self, choked: bool) -> bool {
        self.paused || (choked && !self.output.is_empty())
    }

    /// Whether anything waits to be sent.
    pub(crate) fn has_unsent(&self) -> bool {
        !self.output.is_empty() || self.tls.as_ref().is_some_and(|tls| tls.has_unsent())
    }

    /// Whether bytes from the peer are wanted now.
    pub(crate) fn wants_bytes(&self, stopping: bool) -> bool {
        match self.phase {
            Phase::Open => {
                let reads = !stopping || self.limits.reads_while_stopping;
                reads && !self.paused && !self.ended
            }
            Phase::Lingering(_) => true,
            Phase::Connecting | Phase::Finishing(_) | Phase::Dead(_) => false,
        }
    }

    /// Puts it on the backend's list, once.
    #[inline]
    pub(crate) fn mark(&mut self, slot: u32, dirty: &mut Vec<u32>) {
        if !std::mem::replace(&mut self.dirty, true) {
            dirty.push(slot);
        }
    }

    /// Whether the service may still write to it.
    pub(crate) fn is_writable(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Finishing(_))
    }
}

struct Slot<C> {
    generation: u32,
    connection: Option<Connection<C>>,
}

/// Connections by slot.
pub(crate) struct Slab<C> {
    slots: Vec<Slot<C>>,
    free: Vec<u32>,
    len: usize,
}

impl<C> Slab<C> {
    pub(crate) fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Slots ever used: the bound of a scan.
    pub(crate) fn slots(&self) -> u32 {
        u32::try_from(self.slots.len()).unwrap_or(u32::MAX)
    }

    pub(crate) fn insert(&mut self, connection: Connection<C>) -> ConnId {
        self.len += 1;
        if let Some(slot) = self.free.pop() {
            let entry = &mut self.slots[slot as usize];
            entry.connection = Some(connection);
            return ConnId { slot, generation: entry.generation };
        }
        let slot = self.slots();
        self.slots.push(Slot { generation: 0, connection: Some(connection) });
        ConnId { slot, generation: 0 }
    }

    /// Takes the connection out; ids of it are stale from now on.
    pub(crate) fn remove(&mut self, slot: u32) -> Option<Connection<C>> {
        let entry = self.slots.get_mut(slot as usize)?;
        let connection = entry.connection.take()?;
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(slot);
        self.len -= 1;
        Some(connection)
    }

    #[inline]
    pub(crate) fn at(&mut self, slot: u32) -> Option<&mut Connection<C>> {
        self.slots.get_mut(slot as usize)?.connection.as_mut()
    }

    #[inline]
    pub(crate) fn get(&mut self, id: ConnId) -> Option<&mut Connection<C>> {
        let entry = self.slots.get_mut(id.slot as usize)?;
        if entry.generation == id.generation { entry.connection.as_mut() } else { None }
    }

    /// The slot of the connection of which `size` is largest and above 0.
    pub(crate) fn largest(&self, size: impl Fn(&Connection<C>) -> usize) -> Option<u32> {
        let sizes = (0..)
            .zip(&self.slots)
            .map(|(slot, entry)| (entry.connection.as_ref().map_or(0, &size), slot));
        sizes.max().filter(|(size, _)| *size > 0).map(|(_, slot)| slot)
    }

    pub(crate) fn peek(&self, slot: u32) -> Option<&Connection<C>> {
        self.slots.get(slot as usize)?.connection.as_ref()
    }

    /// The id of the connection now in `slot`.
    pub(crate) fn id_at(&self, slot: u32) -> ConnId {
        let generation = self.slots.get(slot as usize).map_or(0, |entry| entry.generation);
        ConnId { slot, generation }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;

    fn connection() -> Connection<u8> {
        Connection::new(crate::sys::event().unwrap(), Options::default().limits(), 0)
    }

    #[test]
    fn bytes_are_as_old_as_their_socket_may_have_held_them() {
        // Accepted in round 5; each row: the round, since when an empty socket may have got them, whether more are left, and the result.
        let mut arrived = Arrived::new(50, 5);
        for (round, since_ms, more, expected_ms) in [
            (6, 60, false, 50),
            (7, 70, false, 70),
            (9, 90, true, 90),
            (10, 100, false, 90),
            (11, 110, false, 110),
            (12, 120, false, 120),
            (500, 5_000, false, 5_000),
        ] {
            arrived.chunk(since_ms, round, more);
            assert_eq!(arrived.chunk_ms, expected_ms, "round {round}");
        }
    }

    #[test]
    fn a_stale_id_reaches_nobody() {
        let mut slab = Slab::new();
        let first = slab.insert(connection());
        assert!(slab.get(first).is_some());
        assert!(slab.remove(first.slot).is_some());
        assert!(slab.get(first).is_none() && slab.remove(first.slot).is_none());
        let second = slab.insert(connection());
        assert_eq!(second.slot, first.slot);
        assert!(slab.get(first).is_none() && slab.get(second).is_some());
        assert_eq!(slab.id_at(second.slot), second);
        assert_eq!((slab.len(), slab.slots()), (1, 1));
        assert!(slab.get(ConnId { slot: 99, generation: 0 }).is_none());
    }
}
