//! Holds that expire: `table::Buckets` (one sum a purse and deadline) beside one object a hold, in a heap,
//! in a map by deadline, and in a queue (which works only because here all holds last equally long).
//!
//! An operation is one hold's life: booked, and given back later. A tick of 100 ms books 20,000 holds of
//! 2 s over 50,000 purses and gives back what is due, with 400,000 holds alive.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::hint::black_box;

use ::table::Buckets;

use crate::Size;
use crate::rounds::{Case, Random, compare};

const PURSES: usize = 50_000;
const WIDTH_MS: u64 = 100;
const HOLD_MS: u64 = 2_000;
const HOLDS_A_TICK: usize = 20_000;
const TICKS: usize = 20;
const ROUNDS: usize = 11;

/// Prints the tables.
pub fn run(size: Size) {
    let load = Load::new(size);
    let buckets = Buckets::new(load.purses, WIDTH_MS, 32);
    let mut cases: Vec<Case<'_>> = vec![
        ("table::Buckets", live(&load, buckets)),
        ("BinaryHeap", live(&load, BinaryHeap::<Reverse<Hold>>::new())),
        ("BTreeMap by deadline", live(&load, BTreeMap::<u64, Vec<Hold>>::new())),
        ("VecDeque", live(&load, VecDeque::<Hold>::new())),
    ];
    compare("a hold booked and given back", size.pick(ROUNDS, 1), &mut cases);
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
    fn new(size: Size) -> Load {
        let (purses, holds) = (size.pick(PURSES, 100), size.pick(HOLDS_A_TICK, 50));
        let mut random = Random::new(9);
        // A prime number of asks, so that each tick meets others.
        let asked = (0..size.pick(999_983, 997)).map(|_| random.below(purses) as u32).collect();
        Load { purses, holds, ticks: size.pick(TICKS, 3), asked }
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
