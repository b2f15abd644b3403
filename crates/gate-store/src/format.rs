//! Bytes shared by segments and runs. All numbers are little-endian, and CRC is CRC-32C.
//!
//! Files are `000000000012.seg` (segment 12), `000000000013.run` (run 13; both share one count), `MANIFEST`, `MANIFEST.tmp` and
//! `LOCK`. Segments and runs begin with a header of 64 bytes:
//!
//! ```text
//!  0          8         12        16        20         24         32          40        60
//!  +----------+---------+---------+---------+----------+----------+-----------+---------+---------+
//!  | magic    | version | layout  | record  | 0        | number   | window    | 0       | CRC of  |
//!  | 8 bytes  | u32 = 1 | u32     | bytes   |          | u64      | start, ms |         | 0..60   |
//!  |          |         |         | u32     |          |          | u64       |         | u32     |
//!  +----------+---------+---------+---------+----------+----------+-----------+---------+---------+
//! ```
//!
//! The magic is `WEIRSEG\0` or `WEIRRUN\0`, the layout [`Record::LAYOUT`].

use std::io::ErrorKind;
use std::path::Path;

use disk::DiskFile;

use crate::{Record, StoreError};

/// The widest record.
pub const RECORD_BYTES_MAX: usize = 1_024;

/// Version of all files of the store.
pub(crate) const VERSION: u32 = 1;
/// Bytes of the header of a segment or run.
pub(crate) const HEADER_BYTES: usize = 64;
/// First bytes of a segment.
pub(crate) const SEGMENT_MAGIC: [u8; 8] = *b"WEIRSEG\0";
/// First bytes of a run.
pub(crate) const RUN_MAGIC: [u8; 8] = *b"WEIRRUN\0";

/// What the header of a segment or run says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Its number, as in its name.
    pub(crate) number: u64,
    /// Start of its window, milliseconds since the Unix epoch.
    pub(crate) window_ms: u64,
}

impl Header {
    pub(crate) fn encode<R: Record>(&self, magic: [u8; 8]) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&magic);
        put_u32(&mut bytes, 8, VERSION);
        put_u32(&mut bytes, 12, R::LAYOUT);
        put_u32(&mut bytes, 16, record_bytes::<R>());
        put_u64(&mut bytes, 24, self.number);
        put_u64(&mut bytes, 32, self.window_ms);
        let crc = crc32c::crc32c(&bytes[..60]);
        put_u32(&mut bytes, 60, crc);
        bytes
    }

    /// Checks that `bytes` is this header.
    pub(crate) fn check<R: Record>(
        &self,
        magic: [u8; 8],
        bytes: &[u8; HEADER_BYTES],
        path: &Path,
    ) -> Result<(), StoreError> {
        if bytes[..8] != magic {
            return Err(StoreError::damaged(path, 0, "it does not begin with the store's mark"));
        }
        if get_u32(bytes, 60) != crc32c::crc32c(&bytes[..60]) {
            return Err(StoreError::damaged(path, 60, "the checksum of the header does not fit"));
        }
        same(path, "format version", get_u32(bytes, 8), VERSION)?;
        same(path, "record layout", get_u32(bytes, 12), R::LAYOUT)?;
        same(path, "record width", get_u32(bytes, 16), record_bytes::<R>())?;
        let found = Header { number: get_u64(bytes, 24), window_ms: get_u64(bytes, 32) };
        if found != *self {
            let what = format!("it calls itself {found:?}, the manifest calls it {self:?}");
            return Err(StoreError::damaged(path, 24, what));
        }
        Ok(())
    }
}

/// Fills `buffer` from a file, which is damaged where it ends before.
pub(crate) fn read_at(file: &DiskFile, buffer: &mut [u8], at: u64) -> Result<(), StoreError> {
    file.read_at(buffer, at).map_err(|error| match error {
        disk::Error::Io { source, .. } if source.kind() == ErrorKind::UnexpectedEof => {
            StoreError::damaged(file.path(), at, "the file ends early")
        }
        error => error.into(),
    })
}

/// Refuses a file that something else wrote.
pub(crate) fn same(
    path: &Path,
    what: &'static str,
    found: u32,
    expected: u32,
) -> Result<(), StoreError> {
    if found == expected {
        return Ok(());
    }
    let (found, expected) = (found.into(), expected.into());
    Err(StoreError::Foreign { path: path.to_owned(), what, found, expected })
}

/// The width of a record as the files say it. Compiling fails for a width out of range.
pub(crate) fn record_bytes<R: Record>() -> u32 {
    const { assert!(R::BYTES >= 1 && R::BYTES <= RECORD_BYTES_MAX, "Record::BYTES is out of range") };
    u32::try_from(R::BYTES).unwrap_or(u32::MAX)
}

pub(crate) fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn get_u32(bytes: &[u8], at: usize) -> u32 {
    let mut value = [0; 4];
    value.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(value)
}

pub(crate) fn get_u64(bytes: &[u8], at: usize) -> u64 {
    let mut value = [0; 8];
    value.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(value)
}

/// A length as a number of the files.
pub(crate) fn wide(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

/// A number of the files as a length; what does not fit in memory is longer than anything there is.
pub(crate) fn narrow(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}
