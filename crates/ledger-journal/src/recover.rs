//! What a start does before anything else: the newest sound snapshot, and every record since.

use std::io;
use std::sync::atomic::AtomicBool;

use ledger::{Bank, Options};
use zerocopy::IntoBytes;

use crate::block::blocks;
use crate::files::{Access, BLOCK_BYTES, File, Folder};
use crate::format::{
    GROUP_BYTES_MAX, GROUP_HEAD_BYTES, Position, RECORD_HEAD_BYTES, message_version,
};
use crate::names;
use crate::read::ReadError;
use crate::replay::replay;
use crate::snapshot::{newest, remove_if_there};
use crate::walk::{Start, Walked, missing, segment_head, segments};
use crate::watermark::{Rollback, WATERMARK, Watermark};

/// What a start found.
#[derive(Debug)]
pub struct Recovered {
    /// The state that all sealed records lead to. Its run is not started yet.
    pub bank: Bank,
    /// Where the journal goes on.
    pub tail: Tail,
    /// What was done for it.
    pub report: Report,
}

/// Where a journal goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tail {
    /// After the last sealed record.
    pub position: Position,
    /// Number of the segment to begin.
    pub next_segment: u64,
}

/// What was done for a start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The snapshot that was used: it holds all records before this sequence.
    pub snapshot: Option<u64>,
    /// Records read after it.
    pub records: u64,
    /// Segments read after it.
    pub segments: usize,
    /// A group that was not written to its end and was cut off.
    pub cut: Option<Cut>,
    /// Version of the messages in the last group: the one that the node wrote that ran last. `None` where the last
    /// segment has no group.
    pub version: Option<u16>,
    /// What was sealed, is not there, and is given up, as permitted.
    pub given_up: Option<Rollback>,
}

/// What was cut off the end of a journal: written when the crash came, and never acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The file.
    pub file: String,
    /// Its new length.
    pub offset: u64,
    /// Bytes that were cut.
    pub bytes: u64,
    /// Sequence of the first record in them.
    pub sequence: u64,
}

/// Why a start is not possible. Each text says where, and what can be done.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// The journal cannot be read, or is damaged.
    #[error(
        "{0}\nnothing was changed. `weir journal verify` shows how much is sound; restore the folder from a backup, \
         or see `weir journal repair --help`"
    )]
    Read(#[from] ReadError),
    /// The folder is another node's.
    #[error(
        "the journal was written by node {found}, this is node {expected}: its tokens would be foreign; set node.id, \
         or give this node a folder of its own"
    )]
    OtherNode {
        /// Who wrote it.
        found: u16,
        /// Who reads it.
        expected: u16,
    },
    /// Records that were sealed are not there.
    #[error(
        "the journal ends before record {ends}, in segment {newest}; {WATERMARK} in the data folder knows that run {} \
         had sealed all records before {}, in segment {}: the newest part is missing, or this is an older copy. \
         Nothing was changed. Is the right disk mounted? Put back what is missing, or the newest backup. If nothing \
         newer is left, start once with `weir run --accept-rollback {}`: whatever came after is forgotten, so \
         lower the limits by what was spent since",
        known.run,
        known.sealed,
        known.segment,
        Rollback::of(*ends, known)
    )]
    RolledBack {
        /// Sequence of the record that would be next.
        ends: u64,
        /// The newest segment that is there; 0 if there is none.
        newest: u64,
        /// What was known.
        known: Box<Watermark>,
    },
    /// The records are those of another journal.
    #[error(
        "segment {} begins elsewhere than {WATERMARK} in the data folder knows: this is another journal, or one that \
         went on from an older copy. Nothing was changed. Put back the folder `journal` that belongs here. If this is \
         the right one, start once with `weir run --accept-rollback {}`, and lower the limits by what the other \
         one spent",
        known.segment,
        Rollback::of(*ends, known)
    )]
    OtherJournal {
        /// Sequence of the record that would be next.
        ends: u64,
        /// What was known.
        known: Box<Watermark>,
    },
    /// The sums do not hold.
    #[error(
        "the recovered books do not add up: {0}; nothing was changed, please report this with the folder"
    )]
    Audit(String),
}

/// What a start reads, before it changes anything.
#[derive(Debug)]
pub struct ReadBack {
    /// The state that all sealed records lead to.
    pub bank: Bank,
    /// Where the reading began.
    pub start: Start,
    /// Where it ended.
    pub walked: Walked,
    /// Records read.
    pub records: u64,
    /// What was sealed, is not there, and is given up, as permitted.
    pub given_up: Option<Rollback>,
}

/// What is known of a journal beside its own files.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known {
    /// What was noted as sealed.
    pub watermark: Option<Watermark>,
    /// Go on from the journal although this is given up.
    pub accepted: Option<Rollback>,
}

impl Known {
    /// Returns what is given up, where something is and somebody accepted it.
    fn judge<F: Folder>(
        &self,
        folder: &F,
        bank: &Bank,
        ends: u64,
    ) -> Result<Option<Rollback>, RecoverError> {
        let Some(known) = self.watermark else { return Ok(None) };
        let all_there = Known::is_all_there(known, folder, bank, ends);
        let is_rollback = |error: &RecoverError| {
            matches!(error, RecoverError::RolledBack { .. } | RecoverError::OtherJournal { .. })
        };
        match all_there {
            Err(error)
                if is_rollback(&error) && self.accepted == Some(Rollback::of(ends, &known)) =>
            {
                Ok(self.accepted)
            }
            all_there => all_there.map(|()| None),
        }
    }

    /// Is everything there that was noted as sealed?
    fn is_all_there<F: Folder>(
        known: Watermark,
        folder: &F,
        bank: &Bank,
        ends: u64,
    ) -> Result<(), RecoverError> {
        let all = segments(folder)?;
        let newest = all.last().copied().unwrap_or(0);
        if newest < known.segment || ends < known.sealed || bank.run() < known.run {
            let known = Box::new(known);
            return Err(RecoverError::RolledBack { ends, newest, known });
        }
        // The retention may have removed it since, and of damage that no start reads nothing is to be said here.
        let head = all.contains(&known.segment).then(|| segment_head(folder, known.segment));
        match head {
            Some(Ok(head)) if head.position != known.begins => {
                Err(RecoverError::OtherJournal { ends, known: Box::new(known) })
            }
            _ => Ok(()),
        }
    }
}

/// Judges whether a start is possible, and reads back what it would go on from. Changes nothing: a start does this
/// first, and whoever wants to know what a start would say asks here.
///
/// `progress` hears now and then how many records were read.
///
/// # Errors
/// [`RecoverError`].
pub fn read_back<F: Folder>(
    folder: &F,
    options: &Options,
    known: &Known,
    progress: &mut dyn FnMut(u64),
) -> Result<ReadBack, RecoverError> {
    let (mut bank, start) = newest(folder, options)?;
    let never = AtomicBool::new(false);
    let (walked, records) = replay(folder, &mut bank, start, &never, progress)?;
    bank.audit().map_err(RecoverError::Audit)?;
    let from_snapshot = start.position.is_some_and(|at| at.sequence > 1);
    if walked.last_segment.is_none() && from_snapshot {
        // The snapshot was made when the segment behind it had begun.
        return Err(ReadError::from(missing(start.segment, &walked.position)).into());
    }
    let given_up = known.judge(folder, &bank, walked.position.sequence)?;
    Ok(ReadBack { bank, start, walked, records, given_up })
}

/// Reads back everything that was sealed, checks it, and cuts off what was not.
///
/// `progress` hears now and then how many records were read.
///
/// # Errors
/// [`RecoverError`]; the files are as they were.
pub fn recover<F: Folder>(
    folder: &F,
    options: &Options,
    node: u16,
    progress: &mut dyn FnMut(u64),
) -> Result<Recovered, RecoverError> {
    recover_known(folder, options, node, &Known::default(), progress)
}

/// The same, and compares with what is known of the journal beside its own files.
///
/// # Errors
/// [`RecoverError`]; the files are as they were.
pub fn recover_known<F: Folder>(
    folder: &F,
    options: &Options,
    node: u16,
    known: &Known,
    progress: &mut dyn FnMut(u64),
) -> Result<Recovered, RecoverError> {
    if let Some(last) = segments(folder)?.last() {
        let found = segment_head(folder, *last)?.node;
        if found != node {
            return Err(RecoverError::OtherNode { found, expected: node });
        }
    }
    let ReadBack { bank, start, walked, records, given_up } =
        read_back(folder, options, known, progress)?;
    let mut report = Report {
        snapshot: start.position.map(|at| at.sequence).filter(|sequence| *sequence > 1),
        records,
        version: last_version(folder, &walked)?,
        given_up,
        ..Report::default()
    };
    report.segments = walked.segments;
    report.cut = cut(folder, &walked)?;
    for name in names::TEMPORARY {
        remove_if_there(folder, name).map_err(ReadError::io(name))?;
    }
    let tail = Tail { position: walked.position, next_segment: next_segment(&walked, &start) };
    Ok(Recovered { bank, tail, report })
}

/// A segment without a group is begun anew: nobody knows whether its name is durable, and the next one could not
/// stand without it. The name of one with a group was sealed before that.
fn next_segment(walked: &Walked, start: &Start) -> u64 {
    let is_empty = walked.last_offset == walked.last_group;
    walked.last_segment.map_or(start.segment, |last| if is_empty { last } else { last + 1 })
}

/// Version of the first message in the last group.
fn last_version<F: Folder>(folder: &F, walked: &Walked) -> Result<Option<u16>, ReadError> {
    let Some(last) = walked.last_segment.filter(|_| walked.last_group < walked.last_offset) else {
        return Ok(None);
    };
    let (name, mut block) = (names::segment(last), blocks(BLOCK_BYTES));
    let read = |file: F::File| file.read_at(walked.last_group, block.as_mut_bytes());
    folder.open(&name, Access::Read).and_then(read).map_err(ReadError::io(&name))?;
    Ok(message_version(&block.as_bytes()[GROUP_HEAD_BYTES + RECORD_HEAD_BYTES..]))
}

/// Gives the last segment the length of what is sealed in it. The room that it had prepared is free again.
fn cut<F: Folder>(folder: &F, walked: &Walked) -> Result<Option<Cut>, ReadError> {
    let Some(last) = walked.last_segment else { return Ok(None) };
    for (number, end) in walked.ends.iter().filter(|(number, _)| *number < last) {
        // Segments without a group follow it, and nobody knows whether their names are durable. Without them, what
        // stands behind the end of this one would count again.
        let name = names::segment(*number);
        let cut = |file: F::File| file.set_len(*end).and_then(|()| file.sync());
        folder.open(&name, Access::Write).and_then(cut).map_err(ReadError::io(&name))?;
    }
    let name = names::segment(last);
    seal_tail(folder, &name, walked).map_err(ReadError::io(&name))?;
    let torn = walked.torn_bytes > 0;
    Ok(torn.then_some(Cut {
        file: name,
        offset: walked.last_offset,
        bytes: walked.torn_bytes,
        sequence: walked.position.sequence,
    }))
}

/// Also where there is nothing to cut: the last group was just read, and counts from now on, but the process before
/// may not have lived to seal it. It is written once more, with the same bytes. A sync alone would not do: if one
/// failed before, the page cache may hold what is not on disk, and take it for written.
fn seal_tail<F: Folder>(folder: &F, name: &str, walked: &Walked) -> io::Result<()> {
    let bytes = usize::try_from(walked.last_offset - walked.last_group).unwrap_or(GROUP_BYTES_MAX);
    let mut group = blocks(bytes);
    folder.open(name, Access::Read)?.read_at(walked.last_group, group.as_mut_bytes())?;
    let file = folder.open(name, Access::Write)?;
    file.write_at(walked.last_group, group.as_bytes())?;
    file.set_len(walked.last_offset)?;
    file.sync()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Message;
    use crate::{Disk, Durability, Gather, Log, Writer};
    use ledger::Record;

    /// A record as a node of an earlier version wrote it.
    struct Versioned<'a>(&'a Record, u16);

    impl Message for Versioned<'_> {
        fn write(&self, buf: &mut [u8]) -> usize {
            let len = self.0.write(buf);
            buf[6..8].copy_from_slice(&self.1.to_le_bytes());
            // A run had no name of its machine.
            len - if self.1 < 12 { size_of::<u32>() } else { 0 }
        }
    }

    #[test]
    fn a_start_learns_the_version_that_ran_last() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::open(folder.path(), Durability::Os).unwrap();
        let options = Options::default();
        let mut bank = Bank::new(options.clone());
        let mut tail = Tail { position: Position::START, next_segment: 1 };
        for version in [1, 2, wire::journal::SCHEMA_VERSION] {
            let mut out = ledger::Out::default();
            bank.start_run(1_000, &mut out);
            let mut gather = Gather::new(tail.position);
            for record in &out.records {
                gather.append(&Versioned(record, version), 1_000);
            }
            let mut writer = Writer::new(disk.clone(), 1, 0, tail);
            writer.append(&gather.take().unwrap()).unwrap();
            let recovered = recover(&disk, &options, 1, &mut |_| {}).unwrap();
            assert_eq!(recovered.report.version, Some(version));
            assert_eq!(recovered.bank.digest(), bank.digest());
            tail = recovered.tail;
        }
        // A segment that was begun, and nothing more.
        Writer::new(disk.clone(), 1, 0, tail).open(1_000).unwrap();
        assert_eq!(recover(&disk, &options, 1, &mut |_| {}).unwrap().report.version, None);
    }
}
