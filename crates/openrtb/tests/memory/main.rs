//! A request that is read, bid for and answered allocates nothing, once buffers are warm. In a binary of its own,
//! because it counts every allocation of the process; one test, so that nothing else runs beside it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(dead_code, reason = "the modules are shared with the other tests")]

#[path = "../it/bidder.rs"]
mod bidder;
#[path = "../it/bodies.rs"]
mod bodies;

use std::alloc::System;

use door_transport::ConnId;
use openrtb::{Ad, Answer, BidRequest, Door, Event, Gate, Notice, NoticeStatus, Noticed, Outcome};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

struct Fixed {
    banner: Ad,
    bids: usize,
}

impl Gate for Fixed {
    fn now_ms(&self) -> u64 {
        bidder::NOW_MS
    }

    fn bid(&mut self, request: &BidRequest<'_>, answer: &mut Answer<'_>) -> Outcome {
        for (place, imp) in request.imps.iter().enumerate().filter(|(_, imp)| imp.banner.is_some())
        {
            let banner = imp.banner.as_ref().map(|banner| request.formats(banner).len());
            let width_height = if banner == Some(0) { (320, 50) } else { (300, 250) };
            let bid = openrtb::Bid {
                imp: place,
                width: width_height.0,
                height: width_height.1,
                ..bidder::bid(&self.banner)
            };
            self.bids += usize::from(answer.push(&bid).is_ok());
        }
        Outcome::Bids
    }

    fn notice(&mut self, _: ConnId, _: &Notice<'_>) -> Noticed {
        Noticed::Now(NoticeStatus::Taken)
    }

    fn refused(&mut self, _: door_http::Refusal) {}

    fn count(&mut self, _: Event) {}
}

#[test]
fn nothing_is_allocated_once_warm() {
    let mut door: Door = bidder::door();
    let mut gate = Fixed { banner: Ad::new(&bidder::BANNER), bids: 0 };
    let numbers = bodies::usual().replace(r#""bcat":["IAB25","#, r#""bcat":[25,"#);
    let originals = [bodies::small(), bodies::usual(), bodies::large(), numbers];
    let mut bodies = originals.clone().map(String::into_bytes);
    let mut round = |door: &mut Door, gate: &mut Fixed| {
        for (body, original) in bodies.iter_mut().zip(&originals) {
            // Reading takes escapes away in place; every round gets the bytes anew.
            body.copy_from_slice(original.as_bytes());
            assert_eq!(door.bid(body, gate).status, 200);
        }
    };
    (0..4).for_each(|_| round(&mut door, &mut gate));

    // The thread that started this one allocates a little too, at a time of its own: that spoils one try, not all.
    let changes = [(); 3].map(|()| {
        let region = Region::new(ALLOCATOR);
        (0..100).for_each(|_| round(&mut door, &mut gate));
        region.change()
    });
    let clean = |change: &stats_alloc::Stats| change.allocations + change.reallocations == 0;
    assert!(changes.iter().any(clean), "{changes:?}");
    assert_eq!(gate.bids, 304 * 4);

    // What a large body made grow is given back.
    let kept = || {
        let stats = ALLOCATOR.stats();
        stats.bytes_allocated - stats.bytes_deallocated
    };
    let mut more = || {
        let before = kept();
        let mut large =
            format!(r#"{{"id":"r","imp":[{{"id":"1"}}],"ext":"{}"}}"#, "x".repeat(900_000))
                .into_bytes();
        assert_eq!(door.bid(&mut large, &mut gate).status, 204);
        drop(large);
        kept().saturating_sub(before)
    };
    let more = [(); 3].map(|()| more());
    assert!(more.contains(&0), "bytes more: {more:?}");
}
