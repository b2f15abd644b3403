//! That requests allocate nothing once the work space is warm. In a binary of its own, because it counts
//! every allocation of the process; one test, so that nothing else runs beside it.
#![allow(
    clippy::unwrap_used,
    dead_code,
    unreachable_pub,
    reason = "a test that cannot go on fails; the application is shared"
)]

use std::alloc::System;

use door_http::{Limits, Session};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

use support::{Site, chunked, gzip, json, post};
use workbench::Workbench;

#[path = "../it/support.rs"]
mod support;
#[path = "../it/workbench.rs"]
mod workbench;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn allocations() -> usize {
    let stats = ALLOCATOR.stats();
    stats.allocations + stats.reallocations
}

#[test]
fn requests_allocate_nothing_when_warm() {
    let body = json(1700);
    let gzip_both = "Content-Encoding: gzip\r\nAccept-Encoding: gzip\r\n";
    let requests = [
        post("/bid", "", &body),
        post("/none", "", &body),
        chunked("/bid", "", &body, 500),
        post("/page", gzip_both, &gzip(&body)),
        chunked("/page", gzip_both, &gzip(&body), 100),
    ];
    let stream = requests.concat().repeat(4);
    let mut bench = Workbench::start();
    let (made, output) = bench.run(move |id, out, room| {
        let (mut session, mut site) = (Session::default(), Site::new(Limits::default()));
        // The output is a growing buffer of the transport, of which this is more than enough.
        out.reserve(1 << 20);
        let mut round = || {
            let before = allocations();
            session.received(id, &stream, out, room, &mut site);
            allocations() - before
        };
        [(); 6].map(|()| round())
    });
    assert!(made[0] > 0, "the counting works: the first round grows the work space");
    // The threads of the tests themselves allocate once or twice, at a time of their own.
    assert!(made[1..].iter().filter(|made| **made == 0).count() >= 3, "{made:?}");
    assert!(output.len() > 10_000);
}
