//! Why the log of a cluster cannot be opened or read.

use crate::OpenError;
use crate::verdict::NoResult;

/// Why the log of a cluster cannot be opened or read, and which log that is.
#[derive(Debug, thiserror::Error)]
#[error("{log}: {fault}")]
pub struct ClusterError {
    /// The stream and its servers.
    pub log: String,
    /// What is wrong.
    pub fault: LogFault,
}

/// What can be wrong with a log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogFault {
    /// No connection, no answer, or one that the engine must not give.
    #[error("{0}")]
    Away(String),
    /// There is no such stream.
    #[error(
        "there is no such stream: for a new cluster make it once with `weir cluster init`. If there was one, the log is gone: stop all nodes, and make it anew with `weir cluster heal --keep disk` from the folder of the node whose journal is the longest"
    )]
    NoStream,
    /// The journal that begins it is not in it yet.
    #[error(
        "`weir cluster init` is not finished: the journal that begins this log has {records} records, and record {has} is the last one that is here. Run it again, with the same data folder"
    )]
    Unfinished {
        /// The last record of that journal.
        records: u64,
        /// The last record that is here.
        has: u64,
    },
    /// An entry cannot be opened.
    #[error("entry {entry}: {why}")]
    Entry {
        /// Its number.
        entry: u64,
        /// Why.
        why: OpenError,
    },
    /// An entry with this number is missing.
    #[error(
        "entry {0} is missing: the engine lost it. Trim nothing: the journal of another node has it"
    )]
    Hole(u64),
    /// The log has another history than the one that is known here.
    #[error(
        "entry {entry} does not follow from record {last} as this node knows it ({why}). These are two histories: stop all nodes of the cluster; `weir cluster heal` shows both, and keeps one"
    )]
    Fork {
        /// Number of the entry.
        entry: u64,
        /// The last record that is known here before it.
        last: u64,
        /// What does not fit.
        why: String,
    },
    /// The log ends before what is known here.
    #[error(
        "it ends with record {last}, and this node knows record {known} to be in it: the engine lost what it had acknowledged. Append the missing groups again from a journal that has them"
    )]
    Behind {
        /// The last record of the log; 0 if it holds none.
        last: u64,
        /// The last record that is known here.
        known: u64,
    },
    /// What lies beside the log cannot be opened.
    #[error("{name} beside the log: {why}")]
    Piece {
        /// Its name.
        name: String,
        /// Why.
        why: OpenError,
    },
    /// What lies beside the log is not whole.
    #[error("{0} beside the log is not whole, or of another node.id or version")]
    Incomplete(String),
    /// What lies beside the log cannot be written to the own disk.
    #[error("this node's disk: {0}")]
    Unpacked(String),
    /// The log does not begin with the first record, and no base copy leads to where it begins.
    #[error(
        "it begins with record {first}, and no base copy reaches that record: what was before is lost, or the base copies are. Begin with the data folder of a node whose journal reaches record {first}, or with a copy of it"
    )]
    NoBase {
        /// The first record of the log.
        first: u64,
    },
    /// What is asked for was trimmed.
    #[error(
        "it begins with record {first}, and record {wanted} was asked for: begin with a base copy that reaches record {first}"
    )]
    Trimmed {
        /// The first record of the log.
        first: u64,
        /// The record that was asked for.
        wanted: u64,
    },
}

impl From<NoResult> for LogFault {
    fn from(error: NoResult) -> LogFault {
        match error {
            NoResult::Refused(refusal) if refusal.is_no_stream() => LogFault::NoStream,
            other => LogFault::Away(other.to_string()),
        }
    }
}
