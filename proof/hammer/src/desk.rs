//! The audit's place in a run: the control connection, the auditor, and what was found.

use std::time::{Duration, Instant};

use crate::HammerError;
use crate::args::Args;
use crate::audit::{Auditor, Reading, Row};
use crate::control::{Caller, Control, Totals};
use crate::progress::AuditedSums;
use crate::tally::{Tally, snapshot};
use std::sync::atomic::Ordering;

/// Fault texts kept.
const FAULTS_KEPT_MAX: usize = 10;
/// How long a look that fails is made again while the load runs: the next audit comes soon.
const PATIENCE_LOADED: Duration = Duration::from_millis(500);
/// The pause after the first look that failed; it doubles with each further one...
const PAUSE_FIRST: Duration = Duration::from_millis(10);
/// ...up to this.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Open loop: how many times longer than an audit the pause after it is. Audits then cost the node a twentieth of the
/// time at most, however long its list of budgets is.
const PAUSE_AUDITS: u32 = 20;

/// What an audit came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The books were read, and every rule held.
    Held,
    /// The books were read, and they or an answer broke a rule.
    Broken,
    /// The last audit could not read the books: nothing is known to be wrong.
    CouldNotLook,
    /// Nobody was asked to look.
    NotAudited,
}

/// When the next audit is due.
#[derive(Debug)]
pub(crate) struct Times {
    every: Duration,
    /// Latency is measured: audits keep out of the way.
    is_measured: bool,
    next: Duration,
}

impl Times {
    /// As the flags say; by default each second of a closed loop, and at the end only of an open one, which measures
    /// latency.
    #[must_use]
    pub(crate) fn new(args: &Args) -> Self {
        let is_measured = args.rate.is_some();
        let usual = if is_measured { Duration::ZERO } else { Duration::from_secs(1) };
        let every = args.audit_every.unwrap_or(usual);
        Self { every, is_measured, next: every }
    }

    /// Whether an audit is due, `elapsed` after the start.
    #[must_use]
    pub(crate) fn is_due(&self, elapsed: Duration) -> bool {
        !self.every.is_zero() && elapsed >= self.next
    }

    /// An audit took `length` and ended `elapsed` after the start.
    pub(crate) fn made(&mut self, elapsed: Duration, length: Duration) {
        let pause = if self.is_measured { length * PAUSE_AUDITS } else { Duration::ZERO };
        // On the grid, so that progress shows the books of its own second; what was missed is not made up.
        while self.next <= elapsed || self.next < elapsed.saturating_sub(length) + pause {
            self.next += self.every;
        }
    }
}

/// Reads the node's books beside the hammer's own and lets the auditor compare them.
pub(crate) struct Desk<'a> {
    caller: Caller<'a>,
    control: Control,
    /// How long the last audit looks again.
    patience: Duration,
    /// Looks that failed and were made again.
    pub looks_failed: u64,
    /// Why the last audit could not look.
    pub could_not_look: Option<String>,
    /// Slowest answer of the interval before this one, in ns.
    latency_ns_before: u64,
    tallies: &'a [Tally],
    budgets: usize,
    start: Instant,
    base_spent: i128,
    /// The comparison and its findings.
    pub auditor: Auditor,
    /// What the last audit saw.
    pub books: AuditedSums,
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
            patience: PATIENCE_LOADED,
            looks_failed: 0,
            could_not_look: None,
            latency_ns_before: 0,
            tallies,
            budgets,
            start,
            base_spent: spent(base),
            auditor,
            books: AuditedSums::default(),
            faults: Vec::new(),
        }
    }

    /// The same with a last audit that looks again for this long.
    #[must_use]
    pub(crate) fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// One audit; `last` says that everything is drained. One that cannot look is no finding: another one follows, and of
    /// the last it is told.
    pub(crate) fn audit(&mut self, last: bool) {
        let low = self.reading();
        let Some(rows) = self.look("books", last, Control::books) else { return };
        let high = self.reading();
        let slowest = |tally: &Tally| tally.latency_ns_max.swap(0, Ordering::AcqRel);
        let latest_ns = self.tallies.iter().map(slowest).max().unwrap_or(0);
        // Grants since the last reading were answered in this interval or at the end of the one before.
        let latency_ns_max =
            latest_ns.max(std::mem::replace(&mut self.latency_ns_before, latest_ns));
        self.auditor.check(&rows, &low, &high, latency_ns_max, last);
        self.books = AuditedSums {
            spent: spent(&rows) - self.base_spent,
            held: rows.iter().map(|row| i128::from(row.held)).sum(),
            over: self.auditor.over_micros(),
            unit: unit_of_all(&rows),
        };
    }

    /// The node's counters; `None` where they cannot be read. `last` says that everything is drained.
    pub(crate) fn totals(&mut self, last: bool) -> Option<Totals> {
        self.look("totals", last, Control::totals)
    }

    /// What the whole of the run's audits came to. `is_broken` says that something beyond the books is wrong; `unanswered`
    /// that answers did not come. A node that does not answer an audit either says nothing about money by that.
    #[must_use]
    pub(crate) fn outcome(&self, is_broken: bool, unanswered: bool) -> Outcome {
        let found = self.auditor.findings_count > 0 || self.auditor.over_micros() > 0;
        let is_wrong = is_broken || found || !self.faults.is_empty();
        Outcome::of(is_wrong, unanswered, self.could_not_look.is_none())
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

    /// Asks the node for something, and again for a while where it could not be asked: it was busy, the connection was
    /// closed (a node closes one that is idle), or no answer came in time. What is no answer at all is a fault of the
    /// node. `None` says that there is nothing to compare.
    fn look<T>(
        &mut self,
        what: &str,
        last: bool,
        ask: impl Fn(&mut Control) -> Result<T, HammerError>,
    ) -> Option<T> {
        let (began, mut pause) = (Instant::now(), PAUSE_FIRST);
        let patience = if last { self.patience } else { PATIENCE_LOADED };
        let mut looked = ask(&mut self.control);
        loop {
            let error = match looked {
                Ok(found) => return Some(found),
                Err(error) => error,
            };
            if !error.is_passing() {
                self.fault(format!("the {what} could not be read: {error}"));
                return None;
            }
            self.looks_failed += 1;
            if began.elapsed() >= patience {
                if last {
                    self.could_not_look.get_or_insert_with(|| {
                        format!(
                            "could not look: the {what} could not be read for {:.1} s: {error}; this does not say that money \
                             is wrong: run the hammer again when the node answers",
                            began.elapsed().as_secs_f64()
                        )
                    });
                }
                return None;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSE_MAX);
            // A connection that a question was refused on is as good as before; any other is opened anew.
            looked = match error {
                HammerError::HandshakeRefused { .. } => ask(&mut self.control),
                _ => Control::connect(self.caller).and_then(|control| {
                    self.control = control;
                    ask(&mut self.control)
                }),
            };
        }
    }
}

/// The unit of all rows; all NUL where they have several.
fn unit_of_all(rows: &[Row]) -> [u8; 4] {
    let mut units = rows.iter().map(|row| row.unit);
    let first = units.next().unwrap_or_default();
    if units.all(|unit| unit == first) { first } else { [0; 4] }
}

fn spent(rows: &[Row]) -> i128 {
    rows.iter().map(|r| i128::from(r.settled) + i128::from(r.over) + i128::from(r.late)).sum()
}

impl Outcome {
    fn of(is_wrong: bool, unanswered: bool, looked: bool) -> Outcome {
        match (is_wrong, looked) {
            (true, _) => Outcome::Broken,
            (false, false) => Outcome::CouldNotLook,
            (false, true) if unanswered => Outcome::Broken,
            (false, true) => Outcome::Held,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_answers_nobody_is_not_called_wrong() {
        for (is_wrong, unanswered, looked, outcome) in [
            (false, false, true, Outcome::Held),
            (false, true, true, Outcome::Broken),
            (false, true, false, Outcome::CouldNotLook),
            (false, false, false, Outcome::CouldNotLook),
            (true, true, false, Outcome::Broken),
        ] {
            assert_eq!(Outcome::of(is_wrong, unanswered, looked), outcome);
        }
    }

    fn times(every_ms: u64, is_measured: bool) -> Times {
        let every = Duration::from_millis(every_ms);
        Times { every, is_measured, next: every }
    }

    #[test]
    fn audits_of_a_run_that_measures_latency_keep_out_of_the_way() {
        let ms = Duration::from_millis;
        for (is_measured, next) in [(false, ms(1_300)), (true, ms(5_000))] {
            let mut times = times(100, is_measured);
            assert!(!times.is_due(ms(99)) && times.is_due(ms(1_000)));
            // It began at 1 s and took 200 ms.
            times.made(ms(1_200), ms(200));
            assert_eq!(times.next, next);
        }
        assert!(!times(0, false).is_due(Duration::MAX));
    }
}
