//! Clients that send their settles with keys of idempotency: whichever worker and whichever run answers, the first answer that a
//! client heard is the only one there is.

use std::collections::BTreeMap;

use ledger::{Action, Amount, Claimed, Handled, Keyed, Resolution, ToBank, Verdict};

use crate::client::Request;
use crate::world::{Up, World, request_index};

/// First answers that clients heard, by hold: what it came to, and the bytes.
#[derive(Debug, Default)]
pub(crate) struct FirstAnswers {
    heard: BTreeMap<usize, (Verdict, Box<[u8]>)>,
    /// The stamps by which those were judged that were heard from who did it.
    judged_ms: BTreeMap<usize, u64>,
    /// Answers to repeats that are being kept, by the number of their request.
    keeping: BTreeMap<u64, Resolution>,
}

impl World {
    /// Every third client sends its settles with a key, each time.
    pub(crate) fn has_key(hold: usize, action: Action) -> bool {
        action == Action::Settle && hold.is_multiple_of(3)
    }

    /// Before a worker has a resolve judged, it asks whether the request may be done.
    pub(crate) fn claim_of(&mut self, message: ToBank) -> Up {
        let ToBank::Resolve { reply, at_ms, .. } = message else { return Up::Ledger(message) };
        let key = self.requests[request_index(reply)].hold as u128;
        Up::Keyed(Keyed::Claim { reply, key, digest: !key, at_ms, has_token: false })
    }

    /// A worker hears what became of a claim.
    pub(crate) fn claimed(
        &mut self,
        worker: usize,
        reply: u64,
        claimed: Claimed,
        now_ms: u64,
    ) -> Result<(), String> {
        let request = self.requests[request_index(reply)];
        match claimed {
            Claimed::New => {
                self.resolve_claimed(worker, reply, now_ms);
                Ok(())
            }
            Claimed::Answer { verdict: Verdict::Granted, answer } => {
                self.stats.one("first answer again");
                let first = repeat_of(&answer)?;
                self.heard(request.hold, Verdict::Granted, answer)?;
                self.answer(reply, first)
            }
            // Judged by the stamp of another one, and not kept: it is asked again.
            Claimed::Answer { verdict, .. } if !is_booked(verdict) => Ok(()),
            Claimed::Answer { verdict, answer } => {
                self.stats.one("first answer again");
                self.heard(request.hold, verdict, answer)?;
                self.answer(reply, self.first_again(reply, verdict))
            }
            Claimed::Busy | Claimed::Unkept => {
                self.answer(reply, Resolution::refused(Verdict::Busy))
            }
            Claimed::Conflict => {
                Err(format!("hold {}: its key is another request's", request.hold))
            }
        }
    }

    /// Has the resolve of a claim judged, whose answer no other one has.
    fn resolve_claimed(&mut self, worker: usize, reply: u64, now_ms: u64) {
        let index = request_index(reply);
        let hold = self.requests[index].hold;
        let known = &self.oracle.holds[hold];
        let latest_ms = self.workers[worker].latest_ms.max(now_ms);
        let message = Keyed::Resolve {
            action: Action::Settle,
            hold: known.hold,
            amount: ledger::Amount::new(known.price),
            at_ms: now_ms,
            origin: ledger::Origin { door: ledger::Door::Keys, request_id: hold as u64 },
            reply,
            key: hold as u128,
            answer: answer_of(reply),
        };
        self.requests[index].at_ms = latest_ms;
        self.say(worker, message);
    }

    pub(crate) fn say(&mut self, worker: usize, message: Keyed) {
        self.flush(worker);
        self.workers[worker].to_bank.push_back(Up::Keyed(message));
    }

    /// A worker hears what a resolve came to; one with a key ends its claim where the bank did not.
    pub(crate) fn resolved(
        &mut self,
        worker: usize,
        reply: u64,
        resolution: Resolution,
    ) -> Result<(), String> {
        let (verdict, repeat) = (resolution.verdict, resolution.is_repeat());
        let request = self.requests[request_index(reply)];
        if let Some(first) = self.first_answers.keeping.remove(&reply) {
            if verdict != Verdict::Granted {
                let (key, answer) = (request.hold as u128, Box::default());
                self.say(worker, Keyed::Answered { key, verdict, answer });
                return self.answer(reply, resolution);
            }
            self.heard(request.hold, verdict, repeat_answer(reply, first))?;
            self.first_answers.judged_ms.insert(request.hold, request.at_ms);
            return self.answer(reply, first);
        }
        if request.keyed {
            match is_booked(verdict) && !repeat {
                true => {
                    self.heard(request.hold, verdict, answer_of(reply))?;
                    self.first_answers.judged_ms.insert(request.hold, request.at_ms);
                }
                false if repeat => {
                    let first_ms = self.first_answers.judged_ms.get(&request.hold);
                    if first_ms.is_some_and(|first_ms| {
                        request.at_ms < first_ms + self.options.answers_kept_ms
                    }) {
                        return Err(format!(
                            "hold {}: its first answer is forgotten",
                            request.hold
                        ));
                    }
                    // Settled by somebody without the key, or its day was over.
                    self.keep_repeat(worker, reply, resolution);
                    return Ok(());
                }
                false => {
                    let (key, answer) = (request.hold as u128, Box::default());
                    self.say(worker, Keyed::Answered { key, verdict, answer });
                }
            }
        }
        self.answer(reply, resolution)
    }

    /// What was settled before a request with a key came is kept as its answer.
    fn keep_repeat(&mut self, worker: usize, reply: u64, resolution: Resolution) {
        self.stats.one("repeat kept under a key");
        let Request { hold: index, at_ms, .. } = self.requests[request_index(reply)];
        let hold = self.oracle.holds[index].hold;
        let origin = ledger::Origin { door: ledger::Door::Keys, request_id: index as u64 };
        let (key, answer) = (index as u128, repeat_answer(reply, resolution));
        self.first_answers.keeping.insert(reply, resolution);
        self.say(worker, Keyed::Keep { hold, at_ms, origin, reply, key, answer });
    }

    /// The first answer to a settle of the one who knows what it named.
    pub(crate) fn first_again(&self, reply: u64, verdict: Verdict) -> Resolution {
        let known = &self.oracle.holds[self.requests[request_index(reply)].hold];
        let amount = Some(ledger::Amount::new(known.price));
        Resolution { verdict, amount, judged: Handled::Before }
    }

    /// A first answer reaches a client: none that it heard before was another one, unless the time of the older one was over when the other was judged.
    fn heard(&mut self, hold: usize, verdict: Verdict, answer: Box<[u8]>) -> Result<(), String> {
        let Some(first) = self.first_answers.heard.get(&hold) else {
            self.first_answers.heard.insert(hold, (verdict, answer));
            return Ok(());
        };
        let judged_ms = |answer: &[u8]| self.requests[request_index(reply_of(answer))].at_ms;
        let (first_ms, at_ms) = (judged_ms(&first.1), judged_ms(&answer));
        match () {
            () if *first == (verdict, answer.clone()) => Ok(()),
            () if first_ms.abs_diff(at_ms) < self.options.answers_kept_ms => Err(format!(
                "hold {hold}: {first:?} was answered first, then {verdict:?} {answer:?}"
            )),
            () if at_ms > first_ms => {
                self.first_answers.heard.insert(hold, (verdict, answer));
                Ok(())
            }
            () => Ok(()),
        }
    }
}

fn is_booked(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Settled | Verdict::SettledOver | Verdict::SettledLate)
}

/// The answer to a repeat, with what it came to.
fn repeat_answer(reply: u64, resolution: Resolution) -> Box<[u8]> {
    let mut bytes = reply.to_le_bytes().to_vec();
    bytes.push(resolution.verdict.as_raw());
    bytes.extend(resolution.amount.iter().flat_map(|amount| amount.get().to_le_bytes()));
    bytes.into()
}

fn repeat_of(answer: &[u8]) -> Result<Resolution, String> {
    let read = || {
        let (verdict, amount) = answer.get(8..)?.split_first()?;
        let amount = amount.try_into().ok().map(|bytes| Amount::new(i64::from_le_bytes(bytes)));
        let verdict = Verdict::from_raw(*verdict)?;
        Some(Resolution { verdict, amount, judged: Handled::Before })
    };
    read().ok_or_else(|| format!("no answer to a repeat: {answer:?}"))
}

/// Whose request an answer is of.
fn reply_of(answer: &[u8]) -> u64 {
    answer.first_chunk().map_or(0, |reply| u64::from_le_bytes(*reply))
}

fn answer_of(reply: u64) -> Box<[u8]> {
    reply.to_le_bytes().into()
}
