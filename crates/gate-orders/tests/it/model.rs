//! The reference: an order's amounts from the list of its events, each time from the beginning. It knows quantities in thousandths and
//! prices in ten-thousandths, so that all sums are whole numbers, and it has no checks and no order that lives again.

use std::collections::BTreeMap;

/// What happened, in small numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happened {
    Sent {
        number: u64,
        quantity: i128,
        price: i128,
    },
    Accepted {
        number: u64,
    },
    Refused {
        number: u64,
    },
    Restated {
        quantity: i128,
        price: i128,
    },
    Fill {
        id: u128,
        quantity: i128,
        price: i128,
    },
    /// A bust where the quantity is 0.
    Amended {
        id: u128,
        names: u128,
        at: u64,
        quantity: i128,
        price: i128,
    },
    Filled,
    Closed,
}

use Happened::{Accepted, Amended, Closed, Fill, Filled, Refused, Restated, Sent};

/// Money at 10^-7, micros are tenths of it; quantity at 10^-3.
type Pair = (i128, i128);

/// What makes an amendment the last of its chain.
type Rank = (bool, u64, bool, u128);

/// Returns the value of each chain, by the id at its start.
fn chains(events: &[Happened]) -> BTreeMap<u128, Pair> {
    let mut last: BTreeMap<u128, (Rank, Pair)> = BTreeMap::new();
    for event in events {
        let (rank, chain, value) = match *event {
            Fill { id, quantity, price } => {
                ((false, 0, false, 0), id, (quantity * price, quantity))
            }
            Amended { id, at, quantity, price, .. } => {
                let named = events
                    .iter()
                    .any(|other| matches!(other, Amended { names, .. } if *names == id));
                ((!named, at, quantity == 0, id), root(events, id), (quantity * price, quantity))
            }
            _ => continue,
        };
        let is_fill = matches!(event, Fill { .. });
        let entry = last.entry(chain).or_insert((rank, value));
        if !is_fill && entry.0 <= rank {
            *entry = (rank, value);
        }
    }
    last.into_iter().map(|(chain, (_, value))| (chain, value)).collect()
}

fn root(events: &[Happened], id: u128) -> u128 {
    let names = events.iter().find_map(|event| match event {
        Amended { id: own, names, .. } if *own == id => Some(*names),
        _ => None,
    });
    names.map_or(id, |names| root(events, names))
}

fn total(values: impl Iterator<Item = Pair>) -> Pair {
    values.fold((0, 0), |sum, value| (sum.0 + value.0, sum.1 + value.1))
}

/// Hold, settled, over_settled, late of a leg in micros, and of one that counts quantity.
pub(crate) fn amounts(first: (i128, i128), events: &[Happened]) -> [[i128; 4]; 2] {
    let open = |(quantity, price): (i128, i128), spent: Pair| {
        let leaves = (quantity - spent.1).max(0);
        (leaves * price, leaves)
    };
    let plus = |a: Pair, b: Pair| (a.0 + b.0, a.1 + b.1);
    let max = |a: Pair, b: Pair| (a.0.max(b.0), a.1.max(b.1));
    let mut current = (1, first);
    let mut covered = (first.0 * first.1, first.0);
    let mut pending: Vec<(u64, (i128, i128), Pair)> = Vec::new();
    let (mut is_filled, mut closed_at) = (false, None);
    for (at, event) in events.iter().enumerate() {
        let spent = total(chains(&events[..at]).into_values());
        if closed_at.is_some() {
            break;
        }
        match *event {
            Sent { number, quantity, price } => {
                let size = (quantity, price);
                pending.push((number, size, plus(spent, open(size, spent))));
            }
            Accepted { number } => {
                let Some(found) = pending.iter().find(|one| one.0 == number) else { continue };
                current = (number, found.1);
                pending.retain(|one| one.0 != number);
                covered = plus(spent, open(current.1, spent));
                is_filled &= open(current.1, spent) == (0, 0);
            }
            Refused { number } => pending.retain(|one| one.0 != number),
            Restated { quantity, price } if current.1 != (quantity, price) || is_filled => {
                current.1 = (quantity, price);
                covered = plus(spent, open(current.1, spent));
                is_filled &= open(current.1, spent) == (0, 0);
            }
            Filled => is_filled = true,
            Closed => closed_at = Some(at),
            _ => {}
        }
        if is_filled && pending.is_empty() {
            closed_at = Some(at);
        }
    }
    let spent = total(chains(events).into_values());
    let late = closed_at.map_or((0, 0), |at| late(&events[..at], events));
    pending.retain(|_| closed_at.is_none());
    let mut worst = (0, 0);
    for one in &pending {
        worst = max(worst, open(one.1, spent));
        covered = max(covered, one.2);
    }
    if closed_at.is_none() && !is_filled {
        worst = max(worst, open(current.1, spent));
    }
    [leg(spent.0, late.0, worst.0, covered.0, 10), leg(spent.1, late.1, worst.1, covered.1, 1000)]
}

fn leg(spent: i128, late: i128, worst: i128, covered: i128, base: i128) -> [i128; 4] {
    let up = |exact: i128| (exact + base - 1) / base;
    let (on_time, booked) = (up(spent - late), up(spent));
    let settled = on_time.min(up(covered));
    [up(spent + worst) - booked, settled, on_time - settled, booked - on_time]
}

/// What each chain is worth above what it was when the order was closed.
fn late(until_closed: &[Happened], events: &[Happened]) -> Pair {
    let mut kept: BTreeMap<u128, Pair> = BTreeMap::new();
    for (chain, value) in chains(until_closed) {
        let sum = kept.entry(root(events, chain)).or_default();
        *sum = (sum.0 + value.0, sum.1 + value.1);
    }
    total(chains(events).into_iter().map(|(chain, value)| {
        let kept = kept.get(&chain).copied().unwrap_or_default();
        ((value.0 - kept.0).max(0), (value.1 - kept.1).max(0))
    }))
}
