//! `GET /metrics`: what the node costs, all the time, in the text that Prometheus reads.
//!
//! Counters never go back while the node lives. A fleet is compared across versions by the rate of a time over the rate of
//! requests, or by `weir_door_request_seconds`, which is that over the last minute.
#![allow(clippy::cast_precision_loss, reason = "times and counts for people, below 2^52")]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use probe::{Cycles, StageFigures, TimerCost};
use weir_node::measured::{ByDoor, Measured, MeasuredThread, Reading, Sources};

use super::openmetrics::{Exposition, FamilyKind, Unit};
use super::rows::{Probes, THREADS};

/// Somebody calls [`Metrics::note`] this often...
pub(crate) const NOTE_EVERY: Duration = Duration::from_secs(10);
/// ...and these many notes are a minute.
const NOTES: usize = 6;

/// Readings for the cost sheet are this far apart.
const READ_EVERY: Duration = Duration::from_secs(30);

/// What the node says of its costs, and of the last minute.
#[derive(Debug)]
pub(crate) struct Metrics {
    sources: Arc<Sources>,
    started: Instant,
    /// The start, then the last minute's notes, oldest first.
    notes: Mutex<VecDeque<Note>>,
    /// At most two readings, the older one about a minute old.
    readings: Mutex<VecDeque<Reading>>,
    /// By door, as in [`Doors`]: the most that was ever told.
    told_ns: [AtomicU64; 3],
}

#[derive(Clone, Copy, Debug)]
struct Note {
    at: Instant,
    by_door: ByDoor,
}

/// The doors of [`ByDoor`], with what both share.
const DOORS: [&str; 3] = ["batch", "openrtb", "shared"];

impl Metrics {
    pub(crate) fn new(sources: Arc<Sources>) -> Metrics {
        let started = Instant::now();
        let first = Note { at: started, by_door: ByDoor::default() };
        Metrics {
            sources,
            started,
            notes: Mutex::new(VecDeque::from([first])),
            readings: Mutex::default(),
            told_ns: Default::default(),
        }
    }

    /// Notes how things stand, for figures over the last minute.
    pub(crate) fn note(&self) {
        let note = Note { at: Instant::now(), by_door: self.sources.by_door() };
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.push_back(note);
        while notes.len() > NOTES {
            notes.pop_front();
        }
        drop(notes);
        self.read();
    }

    /// Takes a reading where the last one is half a minute old: they are large.
    fn read(&self) {
        let mut readings = self.readings.lock().unwrap_or_else(PoisonError::into_inner);
        if readings.back().is_none_or(|last| last.age() >= READ_EVERY) {
            readings.push_back(Reading::take(&self.sources));
        }
        while readings.len() > 2 {
            readings.pop_front();
        }
    }

    /// What happened in about the last minute, or since the start.
    pub(crate) fn last_minute(&self) -> Measured {
        let now = Reading::take(&self.sources);
        let readings = self.readings.lock().unwrap_or_else(PoisonError::into_inner);
        match readings.front() {
            Some(then) => now.since(then),
            None => now.into_total(self.started.elapsed().as_secs_f64()),
        }
    }

    /// Writes all of it.
    pub(crate) fn write(&self, text: &mut Exposition) {
        let seconds = self.started.elapsed().as_secs_f64();
        let reading = Reading::take(&self.sources);
        let now = Note { at: Instant::now(), by_door: reading.by_door() };
        let total = reading.into_total(seconds);
        let first = self.notes.lock().unwrap_or_else(PoisonError::into_inner).front().copied();
        requests(text, &now.by_door);
        self.doors(text, &now.by_door);
        last_minute(text, &first.unwrap_or(now), &now);
        threads(text, &total);
        stages(text, &total);
        timer(text);
    }

    fn doors(&self, text: &mut Exposition, now: &ByDoor) {
        let help = "Worker time in the stages of a door; `shared`: in those that serve both. Estimated from sampled turns.";
        text.in_unit("weir_door", Unit::Seconds, FamilyKind::Counter, help);
        for ((door, ns), told) in DOORS.into_iter().zip(door_ns(now)).zip(&self.told_ns) {
            // The timer's part is taken off by its mean, so an estimate may fall back by some ns.
            let before = told.fetch_max(ns, Relaxed);
            text.value(&[("door", door)], seconds(ns.max(before)));
        }
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn door_ns(by_door: &ByDoor) -> [u64; 3] {
    [by_door.batch_ns, by_door.openrtb_ns, by_door.shared_ns]
}

fn requests(text: &mut Exposition, now: &ByDoor) {
    text.family("weir_requests", FamilyKind::Counter, "Requests, by door and kind.");
    for (door, kind, count) in [
        ("batch", "ask", now.asks),
        ("batch", "resolve", now.batch_resolves),
        ("openrtb", "bid_request", now.bid_requests),
        ("openrtb", "notice", now.notices),
    ] {
        text.count(&[("door", door), ("kind", kind)], count);
    }
}

/// A door without requests in that time has no sample.
fn last_minute(text: &mut Exposition, then: &Note, now: &Note) {
    let passed = now.at.saturating_duration_since(then.at).as_secs_f64();
    let (from, to) = (&then.by_door, &now.by_door);
    let served = |by_door: &ByDoor| {
        let batch = by_door.asks.saturating_add(by_door.batch_resolves);
        let openrtb = by_door.bid_requests.saturating_add(by_door.notices);
        [batch, openrtb, batch.saturating_add(openrtb)]
    };
    let requests: Vec<u64> =
        served(to).iter().zip(served(from)).map(|(to, from)| to.saturating_sub(from)).collect();
    let ns = door_ns(to).into_iter().zip(door_ns(from)).map(|(to, from)| to.saturating_sub(from));
    let help = "Worker time in the stages of a door for one of its requests over the last minute; `shared`: \
                in those that serve both, for one request of either.";
    text.in_unit("weir_door_request", Unit::Seconds, FamilyKind::Gauge, help);
    for ((door, ns), requests) in DOORS.into_iter().zip(ns).zip(&requests) {
        if *requests > 0 {
            text.value(&[("door", door)], seconds(ns) / *requests as f64);
        }
    }
    text.family(
        "weir_door_requests_per_second",
        FamilyKind::Gauge,
        "Requests of a door over the last minute.",
    );
    for (door, requests) in DOORS[..2].iter().zip(&requests) {
        text.value(&[("door", door)], *requests as f64 / passed);
    }
}

fn threads(text: &mut Exposition, total: &Measured) {
    text.in_unit(
        "weir_thread_cpu",
        Unit::Seconds,
        FamilyKind::Counter,
        "Processor time of a thread.",
    );
    for thread in &total.threads {
        text.value(&[("thread", &thread.name)], seconds(thread.cpu_ns));
    }
    let mut counter = |name, help, of: &dyn Fn(&MeasuredThread) -> u64| {
        text.family(name, FamilyKind::Counter, help);
        for thread in &total.threads {
            text.count(&[("thread", &thread.name)], of(thread));
        }
    };
    let preempted = "Times that it was taken off its core.";
    counter("weir_thread_preempted", preempted, &|thread| thread.preempted);
    counter("weir_turns", "Turns of a thread.", &|thread| thread.turns);
    counter("weir_sampled_turns", "Of these, turns that were measured.", &|thread| thread.sampled);
}

/// Raw sums of the sampled turns, workers together: any mean can be made of them.
fn stages(text: &mut Exposition, total: &Measured) {
    let all = by_kind(total);
    let ns_per_tick = Cycles::get().ns_per_tick();
    let labels = |thread: &'static str, stage: &'static str| [("thread", thread), ("stage", stage)];
    let help = "Time of a stage in sampled turns, with one reading of the timer a lap.";
    text.in_unit("weir_stage_sampled", Unit::Seconds, FamilyKind::Counter, help);
    for (thread, stage, of) in &all {
        text.value(&labels(thread, stage), of.ticks as f64 * ns_per_tick / 1e9);
    }
    text.family("weir_stage_sampled_laps", FamilyKind::Counter, "Times that a stage was measured.");
    for (thread, stage, of) in &all {
        text.count(&labels(thread, stage), of.laps);
    }
    text.family("weir_stage_sampled_items", FamilyKind::Counter, "Items that it handled then.");
    for (thread, stage, of) in &all {
        text.count(&labels(thread, stage), of.items);
    }
}

fn by_kind(total: &Measured) -> Vec<(&'static str, &'static str, StageFigures)> {
    let mut all: Vec<(&'static str, &'static str, StageFigures)> = Vec::new();
    for thread in &total.threads {
        let kind = Probes::of_thread(&thread.name);
        let Some((_, name)) = THREADS.iter().find(|(known, _)| Some(*known) == kind) else {
            continue;
        };
        for (stage, figures) in &thread.stages {
            match all.iter_mut().find(|(thread, known, _)| (thread, known) == (name, stage)) {
                Some((.., sum)) => sum.merge(figures),
                None => all.push((name, stage, figures.clone())),
            }
        }
    }
    all
}

fn timer(text: &mut Exposition) {
    let (timer, cycles) = (TimerCost::get(), Cycles::get());
    let ns = cycles.ns_per_tick();
    let seconds = Unit::Seconds;
    text.in_unit("weir_timer_reading", seconds, FamilyKind::Gauge, "What reading the timer costs.");
    text.value(&[], timer.mean_ticks() * ns / 1e9);
    text.in_unit(
        "weir_timer_resolution",
        seconds,
        FamilyKind::Gauge,
        "What one lap cannot resolve.",
    );
    text.value(&[], timer.resolution_ticks() * ns / 1e9);
    text.family("weir_timer", FamilyKind::Info, "What the timer is.");
    text.count(&[("clock", &cycles.note()), ("version", env!("CARGO_PKG_VERSION"))], 1);
}
