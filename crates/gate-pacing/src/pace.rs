//! The fast half: what a worker does with every request.

use money::Amount;

/// Separates this use of hashed ids from others: experiments, ties.
const DOMAIN: u64 = u64::from_le_bytes(*b"pace/1\0\0");

/// May the request go on to the ledger?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Yes, as far as the plan goes.
    Pass,
    /// The plan says not now.
    Paced,
}

/// A worker's pacing of one budget until the next tick. 32 bytes, one form for all strategies: half of a cache line.
///
/// The worker owns its copy: deciding counts the allowance down and the demand up. At the next tick it reports
/// [`Pace::asked`] and replaces the whole by a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(32))]
pub struct Pace {
    /// A request takes part if its hash is at most this.
    threshold: u64,
    /// What request ids are mixed with: of the budget.
    salt: u64,
    /// What may still be reserved, base units; never negative.
    allowance: i64,
    /// What was asked for since this was made, base units.
    asked: i64,
}

const _: () = assert!(size_of::<Pace>() == 32);

impl Pace {
    /// Lets everything through.
    pub const OPEN: Pace = Pace { threshold: u64::MAX, salt: 0, allowance: i64::MAX, asked: 0 };
    /// Lets nothing through.
    pub const CLOSED: Pace = Pace { threshold: 0, salt: 0, allowance: 0, asked: 0 };

    /// A pace that lets through `threshold` / 2^64 of requests, and no more than `allowance`.
    pub(crate) fn new(threshold: u64, salt: u64, allowance: i64) -> Pace {
        Pace { threshold, salt, allowance: allowance.max(0), asked: 0 }
    }

    /// Decides about one request: [`Pace::ask`], and where it passes [`Pace::take`].
    ///
    /// Amounts that nobody may ask for ([`Amount::is_ask`]) never pass and do not count as demand. Check that before,
    /// where they should get an answer of their own.
    #[inline]
    pub fn decide(&mut self, request_id: u64, amount: Amount) -> Decision {
        let decision = self.ask(request_id, amount);
        if decision == Decision::Pass {
            self.take(amount);
        }
        decision
    }

    /// Counts a request as demand and says what [`Pace::decide`] would, without using the allowance up: for who may
    /// still lose to another. Who wins calls [`Pace::take`].
    #[inline]
    pub fn ask(&mut self, request_id: u64, amount: Amount) -> Decision {
        let counted = if amount.is_ask() { amount.get() } else { 0 };
        self.asked = self.asked.saturating_add(counted);
        self.peek(request_id, amount)
    }

    /// What [`Pace::ask`] would say, leaving no trace. The answer depends on this pace, the id and the amount, and on
    /// nothing else; a larger threshold only adds requests.
    #[inline]
    #[must_use]
    pub fn peek(&self, request_id: u64, amount: Amount) -> Decision {
        let counted = if amount.is_ask() { amount.get() } else { 0 };
        let by_coin = mix(request_id ^ self.salt) <= self.threshold;
        // As unsigned numbers, 0 less 1 is larger than any allowance. Both are compared before the one branch, which
        // the caller has to take anyway: it asks the ledger next, or not.
        let by_allowance = counted.cast_unsigned().wrapping_sub(1) < self.allowance.cast_unsigned();
        if by_coin & by_allowance { Decision::Pass } else { Decision::Paced }
    }

    /// Uses allowance up for an amount that passed. At most what is left: then nothing is.
    #[inline]
    pub fn take(&mut self, amount: Amount) {
        self.allowance = self.allowance.saturating_sub(amount.get().max(0)).max(0);
    }

    /// Undoes a [`Decision::Pass`] that the ledger refused: the amount may be allowed to another request.
    #[inline]
    pub fn give_back(&mut self, amount: Amount) {
        // Only what was taken comes back, so it fits; a caller's mistake must not become a negative allowance.
        self.allowance = self.allowance.saturating_add(amount.get().max(0));
    }

    /// What may still be reserved.
    #[must_use]
    pub fn allowance(&self) -> Amount {
        Amount::new(self.allowance)
    }

    /// What was asked for since this was made, paced requests included. At the end of the range it stays there.
    #[must_use]
    pub fn asked(&self) -> Amount {
        Amount::new(self.asked)
    }

    /// The part of requests that take part, in 1 / 2^64, less one.
    #[must_use]
    pub fn threshold(&self) -> u64 {
        self.threshold
    }
}

/// The salt of a budget's coin.
pub(crate) fn salt(budget_id: u64) -> u64 {
    mix(mix(budget_id ^ DOMAIN).wrapping_add(DOMAIN))
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014): a
/// bijection whose output is even for sequential ids too, where one multiplication would not be enough.
#[inline]
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
#[allow(clippy::cast_precision_loss, reason = "statistics")]
mod tests {
    use super::*;
    use money::ASK_MAX;
    use proptest::prelude::*;

    fn passes(mut pace: Pace, id: u64) -> bool {
        pace.decide(id, Amount::new(1)) == Decision::Pass
    }

    #[test]
    fn open_and_closed_are_what_they_say() {
        assert!((0..1_000).all(|id| passes(Pace::OPEN, id)));
        assert!(!(0..1_000).any(|id| passes(Pace::CLOSED, id)));
        let mut open = Pace::OPEN;
        assert_eq!(open.decide(1, ASK_MAX), Decision::Pass);
        assert_eq!(open.asked(), ASK_MAX);
    }

    #[test]
    fn amounts_that_are_none_never_pass() {
        for amount in [0, -1, i64::MIN, ASK_MAX.get() + 1, i64::MAX] {
            let mut pace = Pace::OPEN;
            assert_eq!(pace.decide(1, Amount::new(amount)), Decision::Paced, "{amount}");
            assert_eq!(pace, Pace::OPEN, "neither taken nor counted");
            let mut closed = Pace::new(u64::MAX, 0, 0);
            assert_eq!(closed.decide(1, Amount::new(amount)), Decision::Paced, "{amount}");
        }
    }

    #[test]
    fn what_is_given_back_can_be_used() {
        let mut pace = Pace::new(u64::MAX, 0, 10);
        assert_eq!(pace.decide(1, Amount::new(8)), Decision::Pass);
        assert_eq!(pace.decide(2, Amount::new(3)), Decision::Paced);
        pace.give_back(Amount::new(8));
        assert_eq!(pace.decide(2, Amount::new(3)), Decision::Pass);
        assert_eq!((pace.allowance().get(), pace.asked().get()), (7, 14));
    }

    /// Chi-squared of hashes in 64 cells, for sequential ids under many salts. With 63 degrees of freedom the
    /// mean is 63 and the standard deviation 11.2; the worst of 200 fair ones is about 100 to 110.
    #[test]
    fn the_coin_is_fair_for_sequential_ids() {
        const IDS: u64 = 64 * 500;
        let mut sum = 0.0;
        for budget in 0..200 {
            let (salt, mut cells) = (salt(budget), [0_u32; 64]);
            for id in 0..IDS {
                cells[usize::try_from(mix(id ^ salt) >> 58).unwrap()] += 1;
            }
            let expected = IDS as f64 / 64.0;
            let square = |seen: &u32| (f64::from(*seen) - expected).powi(2) / expected;
            let chi2: f64 = cells.iter().map(square).sum();
            assert!(chi2 < 130.0, "budget {budget}: chi-squared {chi2}");
            sum += chi2;
        }
        assert!((58.0..68.0).contains(&(sum / 200.0)), "mean chi-squared {}", sum / 200.0);
    }

    /// Two budgets' coins must not agree, or the same users would always be the lucky ones.
    #[test]
    fn coins_of_budgets_are_independent() {
        for other in 1..50 {
            let both = |id: &u64| (mix(id ^ salt(0)) >> 63) == (mix(id ^ salt(other)) >> 63);
            let same = (0..10_000_u64).filter(both).count();
            assert!((4_700..5_300).contains(&same), "budget {other}: {same} of 10,000 agree");
        }
    }

    #[test]
    fn the_coin_is_pinned() {
        // A recorded run must replay: changing these changes every answer.
        assert_eq!(mix(1), 0x5692_161d_100b_05e5);
        assert_eq!(salt(1), salt(1));
        assert_ne!(salt(1), salt(2));
    }

    proptest! {
        #[test]
        fn raising_the_threshold_only_adds(id: u64, salt: u64, a: u64, b: u64) {
            let (low, high) = (a.min(b), a.max(b));
            prop_assert!(!passes(Pace::new(low, salt, 1), id) || passes(Pace::new(high, salt, 1), id));
        }

        #[test]
        fn never_more_than_allowed(allowance in 0_i64..10_000, threshold: u64,
                                   asks in prop::collection::vec((any::<u64>(), -10_i64..5_000), 0..50)) {
            let (mut pace, mut reserved, mut asked) = (Pace::new(threshold, 7, allowance), 0, 0);
            for (id, amount) in asks {
                asked += amount.max(0);
                if pace.decide(id, Amount::new(amount)) == Decision::Pass {
                    reserved += amount;
                }
                prop_assert!(pace.allowance().get() == allowance - reserved && reserved <= allowance);
            }
            prop_assert_eq!(pace.asked().get(), asked);
        }
    }
}
