//! Bodies as they come: chunked, packed, damaged, too large.

use door_http::{Limits, Refusal};

use crate::support::{chunked, gzip, json, post};
use crate::workbench::{Played, Workbench};

const GZIP: &str = "Content-Encoding: gzip\r\n";

/// The body of the only answer, which must be a 200.
fn echoed(played: &Played) -> &[u8] {
    assert!(played.output.starts_with(b"HTTP/1.1 200 OK\r\n"), "{played:?}");
    let head = played.output.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    &played.output[head + 4..]
}

#[test]
fn bodies_arrive_whole_however_they_are_sent() {
    let mut bench = Workbench::start();
    for size in [0, 1, 1700, 70_000] {
        let body = json(size);
        let parts = [gzip(&body[..size / 2]), gzip(&body[size / 2..])].concat();
        let requests = [
            post("/echo", "", &body),
            post("/echo", "Content-Encoding: identity\r\n", &body),
            post("/echo", GZIP, &gzip(&body)),
            post("/echo", "Content-Encoding: X-GZip\r\n", &gzip(&body)),
            post("/echo", GZIP, &parts),
            chunked("/echo", "", &body, 1000),
            chunked("/echo", GZIP, &gzip(&body), 100),
        ];
        for request in requests {
            assert!(echoed(&bench.ask(&request)) == body, "{size}");
        }
    }
    assert_eq!(echoed(&bench.ask(&post("/echo", GZIP, b""))), b"");
}

#[test]
fn damaged_and_exploding_bodies_cost_their_request_only() {
    let mut bench = Workbench::start();
    let packed = gzip(&json(5000));
    let flipped = [&packed[..packed.len() - 8], &[0; 8]].concat();
    let bomb = gzip(&vec![0; 10 << 20]);
    assert!(bomb.len() < 11_000, "{}", bomb.len());
    let cases: [(&str, &[u8], Refusal); 7] = [
        (GZIP, &packed[..packed.len() - 1], Refusal::BadGzip),
        (GZIP, &packed[..50], Refusal::BadGzip),
        (GZIP, &flipped, Refusal::BadGzip),
        (GZIP, b"not gzip at all", Refusal::BadGzip),
        (GZIP, &bomb, Refusal::InflatedTooLarge),
        ("Content-Encoding: deflate\r\n", &packed, Refusal::UnknownContentEncoding),
        (
            "Content-Encoding: gzip\r\nContent-Encoding: gzip\r\n",
            &packed,
            Refusal::UnknownContentEncoding,
        ),
    ];
    let next = b"GET /none HTTP/1.1\r\nHost: x\r\n\r\n";
    for (headers, body, why) in cases {
        for mut request in [post("/echo", headers, body), chunked("/echo", headers, body, 333)] {
            request.extend_from_slice(next);
            let played = bench.ask(&request);
            assert_eq!(played.refused, [why]);
            let text = String::from_utf8(played.output).unwrap();
            assert!(text.starts_with(&format!("HTTP/1.1 {} ", why.status())), "{text}");
            assert!(text.ends_with("\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"), "{text}");
        }
    }
}

#[test]
fn the_limits_are_exact() {
    let mut bench = Workbench::start();
    let limits = Limits { body_bytes_max: 5000, inflated_bytes_max: 20_000, ..Limits::default() };
    let mut ask = |request: Vec<u8>| bench.play(limits, vec![request]);
    assert_eq!(ask(post("/size", "", &[b'x'; 5000])).refused, []);
    assert_eq!(ask(post("/size", "", &[b'x'; 5001])).refused, [Refusal::BodyTooLarge]);
    assert_eq!(ask(post("/size", GZIP, &gzip(&json(20_000)))).refused, []);
    assert_eq!(ask(post("/size", GZIP, &gzip(&json(20_001)))).refused, [Refusal::InflatedTooLarge]);
    assert_eq!(ask(chunked("/size", "", &[b'x'; 4900], 4900)).refused, []);
    let framing = ask(chunked("/size", "", &[b'x'; 4900], 1));
    assert_eq!((framing.refused, framing.closed), (vec![Refusal::BodyTooLarge], true));
}

#[test]
fn a_body_of_known_size_is_not_looked_at_before_it_is_there() {
    let mut bench = Workbench::start();
    for request in [post("/size", "", &json(50_000)), chunked("/size", "", &json(50_000), 50_000)] {
        let pieces = request.chunks(10).map(<[u8]>::to_vec).collect();
        let played = bench.play(Limits::default(), pieces);
        assert_eq!(echoed(&played), b"50000");
        // The head came in a few pieces, the body in 5,000.
        assert!(played.calls < 25, "{} calls", played.calls);
    }
}
