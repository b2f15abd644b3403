//! A small bidder: OpenRTB over HTTP/1.1 and its books over the batch protocol, one thread per connection, one lock. It does
//! everything right, unless told to misbehave in one way. Its answers leave in pieces of random length.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use clap::Parser;
use serde_json::{Value, json};
use wire::{Message, Split, books, totals, welcome};

use crate::fake::run_until;

/// What the bidder does wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sin {
    /// Nothing.
    #[default]
    None,
    /// Books a repeated billing again.
    BookTwice,
    /// Books nothing for a billing it acknowledges, now and then.
    Forget,
    /// Books the bid's price where the notice told a lower one.
    IgnorePrice,
    /// Bids beyond its limits.
    Overspend,
    /// Answers a request with 500, once.
    Fail,
    /// Bids below the floor.
    BelowFloor,
    /// Answers with the id of another request.
    WrongId,
    /// Calls the first billing of a hold 503: rude but right.
    PutOff,
    /// Books the first billing of a hold and closes without an answer: rude but right.
    HangUp,
    /// Knows no notice.
    Forgetful,
    /// Never answers some requests.
    Silent,
    /// Answers in chunks: unusual but right.
    Chunked,
}

#[derive(Clone, Default)]
struct Budget {
    limit: i64,
    held: i64,
    settled: i64,
    late: i64,
}

struct Hold {
    budget: usize,
    price_micros: i64,
    multiplier_micros: i64,
    since: Instant,
    confirmed: bool,
    put_off: bool,
    is_held: bool,
    is_billed: bool,
}

struct State {
    sin: Sin,
    hold_ms: u64,
    budgets: Vec<Budget>,
    holds: Vec<Hold>,
    requests: u64,
    /// Calls of billing notices, and readings of the books.
    bills: u64,
    audits: u64,
    seen: HashMap<String, u64>,
    gzipped: u64,
    address: String,
}

/// A running bidder; it stops when dropped.
pub(crate) struct Bidder {
    pub(crate) openrtb: SocketAddr,
    pub(crate) batch: SocketAddr,
    state: Arc<Mutex<State>>,
    stop: Arc<AtomicBool>,
}

impl Drop for Bidder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let _ = (TcpStream::connect(self.openrtb), TcpStream::connect(self.batch));
    }
}

/// Requests, calls of billing notices, readings of the books.
#[derive(Clone, Copy)]
pub(crate) struct Seen {
    requests: u64,
    bills: u64,
    audits: u64,
}

impl Bidder {
    pub(crate) fn seen(&self) -> Seen {
        let state = self.state.lock().unwrap();
        Seen { requests: state.requests, bills: state.bills, audits: state.audits }
    }

    /// Has there been enough since `before` for anything to show?
    pub(crate) fn has_seen_enough(&self, before: Seen, audited: bool) -> bool {
        let seen = self.seen();
        let (requests, bills) = (seen.requests - before.requests, seen.bills - before.bills);
        // It ends up with every connection waiting for an answer.
        if self.state.lock().unwrap().sin == Sin::Silent {
            return requests >= 100;
        }
        let is_audited = !audited || seen.audits - before.audits >= 4;
        is_audited && requests >= 1_000 && (bills >= 100 || bills == 0 && requests >= 3_000)
    }

    /// Requests that came compressed, and whether any request id came twice.
    pub(crate) fn requests(&self) -> (u64, u64, bool) {
        let state = self.state.lock().unwrap();
        (state.requests, state.gzipped, state.seen.values().any(|&times| times > 1))
    }
}

/// Starts a bidder with `count` budgets of `limit` micros each; unconfirmed holds live `hold_ms`.
pub(crate) fn start(sin: Sin, count: usize, limit: i64, hold_ms: u64) -> Bidder {
    let stop = Arc::new(AtomicBool::new(false));
    let listen = || TcpListener::bind("127.0.0.1:0").unwrap();
    let (http, wire) = (listen(), listen());
    let (openrtb, batch) = (http.local_addr().unwrap(), wire.local_addr().unwrap());
    let state = Arc::new(Mutex::new(State {
        sin,
        hold_ms,
        budgets: vec![Budget { limit, ..Budget::default() }; count],
        holds: Vec::new(),
        requests: 0,
        bills: 0,
        audits: 0,
        seen: HashMap::new(),
        gzipped: 0,
        address: openrtb.to_string(),
    }));
    accept(http, &stop, &state, serve_http);
    accept(wire, &stop, &state, serve_batch);
    Bidder { openrtb, batch, state, stop }
}

fn accept(
    listener: TcpListener,
    stop: &Arc<AtomicBool>,
    state: &Arc<Mutex<State>>,
    serve: fn(&Mutex<State>, TcpStream),
) {
    let (stop, state) = (Arc::clone(stop), Arc::clone(state));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            if stop.load(Ordering::Acquire) {
                return;
            }
            let (state, stream) = (Arc::clone(&state), stream.unwrap());
            stream.set_nodelay(true).unwrap();
            std::thread::spawn(move || serve(&state, stream));
        }
    });
}

#[derive(Parser)]
#[command(args_override_self = true)]
struct Cli {
    #[command(flatten)]
    args: hammer::Args,
}

/// The arguments of a run against the bidder, which is to be stopped; its books are audited.
pub(crate) fn args(bidder: &Bidder, more: &str) -> hammer::Args {
    let line = format!(
        "hammer --openrtb --target {} --books {} --duration 1h --connections 3 --depth 8 --quiet --win 0.3 \
         --repeat 0.3 --bodies 200 --settle-delay 1ms --audit-every 50ms --drain 90s --timeout 90s {more}",
        bidder.openrtb, bidder.batch
    );
    Cli::try_parse_from(line.split_whitespace()).unwrap().args
}

/// Plays an exchange against the bidder until that has seen enough.
pub(crate) fn exchange(bidder: &Bidder, more: &str) -> hammer::ExchangeReport {
    play(bidder, &args(bidder, more))
}

/// The same until so many notices of billing have come: for means that are to be compared.
pub(crate) fn exchange_long(bidder: &Bidder, bills_min: u64) -> hammer::ExchangeReport {
    let args = args(bidder, "");
    let is_enough = || bidder.seen().bills >= bills_min && bidder.seen().audits >= 4;
    run_until(is_enough, |stop| hammer::run_exchange(&args, stop).unwrap())
}

/// The same with these arguments.
pub(crate) fn play(bidder: &Bidder, args: &hammer::Args) -> hammer::ExchangeReport {
    let before = bidder.seen();
    let is_enough = || bidder.has_seen_enough(before, args.books.is_some());
    run_until(is_enough, |stop| hammer::run_exchange(args, stop).unwrap())
}

fn serve_http(state: &Mutex<State>, mut stream: TcpStream) {
    let (mut input, mut piece) = (Vec::new(), 1_usize);
    let mut buf = [0; 65_536];
    loop {
        let mut out = Vec::new();
        let mut used = 0;
        while let Some((len, open)) = one_request(state, &input[used..], &mut out) {
            used += len;
            if !open {
                return;
            }
        }
        input.drain(..used);
        for part in split(&out, &mut piece) {
            if stream.write_all(part).is_err() {
                return;
            }
        }
        match stream.read(&mut buf) {
            Ok(0) | Err(_) => return,
            Ok(n) => input.extend_from_slice(&buf[..n]),
        }
    }
}

/// Cuts bytes into at most a few pieces, at places that look random.
fn split<'a>(out: &'a [u8], piece: &mut usize) -> Vec<&'a [u8]> {
    *piece = (*piece * 1_103 + 12_345) % 65_537;
    let Some(len) = out.len().checked_sub(1).filter(|len| *len > 0) else { return vec![out] };
    let (first, rest) = out.split_at(1 + *piece % len);
    let (second, third) = rest.split_at(*piece % rest.len());
    vec![first, second, third]
}

/// Answers the first whole request; returns its length, and whether the connection stays open.
fn one_request(state: &Mutex<State>, input: &[u8], out: &mut Vec<u8>) -> Option<(usize, bool)> {
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut head = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(head_len) = head.parse(input).unwrap() else { return None };
    let header = |name: &str| {
        let found = head.headers.iter().find(|h| h.name.eq_ignore_ascii_case(name));
        found.map(|h| std::str::from_utf8(h.value).unwrap())
    };
    let body_len: usize = header("content-length").map_or(0, |len| len.parse().unwrap());
    let body = input.get(head_len..head_len + body_len)?;
    assert!(header("host").is_some());
    let path = head.path.unwrap();
    let mut state = state.lock().unwrap();
    let mut open = true;
    if head.method == Some("GET") {
        match state.notice(path) {
            Some(status) => {
                write!(out, "HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n").unwrap()
            }
            None => open = false,
        }
    } else {
        assert_eq!((path, header("x-openrtb-version")), ("/openrtb2/bid", Some("2.6")));
        let mut plain = body.to_vec();
        if header("content-encoding") == Some("gzip") {
            state.gzipped += 1;
            plain.clear();
            flate2::read::GzDecoder::new(body).read_to_end(&mut plain).unwrap();
        }
        state.request(&serde_json::from_slice(&plain).unwrap(), out);
    }
    Some((head_len + body_len, open))
}

impl State {
    fn request(&mut self, request: &Value, out: &mut Vec<u8>) {
        self.requests += 1;
        let id = request["id"].as_str().unwrap().to_owned();
        *self.seen.entry(id.clone()).or_default() += 1;
        if self.sin == Sin::Silent && self.requests % 100 == 99 {
            return;
        }
        if self.sin == Sin::Fail && self.requests == 50 {
            return out.extend_from_slice(b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n");
        }
        self.expire();
        let imps = request["imp"].as_array().unwrap();
        let bids: Vec<Value> = imps.iter().filter_map(|imp| self.bid(imp)).collect();
        if bids.is_empty() {
            return out.extend_from_slice(b"HTTP/1.1 204 No Content\r\n\r\n");
        }
        let id = if self.sin == Sin::WrongId { "other" } else { &id };
        let answer =
            json!({"id": id, "cur": "USD", "seatbid": [{"seat": "weir", "bid": bids}]}).to_string();
        if self.sin == Sin::Chunked {
            let (first, rest) = answer.split_at(answer.len() / 2);
            write!(out, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
            write!(out, "{:x}\r\n{first}\r\n{:x}\r\n{rest}\r\n0\r\n\r\n", first.len(), rest.len())
                .unwrap();
            return;
        }
        write!(out, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{answer}", answer.len()).unwrap();
    }

    /// Bids half a dollar above the floor on every second impression without a private deal.
    fn bid(&mut self, imp: &Value) -> Option<Value> {
        let number = self.holds.len();
        if imp["pmp"].is_object() || self.requests.is_multiple_of(2) {
            return None;
        }
        let floor = match &imp["bidfloor"] {
            Value::String(text) => text.parse().unwrap(),
            floor => floor.as_f64().unwrap_or(0.0),
        };
        let floor_micros = micros(floor);
        let price_micros = match self.sin {
            Sin::BelowFloor => (floor_micros - 10_000).max(1),
            _ => floor_micros + 500_000,
        };
        let multiplier_micros = micros(imp["qty"]["multiplier"].as_f64().unwrap_or(1.0));
        let cost = cost(price_micros, multiplier_micros);
        let index = number % self.budgets.len();
        let budget = &mut self.budgets[index];
        if budget.limit - budget.held - budget.settled < cost && self.sin != Sin::Overspend {
            return None;
        }
        budget.held += cost;
        let since = Instant::now();
        self.holds.push(Hold {
            budget: index,
            price_micros,
            multiplier_micros,
            since,
            confirmed: false,
            put_off: false,
            is_held: true,
            is_billed: false,
        });
        let url = |kind: &str| {
            format!(
                "http://{}/n/{kind}/{number}/${{AUCTION_PRICE}}/${{AUCTION_CURRENCY}}",
                self.address
            )
        };
        let price: Value = serde_json::from_str(&format!(
            "{}.{:06}",
            price_micros / 1_000_000,
            price_micros % 1_000_000
        ))
        .unwrap();
        Some(json!({
            "id": number.to_string(), "impid": imp["id"], "price": price, "crid": "c1", "cid": (index + 1).to_string(),
            "adm": "<a href=\"https://x.example/?p=${AUCTION_PRICE}\">\n</a>", "adomain": ["x.example"],
            "nurl": url("win"), "burl": url("bill"), "lurl": url("loss")
        }))
    }

    fn expire(&mut self) {
        let hold_ms = u128::from(self.hold_ms);
        for hold in self.holds.iter_mut().rev().take(20_000) {
            if hold.is_held && !hold.confirmed && hold.since.elapsed().as_millis() > hold_ms {
                hold.is_held = false;
                self.budgets[hold.budget].held -= cost(hold.price_micros, hold.multiplier_micros);
            }
        }
    }

    /// The status of a notice; `None` closes the connection.
    fn notice(&mut self, path: &str) -> Option<u16> {
        self.expire();
        let parts: Vec<&str> = path.split('/').collect();
        let ["", "n", kind, number, price, currency] = parts[..] else { panic!("notice {path}") };
        assert_eq!(currency, "USD");
        if self.sin == Sin::Forgetful {
            return Some(404);
        }
        let sin = self.sin;
        let number: usize = number.parse().unwrap();
        let hold = &mut self.holds[number];
        let budget = &mut self.budgets[hold.budget];
        let held = cost(hold.price_micros, hold.multiplier_micros);
        match kind {
            "win" => hold.confirmed = true,
            "loss" if hold.is_held => {
                hold.is_held = false;
                budget.held -= held;
            }
            "loss" => {}
            "bill" => {
                self.bills += 1;
                let first = !std::mem::replace(&mut hold.put_off, true);
                if sin == Sin::PutOff && first {
                    return Some(503);
                }
                if !hold.is_billed || sin == Sin::BookTwice {
                    let amount = cost(hold.told(price, sin), hold.multiplier_micros);
                    let line = if hold.is_held || hold.is_billed {
                        &mut budget.settled
                    } else {
                        &mut budget.late
                    };
                    *line +=
                        if sin == Sin::Forget && number.is_multiple_of(7) { 0 } else { amount };
                    budget.held -= if hold.is_held { held } else { 0 };
                    (hold.is_billed, hold.is_held) = (true, false);
                }
                if sin == Sin::HangUp && first {
                    return None;
                }
            }
            other => panic!("a notice of kind {other}"),
        }
        Some(204)
    }
}

impl Hold {
    /// The price to book for what a notice says.
    fn told(&self, price: &str, sin: Sin) -> i64 {
        let told = price.parse::<f64>().ok().filter(|p| *p > 0.0 && p.is_finite()).map(micros);
        match told {
            Some(told) if told <= self.price_micros && sin != Sin::IgnorePrice => told,
            _ => self.price_micros,
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a test's price is small; a huge one saturates"
)]
fn micros(units: f64) -> i64 {
    (units * 1e6).round() as i64
}

fn cost(price_micros: i64, multiplier_micros: i64) -> i64 {
    let product = i128::from(price_micros) * i128::from(multiplier_micros);
    i64::try_from((product + 999_999_999) / 1_000_000_000).unwrap()
}

fn serve_batch(state: &Mutex<State>, mut stream: TcpStream) {
    let (mut input, mut filled) = (vec![0; 1 << 16], 0);
    let mut buf = vec![0; 1 << 18];
    loop {
        let mut used = 0;
        while let Ok(Split::Frame(frame)) = wire::frame::split(&input[used..filled], 1 << 20) {
            used += frame.len();
            let len = state.lock().unwrap().answer(frame, &mut buf);
            if stream.write_all(&buf[..len]).is_err() {
                return;
            }
        }
        input.copy_within(used..filled, 0);
        filled -= used;
        match stream.read(&mut input[filled..]) {
            Ok(0) | Err(_) => return,
            Ok(n) => filled += n,
        }
    }
}

impl State {
    fn answer(&mut self, frame: &[u8], buf: &mut [u8]) -> usize {
        self.expire();
        match Message::decode(frame).unwrap() {
            Message::Hello(_) => {
                let hold_ms = u32::try_from(self.hold_ms).unwrap();
                let block = welcome::Block::new(1, 1, 1, 64, 0, 1 << 20, hold_ms, 3_600_000, 0);
                welcome::encode(buf, &block).unwrap().finish()
            }
            Message::BooksRequest(request) => {
                self.audits += 1;
                let rows: Vec<books::Budget> = (1..)
                    .zip(&self.budgets)
                    .map(|(id, b)| {
                        let free = b.limit - b.held - b.settled - b.late;
                        books::Budget::new(
                            id, b.limit, free, 0, b.held, b.settled, 0, b.late, *b"USD\0",
                        )
                    })
                    .collect();
                let block = books::Block::new(request.frame(), 0, 0);
                books::encode(buf, &block).unwrap().budgets(&rows).unwrap().finish()
            }
            Message::TotalsRequest(request) => {
                let requests = self.requests;
                let block =
                    totals::Block::new(request.frame(), 0, requests * 70, requests, requests, 0, 0);
                totals::encode(buf, &block).unwrap().verdicts(&[]).unwrap().finish()
            }
            other => panic!("the exchange sent {}", other.name()),
        }
    }
}
