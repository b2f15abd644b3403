//! Writing to connections from a service's turn.

use crate::buffer::{Out, Pool};
use crate::conns::{Phase, Slab};
use crate::dial::{Dial, DialId, Dials};
use crate::service::{CloseReason, ConnId};

/// Every open connection of the worker, for answers that come later than their message.
pub struct Outbox<'a, C> {
    pub(crate) conns: &'a mut Slab<C>,
    pub(crate) dirty: &'a mut Vec<u32>,
    pub(crate) resumable: &'a mut Vec<u32>,
    pub(crate) pool: &'a mut Pool,
    pub(crate) output_bytes_max: usize,
    /// What may still be added to the answers of all connections in this turn.
    pub(crate) output_left: usize,
    pub(crate) dials: &'a mut Dials,
    pub(crate) now_ms: u64,
    pub(crate) stopping: bool,
}

/// Why bytes for another connection were not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// It is closed or closing.
    Gone,
    /// Its answers, or those of all connections, have no room left. Its peer is slow: offer again after a while.
    Full,
}

impl<C> Outbox<'_, C> {
    /// The connection `id` and the end of its answers; `None` when it is closed or closing.
    ///
    /// What is written here is not bounded by `output_bytes_max`, since the messages were read
    /// already; a service bounds what it has in flight for one connection.
    pub fn to(&mut self, id: ConnId) -> Option<(&mut C, Out<'_>)> {
        let conn = self.conns.get(id)?;
        if !conn.is_writable() {
            return None;
        }
        conn.mark(id.slot, self.dirty);
        let out = Out::new(&mut conn.output, self.pool, self.output_bytes_max);
        conn.user.as_mut().map(|user| (user, out))
    }

    /// Runs `write` on the connection `id`, if it is still open.
    pub fn with<R>(
        &mut self,
        id: ConnId,
        write: impl FnOnce(&mut C, &mut Out<'_>) -> R,
    ) -> Option<R> {
        let (user, mut out) = self.to(id)?;
        Some(write(user, &mut out))
    }

    /// Sends `bytes` to the connection `id`, all of them or none, within `output_bytes_max` and `output_total_bytes_max`:
    /// for bytes that the connection did not ask for, such as those that another one brought.
    ///
    /// # Errors
    /// The connection is gone, or there is no room.
    pub fn offer(&mut self, id: ConnId, bytes: &[u8]) -> Result<(), Unreachable> {
        let left = self.output_left;
        let (_, mut out) = self.to(id).ok_or(Unreachable::Gone)?;
        if bytes.len() > out.room() || bytes.len() > left {
            return Err(Unreachable::Full);
        }
        out.write(bytes);
        self.output_left -= bytes.len();
        Ok(())
    }

    /// Opens a dial: a connection that is opened by us, and opened again whenever it ends, until
    /// [`hang_up`](Self::hang_up). The service hears of it by [`dialled`](crate::Service::dialled) and
    /// [`dial_failed`](crate::Service::dial_failed). `None` when the worker has 256 dials, is stopping, or there is no address.
    pub fn dial(&mut self, dial: Dial) -> Option<DialId> {
        if self.stopping { None } else { self.dials.add(dial, self.now_ms) }
    }

    /// Ends a dial and its connection, which may first take its answers; false when it is none any more.
    pub fn hang_up(&mut self, dial: DialId) -> bool {
        let Some(id) = self.dials.remove(dial) else { return false };
        if let Some(id) = id
            && !self.close(id)
            && let Some(conn) = self.conns.get(id)
            && conn.phase == Phase::Connecting
        {
            conn.phase = Phase::Dead(CloseReason::ServiceClosed);
            conn.mark(id.slot, self.dirty);
        }
        true
    }

    /// Says that the connection of a dial with [`Dial::is_confirmed`](crate::Dial::is_confirmed) is good: if it lives
    /// for a second more, the wait after its end is the shortest again. False when the dial has no connection.
    pub fn confirm(&mut self, dial: DialId) -> bool {
        self.dials.confirm(dial, self.now_ms)
    }

    /// Milliseconds since the loop began, on the monotonic clock.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Reads on where the service paused ([`Step::Pause`](crate::Step::Pause)), in the next wake-up;
    /// false when the connection is closed or closing.
    pub fn resume(&mut self, id: ConnId) -> bool {
        let Some(conn) = self.conns.get(id) else { return false };
        conn.waiting = false;
        if conn.phase != Phase::Open {
            return false;
        }
        self.resumable.push(id.slot);
        true
    }

    /// Ends the connection after its answers; false when it is closed or closing already.
    pub fn close(&mut self, id: ConnId) -> bool {
        let Some(conn) = self.conns.get(id) else { return false };
        if conn.phase != Phase::Open {
            return false;
        }
        conn.phase = Phase::Finishing(CloseReason::ServiceClosed);
        conn.mark(id.slot, self.dirty);
        true
    }

    /// Ends the connection at once with [`CloseReason::Stalled`]: its unsent answers are dropped, here and in the kernel. For a peer that
    /// leaves more unread than a service may keep for it, where [`close`](Self::close) would keep it until `stalled_ms_max`. False when
    /// it is closed already.
    pub fn cut(&mut self, id: ConnId) -> bool {
        let Some(conn) = self.conns.get(id) else { return false };
        if !conn.is_writable() {
            return false;
        }
        conn.phase = Phase::Dead(CloseReason::Stalled);
        conn.mark(id.slot, self.dirty);
        true
    }

    /// Whether the worker is stopping: nothing more is accepted, nor read but where [`Limits`](crate::Limits) say so, and once a turn says
    /// `drained` every connection is closed.
    pub fn stopping(&self) -> bool {
        self.stopping
    }
}
