//! The FIX door without its sockets: which session a connection belongs to, who may log on, and what stands behind a session; and, in
//! [`gate`], how that travels in a node.
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
//! | bytes arrived | [`Door::received`] | drop what was consumed, send the bytes, then close if it says so; read no further while [`Line::is_judged_later`] |
//! | bytes arrived, and others may arrive before the worker sleeps | [`Door::received_and_held`]; once for all of them [`Door::flush`] | the same; a connection that [`Door::owes`] is not closed before |
//! | the guard's answer to a Logon came later | [`Line::judged`], then [`Door::received`] with what was not consumed | the same |
//! | [`Door::deadline_ms`] of a line has come | [`Door::tick`] | the same |
//! | what was sent has left, and [`Door::is_resending`] | [`Door::resume`] | the same |
//! | more than [`Door::unsent_bytes_max`] waits for the peer | - | close it: its messages are in the store and come by a gap |
//! | the connection is gone | [`Door::closed`] | - |
//! | a connection to a venue ([`Door::venues`]) was opened | [`Door::dialled`] | send the bytes |
//! | an operator wants something of a session | [`Door::act`] | - |
//! | the configuration is another one | [`Door::judge`], a store for each of [`Door::new_stores`], [`Door::adopt`] | hang up venues that are gone, dial new ones |
//! | after each of these | [`Door::take_ready_into`] | send these bytes over the other connections that they are for, and close those it says; [`Door::reuse`] takes their room back |
//!
//! Bytes that are handed out were flushed to the store before. Outside [`gate`] nothing reads a clock, does I/O or starts a thread.
//!
//! # What passes through
//! A client's application messages go to its venue and the venue's come back with every byte of their bodies; the header gets the numbers,
//! CompIDs and time of the other session. A message that was taken and its copy for the other side are one change of the stores: kill -9
//! in between leaves both or neither. While the venue is not logged on, or the first gap after its logon is open, a client's message is
//! refused (j, 380=4); one of a type by which only a venue reports always is (j, 380=3). A report for an absent client is numbered and stored: the client sees a gap. A message that the other side rejects is
//! told to who sent it, as a j with its own number.
//!
//! # Several clients with one venue
//! A venue's message goes to the client whose order (11, 41) or request (131, 262, 320, 568 and others) it names. What names nobody's goes to
//! the client that the venue's `unaddressed` names, with `"all"` to its one client; with several, news (B) and session status (h) go to all
//! and the rest is kept until somebody names a client: [`Door::kept`], [`Door::give_kept`]. A message with the id of another client is
//! refused, unless `cl_ord_id_prefix` keeps their ClOrdIDs apart.
//!
//! Whose an id is stands in a book beside the venue's messages ([`fix_session::MessageStores::book`]) and changes with them: kill -9 leaves
//! both or neither. It has room for `orders_max` ids of a venue. Those of open orders stay; those of closed ones and of requests are known for
//! 24 h, or until there is no room. When 7/8 of the room is taken by open orders, [`Happening::IdsFill`] says so; when all is, a new order is
//! refused and [`Happening::IdsFull`] says so. A venue has a book from its first order on, also with one client, so whoever comes later, by
//! [`Door::adopt`] or by another configuration at the next start, gets and takes over nothing of that one's. A book that begins with one client
//! says first that what it does not know is that client's, until an id of another one is forgotten; an `unaddressed` that names somebody counts
//! more.
//!
//! # Nothing is learnt by probing
//! A connection whose first message is anything but the Logon of a session that it may have is closed without a byte. So is a second
//! connection of a session that has one; the first does not notice.

#![forbid(unsafe_code)]

mod adopt;
mod asking;
mod book;
mod cells;
mod comparing;
mod config;
mod door;
mod doubts;
mod exposure;
pub mod gate;
mod half_logons;
mod head;
mod ids;
mod kills;
mod known;
mod line_up;
mod operate;
mod pass;
mod passing;
mod passwords;
mod peer;
mod prices;
mod refusal;
mod report;
mod route_echo;
mod rows;
mod sayings;
mod seat;

pub use adopt::OtherSession;

pub use comparing::{Compared, compare};
pub use config::{
    ConfigError, FixSessions, Limits, Route, SessionKeys, SessionSpec, Unaddressed, VenueSpec,
};
pub use door::{Caller, Clock, Door, Happening, Line, Ready, Refused, Step};
pub use fix_session::Checks;
pub use gate::limits::RefusedFor;
pub use kills::KillScope;
pub use operate::{Act, NotDone, SessionView, Standing};
pub use passwords::{PasswordFile, PasswordFileError, PasswordHash};
pub use peer::{AddressRange, AddressRangeError, Admission, Guard, Peer};
pub use prices::PriceTerms;
pub use rows::OrderView;
pub use sayings::ToLedger;
