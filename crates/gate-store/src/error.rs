//! What can go wrong, where, and what to do about it.

use std::path::{Path, PathBuf};

/// Why an operation of the store failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The operating system refused, or another process has the folder. The store is as it was before the call, unless a later call says
    /// [`StoreError::Broken`].
    #[error(transparent)]
    Disk(#[from] disk::Error),
    /// Bytes that were on disk for good are not what was written.
    #[error(
        "{} is damaged at byte {at}: {what}; restore the folder from a copy, or move it away and start empty",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where in it.
        at: u64,
        /// What was found, what was expected.
        what: String,
    },
    /// The file is sound, but written by something else.
    #[error(
        "{} has {what} {found}, expected {expected}; open the folder with the program that wrote it, or use an empty one",
        path.display()
    )]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What differs.
        what: &'static str,
        /// The content of the file.
        found: u64,
        /// What this program writes.
        expected: u64,
    },
    /// There are segments or runs, but no manifest that says which of them count.
    #[error(
        "{} holds {files} segments and runs but no manifest; restore it from a copy, or move the folder away",
        folder.display()
    )]
    NoManifest {
        /// The store's folder.
        folder: PathBuf,
        /// How many there are.
        files: usize,
    },
    /// The policy chose something that it may not choose; nothing was done.
    #[error("the compaction policy chose {what}; this is a bug of the policy")]
    Policy {
        /// What it chose.
        what: String,
    },
    /// An earlier error left it unknown what is on disk.
    #[error(
        "the store in {} stopped at an earlier error that left its files in doubt; close it, mend the cause and open it again",
        folder.display()
    )]
    Broken {
        /// The store's folder.
        folder: PathBuf,
    },
}

impl StoreError {
    pub(crate) fn damaged(path: &Path, at: u64, what: impl Into<String>) -> StoreError {
        StoreError::Damaged { path: path.to_owned(), at, what: what.into() }
    }
}
