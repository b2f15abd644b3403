//! The price that an order is held at.

use fix::Decimal;

/// How many basis points are the whole.
const WHOLE_BP: i128 = 10_000;
/// The most digits of a [`Decimal`] behind the point.
const PLACES_MAX: u8 = 18;

/// What an order says of its price, and what is known of its symbol's. All prices are above 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pricing {
    /// It buys; else it sells.
    pub is_buy: bool,
    /// The worst price that it may be executed at (44); for a sale that is the lowest. `None`: at any.
    pub limit: Option<Decimal>,
    /// The price that triggers it (99).
    pub stop: Option<Decimal>,
    /// What its symbol costs.
    pub reference: Option<Decimal>,
    /// How far beyond the reference and the stop it may be executed, in basis points.
    pub collar_bp: u32,
    /// A sale is not held at its limit for want of a reference.
    pub sale_needs_reference: bool,
}

/// Why an order has no price to be held at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPrice {
    /// It may be executed at any price, and nobody knows what its symbol costs.
    Reference,
    /// The price has more than 18 digits before the point.
    Range,
}

impl Pricing {
    /// Returns the price that the order is held at: of a purchase its limit, if it has one. All else may be executed at the market: it is
    /// held at the higher of reference and stop with the collar on top, a sale at its limit where that is higher still.
    ///
    /// # Errors
    /// [`NoPrice`] says why there is none.
    pub fn price(&self) -> Result<Decimal, NoPrice> {
        if let Some(limit) = self.limit.filter(|_| self.is_buy) {
            return Ok(limit);
        }
        if self.reference.is_none() && (self.limit.is_none() || self.sale_needs_reference) {
            return Err(NoPrice::Reference);
        }
        let market = self.reference.max(self.stop);
        let market = market.map(|market| raised(market, self.collar_bp).ok_or(NoPrice::Range));
        self.limit.max(market.transpose()?).ok_or(NoPrice::Reference)
    }
}

/// Returns a price with so many basis points on top, rounded up to what a [`Decimal`] holds.
fn raised(price: Decimal, basis_points: u32) -> Option<Decimal> {
    let mut value = i128::from(price.mantissa()) * (WHOLE_BP + i128::from(basis_points));
    let mut places = price.places() + 4;
    while value % 10 == 0 && places > 0 {
        (value, places) = (value / 10, places - 1);
    }
    loop {
        match i64::try_from(value) {
            Ok(mantissa) if places <= PLACES_MAX => return Decimal::new(mantissa, places),
            _ => (value, places) = ((value + 9) / 10, places.checked_sub(1)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Option<Decimal> {
        (!text.is_empty()).then(|| Decimal::parse(text.as_bytes()).unwrap())
    }

    /// Side, limit, stop, reference; the price with a collar of 5 %, and where a sale needs a reference.
    #[test]
    fn each_kind_of_order_is_held_at_the_worst_price_that_it_may_have() {
        for (is_buy, [limit, stop, reference], expected, strict) in [
            // A purchase with a limit, and a stop limit.
            (true, ["10", "", ""], "10", "10"),
            (true, ["10", "", "100"], "10", "10"),
            (true, ["10", "11", "9"], "10", "10"),
            // One at the market, and a stop.
            (true, ["", "", "100"], "105", "105"),
            (true, ["", "", ""], "none", "none"),
            (true, ["", "120", "100"], "126", "126"),
            (true, ["", "80", "100"], "105", "105"),
            (true, ["", "120", ""], "none", "none"),
            // A sale: it may be executed above its limit.
            (false, ["1", "", "100"], "105", "105"),
            (false, ["110", "", "100"], "110", "110"),
            (false, ["1", "", ""], "1", "none"),
            (false, ["", "", "100"], "105", "105"),
            (false, ["", "", ""], "none", "none"),
            (false, ["", "90", "100"], "105", "105"),
            (false, ["", "90", ""], "none", "none"),
            // A stop limit is triggered no higher than at its stop.
            (false, ["80", "90", ""], "94.5", "none"),
            (false, ["80", "90", "100"], "105", "105"),
        ] {
            for (sale_needs_reference, expected) in [(false, expected), (true, strict)] {
                let [limit, stop, reference] = [limit, stop, reference].map(decimal);
                let pricing = Pricing {
                    is_buy,
                    limit,
                    stop,
                    reference,
                    collar_bp: 500,
                    sale_needs_reference,
                };
                let found = pricing.price().map_or("none".into(), |price| price.to_string());
                assert_eq!(found, expected, "{pricing:?}");
            }
        }
    }

    #[test]
    fn a_collar_rounds_up_and_what_no_decimal_holds_is_no_price() {
        let most = "999999999999999999";
        let least = "0.000000000000000001";
        for (price, basis_points, expected) in [
            ("100", 0, "100"),
            ("100", 1, "100.01"),
            ("0.01", 333, "0.010333"),
            (least, 0, least),
            (least, 1, "0.000000000000000002"),
            ("0.100000000000000001", 1, "0.100010000000000002"),
            (most, 0, most),
            (most, 10_000, "1999999999999999998"),
            (most, 100_000, "none"),
        ] {
            let found = raised(decimal(price).unwrap(), basis_points);
            let found = found.map_or("none".into(), |price| price.to_string());
            assert_eq!(found, expected, "{price} + {basis_points} bp");
        }
    }
}
