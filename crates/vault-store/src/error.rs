//! Why the keys of a folder cannot be read, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use vault::RecordError;

/// Why the records of keys cannot be used. Nothing of them was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The operating system refused.
    #[error("cannot {action} {}: {source}; {}", path.display(), advice(source))]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// The system's own words.
        source: io::Error,
    },
    /// Another process has the folder open.
    #[error(
        "{} is held by another process, most likely the node that runs on this data folder; stop that one first, or use another folder",
        path.display()
    )]
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// The file was written by something else.
    #[error("{} does not begin as a file of keys; restore it from a copy", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// A later version of this program wrote the file.
    #[error(
        "{} is a file of keys of version {version}, and this program reads version {known}; use the program that wrote it, or a later one",
        path.display()
    )]
    Later {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
        /// The one that this program reads.
        known: u32,
    },
    /// Bytes that were once whole have changed.
    #[error(
        "{} is damaged at byte {at}, and what stands behind that is not; restore it from a copy",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where the damaged record, or the head, begins.
        at: u64,
    },
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

impl OpenError {
    pub(crate) fn io(path: &Path, action: &'static str, source: io::Error) -> OpenError {
        OpenError::Io { path: path.to_owned(), action, source }
    }
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free space on this disk",
        io::ErrorKind::PermissionDenied => "let the user of this process read and write it",
        io::ErrorKind::ReadOnlyFilesystem => "mount the disk for writing",
        _ => "look at the disk and at the system's log",
    }
}
