//! Messages that stand among the numbers alone, while the folder that they belong to is away.

use std::path::PathBuf;

use super::*;
use crate::OpenError;

const LAST: u64 = 20;

/// A folder in which both sessions have sent messages that are not in their segments yet, as kill -9 leaves it.
fn killed() -> (tempfile::TempDir, [Seen; 2]) {
    crate::numbers::growth::set(crate::numbers::FILE_BYTES_MAX);
    let root = folder();
    let mut stores = open(root.path(), 1 << 20);
    for seq in 1..=LAST {
        for (at, name) in ["A", "B"].into_iter().enumerate() {
            stores.store(at).set_next_in(seq + 1).unwrap();
            stores.store(at).put(&message(name, seq, 100)).unwrap();
        }
        stores.flush(&[0, 1]).unwrap();
    }
    let model = seen_both(&mut stores);
    drop(stores);
    let segment = root.path().join("s-A/00000001.fix");
    assert_eq!(std::fs::metadata(segment).unwrap().len(), crate::segment::HEAD_BYTES);
    (root, model)
}

/// Puts a plain file in the place of the folder of a session. Returns where both are.
fn put_away(root: &Path, name: &str) -> [PathBuf; 2] {
    let [home, away] = [name, "away"].map(|name| root.join(name));
    std::fs::rename(&home, &away).unwrap();
    std::fs::write(&home, b"x").unwrap();
    [home, away]
}

fn put_back([home, away]: &[PathBuf; 2]) {
    if home.is_file() {
        std::fs::remove_file(home).unwrap();
    }
    std::fs::rename(away, home).unwrap();
}

fn open_without(root: &Path) -> Stores {
    FileStores::open(root, Options::default()).unwrap()
}

fn add(stores: &mut Stores, name: &str) -> Result<usize, OpenError> {
    stores.add(name, Durability::Sealed, START_MS)
}

/// What a node does whose start is tried again and again.
#[test]
fn a_start_that_refuses_forgets_no_message() {
    let (root, model) = killed();
    let both = put_away(root.path(), "s-A");
    for _ in 0..3 {
        let error = add(&mut open_without(root.path()), "A").unwrap_err().to_string();
        assert!(error.contains("s-A"), "{error}");
    }
    put_back(&both);
    assert_eq!(seen_both(&mut open(root.path(), 1 << 20)), model);
    // Now they are in the segment.
    assert_eq!(seen_both(&mut open(root.path(), 1 << 20)), model);
}

/// The others trade for so long that the files follow each other many times, also where the helper does it bit by bit.
#[test]
fn a_session_that_is_not_configured_forgets_no_message() {
    for steps in [1, usize::MAX] {
        for is_file in [true, false] {
            crate::handover::here::set_steps(steps);
            let (root, model) = killed();
            crate::numbers::growth::set(1_500);
            let both = put_away(root.path(), "s-A");
            if !is_file {
                std::fs::remove_file(&both[0]).unwrap();
            }
            for start in 0..3 {
                let mut stores = open_without(root.path());
                assert_eq!(add(&mut stores, "B").unwrap(), 0);
                for seq in 0..100 {
                    let text = message("B", start * 100 + seq, 100);
                    stores.store(0).put(&text).unwrap();
                    stores.flush(&[0]).unwrap();
                }
            }
            put_back(&both);
            let mut stores = open(root.path(), 1 << 20);
            assert_eq!(seen(stores.store(0)), model[0]);
            assert_eq!(stores.store(1).next_out(), LAST + 301);
        }
    }
}

/// As a reload does it.
#[test]
fn a_session_that_comes_while_others_trade_has_its_messages() {
    let (root, model) = killed();
    let both = put_away(root.path(), "s-A");
    let mut stores = open_without(root.path());
    add(&mut stores, "B").unwrap();
    add(&mut stores, "A").unwrap_err();
    put_back(&both);
    let at = add(&mut stores, "A").unwrap();
    assert_eq!(seen(stores.store(at)), model[0]);
    stores.store(at).put(b"more").unwrap();
    stores.flush(&[at]).unwrap();
    drop(stores);
    assert_eq!(open(root.path(), 1 << 20).store(0).next_out(), LAST + 2);
}

/// What the segment of a session did not take when the session went is not forgotten when the file becomes shorter.
#[test]
fn a_session_that_goes_and_cannot_write_forgets_no_message() {
    for steps in [1, usize::MAX] {
        crate::handover::here::set_steps(steps);
        crate::numbers::growth::set(1_500);
        let root = folder();
        let mut stores = open_without(root.path());
        add(&mut stores, "B").unwrap();
        add(&mut stores, "A").unwrap();
        for seq in 1..=LAST {
            stores.store(1).put(&message("A", seq, 20)).unwrap();
            stores.flush(&[1]).unwrap();
            if seq == 1 {
                stores.store(1).break_segment();
            }
        }
        let model = seen(stores.store(1));
        stores.truncate(1);
        for seq in 0..100 {
            stores.store(0).put(&message("B", seq, 100)).unwrap();
            stores.flush(&[0]).unwrap();
        }
        if steps == 1 {
            let at = add(&mut stores, "A").unwrap();
            assert_eq!(seen(stores.store(at)), model);
        }
        drop(stores);
        assert_eq!(seen(open(root.path(), 1 << 20).store(0)), model);
    }
}

/// Retention is no reason to keep anything.
#[test]
fn what_was_removed_because_it_was_old_does_not_stay() {
    let (root, _) = killed();
    let mut stores = open(root.path(), 300);
    for seq in 0..5 {
        stores.store(0).put(&message("A", seq, 200)).unwrap();
        stores.flush(&[0]).unwrap();
    }
    std::fs::remove_file(root.path().join("s-A/00000001.fix")).unwrap();
    std::fs::remove_file(root.path().join("s-A/00000002.fix")).unwrap();
    drop(stores);
    let segments = || {
        let late = crate::numbers::late(root.path(), "A").unwrap();
        late.iter().map(|late| late.place.segment).collect::<Vec<_>>()
    };
    assert!(segments().contains(&2), "{:?}", segments());
    drop(open(root.path(), 300));
    assert!(segments().is_empty(), "{:?}", segments());
}

/// What was removed by somebody else is found, and what is kept from then on is where the next process looks for it.
#[test]
fn numbers_that_are_removed_while_they_are_in_use_are_written_anew() {
    let root = folder();
    let mut stores = open(root.path(), 1 << 20);
    let send = |stores: &mut Stores, seq: u64| {
        stores.store(0).put(&message("A", seq, 100)).unwrap();
        stores.flush(&[0])
    };
    send(&mut stores, 1).unwrap();
    stores.look().unwrap();
    let numbers = root.path().join("numbers");
    std::fs::remove_file(&numbers).unwrap();
    let told = stores.look().unwrap_err().to_string();
    assert!(told.contains("cannot find") && told.contains("numbers"), "{told}");
    stores.look().unwrap();
    send(&mut stores, 2).unwrap();
    stores.look().unwrap();
    let model = seen_both(&mut stores);
    drop(stores);
    let mut stores = open(root.path(), 1 << 20);
    assert_eq!(seen_both(&mut stores), model);
    // The whole folder: nothing can be kept.
    let away = root.path().with_extension("away");
    std::fs::rename(root.path(), &away).unwrap();
    stores.look().unwrap_err();
    send(&mut stores, 3).unwrap_err();
    std::fs::rename(&away, root.path()).unwrap();
    send(&mut stores, 3).unwrap();
    stores.look().unwrap();
}
