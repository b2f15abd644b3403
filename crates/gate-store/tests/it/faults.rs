//! A disk that fails at every single operation, or ends there: nothing that was acknowledged is lost, nothing is counted twice.

use std::collections::BTreeMap;
use std::path::Path;

use disk::planted::{FAULTS, Fault, Planted, Recording, at_each_operation, folder};
use gate_store::{DiskError, Options, SizeTiered, Store, StoreError};

use crate::sample::Delta;

/// Segments of two batches, so that a few batches go through sealing and merging.
const OPTIONS: Options =
    Options { segment_bytes_max: 300, segment_ms_max: u64::MAX, ahead_ms_max: u64::MAX };
const BATCHES: u64 = 24;

type Counts = Store<Delta, SizeTiered>;

fn open(folder: &Path) -> Result<Counts, StoreError> {
    Store::open(folder, SizeTiered { fan_in: 2, keep_ms: None }, OPTIONS).map(|(store, _)| store)
}

fn batch(number: u64) -> Vec<Delta> {
    let delta = |n| Delta {
        key: (number * 7 + n) % 10,
        sub: 0,
        id: number * 3 + n + 1,
        time_ms: 1,
        count: 1,
    };
    (0..3).map(delta).collect()
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

#[test]
fn a_disk_that_fails_at_any_operation_loses_nothing_and_leaves_nothing_over() {
    for fault in FAULTS {
        let met = at_each_operation(&[fault], |root, planted| {
            let (acknowledged, _) = planted.during(|| play(root).unwrap_or(0));
            let mut store = open(root).unwrap();
            let found = sums(&store);
            // The batch that was refused may be there, as after a lost answer; sent again it would count once.
            let allowed = [acknowledged, (acknowledged + 1).min(BATCHES)].map(expected);
            assert!(
                allowed.contains(&found),
                "{planted:?}: {acknowledged} batches, found {found:?}"
            );
            store.seal(1).unwrap();
            let files = disk::names(root).unwrap().len();
            assert_eq!(files, store.runs().len() + 2, "beside manifest and lock, {planted:?}");
        });
        assert!(met > 100, "{fault:?}: {met}");
    }
}

/// A batch is whole or not there, and what was synced is there; a kill leaves what was acknowledged.
#[test]
fn a_kill_or_a_loss_of_power_at_any_operation_loses_nothing_that_was_synced() {
    let root = folder();
    Recording::begin(root.path());
    let mut store = open(root.path()).unwrap();
    // Batches that were acknowledged, and those that were synced, from so many operations on.
    let mut known = vec![(0, 0, 0)];
    for number in 0..BATCHES {
        store.append(&batch(number), 1).unwrap();
        let (_, _, synced) = known[known.len() - 1];
        known.push((Recording::length(), number + 1, synced));
        if number % 3 == 2 {
            store.sync().unwrap();
            known.push((Recording::length(), number + 1, number + 1));
        }
        (0..2).for_each(|_| assert!(store.maintain(1, 5).is_ok()));
    }
    let recording = Recording::end(root.path());
    recording.at_each_ending(
        2,
        |_| true,
        |ending, left| {
            let (_, acknowledged, synced) =
                known.iter().rfind(|known| known.0 <= ending.at).unwrap();
            let least = if ending.is_loss { synced } else { acknowledged };
            let found = sums(&open(left).unwrap());
            let is_allowed = (*least..=acknowledged + 1).any(|batches| expected(batches) == found);
            assert!(is_allowed, "{ending:?}: {least} to {acknowledged} batches, found {found:?}");
        },
    );
}

#[test]
fn a_full_disk_that_has_room_again_goes_on_without_reopening() {
    let folder = folder();
    let mut store = open(folder.path()).unwrap();
    store.append(&batch(0), 1).unwrap();
    let full = Planted { fault: Fault::Full, after: 0 };
    let (refused, _) = full.during(|| store.append(&batch(1), 1));
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("free space") && error.contains("acknowledged is lost"), "{error}");
    store.append(&batch(1), 1).unwrap();
    assert_eq!(sums(&store), expected(2));
}

#[test]
fn a_sync_that_failed_stops_the_store() {
    let folder = folder();
    let mut store = open(folder.path()).unwrap();
    store.append(&batch(0), 1).unwrap();
    let (synced, _) = Planted { fault: Fault::Once, after: 0 }.during(|| store.sync());
    assert!(matches!(synced, Err(StoreError::Disk(DiskError::Io { .. }))));
    assert!(matches!(store.append(&batch(1), 1), Err(StoreError::Broken { .. })));
    drop(store);
    assert_eq!(sums(&open(folder.path()).unwrap()), expected(1));
}
