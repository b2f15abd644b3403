//! Holds that expire: `table::Buckets` (one sum a purse and deadline) beside one object a hold, in a heap,
//! in a map by deadline, and in a queue (which works only because here all holds last equally long).
//!
//! An operation is one hold's life: booked, and given back later. A tick of 100 ms books holds of 2 s
//! over 50,000 purses, drawn evenly, and gives back what is due. At 200,000 holds a second hardly two
//! share a purse and a deadline, so sums save nothing; at 4 million a second eight do. What only sums
//! and bits offer in either case: memory that does not depend on the number of holds, and taking a
//! confirmed or released hold out at once, at any deadline.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::hint::black_box;

use ::table::Buckets;

use crate::Size;
use crate::rounds::{Case, Random, compare};

const PURSES: usize = 50_000;
const WIDTH_MS: u64 = 100;
const HOLD_MS: u64 = 2_000;
/// Holds a tick, and ticks of a round.
const LOADS: [(usize, usize); 2] = [(20_000, 20), (400_000, 2)];
const ROUNDS: usize = 11;

/// Prints the tables.
pub fn run(size: Size) {
    for (holds, ticks) in LOADS {
        let load = Load::new(size, size.pick(holds, 50), size.pick(ticks, 3));
        compare_all(&load, size.pick(ROUNDS, 1));
    }
}

fn compare_all(load: &Load, rounds: usize) {
    let buckets = Buckets::new(load.purses, WIDTH_MS, 32);
    let mut cases: Vec<Case<'_>> = vec![
        ("table::Buckets", live(load, buckets)),
        ("BinaryHeap", live(load, BinaryHeap::<Reverse<Hold>>::new())),
        ("BTreeMap by deadline", live(load, BTreeMap::<u64, Vec<Hold>>::new())),
        ("VecDeque", live(load, VecDeque::<Hold>::new())),
    ];
    let title = format!("a hold booked and given back, {} holds a second", 10 * load.holds);
    compare(&title, rounds, &mut cases);
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
        // A prime number of asks, so that each tick meets others.
        let asked = (0..size.pick(999_983, 997)).map(|_| random.below(purses) as u32).collect();
        Load { purses, holds, ticks, asked }
    }
}

fn live<'a>(load: &'a Load, mut expiry: impl Expiry + 'a) -> Box<dyn FnMut() -> u64 + 'a> {
    let mut asked = load.asked.iter().cycle();
    let mut purses = vec![0i64; load.purses];
    let mut now_ms = 1_000_000;
    Box::new(move || {
        for _ in 0..load.ticks {
            now_ms += WIDTH_MS;
            expiry.due(now_ms, &mut purses);
            for &purse in asked.by_ref().take(load.holds) {
                purses[purse as usize] -= 2_500;
                expiry.book((now_ms + HOLD_MS, purse, 2_500));
            }
        }
        black_box(&mut purses);
        (load.holds * load.ticks) as u64
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
