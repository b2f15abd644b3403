//! The way of money through the bank: grants, confirmations, settlements and what lapses, each change a record in a
//! group of the journal.
//!
//! What it leaves out is the disk, and the queues between threads. A closed group is the bytes that would be written.

use std::hint::black_box;

use ledger::{
    Action, Amount, Bank, BudgetSpec, Door, Hold, Options, Origin, Out, PurseOptions, Purses,
    ToBank, ToWorker, Verdict,
};
use ledger_journal::{Gather, Position};
use money::{LIMIT_MAX, Unit};

use super::Workload;
use super::purses::{HOLD_MS, START_MS};
use super::random::Random;

const BUDGETS: u32 = 100;
/// Between two steps: holds of a hundred steps are alive, and those before lapse.
const STEP_MS: u64 = 20;

/// A bank with one worker, and the journal's group in memory.
pub(crate) struct Settle {
    now_ms: u64,
    random: Random,
    purses: Purses,
    bank: Bank,
    out: Out,
    gather: Gather,
    holds: Vec<Hold>,
    resolved: u64,
    /// Answers, by verdict.
    pub(crate) verdicts: [u64; 256],
}

impl Settle {
    /// Holds of a step.
    const HOLDS: u32 = 32;
    /// What is asked of the bank for them: each is confirmed, then settled or released; one settlement is repeated.
    const RESOLVES: u64 = Settle::HOLDS as u64 * 2 + 1;
    /// One hold in so many is released: the outside world took the win back.
    const RELEASED: u32 = 8;

    pub(crate) fn new() -> Settle {
        let options = PurseOptions { node: 1, hold_ms: HOLD_MS };
        let bank_options = Options { hold_ms_max: options.hold_ms_max(), ..Options::default() };
        let mut settle = Settle {
            now_ms: START_MS,
            random: Random::new(3),
            purses: Purses::new(options, BUDGETS as usize),
            bank: Bank::new(bank_options),
            out: Out::default(),
            gather: Gather::new(Position::START),
            holds: Vec::new(),
            resolved: 0,
            verdicts: [0; 256],
        };
        let specs: Vec<BudgetSpec> = (1..=u64::from(BUDGETS)).map(budget).collect();
        settle.bank.start_run(START_MS, &mut settle.out);
        settle.bank.configure(&specs, &mut settle.out).expect("sound budgets");
        settle.seal();
        settle
    }

    fn reserve(&mut self) {
        let at = self.purses.at(self.now_ms);
        self.holds.clear();
        for _ in 0..Settle::HOLDS {
            let slot = self.random.below(BUDGETS);
            let amount = Amount::new(1_000 + i64::from(self.random.below(4_000)));
            self.holds.extend(self.purses.reserve(slot, amount, at));
        }
    }

    fn resolve_all(&mut self) {
        for place in 0..self.holds.len() {
            let hold = self.holds[place];
            self.resolve(Action::Confirm, hold);
            let released = self.random.below(Settle::RELEASED) == 0;
            self.resolve(if released { Action::Release } else { Action::Settle }, hold);
        }
        if let Some(&hold) = self.holds.last() {
            self.resolve(Action::Settle, hold);
        }
    }

    fn resolve(&mut self, action: Action, hold: Hold) {
        self.resolved += 1;
        let origin = Origin { door: Door::Batch, request_id: self.resolved };
        let amount = match action {
            Action::Settle => Amount::new(hold.amount.get() - 100),
            _ => Amount::ZERO,
        };
        let (at_ms, reply) = (self.now_ms, self.resolved);
        let message = ToBank::Resolve { action, hold, amount, at_ms, origin, reply };
        self.bank.step(0, message, &mut self.out);
    }

    /// What the purses want and what lapsed goes to the bank.
    fn turn(&mut self) {
        self.purses.turn(self.now_ms);
        self.purses.tick(self.now_ms);
        while let Some(message) = self.purses.next_message() {
            self.bank.step(0, message, &mut self.out);
        }
        self.bank.tick(self.now_ms, &mut self.out);
    }

    /// Records become a group; once it is sealed, which is at once, messages leave.
    fn seal(&mut self) {
        for record in &self.out.records {
            self.gather.append(record, self.now_ms);
        }
        self.out.records.clear();
        while let Some(group) = self.gather.take() {
            black_box(group.bytes());
            self.gather.recycle(group);
        }
        for (_, message) in self.out.messages.drain(..) {
            match message {
                ToWorker::Resolved { resolution, .. } => {
                    self.verdicts[usize::from(Verdict::as_raw(resolution.verdict))] += 1;
                }
                message => self.purses.take(message, self.now_ms),
            }
        }
    }
}

impl Workload for Settle {
    fn step(&mut self) -> u64 {
        self.now_ms += STEP_MS;
        self.reserve();
        self.resolve_all();
        self.turn();
        self.seal();
        Settle::RESOLVES
    }
}

fn budget(id: u64) -> BudgetSpec {
    BudgetSpec::plain(id, Unit::parse("USD").expect("a currency"), LIMIT_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearly_everything_is_booked() {
        let mut settle = Settle::new();
        let asked: u64 = (0..400).map(|_| settle.step()).sum();
        let of = |verdict: Verdict| settle.verdicts[usize::from(verdict.as_raw())];
        let answered: u64 = settle.verdicts.iter().sum();
        assert!(answered > asked * 9 / 10, "{answered} answers of {asked}");
        assert!(of(Verdict::Confirmed) > answered * 4 / 10);
        assert!(of(Verdict::Settled) > answered * 4 / 10);
        assert!(of(Verdict::Released) > answered / 30);
    }
}
