//! What became free and is not sealed yet. An ask that leans on none of it may be answered before its own record is sealed: whichever of
//! the records a crash loses, what is left has room for it.

use std::collections::{HashMap, VecDeque};

use wire::Verdict;

use super::{Bank, Out};
use crate::books::minus;
use crate::{Amount, NamedLeg, Record};

/// Of a record that may make anything free.
const ALL: Amount = Amount::new(i64::MAX);

/// Credits by level, as long as their records are not sealed. Kept beside the bank, by whoever knows what is sealed.
#[derive(Clone, Debug, Default)]
pub struct UnsealedCredits {
    /// With the first sequence that need not be sealed for it, in order.
    queue: VecDeque<(u64, u32, Amount)>,
    sums: HashMap<u32, i128>,
    /// Before all up to here is sealed nothing is known.
    unknown_until: u64,
    /// Of the records that wait to be handed to the journal, those that are noted.
    noted: usize,
}

impl UnsealedCredits {
    /// Notes what the bank did since the last call. The first record of `out` has this sequence.
    pub fn note(&mut self, bank: &Bank, out: &mut Out, first: u64) {
        let needed = first + out.records.len() as u64;
        for record in &out.records[self.noted..] {
            match bank.credit(record) {
                Credit::None => {}
                Credit::Of(slot, amount) => self.add(bank, needed, slot, amount),
                Credit::Unknown => self.unknown_until = needed,
            }
        }
        self.noted = out.records.len();
        for (slot, amount) in out.credits.drain(..) {
            self.add(bank, needed, slot, amount);
        }
    }

    /// The records went to the journal, which has sealed all before this sequence.
    pub fn sealed(&mut self, sealed: u64) {
        self.noted = 0;
        while let Some((_, level, amount)) =
            self.queue.pop_front_if(|(needed, ..)| *needed <= sealed)
        {
            let sum = self.sums.entry(level).or_default();
            *sum -= i128::from(amount.get());
            if *sum == 0 {
                self.sums.remove(&level);
            }
        }
    }

    /// Does an ask for these legs, which was granted just now, need something of it? Expired money that is lent out again counts as such.
    pub fn lean(&self, bank: &Bank, legs: &[NamedLeg], sealed: u64) -> bool {
        let mut levels =
            legs.iter().flat_map(|leg| bank.slot(leg.budget)).flat_map(|slot| bank.chain(slot));
        let needs = |level: u32| {
            let unsealed = self.sums.get(&level).copied().unwrap_or(0);
            let budget = bank.budget(level);
            budget.spec.tolerance_ppm > 0
                || i128::from(budget.available(bank.now_ms).get()) < unsealed
        };
        sealed < self.unknown_until || levels.any(needs)
    }

    fn add(&mut self, bank: &Bank, needed: u64, slot: u32, amount: Amount) {
        for level in bank.chain(slot) {
            self.queue.push_back((needed, level, amount));
            *self.sums.entry(level).or_default() += i128::from(amount.get());
        }
    }
}

/// What a record makes free at most, on a budget and on those above it.
enum Credit {
    None,
    Of(u32, Amount),
    Unknown,
}

impl Bank {
    fn credit(&self, record: &Record) -> Credit {
        let of_grant = |grant: u64, amount| match self.grants.get(grant) {
            Some(grant) => Credit::Of(grant.slot, amount),
            None => Credit::Unknown,
        };
        let of_budget = |id| self.slot(id).map_or(Credit::Unknown, |slot| Credit::Of(slot, ALL));
        match record {
            Record::Returned { grant, amount }
            | Record::Resumed { grant, amount }
            | Record::Reconciled { grant, amount, .. }
            | Record::BillingLapsed { grant, amount, .. } => of_grant(*grant, *amount),
            Record::Resolved { hold, verdict: Verdict::Released, .. } => {
                of_grant(hold.grant, hold.amount)
            }
            Record::Resolved { hold, verdict: Verdict::Settled, amount, .. } => {
                of_grant(hold.grant, minus(hold.amount, *amount).max(Amount::ZERO))
            }
            Record::Budget { spec } => of_budget(spec.id),
            Record::DayRolled { id, .. }
            | Record::PeriodRolled { id, .. }
            | Record::WindowRolled { id, .. } => of_budget(*id),
            Record::RunStarted { .. } => Credit::Unknown,
            // These take money, move none, or say in `Out::credits` what they free.
            _ => Credit::None,
        }
    }
}
