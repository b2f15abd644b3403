//! The log of a node: the cluster's log first, the node's own disk second; and a start, which makes both the same.
//!
//! A group counts once both have it. As the disk comes second, it has what the log has not only where the log forgot, and then the log is
//! filled up from it, byte for byte. What the log has and the disk has not is read on, so an empty folder begins from the log.

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use ledger_journal::files::Folder;
use ledger_journal::{
    Durability, Fault, Group, Log, NotAppended, Position, ReadError, Writer, segment_head, segments,
};

use crate::{ClusterError, ClusterLog, ENTRY_BYTES_MAX, Engine, JetStream, LogFault, Place};

/// A doubtful append of a start is repeated so often...
const TRIES: u32 = 50;
/// ...after this time each.
const RETRY: Duration = Duration::from_millis(200);

/// What a node's journal appends to.
pub struct NodeLog<F: Folder, E = JetStream> {
    log: ClusterLog<E>,
    disk: Writer<F>,
    at: Arc<At>,
}

/// Where a log ends, for whoever looks.
#[derive(Debug, Default)]
pub struct At {
    record: AtomicU64,
    entry: AtomicU64,
}

impl At {
    fn set(&self, place: Place) {
        self.record.store(place.position.sequence - 1, Relaxed);
        self.entry.store(place.entry, Relaxed);
    }

    /// The numbers of the last record and of the last entry.
    pub fn get(&self) -> (u64, u64) {
        (self.record.load(Relaxed), self.entry.load(Relaxed))
    }
}

impl<F: Folder, E: std::fmt::Debug> std::fmt::Debug for NodeLog<F, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeLog").field("log", &self.log).finish_non_exhaustive()
    }
}

/// What a start did to make log and disk the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CaughtUp {
    /// Groups that were read from the log.
    pub read: u64,
    /// Groups that the log had forgotten, and has again from the disk.
    pub appended: u64,
}

/// Why a node cannot begin from its disk and the log. Neither was changed beyond what both have.
#[derive(Debug, thiserror::Error)]
pub enum CatchUpError {
    /// The log cannot be read, or has another history than the disk.
    #[error(transparent)]
    Log(#[from] ClusterError),
    /// The node's own journal cannot be read or written.
    #[error("this node's journal: {0}")]
    Disk(String),
    /// The log forgot, and the disk does not have what is missing.
    #[error(
        "the log ends with record {last}, and this node's journal begins with record {first}: what is between is gone from both. Start a node whose journal reaches back to record {last}"
    )]
    TooFar {
        /// The last record of the log; 0 if it holds none.
        last: u64,
        /// The first record of the journal.
        first: u64,
    },
    /// A group of the own journal is too long for an entry.
    #[error(
        "record {first} of this node's journal begins a group of {bytes} bytes, and an entry of the log holds {ENTRY_BYTES_MAX}: it was written without a log. Such a folder cannot begin a cluster: begin it with an empty folder"
    )]
    TooLong {
        /// Its first record.
        first: u64,
        /// How long it is.
        bytes: usize,
    },
    /// The log did not take again what it had forgotten.
    #[error("the log does not take record {first} again, which it forgot: {why}")]
    NotTaken {
        /// The first record of the group.
        first: u64,
        /// Why.
        why: String,
    },
    /// What was read does not follow from the state before.
    #[error("record {first} of the log cannot be replayed: {why}")]
    Replay {
        /// The first record of the group.
        first: u64,
        /// Why.
        why: String,
    },
}

impl<F: Folder, E: Engine> NodeLog<F, E> {
    /// Makes log and disk the same and goes on behind both. `folder` is the one that `disk` writes to, which stands at the end of what was
    /// recovered; `each` hears every group that was read from the log, to be replayed.
    ///
    /// # Errors
    /// [`CatchUpError`].
    pub fn begin(
        log: ClusterLog<E>,
        disk: Writer<F>,
        folder: &F,
        each: &mut dyn FnMut(&Group) -> Result<(), String>,
    ) -> Result<(NodeLog<F, E>, CaughtUp), CatchUpError> {
        let mut node = NodeLog { log, disk, at: Arc::default() };
        let end = *node.disk.position();
        let appended = match node.log.seek(&end) {
            Ok(_) => 0,
            Err(ClusterError { fault: LogFault::Behind { last, .. }, .. }) => {
                let appended = node.fill_up(folder, last)?;
                let _ = (last > 0).then(|| tracing::error!(
                    groups = appended,
                    last,
                    "the log had lost what it acknowledged: it has it again from this node's journal. Look at the engine's servers"
                ));
                appended
            }
            Err(other) => return Err(other.into()),
        };
        let read = node.read_on(each)?;
        node.at.set(node.log.place());
        Ok((node, CaughtUp { read, appended }))
    }

    /// Where it ends, as that is from now on.
    pub fn at(&self) -> Arc<At> {
        Arc::clone(&self.at)
    }

    /// Takes over what the log has behind the disk's end.
    fn read_on(
        &mut self,
        each: &mut dyn FnMut(&Group) -> Result<(), String>,
    ) -> Result<u64, CatchUpError> {
        let (mut groups, mut failed, disk) = (0, None, &mut self.disk);
        let mut take = |group: &Group| {
            let first = group.before().sequence;
            disk.copy(group).map_err(|error| CatchUpError::Disk(error.to_string()))?;
            each(group).map_err(|why| CatchUpError::Replay { first, why })
        };
        let read = self.log.read_on(&mut |group| {
            failed = take(group).err();
            groups += 1;
            if failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        // What was read before an error is not read again by the next start.
        self.disk.seal_copied().map_err(|error| CatchUpError::Disk(error.to_string()))?;
        read?;
        failed.map_or(Ok(groups), Err)
    }

    /// Appends again what the log forgot behind record `last`. Where it did not, as an old leader said so, it finds every group there.
    fn fill_up(&mut self, folder: &F, last: u64) -> Result<u64, CatchUpError> {
        let damaged = |error: ReadError| CatchUpError::Disk(error.to_string());
        let mut heads = Vec::new();
        for number in segments(folder).map_err(damaged)? {
            heads.push(segment_head(folder, number).map_err(damaged)?.position);
        }
        let first = heads.first().map_or(self.disk.position().sequence, |head| head.sequence);
        let from = heads.iter().rfind(|head| head.sequence <= last + 1);
        let begin = *from.ok_or(CatchUpError::TooFar { last, first })?;
        let mut at = begin;
        let (mut groups, mut failed, log) = (0, None, &mut self.log);
        let mut take = |entry: &[u8]| {
            let fits = |fault: Fault| CatchUpError::Disk(fault.to_string());
            let group = Group::read(entry, &at).map_err(fits)?;
            if group.before().sequence > last {
                if groups == 0 {
                    log.seek(group.before())?;
                }
                append_again(log, &group)?;
                groups += 1;
            }
            at = *group.after();
            Ok(())
        };
        let read = self.disk.read(&begin, &mut |entry| {
            failed = take(entry).err();
            if failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        read.map_err(damaged)?;
        failed.map_or(Ok(groups), Err)
    }
}

fn append_again<E: Engine>(log: &mut ClusterLog<E>, group: &Group) -> Result<(), CatchUpError> {
    let (first, bytes) = (group.before().sequence, group.entry().len());
    if bytes > ENTRY_BYTES_MAX {
        return Err(CatchUpError::TooLong { first, bytes });
    }
    let mut tries = 1..=TRIES;
    loop {
        match (log.append(group), tries.next()) {
            (Ok(()), _) => return Ok(()),
            (Err(NotAppended::Unknown(_)), Some(_)) => std::thread::sleep(RETRY),
            (Err(why), _) => return Err(CatchUpError::NotTaken { first, why: why.to_string() }),
        }
    }
}

impl<F: Folder, E: Engine> Log for NodeLog<F, E> {
    fn position(&self) -> &Position {
        self.disk.position()
    }

    fn append(&mut self, group: &Group) -> Result<(), NotAppended> {
        // One that the disk alone refused is there already.
        self.log.append(group)?;
        self.at.set(self.log.place());
        self.disk.append(group).map_err(|error| match error {
            NotAppended::Unknown(error) => {
                let text = format!("the log has it, this node's disk does not: {error}");
                NotAppended::Unknown(io::Error::new(error.kind(), text))
            }
            other => other,
        })
    }

    fn read(
        &mut self,
        at: &Position,
        each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), ReadError> {
        self.disk.read(at, each)
    }

    fn attest(&mut self) -> Result<Durability, String> {
        let kept = self.log.attest()?;
        let own = self.disk.attest()?;
        Ok(if own.is_at_least(kept) { kept } else { own })
    }

    fn segments_begun(&self) -> u64 {
        self.disk.segments_begun()
    }

    fn group_bytes_max(&self) -> usize {
        ENTRY_BYTES_MAX
    }
}
