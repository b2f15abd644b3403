//! How the node itself stands: what its threads, doors and queues do, over the last seconds and since the start.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use probe::{Cycles, Histogram};
use weir_door::WorkerCounters;
use weir_node::bank::rows::Scene;
use weir_node::doors::DOORS;
use wire::Verdict;

use super::proof::Proof;
use crate::admin::Status;

/// Rates and percentiles are of this time.
const WINDOW_MS: u128 = 10_000;
/// Verdicts of asks have codes below this, those of resolves from it on.
pub(super) const FIRST_OF_RESOLVES: u8 = Verdict::Confirmed.as_raw();

/// What of a thread or a door is counted, at one moment.
#[derive(Debug)]
struct Sample {
    at: Instant,
    workers: Vec<WorkerSample>,
    doors: Vec<DoorSample>,
    seal_ns: Histogram,
}

#[derive(Clone, Copy, Debug)]
struct WorkerSample {
    cpu_ns: u64,
    wait_ns: u64,
    decisions: u64,
}

#[derive(Debug)]
struct DoorSample {
    verdicts: Vec<(&'static str, u64)>,
    latency: Histogram,
}

/// What a survey found.
#[derive(Debug)]
pub(super) struct Surveyed {
    pub(super) as_of_ms: u64,
    pub(super) scene: Scene,
    pub(super) proof: Proof,
    pub(super) took_ms: u64,
}

/// The last ten seconds.
#[derive(Debug, Default)]
pub(super) struct Load {
    samples: VecDeque<Sample>,
}

/// How the node stood at a survey.
#[derive(Debug)]
pub(super) struct Figures {
    at: Instant,
    /// The bank's clock then, ms.
    pub(super) as_of_ms: u64,
    pub(super) scene: Scene,
    pub(super) proof: Proof,
    pub(super) workers: Vec<WorkerFigures>,
    pub(super) doors: Vec<DoorFigures>,
    /// How long writing and sealing a group took in the last seconds, ns.
    pub(super) seal_ns: Histogram,
    /// How long the survey took, from its first question to its last answer, ms.
    pub(super) survey_ms: u64,
}

/// A worker over the last seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct WorkerFigures {
    pub(super) busy_ppm: u64,
    /// It could have run, and another thread had its core.
    pub(super) wait_ppm: u64,
    pub(super) decisions_per_s: f64,
    /// Since the start.
    pub(super) decisions: u64,
    /// Since the start.
    pub(super) cpu_ns: u64,
    /// Since the start.
    pub(super) wait_ns: u64,
}

/// A door over the last seconds.
#[derive(Debug)]
pub(super) struct DoorFigures {
    /// What became of asks and requests: since the start, and a second.
    pub(super) verdicts: Vec<(&'static str, u64, f64)>,
    /// Of the last seconds, ticks of the counter.
    pub(super) latency: Histogram,
    /// Since the start.
    pub(super) latency_total: Histogram,
}

impl Sample {
    fn take(status: &Status, scene: &Scene) -> Sample {
        let counters = status.counters();
        let worker = |counters: &Arc<WorkerCounters>| {
            let (cpu_ns, wait_ns) = counters.thread.cpu_and_wait_ns();
            let decisions = DOORS.iter().map(|door| door.decisions(counters));
            let decisions = decisions.fold(0, u64::saturating_add);
            WorkerSample { cpu_ns, wait_ns, decisions }
        };
        let latency = status.sources().latency();
        let doors = DOORS
            .iter()
            .zip(latency)
            .map(|(door, latency)| DoorSample { verdicts: (door.outcomes)(counters), latency });
        Sample {
            at: Instant::now(),
            workers: counters.iter().map(worker).collect(),
            doors: doors.collect(),
            seal_ns: scene.report.journal.seal_ns.clone(),
        }
    }
}

impl Load {
    /// Looks at everything, and tells how it stands now and stood over the last seconds.
    pub(super) fn figures(&mut self, status: &Status, survey: Surveyed) -> Figures {
        let now = Sample::take(status, &survey.scene);
        let old = |sample: &mut Sample| now.at.duration_since(sample.at).as_millis() > WINDOW_MS;
        // One that is older stays as the beginning of the stretch.
        while self.samples.len() > 1 && self.samples.get_mut(1).is_some_and(old) {
            self.samples.pop_front();
        }
        let then = self.samples.front().unwrap_or(&now);
        let passed_ns = now.at.duration_since(then.at).as_nanos();
        let workers = now.workers.iter().zip(&then.workers);
        let doors = then.doors.iter().zip(&now.doors);
        let doors = doors.map(|(then, now)| DoorFigures::between(then, now, passed_ns));
        let figures = Figures {
            at: now.at,
            as_of_ms: survey.as_of_ms,
            scene: survey.scene,
            proof: survey.proof,
            workers: workers.map(|(now, then)| WorkerFigures::of(then, now, passed_ns)).collect(),
            doors: doors.collect(),
            seal_ns: now.seal_ns.since(&then.seal_ns),
            survey_ms: survey.took_ms,
        };
        self.samples.push_back(now);
        figures
    }
}

impl WorkerFigures {
    fn of(then: &WorkerSample, now: &WorkerSample, passed_ns: u128) -> WorkerFigures {
        let ppm = |now: u64, then: u64| {
            let part = u128::from(now.saturating_sub(then)) * 1_000_000;
            let part = part.checked_div(passed_ns).unwrap_or(0).min(1_000_000);
            u64::try_from(part).unwrap_or(0)
        };
        WorkerFigures {
            busy_ppm: ppm(now.cpu_ns, then.cpu_ns),
            wait_ppm: ppm(now.wait_ns, then.wait_ns),
            decisions_per_s: per_s(now.decisions, then.decisions, passed_ns),
            decisions: now.decisions,
            cpu_ns: now.cpu_ns,
            wait_ns: now.wait_ns,
        }
    }

    /// Neither busy nor waiting.
    pub(super) fn idle_ppm(&self) -> u64 {
        1_000_000_u64.saturating_sub(self.busy_ppm).saturating_sub(self.wait_ppm)
    }
}

impl DoorFigures {
    fn between(then: &DoorSample, now: &DoorSample, passed_ns: u128) -> DoorFigures {
        let verdicts = now.verdicts.iter().zip(&then.verdicts);
        let verdicts = verdicts
            .map(|((name, now), (_, then))| (*name, *now, per_s(*now, *then, passed_ns)))
            .collect();
        DoorFigures {
            verdicts,
            latency: now.latency.since(&then.latency),
            latency_total: now.latency.clone(),
        }
    }
}

impl Figures {
    /// How long ago they were taken, ms.
    pub(super) fn age_ms(&self) -> u64 {
        u64::try_from(self.at.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Latency of all answers of both doors since the start, ticks.
    pub(super) fn answers(&self) -> Histogram {
        let mut all = Histogram::new();
        self.doors.iter().for_each(|door| all.merge(&door.latency_total));
        all
    }
}

/// Ticks of the counter as microseconds, rounded down.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a time for people, kept to the range by `as`"
)]
pub(super) fn micros(ticks: u64) -> u64 {
    (ticks as f64 * Cycles::get().ns_per_tick() / 1e3) as u64
}

/// The same, the other way.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a bound of a bucket, kept to the range by `as`"
)]
pub(super) fn ticks(micros: u64) -> u64 {
    (micros as f64 * 1e3 / Cycles::get().ns_per_tick()) as u64
}

#[allow(clippy::cast_precision_loss, reason = "a rate for people")]
fn per_s(now: u64, then: u64, passed_ns: u128) -> f64 {
    let passed = passed_ns as f64 / 1e9;
    if passed > 0.0 { now.saturating_sub(then) as f64 / passed } else { 0.0 }
}
