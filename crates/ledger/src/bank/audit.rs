//! What must hold between the parts of the bank's state, and a figure to compare states by.

use super::{Bank, Budget};
use crate::books::plus;
use crate::{Amount, Line};

impl Bank {
    /// A figure over everything that records decide: budgets, books, days, grants and the marks of their holds.
    /// Banks with equal figures have, for all that matters here, equal states.
    pub fn digest(&self) -> u64 {
        let mut digest = Digest(u64::from(self.run.number));
        for (id, slot) in &self.slots {
            let budget = self.budget(*slot);
            digest.eat(*id);
            digest.eat(budget.spec.status as u64);
            digest.eat(budget.day.start.ms());
            for line in Bank::LINES {
                digest.amount(budget.books.line(line));
                digest.amount(budget.day_lines[line as usize]);
            }
        }
        for (number, grant) in self.grants.numbers() {
            digest.eat(number);
            digest.amount(grant.out);
            digest.amount(grant.held);
            grant.stage_and_marks(&mut |word| digest.eat(word));
        }
        digest.0
    }

    /// Checks everything that must hold between budgets, grants and days; for tests and after a replay.
    ///
    /// # Errors
    /// What does not hold.
    pub fn audit(&self) -> Result<(), String> {
        let mut lives = vec![Sum::default(); self.budgets.len()];
        let mut days = lives.clone();
        for (number, grant) in self.grants.numbers() {
            if grant.held != grant.billing.total() {
                return Err(format!("grant {number}: held differs from its billing deadlines"));
            }
            for (slot, day) in self.chain(grant.slot).zip(grant.days) {
                lives[slot as usize].add(grant.out, grant.held);
                if self.budget(slot).day.start.ms() == day {
                    days[slot as usize].add(grant.out, grant.held);
                }
            }
        }
        let sums = lives.iter().zip(&days);
        self.budgets.iter().zip(sums).try_for_each(|(budget, (life, day))| budget.audit(life, day))
    }
}

/// What grants say is out and held.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sum {
    out: Amount,
    held: Amount,
}

impl Sum {
    fn add(&mut self, out: Amount, held: Amount) {
        self.out = plus(self.out, out);
        self.held = plus(self.held, held);
    }
}

impl Budget {
    fn audit(&self, life: &Sum, today: &Sum) -> Result<(), String> {
        let (id, books) = (self.spec.id, &self.books);
        let out = plus(books.line(Line::Purses), books.line(Line::Suspended));
        if (Sum { out, held: books.line(Line::Held) }) != *life {
            return Err(format!("budget {id}: books {books:?}, grants {life:?}"));
        }
        let day = |line: Line| self.day_lines[line as usize];
        let out = plus(day(Line::Purses), day(Line::Suspended));
        // A day may count more: what it took over from one that it overlaps.
        let counted = out >= today.out && day(Line::Held) >= today.held;
        let negative = self.day_lines.iter().any(|line| *line < Amount::ZERO);
        if !counted || negative {
            return Err(format!("budget {id}: day {:?}, grants {today:?}", self.day_lines));
        }
        Ok(())
    }
}

/// A running figure: FNV-1a with a rotation, over words.
struct Digest(u64);

impl Digest {
    fn eat(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
    }

    fn amount(&mut self, amount: Amount) {
        self.eat(amount.get().cast_unsigned());
    }
}
