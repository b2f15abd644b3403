//! What a settled hold was settled with, and billing notices: of those the highest price counts, in whatever order they come.

use ledger::{
    Action, Amount, Door, Handled, Hold, Line, Options, Origin, Part, Record, Resolution, Restore,
    Verdict,
};
use proptest::prelude::*;

use crate::bench::{BILLING_OVER_MS, Bench, HOLD_MS, ORIGIN, child, options, replay, spec};

const NOTICE: Origin = Origin { door: Door::Openrtb, request_id: 3 };

fn two_levels() -> Bench {
    Bench::new(1, &[spec(1, 10_000), child(2, 5_000, 1)])
}

/// A settle from a door, now.
fn settle(bench: &mut Bench, origin: Origin, hold: Hold, amount: i64) -> Resolution {
    let now_ms = bench.now_ms;
    bench.resolve_from(origin, 0, Action::Settle, hold, amount, now_ms);
    bench.answer.unwrap()
}

fn now(verdict: Verdict, amount: i64) -> Resolution {
    Resolution { verdict, amount: Some(Amount::new(amount)), judged: Handled::Now }
}

fn before(verdict: Verdict, amount: i64) -> Resolution {
    Resolution { judged: Handled::Before, ..now(verdict, amount) }
}

fn topped_up(verdict: Verdict, amount: i64) -> Resolution {
    Resolution { judged: Handled::ToppedUp, ..now(verdict, amount) }
}

/// Settled, over and late, of both levels: they must be alike.
fn spent(bench: &Bench) -> [i64; 3] {
    let of = |id| [Line::Settled, Line::OverSettled, Line::Late].map(|line| bench.line(id, line));
    assert_eq!(of(1), of(2));
    of(2)
}

#[test]
fn a_repeat_hears_what_was_booked_and_not_what_it_names() {
    let mut bench = two_levels();
    let [part, whole, over] = [0; 3].map(|_| bench.insist(0, 2, 100).unwrap());
    for (hold, amount, verdict) in [
        (part, 70, Verdict::Settled),
        (whole, 100, Verdict::Settled),
        (over, 130, Verdict::SettledOver),
    ] {
        assert_eq!(settle(&mut bench, ORIGIN, hold, amount), now(verdict, amount));
        for again in [0, amount, 400] {
            assert_eq!(settle(&mut bench, ORIGIN, hold, again), before(verdict, amount));
        }
    }
    assert_eq!(spent(&bench), [270, 30, 0]);
    bench.crash();
    assert_eq!(settle(&mut bench, ORIGIN, part, 9), before(Verdict::Settled, 70), "also later");
    bench.check();
}

#[test]
fn a_higher_billing_notice_books_the_difference() {
    let mut bench = two_levels();
    let hold = bench.insist(0, 2, 100).unwrap();
    assert_eq!(settle(&mut bench, NOTICE, hold, 1), now(Verdict::Settled, 1));
    assert_eq!(settle(&mut bench, NOTICE, hold, 80), topped_up(Verdict::Settled, 80));
    assert_eq!(spent(&bench), [80, 0, 0]);
    for lower in [0, 79, 80] {
        assert_eq!(settle(&mut bench, NOTICE, hold, lower), before(Verdict::Settled, 80));
    }
    assert_eq!(settle(&mut bench, NOTICE, hold, 130), topped_up(Verdict::SettledOver, 130));
    bench.advance(BILLING_OVER_MS);
    assert_eq!(settle(&mut bench, NOTICE, hold, 135), topped_up(Verdict::SettledLate, 135));
    assert_eq!(spent(&bench), [100, 30, 5]);
    let counts = bench.bank.counts();
    assert_eq!((counts.topped_up, counts.repeats), (3, 3));
    bench.crash();
    assert_eq!(settle(&mut bench, NOTICE, hold, 135), before(Verdict::SettledLate, 135));
    bench.check();
}

/// Whoever sees the addresses sends the lowest prices first; the true ones come later. Nothing is spent above the limit.
#[test]
fn a_low_price_sent_first_frees_nothing_until_the_billing_time_is_over() {
    let mut bench = Bench::new(1, &[spec(1, 1_000)]);
    let mut won = Vec::new();
    for _ in 0..6 {
        while let Ok(hold) = bench.insist(0, 1, 100) {
            settle(&mut bench, NOTICE, hold, 1);
            won.push(hold);
        }
        bench.advance(100);
    }
    assert_eq!(won.len(), 10, "no money is bid twice");
    assert_eq!((bench.line(1, Line::Held), bench.line(1, Line::Free)), (990, 0));
    bench.crash();
    for hold in &won {
        assert_eq!(settle(&mut bench, NOTICE, *hold, 100), topped_up(Verdict::Settled, 100));
    }
    let lines = [Line::Settled, Line::OverSettled, Line::Late, Line::Free];
    assert_eq!(lines.map(|line| bench.line(1, line)), [1_000, 0, 0, 0]);
    bench.check();
}

/// The rest is free when no later notice can be in time, also where what is not billed is kept; and it counts as no loss.
#[test]
fn the_rest_of_a_settled_hold_is_free_when_its_billing_time_is_over() {
    for on_expiry in [ledger::OnExpiry::Release, ledger::OnExpiry::Hold] {
        let mut bench = Bench::new(1, &[ledger::BudgetSpec { on_expiry, ..spec(1, 1_000) }]);
        let [part, unbilled] = [0; 2].map(|_| bench.insist(0, 1, 100).unwrap());
        bench.resolve(Action::Confirm, part, 0);
        bench.resolve(Action::Confirm, unbilled, 0);
        settle(&mut bench, NOTICE, part, 30);
        assert_eq!(bench.line(1, Line::Held), 170, "the rest, and the other hold");
        assert_eq!(bench.bank.confirmed(0), Amount::new(100));
        let evidence = bench.bank.evidence(0);
        bench.advance(BILLING_OVER_MS);
        let kept = if on_expiry == ledger::OnExpiry::Hold { 100 } else { 0 };
        assert_eq!((bench.line(1, Line::Held), bench.line(1, Line::Expired)), (0, kept));
        let lost = bench.bank.evidence(0).resolved.get() - evidence.resolved.get();
        assert_eq!(lost, 100 - kept, "of the other hold alone");
        assert_eq!(settle(&mut bench, NOTICE, part, 60), topped_up(Verdict::SettledLate, 60));
        assert_eq!(bench.line(1, Line::Late), 30);
        bench.check();
        bench.crash();
        bench.check();
    }
}

/// Other doors' settles, and those of a node that is told so, free the rest at once.
#[test]
fn only_notices_keep_the_rest_and_only_where_it_is_wanted() {
    for (origin, keep_rests) in [(ORIGIN, true), (NOTICE, false)] {
        let mut bench = Bench::with(Options { keep_rests, ..options(1) }, &[spec(1, 1_000)]);
        let hold = bench.insist(0, 1, 100).unwrap();
        settle(&mut bench, origin, hold, 30);
        assert_eq!(bench.line(1, Line::Held), 0);
        bench.check();
    }
    // What is settled when its billing time is over has none left to wait for.
    let mut bench = Bench::new(
        1,
        &[ledger::BudgetSpec::plain(1, money::Unit::parse("USD").unwrap(), Amount::new(1_000))],
    );
    let hold = bench.insist(0, 1, 100).unwrap();
    bench.resolve(Action::Confirm, hold, 0);
    bench.advance(BILLING_OVER_MS);
    assert_eq!(settle(&mut bench, NOTICE, hold, 30), now(Verdict::Settled, 30));
    assert_eq!((bench.line(1, Line::Held), bench.line(1, Line::Expired)), (0, 0));
    bench.check();
}

#[test]
fn a_late_hold_is_topped_up_late() {
    let mut bench = two_levels();
    let hold = bench.insist(0, 2, 100).unwrap();
    bench.advance(HOLD_MS + 50);
    assert_eq!(settle(&mut bench, NOTICE, hold, 10), now(Verdict::SettledLate, 10));
    assert_eq!(settle(&mut bench, NOTICE, hold, 60), topped_up(Verdict::SettledLate, 60));
    assert_eq!(spent(&bench), [0, 0, 60]);
    bench.check();
}

/// Only billing notices are of the kind that strangers can send first.
#[test]
fn other_doors_top_nothing_up() {
    for door in [Door::Batch, Door::Fix, Door::Keys, Door::Spend] {
        let mut bench = two_levels();
        let hold = bench.insist(0, 2, 100).unwrap();
        settle(&mut bench, NOTICE, hold, 10);
        let again = settle(&mut bench, Origin { door, request_id: 0 }, hold, 60);
        assert_eq!(again, before(Verdict::Settled, 10), "{door:?}");
        assert_eq!(spent(&bench), [10, 0, 0]);
        bench.check();
    }
}

/// What the exchange bills is owed, whatever a notice said before.
#[test]
fn a_bill_that_is_higher_than_its_notice_books_the_difference() {
    let bill = Origin { door: Door::Admin, request_id: 0 };
    let mut bench = two_levels();
    let hold = bench.insist(0, 2, 100).unwrap();
    settle(&mut bench, NOTICE, hold, 10);
    assert_eq!(settle(&mut bench, bill, hold, 60), topped_up(Verdict::Settled, 60));
    assert_eq!(settle(&mut bench, bill, hold, 60), before(Verdict::Settled, 60), "once");
    bench.advance(BILLING_OVER_MS);
    assert_eq!(settle(&mut bench, bill, hold, 70), topped_up(Verdict::SettledLate, 70));
    assert_eq!(spent(&bench), [60, 0, 10]);
    bench.check();
}

/// No key and no memo comes with a notice; under one a repeat stays a repeat.
#[test]
fn a_request_with_a_key_tops_nothing_up() {
    let mut bench = two_levels();
    let hold = bench.insist(0, 2, 100).unwrap();
    settle(&mut bench, NOTICE, hold, 10);
    bench.claim(0, 5, 6);
    let keyed = ledger::Keyed::Resolve {
        action: Action::Settle,
        hold,
        amount: Amount::new(60),
        at_ms: bench.now_ms,
        origin: NOTICE,
        reply: 0,
        key: 5,
        answer: Box::default(),
    };
    assert_eq!(bench.step_keyed(0, keyed), Some((Verdict::Settled, true)));
    assert_eq!(spent(&bench), [10, 0, 0]);
}

#[test]
fn a_released_hold_and_a_won_one_take_the_highest_price_too() {
    let mut bench = two_levels();
    let [released, won] = [0; 2].map(|_| bench.insist(0, 2, 100).unwrap());
    bench.resolve(Action::Release, released, 0);
    bench.resolve(Action::Confirm, won, 0);
    assert_eq!(settle(&mut bench, NOTICE, released, 5), now(Verdict::SettledLate, 5));
    assert_eq!(settle(&mut bench, NOTICE, released, 8), topped_up(Verdict::SettledLate, 8));
    assert_eq!(settle(&mut bench, NOTICE, won, 20), now(Verdict::Settled, 20));
    assert_eq!(settle(&mut bench, NOTICE, won, 50), topped_up(Verdict::Settled, 50));
    assert_eq!(spent(&bench), [50, 0, 8]);
    bench.check();
}

#[test]
fn without_room_for_the_amount_a_later_price_books_nothing_and_is_counted() {
    let mut bench = Bench::with(Options { amounts_max: 1, ..options(1) }, &[spec(1, 10_000)]);
    let [one, two, three] = [0; 3].map(|_| bench.insist(0, 1, 100).unwrap());
    assert_eq!(settle(&mut bench, NOTICE, one, 10), now(Verdict::Settled, 10));
    assert_eq!(settle(&mut bench, NOTICE, two, 10), now(Verdict::Settled, 10));
    let unknown = Resolution { amount: None, ..before(Verdict::Settled, 0) };
    assert_eq!(settle(&mut bench, NOTICE, two, 60), unknown);
    assert_eq!(settle(&mut bench, ORIGIN, two, 60), unknown);
    assert_eq!(settle(&mut bench, NOTICE, one, 30), topped_up(Verdict::Settled, 30));
    assert_eq!(settle(&mut bench, NOTICE, three, 100), now(Verdict::Settled, 100));
    let counts = bench.bank.counts();
    assert_eq!((counts.amounts_full, counts.amounts_unknown, counts.topped_up), (2, 1, 1));
    assert_eq!(bench.bank.books(0).spent(), Amount::new(140));
    bench.check();
    // Places are free again once their grant is closed.
    bench.advance(700_000);
    bench.advance(700_000);
    let later = bench.insist(0, 1, 100).unwrap();
    settle(&mut bench, NOTICE, later, 10);
    assert_eq!(settle(&mut bench, NOTICE, later, 20), topped_up(Verdict::Settled, 20));
    bench.check();
}

/// A snapshot of an earlier version says nothing of amounts.
#[test]
fn of_an_older_snapshot_amounts_are_unknown_and_later_ones_are_known() {
    let mut bench = Bench::new(1, &[spec(1, 10_000)]);
    let [old, new] = [0; 2].map(|_| bench.insist(0, 1, 100).unwrap());
    settle(&mut bench, NOTICE, old, 10);
    let mut restore = Restore::new(options(1));
    bench.bank.parts(&mut |mut part| {
        if let Part::Marks { whole, amounts, .. } = &mut part {
            *whole = false;
            amounts.clear();
        }
        restore.take(part).unwrap();
    });
    let digest = bench.bank.digest();
    bench.bank = restore.finish().unwrap();
    assert_eq!(bench.bank.digest(), digest, "what is not known is no other state");
    bench.act(|bank, out| bank.start_run(bank.now_ms(), out));
    let unknown = Resolution { amount: None, ..before(Verdict::Settled, 0) };
    assert_eq!(settle(&mut bench, NOTICE, old, 60), unknown);
    assert_eq!(settle(&mut bench, NOTICE, new, 100), now(Verdict::Settled, 100));
    assert_eq!(settle(&mut bench, NOTICE, new, 120), topped_up(Verdict::SettledOver, 120));
    bench.bank.audit().unwrap();
}

#[test]
fn a_record_of_a_later_price_that_does_not_fit_is_refused() {
    let mut bench = two_levels();
    let hold = bench.insist(0, 2, 100).unwrap();
    let open = bench.insist(0, 2, 100).unwrap();
    settle(&mut bench, NOTICE, hold, 10);
    settle(&mut bench, NOTICE, hold, 30);
    let good = bench.records.pop().unwrap();
    let Record::ToppedUp { hold, verdict, amount, total, uses_rest, at_ms, origin } = good.clone()
    else {
        panic!("{good:?}")
    };
    assert_eq!((amount, total, uses_rest), (Amount::new(20), Amount::new(30), true));
    let with = |hold, verdict, [amount, total]: [i64; 2]| {
        let [amount, total] = [amount, total].map(Amount::new);
        Record::ToppedUp { hold, verdict, amount, total, uses_rest, at_ms, origin }
    };
    let of_free =
        Record::ToppedUp { hold, verdict, amount, total, uses_rest: false, at_ms, origin };
    let far = Hold { grant: 900, ..hold };
    let mut bank = crate::bench::replay(&options(1), &bench.records);
    for wrong in [
        with(open, verdict, [20, 30]),
        with(far, verdict, [20, 30]),
        of_free,
        with(hold, verdict, [91, 101]),
        with(hold, Verdict::SettledLate, [20, 30]),
        with(hold, Verdict::Released, [20, 30]),
        with(hold, verdict, [0, 10]),
        with(hold, verdict, [20, 31]),
        with(hold, verdict, [-20, 30]),
        with(hold, verdict, [20, i64::MAX]),
        with(Hold { amount: Amount::ZERO, ..hold }, verdict, [20, 30]),
    ] {
        let before = (bank.digest(), bank.amounts_digest());
        assert!(bank.replay(&wrong).is_err(), "{wrong:?}");
        assert_eq!((bank.digest(), bank.amounts_digest()), before, "{wrong:?}");
    }
    bank.replay(&good).unwrap();
    assert!(bank.replay(&good).is_err(), "once");
    assert_eq!(bank.digest(), bench.bank.digest());
}

proptest! {
    /// Whatever comes in which order, with wins and crashes between: the highest price is booked, once.
    #[test]
    fn any_order_of_notices_books_the_highest_price(
        prices in proptest::collection::vec(0..300i64, 1..8),
        order in proptest::collection::vec(any::<prop::sample::Index>(), 1..12),
        won in any::<bool>(),
        pause_ms in 0..1_500u64,
        crash_at in 0..16usize,
    ) {
        let mut bench = two_levels();
        let hold = bench.insist(0, 2, 100).unwrap();
        if won {
            bench.resolve(Action::Confirm, hold, 0);
        }
        let named: Vec<i64> = order.iter().map(|at| *at.get(&prices)).collect();
        let mut highest = 0;
        for (at, price) in named.iter().enumerate() {
            bench.advance(pause_ms);
            if at == crash_at {
                bench.crash();
            }
            highest = highest.max(*price);
            let answer = settle(&mut bench, NOTICE, hold, *price);
            prop_assert_eq!(answer.amount, Some(Amount::new(highest)));
            prop_assert_eq!(spent(&bench).iter().sum::<i64>(), highest);
        }
        bench.check();
    }

    /// What counts in a day and in a window is what is booked.
    #[test]
    fn windows_count_the_difference_once(prices in proptest::collection::vec(0..300i64, 1..8)) {
        let windows = ledger::Windows::daily(Some(Amount::new(5_000)));
        let daily = ledger::BudgetSpec { windows, ..spec(1, 10_000) };
        let mut bench = Bench::new(1, &[daily]);
        let hold = bench.insist(0, 1, 100).unwrap();
        for price in &prices {
            settle(&mut bench, NOTICE, hold, *price);
        }
        let lines = [Line::Settled, Line::OverSettled, Line::Late];
        let of_day: i64 = lines.iter().map(|line| bench.bank.day_line(0, *line).get()).sum();
        prop_assert_eq!(of_day, *prices.iter().max().unwrap());
        bench.check();
    }
}

#[test]
fn a_click_is_answered_with_what_its_hold_is() {
    let mut bench = Bench::with(Options { pages_max: 1, ..options(1) }, &[spec(1, 100_000)]);
    let hold = bench.insist(0, 1, 100).unwrap();
    let clicked = |bench: &mut Bench| {
        let Resolution { verdict, amount, judged } = bench.click(hold);
        assert_eq!(amount, None);
        (verdict, judged == Handled::Before)
    };
    assert_eq!(clicked(&mut bench), (Verdict::Granted, false));
    let far = Hold { seq: hold.seq + 256, ..hold };
    assert_eq!(bench.click(far), Resolution::refused(Verdict::Busy), "no room for its mark");
    bench.settle(hold, 50);
    assert_eq!(clicked(&mut bench), (Verdict::Settled, true));
    let gone = Hold { grant: hold.grant + 9, ..hold };
    assert_eq!(bench.click(gone), Resolution::refused(Verdict::TooOld));
}

/// What no bank records is refused: a second click, one that is counted before its bill, and bills that count none or another's.
#[test]
fn clicks_that_cannot_be_are_refused() {
    let mut bench = Bench::new(1, &[spec(1, 100_000)]);
    let hold = bench.insist(0, 1, 100).unwrap();
    bench.click(hold);
    bench.settle(hold, 50);
    let [.., click, bill] = &bench.records[..] else { panic!("two records") };
    let (click, bill) = (click.clone(), bill.clone());
    let counted = |mut record: Record| {
        match &mut record {
            Record::Clicked { billed: flag, .. } | Record::Resolved { clicked: flag, .. } => {
                *flag = !*flag;
            }
            other => panic!("{other:?}"),
        }
        record
    };
    let before = bench.records.len() - 2;
    let rows: [(&[Record], bool); 6] = [
        (&[click.clone(), bill.clone()], true),
        (&[counted(bill.clone()), counted(click.clone())], true),
        (&[click.clone(), click.clone()], false),
        (&[counted(click.clone())], false),
        (std::slice::from_ref(&bill), false),
        (&[click.clone(), counted(bill.clone())], false),
    ];
    for (records, fits) in rows {
        let mut bank = replay(&options(1), &bench.records[..before]);
        let replayed = records.iter().try_for_each(|record| bank.replay(record));
        assert_eq!(replayed.is_ok(), fits, "{records:?}: {replayed:?}");
    }
}
