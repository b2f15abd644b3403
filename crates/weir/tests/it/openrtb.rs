//! An exchange for tests: HTTP over a plain socket, campaigns and bid requests as JSON, and the notices of bids.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Node, PATIENCE, Setup, wait_for};

pub(crate) const BID_PATH: &str = "/openrtb2/bid";

/// A node whose budgets file has these campaigns.
pub(crate) fn setup(campaigns: &[Value]) -> Setup {
    Setup::new(&lines(campaigns)).with("openrtb.listen", "127.0.0.1:0")
}

/// The same, with holds that outlive the test.
pub(crate) fn patient(campaigns: &[Value]) -> Setup {
    setup(campaigns).with("ledger.hold_ms", "600000")
}

/// Campaigns as a file.
pub(crate) fn lines(campaigns: &[Value]) -> String {
    campaigns.iter().map(|campaign| format!("{campaign}\n")).collect()
}

/// A campaign with one banner of 300x250 that wants everything; `fields` are added, or replace its own.
pub(crate) fn campaign(id: u64, fields: Value) -> Value {
    let own = json!({
        "id": id, "limit": "1000", "bid": "2.00",
        "creatives": [creative(&format!("cr-{id}"), json!({"adomain": [format!("a{id}.example")]}))],
    });
    with(own, fields)
}

/// A banner of 300x250.
pub(crate) fn creative(id: &str, fields: Value) -> Value {
    let own = json!({
        "id": id, "format": "banner", "sizes": ["300x250"], "adomain": ["brand.example"],
        "markup": "<b>ad</b>",
    });
    with(own, fields)
}

/// A first-price request for one banner, of the user `u`.
pub(crate) fn request(id: impl ToString, fields: Value) -> Value {
    let own = json!({
        "id": id.to_string(), "imp": [imp("1", json!({}))], "at": 1, "tmax": 30_000,
        "site": {"domain": "site.example"}, "user": {"id": "u"},
    });
    with(own, fields)
}

/// An impression of one banner.
pub(crate) fn imp(id: &str, fields: Value) -> Value {
    with(json!({"id": id, "banner": {"w": 300, "h": 250}}), fields)
}

/// An object with further fields; `null` takes one away.
pub(crate) fn with(mut object: Value, fields: Value) -> Value {
    for (name, value) in fields.as_object().unwrap() {
        match value {
            Value::Null => drop(object.as_object_mut().unwrap().remove(name)),
            value => object[name] = value.clone(),
        }
    }
    object
}

/// What one impression costs, micros.
pub(crate) fn cost(price_micros: i64) -> i64 {
    (price_micros + 999) / 1_000
}

/// Where the door of a node listens.
pub(crate) fn door(node: &Node) -> SocketAddr {
    let line = node.said.iter().find_map(|line| line.strip_prefix("openrtb "));
    line.unwrap().parse().unwrap()
}

/// The door's counters.
pub(crate) fn counts(node: &Node) -> Value {
    node.stat()["doors"]["openrtb"].clone()
}

/// Waits until a counter of the door has this value; a path leads into families: `no_bids/user_cap`.
pub(crate) fn wait_count(node: &Node, path: &str, count: u64) {
    let pointer = format!("/doors/openrtb/{path}");
    node.wait_stat(&format!("{path} of {count}"), |stat| {
        stat.pointer(&pointer).and_then(Value::as_u64).unwrap_or(0) == count
    });
}

/// The door's counters once they are at rest: they follow their events by some milliseconds.
pub(crate) fn counts_at_rest(node: &Node) -> Value {
    let mut last = counts(node);
    wait_for("counters at rest", || {
        std::thread::sleep(Duration::from_millis(50));
        let before = std::mem::replace(&mut last, counts(node));
        before == last
    });
    last
}

/// No answer of ours failed its own check.
pub(crate) fn check_no_violation(node: &Node) {
    assert_eq!(counts_at_rest(node)["violations"], json!({}));
}

/// Everybody who is not in memory is known to be new.
pub(crate) fn wait_warm(node: &Node) {
    node.wait_stat("all profiles seen", |stat| stat["profiles"]["warm"] == true);
}

/// An HTTP answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The lines of the head, in lower case.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let value = |line: &'_ str| -> Option<(usize, usize)> {
            let (key, value) = line.split_once(": ")?;
            (key == name).then_some((key.len() + 2, value.len()))
        };
        self.head.lines().find_map(|line| value(line).map(|(from, len)| &line[from..from + len]))
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The bids of a 200; none for a 204.
    pub(crate) fn bids(&self) -> Vec<Bid> {
        match self.status {
            204 => {
                assert!(self.body.is_empty());
                Vec::new()
            }
            200 => Bid::all(&self.json()),
            other => panic!("{other} to a bid request: {}", self.head),
        }
    }
}

/// One bid of an answer.
#[derive(Clone, Debug)]
pub(crate) struct Bid {
    pub(crate) price_micros: i64,
    pub(crate) campaign: u64,
    pub(crate) group: bool,
    pub(crate) json: Value,
}

impl Bid {
    fn all(answer: &Value) -> Vec<Bid> {
        let seats = answer["seatbid"].as_array().unwrap().iter();
        let bids = seats.flat_map(|seat| {
            let group = seat["group"] == 1;
            seat["bid"].as_array().unwrap().iter().map(move |bid| (group, bid))
        });
        let bid = |(group, json): (bool, &Value)| {
            #[allow(clippy::cast_possible_truncation)] // reason: prices of tests are small
            let price_micros = (json["price"].as_f64().unwrap() * 1e6).round() as i64;
            let campaign = json["cid"].as_str().unwrap().parse().unwrap();
            Bid { price_micros, campaign, group, json: json.clone() }
        };
        bids.map(bid).collect()
    }

    pub(crate) fn text(&self, name: &str) -> &str {
        self.json[name].as_str().unwrap_or("")
    }

    /// The path of a notice with its macros replaced; `None` leaves a macro as it is.
    pub(crate) fn path(&self, kind: &str, price: Option<&str>, currency: Option<&str>) -> String {
        let url = self.text(kind);
        let (_, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
        let mut path = format!("/{path}");
        for (name, value) in [("${AUCTION_PRICE}", price), ("${AUCTION_CURRENCY}", currency)] {
            if let Some(value) = value {
                path = path.replace(name, value);
            }
        }
        path.replace("${AUCTION_LOSS}", "102")
    }

    /// The path of the billing notice at the bid's own price.
    pub(crate) fn bill_path(&self) -> String {
        let (whole, rest) = (self.price_micros / 1_000_000, self.price_micros % 1_000_000);
        self.path("burl", Some(&format!("{whole}.{rest:06}")), Some("USD"))
    }
}

/// A connection to the door.
pub(crate) struct Http {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Http {
    pub(crate) fn to(node: &Node) -> Http {
        Http::connect(door(node))
    }

    pub(crate) fn connect(address: SocketAddr) -> Http {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Http { stream, read: Vec::new() }
    }

    /// A peer that stops reading holds up nobody for longer: what it closed may look like a full one for a minute.
    pub(crate) fn hasty(self) -> Http {
        self.stream.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
        self
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// The same, to a peer that may have closed.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// Sends nothing more.
    pub(crate) fn finish(&self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    pub(crate) fn receive(&mut self) -> Answer {
        self.try_receive().expect("an answer")
    }

    /// The next answer; `None` when the connection ends.
    pub(crate) fn try_receive(&mut self) -> Option<Answer> {
        loop {
            if let Some(answer) = self.next_answer() {
                return Some(answer);
            }
            let mut part = [0; 16 * 1024];
            match self.stream.read(&mut part) {
                Ok(0) => return None,
                Ok(len) => self.read.extend_from_slice(&part[..len]),
                Err(error) if is_timeout(&error) => panic!("no answer, no end: {error}"),
                // The process was stopped and goes on.
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
    }

    /// Everything until the connection ends, as it is.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        self.stream.read_to_end(&mut self.read).unwrap();
        std::mem::take(&mut self.read)
    }

    fn next_answer(&mut self) -> Option<Answer> {
        let end = self.read.windows(4).position(|at| at == b"\r\n\r\n")? + 4;
        let head = std::str::from_utf8(&self.read[..end]).unwrap().to_ascii_lowercase();
        assert!(head.starts_with("http/1."), "{head}");
        let status = head[9..12].parse().unwrap();
        let mut answer = Answer { status, head, body: Vec::new() };
        let len = answer.header("content-length").map_or(0, |len| len.parse().unwrap());
        if self.read.len() < end + len {
            return None;
        }
        answer.body = self.read[end..end + len].to_vec();
        self.read.drain(..end + len);
        Some(answer)
    }

    pub(crate) fn post(&mut self, path: &str, body: &[u8]) -> Answer {
        self.send(&post(path, "", body));
        self.receive()
    }

    pub(crate) fn get(&mut self, path: &str) -> Answer {
        self.send(&get(path));
        self.receive()
    }

    /// The bids for one request.
    pub(crate) fn bids(&mut self, request: &Value) -> Vec<Bid> {
        self.post(BID_PATH, request.to_string().as_bytes()).bids()
    }

    /// The one bid for a request, or none.
    pub(crate) fn bid(&mut self, request: &Value) -> Option<Bid> {
        let mut bids = self.bids(request);
        assert!(bids.len() <= 1, "{bids:?}");
        bids.pop()
    }

    /// The bids for many requests that are sent in one piece.
    pub(crate) fn bids_in_one(&mut self, requests: &[Value]) -> Vec<Vec<Bid>> {
        let all: Vec<u8> = requests.iter().flat_map(bid_request).collect();
        self.send(&all);
        requests.iter().map(|_| self.receive().bids()).collect()
    }

    /// The bid for a request, as soon as the budget's money has come to the worker.
    pub(crate) fn bid_soon(&mut self, request: &Value) -> Bid {
        self.bid_when("a bid", request, |_| true)
    }

    /// The first bid for a request of which something holds; losses of others are told.
    pub(crate) fn bid_when(
        &mut self,
        what: &str,
        request: &Value,
        holds: impl Fn(&Bid) -> bool,
    ) -> Bid {
        let mut found = None;
        wait_for(what, || {
            found = self.bid(request).filter(|bid| {
                let wanted = holds(bid);
                if !wanted {
                    assert_eq!(self.lose(bid), 204);
                }
                wanted
            });
            found.is_some()
        });
        found.unwrap()
    }

    pub(crate) fn notice(&mut self, path: &str) -> u16 {
        let answer = self.get(path);
        assert!(answer.body.is_empty(), "{answer:?}");
        answer.status
    }

    pub(crate) fn win(&mut self, bid: &Bid) -> u16 {
        self.notice(&bid.path("nurl", Some("1"), Some("USD")))
    }

    pub(crate) fn bill(&mut self, bid: &Bid) -> u16 {
        self.notice(&bid.bill_path())
    }

    pub(crate) fn lose(&mut self, bid: &Bid) -> u16 {
        self.notice(&bid.path("lurl", Some("1"), Some("USD")))
    }
}

fn is_timeout(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{TimedOut, WouldBlock};
    matches!(error.kind(), TimedOut | WouldBlock)
}

/// A `POST`; `headers` are whole lines.
pub(crate) fn post(path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let len = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len}\r\n{headers}\r\n"
    );
    [head.as_bytes(), body].concat()
}

pub(crate) fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes()
}

pub(crate) fn bid_request(request: &Value) -> Vec<u8> {
    post(BID_PATH, "", request.to_string().as_bytes())
}
