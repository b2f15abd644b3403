//! A bank whose log is on other machines: it beats while nothing else is appended, waits for a silent log, and ends when it is fenced.

use std::io;
use std::ops::ControlFlow;
use std::sync::Mutex;

use ledger_journal::{Durability, Group, Keep, Log, NotAppended, Position, ReadError};
use probe::Lease;

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
    bench.thread.tick_ms = 10;
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
