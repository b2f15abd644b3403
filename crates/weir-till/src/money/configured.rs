//! Plan, then purse: how money of the budgets that a configuration names is set aside on one worker, and how it comes back.
//!
//! An ask of a fixed amount walks both at once. A bid asks its plan first, [`Money::bid`] and [`Money::may_bid`], because many bid and one
//! wins; who wins goes to the purse with [`Money::reserve_bid`], and the plan is not asked again.

use gate_pacing::{Decision, Pace};
use ledger::{Amount, At, Hold, Purses};
use wire::Verdict;

/// A worker's plans and purses, by slot.
pub struct Money<'a> {
    /// Plans.
    pub paces: &'a mut [Pace],
    /// Purses.
    pub purses: &'a mut Purses,
    /// The instant of this wake-up, and the deadline of its holds.
    pub at: At,
}

impl Money<'_> {
    /// Has both of a slot on their way to the cache.
    #[inline(always)]
    pub fn prefetch(&self, slot: u32) {
        table::prefetch(&self.paces[slot as usize]);
        self.purses.prefetch(slot);
    }

    /// Asks the plan about a fixed amount. Where it lets it through the purse is asked next: [`Money::reserve_planned`]. A plan that throws
    /// a coin throws it with `coin`.
    ///
    /// # Errors
    /// `Paced`.
    #[inline(always)]
    pub fn plan(&mut self, slot: u32, coin: u64, amount: Amount) -> Result<(), Verdict> {
        match self.paces[slot as usize].decide(coin, amount) {
            Decision::Pass => Ok(()),
            Decision::Paced => Err(Verdict::Paced),
        }
    }

    /// Asks the purse for what the plan let through. After a refusal the plan stands as if nobody had asked.
    ///
    /// # Errors
    /// Why the purse has it not.
    #[inline(always)]
    pub fn reserve_planned(&mut self, slot: u32, amount: Amount) -> Result<Hold, Verdict> {
        let reserved = self.purses.reserve(slot, amount, self.at);
        reserved.inspect_err(|_| self.paces[slot as usize].give_back(amount))
    }

    /// The bid that a plan leaves of one, in the same measure; `None`: not now. Counts the request.
    #[inline]
    pub fn bid(&mut self, slot: u32, coin: u64, bid: i64) -> Option<i64> {
        self.paces[slot as usize].bid(coin, bid)
    }

    /// Does the plan let so much be reserved for a bid? Notes that it was asked for.
    #[inline]
    pub fn may_bid(&mut self, slot: u32, amount: Amount) -> bool {
        let pace = &mut self.paces[slot as usize];
        pace.note_ask(amount);
        pace.allows(amount)
    }

    /// What [`Money::bid`] would say, leaving no trace.
    #[inline]
    pub fn peek_bid(&self, slot: u32, coin: u64, bid: i64) -> Option<i64> {
        self.paces[slot as usize].peek_bid(coin, bid)
    }

    /// What [`Money::may_bid`] would say, leaving no trace.
    #[inline]
    pub fn peek_may_bid(&self, slot: u32, amount: Amount) -> bool {
        self.paces[slot as usize].allows(amount)
    }

    /// Could the purse give so much? Where not, it wants more from the bank.
    ///
    /// # Errors
    /// Why not.
    #[inline]
    pub fn able(&mut self, slot: u32, amount: Amount) -> Result<(), Verdict> {
        self.purses.able(slot, amount, self.at)
    }

    /// What [`Money::able`] would say, leaving no trace.
    ///
    /// # Errors
    /// Why not.
    #[inline]
    pub fn peek_able(&self, slot: u32, amount: Amount) -> Result<(), Verdict> {
        self.purses.peek(slot, amount, self.at)
    }

    /// Sets money aside for a bid that won and whose plan was asked. `also` is what else must agree to the hold: where it refuses, purse and
    /// plan stand as if nobody had asked.
    ///
    /// # Errors
    /// Why the purse has it not; `None` where `also` refuses.
    #[inline]
    pub fn reserve_bid(
        &mut self,
        slot: u32,
        amount: Amount,
        also: impl FnOnce(&Hold) -> bool,
    ) -> Result<Hold, Option<Verdict>> {
        let hold = self.purses.reserve(slot, amount, self.at)?;
        if !also(&hold) {
            self.purses.undo(slot, &hold);
            return Err(None);
        }
        self.paces[slot as usize].take(amount);
        Ok(hold)
    }

    /// Takes back what was set aside a moment ago and never left this worker, as if nobody had asked.
    #[inline]
    pub fn undo(&mut self, slot: u32, hold: &Hold) {
        self.purses.undo(slot, hold);
        self.paces[slot as usize].give_back(hold.amount);
    }
}

#[cfg(test)]
mod tests {
    use ledger::{PurseOptions, ToWorker};

    use super::*;

    const NOW_MS: u64 = 1_000;

    /// What plan and purse have left.
    fn left(money: &Money<'_>) -> (Amount, Amount) {
        (money.paces[0].allowance(), money.purses.free(0))
    }

    #[test]
    fn what_is_refused_or_undone_leaves_plan_and_purse_as_if_nobody_had_asked() {
        let mut purses = Purses::new(PurseOptions { node: 1, hold_ms: 2_000 }, 1);
        let (amount, valid_from_ms, valid_until_ms) = (Amount::new(100), 0, u64::MAX);
        let fill = ToWorker::Fill { slot: 0, grant: 7, amount, valid_from_ms, valid_until_ms };
        purses.take(fill, NOW_MS);
        let at = purses.at(NOW_MS);
        let mut money = Money { paces: &mut [Pace::OPEN], purses: &mut purses, at };
        let before = left(&money);
        let (some, more) = (Amount::new(60), Amount::new(101));

        assert_eq!(money.reserve_bid(0, some, |_| false), Err(None));
        assert!(matches!(money.reserve_bid(0, more, |_| true), Err(Some(_))));
        assert_eq!(money.plan(0, 5, more), Ok(()));
        assert!(money.reserve_planned(0, more).is_err());
        assert_eq!(left(&money), before);

        let hold = money.reserve_bid(0, some, |hold| hold.amount == some).unwrap();
        assert_ne!(left(&money), before);
        assert!(money.peek_able(0, some).is_err() && money.able(0, Amount::new(40)).is_ok());
        money.undo(0, &hold);
        assert_eq!(left(&money), before);

        assert_eq!(money.plan(0, 5, some), Ok(()));
        let hold = money.reserve_planned(0, some).unwrap();
        money.undo(0, &hold);
        assert_eq!(left(&money), before);
        money.paces[0] = Pace::CLOSED;
        assert_eq!(money.plan(0, 5, some), Err(Verdict::Paced));
        assert!(!money.may_bid(0, some) && money.bid(0, 5, 60).is_none());
    }
}
