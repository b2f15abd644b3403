//! A call that is read and answered allocates nothing, once buffers are warm. In a binary of its own, because it counts every
//! allocation of the process; one test, so that nothing else runs beside it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::alloc::System;

use access::KeySecret;
use door_spend::{AnswerRoom, CallKind, Outcome, ReadLimits, Reader, Sender};
use money::{Amount, Unit};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use wire::Verdict;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const ONE: &[u8] = br#"{"budget":"team-42\/gpt-5","amount":"0.15","unit":"USD"}"#;
const MANY: &[u8] = br#"[{"call":"reserve","budget":1,"amount":0.15},{"call":"spend","budget":"a","amount":"1","key":"k"}]"#;

#[test]
fn nothing_is_allocated_once_warm() {
    let secret = KeySecret::new([7; 16]);
    let sender = Sender { secret: &secret, who: "shop", key: None };
    let keyed = Sender { key: Some(b"order-7"), ..sender };
    let limits = ReadLimits { hold_ms_max: 2_000, confirm_ms_max: 3_600_000, entries_max: 1_024 };
    let (amount, unit) = (Amount::new(150_000), Unit::parse("USD").unwrap());
    let outcomes = [
        Outcome::Granted { token: [7; 32], amount, unit, deadline_ms: 1_795_426_200_250 },
        Outcome::refused(Verdict::Paced),
        Outcome::Spent { verdict: Verdict::Settled, amount, unit },
    ];
    let (mut reader, mut room) = (Reader::default(), AnswerRoom::default());
    let mut round = || {
        reader.one(CallKind::Reserve, ONE, &keyed, &limits);
        assert!(reader.calls()[0].is_ok());
        reader.batch(MANY, &sender, &limits).unwrap();
        assert!(reader.calls().iter().all(Result::is_ok));
        outcomes.iter().for_each(|outcome| assert!(!room.one(outcome).body.is_empty()));
        assert_eq!(room.batch(&outcomes).status, 200);
    };
    (0..4).for_each(|_| round());
    // The thread that started this one allocates a little too, at a time of its own: that spoils one try, not all.
    let changes = [(); 3].map(|()| {
        let region = Region::new(ALLOCATOR);
        (0..100).for_each(|_| round());
        region.change()
    });
    let clean = |change: &stats_alloc::Stats| change.allocations + change.reallocations == 0;
    assert!(changes.iter().any(clean), "{changes:?}");
}
