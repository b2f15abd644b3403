//! What symbols cost: as the file of reference prices says, else as they were executed last.

use std::collections::HashMap;
use std::sync::Arc;

use fix::{Decimal, Message};
use gate_orders::{Leg, NoPrice, Pricing, Refusal, Size};
use money::Unit;
use weir_budgets::orders::Side;
use weir_budgets::prices::Prices;

use crate::gate::caps::Caps;
use crate::gate::limits::Denied;
use crate::report::{self, decimal, text};

/// Symbols whose last execution is known at most; then all are forgotten.
const FILLS_MAX: usize = 65_536;

/// How prices are used.
#[derive(Clone, Copy, Debug)]
pub struct PriceTerms {
    /// How far beyond its reference price an order without a limit may be executed, in basis points.
    pub collar_bp: u32,
    /// How long a price counts that has a time, ms.
    pub max_age_ms: i64,
}

impl Default for PriceTerms {
    fn default() -> PriceTerms {
        PriceTerms { collar_bp: 500, max_age_ms: 3_600_000 }
    }
}

/// All that is known of prices. What was executed is not kept: after a start it is unknown.
#[derive(Debug, Default)]
pub(crate) struct References {
    pub(crate) terms: PriceTerms,
    pub(crate) file: Arc<Prices>,
    fills: HashMap<Box<[u8]>, Fill>,
}

/// The last execution of a symbol.
#[derive(Clone, Copy, Debug)]
struct Fill {
    price: Decimal,
    unix_ms: i64,
    /// Currency (15), where the report said it.
    currency: Option<[u8; 3]>,
}

impl References {
    /// Notes what a report (8) says of its symbol's price. One that takes an execution back, or corrects it, leaves no price.
    pub(crate) fn note(&mut self, message: &Message<'_>, now_ms: i64) {
        let Some(symbol) = text(message, 55).filter(|_| message.msg_type() == b"8") else { return };
        match report::kind(message) {
            b"F" => {}
            b"G" | b"H" => {
                self.fills.remove(symbol);
                return;
            }
            _ => return,
        }
        let is_some = |number: &Decimal| number.mantissa() > 0;
        let (quantity, price) = (decimal(message, 32), decimal(message, 31).filter(is_some));
        let Some(price) = price.filter(|_| quantity.as_ref().is_some_and(is_some)) else { return };
        let unix_ms = report::unix_ms(message).min(now_ms);
        let currency = text(message, 15).and_then(|code| code.try_into().ok());
        let fill = Fill { price, unix_ms, currency };
        match self.fills.get_mut(symbol) {
            Some(before) if before.unix_ms > unix_ms => {}
            Some(before) => *before = fill,
            None => {
                if self.fills.len() >= FILLS_MAX {
                    self.fills.clear();
                }
                self.fills.insert(symbol.into(), fill);
            }
        }
    }

    /// Returns what a symbol costs in a currency.
    fn of(&self, symbol: &[u8], currency: &[u8], now_ms: i64) -> Option<Decimal> {
        let is_young = |unix_ms: i64| now_ms.saturating_sub(unix_ms) <= self.terms.max_age_ms;
        let said = self.file.get(symbol).filter(|said| {
            let at = said.at.map(|at| i64::try_from(at.ms()).unwrap_or(i64::MAX));
            at.is_none_or(is_young)
        });
        let fits = |fill: &&Fill| fill.currency.is_none_or(|own| own == currency);
        let fill = || self.fills.get(symbol).filter(fits).filter(|fill| is_young(fill.unix_ms));
        said.map(|said| said.price).or_else(|| fill().map(|fill| fill.price))
    }
}

/// What prices an order.
#[derive(Clone, Copy)]
pub(crate) struct Quote<'q> {
    pub(crate) references: &'q References,
    pub(crate) now_ms: i64,
    /// The session's sales need a reference.
    pub(crate) refuses_sales: bool,
    /// What one order of the session may be.
    pub(crate) caps: Option<&'q Caps>,
}

impl Quote<'_> {
    /// Returns how much of an order of a symbol may be executed, at the price that it is held at.
    ///
    /// # Errors
    /// Why that cannot be told.
    pub(crate) fn size(
        &self,
        message: &Message<'_>,
        (side, symbol, legs): (Side, &[u8], &[Leg]),
    ) -> Result<Size, Denied> {
        let number = |tag, why| decimal(message, tag).ok_or(Denied::Unpriced(why));
        let money = legs.iter().find_map(|leg| match leg.unit {
            Unit::Currency(code, _) => Some(code),
            _ => None,
        });
        let is_valued = money.is_some() || self.caps.is_some_and(|caps| caps.value_max.is_some());
        // A stop limit may be triggered at any time.
        let (has_limit, has_stop) = match text(message, 40) {
            Some(b"2" | b"B") => (true, false),
            Some(b"4") => (true, true),
            Some(b"3") => (false, true),
            Some(b"1" | b"5" | b"K") => (false, false),
            _ => {
                return Err(Denied::Unpriced(
                    "OrdType (40): expected 1, 2, 3, 4, 5, B or K with limits",
                ));
            }
        };
        let limit = has_limit.then(|| number(44, "Price (44): expected a number")).transpose()?;
        let stop = has_stop.then(|| number(99, "StopPx (99): expected a number")).transpose()?;
        let unfit = [limit, stop].into_iter().flatten().find(|price| price.mantissa() <= 0);
        if let Some(price) = unfit.filter(|_| is_valued) {
            return Err(Denied::Order(Refusal::Price(price)));
        }
        let quantity = match (text(message, 38), text(message, 152)) {
            (Some(_), Some(_)) => {
                let why = "OrderQty (38) and CashOrderQty (152): expected one of them";
                return Err(Denied::Unpriced(why));
            }
            (None, Some(_)) if self.caps.is_some_and(|caps| caps.quantity_max.is_some()) => {
                let why =
                    "CashOrderQty (152): expected OrderQty (38), because order_quantity_max is set";
                return Err(Denied::Unpriced(why));
            }
            (None, Some(_)) => {
                return number(152, "CashOrderQty (152): expected a number").map(Size::Cash);
            }
            _ => number(38, "OrderQty (38): expected a number")?,
        };
        if !is_valued {
            let price = limit.filter(|limit| limit.mantissa() >= 0).unwrap_or_default();
            return Ok(Size::Quantity { quantity, price });
        }
        let currency =
            money.as_ref().map_or(text(message, 15), |code| Some(code.as_str().as_bytes()));
        let pricing = Pricing {
            is_buy: side == Side::Buy,
            limit,
            stop,
            reference: self.references.of(symbol, currency.unwrap_or_default(), self.now_ms),
            collar_bp: self.references.terms.collar_bp,
            sale_needs_reference: self.refuses_sales,
        };
        let price = pricing.price().map_err(|none| match none {
            NoPrice::Reference => Denied::NoReference,
            NoPrice::Range => Denied::Order(Refusal::Range),
        })?;
        Ok(Size::Quantity { quantity, price })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a session's caps count is known also where no budget counts money.
    #[test]
    fn an_order_without_money_has_a_price_where_its_session_caps_values() {
        let file = b"{\"symbol\":\"Y\",\"price\":\"10\"}\n";
        let file = Arc::new(Prices::of("p.jsonl".as_ref(), file).unwrap());
        let references = References { file, ..References::default() };
        let legs = [Leg { budget: 1, unit: Unit::Count }];
        let ten = Decimal::new(10, 0);
        for (fields, value_max, quantity_max, expected) in [
            ("38=4|40=1|55=N|", None, None, "4 at 0"),
            ("38=4|40=2|44=-3|55=N|", None, None, "4 at 0"),
            ("38=4|40=1|55=Y|", ten, None, "4 at 10.5"),
            ("38=4|40=1|55=N|", ten, None, "no reference price"),
            ("38=4|40=2|44=-3|55=Y|", ten, None, "price -3: expected more than 0"),
            ("152=4|40=1|55=Y|", ten, None, "4"),
            ("152=4|40=1|55=Y|", None, ten, "CashOrderQty (152): expected OrderQty (38)"),
        ] {
            let body = format!("35=D|54=1|{fields}").replace('|', "\x01");
            let mut bytes = format!("8=FIX.4.4\x019={}\x01{body}", body.len()).into_bytes();
            bytes.extend_from_slice(format!("10={:03}\x01", fix::sum(&bytes)).as_bytes());
            let fix::Framing::Whole(frame) = fix::frame(&bytes, 65_536) else { panic!("{fields}") };
            let mut index = fix::Index::new(64);
            let message = index.read(frame).unwrap();
            let caps = Caps { value_max, quantity_max, ..Caps::default() };
            let caps = Some(&caps);
            let quote = Quote { references: &references, now_ms: 0, refuses_sales: false, caps };
            let symbol = text(&message, 55).unwrap();
            let found = match quote.size(&message, (Side::Buy, symbol, &legs)) {
                Ok(Size::Quantity { quantity, price }) => format!("{quantity} at {price}"),
                Ok(Size::Cash(amount)) => amount.to_string(),
                Err(denied) => denied.to_string(),
            };
            assert!(found.starts_with(expected), "{fields}: {found}");
        }
    }
}
