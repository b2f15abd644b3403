//! The simulated folder: every lie that a disk may tell happens, and none that it may not.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ledger_journal::files::{Access, BLOCK_BYTES, File, Folder, SECTOR_BYTES};
use sim::files::{Crash, FAULTS, SimFile, SimFolder};

const BLOCKS: usize = 4;
const SECTORS_PER_BLOCK: usize = BLOCK_BYTES / SECTOR_BYTES;

/// Blocks at an address that may be written from.
#[repr(C, align(4096))]
struct Aligned([u8; BLOCKS * BLOCK_BYTES]);

/// Blocks full of this number.
fn stamped(stamp: u64) -> Box<Aligned> {
    let mut blocks = Box::new(Aligned([0; BLOCKS * BLOCK_BYTES]));
    blocks.0.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&stamp.to_le_bytes()));
    blocks
}

fn write(file: &SimFile, block: usize, blocks: usize, stamp: u64) -> io::Result<()> {
    file.write_at((block * BLOCK_BYTES) as u64, &stamped(stamp).0[..blocks * BLOCK_BYTES])
}

/// Writes some of the blocks; returns which.
fn write_some(file: &SimFile, draw: &mut Draw, stamp: u64) -> io::Result<Range<usize>> {
    let first = draw.index(BLOCKS);
    let blocks = 1 + draw.index(BLOCKS - first);
    write(file, first, blocks, stamp)?;
    Ok(first..first + blocks)
}

/// The stamp of a sector; 0 behind the end.
fn stamp(file: &SimFile, sector: u64) -> u64 {
    let mut bytes = [0; 8];
    match file.read_at(sector * SECTOR_BYTES as u64, &mut bytes) {
        Ok(()) => u64::from_le_bytes(bytes),
        Err(error) => {
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
            0
        }
    }
}

/// What the tests draw from; the folder has chance of its own.
struct Draw(u64);

impl Draw {
    /// Knuth's generator for MMIX.
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = self.0.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn index(&mut self, end: usize) -> usize {
        usize::try_from(self.below(end as u64)).unwrap()
    }
}

/// A file with a durable name and four durable blocks of stamp 1.
fn sealed_file(folder: &SimFolder, name: &str) -> SimFile {
    let file = folder.create(name).unwrap();
    write(&file, 0, BLOCKS, 1).unwrap();
    file.sync().unwrap();
    folder.sync().unwrap();
    file
}

#[test]
fn each_sector_survives_a_power_cut_as_sealed_or_as_written_since() {
    for seed in 0..300 {
        let (folder, mut draw) = (SimFolder::new(seed), Draw(seed));
        let mut file = sealed_file(&folder, "a");
        let mut possible = vec![BTreeSet::from([1]); BLOCKS * SECTORS_PER_BLOCK];
        for next in 2..60 {
            match draw.below(12) {
                0 => {
                    folder.crash(Crash::Power);
                    file = folder.open("a", Access::Write).expect("its name was sealed");
                    assert_eq!(file.len().unwrap(), (BLOCKS * BLOCK_BYTES) as u64);
                    for (sector, possible) in (0..).zip(&mut possible) {
                        let found = stamp(&file, sector);
                        assert!(possible.contains(&found), "seed {seed} sector {sector}: {found}");
                        *possible = BTreeSet::from([found]);
                    }
                }
                1 | 2 => {
                    file.sync().unwrap();
                    for (sector, possible) in (0..).zip(&mut possible) {
                        *possible = BTreeSet::from([stamp(&file, sector)]);
                    }
                }
                _ => {
                    let blocks = write_some(&file, &mut draw, next).unwrap();
                    let [first, end] = [blocks.start, blocks.end].map(|n| n * SECTORS_PER_BLOCK);
                    possible[first..end].iter_mut().for_each(|possible| possible.extend([next]));
                }
            }
        }
    }
}

#[test]
fn each_length_survives_a_power_cut_as_sealed_or_as_set_since() {
    let mut ends = BTreeSet::new();
    for seed in 0..300 {
        let (folder, mut draw) = (SimFolder::new(seed), Draw(seed));
        let mut file = sealed_file(&folder, "a");
        let mut possible = BTreeSet::from([file.len().unwrap()]);
        for _ in 0..20 {
            match draw.below(6) {
                0 => {
                    folder.crash(Crash::Power);
                    file = folder.open("a", Access::Write).unwrap();
                    let found = file.len().unwrap();
                    assert!(possible.contains(&found), "seed {seed}: {found}");
                    possible = BTreeSet::from([found]);
                    ends.insert(found);
                }
                1 => {
                    file.sync().unwrap();
                    possible = BTreeSet::from([file.len().unwrap()]);
                }
                2 => write(&file, draw.index(8), 1, 2).unwrap(),
                _ => file.set_len(draw.below(20_000)).unwrap(),
            }
            possible.insert(file.len().unwrap());
        }
    }
    assert!(ends.len() > 100, "only {} lengths were found", ends.len());
}

#[test]
fn what_was_cut_off_reads_as_zeros_when_the_file_grows_again() {
    let folder = SimFolder::new(1);
    let file = sealed_file(&folder, "a");
    write(&file, 0, 1, u64::MAX).unwrap();
    file.set_len(700).unwrap();
    file.set_len(2_000).unwrap();
    file.sync().unwrap();
    folder.crash(Crash::Power);
    let file = folder.open("a", Access::Read).unwrap();
    let stamps: Vec<u64> = (0..4).map(|sector| stamp(&file, sector)).collect();
    assert_eq!((file.len().unwrap(), stamps), (2_000, vec![u64::MAX, u64::MAX, 0, 0]));
    let mut bytes = [9; 16];
    file.read_at(692, &mut bytes).unwrap();
    assert_eq!((&bytes[..8], &bytes[8..]), (&[255; 8][..], &[0; 8][..]));
    let error = file.read_at(1_990, &mut bytes).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
}

#[test]
fn what_was_written_behind_an_end_that_was_lost_is_nowhere() {
    let mut lost = 0;
    for seed in 0..100 {
        let folder = SimFolder::new(seed);
        let file = sealed_file(&folder, "a");
        write(&file, BLOCKS, 1, 2).unwrap();
        folder.crash(Crash::Power);
        let file = folder.open("a", Access::Write).unwrap();
        if file.len().unwrap() == (BLOCKS * BLOCK_BYTES) as u64 {
            file.set_len(8 * BLOCK_BYTES as u64).unwrap();
            assert!((32..64).all(|sector| stamp(&file, sector) == 0), "seed {seed}");
            lost += 1;
        }
    }
    assert!(lost > 20, "{lost} of 100");
}

/// Files by name, as the stamps that they were sealed with.
fn named(folder: &SimFolder) -> BTreeMap<String, u64> {
    let open = |name: String| {
        let file = folder.open(&name, Access::Read).unwrap();
        (name, stamp(&file, 0))
    };
    folder.list().unwrap().into_iter().map(open).collect()
}

#[test]
fn each_name_survives_a_power_cut_as_sealed_or_as_changed_since() {
    const NAMES: [&str; 4] = ["a", "b", "c", "d"];
    for seed in 0..500 {
        let (folder, mut draw) = (SimFolder::new(seed), Draw(seed));
        let mut possible = NAMES.map(|_| BTreeSet::from([None]));
        for next in 1..60 {
            let [from, to] = [0, 0].map(|_| NAMES[draw.index(NAMES.len())]);
            let (mut sealed, mut crashed) = (false, false);
            match draw.below(10) {
                0 => {
                    folder.crash(Crash::Power);
                    crashed = true;
                }
                1 => {
                    folder.sync().unwrap();
                    sealed = true;
                }
                2..5 => {
                    if let Ok(file) = folder.create(from) {
                        write(&file, 0, 1, next).unwrap();
                        file.sync().unwrap();
                    }
                }
                // What is not there is not renamed and not removed.
                5..8 => drop(folder.rename(from, to)),
                _ => drop(folder.remove(from)),
            }
            let found = named(&folder);
            for (name, possible) in NAMES.into_iter().zip(&mut possible) {
                let found = found.get(name).copied();
                assert!(!crashed || possible.contains(&found), "seed {seed} {name}: {found:?}");
                if crashed || sealed {
                    possible.clear();
                }
                possible.insert(found);
            }
        }
    }
}

#[test]
fn a_rename_that_a_power_cut_met_may_leave_both_names() {
    let mut both = 0;
    for seed in 0..500 {
        let folder = SimFolder::new(seed);
        sealed_file(&folder, "a");
        folder.rename("a", "b").unwrap();
        folder.crash(Crash::Power);
        let found = named(&folder);
        assert!(!found.is_empty() && found.values().all(|stamp| *stamp == 1), "{found:?}");
        if found.len() == 2 {
            both += 1;
            folder.rename("a", "b").expect("POSIX: does nothing");
            assert_eq!(named(&folder), found);
        }
    }
    assert!((1..250).contains(&both), "{both} of 500");
}

#[test]
fn a_removed_file_stays_while_it_is_open() {
    let folder = SimFolder::new(1);
    let file = sealed_file(&folder, "a");
    folder.remove("a").unwrap();
    folder.sync().unwrap();
    write(&file, 0, 1, 2).unwrap();
    file.sync().unwrap();
    assert_eq!((stamp(&file, 0), folder.used_bytes()), (2, 0));
    assert!(folder.list().unwrap().is_empty());
}

#[test]
fn a_crash_of_the_process_alone_loses_nothing_but_seals_nothing() {
    let mut lost = 0;
    for seed in 0..50 {
        let folder = SimFolder::new(seed);
        let old = sealed_file(&folder, "a");
        write(&old, 0, 1, 2).unwrap();
        folder.crash(Crash::Process);
        let error = old.len().unwrap_err();
        assert!(!SimFolder::is_crash(&error), "{error}");
        assert!(write(&old, 0, 1, 3).is_err() && old.sync().is_err());

        let file = folder.open("a", Access::Read).unwrap();
        assert_eq!(stamp(&file, 0), 2);
        folder.crash(Crash::Power);
        let file = folder.open("a", Access::Read).unwrap();
        lost += u64::from(stamp(&file, 0) == 1);
    }
    assert!(lost > 0, "no seed lost what a killed process had not sealed");
}

/// A client that does a bit of everything; what it makes of errors does not matter here.
fn everything(folder: &SimFolder) -> io::Result<()> {
    let file = folder.create("new")?;
    write(&file, 0, 3, 7)?;
    file.sync()?;
    folder.rename("new", "old")?;
    folder.sync()?;
    write(&file, 1, 3, 8)?;
    write(&file, 1, 1, 9)?;
    file.set_len(9_000)?;
    folder.create("other")?;
    folder.sync()?;
    folder.remove("other")?;
    write(&file, 0, 2, 10)?;
    file.sync()
}

#[test]
fn a_crash_meets_every_operation() {
    let folder = SimFolder::new(0);
    everything(&folder).unwrap();
    let operations = folder.operations();
    assert_eq!(operations, 13);
    for (seed, stop) in (0..40).flat_map(|seed| (1..=operations).map(move |stop| (seed, stop))) {
        let folder = SimFolder::new(seed);
        folder.crash_after_operations(stop);
        let error = everything(&folder).expect_err("stopped");
        assert!(SimFolder::is_crash(&error), "{error}");
        assert!(folder.is_stopped() && folder.operations() == stop);
        for error in [folder.list().unwrap_err(), folder.sync().unwrap_err()] {
            assert!(SimFolder::is_crash(&error), "{error}");
        }
        folder.crash(if seed % 2 == 0 { Crash::Power } else { Crash::Process });
        assert!(!folder.is_stopped());
        if folder.list().unwrap().is_empty() {
            assert!(stop <= 5, "the name was sealed by operation 5");
        } else if stop > 5 {
            let file = folder.open("old", Access::Read).expect("sealed");
            assert!([7, 10].contains(&stamp(&file, 0)));
        }
    }
}

#[test]
fn a_write_in_flight_leaves_a_part_in_the_cache() {
    let mut parts = BTreeSet::new();
    for seed in 0..200 {
        let folder = SimFolder::new(seed);
        let file = sealed_file(&folder, "a");
        folder.crash_after_operations(1);
        write(&file, 0, BLOCKS, 2).unwrap_err();
        folder.crash(Crash::Process);
        let file = folder.open("a", Access::Read).unwrap();
        let stamps: Vec<u64> = (0..32).map(|sector| stamp(&file, sector)).collect();
        assert!(stamps.is_sorted_by(|a, b| a >= b), "what came first was written first");
        parts.insert(stamps.iter().filter(|stamp| **stamp == 2).count());
    }
    assert!(parts.len() > 20 && parts.contains(&0) && parts.contains(&32), "{parts:?}");
}

#[test]
fn a_full_disk_refuses_what_needs_more_room_and_only_that() {
    let mut parts = BTreeSet::new();
    for seed in 0..50 {
        let folder = SimFolder::new(seed);
        let file = sealed_file(&folder, "a");
        assert_eq!(folder.used_bytes(), 5 * BLOCK_BYTES as u64);
        folder.set_room(Some(6 * BLOCK_BYTES as u64));
        write(&file, 0, BLOCKS, 2).expect("it has its room");
        let full = |result: io::Result<()>| {
            assert_eq!(result.unwrap_err().kind(), io::ErrorKind::StorageFull);
        };
        full(file.set_len(6 * BLOCK_BYTES as u64));
        full(write(&file, BLOCKS, 2, 3));
        parts.insert(file.len().unwrap() / SECTOR_BYTES as u64);
        file.set_len((BLOCKS * BLOCK_BYTES) as u64).unwrap();
        folder.create("b").unwrap();
        full(folder.create("c").map(drop));
        full(write(&file, BLOCKS, 1, 3));
        folder.remove("b").unwrap();
        write(&file, BLOCKS, 1, 3).expect("there is room again");
        folder.set_room(None);
        folder.create("c").unwrap();
    }
    assert!(parts.contains(&32) && parts.len() > 3, "{parts:?}");
    assert!(*parts.last().unwrap() <= 40, "{parts:?}");
}

#[test]
fn calls_fail_as_often_as_they_are_told_to() {
    let folder = SimFolder::new(3);
    let file = sealed_file(&folder, "a");
    folder.fail_reads(2);
    assert!(file.len().is_err() && folder.list().is_err());
    assert_eq!(folder.list().unwrap(), ["a"]);
    folder.fail_writes(5);
    assert!(write(&file, 0, 1, 2).is_err() && file.set_len(0).is_err());
    assert!(folder.create("b").is_err() && folder.rename("a", "b").is_err());
    assert!(folder.remove("a").is_err());
    assert_eq!(folder.list().unwrap(), ["a"]);
    file.set_len(0).unwrap();
    let error = folder.open("b", Access::Read).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    assert_eq!(folder.create("a").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
}

/// How a client answers a failed sync.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Retry {
    /// By another sync.
    Sync,
    /// By writing everything again, elsewhere.
    Rewrite,
}

/// Writes until it is told that all is sealed, then the power goes. Returns whether what it was told holds.
fn survives_a_failed_sync(seed: u64, retry: Retry) -> bool {
    let folder = SimFolder::new(seed);
    let file = sealed_file(&folder, "a");
    write(&file, 0, BLOCKS, 2).unwrap();
    folder.fail_syncs(1);
    file.sync().expect_err("it was told to fail");
    assert_eq!(stamp(&file, 0), 2, "the page cache still has it");
    match retry {
        Retry::Sync => file.sync().unwrap(),
        Retry::Rewrite => {
            let file = folder.create("b").unwrap();
            write(&file, 0, BLOCKS, 2).unwrap();
            file.sync().unwrap();
            folder.rename("b", "a").unwrap();
            folder.sync().unwrap();
        }
    }
    folder.crash(Crash::Power);
    let file = folder.open("a", Access::Read).unwrap();
    (0..32).all(|sector| stamp(&file, sector) == 2)
}

#[test]
fn who_only_syncs_again_after_a_failed_sync_loses_what_it_believes_sealed() {
    let lost = |retry| (0..200).filter(|seed| !survives_a_failed_sync(*seed, retry)).count();
    assert_eq!(lost(Retry::Rewrite), 0);
    assert!(lost(Retry::Sync) > 100, "only {} of 200", lost(Retry::Sync));
}

#[test]
fn who_does_not_sync_the_folder_loses_names() {
    let lost = |seed: &u64| {
        let folder = SimFolder::new(*seed);
        let file = folder.create("a").unwrap();
        write(&file, 0, 1, 2).unwrap();
        file.sync().unwrap();
        folder.crash(Crash::Power);
        let found = named(&folder);
        assert!(found.values().all(|stamp| *stamp == 2), "the content was sealed");
        found.is_empty()
    };
    let lost = (0..200).filter(lost).count();
    assert!((20..180).contains(&lost), "{lost} of 200");
}

#[test]
fn who_does_not_sync_the_file_finds_its_name_without_its_content() {
    let empty = |seed: &u64| {
        let folder = SimFolder::new(*seed);
        let file = folder.create("a").unwrap();
        write(&file, 0, 1, 2).unwrap();
        folder.sync().unwrap();
        folder.crash(Crash::Power);
        stamp(&folder.open("a", Access::Read).expect("its name was sealed"), 0) == 0
    };
    let empty = (0..200).filter(empty).count();
    assert!((20..180).contains(&empty), "{empty} of 200");
}

#[test]
fn damage_is_where_it_says() {
    for seed in 0..100 {
        let folder = SimFolder::new(seed);
        sealed_file(&folder, "a");
        let read = || {
            let mut bytes = vec![0; BLOCKS * BLOCK_BYTES];
            folder.open("a", Access::Read).unwrap().read_at(0, &mut bytes).unwrap();
            bytes
        };
        let before = read();
        let at = folder.flip_bit("a", 1_000..1_100).expect("the file reaches there");
        assert!((1_000..1_100).contains(&at));
        folder.crash(Crash::Power);
        let changed = |(at, (a, b)): (usize, (&u8, &u8))| (a != b).then_some((at, (a ^ b)));
        let after = read();
        let changes: Vec<_> = before.iter().zip(&after).enumerate().filter_map(changed).collect();
        assert!(
            matches!(changes[..], [(found, bits)] if found as u64 == at && bits.is_power_of_two())
        );

        let at = folder.clear_sector("a", 4_096..8_192).expect("it has stamps there");
        assert!((4_096..8_192).contains(&at) && at.is_multiple_of(SECTOR_BYTES as u64));
        let file = folder.open("a", Access::Read).unwrap();
        let cleared: Vec<u64> = (0..32).filter(|sector| stamp(&file, *sector) == 0).collect();
        assert_eq!(cleared, [at / SECTOR_BYTES as u64]);
        assert_eq!(folder.flip_bit("a", 16_384..20_000), None, "behind the end");
        assert_eq!(folder.flip_bit("b", 0..1), None, "no such file");
    }
}

#[test]
fn calls_against_the_contract_are_the_callers_fault() {
    let folder = SimFolder::new(1);
    let file = sealed_file(&folder, "a");
    let reader = folder.open("a", Access::Read).unwrap();
    let blocks = stamped(2);
    let panics = |call: &dyn Fn() -> io::Result<()>| {
        let message = catch_unwind(AssertUnwindSafe(call)).expect_err("a panic");
        message.downcast_ref::<String>().expect("a text").clone()
    };
    let block = &blocks.0[..BLOCK_BYTES];
    assert!(panics(&|| file.write_at(512, block)).contains("offset 512"));
    assert!(panics(&|| file.write_at(0, &block[..512])).contains("512 bytes"));
    assert!(panics(&|| file.write_at(0, &blocks.0[512..][..BLOCK_BYTES])).contains("address"));
    assert!(panics(&|| reader.write_at(0, block)).contains("reading only"));
    assert!(panics(&|| reader.set_len(0)).contains("reading only"));
    file.write_at(0, block).expect("a panic leaves the folder usable");
}

/// Draws calls, faults and crashes; returns a figure over everything that was seen, and the faults that happened.
fn wild_run(seed: u64) -> (Vec<String>, BTreeMap<&'static str, u64>) {
    const NAMES: [&str; 3] = ["a", "b", "c"];
    let (folder, mut draw) = (SimFolder::new(seed), Draw(seed));
    let mut seen = Vec::new();
    for next in 1..200 {
        let [name, other] = [0, 0].map(|_| NAMES[draw.index(NAMES.len())]);
        match draw.below(8) {
            0 if next % 4 == 0 => folder.crash_after_operations(1 + draw.below(20)),
            1 => folder.set_room(Some(40_000)),
            2 => folder.set_room(None),
            3 if next % 4 == 0 => folder.fail_reads(1),
            4 if next % 4 == 0 => folder.fail_writes(1),
            5 if next % 4 == 0 => folder.fail_syncs(1),
            6 => seen.push(format!("{:?}", folder.flip_bit(name, 0..u64::MAX))),
            7 => seen.push(format!("{:?}", folder.clear_sector(name, 0..u64::MAX))),
            _ => {}
        }
        let result = match draw.below(16) {
            0 => folder.rename(name, other),
            1 => folder.remove(name),
            2 => folder.sync(),
            3..6 => folder.create(name).map(drop),
            action => folder.open(name, Access::Write).and_then(|file| match action {
                6 => file.set_len(draw.below(30_000)),
                7 | 8 => file.sync(),
                _ => write_some(&file, &mut draw, next).map(drop),
            }),
        };
        seen.push(format!("{result:?}"));
        if folder.is_stopped() || draw.below(30) == 0 {
            folder.crash(if draw.below(2) == 0 { Crash::Power } else { Crash::Process });
            folder.fail_reads(0);
            seen.push(format!("{:?}", named(&folder)));
        }
    }
    (seen, folder.faults())
}

#[test]
fn every_fault_happens() {
    let mut faults: BTreeMap<&str, u64> = FAULTS.map(|fault| (fault, 0)).into();
    for seed in 0..300 {
        for (fault, count) in wild_run(seed).1 {
            *faults.get_mut(fault).expect("only faults are counted") += count;
        }
    }
    println!("{faults:#?}");
    let missed: Vec<_> = faults.iter().filter(|(_, count)| **count == 0).collect();
    assert!(missed.is_empty(), "never happened: {missed:?}");
}

#[test]
fn the_same_calls_on_the_same_seed_end_the_same() {
    for seed in 0..20 {
        assert_eq!(wild_run(seed), wild_run(seed));
        assert_ne!(wild_run(seed), wild_run(seed + 1));
    }
}
