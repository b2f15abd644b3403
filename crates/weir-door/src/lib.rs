//! What every door of a worker is made of. A door's own half stands on this crate and on the till, and knows nothing of the node that
//! runs it: neither its bank nor its start.
//!
//! | part | what it is for |
//! | --- | --- |
//! | [`Door`], [`Heard`] | what a door does with bytes, and what else it hears |
//! | [`doors!`], [`DoorSet`], [`OnDoors`] | the doors of one worker, and which of them are on |
//! | [`DoorFacts`] | what is shown and measured of a door |
//! | [`NamedDoor`], [`NamedRows`] | whose named holds a door keeps, and what it says of them at a start |
//! | [`Entrance`], [`Tokens`] | whom a door lets in, and the token files of all doors |
//! | [`WorkerCounters`] | what a worker and each of its doors count |
//! | [`thread`] | threads with a name, off the workers' cores, and what they cost |

#![forbid(unsafe_code)]

mod counters;
mod door;
mod entrance;
mod heard;
mod named;
pub mod thread;
mod tokens;

pub use counters::{DoorCounts, ReturnedElsewhere, WorkerCounters};
pub use door::{CheckScopes, Door, DoorFacts, DoorOutbox, DoorSet, OnDoors, Outcomes, RequestKind};
pub use entrance::{Entrance, are_same};
pub use heard::{FailedDial, Heard};
pub use named::{CompareNamed, NamedDoor, NamedRows};
pub use tokens::{Tokens, TokensRead};
