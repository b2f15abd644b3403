//! The work space of a worker.

use crate::chunked;
use crate::gzip::{Deflater, Inflater};
use crate::head::{Coding, Framing};
use crate::refusal::Refusal;

/// Bytes of a buffer that stay allocated between requests; what a larger body took is given back.
pub const ROOM_BYTES_KEPT: usize = 256 * 1024;

/// Memory behind a body that readers with wide loads may touch.
pub(crate) const SPARE_BYTES: usize = 64;

/// The work space of all sessions of one worker: the body of the request at hand, gzip states. About 1 MiB.
pub struct Room {
    /// Initialised over its whole length, which is at least `ROOM_BYTES_KEPT + SPARE_BYTES`.
    body: Vec<u8>,
    /// A gzip body out of its chunks.
    joined: Vec<u8>,
    inflater: Inflater,
    deflater: Deflater,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            body: vec![0; ROOM_BYTES_KEPT + SPARE_BYTES],
            joined: Vec::new(),
            inflater: Inflater::new(),
            deflater: Deflater::new(),
        }
    }
}

impl Room {
    /// Takes in a whole body as it was `sent`: out of its chunks, inflated. Gives it, and what compresses
    /// the answer.
    pub(crate) fn take(
        &mut self,
        sent: &[u8],
        framing: Framing,
        coding: Coding,
        inflated_bytes_max: usize,
    ) -> Result<(&mut [u8], &mut Deflater), Refusal> {
        self.shrink();
        let plain = match framing {
            Framing::Sized(_) => sent,
            Framing::Chunked => {
                self.joined.clear();
                chunked::join(sent, &mut self.joined)?;
                &self.joined
            }
        };
        let size = match coding {
            Coding::Gzip if !plain.is_empty() => {
                self.inflater.inflate(plain, &mut self.body, inflated_bytes_max)?
            }
            Coding::Gzip | Coding::Identity => {
                grow(&mut self.body, plain.len());
                self.body[..plain.len()].copy_from_slice(plain);
                plain.len()
            }
        };
        Ok((&mut self.body[..size], &mut self.deflater))
    }

    /// Where a piece of a body is put together out of its chunks.
    pub(crate) fn joined(&mut self) -> &mut Vec<u8> {
        &mut self.joined
    }

    /// Gives back what an unusually large body took.
    fn shrink(&mut self) {
        if self.body.len() > ROOM_BYTES_KEPT + SPARE_BYTES {
            self.body.truncate(ROOM_BYTES_KEPT + SPARE_BYTES);
            self.body.shrink_to_fit();
        }
        if self.joined.capacity() > ROOM_BYTES_KEPT {
            self.joined.clear();
            self.joined.shrink_to(ROOM_BYTES_KEPT);
        }
    }
}

/// Makes `buffer` hold a body of `count` bytes and the spare ones behind it.
pub(crate) fn grow(buffer: &mut Vec<u8>, count: usize) {
    let wanted = count.saturating_add(SPARE_BYTES);
    if buffer.len() < wanted {
        buffer.resize(wanted, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_giant_leaves_no_trace() {
        let mut room = Room::default();
        let giant = vec![b'x'; 3 * ROOM_BYTES_KEPT];
        let mut take = |sent: &[u8]| {
            let sized = Framing::Sized(sent.len());
            let body = room.take(sent, sized, Coding::Identity, 1000).unwrap().0;
            assert_eq!(body, sent);
            room.body.capacity()
        };
        assert!(take(&giant) >= giant.len() + SPARE_BYTES);
        assert!(take(b"small") < giant.len());

        let mut chunks = format!("{:x}\r\n", giant.len()).into_bytes();
        chunks.extend_from_slice(&giant);
        chunks.extend_from_slice(b"\r\n0\r\n\r\n");
        for (sent, size) in [(&chunks[..], giant.len()), (b"0\r\n\r\n", 0)] {
            let taken = room.take(sent, Framing::Chunked, Coding::Identity, 1000).unwrap();
            assert_eq!(taken.0.len(), size);
        }
        assert!(room.joined.capacity() < giant.len());
    }
}
