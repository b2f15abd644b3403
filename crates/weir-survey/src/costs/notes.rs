//! What a reader of a sheet must know beside its figures.
#![allow(clippy::cast_precision_loss, reason = "counts and times for people, below 2^52")]

use probe::{Counters, Cycles, Marks};
use weir_node::doors::DOORS;
use weir_node::measured::{Measured, MeasuredThread};

use super::known::{Baseline, Workload};
use super::sheet::{Instruments, probes_ns};

/// The notes, most important first.
pub(crate) fn of(measured: &Measured, with: &Instruments<'_>, marks: &Marks) -> Vec<String> {
    let mut notes = vec![requests(measured)];
    if cfg!(debug_assertions) {
        notes.push("NOT A RELEASE BUILD: these figures are not those of a node in service".into());
    }
    notes.extend(too_few(measured));
    notes.extend(marked(measured, marks));
    notes.extend(lost(measured, with));
    notes.extend(elsewhere());
    notes.push(probes(measured, with));
    notes.push(format!("timer: {}", Cycles::get().note()));
    if measured.threads.iter().any(|thread| thread.parts.is_some()) {
        let parts = "rows further in are parts of the row above them, measured in turns of their own; their boundaries are \
                     so close that they may add up to more than the whole";
        notes.push(parts.to_string());
    }
    notes.push(processor_time(measured));
    notes.push(counters(measured));
    notes.extend(instructions(with.baseline));
    notes.push(
        "what the columns mean: docs/measuring.md; the other ways: docs/performance.md".into(),
    );
    notes
}

fn requests(measured: &Measured) -> String {
    if measured.all_requests() == 0 {
        return "IDLE: no request came while it was measured, so nothing is known of what requests cost; send some (weir \
                hammer), or use --bench"
            .to_string();
    }
    let rate = |count: &u64| *count as f64 / measured.seconds.max(f64::MIN_POSITIVE);
    let doors = DOORS.iter().zip(&measured.requests).map(|(door, counts)| {
        let kinds = door.requests.iter().zip(counts);
        let kinds = kinds
            .map(|(kind, count)| format!("{:.0} {}s", rate(count), kind.name.replace('_', " ")));
        format!("{} door: {} per second", door.name, kinds.collect::<Vec<_>>().join(" and "))
    });
    doors.collect::<Vec<_>>().join("; ")
}

/// Fewer sampled turns of the workers say little of the others.
const SAMPLED_MIN: u64 = 30;

/// Requests came, and yet little is known of the workers' stages: rows may be missing from the sheet.
fn too_few(measured: &Measured) -> Option<String> {
    let workers = measured.threads.iter().filter(|thread| thread.parts.is_some());
    let (turns, sampled) =
        workers.fold((0, 0), |(turns, sampled), of| (turns + of.turns, sampled + of.sampled));
    let requests = measured.all_requests();
    (requests > 0 && sampled < SAMPLED_MIN).then(|| {
        format!(
            "TOO FEW: {sampled} of {turns} turns of the workers were measured, so rows may be wrong or missing; measure longer \
             (--seconds), or more of the turns (probes.every)"
        )
    })
}

/// What spoiled the measurement. The thread that measures may sleep and move as it likes: those that are measured count.
fn marked(measured: &Measured, marks: &Marks) -> Option<String> {
    let machine = Marks { preempted: 0, moved: false, ..*marks };
    let mut all: Vec<String> = Vec::new();
    if !machine.is_clean() {
        all.push(machine.to_string());
    }
    for thread in measured.threads.iter().filter(|thread| thread.preempted > 0) {
        all.push(format!("{} lost its core {} times", thread.name, thread.preempted));
    }
    let told = "laps that lost their core hold what they ran, and are in no quantile";
    (!all.is_empty()).then(|| format!("MARKED: {}; {told}", all.join(", ")))
}

/// Laps that lost their core, which are counted apart.
fn lost(measured: &Measured, with: &Instruments<'_>) -> Option<String> {
    let lost = measured.threads.iter().filter(|thread| thread.lost_laps > 0);
    let told = lost.map(|thread| {
        let ms = thread.lost_ticks as f64 * with.ns_per_tick / 1e6;
        format!("{} {} of its laps, for {ms:.2} ms", thread.name, thread.lost_laps)
    });
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| format!("lost their core in measured turns: {}", told.join(", ")))
}

/// Nothing stands beside the rows, and why.
fn elsewhere() -> Option<String> {
    let machine = super::known::elsewhere()?;
    Some(format!(
        "the alternatives of this version were measured on another processor ({machine}) and are left out: their ratios need \
         not hold here; make bench measures them"
    ))
}

fn probes(measured: &Measured, with: &Instruments<'_>) -> String {
    let sampled: Vec<String> = measured
        .threads
        .iter()
        .map(|thread| format!("{} {} of {}", thread.name, thread.sampled, thread.turns))
        .collect();
    let cpu_ns: u64 = measured.threads.iter().map(|thread| thread.cpu_ns).sum();
    let share = if cpu_ns > 0 { probes_ns(measured, with) / cpu_ns as f64 * 100.0 } else { 0.0 };
    let reading_ns = with.timer.mean_ticks() * with.ns_per_tick;
    format!(
        "turns measured: {}; the probes (a reading takes {reading_ns:.1} ns) took {share:.2} % of these threads' processor time",
        sampled.join(", ")
    )
}

/// How the kernel splits the threads' time.
fn processor_time(measured: &Measured) -> String {
    let of = |thread: &MeasuredThread| {
        let cores = thread.cpu_ns as f64 / (measured.seconds.max(f64::MIN_POSITIVE) * 1e9);
        let (user, kernel) = (thread.user_ns as f64, thread.system_ns as f64);
        let share = kernel / (user + kernel).max(1.0) * 100.0;
        format!("{} {cores:.2} cores, {share:.0} % of it in the kernel", thread.name)
    };
    let threads: Vec<String> = measured.threads.iter().map(of).collect();
    format!("processor time as the kernel counts it: {}", threads.join("; "))
}

/// The workloads of the gate, which are whole walks and no rows.
fn instructions(baseline: &Baseline) -> Option<String> {
    let of = |(name, workload): (&String, &Workload)| {
        format!("{name} {:.0} per operation ({})", workload.instructions, workload.unit)
    };
    let all: Vec<String> = baseline.workloads.iter().map(of).collect();
    (!all.is_empty()).then(|| format!("instructions under callgrind: {}", all.join(", ")))
}

fn counters(measured: &Measured) -> String {
    let counted: Vec<String> = measured
        .threads
        .iter()
        .filter_map(|thread| Some(format!("{} {}", thread.name, thread.instructions?)))
        .collect();
    if !counted.is_empty() {
        return format!("instructions by the hardware's counters: {}", counted.join(", "));
    }
    match Counters::hardware() {
        Err(why) => format!("hardware counters: {why}"),
        Ok(_) => {
            "hardware counters: this machine has them; threads of a node are not counted with them"
                .to_string()
        }
    }
}
