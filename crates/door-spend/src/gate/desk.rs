//! How a worker judges calls: what can be answered at once is, the rest goes on step by step as the bank answers.
//!
//! ```text
//!  Begin ── a key: is it claimed? ──▶ Find ── which budget? ──▶ Judge ── amount, plan, purse ──▶ Seal ── confirm, settle, release
//!                                      │ made from a template      │ money that is not at hand       ▼
//!                                      ▼                           ▼                              outcome
//!                                   the bank                    the bank
//! ```
//!
//! Entries of a batch are judged in their order. What an entry needs to know before is asked for at once, whatever its place; then it waits for
//! its turn. If money came back since its question, it asks for its money anew then.

use std::sync::Arc;

use access::Principal;
use ledger::{
    Action, Amount, Claimed, Door as Origins, Handled, Hold, Origin, Owner, Resolution, TimedFacts,
    UsedUp, WindowUsedUp,
};
use money::{ASK_MAX, ParseAmountError, Unit};
use weir_till::{Ask, DueQueue, FillWait, Reply, Till, Waits};
use wire::{BudgetName, Verdict};

use super::counts::{CallCounts, Happening};
use super::grants::Grants;
use super::returns::Returns;
use super::terms::SpendTerms;
use super::waiting::{EntryState, FILLS_MAX, Fill, Job, Next, WaitingCalls};
use crate::{Call, CallKind, Fault, Field, Outcome, Subject};

const KEY_REUSED: &str = "the same Idempotency-Key came with another body, and what the first one booked stands; use a new key";

pub(super) const ORIGIN: Origin = Origin { door: Origins::Spend, request_id: 0 };

/// How often a call doubts what the bank said because money came back since: where others give back without end, it is told no all the same.
const DOUBTS_A_CALL_MAX: u8 = 2;

/// What stands behind the protocol.
pub(crate) struct Desk {
    /// The door's place among the worker's doors.
    pub(crate) number: u8,
    pub(crate) terms: Arc<SpendTerms>,
    pub(crate) grants: Grants,
    pub(crate) waiting: WaitingCalls,
    /// Calls that wait for an echo behind what they want of the bank, for their money, or for the end of their time.
    pub(crate) fills: DueQueue<Fill>,
    /// Money that calls gave back, which the bank's earlier words do not know.
    pub(crate) returns: Returns,
    pub(crate) counts: CallCounts,
    /// Numbers asks that have no number of their own: a plan's coin is a hash of it.
    pub(crate) asks: u64,
    /// Work space: outcomes whose tokens are to be sealed.
    pub(crate) places: Vec<u16>,
    /// Work space: calls that wait no longer for money.
    pub(crate) due: Vec<Reply>,
    /// Confirmed holds whose answer reached nobody.
    pub(crate) abandoned: Vec<Hold>,
}

/// Why a call ends here, or that it does not.
pub(crate) type OrOutcome<T> = Result<T, Outcome>;

fn refused<T>(verdict: Verdict) -> OrOutcome<T> {
    Err(Outcome::refused(verdict))
}

/// The budget of this name, if it is known here. Grants that are made from it now are set to what this run is.
pub(crate) fn find(till: &Till, name: BudgetName<'_>) -> Option<Owner> {
    let found = till.find(name)?;
    let unit = Unit::from_code(found.unit).ok().flatten()?;
    let billing_ms = till.facts.billing_ms.into();
    Some(Owner { slot: found.slot, id: found.id, unit, billing_ms })
}

/// What is answered of a budget that is not known here: there is none, or nobody knows yet.
pub(super) fn unknown(till: &Till) -> Outcome {
    match till.unknown() {
        Verdict::Busy => Outcome::Starting,
        verdict => Outcome::refused(verdict),
    }
}

/// What an ask's amount comes to in the budget's unit, if that can be asked of the budget at all.
pub(super) fn asked(till: &Till, call: &Call, owner: Owner) -> OrOutcome<Amount> {
    let parsed = amount_of(call, owner.unit);
    // Also where the amount cannot be read the unit is told that it is to be read in.
    let amount = parsed.as_ref().map_or(Amount::new(1), |amount| *amount);
    match till.check(owner.slot, call.unit.unwrap_or_default(), amount) {
        Ok(()) => parsed,
        Err(Verdict::BadAmount) => Err(out_of_range(call, owner.unit)),
        Err(Verdict::UnitMismatch) => Err(other_unit(call, owner.unit)),
        Err(verdict) => refused(verdict),
    }
}

/// What a settle books: without an amount the whole hold.
fn spent(call: &Call, unit: Unit, held: Amount, factor_max: u64) -> OrOutcome<Amount> {
    if call.amount.is_none() {
        return Ok(held);
    }
    let amount = amount_of(call, unit)?;
    if !amount.is_ask() && amount != Amount::ZERO {
        return Err(out_of_range(call, unit));
    }
    within_factor(call, amount, held, unit, factor_max)
}

/// What a hold has set aside: a token of several budgets does not say it.
fn set_aside(job: &Job, hold: &Hold) -> Amount {
    job.timed.map_or(hold.amount, |timed| timed.amount)
}

fn other_unit(call: &Call, unit: Unit) -> Outcome {
    let named = call.unit.and_then(|code| Unit::from_code(code).ok().flatten());
    let field = Field::new("unit", named.map(Unit::as_str), unit.as_str());
    let detail = format!("member \"unit\": the budget counts in {unit}");
    Outcome::of_field(Verdict::UnitMismatch, &detail, field)
}

fn out_of_range(call: &Call, unit: Unit) -> Outcome {
    let least = unit.format(Amount::new(i64::from(call.kind.asks())));
    let most = unit.format(ASK_MAX);
    bad_amount(call, &format!("{least} to {most} {unit}"))
}

/// The amount that a call names, in the budget's unit.
fn amount_of(call: &Call, unit: Unit) -> OrOutcome<Amount> {
    let Some(text) = &call.amount else { return Ok(Amount::ZERO) };
    match unit.parse_amount(text.as_str()) {
        Ok(amount) => Ok(amount),
        Err(ParseAmountError::TooLarge { .. }) => Err(out_of_range(call, unit)),
        Err(error) => {
            let most = unit.decimals();
            let expected = match most {
                0 => format!("a whole number of {unit}, without a point"),
                _ => format!("at most {most} decimals, as {unit} has"),
            };
            let field = Field::new("amount", Some(text.as_str()), &expected);
            Err(Outcome::of_field(Verdict::BadAmount, &error.to_string(), field))
        }
    }
}

/// The amount is told as it was written.
fn bad_amount(call: &Call, expected: &str) -> Outcome {
    let found = call.amount.as_ref().map_or("", |text| text.as_str());
    let detail = format!("member \"amount\": found {found:?}, expected {expected}");
    let field = Field::new("amount", Some(found), expected);
    Outcome::of_field(Verdict::BadAmount, &detail, field)
}

/// Is a settle within so many times its hold? Where it is far more, somebody put a point in the wrong place.
fn within_factor(
    call: &Call,
    amount: Amount,
    held: Amount,
    unit: Unit,
    factor_max: u64,
) -> OrOutcome<Amount> {
    let most = i128::from(held.get()) * i128::from(factor_max);
    if factor_max == 0 || i128::from(amount.get()) <= most {
        return Ok(amount);
    }
    let most = Amount::new(i64::try_from(most).unwrap_or(i64::MAX));
    let expected = format!(
        "at most {} {unit}, {factor_max} times the hold (spend.over_factor_max); nothing was booked now and the hold is as it was; what was \
         really spent is booked with a spend",
        unit.format(most)
    );
    Err(bad_amount(call, &expected))
}

/// `busy`, with the limit that was met.
pub(crate) fn full(limit: &str) -> Outcome {
    Outcome::told(Verdict::Busy, limit)
}

impl Desk {
    /// How long a call waits for money, ms.
    pub(super) fn wait_ms(&self, call: &Call) -> u64 {
        call.wait_ms.map_or(self.terms.wait_ms, u64::from)
    }

    /// The outcome of a call that need not wait for anything, its token still to be sealed; `None`: it must wait.
    #[inline]
    pub(crate) fn at_once(
        &mut self,
        till: &mut Till,
        principal: Option<&Arc<Principal>>,
        call: &Call,
    ) -> Option<Outcome> {
        if call.keyed.is_some() || call.asks_for_row() {
            return None;
        }
        let name = match &call.subject {
            Subject::Budget(budget) => budget.name(),
            Subject::Budgets(_) => return None,
            Subject::Hold(token) => {
                let why = till.sealing().err()?;
                let opened = till.open_token(token);
                return Some(Outcome::refused(opened.err().unwrap_or(why)));
            }
        };
        let Some(owner) = find(till, name) else {
            let may_be_made = matches!(name, BudgetName::Handle(_));
            return (!may_be_made).then(|| unknown(till));
        };
        match self.check(till, principal, call, (owner, None)) {
            Err(outcome) => Some(outcome),
            Ok(amount) => {
                let waits = self.wait_ms(call) > 0 && !till.is_at_hand(owner.slot, amount);
                if waits || call.confirm || call.kind == CallKind::Spend {
                    return None;
                }
                Some(match self.reserve(till, call, owner, amount) {
                    Ok(hold) => granted(till, &hold, owner.unit),
                    Err(outcome) => outcome,
                })
            }
        }
    }

    /// May the caller ask this of the budget? The amount, if so. A hold of a budget outside of its scopes is not there either: that is for the
    /// bank to say, before it books; here nothing is said of a budget that the caller may not name.
    fn check(
        &mut self,
        till: &Till,
        principal: Option<&Arc<Principal>>,
        call: &Call,
        (owner, held): (Owner, Option<Amount>),
    ) -> OrOutcome<Amount> {
        let amount = match (call.kind, held) {
            (CallKind::Reserve | CallKind::Spend, _) => asked(till, call, owner),
            (CallKind::Settle, Some(held)) => {
                spent(call, owner.unit, held, self.terms.over_factor_max)
            }
            _ => Ok(Amount::ZERO),
        };
        if (held.is_none() || amount.is_err()) && !till.allows(principal, owner.id) {
            self.counts.add(Happening::OutOfScope);
            return Err(unknown(till));
        }
        let amount = amount?;
        till.sealing().map_or_else(refused, |()| Ok(amount))
    }

    /// Judges an ask: does its plan allow it, is the money there.
    #[inline]
    fn reserve(
        &mut self,
        till: &mut Till,
        call: &Call,
        owner: Owner,
        amount: Amount,
    ) -> OrOutcome<Hold> {
        self.asks += 1;
        let slot = owner.slot;
        let ask = Ask { slot, amount, coin: u64::from(till.number) << 48 | self.asks };
        let held = match call.hold_ms {
            Some(hold_ms) => till.reserve_for(&ask, hold_ms),
            None => till.reserve(&ask),
        };
        match held {
            Ok(hold) => {
                self.grants.put(hold.grant, owner);
                Ok(hold)
            }
            Err(why) => {
                till.refused(slot, why);
                if why == Verdict::Busy {
                    return Err(full(&self.terms.full.grants));
                }
                let why = self.last_word(till, call, slot, why);
                let budget = call.budgets().first().copied();
                let outcome = too_much(till, owner, amount, why);
                Err(outcome.by(|limit| limit.budget = budget))
            }
        }
    }

    /// The reason to give to an ask that was refused. One that does not wait hears the bank's last word, which may be older than what came
    /// back: that is no final word.
    fn last_word(&mut self, till: &mut Till, call: &Call, slot: u32, why: Verdict) -> Verdict {
        let is_limit =
            matches!(why, Verdict::Exhausted | Verdict::DayExhausted | Verdict::WindowExhausted);
        if !is_limit || self.wait_ms(call) > 0 {
            return why;
        }
        let now_ms = till.clock.steady_ms();
        self.returns.look(now_ms);
        if !self.returns.doubts(slot, now_ms) {
            return why;
        }
        till.doubt(slot);
        Verdict::PurseEmpty
    }

    /// Another configuration is in force: limits may have been raised.
    pub(crate) fn configured(&mut self, now_ms: u64) {
        self.grants = Grants::default();
        self.returns.note(now_ms);
    }

    /// Begins a call, whose place in its request is the next.
    pub(crate) fn begin(
        &mut self,
        till: &mut Till,
        reply: Reply,
        principal: Option<&Arc<Principal>>,
        call: &Call,
    ) -> EntryState {
        let mut job = Box::new(Job::new(call.clone()));
        match self.drive(till, reply, principal, &mut job) {
            Some(outcome) => {
                self.finish(till, &job, &outcome);
                EntryState::Done(outcome)
            }
            None => EntryState::Waits(job),
        }
    }

    /// Puts a call back that was taken, with its outcome if it has one.
    pub(crate) fn put_back(
        &mut self,
        till: &mut Till,
        reply: Reply,
        job: Box<Job>,
        outcome: Option<Outcome>,
    ) {
        match outcome {
            Some(outcome) => {
                self.finish(till, &job, &outcome);
                self.waiting.close(reply, &job, outcome);
            }
            None => self.waiting.put(reply, job),
        }
    }

    /// Judges the entries of a request that waited until all before them were judged.
    pub(crate) fn take_turns(&mut self, till: &mut Till, index: u32) {
        while let Some(entry) = self.waiting.next_turn(index) {
            let reply = Reply { door: self.number, index, entry };
            let Some((mut job, principal)) = self.waiting.take(reply) else { return };
            let outcome = self.drive(till, reply, principal.as_ref(), &mut job);
            self.put_back(till, reply, job, outcome);
        }
    }

    /// Takes a call as far as it comes: its outcome, or `None`, and the bank's answer takes it on.
    pub(crate) fn drive(
        &mut self,
        till: &mut Till,
        reply: Reply,
        principal: Option<&Arc<Principal>>,
        job: &mut Job,
    ) -> Option<Outcome> {
        self.step(till, reply, principal, job).err()
    }

    /// `Ok`: it waits.
    fn step(
        &mut self,
        till: &mut Till,
        reply: Reply,
        principal: Option<&Arc<Principal>>,
        job: &mut Job,
    ) -> OrOutcome<()> {
        if job.next == Next::Begin {
            job.next = Next::Find;
            if let Some(keyed) = job.call.keyed {
                till.claim(reply, keyed.key, keyed.digest, !job.call.kind.asks());
                return Ok(());
            }
        }
        if job.call.asks_for_row() {
            return self.ask_row(till, reply, principal, job);
        }
        if let (CallKind::Extend | CallKind::Confirm, Subject::Hold(token)) =
            (job.call.kind, &job.call.subject)
        {
            let hold = till.open_token(token).map_err(Outcome::refused)?;
            if job.call.kind == CallKind::Extend || hold.grant == 0 {
                return self.ask_later(till, reply, principal, (job, hold));
            }
        }
        // The budget that it waited with may have been idle for too long meanwhile: it is found anew, or made anew.
        let has_ended = |owner: Owner| !till.is_live(owner.slot, owner.id);
        if job.call.kind.asks() && job.hold.is_none() && job.owner.is_some_and(has_ended) {
            job.next = Next::Find;
        }
        if job.next == Next::Find {
            job.owner = self.find(till, reply, principal, job)?;
            if job.owner.is_none() {
                job.next = Next::Judge;
                return Ok(());
            }
        }
        // Also where its turn has come: it may wait for money once more.
        job.next = Next::Judge;
        let Some(owner) = job.owner else { return Err(unknown(till)) };
        let held = job.hold.map(|hold| set_aside(job, &hold));
        let amount = self.check(till, principal, &job.call, (owner, held))?;
        let is_ask = job.call.kind.asks();
        if is_ask && self.waits_for_money(till, reply, job, owner, amount) {
            return Ok(());
        }
        if !self.waiting.is_next(reply) {
            job.wait_for_turn(till.clock.steady_ms());
            return Ok(());
        }
        if is_ask {
            let hold = self.reserve(till, &job.call, owner, amount)?;
            job.hold = Some(hold);
            if job.call.kind == CallKind::Reserve && !job.call.confirm && job.call.keyed.is_none() {
                return Err(sealed(till, &hold, owner.unit, hold.deadline_ms));
            }
        }
        let Some(hold) = job.hold else { return refused(Verdict::Forged) };
        tell_bank(till, reply, principal, job, (hold, owner, amount));
        let gives_back = match job.call.kind {
            CallKind::Release => true,
            CallKind::Settle => amount < set_aside(job, &hold),
            _ => false,
        };
        if gives_back {
            self.returns.note(till.clock.steady_ms());
        }
        Ok(())
    }

    /// What became of the claim of a call's key: the outcome, where somebody else had done it.
    pub(crate) fn claimed(&self, job: &mut Job, claimed: Claimed) -> Option<Outcome> {
        match claimed {
            Claimed::New => {
                job.claimed = true;
                None
            }
            Claimed::Conflict => Some(Outcome::Faulty(Fault::KeyReused, KEY_REUSED)),
            Claimed::Busy => Some(full(&self.terms.full.keys)),
            // Its token makes it safe to repeat: it is done as if it had no key.
            Claimed::Unkept => {
                job.call.keyed = None;
                None
            }
            Claimed::Answer { verdict, answer } => {
                job.again = true;
                Some(Outcome::kept(verdict, answer))
            }
        }
    }

    /// The budget that a call waited for is made: the outcome, where it is not.
    pub(crate) fn opened(&self, job: &mut Job, opened: Result<u32, Verdict>) -> Option<Outcome> {
        job.next = Next::Find;
        match opened {
            Ok(_) => None,
            Err(Verdict::Busy) => Some(full(&self.terms.full.templates)),
            Err(verdict) => Some(Outcome::refused(verdict)),
        }
    }

    /// Whose the grant is that a call's token names: the outcome, where nothing is known of it.
    pub(crate) fn owned(
        &mut self,
        job: &mut Job,
        owner: Option<Owner>,
        timed: Option<TimedFacts>,
    ) -> Option<Outcome> {
        let (Some(owner), Some(hold)) = (owner, job.hold) else {
            return Some(Outcome::refused(Verdict::TooOld));
        };
        // What ends by time is of no grant, or not any more.
        if timed.is_none() {
            self.grants.put(hold.grant, owner);
        }
        (job.owner, job.timed) = (Some(owner), timed);
        None
    }

    /// When a hold ends that was confirmed before, which may have been extended since.
    pub(crate) fn looked(
        &mut self,
        till: &mut Till,
        reply: Reply,
        job: &mut Job,
        timed: Option<TimedFacts>,
    ) -> Option<Outcome> {
        job.timed = timed;
        let (Some(hold), Some(owner)) = (job.hold, job.owner) else {
            return Some(Outcome::refused(Verdict::TooOld));
        };
        let deadline_ms = billed_ms(job, &hold, owner);
        self.conclude(till, reply, job, Outcome::Confirmed { repeat: true, deadline_ms })
    }

    /// A call has its outcome. A claim that is left is ended: nothing was booked under it, and nothing is kept.
    pub(crate) fn finish(&mut self, till: &mut Till, job: &Job, outcome: &Outcome) {
        // Nobody has the token of a hold that an ask made and could not have sealed.
        let is_refused = outcome.status() != 200 && job.call.kind.asks();
        self.abandoned.extend(job.hold.filter(|_| is_refused && job.next == Next::Seal));
        match job.again {
            true => self.counts.add(Happening::Kept),
            false => self.counts.outcome(job.call.kind, outcome),
        }
        if let (true, Some(keyed)) = (job.claimed, job.call.keyed) {
            // What is malformed has no verdict of the ledger; it is told with its own bytes.
            let verdict = outcome.verdict().unwrap_or(Verdict::BadAmount);
            till.answered(keyed.key, verdict, &outcome.to_tell());
        }
    }

    /// The budget of a call; `None`: the bank was asked.
    fn find(
        &mut self,
        till: &mut Till,
        reply: Reply,
        principal: Option<&Arc<Principal>>,
        job: &mut Job,
    ) -> OrOutcome<Option<Owner>> {
        match &job.call.subject {
            Subject::Budget(budget) => {
                if let Some(owner) = find(till, budget.name()) {
                    return Ok(Some(owner));
                }
                self.open(till, reply, principal, budget.name())?;
                Ok(None)
            }
            Subject::Budgets(_) => Err(unknown(till)),
            Subject::Hold(token) => {
                let hold = till.open_token(token).map_err(Outcome::refused)?;
                job.hold = Some(hold);
                let owner = self.grants.get(hold.grant);
                if owner.is_none() {
                    self.counts.add(Happening::Owners);
                    till.owner(hold, reply);
                }
                Ok(owner)
            }
        }
    }

    /// Asks the bank for a budget that is made on its first ask.
    pub(super) fn open(
        &mut self,
        till: &mut Till,
        reply: Reply,
        principal: Option<&Arc<Principal>>,
        name: BudgetName<'_>,
    ) -> OrOutcome<()> {
        let BudgetName::Handle(handle) = name else { return Err(unknown(till)) };
        till.open(principal, handle, reply).map_err(|verdict| match verdict {
            Verdict::Busy if till.is_starting() => Outcome::Starting,
            Verdict::Busy => full(&self.terms.full.openings),
            verdict => Outcome::refused(verdict),
        })
    }

    /// Asks the bank for money that is not at hand: true if the call waits for it. What a first filling is short of is asked for
    /// again, so that a call hears whether the budget has it.
    fn waits_for_money(
        &mut self,
        till: &mut Till,
        reply: Reply,
        job: &mut Job,
        owner: Owner,
        amount: Amount,
    ) -> bool {
        let now_ms = till.clock.steady_ms();
        let mut wait = job.wait.unwrap_or_else(|| FillWait::lasting(self.wait_ms(&job.call)));
        if self.fills.len() >= FILLS_MAX || till.is_at_hand(owner.slot, amount) {
            return false;
        }
        let is_first = !wait.has_asked();
        let waits = wait.ask(now_ms, || self.asks_bank(till, job, owner.slot, amount));
        job.wait = Some(wait);
        if let Waits::ForBank(_) = waits {
            if is_first {
                self.counts.add(Happening::Filled);
            }
            till.urgent = true;
        }
        let fill = Fill { reply, slot: Some(owner.slot), amount };
        self.fills.push_waiting(fill, waits).is_none()
    }

    /// Asks the bank for the money of a call; false: it has said that there is none, and nothing came back since.
    fn asks_bank(&mut self, till: &mut Till, job: &mut Job, slot: u32, amount: Amount) -> bool {
        let now_ms = till.clock.steady_ms();
        self.returns.look(now_ms);
        let is_doubted = job.doubts < DOUBTS_A_CALL_MAX;
        if is_doubted && self.returns.came_after(job.asked, slot, now_ms) {
            job.doubts += 1;
            till.doubt(slot);
        }
        let asks = till.call(slot, [amount]);
        match asks {
            true => job.asked = Some(self.returns.count()),
            false => job.asked.into_iter().for_each(|asked| self.returns.note_no(slot, asked)),
        }
        asks
    }

    /// Gives the money back that was confirmed for callers who went away before they heard of it, and that of asks which could not be
    /// sealed: once something can be sealed.
    pub(crate) fn release_abandoned(&mut self, till: &mut Till) {
        if till.sealing().is_err() {
            return;
        }
        // No request has so many entries: the answer is nobody's.
        let nobody = Reply { door: self.number, index: 0, entry: u32::MAX };
        for hold in self.abandoned.drain(..) {
            till.resolve(nobody, None, (Action::Release, hold, Amount::ZERO), ORIGIN);
            till.urgent = true;
        }
    }

    /// What a sealed answer of the bank means for the call: its outcome, or `None` where that is still to be kept.
    pub(crate) fn resolved(
        &mut self,
        till: &mut Till,
        reply: Reply,
        job: &mut Job,
        resolution: Resolution,
    ) -> Option<Outcome> {
        let verdict = resolution.verdict;
        // What it came to is known; where its grant was forgotten meanwhile, it is told and not kept.
        if job.next == Next::Keep {
            job.claimed &= verdict != Verdict::Granted;
            return job.kept.take();
        }
        let is_yes = crate::status_of(verdict) == 200;
        // What was booked or kept under a key has ended its claim.
        job.claimed &= resolution.is_repeat() || !is_yes;
        let Some((hold, owner)) = job.hold.zip(job.owner).filter(|_| is_yes) else {
            if verdict == Verdict::UnknownBudget {
                self.counts.add(Happening::OutOfScope);
            }
            let is_full = verdict == Verdict::Busy;
            let full = is_full.then(|| full(&self.terms.full.pages));
            return Some(full.unwrap_or_else(|| Outcome::refused(verdict)));
        };
        if let Some(kept) = job.kept.take() {
            return Some(kept);
        }
        if job.call.kind == CallKind::Confirm && resolution.is_repeat() {
            job.next = Next::Look;
            till.owner(hold, reply);
            return None;
        }
        let outcome = answer(till, job, (&hold, owner), resolution);
        self.conclude(till, reply, job, outcome)
    }

    /// The outcome of a call that is through, or `None` where that is still to be kept.
    pub(super) fn conclude(
        &mut self,
        till: &mut Till,
        reply: Reply,
        job: &mut Job,
        outcome: Outcome,
    ) -> Option<Outcome> {
        let Some((keyed, hold)) = job.call.keyed.filter(|_| job.claimed).zip(job.hold) else {
            return Some(outcome);
        };
        // Its token was used before, so nothing was recorded: whoever repeats it gets the same nevertheless.
        till.keep(reply, hold, ORIGIN, keyed.key, &outcome.to_keep());
        (job.kept, job.next) = (Some(outcome), Next::Keep);
        None
    }
}

/// The answer to an ask that the purse refused: with what is left, and from when on there is more, where the bank has said so.
fn too_much(till: &Till, owner: Owner, amount: Amount, why: Verdict) -> Outcome {
    let refused = Outcome::refused(why);
    if why == Verdict::PurseEmpty {
        let wait_ms =
            till.returns_ms(owner.slot, amount).map(|ms| ms.saturating_sub(till.at.now_ms));
        return wait_ms.map_or(refused, |ms| Outcome::refused_for(why, ms));
    }
    let is_limit =
        matches!(why, Verdict::Exhausted | Verdict::DayExhausted | Verdict::WindowExhausted);
    let used_up = till.used_up(owner.slot, amount).filter(|_| is_limit);
    let Some(UsedUp { left, window }) = used_up else { return refused };
    limited(till, why, (left, owner.unit), window)
}

/// The refusal of a limit, of which so much is left.
pub(super) fn limited(
    till: &Till,
    why: Verdict,
    (left, unit): (Amount, Unit),
    window: Option<WindowUsedUp>,
) -> Outcome {
    let refused = Outcome::refused(why);
    let Some(window) = window else { return refused.with_left(left, unit) };
    let name = window.period.name();
    match window.retry_at_ms {
        Some(at_ms) => {
            let wait_ms = at_ms.saturating_sub(till.at.now_ms);
            Outcome::refused_for(why, wait_ms).with_left_of(left, unit, name, at_ms)
        }
        None => refused.larger_than(window.limit, unit, name),
    }
}

/// Tells the bank what becomes of a call's hold: its answer is the call's.
fn tell_bank(
    till: &mut Till,
    reply: Reply,
    principal: Option<&Arc<Principal>>,
    job: &mut Job,
    (hold, owner, amount): (Hold, Owner, Amount),
) {
    // What an ask made here was judged here; of the hold that a token names the bank judges whose it is.
    let whose = principal.filter(|_| !job.call.kind.asks());
    let action = match job.call.kind {
        CallKind::Reserve | CallKind::Confirm | CallKind::Extend => Action::Confirm,
        CallKind::Settle | CallKind::Spend => Action::Settle,
        CallKind::Release => Action::Release,
    };
    job.spent = if action == Action::Settle { amount } else { Amount::ZERO };
    job.next = Next::Seal;
    let Some(keyed) = job.call.keyed else {
        till.resolve(reply, whose, (action, hold, job.spent), ORIGIN);
        till.urgent = true;
        return;
    };
    // All of it is known before it is sealed, but for the verdict of a settle, which is kept beside it.
    let (verdict, judged) = (Verdict::Settled, Handled::Now);
    let amount = (action == Action::Settle).then_some(job.spent);
    let new = Resolution { verdict, amount, judged };
    let first = answer(till, job, (&hold, owner), new);
    let kept = first.to_keep();
    job.kept = (job.call.kind == CallKind::Reserve).then_some(first);
    match job.call.kind == CallKind::Reserve && !job.call.confirm {
        true => till.keep(reply, hold, ORIGIN, keyed.key, &kept),
        false => {
            let what = (action, hold, job.spent);
            till.resolve_keyed(reply, whose, what, ORIGIN, keyed.key, &kept);
        }
    }
}

/// What a call is answered that is sealed. A settle says what is booked, which of a repeat need not be what it names.
fn answer(
    till: &Till,
    job: &Job,
    (hold, owner): (&Hold, Owner),
    resolution: Resolution,
) -> Outcome {
    let unit = owner.unit;
    let (Resolution { verdict, amount, .. }, repeat) = (resolution, resolution.is_repeat());
    match job.call.kind {
        CallKind::Reserve if job.call.confirm => {
            sealed(till, hold, unit, billed_ms(job, hold, owner))
        }
        CallKind::Reserve => sealed(till, hold, unit, hold.deadline_ms),
        CallKind::Confirm => {
            Outcome::Confirmed { repeat, deadline_ms: billed_ms(job, hold, owner) }
        }
        CallKind::Settle => Outcome::Settled { verdict, amount, unit, repeat },
        CallKind::Release => Outcome::Released { repeat },
        CallKind::Spend => Outcome::Spent { verdict, amount: job.spent, unit },
        CallKind::Extend => Outcome::Extended { repeat, deadline_ms: billed_ms(job, hold, owner) },
    }
}

/// Until when a hold lives that is confirmed, ms.
fn billed_ms(job: &Job, hold: &Hold, owner: Owner) -> u64 {
    let billed_ms = || ledger::billing_deadline_ms(hold.deadline_ms, owner.billing_ms);
    job.timed.map_or_else(billed_ms, |timed| timed.until_ms)
}

/// A grant whose token is written, and not sealed.
fn granted(till: &Till, hold: &Hold, unit: Unit) -> Outcome {
    let mut token = [0; 32];
    till.keys.write(hold, &mut token);
    Outcome::Granted { token, amount: hold.amount, unit, deadline_ms: hold.deadline_ms }
}

/// A grant with its token.
fn sealed(till: &Till, hold: &Hold, unit: Unit, deadline_ms: u64) -> Outcome {
    let mut token = [[0; 32]];
    till.keys.write(hold, &mut token[0]);
    till.keys.seal(&mut token, &[0], |token| token);
    Outcome::Granted { token: token[0], amount: hold.amount, unit, deadline_ms }
}
