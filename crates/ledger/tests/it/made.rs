//! Budgets made on their first ask: they end when nobody asks, and come back with the books they had.

use ledger::spec::MADE_ID_MIN;
use ledger::{
    Action, Amount, BudgetSpec, Line, Need, No, OpenError, Part, Period, Record, Restore,
    SpecError, ToBank, ToWorker, Verdict, WindowLimit, Windows,
};
use proptest::prelude::*;
use wire::Handle;

use crate::bench::{BILLING_OVER_MS, Bench, LATE_MS, NOON, child, options, spec};

const IDLE_MS: u64 = 60_000;
const DAY_MS: u64 = 86_400_000;
/// After so long without an ask nothing of a budget is left to wait for.
const LONG_MS: u64 = IDLE_MS + BILLING_OVER_MS + LATE_MS + 2 * 1_024;

fn made(handle: &str, limit: i64) -> BudgetSpec {
    BudgetSpec { handle: Some(Handle::parse(handle).unwrap()), idle_ms: IDLE_MS, ..spec(0, limit) }
}

fn under(handle: &str, limit: i64, parent: u64) -> BudgetSpec {
    BudgetSpec { parent: Some(parent), ..made(handle, limit) }
}

/// So long that idle budgets end, in steps as a clock makes them.
fn wait(bench: &mut Bench, ms: u64) {
    for _ in 0..ms.div_ceil(5_000) {
        bench.advance(5_000);
    }
}

#[test]
fn a_budget_is_made_once_and_filled_by_whoever_asks() {
    let mut bench = Bench::new(2, &[spec(1, 1_000)]);
    let id = bench.open(under("llm/a", 100, 1)).unwrap();
    assert_eq!(id, MADE_ID_MIN);
    assert_eq!(bench.open(under("llm/a", 100, 1)).unwrap(), id, "it is there");
    assert_eq!(bench.line(id, Line::Purses), 0, "nobody asked yet");
    assert_eq!(bench.open(under("llm/b", 100, 1)).unwrap(), id + 1);
    assert_eq!(bench.spend_all(id, 10), (100, Verdict::Exhausted));
    assert_eq!(bench.line(1, Line::Settled), 100, "its parent paid it");
    assert_eq!((bench.bank.made_live(), bench.bank.made_under(0)), (2, 2));
    bench.check();
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let mut bench = Bench::new(1, &[spec(1, 1_000)]);
    let before = bench.records.len();
    let nobody = BudgetSpec { handle: None, ..made("x", 1) };
    assert!(matches!(
        bench.bank.open(nobody, &mut ledger::Out::default()),
        Err(OpenError::Spec(SpecError::NoHandle { .. }))
    ));
    assert!(matches!(
        bench.open(under("x", 1, 9)),
        Err(OpenError::Spec(SpecError::NoParent { .. }))
    ));
    assert!(matches!(bench.open(made("x", -1)), Err(OpenError::Spec(SpecError::Limit { .. }))));
    assert_eq!((bench.records.len(), bench.bank.made_live()), (before, 0));
    // A configuration names none of them, and ends none.
    let id = bench.open(made("x", 5)).unwrap();
    bench.configure(&[spec(1, 2_000), spec(2, 10)]);
    assert_eq!(bench.spend_all(id, 5).0, 5);
    bench.check();
}

#[test]
fn an_idle_budget_gives_its_money_back_and_ends_when_its_tokens_are_dead() {
    let mut bench = Bench::new(2, &[spec(1, 1_000)]);
    let brief = || BudgetSpec { idle_ms: 5_000, ..under("llm/a", 500, 1) };
    let id = bench.open(brief()).unwrap();
    let hold = bench.insist(0, id, 10).unwrap();
    bench.resolve(Action::Confirm, hold, 0);
    bench.advance(4_000);
    assert!(bench.line(id, Line::Purses) > 0, "not yet");
    wait(&mut bench, 10_000);
    assert_eq!(bench.line(id, Line::Purses), 0, "nobody asks: its money is its parent's again");
    assert!(bench.bank.slot(id).is_some(), "a token of it may still be settled late");
    assert_eq!(bench.settle(hold, 4), Verdict::SettledLate);
    wait(&mut bench, LONG_MS);
    assert_eq!(bench.bank.slot(id), None);
    assert_eq!((bench.bank.made_live(), bench.bank.made_dormant()), (0, 1));
    assert_eq!(bench.settle(hold, 4), Verdict::TooOld);
    assert_eq!(bench.line(1, Line::Late), 4, "the books above keep it");
    bench.check();
    let again = bench.open(brief()).unwrap();
    assert_eq!((again, bench.line(id, Line::Late), bench.line(id, Line::Free)), (id, 4, 496));
    bench.check();
}

#[test]
fn a_life_time_limit_holds_however_often_a_budget_ends_and_comes_back() {
    let mut bench = Bench::new(1, &[]);
    let mut spent = 0;
    for round in 0..20 {
        let id = bench.open(made("llm/a", 100)).unwrap();
        assert_eq!(id, MADE_ID_MIN);
        for _ in 0..=round % 3 {
            if let Ok(hold) = bench.insist(0, id, 7) {
                assert_eq!(bench.settle(hold, 7), Verdict::Settled);
                spent += 7;
            }
        }
        assert_eq!(bench.line(id, Line::Settled), spent);
        wait(&mut bench, LONG_MS);
        assert_eq!(bench.bank.made_live(), 0, "round {round}");
        if round % 4 == 3 {
            bench.crash();
        }
    }
    assert_eq!(spent, 98);
    bench.check();
}

#[test]
fn a_window_holds_across_an_end_and_is_forgotten_when_it_is_over() {
    let mut bench = Bench::new(1, &[]);
    let daily = || BudgetSpec {
        windows: Windows::daily(Some(Amount::new(50))),
        ..made("llm/a", money::LIMIT_MAX.get())
    };
    let id = bench.open(daily()).unwrap();
    let hold = bench.insist(0, id, 30).unwrap();
    bench.settle(hold, 30);
    wait(&mut bench, LONG_MS);
    assert_eq!((bench.bank.made_live(), bench.bank.made_dormant()), (0, 1));
    assert_eq!(bench.open(daily()).unwrap(), id, "the same budget");
    assert_eq!(bench.insist(0, id, 30), Err(Verdict::DayExhausted), "on the same day");
    assert!(bench.insist(0, id, 20).is_ok());
    wait(&mut bench, LONG_MS);
    assert_eq!(bench.bank.made_dormant(), 1);
    bench.check();
    bench.advance(DAY_MS);
    bench.advance(2_000);
    assert_eq!(bench.bank.made_dormant(), 0, "nothing of it binds any more");
    assert!(bench.open(daily()).unwrap() > id, "a new one: ids are never given twice");
    bench.check();
}

#[test]
fn a_bucket_and_a_month_go_on_where_they_were() {
    let mut bench = Bench::new(1, &[]);
    let windows = Windows::of([
        WindowLimit::bucket(Period::Day, Amount::new(2_000)),
        WindowLimit::fixed(Period::Month, Amount::new(50)),
    ]);
    let spec = || BudgetSpec { windows: windows.clone(), ..made("a", money::LIMIT_MAX.get()) };
    let id = bench.open(spec()).unwrap();
    let hold = bench.insist(0, id, 40).unwrap();
    bench.settle(hold, 40);
    let used = |bench: &Bench| -> Vec<i64> {
        let slot = bench.bank.slot(id).unwrap();
        bench.bank.windows(slot).map(|(_, used, _)| used.get()).collect()
    };
    wait(&mut bench, LONG_MS);
    assert_eq!((bench.bank.made_live(), bench.bank.made_dormant()), (0, 1));
    bench.crash();
    assert_eq!(bench.open(spec()).unwrap(), id);
    let [bucket, month] = used(&bench)[..] else { panic!("two windows") };
    assert!((1..=40).contains(&bucket), "{bucket} of the bucket are not refilled yet");
    assert_eq!(month, 40);
    assert!(bench.insist(0, id, 11).is_err(), "10 are left of the month");
    assert!(bench.insist(0, id, 10).is_ok());
    bench.check();
}

#[test]
fn one_that_spent_nothing_leaves_nothing() {
    let mut bench = Bench::new(1, &[]);
    for round in 0..50 {
        let id = bench.open(made(&format!("made-up/{round}"), 100)).unwrap();
        assert_eq!(id, MADE_ID_MIN + round);
    }
    wait(&mut bench, LONG_MS);
    assert_eq!((bench.bank.made_live(), bench.bank.made_dormant()), (0, 0));
    // Their slots are used again, once no worker can be on its way to them any more.
    wait(&mut bench, 200_000);
    for round in 0..50 {
        bench.open(made(&format!("others/{round}"), 100)).unwrap();
    }
    assert_eq!(bench.bank.made_slots(), 50);
    bench.check();
}

#[test]
fn a_flood_is_bounded_of_the_node_and_under_one_parent() {
    let options = ledger::Options { made_max: 5, made_under_max: 3, ..options(1) };
    let mut bench = Bench::with(options, &[spec(1, 1_000)]);
    let user = |user: u64| under(&format!("u/{user}"), 10, 1);
    let all: Vec<_> = (0..4).map(|number| bench.open(user(number)).is_ok()).collect();
    assert_eq!(all, [true, true, true, false]);
    assert_eq!(bench.open(user(4)), Err(OpenError::Full));
    assert!(bench.open(user(1)).is_ok(), "who is there stays");
    let free = |number: u64| made(&format!("free/{number}"), 10);
    let all: Vec<_> = (0..3).map(|number| bench.open(free(number)).is_ok()).collect();
    assert_eq!(all, [true, true, false]);
    assert_eq!((bench.bank.counts().made, bench.bank.counts().made_full), (5, 3));
    wait(&mut bench, LONG_MS);
    assert!(bench.open(free(9)).is_ok(), "places come back");
    assert_eq!(bench.bank.counts().idled, 5);
    bench.check();
}

#[test]
fn a_slot_is_not_given_away_at_once() {
    let mut bench = Bench::new(1, &[]);
    let id = bench.open(made("a", 100)).unwrap();
    let slot = bench.bank.slot(id).unwrap();
    wait(&mut bench, LONG_MS);
    assert!(bench.bank.is_vacant(slot));
    let other = bench.open(made("b", 100)).unwrap();
    assert_ne!(bench.bank.slot(other), Some(slot), "somebody may still be on the way to it");
    assert!(bench.bank.is_vacant(slot));
}

#[test]
fn a_parent_ends_after_its_children() {
    let mut bench = Bench::new(1, &[]);
    let team = bench.open(made("llm/t", 1_000)).unwrap();
    let users: Vec<u64> = (0..5)
        .map(|user| bench.open(under(&format!("llm/t/{user}"), 100, team)).unwrap())
        .collect();
    for user in &users {
        let hold = bench.insist(0, *user, 10).unwrap();
        bench.settle(hold, 10);
    }
    wait(&mut bench, LONG_MS / 2);
    // One of them stays in use.
    let hold = bench.insist(0, users[2], 10).unwrap();
    bench.settle(hold, 10);
    wait(&mut bench, LONG_MS / 2 + 10_000);
    assert_eq!(bench.bank.made_live(), 2, "the one in use, and what binds it");
    assert_eq!(bench.line(team, Line::Settled), 60);
    wait(&mut bench, 2 * LONG_MS);
    assert_eq!((bench.bank.made_live(), bench.bank.made_dormant()), (0, 6));
    bench.check();
    bench.crash();
    let again = bench.open(made("llm/t", 1_000)).unwrap();
    assert_eq!(bench.line(again, Line::Settled), 60, "with what all of them spent");
    bench.check();
}

#[test]
fn one_that_comes_back_in_another_unit_begins_anew() {
    let mut bench = Bench::new(1, &[]);
    let id = bench.open(made("a", 100)).unwrap();
    let hold = bench.insist(0, id, 10).unwrap();
    bench.settle(hold, 10);
    wait(&mut bench, LONG_MS);
    let count = BudgetSpec { unit: money::Unit::Count, ..made("a", 100) };
    let other = bench.open(count).unwrap();
    assert_eq!((other, bench.line(other, Line::Free)), (id + 1, 100));
    assert_eq!(bench.bank.made_dormant(), 0);
    bench.check();
}

#[test]
fn a_crowd_that_is_idle_at_once_ends_in_small_steps() {
    let mut bench = Bench::new(1, &[spec(1, 1_000)]);
    for user in 0..1_000 {
        bench.open(under(&format!("u/{user}"), 10, 1)).unwrap();
    }
    bench.now_ms += IDLE_MS + 2_048;
    let before = bench.records.len();
    bench.pump();
    let first = bench.records.len() - before;
    assert!((1..=256).contains(&first), "{first} in one go");
    (0..20).for_each(|_| bench.advance(1));
    assert_eq!(bench.bank.made_live(), 0);
    bench.check();
}

#[test]
fn money_is_found_in_the_purses_of_a_crowd() {
    let mut bench = Bench::new(1, &[spec(1, 3_000), child(2, 3_000, 1)]);
    let ids: Vec<u64> =
        (0..600).map(|user| bench.open(under(&format!("u/{user}"), 3_000, 2)).unwrap()).collect();
    for id in &ids {
        let _ = bench.insist(0, *id, 1);
    }
    // What lies in their purses is searched in turns of some hundred.
    assert!(bench.line(1, Line::Purses) > 600);
    bench.advance(1_000);
    let mut got = Err(Verdict::Exhausted);
    for _ in 0..20 {
        got = got.or_else(|_| bench.insist(0, 1, 2_900));
    }
    assert!(got.is_ok(), "{got:?}");
    bench.check();
}

#[test]
fn records_that_do_not_fit_are_refused() {
    let mut bench = Bench::new(1, &[spec(1, 1_000)]);
    let id = bench.open(under("a", 100, 1)).unwrap();
    bench.insist(0, id, 10).unwrap();
    let mut copy = crate::bench::replay(&options(1), &bench.records);
    for (record, why) in [
        (Record::BudgetIdled { id }, "not all accounted for"),
        (Record::BudgetIdled { id: 1 }, "not one that was made"),
        (Record::BudgetIdled { id: id + 1 }, "not known"),
        (Record::BudgetForgotten { id }, "not known"),
        (
            Record::Budget { spec: Box::new(BudgetSpec { id: id + 1, ..made("a", 1) }) },
            "its handle is that of",
        ),
        (Record::Budget { spec: Box::new(spec(id + 2, 1)) }, "has no handle"),
    ] {
        let error = copy.replay(&record).unwrap_err().to_string();
        assert!(error.contains(why), "{record:?}: {error}");
    }
}

/// The state as parts, and the same bank again.
fn copy_of(bench: &Bench) -> ledger::Bank {
    let mut restore = Restore::new(options(2));
    bench.bank.parts(&mut |part: Part| restore.take(part).unwrap());
    restore.finish().unwrap()
}

#[derive(Clone, Debug)]
enum Step {
    Open(u8),
    Spend { who: u8, amount: i64, worker: bool },
    Confirm { who: u8, amount: i64 },
    Settle,
    Wait(u64),
    Crash,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..6u8).prop_map(Step::Open),
        8 => (0..6u8, 1..40i64, any::<bool>()).prop_map(|(who, amount, worker)| Step::Spend { who, amount, worker }),
        2 => (0..6u8, 1..40i64).prop_map(|(who, amount)| Step::Confirm { who, amount }),
        2 => Just(Step::Settle),
        6 => prop_oneof![1..2_000u64, Just(IDLE_MS), Just(LONG_MS), Just(DAY_MS / 3)].prop_map(Step::Wait),
        1 => Just(Step::Crash),
    ]
}

const LIMIT: i64 = 150;
const DAILY: i64 = 60;

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// However often budgets end, come back and crash: none spends more than its limit, on no day more than its daily limit, and a
    /// replay and a snapshot lead to the same bank.
    #[test]
    fn no_limit_is_ever_passed(steps in proptest::collection::vec(step(), 1..60)) {
        let mut bench = Bench::new(2, &[spec(1, 400)]);
        let mut spent = [0; 6];
        let mut today = [(0, 0); 6];
        let mut held = Vec::new();
        for step in steps {
            let name = |who: u8| format!("u/{who}");
            let spec = |who: u8| match who {
                // The last ones have no limit for their life.
                4.. => BudgetSpec { windows: Windows::daily(Some(Amount::new(DAILY))), ..under(&name(who), money::LIMIT_MAX.get(), 1) },
                _ => BudgetSpec { windows: Windows::daily(Some(Amount::new(DAILY))), ..under(&name(who), LIMIT, 1) },
            };
            match step {
                Step::Open(who) => drop(bench.open(spec(who)).unwrap()),
                Step::Spend { who, amount, worker } => {
                    let id = bench.open(spec(who)).unwrap();
                    if let Ok(hold) = bench.insist(usize::from(worker), id, amount) {
                        let day = bench.now_ms / DAY_MS;
                        prop_assert_eq!(bench.settle(hold, amount), Verdict::Settled);
                        spent[usize::from(who)] += amount;
                        let (last, used) = today[usize::from(who)];
                        let used = if last == day { used + amount } else { amount };
                        today[usize::from(who)] = (day, used);
                        prop_assert!(used <= DAILY, "{used} on one day");
                    }
                }
                Step::Confirm { who, amount } => {
                    let id = bench.open(spec(who)).unwrap();
                    if let Ok(hold) = bench.insist(0, id, amount) {
                        bench.resolve(Action::Confirm, hold, 0);
                        held.push((who, hold, amount, bench.now_ms / DAY_MS));
                    }
                }
                Step::Settle => {
                    if let Some((who, hold, amount, day)) = held.pop()
                        && bench.settle(hold, amount) == Verdict::Settled
                    {
                        spent[usize::from(who)] += amount;
                        let (last, used) = today[usize::from(who)];
                        if last == day {
                            today[usize::from(who)] = (day, used + amount);
                        }
                    }
                }
                Step::Wait(ms) if ms > 5_000 => wait(&mut bench, ms.min(3 * LONG_MS)),
                Step::Wait(ms) => bench.advance(ms),
                Step::Crash => bench.crash(),
            }
            for (who, spent) in spent.iter().enumerate() {
                prop_assert!(who >= 4 || *spent <= LIMIT, "budget {who} spent {spent}");
            }
        }
        prop_assert!(spent.iter().sum::<i64>() <= 400, "more than their parent has");
        bench.check();
        prop_assert_eq!(copy_of(&bench).digest(), bench.bank.digest());
    }
}

#[test]
fn a_want_of_a_slot_whose_budget_ended_does_no_harm() {
    let mut bench = Bench::new(1, &[]);
    let id = bench.open(made("a", 100)).unwrap();
    let slot = bench.bank.slot(id).unwrap();
    wait(&mut bench, LONG_MS);
    let short = Amount::new(5);
    let want = ToBank::Want { slot, need: Need { asked: short, short, ..Need::default() } };
    bench.act(|bank, out| {
        bank.step(0, want, out);
        let denied = ToWorker::Deny { slot, no: No::to_all(Verdict::Busy) };
        assert!(out.messages.contains(&(0, denied)), "it is no answer about a limit");
    });
    assert!(bench.bank.is_vacant(slot));
    assert!(bench.now_ms > NOON);
    bench.check();
}
