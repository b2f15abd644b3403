//! Reading files of the journal, group by group, and judging what is wrong where one does not follow.

use std::io;

use zerocopy::IntoBytes;

use crate::block::{Block, blocks};
use crate::files::{BLOCK_BYTES, File};
use crate::format::{
    FileHead, GROUP_BYTES_MAX, GROUP_HEAD_BYTES, GroupHead, HeadError, Kind, Position, RecordError,
    is_torn, next_record,
};

/// Bytes read at once.
const READ_BYTES: usize = 4 << 20;
/// The same at first, where little is likely to be new.
const READ_FEW_BYTES: usize = 64 << 10;

/// A place in a file where the journal is not what it must be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}, byte {offset}, record {sequence}: {what}")]
pub struct Damage {
    /// Name of the file.
    pub file: String,
    /// First byte of the group or block that is wrong.
    pub offset: u64,
    /// Sequence of the first record that cannot be trusted.
    pub sequence: u64,
    /// What is wrong with it.
    pub what: Fault,
}

/// What can be wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The head block.
    #[error("{0}")]
    Head(#[from] HeadError),
    /// A record within a group.
    #[error("{0}")]
    Record(#[from] RecordError),
    /// A group's head cannot be read, and it is not that it was never written.
    #[error(
        "no group begins here, where one should: these bytes were changed after they were written"
    )]
    NoGroup,
    /// A group's bytes are not what was sealed.
    #[error(
        "the group was changed after it was written: its hash does not follow from the group before"
    )]
    Hash,
    /// Records are missing between here and a later group of the same file.
    #[error("records are missing: a later group, of record {later}, is at byte {later_offset}")]
    Hole {
        /// First record of the later group.
        later: u64,
        /// Where it is.
        later_offset: u64,
    },
    /// The next file does not continue this one.
    #[error("records are missing: the next file, {next}, continues from record {expected}")]
    Short {
        /// The next file.
        next: String,
        /// Its first record.
        expected: u64,
    },
    /// A file between others is gone.
    #[error("the file is missing")]
    Missing,
    /// Nothing is wrong; the reading was stopped.
    #[error("the reading was stopped")]
    Stopped,
    /// The records are sound, but do not lead from one state to another.
    #[error("{0}")]
    Replay(String),
}

/// How a file ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Nothing was written after the last group.
    Clean,
    /// The last group was not written to its end: a crash came between. It was never acknowledged.
    Torn {
        /// Bytes of it that are there.
        bytes: u64,
    },
    /// Something is wrong that a crash does not explain.
    Damaged(Damage),
}

/// A reader of one file.
pub(crate) struct Reader<F> {
    file: F,
    name: String,
    head: FileHead,
    len: u64,
    last_group: u64,
    offset: u64,
    at: Position,
    window: Vec<Block>,
    /// What of the file is in the window.
    window_at: u64,
    window_len: usize,
    /// Bytes read the next time.
    step: usize,
}

/// Why a file could not be opened for reading.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The system refused.
    #[error("{file}: {source}")]
    Io {
        /// Name of the file.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// It is not what it must be.
    #[error(transparent)]
    Damage(#[from] Damage),
}

impl ReadError {
    pub(crate) fn io(file: &str) -> impl FnOnce(io::Error) -> ReadError + '_ {
        move |source| ReadError::Io { file: file.to_string(), source }
    }
}

impl<F: File> Reader<F> {
    /// Opens a file and reads its head.
    pub(crate) fn open(file: F, name: &str, kind: Kind) -> Result<Reader<F>, ReadError> {
        let io = ReadError::io;
        let len = file.len().map_err(io(name))?;
        let mut block = blocks(BLOCK_BYTES);
        let damaged = |what| Damage { file: name.to_string(), offset: 0, sequence: 0, what };
        if len < BLOCK_BYTES as u64 {
            return Err(damaged(Fault::Head(HeadError::Magic(kind))).into());
        }
        file.read_at(0, block.as_mut_bytes()).map_err(io(name))?;
        let head = FileHead::read(&block[0].0, kind).map_err(|e| damaged(Fault::Head(e)))?;
        Ok(Reader {
            file,
            name: name.to_string(),
            head,
            len,
            last_group: BLOCK_BYTES as u64,
            offset: BLOCK_BYTES as u64,
            at: head.position,
            window: Vec::new(),
            window_at: 0,
            window_len: 0,
            step: READ_BYTES,
        })
    }

    pub(crate) fn head(&self) -> &FileHead {
        &self.head
    }

    /// Where the last group that was read ends.
    pub(crate) fn at(&self) -> &Position {
        &self.at
    }

    /// First byte of the last group that was read; the end of the head, if none was.
    pub(crate) fn last_group(&self) -> u64 {
        self.last_group
    }

    /// First byte that was not read yet.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Forgets what of the file was read ahead: a writer may have written there since, and made it longer.
    pub(crate) fn look_again(&mut self) -> Result<(), ReadError> {
        self.len = self.file.len().map_err(ReadError::io(&self.name))?;
        (self.window_len, self.step) = (0, READ_FEW_BYTES);
        Ok(())
    }

    /// Reads the next group and hands its records to `each`, message by message. `Ok(None)` means there was one.
    pub(crate) fn next(
        &mut self,
        mut each: impl FnMut(&RecordAt, &[u8]) -> Result<(), Fault>,
    ) -> Result<Option<End>, ReadError> {
        let (head, group) = match self.find()? {
            Ok(found) => found,
            Err(end) => return Ok(Some(end)),
        };
        let (mut at, hash) = (self.at, head.hash);
        let group = &self.window.as_bytes()[group];
        let mut rest = &group[GROUP_HEAD_BYTES..head.bytes.get() as usize];
        for _ in 0..head.records.get() {
            let place =
                RecordAt { sequence: at.sequence, at_ms: head.at_ms.get(), offset: self.offset };
            let taken =
                next_record(rest, &mut at).map_err(Fault::from).and_then(|(message, after)| {
                    each(&place, message)?;
                    Ok(after)
                });
            match taken {
                Ok(after) => rest = after,
                Err(what) => return Ok(Some(self.damaged_at(place.sequence, what))),
            }
        }
        self.at = Position { hash, ..at };
        self.last_group = self.offset;
        self.offset += head.padded() as u64;
        Ok(None)
    }

    /// Head and records of the group that was read last, without the filler; nothing if none was.
    pub(crate) fn last_entry(&self) -> &[u8] {
        let from = usize::try_from(self.last_group - self.window_at).unwrap_or(usize::MAX);
        let group = self.window.as_bytes().get(from..).unwrap_or_default();
        let bytes = GroupHead::read(group).map_or(0, |head| head.bytes.get() as usize);
        &group[..bytes]
    }

    /// Finds the next group in the window, its hash checked, or says why there is none.
    fn find(&mut self) -> Result<Result<(GroupHead, std::ops::Range<usize>), End>, ReadError> {
        if self.offset >= self.len {
            return Ok(Err(End::Clean));
        }
        // Files end with a whole block: less than that is what is left of one.
        let Some(first) = self.window(BLOCK_BYTES)? else { return self.judge(None).map(Err) };
        let head = GroupHead::read(&self.window.as_bytes()[first.clone()]);
        let Some(head) = head else { return self.judge(None).map(Err) };
        let Some(group) = self.window(head.padded())? else {
            return self.judge(Some(head)).map(Err);
        };
        let expected = self.at.sequence;
        let sound = head.sequence.get() == expected
            && head.continues(&self.at.hash, &self.window.as_bytes()[group.clone()]);
        if sound { Ok(Ok((head, group))) } else { self.judge(Some(head)).map(Err) }
    }

    /// Decides what it means that no sound group begins here.
    fn judge(&mut self, head: Option<GroupHead>) -> Result<End, ReadError> {
        let here = self.offset;
        if let Some((later_offset, later)) = self.later_group(here)? {
            return Ok(self.damaged(Fault::Hole { later, later_offset }));
        }
        match head {
            Some(head) => {
                let there = (head.padded() as u64).min(self.len - here);
                let there = usize::try_from(there).unwrap_or(GROUP_BYTES_MAX);
                let group = self.window(there)?.map(|range| &self.window.as_bytes()[range]);
                let torn = there < head.padded() || group.is_none_or(is_torn);
                if torn {
                    Ok(End::Torn { bytes: self.used_from(here)? })
                } else {
                    Ok(self.damaged(Fault::Hash))
                }
            }
            None => {
                let used = self.used_from(here)?;
                let first = self.window(BLOCK_BYTES)?;
                let first = first.map(|range| &self.window.as_bytes()[range]);
                match first {
                    // A group's first sector is written whole or not at all.
                    Some(block) if block[..crate::files::SECTOR_BYTES].iter().any(|b| *b != 0) => {
                        Ok(self.damaged(Fault::NoGroup))
                    }
                    _ if used > 0 => Ok(End::Torn { bytes: used }),
                    _ => Ok(End::Clean),
                }
            }
        }
    }

    /// How many bytes from here to the last one that is not zero.
    fn used_from(&mut self, here: u64) -> Result<u64, ReadError> {
        let (mut offset, mut used) = (here, 0);
        while offset < self.len {
            let step = (READ_BYTES as u64).min(self.len - offset);
            let bytes = self.load(offset, usize::try_from(step).unwrap_or(READ_BYTES))?;
            if let Some(last) = bytes.iter().rposition(|byte| *byte != 0) {
                used = offset + last as u64 + 1 - here;
            }
            offset += step;
        }
        self.window_len = 0;
        Ok(used)
    }

    /// The first sound head of a group of later records behind this place.
    fn later_group(&mut self, here: u64) -> Result<Option<(u64, u64)>, ReadError> {
        let (mut offset, expected, mut found) = (here + BLOCK_BYTES as u64, self.at.sequence, None);
        while offset < self.len && found.is_none() {
            let step = (READ_BYTES as u64).min(self.len - offset);
            let bytes = self.load(offset, usize::try_from(step).unwrap_or(READ_BYTES))?;
            found = bytes.chunks(BLOCK_BYTES).enumerate().find_map(|(index, block)| {
                let head = GroupHead::read(block)?;
                let later = head.sequence.get() > expected;
                later.then_some((offset + (index * BLOCK_BYTES) as u64, head.sequence.get()))
            });
            offset += step;
        }
        self.window_len = 0;
        Ok(found)
    }

    fn damaged(&self, what: Fault) -> End {
        self.damaged_at(self.at.sequence, what)
    }

    fn damaged_at(&self, sequence: u64, what: Fault) -> End {
        End::Damaged(Damage { file: self.name.clone(), offset: self.offset, sequence, what })
    }

    /// Makes the next `bytes` of the file readable; `None` if it ends before.
    fn window(&mut self, bytes: usize) -> Result<Option<std::ops::Range<usize>>, ReadError> {
        if self.offset + bytes as u64 > self.len {
            return Ok(None);
        }
        let inside = self.offset >= self.window_at
            && self.offset + bytes as u64 <= self.window_at + self.window_len as u64;
        if !inside {
            let step = (self.step.max(bytes) as u64).min(self.len - self.offset);
            self.step = (4 * self.step).min(READ_BYTES);
            self.load(self.offset, usize::try_from(step).unwrap_or(READ_BYTES))?;
        }
        let from = usize::try_from(self.offset - self.window_at).unwrap_or(0);
        Ok(Some(from..from + bytes))
    }

    fn load(&mut self, offset: u64, bytes: usize) -> Result<&[u8], ReadError> {
        if self.window.as_bytes().len() < bytes {
            // Whoever only wants the head needs no window at all.
            let room = READ_BYTES.min(usize::try_from(self.len).unwrap_or(READ_BYTES));
            self.window = blocks(room);
        }
        let window = &mut self.window.as_mut_bytes()[..bytes];
        self.file.read_at(offset, window).map_err(ReadError::io(&self.name))?;
        (self.window_at, self.window_len) = (offset, bytes);
        Ok(&self.window.as_bytes()[..bytes])
    }
}

/// Where a record stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordAt {
    /// Its sequence.
    pub sequence: u64,
    /// When its group was gathered, ms since the Unix epoch.
    pub at_ms: u64,
    /// First byte of its group in the file.
    pub offset: u64,
}

impl RecordAt {
    /// The fault of a record whose message cannot be read.
    #[cold]
    pub(crate) fn unreadable(&self, text: String) -> Fault {
        RecordError::Message { sequence: self.sequence, text }.into()
    }
}
