//! Groups: records that are sealed together.

use std::collections::VecDeque;

use zerocopy::IntoBytes;

use crate::block::{Block, blocks};
use crate::codec::Message;
use crate::files::BLOCK_BYTES;
use crate::format::{
    FILLER, GROUP_BYTES_MAX, GROUP_HEAD_BYTES, Hash, Position, RECORD_BYTES_MAX, RECORD_HEAD_BYTES,
    close_group, close_record, stride,
};

/// A closed group: what is written and sealed at once.
pub struct Group {
    blocks: Vec<Block>,
    /// Bytes with the filler.
    padded: usize,
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
    /// What is written.
    pub fn bytes(&self) -> &[u8] {
        &self.blocks.as_bytes()[..self.padded]
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

/// Records that nobody took yet.
///
/// While one group is in the kernel the next one gathers here, so its size follows the load: one record when little
/// happens, thousands when the disk is the slower one.
#[derive(Debug)]
pub(crate) struct Backlog {
    open: Open,
    full: VecDeque<Open>,
    spare: Vec<Vec<Block>>,
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
    pub(crate) fn new(at: &Position) -> Backlog {
        let open = Open::new(blocks(GROUP_BYTES_MAX), at);
        Backlog { open, full: VecDeque::new(), spare: Vec::new() }
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

    pub(crate) fn is_empty(&self) -> bool {
        self.full.is_empty() && self.open.is_empty()
    }

    #[inline]
    pub(crate) fn append(&mut self, record: &impl Message, at_ms: u64) -> u64 {
        if self.open.is_full() {
            let full = self.turn_over();
            self.full.push_back(full);
        }
        self.open.at_ms = at_ms;
        self.open.append(record)
    }

    /// The oldest records; `None` if nothing waits.
    pub(crate) fn take(&mut self) -> Option<Open> {
        match self.full.pop_front() {
            None if self.open.is_empty() => None,
            None => Some(self.turn_over()),
            full => full,
        }
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

    fn is_full(&self) -> bool {
        self.len + RECORD_BYTES_MAX > GROUP_BYTES_MAX
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
        Group { blocks: self.blocks, padded, before: self.before, after: self.after }
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
        Gather { backlog: Backlog::new(&at), hash: at.hash }
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
