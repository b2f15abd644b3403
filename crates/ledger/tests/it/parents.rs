//! A parent's limits bind its children.

use ledger::{BudgetSpec, Line, Status, Verdict};

use crate::bench::{Bench, child, spec};

#[test]
fn children_together_never_exceed_their_parent() {
    let set = [spec(1, 1_000), child(2, 900, 1), child(3, 900, 1), child(4, 5, 1)];
    let mut bench = Bench::new(2, &set);
    let spent: i64 = [2, 3, 4].map(|id| bench.spend_all(id, 5).0).iter().sum();
    assert_eq!(spent, 1_000, "and the parent is spent whole");
    assert_eq!(bench.line(1, Line::Settled), 1_000);
    assert_eq!(bench.line(2, Line::Settled), 900);
    assert_eq!(bench.reserve(0, 3, 5), Err(Verdict::Exhausted));
    bench.check();
}

#[test]
fn the_tightest_of_four_levels_binds() {
    for tight in 1..=4 {
        let limit = |id| if id == tight { 500 } else { 10_000 };
        let set = [
            spec(1, limit(1)),
            child(2, limit(2), 1),
            child(3, limit(3), 2),
            child(4, limit(4), 3),
        ];
        let mut bench = Bench::new(2, &set);
        assert_eq!(bench.spend_all(4, 10), (500, Verdict::Exhausted), "level {tight}");
        for id in 1..=4 {
            assert_eq!(bench.line(id, Line::Settled), 500, "budget {id}");
        }
        bench.check();
    }
}

#[test]
fn three_levels_with_money_spent_in_the_middle() {
    let set = [spec(1, 1_000), child(2, 600, 1), child(3, 600, 2)];
    let mut bench = Bench::new(1, &set);
    assert_eq!(bench.spend_all(2, 10).0, 600);
    assert_eq!(bench.spend_all(3, 10), (0, Verdict::Exhausted));
    assert_eq!(bench.spend_all(1, 10).0, 400);
    bench.check();
}

#[test]
fn a_paused_parent_stops_its_children_and_their_children() {
    let set = [spec(1, 10_000), child(2, 10_000, 1), child(3, 10_000, 2), spec(4, 10_000)];
    let mut bench = Bench::new(2, &set);
    assert!(bench.reserve(0, 3, 10).is_ok());
    let paused = BudgetSpec { status: Status::Paused, ..set[0].clone() };
    bench.configure(&[paused, set[1].clone(), set[2].clone(), set[3].clone()]);
    for id in 1..=3 {
        assert_eq!(bench.reserve(1, id, 10), Err(Verdict::Paused), "budget {id}");
    }
    assert!(bench.reserve(1, 4, 10).is_ok(), "others are not touched");
    bench.advance(1_000);
    assert_eq!(bench.line(3, Line::Purses), 0);
    bench.configure(&set);
    assert!(bench.reserve(0, 3, 10).is_ok());
    bench.check();
}

#[test]
fn a_sibling_gets_what_lies_idle() {
    let set = [spec(1, 1_000), child(2, 1_000, 1), child(3, 1_000, 1)];
    let mut bench = Bench::new(2, &set);
    // One child's purse has most of the parent's money, and does not use it.
    let _ = bench.insist(0, 2, 900).unwrap();
    bench.advance(1_000);
    assert!(bench.purses[0].free(1).get() >= 900);
    assert!(bench.insist(1, 3, 950).is_ok());
    assert!(bench.bank.counts().recalls > 0);
    bench.check();
}
