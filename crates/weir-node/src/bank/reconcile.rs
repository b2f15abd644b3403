//! Booking reconciliation files: `POST /v1/reconcile`, and what the bank does with a line.
//!
//! ```text
//!  rows ── judge, all of them ──▶ Booking ── book, a part at a time ──▶ Outcome ── complete ──▶ Freed
//!              │ one is refused                   │ one is not booked
//!              ▼                                  ▼
//!          Refused: nothing is booked         Unfinished: what is booked is said, nothing is freed
//! ```
//!
//! Completing frees the money of bids that nobody spoke of. So it happens only where every line was understood and booked:
//! a line that was refused speaks of a bid that may have been billed.

use std::collections::{BTreeMap, HashMap};

use door_openrtb::{hold_id, sent_cost_and_key};
use ledger::{Action, Amount, Bank, Door, Hold, KeyRing, Line, Origin, Out, TokenError};
use money::Unit;
use serde_json::{Map, Value, json};
use wire::Verdict;

use crate::reconcile_file::{Id, Row, amount_of};

/// Lines that are told one by one in an answer.
const TOLD_MAX: usize = 100;
/// Lines that the bank judges or books in one go: about a millisecond.
const PART_ROWS: usize = 2_048;
/// Characters of a stranger's text that an answer repeats.
const FOUND_MAX: usize = 60;

/// A line that can be booked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Booking {
    line: usize,
    action: Action,
    hold: Hold,
    amount: Amount,
    /// What a noted bid counts as in reports, else 0.
    key: u64,
    /// The amount is more than what the line says, by a part of a micro.
    rounded: bool,
}

/// Why a line is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    line: usize,
    field: &'static str,
    found: String,
    expected: String,
}

impl Fault {
    fn to_json(&self) -> Value {
        let Fault { line, field, found, expected } = self;
        json!({ "line": line, "field": field, "found": found, "expected": expected })
    }
}

/// Judges lines without booking anything.
pub(crate) fn judge_rows(rows: &[Row], ring: &KeyRing, bank: &Bank) -> Vec<Result<Booking, Fault>> {
    rows.iter().map(|row| judge_row(row, ring, bank)).collect()
}

fn judge_row(row: &Row, ring: &KeyRing, bank: &Bank) -> Result<Booking, Fault> {
    let line = row.line;
    let (hold, cost, key) = open(&row.id, ring).map_err(|error| Fault {
        line,
        field: "id",
        found: row.id.to_text().chars().take(FOUND_MAX).collect(),
        expected: format!("the id of a bid of this node that can still be judged: {error}"),
    })?;
    let action = if row.billed { Action::Settle } else { Action::Release };
    // Of a grant that is closed nothing is known, its unit neither: nothing can be booked or freed in it, and the verdict says so.
    let unit = bank.slots_of(&hold).next().map(|slot| bank.spec(slot).unit);
    let cost = bank.timed_facts(&hold).map_or(cost, |facts| facts.amount);
    let (amount, rounded) = match (&row.amount, unit) {
        (Some(text), Some(unit)) => amount_of(text, unit).map_err(|expected| {
            let found = text.chars().take(FOUND_MAX).collect();
            Fault { line, field: "amount", found, expected }
        })?,
        (None, Some(_)) if row.billed => (cost, false),
        _ => (Amount::ZERO, false),
    };
    Ok(Booking { line, action, hold, amount, key, rounded })
}

/// The hold, what it costs if nobody says, and what it counts as in reports.
fn open(id: &Id, ring: &KeyRing) -> Result<(Hold, Amount, u64), TokenError> {
    match id {
        Id::Token(token) => ring.open(token).map(|hold| (hold, hold.amount, 0)),
        Id::Noted(noted) => noted_cost(noted, ring),
        Id::ShortNoted(noted) => noted_cost(noted, ring),
    }
}

fn noted_cost(noted: &[u8], ring: &KeyRing) -> Result<(Hold, Amount, u64), TokenError> {
    let (hold, note) = ring.open_note(noted)?;
    let (cost, key) = sent_cost_and_key(&note, &hold);
    Ok((hold, cost, key))
}

/// What became of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    line: usize,
    verdict: Verdict,
    repeat: bool,
}

impl Outcome {
    /// Is everything booked that the line says?
    fn is_booked(&self) -> bool {
        !matches!(self.verdict, Verdict::Busy | Verdict::Journal | Verdict::BadAmount)
    }
}

/// Books lines in their order.
pub(crate) fn book_rows(rows: &[Booking], bank: &mut Bank, out: &mut Out) -> Vec<Outcome> {
    let mut book = |row: &Booking| {
        let origin = Origin { door: Door::Admin, request_id: row.key };
        let booked = bank.resolve_direct(row.action, row.hold, row.amount, origin, out);
        let (verdict, repeat) = (booked.verdict, booked.is_repeat());
        Outcome { line: row.line, verdict, repeat }
    };
    rows.iter().map(&mut book).collect()
}

/// What a complete file freed in one budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freed {
    budget: u64,
    unit: Unit,
    amount: Amount,
}

/// Frees what is still kept of holds that were decided until then.
pub(crate) fn free_until(until_ms: u64, bank: &mut Bank, out: &mut Out) -> Vec<Freed> {
    let kept = |bank: &Bank, slot: u32| bank.books(slot).line(Line::Expired);
    let before: Vec<(u64, u32, Amount)> =
        bank.slots_from(0).map(|(budget, slot)| (budget, slot, kept(bank, slot))).collect();
    bank.reconcile(None, until_ms, out);
    let freed = |(budget, slot, before): (u64, u32, Amount)| {
        let amount = before.checked_sub(kept(bank, slot)).filter(|freed| *freed > Amount::ZERO)?;
        Some(Freed { budget, unit: bank.spec(slot).unit, amount })
    };
    before.into_iter().filter_map(freed).collect()
}

/// Why something that was sent to the bank is not known to be booked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotSealed {
    /// It was not taken: nothing of it is booked.
    Refused(String),
    /// It was not answered in time. It may be booked, or still will be.
    Unknown,
}

/// What books a file: the bank, as a thread that may wait sees it.
pub trait Clerk {
    /// Judges lines; nothing is booked. `None`: no answer.
    fn judge(&self, rows: Vec<Row>) -> Option<Vec<Result<Booking, Fault>>>;

    /// Books lines, and waits until they are sealed.
    ///
    /// # Errors
    /// Why none of them is known to be booked.
    fn book(&self, rows: Vec<Booking>) -> Result<Vec<Outcome>, NotSealed>;

    /// Frees what is left of all that was decided until then; `why` is for the journal.
    ///
    /// # Errors
    /// Why that is not known to be done.
    fn complete(&self, until_ms: u64, why: String) -> Result<Vec<Freed>, NotSealed>;
}

/// Why a file did not come to its end.
#[derive(Debug)]
pub enum Failure {
    /// Lines are refused; nothing was booked.
    Refused {
        /// Lines of the file.
        lines: usize,
        /// What is wrong with some of them.
        faults: Vec<Fault>,
    },
    /// The bank does not answer; nothing was booked.
    Unanswered,
    /// Some of it is booked; nothing was freed.
    Unfinished(Box<Unfinished>),
}

/// How far a file came.
#[derive(Debug)]
pub struct Unfinished {
    lines: usize,
    report: ReconcileReport,
    /// The first and the last line of the part that is not known to be booked, and why; later ones were not tried.
    stopped: Option<(usize, usize, NotSealed)>,
}

/// Judges all lines, books them, and frees what is left if the file is said to be complete until then.
pub fn book_file(
    clerk: &impl Clerk,
    rows: Vec<Row>,
    until_ms: Option<u64>,
) -> Result<Value, Failure> {
    let lines = rows.len();
    let judged = judge_all(clerk, rows)?;
    let rounded = judged.iter().filter(|row| row.rounded).count();
    let mut report = ReconcileReport { rounded, ..ReconcileReport::default() };
    let unfinished =
        |report, stopped| Failure::Unfinished(Box::new(Unfinished { lines, report, stopped }));
    for part in judged.chunks(PART_ROWS) {
        match clerk.book(part.to_vec()) {
            Ok(outcomes) => report.add(&outcomes),
            Err(why) => {
                let last = part.last().map_or(part[0].line, |row| row.line);
                return Err(unfinished(report, Some((part[0].line, last, why))));
            }
        }
    }
    if !report.unbooked.is_empty() {
        return Err(unfinished(report, None));
    }
    let why = format!("{lines} lines");
    let freed = until_ms.map(|until_ms| clerk.complete(until_ms, why)).transpose();
    match freed {
        Ok(freed) => Ok(report.to_json(freed.as_deref())),
        Err(why) => Err(unfinished(report, Some((0, 0, why)))),
    }
}

/// Judges all lines, also beside each other: two that say different things of one bid cannot both be right.
fn judge_all(clerk: &impl Clerk, rows: Vec<Row>) -> Result<Vec<Booking>, Failure> {
    let lines = rows.len();
    let (mut judged, mut faults) = (Vec::with_capacity(lines), Vec::new());
    let mut rows = rows.into_iter();
    loop {
        let part: Vec<Row> = rows.by_ref().take(PART_ROWS).collect();
        if part.is_empty() {
            break;
        }
        for row in clerk.judge(part).ok_or(Failure::Unanswered)? {
            match row {
                Ok(row) => judged.push(row),
                Err(fault) => faults.push(fault),
            }
        }
    }
    faults.extend(contradictions(&judged));
    faults.sort_by_key(|fault| fault.line);
    if faults.is_empty() { Ok(judged) } else { Err(Failure::Refused { lines, faults }) }
}

fn contradictions(judged: &[Booking]) -> impl Iterator<Item = Fault> {
    let mut first: HashMap<u64, &Booking> = HashMap::with_capacity(judged.len());
    judged.iter().filter_map(move |row| {
        let before = *first.entry(hold_id(&row.hold)).or_insert(row);
        let same = (before.action, before.amount) == (row.action, row.amount);
        (!same).then(|| Fault {
            line: row.line,
            field: "id",
            found: format!("the bid of line {} with other values", before.line),
            expected: "each bid once, or with the same values each time".into(),
        })
    })
}

/// What became of the lines of a file.
#[derive(Debug, Default)]
pub(crate) struct ReconcileReport {
    booked: u64,
    repeats: u64,
    rounded: usize,
    verdicts: BTreeMap<&'static str, u64>,
    unbooked: Vec<Outcome>,
}

impl ReconcileReport {
    fn add(&mut self, outcomes: &[Outcome]) {
        for outcome in outcomes {
            *self.verdicts.entry(outcome.verdict.name()).or_default() += 1;
            if outcome.is_booked() {
                self.booked += 1;
                self.repeats += u64::from(outcome.repeat);
            } else {
                self.unbooked.push(*outcome);
            }
        }
    }

    fn to_json(&self, freed: Option<&[Freed]>) -> Value {
        let row = |freed: &Freed| {
            let amount = freed.unit.format(freed.amount);
            json!({ "budget": freed.budget, "amount": amount })
        };
        // A file with refused lines is refused whole: the two names stay for who reads them.
        json!({
            "lines": self.booked, "verdicts": self.verdicts, "repeats": self.repeats,
            "rounded": self.rounded, "refused": 0, "refused_lines": [],
            "freed": freed.map(|freed| freed.iter().take(TOLD_MAX).map(row).collect::<Vec<_>>()),
            "freed_budgets": freed.map(<[Freed]>::len),
        })
    }
}

impl Failure {
    /// What to tell, and what of it by lines.
    pub fn told(&self) -> (String, Map<String, Value>) {
        let mut members = Map::new();
        let detail = match self {
            Failure::Unanswered => "the bank does not answer; nothing was booked".to_string(),
            Failure::Refused { lines, faults } => {
                let told = faults.iter().take(TOLD_MAX).map(Fault::to_json).collect();
                members.insert("lines".into(), Value::Array(told));
                members.insert("refused".into(), faults.len().into());
                let first = &faults[0];
                format!(
                    "{} of {lines} lines are refused, and nothing was booked or freed: line {}: {}: found {:?}, expected {}",
                    faults.len(),
                    first.line,
                    first.field,
                    first.found,
                    first.expected,
                )
            }
            Failure::Unfinished(unfinished) => unfinished.told(&mut members),
        };
        (detail, members)
    }
}

impl Unfinished {
    fn told(&self, members: &mut Map<String, Value>) -> String {
        let Unfinished { lines, report, stopped } = self;
        let unbooked = report.unbooked.iter().take(TOLD_MAX);
        let row = |row: &Outcome| json!({ "line": row.line, "verdict": row.verdict.name() });
        members.insert("lines".into(), unbooked.map(row).collect());
        members.insert("booked".into(), report.to_json(None));
        let mut text = format!("{} of {lines} lines are booked and sealed", report.booked);
        if !report.unbooked.is_empty() {
            text += &format!("; {} could not be booked, see lines", report.unbooked.len());
        }
        text += &match stopped {
            None => String::new(),
            Some((0, _, NotSealed::Refused(why))) => format!("; the file was not completed: {why}"),
            Some((0, _, NotSealed::Unknown)) => {
                return text
                    + "; whether what is left was freed is not known: the bank does not answer; send it again";
            }
            Some((from, to, NotSealed::Refused(why))) => {
                format!("; lines {from} to {to}, and those after them, are not booked: {why}")
            }
            Some((from, to, NotSealed::Unknown)) => format!(
                "; whether lines {from} to {to} are is not known, as nothing was sealed in time; those after them are not"
            ),
        };
        text + ". Nothing was freed. When it can be booked, send it again: what is booked is not booked twice"
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    fn hold(seq: u32) -> Hold {
        Hold { grant: 1, seq, node: 1, deadline_ms: 0, amount: Amount::new(9) }
    }

    fn rows(count: u32) -> Vec<Row> {
        let id = |seq: u32| {
            let mut token = [0; 32];
            token[..4].copy_from_slice(&seq.to_le_bytes());
            Id::Token(token)
        };
        let row = |seq| Row { line: seq as usize + 2, id: id(seq), billed: true, amount: None };
        (0..count).map(row).collect()
    }

    /// A bank that fails at one of its parts, and remembers what it booked.
    #[derive(Default)]
    struct Failing {
        fails_at: Option<(usize, NotSealed)>,
        busy_line: Option<usize>,
        parts: Cell<usize>,
        booked: RefCell<BTreeMap<u32, u32>>,
        completed: Cell<bool>,
    }

    impl Clerk for Failing {
        fn judge(&self, rows: Vec<Row>) -> Option<Vec<Result<Booking, Fault>>> {
            let judge = |row: &Row| {
                let Id::Token(token) = row.id else { unreachable!("tokens only") };
                let seq = u32::from_le_bytes([token[0], token[1], token[2], token[3]]);
                let (line, amount) = (row.line, Amount::new(9));
                Booking {
                    line,
                    action: Action::Settle,
                    hold: hold(seq),
                    amount,
                    key: 0,
                    rounded: false,
                }
            };
            Some(rows.iter().map(|row| Ok(judge(row))).collect())
        }

        fn book(&self, rows: Vec<Booking>) -> Result<Vec<Outcome>, NotSealed> {
            let part = self.parts.get();
            self.parts.set(part + 1);
            let book = |row: &Booking| {
                let busy = self.busy_line == Some(row.line);
                let times = if busy {
                    0
                } else {
                    let mut booked = self.booked.borrow_mut();
                    let times = booked.entry(row.hold.seq).or_default();
                    *times += 1;
                    *times
                };
                let verdict = if busy { Verdict::Busy } else { Verdict::Settled };
                Outcome { line: row.line, verdict, repeat: times > 1 }
            };
            match &self.fails_at {
                Some((at, why)) if *at == part => Err(why.clone()),
                _ => Ok(rows.iter().map(book).collect()),
            }
        }

        fn complete(&self, _: u64, _: String) -> Result<Vec<Freed>, NotSealed> {
            self.completed.set(true);
            Ok(Vec::new())
        }
    }

    fn told(failure: &Failure) -> String {
        failure.told().0
    }

    #[test]
    fn what_was_booked_before_a_failure_is_said_and_nothing_is_completed() {
        let refused = NotSealed::Refused("no space left".into());
        for (why, said) in [
            (refused, "lines 2050 to 4097, and those after them, are not booked: no space left"),
            (NotSealed::Unknown, "whether lines 2050 to 4097 are is not known"),
        ] {
            let mut clerk = Failing { fails_at: Some((1, why)), ..Failing::default() };
            let failure = book_file(&clerk, rows(5_000), Some(1)).unwrap_err();
            let text = told(&failure);
            assert!(text.starts_with("2048 of 5000 lines are booked and sealed"), "{text}");
            assert!(text.contains(said) && text.contains("Nothing was freed"), "{text}");
            assert_eq!((clerk.parts.get(), clerk.completed.get()), (2, false));
            // Sent again when it works: each is booked once more at most, which the ledger answers as a repeat.
            clerk.fails_at = None;
            let report = book_file(&clerk, rows(5_000), Some(1)).unwrap();
            assert_eq!((&report["lines"], &report["repeats"]), (&json!(5_000), &json!(2_048)));
            assert!(clerk.completed.get());
        }
    }

    #[test]
    fn a_line_that_is_not_booked_is_named_and_nothing_is_completed() {
        let clerk = Failing { busy_line: Some(4_000), ..Failing::default() };
        let failure = book_file(&clerk, rows(5_000), Some(1)).unwrap_err();
        let (text, members) = failure.told();
        assert!(text.starts_with("4999 of 5000 lines are booked"), "{text}");
        assert_eq!(members["lines"], json!([{"line": 4_000, "verdict": "busy"}]));
        assert!(!clerk.completed.get());
    }

    #[test]
    fn a_bid_that_is_named_twice_must_be_told_the_same() {
        let mut twice = rows(3);
        twice[2].id = twice[0].id;
        let clerk = Failing::default();
        let report = book_file(&clerk, twice.clone(), None).unwrap();
        assert_eq!(report["repeats"], 1);
        let row = |line, amount| Booking {
            line,
            action: Action::Settle,
            hold: hold(1),
            amount: Amount::new(amount),
            key: 0,
            rounded: false,
        };
        let found: Vec<Fault> =
            contradictions(&[row(2, 5), row(3, 5), row(4, 6), row(5, 6)]).collect();
        let lines: Vec<usize> = found.iter().map(|fault| fault.line).collect();
        assert_eq!(lines, [4, 5]);
        assert!(found[0].found.contains("line 2"), "{found:?}");
    }
}
