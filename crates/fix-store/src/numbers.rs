//! The file `numbers`, and `numbers.next` that goes on behind it for a while: what the newest steps changed, the last one at the end.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};

use disk::DiskFile;

use crate::OpenError;
use crate::handover::{Gone, Handover, Helper, Phase};
use crate::memo::{Change, Memo, Numbers, Place};
use crate::record::{u32_at, u64_at};
use crate::reserve::RESERVE;
use crate::segment;

const MAGIC: &[u8; 8] = b"WEIRFIXN";
const VERSION: u32 = 3;
/// The version whose groups have memos alone; it is still read.
const VERSION_OF_MEMOS: u32 = 2;
const HEAD_BYTES: usize = 64;
const GROUP: &[u8; 4] = b"GRP2";
const GROUP_OF_MEMOS: &[u8; 4] = b"GRP1";
const GROUP_HEAD_BYTES: usize = 12;
/// What stands between a memo and its records.
const RECORDS_HEAD_BYTES: usize = 20;
/// Groups begin at multiples of this, so that those behind a damaged one are found.
const ALIGN: usize = 64;
/// Room for a group that is kept from step to step.
const GROUP_BYTES_KEPT: usize = 64 << 10;
/// When it has grown by so much, the next file is used, which begins with one memo of each session, and has room for as much.
pub(crate) const FILE_BYTES_MAX: u64 = 8 << 20;
/// If none is ready when it has grown by so much, one is written at once, and everybody waits for the disk.
#[cfg(not(test))]
const REWRITE_BYTES: u64 = 128 << 20;
/// Room for groups in the file that a start makes and waits for; then the next one is used, which has room for all.
const FIRST_ROOM_BYTES: u64 = 256 << 10;

/// How much room is made between two looks at the reserve.
const ROOM_AT_ONCE: u64 = 512 << 10;

/// Changes in a file of their own.
///
/// A damaged or unfinished group is left out. Each memo says everything about its session, so the groups behind it count as they are.
#[derive(Debug)]
pub struct NumbersFile {
    folder: PathBuf,
    /// `None` after a failed write: nothing is believed of that file, and a new one is written before the next group.
    file: Option<DiskFile>,
    /// Where the next group goes.
    end: u64,
    /// When `end` is there, the helper does what is left to do, also what it failed to do.
    work_at: u64,
    /// When `end` is there, the next file is used if it is ready.
    switch_at: u64,
    /// When `end` is there, a file is written at once.
    rewrite_at: u64,
    bytes_max: u64,
    /// What the sums of the groups of this file begin with.
    salt_sum: u32,
    newest: BTreeMap<String, Memo>,
    /// What each new file begins with behind the memos.
    unplaced: Unplaced,
    group: Vec<u8>,
    damaged_bytes: u64,
    /// A sync of segments failed: they may have lost records that are in the files of numbers.
    is_segment_in_doubt: bool,
    /// `None` while the helper has it.
    handover: Option<Handover>,
    /// `None` if there is no thread for it.
    helper: Option<Helper>,
}

/// A file that has no groups yet.
#[derive(Debug)]
pub(crate) struct NextFile {
    file: DiskFile,
    salt_sum: u32,
}

impl NextFile {
    /// Makes it with room for its groups, all but its name on the disk.
    pub(crate) fn make(path: &Path) -> Result<NextFile, OpenError> {
        let file = DiskFile::create(path)?;
        let (head, salt_sum) = new_head();
        file.write_at(&head, 0)?;
        // Not of what little a full disk has.
        let has_reserve = || cfg!(test) || path.with_file_name(RESERVE).exists();
        let (from, to, mut end) = (HEAD_BYTES as u64, room_bytes(), HEAD_BYTES as u64);
        while end < to && has_reserve() {
            let next = to.min(end + ROOM_AT_ONCE);
            file.make_room(end, next)?;
            if file.len()? < next {
                break;
            }
            end = next;
        }
        if end < to {
            file.truncate(from)?;
        }
        file.sync()?;
        Ok(NextFile { file, salt_sum })
    }
}

/// Records that were kept with their memo, and are perhaps nowhere else.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Late {
    pub(crate) name: String,
    pub(crate) place: Place,
    pub(crate) records: Vec<u8>,
}

/// Records that are nowhere else, because the segment that they belong to cannot be found: by the names of their sessions, and where they belong.
type Unplaced = BTreeMap<(String, Place), Vec<u8>>;

/// Where records belong.
enum Home {
    /// This file.
    There(DiskFile),
    /// The segment was removed, as it was too old: its session has a later one.
    Removed,
    /// It may come back, for instance with its folder.
    Missing,
}

impl Home {
    fn find(folder: &Path, name: &str, segment: u64) -> Result<Home, OpenError> {
        let folder = folder.join(segment::folder_of(name)?);
        let path = segment::path(&folder, segment);
        if path.exists() {
            return Ok(Home::There(DiskFile::open(&path)?));
        }
        // What cannot be looked at may be there.
        let others = segment::numbers(&folder).unwrap_or_default();
        let is_removed = !others.contains(&segment) && others.iter().any(|one| *one > segment);
        Ok(if is_removed { Home::Removed } else { Home::Missing })
    }
}

/// The file; the older one where there are two.
pub(crate) fn path(folder: &Path) -> PathBuf {
    folder.join("numbers")
}

/// The newer file. Nobody has used it yet if it has no more than a head.
pub(crate) fn next_path(folder: &Path) -> PathBuf {
    folder.join("numbers.next")
}

/// Reads the newest memos of a folder without touching it; none where there is no file.
pub(crate) fn look(folder: &Path) -> Result<BTreeMap<String, Memo>, OpenError> {
    look_at(folder, |_| false).map(|found| found.newest)
}

/// Reads the records of a session that may not be in its segments, in their order, without touching the folder.
pub(crate) fn late(folder: &Path, name: &str) -> Result<Vec<Late>, OpenError> {
    look_at(folder, |one| one == name).map(|found| found.late)
}

/// Reads the files of a folder, with the records of some sessions. Where the process that writes gives the newer one the name of the older one
/// meanwhile, it is read twice, and says the same.
fn look_at(folder: &Path, whose: impl Fn(&str) -> bool) -> Result<Found, OpenError> {
    let [path, next_path] = [path(folder), next_path(folder)];
    let next = DiskFile::read_if_there(&next_path)?;
    let mut found = Found::default();
    if let Some(file) = DiskFile::read_if_there(&path)? {
        parse(&file.read_all()?, &whose, &mut found).ok_or(OpenError::Foreign { path })?;
    }
    let next = next.as_ref().map(DiskFile::read_all).transpose()?.unwrap_or_default();
    if content_end(&next) > HEAD_BYTES {
        found.is_next_used = true;
        parse(&next, &whose, &mut found).ok_or(OpenError::Foreign { path: next_path })?;
    }
    Ok(found)
}

/// Where the bytes of a file end and the zeros begin, of which there is room for groups.
pub(crate) fn content_end(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

/// Writes the records of the older file to their segments, once more.
///
/// # Errors
/// In particular if one cannot be written there that the newer file does not have.
pub(crate) fn write_records_again(folder: &Path) -> Result<(), OpenError> {
    let late_in = |path: PathBuf| -> Result<Vec<Late>, OpenError> {
        let mut found = Found::default();
        let bytes = DiskFile::read(&path)?.read_all()?;
        parse(&bytes, |_| true, &mut found).ok_or(OpenError::Foreign { path })?;
        Ok(found.late)
    };
    let mut unplaced = write_late(folder, late_in(path(folder))?)?;
    if !unplaced.is_empty() {
        for Late { name, place, records } in late_in(next_path(folder))? {
            unplaced.retain(|(whose, at), old| (whose, *at, &*old) != (&name, place, &records));
        }
    }
    let Some((name, place)) = unplaced.into_keys().next() else { return Ok(()) };
    let path = segment::path(&folder.join(segment::folder_of(&name)?), place.segment);
    Err(disk::Error::io(&path, "find", std::io::ErrorKind::NotFound.into()).into())
}

/// Writes records to the segments that they belong to. Returns those whose segments are missing; what belongs to segments that were removed is
/// forgotten.
fn write_late(folder: &Path, late: Vec<Late>) -> Result<Unplaced, OpenError> {
    let mut homes: BTreeMap<(String, u64), Home> = BTreeMap::new();
    let mut unplaced = Unplaced::new();
    for Late { name, place, records } in late {
        let home = match homes.entry((name.clone(), place.segment)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(Home::find(folder, &name, place.segment)?),
        };
        match home {
            Home::There(file) => file.write_at(&records, place.offset)?,
            Home::Removed => {}
            Home::Missing => {
                unplaced.insert((name, place), records);
            }
        }
    }
    homes.values().try_for_each(|home| match home {
        Home::There(file) => file.sync(),
        Home::Removed | Home::Missing => Ok(()),
    })?;
    Ok(unplaced)
}

impl NumbersFile {
    /// Opens the file of a folder, or makes it, writes the records that it has to their segments, and writes it anew with the newest memo of
    /// each session, and with those records whose segments are missing. Where a crash left two files, there is one again.
    ///
    /// # Errors
    /// [`OpenError::Foreign`] if something else wrote it, [`OpenError::Disk`] if the system refuses.
    pub fn open(folder: &Path) -> Result<NumbersFile, OpenError> {
        let Found { newest, late, damaged_bytes, is_next_used } = look_at(folder, |_| true)?;
        if damaged_bytes > 0 {
            tracing::warn!(
                path = %path(folder).display(), bytes = damaged_bytes,
                "groups of sequence numbers were unfinished or damaged, and were left out"
            );
        }
        let unplaced = write_late(folder, late)?;
        for name in names_of(&unplaced) {
            tracing::warn!(
                session = name, folder = %folder.display(),
                "messages of this session stand among the sequence numbers alone, because the segment that they belong to is missing; they stay there until it is back"
            );
        }
        let mut handover =
            Handover::new(folder, if is_next_used { Phase::File } else { Phase::Make });
        let room_bytes = room_bytes().min(FIRST_ROOM_BYTES);
        let known = (&newest, &unplaced);
        let written = write_anew(folder, known, room_bytes, (&mut handover, &mut None))?;
        let growth = if room_bytes == 0 { bytes_max() } else { room_bytes };
        handover.settle()?;
        let mut numbers = NumbersFile {
            folder: folder.to_owned(),
            file: None,
            end: 0,
            work_at: 0,
            switch_at: 0,
            rewrite_at: 0,
            bytes_max: bytes_max(),
            salt_sum: 0,
            newest,
            unplaced,
            group: Vec::new(),
            damaged_bytes,
            is_segment_in_doubt: false,
            handover: Some(handover),
            helper: helper(),
        };
        numbers.go_on_in(written, growth);
        Ok(numbers)
    }

    /// Returns how many bytes of unfinished or damaged groups were left out when the file was opened; 0 after a stop, and at most one group
    /// after a crash.
    #[must_use]
    pub fn damaged_bytes(&self) -> u64 {
        self.damaged_bytes
    }

    /// Writes a new file with what is known of each session, and puts it in the place of the newest one.
    fn rewrite(&mut self) -> Result<(), OpenError> {
        self.take_back(Helper::wait);
        if let Some(handover) = &mut self.handover {
            let open = (handover, &mut self.file);
            // Everybody waits: there is no time to make room.
            let written = write_anew(&self.folder, (&self.newest, &self.unplaced), 0, open)?;
            self.go_on_in(written, self.bytes_max);
        }
        Ok(())
    }

    /// Waits until all records are on the disk in their segments. After a failure they are written again: what a second sync says is nothing
    /// about what the first one lost.
    fn sync_records(&mut self, segments: &[PathBuf]) -> Result<(), OpenError> {
        if self.is_segment_in_doubt {
            // What is unplaced is in the files, too.
            self.unplaced = write_late(&self.folder, look_at(&self.folder, |_| true)?.late)?;
        }
        let synced = segments.iter().try_for_each(|path| DiskFile::sync_if_there(path));
        self.is_segment_in_doubt = synced.is_err();
        if let (Err(_), Some(handover)) = (&synced, &mut self.handover) {
            handover.doubt_segments();
        }
        Ok(synced?)
    }

    /// Goes on in the next file, without waiting for the disk. If that does not take the memos, it is replaced before the next group.
    fn switch(&mut self, segments: Vec<PathBuf>) {
        let (Some(handover), Some(file)) = (&mut self.handover, self.file.take()) else { return };
        let segments = (!self.is_segment_in_doubt).then_some(segments);
        let Some(NextFile { file, salt_sum }) = handover.begin(segments, file) else {
            return;
        };
        self.is_segment_in_doubt = false;
        let mut known = Vec::new();
        append_known(&mut known, salt_sum, (&self.newest, &self.unplaced));
        match file.write_at(&known, HEAD_BYTES as u64) {
            Ok(()) => {
                let end = (HEAD_BYTES + known.len()) as u64;
                self.go_on_in((file, salt_sum, end), self.bytes_max);
            }
            Err(error) => {
                tracing::warn!(%error, "the next file of sequence numbers is written anew")
            }
        }
        self.work_at = self.end;
        self.work();
    }

    /// The next group goes to this file, until it has grown by so much.
    fn go_on_in(&mut self, (file, salt_sum, end): (DiskFile, u32, u64), growth: u64) {
        self.file = Some(file);
        self.salt_sum = salt_sum;
        self.end = end;
        self.work_at = end + growth / 4 * 3;
        self.switch_at = end + growth;
        self.rewrite_at = end + rewrite_bytes();
    }

    /// Where the next group goes.
    #[cfg(test)]
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Has the helper do what is left, if it is time and there is something.
    pub(crate) fn work(&mut self) {
        self.take_back(Helper::poll);
        if self.end < self.work_at || self.file.is_none() {
            return;
        }
        let is_work = |handover: &mut Handover| !handover.is_ready();
        if let Some(helper) = &mut self.helper
            && let Some(handover) = self.handover.take_if(is_work)
        {
            self.work_at = self.end + self.bytes_max / 4;
            self.handover = helper.give(handover).err();
        }
    }

    /// Takes what the helper has done.
    fn take_back(&mut self, how: impl Fn(&mut Helper) -> Result<Option<Handover>, Gone>) {
        let (None, Some(helper)) = (&self.handover, &mut self.helper) else { return };
        self.handover = how(helper).unwrap_or_else(|Gone| {
            tracing::error!("the thread for the files of sequence numbers is gone: who writes them waits for the disk now and then");
            self.helper = None;
            Some(Handover::unknown(&self.folder))
        });
        let Some(handover) = &self.handover else { return };
        self.is_segment_in_doubt |= handover.are_segments_in_doubt();
        if handover.is_in_doubt() {
            self.file = None;
        } else if handover.is_to_go_on() {
            self.work_at = self.end;
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

    fn is_full(&mut self) -> bool {
        self.work();
        let is_ready = self.handover.as_ref().is_some_and(Handover::is_ready);
        let full_at = if is_ready { self.switch_at } else { self.rewrite_at };
        self.file.is_none() || self.end >= full_at
    }

    fn begin_anew(&mut self, written: Result<Vec<PathBuf>, OpenError>) -> Result<bool, OpenError> {
        self.take_back(Helper::wait);
        let is_ready = self.handover.as_ref().is_some_and(Handover::is_ready);
        let begun = written.and_then(|segments| match self.file {
            Some(_) if is_ready => {
                self.switch(segments);
                Ok(())
            }
            _ => self.sync_records(&segments).and_then(|()| self.rewrite()),
        });
        match begun {
            Err(error) if self.file.is_some() => {
                // There is still room for groups.
                tracing::warn!(%error, "the file of sequence numbers was not made shorter");
                self.switch_at = self.end + self.bytes_max / 4;
                self.rewrite_at = self.switch_at;
                Ok(false)
            }
            done => done.map(|()| true),
        }
    }

    fn hold_back(&mut self, name: &str) -> Result<(), OpenError> {
        let late = late(&self.folder, name)?.into_iter();
        self.unplaced.extend(late.map(|late| ((late.name, late.place), late.records)));
        Ok(())
    }

    fn bring_back(&mut self, name: &str) -> Result<(), OpenError> {
        let of_session = self.unplaced.iter().filter(|((whose, _), _)| whose == name);
        let late = of_session.map(|((name, place), records)| {
            let (name, records) = (name.clone(), records.clone());
            Late { name, place: *place, records }
        });
        let left = write_late(&self.folder, late.collect())?;
        self.unplaced.retain(|(whose, _), _| whose != name);
        self.unplaced.extend(left);
        Ok(())
    }

    fn look(&mut self) -> Result<(), OpenError> {
        let Some(file) = &self.file else { return Ok(()) };
        let path = path(&self.folder);
        // The helper gives the next file this name at any moment.
        if file.is_at(&next_path(&self.folder)) || file.is_at(&path) {
            return Ok(());
        }
        self.file = None;
        Err(disk::Error::io(&path, "find", std::io::ErrorKind::NotFound.into()).into())
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

/// Failed work is no error: who writes does it all then, and waits for the disk.
fn helper() -> Option<Helper> {
    let helper = Helper::start();
    if let Err(error) = &helper {
        tracing::warn!(%error, "no thread for the files of sequence numbers: who writes them waits for the disk now and then");
    }
    helper.ok()
}

/// Writes a file with what is known of each session and room for so much behind it, and puts it in the place of the newest one, which is `before`
/// if it is open. Returns it with what its sums begin with and where the next group goes.
fn write_anew(
    folder: &Path,
    known: (&BTreeMap<String, Memo>, &Unplaced),
    room_bytes: u64,
    (handover, before): (&mut Handover, &mut Option<DiskFile>),
) -> Result<(DiskFile, u32, u64), OpenError> {
    let path = handover.newest()?;
    let temporary = folder.join("numbers.new");
    let file = DiskFile::create(&temporary)?;
    let (mut bytes, salt_sum) = new_head();
    append_known(&mut bytes, salt_sum, known);
    file.write_at(&bytes, 0)?;
    let end = bytes.len() as u64;
    file.make_room(end, end + room_bytes)?;
    file.sync()?;
    // From here on the old file may have no name any more.
    handover.put_away(before.take());
    disk::rename(&temporary, &path)?;
    disk::sync_folder(folder)?;
    handover.is_replaced();
    Ok((file, salt_sum, end))
}

/// Appends what is known of all sessions: a group of their memos, and one for each of the records that are nowhere else.
fn append_known(
    out: &mut Vec<u8>,
    salt_sum: u32,
    (newest, unplaced): (&BTreeMap<String, Memo>, &Unplaced),
) {
    if newest.is_empty() {
        return;
    }
    let (place, records) = (Place::default(), &[][..]);
    let memos = newest.iter().map(|(name, memo)| Change { name, memo: *memo, place, records });
    append_group(out, salt_sum, memos);
    for ((name, place), records) in unplaced {
        // Whoever has records has a memo.
        let Some(memo) = newest.get(name).copied() else { continue };
        let change = Change { name, memo, place: *place, records };
        append_group(out, salt_sum, std::iter::once(change));
    }
}

/// Of which sessions there are such records.
fn names_of(unplaced: &Unplaced) -> Vec<&str> {
    let mut names: Vec<&str> = unplaced.keys().map(|(name, _)| name.as_str()).collect();
    names.dedup();
    names
}

impl Drop for NumbersFile {
    /// Leaves one file, if the disk lets it.
    fn drop(&mut self) {
        self.take_back(Helper::wait);
        let Some(handover) = self.handover.as_mut().filter(|_| self.file.is_some()) else { return };
        if let Err(error) = handover.settle() {
            tracing::warn!(%error, "two files of sequence numbers are left, and are read at the next start");
        }
        handover.clear();
    }
}

/// For how much there is room in the next file.
fn room_bytes() -> u64 {
    #[cfg(test)]
    return growth::room();
    #[cfg(not(test))]
    FILE_BYTES_MAX
}

/// By how much it grows at most.
fn rewrite_bytes() -> u64 {
    #[cfg(test)]
    return 2 * growth::get();
    #[cfg(not(test))]
    REWRITE_BYTES
}

/// By how much a file grows until the next is used.
fn bytes_max() -> u64 {
    #[cfg(test)]
    return growth::get();
    #[cfg(not(test))]
    FILE_BYTES_MAX
}

/// The growth of files that this thread opens, for the tests of this crate.
#[cfg(test)]
pub(crate) mod growth {
    use std::cell::Cell;

    thread_local! {
        static GROWTH: Cell<u64> = const { Cell::new(super::FILE_BYTES_MAX) };
    }

    pub(crate) fn set(bytes: u64) {
        GROWTH.set(bytes);
    }

    pub(super) fn get() -> u64 {
        GROWTH.get()
    }

    /// Tests that set no growth have files without room: there are thousands of them.
    pub(super) fn room() -> u64 {
        if GROWTH.get() == super::FILE_BYTES_MAX { 0 } else { GROWTH.get() }
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

/// What the files have.
#[derive(Debug, Default, PartialEq)]
struct Found {
    newest: BTreeMap<String, Memo>,
    late: Vec<Late>,
    damaged_bytes: u64,
    /// The newer file has groups.
    is_next_used: bool,
}

/// Reads a file behind those that were read before; `None` if it is none of ours.
fn parse(bytes: &[u8], whose: impl Fn(&str) -> bool, found: &mut Found) -> Option<()> {
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
    let (mut at, end) = (HEAD_BYTES, content_end(bytes));
    while at < end {
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
    Some(())
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

    /// A folder that version 3 of the file left when its process was killed; the segment has no message yet.
    #[test]
    fn a_folder_of_one_file_is_read() {
        const NUMBERS: &str = "\
            574549524649584e0300000000000000a775000b46d8bddfbd0c7b0a000000000000000000000000000000000000000000000000000000000000000000000000\
            475250320d13cfdfe100000001004102000000000000000200000000000000d051e707a2010000000000000000000000000000000000000100000000000000aa\
            00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000006a00000001000000000000004000000000\
            0000005120b96cf36755c215000000010000000100000000000000809497dfee600600383d4649582e342e340133353d380131313d413101b092370f5b460532\
            15000000020000000000000000000000809497dfee600600383d4649582e342e340133353d440131313d41310100000000000000000000000000000000000000";
        const SEGMENT: &str = "\
            574549524649584d01000000000000000100000000000000809497dfee6006006fc7332100000000000000000000000000000000000000000000000000000000";
        let bytes = |hex: &str| -> Vec<u8> {
            let digits = hex.as_bytes().chunks(2).map(|two| std::str::from_utf8(two).unwrap());
            digits.map(|two| u8::from_str_radix(two, 16).unwrap()).collect()
        };
        let folder = tempfile::tempdir().unwrap();
        let session = folder.path().join("s-A");
        std::fs::create_dir(&session).unwrap();
        std::fs::write(path(folder.path()), bytes(NUMBERS)).unwrap();
        std::fs::write(session.join("00000001.fix"), bytes(SEGMENT)).unwrap();
        let late = late(folder.path(), "A").unwrap();
        let numbers = NumbersFile::open(folder.path()).unwrap();
        let end = Place { segment: 1, offset: 170 };
        let memo = Memo { next_out: 2, next_in: 2, end, ..Memo::new(1_795_428_930_000) };
        assert_eq!((numbers.newest("A"), numbers.damaged_bytes()), (Some(memo), 0));
        let records = std::fs::read(session.join("00000001.fix")).unwrap();
        assert_eq!(records[64..], late[0].records);
        assert!(records.ends_with(b"8=FIX.4.4\x0135=D\x0111=A1\x01"));
    }

    /// A message cannot have a group in it: its sum begins with a number that nobody knows.
    #[test]
    fn a_group_of_another_file_is_none() {
        let memo = Memo::new(5);
        let change = Change { name: "A", memo, place: Place::default(), records: b"record" };
        let (mut file, salt_sum) = new_head();
        append_group(&mut file, salt_sum, [change].into_iter());
        let parsed = |bytes: &[u8]| {
            let mut found = Found::default();
            parse(bytes, |_| true, &mut found).map(|()| found).unwrap()
        };
        let late = vec![Late {
            name: "A".to_owned(),
            place: Place::default(),
            records: b"record".to_vec(),
        }];
        assert_eq!(parsed(&file).late, late);
        let (mut other, _) = new_head();
        other.extend_from_slice(&file[HEAD_BYTES..]);
        assert_eq!(parsed(&other).newest, BTreeMap::new());
    }
}
