//! What can stop a run before it has figures to report.

use std::path::PathBuf;

/// Why a run could not be made. Faults *during* a run are part of the [`crate::Report`] instead.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HammerError {
    /// The command line contradicts itself or leaves a documented range.
    #[error("--{flag}: {found}; expected {expected}")]
    Usage {
        /// The flag, without its dashes.
        flag: &'static str,
        /// The value that was given.
        found: String,
        /// What would have been right.
        expected: String,
    },
    /// The target's name does not resolve, or nothing accepts there.
    #[error(
        "cannot connect to {target}: {source}; is the node running, and is this the right door?"
    )]
    Unreachable {
        /// HOST:PORT as given.
        target: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The node answered Hello with a refusal.
    #[error("the node refused the connection: {reason}: {detail}; {advice}")]
    HandshakeRefused {
        /// The schema's name of the reason, in lower case.
        reason: &'static str,
        /// The node's own words.
        detail: String,
        /// What to do about it.
        advice: &'static str,
    },
    /// The peer speaks, but not this protocol.
    #[error("{target} does not speak the batch protocol: {what}")]
    NotOurProtocol {
        /// HOST:PORT as given.
        target: String,
        /// The value that was found and the one that was expected.
        what: String,
    },
    /// The connection broke, or an answer did not come in time, outside the measured part.
    #[error("{during}: {source}")]
    Io {
        /// What was being done.
        during: &'static str,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// There is nothing to ask for.
    #[error("the node has no budgets; load some, or name their number with --budgets N")]
    NoBudgets,
    /// A file cannot be read.
    #[error("cannot read {path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// Not one line of the request file could be used.
    #[error("{path}: none of its {lines} lines is a usable OpenRTB request; the first: {first}")]
    OpenRtbAllBad {
        /// The file.
        path: PathBuf,
        /// The number of lines that were tried.
        lines: usize,
        /// Why the first bad line was refused.
        first: String,
    },
    /// The node's FIX door, or its admin door, is not as a run wants it.
    #[error("--fix: {0}")]
    Fix(String),
    /// The operating system refused a thread, a socket or a readiness queue.
    #[error("the system refused {what}: {source}")]
    System {
        /// What was asked for.
        what: &'static str,
        /// The error of the operating system.
        source: std::io::Error,
    },
}

impl HammerError {
    /// Whether another try may succeed: nothing is known to be wrong with what the node keeps, it only could not be asked.
    #[must_use]
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Io { .. } => true,
            Self::HandshakeRefused { reason, .. } => {
                [wire::Reason::Busy, wire::Reason::ShuttingDown]
                    .iter()
                    .any(|passing| passing.name() == *reason)
            }
            _ => false,
        }
    }

    /// The process exit code this error calls for: 2 for wrong usage, 1 for everything else.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        if matches!(self, Self::Usage { .. }) { 2 } else { 1 }
    }
}
