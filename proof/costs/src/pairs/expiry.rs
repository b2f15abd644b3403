//! Holds that expire: `table::Buckets` (one sum per purse and deadline) beside one object per hold, in a heap, in a map by
//! deadline, and in a queue (which works only because here all holds last equally long).
//!
//! An operation is one hold's life: booked, and given back later. A tick of 100 ms books holds of 2 s over 50,000 purses,
//! drawn evenly, and gives back what is due. At 200,000 holds per second hardly two share a purse and a deadline, so sums save
//! nothing; at 4 million per second eight do. What only sums and bits offer in either case: memory that does not depend on the
//! number of holds, and taking a confirmed or released hold out at once, at any deadline.
//!
//! Where it loses, in counts that a busy machine does not change (callgrind with caches of 32 KiB and 1 MiB, 20,000 holds a tick
//! as in `expiry/buckets`, for one hold's booking and giving back together): the buckets take 86 instructions, 4.4 misses of the first and
//! 1.9 of the second cache, the queue 55, 2.7 and 0.9. A queue writes and reads in one direction; a sum lies where its purse and
//! deadline are, one line that is cold when it is booked and again when it is due. It stays: what comes out of the buckets is what the node
//! sends, one message for a purse and deadline, which the bank books for over a microsecond; a queue must sort and add up first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::hint::black_box;

use ::table::Buckets;
use probe::compare::Random;

use super::{Meaning, Pair};
use crate::race::{Done, race};
use crate::{Error, Size};

const PURSES: usize = 50_000;
const WIDTH_MS: u64 = 100;
const HOLD_MS: u64 = 2_000;
const ROUNDS: usize = 11;
/// Of a hold.
const AMOUNT: i64 = 2_500;

/// Makes `expiry/buckets` and `expiry/buckets-busy`.
///
/// # Errors
/// The ways did different work.
pub fn run(size: Size) -> Result<Vec<Pair>, Error> {
    Ok(vec![
        pair("expiry/buckets", &Load::new(size, size.pick(20_000, 50), size.pick(20, 3)), size)?,
        pair(
            "expiry/buckets-busy",
            &Load::new(size, size.pick(400_000, 90), size.pick(2, 3)),
            size,
        )?,
    ])
}

fn pair(id: &'static str, load: &Load, size: Size) -> Result<Pair, Error> {
    let buckets = Buckets::new(load.purses, WIDTH_MS, 32);
    let ways = vec![
        ("table::Buckets", live(load, buckets)),
        ("BinaryHeap", live(load, BinaryHeap::<Reverse<Hold>>::new())),
        ("BTreeMap by deadline", live(load, BTreeMap::<u64, Vec<Hold>>::new())),
        ("VecDeque", live(load, VecDeque::<Hold>::new())),
    ];
    let what = format!(
        "A hold is booked and given back, {} holds per second of 2 s over {} purses. The queue cannot take a hold out early, nor \
         take holds of different lengths; the node's must.",
        10 * load.holds,
        load.purses
    );
    let meaning = Meaning {
        rival: Some("BTreeMap by deadline"),
        faster: "sums by purse and deadline stay, and their memory does not grow with the holds",
        slower: "where few holds share a purse and a deadline sums cost more; they are kept because their memory does not grow \
                 with the holds, and a settled hold is taken out at once",
        level: "sums by purse and deadline are kept because their memory does not grow with the holds",
    };
    Ok(Pair::new(id, what, "hold", race(size.pick(ROUNDS, 1), ways)?, &meaning))
}

/// Deadline (ms), purse, amount.
type Hold = (u64, u32, i64);

/// What books holds and gives them back.
trait Expiry {
    fn book(&mut self, hold: Hold);
    /// Gives back what is due, each to its purse.
    fn due(&mut self, now_ms: u64, purses: &mut [i64]);
}

struct Load {
    purses: usize,
    holds: usize,
    ticks: usize,
    asked: Vec<u32>,
}

impl Load {
    fn new(size: Size, holds: usize, ticks: usize) -> Load {
        let purses = size.pick(PURSES, 100);
        let mut random = Random::new(9);
        let mut purse = || u32::try_from(random.below(purses)).unwrap_or(0);
        // A prime number of asks, so that each tick meets others.
        let asked = (0..size.pick(999_983, 997)).map(|_| purse()).collect();
        Load { purses, holds, ticks, asked }
    }
}

fn live<'a>(load: &'a Load, mut expiry: impl Expiry + 'a) -> Box<dyn FnMut() -> Done + 'a> {
    let mut asked = load.asked.iter().cycle();
    let mut purses = vec![0i64; load.purses];
    let mut now_ms = 1_000_000;
    Box::new(move || {
        for _ in 0..load.ticks {
            now_ms += WIDTH_MS;
            expiry.due(now_ms, &mut purses);
            for &purse in asked.by_ref().take(load.holds) {
                purses[purse as usize] -= AMOUNT;
                expiry.book((now_ms + HOLD_MS, purse, AMOUNT));
            }
        }
        // One purse after the other, with its place: money in the wrong purse shows.
        let purses = black_box(&purses).iter().zip(1..);
        let result = purses.fold(0, |sum: i64, (held, at)| sum.wrapping_add(held.wrapping_mul(at)));
        let operations = (load.holds * load.ticks) as u64;
        Done { operations, result: result.cast_unsigned() }
    })
}

impl Expiry for Buckets {
    fn book(&mut self, (deadline_ms, purse, amount): Hold) {
        self.add(purse, deadline_ms, amount).expect("the ring spans the hold");
    }

    fn due(&mut self, now_ms: u64, purses: &mut [i64]) {
        self.drain_due(now_ms, &mut |purse, _, amount, _| purses[purse as usize] += amount);
    }
}

impl Expiry for BinaryHeap<Reverse<Hold>> {
    fn book(&mut self, hold: Hold) {
        self.push(Reverse(hold));
    }

    fn due(&mut self, now_ms: u64, purses: &mut [i64]) {
        while self.peek().is_some_and(|Reverse(hold)| hold.0 <= now_ms) {
            if let Some(Reverse((_, purse, amount))) = self.pop() {
                purses[purse as usize] += amount;
            }
        }
    }
}

impl Expiry for BTreeMap<u64, Vec<Hold>> {
    fn book(&mut self, hold: Hold) {
        self.entry(hold.0).or_default().push(hold);
    }

    fn due(&mut self, now_ms: u64, purses: &mut [i64]) {
        while let Some(first) = self.first_entry().filter(|first| *first.key() <= now_ms) {
            for (_, purse, amount) in first.remove() {
                purses[purse as usize] += amount;
            }
        }
    }
}

impl Expiry for VecDeque<Hold> {
    fn book(&mut self, hold: Hold) {
        self.push_back(hold);
    }

    fn due(&mut self, now_ms: u64, purses: &mut [i64]) {
        while self.front().is_some_and(|hold| hold.0 <= now_ms) {
            if let Some((_, purse, amount)) = self.pop_front() {
                purses[purse as usize] += amount;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A smoke run is shorter than a hold: here some come back.
    #[test]
    fn holds_come_back_when_they_are_due() {
        let load = Load::new(Size::Smoke, 10, 25);
        let rounds = |mut live: Box<dyn FnMut() -> Done + '_>| [live(), live(), live()];
        let ours = rounds(live(&load, Buckets::new(load.purses, WIDTH_MS, 32)));
        assert_eq!(ours, rounds(live(&load, BinaryHeap::<Reverse<Hold>>::new())));
        assert_eq!(ours, rounds(live(&load, BTreeMap::<u64, Vec<Hold>>::new())));
        assert_eq!(ours, rounds(live(&load, VecDeque::<Hold>::new())));
        assert_ne!(ours[0].result, ours[1].result);
    }
}
