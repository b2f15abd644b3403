//! When a file is to be read that others write: at the second look that finds it unchanged.

use std::path::Path;
use std::time::{Duration, Instant as Monotonic, SystemTime};

use sha2::{Digest as _, Sha256};
use weir_budgets::budgets;
use weir_node::in_force::Digest;

/// Steps of time stamps are shorter on every file system: 2 s on FAT, 1 s on old ones, milliseconds elsewhere.
const STAMP_STEP: Duration = Duration::from_millis(2_100);
/// A file that so many looks miss is gone, and told so; one that is being replaced may be missing for a moment.
pub(crate) const GONE_LOOKS: u32 = 2;

/// What tells that a file changed: when its bytes did, and its inode, in seconds and nanoseconds; its size and its inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    modified: (i64, i64),
    changed: (i64, i64),
    len: u64,
    inode: u64,
}

/// What was seen of the file. It is to be read at the second look that finds the same stamp.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    /// What was judged last.
    judged: Option<Stamp>,
    /// What the last look saw, where it is newer.
    seen: Option<Stamp>,
    /// Looks since the file began to change.
    pub(crate) restless: u32,
}

impl Looks {
    /// Is the file to be read now? One that is gone for a moment is being replaced; one that stays away ends nothing.
    pub(crate) fn is_still(&mut self, now: Option<Stamp>) -> bool {
        let Some(stamp) = now.filter(|stamp| self.judged != Some(*stamp)) else {
            (self.seen, self.restless) = (None, 0);
            return false;
        };
        self.restless += 1;
        self.seen.replace(stamp) == Some(stamp)
    }

    /// Reports whether the last look found nothing new.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.restless == 0
    }

    /// What was read is what had this stamp.
    pub(crate) fn judged(&mut self, stamp: Stamp) {
        *self = Looks { judged: Some(stamp), ..Looks::default() };
    }

    /// Is what was judged what has this stamp?
    pub(crate) fn is_judged(&self, now: Option<Stamp>) -> bool {
        self.judged == now
    }

    /// The file is to be read again, changed or not.
    pub(crate) fn forget(&mut self) {
        *self = Looks::default();
    }
}

/// Bytes that were read, to be compared with the file once more: a change within one step of the time stamps leaves no other
/// trace.
#[derive(Debug)]
pub(crate) struct FileCheck {
    digest: Digest,
    read_at: Monotonic,
}

impl FileCheck {
    pub(crate) fn of(bytes: &[u8]) -> FileCheck {
        FileCheck { digest: digest(bytes), read_at: Monotonic::now() }
    }

    pub(crate) fn digest(&self) -> Digest {
        self.digest
    }

    /// Reads a file a second time, once no change can have the time stamp of the first; reports whether its bytes are others.
    pub(crate) fn differs(proof: &mut Option<FileCheck>, path: &Path) -> bool {
        let due = proof.take_if(|proof| proof.read_at.elapsed() > STAMP_STEP);
        let bytes = due.as_ref().and_then(|_| budgets::bytes(path).ok());
        bytes.zip(due).is_some_and(|(bytes, proof)| digest(&bytes) != proof.digest)
    }
}

pub(crate) fn digest(bytes: &[u8]) -> Digest {
    Sha256::digest(bytes).into()
}

pub(crate) fn stamp(path: &Path) -> Option<Stamp> {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::metadata(path).ok()?;
    Some(Stamp {
        modified: (metadata.mtime(), metadata.mtime_nsec()),
        changed: (metadata.ctime(), metadata.ctime_nsec()),
        len: metadata.len(),
        inode: metadata.ino(),
    })
}

/// Did the file stand still for so long that one look is enough?
pub(crate) fn is_old(stamp: &Stamp) -> bool {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let (seconds, _) = stamp.modified.max(stamp.changed);
    let since =
        Duration::from_secs(u64::try_from(seconds).unwrap_or(u64::MAX)).saturating_add(STAMP_STEP);
    now > since.saturating_add(Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: i64) -> Option<Stamp> {
        Some(Stamp { modified: (1, ns), changed: (1, ns), len: 7, inode: 3 })
    }

    #[test]
    fn a_file_is_read_at_the_second_look_that_finds_it_unchanged() {
        let mut looks = Looks::default();
        // While it is written every look finds another stamp.
        assert!((0..100).all(|ns| !looks.is_still(at(ns))));
        assert_eq!(looks.restless, 100);
        assert!(looks.is_still(at(99)) && looks.is_still(at(99)), "until it is judged");
        looks.judged(at(99).unwrap());
        assert!(!looks.is_still(at(99)) && !looks.is_still(at(99)));
        // Gone and back: the same file.
        assert!(!looks.is_still(None) && !looks.is_still(at(99)));
        // Gone between two looks at a newer one: it begins anew.
        assert!(!looks.is_still(at(5)) && !looks.is_still(None) && !looks.is_still(at(5)));
        assert!(looks.is_still(at(5)));
        looks.forget();
        assert!(!looks.is_still(at(5)) && looks.is_still(at(5)));
    }

    #[test]
    fn any_part_of_a_stamp_makes_another_file() {
        let stamp = at(0).unwrap();
        let others = [
            Stamp { modified: (1, 1), ..stamp },
            Stamp { changed: (1, 1), ..stamp },
            Stamp { len: 8, ..stamp },
            Stamp { inode: 4, ..stamp },
        ];
        for other in others {
            let mut looks = Looks::default();
            looks.judged(stamp);
            assert!(!looks.is_still(Some(other)) && looks.is_still(Some(other)), "{other:?}");
        }
    }
}
