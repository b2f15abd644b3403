//! A node that is killed at every point of what passes through it; both sides keep their own books, and go on where they were.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use hammer::FixPeer;
use serde_json::Value;

use super::door;
use super::operating::call;
use super::venues::with_venue;
use crate::support::{Node, PATIENCE, line};

/// What is left to its time: nothing is read for so long.
const LOOK: Duration = Duration::from_millis(5);

/// One side of a session: its numbers and what it sent are the peer's.
struct Side {
    peer: FixPeer,
    stream: Option<TcpStream>,
    input: Vec<u8>,
    /// Type and body of the messages of its own that it sent.
    sent: Vec<(&'static str, String)>,
    /// Bodies of what was taken, each once.
    taken: Vec<String>,
}

impl Side {
    fn new(name: &str, accepts: bool) -> Side {
        let peer = FixPeer::new(["FIX.4.4", name, "GATE"], (1, 1), accepts);
        Side { peer, stream: None, input: Vec::new(), sent: Vec::new(), taken: Vec::new() }
    }

    fn take_line(&mut self, stream: TcpStream) {
        stream.set_read_timeout(Some(LOOK)).unwrap();
        self.lose_line();
        self.stream = Some(stream);
    }

    fn lose_line(&mut self) {
        self.peer.lose();
        (self.stream, self.input) = (None, Vec::new());
    }

    /// Numbers and keeps a message, and sends so much of it.
    fn send(&mut self, kind: &'static str, body: &str, percent: usize) {
        self.sent.push((kind, body.to_owned()));
        self.peer.send(kind, body.replace('|', "\x01"));
        self.write(percent);
    }

    fn write(&mut self, percent: usize) {
        let bytes = std::mem::take(&mut self.peer.out);
        let part = &bytes[..percent * bytes.len() / 100];
        // A node that is gone gets it later.
        if self.stream.as_mut().is_some_and(|stream| stream.write_all(part).is_err()) {
            self.lose_line();
        }
    }

    /// The body of the next message that is none of the session's own and new, if there is one.
    fn look(&mut self) -> Option<String> {
        let mut piece = [0; 4_096];
        match self.stream.as_mut()?.read(&mut piece) {
            Ok(count) if count > 0 => self.input.extend_from_slice(&piece[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Ok(_) | Err(_) => {
                self.lose_line();
                return None;
            }
        }
        let mut found = None;
        while let (None, Some((len, message))) = (&found, self.peer.hear(&self.input).unwrap()) {
            self.input.drain(..len);
            found = message.map(|message| format!("|{}", message.body().replace('\x01', "|")));
        }
        self.write(100);
        let body = found?;
        let start = body.find("|11=").or_else(|| body.find("|45=")).unwrap() + 1;
        self.taken.push(body[start..].to_owned());
        self.taken.last().cloned()
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
        if self.client.stream.is_none()
            && self.venue.peer.is_logged_on
            && let Some(stream) =
                self.node.as_ref().and_then(|node| TcpStream::connect(door(node)).ok())
        {
            self.client.take_line(stream);
            self.client.peer.log_on();
            self.client.write(100);
        }
        if let Ok((stream, _)) = self.listener.accept() {
            stream.set_nonblocking(false).unwrap();
            self.venue.take_line(stream);
        }
        if let Some(body) = self.venue.look() {
            self.reports += 1;
            let report = self.report_on(&body);
            self.venue.send("8", &report, 100);
        }
        self.client.look();
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
        self.client.peer.is_logged_on && self.venue.peer.is_logged_on
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
    let (client, venue) = (Side::new("CLIENT1", false), Side::new("VENUE", true));
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
