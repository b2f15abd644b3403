//! The sheet as metrics.

use std::fmt::Write as _;

use super::{Flag, Group, Row, Sheet};
use crate::Nanos;

impl Sheet {
    /// The sheet as metric families in the OpenMetrics text format. All names begin with `prefix`, such as `weir_`. The
    /// caller writes the `# EOF` after its last family.
    ///
    /// What is below the timer's resolution is given as its upper end, and flagged. The counters count from the begin of
    /// the period: scrape a sheet whose period began with the process.
    #[must_use]
    pub fn open_metrics(&self, prefix: &str) -> String {
        let mut families = Families { prefix, text: String::new() };
        self.write_times(&mut families);
        self.write_counts(&mut families);
        self.write_flags(&mut families);
        self.write_totals(&mut families);
        families.text
    }

    fn write_times(&self, families: &mut Families<'_>) {
        let mut times = |name, help, of: &dyn Fn(&Row) -> Option<f64>| {
            families.add(name, "gauge", "nanoseconds", help, self.samples(of));
        };
        let value = |nanos: Option<Nanos>| nanos.map(shown);
        times("cost_mean_nanoseconds", "Mean of an operation.", &|row| Some(shown(row.mean)));
        times("cost_p50_nanoseconds", "Median of an operation.", &|row| value(row.p50));
        times("cost_p99_nanoseconds", "99th percentile of an operation.", &|row| value(row.p99));
        times("cost_per_request_nanoseconds", "What it takes of a request.", &|row| {
            value(row.ns_per_request())
        });
        times(
            "cost_saving_per_request_nanoseconds",
            "What a request would cost more with the alternative.",
            &Row::saving_ns_per_request,
        );
    }

    fn write_counts(&self, families: &mut Families<'_>) {
        let cores = self.samples(&|row| self.cores(row.total().middle_ns()));
        families.add("cost_cores", "gauge", "", "Cores that it keeps busy.", cores);
        let instructions = self.samples(&|row| row.instructions);
        families.add("cost_instructions", "gauge", "", "Instructions per operation.", instructions);
        let operations = self.samples(&|row| Some(row.count));
        families.add("cost_operations", "counter", "", "Operations.", operations);
    }

    fn write_flags(&self, families: &mut Families<'_>) {
        let flags = self.rows().flat_map(|(group, row)| {
            let labels =
                move |flag: Flag| format!("{},flag=\"{}\"", labels(group, row), flag.name());
            row.flags().into_iter().map(move |flag| (labels(flag), 1.0))
        });
        families.add("cost_flagged", "gauge", "", "What to look at.", flags.collect());
    }

    fn write_totals(&self, families: &mut Families<'_>) {
        let mut sums = |name, help, of: &dyn Fn(&Group) -> Option<f64>| {
            let sample = |group: &Group| Some((label("group", &group.name), of(group)?));
            let samples = self.groups.iter().filter_map(sample).collect();
            families.add(name, "counter", "nanoseconds", help, samples);
        };
        sums("cost_cpu_nanoseconds", "Processor time of the threads.", &|group| group.cpu_ns);
        sums("cost_recorded_nanoseconds", "Time that the rows account for.", &|group| {
            Some(group.totals().recorded.middle_ns())
        });
    }

    fn samples(&self, of: &dyn Fn(&Row) -> Option<f64>) -> Vec<(String, f64)> {
        self.rows().filter_map(|(group, row)| Some((labels(group, row), of(row)?))).collect()
    }
}

/// The value, or the upper end of what cannot be resolved.
fn shown(nanos: Nanos) -> f64 {
    match nanos {
        Nanos::Known { ns, .. } => ns,
        Nanos::Below(ns) => ns,
    }
}

struct Families<'a> {
    prefix: &'a str,
    text: String,
}

impl Families<'_> {
    /// Writes a family of metrics, unless it has no samples.
    fn add(&mut self, name: &str, kind: &str, unit: &str, help: &str, samples: Vec<(String, f64)>) {
        if samples.is_empty() {
            return;
        }
        let name = format!("{}{name}", self.prefix);
        let _ = writeln!(self.text, "# TYPE {name} {kind}");
        if !unit.is_empty() {
            let _ = writeln!(self.text, "# UNIT {name} {unit}");
        }
        let _ = writeln!(self.text, "# HELP {name} {help}");
        let suffix = if kind == "counter" { "_total" } else { "" };
        for (labels, value) in samples {
            let _ = writeln!(self.text, "{name}{suffix}{{{labels}}} {}", number(value));
        }
    }
}

/// Rust writes `inf`, OpenMetrics `+Inf`.
fn number(value: f64) -> String {
    match value {
        infinite if infinite.is_infinite() && infinite > 0.0 => "+Inf".to_owned(),
        infinite if infinite.is_infinite() => "-Inf".to_owned(),
        value => value.to_string(),
    }
}

fn labels(group: &Group, row: &Row) -> String {
    format!("{},{}", label("group", &group.name), label("abstraction", &row.name))
}

fn label(name: &str, value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("{name}=\"{value}\"")
}
