//! Looking up a budget by its handle among 50,000: what the worker does beside the standard map and the fastest one.
//!
//! The texts that are asked for lie one behind the other, as in the bodies of requests; the next one cannot be known before the last
//! budget was found. Strangers choose handles, where budgets are made from templates, so hashes have a key: one without is no rival.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::hint::black_box;

use probe::compare::Random;
use table::{Secret, TextMap};

use super::{Meaning, Pair};
use crate::race::{Done, Way, race};
use crate::{Error, Size};

const BUDGETS: usize = 50_000;
const LOOKUPS: usize = 100_000;
const ROUNDS: usize = 11;

/// Handles as people write them, of 14 to 24 bytes.
fn handle(number: usize) -> String {
    let models = ["gpt-5", "sonnet", "small", "embeddings", "vision"];
    format!("team-{:05}/{}", number * 7_919 % 100_003, models[number % models.len()])
}

/// Makes `names/handle`.
///
/// # Errors
/// The ways did different work.
pub fn run(size: Size) -> Result<Vec<Pair>, Error> {
    let budgets = size.pick(BUDGETS, 500);
    let names: Vec<String> = (0..budgets).map(handle).collect();
    let mut random = Random::new(5);
    let asked: Vec<&str> =
        (0..size.pick(LOOKUPS, 1_000)).map(|_| &*names[random.below(budgets)]).collect();
    let numbered = || names.iter().map(String::as_str).zip(0_u32..);
    let budget = |slot: u32| (slot, u64::from(slot) + 1_000);
    let slow: HashMap<Box<str>, (u32, u64)> =
        numbered().map(|(name, slot)| (name.into(), budget(slot))).collect();
    let mut fast: hashbrown::HashMap<Box<str>, (u32, u64), foldhash::quality::RandomState> =
        hashbrown::HashMap::default();
    fast.extend(numbered().map(|(name, slot)| (Box::from(name), budget(slot))));
    let secret = Secret::new(slow.hasher().hash_one(1).into());
    let entries = numbered().map(|(name, slot)| (name, bytes(budget(slot))));
    let ours: TextMap<12> = TextMap::build(secret, entries).expect("handles are distinct");
    let ways: Vec<Way<'_>> = vec![
        ("table::TextMap", chained(&asked, |name| ours.get(name).map(slot))),
        ("std, SipHash", chained(&asked, |name| slow.get(name).map(|budget| budget.0))),
        ("hashbrown + foldhash", chained(&asked, |name| fast.get(name).map(|budget| budget.0))),
    ];
    let meaning = Meaning {
        rival: Some("std, SipHash"),
        faster: "slots of four bytes over texts in one place stay",
        slower: "texts in one place do not pay for themselves",
        level: "texts in one place are worth no more than the standard map",
    };
    let what = format!("{budgets} handles, hits, each text depends on the budget before.");
    let outcomes = race(size.pick(ROUNDS, 1), ways)?;
    Ok(vec![Pair::new("names/handle", what, "lookup", outcomes, &meaning)])
}

/// A budget's slot and id, as the worker keeps them.
fn bytes((slot, id): (u32, u64)) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[..4].copy_from_slice(&slot.to_le_bytes());
    bytes[4..].copy_from_slice(&id.to_le_bytes());
    bytes
}

fn slot(budget: [u8; 12]) -> u32 {
    u32::from_le_bytes([budget[0], budget[1], budget[2], budget[3]])
}

fn chained<'a>(
    asked: &[&str],
    get: impl Fn(&str) -> Option<u32> + 'a,
) -> Box<dyn FnMut() -> Done + 'a> {
    let texts: String = asked.concat();
    let ends: Vec<usize> = asked
        .iter()
        .scan(0, |end, name| {
            *end += name.len();
            Some(*end)
        })
        .collect();
    Box::new(move || {
        // Zero, which the compiler cannot know: what ties each text to the budget before it.
        let zero = black_box(0_usize);
        let (mut chain, mut from) = (0_u64, 0);
        for &end in &ends {
            let tie = usize::try_from(chain).unwrap_or(0) & zero;
            chain = chain.wrapping_add(get(&texts[from + tie..end]).map_or(1, u64::from));
            from = end;
        }
        Done { operations: ends.len() as u64, result: black_box(chain) }
    })
}
