//! Groups: records that are sealed together.

use std::collections::VecDeque;
use std::ops::Range;

use ledger::Record;
use zerocopy::{FromBytes, IntoBytes};

use crate::block::{Block, blocks};
use crate::codec::{self, Message};
use crate::files::BLOCK_BYTES;
use crate::format::{
    FILLER, GROUP_BYTES_MAX, GROUP_HEAD_BYTES, GroupHead, Hash, Position, RECORD_BYTES_MAX,
    RECORD_HEAD_BYTES, RecordError, RecordHead, close_group, close_record, next_record, stride,
};
use crate::handover::Waiting;
use crate::read::Fault;

/// A closed group: what is written and sealed at once.
pub struct Group {
    blocks: Vec<Block>,
    /// Bytes without the filler.
    len: usize,
    /// Bytes with the filler.
    padded: usize,
    /// When its last record was added, ms since the Unix epoch.
    at_ms: u64,
    /// Where it begins.
    before: Position,
    /// Where the next one begins.
    after: Position,
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let records = self.before.sequence..self.after.sequence;
        f.debug_struct("Group").field("records", &records).field("bytes", &self.padded).finish()
    }
}

impl Group {
    /// What a segment holds of it: whole blocks, the filler included.
    pub fn bytes(&self) -> &[u8] {
        &self.blocks.as_bytes()[..self.padded]
    }

    pub(crate) fn blocks(&self) -> &[Block] {
        &self.blocks[..self.padded / BLOCK_BYTES]
    }

    /// What another log holds of it: the same without the filler.
    pub fn entry(&self) -> &[u8] {
        &self.blocks.as_bytes()[..self.len]
    }

    /// The group that an entry holds, if it follows from `before` to its last byte.
    ///
    /// # Errors
    /// [`Fault`]: what of it is not what was appended.
    pub fn read(entry: &[u8], before: &Position) -> Result<Group, Fault> {
        let head = GroupHead::read(entry).ok_or(Fault::NoGroup)?;
        let whole = head.bytes.get() as usize == entry.len()
            && head.sequence.get() == before.sequence
            && head.continues(&before.hash, entry);
        if !whole {
            return Err(Fault::Hash);
        }
        let (mut rest, mut after) = (&entry[GROUP_HEAD_BYTES..], *before);
        for _ in 0..head.records.get() {
            (_, rest) = next_record(rest, &mut after)?;
        }
        after.hash = head.hash;
        let padded = head.padded();
        let mut blocks = blocks(padded);
        let bytes = blocks.as_mut_bytes();
        bytes[..entry.len()].copy_from_slice(entry);
        bytes[entry.len()..padded].fill(FILLER);
        let (len, at_ms) = (entry.len(), head.at_ms.get());
        Ok(Group { blocks, len, padded, at_ms, before: *before, after })
    }

    /// Its records, in order.
    ///
    /// # Errors
    /// A record that this version does not know.
    pub fn each_record(&self, mut each: impl FnMut(Record)) -> Result<(), Fault> {
        let (mut rest, mut at) = (&self.entry()[GROUP_HEAD_BYTES..], self.before);
        while at.sequence < self.after.sequence {
            let sequence = at.sequence;
            let (message, behind) = next_record(rest, &mut at)?;
            let known = codec::record(message);
            each(known.map_err(|text| RecordError::Message { sequence, text })?);
            rest = behind;
        }
        Ok(())
    }

    /// When its last record was added, ms since the Unix epoch.
    pub fn at_ms(&self) -> u64 {
        self.at_ms
    }

    /// Where it begins.
    pub fn before(&self) -> &Position {
        &self.before
    }

    /// Where the next one begins.
    pub fn after(&self) -> &Position {
        &self.after
    }

    /// How many records it has.
    pub fn records(&self) -> u64 {
        self.after.sequence - self.before.sequence
    }
}

/// What the head of an entry says of it. Only [`Group::read`] judges whether it is true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryHead {
    /// Sequences of its records.
    pub records: Range<u64>,
    /// The hash of its group.
    pub hash: Hash,
}

impl EntryHead {
    /// Reads the head, if the bytes begin with a sound one.
    pub fn read(entry: &[u8]) -> Option<EntryHead> {
        let head = GroupHead::read(entry)?;
        let first = head.sequence.get();
        let records = first..first.saturating_add(u64::from(head.records.get()));
        Some(EntryHead { records, hash: head.hash })
    }

    /// Reads the last record of an entry, where this version knows it. It is as true as the entry.
    pub fn last_record(entry: &[u8]) -> Option<Record> {
        let mut rest = entry.get(GROUP_HEAD_BYTES..)?;
        loop {
            let (head, _) = RecordHead::read_from_prefix(rest).ok()?;
            let bytes = head.bytes.get() as usize;
            let next = rest.get(stride(bytes.max(RECORD_HEAD_BYTES))..)?;
            if next.is_empty() {
                return codec::record(rest.get(RECORD_HEAD_BYTES..bytes)?).ok();
            }
            rest = next;
        }
    }
}

/// Records that nobody took yet.
///
/// While one group is in the kernel the next one gathers here, so its size follows the load: one record when little
/// happens, thousands when the disk is the slower one.
#[derive(Debug)]
pub(crate) struct Backlog {
    open: Open,
    full: VecDeque<Open>,
    spare: Vec<Vec<Block>>,
    /// How long a group may be.
    bytes_max: usize,
}

/// A group that is being filled. It is closed where the hash of the one before is known.
pub(crate) struct Open {
    blocks: Vec<Block>,
    len: usize,
    /// The hashes of these two are not known yet.
    before: Position,
    after: Position,
    at_ms: u64,
}

impl std::fmt::Debug for Open {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Open").field("len", &self.len).field("after", &self.after).finish()
    }
}

/// Buffers kept for later groups.
const SPARE_MAX: usize = 4;

impl Backlog {
    pub(crate) fn new(at: &Position, bytes_max: usize) -> Backlog {
        let open = Open::new(blocks(GROUP_BYTES_MAX), at);
        Backlog { open, full: VecDeque::new(), spare: Vec::new(), bytes_max }
    }

    /// Sequence that the next record will have.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.open.after.sequence
    }

    /// Bytes of the records that wait.
    pub(crate) fn bytes(&self) -> usize {
        let waiting = self.full.iter().chain([&self.open]);
        waiting.map(Open::bytes).sum()
    }

    #[inline]
    pub(crate) fn append(&mut self, record: &impl Message, at_ms: u64) -> u64 {
        if self.open.len + RECORD_BYTES_MAX > self.bytes_max {
            let full = self.turn_over();
            self.full.push_back(full);
        }
        self.open.at_ms = at_ms;
        self.open.append(record)
    }

    /// Begins the next group.
    fn turn_over(&mut self) -> Open {
        let room = self.spare.pop().unwrap_or_else(|| blocks(GROUP_BYTES_MAX));
        let next = Open::new(room, &self.open.after);
        std::mem::replace(&mut self.open, next)
    }

    /// Gives a sealed group's memory back.
    pub(crate) fn recycle(&mut self, group: Group) {
        if self.spare.len() < SPARE_MAX {
            self.spare.push(group.blocks);
        }
    }
}

impl Waiting for Backlog {
    type Taken = Open;

    fn is_empty(&self) -> bool {
        self.full.is_empty() && self.open.is_empty()
    }

    fn take(&mut self) -> Option<Open> {
        match self.full.pop_front() {
            None if self.open.is_empty() => None,
            None => Some(self.turn_over()),
            full => full,
        }
    }
}

impl Open {
    fn new(blocks: Vec<Block>, at: &Position) -> Open {
        Open { blocks, len: GROUP_HEAD_BYTES, before: *at, after: *at, at_ms: 0 }
    }

    /// Bytes of its records.
    pub(crate) fn bytes(&self) -> usize {
        self.len - GROUP_HEAD_BYTES
    }

    fn is_empty(&self) -> bool {
        self.bytes() == 0
    }

    #[inline]
    fn append(&mut self, record: &impl Message) -> u64 {
        let room = &mut self.blocks.as_mut_bytes()[self.len..][..RECORD_BYTES_MAX];
        let bytes = RECORD_HEAD_BYTES + record.write(&mut room[RECORD_HEAD_BYTES..]);
        let next = stride(bytes);
        room[bytes..next].fill(0);
        self.after.crc = close_record(&mut room[..next], bytes, &self.after);
        self.len += next;
        self.after.sequence += 1;
        self.after.sequence - 1
    }

    /// Closes the group behind one that has this hash.
    pub(crate) fn close(mut self, before: &Hash) -> Group {
        self.before.hash = *before;
        let padded = self.len.next_multiple_of(BLOCK_BYTES);
        let bytes = &mut self.blocks.as_mut_bytes()[..padded];
        bytes[self.len..].fill(FILLER);
        let records = self.after.sequence - self.before.sequence;
        let records = u32::try_from(records).expect("a group holds fewer than 2^16 records");
        self.after.hash = close_group(bytes, self.len, records, self.at_ms, &self.before);
        let Open { blocks, len, before, after, at_ms } = self;
        Group { blocks, len, padded, at_ms, before, after }
    }
}

/// Gathers records into closed groups.
#[derive(Debug)]
pub struct Gather {
    backlog: Backlog,
    /// Of the group that was taken last.
    hash: Hash,
}

impl Gather {
    /// Begins at a position: the end of what was recovered.
    pub fn new(at: Position) -> Gather {
        Gather { backlog: Backlog::new(&at, GROUP_BYTES_MAX), hash: at.hash }
    }

    /// Sequence that the next record will have.
    pub fn next_sequence(&self) -> u64 {
        self.backlog.next_sequence()
    }

    /// Bytes that wait to be taken.
    pub fn bytes(&self) -> usize {
        self.backlog.bytes()
    }

    /// Nothing waits.
    pub fn is_empty(&self) -> bool {
        self.backlog.is_empty()
    }

    /// Adds a record, made at this time; returns its sequence.
    #[inline]
    pub fn append(&mut self, record: &impl Message, at_ms: u64) -> u64 {
        self.backlog.append(record, at_ms)
    }

    /// The oldest group; an open one is closed for it. `None` if nothing waits.
    pub fn take(&mut self) -> Option<Group> {
        let group = self.backlog.take()?.close(&self.hash);
        self.hash = group.after.hash;
        Some(group)
    }

    /// Gives a sealed group's memory back.
    pub fn recycle(&mut self, group: Group) {
        self.backlog.recycle(group);
    }
}
