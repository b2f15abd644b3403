//! What happens because time passed.
//!
//! Two clocks drive it. What depends on the stamps of requests (lapses, billing deadlines, the end of grants)
//! waits until *every* worker has said that no earlier stamp will come: so the answer to a request never
//! depends on how far a sweep got. What depends on the calendar follows the bank's own clock.
//!
//! A timeline exists only while a run is live. A replay of millions of records would pile up events that later
//! records make void, so the start of the run makes them all at once from the state.

use std::collections::BTreeMap;

use super::{Bank, Out};
use crate::books::plus;
use crate::grant::Sum;
use crate::part::Stage;
use crate::spec::MADE_ID_MIN;
use crate::{Amount, BudgetSpec, Clock, Line, No, Period, Record, ToWorker, WindowKind};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// Holds made under a grant reached their deadline.
    Lapse { grant: u64, amount: Amount, holds: u32 },
    /// Confirmed holds of a grant reached their billing deadline.
    Billing { grant: u64 },
    /// A grant's suspension ends, or it may be closed.
    Grant { grant: u64 },
    /// A budget's day ends.
    Day { slot: u32 },
    /// A budget's flight begins or ends.
    Flight { slot: u32 },
    /// An open grant is old.
    Old { grant: u64 },
    /// A budget made on its first ask may be idle, or what was kept of one that ended may be over.
    Idle { id: u64 },
}

/// Events by the millisecond they are due. Takes none before the run is live.
#[derive(Clone, Debug, Default)]
pub(super) struct Timeline {
    live: bool,
    /// The first grant that the run makes.
    first_grant: u64,
    by_stamp: BTreeMap<u64, Vec<Event>>,
    by_clock: BTreeMap<u64, Vec<Event>>,
    /// When each budget that was made on its first ask is looked at next. Its other events in `by_clock` mean nothing.
    looks: BTreeMap<u64, u64>,
}

impl Timeline {
    pub(super) fn is_live(&self) -> bool {
        self.live
    }

    pub(super) fn first_grant(&self) -> u64 {
        self.first_grant
    }

    pub(super) fn lapse(&mut self, grant: u64, deadline_ms: u64, (amount, holds): (Amount, u32)) {
        self.by_stamp(deadline_ms, Event::Lapse { grant, amount, holds });
    }

    pub(super) fn billing(&mut self, grant: u64, deadline_ms: u64) {
        self.by_stamp(deadline_ms, Event::Billing { grant });
    }

    pub(super) fn grant(&mut self, grant: u64, due_ms: u64) {
        self.by_stamp(due_ms, Event::Grant { grant });
    }

    pub(super) fn day(&mut self, slot: u32, end_ms: u64) {
        self.by_clock(end_ms, Event::Day { slot });
    }

    pub(super) fn flight(&mut self, slot: u32, spec: &BudgetSpec) {
        for due_ms in [spec.start.ms(), spec.end.ms()] {
            self.by_clock(due_ms, Event::Flight { slot });
        }
    }

    pub(super) fn old(&mut self, grant: u64, due_ms: u64) {
        self.by_clock(due_ms, Event::Old { grant });
    }

    /// Is looked at then, or before.
    pub(super) fn idle(&mut self, id: u64, due_ms: u64) {
        let due_ms = super::made::step_ms(due_ms);
        if !self.live || self.looks.get(&id).is_some_and(|known_ms| *known_ms <= due_ms) {
            return;
        }
        self.looks.insert(id, due_ms);
        self.by_clock(due_ms, Event::Idle { id });
    }

    /// Is it the one that counts? Then none is left.
    fn take_look(&mut self, id: u64, due_ms: u64) -> bool {
        let counts = self.looks.get(&id) == Some(&due_ms);
        if counts {
            self.looks.remove(&id);
        }
        counts
    }

    fn by_stamp(&mut self, due_ms: u64, event: Event) {
        if self.live {
            self.by_stamp.entry(due_ms).or_default().push(event);
        }
    }

    fn by_clock(&mut self, due_ms: u64, event: Event) {
        if self.live {
            self.by_clock.entry(due_ms).or_default().push(event);
        }
    }

    fn pop(&mut self, safe_ms: u64, now_ms: u64) -> Option<(u64, Vec<Event>)> {
        for (map, until) in [(&mut self.by_stamp, safe_ms), (&mut self.by_clock, now_ms)] {
            if let Some(entry) = map.first_entry()
                && *entry.key() <= until
            {
                return Some(entry.remove_entry());
            }
        }
        None
    }
}

impl Bank {
    /// Everything that will happen because of what is now. For the start of a run, when no grant is open: what
    /// workers of the last one would have reported is suspended instead.
    pub(super) fn begin_timeline(&mut self) {
        let first_grant = self.grants.next_number();
        let mut timeline = Timeline { live: true, first_grant, ..Timeline::default() };
        for (slot, budget) in (0..).zip(&self.budgets.configured) {
            timeline.flight(slot, &budget.spec);
            if !budget.day.is_empty() {
                timeline.day(slot, budget.day.end.ms());
            }
        }
        // Who asked before is not in the journal: all are as if they were asked for just now.
        for budget in &mut self.budgets.made {
            budget.used_ms = self.now_ms;
        }
        for (id, slot) in self.slots.range(MADE_ID_MIN..) {
            timeline.idle(*id, self.now_ms + self.budget(*slot).spec.idle_ms);
        }
        for (id, dormant) in &self.made.dormant {
            if let Some(over_ms) = dormant.over_ms() {
                timeline.idle(*id, over_ms);
            }
        }
        for (number, grant) in self.grants.numbers() {
            match grant.stage {
                Stage::Open => panic!("grant {number} is open before the run began"),
                Stage::Suspended { until_ms } => timeline.grant(number, until_ms),
                Stage::Retired { deadline_ms: last_ms } | Stage::Expired { until_ms: last_ms } => {
                    timeline.grant(number, self.close_ms(grant, last_ms));
                }
            }
            let waiting = grant.billing.all().iter().chain(grant.rests.all());
            for deadline_ms in waiting.map(|sum| sum.deadline_ms) {
                timeline.billing(number, deadline_ms);
            }
        }
        self.timeline = timeline;
        self.begin_ends();
    }

    pub(super) fn run_timeline(&mut self, out: &mut Out) {
        self.answers.pass(self.now_ms, self.options.answers_kept_ms);
        let safe_ms = self.safe_ms();
        // What they free is there before a purse hears that nothing is left.
        self.end_timed(out);
        while let Some((due_ms, events)) = self.timeline.pop(safe_ms, self.now_ms) {
            for event in events {
                match event {
                    Event::Lapse { grant, amount, holds } => {
                        self.lapse(grant, due_ms, (amount, holds), out);
                    }
                    Event::Billing { grant } => self.billing_lapse(grant, due_ms, out),
                    Event::Grant { grant } => self.end_grant(grant, due_ms, out),
                    Event::Day { slot } => self.day_ended(slot, out),
                    Event::Flight { slot } => self.review(slot, out),
                    Event::Old { grant } => self.renew(grant, out),
                    Event::Idle { id } if self.timeline.take_look(id, due_ms) => self.note_due(id),
                    Event::Idle { .. } => {}
                }
            }
        }
    }

    /// No worker will send an earlier stamp.
    pub(super) fn safe_ms(&self) -> u64 {
        self.safe_ms.iter().copied().min().unwrap_or(0)
    }

    /// The holds of a grant with this deadline are over: what nobody confirmed comes back, or is kept.
    fn lapse(
        &mut self,
        number: u64,
        deadline_ms: u64,
        (amount, holds): (Amount, u32),
        out: &mut Out,
    ) {
        let grant = self.grants.get_mut(number).expect("grants outlive their holds");
        let resolved = grant.take_resolved(&mut self.budgets, deadline_ms);
        let back = crate::books::minus(amount, resolved.amount);
        assert!(back >= Amount::ZERO, "grant {number}: more was resolved than held");
        let (slot, worker) = (grant.slot, grant.worker);
        let (keeps, stage) = (grant.keeps, grant.stage);
        self.use_made(slot);
        if back == Amount::ZERO {
            return;
        }
        self.count_expired(slot, holds.saturating_sub(resolved.holds));
        if keeps.unconfirmed {
            self.expire(number, Clock::Hold, deadline_ms, back, out);
        } else if stage == Stage::Open && self.purse_note_mut(slot, worker).grant == number {
            // It stays with the worker: no balance changes, so no record.
            self.purse_note_mut(slot, worker).send(back);
            out.send(worker, ToWorker::Restore { slot, grant: number, amount: back });
        } else {
            // Of a grant that is recalled nothing goes to the worker any more: once it is retired, all that is out is in holds.
            self.give_back(number, back, out);
        }
    }

    fn billing_lapse(&mut self, number: u64, deadline_ms: u64, out: &mut Out) {
        let Some(grant) = self.grants.get(number) else { return };
        let Sum { amount: unbilled, holds, .. } = grant.billing.sum(deadline_ms);
        let rest = grant.rests.get(deadline_ms);
        let (slot, keeps) = (grant.slot, grant.keeps);
        if self.is_of_run(number) {
            self.count_expired(slot, holds);
        }
        let expires = keeps.confirmed && unbilled > Amount::ZERO;
        if expires {
            self.expire(number, Clock::Billing, deadline_ms, unbilled, out);
        }
        // What is settled is billed: its rest is free, also where unbilled money is kept.
        let amount = if expires { rest } else { plus(unbilled, rest) };
        if !expires || rest > Amount::ZERO {
            self.book(Record::BillingLapsed { grant: number, deadline_ms, amount }, out);
        }
    }

    fn count_expired(&mut self, slot: u32, holds: u32) {
        let expired = &mut self.budgets[slot as usize].expired_holds;
        *expired = expired.saturating_add(holds.into());
    }

    fn expire(
        &mut self,
        grant: u64,
        clock: Clock,
        deadline_ms: u64,
        amount: Amount,
        out: &mut Out,
    ) {
        self.book(Record::Expired { grant, clock, deadline_ms, amount }, out);
        self.end_if_full(grant, out);
    }

    /// A grant is replaced long before it has too many sums of expired holds, unless there is no place for another.
    fn end_if_full(&mut self, number: u64, out: &mut Out) {
        let Some(grant) = self.grants.get(number) else { return };
        let (slot, worker, full) = (grant.slot, grant.worker, grant.expired.is_full());
        let is_open =
            worker < self.options.workers && self.purse_note_mut(slot, worker).grant == number;
        if full && is_open {
            self.recall(worker, slot, No::LATER, out);
        }
    }

    fn end_grant(&mut self, number: u64, due_ms: u64, out: &mut Out) {
        let Some(grant) = self.grants.get(number) else { return };
        match grant.stage {
            Stage::Suspended { until_ms } if until_ms <= due_ms => {
                let amount = grant.out;
                if grant.keeps.unconfirmed && amount > Amount::ZERO {
                    self.expire(number, Clock::Suspension, until_ms, amount, out);
                } else {
                    self.book(Record::Resumed { grant: number, amount }, out);
                }
            }
            Stage::Retired { deadline_ms: last_ms } | Stage::Expired { until_ms: last_ms } => {
                let close_ms = self.close_ms(grant, last_ms);
                if grant.is_empty() && close_ms <= due_ms {
                    self.book(Record::GrantClosed { grant: number }, out);
                } else if !grant.waits_for_reconciliation() {
                    // Money is still on its way back to it: look again a second later.
                    let later_ms = due_ms.max(self.safe_ms()) + 1_000;
                    self.timeline.grant(number, close_ms.max(later_ms));
                }
            }
            Stage::Suspended { .. } | Stage::Open => {}
        }
    }

    fn day_ended(&mut self, slot: u32, out: &mut Out) {
        if self.budget(slot).day.end.ms() > self.now_ms {
            return;
        }
        self.roll_days(slot, out);
        for worker in 0..self.options.workers {
            let grant = self.purse_note_mut(slot, worker).grant;
            if grant != 0 {
                self.renew(grant, out);
            }
        }
        // Purses that the old day had left empty get their first money of the new one.
        self.review_one(slot, out);
    }

    /// Begins the present day of the budget and its parents where their last one is over, and so their other windows.
    pub(super) fn roll_days(&mut self, slot: u32, out: &mut Out) {
        for level in self.chain(slot) {
            self.roll_day(level, out);
            self.roll_windows(level, out);
        }
    }

    fn roll_day(&mut self, level: u32, out: &mut Out) {
        let budget = self.budget(level);
        if budget.day.end.ms() > self.now_ms {
            return;
        }
        let now = money::Instant::from_ms(self.now_ms);
        let day = money::day_at(now, &budget.spec.zone);
        let id = budget.spec.id;
        let (start_ms, end_ms) = (day.start.ms(), day.end.ms());
        self.book(Record::DayRolled { id, start_ms, end_ms }, out);
    }

    /// Begins the windows, other than the day, whose last one is over. Only here: most budgets are not asked of in most minutes.
    /// No money was handed out between the first instant of a window and now, or it would have begun then.
    fn roll_windows(&mut self, level: u32, out: &mut Out) {
        for index in 0..self.budget(level).windows.len() {
            let budget = self.budget(level);
            let (window, used) = (budget.spec.windows.all()[index], budget.windows[index]);
            if window.is_day() || !window.is_due(&used, self.now_ms) {
                continue;
            }
            let now = money::Instant::from_ms(self.now_ms);
            let (start_ms, end_ms) = match window.kind {
                WindowKind::Bucket => (self.now_ms, self.now_ms),
                WindowKind::Fixed => {
                    let at = window.period.at(now, &budget.spec.zone);
                    let counts_ms = match window.is_of_days() {
                        true => budget.day.start.ms(),
                        // A changed zone can make it overlap the one before.
                        false => at.start.ms().max(used.until_ms),
                    };
                    (counts_ms, at.end.ms())
                }
            };
            let (id, period) = (budget.spec.id, window.period);
            self.book(Record::WindowRolled { id, period, start_ms, end_ms }, out);
        }
    }

    /// Refills the buckets of a budget up to now: before their limits change.
    pub(super) fn refill_buckets(&mut self, slot: u32, out: &mut Out) {
        let budget = self.budget(slot);
        let id = budget.spec.id;
        let begun = budget.windows().filter(|(window, used)| {
            window.is_bucket() && (1..self.now_ms).contains(&used.until_ms)
        });
        let periods: Vec<Period> = begun.map(|(window, _)| window.period).collect();
        let (start_ms, end_ms) = (self.now_ms, self.now_ms);
        for period in periods {
            self.book(Record::WindowRolled { id, period, start_ms, end_ms }, out);
        }
    }

    /// What is suspended in a budget, for statements.
    pub fn suspended(&self, slot: u32) -> Amount {
        self.books(slot).line(Line::Suspended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_has_one_look_ahead_of_it_the_earliest() {
        let mut timeline = Timeline { live: true, ..Timeline::default() };
        for due_ms in [9_000, 9_000, 12_000, 4_000, 5_000] {
            timeline.idle(7, due_ms);
        }
        let mut taken = Vec::new();
        while let Some((due_ms, events)) = timeline.pop(0, 60_000) {
            taken.extend(events.iter().map(|_| (due_ms, timeline.take_look(7, due_ms))));
        }
        let step_ms = super::super::made::step_ms;
        assert_eq!(taken, [(step_ms(4_000), true), (step_ms(9_000), false)]);
        assert!(timeline.looks.is_empty());
        timeline.idle(7, 9_000);
        assert!(timeline.take_look(7, step_ms(9_000)), "the next one counts again");
    }
}
