//! What the journal needs of a folder of files. The node gives it a real one, the simulator one that tears, loses,
//! reorders and fails.
//!
//! Nothing is durable before it is sealed: bytes by [`File::sync`], names by [`Folder::sync`]. Between the two, a
//! crash may keep any subset of the sectors of what was written, in any order, and any subset of the names that
//! were made, changed and removed.

use std::io;

use crate::disk::Durability;

/// The unit that a disk writes whole or not at all, bytes.
pub const SECTOR_BYTES: usize = 512;
/// Offsets and lengths of writes are multiples of this many bytes, so that they can go around the page cache.
pub const BLOCK_BYTES: usize = 4096;

/// A folder of files.
pub trait Folder {
    /// One of its files.
    type File: File;

    /// Names of the files in it, in any order.
    ///
    /// # Errors
    /// What the system says.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Makes a file and opens it for writing.
    ///
    /// # Errors
    /// What the system says; a file of that name is an error.
    fn create(&self, name: &str) -> io::Result<Self::File>;

    /// Opens a file for writing (a segment that was prepared) or, where it is only read, for that.
    ///
    /// # Errors
    /// What the system says.
    fn open(&self, name: &str, access: Access) -> io::Result<Self::File>;

    /// Renames a file; one of the new name is replaced.
    ///
    /// # Errors
    /// What the system says.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// What the system says.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes what was created, renamed and removed so far durable.
    ///
    /// # Errors
    /// What the system says.
    fn sync(&self) -> io::Result<()>;

    /// What a crash leaves of what was synced.
    fn durability(&self) -> Durability {
        Durability::Sealed
    }
}

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading only, through the page cache.
    Read,
    /// Writing sealed groups, and reading.
    Write,
}

/// A file.
#[allow(
    clippy::len_without_is_empty,
    reason = "nobody asks whether a file of the journal is empty"
)]
pub trait File {
    /// Its length, bytes.
    ///
    /// # Errors
    /// What the system says.
    fn len(&self) -> io::Result<u64>;

    /// Reads exactly as many bytes as the buffer takes.
    ///
    /// # Errors
    /// What the system says; an end of the file before that is [`io::ErrorKind::UnexpectedEof`].
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()>;

    /// Writes all bytes. Offset and length are multiples of [`BLOCK_BYTES`], and so is the address of the bytes.
    ///
    /// # Errors
    /// What the system says. After an error nobody knows what of it is on disk, now or later.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes what was written durable.
    ///
    /// # Errors
    /// What the system says. After an error nothing written since the last success may be believed, whatever a
    /// later call says.
    fn sync(&self) -> io::Result<()>;

    /// Cuts the file, or makes it longer by zeros.
    ///
    /// # Errors
    /// What the system says.
    fn set_len(&self, bytes: u64) -> io::Result<()>;
}
