//! Messages of the application allocate nothing, in and out. In a binary of its own, because it counts every allocation of the process;
//! one test, so that nothing else runs beside it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::alloc::System;

use fix::{Index, Message};
use fix_session::{
    Application, MessageStore, Now, Outbox, Role, Session, SessionConfig, StoreError, Turn,
};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const NOW: Now = Now { ms: 0, unix_ms: 1_795_428_930_000 };

fn allocations() -> usize {
    let stats = ALLOCATOR.stats();
    stats.allocations + stats.reallocations
}

/// Two numbers and no message.
struct Numbers {
    next_in: u64,
    next_out: u64,
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

    fn put(&mut self, _bytes: &[u8]) -> Result<(), StoreError> {
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

/// Answers each message with itself and with one of its own.
struct Twice;

impl Application<Numbers> for Twice {
    fn take(&mut self, session: &mut Session, message: &Message<'_>, turn: &mut Turn<'_, Numbers>) {
        session.forward(message, turn).unwrap();
        session.send(b"8", b"11=id\x0139=0\x01", turn).unwrap();
    }
}

fn made(body: &str) -> Vec<u8> {
    let body = body.replace('|', "\x01");
    let text = format!("8=FIX.4.4\x019={}\x01{body}", body.len());
    let sum = fix::sum(text.as_bytes());
    format!("{text}10={sum:03}\x01").into_bytes()
}

#[test]
fn nothing_allocates_per_message() {
    let config = SessionConfig::new(Role::Acceptor, "FIX.4.4", "GATE", "CLIENT");
    let mut session = Session::new(config).unwrap();
    let (mut store, mut out) = (Numbers { next_in: 1, next_out: 1 }, Outbox::default());
    out.bytes.reserve(1 << 20);
    let mut index = Index::new(512);
    let header = "49=CLIENT|52=20261123-10:15:30.000|56=GATE|";
    let message = |seq: u64| made(&format!("35=D|34={seq}|{header}11=id|38=100|44=12.5|"));
    let mut turn = Turn { now: NOW, store: &mut store, out: &mut out };
    session.connected(&mut turn).unwrap();
    let logon = made(&format!("35=A|34=1|{header}98=0|108=30|"));
    session.feed(&logon, &mut index, &mut turn, &mut Twice);
    session.feed(&message(2), &mut index, &mut turn, &mut Twice);
    // The test runner's own thread may allocate beside one round, but not beside each.
    let rounds = (0..10).map(|round| {
        turn.out.bytes.clear();
        let first = turn.store.next_in;
        let input: Vec<u8> = (first..first + 500).flat_map(message).collect();
        let before = allocations();
        session.feed(&input, &mut index, &mut turn, &mut Twice);
        assert_eq!(
            (turn.store.next_in, turn.store.next_out),
            (first + 500, 2 * first + 998),
            "{round}"
        );
        allocations() - before
    });
    assert_eq!(rounds.min(), Some(0));
}
