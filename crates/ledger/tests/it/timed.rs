//! Named holds that end by time: judged by stamps, one settle for all budgets, ended in small steps.

use ledger::{
    Action, Amount, Claimed, Handled, Hold, KeyBytes, Line, NamedError, OnExpiry, Options, Out,
    Record, Timed, TimedAnswer, TimedAsk, TimedRefusal, Verdict, timed::CHOSEN,
};

use crate::bench::{BILLING_MS, Bench, LATE_MS, child, options, spec};

/// What is done at a time after the hold was opened: the answer, and what stands for both budgets afterwards.
type Step = (u64, Do, Result<Verdict, Verdict>, [[i64; 5]; 2]);

#[derive(Clone, Copy, Debug)]
enum Do {
    Confirm,
    Settle(i64),
    Release,
    Extend(u64),
    Reconcile,
    Look,
}
use Do::*;

fn open(budgets: &[u64], amount: i64, until_ms: u64, state: Verdict) -> TimedAsk {
    let (key, amount) = (CHOSEN | 5, Amount::new(amount));
    TimedAsk::Open { key, budgets: budgets.into(), amount, until_ms, state }
}

fn the_hold() -> Hold {
    Hold::of_key(1, CHOSEN | 5)
}

impl Bench {
    /// Held, expired, settled, over, late.
    fn stood(&self, id: u64) -> [i64; 5] {
        [Line::Held, Line::Expired, Line::Settled, Line::OverSettled, Line::Late]
            .map(|line| self.line(id, line))
    }

    fn act_on(&mut self, hold: Hold, what: Do) -> Result<Verdict, Verdict> {
        let resolved = |bench: &mut Bench, action, amount| {
            let verdict = bench.resolve(action, hold, amount).0;
            let yes = matches!(
                verdict,
                Verdict::Confirmed
                    | Verdict::Settled
                    | Verdict::SettledOver
                    | Verdict::SettledLate
                    | Verdict::Released
            );
            if yes { Ok(verdict) } else { Err(verdict) }
        };
        match what {
            Confirm => resolved(self, Action::Confirm, 0),
            Settle(amount) => resolved(self, Action::Settle, amount),
            Release => resolved(self, Action::Release, 0),
            Extend(ms) => {
                let until_ms = self.now_ms + ms;
                match self.timed(TimedAsk::Extend { hold, until_ms, confirms: false }) {
                    Ok(timed) => Ok(timed.verdict),
                    Err(TimedRefusal::No(why)) => Err(why),
                    Err(other) => panic!("{other:?}"),
                }
            }
            Reconcile => {
                let now_ms = self.now_ms;
                self.act(|bank, out| {
                    bank.reconcile(None, now_ms, out);
                });
                Ok(Verdict::Granted)
            }
            Look => Ok(Verdict::Granted),
        }
    }
}

/// Budget 1 gives back what expires, budget 2 keeps it.
fn two() -> Bench {
    let kept = ledger::BudgetSpec { on_expiry: OnExpiry::Hold, ..spec(2, 1_000) };
    Bench::new(1, &[spec(1, 1_000), kept])
}

const HELD: [[i64; 5]; 2] = [[100, 0, 0, 0, 0]; 2];
const GONE: [[i64; 5]; 2] = [[0; 5]; 2];
/// The first budget gives back what expires, the second keeps it.
const OVER: [[i64; 5]; 2] = [[0; 5], [0, 100, 0, 0, 0]];
const LATE: [[i64; 5]; 2] = [[0, 0, 0, 0, 40], [0, 0, 40, 0, 0]];
const LOOK: Result<Verdict, Verdict> = Ok(Verdict::Granted);

const fn settled(amount: i64) -> [[i64; 5]; 2] {
    [[0, 0, amount, 0, 0]; 2]
}

const CASES: &[(&str, Verdict, &[Step])] = &[
    (
        "settled in time, and known until its end",
        Verdict::Confirmed,
        &[
            (10, Settle(40), Ok(Verdict::Settled), settled(40)),
            (20, Settle(90), Ok(Verdict::Settled), settled(40)),
            (30, Release, Err(Verdict::AlreadySettled), settled(40)),
            (40, Extend(900), Err(Verdict::AlreadySettled), settled(40)),
            (999, Settle(40), Ok(Verdict::Settled), settled(40)),
            (1_001, Settle(40), Err(Verdict::TooOld), settled(40)),
        ],
    ),
    (
        "settled over",
        Verdict::Confirmed,
        &[(10, Settle(130), Ok(Verdict::SettledOver), [[0, 0, 100, 30, 0]; 2])],
    ),
    (
        "released, and settled late",
        Verdict::Confirmed,
        &[
            (10, Release, Ok(Verdict::Released), GONE),
            (20, Release, Ok(Verdict::Released), GONE),
            (30, Confirm, Err(Verdict::AlreadyReleased), GONE),
            (40, Extend(10), Err(Verdict::AlreadyReleased), GONE),
            (50, Settle(40), Ok(Verdict::SettledLate), [[0, 0, 0, 0, 40]; 2]),
        ],
    ),
    (
        "extended, never shortened",
        Verdict::Confirmed,
        &[
            (900, Extend(2_000), Ok(Verdict::Confirmed), HELD),
            (910, Extend(100), Ok(Verdict::Confirmed), HELD),
            (2_899, Confirm, Ok(Verdict::Confirmed), HELD),
            (2_901, Extend(1_000), Err(Verdict::Expired), OVER),
        ],
    ),
    (
        "over: what is kept is settled within, the rest is late",
        Verdict::Confirmed,
        &[
            (1_001, Look, LOOK, OVER),
            (1_002, Confirm, Err(Verdict::Expired), OVER),
            (1_003, Settle(40), Ok(Verdict::SettledLate), LATE),
            (1_003 + LATE_MS - 1, Settle(40), Ok(Verdict::SettledLate), LATE),
            (1_005 + LATE_MS, Settle(40), Err(Verdict::TooOld), LATE),
        ],
    ),
    (
        "over: released where it is kept",
        Verdict::Confirmed,
        &[
            (1_001, Release, Ok(Verdict::Released), GONE),
            (1_002, Release, Ok(Verdict::Released), GONE),
        ],
    ),
    (
        "over: kept until it is reconciled",
        Verdict::Confirmed,
        &[
            (1_001 + 3 * LATE_MS, Look, LOOK, OVER),
            (1_002 + 3 * LATE_MS, Reconcile, LOOK, GONE),
            (1_004 + 3 * LATE_MS, Settle(40), Err(Verdict::TooOld), GONE),
        ],
    ),
    (
        "never confirmed: lost, on all",
        Verdict::Granted,
        &[
            (1_001, Look, LOOK, GONE),
            (1_002, Release, Err(Verdict::Expired), GONE),
            (1_003, Settle(40), Ok(Verdict::SettledLate), [[0, 0, 0, 0, 40]; 2]),
        ],
    ),
    (
        "confirmed in time: it has the billing time",
        Verdict::Granted,
        &[
            (999, Confirm, Ok(Verdict::Confirmed), HELD),
            (999 + BILLING_MS - 1, Look, LOOK, HELD),
            (1_001 + BILLING_MS, Look, LOOK, OVER),
        ],
    ),
    (
        "extended before it is confirmed",
        Verdict::Granted,
        &[
            (999, Extend(50), Ok(Verdict::Confirmed), HELD),
            (1_048, Look, LOOK, HELD),
            (1_050, Extend(1_000), Err(Verdict::Expired), OVER),
        ],
    ),
];

#[test]
fn what_becomes_of_a_hold_of_two_budgets_follows_from_stamps() {
    for (name, state, steps) in CASES {
        let mut bench = two();
        let opened_ms = bench.now_ms;
        let opened = bench.timed(open(&[1, 2], 100, opened_ms + 1_000, *state));
        assert_eq!(opened.map(|timed| timed.verdict), Ok(*state), "{name}");
        assert_eq!([1, 2].map(|id| bench.stood(id)), HELD, "{name}");
        for (at, what, answer, stands) in *steps {
            bench.advance(opened_ms + at - bench.now_ms);
            assert_eq!(bench.act_on(the_hold(), *what), *answer, "{name}: {what:?} at {at}");
            bench.advance(0);
            assert_eq!([1, 2].map(|id| bench.stood(id)), *stands, "{name}: {what:?} at {at}");
            bench.check();
        }
        bench.crash();
        let end_ms = 4 * LATE_MS;
        bench.advance(end_ms);
        let now_ms = bench.now_ms;
        bench.act(|bank, out| {
            bank.reconcile(None, now_ms, out);
        });
        bench.advance(end_ms);
        assert_eq!(bench.bank.named_len(), 0, "{name}: all is forgotten in the end");
        assert_eq!([1, 2].map(|id| bench.stood(id)[..2].to_vec()), [[0, 0]; 2], "{name}");
        bench.check();
    }
}

/// A stamp before the end counts although another worker's clock has passed it, and a late one is late before the sweep has come.
#[test]
fn no_answer_depends_on_how_far_the_sweep_is() {
    for (at_ms, verdict) in [(999, Verdict::Settled), (1_000, Verdict::SettledLate)] {
        let mut bench = Bench::new(2, &[spec(1, 1_000)]);
        let opened_ms = bench.now_ms;
        bench.timed(open(&[1], 100, opened_ms + 1_000, Verdict::Confirmed)).unwrap();
        // The second worker is far ahead, and the bank's clock with it.
        bench.act(|bank, out| bank.tick(opened_ms + 5_000, out));
        bench.step(1, ledger::ToBank::Tick { now_ms: opened_ms + 5_000 });
        let answer = bench.resolve_at(0, Action::Settle, the_hold(), 40, opened_ms + at_ms);
        assert_eq!(answer, (verdict, false), "{at_ms}");
        let again = bench.resolve_at(0, Action::Settle, the_hold(), 50, opened_ms + 2_000);
        assert_eq!(again, (verdict, at_ms == 1_000 || again.1), "{at_ms}");
        bench.check();
    }
}

#[test]
fn asks_that_cannot_be_are_refused_and_a_refusal_names_the_leg() {
    let mut all = vec![spec(1, 10_000), child(2, 300, 1), child(3, 300, 1), spec(4, 50)];
    all.push(ledger::BudgetSpec { unit: money::Unit::Count, ..spec(5, 10_000) });
    let day = ledger::Windows::daily(Some(Amount::new(120)));
    all.push(ledger::BudgetSpec { windows: day, ..spec(6, 10_000) });
    let leg =
        |leg, why, left| Err(TimedRefusal::Leg { leg, why, left: Amount::new(left), window: None });
    let cases: [(&[u64], i64, TimedAnswer); 9] = [
        (&[2, 2], 1, Err(NamedError::Twice(2).into())),
        (&[1, 2], 1, Err(NamedError::Above(1).into())),
        (&[3, 1], 1, Err(NamedError::Above(1).into())),
        (&[2, 5], 1, Err(NamedError::Units(5).into())),
        (&[2, 9], 1, Err(NamedError::Unknown(9).into())),
        (&[], 1, Err(NamedError::Legs(0).into())),
        (&[2, 3], 0, Err(TimedRefusal::No(Verdict::BadAmount))),
        (&[2, 4], 51, leg(1, Verdict::Exhausted, 50)),
        (&[2, 3], 301, leg(0, Verdict::Exhausted, 300)),
    ];
    for (budgets, amount, expected) in cases {
        let mut bench = Bench::new(1, &all);
        bench.spend_purses();
        let before = bench.records.len();
        let ask = open(budgets, amount, bench.now_ms + 1_000, Verdict::Confirmed);
        assert_eq!(bench.timed(ask), expected, "{budgets:?}");
        assert_eq!(bench.records.len(), before, "{budgets:?}");
    }
    let mut bench = Bench::new(1, &all);
    bench.spend_purses();
    // Beyond the whole day: final. Within it, but used: until the day ends.
    for (amount, is_final) in [(121, true), (100, false)] {
        if !is_final {
            bench.timed(open(&[6], 30, bench.now_ms + 9_000, Verdict::Settled)).unwrap();
        }
        let refused = bench.timed(open(&[2, 6], amount, bench.now_ms + 1_000, Verdict::Confirmed));
        let Err(TimedRefusal::Leg { leg: 1, why: Verdict::DayExhausted, window, .. }) = refused
        else {
            panic!("{refused:?}")
        };
        let day_ends = bench.bank.day(bench.bank.slot(6).unwrap()).0.end.ms();
        assert_eq!(window.unwrap().retry_at_ms, (!is_final).then_some(day_ends));
    }
    // Siblings count twice in their parent.
    bench.timed(open(&[2, 3], 100, bench.now_ms + 1_000, Verdict::Settled)).unwrap();
    assert_eq!([1, 2, 3].map(|id| bench.line(id, Line::Settled)), [200, 100, 100]);
    bench.check();
}

impl Bench {
    /// All that lies in purses comes back.
    fn spend_purses(&mut self) {
        let ids: Vec<u64> = self.bank.slots_from(0).map(|(id, _)| id).collect();
        for id in ids {
            let most = self.bank.available(self.bank.slot(id).unwrap()).get();
            let most = most + self.line(id, Line::Purses);
            let _ = self.timed(open(&[id], most, self.now_ms + 1, Verdict::Granted));
            self.advance(1);
            self.advance(LATE_MS + 2);
        }
    }
}

#[test]
fn a_hold_of_a_grant_that_is_extended_is_one_that_ends_by_time() {
    for confirmed in [false, true] {
        let mut bench = Bench::new(1, &[spec(1, 1_000)]);
        let hold = bench.insist(0, 1, 100).unwrap();
        if confirmed {
            assert_eq!(bench.resolve(Action::Confirm, hold, 0).0, Verdict::Confirmed);
            let until_ms = bench.now_ms + 1;
            let same = bench.timed(TimedAsk::Extend { hold, until_ms, confirms: false }).unwrap();
            assert_eq!(same.judged, Handled::Before, "it lives longer already");
            assert_eq!(bench.bank.named_len(), 0);
            bench.advance(BILLING_MS - 100);
        }
        let until_ms = bench.now_ms + 5_000;
        let ask = TimedAsk::Extend { hold, until_ms, confirms: false };
        let extended = Timed { verdict: Verdict::Confirmed, until_ms, judged: Handled::Now };
        assert_eq!(bench.timed(ask), Ok(extended));
        assert_eq!(bench.stood(1), [100, 0, 0, 0, 0]);
        bench.crash();
        assert_eq!(bench.resolve(Action::Confirm, hold, 0), (Verdict::Confirmed, true));
        bench.advance(4_000);
        assert_eq!(bench.stood(1), [100, 0, 0, 0, 0], "it outlives its grant's deadlines");
        assert_eq!(bench.resolve(Action::Settle, hold, 30), (Verdict::Settled, false));
        assert_eq!(bench.resolve(Action::Settle, hold, 30), (Verdict::Settled, true));
        assert_eq!(bench.stood(1), [0, 0, 30, 0, 0]);
        bench.check();
        bench.advance(2_000);
        assert_eq!(bench.resolve(Action::Settle, hold, 30).0, Verdict::TooOld);
        bench.advance(10 * LATE_MS);
        assert_eq!((bench.bank.named_len(), bench.line(1, Line::Held)), (0, 0));
        bench.check();
    }
}

#[test]
fn an_answer_under_a_key_is_kept_with_what_it_booked_and_with_the_end() {
    let mut bench = Bench::new(1, &[spec(1, 1_000)]);
    bench.act(|bank, out| bank.add_answer_secret(KeyBytes([7; 16]), out));
    let until_ms = bench.now_ms + 1_000;
    let keyed = |bench: &mut Bench, key, ask| {
        assert_eq!(bench.claim(0, key, 1), Some(Claimed::New));
        let (now_ms, answer) = (bench.now_ms, Some((key, b"x"[..].into())));
        bench.timed_at(now_ms, ask, answer).unwrap()
    };
    keyed(&mut bench, 1, open(&[1], 100, until_ms, Verdict::Confirmed));
    let later_ms = until_ms + 1_000;
    let ask = TimedAsk::Extend { hold: the_hold(), until_ms: later_ms, confirms: false };
    keyed(&mut bench, 2, ask.clone());
    bench.crash();
    let with_end = [b"x", &later_ms.to_le_bytes()[..]].concat();
    for (key, answer) in [(1, b"x".to_vec()), (2, with_end)] {
        let claimed = bench.claim(0, key, 1);
        let Some(Claimed::Answer { answer: kept, .. }) = claimed else { panic!("{claimed:?}") };
        assert_eq!(&*kept, answer);
    }
    // What changes nothing is kept by itself.
    assert_eq!(bench.claim(0, 3, 1), Some(Claimed::New));
    let (now_ms, key) = (bench.now_ms, Some((3, b"y"[..].into())));
    assert_eq!(bench.timed_at(now_ms, ask, key).unwrap().judged, Handled::Before);
    assert_eq!(bench.bank.claims(), 1);
    let (hold, origin) = (the_hold(), crate::bench::ORIGIN);
    let (at_ms, answer) = (bench.now_ms, b"y"[..].into());
    let keep = ledger::Keyed::Keep { hold, at_ms, origin, reply: 7, key: 3, answer };
    assert_eq!(bench.step_keyed(0, keep), Some((Verdict::Granted, false)));
    assert_eq!(bench.bank.claims(), 0);
    bench.check();
}

/// Where there is no room, what is settled or released makes it: nothing else does.
#[test]
fn settled_rows_make_room_for_others() {
    let options = Options { named_max: 3, ..options(1) };
    let mut bench = Bench::with(options, &[spec(1, 100_000)]);
    let until_ms = bench.now_ms + 60_000;
    let ask = |bench: &mut Bench, key: u128| {
        let (key, amount, state) = (CHOSEN | key, Amount::new(10), Verdict::Confirmed);
        let budgets = [1].into();
        bench
            .timed(TimedAsk::Open { key, budgets, amount, until_ms, state })
            .map(|timed| timed.verdict)
    };
    let hold = |key: u128| Hold::of_key(1, CHOSEN | key);
    for key in 1..=3 {
        assert_eq!(ask(&mut bench, key), Ok(Verdict::Confirmed));
    }
    assert_eq!(ask(&mut bench, 4), Err(TimedRefusal::No(Verdict::Busy)), "all are open");
    assert_eq!(bench.act_on(hold(2), Settle(7)), Ok(Verdict::Settled));
    assert_eq!(bench.act_on(hold(2), Settle(7)), Ok(Verdict::Settled), "known while there is room");
    assert_eq!(ask(&mut bench, 4), Ok(Verdict::Confirmed));
    assert_eq!(bench.act_on(hold(2), Settle(7)), Err(Verdict::TooOld), "it made room");
    assert_eq!(bench.act_on(hold(3), Release), Ok(Verdict::Released));
    assert_eq!(ask(&mut bench, 5), Ok(Verdict::Confirmed));
    assert_eq!(ask(&mut bench, 6), Err(TimedRefusal::No(Verdict::Busy)));
    assert_eq!((bench.line(1, Line::Settled), bench.line(1, Line::Held)), (7, 30));
    bench.check();
}

/// However many end at once, a turn ends few of them; all end.
#[test]
fn many_ends_at_once_are_spread_over_turns() {
    let rows: u128 = 1_000;
    let mut bench = Bench::with(Options { late_ms: 0, ..options(1) }, &[spec(1, 100_000)]);
    let until_ms = bench.now_ms + 1_000;
    for key in 0..rows {
        let (key, amount) = (CHOSEN | key, Amount::new(1));
        let state = Verdict::Confirmed;
        let ask = TimedAsk::Open { key, budgets: [1].into(), amount, until_ms, state };
        bench.timed(ask).unwrap();
    }
    let (mut most, mut turns) = (0, 0);
    while bench.bank.named_len() > 0 {
        let mut out = Out::default();
        bench.bank.step(0, ledger::ToBank::Tick { now_ms: until_ms }, &mut out);
        let ended =
            |record: &&Record| matches!(record, Record::Timed(_) | Record::NamedEnded { .. });
        most = most.max(out.records.iter().filter(ended).count());
        bench.records.append(&mut out.records);
        turns += 1;
    }
    assert!(most <= 128 && turns >= 2 * 1_000 / 128, "{most} in a turn, {turns} turns");
    assert_eq!(bench.line(1, Line::Held), 0);
    bench.check();
}
