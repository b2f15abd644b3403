//! A bank whose log is on other machines: it beats while nothing else is appended, waits for a silent log, and ends when it is fenced.

use std::io;
use std::ops::ControlFlow;
use std::sync::Mutex;

use ledger_cluster::{ClusterName, EngineFault, EntryKey, Memory};
use ledger_journal::{Durability, Group, Keep, Log, NotAppended, Position, ReadError};
use probe::Lease;
use vault::SecretKey;

use super::*;

/// A log in memory, which may be silent, or another bank's.
#[derive(Clone, Default)]
struct Elsewhere(Arc<Mutex<Entries>>);

#[derive(Default)]
struct Entries {
    records: Vec<Record>,
    is_silent: bool,
    is_anothers: bool,
}

struct Client(Elsewhere, Position);

impl Elsewhere {
    fn set(&self, set: impl FnOnce(&mut Entries)) {
        set(&mut self.0.lock().unwrap());
    }

    fn beats(&self) -> usize {
        let is_beat = |record: &&Record| matches!(record, Record::Beat { .. });
        self.0.lock().unwrap().records.iter().filter(is_beat).count()
    }
}

impl Log for Client {
    fn position(&self) -> &Position {
        &self.1
    }

    fn append(&mut self, group: &Group) -> Result<(), NotAppended> {
        let mut entries = self.0.0.lock().unwrap();
        match (entries.is_anothers, entries.is_silent) {
            (true, _) => return Err(NotAppended::Fenced),
            (_, true) => return Err(io::Error::from(io::ErrorKind::TimedOut).into()),
            _ => group.each_record(|record| entries.records.push(record)).unwrap(),
        }
        self.1 = *group.after();
        Ok(())
    }

    fn read(
        &mut self,
        _: &Position,
        _: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), ReadError> {
        Ok(())
    }

    fn attest(&mut self) -> Result<Durability, String> {
        Ok(Durability::Sealed)
    }

    fn segments_begun(&self) -> u64 {
        0
    }
}

/// A bank on such a log, with a lease of 15 s and a beat each 500 ms; time passes by hand.
fn bench(log: &Elsewhere) -> (Bench, Arc<HandClock>) {
    let mut bench = Bench::new();
    let hand = bench.set_by_hand(bench.thread.bank.now_ms());
    let options = JournalOptions {
        gather: Duration::ZERO,
        gather_idle: Duration::ZERO,
        unsealed_bytes_max: 1 << 24,
        durability: Durability::Sealed,
        segment_bytes: 0,
        keep: Keep { snapshot_bytes: u64::MAX, bytes_max: 0, ms_max: 0, unread: u64::MAX },
        unread: None,
        bank: ledger::Options::default(),
        lease: Some(Lease::by_hand(15_000, Arc::clone(&hand))),
    };
    let disk = Disk::open(&bench.data.path().join("elsewhere"), Durability::Sealed).unwrap();
    let client = Client(log.clone(), Position::START);
    bench.thread.journal = Journal::start(disk, client, options, std::thread::current()).unwrap();
    bench.thread.beat = Some(Beat { every_ms: 500, due_ms: 0 });
    bench.thread.plans.tick_ms = 10;
    (bench, hand)
}

/// Everything that was appended is in the log.
fn sealed(bench: &mut Bench) {
    bench.until(|bench| {
        let journal = &bench.thread.journal;
        (journal.sealed() == journal.next_sequence()).then_some(())
    });
}

#[test]
fn a_bank_beats_while_nothing_else_is_appended_and_not_while_something_waits() {
    let log = Elsewhere::default();
    let (mut bench, hand) = bench(&log);
    bench.thread.turn();
    sealed(&mut bench);
    let beats = log.beats();
    for beaten in 1..=3 {
        hand.pass(499);
        bench.thread.turn();
        hand.pass(1);
        bench.thread.turn();
        sealed(&mut bench);
        assert_eq!(log.beats(), beats + beaten);
    }
    log.set(|entries| entries.is_silent = true);
    for _ in 0..20 {
        hand.pass(500);
        bench.thread.turn();
    }
    log.set(|entries| entries.is_silent = false);
    sealed(&mut bench);
    assert_eq!(log.beats(), beats + 4, "one waited");
}

#[test]
fn a_bank_that_is_fenced_ends_and_answers_nothing() {
    let log = Elsewhere::default();
    let (mut bench, hand) = bench(&log);
    bench.configure();
    let hold = bench.hold();
    log.set(|entries| entries.is_anothers = true);
    bench.up.try_send(settle(hold, hold.deadline_ms - 1)).unwrap();
    bench.until(|bench| bench.thread.journal.is_broken().then_some(()));
    hand.pass(10);
    assert_eq!(bench.thread.turn(), Turned::Replaced);
    assert_eq!(bench.resolved(), None);
}

/// An engine with an empty stream.
fn engine() -> Memory {
    let engine = Memory::new("weir".parse().unwrap());
    log_of(&engine, 1).create().unwrap();
    engine
}

fn log_of(engine: &Memory, node: u16) -> ClusterLog<AnyEngine> {
    let name: ClusterName = "weir".parse().unwrap();
    let key = EntryKey::new(&name, &SecretKey::from_bytes(&[7; 32])).unwrap();
    ClusterLog::new(Box::new(engine.clone()), name, node, key, "nats://n1:4222")
}

/// A node that begins on this folder and that log.
fn node(engine: &Memory, data: tempfile::TempDir) -> Result<Bench, StartError> {
    let mut bench = Bench::on(data, 1, &[], Some(log_of(engine, 1)))?;
    bench.thread.plans.tick_ms = 10;
    Ok(bench)
}

fn empty() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn refused(begun: Result<Bench, StartError>) -> String {
    begun.err().expect("the start is refused").to_string()
}

/// The records of each entry.
fn groups(engine: &Memory) -> Vec<Vec<Record>> {
    let mut all = Vec::new();
    let read = log_of(engine, 1).read_on(&mut |group| {
        let mut records = Vec::new();
        group.each_record(|record| records.push(record)).unwrap();
        all.push(records);
        ControlFlow::Continue(())
    });
    read.unwrap();
    all
}

/// What the first budget has spent.
fn settled(bench: &Bench) -> Amount {
    bench.thread.book_line(0).settled
}

/// Of each run that began, for how long it left alone what was out before.
fn set_aside(engine: &Memory) -> Vec<u64> {
    let aside = |record: Record| match record {
        Record::RunStarted { at_ms, suspended_until_ms, .. } => Some(suspended_until_ms - at_ms),
        _ => None,
    };
    groups(engine).into_iter().flatten().filter_map(aside).collect()
}

const BUDGET: &str = "{\"id\":1,\"name\":\"b1\",\"unit\":\"USD\",\"limit\":\"100\"}\n";

#[test]
fn acknowledged_money_survives_the_disk_and_an_empty_folder_begins_from_the_log() {
    let engine = engine();
    // The first append of the run is lost, and then taken without an answer: it is repeated.
    engine.plant(&[EngineFault::Lost, EngineFault::Unanswered]);
    let mut first = node(&engine, empty()).unwrap();
    let [Record::RunStarted { run: 1, lease_ms: 15_000, node: name, .. }] = &groups(&engine)[0][..]
    else {
        panic!("the run begins alone: {:?}", groups(&engine)[0]);
    };
    assert!(!name.is_empty(), "the machine has a name");
    first.configure_with(BUDGET);
    let hold = first.hold();
    first.up.try_send(settle(hold, hold.deadline_ms - 1)).unwrap();
    assert_eq!(first.until(Bench::resolved), Verdict::Settled);
    sealed(&mut first);
    let spent = settled(&first);
    assert_eq!(spent, hold.amount);
    // A crash, and the folder is gone with it. What was out stays set aside for the lease, a hold's life and the clocks' error.
    drop(first);
    let mut second = node(&engine, empty()).unwrap();
    assert_eq!(settled(&second), spent);
    let [_, aside_ms] = set_aside(&engine)[..] else { panic!("{:?}", set_aside(&engine)) };
    assert!(aside_ms >= 15_000 + 2_000 + 500, "{aside_ms}");
    // The token of the run before settles again: it is booked once.
    second.configure_with(BUDGET);
    second.up.try_send(settle(hold, hold.deadline_ms - 1)).unwrap();
    assert_eq!(second.until(Bench::resolved), Verdict::Settled);
    assert_eq!(settled(&second), spent);
}

#[test]
fn after_a_clean_stop_the_next_run_sets_nothing_aside() {
    let engine = engine();
    assert!(node(&engine, empty()).unwrap().thread.finish());
    assert!(matches!(groups(&engine).last().unwrap()[..], [.., Record::Handover { .. }]));
    drop(node(&engine, empty()).unwrap());
    drop(node(&engine, empty()).unwrap());
    let aside = set_aside(&engine);
    assert!(aside[1] == 0 && aside[2] >= 17_500, "{aside:?}");
}

#[test]
fn a_second_node_takes_the_run_and_the_first_one_answers_nothing() {
    let engine = engine();
    let mut first = node(&engine, empty()).unwrap();
    first.configure_with(BUDGET);
    let hold = first.hold();
    let second = node(&engine, empty()).unwrap();
    first.up.try_send(settle(hold, hold.deadline_ms - 1)).unwrap();
    while first.thread.turn() != Turned::Replaced {
        assert_eq!(first.resolved(), None);
    }
    assert!(first.thread.pulse.is_fenced());
    assert_eq!(settled(&second), Amount::ZERO);
    // Its folder goes on behind what the second has begun.
    let Bench { thread, data, .. } = first;
    drop(thread);
    let third = node(&engine, data).unwrap();
    assert_eq!(third.thread.bank.run(), 3);
}

#[test]
fn a_start_says_why_disk_and_log_do_not_belong_together() {
    let engine = engine();
    let other = Bench::on(empty(), 1, &[], Some(log_of(&engine, 2))).err().unwrap().to_string();
    assert!(other.contains("made for node.id 1, and this node has node.id 2"), "{other}");
    let first = node(&engine, empty()).unwrap();
    let Bench { thread, data, .. } = first;
    drop(thread);
    engine.cut(0);
    let lost = refused(node(&engine, data));
    assert!(
        lost.contains("the log is empty, and the journal") && lost.contains("weir cluster init"),
        "{lost}"
    );
    assert_eq!(engine.entries(), 0, "nothing was appended");
    // The folder knows of more than its journal and the log have.
    let (engine, data) = (self::engine(), empty());
    let first = node(&engine, data).unwrap();
    let Bench { thread, data, .. } = first;
    drop(thread);
    std::fs::remove_dir_all(data.path().join("journal")).unwrap();
    engine.cut(0);
    let behind = refused(node(&engine, data));
    assert!(behind.contains("both lost acknowledged records"), "{behind}");
}
