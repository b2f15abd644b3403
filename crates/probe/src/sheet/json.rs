//! The sheet as JSON. Names of fields are stable and end in their units.

use std::fmt::Write as _;

use super::{Alternative, Group, Requests, Row, Sheet, Totals};
use crate::Nanos;

impl Sheet {
    /// The sheet, with all that follows from it, as one JSON object. A reading is `{"ns": .., "error_ns": ..}`, or
    /// `{"below_ns": ..}` where the timer cannot tell it from nothing; what is not known is null.
    #[must_use]
    pub fn json(&self) -> String {
        Object::new()
            .text("title", &self.title)
            .text("machine", &self.machine)
            .text("date", &self.date)
            .number("seconds", Some(self.seconds))
            .raw("requests", &requests(&self.requests))
            .raw("groups", &array(self.groups.iter().map(|group| self.group(group)), ",\n"))
            .raw("totals", &self.totals_object(self.totals()))
            .raw("notes", &array(self.notes.iter().map(|note| quoted(note)), ",\n"))
            .end()
    }

    fn group(&self, group: &Group) -> String {
        Object::new()
            .text("name", &group.name)
            .raw("rows", &array(group.rows.iter().map(|row| self.row(row)), ",\n"))
            .raw("totals", &self.totals_object(group.totals()))
            .end()
    }

    fn row(&self, row: &Row) -> String {
        Object::new()
            .text("name", &row.name)
            .text("place", &row.place)
            .number("depth", Some(row.depth.into()))
            .raw("per", &requests(&row.per))
            .number("count", Some(row.count))
            .raw("mean", &nanos(Some(row.mean)))
            .raw("p50", &nanos(row.p50))
            .raw("p99", &nanos(row.p99))
            .number("count_per_request", row.per_request())
            .raw("per_request", &nanos(row.ns_per_request()))
            .number("cores", self.cores(row.total().middle_ns()))
            .number("instructions", row.instructions)
            .raw("alternative", &row.alternative.as_ref().map_or_else(null, alternative))
            .number("saving_ns_per_request", row.saving_ns_per_request())
            .raw("justification", &row.justification.as_deref().map_or_else(null, quoted))
            .raw("flags", &array(row.flags().into_iter().map(|flag| quoted(flag.name())), ", "))
            .end()
    }

    fn totals_object(&self, totals: Totals) -> String {
        let recorded_ns = totals.recorded.middle_ns();
        let unaccounted_ns = totals.unaccounted_ns();
        let a_request = |ns| self.requests.divide(ns);
        Object::new()
            .number("cpu_ns", totals.cpu_ns)
            .raw("recorded", &nanos(Some(totals.recorded)))
            .number("unaccounted_ns", unaccounted_ns)
            .number("cpu_ns_per_request", totals.cpu_ns.and_then(a_request))
            .number("recorded_ns_per_request", a_request(recorded_ns))
            .number("unaccounted_ns_per_request", unaccounted_ns.and_then(a_request))
            .number("cpu_cores", totals.cpu_ns.and_then(|ns| self.cores(ns)))
            .number("recorded_cores", self.cores(recorded_ns))
            .number("unaccounted_share", totals.unaccounted_share())
            .end()
    }
}

fn requests(requests: &Requests) -> String {
    Object::new().text("unit", &requests.unit).raw("count", &requests.count.to_string()).end()
}

fn alternative(other: &Alternative) -> String {
    Object::new()
        .text("name", &other.name)
        .number("ns", Some(other.ns))
        .number("ours_ns", Some(other.ours_ns))
        .number("ratio", Some(other.ratio))
        .number("ratio_low", Some(other.ratio_low))
        .number("ratio_high", Some(other.ratio_high))
        .text("measured", &other.measured)
        .end()
}

fn nanos(nanos: Option<Nanos>) -> String {
    match nanos {
        None => null(),
        Some(Nanos::Below(ns)) => Object::new().number("below_ns", Some(ns)).end(),
        Some(Nanos::Known { ns, error_ns }) => {
            Object::new().number("ns", Some(ns)).number("error_ns", Some(error_ns)).end()
        }
    }
}

/// A JSON object that is being written.
struct Object(String);

impl Object {
    fn new() -> Object {
        Object("{".to_owned())
    }

    /// A value that is JSON already.
    fn raw(mut self, name: &str, value: &str) -> Object {
        if self.0.len() > 1 {
            self.0 += ", ";
        }
        let _ = write!(self.0, "{}: {value}", quoted(name));
        self
    }

    fn text(self, name: &str, value: &str) -> Object {
        self.raw(name, &quoted(value))
    }

    /// What JSON cannot say (no number, an infinite one) is null.
    fn number(self, name: &str, value: Option<f64>) -> Object {
        let value = value.filter(|number| number.is_finite());
        self.raw(name, &value.map_or_else(null, |number| number.to_string()))
    }

    fn end(self) -> String {
        self.0 + "}"
    }
}

fn null() -> String {
    "null".to_owned()
}

fn array(elements: impl Iterator<Item = String>, between: &str) -> String {
    let elements: Vec<String> = elements.collect();
    format!("[{}]", elements.join(between))
}

fn quoted(text: &str) -> String {
    let mut quoted = "\"".to_owned();
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c < ' ' => _ = write!(quoted, "\\u{:04x}", u32::from(c)),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}
