//! Calls that no grant serves: an amount of several budgets, a hold with an end of its own, a later end. The bank judges them alone, and what it
//! answers is sealed.

use std::sync::Arc;

use access::Principal;
use ledger::timed::CHOSEN;
use ledger::{Amount, Hold, NamedError, Timed, TimedAnswer, TimedAsk, TimedRefusal};
use weir_till::{FillWait, Reply, Till, Waits};
use wire::Verdict;

use super::counts::Happening;
use super::desk::{Desk, ORIGIN, OrOutcome, asked, find, full, limited, unknown};
use super::waiting::{FILLS_MAX, Fill, Job, Next};
use crate::answer::{CONFIRMED, EXTENDED};
use crate::{BadCall, Budget, Call, CallKind, Outcome, Text};

/// What an ask of several budgets says wrong, by the budget that the bank names.
fn not_together(call: &Call, expected: &'static str) -> Outcome {
    let names: Vec<String> = call.budgets().iter().map(Budget::shown).collect();
    let found = Text::cut(&names.join(", "));
    Outcome::Bad(BadCall::Value { member: "budgets", found, expected })
}

const TWICE: &str = "each budget once";
const ABOVE: &str = "no budget above another one of the call: the lower one counts in it anyway, so name that alone";
const UNITS: &str = "budgets that count in one unit";

impl Desk {
    /// Asks the bank for a hold that ends by time. `Ok`: it waits.
    pub(super) fn ask_row(
        &mut self,
        till: &mut Till,
        reply: Reply,
        principal: Option<&Arc<Principal>>,
        job: &mut Job,
    ) -> OrOutcome<()> {
        job.next = Next::Find;
        if !self.find_legs(till, reply, principal, job)? {
            return Ok(());
        }
        let amount = self.check_legs(till, principal, job)?;
        till.sealing().map_err(Outcome::refused)?;
        // One that asks again had its turn.
        if job.wait.is_none() && !self.waiting.is_next(reply) {
            job.wait_for_turn(till.clock.steady_ms());
            return Ok(());
        }
        self.asks += 1;
        let coin = u64::from(till.number) << 48 | self.asks;
        let slots: Vec<u32> = job.legs.iter().map(|leg| leg.slot).collect();
        if let Err((place, why)) = till.plan_all(&slots, coin, amount) {
            till.refused(slots[place], why);
            return Err(of_leg(Outcome::refused(why), &job.call, place));
        }
        (job.spent, job.next) = (amount, Next::Seal);
        self.say_row(till, reply, job, amount);
        Ok(())
    }

    /// Looks all budgets up; false: the bank was asked for one that is made on its first ask.
    fn find_legs(
        &mut self,
        till: &mut Till,
        reply: Reply,
        principal: Option<&Arc<Principal>>,
        job: &mut Job,
    ) -> OrOutcome<bool> {
        job.legs.clear();
        for (place, budget) in job.call.budgets().iter().enumerate() {
            let found = find(till, budget.name());
            if found.is_none() {
                self.open(till, reply, principal, budget.name())
                    .map_err(|outcome| of_leg(outcome, &job.call, place))?;
                return Ok(false);
            }
            job.legs.extend(found);
        }
        Ok(true)
    }

    /// May the caller ask this of all of them? The amount, if so.
    fn check_legs(
        &mut self,
        till: &Till,
        principal: Option<&Arc<Principal>>,
        job: &Job,
    ) -> OrOutcome<Amount> {
        for (place, leg) in job.legs.iter().enumerate() {
            if !till.allows(principal, leg.id) {
                self.counts.add(Happening::OutOfScope);
                return Err(of_leg(unknown(till), &job.call, place));
            }
        }
        let first = job.legs[0];
        if job.legs.iter().any(|leg| leg.unit != first.unit) {
            return Err(not_together(&job.call, UNITS));
        }
        let amounts = job.legs.iter().enumerate().map(|(place, leg)| {
            asked(till, &job.call, *leg).map_err(|outcome| of_leg(outcome, &job.call, place))
        });
        amounts.collect::<OrOutcome<Vec<Amount>>>().map(|amounts| amounts[0])
    }

    fn say_row(&mut self, till: &mut Till, reply: Reply, job: &mut Job, amount: Amount) {
        let (call, unit, facts) = (&job.call, job.legs[0].unit, Arc::clone(&till.facts));
        let mark = [facts.run, u32::from(till.number)].map(u32::to_le_bytes).concat();
        let key = facts.answer_secret.digest(&[b"row", &mark, &self.asks.to_le_bytes()]) | CHOSEN;
        let hold = Hold::of_key(facts.node, key);
        let live_ms = match (call.confirm, call.confirm_ms) {
            (true, confirm_ms) => confirm_ms.unwrap_or(facts.billing_ms),
            (false, _) => call.hold_ms.unwrap_or(facts.hold_ms),
        };
        let until_ms = till.at.now_ms + u64::from(live_ms);
        let (state, first) = match (call.kind, call.confirm) {
            (CallKind::Spend, _) => {
                let verdict = Verdict::Settled;
                (verdict, Outcome::Spent { verdict, amount, unit })
            }
            (_, confirm) => {
                let mut token = [[0; 32]];
                till.keys.write(&hold, &mut token[0]);
                till.keys.seal(&mut token, &[0], |token| token);
                let state = if confirm { Verdict::Confirmed } else { Verdict::Granted };
                let deadline_ms = until_ms;
                (state, Outcome::Granted { token: token[0], amount, unit, deadline_ms })
            }
        };
        let keyed = call.keyed.map(|keyed| (keyed.key, first.to_keep().into()));
        let budgets = job.legs.iter().map(|leg| leg.id).collect();
        let ask = TimedAsk::Open { key, budgets, amount, until_ms, state };
        (job.row, job.kept) = (Some(hold), Some(first));
        // Its budgets were judged here.
        till.timed(reply, None, ask, ORIGIN, keyed);
    }

    /// Asks the bank for a later end, or to confirm a hold whose end it alone knows. `Ok`: it waits.
    pub(super) fn ask_later(
        &mut self,
        till: &mut Till,
        reply: Reply,
        principal: Option<&Arc<Principal>>,
        (job, hold): (&mut Job, Hold),
    ) -> OrOutcome<()> {
        till.sealing().map_err(Outcome::refused)?;
        if !self.waiting.is_next(reply) {
            job.wait_for_turn(till.clock.steady_ms());
            return Ok(());
        }
        (job.hold, job.next) = (Some(hold), Next::Seal);
        let live_ms = job.call.confirm_ms.unwrap_or(till.facts.billing_ms);
        let until_ms = till.at.now_ms + u64::from(live_ms);
        let confirms = job.call.kind == CallKind::Confirm;
        let form = if confirms { CONFIRMED } else { EXTENDED };
        let keyed = job.call.keyed.map(|keyed| (keyed.key, Box::from([form])));
        let ask = TimedAsk::Extend { hold, until_ms, confirms };
        till.timed(reply, principal, ask, ORIGIN, keyed);
        Ok(())
    }

    /// What the bank's answer means for the call: its outcome, or `None`: it waits on.
    pub(crate) fn timed(
        &mut self,
        till: &mut Till,
        reply: Reply,
        principal: Option<&Arc<Principal>>,
        job: &mut Job,
        answer: TimedAnswer,
    ) -> Option<Outcome> {
        match answer {
            Ok(timed) if job.call.kind.asks() => {
                // It is kept with what was booked.
                (job.claimed, job.hold) = (false, job.row);
                debug_assert_eq!(timed.judged, ledger::Handled::Now);
                job.kept.take()
            }
            Ok(Timed { until_ms: deadline_ms, judged, .. }) => {
                let repeat = judged == ledger::Handled::Before;
                job.claimed &= repeat;
                self.conclude(
                    till,
                    reply,
                    job,
                    match job.call.kind {
                        CallKind::Extend => Outcome::Extended { repeat, deadline_ms },
                        _ => Outcome::Confirmed { repeat, deadline_ms },
                    },
                )
            }
            Err(refusal) => {
                if job.call.kind.asks() {
                    let slots: Vec<u32> = job.legs.iter().map(|leg| leg.slot).collect();
                    till.unplan_all(&slots, job.spent);
                    job.kept = None;
                    if is_empty(&refusal) && self.waits_for_row(till, reply, job) {
                        return match job.next {
                            Next::Find => self.drive(till, reply, principal, job),
                            _ => None,
                        };
                    }
                }
                Some(self.no_row(till, job, refusal))
            }
        }
    }

    /// The money lies in purses, which are asked for it: is it asked for again? [`Next::Find`]: at once.
    fn waits_for_row(&mut self, till: &mut Till, reply: Reply, job: &mut Job) -> bool {
        let mut wait = job.wait.unwrap_or_else(|| FillWait::lasting(self.wait_ms(&job.call)));
        if !wait.has_asked() {
            self.counts.add(Happening::Filled);
        }
        let waits = wait.ask(till.clock.steady_ms(), || true);
        job.wait = Some(wait);
        match waits {
            Waits::No => false,
            Waits::ForTime(_) if self.fills.len() >= FILLS_MAX => false,
            Waits::ForBank(_) => {
                job.next = Next::Find;
                true
            }
            Waits::ForTime(until_ms) => {
                let (slot, amount) = (None, job.spent);
                self.fills.push_until(Fill { reply, slot, amount }, until_ms);
                true
            }
        }
    }

    fn no_row(&mut self, till: &Till, job: &Job, refusal: TimedRefusal) -> Outcome {
        let call = &job.call;
        match refusal {
            TimedRefusal::Leg { leg, why, left, window } => {
                let owner = job.legs[leg];
                till.refused(owner.slot, why);
                let is_limit = matches!(
                    why,
                    Verdict::Exhausted | Verdict::DayExhausted | Verdict::WindowExhausted
                );
                of_leg(
                    match is_limit {
                        true => limited(till, why, (left, owner.unit), window),
                        false => Outcome::refused(why),
                    },
                    call,
                    leg,
                )
            }
            TimedRefusal::Wrong(NamedError::Twice(_)) => not_together(call, TWICE),
            TimedRefusal::Wrong(NamedError::Above(_)) => not_together(call, ABOVE),
            TimedRefusal::Wrong(NamedError::Units(_)) => not_together(call, UNITS),
            // One that was made on its first ask has ended meanwhile.
            TimedRefusal::Wrong(_) => Outcome::refused(Verdict::UnknownBudget),
            TimedRefusal::No(Verdict::Busy) => full(&self.terms.full.rows),
            TimedRefusal::No(verdict) => {
                if verdict == Verdict::UnknownBudget {
                    self.counts.add(Happening::OutOfScope);
                }
                Outcome::refused(verdict)
            }
        }
    }
}

fn is_empty(refusal: &TimedRefusal) -> bool {
    matches!(refusal, TimedRefusal::Leg { why: Verdict::PurseEmpty, .. })
}

/// The refusal of one budget of a call, which it names as it was written.
fn of_leg(outcome: Outcome, call: &Call, place: usize) -> Outcome {
    outcome.by(|limit| limit.budget = call.budgets().get(place).copied())
}
