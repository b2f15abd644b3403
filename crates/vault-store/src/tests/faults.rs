//! Disks that fail or are full: a change that is refused changes nothing, and one that was acknowledged is there. What becomes of the file at each
//! fault, and where it is cut or damaged, is `disk::LogFile`'s and proven there.

use disk::planted::{FAULTS, at_each_operation};

use super::*;

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
                let is_told = ["free space on this disk", "a restart is needed"];
                assert!(is_told.iter().any(|told| why.contains(told)), "{why}");
                assert_eq!(seen(store.keys()), before, "{number}");
            }
            Err(other) => panic!("{other}"),
        }
    }
    refused
}

#[test]
fn what_fails_changes_nothing_and_what_was_acknowledged_is_there() {
    let (mut closed, mut went_on) = (0, 0);
    at_each_operation(&FAULTS, |root, planted| {
        let mut store = unsealed(root, SMALL);
        work(&mut store, 0);
        let (refused, _) = planted.during(|| work(&mut store, STEPS));
        let is_closed = store.records().file.failure().is_some();
        closed += u64::from(is_closed);
        went_on += u64::from(refused > 0 && !is_closed);
        // The disk works again.
        let refused = work(&mut store, 2 * STEPS);
        assert_eq!(refused > 0, is_closed, "{planted:?}");
        let now = seen(store.keys());
        assert_eq!(now, seen(&replayed(&store.records().records)));
        drop(store);
        // Of a file that is closed the change that was refused first may be there.
        assert!(kept(root) == now || is_closed, "{planted:?}");
    });
    assert!(closed >= 50 && went_on >= 90, "{closed} {went_on}");
}
