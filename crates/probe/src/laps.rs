//! Where the time of a thread goes, stage by stage, all the time, for less than a percent of it.
//!
//! A thread does its work in *turns* (a wake-up with everything that it handles). One turn in N is sampled: at each
//! boundary between two stages the counter is read once, and what passed since the boundary before belongs to the stage
//! that ends. So the stages of a sampled turn add up to all of it, and the other turns cost one branch a boundary.
//!
//! A thread may lose its core within a turn. Then its processor time is less than what passed, and what is missing is taken
//! off the longest lap since the boundaries were last recorded, which is counted apart ([`LapsFigures::lost_laps`]) and in no
//! quantile: others ran meanwhile, and no stage took that time.
//!
//! A boundary is only written down. Sums and histograms are brought up to date when the turn is over, at the next
//! [`Laps::begin`] (or when 64 boundaries have gathered), outside every stage: so recording disturbs no stage's time or
//! caches. Its own time is counted too ([`LapsFigures::own_ticks`]).

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::cycles::{Cycles, decide, ticks, ticks_ordered};
use crate::machine::thread_cpu_ns;
use crate::sampler::Sampler;
use crate::shared::{Reader, Recorder, shared_histogram};
use crate::stage::{StageFigures, StageReader, StageWriter, add, stage};

/// The stages of one kind of thread.
pub trait Stage: Copy + 'static {
    /// All of them, in order of [`Stage::index`].
    const ALL: &'static [Self];

    /// Do turns hold waits, for a disk say? Less processor time than passed is no loss of the core there.
    const WAITS: bool = false;

    /// Its place in [`Stage::ALL`].
    fn index(self) -> usize;

    /// What it is called in statements: lower case, words joined by `_`.
    fn name(self) -> &'static str;
}

/// Makes the stages of one kind of thread: `stages! { /// About. Name { Variant = "word", "Meaning."; } }`.
#[macro_export]
macro_rules! stages {
    ($(#[$about:meta])* $kind:ident { $($name:ident = $word:literal, $doc:literal;)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $kind { $(#[doc = $doc] $name,)* }

        impl $crate::Stage for $kind {
            const ALL: &'static [$kind] = &[$($kind::$name),*];

            #[inline(always)]
            fn index(self) -> usize {
                self as usize
            }

            fn name(self) -> &'static str {
                match self { $($kind::$name => $word,)* }
            }
        }
    };
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
    /// How the thread stood on its core when the boundaries that are kept began; none of a thread whose turns hold waits.
    core: Option<OnCore>,
    /// [`Stage::WAITS`], for what knows no stages.
    waits: bool,
    stages: Vec<StageWriter>,
    /// Ticks and items of this turn by stage, where turns are a sample of all.
    turn: Vec<(u64, u64)>,
    /// Stages whose ends are told since the beginning of the turn.
    marks: Vec<(u16, Recorder)>,
    shared: Arc<SharedLaps>,
    kind: PhantomData<S>,
}

/// The reading end, for any thread.
#[derive(Clone, Debug)]
pub struct LapsReader<S> {
    stages: Vec<StageReader>,
    shared: Arc<SharedLaps>,
    kind: PhantomData<S>,
}

#[derive(Debug, Default)]
struct SharedLaps {
    turns: AtomicU64,
    sampled: AtomicU64,
    own_ticks: AtomicU64,
    lost_laps: AtomicU64,
    lost_ticks: AtomicU64,
}

/// A moment by the counter and by the thread's processor time.
#[derive(Clone, Copy, Debug)]
struct OnCore {
    ticks: u64,
    cpu_ns: u64,
}

/// Less than this is no loss of the core, ns: an interrupt, and the time that the two readings of a moment are apart.
const LOST_NS_MIN: f64 = 3_000.0;
/// What recording takes at most, ns: more of it was no work of ours. A thread loses its core where a call of the kernel returns, and
/// recording reads the thread's processor time.
const OWN_NS_MAX: f64 = 10_000.0;

#[derive(Clone, Copy, Debug, Default)]
struct Boundary {
    at: u64,
    items: u32,
    stage: Option<u16>,
}

/// The figures that were recorded until some moment, or between two.
#[derive(Clone, Debug, PartialEq)]
pub struct LapsFigures {
    /// Turns, sampled or not.
    pub turns: u64,
    /// Turns that were sampled.
    pub sampled: u64,
    /// Ticks of the thread that bringing the figures up to date took: of no stage.
    pub own_ticks: u64,
    /// Laps in which the thread lost its core: they hold what it ran, as far as its processor time tells, and are in no
    /// quantile.
    pub lost_laps: u64,
    /// Ticks that were taken off these laps: the time of others.
    pub lost_ticks: u64,
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
            // Some 20 ms the first time, which no turn should take.
            let _ = Cycles::get();
        }
        let shared = Arc::new(SharedLaps::default());
        let reader = LapsReader { stages: readers, shared: Arc::clone(&shared), kind: PhantomData };
        let laps = Laps {
            on: false,
            sampler: Sampler::new(every),
            boundaries: Box::new([Boundary::default(); KEPT_MAX]),
            kept: 0,
            begun: 0,
            last: 0,
            core: None,
            waits: S::WAITS,
            stages: writers,
            turn: if every > 1 { vec![(0, 0); S::ALL.len()] } else { Vec::new() },
            marks: Vec::new(),
            shared,
            kind: PhantomData,
        };
        (laps, reader)
    }

    /// Records from now on, in sampled turns, how many ticks after the beginning of its turn a stage ended: once per lap.
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
        let asked = ticks();
        self.on = true;
        self.core = if self.waits { None } else { Some(OnCore::from_here()) };
        self.begun = ticks_ordered();
        self.last = self.begun;
        add(&self.shared.own_ticks, own_ticks(asked, self.begun));
    }

    /// Out of line: what surrounds a boundary should not grow by more than a test and a call.
    #[inline(never)]
    fn keep(&mut self, stage: Option<u16>, items: u32) {
        let at = ticks_ordered();
        self.boundaries[self.kept] = Boundary { at, items, stage };
        self.kept += 1;
        if self.kept == KEPT_MAX {
            self.record();
            self.core = self.core.map(|_| OnCore::from_here());
            self.last = ticks_ordered();
        }
    }
}

impl<S> Laps<S> {
    #[cold]
    fn end(&mut self) {
        self.on = false;
        self.record();
        for (stage, (ticks, items)) in self.stages.iter_mut().zip(&mut self.turn) {
            if *ticks > 0 {
                stage.turn(std::mem::take(ticks), std::mem::take(items));
            }
        }
        add(&self.shared.sampled, 1);
    }

    /// Brings sums and histograms up to date.
    fn record(&mut self) {
        let begun = ticks();
        let (lost, longest) = (self.lost(), self.longest());
        for (at, boundary) in self.boundaries[..self.kept].iter().enumerate() {
            let passed = boundary.at.saturating_sub(self.last);
            self.last = boundary.at;
            let marked = |mark: &&mut (u16, Recorder)| Some(mark.0) == boundary.stage;
            if let Some((_, mark)) = self.marks.iter_mut().find(marked) {
                mark.record(boundary.at.saturating_sub(self.begun));
            }
            let Some(number) = boundary.stage.map(usize::from) else { continue };
            let Some(stage) = self.stages.get_mut(number) else { continue };
            let lost = if at == longest { lost.min(passed) } else { 0 };
            if lost > 0 {
                stage.record_apart(passed - lost, boundary.items);
                add(&self.shared.lost_laps, 1);
                add(&self.shared.lost_ticks, lost);
            } else {
                stage.record(passed, boundary.items);
            }
            if let Some((ticks, items)) = self.turn.get_mut(number) {
                *ticks += passed - lost;
                *items += u64::from(boundary.items);
            }
        }
        self.kept = 0;
        add(&self.shared.own_ticks, own_ticks(begun, ticks()));
    }

    /// Ticks since the boundaries were last recorded in which the thread did not run.
    fn lost(&self) -> u64 {
        self.core.map_or(0, |since| OnCore::up_to_here().lost_since(&since))
    }

    /// The longest lap among the boundaries that are kept.
    fn longest(&self) -> usize {
        let mut last = self.last;
        let mut longest = (0, 0);
        for (at, boundary) in self.boundaries[..self.kept].iter().enumerate() {
            let passed = boundary.at.saturating_sub(last);
            last = boundary.at;
            if passed > longest.1 {
                longest = (at, passed);
            }
        }
        longest.0
    }
}

/// Ticks of recording between two readings.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "some microseconds, and above 0"
)]
fn own_ticks(begun: u64, ended: u64) -> u64 {
    ended.saturating_sub(begun).min((OWN_NS_MAX / Cycles::get().ns_per_tick()) as u64)
}

impl OnCore {
    /// What passes from here on: a core that is lost in the call that reads the processor time is not lost to what follows.
    fn from_here() -> OnCore {
        let cpu_ns = thread_cpu_ns();
        OnCore { ticks: ticks(), cpu_ns }
    }

    /// What has passed up to here, likewise.
    fn up_to_here() -> OnCore {
        let ticks = ticks();
        OnCore { ticks, cpu_ns: thread_cpu_ns() }
    }

    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "times of a turn, far below 2^52, and above 0"
    )]
    fn lost_since(&self, earlier: &OnCore) -> u64 {
        let ns_per_tick = Cycles::get().ns_per_tick();
        let passed_ns = self.ticks.saturating_sub(earlier.ticks) as f64 * ns_per_tick;
        let lost_ns = passed_ns - self.cpu_ns.saturating_sub(earlier.cpu_ns) as f64;
        if lost_ns > LOST_NS_MIN { (lost_ns / ns_per_tick) as u64 } else { 0 }
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

    /// The figures that were recorded so far: all turns but the one that the thread is in.
    #[must_use]
    pub fn read(&self) -> LapsFigures {
        LapsFigures {
            turns: self.shared.turns.load(Relaxed),
            sampled: self.shared.sampled.load(Relaxed),
            own_ticks: self.shared.own_ticks.load(Relaxed),
            lost_laps: self.shared.lost_laps.load(Relaxed),
            lost_ticks: self.shared.lost_ticks.load(Relaxed),
            stages: self.stages.iter().map(StageReader::read).collect(),
        }
    }
}

impl LapsFigures {
    /// The figures that were recorded between an earlier reading of the same [`LapsReader`] and this one.
    #[must_use]
    pub fn since(&self, earlier: &LapsFigures) -> LapsFigures {
        let stages = self.stages.iter().zip(&earlier.stages);
        LapsFigures {
            turns: self.turns.saturating_sub(earlier.turns),
            sampled: self.sampled.saturating_sub(earlier.sampled),
            own_ticks: self.own_ticks.saturating_sub(earlier.own_ticks),
            lost_laps: self.lost_laps.saturating_sub(earlier.lost_laps),
            lost_ticks: self.lost_ticks.saturating_sub(earlier.lost_ticks),
            stages: stages.map(|(now, then)| now.since(then)).collect(),
        }
    }

    /// Adds what another thread of the same kind recorded.
    pub fn merge(&mut self, other: &LapsFigures) {
        self.turns = self.turns.saturating_add(other.turns);
        self.sampled = self.sampled.saturating_add(other.sampled);
        self.own_ticks = self.own_ticks.saturating_add(other.own_ticks);
        self.lost_laps = self.lost_laps.saturating_add(other.lost_laps);
        self.lost_ticks = self.lost_ticks.saturating_add(other.lost_ticks);
        self.stages.iter_mut().zip(&other.stages).for_each(|(own, more)| own.merge(more));
    }

    /// Turns a sampled turn stands for: what the sums are multiplied with to speak for all turns. 0 when none was sampled.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "turns, far below 2^52")]
    pub fn turns_a_sample(&self) -> f64 {
        if self.sampled == 0 { 0.0 } else { self.turns as f64 / self.sampled as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(us: f64, cpu_us: u64) -> OnCore {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a time of a test"
        )]
        let ticks = (us * 1_000.0 / Cycles::get().ns_per_tick()) as u64;
        OnCore { ticks, cpu_ns: cpu_us * 1_000 }
    }

    #[test]
    fn what_passed_without_the_thread_is_lost() {
        let start = moment(0.0, 500);
        assert_eq!(moment(100.0, 600).lost_since(&start), 0, "it ran all the time");
        assert_eq!(moment(102.0, 600).lost_since(&start), 0, "an interrupt");
        assert_eq!(moment(50.0, 600).lost_since(&start), 0, "more than passed");
        let (lost, wanted) = (moment(400.0, 600).lost_since(&start), moment(300.0, 0).ticks);
        assert!(lost.abs_diff(wanted) <= 1, "{lost} of {wanted}");
    }
}
