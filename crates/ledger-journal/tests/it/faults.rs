//! Disks that fail while the journal is written.

use ledger_journal::{Log, prepare};

use crate::files::{EMPTY, Flaky, Lands, Mem, Op, assert_holds, groups, writer};
use crate::history::{Work, replay, start};

const GROUPS: usize = 4;

/// Writes all groups, each again until it is taken. Returns how often the disk failed.
fn write_all(folder: &Flaky, records: &[ledger::Record], prepared: bool) -> usize {
    let mut writer = writer(folder.clone(), EMPTY);
    let mut failures = 0;
    for group in groups(EMPTY.position, records, &[records.len().div_ceil(GROUPS)]) {
        if prepared {
            failures += usize::from(prepare(folder, 0).is_err());
        }
        while writer.append(&group).is_err() {
            assert_eq!(writer.position(), group.before(), "what failed does not count");
            failures += 1;
            assert!(failures < 100, "the disk works again");
        }
    }
    failures
}

fn records() -> Vec<ledger::Record> {
    Work::fresh().take(40)
}

/// All the operations that an undisturbed writing makes.
fn undisturbed(records: &[ledger::Record], prepared: bool) -> Vec<Op> {
    let folder = Flaky::new(Mem::default());
    assert_eq!(write_all(&folder, records, prepared), 0);
    folder.done()
}

/// Any operation may fail, once or for a while, having done nothing, half or all of its work.
#[test]
fn whatever_fails_each_record_is_there_once() {
    let records = records();
    let digest = replay(&records).digest();
    for prepared in [false, true] {
        let operations = undisturbed(&records, prepared);
        for (first, op) in operations.iter().enumerate() {
            for (length, lands) in [
                (1, Lands::Nothing),
                (1, Lands::Half),
                (1, Lands::All),
                (5, Lands::Half),
                (9, Lands::All),
            ] {
                let mem = Mem::default();
                let folder = Flaky::new(mem.clone());
                folder.fail(first..first + length, lands);
                let failures = write_all(&folder, &records, prepared);
                // To remove what is not wanted may fail unheard.
                let silent = *op == Op::Remove && length == 1;
                assert!(failures > 0 || silent, "{op:?} {first}");
                assert_holds(&mem, &records);
                let recovered = start(&mem).unwrap();
                assert_eq!(recovered.bank.digest(), digest);
                assert_eq!(recovered.report.cut, None);
            }
        }
    }
}

/// After a failed write nothing is added to that segment.
#[test]
fn a_failed_write_ends_its_segment() {
    let records = records();
    let operations = undisturbed(&records, false);
    let writes = (0..operations.len()).rev().filter(|index| operations[*index] == Op::Write);
    let last_write = writes.clone().next().unwrap();
    for (failing, lands) in [(last_write, Lands::Half), (last_write + 1, Lands::All)] {
        let mem = Mem::default();
        let folder = Flaky::new(mem.clone());
        folder.fail(failing..failing + 1, lands);
        assert_eq!(write_all(&folder, &records, false), 1);
        let walked = assert_holds(&mem, &records);
        assert_eq!((walked.segments, walked.last_segment), (2, Some(2)));
    }
}

/// A crash after the failure and before the group was written again: it may be there or not, nothing else may.
#[test]
fn a_crash_after_a_failed_write_is_recovered_from() {
    let records = records();
    let operations = undisturbed(&records, false);
    let last_write = operations.iter().rposition(|op| *op == Op::Write).unwrap();
    for (lands, complete) in [(Lands::Nothing, false), (Lands::Half, false), (Lands::All, true)] {
        let mem = Mem::default();
        let folder = Flaky::new(mem.clone());
        folder.fail(last_write..usize::MAX, lands);
        let groups = groups(EMPTY.position, &records, &[records.len().div_ceil(GROUPS)]);
        let mut writer = writer(folder, EMPTY);
        let (last, before) = groups.split_last().unwrap();
        for group in before {
            writer.append(group).unwrap();
        }
        writer.append(last).unwrap_err();
        let count = if complete { last.after() } else { last.before() }.sequence - 1;
        let recovered = start(&mem).unwrap();
        let count = usize::try_from(count).unwrap();
        assert_eq!(recovered.bank.digest(), replay(&records[..count]).digest(), "{lands:?}");
    }
}

/// A disk that is full says so before there is anything to write.
#[test]
fn no_room_shows_when_a_segment_is_prepared() {
    let mem = Mem::default();
    let folder = Flaky::new(mem.clone());
    folder.fail(2..3, Lands::Half);
    prepare(&folder, 0).unwrap_err();
    assert_eq!(mem.names(), Vec::<String>::new(), "the room is free again");
    prepare(&folder, 0).unwrap();
    prepare(&folder, 0).unwrap();
    assert_eq!(mem.names(), ["prepared.tmp"]);
    start(&mem).unwrap();
    assert_eq!(mem.names(), Vec::<String>::new(), "a start clears up");
}
