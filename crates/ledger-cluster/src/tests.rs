//! The log over an engine in memory.

mod base;

use std::ops::ControlFlow;
use std::time::Duration;

use ledger::Record;
use ledger_journal::{Disk, Durability, Gather, Group, Log, NotAppended, Position, Tail, Writer};
use vault::SecretKey;

use crate::{
    BeginError, CatchUpError, CaughtUp, ClusterError, ClusterLog, ClusterName, DataFolder,
    ENTRY_BYTES_MAX, EngineFault, EntryKey, Healed, Histories, LogFault, Memory, NodeLog, Place,
    Side, heal, make,
};

impl Memory {
    /// The next append is stored, and from then on nothing is answered.
    fn mute(&self) {
        self.plant(&[EngineFault::Unanswered]);
        self.stream().is_mute = true;
    }

    /// Stores an entry that was sealed with this secret for this place.
    fn push(&self, secret: u8, entry: u64) {
        let sealed = key(secret).seal(entry, b"a group").unwrap();
        self.stream().entries.push(sealed);
    }

    /// A rival's request is lost twice, and then taken.
    fn late(&self, all: &[Group]) {
        self.plant(&[EngineFault::Lost, EngineFault::Unanswered]);
        let (mut rival, group) = (open(self), groups(all[2].after(), 1, 500));
        rival.seek(all[2].after()).unwrap();
        for expected in ["unknown", "unknown", "ok"] {
            assert_eq!(outcome(rival.append(&group[0])), expected);
        }
    }

    /// A rival appends, and trims up to its own beginning.
    fn trim(&self, all: &[Group]) {
        rival(self, all[2].after());
        self.stream().trimmed = 4;
    }
}

fn name() -> ClusterName {
    "a".parse().unwrap()
}

/// An engine with an empty stream.
fn memory() -> Memory {
    let memory = Memory::new(name());
    open(&memory).create(0).unwrap();
    memory
}

fn open(engine: &Memory) -> ClusterLog<Memory> {
    with_secret(engine, 1)
}

fn key(secret: u8) -> EntryKey {
    EntryKey::new(&name(), &SecretKey::from_bytes(&[secret; 32])).unwrap()
}

fn with_secret(engine: &Memory, secret: u8) -> ClusterLog<Memory> {
    let mut log = ClusterLog::new(engine.clone(), name(), 1, key(secret), "nats://n1:4222");
    (log.forgot_after, log.retry) = (Duration::ZERO, Duration::ZERO);
    log
}

/// So many groups of two records each, the grants of which are numbered from `grant`.
fn groups(at: &Position, count: u64, grant: u64) -> Vec<Group> {
    let mut gather = Gather::new(*at);
    let group = |number| {
        for grant in [number, number + 1] {
            gather.append(&Record::GrantClosed { grant }, 1_000);
        }
        gather.take().unwrap()
    };
    (0..count).map(|number| grant + 2 * number).map(group).collect()
}

fn appended(engine: &Memory, count: u64) -> (ClusterLog<Memory>, Vec<Group>) {
    let (mut log, groups) = (open(engine), groups(&Position::START, count, 1));
    groups.iter().for_each(|group| log.append(group).unwrap());
    (log, groups)
}

/// Reads on: the places behind each group.
fn read_on(log: &mut ClusterLog<Memory>) -> Result<Vec<Position>, ClusterError> {
    let mut read = Vec::new();
    let done = log.read_on(&mut |_, group| {
        read.push(*group.after());
        ControlFlow::Continue(())
    });
    done.map(|()| read)
}

fn ends(groups: &[Group]) -> Vec<Position> {
    groups.iter().map(|group| *group.after()).collect()
}

#[test]
fn what_is_appended_is_read_from_any_place() {
    let engine = memory();
    let (mut log, all) = appended(&engine, 9);
    assert_eq!(log.attest(), Ok(Durability::Sealed));
    assert_eq!(log.place(), Place { position: *all[8].after(), entry: 9 });
    log.append(&all[8]).expect("the same group again is there already");
    assert_eq!(engine.stream().appends, 9, "and nobody is asked");
    assert_eq!(read_on(&mut open(&engine)).unwrap(), ends(&all));
    for at in 0..=9 {
        let mut other = open(&engine);
        let position = if at == 0 { Position::START } else { *all[at - 1].after() };
        let mut read = Vec::new();
        other
            .read(&position, &mut |entry| {
                read.push(entry.to_vec());
                ControlFlow::Continue(())
            })
            .unwrap();
        assert!(read.iter().eq(all[at..].iter().map(Group::entry)), "{at}");
        assert_eq!(other.place(), Place::START, "reading moves nothing");
        assert_eq!(other.seek(&position).unwrap(), Place { position, entry: at as u64 });
        assert_eq!(read_on(&mut other).unwrap(), ends(&all[at..]));
        assert_eq!(other.place(), log.place());
    }
    let mut seen = 0;
    let mut stop = |_, _: &Group| {
        seen += 1;
        if seen == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let mut other = open(&engine);
    other.read_on(&mut stop).unwrap();
    assert_eq!((seen, other.place().entry), (2, 2));
}

/// A rival that has the log up to the same place, and appends a group of its own.
fn rival(engine: &Memory, at: &Position) {
    let mut rival = open(engine);
    rival.seek(at).unwrap();
    rival.append(&groups(at, 1, 500)[0]).unwrap();
}

fn outcome(result: Result<(), NotAppended>) -> &'static str {
    match result {
        Ok(()) => "ok",
        Err(NotAppended::Fenced) => "fenced",
        Err(NotAppended::Forgot { last: 0 }) => "forgot all",
        Err(NotAppended::Forgot { .. }) => "forgot",
        Err(NotAppended::Unknown(error)) => {
            assert!(error.to_string().contains("WEIR_a at nats://n1:4222: "), "{error}");
            "unknown"
        }
    }
}

/// A server that was stopped answers as the leader that it was, before another one does.
#[test]
fn an_engine_that_ends_too_early_is_believed_when_it_goes_on_saying_so() {
    let engine = memory();
    let (mut log, mut all) = appended(&engine, 3);
    all.extend(groups(all[2].after(), 1, 7));
    log.forgot_after = Duration::from_secs(3_600);
    let last = engine.stream().entries.pop().unwrap();
    assert_eq!(outcome(log.append(&all[3])), "unknown");
    assert_eq!(outcome(log.append(&all[3])), "unknown");
    engine.stream().entries.push(last);
    log.append(&all[3]).unwrap();
    assert!(log.short_since.is_none(), "what comes later is another matter");
}

/// What is done to an engine that holds three groups, and what each append of the fourth group comes to.
type Doubt = (&'static str, fn(&Memory, &[Group]), &'static [&'static str]);

const DOUBTS: [Doubt; 13] = [
    ("nothing", |_, _| {}, &["ok"]),
    ("lost", |engine, _| engine.plant(&[EngineFault::Lost; 2]), &["unknown", "unknown", "ok"]),
    ("unanswered", |engine, _| engine.plant(&[EngineFault::Unanswered]), &["unknown", "ok"]),
    ("refused", |engine, _| engine.plant(&[EngineFault::Refused]), &["unknown", "ok"]),
    ("unanswered, and nothing can be read", |engine, _| engine.mute(), &["unknown"; 3]),
    ("another bank", |engine, all| rival(engine, all[2].after()), &["fenced"; 2]),
    ("unanswered, but it was a rival's", |engine, all| engine.late(all), &["fenced"]),
    ("another secret in its place", |engine, _| engine.push(9, 4), &["fenced"]),
    ("damage in its place", |engine, _| engine.push(1, 5), &["unknown"; 2]),
    ("another bank that trimmed", |engine, all| engine.trim(all), &["fenced"]),
    ("one forgotten", |engine, _| engine.cut(2), &["forgot"; 2]),
    ("all forgotten", |engine, _| engine.cut(0), &["forgot all"]),
    ("no comparison", |engine, _| engine.plant(&[EngineFault::NotCompared]), &["ok"]),
];

#[test]
fn a_doubtful_append_is_repeated_until_it_is_certain() {
    for (what, act, expected) in DOUBTS {
        let engine = memory();
        let (mut log, mut all) = appended(&engine, 3);
        act(&engine, &all);
        all.extend(groups(all[2].after(), 1, 7));
        for expected in expected {
            assert_eq!(outcome(log.append(&all[3])), *expected, "{what}");
        }
        let is_in = expected.last() == Some(&"ok");
        assert_eq!(log.place().entry, 3 + u64::from(is_in), "{what}");
        if is_in {
            assert_eq!(read_on(&mut open(&engine)).unwrap(), ends(&all), "{what}: once, in order");
        }
    }
}

/// A group that is too long for an entry.
fn large(at: &Position) -> Group {
    let mut gather = Gather::new(*at);
    while gather.bytes() <= ENTRY_BYTES_MAX {
        gather.append(&Record::GrantClosed { grant: 1 }, 1);
    }
    gather.take().unwrap()
}

#[test]
fn a_group_in_the_wrong_place_asks_nobody() {
    let engine = memory();
    let (mut log, all) = appended(&engine, 3);
    let beyond = Position { sequence: all[2].after().sequence + 5, ..*all[2].after() };
    let fork = Position { hash: [7; 32], ..*all[2].after() };
    for (at, expected) in [(*all[0].after(), "fenced"), (fork, "fenced"), (beyond, "forgot")] {
        assert_eq!(outcome(log.append(&groups(&at, 1, 500)[0])), expected);
    }
    engine.plant(&[EngineFault::NotCompared]);
    rival(&engine, all[2].after());
    engine.plant(&[EngineFault::NotCompared]);
    let next = groups(all[2].after(), 1, 7);
    assert_eq!(outcome(log.append(&next[0])), "fenced", "it got number 5, not 4");
    let large = large(all[2].after());
    let appends = engine.stream().appends;
    assert!(log.append(&large).unwrap_err().to_string().contains("an entry holds 262144"));
    assert_eq!(engine.stream().appends, appends);
}

#[test]
fn a_read_that_is_old_costs_a_refused_append_and_nothing_else() {
    let engine = memory();
    let (_, all) = appended(&engine, 5);
    engine.stream().stale = 2;
    let mut new = open(&engine);
    assert_eq!(read_on(&mut new).unwrap(), ends(&all[..3]));
    assert_eq!(outcome(new.append(&groups(all[2].after(), 1, 500)[0])), "fenced");
    engine.stream().stale = 0;
    assert_eq!(read_on(&mut new).unwrap(), ends(&all[3..]));
    new.append(&groups(all[4].after(), 1, 500)[0]).unwrap();
}

/// Each row: what became of a log of five groups, where a node that knows `known` of them stands, and what a start says.
#[test]
fn a_log_that_is_not_what_a_node_knows_is_told_with_its_place() {
    type Row = (fn(&mut crate::memory::Entries), usize, &'static str);
    let rows: [Row; 9] = [
        (
            |stream| stream.entries.truncate(3),
            5,
            "it ends with record 6, and this node knows record 10",
        ),
        (
            |stream| stream.entries.clear(),
            5,
            "it ends with record 0, and this node knows record 10",
        ),
        (|stream| stream.trimmed = 2, 0, "it begins with record 5, and record 1 was asked for"),
        (|stream| stream.trimmed = 4, 3, "it begins with record 9, and record 7 was asked for"),
        (|stream| stream.trimmed = 5, 5, "it ends with record 0"),
        (|stream| stream.entries[3][60] ^= 1, 3, "entry 4: it was changed, cut or moved"),
        (|stream| stream.entries.swap(3, 4), 3, "entry 5: it was changed, cut or moved"),
        (|stream| drop(stream.entries.remove(3)), 3, "entry 4: it was changed, cut or moved"),
        (|stream| stream.entries[4][3] ^= 1, 5, "entry 5: it was encrypted with another secret"),
    ];
    for (act, known, expected) in rows {
        let engine = memory();
        let (_, all) = appended(&engine, 5);
        act(&mut engine.stream());
        let at = known.checked_sub(1).map_or(Position::START, |last| *all[last].after());
        let mut log = open(&engine);
        let error = log.seek(&at).and_then(|_| read_on(&mut log).map(drop)).unwrap_err();
        assert!(error.fault.to_string().starts_with(expected), "{error}\n{expected}");
        assert!(error.to_string().starts_with("WEIR_a at nats://n1:4222: "), "{error}");
    }
    let engine = memory();
    let (_, all) = appended(&engine, 5);
    let error = read_on(&mut with_secret(&engine, 2)).unwrap_err().to_string();
    assert!(error.contains("entry 1: it was encrypted with another secret"), "{error}");
    // Trimmed up to where the node stands is whole.
    engine.stream().trimmed = 3;
    let mut log = open(&engine);
    assert_eq!(log.seek(all[2].after()).unwrap().entry, 3);
    assert_eq!(read_on(&mut log).unwrap(), ends(&all[3..]));
    // Two histories: by the hash, by where groups end, and behind a place that both have.
    let other = groups(&Position::START, 5, 100);
    let middle = Position { sequence: all[3].after().sequence + 1, ..*all[3].after() };
    for at in [other[4].after(), other[2].after(), &middle] {
        let error = open(&engine).seek(at).unwrap_err();
        assert!(matches!(error.fault, LogFault::Fork { .. }), "{error}");
    }
    engine.stream().entries[4] = key(1).seal(5, other[4].entry()).unwrap();
    let mut log = open(&engine);
    log.seek(all[2].after()).unwrap();
    let error = read_on(&mut log).unwrap_err().to_string();
    assert!(error.contains("entry 5 does not follow from record 8"), "{error}");
    assert_eq!(log.place().entry, 4, "what is sound was read");
    let mut other = ClusterLog::new(engine, name(), 2, key(1), "nats://n1:4222");
    let error = other.create(0).unwrap_err().to_string();
    assert!(error.contains("the engine refuses: stream name already in use"), "{error}");
}

/// A folder for a node's journal.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path =
            std::env::temp_dir().join(format!("weir-node-log-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Folder(path)
    }

    /// A node that begins from what of `known` is on its disk, and from the log; the groups that it read from there.
    fn begin(&self, engine: &Memory, known: &[Group]) -> (Begun, Vec<Position>) {
        let disk = Disk::open(&self.0, Durability::Sealed).unwrap();
        let next_segment =
            ledger_journal::segments(&disk).unwrap().last().map_or(1, |last| last + 1);
        let position = known.last().map_or(Position::START, |group| *group.after());
        let writer = Writer::new(disk.clone(), 1, 1 << 22, Tail { position, next_segment });
        let (mut read, mut node) = (Vec::new(), NodeLog::new(open(engine), writer));
        let begun = node.catch_up(&disk, &mut |group| {
            read.push(*group.after());
            Ok(())
        });
        (begun.map(|caught_up| (node, caught_up)), read)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

type Begun = Result<(NodeLog<Disk, Memory>, CaughtUp), CatchUpError>;

/// All places that both have of a node's disk and the log.
fn everywhere(node: &mut NodeLog<Disk, Memory>, engine: &Memory) -> Vec<Position> {
    let (mut at, mut disk) = (Position::START, Vec::new());
    node.read(&Position::START, &mut |entry| {
        at = *Group::read(entry, &at).unwrap().after();
        disk.push(at);
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(disk, read_on(&mut open(engine)).unwrap(), "disk and log are the same");
    disk
}

/// The disk ends before the log, with it, or behind it; then both are the same, and the node appends to both.
#[test]
fn a_start_makes_disk_and_log_the_same() {
    for (on_disk, in_log, doubts) in
        [(0, 0, 0), (0, 5_usize, 0), (3, 5, 0), (5, 5, 0), (5, 3, 0), (5, 0, 0), (5, 3, 2)]
    {
        let (engine, folder) = (memory(), Folder::new("same"));
        let (_, mut all) = appended(&engine, in_log.max(on_disk) as u64);
        // What is on the disk was appended by this node before.
        let (node, _) = folder.begin(&memory(), &[]);
        let mut node = node.unwrap().0;
        all[..on_disk].iter().for_each(|group| node.append(group).unwrap());
        engine.cut(in_log);
        engine.plant(&[EngineFault::Unanswered, EngineFault::Lost][..doubts]);
        let (begun, read) = folder.begin(&engine, &all[..on_disk]);
        let (mut node, caught_up) = begun.unwrap();
        let behind = on_disk.min(all.len())..all.len();
        assert_eq!(read, ends(&all[behind.clone()]), "{on_disk} {in_log}");
        let appended = on_disk.saturating_sub(in_log) as u64;
        assert_eq!(caught_up, CaughtUp { read: behind.len() as u64, appended });
        all.extend(groups(node.position(), 2, 100));
        all[all.len() - 2..].iter().for_each(|group| node.append(group).unwrap());
        assert_eq!(everywhere(&mut node, &engine), ends(&all));
    }
}

#[test]
fn a_start_refuses_two_histories_and_what_is_gone_from_both() {
    let (engine, folder) = (memory(), Folder::new("refused"));
    let mine = groups(&Position::START, 4, 1);
    let (mut node, _) = folder.begin(&engine, &[]).0.unwrap();
    mine.iter().for_each(|group| node.append(group).unwrap());
    // The log forgot the last two groups, and another bank appended behind the rest.
    engine.cut(2);
    let mut at = *mine[1].after();
    for _ in 0..3 {
        rival(&engine, &at);
        at = *read_on(&mut open(&engine)).unwrap().last().unwrap();
        let before = engine.stream().entries.len();
        let refused = folder.begin(&engine, &mine).0.unwrap_err().to_string();
        assert!(refused.contains("two histories"), "{refused}");
        assert_eq!(engine.stream().entries.len(), before, "nothing was appended");
    }
    // The disk begins behind what the log has left.
    engine.cut(1);
    std::fs::remove_file(folder.0.join("segment-0000000001.weir")).unwrap();
    let refused = folder.begin(&engine, &mine).0.unwrap_err();
    assert!(matches!(refused, CatchUpError::TooFar { last: 2, first: 9 }), "{refused}");
}

#[test]
fn no_run_begins_from_a_part_of_the_journal_that_begins_the_log() {
    let (engine, folder, other) =
        (Memory::new(name()), Folder::new("fill"), Folder::new("fill-other"));
    let all = groups(&Position::START, 4, 1);
    let mut node = folder.begin(&memory(), &[]).0.unwrap().0;
    all.iter().for_each(|group| node.append(group).unwrap());
    let disk = Disk::read(&folder.0);
    assert_eq!(node.measure(&disk).unwrap(), 8);
    assert_eq!(open(&engine).create(8).unwrap(), 8);
    // An `init` that was killed, and a second node meanwhile.
    for filled in 0..4 {
        let refused = other.begin(&engine, &all[..filled]).0.unwrap_err();
        assert!(refused.to_string().contains("init` is not finished"), "{refused}");
        assert!(BeginError::from(refused).is_away(), "a standby waits for it");
        let sealed = key(1).seal(filled as u64 + 1, all[filled].entry()).unwrap();
        let begun = (filled < 3).then(|| engine.stream().entries.push(sealed));
        let read = other.begin(&engine, &all[..filled]);
        assert_eq!((read.0.is_err(), read.1.len()), (true, usize::from(begun.is_some())));
    }
    assert_eq!(make(&mut open(&engine), 9).unwrap(), 3, "again: it stays what it was made for");
    let other_journal = make(&mut open(&memory()), 8).unwrap_err().to_string();
    assert!(other_journal.contains("heal --keep disk"), "{other_journal}");
    assert_eq!(folder.begin(&engine, &all).0.unwrap().1.appended, 1);
    assert_eq!(other.begin(&engine, &all[..3]).0.unwrap().1.read, 1);
    // A journal that does not go into a log is found before there is one.
    let tail = Tail { position: *all[3].after(), next_segment: 2 };
    let mut alone = Writer::new(disk.syncing(), 1, 1 << 22, tail);
    alone.append(&large(all[3].after())).unwrap();
    let long = NodeLog::new(open(&engine), alone).measure(&disk).unwrap_err();
    assert!(matches!(long, CatchUpError::TooLong { first: 9, .. }), "{long}");
}

/// What `heal` says to a log of five groups and a disk that has the first two, and two of its own.
#[test]
fn nothing_is_removed_that_was_not_seen_and_saved() {
    type Row = (fn(&mut crate::memory::Entries), usize, Option<Side>, &'static str);
    let own = 4;
    let rows: [Row; 9] = [
        (|_| {}, own, Some(Side::Disk), ""),
        (|_| {}, 2, Some(Side::Disk), "nothing that the log has not"),
        (|_| {}, 0, Some(Side::Disk), "nothing that the log has not"),
        (|stream| stream.gone = 1, own, Some(Side::Disk), "or is there again"),
        (|stream| stream.gone = 9, own, Some(Side::Disk), ""),
        (|stream| stream.slow = 1, own, Some(Side::Disk), "up to entry 4, and ends with entry 5"),
        (|stream| stream.trimmed = 3, own, Some(Side::Disk), "keep the log"),
        (|stream| stream.trimmed = 3, own, Some(Side::Log), ""),
        (
            |stream| stream.entries.truncate(2),
            2,
            Some(Side::Log),
            "nothing that this folder has not",
        ),
    ];
    for (act, on_disk, keep, expected) in rows {
        let (engine, data, folder) = (memory(), Folder::new("heal"), Folder::new("heal/journal"));
        let (mut log, all) = appended(&engine, 5);
        let fork = groups(all[1].after(), 2, 700);
        let mine: Vec<&Group> = all[..2].iter().chain(&fork).take(on_disk).collect();
        let mut node = folder.begin(&memory(), &[]).0.unwrap().0;
        mine.iter().for_each(|group| node.append(group).unwrap());
        log.put_base((all[2].after(), 7), 1, Vec::new(), &|| false).unwrap();
        act(&mut engine.stream());
        let is_gone = engine.stream().gone > 1;
        let entries = engine.stream().entries.len();
        let disk = Disk::open(&folder.0, Durability::Sealed).unwrap();
        let at = mine.last().map_or(Position::START, |group| *group.after());
        let writer = Writer::new(disk.clone(), 1, 1 << 22, Tail { position: at, next_segment: 2 });
        let of = DataFolder {
            path: data.0.clone(),
            durability: Durability::Sealed,
            node: 1,
            segment_bytes: 1 << 22,
        };
        let keep = keep.map(|side| (side, "a test"));
        let healed = heal(NodeLog::new(open(&engine), writer), &disk, &of, keep, Duration::ZERO);
        let told = healed.as_ref().err().map(ToString::to_string).unwrap_or_default();
        assert!(told.contains(expected) && told.is_empty() == expected.is_empty(), "{told}");
        let is_kept = is_gone || keep != Some((Side::Disk, "a test")) || !expected.is_empty();
        assert_eq!(engine.stream().entries.len(), if is_kept { entries } else { 0 }, "{expected}");
        let pieces = engine.stream().pieces.as_ref().unwrap().len();
        assert_eq!(pieces > 0, is_kept, "{expected}: base copies");
        if let Ok(Healed {
            found: Histories { trimmed: Some(first), log: Some(log), .. }, ..
        }) = healed
        {
            assert_eq!((first, log.records), (7, 4));
        }
    }
}

/// The log comes first: where it does not answer the disk has nothing, and where the disk fails the same group is appended again.
#[test]
fn the_disk_never_has_what_the_log_has_not() {
    let (engine, folder) = (memory(), Folder::new("first"));
    let (mut node, _) = folder.begin(&engine, &[]).0.unwrap();
    let all = groups(&Position::START, 3, 1);
    assert_eq!(node.group_bytes_max(), ENTRY_BYTES_MAX);
    engine.plant(&[EngineFault::Lost, EngineFault::Unanswered]);
    for _ in 0..2 {
        assert!(matches!(node.append(&all[0]), Err(NotAppended::Unknown(_))));
        assert_eq!(*node.position(), Position::START);
    }
    node.append(&all[0]).unwrap();
    let at = node.at();
    assert_eq!((at.append_ns().count(), at.unknown(), at.forgot()), (1, 2, 0));
    // The disk's folder is gone: no segment can be begun.
    let (mut other, _) = folder.begin(&engine, &all[..1]).0.unwrap();
    let aside = folder.0.with_extension("aside");
    std::fs::rename(&folder.0, &aside).unwrap();
    let error = other.append(&all[1]).unwrap_err().to_string();
    assert!(error.contains("this node's disk does not"), "{error}");
    std::fs::rename(&aside, &folder.0).unwrap();
    other.append(&all[1]).unwrap();
    assert_eq!(outcome(node.append(&all[1])), "ok", "it is there already");
    rival(&engine, all[1].after());
    assert_eq!(outcome(other.append(&all[2])), "fenced");
    assert_eq!(*other.position(), *all[1].after());
}

/// A standby has what the log has, each group once, and appends nothing: however the groups come, after a disk that failed, and where the log forgets.
#[test]
fn a_standby_follows_and_its_disk_comes_back_without_a_hole() {
    let (engine, folder) = (memory(), Folder::new("follows"));
    let disk = Disk::open(&folder.0, Durability::Sealed).unwrap();
    let tail = Tail { position: Position::START, next_segment: 1 };
    let writer = Writer::new(disk.clone(), 1, 1 << 22, tail);
    let (mut standby, mut heard) = (NodeLog::new(open(&engine), writer), Vec::new());
    let (mut bank, mut all) = (open(&engine), Vec::new());
    let aside = folder.0.with_extension("gone");
    // How many groups come, and whether the disk fails meanwhile. Many are sealed together.
    for (count, fails) in [(1, false), (3, true), (300, true), (300, false), (0, false), (2, false)]
    {
        let at = all.last().map_or(Position::START, |group: &Group| *group.after());
        let more = groups(&at, count, 1 + 2 * all.len() as u64);
        more.iter().for_each(|group| bank.append(group).unwrap());
        all.extend(more);
        let mut follow = || {
            standby.follow(1, &mut |group| {
                heard.push(*group.after());
                Ok(())
            })
        };
        if fails {
            std::fs::rename(&folder.0, &aside).unwrap();
            // A segment that is begun goes on; the next one cannot begin.
            let failed = [follow(), follow()];
            assert!(count < 100 || failed.iter().all(Result::is_err), "{failed:?}");
            std::fs::rename(&aside, &folder.0).unwrap();
        }
        assert_eq!(follow().unwrap(), all.len() as u64);
        assert_eq!(heard, ends(&all), "each once");
        assert_eq!(everywhere(&mut standby, &engine), ends(&all));
        assert_eq!(standby.at().get(), (2 * all.len() as u64, all.len() as u64));
    }
    // The log forgets: nobody appends again before a takeover.
    engine.cut(600);
    assert_eq!(standby.follow(1, &mut |_| Ok(())).unwrap(), 600);
    assert_eq!(engine.entries(), 600);
    let caught_up = standby.catch_up(&disk, &mut |_| Ok(())).unwrap();
    assert_eq!((caught_up, standby.at().forgot()), (CaughtUp { read: 0, appended: 6 }, 1));
    assert_eq!(everywhere(&mut standby, &engine), ends(&all));
    // What cannot be replayed is not on the disk either.
    let more = groups(all[605].after(), 1, 5_000);
    bank.seek(all[605].after()).unwrap();
    bank.append(&more[0]).unwrap();
    let error = standby.follow(1, &mut |_| Err("of a later version".into())).unwrap_err();
    assert!(matches!(error, CatchUpError::Replay { first: 1_213, .. }), "{error}");
    assert_eq!(standby.position(), all[605].after());
}
