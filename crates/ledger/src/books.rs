//! The books of one budget: every micro is on exactly one line.

use crate::Amount;

/// The lines of a budget's books.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Line {
    /// Not handed to anybody.
    Free,
    /// With workers: unreserved, or in holds that nobody confirmed yet.
    Purses,
    /// In confirmed holds.
    Held,
    /// With workers of an earlier run, until no hold of theirs can be alive.
    Suspended,
    /// In holds whose time is over and of which nobody knows what became: kept until that is known.
    Expired,
    /// Spent, within holds.
    Settled,
    /// Spent above holds.
    OverSettled,
    /// Spent after the hold was gone.
    Late,
    /// Spent as far as a later total says: the execution itself was not seen.
    Inferred,
    /// Spent by orders that nobody opened here.
    UnknownOrder,
}

impl Line {
    /// The lines of money that is spent, in the order of a statement.
    pub const SPENT: [Line; SPENT] =
        [Line::Settled, Line::OverSettled, Line::Late, Line::Inferred, Line::UnknownOrder];

    /// What statements of every kind call it: `over_settled`.
    pub const fn name(self) -> &'static str {
        match self {
            Line::Free => "free",
            Line::Purses => "purses",
            Line::Held => "held",
            Line::Suspended => "suspended",
            Line::Expired => "expired",
            Line::Settled => "settled",
            Line::OverSettled => "over_settled",
            Line::Late => "late",
            Line::Inferred => "inferred",
            Line::UnknownOrder => "unknown_order",
        }
    }
}

/// The number of lines.
pub(crate) const LINES: usize = 5 + SPENT;
/// Of these, lines of money that is spent.
pub(crate) const SPENT: usize = 5;

/// Balances of one budget, in base units of its unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Books {
    limit: Amount,
    lines: [Amount; LINES],
}

impl Books {
    /// Most that can be off the free line: so far below the largest i64 that no sum of lines can overflow.
    pub(crate) const EXPOSURE_MAX: Amount = Amount::new(8 * money::LIMIT_MAX.get());

    /// Books that were read; `None` if they do not add up.
    pub(crate) fn of(limit: Amount, lines: [Amount; LINES]) -> Option<Books> {
        let [free, rest @ ..] = lines;
        let exposure = exposure(&rest)?;
        (free.checked_add(exposure) == Some(limit)).then_some(Books { limit, lines })
    }

    /// Books that begin with what was spent before, and no limit yet. The free line is below nothing by as much.
    pub(crate) fn spent_before(lines: [Amount; LINES]) -> Books {
        let spent = lines.iter().fold(Amount::ZERO, |sum, line| plus(sum, *line));
        let mut lines = lines;
        lines[Line::Free as usize] = minus(Amount::ZERO, spent);
        Books { limit: Amount::ZERO, lines }
    }

    /// Can this much more leave the free line?
    pub(crate) fn has_room(&self, amount: Amount) -> bool {
        plus(self.exposure(), amount) <= Books::EXPOSURE_MAX
    }

    /// All lines, in the order of [`crate::Bank::LINES`].
    pub(crate) fn lines(&self) -> [Amount; LINES] {
        self.lines
    }

    /// The amount that may be spent in the budget's life.
    pub fn limit(&self) -> Amount {
        self.limit
    }

    /// One line. Only `Free` can be negative: debts and lowered limits take from it what is not there.
    #[inline]
    pub fn line(&self, line: Line) -> Amount {
        self.lines[line as usize]
    }

    /// Everything that is spent.
    pub fn spent(&self) -> Amount {
        let [_, _, _, _, _, spent @ ..] = &self.lines;
        Amount::new(sum_of(spent))
    }

    /// What of it was spent with no hold for it: over-settled, late and of unknown orders.
    pub fn debts(&self) -> Amount {
        let [.., over, late, _, unknown] = self.lines;
        plus(plus(over, late), unknown)
    }

    /// Everything that is not free: the exposure.
    pub fn exposure(&self) -> Amount {
        minus(self.limit, self.line(Line::Free))
    }

    /// Moves money from one line to another.
    ///
    /// # Panics
    /// If a line other than `Free` would become negative, or a sum would overflow: a broken invariant.
    pub(crate) fn shift(&mut self, from: Line, to: Line, amount: Amount) {
        assert!(amount >= Amount::ZERO, "money moves forward: {amount:?} from {from:?} to {to:?}");
        let left = minus(self.lines[from as usize], amount);
        assert!(
            from == Line::Free || left >= Amount::ZERO,
            "{from:?} has {:?}, less than {amount:?}",
            self.lines[from as usize]
        );
        self.lines[from as usize] = left;
        self.lines[to as usize] = plus(self.lines[to as usize], amount);
        self.assert_conserved();
    }

    /// Sets the limit; the difference comes from or goes to the free line.
    pub(crate) fn set_limit(&mut self, limit: Amount) {
        let free = plus(self.line(Line::Free), minus(limit, self.limit));
        self.lines[Line::Free as usize] = free;
        self.limit = limit;
        self.assert_conserved();
    }

    /// Conservation (ARCHITECTURE.md, invariant 3 of money): the lines add up to the limit. Checked in release builds at every
    /// change, live and in replay.
    #[inline]
    fn assert_conserved(&self) {
        assert!(
            sum_of(&self.lines) == self.limit.get(),
            "every micro is on exactly one line: {self:?}"
        );
    }
}

/// The sum of lines, each of which is far below the largest i64: it wraps, so that the machine adds several at once.
#[inline]
fn sum_of(lines: &[Amount]) -> i64 {
    lines.iter().fold(0, |sum, line| sum.wrapping_add(line.get()))
}

/// The sum of lines that cannot be negative; `None` if one is, or they are more than can be.
pub(crate) fn exposure(lines: &[Amount]) -> Option<Amount> {
    let sum = Amount::total(lines.iter().copied())?;
    let sound = lines.iter().all(|line| *line >= Amount::ZERO) && sum <= Books::EXPOSURE_MAX;
    sound.then_some(sum)
}

/// Adds balances. They stay far below the largest i64 (limits end at 10^18), so an overflow is a bug.
#[inline]
pub(crate) fn plus(a: Amount, b: Amount) -> Amount {
    a.checked_add(b).expect("balances are bounded by the limits of amounts")
}

/// Subtracts balances; see [`plus`].
#[inline]
pub(crate) fn minus(a: Amount, b: Amount) -> Amount {
    a.checked_sub(b).expect("balances are bounded by the limits of amounts")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_lowered_limit_can_leave_free_negative() {
        let mut books = Books::default();
        books.set_limit(Amount::new(10));
        books.shift(Line::Free, Line::Settled, Amount::new(8));
        books.set_limit(Amount::new(5));
        assert_eq!(books.line(Line::Free), Amount::new(-3));
        assert_eq!(books.exposure(), Amount::new(8));
    }

    #[test]
    fn what_is_spent_and_what_of_it_nothing_was_held_for() {
        let mut books = Books::default();
        for (line, amount) in Line::SPENT.into_iter().zip([1, 20, 300, 4_000, 50_000]) {
            books.shift(Line::Free, line, Amount::new(amount));
        }
        assert_eq!((books.spent().get(), books.debts().get()), (54_321, 50_320));
    }

    proptest! {
        #[test]
        fn shifts_conserve(amounts in proptest::collection::vec(0i64..1000, 1..50)) {
            let mut books = Books::default();
            books.set_limit(Amount::new(1_000_000));
            for amount in amounts {
                books.shift(Line::Free, Line::Purses, Amount::new(amount));
                books.shift(Line::Purses, Line::Held, Amount::new(amount / 2));
                books.shift(Line::Held, Line::Settled, Amount::new(amount / 4));
                books.shift(Line::Free, Line::Late, Amount::new(amount));
            }
            prop_assert_eq!(books.exposure(), minus(books.limit(), books.line(Line::Free)));
        }
    }
}
