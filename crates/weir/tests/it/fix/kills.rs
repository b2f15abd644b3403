//! A node that is killed at every point of what passes through it; both sides keep their own books, and go on where they were.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::operating::call;
use super::venues::with_venue;
use super::{Client, door, field};
use crate::support::{Node, PATIENCE, line};

/// What is left to its time: nothing is read for so long.
const LOOK: Duration = Duration::from_millis(5);

/// One side of a session, with what a careful engine keeps: everything sent, what is expected next, and everything taken.
struct Side {
    ids: (&'static str, &'static str),
    /// What was sent: type and body, by number.
    sent: Vec<(&'static str, String)>,
    next_in: u64,
    /// Bodies of what was taken, with whether it may have come before (43=Y).
    taken: Vec<String>,
    line: Option<Client>,
    socket: Option<TcpStream>,
    is_logged_on: bool,
}

impl Side {
    fn new(ids: (&'static str, &'static str)) -> Side {
        Side {
            ids,
            sent: Vec::new(),
            next_in: 1,
            taken: Vec::new(),
            line: None,
            socket: None,
            is_logged_on: false,
        }
    }

    fn take_line(&mut self, stream: TcpStream) {
        self.socket = Some(stream.try_clone().unwrap());
        let line = Client::over(stream, self.ids);
        self.socket.as_ref().unwrap().set_read_timeout(Some(LOOK)).unwrap();
        (self.line, self.is_logged_on) = (Some(line), false);
    }

    fn lose_line(&mut self) {
        (self.line, self.socket, self.is_logged_on) = (None, None, false);
    }

    /// Numbers and keeps a message, and sends so much of it.
    fn send(&mut self, kind: &'static str, body: &str, percent: usize) {
        self.sent.push((kind, body.to_owned()));
        self.write(u64::try_from(self.sent.len()).unwrap(), kind, body, percent);
    }

    fn write(&mut self, seq: u64, kind: &str, body: &str, percent: usize) {
        let Some(line) = &mut self.line else { return };
        line.next_out = seq;
        let bytes = line.message(kind, body.replace('|', "\x01").as_bytes());
        let part = percent * bytes.len() / 100;
        // A node that is gone gets it later.
        if line.stream.write_all(&bytes[..part]).is_err() {
            self.lose_line();
        }
    }

    /// The next message, if there is one.
    fn look(&mut self) -> Option<String> {
        let line = self.line.as_mut()?;
        loop {
            let sum = line.input.windows(4).position(|part| part == b"\x0110=");
            if let Some(at) = sum.filter(|at| line.input.len() >= at + 8) {
                let message: Vec<u8> = line.input.drain(..at + 8).collect();
                return Some(String::from_utf8_lossy(&message).replace('\x01', "|"));
            }
            let mut piece = [0; 4_096];
            match line.stream.read(&mut piece) {
                Ok(count) if count > 0 => line.input.extend_from_slice(&piece[..count]),
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    return None;
                }
                Ok(_) | Err(_) => {
                    self.lose_line();
                    return None;
                }
            }
        }
    }

    /// Does what the session wants with a message; its body if it is one of the application, and new.
    fn hear(&mut self, message: &str) -> Option<String> {
        let seq: u64 = field(message, "34").parse().unwrap();
        let kind = field(message, "35");
        if kind == "2" {
            self.send_again(field(message, "7").parse().unwrap());
        }
        if kind == "A" {
            self.is_logged_on = true;
        }
        if seq > self.next_in {
            let from = self.next_in;
            self.send("2", &format!("7={from}|16=0|"), 100);
            return None;
        }
        if seq < self.next_in {
            assert!(message.contains("|43=Y|"), "{seq} again without a word: {message}");
            return None;
        }
        self.next_in += 1;
        if kind == "4" {
            self.next_in = field(message, "36").parse().unwrap();
        }
        let is_for_us = !"012345A".contains(&kind);
        is_for_us.then(|| {
            let start = message.find("|11=").or_else(|| message.find("|45=")).unwrap() + 1;
            let body = message[start..message.rfind("10=").unwrap()].to_owned();
            self.taken.push(body.clone());
            body
        })
    }

    /// Sends everything from a number on once more; what is the session's own is filled.
    fn send_again(&mut self, from: u64) {
        let from = usize::try_from(from).unwrap() - 1;
        let count = self.sent.len();
        let mut at = from;
        while at < count {
            let (kind, body) = self.sent[at].clone();
            let seq = u64::try_from(at + 1).unwrap();
            at += 1;
            if is_of_orders(kind) {
                self.write(seq, kind, &format!("43=Y|122={}|{body}", super::now()), 100);
            } else {
                while at < count && !is_of_orders(self.sent[at].0) {
                    at += 1;
                }
                self.write(
                    seq,
                    "4",
                    &format!("43=Y|122={}|123=Y|36={}|", super::now(), at + 1),
                    100,
                );
            }
        }
    }
}

fn is_of_orders(kind: &str) -> bool {
    matches!(kind, "D" | "F" | "G" | "8")
}

/// A node between a client and a venue.
struct World {
    node: Option<Node>,
    client: Side,
    venue: Side,
    listener: TcpListener,
    reports: u32,
    /// What is open at the venue, by the ClOrdID that an order has there.
    open: BTreeMap<String, i64>,
}

impl World {
    /// One look at each side: connections, Logons, messages; the venue answers each order with a report.
    fn turn(&mut self) {
        // Most orders are to pass, so the client comes once the venue is there.
        if self.client.line.is_none()
            && self.venue.is_logged_on
            && let Some(stream) =
                self.node.as_ref().and_then(|node| TcpStream::connect(door(node)).ok())
        {
            self.client.take_line(stream);
            self.client.send("A", "98=0|108=30|", 100);
        }
        if let Ok((stream, _)) = self.listener.accept() {
            stream.set_nonblocking(false).unwrap();
            self.venue.take_line(stream);
        }
        if let Some(message) = self.venue.look() {
            if field(&message, "35") == "A" {
                self.venue.send("A", "98=0|108=30|", 100);
            }
            if let Some(body) = self.venue.hear(&message) {
                self.reports += 1;
                let report = self.report_on(&body);
                self.venue.send("8", &report, 100);
            }
        }
        if let Some(message) = self.client.look() {
            self.client.hear(&message);
        }
    }

    /// The venue executes 40 of each order at 9, takes each replace and each cancel, and keeps what is open of each then.
    fn report_on(&mut self, body: &str) -> String {
        let value = |tag: &str| {
            let of = |field: &str| Some(field.split_once('=')?.1.to_owned());
            body.split('|').find(|field| field.starts_with(&format!("{tag}="))).and_then(of)
        };
        let (id, ours) = (value("11").unwrap(), "9999=ours|");
        let Some(original) = value("41") else {
            self.open.insert(id.clone(), 60);
            let execution = self.reports;
            return format!(
                "11={id}|37=V|17=E{execution}|150=F|39=1|32=40|31=9|14=40|151=60|{ours}"
            );
        };
        self.open.remove(&original).expect("an open order");
        let quantity = value("44").and(value("38")).map(|text| text.parse::<i64>().unwrap());
        let (is, left) = match quantity {
            Some(quantity) => {
                self.open.insert(id.clone(), quantity - 40);
                (format!("150=5|39=1|38={quantity}|44=10"), quantity - 40)
            }
            None => ("150=4|39=4".into(), 0),
        };
        let execution = self.reports;
        format!("11={id}|41={original}|37=V|17=E{execution}|{is}|14=40|151={left}|{ours}")
    }

    fn turn_until(&mut self, what: &str, holds: impl Fn(&World) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !holds(self) {
            assert!(
                Instant::now() < end,
                "still waiting for {what}: {:?} {:?}",
                self.client.taken,
                self.venue.taken
            );
            self.turn();
        }
    }

    fn is_up(&self) -> bool {
        self.client.is_logged_on && self.venue.is_logged_on
    }

    /// Every order has its report or its refusal.
    fn is_settled(&self) -> bool {
        let asked = self.client.sent.iter().filter(|one| is_of_orders(one.0)).count();
        self.client.taken.len() >= asked
    }

    fn restart(&mut self) {
        let node = self.node.take().unwrap();
        self.node = Some(node.restart());
        self.client.lose_line();
        self.venue.lose_line();
    }
}

/// Where the node is killed.
#[derive(Clone, Copy, Debug)]
enum Point {
    /// Half of an order was written to it.
    HalfAnOrder,
    /// A whole order was, and so long ago, microseconds.
    AnOrder(u64),
    /// A replace or a cancel of an order that the venue has was written, and so long ago.
    AChange(&'static str, u64),
    /// The venue has the order, and its report is on its way, for so long.
    AReport(u64),
    /// The client has the report.
    Done,
    /// The client has just connected, and said its Logon, so long ago.
    ALogon(u64),
}

fn kill_at(world: &mut World, point: Point, round: usize) {
    let body = format!("11=order-{round}|21=1|55=ACME|54=1|60={}|38=100|40=2|44=10|", super::now());
    let wait = |us| std::thread::sleep(Duration::from_micros(us));
    match point {
        Point::HalfAnOrder => world.client.send("D", &body, 50),
        Point::AnOrder(us) => {
            world.client.send("D", &body, 100);
            wait(us);
        }
        Point::AChange(kind, us) => {
            let Some(original) = world.open.keys().next_back().cloned() else { return };
            let more = if kind == "G" { "21=1|40=2|44=10|" } else { "" };
            let body = format!(
                "11=change-{round}|41={original}|55=ACME|54=1|60={}|38=110|{more}",
                super::now()
            );
            world.client.send(kind, &body, 100);
            wait(us);
        }
        Point::AReport(us) => {
            world.client.send("D", &body, 100);
            let before = world.reports;
            world.turn_until("the venue to answer", |world| world.reports > before);
            wait(us);
        }
        Point::Done => {
            world.client.send("D", &body, 100);
            world.turn_until("the report", World::is_settled);
        }
        Point::ALogon(us) => {
            world.client.lose_line();
            world.client.send("D", &body, 100);
            world.turn();
            wait(us);
        }
    }
    world.restart();
}

/// How many times the node is killed with limits, and half as often without; a run of 1,000 orders has 1,300, and takes half an hour.
const KILLS: &str = "WEIR_FIX_KILLS";

#[test]
fn a_node_killed_at_every_point_loses_and_doubles_nothing() {
    let mut points = vec![Point::HalfAnOrder, Point::Done];
    for us in [0, 500, 2_000] {
        points.extend([Point::AnOrder(us), Point::AChange("G", us), Point::AReport(us)]);
        points.extend([Point::ALogon(us), Point::AChange("F", us)]);
    }
    let kills = std::env::var(KILLS).map_or(points.len(), |text| text.parse().unwrap());
    for (limits, kills) in [("none", kills / 2), ("budgets", kills)] {
        kill_at_points(limits, points.iter().copied().cycle().take(kills));
    }
}

fn kill_at_points(limits: &str, points: impl Iterator<Item = Point>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    let setup = with_venue(&[address], "max_order_age_ms = 600000\n");
    let config = setup.folder().join("weir.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace("\"none\"", &format!("{limits:?}"))).unwrap();
    let budget = line(1, "10000000", ",\"orders\":{\"symbol\":\"ACME\"}");
    std::fs::write(setup.budgets_file(), budget).unwrap();
    let node = Some(setup.start());
    let (client, venue) = (Side::new(("CLIENT1", "GATE")), Side::new(("VENUE", "GATE")));
    let open = BTreeMap::new();
    let mut world = World { node, client, venue, listener, reports: 0, open };
    for (round, point) in points.enumerate() {
        world.turn_until("both sides to be logged on", World::is_up);
        kill_at(&mut world, point, round);
        world.turn_until("everything to arrive", |world| world.is_up() && world.is_settled());
    }
    let arrived = judge(&world);
    // The books are the venue's: what it executed, and what it may still execute.
    let executed = world.venue.taken.iter().filter(|body| !body.contains("|41=")).count();
    let (executed, open) = (i64::try_from(executed).unwrap(), world.open.values().sum::<i64>());
    let of = |amount: i64| if limits == "budgets" { amount * 1_000_000 } else { 0 };
    let books = (of(40 * 9 * executed), of(10 * open));
    let node = world.node.unwrap();
    node.wait_budget(1, "the venue's books", |found| (found.settled, found.held) == books);
    if limits == "none" {
        return;
    }
    // Each order shows its own, and together they are the books.
    let listed = call(node.admin, "GET", "/v1/fix/orders?budget=1&max=1000", &Value::Null).1;
    let sum = |key: &str| {
        let orders = listed["orders"].as_array().unwrap().iter();
        let amounts = orders.map(|order| order[key]["1"].as_str().unwrap());
        amounts.map(|text| text.strip_suffix(".00").unwrap().parse::<i64>().unwrap()).sum::<i64>()
    };
    if arrived < 1_000 {
        let all = (sum("booked"), sum("hold"));
        assert_eq!(all, (360 * executed, 10 * open), "{listed}");
    }
    // Without its files nobody can say which orders left: their money stays, and that is told.
    let folder = node.data().join("fix");
    let node = node.restart_as(|setup| {
        std::fs::rename(&folder, folder.with_extension("away")).unwrap();
        setup
    });
    node.wait_stat("doubts", |stat| stat["doors"]["fix"]["doubtful"].as_u64() > Some(0));
    node.wait_budget(1, "what was held", |found| (found.settled, found.held) == books);
}

/// Each message arrived as it was and once, in both directions. Returns how many orders, replaces and cancels did.
fn judge(world: &World) -> usize {
    let sent: Vec<&String> =
        world.client.sent.iter().filter(|one| is_of_orders(one.0)).map(|one| &one.1).collect();
    let refused: Vec<&String> =
        world.client.taken.iter().filter(|body| body.starts_with("45=")).collect();
    assert_eq!(world.venue.taken.len() + refused.len(), sent.len(), "{refused:?}");
    let arrived = sent.iter().filter(|body| world.venue.taken.contains(body)).count();
    assert_eq!(arrived, world.venue.taken.len(), "each byte as it was, each once");
    let reports: Vec<&String> =
        world.venue.sent.iter().filter(|one| one.0 == "8").map(|one| &one.1).collect();
    let heard: Vec<&String> =
        world.client.taken.iter().filter(|body| body.starts_with("11=")).collect();
    assert_eq!(heard, reports);
    assert!(2 * arrived > sent.len(), "most were passed on: {arrived}, {refused:?}");
    arrived
}
