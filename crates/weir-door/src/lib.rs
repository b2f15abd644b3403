//! What every door of a worker is made of. A door's own half stands on this crate and on the till, and knows nothing of the node that
//! runs it: neither its bank nor its start.
//!
//! | part | what it is for |
//! | --- | --- |
//! | [`Entrance`] | whom a door lets in |
//! | [`WorkerCounters`] | what a worker and each of its doors count |
//! | [`thread`] | threads with a name, off the workers' cores, and what they cost |

#![forbid(unsafe_code)]

mod counters;
mod entrance;
pub mod thread;

pub use counters::{DoorCounts, ReturnedElsewhere, WorkerCounters};
pub use entrance::{Entrance, are_same};
