//! Looking up u64 keys: `table::Map` beside `hashbrown` with its fastest hasher and the standard map.
//!
//! - *dependent*: the next key cannot be known before the last value came: the wait for memory shows.
//! - *independent*: the processor may overlap lookups as it can.
//! - *batch of 10*: ten keys are known together, the next ten only when these are answered: how the
//!   batch door asks. Only `table::Map` has an own call for it; the others look up one after another.
//!
//! Keys are random, each round asks for other ones, and a query list is larger than the caches.

use std::hash::BuildHasher;
use std::hint::black_box;

use ::table::{Map, Secret};

use crate::Size;
use crate::rounds::{Case, Random, compare};

/// Lookups of one round.
const LOOKUPS: usize = 200_000;
const BATCH: usize = 10;
const ROUNDS: usize = 11;
/// Queries prepared, of which each round takes the next part.
const QUERIES: usize = 4_000_000;

type Fast = hashbrown::HashMap<u64, u32, foldhash::fast::RandomState>;
type Slow = std::collections::HashMap<u64, u32>;

/// Prints the tables.
pub fn run(size: Size) {
    for entries in size.pick(vec![10_000, 1_000_000, 20_000_000], vec![1_000]) {
        Tables::new(entries, size).compare_all(size.pick(ROUNDS, 1));
    }
}

struct Tables {
    entries: usize,
    ours: Map<u32>,
    fast: Fast,
    slow: Slow,
    hits: Vec<u64>,
    misses: Vec<u64>,
    lookups: usize,
}

impl Tables {
    fn new(entries: usize, size: Size) -> Tables {
        // The generator's finisher is a bijection: even counters give keys, odd ones keys that miss.
        let key = |counter: u64| Random::new(counter).next();
        let keys: Vec<u64> = (0..entries as u64).map(|at| key(2 * at)).collect();
        let pairs = || keys.iter().copied().zip(0u32..);
        let mut random = Random::new(3);
        let queries = size.pick(QUERIES, 2_000);
        let hits = (0..queries).map(|_| keys[random.below(entries)]).collect();
        let misses = (0..queries).map(|_| key(2 * random.below(entries) as u64 + 1)).collect();
        let mut fast =
            Fast::with_capacity_and_hasher(entries, foldhash::fast::RandomState::default());
        fast.extend(pairs());
        let mut slow = Slow::with_capacity(entries);
        slow.extend(pairs());
        let ours = Map::build(Secret::new(Slow::default().hasher().hash_one(1).into()), pairs());
        let ours = ours.expect("keys of a bijection are distinct");
        Tables { entries, ours, fast, slow, hits, misses, lookups: size.pick(LOOKUPS, 1_000) }
    }

    fn compare_all(&self, rounds: usize) {
        let fast = |key| self.fast.get(&key).copied();
        let slow = |key| self.slow.get(&key).copied();
        let ours = |key| self.ours.get(key);
        let (hits, misses) = (|| self.queries(&self.hits), || self.queries(&self.misses));
        let title = |what: &str| format!("{what}, {} entries", self.entries);

        let mut cases: Vec<Case<'_>> = vec![
            ("hashbrown + foldhash", dependent(hits(), fast)),
            ("std, SipHash", dependent(hits(), slow)),
            ("table::Map", dependent(hits(), ours)),
            ("hashbrown, batch of 10", dependent_batches(hits(), one_after_another(fast))),
            (
                "table::Map, batch of 10",
                dependent_batches(hits(), |keys, out| {
                    self.ours.get_batch(keys, out);
                }),
            ),
        ];
        compare(&title("hit, dependent"), rounds, &mut cases);

        let mut cases: Vec<Case<'_>> = vec![
            ("hashbrown + foldhash", independent(hits(), fast)),
            ("std, SipHash", independent(hits(), slow)),
            ("table::Map", independent(hits(), ours)),
        ];
        compare(&title("hit, independent"), rounds, &mut cases);

        let mut cases: Vec<Case<'_>> = vec![
            ("hashbrown + foldhash", independent(misses(), fast)),
            ("std, SipHash", independent(misses(), slow)),
            ("table::Map", independent(misses(), ours)),
            ("table::Map, get_unlikely", independent(misses(), |key| self.ours.get_unlikely(key))),
        ];
        compare(&title("miss, independent"), rounds, &mut cases);

        let mut cases: Vec<Case<'_>> = vec![
            ("hashbrown, batch of 10", dependent_batches(misses(), one_after_another(fast))),
            (
                "table::Map, batch of 10",
                dependent_batches(misses(), |keys, out| {
                    self.ours.get_batch(keys, out);
                }),
            ),
        ];
        compare(&title("miss, batches"), rounds, &mut cases);
    }

    fn queries<'a>(&self, keys: &'a [u64]) -> Queries<'a> {
        Queries { keys, next: 0, count: self.lookups }
    }
}

/// A list of keys, handed out a round's worth at a time.
struct Queries<'a> {
    keys: &'a [u64],
    next: usize,
    count: usize,
}

impl<'a> Queries<'a> {
    fn round(&mut self) -> &'a [u64] {
        if self.next + self.count > self.keys.len() {
            self.next = 0;
        }
        let part = &self.keys[self.next..self.next + self.count];
        self.next += self.count;
        part
    }
}

type Work<'a> = Box<dyn FnMut() -> u64 + 'a>;

fn dependent<'a>(mut keys: Queries<'a>, get: impl Fn(u64) -> Option<u32> + 'a) -> Work<'a> {
    Box::new(move || {
        // Zero, which the compiler cannot know: what ties each key to the value before it.
        let zero = black_box(0u64);
        let (keys, mut chain) = (keys.round(), 0u64);
        for &key in keys {
            let value = get(key ^ (chain & zero));
            chain = chain.wrapping_add(value.map_or(1, u64::from));
        }
        black_box(chain);
        keys.len() as u64
    })
}

fn independent<'a>(mut keys: Queries<'a>, get: impl Fn(u64) -> Option<u32> + 'a) -> Work<'a> {
    Box::new(move || {
        let (keys, mut sum) = (keys.round(), 0u64);
        for &key in keys {
            sum = sum.wrapping_add(get(key).map_or(1, u64::from));
        }
        black_box(sum);
        keys.len() as u64
    })
}

fn dependent_batches<'a>(
    mut keys: Queries<'a>,
    get: impl Fn(&[u64], &mut [Option<u32>]) + 'a,
) -> Work<'a> {
    Box::new(move || {
        let zero = black_box(0u64);
        let (keys, mut chain) = (keys.round(), 0u64);
        let mut out = [None; BATCH];
        for batch in keys.chunks_exact(BATCH) {
            let batch: [u64; BATCH] = std::array::from_fn(|at| batch[at] ^ (chain & zero));
            get(&batch, &mut out);
            chain = out.iter().fold(chain, |sum, one| sum.wrapping_add(one.map_or(1, u64::from)));
        }
        black_box(chain);
        keys.len() as u64
    })
}

fn one_after_another(get: impl Fn(u64) -> Option<u32>) -> impl Fn(&[u64], &mut [Option<u32>]) {
    move |keys, out| {
        for (out, &key) in out.iter_mut().zip(keys) {
            *out = get(key);
        }
    }
}
