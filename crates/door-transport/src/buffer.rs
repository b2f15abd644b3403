//! Byte buffers that are zeroed once and then reused: a reservation costs no memset, and a
//! connection that has nothing to say owns no memory.

use std::mem;

/// The smallest allocation of a buffer.
const BUFFER_BYTES_MIN: usize = 1024;
/// A larger buffer goes back to the allocator instead of the pool.
const POOL_BUFFER_BYTES_MAX: usize = 256 * 1024;
/// Above this a buffer grows by a quarter of itself and not to the double: it is of a peer that does not take its answers,
/// and what is allocated counts towards the bound.
const DOUBLED_BYTES_MAX: usize = 64 * 1024;
/// What the pool keeps in all.
const POOL_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A queue of bytes: appended at the end, consumed at the start.
///
/// `bytes` is initialised over its whole length, `start..end` is what it holds.
#[derive(Default)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Buffer {
    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    pub(crate) fn has_memory(&self) -> bool {
        !self.bytes.is_empty()
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.end]
    }

    /// `count` writable bytes behind the end; they count once they are committed.
    pub(crate) fn reserve(&mut self, count: usize) -> &mut [u8] {
        if self.bytes.len() - self.end < count {
            self.make_room(count);
        }
        &mut self.bytes[self.end..self.end + count]
    }

    #[cold]
    fn make_room(&mut self, count: usize) {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        let (wanted, has) = (self.end + count, self.bytes.len());
        if wanted > has {
            let size = if wanted > DOUBLED_BYTES_MAX {
                wanted.max(has + has / 4).next_multiple_of(BUFFER_BYTES_MIN)
            } else {
                wanted.max(BUFFER_BYTES_MIN).next_power_of_two()
            };
            // Exactly: `resize` alone would double what is allocated.
            self.bytes.reserve_exact(size - has);
            self.bytes.resize(size, 0);
        }
    }

    /// Bytes of memory that it holds, whatever is in it.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.capacity()
    }

    /// Takes the first `count` reserved bytes into the buffer; never more than are there.
    pub(crate) fn commit(&mut self, count: usize) {
        self.end = (self.end + count).min(self.bytes.len());
    }

    pub(crate) fn append(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len()).copy_from_slice(bytes);
        self.end += bytes.len();
    }

    /// Drops the first `count` bytes, or all when there are fewer.
    pub(crate) fn consume(&mut self, count: usize) {
        self.start = (self.start + count).min(self.end);
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
    }
}

/// Buffers not in use, last used first: the hottest memory is handed out again.
#[derive(Default)]
pub(crate) struct Pool {
    free: Vec<Buffer>,
    bytes: usize,
}

impl Pool {
    /// Gives `buffer` memory when it has none and some is free.
    pub(crate) fn equip(&mut self, buffer: &mut Buffer) {
        if buffer.has_memory() {
            return;
        }
        if let Some(free) = self.free.pop() {
            self.bytes -= free.bytes.len();
            *buffer = free;
        }
    }

    /// Takes the memory of `buffer`, contents and all.
    pub(crate) fn recycle(&mut self, buffer: &mut Buffer) {
        if !buffer.has_memory() {
            return;
        }
        let mut taken = mem::take(buffer);
        let bytes = taken.bytes.len();
        if bytes > POOL_BUFFER_BYTES_MAX || self.bytes + bytes > POOL_BYTES_MAX {
            return;
        }
        taken.start = 0;
        taken.end = 0;
        self.bytes += bytes;
        self.free.push(taken);
    }
}

/// A connection's answers: `pending` grows, `flying` is what the kernel was given.
///
/// Two buffers, so that memory under an unfinished io_uring send is never written or moved. Where the connection has TLS,
/// `pending` is what the service wrote and `flying` is what was made of it: only encrypting moves bytes from one to the other.
#[derive(Default)]
pub(crate) struct Output {
    pub(crate) pending: Buffer,
    pub(crate) flying: Buffer,
    /// The service wants to write more once there is room.
    pub(crate) asks: bool,
}

impl Output {
    pub(crate) fn len(&self) -> usize {
        self.pending.len() + self.flying.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.flying.is_empty()
    }

    /// Bytes of memory that it holds.
    pub(crate) fn memory(&self) -> usize {
        self.pending.memory() + self.flying.memory()
    }

    /// Takes everything that was written for the next send, unless the last one is unfinished.
    pub(crate) fn take_off(&mut self) {
        if self.flying.is_empty() && !self.pending.is_empty() {
            mem::swap(&mut self.flying, &mut self.pending);
        }
    }

    /// What to send: the rest of the last send, or what [`take_off`](Self::take_off) took.
    pub(crate) fn flying(&self) -> &[u8] {
        self.flying.as_slice()
    }

    /// The kernel took `count` bytes of [`flying`](Self::flying).
    pub(crate) fn sent(&mut self, count: usize, pool: &mut Pool) {
        self.flying.consume(count);
        if self.flying.is_empty() {
            pool.recycle(&mut self.flying);
        }
    }

    pub(crate) fn release(&mut self, pool: &mut Pool) {
        pool.recycle(&mut self.pending);
        pool.recycle(&mut self.flying);
    }
}

/// The end of a connection's answers: a service appends here.
///
/// Whatever is written during one wake-up goes out in one send.
pub struct Out<'a> {
    output: &'a mut Output,
    pool: &'a mut Pool,
    bytes_max: usize,
    pub(crate) age_ms: u64,
}

impl<'a> Out<'a> {
    pub(crate) fn new(output: &'a mut Output, pool: &'a mut Pool, bytes_max: usize) -> Self {
        Self { output, pool, bytes_max, age_ms: 0 }
    }

    /// How long the bytes that [`Service::received`](crate::Service::received) reads may have waited when this wake-up began, in ms: since
    /// the connection's socket was last seen empty. 0 where the loop slept when they came.
    pub fn age_ms(&self) -> u64 {
        self.age_ms
    }

    /// `count` bytes to write into; their contents are unspecified. They are sent only as far as
    /// they are [committed](Self::commit); a second reservation replaces the first.
    pub fn reserve(&mut self, count: usize) -> &mut [u8] {
        self.pool.equip(&mut self.output.pending);
        self.output.pending.reserve(count)
    }

    /// Sends the first `count` bytes of the last reservation; `count` is at most what was reserved.
    pub fn commit(&mut self, count: usize) {
        self.output.pending.commit(count);
    }

    /// Appends `bytes`.
    pub fn write(&mut self, bytes: &[u8]) {
        self.pool.equip(&mut self.output.pending);
        self.output.pending.append(bytes);
    }

    /// Calls [`Service::drained`](crate::Service::drained) once, as soon as at most half of `output_bytes_max` waits: how
    /// a body that is larger than memory is written.
    pub fn ask_for_more(&mut self) {
        self.output.asks = true;
    }

    /// Bytes that wait to be taken by the peer.
    pub fn len(&self) -> usize {
        self.output.len()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.output.is_empty()
    }

    /// The connection's `output_bytes_max`.
    pub fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Bytes until the connection's `output_bytes_max`. At 0 a service that still has messages in
    /// its input should return; it is called again once the peer has caught up.
    pub fn room(&self) -> usize {
        self.bytes_max.saturating_sub(self.output.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_a_queue_of_bytes() {
        let mut buffer = Buffer::default();
        let mut model: Vec<u8> = Vec::new();
        for round in 0u8..200 {
            let bytes = vec![round; usize::from(round) * 7];
            buffer.append(&bytes);
            model.extend_from_slice(&bytes);
            let gone = usize::from(round) * 5;
            buffer.consume(gone);
            model.drain(..gone.min(model.len()));
            assert_eq!(buffer.as_slice(), model);
            assert_eq!(buffer.len(), model.len());
        }
    }

    #[test]
    fn only_committed_bytes_count() {
        let mut buffer = Buffer::default();
        buffer.reserve(10)[..3].copy_from_slice(b"abc");
        assert!(buffer.is_empty());
        buffer.commit(3);
        assert_eq!(buffer.as_slice(), b"abc");
    }

    #[test]
    fn the_pool_hands_memory_on_and_keeps_little() {
        let mut pool = Pool::default();
        let mut buffer = Buffer::default();
        buffer.append(b"secret of one peer");
        pool.recycle(&mut buffer);
        assert!(!buffer.has_memory());
        pool.equip(&mut buffer);
        assert!(buffer.has_memory() && buffer.is_empty());

        let mut huge = Buffer::default();
        huge.reserve(POOL_BUFFER_BYTES_MAX + 1);
        pool.recycle(&mut huge);
        assert_eq!(pool.bytes, 0);
        for _ in 0..1000 {
            let mut some = Buffer::default();
            some.reserve(POOL_BUFFER_BYTES_MAX);
            pool.recycle(&mut some);
        }
        assert!(pool.bytes <= POOL_BYTES_MAX);
    }

    #[test]
    fn a_large_buffer_has_little_more_memory_than_bytes() {
        let mut buffer = Buffer::default();
        for _ in 0..1_000 {
            buffer.append(&[1; 4_001]);
            let (bytes, memory) = (buffer.len(), buffer.memory());
            let most = if bytes <= DOUBLED_BYTES_MAX { 2 * bytes } else { bytes + bytes / 4 };
            assert!(memory <= most + 2 * BUFFER_BYTES_MIN, "{memory} for {bytes}");
        }
    }

    #[test]
    fn bytes_under_a_send_are_not_touched_by_new_answers() {
        let (mut output, mut pool) = (Output::default(), Pool::default());
        Out::new(&mut output, &mut pool, 100).write(b"first");
        output.take_off();
        let address = output.flying().as_ptr();
        let mut out = Out::new(&mut output, &mut pool, 100);
        out.write(&[7; 5000]);
        assert_eq!((out.len(), out.room()), (5005, 0));
        output.take_off();
        assert_eq!(output.flying().as_ptr(), address);
        output.sent(2, &mut pool);
        assert_eq!(output.flying(), b"rst");
        output.sent(3, &mut pool);
        output.take_off();
        assert_eq!(output.flying(), [7; 5000]);
        output.sent(5000, &mut pool);
        assert!(output.is_empty());
    }
}
