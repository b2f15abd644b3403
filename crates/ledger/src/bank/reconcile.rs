//! What becomes of holds of which nobody was told in time: it is found out from the bills.

use super::{Bank, Out};
use crate::books::plus;
use crate::{Amount, Record};

impl Bank {
    /// The bills are complete for all holds with first deadlines up to `decided_until_ms`: those of them that are expired
    /// and were not settled are not spent, and their money is free again. `slot` says for which budget and those under
    /// it; `None`: for all. What was billed must be settled before: afterwards it is late. Only what every worker's
    /// clock has passed is taken. Returns how much became free.
    pub fn reconcile(&mut self, slot: Option<u32>, decided_until_ms: u64, out: &mut Out) -> Amount {
        // Holds whose lapse is still on its way would join sums that are settled by then.
        let until_ms = decided_until_ms.min(self.safe_ms());
        let within = |of: u32| slot.is_none_or(|slot| self.chain(of).any(|level| level == slot));
        let expired: Vec<(u64, Amount)> = (self.grants.numbers())
            .filter(|(_, grant)| within(grant.slot))
            .map(|(number, grant)| (number, grant.expired_until(until_ms)))
            .filter(|(_, amount)| *amount > Amount::ZERO)
            .collect();
        let mut free = Amount::ZERO;
        for (grant, amount) in expired {
            self.book(Record::Reconciled { grant, until_ms, amount }, out);
            free = plus(free, amount);
        }
        let within = |bank: &Bank, of: u32| {
            slot.is_none_or(|slot| bank.chain(of).any(|level| level == slot))
        };
        plus(free, self.reconcile_timed(until_ms, within, out))
    }
}
