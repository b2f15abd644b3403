//! `Buckets` beside a `BTreeMap` of (deadline, slot).

use std::collections::BTreeMap;

use proptest::prelude::*;
use table::{BucketError, Buckets};

const WIDTH_MS: u64 = 100;
const RING: usize = 8;
const SLOTS: u32 = 70;
const CASES: u32 = if cfg!(miri) { 4 } else { 256 };

/// One call of the closure: slot, deadline, amount, holds.
type Given = (u32, u64, i64, u32);

#[derive(Clone, Debug)]
enum Step {
    Hold { slot: u32, hold_ms: u64, amount: i64 },
    Remove { slot: u32, ahead: u64, amount: i64 },
    Take { slot: u32, ahead: u64 },
    Pass(u64),
    Back(u64),
    Slot(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let slot = 0..SLOTS;
    prop_oneof![
        6 => (slot.clone(), 0u64..900, 1i64..5).prop_map(|(slot, hold_ms, amount)| Step::Hold { slot, hold_ms, amount }),
        2 => (slot.clone(), 0u64..9, 1i64..5).prop_map(|(slot, ahead, amount)| Step::Remove { slot, ahead, amount }),
        1 => (slot.clone(), 0u64..9).prop_map(|(slot, ahead)| Step::Take { slot, ahead }),
        3 => (0u64..260).prop_map(Step::Pass),
        1 => Just(Step::Pass(1_000_000)),
        1 => (0u64..500).prop_map(Step::Back),
        1 => slot.prop_map(Step::Slot),
    ]
}

/// The obviously right one: every hold by (deadline, slot).
#[derive(Default)]
struct Model {
    live: BTreeMap<(u64, u32), (i64, u32)>,
    drained_ms: u64,
}

impl Model {
    fn accepts(&self, deadline_ms: u64) -> bool {
        let span = WIDTH_MS * RING as u64;
        deadline_ms > self.drained_ms && deadline_ms <= self.drained_ms + span
    }

    fn split(&mut self, out: impl Fn(u64, u32) -> bool) -> Vec<Given> {
        let mut given = Vec::new();
        self.live.retain(|&(deadline_ms, slot), &mut (amount, holds)| {
            let leaves = out(deadline_ms, slot);
            if leaves {
                given.push((slot, deadline_ms, amount, holds));
            }
            !leaves
        });
        given
    }

    fn sum(&self, slot: u32) -> i64 {
        let of_slot = self.live.iter().filter(|((_, other), _)| *other == slot);
        of_slot.map(|(_, (amount, _))| amount).sum()
    }
}

struct Both {
    buckets: Buckets,
    model: Model,
    now_ms: u64,
}

impl Both {
    fn run(&mut self, step: Step) {
        match step {
            Step::Hold { slot, hold_ms, amount } => self.hold(slot, hold_ms, amount),
            Step::Remove { slot, ahead, amount } => self.remove(slot, ahead, amount),
            Step::Take { slot, ahead } => {
                let deadline_ms = self.buckets.deadline_for(self.now_ms, ahead * WIDTH_MS);
                let expected = self.model.live.remove(&(deadline_ms, slot));
                let taken = self.buckets.take(slot, deadline_ms);
                assert_eq!(taken, expected.map_or(0, |(amount, _)| amount));
            }
            Step::Pass(ms) => {
                self.now_ms += ms;
                self.drain(self.now_ms);
            }
            Step::Back(ms) => self.drain(self.now_ms.saturating_sub(ms)),
            Step::Slot(slot) => {
                let mut given = Vec::new();
                self.buckets.drain_slot(slot, &mut |a, b, c, d| given.push((a, b, c, d)));
                assert_eq!(given, self.model.split(|_, other| other == slot));
            }
        }
    }

    fn hold(&mut self, slot: u32, hold_ms: u64, amount: i64) {
        let deadline_ms = self.buckets.deadline_for(self.now_ms, hold_ms);
        assert!(deadline_ms >= self.now_ms + hold_ms, "a hold must not end early");
        assert!(deadline_ms < self.now_ms + hold_ms + WIDTH_MS);
        let booked = self.buckets.add(slot, deadline_ms, amount);
        assert_eq!(booked.is_ok(), self.model.accepts(deadline_ms), "{booked:?}");
        if booked.is_ok() {
            let entry = self.model.live.entry((deadline_ms, slot)).or_default();
            *entry = (entry.0 + amount, entry.1 + 1);
        }
    }

    fn remove(&mut self, slot: u32, ahead: u64, amount: i64) {
        let deadline_ms = self.buckets.deadline_for(self.now_ms, ahead * WIDTH_MS);
        let removed = self.buckets.remove(slot, deadline_ms, amount).is_ok();
        let entry = self.model.live.get_mut(&(deadline_ms, slot));
        let expected = match entry {
            None => false,
            Some((rest, 1)) => *rest == amount,
            Some(_) => true,
        };
        assert_eq!(removed, expected);
        if !removed {
            return;
        }
        let entry = self.model.live.entry((deadline_ms, slot)).or_default();
        *entry = (entry.0 - amount, entry.1 - 1);
        if entry.1 == 0 {
            self.model.live.remove(&(deadline_ms, slot));
        }
    }

    fn drain(&mut self, now_ms: u64) {
        let mut given = Vec::new();
        self.buckets.drain_due(now_ms, &mut |a, b, c, d| given.push((a, b, c, d)));
        assert_eq!(given, self.model.split(|deadline_ms, _| deadline_ms <= now_ms));
        self.model.drained_ms = self.model.drained_ms.max(now_ms / WIDTH_MS * WIDTH_MS);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..Default::default() })]

    #[test]
    fn every_hold_comes_back_once_at_its_deadline(
        start_ms in 1u64..2_000_000_000_000,
        steps in proptest::collection::vec(step(), 0..200),
    ) {
        let buckets = Buckets::new(SLOTS as usize, WIDTH_MS, RING);
        let mut both = Both { buckets, model: Model::default(), now_ms: start_ms };
        both.drain(start_ms);
        for step in steps {
            both.run(step);
        }
        for slot in 0..SLOTS {
            prop_assert_eq!(both.buckets.sum(slot), both.model.sum(slot));
        }
        both.drain(u64::MAX);
        prop_assert!(both.model.live.is_empty());
        prop_assert!((0..SLOTS).all(|slot| both.buckets.sum(slot) == 0));
    }
}

fn drained(buckets: &mut Buckets, now_ms: u64) -> Vec<Given> {
    let mut given = Vec::new();
    buckets.drain_due(now_ms, &mut |a, b, c, d| given.push((a, b, c, d)));
    given
}

#[test]
fn a_jump_of_the_clock_drains_everything_once() {
    let mut buckets = Buckets::new(3, WIDTH_MS, RING);
    drained(&mut buckets, 5_000);
    buckets.add(2, 5_300, 7).expect("in range");
    buckets.add(0, 5_200, 1).expect("in range");
    buckets.add(0, 5_200, 1).expect("in range");
    assert_eq!(drained(&mut buckets, 4_000), []);
    assert_eq!(drained(&mut buckets, 9_000_000), [(0, 5_200, 2, 2), (2, 5_300, 7, 1)]);
    assert_eq!(drained(&mut buckets, 9_000_100), []);
    assert_eq!(drained(&mut buckets, 5_300), []);
}

/// A deadline that equals now is due; one millisecond before, it is not.
#[test]
fn a_deadline_is_due_at_its_very_millisecond() {
    let mut buckets = Buckets::new(1, WIDTH_MS, RING);
    drained(&mut buckets, 5_000);
    buckets.add(0, 5_100, 3).expect("in range");
    assert_eq!(drained(&mut buckets, 5_099), []);
    assert_eq!(drained(&mut buckets, 5_100), [(0, 5_100, 3, 1)]);
}

#[test]
fn what_does_not_fit_is_an_error_and_changes_nothing() {
    let mut buckets = Buckets::new(2, WIDTH_MS, RING);
    drained(&mut buckets, 5_000);
    let no_slot = BucketError::NoSlot { slot: 2, slots: 2 };
    assert_eq!(buckets.add(2, 5_100, 1), Err(no_slot));
    let crooked = BucketError::NotAligned { deadline_ms: 5_150, width_ms: WIDTH_MS };
    assert_eq!(buckets.add(0, 5_150, 1), Err(crooked));
    let past = BucketError::Past { deadline_ms: 5_000, drained_ms: 5_000 };
    assert_eq!(buckets.add(0, 5_000, 1), Err(past));
    let far = BucketError::TooFar { deadline_ms: 5_900, span_ms: 800 };
    assert_eq!(buckets.add(0, 5_900, 1), Err(far));
    assert_eq!(buckets.add(0, 5_800, 1), Ok(()), "the last deadline of the ring fits");
    let last = buckets.deadline_for(u64::MAX, 1);
    assert!(matches!(buckets.add(0, last, 1), Err(BucketError::TooFar { .. })));
    assert_eq!((buckets.sum(0), buckets.sum(1), buckets.sum(2)), (1, 0, 0));
    assert_eq!(drained(&mut buckets, 6_000), [(0, 5_800, 1, 1)]);
}

/// Before the first drain the ring does not know the time; still two deadlines never share a bucket.
#[test]
fn before_the_first_drain_deadlines_never_mix() {
    let mut buckets = Buckets::new(1, WIDTH_MS, RING);
    buckets.add(0, 1_000, 1).expect("the ring is empty");
    assert!(matches!(buckets.add(0, 1_800, 1), Err(BucketError::TooFar { .. })));
    buckets.add(0, 1_700, 2).expect("another bucket");
    assert_eq!(drained(&mut buckets, 2_000), [(0, 1_000, 1, 1), (0, 1_700, 2, 1)]);
}

#[test]
fn sums_do_not_wrap() {
    let mut buckets = Buckets::new(1, WIDTH_MS, RING);
    buckets.add(0, 100, i64::MAX).expect("the largest amount fits");
    let range = BucketError::Range { slot: 0 };
    assert_eq!(buckets.add(0, 100, 1), Err(range), "the bucket's sum");
    assert_eq!(buckets.add(0, 200, 1), Err(range), "the slot's sum");
    buckets.remove(0, 100, i64::MAX).expect("it is there");
    assert_eq!(buckets.remove(0, 100, 0), Err(range), "no hold is left");
    buckets.add(0, 100, 5).expect("in range");
    assert_eq!(buckets.remove(0, 100, 4), Err(range), "the last hold must take the rest along");
    assert_eq!((buckets.sum(0), buckets.take(0, 100), buckets.take(0, 100)), (5, 5, 0));
}

#[test]
fn the_longest_hold_fits_at_every_instant() {
    let mut buckets = Buckets::new(1, WIDTH_MS, RING);
    for now_ms in 10_000..10_000 + 3 * WIDTH_MS {
        drained(&mut buckets, now_ms);
        let deadline_ms = buckets.deadline_for(now_ms, buckets.hold_ms_max());
        buckets.add(0, deadline_ms, 1).expect("hold_ms_max promises it");
    }
}

#[test]
fn growing_keeps_what_is_there() {
    let mut buckets = Buckets::new(1, WIDTH_MS, RING);
    drained(&mut buckets, 1_000);
    buckets.add(0, 1_100, 4).expect("in range");
    buckets.grow(5_000);
    buckets.grow(10);
    assert_eq!(buckets.slots(), 5_000);
    buckets.add(4_999, 1_100, 6).expect("in range");
    buckets.add(4_999, 1_200, 1).expect("in range");
    assert_eq!(drained(&mut buckets, 1_100), [(0, 1_100, 4, 1), (4_999, 1_100, 6, 1)]);
    assert_eq!(buckets.sum(4_999), 1);
}

#[test]
fn memory_is_as_documented() {
    let buckets = Buckets::new(50_000, WIDTH_MS, 16);
    assert!(buckets.bytes() <= 12 << 20, "{} bytes", buckets.bytes());
    assert_eq!((buckets.bytes() * 10) >> 20, 96, "the documentation says 9.6 MiB");
}
