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
//! | a connection is accepted | [`Door::opened`] | `None`: close it |
//! | bytes arrived | [`Door::received`] | drop what was consumed, send the bytes, then close if it says so |
//! | [`Door::deadline_ms`] of a line has come | [`Door::tick`] | the same |
//! | what was sent has left, and [`Door::is_resending`] | [`Door::resume`] | the same |
//! | more than [`Door::unsent_bytes_max`] waits for the peer | - | close it: its messages are in the store and come by a gap |
//! | the connection is gone | [`Door::closed`] | - |
//! | a connection to a venue ([`Door::venues`]) was opened | [`Door::dialled`] | send the bytes |
//! | after each of these | [`Door::take_ready`] | send these bytes over the other connections that they are for, and close those it says |
//!
//! Bytes that are handed out were flushed to the store before. Nothing here reads a clock, does I/O or starts a thread.
//!
//! # What passes through
//! A client's application messages go to its venue and the venue's come back with every byte of their bodies; the header gets the numbers,
//! CompIDs and time of the other session. A message that was taken and its copy for the other side are one change of the stores: kill -9
//! in between leaves both or neither. While the venue is not logged on, or the first gap after its logon is open, a client's message is
//! refused (j, 380=4). A report for an absent client is numbered and stored: the client sees a gap. A message that the other side rejects is
//! told to who sent it, as a j with its own number.
//!
//! # Nothing is learnt by probing
//! A connection whose first message is anything but the Logon of a session that it may have is closed without a byte. So is a second
//! connection of a session that has one; the first does not notice.

#![forbid(unsafe_code)]

mod config;
mod door;
mod half_logons;
mod passing;
mod peer;
mod route_echo;
mod seat;

pub use config::{
    Checks, ConfigError, FixSessions, Limits, Route, SessionKeys, SessionSpec, VenueSpec,
};
pub use door::{Clock, Door, Happening, Line, Ready, Refused, Step};
pub use peer::{AddressRange, AddressRangeError, Guard, Peer};
