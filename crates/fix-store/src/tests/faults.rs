//! Disks that fail or are full: what was flushed stays, what was not is not half there, and it goes on when the disk does.

use super::*;
use crate::disk::fault::{self, Fault};

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
        let faults_met = fail_anywhere();
        assert!(faults_met > 60, "{faults_met}");
    }
}

/// Returns how many faults lasted, and were met.
fn fail_anywhere() -> u64 {
    let mut faults_met = 0;
    for after in 0..200 {
        for fault in [Fault::OnceAfter(after), Fault::FullAfter(after), Fault::DeadAfter(after)] {
            let root = folder();
            let mut stores = open(root.path(), 700);
            let mut model = seen_both(&mut stores);
            fault::set(fault);
            let refused = work(&mut stores, 1, &mut model);
            let met = !matches!(fault::get(), Fault::OnceAfter(_)) && refused > 0;
            fault::set(Fault::None);
            faults_met += u64::from(met);
            // The disk works again: nothing is refused any more.
            assert_eq!(work(&mut stores, 100, &mut model), 0, "{fault:?}");
            drop(stores);
            assert_eq!(seen_both(&mut open(root.path(), 700)), model, "{fault:?}");
        }
    }
    faults_met
}

#[test]
fn a_crash_while_the_disk_is_bad_leaves_what_was_flushed() {
    for after in 0..60 {
        let root = folder();
        let mut stores = open(root.path(), 700);
        let mut model = seen_both(&mut stores);
        fault::set(Fault::DeadAfter(after));
        work(&mut stores, 1, &mut model);
        drop(stores);
        fault::set(Fault::None);
        assert_eq!(seen_both(&mut open(root.path(), 700)), model, "{after}");
    }
}

/// A disk that is full for long does not fill up with the beginnings of segments.
#[test]
fn a_full_disk_is_not_filled_with_empty_files() {
    let root = folder();
    let mut stores = open(root.path(), 700);
    let mut model = seen_both(&mut stores);
    work(&mut stores, 1, &mut model);
    fault::set(Fault::FullAfter(1));
    for round in 1..20 {
        assert_eq!(work(&mut stores, 100 * round, &mut model), STEPS);
    }
    fault::set(Fault::None);
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
