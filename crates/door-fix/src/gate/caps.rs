//! What a session may send in one order, whatever its budgets have left. Pure.
//!
//! | key | rule |
//! | --- | --- |
//! | `order_value_max` | SEC 15c3-5 (c)(1)(ii); RTS 6 article 15(1)(b) |
//! | `order_quantity_max` | SEC 15c3-5 (c)(1)(ii); RTS 6 article 15(1)(c) |
//! | `restricted` | SEC 15c3-5 (c)(2)(ii); RTS 6 article 15(5) |

use fix::{Decimal, Message};
use gate_orders::Size;

use super::limits::Denied;
use crate::report::text;

/// The caps of a session; the default has none.
#[derive(Clone, Debug, Default)]
pub struct Caps {
    /// The most that one order may cost, in its own currency.
    pub value_max: Option<Decimal>,
    /// The largest OrderQty (38).
    pub quantity_max: Option<Decimal>,
    /// Values of Symbol (55) and SecurityID (48) that the session may not trade.
    pub restricted: Vec<String>,
}

impl Caps {
    /// Judges a new order (D), or a replace (G) of an order with the symbol `known`, that may cost `size`.
    ///
    /// # Errors
    /// The cap that it is above, or that its instrument is restricted.
    pub(crate) fn judge(
        &self,
        message: &Message<'_>,
        known: &[u8],
        size: Option<Size>,
    ) -> Result<(), Denied> {
        if !self.restricted.is_empty() {
            let symbol = text(message, 55).or(Some(known).filter(|known| !known.is_empty()));
            if symbol.is_none() {
                let why = "Symbol (55): expected one, because some are restricted for this session";
                return Err(Denied::Restricted(why));
            }
            let named = [symbol, text(message, 48)];
            let is_named = |one: &String| named.contains(&Some(one.as_bytes()));
            if self.restricted.iter().any(is_named) {
                let why = "the instrument is restricted for this session";
                return Err(Denied::Restricted(why));
            }
        }
        let (quantity, factors) = match size {
            Some(Size::Quantity { quantity, price }) => (Some(quantity), Some([quantity, price])),
            Some(Size::Cash(amount)) => (None, Decimal::new(1, 0).map(|one| [amount, one])),
            None => (None, None),
        };
        let one = Decimal::new(1, 0);
        let is_above = |factors: Option<[Decimal; 2]>, max: Decimal| {
            factors.is_some_and(|[left, right]| is_above(left, right, max))
        };
        match (self.quantity_max, self.value_max) {
            (Some(max), _) if is_above(quantity.zip(one).map(<[_; 2]>::from), max) => {
                Err(Denied::Quantity(max))
            }
            (_, Some(max)) if is_above(factors, max) => Err(Denied::Value(max)),
            _ => Ok(()),
        }
    }
}

/// Reports whether a product is above a number. What is too large to be compared is.
fn is_above(left: Decimal, right: Decimal, max: Decimal) -> bool {
    let places = left.places() + right.places();
    // A negative price is as much exposure as a positive one.
    let product = (i128::from(left.mantissa()) * i128::from(right.mantissa())).abs();
    let common = places.max(max.places());
    let at = |number: i128, places: u8| {
        10_i128.checked_pow(u32::from(common - places)).and_then(|ten| number.checked_mul(ten))
    };
    match (at(product, places), at(max.mantissa().into(), max.places())) {
        (Some(product), Some(max)) => product > max,
        // The number that does not fit into 38 digits is the larger one.
        (product, _) => product.is_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_is_compared_exactly() {
        let number = |text: &str| Decimal::parse(text.as_bytes()).unwrap();
        for (left, right, max, expected) in [
            ("100", "10", "1000", false),
            ("100", "10.0000000001", "1000", true),
            ("0.1", "0.1", "0.01", false),
            ("999999999999999999", "999999999999999999", "999999999999999999", true),
            ("0.000000000000000001", "0.000000000000000001", "0", true),
            ("0.000000000000000001", "0.000000000000000001", "900000000000000000", false),
            ("900000000000000000", "900000000000000000", "0.000000000000000001", true),
            ("100", "-10.01", "1000", true),
        ] {
            let is = is_above(number(left), number(right), number(max));
            assert_eq!(is, expected, "{left} x {right} above {max}");
        }
    }
}
