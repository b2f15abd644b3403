//! What became of holds, in sums: experience to judge those by that nobody has spoken of yet.

use crate::Amount;

/// Sums over the holds of a budget and of those under it. They only grow, and say what the records say: silent losses
/// that go back to a worker's purse leave no record and are not in them, nor are late settles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LedgerEvidence {
    /// Reserved by all holds that were settled, released, or known to come to nothing in the end.
    pub resolved: Amount,
    /// Settled of it, within the holds.
    pub paid: Amount,
    /// Reserved by the settled ones.
    pub won: Amount,
    /// Reserved by those of the resolved ones that had expired.
    pub expired_resolved: Amount,
    /// Settled of these, within the holds.
    pub expired_paid: Amount,
}

impl LedgerEvidence {
    /// A hold, or a sum of holds, that came to nothing.
    pub(crate) fn lost(reserved: Amount, expired: bool) -> LedgerEvidence {
        let expired_resolved = if expired { reserved } else { Amount::ZERO };
        LedgerEvidence { resolved: reserved, expired_resolved, ..LedgerEvidence::default() }
    }

    /// A hold that was settled.
    pub(crate) fn settled(reserved: Amount, paid: Amount, expired: bool) -> LedgerEvidence {
        let expired_paid = if expired { paid } else { Amount::ZERO };
        let lost = LedgerEvidence::lost(reserved, expired);
        LedgerEvidence { paid, won: reserved, expired_paid, ..lost }
    }

    /// Adds another one. Sums that reach the largest amount stay there: only their ratios mean anything.
    pub(crate) fn add(&mut self, other: &LedgerEvidence) {
        let more = |a: &mut Amount, b: Amount| *a = Amount::new(a.get().saturating_add(b.get()));
        more(&mut self.resolved, other.resolved);
        more(&mut self.paid, other.paid);
        more(&mut self.won, other.won);
        more(&mut self.expired_resolved, other.expired_resolved);
        more(&mut self.expired_paid, other.expired_paid);
    }

    /// Can these be sums of holds?
    pub(crate) fn is_sound(&self) -> bool {
        let rising = [Amount::ZERO, self.paid, self.won, self.resolved];
        let expired = [Amount::ZERO, self.expired_paid, self.expired_resolved, self.resolved];
        rising.is_sorted() && expired.is_sorted() && self.expired_paid <= self.paid
    }

    /// What of an expired amount was, by experience, not spent; rounded down. Nothing while there is no experience.
    pub(crate) fn presumed_unspent(&self, expired: Amount) -> Amount {
        let resolved = i128::from(self.expired_resolved.get());
        if resolved == 0 {
            return Amount::ZERO;
        }
        let unpaid = resolved - i128::from(self.expired_paid.get());
        let unspent = i128::from(expired.get()) * unpaid / resolved;
        Amount::new(i64::try_from(unspent).expect("a part of an amount"))
    }

    /// All sums, in the order of the fields.
    pub(crate) fn sums(&self) -> [Amount; 5] {
        [self.resolved, self.paid, self.won, self.expired_resolved, self.expired_paid]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_stay_sound_up_to_the_largest_amount() {
        let mut all = LedgerEvidence::default();
        let (reserved, paid) = (Amount::new(i64::MAX / 3), Amount::new(i64::MAX / 4));
        for expired in [true, false, true, true, false] {
            all.add(&LedgerEvidence::settled(reserved, paid, expired));
            all.add(&LedgerEvidence::lost(reserved, !expired));
            assert!(all.is_sound(), "{all:?}");
        }
        assert_eq!(all.resolved, Amount::new(i64::MAX));
        assert!(!LedgerEvidence { won: Amount::new(1), ..LedgerEvidence::default() }.is_sound());
    }

    #[test]
    fn what_is_unspent_follows_from_what_was_reconciled() {
        let mut all = LedgerEvidence::default();
        assert_eq!(all.presumed_unspent(Amount::new(100)), Amount::ZERO, "nothing is known");
        all.add(&LedgerEvidence::settled(Amount::new(10), Amount::new(4), true));
        all.add(&LedgerEvidence::settled(Amount::new(10), Amount::new(9), false));
        assert_eq!(all.presumed_unspent(Amount::new(100)), Amount::new(60));
        all.add(&LedgerEvidence::lost(Amount::new(30), true));
        assert_eq!(all.presumed_unspent(Amount::new(99)), Amount::new(89));
    }
}
