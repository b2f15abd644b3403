//! Messages that may not have reached the peer, over resets of the numbers.

use fix_session::{MemoryStore, Waiting};
use proptest::prelude::*;

use super::*;

/// Takes everything that waits.
fn waiting(store: &mut impl MessageStore, most: usize) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    while found.len() < most {
        let mut into = Vec::new();
        match store.next_waiting(&mut into) {
            Waiting::None => {
                store.pass_waiting();
                break;
            }
            Waiting::Message => found.push(into),
            other => panic!("{other:?}"),
        }
        store.pass_waiting();
    }
    found
}

fn sent(numbers: std::ops::RangeInclusive<u64>) -> Vec<Vec<u8>> {
    numbers.map(|number| message("M", number, 100)).collect()
}

fn put(stores: &mut Stores, numbers: std::ops::RangeInclusive<u64>) {
    for number in numbers {
        stores.store(0).note_received(&message("R", number, 30));
        stores.store(0).put(&message("M", number, 100)).unwrap();
        stores.flush(&[0]).unwrap();
    }
}

#[test]
fn what_is_unsure_waits_after_each_kind_of_reset_and_after_a_crash() {
    for (segment_bytes, kind) in [(300, 0), (4 << 20, 0), (300, 1), (4 << 20, 1), (300, 2)] {
        let root = folder();
        let mut stores = open(root.path(), segment_bytes);
        put(&mut stores, 1..=9);
        stores.store(0).set_unsure_from(Some(6));
        assert!(!stores.store(0).has_waiting());
        match kind {
            0 => {
                // A message of the step in which the numbers begin again is one of those before.
                stores.store(0).put(&message("M", 10, 100)).unwrap();
                stores.store(0).reset(START_MS).unwrap();
                assert_eq!(stores.store(0).next_waiting(&mut Vec::new()), Waiting::Later);
                stores.flush(&[0]).unwrap();
            }
            1 => {
                put(&mut stores, 10..=10);
                stores.set_numbers(0, 500, 3).unwrap();
            }
            _ => {
                put(&mut stores, 10..=10);
                stores.set_numbers(0, 2, 3).unwrap();
            }
        }
        assert_eq!(stores.store(0).unsure_from(), Some(stores.store(0).next_out()));
        drop(stores);
        let mut stores = open(root.path(), segment_bytes);
        assert!(stores.store(0).has_waiting());
        assert_eq!(waiting(stores.store(0), 2), sent(6..=7));
        // What was passed and not flushed waits again after a crash; what was flushed does not.
        drop(stores);
        let mut stores = open(root.path(), segment_bytes);
        assert_eq!(waiting(stores.store(0), 2), sent(6..=7), "{segment_bytes} {kind}");
        stores.flush(&[0]).unwrap();
        drop(stores);
        let mut stores = open(root.path(), segment_bytes);
        assert_eq!(waiting(stores.store(0), 99), sent(8..=10));
        assert!(!stores.store(0).has_waiting());
    }
}

#[test]
fn a_life_in_one_step_waits_too_and_one_that_nobody_follows_does_not() {
    let root = folder();
    let mut stores = open(root.path(), 4 << 20);
    stores.store(0).set_unsure_from(Some(1));
    for number in 1..=3 {
        stores.store(0).put(&message("M", number, 100)).unwrap();
        stores.store(0).reset(START_MS).unwrap();
    }
    stores.store(0).put(&message("M", 9, 100)).unwrap();
    stores.flush(&[0]).unwrap();
    assert_eq!(waiting(stores.store(0), 99), sent(1..=3));
    stores.store(0).reset(START_MS).unwrap();
    stores.store(0).set_unsure_from(None);
    stores.flush(&[0]).unwrap();
    assert_eq!(waiting(stores.store(0), 99), Vec::<Vec<u8>>::new());
    put(&mut stores, 1..=3);
    stores.store(0).reset(START_MS).unwrap();
    stores.flush(&[0]).unwrap();
    assert_eq!(waiting(stores.store(0), 99), Vec::<Vec<u8>>::new());
}

#[test]
fn age_removes_nothing_that_waits_and_what_is_lost_is_told() {
    let root = folder();
    let options = Options { segment_bytes: 300, keep_days: 1, ..Options::default() };
    let mut stores = FileStores::open(root.path(), options).unwrap();
    stores.add("A", Durability::Written, START_MS).unwrap();
    stores.set_time(START_MS * 1_000);
    put(&mut stores, 1..=9);
    stores.store(0).set_unsure_from(Some(4));
    stores.store(0).reset(START_MS).unwrap();
    put(&mut stores, 10..=10);
    stores.set_time((START_MS + 10 * 86_400_000) * 1_000);
    put(&mut stores, 11..=12);
    assert!(stores.trim() > 0);
    assert_eq!(waiting(stores.store(0), 2), sent(4..=5));
    stores.flush(&[0]).unwrap();
    // The file of the next one is gone.
    let mut files: Vec<_> = std::fs::read_dir(root.path().join("s-A")).unwrap().collect();
    files.sort_by_key(|file| file.as_ref().unwrap().path());
    let lost = stores.store(0).flushed().waiting_from.segment + 1;
    let path = root.path().join(format!("s-A/{lost:08}.fix"));
    drop(stores);
    std::fs::remove_file(path).unwrap();
    let mut stores = FileStores::open(root.path(), options).unwrap();
    stores.add("A", Durability::Written, START_MS).unwrap();
    let mut found = Vec::new();
    let mut losses = 0;
    loop {
        let mut into = Vec::new();
        match stores.store(0).next_waiting(&mut into) {
            Waiting::None => break,
            Waiting::Message => found.push(into),
            Waiting::Lost => losses += 1,
            Waiting::Later => panic!("nothing is staged"),
        }
        stores.store(0).pass_waiting();
    }
    assert_eq!(losses, 1);
    assert_eq!(found.last(), sent(9..=9).last());
}

#[derive(Clone, Debug)]
enum Op {
    Put,
    Sure(u64),
    Reset,
    SetNextOut(u64),
    Flush,
    Take(usize),
    Crash,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => Just(Op::Put),
        2 => (0..4_u64).prop_map(Op::Sure),
        1 => Just(Op::Reset),
        1 => (1..40_u64).prop_map(Op::SetNextOut),
        4 => Just(Op::Flush),
        2 => (0..5_usize).prop_map(Op::Take),
        1 => Just(Op::Crash),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever happens between them: what waits in memory waits in the files, in the same order. There may be more in the files: what
    /// waits is one stretch of them.
    #[test]
    fn nothing_that_waits_is_left_out(
        ops in proptest::collection::vec(op(), 1..80),
        segment_bytes in prop_oneof![Just(300_u64), Just(2_000), Just(4 << 20)],
    ) {
        let root = folder();
        let mut stores = open(root.path(), segment_bytes);
        let mut model = MemoryStore::new(START_MS);
        stores.store(0).set_unsure_from(Some(1));
        model.set_unsure_from(Some(1));
        stores.flush(&[0]).unwrap();
        let mut flushed = model.clone();
        // The first number since numbers began again or were set: now, and at the last flush.
        let mut floor = (1, 1);
        let mut number = 0;
        for op in ops {
            match op {
                Op::Put => {
                    number += 1;
                    stores.store(0).put(&message("M", number, 100)).unwrap();
                    model.put(&message("M", number, 100)).unwrap();
                }
                Op::Sure(less) => {
                    // What waits already is not unsure once more.
                    let seq = model.next_out().saturating_sub(less).max(floor.0);
                    stores.store(0).set_unsure_from(Some(seq));
                    model.set_unsure_from(Some(seq));
                }
                Op::Reset => {
                    stores.store(0).reset(START_MS).unwrap();
                    model.reset(START_MS).unwrap();
                    floor.0 = 1;
                }
                Op::SetNextOut(seq) => {
                    stores.flush(&[0]).unwrap();
                    stores.set_numbers(0, seq, 1).unwrap();
                    model.set_next_out(seq);
                    model.set_next_in(1).unwrap();
                    floor.0 = model.next_out();
                }
                Op::Take(_) | Op::Flush => stores.flush(&[0]).unwrap(),
                Op::Crash => {
                    drop(stores);
                    stores = open(root.path(), segment_bytes);
                    model = flushed.clone();
                    floor.0 = floor.1;
                }
            }
            if let Op::Take(most) = op {
                // As many as make the model go on by so many.
                for wanted in waiting(&mut model, most) {
                    while waiting(stores.store(0), 1).first().expect("as many as the model") != &wanted {}
                }
                stores.flush(&[0]).unwrap();
            }
            if matches!(op, Op::Flush | Op::Take(_) | Op::SetNextOut(_)) {
                flushed = model.clone();
                floor.1 = floor.0;
            }
            prop_assert_eq!(stores.store(0).unsure_from(), model.unsure_from());
        }
        stores.flush(&[0]).unwrap();
        let found = waiting(stores.store(0), usize::MAX);
        let mut found = found.iter();
        for wanted in waiting(&mut model, usize::MAX) {
            prop_assert!(found.any(|one| *one == wanted), "{wanted:?}");
        }
    }
}
