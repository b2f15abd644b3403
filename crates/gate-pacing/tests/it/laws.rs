//! What must hold for every plan and every state of a budget.

use gate_pacing::{Counters, Curve, Decision, Demand, Pace, Plan, PlanError, Spend, Strategy};
use money::{Amount, Instant, Window, Zone, day_at};
use proptest::prelude::*;

const START_MS: u64 = 1_790_000_000_000;
const DAY_MS: u64 = 86_400_000;
const CAP: i64 = 1_000_000_000_000_000_000;

fn plan(strategy: Strategy, days: u64, daily: bool) -> Plan {
    let flight = Window {
        start: Instant::from_ms(START_MS),
        end: Instant::from_ms(START_MS + days * DAY_MS),
    };
    Plan::new(42, strategy, flight, daily, Zone::utc(), None).expect("a valid plan")
}

fn amount(range: std::ops::RangeInclusive<i64>) -> impl Strategy_<Value = Amount> {
    range.prop_map(Amount::new)
}

use proptest::strategy::Strategy as Strategy_;

fn spend() -> impl Strategy_<Value = Spend> {
    let part = || prop_oneof![Just(Amount::ZERO), amount(0..=1_000_000), amount(0..=CAP)];
    (part(), part(), part()).prop_map(|(settled, confirmed, open)| Spend {
        settled,
        confirmed,
        open,
    })
}

prop_compose! {
    fn counters()(
        limit in prop_oneof![amount(0..=1_000_000_000), amount(0..=CAP)],
        life in spend(),
        today in spend(),
        day_limit in prop::option::of(amount(0..=CAP)),
        closed in (amount(0..=CAP), amount(0..=CAP)),
        demand in (amount(0..=CAP), 0_u64..20_000),
        ask_max in amount(0..=1_000_000_000_000_000),
    ) -> Counters {
        let day = day_at(Instant::from_ms(START_MS), &Zone::utc());
        let (reserved_closed, paid_closed) = closed;
        let demand = Demand { asked: demand.0, ms: demand.1 };
        Counters { limit, life, day, day_limit, today, reserved_closed, paid_closed, demand, ask_max }
    }
}

fn strategies() -> impl Strategy_<Value = Strategy> {
    prop::sample::select(&Strategy::ALL[..])
}

fn left(counters: &Counters) -> i128 {
    let exposed = |spend: &Spend| {
        [spend.settled, spend.confirmed, spend.open]
            .iter()
            .map(|line| i128::from(line.get()))
            .sum::<i128>()
    };
    let life = i128::from(counters.limit.get()) - exposed(&counters.life);
    let day = counters.day_limit.map(|limit| i128::from(limit.get()) - exposed(&counters.today));
    day.map_or(life, |day| day.min(life)).max(0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn pure(strategy in strategies(), counters in counters(), ms in 0..2 * DAY_MS, tick in 0_u64..20_000,
            workers in 0_u32..64) {
        let at = Instant::from_ms(START_MS + ms);
        let once = plan(strategy, 1, counters.day_limit.is_some()).parameters(&counters, at, tick, workers);
        let again = plan(strategy, 1, counters.day_limit.is_some()).parameters(&counters, at, tick, workers);
        prop_assert_eq!(once, again);
    }

    #[test]
    fn allowances_are_never_negative_and_never_above_what_is_left(
            strategy in strategies(), counters in counters(), ms in 0..DAY_MS / 2, tick in 0_u64..20_000,
            workers in 0_u32..64) {
        let at = Instant::from_ms(START_MS + ms);
        let daily = counters.day_limit.is_some();
        let allowance = plan(strategy, 9, daily).parameters(&counters, at, tick, workers).allowance();
        prop_assert!(allowance >= Amount::ZERO);
        if strategy != Strategy::Asap && counters.day.contains(at) {
            prop_assert!(i128::from(allowance.get()) <= left(&counters));
        }
    }

    /// Spend more, and no more is let through.
    #[test]
    fn monotone_in_what_is_spent(strategy in strategies(), counters in counters(), ms in 0..DAY_MS / 2,
                                 more in amount(0..=CAP), line in 0..3) {
        let at = Instant::from_ms(START_MS + ms);
        let add = |spend: Spend| {
            let plus = |old: Amount| old.checked_add(more).unwrap_or(Amount::new(i64::MAX));
            match line {
                0 => Spend { settled: plus(spend.settled), ..spend },
                1 => Spend { confirmed: plus(spend.confirmed), ..spend },
                _ => Spend { open: plus(spend.open), ..spend },
            }
        };
        let spent = Counters { life: add(counters.life), today: add(counters.today), ..counters };
        let plan = plan(strategy, 1, counters.day_limit.is_some());
        let (before, after) = (plan.parameters(&counters, at, 1_000, 2), plan.parameters(&spent, at, 1_000, 2));
        prop_assert!(after.allowance() <= before.allowance(), "{:?} {:?}", before, after);
        prop_assert!(after.threshold() <= before.threshold(), "{:?} {:?}", before, after);
    }

    /// What all workers may let through never brings expected spend above the plan at the next tick: by one ask too
    /// many for each further worker at most, and for the coin by its rail, 1/32 of the budget.
    #[test]
    fn never_ahead_of_the_next_tick(strategy in prop::sample::select(&Strategy::ALL[1..]), settled in 0_i64..1_000_000_000,
                                    open in 0_i64..1_000_000_000, ms in 0..DAY_MS, tick in 1_u64..5_000,
                                    workers in 1_u32..16, ask_max in 0_i64..100_000_000) {
        const LIMIT: i64 = 1_000_000_000;
        let (settled, open, ask_max) = (Amount::new(settled), Amount::new(open), Amount::new(ask_max));
        // So much evidence that everything reserved is paid that the first guess does not matter.
        let counters = Counters {
            limit: Amount::new(LIMIT),
            life: Spend { settled, open, ..Spend::default() },
            reserved_closed: Amount::new(CAP),
            paid_closed: Amount::new(CAP),
            ask_max,
            ..Counters::default()
        };
        let (plan, now) = (plan(strategy, 1, false), Instant::from_ms(START_MS + ms));
        let all = plan.parameters(&counters, now, tick, workers).allowance().get() * i64::from(workers);
        let next = plan.progress(&counters, Instant::from_ms(START_MS + ms + tick));
        let rail = if strategy == Strategy::Throttle { LIMIT / 32 } else { 0 };
        let lumps = ask_max.get() * i64::from(workers - 1);
        let ahead = next.spent.get() + all - next.planned.get();
        prop_assert!(all == 0 || ahead <= rail + lumps + 2, "ahead by {}", ahead);
    }

    /// Time passes along a straight line, and no less is let through.
    #[test]
    fn monotone_in_time(strategy in prop::sample::select(&[Strategy::Even, Strategy::Throttle][..]),
                        counters in counters(), a in 0..DAY_MS * 9 / 10, b in 0..DAY_MS * 9 / 10) {
        let counters = Counters { day_limit: None, ..counters };
        let plan = plan(strategy, 1, false);
        let pace = |ms: u64| plan.parameters(&counters, Instant::from_ms(START_MS + ms), 1_000, 2);
        let (early, late) = (pace(a.min(b)), pace(a.max(b)));
        // A tick's share is a difference of two rounded numbers, so that it varies by a base unit.
        let slack = 1 + early.allowance().get() / 100_000 + 20_000;
        prop_assert!(late.allowance().get() >= early.allowance().get() - slack, "{:?} {:?}", early, late);
    }

    /// The order in which shards are added up does not matter, because only sums are looked at.
    #[test]
    fn counters_of_shards_add_up(strategy in strategies(), counters in counters(), part in 0_i64..1_000) {
        let at = Instant::from_ms(START_MS + 1_000);
        let split = |whole: Amount| {
            let one = whole.checked_mul_ratio(part.unsigned_abs(), 1_000, money::Rounding::Down).expect("a part");
            let other = whole.checked_sub(one).expect("the rest");
            Amount::total([other, one]).expect("the whole")
        };
        let life = counters.life;
        let life = Spend { settled: split(life.settled), confirmed: split(life.confirmed), open: split(life.open) };
        let merged = Counters { life, ..counters };
        let plan = plan(strategy, 1, counters.day_limit.is_some());
        prop_assert_eq!(plan.parameters(&counters, at, 100, 4), plan.parameters(&merged, at, 100, 4));
    }

    #[test]
    fn nothing_outside_the_flight(strategy in strategies(), counters in counters(), ms in 0..DAY_MS) {
        let plan = plan(strategy, 1, counters.day_limit.is_some());
        for at in [START_MS - 1 - ms, START_MS + DAY_MS + ms] {
            prop_assert_eq!(plan.parameters(&counters, Instant::from_ms(at), 1_000, 1), Pace::CLOSED);
        }
    }

    #[test]
    fn any_state_has_a_progress(strategy in strategies(), counters in counters(), ms: u64) {
        let plan = plan(strategy, 1, counters.day_limit.is_some());
        let progress = plan.progress(&counters, Instant::from_ms(ms));
        prop_assert!(progress.planned >= Amount::ZERO && progress.planned <= progress.budget);
    }

    /// Nonsense in every counter is answered, too: the bank's own checks come later than this code.
    #[test]
    fn no_number_breaks_it(strategy in strategies(), numbers in prop::array::uniform12(any::<i64>()), ms: u64,
                           tick: u64, workers: u32, daily: bool) {
        let [limit, settled, confirmed, open, day, a, b, c, reserved, paid, asked, ask] = numbers.map(Amount::new);
        let counters = Counters {
            limit,
            life: Spend { settled, confirmed, open },
            day: Window { start: Instant::EPOCH, end: Instant::MAX },
            day_limit: daily.then_some(day),
            today: Spend { settled: a, confirmed: b, open: c },
            reserved_closed: reserved,
            paid_closed: paid,
            demand: Demand { asked, ms: tick },
            ask_max: ask,
        };
        for at in [Instant::from_ms(ms), Instant::from_ms(START_MS + ms % DAY_MS)] {
            let plan = plan(strategy, 1, daily);
            let pace = plan.parameters(&counters, at, tick, workers);
            prop_assert!(pace.allowance() >= Amount::ZERO);
            prop_assert!(plan.progress(&counters, at).planned >= Amount::ZERO);
        }
    }
}

#[test]
fn the_coin_of_a_tick_adds_requests_as_spend_falls_behind() {
    let plan = plan(Strategy::Throttle, 1, false);
    let limit = Amount::new(1_000_000_000);
    let demand = Demand { asked: Amount::new(1_000_000_000), ms: 1_000 };
    let at = Instant::from_ms(START_MS + DAY_MS / 2);
    let pace = |settled: i64| {
        let life = Spend { settled: Amount::new(settled), ..Spend::default() };
        plan.parameters(&Counters { limit, life, demand, ..Counters::default() }, at, 1_000, 1)
    };
    let passes = |mut pace: Pace, id: u64| pace.decide(id, Amount::new(1)) == Decision::Pass;
    let (ahead, on_plan, behind) = (pace(510_000_000), pace(502_512_000), pace(480_000_000));
    let count = |pace: Pace| (0..1_000_000).filter(|id| passes(pace, *id)).count();
    assert!(count(ahead) < count(on_plan) && count(on_plan) < count(behind));
    let nested = |id: &u64| passes(ahead, *id) && !passes(behind, *id);
    assert_eq!((0..1_000_000).filter(nested).count(), 0);
}

#[test]
fn budgets_have_their_own_coins() {
    let flight =
        Window { start: Instant::from_ms(START_MS), end: Instant::from_ms(START_MS + DAY_MS) };
    let plan = |id| {
        Plan::new(id, Strategy::Throttle, flight, false, Zone::utc(), None).expect("a valid plan")
    };
    let counters = Counters { limit: Amount::new(1_000_000_000), ..Counters::default() };
    let chosen = |id| -> Vec<u64> {
        let pace = plan(id).parameters(&counters, flight.start, 1_000, 1);
        let passes = |request: &u64| { pace }.decide(*request, Amount::new(1)) == Decision::Pass;
        (0..10_000).filter(passes).collect()
    };
    assert!(!chosen(1).is_empty() && chosen(1) != chosen(2));
    assert_eq!(chosen(1), chosen(1));
}

#[test]
fn plans_that_cannot_be_are_explained() {
    let flight = |start, end| Window { start: Instant::from_ms(start), end: Instant::from_ms(end) };
    let new =
        |strategy, flight, daily, curve| Plan::new(1, strategy, flight, daily, Zone::utc(), curve);
    let (even, traffic, asap) = (Strategy::Even, Strategy::Traffic, Strategy::Asap);
    assert!(new(asap, Window::ALWAYS, false, None).is_ok());
    assert!(new(even, Window::ALWAYS, true, None).is_ok(), "every day has both ends");
    assert_eq!(new(even, flight(0, 9), false, None), Err(PlanError::NoStart { strategy: even }));
    let no_end = new(even, flight(9, u64::MAX), false, None);
    assert_eq!(no_end, Err(PlanError::NoEnd { strategy: even }));
    let too_long = new(traffic, flight(1, 200 * 365 * DAY_MS), false, None).expect_err("200 years");
    assert!(
        too_long.to_string().contains("73000 days long, expected at most 36,525")
            || too_long.to_string().contains("72999 days long"),
        "{too_long}"
    );
    let unused = new(even, flight(1, 9), false, Some(Curve::default()));
    assert_eq!(unused, Err(PlanError::CurveUnused { strategy: even }));
}

#[test]
fn a_day_that_nobody_ended_is_over() {
    let plan = plan(Strategy::Even, 9, true);
    let day = day_at(Instant::from_ms(START_MS), &Zone::utc());
    let today = Spend { settled: Amount::new(1_000_000), ..Spend::default() };
    let counters = Counters {
        limit: Amount::new(9_000_000),
        life: today,
        day,
        day_limit: Some(Amount::new(1_000_000)),
        today,
        ..Counters::default()
    };
    let at = |ms: u64| Instant::from_ms(day.end.ms() + ms);
    assert_eq!(
        plan.parameters(&counters, Instant::from_ms(day.end.ms() - 1), 1_000, 1).allowance(),
        Amount::ZERO
    );
    assert!(plan.parameters(&counters, at(3_600_000), 1_000, 1).allowance() > Amount::ZERO);
    let back = Counters { day: day_at(at(0), &Zone::utc()), ..counters };
    assert_eq!(plan.parameters(&back, Instant::from_ms(day.end.ms() - 1), 1_000, 1), Pace::CLOSED);
}

/// An ask as large as the whole budget passes once, near the end, however many workers there are.
#[test]
fn large_asks_do_not_starve() {
    for workers in [1, 8, 64] {
        let plan = plan(Strategy::Even, 1, false);
        let limit = Amount::new(1_000_000);
        let closed = Amount::new(1_000_000_000);
        let counters = Counters {
            limit,
            ask_max: limit,
            reserved_closed: closed,
            paid_closed: closed,
            ..Counters::default()
        };
        let passes = |ms: u64| {
            let mut pace =
                plan.parameters(&counters, Instant::from_ms(START_MS + ms), 1_000, workers);
            pace.decide(1, limit) == Decision::Pass
        };
        assert!(!passes(DAY_MS / 2) && passes(DAY_MS - 1_000), "{workers} workers");
    }
}

/// A budget of `limit` in which everything reserved is known to be paid.
fn certain(limit: i64, life: Spend) -> Counters {
    let closed = Amount::new(CAP);
    let limit = Amount::new(limit);
    Counters { limit, life, reserved_closed: closed, paid_closed: closed, ..Counters::default() }
}

fn spend_of(settled: i64, confirmed: i64, open: i64) -> Spend {
    let [settled, confirmed, open] = [settled, confirmed, open].map(Amount::new);
    Spend { settled, confirmed, open }
}

#[test]
fn open_holds_count_as_what_they_will_cost() {
    let plan = plan(Strategy::Even, 1, false);
    let at = Instant::from_ms(START_MS + DAY_MS / 2);
    let spent = |counters: &Counters| plan.progress(counters, at).spent.get();
    let counters = certain(1_000_000_000, spend_of(1_000_000, 20_000, 500_000));
    assert!((1_519_998..=1_520_000).contains(&spent(&counters)), "all of it: {}", spent(&counters));
    let tenth = Counters { paid_closed: Amount::new(CAP / 10), ..counters };
    assert!((1_069_998..=1_070_000).contains(&spent(&tenth)), "a tenth of it: {}", spent(&tenth));
    // A tenth is paid, so ten times as much may be reserved.
    let allowance = |counters: &Counters| plan.parameters(counters, at, 1_000, 1).allowance().get();
    assert_eq!(allowance(&tenth) / allowance(&counters), 10);
}

#[test]
fn catching_up_takes_its_time() {
    let plan = plan(Strategy::Even, 1, false);
    let counters = certain(8_640_000_000, Spend::default());
    let at = Instant::from_ms(START_MS + DAY_MS / 2);
    // A second's share is 100,000, and 1/199 more because the plan is done early.
    let allowance = plan.parameters(&counters, at, 1_000, 1).allowance().get();
    assert!((804_000..804_100).contains(&allowance), "eight shares: {allowance}");
}

/// What is left of the limit is less than the day's limit: the plan spreads what is left, and what is spent of it
/// today does not make it smaller.
#[test]
fn the_last_day_spreads_what_is_left() {
    let plan = plan(Strategy::Even, 9, true);
    let day = day_at(Instant::from_ms(START_MS + DAY_MS), &Zone::utc());
    let noon = Instant::from_ms(day.start.ms() + DAY_MS / 2);
    let budget = |limit: i64, today: i64| {
        let counters = Counters {
            day,
            day_limit: Some(Amount::new(1_000)),
            today: spend_of(today, 0, 0),
            ..certain(limit, spend_of(8_000 + today, 0, 0))
        };
        plan.progress(&counters, noon).budget.get()
    };
    assert_eq!((budget(20_000, 0), budget(20_000, 900)), (1_000, 1_000));
    assert_eq!((budget(8_600, 0), budget(8_600, 300)), (600, 600));
    assert_eq!(budget(7_000, 0), 0, "a limit below what is spent plans nothing");
}

#[test]
fn a_flight_that_ends_today_ends_the_day() {
    let flight = Window { start: Instant::EPOCH, end: Instant::from_ms(START_MS) };
    let plan = Plan::new(1, Strategy::Even, flight, true, Zone::utc(), None).expect("daily");
    let at = Instant::from_ms(START_MS - 1);
    let day_limit = Some(Amount::new(1_000));
    let counters =
        Counters { day: day_at(at, &Zone::utc()), day_limit, ..certain(9_000, Spend::default()) };
    let progress = plan.progress(&counters, at);
    assert_eq!((progress.window.end, progress.planned), (flight.end, Amount::new(1_000)));
    assert_eq!(progress.index_ppm, Some(0));
}

/// Days of 23 and 25 hours carry the whole daily limit, along a line and along a curve.
#[test]
fn short_and_long_days_carry_the_whole_limit() {
    let paris = Zone::parse("Europe/Paris").expect("a zone");
    for strategy in [Strategy::Even, Strategy::Traffic, Strategy::Throttle] {
        for (noon, hours) in [("2026-03-29T12:00:00Z", 23), ("2026-10-25T12:00:00Z", 25)] {
            let noon = Instant::parse(noon).expect("an instant");
            let day = day_at(noon, &paris);
            assert_eq!(day.len_ms(), hours * 3_600_000);
            let plan =
                Plan::new(1, strategy, Window::ALWAYS, true, paris.clone(), None).expect("daily");
            let day_limit = Some(Amount::new(1_000_000));
            let counters = Counters { day, day_limit, ..certain(9_000_000, Spend::default()) };
            let planned = |at: Instant| plan.progress(&counters, at).planned.get();
            assert_eq!(planned(day.start), 0, "{strategy}, {hours} hours");
            assert!((300_000..700_000).contains(&planned(noon)), "{strategy}, {hours} hours");
            assert_eq!(
                planned(Instant::from_ms(day.end.ms() - 1)),
                1_000_000,
                "{strategy}, {hours} hours"
            );
        }
    }
}
