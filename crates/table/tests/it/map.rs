//! `Map` beside `std::collections::HashMap`.

use std::collections::HashMap;

use proptest::prelude::*;
use table::{DuplicateKey, Map, Secret};

const SECRET: u128 = 0x0123_4567_89ab_cdef_fedc_ba98_7654_3210;
/// Miri runs the same tests, on less.
const CASES: u32 = if cfg!(miri) { 4 } else { 256 };

#[derive(Clone, Debug)]
enum Step {
    Insert(u64, u32),
    Remove(u64),
    Get(u64),
}

/// Few different keys, so that steps meet; the extremes among them.
fn key() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0u64..40, 2 => (0u64..40).prop_map(|n| n << 58), 1 => Just(u64::MAX)]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (key(), any::<u32>()).prop_map(|(key, value)| Step::Insert(key, value)),
        2 => key().prop_map(Step::Remove),
        1 => key().prop_map(Step::Get),
    ]
}

fn check_all(map: &Map<u32>, model: &HashMap<u64, u32>) {
    assert_eq!(map.len(), model.len());
    assert_eq!(map.is_empty(), model.is_empty());
    let found: HashMap<u64, u32> = map.iter().collect();
    assert_eq!(&found, model);
    for (&key, &value) in model {
        assert_eq!(map.get(key), Some(value));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..Default::default() })]

    #[test]
    fn behaves_like_the_standard_map(
        secret in any::<u128>(),
        steps in proptest::collection::vec(step(), 0..300),
    ) {
        let mut map = Map::with_capacity(Secret::new(secret), 0);
        let mut model = HashMap::new();
        for step in steps {
            match step {
                Step::Insert(key, value) => {
                    prop_assert_eq!(map.insert(key, value), model.insert(key, value));
                }
                Step::Remove(key) => prop_assert_eq!(map.remove(key), model.remove(&key)),
                Step::Get(key) => prop_assert_eq!(map.get(key), model.get(&key).copied()),
            }
        }
        check_all(&map, &model);
    }

    #[test]
    fn a_batch_answers_like_its_keys_one_by_one(
        entries in proptest::collection::hash_map(key(), any::<u32>(), 0..80),
        asked in proptest::collection::vec(key(), 0..70),
    ) {
        let map = Map::build(Secret::new(SECRET), entries).expect("a map has distinct keys");
        let mut out = vec![Some(7); asked.len() + 1];
        map.get_batch(&asked, &mut out);
        let singly: Vec<Option<u32>> = asked.iter().map(|&key| map.get(key)).collect();
        prop_assert_eq!(&out[..asked.len()], &singly[..]);
        prop_assert_eq!(out[asked.len()], Some(7));
    }
}

/// The hard part of removal is a full line with keys that overflowed over it. At the highest load,
/// removing and putting back at random keeps every key reachable.
#[test]
fn removal_at_full_load_keeps_every_key_reachable() {
    let rounds = if cfg!(miri) { 3 } else { 200 };
    for round in 0..rounds {
        let mut map = Map::with_capacity(Secret::new(SECRET + round), 64);
        let mut model = HashMap::new();
        for key in 0..64u64 {
            map.insert(key, 0);
            model.insert(key, 0);
        }
        let bytes = map.bytes();
        for turn in 0..400u32 {
            let key = u64::from(turn).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 57;
            assert_eq!(map.remove(key), model.remove(&key));
            let other = u64::from(turn.wrapping_mul(2_654_435_761) >> 26);
            assert_eq!(map.insert(other, turn), model.insert(other, turn));
            if model.len() > 64 {
                let first = *model.keys().min().expect("it is not empty");
                assert_eq!(map.remove(first), model.remove(&first));
            }
        }
        check_all(&map, &model);
        assert!(map.bytes() <= 2 * bytes, "turnover alone made the table grow");
    }
}

#[test]
fn removing_everything_leaves_nothing_behind() {
    let count = if cfg!(miri) { 500 } else { 20_000 };
    let mut map = Map::build(Secret::new(SECRET), (0..count).map(|n| (n, n))).expect("distinct");
    for key in (0..count).rev() {
        assert_eq!(map.remove(key), Some(key));
        assert_eq!(map.remove(key), None);
    }
    assert!(map.is_empty());
    assert_eq!(map.iter().count(), 0);
    assert_eq!(map.probe_lengths().max, 0);
}

#[test]
fn a_duplicate_key_is_refused_by_name() {
    let twice = Map::build(Secret::new(SECRET), [(0, 'a'), (9, 'b'), (0, 'c')]);
    let error = twice.expect_err("key 0 appears twice");
    assert_eq!(error, DuplicateKey { key: 0 });
    assert!(error.to_string().contains("key 0 is given twice"));
}

#[test]
fn key_zero_and_the_largest_are_keys_like_others() {
    let mut map = Map::with_capacity(Secret::new(SECRET), 2);
    assert_eq!((map.get(0), map.get(u64::MAX)), (None, None));
    map.insert(0, 10u64);
    assert_eq!((map.get(0), map.get(u64::MAX)), (Some(10), None));
    map.insert(u64::MAX, 11);
    assert_eq!(map.remove(0), Some(10));
    assert_eq!((map.get(0), map.get(u64::MAX)), (None, Some(11)));
}

/// The load stays at or below one half, and room asked for is there without growing.
#[test]
fn room_asked_for_is_there() {
    for capacity in [0usize, 1, 3, 4, 5, 31, 32, 33, 1_000] {
        let mut map = Map::with_capacity(Secret::new(SECRET), capacity);
        let bytes = map.bytes();
        for key in 0..capacity as u64 {
            map.insert(key, 1u32);
        }
        assert_eq!(map.bytes(), bytes, "capacity {capacity} grew");
        assert!(map.bytes() / 64 * 4 >= 2 * capacity, "capacity {capacity} is loaded above half");
    }
}
