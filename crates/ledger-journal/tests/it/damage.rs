//! Whatever happened to sealed bytes, a start gives exactly the right state or says where they are wrong.

use ledger_journal::{Damage, Fault, Log, ReadError, RecoverError};

use crate::files::{AT_MS, EMPTY, Mem, NODE, groups};
use crate::history::{Made, Work, group_ranges, options, replay, start, used};
use ledger_journal::files::BLOCK_BYTES;
use ledger_journal::snapshot::{Keep, advance};
use ledger_journal::{Disk, Durability, Writer, recover};

const SIZES: [usize; 3] = [9, 2, 14];
pub(crate) const KEEP_ALL: Keep =
    Keep { snapshot_bytes: 1, bytes_max: u64::MAX, ms_max: u64::MAX, unread: u64::MAX };

/// Four segments and a snapshot of the first three.
fn made() -> Made {
    let mut made = Made::new(3, 30, &SIZES);
    made.run(30, &SIZES);
    let made_one = advance(&made.folder, &options(), &KEEP_ALL, AT_MS, &false.into()).unwrap();
    assert!(made_one.snapshot.is_some());
    let last = made.segments().pop().unwrap();
    made.folder.change(&last, |bytes| bytes.truncate(used(bytes) + BLOCK_BYTES));
    made
}

/// The damage that a start reports.
fn damage(folder: &Mem) -> Damage {
    match start(folder).unwrap_err() {
        RecoverError::Read(ReadError::Damage(damage)) => damage,
        other => panic!("{other}"),
    }
}

/// Bytes that are worth changing: all but most of the filler.
fn places(bytes: &[u8]) -> Vec<usize> {
    let is_filler = |at: usize| bytes[at] == 0xA5;
    (0..bytes.len()).filter(|at| !is_filler(*at) || at % 61 == 0).collect()
}

/// A start of the changed folder is refused there, or gives the same state as before.
fn refused_or_right(made: &Made, folder: &Mem, digest: u64, file: &str, at: usize) -> bool {
    match start(folder) {
        Ok(recovered) => {
            assert_eq!(recovered.bank.digest(), digest, "{file}, byte {at}");
            assert_eq!(recovered.tail.position.sequence, made.records.len() as u64 + 1);
            false
        }
        Err(RecoverError::Read(ReadError::Damage(damage))) => {
            assert!(damage.offset <= at as u64, "byte {at}: {damage}");
            assert_eq!(damage.file, file, "byte {at}: {damage}");
            assert!(start(folder).is_err(), "it is refused again");
            true
        }
        Err(other) => panic!("{file}, byte {at}: {other}"),
    }
}

#[test]
fn every_changed_byte_is_found() {
    let made = made();
    let digest = replay(&made.records).digest();
    let names = made.folder.names();
    assert_eq!(names.len(), 5, "{names:?}");
    for file in &names {
        let bytes = made.folder.get(file);
        let is_needed = file == names.iter().rfind(|name| name.starts_with("seg")).unwrap();
        let places = places(&bytes[..used(&bytes)]);
        // The snapshot and the segments that it stands for are alike; a part of them is enough.
        let every = if is_needed { 1 } else { 7 };
        for at in places.into_iter().step_by(every) {
            let folder = made.folder.copy();
            folder.change(file, |bytes| bytes[at] ^= 1 << (at % 8));
            let refused = refused_or_right(&made, &folder, digest, file, at);
            assert_eq!(refused, is_needed, "{file}, byte {at}");
        }
    }
}

/// Without a snapshot every segment is needed.
#[test]
fn every_changed_byte_of_every_segment_is_found() {
    let made = Made::new(2, 20, &SIZES);
    let digest = replay(&made.records).digest();
    for file in made.segments() {
        let bytes = made.folder.get(&file);
        for at in places(&bytes[..used(&bytes)]) {
            for bit in [at % 8, (at + 3) % 8] {
                let folder = made.folder.copy();
                folder.change(&file, |bytes| bytes[at] ^= 1 << bit);
                assert!(refused_or_right(&made, &folder, digest, &file, at), "{file}, byte {at}");
            }
        }
    }
}

/// The place named is the group's, not one behind or before it.
#[test]
fn the_place_of_the_damage_is_exact() {
    let made = Made::new(2, 40, &SIZES);
    let mut sequence = 1;
    for file in made.segments() {
        let bytes = made.folder.get(&file);
        for range in group_ranges(&bytes) {
            let records = u32::from_le_bytes(bytes[range.start + 12..][..4].try_into().unwrap());
            let folder = made.folder.copy();
            folder.change(&file, |bytes| bytes[range.start + 70] ^= 1);
            let found = damage(&folder);
            assert_eq!((found.file.as_str(), found.offset), (file.as_str(), range.start as u64));
            assert_eq!(found.sequence, sequence);
            sequence += u64::from(records);
        }
    }
    assert_eq!(sequence, made.records.len() as u64 + 1);
}

#[test]
fn a_group_that_is_gone_or_elsewhere_is_missed() {
    let made = Made::new(2, 40, &SIZES);
    for file in made.segments() {
        let bytes = made.folder.get(&file);
        let ranges = group_ranges(&bytes);
        for (index, range) in ranges.iter().enumerate().take(ranges.len() - 1) {
            let spliced = made.folder.copy();
            spliced.change(&file, |bytes| drop(bytes.drain(range.clone())));
            let found = damage(&spliced);
            assert_eq!((found.file.as_str(), found.offset), (file.as_str(), range.start as u64));

            let zeroed = made.folder.copy();
            zeroed.change(&file, |bytes| bytes[range.clone()].fill(0));
            let found = damage(&zeroed);
            assert_eq!((found.file.as_str(), found.offset), (file.as_str(), range.start as u64));
            assert!(matches!(found.what, Fault::Hole { .. }), "{found}");

            let swapped = made.folder.copy();
            let next = ranges[index + 1].clone();
            let both = [&bytes[next.clone()], &bytes[range.clone()]].concat();
            swapped.change(&file, |bytes| bytes[range.start..next.end].copy_from_slice(&both));
            let found = damage(&swapped);
            assert_eq!((found.file.as_str(), found.offset), (file.as_str(), range.start as u64));

            let twice = made.folder.copy();
            twice.change(&file, |bytes| {
                let copy = bytes[range.clone()].to_vec();
                bytes.splice(range.end..range.end, copy);
            });
            assert_eq!(damage(&twice).offset, range.end as u64);
        }
    }
}

#[test]
fn a_file_that_is_gone_is_missed() {
    let made = Made::new(3, 20, &SIZES);
    for file in &made.segments()[..2] {
        let folder = made.folder.copy();
        ledger_journal::files::Folder::remove(&folder, file).unwrap();
        let found = damage(&folder);
        assert_eq!((&found.file, found.what), (file, Fault::Missing));
    }
}

/// A snapshot knows the segment that it continues in, and that there was one at all.
#[test]
fn a_snapshot_misses_its_segments() {
    let made = made();
    let [_, _, third, last] = <[String; 4]>::try_from(made.segments()).unwrap();
    let folder = made.folder.copy();
    ledger_journal::files::Folder::remove(&folder, &last).unwrap();
    assert_eq!(damage(&folder).file, last);
    for file in made.segments() {
        let _ = ledger_journal::files::Folder::remove(&folder, &file);
    }
    assert_eq!(damage(&folder).file, last);
    let snapshot = made.snapshots().pop().unwrap();
    folder.change(&snapshot, |bytes| bytes[5000] ^= 1);
    assert_eq!(damage(&folder).file, snapshot, "a damaged snapshot alone is not a new journal");
    // What it stands for is not needed.
    let folder = made.folder.copy();
    ledger_journal::files::Folder::remove(&folder, &third).unwrap();
    made.assert_recovers(&folder, made.records.len());
}

#[test]
fn a_segment_of_another_journal_is_not_taken() {
    let made = Made::new(3, 20, &SIZES);
    let other = Made::new(3, 25, &SIZES);
    for file in &made.segments() {
        let folder = made.folder.copy();
        folder.put(file, other.folder.get(file));
        damage(&folder);
    }
    // Nor one of the same journal under another's name.
    let [first, second, _] = <[String; 3]>::try_from(made.segments()).unwrap();
    let folder = made.folder.copy();
    folder.put(&second, made.folder.get(&first));
    assert_eq!((damage(&folder).file, damage(&folder).what), (second, Fault::Missing));
}

/// The parts of a snapshot belong to its head, and its head to its name.
#[test]
fn snapshots_cannot_be_mixed() {
    let mut made = made();
    made.run(30, &SIZES);
    advance(&made.folder, &options(), &KEEP_ALL, AT_MS, &false.into()).unwrap();
    let [old, new] = <[String; 2]>::try_from(made.snapshots()).unwrap();
    let (older, newer) = (made.folder.get(&old), made.folder.get(&new));
    for mixed in [[&newer[..BLOCK_BYTES], &older[BLOCK_BYTES..]].concat(), older.clone()] {
        let folder = made.folder.copy();
        folder.put(&new, mixed);
        let recovered = made.assert_recovers(&folder, made.records.len());
        assert_ne!(recovered.report.snapshot, Some(made.records.len() as u64 + 1));
    }
}

/// A file in front of others cannot be shorter than it was.
#[test]
fn a_truncated_file_in_front_of_others_is_refused() {
    let made = Made::new(2, 40, &SIZES);
    let file = made.segments().remove(0);
    for length in (0..made.folder.get(&file).len()).step_by(BLOCK_BYTES / 4) {
        let folder = made.folder.copy();
        folder.change(&file, |bytes| bytes.truncate(length));
        assert_eq!(damage(&folder).file, file, "{length} bytes");
    }
}

/// The last one may have been cut by a start that crashed before it wrote anything, so that it is shorter cannot be
/// told; but what is left is a whole number of groups, and a group that is cut through is said to be cut off.
#[test]
fn a_truncated_last_file_ends_with_a_whole_group() {
    let made = Made::new(2, 40, &SIZES);
    let file = made.segments().pop().unwrap();
    let bytes = made.folder.get(&file);
    let ranges = group_ranges(&bytes);
    for length in (BLOCK_BYTES..used(&bytes)).step_by(BLOCK_BYTES / 4) {
        let folder = made.folder.copy();
        folder.change(&file, |bytes| bytes.truncate(length));
        let recovered = start(&folder).unwrap();
        let whole = ranges.iter().rfind(|range| range.end <= length);
        let end = whole.map_or(BLOCK_BYTES, |range| range.end);
        let records = usize::try_from(recovered.tail.position.sequence).unwrap() - 1;
        assert_eq!(recovered.bank.digest(), replay(&made.records[..records]).digest());
        assert_eq!(recovered.report.cut.is_some(), length > end, "{length} bytes");
        assert_eq!(folder.get(&file).len(), end);
    }
    for length in (0..BLOCK_BYTES).step_by(BLOCK_BYTES / 4) {
        let folder = made.folder.copy();
        folder.change(&file, |bytes| bytes.truncate(length));
        assert_eq!(damage(&folder).file, file);
    }
}

#[test]
fn what_was_appended_is_no_record() {
    let made = Made::new(2, 20, &SIZES);
    let digest = replay(&made.records).digest();
    for file in made.segments() {
        let (bytes, end) = (made.folder.get(&file), used(&made.folder.get(&file)));
        let is_last = bytes.len() > end;
        let first_group = bytes[group_ranges(&bytes)[0].clone()].to_vec();
        for garbage in
            [vec![0x5A; BLOCK_BYTES], vec![1; 700], vec![0; 5 * BLOCK_BYTES], first_group]
        {
            let folder = made.folder.copy();
            let sound = garbage.iter().all(|byte| *byte == 0) || garbage.len() < BLOCK_BYTES;
            folder.change(&file, |bytes| {
                bytes.truncate(end);
                bytes.extend(garbage);
            });
            let refused = refused_or_right(&made, &folder, digest, &file, end);
            assert_eq!(refused, is_last && !sound, "nothing behind a closed segment's end counts");
        }
    }
}

#[test]
fn a_head_of_a_version_to_come_is_named() {
    let made = Made::new(1, 20, &SIZES);
    let file = made.segments().pop().unwrap();
    made.folder.change(&file, |bytes| {
        bytes[8] = 2;
        bytes[12..16].fill(0);
        let sum = crc32c::crc32c(&bytes[..BLOCK_BYTES]);
        bytes[12..16].copy_from_slice(&sum.to_le_bytes());
    });
    let text = damage(&made.folder).to_string();
    assert!(text.contains("format 2, this version reads 1"), "{text}");
}

#[test]
fn another_nodes_folder_is_refused() {
    let made = Made::new(2, 20, &SIZES);
    let error = recover(&made.folder, &options(), NODE + 1, &mut |_| {}).unwrap_err();
    assert!(matches!(error, RecoverError::OtherNode { found: NODE, .. }), "{error}");
}

/// A refused start leaves every file as it was.
#[test]
fn a_refused_start_changes_nothing() {
    let made = made();
    let last = made.segments().pop().unwrap();
    made.folder.change(&last, |bytes| bytes[BLOCK_BYTES + 80] ^= 4);
    made.folder.put("prepared.tmp", vec![0; BLOCK_BYTES]);
    let before = made.folder.copy();
    damage(&made.folder);
    for name in before.names() {
        assert_eq!(before.get(&name), made.folder.get(&name), "{name}");
    }
}

/// On a disk: other things under the names of files.
#[test]
fn a_directory_in_a_files_place_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::open(dir.path(), Durability::Os).unwrap();
    let records = Work::fresh().take(20);
    let mut writer = Writer::new(disk.clone(), NODE, 0, EMPTY);
    for group in groups(EMPTY.position, &records, &[5]) {
        writer.append(&group).unwrap();
    }
    for (name, is_dir) in [
        ("segment-0000000002.weir", true),
        ("segment-0000000002.weir", false),
        ("snapshot-00000000000000000005.weir", true),
    ] {
        let path = dir.path().join(name);
        if is_dir {
            std::fs::create_dir(&path).unwrap()
        } else {
            std::fs::write(&path, []).unwrap()
        }
        match start(&disk) {
            // The records are all there without the snapshot.
            Ok(recovered) => {
                assert!(name.starts_with("snapshot"), "{name}");
                assert_eq!(recovered.bank.digest(), replay(&records).digest());
            }
            Err(error) => assert!(error.to_string().contains(name), "{error}"),
        }
        if is_dir {
            std::fs::remove_dir(&path).unwrap()
        } else {
            std::fs::remove_file(&path).unwrap()
        }
    }
    start(&disk).unwrap();
}
