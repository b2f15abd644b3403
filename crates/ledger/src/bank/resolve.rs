//! Confirm, settle and release: each hold is judged once, by the stamp of the request.

use wire::{Action, Verdict};

use super::{Bank, Out};
use crate::grant::{Grant, Mark};
use crate::{Amount, Door, Hold, KeptWith, Origin, Record};

#[derive(Clone, Copy, Debug)]
pub(super) struct ResolveRequest {
    pub(super) action: Action,
    pub(super) hold: Hold,
    pub(super) amount: Amount,
    pub(super) at_ms: u64,
    pub(super) origin: Origin,
}

/// What a request comes to.
enum Judgement {
    /// Something changes: the verdict, and what is booked.
    Book(Verdict, Amount),
    /// It was judged before; nothing changes.
    Repeat(Verdict),
    /// Nothing changes.
    Refuse(Verdict),
}

impl Bank {
    /// Judges a request that no worker read, as one from the admin door: by the bank's own clock. The answer may be given
    /// once the records are sealed. True: it is the first answer again, and nothing was booked.
    pub fn resolve_direct(
        &mut self,
        action: Action,
        hold: Hold,
        amount: Amount,
        origin: Origin,
        out: &mut Out,
    ) -> (Verdict, bool) {
        let at_ms = self.now_ms;
        self.resolve(ResolveRequest { action, hold, amount, at_ms, origin }, None, out)
    }

    /// Returns the verdict and whether it is a first answer given again. Where something is booked, `kept` is with it.
    pub(super) fn resolve(
        &mut self,
        request: ResolveRequest,
        kept: Option<Box<KeptWith>>,
        out: &mut Out,
    ) -> (Verdict, bool) {
        self.counts.resolves += 1;
        let ResolveRequest { action, hold, amount, at_ms, origin } = request;
        let Some(grant) = self.grants.get(hold.grant) else { return (Verdict::TooOld, false) };
        if action == Action::Settle && !(Amount::ZERO..=money::ASK_MAX).contains(&amount) {
            return (Verdict::BadAmount, false);
        }
        let slot = grant.slot;
        match judge(grant, &request) {
            Judgement::Refuse(verdict) => (verdict, false),
            Judgement::Repeat(verdict) => {
                self.counts.repeats += 1;
                (verdict, true)
            }
            Judgement::Book(..)
                if grant.needs_page(hold.seq) && self.pages >= self.options.pages_max =>
            {
                self.counts.pages_full += 1;
                (Verdict::Busy, false)
            }
            Judgement::Book(_, amount) if !self.can_book(slot, amount) => {
                self.counts.spent_full += 1;
                (Verdict::BadAmount, false)
            }
            Judgement::Book(verdict, amount) => {
                self.book(Record::Resolved { hold, verdict, amount, at_ms, origin, kept }, out);
                let debt = matches!(verdict, Verdict::SettledOver | Verdict::SettledLate);
                if debt || self.tolerates(slot) {
                    self.call_in(slot, out);
                }
                (verdict, false)
            }
        }
    }
}

impl Bank {
    /// May expired money of the budget have been handed out again? Then a settle of it can leave less than nothing.
    fn tolerates(&self, slot: u32) -> bool {
        self.chain(slot).any(|level| self.budget(level).spec.tolerance_ppm > 0)
    }

    /// Is the amount, on all levels, within what can be booked as spent?
    fn can_book(&self, slot: u32, amount: Amount) -> bool {
        let room = |level| crate::books::minus(Bank::SPENT_MAX, self.books(level).spent());
        amount == Amount::ZERO || self.chain(slot).all(|level| amount <= room(level))
    }
}

/// Does its time not matter, and is its money still set aside?
fn is_kept(grant: &Grant, mark: Mark, hold: &Hold) -> bool {
    match mark {
        Mark::Open => grant.keeps.unconfirmed && grant.has_unconfirmed(hold),
        Mark::Confirmed => grant.keeps.confirmed && grant.has_confirmed(hold),
        _ => false,
    }
}

/// The whole table of (what the hold is, what is asked, is it in time).
fn judge(grant: &Grant, request: &ResolveRequest) -> Judgement {
    let ResolveRequest { action, hold, amount, at_ms, origin } = *request;
    let mark = grant.mark(hold.seq);
    // A hold ends with its grant even where its token says more: after a restart with a clock that went back.
    // And a token of books that were lost since may name money that is not there: nothing to take, nothing alive.
    let in_time = match mark {
        Mark::Open => at_ms < hold.deadline_ms.min(grant.over_ms()) && grant.has_unconfirmed(&hold),
        Mark::Confirmed => at_ms < grant.billing_deadline_ms(hold.deadline_ms),
        _ => false,
    };
    // Where expired money is kept, a hold ends by reconciliation only. But only in time it gets a second clock.
    let alive = in_time || is_kept(grant, mark, &hold);
    match (mark, action) {
        (Mark::Open, Action::Confirm) if in_time => {
            Judgement::Book(Verdict::Confirmed, Amount::ZERO)
        }
        (Mark::Confirmed, Action::Confirm) => Judgement::Repeat(Verdict::Confirmed),
        // Notices pass through strangers: none of them takes back what was won, so it stays confirmed.
        (Mark::Confirmed, Action::Release) if origin.door == Door::Openrtb => {
            Judgement::Refuse(Verdict::Confirmed)
        }
        (Mark::Open | Mark::Confirmed, Action::Release) if alive => {
            Judgement::Book(Verdict::Released, Amount::ZERO)
        }
        (Mark::Released, Action::Release) => Judgement::Repeat(Verdict::Released),
        (Mark::Open | Mark::Confirmed, Action::Confirm | Action::Release) => {
            Judgement::Refuse(Verdict::Expired)
        }
        (Mark::Released, Action::Confirm) => Judgement::Refuse(Verdict::AlreadyReleased),
        (Mark::Open | Mark::Confirmed, Action::Settle) if alive && amount <= hold.amount => {
            Judgement::Book(Verdict::Settled, amount)
        }
        (Mark::Open | Mark::Confirmed, Action::Settle) if alive => {
            Judgement::Book(Verdict::SettledOver, amount)
        }
        // Spent although the hold was gone: a real debt.
        (Mark::Open | Mark::Confirmed | Mark::Released, Action::Settle) => {
            Judgement::Book(Verdict::SettledLate, amount)
        }
        (Mark::Settled, Action::Settle) => Judgement::Repeat(Verdict::Settled),
        (Mark::SettledOver, Action::Settle) => Judgement::Repeat(Verdict::SettledOver),
        (Mark::SettledLate, Action::Settle) => Judgement::Repeat(Verdict::SettledLate),
        (
            Mark::Settled | Mark::SettledOver | Mark::SettledLate,
            Action::Confirm | Action::Release,
        ) => Judgement::Refuse(Verdict::AlreadySettled),
    }
}
