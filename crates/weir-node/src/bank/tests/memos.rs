//! Memos of doors: which worker hears what of them, and when.

use ledger::{DoorMemos, Memo, MemoJudgement, MemoMoney, MemoRequest};

use super::*;

const KEY: u128 = 0xF1;

/// A door whose first memo of a key stands.
const DOORS: &[DoorFacts] = &[DoorFacts { judge: Some((Door::Fix, judge)), ..Doors::FACTS[0] }];

fn judge(memos: &DoorMemos<'_>, memo: &Memo) -> MemoJudgement {
    memos.get(memo.key).map_or(MemoJudgement::New, |first| MemoJudgement::Known(first.into()))
}

fn bench(data: tempfile::TempDir) -> Bench {
    Bench::with(data, 2, DOORS)
}

fn request(bench: &Bench, bytes: &[u8], money: MemoMoney, reply: u64) -> Keyed {
    let memo = Memo { door: Door::Fix, key: KEY, bytes: bytes.into() };
    Keyed::Memo(Box::new(MemoRequest { memo, money, at_ms: bench.thread.bank.now_ms(), reply }))
}

fn apart(request: Keyed) -> Apart {
    Apart { before: 0, limited: None, message: ApartMessage::Keyed(request) }
}

fn send(up: &mut Sender<Up>, request: Keyed) {
    up.try_send(Up::Apart(Box::new(apart(request)))).unwrap();
}

/// What a worker heard of memos; everything else that it was told is gone.
fn heard(down: &mut Receiver<Down>) -> Option<(u64, MemoAnswer)> {
    while let Some(message) = down.recv() {
        if let Down::Memo { reply, answer } = message {
            return Some((reply, *answer));
        }
    }
    None
}

fn new(verdict: Option<Verdict>) -> MemoAnswer {
    MemoAnswer::New { verdict }
}

fn known(answer: &[u8]) -> MemoAnswer {
    MemoAnswer::Known { answer: answer.into() }
}

#[test]
fn two_workers_with_one_key_meet_at_the_bank_and_hear_of_it_once_it_is_sealed() {
    let mut bench = bench(tempfile::tempdir().unwrap());
    let first = request(&bench, b"first", MemoMoney::Without, 7);
    let second = request(&bench, b"second", MemoMoney::Without, 8);
    send(&mut bench.up, first);
    send(&mut bench.others[0].0, second);
    let mut needed = None;
    let answers = bench.until(|bench| {
        let needed = *needed.get_or_insert_with(|| bench.thread.journal.next_sequence());
        let answers = (heard(&mut bench.down)?, heard(&mut bench.others[0].1)?);
        assert!(bench.thread.journal.sealed() >= needed, "neither is told before it is sealed");
        Some(answers)
    });
    assert_eq!(answers, ((7, new(None)), (8, known(b"first"))));
    let counts = bench.thread.bank.counts();
    assert_eq!((counts.memos, counts.memos_known), (1, 1));
}

#[test]
fn the_hold_of_an_order_that_is_known_is_given_back() {
    let mut bench = bench(tempfile::tempdir().unwrap());
    bench.configure();
    let first = bench.hold();
    let origin = Origin { door: Door::Fix, request_id: 0 };
    for (seq, answer) in [(0, new(Some(Verdict::Granted))), (1, known(b"order"))] {
        let money = MemoMoney::Made { hold: Hold { seq, ..first }, origin };
        let order = request(&bench, b"order", money, 7);
        send(&mut bench.up, order);
        assert_eq!(bench.until(|bench| heard(&mut bench.down)), (7, answer));
    }
    let at_ms = bench.thread.bank.now_ms();
    bench.up.try_send(settle(first, at_ms)).unwrap();
    assert_eq!(bench.until(Bench::resolved), Verdict::Settled);
    bench.up.try_send(settle(Hold { seq: 1, ..first }, at_ms)).unwrap();
    assert_eq!(bench.until(Bench::resolved), Verdict::SettledLate, "it was released");
}

#[test]
fn what_was_recorded_is_known_in_the_next_run() {
    let mut before = bench(tempfile::tempdir().unwrap());
    before.configure();
    let hold = before.hold();
    let (action, amount) = (Action::Settle, Amount::new(600));
    let origin = Origin { door: Door::Fix, request_id: 9 };
    let money = MemoMoney::Resolve { action, hold, amount, origin };
    let report = request(&before, b"report", money, 7);
    send(&mut before.up, report);
    let answer = before.until(|bench| heard(&mut bench.down));
    assert_eq!(answer, (7, new(Some(Verdict::Settled))));
    let Bench { thread, data, .. } = before;
    assert!(thread.finish());

    let mut after = bench(data);
    let slot = after.thread.bank.slot(1).unwrap();
    assert_eq!(after.thread.bank.books(slot).line(ledger::Line::Settled), amount);
    let again = request(&after, b"again", money, 8);
    send(&mut after.up, again);
    assert_eq!(after.until(|bench| heard(&mut bench.down)), (8, known(b"report")));
    assert_eq!(after.thread.bank.books(slot).line(ledger::Line::Settled), amount);
}

#[test]
fn nothing_of_a_memo_is_recorded_while_the_journal_cannot_seal() {
    let mut bench = bench(tempfile::tempdir().unwrap());
    let order = request(&bench, b"order", MemoMoney::Without, 7);
    bench.thread.take_apart(0, apart(order.clone()), true);
    let answer = bench.until(|bench| heard(&mut bench.down));
    assert_eq!(answer, (7, MemoAnswer::Refused(MemoRefusal::Unsealed(Verdict::Journal))));
    assert!(bench.thread.bank.memos(Door::Fix).is_empty());
    bench.thread.take_apart(0, apart(order), false);
    assert_eq!(bench.until(|bench| heard(&mut bench.down)), (7, new(None)));
}
