//! How often the disk is asked for something.

use disk::planted::{Calls, calls_of};

use super::*;

/// Keeps `messages` that the session `A` takes and the session `B` passes on, each with a record in the book of `B`, in `steps` steps.
fn pass(stores: &mut Stores, messages: u64, steps: u64) -> Calls {
    calls_of(|| {
        for _ in 0..steps {
            for number in 0..messages / steps {
                stores.store(0).note_received(&message("R", number, 150));
                let next_in = stores.store(0).next_in() + 1;
                stores.store(0).set_next_in(next_in).unwrap();
                stores.store(1).put(&message("M", number, 150)).unwrap();
                stores.book(1).unwrap().unwrap().put(b"11=id").unwrap();
            }
            stores.flush(&[0, 1]).unwrap();
        }
    })
}

fn opened(root: &Path, durability: Durability) -> Stores {
    let mut stores = open(root, 4 << 20);
    [0, 1].into_iter().for_each(|at| stores.set_durability(at, durability));
    // From the second step on the segments are there.
    pass(&mut stores, 1, 1);
    stores
}

#[test]
fn a_step_is_one_write_and_one_wait_however_many_messages_it_has() {
    for (durability, syncs) in [(Durability::Written, 0), (Durability::Sealed, 1)] {
        let root = folder();
        let mut stores = opened(root.path(), durability);
        for messages in [1, 2, 16, 100] {
            let calls = pass(&mut stores, messages, 1);
            assert_eq!(calls, Calls { writes: 1, syncs }, "{messages} messages, {durability:?}");
        }
    }
}

/// Segments are written when there is much to write, and waited for only when the records of a sealed step would be nowhere else.
#[test]
fn a_burst_of_steps_is_little_more_than_a_write_and_a_wait_each() {
    const STEPS: u64 = 1_000;
    for (durability, syncs) in [(Durability::Written, 0), (Durability::Sealed, STEPS)] {
        let root = folder();
        let mut stores = opened(root.path(), durability);
        let calls = pass(&mut stores, STEPS, STEPS);
        assert_eq!(calls.syncs, syncs, "{durability:?}");
        assert!((STEPS + 1..STEPS + STEPS / 50).contains(&calls.writes), "{calls:?}");
        let before = seen_both(&mut stores);
        drop(stores);
        assert_eq!(seen_both(&mut open(root.path(), 4 << 20)), before, "after a crash");
    }
}
