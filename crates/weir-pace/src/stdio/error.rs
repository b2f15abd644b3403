//! What can be wrong with a conversation over standard input and output.

use std::io;
use std::process::ExitCode;

use super::lines::LINE_BYTES_MAX;
use crate::engine::EngineError;

/// Why a conversation ended before its `END`.
#[derive(Debug, thiserror::Error)]
pub enum StdioError {
    /// A line of the input is not what the protocol expects there.
    #[error("line {line}: {fault}")]
    Input {
        /// Which, counted from 1.
        line: u64,
        /// The fault in it.
        fault: Fault,
    },
    /// The input ended before `END`.
    #[error("the input ends after line {after}, expected {expected}")]
    Ended {
        /// How many lines came.
        after: u64,
        /// What should have come.
        expected: &'static str,
    },
    /// The campaigns do not make sense together.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The input cannot be read.
    #[error("reading line {line} failed: {error}")]
    Read {
        /// Which line.
        line: u64,
        /// Why.
        error: io::Error,
    },
    /// The answers cannot be written: whoever reads them has probably ended.
    #[error("writing the answers failed: {0}; does the simulator still run?")]
    Write(io::Error),
}

impl StdioError {
    /// 2 for input that cannot be used, 1 for everything else.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            StdioError::Input { .. } | StdioError::Engine(_) => ExitCode::from(2),
            StdioError::Ended { .. } | StdioError::Read { .. } | StdioError::Write(_) => {
                ExitCode::from(1)
            }
        }
    }
}

/// The fault in a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A word that cannot stand there.
    #[error("found {found:?}, expected {expected}")]
    Word {
        /// The word, at most the first 40 characters of it.
        found: String,
        /// What should be there.
        expected: &'static str,
    },
    /// The line is too short.
    #[error("the line ends, expected {expected}")]
    Short {
        /// What should follow.
        expected: &'static str,
    },
    /// The line goes on where it should end.
    #[error("found {found:?} where the line should end")]
    Long {
        /// What follows.
        found: String,
    },
    /// More bytes than any sensible line has.
    #[error("more than {LINE_BYTES_MAX} bytes in a line")]
    Bytes,
    /// A campaign that no `C` line declared.
    #[error("campaign {id} has no C line")]
    Unknown {
        /// Its id.
        id: u64,
    },
    /// The same said twice of a campaign.
    #[error("a second {what} line for campaign {id}")]
    Twice {
        /// `C`, `P`, `F` or `L`.
        what: char,
        /// The campaign.
        id: u64,
    },
    /// A cumulative table that falls.
    #[error(
        "value {index} of the table is less than the one before it; expected cumulative values"
    )]
    Falls {
        /// Which value, counted from 0.
        index: usize,
    },
    /// A plan that never spends.
    #[error(
        "the plan stays at {at}; expected cumulative shares that rise from the first to the last value"
    )]
    Flat {
        /// Its first and last value, as text.
        at: String,
    },
    /// A landscape that cannot be.
    #[error("{0}")]
    Landscape(String),
    /// A second before the last one.
    #[error("second {found} comes after second {last}; expected seconds that do not fall")]
    Back {
        /// The second of this batch.
        found: u64,
        /// That of the batch before.
        last: u64,
    },
}
