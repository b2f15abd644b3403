//! Reading what is sound of a damaged journal: of each segment as much as holds together, and behind the damage what
//! still proves itself.

use ledger::Record;
use zerocopy::{FromBytes, IntoBytes};

use crate::block::blocks;
use crate::codec;
use crate::files::{Access, BLOCK_BYTES, File, Folder};
use crate::format::{
    FileHead, GROUP_HEAD_BYTES, GroupHead, Hash, Kind, Position, RECORD_HEAD_BYTES, RecordHead,
    stride,
};
use crate::names;
use crate::read::{Damage, Fault, ReadError};
use crate::walk::{Each, open, read_segment};

/// Name of the segment with a number.
pub fn segment_name(number: u64) -> String {
    names::segment(number)
}

/// Number of the segment with a name, if it is one.
pub fn segment_number(name: &str) -> Option<u64> {
    names::parse(name).filter(|(kind, _)| *kind == Kind::Segment).map(|(_, number)| number)
}

/// Name of the snapshot that holds all records before a sequence.
pub fn snapshot_name(sequence: u64) -> String {
    names::snapshot(sequence)
}

/// What is sound of one segment.
#[derive(Clone, Debug)]
pub struct Examined {
    /// Its head; `None` if that cannot be read.
    pub head: Option<FileHead>,
    /// After its last sound group.
    pub position: Position,
    /// End of that group, bytes from the start of the file.
    pub offset: u64,
    /// Bytes of a group behind it that was not written to its end.
    pub torn_bytes: u64,
    /// Where it stops to be what it must be.
    pub fault: Option<Damage>,
}

/// Reads one segment as far as it is sound; `each` hears its records.
///
/// `expected` is what its first record must continue, and `next` the segment that continues it, with the place from
/// which it does: where these are not known, what the segment itself says counts.
///
/// # Errors
/// Only what the system says; damage is in the answer.
pub fn examine<F: Folder>(
    folder: &F,
    number: u64,
    expected: Option<Position>,
    next: Option<(u64, Position)>,
    each: &mut Each<'_>,
) -> Result<Examined, ReadError> {
    let position = expected.unwrap_or(Position::START);
    let nothing = Examined { head: None, position, offset: 0, torn_bytes: 0, fault: None };
    let mut reader = match open(folder, number) {
        Ok(reader) => reader,
        Err(ReadError::Damage(damage)) => return Ok(Examined { fault: Some(damage), ..nothing }),
        Err(error) => return Err(error),
    };
    let head = *reader.head();
    if expected.is_some_and(|expected| expected != head.position) {
        let (file, sequence) = (reader.name().to_string(), position.sequence);
        let what = Fault::Short { next: file.clone(), expected: head.position.sequence };
        let fault = Some(Damage { file, offset: 0, sequence, what });
        return Ok(Examined { head: Some(head), fault, ..nothing });
    }
    let (torn_bytes, fault) = match read_segment(&mut reader, next, each) {
        Ok(torn_bytes) => (torn_bytes, None),
        Err(ReadError::Damage(damage)) => (0, Some(damage)),
        Err(error) => return Err(error),
    };
    let (position, offset) = (*reader.at(), reader.offset());
    Ok(Examined { head: Some(head), position, offset, torn_bytes, fault })
}

/// A record that was found behind damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its sequence, as it says.
    pub sequence: u64,
    /// When its group was gathered, ms since the Unix epoch.
    pub at_ms: u64,
    /// A checksum proves it. Of a group whose neighbour before is gone, the first record has none.
    pub proven: bool,
}

/// What was found behind damage in one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Salvage {
    /// Records that could be read.
    pub records: u64,
    /// The highest sequence that any group names.
    pub last: u64,
    /// Bytes that say nothing.
    pub lost_bytes: u64,
}

/// Looks in a file from an offset on, block by block, for groups whose heads are sound, and hands out the records in
/// them that hold together.
///
/// # Errors
/// What the system says.
pub fn salvage<F: Folder>(
    folder: &F,
    file: &str,
    from: u64,
    before: Option<Position>,
    each: &mut dyn FnMut(&Found, Record),
) -> Result<Salvage, ReadError> {
    let handle = folder.open(file, Access::Read).map_err(ReadError::io(file))?;
    let len = handle.len().map_err(ReadError::io(file))?;
    let (mut offset, mut chain) = (from.max(BLOCK_BYTES as u64), Chain::after(before));
    let mut salvage = Salvage::default();
    let block_bytes = BLOCK_BYTES as u64;
    while offset + block_bytes <= len {
        let mut block = blocks(BLOCK_BYTES);
        handle.read_at(offset, block.as_mut_bytes()).map_err(ReadError::io(file))?;
        let head = GroupHead::read(block.as_bytes());
        let Some(head) = head.filter(|head| offset + head.padded() as u64 <= len) else {
            let unused = block.as_bytes().iter().all(|byte| *byte == 0);
            salvage.lost_bytes += if unused { 0 } else { block_bytes };
            chain = Chain::after(None);
            offset += block_bytes;
            continue;
        };
        let mut group = blocks(head.padded());
        handle.read_at(offset, group.as_mut_bytes()).map_err(ReadError::io(file))?;
        let bytes = &group.as_bytes()[..head.padded()];
        salvage.take_group(&head, bytes, &mut chain, each);
        offset += head.padded() as u64;
    }
    Ok(salvage)
}

/// What the next group and record should follow from, where it is known.
struct Chain {
    hash: Option<Hash>,
    crc: Option<u32>,
}

impl Chain {
    fn after(position: Option<Position>) -> Chain {
        Chain { hash: position.map(|at| at.hash), crc: position.map(|at| at.crc) }
    }
}

impl Salvage {
    fn take_group(
        &mut self,
        head: &GroupHead,
        group: &[u8],
        chain: &mut Chain,
        each: &mut dyn FnMut(&Found, Record),
    ) {
        let whole = chain.hash.is_some_and(|before| head.continues(&before, group));
        let count = u64::from(head.records.get());
        let first = head.sequence.get();
        self.last = self.last.max(first.saturating_add(count).saturating_sub(1));
        let mut rest = &group[GROUP_HEAD_BYTES..head.bytes.get() as usize];
        for sequence in first..first.saturating_add(count) {
            let Some((stored, bytes, next)) = record_at(rest, sequence) else {
                self.lost_bytes += rest.len() as u64;
                chain.crc = None;
                break;
            };
            // A record that is damaged still says, by its stored checksum, what the next one follows from.
            let follows = chain.crc.map(|crc| crc32c::crc32c_append(crc, &rest[4..next]) == stored);
            let proven = whole || follows == Some(true);
            let record = codec::record(&rest[RECORD_HEAD_BYTES..bytes]);
            match record {
                Ok(record) if proven || follows.is_none() => {
                    self.records += 1;
                    each(&Found { sequence, at_ms: head.at_ms.get(), proven }, record);
                }
                _ => self.lost_bytes += next as u64,
            }
            chain.crc = Some(stored);
            rest = &rest[next..];
        }
        chain.hash = Some(head.hash);
    }
}

/// Checksum, length, and length with the zeros behind it, of the record at the front, if it may be the one expected.
fn record_at(bytes: &[u8], sequence: u64) -> Option<(u32, usize, usize)> {
    let (head, _) = RecordHead::read_from_prefix(bytes).ok()?;
    let len = head.bytes.get() as usize;
    let fits = len >= RECORD_HEAD_BYTES && stride(len) <= bytes.len();
    (fits && head.sequence.get() == sequence).then(|| (head.crc.get(), len, stride(len)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Log;
    use crate::{Disk, Durability, Gather, Tail, Writer};
    use ledger::{Amount, Record};

    /// Three groups of three records each in one segment.
    fn journal() -> (tempfile::TempDir, Disk) {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::open(folder.path(), Durability::Os).unwrap();
        let tail = Tail { position: Position::START, next_segment: 1 };
        let mut writer = Writer::new(disk.clone(), 1, 0, tail);
        let mut gather = Gather::new(Position::START);
        for group in 0..3u64 {
            for record in 0..3 {
                let amount = Amount::new(1);
                gather.append(&Record::Returned { grant: group * 3 + record, amount }, 1);
            }
            writer.append(&gather.take().unwrap()).unwrap();
        }
        (folder, disk)
    }

    fn damage(disk: &Disk, offset: u64, byte: u8) {
        use std::os::unix::fs::FileExt;
        let path = disk.path().join(segment_name(1));
        let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        file.write_all_at(&[byte], offset).unwrap();
    }

    fn examined(disk: &Disk) -> (Examined, Vec<u64>) {
        let mut seen = Vec::new();
        let each = &mut |place: &crate::Place<'_>, _| {
            seen.push(place.at.sequence);
            Ok(())
        };
        (examine(disk, 1, Some(Position::START), None, each).unwrap(), seen)
    }

    #[test]
    fn a_sound_segment_is_sound() {
        let (_folder, disk) = journal();
        let (examined, seen) = examined(&disk);
        assert_eq!((examined.fault, seen.len(), examined.offset), (None, 9, 4 * 4096));
        let elsewhere = Position { sequence: 4, ..Position::START };
        let each = &mut |_: &crate::Place<'_>, _| Ok(());
        let other = super::examine(&disk, 1, Some(elsewhere), None, each).unwrap();
        assert!(matches!(other.fault.unwrap().what, Fault::Short { .. }));
    }

    #[test]
    fn what_stands_behind_damage_is_found() {
        let (_folder, disk) = journal();
        // The second record of the second group.
        damage(&disk, 2 * 4096 + 64 + 40 + 30, 0xEE);
        let (examined, seen) = examined(&disk);
        let fault = examined.fault.unwrap();
        assert_eq!((fault.offset, fault.sequence, seen.len()), (2 * 4096, 4, 3));
        let mut found = Vec::new();
        let (from, before) = (examined.offset, Some(examined.position));
        let name = segment_name(1);
        let salvage = salvage(&disk, &name, from, before, &mut |at, _| {
            found.push((at.sequence, at.proven));
        });
        let salvage = salvage.unwrap();
        assert_eq!((salvage.records, salvage.last), (5, 9));
        assert_eq!(found, [(4, true), (6, true), (7, true), (8, true), (9, true)]);
    }

    #[test]
    fn a_lost_group_leaves_the_next_ones() {
        let (_folder, disk) = journal();
        damage(&disk, 2 * 4096, 0);
        let mut found = Vec::new();
        let name = segment_name(1);
        let salvage = salvage(&disk, &name, 2 * 4096, None, &mut |at, _| {
            found.push((at.sequence, at.proven))
        });
        let salvage = salvage.unwrap();
        assert_eq!((salvage.records, salvage.lost_bytes, salvage.last), (3, 4096, 9));
        assert_eq!(found, [(7, false), (8, true), (9, true)], "nothing is left to prove the first");
    }
}
