//! Deadlines, days and clocks.

use ledger::{Action, Amount, BudgetSpec, Line, Record, ToBank, Verdict, Windows};
use money::{Instant, Zone};

use crate::bench::{BILLING_OVER_MS, Bench, HOLD_MS, LATE_MS, NOON, options, spec};

const HOUR: u64 = 3_600_000;

fn ms(text: &str) -> u64 {
    Instant::parse(text).unwrap().ms()
}

#[test]
fn silent_losses_come_back_to_the_purse() {
    let mut bench = Bench::new(1, &[spec(1, 1_000_000)]);
    let free = bench.purses[0].free(0);
    for _ in 0..10 {
        bench.reserve(0, 1, 100).unwrap();
    }
    let records = bench.records.len();
    bench.advance(HOLD_MS + 49);
    assert_eq!(bench.purses[0].free(0), free);
    assert_eq!(bench.records.len(), records, "money that stays with its worker is no record");
    bench.check();
}

#[test]
fn a_confirmed_hold_lapses_at_its_billing_deadline() {
    let mut bench = Bench::new(1, &[spec(1, 1_000_000)]);
    let hold = bench.reserve(0, 1, 100).unwrap();
    bench.resolve(Action::Confirm, hold, 0);
    bench.advance(6_400);
    assert_eq!(bench.line(1, Line::Held), 100, "not before the window is over");
    bench.advance(BILLING_OVER_MS - 6_400);
    assert_eq!(bench.line(1, Line::Held), 0);
    let lapsed = |record: &Record| matches!(record, Record::BillingLapsed { amount, .. } if amount.get() == 100);
    assert_eq!(bench.records.iter().filter(|record| lapsed(record)).count(), 1);
    bench.check();
}

#[test]
fn tokens_are_judged_until_their_grant_closes() {
    let mut bench = Bench::new(1, &[spec(1, 1_000_000)]);
    let [first, second] = [0, 0].map(|_| bench.reserve(0, 1, 100).unwrap());
    // The grant is retired when the budget ends.
    bench.configure(&[]);
    bench.advance(BILLING_OVER_MS + LATE_MS - 1_000);
    assert_eq!(bench.settle(first, 100), Verdict::SettledLate);
    assert_eq!(bench.resolve(Action::Settle, first, 100), (Verdict::SettledLate, true));
    bench.advance(1_100);
    assert_eq!(bench.bank.grants(), 0);
    assert_eq!(bench.resolve(Action::Settle, first, 100), (Verdict::TooOld, false));
    assert_eq!(bench.settle(second, 100), Verdict::TooOld);
    assert_eq!(bench.line(1, Line::Late), 100);
    bench.check();
}

#[test]
fn a_grant_without_holds_closes_at_once() {
    let mut bench = Bench::new(4, &[spec(1, 1_000_000)]);
    assert_eq!(bench.bank.grants(), 4);
    bench.configure(&[]);
    bench.advance(1);
    assert_eq!(bench.bank.grants(), 0, "there is no token that could still come");
    bench.check();
}

fn daily(zone: &str) -> BudgetSpec {
    let zone = Zone::parse(zone).unwrap();
    BudgetSpec { windows: Windows::daily(Some(Amount::new(1_000))), zone, ..spec(1, 1_000_000) }
}

/// The daily limit holds for the whole civil day, whatever its length, and not an instant longer.
#[test]
fn days_of_23_24_and_25_hours_carry_one_daily_limit() {
    let days = [
        ("Europe/Paris", "2026-03-28T23:00:00Z", 23 * HOUR),
        ("Europe/Paris", "2026-10-24T22:00:00Z", 25 * HOUR),
        ("America/New_York", "2026-03-08T05:00:00Z", 23 * HOUR),
        ("Australia/Lord_Howe", "2026-04-04T13:00:00Z", 24 * HOUR + HOUR / 2),
        ("UTC", "2026-06-01T00:00:00Z", 24 * HOUR),
    ];
    for (zone, start, length) in days {
        let start_ms = ms(start);
        let mut bench = Bench::at(start_ms, options(2), &[daily(zone)]);
        assert_eq!(bench.spend_all(1, 10), (1_000, Verdict::DayExhausted), "{zone}");
        let end_ms = start_ms + length;
        while bench.now_ms + HOUR < end_ms {
            bench.advance(HOUR);
            assert_eq!(bench.reserve(0, 1, 10), Err(Verdict::DayExhausted), "{zone}");
        }
        bench.now_ms = end_ms - 1;
        bench.pump();
        assert!(bench.reserve(0, 1, 10).is_err(), "{zone}: a millisecond before midnight");
        bench.now_ms = end_ms;
        bench.pump();
        assert!(bench.reserve(0, 1, 1).is_ok(), "{zone}: at midnight");
        assert_eq!(bench.bank.day(0).0.start.ms(), end_ms);
        bench.check();
    }
}

#[test]
fn a_purse_of_yesterday_is_not_good_today() {
    let midnight = ms("2026-06-02T00:00:00Z");
    let mut bench = Bench::at(midnight - 1_000, options(1), &[daily("UTC")]);
    assert!(bench.reserve(0, 1, 1).is_ok());
    // The bank has not heard of midnight yet, and the purse has money.
    bench.now_ms = midnight;
    assert!(bench.purses[0].free(0) >= Amount::new(1));
    assert_eq!(bench.reserve(0, 1, 1), Err(Verdict::PurseEmpty));
    bench.pump();
    assert!(bench.reserve(0, 1, 1).is_ok());
}

#[test]
fn a_hold_of_yesterday_settles_yesterday() {
    let midnight = ms("2026-06-02T00:00:00Z");
    let mut bench = Bench::at(midnight - 100, options(1), &[daily("UTC")]);
    let hold = bench.insist(0, 1, 400).unwrap();
    bench.resolve(Action::Confirm, hold, 0);
    bench.now_ms = midnight + 10;
    bench.pump();
    assert_eq!(bench.settle(hold, 400), Verdict::Settled);
    assert_eq!(bench.line(1, Line::Settled), 400);
    assert_eq!(bench.bank.day_line(0, Line::Settled), Amount::ZERO);
    assert_eq!(bench.spend_all(1, 10), (1_000, Verdict::DayExhausted), "today is whole");
    bench.check();
}

#[test]
fn a_new_zone_gives_no_second_daily_limit() {
    let mut bench = Bench::at(ms("2026-06-01T12:00:00Z"), options(1), &[daily("UTC")]);
    assert_eq!(bench.spend_all(1, 10).0, 1_000);
    bench.configure(&[daily("America/New_York")]);
    // UTC's day ends at 20:00 in New York, where the day that spent its limit goes on for four hours.
    bench.now_ms = ms("2026-06-02T00:00:00Z");
    bench.pump();
    assert_eq!(bench.spend_all(1, 10).0, 0);
    bench.now_ms = ms("2026-06-02T04:00:00Z");
    bench.pump();
    assert_eq!(bench.spend_all(1, 10).0, 1_000);
    bench.check();
}

#[test]
fn flights_begin_and_end() {
    let (start, end) = (Instant::from_ms(NOON + 5_000), Instant::from_ms(NOON + 60_000));
    let mut bench = Bench::new(2, &[BudgetSpec { start, end, ..spec(1, 1_000_000) }]);
    assert_eq!(bench.insist(0, 1, 10), Err(Verdict::NotStarted));
    bench.now_ms = start.ms() - 1;
    bench.pump();
    assert_eq!(bench.reserve(1, 1, 10), Err(Verdict::NotStarted));
    bench.now_ms = start.ms();
    bench.pump();
    let hold = bench.reserve(1, 1, 10).unwrap();
    bench.resolve(Action::Confirm, hold, 0);
    bench.now_ms = end.ms();
    assert!(bench.reserve(1, 1, 10).is_err(), "the purse knows the end of the flight");
    bench.pump();
    assert_eq!(bench.reserve(1, 1, 10), Err(Verdict::Ended));
    assert_eq!(bench.line(1, Line::Purses), 0, "all purses are empty");
    assert_eq!(
        bench.settle(hold, 10),
        Verdict::TooOld,
        "the end of its flight is long after its billing"
    );
    bench.check();
}

#[test]
fn a_moved_flight_moves_at_once_even_if_all_money_is_in_purses() {
    let until = |ms| BudgetSpec { end: Instant::from_ms(ms), ..spec(1, 100) };
    let mut bench = Bench::new(1, &[until(NOON + 1_000)]);
    bench.insist(0, 1, 100).unwrap();
    bench.advance(500);
    assert_eq!(bench.line(1, Line::Free), 0, "all of it is in the purse");
    bench.configure(&[until(NOON + 100_000)]);
    bench.now_ms = NOON + 2_000;
    bench.pump();
    assert!(bench.insist(0, 1, 100).is_ok());
    bench.configure(&[until(NOON + 3_000)]);
    bench.now_ms = NOON + 3_000;
    assert!(bench.reserve(0, 1, 1).is_err());
    bench.check();
}

#[test]
fn a_clock_that_goes_back_is_counted_and_judged_by_its_latest_reading() {
    let mut bench = Bench::new(2, &[spec(1, 1_000_000)]);
    let hold = bench.reserve(0, 1, 100).unwrap();
    bench.step(0, ToBank::Tick { now_ms: hold.deadline_ms });
    let early = hold.deadline_ms - 1;
    assert_eq!(bench.resolve_at(0, Action::Confirm, hold, 0, early), (Verdict::Expired, false));
    assert_eq!(bench.bank.counts().clock_back, 1);
    // The other worker's clock never went so far: each is judged by its own.
    let (verdict, _) = bench.resolve_at(1, Action::Confirm, hold, 0, early);
    assert_eq!(verdict, Verdict::Confirmed);
    assert_eq!(bench.bank.counts().clock_back, 1);
    bench.advance(1_000);
    bench.check();
}

#[test]
fn a_worker_whose_clock_went_back_by_more_than_a_hold_refuses_until_it_is_there_again() {
    let mut bench = Bench::new(1, &[spec(1, 1_000_000)]);
    bench.advance(10_000);
    bench.now_ms -= 5_000;
    assert_eq!(bench.reserve(0, 1, 100), Err(Verdict::Busy));
    bench.now_ms += 5_000;
    assert!(bench.reserve(0, 1, 100).is_ok());
    bench.check();
}

/// A worker that says nothing holds back what could still be judged by its clock.
#[test]
fn nothing_lapses_before_every_worker_is_past_the_deadline() {
    let mut bench = Bench::new(2, &[spec(1, 1_000_000)]);
    let hold = bench.reserve(0, 1, 100).unwrap();
    let free = bench.purses[0].free(0);
    let late = hold.deadline_ms + 10;
    bench.purses[0].turn(late);
    bench.purses[0].tick(late);
    while let Some(message) = bench.purses[0].next_message() {
        bench.step(0, message);
    }
    assert_eq!(bench.purses[0].free(0), free, "worker 1 may still bring a confirm in time");
    let at_ms = hold.deadline_ms - 1;
    assert_eq!(bench.resolve_at(1, Action::Confirm, hold, 0, at_ms).0, Verdict::Confirmed);
    bench.step(1, ToBank::Tick { now_ms: late });
    assert_eq!(bench.purses[0].free(0), free, "nothing is left to come back");
    assert_eq!(bench.line(1, Line::Held), 100);
    bench.check();
}

#[test]
fn a_jump_of_a_day_is_one_turn() {
    let mut bench = Bench::new(2, &[daily("UTC")]);
    for _ in 0..5 {
        bench.insist(0, 1, 10).unwrap();
        bench.advance(30 * HOUR);
        bench.check();
    }
    assert_eq!(bench.line(1, Line::Settled), 0);
}

/// The time of day may stand still, where it was set back: purses are filled nevertheless, and money is looked for in the purses of
/// others.
#[test]
fn purses_are_filled_while_the_time_of_day_stands() {
    let mut bench = Bench::new(2, &[spec(1, 1_000_000)]);
    for round in 0..48 {
        let steady_ms = NOON + 120 * round;
        bench.bank.steady(steady_ms);
        bench.purses.iter_mut().for_each(|purses| purses.steady(steady_ms));
        // The workers in turn, so that what is left in the purse of one is wanted by the other in the end.
        let worker = usize::try_from(round % 2).unwrap();
        let mut tries = 0;
        while bench.reserve(worker, 1, 20_000).is_err() {
            tries += 1;
            assert!(tries < 4, "round {round}: {:?}", bench.reserve(worker, 1, 20_000));
            let steady_ms = steady_ms + 30 * tries;
            bench.purses.iter_mut().for_each(|purses| purses.steady(steady_ms));
            bench.pump();
        }
    }
    assert_eq!(bench.now_ms, NOON);
    bench.check();
}
