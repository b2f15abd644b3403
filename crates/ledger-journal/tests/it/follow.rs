//! Sealed groups, read beside the writer: all of them, once, in order, and nothing that is not sealed.

use std::ops::ControlFlow;
use std::time::Duration;

use ledger::Record;
use ledger_journal::files::{Folder, SECTOR_BYTES};
use ledger_journal::{
    Disk, Durability, FollowError, Follower, Group, Journal, JournalOptions, Log, ReadError, Writer,
};

use crate::damage::KEEP_ALL;
use crate::files::{AT_MS, EMPTY, Flaky, Lands, Mem, NODE, groups, writer};
use crate::history::{Made, Work, group_ranges, options};

/// Reads up to `sealed`, and checks each group. Returns the records, without those of the first group that are before the beginning.
fn read<F: Folder>(
    follower: &mut Follower<F>,
    sealed: u64,
) -> (Vec<Record>, Result<(), FollowError>) {
    let (mut records, mut next) = (Vec::new(), follower.sequence());
    let result = follower.read_groups(sealed, &mut |group| {
        let read = Group::read(group.entry, &group.before).unwrap();
        assert_eq!((read.at_ms(), read.records()), (group.at_ms, group.records.len() as u64));
        assert!(group.before.sequence <= next && next < read.after().sequence);
        assert!(read.after().sequence <= sealed, "not all of it is sealed");
        let known = usize::try_from(next - group.before.sequence).unwrap();
        records.extend_from_slice(&group.records[known..]);
        next = read.after().sequence;
        ControlFlow::Continue(())
    });
    assert_eq!(follower.sequence(), next);
    (records, result)
}

fn read_on<F: Folder>(follower: &mut Follower<F>, sealed: u64) -> Vec<Record> {
    let (records, result) = read(follower, sealed);
    result.unwrap();
    records
}

/// From any record to any record, over several runs: whole groups, as far as they are sealed.
#[test]
fn groups_come_from_any_record_on_and_only_where_all_of_one_is_sealed() {
    let made = Made::new(3, 30, &[5, 1, 12]);
    let all = made.records.len();
    let ends: Vec<usize> = (1..=all as u64 + 1)
        .filter(|sealed| {
            let mut follower = Follower::new(made.folder.clone(), 1);
            read_on(&mut follower, *sealed);
            follower.sequence() == *sealed
        })
        .map(|end| usize::try_from(end).unwrap() - 1)
        .collect();
    assert!(ends.len() > 12 && ends.last() == Some(&all), "{ends:?}");
    for from in 0..=all {
        let mut follower = Follower::new(made.folder.clone(), from as u64 + 1);
        let mut at = from;
        for sealed in (from..=all).step_by(7).chain([all]) {
            let records = read_on(&mut follower, sealed as u64 + 1);
            let end = ends.iter().rev().find(|end| **end <= sealed).copied().unwrap_or(0).max(at);
            assert_eq!(records, made.records[at..end], "from {from} to {sealed}");
            at = end;
        }
    }
}

#[test]
fn a_break_ends_a_call_and_the_next_one_goes_on() {
    let made = Made::new(2, 30, &[5, 1, 12]);
    let (mut follower, mut records) = (Follower::new(made.folder.clone(), 1), Vec::new());
    let sealed = made.records.len() as u64 + 1;
    while follower.sequence() < sealed {
        let mut groups = 0;
        let each = &mut |group: &ledger_journal::SealedGroup<'_>| {
            records.extend_from_slice(group.records);
            groups += 1;
            ControlFlow::Break(())
        };
        follower.read_groups(sealed, each).unwrap();
        assert_eq!(groups, 1);
    }
    assert_eq!(records, made.records);
}

/// Short segments, and a disk that fails: after each group that is sealed it is read, and never before.
#[test]
fn groups_are_read_as_they_are_sealed_whatever_fails() {
    let records = Work::fresh().take(120);
    for lands in [Lands::Nothing, Lands::Half, Lands::All] {
        let mem = Mem::default();
        let folder = Flaky::new(mem.clone());
        let mut writer = Writer::with_short_segments(folder.clone(), NODE, 5 * 4096, EMPTY);
        let (mut follower, mut found) = (Follower::new(mem, 1), Vec::new());
        for (index, group) in groups(EMPTY.position, &records, &[4, 1, 9]).iter().enumerate() {
            let begun = folder.done().len();
            folder.fail(begun..begun + index % 4, lands);
            while writer.append(group).is_err() {
                let sealed = writer.position().sequence;
                assert_eq!(read_on(&mut follower, sealed), [], "a group that failed");
            }
            found.extend(read_on(&mut follower, writer.position().sequence));
            assert_eq!(found.len() as u64 + 1, writer.position().sequence);
        }
        assert_eq!(found, records);
        assert!(writer.segments_begun() > 5, "{}", writer.segments_begun());
    }
}

/// The last group was not written to its end: it is not read while it is not sealed, and missed where it should be.
#[test]
fn a_torn_tail_is_never_handed_out() {
    let made = Made::new(2, 40, &[5, 1, 12]);
    let segment = made.segments().pop().unwrap();
    let last = group_ranges(&made.folder.get(&segment)).pop().unwrap();
    let all = made.records.len() as u64 + 1;
    let mut before = Follower::new(made.folder.clone(), 1);
    read_on(&mut before, all - 1);
    let before = before.sequence();
    for sector in last.clone().step_by(SECTOR_BYTES) {
        let folder = made.folder.copy();
        folder.change(&segment, |bytes| bytes[sector..last.end].fill(0));
        let mut follower = Follower::new(folder.clone(), 1);
        let known = usize::try_from(before).unwrap() - 1;
        assert_eq!(read_on(&mut follower, before), made.records[..known]);
        for _ in 0..2 {
            let (records, result) = read(&mut follower, all);
            assert_eq!(records, []);
            assert!(
                matches!(result, Err(FollowError::Read(ReadError::Damage(_)))),
                "what is sealed and not there is no silence: {result:?}"
            );
        }
        // The reader looks again: the bytes that it saw before are old.
        folder.put(&segment, made.folder.get(&segment));
        assert_eq!(read_on(&mut follower, all), made.records[known..]);
    }
    // And how long the file was: a group that is longer than its segment makes it longer.
    let folder = made.folder.copy();
    folder.change(&segment, |bytes| bytes.truncate(last.start));
    let mut follower = Follower::new(folder.clone(), 1);
    let mut found = read_on(&mut follower, before);
    folder.change(&segment, |bytes| *bytes = made.folder.get(&segment));
    found.extend(read_on(&mut follower, all));
    assert_eq!(found, made.records);
}

/// The retention removes segments, and one of them is being read.
#[test]
fn a_segment_that_is_removed_while_it_is_read_is_read_to_its_end() {
    let made = Made::new(4, 30, &[5, 1, 12]);
    let (segments, all) = (made.segments(), made.records.len() as u64 + 1);
    let remove = |folder: &Mem, gone: usize| {
        segments[..gone].iter().for_each(|name| folder.remove(name).unwrap());
    };
    let folder = made.folder.copy();
    let mut follower = Follower::new(folder.clone(), 1);
    let mut found = read_on(&mut follower, 7);
    remove(&folder, 1);
    found.extend(read_on(&mut follower, all));
    assert_eq!(found, made.records);

    let folder = made.folder.copy();
    let mut follower = Follower::new(folder.clone(), 1);
    let mut found = read_on(&mut follower, 7);
    remove(&folder, 3);
    let (some, result) = read(&mut follower, all);
    found.extend(some);
    assert_eq!(found, made.records[..found.len()], "the segment that was open is read");
    let Err(FollowError::Removed { wanted, first }) = result else { panic!("{result:?}") };
    assert_eq!((wanted, wanted), (found.len() as u64 + 1, follower.sequence()));
    assert!(wanted < first && first < all, "{wanted}, {first}");
    for from in [1, wanted, first - 1] {
        let (records, result) = read(&mut Follower::new(folder.clone(), from), all);
        assert_eq!(records, []);
        let text = result.unwrap_err().to_string();
        assert!(text.starts_with(&format!("record {from} was removed")), "{text}");
    }
    let rest = read_on(&mut Follower::new(folder.clone(), first), all);
    assert_eq!(rest, made.records[usize::try_from(first).unwrap() - 1..]);
    // A hole is damage, and so is a folder without the segment that must be there.
    let folder = made.folder.copy();
    folder.remove(&segments[1]).unwrap();
    let (found, result) = read(&mut Follower::new(folder.clone(), 1), all);
    assert_eq!(found, made.records[..found.len()]);
    assert!(result.unwrap_err().to_string().starts_with(&segments[1]));
    let (_, result) = read(&mut Follower::new(Mem::default(), 1), 2);
    assert!(result.unwrap_err().to_string().starts_with(&segments[0]));
}

/// On a disk, beside the journal's threads, over several segments.
#[test]
fn a_reader_keeps_up_with_a_running_journal() {
    let text = |from: usize| format!("{from:0200}").into();
    let record = |from| Record::Operator { at_ms: AT_MS, who: text(from), why: text(from) };
    let records: Vec<Record> = (0..12_000).map(record).collect();
    for durability in [Durability::Sealed, Durability::Os] {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::open(dir.path(), durability).unwrap();
        let options = JournalOptions {
            gather: Duration::ZERO,
            gather_idle: Duration::ZERO,
            unsealed_bytes_max: 1 << 20,
            durability,
            segment_bytes: 0,
            keep: KEEP_ALL,
            unread: None,
            bank: options(),
            lease: None,
        };
        let log = writer(disk.clone(), EMPTY);
        let mut journal = Journal::start(disk, log, options, std::thread::current()).unwrap();
        let status = journal.status();
        let mut follower = Follower::new(Disk::read(dir.path()), 1);
        let reader = std::thread::spawn(move || {
            let (mut found, mut calls) = (Vec::new(), 0);
            while found.len() < 12_000 {
                found.extend(read_on(&mut follower, status.sealed()));
                calls += 1;
            }
            (found, calls)
        });
        for some in records.chunks(97) {
            journal.append(some, AT_MS);
            while journal.is_full() {
                std::thread::park_timeout(Duration::from_millis(1));
            }
        }
        let segments = journal.status();
        journal.finish(Duration::from_secs(60)).unwrap();
        let (found, calls) = reader.join().unwrap();
        assert_eq!(found, records);
        assert!(calls > 1 && segments.read().segments > 1, "{calls} calls");
    }
}
