//! Sealing, merging and dropping. Files are made first; then one new manifest puts them in the place of those
//! they replace; then those are unlinked. A crash between any two steps leaves left-overs, never a loss.

use std::path::PathBuf;
use std::sync::Arc;

use super::Store;
use crate::merge::{Forget, Merger, Rule, Source};
use crate::run::{Run, RunReader, RunWriter};
use crate::segment::Segment;
use crate::{Choice, Policy, Record, RunId, RunMeta, StoreError};

/// What a step of [`Store::maintain`] goes on with.
#[derive(Debug)]
pub(super) struct Job<R> {
    inputs: Inputs,
    merger: Merger<R>,
    /// What the runs that come out have in common.
    blank: RunMeta,
    run_bytes_max: u64,
    writer: Option<RunWriter<R>>,
    made: Vec<Run>,
}

/// What a new manifest leaves out.
#[derive(Debug, Default)]
struct Inputs {
    segments: Vec<u64>,
    runs: Vec<RunId>,
}

impl<R: Record> Job<R> {
    /// Reads about `records_max` records. Says whether all is read.
    fn step(
        &mut self,
        records_max: u64,
        mut create: impl FnMut(RunMeta) -> Result<RunWriter<R>, StoreError>,
    ) -> Result<bool, StoreError> {
        let until = self.merger.read().saturating_add(records_max.max(1));
        while self.merger.read() < until {
            let Some(group) = self.merger.next_group()? else { return Ok(true) };
            let Some(first) = group.first() else { continue };
            let is_full = |writer: &mut RunWriter<R>| {
                writer.bytes() >= self.run_bytes_max && writer.last_key() != first.key()
            };
            if let Some(full) = self.writer.take_if(is_full) {
                self.made.push(full.finish()?);
            }
            let writer = match &mut self.writer {
                Some(writer) => writer,
                none => none.insert(create(self.blank)?),
            };
            group.iter().try_for_each(|record| writer.push(record))?;
        }
        Ok(false)
    }

    fn finish(&mut self) -> Result<(), StoreError> {
        if let Some(writer) = self.writer.take() {
            self.made.push(writer.finish()?);
        }
        Ok(())
    }

    /// Removes what was made: it is not in the manifest.
    fn discard(self) {
        self.writer.into_iter().for_each(RunWriter::discard);
        for run in self.made {
            disk::remove(run.path());
        }
    }
}

impl<R: Record, P: Policy> Store<R, P> {
    /// Begins what is due most: dead segments, then closed ones, then what the policy says. Says whether there
    /// was anything.
    pub(super) fn begin(&mut self, now_ms: u64) -> Result<bool, StoreError> {
        if self.drop_segments(now_ms)? {
            return Ok(true);
        }
        if let Some(at) = self.segments.iter().position(Segment::is_closed) {
            self.job = Some(self.sealing(at, now_ms)?);
            return Ok(true);
        }
        match self.policy.choose(&self.metas, now_ms) {
            Choice::Nothing => Ok(false),
            Choice::Drop(runs) => self.drop_runs(runs).map(|()| true),
            Choice::Merge { runs, level, run_bytes_max } => {
                self.job = Some(self.merging(runs, level, run_bytes_max, now_ms)?);
                Ok(true)
            }
        }
    }

    /// Unlinks closed segments in which all is dead.
    fn drop_segments(&mut self, now_ms: u64) -> Result<bool, StoreError> {
        let is_dead = |segment: &&Segment| {
            let dead_ms = self.policy.window(segment.time_max_ms).dead_ms;
            segment.is_closed() && (dead_ms <= now_ms || segment.records == 0)
        };
        let dead = self.segments.iter().filter(is_dead);
        let segments: Vec<u64> = dead.map(|segment| segment.meta.number).collect();
        if segments.is_empty() {
            return Ok(false);
        }
        let dropped = segments.len() as u64;
        self.install(&Inputs { segments, runs: vec![] }, vec![])?;
        self.stats.dropped_segments += dropped;
        Ok(true)
    }

    fn drop_runs(&mut self, runs: Vec<RunId>) -> Result<(), StoreError> {
        self.chosen(&runs)?;
        let dropped = runs.len() as u64;
        self.install(&Inputs { segments: vec![], runs }, vec![])?;
        self.stats.dropped_runs += dropped;
        Ok(())
    }

    fn sealing(&self, at: usize, now_ms: u64) -> Result<Job<R>, StoreError> {
        let segment = &self.segments[at];
        let source = Source::unsorted(segment.read::<R>()?);
        let window_ms = segment.meta.window_ms;
        let inputs = Inputs { segments: vec![segment.meta.number], runs: vec![] };
        Ok(Job {
            merger: Merger::new(
                vec![(window_ms, source)],
                self.writing(&inputs, window_ms, now_ms),
            )?,
            inputs,
            blank: blank(0, window_ms, segment.seq_max),
            run_bytes_max: u64::MAX,
            writer: None,
            made: vec![],
        })
    }

    fn merging(
        &self,
        runs: Vec<RunId>,
        level: u8,
        run_bytes_max: u64,
        now_ms: u64,
    ) -> Result<Job<R>, StoreError> {
        let chosen = self.chosen(&runs)?;
        let window_ms = chosen[0].meta.window_ms;
        if chosen.iter().any(|run| run.meta.window_ms != window_ms) {
            return Err(StoreError::Policy { what: format!("runs of several windows: {runs:?}") });
        }
        let seq_max = chosen.iter().map(|run| run.meta.seq_max).max().unwrap_or(0);
        let sources = chosen.into_iter().map(|run| (window_ms, Source::Run(RunReader::new(run))));
        let inputs = Inputs { segments: vec![], runs };
        Ok(Job {
            merger: Merger::new(sources.collect(), self.writing(&inputs, window_ms, now_ms))?,
            inputs,
            blank: blank(level, window_ms, seq_max),
            run_bytes_max,
            writer: None,
            made: vec![],
        })
    }

    /// How records of `inputs` are folded when the result is written. An id is forgotten only once every record
    /// that may repeat it is among them: there is no other run with the key, and no repeat is in a segment.
    fn writing(&self, inputs: &Inputs, window_ms: u64, now_ms: u64) -> Rule {
        let others = self.metas.iter().filter(|run| run.window_ms == window_ms);
        let others = others.filter(|run| !inputs.runs.contains(&run.id));
        let unread = self.segments.iter().filter(|segment| {
            segment.meta.window_ms == window_ms && !inputs.segments.contains(&segment.meta.number)
        });
        let oldest_unread_ms = unread.map(|segment| segment.opened_ms).min();
        let takes_no_more = self.policy.window(window_ms).closes_ms <= now_ms;
        let forget = match oldest_unread_ms {
            None if takes_no_more => Forget::All,
            oldest_ms => Forget::EndedBy(oldest_ms.unwrap_or(now_ms)),
        };
        Rule {
            dead_before_ms: self.policy.dead_before_ms(now_ms),
            forget,
            elsewhere: others.map(|run| (run.key_min, run.key_max)).collect(),
        }
    }

    /// The runs that the policy chose, in order of age.
    fn chosen(&self, ids: &[RunId]) -> Result<Vec<Arc<Run>>, StoreError> {
        let chosen = self.runs.iter().filter(|run| ids.contains(&run.meta.id));
        let chosen: Vec<Arc<Run>> = chosen.cloned().collect();
        if chosen.is_empty() || chosen.len() != ids.len() {
            return Err(StoreError::Policy { what: format!("runs that are not there: {ids:?}") });
        }
        Ok(chosen)
    }

    /// Goes on with the job, if there is one.
    pub(super) fn advance(&mut self, records_max: u64) -> Result<(), StoreError> {
        let Some(mut job) = self.job.take() else { return Ok(()) };
        let (folder, next_number) = (&self.folder, &mut self.next_number);
        let done = job.step(records_max, |blank| {
            let id = RunId(*next_number);
            *next_number += 1;
            RunWriter::create(folder, RunMeta { id, ..blank })
        });
        match done.and_then(|done| if done { job.finish().map(|()| true) } else { Ok(false) }) {
            Ok(false) => self.job = Some(job),
            Ok(true) => self.finish(job)?,
            Err(error) => {
                job.discard();
                return Err(error);
            }
        }
        Ok(())
    }

    fn finish(&mut self, job: Job<R>) -> Result<(), StoreError> {
        let bytes: u64 = job.made.iter().map(|run| run.meta.bytes).sum();
        self.install(&job.inputs, job.made)?;
        if job.inputs.runs.is_empty() {
            self.stats.seals += 1;
            self.stats.sealed_bytes += bytes;
        } else {
            self.stats.merges += 1;
            self.stats.merged_bytes += bytes;
            self.stats.merged_records += job.merger.read();
        }
        Ok(())
    }

    /// Puts `made` in the place of `inputs`: in the manifest, in memory, then on disk.
    fn install(&mut self, inputs: &Inputs, made: Vec<Run>) -> Result<(), StoreError> {
        let stays = |run: &RunMeta| !inputs.runs.contains(&run.id);
        let mut manifest = self.manifest();
        manifest.runs.retain(stays);
        manifest.runs.extend(made.iter().map(|run| run.meta));
        manifest.runs.sort_unstable_by_key(RunMeta::age);
        manifest.segments.retain(|segment| !inputs.segments.contains(&segment.number));
        if let Err(error) = self.write_manifest(&manifest) {
            if !self.broken {
                for run in &made {
                    disk::remove(run.path());
                }
            }
            return Err(error);
        }
        let mut gone: Vec<PathBuf> = vec![];
        gone.extend(self.runs.extract_if(.., |run| !stays(&run.meta)).map(|run| run.path().into()));
        self.runs.extend(made.into_iter().map(Arc::new));
        self.runs.sort_unstable_by_key(|run| run.meta.age());
        self.metas = manifest.runs;
        let is_input = |segment: &mut Segment| inputs.segments.contains(&segment.meta.number);
        gone.extend(self.segments.extract_if(.., is_input).map(|segment| segment.path().into()));
        for path in gone {
            disk::remove(&path);
        }
        Ok(())
    }
}

/// What a run is before it has records; the number comes with its file.
fn blank(level: u8, window_ms: u64, seq_max: u64) -> RunMeta {
    RunMeta {
        id: RunId(0),
        level,
        window_ms,
        seq_max,
        records: 0,
        bytes: 0,
        key_min: 0,
        key_max: 0,
        time_min_ms: 0,
        time_max_ms: 0,
    }
}
