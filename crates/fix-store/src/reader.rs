//! Finds messages that were sent, by their numbers.

use std::path::Path;

use disk::DiskFile;
use fix_session::Waiting;

use crate::memo::Place;
use crate::record::Kind;
use crate::segment::{self, HEAD_BYTES, PAGE_BYTES, Pages, Segment};

/// A place in a segment from which numbers at or above one can be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    offset: u64,
    next_out: u64,
}

/// Places in one segment, about one per page: an index by number of a size that does not depend on how small messages are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks(Vec<Mark>);

impl Marks {
    /// Returns the marks of a segment that begins.
    pub(crate) fn new(next_out: u64) -> Marks {
        Marks(vec![Mark { offset: HEAD_BYTES, next_out }])
    }

    /// Notes that a record begins at a place, before which the next number was `next_out`.
    pub(crate) fn note(&mut self, offset: u64, next_out: u64) {
        if self.0.last().is_none_or(|last| offset >= last.offset + PAGE_BYTES) {
            self.0.push(Mark { offset, next_out });
        }
    }

    /// Reports whether a record that begins before a place may have to be noted.
    pub(crate) fn is_due(&self, end: u64) -> bool {
        self.0.last().is_none_or(|last| end > last.offset + PAGE_BYTES)
    }

    /// The last place from which a number can be found.
    fn before(&self, seq: u64) -> Option<Mark> {
        self.0.iter().rev().find(|mark| mark.next_out <= seq).copied()
    }

    /// Reads the marks of a segment, and returns them with the place where its sound records end.
    pub(crate) fn read(pages: &mut Pages, segment: &Segment) -> (Marks, u64) {
        let mut marks = Marks::new(segment.next_out);
        let (mut at, mut next_out) = (HEAD_BYTES, segment.next_out);
        while let Some(record) = pages.record(at) {
            marks.note(at, next_out);
            if record.kind == Kind::Sent {
                next_out = record.seq + 1;
            }
            at += record.len();
        }
        (marks, at)
    }
}

/// Reads what was sent, part by part. It keeps a page of the segment that it read last, and that segment's marks.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    open: Option<OpenSegment>,
    /// Where the number behind the one that was found last is looked for.
    next: Option<(u64, Place)>,
}

#[derive(Debug)]
struct OpenSegment {
    number: u64,
    pages: Pages,
    /// Of a segment that is closed; the session has those of the last one.
    marks: Option<Marks>,
}

/// What there is of a session's messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Messages<'s> {
    pub(crate) folder: &'s Path,
    /// Ascending; the last is the one that grows.
    pub(crate) segments: &'s [Segment],
    /// Marks of the last one.
    pub(crate) marks: &'s Marks,
    /// Where the life begins, whose numbers are meant.
    pub(crate) life: Place,
}

impl Reader {
    /// Forgets what was read.
    pub(crate) fn clear(&mut self) {
        *self = Reader::default();
    }

    /// Appends the message that was sent under a number, the newest if there are several. Reports whether there is a sound one.
    pub(crate) fn find(&mut self, seq: u64, messages: Messages<'_>, into: &mut Vec<u8>) -> bool {
        // Numbers that an operator has lowered are in a newer segment once more, and count there.
        let newer = |place: Place| {
            let mut segments = messages.segments.iter();
            segments.any(|one| one.number > place.segment && one.next_out <= seq)
        };
        let start = match self.next {
            Some((next, place)) if next == seq && !newer(place) => Some(place),
            _ => self.locate(seq, messages),
        };
        self.next = None;
        let Some(place) = start else { return false };
        let segment = messages.segments.iter().find(|one| one.number == place.segment);
        segment.is_some_and(|one| self.walk(seq, one, place.offset, messages.folder, into))
    }

    /// Where to begin to look for a number: in the newest segment that may have it.
    fn locate(&mut self, seq: u64, messages: Messages<'_>) -> Option<Place> {
        let last = messages.segments.last()?.number;
        let of_life =
            messages.segments.iter().rev().take_while(|one| one.number >= messages.life.segment);
        for segment in of_life {
            let is_first = segment.number == messages.life.segment;
            if !is_first && segment.next_out > seq {
                continue;
            }
            let mark = if segment.number == last {
                messages.marks.before(seq)
            } else {
                // One that cannot be read is found to be so by who looks there.
                match self.open(segment, messages.folder).is_some() {
                    true => self.marks_of(segment).and_then(|marks| marks.before(seq)),
                    false => None,
                }
            };
            let begin = if is_first { messages.life.offset } else { HEAD_BYTES };
            // A mark before the life has numbers of another one.
            let offset = mark.map_or(begin, |mark| mark.offset.max(begin));
            return Some(Place { segment: segment.number, offset });
        }
        None
    }

    /// Returns the first number at or above one that has a message. Of each number the newest segment counts that may have it, so a segment has
    /// the numbers from its own first up to the lowest that a newer one begins with. Where a segment is there and cannot be read the number itself
    /// is the answer: the next look may find it.
    pub(crate) fn first_from(&mut self, mut seq: u64, messages: Messages<'_>) -> Option<u64> {
        let Messages { folder, segments, life, .. } = messages;
        loop {
            let start = self.locate(seq, messages);
            let newer = segments.iter().filter(|one| {
                one.number > start.map_or(life.segment, |place| place.segment) && one.next_out > seq
            });
            let end = newer.map(|one| one.next_out).min();
            let segment = start.and_then(|at| segments.iter().find(|one| one.number == at.segment));
            if segment.is_some_and(|one| self.is_closed_to_us(one, folder)) {
                return Some(seq);
            }
            if let (Some(place), Some(segment)) = (start, segment)
                && let Some((found, at)) = self.first_in(seq, segment, place.offset, folder)
                && end.is_none_or(|end| found < end)
            {
                self.next = Some((found, Place { offset: at, ..place }));
                return Some(found);
            }
            seq = end?;
        }
    }

    /// The first number at or above one in a segment, from a place on, and where its record is.
    fn first_in(
        &mut self,
        seq: u64,
        segment: &Segment,
        mut at: u64,
        folder: &Path,
    ) -> Option<(u64, u64)> {
        let pages = self.open(segment, folder)?;
        while let Some(record) = pages.record(at) {
            if record.kind == Kind::Sent && record.seq >= seq {
                return Some((record.seq, at));
            }
            at += record.len();
        }
        None
    }

    /// Finds where the first record of the life begins that was sent under a number or a greater one, or a place before it; `None` if there
    /// are no messages.
    pub(crate) fn place_of(&mut self, seq: u64, messages: Messages<'_>) -> Option<Place> {
        let start = self.locate(seq, messages).or_else(|| {
            let life = messages.life;
            let first = messages.segments.iter().find(|one| one.number >= life.segment)?.number;
            let offset = if first == life.segment { life.offset } else { HEAD_BYTES };
            Some(Place { segment: first, offset })
        })?;
        let segment = messages.segments.iter().find(|one| one.number == start.segment)?;
        self.open(segment, messages.folder)?;
        let found = self.first_in(seq, segment, start.offset, messages.folder);
        // Damage in between: rather too much than too little. What is in newer segments comes behind it.
        Some(found.map_or(start, |(_, offset)| Place { offset, ..start }))
    }

    /// Appends the first message that was sent in a stretch of the segments. Returns what was found, and where to look for the next one.
    pub(crate) fn sent_from(
        &mut self,
        from: Place,
        to: Place,
        segments: &[Segment],
        folder: &Path,
        into: &mut Vec<u8>,
    ) -> (Waiting, Place) {
        let begin = |number| Place { segment: number, offset: HEAD_BYTES };
        let mut at = from;
        while at < to {
            let Some(segment) = segments.iter().find(|one| one.number >= at.segment) else {
                return (Waiting::Lost, to);
            };
            if segment.number > at.segment {
                // The segment was removed; 0 is before the first one.
                let found = if at.segment == 0 { Waiting::None } else { Waiting::Lost };
                at = begin(segment.number);
                if found == Waiting::Lost {
                    return (found, at);
                }
                continue;
            }
            let record = self.open(segment, folder).and_then(|pages| pages.record(at.offset));
            let next = begin(at.segment + 1);
            match record {
                None if at.offset >= segment.end => at = next,
                None => return (Waiting::Lost, next),
                Some(record) => {
                    let here = at.offset;
                    at.offset += record.len();
                    if record.kind == Kind::Sent {
                        let pages = self.open(segment, folder);
                        let message = pages.and_then(|pages| pages.message(here, &record));
                        into.extend_from_slice(message.unwrap_or_default());
                        let found =
                            if message.is_some() { Waiting::Message } else { Waiting::Lost };
                        return (found, at);
                    }
                }
            }
        }
        (Waiting::None, to)
    }

    /// Reports whether a segment is there and cannot be opened.
    fn is_closed_to_us(&mut self, segment: &Segment, folder: &Path) -> bool {
        self.open(segment, folder).is_none()
            && DiskFile::read_if_there(&segment::path(folder, segment.number)).is_err()
    }

    fn marks_of(&mut self, segment: &Segment) -> Option<&Marks> {
        let open = self.open.as_mut()?;
        let pages = &mut open.pages;
        Some(open.marks.get_or_insert_with(|| Marks::read(pages, segment).0))
    }

    fn open(&mut self, segment: &Segment, folder: &Path) -> Option<&mut Pages> {
        if self.open.as_ref().is_none_or(|open| open.number != segment.number) {
            let file = DiskFile::read(&segment::path(folder, segment.number)).ok()?;
            let pages = Pages::new(file, segment.end);
            self.open = Some(OpenSegment { number: segment.number, pages, marks: None });
        }
        let pages = &mut self.open.as_mut()?.pages;
        pages.extend(segment.end);
        Some(pages)
    }

    /// Looks for a number in one segment, from a place on.
    fn walk(
        &mut self,
        seq: u64,
        segment: &Segment,
        from: u64,
        folder: &Path,
        into: &mut Vec<u8>,
    ) -> bool {
        let Some(pages) = self.open(segment, folder) else { return false };
        let mut at = from;
        while let Some(record) = pages.record(at) {
            let here = at;
            at += record.len();
            if record.kind != Kind::Sent || record.seq < seq {
                continue;
            }
            if record.seq > seq {
                return false;
            }
            let message = pages.message(here, &record);
            into.extend_from_slice(message.unwrap_or_default());
            let sound = message.is_some();
            self.next = Some((seq + 1, Place { segment: segment.number, offset: at }));
            return sound;
        }
        false
    }
}
