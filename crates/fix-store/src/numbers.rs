//! The file `numbers`: groups of memos, the newest last.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::OpenError;
use crate::disk::{self, DiskFile};
use crate::memo::{Memo, Numbers};
use crate::record::u32_at;

const MAGIC: &[u8; 8] = b"WEIRFIXN";
const VERSION: u32 = 2;
const HEAD_BYTES: usize = 64;
const GROUP: &[u8; 4] = b"GRP1";
const GROUP_HEAD_BYTES: usize = 12;
/// Groups begin at multiples of this, so that those behind a damaged one are found.
const ALIGN: usize = 64;
/// When it has grown by so much, the file is written anew, with one memo of each session.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Memos in a file of their own.
///
/// A damaged or unfinished group is left out. Each memo says everything about its session, so the groups behind it count as they are.
#[derive(Debug)]
pub struct NumbersFile {
    path: PathBuf,
    /// `None` after a failed write: nothing is believed of that file, and the next group writes a new one.
    file: Option<DiskFile>,
    /// Where the next group goes.
    end: u64,
    /// When `end` is there, the file is written anew.
    rewrite_at: u64,
    newest: BTreeMap<String, Memo>,
    group: Vec<u8>,
    damaged_bytes: u64,
}

/// Reads the newest memos of a folder without touching it; none where there is no file.
pub(crate) fn look(folder: &Path) -> Result<BTreeMap<String, Memo>, OpenError> {
    let path = folder.join("numbers");
    if !path.exists() {
        return Ok(BTreeMap::new());
    }
    parse(&read(&path)?).map(|found| found.newest).ok_or(OpenError::Foreign { path })
}

fn read(path: &Path) -> Result<Vec<u8>, OpenError> {
    let file = DiskFile::read(path)?;
    let mut bytes = vec![0; usize::try_from(file.len()?).unwrap_or(usize::MAX)];
    file.read_at(&mut bytes, 0)?;
    Ok(bytes)
}

impl NumbersFile {
    /// Opens the file of a folder, or makes it, and writes it anew with the newest memo of each session.
    ///
    /// # Errors
    /// [`OpenError::Foreign`] if something else wrote it, [`OpenError::Io`] if the system refuses.
    pub fn open(folder: &Path) -> Result<NumbersFile, OpenError> {
        let path = folder.join("numbers");
        let mut found = Found::default();
        if path.exists() {
            let bytes = read(&path)?;
            found = parse(&bytes).ok_or(OpenError::Foreign { path: path.clone() })?;
        }
        if found.damaged_bytes > 0 {
            tracing::warn!(
                path = %path.display(), bytes = found.damaged_bytes,
                "groups of sequence numbers were unfinished or damaged, and were left out"
            );
        }
        let (Found { newest, damaged_bytes }, group) = (found, Vec::new());
        let mut numbers =
            NumbersFile { path, file: None, end: 0, rewrite_at: 0, newest, group, damaged_bytes };
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
        let mut bytes = Vec::with_capacity(HEAD_BYTES);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.resize(HEAD_BYTES, 0);
        if !self.newest.is_empty() {
            append_group(&mut bytes, self.newest.iter().map(|(name, memo)| (name.as_str(), memo)));
        }
        file.write_at(&bytes, 0)?;
        file.sync()?;
        // From here on the old file may have no name any more.
        self.file = None;
        disk::rename(&temporary, &self.path)?;
        if let Some(folder) = self.path.parent() {
            disk::sync_folder(folder)?;
        }
        self.file = Some(file);
        self.end = bytes.len() as u64;
        self.rewrite_at = self.end + FILE_BYTES_MAX;
        Ok(())
    }

    fn append(&mut self, sealed: bool) -> Result<(), OpenError> {
        let Some(file) = &self.file else { return self.rewrite() };
        file.write_at(&self.group, self.end)?;
        if sealed {
            file.sync()?;
        }
        self.end += self.group.len() as u64;
        if self.end >= self.rewrite_at
            && let Err(error) = self.rewrite()
        {
            // The group is kept all the same.
            tracing::warn!(%error, "the file of sequence numbers was not made shorter");
            self.rewrite_at = self.end + FILE_BYTES_MAX / 4;
        }
        Ok(())
    }
}

impl Numbers for NumbersFile {
    fn newest(&self, name: &str) -> Option<Memo> {
        self.newest.get(name).copied()
    }

    fn keep(&mut self, memos: &[(&str, Memo)], sealed: bool) -> Result<(), OpenError> {
        self.group.clear();
        append_group(&mut self.group, memos.iter().map(|(name, memo)| (*name, memo)));
        let before: Vec<Option<Memo>> = memos
            .iter()
            .map(|(name, memo)| match self.newest.get_mut(*name) {
                Some(known) => Some(std::mem::replace(known, *memo)),
                None => self.newest.insert((*name).to_owned(), *memo),
            })
            .collect();
        let kept = self.append(sealed);
        if kept.is_err() {
            self.file = None;
            for ((name, _), before) in memos.iter().zip(before) {
                match before {
                    Some(before) => self.newest.insert((*name).to_owned(), before),
                    None => self.newest.remove(*name),
                };
            }
        }
        kept
    }
}

fn append_group<'m>(out: &mut Vec<u8>, memos: impl Iterator<Item = (&'m str, &'m Memo)>) {
    let start = out.len();
    out.extend_from_slice(GROUP);
    out.extend_from_slice(&[0; GROUP_HEAD_BYTES - 4]);
    for (name, memo) in memos {
        memo.append(name, out);
    }
    let bytes = u32::try_from(out.len() - start - GROUP_HEAD_BYTES).unwrap_or(u32::MAX);
    out[start + 8..start + 12].copy_from_slice(&bytes.to_le_bytes());
    let sum = crc32c::crc32c(&out[start + 8..]);
    out[start + 4..start + 8].copy_from_slice(&sum.to_le_bytes());
    out.resize(out.len().next_multiple_of(ALIGN), 0);
}

/// What a file has.
#[derive(Debug, Default, PartialEq)]
struct Found {
    newest: BTreeMap<String, Memo>,
    damaged_bytes: u64,
}

/// Reads a file; `None` if it is none of ours.
fn parse(bytes: &[u8]) -> Option<Found> {
    let mut found = Found::default();
    if !bytes.starts_with(MAGIC) || u32_at(bytes, 8) != VERSION || bytes.len() < HEAD_BYTES {
        return None;
    }
    let mut at = HEAD_BYTES;
    while at < bytes.len() {
        match group(&bytes[at..]) {
            Some(mut memos) => {
                at += (GROUP_HEAD_BYTES + memos.len()).next_multiple_of(ALIGN);
                while let Some((name, memo)) = Memo::take(&mut memos) {
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

/// The memos of a group that is whole.
fn group(bytes: &[u8]) -> Option<&[u8]> {
    if !bytes.starts_with(GROUP) {
        return None;
    }
    let end = GROUP_HEAD_BYTES.checked_add(u32_at(bytes, 8) as usize)?;
    let summed = bytes.get(8..end)?;
    (crc32c::crc32c(summed) == u32_at(bytes, 4)).then(|| &summed[4..])
}
