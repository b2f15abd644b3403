//! Peers that mean harm, and stores that fail.

use fix_session::{
    Disconnect, MemoryStore, MessageStore, Notice, Role, SendError, SessionState, StoreError, Turn,
};
use proptest::prelude::*;

use crate::desk::{Desk, plain};

/// A store that takes so many changes and then none.
struct Failing {
    inner: MemoryStore,
    changes_left: u32,
    /// The message whose bytes are no longer what was stored.
    damaged: u64,
}

impl Failing {
    fn change(&mut self) -> Result<(), StoreError> {
        let error = StoreError { reason: "disk full".to_owned() };
        self.changes_left = self.changes_left.checked_sub(1).ok_or(error)?;
        Ok(())
    }
}

impl MessageStore for Failing {
    fn next_out(&self) -> u64 {
        self.inner.next_out()
    }

    fn next_in(&self) -> u64 {
        self.inner.next_in()
    }

    fn set_next_in(&mut self, seq: u64) -> Result<(), StoreError> {
        self.change()?;
        self.inner.set_next_in(seq)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.change()?;
        self.inner.put(bytes)
    }

    fn get(&mut self, seq: u64, into: &mut Vec<u8>) -> bool {
        let found = self.inner.get(seq, into);
        if let (true, Some(byte)) = (seq == self.damaged, into.last_chunk_mut::<20>()) {
            byte[0] ^= 1;
        }
        found
    }

    fn reset(&mut self, unix_ms: i64) -> Result<(), StoreError> {
        self.change()?;
        self.inner.reset(unix_ms)
    }

    fn created_unix_ms(&self) -> i64 {
        self.inner.created_unix_ms()
    }
}

/// Gives messages to a session whose store fails after some changes; returns all that it sends, and why it closed.
fn with_failing_store(changes: u32, messages: &[&str]) -> (String, Option<Disconnect>, Failing) {
    let mut desk = Desk::with(|_| {});
    let mut store = Failing { inner: desk.store.clone(), changes_left: changes, damaged: 0 };
    let mut sent = String::new();
    let inputs: Vec<Vec<u8>> = messages.iter().map(|text| desk.message(text)).collect();
    let mut turn = Turn { now: desk.now, store: &mut store, out: &mut desk.out };
    desk.session.connected(&mut turn).unwrap();
    for input in inputs {
        desk.session.feed(&input, &mut desk.index, &mut turn, &mut desk.taken);
        sent += &plain(&std::mem::take(&mut turn.out.bytes));
    }
    let closed = desk.out.disconnect.clone();
    (sent, closed, store)
}

#[test]
fn a_store_that_fails_ends_the_session_and_no_message_leaves_that_is_not_in_it() {
    let messages = [
        "35=A|34=1|98=0|108=30|",
        "35=1|34=2|112=x|",
        "35=D|34=3|11=a|",
        "35=1|34=4|",
        "35=4|34=5|123=Y|36=9|",
        "35=D|34=12|11=b|",
        "35=A|34=1|98=0|108=30|141=Y|",
        "35=5|34=2|",
    ];
    let full = StoreError { reason: "disk full".to_owned() };
    for changes in 0..13 {
        let (sent, closed, store) = with_failing_store(changes, &messages);
        assert_eq!(closed, Some(Disconnect::Store(full.clone())), "{changes}: {sent}");
        let logout = "58=Message store not available|";
        assert!(sent.is_empty() || sent.ends_with(logout), "{changes}: {sent}");
        // All numbers but the Logout's are stored. The tenth change is the reset, which begins them again.
        let numbers = sent.matches("|34=").count().max(1) as u64;
        assert!(changes >= 10 || store.next_out() == numbers, "{changes}: {sent}");
    }
    let (_, closed, _) = with_failing_store(99, &messages);
    assert_eq!(closed, Some(Disconnect::PeerLoggedOut { text: String::new() }));
}

#[test]
fn the_logout_of_a_failed_store_takes_no_number() {
    let mut desk = Desk::logged_on();
    let mut store = Failing { inner: desk.store.clone(), changes_left: 0, damaged: 0 };
    let mut turn = Turn { now: desk.now, store: &mut store, out: &mut desk.out };
    let refused = desk.session.send(b"8", b"11=a\x01", &mut turn);
    assert!(matches!(refused, Err(SendError::Store(_))));
    // A number that is too high: the peer answers it and still expects the one below.
    assert_eq!(plain(&desk.out.bytes), "35=5|34=3|58=Message store not available|");
    assert_eq!(store.next_out(), 2);
    assert_eq!(desk.session.state(), SessionState::Disconnected);
}

#[test]
fn a_damaged_message_is_filled_and_told() {
    let mut desk = Desk::logged_on();
    let time = desk.time(0);
    desk.sends("a");
    desk.sends("b");
    let request = desk.message("35=2|34=2|7=2|16=0|");
    let mut store = Failing { inner: desk.store.clone(), changes_left: 9, damaged: 2 };
    let mut turn = Turn { now: desk.now, store: &mut store, out: &mut desk.out };
    desk.session.feed(&request, &mut desk.index, &mut turn, &mut desk.taken);
    let again = format!("35=4|34=2|43=Y|122={time}|36=3|123=Y|35=8|34=3|43=Y|122={time}|11=b|");
    assert_eq!(plain(&desk.out.bytes), again);
    assert_eq!(desk.out.notices, [Notice::NotInStore { from: 2, to: 2 }]);
}

#[test]
fn ten_thousand_requests_at_once_do_not_fill_the_memory() {
    let mut desk = Desk::logged_on();
    for _ in 0..1_000 {
        desk.sends("x");
    }
    let requests: Vec<u8> =
        (2..10_002).flat_map(|seq| desk.message(&format!("35=2|34={seq}|7=1|16=0|"))).collect();
    let mut turn = Turn { now: desk.now, store: &mut desk.store, out: &mut desk.out };
    desk.session.feed(&requests, &mut desk.index, &mut turn, &mut desk.taken);
    assert!(desk.out.bytes.len() < 70_000, "{}", desk.out.bytes.len());
    assert_eq!(desk.store.next_in(), 10_002);
}

#[test]
fn numbers_at_the_end_of_the_range_are_harmless() {
    let max = u64::MAX;
    let messages = [
        format!("35=D|34={max}|11=a|"),
        format!("35=2|34={max}|7=1|16={max}|"),
        format!("35=2|34=2|7={max}|16={max}|"),
        format!("35=4|34={max}|123=Y|36={max}|"),
        format!("35=4|34={max}|36={max}|"),
        format!("35=4|34=2|123=Y|36={max}|"),
        "35=4|34=2|36=1000000000000000000|".to_owned(),
        "35=D|34=18446744073709551616|11=a|".to_owned(),
    ];
    for message in messages {
        let mut desk = Desk::logged_on_with(|config| config.resend_chunk = max);
        desk.gets(&message);
        let next_in = desk.store.next_in();
        desk.gets(&format!("35=D|34={next_in}|11=b|"));
        desk.waits(100_000);
    }
    let mut logon = Desk::connected();
    logon.gets(&format!("35=A|34={max}|98=0|108={}|", u32::MAX));
    logon.waits(100_000);
}

#[test]
fn ten_thousand_early_messages_keep_no_more_than_the_limit() {
    let mut desk = Desk::logged_on_with(|config| config.queue_bytes_max = 10_000);
    for seq in 3..10_003 {
        desk.gets(&format!("35=D|34={seq}|11=x|"));
    }
    desk.gets("35=D|34=2|11=x|");
    assert!((50..200).contains(&desk.taken.messages.len()), "{}", desk.taken.messages.len());
}

#[test]
fn nothing_is_taken_behind_the_end_of_a_connection() {
    let mut desk = Desk::logged_on();
    let mut bytes = desk.message("35=5|34=2|");
    bytes.extend(desk.message("35=D|34=3|11=a|"));
    assert_eq!(desk.gets_bytes(&bytes), "35=5|34=2|");
    assert!(desk.taken.messages.is_empty());
    assert_eq!(desk.store.next_in(), 3);
}

/// A message that a fuzzer would find: any type, any numbers, any flags.
fn any_message() -> impl Strategy<Value = String> {
    let kind = prop::sample::select(vec!["0", "1", "2", "3", "4", "5", "A", "D", "F", "j", "zz"]);
    let number = prop_oneof![
        (0_u64..12).prop_map(|number| number.to_string()),
        Just(u64::MAX.to_string()),
        Just(String::new()),
        Just("-1".to_owned()),
    ];
    let fields = prop::sample::select(vec![
        "43=Y|",
        "122=20261123-10:00:00|",
        "122=20991123-10:00:00|",
        "122=x|",
        "123=Y|",
        "141=Y|",
        "98=0|108=1|",
        "112=x|",
        "49=X|",
        "-52|",
        "-49|",
        "52=x|",
        "97=Y|",
        "11=a|",
        "45=1|",
        "95=3|96=a|",
        "1137=9|",
        "",
    ]);
    let ranges = prop::collection::vec(
        (prop::sample::select(vec![7, 16, 36, 789, 34]), number.clone()),
        0..3,
    );
    (kind, number, prop::collection::vec(fields, 0..4), ranges).prop_map(
        |(kind, seq, fields, ranges)| {
            let ranges: String =
                ranges.into_iter().map(|(tag, value)| format!("{tag}={value}|")).collect();
            format!("35={kind}|34={seq}|{}{ranges}", fields.concat())
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_messages_are_answered_with_whole_messages_and_never_a_panic(
        messages in prop::collection::vec((any_message(), 0_u64..40_000), 1..30),
        initiator: bool,
        next_expected: bool,
    ) {
        let mut desk = Desk::with(|config| {
            config.role = if initiator { Role::Initiator } else { Role::Acceptor };
            config.next_expected = next_expected;
            config.throttle_per_s = 3;
        });
        desk.connect();
        desk.gets("35=A|34=1|98=0|108=30|");
        for (message, wait_ms) in messages {
            let before = desk.store.next_out();
            let sent = desk.gets(&message);
            let reset = desk.notices.contains(&Notice::Reset);
            prop_assert!(reset || desk.store.next_out() >= before);
            prop_assert!(sent.is_empty() || sent.starts_with("35="), "{}", sent);
            desk.waits(wait_ms);
            if desk.session.state() == SessionState::Disconnected {
                desk.connect();
                desk.notices.clear();
                let seq = desk.store.next_in();
                desk.gets(&format!("35=A|34={seq}|98=0|108=30|"));
            }
        }
    }

    #[test]
    fn any_bytes_are_judged(bytes in prop::collection::vec(any::<u8>(), 0..300), at in 0_usize..60) {
        let mut desk = Desk::logged_on();
        let mut message = desk.message("35=D|34=2|11=a|");
        let at = at.min(message.len());
        message.splice(at..at, bytes.iter().copied());
        desk.gets_bytes(&message);
        desk.gets_bytes(&bytes);
    }
}
