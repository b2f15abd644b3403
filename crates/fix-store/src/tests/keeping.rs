//! How long messages are kept, and what is told of them.

use std::ops::ControlFlow;

use super::*;
use crate::checkpoint::UNTOLD_MAX;
use crate::{
    Checkpoint, Direction, Place, last_times, read_history, read_history_from, read_memos,
    session_names,
};

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

/// Ten steps of one message each way, in short segments.
fn ten_steps(root: &std::path::Path) -> super::Stores {
    let mut stores = open(root, 300);
    for step in 1..=10_i64 {
        stores.set_time(START_MS * 1_000 + step);
        stores.store(0).note_received(&message("R", 1, 20));
        stores.store(0).put(&message("M", 1, 20)).unwrap();
        stores.flush(&[0]).unwrap();
    }
    stores
}

#[test]
fn the_history_goes_on_from_any_place_and_from_any_time() {
    let root = folder();
    let _stores = ten_steps(root.path());
    let times = |from: Place, from_us: i64, max: usize| {
        let (mut found, mut next) = (Vec::new(), from);
        read_history_from(root.path(), "A", from, from_us, |kept| {
            found.push((kept.at_us - START_MS * 1_000, kept.direction));
            next = kept.next;
            if found.len() == max { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .unwrap();
        (found, next)
    };
    let (all, _) = times(Place::default(), i64::MIN, usize::MAX);
    assert_eq!(all.len(), 20);
    for page in 1..=21 {
        let (mut joined, mut from) = (Vec::new(), Place::default());
        loop {
            let (found, next) = times(from, i64::MIN, page);
            if found.is_empty() {
                break;
            }
            joined.extend(found);
            from = next;
        }
        assert_eq!(joined, all, "pages of {page}");
    }
    for step in 0..=11 {
        let later: Vec<_> = all.iter().filter(|one| one.0 >= step).copied().collect();
        assert_eq!(times(Place::default(), START_MS * 1_000 + step, usize::MAX).0, later);
    }
    // A place that is none is no reason to show another message.
    for offset in [1, 65, 66, 1 << 40, u64::MAX] {
        let (found, _) = times(Place { segment: 1, offset }, i64::MIN, usize::MAX);
        assert!(all.ends_with(&found), "{offset}: {found:?}");
    }
}

#[test]
fn what_is_known_of_sessions_is_read_beside_the_process_that_writes() {
    let root = folder();
    let nothing = root.path().join("nothing");
    assert_eq!(read_memos(&nothing).unwrap(), []);
    assert_eq!(last_times(root.path(), "A").unwrap(), [None, None]);
    let mut stores = ten_steps(root.path());
    stores.book(0).unwrap().unwrap().put(b"a record").unwrap();
    stores.set_time(START_MS * 1_000 + 77);
    for _ in 0..9 {
        stores.store(0).note_received(&message("R", 1, 20));
        stores.flush(&[0]).unwrap();
    }
    let memos = read_memos(root.path()).unwrap();
    let names: Vec<&str> = memos.iter().map(|one| one.0.as_str()).collect();
    assert_eq!((names, memos[0].1.next_out, memos[0].1.next_in), (vec!["A"], 11, 1));
    let [last_in, last_out] = last_times(root.path(), "A").unwrap();
    assert_eq!(last_in, Some(START_MS * 1_000 + 77));
    assert_eq!(last_out, Some(START_MS * 1_000 + 10));
}

/// The file of numbers does not grow with what is sent.
#[test]
fn the_file_of_numbers_is_made_short_again() {
    let root = folder();
    let mut stores = open(root.path(), 4 << 20);
    let (mut longest, max) = (0, crate::numbers::FILE_BYTES_MAX);
    for step in 0..10_000 {
        stores.store(0).set_next_in(step + 2).unwrap();
        stores.store(0).put(&message("M", step, 9_000)).unwrap();
        stores.flush(&[0]).unwrap();
        if step % 100 == 0 {
            longest = longest.max(std::fs::metadata(root.path().join("numbers")).unwrap().len());
        }
    }
    assert!(longest > max / 2 && longest <= max + 10_000, "{longest}");
    let before = seen_both(&mut stores);
    drop(stores);
    assert_eq!(seen_both(&mut open(root.path(), 600)), before);
}

/// Sends messages under these numbers, and takes as many.
fn put(stores: &mut Stores, seqs: std::ops::RangeInclusive<u64>) {
    for seq in seqs {
        stores.store(0).put(&message("M", seq, 30)).unwrap();
        stores.store(0).set_next_in(seq + 10).unwrap();
        stores.flush(&[0]).unwrap();
    }
}

/// Until when what a peer sent is in doubt is known in later processes, too.
#[test]
fn when_files_were_found_to_be_older_stays_known() {
    let root = folder();
    let empty = || FileStores::open(root.path(), Options::default()).unwrap();
    let memo = crate::Memo { next_out: 9, next_in: 9, ..crate::Memo::new(START_MS) };
    let known = Checkpoint { name: "A".to_owned(), memo, is_set: false };
    let mut stores = empty();
    stores.add_behind("A", Durability::Sealed, &known, FOUND_MS).unwrap();
    for _ in 0..2 {
        assert_eq!(stores.store(0).doubtful_before_unix_ms(), FOUND_MS);
        drop(stores);
        stores = empty();
        stores.add("A", Durability::Sealed, START_MS).unwrap();
    }
}

/// When it is found.
const FOUND_MS: i64 = START_MS + 1_000_000;

/// The files of a folder that was restored from a backup, or of which a loss of power took the end.
#[test]
fn files_that_are_older_than_a_checkpoint_go_on_behind_it() {
    let root = folder();
    let numbers = |stores: &mut Stores| (stores.store(0).next_out(), stores.store(0).next_in());
    let add = |stores: &mut Stores, known: &Checkpoint| {
        stores.add_behind("A", Durability::Sealed, known, FOUND_MS).unwrap()
    };
    let empty = || FileStores::open(root.path(), Options::default()).unwrap();
    let mut stores = empty();
    assert_eq!((stores.add("A", Durability::Sealed, START_MS).unwrap(), stores.kept(0)), (0, None));
    put(&mut stores, 1..=3);
    let old = std::fs::read(root.path().join("numbers")).unwrap();
    put(&mut stores, 4..=8);
    let known = |memo| Checkpoint { name: "A".to_owned(), memo, is_set: false };
    let same_life = known(stores.kept(0).unwrap());
    stores.store(0).reset(START_MS + 1).unwrap();
    put(&mut stores, 1..=2);
    let later_life = known(stores.kept(0).unwrap());
    drop(stores);
    let mut stores = empty();
    assert_eq!(add(&mut stores, &later_life), (0, None), "it is of these files");
    drop(stores);
    for (known, missing, next, has) in
        [(&same_life, 5, 9 + UNTOLD_MAX, &[1, 2, 3][..]), (&later_life, 2, 3 + UNTOLD_MAX, &[])]
    {
        std::fs::write(root.path().join("numbers"), &old).unwrap();
        let mut stores = empty();
        assert_eq!(add(&mut stores, known), (0, Some(missing)));
        // No number is used again, nothing is asked for again, and nothing of another life is sent under the numbers of this one.
        let next_in = known.memo.next_in;
        assert_eq!((numbers(&mut stores), kept(&mut stores)), ((next, next_in), has.to_vec()));
        assert_eq!(stores.kept(0), None);
        drop(stores);
        // Killed before it was kept: it is said again. After the first flush the files are not behind any more.
        let mut stores = empty();
        assert_eq!(add(&mut stores, known), (0, Some(missing)));
        stores.store(0).set_next_in(next_in).unwrap();
        stores.flush(&[0]).unwrap();
        assert_eq!(stores.kept(0).map(|memo| (memo.next_out, memo.next_in)), Some((next, next_in)));
        drop(stores);
        let mut stores = empty();
        assert_eq!(add(&mut stores, known), (0, None));
        assert_eq!(numbers(&mut stores), (next, next_in));
        put(&mut stores, next..=next);
        drop(stores);
        let mut stores = empty();
        assert_eq!(add(&mut stores, known), (0, None));
        let has = [has, &[next]].concat();
        assert_eq!((numbers(&mut stores).0, kept(&mut stores)), (next + 1, has));
    }
    // Only what came is missing: what was sent stays as it is.
    let mut stores = empty();
    assert_eq!(add(&mut stores, &same_life), (0, None));
    let mut more_came = known(stores.kept(0).unwrap());
    more_came.memo.next_in += 5;
    let before = kept(&mut stores);
    drop(stores);
    let mut stores = empty();
    let at = stores.add_behind("A", Durability::Sealed, &more_came, FOUND_MS + 1).unwrap();
    assert_eq!((at, kept(&mut stores)), ((0, Some(0)), before));
    assert_eq!(stores.store(0).next_in(), more_came.memo.next_in);
    // Nothing is there of it any more.
    let root = folder();
    let mut stores = FileStores::open(root.path(), Options::default()).unwrap();
    assert_eq!(add(&mut stores, &same_life), (0, Some(8)));
    assert_eq!((numbers(&mut stores), kept(&mut stores)), ((9 + UNTOLD_MAX, 18), vec![]));
}
