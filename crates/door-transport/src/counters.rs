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

/// Why a TLS handshake did not come to its end. The service never heard of such a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum HandshakeFailure {
    /// What the peer sent is not TLS: plain bytes on a TLS port.
    PlainBytes,
    /// The two ends found nothing in common, the peer broke the protocol, or it refused us with an alert.
    Refused,
    /// The peer's certificate is missing, or not signed by whom we trust, or not for the name asked for.
    Certificate,
    /// It took longer than `tls_handshake_ms_max`.
    TimedOut,
    /// The peer went away, or we stopped.
    Abandoned,
    /// More than `tls_handshakes_max` at once; this one came last.
    TooMany,
}

impl HandshakeFailure {
    /// Every failure, in the order of their numbers.
    pub const ALL: [Self; 6] = [
        Self::PlainBytes,
        Self::Refused,
        Self::Certificate,
        Self::TimedOut,
        Self::Abandoned,
        Self::TooMany,
    ];

    /// The failure's name in metrics and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::PlainBytes => "plain_bytes",
            Self::Refused => "refused",
            Self::Certificate => "certificate",
            Self::TimedOut => "timed_out",
            Self::Abandoned => "abandoned",
            Self::TooMany => "too_many",
        }
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
    /// Connections that we opened: connected, and through their TLS handshake.
    pub dialled: Counter,
    /// Attempts to open a connection that failed.
    pub dials_failed: Counter,
    /// TLS handshakes that came to their end.
    pub handshakes: Counter,
    /// Connections without TLS that ended right after a TLS client's first message: TLS on a plain port.
    pub tls_on_plain: Counter,
    closed: [Counter; CloseReason::ALL.len()],
    handshakes_failed: [Counter; HandshakeFailure::ALL.len()],
}

impl Counters {
    /// Connections closed for `reason`.
    pub fn closed(&self, reason: CloseReason) -> u64 {
        self.closed[reason as usize].get()
    }

    /// TLS handshakes that failed for `why`.
    pub fn handshakes_failed(&self, why: HandshakeFailure) -> u64 {
        self.handshakes_failed[why as usize].get()
    }

    pub(crate) fn count_handshake_failed(&self, why: HandshakeFailure) {
        self.handshakes_failed[why as usize].add(1);
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
        for (index, why) in HandshakeFailure::ALL.into_iter().enumerate() {
            assert_eq!(why as usize, index);
            counters.count_handshake_failed(why);
            assert_eq!(counters.handshakes_failed(why), 1);
        }
    }
}
