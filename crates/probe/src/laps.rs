//! Where the time of a thread goes, stage by stage, all the time, for less than a percent of it.
//!
//! A thread does its work in *turns* (a wake-up with everything that it handles). One turn in N is sampled: at each
//! boundary between two stages the counter is read once, and what passed since the boundary before belongs to the stage
//! that ends. So the stages of a sampled turn add up to all of it, and the other turns cost one branch a boundary.
//!
//! A boundary is only written down. Sums and histograms are brought up to date when the turn is over, at the next
//! [`Laps::begin`] (or when 64 boundaries have gathered), outside every stage: so recording disturbs no stage's time or
//! caches. Its own time is counted too ([`LapsFigures::own_ticks`]).

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::cycles::{decide, ticks, ticks_ordered};
use crate::sampler::Sampler;
use crate::shared::{Reader, Recorder, shared_histogram};
use crate::stage::{StageFigures, StageReader, StageWriter, add, stage};

/// The stages of one kind of thread.
pub trait Stage: Copy + 'static {
    /// All of them, in order of [`Stage::index`].
    const ALL: &'static [Self];

    /// Its place in [`Stage::ALL`].
    fn index(self) -> usize;

    /// What it is called in statements: lower case, words joined by `_`.
    fn name(self) -> &'static str;
}

/// Boundaries that are kept before they are recorded.
const KEPT_MAX: usize = 64;

/// The writing end, on the thread that is measured.
#[derive(Debug)]
pub struct Laps<S> {
    on: bool,
    sampler: Sampler,
    /// Boundaries of this turn that are not yet recorded, the first `kept`.
    boundaries: Box<[Boundary; KEPT_MAX]>,
    kept: usize,
    begun: u64,
    last: u64,
    stages: Vec<StageWriter>,
    /// Stages whose ends are told since the beginning of the turn.
    marks: Vec<(u16, Recorder)>,
    shared: Arc<Shared>,
    kind: PhantomData<S>,
}

/// The reading end, for any thread.
#[derive(Clone, Debug)]
pub struct LapsReader<S> {
    stages: Vec<StageReader>,
    shared: Arc<Shared>,
    kind: PhantomData<S>,
}

#[derive(Debug, Default)]
struct Shared {
    turns: AtomicU64,
    sampled: AtomicU64,
    own_ticks: AtomicU64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Boundary {
    at: u64,
    items: u32,
    stage: Option<u16>,
}

/// What was recorded until some moment, or between two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LapsFigures {
    /// Turns, sampled or not.
    pub turns: u64,
    /// Turns that were sampled.
    pub sampled: u64,
    /// Ticks of the thread that bringing the figures up to date took: of no stage.
    pub own_ticks: u64,
    /// By stage.
    pub stages: Vec<StageFigures>,
}

impl<S: Stage> Laps<S> {
    /// Probes that sample one turn in `every` on average; 0 for none.
    #[must_use]
    pub fn new(every: u32) -> (Laps<S>, LapsReader<S>) {
        let (writers, readers) = S::ALL.iter().map(|_| stage()).unzip();
        if every > 0 {
            decide();
        }
        let shared = Arc::new(Shared::default());
        let reader = LapsReader { stages: readers, shared: Arc::clone(&shared), kind: PhantomData };
        let laps = Laps {
            on: false,
            sampler: Sampler::new(every),
            boundaries: Box::new([Boundary::default(); KEPT_MAX]),
            kept: 0,
            begun: 0,
            last: 0,
            stages: writers,
            marks: Vec::new(),
            shared,
            kind: PhantomData,
        };
        (laps, reader)
    }

    /// Records from now on, in sampled turns, how many ticks after the beginning of its turn a stage ended: once a lap.
    /// Pauses ([`Laps::skip`]) count.
    #[must_use]
    pub fn mark(&mut self, stage: S) -> Reader {
        let (recorder, reader) = shared_histogram();
        self.marks.extend(u16::try_from(stage.index()).ok().map(|stage| (stage, recorder)));
        reader
    }

    /// A turn begins. What is left of the one before is nobody's, and what was sampled of it is recorded.
    #[inline]
    pub fn begin(&mut self) {
        add(&self.shared.turns, 1);
        if self.on {
            self.end();
        }
        if self.sampler.pick() {
            self.sample();
        }
    }

    /// Is this turn sampled?
    #[inline(always)]
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// A stage ends here that handled so many items; the next one begins.
    #[inline(always)]
    pub fn lap(&mut self, stage: S, items: u32) {
        if self.on {
            self.keep(u16::try_from(stage.index()).ok(), items);
        }
    }

    /// What passed since the last boundary is nobody's (the thread slept).
    #[inline(always)]
    pub fn skip(&mut self) {
        if self.on {
            self.keep(None, 0);
        }
    }

    #[cold]
    fn sample(&mut self) {
        self.on = true;
        self.begun = ticks_ordered();
        self.last = self.begun;
    }

    /// Out of line: what surrounds a boundary should not grow by more than a test and a call.
    #[inline(never)]
    fn keep(&mut self, stage: Option<u16>, items: u32) {
        let at = ticks_ordered();
        self.boundaries[self.kept] = Boundary { at, items, stage };
        self.kept += 1;
        if self.kept == KEPT_MAX {
            self.record();
            self.last = ticks_ordered();
        }
    }
}

impl<S> Laps<S> {
    #[cold]
    fn end(&mut self) {
        self.on = false;
        self.record();
        add(&self.shared.sampled, 1);
    }

    /// Brings sums and histograms up to date.
    fn record(&mut self) {
        let begun = ticks();
        for boundary in &self.boundaries[..self.kept] {
            let passed = boundary.at.saturating_sub(self.last);
            self.last = boundary.at;
            let marked = |mark: &&mut (u16, Recorder)| Some(mark.0) == boundary.stage;
            if let Some((_, mark)) = self.marks.iter_mut().find(marked) {
                mark.record(boundary.at.saturating_sub(self.begun));
            }
            let stage = boundary.stage.and_then(|stage| self.stages.get_mut(usize::from(stage)));
            if let Some(stage) = stage {
                stage.record(passed, boundary.items);
            }
        }
        self.kept = 0;
        add(&self.shared.own_ticks, ticks().saturating_sub(begun));
    }
}

impl<S> Drop for Laps<S> {
    /// The last turn counts too.
    fn drop(&mut self) {
        if self.on {
            self.end();
        }
    }
}

impl<S: Stage> LapsReader<S> {
    /// The ticks of a stage so far, and nothing else.
    pub(crate) fn ticks(&self, stage: S) -> u64 {
        self.stages.get(stage.index()).map_or(0, StageReader::ticks)
    }

    /// What was recorded so far: all turns but the one that the thread is in.
    #[must_use]
    pub fn read(&self) -> LapsFigures {
        LapsFigures {
            turns: self.shared.turns.load(Relaxed),
            sampled: self.shared.sampled.load(Relaxed),
            own_ticks: self.shared.own_ticks.load(Relaxed),
            stages: self.stages.iter().map(StageReader::read).collect(),
        }
    }
}

impl LapsFigures {
    /// What was recorded between an earlier reading of the same [`LapsReader`] and this one.
    #[must_use]
    pub fn since(&self, earlier: &LapsFigures) -> LapsFigures {
        let stages = self.stages.iter().zip(&earlier.stages);
        LapsFigures {
            turns: self.turns.saturating_sub(earlier.turns),
            sampled: self.sampled.saturating_sub(earlier.sampled),
            own_ticks: self.own_ticks.saturating_sub(earlier.own_ticks),
            stages: stages.map(|(now, then)| now.since(then)).collect(),
        }
    }

    /// Adds what another thread of the same kind recorded.
    pub fn merge(&mut self, other: &LapsFigures) {
        self.turns = self.turns.saturating_add(other.turns);
        self.sampled = self.sampled.saturating_add(other.sampled);
        self.own_ticks = self.own_ticks.saturating_add(other.own_ticks);
        self.stages.iter_mut().zip(&other.stages).for_each(|(own, more)| own.merge(more));
    }

    /// Turns a sampled turn stands for: what the sums are multiplied with to speak for all turns. 0 when none was sampled.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "turns, far below 2^52")]
    pub fn turns_a_sample(&self) -> f64 {
        if self.sampled == 0 { 0.0 } else { self.turns as f64 / self.sampled as f64 }
    }
}
