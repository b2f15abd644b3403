//! Folders of stores: who has one, and the names in it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use crate::error::{Error, Result};
use crate::file::{DiskFile, FILE_MODE};
use crate::system::op::Op;
use crate::system::operate;

const FOLDER_MODE: u32 = 0o700;

/// The lock of a folder; it ends with the process, however that ends.
#[derive(Debug)]
pub struct Lock(File);

impl Drop for Lock {
    /// A program that another thread begins just now has the handle, too, until it is begun: the lock does not wait for that.
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

/// Takes the lock of a folder, a file in it.
///
/// # Errors
/// [`Error::Locked`] if another process has it.
pub fn lock(path: &Path) -> Result<Lock> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(FILE_MODE);
    let file = options.open(path).map_err(|error| Error::io(path, "open", error))?;
    match file.try_lock() {
        Ok(()) => Ok(Lock(file)),
        Err(fs::TryLockError::WouldBlock) => Err(Error::Locked { path: path.to_owned() }),
        Err(fs::TryLockError::Error(error)) => Err(Error::io(path, "lock", error)),
    }
}

/// Makes a folder and those above it, if it is not there.
pub fn make_folder(folder: &Path) -> Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let made = fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder);
    made.map_err(|error| Error::io(folder, "make", error))?;
    sync_folder(above(folder))
}

/// The folder that a path is in: a path of one name is in the current one.
fn above(path: &Path) -> &Path {
    path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Returns the names in a folder that are text; those of a store all are.
pub fn names(folder: &Path) -> Result<Vec<String>> {
    let list = || -> io::Result<Vec<String>> {
        let names = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().into_string().ok()));
        Ok(names.collect::<io::Result<Vec<_>>>()?.into_iter().flatten().collect())
    };
    list().map_err(|error| Error::io(folder, "list", error))
}

/// Waits until the names in a folder are on the disk.
pub fn sync_folder(folder: &Path) -> Result<()> {
    let synced = operate(Op::SyncFolder(folder), || File::open(folder)?.sync_all());
    synced.map_err(|error| Error::io(folder, "sync", error))
}

/// Removes a file that does not count any more, and reports whether it is gone. If not, it is only in the way.
pub fn remove(path: &Path) -> bool {
    let removed = operate(Op::Remove(path), || fs::remove_file(path));
    if let Err(error) = &removed {
        tracing::warn!(path = %path.display(), %error, "cannot remove a file that is no longer needed");
    }
    removed.is_ok()
}

/// Puts `from` in the place of `to`, at once or not at all.
pub fn rename(from: &Path, to: &Path) -> Result<()> {
    let renamed = operate(Op::Rename(from, to), || fs::rename(from, to));
    renamed.map_err(|error| Error::io(to, "replace", error))
}

/// A step of [`replace`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// The new file is written and synced; the old one is untouched.
    Write,
    /// It gets the name of the old one.
    Rename,
    /// The name gets to the disk: until then a loss of power may leave either file.
    SyncFolder,
}

/// A file was not replaced.
#[derive(Debug)]
pub struct NotReplaced {
    /// The step that failed.
    pub step: Step,
    /// Why.
    pub error: Error,
}

impl From<NotReplaced> for Error {
    fn from(failed: NotReplaced) -> Error {
        failed.error
    }
}

/// Puts a file with these bytes in the place of `path`, or makes it: as the file `new` first, which is synced, then renamed; then the folder
/// is synced. Returns the file, open.
///
/// # Errors
/// [`NotReplaced`].
pub fn replace(
    new: &Path,
    path: &Path,
    bytes: &[u8],
) -> std::result::Result<DiskFile, NotReplaced> {
    let failed = |step| move |error| NotReplaced { step, error };
    let write = || {
        let file = DiskFile::create(new)?;
        file.write_at(bytes, 0)?;
        file.sync()?;
        Ok(file)
    };
    let file = write().map_err(|error| {
        if new.exists() {
            remove(new);
        }
        failed(Step::Write)(error)
    })?;
    rename(new, path).map_err(failed(Step::Rename))?;
    sync_folder(above(path)).map_err(failed(Step::SyncFolder))?;
    Ok(file.named(path))
}
