//! The fast half: what a worker does with every request.

use money::Amount;
use table::spread;

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

/// A worker's pacing of one budget until the next tick. 32 bytes, one form for all strategies: half of a
/// cache line.
///
/// The worker owns its copy: deciding counts requests, and what is reserved counts the allowance down. At the
/// next tick it reports [`Pace::seen`] and [`Pace::ask_max`] and replaces the whole by a new one.
///
/// There are two ways to slow down. Where the price may change, [`Pace::bid`] multiplies it. Where it may
/// not, [`Pace::decide`] lets a part of the requests take part, as large as the multiplier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(32))]
pub struct Pace {
    /// What request ids are mixed with: of the budget.
    salt: u64,
    /// The amount that may still be reserved, base units; never negative.
    allowance: i64,
    /// A request takes part if the upper half of its hash is at most this.
    threshold: u32,
    /// Bids are multiplied by (this + 1) / 2^32.
    multiplier: u32,
    /// Requests that asked, since this was made.
    seen: u32,
    /// The largest amount that was asked for, see [`coded`].
    ask_max: u32,
}

const _: () = assert!(size_of::<Pace>() == 32);

impl Pace {
    /// Lets everything through.
    pub const OPEN: Pace = Pace {
        salt: 0,
        allowance: i64::MAX,
        threshold: u32::MAX,
        multiplier: u32::MAX,
        seen: 0,
        ask_max: 0,
    };
    /// Lets nothing through.
    pub const CLOSED: Pace =
        Pace { salt: 0, allowance: 0, threshold: 0, multiplier: 0, seen: 0, ask_max: 0 };

    /// A pace with a participation and a multiplier, each above 0 and at most one in Q32, that lets no more
    /// than `allowance` be reserved.
    pub(crate) fn new(salt: u64, allowance: i64, coin_q32: u64, multiplier_q32: u64) -> Pace {
        let [threshold, multiplier] = [coin_q32, multiplier_q32].map(below_one);
        Pace { salt, allowance: allowance.max(0), threshold, multiplier, seen: 0, ask_max: 0 }
    }

    /// The bid for a request that is worth `value` to the budget: 1 to `value`, in the measure of `value`, which may be
    /// a price for a thousand. `None`: not now.
    ///
    /// Counts the request. Whether what the bid would reserve is within the allowance is asked by [`Pace::allows`]. Nothing
    /// is taken from it: who bids may still lose to another, and who wins calls [`Pace::take`].
    #[inline]
    pub fn bid(&mut self, request_id: u64, value: i64) -> Option<i64> {
        self.seen = self.seen.saturating_add(1);
        self.peek_bid(request_id, value)
    }

    /// What [`Pace::bid`] would say, leaving no trace. The answer depends on this pace, the id and the value,
    /// and on nothing else; a larger threshold only adds requests, a larger multiplier only raises bids.
    #[inline]
    #[must_use]
    pub fn peek_bid(&self, request_id: u64, value: i64) -> Option<i64> {
        let bid = self.price(value);
        let pass = self.coin(request_id, self.threshold) & (self.allowance > 0) & (bid > 0);
        pass.then_some(bid)
    }

    /// May so much be reserved until the next tick? Not 0, not less, not more than the allowance.
    #[inline]
    #[must_use]
    pub fn allows(&self, amount: Amount) -> bool {
        self.covers(amount.get())
    }

    /// Notes an amount that is asked for, let through or not: an allowance that is too small for it must grow. For bids, whose
    /// measure need not be that of the allowance; asks of fixed amounts are noted.
    #[inline]
    pub fn note_ask(&mut self, amount: Amount) {
        self.ask_max = self.ask_max.max(coded(amount.get()));
    }

    /// Decides about one request of a fixed amount: [`Pace::ask`], and where it passes [`Pace::take`].
    ///
    /// Amounts that nobody may ask for ([`Amount::is_ask`]) never pass and are not counted. Check that
    /// before, where they should get an answer of their own.
    #[inline]
    pub fn decide(&mut self, request_id: u64, amount: Amount) -> Decision {
        let decision = self.ask(request_id, amount);
        if decision == Decision::Pass {
            self.take(amount);
        }
        decision
    }

    /// Counts a request of a fixed amount and says what [`Pace::decide`] would, without using the allowance
    /// up: for who may still lose to another. Who wins calls [`Pace::take`].
    #[inline]
    pub fn ask(&mut self, request_id: u64, amount: Amount) -> Decision {
        if amount.is_ask() {
            self.seen = self.seen.saturating_add(1);
            self.note_ask(amount);
        }
        self.peek(request_id, amount)
    }

    /// What [`Pace::ask`] would say, leaving no trace. The coin is the smaller of threshold and multiplier:
    /// one law paces fixed prices and bids.
    #[inline]
    #[must_use]
    pub fn peek(&self, request_id: u64, amount: Amount) -> Decision {
        let counted = if amount.is_ask() { amount.get() } else { 0 };
        // Both are compared before the one branch, which the caller has to take anyway: it asks the ledger
        // next, or not.
        let pass =
            self.coin(request_id, self.threshold.min(self.multiplier)) & self.covers(counted);
        if pass { Decision::Pass } else { Decision::Paced }
    }

    /// Uses allowance up for an amount that is reserved. At most what is left: then nothing is.
    #[inline]
    pub fn take(&mut self, amount: Amount) {
        self.allowance = self.allowance.saturating_sub(amount.get().max(0)).max(0);
    }

    /// Undoes a [`Pace::take`] that the ledger refused: the amount may be allowed to another request.
    #[inline]
    pub fn give_back(&mut self, amount: Amount) {
        // Only what was taken comes back, so it fits; a caller's mistake must not become a negative
        // allowance.
        self.allowance = self.allowance.saturating_add(amount.get().max(0));
    }

    /// This pace under a shared pool's: the smaller of both multipliers, participations and allowances. The
    /// coin stays this budget's own.
    #[must_use]
    pub fn within(self, pool: &Pace) -> Pace {
        Pace {
            allowance: self.allowance.min(pool.allowance),
            threshold: self.threshold.min(pool.threshold),
            multiplier: self.multiplier.min(pool.multiplier),
            ..self
        }
    }

    /// Requests that asked since this was made. At the end of the range it stays there.
    #[must_use]
    pub fn seen(&self) -> u32 {
        self.seen
    }

    /// The largest amount that was asked for since this was made, rounded up by less than a 30-millionth; 0 for none.
    #[must_use]
    pub fn ask_max(&self) -> Amount {
        Amount::new(decoded(self.ask_max))
    }

    /// What bids are multiplied by, in Q32: 1 to 2^32.
    #[must_use]
    pub fn multiplier_q32(&self) -> u64 {
        u64::from(self.multiplier) + 1
    }

    /// The part of requests that take part, in Q32: 1 to 2^32.
    #[must_use]
    pub fn threshold_q32(&self) -> u64 {
        u64::from(self.threshold) + 1
    }

    /// The amount that may still be reserved.
    #[must_use]
    pub fn allowance(&self) -> Amount {
        Amount::new(self.allowance)
    }

    /// What request ids are mixed with for this budget's coin.
    #[must_use]
    pub fn salt(&self) -> u64 {
        self.salt
    }

    #[inline]
    fn coin(&self, request_id: u64, threshold: u32) -> bool {
        spread(request_id ^ self.salt) >> 32 <= u64::from(threshold)
    }

    /// The value times the multiplier, rounded down, at least 1; not above 0 where the value is not.
    #[inline]
    fn price(&self, value: i64) -> i64 {
        let product = i128::from(value) * i128::from(self.multiplier_q32());
        // The multiplier is at most one, so this is at most the value.
        let price = i64::try_from(product >> 32).unwrap_or(value);
        price.max(value.min(1))
    }

    /// `1..=allowance` in one compare: as unsigned numbers, 0 less 1 is larger than any allowance.
    #[inline]
    fn covers(&self, amount: i64) -> bool {
        amount.cast_unsigned().wrapping_sub(1) < self.allowance.cast_unsigned()
    }
}

/// Bits of the digits of a [coded] amount.
const DIGITS: u32 = 26;

/// An amount in 32 bits: 26 digits, and how often they are doubled; rounded up. Larger amounts have larger codes.
#[inline]
fn coded(amount: i64) -> u32 {
    let amount = amount.max(0).unsigned_abs();
    let doubled = (u64::BITS - amount.leading_zeros()).saturating_sub(DIGITS);
    let digits = (amount >> doubled) + u64::from(amount.trailing_zeros() < doubled);
    // 2^26 digits, where rounding went over, are the code of one doubling more and no digits: the same amount.
    let code = (u64::from(doubled) << DIGITS) + digits;
    u32::try_from(code).unwrap_or(u32::MAX)
}

/// The amount of a code.
fn decoded(code: u32) -> i64 {
    let (doubled, digits) = (code >> DIGITS, i64::from(code & ((1 << DIGITS) - 1)));
    // A doubled amount has its first digit at 2^25, so no digits at all stand for 2^26 of one doubling less.
    match (doubled, digits) {
        (1.., 0) => 1 << (DIGITS + doubled - 1).min(62),
        _ => digits << doubled.min(37),
    }
}

/// A fraction of 2^32 as 32 bits: less one, so that one fits and nothing does not.
fn below_one(q32: u64) -> u32 {
    u32::try_from(q32.saturating_sub(1)).unwrap_or(u32::MAX)
}

/// The salt of a budget's coin.
pub(crate) fn salt(budget_id: u64) -> u64 {
    spread(spread(budget_id ^ DOMAIN).wrapping_add(DOMAIN))
}

#[cfg(test)]
#[allow(clippy::cast_precision_loss, reason = "statistics")]
mod tests {
    use super::*;
    use crate::fixed::ONE_Q32;
    use money::ASK_MAX;
    use proptest::prelude::*;

    fn passes(mut pace: Pace, id: u64) -> bool {
        pace.decide(id, Amount::new(1)) == Decision::Pass
    }

    const ONE: u64 = ONE_Q32;

    #[test]
    fn open_and_closed_are_what_they_say() {
        assert!((0..1_000).all(|id| passes(Pace::OPEN, id)));
        assert!(!(0..1_000).any(|id| passes(Pace::CLOSED, id)));
        assert!((0..1_000).all(|id| Pace::CLOSED.peek_bid(id, 1 << 40).is_none()));
        let mut open = Pace::OPEN;
        assert_eq!(open.decide(1, ASK_MAX), Decision::Pass);
        assert_eq!(open.bid(2, 77), Some(77));
        assert!(!open.allows(Amount::new(i64::MAX)), "above what is left");
        assert!(open.seen() == 2 && open.ask_max() >= ASK_MAX);
    }

    #[test]
    fn amounts_that_are_none_never_pass() {
        for amount in [0, -1, i64::MIN, ASK_MAX.get() + 1, i64::MAX] {
            let mut pace = Pace::OPEN;
            assert_eq!(pace.decide(1, Amount::new(amount)), Decision::Paced, "{amount}");
            assert_eq!(pace, Pace::OPEN, "neither taken nor counted");
            let mut closed = Pace::new(0, 0, ONE, ONE);
            assert_eq!(closed.decide(1, Amount::new(amount)), Decision::Paced, "{amount}");
        }
        for value in [0, -1, i64::MIN] {
            assert_eq!(Pace::OPEN.peek_bid(1, value), None, "{value}");
        }
    }

    #[test]
    fn what_is_given_back_can_be_used() {
        let mut pace = Pace::new(0, 10, ONE, ONE);
        assert_eq!(pace.decide(1, Amount::new(8)), Decision::Pass);
        assert_eq!(pace.decide(2, Amount::new(3)), Decision::Paced);
        assert!(pace.allows(Amount::new(2)) && !pace.allows(Amount::new(3)));
        pace.give_back(Amount::new(8));
        assert_eq!(pace.decide(2, Amount::new(3)), Decision::Pass);
        assert_eq!((pace.allowance().get(), pace.seen(), pace.ask_max().get()), (7, 3, 8));
    }

    #[test]
    fn bids_are_multiplied_and_rounded_down() {
        let bid = |multiplier, value| Pace::new(0, i64::MAX, ONE, multiplier).peek_bid(1, value);
        assert_eq!(bid(ONE, 1_000), Some(1_000));
        assert_eq!(bid(ONE / 2, 1_001), Some(500));
        assert_eq!(bid(ONE / 200, 100), Some(1), "at least one");
        assert_eq!(bid(1, i64::MAX), Some((1 << 31) - 1));
    }

    #[test]
    fn a_pool_binds_its_children() {
        let child = Pace::new(7, 100, ONE, ONE / 2);
        let pool = Pace::new(9, 50, ONE / 4, ONE);
        assert_eq!(child.within(&pool), Pace::new(7, 50, ONE / 4, ONE / 2));
        assert_eq!(child.within(&Pace::OPEN), child);
        assert!((0..1_000).all(|id| !passes(child.within(&Pace::CLOSED), id)));
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
                cells[usize::try_from(spread(id ^ salt) >> 58).unwrap()] += 1;
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
            let both = |id: &u64| (spread(id ^ salt(0)) >> 63) == (spread(id ^ salt(other)) >> 63);
            let same = (0..10_000_u64).filter(both).count();
            assert!((4_700..5_300).contains(&same), "budget {other}: {same} of 10,000 agree");
        }
    }

    #[test]
    fn the_coin_is_pinned() {
        // A recorded run must replay: changing these changes every answer.
        assert_eq!(spread(1), 0x5692_161d_100b_05e5);
        assert_eq!(salt(1), salt(1));
        assert_ne!(salt(1), salt(2));
    }

    proptest! {
        #[test]
        fn raising_the_threshold_only_adds(id: u64, salt: u64, a in 1..=ONE, b in 1..=ONE) {
            let pace = |coin, multiplier| Pace::new(salt, 1, coin, multiplier);
            let (low, high) = (a.min(b), a.max(b));
            prop_assert!(!passes(pace(low, ONE), id) || passes(pace(high, ONE), id));
            prop_assert_eq!(passes(pace(low, ONE), id), passes(pace(ONE, low), id), "one law, two actuators");
            prop_assert_eq!(passes(pace(low, ONE), id), pace(low, ONE).peek_bid(id, 1).is_some());
        }

        #[test]
        fn bids_are_between_one_and_the_value(id: u64, a in 1..=ONE, b in 1..=ONE, value in 1_i64..) {
            let bid = |multiplier| Pace { allowance: i64::MAX, ..Pace::new(0, 0, ONE, multiplier) }.price(value);
            let (low, high) = (bid(a.min(b)), bid(a.max(b)));
            prop_assert!(1 <= low && low <= high && high <= value);
            let exact = (i128::from(value) * i128::from(a)) >> 32;
            prop_assert_eq!(i128::from(bid(a)), exact.max(1));
            prop_assert_eq!(Pace::new(id, value, ONE, a).peek_bid(id, value), Some(bid(a)));
        }

        #[test]
        fn codes_of_amounts_keep_their_order(amount in 0_i64..1 << 60, more in 0_i64..1 << 60) {
            let back = decoded(coded(amount));
            prop_assert!(amount <= back && back - amount <= amount >> 25, "{} for {}", back, amount);
            prop_assert!(coded(amount) <= coded(amount + more));
            prop_assert!(amount >= 1 << 26 || back == amount);
        }

        #[test]
        fn never_more_than_allowed(allowance in 0_i64..10_000, coin in 1..=ONE,
                                   asks in prop::collection::vec((any::<u64>(), -10_i64..5_000), 0..50)) {
            let (mut pace, mut reserved, mut asked, mut most) = (Pace::new(7, allowance, coin, ONE), 0, 0, 0);
            for (id, amount) in asks {
                asked += u32::from(amount > 0);
                most = most.max(amount);
                if pace.decide(id, Amount::new(amount)) == Decision::Pass {
                    reserved += amount;
                }
                prop_assert!(pace.allowance().get() == allowance - reserved && reserved <= allowance);
            }
            prop_assert_eq!((pace.seen(), pace.ask_max().get()), (asked, most));
        }
    }
}
