//! The last word about money: who hears that a budget is exhausted hears the truth.
//!
//! - When the bank says so, and from which amount on, less is left than such an ask: on some level what the ledger can hand out,
//!   with everything that is unreserved in purses or on its way to or from them, wherever it lies. Where it says so of every ask
//!   that a purse does not cover, nothing is left outside that purse.
//! - A worker says so only of asks that the bank's last word to the purse was about.

use std::collections::BTreeMap;

use ledger::{Amount, Hold, Line, MADE_SLOT, No, Out, ToBank, ToWorker, Verdict};

use crate::Bug;
use crate::world::{Down, Up, World};

/// Money by slot.
type Sums = BTreeMap<u32, i128>;

fn add(sums: &mut Sums, slot: u32, amount: Amount) {
    *sums.entry(slot).or_default() += i128::from(amount.get());
}

/// What a message to a worker puts into a purse.
fn add_down(sums: &mut Sums, message: &ToWorker) {
    if let ToWorker::Fill { slot, amount, .. } | ToWorker::Restore { slot, amount, .. } = message {
        add(sums, *slot, *amount);
    }
}

impl World {
    /// What the bank said in a step: from message `first` on.
    pub(crate) fn check_noes(&mut self, out: &mut Out, first: usize) {
        for at in first..out.messages.len() {
            let (worker, message) = &mut out.messages[at];
            let (ToWorker::Deny { slot, no } | ToWorker::Recall { slot, no }) = message else {
                continue;
            };
            if self.bug == Some(Bug::EmptyIsFinal) && *no == No::LATER {
                *no = No::to_all(Verdict::Exhausted);
            }
            let (worker, slot, no) = (usize::from(*worker), *slot, *no);
            if no.why == Verdict::Exhausted {
                self.stats.one("bank: exhausted");
                self.stats.count("bank: exhausted from an amount on", u64::from(no.from.get() > 1));
                if let Err(error) = self.check_no(out, worker, slot, no) {
                    self.false_no.get_or_insert(error);
                }
            }
        }
    }

    fn check_no(&self, out: &Out, worker: usize, slot: u32, no: No) -> Result<(), String> {
        let unreserved = self.unreserved(out, None);
        let own = match no.from.get() > 1 {
            true => 0,
            false => self.unreserved(out, Some(worker)).get(&slot).copied().unwrap_or(0),
        };
        let from = i128::from(no.from.get().max(1));
        let mut left = i128::MAX;
        for level in self.levels(slot) {
            let mut of_level = self.left_of_life(level) - own;
            for (under, amount) in &unreserved {
                if self.levels(*under).contains(&level) {
                    of_level += amount;
                }
            }
            left = left.min(of_level);
        }
        if left < from {
            return Ok(());
        }
        Err(format!("worker {worker} is told of slot {slot}: {no:?}, but {left} is left"))
    }

    /// What the books and the budget's own terms leave to hand out, at least.
    fn left_of_life(&self, slot: u32) -> i128 {
        let (books, spec) = (self.bank.books(slot), self.bank.spec(slot));
        let kept = i128::from(spec.limit.get()) * i128::from(spec.late_reserve_bp) / 10_000;
        let debts = books.debts().get();
        i128::from(books.line(Line::Free).get()) - (kept - i128::from(debts)).max(0)
    }

    /// A budget and its parents, as slots.
    fn levels(&self, slot: u32) -> Vec<u32> {
        let mut levels = vec![slot];
        let mut parent = self.bank.spec(slot).parent;
        while let Some(above) = parent.and_then(|id| self.bank.slot(id)) {
            levels.push(above);
            parent = self.bank.spec(above).parent;
        }
        levels
    }

    /// What is in purses and in no hold, and what is on its way to them or back: of all workers, or of one.
    fn unreserved(&self, out: &Out, of: Option<usize>) -> Sums {
        let mut sums = Sums::new();
        for (worker, message) in &out.messages {
            if of.is_none_or(|of| of == usize::from(*worker)) {
                add_down(&mut sums, message);
            }
        }
        for (worker, message) in self.journal.held_messages() {
            if of.is_none_or(|of| of == worker) {
                add_down(&mut sums, message);
            }
        }
        for index in 0..self.workers.len() {
            if of.is_none_or(|of| of == index) {
                self.add_worker(&mut sums, index);
            }
        }
        sums.retain(|_, amount| *amount > 0);
        sums
    }

    fn add_worker(&self, sums: &mut Sums, index: usize) {
        let worker = &self.workers[index];
        for slot in 0..u32::try_from(worker.purses.slots()).expect("few") {
            add(sums, slot, worker.purses.free(slot));
        }
        for slot in 0..u32::try_from(worker.made.slots()).expect("few") {
            add(sums, MADE_SLOT + slot, worker.made.free(slot));
        }
        for message in &worker.to_worker {
            if let Down::Ledger(message) = message {
                add_down(sums, message);
            }
        }
        for message in &worker.to_bank {
            match message {
                Up::Ledger(ToBank::Retire { slot, free, .. }) => add(sums, *slot, *free),
                Up::Ledger(ToBank::Return { grant, amount }) => {
                    if let Some(slot) = self.slot_of_grant(*grant) {
                        add(sums, slot, *amount);
                    }
                }
                _ => {}
            }
        }
    }

    fn slot_of_grant(&self, grant: u64) -> Option<u32> {
        let hold = Hold { grant, seq: 0, node: 0, deadline_ms: 0, amount: Amount::ZERO };
        self.bank.slot_of(&hold)
    }

    /// A worker hears from the bank of a purse.
    pub(crate) fn note_word(&mut self, worker: usize, message: &ToWorker) {
        let told = &mut self.workers[worker].told;
        match message {
            ToWorker::Fill { slot, .. } => drop(told.remove(slot)),
            ToWorker::Recall { slot, no } | ToWorker::Deny { slot, no } => {
                told.insert(*slot, *no);
            }
            _ => {}
        }
    }

    /// A worker refused an ask.
    pub(crate) fn check_refusal(
        &self,
        worker: usize,
        slot: u32,
        amount: Amount,
        why: Verdict,
    ) -> Result<(), String> {
        let told = self.workers[worker].told.get(&slot);
        let knows = told.is_some_and(|no| no.why == Verdict::Exhausted && amount >= no.from);
        match why == Verdict::Exhausted && !knows {
            true => Err(format!("{amount:?} of slot {slot} is refused as exhausted: {told:?}")),
            false => Ok(()),
        }
    }
}
