//! The whole table of (what a hold is, what is asked, when): the verdict and the books.

use ledger::{Action, Door, Hold, Origin, Verdict};

use crate::bench::{BILLING_OVER_MS, Bench, Lines, NOON, child, spec};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Was {
    Open,
    Confirmed,
    Settled,
    SettledOver,
    SettledLate,
    Released,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum When {
    /// Before the first deadline.
    Early,
    /// Between the two deadlines.
    Between,
    /// After the billing deadline.
    Late,
}

/// What is asked of a hold of 100.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ask {
    Confirm,
    Settle70,
    Settle130,
    Release,
}

const NOTHING: Lines = [0; 8];

/// The verdict, whether it is a repeat, and what changes on (free, purses, held, suspended, expired,
/// settled, over_settled, late).
fn expected(was: Was, ask: Ask, when: When) -> (Verdict, bool, Lines) {
    use {Ask::*, Was::*, When::*};
    match (was, ask, when) {
        (Open, Confirm, Early) => (Verdict::Confirmed, false, [0, -100, 100, 0, 0, 0, 0, 0]),
        (Open, Settle70, Early) => (Verdict::Settled, false, [30, -100, 0, 0, 0, 70, 0, 0]),
        (Open, Settle130, Early) => (Verdict::SettledOver, false, [-30, -100, 0, 0, 0, 100, 30, 0]),
        (Open, Release, Early) => (Verdict::Released, false, [100, -100, 0, 0, 0, 0, 0, 0]),
        (Confirmed, Confirm, _) => (Verdict::Confirmed, true, NOTHING),
        (Confirmed, Settle70, Early | Between) => {
            (Verdict::Settled, false, [30, 0, -100, 0, 0, 70, 0, 0])
        }
        (Confirmed, Settle130, Early | Between) => {
            (Verdict::SettledOver, false, [-30, 0, -100, 0, 0, 100, 30, 0])
        }
        (Confirmed, Release, Early | Between) => {
            (Verdict::Released, false, [100, 0, -100, 0, 0, 0, 0, 0])
        }
        (Open | Confirmed, Confirm | Release, _) => (Verdict::Expired, false, NOTHING),
        (Open | Confirmed | Released, Settle70, _) => {
            (Verdict::SettledLate, false, [-70, 0, 0, 0, 0, 0, 0, 70])
        }
        (Open | Confirmed | Released, Settle130, _) => {
            (Verdict::SettledLate, false, [-130, 0, 0, 0, 0, 0, 0, 130])
        }
        (Settled, Settle70 | Settle130, _) => (Verdict::Settled, true, NOTHING),
        (SettledOver, Settle70 | Settle130, _) => (Verdict::SettledOver, true, NOTHING),
        (SettledLate, Settle70 | Settle130, _) => (Verdict::SettledLate, true, NOTHING),
        (Settled | SettledOver | SettledLate, Confirm | Release, _) => {
            (Verdict::AlreadySettled, false, NOTHING)
        }
        (Released, Confirm, _) => (Verdict::AlreadyReleased, false, NOTHING),
        (Released, Release, _) => (Verdict::Released, true, NOTHING),
    }
}

fn bring(bench: &mut Bench, was: Was) -> Hold {
    let hold = bench.reserve(0, 2, 100).unwrap();
    let steps: &[(Action, i64)] = match was {
        Was::Open => &[],
        Was::Confirmed => &[(Action::Confirm, 0)],
        Was::Settled => &[(Action::Settle, 40)],
        Was::SettledOver => &[(Action::Settle, 101)],
        Was::SettledLate => &[(Action::Release, 0), (Action::Settle, 40)],
        Was::Released => &[(Action::Release, 0)],
    };
    for (action, amount) in steps {
        bench.resolve(*action, hold, *amount);
    }
    hold
}

fn cell(was: Was, ask: Ask, when: When, swept: bool) {
    let mut bench = Bench::new(1, &[spec(1, 2_000_000), child(2, 1_000_000, 1)]);
    let hold = bring(&mut bench, was);
    let at_ms = match when {
        When::Early => hold.deadline_ms - 1,
        When::Between => hold.deadline_ms,
        When::Late => NOON + BILLING_OVER_MS,
    };
    if swept {
        bench.advance(at_ms - NOON);
    }
    let (action, amount) = match ask {
        Ask::Confirm => (Action::Confirm, 0),
        Ask::Settle70 => (Action::Settle, 70),
        Ask::Settle130 => (Action::Settle, 130),
        Ask::Release => (Action::Release, 0),
    };
    let before = [1, 2].map(|id| bench.lines(id));
    let (verdict, repeat) = bench.resolve_at(0, action, hold, amount, at_ms);
    let (want_verdict, want_repeat, change) = expected(was, ask, when);
    let name = format!("{was:?} {ask:?} {when:?}, swept {swept}");
    assert_eq!((verdict, repeat), (want_verdict, want_repeat), "{name}");
    for (id, before) in [1, 2].into_iter().zip(before) {
        let changed: Vec<i64> = bench.lines(id).iter().zip(before).map(|(a, b)| a - b).collect();
        assert_eq!(changed, change, "{name}, budget {id}");
    }
    bench.check();
    let again = bench.resolve_at(0, action, hold, amount, at_ms + 1);
    assert_eq!(again.0, verdict, "{name}: asked once more");
    bench.now_ms = at_ms;
    bench.advance(BILLING_OVER_MS);
    bench.check();
    assert_eq!(bench.lines(2)[2], 0, "{name}: nothing stays held");
}

/// A deadline is judged by the stamp: every cell gives the same whether or not the sweeps ran before.
#[test]
fn every_cell_of_the_table() {
    use {Ask::*, Was::*, When::*};
    for was in [Open, Confirmed, Settled, SettledOver, SettledLate, Released] {
        for ask in [Confirm, Settle70, Settle130, Release] {
            for when in [Early, Between, Late] {
                cell(was, ask, when, false);
                cell(was, ask, when, true);
            }
        }
    }
}

/// Notices pass through strangers, so theirs is the same table but for one cell: they take back nothing that was won.
#[test]
fn a_notice_releases_what_is_unconfirmed_only() {
    use {Ask::*, Was::*, When::*};
    let origin = Origin { door: Door::Openrtb, request_id: 1 };
    for was in [Open, Confirmed, Settled, SettledOver, SettledLate, Released] {
        for (when, swept) in
            [Early, Between, Late].into_iter().flat_map(|w| [(w, false), (w, true)])
        {
            let mut bench = Bench::new(1, &[spec(1, 2_000_000), child(2, 1_000_000, 1)]);
            let hold = bring(&mut bench, was);
            let at_ms = match when {
                Early => hold.deadline_ms - 1,
                Between => hold.deadline_ms,
                Late => NOON + BILLING_OVER_MS,
            };
            if swept {
                bench.advance(at_ms - NOON);
            }
            let before = bench.lines(2);
            let (verdict, repeat) = bench.resolve_from(origin, 0, Action::Release, hold, 0, at_ms);
            let (want, want_repeat, change) = match was {
                Confirmed => (Verdict::Confirmed, false, NOTHING),
                _ => expected(was, Release, when),
            };
            let name = format!("{was:?} {when:?}, swept {swept}");
            assert_eq!((verdict, repeat), (want, want_repeat), "{name}");
            let changed: Vec<i64> = bench.lines(2).iter().zip(before).map(|(a, b)| a - b).collect();
            assert_eq!(changed, change, "{name}");
            bench.check();
            // What was won can still be billed.
            if (was, when) == (Confirmed, Between) {
                assert_eq!(
                    bench.resolve_at(0, Action::Settle, hold, 70, at_ms),
                    (Verdict::Settled, false)
                );
            }
        }
    }
}

#[test]
fn a_hold_ends_exactly_at_its_deadline() {
    for (before_ms, verdict) in [(1, Verdict::Settled), (0, Verdict::SettledLate)] {
        let mut bench = Bench::new(1, &[spec(1, 1_000_000)]);
        let hold = bench.reserve(0, 1, 100).unwrap();
        let at_ms = hold.deadline_ms - before_ms;
        assert_eq!(bench.resolve_at(0, Action::Settle, hold, 100, at_ms), (verdict, false));
    }
}

#[test]
fn settling_nothing_frees_all() {
    let mut bench = Bench::new(1, &[spec(1, 1_000_000)]);
    let hold = bench.reserve(0, 1, 100).unwrap();
    assert_eq!(bench.settle(hold, 0), Verdict::Settled);
    assert_eq!(bench.lines(1)[5], 0);
    bench.advance(BILLING_OVER_MS);
    assert_eq!(bench.bank.books(0).spent().get(), 0);
    bench.check();
}

#[test]
fn amounts_out_of_range_change_nothing() {
    let mut bench = Bench::new(1, &[spec(1, 1_000_000)]);
    let hold = bench.reserve(0, 1, 100).unwrap();
    let before = bench.lines(1);
    for amount in [-1, i64::MIN, money::ASK_MAX.get() + 1, i64::MAX] {
        assert_eq!(bench.settle(hold, amount), Verdict::BadAmount, "{amount}");
    }
    for amount in [0, -1, i64::MIN, money::ASK_MAX.get() + 1, i64::MAX] {
        assert_eq!(bench.reserve(0, 1, amount), Err(Verdict::BadAmount), "{amount}");
    }
    assert_eq!(bench.lines(1), before);
    assert_eq!(bench.settle(hold, 100), Verdict::Settled);
}

/// Another worker than the one that made the hold may hear of its end.
#[test]
fn any_worker_can_resolve() {
    let mut bench = Bench::new(3, &[spec(1, 1_000_000)]);
    let hold = bench.reserve(1, 1, 100).unwrap();
    let at_ms = bench.now_ms;
    let confirmed = bench.resolve_at(2, Action::Confirm, hold, 0, at_ms);
    assert_eq!(confirmed, (Verdict::Confirmed, false));
    let settled = bench.resolve_at(0, Action::Settle, hold, 100, at_ms);
    assert_eq!(settled, (Verdict::Settled, false));
    let repeated = bench.resolve_at(1, Action::Settle, hold, 55, at_ms);
    assert_eq!(repeated, (Verdict::Settled, true));
    bench.advance(1_000);
    bench.check();
}
