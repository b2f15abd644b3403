//! A disk that fails at every single operation: nothing that was acknowledged is lost, nothing is counted twice.

use std::collections::BTreeMap;

use super::*;
use crate::SizeTiered;
use crate::disk::fault::{self, Fault};

#[derive(Clone, Copy, Debug, PartialEq)]
struct Count {
    key: u64,
    id: u64,
    count: u64,
}

impl Record for Count {
    const BYTES: usize = 24;
    const LAYOUT: u32 = 1;
    const ID_LIFE_MS: u64 = u64::MAX;

    fn key(&self) -> u64 {
        self.key
    }

    fn id(&self) -> u64 {
        self.id
    }

    fn time_ms(&self) -> u64 {
        1
    }

    fn merge(&self, newer: &Count) -> Count {
        Count { id: 0, count: self.count + newer.count, ..*self }
    }

    fn to_bytes(&self, out: &mut [u8]) {
        let numbers = [self.key, self.id, self.count];
        out.chunks_exact_mut(8)
            .zip(numbers)
            .for_each(|(to, n)| to.copy_from_slice(&n.to_le_bytes()));
    }

    fn from_bytes(bytes: &[u8]) -> Count {
        let number = |at: usize| crate::format::get_u64(bytes, at);
        Count { key: number(0), id: number(8), count: number(16) }
    }
}

type Counts = Store<Count, SizeTiered>;

/// Segments of two batches, so that a few batches go through sealing and merging.
const OPTIONS: Options =
    Options { segment_bytes_max: 200, segment_ms_max: u64::MAX, ahead_ms_max: u64::MAX };
const BATCHES: u64 = 24;

fn open(folder: &Path) -> Result<Counts, StoreError> {
    Store::open(folder, SizeTiered { fan_in: 2, keep_ms: None }, OPTIONS).map(|(store, _)| store)
}

fn batch(number: u64) -> Vec<Count> {
    (0..3).map(|n| Count { key: (number * 7 + n) % 10, id: number * 3 + n + 1, count: 1 }).collect()
}

/// Appends every batch until it is acknowledged, with maintenance between; a broken store is opened again. Gives
/// up on a disk that stays bad.
fn play(folder: &Path) -> Result<u64, StoreError> {
    let mut store = open(folder)?;
    for number in 0..BATCHES {
        let mut tries = 0;
        while let Err(error) = store.append(&batch(number), 1) {
            tries += 1;
            if tries == 3 {
                return Ok(number);
            }
            if matches!(error, StoreError::Broken { .. }) {
                drop(store);
                let Ok(again) = open(folder) else { return Ok(number) };
                store = again;
            }
        }
        for _ in 0..4 {
            // What fails here is tried again; that nothing is lost is what the test is about.
            let _ = store.maintain(1, 5);
        }
    }
    Ok(BATCHES)
}

fn sums(store: &Counts) -> BTreeMap<u64, u64> {
    let mut sums = BTreeMap::new();
    store.fold(1, |count| *sums.entry(count.key).or_default() += count.count, |_, _| {}).unwrap();
    sums
}

/// What `batches` acknowledged batches come to.
fn expected(batches: u64) -> BTreeMap<u64, u64> {
    let mut sums = BTreeMap::new();
    for count in (0..batches).flat_map(batch) {
        *sums.entry(count.key).or_default() += count.count;
    }
    sums
}

/// Plays with one fault after another until one is not reached any more; says how many there were.
fn with_each(fault_after: fn(u64) -> Fault) -> u64 {
    for after in 0.. {
        let folder = tempfile::tempdir().unwrap();
        fault::set(fault_after(after));
        let acknowledged = play(folder.path()).unwrap_or(0);
        let unreached = matches!(
            fault::get(),
            Fault::OnceAfter(1..) | Fault::FullAfter(1..) | Fault::DeadAfter(1..)
        );
        fault::set(Fault::None);
        let store = open(folder.path()).unwrap();
        let found = sums(&store);
        // The batch that was refused may be there, as after a lost answer; sent again it would count once.
        assert!(
            found == expected(acknowledged) || found == expected((acknowledged + 1).min(BATCHES)),
            "{:?}: {acknowledged} batches acknowledged, found {found:?}",
            fault_after(after)
        );
        let files = disk::names(folder.path()).unwrap().len();
        let live = store.runs.len() + store.segments.len();
        assert_eq!(
            files,
            live + 2,
            "left-overs beside manifest and lock, {:?}",
            fault_after(after)
        );
        if unreached {
            assert_eq!(acknowledged, BATCHES);
            return after;
        }
    }
    unreachable!("the work is finite")
}

#[test]
fn a_disk_that_fails_once_loses_nothing() {
    assert!(with_each(Fault::OnceAfter) > 100);
}

#[test]
fn a_full_disk_leaves_a_sound_store() {
    assert!(with_each(Fault::FullAfter) > 100);
}

#[test]
fn a_dead_disk_loses_nothing_that_it_acknowledged() {
    assert!(with_each(Fault::DeadAfter) > 100);
}

#[test]
fn a_full_disk_that_has_room_again_goes_on_without_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path()).unwrap();
    store.append(&batch(0), 1).unwrap();
    fault::set(Fault::FullAfter(0));
    let error = store.append(&batch(1), 1).unwrap_err();
    assert!(error.to_string().contains("make room"), "{error}");
    fault::set(Fault::None);
    store.append(&batch(1), 1).unwrap();
    assert_eq!(sums(&store), expected(2));
}

#[test]
fn a_sync_that_failed_stops_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path()).unwrap();
    store.append(&batch(0), 1).unwrap();
    fault::set(Fault::OnceAfter(0));
    assert!(matches!(store.sync(), Err(StoreError::Io { .. })));
    assert!(matches!(store.append(&batch(1), 1), Err(StoreError::Broken { .. })));
    drop(store);
    assert_eq!(sums(&open(folder.path()).unwrap()), expected(1));
}
