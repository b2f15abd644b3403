//! Every table has a maximum, and at the maximum the answer is "no".

use ledger::{Amount, BudgetSpec, Options, Verdict};

use crate::bench::{Bench, child, options, spec};

#[test]
fn no_more_grants_than_grants_max() {
    let limited = Options { grants_max: 3, ..options(1) };
    let set: Vec<BudgetSpec> = (1..=5).map(|id| spec(id, 1_000)).collect();
    let mut bench = Bench::with(limited, &set);
    assert_eq!(bench.bank.grants(), 3);
    assert_eq!(bench.insist(0, 5, 10), Err(Verdict::Busy));
    assert!(bench.bank.counts().grants_full > 0);
    assert!(bench.insist(0, 1, 500).is_ok(), "known purses are filled further");
    // A place is free again once a grant closes.
    bench.configure(&set[1..]);
    bench.advance(60_000);
    assert!(bench.insist(0, 5, 10).is_ok());
    bench.check();
}

#[test]
fn a_grant_that_could_not_be_replaced_is_replaced_later() {
    let limited = Options { grants_max: 1, grant_ms_max: 2_000, ..options(1) };
    let mut bench = Bench::with(limited, &[spec(1, 1_000)]);
    let hold = bench.insist(0, 1, 10).unwrap();
    bench.advance(2_000);
    assert_eq!(bench.insist(0, 1, 10).unwrap().grant, hold.grant, "no place for another");
    let before = bench.bank.counts().grants_full;
    assert!(before > 0);
    bench.advance(2_000);
    assert!(bench.bank.counts().grants_full > before, "it is tried again");
    bench.check();
}

#[test]
fn no_more_marks_than_pages_max() {
    let limited = Options { pages_max: 1, ..options(1) };
    let mut bench = Bench::with(limited, &[spec(1, 1_000_000), spec(2, 1_000_000)]);
    let one = bench.reserve(0, 1, 10).unwrap();
    let two = bench.reserve(0, 2, 10).unwrap();
    assert_eq!(bench.settle(one, 10), Verdict::Settled);
    let before = bench.lines(2);
    assert_eq!(bench.settle(two, 10), Verdict::Busy);
    assert_eq!((bench.lines(2), bench.bank.counts().pages_full), (before, 1));
    let other = bench.reserve(0, 1, 10).unwrap();
    assert_eq!(bench.settle(other, 10), Verdict::Settled, "on a page that is there");
    bench.check();
}

/// Debts are booked in full, until a sum could overflow; then the settle is refused, and nothing breaks. A parent's
/// sum counts, too.
#[test]
fn debts_end_before_they_overflow() {
    let most = money::ASK_MAX.get();
    let limit = money::LIMIT_MAX.get();
    let set = [spec(1, limit), child(2, limit, 1), child(3, limit, 1)];
    let mut bench = Bench::new(1, &set);
    let holds: Vec<_> = (0..4_100).map(|i| bench.insist(0, 2 + i % 2, 1).unwrap()).collect();
    let verdicts: Vec<Verdict> = holds.iter().map(|hold| bench.settle(*hold, most)).collect();
    let refused = verdicts.iter().filter(|verdict| **verdict == Verdict::BadAmount).count();
    assert_eq!(refused, 100, "four times the limit, in asks of a thousandth of it, and 100 more");
    assert_eq!(bench.bank.counts().spent_full, 100);
    assert_eq!(bench.bank.books(0).spent(), ledger::Bank::SPENT_MAX);
    bench.advance(1_000);
    bench.check();
}

#[test]
fn the_largest_limits_and_asks_work() {
    let most = money::LIMIT_MAX;
    let set = [spec(1, most.get()), BudgetSpec { parent: Some(1), ..spec(2, most.get()) }];
    let mut bench = Bench::new(2, &set);
    let hold = bench.insist(0, 2, money::ASK_MAX.get()).unwrap();
    assert_eq!(hold.amount, money::ASK_MAX);
    assert_eq!(bench.settle(hold, money::ASK_MAX.get()), Verdict::Settled);
    assert_eq!(bench.bank.books(0).spent(), Amount::new(money::ASK_MAX.get()));
    bench.check();
}
