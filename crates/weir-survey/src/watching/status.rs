//! `GET /v1/node`: how the node stands, as JSON.

use std::net::SocketAddr;

use door_transport::{Counters, Handle};
use probe::Histogram;
use serde_json::{Value, json};
use weir_node::doors::DOORS;

use super::load::{DoorFigures, Figures, WorkerFigures, micros, ticks};
use crate::admin::Status;
use crate::counted::Registry;

/// Upper bounds of the buckets of latency, microseconds.
pub(super) const LATENCY_LE_US: [u64; 15] =
    [5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 1_000_000];

/// Errors of the budgets file in one answer.
const ERRORS_MAX: usize = 20;

/// The limits of queues, from the configuration; of all workers together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) resolves_waiting: u64,
    pub(super) connections: u64,
    pub(super) output_bytes: u64,
    pub(super) unsealed_bytes: u64,
    pub(super) grants: u64,
    pub(super) keys: u64,
    pub(super) profile_counts: u64,
}

/// A bounded queue: name, what is in it, what may be.
pub(super) type Queue = (&'static str, u64, u64);

/// What the node is.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    pub(super) node: u16,
    pub(super) version: &'static str,
    /// The core that each worker is pinned to.
    pub(super) cores: Vec<Option<usize>>,
}

/// All of it.
pub(super) fn status(
    figures: &Figures,
    status: &Status,
    identity: &Identity,
    bounds: &Bounds,
) -> Value {
    let report = &figures.scene.report;
    let proof = &figures.proof;
    let workers = figures.workers.iter().zip(&identity.cores);
    let doors = DOORS.iter().zip(status.doors()).zip(&figures.doors);
    let doors = doors.map(|((facts, listen), door)| door_json(facts.name, *listen, door));
    let queues = queues(figures, status, bounds);
    let counted = Registry::read(status, report);
    json!({
        "as_of_ms": figures.as_of_ms,
        "node": identity.node,
        "run": figures.scene.run,
        "version": identity.version,
        "uptime_ms": status.uptime_ms(),
        "survey_ms": figures.survey_ms,
        "workers": workers.map(worker).collect::<Vec<_>>(),
        "connections": connections(status),
        "doors": doors.collect::<Vec<_>>(),
        "queues": queues.iter().map(queue).collect::<Vec<_>>(),
        "journal": journal(figures),
        "budgets_file": status.budgets_file(ERRORS_MAX),
        "bank": { "turn_age_ms": status.pulse().age_ms() },
        "clock": {
            "ahead_ms": status.pulse().clock_ahead_ms(), "held_ms": status.pulse().clock_held_ms(),
        },
        "grants": { "open": report.grants, "max": bounds.grants },
        "proof": {
            "checked_ms": proof.checked_ms, "budgets": proof.budgets, "violations": proof.violations(),
            "held_and_spent_ok": proof.above_limit == 0, "sums_ok": proof.unbalanced == 0,
            "lowered": proof.lowered, "debts": proof.debts, "checks": proof.checks_total,
            "violations_total": proof.violations_total,
            "examples": proof.examples.iter().map(u64::to_string).collect::<Vec<_>>(),
        },
        "counters": counted.to_json(),
        "errors": counted.errors().iter().map(error).collect::<Vec<_>>(),
    })
}

fn worker((worker, core): (&WorkerFigures, &Option<usize>)) -> Value {
    json!({
        "core": core, "busy_ppm": worker.busy_ppm, "idle_ppm": worker.idle_ppm(),
        "wait_ppm": worker.wait_ppm, "decisions_per_s": worker.decisions_per_s,
    })
}

/// `listen` is null for a door that is off.
fn door_json(name: &str, listen: Option<SocketAddr>, door: &DoorFigures) -> Value {
    let verdicts = door.verdicts.iter().filter(|(_, total, _)| *total > 0);
    let verdict = |(verdict, total, per_s): &(&str, u64, f64)| json!({ "verdict": verdict, "per_s": per_s, "total": total });
    json!({
        "door": name,
        "listen": listen.map(|address| address.to_string()),
        "verdicts": verdicts.map(verdict).collect::<Vec<_>>(),
        "latency": latency(&door.latency),
    })
}

/// Percentiles of the last seconds, and counts by bucket; the last bucket has no end.
fn latency(latency: &Histogram) -> Value {
    let at = |q: f64| micros(latency.quantile(q));
    json!({
        "p50_us": at(0.5), "p90_us": at(0.9), "p99_us": at(0.99), "p999_us": at(0.999),
        "max_us": micros(latency.max()), "buckets": buckets(latency),
    })
}

fn buckets(latency: &Histogram) -> Vec<Value> {
    let mut below = 0;
    let mut buckets = Vec::new();
    for le_us in LATENCY_LE_US {
        let to = latency.count_to(ticks(le_us));
        buckets.push(json!({ "le_us": le_us, "count": to.saturating_sub(below) }));
        below = to;
    }
    buckets.push(json!({ "le_us": null, "count": latency.count().saturating_sub(below) }));
    buckets
}

fn connections(status: &Status) -> Value {
    json!({
        "open": sum(status, |counters| counters.connections.get()),
        "accepted": sum(status, |counters| counters.accepted.get()),
        "refused_full": sum(status, |counters| counters.refused_full.get()),
        "bytes_in": sum(status, |counters| counters.bytes_in.get()),
        "bytes_out": sum(status, |counters| counters.bytes_out.get()),
    })
}

/// Over the loops of all workers.
pub(super) fn sum(status: &Status, read: impl Fn(&Counters) -> u64) -> u64 {
    let loops = status.handles().iter().map(Handle::counters);
    loops.map(read).fold(0, u64::saturating_add)
}

/// What is in the queues that have limits.
pub(super) fn queues(figures: &Figures, status: &Status, bounds: &Bounds) -> Vec<Queue> {
    let report = &figures.scene.report;
    vec![
        ("resolves_waiting", status.waiting(), bounds.resolves_waiting),
        ("unsealed_bytes", report.journal.unsealed_bytes, bounds.unsealed_bytes),
        ("grants", report.grants as u64, bounds.grants),
        ("idempotency_keys", report.keys as u64, bounds.keys),
        ("profile_counts", status.profiles().figures().queued, bounds.profile_counts),
        ("connections", sum(status, |c| c.connections.get()), bounds.connections),
        ("output_bytes", sum(status, |c| c.output_bytes.get()), bounds.output_bytes),
    ]
}

fn queue((queue, depth, max): &Queue) -> Value {
    json!({ "queue": queue, "depth": depth, "max": max })
}

fn journal(figures: &Figures) -> Value {
    let journal = &figures.scene.report.journal;
    let us = |ns: u64| ns / 1_000;
    let state = match (&journal.failure, figures.scene.journal_full) {
        (Some(_), _) => "failing",
        (None, true) => "full",
        (None, false) => "sealing",
    };
    let seal = &figures.seal_ns;
    json!({
        "state": state,
        "failure": journal.failure,
        "seal_us": { "p50": us(seal.quantile(0.5)), "p99": us(seal.quantile(0.99)), "max": us(seal.max()) },
        "lag_ms": figures.scene.journal_lag_ms,
        "unsealed_bytes": journal.unsealed_bytes,
        "bytes": journal.bytes,
        "groups": journal.groups,
        "errors": journal.errors,
        "snapshots": journal.kept.snapshots,
        "keeper_failure": journal.kept.failure,
    })
}

fn error((code, count, doc): &(String, u64, &'static str)) -> Value {
    json!({ "code": code, "count": count, "doc": doc })
}
