//! Exact amounts: sums at 10^-18 of a unit, which are rounded once, when a budget's base units are read from them.

use fix::Decimal;
use money::{Scale, Unit};

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

    /// Returns what a budget of this unit counts.
    pub(crate) fn counted(self, unit: Unit) -> i128 {
        if unit == Unit::Count { self.quantity } else { self.money }
    }

    /// Does it fit into 64 bits of the unit's base units?
    pub(crate) fn fits(self, unit: Unit) -> bool {
        let exact = self.counted(unit);
        0 <= exact && exact <= bounds(unit).1
    }
}

/// Powers of ten, 10^0 to 10^36.
const POWERS: [u128; 37] = {
    let (mut powers, mut at) = ([1; 37], 1);
    while at < powers.len() {
        powers[at] = powers[at - 1] * 10;
        at += 1;
    }
    powers
};

/// Powers of ten, 10^0 to 10^18: their products with 64 bits are one instruction.
const SMALL_POWERS: [u64; 19] = {
    let (mut powers, mut at) = ([1; 19], 1);
    while at < powers.len() {
        powers[at] = powers[at - 1] * 10;
        at += 1;
    }
    powers
};

/// `num / den`, rounded up. One division of 128 bits, where `div_ceil` takes two.
fn ceiled(num: u128, den: u128) -> u128 {
    num.checked_add(den - 1).map_or_else(|| num.div_ceil(den), |sum| sum / den)
}

/// Returns how much is one base unit of the unit, and how much 64 bits of them are at most.
fn bounds(unit: Unit) -> (u64, i128) {
    const fn of(base: u64) -> (u64, i128) {
        (base, i64::MAX as i128 * base as i128)
    }
    match unit {
        Unit::Currency(_, Scale::Micros) => const { of(1_000_000_000_000) },
        Unit::Currency(_, Scale::Nanos) => const { of(1_000_000_000) },
        Unit::Count => const { of(1_000_000_000_000_000_000) },
    }
}

/// Returns what a budget counts in base units, rounded up: what is held and what is booked is never less than the exact amount. Only for
/// what [`Exact::fits`].
pub(crate) fn rounded_up(counted: i128, unit: Unit) -> i64 {
    // The bound of `fits` rounds to i64::MAX.
    i64::try_from(ceiled(counted.unsigned_abs(), u128::from(bounds(unit).0))).unwrap_or(i64::MAX)
}

/// Returns a decimal at 10^-18. It always fits: a mantissa has 63 bits, 10^18 has 60.
pub(crate) fn exact(decimal: Decimal) -> i128 {
    let power = SMALL_POWERS[usize::from(PLACES - decimal.places().min(PLACES))];
    i128::from(decimal.mantissa()) * i128::from(power)
}

/// Returns the decimal of a value at 10^-18, without zeros at its end; `None` where 64 bits do not hold its digits.
pub(crate) fn decimal(mut exact: i128) -> Option<Decimal> {
    let mut places = PLACES;
    while places > 0 && exact % 10 == 0 {
        (exact, places) = (exact / 10, places - 1);
    }
    Decimal::new(i64::try_from(exact).ok()?, places)
}

/// Returns `|quantity * price| * multiplier` at 10^-18, as [`value`] does; without a division where there are no more than 18 places.
pub(crate) fn product(quantity: Decimal, price: Decimal, multiplier: Decimal) -> Option<i128> {
    let places = quantity.places() + price.places() + multiplier.places();
    let Some(missing) = PLACES.checked_sub(places) else {
        return value(exact(quantity).checked_abs()?, price, multiplier);
    };
    // Below 2^126.
    let product = u128::from(quantity.mantissa().unsigned_abs())
        * u128::from(price.mantissa().unsigned_abs());
    let power = SMALL_POWERS[usize::from(missing)];
    let factor = u128::from(multiplier.mantissa().unsigned_abs()) * u128::from(power);
    let product = match (u64::try_from(product), u64::try_from(factor)) {
        (Ok(product), Ok(factor)) => u128::from(product) * u128::from(factor),
        _ => product.checked_mul(factor)?,
    };
    i128::try_from(product).ok()
}

/// Returns `quantity * |price| * multiplier` at 10^-18, where `quantity` is at 10^-18; places beyond are rounded up. `None` where it does
/// not fit. A negative price counts by its size: exposure is never negative.
pub(crate) fn value(quantity: i128, price: Decimal, multiplier: Decimal) -> Option<i128> {
    let quantity = u128::try_from(quantity).ok()?;
    // Below 2^126.
    let factor = u128::from(price.mantissa().unsigned_abs())
        * u128::from(multiplier.mantissa().unsigned_abs());
    let places = price.places() + multiplier.places();
    let value = match quantity.checked_mul(factor) {
        Some(product) => ceiled(product, POWERS[usize::from(places)]),
        None => wide_value(quantity, factor, u32::from(places))?,
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
            if quantity != "-1" {
                let found = product(decimal(quantity), decimal(price), decimal(multiplier));
                assert_eq!(found, expected, "{quantity} x {price} x {multiplier} at once");
            }
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
            assert_eq!(rounded_up(most, unit), i64::MAX, "{name}");
            assert_eq!((rounded_up(1, unit), rounded_up(base, unit)), (1, 1), "{name}");
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
