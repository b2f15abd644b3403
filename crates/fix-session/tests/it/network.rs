//! Two sessions over a bad network: every message of the application once and in order, whatever happens in between.
//!
//! A seed decides everything. Until [`FAULTS_MS`] the network loses, doubles, garbles, delays and cuts, one side may learn of a cut much
//! later than the other, and processes start again from their stores. Then it is quiet, and what is still under way must arrive.
//! `FIX_SESSION_SEEDS` says how many seeds are tried instead of 10,000, `FIX_SESSION_SEED` picks one.

use std::collections::{BTreeSet, VecDeque};

use fix::{Framing, Index, Message, frame};
use fix_session::{
    Application, MemoryStore, MessageStore, Now, Outbox, Role, Session, SessionConfig, Turn,
};

use crate::desk::START_UNIX_MS;

const SEEDS: u64 = 10_000;
/// How long the network is bad.
const FAULTS_MS: u64 = 15_000;
/// By when everything must have arrived: three ResendRequests, a Logout and a logon fit between, several times.
const END_MS: u64 = 300_000;
/// Messages that each side sends of its own accord; it also answers some.
const MESSAGES: u64 = 8;
const HEART_BT_INT_S: u32 = 2;

/// A fault of an engine, planted into the harness: the property must find it.
#[derive(Clone, Copy, PartialEq)]
enum Planted {
    Nothing,
    /// Gap fills are not sent.
    LostGapFill,
    /// What is sent again is also sent as a new message.
    DoubledResend,
    /// A heartbeat that is too high is taken as if nothing were missing.
    HiddenGap,
}

/// The numbers that a seed repeats (splitmix64, Steele, Lea and Flood 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn place(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap()
    }

    fn is_one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }
}

/// The application of one side: it counts what it sends, and what it gets must be counted by the other side in the same way.
#[derive(Default)]
struct Counter {
    sent: u64,
    got: u64,
    wrong: Option<String>,
}

impl Counter {
    fn send(&mut self, session: &mut Session, turn: &mut Turn<'_, MemoryStore>) {
        self.sent += 1;
        session.send(b"D", format!("11={}\x01", self.sent).as_bytes(), turn).unwrap();
    }
}

impl Application<MemoryStore> for Counter {
    fn take(
        &mut self,
        session: &mut Session,
        message: &Message<'_>,
        turn: &mut Turn<'_, MemoryStore>,
    ) {
        let id = message.number(11).unwrap();
        if id != self.got + 1 {
            let wrong = format!("message {id} came behind {}", self.got);
            self.wrong.get_or_insert(wrong);
        }
        self.got = id;
        if id.is_multiple_of(3) && self.sent < 3 * MESSAGES {
            self.send(session, turn);
        }
    }
}

/// One end: the session with its process, and the bytes on their way to it.
struct End {
    config: SessionConfig,
    session: Session,
    store: MemoryStore,
    out: Outbox,
    index: Index,
    counter: Counter,
    received: Vec<u8>,
    coming: VecDeque<(u64, Vec<u8>)>,
    /// When it learns that the connection is gone.
    cut_ms: Option<u64>,
    next_send_ms: u64,
    /// Numbers that were sent without PossDupFlag.
    first_sent: BTreeSet<u64>,
}

impl End {
    fn new(config: SessionConfig) -> End {
        End {
            session: Session::new(config.clone()).unwrap(),
            config,
            store: MemoryStore::new(START_UNIX_MS),
            out: Outbox::default(),
            index: Index::new(64),
            counter: Counter::default(),
            received: Vec::new(),
            coming: VecDeque::new(),
            cut_ms: None,
            next_send_ms: 0,
            first_sent: BTreeSet::new(),
        }
    }

    fn is_connected(&self) -> bool {
        self.session.deadline_ms().is_some()
    }

    /// When something happens here by itself.
    fn next_ms(&self) -> u64 {
        let coming = self.coming.front().map(|(due, _)| *due);
        let send = (self.counter.sent < MESSAGES).then_some(self.next_send_ms);
        let resend = self.session.is_resending().then_some(0);
        let times = [coming, send, resend, self.cut_ms, self.session.deadline_ms()];
        times.into_iter().flatten().min().unwrap_or(u64::MAX)
    }
}

struct Network {
    random: Random,
    planted: Planted,
    now_ms: u64,
    ends: [End; 2],
    next_cut_ms: u64,
    reconnect_ms: u64,
    /// What happened, by name, if somebody wants to know.
    met: Option<BTreeSet<String>>,
}

impl Network {
    fn new(seed: u64, planted: Planted) -> Network {
        let mut random = Random(seed);
        let ends = [(Role::Initiator, "A", "B"), (Role::Acceptor, "B", "A")];
        let next_expected = random.is_one_in(3);
        let ends = ends.map(|(role, sender, target)| {
            let mut config = SessionConfig::new(role, "FIX.4.4", sender, target);
            config.heart_bt_int_s = HEART_BT_INT_S;
            config.next_expected = next_expected;
            config.resend_chunk = [0, 0, 1, 3][random.place(4)];
            config.queue_bytes_max = [1 << 20, 200][random.place(2)];
            End::new(config)
        });
        let next_cut_ms = random.below(FAULTS_MS);
        Network { random, planted, now_ms: 0, ends, next_cut_ms, reconnect_ms: 0, met: None }
    }

    fn is_bad(&self) -> bool {
        self.now_ms < FAULTS_MS
    }

    /// Runs until all has arrived.
    fn run(&mut self) -> Result<(), String> {
        while self.now_ms < END_MS {
            let next = self.ends.iter().map(End::next_ms).min().unwrap_or(u64::MAX);
            let connection = if self.is_down() { self.reconnect_ms } else { self.next_cut_ms };
            self.now_ms = self.now_ms.max(next.min(connection));
            self.connection();
            for at in 0..2 {
                self.turn(at);
                self.flush(at)?;
            }
            if let Some(wrong) = self.ends.iter().find_map(|end| end.counter.wrong.clone()) {
                return Err(wrong);
            }
            if self.is_done() {
                return Ok(());
            }
        }
        let [a, b] = self.ends.each_ref().map(|end| (end.counter.sent, end.counter.got));
        Err(format!("sent and got {a:?} and {b:?} when time was over"))
    }

    fn is_down(&self) -> bool {
        self.ends.iter().all(|end| !end.is_connected())
    }

    fn is_done(&self) -> bool {
        let [a, b] = &self.ends;
        let sent = a.counter.sent >= MESSAGES && b.counter.sent >= MESSAGES;
        !self.is_bad() && sent && a.counter.got == b.counter.sent && b.counter.got == a.counter.sent
    }

    /// Connects and cuts.
    fn connection(&mut self) {
        if self.is_down() && self.now_ms >= self.reconnect_ms {
            for end in &mut self.ends {
                end.received.clear();
                end.coming.clear();
                end.cut_ms = None;
                let now = Now { ms: self.now_ms, unix_ms: unix_ms(self.now_ms) };
                let mut turn = Turn { now, store: &mut end.store, out: &mut end.out };
                end.session.connected(&mut turn).unwrap();
            }
            self.reconnect_ms = self.now_ms + 500;
        }
        if self.now_ms >= self.next_cut_ms {
            self.next_cut_ms = match self.is_bad() {
                true => self.now_ms + 1 + self.random.below(6_000),
                false => u64::MAX,
            };
            if self.is_bad() {
                self.cut();
            }
        }
    }

    /// Ends the connection; each side learns of it at a time of its own. What is under way may be lost, all or from a message on.
    fn cut(&mut self) {
        for end in &mut self.ends {
            let kept = self.random.place(3);
            end.coming.truncate(kept);
            end.cut_ms = Some(self.now_ms + self.random.below(300));
            if self.random.is_one_in(4) {
                // It never learns, and finds out by the silence.
                end.cut_ms = None;
                end.coming.clear();
            }
        }
        self.reconnect_ms = self.now_ms + 300 + self.random.below(1_000);
    }

    /// Lets one end do what is due.
    fn turn(&mut self, at: usize) {
        let now = Now { ms: self.now_ms, unix_ms: unix_ms(self.now_ms) };
        let end = &mut self.ends[at];
        let mut turn = Turn { now, store: &mut end.store, out: &mut end.out };
        while end.coming.front().is_some_and(|(due, _)| *due <= now.ms) {
            end.received.extend(end.coming.pop_front().unwrap().1);
            if self.planted == Planted::HiddenGap {
                hide_gap(&end.received, turn.store);
            }
            let used = end.session.feed(&end.received, &mut end.index, &mut turn, &mut end.counter);
            end.received.drain(..used);
        }
        end.session.resume(&mut end.index, &mut turn, &mut end.counter);
        end.session.tick(&mut turn);
        if end.counter.sent < MESSAGES && now.ms >= end.next_send_ms {
            end.counter.send(&mut end.session, &mut turn);
            end.next_send_ms = now.ms + self.random.below(3_000);
        }
        if end.cut_ms.is_some_and(|cut| now.ms >= cut) {
            end.cut_ms = None;
            end.session.disconnected();
            if self.random.is_one_in(3) {
                // The process starts again: only the store is left.
                end.session = Session::new(end.config.clone()).unwrap();
            }
        }
    }

    /// Puts what an end sends on the wire.
    fn flush(&mut self, from: usize) -> Result<(), String> {
        let out = std::mem::take(&mut self.ends[from].out);
        if let Some(met) = &mut self.met {
            met.extend(out.notices.iter().map(name_of));
            met.extend(out.disconnect.iter().map(name_of));
        }
        let mut rest = &out.bytes[..];
        while let Framing::Whole(whole) = frame(rest, usize::MAX) {
            rest = &rest[whole.bytes().len()..];
            let message = plain_fields(whole.bytes());
            let poss_dup = message.contains("|43=Y|");
            let seq = value(&message, "|34=");
            if !poss_dup && !self.ends[from].first_sent.insert(seq) && !message.contains("|35=5|") {
                return Err(format!("number {seq} was sent twice without PossDupFlag"));
            }
            self.note(&message);
            if self.planted == Planted::LostGapFill && message.contains("|123=Y|") {
                continue;
            }
            self.carry(1 - from, whole.bytes());
            if self.planted == Planted::DoubledResend && poss_dup && message.contains("|35=D|") {
                self.send_as_new(from, value(&message, "|11="));
            }
        }
        if !rest.is_empty() {
            return Err("the outbox has a part of a message".to_owned());
        }
        if out.disconnect.is_some() {
            let other = &mut self.ends[1 - from];
            other.cut_ms = other.cut_ms.or(Some(self.now_ms + self.random.below(400)));
            self.reconnect_ms = self.now_ms + 500 + self.random.below(500);
        }
        Ok(())
    }

    fn note(&mut self, message: &str) {
        let Some(met) = &mut self.met else { return };
        let kinds = [
            ("resent", message.contains("|35=D|") && message.contains("|43=Y|")),
            ("gap fill", message.contains("|123=Y|")),
            ("chunk", message.contains("|35=2|") && !message.contains("|16=0|")),
        ];
        met.extend(kinds.into_iter().filter(|kind| kind.1).map(|kind| kind.0.to_owned()));
    }

    /// Carries one message to an end: whole or in two parts, late, damaged, twice or not at all.
    fn carry(&mut self, to: usize, bytes: &[u8]) {
        let (bad, random) = (self.is_bad(), &mut self.random);
        if bad && random.is_one_in(40) {
            return;
        }
        let mut bytes = bytes.to_vec();
        if bad && random.is_one_in(60) {
            let at = random.place(bytes.len());
            bytes[at] ^= 1 << random.below(8);
        }
        let times = if bad && random.is_one_in(60) { 2 } else { 1 };
        let end = &mut self.ends[to];
        for _ in 0..times {
            let stall = if bad && random.is_one_in(100) { 4_000 } else { 50 };
            let split = random.place(bytes.len());
            for part in [&bytes[..split], &bytes[split..]] {
                let earliest = end.coming.back().map_or(self.now_ms, |(due, _)| *due);
                let due = earliest.max(self.now_ms) + random.below(stall);
                end.coming.push_back((due, part.to_vec()));
            }
        }
    }

    fn send_as_new(&mut self, from: usize, id: u64) {
        let now = Now { ms: self.now_ms, unix_ms: unix_ms(self.now_ms) };
        let end = &mut self.ends[from];
        let mut turn = Turn { now, store: &mut end.store, out: &mut end.out };
        end.session.send(b"D", format!("11={id}\x01").as_bytes(), &mut turn).unwrap();
    }
}

/// Both processes read the same wall clock.
fn unix_ms(now_ms: u64) -> i64 {
    START_UNIX_MS + i64::try_from(now_ms).unwrap()
}

fn plain_fields(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace('\x01', "|")
}

fn value(message: &str, tag: &str) -> u64 {
    let rest = message.split_once(tag).unwrap().1;
    rest.split_once('|').unwrap().0.parse().unwrap()
}

/// An engine that lets a heartbeat set the expected number.
fn hide_gap(received: &[u8], store: &mut MemoryStore) {
    if let Framing::Whole(whole) = frame(received, usize::MAX) {
        let message = plain_fields(whole.bytes());
        if message.contains("|35=0|") && value(&message, "|34=") > store.next_in() {
            store.set_next_in(value(&message, "|34=")).unwrap();
        }
    }
}

fn number_of_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

fn check(seeds: impl Iterator<Item = u64>) {
    for seed in seeds {
        if let Err(problem) = Network::new(seed, Planted::Nothing).run() {
            panic!("FIX_SESSION_SEED={seed}: {problem}");
        }
    }
}

/// Half of the seeds each, so that two processors share them.
fn check_half(half: u64) {
    match number_of_environment("FIX_SESSION_SEED") {
        Some(seed) => check(std::iter::once(seed)),
        None => {
            let seeds = number_of_environment("FIX_SESSION_SEEDS").unwrap_or(SEEDS);
            check((0..seeds).filter(|seed| seed % 2 == half));
        }
    }
}

#[test]
fn every_message_arrives_once_and_in_order_even_seeds() {
    check_half(0);
}

#[test]
fn every_message_arrives_once_and_in_order_odd_seeds() {
    check_half(1);
}

#[test]
fn planted_faults_are_found() {
    let planted = [
        (Planted::LostGapFill, &["time was over"][..]),
        (Planted::DoubledResend, &["came behind"]),
        (Planted::HiddenGap, &["came behind", "time was over"]),
    ];
    for (fault, problems) in planted {
        let found: Vec<String> =
            (0..200).filter_map(|seed| Network::new(seed, fault).run().err()).collect();
        for problem in problems {
            assert!(found.iter().any(|text| text.contains(problem)), "{problem}: {found:?}");
        }
    }
}

/// A network that does nothing would prove nothing.
#[test]
fn the_network_is_bad_in_every_way() {
    let mut met = BTreeSet::new();
    for seed in 0..300 {
        let mut network = Network::new(seed, Planted::Nothing);
        network.met = Some(met);
        network.run().unwrap();
        met = network.met.unwrap();
    }
    let wanted = [
        "GapOpened",
        "GapClosed",
        "Garbled",
        "LoggedOn",
        "LoggedOut",
        "LogonTimeout",
        "PeerLoggedOut",
        "Silent",
        "UnfitLogon",
        "resent",
        "gap fill",
        "chunk",
    ];
    for way in wanted {
        assert!(met.contains(way), "{way} was not met: {met:?}");
    }
    // Nothing was given up, and nothing that was sent was gone.
    assert!(!met.contains("PeerSkipped") && !met.contains("NotInStore"), "{met:?}");
}

/// The name of a variant.
fn name_of(value: impl std::fmt::Debug) -> String {
    let text = format!("{value:?}");
    text.split([' ', '(']).next().unwrap().to_owned()
}
