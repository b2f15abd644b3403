//! How purses grow, shrink and give back.

use ledger::{
    Action, Amount, BudgetSpec, Line, Need, No, Period, ToBank, ToWorker, Verdict, WindowLimit,
    Windows,
};
use money::Unit;

use crate::bench::{Bench, child, options, spec};

/// Most holds are lost in silence; the rest must still find the last coin.
#[test]
fn the_last_percent_is_spent_by_several_workers_with_silent_losses() {
    for workers in [1, 2, 4] {
        let mut bench = Bench::new(workers, &[spec(1, 1_000_000)]);
        let mut spent = 0;
        for ask in 0..40_000_usize {
            let worker = ask % usize::from(workers);
            // A fifth of the bids win, in no rhythm with the deadlines.
            let won = ask.wrapping_mul(2_654_435_761) / 128 % 5 == 0;
            if let Ok(hold) = bench.reserve(worker, 1, 1_000)
                && won
            {
                bench.resolve(Action::Confirm, hold, 0);
                assert_eq!(bench.settle(hold, 1_000), Verdict::Settled);
                spent += 1_000;
            }
            bench.advance(5);
            if spent == 1_000_000 {
                break;
            }
        }
        assert_eq!(spent, 1_000_000, "{workers} workers");
        assert_eq!(bench.line(1, Line::Settled), spent);
        bench.check();
    }
}

#[test]
fn ten_items_are_sold_to_three_workers_exactly_once_each() {
    let ten = BudgetSpec { unit: Unit::Count, ..spec(1, 10) };
    let mut bench = Bench::new(3, &[ten]);
    assert_eq!(bench.spend_all(1, 1), (10, Verdict::Exhausted));
    bench.check();
}

#[test]
fn one_ask_may_take_a_whole_budget() {
    let mut bench = Bench::new(3, &[spec(1, 1_000)]);
    assert_eq!(bench.insist(2, 1, 1_001), Err(Verdict::Exhausted));
    let hold = bench.insist(2, 1, 1_000).unwrap();
    assert_eq!(bench.settle(hold, 1_000), Verdict::Settled);
    bench.advance(1_000);
    assert_eq!(bench.lines(1), [0, 0, 0, 0, 0, 1_000, 0, 0]);
}

#[test]
fn an_idle_purse_is_recalled_for_another_worker() {
    let mut bench = Bench::new(2, &[spec(1, 1_000)]);
    let _ = bench.insist(0, 1, 950).unwrap();
    bench.advance(1_000);
    assert!(bench.purses[0].free(0).get() >= 950, "it came back and lies idle");
    assert!(bench.insist(1, 1, 900).is_ok());
    assert!(bench.bank.counts().recalls > 0);
    bench.check();
}

/// The purse had 950 when it asked; by now they are spent, and 50 are left: an ask of 50 must not hear that there is nothing.
#[test]
fn a_want_that_crossed_a_settle_hears_what_is_left_now() {
    let mut bench = Bench::new(2, &[spec(1, 1_000)]);
    let hold = bench.insist(0, 1, 950).unwrap();
    assert_eq!(bench.settle(hold, 950), Verdict::Settled);
    let (all, asked) = (Amount::new(1_000), Amount::new(2_000));
    let free = Amount::new(950);
    let need = Need { asked, short: asked, free, grant: hold.grant, given: all, ..Need::default() };
    bench.act(|bank, out| {
        bank.step(0, ToBank::Want { slot: 0, need }, out);
        let from = Amount::new(51);
        let no = No { from, ..No::to_all(Verdict::Exhausted) };
        assert_eq!(out.messages.last(), Some(&(0, ToWorker::Deny { slot: 0, no })));
    });
    bench.check();
}

/// A purse hears of its filling once that is sealed. On a slow disk another worker that asks meanwhile does not get the money first.
#[test]
fn a_purse_has_its_money_for_as_long_as_sealing_takes() {
    let mut bench = Bench::new(2, &[spec(1, 1_000)]);
    bench.bank.sealing_takes(5_000);
    let _ = bench.insist(0, 1, 950).unwrap();
    bench.advance(1_000);
    assert_eq!(bench.insist(1, 1, 900), Err(Verdict::PurseEmpty));
    assert_eq!(bench.bank.counts().recalls, 0);
    bench.advance(9_000);
    assert!(bench.insist(1, 1, 900).is_ok());
    bench.check();
}

#[test]
fn fillings_follow_demand_and_shrink_near_the_end() {
    let mut bench = Bench::new(1, &[spec(1, 10_000_000)]);
    let (mut peak, mut last) = (0, 0);
    loop {
        // 1,000 asks per second.
        bench.advance(1);
        let Ok(hold) = bench.reserve(0, 1, 1_000) else { break };
        bench.settle(hold, 1_000);
        last = bench.line(1, Line::Purses);
        peak = peak.max(last);
        if bench.line(1, Line::Free) < 10_000 {
            break;
        }
    }
    assert!(peak >= 100_000, "a purse lasts a good part of 200 ms: {peak}");
    assert!(last < peak / 4, "near the end it holds {last}, at its peak {peak}");
    assert_eq!(bench.spend_all(1, 1_000).1, Verdict::Exhausted);
    assert_eq!(bench.line(1, Line::Settled), 10_000_000);
}

#[test]
fn an_old_grant_is_replaced() {
    let mut options = options(1);
    options.grant_ms_max = 2_000;
    let mut bench = Bench::with(options, &[spec(1, 1_000_000)]);
    let first = bench.reserve(0, 1, 10).unwrap();
    bench.advance(2_000);
    let second = bench.insist(0, 1, 10).unwrap();
    assert!(second.grant > first.grant);
    for _ in 0..40 {
        bench.advance(1_000);
        bench.insist(0, 1, 10).unwrap();
    }
    assert!(bench.bank.grants() <= 16, "old ones close: {}", bench.bank.grants());
    assert_eq!(bench.settle(first, 10), Verdict::TooOld);
    bench.check();
}

/// A grant has 2^24 hold numbers; before they end the purse moves on to a fresh grant, without a refusal where
/// money is left, and even where all of it is in the purse.
#[test]
fn a_grant_whose_numbers_run_out_is_replaced() {
    for limit in [1_000_000_000, 1_000] {
        let mut bench = Bench::new(1, &[spec(1, limit)]);
        let slot = bench.bank.slot(1).unwrap();
        let first = bench.insist(0, 1, 1_000).unwrap().grant;
        bench.advance(1_000);
        let mut refused = 0;
        let replaced = (0..=ledger::token::SEQ_MAX).find(|ask| {
            let purses = &mut bench.purses[0];
            let at = purses.at(bench.now_ms);
            let grant = match purses.reserve(slot, ledger::Amount::new(1), at) {
                Ok(hold) => {
                    purses.undo(slot, &hold);
                    hold.grant
                }
                Err(_) => {
                    refused += 1;
                    first
                }
            };
            if ask % 100_000 == 0 {
                bench.advance(25);
            }
            grant != first
        });
        assert!(replaced.expect("a fresh grant") > ledger::token::SEQ_MAX / 2);
        assert_eq!(refused > 0, limit == 1_000, "{refused} refused of a limit of {limit}");
        bench.advance(1_000);
        bench.check();
    }
}

#[test]
fn a_pod_is_undone_without_a_trace() {
    let mut bench = Bench::new(1, &[spec(1, 1_000_000), spec(2, 1_000_000), spec(3, 0)]);
    let before = [1, 2].map(|slot| (bench.purses[0].free(slot), bench.purses[0].held(slot)));
    let pod = [1, 2].map(|id| (bench.bank.slot(id).unwrap(), bench.reserve(0, id, 100).unwrap()));
    assert_eq!(bench.reserve(0, 3, 100), Err(Verdict::Exhausted));
    for (slot, hold) in pod {
        bench.purses[0].undo(slot, &hold);
    }
    let after = [1, 2].map(|slot| (bench.purses[0].free(slot), bench.purses[0].held(slot)));
    assert_eq!(before, after);
    let next = bench.reserve(0, 1, 100).unwrap();
    assert_eq!(next.seq, pod[0].1.seq + 1, "a number is never used twice");
    bench.advance(1_000);
    bench.check();
}

#[test]
fn money_on_its_way_to_a_retired_grant_returns() {
    let mut bench = Bench::new(2, &[spec(1, 1_000)]);
    let _ = bench.insist(0, 1, 600).unwrap();
    // The hold lapses and another worker wants the money within the same moments.
    for _ in 0..200 {
        let _ = bench.reserve(1, 1, 900);
        bench.advance(3);
    }
    assert!(bench.insist(1, 1, 900).is_ok());
    bench.check();
}

/// A fresh purse has a 64th. What is called for before it is judged is there at the first ask, as far as the budget has it.
#[test]
fn what_is_called_for_is_granted_at_the_first_ask() {
    for workers in [1, 2] {
        for (limit, amount) in
            [(10_000_000, 250_000), (100_000_000, 20_000_000), (100_000_000, 90_000_000)]
        {
            let mut bench = Bench::new(workers, &[spec(1, limit)]);
            let slot = bench.bank.slot(1).unwrap();
            let at = bench.purses[0].at(bench.now_ms);
            assert!(bench.purses[0].call(slot, [ledger::Amount::new(amount)], at));
            bench.pump();
            assert!(bench.reserve(0, 1, amount).is_ok(), "{amount} of {limit}");
            assert!(!bench.purses[0].call(slot, [ledger::Amount::new(1)], at), "there is more");
            bench.check();
        }
    }
}

#[test]
fn calls_of_a_turn_add_up_and_know_no_pause() {
    let mut bench = Bench::new(1, &[spec(1, 100_000_000)]);
    let slot = bench.bank.slot(1).unwrap();
    let at = bench.purses[0].at(bench.now_ms);
    for _ in 0..3 {
        // In the same millisecond as the want before.
        for _ in 0..3 {
            assert!(bench.purses[0].call(slot, [ledger::Amount::new(10_000_000)], at));
        }
        bench.pump();
        for _ in 0..3 {
            assert!(bench.reserve(0, 1, 10_000_000).is_ok());
        }
    }
    // What the bank denied is not called for again.
    assert!(bench.purses[0].call(slot, [ledger::Amount::new(20_000_000)], at));
    bench.pump();
    assert!(bench.reserve(0, 1, 20_000_000).is_err());
    while bench.reserve(0, 1, 1_000_000).is_ok() {}
    // Asked again some times, until the bank has nothing to add.
    for _ in 0..4 {
        bench.advance(25);
        assert!(bench.reserve(0, 1, 10_000_000).is_err());
    }
    assert_eq!(bench.reserve(0, 1, 10_000_000), Err(Verdict::Exhausted));
    assert!(!bench.purses[0].call(slot, [ledger::Amount::new(10_000_000)], at));
    bench.check();
}

/// Worker 0 reserves so much; then its purse wants more by itself.
fn low_after(bench: &mut Bench, amount: i64) {
    bench.call(0, 1, amount);
    bench.hear();
    bench.advance(100);
    bench.reserve(0, 1, amount).unwrap();
}

/// Wants of worker 0 for asks of these amounts, each said before anything comes that the ones before bring; zero: the want that its purse has by itself.
fn crossing(bench: &mut Bench, amounts: &[i64]) -> Vec<ToBank> {
    let slot = bench.bank.slot(1).unwrap();
    let now_ms = bench.now_ms;
    let purses = &mut bench.purses[0];
    let at = purses.at(now_ms);
    let mut said = Vec::new();
    for amount in amounts {
        assert!(*amount == 0 || purses.call(slot, [Amount::new(*amount)], at));
        purses.turn(now_ms);
        said.extend(std::iter::from_fn(|| purses.next_message()));
    }
    assert_eq!(said.len(), amounts.len());
    said
}

/// A want that was said before a filling came knows nothing of it. What is on its way counts, or the ask would wait for money that is there.
#[test]
fn a_want_that_crosses_a_filling_is_met_at_once() {
    let mut bench = Bench::new(2, &[spec(1, 1_000)]);
    low_after(&mut bench, 500);
    let said = crossing(&mut bench, &[0, 480]);
    bench.act(|bank, out| {
        said.into_iter().for_each(|want| bank.step(0, want, out));
        bank.step(0, ToBank::Echo { reply: 1 }, out);
        assert!(out.messages.contains(&(0, ToWorker::Echo { reply: 1 })), "nothing waits");
    });
    assert!(bench.reserve(0, 1, 480).is_ok());
    bench.check();
}

/// What was sent for an ask that waits is not promised to the next one.
#[test]
fn asks_whose_wants_cross_are_all_met() {
    let windows = Windows::of([WindowLimit::fixed(Period::Minute, Amount::new(10_000))]);
    let mut bench = Bench::new(2, &[BudgetSpec { windows, ..spec(1, 100_000) }]);
    let said = crossing(&mut bench, &[300, 400]);
    bench.act(|bank, out| said.into_iter().for_each(|want| bank.step(0, want, out)));
    assert!(bench.reserve(0, 1, 300).is_ok() && bench.reserve(0, 1, 400).is_ok());
    bench.check();
}

/// An ask that waits asks again when money comes that another one takes. Both its wants together are more than there will ever be, and it is met
/// all the same as soon as the rest is there.
#[test]
fn an_ask_that_asks_twice_does_not_wait_for_more_than_there_is() {
    let mut bench = Bench::new(2, &[spec(1, 100)]);
    for want in crossing(&mut bench, &[50, 50]) {
        bench.step(0, want);
    }
    assert!(bench.reserve(0, 1, 50).is_ok());
    for want in crossing(&mut bench, &[50]) {
        bench.step(0, want);
    }
    // The last unit comes from the other worker.
    bench.pump();
    assert!(bench.reserve(0, 1, 50).is_ok());
    bench.check();
}

/// A want that waits counts what was on its way once, however often it is tried again.
#[test]
fn a_want_that_waits_is_met_in_full() {
    let mut bench = Bench::new(2, &[spec(1, 10_000)]);
    // Most of it lies in another worker's purse.
    bench.call(1, 1, 7_000);
    bench.hear();
    low_after(&mut bench, 1_000);
    let said = crossing(&mut bench, &[0, 2_400]);
    let now_ms = bench.now_ms;
    bench.act(|bank, out| {
        said.into_iter().for_each(|want| bank.step(0, want, out));
        (0..20).for_each(|_| bank.tick(now_ms, out));
        bank.step(0, ToBank::Echo { reply: 1 }, out);
        assert!(!out.messages.contains(&(0, ToWorker::Echo { reply: 1 })), "it waits");
    });
    bench.advance(1);
    assert!(bench.reserve(0, 1, 2_400).is_ok());
    bench.check();
}

/// Somebody asks for more than there is, again and again: it is told so, and others are served as if it were not there.
#[test]
fn an_ask_beyond_everything_changes_nothing_for_others() {
    for waits in [false, true] {
        let mut bench = Bench::new(3, &[spec(1, 1_000), child(2, 1_000, 1), child(3, 1_000, 1)]);
        for worker in [1, 2].into_iter().cycle().take(100) {
            if waits {
                assert_eq!(bench.wait_for(0, 2, 100_000), Err(Verdict::Exhausted));
            } else {
                assert_eq!(bench.insist(0, 2, 100_000), Err(Verdict::Exhausted));
            }
            let small =
                if waits { bench.wait_for(worker, 3, 10) } else { bench.insist(worker, 3, 10) };
            assert_eq!(bench.settle(small.unwrap(), 10), Verdict::Settled);
        }
        assert_eq!(bench.bank.books(1).line(Line::Purses).get(), 0, "nothing was set aside");
        assert_eq!(bench.insist(1, 3, 1), Err(Verdict::Exhausted), "now it is true");
        bench.check();
    }
}

/// A no holds from an amount on: the same purse serves smaller asks, beside the one that is too large.
#[test]
fn a_no_says_from_which_amount_on_it_holds() {
    let mut bench = Bench::new(2, &[spec(1, 1_000)]);
    assert_eq!(bench.insist(0, 1, 1_001), Err(Verdict::Exhausted));
    let slot = bench.bank.slot(1).unwrap();
    let at = bench.purses[0].at(bench.now_ms);
    let peek = |bench: &Bench, amount| bench.purses[0].peek(slot, Amount::new(amount), at);
    assert_eq!(peek(&bench, 1_001), Err(Verdict::Exhausted));
    assert_eq!(peek(&bench, 1_000), Err(Verdict::PurseEmpty));
    let asks = [900, 5_000].map(Amount::new);
    assert!(bench.purses[0].call(slot, asks, at));
    bench.pump();
    assert!(bench.reserve(0, 1, 900).is_ok(), "what is too large is not asked for with it");
    assert_eq!(bench.insist(0, 1, 5_000), Err(Verdict::Exhausted));
    bench.check();
}

/// All the money lies in a purse that does not use it: others never hear that it is used up, and soon have it.
#[test]
fn money_in_another_purse_is_not_exhausted() {
    let mut bench = Bench::new(2, &[spec(1, 1_000)]);
    let big = bench.insist(0, 1, 1_000).unwrap();
    bench.advance(1_000);
    assert_eq!(bench.purses[0].free(0).get(), 1_000, "it lapsed and lies idle: {big:?}");
    assert!(bench.wait_for(1, 1, 10).is_ok());
    bench.advance(1_000);
    let _ = bench.insist(0, 1, 990);
    bench.advance(1_000);
    for _ in 0..20 {
        match bench.reserve(1, 1, 5) {
            Ok(_) => return bench.check(),
            Err(why) => assert_eq!(why, Verdict::PurseEmpty),
        }
        bench.advance(25);
    }
    panic!("the money did not come");
}

/// What is held by another worker counts as used once its purse gave back the rest.
#[test]
fn what_others_hold_is_used() {
    let mut bench = Bench::new(2, &[spec(1, 1_000)]);
    bench.insist(0, 1, 995).unwrap();
    assert_eq!(bench.wait_for(1, 1, 6), Err(Verdict::Exhausted));
    assert!(bench.wait_for(1, 1, 5).is_ok());
    bench.check();
}
