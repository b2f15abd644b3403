//! The keys door: Transit's HTTP interface, which clients of OpenBao and Vault speak, over the vault's named keys.
//!
//! Outside [`gate`] stands the protocol alone: one whole request in, one answer out. Sockets, tokens, threads and the place where changes
//! are durable are the gate's. A [`Door`] is the work space of one thread; what stands behind it is a [`Gate`].
//!
//! ```text
//!  Request, Caller ──▶ Door::answer ──▶ Answer (status, headers, JSON, what the audit has to know)
//!                        │  Gate::keys: seals, opens, makes tags
//!                        ▼  Gate::change: makes, rotates, reserves messages; durable when it returns
//! ```
//!
//! A [`Bulk`] stream has neither JSON nor base64 and no end: bytes in, bytes out.
//!
//! A batch is read in place: the body is its one copy, an item is 48 bytes of places in it, and at most 256 items are decoded at a time.

#![forbid(unsafe_code)]

mod answer;
mod backup;
mod base64;
mod body;
mod bulk;
mod crypt;
mod door;
pub mod gate;
mod json;
mod keys;
mod request;
mod scope;
mod sys;
mod tags;
mod work;

pub use answer::{Answer, Audit};
pub use body::BatchReader;
pub use bulk::{BULK_PATH, Bulk, BulkError, STREAM_ITEM_BYTES_MAX, Waiting};
pub use door::{Door, Gate, NotChanged, NotUnsealed, Settings, UnsealKey, Unsealing};
pub use request::{Caller, Method, Request, token_of};
pub use scope::{Act, BadKeyScope, KeyScopes, Verb};
