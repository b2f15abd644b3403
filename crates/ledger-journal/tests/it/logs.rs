//! What any log must do, over the folder and over an engine that is none; and the journal on a log that doubts, fences
//! or forgets.

use std::io;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ledger::Record;
use ledger_journal::{
    Disk, Durability, Group, Journal, JournalOptions, Log, NotAppended, Position, ReadError,
};
use probe::{HandClock, Lease};

use crate::damage::KEEP_ALL;
use crate::files::{AT_MS, EMPTY, Mem, assert_holds, groups, tail, writer};
use crate::history::{Work, options, replay};

/// Longest group that the engine takes.
const GROUP_BYTES: usize = 70 << 10;
const PATIENCE: Duration = Duration::from_secs(60);

/// An engine with one stream of entries, and what goes wrong with the next appends.
#[derive(Clone, Debug, Default)]
struct Engine(Arc<Mutex<Entries>>);

#[derive(Debug, Default)]
struct Entries {
    entries: Vec<(Position, Vec<u8>)>,
    faults: Vec<Doubt>,
}

/// What an engine does with an append instead of answering it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doubt {
    /// The request gets lost.
    Lost,
    /// It is stored, and the answer gets lost.
    Unanswered,
}

/// A client of the engine.
#[derive(Debug)]
struct Client {
    engine: Engine,
    position: Position,
    durability: Result<Durability, String>,
}

impl Engine {
    fn client(&self, position: Position) -> Client {
        Client { engine: self.clone(), position, durability: Ok(Durability::Sealed) }
    }

    fn doubt(&self, faults: &[Doubt]) {
        self.0.lock().unwrap().faults.extend(faults.iter().rev());
    }

    fn end(&self) -> Position {
        let engine = self.0.lock().unwrap();
        engine.entries.last().map_or(Position::START, |(after, _)| *after)
    }

    fn forget_last(&self) {
        self.0.lock().unwrap().entries.pop().unwrap();
    }

    fn records(&self) -> Vec<Record> {
        follow(&mut self.client(Position::START), Position::START).1
    }
}

impl Log for Client {
    fn position(&self) -> &Position {
        &self.position
    }

    fn append(&mut self, group: &Group) -> Result<(), NotAppended> {
        assert!(group.entry().len() <= GROUP_BYTES, "as long as the log takes");
        let fault = self.engine.0.lock().unwrap().faults.pop();
        if fault == Some(Doubt::Lost) {
            return Err(io::Error::from(io::ErrorKind::TimedOut).into());
        }
        let end = self.engine.end();
        if end == *group.before() {
            let entry = (*group.after(), group.entry().to_vec());
            self.engine.0.lock().unwrap().entries.push(entry);
        } else if end != *group.after() {
            return Err(NotAppended::misplaced(group, &end));
        }
        if fault == Some(Doubt::Unanswered) {
            return Err(io::Error::from(io::ErrorKind::TimedOut).into());
        }
        self.position = *group.after();
        Ok(())
    }

    fn read(
        &mut self,
        at: &Position,
        each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), ReadError> {
        let engine = self.engine.0.lock().unwrap();
        let behind = engine.entries.iter().filter(|(after, _)| after.sequence > at.sequence);
        let _ = behind.into_iter().try_for_each(|(_, entry)| each(entry));
        Ok(())
    }

    fn attest(&mut self) -> Result<Durability, String> {
        self.durability.clone()
    }

    fn segments_begun(&self) -> u64 {
        0
    }

    fn group_bytes_max(&self) -> usize {
        GROUP_BYTES
    }
}

/// Reads on from a position, as a bank that takes over: where it ended, and the records.
fn follow(log: &mut impl Log, from: Position) -> (Position, Vec<Record>) {
    let (mut at, mut records) = (from, Vec::new());
    log.read(&from, &mut |entry| {
        let group = Group::read(entry, &at).unwrap();
        assert_eq!(group.entry(), entry, "a group is the same bytes wherever it is kept");
        group.each_record(|record| records.push(record)).unwrap();
        at = *group.after();
        ControlFlow::Continue(())
    })
    .unwrap();
    (at, records)
}

/// What every log does. `open` gives another process's handle, which knows the log up to a position.
fn contract<L: Log>(open: impl Fn(Position) -> L) {
    let records = Work::fresh().take(60);
    let all = groups(Position::START, &records, &[7, 1, 20]);
    let mut log = open(Position::START);
    assert!(log.attest().is_ok());
    assert_eq!(follow(&mut log, Position::START), (Position::START, vec![]));
    for group in &all {
        assert_eq!(log.position(), group.before());
        log.append(group).unwrap();
        assert_eq!(log.position(), group.after());
        log.append(group).expect("the same bytes again are the same group");
    }
    let end = *all.last().unwrap().after();
    assert_eq!(follow(&mut log, Position::START), (end, records.clone()));
    let (middle, read) = (*all[1].after(), all[0].records() + all[1].records());
    let rest = &records[usize::try_from(read).unwrap()..];
    assert_eq!(follow(&mut log, middle), (end, rest.to_vec()));
    assert_eq!(follow(&mut log, end), (end, vec![]));
    let mut seen = 0;
    log.read(&Position::START, &mut |_| {
        seen += 1;
        if seen == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .unwrap();
    assert_eq!(seen, 2, "a reader stops when it wants to");
    // Another group in a place that is taken, and one behind the end.
    let other = Record::GrantClosed { grant: 99 };
    let rival = groups(middle, std::slice::from_ref(&other), &[1]);
    assert!(matches!(log.append(&rival[0]), Err(NotAppended::Fenced)));
    let fork = Position { hash: [7; 32], ..end };
    let fork = groups(fork, std::slice::from_ref(&other), &[1]);
    assert!(matches!(log.append(&fork[0]), Err(NotAppended::Fenced)), "the hash decides, too");
    let beyond = Position { sequence: end.sequence + 5, ..end };
    let beyond = groups(beyond, &[other], &[1]);
    let Err(NotAppended::Forgot { last }) = log.append(&beyond[0]) else {
        panic!("a log that ends too early has forgotten")
    };
    assert_eq!(last, end.sequence - 1);
    assert_eq!(follow(&mut open(end), Position::START), (end, records));
}

#[test]
fn a_folder_in_memory_is_a_log() {
    let folder = Mem::default();
    contract(|position| {
        let next_segment = if position == Position::START { 1 } else { 2 };
        writer(folder.clone(), ledger_journal::Tail { position, next_segment })
    });
}

#[test]
fn a_folder_on_a_disk_is_a_log() {
    for durability in [Durability::Sealed, Durability::Os] {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::open(dir.path(), durability).unwrap();
        contract(|position| writer(disk.clone(), ledger_journal::Tail { position, ..EMPTY }));
        assert_eq!(writer(disk, EMPTY).attest(), Ok(durability));
    }
}

#[test]
fn an_engine_is_a_log() {
    let engine = Engine::default();
    contract(|position| engine.client(position));
}

/// Segments end within what is read: many runs, each in segments of its own.
#[test]
fn groups_are_read_over_segments_and_runs() {
    let folder = Mem::default();
    let records = Work::fresh().take(90);
    let mut at = EMPTY;
    let mut ends = vec![Position::START];
    for some in records.chunks(30) {
        let mut log = writer(folder.clone(), at);
        for group in groups(at.position, some, &[4]) {
            log.append(&group).unwrap();
            ends.push(*group.after());
        }
        at = tail(&assert_holds(
            &folder,
            &records[..usize::try_from(log.position().sequence - 1).unwrap()],
        ));
    }
    let mut log = writer(folder.clone(), at);
    for from in &ends {
        let behind = &records[usize::try_from(from.sequence - 1).unwrap()..];
        assert_eq!(follow(&mut log, *from), (at.position, behind.to_vec()));
    }
    let within = Position { sequence: ends[5].sequence - 1, ..ends[5] };
    for fork in [Position { hash: [1; 32], ..ends[5] }, within] {
        let refused = log.read(&fork, &mut |_| ControlFlow::Continue(()));
        assert!(matches!(refused, Err(ReadError::Damage(_))), "another history: {refused:?}");
    }
}

#[test]
fn an_entry_that_was_changed_anywhere_is_no_group() {
    let records = Work::fresh().take(5);
    let group = &groups(Position::START, &records, &[5])[0];
    let entry = group.entry();
    assert!(Group::read(entry, &Position::START).is_ok());
    for index in 0..entry.len() {
        let mut changed = entry.to_vec();
        changed[index] ^= 1;
        assert!(Group::read(&changed, &Position::START).is_err(), "byte {index}");
    }
    for len in 0..entry.len() {
        assert!(Group::read(&entry[..len], &Position::START).is_err(), "cut at {len}");
    }
    let mut longer = entry.to_vec();
    longer.push(0xA5);
    assert!(Group::read(&longer, &Position::START).is_err());
    let elsewhere = Position { hash: [1; 32], ..Position::START };
    assert!(Group::read(entry, &elsewhere).is_err());
}

fn start(log: Client) -> io::Result<Journal> {
    start_on(log, None)
}

fn start_on(log: Client, lease: Option<Arc<Lease>>) -> io::Result<Journal> {
    let options = JournalOptions {
        gather: Duration::ZERO,
        gather_idle: Duration::ZERO,
        unsealed_bytes_max: 1 << 20,
        durability: Durability::Sealed,
        segment_bytes: 0,
        keep: KEEP_ALL,
        unread: None,
        bank: options(),
        lease,
    };
    Journal::start(Mem::default(), log, options, std::thread::current())
}

fn wait_until(so: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !so() {
        assert!(begun.elapsed() < PATIENCE, "it never came to be");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

#[test]
fn a_doubtful_append_is_repeated_and_booked_once() {
    let engine = Engine::default();
    engine.doubt(&[Doubt::Lost, Doubt::Unanswered, Doubt::Unanswered]);
    let records = Work::fresh().take(20);
    let mut journal = start(engine.client(Position::START)).unwrap();
    journal.append(&records, AT_MS);
    wait_until(|| journal.sealed() == journal.next_sequence());
    assert_eq!(journal.status().read().errors, 3);
    assert!(!journal.is_broken() && journal.failure().is_none());
    journal.finish(PATIENCE).unwrap();
    assert_eq!(engine.records(), records);
    assert_eq!(replay(&engine.records()).digest(), replay(&records).digest());
}

/// A log that does not answer is no reason to take nothing on before some seconds; the lease counts from the first send of what it took.
#[test]
fn a_silent_log_is_waited_for_and_renews_the_lease_from_the_first_send() {
    let (engine, hand) = (Engine::default(), HandClock::new(AT_MS));
    let lease = Lease::by_hand(15_000, Arc::clone(&hand));
    let mut journal = start_on(engine.client(Position::START), Some(Arc::clone(&lease))).unwrap();
    let records = Work::fresh().take(3_000);
    engine.doubt(&[Doubt::Lost; 10_000]);
    journal.append(&records[..20], AT_MS);
    wait_until(|| journal.is_failing());
    hand.pass(4_000);
    let errors = journal.status().read().errors;
    wait_until(|| journal.status().read().errors > errors + 1);
    assert!(!journal.refuses(), "after 4 s of silence");
    hand.pass(1_000);
    wait_until(|| journal.refuses());
    assert!(lease.is_over(), "nothing was acknowledged yet");
    engine.0.lock().unwrap().faults.clear();
    wait_until(|| journal.sealed() == journal.next_sequence());
    wait_until(|| !journal.refuses() && !journal.is_failing());
    assert_eq!(lease.left_ms(), 10_000);
    journal.append(&records[20..], AT_MS);
    wait_until(|| journal.sealed() == journal.next_sequence());
    assert_eq!((lease.left_ms(), engine.records().len()), (15_000, records.len()));
    assert!(engine.0.lock().unwrap().entries.len() > 2, "no group is longer than the log takes");
}

/// Whoever appended last is the bank. The other one seals nothing more, says why, and is to be stopped.
#[test]
fn a_bank_that_is_fenced_seals_nothing_and_stops() {
    let engine = Engine::default();
    let records = Work::fresh().take(20);
    let mut journal = start(engine.client(Position::START)).unwrap();
    journal.append(&records[..10], AT_MS);
    wait_until(|| journal.sealed() == journal.next_sequence());
    let rival = Record::GrantClosed { grant: 4 };
    let end = engine.end();
    engine.client(end).append(&groups(end, std::slice::from_ref(&rival), &[1])[0]).unwrap();
    journal.append(&records[10..], AT_MS);
    wait_until(|| journal.is_broken());
    assert_eq!(journal.sealed(), end.sequence);
    assert!(journal.is_failing() && journal.failure().unwrap().contains("another process"));
    let text = journal.finish(Duration::ZERO).unwrap_err();
    assert!(text.starts_with("10 records could not be sealed: another group"), "{text}");
    assert_eq!(engine.records(), [&records[..10], &[rival]].concat());
}

#[test]
fn a_log_that_forgot_stops_the_bank() {
    let engine = Engine::default();
    let records = Work::fresh().take(20);
    let mut journal = start(engine.client(Position::START)).unwrap();
    for some in records[..10].chunks(5) {
        journal.append(some, AT_MS);
        wait_until(|| journal.sealed() == journal.next_sequence());
    }
    engine.forget_last();
    let end = engine.end();
    journal.append(&records[10..], AT_MS);
    wait_until(|| journal.is_broken());
    assert_eq!((journal.sealed(), engine.end()), (11, end), "nothing is written over the loss");
    let last = format!("it ends with record {}", end.sequence - 1);
    assert!(journal.failure().unwrap().contains(&last));
}

#[test]
fn a_log_that_is_less_durable_than_asked_for_is_refused() {
    let engine = Engine::default();
    let mut weak = engine.client(Position::START);
    weak.durability = Ok(Durability::Os);
    let error = start(weak).unwrap_err().to_string();
    assert!(error.contains("crash of the process only"), "{error}");
    let mut unsure = engine.client(Position::START);
    unsure.durability = Err("server nats-2 says sync_interval: 2m".into());
    assert!(start(unsure).unwrap_err().to_string().contains("nats-2"));
}
