//! The watermark: what is known to be sealed, in a small file outside of the journal's folder.
//!
//! Hashes and sequences show what is missing between records, but not that the newest ones are gone: a journal of
//! yesterday is as sound as the one of today. So the place up to which records were sealed is noted elsewhere. The
//! note may lag behind the journal and is never ahead of what is on the disk, so that no crash makes a sound journal
//! look rolled back: what it names is synced first, and it is replaced whole.

use std::fmt;
use std::io;
use std::str::FromStr;

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::block::blocks;
use crate::files::{Access, BLOCK_BYTES, File, Folder};
use crate::format::{FILLER, FORMAT, Hash, Position};
use crate::names;
use crate::read::ReadError;
use crate::snapshot::remove_if_there;
use crate::walk::{segment_head, segments};

/// Name of the file.
pub const WATERMARK: &str = "watermark.weir";
/// The same while it is written.
const WRITING: &str = "watermark.tmp";
const MAGIC: [u8; 8] = *b"WEIRMARK";

/// What is known to be sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermark {
    /// The node that wrote it.
    pub node: u16,
    /// The last run of which a record is sealed; 0 before the first.
    pub run: u32,
    /// The newest segment.
    pub segment: u64,
    /// Where that segment begins: no other journal has this place.
    pub begins: Position,
    /// All records before this sequence are sealed.
    pub sealed: u64,
    /// When it was noted, ms since the Unix epoch.
    pub at_ms: u64,
}

/// The first bytes of the file; the rest of its one block says nothing.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    magic: [u8; 8],
    format: U16,
    node: U16,
    /// Over the whole block, these four bytes being zero.
    block_crc: U32,
    segment: U64,
    begins: U64,
    at_ms: U64,
    record_crc: U32,
    run: U32,
    hash: Hash,
    sealed: U64,
}

/// Why there is no watermark to compare with.
#[derive(Debug, thiserror::Error)]
pub enum WatermarkError {
    /// What the system says.
    #[error("{WATERMARK}: {0}")]
    Io(#[from] io::Error),
    /// It was changed or cut after it was written, or a newer version wrote it.
    #[error("{WATERMARK} is not one that this version wrote: damaged, cut, or of a newer version")]
    Unreadable,
}

impl Watermark {
    /// The watermark in a folder; `None` if there is none.
    ///
    /// # Errors
    /// [`WatermarkError`].
    pub fn read<F: Folder>(data: &F) -> Result<Option<Watermark>, WatermarkError> {
        let file = match data.open(WATERMARK, Access::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let mut block = blocks(BLOCK_BYTES);
        match file.read_at(0, block.as_mut_bytes()) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(WatermarkError::Unreadable);
            }
            Err(error) => return Err(error.into()),
        }
        Watermark::of(&mut block[0].0).map(Some).ok_or(WatermarkError::Unreadable)
    }

    fn of(block: &mut [u8; BLOCK_BYTES]) -> Option<Watermark> {
        let (mut raw, _) = Raw::read_from_prefix(block).ok()?;
        let found = std::mem::replace(&mut raw.block_crc, U32::ZERO);
        raw.write_to_prefix(block).ok()?;
        let sound = raw.magic == MAGIC
            && raw.format.get() == FORMAT
            && crc32c::crc32c(block) == found.get();
        sound.then(|| Watermark {
            node: raw.node.get(),
            run: raw.run.get(),
            segment: raw.segment.get(),
            begins: Position {
                sequence: raw.begins.get(),
                crc: raw.record_crc.get(),
                hash: raw.hash,
            },
            sealed: raw.sealed.get(),
            at_ms: raw.at_ms.get(),
        })
    }

    /// Returns a checksum over all that it says, its time included: no other note has it but by chance.
    fn checksum(self) -> u32 {
        let mut block = blocks(BLOCK_BYTES);
        self.to_block(&mut block[0].0);
        Raw::read_from_prefix(&block[0].0).map_or(0, |(raw, _)| raw.block_crc.get())
    }

    fn to_block(self, block: &mut [u8; BLOCK_BYTES]) {
        block.fill(FILLER);
        let mut raw = Raw {
            magic: MAGIC,
            format: FORMAT.into(),
            node: self.node.into(),
            block_crc: U32::ZERO,
            segment: self.segment.into(),
            begins: self.begins.sequence.into(),
            at_ms: self.at_ms.into(),
            record_crc: self.begins.crc.into(),
            run: self.run.into(),
            hash: self.begins.hash,
            sealed: self.sealed.into(),
        };
        let _ = raw.write_to_prefix(block);
        raw.block_crc = crc32c::crc32c(block).into();
        let _ = raw.write_to_prefix(block);
    }

    /// Replaces the watermark of a folder, durably: after a crash it is the one before or this one.
    ///
    /// # Errors
    /// What the system says; the one before is still there.
    pub fn write<F: Folder>(self, data: &F) -> io::Result<()> {
        remove_if_there(data, WRITING)?;
        let file = data.create(WRITING)?;
        let mut block = blocks(BLOCK_BYTES);
        self.to_block(&mut block[0].0);
        let written = file.write_at(0, block.as_bytes()).and_then(|()| file.sync());
        if written.is_err() {
            // The room is better used otherwise. That it failed is what counts.
            let _ = remove_if_there(data, WRITING);
        }
        written?;
        data.rename(WRITING, WATERMARK)?;
        data.sync()
    }
}

/// What is given up where a journal goes on although it ends before what was sealed: both ends of it, and which loss it is. Written
/// `11-22-0a1b2c3d`. A second loss has another one, also where it begins at the same record, so a permit for the first does not let
/// it pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rollback {
    ends: u64,
    sealed: u64,
    checksum: u32,
}

/// A text that names no [`Rollback`].
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("found {0:?}, expected the value that the refused start named, such as 11-22-0a1b2c3d")]
pub struct RollbackError(String);

impl Rollback {
    /// The records from `ends`, the next one of the journal, to what a watermark knows as sealed.
    #[must_use]
    pub fn of(ends: u64, known: &Watermark) -> Rollback {
        Rollback { ends, sealed: known.sealed, checksum: known.checksum() }
    }
}

impl fmt::Display for Rollback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{:08x}", self.ends, self.sealed, self.checksum)
    }
}

impl FromStr for Rollback {
    type Err = RollbackError;

    fn from_str(text: &str) -> Result<Rollback, RollbackError> {
        let mut parts = text.split('-');
        let mut next = || parts.next().unwrap_or_default();
        let (ends, sealed, checksum) = (next(), next(), next());
        let read = || {
            let (ends, sealed) = (ends.parse().ok()?, sealed.parse().ok()?);
            Some(Rollback { ends, sealed, checksum: u32::from_str_radix(checksum, 16).ok()? })
        };
        // Only as it is written: no signs, no blanks, nothing behind it.
        read().filter(|read| read.to_string() == text).ok_or_else(|| RollbackError(text.to_owned()))
    }
}

/// Keeps a watermark up to date.
#[derive(Debug)]
pub struct Watermarks<F> {
    /// Where the watermark is.
    data: F,
    /// The journal, by a way of writing that syncs whatever the journal's own does.
    journal: F,
    node: u16,
    /// Sequence of the first record of this run, and the numbers of the run before and of this one.
    first: u64,
    runs: [u32; 2],
    /// What was noted last: sealed, segment.
    noted: Option<(u64, u64)>,
}

impl<F: Folder> Watermarks<F> {
    /// For the run `run` of a node, whose first record will be `first`; the one before was `before`.
    pub fn new(data: F, journal: F, node: u16, first: u64, [before, run]: [u32; 2]) -> Self {
        Watermarks { data, journal, node, first, runs: [before, run], noted: None }
    }

    /// Notes that all records before `sealed` are sealed, unless that was noted already.
    ///
    /// # Errors
    /// What the system says, or that the newest segment cannot be read; what was noted before stays.
    pub fn note(&mut self, sealed: u64, at_ms: u64) -> Result<(), ReadError> {
        let all = segments(&self.journal)?;
        let Some(segment) = all.last().copied() else { return Ok(()) };
        if self.noted == Some((sealed, segment)) {
            return Ok(());
        }
        let begins = segment_head(&self.journal, segment)?.position;
        self.sync_journal(&all)?;
        let [before, this] = self.runs;
        let run = if sealed > self.first { this } else { before };
        let mark = Watermark { node: self.node, run, segment, begins, sealed, at_ms };
        mark.write(&self.data).map_err(ReadError::io(WATERMARK))?;
        self.noted = Some((sealed, segment));
        Ok(())
    }

    /// A journal that lets the system write when it likes (`journal.durability` `os`) has sealed what no disk has yet,
    /// and the segment may have got its name this moment.
    fn sync_journal(&self, all: &[u64]) -> Result<(), ReadError> {
        // At first all: nobody knows what an earlier run left to the system.
        let from = self.noted.map_or(0, |(_, segment)| segment);
        let newest = all.last().copied().unwrap_or(0);
        for number in all.iter().copied().filter(|number| *number >= from) {
            let name = names::segment(number);
            match self.journal.open(&name, Access::Write).and_then(|file| file.sync()) {
                // The retention was faster.
                Err(error) if error.kind() == io::ErrorKind::NotFound && number < newest => {}
                synced => synced.map_err(ReadError::io(&name))?,
            }
        }
        self.journal.sync().map_err(ReadError::io("the journal's folder"))
    }
}
