//! The journal: settlements acknowledged once they are sealed, beside a loop that writes the same bytes in the same
//! groups and does nothing else; and how long a start takes that reads them back.

use std::collections::VecDeque;
use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use ledger::{
    Action, Amount, Bank, BudgetSpec, Door, Hold, Options, Origin, Out, ToBank, ToWorker,
};
use ledger_journal::{
    Disk, Durability, Gather, Journal, JournalOptions, Keep, Log, Position, Start, Tail, Writer,
    recover, snapshot, walk,
};
use money::Unit;
use probe::compare::median;

use crate::Size;

/// The stamp of every request: nothing expires while we measure.
const NOW_MS: u64 = 1_800_000_000_000;
const SEGMENT_BYTES: u64 = 64 << 20;
/// As `weir.toml` has them.
const KEEP: Keep = Keep { snapshot_bytes: 256 << 20, bytes_max: 10 << 30, ms_max: u64::MAX };

/// Runs all of it.
pub fn run(size: Size) {
    settles(size);
    starts(size);
}

/// A folder beside the program that is running: on a disk, not in memory.
fn folder() -> tempfile::TempDir {
    let program = std::env::current_exe().unwrap_or_default();
    let beside = program.parent().map_or_else(std::env::temp_dir, Path::to_path_buf);
    tempfile::tempdir_in(beside).expect("a folder beside the program")
}

/// A bank with open grants, and requests to settle holds made from them.
struct Holds {
    bank: Bank,
    grants: Vec<u64>,
    made: u64,
    out: Out,
}

impl Holds {
    fn new(budgets: u64) -> Holds {
        let mut bank = Bank::new(Options::default());
        let mut out = Out::default();
        bank.start_run(NOW_MS, &mut out);
        let specs: Vec<BudgetSpec> = (1..=budgets).map(budget).collect();
        bank.configure(&specs, &mut out).expect("sound budgets");
        let fills = out.messages.iter().filter_map(|(_, message)| match message {
            ToWorker::Fill { grant, .. } => Some(*grant),
            _ => None,
        });
        let grants = fills.collect();
        Holds { bank, grants, made: 0, out }
    }

    /// The next settlement.
    fn settle(&mut self, reply: u64) {
        let which = self.made % self.grants.len() as u64;
        let hold = Hold {
            grant: self.grants[which as usize],
            seq: (self.made / self.grants.len() as u64) as u32,
            node: 1,
            deadline_ms: NOW_MS + 2_000,
            amount: Amount::new(1_000),
        };
        self.made += 1;
        let origin = Origin { door: Door::Batch, request_id: self.made };
        let (action, amount) = (Action::Settle, Amount::new(900));
        let message = ToBank::Resolve { action, hold, amount, at_ms: NOW_MS, origin, reply };
        self.bank.step(0, message, &mut self.out);
    }
}

fn budget(id: u64) -> BudgetSpec {
    BudgetSpec::plain(id, Unit::parse("USD").expect("a currency"), money::LIMIT_MAX)
}

/// What a run of settlements showed.
struct Settled {
    per_second: f64,
    ack_us: [f64; 2],
    seal_us: [f64; 2],
    bytes_each: f64,
    /// Bytes of each group on disk.
    groups: Vec<usize>,
}

/// Settles `count` holds, never more than `window` of them unacknowledged.
fn seal_settles(durability: Durability, count: u64, window: usize) -> Settled {
    let folder = folder();
    let disk = Disk::open(folder.path(), durability).expect("a folder");
    let tail = Tail { position: Position::START, next_segment: 1 };
    let mut writer = Writer::new(disk.clone(), 1, SEGMENT_BYTES, tail);
    writer.open(NOW_MS).expect("room for a segment");
    let options = JournalOptions {
        gather: Duration::ZERO,
        gather_idle: Duration::ZERO,
        unsealed_bytes_max: usize::MAX,
        durability,
        segment_bytes: SEGMENT_BYTES,
        keep: Keep { snapshot_bytes: u64::MAX, ..KEEP },
        bank: Options::default(),
    };
    let mut journal =
        Journal::start(disk.clone(), writer, options, std::thread::current()).expect("threads");
    let mut holds = Holds::new(1_000);
    let mut waiting: VecDeque<(u64, Instant)> = VecDeque::new();
    let mut acks = Vec::with_capacity(count as usize);
    let (mut made, mut sequence, mut recorded) = (0, journal.next_sequence(), 0);
    let started = Instant::now();
    while acks.len() < count as usize {
        let now = Instant::now();
        for _ in 0..256 {
            if made == count || waiting.len() >= window {
                break;
            }
            holds.settle(made);
            made += 1;
            // One record a settlement, but for those of the start, which come with the first.
            sequence += holds.out.records.len() as u64 - recorded;
            recorded = holds.out.records.len() as u64;
            waiting.push_back((sequence, now));
        }
        journal.append(&holds.out.records, NOW_MS);
        holds.out.records.clear();
        recorded = 0;
        holds.out.messages.clear();
        let (sealed, at) = (journal.sealed(), Instant::now());
        let before = acks.len();
        while let Some((_, from)) = waiting.pop_front_if(|(needed, _)| *needed <= sealed) {
            acks.push(at.duration_since(from).as_secs_f64() * 1e6);
        }
        if acks.len() == before && (made == count || waiting.len() >= window) {
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }
    let per_second = count as f64 / started.elapsed().as_secs_f64();
    let figures = journal.status().read();
    journal.finish(Duration::from_secs(90)).expect("a sound disk");
    acks.sort_by(f64::total_cmp);
    let at = |q: f64| acks[((acks.len() - 1) as f64 * q) as usize];
    let seal = |q: f64| figures.seal_ns.quantile(q) as f64 / 1e3;
    Settled {
        per_second,
        ack_us: [at(0.5), at(0.99)],
        seal_us: [seal(0.5), seal(0.99)],
        bytes_each: figures.bytes as f64 / count as f64,
        groups: group_sizes(&disk),
    }
}

/// Sizes of the groups in a journal, read back.
fn group_sizes(disk: &Disk) -> Vec<usize> {
    let mut places: Vec<(String, u64)> = Vec::new();
    let start = Start { segment: 1, position: Some(Position::START), until: None };
    let walked = walk(disk, start, &mut |place, _| {
        if places.last().is_none_or(|(file, at)| *at != place.at.offset || file != place.file) {
            places.push((place.file.to_string(), place.at.offset));
        }
        Ok(())
    });
    let last = walked.expect("just written").last_offset;
    let ends = places.iter().skip(1).map(|(_, offset)| *offset).chain([last]);
    let sizes = places.iter().zip(ends).map(|((_, from), to)| to.saturating_sub(*from) as usize);
    // The last group of a segment has no next one to end at: as large as the rest of what it may be.
    sizes.map(|bytes| if bytes == 0 { 4096 } else { bytes.min(1 << 20) }).collect()
}

/// Writes zeros-free bytes in groups of these sizes and seals each: as fast as the disk can be.
fn bare_loop(groups: &[usize], direct: bool) -> f64 {
    let folder = folder();
    let path: PathBuf = folder.path().join("bare");
    let bytes = Aligned::new(1 << 20);
    let mut options = OpenOptions::new();
    options.create(true).write(true).truncate(false);
    if direct {
        let prepared = OpenOptions::new().create(true).truncate(true).write(true).open(&path);
        let prepared = prepared.expect("a file");
        for at in 0..SEGMENT_BYTES >> 20 {
            prepared.write_all_at(&vec![0; 1 << 20], at << 20).expect("room");
        }
        prepared.sync_all().expect("a disk");
        options.custom_flags(libc::O_DIRECT | libc::O_DSYNC);
    }
    let file = options.open(&path).expect("a file");
    let (mut at, started) = (0, Instant::now());
    for group in groups {
        if at + *group as u64 > SEGMENT_BYTES {
            at = 0;
        }
        file.write_all_at(&bytes.get()[..*group], at).expect("room");
        if !direct {
            file.sync_data().expect("a disk");
        }
        at += *group as u64;
    }
    started.elapsed().as_secs_f64()
}

/// Bytes at an address that direct writes accept.
struct Aligned(Vec<u8>, usize);

impl Aligned {
    fn new(len: usize) -> Aligned {
        let bytes = vec![0xA5; len + 4096];
        let from = bytes.as_ptr().align_offset(4096);
        Aligned(bytes, from)
    }

    fn get(&self) -> &[u8] {
        &self.0[self.1..self.0.len() - 4096 + self.1]
    }
}

fn settles(size: Size) {
    let count = size.pick(2_000_000, 2_000);
    let rounds = size.pick(5, 1);
    println!("\n### Settlements acknowledged once sealed, one bank thread\n");
    println!(
        "| in flight | settles/s | ack p50 / p99, us | seal p50 / p99, us | a group | bytes each | of a bare O_DIRECT loop | of bare append + fdatasync |"
    );
    println!("| ---: | ---: | :--- | :--- | ---: | ---: | ---: | ---: |");
    for window in size.pick(vec![1, 64, 1_024, 16_384, 131_072], vec![64]) {
        let count = if window == 1 { count / 200 } else { count.min(window as u64 * 2_000) };
        let (mut rate, mut ack, mut seal) =
            (Vec::new(), [Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
        let (mut direct, mut append, mut group, mut each) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rounds {
            let ours = seal_settles(Durability::Sealed, count, window);
            let ours_s = count as f64 / ours.per_second;
            direct.push(bare_loop(&ours.groups, true) / ours_s);
            append.push(bare_loop(&ours.groups, false) / ours_s);
            rate.push(ours.per_second);
            group.push(count as f64 / ours.groups.len() as f64);
            each.push(ours.bytes_each);
            for i in 0..2 {
                ack[i].push(ours.ack_us[i]);
                seal[i].push(ours.seal_us[i]);
            }
        }
        let [ack50, ack99] = ack.map(median);
        let [seal50, seal99] = seal.map(median);
        println!(
            "| {window} | {:.0} | {ack50:.0} / {ack99:.0} | {seal50:.0} / {seal99:.0} | {:.0} | {:.0} | {:.0} % | {:.0} % |",
            median(rate),
            median(group),
            median(each),
            100.0 * median(direct),
            100.0 * median(append),
        );
    }
}

/// Writes a journal of so many records: fills, settlements, and what a node adds to them.
fn write_journal(disk: &Disk, records: u64, keep: Option<&Keep>) -> u64 {
    let mut holds = Holds::new(records.clamp(10, 50_000));
    let mut gather = Gather::new(Position::START);
    let tail = Tail { position: Position::START, next_segment: 1 };
    let mut writer = Writer::new(disk.clone(), 1, SEGMENT_BYTES, tail);
    let stop = AtomicBool::new(false);
    let mut write = |gather: &mut Gather| {
        while let Some(group) = gather.take() {
            let segments = writer.segments_begun();
            writer.append(&group).expect("room");
            gather.recycle(group);
            let begun = writer.segments_begun() > segments;
            if let (true, Some(keep)) = (begun, keep) {
                snapshot::advance(disk, &Options::default(), keep, NOW_MS, &stop)
                    .expect("a snapshot");
            }
        }
    };
    while gather.next_sequence() <= records {
        if holds.out.records.is_empty() {
            (0..256).for_each(|reply| holds.settle(reply));
        }
        for record in holds.out.records.drain(..) {
            gather.append(&record, NOW_MS);
        }
        holds.out.messages.clear();
        if gather.bytes() > 1 << 20 {
            write(&mut gather);
        }
    }
    write(&mut gather);
    gather.next_sequence() - 1
}

fn starts(size: Size) {
    let records = size.pick(10_000_000, 20_000);
    println!("\n### A start that reads {records} records, 50,000 budgets\n");
    println!("| from | records after the snapshot | s | records/s |");
    println!("| :--- | ---: | ---: | ---: |");
    for (name, keep) in [("the first record", None), ("snapshot + tail", Some(&KEEP))] {
        let folder = folder();
        let disk = Disk::open(folder.path(), Durability::Os).expect("a folder");
        let written = write_journal(&disk, records, keep);
        let mut seconds = Vec::new();
        let mut read = 0;
        for _ in 0..size.pick(3, 1) {
            let started = Instant::now();
            let recovered = recover(&disk, &Options::default(), 1, &mut |_| {}).expect("sound");
            seconds.push(started.elapsed().as_secs_f64());
            assert_eq!(recovered.tail.position.sequence, written + 1);
            read = recovered.report.records;
        }
        let seconds = median(seconds);
        println!("| {name} | {read} | {seconds:.2} | {:.0} |", read as f64 / seconds);
    }
}
