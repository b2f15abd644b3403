//! Laws over generated streams: pieces do not matter, noise does no harm.

use std::cell::RefCell;

use door_http::Limits;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};

use crate::support::{chunked, gzip, json, post};
use crate::workbench::Workbench;

fn limits() -> Limits {
    Limits {
        head_bytes_max: 400,
        target_bytes_max: 300,
        headers_max: 6,
        body_bytes_max: 3000,
        inflated_bytes_max: 4000,
        ..Limits::default()
    }
}

fn request() -> impl Strategy<Value = Vec<u8>> {
    let get = prop_oneof![Just("/none"), Just("/later"), Just("/nowhere"), Just("/ask?q")]
        .prop_map(|path| format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").into_bytes());
    let sized = (0..1500_usize).prop_map(|size| post("/echo", "", &json(size)));
    let packed = (0..4500_usize)
        .prop_map(|size| post("/size", "Content-Encoding: gzip\r\n", &gzip(&json(size))));
    let chunks = (0..1500_usize, 1..400_usize)
        .prop_map(|(size, chunk)| chunked("/size", "", &json(size), chunk));
    let odd = select(vec![
        "\r\n",
        "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
        "GET /page HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n",
        "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    ]);
    let last = select(vec![
        "GET / HTTP/1.0\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nA: 1\r\nB: 2\r\nC: 3\r\nD: 4\r\nE: 5\r\nF: 6\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4000\r\n\r\n",
        "GET /later HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        "GET \x01\r\n\r\n",
    ]);
    prop_oneof![
        4 => get,
        2 => sized,
        2 => packed,
        2 => chunks,
        2 => odd.prop_map(|text| text.as_bytes().to_vec()),
        1 => last.prop_map(|text| text.as_bytes().to_vec()),
    ]
}

/// Cuts `bytes` where `cuts` say, as parts of 2^16 of the whole.
fn cut(bytes: &[u8], cuts: &[u16]) -> Vec<Vec<u8>> {
    let mut at: Vec<usize> =
        cuts.iter().map(|cut| (bytes.len() * usize::from(*cut)) >> 16).collect();
    at.sort_unstable();
    at.push(bytes.len());
    let mut pieces = Vec::new();
    let mut from = 0;
    for end in at {
        pieces.push(bytes[from..end].to_vec());
        from = end;
    }
    pieces
}

/// Pieces of real requests, and bytes, in any order.
fn noise() -> impl Strategy<Value = Vec<u8>> {
    let words: [&[u8]; 16] = [
        b"GET ",
        b"POST ",
        b"/ ",
        b"/echo ",
        b"HTTP/1.1\r\n",
        b"HTTP/1.0\r\n",
        b"Host: x\r\n",
        b"\r\n",
        b"\n",
        b"Content-Length: 5\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Content-Encoding: gzip\r\n",
        b"5\r\nhello\r\n",
        b"0\r\n\r\n",
        b"Expect: 100-continue\r\n",
        b"\x1f\x8b\x08\0\0\0\0\0\0\x03",
    ];
    let word = prop_oneof![
        8 => (0..words.len()).prop_map(move |at| words[at].to_vec()),
        1 => vec(any::<u8>(), 1..20),
    ];
    vec(word, 1..25).prop_map(|words| words.concat())
}

/// Checks a law over generated cases, all of them on one worker.
fn law<S: Strategy>(
    cases: S,
    holds: impl Fn(&mut Workbench, S::Value) -> Result<(), TestCaseError>,
) {
    let config = Config { cases: 200, failure_persistence: None, ..Config::default() };
    let bench = RefCell::new(Workbench::start());
    let checked = TestRunner::new(config).run(&cases, |case| holds(&mut bench.borrow_mut(), case));
    checked.unwrap();
}

#[test]
fn pieces_do_not_matter() {
    let cases = (vec(request(), 1..6), vec(any::<u16>(), 0..12));
    law(cases, |bench, (requests, cuts)| {
        let bytes = requests.concat();
        let pieces = bench.play(limits(), cut(&bytes, &cuts));
        let whole = bench.play(limits(), vec![bytes]);
        prop_assert!(whole.closed || whole.left == 0, "whole requests leave nothing");
        prop_assert_eq!(pieces.output, whole.output);
        prop_assert_eq!(pieces.refused, whole.refused);
        prop_assert_eq!((pieces.requests, pieces.closed), (whole.requests, whole.closed));
        Ok(())
    });
}

#[test]
fn noise_is_refused_or_waits() {
    law((noise(), vec(any::<u16>(), 0..6)), |bench, (bytes, cuts)| {
        let played = bench.play(limits(), cut(&bytes, &cuts));
        prop_assert!(played.closed || played.left <= limits().request_bytes_max());
        prop_assert!(played.refused.iter().all(|why| (400..500).contains(&why.status())));
        Ok(())
    });
}

#[test]
fn a_damaged_byte_is_never_swallowed() {
    law((request(), any::<u16>(), any::<u8>()), |bench, (request, at, byte)| {
        let mut bytes = request;
        let at = (bytes.len() * usize::from(at)) >> 16;
        bytes[at] = byte;
        let whole = bench.play(limits(), vec![bytes.clone()]);
        let answered = whole.requests + whole.refused.len();
        prop_assert!(answered > 0 || whole.left > 0 || bytes == b"\r\n");
        Ok(())
    });
}
