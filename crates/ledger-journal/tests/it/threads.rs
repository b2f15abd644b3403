//! The journal on its threads.

use std::time::Duration;

use ledger::Record;
use ledger_journal::files::Folder;
use ledger_journal::{Disk, Durability, Journal, JournalOptions};

use crate::damage::KEEP_ALL;
use crate::files::{AT_MS, EMPTY, Flaky, Lands, Mem, assert_holds, writer};
use crate::history::{Work, options, replay, start};

/// Longer than any test waits unless something is wrong.
const PATIENCE: Duration = Duration::from_secs(60);

fn journal<F>(folder: F, unsealed_bytes_max: usize) -> Journal
where
    F: Folder + Clone + Send + 'static,
    F::File: Send,
{
    let options = JournalOptions {
        gather: Duration::ZERO,
        gather_idle: Duration::ZERO,
        unsealed_bytes_max,
        durability: Durability::Sealed,
        segment_bytes: 0,
        keep: KEEP_ALL,
        unread: None,
        bank: options(),
        lease: None,
    };
    let writer = writer(folder.clone(), EMPTY);
    Journal::start(folder, writer, options, std::thread::current()).unwrap()
}

/// Waits until something is so; the writer wakes this thread.
fn wait_until(journal: &Journal, is_so: impl Fn(&Journal) -> bool) {
    let start = std::time::Instant::now();
    while !is_so(journal) {
        assert!(start.elapsed() < PATIENCE, "it never came to be");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

fn all_sealed(journal: &Journal) -> bool {
    journal.sealed() == journal.next_sequence()
}

fn append(journal: &mut Journal, records: &[Record]) {
    let expected = journal.next_sequence() + records.len() as u64;
    journal.append(records, AT_MS);
    assert_eq!(journal.next_sequence(), expected);
}

#[test]
fn all_that_is_appended_is_sealed() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::open(dir.path(), Durability::Sealed).unwrap();
    let records = Work::fresh().take(300);
    let mut journal = journal(disk.clone(), 1 << 20);
    let status = journal.status();
    let mut before = journal.sealed();
    assert_eq!(before, 1);
    for some in records.chunks(17) {
        append(&mut journal, some);
        assert!(journal.sealed() >= before && journal.sealed() <= journal.next_sequence());
        before = journal.sealed();
    }
    wait_until(&journal, all_sealed);
    let figures = status.read();
    assert_eq!(figures.sealed, records.len() as u64 + 1);
    assert_eq!((figures.unsealed_bytes, figures.errors, figures.segments), (0, 0, 1));
    assert!(figures.groups >= 1 && figures.bytes >= figures.groups * 4096);
    assert_eq!(figures.seal_ns.count(), figures.groups);
    assert_eq!(figures.failure, None);
    journal.finish(PATIENCE).unwrap();
    assert_holds(&disk, &records);
    assert_eq!(start(&disk).unwrap().bank.digest(), replay(&records).digest());
}

#[test]
fn finish_seals_what_waits() {
    let folder = Mem::default();
    let records = Work::fresh().take(100);
    let mut journal = journal(folder.clone(), 1 << 20);
    let status = journal.status();
    append(&mut journal, &records);
    journal.finish(PATIENCE).unwrap();
    assert_eq!(status.read().unsealed_bytes, 0);
    assert_holds(&folder, &records);
}

/// What was sealed is not waited for: a wait of that length would never end.
#[test]
fn finish_does_not_wait_for_what_was_sealed() {
    let folder = Mem::default();
    let records = Work::fresh().take(30);
    let mut journal = journal(folder.clone(), 1 << 20);
    append(&mut journal, &records);
    wait_until(&journal, all_sealed);
    journal.finish(Duration::from_secs(100_000)).unwrap();
    assert_holds(&folder, &records);
}

/// What comes after a pause is written at once; what follows gathers, but not beyond the end.
#[test]
fn the_end_does_not_wait_for_more_to_gather() {
    let folder = Mem::default();
    let records = Work::fresh().take(60);
    let options = JournalOptions {
        gather: Duration::from_secs(100_000),
        gather_idle: Duration::from_secs(100_000),
        unsealed_bytes_max: 1 << 20,
        durability: Durability::Sealed,
        segment_bytes: 0,
        keep: KEEP_ALL,
        unread: None,
        bank: options(),
        lease: None,
    };
    let writer = writer(folder.clone(), EMPTY);
    let mut journal =
        Journal::start(folder.clone(), writer, options, std::thread::current()).unwrap();
    let status = journal.status();
    append(&mut journal, &records[..1]);
    wait_until(&journal, all_sealed);
    for some in records[1..].chunks(7) {
        append(&mut journal, some);
    }
    assert_eq!(journal.sealed(), 2);
    journal.finish(PATIENCE).unwrap();
    assert_eq!(status.read().groups, 2, "the first one, and all that gathered");
    assert_holds(&folder, &records);
}

/// Whoever drops a journal ends its threads; what they had taken on may or may not be sealed.
#[test]
fn a_dropped_journal_ends_its_threads() {
    let folder = Mem::default();
    let mut journal = journal(folder.clone(), 1 << 20);
    append(&mut journal, &Work::fresh().take(30));
    drop(journal);
    start(&folder).unwrap();
}

#[test]
fn a_journal_that_is_full_says_so() {
    let flaky = Flaky::new(Mem::default());
    flaky.fail(0..usize::MAX, Lands::Nothing);
    let records = Work::fresh().take(200);
    let mut journal = journal(flaky.clone(), 8_000);
    assert!(!journal.is_full());
    append(&mut journal, &records);
    assert!(journal.is_full());
    wait_until(&journal, |journal| journal.failure().is_some());
    assert!(journal.is_full(), "what the writer cannot write still counts");
    assert_eq!(journal.sealed(), 1);
    let figures = journal.status().read();
    assert!(figures.unsealed_bytes >= 8_000 && figures.errors >= 1 && figures.failure.is_some());
    flaky.fail(0..0, Lands::Nothing);
    wait_until(&journal, all_sealed);
    assert!(!journal.is_full());
    assert_eq!(journal.failure(), None);
    assert_eq!(journal.status().read().failure, None);
    journal.finish(PATIENCE).unwrap();
    assert_holds(&flaky, &records);
}

#[test]
fn a_disk_that_fails_for_ever_does_not_hold_up_the_end() {
    let flaky = Flaky::new(Mem::default());
    flaky.fail(0..usize::MAX, Lands::Half);
    let records = Work::fresh().take(20);
    let mut journal = journal(flaky.clone(), 1 << 20);
    append(&mut journal, &records);
    wait_until(&journal, |journal| journal.failure().is_some());
    let error = journal.finish(Duration::from_millis(300)).unwrap_err();
    assert!(
        error.starts_with(&format!("{} records could not be sealed", records.len())),
        "{error}"
    );
    assert!(error.contains("space"), "the disk's own words: {error}");
}

/// The bank learns of snapshots from the figures, and a start uses them.
#[test]
fn the_housekeeper_makes_snapshots() {
    let folder = Mem::default();
    let mut made = crate::history::Made { folder: folder.clone(), records: Vec::new() };
    made.run(60, &[10]);
    made.run(60, &[10]);
    let recovered = start(&folder).unwrap();
    let records = Work::new(recovered.bank).take(50);
    let options = JournalOptions {
        gather: Duration::from_micros(500),
        gather_idle: Duration::from_micros(500),
        unsealed_bytes_max: 1 << 20,
        durability: Durability::Sealed,
        segment_bytes: 0,
        keep: KEEP_ALL,
        unread: None,
        bank: options(),
        lease: None,
    };
    let writer = writer(folder.clone(), recovered.tail);
    let mut journal =
        Journal::start(folder.clone(), writer, options, std::thread::current()).unwrap();
    append(&mut journal, &records);
    wait_until(&journal, |journal| {
        all_sealed(journal) && journal.status().read().kept.snapshots > 0
    });
    let kept = journal.status().read().kept;
    assert!(kept.snapshot > 1 && kept.failure.is_none(), "{kept:?}");
    journal.finish(PATIENCE).unwrap();
    made.records.extend(records);
    let recovered = made.assert_recovers(&folder, made.records.len());
    assert!(recovered.report.snapshot >= Some(kept.snapshot));
}
