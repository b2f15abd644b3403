//! A session of 1,000 orders whose acceptor is killed at every one of them: both sides go on from their files.
//!
//! The acceptor is a process of its own (this test binary, see [`the_acceptor_that_is_killed`]); it answers each order with a report of the
//! same ClOrdID. It dies before its flush, between flush and sending, or behind it, or is killed from outside at some instant. The
//! initiator lives in the test, and begins anew from its files at every other order.
//!
//! A binary of its own: a child has the locks of its parent's folders between fork and exec, where other tests would find them taken.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod files;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use fix::{Framing, Index, Message, frame};
use fix_session::{Application, MessageStores, Now, Outbox, Role, Session, SessionConfig, Turn};
use fix_store::{Direction, Durability, FileStore, FileStores, NumbersFile, Options, read_history};

const ORDERS: u64 = 1_000;
/// How long one read may take before the test has failed.
const READ_MAX: Duration = Duration::from_secs(30);
const PORT: &str = "FIX_STORE_KILL_PORT";
const FOLDER: &str = "FIX_STORE_KILL_FOLDER";
const DEATH: &str = "FIX_STORE_KILL_DEATH";

/// Where the acceptor ends, seen from the step in which it takes an order.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Death {
    BeforeFlush,
    BeforeSending,
    AfterSending,
    /// From outside, as soon as the order was sent.
    AtOnce,
    /// From outside, so many microseconds later.
    After(u64),
    /// From outside, when the report is there.
    Answered,
}

impl Death {
    fn of(order: u64) -> Death {
        match order % 6 {
            0 => Death::BeforeFlush,
            1 => Death::BeforeSending,
            2 => Death::AfterSending,
            3 => Death::AtOnce,
            4 => Death::After(order % 300),
            _ => Death::Answered,
        }
    }
}

/// One side: its session, its files and its connection.
struct Side {
    session: Session,
    stores: FileStores<NumbersFile>,
    out: Outbox,
    index: Index,
    received: Vec<u8>,
    start: Instant,
}

impl Side {
    fn open(root: &Path, role: Role) -> Side {
        let (us, them) = match role {
            Role::Initiator => ("CLIENT", "GATE"),
            Role::Acceptor => ("GATE", "CLIENT"),
        };
        let mut stores =
            FileStores::open(root, Options { segment_bytes: 20_000, ..Options::default() })
                .unwrap();
        stores.add(them, Durability::Written, unix_ms()).unwrap();
        let session = Session::new(SessionConfig::new(role, "FIX.4.4", us, them)).unwrap();
        Side {
            session,
            stores,
            out: Outbox::default(),
            index: Index::new(64),
            received: Vec::new(),
            start: Instant::now(),
        }
    }

    fn step(&mut self, act: impl FnOnce(&mut Session, &mut Index, &mut Turn<'_, FileStore>)) {
        let ms = u64::try_from(self.start.elapsed().as_millis()).unwrap();
        let now = Now { ms, unix_ms: unix_ms() };
        self.stores.set_time(now.unix_ms * 1_000);
        let mut turn = Turn { now, store: self.stores.store(0), out: &mut self.out };
        act(&mut self.session, &mut self.index, &mut turn);
    }

    fn take(&mut self, bytes: &[u8], application: &mut impl Application<FileStore>) {
        self.received.extend_from_slice(bytes);
        let mut received = std::mem::take(&mut self.received);
        self.step(|session, index, turn| {
            let used = session.feed(&received, index, turn, application);
            received.drain(..used);
            while session.is_resending() {
                session.resume(index, turn, application);
            }
        });
        self.received = received;
    }

    /// What may leave, after it was made to outlive the process.
    fn flush(&mut self) -> Vec<u8> {
        self.stores.flush(&[0]).unwrap();
        std::mem::take(&mut self.out).bytes
    }
}

fn unix_ms() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap()
}

/// The application of the acceptor.
#[derive(Default)]
struct Reports {
    new_orders: u64,
}

impl Application<FileStore> for Reports {
    fn take(
        &mut self,
        session: &mut Session,
        message: &Message<'_>,
        turn: &mut Turn<'_, FileStore>,
    ) {
        let id = message.number(11).unwrap();
        session.send(b"8", format!("11={id}\x01").as_bytes(), turn).unwrap();
        self.new_orders += 1;
    }
}

/// The acceptor's process; without its port it is no test.
#[test]
fn the_acceptor_that_is_killed() {
    let Ok(port) = std::env::var(PORT) else { return };
    let folder = std::env::var(FOLDER).unwrap();
    let death = std::env::var(DEATH).unwrap();
    let mut stream = TcpStream::connect(("127.0.0.1", port.parse().unwrap())).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut side = Side::open(Path::new(&folder), Role::Acceptor);
    side.step(|session, _, turn| session.connected(turn).unwrap());
    let (mut reports, mut bytes) = (Reports::default(), [0; 4_096]);
    // The first order after a resend is the one to die at, so that each life has a different one.
    while let Ok(length @ 1..) = stream.read(&mut bytes) {
        let before = reports.new_orders;
        side.take(&bytes[..length], &mut reports);
        let dies = |point: &str| {
            if death == point && reports.new_orders > before {
                std::process::abort();
            }
        };
        dies("BeforeFlush");
        let leaving = side.flush();
        dies("BeforeSending");
        if stream.write_all(&leaving).is_err() {
            return;
        }
        dies("AfterSending");
    }
}

/// The application of the initiator: each order is reported once, and in order.
#[derive(Default)]
struct Orders {
    reported: u64,
}

impl Application<FileStore> for Orders {
    fn take(
        &mut self,
        _session: &mut Session,
        message: &Message<'_>,
        _turn: &mut Turn<'_, FileStore>,
    ) {
        let id = message.number(11).unwrap();
        assert_eq!(id, self.reported + 1, "reports come once and in order");
        self.reported = id;
    }
}

/// Looks at everything that one side writes.
#[derive(Default)]
struct Wire {
    rest: Vec<u8>,
    numbers: BTreeSet<u64>,
    again: u64,
}

impl Wire {
    fn see(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        while let Framing::Whole(whole) = frame(&self.rest, usize::MAX) {
            let mut index = Index::new(64);
            let message = index.read(whole).unwrap();
            assert_eq!(message.value(141), None, "nobody begins again");
            if message.value(43) == Some(b"Y") {
                self.again += 1;
            } else {
                let seq = message.number(34).unwrap();
                assert!(self.numbers.insert(seq), "{seq} was sent twice without PossDupFlag");
            }
            let length = whole.bytes().len();
            self.rest.drain(..length);
        }
    }
}

/// The initiator with all that outlives its connections.
struct Desk<'d> {
    folders: [&'d Path; 2],
    listener: TcpListener,
    side: Side,
    orders: Orders,
    sent: Wire,
    got: Wire,
}

impl Desk<'_> {
    fn start_acceptor(&self, death: Death) -> (Child, TcpStream) {
        let port = self.listener.local_addr().unwrap().port().to_string();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "the_acceptor_that_is_killed", "--test-threads", "1"])
            .env(PORT, port)
            .env(FOLDER, self.folders[1])
            .env(DEATH, format!("{death:?}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (stream, _) = self.listener.accept().unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(READ_MAX)).unwrap();
        (child, stream)
    }

    fn send(&mut self, stream: &mut TcpStream) {
        let leaving = self.side.flush();
        self.sent.see(&leaving);
        // A peer that is gone does not matter: it asks for this later.
        let _ = stream.write_all(&leaving);
    }

    /// Reads until something holds; false if the peer is gone before.
    fn pump(&mut self, stream: &mut TcpStream, done: impl Fn(&Desk<'_>) -> bool) -> bool {
        let mut bytes = [0; 4_096];
        while !done(self) {
            match stream.read(&mut bytes) {
                Ok(0) => return false,
                Ok(length) => {
                    self.got.see(&bytes[..length]);
                    self.side.take(&bytes[..length], &mut self.orders);
                    self.send(stream);
                }
                Err(error) => {
                    let late = matches!(error.kind(), std::io::ErrorKind::WouldBlock);
                    assert!(!late, "nothing came for {READ_MAX:?}");
                    return false;
                }
            }
        }
        true
    }

    /// Logs on. False if the acceptor died before, of an order of an earlier life.
    fn log_on(&mut self, stream: &mut TcpStream) -> bool {
        self.got.rest.clear();
        self.side.received.clear();
        self.side.step(|session, _, turn| session.connected(turn).unwrap());
        self.send(stream);
        self.pump(stream, |desk| desk.side.session.is_ready())
    }

    fn order(&mut self, order: u64, death: Death) {
        let (mut child, mut stream) = self.start_acceptor(death);
        if self.log_on(&mut stream) {
            self.side.step(|session, _, turn| {
                session.send(b"D", format!("11={order}\x01").as_bytes(), turn).unwrap();
            });
            self.send(&mut stream);
            match death {
                Death::AtOnce => {}
                Death::After(us) => {
                    let until = Instant::now() + Duration::from_micros(us);
                    while Instant::now() < until {}
                }
                _ => drop(self.pump(&mut stream, |desk| desk.orders.reported == order)),
            }
        } else {
            // It will be in the files all the same: numbered without a connection.
            self.side.session.disconnected();
            self.side.step(|session, _, turn| {
                session.send(b"D", format!("11={order}\x01").as_bytes(), turn).unwrap();
            });
            self.side.flush();
        }
        let _ = child.kill();
        child.wait().unwrap();
        // What was under way still comes.
        self.pump(&mut stream, |_| false);
        self.side.session.disconnected();
    }

    fn begin_again(&mut self) {
        let root = tempfile::tempdir().unwrap();
        // The lock of the folder is free only when the old side is gone.
        drop(std::mem::replace(&mut self.side, Side::open(root.path(), Role::Initiator)));
        self.side = Side::open(self.folders[0], Role::Initiator);
    }
}

/// The ClOrdIDs of the reports that the acceptor's files have, in their order.
fn reports(folder: &Path) -> Vec<u64> {
    let mut found = Vec::new();
    read_history(folder, "CLIENT", |kept| {
        let message = String::from_utf8_lossy(kept.message.unwrap()).into_owned();
        if kept.direction == Direction::Out && message.contains("\x0135=8\x01") {
            let id = message.split_once("\x0111=").unwrap().1.split_once('\x01').unwrap().0;
            found.push(id.parse().unwrap());
        }
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    found
}

#[test]
fn a_session_that_is_killed_at_every_order_loses_none_and_sends_none_twice() {
    let [ours, theirs] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let mut desk = Desk {
        folders: [ours.path(), theirs.path()],
        listener: TcpListener::bind("127.0.0.1:0").unwrap(),
        side: Side::open(ours.path(), Role::Initiator),
        orders: Orders::default(),
        sent: Wire::default(),
        got: Wire::default(),
    };
    for order in 1..=ORDERS {
        desk.order(order, Death::of(order));
        if order % 2 == 0 {
            desk.begin_again();
        }
    }
    let (mut child, mut stream) = desk.start_acceptor(Death::Answered);
    assert!(
        desk.log_on(&mut stream) && desk.pump(&mut stream, |desk| desk.orders.reported == ORDERS)
    );
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(reports(theirs.path()), Vec::from_iter(1..=ORDERS), "each order was taken once");
    // The deaths did what they are for: both sides had to send again, and the acceptor was asked for what it had sent before.
    assert!(
        desk.sent.again > ORDERS / 4 && desk.got.again > ORDERS / 8,
        "{} {}",
        desk.sent.again,
        desk.got.again
    );
}
