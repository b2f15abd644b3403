//! The node's own worker behind its own doors: bytes of connections in, bytes of answers out. No line of it is written
//! again here, so what is changed in the worker, in a door's session or between them is counted.

use std::fmt::Write;
use std::hint::black_box;
use std::path::Path;

use weir_budgets::budgets::{self, Budget};
use weir_config::config::Config;
use weir_node::bench::Bench;
use wire::resolve::{self, Item};
use wire::{Action, Message, hello};

use super::Workload;
use super::decide::{self, FEW, FRAME};
use super::random::Random;

/// Frames, or requests, that one wake-up finds.
const WAKE_UP: usize = 8;
/// A wake-up comes every so many ms.
const WAKE_MS: u64 = 1;
/// A frame of resolves comes after so many frames of asks: one ask in ten is confirmed.
const RESOLVE_EVERY: usize = 10;
const CAMPAIGNS: u64 = 20_000;
/// One bid in so many wins, and its notices come.
const WINS: u64 = 8;
/// Requests as exchanges send them: banner, video, audio, native, pods, deals, users with and without an id.
const REQUESTS: &str = include_str!("../../../hammer/samples/openrtb.jsonl");

/// Frames of ten asks through the batch door, and one in ten of the granted tokens confirmed.
pub(crate) struct WorkerBench {
    bench: Bench,
    frames: Vec<Vec<u8>>,
    next: usize,
    tokens: Vec<[u8; 32]>,
    resolves: Vec<u8>,
    _folder: tempfile::TempDir,
}

impl WorkerBench {
    pub(crate) fn new() -> WorkerBench {
        let mut random = Random::new(1);
        let frames = decide::frames(FEW, &mut random);
        let lines: Vec<String> = (0..FEW.budgets)
            .map(|slot| format!(r#"{{"id":{},"unit":"USD","limit":"1000000"}}"#, decide::id(slot)))
            .collect();
        let (folder, mut bench) = bench(&lines.join("\n"));
        bench.wake(WAKE_MS);
        let mut greeting = vec![0; hello::encoded_len(0, 5)];
        let block = hello::Block::new(wire::SCHEMA_VERSION_MIN, wire::SCHEMA_VERSION, 7);
        let greeted = hello::encode(&mut greeting, &block).and_then(|e| e.auth(b"")?.name("bench"));
        greeted.expect("encoded_len says how long it is").finish();
        let (_, welcomed) = bench.batch(&greeting, |answer| !answer.is_empty());
        assert!(welcomed, "the door welcomes its client");
        let (tokens, resolves) = (Vec::new(), Vec::new());
        WorkerBench { bench, frames, next: 0, tokens, resolves, _folder: folder }
    }

    fn ask(&mut self) {
        let frame = black_box(&self.frames[self.next]);
        self.next = (self.next + 1) % self.frames.len();
        let (bench, tokens) = (&mut self.bench, &mut self.tokens);
        bench.batch(frame, |answer| {
            let Ok(Message::Decided(decided)) = Message::decode(answer) else { return };
            // A client reads them all; of each frame the first is confirmed.
            tokens.extend(decided.answers().get(0).map(|answer| *answer.token()));
        });
    }

    fn confirm(&mut self) {
        let items = self.tokens.iter().map(|token| Item::new(*token, 0, Action::Confirm, 1));
        let items: Vec<Item> = items.collect();
        self.resolves.resize(resolve::encoded_len(items.len()), 0);
        let block = resolve::Block::new(1);
        let encoded = resolve::encode(&mut self.resolves, &block).and_then(|e| e.resolves(&items));
        encoded.expect("encoded_len says how long it is").finish();
        self.bench.batch(&self.resolves, |answer| {
            black_box(answer.len());
        });
        self.tokens.clear();
    }
}

impl Workload for WorkerBench {
    fn step(&mut self) -> u64 {
        self.bench.wake(WAKE_MS);
        for _ in 0..WAKE_UP {
            self.ask();
        }
        if self.tokens.len() >= RESOLVE_EVERY {
            self.confirm();
        }
        self.bench.turn();
        WAKE_UP as u64 * u64::from(FRAME)
    }
}

/// Bid requests over HTTP, and the notices of one bid in [`WINS`].
pub(crate) struct Exchange {
    bench: Bench,
    requests: Vec<Vec<u8>>,
    next: usize,
    answered: u64,
    notices: Vec<Vec<u8>>,
    /// Answers with a bid, and notices that were sent.
    bids: u64,
    noticed: u64,
    _folder: tempfile::TempDir,
}

impl Exchange {
    pub(crate) fn new() -> Exchange {
        let mut random = Random::new(2);
        let lines: Vec<String> = (1..=CAMPAIGNS).map(|id| campaign(id, &mut random)).collect();
        let (folder, bench) = bench(&lines.join("\n"));
        let requests = REQUESTS.lines().map(post).collect();
        let (answered, notices) = (0, Vec::new());
        Exchange {
            bench,
            requests,
            next: 0,
            answered,
            notices,
            bids: 0,
            noticed: 0,
            _folder: folder,
        }
    }

    fn request(&mut self) {
        let request = black_box(&self.requests[self.next]);
        self.next = (self.next + 1) % self.requests.len();
        self.answered += 1;
        let wins = self.answered.is_multiple_of(WINS);
        let (bids, notices) = (&mut self.bids, &mut self.notices);
        self.bench.openrtb(request, |answer| {
            let is_bid = answer.starts_with(b"HTTP/1.1 200");
            *bids += u64::from(is_bid);
            if is_bid && wins {
                notices.extend(notice(answer));
            }
        });
    }
}

impl Workload for Exchange {
    fn step(&mut self) -> u64 {
        self.bench.wake(WAKE_MS);
        for _ in 0..WAKE_UP {
            self.request();
        }
        for notice in std::mem::take(&mut self.notices) {
            self.noticed += 1;
            black_box(self.bench.notice(&notice));
        }
        self.bench.turn();
        WAKE_UP as u64
    }
}

/// Calls of the JSON door, each of which reserves.
pub(crate) struct Calls {
    bench: Bench,
    calls: Vec<Vec<u8>>,
    next: usize,
    granted: u64,
    _folder: tempfile::TempDir,
}

impl Calls {
    pub(crate) fn new() -> Calls {
        let ids = || (0..FEW.budgets).map(decide::id);
        let line = |id| format!(r#"{{"id":{id},"unit":"USD","limit":"1000000"}}"#);
        let (folder, mut bench) = bench(&ids().map(line).collect::<Vec<_>>().join("\n"));
        bench.wake(WAKE_MS);
        let call = |id| {
            let body = format!(r#"{{"budget":{id},"amount":"0.000015","unit":"USD"}}"#);
            let head =
                "POST /v1/reserve HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json";
            format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
        };
        Calls { bench, calls: ids().map(call).collect(), next: 0, granted: 0, _folder: folder }
    }
}

impl Workload for Calls {
    fn step(&mut self) -> u64 {
        self.bench.wake(WAKE_MS);
        for _ in 0..WAKE_UP {
            let call = black_box(&self.calls[self.next]);
            self.next = (self.next + 1) % self.calls.len();
            let (_, is_granted) =
                self.bench.spend(call, |answer| answer.starts_with(b"HTTP/1.1 200"));
            self.granted += u64::from(is_granted);
        }
        self.bench.turn();
        WAKE_UP as u64
    }
}

/// A worker with these lines of a budgets file, and the folder of its profiles.
fn bench(lines: &str) -> (tempfile::TempDir, Bench) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("budgets.jsonl");
    std::fs::write(&file, lines).expect("a temporary file");
    let budgets = read(&file);
    let bench = Bench::new(&Config::default(), &budgets, &folder.path().join("profiles"));
    (folder, bench.expect("sound budgets"))
}

fn read(file: &Path) -> Vec<Budget> {
    budgets::read(file).unwrap_or_else(|errors| panic!("{}", errors[0]))
}

fn campaign(id: u64, random: &mut Random) -> String {
    let country = random.one(&["USA", "DEU", "FRA", "GBR", "JPN", "BRA"]);
    let (format, sizes) = match random.below(10) {
        0..6 => ("banner", r#"["300x250","728x90","320x50"]"#),
        6..9 => ("video", r#""any""#),
        _ => ("audio", r#""any""#),
    };
    let duration = if format == "banner" { "" } else { r#""duration_s":15,"# };
    let markup = if format == "banner" {
        "<a href='https://shop.example/'>x</a>"
    } else {
        "<VAST version='4.0'></VAST>"
    };
    let caps = if random.percent(50) { r#"{"max":20,"per":"day"}"# } else { "" };
    let (bid, brand) = (20 + random.below(600), random.below(300));
    let mut line = format!(
        r#"{{"id":{id},"unit":"USD","limit":"100000","bid":"{}.{:02}""#,
        bid / 100,
        bid % 100
    );
    let _ = write!(
        line,
        r#","advertiser":"brand-{brand}.example","seat":"seat-{}","caps":[{caps}],"targeting":{{"geo":{{"any":["{country}"]}}}},"creatives":[{{"id":"cr-{id}","format":"{format}","sizes":{sizes},{duration}"adomain":["brand-{brand}.example"],"cat":["IAB{}"],"markup":"{markup}"}}]}}"#,
        random.below(10),
        1 + random.below(24),
    );
    line
}

fn post(body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "POST /openrtb2/bid HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nx-openrtb-version: 2.6\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// The request that tells of a bid's bill, from the address in its answer.
fn notice(answer: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(answer).ok()?;
    let url = text.split_once(r#""burl":""#)?.1.split('"').next()?;
    let path = url.split_once("://")?.1.split_once('/')?.1;
    let path = path.replace("${AUCTION_PRICE}", "0.1");
    Some(format!("GET /{path} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_batch_door_grants_and_takes_tokens_back() {
        let mut worker = WorkerBench::new();
        let asked: u64 = (0..100).map(|_| worker.step()).sum();
        assert_eq!(asked, 100 * 80);
        assert!(worker.tokens.len() < 2 * RESOLVE_EVERY, "the rest came back");
    }

    #[test]
    fn the_exchange_gets_bids_and_its_notices_are_taken() {
        let mut exchange = Exchange::new();
        let asked: u64 = (0..50).map(|_| exchange.step()).sum();
        assert!(exchange.bids > asked / 3, "{} of {asked} answered with bids", exchange.bids);
        assert!(exchange.noticed > asked / (WINS * 4), "{} notices", exchange.noticed);
    }

    #[test]
    fn calls_are_granted() {
        let mut calls = Calls::new();
        let asked: u64 = (0..100).map(|_| calls.step()).sum();
        assert_eq!(calls.granted, asked);
    }
}
