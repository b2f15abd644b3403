//! A hold: money that is reserved, until it is settled or released.

use std::sync::Arc;
use std::time::{Duration, Instant};

use money::{Amount, Unit};
use wire::Action;

use crate::client::{Decision, Inner};
use crate::outbox::{Order, Waiter};
use crate::{Error, Token, Verdict};

/// What became of a confirm, settle or release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Booked, a final no, or [`Verdict::PENDING`].
    pub verdict: Verdict,
    /// It was booked before: this is the first answer again.
    pub repeat: bool,
}

/// What became of a later end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extended {
    /// [`Verdict::EXTENDED`], or why not.
    pub verdict: Verdict,
    /// The end was as late before.
    pub repeat: bool,
    /// When the hold ends, in milliseconds since 1970; 0 unless extended.
    pub deadline_ms: u64,
}

impl Extended {
    pub(crate) fn no(verdict: Verdict) -> Extended {
        Extended { verdict, repeat: false, deadline_ms: 0 }
    }
}

/// Money that is reserved. It is settled or released; one that is dropped is released, and the client logs a line about it.
#[derive(Debug)]
#[must_use = "a hold that is dropped is released"]
pub struct Hold {
    inner: Arc<Inner>,
    budget: u64,
    token: Token,
    unit: Option<Unit>,
    request_id: u64,
    issuer: Option<usize>,
    done: bool,
}

impl Hold {
    pub(crate) fn new(
        inner: &Arc<Inner>,
        ask: &crate::Ask,
        token: Token,
        request_id: u64,
        issuer: Option<usize>,
    ) -> Hold {
        let (inner, budget, unit) = (Arc::clone(inner), ask.budget, ask.unit);
        Hold { inner, budget, token, unit, request_id, issuer, done: false }
    }

    /// Its token, which another process can settle.
    #[must_use]
    pub fn token(&self) -> Token {
        self.token
    }

    /// The unit that was asked in, where the ask named one.
    #[must_use]
    pub fn unit(&self) -> Option<Unit> {
        self.unit
    }

    /// The name of its request.
    #[must_use]
    pub fn request_id(&self) -> u64 {
        self.request_id
    }

    /// Keeps the hold until its billing deadline: the money is going to be spent, and how much is known later.
    ///
    /// Repeated until a node answers; waits as long as the options say.
    ///
    /// # Errors
    /// The hold is done, the client is closed or has too much unanswered, or the spool cannot be written.
    pub fn confirm(&mut self) -> Result<Outcome, Error> {
        self.resolve(Action::Confirm, 0, self.inner.options.wait)
    }

    /// Moves the end of the hold to so long from now, from a second to the node's billing time, unless its end is later already; one that
    /// is not confirmed is confirmed by it. So a program that dies has its money back soon, and one that works on renews its hold.
    ///
    /// Repeated until a node answers, or the wait of the options is over: [`Verdict::TIMEOUT`] or [`Verdict::UNREACHABLE`] then, and
    /// nothing goes on. Of a node that is too old for it: [`Verdict::UNSUPPORTED`].
    ///
    /// # Errors
    /// The hold is done.
    pub fn extend(&mut self, to: Duration) -> Result<Extended, Error> {
        self.extend_within(to, self.inner.options.wait)
    }

    /// As [`Hold::extend`], but waits only so long.
    ///
    /// # Errors
    /// As for [`Hold::extend`].
    pub fn extend_within(&mut self, to: Duration, wait: Duration) -> Result<Extended, Error> {
        if self.done {
            return Err(Error::Done);
        }
        let confirm_ms = u32::try_from(to.as_millis()).unwrap_or(u32::MAX);
        let until = Instant::now() + wait;
        Ok(self.inner.extend(self.token, confirm_ms, self.issuer, until))
    }

    /// Books what was spent, in the unit's base. Nothing happens to the hold afterwards.
    ///
    /// Repeated until a node answers, and booked once; waits as long as the options say, then answers [`Verdict::PENDING`] while the
    /// client goes on by itself.
    ///
    /// # Errors
    /// As for [`Hold::confirm`]. The hold is as it was then.
    pub fn settle(&mut self, amount: Amount) -> Result<Outcome, Error> {
        self.resolve(Action::Settle, amount.get(), self.inner.options.wait)
    }

    /// Books what was spent, in exact decimal text of the unit that was asked in.
    ///
    /// # Errors
    /// The text is no amount of the unit, or the ask named none; otherwise as for [`Hold::settle`].
    pub fn settle_text(&mut self, amount: &str) -> Result<Outcome, Error> {
        let none = || Error::Amount("the ask named no unit: settle in base units".to_string());
        let amount = self.unit.ok_or_else(none)?.parse_amount(amount)?;
        self.settle(amount)
    }

    /// Gives the money back.
    ///
    /// # Errors
    /// As for [`Hold::confirm`].
    pub fn release(&mut self) -> Result<Outcome, Error> {
        self.resolve(Action::Release, 0, self.inner.options.wait)
    }

    /// As [`Hold::confirm`], [`Hold::settle`] and [`Hold::release`], but waits only so long.
    ///
    /// # Errors
    /// As for [`Hold::confirm`].
    pub fn resolve_within(
        &mut self,
        action: Action,
        amount: Amount,
        wait: Duration,
    ) -> Result<Outcome, Error> {
        self.resolve(action, amount.get(), wait)
    }

    /// Gives the hold away: whoever gets the token settles or releases it.
    pub fn into_token(mut self) -> Token {
        self.done = true;
        self.token
    }

    /// Confirms a hold that was just granted. One that cannot be confirmed in time is released.
    pub(crate) fn confirmed(mut self, until: Instant) -> Result<Decision, Error> {
        let left = until.saturating_duration_since(Instant::now());
        let verdict = self.resolve(Action::Confirm, 0, left)?.verdict;
        if verdict == Verdict::CONFIRMED {
            return Ok(Decision::Granted(self));
        }
        self.push(Action::Release, 0, None)?;
        self.done = true;
        let late = verdict == Verdict::PENDING;
        Ok(Decision::Refused(if late { Verdict::TIMEOUT } else { verdict }))
    }

    fn resolve(&mut self, action: Action, amount: i64, wait: Duration) -> Result<Outcome, Error> {
        if self.done {
            return Err(Error::Done);
        }
        let waiter = Arc::new(Waiter::default());
        self.push(action, amount, Some(Arc::clone(&waiter)))?;
        self.done = action != Action::Confirm;
        let answer = waiter.wait(wait);
        let (verdict, repeat) = answer.unwrap_or((Verdict::PENDING, false));
        Ok(Outcome { verdict, repeat })
    }

    fn push(&self, action: Action, amount: i64, waiter: Option<Arc<Waiter>>) -> Result<(), Error> {
        let (token, request_id, issuer) = (self.token, self.request_id, self.issuer);
        let order = Order { token, action, amount, request_id, issuer };
        self.inner.outbox.push(order, waiter, &self.inner.options)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        let (budget, request) = (self.budget, self.request_id);
        let what = match self.push(Action::Release, 0, None) {
            Ok(()) => "it is released".to_string(),
            Err(error) => format!("it cannot be released ({error}) and ends with its deadline"),
        };
        let text = format!(
            "a hold on budget {budget}, request {request}, was neither settled nor released: {what}"
        );
        (self.inner.options.log)(&text);
    }
}
