//! How money goes to purses and comes back.
//!
//! A purse gets what its recent asks would need for `refresh_ms`, but never more than its share of half of what
//! is left, so that fillings shrink as the budget nears its end; and never less than the ask it had to refuse,
//! if that much is left, so that the last coins are spent too. Where nothing is left for an ask, other purses
//! of the budget (and of the budgets that share its parents) are asked to give theirs back.
//!
//! Where a bucket or a window shorter than a day binds, a purse gets nothing before something is asked of it, and a want of asks
//! that wait for their answer waits itself, for what other purses were asked to give back: see `hungry`. So the last unit of
//! ten per minute is granted, wherever it lies and whoever asks.

use wire::Verdict;

use super::hungry::HUNGRY_MS;
use super::{Bank, Out, PurseNote, Search};
use crate::books::{minus, plus};
use crate::part::Stage;
use crate::spec::MADE_SLOT;
use crate::token::{GRANT_MAX, SEQ_MAX};
use crate::{Amount, Need, No, Record, Status, ToWorker, WindowLimit, WindowUse};

/// A new purse gets this part of what is left, divided among the workers.
const FIRST_PART: i64 = 64;
/// Purses looked at for money in one go.
const RECALL_LOOKS_MAX: usize = 256;
/// A search is not begun again within this time: fifty thousand children may be hungry at once...
const SEARCH_PAUSE_MS: u64 = 5;
/// ...but asks that wait begin one at once where no more budgets than these are looked at.
const SEARCH_AT_ONCE_MAX: u32 = 16;
/// No worker has this number.
const NOBODY: u16 = u16::MAX;
/// A purse is not asked again for its money within this time.
const RECALL_PAUSE_MS: u64 = 100;
/// Nor, where asks wait, so soon after it was filled for others that waited.
const FED_PAUSE_MS: u64 = 5;

/// How long a want that cannot be met at once may wait for what is on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// By the steady clock.
    pub(super) until_ms: u64,
    /// Which of all wants it is.
    pub(super) number: u64,
    /// It came just now.
    pub(super) is_new: bool,
}

/// What a want comes to.
struct Judged {
    /// Without the ask that is beyond reach...
    need: Need,
    /// ...which is this one.
    beyond: Option<Amount>,
    /// What of the purse an ask can be met with.
    usable: Amount,
    /// The next filling takes the place of its grant.
    is_replaced: bool,
    /// See [`Bank::own_holds`].
    held: Amount,
    /// The same of a want that waited: as far as its worker had told then, which is enough to know that waiting brings no more, and not to say
    /// that there is no more.
    in_holds: Amount,
    /// See [`Bank::reach`].
    reach: Amount,
    /// A window gives again so soon that asks wait for it.
    is_soon: bool,
    /// It may still wait.
    has_time: bool,
}

impl Need {
    /// What the purse is in need of when all has come to it that was sent under its present grant and is nobody's: a want may have crossed that on
    /// its way. What was sent for asks that wait is theirs, and what the purse has of an earlier grant goes back.
    fn when_all_is_there(self, note: &PurseNote) -> Need {
        let PurseNote { grant, given, called, .. } = *note;
        if grant == 0 {
            return self;
        }
        let (free, known, seq) = match self.grant == grant {
            true => (self.free, self.given, self.seq),
            false => (Amount::ZERO, Amount::ZERO, 0),
        };
        let coming = minus(given, known.max(called)).max(Amount::ZERO);
        Need { free: plus(free, coming), grant, given, seq, ..self }
    }

    /// Are the hold numbers of the grant about to run out?
    fn numbers_low(self) -> bool {
        self.seq > SEQ_MAX / 2
    }

    /// Does an ask wait for the answer?
    fn waits(self) -> bool {
        self.called > Amount::ZERO || self.again_waits
    }

    /// Everything that is asked together.
    fn sum(self) -> Amount {
        self.short.max(self.called)
    }

    /// An ask beyond `reach` is taken out, with what is not known to be others': nothing is filled or recalled for it. Then the
    /// purse gets at most `share` for the asks that wait beside it; who is short of more asks again, without that one.
    fn within(self, reach: Amount, share: Amount) -> (Need, Option<Amount>) {
        let zero = Amount::ZERO;
        if self.short > reach {
            let called = minus(self.called, self.short).min(share).max(zero);
            let need = Need { called, short: zero, again: zero, refused: zero, ..self };
            return (need, Some(self.short));
        }
        if self.again > reach {
            return (Need { again: zero, ..self }, Some(self.again));
        }
        (self.asks_again(), None)
    }

    /// The ask that was refused before counts as one of the others.
    fn asks_again(self) -> Need {
        let waits = if self.again_waits { self.again } else { Amount::ZERO };
        let called = plus(self.called, waits).min(money::LIMIT_MAX);
        Need { short: self.short.max(self.again), again: Amount::ZERO, called, ..self }
    }
}

impl Bank {
    pub(super) fn want(&mut self, worker: u16, slot: u32, need: Need, out: &mut Out) {
        let need = Need { called: need.called.min(money::LIMIT_MAX), ..need };
        let (need, patience) = self.hungry.take(worker, slot, need, self.steady_ms());
        self.feed(worker, slot, need, patience, out);
    }

    /// Answers a want, or keeps it for a moment where asks wait for it and what they need is on its way.
    pub(super) fn feed(
        &mut self,
        worker: u16,
        slot: u32,
        need: Need,
        patience: Patience,
        out: &mut Out,
    ) {
        self.use_made(slot);
        self.roll_days(slot, out);
        if let Some(why) = self.closed(slot) {
            self.turn_away(worker, slot, why, out);
            return;
        }
        let judged = self.judge_want(worker, slot, need, patience);
        let Judged { need, beyond, usable, is_replaced, held, in_holds, reach, is_soon, .. } =
            judged;
        let (available, share) = (self.available(slot), self.share(slot));
        let missing = minus(need.sum(), usable).max(Amount::ZERO);
        let urgent = need.called > Amount::ZERO && (self.is_tight(slot) || missing > available);
        let fits = minus(need.short, usable) <= available;
        let asks = if urgent { missing } else { need.sum() };
        let wanted = if patience.is_new { self.wanted(worker, slot, need, asks) } else { asks };
        let wanted = match fits {
            true => wanted.min(share.max(asks)),
            // Before all of an ask is there nothing is set aside for it: parts of it in many purses would never meet.
            false => minus(asks, need.short),
        };
        let amount = wanted.min(available).max(Amount::ZERO);
        let lacks = amount < missing;
        if lacks {
            self.recall_from_others(worker, slot, urgent, out);
        }
        // With every purse emptied there would be so much.
        let elsewhere = minus(reach, usable);
        let may_come = minus(elsewhere, in_holds);
        let is_coming = is_soon || may_come > available.max(Amount::ZERO);
        let may_wait = lacks && urgent && judged.has_time && is_coming;
        if may_wait && self.hungry.keep(worker, slot, need, patience) {
            if let Some(amount) = beyond {
                out.send(worker, ToWorker::Deny { slot, no: self.no(slot, amount, held) });
            }
            return;
        }
        let no = match beyond.or(lacks.then_some(need.sum())) {
            Some(refused) if elsewhere <= amount => self.no_more(slot, refused, reach, held),
            Some(refused) => self.no(slot, refused, held),
            None => No::LATER,
        };
        if amount > Amount::ZERO {
            if !self.fill(worker, slot, amount, need, out) {
                // The worker is told `Busy`: what could not be handed out is left.
                return;
            }
        } else if need.numbers_low() || lacks && is_replaced {
            // What is in the purse must come back before a new grant can have it.
            self.recall(worker, slot, No::LATER, out);
        }
        if beyond.is_some() || lacks && (urgent || amount == Amount::ZERO) {
            out.send(worker, ToWorker::Deny { slot, no });
        }
        // Else the purse has what it needs, and more is there when it needs more.
    }

    /// What a want comes to, before anything is done for it.
    fn judge_want(&mut self, worker: u16, slot: u32, need: Need, patience: Patience) -> Judged {
        let holds = self.own_holds(&need);
        let (held, in_holds) = match patience.is_new {
            true => (holds, Amount::ZERO),
            false => (Amount::ZERO, holds),
        };
        let note = *self.purse_note_mut(slot, worker);
        let (grant, need) = (note.grant, need.when_all_is_there(&note));
        let is_present = self.is_present(grant);
        // A want may have crossed settles on its way: a purse has no more than is out under its grant.
        let out = self.grants.get(grant).map_or(Amount::ZERO, |grant| grant.out);
        // What is in a purse of earlier windows, or whose hold numbers run out, goes back before a new grant takes its place.
        let free = if is_present { need.free.min(out) } else { Amount::ZERO };
        let need = Need { free, ..need };
        let usable = if need.numbers_low() { Amount::ZERO } else { free };
        let is_replaced = grant != 0 && (need.numbers_low() || !is_present);
        let reach = self.reach(slot, held);
        let has_time = self.steady_ms() < patience.until_ms;
        let largest = need.short.max(need.again);
        let is_soon = has_time && need.waits() && self.ready_soon(slot, largest);
        let (need, beyond) = match is_soon {
            true => (need.asks_again(), None),
            false => need.within(reach, self.share(slot)),
        };
        Judged { need, beyond, usable, is_replaced, held, in_holds, reach, is_soon, has_time }
    }

    /// What one purse gets at most of what is available, but for the asks that it refused.
    fn share(&self, slot: u32) -> Amount {
        let share = self.available(slot).get() / (2 * i64::from(self.options.workers));
        Amount::new(share).max(Amount::ZERO)
    }

    /// Nothing may be reserved at all.
    fn turn_away(&mut self, worker: u16, slot: u32, why: Verdict, out: &mut Out) {
        let no = No::to_all(why);
        if self.purse_note_mut(slot, worker).grant == 0 {
            out.send(worker, ToWorker::Deny { slot, no });
        } else {
            self.recall(worker, slot, no, out);
        }
    }

    /// The most that one ask can get, with every purse emptied that draws on the same money. `held`: so much of what is in purses
    /// of the budget is known to be in holds.
    fn reach(&self, slot: u32, held: Amount) -> Amount {
        let levels = self.chain(slot).map(|level| {
            let budget = self.budget(level);
            minus(plus(budget.available(self.now_ms), budget.in_purses()), held)
        });
        levels.min().unwrap_or(Amount::ZERO)
    }

    /// What the worker's own holds have at least of what is out under its grant. It counts holds that were resolved already until
    /// they lapse, and the bank knows those.
    fn own_holds(&self, need: &Need) -> Amount {
        let grant = self.grants.get(need.grant).filter(|grant| grant.stage == Stage::Open);
        let resolved = grant.map_or(need.held, |grant| grant.resolved.total());
        minus(need.held, resolved).max(Amount::ZERO)
    }

    /// Does the budget or a parent have a bucket or a window shorter than a day? Then nothing is handed out that nobody asked
    /// for, and asks that wait get what others have.
    fn is_tight(&self, slot: u32) -> bool {
        self.chain(slot).any(|level| self.budget(level).spec.windows.are_tight())
    }

    /// Does the window that has nothing left give again so soon that asks can wait for it?
    fn ready_soon(&self, slot: u32, amount: Amount) -> bool {
        let ready_ms = self.no(slot, amount, Amount::ZERO).retry_at_ms(amount);
        ready_ms.is_some_and(|ready_ms| ready_ms <= self.now_ms + HUNGRY_MS)
    }

    /// What the purse would use in `refresh_ms` at the rate of its asks since it last wanted something.
    fn wanted(&mut self, worker: u16, slot: u32, need: Need, asks: Amount) -> Amount {
        let (now_ms, refresh_ms) = (self.steady_ms(), self.options.refresh_ms);
        let note = self.purse_note_mut(slot, worker);
        let since_ms = now_ms.saturating_sub(note.asked_ms).max(1);
        note.asked_ms = now_ms;
        let asked_now = need.asked.get().saturating_add(need.refused.get());
        let asked = i128::from(asked_now) * i128::from(refresh_ms) / i128::from(since_ms);
        const LIMIT_MAX: i64 = money::LIMIT_MAX.get();
        let asked = Amount::new(i64::try_from(asked).unwrap_or(LIMIT_MAX).min(LIMIT_MAX));
        if need.numbers_low() {
            // A new grant will replace the present one, and what is in the purse goes back.
            return asked.max(need.free).max(asks);
        }
        // At a slow rate it should still cover two more of what was asked since it wanted last.
        let asked = asked.max(Amount::new(asked_now.saturating_mul(2).min(LIMIT_MAX)));
        minus(asked, need.free).max(asks)
    }

    /// Puts money into a purse, with a new grant where the present one is used up, old or of other windows. False: there is no place
    /// for another grant, and the worker is told so.
    fn fill(&mut self, worker: u16, slot: u32, amount: Amount, need: Need, out: &mut Out) -> bool {
        let present = self.purse_note_mut(slot, worker).grant;
        let usable = present != 0 && need.seq <= SEQ_MAX / 2 && self.is_present(present);
        let grant = if usable { present } else { self.grants.next_number() };
        let full = self.grants.len() >= self.options.grants_max
            || self.grants.span_full()
            || grant > GRANT_MAX;
        if !usable && full {
            self.counts.grants_full += 1;
            out.send(worker, ToWorker::Deny { slot, no: No::to_all(Verdict::Busy) });
            return false;
        }
        let (budget, at_ms) = (self.budget(slot).spec.id, self.now_ms);
        self.book(Record::Granted { grant, budget, worker, amount, at_ms }, out);
        let filled_ms = self.steady_ms();
        let note = self.purse_note_mut(slot, worker);
        note.filled_ms = filled_ms;
        if !usable {
            (note.grant, note.given, note.called) = (grant, Amount::ZERO, Amount::ZERO);
        }
        note.send(amount);
        if need.called > Amount::ZERO {
            (note.fed_ms, note.called) = (filled_ms, note.given);
        }
        if !usable {
            self.timeline.old(grant, at_ms + self.options.grant_ms_max);
        }
        self.counts.fills += 1;
        let (valid_from_ms, valid_until_ms) = self.valid_ms(slot);
        out.send(worker, ToWorker::Fill { slot, grant, amount, valid_from_ms, valid_until_ms });
        true
    }

    /// Is a grant of the present windows of its budget and all parents?
    fn is_present(&self, number: u64) -> bool {
        let Some(grant) = self.grants.get(number) else { return false };
        let mut levels = self.chain(grant.slot).zip(grant.days);
        levels.all(|(level, day)| {
            let budget = self.budget(level);
            let counts = |(window, used): (&WindowLimit, &WindowUse)| {
                window.is_of_days() || window.counts(used, number, day)
            };
            budget.day.start.ms() == day && budget.windows().all(counts)
        })
    }

    /// When money of the budget may be reserved: within the flights and the present windows of all levels.
    fn valid_ms(&self, slot: u32) -> (u64, u64) {
        let levels = self.chain(slot).map(|level| self.budget(level));
        levels.fold((0, u64::MAX), |(from, until), budget| {
            let (spec, day) = (&budget.spec, &budget.day);
            let from = from.max(spec.start.ms()).max(day.start.ms());
            let fixed = budget.windows().filter(|(window, _)| !window.is_bucket());
            let ends = fixed.map(|(_, used)| used.until_ms).filter(|until_ms| *until_ms > 0);
            let until = until.min(spec.end.ms()).min(day.end.ms());
            (from, ends.fold(until, u64::min))
        })
    }

    /// Fills or empties the purses of a budget, and of those it is a parent of, after its configuration changed
    /// or its flight began or ended.
    pub(super) fn review(&mut self, slot: u32, out: &mut Out) {
        self.review_one(slot, out);
        for child in self.budget(slot).children.clone() {
            self.review(child, out);
        }
        for child in self.budget(slot).made_children.clone() {
            self.review(child, out);
        }
    }

    pub(super) fn review_one(&mut self, slot: u32, out: &mut Out) {
        if slot >= MADE_SLOT && self.budget(slot).grants == 0 {
            // Nobody has any of its money: whoever asks next hears how it stands.
            return;
        }
        self.roll_days(slot, out);
        let closed = self.closed(slot);
        let available = self.available(slot);
        for worker in 0..self.options.workers {
            let has_grant = self.purse_note_mut(slot, worker).grant != 0;
            match closed {
                // One that was made on its first ask is filled when somebody asks, and not before.
                _ if !has_grant && slot >= MADE_SLOT => {}
                Some(why) => self.recall(worker, slot, No::to_all(why), out),
                None if available < Amount::ZERO => {
                    let no = self.no(slot, Amount::new(1), Amount::ZERO);
                    self.recall(worker, slot, no, out);
                }
                None if !has_grant => self.first_fill(worker, slot, out),
                None => {}
            }
        }
    }

    fn first_fill(&mut self, worker: u16, slot: u32, out: &mut Out) {
        let parts = FIRST_PART * i64::from(self.options.workers);
        let available = self.available(slot).get();
        // A small count (ten keys in stock) has no 64th part; the first purse gets at least one item.
        let amount = Amount::new((available / parts).max(available.clamp(0, 1)));
        if amount > Amount::ZERO && self.is_tight(slot) {
            out.send(worker, ToWorker::Deny { slot, no: No::LATER });
        } else if amount > Amount::ZERO {
            self.fill(worker, slot, amount, Need::default(), out);
        } else {
            let no = self.no(slot, Amount::new(1), Amount::ZERO);
            out.send(worker, ToWorker::Deny { slot, no });
        }
    }

    /// Replaces an open grant by a new one, with as much money if that can be had.
    pub(super) fn renew(&mut self, number: u64, out: &mut Out) {
        let Some(grant) = self.grants.get(number) else { return };
        let (slot, worker, before) = (grant.slot, grant.worker, grant.out);
        if grant.stage != Stage::Open || self.purse_note_mut(slot, worker).grant != number {
            return;
        }
        self.roll_days(slot, out);
        let why = if self.is_resting(slot) { Some(Verdict::PurseEmpty) } else { self.closed(slot) };
        if let Some(why) = why {
            self.recall(worker, slot, No::to_all(why), out);
            return;
        }
        if self.is_tight(slot) && !self.is_present(number) {
            self.recall(worker, slot, No::LATER, out);
            return;
        }
        let share = self.available(slot).get() / (2 * i64::from(self.options.workers));
        let amount = before.min(Amount::new(share));
        if amount > Amount::ZERO {
            self.fill(worker, slot, amount, Need { seq: SEQ_MAX, ..Need::default() }, out);
            if self.purse_note_mut(slot, worker).grant == number {
                // No place for another grant: it stays in use for now.
                self.timeline.old(number, self.now_ms + self.options.grant_ms_max);
            }
        } else {
            let no = self.no(slot, Amount::new(1), Amount::ZERO);
            self.recall(worker, slot, no, out);
        }
    }

    /// The worker will make no more holds from the grant.
    pub(super) fn retired(
        &mut self,
        worker: u16,
        slot: u32,
        grant: u64,
        free: Amount,
        out: &mut Out,
    ) {
        if free > Amount::ZERO {
            self.give_back(grant, free, out);
        }
        // All its holds are reported by now. Without any, there is no token to wait for.
        let deadline_ms = self.grants.get(grant).map_or(0, |grant| grant.reported_ms);
        self.book(Record::Retired { grant, deadline_ms }, out);
        let note = self.purse_note_mut(slot, worker);
        if note.grant == grant {
            note.grant = 0;
        }
        if note.recalling == grant {
            note.recalling = 0;
        }
        self.feed_hungry(Some(slot), out);
    }

    pub(super) fn give_back(&mut self, grant: u64, amount: Amount, out: &mut Out) {
        self.book(Record::Returned { grant, amount }, out);
    }

    /// After a debt: where more is out than there is, what lies in purses comes back to pay for it. Otherwise a purse
    /// that was filled before would be spent on, and each of its holds might bring another debt.
    pub(super) fn call_in(&mut self, slot: u32, out: &mut Out) {
        if self.available(slot) < Amount::ZERO {
            self.recall_from_others(NOBODY, slot, false, out);
        }
    }

    /// Asks other purses that draw on the same money for what is in them. `urgent`: asks wait for it, so that pauses are as short
    /// as can be.
    fn recall_from_others(&mut self, worker: u16, slot: u32, urgent: bool, out: &mut Out) {
        let now_ms = self.now_ms;
        let scarce = self.chain(slot).min_by_key(|level| self.budget(*level).available(now_ms));
        let scarce = scarce.unwrap_or(slot);
        let Search { cursor, at_ms } = self.budget(scarce).search;
        let now_ms = self.steady_ms();
        let at_once = urgent && self.budget(scarce).below <= SEARCH_AT_ONCE_MAX;
        if now_ms < at_ms + SEARCH_PAUSE_MS && !at_once {
            return;
        }
        let all = self.budget(scarce).below as usize + 1;
        let (looks, from) = (all.min(RECALL_LOOKS_MAX), cursor % all);
        let mut pool = self.budgets.under(scarce, from, looks);
        // From the first one on again.
        pool.extend(self.budgets.under(scarce, 0, looks - pool.len()));
        for other in pool {
            self.recall_slot(other, (worker, slot), urgent, out);
        }
        let cursor = (from + looks) % all;
        self.budgets[scarce as usize].search = Search { cursor, at_ms: now_ms };
    }

    /// A named hold asks for what lies in purses.
    pub(super) fn recall_for_named(&mut self, slot: u32, out: &mut Out) {
        self.recall_from_others(NOBODY, slot, true, out);
    }

    /// Empties the purses of a budget and of those under it: the instants they are good for have changed.
    pub(super) fn recall_under(&mut self, slot: u32, out: &mut Out) {
        let all = self.budget(slot).below as usize + 1;
        for slot in self.budgets.under(slot, 0, all) {
            for worker in 0..self.options.workers {
                if self.purse_note_mut(slot, worker).grant != 0 {
                    self.recall(worker, slot, No::LATER, out);
                }
            }
        }
    }

    fn recall_slot(&mut self, slot: u32, except: (u16, u32), urgent: bool, out: &mut Out) {
        let (now_ms, arrives_ms) = (self.steady_ms(), 2 * self.sealing_ms);
        for worker in 0..self.options.workers {
            if (worker, slot) == except {
                continue;
            }
            let note = self.purse_note_mut(slot, worker);
            let rested = match urgent {
                // What waiting asks were given just now is theirs.
                true => now_ms >= note.fed_ms + FED_PAUSE_MS,
                false => now_ms >= note.recalled_ms + RECALL_PAUSE_MS,
            };
            let rested = rested && now_ms >= note.filled_ms + arrives_ms;
            let grant = note.grant;
            let has_money = self.grants.get(grant).is_some_and(|grant| grant.out > Amount::ZERO);
            if rested && has_money {
                self.recall(worker, slot, No::LATER, out);
            }
        }
    }

    /// Makes a worker retire its grant. From here on the grant is never filled again: a filling that crossed the
    /// retirement on its way would give the same hold numbers twice.
    pub(super) fn recall(&mut self, worker: u16, slot: u32, no: No, out: &mut Out) {
        let now_ms = self.steady_ms();
        let note = self.purse_note_mut(slot, worker);
        if note.grant != 0 {
            note.recalling = note.grant;
        }
        (note.grant, note.recalled_ms) = (0, now_ms);
        self.counts.recalls += 1;
        out.send(worker, ToWorker::Recall { slot, no });
    }

    /// Why nothing may be reserved from the budget at all, if so.
    pub(super) fn closed(&self, slot: u32) -> Option<Verdict> {
        if self.is_vacant(slot) {
            // The want crossed the end of an idle budget: whoever asks again finds it, or makes it anew.
            return Some(Verdict::Busy);
        }
        let levels = self.chain(slot).map(|level| self.budget(level));
        for budget in levels {
            let spec = &budget.spec;
            let why = match spec.status {
                Status::Paused => Verdict::Paused,
                Status::Ended => Verdict::Ended,
                Status::Active if self.now_ms < spec.start.ms() => Verdict::NotStarted,
                Status::Active if self.now_ms >= spec.end.ms() => Verdict::Ended,
                Status::Active => continue,
            };
            return Some(why);
        }
        None
    }

    /// The answer to an ask where nothing is left outside the purse: the least that this does not cover is refused, and so is all that is more, as
    /// far as it is for the same reason.
    fn no_more(&self, slot: u32, refused: Amount, reach: Amount, held: Amount) -> No {
        let least = self.no(slot, beyond(reach), held);
        match least.to(refused) {
            Verdict::PurseEmpty => self.no(slot, refused, held),
            _ => No { from: Amount::ZERO, ..least },
        }
    }

    /// Which limit has less than `amount` left with every purse emptied, less what is `held`, and of which asks that holds: of windows the one that
    /// lasts longest. The limit of its life goes before all windows, as nobody needs to ask again. Where no limit has less, [`Verdict::PurseEmpty`]: what
    /// is asked for lies in purses, or it was in those of the run before, of which nobody can say yet what its holds took.
    fn no(&self, slot: u32, amount: Amount, held: Amount) -> No {
        let (mut life, mut longest) = (None, None::<Lacking>);
        let (mut below, mut has_shorter) = (No::UNBOUNDED, false);
        // How much there is before money of the run before comes back, and when there is as much as is asked for.
        let (mut before, mut returns_ms) = (No::UNBOUNDED, None::<u64>);
        for budget in self.chain(slot).map(|level| self.budget(level)) {
            let in_purses = minus(budget.in_purses(), held);
            let parked = plus(in_purses, budget.returning);
            before = before.min(plus(budget.available(self.now_ms), in_purses));
            let left = plus(budget.left_of_life(), parked);
            if minus(left, budget.returning) < amount {
                returns_ms = Some(self.suspended_until_ms);
            }
            match left < amount {
                true => life = Some(life.map_or(left, |least: Amount| least.min(left))),
                false => below = below.min(beyond(left)),
            }
            for (window, used) in budget.windows() {
                let left = plus(budget.left_of(window, used, self.now_ms), parked);
                let from_ms = match window.is_day() {
                    true => budget.day.end.ms(),
                    // What is in purses comes back first.
                    false => window.counted_from_ms(&used.without(parked), self.now_ms),
                };
                let one = Lacking { window: *window, left, from_ms };
                if left >= amount {
                    if minus(left, budget.returning) < amount {
                        let ends_ms = one.lasts(amount).0.min(self.suspended_until_ms);
                        returns_ms = returns_ms.max(Some(ends_ms));
                    }
                    below = below.min(beyond(left));
                    continue;
                }
                let is_longer = longest.is_none_or(|it| one.lasts(amount) > it.lasts(amount));
                let shorter = if is_longer { longest.replace(one) } else { Some(one) };
                has_shorter |= shorter.is_some();
                below = shorter.map_or(below, |it| below.min(it.stays_shorter_below(amount)));
            }
        }
        match (life, longest) {
            (Some(left), _) => No { from: beyond(left), ..No::to_all(Verdict::Exhausted) },
            (None, Some(longest)) => {
                let no = longest.no(amount, below);
                // For a smaller ask another one may last longer.
                let is_shorter_for_less = has_shorter && longest.waits_by_amount(amount);
                let from = if is_shorter_for_less { amount } else { no.from };
                No { from, ..no }
            }
            (None, None) => match returns_ms {
                Some(until_ms) => No::returns(beyond(before), until_ms),
                None => No::LATER,
            },
        }
    }
}

/// The least ask that is more than this.
fn beyond(left: Amount) -> Amount {
    plus(left.max(Amount::ZERO), Amount::new(1))
}

/// A window that has less left than an ask.
#[derive(Clone, Copy)]
struct Lacking {
    window: WindowLimit,
    left: Amount,
    /// See [`WindowLimit::counted_from_ms`].
    from_ms: u64,
}

impl Lacking {
    fn no(self, amount: Amount, below: Amount) -> No {
        let WindowLimit { period, kind, limit } = self.window;
        let day = self.window.is_day();
        let why = if day { Verdict::DayExhausted } else { Verdict::WindowExhausted };
        // Of asks that it has room for at times nothing is said: other windows may last longer for them.
        let from = if amount > limit { beyond(limit) } else { beyond(self.left) };
        No { why, from, below, period: Some(period), kind, limit, until_ms: self.from_ms }
    }

    /// Until when it refuses such an ask; days last longer than what ends with them.
    fn lasts(self, amount: Amount) -> (u64, bool) {
        let until_ms = self.no(amount, No::UNBOUNDED).retry_at_ms(amount);
        (until_ms.unwrap_or(u64::MAX), self.window.is_day())
    }

    /// How long it refuses such an ask depends on how much that is.
    fn waits_by_amount(self, amount: Amount) -> bool {
        self.window.is_bucket() && amount <= self.window.limit
    }

    /// Another window refuses such an ask for longer: from how much on that may be otherwise.
    fn stays_shorter_below(self, amount: Amount) -> Amount {
        match () {
            () if amount > self.window.limit => No::UNBOUNDED,
            () if self.window.is_bucket() => beyond(amount),
            () => beyond(self.window.limit),
        }
    }
}
