//! A log: one file of records, each with its sum, appended one by one, replayed when it is opened, and written anew when it has grown.
//!
//! ```text
//!   head    0 its mark, 8 bytes  8 version u32  12 CRC-32C of 0..12 u32  16        the same in every version
//!   record  0 its bytes u32  4 CRC-32C of those four bytes and of the record u32  8 the record
//! ```
//! All integers are little-endian. What changes together is one record: it is there whole or not at all.
//!
//! - An appended record is synced before the call returns. Kill -9 and power cuts leave every acknowledged record, and at most the one behind it.
//! - A record that is unfinished or has another sum, with no whole record anywhere behind it, is what a crash left: it is cut off, and the log of
//!   the program says so. With one behind it the file is damaged: it is refused with the offset, and nothing is changed.
//! - A failed write or sync is cut off, and work goes on. If that fails too, or if nobody knows which of two files a crash would leave, every
//!   further record is refused until the file is opened again.
//! - Everything that is found is synced before it is believed.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::file::DiskFile;
use crate::folder::{Lock, Step, lock, make_folder, remove, replace, sync_folder};

const HEAD_BYTES: usize = 16;
const RECORD_HEAD_BYTES: usize = 8;

/// The kind of a log.
#[derive(Clone, Copy, Debug)]
pub struct LogKind {
    /// The name of its file; while that is written anew, the next one has the ending `new`.
    pub name: &'static str,
    /// The first bytes of the file.
    pub mark: &'static [u8; 8],
    /// The version that is written and read.
    pub version: u32,
    /// The first byte of every record. A stretch of bytes that begins otherwise is not summed when whole records are looked for behind a bad one.
    pub first_byte: u8,
    /// The word for what it holds, in errors: "keys".
    pub content: &'static str,
}

/// Records in a file. One process has its folder at a time.
#[derive(Debug)]
pub struct LogFile {
    kind: LogKind,
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
    _lock: Lock,
}

impl LogFile {
    /// Opens the log of a folder, or makes both, and hands each record to `replay`, with the file and where in it the record begins. What a crash
    /// left behind the last whole record is cut off. The file is written anew once it has more than `rewrite_bytes` ([`LogFile::shorten`]).
    ///
    /// # Errors
    /// An [`Error`]; in particular if another process has the folder, or if the file is damaged. And what `replay` says.
    pub fn open<E: From<Error>>(
        folder: &Path,
        kind: LogKind,
        rewrite_bytes: u64,
        mut replay: impl FnMut(&Path, u64, &[u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<LogFile, E> {
        make_folder(folder)?;
        let held = lock(&folder.join("lock"))?;
        let path = folder.join(kind.name);
        // What was found of a rewrite that did not end.
        let next = next_path(&path);
        if next.exists() {
            remove(&next);
        }
        if !path.exists() {
            replace(&next, &path, &kind.file(std::iter::empty())?).map_err(Error::from)?;
        }
        let file = DiskFile::open(&path)?;
        let bytes = file.read_all()?;
        let (records, end) = kind.read(&path, &bytes)?;
        for (at, record) in records {
            replay(&path, at as u64, record)?;
        }
        let cut_bytes = (bytes.len() - end) as u64;
        let end = end as u64;
        if cut_bytes > 0 {
            tracing::warn!(
                path = %path.display(), at = end, bytes = cut_bytes,
                "the last record of {} was unfinished, as a crash leaves it, and was cut off", kind.content
            );
            file.truncate(end)?;
        }
        // A process that was killed may not have come so far.
        file.sync()?;
        sync_folder(folder)?;
        let (rewrite_at, failed, record, _lock) = (rewrite_bytes, None, Vec::new(), held);
        Ok(LogFile {
            kind,
            file,
            path,
            end,
            rewrite_at,
            rewrite_bytes,
            failed,
            cut_bytes,
            record,
            _lock,
        })
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

    /// Returns why records are refused until the file is opened again, if they are.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.failed.as_deref()
    }

    /// Appends a record. It is on the disk when this returns.
    ///
    /// # Errors
    /// An [`Error`]; the record is not there, unless [`LogFile::failure`] tells that nobody knows.
    pub fn append(&mut self, record: &[u8]) -> Result<()> {
        if let Some(why) = &self.failed {
            return Err(Error::Stopped { why: why.clone() });
        }
        self.record.clear();
        self.kind.append(&mut self.record, record)?;
        let written = self.file.write_at(&self.record, self.end).and_then(|()| self.file.sync());
        match written {
            Ok(()) => self.end += self.record.len() as u64,
            Err(_) => {
                if let Err(cut) = self.file.cut_back(self.end) {
                    tracing::error!(%cut, "changes of {} are refused until a restart", self.kind.content);
                    self.failed = Some(cut.to_string());
                }
            }
        }
        written
    }

    /// Is this the last record?
    ///
    /// # Errors
    /// An [`Error`].
    pub fn ends_with(&self, record: &[u8]) -> Result<bool> {
        let mut framed = Vec::new();
        self.kind.append(&mut framed, record)?;
        let Some(at) = self.end.checked_sub(framed.len() as u64) else { return Ok(false) };
        let mut found = vec![0; framed.len()];
        self.file.read_at(&mut found, at)?;
        Ok(found == framed)
    }

    /// Puts a file with the records of `snapshot` in the place of this one, if it has grown and that makes it much shorter. A failure is logged, and
    /// it is tried again later.
    pub fn shorten<I: Iterator<Item = Vec<u8>>>(&mut self, snapshot: impl FnOnce() -> I) {
        if self.failed.is_some() || self.end <= self.rewrite_at {
            return;
        }
        if let Err(error) = self.rewrite(snapshot()) {
            let refused = self.failed.is_some();
            tracing::error!(%error, refused, "the file of {} was not written anew", self.kind.content);
            self.rewrite_at = self.end + self.rewrite_bytes / 4;
        }
    }

    fn rewrite(&mut self, snapshot: impl Iterator<Item = Vec<u8>>) -> Result<()> {
        let bytes = self.kind.file(snapshot)?;
        let length = bytes.len() as u64;
        self.rewrite_at = self.rewrite_bytes.max(length.saturating_mul(2));
        if self.end <= self.rewrite_at {
            return Ok(());
        }
        match replace(&next_path(&self.path), &self.path, &bytes) {
            Ok(file) => (self.file, self.end) = (file, length),
            Err(failed) => {
                if failed.step > Step::Write {
                    // Nobody knows which of the files a crash leaves.
                    self.failed = Some(failed.error.to_string());
                }
                return Err(failed.error);
            }
        }
        Ok(())
    }
}

fn next_path(path: &Path) -> PathBuf {
    path.with_extension("new")
}

/// Records and where each begins, and where they end. What follows is what a crash left.
type Found<'b> = (Vec<(usize, &'b [u8])>, usize);

impl LogKind {
    /// Returns the bytes of a file with these records.
    fn file(&self, records: impl Iterator<Item = Vec<u8>>) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(4096);
        bytes.extend_from_slice(self.mark);
        bytes.extend_from_slice(&self.version.to_le_bytes());
        let sum = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        for record in records {
            self.append(&mut bytes, &record)?;
        }
        Ok(bytes)
    }

    fn append(&self, to: &mut Vec<u8>, record: &[u8]) -> Result<()> {
        let length = u32::try_from(record.len()).ok().filter(|length| *length > 0);
        let length = length.ok_or(Error::RecordBytes { content: self.content })?.to_le_bytes();
        to.extend_from_slice(&length);
        to.extend_from_slice(&sum(length, record).to_le_bytes());
        to.extend_from_slice(record);
        Ok(())
    }

    fn read<'b>(&self, path: &Path, bytes: &'b [u8]) -> Result<Found<'b>> {
        let (path, content) = (path.to_owned(), self.content);
        if !bytes.starts_with(self.mark) {
            return Err(Error::Foreign { path, content });
        }
        let summed = bytes.get(..12).map(crc32c::crc32c);
        if summed.is_none() || u32_at(bytes, 12) != summed {
            return Err(Error::Damaged { path, at: 0 });
        }
        let version = u32_at(bytes, 8).unwrap_or_default();
        if version != self.version {
            return Err(Error::Later { path, content, version, known: self.version });
        }
        let (mut records, mut at) = (Vec::new(), HEAD_BYTES);
        while let Some(record) = record_at(bytes, at) {
            records.push((at, record));
            at += RECORD_HEAD_BYTES + record.len();
        }
        let is_inside = (at + 1..bytes.len()).any(|later| {
            bytes.get(later + RECORD_HEAD_BYTES) == Some(&self.first_byte)
                && record_at(bytes, later).is_some()
        });
        if is_inside { Err(Error::Damaged { path, at: at as u64 }) } else { Ok((records, at)) }
    }
}

/// The sum covers the length, so that zeros are no record.
fn sum(length: [u8; 4], record: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&length), record)
}

/// The record at a place, if a whole one is there.
fn record_at(bytes: &[u8], at: usize) -> Option<&[u8]> {
    let length = u32_at(bytes, at).filter(|length| *length > 0)?;
    let from = at + RECORD_HEAD_BYTES;
    let record = bytes.get(from..from.checked_add(usize::try_from(length).ok()?)?)?;
    (u32_at(bytes, at + 4) == Some(sum(length.to_le_bytes(), record))).then_some(record)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|found| u32::from_le_bytes(*found))
}

#[cfg(test)]
mod tests;
