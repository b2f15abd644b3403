//! What an impression costs.

use ledger::Amount;
use weir_budgets::campaign_index::PinnedRate;

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

/// The same in the currency of the budget, rounded up once. `rate` is what one unit of that is worth in the bid's.
#[inline]
pub(super) fn charged(
    price_micros: i64,
    multiplier_micros: i64,
    rate: PinnedRate,
) -> Option<Amount> {
    let cost = cost(price_micros, multiplier_micros)?;
    if rate == PinnedRate::ONE {
        return Some(cost);
    }
    let product =
        u128::from(price_micros.unsigned_abs()) * u128::from(multiplier_micros.unsigned_abs());
    let one = u128::from(PinnedRate::ONE.micros());
    ask(i64::try_from(product.checked_mul(one)?.div_ceil(1_000 * one * u128::from(rate.micros())))
        .ok()?)
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

    #[test]
    fn an_impression_in_another_currency_is_rounded_up_once() {
        let charged = |price, rate| {
            let rate = PinnedRate::from_micros(rate).unwrap();
            charged(price, MULTIPLIER_ONE, rate).map(Amount::get)
        };
        // 0.018181 EUR for a thousand, of a budget in USD, 0.90909 EUR each.
        assert_eq!(charged(18_181, 909_090), Some(20));
        // 1 EUR is 1.0834 USD: 100 USD are 92.302012 EUR and a little more.
        assert_eq!(charged(100_000_000_000, 1_083_400), Some(92_302_013));
        assert_eq!(charged(1, 2_000_000), Some(1));
        assert_eq!(charged(4_000_000, 2_000_000), Some(2_000));
        assert_eq!(charged(i64::MAX, 1), None);
    }

    proptest! {
        #[test]
        fn both_ways_agree(price in 1_i64..1_000_000_000_000) {
            let general = (i128::from(price) * 1_000_000 + 999_999_999) / 1_000_000_000;
            prop_assert_eq!(cost(price, MULTIPLIER_ONE).map(|a| i128::from(a.get())), Some(general));
        }

        /// A price that is not above the one that was sent never books more than was set aside.
        #[test]
        fn spend_stays_within_the_reservation(
            micros in 1_u32.., sent in 1_i64..1_000_000_000_000, paid in 1_i64..1_000_000_000_000,
            multiplier in 1_i64..100_000_000,
        ) {
            let (low, high) = (sent.min(paid), sent.max(paid));
            let rate = PinnedRate::from_micros(micros).unwrap();
            if let Some(held) = charged(high, multiplier, rate) {
                prop_assert!(charged(low, multiplier, rate).unwrap() <= held);
                // And what is held is worth at least what is paid, by less than a micro.
                let worth = |held: i64| i128::from(held) * i128::from(micros) * 1_000;
                let paid = i128::from(high) * i128::from(multiplier);
                prop_assert!(worth(held.get()) >= paid && worth(held.get() - 1) < paid);
            }
        }

        #[test]
        fn never_less_than_the_price(price in 1_i64..1_000_000_000, multiplier in 1_i64..1_000_000_000) {
            let exact = i128::from(price) * i128::from(multiplier);
            let cost = i128::from(cost(price, multiplier).unwrap().get()) * 1_000_000_000;
            prop_assert!(exact <= cost && cost < exact + 1_000_000_000);
        }
    }
}
