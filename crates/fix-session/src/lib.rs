//! FIX sessions as pure state machines: bytes and time in, bytes and notices out.
//!
//! ```text
//!   connected, bytes, ticks ──▶ Session ──▶ Outbox: bytes for the peer, notices, disconnect
//!                                │    ▲
//!        messages, each once, in │    │ send, forward
//!        the peer's order        ▼    │
//!                              Application
//!                                │    ▲
//!                                ▼    │
//!                              MessageStore: both numbers, and what was sent
//! ```
//!
//! ```
//! use fix::{Index, Message};
//! use fix_session::*;
//!
//! /// Answers every message with itself.
//! struct Echo;
//! impl<S: MessageStore> Application<S> for Echo {
//!     fn take(&mut self, session: &mut Session, message: &Message<'_>, turn: &mut Turn<'_, S>) {
//!         session.forward(message, turn).expect("a store with room");
//!     }
//! }
//!
//! let now = Now { ms: 0, unix_ms: 1_795_428_930_000 };
//! let mut index = Index::new(512);
//! let mut ends = [(Role::Initiator, "A", "B"), (Role::Acceptor, "B", "A")].map(|(role, us, them)| {
//!     let session = Session::new(SessionConfig::new(role, "FIX.4.4", us, them)).expect("good CompIDs");
//!     (session, MemoryStore::new(now.unix_ms), Outbox::default())
//! });
//! for (session, store, out) in &mut ends {
//!     session.connected(&mut Turn { now, store, out })?;
//! }
//! for _ in 0..2 {
//!     let [(_, _, from), (session, store, out)] = &mut ends;
//!     session.feed(&std::mem::take(&mut from.bytes), &mut index, &mut Turn { now, store, out }, &mut Echo);
//!     ends.reverse();
//! }
//! assert!(ends.iter().all(|(session, ..)| session.is_ready()));
//! # Ok::<(), AlreadyConnected>(())
//! ```
//!
//! # Rules
//! - What is expected next moves on for every message that is taken or rejected, never for what is garbled, too high or too low.
//! - An application gets each message once and in order: what comes early waits until the messages before it are there.
//! - A message is in the store before it is in the outbox, and flushed before it leaves. While nobody is logged on it is numbered and stored, and the peer sees a gap.
//! - Timers run on a clock that nobody sets; SendingTime and schedules on the wall clock.
//! - Nothing here reads a clock, does I/O or starts a thread.
//!
//! The README of the crate lists the rules of a session with the test of each.

mod compose;
mod config;
mod gap;
mod judge;
mod logon;
mod replay;
mod schedule;
mod sequence_reset;
mod session;
mod store;
mod throttle;
mod timers;
mod turn;
mod unsure;

pub use config::{Checks, Credentials, Role, SessionConfig, Strictness};
pub use schedule::{Period, Schedule, ScheduleError};
pub use session::{AlreadyConnected, Application, SendError, Session, SessionState, Traffic};
pub use store::{Durability, MemoryStore, MessageStore, MessageStores, StoreError, Waiting};
pub use turn::{Disconnect, Notice, Now, Outbox, Turn};
