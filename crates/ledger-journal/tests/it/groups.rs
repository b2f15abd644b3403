//! What goes in comes out: groups of all sizes, over many segments and runs, by every way to the disk.

use ledger::Record;
use ledger_journal::{Disk, Durability, Gather, Log, Tail, prepare};
use proptest::prelude::*;

use crate::files::{AT_MS, EMPTY, Mem, assert_holds, groups, read_all, tail, writer};
use crate::history::{Work, start};
use ledger_journal::files::Folder;

/// Writes records in groups of these sizes.
fn seal<F: Folder + Clone>(folder: &F, at: Tail, records: &[Record], sizes: &[usize]) {
    let mut writer = writer(folder.clone(), at);
    for group in groups(at.position, records, sizes) {
        assert_eq!(writer.position(), group.before());
        writer.append(&group).unwrap();
    }
}

/// Records of all lengths.
fn records(lengths: &[u16]) -> Vec<Record> {
    let text = |length: u16| "ä".repeat(usize::from(length % 129)).into();
    let record = |(index, length): (usize, &u16)| match length % 3 {
        0 => Record::GrantClosed { grant: index as u64 },
        1 => Record::KeyRetired { key_id: 1 },
        _ => Record::Operator { at_ms: AT_MS, who: text(*length), why: text(length / 7) },
    };
    lengths.iter().enumerate().map(record).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn any_records_in_any_groups_come_back(
        runs in prop::collection::vec(
            (prop::collection::vec(any::<u16>(), 1..200), prop::collection::vec(1..60usize, 1..5)),
            1..4,
        ),
    ) {
        let (folder, mut all, mut at) = (Mem::default(), Vec::new(), EMPTY);
        for (run, (lengths, sizes)) in runs.iter().enumerate() {
            let records = records(lengths);
            seal(&folder, at, &records, sizes);
            all.extend(records);
            let walked = assert_holds(&folder, &all);
            prop_assert_eq!(walked.segments, run + 1, "each run begins a segment");
            prop_assert_eq!(walked.torn_bytes, 0);
            at = tail(&walked);
        }
    }
}

/// On a real disk: several runs, each recovered from, by each of the ways to write.
#[test]
fn runs_follow_each_other_on_a_disk() {
    for durability in [Durability::Sealed, Durability::Os] {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::open(dir.path(), durability).unwrap();
        let mut all = Vec::new();
        for run in 0..3 {
            let recovered = start(&disk).unwrap();
            assert_eq!(recovered.report.records, all.len() as u64, "run {run}");
            assert_eq!(recovered.report.cut, None);
            let records = Work::new(recovered.bank).take(150);
            if run == 1 {
                prepare(&disk, 0).unwrap();
            }
            seal(&disk, recovered.tail, &records, &[1, 40, 7]);
            all.extend(records);
            let walked = assert_holds(&Disk::read(dir.path()), &all);
            assert_eq!(walked.segments, run + 1);
        }
    }
}

/// Full groups, over more segments than one, with prepared files and without.
#[test]
fn full_groups_fill_segment_after_segment() {
    let record =
        Record::Operator { at_ms: 1, who: "w".repeat(256).into(), why: "y".repeat(256).into() };
    let folder = Mem::default();
    let (mut writer, mut gather) = (writer(folder.clone(), EMPTY), Gather::new(EMPTY.position));
    let mut written = 0;
    while written < 7 {
        while gather.bytes() < 3 << 20 {
            gather.append(&record, AT_MS);
        }
        while let Some(group) = gather.take() {
            if written % 2 == 0 {
                prepare(&folder, 0).unwrap();
            }
            writer.append(&group).unwrap();
            gather.recycle(group);
            written += 1;
        }
        assert!(gather.is_empty() && gather.bytes() == 0);
    }
    let begun = usize::try_from(writer.segments_begun()).unwrap();
    assert!(begun >= 3, "{begun} segments");
    let (found, walked) = read_all(&folder);
    assert_eq!(walked.segments, begun);
    assert_eq!(found.len() as u64 + 1, gather.next_sequence());
    assert!(found.iter().all(|(_, found)| *found == record));
    assert!(found.iter().zip(1..).all(|((sequence, _), expected)| *sequence == expected));
}

#[test]
fn an_empty_folder_is_the_beginning() {
    let recovered = start(&Mem::default()).unwrap();
    assert_eq!(recovered.tail, EMPTY);
    assert_eq!(recovered.report, ledger_journal::Report::default());
}

/// What is copied from another log is sealed segment by segment: before that, nothing of it is there.
#[test]
fn copied_groups_are_there_once_their_segment_is_sealed() {
    let all = records(&[40; 12]);
    let folder = Mem::default();
    let mut writer = writer(folder.clone(), EMPTY);
    let groups = groups(EMPTY.position, &all, &[3; 4]);
    writer.append(&groups[0]).unwrap();
    writer.copy(&groups[1]).unwrap();
    assert!(writer.copy(&groups[3]).is_err(), "it does not follow");
    writer.copy(&groups[2]).unwrap();
    assert_eq!(writer.position(), groups[0].after());
    assert_holds(&folder.copy(), &all[..3]);
    writer.seal_copied().unwrap();
    writer.seal_copied().unwrap();
    assert_eq!(writer.position(), groups[2].after());
    writer.append(&groups[3]).unwrap();
    let walked = assert_holds(&folder, &all);
    assert_eq!(walked.segments as u64, writer.segments_begun());
}
