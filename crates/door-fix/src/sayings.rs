//! What is said to the ledger of orders, and what it has still to answer.

use std::collections::{HashMap, HashSet};

use fix_session::Durability;
use gate_orders::Order;
use ledger::{NamedAnswer, NamedKind, NamedRefusal, NamedSay};
use xxhash_rust::xxh3::xxh3_64;

use crate::config::SessionKeys;
use crate::gate::limits;
use crate::line_up::Grant;
use crate::rows::RowPlace;

/// Bytes of a hold's label.
const LABEL_BYTES_MAX: usize = 128;

/// Something that was said.
#[derive(Debug)]
pub(crate) enum Saying {
    /// May a client's order or replace leave?
    Ask { client: usize, grant: Box<Grant> },
    /// How an order of a venue stands.
    Fact { venue: usize, place: RowPlace, key: u128 },
    /// Nothing more comes of a hold.
    End(Vec<NamedSay>),
}

/// What goes to the ledger as one message, under a number.
pub type ToLedger = (u64, Vec<NamedSay>);

/// An answer that somebody should hear of.
#[derive(Debug, Default)]
pub(crate) struct Answered {
    /// It is to be told again how this order of a venue stands.
    pub(crate) stands: Option<(usize, RowPlace, u128)>,
    /// What was said of an order of a venue cannot be booked.
    pub(crate) refused: Option<NamedRefusal>,
}

/// All that was said and not answered.
#[derive(Debug, Default)]
pub(crate) struct Sayings {
    /// Which start of the machine this is; not 0.
    pub(crate) boot: u32,
    pub(crate) last_key: u64,
    last: u64,
    /// Orders of which nothing is said until they change: the ledger may have booked them and ended their holds.
    pub(crate) unsaid: HashSet<u128>,
    open: HashMap<u64, Saying>,
    /// To be handed out.
    out: Vec<ToLedger>,
    /// Orders whose last fact is not answered, and whether they have changed since.
    standing: HashMap<u128, bool>,
    /// Orders whose replaces are asked for: how many, and whether the orders have changed since. Until it is known what becomes of these, nothing
    /// is said that could lower what is asked for.
    replacing: HashMap<u128, (u32, bool)>,
    /// Ends and facts to be said again: the ledger could record nothing.
    again: Vec<Saying>,
    /// Orders whose executions are those of another one since, and that other one.
    pub(crate) merged: HashMap<u128, u128>,
    /// Those of them that are told once the ledger knows of the other one.
    behind: Vec<(usize, RowPlace, u128)>,
}

impl Sayings {
    /// Returns a key that no order of the venue had: of the venue, of the start of the machine where that may lose the order, and a number that
    /// rises with time, also from one start of the process to the next, and above all of the books that were read.
    pub(crate) fn next_key(&mut self, venue: &SessionKeys, unix_us: i64) -> u128 {
        let boot = if venue.durability == Durability::Written { self.boot } else { 0 };
        let now = u64::try_from(unix_us).unwrap_or(0);
        self.last_key = now.max(self.last_key + 1);
        let mark = u128::from(venue_mark(&venue.name));
        mark << 96 | u128::from(boot) << 64 | u128::from(self.last_key)
    }

    /// Says something; returns the number that the answer comes with.
    pub(crate) fn say(&mut self, saying: Saying, says: Vec<NamedSay>) -> u64 {
        self.last += 1;
        self.open.insert(self.last, saying);
        self.out.push((self.last, says));
        self.last
    }

    /// Says that nothing is held of an order any more, and that it is over.
    pub(crate) fn end(&mut self, key: u128, order: &Order) {
        self.merged.remove(&key);
        if self.unsaid.remove(&key) {
            return;
        }
        let amounts = order.amounts().map(|(budget, amounts)| {
            (budget, gate_orders::LegAmounts { hold: ledger::Amount::ZERO, ..amounts })
        });
        let fact = NamedSay { kind: NamedKind::Fact, ..limits::ask(key, "", amounts) };
        self.say_end(vec![fact, NamedSay::end(key)]);
    }

    fn say_end(&mut self, says: Vec<NamedSay>) {
        self.say(Saying::End(says.clone()), says);
    }

    /// Says how an order of a venue stands, once the fact before is answered.
    pub(crate) fn stands(
        &mut self,
        (venue, place, key): (usize, RowPlace, u128),
        (label, order): (&str, &Order),
    ) {
        self.unsaid.remove(&key);
        let replacing = self.replacing.get_mut(&key).map(|(_, changed)| changed);
        if let Some(changed) = replacing.or(self.standing.get_mut(&key)) {
            *changed = true;
            return;
        }
        self.standing.insert(key, false);
        let fact = limits::ask(key, cut(label), order.amounts());
        let fact = NamedSay { kind: NamedKind::Fact, ..fact };
        self.say(Saying::Fact { venue, place, key }, vec![fact]);
    }

    /// Reports whether an order has nothing left because another one has its executions, and the ledger has not heard of that one yet: what
    /// leaves the one is booked of the other first. It is told later how it stands.
    pub(crate) fn stands_behind(&mut self, of: (usize, RowPlace, u128)) -> bool {
        let Some(into) = self.merged.get(&of.2) else { return false };
        let is_again = |one: &Saying| matches!(one, Saying::Fact { key, .. } if key == into);
        let waits = self.standing.contains_key(into)
            || self.replacing.contains_key(into)
            || self.again.iter().any(is_again);
        match waits {
            true => self.behind.push(of),
            false => _ = self.merged.remove(&of.2),
        }
        waits
    }

    /// Takes the orders that were to be told later.
    pub(crate) fn take_behind(&mut self) -> Vec<(usize, RowPlace, u128)> {
        std::mem::take(&mut self.behind)
    }

    /// A replace of an order is asked for.
    pub(crate) fn begin_replace(&mut self, key: u128) {
        self.replacing.entry(key).or_default().0 += 1;
    }

    /// One is refused or sent, or is not sent although it was granted (`is_raised`). Reports whether it is to be told how the order stands.
    pub(crate) fn end_replace(&mut self, key: u128, is_raised: bool) -> bool {
        let Some((count, changed)) = self.replacing.get_mut(&key) else { return false };
        (*count, *changed) = (*count - 1, *changed || is_raised);
        let is_last = *count == 0;
        is_last && self.replacing.remove(&key).is_some_and(|(_, changed)| changed)
    }

    /// Takes the answers to an end or a fact.
    pub(crate) fn answered(&mut self, saying: Saying, answers: &[NamedAnswer]) -> Answered {
        let refused = answers.iter().find_map(|answer| answer.err());
        let changed = match saying {
            Saying::Fact { key, .. } => self.standing.remove(&key) == Some(true),
            _ => false,
        };
        let stands = match saying {
            Saying::Fact { venue, place, key } if changed => Some((venue, place, key)),
            _ => None,
        };
        match refused {
            Some(NamedRefusal::Journal | NamedRefusal::Busy) => {
                self.again.push(saying);
                Answered::default()
            }
            // What has changed since may be booked.
            _ => Answered { refused, stands },
        }
    }

    /// Says ends again that the ledger could not record, and returns the orders whose facts it could not.
    pub(crate) fn say_again(&mut self) -> Vec<(usize, RowPlace, u128)> {
        let mut facts = Vec::new();
        for saying in std::mem::take(&mut self.again) {
            match saying {
                Saying::End(says) => self.say_end(says),
                Saying::Fact { venue, place, key } => facts.push((venue, place, key)),
                Saying::Ask { .. } => {}
            }
        }
        facts
    }

    /// Reports whether the ledger has to answer, or to be told again.
    pub(crate) fn are_under_way(&self) -> bool {
        !(self.open.is_empty() && self.again.is_empty() && self.behind.is_empty())
    }

    pub(crate) fn take(&mut self, number: u64) -> Option<Saying> {
        self.open.remove(&number)
    }

    pub(crate) fn take_out(&mut self) -> Vec<ToLedger> {
        std::mem::take(&mut self.out)
    }
}

/// Returns what a key has of its venue, and of the start of the machine; 0 where that loses nothing.
#[expect(clippy::cast_possible_truncation, reason = "the parts of the key")]
pub(crate) fn key_parts(key: u128) -> [u32; 2] {
    [(key >> 96) as u32, (key >> 64) as u32]
}

/// Returns the number in a key.
#[expect(clippy::cast_possible_truncation, reason = "a part of the key")]
pub(crate) fn key_number(key: u128) -> u64 {
    key as u64
}

/// The label of a hold, as long as it may be.
pub(crate) fn cut(label: &str) -> &str {
    &label[..label.floor_char_boundary(LABEL_BYTES_MAX)]
}

/// What keys have of their venue.
pub(crate) fn venue_mark(venue: &str) -> u32 {
    u32::try_from(xxh3_64(venue.as_bytes()) >> 32).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order() -> Order {
        Order::unknown(&[], fix::Decimal::new(1, 0).unwrap()).unwrap()
    }

    #[test]
    fn what_has_changed_since_a_refused_fact_is_told() {
        let refused = Some(NamedRefusal::NoDoor);
        for (changes, answer, stands) in [
            (false, Ok(true), None),
            (true, Ok(true), Some((2, 3, 7))),
            (false, Err(NamedRefusal::NoDoor), None),
            (true, Err(NamedRefusal::NoDoor), Some((2, 3, 7))),
        ] {
            let mut sayings = Sayings::default();
            for _ in 0..=usize::from(changes) {
                sayings.stands((2, 3, 7), ("a", &order()));
            }
            let saying = sayings.take(1).unwrap();
            let answered = sayings.answered(saying, &[answer]);
            assert_eq!(
                (answered.stands, answered.refused),
                (stands, refused.filter(|_| answer.is_err()))
            );
        }
    }

    #[test]
    fn an_order_that_may_be_booked_is_forgotten_in_silence_unless_it_has_changed() {
        for (changes, says) in [(false, 0), (true, 2)] {
            let mut sayings = Sayings { unsaid: [7].into(), ..Sayings::default() };
            if changes {
                sayings.stands((2, 3, 7), ("a", &order()));
            }
            sayings.end(7, &order());
            assert_eq!(sayings.take_out().len(), says);
            sayings.end(7, &order());
            assert_eq!(sayings.take_out().len(), 1, "once");
        }
    }
}
