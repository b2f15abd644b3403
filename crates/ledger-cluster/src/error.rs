//! Why the log of a cluster cannot be opened or read.

use std::io;

use ledger_journal::ReadError;

use crate::OpenError;

/// Why the log of a cluster cannot be opened or read.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// No connection, or no answer.
    #[error("the log at {servers} does not answer: {why}")]
    Away {
        /// The servers that were asked.
        servers: String,
        /// What went wrong.
        why: String,
    },
    /// There is no such stream.
    #[error(
        "{servers} has no stream {stream}: make it once for a new cluster. If there was one, the log is gone: make it anew from the longest journal of a node"
    )]
    NoStream {
        /// The stream.
        stream: String,
        /// The servers that were asked.
        servers: String,
    },
    /// The engine refuses, or answers what it must not.
    #[error("{stream}: {why}")]
    Refused {
        /// The stream.
        stream: String,
        /// What the engine said.
        why: String,
    },
    /// An entry cannot be opened.
    #[error("{stream}, entry {entry}: {why}")]
    Entry {
        /// The stream.
        stream: String,
        /// Number of the entry.
        entry: u64,
        /// Why.
        why: OpenError,
    },
    /// An entry is missing.
    #[error(
        "{stream}: entry {entry} is missing. The engine lost it: no node may trim the log, and another node's journal has it"
    )]
    Hole {
        /// The stream.
        stream: String,
        /// Number of the entry.
        entry: u64,
    },
    /// The log has another history than the one that is known here.
    #[error(
        "{stream}, entry {entry}: it does not follow from record {last} as this node knows it ({why}). These are two histories: stop all nodes of the cluster and compare their journals"
    )]
    Fork {
        /// The stream.
        stream: String,
        /// Number of the entry.
        entry: u64,
        /// The last record that is known here before it.
        last: u64,
        /// What does not fit.
        why: String,
    },
    /// The log ends before what is known here.
    #[error(
        "{stream} ends with record {last}, and this node knows record {known} to be in it: the engine lost what it had acknowledged. Append the missing groups again from a journal that has them"
    )]
    Behind {
        /// The stream.
        stream: String,
        /// The last record of the log; 0 if it holds none.
        last: u64,
        /// The last record that is known here.
        known: u64,
    },
    /// What is asked for was trimmed.
    #[error(
        "{stream} begins with record {first}, and record {wanted} was asked for: begin with a base copy that reaches record {first}"
    )]
    Trimmed {
        /// The stream.
        stream: String,
        /// The first record of the log.
        first: u64,
        /// The record that was asked for.
        wanted: u64,
    },
}

impl ClusterError {
    /// Returns the error as a reader of any log has it.
    pub(crate) fn reading(self, stream: &str) -> ReadError {
        ReadError::Io { file: stream.to_string(), source: io::Error::other(self) }
    }
}
