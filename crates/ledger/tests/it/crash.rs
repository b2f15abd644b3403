//! What a crash does: everything in memory is lost, the records are replayed.

use ledger::{
    Action, Amount, BudgetSpec, Line, No, OnExpiry, Options, Period, Record, ToWorker, Verdict,
    WindowLimit, Windows,
};

use crate::bench::{BILLING_OVER_MS, Bench, HOLD_MS, LATE_MS, child, options, replay, spec};

fn busy_world() -> Bench {
    let mut bench = Bench::new(2, &[spec(1, 100_000), child(2, 50_000, 1), spec(3, 7_000)]);
    for i in 0..60_usize {
        let id = [1, 2, 3][i % 3];
        if let Ok(hold) = bench.insist(i % 2, id, 100) {
            match i % 5 {
                0 => drop(bench.settle(hold, 90)),
                1 => drop(bench.resolve(Action::Confirm, hold, 0)),
                2 => drop(bench.resolve(Action::Release, hold, 0)),
                3 => drop(bench.settle(hold, 130)),
                _ => {}
            }
        }
        bench.advance(20);
    }
    bench
}

/// Any prefix of what was written is a state the bank could have been in.
#[test]
fn every_prefix_replays_and_can_go_on() {
    let bench = busy_world();
    bench.check();
    for records in 0..bench.records.len() {
        let twice = [0, 0].map(|_| replay(&options(2), &bench.records[..records]).digest());
        assert_eq!(twice[0], twice[1]);
    }
    for records in (0..bench.records.len()).step_by(17) {
        let mut bench = busy_world();
        bench.crash_with(options(2), records);
        bench.advance(HOLD_MS + 51);
        bench.check();
        for (_, slot) in bench.bank.slots_from(0) {
            assert_eq!(bench.bank.books(slot).line(Line::Suspended).get(), 0);
        }
    }
}

#[test]
fn money_is_suspended_until_the_longest_deadline_then_free() {
    let mut bench = Bench::new(1, &[spec(1, 1_000)]);
    let _ = bench.insist(0, 1, 900).unwrap();
    bench.crash();
    let suspended = bench.line(1, Line::Suspended);
    assert!(suspended >= 900);
    assert!(bench.insist(0, 1, 900).is_err() || bench.line(1, Line::Suspended) == 0);
    bench.advance(HOLD_MS + 50);
    assert_eq!(bench.line(1, Line::Suspended), 0);
    assert!(bench.insist(0, 1, 900).is_ok());
    bench.check();
}

#[test]
fn suspended_money_is_not_handed_out() {
    let mut bench = Bench::new(1, &[spec(1, 1_000)]);
    let hold = bench.insist(0, 1, 900).unwrap();
    bench.crash();
    for _ in 0..5 {
        assert!(bench.reserve(0, 1, 200).is_err());
        bench.advance(50);
    }
    assert_eq!(bench.settle(hold, 900), Verdict::Settled, "the token is still good");
    bench.advance(1_000);
    assert_eq!(bench.spend_all(1, 100), (100, Verdict::Exhausted));
    bench.check();
}

/// An ask that suspended money would cover is not refused for good: the money comes back by itself, unless its budget keeps what expires.
#[test]
fn what_suspended_money_would_cover_is_not_used_up() {
    let keeps = BudgetSpec { on_expiry: OnExpiry::Hold, ..spec(4, 1_000) };
    let daily = BudgetSpec { windows: Windows::daily(Some(Amount::new(1_000))), ..spec(5, 9_000) };
    let minute = WindowLimit::fixed(Period::Minute, Amount::new(1_000));
    let by_minute = BudgetSpec { windows: Windows::of([minute]), ..spec(6, 9_000) };
    let specs = [spec(1, 1_000), spec(2, 1_000), child(3, 9_000, 2), keeps, daily, by_minute];
    let mut bench = Bench::with(Options { win_notices: false, ..options(1) }, &specs);
    // The minute ends before the suspension does.
    let minute_ms = (bench.now_ms + 10_000).next_multiple_of(60_000);
    bench.now_ms = minute_ms - 2_000;
    for id in [1, 3, 4, 5, 6] {
        bench.insist(0, id, 600).unwrap();
    }
    bench.now_ms = minute_ms - 400;
    bench.crash();
    let over_ms = bench.now_ms + options(1).hold_ms_max;
    let said = |bench: &mut Bench, id, amount| {
        let why = bench.wait_for(0, id, amount).unwrap_err();
        let slot = bench.bank.slot(id).unwrap();
        (
            why,
            bench.purses[0]
                .returns_ms(slot, Amount::new(amount))
                .filter(|_| why == Verdict::PurseEmpty),
        )
    };
    for (id, amount, expected) in [
        (6, 1_000, (Verdict::PurseEmpty, Some(minute_ms))),
        (1, 1_000, (Verdict::PurseEmpty, Some(over_ms))),
        (1, 1_001, (Verdict::Exhausted, None)),
        (3, 1_000, (Verdict::PurseEmpty, Some(over_ms))),
        (3, 1_001, (Verdict::Exhausted, None)),
        (4, 1_000, (Verdict::Exhausted, None)),
        (5, 1_000, (Verdict::PurseEmpty, Some(over_ms))),
        (5, 1_001, (Verdict::DayExhausted, None)),
    ] {
        assert_eq!(said(&mut bench, id, amount), expected, "budget {id}, {amount}");
        // A purse that was denied a moment ago does not ask again at once.
        bench.advance(25);
    }
    bench.now_ms = over_ms;
    bench.advance(1);
    for (id, amount) in [(1, 1_000), (3, 1_000), (5, 1_000)] {
        assert!(bench.insist(0, id, amount).is_ok(), "budget {id}");
    }
    assert_eq!(said(&mut bench, 4, 1_000).0, Verdict::Exhausted);
    bench.check();
}

#[test]
fn a_token_of_an_earlier_run_settles_once_in_every_phase() {
    // How long after the crash, and what the answer is.
    let phases = [
        (0, Verdict::Settled),
        (HOLD_MS / 2, Verdict::Settled),
        (HOLD_MS + 100, Verdict::SettledLate),
        (BILLING_OVER_MS, Verdict::SettledLate),
        (HOLD_MS + 100 + BILLING_OVER_MS + LATE_MS, Verdict::TooOld),
    ];
    for (wait_ms, verdict) in phases {
        let mut bench = Bench::new(2, &[spec(1, 1_000)]);
        let hold = bench.insist(1, 1, 100).unwrap();
        bench.crash();
        bench.advance(wait_ms);
        assert_eq!(bench.resolve(Action::Settle, hold, 100), (verdict, false), "{wait_ms} ms");
        let booked = if verdict == Verdict::TooOld { 0 } else { 100 };
        assert_eq!(bench.resolve(Action::Settle, hold, 100), (verdict, booked != 0));
        assert_eq!(bench.bank.books(0).spent().get(), booked);
        bench.crash();
        assert_eq!(bench.resolve(Action::Settle, hold, 100).0, verdict, "after another crash");
        assert_eq!(bench.bank.books(0).spent().get(), booked);
        bench.advance(1_000);
        bench.check();
    }
}

#[test]
fn confirmed_holds_survive_with_their_own_clock() {
    let mut bench = Bench::new(1, &[spec(1, 1_000)]);
    let [one, two] = [0, 0].map(|_| bench.insist(0, 1, 100).unwrap());
    for hold in [one, two] {
        assert_eq!(bench.resolve(Action::Confirm, hold, 0).0, Verdict::Confirmed);
    }
    bench.crash();
    bench.crash();
    assert_eq!(bench.line(1, Line::Held), 200);
    bench.advance(3_000);
    assert_eq!(bench.settle(one, 100), Verdict::Settled);
    assert_eq!(bench.resolve(Action::Confirm, two, 0), (Verdict::Confirmed, true));
    bench.advance(BILLING_OVER_MS);
    assert_eq!(bench.line(1, Line::Held), 0, "the second was never billed");
    assert_eq!(bench.line(1, Line::Settled), 100);
    bench.check();
}

#[test]
fn a_second_crash_does_not_prolong_the_suspension_of_the_first() {
    let mut bench = Bench::new(1, &[spec(1, 1_000)]);
    let _ = bench.insist(0, 1, 900).unwrap();
    bench.crash();
    bench.advance(HOLD_MS / 2);
    bench.crash();
    bench.advance(HOLD_MS / 2 + 50);
    assert!(bench.line(1, Line::Suspended) < 900, "the first run's holds are over");
    bench.advance(HOLD_MS);
    assert_eq!(bench.line(1, Line::Suspended), 0);
    bench.check();
}

/// The configuration may change between two runs; the tokens of the first do not.
#[test]
fn a_run_with_shorter_times_honours_the_longer_ones_of_the_last() {
    let mut bench = Bench::new(1, &[spec(1, 1_000)]);
    let confirmed = bench.insist(0, 1, 100).unwrap();
    bench.resolve(Action::Confirm, confirmed, 0);
    let open = bench.insist(0, 1, 800).unwrap();
    let shorter = Options { hold_ms_max: 50, billing_ms: 640, ..options(1) };
    bench.check();
    bench.crash_with(shorter, bench.records.len());
    bench.advance(HOLD_MS / 2);
    assert!(bench.line(1, Line::Suspended) >= 800, "the hold is alive: its money is not free");
    assert_eq!(bench.settle(open, 800), Verdict::Settled);
    bench.advance(2_000);
    assert_eq!(bench.settle(confirmed, 100), Verdict::Settled, "it has the first run's window");
    bench.check();
}

/// Billing deadlines that passed are in the records; another billing window must not unsettle them.
#[test]
fn records_replay_under_another_billing_window() {
    let mut bench = Bench::new(1, &[spec(1, 1_000)]);
    let hold = bench.insist(0, 1, 100).unwrap();
    bench.resolve(Action::Confirm, hold, 0);
    bench.advance(BILLING_OVER_MS);
    let lapsed = |record: &&Record| matches!(record, Record::BillingLapsed { .. });
    assert_eq!(bench.records.iter().filter(lapsed).count(), 1);
    for billing_ms in [1, 640, 3_600_000] {
        let bank = replay(&Options { billing_ms, ..options(1) }, &bench.records);
        assert_eq!(bank.digest(), bench.bank.digest());
    }
}

/// The wall clock went back while the node was down: holds seem to live longer than their suspension.
#[test]
fn a_clock_that_went_back_across_a_restart_ends_holds_early_and_nothing_worse() {
    let mut bench = Bench::new(1, &[spec(1, 1_000)]);
    let granted_ms = bench.now_ms;
    bench.now_ms += 3_600_000;
    for purses in &mut bench.purses {
        purses.turn(bench.now_ms);
    }
    let hold = bench.reserve(0, 1, 10).unwrap();
    bench.now_ms = granted_ms;
    bench.crash();
    bench.advance(1_000);
    assert_eq!(bench.line(1, Line::Suspended), 0);
    assert_eq!(bench.resolve(Action::Confirm, hold, 0), (Verdict::Expired, false));
    assert_eq!(bench.settle(hold, 10), Verdict::SettledLate);
    bench.advance(1_000);
    bench.check();
}

/// What came before a run begins, and how long it suspends what the run before had out, counted from the later one of its own beginning and
/// the last record.
struct Begins {
    case: &'static str,
    lease_ms: u64,
    /// How far the clock is set, once the last record is written.
    clock_ms: i64,
    handed_over: bool,
    /// Another run between, which has a lease.
    between: bool,
    /// A purse was filled behind the handover.
    refilled: bool,
    suspends_ms: u64,
}

#[test]
fn the_next_run_suspends_for_the_lease_and_the_longest_hold_of_the_run_before() {
    let hold_ms_max = options(1).hold_ms_max;
    let (lease_ms, whole_ms) = (5_000, hold_ms_max + 5_000 + 300);
    let plain = Begins {
        case: "a lease",
        lease_ms,
        clock_ms: 0,
        handed_over: false,
        between: false,
        refilled: false,
        suspends_ms: whole_ms,
    };
    for begins in [
        Begins { case: "no lease", lease_ms: 0, suspends_ms: hold_ms_max, ..plain },
        Begins { case: "the clock went back", clock_ms: -60_000, ..plain },
        Begins { case: "the clock is ahead", clock_ms: 60_000, ..plain },
        Begins { case: "a run between had one", lease_ms: 0, between: true, ..plain },
        // What is out is in a hold that says itself when it ends.
        Begins { case: "handed over", handed_over: true, suspends_ms: hold_ms_max, ..plain },
        Begins { case: "long ago", handed_over: true, clock_ms: 9_000, suspends_ms: 0, ..plain },
        Begins { case: "an unclean end behind", handed_over: true, between: true, ..plain },
        Begins { case: "filled behind", handed_over: true, refilled: true, ..plain },
        Begins { ..plain },
    ] {
        let of_run = |lease_ms| Options { lease_ms, clock_error_ms: 300, ..options(1) };
        let mut bench = Bench::with(of_run(begins.lease_ms), &[spec(1, 1_000)]);
        bench.insist(0, 1, 900).unwrap();
        if begins.handed_over {
            let no = No::to_all(Verdict::Busy);
            bench.purses[0].take(ToWorker::Recall { slot: 0, no }, bench.now_ms);
            bench.advance(1);
            bench.act(|bank, out| bank.hand_over(out));
        }
        if begins.refilled {
            bench.insist(0, 1, 50).unwrap();
        }
        if begins.between {
            bench.crash_with(of_run(lease_ms), bench.records.len());
        }
        bench.act(|bank, out| bank.beat(out));
        bench.check();
        let last_ms = bench.now_ms;
        bench.now_ms = last_ms.strict_add_signed(begins.clock_ms);
        let before = bench.records.len();
        // Its own lease and times do not matter: tokens and purses are of the run before.
        let next = Options { lease_ms: 1, hold_ms_max: 50, clock_error_ms: 300, ..options(1) };
        bench.crash_with(next, before);
        let Record::RunStarted { suspended_until_ms, at_ms, .. } = &bench.records[before] else {
            panic!("a run begins with a record")
        };
        let from_ms = last_ms.max(bench.now_ms);
        assert_eq!(*at_ms, from_ms, "{}", begins.case);
        let until_ms = from_ms + begins.suspends_ms;
        match begins.handed_over && begins.suspends_ms < whole_ms {
            false => assert_eq!(*suspended_until_ms, until_ms, "{}", begins.case),
            // Deadlines are rounded up.
            true => assert!(
                (from_ms..=until_ms).contains(suspended_until_ms)
                    && (begins.suspends_ms == 0 || *suspended_until_ms > from_ms),
                "{}",
                begins.case
            ),
        }
        bench.check();
    }
}

/// Fewer workers than before, or more: grants of the missing ones are suspended like all others.
#[test]
fn the_number_of_workers_may_change() {
    for workers in [1, 2, 5] {
        let mut bench = busy_world();
        let records = bench.records.len();
        bench.crash_with(options(workers), records);
        bench.advance(1_000);
        bench.check();
        let spent = bench.bank.books(bench.bank.slot(3).unwrap()).spent().get();
        let held = bench.line(3, Line::Held);
        assert_eq!(bench.spend_all(3, 10).0 / 10, (7_000 - spent - held) / 10);
    }
}

#[test]
fn records_that_do_not_fit_change_nothing() {
    let bench = busy_world();
    for (index, record) in bench.records.iter().enumerate() {
        let mut bank = replay(&options(2), &bench.records[..index]);
        // Each record in the place of another: most do not fit, none may do harm.
        for other in bench.records.iter().step_by(7) {
            let (before, mut copy) = (bank.digest(), bank.clone());
            if copy.replay(other).is_err() {
                assert_eq!(copy.digest(), before, "{other:?} at {index}");
                copy.audit().unwrap();
            } else {
                copy.audit().unwrap();
            }
        }
        bank.replay(record).unwrap();
    }
}
