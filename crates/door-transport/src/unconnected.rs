//! What a service writes to, without a socket: for programs that count, time or test a service's own work.

use crate::buffer::{Out, Output, Pool};
use crate::conns::Slab;
use crate::dial::Dials;
use crate::outbox::Outbox;

/// Bytes that may wait, as of a connection whose peer reads.
const OUTPUT_BYTES_MAX: usize = 1 << 20;

/// One connection's output and an outbox that knows no connection, in the memory that a worker's have.
pub struct Unconnected<C> {
    output: Output,
    pool: Pool,
    conns: Slab<C>,
    dirty: Vec<u32>,
    resumable: Vec<u32>,
    dials: Dials,
}

impl<C> Default for Unconnected<C> {
    fn default() -> Self {
        Unconnected {
            output: Output::default(),
            pool: Pool::default(),
            conns: Slab::new(),
            dirty: Vec::new(),
            resumable: Vec::new(),
            dials: Dials::new(0),
        }
    }
}

impl<C> Unconnected<C> {
    /// The end of the connection's answers.
    pub fn out(&mut self) -> Out<'_> {
        Out::new(&mut self.output, &mut self.pool, OUTPUT_BYTES_MAX)
    }

    /// For a turn of the service. Every connection is closed to it, so what it writes there is left out.
    pub fn outbox(&mut self) -> Outbox<'_, C> {
        Outbox {
            conns: &mut self.conns,
            dirty: &mut self.dirty,
            resumable: &mut self.resumable,
            pool: &mut self.pool,
            output_bytes_max: OUTPUT_BYTES_MAX,
            output_left: OUTPUT_BYTES_MAX,
            dials: &mut self.dials,
            now_ms: 0,
            stopping: false,
        }
    }

    /// Hands what was written since the last call to `read`, and takes it as sent.
    pub fn sent<R>(&mut self, read: impl FnOnce(&[u8]) -> R) -> R {
        self.output.take_off();
        let bytes = self.output.flying();
        let (count, result) = (bytes.len(), read(bytes));
        self.output.sent(count, &mut self.pool);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::ConnId;

    #[test]
    fn what_is_written_is_handed_out_once() {
        let mut unconnected: Unconnected<()> = Unconnected::default();
        unconnected.out().write(b"one");
        unconnected.out().write(b"two");
        assert_eq!(unconnected.sent(<[u8]>::to_vec), b"onetwo");
        assert!(unconnected.sent(<[u8]>::is_empty));
        let nobody = ConnId::from_bits(7);
        assert!(unconnected.outbox().with(nobody, |(), out| out.write(b"x")).is_none());
    }
}
