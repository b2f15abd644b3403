//! OpenMetrics text: families with their samples, written in the order they are given.

use std::fmt::Write;

/// What HTTP calls it.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The kind of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FamilyKind {
    /// Never goes back while the process lives; its samples are called `NAME_total`.
    Counter,
    /// May go up and down.
    Gauge,
    /// Facts that are told by labels; its one sample is called `NAME_info`.
    Info,
    /// Cumulative counts by upper bound, `le`; its samples are [parts](Exposition::part).
    Histogram,
}

/// What a family's values are in; its name ends with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Seconds,
    Bytes,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Unit::Seconds => "seconds",
            Unit::Bytes => "bytes",
        }
    }
}

impl FamilyKind {
    fn name(self) -> &'static str {
        match self {
            FamilyKind::Counter => "counter",
            FamilyKind::Gauge => "gauge",
            FamilyKind::Info => "info",
            FamilyKind::Histogram => "histogram",
        }
    }

    fn suffix(self) -> &'static str {
        match self {
            FamilyKind::Counter => "_total",
            FamilyKind::Gauge | FamilyKind::Histogram => "",
            FamilyKind::Info => "_info",
        }
    }
}

/// Names and values of a sample.
pub(crate) type Labels<'a> = &'a [(&'a str, &'a str)];

/// An exposition that is being written.
#[derive(Debug, Default)]
pub(crate) struct Exposition {
    text: String,
    name: String,
    suffix: &'static str,
}

impl Exposition {
    /// Begins a family; the samples that follow are its.
    pub(crate) fn family(&mut self, name: &str, kind: FamilyKind, help: &str) {
        (self.name, self.suffix) = (name.to_string(), kind.suffix());
        self.text += &format!("# TYPE {name} {}\n# HELP {name} {}\n", kind.name(), escaped(help));
    }

    /// Begins a family whose values are in a unit: `NAME_UNIT`.
    pub(crate) fn in_unit(&mut self, name: &str, unit: Unit, kind: FamilyKind, help: &str) {
        let name = format!("{name}_{}", unit.name());
        self.family(&name, kind, help);
        self.text += &format!("# UNIT {name} {}\n", unit.name());
    }

    /// A sample with a whole value.
    pub(crate) fn count(&mut self, labels: Labels<'_>, value: u64) {
        self.sample(labels, &value.to_string());
    }

    /// A sample with a fractional value; one that is no number is left out.
    pub(crate) fn value(&mut self, labels: Labels<'_>, value: f64) {
        if value.is_finite() {
            self.sample(labels, &value.to_string());
        }
    }

    /// A sample of a histogram: `_bucket`, `_count` or `_sum`.
    pub(crate) fn part(&mut self, suffix: &'static str, labels: Labels<'_>, value: f64) {
        let own = std::mem::replace(&mut self.suffix, suffix);
        self.value(labels, value);
        self.suffix = own;
    }

    fn sample(&mut self, labels: Labels<'_>, value: &str) {
        let labels: Vec<String> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        self.text += &self.name;
        self.text += self.suffix;
        if !labels.is_empty() {
            // Writing to a string does not fail.
            let _ = write!(self.text, "{{{}}}", labels.join(","));
        }
        let _ = writeln!(self.text, " {value}");
    }

    /// The whole text.
    pub(crate) fn finish(mut self) -> String {
        self.text += "# EOF\n";
        self.text
    }
}

/// As the format wants texts: three characters are escaped.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_and_samples_are_written_as_the_format_wants() {
        let mut text = Exposition::default();
        text.family("weir_requests", FamilyKind::Counter, "Requests.");
        text.count(&[("door", "batch")], 7);
        text.count(&[("door", "a\"b\\c\nd")], 0);
        text.family("weir_ns_per_request", FamilyKind::Gauge, "Time.");
        text.value(&[], 12.5);
        text.value(&[], f64::NAN);
        text.family("weir_timer", FamilyKind::Info, "The timer.");
        text.count(&[("clock", "tsc")], 1);
        text.in_unit("weir_latency", Unit::Seconds, FamilyKind::Histogram, "Latency.");
        text.part("_bucket", &[("le", "+Inf")], 2.0);
        let expected = "# TYPE weir_requests counter\n# HELP weir_requests Requests.\n\
            weir_requests_total{door=\"batch\"} 7\n\
            weir_requests_total{door=\"a\\\"b\\\\c\\nd\"} 0\n\
            # TYPE weir_ns_per_request gauge\n# HELP weir_ns_per_request Time.\n\
            weir_ns_per_request 12.5\n\
            # TYPE weir_timer info\n# HELP weir_timer The timer.\n\
            weir_timer_info{clock=\"tsc\"} 1\n\
            # TYPE weir_latency_seconds histogram\n# HELP weir_latency_seconds Latency.\n\
            # UNIT weir_latency_seconds seconds\n\
            weir_latency_seconds_bucket{le=\"+Inf\"} 2\n# EOF\n";
        assert_eq!(text.finish(), expected);
    }
}
