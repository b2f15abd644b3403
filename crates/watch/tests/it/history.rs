//! The history over days, restarts and kills.

use std::path::Path;

use watch::history::{Counts, History, Minute, POINTS_MAX, Point, QueryError, RecordError};

const DAY: u64 = 1_440;
const MONDAY: u64 = 20_000 * DAY;

fn open(folder: &Path, keep_days: u32) -> History {
    History::open(folder, keep_days).unwrap()
}

fn row(spent: i64) -> Minute {
    let planned = (spent % 2 == 0).then_some(spent + 1);
    Minute { spent, planned, asks: 10, grants: 7, wins: 2, refusals: 3, latency_p99_us: 5 }
}

fn nothing(minute: u64) -> Point {
    Point { minute, ..Point::default() }
}

fn spent(history: &History, budget: u64, from: u64, to: u64, step: u64) -> Vec<(u64, Option<i64>)> {
    let points = history.query(budget, from, to, step).unwrap().points;
    points.iter().map(|point| (point.minute, point.spent)).collect()
}

#[test]
fn minutes_with_gaps() {
    let folder = tempfile::tempdir().unwrap();
    let history = open(folder.path(), 7);
    history.record(MONDAY, &[(7, row(1)), (8, row(100))]).unwrap();
    history.record(MONDAY + 2, &[(8, row(200))]).unwrap();
    history.record(MONDAY + 3, &[(7, row(4))]).unwrap();
    let series = history.query(7, MONDAY, MONDAY + 5, 1).unwrap();
    assert_eq!((series.kept_from, series.step), (MONDAY, 1));
    let counts = Counts { asks: 10, grants: 7, wins: 2, refusals: 3, latency_p99_us: 5 };
    let expected = [
        Point { minute: MONDAY, spent: Some(1), planned: None, counts: Some(counts) },
        nothing(MONDAY + 1),
        // Recorded, but nothing happened.
        Point { counts: Some(Counts::default()), ..nothing(MONDAY + 2) },
        Point { minute: MONDAY + 3, spent: Some(4), planned: Some(5), counts: Some(counts) },
        nothing(MONDAY + 4),
    ];
    assert_eq!(series.points, expected);
}

#[test]
fn steps_add_up_and_cross_midnight() {
    let folder = tempfile::tempdir().unwrap();
    let history = open(folder.path(), 7);
    for at in 0..8 {
        history.record(MONDAY + DAY - 4 + at, &[(7, row(at.cast_signed()))]).unwrap();
    }
    let series = history.query(7, MONDAY + DAY - 6, MONDAY + DAY + 4, 6).unwrap();
    let of_step = |point: &Point| {
        (point.minute - MONDAY, point.spent, point.counts.map(|counts| counts.asks))
    };
    let expected = [(DAY - 6, Some(3), Some(40)), (DAY, Some(7), Some(40))];
    assert_eq!(series.points.iter().map(of_step).collect::<Vec<_>>(), expected);
    assert_eq!(spent(&history, 9, MONDAY, MONDAY + 1, 1), [(MONDAY, None)]);
}

#[test]
fn the_last_word_on_a_minute_holds() {
    let folder = tempfile::tempdir().unwrap();
    let history = open(folder.path(), 7);
    history.record(MONDAY, &[(7, row(1))]).unwrap();
    history.record(MONDAY, &[(7, row(3))]).unwrap();
    assert_eq!(spent(&history, 7, MONDAY, MONDAY + 1, 1), [(MONDAY, Some(3))]);
}

#[test]
fn it_is_there_after_reopening() {
    let folder = tempfile::tempdir().unwrap();
    for at in 0..4 {
        let history = open(folder.path(), 7);
        history.record(MONDAY + at * DAY / 2, &[(7, row(at.cast_signed()))]).unwrap();
    }
    let history = open(folder.path(), 7);
    let expected: Vec<(u64, Option<i64>)> =
        (0..4).map(|at| (MONDAY + at * DAY / 2, Some(at.cast_signed()))).collect();
    assert_eq!(spent(&history, 7, MONDAY, MONDAY + 2 * DAY, DAY / 2), expected);
}

#[test]
fn whole_days_are_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let history = open(folder.path(), 2);
    for day in 0..5 {
        history.record(MONDAY + day * DAY + 9, &[(7, row(day.cast_signed()))]).unwrap();
    }
    let kept = [(MONDAY + 3 * DAY, Some(3)), (MONDAY + 4 * DAY, Some(4))];
    let series = history.query(7, MONDAY, MONDAY + 5 * DAY, DAY).unwrap();
    assert_eq!(series.kept_from, MONDAY + 3 * DAY);
    assert_eq!(spent(&history, 7, 0, MONDAY + 5 * DAY, DAY), kept);
    // Older than what is kept: ignored.
    history.record(MONDAY, &[(7, row(1))]).unwrap();
    assert!(history.query(7, MONDAY, MONDAY + DAY, 1).unwrap().points.is_empty());
    drop(history);
    let history = open(folder.path(), 2);
    assert_eq!(spent(&history, 7, 0, MONDAY + 5 * DAY, DAY), kept);
    drop(history);
    let history = open(folder.path(), 1);
    assert_eq!(spent(&history, 7, 0, MONDAY + 5 * DAY, DAY), kept[1..]);
}

#[test]
fn what_cannot_be_asked_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let history = open(folder.path(), 7);
    assert!(history.query(7, MONDAY, MONDAY + 9, 1).unwrap().points.is_empty(), "nothing is kept");
    history.record(MONDAY, &[]).unwrap();
    assert!(matches!(history.query(7, MONDAY, MONDAY + 9, 0), Err(QueryError::Step)));
    let many = history.query(7, MONDAY, MONDAY + POINTS_MAX + 1, 1);
    assert!(matches!(many, Err(QueryError::Points { points }) if points == POINTS_MAX + 1));
    assert!(history.query(7, MONDAY, u64::MAX, u64::MAX).is_ok());
    assert!(history.query(7, u64::MAX, 0, 1).unwrap().points.is_empty());
    let never = history.record(u64::MAX, &[]);
    assert!(matches!(never, Err(RecordError::Minute { minute: u64::MAX })));
}

#[test]
fn a_folder_that_is_a_file_is_an_error() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = History::open(file.path(), 7).unwrap_err().to_string();
    assert!(error.contains(&file.path().display().to_string()), "{error}");
}
