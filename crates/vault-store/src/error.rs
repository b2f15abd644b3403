//! Why the keys of a folder cannot be read, and what to do about it.

use std::path::PathBuf;

use vault::RecordError;

/// Why the records of keys cannot be used. Nothing of them was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file cannot be read or written, is damaged, or none of ours.
    #[error(transparent)]
    Disk(#[from] disk::Error),
    /// A whole record cannot be applied.
    #[error("{} at byte {at}: {source}", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// Where the record begins.
        at: u64,
        /// Why.
        source: RecordError,
    },
}
