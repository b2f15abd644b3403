//! The only code that changes the bank's state.

use wire::Verdict;

use super::{Bank, Budget, Desk, Run, Search};
use crate::books::{minus, plus};
use crate::grant::{Grant, Mark, Stage};
use crate::spec::LEVELS_MAX;
use crate::token::SEQ_MAX;
use crate::{Amount, Books, BudgetSpec, Hold, Line, Record, Status};

/// A record that cannot follow the ones before it: records are missing, changed or out of order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// It names a grant that is not there.
    #[error("grant {0} is not known, or closed")]
    NoGrant(u64),
    /// It names a budget that is not there.
    #[error("budget {0} is not known")]
    NoBudget(u64),
    /// The grant is another budget's or worker's, or not in the stage that the record needs.
    #[error("grant {0} is not in the state that the record needs")]
    NotOpen(u64),
    /// Grants are numbered without gaps.
    #[error("grant {found} follows, expected {expected}")]
    GrantNumber {
        /// The number in the record.
        found: u64,
        /// The number that should be there.
        expected: u64,
    },
    /// Runs are numbered without gaps.
    #[error("run {found} follows, expected {expected}")]
    RunNumber {
        /// The number in the record.
        found: u32,
        /// The number that should be there.
        expected: u32,
    },
    /// More money moves than is there.
    #[error("grant {grant}: {amount:?} moves, only {there:?} is there")]
    NotThere {
        /// The grant.
        grant: u64,
        /// What should move.
        amount: Amount,
        /// What there is.
        there: Amount,
    },
    /// A verdict that no record carries, or a hold that cannot take it.
    #[error("grant {grant}, hold {seq}: cannot become {verdict:?}")]
    NotPossible {
        /// The grant.
        grant: u64,
        /// The hold.
        seq: u32,
        /// The verdict.
        verdict: Verdict,
    },
}

impl Bank {
    /// Replays one record of an earlier run. Nothing is changed by a record that does not fit.
    pub fn replay(&mut self, record: &Record) -> Result<(), ReplayError> {
        self.apply(record)
    }

    pub(super) fn apply(&mut self, record: &Record) -> Result<(), ReplayError> {
        match record {
            Record::RunStarted { run, at_ms, suspended_until_ms, hold_ms_max, billing_ms } => {
                let (hold_ms_max, billing_ms) = (*hold_ms_max, *billing_ms);
                let run = Run { number: *run, hold_ms_max, billing_ms };
                self.apply_run(run, *at_ms, *suspended_until_ms)
            }
            Record::Budget { spec } => self.apply_budget(spec),
            Record::BudgetEnded { id } => {
                let slot = self.known(*id)?;
                self.budgets[slot as usize].spec.status = Status::Ended;
                Ok(())
            }
            Record::DayRolled { id, start_ms, end_ms } => {
                let slot = self.known(*id)?;
                let budget = &mut self.budgets[slot as usize];
                // A changed time zone can make the new day overlap the old one: then what was used carries over,
                // or the same instants would have two daily limits.
                if *start_ms >= budget.day.end.ms() {
                    budget.day_lines = [Amount::ZERO; 7];
                }
                budget.day = Bank::window(*start_ms, *end_ms);
                self.timeline.day(slot, *end_ms);
                Ok(())
            }
            Record::Granted { grant, budget, worker, amount, at_ms } => {
                self.apply_granted(*grant, *budget, *worker, *amount, *at_ms)
            }
            Record::Returned { grant, amount } => self.apply_returned(*grant, *amount),
            Record::Resolved { hold, verdict, amount, at_ms } => {
                self.apply_resolved(hold, *verdict, *amount)?;
                self.now_ms = self.now_ms.max(*at_ms);
                Ok(())
            }
            Record::BillingLapsed { grant, deadline_ms, amount } => {
                self.apply_billing_lapsed(*grant, *deadline_ms, *amount)
            }
            Record::Retired { grant, deadline_ms } => {
                let stage = self.grants.get(*grant).map(|grant| grant.stage);
                match stage.ok_or(ReplayError::NoGrant(*grant))? {
                    Stage::Open => self.apply_retired(*grant, *deadline_ms),
                    _ => Err(ReplayError::NotOpen(*grant)),
                }
            }
            Record::Resumed { grant, amount } => self.apply_resumed(*grant, *amount),
            Record::GrantClosed { grant } => self.apply_closed(*grant),
        }
    }

    fn apply_run(&mut self, run: Run, at_ms: u64, until_ms: u64) -> Result<(), ReplayError> {
        let expected = self.run.number + 1;
        if run.number != expected {
            return Err(ReplayError::RunNumber { found: run.number, expected });
        }
        self.run = run;
        self.now_ms = self.now_ms.max(at_ms);
        self.safe_ms.fill(self.now_ms);
        self.desks.fill(Desk::default());
        self.timeline.forget_lapses();
        let open: Vec<u64> = self
            .grants
            .numbers()
            .filter(|(_, grant)| grant.out > Amount::ZERO || grant.stage == Stage::Open)
            .map(|(number, _)| number)
            .collect();
        for number in open {
            self.suspend(number, until_ms);
        }
        Ok(())
    }

    fn suspend(&mut self, number: u64, until_ms: u64) {
        let grant = self.grants.get_mut(number).expect("an open grant");
        if matches!(grant.stage, Stage::Suspended { .. }) {
            // An earlier crash suspended it: the run that made its holds is long over.
            return;
        }
        let retired = matches!(grant.stage, Stage::Retired { .. });
        grant.stage = Stage::Suspended { until_ms };
        grant.resolved.clear();
        let (slot, out) = (grant.slot, grant.out);
        if retired {
            let budget = &mut self.budgets[slot as usize];
            budget.retired_out = minus(budget.retired_out, out);
        }
        self.timeline.grant(number, until_ms);
        self.shift(slot, number, Line::Purses, Line::Suspended, out);
    }

    fn apply_budget(&mut self, spec: &BudgetSpec) -> Result<(), ReplayError> {
        let slot = match self.slots.get(&spec.id) {
            Some(slot) => *slot,
            None => self.add_slot(spec)?,
        };
        let budget = &mut self.budgets[slot as usize];
        budget.spec = spec.clone();
        budget.books.set_limit(spec.limit);
        self.timeline.flight(slot, spec);
        Ok(())
    }

    fn add_slot(&mut self, spec: &BudgetSpec) -> Result<u32, ReplayError> {
        let slot = u32::try_from(self.budgets.len()).expect("BUDGETS_MAX is below 2^32");
        let mut chain = [slot; LEVELS_MAX];
        let mut levels = 1;
        if let Some(parent) = spec.parent {
            let parent = self.known(parent)?;
            for level in self.chain(parent) {
                chain[levels] = level;
                levels += 1;
            }
            self.budgets[parent as usize].children.push(slot);
        }
        self.slots.insert(spec.id, slot);
        self.budgets.push(Budget {
            spec: spec.clone(),
            chain,
            levels,
            children: Vec::new(),
            books: Books::default(),
            day: Bank::window(0, 0),
            day_lines: [Amount::ZERO; 7],
            retired_out: Amount::ZERO,
            search: Search::default(),
        });
        self.desks.resize(self.budgets.len() * usize::from(self.options.workers), Desk::default());
        Ok(slot)
    }

    fn apply_granted(
        &mut self,
        number: u64,
        id: u64,
        worker: u16,
        amount: Amount,
        at_ms: u64,
    ) -> Result<(), ReplayError> {
        let slot = self.known(id)?;
        if amount < Amount::ZERO || amount > money::LIMIT_MAX {
            return Err(ReplayError::NotThere { grant: number, amount, there: money::LIMIT_MAX });
        }
        if let Some(grant) = self.grants.get(number) {
            if (grant.slot, grant.worker, grant.stage) != (slot, worker, Stage::Open) {
                return Err(ReplayError::NotOpen(number));
            }
        } else {
            let expected = self.grants.next_number();
            if number != expected {
                return Err(ReplayError::GrantNumber { found: number, expected });
            }
            let mut grant = Grant::new(slot, worker, self.run.billing_ms);
            for (day, level) in grant.days.iter_mut().zip(self.chain(slot)) {
                *day = self.budget(level).day.start.ms();
            }
            self.grants.push(grant);
        }
        self.now_ms = self.now_ms.max(at_ms);
        let grant = self.grants.get_mut(number).expect("found or made");
        grant.out = plus(grant.out, amount);
        self.shift(slot, number, Line::Free, Line::Purses, amount);
        Ok(())
    }

    fn apply_returned(&mut self, number: u64, amount: Amount) -> Result<(), ReplayError> {
        let grant = self.take_out(number, amount)?;
        let from = grant.line_out();
        let slot = grant.slot;
        self.shift(slot, number, from, Line::Free, amount);
        Ok(())
    }

    fn apply_resolved(
        &mut self,
        hold: &Hold,
        verdict: Verdict,
        amount: Amount,
    ) -> Result<(), ReplayError> {
        let (number, seq) = (hold.grant, hold.seq);
        let not_possible = ReplayError::NotPossible { grant: number, seq, verdict };
        let Some(mark) = Mark::of(verdict) else { return Err(not_possible) };
        let before = self.grants.get(number).ok_or(ReplayError::NoGrant(number))?.mark(seq);
        let sound = (Amount::ZERO..=money::ASK_MAX).contains(&amount)
            && (Amount::new(1)..=money::ASK_MAX).contains(&hold.amount)
            && hold.seq <= SEQ_MAX;
        if !sound {
            return Err(not_possible);
        }
        let from = match (before, mark) {
            (Mark::Open | Mark::Confirmed | Mark::Released, Mark::SettledLate) => Line::Free,
            (Mark::Open, _) => self.take_out(number, hold.amount)?.line_out(),
            (Mark::Confirmed, Mark::Confirmed) => return Err(not_possible),
            (Mark::Confirmed, _) => self.take_held(number, hold)?,
            _ => return Err(not_possible),
        };
        let grant = self.grants.get_mut(number).expect("found above");
        self.pages += grant.set_mark(seq, mark) as usize;
        let slot = grant.slot;
        if before == Mark::Open && from == Line::Purses {
            grant.resolved.add(hold.deadline_ms, hold.amount);
        }
        let within = amount.min(hold.amount);
        match mark {
            Mark::Confirmed => {
                self.hold_for_billing(hold);
                self.shift(slot, number, from, Line::Held, hold.amount);
            }
            Mark::Released => self.shift(slot, number, from, Line::Free, hold.amount),
            Mark::SettledLate => self.shift(slot, number, Line::Free, Line::Late, amount),
            _ => {
                self.shift(slot, number, from, Line::Settled, within);
                self.shift(slot, number, from, Line::Free, minus(hold.amount, within));
                self.shift(slot, number, Line::Free, Line::OverSettled, minus(amount, within));
            }
        }
        Ok(())
    }

    fn hold_for_billing(&mut self, hold: &Hold) {
        let grant = self.grants.get_mut(hold.grant).expect("found by the caller");
        grant.held = plus(grant.held, hold.amount);
        let deadline_ms = grant.billing_deadline_ms(hold.deadline_ms);
        if grant.billing.add(deadline_ms, hold.amount) {
            self.timeline.billing(hold.grant, deadline_ms);
        }
    }

    fn take_held(&mut self, number: u64, hold: &Hold) -> Result<Line, ReplayError> {
        let grant = self.grants.get_mut(number).ok_or(ReplayError::NoGrant(number))?;
        let deadline_ms = grant.billing_deadline_ms(hold.deadline_ms);
        let there = grant.billing.get(deadline_ms);
        if there < hold.amount {
            return Err(ReplayError::NotThere { grant: number, amount: hold.amount, there });
        }
        grant.billing.subtract(deadline_ms, hold.amount);
        grant.held = minus(grant.held, hold.amount);
        Ok(Line::Held)
    }

    fn apply_billing_lapsed(
        &mut self,
        number: u64,
        deadline_ms: u64,
        amount: Amount,
    ) -> Result<(), ReplayError> {
        let grant = self.grants.get_mut(number).ok_or(ReplayError::NoGrant(number))?;
        let there = grant.billing.get(deadline_ms);
        if there != amount {
            return Err(ReplayError::NotThere { grant: number, amount, there });
        }
        grant.billing.take(deadline_ms);
        grant.held = minus(grant.held, amount);
        let slot = grant.slot;
        self.shift(slot, number, Line::Held, Line::Free, amount);
        Ok(())
    }

    fn apply_retired(&mut self, number: u64, deadline_ms: u64) -> Result<(), ReplayError> {
        let close_ms = self.close_ms(number, deadline_ms)?;
        let grant = self.grants.get_mut(number).expect("close_ms found it");
        let again = matches!(grant.stage, Stage::Retired { .. });
        grant.stage = Stage::Retired { deadline_ms };
        let (slot, worker, out) = (grant.slot, grant.worker, grant.out);
        if !again {
            let budget = &mut self.budgets[slot as usize];
            budget.retired_out = plus(budget.retired_out, out);
        }
        self.timeline.grant(number, close_ms);
        if worker < self.options.workers {
            let desk = self.desk_mut(slot, worker);
            if desk.grant == number {
                desk.grant = 0;
            }
        }
        Ok(())
    }

    fn apply_resumed(&mut self, number: u64, amount: Amount) -> Result<(), ReplayError> {
        let stage = self.grants.get(number).map(|grant| (grant.stage, grant.out));
        let (stage, there) = stage.ok_or(ReplayError::NoGrant(number))?;
        let Stage::Suspended { until_ms } = stage else {
            return Err(ReplayError::NotOpen(number));
        };
        if amount != there {
            return Err(ReplayError::NotThere { grant: number, amount, there });
        }
        let slot = self.take_out(number, amount)?.slot;
        self.shift(slot, number, Line::Suspended, Line::Free, amount);
        self.apply_retired(number, until_ms)
    }

    fn apply_closed(&mut self, number: u64) -> Result<(), ReplayError> {
        let grant = self.grants.get(number).ok_or(ReplayError::NoGrant(number))?;
        let there = plus(grant.out, grant.held);
        if there != Amount::ZERO {
            return Err(ReplayError::NotThere { grant: number, amount: Amount::ZERO, there });
        }
        self.pages -= grant.pages();
        self.grants.close(number);
        Ok(())
    }

    /// When nothing more can come for a grant whose last hold had this deadline.
    pub(super) fn close_ms(&self, number: u64, deadline_ms: u64) -> Result<u64, ReplayError> {
        let grant = self.grants.get(number).ok_or(ReplayError::NoGrant(number))?;
        Ok(grant.billing_deadline_ms(deadline_ms) + self.options.late_ms)
    }

    fn take_out(&mut self, number: u64, amount: Amount) -> Result<&Grant, ReplayError> {
        let grant = self.grants.get_mut(number).ok_or(ReplayError::NoGrant(number))?;
        if amount < Amount::ZERO || grant.out < amount {
            return Err(ReplayError::NotThere { grant: number, amount, there: grant.out });
        }
        grant.out = minus(grant.out, amount);
        if matches!(grant.stage, Stage::Retired { .. }) {
            let budget = &mut self.budgets[grant.slot as usize];
            budget.retired_out = minus(budget.retired_out, amount);
        }
        Ok(grant)
    }

    /// Moves money of a grant on every level, and in the days the grant was made in where they are not over.
    fn shift(&mut self, slot: u32, grant: u64, from: Line, to: Line, amount: Amount) {
        let days = self.grants.get(grant).map(|grant| grant.days);
        for (i, level) in self.chain(slot).enumerate() {
            let budget = &mut self.budgets[level as usize];
            budget.books.shift(from, to, amount);
            let same_day = days.is_some_and(|days| days[i] == budget.day.start.ms());
            if !same_day {
                continue;
            }
            if from != Line::Free {
                let line = &mut budget.day_lines[from as usize];
                *line = minus(*line, amount);
            }
            if to != Line::Free {
                let line = &mut budget.day_lines[to as usize];
                *line = plus(*line, amount);
            }
        }
    }

    fn known(&self, id: u64) -> Result<u32, ReplayError> {
        self.slots.get(&id).copied().ok_or(ReplayError::NoBudget(id))
    }

    pub(super) fn window(start_ms: u64, end_ms: u64) -> money::Window {
        let at = money::Instant::from_ms;
        money::Window { start: at(start_ms), end: at(end_ms) }
    }
}

impl Grant {
    /// The line that `out` stands on.
    pub(super) fn line_out(&self) -> Line {
        match self.stage {
            Stage::Suspended { .. } => Line::Suspended,
            Stage::Open | Stage::Retired { .. } => Line::Purses,
        }
    }
}
