//! The threads of a node that answer and book: workers behind the doors, one bank behind the workers.
//!
//! ```text
//!  door-transport ── worker ── door-batch, openrtb ─▶ a verdict out of money that the worker has
//!                      │ ▲
//!   messages: ToBank,  │ │ ToWorker: fillings, snapshots, answers that were sealed
//!     questions        ▼ │
//!                     bank ── Bank::step ── ledger-journal: sealed before anybody is told
//! ```
//!
//! - [`start`] takes cores and addresses, starts the threads and stops them: [`start::Engine`].
//! - `worker` is one worker, behind all doors; [`doors`] has the list of them. What a door is, stands in `weir-door`.
//! - [`bank`] is the bank's thread; its parts are keys, what pacing learned, reconciliation, recovery, and rows for the survey.
//! - `messages` pass between workers and bank; [`pulse`] is written by the bank and read by others.
//! - [`cluster`] is for a log on other machines: how a node stands by, and how a run begins there.
//! - [`in_force`] knows which budgets file that log says is in force.
//! - [`stages`] names what the time of a thread goes into, [`measured`] reads it.
//! - [`whole_folder`] makes the folders of stores, whole or not at all.
//! - [`reconcile_file`] reads the lines of what an exchange says of bids.
//!
//! Nothing here serves people: the admin door, the watcher and the survey are in `weir-survey` and talk to the bank by
//! [`bank::Command`].

#![forbid(unsafe_code)]

pub mod bank;
pub mod bench;
pub mod certificates;
pub mod cluster;
pub mod doors;
mod error;
pub mod in_force;
pub mod known;
pub mod measured;
pub mod memory;
mod messages;
pub mod pulse;
pub mod reconcile_file;
mod rooms;
pub mod stages;
pub mod start;
pub mod whole_folder;
mod worker;

pub use error::StartError;
