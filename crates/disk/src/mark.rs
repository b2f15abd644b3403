//! A number in a file of its own: how far something has come. It is on the disk when [`Mark::set`] returns, or the one before is.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::file::DiskFile;
use crate::folder::replace;

/// A number in a file.
#[derive(Debug)]
pub struct Mark {
    path: PathBuf,
    number: u64,
}

impl Mark {
    /// Reads it; 0 where there is no file.
    ///
    /// # Errors
    /// An [`Error`]; in particular where something else is in the file.
    pub fn open(path: &Path) -> Result<Mark> {
        let path = path.to_owned();
        let Some(file) = DiskFile::read_if_there(&path)? else {
            return Ok(Mark { path, number: 0 });
        };
        let bytes = file.read_all()?;
        let number = || std::str::from_utf8(&bytes).ok()?.strip_suffix('\n')?.parse().ok();
        match number() {
            Some(number) => Ok(Mark { path, number }),
            None => Err(Error::Damaged { path, at: 0 }),
        }
    }

    /// The number.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.number
    }

    /// Replaces it.
    ///
    /// # Errors
    /// An [`Error`]; it may be either of the two then.
    pub fn set(&mut self, number: u64) -> Result<()> {
        let bytes = format!("{number}\n");
        replace(&self.path.with_extension("new"), &self.path, bytes.as_bytes())?;
        self.number = number;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_read_again_and_anything_else_is_damage() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mark");
        let mut mark = Mark::open(&path).unwrap();
        assert_eq!(mark.get(), 0);
        for number in [7, u64::MAX] {
            mark.set(number).unwrap();
            assert_eq!((mark.get(), Mark::open(&path).unwrap().get()), (number, number));
        }
        for strange in ["", "7", "x\n", "-1\n", "7\n\n", "18446744073709551616\n"] {
            std::fs::write(&path, strange).unwrap();
            assert!(matches!(Mark::open(&path), Err(Error::Damaged { .. })), "{strange:?}");
        }
    }
}
