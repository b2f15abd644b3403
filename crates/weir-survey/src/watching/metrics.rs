//! `GET /metrics`: what `GET /v1/node` says, for Prometheus.
#![allow(clippy::cast_precision_loss, reason = "figures for people, below 2^52")]

use probe::{Cycles, Histogram};
use weir_node::doors::DOORS;
use weir_node::pulse::OnLog;
use wire::Verdict;

use super::load::{FIRST_OF_RESOLVES, Figures, ticks};
use super::status::{Bounds, Identity, LATENCY_LE_US, queues};
use crate::admin::Status;
use crate::costs::openmetrics::{Exposition, FamilyKind, Unit};
use crate::counted::Registry;

/// All families.
pub(super) fn write(
    text: &mut Exposition,
    figures: &Figures,
    status: &Status,
    identity: &Identity,
    bounds: &Bounds,
) {
    node(text, figures, status, identity);
    doors(text, figures);
    workers(text, figures, identity);
    journal(text, figures);
    queue_depths(text, figures, status, bounds);
    keys_by_caller(text, figures);
    proof(text, figures);
    let counted = Registry::read(status, &figures.scene.report);
    counted.write_families(text);
    failures(text, &counted);
}

fn node(text: &mut Exposition, figures: &Figures, status: &Status, identity: &Identity) {
    text.family("weir_build_info", FamilyKind::Gauge, "What runs; always 1.");
    let (node, run) = (identity.node.to_string(), figures.scene.run.to_string());
    text.count(&[("node", &node), ("run", &run), ("version", identity.version)], 1);
    text.in_unit("weir_uptime", Unit::Seconds, FamilyKind::Gauge, "Since the node started.");
    text.value(&[], status.uptime_ms() as f64 / 1e3);
    text.family("weir_budgets", FamilyKind::Gauge, "Budgets that the bank knows.");
    text.count(&[], figures.scene.report.budgets as u64);
    text.in_unit("weir_survey_age", Unit::Seconds, FamilyKind::Gauge, "Age of these figures.");
    text.value(&[], figures.age_ms() as f64 / 1e3);
    let help = "How long the last look at all budgets took.";
    text.in_unit("weir_survey_duration", Unit::Seconds, FamilyKind::Gauge, help);
    text.value(&[], figures.survey_ms as f64 / 1e3);
    let help = "Since the bank's last turn began; a turn takes milliseconds.";
    text.in_unit("weir_bank_turn_age", Unit::Seconds, FamilyKind::Gauge, help);
    text.value(&[], status.pulse().age_ms() as f64 / 1e3);
    let help = "The node's time, less the system's time of day.";
    text.in_unit("weir_clock_ahead", Unit::Seconds, FamilyKind::Gauge, help);
    text.value(&[], status.pulse().clock_ahead_ms() as f64 / 1e3);
    let help = "For how long the node's time has not been the system's.";
    text.in_unit("weir_clock_held", Unit::Seconds, FamilyKind::Gauge, help);
    text.value(&[], status.pulse().clock_held_ms() as f64 / 1e3);
    if let Some(log) = status.pulse().on_log() {
        cluster(text, log);
        cluster_role(text, "bank", status.files_differ());
    }
}

/// What a standby says, too.
pub(crate) fn cluster_role(text: &mut Exposition, role: &str, files_differ: bool) {
    text.family("weir_cluster_role", FamilyKind::Gauge, "1 of the role that this node has.");
    text.count(&[("role", role)], 1);
    let help = "1 where this node's budgets file is not the one that was in force.";
    text.family("weir_cluster_files_differ", FamilyKind::Gauge, help);
    text.count(&[], files_differ.into());
}

/// How far behind the log a node is, by the meaning that its role gives it.
pub(crate) fn cluster_lag(text: &mut Exposition, help: &str, lag_ms: u64) {
    text.in_unit("weir_cluster_lag", Unit::Seconds, FamilyKind::Gauge, help);
    text.value(&[], lag_ms as f64 / 1e3);
}

fn cluster(text: &mut Exposition, log: &OnLog) {
    text.family("weir_cluster_run", FamilyKind::Gauge, "Number of the run.");
    text.count(&[], log.run.into());
    let help = "How long the bank may grant without an answer of the log.";
    text.in_unit("weir_cluster_lease", Unit::Seconds, FamilyKind::Gauge, help);
    text.value(&[], log.lease.left_ms() as f64 / 1e3);
    let help = "Since the last append was sent that the log acknowledged.";
    cluster_lag(text, help, log.lease.silent_ms());
    let (help, append) = ("From an append to the log's answer.", log.at.append_ns());
    text.in_unit("weir_cluster_append", Unit::Seconds, FamilyKind::Histogram, help);
    for le_us in LATENCY_LE_US {
        let le = seconds_text(le_us);
        text.part("_bucket", &[("le", &le)], append.count_to(le_us * 1_000) as f64);
    }
    text.part("_bucket", &[("le", "+Inf")], append.count() as f64);
    text.part("_count", &[], append.count() as f64);
    text.part("_sum", &[], append.sum() as f64 / 1e9);
    for (family, help, count) in [
        (
            "weir_cluster_appends_unknown",
            "Appends repeated for want of an answer.",
            log.at.unknown(),
        ),
        (
            "weir_cluster_takeovers",
            "Runs of the log that began behind another one.",
            u64::from(log.run) - 1,
        ),
        (
            "weir_cluster_engine_forgot",
            "Times that the log had lost what it acknowledged.",
            log.at.forgot(),
        ),
    ] {
        text.family(family, FamilyKind::Counter, help);
        text.count(&[], count);
    }
}

fn doors(text: &mut Exposition, figures: &Figures) {
    text.family(
        "weir_decisions",
        FamilyKind::Counter,
        "Asks and bid requests answered, by door and verdict.",
    );
    for (door, found) in DOORS.iter().zip(&figures.doors) {
        for (verdict, total, _) in &found.verdicts {
            text.count(&[("door", door.name), ("verdict", verdict)], *total);
        }
    }
    let help = "From a wake-up to a whole answer, in sampled wake-ups.";
    text.in_unit("weir_latency", Unit::Seconds, FamilyKind::Histogram, help);
    for (door, found) in DOORS.iter().zip(&figures.doors) {
        let latency = &found.latency_total;
        let buckets =
            LATENCY_LE_US.map(|le_us| (seconds_text(le_us), latency.count_to(ticks(le_us))));
        for (le, count) in &buckets {
            text.part("_bucket", &[("door", door.name), ("le", le)], *count as f64);
        }
        text.part("_bucket", &[("door", door.name), ("le", "+Inf")], latency.count() as f64);
        text.part("_count", &[("door", door.name)], latency.count() as f64);
        text.part("_sum", &[("door", door.name)], sum_s(latency));
    }
    let help = "Percentiles of the last ten seconds, from a wake-up to a whole answer.";
    text.in_unit("weir_latency_recent", Unit::Seconds, FamilyKind::Gauge, help);
    for (door, found) in DOORS.iter().zip(&figures.doors) {
        for (q, quantile) in
            [("0.5", 0.5), ("0.9", 0.9), ("0.99", 0.99), ("0.999", 0.999), ("1", 1.0)]
        {
            let value = found.latency.quantile(quantile) as f64 * Cycles::get().ns_per_tick() / 1e9;
            text.value(&[("door", door.name), ("q", q)], value);
        }
    }
}

/// Decimal text without exponents; a bound as people write it.
fn seconds_text(us: u64) -> String {
    let text = format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    let text = text.trim_end_matches('0');
    if text.ends_with('.') { format!("{text}0") } else { text.to_string() }
}

/// From the buckets: each value counts as the end of its bucket, at most a 64th above it.
fn sum_s(latency: &Histogram) -> f64 {
    latency.sum() as f64 * Cycles::get().ns_per_tick() / 1e9
}

fn workers(text: &mut Exposition, figures: &Figures, identity: &Identity) {
    let name =
        |core: &Option<usize>| core.map_or_else(|| "any".to_string(), |core| core.to_string());
    let all = || figures.workers.iter().zip(&identity.cores).enumerate();
    text.in_unit(
        "weir_worker_busy",
        Unit::Seconds,
        FamilyKind::Counter,
        "Processor time of a worker.",
    );
    for (number, (worker, core)) in all() {
        let labels = [("worker", number.to_string()), ("core", name(core))];
        text.value(
            &labels.each_ref().map(|(name, value)| (*name, value.as_str())),
            worker.cpu_ns as f64 / 1e9,
        );
    }
    let help = "Time in which a worker could have run and another thread had its core.";
    text.in_unit("weir_worker_wait", Unit::Seconds, FamilyKind::Counter, help);
    for (number, (worker, core)) in all() {
        let labels = [("worker", number.to_string()), ("core", name(core))];
        text.value(
            &labels.each_ref().map(|(name, value)| (*name, value.as_str())),
            worker.wait_ns as f64 / 1e9,
        );
    }
    text.family("weir_worker_decisions", FamilyKind::Counter, "Asks and bid requests of a worker.");
    for (number, (worker, core)) in all() {
        let labels = [("worker", number.to_string()), ("core", name(core))];
        text.count(
            &labels.each_ref().map(|(name, value)| (*name, value.as_str())),
            worker.decisions,
        );
    }
}

fn journal(text: &mut Exposition, figures: &Figures) {
    let (report, journal) = (&figures.scene.report, &figures.scene.report.journal);
    text.family("weir_journal_failing", FamilyKind::Gauge, "1 while the journal cannot seal.");
    text.count(&[], journal.failure.is_some().into());
    let help = "How long the oldest record that is not sealed has waited.";
    text.in_unit("weir_journal_lag", Unit::Seconds, FamilyKind::Gauge, help);
    text.value(&[], figures.scene.journal_lag_ms as f64 / 1e3);
    let help = "Writing and sealing a group, percentiles of the last ten seconds.";
    text.in_unit("weir_journal_seal_recent", Unit::Seconds, FamilyKind::Gauge, help);
    for (q, quantile) in [("0.5", 0.5), ("0.99", 0.99), ("1", 1.0)] {
        text.value(&[("q", q)], figures.seal_ns.quantile(quantile) as f64 / 1e9);
    }
    text.family(
        "weir_resolves",
        FamilyKind::Counter,
        "Confirms, settles and releases of the batch door, by verdict.",
    );
    let resolves = Verdict::ALL.iter().filter(|verdict| verdict.as_raw() >= FIRST_OF_RESOLVES);
    for verdict in resolves {
        let found = report.resolved.iter().find(|(known, _)| known == verdict);
        text.count(&[("verdict", verdict.name())], found.map_or(0, |(_, count)| *count));
    }
    text.family("weir_grants_open", FamilyKind::Gauge, "Shares of budgets that workers have.");
    text.count(&[], report.grants as u64);
}

fn queue_depths(text: &mut Exposition, figures: &Figures, status: &Status, bounds: &Bounds) {
    let queues = queues(figures, status, bounds);
    text.family("weir_queue_depth", FamilyKind::Gauge, "What is in a bounded queue.");
    for (queue, depth, _) in &queues {
        text.count(&[("queue", queue)], *depth);
    }
    text.family("weir_queue_limit", FamilyKind::Gauge, "What may be in it.");
    for (queue, _, max) in &queues {
        text.count(&[("queue", queue)], *max);
    }
}

fn keys_by_caller(text: &mut Exposition, figures: &Figures) {
    let help = "Answers kept for Idempotency-Keys, by caller: the 16 with the most, and the others together.";
    text.family("weir_idempotency_keys", FamilyKind::Gauge, help);
    for (caller, keys) in &figures.scene.report.keys_by_caller {
        text.count(&[("caller", caller)], *keys);
    }
}

fn proof(text: &mut Exposition, figures: &Figures) {
    let proof = &figures.proof;
    text.family(
        "weir_proof_budgets",
        FamilyKind::Gauge,
        "Budgets whose lines the last check added up.",
    );
    text.count(&[], proof.budgets);
    text.family(
        "weir_proof_violations",
        FamilyKind::Gauge,
        "Of these, budgets that break a promise.",
    );
    text.count(&[], proof.violations());
    text.family("weir_proof_checks", FamilyKind::Counter, "Checks of all budgets.");
    text.count(&[], proof.checks_total);
    text.family(
        "weir_budgets_in_debt",
        FamilyKind::Gauge,
        "Budgets with spend above holds or after they were gone.",
    );
    text.count(&[], proof.debts);
    let help = "Budgets whose limit is below what is out: it was lowered, or orders were executed beyond it.";
    text.family("weir_budgets_lowered", FamilyKind::Gauge, help);
    text.count(&[], proof.lowered);
}

fn failures(text: &mut Exposition, counted: &Registry) {
    text.family("weir_errors", FamilyKind::Counter, "What should not happen, by code.");
    for (code, count, _) in counted.errors() {
        text.count(&[("code", &code)], count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_written_as_people_write_them() {
        let texts = [5, 1_000, 50_000, 1_000_000, 2_500_000].map(seconds_text);
        assert_eq!(texts, ["0.000005", "0.001", "0.05", "1.0", "2.5"]);
    }
}
