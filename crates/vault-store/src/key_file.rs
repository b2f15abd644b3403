//! The file of records.

use std::path::{Path, PathBuf};

use vault::{AppendError, KeyRecords, Keys};

use crate::disk::{self, DiskFile};
use crate::layout::{self, Found};
use crate::{OpenError, layout::VERSION};

/// How keys are kept. [`Options::default`] has the defaults.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// There will be at most so many keys.
    pub keys_max: usize,
    /// The file is written anew when it has more bytes than this, and more than twice those of the keys as they are.
    pub rewrite_bytes: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options { keys_max: 100_000, rewrite_bytes: 1 << 20 }
    }
}

/// Records of keys in a file. One process has its folder at a time.
#[derive(Debug)]
pub struct KeyFile {
    file: DiskFile,
    path: PathBuf,
    /// Where the next record goes.
    end: u64,
    /// Beyond this the file may be worth to be written anew.
    rewrite_at: u64,
    rewrite_bytes: u64,
    /// Why nothing is written any more.
    failed: Option<String>,
    cut_bytes: u64,
    /// The next record with what stands before it.
    record: Vec<u8>,
    _lock: disk::Lock,
}

impl KeyFile {
    /// Opens the file of a folder, or makes both, and returns it with the keys that its records make, sealed. What a crash left behind the
    /// last whole record is cut off.
    ///
    /// # Errors
    /// An [`OpenError`]; in particular if another process has the folder, or if the file is damaged.
    pub fn open(folder: &Path, options: Options) -> Result<(KeyFile, Keys), OpenError> {
        disk::make_folder(folder)?;
        let lock = disk::lock(&folder.join("lock"))?;
        let path = folder.join("keys");
        let mut keys = Keys::new(options.keys_max);
        // What was found of a rewrite that did not end.
        let next = next_path(&path);
        if next.exists() {
            disk::remove(&next);
        }
        if !path.exists() {
            let mut file = DiskFile::create(&next)?;
            let head = layout::file(std::iter::empty()).unwrap_or_default();
            file.write_at(&head, 0)?;
            file.sync()?;
            file.rename(&path)?;
        }
        let file = DiskFile::open(&path)?;
        let bytes = file.read()?;
        let end = replay(&path, &bytes, &mut keys)?;
        let cut_bytes = bytes.len() as u64 - end;
        if cut_bytes > 0 {
            tracing::warn!(
                path = %path.display(), at = end, bytes = cut_bytes,
                "the last record of keys was unfinished, as a crash leaves it, and was cut off"
            );
            file.truncate(end)?;
        }
        // A process that was killed may not have come so far.
        file.sync()?;
        disk::sync_folder(folder)?;
        let rewrite_bytes = options.rewrite_bytes;
        let (failed, record, _lock) = (None, Vec::new(), lock);
        let mut opened = KeyFile {
            file,
            path,
            end,
            rewrite_at: rewrite_bytes,
            rewrite_bytes,
            failed,
            cut_bytes,
            record,
            _lock,
        };
        opened.applied(&keys);
        Ok((opened, keys))
    }

    /// Returns how many bytes of an unfinished record were cut off when the file was opened; 0 after a stop.
    #[must_use]
    pub fn cut_bytes(&self) -> u64 {
        self.cut_bytes
    }

    /// Returns how many bytes the file has.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.end
    }

    /// Returns why changes are refused until the folder is opened again, if they are.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.failed.as_deref()
    }

    fn write(&mut self) -> Result<(), OpenError> {
        self.file.write_at(&self.record, self.end)?;
        self.file.sync()
    }

    /// Takes back what a failed write left. The cut changes the last page, so that the next sync writes all of it again.
    fn cut_back(&self) -> Result<(), OpenError> {
        self.file.truncate(self.end)?;
        self.file.sync_cut()
    }

    /// Puts a file with the keys as they are in the place of this one, if that makes it much shorter.
    fn rewrite(&mut self, keys: &Keys) -> Result<(), OpenError> {
        let Some(bytes) = layout::file(keys.snapshot()) else { return Ok(()) };
        let length = bytes.len() as u64;
        self.rewrite_at = self.rewrite_bytes.max(length.saturating_mul(2));
        if self.end <= self.rewrite_at {
            return Ok(());
        }
        let next = next_path(&self.path);
        let mut file = DiskFile::create(&next)?;
        if let Err(error) = file.write_at(&bytes, 0).and_then(|()| file.sync()) {
            disk::remove(&next);
            return Err(error);
        }
        // From here on, until both are done, nobody knows which of the files a crash leaves.
        let folder = self.path.parent().unwrap_or(Path::new("."));
        if let Err(error) = file.rename(&self.path).and_then(|()| disk::sync_folder(folder)) {
            self.failed = Some(error.to_string());
            return Err(error);
        }
        (self.file, self.end) = (file, length);
        Ok(())
    }
}

impl KeyRecords for KeyFile {
    fn append(&mut self, record: &[u8]) -> Result<(), AppendError> {
        if let Some(why) = &self.failed {
            return Err(AppendError(format!(
                "after an earlier failure ({why}) a restart is needed"
            )));
        }
        self.record.clear();
        if layout::append_record(&mut self.record, record).is_none() {
            return Err(AppendError("a record of keys has from 1 byte to 4 GiB".to_owned()));
        }
        if let Err(error) = self.write() {
            if let Err(cut) = self.cut_back() {
                tracing::error!(%cut, "changes of keys are refused until a restart");
                self.failed = Some(cut.to_string());
            }
            return Err(AppendError(error.to_string()));
        }
        self.end += self.record.len() as u64;
        Ok(())
    }

    fn applied(&mut self, keys: &Keys) {
        if self.failed.is_some() || self.end <= self.rewrite_at {
            return;
        }
        if let Err(error) = self.rewrite(keys) {
            let refused = self.failed.is_some();
            tracing::error!(%error, refused, "the file of keys was not written anew");
            self.rewrite_at = self.end + self.rewrite_bytes / 4;
        }
    }
}

fn next_path(path: &Path) -> PathBuf {
    path.with_extension("new")
}

/// Replays the records of a file, and returns where they end.
fn replay(path: &Path, bytes: &[u8], keys: &mut Keys) -> Result<u64, OpenError> {
    let path = || path.to_owned();
    match layout::read(bytes) {
        Found::Foreign => Err(OpenError::Foreign { path: path() }),
        Found::Later(version) => Err(OpenError::Later { path: path(), version, known: VERSION }),
        Found::Damaged(at) => Err(OpenError::Damaged { path: path(), at: at as u64 }),
        Found::Records(records, end) => {
            for (at, record) in records {
                let replayed = keys.replay(record);
                let at = at as u64;
                replayed.map_err(|source| OpenError::Record { path: path(), at, source })?;
            }
            Ok(end as u64)
        }
    }
}
