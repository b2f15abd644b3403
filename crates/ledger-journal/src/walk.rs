//! Walking over the records of a journal, segment by segment.

use std::ops::ControlFlow;

use ledger::Record;

use crate::codec;
use crate::files::{Access, Folder};
use crate::format::{FileHead, Kind, Position};
use crate::names;
use crate::read::{Damage, End, Fault, ReadError, Reader, RecordAt};

/// A record's place, and the file it is in.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// Name of the file.
    pub file: &'a str,
    /// Where in it.
    pub at: RecordAt,
}

/// Takes each record in turn. An error stops the walk there.
pub type Each<'a> = dyn FnMut(&Place<'_>, Record) -> Result<(), Fault> + 'a;

/// Where a walk begins.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// The first segment to read.
    pub segment: u64,
    /// What its first record must continue; `None` takes what the segment says.
    pub position: Option<Position>,
    /// The segment not to read any more: the walk ends where it begins. `None` walks to the end.
    pub until: Option<u64>,
}

/// Where a walk ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walked {
    /// After the last record.
    pub position: Position,
    /// Number of the last segment; `None` if there was none.
    pub last_segment: Option<u64>,
    /// Start of the last group in that segment, bytes from its start; its end, if it has none.
    pub last_group: u64,
    /// End of the last group in that segment, bytes from its start.
    pub last_offset: u64,
    /// Bytes of a group that was not written to its end, behind it.
    pub torn_bytes: u64,
    /// Where the journal could end: the last segment with a group, and those without one behind it. Number, and end of
    /// what counts.
    pub ends: Vec<(u64, u64)>,
    /// How many segments were read.
    pub segments: usize,
}

/// Numbers of the segments in a folder, rising.
///
/// # Errors
/// What the system says.
pub fn segments<F: Folder>(folder: &F) -> Result<Vec<u64>, ReadError> {
    let names = folder.list().map_err(ReadError::io("the journal's folder"))?;
    Ok(names::numbers(&names, Kind::Segment))
}

/// Reads the head of a segment.
///
/// # Errors
/// [`ReadError`].
pub fn segment_head<F: Folder>(folder: &F, number: u64) -> Result<FileHead, ReadError> {
    Ok(*open(folder, number)?.head())
}

pub(crate) fn open<F: Folder>(folder: &F, number: u64) -> Result<Reader<F::File>, ReadError> {
    let name = names::segment(number);
    let file = folder.open(&name, Access::Read).map_err(|source| {
        if source.kind() == std::io::ErrorKind::NotFound {
            return ReadError::Damage(missing(number, &Position::START));
        }
        ReadError::Io { file: name.clone(), source }
    })?;
    let reader = Reader::open(file, &name, Kind::Segment)?;
    if reader.head().number != number {
        return Err(missing(number, &reader.head().position).into());
    }
    Ok(reader)
}

/// A segment that must be there, and would go on from `at`, is not.
pub(crate) fn missing(number: u64, at: &Position) -> Damage {
    let (file, sequence) = (names::segment(number), at.sequence);
    Damage { file, offset: 0, sequence, what: Fault::Missing }
}

/// Walks over the records.
///
/// A segment ends where the next one says that it continues: what stands behind that place was never acknowledged.
/// Only the last one may end torn.
///
/// # Errors
/// [`ReadError`]: the exact place where the journal is not what it must be.
pub fn walk<F: Folder>(folder: &F, start: Start, each: &mut Each<'_>) -> Result<Walked, ReadError> {
    let all = segments(folder)?;
    let numbers = all.iter().copied().filter(|number| *number >= start.segment);
    let numbers: Vec<u64> =
        numbers.filter(|number| start.until.is_none_or(|until| *number < until)).collect();
    let mut walked = Walked {
        position: start.position.unwrap_or(Position::START),
        last_segment: None,
        last_group: 0,
        last_offset: 0,
        torn_bytes: 0,
        ends: Vec::new(),
        segments: 0,
    };
    let mut expected = start.position;
    for (index, number) in numbers.iter().copied().enumerate() {
        let due = start.segment + index as u64;
        if number != due {
            return Err(missing(due, &walked.position).into());
        }
        let next = numbers.get(index + 1).copied().or(start.until);
        if let Some(next) = next
            && next != due + 1
        {
            return Err(missing(due + 1, &walked.position).into());
        }
        let next = next.map(|next| Ok((next, segment_head(folder, next)?.position)));
        let next: Option<(u64, Position)> = next.transpose().map_err(|e: ReadError| e)?;
        let mut reader = open(folder, number)?;
        if expected.is_some_and(|expected| expected != reader.head().position) {
            return Err(misplaced(&reader, &walked.position).into());
        }
        walked.torn_bytes = read_segment(&mut reader, next, each)?;
        walked.position = *reader.at();
        walked.last_segment = Some(number);
        walked.last_group = reader.last_group();
        walked.last_offset = reader.offset();
        if reader.last_group() < reader.offset() {
            walked.ends.clear();
        }
        walked.ends.push((number, reader.offset()));
        walked.segments += 1;
        expected = Some(walked.position);
    }
    Ok(walked)
}

/// Hands the groups between two places to `each`: the head and the records of each, without the filler.
pub(crate) fn read_groups<F: Folder>(
    folder: &F,
    at: &Position,
    end: &Position,
    each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
) -> Result<(), ReadError> {
    let mut heads = Vec::new();
    for number in segments(folder)? {
        heads.push((number, segment_head(folder, number)?.position));
    }
    // Segments without a group begin where the one before begins: the last of them has what follows.
    let first = heads.iter().rposition(|(_, head)| head.sequence <= at.sequence);
    let Some(first) = first else {
        return if at == end { Ok(()) } else { Err(missing(1, at).into()) };
    };
    let nexts = heads[first..].iter().skip(1).map(|(_, next)| next).chain([end]);
    for ((number, _), until) in heads[first..].iter().zip(nexts) {
        if read_entries(&mut open(folder, *number)?, at, until, each)?.is_break() {
            break;
        }
    }
    Ok(())
}

/// The groups of a segment from `at` on, up to where the next one continues.
fn read_entries<F: crate::files::File>(
    reader: &mut Reader<F>,
    at: &Position,
    until: &Position,
    each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, ReadError> {
    loop {
        let here = *reader.at();
        if here.sequence == at.sequence && here != *at {
            return Err(forked(reader).into());
        }
        if here.sequence >= until.sequence {
            return if here == *until {
                Ok(ControlFlow::Continue(()))
            } else {
                Err(forked(reader).into())
            };
        }
        match reader.next(|_, _| Ok(()))? {
            None if here.sequence < at.sequence => {
                // A group reaches over the place: whoever knows a group to end there knows another history.
                if reader.at().sequence > at.sequence {
                    return Err(forked(reader).into());
                }
            }
            None => {
                if each(reader.last_entry()).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            Some(End::Damaged(damage)) => return Err(damage.into()),
            Some(End::Clean | End::Torn { .. }) => {
                let (name, next) = (reader.name().to_string(), reader.head().number + 1);
                return Err(short(reader, Some((next, *until)), &name).into());
            }
        }
    }
}

/// What stands here is not what somebody knows to be here.
fn forked<F: crate::files::File>(reader: &Reader<F>) -> Damage {
    let (offset, sequence) = (reader.offset(), reader.at().sequence);
    Damage { file: reader.name().to_string(), offset, sequence, what: Fault::Hash }
}

/// A segment does not continue what was read before it.
pub(crate) fn misplaced<F: crate::files::File>(reader: &Reader<F>, at: &Position) -> Damage {
    let expected = reader.head().position.sequence;
    let what = Fault::Short { next: reader.name().to_string(), expected };
    Damage { file: reader.name().to_string(), offset: 0, sequence: at.sequence, what }
}

/// Reads a segment up to where the next one continues. Returns how many torn bytes stand at its end.
pub(crate) fn read_segment<F: crate::files::File>(
    reader: &mut Reader<F>,
    next: Option<(u64, Position)>,
    each: &mut Each<'_>,
) -> Result<u64, ReadError> {
    let name = reader.name().to_string();
    loop {
        if let Some((_, position)) = next
            && reader.at().sequence >= position.sequence
        {
            let whole = *reader.at() == position;
            return if whole { Ok(0) } else { Err(short(reader, next, &name).into()) };
        }
        let end = reader.next(|at, message| {
            let record = codec::record(message).map_err(|text| at.unreadable(text))?;
            each(&Place { file: &name, at: *at }, record)
        })?;
        match end {
            None => {}
            Some(End::Damaged(damage)) => return Err(damage.into()),
            Some(End::Clean | End::Torn { .. }) if next.is_some() => {
                return Err(short(reader, next, &name).into());
            }
            Some(End::Clean) => return Ok(0),
            Some(End::Torn { bytes }) => return Ok(bytes),
        }
    }
}

fn short<F: crate::files::File>(
    reader: &Reader<F>,
    next: Option<(u64, Position)>,
    name: &str,
) -> Damage {
    let (number, position) = next.unwrap_or((0, Position::START));
    Damage {
        file: name.to_string(),
        offset: reader.offset(),
        sequence: reader.at().sequence,
        what: Fault::Short { next: names::segment(number), expected: position.sequence },
    }
}
