//! Exact amounts: sums at 10^-18 of a unit, which are rounded once, when a budget's base units are read from them.

use fix::Decimal;
use money::{Amount, Scale, Unit};

/// Places of an exact amount behind the point.
const PLACES: u8 = 18;

/// Money and quantity side by side, each at 10^-18 of a unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Exact {
    pub(crate) money: i128,
    pub(crate) quantity: i128,
}

impl Exact {
    pub(crate) const ZERO: Exact = Exact { money: 0, quantity: 0 };

    pub(crate) fn checked_add(self, other: Exact) -> Option<Exact> {
        let money = self.money.checked_add(other.money)?;
        Some(Exact { money, quantity: self.quantity.checked_add(other.quantity)? })
    }

    pub(crate) fn checked_sub(self, other: Exact) -> Option<Exact> {
        let money = self.money.checked_sub(other.money)?;
        Some(Exact { money, quantity: self.quantity.checked_sub(other.quantity)? })
    }

    /// Returns what `self` has above `other`, at least nothing of each.
    pub(crate) fn above(self, other: Exact) -> Option<Exact> {
        self.checked_sub(other).map(|difference| difference.max(Exact::ZERO))
    }

    pub(crate) fn max(self, other: Exact) -> Exact {
        let money = self.money.max(other.money);
        Exact { money, quantity: self.quantity.max(other.quantity) }
    }

    pub(crate) fn min(self, other: Exact) -> Exact {
        let money = self.money.min(other.money);
        Exact { money, quantity: self.quantity.min(other.quantity) }
    }

    /// Returns what a budget of this unit counts, and how much of it is one base unit.
    fn measured(self, unit: Unit) -> (i128, i128) {
        match unit {
            Unit::Currency(_, Scale::Micros) => (self.money, 1_000_000_000_000),
            Unit::Currency(_, Scale::Nanos) => (self.money, 1_000_000_000),
            Unit::Count => (self.quantity, 1_000_000_000_000_000_000),
        }
    }

    /// Does it fit into an [`Amount`] of the unit?
    pub(crate) fn fits(self, unit: Unit) -> bool {
        let (exact, base) = self.measured(unit);
        (0..=i128::from(i64::MAX) * base).contains(&exact)
    }

    /// Returns the amount in base units, rounded up: what is held and what is booked is never less than the exact amount.
    /// Only for amounts that [`Exact::fits`].
    pub(crate) fn rounded_up(self, unit: Unit) -> i64 {
        let (exact, base) = self.measured(unit);
        // The divisors are positive, and the bound of `fits` rounds to i64::MAX.
        let units = exact.unsigned_abs().div_ceil(base.unsigned_abs());
        i64::try_from(units).unwrap_or(i64::MAX)
    }
}

/// Returns a decimal at 10^-18. It always fits: a mantissa has 63 bits, 10^18 has 60.
pub(crate) fn exact(decimal: Decimal) -> i128 {
    decimal.at_places(PLACES).unwrap_or_default()
}

/// Returns `quantity * |price| * multiplier` at 10^-18, where `quantity` is at 10^-18; places beyond are rounded up. `None` where it does
/// not fit. A negative price counts by its size: exposure is never negative.
pub(crate) fn value(quantity: i128, price: Decimal, multiplier: Decimal) -> Option<i128> {
    let quantity = u128::try_from(quantity).ok()?;
    // Below 2^126.
    let factor = u128::from(price.mantissa().unsigned_abs())
        * u128::from(multiplier.mantissa().unsigned_abs());
    let places = u32::from(price.places() + multiplier.places());
    let value = match quantity.checked_mul(factor) {
        Some(product) if places == 0 => product,
        Some(product) => product.div_ceil(10_u128.pow(places)),
        None => wide_value(quantity, factor, places)?,
    };
    i128::try_from(value).ok()
}

/// The slow road of [`value`]: a product of 256 bits. Rounding up twice in a row is rounding up once: for whole numbers
/// `ceil(ceil(x / a) / b) = ceil(x / (a * b))`.
#[cold]
fn wide_value(quantity: u128, factor: u128, places: u32) -> Option<u128> {
    let mut limbs = [0_u64; 4];
    for (at, left) in [low(quantity), low(quantity >> 64)].into_iter().enumerate() {
        let mut carry = 0_u128;
        for (next, right) in [low(factor), low(factor >> 64)].into_iter().enumerate() {
            let sum = u128::from(left) * u128::from(right) + u128::from(limbs[at + next]) + carry;
            limbs[at + next] = low(sum);
            carry = sum >> 64;
        }
        limbs[at + 2] = low(carry);
    }
    let is_inexact = divide(&mut limbs, 10_u64.pow(places.min(18)))
        | divide(&mut limbs, 10_u64.pow(places.saturating_sub(18)));
    if limbs[2] != 0 || limbs[3] != 0 {
        return None;
    }
    let quotient = u128::from(limbs[1]) << 64 | u128::from(limbs[0]);
    quotient.checked_add(u128::from(is_inexact))
}

/// Divides a number of 64-bit limbs, the least one first; was there a rest?
fn divide(limbs: &mut [u64; 4], divisor: u64) -> bool {
    let mut rest = 0_u128;
    for limb in limbs.iter_mut().rev() {
        let dividend = rest << 64 | u128::from(*limb);
        *limb = low(dividend / u128::from(divisor));
        rest = dividend % u128::from(divisor);
    }
    rest != 0
}

#[expect(clippy::cast_possible_truncation, reason = "the low half is what is wanted")]
fn low(wide: u128) -> u64 {
    wide as u64
}

/// The amounts of one leg, absolute: what its named hold and its lines are to be, whatever they were before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LegAmounts {
    /// Kept for what may still be executed.
    pub hold: Amount,
    /// Executed within what was covered.
    pub settled: Amount,
    /// Executed above what was covered.
    pub over_settled: Amount,
    /// Executed after the order was closed.
    pub late: Amount,
    /// Executed as CumQty says, without a known execution.
    pub inferred: Amount,
    /// Executed for an order that was never opened here.
    pub unknown_order: Amount,
}

impl LegAmounts {
    /// Returns the sum of the lines, without the hold; `None` where it does not fit, which it does in what an order says.
    #[must_use]
    pub fn booked(&self) -> Option<Amount> {
        let lines = [self.settled, self.over_settled, self.late, self.inferred, self.unknown_order];
        Amount::total(lines)
    }
}

/// The exact sums that the amounts of all legs follow from.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    /// Executed while the order was open.
    pub(crate) open: Exact,
    pub(crate) inferred: Exact,
    pub(crate) late: Exact,
    /// The worst of all versions.
    pub(crate) worst: Exact,
    /// Executed and held after the last answer that granted it.
    pub(crate) covered: Exact,
}

impl Totals {
    /// Returns what was executed; `None` where it does not fit.
    fn spent(&self) -> Option<Exact> {
        self.open.checked_add(self.inferred)?.checked_add(self.late)
    }

    /// Can every amount be counted in these units?
    pub(crate) fn fit(&self, mut units: impl Iterator<Item = Unit>) -> bool {
        let total = self.spent().and_then(|spent| spent.checked_add(self.worst));
        total.is_some_and(|total| {
            units.all(|unit| total.fits(unit) && self.open.fits(unit) && self.covered.fits(unit))
        })
    }

    /// Returns the amounts of a leg. One rounding for each line on top of the one before, so that all of them together are the exact
    /// total, rounded up once. Only for totals that [`Totals::fit`]. `is_known`: the order was opened here.
    pub(crate) fn amounts(&self, unit: Unit, is_known: bool) -> LegAmounts {
        let spent = self.spent().unwrap_or(Exact::ZERO);
        let total = spent.checked_add(self.worst).unwrap_or(Exact::ZERO);
        let open = self.open.rounded_up(unit);
        let booked = if spent == self.open { open } else { spent.rounded_up(unit) };
        let not_late = if self.late == Exact::ZERO {
            booked
        } else {
            self.open.checked_add(self.inferred).unwrap_or(spent).rounded_up(unit)
        };
        let hold = Amount::new(total.rounded_up(unit) - booked);
        let (inferred, late) = (Amount::new(not_late - open), booked - not_late);
        if !is_known {
            let unknown_order = Amount::new(open + late);
            return LegAmounts { hold, inferred, unknown_order, ..LegAmounts::default() };
        }
        let settled = open.min(self.covered.rounded_up(unit));
        LegAmounts {
            hold,
            settled: Amount::new(settled),
            over_settled: Amount::new(open - settled),
            late: Amount::new(late),
            inferred,
            unknown_order: Amount::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decimal(text: &str) -> Decimal {
        Decimal::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn products_are_exact_and_rounded_up_only_beyond_18_places() {
        let most = "999999999999999999";
        let least = "0.000000000000000001";
        let big = Some(99_999_999_999_999_999_900_000_000_000_000_000_000);
        for (quantity, price, multiplier, expected) in [
            ("100", "10.5", "1", Some(1_050_000_000_000_000_000_000)),
            ("100", "-10.5", "1", Some(1_050_000_000_000_000_000_000)),
            ("0.1", "0.01", "0.5", Some(500_000_000_000_000)),
            ("3", "0", "1", Some(0)),
            (least, least, "1", Some(1)),
            (least, least, least, Some(1)),
            (least, "2", "1", Some(2)),
            ("0.100000000000000001", "0.1", "1", Some(10_000_000_000_000_001)),
            (most, "100", "1", big),
            (most, "100000", "0.001", big),
            (most, "170.141183460469232", "1", None),
            (most, most, least, Some(999_999_999_999_999_998_000_000_000_000_000_001)),
            (most, most, "1", None),
            (most, most, most, None),
            ("-1", "1", "1", None),
        ] {
            let found = value(exact(decimal(quantity)), decimal(price), decimal(multiplier));
            assert_eq!(found, expected, "{quantity} x {price} x {multiplier}");
        }
    }

    #[test]
    fn the_bounds_of_each_unit_are_exact() {
        let units = [("USD", 1_000_000_000_000_i128), ("USDn", 1_000_000_000)];
        for (name, base) in units.into_iter().chain([("count", 1_000_000_000_000_000_000)]) {
            let unit = Unit::parse(name).unwrap();
            let both = |exact: i128| Exact { money: exact, quantity: exact };
            let most = i128::from(i64::MAX) * base;
            assert!(both(most).fits(unit) && !both(most + 1).fits(unit), "{name}");
            assert!(both(0).fits(unit) && !both(-1).fits(unit), "{name}");
            assert_eq!(both(most).rounded_up(unit), i64::MAX, "{name}");
            assert_eq!((both(1).rounded_up(unit), both(base).rounded_up(unit)), (1, 1), "{name}");
        }
    }

    proptest! {
        #[test]
        fn the_slow_road_agrees_with_the_fast_one(quantity in 0..1_u128 << 64, factor in 0..1_u128 << 63, places in 0_u32..=36) {
            let fast = (quantity * factor).div_ceil(10_u128.pow(places));
            prop_assert_eq!(wide_value(quantity, factor, places), Some(fast));
        }

        #[test]
        fn any_product_is_judged_without_a_panic(quantity: i128, price: i64, multiplier: i64, places in 0_u8..=18) {
            let price = Decimal::new(price, places).unwrap();
            let multiplier = Decimal::new(multiplier, 18 - places).unwrap();
            if let Some(found) = value(quantity, price, multiplier) {
                prop_assert!(found >= 0 && quantity >= 0);
            }
        }
    }
}
