//! Which budgets file is in force, as a log on other machines has it: by the digest of its bytes. The file itself lies beside the log, and every node
//! keeps a copy of it in its data folder.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use disk::{DiskFile, replace};
use ledger::room::RoomChange;
use ledger_cluster::{AnyEngine, ClusterError, ClusterLog};
use weir_config::config::Config;

/// SHA-256 of a file's bytes.
pub type Digest = [u8; 32];

const FILE: &str = "budgets-in-force";
/// The copy of the file itself.
const COPY: &str = "budgets-in-force.jsonl";
/// What cannot be had beside the log is asked for again after this time.
const AGAIN: Duration = Duration::from_secs(30);

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

/// Where a node has its copy of the file that is in force, as far as it knows.
#[must_use]
pub fn copy_of(data: &Path) -> PathBuf {
    data.join(COPY)
}

/// The name of a file beside the log.
pub(crate) fn name(digest: &Digest) -> String {
    format!("file.{:032x}{:032x}", half(digest, 0), half(digest, 16))
}

/// Puts a file that is in force beside the log, over a connection of its own.
///
/// # Errors
/// Why it is not there.
pub fn put(config: &Config, digest: &Digest, bytes: &[u8]) -> Result<(), String> {
    let log = crate::cluster::open(config).map_err(|error| error.to_string())?;
    let mut log = log.ok_or("cluster.log is empty")?;
    put_in(&mut log, digest, bytes, &config.node.data_dir).map_err(|error| error.to_string())
}

/// Puts it there, where all but the one that was in force until now is removed.
pub(crate) fn put_in(
    log: &mut ClusterLog<AnyEngine>,
    digest: &Digest,
    mut bytes: &[u8],
    data: &Path,
) -> Result<(), ClusterError> {
    let before = FileInForce::open(data).digest();
    let kept = before.into_iter().chain([*digest]).map(|digest| name(&digest));
    let kept: Vec<String> = kept.collect();
    log.keep_only("file", &|name| kept.iter().any(|kept| kept == name))?;
    log.keep(&name(digest), &serde_json::Value::Null, &mut bytes)
}

/// Has the copy follow what is in force.
#[derive(Debug, Default)]
pub(crate) struct Copy {
    of: Option<Digest>,
    /// What could not be had, and when it is asked for again.
    again: Option<(Digest, Instant)>,
}

impl Copy {
    /// Fetches the file, where it is another one than the last; it is tried again later where that fails.
    pub(crate) fn follow(
        &mut self,
        log: &mut ClusterLog<AnyEngine>,
        said: Option<Digest>,
        data: &Path,
    ) {
        let Some(digest) = said.filter(|said| self.of != Some(*said)) else { return };
        let missed = self.again.filter(|(missed, _)| *missed == digest);
        if missed.is_some_and(|(_, again)| Instant::now() < again) {
            return;
        }
        let mut bytes = Vec::new();
        let found = log.kept(&name(&digest), &mut |piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        });
        let copy = copy_of(data);
        let why = match found {
            Ok(Some(_)) => {
                let replaced = replace(&copy.with_extension("jsonl.new"), &copy, &bytes);
                match replaced.map_err(disk::Error::from) {
                    Ok(_) => {
                        *self = Copy { of: Some(digest), again: None };
                        return;
                    }
                    Err(error) => error.to_string(),
                }
            }
            Ok(None) => {
                "it is not there: the bank could not put it there, or is of an older version".into()
            }
            Err(error) => error.to_string(),
        };
        self.again = Some((digest, Instant::now() + AGAIN));
        if missed.is_none() {
            tracing::warn!(
                why,
                "the budgets file that is in force cannot be had beside the log; it is tried again, and until then a takeover puts this node's own in force"
            );
        }
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
