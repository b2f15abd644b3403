//! Memos of doors: judged before they are recorded, alone or with their money.

use std::collections::BTreeMap;

use super::resolve::ResolveRequest;
use super::{Bank, Out, ReplayError};
use crate::memo::{
    DoorMemos, KeptMemo, KeptWith, MEMO_BYTES_MAX, MEMOS_MAX, Memo, MemoAnswer, MemoJudgement,
    MemoMoney, MemoRefusal, MemoRequest,
};
use crate::page::Mark;
use crate::{Action, Amount, Door, Hold, Origin, Part, Record, Verdict};

/// The memos that count, by door.
#[derive(Clone, Debug, Default)]
pub(super) struct Memos {
    by_door: BTreeMap<Door, BTreeMap<u128, KeptMemo>>,
}

impl Memos {
    pub(super) fn of(&self, door: Door) -> DoorMemos<'_> {
        DoorMemos { by_key: self.by_door.get(&door) }
    }

    /// Would [`Memos::keep`] take it? How many there are is no matter of records: what was let in stays readable.
    pub(super) fn check(memo: &Memo) -> Result<(), ReplayError> {
        let (key, bytes) = (memo.key, memo.bytes.len());
        if bytes <= MEMO_BYTES_MAX { Ok(()) } else { Err(ReplayError::Memo { key, bytes }) }
    }

    pub(super) fn keep(&mut self, memo: &Memo, at_ms: u64) {
        let of_door = self.by_door.entry(memo.door).or_default();
        if memo.bytes.is_empty() {
            of_door.remove(&memo.key);
        } else {
            of_door.insert(memo.key, KeptMemo { bytes: memo.bytes.clone(), at_ms });
        }
    }

    fn is_full_for(&self, memo: &Memo) -> bool {
        let of_door = self.of(memo.door);
        of_door.len() >= MEMOS_MAX && !memo.bytes.is_empty() && of_door.get(memo.key).is_none()
    }

    /// All of them, in an order that the state alone decides.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Door, u128, &[u8], u64)> {
        let doors = self.by_door.keys();
        doors.flat_map(|door| {
            self.of(*door).iter().map(|(key, bytes, at_ms)| (*door, key, bytes, at_ms))
        })
    }

    pub(super) fn parts(&self, each: &mut dyn FnMut(Part)) {
        for (door, key, bytes, at_ms) in self.iter() {
            each(Part::Memo { memo: Memo { door, key, bytes: bytes.into() }, at_ms });
        }
    }
}

impl Bank {
    /// The memos of a door that count: what it goes on with after a start.
    pub fn memos(&self, door: Door) -> DoorMemos<'_> {
        self.memos.of(door)
    }

    pub(super) fn step_memo(&mut self, worker: u16, request: MemoRequest, out: &mut Out) {
        let at_ms = self.stamp(worker, request.at_ms);
        let MemoRequest { memo, money, reply, .. } = request;
        let answer = self.take_memo(memo, money, at_ms, out);
        out.memos.push((worker, reply, answer));
    }

    /// Records a memo of a door that has no worker, such as the admin door, if its judge has nothing against it.
    pub fn keep_memo(&mut self, memo: Memo, out: &mut Out) -> MemoAnswer {
        self.take_memo(memo, MemoMoney::Without, self.now_ms, out)
    }

    fn take_memo(&mut self, memo: Memo, money: MemoMoney, at_ms: u64, out: &mut Out) -> MemoAnswer {
        match self.judge_memo(&memo) {
            Ok(MemoJudgement::New) => self.record_memo(memo, money, at_ms, out),
            Ok(MemoJudgement::Known(answer)) => {
                self.counts.memos_known += 1;
                self.give_back_made(money, at_ms, out);
                MemoAnswer::Known { answer }
            }
            Ok(MemoJudgement::Refused(verdict)) => {
                self.refuse_memo(MemoRefusal::Judged(verdict), money, at_ms, out)
            }
            Err(refusal) => self.refuse_memo(refusal, money, at_ms, out),
        }
    }

    fn judge_memo(&self, memo: &Memo) -> Result<MemoJudgement, MemoRefusal> {
        MemoRefusal::check_len(memo.bytes.len())?;
        let judges = &self.options.memo_judges;
        let judge = judges.iter().find(|(door, _)| *door == memo.door).map(|(_, judge)| judge);
        let judged = judge.ok_or(MemoRefusal::NoJudge(memo.door))?(&self.memos.of(memo.door), memo);
        let full = judged == MemoJudgement::New && self.memos.is_full_for(memo);
        if full { Err(MemoRefusal::Full(memo.door)) } else { Ok(judged) }
    }

    fn refuse_memo(
        &mut self,
        refusal: MemoRefusal,
        money: MemoMoney,
        at_ms: u64,
        out: &mut Out,
    ) -> MemoAnswer {
        match refusal {
            MemoRefusal::Full(_) => self.counts.memos_full += 1,
            _ => self.counts.memos_refused += 1,
        }
        self.give_back_made(money, at_ms, out);
        MemoAnswer::Refused(refusal)
    }

    fn record_memo(
        &mut self,
        memo: Memo,
        money: MemoMoney,
        at_ms: u64,
        out: &mut Out,
    ) -> MemoAnswer {
        let answer = match money {
            MemoMoney::Without => {
                self.book(Record::Memo { memo: Box::new(memo), at_ms }, out);
                MemoAnswer::New { verdict: None }
            }
            MemoMoney::Made { hold, origin } => {
                self.record_with_hold(memo, (hold, origin), at_ms, out)
            }
            MemoMoney::Resolve { action, hold, amount, origin } => {
                let request = ResolveRequest { action, hold, amount, at_ms, origin };
                let before = out.records.len();
                let kept = Some(Box::new(KeptWith::Memo(memo)));
                let resolution = self.resolve(request, kept, out);
                let (verdict, repeat) = (resolution.verdict, resolution.is_repeat());
                match out.records.len() > before {
                    true => MemoAnswer::New { verdict: Some(verdict) },
                    false => MemoAnswer::NotBooked { verdict, repeat },
                }
            }
        };
        self.counts.memos += u64::from(matches!(answer, MemoAnswer::New { .. }));
        answer
    }

    /// A memo with the hold that was made for it, which stays open.
    fn record_with_hold(
        &mut self,
        memo: Memo,
        (hold, origin): (Hold, Origin),
        at_ms: u64,
        out: &mut Out,
    ) -> MemoAnswer {
        let mark = self.grants.get(hold.grant).map(|grant| grant.mark(hold.seq));
        let verdict = match mark {
            Some(Mark::Open) => Verdict::Granted,
            Some(Mark::Released) => Verdict::AlreadyReleased,
            Some(_) => Verdict::AlreadySettled,
            None => Verdict::TooOld,
        };
        if verdict != Verdict::Granted {
            return MemoAnswer::NotBooked { verdict, repeat: false };
        }
        let (amount, kept) = (Amount::ZERO, Some(Box::new(KeptWith::Memo(memo))));
        let (keeps_rest, clicked) = (false, false);
        self.book(
            Record::Resolved { hold, verdict, amount, at_ms, origin, keeps_rest, clicked, kept },
            out,
        );
        MemoAnswer::New { verdict: Some(verdict) }
    }

    /// The hold that was made for a memo which is not recorded now. One that is gone by then is gone.
    fn give_back_made(&mut self, money: MemoMoney, at_ms: u64, out: &mut Out) {
        let MemoMoney::Made { hold, origin } = money else { return };
        let (action, amount) = (Action::Release, Amount::ZERO);
        self.resolve(ResolveRequest { action, hold, amount, at_ms, origin }, None, out);
    }

    pub(super) fn apply_memo(&mut self, memo: &Memo, at_ms: u64) -> Result<(), ReplayError> {
        super::apply::check_ms([at_ms])?;
        Memos::check(memo)?;
        self.memos.keep(memo, at_ms);
        self.now_ms = self.now_ms.max(at_ms);
        Ok(())
    }
}
