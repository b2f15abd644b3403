//! A crash during the last write: any of its sectors may be there, and the group never counts unless all are.

use ledger_journal::Log;
use ledger_journal::files::SECTOR_BYTES;
use proptest::prelude::*;

use crate::files::{Mem, groups, writer};
use crate::history::{Made, Work, group_ranges, start};

const SIZES: [usize; 3] = [5, 1, 20];

/// A journal of two runs whose last group has so many records, and where that group is.
fn made(last: usize) -> (Made, String, std::ops::Range<usize>) {
    let mut made = Made::new(1, 60, &SIZES);
    let recovered = start(&made.folder).unwrap();
    let records = Work::new(recovered.bank).take(last + 30);
    let (before, end) = records.split_at(records.len() - last);
    let mut writer = writer(made.folder.clone(), recovered.tail);
    for group in groups(recovered.tail.position, before, &SIZES) {
        writer.append(&group).unwrap();
    }
    for group in groups(*writer.position(), end, &[last]) {
        writer.append(&group).unwrap();
    }
    made.records.extend_from_slice(before);
    let segment = made.segments().pop().unwrap();
    let range = group_ranges(&made.folder.get(&segment)).pop().unwrap();
    // Some blocks of the room behind it are enough.
    made.folder.change(&segment, |bytes| bytes.truncate(range.end + 3 * 4096));
    made.records.extend_from_slice(end);
    (made, segment, range)
}

/// Keeps only some sectors of the group; recovery must cut exactly it, and a next run must be able to go on.
fn tear(made: &Made, segment: &str, group: &std::ops::Range<usize>, last: usize, lost: &[bool]) {
    let folder = made.folder.copy();
    let before = made.records.len() - last;
    let mut kept = 0;
    folder.change(segment, |bytes| {
        let sectors = bytes[group.clone()].chunks_mut(SECTOR_BYTES);
        for (index, (sector, lost)) in sectors.zip(lost).enumerate() {
            if *lost {
                sector.fill(0);
            } else {
                kept = index + 1;
            }
        }
    });
    let recovered = made.assert_recovers(&folder, before);
    assert_eq!(recovered.tail.next_segment, 3);
    let cut = recovered.report.cut;
    assert_eq!(cut.is_some(), kept > 0, "what is there is cut, and said");
    if let Some(cut) = cut {
        assert_eq!((cut.file.as_str(), cut.offset), (segment, group.start as u64));
        assert_eq!(cut.sequence, before as u64 + 1);
        let (least, most) = ((kept - 1) * SECTOR_BYTES, kept * SECTOR_BYTES);
        assert!((least as u64 + 1..=most as u64).contains(&cut.bytes), "{cut:?}");
    }
    assert_eq!(folder.get(segment).len(), group.start);
    go_on(made, folder, before);
}

fn go_on(made: &Made, folder: Mem, before: usize) {
    let mut next = Made { folder, records: made.records[..before].to_vec() };
    next.run(20, &SIZES);
    let recovered = next.assert_recovers(&next.folder, next.records.len());
    assert_eq!(recovered.report.cut, None);
}

#[test]
fn every_subset_of_the_sectors_of_a_small_group_is_cut() {
    let last = 10;
    let (made, segment, group) = made(last);
    let sectors = group.len() / SECTOR_BYTES;
    assert_eq!(sectors, 8, "one block");
    for subset in 1..1u32 << sectors {
        let lost: Vec<bool> = (0..sectors).map(|sector| subset >> sector & 1 == 1).collect();
        tear(&made, &segment, &group, last, &lost);
    }
    // And with all of them it is whole.
    made.assert_recovers(&made.folder, made.records.len());
}

#[test]
fn a_large_group_is_cut_wherever_it_was_torn() {
    let last = 600;
    let (made, segment, group) = made(last);
    let sectors = group.len() / SECTOR_BYTES;
    assert!(sectors >= 64, "{sectors}");
    for written in 0..sectors {
        let lost: Vec<bool> = (0..sectors).map(|sector| sector >= written).collect();
        tear(&made, &segment, &group, last, &lost);
    }
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let subsets = prop::collection::vec(any::<bool>(), sectors);
    for _ in 0..64 {
        let tree = subsets.new_tree(&mut runner).unwrap();
        let lost = proptest::strategy::ValueTree::current(&tree);
        if lost.contains(&true) {
            tear(&made, &segment, &group, last, &lost);
        }
    }
}

/// The crash comes again while the start is at its work: the second start finds the same.
#[test]
fn a_start_may_be_repeated() {
    let last = 10;
    let (made, segment, group) = made(last);
    made.folder.change(&segment, |bytes| bytes[group.start + SECTOR_BYTES..group.end].fill(0));
    let before = made.records.len() - last;
    let first = made.assert_recovers(&made.folder.copy(), before);
    made.assert_recovers(&made.folder, before);
    let again = made.assert_recovers(&made.folder, before);
    assert_eq!(again.tail, first.tail);
    assert_eq!((first.report.cut.is_some(), again.report.cut), (true, None));
}
