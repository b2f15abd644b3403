//! The file `numbers`: what the newest steps changed, the last one at its end.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};

use crate::OpenError;
use crate::disk::{self, DiskFile};
use crate::memo::{Change, Memo, Numbers, Place};
use crate::record::{u32_at, u64_at};
use crate::segment;

const MAGIC: &[u8; 8] = b"WEIRFIXN";
const VERSION: u32 = 3;
/// The version whose groups have memos alone; it is still read.
const VERSION_OF_MEMOS: u32 = 2;
const HEAD_BYTES: usize = 64;
const GROUP: &[u8; 4] = b"GRP2";
const GROUP_OF_MEMOS: &[u8; 4] = b"GRP1";
const GROUP_HEAD_BYTES: usize = 12;
/// How much shorter the file before gets with a step.
const GIVEN_BACK_BYTES: u64 = 64 << 10;
/// What stands between a memo and its records.
const RECORDS_HEAD_BYTES: usize = 20;
/// Groups begin at multiples of this, so that those behind a damaged one are found.
const ALIGN: usize = 64;
/// Room for a group that is kept from step to step.
const GROUP_BYTES_KEPT: usize = 64 << 10;
/// When it has grown by so much, the file is written anew, with one memo of each session. Everybody waits for the disk then, some milliseconds:
/// at 20,000 orders a second, there and back, every 1.6 s, so that it is well below one order of a hundred.
pub(crate) const FILE_BYTES_MAX: u64 = 64 << 20;

/// Changes in a file of their own.
///
/// A damaged or unfinished group is left out. Each memo says everything about its session, so the groups behind it count as they are.
#[derive(Debug)]
pub struct NumbersFile {
    path: PathBuf,
    /// `None` after a failed write: nothing is believed of that file, and a new one is written before the next group.
    file: Option<DiskFile>,
    /// The file before, which has no name any more, and its length. To give its memory back takes the system a millisecond for each MiB, so
    /// each step gives some.
    old: Option<(DiskFile, u64)>,
    /// Where the next group goes.
    end: u64,
    /// When `end` is there, the file is written anew.
    rewrite_at: u64,
    /// What the sums of the groups of this file begin with.
    salt_sum: u32,
    newest: BTreeMap<String, Memo>,
    group: Vec<u8>,
    damaged_bytes: u64,
}

/// Records that were kept with their memo, and are perhaps nowhere else.
#[derive(Debug, PartialEq)]
pub(crate) struct Late {
    pub(crate) name: String,
    pub(crate) place: Place,
    pub(crate) records: Vec<u8>,
}

/// Reads the newest memos of a folder without touching it; none where there is no file.
pub(crate) fn look(folder: &Path) -> Result<BTreeMap<String, Memo>, OpenError> {
    look_at(folder, |_| false).map(|found| found.newest)
}

/// Reads the records of a session that may not be in its segments, in their order, without touching the folder.
pub(crate) fn late(folder: &Path, name: &str) -> Result<Vec<Late>, OpenError> {
    look_at(folder, |one| one == name).map(|found| found.late)
}

/// Reads the file of a folder, with the records of some sessions.
fn look_at(folder: &Path, whose: impl Fn(&str) -> bool) -> Result<Found, OpenError> {
    let path = folder.join("numbers");
    if !path.exists() {
        return Ok(Found::default());
    }
    parse(&read(&path)?, whose).ok_or(OpenError::Foreign { path })
}

fn read(path: &Path) -> Result<Vec<u8>, OpenError> {
    let file = DiskFile::read(path)?;
    let mut bytes = vec![0; usize::try_from(file.len()?).unwrap_or(usize::MAX)];
    file.read_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// Writes records to the segments that they belong to, as far as these are still there.
fn write_late(folder: &Path, late: &[Late]) -> Result<(), OpenError> {
    let mut files: BTreeMap<(&str, u64), Option<DiskFile>> = BTreeMap::new();
    for Late { name, place, records } in late {
        let file = match files.entry((name, place.segment)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let path = segment::path(&folder.join(segment::folder_of(name)?), place.segment);
                new.insert(path.exists().then(|| DiskFile::open(&path)).transpose()?)
            }
        };
        if let Some(file) = file {
            file.write_at(records, place.offset)?;
        }
    }
    files.values().flatten().try_for_each(DiskFile::sync)
}

impl NumbersFile {
    /// Opens the file of a folder, or makes it, writes the records that it has to their segments, and writes it anew with the newest memo of
    /// each session.
    ///
    /// # Errors
    /// [`OpenError::Foreign`] if something else wrote it, [`OpenError::Io`] if the system refuses.
    pub fn open(folder: &Path) -> Result<NumbersFile, OpenError> {
        let path = folder.join("numbers");
        let Found { newest, late, damaged_bytes } = look_at(folder, |_| true)?;
        if damaged_bytes > 0 {
            tracing::warn!(
                path = %path.display(), bytes = damaged_bytes,
                "groups of sequence numbers were unfinished or damaged, and were left out"
            );
        }
        write_late(folder, &late)?;
        let mut numbers = NumbersFile {
            path,
            file: None,
            old: None,
            end: 0,
            rewrite_at: 0,
            salt_sum: 0,
            newest,
            group: Vec::new(),
            damaged_bytes,
        };
        numbers.rewrite()?;
        Ok(numbers)
    }

    /// Returns how many bytes of unfinished or damaged groups were left out when the file was opened; 0 after a stop, and at most one group
    /// after a crash.
    #[must_use]
    pub fn damaged_bytes(&self) -> u64 {
        self.damaged_bytes
    }

    /// Writes a new file with one memo of each session, and puts it in the place of the old one.
    fn rewrite(&mut self) -> Result<(), OpenError> {
        let temporary = self.path.with_extension("new");
        let file = DiskFile::create(&temporary)?;
        let (mut bytes, salt_sum) = new_head();
        if !self.newest.is_empty() {
            let records = &[][..];
            let memos = self.newest.iter();
            let changes = memos.map(|(name, memo)| Change {
                name,
                memo: *memo,
                place: Place::default(),
                records,
            });
            append_group(&mut bytes, salt_sum, changes);
        }
        file.write_at(&bytes, 0)?;
        file.sync()?;
        // From here on the old file may have no name any more.
        self.old = self.file.take().map(|old| (old, self.end));
        disk::rename(&temporary, &self.path)?;
        if let Some(folder) = self.path.parent() {
            disk::sync_folder(folder)?;
        }
        self.file = Some(file);
        self.salt_sum = salt_sum;
        self.end = bytes.len() as u64;
        self.rewrite_at = self.end + FILE_BYTES_MAX;
        Ok(())
    }

    /// Gives a part of the file before back.
    fn give_back(&mut self) {
        if let Some((old, length)) = self.old.take() {
            let left = length.saturating_sub(GIVEN_BACK_BYTES);
            // The rest goes with the last handle, at once.
            if left > 0 && old.truncate(left).is_ok() {
                self.old = Some((old, left));
            }
        }
    }

    fn append(&self, sealed: bool) -> Result<(), OpenError> {
        if let Some(file) = &self.file {
            file.write_at(&self.group, self.end)?;
            if sealed {
                file.sync()?;
            }
        }
        Ok(())
    }
}

impl Numbers for NumbersFile {
    fn newest(&self, name: &str) -> Option<Memo> {
        self.newest.get(name).copied()
    }

    fn is_full(&self) -> bool {
        self.file.is_none() || self.end >= self.rewrite_at
    }

    fn begin_anew(&mut self, are_written: Result<(), OpenError>) -> Result<(), OpenError> {
        match are_written.and_then(|()| self.rewrite()) {
            Err(error) if self.file.is_some() => {
                // There is still room for groups.
                tracing::warn!(%error, "the file of sequence numbers was not made shorter");
                self.rewrite_at = self.end + FILE_BYTES_MAX / 4;
                Ok(())
            }
            done => done,
        }
    }

    fn keep(&mut self, changes: &[Change<'_>], sealed: bool) -> Result<(), OpenError> {
        if self.file.is_none() {
            self.rewrite()?;
        }
        self.group.clear();
        append_group(&mut self.group, self.salt_sum, changes.iter().copied());
        if let Err(error) = self.append(sealed) {
            self.file = None;
            return Err(error);
        }
        self.end += self.group.len() as u64;
        self.give_back();
        self.group.shrink_to(GROUP_BYTES_KEPT);
        for Change { name, memo, .. } in changes {
            match self.newest.get_mut(*name) {
                Some(known) => *known = *memo,
                None => drop(self.newest.insert((*name).to_owned(), *memo)),
            }
        }
        Ok(())
    }
}

/// The head of a new file, and what the sums of its groups begin with: a number that nobody knows. So what stands in a message is no group,
/// also where groups are looked for behind a damaged one.
fn new_head() -> (Vec<u8>, u32) {
    let salt = RandomState::new().build_hasher().finish();
    let mut head = Vec::with_capacity(HEAD_BYTES);
    head.extend_from_slice(MAGIC);
    head.extend_from_slice(&VERSION.to_le_bytes());
    head.resize(16, 0);
    head.extend_from_slice(&salt.to_le_bytes());
    let sum = crc32c::crc32c(&head);
    head.extend_from_slice(&sum.to_le_bytes());
    head.resize(HEAD_BYTES, 0);
    (head, crc32c::crc32c(&salt.to_le_bytes()))
}

fn append_group<'c>(out: &mut Vec<u8>, salt_sum: u32, changes: impl Iterator<Item = Change<'c>>) {
    let start = out.len();
    out.extend_from_slice(GROUP);
    out.extend_from_slice(&[0; GROUP_HEAD_BYTES - 4]);
    for Change { name, memo, place, records } in changes {
        memo.append(name, out);
        // A step has less than 2^31 bytes.
        out.extend_from_slice(&u32::try_from(records.len()).unwrap_or(u32::MAX).to_le_bytes());
        out.extend_from_slice(&place.segment.to_le_bytes());
        out.extend_from_slice(&place.offset.to_le_bytes());
        out.extend_from_slice(records);
    }
    let bytes = u32::try_from(out.len() - start - GROUP_HEAD_BYTES).unwrap_or(u32::MAX);
    out[start + 8..start + 12].copy_from_slice(&bytes.to_le_bytes());
    let sum = crc32c::crc32c_append(salt_sum, &out[start + 8..]);
    out[start + 4..start + 8].copy_from_slice(&sum.to_le_bytes());
    out.resize(out.len().next_multiple_of(ALIGN), 0);
}

/// What a file has.
#[derive(Debug, Default, PartialEq)]
struct Found {
    newest: BTreeMap<String, Memo>,
    late: Vec<Late>,
    damaged_bytes: u64,
}

/// Reads a file; `None` if it is none of ours.
fn parse(bytes: &[u8], whose: impl Fn(&str) -> bool) -> Option<Found> {
    let mut found = Found::default();
    if !bytes.starts_with(MAGIC) || bytes.len() < HEAD_BYTES {
        return None;
    }
    let (magic, salt_sum) = match u32_at(bytes, 8) {
        VERSION if u32_at(bytes, 24) == crc32c::crc32c(&bytes[..24]) => {
            (GROUP, crc32c::crc32c(&bytes[16..24]))
        }
        VERSION_OF_MEMOS => (GROUP_OF_MEMOS, 0),
        _ => return None,
    };
    let mut at = HEAD_BYTES;
    while at < bytes.len() {
        match group(&bytes[at..], magic, salt_sum) {
            Some(mut changes) => {
                at += (GROUP_HEAD_BYTES + changes.len()).next_multiple_of(ALIGN);
                while let Some((name, memo)) = Memo::take(&mut changes) {
                    if magic == GROUP {
                        let late = take_records(&name, &mut changes, whose(&name));
                        found.late.extend(late);
                    }
                    found.newest.insert(name, memo);
                }
            }
            None => {
                at += ALIGN;
                found.damaged_bytes += ALIGN as u64;
            }
        }
    }
    Some(found)
}

/// Takes what stands behind a memo from the front of `bytes`; `None` if it has no records, or nobody wants them.
fn take_records(name: &str, bytes: &mut &[u8], is_wanted: bool) -> Option<Late> {
    let (head, rest) = bytes.split_at_checked(RECORDS_HEAD_BYTES)?;
    let (records, rest) = rest.split_at_checked(u32_at(head, 0) as usize)?;
    *bytes = rest;
    let place = Place { segment: u64_at(head, 4), offset: u64_at(head, 12) };
    let late = || Late { name: name.to_owned(), place, records: records.to_vec() };
    (is_wanted && !records.is_empty()).then(late)
}

/// What a group has that is whole.
fn group<'b>(bytes: &'b [u8], magic: &[u8], salt_sum: u32) -> Option<&'b [u8]> {
    if !bytes.starts_with(magic) {
        return None;
    }
    let end = GROUP_HEAD_BYTES.checked_add(u32_at(bytes, 8) as usize)?;
    let summed = bytes.get(8..end)?;
    (crc32c::crc32c_append(salt_sum, summed) == u32_at(bytes, 4)).then(|| &summed[4..])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that the version before wrote.
    #[test]
    fn a_file_of_memos_alone_is_read() {
        let memo = Memo { next_out: 7, next_in: 9, ..Memo::new(5) };
        let mut file = [&MAGIC[..], &VERSION_OF_MEMOS.to_le_bytes()].concat();
        file.resize(HEAD_BYTES, 0);
        let mut memos = Vec::new();
        memo.append("A", &mut memos);
        memo.append("B", &mut memos);
        let bytes = u32::try_from(memos.len()).unwrap().to_le_bytes();
        let summed = [&bytes[..], &memos].concat();
        file.extend_from_slice(GROUP_OF_MEMOS);
        file.extend_from_slice(&crc32c::crc32c(&summed).to_le_bytes());
        file.extend_from_slice(&summed);
        file.resize(file.len().next_multiple_of(ALIGN), 0);
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("numbers"), file).unwrap();
        let numbers = NumbersFile::open(folder.path()).unwrap();
        let newest = ["A", "B"].map(|name| numbers.newest(name));
        assert_eq!((newest, numbers.damaged_bytes()), ([Some(memo); 2], 0));
        assert_eq!(look(folder.path()).unwrap(), numbers.newest);
    }

    /// A message cannot have a group in it: its sum begins with a number that nobody knows.
    #[test]
    fn a_group_of_another_file_is_none() {
        let memo = Memo::new(5);
        let change = Change { name: "A", memo, place: Place::default(), records: b"record" };
        let (mut file, salt_sum) = new_head();
        append_group(&mut file, salt_sum, [change].into_iter());
        let late = vec![Late {
            name: "A".to_owned(),
            place: Place::default(),
            records: b"record".to_vec(),
        }];
        assert_eq!(parse(&file, |_| true).unwrap().late, late);
        let (mut other, _) = new_head();
        other.extend_from_slice(&file[HEAD_BYTES..]);
        assert_eq!(parse(&other, |_| true).unwrap().newest, BTreeMap::new());
    }
}
