//! Orders as money, from outside.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod laws;
mod model;
mod rules;

use fix::Decimal;
use gate_orders::{
    Amendment, Check, Event, ExecId, Execution, Leg, LegAmounts, Order, Size, Version,
};
use money::Unit;

fn decimal(text: &str) -> Decimal {
    Decimal::parse(text.as_bytes()).unwrap()
}

fn leg(budget: u64, unit: &str) -> Leg {
    Leg { budget, unit: Unit::parse(unit).unwrap() }
}

fn at(quantity: &str, price: &str) -> Size {
    Size::Quantity { quantity: decimal(quantity), price: decimal(price) }
}

fn version(number: u64, quantity: &str, price: &str) -> Version {
    Version { number, size: at(quantity, price) }
}

fn opened(quantity: &str, price: &str) -> Order {
    Order::open(&[leg(7, "USD")], decimal("1"), &version(1, quantity, price)).unwrap()
}

fn sums(quantity: &str, price: &str) -> Option<Check> {
    Some(Check { quantity: decimal(quantity), price: Some(decimal(price)) })
}

fn execution(id: u128, quantity: &str, price: &str) -> Execution {
    Execution { id: ExecId(id), quantity: decimal(quantity), price: decimal(price), check: None }
}

fn fill(id: u128, quantity: &str, price: &str) -> Event {
    Event::Executed(execution(id, quantity, price))
}

fn bust(id: u128, names: u128) -> Amendment {
    let (id, names) = (ExecId(id), ExecId(names));
    Amendment { id, names, at: 0, new: None, leaves: None, check: None }
}

fn correction(id: u128, names: u128, quantity: &str, price: &str) -> Amendment {
    Amendment { new: Some((decimal(quantity), decimal(price))), ..bust(id, names) }
}

fn bytes(order: &Order) -> Vec<u8> {
    let mut bytes = Vec::new();
    order.encode(&mut bytes);
    bytes
}

/// Hold, settled, over_settled, late, inferred, unknown_order.
fn lines(amounts: &LegAmounts) -> [i64; 6] {
    let LegAmounts { hold, settled, over_settled, late, inferred, unknown_order } = *amounts;
    [hold, settled, over_settled, late, inferred, unknown_order].map(money::Amount::get)
}

fn first_leg(order: &Order) -> LegAmounts {
    order.amounts().next().unwrap().1
}
