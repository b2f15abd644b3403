//! What a worker's loop did so far, readable from any thread.

use counters::{Counter, counters};

use crate::service::CloseReason;

const LIMITS: &str = "/docs/operations.md#limits-and-what-happens-at-each";

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
    /// More than `tls_handshakes_max` at once; this one was the oldest of the door and the peer that had the most.
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

    /// The failure in words, as it looks to who opened the connection.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::PlainBytes => "what the peer sent is not TLS",
            Self::Refused => "the two ends found nothing in common, or the peer refused",
            Self::Certificate => {
                "the certificate is missing, of nobody we trust, or of another name"
            }
            Self::TimedOut => "it took longer than it may",
            Self::Abandoned => "the peer closed the connection",
            Self::TooMany => "there were too many at once",
        }
    }

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

counters! {
    /// The counters of one worker's loop. Only its own thread writes them; a reader sees each number
    /// whole, but not all of them at one instant. Aligned so that no neighbour shares the cache lines.
    #[derive(Debug, Default)]
    #[repr(align(128))]
    pub struct Counters of Counter, in "transport" {
        accepted: "Connections accepted and kept.", place("doors.batch"), family("weir_connections_accepted");
        refused_full: "Connections closed at once because `transport.connections_max` were open.", place("doors.batch"), failing("connections_refused", LIMITS);
        accept_backoffs: "Times that accepting paused, because the process was out of descriptors or the kernel out of memory.", place("doors.batch"), failing("accept_backoffs", LIMITS);
        bytes_in: "Bytes received.", bytes(), place("doors.batch"), family("weir_received_bytes");
        bytes_out: "Bytes that the kernel took for sending.", bytes(), place("doors.batch"), family("weir_sent_bytes");
        paused_reads: "Times that a connection was no longer read, because its answers waited.", place("doors.batch"), name("reads_paused");
        output_bytes: "Bytes of answers that wait now.", level(), bytes(), place("doors.batch"), name("output_bytes_waiting"), family("weir_transport_output_bytes");
        input_bytes: "Bytes of unfinished messages now.", level(), bytes(), place("doors.batch"), name("input_bytes_waiting"), family("weir_transport_input_bytes");
        connections: "Connections open now, on all doors but the admin door.", level(), place("doors.batch"), family("weir_connections");
        accept_errors: "Failed accepts other than for lack of descriptors or memory.";
        receives: "Receives that brought bytes.";
        sends: "Sends that took bytes.";
        wakeups: "Turns of the workers' loops.";
        buffers_exhausted: "Times that io_uring had no receive buffer left; the receive is armed again at once.";
        memory_bytes: "Memory allocated for what waits, spare buffers not counted.", level(), bytes();
        dialled: "Connections that the node opened itself, through their TLS handshake.";
        dials_failed: "Attempts to open a connection that failed.";
        handshakes: "TLS handshakes completed.";
        tls_on_plain: "Connections to a port without TLS that ended after a TLS client's first message.";
    } also {
        closed: [Counter; CloseReason::ALL.len()],
        handshakes_failed: [Counter; HandshakeFailure::ALL.len()],
    }
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
