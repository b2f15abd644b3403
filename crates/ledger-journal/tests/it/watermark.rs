//! The watermark: whatever a crash, a full disk or a torn file does, a sound journal is not refused; one that was
//! rolled back is.

use std::time::Duration;

use ledger::Record;
use ledger_journal::{
    Durability, Journal, JournalOptions, Known, Log, Position, RecoverError, Recovered, Rollback,
    WATERMARK, Watermark, WatermarkError, Watermarks, Writer, WriterProbes, recover_known,
};

use crate::damage::KEEP_ALL;
use crate::files::{AT_MS, EMPTY, Flaky, Lands, Mem, NODE, Op, groups, writer};
use crate::history::{Made, Work, options, start};

/// Room for two groups of a block each.
const SEGMENT_BYTES: u64 = 3 * 4096;

/// A start that compares with the watermark in the same folder: the journal does not look at such names.
fn known_start(folder: &Mem, accepted: Option<Rollback>) -> Result<Recovered, RecoverError> {
    // As a node does with one that it cannot read.
    let watermark = Watermark::read(folder).unwrap_or_default();
    recover_known(folder, &options(), NODE, &Known { watermark, accepted }, &mut |_| {})
}

/// A node's life: a segment is begun and noted, then group after group is sealed and noted, until the process dies at
/// an operation. Returns the sequence up to which it had sealed.
fn live(folder: &Flaky, records: &[Record]) -> u64 {
    let mut writer = Writer::with_short_segments(folder.clone(), NODE, SEGMENT_BYTES, EMPTY);
    let mut marks = Watermarks::new(folder.clone(), folder.clone(), NODE, 1, [0, 1]);
    if writer.open(AT_MS).is_err() || marks.note(1, AT_MS).is_err() {
        return writer.position().sequence;
    }
    for group in groups(EMPTY.position, records, &[5]) {
        if writer.append(&group).is_err() {
            break;
        }
        if marks.note(writer.position().sequence, AT_MS).is_err() {
            break;
        }
    }
    writer.position().sequence
}

#[test]
fn a_process_that_dies_anywhere_leaves_what_starts() {
    let records = Work::fresh().take(30);
    let undisturbed = Flaky::new(Mem::default());
    assert_eq!(live(&undisturbed, &records), records.len() as u64 + 1);
    let operations = undisturbed.done();
    assert!(operations.iter().filter(|op| **op == Op::Rename).count() > 8, "segments and notes");
    for first in 0..operations.len() {
        for lands in [Lands::Nothing, Lands::Half, Lands::All] {
            let mem = Mem::default();
            let folder = Flaky::new(mem.clone());
            folder.fail(first..usize::MAX, lands);
            let sealed = live(&folder, &records);
            let started = known_start(&mem, None);
            let started = started.unwrap_or_else(|error| panic!("operation {first}: {error}"));
            assert!(started.tail.position.sequence >= sealed, "operation {first}, {lands:?}");
            // The next run notes over whatever was left of the file.
            let mut marks = Watermarks::new(mem.clone(), mem.clone(), NODE, 1, [0, 1]);
            marks.note(started.tail.position.sequence, AT_MS).unwrap();
            known_start(&mem, None).unwrap();
        }
    }
}

#[test]
fn a_torn_or_changed_note_holds_nothing_up() {
    let mem = Mem::default();
    let records = Work::fresh().take(30);
    live(&Flaky::new(mem.clone()), &records);
    let whole = mem.get(WATERMARK);
    let known = Watermark::read(&mem).unwrap().unwrap();
    assert_eq!((known.sealed, known.run), (records.len() as u64 + 1, 1));
    for length in [0, 1, 100, 512, whole.len() - 1] {
        mem.put(WATERMARK, whole[..length].to_vec());
        assert!(matches!(Watermark::read(&mem), Err(WatermarkError::Unreadable)), "{length}");
        known_start(&mem, None).unwrap();
    }
    for byte in 0..whole.len() {
        let mut changed = whole.clone();
        changed[byte] ^= 0x40;
        mem.put(WATERMARK, changed);
        assert!(matches!(Watermark::read(&mem), Err(WatermarkError::Unreadable)), "{byte}");
    }
    known_start(&mem, None).unwrap();
}

fn noted(folder: &Mem, sealed: u64) {
    Watermarks::new(folder.clone(), folder.clone(), NODE, 1, [0, 1]).note(sealed, AT_MS).unwrap();
}

fn without(folder: &Mem, name: &str) -> Mem {
    let copy = Mem::default();
    let names = folder.names().into_iter().filter(|other| other != name);
    names.for_each(|name| copy.put(&name, folder.get(&name)));
    copy
}

#[test]
fn a_journal_that_was_rolled_back_is_refused_until_it_is_accepted() {
    let mut made = Made::new(2, 20, &[5]);
    let older = made.folder.copy();
    made.run(20, &[5]);
    let ends = made.records.len() as u64 + 1;
    noted(&made.folder, ends);
    known_start(&made.folder, None).unwrap();

    // The newest segment is gone, or all is as it was before.
    let newest = made.segments().pop().unwrap();
    older.put(WATERMARK, made.folder.get(WATERMARK));
    for folder in [without(&made.folder, &newest), older] {
        let error = known_start(&folder, None).unwrap_err();
        let RecoverError::RolledBack { ends: found, newest, known } = &error else {
            panic!("{error}")
        };
        assert_eq!((*newest, known.segment, known.sealed), (2, 3, ends));
        let text = error.to_string();
        let given_up = Rollback::of(*found, known);
        assert!(text.contains(&format!("--accept-rollback {given_up}`")), "{text}");
        assert_eq!(given_up.to_string().parse(), Ok(given_up));
        let later = Watermark { at_ms: known.at_ms + 1, ..**known };
        for other in [Rollback::of(found + 1, known), Rollback::of(*found, &later)] {
            known_start(&folder, Some(other)).unwrap_err();
        }
        let started = known_start(&folder, Some(given_up)).unwrap();
        assert_eq!(started.tail.position.sequence, *found);
        assert_eq!(started.report.given_up, Some(given_up));
        // As long as nothing is noted anew it is refused.
        known_start(&folder, None).unwrap_err();
        noted(&folder, *found);
        let sound = known_start(&folder, Some(given_up)).unwrap();
        assert_eq!(sound.report.given_up, None, "nothing is lost any more");
    }
}

#[test]
fn another_journal_is_told_by_where_its_segment_begins() {
    let (made, other) = (Made::new(3, 20, &[5]), Made::new(4, 20, &[3]));
    noted(&made.folder, made.records.len() as u64 + 1);
    other.folder.put(WATERMARK, made.folder.get(WATERMARK));
    let error = known_start(&other.folder, None).unwrap_err();
    assert!(matches!(error, RecoverError::OtherJournal { .. }), "{error}");
    let RecoverError::OtherJournal { ends, known } = &error else { unreachable!() };
    known_start(&other.folder, Some(Rollback::of(*ends, known))).unwrap();
}

/// A note that lags by any number of segments is no reason to refuse.
#[test]
fn a_note_may_lag() {
    let mut made = Made::new(1, 20, &[5]);
    noted(&made.folder, 4);
    for _ in 0..3 {
        made.run(20, &[5]);
        known_start(&made.folder, None).unwrap();
    }
}

#[test]
fn a_running_journal_notes_what_it_sealed_when_it_ends() {
    let folder = Mem::default();
    let options = JournalOptions {
        gather: Duration::ZERO,
        gather_idle: Duration::ZERO,
        unsealed_bytes_max: 1 << 20,
        durability: Durability::Sealed,
        segment_bytes: 0,
        keep: KEEP_ALL,
        unread: None,
        bank: options(),
        lease: None,
    };
    let marks = Watermarks::new(folder.clone(), folder.clone(), NODE, 1, [0, 1]);
    let mut journal = Journal::start_measured(
        folder.clone(),
        writer(folder.clone(), EMPTY),
        options,
        std::thread::current(),
        WriterProbes::none(),
        Some(marks),
    )
    .unwrap();
    let records = Work::fresh().take(50);
    journal.append(&records, AT_MS);
    journal.finish(Duration::from_secs(60)).unwrap();
    let known = Watermark::read(&folder).unwrap().unwrap();
    assert_eq!((known.sealed, known.segment), (records.len() as u64 + 1, 1));
    assert_eq!(known.begins, Position::START);
    start(&folder).unwrap();
    known_start(&folder, None).unwrap();
}

#[test]
fn what_is_given_up_is_read_only_as_it_is_written() {
    let read = |text: &str| text.parse::<Rollback>().map(|read| read.to_string());
    assert_eq!(read("11-22-0a1b2c3d"), Ok("11-22-0a1b2c3d".into()));
    for text in [
        "",
        "11",
        "11-22",
        "11-22-",
        "11-22-0A1B2C3D",
        "+11-22-0a1b2c3d",
        "11-22-a1b2c3d",
        "11-22-0a1b2c3d-",
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains("expected the value that the refused start named"), "{error}");
    }
}
