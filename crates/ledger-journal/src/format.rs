//! The bytes of segments and snapshots. `docs/formats.md` draws them; the structs here are those drawings.
//!
//! A file is a head block and then groups. A group is a head, records, and filler up to the next block. What is
//! written is never zero for a whole sector, and files are zeros before they are written: so a sector of zeros inside
//! of a group says that the group was not written to its end, and anything else that is wrong with it says that it
//! was damaged later.

use sha2::{Digest, Sha256};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::files::{BLOCK_BYTES, SECTOR_BYTES};

/// Version of the layout of heads, groups and records. Messages carry a version of their own.
pub const FORMAT: u16 = 1;
/// Bytes in front of every record's message.
pub const RECORD_HEAD_BYTES: usize = size_of::<RecordHead>();
/// Bytes in front of a group's records.
pub const GROUP_HEAD_BYTES: usize = size_of::<GroupHead>();
/// A group with its filler has at most this many bytes.
pub const GROUP_BYTES_MAX: usize = 1 << 20;
/// A record with its head has at most this many bytes.
pub const RECORD_BYTES_MAX: usize = 1 << 16;

/// What stands where nothing else does.
pub(crate) const FILLER: u8 = 0xA5;
const GROUP_MAGIC: [u8; 4] = *b"WGRP";

/// A SHA-256 sum.
pub type Hash = [u8; 32];

/// A place between two records: what the next one must continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Sequence of the next record; the first ever is 1.
    pub sequence: u64,
    /// Checksum of the record before it.
    pub crc: u32,
    /// Hash of the group before it.
    pub hash: Hash,
}

impl Position {
    /// Before the first record.
    pub const START: Position = Position { sequence: 1, crc: 0, hash: [0; 32] };
}

/// What kind of file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A piece of the journal.
    Segment,
    /// The state that the journal led to.
    Snapshot,
}

impl Kind {
    fn magic(self) -> [u8; 8] {
        match self {
            Kind::Segment => *b"WEIRJRNL",
            Kind::Snapshot => *b"WEIRSNAP",
        }
    }
}

/// The first bytes of a file.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHead {
    magic: [u8; 8],
    format: U16,
    node: U16,
    /// Over the whole block, these four bytes being zero.
    block_crc: U32,
    number: U64,
    sequence: U64,
    at_ms: U64,
    record_crc: U32,
    unused: U32,
    hash: Hash,
}

/// What the head block of a file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHead {
    /// What kind of file it is.
    pub kind: Kind,
    /// The node that wrote it.
    pub node: u16,
    /// Segments are numbered without gaps. For a snapshot: the segment that its tail begins with.
    pub number: u64,
    /// When it was made, ms since the Unix epoch.
    pub at_ms: u64,
    /// Where the journal stood: a segment's first record continues from here; a snapshot holds all before.
    pub position: Position,
}

/// Why a head block is not one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// Something else, or damaged in its first bytes.
    #[error("the file does not begin like a {0:?} of a journal")]
    Magic(Kind),
    /// Damaged.
    #[error("the checksum of the head block is wrong")]
    Checksum,
    /// Written by another version of Weir.
    #[error("the file has format {found}, this version reads {FORMAT}")]
    Format {
        /// The format found.
        found: u16,
    },
}

impl FileHead {
    /// The head block of the file.
    pub(crate) fn write(&self, block: &mut [u8; BLOCK_BYTES]) {
        block.fill(FILLER);
        let mut raw = RawHead {
            magic: self.kind.magic(),
            format: FORMAT.into(),
            node: self.node.into(),
            block_crc: U32::ZERO,
            number: self.number.into(),
            sequence: self.position.sequence.into(),
            at_ms: self.at_ms.into(),
            record_crc: self.position.crc.into(),
            unused: U32::ZERO,
            hash: self.position.hash,
        };
        let _ = raw.write_to_prefix(block);
        raw.block_crc = crc32c::crc32c(block).into();
        let _ = raw.write_to_prefix(block);
    }

    /// Reads a head block.
    ///
    /// # Errors
    /// [`HeadError`].
    pub(crate) fn read(block: &[u8; BLOCK_BYTES], kind: Kind) -> Result<FileHead, HeadError> {
        let Ok((mut raw, _)) = RawHead::read_from_prefix(block) else {
            return Err(HeadError::Magic(kind));
        };
        if raw.magic != kind.magic() {
            return Err(HeadError::Magic(kind));
        }
        let found = raw.block_crc.get();
        raw.block_crc = U32::ZERO;
        let mut copy = *block;
        let _ = raw.write_to_prefix(&mut copy);
        if crc32c::crc32c(&copy) != found {
            return Err(HeadError::Checksum);
        }
        if raw.format.get() != FORMAT {
            return Err(HeadError::Format { found: raw.format.get() });
        }
        let position =
            Position { sequence: raw.sequence.get(), crc: raw.record_crc.get(), hash: raw.hash };
        let (node, number, at_ms) = (raw.node.get(), raw.number.get(), raw.at_ms.get());
        Ok(FileHead { kind, node, number, at_ms, position })
    }
}

/// The first bytes of a group.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct GroupHead {
    magic: [u8; 4],
    /// Over the rest of the head.
    crc: U32,
    /// Head and records, without the filler.
    pub(crate) bytes: U32,
    pub(crate) records: U32,
    pub(crate) sequence: U64,
    pub(crate) at_ms: U64,
    /// Of the group before, and of this one without its first eight bytes, this field and the filler.
    pub(crate) hash: Hash,
}

const _: () = assert!(size_of::<GroupHead>() == 64);
/// Of a group's head, what goes into its hash.
const HASHED: std::ops::Range<usize> = 8..32;

/// Writes the head of a group whose records and filler are in place.
pub(crate) fn close_group(
    group: &mut [u8],
    bytes: usize,
    records: u32,
    at_ms: u64,
    at: &Position,
) -> Hash {
    let mut head = GroupHead {
        magic: GROUP_MAGIC,
        crc: U32::ZERO,
        bytes: U32::new(u32::try_from(bytes).expect("at most GROUP_BYTES_MAX")),
        records: records.into(),
        sequence: at.sequence.into(),
        at_ms: at_ms.into(),
        hash: [0; 32],
    };
    let _ = head.write_to_prefix(group);
    head.hash = hash_group(&at.hash, &group[..bytes]);
    head.crc = crc32c::crc32c(&head.as_bytes()[8..]).into();
    let _ = head.write_to_prefix(group);
    head.hash
}

fn hash_group(before: &Hash, group: &[u8]) -> Hash {
    let mut sum = Sha256::new();
    sum.update(before);
    sum.update(&group[HASHED]);
    sum.update(&group[GROUP_HEAD_BYTES..]);
    sum.finalize().into()
}

impl GroupHead {
    /// The head at the start of these bytes, if there is a sound one.
    pub(crate) fn read(bytes: &[u8]) -> Option<GroupHead> {
        let (head, _) = GroupHead::read_from_prefix(bytes).ok()?;
        let sound = head.magic == GROUP_MAGIC
            && head.crc.get() == crc32c::crc32c(&head.as_bytes()[8..])
            && (GROUP_HEAD_BYTES..=GROUP_BYTES_MAX).contains(&(head.bytes.get() as usize));
        sound.then_some(head)
    }

    /// Bytes of the group on disk.
    pub(crate) fn padded(&self) -> usize {
        (self.bytes.get() as usize).next_multiple_of(BLOCK_BYTES)
    }

    /// Does the whole group follow from the one before, and is what stands behind it filler?
    pub(crate) fn continues(&self, before: &Hash, group: &[u8]) -> bool {
        let (bytes, filler) = group.split_at(self.bytes.get() as usize);
        hash_group(before, bytes) == self.hash && filler.iter().all(|byte| *byte == FILLER)
    }
}

/// Is there a sector of zeros: was the group never written to its end?
pub(crate) fn is_torn(group: &[u8]) -> bool {
    group.chunks(SECTOR_BYTES).any(|sector| sector.iter().all(|byte| *byte == 0))
}

/// The first bytes of a record. The message behind them tells its type and version.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RecordHead {
    /// Over the checksum of the record before, and the rest of this one with the zeros behind it.
    pub(crate) crc: U32,
    /// Head and message. The next record begins at the next multiple of eight, after zeros.
    pub(crate) bytes: U32,
    pub(crate) sequence: U64,
}

const _: () = assert!(RECORD_HEAD_BYTES == 16);

/// Bytes from the start of a record of so many bytes to the start of the next one.
#[inline]
pub(crate) fn stride(bytes: usize) -> usize {
    bytes.next_multiple_of(8)
}

/// Writes the head of a record of so many bytes whose message, and the zeros behind it, are in place. Returns its
/// checksum.
#[inline]
pub(crate) fn close_record(record: &mut [u8], bytes: usize, at: &Position) -> u32 {
    let bytes = U32::new(u32::try_from(bytes).expect("at most RECORD_BYTES_MAX"));
    let mut head = RecordHead { crc: U32::ZERO, bytes, sequence: at.sequence.into() };
    let _ = head.write_to_prefix(record);
    let crc = crc32c::crc32c_append(at.crc, &record[4..]);
    head.crc = crc.into();
    let _ = head.write_to_prefix(record);
    crc
}

/// The version that a message says it was written with: the last two of the eight bytes of its head.
pub(crate) fn message_version(message: &[u8]) -> Option<u16> {
    U16::read_from_bytes(message.get(6..8)?).ok().map(U16::get)
}

/// What is wrong with a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// A length that does not fit the group.
    #[error("record {sequence}: its length {found} does not fit its group")]
    Length {
        /// The record.
        sequence: u64,
        /// The length found.
        found: u32,
    },
    /// Another number than the next one.
    #[error("record {found} follows, expected {expected}")]
    Sequence {
        /// The number found.
        found: u64,
        /// The number that should be there.
        expected: u64,
    },
    /// Changed, or not the one that followed the record before.
    #[error("record {sequence}: its checksum does not follow from the record before")]
    Checksum {
        /// The record.
        sequence: u64,
    },
    /// Sound bytes that are no message this version knows.
    #[error("record {sequence}: {text}")]
    Message {
        /// The record.
        sequence: u64,
        /// What is wrong.
        text: String,
    },
}

/// Takes the next record off the front of `bytes`. Returns its message and what is left; moves the position on.
#[inline]
pub(crate) fn next_record<'a>(
    bytes: &'a [u8],
    at: &mut Position,
) -> Result<(&'a [u8], &'a [u8]), RecordError> {
    let expected = at.sequence;
    let Ok((head, _)) = RecordHead::read_from_prefix(bytes) else {
        return Err(RecordError::Length { sequence: expected, found: 0 });
    };
    let found = head.bytes.get();
    let (len, next) = (found as usize, stride(found as usize));
    if len < RECORD_HEAD_BYTES || next > bytes.len() {
        return Err(RecordError::Length { sequence: expected, found });
    }
    if head.sequence.get() != expected {
        return Err(RecordError::Sequence { found: head.sequence.get(), expected });
    }
    let crc = crc32c::crc32c_append(at.crc, &bytes[4..next]);
    if crc != head.crc.get() {
        return Err(RecordError::Checksum { sequence: expected });
    }
    let Some(sequence) = expected.checked_add(1) else {
        return Err(RecordError::Sequence { found: expected, expected });
    };
    (at.sequence, at.crc) = (sequence, crc);
    Ok((&bytes[RECORD_HEAD_BYTES..len], &bytes[next..]))
}
