//! Confirm, settle and release: each hold is judged once, by the stamp of the request.

use wire::{Action, Verdict};

use super::{Bank, Out};
use crate::books::minus;
use crate::grant::Grant;
use crate::page::Mark;
use crate::{Amount, Door, Handled, Hold, KeptWith, Origin, Record, Resolution};

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
    /// It is a hold that ends by time now.
    Timed,
}

impl Bank {
    /// Judges a request that no worker read, as one from the admin door: by the bank's own clock. The answer may be given
    /// once the records are sealed.
    pub fn resolve_direct(
        &mut self,
        action: Action,
        hold: Hold,
        amount: Amount,
        origin: Origin,
        out: &mut Out,
    ) -> Resolution {
        let at_ms = self.now_ms;
        self.resolve(ResolveRequest { action, hold, amount, at_ms, origin }, None, out)
    }

    /// Where something is booked, `kept` is with it.
    pub(super) fn resolve(
        &mut self,
        request: ResolveRequest,
        kept: Option<Box<KeptWith>>,
        out: &mut Out,
    ) -> Resolution {
        self.counts.resolves += 1;
        let ResolveRequest { action, hold, amount, at_ms, origin } = request;
        let refused = Resolution::refused;
        let Some(grant) = self.grants.get(hold.grant) else {
            return self.resolve_other(&request, kept, out);
        };
        if action == Action::Settle && !(Amount::ZERO..=money::ASK_MAX).contains(&amount) {
            return refused(Verdict::BadAmount);
        }
        let (slot, page) = (grant.slot, grant.page(hold.seq));
        let (mark, was_clicked) = page.map_or((Mark::Open, false), |page| page.state(hold.seq));
        match judge(grant, mark, &request) {
            Judgement::Refuse(verdict) => refused(verdict),
            Judgement::Timed => self.resolve_other(&request, kept, out),
            Judgement::Repeat(verdict) => self.again(verdict, &request, kept.is_some(), out),
            Judgement::Book(..) if page.is_none() && self.pages >= self.options.pages_max => {
                self.counts.pages_full += 1;
                refused(Verdict::Busy)
            }
            Judgement::Book(_, amount) if !self.can_book(slot, amount) => {
                self.counts.spent_full += 1;
                refused(Verdict::BadAmount)
            }
            Judgement::Book(verdict, amount) => {
                let keeps_rest = origin.door == Door::Openrtb
                    && kept.is_none()
                    && verdict == Verdict::Settled
                    && self.keeps_rest(grant, &request);
                let clicked =
                    was_clicked && Mark::of(verdict).is_some_and(|mark| mark.is_settled());
                self.book(
                    Record::Resolved {
                        hold,
                        verdict,
                        amount,
                        at_ms,
                        origin,
                        keeps_rest,
                        clicked,
                        kept,
                    },
                    out,
                );
                let debt = matches!(verdict, Verdict::SettledOver | Verdict::SettledLate);
                if debt || self.tolerates(slot) {
                    self.call_in(slot, out);
                }
                Resolution { verdict, amount: Some(amount), judged: Handled::Now }
            }
        }
    }

    /// A hold of no grant that is known: one that ends by time, or nothing is known of it.
    #[cold]
    fn resolve_other(
        &mut self,
        request: &ResolveRequest,
        kept: Option<Box<KeptWith>>,
        out: &mut Out,
    ) -> Resolution {
        match self.timed_at(&request.hold) {
            Some(at) => self.resolve_timed(at, request, kept, out),
            None => Resolution::refused(Verdict::TooOld),
        }
    }

    /// Somebody clicked what was bought with a hold: counted once, when the hold is settled, whichever comes first. The answer says what
    /// the hold is; `Handled::Before` where it was clicked before.
    pub(super) fn clicked(
        &mut self,
        hold: Hold,
        at_ms: u64,
        origin: Origin,
        out: &mut Out,
    ) -> Resolution {
        let Some(grant) = self.grants.get(hold.grant) else {
            return Resolution::refused(Verdict::TooOld);
        };
        let found = grant.find_page(hold.seq);
        let (mark, was_clicked) = grant.state_in(found, hold.seq);
        let (verdict, amount) = (mark.verdict(), None);
        if was_clicked {
            return Resolution { verdict, amount, judged: Handled::Before };
        }
        if found.is_err() && self.pages >= self.options.pages_max {
            self.counts.pages_full += 1;
            return Resolution::refused(Verdict::Busy);
        }
        let billed = mark.is_settled();
        self.book(Record::Clicked { hold, billed, at_ms, origin }, out);
        Resolution { verdict, amount, judged: Handled::Now }
    }

    /// A request that was judged before. Of billing notices, and the exchange's bill, the highest price counts: what this one is higher is
    /// booked. At other doors, and under a key or with a memo, a repeat books nothing, whatever it says.
    #[cold]
    fn again(
        &mut self,
        verdict: Verdict,
        request: &ResolveRequest,
        is_kept: bool,
        out: &mut Out,
    ) -> Resolution {
        let spent =
            self.grants.get(request.hold.grant).and_then(|grant| grant.spent(&request.hold));
        let of_billing = request.action == Action::Settle
            && matches!(request.origin.door, Door::Openrtb | Door::Admin)
            && !is_kept;
        match spent {
            Some(spent) if of_billing && request.amount > spent => {
                return self.top_up(verdict, request, spent, out);
            }
            None if of_billing => self.counts.amounts_unknown += 1,
            _ => {}
        }
        self.counts.repeats += 1;
        Resolution { verdict, amount: spent, judged: Handled::Before }
    }

    /// Books what a billing notice is higher than what was booked for its hold, which had this verdict.
    fn top_up(
        &mut self,
        before: Verdict,
        request: &ResolveRequest,
        spent: Amount,
        out: &mut Out,
    ) -> Resolution {
        let ResolveRequest { hold, amount: total, at_ms, origin, .. } = *request;
        let Some(grant) = self.grants.get(hold.grant) else {
            return Resolution::refused(Verdict::TooOld);
        };
        let (slot, amount) = (grant.slot, minus(total, spent));
        let in_time = at_ms < grant.billing_deadline_ms(hold.deadline_ms);
        let in_time = in_time && before != Verdict::SettledLate;
        let of_rest = match in_time {
            true => grant.rest(&hold, spent).min(amount),
            false => Amount::ZERO,
        };
        let verdict = match in_time {
            true if of_rest == amount => Verdict::Settled,
            true => Verdict::SettledOver,
            false => Verdict::SettledLate,
        };
        if !self.can_top_up(slot, amount) {
            self.counts.spent_full += 1;
            return Resolution::refused(Verdict::BadAmount);
        }
        let uses_rest = of_rest > Amount::ZERO;
        let record = Record::ToppedUp { hold, verdict, amount, total, uses_rest, at_ms, origin };
        self.book(record, out);
        self.counts.topped_up += 1;
        if of_rest < amount {
            self.call_in(slot, out);
        }
        Resolution { verdict, amount: Some(total), judged: Handled::ToppedUp }
    }
}

impl Bank {
    /// Does a hold that is settled with less keep the rest? The price of a billing notice can be a stranger's, until its time is over. What
    /// it was must be known then, for which there is no room without end.
    fn keeps_rest(&self, grant: &Grant, request: &ResolveRequest) -> bool {
        self.options.keep_rests
            && request.amount < request.hold.amount
            && request.at_ms < grant.billing_deadline_ms(request.hold.deadline_ms)
            && self.amounts < self.options.amounts_max
    }

    /// May expired money of the budget have been handed out again? Then a settle of it can leave less than nothing.
    fn tolerates(&self, slot: u32) -> bool {
        self.chain(slot).any(|level| self.budget(level).spec.tolerance_ppm > 0)
    }

    /// As [`Bank::can_book`], which has one caller so that it is compiled into it.
    #[cold]
    fn can_top_up(&self, slot: u32, amount: Amount) -> bool {
        let spent = self.chain(slot).map(|level| self.books(level).spent()).max();
        spent.is_none_or(|spent| amount <= minus(Bank::SPENT_MAX, spent))
    }

    /// Is the amount, on all levels, within what can be booked as spent?
    fn can_book(&self, slot: u32, amount: Amount) -> bool {
        let room = |level| minus(Bank::SPENT_MAX, self.books(level).spent());
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
fn judge(grant: &Grant, mark: Mark, request: &ResolveRequest) -> Judgement {
    let ResolveRequest { action, hold, amount, at_ms, origin } = *request;
    let in_time = match mark {
        Mark::Open => grant.is_alive(&hold, at_ms),
        Mark::Confirmed => at_ms < grant.billing_deadline_ms(hold.deadline_ms),
        _ => false,
    };
    // Where expired money is kept, a hold ends by reconciliation only. But only in time it gets a second clock.
    let alive = in_time || is_kept(grant, mark, &hold);
    match (mark, action) {
        (Mark::Moved, _) => Judgement::Timed,
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
        (Mark::Settled | Mark::SettledKeepsRest, Action::Settle) => {
            Judgement::Repeat(Verdict::Settled)
        }
        (Mark::SettledOver, Action::Settle) => Judgement::Repeat(Verdict::SettledOver),
        (Mark::SettledLate, Action::Settle) => Judgement::Repeat(Verdict::SettledLate),
        (
            Mark::Settled | Mark::SettledOver | Mark::SettledLate | Mark::SettledKeepsRest,
            Action::Confirm | Action::Release,
        ) => Judgement::Refuse(Verdict::AlreadySettled),
    }
}
