//! Requests with keys: which are under way, and what the finished ones were answered.
//!
//! The answers are state: they follow from the records alone, in replay as live. An answer is forgotten when a later one is
//! recorded at least `answers_kept_ms` after it, and counts as forgotten before that for a claim with such a stamp. Nothing else
//! forgets one: where no room is left, new keys are refused, or done without an answer that is kept. How long that is may change from run
//! to run, so the digest of the state has only those answers that every setting keeps. The claims are of a run: a process that ends takes
//! its askers with it.

use std::collections::{BTreeMap, VecDeque};

use wire::Verdict;

use super::resolve::ResolveRequest;
use super::{Bank, Options, Out, ReplayError};
use crate::keyed::{ANSWER_BYTES_MAX, ANSWER_KEPT_MS_MIN, CLAIM_WAITERS_MAX, CLAIMS_MAX, caller};
use crate::page::Mark;
use crate::{
    Amount, Claimed, Hold, Kept, KeptWith, KeyBytes, Keyed, Origin, Part, Record, Resolution,
    ToWorker,
};

/// An answer that is kept.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct KeptAnswer {
    pub(super) kept: Kept,
    pub(super) verdict: Verdict,
    /// Never before that of an older one.
    pub(super) at_ms: u64,
}

/// The answers, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Answers {
    /// What keys are hashed under; `None` before the first run of this version.
    pub(super) secret: Option<KeyBytes>,
    in_order: VecDeque<KeptAnswer>,
    /// Number of the first one in `in_order`; numbers rise by one.
    first: u64,
    /// Hash of the key to number, of the newest.
    by_key: BTreeMap<u128, u64>,
    /// How many are in `in_order`, by caller.
    callers: BTreeMap<u32, usize>,
}

/// How many keys there are, with the claims under way.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    all: usize,
    /// Of them the caller's own.
    own: usize,
}

impl Answers {
    pub(super) fn len(&self) -> usize {
        self.in_order.len()
    }

    /// Number that the next one will have.
    fn next(&self) -> u64 {
        self.first + self.in_order.len() as u64
    }

    fn get(&self, key: u128, at_ms: u64, kept_ms: u64) -> Option<&KeptAnswer> {
        let place = usize::try_from(self.by_key.get(&key)? - self.first).ok()?;
        self.in_order.get(place).filter(|answer| at_ms < answer.at_ms + kept_ms)
    }

    /// How many are not over at an instant. Those of the caller are counted only where they may be more than `own_max`.
    fn taken(&self, caller: u32, at_ms: u64, kept_ms: u64, own_max: usize) -> Taken {
        let over = self.in_order.partition_point(|answer| answer.at_ms + kept_ms <= at_ms);
        let mut own = self.callers.get(&caller).copied().unwrap_or(0);
        if own >= own_max {
            let is_own = |answer: &&KeptAnswer| crate::keyed::caller(answer.kept.key) == caller;
            own -= self.in_order.iter().take(over).filter(is_own).count();
        }
        Taken { all: self.in_order.len() - over, own }
    }

    /// Those that every setting keeps, as far as the newest one says: what a digest can be made of.
    pub(super) fn certain(&self) -> impl Iterator<Item = &KeptAnswer> {
        let newest_ms = self.in_order.back().map_or(0, |last| last.at_ms);
        let over =
            self.in_order.partition_point(|answer| answer.at_ms + ANSWER_KEPT_MS_MIN <= newest_ms);
        self.in_order.iter().skip(over)
    }

    /// Would [`Answers::keep`] take it?
    pub(super) fn check(&self, kept: &Kept, at_ms: u64) -> Result<(), ReplayError> {
        let refused = ReplayError::Answer { key: kept.key };
        let is_free = self.get(kept.key, at_ms, ANSWER_KEPT_MS_MIN).is_none();
        let fits = kept.answer.len() <= ANSWER_BYTES_MAX && is_free;
        if fits { Ok(()) } else { Err(refused) }
    }

    /// Forgets what is over by then, and keeps one more.
    pub(super) fn keep(&mut self, kept: &Kept, verdict: Verdict, at_ms: u64, kept_ms: u64) {
        // Stamps of different workers need not rise.
        let at_ms = self.in_order.back().map_or(at_ms, |last| at_ms.max(last.at_ms));
        while let Some(old) =
            self.in_order.pop_front_if(|answer| answer.at_ms.saturating_add(kept_ms) <= at_ms)
        {
            // A newer one of its key may be there, where an earlier run kept answers for less long.
            if self.by_key.get(&old.kept.key) == Some(&self.first) {
                self.by_key.remove(&old.kept.key);
            }
            self.first += 1;
            less_one(&mut self.callers, caller(old.kept.key));
        }
        self.by_key.insert(kept.key, self.next());
        *self.callers.entry(caller(kept.key)).or_default() += 1;
        self.in_order.push_back(KeptAnswer { kept: kept.clone(), verdict, at_ms });
    }

    /// Are the index and the counts what the row says?
    pub(super) fn audit(&self) -> Result<(), String> {
        let ascending = self.in_order.iter().zip(self.in_order.iter().skip(1));
        if let Some((_, late)) = ascending.into_iter().find(|(one, next)| one.at_ms > next.at_ms) {
            return Err(format!("the answer to key {:032x} is out of order", late.kept.key));
        }
        let (mut newest, mut callers) = (BTreeMap::new(), BTreeMap::new());
        for (number, answer) in (self.first..).zip(&self.in_order) {
            newest.insert(answer.kept.key, number);
            *callers.entry(caller(answer.kept.key)).or_default() += 1;
        }
        let whole = newest == self.by_key && callers == self.callers;
        if whole { Ok(()) } else { Err("the index of answers is not that of its row".into()) }
    }

    pub(super) fn parts(&self, each: &mut dyn FnMut(Part)) {
        self.secret.into_iter().for_each(|secret| each(Part::AnswerSecret(secret)));
        for KeptAnswer { kept, verdict, at_ms } in &self.in_order {
            let (kept, verdict, at_ms) = (kept.clone(), *verdict, *at_ms);
            each(Part::Answer { kept, verdict, at_ms });
        }
    }
}

fn less_one(counts: &mut BTreeMap<u32, usize>, of: u32) {
    let Some(count) = counts.get_mut(&of) else { return };
    *count -= 1;
    if *count == 0 {
        counts.remove(&of);
    }
}

/// Who waits for a claim.
#[derive(Clone, Copy, Debug)]
struct Asker {
    worker: u16,
    reply: u64,
}

/// A request that is under way.
#[derive(Clone, Debug)]
struct Claim {
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

    fn begin(&mut self, key: u128, claim: Claim) {
        self.by_key.insert(key, claim);
        *self.callers.entry(caller(key)).or_default() += 1;
    }

    /// Ends a claim of this worker: whoever waits for it is told.
    fn end(&mut self, worker: u16, key: u128) -> Option<Claim> {
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
                let verdict = self.keep_grant(worker, (hold, origin), at_ms, (key, answer), out);
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
            Keyed::Forget { key } => self.pass_on(worker, key, out),
            Keyed::Memo(request) => self.step_memo(worker, *request, out),
        }
    }

    /// What a claim comes to; `None` if it waits.
    fn claim(&mut self, asker: Asker, (key, digest): (u128, u128), at_ms: u64) -> Option<Claimed> {
        let kept_ms = self.options.answers_kept_ms;
        if let Some(KeptAnswer { kept, verdict, .. }) = self.answers.get(key, at_ms, kept_ms) {
            if kept.digest != digest {
                self.counts.keys_reused += 1;
                return Some(Claimed::Conflict);
            }
            self.counts.keys_repeated += 1;
            return Some(Claimed::Answer { verdict: *verdict, answer: kept.answer.clone() });
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
    fn is_taken(&self, key: u128, at_ms: u64) -> bool {
        let Options { answers_max, answers_kept_ms, .. } = self.options;
        let (of, half) = (caller(key), answers_max.div_ceil(2));
        let own_claims = self.claims.callers.get(&of).copied().unwrap_or(0);
        let kept = self.answers.taken(of, at_ms, answers_kept_ms, half.saturating_sub(own_claims));
        let (all, own) = (kept.all + self.claims.by_key.len(), kept.own + own_claims);
        all >= answers_max || own >= half && all > own
    }

    /// The keys of callers, with those of claims under way: the caller's number and how many it has, the largest first.
    pub fn answers_by_caller(&self) -> Vec<(u32, usize)> {
        let mut all: Vec<(u32, usize)> =
            self.answers.callers.iter().map(|(caller, count)| (*caller, *count)).collect();
        all.sort_by_key(|(caller, count)| (std::cmp::Reverse(*count), *caller));
        all
    }

    /// Keeps the answer to a reservation with a key, in a record of its own: nothing else becomes of its hold now.
    fn keep_grant(
        &mut self,
        worker: u16,
        (hold, origin): (Hold, Origin),
        at_ms: u64,
        (key, answer): (u128, Box<[u8]>),
        out: &mut Out,
    ) -> Verdict {
        let claim = self.claims.by_key.get(&key).filter(|claim| claim.worker == worker);
        let Some(digest) = claim.map(|claim| claim.digest) else { return Verdict::Busy };
        if answer.len() > ANSWER_BYTES_MAX {
            return Verdict::BadAmount;
        }
        let Some(grant) = self.grants.get(hold.grant) else { return Verdict::TooOld };
        if grant.mark(hold.seq) != Mark::Open {
            return Verdict::AlreadySettled;
        }
        let (verdict, amount) = (Verdict::Granted, Amount::ZERO);
        let kept = Kept { key, digest, answer: answer.clone() };
        let kept = Some(Box::new(KeptWith::Answer(kept)));
        self.book(Record::Resolved { hold, verdict, amount, at_ms, origin, kept }, out);
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
        let claim = self.claims.by_key.get(&key).filter(|claim| claim.worker == worker);
        let Some(digest) = claim.map(|claim| claim.digest) else {
            return Resolution::refused(Verdict::Busy);
        };
        if answer.len() > ANSWER_BYTES_MAX {
            return Resolution::refused(Verdict::BadAmount);
        }
        let before = self.answers.next();
        let kept = Kept { key, digest, answer: answer.clone() };
        let kept = Box::new(KeptWith::Answer(kept));
        let resolution = self.resolve(request, Some(kept), out);
        if self.answers.next() > before {
            self.counts.keys_kept += 1;
            if let Some(claim) = self.claims.end(worker, key) {
                answer_all(claim, resolution.verdict, &answer, out);
            }
        }
        resolution
    }

    /// The asker is gone: the first of those who wait does it.
    fn pass_on(&mut self, worker: u16, key: u128, out: &mut Out) {
        let Some(mut claim) = self.claims.end(worker, key) else { return };
        let Some(next) = claim.waiting.pop_front() else { return };
        self.claims.waiting += claim.waiting.len();
        self.claims.begin(key, Claim { worker: next.worker, ..claim });
        out.claimed.push((next.worker, next.reply, Claimed::New));
    }
}

fn answer_all(claim: Claim, verdict: Verdict, answer: &[u8], out: &mut Out) {
    for Asker { worker, reply } in claim.waiting {
        out.claimed.push((worker, reply, Claimed::Answer { verdict, answer: answer.into() }));
    }
}
