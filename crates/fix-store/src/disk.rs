//! Files, with errors that name them. Everything that is written goes through here, so that tests can make any operation fail.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::OpenError;
#[cfg(test)]
use crate::tests::loss::{Op, note, number};

type Result<T> = std::result::Result<T, OpenError>;

/// Only the user of the process may read them: messages are orders.
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;
/// Zeros that are written before the disk is waited for.
const ZEROS_AT_ONCE: usize = 1 << 20;

/// An open file and its name.
#[derive(Debug)]
pub(crate) struct DiskFile {
    file: File,
    path: PathBuf,
}

impl DiskFile {
    /// Makes a new file, or empties what a failed attempt left.
    pub(crate) fn create(path: &Path) -> Result<DiskFile> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(FILE_MODE);
        let file = fault::check().and_then(|()| options.open(path));
        let file = file.map_err(|error| OpenError::io(path, "create", error))?;
        #[cfg(test)]
        note(|| Op::Made { path: path.to_owned(), file: number(&file) });
        Ok(DiskFile { file, path: path.to_owned() })
    }

    /// Opens a file for reading and writing.
    pub(crate) fn open(path: &Path) -> Result<DiskFile> {
        let file = OpenOptions::new().read(true).write(true).open(path);
        let file = file.map_err(|error| OpenError::io(path, "open", error))?;
        Ok(DiskFile { file, path: path.to_owned() })
    }

    /// Opens a file that another process may write to.
    pub(crate) fn read(path: &Path) -> Result<DiskFile> {
        let file = File::open(path).map_err(|error| OpenError::io(path, "open", error))?;
        Ok(DiskFile { file, path: path.to_owned() })
    }

    /// The same of one that may not be there.
    pub(crate) fn read_if_there(path: &Path) -> Result<Option<DiskFile>> {
        match File::open(path) {
            Ok(file) => Ok(Some(DiskFile { file, path: path.to_owned() })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(OpenError::io(path, "open", error)),
        }
    }

    /// Reports whether it is the file at a path.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        let same =
            |one: Metadata, other: Metadata| (one.dev(), one.ino()) == (other.dev(), other.ino());
        self.file
            .metadata()
            .ok()
            .zip(fs::metadata(path).ok())
            .is_some_and(|(one, other)| same(one, other))
    }

    pub(crate) fn len(&self) -> Result<u64> {
        let metadata = self.file.metadata();
        Ok(metadata.map_err(|error| OpenError::io(&self.path, "look at", error))?.len())
    }

    /// Writes all of `bytes` at `at`.
    pub(crate) fn write_at(&self, bytes: &[u8], at: u64) -> Result<()> {
        let written = fault::check().or_else(|error| {
            // What a full disk does: a part arrives.
            self.write_part(&bytes[..bytes.len() / 2], at).and(Err(error))
        });
        let written = written.and_then(|()| self.write_part(bytes, at));
        fault::wrote();
        written.map_err(|error| OpenError::io(&self.path, "write", error))
    }

    fn write_part(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        #[cfg(test)]
        note(|| Op::Wrote { file: number(&self.file), at, bytes: bytes.to_vec() });
        self.file.write_all_at(bytes, at)
    }

    /// Reads a file that was opened just now, as much of it as there is.
    pub(crate) fn read_all(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let read = (&self.file).read_to_end(&mut bytes);
        read.map_err(|error| OpenError::io(&self.path, "read", error))?;
        Ok(bytes)
    }

    /// Fills `buffer` from `at`.
    pub(crate) fn read_at(&self, buffer: &mut [u8], at: u64) -> Result<()> {
        let read = self.file.read_exact_at(buffer, at);
        read.map_err(|error| OpenError::io(&self.path, "read", error))
    }

    /// Waits until the bytes and the length are on disk.
    pub(crate) fn sync(&self) -> Result<()> {
        let synced = fault::check().and_then(|()| fault::real_sync(|| self.file.sync_data()));
        #[cfg(test)]
        note(|| match (number(&self.file), &synced) {
            (file, Ok(())) => Op::Synced { file },
            (file, Err(_)) => Op::SyncFailed { file },
        });
        synced.map_err(|error| OpenError::io(&self.path, "sync", error))
    }

    /// Writes zeros from `at` up to `end`, part by part, each on the disk. What is written there later leaves the file as long as it is, so that
    /// a sync has its bytes alone to wait for, which is half of the time. Without place for zeros the file stays as it is.
    ///
    /// # Errors
    /// A sync failed: what the file had may be lost, too.
    pub(crate) fn make_room(&self, at: u64, end: u64) -> Result<()> {
        let zeros = vec![0; ZEROS_AT_ONCE];
        for from in (at..end).step_by(ZEROS_AT_ONCE) {
            let part = usize::try_from(end - from).unwrap_or(ZEROS_AT_ONCE).min(ZEROS_AT_ONCE);
            if let Err(error) = self.write_at(&zeros[..part], from) {
                tracing::debug!(%error, "no room is made for FIX messages before they come");
                return self.truncate(at);
            }
            self.sync()?;
        }
        Ok(())
    }

    pub(crate) fn truncate(&self, len: u64) -> Result<()> {
        let cut = fault::check_cut().and_then(|()| self.file.set_len(len));
        #[cfg(test)]
        note(|| Op::Cut { file: number(&self.file), length: self.len().unwrap() });
        cut.map_err(|error| OpenError::io(&self.path, "shorten", error))
    }
}

/// Waits until a file is on the disk, by a handle of its own; one that is not there has nothing to lose.
pub(crate) fn sync_if_there(path: &Path) -> Result<()> {
    match DiskFile::read_if_there(path)? {
        Some(file) => file.sync(),
        None => Ok(()),
    }
}

/// Puts `from` in the place of `to`, at once or not at all.
pub(crate) fn rename(from: &Path, to: &Path) -> Result<()> {
    let renamed = fault::check().and_then(|()| fs::rename(from, to));
    renamed.map_err(|error| OpenError::io(to, "replace", error))?;
    #[cfg(test)]
    note(|| Op::Renamed { from: from.to_owned(), to: to.to_owned() });
    Ok(())
}

/// Waits until the names in a folder are on disk.
pub(crate) fn sync_folder(folder: &Path) -> Result<()> {
    let synced = fault::check().and_then(|()| fault::real_sync(|| File::open(folder)?.sync_all()));
    synced.map_err(|error| OpenError::io(folder, "sync", error))?;
    #[cfg(test)]
    note(|| Op::FolderSynced { folder: folder.to_owned() });
    Ok(())
}

/// Removes a file that does not count any more. If that fails it is only in the way.
pub(crate) fn remove(path: &Path) -> bool {
    let removed = fault::check_cut().and_then(|()| fs::remove_file(path));
    if let Err(error) = &removed {
        tracing::warn!(path = %path.display(), %error, "cannot remove a file that is no longer needed");
    }
    #[cfg(test)]
    if removed.is_ok() {
        note(|| Op::Removed { path: path.to_owned() });
    }
    removed.is_ok()
}

/// Takes the lock of a folder; it ends with the file handle, however the process ends.
pub(crate) fn lock(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(FILE_MODE);
    let file = options.open(path).map_err(|error| OpenError::io(path, "open", error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(OpenError::Locked { path: path.to_owned() }),
        Err(fs::TryLockError::Error(error)) => Err(OpenError::io(path, "lock", error)),
    }
}

/// The names in a folder that are text; the store's own names all are.
pub(crate) fn names(folder: &Path) -> Result<Vec<String>> {
    let list = || -> io::Result<Vec<String>> {
        let names = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().into_string().ok()));
        Ok(names.collect::<io::Result<Vec<_>>>()?.into_iter().flatten().collect())
    };
    list().map_err(|error| OpenError::io(folder, "list", error))
}

/// Makes a folder and those above it.
pub(crate) fn make_folder(folder: &Path) -> Result<()> {
    let made = fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder);
    made.map_err(|error| OpenError::io(folder, "make", error))
}

#[cfg(not(test))]
mod fault {
    use std::io;

    #[inline(always)]
    pub(super) fn check() -> io::Result<()> {
        Ok(())
    }

    #[inline(always)]
    pub(super) fn check_cut() -> io::Result<()> {
        Ok(())
    }

    #[inline(always)]
    pub(super) fn wrote() {}

    #[inline(always)]
    pub(super) fn real_sync(sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        sync()
    }
}

/// Faults of this thread's disk, for the tests of this crate.
#[cfg(test)]
pub(crate) mod fault {
    use std::cell::Cell;
    use std::io;

    #[derive(Clone, Copy, Debug, PartialEq)]
    pub(crate) enum Fault {
        None,
        /// After so many more operations the disk is full: nothing can be written, but files can be cut and removed.
        FullAfter(u64),
        /// One operation fails after so many, then all is well again.
        OnceAfter(u64),
        /// After so many nothing works any more.
        DeadAfter(u64),
    }

    thread_local! {
        static FAULT: Cell<Fault> = const { Cell::new(Fault::None) };
        static CALLS: Cell<Calls> = const { Cell::new(Calls { writes: 0, syncs: 0 }) };
    }

    /// What this thread asked the disk for.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub(crate) struct Calls {
        pub(crate) writes: u64,
        pub(crate) syncs: u64,
    }

    /// Counts what something asks the disk for.
    pub(crate) fn calls_of(act: impl FnOnce()) -> Calls {
        let before = CALLS.get();
        act();
        let Calls { writes, syncs } = CALLS.get();
        Calls { writes: writes - before.writes, syncs: syncs - before.syncs }
    }

    pub(super) fn wrote() {
        let calls = CALLS.get();
        CALLS.set(Calls { writes: calls.writes + 1, ..calls });
    }

    pub(crate) fn set(fault: Fault) {
        FAULT.set(fault);
    }

    pub(crate) fn get() -> Fault {
        FAULT.get()
    }

    pub(super) fn check() -> io::Result<()> {
        let next = match FAULT.get() {
            Fault::None => return Ok(()),
            Fault::OnceAfter(0) => {
                FAULT.set(Fault::None);
                return Err(io::Error::from(io::ErrorKind::StorageFull));
            }
            Fault::FullAfter(0) | Fault::DeadAfter(0) => {
                return Err(io::Error::from(io::ErrorKind::StorageFull));
            }
            Fault::FullAfter(left) => Fault::FullAfter(left - 1),
            Fault::OnceAfter(left) => Fault::OnceAfter(left - 1),
            Fault::DeadAfter(left) => Fault::DeadAfter(left - 1),
        };
        FAULT.set(next);
        Ok(())
    }

    /// Cutting and removing: a full disk allows it.
    pub(super) fn check_cut() -> io::Result<()> {
        match FAULT.get() {
            Fault::FullAfter(_) => Ok(()),
            _ => check(),
        }
    }

    /// No power is cut here, and these tests sync many thousand times.
    pub(super) fn real_sync(_: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let calls = CALLS.get();
        CALLS.set(Calls { syncs: calls.syncs + 1, ..calls });
        Ok(())
    }
}
