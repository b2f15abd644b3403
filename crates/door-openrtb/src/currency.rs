//! The currency of a request's bids. The auction is in ours; where `cur` does not take that, its prices are converted at
//! the operator's rates as they are held, noted and sent, so that all three say the same.

use gate_auction::Price;
use money::CurrencyCode;
use weir_budgets::campaign_index::PinnedRate;

/// A converted rate of fewer millionths is too coarse: it could be wrong by more than a thousandth.
const RATE_MIN: u32 = 1_000;

/// What the bids of one request are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BidCurrency {
    code: CurrencyCode,
    /// What one unit is worth in ours.
    rate: PinnedRate,
}

impl BidCurrency {
    /// Ours.
    pub(crate) fn own(code: CurrencyCode) -> BidCurrency {
        BidCurrency { code, rate: PinnedRate::ONE }
    }

    /// Another one, and what one unit of it is worth in ours.
    pub(crate) fn other(code: CurrencyCode, rate: PinnedRate) -> BidCurrency {
        BidCurrency { code, rate }
    }

    /// Its code.
    pub(crate) fn code(self) -> CurrencyCode {
        self.code
    }

    /// A price in ours as it is sent: rounded down, but never below the floor that it met.
    #[inline]
    pub(crate) fn price_micros(self, price: Price, floor: Price) -> i64 {
        if self.rate == PinnedRate::ONE {
            return price.micros();
        }
        let converted = self.converted(price);
        let down = converted / i128::from(self.rate.micros());
        i64::try_from(down).map_or(i64::MAX, |down| down.max(self.floor_micros(floor)))
    }

    /// A floor in ours, rounded up.
    #[inline]
    pub(crate) fn floor_micros(self, floor: Price) -> i64 {
        if self.rate == PinnedRate::ONE {
            return floor.micros();
        }
        let rate = i128::from(self.rate.micros());
        i64::try_from((self.converted(floor) + rate - 1) / rate).unwrap_or(i64::MAX)
    }

    fn converted(self, price: Price) -> i128 {
        i128::from(price.micros()) * i128::from(PinnedRate::ONE.micros())
    }

    /// What one unit of a budget's currency is worth in this one, where `budget` is what it is worth in ours; rounded down,
    /// so that no cost comes out too small. `None` where that is too coarse.
    #[inline]
    pub(crate) fn rate(self, budget: PinnedRate) -> Option<PinnedRate> {
        if self.rate == PinnedRate::ONE {
            return Some(budget);
        }
        let one = u64::from(PinnedRate::ONE.micros());
        let micros = u64::from(budget.micros()) * one / u64::from(self.rate.micros());
        let micros = u32::try_from(micros).ok().filter(|micros| *micros >= RATE_MIN)?;
        PinnedRate::from_micros(micros)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn other(micros: u32) -> BidCurrency {
        let code = CurrencyCode::new("EUR").unwrap();
        BidCurrency::other(code, PinnedRate::from_micros(micros).unwrap())
    }

    fn price(micros: i64) -> Price {
        Price::from_micros(micros).unwrap()
    }

    #[test]
    fn prices_by_table() {
        let eur = other(1_083_400);
        assert_eq!(eur.price_micros(price(2_000_000), Price::ZERO), 1_846_040);
        assert_eq!(eur.price_micros(price(2_000_000), price(2_000_000)), 1_846_041, "the floor");
        assert_eq!(eur.floor_micros(price(1_083_400)), 1_000_000);
        assert_eq!(eur.rate(PinnedRate::ONE), PinnedRate::from_micros(923_020));
        assert_eq!(eur.rate(eur.rate), Some(PinnedRate::ONE), "a budget in euros");
        assert_eq!(other(4_000_000_000).rate(PinnedRate::ONE), None, "250 millionths");
        assert_eq!(other(1).rate(PinnedRate::ONE), None, "more than a rate can be");
        let own = BidCurrency::own(CurrencyCode::new("USD").unwrap());
        assert_eq!(own.price_micros(price(7), price(9)), 7);
        assert_eq!(own.rate(eur.rate), Some(eur.rate));
    }

    proptest! {
        /// Sent back into ours a price meets its floor, and is above the bid only by the rounding of the floor.
        #[test]
        fn a_converted_price_lies_between_floor_and_bid(
            rate in 1_u32.., floor in 0_i64..1_000_000_000, above in 0_i64..1_000_000_000,
        ) {
            let bid = floor + above;
            let sent = other(rate).price_micros(price(bid), price(floor));
            let worth = |sent: i64| i128::from(sent) * i128::from(rate);
            prop_assert!(worth(sent) >= i128::from(floor) * 1_000_000);
            prop_assert!(worth(sent - 1) < i128::from(bid.max(1)) * 1_000_000);
        }

        /// A cost in the bid's currency is at least as much in the budget's as by way of ours.
        #[test]
        fn a_converted_cost_is_never_too_small(
            rate in 1_000_u32..4_000_000_000, budget in 1_000_u32..4_000_000_000, cost in 1_i64..1_000_000_000,
        ) {
            let budget = PinnedRate::from_micros(budget).unwrap();
            if let Some(pinned) = other(rate).rate(budget) {
                let charged = super::super::cost::charged(cost * 1_000, 1_000_000, pinned);
                let Some(charged) = charged else { return Ok(()) };
                let exact = i128::from(cost) * i128::from(rate);
                let charged = i128::from(charged.get()) * i128::from(budget.micros());
                prop_assert!(charged >= exact);
                // At most a thousandth more, and what rounding up adds.
                let most = exact + exact / 1_000 + 2 * i128::from(budget.micros()) + i128::from(rate);
                prop_assert!(charged <= most, "{charged} > {most}");
            }
        }
    }
}
