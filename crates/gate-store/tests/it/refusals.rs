//! What the store refuses, and how it says so.

use std::fs;

use disk::planted::folder;
use gate_store::{
    Choice, Leveled, Policy, Record, RunId, RunMeta, SizeTiered, Store, StoreError, TimeWindow,
};

use crate::sample::{Delta, OPTIONS, open, settle};

const POLICY: SizeTiered = SizeTiered { fan_in: 4, keep_ms: None };

/// As wide as a [`Delta`], but something else.
#[derive(Clone, Copy, Debug)]
struct Other;

impl Record for Other {
    const BYTES: usize = 40;
    const LAYOUT: u32 = 77;

    fn key(&self) -> u64 {
        0
    }

    fn time_ms(&self) -> u64 {
        0
    }

    fn merge(&self, _: &Other) -> Other {
        Other
    }

    fn to_bytes(&self, _: &mut [u8]) {}

    fn from_bytes(_: &[u8]) -> Other {
        Other
    }
}

#[test]
fn a_folder_of_other_records_is_refused() {
    let folder = folder();
    drop(open(folder.path(), POLICY));
    let error = Store::<Other, _>::open(folder.path(), POLICY, OPTIONS).unwrap_err();
    assert!(error.to_string().contains("record layout 1, expected 77"), "{error}");
}

#[test]
fn a_folder_of_another_policy_is_refused() {
    let folder = folder();
    drop(open(folder.path(), POLICY));
    let error = Store::<Delta, _>::open(folder.path(), Leveled::default(), OPTIONS).unwrap_err();
    assert!(error.to_string().contains("policy tag 2, expected 3"), "{error}");
}

#[test]
fn a_folder_is_open_once() {
    let folder = folder();
    let store = open(folder.path(), POLICY);
    let error = Store::<Delta, _>::open(folder.path(), POLICY, OPTIONS).unwrap_err();
    assert!(matches!(error, StoreError::Disk(gate_store::DiskError::Locked { .. })), "{error}");
    drop(store);
    drop(open(folder.path(), POLICY));
}

#[test]
fn files_without_a_manifest_are_refused_and_files_of_others_left_alone() {
    let folder = folder();
    drop(open(folder.path(), POLICY));
    fs::write(folder.path().join("notes.txt"), "mine").unwrap();
    drop(open(folder.path(), POLICY));
    assert!(folder.path().join("notes.txt").exists());
    fs::write(folder.path().join("000000000007.run"), "a run").unwrap();
    fs::remove_file(folder.path().join("MANIFEST")).unwrap();
    let error = Store::<Delta, _>::open(folder.path(), POLICY, OPTIONS).unwrap_err();
    assert!(matches!(error, StoreError::NoManifest { files: 1, .. }), "{error}");
}

#[test]
fn late_and_early_records_are_counted_and_not_taken() {
    let folder = folder();
    let within = SizeTiered::default();
    let policy = TimeWindow { window_ms: 100, lateness_ms: 50, keep_ms: 200, within };
    let mut store = open(folder.path(), policy);
    let at = |time_ms| Delta { key: 1, sub: 0, id: 0, time_ms, count: 1 };
    let batch = [at(849), at(850), at(950), at(1_050), at(1_101), at(9_000)];
    // 1,000: the window of 850 closes at 950, the one of 950 at 1,050.
    let appended = store.append(&batch, 1_000).unwrap();
    assert_eq!((appended.seq, appended.late, appended.early), (3, 2, 1));
    let stats = store.stats();
    assert_eq!((stats.appended_records, stats.late_records, stats.early_records), (3, 2, 1));
}

#[test]
fn a_dead_window_leaves_the_disk_without_being_read() {
    let folder = folder();
    let within = SizeTiered::default();
    let policy = TimeWindow { window_ms: 100, lateness_ms: 50, keep_ms: 200, within };
    let mut store = open(folder.path(), policy);
    let delta = |time_ms| Delta { key: 1, sub: 0, id: 0, time_ms, count: 1 };
    store.append(&[delta(1_000)], 1_000).unwrap();
    store.seal(1_000).unwrap();
    store.append(&[delta(1_001), delta(1_100)], 1_001).unwrap();
    let run = folder.path().join(format!("{:012}.run", store.runs()[0].id.0));
    // A damaged run shows when it is read; this one only has to go.
    fs::write(&run, vec![0; fs::metadata(&run).unwrap().len().try_into().unwrap()]).unwrap();
    settle(&mut store, 1_300);
    let stats = store.stats();
    assert_eq!((stats.dropped_runs, stats.dropped_segments, stats.seals), (1, 1, 2));
    assert!(!run.exists());
    assert_eq!(store.records(), 1);
}

/// Chooses what is not there.
struct Wrong;

impl Policy for Wrong {
    fn tag(&self) -> u32 {
        99
    }

    fn choose(&self, _: &[RunMeta], _: u64) -> Choice {
        Choice::Drop(vec![RunId(12_345)])
    }
}

#[test]
fn a_policy_that_chooses_what_is_not_there_is_refused() {
    let folder = folder();
    let mut store = open(folder.path(), Wrong);
    let error = store.maintain(1, 1).unwrap_err();
    assert!(error.to_string().contains("RunId(12345)"), "{error}");
    store.append(&[Delta { key: 1, sub: 0, id: 0, time_ms: 1, count: 1 }], 1).unwrap();
}

#[test]
fn a_scan_outlives_the_merge_of_its_runs() {
    let folder = folder();
    let mut store = open(folder.path(), SizeTiered { fan_in: 2, keep_ms: None });
    for key in [1, 2] {
        store.append(&[Delta { key, sub: 0, id: 0, time_ms: 1, count: key }], 1).unwrap();
        store.seal(1).unwrap();
    }
    let scan = store.scan(1).unwrap();
    settle(&mut store, 1);
    assert_eq!(store.runs().len(), 1);
    assert!(scan.map(|delta| delta.unwrap().key).eq([1, 2]));
}
