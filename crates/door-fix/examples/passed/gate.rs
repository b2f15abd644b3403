//! A gate with a client and its venue, through which orders pass.

use std::path::Path;

use door_fix::{
    Checks, Clock, Door, FixSessions, Limits, Line, Peer, Ready, Route, SessionSpec, VenueSpec,
};
use fix_session::{Durability, MessageStores, StoreError};
use fix_store::{FileStore, FileStores, NumbersFile, Options};
use table::Secret;

/// 2026-11-23 10:15:30 UTC.
const CLOCK: Clock = Clock { ms: 1_000, unix_us: 1_795_428_930_000_000 };
const SECOND: &str = "20261123-10:15:30";
pub const ORDERS_PER_WRITE: usize = 64;

/// The files of both sessions, which can be told to wait with writing.
pub struct Held {
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
pub struct Gate {
    pub step: usize,
    pub door: Door<Held, ()>,
    client: Line,
    out: Vec<u8>,
    ready: Vec<Ready>,
    /// Of the client's next order.
    next: u64,
    seed: u64,
}

impl Gate {
    pub fn open(folder: &Path, step: usize) -> Gate {
        let mut files = FileStores::open(folder, Options::default()).unwrap();
        for name in ["CLIENT1", "VENUE"] {
            files.add(name, Durability::Written, CLOCK.unix_us / 1_000).unwrap();
        }
        let mut spec = SessionSpec::new("FIX.4.4", "GATE", "CLIENT1");
        (spec.limits, spec.route) = (Some(Limits::None), Route::Venue("VENUE".into()));
        spec.keys.validation = Checks::Off;
        let venue = VenueSpec::new("FIX.4.4", "GATE", "VENUE");
        let config = FixSessions::new(vec![spec], vec![venue]).unwrap();
        let mut door =
            Door::new(config, Held { files, holds: false }, (), Secret::new(11)).unwrap();
        let logon = |sender: &str| {
            framed(&format!("35=A|49={sender}|56=GATE|34=1|52={SECOND}|98=0|108=3600|"))
        };
        let mut out = Vec::new();
        let mut client = door.opened(0, Peer::default(), CLOCK).unwrap();
        door.received(&mut client, &logon("CLIENT1"), CLOCK, &mut out);
        let mut venue = door.dialled(1, 1, CLOCK, &mut out).unwrap();
        door.received(&mut venue, &logon("VENUE"), CLOCK, &mut out);
        Gate { step, door, client, out, ready: Vec::new(), next: 2, seed: 3 }
    }

    /// Makes the client's next orders: their bytes, and where each begins and ends.
    pub fn make(&mut self, orders: usize) -> (Vec<u8>, Vec<usize>) {
        let (mut bytes, mut ends) = (Vec::new(), vec![0]);
        for _ in 0..orders {
            let body = order(&mut self.seed, self.next);
            self.next += 1;
            bytes.extend(framed(&body));
            ends.push(bytes.len());
        }
        (bytes, ends)
    }

    /// Passes orders on, a multiple of 64; returns by how much the clock went on while it did.
    pub fn pass_on(&mut self, bytes: &[u8], ends: &[usize], clock: fn() -> u64) -> u64 {
        let mut took = 0;
        for from in (0..ends.len() - 1).step_by(ORDERS_PER_WRITE) {
            let ends = &ends[from..=from + ORDERS_PER_WRITE];
            self.door.stores().holds = true;
            let began = clock();
            pass(self, bytes, ends);
            took += clock() - began;
            self.door.stores().holds = false;
            self.door.stores().flush(&[0, 1]).unwrap();
        }
        took
    }
}

/// What is measured.
#[inline(never)]
fn pass(gate: &mut Gate, bytes: &[u8], ends: &[usize]) {
    for from in (0..ends.len() - 1).step_by(gate.step) {
        let to = (from + gate.step).min(ends.len() - 1);
        let input = &bytes[ends[from]..ends[to]];
        gate.door.received(&mut gate.client, input, CLOCK, &mut gate.out);
        gate.door.take_ready_into(&mut gate.ready);
        for sent in gate.ready.drain(..) {
            gate.door.reuse(std::hint::black_box(sent.bytes));
        }
    }
}

/// A whole FIX 4.4 message of a body with bars for its delimiters.
fn framed(body: &str) -> Vec<u8> {
    let body = body.replace('|', "\x01");
    let mut message = format!("8=FIX.4.4\x019={}\x01{body}", body.len()).into_bytes();
    let sum = fix::sum(&message);
    message.extend_from_slice(format!("10={sum:03}\x01").as_bytes());
    message
}

/// The body of an order of 22 fields, which differs from the others.
fn order(seed: &mut u64, seq: u64) -> String {
    let mut below = |limit: u64| {
        *seed =
            seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 33) % limit
    };
    format!(
        "35=D|49=CLIENT1|56=GATE|34={seq}|52={SECOND}.{:03}|50=TRADER7|11=ORD-{seq}|1=ACCT-{}|55=MSFT|207=XNAS|54={}|\
         60={SECOND}.{:03}|38={}|40=2|44={}.{}|59=0|15=USD|21=1|58=desk eleven|",
        below(1_000),
        below(10_000),
        1 + below(2),
        below(1_000),
        1 + below(100_000),
        1 + below(5_000),
        below(10_000),
    )
}
