//! The Rust client of Weir: reserve money before it is spent, settle what it cost, and let nothing pass a limit.
//!
//! - [`Client::reserve`] asks for one amount and gives a [`Hold`] or a [`Verdict`]. Many asks go by [`Client::reserve_all`],
//!   budgets with a handle by [`Client::reserve_from`].
//! - A [`Hold`] is settled or released; one that is dropped is released. [`Hold::extend`] moves its end on.
//! - Confirms, settles and releases are repeated until a node answers them, and booked once; with [`Options::spool`] also beyond
//!   a crash of this process.
//! - Asks have a deadline, and are never asked again by the client; a grant that comes too late is released.
//! - Amounts are [`Amount`]s of a [`Unit`], read from decimal text and printed as such: never a float.
//!
//! The rules are those of all clients, and `clients/conform` tests them. Calls block; the client's own threads read answers, make
//! connections and repeat what is unanswered.

#![forbid(unsafe_code)]

mod ask;
mod call;
mod client;
mod conn;
mod error;
mod flights;
mod hold;
mod lookup;
mod options;
mod outbox;
mod pool;
mod spool;
mod transport;
mod verdict;

pub use ask::{Answer, Ask, Token};
pub use client::{Client, Decision};
pub use error::Error;
pub use hold::{Extended, Hold, Outcome};
pub use lookup::{Budget, Found};
pub use money::{Amount, Unit};
pub use options::{Event, Options, What};
pub use verdict::Verdict;
pub use wire::Action;
