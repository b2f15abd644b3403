//! Windows of minutes and hours, and buckets: exact over all workers, whatever is edited, comes back or crashes meanwhile.

use ledger::{Action, Amount, BudgetSpec, Period, Record, Verdict, WindowLimit, Windows};
use money::{Instant, Zone};
use proptest::prelude::*;

use crate::bench::{Bench, child, options, spec};

const MINUTE: u64 = 60_000;
/// A full minute and hour.
const NOON: &str = "2026-06-02T12:00:00Z";

fn ms(text: &str) -> u64 {
    Instant::parse(text).unwrap().ms()
}

fn fixed(period: Period, limit: i64) -> WindowLimit {
    WindowLimit::fixed(period, Amount::new(limit))
}

fn bucket(period: Period, limit: i64) -> WindowLimit {
    WindowLimit::bucket(period, Amount::new(limit))
}

fn windowed(windows: impl IntoIterator<Item = WindowLimit>) -> BudgetSpec {
    BudgetSpec { windows: Windows::of(windows), ..spec(1, 1_000_000) }
}

/// What is used of the shortest window.
fn used(bench: &Bench) -> i64 {
    bench.bank.windows(0).next().unwrap().1.get()
}

/// From when on the bank said that there is more for an ask which a worker refused.
fn retry_at_ms(bench: &Bench, worker: usize, amount: i64) -> Option<u64> {
    let used_up = bench.purses[worker].used_up(0, Amount::new(amount));
    used_up.and_then(|used_up| used_up.window).and_then(|window| window.retry_at_ms)
}

/// Asks of one, each by the next worker, until one is refused; settles all. How many, and the last "no".
fn ones(bench: &mut Bench, workers: usize) -> (usize, Verdict) {
    // A purse that was denied a moment ago does not ask again at once.
    bench.advance(25);
    for count in 0.. {
        match bench.wait_for(count % workers, 1, 1) {
            Ok(hold) => assert_eq!(bench.settle(hold, 1), Verdict::Settled),
            Err(why) => return (count, why),
        }
    }
    unreachable!()
}

#[test]
fn a_minute_is_whole_again_at_its_end() {
    let start_ms = ms(NOON) + 59_000;
    let mut bench = Bench::at(start_ms, options(4), &[windowed([fixed(Period::Minute, 10)])]);
    assert_eq!(ones(&mut bench, 4), (10, Verdict::WindowExhausted));
    let retry_ms = retry_at_ms(&bench, 2, 1);
    assert_eq!(retry_ms, Some(ms(NOON) + MINUTE));
    bench.now_ms = ms(NOON) + MINUTE;
    assert_eq!(ones(&mut bench, 4), (10, Verdict::WindowExhausted), "without any pause");
    assert!(bench.now_ms < ms(NOON) + MINUTE + 1_000);
    bench.check();
}

/// Three windows at once: whichever has nothing left refuses, and says until when.
#[test]
fn several_windows_hold_at_once() {
    let windows =
        [fixed(Period::Minute, 4), fixed(Period::Hour, 10), bucket(Period::Day, 1_000_000)];
    let mut bench = Bench::at(ms(NOON), options(2), &[windowed(windows)]);
    for (minute, expected) in [4, 4, 2, 0].into_iter().enumerate() {
        bench.now_ms = ms(NOON) + minute as u64 * MINUTE;
        assert_eq!(ones(&mut bench, 2), (expected, Verdict::WindowExhausted), "minute {minute}");
    }
    assert_eq!(retry_at_ms(&bench, 0, 1), Some(ms(NOON) + 60 * MINUTE));
    bench.now_ms = ms(NOON) + 60 * MINUTE;
    assert_eq!(ones(&mut bench, 2).0, 4);
    bench.check();
}

/// The limit of its life ends it, whatever the windows say; and a day still says that it is a day.
#[test]
fn the_verdict_names_the_limit() {
    let poor = BudgetSpec { limit: Amount::new(5), ..windowed([fixed(Period::Minute, 10)]) };
    let mut bench = Bench::at(ms(NOON), options(2), &[poor]);
    assert_eq!(ones(&mut bench, 2), (5, Verdict::Exhausted));
    assert_eq!(retry_at_ms(&bench, 0, 1), None);
    let days = [fixed(Period::Minute, 10), fixed(Period::Day, 3)];
    let mut bench = Bench::at(ms(NOON), options(1), &[windowed(days)]);
    assert_eq!(ones(&mut bench, 1), (3, Verdict::DayExhausted));
    assert_eq!(retry_at_ms(&bench, 0, 1), Some(ms("2026-06-03T00:00:00Z")));
}

/// A larger ask right behind a smaller one: what the bank said of that is not its answer.
#[test]
fn each_ask_hears_the_limit_that_it_meets_and_its_own_time() {
    let budget = BudgetSpec { limit: Amount::new(100), ..windowed([fixed(Period::Hour, 60)]) };
    let mut bench = Bench::at(ms(NOON), options(2), &[budget]);
    let hold = bench.wait_for(0, 1, 60).unwrap();
    assert_eq!(bench.settle(hold, 60), Verdict::Settled);
    assert_eq!(bench.wait_for(1, 1, 30).unwrap_err(), Verdict::WindowExhausted);
    assert_eq!(bench.wait_for(1, 1, 50).unwrap_err(), Verdict::Exhausted, "40 are left for life");
    assert_eq!(bench.wait_for(1, 1, 30).unwrap_err(), Verdict::WindowExhausted);

    let windows = [bucket(Period::Minute, 10), fixed(Period::Day, 30)];
    let mut bench = Bench::at(ms(NOON), options(1), &[windowed(windows)]);
    let hold = bench.wait_for(0, 1, 10).unwrap();
    assert_eq!(bench.settle(hold, 10), Verdict::Settled);
    for (amount, wait_s) in [(1, 6), (5, 30), (9, 54), (2, 12)] {
        let denied = bench.wait_for(0, 1, amount).unwrap_err();
        assert_eq!(denied, Verdict::WindowExhausted);
        assert_eq!(retry_at_ms(&bench, 0, amount), Some(ms(NOON) + wait_s * 1_000), "{amount}");
    }
    let denied = bench.wait_for(0, 1, 25).unwrap_err();
    assert_eq!(denied, Verdict::WindowExhausted, "the bucket never has 25, before the day ends");
    assert_eq!(retry_at_ms(&bench, 0, 25), None);
}

/// How long a bucket refuses depends on the ask: what it says of a large one is nothing about a small one that another window refuses for longer.
#[test]
fn a_bucket_that_lasts_longest_says_nothing_of_smaller_asks() {
    let windows = [fixed(Period::Hour, 50), bucket(Period::Day, 100)];
    let mut bench = Bench::at(ms(NOON), options(1), &[windowed(windows)]);
    for hour in [0, 60] {
        bench.now_ms = ms(NOON) + hour * MINUTE;
        let hold = bench.wait_for(0, 1, 50).unwrap();
        assert_eq!(bench.settle(hold, 50), Verdict::Settled);
    }
    bench.now_ms += 10 * MINUTE;
    assert_eq!(bench.wait_for(0, 1, 30).unwrap_err(), Verdict::WindowExhausted);
    let hour_ends = ms(NOON) + 120 * MINUTE;
    assert!(retry_at_ms(&bench, 0, 30).unwrap() > hour_ends, "the bucket");
    assert_eq!(bench.purses[0].used_up(0, Amount::new(6)), None, "nothing is known");
    assert_eq!(bench.wait_for(0, 1, 6).unwrap_err(), Verdict::WindowExhausted);
    assert_eq!(retry_at_ms(&bench, 0, 6), Some(hour_ends));
}

/// What purses have counts as left, so it is none of what an ask waits for.
#[test]
fn what_lies_in_purses_comes_back_before_a_bucket_refills() {
    let mut bench = Bench::at(ms(NOON), options(2), &[windowed([bucket(Period::Day, 1_000)])]);
    for worker in [0, 1, 0, 1] {
        let hold = bench.wait_for(worker, 1, 100).unwrap();
        assert_eq!(bench.settle(hold, 100), Verdict::Settled);
    }
    assert!(bench.purses[0].free(0) > Amount::ZERO, "it has more than was asked");
    assert_eq!(bench.wait_for(0, 1, 700).unwrap_err(), Verdict::WindowExhausted);
    let wait_ms = retry_at_ms(&bench, 0, 700).unwrap() - ms(NOON);
    assert!((8_640_000 - 2_000..=8_640_001).contains(&wait_ms), "a tenth of a day: {wait_ms}");
    assert_eq!(bench.purses[0].used_up(0, Amount::new(700)).unwrap().left.get(), 600);
    bench.check();
}

/// Who waited for the answer to a doubt in vain is not told what was said before.
#[test]
fn a_word_that_is_doubted_is_said_no_more() {
    let budget = BudgetSpec { limit: Amount::new(10), ..windowed([fixed(Period::Hour, 60)]) };
    let mut bench = Bench::at(ms(NOON), options(1), &[budget]);
    let hold = bench.wait_for(0, 1, 10).unwrap();
    assert_eq!(bench.wait_for(0, 1, 10).unwrap_err(), Verdict::Exhausted);
    assert_eq!(bench.resolve(Action::Release, hold, 0).0, Verdict::Released);
    bench.purses[0].doubt(0);
    assert_eq!(bench.reserve(0, 1, 10).unwrap_err(), Verdict::PurseEmpty);
    assert!(bench.wait_for(0, 1, 10).is_ok());
}

#[test]
fn an_ask_of_more_than_a_whole_window_is_told_so_and_hides_nothing_from_smaller_ones() {
    let days = [fixed(Period::Minute, 4), fixed(Period::Day, 6)];
    let mut bench = Bench::at(ms(NOON), options(2), &[windowed(days)]);
    assert_eq!(bench.wait_for(0, 1, 5).unwrap_err(), Verdict::WindowExhausted);
    let minute = bench.purses[0].used_up(0, Amount::new(5)).unwrap().window.unwrap();
    assert_eq!((minute.period, minute.limit.get()), (Period::Minute, 4));
    assert_eq!(minute.retry_at_ms, None, "never");
    let hold = bench.wait_for(0, 1, 4).expect("it is there");
    assert_eq!(bench.settle(hold, 4), Verdict::Settled);
    bench.now_ms += MINUTE;
    assert_eq!(bench.wait_for(0, 1, 5).unwrap_err(), Verdict::WindowExhausted);
    assert_eq!(bench.wait_for(0, 1, 3).unwrap_err(), Verdict::DayExhausted, "2 are left today");
}

#[test]
fn a_bucket_gives_one_each_six_seconds_and_never_two_minutes_at_once() {
    let mut bench = Bench::at(ms(NOON), options(3), &[windowed([bucket(Period::Minute, 10)])]);
    assert_eq!(ones(&mut bench, 3), (10, Verdict::WindowExhausted));
    let waited = bench.now_ms - ms(NOON);
    assert!(waited < 6_000, "{waited}");
    assert_eq!(retry_at_ms(&bench, 1, 1), Some(ms(NOON) + 6_025));
    bench.now_ms = ms(NOON) + 5_900;
    assert_eq!(ones(&mut bench, 3).0, 0);
    bench.now_ms = ms(NOON) + 6_000;
    assert_eq!(ones(&mut bench, 3).0, 1, "at 6,025");
    bench.now_ms = ms(NOON) + 60 * MINUTE;
    assert_eq!(ones(&mut bench, 3).0, 10, "an hour later it is full, and no fuller");
    // What comes back refills it at once.
    bench.now_ms += 10 * MINUTE;
    let hold = bench.wait_for(0, 1, 10).unwrap();
    assert!(bench.wait_for(1, 1, 1).is_err());
    assert_eq!(bench.settle(hold, 3), Verdict::Settled);
    assert_eq!(ones(&mut bench, 3).0, 7);
    bench.check();
}

/// Reserved in one minute and released in the next: it does not make the next one larger.
#[test]
fn what_comes_back_belongs_to_the_window_that_handed_it_out() {
    let start_ms = ms(NOON) + MINUTE - 200;
    let mut bench = Bench::at(start_ms, options(2), &[windowed([fixed(Period::Minute, 10)])]);
    let hold = bench.wait_for(0, 1, 8).unwrap();
    bench.resolve(Action::Confirm, hold, 0);
    bench.now_ms = ms(NOON) + MINUTE;
    let next = bench.wait_for(0, 1, 5).unwrap();
    assert_eq!(bench.resolve(Action::Release, hold, 0).0, Verdict::Released);
    assert_eq!(used(&bench), 5);
    assert_eq!(bench.settle(next, 2), Verdict::Settled);
    assert_eq!(ones(&mut bench, 2).0, 8);
    bench.check();
}

/// A crash forgets no part of a window: what workers had counts where it was handed out.
#[test]
fn a_window_outlives_a_crash() {
    let set = [windowed([fixed(Period::Minute, 10), bucket(Period::Hour, 15)])];
    let mut bench = Bench::at(ms(NOON), options(2), &set);
    let hold = bench.wait_for(0, 1, 4).unwrap();
    bench.wait_for(1, 1, 3).unwrap();
    bench.crash();
    assert_eq!(used(&bench), 7);
    assert_eq!(bench.settle(hold, 4), Verdict::Settled);
    assert_eq!(ones(&mut bench, 2), (3, Verdict::PurseEmpty), "three come back");
    bench.crash();
    bench.now_ms = ms(NOON) + MINUTE;
    let (count, _) = ones(&mut bench, 2);
    assert!((5..=8).contains(&count), "of 15: 7 spent, 3 out or back, a quarter of one refilled");
    bench.check();
}

#[test]
fn an_hour_ends_where_the_clocks_change() {
    let lord_howe = Zone::parse("Australia/Lord_Howe").unwrap();
    let hourly = BudgetSpec { zone: lord_howe, ..windowed([fixed(Period::Hour, 10)]) };
    let mut bench = Bench::at(ms("2026-04-04T14:30:00Z"), options(1), &[hourly]);
    for (at, expected) in [
        ("2026-04-04T14:30:00Z", 10),
        ("2026-04-04T14:59:59Z", 0),
        ("2026-04-04T15:00:00Z", 10),
        ("2026-04-04T15:29:59Z", 0),
        ("2026-04-04T15:30:00Z", 10),
        ("2026-04-04T16:29:59Z", 0),
    ] {
        bench.now_ms = ms(at);
        assert_eq!(ones(&mut bench, 1).0, expected, "{at}");
    }
    bench.check();
}

/// A window that comes while money is out counts from then on, and nothing of before is spent past it.
#[test]
fn windows_come_change_and_go_while_money_is_out() {
    let mut bench = Bench::at(ms(NOON), options(2), &[spec(1, 1_000_000)]);
    let before = bench.insist(0, 1, 50).unwrap();
    let with = |limit| windowed([fixed(Period::Minute, limit)]);
    bench.configure(&[with(10)]);
    assert!(bench.reserve(0, 1, 1).is_err(), "the purse of before went back");
    assert_eq!(bench.settle(before, 30), Verdict::Settled);
    assert_eq!((ones(&mut bench, 2).0, used(&bench)), (10, 10));
    bench.configure(&[with(12)]);
    assert_eq!(ones(&mut bench, 2).0, 2, "raised");
    bench.configure(&[with(5)]);
    assert_eq!((ones(&mut bench, 2).0, used(&bench)), (0, 12), "lowered below what is used");
    bench.configure(&[windowed([bucket(Period::Minute, 3)])]);
    assert_eq!(ones(&mut bench, 2).0, 3, "another kind counts from when it came");
    bench.configure(&[spec(1, 1_000_000)]);
    assert!(bench.insist(0, 1, 500).is_ok());
    bench.configure(&[windowed([bucket(Period::Minute, 3)])]);
    bench.crash();
    assert_eq!(ones(&mut bench, 2).0, 3);
    bench.check();
}

/// The clock jumps over a day, and the zone changes the hours: no instant has two limits.
#[test]
fn a_changed_zone_gives_no_second_hour() {
    let hourly = |zone: &str| BudgetSpec {
        zone: Zone::parse(zone).unwrap(),
        ..windowed([fixed(Period::Hour, 10)])
    };
    let mut bench = Bench::at(ms("2026-06-02T12:10:00Z"), options(1), &[hourly("UTC")]);
    assert_eq!(ones(&mut bench, 1).0, 10);
    // Hours begin at 15 minutes past there.
    bench.configure(&[hourly("Asia/Kathmandu")]);
    bench.now_ms = ms("2026-06-02T12:59:00Z");
    assert_eq!(ones(&mut bench, 1).0, 0);
    bench.now_ms = ms("2026-06-02T13:00:00Z");
    assert_eq!(ones(&mut bench, 1).0, 10, "a short one, to its end at 13:15");
    bench.now_ms = ms("2026-06-02T13:15:00Z");
    assert_eq!(ones(&mut bench, 1).0, 10);
    bench.now_ms = ms("2026-06-04T13:20:00Z");
    assert_eq!(ones(&mut bench, 1).0, 10);
    bench.check();
}

/// A parent of ten per minute over two children, on four workers.
#[test]
fn a_parents_minute_is_shared_by_its_children() {
    let set =
        [windowed([fixed(Period::Minute, 10)]), child(2, 1_000_000, 1), child(3, 1_000_000, 1)];
    let mut bench = Bench::at(ms(NOON), options(4), &set);
    let mut granted = 0;
    for ask in 0..16 {
        granted += usize::from(bench.wait_for(ask % 4, 2 + ask as u64 % 2, 1).is_ok());
    }
    assert_eq!(granted, 10);
    bench.check();
}

/// Asks that come just before the minute ends wait for the next one.
#[test]
fn asks_at_the_edge_get_the_answer_of_the_new_window() {
    let start_ms = ms(NOON) + MINUTE - 30;
    let mut bench = Bench::at(start_ms, options(2), &[windowed([fixed(Period::Minute, 1)])]);
    assert!(bench.wait_for(0, 1, 1).is_ok());
    assert!(bench.wait_for(1, 1, 1).is_ok());
    assert_eq!(bench.now_ms, ms(NOON) + MINUTE);
    assert_eq!(bench.wait_for(0, 1, 1), Err(Verdict::WindowExhausted));
    bench.check();
}

/// Buckets that nobody asks of, and minutes in which nobody asks, leave no record.
#[test]
fn windows_that_nobody_uses_cost_nothing() {
    let set = [windowed([fixed(Period::Minute, 10), bucket(Period::Hour, 10)])];
    let mut bench = Bench::at(ms(NOON), options(2), &set);
    let before = bench.records.len();
    for _ in 0..100 {
        bench.advance(MINUTE);
    }
    assert_eq!(bench.records.len(), before);
    bench.wait_for(0, 1, 1).unwrap();
    let rolled = |record: &&Record| matches!(record, Record::WindowRolled { .. });
    assert_eq!(bench.records[before..].iter().filter(rolled).count(), 1);
}

/// What an ask of the property does: at which worker, whether it waits alone, what becomes of it.
fn asks() -> impl Strategy<Value = Vec<(usize, bool, u8)>> {
    prop::collection::vec((0..4_usize, any::<bool>(), 0..4_u8), 11..40)
}

proptest! {
    /// Ten per minute on four workers: exactly ten of eleven asks and more are granted, however they are spread, whether they
    /// come at once or one after the other, and whatever was released or left to lapse.
    #[test]
    fn exactly_ten_of_a_minute_are_granted(asks in asks(), is_bucket: bool) {
        let window = match is_bucket {
            // So slow that nothing is refilled meanwhile.
            true => bucket(Period::Month, 10),
            false => fixed(Period::Hour, 10),
        };
        let mut bench = Bench::at(ms(NOON), options(4), &[windowed([window])]);
        let (mut spent, mut open) = (0, Vec::new());
        for (index, (worker, alone, fate)) in asks.iter().enumerate() {
            // All of what is left of the row may be asked at once: as frames that wait together.
            let together = &asks[index..(index + if *alone { 1 } else { 3 }).min(asks.len())];
            together.iter().for_each(|(worker, ..)| bench.call(*worker, 1, 1));
            bench.hear();
            match bench.reserve(*worker, 1, 1) {
                Ok(hold) if *fate == 0 => open.push(hold),
                Ok(hold) if *fate == 1 => {
                    prop_assert_eq!(bench.resolve(Action::Release, hold, 0).0, Verdict::Released);
                }
                Ok(hold) => {
                    prop_assert_eq!(bench.settle(hold, 1), Verdict::Settled);
                    spent += 1;
                }
                Err(_) => {}
            }
            prop_assert!(spent + open.len() <= 10);
        }
        // Whoever asks now and waits gets what is there, wherever it lies.
        bench.advance(25);
        let holds = open.iter().filter(|hold| hold.deadline_ms > bench.now_ms).count();
        let mut more = 0;
        while bench.wait_for(more % 4, 1, 1).is_ok() {
            more += 1;
            prop_assert!(spent + more <= 10);
        }
        prop_assert!(spent + holds + more >= 10, "{spent} spent, {holds} held, {more} more");
        bench.check();
    }
}
