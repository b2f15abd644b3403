//! The table of budget ids: looked up a frame at a time, and changed.

use std::hint::black_box;

use table::{Map, Secret};

use super::Workload;
use super::random::Random;

const KEYS: u32 = 10_000;
/// Keys looked up together.
const FRAME: usize = 10;
/// One key of twenty is unknown.
const UNKNOWN_PERCENT: u32 = 5;

/// Looks keys up, and now and then puts one in and takes one out.
pub(crate) struct Table {
    map: Map<u32>,
    frames: Vec<[u64; FRAME]>,
    slots: [Option<u32>; FRAME],
    next_frame: usize,
    /// Keys in the table: from here...
    oldest: u64,
    /// ...to before here.
    newest: u64,
}

impl Table {
    /// Frames in a step; after them a key is inserted and the oldest is removed.
    const STEP: u64 = 32;

    pub(crate) fn new() -> Table {
        let mut random = Random::new(5);
        let entries = (0..KEYS).map(|slot| (key(u64::from(slot)), slot));
        let map = Map::build(Secret::new(77), entries).expect("the keys differ");
        let mut draw = |_| {
            let unknown = random.percent(UNKNOWN_PERCENT);
            key(u64::from(random.below(KEYS)) + if unknown { 1 << 40 } else { 0 })
        };
        let frames = (0..1_024).map(|_| std::array::from_fn(&mut draw)).collect();
        Table {
            map,
            frames,
            slots: [None; FRAME],
            next_frame: 0,
            oldest: 0,
            newest: u64::from(KEYS),
        }
    }

    fn look_up(&mut self) {
        self.next_frame = (self.next_frame + 1) % self.frames.len();
        self.map.get_batch(black_box(&self.frames[self.next_frame]), &mut self.slots);
        black_box(&self.slots);
    }

    fn replace_oldest(&mut self) {
        let slot = black_box(self.map.remove(key(self.oldest))).unwrap_or(0);
        black_box(self.map.insert(key(self.newest), slot));
        self.oldest += 1;
        self.newest += 1;
    }
}

impl Workload for Table {
    fn step(&mut self) -> u64 {
        for _ in 0..Table::STEP {
            self.look_up();
        }
        self.replace_oldest();
        Table::STEP * FRAME as u64 + 2
    }
}

/// Ids of budgets are no plain numbers from zero.
fn key(number: u64) -> u64 {
    number.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1 << 63
}
