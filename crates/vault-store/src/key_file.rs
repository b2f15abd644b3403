//! The file of records.

use std::path::Path;

use disk::{LogFile, LogKind};
use vault::{AppendError, KeyRecords, Keys};

use crate::OpenError;

/// What every record of the vault begins with is its format.
pub(crate) const KIND: LogKind =
    LogKind { name: "keys", mark: b"WEIRKEYS", version: 1, first_byte: 1, content: "keys" };

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
pub struct KeyFile(LogFile);

impl KeyFile {
    /// Opens the file of a folder, or makes both, and returns it with the keys that its records make, sealed. What a crash left behind the
    /// last whole record is cut off.
    ///
    /// # Errors
    /// An [`OpenError`]; in particular if another process has the folder, or if the file is damaged.
    pub fn open(folder: &Path, options: Options) -> Result<(KeyFile, Keys), OpenError> {
        let mut keys = Keys::new(options.keys_max);
        let log = LogFile::open(folder, KIND, options.rewrite_bytes, |path, at, record| {
            let replayed = keys.replay(record);
            replayed.map_err(|source| OpenError::Record { path: path.to_owned(), at, source })
        })?;
        let mut file = KeyFile(log);
        file.applied(&keys);
        Ok((file, keys))
    }

    /// Returns how many bytes of an unfinished record were cut off when the file was opened; 0 after a stop.
    #[must_use]
    pub fn cut_bytes(&self) -> u64 {
        self.0.cut_bytes()
    }

    /// Returns how many bytes the file has.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.0.file_bytes()
    }

    /// Returns why changes are refused until the folder is opened again, if they are.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.0.failure()
    }
}

impl KeyFile {
    /// Is this the last record?
    pub(crate) fn ends_with(&self, record: &[u8]) -> Result<bool, OpenError> {
        Ok(self.0.ends_with(record)?)
    }

    /// Appends a record that another file has.
    pub(crate) fn append_raw(&mut self, record: &[u8]) -> Result<(), OpenError> {
        Ok(self.0.append(record)?)
    }
}

impl KeyRecords for KeyFile {
    fn append(&mut self, record: &[u8]) -> Result<(), AppendError> {
        self.0.append(record).map_err(|error| AppendError(error.to_string()))
    }

    fn applied(&mut self, keys: &Keys) {
        self.0.shorten(|| keys.snapshot());
    }
}
