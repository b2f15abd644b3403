//! What a door gives to the loop, and what it gets from it.

use std::fmt;
use std::net::SocketAddr;

use crate::buffer::Out;
use crate::dial::{DialFailure, DialId};
use crate::outbox::Outbox;
use crate::tls::Secured;

/// One connection of one worker, for as long as it lives: a slot and how often it was used.
///
/// An id of a closed connection never reaches the slot's next one (until a slot was used 2^32 times).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl ConnId {
    /// The id as a number, for a message to another thread and back.
    pub fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.slot)
    }

    /// The id that [`to_bits`](Self::to_bits) gave. Any other number reaches no connection, or a
    /// wrong one: keep it from strangers.
    pub fn from_bits(bits: u64) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "the two halves of the number")]
        Self { slot: bits as u32, generation: (bits >> 32) as u32 }
    }

    /// The slot: below the worker's `connections_max`, unique among its open connections.
    pub fn slot(self) -> u32 {
        self.slot
    }
}

/// Who is at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A TCP peer.
    Tcp(SocketAddr),
    /// A process of this machine over a Unix stream socket.
    Local,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Local => f.write_str("local"),
        }
    }
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CloseReason {
    /// The peer finished sending and took its answers.
    PeerClosed,
    /// The peer or the network broke the connection.
    PeerReset,
    /// No whole message for `idle_ms_max`.
    Idle,
    /// A message begun and not finished for `partial_ms_max`.
    SlowMessage,
    /// Answers not taken for `stalled_ms_max`, or more of them than the service keeps ([`Outbox::cut`](crate::Outbox::cut)).
    Stalled,
    /// An unfinished message above `input_bytes_max`.
    TooLarge,
    /// Unfinished messages of all connections above `input_total_bytes_max`; this one came last.
    Overload,
    /// The service asked for it.
    ServiceClosed,
    /// The loop was stopped.
    Shutdown,
    /// A TLS record was damaged or forged, or the stream ended without `close_notify`: somebody may have cut it.
    TlsBroken,
}

impl CloseReason {
    /// Every reason, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::PeerClosed,
        Self::PeerReset,
        Self::Idle,
        Self::SlowMessage,
        Self::Stalled,
        Self::TooLarge,
        Self::Overload,
        Self::ServiceClosed,
        Self::Shutdown,
        Self::TlsBroken,
    ];

    /// The reason's name in metrics and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::PeerClosed => "peer_closed",
            Self::PeerReset => "peer_reset",
            Self::Idle => "idle",
            Self::SlowMessage => "slow_message",
            Self::Stalled => "stalled",
            Self::TooLarge => "too_large",
            Self::Overload => "overload",
            Self::ServiceClosed => "service_closed",
            Self::Shutdown => "shutdown",
            Self::TlsBroken => "tls_broken",
        }
    }
}

/// What a service made of its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Read on.
    Read {
        /// Bytes from the start of the input that are done with.
        consumed: usize,
        /// The whole size of the message that now begins the input, when its head tells; else 0.
        /// The service is not called before that many bytes are there.
        need: usize,
    },
    /// Read no further until [`Outbox::resume`](crate::Outbox::resume): the answer to what was
    /// consumed comes later, and the answers of one connection keep their order.
    Pause {
        /// Bytes from the start of the input that are done with.
        consumed: usize,
    },
    /// End the connection; the rest of the input is dropped.
    Close {
        /// Bytes from the start of the input that are done with.
        consumed: usize,
        /// Whether the peer may first take its answers (within `stalled_ms_max`).
        after_output: bool,
    },
}

/// What a service wants after its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The next turn comes after so many milliseconds at the latest; `u64::MAX` = only on events.
    /// At most a few ms late.
    pub wait_ms_max: u64,
    /// Do not sleep: look for events and come back at once.
    pub spin: bool,
    /// Nothing is in flight: every message received so far has its answer written. A stop waits
    /// for this, within `stop_grace_ms_max`.
    pub drained: bool,
}

impl Turn {
    /// Nothing in flight, no timer.
    pub const IDLE: Self = Self { wait_ms_max: u64::MAX, spin: false, drained: true };
}

/// What becomes of a connection after the service was asked about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// It goes on as it is.
    Stay,
    /// It is read on, where the service had [paused](Step::Pause).
    Resume,
    /// It ends; unread input is dropped.
    Close {
        /// Whether the peer may first take its answers (within `stalled_ms_max`).
        after_output: bool,
    },
}

/// How far the loop has come in a wake-up, where the service would not know otherwise. The wake-up begins with
/// [`Service::woke`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boundary {
    /// The kernel is called for what a connection received (epoll only).
    ReceiveCall,
    /// The kernel is called to send what waits for a connection (epoll only).
    SendCall,
    /// It returned from such a call.
    CallReturned,
    /// Every connection that changed was visited. The wake-up ends.
    Sent,
}

/// One worker's doors: one value a worker, called only from its thread, never concurrently.
pub trait Service {
    /// What the service keeps about one connection.
    type Conn;

    /// The loop came back from its kernel call; nothing else was done yet. The place to refresh a cached clock.
    fn woke(&mut self) {}

    /// The loop has come so far in a wake-up; for a service that measures where time goes.
    #[inline(always)]
    fn passed(&mut self, _: Boundary) {}

    /// A connection was accepted on a listener of the door with this number, and its TLS handshake is over where that has TLS.
    fn opened(&mut self, id: ConnId, peer: Peer, door: usize) -> Self::Conn;

    /// The connection's TLS handshake is over. Called right after the connection was opened, before any bytes of it.
    fn secured(&mut self, _id: ConnId, _conn: &mut Self::Conn, _secured: &Secured<'_>) {}

    /// Bytes arrived. `input` begins where the last call's consumption ended and is contiguous; it
    /// holds at least `need` bytes if the last call asked for them. Called again until it consumes
    /// nothing, asks for more than is there, or `out` has no room left.
    ///
    /// Bytes are read in place: from the receive buffer when the message arrived whole, from the
    /// connection's own buffer when it came in pieces.
    fn received(
        &mut self,
        id: ConnId,
        conn: &mut Self::Conn,
        input: &[u8],
        out: &mut Out<'_>,
    ) -> Step;

    /// How often this connection [ticks](Self::tick), in ms; 0 = never. Asked once it is open, and after each tick.
    fn tick_ms(&self, _conn: &Self::Conn) -> u64 {
        0
    }

    /// The connection's time has come: heartbeats, time limits of a session. `now_ms` counts from the loop's start on the
    /// monotonic clock. A tick may be some ms late; one that was missed is not made up for.
    fn tick(
        &mut self,
        _id: ConnId,
        _conn: &mut Self::Conn,
        _now_ms: u64,
        _out: &mut Out<'_>,
    ) -> Then {
        Then::Stay
    }

    /// How often the service itself [ticks](Self::service_tick), in ms; 0 = never. Asked at the start, and after each tick.
    fn service_tick_ms(&self) -> u64 {
        0
    }

    /// The service's time has come. `now_ms` is as in [`tick`](Self::tick).
    fn service_tick(&mut self, _now_ms: u64, _outbox: &mut Outbox<'_, Self::Conn>) {}

    /// The peer took so much that there is room for more: called once for each time that the service
    /// [asked](Out::ask_for_more).
    fn drained(&mut self, _id: ConnId, _conn: &mut Self::Conn, _out: &mut Out<'_>) -> Then {
        Then::Stay
    }

    /// A [dial](Outbox::dial) is connected, and its TLS handshake is over where it has TLS. `None` closes the connection;
    /// the dial tries again later.
    fn dialled(&mut self, _id: ConnId, _dial: DialId, _peer: Peer) -> Option<Self::Conn> {
        None
    }

    /// An attempt of a dial failed. The next one comes in `retry_ms`.
    fn dial_failed(
        &mut self,
        _dial: DialId,
        _address: SocketAddr,
        _why: DialFailure,
        _retry_ms: u64,
        _outbox: &mut Outbox<'_, Self::Conn>,
    ) {
    }

    /// Whether answers of earlier messages are still to come. Asked when the peer has ended its sending side, and again after each
    /// wake-up that wrote to the connection: it stays open until nothing is owed.
    fn owes(&self, _id: ConnId, _conn: &Self::Conn) -> bool {
        false
    }

    /// The connection is gone; its id reaches nothing any more.
    fn closed(&mut self, id: ConnId, conn: Self::Conn, why: CloseReason);

    /// Once per wake-up, after everything received was handed over: poll queues, run timers, write
    /// to any connection.
    fn turn(&mut self, outbox: &mut Outbox<'_, Self::Conn>) -> Turn;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_survive_a_trip_as_numbers() {
        let id = ConnId { slot: 7, generation: u32::MAX };
        assert_eq!(ConnId::from_bits(id.to_bits()), id);
    }
}
