//! Room that is set aside for when the disk is full: with it what only ends orders is still kept.

use std::path::{Path, PathBuf};

use disk::DiskFile;

use crate::OpenError;

/// The file.
pub(crate) const RESERVE: &str = "reserve";
const CHUNK_BYTES: usize = 64 << 10;

/// A file of zeros, which is removed when the disk is full.
#[derive(Debug)]
pub(crate) struct Reserve {
    path: PathBuf,
    bytes: u64,
    is_there: bool,
}

impl Reserve {
    /// Sets so many bytes aside, if there is room.
    pub(crate) fn new(root: &Path, bytes: u64) -> Reserve {
        let mut reserve = Reserve { path: root.join(RESERVE), bytes, is_there: false };
        reserve.is_there = bytes > 0 && reserve.make(bytes);
        reserve
    }

    /// Reports whether it is used up, or was never there.
    pub(crate) fn is_short(&self) -> bool {
        self.bytes > 0 && !self.is_there
    }

    /// Gives the room back, if a write failed for want of it. Reports whether that may help.
    pub(crate) fn give_back(&mut self, error: &OpenError) -> bool {
        let is_of_use = self.is_there && error.is_full();
        if is_of_use {
            self.is_there = false;
            tracing::error!(
                %error,
                "FIX: the disk is full: new orders and replaces are refused from now on; the room that was set aside is for cancels and reports"
            );
            disk::remove(&self.path);
        }
        is_of_use
    }

    /// Sets the room aside again, where there is twice as much: what was given back may still be free.
    pub(crate) fn look(&mut self) {
        if self.is_short() && self.make(2 * self.bytes) {
            self.is_there = true;
            tracing::info!("FIX: the disk has room again: orders pass");
        }
    }

    fn make(&self, needed: u64) -> bool {
        let zeros = [0; CHUNK_BYTES];
        let made = DiskFile::create(&self.path).and_then(|file| {
            (0..needed).step_by(CHUNK_BYTES).try_for_each(|at| file.write_at(&zeros, at))?;
            file.truncate(self.bytes)
        });
        if made.is_err() {
            disk::remove(&self.path);
        }
        made.is_ok()
    }
}
