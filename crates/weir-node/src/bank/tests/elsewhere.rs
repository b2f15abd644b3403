//! A bank whose log is on other machines: it beats while nothing else is appended, waits for a silent log, and ends when it is fenced.

use std::io;
use std::ops::ControlFlow;
use std::sync::Mutex;

use ledger_cluster::{CaughtUp, ClusterName, Connect, EngineFault, EntryKey, Memory};
use ledger_journal::{Durability, Group, Keep, Log, NotAppended, Position, ReadError};
use probe::Lease;
use vault::{
    Change, KeyEncryptionKey, KeyKind, KeyName, KeyPolicy, KeyStore, KeyStoreError, KeyType,
    SecretKey,
};
use vault_store::{Carrier, KeyFile, Options, TravellingFile};

use super::super::recover::ReadBack;
use super::*;
use crate::cluster::{Side, Standby, heal_in, init_in};
use crate::in_force::{Digest, FileInForce, copy_of, message, name, put_in};
use crate::rooms::{Rooms, carrier};

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
    log_of(&engine, 1).create(0).unwrap();
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
    let read = log_of(engine, 1).read_on(&mut |_, group| {
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

/// Has the bank seal a line of the log of edits.
fn carry(bench: &mut Bench, line: &str) -> u64 {
    carry_in(bench, Room::Edits, ledger::room::RoomChange::Append(line.as_bytes()).message())
}

fn carry_in(bench: &mut Bench, room: Room, message: Vec<u8>) -> u64 {
    let (reply, carried) = mpsc::channel();
    bench.commands.send(Command::Carry { room, message, reply }).unwrap();
    bench.until(|_| carried.try_recv().ok()).unwrap()
}

/// The digest of the budgets file that is in force, as far as a folder knows.
fn in_force(data: &tempfile::TempDir) -> Option<Digest> {
    FileInForce::open(data.path()).digest()
}

/// Lines of the log of edits but for the first, without their checksums.
fn edits_in(data: &std::path::Path) -> Vec<String> {
    let text = std::fs::read_to_string(data.join("edits/log")).unwrap_or_default();
    text.lines().skip(1).map(|line| line[9..].to_string()).collect()
}

#[test]
fn what_travels_beside_the_books_is_in_the_files_of_every_node_once() {
    let engine = engine();
    let standby_data = empty();
    let mut warm = standby(&engine, &standby_data);
    let mut first = node(&engine, empty()).unwrap();
    // The second one takes several entries.
    let long: Vec<u64> = (1_000_000..1_060_000).collect();
    let lines = [
        r#"{"away":{"at_ms":1,"ids":[7]}}"#.to_string(),
        format!(r#"{{"away":{{"at_ms":2,"ids":{long:?}}}}}"#).replace(' ', ""),
        r#"{"back":{"ids":[7]}}"#.to_string(),
    ];
    assert_eq!([1, 2, 3].map(|number| carry(&mut first, &lines[number - 1])), [1, 2, 3]);
    let digests =
        [[1; 32], [2; 32]].map(|digest| carry_in(&mut first, Room::Budgets, message(&digest)));
    assert_eq!(digests, [1, 2]);
    // It was killed before it wrote any of them to its own file.
    let Bench { thread, data, .. } = first;
    assert_eq!((edits_in(data.path()).len(), in_force(&data)), (0, None));
    drop(thread);
    while !warm.follow().unwrap().is_even {}
    assert_eq!(edits_in(standby_data.path()), lines);
    assert_eq!(warm.budgets(), Some([2; 32]), "the last one counts");
    let own = node(&engine, data).unwrap();
    assert_eq!(edits_in(own.data.path()), lines);
    let other = node(&engine, empty()).unwrap();
    assert_eq!(edits_in(other.data.path()), lines);
    assert_eq!([&own, &other].map(|node| in_force(&node.data)), [Some([2; 32]); 2]);
    drop(own.thread);
    // A file that is ahead of the log is another cluster's.
    std::fs::write(own.data.path().join("edits/carried"), "4\n").unwrap();
    let ahead = refused(node(&engine, own.data));
    assert!(ahead.contains("has 4 changes of a log, and this log has 3"), "{ahead}");
    // Once more on a folder that has all of them, behind snapshots.
    let Bench { thread, data, .. } = other;
    drop(thread);
    let mut again = node(&engine, data).unwrap();
    assert_eq!(carry(&mut again, &lines[0]), 4);
    assert_eq!(edits_in(again.data.path()), lines);
}

#[test]
fn the_budgets_file_in_force_is_on_every_node_as_soon_as_it_can_be_had() {
    let (engine, data) = (engine(), empty());
    let mut warm = standby(&engine, &data);
    let mut bank = node(&engine, empty()).unwrap();
    let follow = |warm: &mut Warm| {
        while !warm.follow().unwrap().is_even {}
        std::fs::read(copy_of(data.path())).ok()
    };
    let mut say = |digest: u8| carry_in(&mut bank, Room::Budgets, message(&[digest; 32]));
    say(1);
    assert_eq!((follow(&mut warm), warm.budgets()), (None, Some([1; 32])), "it is not there");
    let there = |digest: u8, bytes: &[u8]| {
        put_in(&mut log_of(&engine, 1), &[digest; 32], bytes, data.path()).unwrap();
    };
    there(2, b"two");
    say(2);
    assert_eq!(follow(&mut warm).as_deref(), Some(&b"two"[..]));
    there(3, b"three");
    say(3);
    assert_eq!(follow(&mut warm).as_deref(), Some(&b"three"[..]));
    let kept = log_of(&engine, 1).all_kept("file").unwrap();
    assert_eq!(kept, [[2; 32], [3; 32]].map(|digest| name(&digest)), "the one before stays");
    let other = node(&engine, empty()).unwrap();
    assert_eq!(std::fs::read(copy_of(other.data.path())).unwrap(), b"three");
}

/// The keys of a folder, unsealed, whose changes travel through the bank.
fn vault(data: &std::path::Path, carrier: Carrier) -> KeyStore<TravellingFile> {
    let folder = data.join("vault");
    let (file, keys) = KeyFile::open(&folder, Options::default()).unwrap();
    let file = TravellingFile::new(&folder, file, Some(carrier)).unwrap();
    let mut store = KeyStore::new(keys, file).unwrap();
    store.unseal(KeyEncryptionKey::new(&SecretKey::from_bytes(&[9; 32]))).unwrap();
    store.records_mut().begin().unwrap();
    store
}

fn rotated(store: &mut KeyStore<TravellingFile>) -> Result<bool, KeyStoreError> {
    store.change(&Change::Rotate(KeyName::new("orders").unwrap()), 1_000)
}

#[test]
fn a_key_that_was_made_on_the_bank_is_on_every_node_once() {
    let (engine, standby_data) = (engine(), empty());
    let mut warm = standby(&engine, &standby_data);
    let mut first = node(&engine, empty()).unwrap();
    let (data, by) = (first.data.path().to_path_buf(), carrier(first.commands.clone()));
    // As the keeper's thread does.
    let keeper = std::thread::spawn(move || {
        let mut store = vault(&data, by);
        let policy = KeyPolicy::new(KeyKind::Sealing(KeyType::Aes256Gcm96));
        let name = KeyName::new("orders").unwrap();
        assert!(store.change(&Change::Create { name, policy }, 1_000).unwrap());
        let before =
            ["keys", "carried"].map(|file| std::fs::read(data.join("vault").join(file)).unwrap());
        assert!(rotated(&mut store).unwrap());
        (store, before)
    });
    while !keeper.is_finished() {
        first.thread.turn();
    }
    let (store, before) = keeper.join().unwrap();
    drop(store);
    // It was killed after the last change was sealed, and before it was in its own file.
    let Bench { thread, data, .. } = first;
    drop(thread);
    let keys = |data: &tempfile::TempDir| std::fs::read(data.path().join("vault/keys")).unwrap();
    let expected = keys(&data);
    for (file, bytes) in ["keys", "carried"].iter().zip(&before) {
        std::fs::write(data.path().join("vault").join(file), bytes).unwrap();
    }
    assert!(keys(&data).len() < expected.len());
    while !warm.follow().unwrap().is_even {}
    drop(warm);
    let own = node(&engine, data).unwrap();
    let other = node(&engine, empty()).unwrap();
    for data in [&own.data, &standby_data, &other.data] {
        assert!(keys(data) == expected, "each record once");
        assert_eq!(std::fs::read(data.path().join("vault/carried")).unwrap(), b"3\n");
    }
    // Two whose banks end: before a change is sent, and while nobody knows whether the log has it. That stays so when the folder is opened again.
    let data = other.data.path();
    let (commands, inbox) = mpsc::channel();
    let by = carrier(commands);
    let bank = std::thread::spawn(move || drop(inbox.recv().unwrap()));
    for _ in 0..2 {
        let mut store = vault(data, by.clone());
        assert!(matches!(rotated(&mut store), Err(KeyStoreError::Append(_))));
    }
    bank.join().unwrap();
    let (commands, inbox) = mpsc::channel();
    drop(inbox);
    let mut store = vault(data, carrier(commands));
    assert!(matches!(rotated(&mut store), Err(KeyStoreError::Append(_))));
    let versions = store.keys().get("orders").unwrap().versions().latest();
    assert_eq!((versions, keys(&other.data) == expected), (2, true));
}

#[test]
fn a_message_that_a_bank_did_not_end_keeps_no_files_from_a_base_copy_after_the_next_run_began() {
    let (engine, data) = (engine(), empty());
    drop(node(&engine, empty()).unwrap());
    let (config, begin) = (config_in(&data), groups(&engine).swap_remove(0).swap_remove(0));
    let (read, _) = ReadBack::of(&config, Permits::default(), 1, &[], true).unwrap();
    let mut rooms = Rooms::open(&config, &read.bank, (&read.disk, 1)).unwrap();
    rooms.take(&Record::Kept { room: Room::Edits, part: 0, last: false, bytes: [0].into() });
    assert!(!rooms.are_whole());
    rooms.take(&begin);
    assert!(rooms.are_whole());
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

/// A node that stands by, with a housekeeper that makes a snapshot of every segment.
fn standby(engine: &Memory, data: &tempfile::TempDir) -> Warm {
    let config = config_in(data);
    let read = ReadBack::of(&config, Permits::default(), 1, &[], true).unwrap();
    Warm::new(read, log_of(engine, 1))
        .with_rooms(&config)
        .unwrap()
        .with_housekeeper(&config, connect(engine))
        .unwrap()
}

fn connect(engine: &Memory) -> Connect<AnyEngine> {
    let engine = engine.clone();
    Box::new(move || Ok(log_of(&engine, 1)))
}

fn config_in(data: &tempfile::TempDir) -> Config {
    let mut config = Config::default();
    config.node.data_dir = data.path().to_path_buf();
    config.cluster.node = data.path().file_name().unwrap().to_string_lossy().into();
    (config.journal.segment_bytes, config.journal.snapshot_bytes) = (1 << 16, 1);
    config
}

/// The bank books and seals another limit of its budget.
fn limited(bank: &mut Bench, limit: u64) {
    bank.configure_with(&BUDGET.replace("\"100\"", &format!("\"{limit}\"")));
    sealed(bank);
}

fn begun(warm: Warm, data: &tempfile::TempDir) -> Result<u64, StartError> {
    warm.begin(&config_in(data), &[]).map(|start| start.bank.digest())
}

/// The books that a node has which begins on this folder now.
fn cold(engine: &Memory, data: &tempfile::TempDir) -> u64 {
    begin_on(engine, data).unwrap().digest()
}

#[test]
fn a_standby_has_the_books_of_a_cold_start_and_the_loser_of_a_race_goes_on_following() {
    let (engine, folders) = (engine(), [empty(), empty()]);
    let mut standbys = folders.each_ref().map(|data| standby(&engine, data));
    let mut bank = node(&engine, empty()).unwrap();
    bank.configure_with(BUDGET);
    let hold = bank.hold();
    bank.up.try_send(settle(hold, hold.deadline_ms - 1)).unwrap();
    assert_eq!(bank.until(Bench::resolved), Verdict::Settled);
    for limit in 200..220 {
        limited(&mut bank, limit);
        for warm in &mut standbys {
            let followed = warm.follow().unwrap();
            assert!(followed.is_even && !followed.is_free, "{followed:?}");
            assert_eq!(warm.position().1, followed.last);
        }
    }
    assert_eq!(standbys[0].bank().map(|(_, run)| *run), Some(1));
    let books = cold(&engine, &empty());
    assert_eq!(standbys.each_ref().map(Warm::digest), [books; 2]);
    // The bank ends without a word. Both begin behind the same place, and one append is taken.
    drop(bank);
    let [mut first, mut second] = standbys;
    assert_eq!([first.catch_up().unwrap().read, second.catch_up().unwrap().read], [0, 0]);
    begun(first, &folders[0]).unwrap();
    let lost = begun(second, &folders[1]).unwrap_err();
    assert!(lost.stands_by(), "{lost}");
    let mut second = standby(&engine, &folders[1]);
    assert!(second.follow().unwrap().is_even);
    assert_eq!(second.bank().map(|(_, run)| *run), Some(2));
    assert_eq!(second.digest(), cold(&engine, &empty()));
}

/// A standby whose disk lost its end reads that from the log again, and takes over whatever its housekeeper is at.
#[test]
fn a_standby_with_a_torn_disk_follows_and_takes_over_in_the_middle_of_a_snapshot() {
    let (engine, data) = (engine(), empty());
    let mut bank = node(&engine, empty()).unwrap();
    bank.configure_with(BUDGET);
    for round in 0..9 {
        limited(&mut bank, 200 + round);
        let mut warm = standby(&engine, &data);
        assert!(warm.follow().unwrap().is_even);
        assert_eq!(warm.digest(), cold(&engine, &empty()));
        drop(warm);
        let disk = Disk::open(&data.path().join("journal"), Durability::Sealed).unwrap();
        let last = *ledger_journal::segments(&disk).unwrap().last().unwrap();
        let file = data.path().join(format!("journal/segment-{last:010}.weir"));
        let file = std::fs::File::options().write(true).open(file).unwrap();
        // The last group is there in part, not at all, or whole.
        match round % 3 {
            0 => file.set_len(4_096).unwrap(),
            1 => file.set_len(4_096 + 512).unwrap(),
            _ => {}
        }
    }
    assert!(bank.thread.finish());
    let mut warm = standby(&engine, &data);
    assert!(warm.follow().unwrap().is_free, "a clean stop is waited for by nobody");
    assert_eq!(warm.catch_up().unwrap(), CaughtUp::default());
    let read = warm.digest();
    begun(warm, &data).unwrap();
    // What was made or begun of snapshots is whole or not there.
    let again = standby(&engine, &data);
    assert_ne!(read, again.digest(), "the run that began is in it");
    assert_eq!(again.digest(), cold(&engine, &empty()));
    let journal = Disk::read(&data.path().join("journal"));
    let end = Clock::now() + PATIENCE;
    while ledger_journal::snapshot::snapshots(&journal).unwrap().is_empty() {
        assert!(Clock::now() < end, "no snapshot was made");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_standby_without_a_disk_says_so_and_is_no_bank_and_one_that_finds_another_stands_down() {
    let (engine, data) = (engine(), empty());
    let mut bank = node(&engine, empty()).unwrap();
    let mut config = config_in(&data);
    config.cluster.takeover_ms = 0;
    let mut one = Standby::new(&config);
    one.warm = Some(standby(&engine, &data));
    limited(&mut bank, 100);
    assert!(one.look().unwrap(), "nothing was appended for no time at all");
    let (journal, aside) = (data.path().join("journal"), data.path().join("aside"));
    std::fs::rename(&journal, &aside).unwrap();
    // So many that they are sealed together.
    for limit in 200..500 {
        limited(&mut bank, limit);
    }
    for _ in 0..2 {
        assert!(!one.look().unwrap(), "it has a hole");
        assert!(one.heard.failure.as_ref().unwrap().contains("this node's journal"));
        assert!(!one.is_alone(true).unwrap(), "not even when it is told");
    }
    std::fs::rename(&aside, &journal).unwrap();
    one.look().unwrap();
    assert_eq!(one.heard.failure, None);
    assert_eq!(one.heard.bank.as_ref().map(|(_, run)| *run), Some(1));
    assert_eq!(one.warm.as_ref().unwrap().digest(), cold(&engine, &empty()));
    // It found silence, and somebody has appended since.
    assert!(one.look().unwrap());
    limited(&mut bank, 601);
    assert!(!one.is_alone(false).unwrap(), "another one is the bank");
    assert!(one.is_alone(false).unwrap());
    drop(bank);
}

/// Is there less in the log than there was?
fn is_trimmed(engine: &Memory) -> bool {
    log_of(engine, 1).read_on(&mut |_, _| ControlFlow::Continue(())).is_err()
}

fn begin_on(engine: &Memory, data: &tempfile::TempDir) -> Result<Warm, StartError> {
    Warm::cold(&config_in(data), Permits::default(), 1, &[], log_of(engine, 1))
}

#[test]
fn a_log_is_trimmed_and_a_node_that_has_less_begins_from_a_base_copy() {
    let (engine, data, behind) = (engine(), empty(), empty());
    let mut bank = node(&engine, empty()).unwrap();
    bank.configure_with(BUDGET);
    let hold = bank.hold();
    bank.up.try_send(settle(hold, hold.deadline_ms - 1)).unwrap();
    assert_eq!(bank.until(Bench::resolved), Verdict::Settled);
    let spent = settled(&bank);
    let line = |at: u64| format!(r#"{{"away":{{"at_ms":{at},"ids":[7]}}}}"#);
    carry(&mut bank, &line(1));
    while !standby(&engine, &behind).follow().unwrap().is_even {}
    let mut lines = vec![line(1)];
    // Each start of a standby makes one more snapshot, and a copy of it.
    while !is_trimmed(&engine) {
        lines.push(line(lines.len() as u64 + 1));
        carry(&mut bank, lines.last().unwrap());
        let (before, mut warm) = (copies(&engine), standby(&engine, &data));
        limited(&mut bank, 200 + lines.len() as u64);
        let end = Clock::now() + PATIENCE;
        // A third copy goes once the log is trimmed.
        while lines.len() > 3 && (copies(&engine) == before || copies(&engine).len() > 2) {
            assert!(Clock::now() < end, "no copy of {before:?}");
            warm.follow().unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
        while !warm.follow().unwrap().is_even {}
    }
    assert_eq!(copies(&engine).len(), 2);
    lines.push(line(99));
    carry(&mut bank, &line(99));
    let mut warm = standby(&engine, &data);
    while !warm.follow().unwrap().is_even {}
    let books = warm.digest();
    drop(warm);
    // An empty folder, one whose journal ends before the log begins, and one where an earlier try was cut.
    let cut = empty();
    std::fs::create_dir_all(cut.path().join("base-making/journal/x")).unwrap();
    for folder in [&empty(), &behind, &cut] {
        assert_eq!(begin_on(&engine, folder).unwrap().digest(), books);
        assert_eq!(edits_in(folder.path()), lines);
        let names = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name());
        let aside: Vec<_> =
            names.filter(|name| name.to_string_lossy().starts_with("before-base-")).collect();
        assert_eq!((aside.len(), folder.path().join("base-making").exists()), (1, false));
    }
    // Killed after the copy was whole, and before all of it was in its place.
    let (whole, journal) = (cut.path().join("base-whole"), cut.path().join("journal"));
    std::fs::create_dir(&whole).unwrap();
    std::fs::rename(&journal, whole.join("journal")).unwrap();
    std::fs::create_dir(&journal).unwrap();
    assert_eq!(begin_on(&engine, &cut).unwrap().digest(), books);
    assert!(!whole.exists());
    // A disk that does not take it.
    let full = empty();
    std::fs::write(full.path().join("base-making"), b"").unwrap();
    let refused = begin_on(&engine, &full).err().unwrap();
    assert!(matches!(&refused, StartError::Log(error) if error.is_disk()), "{refused}");
    // Money: the token of before settles again, and is booked once.
    drop(bank);
    let mut next = node(&engine, empty()).unwrap();
    next.configure_with(BUDGET);
    next.up.try_send(settle(hold, hold.deadline_ms - 1)).unwrap();
    assert_eq!(next.until(Bench::resolved), Verdict::Settled);
    assert_eq!(settled(&next), spent);
    // Without any copy an empty folder begins nothing.
    log_of(&engine, 1).keep_only("copy", &|_| false).unwrap();
    let lost = begin_on(&engine, &empty()).err().unwrap().to_string();
    assert!(lost.contains("no base copy reaches that record"), "{lost}");
}

fn copies(engine: &Memory) -> Vec<String> {
    log_of(engine, 1).all_kept("copy").unwrap()
}

/// The books of a folder's own journal.
fn own_books(data: &tempfile::TempDir) -> u64 {
    ReadBack::of(&config_in(data), Permits::default(), 1, &[], true).unwrap().0.bank.digest()
}

/// A log that is made anew has what the folder has.
fn made_anew(engine: &Memory, data: &tempfile::TempDir) {
    assert_eq!(engine.entries(), 0);
    init_in(&config_in(data), log_of(engine, 1)).unwrap();
}

#[test]
fn of_two_histories_the_one_that_is_named_stays_and_the_other_one_is_kept_aside() {
    for keep in [Side::Log, Side::Disk] {
        let engine = engine();
        let mut first = node(&engine, empty()).unwrap();
        limited(&mut first, 100);
        let shared = engine.entries();
        for limit in 200..203 {
            limited(&mut first, limit);
        }
        let Bench { thread, data, .. } = first;
        drop(thread);
        // The engine lost that, and another node went on.
        engine.cut(shared);
        let mut second = node(&engine, empty()).unwrap();
        limited(&mut second, 300);
        let Bench { thread, data: other, .. } = second;
        drop(thread);
        let fork = begin_on(&engine, &data).err().unwrap().to_string();
        assert!(fork.contains("two histories") && fork.contains("weir cluster heal"), "{fork}");
        let mut config = config_in(&data);
        config.cluster.takeover_ms = 1;
        let [of_log, of_disk] = [own_books(&other), own_books(&data)];
        assert_ne!(of_log, of_disk);
        let heal = |keep| heal_in(&config, log_of(&engine, 1), keep);
        let shown = heal(None).unwrap();
        let (log, disk) = (shown.found.log.unwrap(), shown.found.disk);
        assert_eq!((shown.aside, &disk.runs[..], log.runs[0].0), (None, &[][..], 2));
        assert!(disk.records >= 3 && log.records >= 2, "{disk:?} {log:?}");
        assert!(begin_on(&engine, &data).is_err(), "nothing was changed");
        let aside = heal(Some((keep, "a test"))).unwrap().aside.unwrap();
        if keep == Side::Disk {
            made_anew(&engine, &data);
        }
        let (kept, lost) = if keep == Side::Log { (of_log, of_disk) } else { (of_disk, of_log) };
        assert_eq!(begin_on(&engine, &data).unwrap().digest(), kept);
        assert_eq!(begin_on(&engine, &empty()).unwrap().digest(), kept);
        assert!(std::fs::read_to_string(aside.join("why")).unwrap().contains("a test"));
        // What was not kept is a journal that is read like any other.
        let there = empty();
        std::fs::rename(aside.join("journal"), there.path().join("journal")).unwrap();
        assert_eq!(own_books(&there), lost);
        // The other node: the same history goes on, and another one begins anew from the log.
        if keep == Side::Disk {
            assert!(begin_on(&engine, &other).is_err());
            heal_in(&config_in(&other), log_of(&engine, 1), Some((Side::Log, "b"))).unwrap();
        }
        assert_eq!(begin_on(&engine, &other).unwrap().digest(), kept);
    }
}

#[test]
fn a_log_that_is_gone_begins_anew_from_a_disk_that_does_not_reach_back_either() {
    let (engine, data) = (engine(), empty());
    let mut bank = node(&engine, empty()).unwrap();
    for limit in 200..204 {
        limited(&mut bank, limit);
        while !standby(&engine, &data).follow().unwrap().is_even {}
    }
    drop(bank);
    let journal = data.path().join("journal");
    let end = Clock::now() + PATIENCE;
    while ledger_cluster::newest(&journal) == 0 {
        assert!(Clock::now() < end, "no snapshot");
        drop(standby(&engine, &data));
    }
    let books = own_books(&data);
    std::fs::remove_file(journal.join("segment-0000000001.weir")).unwrap();
    log_of(&engine, 1).remove().unwrap();
    let gone = begin_on(&engine, &data).err().unwrap().to_string();
    assert!(gone.contains("there is no such stream") && gone.contains("cluster heal"), "{gone}");
    let mut config = config_in(&data);
    config.cluster.takeover_ms = 1;
    let about = serde_json::json!({});
    log_of(&engine, 1).keep("file.f00d", &about, &mut &b"{}"[..]).unwrap();
    let begun_anew = init_in(&config_in(&empty()), log_of(&engine, 1)).unwrap_err().to_string();
    assert!(begun_anew.contains("is gone, and files beside it"), "{begun_anew}");
    let heal = |keep| heal_in(&config, log_of(&engine, 1), Some((keep, "it was deleted")));
    assert!(heal(Side::Log).is_err());
    assert_eq!(heal(Side::Disk).unwrap().found.log, None);
    made_anew(&engine, &data);
    let warm = begin_on(&engine, &data).unwrap();
    assert_eq!(warm.digest(), books);
    // Another node begins from the base copy that `init` made, and again where that was lost before it was there.
    assert_eq!(begin_on(&engine, &empty()).unwrap().digest(), books);
    log_of(&engine, 1).keep_only("copy", &|_| false).unwrap();
    assert!(begin_on(&engine, &empty()).is_err());
    drop(warm);
    init_in(&config, log_of(&engine, 1)).unwrap();
    assert_eq!(begin_on(&engine, &empty()).unwrap().digest(), books);
    begun(begin_on(&engine, &data).unwrap(), &data).unwrap();
}
