//! Named holds that end by time: asked for, extended, resolved as a whole, and ended.
//!
//! A stamp decides what is in time, as of every hold; the sweep only frees money. So it takes a few rows in a turn, and no answer depends on
//! how far it is.

use wire::{Action, Verdict};

use super::apply::check_ms;
use super::keyed::answer_all;
use super::named::{Change, Changes, Short, TimedRow};
use super::resolve::ResolveRequest;
use super::{Bank, Budget, Out, ReplayError};
use crate::books::{minus, plus};
use crate::keyed::ANSWER_BYTES_MAX;
use crate::page::Mark;
use crate::{
    Amount, Door, Handled, Hold, Kept, KeptWith, Line, NamedError, NamedHold, NamedLeg, OnExpiry,
    Origin, Owner, Record, Resolution, Timed, TimedAnswer, TimedAsk, TimedChange, TimedFacts,
    TimedHold, TimedRefusal, TimedRequest, ToWorker, WindowUsedUp,
};

/// Rows that a turn ends or forgets at most: a few tenths of a millisecond.
const ENDS_A_TURN: usize = 128;
/// Whose the rows are that end by time.
const DOOR: Door = Door::Spend;

/// Who asks, when, and under which key.
struct TimedAsker {
    at_ms: u64,
    origin: Origin,
    kept: Option<Kept>,
}

impl Bank {
    /// Takes one message of a worker about a hold that ends by time. The answer waits for the records up to here, as messages do.
    pub fn step_timed(&mut self, worker: u16, request: TimedRequest, out: &mut Out) -> TimedAnswer {
        let TimedRequest { ask, at_ms, origin, keyed, .. } = request;
        let at_ms = self.stamp(worker, at_ms);
        let key = keyed.as_ref().map(|(key, _)| *key);
        let kept = match keyed {
            None => None,
            Some((key, answer)) => {
                let digest = self.claims.digest(worker, key);
                let digest = digest.ok_or(TimedRefusal::No(Verdict::Busy))?;
                // With the end behind it.
                if answer.len() + 8 > ANSWER_BYTES_MAX {
                    return Err(TimedRefusal::No(Verdict::BadAmount));
                }
                Some(Kept { key, digest, answer })
            }
        };
        let before = self.answers.made();
        let asker = TimedAsker { at_ms, origin, kept };
        let answer = match ask {
            TimedAsk::Open { .. } => self.open_timed(ask, asker, out),
            TimedAsk::Extend { hold, until_ms, confirms } => {
                self.extend_timed(hold, (until_ms, confirms), asker, out)
            }
        };
        if let (true, Some(key), Ok(timed)) = (self.answers.made() > before, key, &answer) {
            self.counts.keys_kept += 1;
            let kept = self.answers.get(key, at_ms, self.options.answers_kept_ms);
            let kept: Box<[u8]> = kept.map(|kept| kept.answer.into()).unwrap_or_default();
            if let Some(claim) = self.claims.end(worker, key) {
                answer_all(claim, timed.verdict, &kept, out);
            }
        }
        answer
    }

    /// What a door must know of a timed hold; `None`: nothing is known of it.
    pub fn timed_facts(&self, hold: &Hold) -> Option<TimedFacts> {
        let row = self.named_rows.timed(self.timed_at(hold)?)?;
        Some(TimedFacts { amount: row.amount, until_ms: row.until_ms })
    }

    /// What a door that is shown a token must know.
    pub(super) fn owner(&self, hold: &Hold, reply: u64) -> ToWorker {
        let Some(slot) = self.slots_of(hold).next() else {
            return ToWorker::Owner { reply, of: None };
        };
        let (id, unit) = (self.spec(slot).id, self.spec(slot).unit);
        if let Some(facts) = self.timed_facts(hold) {
            return ToWorker::TimedOwner { slot, id, unit, facts, reply };
        }
        let grant = self.grants.get(hold.grant);
        let of = grant.map(|grant| Owner { slot, id, unit, billing_ms: grant.billing_ms });
        ToWorker::Owner { reply, of }
    }

    /// The slots of the budgets that a hold draws on; none where nothing is known of it.
    pub fn slots_of<'a>(&'a self, hold: &Hold) -> impl Iterator<Item = u32> + use<'a> {
        let row = self.timed_at(hold).map(|at| self.named_rows.row(at));
        let grant = if row.is_none() { self.grants.get(hold.grant) } else { None };
        let legs = row.into_iter().flat_map(|row| row.legs().map(|leg| leg.slot));
        legs.chain(grant.map(|grant| grant.slot))
    }

    /// Named holds that end by time, those that are over and still known included.
    pub fn timed_holds(&self) -> impl Iterator<Item = TimedHold> {
        self.named_rows.all_timed().map(|(at, row)| self.told_timed(at, row))
    }

    /// The place of a hold that ends by time, or became one.
    pub(super) fn timed_at(&self, hold: &Hold) -> Option<u32> {
        let moved = |grant: &crate::grant::Grant| grant.mark(hold.seq) == Mark::Moved;
        let known = hold.grant == 0 || self.grants.get(hold.grant).is_none_or(moved);
        known.then(|| self.named_rows.find(DOOR, hold.timed_key())).flatten()
    }

    pub(super) fn told_timed(&self, at: u32, row: &TimedRow) -> TimedHold {
        let TimedRow { amount, until_ms, state } = *row;
        TimedHold { hold: self.told(self.named_rows.row(at)), amount, until_ms, state }
    }

    fn open_timed(&mut self, ask: TimedAsk, asker: TimedAsker, out: &mut Out) -> TimedAnswer {
        let TimedAsk::Open { key, budgets, amount, until_ms, state } = ask else {
            unreachable!("chosen by the caller")
        };
        if !amount.is_ask() {
            return Err(TimedRefusal::No(Verdict::BadAmount));
        }
        let leg = |budget: &u64| {
            let mut leg = NamedLeg { budget: *budget, amounts: crate::LegAmounts::default() };
            leg.amounts.hold = amount;
            leg
        };
        let legs = budgets.iter().map(leg).collect();
        let mut hold = NamedHold { door: DOOR, key, label: "".into(), legs };
        let changes = self.changes(&hold)?;
        if changes.at.is_some() {
            return Err(NamedError::Missing.into());
        }
        self.check_together(&changes)?;
        if self.has_no_named_room(out) {
            return Err(TimedRefusal::No(Verdict::Busy));
        }
        self.begin_windows(&changes, out);
        self.judge_ask(&changes, out).map_err(|short| self.refusal_of(&short, amount))?;
        let mut until_ms = until_ms;
        if state == Verdict::Settled {
            hold.legs.iter_mut().for_each(|leg| {
                (leg.amounts.hold, leg.amounts.spent[0]) = (Amount::ZERO, amount);
            });
            until_ms = asker.at_ms;
        }
        let row = TimedHold { hold, amount, until_ms, state };
        self.book_timed(row, (true, None), asker, out);
        if state == Verdict::Settled {
            let at_ms = self.now_ms;
            self.book(Record::NamedEnded { door: DOOR, key, at_ms }, out);
        }
        Ok(Timed { verdict: state, until_ms, judged: Handled::Now })
    }

    /// Each in another branch, and all of one unit.
    fn check_together(&self, changes: &Changes) -> Result<(), NamedError> {
        let first = changes.all()[0].slot;
        for change in changes.all() {
            if self.spec(change.slot).unit != self.spec(first).unit {
                return Err(NamedError::Units(change.budget));
            }
            let above = |other: &Change| self.chain(other.slot).skip(1).any(|s| s == change.slot);
            if changes.all().iter().any(above) {
                return Err(NamedError::Above(change.budget));
            }
        }
        Ok(())
    }

    fn refusal_of(&self, short: &Short, amount: Amount) -> TimedRefusal {
        let Short { leg, level, raised, why, mut left } = *short;
        let of_window = matches!(why, Verdict::DayExhausted | Verdict::WindowExhausted);
        let found = of_window.then(|| self.short_window(level, raised)).flatten();
        let window = found.map(|(window, used)| {
            let (period, limit) = (window.period, window.limit);
            let retry_at_ms = (raised <= i128::from(limit.get())).then(|| match window.is_day() {
                true => self.budget(level).day.end.ms(),
                false => window.has_at_ms(&used, self.now_ms, raised),
            });
            WindowUsedUp { period, limit, retry_at_ms }
        });
        if window.is_some() || why == Verdict::Exhausted {
            // What lies in purses comes back to whoever asks again.
            let budget = self.budget(level);
            let parked = plus(budget.in_purses(), budget.returning);
            let all = i128::from(plus(budget.available(self.now_ms), parked).get());
            let all = all - (raised - i128::from(amount.get()));
            left = Amount::new(i64::try_from(all.max(0)).unwrap_or(i64::MAX));
        }
        TimedRefusal::Leg { leg, why, left, window }
    }

    fn extend_timed(
        &mut self,
        hold: Hold,
        (until_ms, confirms): (u64, bool),
        asker: TimedAsker,
        out: &mut Out,
    ) -> TimedAnswer {
        let no = |verdict| Err(TimedRefusal::No(verdict));
        let until_ms = until_ms.min(asker.at_ms.saturating_add(self.run.billing_ms));
        let Some(at) = self.timed_at(&hold) else {
            return self.move_hold(hold, until_ms, asker, out);
        };
        let Some(row) = self.named_rows.timed(at).copied() else { return no(Verdict::TooOld) };
        let is_over = asker.at_ms >= row.until_ms;
        match row.state {
            Verdict::Confirmed if confirms => {}
            Verdict::Released => return no(Verdict::AlreadyReleased),
            Verdict::Granted | Verdict::Confirmed if !is_over => {}
            Verdict::Granted | Verdict::Confirmed | Verdict::Expired => {
                return no(Verdict::Expired);
            }
            _ => return no(Verdict::AlreadySettled),
        }
        let is_confirmed = row.state == Verdict::Confirmed;
        let verdict = Verdict::Confirmed;
        if is_confirmed && (confirms || until_ms <= row.until_ms) {
            return Ok(Timed { verdict, until_ms: row.until_ms, judged: Handled::Before });
        }
        let mut told = self.told_timed(at, &row);
        let until_ms = until_ms.max(row.until_ms);
        (told.until_ms, told.state) = (until_ms, verdict);
        self.book_timed(told, (false, None), with_end(asker, until_ms), out);
        Ok(Timed { verdict, until_ms, judged: Handled::Now })
    }

    /// Extends a hold of a grant: from now on it is one that ends by time.
    fn move_hold(
        &mut self,
        hold: Hold,
        until_ms: u64,
        asker: TimedAsker,
        out: &mut Out,
    ) -> TimedAnswer {
        let no = |verdict| Err(TimedRefusal::No(verdict));
        let Some(grant) = self.grants.get(hold.grant) else { return no(Verdict::TooOld) };
        let mark = grant.mark(hold.seq);
        let billed_ms = grant.billing_deadline_ms(hold.deadline_ms);
        let verdict = Verdict::Confirmed;
        let old_ms = match mark {
            Mark::Released => return no(Verdict::AlreadyReleased),
            Mark::Confirmed if asker.at_ms < billed_ms => billed_ms,
            Mark::Open if grant.is_alive(&hold, asker.at_ms) => hold.deadline_ms,
            Mark::Open | Mark::Confirmed | Mark::Moved => return no(Verdict::Expired),
            _ => return no(Verdict::AlreadySettled),
        };
        if mark == Mark::Confirmed && until_ms <= old_ms {
            return Ok(Timed { verdict, until_ms: old_ms, judged: Handled::Before });
        }
        let (slot, has_page) = (grant.slot, grant.page(hold.seq).is_some());
        if self.has_no_named_room(out) {
            return no(Verdict::Busy);
        }
        if !has_page && self.pages >= self.options.pages_max {
            self.counts.pages_full += 1;
            return no(Verdict::Busy);
        }
        let until_ms = until_ms.max(old_ms);
        let mut leg =
            NamedLeg { budget: self.spec(slot).id, amounts: crate::LegAmounts::default() };
        leg.amounts.hold = hold.amount;
        let key = hold.timed_key();
        let moved = NamedHold { door: DOOR, key, label: "".into(), legs: vec![leg] };
        let row = TimedHold { hold: moved, amount: hold.amount, until_ms, state: verdict };
        self.begin_windows(&self.changes(&row.hold)?, out);
        self.book_timed(row, (true, Some(hold)), with_end(asker, until_ms), out);
        Ok(Timed { verdict, until_ms, judged: Handled::Now })
    }

    /// Judges a confirm, settle or release of a hold that ends by time.
    #[cold]
    pub(super) fn resolve_timed(
        &mut self,
        at: u32,
        request: &ResolveRequest,
        kept: Option<Box<KeptWith>>,
        out: &mut Out,
    ) -> Resolution {
        let ResolveRequest { action, amount, at_ms, origin, .. } = *request;
        let refused = Resolution::refused;
        if action == Action::Settle && !(Amount::ZERO..=money::ASK_MAX).contains(&amount) {
            return refused(Verdict::BadAmount);
        }
        let Some(row) = self.named_rows.timed(at).copied() else { return refused(Verdict::TooOld) };
        let kept = match kept.map(|kept| *kept) {
            None => None,
            Some(KeptWith::Answer(kept)) => Some(kept),
            // Doors that keep memos make no such holds.
            Some(KeptWith::Memo(_)) => return refused(Verdict::TooOld),
        };
        let mut told = self.told_timed(at, &row);
        let keeps: Vec<bool> = told.hold.legs.iter().map(|leg| self.keeps_leg(leg, &row)).collect();
        let is_alive = matches!(row.state, Verdict::Granted | Verdict::Confirmed);
        let in_time = is_alive && at_ms < row.until_ms;
        let is_kept = keeps.iter().any(|keeps| *keeps);
        let (state, spent) = match judge_timed(row.state, action, in_time, is_kept) {
            TimedJudgement::Refuse(verdict) => return refused(verdict),
            TimedJudgement::Repeat => {
                self.counts.repeats += 1;
                let booked = i64::try_from(told.hold.legs[0].amounts.booked()).map(Amount::new);
                let amount = booked.ok().filter(|_| action == Action::Settle);
                return Resolution { verdict: row.state, amount, judged: Handled::Before };
            }
            TimedJudgement::Book(Verdict::Confirmed) => {
                told.until_ms = row.until_ms.max(at_ms.saturating_add(self.run.billing_ms));
                (Verdict::Confirmed, None)
            }
            TimedJudgement::Book(state) => {
                (state, Some(Some(amount).filter(|_| action == Action::Settle)))
            }
        };
        let state = match spent {
            None => state,
            Some(spent) => resolve_legs(&mut told, spent, in_time, &keeps).unwrap_or(state),
        };
        // Nothing else is known of it when its time is over: its answer is known for as long as that of other late ones.
        if spent.is_some() && at_ms >= told.until_ms {
            told.until_ms = at_ms + self.options.late_ms;
        }
        told.state = state;
        let full = self.changes(&told.hold).and_then(|changes| self.check_room(&changes));
        if full.is_err() {
            self.counts.spent_full += 1;
            return refused(Verdict::BadAmount);
        }
        self.book_timed(told, (false, None), TimedAsker { at_ms, origin, kept }, out);
        Resolution {
            verdict: state,
            amount: Some(spent.flatten().unwrap_or_default()),
            judged: Handled::Now,
        }
    }

    /// The answer to a request of a timed hold that changed nothing is kept.
    pub(super) fn keep_timed(
        &mut self,
        at: u32,
        (at_ms, origin): (u64, Origin),
        kept: Kept,
        out: &mut Out,
    ) -> Verdict {
        let Some(row) = self.named_rows.timed(at).copied() else { return Verdict::TooOld };
        let told = self.told_timed(at, &row);
        self.book_timed(told, (false, None), TimedAsker { at_ms, origin, kept: Some(kept) }, out);
        Verdict::Granted
    }

    /// Does the money of a leg stay set aside when its time is over?
    fn keeps_leg(&self, leg: &NamedLeg, row: &TimedRow) -> bool {
        let Some(slot) = self.slot(leg.budget) else { return false };
        let keeps = self.spec(slot).on_expiry == OnExpiry::Hold;
        match row.state {
            Verdict::Expired => leg.amounts.hold > Amount::ZERO,
            Verdict::Confirmed => keeps,
            Verdict::Granted => keeps && !self.run.win_notices,
            _ => false,
        }
    }

    fn book_timed(
        &mut self,
        row: TimedHold,
        (opens, moved): (bool, Option<Hold>),
        TimedAsker { at_ms, origin, kept }: TimedAsker,
        out: &mut Out,
    ) {
        let changes = self.changes(&row.hold).expect("judged before it is booked");
        let changed: Vec<Change> = changes.all().to_vec();
        let freed = changed.iter().map(|change| (change.slot, change.frees()));
        out.credits.extend(freed.filter(|(_, freed)| *freed > Amount::ZERO));
        self.book(
            Record::Timed(Box::new(TimedChange { row, opens, moved, at_ms, origin, kept })),
            out,
        );
        for change in changed.iter().filter(|change| change.before != change.after && !opens) {
            self.call_in(change.slot, out);
            self.feed_hungry(Some(change.slot), out);
        }
    }

    /// Ends those whose time is over, and forgets those of which nothing needs to be known any more.
    pub(super) fn end_timed(&mut self, out: &mut Out) {
        if self.named_rows.ends.is_empty() {
            return;
        }
        let safe_ms = self.safe_ms();
        for _ in 0..ENDS_A_TURN {
            match self.named_rows.ends.first().copied() {
                Some((due_ms, key)) if due_ms <= safe_ms => {
                    self.named_rows.ends.pop_first();
                    self.named_rows.settled.remove(&(due_ms, key));
                    self.end_row(due_ms, key, out);
                }
                _ => return,
            }
        }
    }

    fn end_row(&mut self, due_ms: u64, key: u128, out: &mut Out) {
        let Some(at) = self.named_rows.find(DOOR, key) else { return };
        let Some(row) = self.named_rows.timed(at).copied() else { return };
        if row.until_ms > due_ms {
            self.named_rows.ends.insert((row.until_ms, key));
            return;
        }
        let mut told = self.told_timed(at, &row);
        match row.state {
            Verdict::Granted | Verdict::Confirmed => {
                for leg in &mut told.hold.legs {
                    if !self.keeps_leg(leg, &row) {
                        leg.amounts.hold = Amount::ZERO;
                    }
                }
                told.state = Verdict::Expired;
                let origin = Origin { door: DOOR, request_id: 0 };
                let asker = TimedAsker { at_ms: self.now_ms, origin, kept: None };
                self.book_timed(told, (false, None), asker, out);
                self.look_at_timed(at);
            }
            // It waits until it is known what became of it.
            Verdict::Expired
                if told.hold.legs.iter().any(|leg| leg.amounts.hold > Amount::ZERO) => {}
            _ => {
                let at_ms = self.now_ms;
                self.book(Record::NamedEnded { door: DOOR, key, at_ms }, out);
            }
        }
    }

    /// Is there no room for another named hold? What is settled or released makes room, the first to be forgotten anyway first: a repeat
    /// is then `too_old`, as it would be later.
    pub(super) fn has_no_named_room(&mut self, out: &mut Out) -> bool {
        while self.named_len() >= self.options.named_max {
            let Some((_, key)) = self.named_rows.settled.pop_first() else {
                self.counts.named_full += 1;
                return true;
            };
            let at = self.named_rows.find(DOOR, key);
            if at.and_then(|at| self.named_rows.timed(at)).is_some_and(TimedRow::is_final) {
                let at_ms = self.now_ms;
                self.book(Record::NamedEnded { door: DOOR, key, at_ms }, out);
            }
        }
        false
    }

    /// Says when a row is looked at: where it holds expired money, not before that is resolved.
    fn look_at_timed(&mut self, at: u32) {
        let Some(row) = self.named_rows.timed(at) else { return };
        let holds = |leg: &super::named::Leg| leg.amounts.hold > Amount::ZERO;
        let due_ms = match row.state {
            Verdict::Expired if self.named_rows.row(at).legs().any(holds) => return,
            Verdict::Expired => row.until_ms + self.options.late_ms,
            _ => row.until_ms,
        };
        if self.timeline.is_live() {
            let (is_final, key) = (row.is_final(), self.named_rows.row(at).key);
            self.named_rows.ends.insert((due_ms, key));
            if is_final {
                self.named_rows.settled.insert((due_ms, key));
            }
        }
    }

    /// The start of a run: when each row is looked at.
    pub(super) fn begin_ends(&mut self) {
        self.named_rows.ends.clear();
        self.named_rows.settled.clear();
        let all: Vec<u32> = self.named_rows.all_timed().map(|(at, _)| at).collect();
        all.into_iter().for_each(|at| self.look_at_timed(at));
    }

    /// Frees what is expired of rows that ended up to an instant, as far as it is of budgets that `within` names.
    pub(super) fn reconcile_timed(
        &mut self,
        until_ms: u64,
        within: impl Fn(&Bank, u32) -> bool,
        out: &mut Out,
    ) -> Amount {
        let over = |row: &TimedRow| row.state == Verdict::Expired && row.until_ms <= until_ms;
        let rows = self.named_rows.all_timed().filter(|(_, row)| over(row));
        let mut rows: Vec<TimedHold> = rows.map(|(at, row)| self.told_timed(at, row)).collect();
        rows.sort_unstable_by_key(|told| told.hold.key);
        let mut free = Amount::ZERO;
        for mut told in rows {
            let mut freed = Amount::ZERO;
            for leg in &mut told.hold.legs {
                let is_within = self.slot(leg.budget).is_some_and(|slot| within(self, slot));
                if is_within {
                    freed = plus(freed, std::mem::take(&mut leg.amounts.hold));
                }
            }
            if freed > Amount::ZERO {
                let origin = Origin { door: Door::Admin, request_id: 0 };
                let asker = TimedAsker { at_ms: self.now_ms, origin, kept: None };
                self.book_timed(told, (false, None), asker, out);
                free = plus(free, freed);
            }
        }
        free
    }
}

/// What a request comes to.
enum TimedJudgement {
    /// It becomes this, as far as its legs say nothing else.
    Book(Verdict),
    Repeat,
    Refuse(Verdict),
}

/// The whole table of (what the hold is, what is asked, is it in time, is any of its money kept beyond its time).
fn judge_timed(state: Verdict, action: Action, in_time: bool, is_kept: bool) -> TimedJudgement {
    use TimedJudgement::{Book, Refuse, Repeat};
    match (state, action) {
        (Verdict::Granted, Action::Confirm) if in_time => Book(Verdict::Confirmed),
        (Verdict::Confirmed, Action::Confirm) | (Verdict::Released, Action::Release) => Repeat,
        (Verdict::Released, Action::Confirm) => Refuse(Verdict::AlreadyReleased),
        (Verdict::Granted | Verdict::Confirmed | Verdict::Expired, Action::Release)
            if in_time || is_kept =>
        {
            Book(Verdict::Released)
        }
        (
            Verdict::Granted | Verdict::Confirmed | Verdict::Expired,
            Action::Confirm | Action::Release,
        ) => Refuse(Verdict::Expired),
        (Verdict::Settled | Verdict::SettledOver | Verdict::SettledLate, Action::Settle) => Repeat,
        (_, Action::Confirm | Action::Release) => Refuse(Verdict::AlreadySettled),
        (_, Action::Settle) => Book(Verdict::Settled),
    }
}

/// The end of the hold belongs to the answer that is kept.
fn with_end(mut asker: TimedAsker, until_ms: u64) -> TimedAsker {
    if let Some(kept) = &mut asker.kept {
        kept.answer = [&*kept.answer, &until_ms.to_le_bytes()].concat().into();
    }
    asker
}

/// Books what was spent, or gives all back. Returns what the settle is; `None`: it is no settle.
fn resolve_legs(
    told: &mut TimedHold,
    spent: Option<Amount>,
    in_time: bool,
    keeps: &[bool],
) -> Option<Verdict> {
    let mut is_late = false;
    for (leg, keeps) in told.hold.legs.iter_mut().zip(keeps) {
        let held = std::mem::take(&mut leg.amounts.hold);
        let Some(amount) = spent else { continue };
        let [settled, over, late, ..] = &mut leg.amounts.spent;
        if held > Amount::ZERO && (in_time || *keeps) {
            let within = amount.min(held);
            *settled = plus(*settled, within);
            *over = plus(*over, minus(amount, within));
        } else {
            *late = plus(*late, amount);
            is_late = true;
        }
    }
    Some(match spent? {
        _ if is_late => Verdict::SettledLate,
        amount if amount > told.amount => Verdict::SettledOver,
        _ => Verdict::Settled,
    })
}

impl Bank {
    /// Applies what a timed hold is from now on.
    pub(super) fn apply_timed(&mut self, change: &TimedChange) -> Result<(), ReplayError> {
        let TimedChange { row, opens, moved, at_ms, kept, .. } = change;
        let TimedHold { hold, amount, until_ms, state } = row;
        check_ms([*until_ms, *at_ms])?;
        let wrong = |error| ReplayError::Named { key: hold.key, error };
        if let Some(kept) = kept {
            self.answers.check(kept, *at_ms)?;
        }
        let changes = self.changes(hold).map_err(wrong)?;
        if *opens != changes.at.is_none() || !changes.are_all_new(*opens) {
            return Err(wrong(NamedError::Missing));
        }
        let before = match changes.at {
            Some(at) => {
                let legs = self.named_rows.row(at).legs().count();
                let known = self.named_rows.timed(at).copied();
                Some(known.filter(|_| legs == hold.legs.len()).ok_or(wrong(NamedError::Timed))?)
            }
            None => None,
        };
        if !follows(before.as_ref(), change, &changes) {
            return Err(wrong(NamedError::Timed));
        }
        self.check_room(&changes).map_err(wrong)?;
        if let Some(of) = moved {
            self.leave_grant(of, change, &changes)?;
        }
        let expires = *state == Verdict::Expired
            && before.is_some_and(|before| before.state != Verdict::Expired);
        if expires {
            self.expire_legs(&changes);
        }
        let line = before.map_or(Line::Held, |before| before.line());
        self.move_legs(hold, &changes, moved.is_some(), (line, *at_ms));
        let at = self.named_rows.find(hold.door, hold.key).expect("it is there now");
        let now = TimedRow { amount: *amount, until_ms: *until_ms, state: *state };
        self.named_rows.set_timed(at, Some(now));
        let waited = before.is_some_and(|before| before.state == Verdict::Expired)
            && changes.all().iter().any(|change| change.before.hold > Amount::ZERO);
        if *opens || waited || now.is_final() {
            self.look_at_timed(at);
        }
        if let Some(kept) = kept {
            self.answers.keep(kept, *state, *at_ms, self.options.answers_kept_ms);
        }
        self.now_ms = self.now_ms.max(*at_ms);
        Ok(())
    }

    /// What its legs still hold is expired from now on, on every level.
    fn expire_legs(&mut self, changes: &Changes) {
        for change in changes.all() {
            for level in self.chain(change.slot) {
                self.budgets[level as usize].expire_named(change.after.hold);
            }
        }
    }

    /// Takes the money of a hold out of its grant, to be held under a name.
    fn leave_grant(
        &mut self,
        hold: &Hold,
        change: &TimedChange,
        changes: &Changes,
    ) -> Result<(), ReplayError> {
        let key = change.row.hold.key;
        let wrong = ReplayError::Named { key, error: NamedError::Timed };
        let of = self.grants.get(hold.grant).ok_or(ReplayError::NoGrant(hold.grant))?.slot;
        let is_it = hold.timed_key() == key
            && hold.seq <= crate::token::SEQ_MAX
            && change.row.amount == hold.amount
            && matches!(changes.all(), [leg] if leg.slot == of);
        match is_it {
            true => self.take_moved(hold),
            false => Err(wrong),
        }
    }

    /// A timed hold of a snapshot, whose money the books have.
    pub(super) fn restore_timed(&mut self, told: &TimedHold) -> Result<(), NamedError> {
        let TimedHold { hold, amount, until_ms, state } = told;
        let row = TimedRow { amount: *amount, until_ms: *until_ms, state: *state };
        let is_sound = *until_ms <= Bank::MS_MAX
            && amount.is_ask()
            && hold.door == DOOR
            && hold.legs.iter().all(|leg| {
                let held = leg.amounts.hold;
                match state {
                    Verdict::Granted | Verdict::Confirmed => held == *amount,
                    Verdict::Expired => held == *amount || held == Amount::ZERO,
                    Verdict::Released
                    | Verdict::Settled
                    | Verdict::SettledOver
                    | Verdict::SettledLate => held == Amount::ZERO,
                    _ => false,
                }
            });
        if !is_sound {
            return Err(NamedError::Timed);
        }
        self.restore_named(hold, row.line())?;
        let at = self.named_rows.find(hold.door, hold.key).expect("restored above");
        self.named_rows.set_timed(at, Some(row));
        Ok(())
    }
}

/// Can a timed hold become this?
fn follows(before: Option<&TimedRow>, change: &TimedChange, changes: &Changes) -> bool {
    let TimedChange { row: after, moved, kept, .. } = change;
    let all = |fits: fn(&Change, Amount) -> bool| {
        changes.all().iter().all(|change| fits(change, after.amount))
    };
    let held = |change: &Change, amount| change.after.hold == amount;
    let unspent = |change: &Change, _| change.before.spent == change.after.spent;
    let released = |change: &Change, _| change.after.hold == Amount::ZERO;
    let expired =
        |change: &Change, _| [Amount::ZERO, change.before.hold].contains(&change.after.hold);
    let spent = |change: &Change, _| {
        let [settled, over, late, ..] = [0, 1, 2, 3, 4].map(|line: usize| {
            i128::from(change.after.spent[line].get()) - i128::from(change.before.spent[line].get())
        });
        let sum = settled + over + late;
        let [.., inferred, unknown] = change.after.spent;
        settled.min(over).min(late) >= 0
            && sum <= i128::from(money::ASK_MAX.get())
            && (inferred, unknown) == (Amount::ZERO, Amount::ZERO)
    };
    let Some(before) = before else {
        let fresh = after.hold.door == DOOR && after.amount.is_ask();
        return fresh
            && match after.state {
                Verdict::Granted => moved.is_none() && all(held) && all(unspent),
                Verdict::Confirmed => all(held) && all(unspent),
                Verdict::Settled => moved.is_none() && all(released) && all(spent),
                _ => false,
            };
    };
    let is_alive = matches!(before.state, Verdict::Granted | Verdict::Confirmed);
    let same = moved.is_none() && before.amount == after.amount;
    let becomes = match (before.state, after.state) {
        (of, to)
            if of == to && before.until_ms == after.until_ms && all(|c, _| c.before == c.after) =>
        {
            kept.is_some()
        }
        (_, Verdict::Confirmed) => is_alive && all(held) && all(unspent),
        (_, Verdict::Released) => {
            (is_alive || before.state == Verdict::Expired) && all(released) && all(unspent)
        }
        (_, Verdict::Expired) => {
            (is_alive || before.state == Verdict::Expired) && all(expired) && all(unspent)
        }
        (of, Verdict::Settled | Verdict::SettledOver) => {
            (is_alive || of == Verdict::Expired) && all(released) && all(spent)
        }
        (of, Verdict::SettledLate) => {
            (is_alive || matches!(of, Verdict::Expired | Verdict::Released))
                && all(released)
                && all(spent)
        }
        _ => false,
    };
    same && before.until_ms <= after.until_ms && becomes
}

impl Budget {
    /// What a leg holds is expired from now on: it counts on every day until it is known what became of it.
    fn expire_named(&mut self, amount: Amount) {
        self.books.shift(Line::Held, Line::Expired, amount);
        self.named_held = minus(self.named_held, amount);
        self.named_expired = plus(self.named_expired, amount);
        if !self.day.is_empty() {
            for (line, sign) in [(Line::Held, -1), (Line::Expired, 1)] {
                let line = &mut self.day_lines[line as usize];
                *line = Amount::new(line.get() + sign * amount.get());
            }
        }
    }
}
