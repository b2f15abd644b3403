//! Disks that fail or are full: what was acknowledged stays, what was refused is not half there.

use super::*;
use crate::disk::fault::{self, Fault};

const STEPS: u64 = 60;

/// Makes changes, some of which the disk refuses; a refused one changes nothing. Returns how many were refused.
fn work(store: &mut Store, first: u64) -> u64 {
    let mut refused = 0;
    for number in first..first + STEPS {
        let before = seen(store.keys());
        let change = if number % 20 < 5 { change(number) } else { change(number * 5 + 2) };
        match store.change(&change, 1_000) {
            Ok(_) | Err(KeyStoreError::Change(_)) => {}
            Err(KeyStoreError::Append(AppendError(why))) => {
                refused += 1;
                assert!(why.contains("free space on this disk"), "{why}");
                assert_eq!(seen(store.keys()), before, "{number}");
            }
            Err(other) => panic!("{other}"),
        }
    }
    refused
}

/// The keys with the record that was refused last, if it makes any.
fn with_refused(records: &[Vec<u8>], refused: Option<&Vec<u8>>) -> Option<Vec<Vec<u8>>> {
    let mut keys = replayed(records);
    keys.replay(refused?).ok()?;
    Some(seen(&keys))
}

#[test]
fn what_fails_changes_nothing_and_what_was_acknowledged_is_there() {
    let (mut met, mut closed, mut closed_by_one, mut went_on) = (0, 0, 0, 0);
    for after in 0..100 {
        for fault in [Fault::OnceAfter(after), Fault::FullAfter(after), Fault::DeadAfter(after)] {
            let root = folder();
            let mut store = unsealed(root.path(), SMALL);
            work(&mut store, 0);
            fault::set(fault);
            let refused = work(&mut store, STEPS);
            fault::set(Fault::None);
            met += u64::from(refused > 0);
            let is_closed = store.records().file.failure().is_some();
            // The disk works again.
            let later = work_later(&mut store, is_closed);
            closed += u64::from(is_closed);
            // A rewrite that failed where nobody knows which file a crash leaves.
            closed_by_one += u64::from(is_closed && matches!(fault, Fault::OnceAfter(_)));
            went_on += u64::from(refused > 0 && !is_closed && later == 0);
            let recorder = store.records();
            let mut allowed = vec![seen(store.keys())];
            if is_closed {
                allowed.extend(with_refused(&recorder.records, recorder.refused.as_ref()));
            }
            assert_eq!(allowed[0], seen(&replayed(&recorder.records)));
            drop(store);
            let found = kept(root.path());
            assert!(allowed.contains(&found), "{fault:?}, closed: {is_closed}");
        }
    }
    let counts = [met, closed, closed_by_one, went_on];
    let expected = [150, 50, 2, 90];
    assert!(counts.iter().zip(expected).all(|(count, least)| *count >= least), "{counts:?}");
}

/// Works on when the fault is over: nothing is refused, unless the file was closed; then everything is.
fn work_later(store: &mut Store, is_closed: bool) -> u64 {
    if is_closed {
        let on = store.keys().is_upsert_allowed();
        let refused = store.change(&Change::Upsert(!on), 1_000).unwrap_err().to_string();
        assert!(refused.contains("a restart is needed"), "{refused}");
        return 1;
    }
    let later = work(store, 2 * STEPS);
    assert_eq!(later, 0);
    later
}

/// A disk that is full while the file should be written anew: changes that fit are kept, and the file is written anew later.
#[test]
fn a_file_that_cannot_be_written_anew_is_kept() {
    let root = folder();
    let mut store = unsealed(root.path(), SMALL);
    let mut number = 0_u64;
    let mut toggle = |store: &mut Store| {
        number += 1;
        store.change(&Change::Upsert(number.is_multiple_of(2)), 1_000).unwrap();
    };
    while store.records().file.file_bytes() <= SMALL.rewrite_bytes - 12 {
        toggle(&mut store);
    }
    // The write and the sync of the record, and then no more.
    fault::set(Fault::OnceAfter(2));
    toggle(&mut store);
    assert_eq!(fault::get(), Fault::None, "it was tried");
    let long = store.records().file.file_bytes();
    assert!(long > SMALL.rewrite_bytes && store.records().file.failure().is_none());
    assert!(!root.path().join("keys.new").exists());
    for _ in 0..40 {
        toggle(&mut store);
    }
    assert!(store.records().file.file_bytes() < long);
    let now = seen(store.keys());
    drop(store);
    assert_eq!(kept(root.path()), now);
}

#[test]
fn a_folder_that_cannot_be_opened_is_opened_when_the_disk_works() {
    let root = folder();
    let place = root.path().join("vault");
    let mut tries = 0;
    loop {
        fault::set(Fault::DeadAfter(tries));
        let opened = open(&place, SMALL);
        fault::set(Fault::None);
        if opened.is_ok() {
            break;
        }
        assert!(open(&place, SMALL).unwrap().keys().is_empty());
        std::fs::remove_dir_all(&place).unwrap();
        tries += 1;
    }
    assert!(tries > 5, "{tries}");
}
