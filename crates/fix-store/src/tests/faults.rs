//! Disks that fail or are full: what was flushed stays, what was not is not half there, and it goes on when the disk does.

use disk::planted::{FAULTS, Fault, Planted, at_each_operation};

use super::*;

const STEPS: u64 = 12;

/// Works in steps, some of which the disk refuses. After each the store is as the model says. Returns how many were refused.
fn work(stores: &mut Stores, first: u64, model: &mut [Seen; 2]) -> u64 {
    let mut refused = 0;
    for step in first..first + STEPS {
        for (at, name) in ["A", "B"].into_iter().enumerate() {
            let store = stores.store(at);
            store.set_next_in(step + 1).unwrap();
            store.put(&message(name, step, 100)).unwrap();
        }
        match stores.flush(&[0, 1]) {
            Ok(()) => {
                for (at, name) in ["A", "B"].into_iter().enumerate() {
                    model[at].numbers.0 += 1;
                    model[at].numbers.1 = step + 1;
                    model[at].messages.push(Some(message(name, step, 100)));
                }
            }
            Err(error) => {
                refused += 1;
                assert!(error.reason.contains("free space on this disk"), "{error}");
            }
        }
        assert_eq!(seen_both(stores), *model, "step {step}");
    }
    refused
}

#[test]
fn what_fails_changes_nothing_and_work_goes_on_afterwards() {
    for (growth, steps) in [(64 << 20, 1), (1_500, 1), (1_500, usize::MAX)] {
        crate::numbers::growth::set(growth);
        crate::handover::here::set_steps(steps);
        let met = at_each_operation(&FAULTS, |root, planted| {
            let mut stores = open(root, 700);
            let mut model = seen_both(&mut stores);
            planted.during(|| work(&mut stores, 1, &mut model));
            // The disk works again: nothing is refused any more.
            assert_eq!(work(&mut stores, 100, &mut model), 0, "{planted:?}");
            drop(stores);
            assert_eq!(seen_both(&mut open(root, 700)), model, "{planted:?}");
        });
        assert!(met > 60, "{met}");
    }
}

/// A disk that is full once is not told to anybody who has something to keep, but that there is little room.
#[test]
fn a_full_disk_takes_what_it_has_room_set_aside_for() {
    crate::numbers::growth::set(1_500);
    let mut was_short = 0;
    let met = at_each_operation(&[Fault::Once], |root, planted| {
        let options = Options { segment_bytes: 700, reserve_bytes: 64 << 10, ..Options::default() };
        let mut stores = FileStores::open(root, options).unwrap();
        for name in ["A", "B"] {
            stores.add(name, Durability::Written, START_MS).unwrap();
        }
        let mut model = seen_both(&mut stores);
        assert!(!stores.is_short() && root.join("reserve").exists());
        assert_eq!(planted.during(|| work(&mut stores, 1, &mut model)).0, 0, "{planted:?}");
        was_short += usize::from(stores.is_short());
        assert_eq!(stores.is_short(), !root.join("reserve").exists());
        stores.look().unwrap();
        assert!(!stores.is_short() && root.join("reserve").exists());
        drop(stores);
        assert_eq!(seen_both(&mut open(root, 700)), model, "{planted:?}");
    });
    assert!(was_short > 12 && met > 20, "{was_short} of {met}");
}

#[test]
fn a_crash_while_the_disk_is_bad_leaves_what_was_flushed() {
    let met = at_each_operation(&[Fault::Dead], |root, planted| {
        let mut stores = open(root, 700);
        let mut model = seen_both(&mut stores);
        planted.during(|| {
            work(&mut stores, 1, &mut model);
            drop(stores);
        });
        assert_eq!(seen_both(&mut open(root, 700)), model, "{planted:?}");
    });
    assert!(met > 20, "{met}");
}

/// A disk that is full for long does not fill up with the beginnings of segments.
#[test]
fn a_full_disk_is_not_filled_with_empty_files() {
    let root = folder();
    let mut stores = open(root.path(), 700);
    let mut model = seen_both(&mut stores);
    work(&mut stores, 1, &mut model);
    Planted { fault: Fault::Full, after: 1 }.during(|| {
        for round in 1..20 {
            assert_eq!(work(&mut stores, 100 * round, &mut model), STEPS);
        }
    });
    let files = crate::segment::numbers(&root.path().join("s-A")).unwrap();
    assert!(files.len() < 10, "{files:?}");
}

/// A segment that cannot be written while the numbers can: what was kept is there, is sent again, and outlives the process. When there is too
/// much of it, nothing more is kept.
#[test]
fn what_cannot_go_to_its_segment_is_kept_with_the_numbers() {
    let root = folder();
    let mut stores = open(root.path(), 1 << 30);
    let put = |stores: &mut Stores, seq| {
        stores.store(0).put(&message("M", seq, 20_000)).unwrap();
        stores.flush(&[0])
    };
    put(&mut stores, 1).unwrap();
    stores.store(0).break_segment();
    let kept = (2..1_000).take_while(|seq| put(&mut stores, *seq).is_ok()).last().unwrap();
    assert!((100..300).contains(&kept), "{kept}");
    let all_are_there = |stores: &mut Stores| {
        let store = stores.store(0);
        assert_eq!(store.next_out(), kept + 1);
        (1..=kept).all(|seq| got(store, seq) == Some(message("M", seq, 20_000)))
    };
    assert!(all_are_there(&mut stores));
    stores.store(1).put(b"of another session").unwrap();
    stores.flush(&[1]).unwrap();
    let mut told = 0;
    crate::read_history(root.path(), "A", |kept| {
        told += u64::from(kept.message.is_some());
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(told, kept, "who reads beside the process sees them");
    drop(stores);
    let mut stores = open(root.path(), 1 << 30);
    assert!(all_are_there(&mut stores));
    put(&mut stores, kept + 1).unwrap();
}

/// Both sessions get a message; what became of each of them is what is told.
fn work_apart(stores: &mut Stores, step: u64, groups: [usize; 2], model: &mut [Seen; 2]) -> usize {
    for (at, name) in ["A", "B"].into_iter().enumerate() {
        stores.store(at).set_next_in(step + 1).unwrap();
        stores.store(at).put(&message(name, step, 100)).unwrap();
    }
    let failed = stores.flush_apart(&[0, 1], &groups);
    for (at, name) in ["A", "B"].into_iter().enumerate() {
        if failed.iter().all(|one| one.0 != at) {
            model[at].numbers.0 += 1;
            model[at].numbers.1 = step + 1;
            model[at].messages.push(Some(message(name, step, 100)));
        }
    }
    assert_eq!(seen_both(stores), *model, "step {step}");
    failed.len()
}

/// Wherever the disk fails, each session is as it was told, and two of a group are together.
#[test]
fn of_sessions_that_are_flushed_apart_each_is_as_it_is_told() {
    let mut alone = 0;
    for groups in [[7, 8], [7, 7]] {
        at_each_operation(&[Fault::Once, Fault::Full], |root, planted| {
            let mut stores = open(root, 700);
            let mut model = seen_both(&mut stores);
            planted.during(|| {
                for step in 1..=STEPS {
                    let failed = work_apart(&mut stores, step, groups, &mut model);
                    assert!(groups[0] != groups[1] || failed != 1, "{planted:?} {step}");
                    alone += usize::from(failed == 1);
                }
            });
            assert_eq!(work_apart(&mut stores, 100, groups, &mut model), 0, "{planted:?}");
            drop(stores);
            assert_eq!(seen_both(&mut open(root, 700)), model, "{planted:?}");
        });
    }
    assert!(alone > 10, "{alone}");
}

/// The folder of one session is gone: the other one goes on, and so does the first when its folder is back. A crash in between changes nothing.
#[test]
fn a_session_whose_folder_is_gone_takes_only_those_of_its_group_with_it() {
    for (groups, out) in [([7, 8], 1), ([7, 7], 2)] {
        let root = folder();
        let mut stores = open(root.path(), 300);
        let mut model = seen_both(&mut stores);
        (1..5).for_each(|step| assert_eq!(work_apart(&mut stores, step, groups, &mut model), 0));
        let [home, away] = ["s-A", "away"].map(|name| root.path().join(name));
        std::fs::rename(&home, &away).unwrap();
        // Messages of the segments that are away cannot be read, so the numbers are looked at.
        for step in 5..30 {
            for at in [0, 1] {
                stores.store(at).set_next_in(step + 1).unwrap();
                stores.store(at).put(&message(["A", "B"][at], step, 100)).unwrap();
            }
            let failed = stores.flush_apart(&[0, 1], &groups);
            assert_eq!(failed.len(), out, "{failed:?}");
            assert!(failed[0].0 == 0 && failed[0].1.reason.contains("s-A"), "{failed:?}");
            if let [_, (at, error)] = &failed[..] {
                assert_eq!(*at, 1);
                assert!(error.reason.starts_with("the session A, with which"), "{error}");
            }
            assert_eq!(stores.store(0).next_out(), 5);
        }
        let next = if out == 1 { 30 } else { 5 };
        assert_eq!((stores.store(1).next_out(), stores.store(1).next_in()), (next, next));
        // A flush of all at once is of all or of none.
        stores.store(0).put(b"x").unwrap();
        stores.store(1).put(b"x").unwrap();
        stores.flush(&[0, 1]).unwrap_err();
        assert_eq!(stores.store(1).next_out(), next);
        std::fs::rename(&away, &home).unwrap();
        if out == 2 {
            // Killed meanwhile.
            drop(stores);
            stores = open(root.path(), 300);
        }
        let mut model = seen_both(&mut stores);
        assert_eq!((model[0].numbers.0, model[1].numbers.0), (5, next));
        assert!(model.iter().all(|seen| seen.messages.iter().all(Option::is_some)));
        assert_eq!(work_apart(&mut stores, 50, groups, &mut model), 0);
        drop(stores);
        assert_eq!(seen_both(&mut open(root.path(), 300)), model);
    }
}
