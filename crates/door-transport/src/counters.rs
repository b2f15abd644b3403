//! What a worker's loop did so far, readable from any thread.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::service::CloseReason;

/// A number with one writer: a load and a store instead of a locked addition.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// The value now.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    #[inline]
    pub(crate) fn add(&self, count: usize) {
        self.0.store(self.0.load(Relaxed).wrapping_add(count as u64), Relaxed);
    }

    pub(crate) fn set(&self, value: usize) {
        self.0.store(value as u64, Relaxed);
    }
}

/// The counters of one worker's loop. Only its own thread writes them; a reader sees each number
/// whole, but not all of them at one instant. Aligned so that no neighbour shares the cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Counters {
    /// Connections accepted and kept.
    pub accepted: Counter,
    /// Connections closed at once because `connections_max` were open.
    pub refused_full: Counter,
    /// Failed accepts other than a lack of descriptors or memory.
    pub accept_errors: Counter,
    /// Times accepting paused because the process was out of descriptors or the kernel of memory.
    pub accept_backoffs: Counter,
    /// Bytes received.
    pub bytes_in: Counter,
    /// Bytes the kernel took for sending.
    pub bytes_out: Counter,
    /// Receives that brought bytes.
    pub receives: Counter,
    /// Sends that took bytes.
    pub sends: Counter,
    /// Turns of the loop.
    pub wakeups: Counter,
    /// Times a connection was no longer read because answers waited.
    pub paused_reads: Counter,
    /// Times io_uring had no receive buffer left (the receive is armed again at once).
    pub buffers_exhausted: Counter,
    /// Answers waiting now, in bytes (a level, not a sum).
    pub output_bytes: Counter,
    /// Bytes of unfinished messages now (a level).
    pub input_bytes: Counter,
    /// Memory of both, in bytes: what is allocated for them, spare buffers not counted (a level).
    pub memory_bytes: Counter,
    /// Connections open now (a level).
    pub connections: Counter,
    closed: [Counter; CloseReason::ALL.len()],
}

impl Counters {
    /// Connections closed for `reason`.
    pub fn closed(&self, reason: CloseReason) -> u64 {
        self.closed[reason as usize].get()
    }

    pub(crate) fn count_closed(&self, reason: CloseReason) {
        self.closed[reason as usize].add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_its_own_counter() {
        let counters = Counters::default();
        for (index, reason) in CloseReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index);
            counters.count_closed(reason);
            assert_eq!(counters.closed(reason), 1);
        }
    }
}
