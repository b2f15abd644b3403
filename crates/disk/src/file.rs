//! An open file and its name.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::system::op::Op;
use crate::system::operate;

/// Only the user of the process may read files: they hold orders, users and wrapped keys.
pub(crate) const FILE_MODE: u32 = 0o600;
/// Zeros that are written before the disk is waited for.
const ZEROS_AT_ONCE: usize = 1 << 20;

/// An open file and its name.
#[derive(Debug)]
pub struct DiskFile {
    file: File,
    path: PathBuf,
}

impl DiskFile {
    /// Makes a new file, or empties what a failed attempt left.
    pub fn create(path: &Path) -> Result<DiskFile> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(FILE_MODE);
        let file = operate(Op::Create(path), || options.open(path));
        DiskFile::of(path, "create", file)
    }

    /// Opens a file for reading and writing.
    pub fn open(path: &Path) -> Result<DiskFile> {
        DiskFile::of(path, "open", OpenOptions::new().read(true).write(true).open(path))
    }

    /// Opens a file that another process may write to.
    pub fn read(path: &Path) -> Result<DiskFile> {
        DiskFile::of(path, "open", File::open(path))
    }

    /// Opens a file to read it, if it is there.
    pub fn read_if_there(path: &Path) -> Result<Option<DiskFile>> {
        match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => DiskFile::of(path, "open", opened).map(Some),
        }
    }

    /// Waits until a file is on the disk, by a handle of its own; one that is not there has nothing to lose.
    pub fn sync_if_there(path: &Path) -> Result<()> {
        DiskFile::read_if_there(path)?.map_or(Ok(()), |file| file.sync())
    }

    fn of(path: &Path, action: &'static str, file: io::Result<File>) -> Result<DiskFile> {
        let file = file.map_err(|error| Error::io(path, action, error))?;
        Ok(DiskFile { file, path: path.to_owned() })
    }

    /// Notes the name that it got.
    pub(crate) fn named(self, path: &Path) -> DiskFile {
        DiskFile { path: path.to_owned(), ..self }
    }

    /// Returns its name.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reports whether it is the file at a path.
    #[must_use]
    pub fn is_at(&self, path: &Path) -> bool {
        let number = |metadata: Metadata| (metadata.dev(), metadata.ino());
        let own = self.file.metadata().map(number).ok();
        own.is_some() && own == fs::metadata(path).map(number).ok()
    }

    /// Returns how many bytes it has.
    #[expect(clippy::len_without_is_empty, reason = "a length on disk, which can fail")]
    pub fn len(&self) -> Result<u64> {
        Ok(self.file.metadata().map_err(|error| self.error("look at", error))?.len())
    }

    /// Returns all bytes.
    pub fn read_all(&self) -> Result<Vec<u8>> {
        let (mut file, mut bytes) = (&self.file, Vec::new());
        let read = file.seek(SeekFrom::Start(0)).and_then(|_| file.read_to_end(&mut bytes));
        read.map_err(|error| self.error("read", error))?;
        Ok(bytes)
    }

    /// Fills `buffer` from `at`.
    ///
    /// # Errors
    /// In particular [`io::ErrorKind::UnexpectedEof`] where the file ends before.
    pub fn read_at(&self, buffer: &mut [u8], at: u64) -> Result<()> {
        self.file.read_exact_at(buffer, at).map_err(|error| self.error("read", error))
    }

    /// Writes all of `bytes` at `at`.
    ///
    /// # Errors
    /// A part may have been written.
    pub fn write_at(&self, bytes: &[u8], at: u64) -> Result<()> {
        let write = || self.file.write_all_at(bytes, at);
        let written = operate(Op::Write(&self.file, at, bytes), write);
        written.map_err(|error| self.error("write", error))
    }

    /// Waits until the bytes and the length are on the disk.
    ///
    /// # Errors
    /// Nobody knows what is on the disk, whatever the next sync says.
    pub fn sync(&self) -> Result<()> {
        let synced = operate(Op::Sync(&self.file), || self.file.sync_data());
        synced.map_err(|error| self.error("sync", error))
    }

    /// Cuts off what stands behind `len`.
    pub fn truncate(&self, len: u64) -> Result<()> {
        let cut = operate(Op::Cut(&self.file), || self.file.set_len(len));
        cut.map_err(|error| self.error("shorten", error))
    }

    /// Takes back what a failed write left behind `len`, on the disk. The cut changes the last page, so that the next sync writes all of it again.
    pub fn cut_back(&self, len: u64) -> Result<()> {
        self.truncate(len)?;
        let synced = operate(Op::SyncCut(&self.file), || self.file.sync_data());
        synced.map_err(|error| self.error("sync", error))
    }

    /// Writes zeros from `at` up to `end`, part by part, each on the disk. What is written there later leaves the file as long as it is, so that
    /// a sync has its bytes alone to wait for, which is half of the time. Without place for zeros the file stays as it is.
    ///
    /// # Errors
    /// A sync failed: what the file had may be lost, too.
    pub fn make_room(&self, at: u64, end: u64) -> Result<()> {
        let zeros = vec![0; ZEROS_AT_ONCE];
        for from in (at..end).step_by(ZEROS_AT_ONCE) {
            let part = usize::try_from(end - from).unwrap_or(ZEROS_AT_ONCE).min(ZEROS_AT_ONCE);
            if let Err(error) = self.write_at(&zeros[..part], from) {
                tracing::debug!(%error, "no room is made in a file before its bytes come");
                return self.truncate(at);
            }
            self.sync()?;
        }
        Ok(())
    }

    fn error(&self, action: &'static str, error: io::Error) -> Error {
        Error::io(&self.path, action, error)
    }
}
