//! Errors of the disk: the file, what was tried or found, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

/// The result of an operation on a disk, which fails where the system refuses.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation on a disk failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
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
    #[error("{} does not begin as a file of {content}; restore it from a copy", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What is expected in it.
        content: &'static str,
    },
    /// A later version of this program wrote the file.
    #[error(
        "{} is a file of {content} of version {version}, and this program reads version {known}; use the program that wrote it, or a later one",
        path.display()
    )]
    Later {
        /// The file.
        path: PathBuf,
        /// What is in it.
        content: &'static str,
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
    /// A record that cannot be told from none, or is too long for its length.
    #[error("a record of {content} has from 1 byte to 4 GiB")]
    RecordBytes {
        /// What it is a record of.
        content: &'static str,
    },
    /// Nobody knows what a crash would leave of the file.
    #[error("after an earlier failure ({why}) a restart is needed")]
    Stopped {
        /// The failure.
        why: String,
    },
}

impl Error {
    /// Makes an error of what the system said.
    #[must_use]
    pub fn io(path: &Path, action: &'static str, source: io::Error) -> Error {
        Error::Io { path: path.to_owned(), action, source }
    }
}

/// Says what an operator does about an error of the system.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free space on this disk; nothing that was acknowledged is lost"
        }
        io::ErrorKind::PermissionDenied => "let the user of this process read and write it",
        io::ErrorKind::NotFound => "see whether something moved or removed it",
        io::ErrorKind::ReadOnlyFilesystem => "mount the disk for writing",
        _ => "look at the disk and at the system's log",
    }
}
