//! The store of messages beside hash maps that forget everything with the process.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use fix_session::{Durability, MemoryStore, MessageStore, MessageStores};
use fix_store::{FileStores, NumbersFile, Options};
use probe::compare::Random;
use probe::{Cycles, Histogram, ticks};

use super::messages::messages;
use crate::pairs::{Meaning, Pair};
use crate::race::{Done, TimedWay, race_timed};
use crate::{Error, Size};

const ROUNDS: usize = 11;
/// Messages of a round.
const MESSAGES: usize = 20_000;
/// Messages that a peer asks for at once, of a round of lookups.
const RUN: usize = 16;
/// Messages of a step of the door.
const STEP: usize = 16;
const SEED: u64 = 0xf1f1_5703;
const UNIX_MS: i64 = 1_795_428_930_000;
/// No message of the pair is longer.
const MESSAGE_BYTES_MAX: usize = 512;

type Fast = hashbrown::HashMap<u64, Box<[u8]>, foldhash::fast::RandomState>;
type Slow = HashMap<u64, Box<[u8]>>;

pub(super) fn run(size: Size) -> Result<Vec<Pair>, Error> {
    let messages = messages(size.pick(MESSAGES, 200), SEED);
    Ok(vec![insert(size, &messages)?, lookup(size, &messages)?])
}

/// Keeps messages under ascending numbers from 1 on, and finds them.
trait Keep {
    fn put(&mut self, bytes: &[u8]);
    /// Length of the message of a number; 0 if it is not there.
    fn get(&mut self, seq: u64, into: &mut Vec<u8>) -> u64;
}

/// One session's files: every step is written.
struct Files {
    stores: FileStores<NumbersFile>,
    in_step: usize,
    _folder: tempfile::TempDir,
}

impl Files {
    fn open() -> Result<Files, Error> {
        let folder = tempfile::tempdir().map_err(|e| failed("making a folder", e))?;
        let stores = open(folder.path())?;
        Ok(Files { stores, in_step: 0, _folder: folder })
    }

    fn flush(&mut self) {
        self.in_step = 0;
        // What could not be kept is not found, which shows as unequal work.
        let _ = self.stores.flush(&[0]);
    }
}

fn open(folder: &Path) -> Result<FileStores<NumbersFile>, Error> {
    let opened = FileStores::open(folder, Options::default());
    let mut stores = opened.map_err(|e| failed("opening a store", e))?;
    let added = stores.add("S", Durability::Written, UNIX_MS);
    added.map_err(|e| failed("adding a session", e))?;
    Ok(stores)
}

impl Keep for Files {
    fn put(&mut self, bytes: &[u8]) {
        let _ = self.stores.store(0).put(bytes);
        self.in_step += 1;
        if self.in_step == STEP {
            self.flush();
        }
    }

    fn get(&mut self, seq: u64, into: &mut Vec<u8>) -> u64 {
        self.stores.store(0).get(seq, into);
        into.len() as u64
    }
}

impl Keep for MemoryStore {
    fn put(&mut self, bytes: &[u8]) {
        let _ = MessageStore::put(self, bytes);
    }

    fn get(&mut self, seq: u64, into: &mut Vec<u8>) -> u64 {
        MessageStore::get(self, seq, into);
        into.len() as u64
    }
}

impl Keep for Fast {
    fn put(&mut self, bytes: &[u8]) {
        self.insert(self.len() as u64 + 1, bytes.into());
    }

    fn get(&mut self, seq: u64, into: &mut Vec<u8>) -> u64 {
        hashbrown::HashMap::get(self, &seq).map_or(0, |bytes| {
            into.extend_from_slice(bytes);
            bytes.len() as u64
        })
    }
}

impl Keep for Slow {
    fn put(&mut self, bytes: &[u8]) {
        self.insert(self.len() as u64 + 1, bytes.into());
    }

    fn get(&mut self, seq: u64, into: &mut Vec<u8>) -> u64 {
        HashMap::get(self, &seq).map_or(0, |bytes| {
            into.extend_from_slice(bytes);
            bytes.len() as u64
        })
    }
}

const NAMES: [&str; 4] = ["files", "MemoryStore", "hashbrown with foldhash", "the standard map"];

fn kept(name: &str) -> Result<Box<dyn Keep>, Error> {
    Ok(match name {
        "files" => Box::new(Files::open()?),
        "MemoryStore" => Box::new(MemoryStore::new(UNIX_MS)),
        "the standard map" => Box::new(Slow::default()),
        _ => Box::new(Fast::default()),
    })
}

/// What a way that could not be made did: nothing, so it is unequal to all others.
const NOTHING: (Done, Duration) = (Done { operations: 1, result: 0 }, Duration::from_nanos(1));

fn insert(size: Size, messages: &[Vec<u8>]) -> Result<Pair, Error> {
    let round = |name: &str| -> (Done, Duration) {
        let Ok(mut keep) = kept(name) else { return NOTHING };
        let began = Instant::now();
        messages.iter().for_each(|message| keep.put(black_box(message)));
        let took = began.elapsed();
        let mut bytes = Vec::new();
        let result = keep.get(messages.len() as u64, &mut bytes);
        (Done { operations: messages.len() as u64, result }, took)
    };
    let round = &round;
    let ways: Vec<TimedWay<'_>> = NAMES
        .iter()
        .map(|name| -> TimedWay<'_> { (*name, Box::new(move || round(name))) })
        .collect();
    let outcomes = race_timed(size.pick(ROUNDS, 1), ways)?;
    let detail = tails(|name, each| {
        let mut keep = kept(name)?;
        for message in messages {
            let from = ticks();
            keep.put(black_box(message));
            each.record(ticks().saturating_sub(from));
        }
        Ok(())
    })?;
    let meaning = Meaning {
        rival: Some("hashbrown with foldhash"),
        faster: "a message that is kept in files costs no more than one in memory",
        slower: "that is the price of surviving the process: a record with its checksums, and a write each 16 messages",
        level: "a message that is kept in files costs no more than one in memory",
    };
    let what = format!(
        "{} sent messages are kept under ascending numbers. Files are written each {STEP} messages (`written`), the others keep \
         copies in memory.",
        messages.len()
    );
    let pair = Pair::new("fix/store-insert", what, "message", outcomes, &meaning);
    Ok(pair.with_detail(detail))
}

fn lookup(size: Size, messages: &[Vec<u8>]) -> Result<Pair, Error> {
    let mut random = Random::new(SEED);
    let runs = messages.len() / RUN;
    let asked: Vec<u64> = (0..runs)
        .map(|_| 1 + random.below(messages.len() - RUN) as u64)
        .flat_map(|first| first..first + RUN as u64)
        .collect();
    let filled = |name: &str| -> Result<Box<dyn Keep>, Error> {
        let mut keep = kept(name)?;
        messages.iter().for_each(|message| keep.put(message));
        Ok(keep)
    };
    let mut ways: Vec<TimedWay<'_>> = Vec::new();
    for name in NAMES {
        let (mut keep, asked) = (filled(name)?, &asked);
        let round = move || {
            let (mut result, mut bytes) = (0_u64, Vec::with_capacity(MESSAGE_BYTES_MAX));
            let began = Instant::now();
            for seq in asked {
                bytes.clear();
                result = result.wrapping_mul(31) ^ keep.get(black_box(*seq), &mut bytes);
            }
            (Done { operations: asked.len() as u64, result }, began.elapsed())
        };
        ways.push((name, Box::new(round)));
    }
    let outcomes = race_timed(size.pick(ROUNDS, 1), ways)?;
    let detail = tails(|name, each| {
        let (mut keep, mut bytes) = (filled(name)?, Vec::with_capacity(MESSAGE_BYTES_MAX));
        for seq in &asked {
            bytes.clear();
            let from = ticks();
            black_box(keep.get(*seq, &mut bytes));
            each.record(ticks().saturating_sub(from));
        }
        Ok(())
    })?;
    let meaning = Meaning {
        rival: Some("hashbrown with foldhash"),
        faster: "messages that are asked for again are found in files as fast as in memory",
        slower: "only a peer that asks again makes the store look, so memory does not grow with what was sent",
        level: "messages that are asked for again are found in files as fast as in memory",
    };
    let what = format!(
        "Messages of {} that were kept are looked up by number, {RUN} one after the other from a random one on, as a peer asks \
         that saw a gap.",
        messages.len()
    );
    let pair = Pair::new("fix/store-lookup", what, "message", outcomes, &meaning);
    Ok(pair.with_detail(detail))
}

/// The tails of single operations of each way.
fn tails(measure: impl Fn(&str, &mut Histogram) -> Result<(), Error>) -> Result<String, Error> {
    let ns_per_tick = Cycles::get().ns_per_tick();
    let mut text = String::from(
        "Each alone, with the clock read around it:\n\n| way | p50 ns | p99 ns | p99.9 ns |\n| :--- | ---: | ---: | ---: |\n",
    );
    for name in NAMES {
        let mut each = Histogram::new();
        measure(name, &mut each)?;
        let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|q| each.quantile(q) as f64 * ns_per_tick);
        let _ = writeln!(text, "| {name} | {p50:.0} | {p99:.0} | {p999:.0} |");
    }
    Ok(text)
}

fn failed(action: &str, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::Io { action: action.to_owned(), source: std::io::Error::other(error) }
}
