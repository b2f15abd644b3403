//! That an order which passes through allocates its row in the book alone once the room is large enough. In a binary of its own, because it counts every
//! allocation of the process; one test, so that nothing else runs beside it.
#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a test that cannot go on fails; the gate is shared with an example"
)]

use std::alloc::System;

use fix_session::{MessageStore, MessageStores};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

use gate::Gate;

#[path = "../../examples/passed/gate.rs"]
mod gate;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn allocations() -> u64 {
    let stats = ALLOCATOR.stats();
    (stats.allocations + stats.reallocations) as u64
}

#[test]
fn orders_that_pass_allocate_their_rows_alone_when_warm() {
    let folder = tempfile::tempdir().unwrap();
    for step in [1, 16] {
        let mut gate = Gate::open(&folder.path().join(step.to_string()), step);
        let mut pass = |orders| {
            let (bytes, ends) = gate.make(orders);
            gate.pass_on(&bytes, &ends, allocations)
        };
        let cold = pass(64);
        assert!(cold > 0, "the counting works: the first orders make the room");
        // Behind a power of two, so that none of what grows by doubling grows in the rounds that count.
        pass(5_056);
        let made = [(); 6].map(|()| pass(256));
        // The threads of the tests themselves allocate once or twice, at a time of their own.
        assert!(
            made.iter().filter(|made| **made == 256).count() >= 3,
            "{step} at a time: {made:?}"
        );
        assert_eq!(gate.door.stores().store(1).next_out(), 2 + 64 + 5_056 + 6 * 256);
    }
}
