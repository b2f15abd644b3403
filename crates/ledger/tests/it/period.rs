//! Caps of weeks and months.

use ledger::{Action, Amount, BudgetSpec, Period, Verdict, WindowLimit, Windows};
use money::{Instant, Zone};

use crate::bench::{Bench, child, options, spec};

const DAY: u64 = 86_400_000;

fn ms(text: &str) -> u64 {
    Instant::parse(text).unwrap().ms()
}

fn capped(period: Period, cap: i64, daily: Option<i64>) -> BudgetSpec {
    let cap = WindowLimit::fixed(period, Amount::new(cap));
    let windows = Windows::daily(daily.map(Amount::new)).with(cap);
    BudgetSpec { windows, ..spec(1, 1_000_000) }
}

/// Spends what each day gives, from this instant on.
fn spend_days(bench: &mut Bench, days: usize) -> Vec<i64> {
    let spend = |_| {
        let (spent, why) = bench.spend_all(1, 100);
        assert!(matches!(why, Verdict::DayExhausted | Verdict::WindowExhausted), "{why:?}");
        bench.check();
        bench.advance(DAY);
        spent
    };
    (0..days).map(spend).collect()
}

/// A daily target may be exceeded by three quarters where the week makes up for it: it runs from Sunday to Saturday.
#[test]
fn a_week_caps_its_days() {
    let thursday = ms("2026-06-04T10:00:00Z");
    let week = capped(Period::Week, 700, Some(300));
    let mut bench = Bench::at(thursday, options(2), &[week]);
    let spent = spend_days(&mut bench, 11);
    assert_eq!(spent, [300, 300, 100, 300, 300, 100, 0, 0, 0, 0, 300]);
    let (_, used, end_ms) = bench.bank.windows(0).last().unwrap();
    assert_eq!(end_ms, ms("2026-06-21T00:00:00Z"));
    assert!(used >= Amount::new(300), "Sunday's, and what purses have on Monday");
}

#[test]
fn a_month_ends_with_its_last_civil_day() {
    let zone = Zone::parse("America/New_York").unwrap();
    let month = BudgetSpec { zone, ..capped(Period::Month, 500, None) };
    let mut bench = Bench::at(ms("2026-02-10T12:00:00Z"), options(2), &[month]);
    assert_eq!(bench.spend_all(1, 100), (500, Verdict::WindowExhausted));
    bench.now_ms = ms("2026-03-01T04:59:59.999Z");
    bench.pump();
    assert_eq!(bench.reserve(0, 1, 1), Err(Verdict::WindowExhausted));
    bench.now_ms = ms("2026-03-01T05:00:00Z");
    bench.pump();
    assert_eq!(bench.spend_all(1, 100).0, 500);
    bench.check();
}

/// What comes back belongs to the week that handed it out.
#[test]
fn a_hold_of_last_week_settles_last_week() {
    let saturday = ms("2026-06-06T23:59:59.900Z");
    let mut bench = Bench::at(saturday, options(1), &[capped(Period::Week, 500, None)]);
    let [settled, lost] = [0; 2].map(|_| bench.insist(0, 1, 200).unwrap());
    bench.resolve(Action::Confirm, settled, 0);
    bench.resolve(Action::Confirm, lost, 0);
    bench.now_ms = ms("2026-06-07T00:00:00.010Z");
    bench.pump();
    assert_eq!(bench.settle(settled, 150), Verdict::Settled);
    bench.resolve(Action::Release, lost, 0);
    bench.check();
    assert_eq!(bench.spend_all(1, 100).0, 500, "the new week is whole");
    bench.check();
}

#[test]
fn a_new_cap_counts_from_the_beginning_of_the_day() {
    let mut bench = Bench::at(ms("2026-06-02T12:00:00Z"), options(2), &[spec(1, 1_000_000)]);
    let hold = bench.insist(0, 1, 300).unwrap();
    bench.settle(hold, 300);
    bench.advance(DAY);
    let hold = bench.insist(0, 1, 300).unwrap();
    bench.settle(hold, 300);
    bench.configure(&[capped(Period::Week, 500, None)]);
    assert_eq!(bench.spend_all(1, 100), (200, Verdict::WindowExhausted));
    bench.configure(&[capped(Period::Week, 600, None)]);
    assert_eq!(bench.spend_all(1, 100).0, 100, "a higher cap of the same week");
    bench.configure(&[capped(Period::Month, 700, None)]);
    assert_eq!(bench.spend_all(1, 100).0, 100, "of today's 600");
    bench.crash();
    bench.advance(500);
    assert_eq!(bench.spend_all(1, 100).0, 0, "over a crash");
    bench.configure(&[spec(1, 1_000_000)]);
    assert_eq!(bench.bank.windows(0).count(), 0);
    assert!(bench.insist(0, 1, 100).is_ok());
    bench.check();
}

#[test]
fn a_parents_week_caps_its_children() {
    let set = [capped(Period::Week, 500, None), child(2, 1_000_000, 1), child(3, 1_000_000, 1)];
    let mut bench = Bench::at(ms("2026-06-02T12:00:00Z"), options(1), &set);
    assert_eq!(bench.spend_all(2, 100).0, 500);
    assert_eq!(bench.spend_all(3, 100), (0, Verdict::WindowExhausted));
    bench.check();
}
