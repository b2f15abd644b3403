//! Memos of a door: sessions whose numbers rise, and settles that are recorded with the memo of who did them. Whatever crashes between,
//! what a client heard of a memo is so for ever.

use std::collections::BTreeSet;

use ledger::{
    Action, Door, DoorMemos, Handled, Keyed, Memo, MemoAnswer, MemoJudge, MemoJudgement, MemoMoney,
    MemoRefusal, MemoRequest, Out, Record, Resolution, ToBank, Verdict,
};

use crate::Bug;
use crate::journal::Held;
use crate::rng::Rng;
use crate::world::{Down, Up, World, request_index};

const SESSIONS: usize = 4;
/// Replies from here on are those of numbers of sessions; below are those of requests.
const NUMBERS: u64 = 1 << 63;
/// Keys of sessions; those of settles are the holds' indexes, below.
pub(crate) const SESSION: u128 = 1 << 100;
const DOOR: Door = Door::Fix;

/// A number of a session on its way.
#[derive(Clone, Copy, Debug)]
struct Sent {
    session: usize,
    number: u64,
    /// The highest that the client knew of when it sent this.
    heard: u64,
}

/// What clients know of memos.
#[derive(Debug)]
pub(crate) struct Memos {
    rng: Rng,
    /// The highest number that a client heard of, by session.
    heard: [u64; SESSIONS],
    sent: Vec<Sent>,
    /// Numbers that were heard to be new.
    new: BTreeSet<(usize, u64)>,
    /// Holds of whose settle somebody heard that it was recorded with its memo...
    settled: BTreeSet<usize>,
    /// ...those of which it was heard to be new, and requests that were sent after somebody had heard of it.
    newly: BTreeSet<usize>,
    after: BTreeSet<u64>,
}

impl Memos {
    pub(crate) fn new(seed: u64) -> Memos {
        Memos {
            rng: Rng::new(seed ^ 0x6d65_6d6f),
            heard: [0; SESSIONS],
            sent: Vec::new(),
            new: BTreeSet::new(),
            settled: BTreeSet::new(),
            newly: BTreeSet::new(),
            after: BTreeSet::new(),
        }
    }
}

/// What judges the memos of the simulated door.
pub(crate) fn judges(bug: Option<Bug>) -> Vec<(Door, MemoJudge)> {
    let judge = if bug == Some(Bug::MemoTwice) { believe } else { judge as MemoJudge };
    vec![(DOOR, judge)]
}

/// Numbers of sessions rise; of a settle the first one stands.
fn judge(memos: &DoorMemos<'_>, memo: &Memo) -> MemoJudgement {
    match memos.get(memo.key) {
        None => MemoJudgement::New,
        Some(now) if memo.key < SESSION || number(now) == number(&memo.bytes) => {
            MemoJudgement::Known(now.into())
        }
        Some(now) if number(now) > number(&memo.bytes) => MemoJudgement::Refused(Verdict::TooOld),
        Some(_) => MemoJudgement::New,
    }
}

/// A planted bug: whatever comes is new.
fn believe(_: &DoorMemos<'_>, _: &Memo) -> MemoJudgement {
    MemoJudgement::New
}

pub(crate) fn number(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

impl World {
    /// Every third client has its settles recorded with a memo.
    pub(crate) fn has_memo(hold: usize, action: Action) -> bool {
        action == Action::Settle && hold % 3 == 1
    }

    /// A settle with its memo: who did it.
    pub(crate) fn memo_of(&mut self, message: ToBank) -> Up {
        let ToBank::Resolve { reply, at_ms, action, hold, amount, origin } = message else {
            return Up::Ledger(message);
        };
        let hold_index = self.requests[request_index(reply)].hold;
        if self.memos.settled.contains(&hold_index) {
            self.memos.after.insert(reply);
        }
        let key = hold_index as u128;
        let memo = Memo { door: DOOR, key, bytes: reply.to_le_bytes().into() };
        let money = MemoMoney::Resolve { action, hold, amount, origin };
        Up::Keyed(Keyed::Memo(Box::new(MemoRequest { memo, money, at_ms, reply })))
    }

    /// A client sends its session's next number, or the last one again, to any worker.
    pub(crate) fn send_number(&mut self) {
        if !self.memos.rng.chance(30) {
            return;
        }
        let Some(worker) = self.awake_worker() else { return };
        let session = self.memos.rng.index(SESSIONS);
        let heard = self.memos.heard[session];
        let number = if self.memos.rng.chance(200) { heard.max(1) } else { heard + 1 };
        let reply = NUMBERS | self.memos.sent.len() as u64;
        self.memos.sent.push(Sent { session, number, heard });
        let (key, bytes) = (SESSION | session as u128, number.to_le_bytes().into());
        let (memo, at_ms) = (Memo { door: DOOR, key, bytes }, self.read_clock(worker));
        let request = MemoRequest { memo, money: MemoMoney::Without, at_ms, reply };
        self.flush(worker);
        self.workers[worker].to_bank.push_back(Up::Keyed(Keyed::Memo(Box::new(request))));
    }

    /// The bank's turn for a memo.
    pub(crate) fn step_memo(&mut self, index: usize, mut request: MemoRequest, out: &mut Out) {
        if request.reply < NUMBERS {
            let known = &mut self.requests[request_index(request.reply)];
            known.at_ms = self.workers[index].judged(known.at_ms);
        } else {
            // Its stamp counts for whatever its worker says later.
            self.workers[index].judged(request.at_ms);
        }
        // A planted bug: the memo is recorded, and its money in a later turn.
        if self.bug == Some(Bug::MemoWithoutMoney)
            && let MemoMoney::Resolve { action, hold, amount, origin } = request.money
            && self.bank.memos(DOOR).get(request.memo.key).is_none()
        {
            request.money = MemoMoney::Without;
            let MemoRequest { at_ms, reply, .. } = request;
            let later = ToBank::Resolve { action, hold, amount, at_ms, origin, reply };
            self.workers[index].to_bank.push_back(Up::Ledger(later));
        }
        let worker = u16::try_from(index).expect("few workers");
        self.bank.step_keyed(worker, Keyed::Memo(Box::new(request)), out);
    }

    /// What became of memos waits for its records; with a planted bug it does not.
    pub(crate) fn hold_memos(&mut self, out: &mut Out) {
        for (worker, reply, answer) in std::mem::take(&mut out.memos) {
            self.append(out);
            let worker = usize::from(worker);
            match self.bug {
                Some(Bug::MemoBeforeSeal) => {
                    self.workers[worker].to_worker.push_back(Down::Memo(reply, answer));
                }
                _ => self.journal.hold(Held::Memo(worker, reply, answer)),
            }
        }
    }

    /// The journal cannot seal, so nothing of the memo is recorded.
    pub(crate) fn refuse_memo(&mut self, index: usize, reply: u64) {
        let answer = MemoAnswer::Refused(MemoRefusal::Unsealed(Verdict::Journal));
        self.workers[index].to_worker.push_back(Down::Memo(reply, answer));
        self.stats.one("memo refused: journal");
    }

    /// A worker hears what became of a memo, and its client.
    pub(crate) fn recorded(&mut self, reply: u64, answer: MemoAnswer) -> Result<(), String> {
        match reply.checked_sub(NUMBERS) {
            Some(sent) => self.number_recorded(request_index(sent), &answer),
            None => self.settle_recorded(reply, answer),
        }
    }

    fn number_recorded(&mut self, sent: usize, answer: &MemoAnswer) -> Result<(), String> {
        let Sent { session, number: sent, heard } = self.memos.sent[sent];
        let now = match answer {
            MemoAnswer::New { .. } => {
                self.stats.one("memo recorded");
                if !self.memos.new.insert((session, sent)) {
                    return Err(format!("number {sent} of session {session} was new twice"));
                }
                sent
            }
            MemoAnswer::Known { answer } => {
                self.stats.one("memo known");
                number(answer)
            }
            // A higher one is recorded, or nothing can be.
            MemoAnswer::Refused(_) | MemoAnswer::NotBooked { .. } => return Ok(()),
        };
        if now < heard || now < sent {
            return Err(format!(
                "session {session} was at {heard} when {sent} was sent, and is at {now}: {answer:?}"
            ));
        }
        // Lost on its way, it is sent again.
        if !self.memos.rng.chance(100) {
            self.memos.heard[session] = self.memos.heard[session].max(now);
        }
        Ok(())
    }

    fn settle_recorded(&mut self, reply: u64, answer: MemoAnswer) -> Result<(), String> {
        let hold = self.requests[request_index(reply)].hold;
        let was_heard = self.memos.after.contains(&reply);
        match answer {
            MemoAnswer::New { verdict: Some(verdict) }
                if !was_heard && self.memos.newly.insert(hold) =>
            {
                self.stats.one("memo recorded with its money");
                self.memos.settled.insert(hold);
                let first = self.first_again(reply, verdict);
                self.answer(reply, Resolution { judged: Handled::Now, ..first })
            }
            MemoAnswer::Known { answer } => {
                self.stats.one("memo known with its money");
                let Some(verdict) = self.booked(hold) else {
                    return Err(format!(
                        "hold {hold}: the memo {answer:?} is known, and its money is not booked"
                    ));
                };
                self.memos.settled.insert(hold);
                self.answer(reply, self.first_again(reply, verdict))
            }
            // Settled by somebody without a memo.
            MemoAnswer::NotBooked { verdict, repeat } if !was_heard => {
                let judged = if repeat { Handled::Before } else { Handled::Now };
                self.answer(reply, Resolution { judged, ..self.first_again(reply, verdict) })
            }
            MemoAnswer::Refused(MemoRefusal::Unsealed(_)) => {
                self.answer(reply, Resolution::refused(Verdict::Journal))
            }
            // The planted bug gives the money an answer of its own.
            MemoAnswer::New { verdict: None } if self.bug == Some(Bug::MemoWithoutMoney) => Ok(()),
            other => Err(format!(
                "hold {hold}: {other:?}, and its memo was heard of before it was sent: {was_heard}"
            )),
        }
    }

    /// How a hold was settled, as the journal says.
    fn booked(&self, index: usize) -> Option<Verdict> {
        let known = &self.oracle.holds[index].hold;
        let settled = [Verdict::Settled, Verdict::SettledOver, Verdict::SettledLate];
        self.model.records.iter().rev().find_map(|record| {
            let Record::Resolved { hold, verdict, .. } = record else { return None };
            let is_it = (hold.grant, hold.seq) == (known.grant, known.seq);
            (is_it && settled.contains(verdict)).then_some(*verdict)
        })
    }
}
