//! Looking up u64 keys: `table::Map` beside `hashbrown` with its fastest hasher and the standard map.
//!
//! - *batches of ten*: ten keys are known together, the next ten only when these are answered: how the batch door asks.
//!   Only `table::Map` has an own call for it; the others look up one after another.
//! - *dependent*: the next key cannot be known before the last value came: the wait for memory shows.
//! - *independent*: the processor may overlap lookups as it can.
//!
//! Keys are random, each round asks for other ones, and a query list is larger than the caches.

use std::hash::BuildHasher;
use std::hint::black_box;

use ::table::{Map, Secret};
use probe::compare::Random;

use super::{Meaning, Pair};
use crate::race::{Done, Way, race};
use crate::{Error, Size};

/// Lookups of one round.
const LOOKUPS: usize = 100_000;
const BATCH: usize = 10;
const ROUNDS: usize = 11;
/// Queries prepared, of which each round takes the next part.
const QUERIES: usize = 2_000_000;

type Fast = hashbrown::HashMap<u64, u32, foldhash::fast::RandomState>;
type Slow = std::collections::HashMap<u64, u32>;

/// Ids of the pairs of a table of one size.
struct Ids {
    batch_hits: &'static str,
    batch_misses: &'static str,
    dependent: &'static str,
    independent: &'static str,
    misses: &'static str,
}

/// Small, fits the first caches.
const SMALL: Ids = Ids {
    batch_hits: "table/lookup-10k",
    batch_misses: "table/lookup-miss-10k",
    dependent: "table/dependent-10k",
    independent: "table/independent-10k",
    misses: "table/miss-10k",
};
const MEDIUM: Ids = Ids {
    batch_hits: "table/lookup",
    batch_misses: "table/lookup-miss",
    dependent: "table/dependent",
    independent: "table/independent",
    misses: "table/miss",
};
/// Larger than any cache.
const LARGE: Ids = Ids {
    batch_hits: "table/lookup-20m",
    batch_misses: "table/lookup-miss-20m",
    dependent: "table/dependent-20m",
    independent: "table/independent-20m",
    misses: "table/miss-20m",
};

/// Makes `table/lookup` (1 M entries, hits in batches of ten) and its variants.
///
/// # Errors
/// The ways did different work.
pub fn run(size: Size) -> Result<Vec<Pair>, Error> {
    let rounds = size.pick(ROUNDS, 1);
    let mut pairs = Tables::new(size.pick(1_000_000, 2_000), size).pairs(&MEDIUM, rounds)?;
    pairs.extend(Tables::new(size.pick(10_000, 1_000), size).pairs(&SMALL, rounds)?);
    if size == Size::Full {
        pairs.extend(Tables::new(20_000_000, size).pairs(&LARGE, rounds)?);
    }
    Ok(pairs)
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
        let key = |counter: u64| Random::new(counter).draw();
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

    fn pairs(&self, ids: &Ids, rounds: usize) -> Result<Vec<Pair>, Error> {
        Ok(vec![
            self.batches(ids.batch_hits, "hits", &self.hits, rounds)?,
            self.batches(ids.batch_misses, "misses", &self.misses, rounds)?,
            self.dependent(ids.dependent, rounds)?,
            self.independent(ids.independent, rounds)?,
            self.misses(ids.misses, rounds)?,
        ])
    }

    fn batches(
        &self,
        id: &'static str,
        outcome: &str,
        keys: &[u64],
        rounds: usize,
    ) -> Result<Pair, Error> {
        let queries = || self.queries(keys);
        let batched = |keys: &[u64], out: &mut [Option<u32>]| self.ours.get_batch(keys, out);
        let ways: Vec<Way<'_>> = vec![
            ("table::Map, batch of 10", in_batches(queries(), batched)),
            ("table::Map, one by one", in_batches(queries(), one_by_one(|key| self.ours.get(key)))),
            (
                "hashbrown + foldhash",
                in_batches(queries(), one_by_one(|key| self.fast.get(&key).copied())),
            ),
            ("std, SipHash", in_batches(queries(), one_by_one(|key| self.slow.get(&key).copied()))),
        ];
        let meaning = Meaning {
            rival: Some("hashbrown + foldhash"),
            faster: "the table of our own, asked in batches with prefetch, stays",
            slower: "at this size the table of our own does not pay for itself",
            level: "at this size the table of our own is worth no more than the library's",
        };
        let what = self
            .what(&format!("{outcome}, ten keys at a time; the next ten depend on the answers"));
        Ok(Pair::new(id, what, "lookup", race(rounds, ways)?, &meaning))
    }

    fn dependent(&self, id: &'static str, rounds: usize) -> Result<Pair, Error> {
        let queries = || self.queries(&self.hits);
        let ways: Vec<Way<'_>> = vec![
            ("table::Map", chained(queries(), |key| self.ours.get(key))),
            ("hashbrown + foldhash", chained(queries(), |key| self.fast.get(&key).copied())),
            ("std, SipHash", chained(queries(), |key| self.slow.get(&key).copied())),
        ];
        let what = self.what("hits, each key depends on the value before");
        Ok(Pair::new(id, what, "lookup", race(rounds, ways)?, &ONE_BY_ONE))
    }

    fn independent(&self, id: &'static str, rounds: usize) -> Result<Pair, Error> {
        let queries = || self.queries(&self.hits);
        let ways: Vec<Way<'_>> = vec![
            ("table::Map", summed(queries(), |key| self.ours.get(key))),
            ("hashbrown + foldhash", summed(queries(), |key| self.fast.get(&key).copied())),
            ("std, SipHash", summed(queries(), |key| self.slow.get(&key).copied())),
        ];
        let what = self.what("hits one by one, which the processor may overlap");
        Ok(Pair::new(id, what, "lookup", race(rounds, ways)?, &ONE_BY_ONE))
    }

    fn misses(&self, id: &'static str, rounds: usize) -> Result<Pair, Error> {
        let queries = || self.queries(&self.misses);
        let ways: Vec<Way<'_>> = vec![
            ("table::Map", summed(queries(), |key| self.ours.get(key))),
            ("hashbrown + foldhash", summed(queries(), |key| self.fast.get(&key).copied())),
            ("std, SipHash", summed(queries(), |key| self.slow.get(&key).copied())),
        ];
        let what = self.what("misses one by one, which the processor may overlap");
        Ok(Pair::new(id, what, "lookup", race(rounds, ways)?, &ONE_BY_ONE))
    }

    fn what(&self, how: &str) -> String {
        let warmth = match self.entries {
            ..100_000 => "caches are warm",
            100_000..10_000_000 => "the last cache holds part of the table",
            _ => "no cache holds the table",
        };
        format!("{} entries, random keys: {how}; {warmth}.", self.entries)
    }

    fn queries<'a>(&self, keys: &'a [u64]) -> Queries<'a> {
        Queries { keys, next: 0, count: self.lookups }
    }
}

const ONE_BY_ONE: Meaning = Meaning {
    rival: None,
    faster: "the table of our own is the better one for this too",
    slower: "asked one by one the library's table is the better one; the node asks in batches",
    level: "asked one by one the table of our own gains nothing",
};

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

type Work<'a> = Box<dyn FnMut() -> Done + 'a>;

fn done(keys: &[u64], result: u64) -> Done {
    Done { operations: keys.len() as u64, result: black_box(result) }
}

fn chained<'a>(mut keys: Queries<'a>, get: impl Fn(u64) -> Option<u32> + 'a) -> Work<'a> {
    Box::new(move || {
        // Zero, which the compiler cannot know: what ties each key to the value before it.
        let zero = black_box(0u64);
        let (keys, mut chain) = (keys.round(), 0u64);
        for &key in keys {
            let value = get(key ^ (chain & zero));
            chain = chain.wrapping_add(value.map_or(1, u64::from));
        }
        done(keys, chain)
    })
}

fn summed<'a>(mut keys: Queries<'a>, get: impl Fn(u64) -> Option<u32> + 'a) -> Work<'a> {
    Box::new(move || {
        let keys = keys.round();
        let values = keys.iter().map(|&key| get(key).map_or(1, u64::from));
        done(keys, values.fold(0, u64::wrapping_add))
    })
}

fn in_batches<'a>(
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
        done(keys, chain)
    })
}

fn one_by_one(get: impl Fn(u64) -> Option<u32>) -> impl Fn(&[u64], &mut [Option<u32>]) {
    move |keys, out| {
        for (out, &key) in out.iter_mut().zip(keys) {
            *out = get(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_are_found_and_misses_are_not() {
        let tables = Tables::new(500, Size::Smoke);
        for (hit, miss) in tables.hits.iter().zip(&tables.misses) {
            let found = tables.ours.get(*hit);
            assert!(found.is_some() && found == tables.fast.get(hit).copied());
            assert_eq!(found, tables.slow.get(hit).copied());
            assert_eq!((tables.ours.get(*miss), tables.fast.get(miss)), (None, None));
        }
    }

    #[test]
    fn rounds_ask_for_other_keys() {
        let keys: Vec<u64> = (0..10).collect();
        let mut queries = Queries { keys: &keys, next: 0, count: 4 };
        let rounds = [queries.round(), queries.round(), queries.round()].map(<[u64]>::to_vec);
        assert_eq!(rounds, [vec![0, 1, 2, 3], vec![4, 5, 6, 7], vec![0, 1, 2, 3]]);
    }
}
