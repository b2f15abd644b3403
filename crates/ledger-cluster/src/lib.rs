//! The journal's log on other machines: [`ClusterLog`] is the trait [`ledger_journal::Log`] over an engine that others run, NATS JetStream.
//!
//! One entry of the engine's stream is one closed group of the journal, encrypted ([`EntryKey`]). The engine is asked for one thing only:
//! **compare-and-append**, an entry behind the one that is named. Nothing that is read from it is believed to be the end of the log.
//!
//! - `verdict`: what an answer of the engine means for an append. No I/O: a table of answers in its tests.
//! - `seal`: entries to bytes that the engine's operators can neither read nor forge.
//! - `attest`: which settings of a stream and of a server keep what they acknowledge. No I/O.
//! - [`NodeLog`]: what a node's journal appends to, this log first and its own disk second; a standby follows with it, and a start makes both the same.
//! - [`Listening`], [`catch_up`] and [`begin_run`]: how a standby becomes the bank.
//! - [`DataFolder`]: how a folder begins from one, and what a standby puts there ([`Copies`]). [`heal`]: a person keeps one of two histories.
//! - [`Base`]: copies that a node begins from where the log was trimmed.
//! - [`Histories`]: what a person is shown who decides between a log and a disk.
//! - `store`: what lies beside the log, in a stream of its own: files, in sealed pieces.
//! - [`Engine`]: what is asked of an engine, without async. [`JetStream`]: one, on a runtime of its own that the calling thread drives.
//! - [`Memory`]: another engine, for tests.

#![forbid(unsafe_code)]

mod attest;
mod base;
mod engine;
mod error;
mod folder;
mod heal;
mod jetstream;
mod log;
mod memory;
mod name;
mod node_log;
mod seal;
mod start;
mod store;
#[cfg(test)]
mod tests;
mod verdict;

pub use base::{Base, Packed};
pub use engine::{AnyEngine, Ask, Engine, Reply};
pub use error::{ClusterError, LogFault};
pub use folder::{Asked, Connect, Copies, DataFolder, newest, settle};
pub use heal::{Healed, Histories, History, Side, heal};
pub use jetstream::{JetStream, Servers};
pub use log::{ClusterLog, ENTRY_BYTES_MAX, Place};
pub use memory::{EngineFault, Memory};
pub use name::{ClusterName, NameError};
pub use node_log::{At, CatchUpError, CaughtUp, EachGroup, NodeLog};
pub use seal::{EntryKey, OpenError, SEAL_BYTES};
pub use start::{BeginError, Listening, begin_run, catch_up, make, replay};
