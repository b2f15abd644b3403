//! Holds with a name: what an ask, a fact and an end make of the books, of days and of windows.

use ledger::{
    Amount, Bank, BudgetSpec, Door, LegAmounts, Line, NamedError, NamedHold, NamedLeg,
    NamedRefusal, Options, Period, Record, Restore, Status, Verdict, WindowLimit, Windows,
};
use proptest::prelude::*;

use crate::bench::{Bench, NOON, child, options, spec};

const HOUR_MS: u64 = 3_600_000;

/// A leg: budget, hold, and what is settled, over-settled, late, inferred and of an unknown order.
type Said = (u64, [i64; 6]);

fn hold(key: u128, legs: &[Said]) -> NamedHold {
    let leg = |(budget, [hold, spent @ ..]): &Said| {
        let (hold, spent) = (Amount::new(*hold), spent.map(Amount::new));
        NamedLeg { budget: *budget, amounts: LegAmounts { hold, spent } }
    };
    NamedHold { door: Door::Fix, key, label: "ORD-1".into(), legs: legs.iter().map(leg).collect() }
}

fn held(amount: i64) -> [i64; 6] {
    [amount, 0, 0, 0, 0, 0]
}

fn filled(hold: i64, settled: i64) -> [i64; 6] {
    [hold, settled, 0, 0, 0, 0]
}

impl Bench {
    fn ask(&mut self, hold: NamedHold) -> Result<bool, NamedRefusal> {
        let mut answer = Ok(false);
        self.act(|bank, out| answer = bank.ask_named(hold, out));
        answer
    }

    fn state(&mut self, hold: NamedHold) -> Result<bool, NamedRefusal> {
        let mut answer = Ok(false);
        self.act(|bank, out| answer = bank.state_named(hold, out));
        answer
    }

    fn end(&mut self, key: u128) -> Result<bool, NamedRefusal> {
        let mut answer = Ok(false);
        self.act(|bank, out| answer = bank.end_named(Door::Fix, key, out));
        answer
    }

    /// Free, purses, held, and what is spent.
    fn stands(&self, id: u64) -> [i64; 4] {
        let books = self.bank.books(self.bank.slot(id).unwrap());
        let line = |line| books.line(line).get();
        [line(Line::Free), line(Line::Purses), line(Line::Held), books.spent().get()]
    }

    /// What is used of the window of a period.
    fn used(&self, id: u64, period: Period) -> i64 {
        let mut windows = self.bank.windows(self.bank.slot(id).unwrap());
        windows.find(|(window, ..)| window.period == period).unwrap().1.get()
    }
}

/// With purses that were called back at once, so that all is free.
fn quiet(specs: &[BudgetSpec]) -> Bench {
    let mut bench = Bench::new(1, specs);
    bench.empty_purses();
    bench
}

impl Bench {
    fn empty_purses(&mut self) {
        let ids: Vec<u64> = self.bank.slots_from(0).map(|(id, _)| id).collect();
        for id in ids {
            let there = self.line(id, Line::Purses);
            let left = self.bank.available(self.bank.slot(id).unwrap()).get();
            if there > 0 {
                let all = hold(99, &[(id, held(there + left))]);
                assert!(self.ask(all).is_err(), "a part lies in purses");
                self.advance(0);
            }
        }
    }
}

#[test]
fn an_order_is_opened_filled_and_ended_on_every_level() {
    let mut bench = Bench::new(1, &[spec(1, 10_000), child(2, 1_000, 1)]);
    let purse = |bench: &Bench| [bench.stands(1)[1], bench.stands(2)[1]];
    assert_eq!(bench.ask(hold(7, &[(2, held(600))])), Ok(true));
    assert_eq!([1, 2].map(|id| bench.stands(id)[2]), [600, 600]);
    assert_eq!(bench.ask(hold(7, &[(2, held(600))])), Ok(false), "said again");
    assert_eq!(bench.state(hold(7, &[(2, [350, 240, 10, 0, 5, 0])])), Ok(true));
    assert_eq!(bench.state(hold(7, &[(2, [350, 240, 10, 0, 5, 0])])), Ok(false));
    let [one, two] = purse(&bench);
    assert_eq!(bench.stands(1), [10_000 - 605 - one, one, 350, 255]);
    assert_eq!(bench.stands(2), [1_000 - 605 - two, two, 350, 255]);
    let holds = NamedRefusal::Wrong(NamedError::Holds(2));
    assert_eq!(bench.end(7), Err(holds));
    assert_eq!(bench.state(hold(7, &[(2, [0, 245, 0, 0, 0, 1])])), Ok(true), "a credit");
    assert_eq!((bench.end(7), bench.end(7)), (Ok(true), Ok(false)));
    assert_eq!(bench.bank.named_len(), 0);
    assert_eq!([1, 2].map(|id| bench.stands(id)[3]), [246, 246], "what is booked stays");
    let labels = bench.records.iter().filter_map(|record| match record {
        Record::Named { hold, opens, .. } => Some((&*hold.label, *opens)),
        _ => None,
    });
    assert_eq!(labels.collect::<Vec<_>>(), [("ORD-1", true), ("", false), ("", false)]);
    bench.check();
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let mut bench = Bench::new(1, &[spec(1, 1_000), spec(2, 1_000)]);
    bench.ask(hold(1, &[(1, held(10))])).unwrap();
    let nine: Vec<Said> = (1..=9).map(|id| (id, held(1))).collect();
    let over = [0, i64::MAX, 0, 0, 0, 0];
    let cases: Vec<(bool, NamedHold, NamedError)> = vec![
        (true, hold(2, &[]), NamedError::Legs(0)),
        (true, hold(2, &nine), NamedError::Legs(9)),
        (true, hold(2, &[(1, held(1)), (1, held(1))]), NamedError::Twice(1)),
        (true, hold(2, &[(1, held(1)), (8, held(1))]), NamedError::Unknown(8)),
        (true, hold(2, &[(1, held(-1))]), NamedError::Negative(1)),
        (true, hold(2, &[(1, held(i64::MIN))]), NamedError::Negative(1)),
        (false, hold(2, &[(1, [0, 0, 0, 0, 0, -1])]), NamedError::Negative(1)),
        (true, hold(1, &[(1, held(9))]), NamedError::NotAsk(1)),
        (true, hold(1, &[(1, filled(10, 1))]), NamedError::NotAsk(1)),
        (false, hold(1, &[(1, held(i64::MAX))]), NamedError::TooMuch(1)),
        (false, hold(2, &[(1, over)]), NamedError::TooMuch(1)),
        (false, hold(2, &[(1, held(i64::MAX)), (2, over)]), NamedError::TooMuch(1)),
        (
            true,
            NamedHold { label: "x".repeat(129).into(), ..hold(2, &[(1, held(1))]) },
            NamedError::Label(129),
        ),
    ];
    let (digest, records) = (bench.bank.digest(), bench.records.len());
    for (asks, said, expected) in cases {
        let text = format!("{said:?}");
        let answer = if asks { bench.ask(said) } else { bench.state(said) };
        assert_eq!(answer, Err(NamedRefusal::Wrong(expected)), "{text}");
    }
    assert_eq!((bench.bank.digest(), bench.records.len()), (digest, records));
    assert_eq!(bench.bank.counts().spent_full, 3);
    // An ask of everything that a number can say finds less, and says how much.
    let NamedRefusal::Leg { leg: 0, why: Verdict::Exhausted, .. } =
        bench.ask(hold(2, &[(1, held(i64::MAX))])).unwrap_err()
    else {
        panic!("exhausted")
    };
    // The largest that is counted is booked, whatever the limit.
    let most = filled(0, Bank::SPENT_MAX.get());
    assert_eq!(bench.state(hold(3, &[(2, most)])), Ok(true));
    bench.check();
}

/// Budget 3, what is asked of 1 (a parent of 2 and 3, limit 700), 2 (500) and 3 (500), and the refusal: leg, reason, what is left.
#[test]
fn an_ask_is_granted_for_all_legs_or_for_none() {
    use Verdict::{DayExhausted, Ended, Exhausted, NotStarted, Paused, WindowExhausted};
    let third = || child(3, 500, 1);
    let at = |ms| money::Instant::from_ms(ms);
    let paused = BudgetSpec { status: Status::Paused, ..third() };
    let ended = BudgetSpec { end: at(NOON), ..third() };
    let not_yet = BudgetSpec { start: at(NOON + HOUR_MS), ..third() };
    let with = |window| BudgetSpec { windows: Windows::of([window]), ..third() };
    let day = with(WindowLimit::fixed(Period::Day, Amount::new(90)));
    let bucket = with(WindowLimit::bucket(Period::Minute, Amount::new(50)));
    let cases = [
        ("fits", third(), [0, 400, 300], None),
        ("the parent", third(), [0, 400, 301], Some((1, Exhausted, 300))),
        ("a leg", third(), [0, 1, 501], Some((1, Exhausted, 500))),
        ("parent and child", third(), [600, 101, 0], Some((1, Exhausted, 100))),
        ("paused", paused, [0, 1, 1], Some((1, Paused, 0))),
        ("ended", ended, [0, 0, 1], Some((0, Ended, 0))),
        ("not started", not_yet, [0, 0, 1], Some((0, NotStarted, 0))),
        ("a day", day, [0, 0, 91], Some((0, DayExhausted, 90))),
        ("a bucket", bucket, [0, 0, 51], Some((0, WindowExhausted, 50))),
    ];
    for (case, third, asked, expected) in cases {
        let legs: Vec<Said> = (1..)
            .zip(asked)
            .filter(|(_, asked)| *asked > 0)
            .map(|(id, it)| (id, held(it)))
            .collect();
        let mut bench = quiet(&[spec(1, 700), child(2, 500, 1), third]);
        let before = [1, 2, 3].map(|id| bench.stands(id));
        let answer = bench.ask(hold(5, &legs));
        let expected = expected.map(|(leg, why, left)| NamedRefusal::Leg {
            leg,
            why,
            left: Amount::new(left),
        });
        assert_eq!(answer.err(), expected, "{case}");
        if answer.is_err() {
            assert_eq!([1, 2, 3].map(|id| bench.stands(id)), before, "{case}");
        }
        bench.check();
    }
}

#[test]
fn what_lies_in_purses_is_called_back_for_an_ask_that_comes_again() {
    let mut bench = Bench::new(2, &[spec(1, 1_000), child(2, 900, 1), child(3, 900, 1)]);
    bench.reserve(0, 2, 100).ok();
    bench.advance(10);
    let there = bench.line(1, Line::Purses);
    assert!(there > 0, "purses have something");
    let ask = hold(1, &[(3, held(900 - bench.line(3, Line::Held)))]);
    let Err(NamedRefusal::Leg { leg: 0, why: Verdict::PurseEmpty, .. }) = bench.ask(ask.clone())
    else {
        panic!("it lies in purses")
    };
    // Holds of purses lapse, and what is left comes back.
    bench.advance(1_000);
    let answers: Vec<bool> = (0..20)
        .map_while(|_| {
            let answer = bench.ask(ask.clone());
            bench.advance(3);
            answer.err().map(|_| true)
        })
        .collect();
    assert!(answers.len() < 20, "granted in the end: {:?}", bench.stands(3));
    bench.check();
}

#[test]
fn facts_are_booked_whatever_is_left_and_whatever_the_budget_is() {
    let mut bench = Bench::new(1, &[spec(1, 1_000), child(2, 500, 1), spec(3, 100)]);
    assert_eq!(bench.ask(hold(1, &[(2, held(300))])), Ok(true));
    let configs: [(&str, Vec<BudgetSpec>); 3] = [
        ("lowered below what is open", vec![spec(1, 10), child(2, 10, 1), spec(3, 100)]),
        (
            "paused",
            vec![
                spec(1, 10),
                BudgetSpec { status: Status::Paused, ..child(2, 10, 1) },
                spec(3, 100),
            ],
        ),
        ("removed", vec![spec(3, 100)]),
    ];
    for (settled, (case, config)) in (1..).zip(configs) {
        bench.configure(&config);
        let more = hold(1, &[(2, filled(400, settled * 100))]);
        assert_eq!(bench.state(more), Ok(true), "{case}");
        assert!(bench.ask(hold(1, &[(2, filled(401, settled * 100))])).is_err(), "{case}");
        assert_eq!(bench.stands(2)[2..], [400, settled * 100], "{case}");
        assert_eq!(bench.stands(1)[2..], [400, settled * 100], "{case}");
        bench.check();
    }
    // Where there is no row, one is made.
    assert_eq!(bench.state(hold(2, &[(3, [0, 0, 0, 0, 0, 250])])), Ok(true));
    assert_eq!(bench.line(3, Line::UnknownOrder), 250);
    bench.crash();
    assert_eq!(bench.stands(2)[2..], [400, 300], "a crash suspends nothing of it");
    bench.check();
}

#[test]
fn as_many_as_may_be_are_open_and_facts_find_room() {
    let mut bench = Bench::with(Options { named_max: 2, ..options(1) }, &[spec(1, 1_000)]);
    let one = |key| hold(key, &[(1, held(1))]);
    assert_eq!([1, 2].map(|key| bench.ask(one(key))), [Ok(true); 2]);
    assert_eq!(bench.ask(one(3)), Err(NamedRefusal::Busy));
    assert_eq!(bench.ask(hold(2, &[(1, held(2))])), Ok(true), "one that is open");
    assert_eq!(bench.state(one(3)), Ok(true));
    assert_eq!(bench.bank.counts().named_full, 1);
    bench.state(hold(3, &[(1, held(0))])).unwrap();
    bench.end(3).unwrap();
    assert_eq!(bench.bank.named_len(), 2);
    bench.check();
}

/// Days, weeks and months count what is open from their first instant on, and what is booked when it is; minutes and buckets count what
/// is handed out.
#[test]
fn windows_count_what_is_open_and_what_is_booked_in_them() {
    let fixed = |period| WindowLimit::fixed(period, Amount::new(900));
    let periods = [Period::Minute, Period::Day, Period::Week];
    let windows = Windows::of(periods.map(fixed));
    let mut bench = quiet(&[BudgetSpec { windows, ..spec(1, 100_000) }]);
    let (until_midnight, day) = (12 * HOUR_MS + 1, 24 * HOUR_MS);
    // Hours to pass before, what is said, and what is used of the minute, the day and the week. NOON is a Thursday.
    let steps: [(&str, u64, [i64; 6], [i64; 3]); 10] = [
        ("asked", 60_000, held(500), [500, 500, 500]),
        ("a fill within the hold hands out nothing", 0, filled(300, 200), [500, 500, 500]),
        ("a minute later", 60_000, filled(300, 201), [1, 501, 501]),
        ("midnight", until_midnight, filled(310, 201), [10, 310, 511]),
        ("a fill of the new day", 60_000, filled(210, 301), [0, 310, 511]),
        ("a credit of the day before", 0, filled(210, 100), [0, 210, 310]),
        (
            "booked late, and again on the line of settled",
            0,
            [210, 100, 0, 50, 0, 0],
            [50, 260, 360],
        ),
        ("a new day, and the line changes", day, [210, 150, 0, 0, 0, 0], [0, 210, 360]),
        ("a new week", 3 * day, [210, 151, 0, 0, 0, 0], [1, 211, 211]),
        ("a credit of the week before", 0, [210, 100, 0, 0, 0, 0], [1, 210, 210]),
    ];
    bench.advance(1);
    for (case, wait_ms, said, expected) in steps {
        bench.advance(wait_ms);
        let said = hold(1, &[(1, said)]);
        let opens = bench.bank.named_len() == 0;
        let answer = if opens { bench.ask(said) } else { bench.state(said) };
        assert_eq!(answer, Ok(true), "{case}");
        assert_eq!(periods.map(|period| bench.used(1, period)), expected, "{case}");
        bench.check();
    }
}

/// The largest amounts may come and go within one window, and again.
#[test]
fn short_windows_count_no_further_than_any_limit() {
    let most = Bank::SPENT_MAX.get();
    let window = |kind| WindowLimit { period: Period::Minute, kind, limit: Amount::new(900) };
    for kind in [ledger::WindowKind::Fixed, ledger::WindowKind::Bucket] {
        let fixed = [Period::Day, Period::Week].map(|of| WindowLimit::fixed(of, Amount::new(900)));
        let windows = fixed.into_iter().fold(Windows::of([window(kind)]), Windows::with);
        let mut bench = quiet(&[BudgetSpec { windows, ..spec(1, 1_000) }]);
        for amount in [most, 0, most, 0, most, 0] {
            assert_eq!(bench.state(hold(1, &[(1, filled(amount / 2, amount / 2))])), Ok(true));
        }
        assert_eq!([Period::Day, Period::Week].map(|of| bench.used(1, of)), [0, 0], "{kind:?}");
        assert_eq!(bench.used(1, Period::Minute), money::LIMIT_MAX.get(), "{kind:?}");
        bench.check();
    }
}

/// A budget that was made on its first ask stays while a named hold is about it.
#[test]
fn an_idle_budget_stays_while_it_is_drawn_on() {
    let mut bench = Bench::new(1, &[spec(1, 1_000)]);
    let made = BudgetSpec {
        handle: Some(wire::Handle::parse("a/b").unwrap()),
        idle_ms: 60_000,
        ..child(0, 500, 1)
    };
    let mut id = 0;
    bench.act(|bank, out| {
        let slot = bank.open(made, out).unwrap();
        id = bank.spec(slot).id;
    });
    bench.ask(hold(1, &[(id, held(100))])).unwrap();
    bench.state(hold(1, &[(id, filled(0, 40))])).unwrap();
    for _ in 0..200 {
        bench.advance(HOUR_MS / 50);
    }
    assert!(bench.bank.slot(id).is_some(), "a bust may come");
    bench.end(1).unwrap();
    for _ in 0..200 {
        bench.advance(HOUR_MS / 50);
    }
    assert!(bench.bank.slot(id).is_none());
    bench.check();
}

#[derive(Clone, Debug)]
struct Step {
    key: u128,
    legs: Vec<Said>,
    fact: bool,
    ends: bool,
    wait_ms: u64,
}

fn step() -> impl Strategy<Value = Step> {
    let amounts = || prop::array::uniform6(prop_oneof![Just(0), 0..300i64]);
    let legs = prop::collection::vec((2..=4u64, amounts()), 1..=3);
    let wait = prop_oneof![3 => Just(0), 1 => Just(1_000), 1 => 1..30 * HOUR_MS];
    (0..5u128, legs, any::<bool>(), prop::bool::weighted(0.2), wait).prop_map(
        |(key, mut legs, fact, ends, wait_ms)| {
            legs.sort_unstable();
            legs.dedup_by_key(|leg| leg.0);
            Step { key, legs, fact, ends, wait_ms }
        },
    )
}

/// What stands in the books is what the rows say, and what ended rows booked: in plain numbers, without a difference ever taken.
#[derive(Default)]
struct Model {
    rows: std::collections::BTreeMap<u128, std::collections::BTreeMap<u64, [i128; 6]>>,
    kept: std::collections::BTreeMap<u64, [i128; 6]>,
}

impl Model {
    /// Budget 1 is above 2 and 3; 4 stands alone.
    fn sums(&self, id: u64) -> [i128; 6] {
        let of = |budget: &u64| *budget == id || id == 1 && *budget < 4;
        let rows = self.rows.values().flatten().chain(&self.kept).filter(|(budget, _)| of(budget));
        rows.fold([0; 6], |sum, (_, said)| std::array::from_fn(|at| sum[at] + said[at]))
    }

    fn free(&self, id: u64, limit: i128) -> i128 {
        limit - self.sums(id).iter().sum::<i128>()
    }

    /// Which leg an ask is refused for.
    fn refuses(&self, step: &Step, limits: [i128; 4]) -> bool {
        let before = |budget: u64| {
            self.rows.get(&step.key).and_then(|row| row.get(&budget)).map_or(0, |said| said[0])
        };
        let raised = |of: &dyn Fn(u64) -> bool| -> i128 {
            let legs = step.legs.iter().filter(|(budget, _)| of(*budget));
            legs.map(|(budget, said)| i128::from(said[0]) - before(*budget)).sum()
        };
        [1, 2, 3, 4].into_iter().zip(limits).any(|(id, limit)| {
            let more = raised(&|budget| budget == id || id == 1 && budget < 4);
            more > 0 && more > self.free(id, limit)
        })
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    /// Asks, facts and ends beside a model; a replay of every prefix is the state that was live then.
    #[test]
    fn the_books_are_what_was_said(steps in prop::collection::vec(step(), 1..40)) {
        let limits = [700, 500, 500, 500];
        let specs = [spec(1, 700), child(2, 500, 1), child(3, 500, 1), spec(4, 500)];
        let mut bench = quiet(&specs);
        let mut model = Model::default();
        for step in &steps {
            bench.advance(step.wait_ms);
            bench.empty_purses();
            let mut legs = step.legs.clone();
            let known = model.rows.get(&step.key).cloned().unwrap_or_default();
            if !step.fact {
                for (budget, said) in &mut legs {
                    let row = known.get(budget).copied().unwrap_or_default();
                    let hold = said[0].max(i64::try_from(row[0]).unwrap());
                    *said = row.map(|amount| i64::try_from(amount).unwrap());
                    said[0] = hold;
                }
            }
            let step = Step { legs: legs.clone(), ..step.clone() };
            let answer = match step.fact {
                true => bench.state(hold(step.key, &legs)),
                false => bench.ask(hold(step.key, &legs)),
            };
            let in_purses = [1, 2, 3, 4].iter().any(|id| bench.line(*id, Line::Purses) > 0);
            if !step.fact && !in_purses {
                let expected = model.refuses(&step, limits.map(i128::from));
                prop_assert_eq!(answer.is_err(), expected, "{:?}: {:?}", step, answer);
            }
            prop_assert!(answer.is_ok() || !step.fact, "{:?}", answer);
            if answer.is_ok() {
                let row = model.rows.entry(step.key).or_default();
                row.extend(legs.iter().map(|(budget, said)| (*budget, said.map(i128::from))));
            }
            if step.ends && let Some(row) = model.rows.get(&step.key).cloned() {
                let holds = row.values().any(|said| said[0] > 0);
                prop_assert_eq!(bench.end(step.key).is_err(), holds);
                if !holds {
                    model.rows.remove(&step.key);
                    for (budget, said) in row {
                        let kept = model.kept.entry(budget).or_default();
                        *kept = std::array::from_fn(|at| kept[at] + said[at]);
                    }
                }
            }
            for id in 1..=4 {
                let lines = [Line::Held, Line::Settled, Line::OverSettled, Line::Late, Line::Inferred, Line::UnknownOrder];
                prop_assert_eq!(lines.map(|line| i128::from(bench.line(id, line))), model.sums(id));
            }
            bench.bank.audit().unwrap();
            prop_assert_eq!(crate::bench::replay(&options(1), &bench.records).digest(), bench.bank.digest());
        }
        bench.check();
    }
}

impl Bench {
    /// A hold of budget 1, once its purse is filled.
    fn reserve_soon(&mut self, amount: i64) -> ledger::Hold {
        for _ in 0..20 {
            if let Ok(hold) = self.reserve(0, 1, amount) {
                return hold;
            }
            self.advance(1);
        }
        panic!("the purse is not filled");
    }
}

/// A credit gives back to the day what named holds booked on it, and nothing that purses spent.
#[test]
fn a_credit_of_another_day_frees_no_money_of_purses() {
    let windows = Windows::daily(Some(Amount::new(100)));
    let mut bench = quiet(&[BudgetSpec { windows, ..spec(1, 100_000) }]);
    assert_eq!(bench.state(hold(1, &[(1, filled(0, 100))])), Ok(true));
    bench.advance(12 * HOUR_MS + 1);
    let of_today = bench.reserve_soon(60);
    bench.settle(of_today, 60);
    assert_eq!(bench.state(hold(1, &[(1, filled(0, 110))])), Ok(true), "10 of today");
    for (settled, used) in [(105, 65), (50, 60), (0, 60), (7, 67)] {
        assert_eq!(bench.state(hold(1, &[(1, filled(0, settled))])), Ok(true), "{settled}");
        bench.empty_purses();
        assert_eq!(bench.used(1, Period::Day), used, "{settled}");
        bench.check();
    }
}

/// A window that is configured on a day counts what the day has: what purses spent of it stays, what named holds booked can come back.
#[test]
fn windows_that_join_know_what_named_holds_booked_on_the_day() {
    let fixed = |period| WindowLimit::fixed(period, Amount::new(100));
    let periods = [Period::Day, Period::Month];
    let budget = |windows| [BudgetSpec { windows, ..spec(1, 100_000) }];
    for joins in [&periods[..], &periods[..1], &periods[1..]] {
        let mut bench = quiet(&budget(Windows::default()));
        let said = |bench: &mut Bench, settled: i64| {
            assert_eq!(bench.state(hold(1, &[(1, filled(0, settled))])), Ok(true), "{settled}");
            bench.empty_purses();
            bench.check();
            let back = crate::restore::restore(crate::restore::parts(&bench.bank)).unwrap();
            assert_eq!(back.digest(), bench.bank.digest());
        };
        said(&mut bench, 80);
        bench.advance(12 * HOUR_MS + 1);
        let of_today = bench.reserve_soon(70);
        bench.settle(of_today, 70);
        said(&mut bench, 100);
        said(&mut bench, 0);
        said(&mut bench, 25);
        bench.configure(&budget(Windows::of(joins.iter().copied().map(fixed))));
        bench.advance(1);
        bench.empty_purses();
        assert!(bench.ask(hold(2, &[(1, held(6))])).is_err(), "70 and 25 of 100");
        assert_eq!(bench.ask(hold(2, &[(1, held(5))])), Ok(true));
        for (settled, used) in [(0, 75), (25, 100), (20, 95)] {
            said(&mut bench, settled);
            let found = joins.iter().map(|period| bench.used(1, *period));
            assert!(found.clone().all(|found| found == used), "{settled}: {joins:?}");
        }
        // And without them again, and anew.
        bench.configure(&budget(Windows::default()));
        said(&mut bench, 25);
        bench.configure(&budget(Windows::of(joins.iter().copied().map(fixed))));
        bench.empty_purses();
        assert!(bench.ask(hold(2, &[(1, held(6))])).is_err());
        said(&mut bench, 0);
        bench.ask(hold(2, &[(1, held(30))])).unwrap();
        bench.check();
    }
}

/// Facts of the largest amounts leave room for what purses have handed out, and for its debts; a snapshot of them can be read.
#[test]
fn the_largest_facts_leave_room_for_debts_of_purses() {
    let week = Windows::of([WindowLimit::fixed(Period::Week, Amount::new(900))]);
    let mut bench = Bench::new(1, &[BudgetSpec { windows: week, ..spec(1, 1_000) }]);
    let purse = bench.reserve_soon(10);
    let (largest, limit) = (money::LIMIT_MAX.get(), Bank::SPENT_MAX.get());
    assert!(
        bench.state(hold(1, &[(1, held(limit))])).is_err(),
        "with what is in purses it is more"
    );
    assert_eq!(bench.state(hold(1, &[(1, filled(limit - 2_000, largest))])), Ok(true));
    assert_eq!(bench.settle(purse, money::ASK_MAX.get()), Verdict::SettledOver);
    bench.check();
    let mut restore = Restore::new(options(1));
    bench.bank.parts(&mut |part| restore.take(part).unwrap());
    assert_eq!(restore.finish().unwrap().digest(), bench.bank.digest());
}
