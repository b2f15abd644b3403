//! Why a folder of sessions cannot be opened, and what to do about it.

use std::path::PathBuf;

impl OpenError {
    /// Reports whether the disk has no room.
    pub(crate) fn is_full(&self) -> bool {
        let kinds = [std::io::ErrorKind::StorageFull, std::io::ErrorKind::QuotaExceeded];
        matches!(self, OpenError::Disk(disk::Error::Io { source, .. }) if kinds.contains(&source.kind()))
    }
}

/// Why the messages of sessions cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The operating system refused, or another process has the folder open.
    #[error(transparent)]
    Disk(#[from] disk::Error),
    /// The file was written by something else.
    #[error(
        "{} does not begin as a file of sequence numbers, version 2 or 3; restore it from a copy, or move the folder away and reset the sessions with their peers",
        path.display()
    )]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// There are messages, but the file that says which of them count is gone.
    #[error(
        "{0} has messages of sessions, and with them a file `numbers` is expected that says which of them count and which number is next: it is gone. Restore the whole of {0} from a copy. Where there is none, move {0} away and start the node: a session that its journal knows goes on behind what the journal has, and its peer gets a gap fill; one that it does not know begins at 1, so reset that with its peer. Then compare orders with the peers",
        folder.display()
    )]
    NoNumbers {
        /// The folder.
        folder: PathBuf,
    },
    /// The name of a session cannot be the name of a folder.
    #[error("the session name {name:?} is empty or too long; use at most 80 characters")]
    Name {
        /// The name.
        name: String,
    },
    /// A step of a session wrote more than may wait for a flush.
    #[error("one step of session {name:?} has too many messages; nothing of it is kept")]
    TooMuch {
        /// The session.
        name: String,
    },
    /// A session was added twice.
    #[error("the session {name:?} is there already; give each session a name of its own")]
    Twice {
        /// The name.
        name: String,
    },
}
