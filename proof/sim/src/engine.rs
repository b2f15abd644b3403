//! A log on other machines, as the journal may be given one day: an engine that loses requests and answers, answers
//! late, takes a request twice, is away, shows old reads, forgets its tail, and lets another bank append.
//!
//! ```text
//!   group ──▶ engine (compare-and-append) ──▶ the node's own disk ──▶ sealed
//! ```
//!
//! A group counts once both have it. The disk comes second, so it is ahead of the engine only where that one forgot. A
//! bank that is fenced, or hears that the log forgot, stops; the next start compares both, reads on or fills up, and
//! appends its own beginning behind what it has read.

use std::cell::RefCell;
use std::io;
use std::ops::ControlFlow;
use std::rc::Rc;

use ledger::{Bank, Options, Out, Record};
use ledger_journal::{
    Durability, Gather, Group, Log, NotAppended, Position, ReadError, Tail, Writer,
};

use crate::Bug;
use crate::planted::NodeFolder;
use crate::rng::Rng;

/// The engine forgets at most this many groups at once.
const FORGETS_MAX: usize = 3;

/// A group as the engine keeps it.
#[derive(Clone, Debug)]
struct Entry {
    before: Position,
    after: Position,
    bytes: Vec<u8>,
}

/// The engine. All chance comes from its own generator.
#[derive(Debug)]
pub(crate) struct Engine {
    rng: Rng,
    bug: Option<Bug>,
    /// Where its first entry stands: at the beginning, or behind a base copy.
    begins: Position,
    entries: Vec<Entry>,
    /// Requests under way: they arrive later, perhaps after their bank has ended.
    late: Vec<Entry>,
    pub(crate) now_ms: u64,
    away_until_ms: u64,
    /// Faults have stopped.
    pub(crate) calm: bool,
    /// It lost something that it had acknowledged, now or earlier.
    forgot: bool,
    /// Somebody else appended since the living bank began: another bank, or a request of a bank that has ended.
    others: bool,
    /// Another bank began a run, and the living one was not told of it yet.
    replaced: bool,
    pub(crate) events: Vec<&'static str>,
}

pub(crate) type SharedEngine = Rc<RefCell<Engine>>;

impl Engine {
    /// Three runs in ten have one; those with a fault planted in how the bank uses it always do.
    pub(crate) fn draw(seed: u64, bug: Option<Bug>) -> Option<SharedEngine> {
        let mut rng = Rng::new(seed ^ 0x0065_6e67_696e_6531);
        if !rng.chance(300) && !bug.is_some_and(Bug::is_of_the_log) {
            return None;
        }
        Some(Rc::new(RefCell::new(Engine {
            rng,
            bug,
            begins: Position::START,
            entries: Vec::new(),
            late: Vec::new(),
            now_ms: 0,
            away_until_ms: 0,
            calm: false,
            forgot: false,
            others: false,
            replaced: false,
            events: Vec::new(),
        })))
    }

    fn end(&self) -> Position {
        self.entries.last().map_or(self.begins, |entry| entry.after)
    }

    /// Nothing else goes wrong, and what is under way arrives.
    pub(crate) fn come_to_rest(&mut self) {
        self.calm = true;
        self.away_until_ms = 0;
        self.arrive();
    }

    /// Has another bank begun a run since this was asked last?
    pub(crate) fn take_replaced(&mut self) -> bool {
        std::mem::take(&mut self.replaced)
    }

    /// Requests that were under way arrive: they are compared like any other.
    fn arrive(&mut self) {
        for entry in std::mem::take(&mut self.late) {
            self.others |= self.take(entry).is_ok_and(|new| new);
        }
    }

    /// Compare-and-append. True if the entry is new.
    fn take(&mut self, entry: Entry) -> Result<bool, NotAppended> {
        let end = self.end();
        if end == entry.before || self.bug == Some(Bug::NoCompare) {
            self.entries.push(entry);
            return Ok(true);
        }
        // The hash covers everything before: the same place and hash is the same history.
        if self.entries.iter().rev().any(|known| known.after == entry.after) {
            return Ok(false);
        }
        Err(if end.sequence < entry.before.sequence {
            NotAppended::Forgot { last: end.sequence - 1 }
        } else {
            NotAppended::Fenced
        })
    }

    /// A request arrives, perhaps; perhaps its answer does.
    fn request(&mut self, group: &Group) -> Result<(), NotAppended> {
        let (before, after) = (*group.before(), *group.after());
        let entry = Entry { before, after, bytes: group.entry().to_vec() };
        if self.calm {
            return self.take(entry).map(drop);
        }
        if self.now_ms < self.away_until_ms {
            return Err(doubt());
        }
        match self.rng.below(1_000) {
            0..40 => self.note("engine: request lost", Err(doubt())),
            drawn @ 40..80 => {
                let is_there = self.take(entry).is_ok();
                if drawn < 50 && is_there {
                    // While its bank is cut off, which hears later that it was appended.
                    self.another_bank();
                    self.away_until_ms = self.now_ms + self.rng.below(3_000);
                }
                self.note("engine: answer lost", Err(doubt()))
            }
            80..110 => {
                self.late.push(entry);
                self.note("engine: request late", Err(doubt()))
            }
            110..130 => {
                let first = self.take(entry.clone()).map(drop);
                let _ = self.take(entry);
                self.note("engine: request taken twice", first)
            }
            130..140 => {
                self.away_until_ms = self.now_ms + self.rng.below(3_000);
                self.note("engine: away", Err(doubt()))
            }
            140..200 => {
                self.arrive();
                self.take(entry).map(drop)
            }
            200..205 => {
                self.forget();
                if self.rng.chance(300) {
                    // It has only what is left, and begins behind that: two histories.
                    self.another_bank();
                }
                self.take(entry).map(drop)
            }
            205..210 => {
                self.another_bank();
                self.take(entry).map(drop)
            }
            _ => self.take(entry).map(drop),
        }
    }

    fn note<T>(&mut self, event: &'static str, result: T) -> T {
        self.events.push(event);
        result
    }

    fn forget(&mut self) {
        let count = self.rng.index(FORGETS_MAX + 1).min(self.entries.len());
        if count > 0 {
            self.entries.truncate(self.entries.len() - count);
            self.forgot = true;
            self.events.push("engine: forgot its tail");
        }
    }

    /// Another node takes over: it has read everything, and begins a run.
    fn another_bank(&mut self) {
        if self.begins != Position::START {
            return;
        }
        let mut bank = Bank::new(Options::default());
        let mut at = Position::START;
        for entry in &self.entries {
            let Ok(group) = Group::read(&entry.bytes, &at) else { return };
            at = *group.after();
            let replayed = group.each_record(|record| {
                bank.replay(&record).expect("what a bank appended can be replayed");
            });
            replayed.expect("what a bank appended can be read");
        }
        let mut out = Out::default();
        bank.start_run(self.now_ms, &mut out);
        let mut gather = Gather::new(at);
        out.records.iter().for_each(|record| {
            gather.append(record, self.now_ms);
        });
        let group = gather.take().expect("a run begins with a record");
        let (before, after) = (*group.before(), *group.after());
        self.entries.push(Entry { before, after, bytes: group.entry().to_vec() });
        (self.others, self.replaced) = (true, true);
        self.events.push("engine: another bank began a run");
    }

    /// Bytes behind a position, perhaps without the newest.
    fn entries_behind(&mut self, at: &Position) -> Vec<Vec<u8>> {
        let stale = if !self.calm && self.rng.chance(200) { 1 + self.rng.index(2) } else { 0 };
        let shown = self.entries.len().saturating_sub(stale);
        if stale > 0 && shown > 0 {
            self.events.push("engine: stale read");
        }
        let behind = self.entries[..shown].iter();
        behind.filter(|e| e.after.sequence > at.sequence).map(|e| e.bytes.clone()).collect()
    }
}

fn doubt() -> NotAppended {
    io::Error::from(io::ErrorKind::TimedOut).into()
}

/// What the bank's writer appends to: the engine, if there is one, then the node's own disk.
#[derive(Debug)]
pub(crate) struct NodeLog {
    disk: Writer<NodeFolder>,
    engine: Option<SharedEngine>,
    bug: Option<Bug>,
}

impl NodeLog {
    pub(crate) fn new(
        disk: Writer<NodeFolder>,
        engine: Option<SharedEngine>,
        bug: Option<Bug>,
    ) -> NodeLog {
        NodeLog { disk, engine, bug }
    }

    pub(crate) fn set_now_ms(&self, now_ms: u64) {
        if let Some(engine) = &self.engine {
            engine.borrow_mut().now_ms = now_ms;
        }
    }

    /// Why a bank that was refused for good had to be: an error if nobody gave it reason to.
    pub(crate) fn check_refused(&self, refused: &NotAppended) -> Result<(), String> {
        let Some(engine) = &self.engine else {
            return Err(format!("the folder refused a group: {refused}"));
        };
        let engine = engine.borrow();
        match refused {
            NotAppended::Fenced if !engine.others && !engine.forgot => {
                Err("the bank is fenced, and nobody else appended".into())
            }
            NotAppended::Forgot { .. } if !engine.forgot => {
                Err("the log ends too early, and it forgot nothing".into())
            }
            _ => Ok(()),
        }
    }
}

impl Log for NodeLog {
    fn position(&self) -> &Position {
        self.disk.position()
    }

    fn append(&mut self, group: &Group) -> Result<(), NotAppended> {
        if let Some(engine) = &self.engine {
            match (engine.borrow_mut().request(group), self.bug) {
                (Err(NotAppended::Unknown(_)), Some(Bug::DoubtIsDone))
                | (Err(NotAppended::Fenced), Some(Bug::FenceIgnored)) => {}
                (result, _) => result?,
            }
        }
        self.disk.append(group)
    }

    fn read(
        &mut self,
        at: &Position,
        each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), ReadError> {
        self.disk.read(at, each)
    }

    fn attest(&mut self) -> Result<Durability, String> {
        self.disk.attest()
    }

    fn segments_begun(&self) -> u64 {
        self.disk.segments_begun()
    }
}

/// What a start found in the engine and its disk did not have.
#[derive(Debug)]
pub(crate) struct CaughtUp {
    pub(crate) records: Vec<Record>,
    pub(crate) tail: Tail,
}

/// Makes disk and engine the same again, before a run begins. `disk` stands at the end of what was recovered.
pub(crate) fn catch_up(
    engine: &SharedEngine,
    mut disk: Writer<NodeFolder>,
    next_segment: u64,
) -> Result<CaughtUp, String> {
    let begun = *disk.position();
    let mut engine = engine.borrow_mut();
    if engine.rng.chance(300) {
        engine.arrive();
    }
    let mut records = Vec::new();
    for entry in engine.entries_behind(&begun) {
        let at = *disk.position();
        let Ok(group) = Group::read(&entry, &at) else {
            if !engine.forgot {
                return Err(format!("two histories from record {} on", at.sequence));
            }
            break;
        };
        let read = group.each_record(|record| records.push(record));
        read.map_err(|error| error.to_string())?;
        disk.append(&group).map_err(|error| format!("while the log was read: {error}"))?;
    }
    if *disk.position() == begun {
        fill_up(&mut engine, &mut disk)?;
    } else {
        engine.events.push("start: groups read from the engine");
    }
    // An old read: somebody has appended behind it, and the first append of this bank will be refused.
    engine.others = engine.end() != *disk.position();
    let next_segment = next_segment + disk.segments_begun();
    Ok(CaughtUp { records, tail: Tail { position: *disk.position(), next_segment } })
}

/// Appends what the disk has and the engine does not, byte for byte. Where both have another history behind a loss of
/// the engine, a person keeps the disk's.
fn fill_up(engine: &mut Engine, disk: &mut Writer<NodeFolder>) -> Result<(), String> {
    let here = *disk.position();
    let in_engine = |engine: &Engine| {
        here == engine.begins || engine.entries.iter().any(|entry| entry.after == here)
    };
    while !in_engine(engine) {
        let (end, mut missing) = (engine.end(), Vec::new());
        let read = disk.read(&end, &mut |entry| {
            missing.push(entry.to_vec());
            ControlFlow::Continue(())
        });
        if read.is_ok() && end.sequence < here.sequence {
            return append_all(engine, end, &missing);
        }
        if !engine.forgot {
            return Err("the engine has another history".into());
        }
        if engine.entries.pop().is_none() {
            // The engine lost its beginning, and retention took that of the disk: a new log, behind what the disk has.
            engine.begins = here;
            engine.events.push("start: two histories, a person kept one");
            return Ok(());
        }
        engine.events.push("start: two histories, a person kept one");
    }
    Ok(())
}

fn append_all(engine: &mut Engine, mut at: Position, missing: &[Vec<u8>]) -> Result<(), String> {
    for bytes in missing {
        let group = Group::read(bytes, &at).map_err(|error| format!("the disk's own: {error}"))?;
        let (before, after, bytes) = (*group.before(), *group.after(), bytes.clone());
        engine.take(Entry { before, after, bytes }).map_err(|error| error.to_string())?;
        at = after;
        engine.events.push("start: the engine was filled up");
    }
    Ok(())
}
