//! The log of a node: the cluster's log first, the node's own disk second; and a start, which makes both the same.
//!
//! A group counts once both have it. As the disk comes second, it has what the log has not only where the log forgot, and then the log is
//! filled up from it, byte for byte. What the log has and the disk has not is read on, so an empty folder begins from the log, and a standby's follows it.

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use ledger_journal::files::Folder;
use ledger_journal::{
    Durability, Fault, Group, Log, NotAppended, Position, ReadError, Writer, segment_head, segments,
};
use probe::{Histogram, Reader, Recorder, shared_histogram};

use crate::verdict::Extent;
use crate::{ClusterError, ClusterLog, ENTRY_BYTES_MAX, Engine, JetStream, LogFault, Place};

/// A doubtful append of a start is repeated so often...
const TRIES: u32 = 50;
/// ...after this time each.
const RETRY: Duration = Duration::from_millis(200);

/// Of a log that has so many entries more, those are sealed together: a seal for each would take hours.
const AT_ONCE: u64 = 256;

/// What a node's journal appends to.
pub struct NodeLog<F: Folder, E = JetStream> {
    log: ClusterLog<E>,
    disk: Writer<F>,
    /// Records before this one were handed on.
    heard: u64,
    at: Arc<At>,
    append_ns: Recorder,
}

/// Takes the groups that were read from the log.
pub type EachGroup<'a> = &'a mut dyn FnMut(&Group) -> Result<(), String>;

/// Where a log ends, and how it answered, for whoever looks.
#[derive(Debug)]
pub struct At {
    record: AtomicU64,
    entry: AtomicU64,
    append_ns: Reader,
    unknown: AtomicU64,
    forgot: AtomicU64,
}

impl At {
    fn new(append_ns: Reader) -> At {
        let [record, entry, unknown, forgot] = [const { AtomicU64::new(0) }; 4];
        At { record, entry, append_ns, unknown, forgot }
    }

    fn set(&self, place: Place) {
        self.record.store(place.position.sequence - 1, Relaxed);
        self.entry.store(place.entry, Relaxed);
    }

    /// The numbers of the last record and of the last entry.
    pub fn get(&self) -> (u64, u64) {
        (self.record.load(Relaxed), self.entry.load(Relaxed))
    }

    /// How long appends took that the log acknowledged, ns, without the own disk.
    pub fn append_ns(&self) -> Histogram {
        self.append_ns.read()
    }

    /// Appends of which nobody knew what became of them: each was repeated.
    pub fn unknown(&self) -> u64 {
        self.unknown.load(Relaxed)
    }

    /// Times that the log had lost what it acknowledged.
    pub fn forgot(&self) -> u64 {
        self.forgot.load(Relaxed)
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
    /// A log and what of it stands on the disk, which stands at the end of what was recovered.
    pub fn new(log: ClusterLog<E>, disk: Writer<F>) -> NodeLog<F, E> {
        let heard = disk.position().sequence;
        let (append_ns, reader) = shared_histogram();
        let at = Arc::new(At::new(reader));
        at.set(Place { position: *disk.position(), entry: 0 });
        NodeLog { log, disk, heard, at, append_ns }
    }

    /// Makes log and disk the same and goes on behind both. `folder` is the one that the disk's writer writes to; `each` hears every group
    /// that was read from the log and not before, to be replayed.
    ///
    /// # Errors
    /// [`CatchUpError`].
    pub fn catch_up(&mut self, folder: &F, each: EachGroup<'_>) -> Result<CaughtUp, CatchUpError> {
        let end = *self.disk.position();
        let appended = match self.log.seek_again(&end) {
            Ok(_) => 0,
            Err(ClusterError { fault: LogFault::Behind { last, .. }, .. }) => {
                // A log that never had anything takes what the disk has, from wherever that begins.
                let is_new = last == 0 && self.log.last_entry()? == 0;
                let appended = self.fill_up(folder, last, is_new)?;
                if self.log.place().position != end {
                    let why = "it ends within what this node has as one group".to_string();
                    let fork = LogFault::Fork { entry: self.log.last_entry()?, last, why };
                    return Err(self.log.error(fork).into());
                }
                if last > 0 {
                    self.at.forgot.fetch_add(1, Relaxed);
                    tracing::error!(
                        groups = appended,
                        last,
                        "the log had lost what it acknowledged: it has it again from this node's journal. Look at the engine's servers"
                    );
                }
                appended
            }
            Err(other) => return Err(other.into()),
        };
        let extent = self.log.extent().map_err(|fault| self.log.error(fault))?;
        let more = extent.last.saturating_sub(self.log.place().entry);
        let read = self.read_on(more > AT_ONCE, each)?;
        self.is_begun(extent)?;
        Ok(CaughtUp { read, appended })
    }

    /// Reads on as far as the log has more than the disk, and appends nothing: another node may be the bank. Returns the number of the log's
    /// last entry; one before the own last entry is old, or the log forgot. The segment that a run would write to is begun meanwhile.
    ///
    /// # Errors
    /// [`CatchUpError`]. After one of the disk it is as before, and may be tried again.
    pub fn follow(&mut self, now_ms: u64, each: EachGroup<'_>) -> Result<u64, CatchUpError> {
        let end = *self.disk.position();
        let extent = self.log.extent().map_err(|fault| self.log.error(fault))?;
        let last = extent.last;
        match self.log.seek(&end) {
            Err(ClusterError { fault: LogFault::Behind { .. }, .. }) => {}
            Err(other) => return Err(other.into()),
            Ok(place) if last > place.entry => {
                self.read_on(last - place.entry > AT_ONCE, each)?;
            }
            Ok(place) => self.at.set(place),
        }
        self.disk.open(now_ms).map_err(|error| CatchUpError::Disk(error.to_string()))?;
        self.is_begun(extent)?;
        Ok(last)
    }

    /// No run begins from a part of the journal that begins the log.
    fn is_begun(&self, Extent { records, .. }: Extent) -> Result<(), ClusterError> {
        let has = self.disk.position().sequence - 1;
        if has < records {
            return Err(self.log.error(LogFault::Unfinished { records, has }));
        }
        Ok(())
    }

    /// Checks that every group of the journal goes into an entry of the log. Returns its last record, 0 if it has none.
    ///
    /// # Errors
    /// [`CatchUpError::TooLong`], or it cannot be read.
    pub fn measure(&mut self, folder: &F) -> Result<u64, CatchUpError> {
        self.each_on_disk(folder, 0, &mut fits)?;
        Ok(self.disk.position().sequence - 1)
    }

    /// The log alone.
    pub fn log(&mut self) -> &mut ClusterLog<E> {
        &mut self.log
    }

    /// The log alone, without the disk.
    pub fn into_log(self) -> ClusterLog<E> {
        self.log
    }

    /// Where it ends, as that is from now on.
    pub fn at(&self) -> Arc<At> {
        Arc::clone(&self.at)
    }

    /// Takes over what the log has behind the disk's end; `together`: sealed together, and until then a crash leaves nothing of it.
    fn read_on(&mut self, together: bool, each: EachGroup<'_>) -> Result<u64, CatchUpError> {
        let (mut groups, mut failed) = (0, None);
        let NodeLog { log, disk, heard, at, .. } = self;
        let mut kept = log.place();
        let mut take = |place: Place, group: &Group| {
            let first = group.before().sequence;
            if first >= *heard {
                each(group).map_err(|why| CatchUpError::Replay { first, why })?;
                (*heard, groups) = (group.after().sequence, groups + 1);
            }
            let done = match together {
                true => disk.copy(group),
                false => disk.append(group).map_err(io::Error::from),
            };
            let has = *disk.position();
            if has == *group.after() {
                kept = place;
            } else if has == *group.before() {
                kept = Place { position: has, entry: place.entry - 1 };
            }
            done.map_err(|error| CatchUpError::Disk(error.to_string()))
        };
        let read = log.read_on(&mut |place, group| {
            failed = take(place, group).err();
            if failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        // What was read before an error is not read again by the next start.
        let sealed = disk.seal_copied().map_err(|error| CatchUpError::Disk(error.to_string()));
        if *disk.position() != log.place().position {
            // What the disk has not is read once more, and not handed on again.
            log.go_back(kept);
        }
        at.set(log.place());
        failed.map_or(Ok(()), Err)?;
        sealed?;
        read?;
        Ok(groups)
    }

    /// Appends again what the log forgot behind record `last`. Where it did not, as an old leader said so, it finds every group there.
    fn fill_up(&mut self, folder: &F, last: u64, is_new: bool) -> Result<u64, CatchUpError> {
        let damaged = |error: ReadError| CatchUpError::Disk(error.to_string());
        let mut heads = Vec::new();
        for number in segments(folder).map_err(damaged)? {
            heads.push(segment_head(folder, number).map_err(damaged)?.position);
        }
        let first = heads.first().map_or(self.disk.position().sequence, |head| head.sequence);
        let from = match is_new {
            true => heads.first(),
            false => heads.iter().rfind(|head| head.sequence <= last + 1),
        };
        let begin = *from.ok_or(CatchUpError::TooFar { last, first })?;
        let mut at = begin;
        let (mut groups, mut failed, log) = (0, None, &mut self.log);
        let mut take = |entry: &[u8]| {
            let fits = |fault: Fault| CatchUpError::Disk(fault.to_string());
            let group = Group::read(entry, &at).map_err(fits)?;
            if group.before().sequence > last {
                match groups {
                    0 if is_new => log.go_back(Place { position: *group.before(), entry: 0 }),
                    0 => drop(log.seek(group.before())?),
                    _ => {}
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

fn fits(group: &Group) -> Result<(), CatchUpError> {
    let (first, bytes) = (group.before().sequence, group.entry().len());
    if bytes > ENTRY_BYTES_MAX { Err(CatchUpError::TooLong { first, bytes }) } else { Ok(()) }
}

fn append_again<E: Engine>(log: &mut ClusterLog<E>, group: &Group) -> Result<(), CatchUpError> {
    fits(group)?;
    let first = group.before().sequence;
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
        let (start, is_there) = (Instant::now(), group.after() == &self.log.place().position);
        self.log.append(group).inspect_err(|error| {
            let _ = match error {
                NotAppended::Unknown(_) => self.at.unknown.fetch_add(1, Relaxed),
                NotAppended::Forgot { .. } => self.at.forgot.fetch_add(1, Relaxed),
                NotAppended::Fenced => 0,
            };
        })?;
        if !is_there {
            let took_ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.append_ns.record(took_ns);
        }
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
