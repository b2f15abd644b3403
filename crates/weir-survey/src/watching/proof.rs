//! The overspend proof: at every survey, of every budget, whether its money adds up and stays within its limit.

use ledger::Amount;
use weir_node::bank::rows::SurveyRow;

use super::breath::Breath;

/// What the last check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Proof {
    /// The bank's clock then, ms.
    pub(super) checked_ms: u64,
    /// Budgets checked.
    pub(super) budgets: u64,
    /// Budgets whose lines do not add up to the limit.
    pub(super) unbalanced: u64,
    /// Budgets of which more is spent within holds, held and with workers than the limit and its exceptions allow.
    pub(super) above_limit: u64,
    /// Budgets whose limit is below what is out, because it was lowered or because facts of named holds say so; allowed, and told.
    pub(super) lowered: u64,
    /// Budgets with spend above holds or after they were gone; allowed, and told.
    pub(super) debts: u64,
    /// Some that break a promise, by id.
    pub(super) examples: Vec<u64>,
    /// Violations found by all checks since the start.
    pub(super) violations_total: u64,
    /// Checks since the start.
    pub(super) checks_total: u64,
}

/// Violations that are named.
const EXAMPLES: usize = 10;

/// Checks survey after survey: what is out above a limit may only shrink, but for what facts raise.
#[derive(Debug, Default)]
pub(super) struct Prover {
    /// By slot.
    known: Vec<Option<Known>>,
    checks: u64,
    violations: u64,
}

/// A budget at the last look.
#[derive(Clone, Copy, Debug)]
struct Known {
    limit: Amount,
    /// How much may be out above it.
    above: i128,
    /// See [`SurveyRow::forced`].
    forced: u64,
}

impl Prover {
    /// Checks every row.
    pub(super) fn check(&mut self, rows: &[SurveyRow], now_ms: u64) -> Proof {
        self.known.resize(rows.len(), None);
        let mut proof =
            Proof { checked_ms: now_ms, budgets: rows.len() as u64, ..Proof::default() };
        let mut breath = Breath::new();
        for (row, known) in rows.iter().zip(&mut self.known) {
            breath.take();
            let (balanced, excess) = (balances(row), row.excess());
            let allowed = allowed(row, known, excess);
            let within = excess <= allowed;
            proof.unbalanced += u64::from(!balanced);
            proof.above_limit += u64::from(!within);
            proof.lowered += u64::from(excess > 0 && within);
            proof.debts += u64::from(row.debt() > Amount::ZERO);
            if !(balanced && within) && proof.examples.len() < EXAMPLES {
                proof.examples.push(row.line.id);
            }
        }
        self.checks += 1;
        self.violations = self.violations.saturating_add(proof.violations());
        (proof.checks_total, proof.violations_total) = (self.checks, self.violations);
        proof
    }
}

impl Proof {
    pub(super) fn violations(&self) -> u64 {
        self.unbalanced + self.above_limit
    }
}

/// Does every unit stand on exactly one line?
fn balances(row: &SurveyRow) -> bool {
    let line = &row.line;
    let all = [line.free, line.purses, line.held, line.spent()];
    all.iter().map(|part| i128::from(part.get())).sum::<i128>() == i128::from(line.limit.get())
}

/// What the limit's exceptions allow: its tolerance; what was out when it was lowered, and what facts have raised since, as far as it is out
/// still.
fn allowed(row: &SurveyRow, known: &mut Option<Known>, excess: i128) -> i128 {
    let tolerated = i128::from(row.tolerated.min(row.line.expired).get());
    let (limit, forced, excess) = (row.line.limit, row.forced, excess.max(0));
    let above = match *known {
        Some(before) if limit >= before.limit => {
            excess.min(before.above + i128::from(forced.wrapping_sub(before.forced)))
        }
        // Lowered since the last look, or before the first one: the ledger asserts it at each change.
        _ => excess,
    };
    *known = Some(Known { limit, above, forced });
    above.max(tolerated)
}

#[cfg(test)]
mod tests {
    use super::super::tests::row;
    use super::*;

    fn amount(value: i64) -> Amount {
        Amount::new(value)
    }

    #[test]
    fn sound_books_pass() {
        let mut prover = Prover::default();
        let mut owing = row(2, 100);
        (owing.line.free, owing.line.settled, owing.line.late) =
            (amount(-5), amount(100), amount(5));
        let proof = prover.check(&[row(1, 100), owing], 7);
        let found = (proof.budgets, proof.violations(), proof.debts, proof.lowered);
        assert_eq!((proof.checked_ms, found), (7, (2, 0, 1, 0)));
    }

    #[test]
    fn a_lost_unit_and_a_unit_too_many_are_found() {
        let mut prover = Prover::default();
        let mut rows = [row(1, 100), row(2, 100), row(3, 100)];
        assert_eq!(prover.check(&rows, 1).violations(), 0);
        rows[0].line.free = amount(99);
        (rows[1].line.free, rows[1].line.settled) = (amount(-1), amount(101));
        let proof = prover.check(&rows, 2);
        assert_eq!((proof.unbalanced, proof.above_limit), (1, 1));
        assert_eq!(
            (proof.examples, proof.violations_total, proof.checks_total),
            (vec![1, 2], 2, 2)
        );
    }

    #[test]
    fn above_a_lowered_limit_it_may_only_shrink() {
        let mut prover = Prover::default();
        let mut one = row(1, 100);
        (one.line.free, one.line.held) = (amount(0), amount(100));
        assert_eq!(prover.check(&[one], 1).violations(), 0);
        (one.line.limit, one.line.free) = (amount(60), amount(-40));
        let proof = prover.check(&[one], 2);
        assert_eq!((proof.violations(), proof.lowered), (0, 1));
        (one.line.held, one.line.free) = (amount(70), amount(-10));
        assert_eq!(prover.check(&[one], 3).violations(), 0);
        // Something was handed out again that was not there.
        (one.line.held, one.line.free) = (amount(71), amount(-11));
        assert_eq!(prover.check(&[one], 4).above_limit, 1);
    }

    #[test]
    fn what_facts_force_is_no_overspend_and_nothing_else_comes_with_it() {
        let mut prover = Prover::default();
        let mut one = row(1, 100);
        one.forced = u64::MAX;
        assert_eq!(prover.check(&[one], 1).violations(), 0);
        // A fact of 30 where 20 are left: held, and then executed at a higher price.
        (one.line.free, one.line.held, one.line.settled) = (amount(-10), amount(30), amount(80));
        one.forced = 29;
        let proof = prover.check(&[one], 2);
        assert_eq!((proof.violations(), proof.lowered), (0, 1));
        (one.line.free, one.line.held, one.line.settled) = (amount(-15), amount(0), amount(115));
        one.forced += 5;
        assert_eq!(prover.check(&[one], 3).violations(), 0);
        (one.line.free, one.line.held) = (amount(-16), amount(1));
        assert_eq!(prover.check(&[one], 4).above_limit, 1, "nobody stated the last one");
    }

    #[test]
    fn a_tolerance_counts_as_far_as_it_is_expired() {
        let mut prover = Prover::default();
        let mut one = row(1, 100);
        assert_eq!(prover.check(&[one], 1).violations(), 0);
        (one.line.free, one.line.held, one.line.settled) = (amount(-10), amount(20), amount(90));
        (one.tolerated, one.line.expired) = (amount(30), amount(10));
        assert_eq!(prover.check(&[one], 2).violations(), 0);
        one.line.expired = amount(9);
        assert_eq!(prover.check(&[one], 3).above_limit, 1);
    }
}
