//! The bills of the exchange: what they name is settled, what they name as not billed is released, and what they do not
//! name up to some instant is known to be lost.

use ledger::{Action, Amount, Door, Origin, Out, ToWorker};

use crate::client::Request;
use crate::world::World;

/// Holds that one bill names at most.
const NAMED_MAX: u64 = 6;

impl World {
    /// A bill comes in.
    pub(crate) fn reconcile(&mut self) {
        if self.journal.is_failing() {
            return self.stats.one("reconciliation refused: journal fails");
        }
        for _ in 0..self.rng.below(NAMED_MAX) {
            self.reconcile_one();
        }
        let slot = self.rng.index(self.specs.len());
        let slot = self.bank.slot(self.specs[slot].id).filter(|_| self.rng.chance(300));
        let until_ms = self.now_ms - self.rng.below(30_000);
        if self.rng.chance(600) {
            self.reconcile_until(slot, until_ms);
        }
    }

    /// By its id: one of the holds whose time is over, a recent one mostly.
    fn reconcile_one(&mut self) {
        let over = |hold: &ledger::Hold| hold.deadline_ms <= self.now_ms;
        let holds = self.oracle.holds.iter().take_while(|known| over(&known.hold)).count();
        if holds == 0 {
            return;
        }
        let recent = if self.rng.chance(700) { holds.min(60) } else { holds };
        let index = holds - 1 - self.rng.index(recent);
        let action = if self.rng.chance(700) { Action::Settle } else { Action::Release };
        self.resolve_directly(index, action);
    }

    /// As the admin door does it: the answer goes out once the records are sealed.
    fn resolve_directly(&mut self, index: usize, action: Action) {
        self.stats.one("reconciled by id");
        let known = &mut self.oracle.holds[index];
        known.asks(action);
        if action == Action::Settle {
            known.named.push(known.price);
            known.in_bill = true;
        }
        let hold = known.hold;
        let amount = Amount::new(if action == Action::Settle { known.price } else { 0 });
        let (reply, at_ms) = (self.requests.len() as u64, self.bank.now_ms());
        let (amount_named, notice) = (amount.get(), World::is_billed(index, action));
        self.requests.push(Request {
            hold: index,
            action,
            at_ms,
            keyed: false,
            amount: amount_named,
            notice,
        });
        let origin = Origin { door: Door::Admin, request_id: index as u64 };
        let mut out = Out::default();
        let resolution = self.bank.resolve_direct(action, hold, amount, origin, &mut out);
        out.messages.push((0, ToWorker::Resolved { reply, resolution }));
        self.append(&mut out);
    }

    /// Everything up to an instant is known.
    pub(crate) fn reconcile_until(&mut self, slot: Option<u32>, until_ms: u64) {
        let mut out = Out::default();
        let free = self.bank.reconcile(slot, until_ms, &mut out);
        self.append(&mut out);
        self.stats.count("reconciled", u64::from(free > Amount::ZERO));
    }
}
