//! What a node says of its balances and counters.

use ledger::{Amount, Bank, Line};
use money::Unit;
use wire::Verdict;

/// The books of one budget as the outside sees them, in base units of its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BookLine {
    /// The budget.
    pub id: u64,
    /// Its unit.
    pub unit: Unit,
    /// What may be spent in its life.
    pub limit: Amount,
    /// Not handed to anybody; negative where debts or a lowered limit took what was not there.
    pub free: Amount,
    /// With the workers, not reserved.
    pub purses: Amount,
    /// In holds: unconfirmed, confirmed, suspended after a crash, or past their deadline and not reconciled.
    pub held: Amount,
    /// Of these, past their deadline and not reconciled.
    pub expired: Amount,
    /// Spent within holds.
    pub settled: Amount,
    /// Spent above holds.
    pub over_settled: Amount,
    /// Spent after the hold was gone.
    pub late: Amount,
    /// Spent as far as a later total says.
    pub inferred: Amount,
    /// Spent by orders that nobody opened here.
    pub unknown_order: Amount,
}

impl BookLine {
    /// Everything that is spent.
    pub fn spent(&self) -> Amount {
        let lines = [self.settled, self.over_settled, self.late, self.inferred, self.unknown_order];
        Amount::total(lines).unwrap_or(Amount::ZERO)
    }

    /// What of it was spent with no hold for it.
    pub fn debt(&self) -> Amount {
        Amount::total([self.over_settled, self.late, self.unknown_order]).unwrap_or(Amount::ZERO)
    }

    /// The books of a slot. `reported` is what the workers last said that their purses hold: it lags by a fraction
    /// of a second, and moves money between the lines `purses` and `held` only.
    pub fn of(bank: &Bank, slot: u32, reported: &impl Fn(u32) -> Amount) -> BookLine {
        let (books, spec) = (bank.books(slot), bank.spec(slot));
        let out = books.line(Line::Purses);
        let unconfirmed = bank.unconfirmed(slot, reported);
        let expired = books.line(Line::Expired);
        let certain = [books.line(Line::Held), books.line(Line::Suspended), expired, unconfirmed];
        BookLine {
            id: spec.id,
            unit: spec.unit,
            limit: books.limit(),
            free: books.line(Line::Free),
            purses: less(out, unconfirmed),
            held: Amount::total(certain).expect("parts of the limit"),
            expired,
            settled: books.line(Line::Settled),
            over_settled: books.line(Line::OverSettled),
            late: books.line(Line::Late),
            inferred: books.line(Line::Inferred),
            unknown_order: books.line(Line::UnknownOrder),
        }
    }
}

/// A difference of balances; they are far from the ends of an i64.
fn less(a: Amount, b: Amount) -> Amount {
    a.checked_sub(b).expect("balances are bounded")
}

counters::counters! {
    /// Counters of a run, over all workers.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Totals of u64, in "doors.batch" {
        decisions: "Asks answered.", elsewhere("weir_decisions");
        granted: "Of these, granted.", elsewhere("weir_decisions");
        resolves: "Confirms, settles and releases judged by the bank.", elsewhere("weir_resolves");
        repeats: "Of these, answered with their first answer.";
        worker_cpu_ns: "Processor time of the workers; divided by `decisions`, the cost of a decision.", nanoseconds(), elsewhere("weir_worker_busy_seconds");
    } also {
        /// Asks by verdict, those that occurred.
        pub verdicts: Vec<(Verdict, u64)>,
    }
}
