//! The audit's place in a run: the control connection, the auditor, and what was found.

use std::time::Instant;

use crate::HammerError;
use crate::audit::{Auditor, Reading, Row};
use crate::control::{Caller, Control, Totals};
use crate::progress::Books;
use crate::tally::{Tally, snapshot};
use std::sync::atomic::Ordering;

/// Fault texts kept.
const FAULTS_KEPT_MAX: usize = 10;

/// Reads the node's books beside the hammer's own and lets the auditor compare them.
pub(crate) struct Desk<'a> {
    caller: Caller<'a>,
    control: Control,
    /// The control connection broke and could not be opened again: said once.
    control_lost: bool,
    /// Slowest answer of the interval before this one, in ns.
    latency_ns_before: u64,
    tallies: &'a [Tally],
    budgets: usize,
    start: Instant,
    base_spent: i128,
    /// The comparison and its findings.
    pub auditor: Auditor,
    /// What the last audit saw.
    pub books: Books,
    /// Reasons why the audit cannot be believed, or found something beyond the books.
    pub faults: Vec<String>,
}

impl<'a> Desk<'a> {
    /// A desk for a run that begins at `start` with the node's books at `base`. `budgets` is how many the tallies have.
    pub(crate) fn new(
        caller: Caller<'a>,
        control: Control,
        auditor: Auditor,
        base: &[Row],
        tallies: &'a [Tally],
        budgets: usize,
        start: Instant,
    ) -> Self {
        Self {
            caller,
            control,
            control_lost: false,
            latency_ns_before: 0,
            tallies,
            budgets,
            start,
            base_spent: spent(base),
            auditor,
            books: Books::default(),
            faults: Vec::new(),
        }
    }

    /// One audit; `last` says that everything is drained.
    pub(crate) fn audit(&mut self, last: bool) {
        let low = self.reading();
        let Some(rows) = self.rows() else { return };
        let high = self.reading();
        let slowest = |tally: &Tally| tally.latency_ns_max.swap(0, Ordering::AcqRel);
        let latest_ns = self.tallies.iter().map(slowest).max().unwrap_or(0);
        // Grants since the last reading were answered in this interval or at the end of the one before.
        let latency_ns_max =
            latest_ns.max(std::mem::replace(&mut self.latency_ns_before, latest_ns));
        self.auditor.check(&rows, &low, &high, latency_ns_max, last);
        self.books = Books {
            spent: spent(&rows) - self.base_spent,
            held: rows.iter().map(|row| i128::from(row.held)).sum(),
            over: self.auditor.over_micros(),
        };
    }

    /// The node's counters; `None`, and a fault said once, where they cannot be read.
    pub(crate) fn totals(&mut self) -> Option<Totals> {
        match self.control.totals() {
            Ok(totals) => Some(totals),
            Err(_) if self.control_lost => None,
            Err(e) => {
                self.fault(format!("the totals could not be read: {e}"));
                None
            }
        }
    }

    /// Notes a fault, once.
    pub(crate) fn fault(&mut self, text: String) {
        if self.faults.len() < FAULTS_KEPT_MAX && !self.faults.contains(&text) {
            self.faults.push(text);
        }
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn reading(&self) -> Reading {
        let begin_ns = self.now_ns();
        let sums = snapshot(self.tallies, self.budgets);
        Reading { sums, begin_ns, end_ns: self.now_ns() }
    }

    /// The node's books. A control connection that broke is opened once more: the node may only have closed this one.
    fn rows(&mut self) -> Option<Vec<Row>> {
        let first = match self.control.books() {
            Ok(rows) => return Some(rows),
            Err(e) => e,
        };
        let rows = self.reopened();
        if rows.is_err() && !self.control_lost {
            self.control_lost = true;
            self.fault(format!("the books could not be read: {first}"));
        }
        rows.ok()
    }

    fn reopened(&mut self) -> Result<Vec<Row>, HammerError> {
        self.control = Control::connect(self.caller)?;
        self.control.books()
    }
}

fn spent(rows: &[Row]) -> i128 {
    rows.iter().map(|r| i128::from(r.settled) + i128::from(r.over) + i128::from(r.late)).sum()
}
