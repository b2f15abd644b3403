//! One session's messages and numbers.

use std::path::PathBuf;

use disk::DiskFile;
use fix_session::{MessageStore, StoreError, Waiting};

use crate::OpenError;
use crate::mask::masked;
use crate::memo::{Change, Memo, Place};
use crate::reader::{Marks, Messages, Reader};
use crate::record::{Kind, RECORD_BYTES, Record};
use crate::segment::{self, HEAD_BYTES, Pages, Segment};

/// How many bytes may wait for a flush. A step that writes more is refused.
const STAGED_BYTES_MAX: usize = 256 << 20;
/// Room for staged messages that is kept from step to step.
const STAGED_BYTES_KEPT: usize = 64 << 10;
/// Records that are kept with their numbers are written to the segment when they are so many bytes.
const TAIL_BYTES: usize = 64 << 10;
/// A file of the folder that says when it was found that messages are missing, and its name until it is whole.
const BEHIND: &str = "behind";
const BEHIND_NEW: &str = "behind.new";
/// If they are more because the segment cannot be written, nothing is kept until it can.
const TAIL_BYTES_MAX: usize = 64 * TAIL_BYTES;

/// The store of one session; [`crate::FileStores`] has them all.
#[derive(Debug)]
pub struct FileStore {
    name: String,
    folder: PathBuf,
    segment_bytes: u64,
    pub(crate) sealed: bool,
    /// The time of what is kept now, microseconds since 1970-01-01T00:00:00Z.
    pub(crate) now_us: i64,
    /// With what is staged. Its places are those of the last flush.
    memo: Memo,
    flushed: Memo,
    /// The number that is kept as expected, whatever is expected now.
    held_in: Option<u64>,
    staged: Staged,
    /// The end of the last one is where its file ends; the tail belongs behind it.
    segments: Vec<Segment>,
    /// Records that count and are kept with their numbers, but are not in the last segment yet.
    tail: Vec<u8>,
    /// Of messages in the tail that were sent in the present life: number, and where its record begins.
    tail_sent: Vec<(u64, usize)>,
    /// The last segment, for writing; `None` if the next write begins a new one.
    file: Option<DiskFile>,
    /// Segments that are to be on the disk before their records are there only.
    unsynced: Vec<u64>,
    /// Marks of the last segment.
    marks: Marks,
    reader: Reader,
    /// Behind what was found last of the messages that wait.
    waiting_next: Option<Place>,
    /// When it was found last that messages are missing, milliseconds since 1970-01-01T00:00:00Z.
    behind_unix_ms: Option<i64>,
    /// Why the tail was not written last.
    pub(crate) failure: Option<OpenError>,
}

/// What changed since the last flush.
#[derive(Debug, Default)]
struct Staged {
    /// Records and their messages.
    records: Vec<u8>,
    /// Of messages that were sent: number, and where its record begins.
    sent: Vec<(u64, usize)>,
    /// Where the life begins, if it begins anew.
    life: Option<usize>,
    /// Where messages begin and end that wait from now on; the start only if it is here.
    waiting_from: Option<usize>,
    waiting_to: Option<usize>,
    /// The next number was lowered: a segment begins, because numbers only rise within one.
    falls: bool,
    /// Where the records belong.
    written: Option<Place>,
    /// A message did not fit: nothing of the step is kept.
    is_too_much: bool,
    changed: bool,
}

impl Staged {
    fn clear(&mut self) {
        self.records.clear();
        self.records.shrink_to(STAGED_BYTES_KEPT);
        self.sent.clear();
        *self = Staged {
            records: std::mem::take(&mut self.records),
            sent: std::mem::take(&mut self.sent),
            ..Staged::default()
        };
    }
}

impl FileStore {
    /// Opens the messages of a session as far as its memo says that they count, and removes what a crash left behind.
    pub(crate) fn open(
        folder: PathBuf,
        name: &str,
        memo: Memo,
        segment_bytes: u64,
    ) -> Result<FileStore, OpenError> {
        disk::make_folder(&folder)?;
        let mut segments = Vec::new();
        for number in segment::numbers(&folder)? {
            let path = segment::path(&folder, number);
            if number > memo.end.segment {
                disk::remove(&path);
            } else if let Some(segment) = Segment::read(&DiskFile::read(&path)?, number) {
                segments.push(segment);
            } else {
                tracing::warn!(path = %path.display(), "a segment of messages is damaged; what it has counts as lost");
            }
        }
        let mut store = FileStore {
            name: name.to_owned(),
            folder,
            segment_bytes,
            sealed: true,
            now_us: 0,
            memo,
            flushed: memo,
            held_in: None,
            staged: Staged::default(),
            segments,
            tail: Vec::new(),
            tail_sent: Vec::new(),
            file: None,
            unsynced: Vec::new(),
            marks: Marks::default(),
            reader: Reader::default(),
            waiting_next: None,
            behind_unix_ms: None,
            failure: None,
        };
        store.behind_unix_ms = store.read_behind()?;
        store.open_last()?;
        Ok(store)
    }

    fn read_behind(&self) -> Result<Option<i64>, OpenError> {
        let file = DiskFile::read_if_there(&self.folder.join(BEHIND))?;
        let bytes = file.map(|file| file.read_all()).transpose()?;
        Ok(bytes.and_then(|bytes| std::str::from_utf8(&bytes).ok()?.trim().parse().ok()))
    }

    /// Keeps that messages are missing that were sent or taken before a time. It is on the disk when this returns.
    pub(crate) fn mark_behind(&mut self, unix_ms: i64) -> Result<(), OpenError> {
        let [new, path] = [BEHIND_NEW, BEHIND].map(|name| self.folder.join(name));
        let text = format!("{unix_ms}\n");
        disk::replace(&new, &path, text.as_bytes()).map_err(disk::Error::from)?;
        self.behind_unix_ms = Some(unix_ms);
        Ok(())
    }

    /// Opens the last segment for writing, if it is whole up to where it counts; otherwise the next write begins a new one.
    fn open_last(&mut self) -> Result<(), OpenError> {
        let end = self.memo.end;
        let Some(last) = self.segments.last_mut() else { return Ok(()) };
        let path = segment::path(&self.folder, last.number);
        let file = DiskFile::open(&path)?;
        if last.number == end.segment && last.end > end.offset {
            file.truncate(end.offset)?;
            last.end = end.offset;
        }
        let (marks, sound) = Marks::read(&mut Pages::new(DiskFile::read(&path)?, last.end), last);
        self.marks = marks;
        if last.number == end.segment && sound == end.offset {
            self.file = Some(file);
        } else {
            tracing::warn!(
                path = %path.display(), sound, counted = end.offset,
                "messages at the end are damaged or lost; a peer that asks for them gets a gap fill"
            );
        }
        Ok(())
    }

    /// Returns the session's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the numbers and how far the messages count, as the last flush left them.
    #[must_use]
    pub fn flushed(&self) -> Memo {
        self.flushed
    }

    /// What is to be kept of this step.
    pub(crate) fn change(&self) -> Change<'_> {
        Change {
            name: &self.name,
            memo: self.memo_to_keep(),
            place: self.staged.written.unwrap_or_default(),
            records: &self.staged.records,
        }
    }

    /// The numbers with the places that the staged records belong to.
    fn memo_to_keep(&self) -> Memo {
        let mut memo = self.memo;
        memo.next_in = self.held_in.map_or(memo.next_in, |held| held.min(memo.next_in));
        if let Some(place) = self.staged.written {
            memo.end.segment = place.segment;
            memo.end.offset = place.offset + self.staged.records.len() as u64;
        }
        let start = self.staged.written.unwrap_or(memo.end);
        let place = |at: usize| Place { offset: start.offset + at as u64, ..start };
        if let Some(at) = self.staged.life {
            memo.life = place(at);
        }
        if let Some(at) = self.staged.waiting_from {
            memo.waiting_from = place(at);
        }
        if let Some(at) = self.staged.waiting_to {
            memo.waiting_to = place(at);
        }
        memo
    }

    /// From now on the last segment cannot be written.
    #[cfg(test)]
    pub(crate) fn break_segment(&mut self) {
        let last = self.segments.last().map(|last| segment::path(&self.folder, last.number));
        self.file = last.and_then(|path| DiskFile::read(&path).ok());
    }

    pub(crate) fn is_changed(&self) -> bool {
        self.staged.changed
    }

    /// Finds the place of what is staged, in the last segment or a new one. It counts once it is kept with its memo.
    pub(crate) fn place(&mut self, sealed: bool) -> Result<(), OpenError> {
        if self.staged.is_too_much {
            return Err(OpenError::TooMuch { name: self.name.clone() });
        }
        let is_placed = self.staged.written.is_some();
        if is_placed || self.staged.records.is_empty() && !self.staged.falls {
            return Ok(());
        }
        if self.tail.len() >= TAIL_BYTES_MAX {
            self.write_tail()?;
        }
        let end = self.flushed.end.offset;
        let fits = end + self.staged.records.len() as u64 <= self.segment_bytes;
        if self.file.is_none() || self.staged.falls || !fits && end > HEAD_BYTES {
            let next_out =
                if self.staged.falls { self.memo.next_out } else { self.flushed.next_out };
            self.begin(next_out, sealed)?;
        }
        let Some(last) = self.segments.last() else { return Ok(()) };
        let offset = last.end + self.tail.len() as u64;
        self.staged.written = Some(Place { segment: last.number, offset });
        if sealed && self.unsynced.last() != Some(&last.number) {
            self.unsynced.push(last.number);
        }
        Ok(())
    }

    /// Writes the tail to the last segment.
    fn write_tail(&mut self) -> Result<(), OpenError> {
        if let (false, Some(file), Some(last)) =
            (self.tail.is_empty(), &self.file, self.segments.last_mut())
        {
            file.write_at(&self.tail, last.end)?;
            last.end += self.tail.len() as u64;
            self.tail.clear();
            self.tail.shrink_to(2 * TAIL_BYTES);
            self.tail_sent.clear();
        }
        Ok(())
    }

    /// Writes everything that counts to the segments, and tells which of them are to be on the disk before their records are there only.
    pub(crate) fn write_to_system(&mut self, unsynced: &mut Vec<PathBuf>) -> Result<(), OpenError> {
        self.write_tail()?;
        unsynced.extend(self.unsynced.iter().map(|number| segment::path(&self.folder, *number)));
        Ok(())
    }

    /// Somebody sees to it that what [`FileStore::write_to_system`] told of gets to the disk.
    pub(crate) fn is_handed_over(&mut self) {
        self.unsynced.clear();
    }

    /// Writes everything that counts to the segments, on the disk if a sealed step had a part in it.
    pub(crate) fn write_out(&mut self) -> Result<(), OpenError> {
        let mut unsynced = Vec::new();
        self.write_to_system(&mut unsynced)?;
        Ok(unsynced.iter().try_for_each(|path| DiskFile::sync_if_there(path))?)
    }

    /// Begins a segment.
    fn begin(&mut self, next_out: u64, sealed: bool) -> Result<(), OpenError> {
        self.write_tail()?;
        self.file = None;
        let before = self.segments.last().map_or(0, |last| last.number);
        let segment = Segment {
            number: before.max(self.flushed.end.segment) + 1,
            next_out,
            at_us: self.now_us,
            end: HEAD_BYTES,
        };
        let file = DiskFile::create(&segment::path(&self.folder, segment.number))?;
        file.write_at(&segment.head(), 0)?;
        if sealed {
            // Records can be written again to a segment that is there.
            file.sync()?;
            disk::sync_folder(&self.folder)?;
        }
        self.file = Some(file);
        self.marks = Marks::new(segment.next_out);
        self.segments.push(segment);
        Ok(())
    }

    /// What was staged is kept.
    pub(crate) fn settle(&mut self) {
        let next_out = self.flushed.next_out;
        self.flushed = self.memo_to_keep();
        self.memo = Memo { next_in: self.memo.next_in, ..self.flushed };
        if let Some(place) = self.staged.written
            && self.marks.is_due(self.flushed.end.offset)
        {
            self.mark(place.offset, next_out);
        }
        self.grow_tail();
        self.staged.clear();
    }

    /// Notes where the staged records are, from a place on.
    fn mark(&mut self, offset: u64, mut next_out: u64) {
        let mut at = 0;
        while let Some(head) = self.staged.records[at..].first_chunk::<RECORD_BYTES>() {
            let Some(record) = Record::read(head) else { break };
            self.marks.note(offset + at as u64, next_out);
            if record.kind == Kind::Sent {
                next_out = record.seq + 1;
            }
            at += RECORD_BYTES + record.bytes as usize;
        }
    }

    /// What was staged is kept with its numbers: now it is a part of the tail.
    fn grow_tail(&mut self) {
        if self.staged.life.is_some() {
            self.tail_sent.clear();
        }
        let begin = self.tail.len();
        self.tail_sent.extend(self.staged.sent.iter().map(|(seq, at)| (*seq, begin + at)));
        self.tail.extend_from_slice(&self.staged.records);
        if self.tail.len() >= TAIL_BYTES {
            // Nothing is lost: it is tried again with the next step, and told when there is too much of it.
            self.failure = self.write_tail().err();
        }
    }

    /// What was staged is not kept: all is as it was at the last flush, and the next write begins a new segment.
    pub(crate) fn undo(&mut self) {
        (self.memo, self.held_in) = (self.flushed, None);
        self.staged.clear();
        self.reader.clear();
        self.waiting_next = None;
        let counted = self.flushed.end.segment;
        if let Some(begun) = self.segments.pop_if(|last| last.number > counted) {
            self.file = None;
            disk::remove(&segment::path(&self.folder, begun.number));
            self.marks = self.segments.last().map(|last| self.marks_of(last)).unwrap_or_default();
        }
    }

    fn marks_of(&self, segment: &Segment) -> Marks {
        let file = DiskFile::read(&segment::path(&self.folder, segment.number));
        // Without marks the walk begins at the start of the segment.
        file.map_or(Marks::new(segment.next_out), |file| {
            Marks::read(&mut Pages::new(file, segment.end), segment).0
        })
    }

    /// Sets the numbers, as an operator does between two connections. Messages that were sent under `next_out` or a greater number are never
    /// sent again under it; those that may not have reached the peer wait.
    pub(crate) fn set_numbers(&mut self, next_out: u64, next_in: u64) {
        let next_out = next_out.max(1);
        if next_out != self.memo.next_out {
            self.let_wait(next_out);
        }
        self.staged.falls = next_out < self.memo.next_out;
        self.memo.next_out = next_out;
        (self.memo.next_in, self.held_in) = (next_in.max(1), None);
        self.staged.changed = true;
        self.reader.clear();
    }

    /// Removes the oldest segments: those with nothing younger than `oldest_us` and nothing that waits, and those beyond a number of bytes. The
    /// one that grows stays.
    pub(crate) fn trim(&mut self, oldest_us: i64, bytes_max: u64) -> u64 {
        let written: u64 = self.segments.iter().map(|one| one.end).sum();
        let mut bytes = written + self.tail.len() as u64;
        let mut removed = 0;
        while let [first, second, ..] = self.segments[..] {
            let is_needed = self.has_waiting() && first.number >= self.memo.waiting_from.segment;
            let is_old = second.at_us < oldest_us && !is_needed;
            if !is_old && bytes <= bytes_max
                || !disk::remove(&segment::path(&self.folder, first.number))
            {
                break;
            }
            bytes -= first.end;
            removed += first.end;
            self.segments.remove(0);
            self.reader.clear();
        }
        removed
    }

    /// Removes the oldest segments that have nothing from `next_in` on, of a book.
    pub(crate) fn trim_read(&mut self) -> u64 {
        let mut removed = 0;
        while let [first, second, ..] = self.segments[..] {
            let is_needed = second.next_out > self.flushed.next_in;
            if is_needed || !disk::remove(&segment::path(&self.folder, first.number)) {
                break;
            }
            removed += first.end;
            self.segments.remove(0);
            self.reader.clear();
        }
        removed
    }

    /// Lets the messages wait that may not have reached the peer, as the next number becomes another. What waits already begins before them.
    fn let_wait(&mut self, next_out: u64) {
        if self.memo.unsure_from == 0 {
            return;
        }
        let from = self.memo.unsure_from;
        self.memo.unsure_from = next_out;
        let flushed = self.staged.life.is_none() && from < self.flushed.next_out;
        if !self.has_waiting() {
            if from >= self.memo.next_out {
                return;
            }
            let staged = self.staged.sent.iter().find(|sent| sent.0 >= from).map(|sent| sent.1);
            // If that fails, rather too much waits than too little.
            let _ = self.write_tail();
            let (folder, segments, marks) = (&self.folder, &self.segments, &self.marks);
            let messages = Messages { folder, segments, marks, life: self.memo.life };
            match self.reader.place_of(from, messages).filter(|_| flushed) {
                Some(place) => self.memo.waiting_from = place,
                None => self.staged.waiting_from = Some(staged.unwrap_or(0)),
            }
        }
        self.staged.waiting_to = Some(self.staged.records.len());
        self.staged.changed = true;
    }

    fn stage(&mut self, kind: Kind, seq: u64, message: &[u8]) -> Result<(), StoreError> {
        if self.staged.records.len() + message.len() > STAGED_BYTES_MAX {
            let reason = format!("one step of session {} has too many messages", self.name);
            return Err(StoreError { reason });
        }
        let masked = masked(message);
        let message = masked.as_deref().unwrap_or(message);
        Record::append(&mut self.staged.records, kind, seq, self.now_us, message);
        self.staged.changed = true;
        Ok(())
    }

    /// Finds a message that is not flushed yet, or not in its segment.
    fn message_in_memory(&self, seq: u64) -> Option<&[u8]> {
        let Staged { records, sent, .. } = &self.staged;
        let tail = || message_of(seq, &self.tail, &self.tail_sent);
        message_of(seq, records, sent).or_else(|| self.staged.life.is_none().then(tail).flatten())
    }
}

impl MessageStore for FileStore {
    fn doubt_before(&mut self, unix_ms: i64) -> Result<(), StoreError> {
        self.mark_behind(unix_ms).map_err(|error| StoreError { reason: error.to_string() })
    }

    fn doubtful_before_unix_ms(&self) -> i64 {
        self.created_unix_ms().max(self.behind_unix_ms.unwrap_or(i64::MIN))
    }

    fn next_out(&self) -> u64 {
        self.memo.next_out
    }

    fn next_in(&self) -> u64 {
        self.memo.next_in
    }

    fn set_next_in(&mut self, seq: u64) -> Result<(), StoreError> {
        self.memo.next_in = seq.max(1);
        self.staged.changed = true;
        Ok(())
    }

    fn hold_next_in(&mut self, seq: Option<u64>) {
        self.staged.changed |= self.held_in != seq;
        self.held_in = seq;
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let (seq, at) = (self.memo.next_out, self.staged.records.len());
        if let Err(error) = self.stage(Kind::Sent, seq, bytes) {
            (self.staged.is_too_much, self.staged.changed) = (true, true);
            return Err(error);
        }
        self.staged.sent.push((seq, at));
        self.memo.next_out = seq + 1;
        Ok(())
    }

    fn get(&mut self, seq: u64, into: &mut Vec<u8>) -> bool {
        if seq >= self.memo.next_out {
            return false;
        }
        if let Some(message) = self.message_in_memory(seq) {
            into.extend_from_slice(message);
            return true;
        }
        let (folder, segments, marks) = (&self.folder, &self.segments, &self.marks);
        let messages = Messages { folder, segments, marks, life: self.memo.life };
        self.staged.life.is_none() && self.reader.find(seq, messages, into)
    }

    fn next_kept(&mut self, seq: u64) -> Option<u64> {
        let is_new_life = self.staged.life.is_some();
        let tail = self.tail_sent.iter().filter(|_| !is_new_life);
        let in_memory = self.staged.sent.iter().chain(tail).map(|sent| sent.0);
        let in_memory = in_memory.filter(|number| *number >= seq).min();
        let (folder, segments, marks) = (&self.folder, &self.segments, &self.marks);
        let messages = Messages { folder, segments, marks, life: self.memo.life };
        let in_segments = if is_new_life { None } else { self.reader.first_from(seq, messages) };
        let first = in_memory.into_iter().chain(in_segments).min();
        first.filter(|number| *number < self.memo.next_out)
    }

    fn note_received(&mut self, bytes: &[u8]) {
        // A step that is too large fails where it sends.
        let _ = self.stage(Kind::Received, 0, bytes);
    }

    fn reset(&mut self, unix_ms: i64) -> Result<(), StoreError> {
        self.let_wait(1);
        // Lives are told apart by when they began, also while the clock stands still.
        let created_unix_ms = unix_ms.max(self.memo.created_unix_ms.saturating_add(1));
        self.memo = Memo { next_out: 1, next_in: 1, created_unix_ms, ..self.memo };
        self.held_in = None;
        self.staged.life = Some(self.staged.records.len());
        self.staged.sent.clear();
        self.staged.changed = true;
        self.reader.clear();
        Ok(())
    }

    fn created_unix_ms(&self) -> i64 {
        self.memo.created_unix_ms
    }

    fn unsure_from(&self) -> Option<u64> {
        Some(self.memo.unsure_from).filter(|seq| *seq > 0)
    }

    fn set_unsure_from(&mut self, seq: Option<u64>) {
        self.memo.unsure_from = seq.map_or(0, |seq| seq.max(1));
        if seq.is_none() {
            self.memo.waiting_from = self.memo.waiting_to;
            (self.staged.waiting_from, self.staged.waiting_to) = (None, None);
        }
        self.staged.changed = true;
    }

    fn has_waiting(&self) -> bool {
        self.staged.waiting_to.is_some() || self.memo.waiting_from < self.memo.waiting_to
    }

    fn next_waiting(&mut self, into: &mut Vec<u8>) -> Waiting {
        if self.staged.waiting_to.is_some() {
            return Waiting::Later;
        }
        let (from, to) = (self.memo.waiting_from, self.memo.waiting_to);
        if from >= to {
            return Waiting::None;
        }
        if self.write_tail().is_err() {
            return Waiting::Later;
        }
        let (found, next) = self.reader.sent_from(from, to, &self.segments, &self.folder, into);
        self.waiting_next = Some(next);
        found
    }

    fn pass_waiting(&mut self) {
        if let Some(next) = self.waiting_next.take() {
            self.memo.waiting_from = next;
            self.staged.changed = true;
        }
    }
}

/// Finds the message that was sent under a number last, among records in memory.
fn message_of<'r>(seq: u64, records: &'r [u8], sent: &[(u64, usize)]) -> Option<&'r [u8]> {
    let (_, at) = sent.iter().rev().find(|sent| sent.0 == seq)?;
    let record = Record::read(records.get(*at..)?.first_chunk()?)?;
    let message = at + RECORD_BYTES;
    records.get(message..message + record.bytes as usize)
}
