//! Limits that change while money is out.

use ledger::{Amount, BudgetSpec, Line, Out, SpecError, Status, Verdict, Windows};
use money::{Instant, Unit};

use crate::bench::{Bench, child, spec};

#[test]
fn a_raised_limit_can_be_spent_at_once() {
    let mut bench = Bench::new(2, &[spec(1, 100)]);
    assert_eq!(bench.spend_all(1, 10), (100, Verdict::Exhausted));
    bench.configure(&[spec(1, 150)]);
    assert_eq!(bench.spend_all(1, 10), (50, Verdict::Exhausted));
    bench.check();
}

#[test]
fn a_limit_below_what_is_spent_stops_the_budget_and_takes_nothing_back() {
    let mut bench = Bench::new(2, &[spec(1, 1_000)]);
    for worker in [0, 1] {
        let hold = bench.insist(worker, 1, 100).unwrap();
        bench.settle(hold, 100);
    }
    let open = bench.insist(0, 1, 50).unwrap();
    bench.configure(&[spec(1, 120)]);
    assert_eq!(bench.line(1, Line::Settled), 200);
    assert!(bench.line(1, Line::Free) <= -80);
    for worker in [0, 1] {
        assert_eq!(bench.insist(worker, 1, 1), Err(Verdict::Exhausted));
    }
    bench.check();
    let _ = open;
    bench.advance(1_000);
    assert_eq!(bench.lines(1), [-80, 0, 0, 0, 0, 200, 0, 0], "what was out came back");
    bench.configure(&[spec(1, 210)]);
    assert_eq!(bench.spend_all(1, 5), (10, Verdict::Exhausted));
}

#[test]
fn a_hold_made_before_the_limit_fell_still_settles() {
    let mut bench = Bench::new(1, &[spec(1, 1_000)]);
    let hold = bench.insist(0, 1, 100).unwrap();
    bench.configure(&[spec(1, 0)]);
    assert_eq!(bench.settle(hold, 100), Verdict::Settled);
    bench.advance(1_000);
    assert_eq!(bench.lines(1), [-100, 0, 0, 0, 0, 100, 0, 0]);
}

#[test]
fn pause_resume_end_and_return() {
    let mut bench = Bench::new(2, &[spec(1, 1_000)]);
    let hold = bench.insist(0, 1, 100).unwrap();
    bench.settle(hold, 100);
    bench.configure(&[BudgetSpec { status: Status::Paused, ..spec(1, 1_000) }]);
    assert_eq!(bench.insist(0, 1, 10), Err(Verdict::Paused));
    bench.configure(&[spec(1, 1_000)]);
    assert!(bench.insist(1, 1, 10).is_ok());
    bench.configure(&[]);
    assert_eq!(bench.insist(0, 1, 10), Err(Verdict::Ended));
    bench.advance(1_000);
    assert_eq!(bench.lines(1), [900, 0, 0, 0, 0, 100, 0, 0]);
    bench.configure(&[spec(1, 1_000)]);
    assert_eq!(bench.spend_all(1, 10).0, 900, "what was spent before it ended counts");
    bench.check();
}

#[test]
fn unit_and_parent_of_a_known_budget_are_fixed() {
    let mut bench = Bench::new(1, &[spec(1, 10), child(2, 10, 1)]);
    let count = BudgetSpec { unit: Unit::Count, ..spec(1, 10) };
    let child_count = BudgetSpec { unit: Unit::Count, ..child(2, 10, 1) };
    let mut out = Out::default();
    let errors = bench.bank.configure(&[count, child_count], &mut out).unwrap_err();
    let unit = |id| SpecError::Fixed { id, field: "unit" };
    assert_eq!(errors, [unit(1), unit(2)]);
    let errors = bench.bank.configure(&[spec(1, 10), spec(2, 10)], &mut out).unwrap_err();
    assert_eq!(errors, [SpecError::Fixed { id: 2, field: "parent" }]);
    // Ended or not: the id stands for the books.
    bench.configure(&[]);
    let errors = bench.bank.configure(&[spec(2, 10)], &mut out).unwrap_err();
    assert_eq!(errors, [SpecError::Fixed { id: 2, field: "parent" }]);
    assert!(out.records.is_empty() && out.messages.is_empty());
}

#[test]
fn one_bad_budget_changes_nothing_and_every_error_is_told() {
    let mut bench = Bench::new(1, &[spec(1, 1_000)]);
    let (digest, lines) = (bench.bank.digest(), bench.lines(1));
    let set = [
        spec(1, 5),
        spec(2, 100),
        BudgetSpec { end: Instant::from_ms(0), ..spec(3, 1) },
        spec(4, money::LIMIT_MAX.get() + 1),
        BudgetSpec { windows: Windows::daily(Some(Amount::new(-1))), ..spec(5, 1) },
        child(6, 1, 99),
        child(7, 1, 6),
    ];
    let mut out = Out::default();
    let errors = bench.bank.configure(&set, &mut out).unwrap_err();
    assert_eq!(errors.len(), 4, "each is told once: {errors:?}");
    assert!(out.records.is_empty() && out.messages.is_empty());
    assert_eq!((bench.bank.digest(), bench.lines(1)), (digest, lines));
    assert_eq!(bench.bank.slots(), 1);
}

#[test]
fn a_configuration_without_changes_writes_nothing() {
    let set = [spec(1, 1_000), child(2, 10, 1)];
    let mut bench = Bench::new(1, &set);
    let mut out = Out::default();
    bench.bank.configure(&set, &mut out).unwrap();
    assert!(out.records.is_empty() && out.messages.is_empty());
}

#[test]
fn a_daily_limit_can_come_change_and_go() {
    let mut bench = Bench::new(1, &[spec(1, 10_000)]);
    let with =
        |daily| BudgetSpec { windows: Windows::daily(Some(Amount::new(daily))), ..spec(1, 10_000) };
    let hold = bench.insist(0, 1, 300).unwrap();
    bench.settle(hold, 300);
    bench.configure(&[with(500)]);
    bench.configure(&[with(500)]);
    let (spent, why) = bench.spend_all(1, 10);
    assert!(300 + spent <= 500 + 157, "what was in purses may go, nothing more: {spent}");
    assert_eq!(why, Verdict::DayExhausted);
    bench.configure(&[with(800)]);
    assert_eq!(bench.spend_all(1, 10).0 + spent + 300, 800);
    bench.configure(&[spec(1, 10_000)]);
    assert_eq!(bench.spend_all(1, 10).0, 9_200);
    bench.check();
}

#[test]
fn the_late_reserve_is_kept_for_debts() {
    let kept = BudgetSpec { late_reserve_bp: 1_000, ..spec(1, 1_000) };
    let mut bench = Bench::new(2, std::slice::from_ref(&kept));
    let hold = bench.insist(0, 1, 100).unwrap();
    assert_eq!(bench.settle(hold, 130), Verdict::SettledOver);
    let (spent, why) = bench.spend_all(1, 10);
    assert_eq!((spent, why), (800, Verdict::Exhausted), "the debt came out of the reserve");
    assert_eq!(bench.lines(1), [70, 0, 0, 0, 0, 900, 30, 0]);
    bench.check();
    let all = BudgetSpec { late_reserve_bp: 10_000, ..spec(1, 1_000) };
    assert_eq!(Bench::new(1, &[all]).spend_all(1, 1).0, 0);
}

/// Holds below what is spent later, as of bidders who hold what they expect to win: what lies in purses pays the debts.
#[test]
fn debts_call_in_what_lies_in_purses() {
    let mut bench = Bench::new(2, &[spec(1, 10_000)]);
    let mut spent = 0;
    while let Ok(hold) = bench.insist(0, 1, 10) {
        assert_eq!(bench.settle(hold, 50), Verdict::SettledOver);
        spent += 50;
        bench.advance(150);
    }
    assert!((10_000..=10_100).contains(&spent), "at most what was on its way: {spent}");
    bench.check();
}

#[test]
fn a_limit_of_zero_is_exhausted_from_the_start() {
    let mut bench = Bench::new(2, &[spec(1, 0)]);
    assert_eq!(bench.spend_all(1, 1), (0, Verdict::Exhausted));
}
