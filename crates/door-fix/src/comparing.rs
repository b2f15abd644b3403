//! What the ledger has of orders, compared with the books of their venues at a start.
//!
//! | the ledger has | the book has | what is said |
//! | --- | --- | --- |
//! | a hold | the order, and it stands otherwise | a fact |
//! | none | the order, with an amount | a fact; nothing where the ledger may have ended the hold |
//! | a hold | no such order | it never left: the hold ends |
//!
//! A book that may have lost orders says nothing of those that it does not have, and lowers nothing.

use std::collections::HashMap;

use fix_session::MessageStores;
use gate_orders::Phase;
use ledger::{Amount, NamedHold, NamedKind, NamedLeg, NamedSay};
use table::Secret;

use crate::book::Book;
use crate::config::{FixSessions, Kind};
use crate::gate::limits;
use crate::sayings::{cut, key_parts, venue_mark};

/// What a start makes of the ledger's holds.
#[derive(Debug, Default)]
pub struct Compared {
    /// Facts and ends, to be booked before anything else.
    pub says: Vec<NamedSay>,
    /// Holds that stay as they are because nobody can say whether their orders left.
    pub doubtful: Vec<NamedHold>,
    /// Amounts of books that stay unsaid because the ledger may have booked them and ended the hold.
    pub unsaid: Vec<NamedSay>,
}

/// A venue whose book was read.
struct Read {
    mark: u32,
    /// It may have lost orders.
    is_doubtful: bool,
}

/// Compares the ledger's holds of orders with the books of all venues. `is_behind` tells of a session by its number whether its files are older
/// than the journal, `boot` which start of the machine this is.
pub fn compare<S: MessageStores>(
    config: &FixSessions,
    stores: &mut S,
    is_behind: impl Fn(&mut S, usize) -> bool,
    holds: impl Iterator<Item = NamedHold>,
    boot: u32,
) -> Compared {
    let mut holds: HashMap<u128, NamedHold> = holds.map(|hold| (hold.key, hold)).collect();
    let (mut compared, mut venues) = (Compared::default(), Vec::new());
    for (at, one) in config.sessions.iter().enumerate() {
        if !matches!(one.kind, Kind::Venue(_)) {
            continue;
        }
        let mut book = Book::new(config.orders_max, Secret::new(u128::from(boot)));
        let is_behind = is_behind(stores, at);
        let lost = match stores.has_book(at).then(|| stores.book(at)) {
            Some(Ok(Some(store))) => book.load(store),
            Some(Err(_)) => 1,
            None | Some(Ok(None)) => 0,
        };
        let venue = Read { mark: venue_mark(&one.keys.name), is_doubtful: is_behind || lost > 0 };
        for (key, label, order) in book.bound() {
            let fact = limits::ask(key, cut(&label), order.amounts());
            let fact = NamedSay { kind: NamedKind::Fact, ..fact };
            let hold = holds.remove(&key);
            // The book may have lost that it has forgotten the order, and the hold ended with that.
            let is_over = order.phase() == Phase::Closed && !is_of(key_parts(key)[1], boot);
            match hold {
                None if (venue.is_doubtful || is_over) && differs(&fact.legs, None) => {
                    compared.unsaid.push(fact);
                }
                Some(hold) if venue.is_doubtful && lowers(&fact.legs, &hold.legs) => {
                    compared.doubtful.push(hold);
                }
                hold if differs(&fact.legs, hold.as_ref()) => compared.says.push(fact),
                _ => {}
            }
        }
        venues.push(venue);
    }
    for hold in holds.into_values() {
        let [mark, of_boot] = key_parts(hold.key);
        let venue = venues.iter().find(|venue| venue.mark == mark);
        let is_sure = venue.is_some_and(|venue| !venue.is_doubtful);
        if is_sure && is_of(of_boot, boot) {
            compared.says.extend(ended(&hold));
        } else {
            compared.doubtful.push(hold);
        }
    }
    compared
}

/// Reports whether nothing can have been lost with the machine since a key was made.
fn is_of(of_boot: u32, boot: u32) -> bool {
    of_boot == 0 || of_boot == boot
}

/// Ends a hold; what it booked stays.
fn ended(hold: &NamedHold) -> [NamedSay; 2] {
    let free = |leg: &NamedLeg| NamedLeg {
        amounts: ledger::LegAmounts { hold: Amount::ZERO, ..leg.amounts },
        ..*leg
    };
    let (label, legs) = ("".into(), hold.legs.iter().map(free).collect());
    let fact = NamedSay { kind: NamedKind::Fact, key: hold.key, label, legs };
    [fact, NamedSay::end(hold.key)]
}

fn amounts(legs: &[NamedLeg], budget: u64) -> ledger::LegAmounts {
    legs.iter().find(|leg| leg.budget == budget).map(|leg| leg.amounts).unwrap_or_default()
}

fn differs(legs: &[NamedLeg], hold: Option<&NamedHold>) -> bool {
    let before = hold.map_or(&[][..], |hold| &hold.legs);
    legs.iter().any(|leg| leg.amounts != amounts(before, leg.budget))
}

/// Reports whether an amount is below that of the hold.
fn lowers(legs: &[NamedLeg], before: &[NamedLeg]) -> bool {
    legs.iter().any(|leg| {
        let (now, before) = (leg.amounts, amounts(before, leg.budget));
        let spent = now.spent.iter().zip(&before.spent).any(|(now, before)| now < before);
        now.hold < before.hold || spent
    })
}
