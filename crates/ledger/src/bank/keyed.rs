//! Requests with keys: which are under way, and what the finished ones were answered.
//!
//! The answers are state: they follow from the records alone, in replay as live. An answer is forgotten when a later one is
//! recorded at least `answers_kept_ms` after it, a few with each, and counts as forgotten before that for a claim with such a stamp.
//! Nothing else forgets one: where no room is left, new keys are refused, or done without an answer that is kept. How long that is may change from run
//! to run, so the digest of the state has only those answers that every setting keeps. The claims are of a run: a process that ends takes
//! its askers with it.

use std::collections::{BTreeMap, VecDeque};

use wire::Verdict;

use super::answers::less_one;
use super::resolve::ResolveRequest;
use super::{Bank, Options, Out};
use crate::keyed::{ANSWER_BYTES_MAX, CLAIM_WAITERS_MAX, CLAIMS_MAX, caller};
use crate::{
    Amount, Claimed, Hold, Kept, KeptWith, KeyBytes, Keyed, Origin, Record, Resolution, ToWorker,
};

/// Who waits for a claim.
#[derive(Clone, Copy, Debug)]
struct Asker {
    worker: u16,
    reply: u64,
}

/// A request that is under way.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    digest: u128,
    /// The worker whose asker does it.
    worker: u16,
    waiting: VecDeque<Asker>,
}

/// Requests under way, and who waits for them.
#[derive(Clone, Debug, Default)]
pub(super) struct Claims {
    by_key: BTreeMap<u128, Claim>,
    /// How many there are, by caller.
    callers: BTreeMap<u32, usize>,
    /// Those who wait, over all claims.
    waiting: usize,
}

impl Claims {
    fn is_full(&self) -> bool {
        self.by_key.len() + self.waiting >= CLAIMS_MAX
    }

    /// What is asked under a key that this worker has the claim of.
    pub(super) fn digest(&self, worker: u16, key: u128) -> Option<u128> {
        let claim = self.by_key.get(&key).filter(|claim| claim.worker == worker)?;
        Some(claim.digest)
    }

    fn begin(&mut self, key: u128, claim: Claim) {
        self.by_key.insert(key, claim);
        *self.callers.entry(caller(key)).or_default() += 1;
    }

    /// Ends a claim of this worker: whoever waits for it is told.
    pub(super) fn end(&mut self, worker: u16, key: u128) -> Option<Claim> {
        self.by_key.get(&key).filter(|claim| claim.worker == worker)?;
        let claim = self.by_key.remove(&key)?;
        less_one(&mut self.callers, caller(key));
        self.waiting -= claim.waiting.len();
        Some(claim)
    }
}

impl Bank {
    /// Hashes keys of idempotency under this secret from now on; it must come from the operating system's randomness. It stays for
    /// good, as answers are found by it: a bank that has one keeps it.
    pub fn add_answer_secret(&mut self, secret: KeyBytes, out: &mut Out) {
        if self.answers.secret.is_none() {
            self.book(Record::AnswerSecret { secret, at_ms: self.now_ms }, out);
        }
    }

    /// What keys of idempotency are hashed under.
    pub fn answer_secret(&self) -> Option<KeyBytes> {
        self.answers.secret
    }

    /// Answers that are kept for keys, those included that are over and not yet forgotten.
    pub fn answers(&self) -> usize {
        self.answers.len()
    }

    /// How many may be kept.
    pub fn answers_max(&self) -> usize {
        self.options.answers_max
    }

    /// Requests with keys that are under way, and who waits for them.
    pub fn claims(&self) -> usize {
        self.claims.by_key.len() + self.claims.waiting
    }

    /// Takes one message of a worker about a request with a key, or about a memo; see [`Bank::step`]. A [`Claimed::Answer`] may go out once the
    /// records before it are sealed, as the first one did; the others need not wait.
    pub fn step_keyed(&mut self, worker: u16, message: Keyed, out: &mut Out) {
        match message {
            Keyed::Claim { reply, key, digest, at_ms, has_token } => {
                let at_ms = self.stamp(worker, at_ms);
                let asker = Asker { worker, reply };
                let claimed = match self.claim(asker, (key, digest), at_ms) {
                    // Its token makes it safe to repeat, so it is never refused for want of a place.
                    Some(Claimed::Busy) if has_token => {
                        self.counts.keys_unkept += 1;
                        Some(Claimed::Unkept)
                    }
                    Some(Claimed::Busy) => {
                        self.counts.keys_full += 1;
                        Some(Claimed::Busy)
                    }
                    claimed => claimed,
                };
                out.claimed.extend(claimed.map(|claimed| (worker, reply, claimed)));
            }
            Keyed::Keep { hold, at_ms, origin, reply, key, answer } => {
                let at_ms = self.stamp(worker, at_ms);
                let verdict = self.keep_alone(worker, (hold, origin), at_ms, (key, answer), out);
                let resolution = Resolution::refused(verdict);
                out.send(worker, ToWorker::Resolved { reply, resolution });
            }
            Keyed::Resolve { action, hold, amount, at_ms, origin, reply, key, answer } => {
                let at_ms = self.stamp(worker, at_ms);
                let request = ResolveRequest { action, hold, amount, at_ms, origin };
                let resolution = self.resolve_keyed(worker, request, (key, answer), out);
                out.send(worker, ToWorker::Resolved { reply, resolution });
            }
            Keyed::Answered { key, verdict, answer } => {
                if let Some(claim) = self.claims.end(worker, key) {
                    answer_all(claim, verdict, &answer, out);
                }
            }
            Keyed::Memo(request) => self.step_memo(worker, *request, out),
        }
    }

    /// What a claim comes to; `None` if it waits.
    fn claim(&mut self, asker: Asker, (key, digest): (u128, u128), at_ms: u64) -> Option<Claimed> {
        let kept_ms = self.options.answers_kept_ms;
        if let Some(kept) = self.answers.get(key, at_ms, kept_ms) {
            if kept.digest != digest {
                self.counts.keys_reused += 1;
                return Some(Claimed::Conflict);
            }
            self.counts.keys_repeated += 1;
            return Some(Claimed::Answer { verdict: kept.verdict, answer: kept.answer.into() });
        }
        let full = self.claims.is_full();
        if let Some(claim) = self.claims.by_key.get_mut(&key) {
            if claim.digest != digest {
                self.counts.keys_reused += 1;
                return Some(Claimed::Conflict);
            }
            if full || claim.waiting.len() >= CLAIM_WAITERS_MAX {
                return Some(Claimed::Busy);
            }
            claim.waiting.push_back(asker);
            self.claims.waiting += 1;
            return None;
        }
        if full || self.is_taken(key, at_ms) {
            return Some(Claimed::Busy);
        }
        let claim = Claim { digest, worker: asker.worker, waiting: VecDeque::new() };
        self.claims.begin(key, claim);
        Some(Claimed::New)
    }

    /// Is there no place for another key of this caller? Every claim may become an answer, so none is let in that could not be kept. A
    /// caller has at most half of the places while others have some.
    fn is_taken(&mut self, key: u128, at_ms: u64) -> bool {
        let Options { answers_max, answers_kept_ms, .. } = self.options;
        self.answers.pass(at_ms, answers_kept_ms);
        let (of, half) = (caller(key), answers_max.div_ceil(2));
        let (kept, own_kept) = self.answers.taken(of);
        let own = own_kept + self.claims.callers.get(&of).copied().unwrap_or(0);
        let all = kept + self.claims.by_key.len();
        all >= answers_max || own >= half && all > own
    }

    /// The answers that are not over, by caller: its number and how many it has, the largest first.
    pub fn answers_by_caller(&self) -> Vec<(u32, usize)> {
        let mut all: Vec<(u32, usize)> = self.answers.callers().collect();
        all.sort_by_key(|(caller, count)| (std::cmp::Reverse(*count), *caller));
        all
    }

    /// Keeps an answer in a record of its own, which leaves the hold as it is.
    fn keep_alone(
        &mut self,
        worker: u16,
        (hold, origin): (Hold, Origin),
        at_ms: u64,
        (key, answer): (u128, Box<[u8]>),
        out: &mut Out,
    ) -> Verdict {
        let Some(digest) = self.claims.digest(worker, key) else { return Verdict::Busy };
        if answer.len() > ANSWER_BYTES_MAX {
            return Verdict::BadAmount;
        }
        let (verdict, amount) = (Verdict::Granted, Amount::ZERO);
        let kept = Kept { key, digest, answer: answer.clone() };
        if let Some(at) = self.timed_at(&hold) {
            self.keep_timed(at, (at_ms, origin), kept, out);
        } else if self.grants.get(hold.grant).is_none() {
            return Verdict::TooOld;
        } else {
            let kept = Some(Box::new(KeptWith::Answer(kept)));
            let (keeps_rest, clicked) = (false, false);
            let record = Record::Resolved {
                hold,
                verdict,
                amount,
                at_ms,
                origin,
                keeps_rest,
                clicked,
                kept,
            };
            self.book(record, out);
        }
        self.counts.keys_kept += 1;
        if let Some(claim) = self.claims.end(worker, key) {
            answer_all(claim, verdict, &answer, out);
        }
        verdict
    }

    /// Judges a resolve; where it books something, the answer is kept in the same record.
    fn resolve_keyed(
        &mut self,
        worker: u16,
        request: ResolveRequest,
        (key, answer): (u128, Box<[u8]>),
        out: &mut Out,
    ) -> Resolution {
        // Without a claim, nothing says that no other asker does the same.
        let Some(digest) = self.claims.digest(worker, key) else {
            return Resolution::refused(Verdict::Busy);
        };
        if answer.len() > ANSWER_BYTES_MAX {
            return Resolution::refused(Verdict::BadAmount);
        }
        let before = self.answers.made();
        let kept = Kept { key, digest, answer: answer.clone() };
        let kept = Box::new(KeptWith::Answer(kept));
        let resolution = self.resolve(request, Some(kept), out);
        if self.answers.made() > before {
            self.counts.keys_kept += 1;
            if let Some(claim) = self.claims.end(worker, key) {
                answer_all(claim, resolution.verdict, &answer, out);
            }
        }
        resolution
    }
}

pub(super) fn answer_all(claim: Claim, verdict: Verdict, answer: &[u8], out: &mut Out) {
    for Asker { worker, reply } in claim.waiting {
        out.claimed.push((worker, reply, Claimed::Answer { verdict, answer: answer.into() }));
    }
}
