//! Files, with errors that name them. Everything that is written goes through here, so that tests can make any operation fail.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::OpenError;

type Result<T> = std::result::Result<T, OpenError>;

/// Only the user of the process may read them, though the keys in them are wrapped.
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

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
        Ok(DiskFile { file, path: path.to_owned() })
    }

    /// Opens a file for reading and writing.
    pub(crate) fn open(path: &Path) -> Result<DiskFile> {
        let file = OpenOptions::new().read(true).write(true).open(path);
        let file = file.map_err(|error| OpenError::io(path, "open", error))?;
        Ok(DiskFile { file, path: path.to_owned() })
    }

    /// Returns all bytes.
    pub(crate) fn read(&self) -> Result<Vec<u8>> {
        let read = || -> io::Result<Vec<u8>> {
            let length = usize::try_from(self.file.metadata()?.len()).unwrap_or(usize::MAX);
            let mut bytes = vec![0; length];
            self.file.read_exact_at(&mut bytes, 0)?;
            Ok(bytes)
        };
        read().map_err(|error| OpenError::io(&self.path, "read", error))
    }

    /// Writes all of `bytes` at `at`.
    pub(crate) fn write_at(&self, bytes: &[u8], at: u64) -> Result<()> {
        let written = fault::check().or_else(|error| {
            // What a full disk does: a part arrives.
            self.file.write_all_at(&bytes[..bytes.len() / 2], at).and(Err(error))
        });
        let written = written.and_then(|()| self.file.write_all_at(bytes, at));
        written.map_err(|error| OpenError::io(&self.path, "write", error))
    }

    /// Waits until the bytes and the length are on disk.
    pub(crate) fn sync(&self) -> Result<()> {
        let synced = fault::check().and_then(|()| fault::real_sync(|| self.file.sync_data()));
        synced.map_err(|error| OpenError::io(&self.path, "sync", error))
    }

    /// Waits until a cut is on disk, for which a full disk has room.
    pub(crate) fn sync_cut(&self) -> Result<()> {
        let synced = fault::check_cut().and_then(|()| fault::real_sync(|| self.file.sync_data()));
        synced.map_err(|error| OpenError::io(&self.path, "sync", error))
    }

    /// Cuts off what stands behind `len`.
    pub(crate) fn truncate(&self, len: u64) -> Result<()> {
        let cut = fault::check_cut().and_then(|()| self.file.set_len(len));
        cut.map_err(|error| OpenError::io(&self.path, "shorten", error))
    }

    /// Puts the file in the place of `to`, at once or not at all.
    pub(crate) fn rename(&mut self, to: &Path) -> Result<()> {
        let renamed = fault::check().and_then(|()| fs::rename(&self.path, to));
        renamed.map_err(|error| OpenError::io(to, "replace", error))?;
        self.path = to.to_owned();
        Ok(())
    }
}

/// Waits until the names in a folder are on disk.
pub(crate) fn sync_folder(folder: &Path) -> Result<()> {
    let synced = fault::check().and_then(|()| fault::real_sync(|| File::open(folder)?.sync_all()));
    synced.map_err(|error| OpenError::io(folder, "sync", error))
}

/// Removes a file that does not count. If that fails it is only in the way.
pub(crate) fn remove(path: &Path) {
    let removed = fault::check_cut().and_then(|()| fs::remove_file(path));
    if let Err(error) = removed {
        tracing::warn!(path = %path.display(), %error, "cannot remove a file that is not needed");
    }
}

/// The lock of a folder; it ends with the process, however that ends.
#[derive(Debug)]
pub(crate) struct Lock(File);

impl Drop for Lock {
    /// A program that another thread begins just now has the handle, too, until it is begun: the lock does not wait for that.
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

/// Takes the lock of a folder.
pub(crate) fn lock(path: &Path) -> Result<Lock> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(FILE_MODE);
    let file = options.open(path).map_err(|error| OpenError::io(path, "open", error))?;
    match file.try_lock() {
        Ok(()) => Ok(Lock(file)),
        Err(fs::TryLockError::WouldBlock) => Err(OpenError::Locked { path: path.to_owned() }),
        Err(fs::TryLockError::Error(error)) => Err(OpenError::io(path, "lock", error)),
    }
}

/// Makes a folder and those above it, if it is not there.
pub(crate) fn make_folder(folder: &Path) -> Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let made = fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder);
    made.map_err(|error| OpenError::io(folder, "make", error))?;
    // A path of one name has the current folder above it.
    let above = folder.parent().filter(|above| !above.as_os_str().is_empty());
    sync_folder(above.unwrap_or(Path::new(".")))
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
        Ok(())
    }
}
