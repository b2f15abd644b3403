//! Where the time of a program goes: clocks, probes, histograms, comparisons, the cost sheet.
//!
//! | part | what it is for |
//! | --- | --- |
//! | [`NodeClock`] | what time it is, in ms, never going back |
//! | [`ticks`], [`ticks_ordered`], [`Cycles`] | the processor's counter, what a tick is, and whether to trust it |
//! | [`Laps`] | where the time of a thread goes, stage by stage, always on |
//! | [`Probe`] | what a step takes: a scope, or a batch between one pair of readings |
//! | [`TimerCost`], [`Calibration`], [`Nanos`] | what measuring itself takes, and figures without it, with their error |
//! | [`Watch`], [`Machine`], [`thread_cpu_ns`] | what the machine is, and what it did to a measurement |
//! | [`Counters`] | cycles, instructions, cache and branch misses, where there are any |
//! | [`Histogram`] | latencies of one thread: under 3 ns per record, 1.6 % error |
//! | [`shared_histogram`] | the same while another thread looks on |
//! | [`Sampler`] | one in N, in step with nothing |
//! | [`compare`] | two pieces of code in turn, with an interval |
//! | [`sheet`] | the cost sheet: what each part costs, beside its alternative, and why it may stay |
//!
//! Reading a clock costs some 30 ns (a virtual machine's cycle counter 13 to 20), more than many a step that one would
//! like to measure: take one pair of readings a batch, one `now` a wake-up. The README tells what each part costs.

mod calibration;
mod clock;
pub mod compare;
mod counters;
mod cycles;
mod histogram;
mod laps;
mod lease;
mod machine;
mod nanos;
mod sampler;
mod shared;
pub mod sheet;
mod span;
mod stage;
mod sync;
mod timer;

pub use calibration::Calibration;
pub use clock::{ClockState, HandClock, NodeClock, STEP_MS, STEP_STANDS_MS};
pub use counters::{Counters, Counts, Event, Unavailable};
pub use cycles::{Cycles, Drift, Reading, Rejected, Source, ticks, ticks_and_core, ticks_ordered};
pub use histogram::Histogram;
pub use laps::{Laps, LapsFigures, LapsReader, Stage};
pub use lease::{Lease, Sent};
pub use machine::{Machine, Marks, Watch, thread_cpu_ns};
pub use nanos::Nanos;
pub use sampler::Sampler;
pub use shared::{Reader, Recorder, shared_histogram};
pub use span::{Probe, ProbeFigures, ProbeReader, Span};
pub use stage::{Spread, StageFigures};
pub use timer::{TimerCost, Trust};

/// The code of the README, compiled and run as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
