//! What must hold for every plan and every state of a budget.

use std::sync::Arc;

use gate_pacing::{
    Before, Bought, Counters, DayParts, Decision, Demand, Evidence, Forecast, Landscape,
    MULTIPLIERS, Memo, Mode, Pace, Plan, PlanSpec, Rebase, Shape, Spend, Strategy,
};
use money::{Amount, Instant, Window, Zone, day_at};
use proptest::prelude::*;
use proptest::strategy::Strategy as Strategy_;

use crate::{DAY_MS, START_MS, flight, instant};

const CAP: i64 = 1_000_000_000_000_000_000;
const ONE: u64 = 1 << 32;

fn amount(range: std::ops::RangeInclusive<i64>) -> impl Strategy_<Value = Amount> {
    range.prop_map(Amount::new)
}

fn spend() -> impl Strategy_<Value = Spend> {
    let part = || prop_oneof![Just(Amount::ZERO), amount(0..=1_000_000), amount(0..=CAP)];
    (part(), part(), part(), part()).prop_map(|(settled, open, confirmed, expired)| Spend {
        settled,
        open,
        confirmed,
        expired,
    })
}

prop_compose! {
    fn evidence()(lines in prop::array::uniform5(amount(0..=CAP)), loss_notices: bool) -> Evidence {
        let [resolved, paid, won, expired_resolved, expired_paid] = lines;
        Evidence { resolved, paid, won, expired_resolved, expired_paid, loss_notices }
    }
}

prop_compose! {
    fn counters()(
        limit in prop_oneof![amount(0..=1_000_000_000), amount(0..=CAP)],
        spend in (spend(), spend()),
        day in (prop::option::of(amount(0..=CAP)), prop::option::of(amount(0..=CAP))),
        evidence in evidence(),
        demand in (0_u64..1_000_000, 0_u64..1_000_000, 0_u64..20_000),
        requests in (0_u64..1_000_000_000, amount(0..=CAP), amount(0..=CAP)),
        (ask_max, bought) in (amount(0..=1_000_000_000_000_000), prop::collection::vec(amount(0..=1_000_000_000), 0..4)),
        rebase in prop::option::of((0..DAY_MS, amount(0..=CAP))),
    ) -> Counters {
        let ((life, today), (day_cap, day_target)) = (spend, day);
        let (demand, (seen, predicted, value)) = (Demand { seen: demand.0, ms: demand.2 }, requests);
        let rebase = rebase.map(|(ms, planned)| Rebase { at: instant(ms), planned });
        let day = day_at(instant(0), &Zone::utc());
        let bought = bought.into_iter().fold(Bought::default(), bought_for);
        Counters {
            limit, life, day, day_cap, day_target, today, evidence, demand, seen, predicted, value, ask_max, bought, rebase,
        }
    }
}

fn bought_for(mut bought: Bought, paid: Amount) -> Bought {
    bought.add(paid);
    bought
}

fn strategies() -> impl Strategy_<Value = Strategy> {
    prop::sample::select(&Strategy::ALL[..])
}

fn shapes() -> impl Strategy_<Value = Shape> {
    let hourly = |len| prop::collection::vec(1_u16..=10_000, len);
    prop_oneof![
        Just(Shape::linear()),
        Just(Shape::default_day()),
        hourly(24).prop_map(|weights| Shape::hourly(&weights).expect("24 weights")),
        hourly(168).prop_map(|weights| Shape::hourly(&weights).expect("168 weights")),
        prop::collection::vec(0_u64..1_000, 1..50).prop_map(|steps| {
            let sums = steps.iter().scan(0, |sum, step| {
                *sum += step;
                Some(*sum)
            });
            let points: Vec<u64> = std::iter::once(0).chain(sums).collect();
            let last = points[points.len() - 1] + 1;
            Shape::table(&[&points[..], &[last]].concat()).expect("rising points")
        }),
    ]
}

prop_compose! {
    fn plans()(strategy in strategies(), shape in shapes(), daily: bool, parts: bool, days in 1_u64..9,
               gain in 8_u32..=512, roi in prop::option::of(1_i64..100_000_000), shade: bool,
               zone in prop::sample::select(&["UTC", "Europe/Paris", "America/Havana", "Antarctica/Troll"][..])) -> Plan {
        let table = Shape::table(&[0, 1]).expect("a line");
        let masked = parts && !format!("{shape:?}").contains(&format!("{table:?}")[..20]);
        let day_parts = DayParts::parse("mon-fri 06:15-22:00, sat 10:00-18:45").ok();
        let zone = Zone::parse(zone).expect("a zone");
        let spec = PlanSpec::new(42, strategy, flight(days), zone);
        let shape = if strategy == Strategy::Asap { Shape::linear() } else { shape };
        let spec = PlanSpec { daily, shape, gain, roi_micros: roi, shade, ..spec };
        // A table has no day-parts.
        let masked_spec = PlanSpec { day_parts: day_parts.filter(|_| masked), ..spec.clone() };
        Plan::new(masked_spec).or_else(|_| Plan::new(spec)).expect("a valid plan")
    }
}

fn landscape() -> Landscape {
    let points = MULTIPLIERS.map(|multiplier| (multiplier, multiplier / 100));
    Landscape::from_points(&points).expect("rising points")
}

prop_compose! {
    fn forecasts()(requests in 0_u64..1_000_000_000, arrivals in prop::option::of(shapes()), known: bool,
                   multiplier_q32 in prop::option::of(0..=ONE)) -> Forecast {
        Forecast { requests, arrivals, landscape: known.then(|| Arc::new(landscape())), multiplier_q32 }
    }
}

/// Without a memo.
fn pace(plan: &Plan, counters: &Counters, forecast: &Forecast, ms: u64) -> Pace {
    plan.parameters(counters, forecast, instant(ms), 1_000, 2, &mut Memo::default())
}

fn every_line(spend: Spend, more: Amount, line: usize) -> Spend {
    let mut lines = [spend.settled, spend.open, spend.confirmed, spend.expired];
    lines[line] = lines[line].checked_add(more).unwrap_or(Amount::new(i64::MAX));
    let [settled, open, confirmed, expired] = lines;
    Spend { settled, open, confirmed, expired }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// The same input gives the same answer, whatever the memo was used for before.
    #[test]
    fn pure_with_any_memo(plans in prop::collection::vec(plans(), 2), all in prop::collection::vec(counters(), 2),
                          forecasts in prop::collection::vec(forecasts(), 2),
                          steps in prop::collection::vec((0..3 * DAY_MS, 0_usize..8), 1..12),
                          tick in 0_u64..20_000, workers in 0_u32..64) {
        let mut memo = Memo::default();
        for (ms, which) in steps {
            let (plan, counters, forecast) = (&plans[which & 1], &all[which >> 1 & 1], &forecasts[which >> 2]);
            for ms in [ms, ms + 1, ms + 1_000] {
                let answer = |memo: &mut Memo| plan.parameters(counters, forecast, instant(ms), tick, workers, memo);
                let kept = answer(&mut memo);
                prop_assert_eq!(kept, answer(&mut Memo::default()));
                prop_assert_eq!(kept, answer(&mut memo));
            }
        }
    }

    /// Every number of a pace is in its range, and every bid.
    #[test]
    fn bids_and_multipliers_are_within_bounds(plan in plans(), counters in counters(), forecast in forecasts(),
                                              ms in 0..2 * DAY_MS, id: u64, value in 1_i64..) {
        let mut pace = pace(&plan, &counters, &forecast, ms);
        prop_assert!((ONE / 200..=ONE).contains(&pace.multiplier_q32()) || pace == Pace::CLOSED);
        prop_assert!((1..=ONE).contains(&pace.threshold_q32()));
        prop_assert!(pace.allowance() >= Amount::ZERO);
        let bid = pace.peek_bid(id, value);
        prop_assert!(bid.is_none_or(|bid| (1..=value).contains(&bid)));
        prop_assert_eq!(bid, pace.bid(id, value));
    }

    /// Spend more, and no more is let through: not in sum, not of requests, not by the bid.
    #[test]
    fn monotone_in_what_is_spent(plan in plans(), counters in counters(), forecast in forecasts(), ms in 0..DAY_MS / 2,
                                 more in amount(0..=CAP), line in 0_usize..4) {
        let add = |spend| every_line(spend, more, line);
        let spent = Counters { life: add(counters.life), today: add(counters.today), ..counters };
        let [before, after] = [&counters, &spent].map(|counters| pace(&plan, counters, &forecast, ms));
        prop_assert!(after.allowance() <= before.allowance(), "{:?} {:?}", before, after);
        prop_assert!(after.threshold_q32() <= before.threshold_q32(), "{:?} {:?}", before, after);
        prop_assert!(after.multiplier_q32() <= before.multiplier_q32(), "{:?} {:?}", before, after);
    }

    /// More value won never lowers a bid; without a wanted return it changes nothing.
    #[test]
    fn monotone_in_value(plan in plans(), counters in counters(), ms in 0..DAY_MS / 2, more in amount(0..=CAP)) {
        let value = Amount::new(counters.value.get().saturating_add(more.get()));
        let richer = Counters { value, ..counters };
        let [before, after] = [&counters, &richer].map(|counters| pace(&plan, counters, &Forecast::default(), ms));
        prop_assert!(after.multiplier_q32() >= before.multiplier_q32());
        prop_assert!(plan.spec().roi_micros.is_some() || before == after);
    }

    /// Requests only join as the participation rises, whatever law it comes from.
    #[test]
    fn the_coins_of_a_budget_are_nested(a in counters(), b in counters(), ids in prop::collection::vec(any::<u64>(), 100)) {
        let spec = PlanSpec::new(42, Strategy::Coin, flight(1), Zone::utc());
        let plan = Plan::new(spec).expect("a valid plan");
        let [a, b] = [a, b].map(|counters| pace(&plan, &counters, &Forecast::default(), DAY_MS / 3).within(&Pace::OPEN));
        let (low, high) = if a.threshold_q32() <= b.threshold_q32() { (a, b) } else { (b, a) };
        let passes = |pace: &Pace, id: u64| pace.peek(id, Amount::new(1)) == Decision::Pass;
        for id in ids {
            prop_assert!(!passes(&low, id) || passes(&high, id) || high.allowance() == Amount::ZERO);
        }
    }

    /// Sums of parts, in any order and any split, are the same counters: only sums are looked at.
    #[test]
    fn counters_of_parts_add_up(plan in plans(), counters in counters(), part in 0_u64..1_000) {
        let split = |whole: Amount| {
            let one = whole.checked_mul_ratio(part, 1_000, money::Rounding::Down).expect("a part");
            Amount::total([whole.checked_sub(one).expect("the rest"), one]).expect("the whole")
        };
        let lines = |spend: Spend| Spend {
            settled: split(spend.settled), open: split(spend.open), confirmed: split(spend.confirmed),
            expired: split(spend.expired),
        };
        let Evidence { resolved, paid, won, .. } = counters.evidence;
        let evidence = Evidence { resolved: split(resolved), paid: split(paid), won: split(won), ..counters.evidence };
        let merged = Counters { life: lines(counters.life), today: lines(counters.today), evidence, ..counters };
        let none = Forecast::default();
        prop_assert_eq!(pace(&plan, &counters, &none, 1_000), pace(&plan, &merged, &none, 1_000));
    }

    /// However the books look, a tick reserves no more than an hour's share and some asks for each worker; a
    /// schedule no more than eight ticks' shares.
    #[test]
    fn a_tick_is_bounded(strategy in prop::sample::select(&Strategy::ALL[1..]), settled in 0_i64..1_000_000_000,
                         ms in 0..DAY_MS, tick in 1_u64..5_000, workers in 1_u32..16, ask_max in 1_i64..100_000) {
        const LIMIT: i64 = 1_000_000_000;
        // So much evidence that everything reserved is paid that the first guess does not matter.
        let counters = Counters {
            life: Spend { settled: Amount::new(settled), ..Spend::default() },
            ask_max: Amount::new(ask_max),
            ..certain(LIMIT)
        };
        let plan = Plan::new(PlanSpec::new(42, strategy, flight(1), Zone::utc())).expect("a valid plan");
        let pace = plan.parameters(&counters, &Forecast::default(), instant(ms), tick, workers, &mut Memo::default());
        let all = pace.allowance().get() * i64::from(workers);
        let asks = 4 * ask_max * i64::from(workers);
        let share = LIMIT * i64::try_from(tick).expect("small") / 86_400_000 + 1;
        let rail = if strategy == Strategy::Schedule { 8 * (share + share / 199 + 1) } else { LIMIT / 24 + 1 };
        prop_assert!(all <= rail.max(asks) + 1, "{} for {}", all, rail);
        prop_assert!(pace.allowance().get() <= LIMIT - settled);
        let next = plan.progress(&counters, instant(ms + tick));
        let behind = next.spent <= next.planned;
        prop_assert!(strategy != Strategy::Schedule || behind == (all > 0) || settled == LIMIT || all == 0);
        prop_assert!(strategy != Strategy::Schedule || behind || all == 0, "off while it is ahead");
    }

    /// The plan rises from nothing to all, in every zone, and not outside its day-parts.
    #[test]
    fn the_plan_rises_from_nothing_to_all(plan in plans(), limit in 0_i64..=CAP, a in 0..DAY_MS, b in 0..DAY_MS) {
        let counters = Counters { limit: Amount::new(limit), day: day_at(instant(0), &plan.spec().zone), ..Counters::default() };
        let progress = |at: Instant| plan.progress(&counters, at);
        let window = progress(instant(0)).window;
        let within = |ms: u64| Instant::from_ms(window.start.ms() + ms % window.len_ms().max(1));
        let (early, late) = (within(a.min(b)), within(a.max(b)));
        let (early, late) = (progress(early.min(late)), progress(early.max(late)));
        prop_assert!(Amount::ZERO <= early.planned && early.planned <= late.planned && late.planned <= late.budget);
        prop_assert_eq!(progress(window.start).planned, Amount::ZERO);
        let last = Instant::from_ms(window.end.ms() - 1);
        let end = progress(last);
        let parts = plan.spec().day_parts.is_some();
        prop_assert!(end.planned == end.budget || (parts && end.planned == Amount::ZERO) || window.len_ms() < 1_000,
                     "{:?}", end);
    }

    /// After a change of the budget the plan goes on from what was spent, and ends with the new budget.
    #[test]
    fn a_rebased_plan_is_continuous(shape in shapes(), limit in 1_i64..=CAP, spent in 0_i64..=CAP, e in 1..DAY_MS - 1,
                                    t in 0..DAY_MS) {
        let spec = PlanSpec::new(42, Strategy::Curve, flight(1), Zone::utc());
        let plan = Plan::new(PlanSpec { shape, ..spec }).expect("a valid plan");
        let spent = Amount::new(spent);
        let rebase = Some(Rebase { at: instant(e), planned: spent });
        let counters = Counters { limit: Amount::new(limit), rebase, ..Counters::default() };
        let planned = |ms: u64| plan.progress(&counters, instant(ms)).planned;
        let start = spent.min(counters.limit);
        // Where nothing of the shape is left there is nothing to spread.
        let over = Counters { rebase: None, ..counters };
        prop_assume!(plan.progress(&over, instant(e)).planned < counters.limit);
        prop_assert_eq!(planned(e), start);
        prop_assert_eq!(planned(DAY_MS - 1), counters.limit);
        let later = e + (t % (DAY_MS - e));
        prop_assert!(start <= planned(later) && planned(later) <= counters.limit);
        prop_assert!(planned(later) <= planned((later + 1_000).min(DAY_MS - 1)));
    }

    /// A larger limit beside a daily limit that binds, of whatever strategy and wherever it stands: not a bit changes.
    #[test]
    fn an_edit_that_leaves_the_days_target_changes_nothing(
        strategy in strategies(), known in counters(), forecast in forecasts(), more in 1..=CAP / 4, ms in 0..DAY_MS,
        mode in prop::sample::select(vec![Mode::Active, Mode::Paused]),
    ) {
        let spec = PlanSpec { daily: true, ..PlanSpec::new(42, strategy, Window::ALWAYS, Zone::utc()) };
        let plan = Plan::new(spec).expect("a valid plan");
        let cap = known.day_cap.unwrap_or(Amount::new(1_000)).get() / 4;
        let part = |amount: Amount| Amount::new(amount.get() / 64);
        let Spend { settled, open, confirmed, expired } = known.today;
        let today = Spend { settled: part(settled), open: part(open), confirmed: part(confirmed), expired: part(expired) };
        let counters = Counters {
            limit: Amount::new(cap + CAP / 2), day_cap: Some(Amount::new(cap)), day_target: None, today, life: today, ..known
        };
        let edited = Counters { limit: Amount::new(counters.limit.get() + more), ..counters };
        let now = instant(ms);
        let before = Before { progress: plan.progress(&counters, now), strategy, mode };
        prop_assert_eq!(plan.edited(&before, mode, &edited, now), None);
        prop_assert_eq!(pace(&plan, &counters, &forecast, ms), pace(&plan, &edited, &forecast, ms));
    }

    /// However long a pause was, the plan goes on from where it stood, and all is still to be spent by the end.
    #[test]
    fn a_plan_stands_still_during_a_pause(
        strategy in strategies(), shape in shapes(), limit in 1_i64..=CAP, spent in 0_i64..=CAP, e in 1..DAY_MS / 2,
        pause in 0..DAY_MS / 2,
    ) {
        let shape = if strategy.follows_time() { shape } else { Shape::linear() };
        let spec = PlanSpec::new(42, strategy, flight(1), Zone::utc());
        let plan = Plan::new(PlanSpec { shape, ..spec }).expect("a valid plan");
        let life = Spend { settled: Amount::new(spent % limit), ..Spend::default() };
        let counters = Counters { limit: Amount::new(limit), life, ..Counters::default() };
        let stand = |counters: &Counters, at: u64, mode| {
            Before { progress: plan.progress(counters, instant(at)), strategy, mode }
        };
        let active = stand(&counters, e, Mode::Active);
        let paused = plan.edited(&active, Mode::Paused, &counters, instant(e)).expect("it stands still");
        let counters = Counters { rebase: Some(paused), ..counters };
        let before = stand(&counters, e + pause, Mode::Paused);
        let resumed = plan.edited(&before, Mode::Active, &counters, instant(e + pause)).expect("it goes on");
        let counters = Counters { rebase: Some(resumed), ..counters };
        let after = plan.progress(&counters, instant(e + pause));
        prop_assert_eq!(after.planned, active.progress.planned);
        prop_assert_eq!(after.spent, active.progress.spent);
        prop_assert_eq!(plan.progress(&counters, instant(DAY_MS - 1)).planned, counters.limit);
    }

    /// Half as much or three times as much to spend: the deviation stays the same part of it, and with it what a strategy makes
    /// of it, but what was missed or overspent by far is left behind.
    #[test]
    fn another_target_keeps_the_multiplier(
        strategy in prop::sample::select(vec![Strategy::Coin, Strategy::Curve, Strategy::Steer]),
        spent in 0_i64..1_000_000_000_000, percent in (50_i64..300).prop_filter("another", |percent| *percent != 100), ms in DAY_MS / 4..3 * DAY_MS / 4,
    ) {
        const LIMIT: i64 = 1_000_000_000_000;
        let plan = Plan::new(PlanSpec::new(42, strategy, flight(1), Zone::utc())).expect("a valid plan");
        let life = Spend { settled: Amount::new(spent), ..Spend::default() };
        let forecast = Forecast { requests: 1_000_000, ..Forecast::default() };
        let counters = Counters { limit: Amount::new(LIMIT), life, ask_max: Amount::new(1_000), ..Counters::default() };
        let edited = Counters { limit: Amount::new(LIMIT / 100 * percent), ..counters };
        let now = instant(ms);
        let old = plan.progress(&counters, now);
        let before = Before { progress: old, strategy, mode: Mode::Active };
        // Below what is spent there is nothing to carry over.
        prop_assume!(spent + LIMIT / 16 < edited.limit.get());
        let rebase = plan.edited(&before, Mode::Active, &edited, now);
        prop_assert!(rebase.is_some());
        let edited = Counters { rebase, ..edited };
        let new = plan.progress(&edited, now);
        prop_assert!(new.planned >= Amount::ZERO && new.planned <= new.budget);
        let deviation = |at: &gate_pacing::Progress| (at.planned.get() - at.spent.get()) * 64 / (at.budget.get() / 1_000);
        let (old, new) = (deviation(&old), deviation(&new));
        // Within two e-folds.
        if old.abs() < 1_990 {
            prop_assert!((old - new).abs() <= 2, "{old} {new}");
            if strategy == Strategy::Curve {
                let [a, b] = [counters, edited].map(|one| pace(&plan, &one, &forecast, ms).multiplier_q32());
                prop_assert!(a.abs_diff(b) <= a / 500, "{a} {b}");
            }
        } else {
            prop_assert!(new.abs() <= 2_002, "{new}");
        }
    }

    /// A change of an earlier day does not matter any more.
    #[test]
    fn a_change_outside_the_window_is_over(counters in counters(), ms in 0..DAY_MS) {
        let spec = PlanSpec::new(42, Strategy::Curve, flight(3), Zone::utc());
        let plan = Plan::new(PlanSpec { daily: true, ..spec }).expect("a valid plan");
        let day = day_at(instant(DAY_MS), &Zone::utc());
        let rebase = Some(Rebase { at: instant(ms), planned: Amount::new(1_000) });
        let [with, without] = [rebase, None].map(|rebase| Counters { rebase, day, ..counters });
        let at = DAY_MS + ms;
        prop_assert_eq!(pace(&plan, &with, &Forecast::default(), at), pace(&plan, &without, &Forecast::default(), at));
    }

    #[test]
    fn nothing_outside_the_flight(strategy in strategies(), counters in counters(), daily: bool, ms in 0..DAY_MS) {
        let spec = PlanSpec::new(42, strategy, flight(1), Zone::utc());
        let plan = Plan::new(PlanSpec { daily, ..spec }).expect("a valid plan");
        for at in [START_MS - 1 - ms, START_MS + DAY_MS + ms] {
            let pace = plan.parameters(
                &counters, &Forecast::default(), Instant::from_ms(at), 1_000, 1, &mut Memo::default());
            prop_assert_eq!(pace, Pace::CLOSED);
            prop_assert!(!plan.progress(&counters, Instant::from_ms(at)).open);
        }
    }

    /// Nonsense in every counter is answered, too: the bank's own checks come later than this code.
    #[test]
    fn no_number_breaks_it(plan in plans(), forecast in forecasts(), lines in prop::array::uniform20(any::<i64>()), ms: u64,
                           tick: u64, workers: u32, many: u64) {
        let [limit, a, b, c, d, e, f, g, h, cap, target, predicted, value, ask_max, rest @ ..] = lines.map(Amount::new);
        let [resolved, paid, won, expired_resolved, expired_paid, spent] = rest;
        let counters = Counters {
            limit,
            life: Spend { settled: a, open: b, confirmed: c, expired: d },
            day: Window { start: Instant::EPOCH, end: Instant::MAX },
            day_cap: (many & 1 == 0).then_some(cap),
            day_target: (many & 2 == 0).then_some(target),
            today: Spend { settled: e, open: f, confirmed: g, expired: h },
            evidence: Evidence { resolved, paid, won, expired_resolved, expired_paid, loss_notices: many & 4 == 0 },
            demand: Demand { seen: many, ms: tick },
            seen: many,
            predicted,
            value,
            ask_max,
            bought: [a, b].into_iter().fold(Bought::default(), bought_for),
            rebase: Some(Rebase { at: instant(many % DAY_MS), planned: spent }),
        };
        let forecast = Forecast { requests: many.rotate_left(7), ..forecast };
        for at in [Instant::from_ms(ms), instant(ms % DAY_MS)] {
            let pace = plan.parameters(&counters, &forecast, at, tick, workers, &mut Memo::default());
            prop_assert!(pace.allowance() >= Amount::ZERO);
            prop_assert!(plan.progress(&counters, at).planned >= Amount::ZERO);
            let (_, predicted) = plan.resume(&counters, &forecast, at);
            prop_assert_eq!(predicted, plan.progress(&counters, at).spent);
        }
    }
}

/// A budget in which everything reserved is known to be paid.
fn certain(limit: i64) -> Counters {
    let cap = Amount::new(CAP);
    let evidence = Evidence { resolved: cap, paid: cap, won: cap, ..Evidence::default() };
    Counters { limit: Amount::new(limit), evidence, ..Counters::default() }
}
