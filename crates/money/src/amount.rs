//! Amounts in the base units of one budget, and how they are rounded.

/// The largest single ask, and the largest single settle: 10^15 base units (a billion in a currency in micros, a
/// million in nanos).
pub const ASK_MAX: Amount = Amount(1_000_000_000_000_000);
/// The largest limit of a budget: 10^18 base units (a trillion in a currency in micros, a billion in nanos). Nine budgets at their limit
/// still add up within 64 bits.
pub const LIMIT_MAX: Amount = Amount(1_000_000_000_000_000_000);

/// An amount in the base units of *one* budget's unit: micros of a currency (1 USD = 1,000,000), nanos of it
/// (1 USD = 1,000,000,000 of unit `USDn`), or whole items of a count. Negative where a balance is in debt.
///
/// There are no operators, because they would have to panic or wrap: use the `checked_` functions. There is no
/// `Sum` for the same reason: use [`Amount::total`].
///
/// ```
/// use money::Amount;
/// let left = Amount::new(1_000_000).checked_sub(Amount::new(1)).unwrap();
/// assert_eq!(left.get(), 999_999);
/// assert_eq!(Amount::new(i64::MAX).checked_add(Amount::new(1)), None);
/// ```
///
/// ```compile_fail,E0369
/// let sum = money::Amount::new(1) + money::Amount::new(2);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Amount(i64);

impl Amount {
    /// Nothing.
    pub const ZERO: Amount = Amount(0);

    /// An amount of so many base units.
    #[inline]
    #[must_use]
    pub const fn new(base_units: i64) -> Amount {
        Amount(base_units)
    }

    /// The number of base units.
    #[inline]
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }

    /// The sum; `None` where it does not fit.
    #[inline]
    #[must_use]
    pub const fn checked_add(self, other: Amount) -> Option<Amount> {
        match self.0.checked_add(other.0) {
            Some(sum) => Some(Amount(sum)),
            None => None,
        }
    }

    /// The difference; `None` where it does not fit.
    #[inline]
    #[must_use]
    pub const fn checked_sub(self, other: Amount) -> Option<Amount> {
        match self.0.checked_sub(other.0) {
            Some(difference) => Some(Amount(difference)),
            None => None,
        }
    }

    /// `self * num / den`, exact in between and rounded once; `None` where `den` is 0 or the result does not fit.
    #[inline]
    #[must_use]
    pub const fn checked_mul_ratio(self, num: u64, den: u64, rounding: Rounding) -> Option<Amount> {
        if den == 0 {
            return None;
        }
        // |i64::MIN| * u64::MAX < 2^127, so the product fits.
        let exact = self.0 as i128 * num as i128;
        match narrow(rounding.divide(exact, den as i128)) {
            Some(rounded) => Some(Amount(rounded)),
            None => None,
        }
    }

    /// The sum of all; `None` where it does not fit. The order does not matter: only the sum has to fit.
    #[must_use]
    pub fn total(amounts: impl IntoIterator<Item = Amount>) -> Option<Amount> {
        let mut sum = 0_i128;
        for amount in amounts {
            sum += i128::from(amount.0);
        }
        narrow(sum).map(Amount)
    }

    /// Is it one that may be asked for: 1 to [`ASK_MAX`]?
    #[inline]
    #[must_use]
    pub const fn is_ask(self) -> bool {
        0 < self.0 && self.0 <= ASK_MAX.0
    }

    /// Is it one that a budget may have as its limit: 0 to [`LIMIT_MAX`]?
    #[inline]
    #[must_use]
    pub const fn is_limit(self) -> bool {
        0 <= self.0 && self.0 <= LIMIT_MAX.0
    }
}

/// What happens to a part of a base unit.
///
/// Never round in favour of overspend: what is reserved or charged rounds [`Up`](Rounding::Up), what is handed
/// out or given back rounds [`Down`](Rounding::Down).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// Towards negative infinity.
    Down,
    /// Towards positive infinity.
    Up,
    /// To the nearest; a half goes to the even neighbour. For reports, not for limits.
    HalfEven,
}

impl Rounding {
    /// `num / den`; `den` must be positive.
    #[inline]
    pub(crate) const fn divide(self, num: i128, den: i128) -> i128 {
        let (down, rest) = (num.div_euclid(den), num.rem_euclid(den));
        let up = match self {
            Rounding::Down => false,
            Rounding::Up => rest > 0,
            // `rest > den - rest` is `2 * rest > den` without overflow.
            Rounding::HalfEven => rest > den - rest || (rest == den - rest && down & 1 == 1),
        };
        // At most |num| in size where it is rounded up, because then `den` is at least 2.
        if up { down + 1 } else { down }
    }
}

/// The same number in 64 bits, if it fits.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the range is checked; `TryFrom` is not const")]
pub(crate) const fn narrow(wide: i128) -> Option<i64> {
    if wide < i64::MIN as i128 || wide > i64::MAX as i128 { None } else { Some(wide as i64) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rounding_is_stated() {
        let third = |amount: i64, rounding| {
            Amount::new(amount).checked_mul_ratio(1, 2, rounding).unwrap().get()
        };
        let table = [(3, 1, 2, 2), (5, 2, 3, 2), (-3, -2, -1, -2), (-5, -3, -2, -2), (4, 2, 2, 2)];
        for (amount, down, up, even) in table {
            assert_eq!(third(amount, Rounding::Down), down, "{amount} down");
            assert_eq!(third(amount, Rounding::Up), up, "{amount} up");
            assert_eq!(third(amount, Rounding::HalfEven), even, "{amount} half-even");
        }
    }

    #[test]
    fn the_edges_do_not_wrap() {
        let (max, min) = (Amount::new(i64::MAX), Amount::new(i64::MIN));
        assert_eq!(max.checked_add(Amount::new(1)), None);
        assert_eq!(min.checked_sub(Amount::new(1)), None);
        assert_eq!(max.checked_mul_ratio(2, 1, Rounding::Down), None);
        assert_eq!(max.checked_mul_ratio(1, 0, Rounding::Down), None);
        assert_eq!(min.checked_mul_ratio(u64::MAX, u64::MAX, Rounding::Up), Some(min));
        assert_eq!(Amount::total([max, max, min, min]), Some(Amount::new(-2)));
        assert_eq!(Amount::total([max, Amount::new(1)]), None);
    }

    #[test]
    fn asks_and_limits_have_ranges() {
        assert!(ASK_MAX.is_ask() && Amount::new(1).is_ask() && LIMIT_MAX.is_limit());
        assert!(!Amount::ZERO.is_ask() && Amount::ZERO.is_limit());
        assert!(!Amount::new(ASK_MAX.get() + 1).is_ask());
        assert!(!Amount::new(LIMIT_MAX.get() + 1).is_limit() && !Amount::new(-1).is_limit());
    }

    proptest! {
        #[test]
        fn sums_agree_with_wide_integers(a: i64, b: i64) {
            let (sum, difference) = (i128::from(a) + i128::from(b), i128::from(a) - i128::from(b));
            let get = |amount: Option<Amount>| amount.map(|amount| i128::from(amount.get()));
            let fits = |wide: i128| i64::try_from(wide).ok().map(i128::from);
            prop_assert_eq!(get(Amount::new(a).checked_add(Amount::new(b))), fits(sum));
            prop_assert_eq!(get(Amount::new(a).checked_sub(Amount::new(b))), fits(difference));
            prop_assert_eq!(get(Amount::total([Amount::new(a), Amount::new(b)])), fits(sum));
        }

        #[test]
        fn a_ratio_is_within_one_base_unit(amount in -1_000_000_000_000_i64..1_000_000_000_000,
                                          num in 0_u64..1_000_000, den in 1_u64..1_000_000) {
            let exact = i128::from(amount) * i128::from(num);
            let at = |rounding| Amount::new(amount).checked_mul_ratio(num, den, rounding).unwrap().get();
            let (down, up, even) = (at(Rounding::Down), at(Rounding::Up), at(Rounding::HalfEven));
            let den = i128::from(den);
            prop_assert!(i128::from(down) * den <= exact && exact < (i128::from(down) + 1) * den);
            prop_assert!((i128::from(up) - 1) * den < exact && exact <= i128::from(up) * den);
            prop_assert!(even == down || even == up);
            prop_assert!((i128::from(even) * den - exact).abs() * 2 <= den);
        }
    }
}
