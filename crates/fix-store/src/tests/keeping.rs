//! How long messages are kept, and what is told of them.

use std::ops::ControlFlow;

use super::*;
use crate::{Direction, read_history, session_names};

const DAY_US: i64 = 86_400_000_000;

/// A session of messages, one a day, each in a segment of its own.
fn days(root: &std::path::Path, options: Options, days: u64) -> Stores {
    let mut stores = FileStores::open(root, options).unwrap();
    stores.add("A", Durability::Sealed, START_MS).unwrap();
    for day in 1..=days {
        stores.set_time(START_MS * 1_000 + i64::try_from(day).unwrap() * DAY_US);
        stores.store(0).put(&message("M", day, 300)).unwrap();
        stores.flush(&[0]).unwrap();
    }
    stores
}

fn kept(stores: &mut Stores) -> Vec<u64> {
    (1..stores.store(0).next_out()).filter(|seq| got(stores.store(0), *seq).is_some()).collect()
}

#[test]
fn messages_go_when_they_are_too_old_and_numbers_stay() {
    let root = folder();
    let options = Options { segment_bytes: 300, keep_days: 3, ..Options::default() };
    let mut stores = days(root.path(), options, 10);
    assert_eq!(kept(&mut stores), Vec::from_iter(1..=10));
    assert!(stores.trim() > 0);
    // The segment of a message goes once the next one is older than three days.
    assert_eq!(kept(&mut stores), [6, 7, 8, 9, 10]);
    assert_eq!(stores.store(0).next_out(), 11);
    drop(stores);
    let mut stores = days(root.path(), options, 0);
    assert_eq!(kept(&mut stores), [6, 7, 8, 9, 10]);
    assert_eq!(stores.trim(), 0);
}

#[test]
fn messages_go_when_they_are_too_many_and_the_last_segment_stays() {
    let root = folder();
    let options = Options { segment_bytes: 300, bytes_max: 1_000, ..Options::default() };
    let mut stores = days(root.path(), options, 10);
    stores.trim();
    assert_eq!(kept(&mut stores), [9, 10]);
    let root = folder();
    let mut stores = days(root.path(), Options { bytes_max: 0, ..options }, 3);
    stores.trim();
    assert_eq!(kept(&mut stores), [3]);
}

#[test]
fn both_directions_are_told_with_their_times() {
    let root = folder();
    let mut stores = open(root.path(), 300);
    let mut wanted = Vec::new();
    for step in 1..=6_i64 {
        let at_us = START_MS * 1_000 + step * 7;
        stores.set_time(at_us);
        let (received, sent) = (message("R", 1, 20), message("M", 1, 20));
        stores.store(0).note_received(&received);
        stores.store(0).put(&sent).unwrap();
        stores.flush(&[0]).unwrap();
        wanted.extend([(at_us, Direction::In, received), (at_us, Direction::Out, sent)]);
    }
    let mut found = Vec::new();
    read_history(root.path(), "A", |kept| {
        found.push((kept.at_us, kept.direction, kept.message.unwrap().to_vec()));
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(found, wanted);
    assert_eq!(session_names(root.path()).unwrap(), ["A", "B"]);
    read_history(root.path(), "nobody", |_| panic!("there is none")).unwrap();
}

/// The file of numbers does not grow with what is sent.
#[test]
fn the_file_of_numbers_is_made_short_again() {
    let root = folder();
    let mut stores = open(root.path(), 4 << 20);
    let mut longest = 0;
    for step in 0..50_000 {
        stores.store(0).set_next_in(step + 2).unwrap();
        stores.flush(&[0]).unwrap();
        if step % 1_000 == 0 {
            longest = longest.max(std::fs::metadata(root.path().join("numbers")).unwrap().len());
        }
    }
    assert!(longest > 1 << 20 && longest <= (4 << 20) + 256, "{longest}");
    let before = seen_both(&mut stores);
    drop(stores);
    assert_eq!(seen_both(&mut open(root.path(), 600)), before);
}
