//! Files that are cut or damaged anywhere.

use std::fs;
use std::ops::Range;
use std::path::PathBuf;

use super::*;

const STEPS: u64 = 20;

/// A file of some history with the place of each record, and the keys after each record; the first are those of none.
struct History {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    states: Vec<Vec<Vec<u8>>>,
}

impl History {
    fn new() -> History {
        let root = folder();
        let mut store = open(root.path(), LARGE).unwrap();
        let length = |store: &Store| usize::try_from(store.records().file.file_bytes()).unwrap();
        let mut history =
            History { bytes: Vec::new(), ends: vec![length(&store)], states: vec![Vec::new()] };
        store.unseal(kek()).unwrap();
        for number in 0..STEPS {
            history.ends.push(length(&store));
            history.states.push(seen(store.keys()));
            if !matches!(store.change(&change(number), 1_000), Ok(true)) {
                store.change(&Change::Rotate(name("a")), 1_000).unwrap();
            }
        }
        history.ends.push(length(&store));
        history.states.push(seen(store.keys()));
        history.bytes = fs::read(root.path().join("keys")).unwrap();
        assert_eq!(history.bytes.len(), length(&store));
        history
    }

    fn last(&self) -> Range<usize> {
        self.ends.iter().rev().find(|end| **end < self.bytes.len()).copied().unwrap()
            ..self.bytes.len()
    }

    /// The keys that the records before a place make.
    fn before(&self, at: usize) -> &Vec<Vec<u8>> {
        let whole = self.ends.iter().rposition(|end| *end <= at).unwrap();
        &self.states[whole]
    }
}

/// A folder with a file of keys.
fn with(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let root = folder();
    let path = root.path().join("keys");
    fs::write(&path, bytes).unwrap();
    (root, path)
}

#[test]
fn a_file_that_is_cut_anywhere_leaves_the_records_before_and_goes_on() {
    let history = History::new();
    for at in 0..=history.bytes.len() {
        let (root, path) = with(&history.bytes[..at]);
        if at < history.ends[0] {
            // The head is written before the file has its name.
            assert!(open(root.path(), LARGE).is_err(), "{at}");
            assert_eq!(fs::read(path).unwrap(), history.bytes[..at]);
            continue;
        }
        let mut store = open(root.path(), LARGE).unwrap();
        assert_eq!(seen(store.keys()), *history.before(at), "{at}");
        let whole = history.ends.iter().rfind(|end| **end <= at).unwrap();
        assert_eq!(store.records().file.cut_bytes(), (at - whole) as u64);
        assert_eq!(fs::metadata(path).unwrap().len(), *whole as u64);
        store.unseal(kek()).unwrap();
        store
            .change(&Change::Create { name: name("new"), policy: KeyPolicy::new(KIND) }, 9)
            .unwrap();
        let now = seen(store.keys());
        drop(store);
        assert_eq!(kept(root.path()), now, "{at}");
    }
}

#[test]
fn a_damaged_byte_anywhere_is_found_or_was_the_last_record() {
    let history = History::new();
    let last = history.last();
    for at in 0..history.bytes.len() {
        for bits in [1, 0x80, 0xff] {
            let mut bytes = history.bytes.clone();
            bytes[at] ^= bits;
            let (root, path) = with(&bytes);
            let opened = open(root.path(), LARGE);
            if last.contains(&at) {
                let store = opened.unwrap();
                assert_eq!(seen(store.keys()), *history.before(last.start), "{at}");
                assert_eq!(store.records().file.cut_bytes(), last.len() as u64);
                continue;
            }
            let error = opened.unwrap_err();
            let begins = history.ends.iter().rfind(|end| **end <= at).copied().unwrap_or(0) as u64;
            match &error {
                OpenError::Foreign { .. } => assert!(at < 8, "{at} {error}"),
                OpenError::Damaged { at: told, .. } => assert_eq!(*told, begins, "{error}"),
                _ => panic!("{at}: {error}"),
            }
            assert!(error.to_string().contains("/keys"), "{error}");
            assert_eq!(fs::read(path).unwrap(), bytes, "what is refused stays");
        }
    }
}

/// What a power cut leaves where the length arrived and the bytes did not.
#[test]
fn zeros_behind_the_last_record_are_cut_off() {
    let history = History::new();
    for zeros in [1, 7, 8, 9, 100, 5_000] {
        let mut bytes = history.bytes.clone();
        bytes.resize(bytes.len() + zeros, 0);
        let (root, _path) = with(&bytes);
        let store = open(root.path(), LARGE).unwrap();
        assert_eq!(seen(store.keys()), *history.states.last().unwrap());
        assert_eq!(store.records().file.cut_bytes(), zeros as u64);
    }
}
