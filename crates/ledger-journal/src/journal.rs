//! The running journal: records in at one end, sealed sequences out at the other, and two threads between.
//!
//! ```text
//!  bank thread             writer thread                          housekeeper thread
//!  append ─▶ backlog ────▶ take all, hash, write, seal ─ begun ─▶ prepare the next segment,
//!       ◀──── sealed up to ─┘                                     snapshot, remove old files
//! ```
//!
//! One group is with the writer at a time. While it is in the kernel the next one gathers; the writer takes it without
//! waiting for anybody.

use std::io;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ledger::Record;
use probe::{Histogram, Laps, Lease, Reader as HistogramReader, Recorder, Sent, shared_histogram};

use crate::disk::Durability;
use crate::files::Folder;
use crate::format::Position;
use crate::group::{Backlog, Group};
use crate::handover::Handover;
use crate::housekeeper::{Housekeeper, Kept};
use crate::log::{Log, NotAppended};
use crate::probes::{WriterProbes, WriterStage};
use crate::snapshot::Keep;
use crate::watermark::Watermarks;

/// A disk that failed is tried again after this time.
const RETRY: Duration = Duration::from_millis(200);
/// A log on other machines may be silent for so long, ms, before no more is taken on: most changes of its leader take less.
const SILENCE_MS: u64 = 5_000;

/// How a journal behaves.
#[derive(Clone, Debug)]
pub struct JournalOptions {
    /// Least time between the beginnings of two writes where somebody waits for an answer: more gathers meanwhile, and
    /// the disk costs less. What comes after a pause is written at once.
    pub gather: Duration,
    /// The same where nobody does: purses are filled ahead, and what lapsed is in no hurry.
    pub gather_idle: Duration,
    /// Records that are not sealed may have this many bytes; then [`Journal::is_full`].
    pub unsealed_bytes_max: usize,
    /// The least that a log has to attest.
    pub durability: Durability,
    /// Length of a segment.
    pub segment_bytes: u64,
    /// Snapshots and retention.
    pub keep: Keep,
    /// Where whoever follows the journal notes [`Keep::unread`].
    pub unread: Option<Arc<AtomicU64>>,
    /// What the bank runs with; snapshots are replayed with it.
    pub bank: ledger::Options,
    /// What every acknowledged append renews, where the log is on other machines.
    pub lease: Option<Arc<Lease>>,
}

/// The bank's end of the journal.
#[derive(Debug)]
pub struct Journal {
    shared: Arc<Shared>,
    seal_ns: HistogramReader,
    next_sequence: u64,
    unsealed_bytes_max: u64,
    writer: Option<JoinHandle<()>>,
    housekeeper: Option<JoinHandle<()>>,
}

/// Records added under one lock: the writer, which takes them all at once, never waits for more than this.
const APPEND_MAX: usize = 256;

impl Journal {
    /// Starts the two threads: the writer, which appends to `log`, and the housekeeper of `folder`. `wake` is unparked
    /// whenever something was sealed or failed.
    ///
    /// # Errors
    /// The system has no threads for us, or the log is less durable than `options` ask for, or cannot say.
    pub fn start<F, L>(
        folder: F,
        log: L,
        options: JournalOptions,
        wake: Thread,
    ) -> io::Result<Journal>
    where
        F: Folder + Send + 'static,
        L: Log + Send + 'static,
    {
        Journal::start_measured(folder, log, options, wake, WriterProbes::none(), None)
    }

    /// The same with a writer that measures where its time goes, and a housekeeper that keeps a watermark.
    ///
    /// # Errors
    /// The system has no threads for us, or the log is less durable than `options` ask for, or cannot say.
    pub fn start_measured<F, L>(
        folder: F,
        mut log: L,
        options: JournalOptions,
        wake: Thread,
        probes: WriterProbes,
        watermarks: Option<Watermarks<F>>,
    ) -> io::Result<Journal>
    where
        F: Folder + Send + 'static,
        L: Log + Send + 'static,
    {
        let kept = log.attest().map_err(io::Error::other)?;
        if !kept.is_at_least(options.durability) {
            let text = "the log keeps what it acknowledged through a crash of the process only";
            return Err(io::Error::other(format!(
                "{text}: {:?} was asked for",
                options.durability
            )));
        }
        let position = *log.position();
        let (recorder, seal_ns) = shared_histogram();
        let shared = Arc::new(Shared::new(&position, log.group_bytes_max()));
        let gather = [options.gather, options.gather_idle.max(options.gather)];
        let unsealed_bytes_max = options.unsealed_bytes_max as u64;
        let segments = log.segments_begun();
        let lease = options.lease.clone();
        let (begun, jobs) = channel();
        let mut housekeeper =
            Housekeeper { folder, options, shared: Arc::clone(&shared), watermarks };
        let housekeeper = thread("housekeeper", move || housekeeper.run(&jobs))?;
        let WriterProbes { laps, begun: thread_begun } = probes;
        let seal = Seal {
            log,
            laps,
            recorder,
            shared: Arc::clone(&shared),
            begun,
            wake,
            gather,
            segments,
            lease,
            failing: false,
        };
        let writer = thread("journal-writer", move || {
            thread_begun();
            seal.run();
        })?;
        Ok(Journal {
            shared,
            seal_ns,
            next_sequence: position.sequence,
            unsealed_bytes_max,
            writer: Some(writer),
            housekeeper: Some(housekeeper),
        })
    }

    /// Adds records, made at this time, and lets the writer know. Each is sealed once [`Journal::sealed`] is above its
    /// sequence.
    pub fn append(&mut self, records: &[Record], at_ms: u64) {
        for some in records.chunks(APPEND_MAX) {
            // A client waits for the answer to each of these.
            let urgent = some.iter().any(|record| {
                matches!(
                    record,
                    Record::Resolved { .. }
                        | Record::ToppedUp { .. }
                        | Record::Clicked { .. }
                        | Record::Timed(_)
                        | Record::Memo { .. }
                )
            });
            let (added, next_sequence) = self.shared.handover.append(urgent, |backlog| {
                let before = backlog.bytes();
                some.iter().for_each(|record| {
                    backlog.append(record, at_ms);
                });
                (backlog.bytes() - before, backlog.next_sequence())
            });
            self.next_sequence = next_sequence;
            self.shared.appended_bytes.fetch_add(added as u64, Relaxed);
        }
    }

    /// Sequence that the next record will have.
    pub fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// All records before this sequence are sealed.
    pub fn sealed(&self) -> u64 {
        self.shared.handover.sealed()
    }

    /// What the disk said when it last failed, until it works again.
    pub fn failure(&self) -> Option<String> {
        if self.is_failing() { lock(&self.shared.failure).clone() } else { None }
    }

    /// Did the disk refuse the last group that was written?
    pub fn is_failing(&self) -> bool {
        self.shared.failing.load(Relaxed)
    }

    /// Has the writer's thread ended: by a panic, or because the log says that another process writes it or that it lost
    /// what it had acknowledged? Then nothing will be sealed any more; [`Journal::failure`] says why.
    pub fn is_broken(&self) -> bool {
        self.writer.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Did it end because another process writes the log now?
    pub fn is_fenced(&self) -> bool {
        self.shared.fenced.load(Relaxed)
    }

    /// So much waits to be sealed that no more should be taken on.
    pub fn is_full(&self) -> bool {
        self.shared.unsealed_bytes() >= self.unsealed_bytes_max
    }

    /// Nothing more should be taken on: it is full or its disk fails, or a log on other machines has been silent for seconds.
    pub fn refuses(&self) -> bool {
        self.shared.refuses.load(Relaxed) || self.is_full()
    }

    /// For statements, from any thread.
    pub fn status(&self) -> Status {
        Status { shared: Arc::clone(&self.shared), seal_ns: self.seal_ns.clone() }
    }

    /// Waits until everything is sealed, at most this long, and ends the threads.
    ///
    /// # Errors
    /// What was not sealed, and why.
    pub fn finish(mut self, wait: Duration) -> Result<(), String> {
        let until = Instant::now() + wait;
        self.shared.handover.end();
        let alive =
            |writer: &Option<JoinHandle<()>>| writer.as_ref().is_some_and(|w| !w.is_finished());
        while self.sealed() < self.next_sequence && Instant::now() < until && alive(&self.writer) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let unsealed = self.next_sequence - self.sealed();
        let why = self.failure();
        let ended = self.stop();
        let why = why.unwrap_or_else(|| "the writer did not answer".into());
        match (unsealed, ended) {
            (0, true) => Ok(()),
            (0, false) => Err("a thread of the journal ended by a panic".into()),
            (records, _) => Err(format!("{records} records could not be sealed: {why}")),
        }
    }

    /// Ends the threads, whatever waits. True if neither had panicked.
    fn stop(&mut self) -> bool {
        self.shared.stop.store(true, Relaxed);
        self.shared.handover.end();
        let join = |thread: Option<JoinHandle<()>>| thread.is_none_or(|t| t.join().is_ok());
        // The housekeeper ends with the writer, which holds the other end of its queue.
        join(self.writer.take()) & join(self.housekeeper.take())
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.stop();
    }
}

fn thread(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_string()).spawn(run)
}

/// Milliseconds since the Unix epoch, for the heads of files.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// What the threads share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) handover: Handover<Backlog>,
    /// Whatever waits is given up.
    pub(crate) stop: AtomicBool,
    failing: AtomicBool,
    fenced: AtomicBool,
    /// Nothing is to be taken on until the last group is sealed.
    refuses: AtomicBool,
    /// Bytes of records, without heads and filler of groups.
    appended_bytes: AtomicU64,
    sealed_bytes: AtomicU64,
    groups: AtomicU64,
    /// Bytes on disk.
    bytes: AtomicU64,
    errors: AtomicU64,
    segments: AtomicU64,
    failure: Mutex<Option<String>>,
    pub(crate) kept: Mutex<Kept>,
}

impl Shared {
    fn new(position: &Position, group_bytes_max: usize) -> Shared {
        Shared {
            handover: Handover::new(Backlog::new(position, group_bytes_max), position.sequence),
            stop: AtomicBool::new(false),
            failing: AtomicBool::new(false),
            fenced: AtomicBool::new(false),
            refuses: AtomicBool::new(false),
            appended_bytes: AtomicU64::new(0),
            sealed_bytes: AtomicU64::new(0),
            groups: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            segments: AtomicU64::new(0),
            failure: Mutex::new(None),
            kept: Mutex::new(Kept::default()),
        }
    }

    fn unsealed_bytes(&self) -> u64 {
        // The sealed ones first: they never overtake the others.
        let sealed = self.sealed_bytes.load(Acquire);
        self.appended_bytes.load(Relaxed).saturating_sub(sealed)
    }
}

/// How the journal stands; cheap to clone, readable from any thread.
#[derive(Clone, Debug)]
pub struct Status {
    shared: Arc<Shared>,
    seal_ns: HistogramReader,
}

const DISKS: &str = "/docs/journal.md#full-slow-and-failing-disks";

counters::counters! {
    /// Figures of a journal since its start.
    #[derive(Clone, Debug)]
    pub struct Figures of u64, in "journal" {
        unsealed_bytes: "Records that wait for the disk; above half of `journal.unsealed_bytes_max` for seconds, the disk is too slow.", level(), bytes();
        groups: "Groups sealed.";
        bytes: "Bytes sealed, filler included.", bytes(), family("weir_journal_sealed_bytes");
        errors: "Failed attempts to write; on any increase look at the disk.", failing("journal", DISKS);
        segments: "Segments begun; many when writes fail.", name("segments_begun");
    } also {
        /// All records before this sequence are sealed.
        pub sealed: u64,
        /// Why the disk does not take anything at present.
        pub failure: Option<String>,
        /// How long writing and sealing a group took, ns.
        pub seal_ns: Histogram,
        /// Snapshots and retention.
        pub kept: Kept,
    }
}

impl Status {
    /// As [`Journal::sealed`], from any thread: what a [`Follower`](crate::Follower) is told.
    pub fn sealed(&self) -> u64 {
        self.shared.handover.sealed()
    }

    /// The figures now.
    pub fn read(&self) -> Figures {
        let shared = &self.shared;
        Figures {
            sealed: shared.handover.sealed(),
            unsealed_bytes: shared.unsealed_bytes(),
            groups: shared.groups.load(Relaxed),
            bytes: shared.bytes.load(Relaxed),
            errors: shared.errors.load(Relaxed),
            segments: shared.segments.load(Relaxed),
            failure: lock(&shared.failure).clone(),
            seal_ns: self.seal_ns.read(),
            kept: lock(&shared.kept).clone(),
        }
    }
}

/// Only whole values are written under these locks: a panic elsewhere leaves them good.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The writer's thread.
struct Seal<L> {
    log: L,
    laps: Laps<WriterStage>,
    recorder: Recorder,
    shared: Arc<Shared>,
    begun: Sender<()>,
    wake: Thread,
    /// Least times between two writes: where somebody waits, and where nobody does.
    gather: [Duration; 2],
    /// Segments of which the housekeeper was told.
    segments: u64,
    lease: Option<Arc<Lease>>,
    failing: bool,
}

impl<L: Log> Seal<L> {
    fn run(mut self) {
        let _ = self.begun.send(());
        let mut last = None;
        while let Some(records) = self.shared.handover.next(last, self.gather) {
            self.laps.begin();
            last = Some(Instant::now());
            let record_bytes = records.bytes();
            let group = records.close(&self.log.position().hash);
            self.laps.lap(WriterStage::Close, u32::try_from(group.records()).unwrap_or(u32::MAX));
            if !self.seal(&group) {
                return;
            }
            self.laps.lap(WriterStage::SealWait, 1);
            self.shared.sealed_bytes.fetch_add(record_bytes as u64, Release);
            self.shared.handover.seal(group.after().sequence, &self.wake);
            self.shared.handover.give_back(|backlog| backlog.recycle(group));
            self.laps.lap(WriterStage::Tell, 1);
        }
    }

    /// Tries until it is sealed. False if the journal was given up before, or if the log is not this node's any more:
    /// then the thread ends, and with it the node ([`Journal::is_broken`]).
    fn seal(&mut self, group: &Group) -> bool {
        // Once for all repeats: which of them the log took is not known.
        let sent = self.lease.as_deref().map(Lease::send);
        loop {
            let start = Instant::now();
            match self.log.append(group) {
                Ok(()) => {
                    if let Some((lease, sent)) = self.lease.as_deref().zip(sent) {
                        lease.renew(sent);
                    }
                    self.sealed(group, start.elapsed());
                    return true;
                }
                Err(NotAppended::Unknown(error)) => self.failed(&error, sent),
                Err(error) => {
                    let is_fenced = matches!(error, NotAppended::Fenced);
                    self.shared.fenced.store(is_fenced, Relaxed);
                    self.failed(&error, None);
                    return false;
                }
            }
            std::thread::sleep(RETRY);
            if self.shared.stop.load(Relaxed) {
                return false;
            }
        }
    }

    fn sealed(&mut self, group: &Group, took: Duration) {
        let shared = &self.shared;
        shared.groups.fetch_add(1, Relaxed);
        shared.bytes.fetch_add(group.bytes().len() as u64, Relaxed);
        self.recorder.record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        let begun = self.log.segments_begun();
        if self.segments < begun {
            shared.segments.fetch_add(begun - self.segments, Relaxed);
            self.segments = begun;
            let _ = self.begun.send(());
        }
        if std::mem::take(&mut self.failing) {
            tracing::warn!("the journal's log works again: what waited is sealed");
            *lock(&shared.failure) = None;
            shared.refuses.store(false, Relaxed);
            shared.failing.store(false, Relaxed);
        }
    }

    /// `sent`: when the group was sent first, where the lease may outlast the failure.
    fn failed(&mut self, error: &dyn std::error::Error, sent: Option<Sent>) {
        self.shared.errors.fetch_add(1, Relaxed);
        *lock(&self.shared.failure) = Some(error.to_string());
        let lease = self.lease.as_deref().zip(sent);
        if lease.is_none_or(|(lease, sent)| lease.since_ms(sent) >= SILENCE_MS) {
            self.shared.refuses.store(true, Relaxed);
        }
        if !std::mem::replace(&mut self.failing, true) {
            let until = match lease {
                None => "nothing is granted or acknowledged until it can",
                Some(_) => {
                    "nothing is acknowledged until it can, and nothing granted once the lease is over"
                }
            };
            tracing::error!(%error, "the journal cannot be written: {until}");
            self.shared.failing.store(true, Relaxed);
            self.wake.unpark();
        }
    }
}
