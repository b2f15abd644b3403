//! What a crash or a bad disk leaves behind: cut at any byte, flipped at any byte.

use std::fs;
use std::path::{Path, PathBuf};

use disk::planted::{at_each_byte, folder};
use gate_store::{SizeTiered, Store, StoreError};

use crate::sample::{Delta, OPTIONS, open};

const POLICY: SizeTiered = SizeTiered { fan_in: 2, keep_ms: None };

fn delta(key: u64) -> Delta {
    Delta { key, sub: 0, id: key + 1, time_ms: 1_000, count: 1 }
}

fn only(folder: &Path, ending: &str) -> PathBuf {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found = paths.filter(|path| path.extension().is_some_and(|e| e == ending));
    let path = found.next().unwrap();
    assert_eq!(found.next(), None);
    path
}

fn keys(folder: &Path) -> Result<Vec<u64>, StoreError> {
    let (store, _) = Store::<Delta, _>::open(folder, POLICY, OPTIONS)?;
    store.scan(1_000)?.map(|delta| Ok(delta?.key)).collect()
}

/// Three batches of two records in an open segment.
fn unsealed() -> (tempfile::TempDir, PathBuf, Vec<u8>) {
    let folder = folder();
    let mut store = open(folder.path(), POLICY);
    for batch in [[0, 1], [2, 3], [4, 5]] {
        store.append(&batch.map(delta), 1_000).unwrap();
    }
    drop(store);
    let path = only(folder.path(), "seg");
    let bytes = fs::read(&path).unwrap();
    (folder, path, bytes)
}

#[test]
fn a_segment_cut_at_any_byte_keeps_the_whole_batches_before() {
    let (folder, path, bytes) = unsealed();
    let block = (bytes.len() - 64) / 3;
    at_each_byte(folder.path(), &path, Vec::truncate, |len, copy| {
        let Some(blocks) = len.checked_sub(64) else {
            assert!(keys(copy).is_err(), "cut at {len}");
            return;
        };
        let (store, recovered) = Store::<Delta, _>::open(copy, POLICY, OPTIONS).unwrap();
        let batches = blocks / block;
        assert_eq!(recovered.records, 2 * batches as u64, "cut at {len}");
        assert_eq!(recovered.cut_bytes, (blocks % block) as u64);
        assert_eq!(recovered.cut_segments, u64::from(!blocks.is_multiple_of(block)));
        drop(store);
        assert!(keys(copy).unwrap().into_iter().eq(0..2 * batches as u64));
    });
    assert!(keys(folder.path()).unwrap().into_iter().eq(0..6));
}

#[expect(clippy::ptr_arg, reason = "what damages a file may cut it, too")]
fn flip(bytes: &mut Vec<u8>, at: usize) {
    bytes[at] ^= 1 << (at % 8);
}

#[test]
fn a_flipped_bit_in_an_open_segment_ends_it_there() {
    let (folder, path, bytes) = unsealed();
    let block = (bytes.len() - 64) / 3;
    at_each_byte(folder.path(), &path, flip, |at, copy| {
        let found = keys(copy);
        match at.checked_sub(64) {
            Some(at) => assert!(found.unwrap().into_iter().eq(0..2 * (at / block) as u64), "{at}"),
            None => assert!(found.is_err(), "{at}"),
        }
    });
}

#[test]
fn a_flipped_bit_in_what_was_closed_is_an_error_that_names_the_file() {
    let (folder, segment, _) = unsealed();
    drop(open(folder.path(), POLICY));
    every_flip_is_an_error(folder.path(), &segment);
    every_flip_is_an_error(folder.path(), &folder.path().join("MANIFEST"));
    open(folder.path(), POLICY).seal(1_000).unwrap();
    every_flip_is_an_error(folder.path(), &only(folder.path(), "run"));
}

fn every_flip_is_an_error(folder: &Path, path: &Path) {
    at_each_byte(folder, path, flip, |at, copy| {
        let error = keys(copy).unwrap_err();
        let StoreError::Damaged { path: named, .. } = &error else { panic!("at {at}: {error}") };
        assert_eq!(named.file_name(), path.file_name(), "at {at}: {error}");
    });
}
