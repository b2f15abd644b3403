//! The only code that changes the bank's state.

use wire::{Handle, Verdict};

use super::memos::Memos;
use super::{Bank, Budget, PurseNote, Run, Slots, Timeline};
use crate::books::{LINES, minus, plus};
use crate::grant::{Expired, Grant, Sum, Sums};
use crate::page::Mark;
use crate::part::{Keeps, Stage};
use crate::spec::{BUDGETS_MAX, LEVELS_MAX, MADE_ID_MIN, MADE_SLOT, SpecError, check_alone};
use crate::token::SEQ_MAX;
use crate::{
    Amount, BudgetSpec, Clock, Hold, KeptWith, KeyBytes, KeyError, LedgerEvidence, Line,
    NamedError, OnExpiry, Period, Record, Status, TokenKey, WindowKind, WindowLimit, WindowUse,
};

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
    /// A budget that ends as an idle one and is none.
    #[error(
        "budget {0} is not one that was made on its first ask, or its money is not all accounted for"
    )]
    NotIdle(u64),
    /// A budget that cannot be.
    #[error(transparent)]
    Budget(#[from] SpecError),
    /// An instant or a span that no node comes to.
    #[error("{0} ms is beyond the last instant")]
    Instant(u64),
    /// It begins a window that the budget does not have.
    #[error("budget {budget} has no window of a {period}")]
    NoWindow {
        /// The budget.
        budget: u64,
        /// The window's period.
        period: &'static str,
    },
    /// More would be spent or out than a budget can carry.
    #[error("{amount:?} of grant {grant} do not fit in the books")]
    TooMuch {
        /// The grant.
        grant: u64,
        /// What should move.
        amount: Amount,
    },
    /// The answer to a key is too long, or another one is kept for it.
    #[error("the answer to key {key:032x} is too long, or one is kept for it already")]
    Answer {
        /// The hash of the key.
        key: u128,
    },
    /// A memo is too long.
    #[error("a memo of {bytes} bytes under key {key:032x}, more than one can have")]
    Memo {
        /// Its key.
        key: u128,
        /// How long it is.
        bytes: usize,
    },
    /// What is said of a named hold cannot be, or does not follow.
    #[error("named hold {key:032x}: {error}")]
    Named {
        /// Its key.
        key: u128,
        /// What is wrong.
        error: NamedError,
    },
    /// The secret of answers stays for good.
    #[error("a second secret of answers")]
    AnswerSecretTwice,
    /// The token keys cannot change this way.
    #[error(transparent)]
    Key(#[from] KeyError),
}

impl Bank {
    /// Replays one record of an earlier run. Nothing is changed by a record that does not fit.
    ///
    /// # Panics
    /// If a run of this bank is live: it makes its own records.
    pub fn replay(&mut self, record: &Record) -> Result<(), ReplayError> {
        assert!(!self.timeline.is_live(), "records are replayed before a run begins");
        self.apply(record)
    }

    /// Replays records one after the other, as [`Bank::replay`] does, several times as fast: while one is applied,
    /// what the next ones will change is on its way from memory.
    ///
    /// # Errors
    /// The index of the record that does not fit, and why. All before it were applied.
    pub fn replay_all(&mut self, records: &[Record]) -> Result<(), (usize, ReplayError)> {
        for (index, record) in records.iter().enumerate() {
            let ahead = |distance| match records.get(index + distance) {
                Some(Record::Resolved { hold, .. }) => Some(hold),
                _ => None,
            };
            // Each step follows a pointer that the step before has fetched.
            ahead(4 * AHEAD).into_iter().for_each(|hold| self.grants.prefetch_place(hold.grant));
            ahead(3 * AHEAD).into_iter().for_each(|hold| self.grants.prefetch(hold.grant));
            if let Some(hold) = ahead(2 * AHEAD)
                && let Some(grant) = self.grants.get(hold.grant)
            {
                grant.prefetch_marks();
                self.budget(grant.slot).prefetch();
            }
            if let Some(hold) = ahead(AHEAD)
                && let Some(grant) = self.grants.get(hold.grant)
            {
                grant.prefetch_mark(hold.seq);
            }
            self.replay(record).map_err(|error| (index, error))?;
        }
        Ok(())
    }

    pub(super) fn apply(&mut self, record: &Record) -> Result<(), ReplayError> {
        match record {
            Record::RunStarted { .. }
            | Record::Beat { .. }
            | Record::Handover { .. }
            | Record::Kept { .. } => self.apply_of_run(record),
            Record::Budget { spec } => self.apply_budget(spec),
            Record::BudgetEnded { id } => self.apply_ended(*id),
            Record::BudgetIdled { id } => self.apply_idled(*id),
            Record::BudgetForgotten { id } => self.apply_forgotten(*id),
            Record::DayRolled { .. }
            | Record::PeriodRolled { .. }
            | Record::WindowRolled { .. } => self.apply_rolled(record),
            Record::Granted { grant, budget, worker, amount, at_ms } => {
                check_ms([*at_ms])?;
                self.apply_granted(*grant, *budget, *worker, *amount, *at_ms)
            }
            Record::Returned { grant, amount } => self.apply_returned(*grant, *amount),
            Record::Resolved {
                hold, verdict, amount, at_ms, keeps_rest, clicked, kept, ..
            } => {
                let what = (*verdict, *amount, *keeps_rest, *clicked);
                self.apply_kept(hold, what, *at_ms, kept.as_deref())
            }
            Record::ToppedUp { .. } => self.apply_topped_up(record),
            Record::Clicked { .. } => self.apply_clicked(record),
            Record::Memo { memo, at_ms } => self.apply_memo(memo, *at_ms),
            Record::Named { .. } | Record::NamedEnded { .. } => self.apply_named(record),
            Record::Timed(change) => self.apply_timed(change),
            Record::BillingLapsed { grant, deadline_ms, amount } => {
                self.apply_billing_lapsed(*grant, *deadline_ms, *amount)
            }
            Record::Expired { grant, clock, deadline_ms, amount } => match clock {
                Clock::Hold => self.apply_expired(*grant, *deadline_ms, *amount),
                Clock::Billing => self.apply_unbilled(*grant, *deadline_ms, *amount),
                Clock::Suspension => self.apply_suspension_over(*grant, *deadline_ms, *amount),
            },
            Record::Reconciled { grant, until_ms, amount } => {
                check_ms([*until_ms])?;
                self.apply_reconciled(*grant, *until_ms, *amount)
            }
            Record::Retired { grant, deadline_ms } => self.apply_open_retired(*grant, *deadline_ms),
            Record::Resumed { grant, amount } => self.apply_resumed(*grant, *amount),
            Record::GrantClosed { grant } => self.apply_closed(*grant),
            Record::Suspended { grant, until_ms, amount } => {
                self.check_suspended(*grant, *until_ms, *amount)
            }
            Record::KeyAdded { key_id, key, at_ms } => {
                check_ms([*at_ms])?;
                self.keys.add(TokenKey { id: *key_id, key: *key, since_ms: *at_ms })?;
                self.now_ms = self.now_ms.max(*at_ms);
                Ok(())
            }
            Record::AnswerSecret { secret, at_ms } => self.apply_answer_secret(*secret, *at_ms),
            Record::KeyRetired { key_id } => Ok(self.keys.retire(*key_id)?),
            Record::Operator { at_ms, .. } | Record::Edited { at_ms, .. } => self.pass_to(*at_ms),
        }
    }

    fn apply_of_run(&mut self, record: &Record) -> Result<(), ReplayError> {
        match record {
            Record::RunStarted {
                run,
                at_ms,
                suspended_until_ms,
                hold_ms_max,
                billing_ms,
                win_notices,
                lease_ms,
                node: _,
            } => {
                let (hold_ms_max, billing_ms) = (*hold_ms_max, *billing_ms);
                let (lease_ms, win_notices) = (*lease_ms, *win_notices);
                check_ms([*at_ms, *suspended_until_ms, hold_ms_max, billing_ms, lease_ms])?;
                let number = *run;
                let handed_over = false;
                let run =
                    Run { number, hold_ms_max, billing_ms, win_notices, lease_ms, handed_over };
                self.apply_run(run, *at_ms, *suspended_until_ms)
            }
            Record::Beat { at_ms } => self.pass_to(*at_ms),
            Record::Handover { at_ms } => {
                self.pass_to(*at_ms)?;
                self.run.handed_over = true;
                Ok(())
            }
            Record::Kept { room, last, .. } => {
                self.kept[room.index()] += u64::from(*last);
                Ok(())
            }
            _ => unreachable!("chosen by the caller"),
        }
    }

    fn apply_ended(&mut self, id: u64) -> Result<(), ReplayError> {
        let slot = self.known(id)?;
        self.rename(slot, None);
        self.budgets[slot as usize].spec.status = Status::Ended;
        Ok(())
    }

    pub(super) fn pass_to(&mut self, at_ms: u64) -> Result<(), ReplayError> {
        check_ms([at_ms])?;
        self.now_ms = self.now_ms.max(at_ms);
        Ok(())
    }

    /// A resolve, with what is kept for repeats of its request: both or neither.
    #[inline]
    fn apply_kept(
        &mut self,
        hold: &Hold,
        what: (Verdict, Amount, bool, bool),
        at_ms: u64,
        kept: Option<&KeptWith>,
    ) -> Result<(), ReplayError> {
        check_ms([hold.deadline_ms, at_ms])?;
        match kept {
            None => {}
            Some(KeptWith::Answer(kept)) => self.answers.check(kept, at_ms)?,
            Some(KeptWith::Memo(memo)) => Memos::check(memo)?,
        }
        let (verdict, amount, ..) = what;
        match verdict {
            Verdict::Granted => self.check_answered(hold, amount, kept)?,
            _ => self.apply_resolved(hold, what, at_ms)?,
        }
        match kept {
            None => {}
            Some(KeptWith::Answer(kept)) => {
                self.answers.keep(kept, verdict, at_ms, self.options.answers_kept_ms);
            }
            Some(KeptWith::Memo(memo)) => self.memos.keep(memo, at_ms),
        }
        self.now_ms = self.now_ms.max(at_ms);
        Ok(())
    }

    /// An answer that is kept for a key, or a memo: its hold stays what it is.
    fn check_answered(
        &self,
        hold: &Hold,
        amount: Amount,
        kept: Option<&KeptWith>,
    ) -> Result<(), ReplayError> {
        // A memo is of a hold that was made for it; an answer may be that to a repeat.
        let (is_kept, is_answer) = (kept.is_some(), matches!(kept, Some(KeptWith::Answer(_))));
        let (number, seq, verdict) = (hold.grant, hold.seq, Verdict::Granted);
        let grant = self.grants.get(number).ok_or(ReplayError::NoGrant(number))?;
        let sound = (Amount::new(1)..=money::ASK_MAX).contains(&hold.amount)
            && seq <= SEQ_MAX
            && (grant.mark(seq) == Mark::Open || is_answer);
        let whole = sound && is_kept && amount == Amount::ZERO;
        if whole { Ok(()) } else { Err(ReplayError::NotPossible { grant: number, seq, verdict }) }
    }

    fn apply_answer_secret(&mut self, secret: KeyBytes, at_ms: u64) -> Result<(), ReplayError> {
        check_ms([at_ms])?;
        if self.answers.secret.is_some() {
            return Err(ReplayError::AnswerSecretTwice);
        }
        self.answers.secret = Some(secret);
        self.now_ms = self.now_ms.max(at_ms);
        Ok(())
    }

    fn apply_rolled(&mut self, record: &Record) -> Result<(), ReplayError> {
        match record {
            Record::DayRolled { id, start_ms, end_ms } => {
                self.apply_day_rolled(*id, *start_ms, *end_ms)
            }
            Record::PeriodRolled { id, start_ms, end_ms } => {
                self.apply_period_rolled(*id, *start_ms, *end_ms)
            }
            Record::WindowRolled { id, period, start_ms, end_ms } => {
                self.apply_window_rolled(*id, *period, *start_ms, *end_ms)
            }
            _ => unreachable!("chosen by the caller"),
        }
    }

    fn apply_day_rolled(&mut self, id: u64, start_ms: u64, end_ms: u64) -> Result<(), ReplayError> {
        check_ms([start_ms, end_ms])?;
        let slot = self.known(id)?;
        let budget = &mut self.budgets[slot as usize];
        // A changed time zone can make the new day overlap the old one: then what was used carries over, or the same
        // instants would have two daily limits.
        if start_ms >= budget.day.end.ms() {
            budget.day_lines = [Amount::ZERO; LINES];
            // Whatever is set aside under a name counts from the first instant on.
            budget.day_lines[Line::Held as usize] = budget.named_held;
            budget.day_lines[Line::Expired as usize] = budget.named_expired;
            budget.day_named = 0;
        }
        budget.day = Bank::window(start_ms, end_ms);
        // The day of one that was made on its first ask begins with an ask of that day: there may be a million of them.
        if slot < MADE_SLOT {
            self.timeline.day(slot, end_ms);
        }
        Ok(())
    }

    fn apply_period_rolled(
        &mut self,
        id: u64,
        start_ms: u64,
        end_ms: u64,
    ) -> Result<(), ReplayError> {
        let budget = self.budget(self.known(id)?);
        let only = budget.spec.windows.all().iter().find(|window| window.period > Period::Day);
        match only.map(|window| window.period) {
            Some(period) => self.apply_window_rolled(id, period, start_ms, end_ms),
            None => Err(ReplayError::NoWindow { budget: id, period: "week or month" }),
        }
    }

    fn apply_window_rolled(
        &mut self,
        id: u64,
        period: Period,
        start_ms: u64,
        end_ms: u64,
    ) -> Result<(), ReplayError> {
        check_ms([start_ms, end_ms])?;
        let slot = self.known(id)?;
        let next_grant = self.grants.next_number();
        let budget = &mut self.budgets[slot as usize];
        let (day_used, day_named) = (budget.day_used(), budget.day_named);
        let mut windows = budget.windows_mut();
        let found = windows.find(|(window, _)| window.period == period && !window.is_day());
        let missing = ReplayError::NoWindow { budget: id, period: period.name() };
        let (window, used) = found.ok_or(missing)?;
        *used = match (window.kind, window.is_of_days()) {
            (WindowKind::Bucket, _) if used.until_ms > 0 => used.refilled(*window, end_ms),
            (WindowKind::Fixed, true) => {
                WindowUse { since: start_ms, until_ms: end_ms, used: day_used, rest: day_named }
            }
            _ => WindowUse { since: next_grant, until_ms: end_ms, ..WindowUse::default() },
        };
        Ok(())
    }

    fn apply_run(&mut self, run: Run, at_ms: u64, until_ms: u64) -> Result<(), ReplayError> {
        let expected = self.run.number + 1;
        if run.number != expected {
            return Err(ReplayError::RunNumber { found: run.number, expected });
        }
        self.run = run;
        self.suspended_until_ms = until_ms;
        self.now_ms = self.now_ms.max(at_ms);
        self.safe_ms.fill(self.now_ms);
        self.purse_notes.fill(PurseNote::default());
        self.made.purse_notes.fill(PurseNote::default());
        let numbers: Vec<u64> = self.not_yet_suspended().collect();
        for number in numbers {
            self.suspend(number, until_ms);
        }
        Ok(())
    }

    /// What the start of a run suspends. Not what an earlier crash did: the run that made those holds is long over.
    pub(super) fn not_yet_suspended(&self) -> impl Iterator<Item = u64> {
        let suspends = |grant: &Grant| match grant.stage {
            Stage::Open => true,
            Stage::Retired { .. } => grant.out > Amount::ZERO,
            Stage::Suspended { .. } | Stage::Expired { .. } => false,
        };
        self.grants.numbers().filter(move |(_, grant)| suspends(grant)).map(|(number, _)| number)
    }

    fn suspend(&mut self, number: u64, until_ms: u64) {
        let grant = self.grants.get_mut(number).expect("an open grant");
        let retired = matches!(grant.stage, Stage::Retired { .. });
        grant.leave_worker(&mut self.budgets, Stage::Suspended { until_ms });
        grant.resolved.clear();
        if retired {
            self.budgets.shift_retired(grant.slot, grant.out, minus);
        }
        if !grant.keeps.unconfirmed {
            self.budgets.shift_returning(grant.slot, grant.out, plus);
        }
        grant.shift(&mut self.budgets, Line::Purses, Line::Suspended, grant.out);
    }

    /// Does the record say what `RunStarted` did?
    fn check_suspended(
        &self,
        number: u64,
        until_ms: u64,
        amount: Amount,
    ) -> Result<(), ReplayError> {
        let grant = self.grants.get(number).ok_or(ReplayError::NoGrant(number))?;
        if grant.stage != (Stage::Suspended { until_ms }) {
            return Err(ReplayError::NotOpen(number));
        }
        if grant.out != amount {
            return Err(ReplayError::NotThere { grant: number, amount, there: grant.out });
        }
        Ok(())
    }

    fn apply_budget(&mut self, spec: &BudgetSpec) -> Result<(), ReplayError> {
        self.check_spec(spec)?;
        self.check_made_id(spec.id)?;
        let slot = self.slot(spec.id).unwrap_or_else(|| self.add_slot(spec));
        if slot < MADE_SLOT {
            self.rename(slot, spec.handle.as_ref().filter(|_| spec.status != Status::Ended));
        }
        let budget = &mut self.budgets[slot as usize];
        let kept = |window: &WindowLimit| {
            let before = budget.windows().find(|(known, _)| known.period == window.period);
            before.filter(|(known, _)| known.kind == window.kind).map(|(_, used)| *used)
        };
        let windows = spec.windows.all().iter().map(|window| kept(window).unwrap_or_default());
        budget.windows = windows.collect();
        budget.spec = spec.clone();
        budget.books.set_limit(spec.limit);
        if slot < MADE_SLOT {
            self.timeline.flight(slot, spec);
        }
        Ok(())
    }

    /// A configured budget has this handle from now on, or none. Two that change handles with each other do so one after the
    /// other: in between, one of them has the handle of both, and the last one to take it keeps it.
    pub(super) fn rename(&mut self, slot: u32, handle: Option<&Handle>) {
        let before = self.budgets[slot as usize].spec.handle.as_ref();
        if let Some(before) = before
            && Some(before) != handle
            && self.named.get(before) == Some(&slot)
        {
            self.named.remove(before);
        }
        if let Some(handle) = handle {
            self.named.insert(handle.clone(), slot);
        }
    }

    /// Can the budget be added to those that are known, or changed to this?
    ///
    /// # Errors
    /// One thing that is wrong.
    pub fn check_spec(&self, spec: &BudgetSpec) -> Result<(), SpecError> {
        let mut errors = Vec::new();
        let there = if spec.id < MADE_ID_MIN { self.slots() } else { self.made_live() };
        if self.slot(spec.id).is_none() && there >= BUDGETS_MAX {
            errors.push(SpecError::TooMany { found: BUDGETS_MAX + 1 });
        }
        check_alone(spec, &mut errors);
        self.check_fixed(spec, &mut errors);
        self.check_parent(spec, &mut errors);
        self.check_made(spec, &mut errors);
        errors.pop().map_or(Ok(()), Err)
    }

    fn check_parent(&self, spec: &BudgetSpec, errors: &mut Vec<SpecError>) {
        let (id, unit) = (spec.id, spec.unit);
        let Some(parent) = spec.parent else { return };
        let Some(above) = self.slot(parent).map(|slot| self.budget(slot)) else {
            return errors.push(SpecError::NoParent { id, parent });
        };
        if above.levels == LEVELS_MAX {
            errors.push(SpecError::TooDeep { id });
        }
        if above.spec.unit != unit {
            let parent_unit = above.spec.unit;
            errors.push(SpecError::ParentUnit { id, unit, parent, parent_unit });
        }
    }

    /// Adds a budget that was checked.
    pub(super) fn add_slot(&mut self, spec: &BudgetSpec) -> u32 {
        if spec.id >= MADE_ID_MIN {
            return self.add_made(spec);
        }
        let slot = u32::try_from(self.budgets.configured.len()).expect("BUDGETS_MAX is below 2^31");
        self.budgets.configured.push(Budget::new(spec.clone(), [slot; LEVELS_MAX], 1));
        self.make_at(slot, spec);
        if let Some(parent) = spec.parent {
            let parent = self.slots[&parent];
            self.budgets[parent as usize].children.push(slot);
        }
        self.purse_notes.resize(
            self.budgets.configured.len() * usize::from(self.options.workers),
            PurseNote::default(),
        );
        slot
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
        if !self.has_room(slot, amount) {
            return Err(ReplayError::TooMuch { grant: number, amount });
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
            let mut grant = Grant::new(slot, worker, self.run.billing_ms, self.keeps(slot));
            for (day, level) in grant.days.iter_mut().zip(self.chain(slot)) {
                *day = self.budget(level).day.start.ms();
            }
            self.grants.push(grant);
            self.budgets[slot as usize].grants += 1;
        }
        self.now_ms = self.now_ms.max(at_ms);
        let grant = self.grants.get_mut(number).expect("found or made");
        grant.refill(&mut self.budgets, at_ms);
        grant.out = plus(grant.out, amount);
        grant.shift(&mut self.budgets, Line::Free, Line::Purses, amount);
        Ok(())
    }

    /// What a grant that is made now keeps when time is over.
    fn keeps(&self, slot: u32) -> Keeps {
        let confirmed = self.budget(slot).spec.on_expiry == OnExpiry::Hold;
        Keeps { unconfirmed: confirmed && !self.run.win_notices, confirmed }
    }

    fn apply_returned(&mut self, number: u64, amount: Amount) -> Result<(), ReplayError> {
        let grant = self.grants.get_mut(number).ok_or(ReplayError::NoGrant(number))?;
        let from = grant.take_out(&mut self.budgets, number, amount)?;
        grant.shift(&mut self.budgets, from, Line::Free, amount);
        Ok(())
    }

    fn apply_resolved(
        &mut self,
        hold: &Hold,
        (verdict, amount, keeps_rest, clicked): (Verdict, Amount, bool, bool),
        at_ms: u64,
    ) -> Result<(), ReplayError> {
        let (number, seq) = (hold.grant, hold.seq);
        let Bank { grants, budgets, pages, timeline, amounts, options, .. } = self;
        let grant = grants.get_mut(number).ok_or(ReplayError::NoGrant(number))?;
        let not_possible = || Err(ReplayError::NotPossible { grant: number, seq, verdict });
        let Some(mark) = Mark::of(verdict) else { return not_possible() };
        let found = grant.find_page(seq);
        let (before, was_clicked) = grant.state_in(found, seq);
        let sound = (Amount::ZERO..=money::ASK_MAX).contains(&amount)
            && (Amount::new(1)..=money::ASK_MAX).contains(&hold.amount)
            && hold.seq <= SEQ_MAX
            && (!keeps_rest || mark == Mark::Settled && amount < hold.amount)
            && clicked == (mark.is_settled() && was_clicked);
        if !sound {
            return not_possible();
        }
        let within = if mark == Mark::SettledLate { Amount::ZERO } else { amount.min(hold.amount) };
        let debt = minus(amount, within);
        if debt > Amount::ZERO && !grant.levels(budgets).all(|b| b.books.has_room(debt)) {
            return Err(ReplayError::TooMuch { grant: number, amount: debt });
        }
        let from = match (before, mark) {
            (Mark::Open | Mark::Confirmed | Mark::Released, Mark::SettledLate) => Line::Free,
            (Mark::Open, _) => grant.take_unconfirmed(budgets, hold)?,
            (Mark::Confirmed, Mark::Confirmed) => return not_possible(),
            (Mark::Confirmed, _) => grant.take_confirmed(hold)?,
            _ => return not_possible(),
        };
        let (page, made) = grant.page_mut(found, seq);
        *pages += made;
        page.set_mark(seq, if keeps_rest { Mark::SettledKeepsRest } else { mark });
        let noted = !(mark.is_settled() && page.needs_entry(hold.amount, amount))
            || page.note(seq, amount, amounts, options.amounts_max);
        if !noted && timeline.is_live() {
            self.counts.amounts_full += 1;
        }
        if debt > Amount::ZERO {
            grant.refill(budgets, at_ms);
        }
        if before == Mark::Open && from == Line::Purses && timeline.is_live() {
            grant.add_resolved(budgets, hold);
        }
        match mark {
            Mark::Confirmed => {
                grant.hold_for_billing(hold, timeline);
                grant.shift(budgets, from, Line::Held, hold.amount);
            }
            Mark::Released => {
                grant.shift(budgets, from, Line::Free, hold.amount);
                let lost = LedgerEvidence::lost(hold.amount, from == Line::Expired);
                grant.learn(budgets, &lost);
            }
            Mark::SettledLate => grant.shift(budgets, Line::Free, Line::Late, amount),
            _ if keeps_rest => grant.settle_keeping(budgets, from, (hold, amount), timeline),
            _ => grant.settle(budgets, from, hold, amount),
        }
        if from == Line::Expired {
            self.forget_expired_hold(number);
            self.look_again(number);
        }
        Ok(())
    }

    /// A hold that is alive becomes one that ends by time: its money is free here, to be held there.
    #[cold]
    pub(super) fn take_moved(&mut self, hold: &Hold) -> Result<(), ReplayError> {
        let Bank { grants, budgets, pages, timeline, .. } = self;
        let (number, seq) = (hold.grant, hold.seq);
        let grant = grants.get_mut(number).ok_or(ReplayError::NoGrant(number))?;
        let found = grant.find_page(seq);
        let from = match grant.state_in(found, seq).0 {
            Mark::Open => grant.take_unconfirmed(budgets, hold)?,
            Mark::Confirmed => grant.take_confirmed(hold)?,
            mark => {
                let verdict = mark.verdict();
                return Err(ReplayError::NotPossible { grant: number, seq, verdict });
            }
        };
        let (page, made) = grant.page_mut(found, seq);
        *pages += made;
        page.set_mark(seq, Mark::Moved);
        if from == Line::Purses && timeline.is_live() {
            grant.add_resolved(budgets, hold);
        }
        grant.shift(budgets, from, Line::Free, hold.amount);
        if from == Line::Expired {
            self.look_again(number);
        }
        Ok(())
    }

    /// A hold was clicked for the first time.
    #[cold]
    fn apply_clicked(&mut self, record: &Record) -> Result<(), ReplayError> {
        let &Record::Clicked { hold, billed, at_ms, .. } = record else {
            unreachable!("chosen by the caller")
        };
        check_ms([hold.deadline_ms, at_ms])?;
        let (number, seq) = (hold.grant, hold.seq);
        let grant = self.grants.get_mut(number).ok_or(ReplayError::NoGrant(number))?;
        let found = grant.find_page(seq);
        let (mark, was_clicked) = grant.state_in(found, seq);
        let sound = (Amount::new(1)..=money::ASK_MAX).contains(&hold.amount)
            && seq <= SEQ_MAX
            && billed == mark.is_settled()
            && !was_clicked;
        if !sound {
            let verdict = mark.verdict();
            return Err(ReplayError::NotPossible { grant: number, seq, verdict });
        }
        let (page, made) = grant.page_mut(found, seq);
        self.pages += made;
        page.click(seq);
        self.now_ms = self.now_ms.max(at_ms);
        Ok(())
    }

    /// The difference that a later billing notice is higher.
    #[cold]
    #[inline(never)]
    fn apply_topped_up(&mut self, record: &Record) -> Result<(), ReplayError> {
        let &Record::ToppedUp { hold, verdict, amount, total, uses_rest, at_ms, .. } = record
        else {
            unreachable!("chosen by the caller")
        };
        check_ms([hold.deadline_ms, at_ms])?;
        let (number, seq) = (hold.grant, hold.seq);
        let Bank { grants, budgets, amounts, options, timeline, .. } = self;
        let grant = grants.get_mut(number).ok_or(ReplayError::NoGrant(number))?;
        let (before, spent) = (grant.mark(seq), grant.spent(&hold));
        let sound = (Amount::new(1)..=money::ASK_MAX).contains(&hold.amount)
            && (Amount::new(1)..=money::ASK_MAX).contains(&amount)
            && (amount..=money::ASK_MAX).contains(&total)
            && spent.is_none_or(|spent| spent == minus(total, amount));
        let not_possible = ReplayError::NotPossible { grant: number, seq, verdict };
        if !sound || !before.is_settled() {
            return Err(not_possible);
        }
        let rest = grant.rest(&hold, minus(total, amount));
        let of_rest = if uses_rest { rest.min(amount) } else { Amount::ZERO };
        let to = match verdict {
            Verdict::Settled if of_rest == amount => Line::Settled,
            Verdict::SettledOver if before != Mark::SettledLate => Line::OverSettled,
            Verdict::SettledLate if !uses_rest => Line::Late,
            _ => return Err(not_possible),
        };
        if uses_rest && rest == Amount::ZERO {
            return Err(ReplayError::NotThere { grant: number, amount, there: rest });
        }
        let debt = minus(amount, of_rest);
        if !grant.levels(budgets).all(|budget| budget.books.has_room(debt)) {
            return Err(ReplayError::TooMuch { grant: number, amount: debt });
        }
        let keeps_rest = verdict == Verdict::Settled && of_rest < rest;
        let Some(mark) = Mark::of(verdict) else { return Err(not_possible) };
        let mark = if keeps_rest { Mark::SettledKeepsRest } else { mark };
        let (page, _) = grant.page_mut(grant.find_page(seq), seq);
        page.set_mark(seq, mark);
        let noted = page.renote(seq, total) || page.note(seq, total, amounts, options.amounts_max);
        if !noted && timeline.is_live() {
            self.counts.amounts_full += 1;
        }
        if of_rest > Amount::ZERO {
            grant.spend_rest(budgets, &hold, of_rest);
        }
        grant.refill(budgets, at_ms);
        grant.shift(budgets, Line::Free, to, debt);
        self.now_ms = self.now_ms.max(at_ms);
        Ok(())
    }

    /// A kept hold is settled or released although its time is over.
    fn forget_expired_hold(&mut self, number: u64) {
        if let (true, Some(grant)) = (self.is_of_run(number), self.grants.get(number)) {
            let expired = &mut self.budgets[grant.slot as usize].expired_holds;
            *expired = expired.saturating_sub(1);
        }
    }

    fn apply_billing_lapsed(
        &mut self,
        number: u64,
        deadline_ms: u64,
        amount: Amount,
    ) -> Result<(), ReplayError> {
        let grant = self.grants.get_mut(number).ok_or(ReplayError::NoGrant(number))?;
        let (rest, there) = (grant.rests.get(deadline_ms), grant.billing.get(deadline_ms));
        // Where unbilled money is kept, that has left before.
        if amount != plus(there, rest) {
            return Err(ReplayError::NotThere { grant: number, amount, there: plus(there, rest) });
        }
        grant.take_billing(number, deadline_ms, there)?;
        grant.take_rests(&mut self.budgets, deadline_ms);
        grant.shift(&mut self.budgets, Line::Held, Line::Free, amount);
        grant.learn(&mut self.budgets, &LedgerEvidence::lost(there, false));
        Ok(())
    }

    /// Confirmed holds were not billed in time, and are kept.
    fn apply_unbilled(
        &mut self,
        number: u64,
        deadline_ms: u64,
        amount: Amount,
    ) -> Result<(), ReplayError> {
        let grant = self.grants.get_mut(number).ok_or(ReplayError::NoGrant(number))?;
        grant.take_billing(number, deadline_ms, amount)?;
        grant.expired.unbilled.add_uncounted(Expired::deadline_ms(deadline_ms), amount);
        grant.shift(&mut self.budgets, Line::Held, Line::Expired, amount);
        Ok(())
    }

    /// Holds that nobody spoke of are over, and are kept.
    fn apply_expired(
        &mut self,
        number: u64,
        deadline_ms: u64,
        amount: Amount,
    ) -> Result<(), ReplayError> {
        check_ms([deadline_ms])?;
        let grant = self.grants.get_mut(number).ok_or(ReplayError::NoGrant(number))?;
        if grant.line_out() != Line::Purses {
            return Err(ReplayError::NotOpen(number));
        }
        grant.take_out(&mut self.budgets, number, amount)?;
        grant.expired.until_ms = grant.expired.until_ms.max(deadline_ms);
        grant.expired.unconfirmed.add_uncounted(Expired::deadline_ms(deadline_ms), amount);
        grant.shift(&mut self.budgets, Line::Purses, Line::Expired, amount);
        Ok(())
    }

    /// What an earlier run had is over, and is kept: nobody knows which of it was reserved.
    fn apply_suspension_over(
        &mut self,
        number: u64,
        until_ms: u64,
        amount: Amount,
    ) -> Result<(), ReplayError> {
        self.check_suspended(number, until_ms, amount)?;
        let grant = self.grants.get_mut(number).expect("found above");
        grant.stage = Stage::Expired { until_ms };
        grant.shift(&mut self.budgets, Line::Suspended, Line::Expired, amount);
        let close_ms = self.close_ms(self.grants.get(number).expect("found above"), until_ms);
        self.timeline.grant(number, close_ms);
        Ok(())
    }

    fn apply_reconciled(
        &mut self,
        number: u64,
        until_ms: u64,
        amount: Amount,
    ) -> Result<(), ReplayError> {
        let grant = self.grants.get_mut(number).ok_or(ReplayError::NoGrant(number))?;
        let there = grant.expired_until(until_ms);
        if there != amount {
            return Err(ReplayError::NotThere { grant: number, amount, there });
        }
        grant.forget_expired(until_ms);
        grant.shift(&mut self.budgets, Line::Expired, Line::Free, amount);
        grant.learn(&mut self.budgets, &LedgerEvidence::lost(amount, true));
        self.look_again(number);
        Ok(())
    }

    /// A grant that had expired money may have none any more: then it can be closed.
    fn look_again(&mut self, number: u64) {
        let Some(grant) = self.grants.get(number).filter(|grant| grant.is_empty()) else { return };
        if let Stage::Retired { deadline_ms: last_ms } | Stage::Expired { until_ms: last_ms } =
            grant.stage
        {
            let close_ms = self.close_ms(grant, last_ms);
            self.timeline.grant(number, close_ms);
        }
    }

    /// A record retires open grants only; [`Bank::apply_resumed`] retires a suspended one.
    fn apply_open_retired(&mut self, number: u64, deadline_ms: u64) -> Result<(), ReplayError> {
        check_ms([deadline_ms])?;
        let stage = self.grants.get(number).map(|grant| grant.stage);
        match stage.ok_or(ReplayError::NoGrant(number))? {
            Stage::Open => self.apply_retired(number, deadline_ms),
            _ => Err(ReplayError::NotOpen(number)),
        }
    }

    fn apply_retired(&mut self, number: u64, deadline_ms: u64) -> Result<(), ReplayError> {
        let grant = self.grants.get_mut(number).ok_or(ReplayError::NoGrant(number))?;
        let again = matches!(grant.stage, Stage::Retired { .. });
        grant.leave_worker(&mut self.budgets, Stage::Retired { deadline_ms });
        let (slot, worker, out) = (grant.slot, grant.worker, grant.out);
        if !again {
            self.budgets.shift_retired(slot, out, plus);
        }
        let close_ms = self.close_ms(self.grants.get(number).expect("found above"), deadline_ms);
        self.timeline.grant(number, close_ms);
        if worker < self.options.workers {
            let note = self.purse_note_mut(slot, worker);
            if note.grant == number {
                note.grant = 0;
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
        let grant = self.grants.get_mut(number).expect("found above");
        let from = grant.take_out(&mut self.budgets, number, amount)?;
        grant.shift(&mut self.budgets, from, Line::Free, amount);
        self.apply_retired(number, until_ms)
    }

    fn apply_closed(&mut self, number: u64) -> Result<(), ReplayError> {
        let grant = self.grants.get(number).ok_or(ReplayError::NoGrant(number))?;
        let there = plus(plus(grant.out, grant.held), grant.expired.total());
        if there != Amount::ZERO {
            return Err(ReplayError::NotThere { grant: number, amount: Amount::ZERO, there });
        }
        let slot = grant.slot;
        self.pages -= grant.pages();
        self.amounts -= grant.amounts();
        self.grants.close(number);
        self.grant_ended(slot);
        Ok(())
    }

    /// When nothing more can come for a grant whose last hold had this deadline.
    pub(super) fn close_ms(&self, grant: &Grant, deadline_ms: u64) -> u64 {
        grant.billing_deadline_ms(deadline_ms) + self.options.late_ms
    }

    /// Can this much more leave the free lines of the budget and its parents?
    fn has_room(&self, slot: u32, amount: Amount) -> bool {
        self.chain(slot).all(|level| self.books(level).has_room(amount))
    }

    pub(super) fn known(&self, id: u64) -> Result<u32, ReplayError> {
        self.slots.get(&id).copied().ok_or(ReplayError::NoBudget(id))
    }

    pub(super) fn window(start_ms: u64, end_ms: u64) -> money::Window {
        let at = money::Instant::from_ms;
        money::Window { start: at(start_ms), end: at(end_ms) }
    }
}

/// Records between the steps of fetching what a record will change: about as many as fit into a memory access.
const AHEAD: usize = 8;

impl Budget {
    /// Its windows, and what is used of each.
    pub(super) fn windows(&self) -> impl Iterator<Item = (&WindowLimit, &WindowUse)> {
        self.spec.windows.all().iter().zip(&self.windows)
    }

    pub(super) fn windows_mut(&mut self) -> impl Iterator<Item = (&WindowLimit, &mut WindowUse)> {
        self.spec.windows.all().iter().zip(&mut self.windows)
    }

    /// Moves money of a grant that was made on a day, also within that day where it is not over.
    #[inline(always)]
    fn shift(&mut self, of: (u64, u64), from: Line, to: Line, amount: Amount) {
        if amount == Amount::ZERO {
            return;
        }
        self.books.shift(from, to, amount);
        if !self.windows.is_empty() {
            self.use_windows(of, from, to, amount);
        }
        if of.1 != self.day.start.ms() {
            return;
        }
        if from != Line::Free {
            let line = &mut self.day_lines[from as usize];
            *line = minus(*line, amount);
        }
        if to != Line::Free {
            let line = &mut self.day_lines[to as usize];
            *line = plus(*line, amount);
        }
    }

    /// Money of a grant moved, whose spend belongs to a day: which of the present windows count it?
    fn use_windows(&mut self, (grant, day_ms): (u64, u64), from: Line, to: Line, amount: Amount) {
        for (window, used) in self.windows_mut() {
            if !window.counts(used, grant, day_ms) {
                continue;
            }
            if from == Line::Free {
                used.take(amount);
            }
            if to == Line::Free {
                used.give_back(amount, window.is_bucket());
            }
        }
    }

    fn prefetch(&self) {
        table::prefetch(&self.chain);
        table::prefetch(&self.books);
        table::prefetch(&self.day);
        table::prefetch(&self.day_lines);
        table::prefetch(&self.evidence);
        table::prefetch(&self.windows);
    }
}

impl Grant {
    /// The line that `out` stands on.
    pub(super) fn line_out(&self) -> Line {
        match self.stage {
            Stage::Suspended { .. } => Line::Suspended,
            Stage::Expired { .. } => Line::Expired,
            Stage::Open | Stage::Retired { .. } => Line::Purses,
        }
    }

    /// Notes a hold that was resolved before its lapse is accounted.
    fn add_resolved(&mut self, budgets: &mut Slots<Budget>, hold: &Hold) {
        self.resolved.add(hold.deadline_ms, hold.amount);
        if self.stage == Stage::Open {
            budgets[self.slot as usize].resolved_early += i128::from(hold.amount.get());
        }
    }

    /// Takes what was resolved of the holds with this deadline, whose lapse is accounted now.
    pub(super) fn take_resolved(&mut self, budgets: &mut Slots<Budget>, deadline_ms: u64) -> Sum {
        let resolved = self.resolved.take(deadline_ms);
        if self.stage == Stage::Open {
            budgets[self.slot as usize].resolved_early -= i128::from(resolved.amount.get());
        }
        resolved
    }

    /// What was resolved of holds that a worker still counts as held.
    pub(super) fn resolved_early(&self) -> i128 {
        if self.stage != Stage::Open {
            // Its holds were reported when it was retired; suspended ones are nobody's.
            return 0;
        }
        self.resolved.all().iter().map(|sum| i128::from(sum.amount.get())).sum()
    }

    /// Begins a stage in which no worker has the grant, nor counts its holds.
    fn leave_worker(&mut self, budgets: &mut Slots<Budget>, stage: Stage) {
        budgets[self.slot as usize].resolved_early -= self.resolved_early();
        self.stage = stage;
    }

    /// Takes money from what is out. Returns the line it leaves.
    fn take_out(
        &mut self,
        budgets: &mut Slots<Budget>,
        number: u64,
        amount: Amount,
    ) -> Result<Line, ReplayError> {
        if amount < Amount::ZERO || self.out < amount {
            return Err(ReplayError::NotThere { grant: number, amount, there: self.out });
        }
        self.out = minus(self.out, amount);
        match self.stage {
            Stage::Retired { .. } => budgets.shift_retired(self.slot, amount, minus),
            Stage::Suspended { .. } if !self.keeps.unconfirmed => {
                budgets.shift_returning(self.slot, amount, minus);
            }
            _ => {}
        }
        Ok(self.line_out())
    }

    /// Takes the money of a hold that nobody spoke of. Returns the line it leaves.
    fn take_unconfirmed(
        &mut self,
        budgets: &mut Slots<Budget>,
        hold: &Hold,
    ) -> Result<Line, ReplayError> {
        if !self.has_expired(hold) {
            return self.take_out(budgets, hold.grant, hold.amount);
        }
        self.expired.unconfirmed.take_part(hold, Expired::deadline_ms(hold.deadline_ms))?;
        Ok(Line::Expired)
    }

    /// Takes a confirmed hold's money from what is held, or expired. Returns the line it leaves.
    fn take_confirmed(&mut self, hold: &Hold) -> Result<Line, ReplayError> {
        let deadline_ms = self.billing_deadline_ms(hold.deadline_ms);
        if self.billing.get(deadline_ms) < hold.amount {
            self.expired.unbilled.take_part(hold, Expired::deadline_ms(deadline_ms))?;
            return Ok(Line::Expired);
        }
        self.billing.subtract(deadline_ms, hold.amount);
        self.held = minus(self.held, hold.amount);
        Ok(Line::Held)
    }

    /// Takes everything that waits for this billing deadline.
    fn take_billing(
        &mut self,
        number: u64,
        deadline_ms: u64,
        amount: Amount,
    ) -> Result<(), ReplayError> {
        let there = self.billing.get(deadline_ms);
        if there != amount {
            return Err(ReplayError::NotThere { grant: number, amount, there });
        }
        self.billing.take(deadline_ms);
        self.held = minus(self.held, amount);
        Ok(())
    }

    /// What is expired of holds with first deadlines up to this instant.
    pub(super) fn expired_until(&self, until_ms: u64) -> Amount {
        let unconfirmed = self.expired.unconfirmed.until(until_ms);
        let unbilled = self.expired.unbilled.until(until_ms + self.billing_ms);
        plus(plus(unconfirmed, unbilled), self.expired_out(until_ms))
    }

    /// What of it was suspended before.
    fn expired_out(&self, until_ms: u64) -> Amount {
        match self.stage {
            Stage::Expired { until_ms: last_ms } if last_ms <= until_ms => self.out,
            _ => Amount::ZERO,
        }
    }

    fn forget_expired(&mut self, until_ms: u64) {
        self.out = minus(self.out, self.expired_out(until_ms));
        self.expired.unconfirmed.take_until(until_ms);
        self.expired.unbilled.take_until(until_ms + self.billing_ms);
    }

    /// Adds to what is known, on every level.
    fn learn(&self, budgets: &mut Slots<Budget>, more: &LedgerEvidence) {
        self.each_level(budgets, |budget, _| budget.evidence.add(more));
    }

    /// Changes the budget that it is of, and its parents: each with the first instant of the day that the grant was made in there.
    #[inline]
    pub(super) fn each_level(
        &self,
        budgets: &mut Slots<Budget>,
        mut change: impl FnMut(&mut Budget, u64),
    ) {
        let budget = &budgets[self.slot as usize];
        let (chain, levels) = (budget.chain, budget.levels);
        for level in 0..levels {
            change(&mut budgets[chain[level] as usize], self.days[level]);
        }
    }

    fn hold_for_billing(&mut self, hold: &Hold, timeline: &mut Timeline) {
        self.held = plus(self.held, hold.amount);
        let deadline_ms = self.billing_deadline_ms(hold.deadline_ms);
        if self.billing.add(deadline_ms, hold.amount) && !self.rests.has(deadline_ms) {
            timeline.billing(hold.grant, deadline_ms);
        }
    }

    /// The same for a hold that is settled with less, whose rest stays held until its billing time is over.
    #[inline(never)]
    fn settle_keeping(
        &mut self,
        budgets: &mut Slots<Budget>,
        from: Line,
        (hold, spent): (&Hold, Amount),
        timeline: &mut Timeline,
    ) {
        let rest = minus(hold.amount, spent);
        let known = LedgerEvidence::settled(hold.amount, spent, from == Line::Expired);
        self.each_level(budgets, |budget, day_ms| {
            let of = (self.number, day_ms);
            budget.shift(of, from, Line::Settled, spent);
            if from != Line::Held {
                budget.shift(of, from, Line::Held, rest);
            }
            budget.rests = plus(budget.rests, rest);
            budget.evidence.add(&known);
        });
        self.held = plus(self.held, rest);
        let deadline_ms = self.billing_deadline_ms(hold.deadline_ms);
        if self.rests.add(deadline_ms, rest) && !self.billing.has(deadline_ms) {
            timeline.billing(hold.grant, deadline_ms);
        }
    }

    /// A higher price is paid from the rest of its hold.
    #[cold]
    fn spend_rest(&mut self, budgets: &mut Slots<Budget>, hold: &Hold, amount: Amount) {
        self.held = minus(self.held, amount);
        self.each_level(budgets, |budget, _| budget.rests = minus(budget.rests, amount));
        self.rests.subtract(self.billing_deadline_ms(hold.deadline_ms), amount);
        self.shift(budgets, Line::Held, Line::Settled, amount);
        self.learn(budgets, &LedgerEvidence { paid: amount, ..LedgerEvidence::default() });
    }

    /// Takes the rests that wait for this billing deadline.
    fn take_rests(&mut self, budgets: &mut Slots<Budget>, deadline_ms: u64) {
        let rests = self.rests.take(deadline_ms).amount;
        self.held = minus(self.held, rests);
        self.each_level(budgets, |budget, _| budget.rests = minus(budget.rests, rests));
    }

    /// The budget that it is of, and its parents.
    fn levels<'a>(&self, budgets: &'a Slots<Budget>) -> impl Iterator<Item = &'a Budget> + use<'a> {
        let budget = &budgets[self.slot as usize];
        budget.chain[..budget.levels].iter().map(|level| &budgets[*level as usize])
    }

    /// Refills the buckets of every level up to an instant: before money is taken from them. Records without an instant only put
    /// money back, for which it does not matter when a bucket was refilled.
    fn refill(&self, budgets: &mut Slots<Budget>, now_ms: u64) {
        self.each_level(budgets, |budget, _| {
            for (window, used) in budget.windows_mut().filter(|(window, _)| window.is_bucket()) {
                *used = used.refilled(*window, now_ms);
            }
        });
    }

    /// Moves money of the grant on every level, and in the days it was made in where they are not over.
    fn shift(&self, budgets: &mut Slots<Budget>, from: Line, to: Line, amount: Amount) {
        if amount == Amount::ZERO {
            return;
        }
        self.each_level(budgets, |budget, day_ms| {
            budget.shift((self.number, day_ms), from, to, amount);
        });
    }

    /// Moves the money of a hold that is settled, on every level: what was spent within it, the rest of it, and what was spent
    /// beyond it.
    fn settle(&self, budgets: &mut Slots<Budget>, from: Line, hold: &Hold, spent: Amount) {
        let within = spent.min(hold.amount);
        let (rest, debt) = (minus(hold.amount, within), minus(spent, within));
        let known = LedgerEvidence::settled(hold.amount, within, from == Line::Expired);
        self.each_level(budgets, |budget, day_ms| {
            let of = (self.number, day_ms);
            budget.shift(of, from, Line::Settled, within);
            budget.shift(of, from, Line::Free, rest);
            budget.evidence.add(&known);
        });
        self.shift(budgets, Line::Free, Line::OverSettled, debt);
    }
}

impl Sums {
    /// Takes a hold's money from the sum of a deadline, where it no longer is if the sum was reconciled.
    fn take_part(&mut self, hold: &Hold, deadline_ms: u64) -> Result<(), ReplayError> {
        let there = self.get(deadline_ms);
        if there < hold.amount {
            return Err(ReplayError::NotThere { grant: hold.grant, amount: hold.amount, there });
        }
        self.subtract(deadline_ms, hold.amount);
        Ok(())
    }
}

pub(super) fn check_ms<const N: usize>(all: [u64; N]) -> Result<(), ReplayError> {
    match all.into_iter().find(|ms| *ms > Bank::MS_MAX) {
        Some(ms) => Err(ReplayError::Instant(ms)),
        None => Ok(()),
    }
}
