//! What a decision costs without the network: table, plan, purse and token, a frame of 10 at a time, as the
//! node's worker does it; and each of the four alone.

use std::hint::black_box;

use gate_pacing::{Decision, Pace};
use ledger::{Amount, Hold, KeyRing, PurseOptions, Purses, ToWorker, Token};
use probe::compare::{Case, compare};
use table::{Map, Secret};

use crate::Size;

const FRAME: usize = 10;

/// Prints the tables for 1,000 and 50,000 budgets.
pub fn run(size: Size) {
    for budgets in [1_000, size.pick(50_000, 2_000)] {
        let asks = size.pick(1 << 16, 1 << 10);
        let rounds = size.pick(15, 1);
        run_with(budgets, asks, rounds);
    }
}

fn run_with(budgets: u32, asks: usize, rounds: usize) {
    let ids = draw(budgets, asks);
    let map =
        Map::build(Secret::new(77), (0..budgets).map(|slot| (id(slot), slot))).expect("ids differ");
    let keys = KeyRing::new(1, 1, [7; 16]);
    let mut worker = Worker::new(&map, &keys, budgets);
    let mut slots = [None; FRAME];
    let mut paces = vec![Pace::OPEN; budgets as usize];
    let mut purses = purses(budgets);
    let mut tokens = [Token::default(); FRAME];
    let places: [u16; FRAME] = std::array::from_fn(|i| u16::try_from(i).expect("few"));
    let hold = Hold { grant: 1, seq: 2, node: 1, deadline_ms: 1_000, amount: Amount::new(1_000) };
    let holds = [hold; FRAME];
    let whole = || worker.decide_all(&ids);
    let table = || {
        each(&ids, |frame| {
            map.get_batch(frame, &mut slots[..frame.len()]);
            black_box(&slots);
        })
    };
    let plan = || {
        each(&ids, |frame| {
            for key in frame {
                black_box(paces[slot(*key) as usize].decide(*key, Amount::new(1_000)));
            }
        })
    };
    let purse = || {
        let at = purses.at(1_000_000);
        each(&ids, |frame| {
            for key in frame {
                let _ = black_box(purses.reserve(slot(*key), Amount::new(1_000), at));
            }
        })
    };
    let token = || {
        each(&ids, |frame| {
            for (hold, token) in holds.iter().zip(&mut tokens).take(frame.len()) {
                keys.write(hold, token);
            }
            keys.seal(&mut tokens, &places[..frame.len()], |token| token);
            black_box(&tokens);
        })
    };
    let mut cases: Vec<Case<'_>> = vec![
        ("the whole decision", Box::new(whole)),
        ("table lookup", Box::new(table)),
        ("plan", Box::new(plan)),
        ("purse", Box::new(purse)),
        ("token", Box::new(token)),
    ];
    let title = format!("a decision, {budgets} budgets, frames of {FRAME}: ns per ask");
    print!("{}", compare(&title, rounds, &mut cases));
}

fn id(slot: u32) -> u64 {
    u64::from(slot) + 1
}

fn slot(id: u64) -> u32 {
    u32::try_from(id - 1).expect("made from a slot")
}

/// Budgets in an order without pattern.
fn draw(budgets: u32, asks: usize) -> Vec<u64> {
    let mut x = 88_172_645_463_325_252_u64;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x
    };
    (0..asks).map(|_| 1 + next() % u64::from(budgets)).collect()
}

fn each(ids: &[u64], mut frame: impl FnMut(&[u64])) -> u64 {
    ids.chunks(FRAME).for_each(&mut frame);
    ids.len() as u64
}

/// Purses with more money than the rounds can ask for.
fn purses(budgets: u32) -> Purses {
    let mut purses = Purses::new(PurseOptions { node: 1, hold_ms: 2_000 }, budgets as usize);
    for slot in 0..budgets {
        let amount = Amount::new(1_000_000_000_000);
        let fill =
            ToWorker::Fill { slot, grant: 7, amount, valid_from_ms: 0, valid_until_ms: u64::MAX };
        purses.take(fill, 1_000_000);
    }
    purses
}

/// A worker without its network.
struct Worker<'a> {
    map: &'a Map<u32>,
    keys: &'a KeyRing,
    paces: Vec<Pace>,
    purses: Purses,
    slots: [Option<u32>; FRAME],
    places: Vec<u16>,
    tokens: [Token; FRAME],
}

impl<'a> Worker<'a> {
    fn new(map: &'a Map<u32>, keys: &'a KeyRing, budgets: u32) -> Worker<'a> {
        Worker {
            map,
            keys,
            paces: vec![Pace::OPEN; budgets as usize],
            purses: purses(budgets),
            slots: [None; FRAME],
            places: Vec::with_capacity(FRAME),
            tokens: [Token::default(); FRAME],
        }
    }

    fn decide_all(&mut self, ids: &[u64]) -> u64 {
        let at = self.purses.at(1_000_000);
        for (number, frame) in ids.chunks(FRAME).enumerate() {
            self.map.get_batch(frame, &mut self.slots[..frame.len()]);
            for slot in self.slots[..frame.len()].iter().flatten() {
                table::prefetch(&self.paces[*slot as usize]);
                self.purses.prefetch(*slot);
            }
            for (i, slot) in self.slots[..frame.len()].iter().enumerate() {
                let Some(slot) = *slot else { continue };
                let amount = Amount::new(1_000);
                let pace = &mut self.paces[slot as usize];
                if pace.decide(number as u64, amount) == Decision::Paced {
                    continue;
                }
                if let Ok(hold) = self.purses.reserve(slot, amount, at) {
                    self.keys.write(&hold, &mut self.tokens[i]);
                    self.places.push(i as u16);
                }
            }
            self.keys.seal(&mut self.tokens, &self.places, |token| token);
            black_box(&self.tokens);
            self.places.clear();
        }
        ids.len() as u64
    }
}
