//! Which budgets file is in force, as a log on other machines has it: by the digest of its bytes. The file itself does not travel.

use std::path::{Path, PathBuf};

use disk::{DiskFile, replace};
use ledger::room::RoomChange;

/// SHA-256 of a file's bytes.
pub type Digest = [u8; 32];

const FILE: &str = "budgets-in-force";

/// What the log said last, in a file of the data folder: the number of the message, and the digest.
#[derive(Debug)]
pub struct FileInForce {
    path: PathBuf,
    said: Option<(u64, Digest)>,
}

impl FileInForce {
    /// Reads it. What cannot be read is as not there: the log says it again.
    #[must_use]
    pub fn open(data: &Path) -> FileInForce {
        let path = data.join(FILE);
        let bytes = DiskFile::read_if_there(&path).ok().flatten();
        let said = bytes.and_then(|file| file.read_all().ok()).and_then(|bytes| read(&bytes));
        FileInForce { path, said }
    }

    /// The digest; `None`: no file has come into force in this log.
    #[must_use]
    pub fn digest(&self) -> Option<Digest> {
        self.said.map(|(_, digest)| digest)
    }

    /// The number of the message that said so; 0: none did.
    pub(crate) fn number(&self) -> u64 {
        self.said.map_or(0, |(number, _)| number)
    }

    /// Notes what a message said.
    ///
    /// # Errors
    /// The disk; a start reads it from the journal.
    pub fn set(&mut self, number: u64, digest: Digest) -> Result<(), disk::Error> {
        self.said = Some((number, digest));
        let text = format!("{number} {:032x}{:032x}\n", half(&digest, 0), half(&digest, 16));
        replace(&self.path.with_extension("new"), &self.path, text.as_bytes())?;
        Ok(())
    }
}

/// What is carried once a file is in force.
#[must_use]
pub fn message(digest: &Digest) -> Vec<u8> {
    RoomChange::Whole(digest).message()
}

/// The digest in a message; `None`: one that this version does not know.
pub(crate) fn digest_of(message: &[u8]) -> Option<Digest> {
    match RoomChange::of(message)? {
        RoomChange::Whole(digest) => digest.try_into().ok(),
        RoomChange::Append(_) => None,
    }
}

fn half(digest: &Digest, from: usize) -> u128 {
    u128::from_be_bytes(digest[from..from + 16].try_into().expect("16 bytes"))
}

fn read(bytes: &[u8]) -> Option<(u64, Digest)> {
    let (number, digits) = std::str::from_utf8(bytes).ok()?.strip_suffix('\n')?.split_once(' ')?;
    let (high, low) = digits.split_at_checked(32)?;
    let mut digest = Digest::default();
    for (half, digits) in digest.chunks_exact_mut(16).zip([high, low]) {
        half.copy_from_slice(&u128::from_str_radix(digits, 16).ok()?.to_be_bytes());
    }
    Some((number.parse().ok()?, digest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_force_is_read_again_and_anything_else_is_as_none() {
        let folder = tempfile::tempdir().unwrap();
        let digest: Digest = std::array::from_fn(|at| u8::try_from(at * 7).unwrap());
        assert_eq!(digest_of(&message(&digest)), Some(digest));
        let mut file = FileInForce::open(folder.path());
        assert_eq!((file.number(), file.digest()), (0, None));
        file.set(3, digest).unwrap();
        let again = FileInForce::open(folder.path());
        assert_eq!((again.number(), again.digest()), (3, Some(digest)));
        let path = folder.path().join(FILE);
        let text = std::fs::read_to_string(&path).unwrap();
        for strange in ["", "3\n", "3 00\n", &text[2..], text.trim_end(), &format!("-{text}")] {
            std::fs::write(&path, strange).unwrap();
            assert_eq!(FileInForce::open(folder.path()).digest(), None, "{strange:?}");
        }
        assert_eq!(digest_of(&RoomChange::Whole(b"short").message()), None);
        assert_eq!(digest_of(&RoomChange::Append(&digest).message()), None);
    }
}
