//! What a session costs per application message, beside the steps of the `fix` crate that any program would need:
//!
//! ```text
//! cargo run --release -p fix-session --example bench
//! ```
//!
//! 512 different orders in one stretch of bytes per round, numbered on; a figure is the median of 101 rounds, the smallest one stands
//! behind it.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a tool that measures")]

use std::hint::black_box;
use std::time::Instant;

use fix::{Framing, Index, Message, frame};
use fix_session::{
    Application, MemoryStore, MessageStore, Now, Outbox, Role, Session, SessionConfig,
    SessionState, StoreError, Turn,
};

const MESSAGES: u64 = 512;
const ROUNDS: u64 = 101;
const NOW: Now = Now { ms: 0, unix_ms: 1_795_428_930_000 };

/// Numbers, and room for the messages of one round: what stores cost is measured elsewhere.
struct Numbers {
    next_in: u64,
    next_out: u64,
    messages: Vec<u8>,
}

impl MessageStore for Numbers {
    fn next_out(&self) -> u64 {
        self.next_out
    }

    fn next_in(&self) -> u64 {
        self.next_in
    }

    fn set_next_in(&mut self, seq: u64) -> Result<(), StoreError> {
        self.next_in = seq;
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.messages.extend_from_slice(bytes);
        self.next_out += 1;
        Ok(())
    }

    fn get(&mut self, _seq: u64, _into: &mut Vec<u8>) -> bool {
        false
    }

    fn reset(&mut self, _unix_ms: i64) -> Result<(), StoreError> {
        Ok(())
    }

    fn created_unix_ms(&self) -> i64 {
        NOW.unix_ms
    }
}

/// Takes each message, and passes it on where it is told to.
struct Gate {
    taken: u64,
    venue: Option<(Session, Numbers, Outbox)>,
}

impl Application<Numbers> for Gate {
    fn take(
        &mut self,
        _session: &mut Session,
        message: &Message<'_>,
        turn: &mut Turn<'_, Numbers>,
    ) {
        self.taken += 1;
        if let Some((session, store, out)) = &mut self.venue {
            let mut turn = Turn { now: turn.now, store, out };
            session.forward(message, &mut turn).unwrap();
        }
    }
}

fn made(body: &str) -> Vec<u8> {
    let body = body.replace('|', "\x01");
    let text = format!("8=FIX.4.4\x019={}\x01{body}", body.len());
    let sum = fix::sum(text.as_bytes());
    format!("{text}10={sum:03}\x01").into_bytes()
}

fn order(seq: u64) -> Vec<u8> {
    let mixed = seq.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let (id, quantity, price) = (mixed >> 38, mixed >> 50, mixed >> 52);
    made(&format!(
        "35=D|49=CLIENT1|56=GATE|34={seq}|52=20261123-10:15:30.{:03}|50=TRADER7|11=ORD-{id}|1=ACCT-{}|55=MSFT|207=XNAS|54={}|\
         60=20261123-10:15:30.{:03}|38={quantity}|40=2|44={price}.{}|59=0|15=USD|21=1|58=desk eleven|",
        mixed % 1_000,
        mixed % 10_000,
        1 + mixed % 2,
        mixed % 1_000,
        mixed % 9_973,
    ))
}

fn logged_on(role: Role, sender: &str, target: &str) -> (Session, Numbers, Outbox) {
    let config = SessionConfig::new(role, "FIX.4.4", sender, target);
    let mut session = Session::new(config).unwrap();
    let mut store = Numbers { next_in: 1, next_out: 1, messages: Vec::new() };
    let mut out = Outbox::default();
    let mut turn = Turn { now: NOW, store: &mut store, out: &mut out };
    session.connected(&mut turn).unwrap();
    let logon =
        made(&format!("35=A|34=1|49={target}|52=20261123-10:15:30|56={sender}|98=0|108=30|"));
    session.feed(&logon, &mut Index::new(512), &mut turn, &mut Gate { taken: 0, venue: None });
    assert_eq!(session.state(), SessionState::LoggedOn);
    (session, store, out)
}

/// Median and minimum in nanoseconds per message.
fn measure(mut round: impl FnMut(&[u8])) -> String {
    let rounds = 0..ROUNDS;
    let mut times: Vec<f64> = rounds
        .map(|at| {
            let first = 2 + at * MESSAGES;
            let input: Vec<u8> = (first..first + MESSAGES).flat_map(order).collect();
            let start = Instant::now();
            round(black_box(&input));
            start.elapsed().as_secs_f64() * 1e9 / MESSAGES as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    format!("{:6.0} ns ({:.0})", times[times.len() / 2], times[0])
}

fn through(venue: Option<(Session, Numbers, Outbox)>) -> String {
    let (mut session, mut store, mut out) = logged_on(Role::Acceptor, "GATE", "CLIENT1");
    let mut gate = Gate { taken: 0, venue };
    let mut index = Index::new(512);
    let text = measure(|input| {
        let mut turn = Turn { now: NOW, store: &mut store, out: &mut out };
        let used = session.feed(input, &mut index, &mut turn, &mut gate);
        assert_eq!(used, input.len());
        if let Some((_, store, out)) = &mut gate.venue {
            store.messages.clear();
            out.bytes.clear();
        }
    });
    assert_eq!(gate.taken, MESSAGES * ROUNDS);
    text
}

/// Sends 100,000 messages again, in as many turns as it takes, each into an empty outbox; per message, and how long turns are.
/// (The longest one shows the machine's other work.)
fn resend() -> String {
    const STORED: u64 = 100_000;
    let (mut session, _, mut out) = logged_on(Role::Acceptor, "GATE", "CLIENT1");
    let mut store = MemoryStore::new(NOW.unix_ms);
    let mut turn = Turn { now: NOW, store: &mut store, out: &mut out };
    turn.store.set_next_in(2).unwrap();
    for id in 0..STORED {
        let body = format!("11=ORD-{id}\x0138=100\x0140=2\x0144=12.5\x0154=1\x0155=MSFT\x01");
        session.send(b"8", body.as_bytes(), &mut turn).unwrap();
    }
    turn.out.bytes.clear();
    let mut index = Index::new(512);
    let (mut bytes, mut turns, start) = (0, Vec::new(), Instant::now());
    let request = made("35=2|34=2|49=CLIENT1|52=20261123-10:15:30|56=GATE|7=1|16=0|");
    session.feed(&request, &mut index, &mut turn, &mut Silent);
    while session.is_resending() {
        bytes += turn.out.bytes.len();
        turn.out.bytes.clear();
        let turn_start = Instant::now();
        session.resume(&mut index, &mut turn, &mut Silent);
        turns.push(turn_start.elapsed().as_secs_f64() * 1e6);
    }
    let each = start.elapsed().as_secs_f64() * 1e9 / STORED as f64;
    assert!(bytes > 10_000_000);
    turns.sort_by(f64::total_cmp);
    let [median, late] = [50, 95].map(|part| turns[turns.len() * part / 100]);
    format!("{each:6.0} ns; turns p50 {median:.0} us, p95 {late:.0} us")
}

/// Takes nothing.
struct Silent;

impl Application<MemoryStore> for Silent {
    fn take(
        &mut self,
        _session: &mut Session,
        _message: &Message<'_>,
        _turn: &mut Turn<'_, MemoryStore>,
    ) {
    }
}

fn main() {
    let mut index = Index::new(512);
    let parse = measure(|input| {
        let mut at = 0;
        while let Framing::Whole(frame) = frame(&input[at..], 65_536) {
            at += frame.bytes().len();
            black_box(index.read(frame).unwrap());
        }
        assert_eq!(at, input.len());
    });
    println!("frame, checksum and index              {parse}");
    println!("... and the session, to the application {}", through(None));
    let venue = Some(logged_on(Role::Acceptor, "GATE", "VENUE"));
    println!("... and passed on through a second one  {}", through(venue));
    println!("sent again, out of 100,000              {}", resend());
}
