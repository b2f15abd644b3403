//! Requests with keys of idempotency: one of all who come with a key does it, all get the first answer, for an hour and through crashes.

use std::collections::BTreeMap;

use ledger::keyed::{ANSWER_BYTES_MAX, ANSWER_KEPT_MS_MIN, CLAIM_WAITERS_MAX, CLAIMS_MAX};
use ledger::{
    Action, Bank, Claimed, Hold, KeptWith, KeyBytes, Keyed, Options, Record, ReplayError, Verdict,
};
use proptest::prelude::*;

use crate::bench::{Bench, options, replay, spec};

const KEY: u128 = 0xA11CE;
const DIGEST: u128 = 0xD1;
/// How long answers are kept where nothing else is said.
const KEPT_MS: u64 = 3_600_000;

fn bench() -> Bench {
    let mut bench = Bench::new(2, &[spec(1, 1_000_000)]);
    bench.act(|bank, out| bank.add_answer_secret(KeyBytes([7; 16]), out));
    bench
}

fn answer(verdict: Verdict, answer: &[u8]) -> Option<Claimed> {
    Some(Claimed::Answer { verdict, answer: answer.into() })
}

/// Reserves and settles under a key whose claim the worker has.
fn spend(bench: &mut Bench, worker: u16, key: u128, text: &[u8]) -> Hold {
    let hold = bench.insist(usize::from(worker), 1, 100).unwrap();
    let done = bench.resolve_keyed(worker, (Action::Settle, hold, 70), key, text);
    assert_eq!(done, (Verdict::Settled, false));
    hold
}

#[test]
fn a_repeat_gets_the_first_answer_on_any_worker() {
    let mut bench = bench();
    assert_eq!(bench.claim(0, KEY, DIGEST), Some(Claimed::New));
    spend(&mut bench, 0, KEY, b"first");
    for worker in [0, 1] {
        assert_eq!(bench.claim(worker, KEY, DIGEST), answer(Verdict::Settled, b"first"));
        assert_eq!(bench.claim(worker, KEY, DIGEST + 1), Some(Claimed::Conflict));
    }
    assert_eq!(bench.claim(1, KEY + 1, DIGEST), Some(Claimed::New), "another key");
    assert_eq!(bench.line(1, ledger::Line::Settled), 70);
    bench.check();
}

#[test]
fn the_answer_outlives_a_crash_and_is_in_the_record_of_the_money() {
    let mut bench = bench();
    assert_eq!(bench.claim(0, KEY, DIGEST), Some(Claimed::New));
    let before = bench.records.len();
    spend(&mut bench, 0, KEY, b"first");
    let kept = |record: &&Record| matches!(record, Record::Resolved { kept: Some(_), .. });
    assert_eq!(bench.records[before..].iter().filter(kept).count(), 1);
    let sealed = bench.records.len();
    bench.crash_with(options(2), sealed);
    assert_eq!(bench.claim(1, KEY, DIGEST), answer(Verdict::Settled, b"first"));
    assert_eq!(bench.line(1, ledger::Line::Settled), 70);
    // Had the record not been sealed, neither would the money have been booked.
    let without = bench.records.iter().position(|record| kept(&record)).unwrap();
    bench.crash_with(options(2), without);
    assert_eq!(bench.claim(1, KEY, DIGEST), Some(Claimed::New));
    assert_eq!(bench.line(1, ledger::Line::Settled), 0);
    bench.check();
}

#[test]
fn who_comes_while_the_first_is_under_way_waits_for_its_answer() {
    let mut bench = bench();
    assert_eq!(bench.claim_as(0, 1, KEY, DIGEST), Some(Claimed::New));
    assert_eq!(bench.claim_as(1, 2, KEY, DIGEST), None);
    assert_eq!(bench.claim_as(0, 3, KEY, DIGEST), None);
    assert_eq!(bench.claim_as(0, 4, KEY, DIGEST + 1), Some(Claimed::Conflict));
    spend(&mut bench, 0, KEY, b"first");
    let first = || Claimed::Answer { verdict: Verdict::Settled, answer: b"first"[..].into() };
    assert_eq!(std::mem::take(&mut bench.claimed), [(1, 2, first()), (0, 3, first())]);
    assert_eq!(bench.bank.claims(), 0);
}

#[test]
fn a_refusal_reaches_those_who_wait_and_is_not_kept() {
    let mut bench = bench();
    assert_eq!(bench.claim_as(0, 1, KEY, DIGEST), Some(Claimed::New));
    assert_eq!(bench.claim_as(1, 2, KEY, DIGEST), None);
    let (key, verdict) = (KEY, Verdict::Exhausted);
    bench.step_keyed(0, Keyed::Answered { key, verdict, answer: b"no"[..].into() });
    let no = Claimed::Answer { verdict, answer: b"no"[..].into() };
    assert_eq!(std::mem::take(&mut bench.claimed), [(1, 2, no)]);
    assert_eq!(bench.claim(1, KEY, DIGEST), Some(Claimed::New), "it may be asked again");
}

#[test]
fn a_resolve_that_books_nothing_leaves_the_claim_to_its_asker() {
    let mut bench = bench();
    let hold = bench.insist(0, 1, 100).unwrap();
    let settle = |bench: &mut Bench, worker, amount, text: &[u8]| {
        bench.resolve_keyed(worker, (Action::Settle, hold, amount), KEY, text)
    };
    assert_eq!(settle(&mut bench, 0, 70, b""), (Verdict::Busy, false), "without a claim");
    assert_eq!(bench.claim(0, KEY, DIGEST), Some(Claimed::New));
    assert_eq!(settle(&mut bench, 1, 70, b""), (Verdict::Busy, false), "another worker's claim");
    assert_eq!(settle(&mut bench, 0, -1, b""), (Verdict::BadAmount, false));
    let long = [b'x'; ANSWER_BYTES_MAX + 1];
    assert_eq!(settle(&mut bench, 0, 70, &long), (Verdict::BadAmount, false));
    assert_eq!(bench.line(1, ledger::Line::Settled), 0);
    assert_eq!(bench.claim(1, KEY, DIGEST), None, "still under way");
    assert_eq!(settle(&mut bench, 0, 70, &long[1..]), (Verdict::Settled, false));
    assert_eq!(bench.claimed.len(), 1);
    bench.check();
}

#[test]
fn an_answer_is_kept_for_its_time_by_the_stamps_of_requests() {
    let mut bench = bench();
    assert_eq!(bench.claim(0, KEY, DIGEST), Some(Claimed::New));
    let asked_ms = bench.now_ms;
    spend(&mut bench, 0, KEY, b"first");
    let kept_ms = bench.now_ms;
    bench.advance(asked_ms + KEPT_MS - 1 - kept_ms);
    assert_eq!(bench.claim(1, KEY, DIGEST), answer(Verdict::Settled, b"first"));
    bench.advance(kept_ms + KEPT_MS - bench.now_ms);
    assert_eq!(bench.claim(1, KEY, DIGEST), Some(Claimed::New));
    assert_eq!(bench.bank.answers(), 1, "no sweep: the next record forgets it");
    spend(&mut bench, 1, KEY, b"second");
    assert_eq!(bench.bank.answers(), 1);
    assert_eq!(bench.claim(0, KEY, DIGEST), answer(Verdict::Settled, b"second"));
    bench.check();
}

#[test]
fn where_no_room_is_left_new_keys_are_refused_and_no_answer_is_forgotten() {
    let mut bench = Bench::with(Options { answers_max: 3, ..options(2) }, &[spec(1, 1_000_000)]);
    for key in 0..3 {
        assert_eq!(bench.claim(0, key, DIGEST), Some(Claimed::New));
        spend(&mut bench, 0, key, b"kept");
    }
    assert_eq!(bench.claim(0, 3, DIGEST), Some(Claimed::Busy));
    (0..3)
        .for_each(|key| assert_eq!(bench.claim(1, key, DIGEST), answer(Verdict::Settled, b"kept")));
    bench.advance(KEPT_MS);
    assert_eq!(bench.claim(0, 3, DIGEST), Some(Claimed::New), "their time is over");
    assert_eq!(bench.claim(0, 4, DIGEST), Some(Claimed::New));
    assert_eq!(bench.claim(0, 5, DIGEST), Some(Claimed::New));
    assert_eq!(bench.claim(0, 6, DIGEST), Some(Claimed::Busy), "claims under way count as well");
    assert_eq!(bench.bank.counts().keys_full, 2);
    bench.check();
}

/// Whoever has a token is never refused for want of a place, and nobody takes the places of all.
#[test]
fn a_token_needs_no_place_and_a_caller_has_at_most_half_of_them() {
    let mut bench = Bench::with(Options { answers_max: 4, ..options(2) }, &[spec(1, 1_000_000)]);
    let key = |caller: u128, key: u128| caller << 96 | key;
    let keep = |bench: &mut Bench, key| {
        assert_eq!(bench.claim(0, key, DIGEST), Some(Claimed::New));
        spend(bench, 0, key, b"kept");
    };
    for number in 0..3 {
        keep(&mut bench, key(7, number));
    }
    // It is alone, so it may have more than half. The first key of another one changes that.
    keep(&mut bench, key(8, 0));
    bench.advance(KEPT_MS);
    keep(&mut bench, key(8, 1));
    assert_eq!(bench.bank.answers_by_caller(), [(8, 1)], "the others are over");
    keep(&mut bench, key(7, 9));
    keep(&mut bench, key(7, 10));
    assert_eq!(bench.claim(0, key(7, 11), DIGEST), Some(Claimed::Busy), "half of the places");
    assert_eq!(bench.claim(1, key(8, 2), DIGEST), Some(Claimed::New), "the rest is the other's");
    assert_eq!(bench.claim(1, key(9, 0), DIGEST), Some(Claimed::Busy), "all of them");
    let at_ms = bench.now_ms;
    let (key, digest, has_token) = (key(7, 12), DIGEST, true);
    bench.step_keyed(0, Keyed::Claim { reply: 5, key, digest, at_ms, has_token });
    assert_eq!(std::mem::take(&mut bench.claimed), [(0, 5, Claimed::Unkept)]);
    let counts = bench.bank.counts();
    assert_eq!((counts.keys_full, counts.keys_unkept), (2, 1));
    bench.check();
}

/// A reservation with a key is the same hold for whoever repeats it, also after a crash; no money moves for its answer.
#[test]
fn the_answer_to_a_reservation_is_sealed_and_leaves_its_hold_open() {
    let mut bench = bench();
    assert_eq!(bench.claim(0, KEY, DIGEST), Some(Claimed::New));
    let hold = bench.insist(0, 1, 100).unwrap();
    let keep = |bench: &mut Bench, worker, answer: &[u8]| {
        let (at_ms, origin, reply) = (bench.now_ms, crate::bench::ORIGIN, 7);
        let (key, answer) = (KEY, answer.into());
        bench.step_keyed(worker, Keyed::Keep { hold, at_ms, origin, reply, key, answer }).unwrap()
    };
    assert_eq!(keep(&mut bench, 1, b"token"), (Verdict::Busy, false), "another worker's claim");
    let before = bench.bank.digest();
    assert_eq!(keep(&mut bench, 0, b"token"), (Verdict::Granted, false));
    assert_ne!(bench.bank.digest(), before);
    assert_eq!(bench.claim(1, KEY, DIGEST), answer(Verdict::Granted, b"token"));
    let sealed = bench.records.len();
    bench.crash_with(options(2), sealed);
    assert_eq!(bench.claim(1, KEY, DIGEST), answer(Verdict::Granted, b"token"));
    assert_eq!(bench.line(1, ledger::Line::Settled), 0);
    assert_eq!(bench.resolve(Action::Settle, hold, 70), (Verdict::Settled, false));
    bench.check();
    // There is no such record without an answer.
    let mut bank = replay(&options(2), &bench.records);
    let kept = bench
        .records
        .iter()
        .find(|record| matches!(record, Record::Resolved { verdict: Verdict::Granted, .. }));
    let Some(Record::Resolved { hold, verdict, amount, at_ms, origin, .. }) = kept else {
        panic!()
    };
    let bare = Record::Resolved {
        hold: *hold,
        verdict: *verdict,
        amount: *amount,
        at_ms: *at_ms,
        origin: *origin,
        keeps_rest: false,
        clicked: false,
        kept: None,
    };
    assert!(matches!(bank.replay(&bare), Err(ReplayError::NotPossible { .. })));
}

/// A settle under a key of a hold that is settled books nothing; its answer is kept nevertheless, and sealed.
#[test]
fn the_answer_to_a_repeat_under_a_key_is_kept_and_leaves_its_hold_as_it_is() {
    let mut bench = bench();
    let hold = bench.insist(0, 1, 100).unwrap();
    assert_eq!(bench.resolve(Action::Settle, hold, 70), (Verdict::Settled, false));
    assert_eq!(bench.claim_as(0, 1, KEY, DIGEST), Some(Claimed::New));
    assert_eq!(bench.claim_as(1, 2, KEY, DIGEST), None, "it waits");
    let settled = bench.resolve_keyed(0, (Action::Settle, hold, 50), KEY, b"new");
    assert_eq!(settled, (Verdict::Settled, true));
    let (at_ms, origin, reply) = (bench.now_ms, crate::bench::ORIGIN, 7);
    let (key, answer_bytes) = (KEY, b"repeat"[..].into());
    let keep = Keyed::Keep { hold, at_ms, origin, reply, key, answer: answer_bytes };
    assert_eq!(bench.step_keyed(0, keep), Some((Verdict::Granted, false)));
    let first = || answer(Verdict::Granted, b"repeat");
    assert_eq!(std::mem::take(&mut bench.claimed), [(1, 2, first().unwrap())]);
    assert_eq!(bench.claim(1, KEY, DIGEST), first());
    assert_eq!(bench.claim(1, KEY, DIGEST + 1), Some(Claimed::Conflict));
    let sealed = bench.records.len();
    bench.crash_with(options(2), sealed);
    assert_eq!(bench.claim(1, KEY, DIGEST), first());
    assert_eq!(bench.line(1, ledger::Line::Settled), 70);
    assert_eq!(bench.resolve(Action::Settle, hold, 70), (Verdict::Settled, true));
    bench.check();
}

/// A journal is read alike, whatever the time is for which answers were kept when it was written.
#[test]
fn a_journal_is_read_with_any_time_that_answers_are_kept() {
    let kept_for = |answers_kept_ms| Options { answers_kept_ms, ..options(2) };
    let mut bench = Bench::with(kept_for(ANSWER_KEPT_MS_MIN), &[spec(1, 1_000_000)]);
    for _ in 0..3 {
        assert_eq!(bench.claim(0, KEY, DIGEST), Some(Claimed::New));
        spend(&mut bench, 0, KEY, b"again");
        bench.advance(ANSWER_KEPT_MS_MIN);
    }
    let records = bench.records.len();
    bench.crash_with(kept_for(KEPT_MS), records);
    assert_eq!(bench.claim(0, KEY, DIGEST), answer(Verdict::Settled, b"again"));
    assert_eq!(bench.bank.digest(), replay(&kept_for(86_400_000), &bench.records).digest());
    bench.check();
}

#[test]
fn claims_and_those_who_wait_are_bounded() {
    let mut bench = bench();
    assert_eq!(bench.claim(0, KEY, DIGEST), Some(Claimed::New));
    (0..CLAIM_WAITERS_MAX).for_each(|_| assert_eq!(bench.claim(1, KEY, DIGEST), None));
    assert_eq!(bench.claim(1, KEY, DIGEST), Some(Claimed::Busy));
    for key in 1..(CLAIMS_MAX - CLAIM_WAITERS_MAX) as u128 {
        assert_eq!(bench.claim(0, key << 32, DIGEST), Some(Claimed::New));
    }
    assert_eq!(bench.bank.claims(), CLAIMS_MAX);
    assert_eq!(bench.claim(0, 1, DIGEST), Some(Claimed::Busy));
    spend(&mut bench, 0, KEY, b"first");
    assert_eq!(bench.bank.claims(), CLAIMS_MAX - CLAIM_WAITERS_MAX - 1);
    assert_eq!(bench.claim(0, 1, DIGEST), Some(Claimed::New));
}

#[test]
fn records_that_cannot_follow_are_refused() {
    let mut bench = bench();
    assert_eq!(bench.claim(0, KEY, DIGEST), Some(Claimed::New));
    spend(&mut bench, 0, KEY, b"first");
    let last = bench.records.last().unwrap().clone();
    let other = bench.insist(0, 1, 100).unwrap();
    let mut bank = replay(&options(2), &bench.records);
    let mut again = last;
    let Record::Resolved { hold, kept: Some(_), .. } = &mut again else { panic!("{again:?}") };
    *hold = other;
    let before = bank.digest();
    assert_eq!(bank.replay(&again), Err(ReplayError::Answer { key: KEY }));
    let secret = Record::AnswerSecret { secret: KeyBytes([9; 16]), at_ms: 1 };
    assert_eq!(bank.replay(&secret), Err(ReplayError::AnswerSecretTwice));
    assert_eq!(bank.digest(), before);
}

#[test]
fn an_answer_does_not_show_in_debug_output() {
    let mut bench = bench();
    bench.claim(0, KEY, DIGEST);
    spend(&mut bench, 0, KEY, &[0xAB; 8]);
    let text = format!("{:?}", bench.records.last().unwrap());
    assert!(text.contains("bytes: 8") && !text.contains("171"), "{text}");
}

/// What clients, workers and the disk do.
#[derive(Clone, Debug)]
enum Op {
    /// A client sends a request, or repeats it.
    Ask { worker: u16, key: u8, digest: u8 },
    /// One who may do it does.
    Spend { pick: usize },
    /// One who may do it was refused.
    Refused { pick: usize },
    /// Time passes.
    Advance { ms: u64 },
    /// What is written so far is sealed: answers go out.
    Seal,
    /// Everything in memory is lost, and of what is not sealed so many records are.
    Crash { lost: usize },
}

fn op() -> impl Strategy<Value = Op> {
    let pick = 0..8usize;
    prop_oneof![
        8 => (0..2u16, 0..5u8, 0..8u8)
            .prop_map(|(worker, key, digest)| Op::Ask { worker, key, digest: digest / 7 }),
        5 => pick.clone().prop_map(|pick| Op::Spend { pick }),
        1 => pick.prop_map(|pick| Op::Refused { pick }),
        1 => (0..2_000u64).prop_map(|ms| Op::Advance { ms }),
        1 => (0..KEPT_MS).prop_map(|ms| Op::Advance { ms }),
        4 => Just(Op::Seal),
        1 => (0..20usize).prop_map(|lost| Op::Crash { lost }),
    ]
}

/// What the outside world knows.
#[derive(Default)]
struct World {
    /// Who may do the request of a key: worker, key, digest.
    claims: Vec<(u16, u128, u128)>,
    /// What was booked and is not sealed yet: key, digest, answer, stamp.
    unsealed: Vec<(u128, u128, Vec<u8>, u64)>,
    /// First answers that went out, by key: digest, answer, stamp.
    known: BTreeMap<u128, (u128, Vec<u8>, u64)>,
    /// Who waits, by number: key and digest.
    waiting: BTreeMap<u64, (u128, u128)>,
    sealed: usize,
    asked: u64,
    spent: u64,
}

impl World {
    fn play(&mut self, bench: &mut Bench, op: &Op) {
        match *op {
            Op::Ask { worker, key, digest } => self.ask(bench, worker, key.into(), digest.into()),
            Op::Spend { pick } => self.spend(bench, pick),
            Op::Refused { pick } => {
                if let Some((worker, key, _)) = self.take(pick) {
                    let (verdict, answer) = (Verdict::Exhausted, b"no"[..].into());
                    bench.step_keyed(worker, Keyed::Answered { key, verdict, answer });
                }
            }
            Op::Advance { ms } => bench.advance(ms),
            Op::Seal => self.seal(bench),
            Op::Crash { lost } => self.crash(bench, lost),
        }
        self.hear(bench);
    }

    fn ask(&mut self, bench: &mut Bench, worker: u16, key: u128, digest: u128) {
        self.asked += 1;
        self.waiting.insert(self.asked, (key, digest));
        let (reply, at_ms) = (self.asked, bench.now_ms);
        bench.step_keyed(worker, Keyed::Claim { reply, key, digest, at_ms, has_token: false });
        let known = self.known.get(&key);
        let known = known.filter(|(_, _, at)| at_ms < at + KEPT_MS);
        let Some((first, text, _)) = known else { return };
        let (_, _, found) = bench.claimed.last().expect("answered at once");
        match *first == digest {
            true => assert_eq!(Some(found.clone()), answer(Verdict::Settled, text)),
            false => assert_eq!(*found, Claimed::Conflict),
        }
    }

    fn take(&mut self, pick: usize) -> Option<(u16, u128, u128)> {
        (pick < self.claims.len()).then(|| self.claims.remove(pick))
    }

    fn spend(&mut self, bench: &mut Bench, pick: usize) {
        let Some((worker, key, digest)) = self.take(pick) else { return };
        self.spent += 1;
        let text = self.spent.to_le_bytes();
        spend(bench, worker, key, &text);
        self.unsealed.push((key, digest, text.to_vec(), bench.now_ms));
    }

    /// Those who are told that they may do it, and those who have an answer.
    fn hear(&mut self, bench: &mut Bench) {
        for (worker, reply, claimed) in std::mem::take(&mut bench.claimed) {
            let (key, digest) = self.waiting.remove(&reply).expect("each is answered once");
            if claimed == Claimed::New {
                self.claims.push((worker, key, digest));
            }
        }
        let mut keys: Vec<u128> = self.claims.iter().map(|(_, key, _)| *key).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), self.claims.len(), "one does it at a time");
    }

    fn seal(&mut self, bench: &Bench) {
        self.sealed = bench.records.len();
        for (key, digest, text, at_ms) in self.unsealed.drain(..) {
            self.known.insert(key, (digest, text, at_ms));
        }
    }

    fn crash(&mut self, bench: &mut Bench, lost: usize) {
        let left = self.sealed.max(bench.records.len().saturating_sub(lost));
        bench.crash_with(options(2), left);
        // What nobody was told may be there or not.
        let World { sealed, asked, spent, known, .. } = std::mem::take(self);
        *self = World { sealed: sealed.min(left), asked, spent, known, ..World::default() };
    }
}

/// Money booked with a key, and the keys of it whose answers are within their day of each other.
fn booked(records: &[Record]) -> (u64, bool) {
    let mut last = BTreeMap::new();
    let mut sum = 0;
    let once = records.iter().all(|record| {
        let Record::Resolved { kept: Some(kept), amount, at_ms, .. } = record else { return true };
        let KeptWith::Answer(kept) = &**kept else { return false };
        sum += amount.get().cast_unsigned();
        let before = last.insert(kept.key, *at_ms);
        before.is_none_or(|before| before + KEPT_MS <= *at_ms)
    });
    (sum, once)
}

proptest! {
    #[test]
    fn nothing_is_booked_twice_and_no_first_answer_is_lost(
        ops in proptest::collection::vec(op(), 1..120),
    ) {
        let mut bench = bench();
        let mut world = World { sealed: bench.records.len(), ..World::default() };
        ops.iter().for_each(|op| world.play(&mut bench, op));
        bench.check();
        let (sum, once) = booked(&bench.records);
        prop_assert!(once, "a key booked twice within its day");
        let slot = bench.bank.slot(1).unwrap();
        prop_assert_eq!(bench.bank.books(slot).spent().get().cast_unsigned(), sum);
        let bank: Bank = replay(&options(2), &bench.records);
        prop_assert_eq!(bank.answers(), bench.bank.answers());
    }
}
