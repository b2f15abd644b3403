//! Prices, and the price that is sent.

use money::CurrencyCode;

/// A modifier of 10,000 changes nothing.
pub const MODIFIER_ONE: u32 = 10_000;
/// The largest modifier: a hundredfold.
pub const MODIFIER_MAX: u32 = 1_000_000;

/// A CPM price, millionths of the index's currency for a thousand impressions; 0 to [`Price::MAX`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Price(i64);

impl Price {
    /// The highest: a million of the currency for a thousand impressions.
    pub const MAX: Price = Price(1_000_000_000_000);
    /// Nothing.
    pub const ZERO: Price = Price(0);
    /// What a second price lies above the runner-up.
    pub const STEP: Price = Price(1);

    /// A price; `None` below 0 or above [`Price::MAX`].
    #[inline]
    #[must_use]
    pub const fn from_micros(micros: i64) -> Option<Price> {
        if 0 <= micros && micros <= Price::MAX.0 { Some(Price(micros)) } else { None }
    }

    /// Millionths of the currency.
    #[inline]
    #[must_use]
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// The price times `modifier` / 10,000, rounded down, at most [`Price::MAX`]. A modifier above [`MODIFIER_MAX`]
    /// counts as that.
    #[inline]
    #[must_use]
    pub fn scaled(self, modifier: u32) -> Price {
        // At most 10^12 times 10^6: this fits 63 bits.
        let product = self.0 * i64::from(modifier.min(MODIFIER_MAX));
        Price(product / i64::from(MODIFIER_ONE)).min(Price::MAX)
    }

    fn plus(self, other: Price) -> Price {
        Price(self.0 + other.0).min(Price::MAX)
    }
}

/// What one unit of another currency is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conversion {
    /// The other currency.
    pub from: CurrencyCode,
    /// Millionths of the index's currency for one unit of the other.
    pub micros_per_unit: i64,
}

/// A floor as the request says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Floor {
    /// Millionths of the currency; below 0 counts as 0.
    pub micros: i64,
    /// The floor's own currency; a deal's does not inherit from the impression's.
    pub currency: CurrencyCode,
}

impl Floor {
    /// The floor in the index's currency, rounded up so that it is met also before rounding. `None` where no rate is
    /// known or where no price can reach it.
    pub(crate) fn in_currency(self, to: CurrencyCode, rates: &[Conversion]) -> Option<Price> {
        let micros = self.micros.max(0);
        if self.currency == to {
            return Price::from_micros(micros);
        }
        let rate = rates.iter().find(|rate| rate.from == self.currency)?;
        let rate = u128::try_from(rate.micros_per_unit).ok().filter(|rate| *rate > 0)?;
        let converted = (u128::from(micros.unsigned_abs()) * rate).div_ceil(1_000_000);
        Price::from_micros(i64::try_from(converted).ok()?)
    }
}

/// The kind of auction, OpenRTB's `at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PriceRule {
    /// 1: who wins pays the bid.
    First,
    /// 2, and what exchanges define themselves: who wins pays what the next one bid, and a little.
    SecondPlus,
    /// 3, for deals: the floor is the price.
    Fixed,
}

/// What orders the offers of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rank {
    /// The bid.
    #[default]
    Bid,
    /// The value times the third power of the bid. Where the chance to win rises with about that power it is the expected value: the
    /// bid alone prefers campaigns that pacing holds back least, whatever the impression is worth to them. It takes the values of
    /// all campaigns for comparable.
    Value,
}

impl Rank {
    /// What is larger the better an offer is: of what the impression is worth to a campaign, and of its bid, at most that, in the same
    /// unit. It never falls where either rises. Below 0 counts as 0.
    #[must_use]
    #[inline]
    pub fn score(self, value: i64, bid: i64) -> u64 {
        let (value, bid) = (value.max(0), bid.max(0));
        match self {
            Rank::Bid => bid.unsigned_abs(),
            // Products are rounded alike everywhere, and the bits of floats from 0 on rise with them.
            Rank::Value => (real(value) * real(bid) * real(bid) * real(bid)).to_bits(),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "exact up to 2^53; a score only orders")]
fn real(amount: i64) -> f64 {
    amount as f64
}

/// Which price is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pricing {
    /// The bid: in a second-price auction it is the exchange that finds the price.
    #[default]
    First,
    /// The second price of our own campaigns, where they are the only bidders.
    Second,
    /// As the request's or the deal's `at` says.
    ByAt,
}

impl Pricing {
    /// What counts, given what the request says. A fixed price is fixed under every configuration.
    pub(crate) fn kind(self, at: PriceRule) -> PriceRule {
        match (self, at) {
            (_, PriceRule::Fixed) | (Pricing::ByAt, _) => at,
            (Pricing::First, _) => PriceRule::First,
            (Pricing::Second, _) => PriceRule::SecondPlus,
        }
    }
}

/// The price to send: never below `floor`, never above `bid`. `bid` must have met the floor.
#[must_use]
pub fn price_to_send(at: PriceRule, bid: Price, runner_up: Option<Price>, floor: Price) -> Price {
    match at {
        PriceRule::First => bid,
        PriceRule::Fixed => floor.min(bid),
        PriceRule::SecondPlus => second_price(bid, runner_up, floor, Price::STEP),
    }
}

/// What the next one bid and the increment, at least the floor, at most the bid.
fn second_price(bid: Price, runner_up: Option<Price>, floor: Price, increment: Price) -> Price {
    runner_up.map_or(floor, |other| other.plus(increment)).max(floor).min(bid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn price(micros: i64) -> Price {
        Price::from_micros(micros).unwrap()
    }

    fn code(letters: &str) -> CurrencyCode {
        CurrencyCode::new(letters).unwrap()
    }

    #[test]
    fn second_price_by_table() {
        // bid, runner-up, floor, price
        let table = [
            (100, None, 10, 10),
            (100, Some(50), 10, 51),
            (100, Some(5), 10, 10),
            (100, Some(99), 10, 100),
            (100, Some(100), 10, 100),
            (100, None, 100, 100),
            (0, None, 0, 0),
        ];
        for (bid, runner_up, floor, expected) in table {
            let sent = price_to_send(
                PriceRule::SecondPlus,
                price(bid),
                runner_up.map(price),
                price(floor),
            );
            assert_eq!(sent, price(expected), "{bid} {runner_up:?} {floor}");
        }
        assert_eq!(price_to_send(PriceRule::First, price(7), Some(price(3)), price(1)), price(7));
        assert_eq!(price_to_send(PriceRule::Fixed, price(7), Some(price(6)), price(2)), price(2));
    }

    #[test]
    fn modifiers_round_down_and_end_at_the_maximum() {
        assert_eq!(price(1_001).scaled(5_000), price(500));
        assert_eq!(price(1_001).scaled(MODIFIER_ONE), price(1_001));
        assert_eq!(Price::MAX.scaled(u32::MAX), Price::MAX);
        assert_eq!(price(1).scaled(9_999), Price::ZERO);
        assert_eq!((Price::from_micros(-1), Price::from_micros(i64::MAX)), (None, None));
    }

    #[test]
    fn floors_are_converted_upwards_or_not_met() {
        let (usd, eur) = (code("USD"), code("EUR"));
        let rates = [Conversion { from: eur, micros_per_unit: 1_100_001 }];
        let floor = |micros, currency| Floor { micros, currency }.in_currency(usd, &rates);
        assert_eq!(floor(3, usd), Some(price(3)));
        assert_eq!(floor(-3, usd), Some(Price::ZERO));
        assert_eq!(floor(1_000_000, eur), Some(price(1_100_001)));
        assert_eq!(floor(1, eur), Some(price(2)));
        assert_eq!(floor(1, code("JPY")), None);
        assert_eq!((floor(i64::MAX, eur), floor(i64::MAX, usd)), (None, None));
        let broken = [Conversion { from: eur, micros_per_unit: -5 }];
        assert_eq!(Floor { micros: 1, currency: eur }.in_currency(usd, &broken), None);
    }

    /// What a bidder gains that wins whenever it bids above `other`, and at `other` if it is lucky.
    #[derive(Clone, Copy, Debug)]
    struct Game {
        value: i64,
        other: i64,
        floor: i64,
        lucky: bool,
    }

    impl Game {
        fn gain(self, bid: i64, increment: i64) -> i64 {
            let Game { value, other, floor, lucky } = self;
            let wins = bid >= floor && (bid > other || (bid == other && lucky));
            let other = (other >= floor).then(|| price(other));
            let paid = second_price(price(bid), other, price(floor), price(increment));
            if wins { value - paid.micros() } else { 0 }
        }
    }

    fn game() -> impl Strategy<Value = Game> {
        let make = |(value, other, floor, lucky)| Game { value, other, floor, lucky };
        (0_i64..20, 0_i64..20, 0_i64..20, any::<bool>()).prop_map(make)
    }

    proptest! {
        #[test]
        fn no_increment_lifts_a_price_above_the_bid(
            bid in 0_i64..50, below in 0_i64..50, other: Option<u8>,
            increment in prop_oneof![0_i64..50, Just(Price::MAX.micros())],
        ) {
            let (bid, floor) = (price(bid), price((bid - below).max(0)));
            let other = other.map(|other| price(i64::from(other % 50)).min(bid));
            let sent = second_price(bid, other, floor, price(increment));
            prop_assert!(floor <= sent && sent <= bid);
        }

        #[test]
        fn truth_is_best_without_an_increment(game in game(), lie in 0_i64..20) {
            prop_assert!(game.gain(game.value, 0) >= game.gain(lie, 0));
        }

        #[test]
        fn an_increment_costs_the_truthful_no_more_than_itself(
            game in game(), lie in 0_i64..20, increment in 0_i64..20,
        ) {
            let truth = game.gain(game.value, increment);
            prop_assert!(truth >= game.gain(lie, increment) - increment);
        }
    }

    #[test]
    fn with_an_increment_a_lie_can_gain() {
        let game = Game { value: 6, other: 4, floor: 0, lucky: false };
        assert_eq!((game.gain(6, 2), game.gain(5, 2)), (0, 1));
    }
}
