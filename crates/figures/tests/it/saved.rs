//! Saved figures: read back, and refused where they are not what was saved.

use figures::{Figures, Kept, MergeError};

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
    assert_eq!(changed(128 + 47, 0xFF), MergeError::Negative);
    let kind = whole.len() - 8;
    assert_eq!(whole[kind..], *b"USD\0\x03UTC");
    assert_eq!(changed(kind + 7, b'X'), MergeError::Form, "a zone that there is not");
    assert_eq!(changed(128 + 16, 1), MergeError::Form, "a kind that there is not");

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

/// What is closed is in a file alone, what comes later in an hour that was closed in a cell of its own; kept or dropped, it is all one batch.
#[test]
fn closed_hours_leave_with_the_batch_that_tells_their_file() {
    let mut bench = Bench::new(1, &[spec(1, 10_000)]);
    let mut bill = |figures: &mut Figures| {
        let hold = bench.insist(0, 1, 100).unwrap();
        bench.settle(hold, 60);
        let known = usize::try_from(figures.sequence()).unwrap() - 1;
        figures.fold(figures.sequence(), 7, &bench.records[known..]).unwrap();
    };
    let mut figures = Figures::begin(1);
    bill(&mut figures);
    let mut copy = Figures::read(&figures.unsaved().unwrap()).unwrap();
    figures.saved();
    let cells: Vec<_> = figures.cells().open(0, u32::MAX).collect();
    let [((hour, ..), total)] = cells[..] else { panic!("{cells:?}") };
    assert_eq!(total, figures.total(1).unwrap());
    let file = |sequence, last| Kept { sequence, first: hour, last, bytes: 40, sum: 9 };
    bill(&mut figures);
    figures.cells_mut().close(hour + 1, file(5, hour));
    bill(&mut figures);
    let late = figures.cells().open(0, u32::MAX).map(|(_, total)| total.impressions);
    assert_eq!(late.collect::<Vec<_>>(), [1], "two are in the file");
    for (kept, from) in [(vec![file(5, hour)], 0), (vec![], hour + 1)] {
        if kept.is_empty() {
            figures.cells_mut().retire(hour, 40);
            assert_eq!(figures.cells().kept().len(), 1, "neither too old nor too much");
            figures.cells_mut().retire(hour, 39);
            bill(&mut figures);
        }
        copy.merge(&figures.unsaved().unwrap()).unwrap();
        figures.saved();
        assert_eq!(copy.whole(), figures.whole());
        assert_eq!((copy.cells().kept(), copy.cells().from()), (&*kept, from));
    }
}
