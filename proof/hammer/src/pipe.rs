//! One non-blocking socket of the readiness loop, with its buffers.

use std::io::{self, Read, Write};

use mio::net::TcpStream;

/// First size of a read buffer: all answers of a wake-up, usually, in one read.
const READ_LEN: usize = 128 << 10;
/// Longest message that a node may send, in bytes.
pub(crate) const MESSAGE_LEN_MAX: u32 = 16 << 20;
/// Unsent bytes beyond which nothing further is written: the node does not read.
pub(crate) const UNSENT_LEN_MAX: usize = 1 << 20;

/// A socket with what is to be sent and what has been read.
#[derive(Debug)]
pub(crate) struct Pipe {
    /// The socket, non-blocking.
    pub stream: TcpStream,
    /// Still usable.
    pub alive: bool,
    /// Bytes to send, from `sent` on.
    out: Vec<u8>,
    sent: usize,
    /// Bytes read and not yet understood: `input[..filled]`.
    pub input: Vec<u8>,
    /// See `input`.
    pub filled: usize,
}

impl Pipe {
    /// A pipe around a non-blocking socket.
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self { stream, alive: true, out: Vec::new(), sent: 0, input: vec![0; READ_LEN], filled: 0 }
    }

    /// The buffer to append messages to.
    #[inline]
    pub(crate) fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Appends a message of `len` bytes at most that `write` makes in place; it returns the bytes it used. Nothing is appended where
    /// it fails.
    #[inline]
    pub(crate) fn append<E>(
        &mut self,
        len: usize,
        write: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<(), E> {
        let begin = self.out.len();
        self.out.resize(begin + len, 0);
        let written = write(&mut self.out[begin..]);
        self.out.truncate(begin + written.as_ref().copied().unwrap_or(0));
        written.map(|_| ())
    }

    /// Bytes the socket has not taken.
    #[inline]
    pub(crate) fn unsent(&self) -> usize {
        self.out.len() - self.sent
    }

    /// May another message be written?
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.alive && self.unsent() < UNSENT_LEN_MAX
    }

    /// Writes what it can, in one system call where the socket takes it; returns the bytes written.
    #[inline]
    pub(crate) fn flush(&mut self) -> io::Result<usize> {
        let begin = self.sent;
        while self.sent < self.out.len() {
            match self.stream.write(&self.out[self.sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => self.sent += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        let written = self.sent - begin;
        if self.sent == self.out.len() {
            self.out.clear();
            self.sent = 0;
        } else if self.sent > UNSENT_LEN_MAX {
            // A socket that always takes a part must not make the buffer grow.
            self.out.drain(..self.sent);
            self.sent = 0;
        }
        Ok(written)
    }

    /// Reads once; `None` where nothing is there. The flag says that more may be waiting.
    #[inline]
    pub(crate) fn read(&mut self) -> io::Result<Option<(usize, bool)>> {
        if self.filled == self.input.len() {
            if self.filled >= 2 * MESSAGE_LEN_MAX as usize {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "an endless message"));
            }
            self.input.resize(2 * self.filled, 0);
        }
        loop {
            match self.stream.read(&mut self.input[self.filled..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => {
                    self.filled += n;
                    // A short read of a stream means that it is drained; the next byte wakes us again (epoll(7)).
                    return Ok(Some((n, self.filled == self.input.len())));
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Forgets the first `used` bytes read.
    pub(crate) fn consume(&mut self, used: usize) {
        self.input.copy_within(used..self.filled, 0);
        self.filled -= used;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Pipe, std::net::TcpStream) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stream.set_nonblocking(true).unwrap();
        (Pipe::new(TcpStream::from_std(stream)), listener.accept().unwrap().0)
    }

    #[test]
    fn a_message_that_cannot_be_made_leaves_no_bytes() {
        let (mut pipe, mut peer) = pair();
        let ok = |buf: &mut [u8]| {
            buf[..2].copy_from_slice(b"ab");
            Ok::<_, &str>(2)
        };
        pipe.append(5, ok).unwrap();
        assert_eq!(pipe.append(5, |_| Err("no")), Err("no"));
        pipe.append(2, ok).unwrap();
        assert_eq!((pipe.unsent(), pipe.flush().unwrap(), pipe.unsent()), (4, 4, 0));
        let mut seen = [0; 4];
        peer.read_exact(&mut seen).unwrap();
        assert_eq!(&seen, b"abab");
    }

    #[test]
    fn a_peer_that_does_not_read_leaves_no_room() {
        let (mut pipe, _peer) = pair();
        // More than any socket buffer takes.
        pipe.out().resize(64 << 20, 7);
        pipe.flush().unwrap();
        assert!(!pipe.has_room() && pipe.unsent() > 0);
    }
}
