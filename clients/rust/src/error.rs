//! What is broken, as opposed to what is refused.

use std::fmt;
use std::sync::Arc;

/// Something is broken. A refusal is no error but a [`Verdict`](crate::Verdict).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The options cannot be used; what was found and what was expected.
    Options(String),
    /// The node does not know the auth token.
    Unauthorised(String),
    /// The node and this client have no version of the schema in common.
    Version(String),
    /// The address is not that of a node's batch door: something there speaks HTTP.
    WrongDoor(String),
    /// The node refused a frame as broken, or an answer cannot be understood.
    Refused {
        /// Its reason, by name.
        reason: String,
        /// What it found and expected.
        detail: String,
    },
    /// A text that is no amount of the unit.
    Amount(String),
    /// A pod has more asks than a frame may hold.
    TooLarge {
        /// Neighbouring asks with one pod.
        found: usize,
        /// Entries that a frame may hold.
        max: usize,
    },
    /// The hold was settled, released or given away before.
    Done,
    /// Too many settlements wait for their answers; this one was not taken.
    Full {
        /// How many may wait.
        max: usize,
    },
    /// The client was closed.
    Closed,
    /// The spool file cannot be used.
    Spool(Arc<std::io::Error>),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Options(what) => write!(f, "options: {what}"),
            Error::Unauthorised(detail) => {
                write!(f, "the node does not let this client in: {detail}")
            }
            Error::Version(detail) => write!(f, "no common version of the protocol: {detail}"),
            Error::WrongDoor(address) => {
                write!(f, "{address} speaks HTTP: this is not the batch door (default port 7700)")
            }
            Error::Refused { reason, detail } => {
                write!(f, "the node refused a frame as {reason}: {detail}")
            }
            Error::Amount(what) => f.write_str(what),
            Error::TooLarge { found, max } => {
                write!(f, "a pod of {found} asks: a frame holds {max}; ask for fewer together")
            }
            Error::Done => f.write_str("the hold was settled, released or given away before"),
            Error::Full { max } => write!(
                f,
                "{max} settlements wait for their answers already; wait until the nodes can be reached, then settle again"
            ),
            Error::Closed => f.write_str("the client was closed"),
            Error::Spool(error) => write!(f, "the spool file: {error}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Spool(error) => Some(error.as_ref()),
            _ => None,
        }
    }
}

impl From<money::ParseAmountError> for Error {
    fn from(error: money::ParseAmountError) -> Error {
        Error::Amount(error.to_string())
    }
}

impl From<money::UnitError> for Error {
    fn from(error: money::UnitError) -> Error {
        Error::Amount(error.to_string())
    }
}
