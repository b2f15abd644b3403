//! The FIX door without its sockets: which session a connection belongs to, who may log on, and what stands behind a session.
//!
//! ```text
//!   opened ───▶ Line: nobody yet ── first message: a Logon of a session that is free, from where it may come ──▶ Line: the session's
//!   received ─▶ Door ── Session::feed ── the route: echo ── MessageStores::flush ──▶ bytes for the connection, and whether to close it
//!   tick     ─▶
//! ```
//!
//! # How it is composed
//! A worker that has the door keeps one [`Door`], and a [`Line`] per connection, and calls:
//!
//! | when | call | then |
//! | --- | --- | --- |
//! | a connection is accepted | [`Door::opened`] | `None`: close it, too many have not logged on |
//! | bytes arrived | [`Door::received`] | drop what was consumed, send the bytes, then close if it says so |
//! | [`Door::deadline_ms`] of a line has come | [`Door::tick`] | the same |
//! | what was sent has left, and [`Door::is_resending`] | [`Door::resume`] | the same |
//! | more than [`Door::unsent_bytes_max`] waits for the peer | - | close it: its messages are in the store and come by a gap |
//! | the connection is gone | [`Door::closed`] | - |
//!
//! Bytes that are handed out were flushed to the store before. Nothing here reads a clock, does I/O or starts a thread.
//!
//! # Nothing is learnt by probing
//! A connection whose first message is anything but the Logon of a session that it may have is closed without a byte. So is a second
//! connection of a session that has one; the first does not notice.

#![forbid(unsafe_code)]

mod config;
mod door;
mod echo;
mod peer;

pub use config::{Checks, ConfigError, FixSessions, Limits, Route, SessionSpec};
pub use door::{Clock, Door, Happening, Line, Refused, Step};
pub use peer::{AddressRange, AddressRangeError, Guard, Peer};
