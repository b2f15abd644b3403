//! That auctions allocate nothing once their work space is warm. In a binary of its own, because it counts every
//! allocation of the process; one test, so that nothing else runs beside it.
#![allow(
    clippy::unwrap_used,
    dead_code,
    reason = "a test that cannot go on fails; the generator is shared"
)]

use std::alloc::System;

use gate_auction::{Counters, Index, Scratch};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

use generator::{Body, Dice, LARGE, SMALL, campaigns, currency};

#[path = "../it/generator.rs"]
mod generator;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn allocations() -> usize {
    let stats = ALLOCATOR.stats();
    stats.allocations + stats.reallocations
}

#[test]
fn auctions_allocate_nothing_when_warm() {
    for (world, count) in [(LARGE, 5_000), (SMALL, 2_000)] {
        let campaigns = campaigns(count, world, 1);
        let index = Index::build(currency("USD"), &campaigns, 1).unwrap();
        let (mut dice, mut scratch, mut out) = (Dice::new(2), Scratch::default(), Vec::new());
        let mut counters = Counters::new(index.ids().len());
        let bodies: Vec<Body> = (0..300).map(|_| Body::with_rules(world, &mut dice)).collect();
        let mut bids = 0;
        let mut round = |scratch: &mut Scratch| {
            let mut made = 0;
            for body in &bodies {
                made += body.lend(|request| {
                    let before = allocations();
                    index.auction(request, scratch).fill(&mut (), &mut out);
                    index.survey(request, scratch, &(), &mut counters);
                    bids += out.len();
                    allocations() - before
                });
            }
            made
        };
        assert!(
            round(&mut scratch) > 0,
            "the counting works: the first round grows the work space"
        );
        // The thread that started this one allocates a little too, at a time of its own: that spoils one try, not all.
        let made = [(); 3].map(|()| round(&mut scratch));
        assert!(made.contains(&0), "{made:?}");
        assert!(bids > 100, "{bids} bids: the test auctions too little");
    }
}
