//! The cost sheet: what every abstraction of a program costs, beside what its alternative cost, and why it may stay.
//!
//! A [`Sheet`] holds facts only: what was counted, what was timed, what was measured elsewhere. Everything that follows from
//! them (cost a request, cores, savings, totals, flags) is computed from them, so no two figures of a sheet can disagree.
//!
//! ```
//! use probe::Nanos;
//! use probe::sheet::{Alternative, Flag, Group, Requests, Row, Sheet};
//!
//! let requests = Requests { unit: "request".to_owned(), count: 1_000_000 };
//! let row = Row {
//!     name: "session table".to_owned(),
//!     place: "src/sessions.rs".to_owned(),
//!     depth: 0,
//!     per: requests.clone(),
//!     count: 2_000_000.0, // two lookups a request
//!     mean: Nanos::new(14.0, 0.5),
//!     p50: None,
//!     p99: None,
//!     instructions: None,
//!     alternative: Some(Alternative {
//!         name: "std::collections::HashMap".to_owned(),
//!         ours_ns: 12.0,
//!         ns: 22.0,
//!         ratio: 1.8,
//!         ratio_low: 1.7,
//!         ratio_high: 1.9,
//!         measured: "laptop, 2026-11-21".to_owned(),
//!     }),
//!     justification: None,
//! };
//! assert_eq!(row.ns_per_request(), Some(Nanos::new(28.0, 1.0)));
//! assert!(row.saving_ns_per_request().is_some_and(|ns| (ns - 22.4).abs() < 1e-9)); // 0.8 of 28
//! assert_eq!(row.flags(), [Flag::NoJustification]);
//!
//! let sheet = Sheet {
//!     title: "example".to_owned(),
//!     machine: "laptop".to_owned(),
//!     date: "2026-11-21".to_owned(),
//!     seconds: 1.0,
//!     requests,
//!     groups: vec![Group { name: "main".to_owned(), cpu_ns: Some(40e6), rows: vec![row] }],
//!     notes: Vec::new(),
//! };
//! assert_eq!(sheet.totals().unaccounted_ns(), Some(12e6));
//! print!("{}", sheet.table(false));
//! ```
//!
//! It is written as a table for a terminal ([`Sheet::table`]), JSON ([`Sheet::json`]), Markdown ([`Sheet::markdown`]) and
//! OpenMetrics ([`Sheet::open_metrics`]).

mod flag;
mod json;
mod markdown;
mod metrics;
mod table;

use crate::Nanos;

pub use flag::Flag;

/// What a program spent over a period, abstraction by abstraction.
#[derive(Clone, Debug, PartialEq)]
pub struct Sheet {
    /// The figures that were measured.
    pub title: String,
    /// On what: processor, cores, frequency.
    pub machine: String,
    /// When, as readers shall see it.
    pub date: String,
    /// How long the period was.
    pub seconds: f64,
    /// All requests of the period: what totals are divided by.
    pub requests: Requests,
    /// The threads, or kinds of threads.
    pub groups: Vec<Group>,
    /// What else a reader must know: timer, sampling, what the machine did meanwhile.
    pub notes: Vec<String>,
}

/// What costs are counted per, and how many of them the period had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requests {
    /// What one is called, such as `ask`.
    pub unit: String,
    /// How many there were.
    pub count: u64,
}

/// The rows of one thread, or of several of a kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// What the thread is called. Unique in a sheet.
    pub name: String,
    /// Processor time of the period as the kernel counts it, ns; none where it is not known.
    pub cpu_ns: Option<f64>,
    /// Its abstractions.
    pub rows: Vec<Row>,
}

/// One abstraction.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What it is. Unique in a group.
    pub name: String,
    /// The file that holds it.
    pub place: String,
    /// 0 for a row that counts in the totals; 1 and more for one that is part of the next row above of a lower depth.
    pub depth: u8,
    /// The unit per which its cost is counted.
    pub per: Requests,
    /// Operations in the period; where only some were sampled, scaled up to all.
    pub count: f64,
    /// Mean of an operation.
    pub mean: Nanos,
    /// Median of an operation.
    pub p50: Option<Nanos>,
    /// 99 of 100 operations took no longer.
    pub p99: Option<Nanos>,
    /// Instructions per operation, where they are known.
    pub instructions: Option<f64>,
    /// The way not taken.
    pub alternative: Option<Alternative>,
    /// Why it may stay: one sentence.
    pub justification: Option<String>,
}

/// The way not taken, as it was measured beside ours, on the same work, in one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Alternative {
    /// What it is.
    pub name: String,
    /// An operation of ours in that run, ns.
    pub ours_ns: f64,
    /// An operation of the alternative in that run, ns.
    pub ns: f64,
    /// The median of the alternative's times over ours, round by round. It lies within its interval; the quotient of the two
    /// medians need not.
    pub ratio: f64,
    /// Lower end of the 95 % interval of the alternative's time over ours: above 1 ours is cheaper.
    pub ratio_low: f64,
    /// Upper end of the interval: below 1 the alternative is cheaper.
    pub ratio_high: f64,
    /// Where and when.
    pub measured: String,
}

/// What the rows of a group, or of a sheet, come to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Totals {
    /// All rows of depth 0, over the period.
    pub recorded: Nanos,
    /// Processor time of the period, ns; none where one of the groups does not know it.
    pub cpu_ns: Option<f64>,
}

impl Row {
    /// Operations a request; none without requests.
    #[must_use]
    pub fn per_request(&self) -> Option<f64> {
        self.per.divide(self.count)
    }

    /// What it takes of a request; none without requests.
    #[must_use]
    pub fn ns_per_request(&self) -> Option<Nanos> {
        Some(self.mean.times(self.per_request()?))
    }

    /// All its operations over the period.
    #[must_use]
    pub fn total(&self) -> Nanos {
        self.mean.times(self.count)
    }

    /// What a request would cost more with the alternative, ns: negative where that would be cheaper. What carries over from
    /// the run of the two to this row is their ratio. None without an alternative or without requests.
    #[must_use]
    pub fn saving_ns_per_request(&self) -> Option<f64> {
        let other = self.alternative.as_ref()?;
        Some((other.ratio - 1.0) * self.ns_per_request()?.middle_ns())
    }

    /// What a reader should look at, in order of [`Flag`].
    #[must_use]
    pub fn flags(&self) -> Vec<Flag> {
        Flag::ALL.into_iter().filter(|flag| flag.is_on(self)).collect()
    }
}

impl Requests {
    /// A sum over the period as a share of one request; none without requests.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "a count of 2^53 is beyond reach")]
    pub fn divide(&self, sum: f64) -> Option<f64> {
        (self.count > 0).then(|| sum / self.count as f64)
    }
}

impl Group {
    /// What its rows come to.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let counted = self.rows.iter().filter(|row| row.depth == 0);
        Totals { recorded: counted.map(Row::total).sum(), cpu_ns: self.cpu_ns }
    }
}

impl Sheet {
    /// What all rows come to.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let groups = || self.groups.iter().map(Group::totals);
        Totals {
            recorded: groups().map(|totals| totals.recorded).sum(),
            cpu_ns: groups().map(|totals| totals.cpu_ns).sum(),
        }
    }

    /// The number of cores a time of the period keeps busy; none for a period without a length.
    #[must_use]
    pub fn cores(&self, ns: f64) -> Option<f64> {
        (self.seconds > 0.0).then(|| ns / (self.seconds * 1e9))
    }

    /// Rows that have a flag.
    #[must_use]
    pub fn flagged(&self, flag: Flag) -> usize {
        self.rows().filter(|(_, row)| flag.is_on(row)).count()
    }

    fn rows(&self) -> impl Iterator<Item = (&Group, &Row)> {
        self.groups.iter().flat_map(|group| group.rows.iter().map(move |row| (group, row)))
    }
}

impl Totals {
    /// Processor time that no row accounts for, ns. Negative where the rows, scaled up from samples, come to more than
    /// the kernel counted. None where the processor time is not known.
    #[must_use]
    pub fn unaccounted_ns(&self) -> Option<f64> {
        Some(self.cpu_ns? - self.recorded.middle_ns())
    }

    /// The same as a share of the processor time; none where there was none.
    #[must_use]
    pub fn unaccounted_share(&self) -> Option<f64> {
        let cpu_ns = self.cpu_ns.filter(|cpu_ns| *cpu_ns > 0.0)?;
        Some(self.unaccounted_ns()? / cpu_ns)
    }
}

impl Alternative {
    /// Is it cheaper than ours, as far as its measurement can tell?
    #[must_use]
    pub fn is_cheaper(&self) -> bool {
        self.ratio_high < 1.0
    }

    /// One sentence without its end: what it is, what it took and what ours took, how much that is, where and when.
    fn sentence(&self) -> String {
        let (ours, other, ratio) = (figure(self.ours_ns), figure(self.ns), self.ratio);
        let (low, high) = (self.ratio_low, self.ratio_high);
        format!(
            "{}: {other} ns, ours {ours} ns, {ratio:.2} times [{low:.2}..{high:.2}]; {}",
            self.name, self.measured
        )
    }
}

/// A figure for people.
fn figure(number: f64) -> String {
    crate::nanos::three_figures(number)
}

/// A figure that may be missing.
fn maybe(number: Option<f64>) -> String {
    number.map_or_else(|| "-".to_owned(), figure)
}

/// A reading that may be missing.
fn reading(nanos: Option<Nanos>) -> String {
    nanos.map_or_else(|| "-".to_owned(), |nanos| nanos.to_string())
}

/// One line of text from a text of any kind: what would break a line or a terminal becomes a space.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
