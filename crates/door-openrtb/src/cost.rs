//! What an impression costs.

use ledger::Amount;

/// One, in millionths.
pub(super) const MULTIPLIER_ONE: i64 = 1_000_000;
/// A multiplier of a thousand million people: more is a mistake.
const MULTIPLIER_MAX: i64 = 1_000_000_000 * MULTIPLIER_ONE;

/// What one impression costs at `price_micros` for a thousand, seen by `multiplier_micros` / 1,000,000 people: rounded
/// up to whole micros, so that a budget is never charged less than the sum of its impressions. `None` beyond what may
/// be asked for, and below 1 micro's beginning.
#[inline]
pub(super) fn cost(price_micros: i64, multiplier_micros: i64) -> Option<Amount> {
    if price_micros <= 0 || !(1..=MULTIPLIER_MAX).contains(&multiplier_micros) {
        return None;
    }
    if multiplier_micros == MULTIPLIER_ONE {
        return ask(price_micros.checked_add(999)? / 1_000);
    }
    let product =
        u128::from(price_micros.unsigned_abs()) * u128::from(multiplier_micros.unsigned_abs());
    ask(i64::try_from(product.div_ceil(1_000 * u128::from(MULTIPLIER_ONE.unsigned_abs()))).ok()?)
}

fn ask(micros: i64) -> Option<Amount> {
    Some(Amount::new(micros)).filter(|amount| amount.is_ask())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn costs_by_table() {
        let micros = |price, multiplier| cost(price, multiplier).map(Amount::get);
        assert_eq!(micros(2_500_000, MULTIPLIER_ONE), Some(2_500));
        assert_eq!(micros(1, MULTIPLIER_ONE), Some(1));
        assert_eq!(micros(1_001, MULTIPLIER_ONE), Some(2));
        assert_eq!(micros(2_500_000, 12_500_000), Some(31_250));
        assert_eq!(micros(1, 1), Some(1));
        for (price, multiplier) in [(0, MULTIPLIER_ONE), (-1, MULTIPLIER_ONE), (1, 0), (1, -5)] {
            assert_eq!(micros(price, multiplier), None);
        }
        assert_eq!(micros(i64::MAX, MULTIPLIER_ONE), None);
        assert_eq!(micros(1_000_000_000_000, MULTIPLIER_MAX), None);
    }

    proptest! {
        #[test]
        fn both_ways_agree(price in 1_i64..1_000_000_000_000) {
            let general = (i128::from(price) * 1_000_000 + 999_999_999) / 1_000_000_000;
            prop_assert_eq!(cost(price, MULTIPLIER_ONE).map(|a| i128::from(a.get())), Some(general));
        }

        #[test]
        fn never_less_than_the_price(price in 1_i64..1_000_000_000, multiplier in 1_i64..1_000_000_000) {
            let exact = i128::from(price) * i128::from(multiplier);
            let cost = i128::from(cost(price, multiplier).unwrap().get()) * 1_000_000_000;
            prop_assert!(exact <= cost && cost < exact + 1_000_000_000);
        }
    }
}
