//! Receive buffers that the kernel picks from when bytes arrive (io_uring's provided buffers): a
//! connection that is silent owns none.
#![allow(unsafe_code)] // reason: memory shared with the kernel, which no safe type describes

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::Submitter;
use io_uring::types::BufRingEntry;

/// The only group of buffers in a worker's ring.
pub(crate) const GROUP: u16 = 0;

const PAGE_BYTES: usize = 4096;

/// Buffers in use at first. The kernel takes them in turn, so few buffers stay in the cache: with
/// 512 in turn a frame cost a quarter more than with 64.
const FIRST_BUFFERS: u16 = 64;

/// Page-aligned zeroed memory.
struct Pages {
    start: NonNull<u8>,
    layout: Layout,
}

impl Pages {
    fn new(bytes: usize) -> io::Result<Self> {
        let too_large = |_| io::Error::from_raw_os_error(libc::ENOMEM);
        let layout = Layout::from_size_align(bytes.max(1), PAGE_BYTES).map_err(too_large)?;
        // SAFETY: the layout's size is at least 1.
        let start = unsafe { alloc_zeroed(layout) };
        match NonNull::new(start) {
            Some(start) => Ok(Self { start, layout }),
            None => handle_alloc_error(layout),
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: `start` came from `alloc_zeroed` with this layout and is freed only here.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

/// Buffers of one size, and the ring through which they go back to the kernel.
///
/// The memory must outlive every receive in flight: the owner drops it after the operations ended.
pub(crate) struct BufferRing {
    ring: Pages,
    data: Pages,
    buffers: u16,
    buffer_bytes: u32,
    /// The first so many are in use; the others are untouched memory.
    in_use: u16,
    /// Our copy of the ring's tail; published by [`publish`](Self::publish).
    tail: u16,
}

impl BufferRing {
    /// `buffers` (a power of two) of `buffer_bytes` each, none given to the kernel yet.
    pub(crate) fn new(buffers: u16, buffer_bytes: u32) -> io::Result<Self> {
        let ring = Pages::new(usize::from(buffers) * size_of::<BufRingEntry>())?;
        let data = Pages::new(usize::from(buffers) * buffer_bytes as usize)?;
        Ok(Self { ring, data, buffers, buffer_bytes, in_use: 0, tail: 0 })
    }

    /// Registers the ring and gives the kernel the first buffers.
    pub(crate) fn register(&mut self, submitter: &Submitter<'_>) -> io::Result<()> {
        let address = self.ring.start.as_ptr() as u64;
        // SAFETY: the address is page-aligned, holds `buffers` entries, and the caller keeps this
        // value alive until the io_uring is gone.
        unsafe { submitter.register_buf_ring_with_flags(address, self.buffers, GROUP, 0)? };
        self.grow();
        self.publish();
        Ok(())
    }

    /// Puts more buffers to use after the kernel ran out: as many again, up to all.
    pub(crate) fn grow(&mut self) {
        let more = self.in_use.max(FIRST_BUFFERS).min(self.buffers - self.in_use);
        for buffer in self.in_use..self.in_use + more {
            self.recycle(buffer);
        }
        self.in_use += more;
    }

    /// The first `count` bytes of a buffer that the kernel filled and gave to us; `None` for a
    /// number that was never handed out.
    pub(crate) fn bytes(&self, buffer: u16, count: usize) -> Option<&[u8]> {
        if buffer >= self.buffers || count > self.buffer_bytes as usize {
            return None;
        }
        let offset = usize::from(buffer) * self.buffer_bytes as usize;
        // SAFETY: offset + count lies within `data`, which is initialised; the kernel does not write
        // a buffer between its completion and its recycling, and recycling needs `&mut self`.
        Some(unsafe { std::slice::from_raw_parts(self.data.start.as_ptr().add(offset), count) })
    }

    /// Gives a buffer back; the kernel sees it after [`publish`](Self::publish).
    pub(crate) fn recycle(&mut self, buffer: u16) {
        if buffer >= self.buffers {
            return;
        }
        let offset = usize::from(buffer) * self.buffer_bytes as usize;
        let index = usize::from(self.tail & (self.buffers - 1));
        let entries = self.ring.start.as_ptr().cast::<BufRingEntry>();
        // SAFETY: `index` is below `buffers` (a power of two), so the entry lies within the ring, is
        // aligned and zero-initialised. The kernel reads entries only below the published tail. The
        // setters leave the first entry's last field alone, which is the tail itself.
        let entry = unsafe { &mut *entries.add(index) };
        entry.set_addr(self.data.start.as_ptr() as u64 + offset as u64);
        entry.set_len(self.buffer_bytes);
        entry.set_bid(buffer);
        self.tail = self.tail.wrapping_add(1);
    }

    /// Shows the kernel everything recycled so far.
    pub(crate) fn publish(&mut self) {
        // SAFETY: the address is that of the ring's first, initialised entry.
        let tail = unsafe { BufRingEntry::tail(self.ring.start.as_ptr().cast::<BufRingEntry>()) };
        // SAFETY: the tail lies in the live ring, is aligned for u16, and is only ever accessed
        // atomically; release makes the entries visible before it.
        unsafe { AtomicU16::from_ptr(tail.cast_mut()).store(self.tail, Ordering::Release) };
    }

    /// Leaves the memory to the kernel for good.
    pub(crate) fn leak(&mut self) {
        if let (Ok(ring), Ok(data)) = (Pages::new(1), Pages::new(1)) {
            std::mem::forget(std::mem::replace(&mut self.ring, ring));
            std::mem::forget(std::mem::replace(&mut self.data, data));
            self.buffers = 0;
            self.in_use = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_buffers_come_to_use_until_all_are() {
        let mut ring = BufferRing::new(256, 64).unwrap();
        for in_use in [64, 128, 256, 256] {
            ring.grow();
            assert_eq!((ring.in_use, ring.tail), (in_use, in_use));
        }
    }

    #[test]
    fn only_its_own_buffers_are_given_out() {
        let mut ring = BufferRing::new(4, 64).unwrap();
        for buffer in 0..4 {
            ring.recycle(buffer);
        }
        ring.recycle(4);
        assert_eq!(ring.tail, 4);
        ring.publish();
        assert_eq!(ring.bytes(3, 64), Some([0; 64].as_slice()));
        assert_eq!(ring.bytes(4, 1), None);
        assert_eq!(ring.bytes(0, 65), None);
        ring.leak();
        assert_eq!(ring.bytes(0, 1), None);
    }
}
