//! What can go wrong, an enum an operation.

use std::io;
use std::path::PathBuf;

use crate::load::BadLine;

/// [`Profiles::open`](crate::Profiles::open) failed; nothing runs.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// An option is out of its range.
    #[error("{option} is {found}, expected {expected}; correct the option")]
    Option {
        /// Its name.
        option: &'static str,
        /// The value that was given.
        found: u64,
        /// What is allowed.
        expected: &'static str,
    },
    /// The folder cannot be made.
    #[error("cannot make the folder {folder}: {source}; check path, permissions and free space")]
    Folder {
        /// Which.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The store of users cannot be read.
    #[error("cannot open the store of users in {folder}: {source}")]
    Store {
        /// Which.
        folder: PathBuf,
        /// Why.
        source: StoreError,
    },
    /// The log of counts cannot be read.
    #[error("cannot open the log of counts in {folder}: {source}")]
    Log {
        /// Which.
        folder: PathBuf,
        /// Why.
        source: Box<gate_store::StoreError>,
    },
    /// The operating system gave no thread.
    #[error("cannot start the thread of the profiles: {0}; check the limit of threads")]
    Thread(io::Error),
}

/// The store of users failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Reading or writing failed. After a failed write the store refuses further ones until the
    /// process starts again.
    #[error("the store of users: {0}; check disk and free space, then start again")]
    Database(#[from] Box<fjall::Error>),
    /// A stored value is not one.
    #[error(
        "the stored value of user #{user:016x} has an unknown layout or is damaged; set the user's segments again"
    )]
    Value {
        /// Whose.
        user: u64,
    },
}

impl From<fjall::Error> for StoreError {
    fn from(error: fjall::Error) -> StoreError {
        StoreError::Database(Box::new(error))
    }
}

/// Segments were not changed.
#[derive(Debug, thiserror::Error)]
pub enum UpdateError {
    /// More than a user can have.
    #[error(
        "user #{user:016x} would have {found} segments, at most 255 are kept; remove some first"
    )]
    TooMany {
        /// Whose.
        user: u64,
        /// How many it would have been.
        found: usize,
    },
    /// The store failed; memory is unchanged too.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A bulk load ended early. What it had accepted stays; loading the file again is harmless.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A place under the caps was not reserved; none of them changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The cap at this position has no place left.
    #[error("cap {0} of the request has no place left")]
    Capped(usize),
    /// The user is in the store and not yet in memory, so what was counted is not known; it is being loaded.
    #[error("the user is not in memory; being loaded")]
    Cold,
    /// A bound: 32 reservations or 255 counters a user, 8 caps a reservation, or memory full of users who must stay.
    #[error("a bound of the user or of memory is reached")]
    Full,
}

/// The queue to the log is full, or closed: nothing was counted. Answer "busy", so that the notice comes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the queue of counts is full; the notice must come again")]
pub struct Busy;

/// [`Profiles::close`](crate::Profiles::close) could not write everything.
#[derive(Debug, thiserror::Error)]
pub enum CloseError {
    /// Counts that were queued are not on disk; none of them was acknowledged.
    #[error(
        "{unwritten} counts could not be written; they were not acknowledged and may be sent again"
    )]
    Unwritten {
        /// How many.
        unwritten: u64,
    },
    /// The store could not be synced; the log has everything.
    #[error("{unfolded} counts are in the log but not in the store; the next start folds them")]
    Unfolded {
        /// How many.
        unfolded: u64,
    },
}

impl std::fmt::Display for BadLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            BadLine::NotUtf8 => "not UTF-8",
            BadLine::TooLong => "longer than 65,536 bytes",
            BadLine::NoUser => "no user before the first comma",
            BadLine::BadKey => "a raw key must be # and 1 to 16 hexadecimal digits",
            BadLine::NoSegments => "no segment after the user",
            BadLine::EmptySegment => "a segment without a name",
            BadLine::TooManySegments => "more than 255 segments for the user",
            BadLine::NoEnd => {
                "no line feed at the end of the file: end the line with one, or is the file cut?"
            }
        })
    }
}
