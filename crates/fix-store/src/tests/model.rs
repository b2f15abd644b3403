//! The files against the store in memory: whatever is done, they say the same.

use fix_session::{MemoryStore, MessageStore, MessageStores};
use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Op {
    Put {
        session: usize,
        length: usize,
    },
    Receive {
        session: usize,
        length: usize,
    },
    SetNextIn {
        session: usize,
        seq: u64,
    },
    Reset {
        session: usize,
        unix_ms: i64,
    },
    Get {
        session: usize,
        from: u64,
        count: u64,
    },
    Flush {
        both: bool,
    },
    SetNumbers {
        session: usize,
        next_out: u64,
        next_in: u64,
    },
    /// The process ends at once, and begins again.
    Crash,
}

fn op() -> impl Strategy<Value = Op> {
    let session = 0..2_usize;
    prop_oneof![
        8 => (session.clone(), 0..400_usize).prop_map(|(session, length)| Op::Put { session, length }),
        4 => (session.clone(), 0..400_usize).prop_map(|(session, length)| Op::Receive { session, length }),
        3 => (session.clone(), 1..50_u64).prop_map(|(session, seq)| Op::SetNextIn { session, seq }),
        1 => (session.clone(), 0..9_i64).prop_map(|(session, unix_ms)| Op::Reset { session, unix_ms }),
        4 => (session.clone(), 0..30_u64, 1..12_u64)
            .prop_map(|(session, from, count)| Op::Get { session, from, count }),
        5 => any::<bool>().prop_map(|both| Op::Flush { both }),
        1 => (session, prop_oneof![6 => 1..40_u64, 1 => 999_999_000..999_999_999_u64], 1..40_u64)
            .prop_map(|(session, next_out, next_in)| Op::SetNumbers { session, next_out, next_in }),
        2 => Just(Op::Crash),
    ]
}

/// The store in memory, and what it was at the last flush.
#[derive(Clone)]
struct Model {
    now: [MemoryStore; 2],
    flushed: [MemoryStore; 2],
}

impl Model {
    fn flush(&mut self, sessions: &[usize]) {
        for at in sessions {
            self.flushed[*at] = self.now[*at].clone();
        }
    }
}

fn check(ops: Vec<Op>, segment_bytes: u64, (growth, steps): (u64, usize)) {
    crate::numbers::growth::set(growth);
    crate::handover::here::set_steps(steps);
    let root = folder();
    let mut stores = open(root.path(), segment_bytes);
    let both = [MemoryStore::new(START_MS), MemoryStore::new(START_MS)];
    let mut model = Model { now: both.clone(), flushed: both };
    for (number, op) in ops.into_iter().enumerate() {
        match op {
            Op::Put { session, length } => {
                let message = message("M", number as u64, length);
                stores.store(session).put(&message).unwrap();
                model.now[session].put(&message).unwrap();
            }
            Op::Receive { session, length } => {
                stores.store(session).note_received(&message("R", number as u64, length));
            }
            Op::SetNextIn { session, seq } => {
                stores.store(session).set_next_in(seq).unwrap();
                model.now[session].set_next_in(seq).unwrap();
            }
            Op::Reset { session, unix_ms } => {
                stores.store(session).reset(unix_ms).unwrap();
                model.now[session].reset(unix_ms).unwrap();
            }
            Op::Get { session, from, count } => {
                for seq in from..from + count {
                    let found = got(stores.store(session), seq);
                    assert_eq!(found, got(&mut model.now[session], seq), "{session} {seq}");
                }
                let next = stores.store(session).next_kept(from);
                assert_eq!(next, model.now[session].next_kept(from), "{session} {from}");
                // What was found is read from where it was found.
                if let Some(seq) = next {
                    let found = got(stores.store(session), seq);
                    assert_eq!(found, got(&mut model.now[session], seq), "{session} {seq}");
                }
            }
            Op::Flush { both } => {
                let sessions = if both { &[0, 1][..] } else { &[1] };
                stores.flush(sessions).unwrap();
                model.flush(sessions);
            }
            Op::SetNumbers { session, next_out, next_in } => {
                stores.flush(&[session]).unwrap();
                stores.set_numbers(session, next_out, next_in).unwrap();
                model.now[session].set_next_out(next_out);
                model.now[session].set_next_in(next_in).unwrap();
                model.flush(&[session]);
            }
            Op::Crash => {
                drop(stores);
                stores = open(root.path(), segment_bytes);
                model.now = model.flushed.clone();
            }
        }
        let numbers = |store: &dyn Numbers| (store.out(), store.expected(), store.created());
        for at in [0, 1] {
            assert_eq!(numbers(stores.store(at)), numbers(&model.now[at]), "{number}");
        }
    }
    stores.flush(&[0, 1]).unwrap();
    let wanted = [0, 1].map(|at| seen(&mut model.now[at]));
    assert_eq!(seen_both(&mut stores), wanted);
    assert_eq!(kept_both(&mut stores), [0, 1].map(|at| kept(&mut model.now[at])));
    drop(stores);
    let mut stores = open(root.path(), segment_bytes);
    assert_eq!(seen_both(&mut stores), wanted);
    assert_eq!(kept_both(&mut stores), [0, 1].map(|at| kept(&mut model.now[at])));
}

fn kept_both(stores: &mut Stores) -> [Vec<u64>; 2] {
    [0, 1].map(|at| kept(stores.store(at)))
}

/// All numbers that have a message, from one to the next.
fn kept(store: &mut impl MessageStore) -> Vec<u64> {
    let (mut numbers, mut seq) = (Vec::new(), 1);
    while let Some(next) = store.next_kept(seq) {
        numbers.push(next);
        seq = next + 1;
    }
    numbers
}

/// The numbers of any store.
trait Numbers {
    fn out(&self) -> u64;
    fn expected(&self) -> u64;
    fn created(&self) -> i64;
}

impl<S: MessageStore> Numbers for S {
    fn out(&self) -> u64 {
        self.next_out()
    }

    fn expected(&self) -> u64 {
        self.next_in()
    }

    fn created(&self) -> i64 {
        self.created_unix_ms()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_files_say_what_the_store_in_memory_says(
        ops in proptest::collection::vec(op(), 1..80),
        segment_bytes in prop_oneof![Just(500_u64), Just(2_000), Just(4 << 20)],
        files in prop_oneof![Just((64 << 20, 1)), Just((1_500, 0)), Just((1_500, 1)), Just((700, 3))],
    ) {
        check(ops, segment_bytes, files);
    }
}

/// From one message to the next it is one step, over numbers that were never used and over damage.
#[test]
fn the_next_message_is_found_over_any_distance() {
    let root = folder();
    let mut stores = open(root.path(), 3_000);
    let put = |stores: &mut Stores, count: u64| {
        for _ in 0..count {
            let seq = stores.store(0).next_out();
            stores.store(0).put(&message("M", seq, 300)).unwrap();
            stores.flush(&[0]).unwrap();
        }
    };
    put(&mut stores, 20);
    stores.set_numbers(0, 999_999_900, 1).unwrap();
    for seq in 0..100 {
        stores.store(0).note_received(&message("R", seq, 300));
        stores.flush(&[0]).unwrap();
    }
    put(&mut stores, 5);
    let wanted = Vec::from_iter((1..=20).chain(999_999_900..999_999_905));
    assert_eq!(kept(stores.store(0)), wanted);
    drop(stores);
    let mut stores = open(root.path(), 3_000);
    assert_eq!(kept(stores.store(0)), wanted);
    // The second segment is damaged from its first record on, and the third is gone.
    let path = |number| crate::segment::path(&root.path().join("s-A"), number);
    let mut bytes = std::fs::read(path(2)).unwrap();
    bytes[64..].fill(0xee);
    std::fs::write(path(2), bytes).unwrap();
    std::fs::remove_file(path(3)).unwrap();
    let left = kept(stores.store(0));
    assert!(left.len() < wanted.len() && left.len() >= 10, "{left:?}");
    let has: Vec<u64> =
        wanted.into_iter().filter(|seq| got(stores.store(0), *seq).is_some()).collect();
    assert_eq!(left, has);
}

/// What cannot be read at the moment is not taken for a gap: no more than the number that was asked for.
#[test]
fn a_segment_that_cannot_be_opened_hides_no_messages_behind_it() {
    let root = folder();
    let mut stores = open(root.path(), 3_000);
    for seq in 1..=40 {
        stores.store(0).put(&message("M", seq, 300)).unwrap();
        stores.flush(&[0]).unwrap();
    }
    drop(stores);
    let mut stores = open(root.path(), 3_000);
    let path = crate::segment::path(&root.path().join("s-A"), 2);
    let away = path.with_extension("away");
    let first = (1..=40).find(|seq| {
        std::fs::rename(&path, &away).unwrap();
        let is_in_it = got(stores.store(0), *seq).is_none();
        std::fs::rename(&away, &path).unwrap();
        is_in_it
    });
    let first = first.unwrap();
    drop(stores);
    let mut stores = open(root.path(), 3_000);
    std::fs::rename(&path, &away).unwrap();
    // A name that leads to itself: the system opens it for nobody.
    std::os::unix::fs::symlink(&path, &path).unwrap();
    for seq in [first, first + 1] {
        assert!(got(stores.store(0), seq).is_none());
        assert_eq!(stores.store(0).next_kept(seq), Some(seq));
    }
    std::fs::remove_file(&path).unwrap();
    std::fs::rename(&away, &path).unwrap();
    assert_eq!(kept(stores.store(0)), Vec::from_iter(1..=40));
}

/// Segments of several pages, and ranges that are longer than a page.
#[test]
fn long_ranges_are_found_in_order_and_at_random() {
    let root = folder();
    let mut stores = open(root.path(), 100_000);
    for seq in 1..=2_000 {
        stores.store(0).note_received(&message("R", seq, 30));
        stores.store(0).put(&message("M", seq, 100)).unwrap();
        if seq % 7 == 0 {
            stores.flush(&[0]).unwrap();
        }
    }
    stores.flush(&[0]).unwrap();
    for reopened in [false, true] {
        if reopened {
            drop(stores);
            stores = open(root.path(), 100_000);
        }
        let store = stores.store(0);
        for seq in (1..=2_000).chain((1..=2_000).rev().step_by(37)) {
            assert_eq!(got(store, seq), Some(message("M", seq, 100)), "{seq}");
        }
        assert_eq!(got(store, 2_001), None);
    }
}
