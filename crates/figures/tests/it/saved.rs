//! Saved figures: read back, and refused where they are not what was saved.

use figures::{Figures, MergeError};

use crate::bench::{Bench, child, spec};
use crate::naive::folded;

/// Figures of two budgets, one impression and an open grant.
fn some() -> Figures {
    let mut bench = Bench::new(1, &[spec(1, 10_000), child(2, 5_000, 1)]);
    let hold = bench.insist(0, 2, 100).unwrap();
    bench.settle(hold, 60);
    folded(&bench.records)
}

#[test]
fn what_was_not_saved_is_refused_and_changes_nothing() {
    let mut figures = some();
    let whole = figures.unsaved().unwrap();
    assert_eq!(whole, figures.whole(), "the first time it is all there is");
    let read = Figures::read(&whole).unwrap();
    assert_eq!((read.whole(), read.sequence()), (whole.clone(), figures.sequence()));
    assert_eq!(read.since_ms(), Some(7));

    for len in 0..whole.len() {
        assert_eq!(Figures::read(&whole[..len]).unwrap_err(), MergeError::Form, "cut at {len}");
    }
    let longer = [&*whole, &[0]].concat();
    assert_eq!(Figures::read(&longer).unwrap_err(), MergeError::Form);
    let changed = |at: usize, to: u8| {
        let mut bytes = whole.clone();
        bytes[at] = to;
        Figures::read(&bytes).unwrap_err()
    };
    assert_eq!(changed(0, b'w'), MergeError::Form, "another kind or version");
    // The highest byte of the number of budgets, and of the spend of the first one.
    assert_eq!(changed(63, 0xFF), MergeError::Form, "more rows than bytes");
    assert_eq!(changed(88 + 39, 0xFF), MergeError::Negative);
    // As it was written before clicks were counted.
    let older = [b"WEIRFIG1", &whole[8..40], &whole[48..112], &whole[120..152], &whole[160..]];
    assert_eq!(Figures::read(&older.concat()).unwrap().whole(), whole);
    assert_eq!(Figures::read(&older.concat()[..150]).unwrap_err(), MergeError::Form);

    assert_eq!(figures.merge(&whole), Err(MergeError::Unsaved));
    figures.saved();
    assert_eq!(figures.unsaved(), None, "nothing was folded since");
    let at = figures.sequence();
    let follows = MergeError::Gap { found: 0, expected: at };
    assert_eq!(figures.merge(&whole), Err(follows), "the first is no later one");
    assert_eq!(figures.whole(), whole);
}

#[test]
fn a_later_batch_follows_the_one_before_and_no_other() {
    let mut bench = Bench::new(1, &[spec(1, 10_000), child(2, 5_000, 1)]);
    let (mut figures, mut batches) = (Figures::begin(1), Vec::new());
    for _ in 0..3 {
        let hold = bench.insist(0, 2, 100).unwrap();
        bench.settle(hold, 60);
        let known = usize::try_from(figures.sequence()).unwrap() - 1;
        figures.fold(figures.sequence(), 7, &bench.records[known..]).unwrap();
        batches.push(figures.unsaved().unwrap());
        figures.saved();
    }
    let mut read = Figures::read(&batches[0]).unwrap();
    let (found, expected) = (Figures::read(&batches[1]).unwrap_err(), read.sequence());
    assert!(matches!(found, MergeError::Gap { expected: 0, .. }), "{found:?}");
    let missing = read.merge(&batches[2]).unwrap_err();
    assert!(matches!(missing, MergeError::Gap { expected: at, .. } if at == expected));
    read.merge(&batches[1]).unwrap();
    read.merge(&batches[2]).unwrap();
    assert_eq!(read.whole(), figures.whole());
    assert!(batches[2].len() < batches[0].len(), "rows that did not change are not in it");
}
