//! Writing to connections from a service's turn.

use crate::buffer::{Out, Pool};
use crate::conns::{Phase, Slab};
use crate::service::{CloseReason, ConnId};

/// Every open connection of the worker, for answers that come later than their message.
pub struct Outbox<'a, C> {
    pub(crate) conns: &'a mut Slab<C>,
    pub(crate) dirty: &'a mut Vec<u32>,
    pub(crate) resumable: &'a mut Vec<u32>,
    pub(crate) pool: &'a mut Pool,
    pub(crate) output_bytes_max: usize,
    pub(crate) stopping: bool,
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
        if !conn.dirty {
            conn.dirty = true;
            self.dirty.push(id.slot);
        }
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
        if !conn.dirty {
            conn.dirty = true;
            self.dirty.push(id.slot);
        }
        true
    }

    /// Whether the worker is stopping: nothing more is accepted or read, and once a turn says
    /// `drained` every connection is closed.
    pub fn stopping(&self) -> bool {
        self.stopping
    }
}
