//! Figures that are kept, against those that are folded from all records at once.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[allow(dead_code, reason = "the journal's tests use all of it")]
#[path = "../../../ledger-journal/tests/it/files.rs"]
mod files;
#[allow(dead_code, reason = "the journal's tests use all of it")]
#[path = "../../../ledger-journal/tests/it/history.rs"]
mod history;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use disk::planted::{FAULTS, at_each_operation, folder};
use figures::{Figures, Total};
use figures_store::{Ask, By, ByTime, Follow, FollowError, Limits, Report};
use files::{AT_MS, Mem};
use history::{Made, options, start};
use ledger::Record;
use ledger_journal::snapshot::{Keep, advance};
use ledger_journal::{Position, segment_head};

/// Hours are closed whenever something is saved.
const LIMITS: Limits = Limits {
    keep_days: 90,
    keep_bytes_max: u64::MAX,
    cells_per_hour_max: 3,
    keys_max: 9,
    close_after_ms: 0,
};
/// Budgets without a parent.
const TOPS: [u64; 2] = [1, 3];

const SIZES: [usize; 3] = [5, 1, 12];

fn tail(journal: &Mem) -> Position {
    start(journal).unwrap().tail.position
}

fn open(root: &Path, journal: &Mem) -> Result<Follow<Mem>, FollowError> {
    Follow::open(root, journal, &tail(journal), &options(), &LIMITS)
}

/// A start: takes up what is there, and folds to the end.
fn caught_up(root: &Path, journal: &Mem) -> Follow<Mem> {
    let mut follow = open(root, journal).unwrap();
    follow.catch_up(tail(journal).sequence, &mut |_| ()).unwrap();
    follow
}

fn kept(follow: &Follow<Mem>) -> Vec<Total> {
    follow.desk().totals(1..=3)
}

fn report(follow: &Follow<Mem>, by: By) -> Report {
    follow.desk().report(&Ask { by, to_ms: u64::MAX, ..Ask::default() }).unwrap()
}

/// Whatever a report is by, its sums are those of the figures: what was counted of the topmost budgets.
fn check_reports(follow: &Follow<Mem>, tops: &[u64], what: &dyn std::fmt::Debug) {
    let names = [[false; 4], [true; 4], [false, true, false, false]];
    for (campaign, names, time) in [false, true].into_iter().flat_map(|campaign| {
        let times = [ByTime::All, ByTime::Hour, ByTime::Day];
        names.into_iter().flat_map(move |names| times.map(|time| (campaign, names, time)))
    }) {
        let sum = |totals: &mut dyn Iterator<Item = Total>| {
            totals.fold((0, 0, 0), |sum, total| {
                (sum.0 + total.impressions, sum.1 + total.clicks, sum.2 + total.spend.get())
            })
        };
        let report = report(follow, By { campaign, names, time });
        let expected = sum(&mut follow.desk().totals(tops.iter().copied()).into_iter());
        assert_eq!(sum(&mut report.rows.iter().map(|row| row.total)), expected, "{what:?}");
        assert_eq!(sum(&mut report.totals.iter().map(|(_, total)| *total)), expected);
        assert!(report.rows.is_sorted_by_key(|row| (row.time_ms, row.campaign)));
    }
}

fn folded(records: &[Record], mut figures: Figures) -> Vec<Total> {
    figures.fold(figures.sequence(), AT_MS, records).unwrap();
    let totals: BTreeMap<u64, Total> = figures.totals().collect();
    (1..=3).map(|id| totals[&id]).collect()
}

#[test]
fn kills_and_failing_disks_lose_nothing_and_count_nothing_twice() {
    let mut made = Made::new(1, 200, &SIZES);
    let mut journals = vec![made.folder.copy()];
    for _ in 0..3 {
        made.run(200, &SIZES);
        journals.push(made.folder.copy());
    }
    let expected = folded(&made.records, Figures::begin(1));
    assert!(expected.iter().any(|total| total.impressions >= 4), "{expected:?}");
    let met = at_each_operation(&FAULTS, |root, planted| {
        for journal in &journals {
            planted.during(|| {
                // Each is a life that ends by a kill: what was not saved is gone.
                let Ok(mut follow) = open(root, journal) else { return };
                for sealed in (1..=tail(journal).sequence).step_by(90) {
                    follow.catch_up(sealed, &mut |_| ()).unwrap();
                    follow.save();
                    assert!(follow.desk().unread().load(Relaxed) <= follow.desk().sequence());
                }
            });
        }
        let follow = caught_up(root, &made.folder);
        assert_eq!(kept(&follow), expected, "{planted:?}");
        check_reports(&follow, &TOPS, &planted);
        assert_eq!(follow.desk().since_ms(), Some(AT_MS), "{planted:?}");
    });
    assert!(met >= 30, "{met}");
}

/// What is wrong, the journal that was counted before, and what happens to the file then.
type Case<'j> = (&'j str, &'j Mem, fn(&Path));

/// Figures of another history are set aside, and all is counted again.
#[test]
fn figures_that_do_not_belong_to_the_journal_are_counted_again() {
    let mut made = Made::new(2, 60, &SIZES);
    let expected = folded(&made.records, Figures::begin(1));
    let before = made.folder.copy();
    made.run(60, &SIZES);
    let other = Made::new(2, 61, &[3, 7]);
    let damaged = |root: &Path| {
        let path = root.join("figures");
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 3;
        bytes[middle] ^= 1;
        std::fs::write(&path, bytes).unwrap();
    };
    let cases: [Case<'_>; 3] = [
        ("newer than the journal", &made.folder, |_| ()),
        ("of another journal", &other.folder, |_| ()),
        ("damaged", &before, damaged),
    ];
    for (what, counted, change) in cases {
        let root = folder();
        let mut follow = open(root.path(), counted).unwrap();
        for sealed in [40, tail(counted).sequence] {
            follow.catch_up(sealed, &mut |_| ()).unwrap();
            follow.save();
        }
        drop(follow);
        change(root.path());
        assert_eq!(kept(&caught_up(root.path(), &before)), expected, "{what}");
        assert!(root.path().join("figures.bad").exists(), "{what}");
    }
}

/// Where the first records are gone, figures that are lost begin at the snapshot that stands for them.
#[test]
fn lost_figures_begin_at_the_oldest_record() {
    let keep = Keep { snapshot_bytes: 1, bytes_max: 0, ms_max: 0, unread: u64::MAX };
    let mut made = Made::new(1, 60, &SIZES);
    for _ in 0..4 {
        made.run(60, &SIZES);
        advance(&made.folder, &options(), &keep, AT_MS, &AtomicBool::new(false)).unwrap();
    }
    let first = ledger_journal::segments(&made.folder).unwrap()[0];
    let oldest = segment_head(&made.folder, first).unwrap().position.sequence;
    let at = usize::try_from(oldest).unwrap() - 1;
    assert!(at > 60, "the retention removed some: {oldest}");
    let mut figures = Figures::begin(oldest);
    history::replay(&made.records[..at]).parts(&mut |part| figures.learn(&part));
    let expected = folded(&made.records[at..], figures);
    assert_eq!(kept(&caught_up(folder().path(), &made.folder)), expected);
}

/// A journal that cannot be read for a while stops nothing: what it had by then is counted later.
#[test]
fn a_journal_that_cannot_be_read_is_read_again() {
    let made = Made::new(2, 60, &SIZES);
    let (root, journal) = (folder(), made.folder.copy());
    let follow = open(root.path(), &journal).unwrap();
    let (desk, sealed, looks) = (follow.desk().clone(), tail(&journal).sequence, Cell::new(0));
    let last = made.segments().pop().unwrap();
    let bytes = journal.get(&last);
    journal.put(&last, bytes[..100].to_vec());
    follow.run(|| {
        looks.set(looks.get() + 1);
        if looks.get() == 2 {
            assert!(desk.sequence() < sealed, "it could not be read");
            journal.put(&last, bytes.clone());
        }
        (looks.get() < 2, sealed)
    });
    assert_eq!(desk.totals(1..=3), folded(&made.records, Figures::begin(1)));
    assert_eq!(desk.unread().load(Relaxed), sealed, "saved");
}
