//! Snapshots stand for the records before them, and old files go only when nobody needs them.

use std::sync::atomic::AtomicBool;

use ledger_journal::snapshot::{Advanced, Keep, advance, load, snapshots};
use ledger_journal::{Fault, Log, ReadError, RecoverError, prepare, segment_head, segments};

use crate::damage::KEEP_ALL;
use crate::files::{AT_MS, EMPTY, Flaky, Lands, Mem, groups, writer};
use crate::history::{Made, Work, options, replay, start};

const SIZES: [usize; 2] = [11, 3];
/// Nothing is kept but what two snapshots need.
const KEEP_LITTLE: Keep = Keep { snapshot_bytes: 1, bytes_max: 0, ms_max: 0, unread: u64::MAX };

fn keep(folder: &Mem, keep: &Keep) -> Advanced {
    advance(folder, &options(), keep, AT_MS + 10, &AtomicBool::new(false)).unwrap()
}

/// A snapshot after each of these runs.
fn made(runs: usize, how: &Keep) -> Made {
    let mut made = Made::new(1, 40, &SIZES);
    for _ in 1..runs {
        made.run(40, &SIZES);
        keep(&made.folder, how);
    }
    made
}

#[test]
fn a_snapshot_is_made_when_it_is_due() {
    let mut made = Made::new(1, 40, &SIZES);
    assert_eq!(keep(&made.folder, &KEEP_ALL), Advanced::default(), "the only segment is open");
    let first = made.records.len() as u64;
    made.run(40, &SIZES);
    let late = Keep { snapshot_bytes: u64::MAX, ..KEEP_ALL };
    assert_eq!(keep(&made.folder, &late), Advanced::default(), "not enough to be worth it");
    let advanced = keep(&made.folder, &KEEP_ALL);
    assert_eq!((advanced.snapshot, advanced.replayed), (Some(first + 1), first));
    assert_eq!(keep(&made.folder, &KEEP_ALL), Advanced::default(), "nothing new is closed");
    let loaded = load(&made.folder, first + 1, &options()).unwrap();
    assert_eq!(loaded.head.number, 2);
    let closed = &made.records[..usize::try_from(first).unwrap()];
    assert_eq!(loaded.bank.digest(), replay(closed).digest());
}

/// Budgets that were made on their first ask are in a snapshot like others, with their handles, and what is made after a start from it
/// gets an id that none of them had.
#[test]
fn made_budgets_are_in_a_snapshot() {
    let mut made = Made::new(1, 40, &SIZES);
    made.run_opening(&["llm/a", "llm/b"], 40, &SIZES);
    made.run(40, &SIZES);
    let snapshot = keep(&made.folder, &KEEP_ALL).snapshot.unwrap();
    let loaded = load(&made.folder, snapshot, &options()).unwrap().bank;
    let ids = |bank: &ledger::Bank| {
        let slots =
            ["llm/a", "llm/b"].map(|handle| bank.made(&wire::Handle::parse(handle).unwrap()));
        slots.map(|slot| slot.map(|slot| bank.spec(slot).id))
    };
    let expected = [0, 1].map(|more| Some(ledger::spec::MADE_ID_MIN + more));
    assert_eq!((ids(&loaded), loaded.made_live()), (expected, 2));
    made.run_opening(&["llm/c"], 40, &SIZES);
    let recovered = made.assert_recovers(&made.folder.copy(), made.records.len());
    assert!(recovered.report.snapshot.is_some());
    assert_eq!((ids(&recovered.bank), recovered.bank.made_live()), (expected, 3));
    let newest = recovered.bank.made(&wire::Handle::parse("llm/c").unwrap()).unwrap();
    assert_eq!(recovered.bank.spec(newest).id, ledger::spec::MADE_ID_MIN + 2);
}

#[test]
fn a_start_from_a_snapshot_is_a_start_from_zero() {
    let made = made(4, &KEEP_ALL);
    assert_eq!(snapshots(&made.folder).unwrap().len(), 3);
    let with = made.assert_recovers(&made.folder.copy(), made.records.len());
    assert_eq!(with.report.snapshot, snapshots(&made.folder).unwrap().last().copied());
    assert_eq!(with.report.segments, 1);
    let bare = made.folder.copy();
    for name in made.snapshots() {
        ledger_journal::files::Folder::remove(&bare, &name).unwrap();
    }
    let without = made.assert_recovers(&bare, made.records.len());
    assert_eq!((without.report.snapshot, without.report.segments), (None, 4));
    assert_eq!(with.tail, without.tail);
    // What follows is the same too.
    let [with, without] = [with, without].map(|found| Work::new(found.bank).take(100));
    assert_eq!(with, without);
}

#[test]
fn an_older_snapshot_stands_in_for_a_damaged_one() {
    let made = made(5, &KEEP_LITTLE);
    let [old, new] = <[u64; 2]>::try_from(snapshots(&made.folder).unwrap()).unwrap();
    let [older, newer] = <[String; 2]>::try_from(made.snapshots()).unwrap();
    made.folder.change(&newer, |bytes| bytes[5000] ^= 1);
    assert_eq!(made.assert_recovers(&made.folder, made.records.len()).report.snapshot, Some(old));
    made.folder.change(&older, |bytes| bytes[5000] ^= 1);
    match start(&made.folder).unwrap_err() {
        RecoverError::Read(ReadError::Damage(damage)) => assert_eq!(damage.file, newer),
        other => panic!("{other}"),
    }
    ledger_journal::files::Folder::remove(&made.folder, &newer).unwrap();
    ledger_journal::files::Folder::remove(&made.folder, &older).unwrap();
    match start(&made.folder).unwrap_err() {
        RecoverError::Read(ReadError::Damage(damage)) => assert_eq!(damage.what, Fault::Missing),
        other => panic!("{other}"),
    }
    assert!(new > old);
}

/// A damaged snapshot is no reason to remove what the start from an older one needs.
#[test]
fn a_damaged_snapshot_does_not_count() {
    for at in [3, 5000] {
        let mut made = made(4, &KEEP_LITTLE);
        let [older, newer] = <[String; 2]>::try_from(made.snapshots()).unwrap();
        made.folder.change(&newer, |bytes| bytes[at] ^= 1);
        made.run(40, &SIZES);
        let advanced = keep(&made.folder, &KEEP_LITTLE);
        assert!(advanced.removed.contains(&newer), "{advanced:?}");
        let newest = advanced.snapshot.unwrap();
        assert_eq!(made.snapshots()[0], older);
        made.folder.change(&made.snapshots()[1], |bytes| bytes[5000] ^= 1);
        let recovered = made.assert_recovers(&made.folder, made.records.len());
        assert!(recovered.report.snapshot.unwrap() < newest);
    }
}

#[test]
fn retention_keeps_what_is_wanted() {
    // All of it for ever.
    let made_all = made(6, &KEEP_ALL);
    assert_eq!(segments(&made_all.folder).unwrap(), [1, 2, 3, 4, 5, 6]);
    assert_eq!(snapshots(&made_all.folder).unwrap().len(), 5);
    // By size: the oldest go until the rest fits, up to a segment that a snapshot begins with.
    let (snapshots, segments_made) = (made_all.snapshots(), made_all.segments());
    let kept = segments_made[2..].iter().chain(&snapshots[1..]);
    let bytes: usize = kept.map(|name| made_all.folder.get(name).len()).sum();
    let by_size = Keep { bytes_max: bytes as u64, ..KEEP_ALL };
    let removed = keep(&made_all.folder, &by_size).removed;
    assert_eq!(removed, ["segment-0000000001.weir", &snapshots[0], "segment-0000000002.weir"]);
    // What is not read stays, however old, and so does the last record that was.
    let third = segment_head(&made_all.folder, 3).unwrap().position.sequence;
    let unread = Keep { ms_max: 9, bytes_max: u64::MAX, unread: third, ..KEEP_ALL };
    assert_eq!(keep(&made_all.folder, &unread).removed, [""; 0]);
    // But for twice the bytes: a reader that stands still fills no disk.
    assert!(!keep(&made_all.folder, &Keep { bytes_max: 0, ..unread }).removed.is_empty());
    // By age: all that two snapshots do not need are older than that.
    let by_age = Keep { ms_max: 9, ..KEEP_ALL };
    keep(&made_all.folder, &by_age);
    assert_eq!(segments(&made_all.folder).unwrap(), [5, 6]);
    made_all.assert_recovers(&made_all.folder, made_all.records.len());
}

/// A crash, or a disk that fails, during any of the steps of a snapshot and of the removal leaves a folder that a
/// start can use, and the next attempt does the rest.
#[test]
fn no_step_of_an_advance_leaves_a_hole() {
    let mut base = made(4, &KEEP_ALL);
    base.run(40, &SIZES);
    let whole = Flaky::new(base.folder.copy());
    advance(&whole, &options(), &KEEP_LITTLE, AT_MS + 10, &AtomicBool::new(false)).unwrap();
    let steps = whole.done().len();
    for lands in [Lands::Nothing, Lands::Half, Lands::All] {
        for step in 0..steps {
            let mem = base.folder.copy();
            let flaky = Flaky::new(mem.clone());
            flaky.fail(step..usize::MAX, lands);
            let result =
                advance(&flaky, &options(), &KEEP_LITTLE, AT_MS + 10, &AtomicBool::new(false));
            let bare = flaky.done()[step] == crate::files::Op::Remove && step == 0;
            assert!(result.is_err() || bare, "step {step}");
            base.assert_recovers(&mem.copy(), base.records.len());
            keep(&mem, &KEEP_LITTLE);
            base.assert_recovers(&mem, base.records.len());
            assert!(segments(&mem).unwrap()[0] > 1);
        }
    }
}

#[test]
fn an_advance_stops_when_told_to() {
    let mut made = Made::new(1, 1_500, &[200]);
    made.run(40, &SIZES);
    let error = advance(&made.folder, &options(), &KEEP_ALL, AT_MS, &AtomicBool::new(true));
    assert!(error.unwrap_err().to_string().contains("stopped"));
    assert!(made.snapshots().is_empty());
}

/// The housekeeper works while the writer writes: neither sees anything half done.
#[test]
fn snapshots_beside_the_writer_disturb_nobody() {
    let records = Work::fresh().take(600);
    let folder = Mem::default();
    let all = groups(EMPTY.position, &records, &[2]);
    let done = AtomicBool::new(false);
    let made = std::thread::scope(|scope| {
        let housekeeper = scope.spawn(|| {
            let mut made = 0;
            loop {
                let last = done.load(std::sync::atomic::Ordering::SeqCst);
                prepare(&folder, 0).unwrap();
                made += usize::from(keep(&folder, &KEEP_LITTLE).snapshot.is_some());
                if last {
                    return made;
                }
            }
        });
        let mut writer = writer(folder.clone(), EMPTY);
        for (index, group) in all.iter().enumerate() {
            if index.is_multiple_of(25) {
                // A new segment, as after an error.
                let (position, next_segment) = (
                    *writer.position(),
                    segments(&folder).unwrap().last().map_or(1, |last| last + 1),
                );
                writer = crate::files::writer(
                    folder.clone(),
                    ledger_journal::Tail { position, next_segment },
                );
            }
            writer.append(group).unwrap();
        }
        done.store(true, std::sync::atomic::Ordering::SeqCst);
        housekeeper.join().unwrap()
    });
    assert!(made >= 1);
    let recovered = start(&folder).unwrap();
    assert_eq!(recovered.bank.digest(), replay(&records).digest());
    assert_eq!(recovered.tail.position.sequence, records.len() as u64 + 1);
    assert!(recovered.report.snapshot.is_some());
}
