//! HTTP as exchanges speak it, and as nobody should.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use table::SplitMix64;

use crate::openrtb::{
    BID_PATH, Http, bid_request, campaign, check_no_violation, counts_at_rest, get, patient, post,
    request, wait_count,
};
use crate::support::{Node, over_transports, wait_for};

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn one_campaign() -> crate::support::Setup {
    patient(&[campaign(1, json!({}))])
}

/// A connection, once the worker has money for bids.
fn ready(node: &Node) -> Http {
    let mut http = Http::to(node);
    http.bid_soon(&request("money", json!({})));
    http
}

#[test]
fn every_answer_has_the_status_that_it_should() {
    let setup = || one_campaign().with("openrtb.body_bytes_max", "65536");
    over_transports(setup, |node| {
        let body = request("r", json!({})).to_string().into_bytes();
        let body = body.as_slice();
        let large = vec![b' '; 65_537];
        let many = "X-Y: 1\r\n".repeat(200);
        let long = format!("X-Y: {}\r\n", "z".repeat(20_000));
        let packed = gzip(body);
        let bomb = gzip(&vec![b' '; 10 << 20]);
        let gz = "Content-Encoding: gzip\r\n";
        let bid = |headers: &str, body: &[u8]| post(BID_PATH, headers, body);
        for (what, bytes, status) in [
            ("a bid", bid("", body), 200),
            ("compressed", bid(gz, &packed), 200),
            ("another name of JSON", bid("Content-Type: text/json\r\n", body), 200),
            ("no JSON", bid("Content-Type: text/plain\r\n", body), 415),
            ("its version", bid("x-openrtb-version: 2.5\r\n", body), 200),
            ("health", get("/health"), 200),
            ("no campaign", bid("", br#"{"id":"1","imp":[{"id":"1","native":{}}]}"#), 204),
            ("no impression", bid("", br#"{"id":"1","imp":[]}"#), 400),
            ("no id", bid("", br#"{"imp":[{"id":"1"}]}"#), 400),
            ("no object", bid("", b"[]"), 400),
            ("cut", bid("", &body[..body.len() - 1]), 400),
            ("nothing", bid("", b""), 400),
            ("garbage", bid("", &[0xff, 0, 1, 2]), 400),
            ("depth", bid("", "[".repeat(30_000).as_bytes()), 400),
            ("cut gzip", bid(gz, &packed[..packed.len() / 2]), 400),
            ("no gzip", bid(gz, body), 400),
            ("another path", post("/openrtb2/bids", "", body), 404),
            ("the root", get("/"), 404),
            ("GET", get(BID_PATH), 405),
            ("DELETE", b"DELETE /health HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(), 405),
            ("too large", bid("", &large), 413),
            ("a bomb", bid(gz, &bomb), 413),
            ("a long target", get(&format!("/{}", "x".repeat(20_000))), 414),
            ("protobuf", bid("Content-Type: application/octet-stream\r\n", body), 415),
            ("brotli", bid("Content-Encoding: br\r\n", body), 415),
            ("many headers", bid(&many, body), 431),
            ("a long header", bid(&long, body), 431),
            ("HTTP/2", b"PRI * HTTP/2.0\r\n\r\n".to_vec(), 400),
            ("no host", format!("GET {BID_PATH} HTTP/1.1\r\n\r\n").into_bytes(), 400),
        ] {
            let mut http = ready(node);
            // A refusal may come, and end the connection, before everything is sent.
            let _ = http.try_send(&bytes);
            let answer = http.receive();
            assert_eq!(answer.status, status, "{what}: {answer:?}");
            let not_read = ["HTTP/2", "no host", "cut gzip", "no gzip"];
            let says_why = matches!(what, "no JSON" | "protobuf")
                || status == 400 && !not_read.contains(&what);
            assert_eq!(answer.body.is_empty(), status != 200 && !says_why, "{what}");
            if matches!(status, 200 | 204) && what != "health" {
                assert_eq!(answer.header("x-openrtb-version"), Some("2.6"), "{what}");
            }
            if status == 200 && what != "health" {
                assert_eq!(answer.header("content-type"), Some("application/json;charset=utf-8"));
                assert_eq!(answer.json()["id"], "r");
            }
            if what == "GET" {
                assert_eq!(answer.header("allow"), Some("post"));
            }
        }
        wait_count(node, "unknown_format", 2);
        wait_count(node, "refused_http/body_too_large", 1);
        wait_count(node, "refused_http/inflated_too_large", 1);
        check_no_violation(node);
    });
}

#[test]
fn answers_are_compressed_for_who_takes_it() {
    let node = one_campaign().with("openrtb.gzip_bytes_min", "64").start();
    let mut http = ready(&node);
    let body = request("r", json!({})).to_string();
    let accepting = post(BID_PATH, "Accept-Encoding: gzip\r\n", body.as_bytes());
    http.send(&accepting);
    let answer = http.receive();
    assert_eq!((answer.status, answer.header("content-encoding")), (200, Some("gzip")));
    let mut text = String::new();
    GzDecoder::new(answer.body.as_slice()).read_to_string(&mut text).unwrap();
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(answer["seatbid"][0]["bid"][0]["crid"], "cr-1");
    for refuses in ["", "Accept-Encoding: gzip;q=0\r\n", "Accept-Encoding: br\r\n"] {
        http.send(&post(BID_PATH, refuses, body.as_bytes()));
        let answer = http.receive();
        assert_eq!(answer.header("content-encoding"), None, "{refuses}");
        assert_eq!(answer.json()["id"], "r");
    }
}

#[test]
fn pipelined_answers_keep_their_order_also_those_that_wait_for_the_disk() {
    over_transports(one_campaign, |node| {
        let mut http = ready(node);
        let won: Vec<_> = (0..8).map(|n| http.bid_soon(&request(n, json!({})))).collect();
        let mut all = Vec::new();
        for (number, bid) in won.iter().enumerate() {
            all.extend(bid_request(&request(format!("before-{number}"), json!({}))));
            all.extend(get(&bid.path("nurl", Some("1"), None)));
            all.extend(get(&bid.bill_path()));
            all.extend(get("/nowhere"));
            all.extend(bid_request(&request(format!("after-{number}"), json!({}))));
        }
        http.send(&all);
        for number in 0..won.len() {
            assert_eq!(http.receive().json()["id"], format!("before-{number}"));
            assert_eq!([http.receive().status, http.receive().status], [204; 2]);
            assert_eq!(http.receive().status, 404);
            assert_eq!(http.receive().json()["id"], format!("after-{number}"));
        }
        assert_eq!(node.budget(1).settled, 8 * 2_000);
    });
}

#[test]
fn who_leaves_too_little_time_gets_no_bid() {
    let node = one_campaign().with("openrtb.no_bid_body", "true").start();
    let mut http = ready(&node);
    for (number, tmax) in [0, 1, 20].into_iter().enumerate() {
        assert!(http.bid(&request("late", json!({"tmax": tmax}))).is_none());
        wait_count(&node, "no_bids/insufficient_time", number as u64 + 1);
    }
    // Where it is configured, other answers say why.
    let nothing = request("why", json!({"imp": [{"id": "1", "native": {"request": "{}"}}]}));
    let answer = http.post(BID_PATH, nothing.to_string().as_bytes());
    assert_eq!((answer.status, answer.json()), (200, json!({"id": "why", "nbr": 505})));
}

#[test]
fn a_token_in_the_path_keeps_strangers_out() {
    let node = one_campaign().with("openrtb.path_token", "s3cret").start();
    let body = request("r", json!({})).to_string();
    let mut http = Http::to(&node);
    for path in [BID_PATH, "/openrtb2/bid/", "/openrtb2/bid/other", "/openrtb2/bid/s3cret/"] {
        assert_eq!(http.post(path, body.as_bytes()).status, 404, "{path}");
    }
    let path = "/openrtb2/bid/s3cret?exchange=1";
    let mut bids = Vec::new();
    wait_for("a bid", || {
        bids = http.post(path, body.as_bytes()).bids();
        !bids.is_empty()
    });
    assert_eq!(http.bill(&bids[0]), 204, "notices need none: their ids cannot be guessed");
}

#[test]
fn slow_and_half_closed_clients_are_answered_and_silent_ones_closed() {
    let setup = || one_campaign().with("transport.partial_ms_max", "1000");
    over_transports(setup, |node| {
        let mut http = ready(node);
        let bid = http.bid_soon(&request("a", json!({})));
        // A few bytes at a time.
        for part in bid_request(&request("slow", json!({}))).chunks(40) {
            http.send(part);
            std::thread::sleep(Duration::from_millis(2));
        }
        assert_eq!(http.receive().json()["id"], "slow");
        // Sends its last notice, and nothing ever again.
        http.send(&[get(&bid.bill_path()), bid_request(&request("last", json!({})))].concat());
        http.finish();
        assert_eq!(http.receive().status, 204);
        assert_eq!(http.receive().json()["id"], "last");
        assert!(http.try_receive().is_none());
        assert_eq!(node.budget(1).settled, 2_000);
        // Half a request, and then nothing.
        let mut half = Http::to(node);
        let whole = bid_request(&request("half", json!({})));
        half.send(&whole[..whole.len() - 1]);
        assert!(half.try_receive().is_none());
    });
}

#[test]
fn a_stop_answers_what_waits() {
    let setup = one_campaign();
    let mut node = setup.clone().start();
    let mut http = ready(&node);
    let won: Vec<_> = (0..40).map(|n| http.bid_soon(&request(n, json!({})))).collect();
    let mut conns: Vec<Http> = (0..8).map(|_| Http::to(&node)).collect();
    // Every connection is known to the node before it is told to stop.
    conns.iter_mut().for_each(|http| assert_eq!(http.get("/health").status, 200));
    for (http, bids) in conns.iter_mut().zip(won.chunks(5)) {
        http.send(&bids.iter().flat_map(|bid| get(&bid.bill_path())).collect::<Vec<_>>());
    }
    node.terminate();
    let mut acknowledged = 0;
    for http in &mut conns {
        while let Some(answer) = http.try_receive() {
            assert_eq!(answer.status, 204);
            acknowledged += 1;
        }
    }
    assert!(node.wait_end().success(), "{}", node.log());
    println!("{acknowledged} of {} were answered", won.len());
    let node = setup.start();
    let settled = node.budget(1).settled;
    assert!(settled >= acknowledged * 2_000 && settled % 2_000 == 0, "{settled}");
    let mut http = Http::to(&node);
    for bid in &won {
        assert_eq!(http.bill(bid), 204);
    }
    assert_eq!(node.budget(1).settled, 40 * 2_000);
}

struct Rng(SplitMix64);

impl Rng {
    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.0.below(end as u64)).unwrap()
    }

    /// Cuts it, turns bits over, repeats or removes a part, or puts something else in a value's place.
    fn mutated(&mut self, body: &[u8]) -> Vec<u8> {
        const WORDS: [&[u8]; 10] = [
            b"null",
            b"-1",
            b"1e999",
            b"{}",
            b"[[]]",
            b"\"\"",
            b"true",
            b"\xff\xfe",
            b"99999999999999999999",
            b"\\u0000",
        ];
        let mut body = body.to_vec();
        let (from, len) = (self.below(body.len()), 1 + self.below(20));
        let to = (from + len).min(body.len());
        match self.below(5) {
            0 => body.truncate(from),
            1 => body[from] ^= 1 << self.below(8),
            2 => drop(body.drain(from..to)),
            3 => {
                let part = body[from..to].to_vec();
                body.splice(from..from, part);
            }
            _ => {
                let word = WORDS[self.below(WORDS.len())];
                // The value after the next colon, roughly.
                let colon = body[from..].iter().position(|byte| *byte == b':');
                let start = colon.map_or(from, |at| from + at + 1);
                let end = body[start..].iter().position(|byte| b",}]".contains(byte));
                let end = end.map_or(body.len(), |at| start + at);
                drop(body.splice(start..end, word.iter().copied()));
            }
        }
        body
    }
}

/// Our own samples, and the corpus of real bodies where there is one.
fn bodies() -> Vec<Vec<u8>> {
    let samples =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proof/hammer/samples/openrtb.jsonl");
    let mut files = vec![samples];
    match std::env::var_os("CORPUS") {
        Some(folder) => files.push(PathBuf::from(folder).join("openrtb/bodies.jsonl")),
        None => println!("skipped: CORPUS is not set, so only our own samples are used"),
    }
    let text = |file: &PathBuf| std::fs::read_to_string(file).unwrap();
    let lines =
        |text: String| text.lines().map(|line| line.as_bytes().to_vec()).collect::<Vec<_>>();
    files.iter().flat_map(|file| lines(text(file))).filter(|body| !body.is_empty()).collect()
}

/// Bodies in one piece over a connection; how many were answered with bids.
fn play(http: &mut Http, bodies: &[Vec<u8>]) -> usize {
    http.send(&bodies.iter().flat_map(|body| post(BID_PATH, "", body)).collect::<Vec<_>>());
    let statuses = bodies.iter().map(|body| {
        let answer = http.receive();
        let body = String::from_utf8_lossy(body);
        assert!(matches!(answer.status, 200 | 204 | 400), "{} to {body}", answer.status);
        answer.status
    });
    statuses.filter(|status| *status == 200).count()
}

/// What a native creative has.
const NATIVE: &str = r#"{"link":{"url":"https://brand.example"},"assets":[{"title":{"text":"New"}},
    {"img":{"url":"https://i.example/a.png","w":1200,"h":627}},{"data":{"type":2,"value":"Buy"}}]}"#;

#[test]
fn real_and_damaged_bodies_are_answered_and_move_no_money_of_their_own() {
    let any = |id: &str, format: &str, more: Value| {
        let format = json!({"format": format, "sizes": "any"});
        crate::openrtb::creative(id, crate::openrtb::with(format, more))
    };
    let creatives = [
        any("b", "banner", json!({"cat": ["IAB3"], "attr": [1], "language": "en"})),
        any("v", "video", json!({"duration_s": 15, "markup": "<VAST>${WEIR_BURL}</VAST>"})),
        any("a", "audio", json!({"duration_s": 30})),
        any("n", "native", json!({"markup": NATIVE})),
    ];
    let campaigns: Vec<Value> = (0..)
        .zip(&creatives)
        .map(|(n, creative)| {
            let fields = json!({"bid": "90.00", "limit": "1000000", "seat": format!("s{n}"), "creatives": [creative]});
            campaign(n + 1, fields)
        })
        .collect();
    let node = patient(&campaigns)
        .with("openrtb.rates", "EUR=1.1")
        // Notices of markup may be called from secure pages.
        .with("openrtb.public_url", "https://win.example")
        .start();
    let mut http = Http::to(&node);
    let bodies = bodies();
    let mut bids = 0;
    for part in bodies.chunks(20) {
        bids += play(&mut http, part);
    }
    println!("{bids} of {} bodies got bids", bodies.len());
    assert!(bids > 0);
    check_no_violation(&node);
    let mut rng = Rng(SplitMix64::new(7));
    for _ in 0..100 {
        let mut damaged = || {
            let at = rng.below(bodies.len());
            rng.mutated(&bodies[at])
        };
        let damaged: Vec<Vec<u8>> = (0..20).map(|_| damaged()).collect();
        play(&mut http, &damaged);
    }
    assert_eq!(http.get("/health").status, 200);
    for id in 1..=4 {
        let books = node.budget(id);
        assert_eq!((books.settled, books.over_settled, books.late), (0, 0, 0));
    }
    println!("violations of damaged bodies: {}", counts_at_rest(&node)["violations"]);
}

#[test]
fn nothing_that_strangers_send_stops_the_others() {
    // Halves outlive the test.
    let setup = || one_campaign().with("transport.partial_ms_max", "600000");
    over_transports(setup, |node| {
        let mut http = ready(node);
        let memory = node.resident_bytes();
        let whole = bid_request(&request("half", json!({})));
        // Five hundred that stop in the middle, of head or body.
        let mut halves: Vec<Http> = (0..500).map(|_| Http::to(node)).collect();
        for (number, half) in halves.iter_mut().enumerate() {
            assert!(half.try_send(&whole[..1 + number % (whole.len() - 1)]));
        }
        assert!(http.bid(&request("meanwhile", json!({}))).is_some());
        let mut rng = Rng(SplitMix64::new(9));
        for _ in 0..50 {
            let garbage: Vec<u8> =
                (0..2_000).map(|_| u8::try_from(rng.below(256)).unwrap()).collect();
            let mut stranger = Http::to(node);
            let _ = stranger.try_send(&garbage);
            let _ = stranger.try_send(b"\r\n\r\n");
            stranger.finish();
            while let Some(answer) = stranger.try_receive() {
                assert!((400..500).contains(&answer.status), "{answer:?}");
            }
        }
        let mut flood = Http::to(node).hasty();
        while flood.try_send("X-Flood: 1\r\n".repeat(1_000).as_bytes()) {}
        let large = post(BID_PATH, "", &vec![b'x'; 10 << 20]);
        let mut stranger = Http::to(node).hasty();
        let _ = stranger.try_send(&large);
        if let Some(answer) = stranger.try_receive() {
            assert_eq!(answer.status, 413);
        }
        let bomb = gzip(&vec![b' '; 32 << 20]);
        for _ in 0..5 {
            let mut stranger = Http::to(node);
            stranger.send(&post(BID_PATH, "Content-Encoding: gzip\r\n", &bomb));
            assert_eq!(stranger.receive().status, 413);
        }
        assert!(http.bid(&request("after", json!({}))).is_some());
        assert_eq!(http.get("/health").status, 200);
        // The halves can still be finished.
        for (number, half) in halves.iter_mut().enumerate().take(50) {
            half.send(&whole[1 + number % (whole.len() - 1)..]);
            assert_eq!(half.receive().status, 200);
        }
        let grown = node.resident_bytes().saturating_sub(memory);
        assert!(grown < 64 << 20, "{grown} bytes");
    });
}
