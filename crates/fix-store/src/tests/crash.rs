//! What a crash or a bad disk leaves: every cut and every damaged byte of a small history.

use std::fs;
use std::path::{Path, PathBuf};

use disk::planted::at_each_byte;

use super::*;
use crate::OpenError;

/// Of seven steps make three segments of each session.
const SEGMENT_BYTES: u64 = 400;

/// Does a small history in several flushes; returns what was seen after each, with what was seen before the first.
fn history(root: &Path) -> Vec<[Seen; 2]> {
    let mut stores = open(root, SEGMENT_BYTES);
    let mut states = vec![seen_both(&mut stores)];
    for step in 1..=7_u64 {
        let (one, other) = (step % 2, (step + 1) % 2);
        let [one, other] = [one, other].map(|at| usize::try_from(at).unwrap());
        stores.store(one).note_received(&message("R", step, 5));
        stores.store(one).set_next_in(step + 1).unwrap();
        stores.store(other).put(&message("M", step, 15)).unwrap();
        if step == 5 {
            stores.store(other).reset(START_MS + 5).unwrap();
            stores.store(other).set_next_in(2).unwrap();
            stores.store(other).put(&message("L", step, 3)).unwrap();
        }
        stores.flush(&[0, 1]).unwrap();
        states.push(seen_both(&mut stores));
    }
    states
}

/// The files that messages and numbers are in.
fn files(root: &Path) -> Vec<PathBuf> {
    let mut files = vec![root.join("numbers")];
    for folder in ["s-A", "s-B"] {
        files.extend(fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().path()));
    }
    files.sort();
    files
}

/// Opens what is left. Its numbers must be those of one of the states, for both sessions together, and its messages those of that state or
/// not there. Then it must go on.
fn check(root: &Path, states: &[[Seen; 2]], context: &str) -> usize {
    let mut stores = open(root, SEGMENT_BYTES);
    let found = seen_both(&mut stores);
    let numbers = |seen: &[Seen; 2]| [seen[0].numbers, seen[1].numbers];
    let Some(state) = states.iter().rposition(|state| numbers(state) == numbers(&found)) else {
        panic!("{context}: {:?} were never flushed", numbers(&found));
    };
    for (found, wanted) in found.iter().zip(&states[state]) {
        for (found, wanted) in found.messages.iter().zip(&wanted.messages) {
            assert!(found.is_none() || found == wanted, "{context}: {found:?} for {wanted:?}");
        }
    }
    for at in [0, 1] {
        let seq = stores.store(at).next_out();
        stores.store(at).put(&message("N", seq, 500)).unwrap();
        stores.flush(&[at]).unwrap();
        assert_eq!(got(stores.store(at), seq), Some(message("N", seq, 500)), "{context}");
    }
    let after = seen_both(&mut stores);
    drop(stores);
    assert_eq!(seen_both(&mut open(root, SEGMENT_BYTES)), after, "{context}");
    state
}

/// Changes each file in each way, and checks each result.
fn each_damage(damage: impl Fn(&mut Vec<u8>, usize)) {
    let sound = folder();
    let states = history(sound.path());
    let newest = states.len() - 1;
    let head = 64;
    for file in files(sound.path()) {
        at_each_byte(sound.path(), &file, &damage, |at, root| {
            let (context, is_numbers) =
                (format!("{} at {at}", file.display()), file.ends_with("numbers"));
            if is_numbers && at < head {
                let bytes = fs::read(root.join("numbers")).unwrap();
                let sound_head = bytes.starts_with(b"WEIRFIXN\x03\0\0\0") && bytes.len() >= head;
                let opened = FileStores::open(root, Options::default());
                let foreign = matches!(opened, Err(OpenError::Foreign { .. }));
                assert!(foreign || sound_head, "{context}");
                return;
            }
            let state = check(root, &states, &context);
            assert!(is_numbers || state >= newest, "{context}: numbers were lost");
        });
    }
}

#[test]
fn a_file_that_is_cut_anywhere_leaves_a_state_that_was_flushed() {
    each_damage(Vec::truncate);
}

#[test]
fn a_damaged_byte_anywhere_is_no_other_message_and_no_other_number() {
    // A damaged group in the middle loses nothing: newer ones say everything. Here each group has both sessions.
    each_damage(|bytes, at| bytes[at] ^= 0x55);
    each_damage(|bytes, at| bytes[at..].fill(0));
}

/// A process that ends between the messages and their numbers: what it wrote does not count.
#[test]
fn messages_without_numbers_do_not_count() {
    let root = folder();
    let states = history(root.path());
    let (folder, last) =
        (root.path().join("s-A"), crate::segment::numbers(&root.path().join("s-A")).unwrap());
    let newest = crate::segment::path(&folder, *last.last().unwrap());
    let mut bytes = fs::read(&newest).unwrap();
    let whole = bytes.clone();
    let record = whole[64..].to_vec();
    bytes.extend_from_slice(&record);
    fs::write(&newest, bytes).unwrap();
    fs::write(crate::segment::path(&folder, last.last().unwrap() + 1), whole).unwrap();
    assert_eq!(check(root.path(), &states, "left behind"), states.len() - 1);
}

#[test]
fn a_crash_before_the_first_numbers_leaves_an_empty_session() {
    let root = folder();
    drop(open(root.path(), SEGMENT_BYTES));
    fs::write(root.path().join("s-A").join("00000001.fix"), b"WEIRFIXM anything").unwrap();
    let states = [seen_both(&mut open(self::folder().path(), SEGMENT_BYTES))];
    check(root.path(), &states, "first segment");
}

#[test]
fn lost_numbers_are_an_error_and_not_a_new_session() {
    let root = folder();
    history(root.path());
    fs::remove_file(root.path().join("numbers")).unwrap();
    let error = FileStores::open(root.path(), Options::default()).unwrap_err();
    assert!(matches!(error, OpenError::NoNumbers { .. }), "{error}");
    let told = error.to_string();
    for part in ["a file `numbers` is expected", "it is gone", "Restore the whole of", "move "] {
        assert!(told.contains(part), "{told}");
    }
    assert_eq!(told.matches(&root.path().display().to_string()).count(), 3, "{told}");
}

#[test]
fn two_processes_do_not_share_a_folder() {
    let root = folder();
    let _first = open(root.path(), SEGMENT_BYTES);
    let error = FileStores::open(root.path(), Options::default()).unwrap_err();
    assert!(matches!(error, OpenError::Disk(disk::Error::Locked { .. })), "{error}");
}

#[test]
fn a_session_is_added_once() {
    let root = folder();
    let mut stores = open(root.path(), SEGMENT_BYTES);
    let error = stores.add("A", Durability::Sealed, START_MS).unwrap_err();
    assert!(matches!(error, OpenError::Twice { .. }), "{error}");
}
