//! Memos of doors: judged once, recorded with their money or not at all, and there again after any crash.

use ledger::memo::{MEMO_BYTES_MAX, MEMOS_MAX};
use ledger::{
    Action, Amount, Bank, Door, DoorMemos, Hold, KeptWith, Keyed, Line, Memo, MemoAnswer,
    MemoJudgement, MemoMoney, MemoRefusal, MemoRequest, Options, Out, Part, Record, ReplayError,
    Restore, RestoreError, Verdict,
};

use crate::bench::{Bench, ORIGIN, options, replay, spec};

const KEY: u128 = 0xF1;
const DOOR: Door = Door::Fix;

/// The first bytes of a key stand for good, but for the word that rises; a forbidden one is refused.
fn judge(memos: &DoorMemos<'_>, memo: &Memo) -> MemoJudgement {
    match memos.get(memo.key) {
        _ if &*memo.bytes == b"forbidden" => MemoJudgement::Refused(Verdict::Paused),
        None => MemoJudgement::New,
        Some(_) if memo.bytes.is_empty() || memo.bytes.starts_with(b"next") => MemoJudgement::New,
        Some(first) => MemoJudgement::Known(first.into()),
    }
}

fn judged() -> Options {
    Options { memo_judges: vec![(DOOR, judge)], ..options(2) }
}

fn bench() -> Bench {
    Bench::with(judged(), &[spec(1, 1_000_000)])
}

fn memo(key: u128, bytes: &[u8]) -> Memo {
    Memo { door: DOOR, key, bytes: bytes.into() }
}

fn ask(bench: &mut Bench, worker: u16, memo: Memo, money: MemoMoney) -> MemoAnswer {
    let request = MemoRequest { memo, money, at_ms: bench.now_ms, reply: 7 };
    bench.step_keyed(worker, Keyed::Memo(Box::new(request)));
    let (of, reply, answer) = bench.memos.pop().expect("every memo is answered");
    assert_eq!((of, reply, bench.memos.len()), (worker, 7, 0));
    answer
}

fn alone(bench: &mut Bench, key: u128, bytes: &[u8]) -> MemoAnswer {
    ask(bench, 0, memo(key, bytes), MemoMoney::Without)
}

fn made(hold: Hold) -> MemoMoney {
    MemoMoney::Made { hold, origin: ORIGIN }
}

fn settle(hold: Hold, amount: i64) -> MemoMoney {
    let amount = Amount::new(amount);
    MemoMoney::Resolve { action: Action::Settle, hold, amount, origin: ORIGIN }
}

fn new(verdict: Option<Verdict>) -> MemoAnswer {
    MemoAnswer::New { verdict }
}

fn known(answer: &[u8]) -> MemoAnswer {
    MemoAnswer::Known { answer: answer.into() }
}

/// What is kept of the door, by key.
fn kept(bank: &Bank) -> Vec<(u128, Vec<u8>)> {
    bank.memos(DOOR).iter().map(|(key, bytes, _)| (key, bytes.to_vec())).collect()
}

fn parts(bank: &Bank) -> Vec<Part> {
    let mut parts = Vec::new();
    bank.parts(&mut |part| parts.push(part));
    parts
}

fn restored(parts: Vec<Part>) -> Result<Bank, RestoreError> {
    // A replay needs no judge.
    let mut restore = Restore::new(options(2));
    parts.into_iter().try_for_each(|part| restore.take(part))?;
    restore.finish()
}

#[test]
fn the_first_is_recorded_and_every_other_worker_hears_of_it() {
    let mut bench = bench();
    let before = bench.records.len();
    assert_eq!(alone(&mut bench, KEY, b"first"), new(None));
    assert_eq!(bench.records.len(), before + 1);
    for worker in [0, 1] {
        let again = ask(&mut bench, worker, memo(KEY, b"second"), MemoMoney::Without);
        assert_eq!(again, known(b"first"));
    }
    assert_eq!(bench.records.len(), before + 1, "nothing else was recorded");
    assert_eq!(alone(&mut bench, KEY + 1, b"other"), new(None), "another key");
    let counts = bench.bank.counts();
    assert_eq!((counts.memos, counts.memos_known), (2, 2));
    bench.check();
}

#[test]
fn a_later_one_takes_the_place_and_an_empty_one_removes_it() {
    let mut bench = bench();
    alone(&mut bench, KEY, b"first");
    alone(&mut bench, KEY + 1, b"other");
    assert_eq!(alone(&mut bench, KEY, b"next 2"), new(None));
    assert_eq!(kept(&bench.bank), [(KEY, b"next 2".to_vec()), (KEY + 1, b"other".to_vec())]);
    assert_eq!(alone(&mut bench, KEY, b""), new(None));
    assert_eq!(kept(&bench.bank), [(KEY + 1, b"other".to_vec())]);
    assert_eq!(alone(&mut bench, KEY, b"anew"), new(None));
    bench.check();
}

#[test]
fn what_is_too_long_or_of_no_judge_or_forbidden_leaves_no_record() {
    let mut bench = bench();
    let before = bench.records.len();
    let long = [b'x'; MEMO_BYTES_MAX + 1];
    let too_long = MemoRefusal::TooLong { bytes: MEMO_BYTES_MAX + 1 };
    assert_eq!(alone(&mut bench, KEY, &long), MemoAnswer::Refused(too_long));
    assert!(too_long.to_string().contains("257 bytes; at most 256"), "{too_long}");
    let other = Memo { door: Door::Spend, ..memo(KEY, b"first") };
    let answer = ask(&mut bench, 0, other, MemoMoney::Without);
    assert_eq!(answer, MemoAnswer::Refused(MemoRefusal::NoJudge(Door::Spend)));
    let answer = alone(&mut bench, KEY, b"forbidden");
    assert_eq!(answer, MemoAnswer::Refused(MemoRefusal::Judged(Verdict::Paused)));
    assert_eq!((bench.records.len(), bench.bank.memos(DOOR).len()), (before, 0));
    assert_eq!(bench.bank.counts().memos_refused, 3);
    assert_eq!(alone(&mut bench, KEY, &long[1..]), new(None));
    bench.check();
}

#[test]
fn the_hold_of_a_known_or_refused_one_is_given_back_and_of_a_new_one_stays() {
    let mut bench = bench();
    let first = bench.insist(0, 1, 100).unwrap();
    assert_eq!(ask(&mut bench, 0, memo(KEY, b"order"), made(first)), new(Some(Verdict::Granted)));
    let Some(Record::Resolved { hold, verdict, kept: Some(with), .. }) = bench.records.last()
    else {
        panic!("{:?}", bench.records.last())
    };
    assert_eq!(
        (*hold, *verdict, &**with),
        (first, Verdict::Granted, &KeptWith::Memo(memo(KEY, b"order")))
    );
    // The same order over another worker, and one that its door refuses.
    for (bytes, answer) in [
        (&b"order"[..], known(b"order")),
        (b"forbidden", MemoAnswer::Refused(MemoRefusal::Judged(Verdict::Paused))),
    ] {
        let hold = bench.insist(1, 1, 70).unwrap();
        assert_eq!(ask(&mut bench, 1, memo(KEY, bytes), made(hold)), answer);
        let released = bench.resolve_at(1, Action::Release, hold, 0, bench.now_ms);
        assert_eq!(released, (Verdict::Released, true), "it was given back before");
    }
    assert_eq!(bench.settle(first, 60), Verdict::Settled);
    assert_eq!(bench.line(1, Line::Settled), 60);
    bench.check();
}

#[test]
fn money_and_memo_are_one_record_or_neither_is_there() {
    let mut bench = bench();
    let hold = bench.insist(0, 1, 100).unwrap();
    let before = bench.records.len();
    let answer = ask(&mut bench, 0, memo(KEY, b"report"), settle(hold, 70));
    assert_eq!(answer, new(Some(Verdict::Settled)));
    let with = |record: &Record| matches!(record, Record::Resolved { kept: Some(_), .. });
    let at = before + bench.records[before..].iter().position(with).expect("it is recorded");
    for (sealed, memos, settled) in [(at, 0, 0), (at + 1, 1, 70)] {
        let bank = replay(&options(2), &bench.records[..sealed]);
        assert_eq!(bank.memos(DOOR).len(), memos);
        assert_eq!(bank.books(0).line(Line::Settled).get(), settled);
    }
    // A repeat of the money books nothing, so another memo of it is not recorded either.
    let again = ask(&mut bench, 1, memo(KEY + 1, b"report"), settle(hold, 70));
    assert_eq!(again, MemoAnswer::NotBooked { verdict: Verdict::Settled, repeat: true });
    let answer = ask(&mut bench, 1, memo(KEY, b"report"), settle(hold, 70));
    assert_eq!(answer, known(b"report"));
    assert_eq!(kept(&bench.bank), [(KEY, b"report".to_vec())]);
    assert_eq!(bench.line(1, Line::Settled), 70);
    bench.check();
}

#[test]
fn a_hold_that_is_gone_takes_no_memo() {
    let mut bench = bench();
    let settled = bench.insist(0, 1, 100).unwrap();
    bench.settle(settled, 70);
    let released = bench.insist(0, 1, 100).unwrap();
    bench.resolve(Action::Release, released, 0);
    let unknown = Hold { grant: 1 << 20, ..settled };
    for (hold, verdict) in [
        (settled, Verdict::AlreadySettled),
        (released, Verdict::AlreadyReleased),
        (unknown, Verdict::TooOld),
    ] {
        let answer = ask(&mut bench, 0, memo(KEY, b"order"), made(hold));
        assert_eq!(answer, MemoAnswer::NotBooked { verdict, repeat: false });
    }
    assert!(bench.bank.memos(DOOR).is_empty());
    bench.check();
}

#[test]
fn memos_outlive_a_crash_as_far_as_they_were_sealed() {
    let mut bench = bench();
    alone(&mut bench, KEY, b"first");
    let sealed = bench.records.len();
    alone(&mut bench, KEY, b"next");
    bench.crash_with(judged(), sealed);
    assert_eq!(kept(&bench.bank), [(KEY, b"first".to_vec())]);
    assert_eq!(alone(&mut bench, KEY, b"second"), known(b"first"));
    alone(&mut bench, KEY, b"next");
    // A node that has no judge for the door keeps what it has.
    let all = bench.records.len();
    bench.crash_with(options(2), all);
    assert_eq!(kept(&bench.bank), [(KEY, b"next".to_vec())]);
    bench.check();
}

#[test]
fn a_snapshot_has_them_and_refuses_those_that_cannot_be() {
    let mut bench = bench();
    for key in 0..3 {
        alone(&mut bench, key, &[7; 3]);
    }
    let whole = parts(&bench.bank);
    let bank = restored(whole.clone()).unwrap();
    assert_eq!((bank.digest(), kept(&bank)), (bench.bank.digest(), kept(&bench.bank)));
    let at = whole.iter().position(|part| matches!(part, Part::Memo { .. })).unwrap();
    let with = |bytes: &[u8], at_ms| Part::Memo { memo: memo(0, bytes), at_ms };
    for strange in [with(&[], 1), with(&[7; MEMO_BYTES_MAX + 1], 1), with(&[7; 3], u64::MAX)] {
        let mut parts = whole.clone();
        parts[at] = strange;
        assert!(matches!(restored(parts), Err(RestoreError::Memo(_))));
    }
    let (mut twice, mut swapped, mut lost, mut early) =
        (whole.clone(), whole.clone(), whole.clone(), whole.clone());
    twice.insert(at, whole[at].clone());
    swapped.swap(at, at + 1);
    lost.remove(at);
    early.swap(1, at);
    assert!(matches!(restored(twice), Err(RestoreError::Memo(_))));
    assert!(matches!(restored(swapped), Err(RestoreError::Memo(_))));
    assert!(matches!(restored(lost), Err(RestoreError::Count { .. })));
    assert!(matches!(restored(early), Err(RestoreError::Order { .. })));
    let mut changed = whole;
    let Part::Memo { memo, .. } = &mut changed[at] else { unreachable!("found above") };
    memo.bytes[0] ^= 1;
    assert!(matches!(restored(changed), Err(RestoreError::Digest { .. })));
}

#[test]
fn a_record_that_is_too_long_is_no_record() {
    let bench = bench();
    let mut bank = replay(&options(2), &bench.records);
    let before = bank.digest();
    let long = memo(KEY, &[b'x'; MEMO_BYTES_MAX + 1]);
    let record = Record::Memo { memo: Box::new(long), at_ms: bench.now_ms };
    let bytes = MEMO_BYTES_MAX + 1;
    assert_eq!(bank.replay(&record), Err(ReplayError::Memo { key: KEY, bytes }));
    let late = Record::Memo { memo: Box::new(memo(KEY, b"x")), at_ms: u64::MAX };
    assert_eq!(bank.replay(&late), Err(ReplayError::Instant(u64::MAX)));
    assert_eq!(bank.digest(), before);
}

#[test]
fn a_door_that_has_the_most_gets_no_further_key() {
    let mut bench = bench();
    let mut out = Out::default();
    let max = u128::try_from(MEMOS_MAX).unwrap();
    for key in 0..max {
        let request = MemoRequest {
            memo: memo(key, b"x"),
            money: MemoMoney::Without,
            at_ms: bench.now_ms,
            reply: 7,
        };
        bench.bank.step_keyed(0, Keyed::Memo(Box::new(request)), &mut out);
    }
    bench.records.append(&mut out.records);
    assert_eq!(alone(&mut bench, max, b"x"), MemoAnswer::Refused(MemoRefusal::Full(DOOR)));
    assert_eq!(bench.bank.counts().memos_full, 1);
    assert_eq!(alone(&mut bench, 3, b"next"), new(None), "a key that is there");
    assert_eq!(alone(&mut bench, 3, b""), new(None));
    assert_eq!(alone(&mut bench, max, b"x"), new(None), "there is a place again");
    assert_eq!(bench.bank.memos(DOOR).len(), MEMOS_MAX);
    bench.check();
}
