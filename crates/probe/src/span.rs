//! Probes around single steps: a span, or a batch of many items between one pair of readings.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::cycles::{decide, ticks_ordered};
use crate::nanos::Nanos;
use crate::sampler::Sampler;
use crate::stage::{StageFigures, StageReader, StageWriter, add, stage};
use crate::timer::{TimerCost, Trust};

/// Measures one step of one thread; its [`ProbeReader`]s show the figures to any thread. A thread has its own probe of a
/// step, so recording takes no lock; readings of several are merged.
///
/// ```
/// let (mut parse, reader) = probe::Probe::new("parse", 1);
/// let numbers = parse.batch(3, || "1 2 3".split(' ').map(str::parse::<u32>).collect::<Vec<_>>());
/// assert_eq!(numbers.len(), 3);
/// {
///     let _span = parse.span();
///     // what stands here is measured
/// }
/// let figures = reader.read();
/// assert_eq!((figures.spans, figures.stage.items), (2, 4));
/// println!("{}: {} ns a number", figures.name, figures.mean());
/// ```
#[derive(Debug)]
pub struct Probe {
    sampler: Sampler,
    spans: Arc<AtomicU64>,
    stage: StageWriter,
}

/// The reading end, for any thread.
#[derive(Clone, Debug)]
pub struct ProbeReader {
    name: &'static str,
    spans: Arc<AtomicU64>,
    stage: StageReader,
}

/// The figures that were recorded until some moment, or between two.
#[derive(Clone, Debug, PartialEq)]
pub struct ProbeFigures {
    /// What the step is called.
    pub name: &'static str,
    /// Spans and batches, sampled or not.
    pub spans: u64,
    /// Those that were sampled.
    pub stage: StageFigures,
}

/// Measures until it is dropped.
#[derive(Debug)]
#[must_use = "a span that is dropped at once measures nothing: `let _span = probe.span();`"]
pub struct Span<'a> {
    probe: Option<&'a mut Probe>,
    items: u32,
    begun: u64,
}

impl Probe {
    /// A probe that samples one span in `every` on average; 0 for none.
    #[must_use]
    pub fn new(name: &'static str, every: u32) -> (Probe, ProbeReader) {
        if every > 0 {
            decide();
        }
        let (writer, reader) = stage();
        let spans = Arc::new(AtomicU64::new(0));
        let reader = ProbeReader { name, spans: Arc::clone(&spans), stage: reader };
        (Probe { sampler: Sampler::new(every), spans, stage: writer }, reader)
    }

    /// Measures from here to where the span is dropped, as one item.
    #[inline(always)]
    pub fn span(&mut self) -> Span<'_> {
        self.span_of(1)
    }

    /// Measures from here to where the span is dropped, as so many items.
    #[inline(always)]
    pub fn span_of(&mut self, items: u32) -> Span<'_> {
        add(&self.spans, 1);
        if self.sampler.pick() {
            Span { probe: Some(self), items, begun: ticks_ordered() }
        } else {
            Span { probe: None, items, begun: 0 }
        }
    }

    /// Measures work on so many items with one pair of readings. The result counts as used, so that the compiler does not
    /// remove the work; a result that does not depend on all of the work lets it remove the rest, which
    /// [`ProbeFigures::trust`] finds.
    #[inline(always)]
    pub fn batch<R>(&mut self, items: u32, work: impl FnOnce() -> R) -> R {
        let _span = self.span_of(items);
        black_box(work())
    }

    /// Out of line, so that a span adds little code.
    #[inline(never)]
    fn end(&mut self, begun: u64, items: u32) {
        let passed = ticks_ordered().saturating_sub(begun);
        self.stage.record(passed, items);
    }
}

impl Drop for Span<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(probe) = self.probe.take() {
            probe.end(self.begun, self.items);
        }
    }
}

impl ProbeReader {
    /// The figures that were recorded so far.
    #[must_use]
    pub fn read(&self) -> ProbeFigures {
        ProbeFigures { name: self.name, spans: self.spans.load(Relaxed), stage: self.stage.read() }
    }
}

impl ProbeFigures {
    /// The mean of an item, ns, without the timer ([`TimerCost::mean`]).
    #[must_use]
    pub fn mean(&self) -> Nanos {
        TimerCost::get().mean(&self.stage)
    }

    /// The quantile `q` (0 to 1) of an item, ns, without the timer ([`TimerCost::quantile`]).
    #[must_use]
    pub fn quantile(&self, q: f64) -> Nanos {
        TimerCost::get().quantile(&self.stage, q)
    }

    /// Can the figures be believed ([`TimerCost::trust`])?
    #[must_use]
    pub fn trust(&self) -> Trust {
        TimerCost::get().trust(&self.stage)
    }

    /// The figures that were recorded between an earlier reading of the same probe and this one.
    #[must_use]
    pub fn since(&self, earlier: &ProbeFigures) -> ProbeFigures {
        ProbeFigures {
            name: self.name,
            spans: self.spans.saturating_sub(earlier.spans),
            stage: self.stage.since(&earlier.stage),
        }
    }

    /// Adds what another thread recorded of the same step.
    pub fn merge(&mut self, other: &ProbeFigures) {
        self.spans = self.spans.saturating_add(other.spans);
        self.stage.merge(&other.stage);
    }
}
