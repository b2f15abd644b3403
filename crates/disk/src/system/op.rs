//! What a disk is asked for.

use std::fs::File;
use std::path::Path;

/// An operation that changes a disk.
#[cfg_attr(
    not(any(test, feature = "planted")),
    expect(dead_code, reason = "only tests look at what is asked for")
)]
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op<'a> {
    Create(&'a Path),
    Write(&'a File, u64, &'a [u8]),
    Cut(&'a File),
    Sync(&'a File),
    /// Of a cut, for which a full disk has room.
    SyncCut(&'a File),
    Rename(&'a Path, &'a Path),
    Remove(&'a Path),
    SyncFolder(&'a Path),
}
