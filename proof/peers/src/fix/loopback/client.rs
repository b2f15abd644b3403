//! A client that sends orders on a timetable over one session, and notes how long each waited for its report.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant, SystemTime};

use fix::{Framing, Index, TimestampText, frame};
use probe::Histogram;
use probe::compare::Random;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::fix::messages::{framed, order};

/// No round takes longer beyond its timetable, and no logon.
const PATIENCE: Duration = Duration::from_secs(30);
/// Orders that wait for their reports at most. More of them would fill every buffer on the way, and all would wait for each other; a wait
/// counts from when an order was due all the same.
const IN_FLIGHT_MAX: u64 = 2_048;
/// Of an order: so few that the money of all rounds fits into a budget.
const QUANTITY_MAX: usize = 10;
/// Before another try while the venue is not logged on yet.
const PAUSE: Duration = Duration::from_millis(50);

/// How long orders waited, from when they were due.
#[derive(Clone, Debug)]
pub(super) struct Waits(Histogram);

impl Waits {
    pub(super) fn us(&self, quantile: f64) -> f64 {
        self.0.quantile(quantile) as f64 / 1e3
    }
}

pub(super) struct Client {
    stream: TcpStream,
    input: Vec<u8>,
    index: Index,
    /// Number of its next message, and of its next order's ClOrdID.
    seq: u64,
    id: u64,
    random: Random,
    /// What the peer last said that is no report.
    said: String,
}

impl Client {
    /// Logs on, and tries until an order is reported on.
    pub(super) fn log_on(to: SocketAddr) -> Result<Client, String> {
        let stream = TcpStream::connect(to).map_err(|e| e.to_string())?;
        stream.set_nodelay(true).map_err(|e| e.to_string())?;
        stream.set_nonblocking(true).map_err(|e| e.to_string())?;
        let (index, random) = (Index::new(512), Random::new(7));
        let (input, said) = (Vec::new(), "nothing else".to_owned());
        let mut client = Client { stream, input, index, seq: 2, id: 0, random, said };
        let logon = format!("35=A|49=CLIENT1|56=GATE|34=1|52={}.000|98=0|108=3600|", second());
        client.send(&framed(&logon))?;
        let deadline = Instant::now() + PATIENCE;
        let mut tries = 0;
        while Instant::now() < deadline {
            let order = client.order();
            tries += 1;
            client.send(&order)?;
            std::thread::sleep(PAUSE);
            let mut reported = Vec::new();
            client.receive(None, &mut reported)?;
            if reported.contains(&(tries - 1)) {
                return Ok(client);
            }
        }
        Err("no order is reported on: the gate has no venue".into())
    }

    /// Sends so many orders, each when it is due, and waits for all reports.
    pub(super) fn trade(&mut self, orders: u64, rate: u64) -> Result<Waits, String> {
        let first = self.id;
        let (mut bytes, mut ends) = (Vec::new(), vec![0]);
        for _ in 0..orders {
            bytes.extend(self.order());
            ends.push(bytes.len());
        }
        let every = Duration::from_nanos(1_000_000_000 / rate);
        let due = |at: u64| every * u32::try_from(at).unwrap_or(u32::MAX);
        let (mut waits, mut sent, mut done, mut reported) = (Histogram::new(), 0, 0, Vec::new());
        let began = Instant::now();
        let deadline = due(orders) + PATIENCE;
        while done < orders {
            let now = began.elapsed();
            if now > deadline {
                let said = &self.said;
                return Err(format!("{done} of {orders} orders were reported on; it said {said}"));
            }
            let until = (now.as_nanos() / every.as_nanos()) as u64 + 1;
            let until = until.min(orders).min(done + IN_FLIGHT_MAX);
            if sent < until {
                self.send(&bytes[ends[sent as usize]..ends[until as usize]])?;
                sent = until;
            }
            let may_send = sent < orders && sent < done + IN_FLIGHT_MAX;
            let next = may_send.then(|| due(sent).saturating_sub(began.elapsed()));
            self.receive(next.or(Some(PATIENCE)), &mut reported)?;
            let now = began.elapsed();
            for id in reported.drain(..).filter(|id| *id >= first) {
                let wait = now.saturating_sub(due(id - first));
                waits.record(wait.as_nanos() as u64);
                done += 1;
            }
        }
        Ok(Waits(waits))
    }

    /// Its next order.
    fn order(&mut self) -> Vec<u8> {
        let body = order(&mut self.random, self.seq, self.id, QUANTITY_MAX, &second());
        (self.seq, self.id) = (self.seq + 1, self.id + 1);
        framed(&body)
    }

    fn send(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(len) => bytes = &bytes[len..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.wait(PollFlags::OUT, PATIENCE)?;
                }
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }

    /// Waits so long for bytes, and appends the ids of the orders that reports are of.
    fn receive(&mut self, wait: Option<Duration>, reported: &mut Vec<u64>) -> Result<(), String> {
        if let Some(wait) = wait {
            self.wait(PollFlags::IN, wait)?;
        }
        let mut room = [0; 1 << 16];
        match self.stream.read(&mut room) {
            Ok(0) => return Err("the session was closed".into()),
            Ok(len) => self.input.extend_from_slice(&room[..len]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error.to_string()),
        }
        let mut used = 0;
        while let Framing::Whole(whole) = frame(&self.input[used..], 1 << 16) {
            used += whole.bytes().len();
            let message = self.index.read(whole).map_err(|e| e.to_string())?;
            let is_report = message.msg_type() == b"8";
            if !is_report {
                self.said = String::from_utf8_lossy(message.frame().bytes()).replace('\x01', "|");
            }
            let id = message.value(11).filter(|_| is_report).map(String::from_utf8_lossy);
            reported.extend(id.and_then(|id| id.strip_prefix("ORD-")?.parse::<u64>().ok()));
        }
        self.input.drain(..used);
        Ok(())
    }

    fn wait(&self, flags: PollFlags, longest: Duration) -> Result<(), String> {
        let timeout = Timespec::try_from(longest).map_err(|e| e.to_string())?;
        let mut waiting = [PollFd::new(&self.stream, flags)];
        poll(&mut waiting, Some(&timeout)).map(drop).map_err(|e| e.to_string())
    }
}

/// The second that it is now, as messages have it.
fn second() -> String {
    let mut text = TimestampText::default();
    let text = text.of_unix_ms(unix_ms());
    String::from_utf8_lossy(&text[..17]).into_owned()
}

pub(super) fn unix_ms() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as i64
}
