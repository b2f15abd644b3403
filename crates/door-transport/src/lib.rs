//! The event loop under every door: io_uring or epoll, one pinned thread per worker.
//!
//! A worker is one thread that calls [`run`] with its listeners and its [`Service`]. Everything of a
//! connection happens on that thread: no lock, no shared state, no allocation once buffers are warm.
//! Other threads reach a worker through queues of the service's own, and a [`Waker`] to make it look.
//!
//! # One wake-up
//! ```text
//!   sleep ── one kernel call: hand in all operations of the last wake-up, wait, collect what is done
//!     │
//!   Service::woke            the clock is read once
//!   Service::received  ...   for every connection with bytes; read in place, answers appended
//!   Service::turn            queues of other threads, timers, answers to any connection
//!     │
//!   time-outs, ticks, dials  a part of the connections each 50 ms, all in 250 ms; only ticks and dials that are due
//!   visit                    each connection that changed, once: one send of all its answers
//!     └── again
//! ```
//! What costs on this path is packets, not messages: a send through the kernel's TCP takes about
//! 1 us, a receive 0.4 us, whatever the size up to several kB. So all answers of a wake-up for
//! one connection leave in one send.
//!
//! # What a peer cannot do
//! - Make memory grow by not reading: above `output_bytes_max` it is not read any more, above
//!   `output_total_bytes_max` nobody is; above `stalled_ms_max` it is closed.
//! - Make memory grow by unfinished messages: `input_bytes_max`, `input_total_bytes_max`.
//! - Hold a connection for nothing: `idle_ms_max`, `partial_ms_max`.
//! - Starve others: what one connection gets read in one wake-up is bounded.
//! - Reach another connection's answers: ids carry generations.
//! - Make TLS handshakes cost others their turn: their number, time and bytes are bounded (`tls_*` of [`Options`]).
//!
//! The table of attacks, each with its test, is in `docs/attacks/connections.md`.

mod buffer;
mod buffer_ring;
mod choose;
mod conns;
pub mod cores;
mod counters;
mod dial;
mod engine;
mod epoll;
mod handshakes;
mod listen;
mod options;
mod outbox;
mod run;
mod service;
mod sys;
mod timers;
pub mod tls;
mod tls_session;
mod totals;
mod unconnected;
mod uring;
mod wake;

pub use buffer::Out;
pub use choose::{Backend, Choice, Refusal, RunError, choose};
pub use counters::{Counters, HandshakeFailure};
pub use dial::{Dial, DialFailure, DialId};
pub use listen::{BindError, Listener, Listeners};
pub use options::{Limits, Options, OptionsError, TaskRun, Transport, TransportError};
pub use outbox::{Outbox, Unreachable};
pub use run::run;
pub use service::{Boundary, CloseReason, ConnId, Peer, Service, Step, Then, Turn};
pub use sys::{descriptor_limit, raise_descriptor_limit};
pub use unconnected::Unconnected;
pub use wake::{Handle, Waker};
