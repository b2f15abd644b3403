//! Plans one by one: the numbers of each law, and what cannot be.

use std::sync::Arc;

use gate_pacing::{
    Bought, Counters, DayParts, Decision, Demand, Evidence, Forecast, Landscape, MULTIPLIERS, Memo,
    Pace, Plan, PlanError, PlanSpec, Rebase, Shape, Spend, Strategy,
};
use money::{Amount, Instant, Window, Zone, day_at};

use crate::{DAY_MS, START_MS, flight, instant};

const CAP: i64 = 1_000_000_000_000_000_000;
const LIMIT: i64 = 1_000_000_000;
const NOON: u64 = DAY_MS / 2;

fn spec(strategy: Strategy) -> PlanSpec {
    PlanSpec::new(42, strategy, flight(1), Zone::utc())
}

fn plan(strategy: Strategy) -> Plan {
    Plan::new(spec(strategy)).expect("a valid plan")
}

fn pace(plan: &Plan, counters: &Counters, forecast: &Forecast, ms: u64) -> Pace {
    plan.parameters(counters, forecast, instant(ms), 1_000, 1, &mut Memo::default())
}

/// A budget in which everything reserved is known to be paid.
fn certain(limit: i64, settled: i64) -> Counters {
    let (cap, settled) = (Amount::new(CAP), Amount::new(settled));
    let evidence = Evidence { resolved: cap, paid: cap, won: cap, ..Evidence::default() };
    let life = Spend { settled, ..Spend::default() };
    Counters { limit: Amount::new(limit), life, evidence, ..Counters::default() }
}

/// A hold was settled for this part of the limit; 0: none was.
fn bought(worth: i64) -> Bought {
    let mut bought = Bought::default();
    if let Some(paid) = LIMIT.checked_div(worth) {
        bought.add(Amount::new(paid));
    }
    bought
}

/// What the plan of a day wants by noon.
#[allow(clippy::cast_precision_loss, reason = "the reference is in floats")]
fn planned_at_noon() -> f64 {
    LIMIT as f64 * 0.5 / 0.995
}

#[allow(clippy::cast_precision_loss, reason = "the reference is in floats")]
fn assert_near(found_q32: u64, expected: f64, about: &str) {
    let found = found_q32 as f64 / (1_u64 << 32) as f64;
    assert!((found / expected - 1.0).abs() < 1e-3, "{about}: {found} for {expected}");
}

/// G(m) = 8 base units times the square of m.
fn landscape() -> Option<Arc<Landscape>> {
    let square = |m: u64| (m, u64::try_from((u128::from(m) * u128::from(m)) >> 45).expect("small"));
    Landscape::from_points(&MULTIPLIERS.map(square)).ok().map(Arc::new)
}

#[test]
fn curve_is_the_formula() {
    let plan = plan(Strategy::Curve);
    let (requests, landscape) = (400_000_000, landscape());
    let known = Forecast { requests, landscape, ..Forecast::default() };
    let yesterday = Forecast { multiplier_q32: Some(1 << 30), ..known.clone() };
    // G^-1(B / (0.995 N)): 2.5126 = 8 * 0.5604^2.
    for (forecast, start, tolerant) in
        [(Forecast::default(), 0.4, false), (known, 0.5604, true), (yesterday, 0.25, false)]
    {
        for settled in [0, 480_000_000, 500_000_000, 505_000_000, 520_000_000, 600_000_000] {
            let exponent =
                64.0 * (planned_at_noon() - f64::from(settled)) / f64::from(1_000_000_000);
            let expected = (start * exponent.clamp(-4.0, 4.0).exp()).clamp(0.005, 1.0);
            let found = pace(&plan, &certain(LIMIT, settled.into()), &forecast, NOON);
            // Between two points the landscape is a line, not a square.
            let slack = if tolerant { found.multiplier_q32() / 128 } else { 0 };
            let found_q32 = found.multiplier_q32();
            let near = (expected * 4_294_967_296.0 - found_q32 as f64).abs() <= slack as f64 + 1e5;
            assert!(near, "start {start}, spent {settled}: {found_q32} for {expected}");
            assert_eq!(found.threshold_q32(), 1 << 32, "everybody takes part");
        }
    }
}

#[test]
fn coin_is_the_formula() {
    let plan = plan(Strategy::Coin);
    let forecast =
        Forecast { requests: 4_000_000_000, landscape: landscape(), ..Forecast::default() };
    for settled in [480_000_000, 500_000_000, 505_000_000, 600_000_000] {
        let exponent = 64.0 * (planned_at_noon() - f64::from(settled)) / f64::from(1_000_000_000);
        let start = 1e9 / (0.995 * 4e9 * 8.0);
        let expected = (start * exponent.clamp(-6.0, 6.0).exp()).clamp(1e-4, 1.0);
        let found = pace(&plan, &certain(LIMIT, settled.into()), &forecast, NOON);
        assert_near(found.threshold_q32(), expected, &format!("spent {settled}"));
        assert_eq!(found.multiplier_q32(), 1 << 32, "the price is not ours");
    }
}

/// Without a forecast: what is asked now, at the largest ask.
#[test]
fn a_cold_coin_goes_by_demand() {
    let plan = plan(Strategy::Coin);
    let demand = Demand { seen: 10_000, ms: 10_000 };
    let on_plan = certain(LIMIT, 502_512_562);
    let counters = Counters { demand, ask_max: Amount::new(100), ..on_plan };
    let share = 1e9 / 86_400.0 / 0.995;
    let found = pace(&plan, &counters, &Forecast::default(), NOON);
    assert_near(found.threshold_q32(), share / (1_000.0 * 100.0), "by demand");
    let unknown = pace(&plan, &on_plan, &Forecast::default(), NOON);
    assert_near(unknown.threshold_q32(), 1.0 / 64.0, "nothing known");
}

#[test]
fn steer_is_the_formula() {
    let plan = plan(Strategy::Steer);
    let (requests, predicted) = (400_000_000_u32, 450_000_000_u32);
    let forecast =
        Forecast { requests: requests.into(), landscape: landscape(), ..Forecast::default() };
    // With what the budget is worth in impressions; 0: that is not known.
    for (settled, seen, worth, gain) in [
        (500_000_000_u32, 200_000_000_u32, 0, 40.0),
        (480_000_000, 250_000_000, 1_000, 40.0),
        (480_000_000, 250_000_000, 100, 20.0),
        (520_000_000, 150_000_000, 9, 2.0),
    ] {
        let (b, s) = (1e9, f64::from(settled));
        let (n, n_t) = (f64::from(requests), f64::from(requests) * 0.5);
        let more = (f64::from(seen) + 0.02 * n) / (n_t + 0.02 * n);
        let dearer = (s + 0.02 * b) / (f64::from(predicted) + 0.02 * b);
        let spend = (b - s) / (more * (0.995 * n - n_t)) / dearer;
        let pull = (gain * (planned_at_noon() - s) / b).clamp(-1.0, 1.0).exp();
        let expected = ((spend / 8.0).sqrt() * pull).clamp(0.005, 1.0);
        let counters = Counters {
            seen: seen.into(),
            predicted: Amount::new(predicted.into()),
            bought: bought(worth),
            ..certain(LIMIT, settled.into())
        };
        let found = pace(&plan, &counters, &forecast, NOON).multiplier_q32();
        let near = (found as f64 / 4_294_967_296.0 / expected - 1.0).abs() < 0.01;
        assert!(near, "spent {settled}: {found} for {expected}");
    }
}

/// Plans and forecasts that differ in one thing only share a memo, and it never tells the one about the
/// other.
#[test]
fn a_memo_is_never_stale() {
    let counters = certain(LIMIT, 505_000_000);
    let other = Counters { limit: Amount::new(LIMIT + 1_000_000), ..counters };
    let rebased = Some(Rebase { at: instant(NOON), planned: Amount::new(LIMIT / 2) });
    let forecast =
        Forecast { requests: 400_000_000, landscape: landscape(), ..Forecast::default() };
    let cheaper = Landscape::from_points(&[(1 << 32, 1 << 19)]).ok().map(Arc::new);
    let forecasts = [
        forecast.clone(),
        Forecast { requests: 300_000_000, ..forecast.clone() },
        Forecast { landscape: cheaper, ..forecast.clone() },
        Forecast { multiplier_q32: Some(1 << 31), ..forecast.clone() },
        Forecast { arrivals: Some(Shape::default_day()), ..forecast },
    ];
    let parts = DayParts::parse("00:00-18:00").ok();
    let [shape, day_parts] = [(Shape::default_day(), None), (Shape::linear(), parts)]
        .map(|(shape, day_parts)| PlanSpec { shape, day_parts, ..spec(Strategy::Curve) });
    let specs = Strategy::ALL.map(spec).into_iter().chain([
        PlanSpec { flight: flight(2), ..spec(Strategy::Curve) },
        PlanSpec { zone: Zone::parse("Asia/Kathmandu").expect("a zone"), ..shape.clone() },
        PlanSpec { daily: true, ..spec(Strategy::Curve) },
        shape,
        day_parts,
    ]);
    let plans: Vec<Plan> = specs.map(|spec| Plan::new(spec).expect("a valid plan")).collect();
    let counters = [counters, other, Counters { rebase: rebased, ..other }];
    let of = |case: usize| {
        let (plan, rest) = (&plans[case % plans.len()], case / plans.len());
        (plan, &counters[rest % 3], &forecasts[rest / 3])
    };
    let case = |case: usize, memo: &mut Memo| {
        let (plan, counters, forecast) = of(case);
        plan.parameters(counters, forecast, instant(NOON + 1), 1_000, 1, memo)
    };
    let count = plans.len() * counters.len() * forecasts.len();
    for first in 0..count {
        for second in 0..count {
            let mut memo = Memo::default();
            let _ = case(first, &mut memo);
            let fresh = case(second, &mut Memo::default());
            let (plan, counters, forecast) = of(second);
            let progress = plan.progress(counters, instant(NOON + 1));
            for _ in 0..2 {
                let by = plan.progress_by(&memo, counters, forecast, instant(NOON + 1));
                assert_eq!(by, progress, "{second} after {first}");
                assert_eq!(case(second, &mut memo), fresh, "{second} after {first}");
            }
        }
    }
}

#[test]
fn steer_without_a_forecast_is_curve() {
    let counters = certain(LIMIT, 505_000_000);
    let of = |strategy, forecast: &Forecast| pace(&plan(strategy), &counters, forecast, NOON);
    let unknown = Forecast { requests: 1_000, ..Forecast::default() };
    assert_eq!(of(Strategy::Steer, &unknown), of(Strategy::Curve, &unknown));
    let known = Forecast { landscape: landscape(), ..unknown.clone() };
    assert_ne!(of(Strategy::Steer, &known), of(Strategy::Curve, &known));
    for forecast in [&unknown, &known] {
        assert_eq!(of(Strategy::Auto, forecast), of(Strategy::Steer, forecast));
    }
    let small = |gain| Plan::new(PlanSpec { gain, ..spec(Strategy::Auto) }).expect("a plan");
    let of = |gain, worth| {
        pace(&small(gain), &Counters { bought: bought(worth), ..counters }, &unknown, NOON)
    };
    for (worth, gain) in [(1_000, 64), (100, 20), (40, 8)] {
        assert_eq!(of(64, worth).multiplier_q32(), of(gain, 0).multiplier_q32(), "{worth}");
    }
}

/// What a node knows after a restart is what the forecast says: the multiplier hardly moves.
#[test]
fn steer_resumes_where_it_was() {
    let plan = plan(Strategy::Steer);
    let forecast =
        Forecast { requests: 400_000_000, landscape: landscape(), ..Forecast::default() };
    let on_plan = certain(LIMIT, 502_512_562);
    let (seen, predicted) = plan.resume(&on_plan, &forecast, instant(NOON));
    assert_eq!((seen.div_ceil(10), predicted), (20_000_000, on_plan.life.settled));
    let multiplier = |counters: &Counters| pace(&plan, counters, &forecast, NOON).multiplier_q32();
    let before =
        multiplier(&Counters { seen: 200_000_000, predicted: Amount::new(500_000_000), ..on_plan });
    let after = multiplier(&Counters { seen, predicted, ..on_plan });
    assert!(after.abs_diff(before) < before / 100, "{before} {after}");
}

#[test]
fn a_schedule_is_on_until_the_next_tick_of_the_plan() {
    let plan = plan(Strategy::Schedule);
    let on = |settled: i64| {
        let counters = Counters { ask_max: Amount::new(1), ..certain(LIMIT, settled) };
        pace(&plan, &counters, &Forecast::default(), NOON)
    };
    let next = plan.progress(&certain(LIMIT, 0), instant(NOON + 1_000)).planned.get();
    assert_eq!(on(next).peek(1, Amount::new(1)), Decision::Pass);
    assert_eq!(on(next + 1).peek(1, Amount::new(1)), Decision::Paced);
    assert_eq!(on(next + 1).peek_bid(1, 1), None);
    // A second's share is 11,574, and 1/199 more because the plan is done early: eight of them.
    let allowance = on(0).allowance().get();
    assert!((93_040..93_070).contains(&allowance), "{allowance}");
}

#[test]
fn return_on_spend_is_a_second_multiplier() {
    let plan =
        |roi_micros| Plan::new(PlanSpec { roi_micros, ..spec(Strategy::Curve) }).expect("a plan");
    let bid = |roi, value: i64| {
        let counters = Counters { value: Amount::new(value), ..certain(LIMIT, 100_000_000) };
        pace(&plan(roi), &counters, &Forecast::default(), NOON).multiplier_q32()
    };
    // Far behind its plan it bids all it may.
    assert_eq!(bid(None, 0), 1 << 32);
    // Two for one is wanted: 200 million won may cost the 100 million that they did, 190 million only 95.
    assert_eq!(bid(Some(2_000_000), 200_000_000), 1 << 32);
    assert_near(bid(Some(2_000_000), 190_000_000), (64.0 * -0.005_f64).exp(), "too dear");
    assert_near(bid(Some(2_000_000), 0), (-4.0_f64).exp(), "nothing won");
}

#[test]
fn shading_keeps_a_surplus() {
    let plan = |shade| Plan::new(PlanSpec { shade, ..spec(Strategy::Curve) }).expect("a plan");
    let forecast = Forecast { landscape: landscape(), ..Forecast::default() };
    let bid = |shade| pace(&plan(shade), &certain(LIMIT, 0), &forecast, NOON).multiplier_q32();
    assert_eq!(bid(false), 1 << 32);
    // Spend with the square of m: the win rate rises with m, and (1 - m) * m is largest at a half.
    let shade = bid(true);
    assert!((shade >> 20).abs_diff(1 << 11) < 80, "{shade}");
    assert_eq!(
        pace(&plan(true), &certain(LIMIT, 0), &Forecast::default(), NOON).multiplier_q32(),
        1 << 32
    );
}

#[test]
fn holds_count_as_what_they_will_cost() {
    let plan = plan(Strategy::Curve);
    let spent = |evidence: Evidence, life: Spend| {
        let counters = Counters { evidence, life, ..certain(LIMIT, 0) };
        plan.progress(&counters, instant(NOON)).spent.get()
    };
    let all = certain(LIMIT, 0).evidence;
    let tenth = Evidence { paid: Amount::new(CAP / 10), ..all };
    let silent = Evidence { loss_notices: false, ..tenth };
    let hold = Amount::new(1_000_000);
    let open = Spend { open: hold, ..Spend::default() };
    let confirmed = Spend { confirmed: hold, ..Spend::default() };
    let expired = Spend { expired: hold, ..Spend::default() };
    let near = |found: i64, expected: i64| {
        assert!(found.abs_diff(expected) <= 1, "{found} for {expected}")
    };
    for life in [open, confirmed, expired] {
        near(spent(all, life), 1_000_000);
    }
    near(spent(tenth, open), 100_000);
    near(spent(tenth, confirmed), 100_000);
    near(spent(tenth, expired), 100_000);
    near(spent(silent, expired), 50_000);
    let third = Evidence { won: Amount::new(CAP / 3), ..tenth };
    near(spent(third, confirmed), 300_000);
}

#[test]
fn the_day_takes_its_share_of_the_rest() {
    let daily =
        |days| Plan::new(PlanSpec { daily: true, flight: flight(days), ..spec(Strategy::Curve) });
    let budget = |days: u64, day: u64, spent: i64, cap: Option<i64>, target: Option<i64>| {
        let counters = Counters {
            day: day_at(instant(day * DAY_MS), &Zone::utc()),
            day_cap: cap.map(Amount::new),
            day_target: target.map(Amount::new),
            ..certain(8_000, spent)
        };
        daily(days).expect("daily").progress(&counters, instant(day * DAY_MS + NOON)).budget.get()
    };
    assert_eq!(budget(8, 0, 0, None, None), 1_000, "an eighth");
    assert_eq!(budget(8, 4, 2_000, None, None), 1_500, "unspent money carries itself");
    assert_eq!(budget(8, 7, 7_100, None, None), 900, "the last day has all that is left");
    assert_eq!(budget(8, 4, 2_000, Some(1_200), None), 1_200, "but not more than its cap");
    assert_eq!(budget(8, 4, 2_000, Some(1_200), Some(1_000)), 1_000, "or its target");
    assert_eq!(budget(8, 4, 9_000, None, None), 0, "a limit below what is spent plans nothing");
}

/// A budget without an end: the day's cap, as long as the limit lasts.
#[test]
fn without_an_end_the_day_has_its_cap() {
    let plan = Plan::new(PlanSpec { daily: true, flight: Window::ALWAYS, ..spec(Strategy::Curve) });
    let plan = plan.expect("daily");
    let budget = |spent_before: i64, today: i64| {
        let settled = Amount::new(today);
        let counters = Counters {
            day: day_at(instant(0), &Zone::utc()),
            day_cap: Some(Amount::new(1_000)),
            today: Spend { settled, ..Spend::default() },
            ..certain(8_600, spent_before + today)
        };
        plan.progress(&counters, instant(NOON)).budget.get()
    };
    assert_eq!((budget(0, 0), budget(0, 900)), (1_000, 1_000));
    assert_eq!(
        (budget(8_000, 0), budget(8_000, 300)),
        (600, 600),
        "what is spent today is no less"
    );
}

/// The target is soft, the cap hard: the allowance may go to the cap, the plan to the target.
#[test]
fn caps_are_hard_and_targets_soft() {
    let plan = Plan::new(PlanSpec { daily: true, ..spec(Strategy::Curve) }).expect("daily");
    let counters = Counters {
        day: day_at(instant(0), &Zone::utc()),
        day_cap: Some(Amount::new(1_200)),
        day_target: Some(Amount::new(1_000)),
        today: Spend { settled: Amount::new(1_000), ..Spend::default() },
        ask_max: Amount::new(1_000),
        ..certain(LIMIT, 1_000)
    };
    assert_eq!(pace(&plan, &counters, &Forecast::default(), NOON).allowance().get(), 200);
    let at_cap =
        Counters { today: Spend { settled: Amount::new(1_200), ..counters.today }, ..counters };
    assert_eq!(pace(&plan, &at_cap, &Forecast::default(), NOON).allowance().get(), 0);
}

#[test]
fn an_edit_spreads_the_rest() {
    let plan = plan(Strategy::Curve);
    let rebase = Some(Rebase { at: instant(NOON), planned: Amount::new(300_000_000) });
    let planned = |limit: i64, hour: u64| {
        let counters = Counters { rebase, ..certain(limit, 0) };
        plan.progress(&counters, instant(hour * 3_600_000)).planned.get()
    };
    assert_eq!(planned(LIMIT, 12), 300_000_000);
    // A quarter of what is left of the day, and 1/199 ahead.
    assert_eq!(planned(LIMIT, 15), 300_000_000 + 700_000_000 / 4 + 700_000_000 / 4 / 199);
    assert_eq!(planned(2 * LIMIT, 15), 300_000_000 + 1_700_000_000 / 4 + 1_700_000_000 / 4 / 199);
    assert_eq!(planned(200_000_000, 15), 200_000_000, "a cut below what is spent plans no more");
}

#[test]
fn a_day_that_nobody_ended_is_over() {
    let flight = flight(9);
    let plan =
        Plan::new(PlanSpec { daily: true, flight, ..spec(Strategy::Schedule) }).expect("daily");
    let day = day_at(instant(0), &Zone::utc());
    let today = Spend { settled: Amount::new(1_000_000), ..Spend::default() };
    let day_cap = Some(Amount::new(1_000_000));
    let counters = Counters { life: today, day, day_cap, today, ..certain(9_000_000, 0) };
    let pace = |counters: &Counters, ms| pace(&plan, counters, &Forecast::default(), ms);
    assert_eq!(pace(&counters, DAY_MS - 1).allowance(), Amount::ZERO);
    assert!(pace(&counters, DAY_MS + 3_600_000).allowance() > Amount::ZERO);
    let back = Counters { day: day_at(instant(DAY_MS), &Zone::utc()), ..counters };
    assert_eq!(pace(&back, DAY_MS - 1), Pace::CLOSED);
}

#[test]
fn a_flight_that_ends_today_ends_the_day() {
    let flight = Window { start: Instant::EPOCH, end: instant(0) };
    let plan =
        Plan::new(PlanSpec { daily: true, flight, ..spec(Strategy::Schedule) }).expect("daily");
    let at = Instant::from_ms(START_MS - 1);
    let counters = Counters {
        day: day_at(at, &Zone::utc()),
        day_cap: Some(Amount::new(1_000)),
        ..certain(9_000, 0)
    };
    let progress = plan.progress(&counters, at);
    assert_eq!((progress.window.end, progress.planned), (flight.end, Amount::new(1_000)));
    assert_eq!(progress.index_ppm, Some(0));
}

/// An ask as large as the whole budget passes once, near the beginning of the plan's next step.
#[test]
fn large_asks_do_not_starve() {
    let limit = Amount::new(1_000_000);
    for workers in [1, 8, 64] {
        let counters = Counters { ask_max: limit, ..certain(1_000_000, 0) };
        let passes = |plan: &Plan, counters: &Counters, ms: u64| {
            let now = instant(ms);
            let memo = &mut Memo::default();
            let mut pace =
                plan.parameters(counters, &Forecast::default(), now, 1_000, workers, memo);
            pace.decide(1, limit) == Decision::Pass
        };
        let plan = plan(Strategy::Schedule);
        assert!(passes(&plan, &counters, NOON), "{workers} workers");
        let spent = Counters { life: Spend { settled: limit, ..Spend::default() }, ..counters };
        assert!(!passes(&plan, &spent, NOON), "{workers} workers");
    }
}

/// While nobody knows how large an ask is, the rail gives way to what is behind the plan: a large one waits
/// its turn.
#[test]
fn asks_of_unknown_size_wait_their_turn() {
    let plan = plan(Strategy::Schedule);
    let allows = |ms: u64| {
        let none = Forecast::default();
        let memo = &mut Memo::default();
        let pace = plan.parameters(&certain(LIMIT, 0), &none, instant(ms), 1_000, 16, memo);
        pace.allows(Amount::new(LIMIT / 10))
    };
    assert!(!allows(DAY_MS / 11) && allows(DAY_MS / 9));
}

/// Ten items a day are less than one per hour, and a hundred-thousandth of one per tick.
#[test]
fn budgets_of_a_few_items_are_spent() {
    for (strategy, workers) in Strategy::ALL.into_iter().zip([1, 4, 1, 4, 16]) {
        for ask_max in [0, 1] {
            let counters = Counters { ask_max: Amount::new(ask_max), ..certain(10, 0) };
            let spec = PlanSpec::new(1, strategy, flight(1), Zone::utc());
            let (plan, memo) = (Plan::new(spec).expect("a plan"), &mut Memo::default());
            let none = Forecast::default();
            let pace = plan.parameters(&counters, &none, instant(NOON), 1_000, workers, memo);
            assert!(pace.allows(Amount::new(1)), "{strategy}, {workers}, {ask_max}");
        }
    }
    let nothing = pace(&plan(Strategy::Curve), &certain(0, 0), &Forecast::default(), NOON);
    assert_eq!(nothing.allowance(), Amount::ZERO);
}

#[test]
fn budgets_have_their_own_coins() {
    let plan = |id| {
        let spec = PlanSpec::new(id, Strategy::Coin, flight(1), Zone::utc());
        Plan::new(spec).expect("a valid plan")
    };
    let chosen = |id| -> Vec<u64> {
        let pace = pace(&plan(id), &certain(LIMIT, 0), &Forecast::default(), 0);
        (0..10_000).filter(|request| pace.peek_bid(*request, 1).is_some()).collect()
    };
    assert!(!chosen(1).is_empty() && chosen(1) != chosen(2));
    assert_eq!(chosen(1), chosen(1));
}

#[test]
fn plans_that_cannot_be_are_explained() {
    let error = |spec: PlanSpec| Plan::new(spec).expect_err("not a plan");
    let window = |start, end| Window { start: Instant::from_ms(start), end: Instant::from_ms(end) };
    let (curve, asap) = (Strategy::Curve, Strategy::Asap);
    let always = PlanSpec { flight: Window::ALWAYS, ..spec(curve) };
    assert!(Plan::new(PlanSpec { strategy: asap, ..always.clone() }).is_ok());
    assert!(Plan::new(PlanSpec { daily: true, ..always.clone() }).is_ok(), "days have both ends");
    assert_eq!(error(always), PlanError::NoStart { strategy: curve });
    let no_end = PlanSpec { flight: window(9, u64::MAX), ..spec(curve) };
    assert_eq!(error(no_end), PlanError::NoEnd { strategy: curve });
    let too_long = PlanSpec { flight: window(1, 1 + 73_000 * DAY_MS), ..spec(curve) };
    assert!(error(too_long).to_string().contains("73000 days long, expected at most 36,525"));
    let unused = PlanSpec { shape: Shape::default_day(), ..spec(asap) };
    assert_eq!(error(unused), PlanError::ShapeUnused);
    let gain = |gain| Plan::new(PlanSpec { gain, ..spec(curve) });
    assert!([8, 64, 512].into_iter().all(|good| gain(good).is_ok()));
    assert_eq!(gain(7), Err(PlanError::Gain { strategy: curve, found: 7 }));
    assert_eq!(gain(513), Err(PlanError::Gain { strategy: curve, found: 513 }));
    let roi = PlanSpec { roi_micros: Some(0), ..spec(curve) };
    assert_eq!(error(roi), PlanError::Roi { strategy: curve, found: 0 });
    let parts = PlanSpec {
        shape: Shape::table(&[0, 1, 2]).expect("rising"),
        day_parts: DayParts::parse("08:00-20:00").ok(),
        ..spec(curve)
    };
    assert_eq!(error(parts), PlanError::TableParts { strategy: curve });
}
