//! An order that passes through the gate: framed, indexed, judged by the client's session, given the venue's header and checksum, and
//! kept for both sessions; on one thread, without sockets, beside a copy of its bytes.
//!
//! Time is the thread's own. In a case that *hands over*, the records of the stores lie ready for the write, which the clock does not see:
//! it stands while they are written, after each 64 orders, so that what waits is no more than it is in a node. In the others each step also
//! writes them, as a session with `durability = "written"` does.

use std::path::Path;
use std::time::Duration;

use door_fix::{
    Checks, Clock, Door, FixSessions, Limits, Line, Peer, Route, SessionSpec, VenueSpec,
};
use fix_session::{Durability, MessageStore, MessageStores, StoreError};
use fix_store::{FileStore, FileStores, NumbersFile, Options};
use probe::compare::{Random, TimedCase, measure_timed};
use probe::thread_cpu_ns;

use super::messages::{framed, order};
use crate::Size;
use crate::daemon::folder_on_disk;

/// What an order may take that is handed over, ns.
const NS_MAX: f64 = 250.0;
/// 2026-11-23 10:15:30 UTC.
const UNIX_US: i64 = 1_795_428_930_000_000;
const SECOND: &str = "20261123-10:15:30";
const CLOCK: Clock = Clock { ms: 1_000, unix_us: UNIX_US };
/// After so many orders what they left is written.
const ORDERS_PER_WRITE: usize = 64;
const COPY: &str = "a copy of the bytes";

/// A way through.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    checks: Checks,
    /// Orders that arrive together.
    step: usize,
    hands_over: bool,
}

const WAYS: [Way; 6] = [
    Way { name: "one at a time", checks: Checks::Off, step: 1, hands_over: true },
    Way { name: "16 at a time", checks: Checks::Off, step: 16, hands_over: true },
    Way { name: "one, `full` checks", checks: Checks::Full, step: 1, hands_over: true },
    Way { name: "16, `full` checks", checks: Checks::Full, step: 16, hands_over: true },
    Way { name: "one, and written", checks: Checks::Off, step: 1, hands_over: false },
    Way { name: "16, and written", checks: Checks::Off, step: 16, hands_over: false },
];

/// Prints the table.
pub(super) fn run(size: Size) {
    println!("\n### an order passed through, on one thread in process\n");
    if let Err(error) = measure(size) {
        println!("NOT MEASURED: {error}");
    }
}

fn measure(size: Size) -> Result<(), String> {
    let folder = folder_on_disk()?;
    let count = size.pick(8_192, 64);
    let mut gates = Vec::new();
    for (at, way) in WAYS.into_iter().enumerate() {
        gates.push(Gate::open(&folder.path().join(at.to_string()), way)?);
    }
    let (mut random, mut copied) = (Random::new(3), Orders::new(&mut Random::new(3), 2, count));
    let mut to = Vec::with_capacity(copied.bytes.len());
    let copy = || {
        // The bytes are written as for others: fresh.
        copied = Orders::new(&mut random, 2, count);
        to.clear();
        let began = thread_cpu_ns();
        for at in 0..count {
            to.extend_from_slice(copied.step(at, 1));
        }
        std::hint::black_box(&to);
        (count as u64, Duration::from_nanos(thread_cpu_ns() - began))
    };
    let mut cases: Vec<TimedCase<'_>> = vec![(COPY, Box::new(copy))];
    for gate in &mut gates {
        cases.push((gate.way.name, Box::new(move || gate.round(count))));
    }
    let outcomes = measure_timed(size.pick(21, 1), &mut cases);
    drop(cases);
    let lost = gates.iter_mut().find_map(|gate| (!gate.is_sound()).then_some(gate.way.name));
    if let Some(name) = lost {
        return Err(format!("{name}: orders were not passed on"));
    }
    println!("| what | ns of the thread, median | least | bar |\n| --- | ---: | ---: | --- |");
    for (at, outcome) in outcomes.iter().enumerate() {
        let way = at.checked_sub(1).and_then(|at| WAYS.get(at));
        let has_bar = way.is_some_and(|way| way.hands_over && way.checks == Checks::Off);
        let met = if outcome.median_ns <= NS_MAX { "met" } else { "**missed**" };
        let bar = if has_bar { format!("{NS_MAX:.0} ns: {met}") } else { String::new() };
        let (name, median, least) = (&outcome.name, outcome.median_ns, outcome.min_ns);
        println!("| {name} | {median:.0} | {least:.0} | {bar} |");
    }
    Ok(())
}

/// Orders with ascending numbers, one behind the other.
struct Orders {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Orders {
    fn new(random: &mut Random, first: u64, count: usize) -> Orders {
        let mut orders = Orders { bytes: Vec::new(), ends: vec![0] };
        for seq in first..first + count as u64 {
            orders.bytes.extend(framed(&order(random, seq, seq, 100_000, SECOND)));
            orders.ends.push(orders.bytes.len());
        }
        orders
    }

    /// So many from one on.
    fn step(&self, from: usize, count: usize) -> &[u8] {
        &self.bytes[self.ends[from]..self.ends[from + count]]
    }
}

/// The files of both sessions, which can be told to wait with writing.
struct Held {
    files: FileStores<NumbersFile>,
    holds: bool,
}

impl MessageStores for Held {
    type Store = FileStore;

    fn set_time(&mut self, unix_us: i64) {
        self.files.set_time(unix_us);
    }

    fn store(&mut self, session: usize) -> &mut FileStore {
        self.files.store(session)
    }

    fn book(&mut self, session: usize) -> Result<Option<&mut FileStore>, StoreError> {
        self.files.book(session)
    }

    fn has_book(&self, session: usize) -> bool {
        self.files.has_book(session)
    }

    fn flush(&mut self, sessions: &[usize]) -> Result<(), StoreError> {
        if self.holds { Ok(()) } else { self.files.flush(sessions) }
    }
}

/// A gate with a client and its venue, both logged on.
struct Gate {
    way: Way,
    door: Door<Held, ()>,
    client: Line,
    /// Of the client's next order, and how many were sent.
    next: u64,
    random: Random,
}

impl Gate {
    fn open(folder: &Path, way: Way) -> Result<Gate, String> {
        let mut files = FileStores::open(folder, Options::default()).map_err(|e| e.to_string())?;
        for name in ["CLIENT1", "VENUE"] {
            files.add(name, Durability::Written, UNIX_US / 1_000).map_err(|e| e.to_string())?;
        }
        let mut spec = SessionSpec::new("FIX.4.4", "GATE", "CLIENT1");
        (spec.limits, spec.route) = (Some(Limits::None), Route::Venue("VENUE".into()));
        spec.keys.validation = way.checks;
        let venue = VenueSpec::new("FIX.4.4", "GATE", "VENUE");
        let config = FixSessions::new(vec![spec], vec![venue]).map_err(|e| format!("{e:?}"))?;
        let stores = Held { files, holds: false };
        let mut door =
            Door::new(config, stores, (), table::Secret::new(11)).map_err(|e| e.to_string())?;
        let logon = |sender: &str| {
            framed(&format!("35=A|49={sender}|56=GATE|34=1|52={SECOND}|98=0|108=3600|"))
        };
        let mut out = Vec::new();
        let mut client = door.opened(0, Peer::default(), CLOCK).ok_or("no connection")?;
        door.received(&mut client, &logon("CLIENT1"), CLOCK, &mut out);
        let mut venue = door.dialled(1, 1, CLOCK, &mut out).ok_or("no venue")?;
        door.received(&mut venue, &logon("VENUE"), CLOCK, &mut out);
        Ok(Gate { way, door, client, next: 2, random: Random::new(3) })
    }

    /// Passes so many orders on, and keeps them for good when the clock has stopped.
    fn round(&mut self, count: usize) -> (u64, Duration) {
        let orders = Orders::new(&mut self.random, self.next, count);
        self.next += count as u64;
        let (mut out, mut ready, mut took) = (Vec::new(), Vec::new(), 0);
        for from in (0..count).step_by(ORDERS_PER_WRITE) {
            self.door.stores().holds = self.way.hands_over;
            let began = thread_cpu_ns();
            for at in (from..count.min(from + ORDERS_PER_WRITE)).step_by(self.way.step) {
                let input = orders.step(at, self.way.step);
                self.door.received(&mut self.client, input, CLOCK, &mut out);
                self.door.take_ready_into(&mut ready);
                for sent in ready.drain(..) {
                    self.door.reuse(std::hint::black_box(sent.bytes));
                }
            }
            took += thread_cpu_ns() - began;
            let stores = self.door.stores();
            stores.holds = false;
            // What cannot be kept is not there: `is_sound` finds it.
            let _ = stores.flush(&[0, 1]);
        }
        (count as u64, Duration::from_nanos(took))
    }

    /// Reports whether each order was taken and passed on, and nobody was told anything.
    fn is_sound(&mut self) -> bool {
        let (next, stores) = (self.next, self.door.stores());
        let (client, venue) = (stores.store(0), 1);
        let is_taken = client.next_in() == next && client.next_out() == 2;
        is_taken && stores.store(venue).next_out() == next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_that_are_not_passed_on_are_found() {
        let folder = folder_on_disk().unwrap();
        let mut gate = Gate::open(folder.path(), WAYS[1]).unwrap();
        gate.round(32);
        assert!(gate.is_sound());
        gate.next += 1;
        gate.round(32);
        assert!(!gate.is_sound(), "a number was left out");
    }
}
