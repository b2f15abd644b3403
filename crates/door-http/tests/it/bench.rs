//! What a request costs: parse, body, answer. Small here, so that it cannot rot; the example `http_bench`
//! runs it at full size.

use std::time::Instant;

use door_http::{Limits, Session};
use door_transport::Step;

use crate::support::{Site, gzip, json, post};
use crate::workbench::Workbench;

/// A request's body as exchanges send it.
const BODY_BYTES: usize = 1700;
/// Header lines as exchanges send them.
const HEADERS: &str = "User-Agent: Go-http-client/1.1\r\nAccept: application/json\r\n\
    Content-Type: application/json; charset=utf-8\r\nX-Openrtb-Version: 2.6\r\n\
    X-Forwarded-For: 203.0.113.9\r\nConnection: keep-alive\r\n";

#[test]
fn the_benchmark_runs() {
    let report = run(20, 2);
    assert_eq!(report.lines().count(), 4, "{report}");
}

/// Runs everything and says how it went. The best of `rounds`, because the machine is shared.
pub fn run(requests: usize, rounds: usize) -> String {
    let body = json(BODY_BYTES);
    let packing = format!("{HEADERS}Content-Encoding: gzip\r\n");
    let both = format!("{packing}Accept-Encoding: gzip\r\n");
    let cases = [
        ("plain post, 204", post("/none", HEADERS, &body)),
        ("plain post, 900 byte answer", post("/bid", HEADERS, &body)),
        ("gzip post, 900 byte answer", post("/bid", &packing, &gzip(&body))),
        ("gzip post, 3000 byte answer in gzip", post("/page", &both, &gzip(&body))),
    ];
    let mut bench = Workbench::start();
    let lines = cases.map(|(name, request)| {
        let size = request.len();
        let stream = request.repeat(requests);
        let best = (0..rounds).map(|_| once(&mut bench, stream.clone())).min().unwrap();
        format!("{name}: {} ns ({size} bytes)", best / requests as u128)
    });
    lines.join("\n")
}

/// Nanoseconds for all requests of `stream`.
fn once(bench: &mut Workbench, stream: Vec<u8>) -> u128 {
    let timed = bench.run(move |id, out, room| {
        let (mut session, mut site) = (Session::default(), Site::new(Limits::default()));
        let started = Instant::now();
        let step = session.received(id, &stream, out, room, &mut site);
        let ns = started.elapsed().as_nanos();
        assert_eq!(step, Step::Read { consumed: stream.len(), need: 0 });
        assert_eq!(site.refused, []);
        ns
    });
    timed.0
}
