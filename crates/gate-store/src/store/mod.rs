//! The store: what is open, what is sealed, and what is being merged.

mod job;
mod open;
mod scan;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use disk::{Lock, Step};
pub use open::Recovered;
pub use scan::Scan;

use crate::manifest::Manifest;
use crate::merge::{Forget, Rule, fold_key};
use crate::run::Run;
use crate::segment::{self, Segment};
use crate::{Policy, Record, RunMeta, StoreError};
use job::Job;

/// How a store behaves, whatever its policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// A segment that reaches this is sealed and the next one begun. A whole segment is sorted in memory.
    pub segment_bytes_max: u64,
    /// A segment that reaches this age is sealed, milliseconds: so a start has little to sort.
    pub segment_ms_max: u64,
    /// With windows: records that claim to be of a window that begins later than this after now are refused, so
    /// a wrong clock cannot make files for windows without end.
    pub ahead_ms_max: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options { segment_bytes_max: 16 << 20, segment_ms_max: 300_000, ahead_ms_max: 60_000 }
    }
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Appended {
    /// Number of the newest record: records that were ever taken.
    pub seq: u64,
    /// Records not taken because their window had closed.
    pub late: u64,
    /// Records not taken because their window is too far ahead.
    pub early: u64,
}

/// Is there more to do?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Nothing is due now.
    Idle,
    /// Something was done, and there may be more.
    More,
}

/// Counts since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Records taken.
    pub appended_records: u64,
    /// Bytes they took in segments.
    pub appended_bytes: u64,
    /// Records refused because their window had closed.
    pub late_records: u64,
    /// Records refused because their window was too far ahead.
    pub early_records: u64,
    /// Segments that became a run.
    pub seals: u64,
    /// Bytes of the runs that sealing made.
    pub sealed_bytes: u64,
    /// Merges that were finished.
    pub merges: u64,
    /// Records that merges read.
    pub merged_records: u64,
    /// Bytes of the runs that merges made.
    pub merged_bytes: u64,
    /// Runs unlinked because all in them was dead.
    pub dropped_runs: u64,
    /// Segments unlinked for the same reason, before they were sealed.
    pub dropped_segments: u64,
}

impl Stats {
    /// Bytes written for the records, manifests aside.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        self.appended_bytes + self.sealed_bytes + self.merged_bytes
    }
}

/// Records of one window within a batch.
#[derive(Debug)]
struct Share<R> {
    window_ms: u64,
    records: Vec<R>,
}

/// A store of records of type `R`, compacted as `P` says.
#[derive(Debug)]
pub struct Store<R, P> {
    folder: PathBuf,
    policy: P,
    options: Options,
    /// Runs in order of age, oldest first, and what is known of them in the same order.
    runs: Vec<Arc<Run>>,
    metas: Vec<RunMeta>,
    /// Segments that are not sealed, in order of their numbers.
    segments: Vec<Segment>,
    job: Option<Job<R>>,
    next_number: u64,
    seq: u64,
    stats: Stats,
    /// An error left the files in doubt.
    broken: bool,
    shares: Vec<Share<R>>,
    blocks: Vec<u8>,
    /// Held while the store lives.
    _lock: Lock,
}

impl<R: Record, P: Policy> Store<R, P> {
    /// Appends a batch: one write for each window in it. When it returns the batch survives the end of the
    /// process; see [`Store::sync`] for the machine's.
    ///
    /// # Errors
    /// The disk refused. Of a batch of several windows some may be written already: append it again, ids make
    /// repeats harmless. What an interrupted or failed write left behind is cut.
    pub fn append(&mut self, records: &[R], now_ms: u64) -> Result<Appended, StoreError> {
        self.check()?;
        let mut appended = Appended::default();
        self.divide(records, now_ms, &mut appended);
        let seq = self.seq + records.len() as u64 - appended.late - appended.early;
        for at in 0..self.shares.len() {
            self.append_share(at, seq, now_ms)?;
        }
        self.stats.appended_records += seq - self.seq;
        self.stats.late_records += appended.late;
        self.stats.early_records += appended.early;
        self.seq = seq;
        Ok(Appended { seq, ..appended })
    }

    /// Sorts a batch into its windows.
    fn divide(&mut self, records: &[R], now_ms: u64, appended: &mut Appended) {
        // Shares of windows that this batch does not touch go; the memory of the first stays.
        self.shares.truncate(1);
        self.shares.iter_mut().for_each(|share| share.records.clear());
        let start_max_ms = now_ms.saturating_add(self.options.ahead_ms_max);
        for record in records {
            let window = self.policy.window(record.time_ms());
            if window.closes_ms <= now_ms {
                appended.late += 1;
            } else if window.start_ms > start_max_ms {
                appended.early += 1;
            } else {
                self.share(window.start_ms).push(*record);
            }
        }
    }

    fn share(&mut self, window_ms: u64) -> &mut Vec<R> {
        let known = self
            .shares
            .iter()
            .position(|share| share.window_ms == window_ms || share.records.is_empty());
        let at = known.unwrap_or_else(|| {
            self.shares.push(Share { window_ms, records: Vec::new() });
            self.shares.len() - 1
        });
        self.shares[at].window_ms = window_ms;
        &mut self.shares[at].records
    }

    fn append_share(&mut self, at: usize, seq: u64, now_ms: u64) -> Result<(), StoreError> {
        if self.shares[at].records.is_empty() {
            return Ok(());
        }
        let open = self.open_segment(self.shares[at].window_ms, now_ms)?;
        let (segment, records) = (&mut self.segments[open], &self.shares[at].records);
        self.blocks.clear();
        segment::encode(&mut self.blocks, segment.meta.number, seq, records);
        segment.append(&self.blocks, records, seq, &mut self.broken)?;
        self.stats.appended_bytes += self.blocks.len() as u64;
        Ok(())
    }

    /// The segment that takes records of a window.
    fn open_segment(&mut self, window_ms: u64, now_ms: u64) -> Result<usize, StoreError> {
        let is_open =
            |segment: &Segment| segment.meta.window_ms == window_ms && !segment.is_closed();
        if let Some(at) = self.segments.iter().position(is_open) {
            if self.segments[at].bytes < self.options.segment_bytes_max {
                return Ok(at);
            }
            self.close_segment(at)?;
        }
        let number = self.take_number();
        let segment = Segment::create::<R>(&self.folder, number, window_ms, now_ms)?;
        let path = segment.path().to_owned();
        self.segments.push(segment);
        if let Err(error) = self.write_manifest(&self.manifest()) {
            self.segments.pop();
            if !self.broken {
                disk::remove(&path);
            }
            return Err(error);
        }
        Ok(self.segments.len() - 1)
    }

    /// After an error of a sync nobody knows what is on disk: the kernel may have dropped the pages.
    fn close_segment(&mut self, at: usize) -> Result<(), StoreError> {
        let closed = self.segments[at].close();
        self.broken |= closed.is_err();
        closed
    }

    /// Waits until everything appended is on disk: it survives a power cut.
    ///
    /// # Errors
    /// The disk refused; the store has to be opened again.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        self.check()?;
        let synced = self.segments.iter_mut().try_for_each(Segment::sync);
        self.broken |= synced.is_err();
        synced
    }

    /// Does one step of what is due: seals a segment that is full, old or whose window has closed, follows the
    /// policy, or goes on with a merge for about `records_max` records. A step sorts at most one segment.
    ///
    /// # Errors
    /// The disk refused, or a run is damaged. A merge that failed is begun again by the next call; nothing it
    /// read is touched.
    pub fn maintain(&mut self, now_ms: u64, records_max: u64) -> Result<Progress, StoreError> {
        self.check()?;
        if self.job.is_none() {
            self.close_due(now_ms)?;
            if !self.begin(now_ms)? {
                return Ok(Progress::Idle);
            }
        }
        self.advance(records_max)?;
        Ok(Progress::More)
    }

    /// Seals everything there is, in one go.
    ///
    /// # Errors
    /// As [`Store::maintain`].
    pub fn seal(&mut self, now_ms: u64) -> Result<(), StoreError> {
        self.check()?;
        for at in 0..self.segments.len() {
            if !self.segments[at].is_closed() {
                self.close_segment(at)?;
            }
        }
        while !self.segments.is_empty() {
            self.maintain(now_ms, u64::MAX)?;
        }
        Ok(())
    }

    fn close_due(&mut self, now_ms: u64) -> Result<(), StoreError> {
        for at in 0..self.segments.len() {
            let segment = &self.segments[at];
            let window = self.policy.window(segment.time_max_ms);
            let age_ms = now_ms.saturating_sub(segment.opened_ms);
            let due = segment.bytes >= self.options.segment_bytes_max
                || age_ms >= self.options.segment_ms_max
                || window.closes_ms <= now_ms;
            if due && !segment.is_closed() {
                self.close_segment(at)?;
            }
        }
        Ok(())
    }

    /// Adds what sealed runs hold of `key` to `found`, folded into one for each window and sub,
    /// in this order.
    ///
    /// What is not sealed yet is not seen: whoever appended it holds it in memory, or calls [`Store::seal`].
    ///
    /// # Errors
    /// A run cannot be read or is damaged.
    pub fn get(&self, key: u64, now_ms: u64, found: &mut Vec<R>) -> Result<(), StoreError> {
        let rule = self.reading(now_ms);
        for window in self.runs.chunk_by(|one, next| one.meta.window_ms == next.meta.window_ms) {
            let from = found.len();
            for run in window {
                run.get(key, found)?;
            }
            if found.len() > from {
                fold_key(found, from, &rule);
            }
        }
        Ok(())
    }

    /// Everything, sealed or not, folded into one for each key, sub and window, in this order. Segments that are
    /// not sealed are read into memory.
    ///
    /// # Errors
    /// A segment or run cannot be read or is damaged.
    pub fn scan(&self, now_ms: u64) -> Result<Scan<R>, StoreError> {
        Scan::new(&self.runs, &self.segments, self.reading(now_ms))
    }

    /// Hands everything to `each`, as [`Store::scan`]; for a start. `progress` hears now and then how many of how
    /// many stored records were read. Says how many records `each` got.
    ///
    /// # Errors
    /// As [`Store::scan`].
    pub fn fold(
        &self,
        now_ms: u64,
        each: impl FnMut(&R),
        progress: impl FnMut(u64, u64),
    ) -> Result<u64, StoreError> {
        self.scan(now_ms)?.fold_all(self.records(), each, progress)
    }

    /// What is known of the runs, in order of age, oldest first.
    #[must_use]
    pub fn runs(&self) -> &[RunMeta] {
        &self.metas
    }

    /// Records on disk, sealed or not, before folding.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.unsealed() + self.metas.iter().map(|run| run.records).sum::<u64>()
    }

    /// Records that are not sealed yet.
    #[must_use]
    pub fn unsealed(&self) -> u64 {
        self.segments.iter().map(|segment| segment.records).sum()
    }

    /// Number of the newest record: records that were ever taken.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// What was done since the store was opened.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// The store's folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Who reads everything needs no ids: repeats are among what is read.
    fn reading(&self, now_ms: u64) -> Rule {
        let dead_before_ms = self.policy.dead_before_ms(now_ms);
        Rule { dead_before_ms, forget: Forget::All, elsewhere: vec![] }
    }

    fn check(&self) -> Result<(), StoreError> {
        if self.broken {
            return Err(StoreError::Broken { folder: self.folder.clone() });
        }
        Ok(())
    }

    fn take_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number - 1
    }

    /// What there is now.
    fn manifest(&self) -> Manifest {
        Manifest {
            tag: self.policy.tag(),
            next_number: self.next_number,
            seq: self.seq,
            runs: self.metas.clone(),
            segments: self.segments.iter().map(|segment| segment.meta).collect(),
        }
    }

    fn write_manifest(&mut self, manifest: &Manifest) -> Result<(), StoreError> {
        manifest.write::<R>(&self.folder).map_err(|failed| {
            self.broken |= failed.step == Step::SyncFolder;
            failed.error.into()
        })
    }
}
