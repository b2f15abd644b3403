//! What an order's events cost: `cargo run --release -p gate-orders --example cost`.
//!
//! Prints nanoseconds per event, alone and with the amounts of two legs read after it, over many orders in turn, so that none of them is in the
//! nearest cache: the best of several rounds, because machines are shared. And what an order takes of memory.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "it prints figures")]

use std::hint::black_box;
use std::time::Instant;

use fix::Decimal;
use gate_orders::{Amendment, Check, Event, ExecId, Execution, Leg, Order, Size, Version};
use money::Unit;

const ORDERS: usize = 4_096;
const ROUNDS: usize = 20;

fn decimal(text: &str) -> Decimal {
    Decimal::parse(text.as_bytes()).unwrap()
}

fn size(quantity: &str, price: &str) -> Size {
    Size::Quantity { quantity: decimal(quantity), price: decimal(price) }
}

fn orders(legs: &[Leg]) -> Vec<Order> {
    let first = Version { number: 1, size: size("100000", "101.25") };
    (0..ORDERS).map(|_| Order::open(legs, decimal("1"), &first).unwrap()).collect()
}

fn main() {
    let leg = |budget, unit| Leg { budget, unit: Unit::parse(unit).unwrap() };
    let legs = [leg(1, "USD"), leg(2, "count")];
    let fill = |id: u32| {
        let (quantity, price) = (decimal("100"), decimal("101.2375"));
        let check = Some(Check { quantity: decimal("100"), price: Some(price) });
        Event::Executed(Execution { id: ExecId(u128::from(id) << 64), quantity, price, check })
    };
    let bust = |id: u32| {
        let (own, names) = (ExecId(u128::from(id) << 64 | 1), ExecId(u128::from(id) << 64));
        let (new, leaves, check) = (None, None, None);
        Event::Amended(Amendment { id: own, names, at: u64::from(id), new, leaves, check })
    };
    let sent = Version { number: 2, size: size("100000", "101.5") };
    let repeated = |event: &dyn Fn(u32) -> Event, many: u32| (0..many).map(event).collect();
    let rows: [(&str, Vec<Event>); 5] = [
        ("8 fills", repeated(&fill, 8)),
        ("500 fills", repeated(&fill, 500)),
        ("a fill, repeated", vec![fill(0); 8]),
        ("a fill and its bust", vec![fill(0), bust(0)]),
        ("a replace, accepted", vec![Event::Sent(sent), Event::Accepted { number: 2, size: None }]),
    ];
    for (name, events) in rows {
        let best = [false, true].map(|reads| {
            let best = (0..ROUNDS).map(|_| round(orders(&legs), &events, reads)).min().unwrap();
            best * 10 / (ORDERS as u128 * events.len() as u128)
        });
        let [event, read] = best.map(|tenths| format!("{}.{}", tenths / 10, tenths % 10));
        println!("{name:20} {event:>6} ns per event, {read:>6} with its amounts");
    }
    println!("an order {} bytes, without its legs and executions", size_of::<Order>());
}

/// Nanoseconds of all.
fn round(mut orders: Vec<Order>, events: &[Event], reads: bool) -> u128 {
    let start = Instant::now();
    for event in events {
        for order in &mut orders {
            black_box(order.apply(black_box(event)).is_ok());
            for amounts in order.amounts().take(usize::from(reads) * 2) {
                black_box(amounts);
            }
        }
    }
    start.elapsed().as_nanos()
}
