//! Logs that are cut or damaged anywhere, on disks that fail, are full, or end at any operation.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::Path;

use super::*;
use crate::planted::{self, FAULTS, Fault, Planted, Recording, at_each_byte, at_each_operation};

const KIND: LogKind =
    LogKind { name: "log", mark: b"WEIRTEST", version: 3, first_byte: 1, content: "tests" };
/// A file that is written anew soon, and one that never is.
const SMALL: u64 = 200;
const LARGE: u64 = 1 << 30;

/// The newest record of each key.
type State = BTreeMap<u8, Vec<u8>>;

/// A log as a store has it: what it appended makes its state.
#[derive(Debug)]
struct Store {
    log: LogFile,
    state: State,
}

impl Store {
    fn open(folder: &Path, rewrite_bytes: u64) -> Result<Store> {
        let mut state = State::new();
        let log = LogFile::open(folder, KIND, rewrite_bytes, |_, _, record| {
            state.insert(record[1], record.to_vec());
            Ok::<_, Error>(())
        })?;
        Ok(Store { log, state })
    }

    fn set(&mut self, number: u8) -> Result<()> {
        let record = record(number);
        self.log.append(&record)?;
        self.state.insert(record[1], record);
        self.log.shorten(|| self.state.values().cloned());
        Ok(())
    }

    /// Sets numbers, some of which the disk refuses. Returns those.
    fn work(&mut self, numbers: Range<u8>) -> Vec<u8> {
        let refused = numbers.filter(|number| match self.set(*number) {
            Err(error @ Error::Io { .. }) => error.to_string().contains("free space on this disk"),
            done => done.is_err(),
        });
        refused.collect()
    }
}

/// A record of one of three keys.
fn record(number: u8) -> Vec<u8> {
    let length = 2 + usize::from(number) % 7;
    [&[1, number % 3][..], &vec![number; length]].concat()
}

fn kept(folder: &Path) -> State {
    Store::open(folder, LARGE).unwrap().state
}

/// A folder whose log has twenty records; where each ends, and the states before the first and behind each.
fn history() -> (tempfile::TempDir, Vec<u64>, Vec<State>) {
    let root = planted::folder();
    let mut store = Store::open(root.path(), LARGE).unwrap();
    let (mut ends, mut states) = (vec![store.log.file_bytes()], vec![State::new()]);
    for number in 0..20 {
        store.set(number).unwrap();
        ends.push(store.log.file_bytes());
        states.push(store.state.clone());
    }
    (root, ends, states)
}

#[test]
fn a_file_that_is_cut_anywhere_leaves_the_records_before_and_goes_on() {
    let (root, ends, states) = history();
    let cut = |bytes: &mut Vec<u8>, at: usize| bytes.truncate(at);
    at_each_byte(root.path(), &root.path().join("log"), cut, |at, left| {
        let at = at as u64;
        let Some(whole) = ends.iter().rposition(|end| *end <= at) else {
            // The head is written before the file has its name.
            assert!(Store::open(left, LARGE).is_err(), "{at}");
            assert_eq!(fs::metadata(left.join("log")).unwrap().len(), at);
            return;
        };
        let mut store = Store::open(left, LARGE).unwrap();
        assert_eq!((&store.state, store.log.cut_bytes()), (&states[whole], at - ends[whole]));
        assert_eq!(fs::metadata(left.join("log")).unwrap().len(), ends[whole]);
        store.set(99).unwrap();
        let now = store.state.clone();
        drop(store);
        assert_eq!(kept(left), now, "{at}");
    });
}

#[test]
fn a_damaged_byte_anywhere_is_found_or_was_the_last_record() {
    let (root, ends, states) = history();
    let last = ends.len() - 2;
    for bits in [1, 0x80, 0xff] {
        let damage = |bytes: &mut Vec<u8>, at: usize| bytes[at] ^= bits;
        at_each_byte(root.path(), &root.path().join("log"), damage, |at, left| {
            let (at, bytes) = (at as u64, fs::read(left.join("log")).unwrap());
            let opened = Store::open(left, LARGE);
            if at >= ends[last] {
                let store = opened.unwrap();
                assert_eq!(store.state, states[last], "{at}");
                assert_eq!(store.log.cut_bytes(), ends[last + 1] - ends[last]);
                return;
            }
            let error = opened.unwrap_err();
            let begins = ends.iter().rfind(|end| **end <= at).copied().unwrap_or(0);
            match &error {
                Error::Foreign { .. } => assert!(at < 8, "{at} {error}"),
                Error::Damaged { at: told, .. } => assert_eq!(*told, begins, "{error}"),
                _ => panic!("{at}: {error}"),
            }
            assert!(error.to_string().contains("/log"), "{error}");
            assert_eq!(fs::read(left.join("log")).unwrap(), bytes, "what is refused stays");
        });
    }
}

/// What a power cut leaves where the length arrived and the bytes did not.
#[test]
fn zeros_behind_the_last_record_are_cut_off() {
    let (root, _, states) = history();
    let bytes = fs::read(root.path().join("log")).unwrap();
    for zeros in [1, 7, 8, 9, 100, 5_000] {
        fs::write(root.path().join("log"), [&bytes[..], &vec![0; zeros]].concat()).unwrap();
        let store = Store::open(root.path(), LARGE).unwrap();
        assert_eq!(store.state, *states.last().unwrap());
        assert_eq!(store.log.cut_bytes(), zeros as u64);
    }
}

#[test]
fn what_fails_changes_nothing_and_what_was_acknowledged_is_there() {
    let (mut closed, mut closed_by_one, mut went_on) = (0, 0, 0);
    let met = at_each_operation(&FAULTS, |root, planted| {
        let mut store = Store::open(root, SMALL).unwrap();
        assert_eq!(store.work(0..20), []);
        let (refused, _) = planted.during(|| store.work(20..50));
        let mut allowed = vec![store.state.clone()];
        if store.log.failure().is_some() {
            closed += 1;
            // A rewrite that failed where nobody knows which file a crash leaves.
            closed_by_one += u64::from(planted.fault == Fault::Once);
            let error = store.set(50).unwrap_err().to_string();
            assert!(error.contains("a restart is needed"), "{error}");
            // Of a file that refuses everything the first refused record is the one that may be there.
            if let Some(number) = refused.first() {
                let mut state = store.state.clone();
                state.insert(record(*number)[1], record(*number));
                allowed.push(state);
            }
        } else {
            went_on += u64::from(!refused.is_empty());
            assert_eq!(store.work(50..80), [], "the disk works again");
            allowed = vec![store.state.clone()];
        }
        drop(store);
        let found = kept(root);
        assert!(allowed.contains(&found), "{planted:?}: {found:?} is none of {allowed:?}");
    });
    let counts = [met, closed, closed_by_one, went_on];
    assert!(
        counts.iter().zip([150, 50, 2, 90]).all(|(count, least)| *count >= least),
        "{counts:?}"
    );
}

/// Every record is one batch: what was acknowledged is there behind any ending, and the next one whole or not at all.
#[test]
fn a_kill_or_a_loss_of_power_at_any_operation_leaves_what_was_acknowledged() {
    let root = planted::folder();
    Recording::begin(root.path());
    let mut store = Store::open(root.path(), SMALL).unwrap();
    let mut allowed = vec![(0, vec![State::new()])];
    for number in 0..40 {
        let before = store.state.clone();
        let mut then = before.clone();
        then.insert(record(number)[1], record(number));
        allowed.push((Recording::length(), vec![before, then.clone()]));
        store.set(number).unwrap();
        allowed.push((Recording::length(), vec![then]));
    }
    let recording = Recording::end(root.path());
    assert!(recording.renames_of("log.new") > 3);
    recording.at_each_ending(
        4,
        |_| true,
        |ending, left| {
            let (_, allowed) = allowed.iter().rfind(|one| one.0 <= ending.at).unwrap();
            let found = kept(left);
            assert!(allowed.contains(&found), "{ending:?}: {found:?} is none of {allowed:?}");
        },
    );
}

/// A disk that is full while the file should be written anew: records that fit are kept, and the file is written anew later.
#[test]
fn a_file_that_cannot_be_written_anew_is_kept() {
    let root = planted::folder();
    let mut store = Store::open(root.path(), SMALL).unwrap();
    while store.log.file_bytes() + 10 <= SMALL {
        store.set(0).unwrap();
    }
    // The write and the sync of the record, and then no more.
    let (done, is_met) = Planted { fault: Fault::Once, after: 2 }.during(|| store.set(7));
    done.unwrap();
    let long = store.log.file_bytes();
    assert!(is_met && long > SMALL && store.log.failure().is_none());
    assert!(!root.path().join("log.new").exists());
    assert_eq!(store.work(0..40), []);
    assert!(store.log.file_bytes() < long);
}

#[test]
fn a_folder_that_cannot_be_opened_is_opened_when_the_disk_works() {
    let met = at_each_operation(&[Fault::Dead], |root, planted| {
        let place = root.join("deep/store");
        drop(planted.during(|| Store::open(&place, SMALL)));
        assert_eq!(kept(&place), State::new());
    });
    assert!(met > 5, "{met}");
}

#[test]
fn what_is_none_of_ours_or_of_a_later_version_is_refused_and_stays() {
    let (root, ..) = history();
    let path = root.path().join("log");
    let mut later = fs::read(&path).unwrap();
    later[8] = 4;
    let sum = crc32c::crc32c(&later[..12]).to_le_bytes();
    later[12..16].copy_from_slice(&sum);
    for (bytes, told) in [
        (later, "version 4, and this program reads version 3"),
        (b"something else".to_vec(), "does not begin as a file of tests"),
        (Vec::new(), "does not begin as a file of tests"),
    ] {
        fs::write(&path, &bytes).unwrap();
        let error = Store::open(root.path(), LARGE).unwrap_err().to_string();
        assert!(error.contains(told) && error.contains("/log"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
}

#[test]
fn a_record_without_bytes_is_refused() {
    let root = planted::folder();
    let mut store = Store::open(root.path(), SMALL).unwrap();
    assert!(store.log.append(&[]).unwrap_err().to_string().contains("from 1 byte"));
    assert!(store.log.failure().is_none());
}

/// The file is about as long as its state needs, or as is allowed; it is not written anew at every record where the state itself needs more.
#[test]
fn a_file_is_let_grow_to_twice_of_what_it_needs() {
    for (keys, rewrites_wanted) in [(1, 50..400), (50, 1..80)] {
        let root = planted::folder();
        let mut log =
            LogFile::open(root.path(), KIND, SMALL, |_, _, _| Ok::<_, Error>(())).unwrap();
        let (mut before, mut longest, mut rewrites) = (0, 0, 0);
        let records: Vec<Vec<u8>> = (0..keys).map(record).collect();
        for number in 0..3_000 {
            log.append(&records[number % records.len()]).unwrap();
            longest = longest.max(log.file_bytes());
            log.shorten(|| records.iter().cloned());
            rewrites += i32::from(log.file_bytes() < before);
            before = log.file_bytes();
        }
        let needed = KIND.file(records.into_iter()).unwrap().len() as u64;
        assert!(rewrites_wanted.contains(&rewrites), "{keys} {rewrites}");
        assert!(longest < SMALL.max(2 * needed) + 20, "{keys}: {longest} {needed}");
    }
}
