//! How money goes to purses and comes back.
//!
//! A purse gets what its recent asks would need for `refresh_ms`, but never more than its share of half of what
//! is left, so that fillings shrink as the budget nears its end; and never less than the ask it had to refuse,
//! if that much is left, so that the last coins are spent too. Where nothing is left for an ask, other purses
//! of the budget (and of the budgets that share its parents) are asked to give theirs back.

use wire::Verdict;

use super::{Bank, Out, Search};
use crate::part::Stage;
use crate::token::{GRANT_MAX, SEQ_MAX};
use crate::{Amount, Record, Status, ToWorker};

/// A new purse gets this part of what is left, divided among the workers.
const FIRST_PART: i64 = 64;
/// Purses looked at for money in one go.
const RECALL_LOOKS_MAX: usize = 256;
/// A search is not begun again within this time: fifty thousand children may be hungry at once.
const SEARCH_PAUSE_MS: u64 = 5;
/// No worker has this number.
const NOBODY: u16 = u16::MAX;
/// A purse is not asked again for its money within this time.
const RECALL_PAUSE_MS: u64 = 100;

/// What a worker says of a purse.
#[derive(Clone, Copy, Debug)]
pub(super) struct Need {
    pub(super) free: Amount,
    pub(super) asked: Amount,
    pub(super) short: Amount,
    pub(super) seq: u32,
}

impl Need {
    /// Are the hold numbers of the grant about to run out?
    fn numbers_low(self) -> bool {
        self.seq > SEQ_MAX / 2
    }
}

impl Bank {
    pub(super) fn want(&mut self, worker: u16, slot: u32, need: Need, out: &mut Out) {
        self.roll_days(slot, out);
        if let Some(why) = self.closed(slot) {
            if self.purse_note_mut(slot, worker).grant == 0 {
                out.send(worker, ToWorker::Deny { slot, why });
            } else {
                self.recall(worker, slot, why, out);
            }
            return;
        }
        let wanted = self.wanted(worker, slot, need);
        let available = self.available(slot);
        let share = Amount::new(available.get() / (2 * i64::from(self.options.workers)));
        let amount = wanted.min(share.max(need.short)).min(available).max(Amount::ZERO);
        let recalled = amount < need.short && self.recall_from_others(worker, slot, out);
        if amount > Amount::ZERO {
            self.fill(worker, slot, amount, need.seq, out);
        } else if need.numbers_low() {
            // What is in the purse must come back before a new grant can have it.
            self.recall(worker, slot, Verdict::PurseEmpty, out);
        } else if available <= Amount::ZERO {
            let why = if recalled { Verdict::PurseEmpty } else { self.why_empty(slot) };
            out.send(worker, ToWorker::Deny { slot, why });
        }
        // Else the purse has what it needs, and more is there when it needs more.
    }

    /// What the purse would use in `refresh_ms` at the rate of its asks since it last wanted something.
    fn wanted(&mut self, worker: u16, slot: u32, need: Need) -> Amount {
        let (now_ms, refresh_ms) = (self.steady_ms(), self.options.refresh_ms);
        let note = self.purse_note_mut(slot, worker);
        let since_ms = now_ms.saturating_sub(note.asked_ms).max(1);
        note.asked_ms = now_ms;
        let asked = i128::from(need.asked.get()) * i128::from(refresh_ms) / i128::from(since_ms);
        const LIMIT_MAX: i64 = money::LIMIT_MAX.get();
        let asked = Amount::new(i64::try_from(asked).unwrap_or(LIMIT_MAX).min(LIMIT_MAX));
        if need.numbers_low() {
            // A new grant will replace the present one, and what is in the purse goes back.
            return asked.max(need.free).max(need.short);
        }
        // At a slow rate it should still cover two more of what was asked since it wanted last.
        let asked = asked.max(Amount::new(need.asked.get().saturating_mul(2).min(LIMIT_MAX)));
        crate::books::minus(asked, need.free).max(need.short)
    }

    /// Puts money into a purse, with a new grant where the present one is used up, old or of another day.
    fn fill(&mut self, worker: u16, slot: u32, amount: Amount, seq: u32, out: &mut Out) {
        let present = self.purse_note_mut(slot, worker).grant;
        let usable = present != 0 && seq <= SEQ_MAX / 2 && self.of_today(present);
        let grant = if usable { present } else { self.grants.next_number() };
        let full = self.grants.len() >= self.options.grants_max
            || self.grants.span_full()
            || grant > GRANT_MAX;
        if !usable && full {
            self.counts.grants_full += 1;
            out.send(worker, ToWorker::Deny { slot, why: Verdict::Busy });
            return;
        }
        let (budget, at_ms) = (self.budget(slot).spec.id, self.now_ms);
        self.book(Record::Granted { grant, budget, worker, amount, at_ms }, out);
        if !usable {
            self.purse_note_mut(slot, worker).grant = grant;
            self.timeline.old(grant, at_ms + self.options.grant_ms_max);
        }
        self.counts.fills += 1;
        let (valid_from_ms, valid_until_ms) = self.valid_ms(slot);
        out.send(worker, ToWorker::Fill { slot, grant, amount, valid_from_ms, valid_until_ms });
    }

    fn of_today(&self, number: u64) -> bool {
        let Some(grant) = self.grants.get(number) else { return false };
        let mut levels = self.chain(grant.slot).zip(grant.days);
        levels.all(|(level, day)| self.budget(level).day.start.ms() == day)
    }

    /// When money of the budget may be reserved: within the flights and the present days of all levels.
    fn valid_ms(&self, slot: u32) -> (u64, u64) {
        let levels = self.chain(slot).map(|level| self.budget(level));
        levels.fold((0, u64::MAX), |(from, until), budget| {
            let (spec, day) = (&budget.spec, &budget.day);
            let from = from.max(spec.start.ms()).max(day.start.ms());
            (from, until.min(spec.end.ms()).min(day.end.ms()))
        })
    }

    /// Fills or empties the purses of a budget, and of those it is a parent of, after its configuration changed
    /// or its flight began or ended.
    pub(super) fn review(&mut self, slot: u32, out: &mut Out) {
        self.review_one(slot, out);
        for child in self.budget(slot).children.clone() {
            self.review(child, out);
        }
    }

    pub(super) fn review_one(&mut self, slot: u32, out: &mut Out) {
        self.roll_days(slot, out);
        let closed = self.closed(slot);
        let available = self.available(slot);
        for worker in 0..self.options.workers {
            let has_grant = self.purse_note_mut(slot, worker).grant != 0;
            match closed {
                Some(why) => self.recall(worker, slot, why, out),
                None if available < Amount::ZERO => {
                    let why = self.why_empty(slot);
                    self.recall(worker, slot, why, out);
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
        if amount > Amount::ZERO {
            self.fill(worker, slot, amount, 0, out);
        } else {
            let why = self.why_empty(slot);
            out.send(worker, ToWorker::Deny { slot, why });
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
        if let Some(why) = self.closed(slot) {
            self.recall(worker, slot, why, out);
            return;
        }
        let share = self.available(slot).get() / (2 * i64::from(self.options.workers));
        let amount = before.min(Amount::new(share));
        if amount > Amount::ZERO {
            self.fill(worker, slot, amount, SEQ_MAX, out);
            if self.purse_note_mut(slot, worker).grant == number {
                // No place for another grant: it stays in use for now.
                self.timeline.old(number, self.now_ms + self.options.grant_ms_max);
            }
        } else {
            self.recall(worker, slot, Verdict::PurseEmpty, out);
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
    }

    pub(super) fn give_back(&mut self, grant: u64, amount: Amount, out: &mut Out) {
        self.book(Record::Returned { grant, amount }, out);
    }

    /// After a debt: where more is out than there is, what lies in purses comes back to pay for it. Otherwise a purse
    /// that was filled before would be spent on, and each of its holds might bring another debt.
    pub(super) fn call_in(&mut self, slot: u32, out: &mut Out) {
        if self.available(slot) < Amount::ZERO {
            self.recall_from_others(NOBODY, slot, out);
        }
    }

    /// Asks other purses that draw on the same money for what is in them. True if any was asked.
    fn recall_from_others(&mut self, worker: u16, slot: u32, out: &mut Out) -> bool {
        let scarce = self.chain(slot).min_by_key(|level| self.budget(*level).available());
        let scarce = scarce.unwrap_or(slot);
        let Search { cursor, at_ms, found } = self.budget(scarce).search;
        let now_ms = self.steady_ms();
        if now_ms < at_ms + SEARCH_PAUSE_MS {
            return found;
        }
        let mut pool = vec![scarce];
        self.descendants(scarce, &mut pool);
        let looks = pool.len().min(RECALL_LOOKS_MAX);
        let mut found = false;
        for i in 0..looks {
            let other = pool[(cursor + i) % pool.len()];
            found |= self.recall_slot(other, (worker, slot), out);
        }
        let cursor = (cursor + looks) % pool.len();
        self.budgets[scarce as usize].search = Search { cursor, at_ms: now_ms, found };
        found
    }

    fn descendants(&self, slot: u32, pool: &mut Vec<u32>) {
        for child in &self.budget(slot).children {
            pool.push(*child);
            self.descendants(*child, pool);
        }
    }

    /// Empties the purses of a budget and of those under it: the instants they are good for have changed.
    pub(super) fn recall_under(&mut self, slot: u32, out: &mut Out) {
        let mut pool = vec![slot];
        self.descendants(slot, &mut pool);
        for slot in pool {
            for worker in 0..self.options.workers {
                if self.purse_note_mut(slot, worker).grant != 0 {
                    self.recall(worker, slot, Verdict::PurseEmpty, out);
                }
            }
        }
    }

    fn recall_slot(&mut self, slot: u32, except: (u16, u32), out: &mut Out) -> bool {
        let (now_ms, mut asked) = (self.steady_ms(), false);
        for worker in 0..self.options.workers {
            let note = self.purse_note_mut(slot, worker);
            let rested = now_ms >= note.recalled_ms + RECALL_PAUSE_MS;
            if note.grant == 0 || !rested || (worker, slot) == except {
                continue;
            }
            asked = true;
            self.recall(worker, slot, Verdict::PurseEmpty, out);
        }
        asked
    }

    /// Makes a worker retire its grant. From here on the grant is never filled again: a filling that crossed the
    /// retirement on its way would give the same hold numbers twice.
    pub(super) fn recall(&mut self, worker: u16, slot: u32, why: Verdict, out: &mut Out) {
        let now_ms = self.steady_ms();
        let note = self.purse_note_mut(slot, worker);
        (note.grant, note.recalled_ms) = (0, now_ms);
        self.counts.recalls += 1;
        out.send(worker, ToWorker::Recall { slot, why });
    }

    /// Why nothing may be reserved from the budget at all, if so.
    fn closed(&self, slot: u32) -> Option<Verdict> {
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

    /// Which limit it is that has nothing left.
    fn why_empty(&self, slot: u32) -> Verdict {
        let mut levels = self.chain(slot).map(|level| self.budget(level));
        let day = levels.any(|b| {
            b.available_by_calendar().is_some_and(|left| left <= Amount::ZERO)
                && b.books.line(crate::Line::Free) > Amount::ZERO
        });
        if day { Verdict::DayExhausted } else { Verdict::Exhausted }
    }
}
