//! Snapshots: the state that the records up to a place lead to, so that a start need not read them all.
//!
//! A snapshot is not taken from the running bank, which would have to stand still for it. It is made from the
//! journal: the snapshot before, and the sealed records since, replayed beside the node. So each one also proves
//! that what was sealed can be read.

use std::io;
use std::sync::atomic::AtomicBool;

use ledger::{Bank, Options, Part, Restore};
use zerocopy::IntoBytes;

use crate::block::blocks;
use crate::codec;
use crate::files::{Access, BLOCK_BYTES, File, Folder};
use crate::format::{FileHead, Kind, Position, message_version};
use crate::group::Gather;
use crate::names;
use crate::read::{Damage, End, Fault, ReadError, Reader};
use crate::replay::replay;
use crate::walk::{self, Start, segment_head, segments};

/// Parts gathered before they are written.
const WRITE_BYTES: usize = 4 << 20;

/// A snapshot that was read.
#[derive(Debug)]
pub struct Loaded {
    /// The state.
    pub bank: Bank,
    /// What its head says.
    pub head: FileHead,
    /// Version of the messages that it was written with.
    pub version: u16,
}

/// Sequences of the snapshots in a folder, rising.
///
/// # Errors
/// What the system says.
pub fn snapshots<F: Folder>(folder: &F) -> Result<Vec<u64>, ReadError> {
    let names = folder.list().map_err(ReadError::io("the journal's folder"))?;
    Ok(names::numbers(&names, Kind::Snapshot))
}

/// Reads a snapshot, whole, and checks it.
///
/// # Errors
/// [`ReadError`]: a snapshot with any fault is not used at all.
pub fn load<F: Folder>(folder: &F, sequence: u64, options: &Options) -> Result<Loaded, ReadError> {
    let name = names::snapshot(sequence);
    let loaded = load_file(folder, &name, options)?;
    if loaded.head.position.sequence != sequence {
        let found = loaded.head.position.sequence;
        let what = Fault::Replay(format!("the file holds the snapshot of record {found}"));
        return Err(Damage { file: name, offset: 0, sequence, what }.into());
    }
    Ok(loaded)
}

fn load_file<F: Folder>(folder: &F, name: &str, options: &Options) -> Result<Loaded, ReadError> {
    let file = folder.open(name, Access::Read).map_err(ReadError::io(name))?;
    let mut reader = Reader::open(file, name, Kind::Snapshot)?;
    let mut restore = Restore::new(options.clone());
    let mut version = 0;
    let end = loop {
        let end = reader.next(|at, message| {
            version = message_version(message).unwrap_or(version);
            let part = codec::part(message).map_err(|text| at.unreadable(text))?;
            restore.take(part).map_err(|error| Fault::Replay(error.to_string()))
        })?;
        if let Some(end) = end {
            break end;
        }
    };
    let wrong = |what| {
        let (file, offset, sequence) = (name.to_string(), reader.offset(), reader.at().sequence);
        ReadError::Damage(Damage { file, offset, sequence, what })
    };
    match end {
        End::Clean => {}
        End::Torn { .. } => return Err(wrong(Fault::Hash)),
        End::Damaged(damage) => return Err(damage.into()),
    }
    let bank = restore.finish().map_err(|error| wrong(Fault::Replay(error.to_string())))?;
    Ok(Loaded { bank, head: *reader.head(), version })
}

/// Writes a snapshot of a bank that replayed all records before `head.position`, reads it back, and only then gives
/// it its name.
///
/// # Errors
/// What the system says, or what the reading back found. The folder is as before, but for a temporary file.
pub fn write<F: Folder>(
    folder: &F,
    bank: &Bank,
    head: &FileHead,
    options: &Options,
) -> Result<(), ReadError> {
    let name = names::SNAPSHOT;
    let failed = ReadError::io;
    remove_if_there(folder, name).map_err(failed(name))?;
    let file = folder.create(name).map_err(failed(name))?;
    write_parts(&file, bank, head).map_err(failed(name))?;
    drop(file);
    let read = load_file(folder, name, options)?;
    let figures = |bank: &Bank| (bank.digest(), bank.amounts_digest());
    if figures(&read.bank) != figures(bank) {
        let what = Fault::Replay("the state read back differs from the one written".into());
        let (file, sequence) = (name.to_string(), head.position.sequence);
        return Err(Damage { file, offset: 0, sequence, what }.into());
    }
    let last = names::snapshot(head.position.sequence);
    // First the name of the segment that the tail begins with, which the writer may have given just now.
    let named = folder.sync().and_then(|()| folder.rename(name, &last));
    named.and_then(|()| folder.sync()).map_err(failed(&last))
}

pub(crate) fn remove_if_there<F: Folder>(folder: &F, name: &str) -> io::Result<()> {
    match folder.remove(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn write_parts<F: File>(file: &F, bank: &Bank, head: &FileHead) -> io::Result<()> {
    let mut block = blocks(BLOCK_BYTES);
    head.write(&mut block[0].0);
    file.write_at(0, block.as_bytes())?;
    // The parts follow from the head as records do, so that no head can stand before another snapshot's parts.
    let (mut offset, mut gather) = (BLOCK_BYTES as u64, Gather::new(head.position));
    let mut result = Ok(());
    bank.parts(&mut |part: Part| {
        gather.append(&part, head.at_ms);
        if result.is_ok() && gather.bytes() >= WRITE_BYTES {
            result = write_groups(file, &mut gather, &mut offset);
        }
    });
    result?;
    write_groups(file, &mut gather, &mut offset)?;
    file.sync()
}

fn write_groups<F: File>(file: &F, gather: &mut Gather, offset: &mut u64) -> io::Result<()> {
    while let Some(group) = gather.take() {
        file.write_at(*offset, group.bytes())?;
        *offset += group.bytes().len() as u64;
        gather.recycle(group);
    }
    Ok(())
}

/// When snapshots are made and what of the old files is kept.
#[derive(Clone, Copy, Debug)]
pub struct Keep {
    /// A snapshot is made when closed segments of this many bytes have no snapshot yet.
    pub snapshot_bytes: u64,
    /// Old files are kept as long as all of them have at most this many bytes...
    pub bytes_max: u64,
    /// ...and were begun at most this long ago. The two newest snapshots and what they need are always kept.
    pub ms_max: u64,
    /// Whoever follows the journal has durably read all records before this sequence: the last of these is kept, and what comes behind it,
    /// until all files have twice `bytes_max`. `u64::MAX` where nobody does.
    pub unread: u64,
}

/// What [`advance`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advanced {
    /// A snapshot was made: it holds all records before this sequence.
    pub snapshot: Option<u64>,
    /// Records that were replayed for it.
    pub replayed: u64,
    /// Files that were removed.
    pub removed: Vec<String>,
}

/// Makes a snapshot if one is due, and removes files that nobody needs any more. Works on closed segments only, so
/// it may run beside the writer. Gives up when `stop` is set.
///
/// # Errors
/// What kept it from making one; the journal itself is as good as before.
pub fn advance<F: Folder>(
    folder: &F,
    options: &Options,
    keep: &Keep,
    now_ms: u64,
    stop: &AtomicBool,
) -> Result<Advanced, ReadError> {
    let mut advanced = Advanced::default();
    if let Some(due) = due(folder, keep)? {
        let head = segment_head(folder, due)?;
        let (mut bank, start) = newest(folder, options)?;
        let start = Start { until: Some(due), ..start };
        (_, advanced.replayed) = replay(folder, &mut bank, start, stop, &mut |_| {})?;
        let head = FileHead { kind: Kind::Snapshot, at_ms: now_ms, ..head };
        write(folder, &bank, &head, options)?;
        advanced.snapshot = Some(head.position.sequence);
        advanced.removed = remove_damaged(folder, start, head.position.sequence)?;
    }
    advanced.removed.append(&mut remove_old(folder, keep, now_ms)?);
    Ok(advanced)
}

/// Removes the snapshots between the one that was loaded and the one that was made from it: they could not be
/// loaded, and must not count as one of two that a start can use.
fn remove_damaged<F: Folder>(
    folder: &F,
    loaded: Start,
    made: u64,
) -> Result<Vec<String>, ReadError> {
    let loaded = loaded.position.map_or(0, |position| position.sequence);
    let between = snapshots(folder)?.into_iter().filter(|at| (loaded + 1..made).contains(at));
    let gone: Vec<String> = between.map(names::snapshot).collect();
    remove_all(folder, &gone)?;
    Ok(gone)
}

/// The open segment, if enough closed ones wait for a snapshot.
fn due<F: Folder>(folder: &F, keep: &Keep) -> Result<Option<u64>, ReadError> {
    let numbers = segments(folder)?;
    let [closed @ .., open] = numbers.as_slice() else { return Ok(None) };
    // A damaged one covers nothing.
    let heads = snapshots(folder)?.into_iter().rev();
    let covered = heads.flat_map(|sequence| snapshot_head(folder, sequence)).next();
    let covered = covered.map_or(0, |head| head.number);
    let mut waiting = 0;
    for number in closed.iter().filter(|number| **number >= covered) {
        waiting += file_bytes(folder, &names::segment(*number))?;
    }
    let due = waiting >= keep.snapshot_bytes && waiting > 0;
    Ok(if due && has_group(folder, *open)? { Some(*open) } else { None })
}

/// A group is written once the name of its segment is durable. Before that no snapshot may name the segment.
fn has_group<F: Folder>(folder: &F, number: u64) -> Result<bool, ReadError> {
    Ok(walk::open(folder, number)?.next(|_, _| Ok(()))?.is_none())
}

fn file_bytes<F: Folder>(folder: &F, name: &str) -> Result<u64, ReadError> {
    let length = folder.open(name, Access::Read).and_then(|file| file.len());
    length.map_err(ReadError::io(name))
}

fn snapshot_head<F: Folder>(folder: &F, sequence: u64) -> Result<FileHead, ReadError> {
    let name = names::snapshot(sequence);
    let file = folder.open(&name, Access::Read).map_err(ReadError::io(&name))?;
    Ok(*Reader::open(file, &name, Kind::Snapshot)?.head())
}

/// The state of the newest sound snapshot, and where the walk from it begins; without one, the first record.
pub(crate) fn newest<F: Folder>(folder: &F, options: &Options) -> Result<(Bank, Start), ReadError> {
    let mut fault = None;
    for sequence in snapshots(folder)?.into_iter().rev() {
        match load(folder, sequence, options) {
            Ok(Loaded { bank, head, .. }) => {
                let position = Some(head.position);
                return Ok((bank, Start { segment: head.number, position, until: None }));
            }
            Err(error) => {
                tracing::error!(%error, "a snapshot is damaged; an older one is tried");
                fault.get_or_insert(error);
            }
        }
    }
    let first = segments(folder)?.first().copied();
    match (first, fault) {
        // The journal is whole from its first record on: no snapshot is needed.
        (None, None) | (Some(1), _) => {
            let start = Start { segment: 1, position: Some(Position::START), until: None };
            Ok((Bank::new(options.clone()), start))
        }
        (_, Some(error)) => Err(error),
        (Some(first), None) => {
            let file = names::segment(first - 1);
            Err(Damage { file, offset: 0, sequence: 1, what: Fault::Missing }.into())
        }
    }
}

/// Removes what the retention does not keep: the segments up to the next snapshot, with the snapshot before them, and
/// so on. So the oldest segment that stays begins where a snapshot stands: from there the books can be told.
fn remove_old<F: Folder>(folder: &F, keep: &Keep, now_ms: u64) -> Result<Vec<String>, ReadError> {
    let all = snapshots(folder)?;
    // A damaged one is no place to begin.
    let heads: Vec<FileHead> = all.iter().flat_map(|at| snapshot_head(folder, *at)).collect();
    let [bases @ .., _] = heads.as_slice() else { return Ok(Vec::new()) };
    let mut files = Vec::new();
    for number in segments(folder)? {
        files.push((number, names::segment(number)));
    }
    files.extend(heads.iter().map(|head| (head.number, names::snapshot(head.position.sequence))));
    let mut total = 0;
    for (_, name) in &files {
        total += file_bytes(folder, name)?;
    }
    let mut gone = Vec::new();
    for base in bases {
        let stretch = files.extract_if(.., |(number, _)| *number < base.number);
        let mut stretch: Vec<String> = stretch.map(|(_, name)| name).collect();
        // A snapshot goes before the segments that it needs.
        stretch.sort_by_key(|name| is_segment(name));
        let Some(last) = stretch.iter().rfind(|name| is_segment(name)) else { continue };
        let age_ms = now_ms.saturating_sub(segment_begun_ms(folder, last)?);
        let is_read =
            base.position.sequence < keep.unread || total > keep.bytes_max.saturating_mul(2);
        if total <= keep.bytes_max && age_ms <= keep.ms_max || !is_read {
            break;
        }
        for name in &stretch {
            total -= file_bytes(folder, name)?;
        }
        gone.extend(stretch);
    }
    remove_all(folder, &gone)?;
    Ok(gone)
}

fn is_segment(name: &str) -> bool {
    names::parse(name).is_some_and(|(kind, _)| kind == Kind::Segment)
}

fn segment_begun_ms<F: Folder>(folder: &F, name: &str) -> Result<u64, ReadError> {
    let number = names::parse(name).map_or(0, |(_, number)| number);
    Ok(segment_head(folder, number)?.at_ms)
}

/// One by one, the oldest first, so that a crash leaves no hole between those that stay.
fn remove_all<F: Folder>(folder: &F, names: &[String]) -> Result<(), ReadError> {
    names.iter().try_for_each(|name| {
        folder.remove(name).and_then(|()| folder.sync()).map_err(ReadError::io(name))
    })
}
