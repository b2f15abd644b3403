//! Holds whose time is over and of which nobody knows what became: kept, or free.

use ledger::{
    Action, Amount, BudgetSpec, Clock, Hold, LedgerEvidence, Line, OnExpiry, Options, Record,
    Verdict,
};

use crate::bench::{BILLING_OVER_MS, Bench, HOLD_MS, LATE_MS, ORIGIN, child, options, spec, told};

/// Expired sums are kept by deadlines so coarse.
const COARSE_MS: u64 = 10_000;
const LAPSED_MS: u64 = HOLD_MS + 60;

fn holding(id: u64, limit: i64) -> BudgetSpec {
    BudgetSpec { on_expiry: OnExpiry::Hold, ..spec(id, limit) }
}

fn silent(workers: u16) -> Options {
    Options { win_notices: false, ..options(workers) }
}

/// One hold of 100 in an exchange that does not say who won.
fn silent_bench() -> (Bench, Hold) {
    let mut bench = Bench::with(silent(1), &[holding(1, 1_000_000)]);
    let hold = bench.reserve(0, 1, 100).unwrap();
    (bench, hold)
}

fn reconcile(bench: &mut Bench, until_ms: u64) -> i64 {
    let mut free = Amount::ZERO;
    bench.act(|bank, out| free = bank.reconcile(None, until_ms, out));
    bench.check();
    free.get()
}

/// Closes every grant that can be.
fn end(bench: &mut Bench) {
    bench.configure(&[]);
    bench.advance(BILLING_OVER_MS + LATE_MS);
    bench.check();
}

#[test]
fn what_lapses_is_kept_where_nobody_can_tell_a_loss_from_silence() {
    let (mut bench, hold) = silent_bench();
    let free = bench.purses[0].free(0);
    bench.advance(LAPSED_MS);
    assert_eq!(bench.line(1, Line::Expired), 100);
    assert_eq!(bench.purses[0].free(0), free, "it does not go back to the purse");
    let (grant, deadline_ms, amount) = (hold.grant, hold.deadline_ms, hold.amount);
    let record = Record::Expired { grant, clock: Clock::Hold, deadline_ms, amount };
    assert!(bench.records.contains(&record), "{:?}", bench.records);
    bench.check();
    end(&mut bench);
    assert_eq!(bench.bank.grants(), 1, "a grant with expired money waits");
    let now_ms = bench.now_ms;
    assert_eq!(reconcile(&mut bench, now_ms), 100);
    bench.advance(1);
    assert_eq!(bench.bank.grants(), 0);
    assert_eq!(bench.settle(hold, 100), Verdict::TooOld);
}

/// Neither who releases, nor who relies on win notices, keeps what lapses.
#[test]
fn elsewhere_what_lapses_is_free() {
    for (options, spec) in [(options(1), holding(1, 1_000)), (silent(1), spec(1, 1_000))] {
        let mut bench = Bench::with(options, &[spec]);
        let hold = bench.insist(0, 1, 100).unwrap();
        bench.advance(LAPSED_MS);
        assert_eq!(bench.line(1, Line::Expired), 0);
        assert_eq!(bench.settle(hold, 100), Verdict::SettledLate);
        bench.check();
    }
}

#[test]
fn confirmed_holds_that_nobody_billed_are_kept() {
    for silent in [false, true] {
        let options = Options { win_notices: !silent, ..options(1) };
        let mut bench = Bench::with(options, &[holding(1, 1_000_000)]);
        let [first, second, third] = [0; 3].map(|_| bench.reserve(0, 1, 100).unwrap());
        for hold in [first, second, third] {
            bench.resolve(Action::Confirm, hold, 0);
        }
        bench.advance(BILLING_OVER_MS);
        assert_eq!((bench.line(1, Line::Held), bench.line(1, Line::Expired)), (0, 300));
        assert_eq!(bench.settle(first, 70), Verdict::Settled);
        assert_eq!(bench.resolve(Action::Settle, first, 70), (Verdict::Settled, true));
        assert_eq!(bench.resolve(Action::Release, second, 0), (Verdict::Released, false));
        assert_eq!((bench.line(1, Line::Settled), bench.line(1, Line::Expired)), (70, 100));
        // The bill for holds of so long ago is complete, however long their billing took.
        let until_ms = first.deadline_ms;
        assert_eq!(reconcile(&mut bench, until_ms), 0, "not yet: deadlines are rounded up");
        bench.advance(COARSE_MS);
        assert_eq!(reconcile(&mut bench, until_ms + COARSE_MS), 100);
        assert_eq!(bench.settle(third, 100), Verdict::SettledLate);
        end(&mut bench);
        assert_eq!(bench.bank.grants(), 0);
    }
}

/// A deadline is judged by the stamp of a request, never by whether a sweep ran: so a late notice finds the hold's
/// money before and after it has expired.
#[test]
fn a_late_notice_settles_within_the_hold() {
    let cases = [
        (Action::Settle, 70, Verdict::Settled, [30, -100, 70, 0]),
        (Action::Settle, 130, Verdict::SettledOver, [-30, -100, 100, 30]),
        (Action::Release, 0, Verdict::Released, [100, -100, 0, 0]),
        (Action::Confirm, 0, Verdict::Expired, [0, 0, 0, 0]),
    ];
    for (swept, parent) in [(false, false), (true, false), (false, true), (true, true)] {
        for (action, amount, expected, change) in cases {
            let set = [holding(1, 2_000_000), child(2, 1_000_000, 1)];
            let set = set.map(|spec| BudgetSpec { on_expiry: OnExpiry::Hold, ..spec });
            let mut bench = Bench::with(silent(1), &set);
            let hold = bench.reserve(0, 2, 100).unwrap();
            bench.advance(if swept { LAPSED_MS } else { 0 });
            let id = if parent { 1 } else { 2 };
            let name = format!("{action:?} {amount}, swept {swept}, budget {id}");
            let lines = |bench: &Bench| {
                let out = bench.line(id, Line::Purses) + bench.line(id, Line::Expired);
                let spent = [Line::Settled, Line::OverSettled].map(|line| bench.line(id, line));
                [bench.line(id, Line::Free), out, spent[0], spent[1]]
            };
            let before = lines(&bench);
            let at_ms = hold.deadline_ms + 7;
            let verdict = bench.resolve_at(0, action, hold, amount, at_ms);
            assert_eq!(verdict, (expected, false), "{name}");
            let after = lines(&bench);
            let changed: Vec<i64> = after.iter().zip(before).map(|(a, b)| a - b).collect();
            assert_eq!(changed, change, "{name}");
            bench.advance(LAPSED_MS);
            bench.check();
            let kept = if action == Action::Confirm { 100 } else { 0 };
            assert_eq!(bench.line(id, Line::Expired), kept, "{name}");
        }
    }
}

#[test]
fn a_reconciled_hold_is_late() {
    let (mut bench, hold) = silent_bench();
    bench.advance(LAPSED_MS + COARSE_MS);
    let now_ms = bench.now_ms;
    assert_eq!(reconcile(&mut bench, now_ms), 100);
    assert_eq!(reconcile(&mut bench, now_ms), 0, "nothing is left");
    assert_eq!(bench.resolve(Action::Release, hold, 0), (Verdict::Expired, false));
    assert_eq!(bench.settle(hold, 100), Verdict::SettledLate);
    assert_eq!(bench.line(1, Line::Late), 100);
    bench.check();
}

/// Only what is over for every worker, and only of the budget that was asked for and of those under it.
#[test]
fn reconciliation_is_of_what_is_decided() {
    let set = [holding(1, 1_000_000), child(2, 1_000_000, 1), holding(3, 1_000_000)];
    let set = set.map(|spec| BudgetSpec { on_expiry: OnExpiry::Hold, ..spec });
    let mut bench = Bench::with(silent(1), &set);
    for id in [2, 3] {
        bench.reserve(0, id, 100).unwrap();
    }
    assert_eq!(reconcile(&mut bench, u64::MAX), 0, "they are alive");
    bench.advance(LAPSED_MS + COARSE_MS);
    bench.reserve(0, 2, 50).unwrap();
    bench.advance(LAPSED_MS);
    let mut of = |id, until_ms| {
        let mut free = Amount::ZERO;
        bench.act(|bank, out| free = bank.reconcile(bank.slot(id), until_ms, out));
        bench.check();
        free.get()
    };
    assert_eq!(of(1, 0), 0);
    assert_eq!(of(1, u64::MAX), 100, "that of its child; the newer one is rounded up");
    assert_eq!(of(2, u64::MAX), 0);
    assert_eq!(of(3, u64::MAX), 100);
    assert_eq!(bench.line(1, Line::Expired), 50);
}

#[test]
fn after_a_crash_nobody_knows_what_was_reserved() {
    let (mut bench, hold) = silent_bench();
    let early = bench.reserve(0, 1, 40).unwrap();
    bench.resolve(Action::Settle, early, 40);
    bench.crash();
    let suspended = bench.line(1, Line::Suspended);
    assert!(suspended >= 100);
    assert_eq!(bench.settle(hold, 60), Verdict::Settled, "while it is suspended");
    bench.advance(HOLD_MS + 50);
    assert_eq!(bench.line(1, Line::Suspended), 0);
    assert_eq!(bench.line(1, Line::Expired), suspended - 100);
    assert_eq!(bench.resolve(Action::Settle, hold, 60), (Verdict::Settled, true));
    bench.check();
    bench.crash();
    assert_eq!(bench.line(1, Line::Expired), suspended - 100, "a second crash changes nothing");
    end(&mut bench);
    let now_ms = bench.now_ms;
    let second = bench.line(1, Line::Expired) - (suspended - 100);
    assert!(second > 0, "what the second run had is expired, too");
    assert_eq!(reconcile(&mut bench, now_ms), suspended - 100 + second);
    bench.advance(1);
    assert_eq!(bench.bank.grants(), 0);
}

#[test]
fn a_hold_of_an_earlier_run_settles_from_what_expired() {
    let (mut bench, hold) = silent_bench();
    bench.crash_with(silent(1), bench.records.len());
    bench.advance(HOLD_MS + 50);
    let expired = bench.line(1, Line::Expired);
    assert_eq!(bench.settle(hold, 100), Verdict::Settled);
    assert_eq!(bench.line(1, Line::Expired), expired - 100);
    bench.check();
}

#[test]
fn the_bank_itself_judges_what_no_worker_read() {
    let (mut bench, hold) = silent_bench();
    bench.advance(LAPSED_MS);
    let mut settle = |amount| {
        let mut answer = (Verdict::Busy, false);
        bench.act(|bank, out| {
            let amount = Amount::new(amount);
            answer = told(bank.resolve_direct(Action::Settle, hold, amount, ORIGIN, out));
        });
        bench.check();
        answer
    };
    assert_eq!(settle(80), (Verdict::Settled, false));
    assert_eq!(settle(80), (Verdict::Settled, true));
}

#[test]
fn evidence_is_what_the_records_say() {
    let set = [holding(1, 2_000_000), child(2, 1_000_000, 1)];
    let set = set.map(|spec| BudgetSpec { on_expiry: OnExpiry::Hold, ..spec });
    let mut bench = Bench::with(silent(1), &set);
    let [paid, over, lost, expired, silent] = [0; 5].map(|_| bench.reserve(0, 2, 100).unwrap());
    bench.settle(paid, 70);
    bench.settle(over, 150);
    bench.resolve(Action::Release, lost, 0);
    bench.advance(LAPSED_MS + COARSE_MS);
    bench.settle(expired, 10);
    let now_ms = bench.now_ms;
    assert_eq!(reconcile(&mut bench, now_ms), 100);
    assert_eq!(bench.settle(silent, 100), Verdict::SettledLate, "late ones are not counted");
    let [resolved, paid, won, expired_resolved, expired_paid] =
        [500, 180, 300, 200, 10].map(Amount::new);
    let expected = LedgerEvidence { resolved, paid, won, expired_resolved, expired_paid };
    for id in [1, 2] {
        assert_eq!(bench.bank.evidence(bench.bank.slot(id).unwrap()), expected, "budget {id}");
    }
    bench.check();
}

/// As far as the owner tolerates it, and experience says that it was not spent, expired money is handed out again.
#[test]
fn tolerated_money_is_handed_out_again() {
    for (tolerance_ppm, least, most) in [(0, 0, 0), (50_000, 50, 50), (1_000_000, 900, 980)] {
        let set = [BudgetSpec { tolerance_ppm, ..holding(1, 1_000) }];
        let mut bench = Bench::with(silent(1), &set);
        let experience = [0; 2].map(|_| bench.insist(0, 1, 10).unwrap());
        bench.advance(LAPSED_MS);
        bench.settle(experience[0], 10);
        bench.advance(COARSE_MS);
        let now_ms = bench.now_ms;
        assert_eq!(reconcile(&mut bench, now_ms), 10);
        // Half of what expires is spent. Now all that is left expires, and half of that is handed out again, and so on.
        let mut reserved = 0;
        for _ in 0..12 {
            while bench.insist(0, 1, 10).is_ok() {
                reserved += 10;
            }
            bench.advance(LAPSED_MS);
        }
        let again = reserved - 990;
        assert!((least..=most).contains(&again), "{tolerance_ppm}: {again} more than there is");
        bench.check();
    }
}

/// A grant keeps the policy it was made with; purses get new ones.
#[test]
fn a_changed_policy_is_that_of_new_holds() {
    let (mut bench, hold) = silent_bench();
    bench.configure(&[spec(1, 1_000_000)]);
    let free = bench.insist(0, 1, 100).unwrap();
    assert_ne!(free.grant, hold.grant);
    bench.advance(LAPSED_MS);
    assert_eq!(bench.line(1, Line::Expired), 100);
    assert_eq!(bench.settle(free, 100), Verdict::SettledLate);
    assert_eq!(bench.settle(hold, 100), Verdict::Settled);
    bench.check();
}

/// The row of a grant's sums fits a record, however long there is no place for another grant.
#[test]
fn a_grant_has_a_bounded_number_of_expired_sums() {
    let options = Options { grants_max: 1, ..silent(1) };
    let mut bench = Bench::with(options, &[holding(1, 1_000_000)]);
    let mut sums = 0;
    for _ in 0..1_200 {
        let _ = bench.insist(0, 1, 1);
        bench.advance(COARSE_MS);
        bench.bank.parts(&mut |part| {
            if let ledger::Part::Grant { unconfirmed, .. } = part {
                sums = sums.max(unconfirmed.len());
            }
        });
    }
    assert!((1_000..1_020).contains(&sums), "{sums}");
    bench.check();
}

/// Every hold of a run is open, settled or released in time, or expired.
#[test]
fn expired_holds_are_counted_each_once() {
    let mut bench = Bench::with(options(1), &[holding(1, 1_000_000)]);
    let holds = [0; 6].map(|_| bench.reserve(0, 1, 100).unwrap());
    let [settled, released, billed, unbilled, silent, late] = holds;
    let expired = |bench: &Bench| bench.bank.expired_holds(bench.bank.slot(1).unwrap());
    assert!(bench.bank.is_of_run(silent.grant));
    assert_eq!(bench.settle(settled, 90), Verdict::Settled);
    bench.resolve(Action::Release, released, 0);
    for hold in [billed, unbilled] {
        bench.resolve(Action::Confirm, hold, 0);
    }
    assert_eq!(bench.settle(billed, 110), Verdict::SettledOver);
    assert_eq!(expired(&bench), 0);
    bench.advance(LAPSED_MS);
    assert_eq!(expired(&bench), 2, "nobody spoke of two");
    assert_eq!(bench.settle(late, 100), Verdict::SettledLate);
    assert_eq!(expired(&bench), 2, "what is spent late was expired");
    bench.advance(BILLING_OVER_MS);
    assert_eq!(expired(&bench), 3, "one was won and not billed");
    assert_eq!(bench.settle(unbilled, 100), Verdict::Settled);
    assert_eq!(expired(&bench), 2, "it was kept, so it is settled as if in time");
    let hold = bench.reserve(0, 1, 100).unwrap();
    bench.resolve(Action::Confirm, hold, 0);
    bench.crash();
    assert!(!bench.bank.is_of_run(hold.grant));
    bench.advance(BILLING_OVER_MS);
    assert_eq!(expired(&bench), 0, "a run counts its own");
    bench.check();
}

/// Those of a purse that is taken back before their deadline, too.
#[test]
fn holds_of_a_retired_grant_expire_at_their_deadline() {
    let mut bench = Bench::with(options(1), &[spec(1, 1_000_000)]);
    let _ = bench.reserve(0, 1, 100).unwrap();
    bench.configure(&[]);
    bench.advance(1);
    assert_eq!(bench.bank.expired_holds(0), 0);
    bench.advance(LAPSED_MS);
    assert_eq!(bench.bank.expired_holds(0), 1);
}
