//! The state as parts, for snapshots, and a bank again from them.
//!
//! Parts are read from a file, so they are a stranger's: whatever they say, the answer is a bank whose books add up
//! or an error, and no number in them decides how much memory is taken.

use super::memos::Memos;
use super::{Bank, Options, Run};
use crate::books::{exposure, plus};
use crate::grant::{Expired, Grant, Sums};
use crate::page::Page;
use crate::part::{Part, Stage};
use crate::spec::{MADE_ID_MIN, MADE_SLOT, SpecError};
use crate::token::GRANT_MAX;
use crate::{
    Amount, Books, BudgetSpec, Door, Kept, KeyError, Line, Memo, NamedError, Period, Status,
    Verdict, WindowLimit, WindowUse,
};

impl Bank {
    /// Hands out the state, part by part.
    pub fn parts(&self, each: &mut dyn FnMut(Part)) {
        let mut parts = 0;
        let mut count = |part| {
            parts += 1;
            each(part);
        };
        count(self.head());
        let made = self.made_in_order().map(|slot| self.budget(slot));
        for budget in self.budgets.configured.iter().chain(made) {
            count(Part::Budget { spec: Box::new(budget.spec.clone()) });
            let [_, day_lines @ ..] = budget.day_lines;
            let (day_start_ms, day_end_ms) = (budget.day.start.ms(), budget.day.end.ms());
            count(Part::Books {
                day_start_ms,
                day_end_ms,
                lines: budget.books.lines(),
                day_lines,
                evidence: budget.evidence,
                period: WindowUse::default(),
                windows: budget.told_windows().collect(),
            });
        }
        for dormant in self.made.dormant.values() {
            count(Part::Dormant(Box::new(dormant.clone())));
        }
        for (number, grant) in self.grants.numbers() {
            count(self.grant_part(number, grant));
            grant.marks().for_each(|(number, page)| count(marks_part(number, page)));
        }
        self.keys().iter().for_each(|key| count(Part::Key(*key)));
        self.answers.parts(&mut count);
        self.memos.parts(&mut count);
        for (at, row) in self.named_in_order() {
            count(match self.named_rows.timed(at) {
                Some(timed) => Part::Timed(Box::new(self.told_timed(at, timed))),
                None => Part::Named(Box::new(self.told(row))),
            });
        }
        each(Part::End { parts, digest: self.digest() });
    }

    fn head(&self) -> Part {
        let Run { number: run, hold_ms_max, billing_ms, win_notices, lease_ms, handed_over } =
            self.run;
        let (now_ms, next_grant) = (self.now_ms, self.grants.next_number());
        let next_made = self.made.next_id;
        Part::Head {
            now_ms,
            hold_ms_max,
            billing_ms,
            win_notices,
            lease_ms,
            handed_over,
            next_grant,
            run,
            next_made,
            kept: self.kept,
        }
    }

    fn grant_part(&self, number: u64, grant: &Grant) -> Part {
        Part::Grant {
            grant: number,
            budget: self.budget(grant.slot).spec.id,
            worker: grant.worker,
            billing_ms: grant.billing_ms,
            out: grant.out,
            keeps: grant.keeps,
            stage: grant.stage,
            days: grant.days,
            billing: grant.billing.to_vec(),
            expired_ms: grant.expired.until_ms,
            unconfirmed: grant.expired.unconfirmed.to_vec(),
            unbilled: grant.expired.unbilled.to_vec(),
            rests: grant.rests.to_vec(),
        }
    }
}

fn marks_part(number: u32, page: &Page) -> Part {
    let (marks, whole) = (*page.marks(), page.is_whole());
    Part::Marks { page: number, marks, whole, amounts: page.amounts().collect() }
}

/// Parts that no bank hands out: the snapshot is damaged, or made by something else.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// A part in the wrong place.
    #[error("{part} follows {after}")]
    Order {
        /// The part.
        part: &'static str,
        /// What came before it.
        after: &'static str,
    },
    /// The head says something impossible.
    #[error("the head's {0} is out of range")]
    Head(&'static str),
    /// A budget that cannot be.
    #[error(transparent)]
    Budget(#[from] SpecError),
    /// Books that cannot be.
    #[error("budget {budget}: {what}")]
    Books {
        /// The budget.
        budget: u64,
        /// The faults in them.
        what: &'static str,
    },
    /// What was kept of a budget that ended cannot be.
    #[error("budget {0}: what was kept of it when it ended cannot be, or appears twice")]
    Dormant(u64),
    /// A grant that cannot be.
    #[error("grant {grant}: {what}")]
    Grant {
        /// The grant.
        grant: u64,
        /// The fault in it.
        what: &'static str,
    },
    /// A token key that cannot be.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// Parts are missing, or more than were written.
    #[error("{found} parts, expected {expected}")]
    Count {
        /// How many there were.
        found: u64,
        /// How many the end speaks of.
        expected: u64,
    },
    /// The state is not the one that was written.
    #[error("the digest of the state is {found:#018x}, expected {expected:#018x}")]
    Digest {
        /// What the parts lead to.
        found: u64,
        /// What the end says.
        expected: u64,
    },
    /// The sums do not hold.
    #[error("the books do not add up: {0}")]
    Audit(String),
    /// An answer that is kept for a key cannot be.
    #[error("an answer that is kept for a key: {0}")]
    Answer(&'static str),
    /// A memo of a door cannot be.
    #[error("a memo: {0}")]
    Memo(&'static str),
    /// A named hold cannot be, appears twice, or is out of order.
    #[error("named hold {key:032x}: {error}")]
    Named {
        /// Its key.
        key: u128,
        /// What is wrong.
        error: NamedError,
    },
    /// The end is missing.
    #[error("the snapshot ends after {0}")]
    Unfinished(&'static str),
}

/// Runs that a node can have had: one per second for 68 years, and no sum with it overflows.
const RUN_MAX: u32 = u32::MAX / 2;

/// What came last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    Nothing,
    Head,
    Budget(u32),
    Books,
    Dormant,
    Grant(u64),
    Key,
    AnswerSecret,
    Answer,
    Memo(Door, u128),
    Named(Door, u128),
    End,
    /// A part was refused; nothing can follow.
    Refused,
}

impl Last {
    /// Is the state whole, but for memos and the end?
    fn may_be_followed_by_memos(self) -> bool {
        matches!(
            self,
            Last::Head
                | Last::Books
                | Last::Dormant
                | Last::Grant(_)
                | Last::Key
                | Last::AnswerSecret
                | Last::Answer
                | Last::Memo(..)
        )
    }

    fn name(self) -> &'static str {
        match self {
            Last::Nothing => "nothing",
            Last::Head => "the head",
            Last::Budget(_) => "a budget",
            Last::Books => "books",
            Last::Dormant => "a budget that ended",
            Last::Grant(_) => "a grant",
            Last::Key => "a key",
            Last::AnswerSecret => "the secret of answers",
            Last::Answer => "an answer",
            Last::Memo(..) => "a memo",
            Last::Named(..) => "a named hold",
            Last::End => "the end",
            Last::Refused => "a part that was refused",
        }
    }
}

/// Makes a bank from parts, in the order in which [`Bank::parts`] hands them out.
#[derive(Debug)]
pub struct Restore {
    bank: Bank,
    last: Last,
    parts: u64,
    next_grant: u64,
    next_made: u64,
    end: (u64, u64),
}

impl Restore {
    /// Begins. The options are those of the bank to be, as for [`Bank::new`].
    pub fn new(options: Options) -> Restore {
        let bank = Bank::new(options);
        let (next_grant, next_made) = (1, MADE_ID_MIN);
        Restore { bank, last: Last::Nothing, parts: 0, next_grant, next_made, end: (0, 0) }
    }

    /// Takes the next part.
    ///
    /// # Errors
    /// If it cannot be; then nothing can follow it.
    pub fn take(&mut self, part: Part) -> Result<(), RestoreError> {
        let last = std::mem::replace(&mut self.last, Last::Refused);
        let (name, after) = (part.name(), last.name());
        self.last = match (part, last) {
            (part @ Part::Head { .. }, Last::Nothing) => self.take_head(&part)?,
            (Part::Budget { spec }, Last::Head | Last::Books) => self.budget(&spec)?,
            (part @ Part::Books { .. }, Last::Budget(slot)) => self.books(slot, &part)?,
            (Part::Dormant(dormant), Last::Head | Last::Books | Last::Dormant) => {
                let id = dormant.id;
                self.bank.made.next_id = self.next_made;
                if !self.bank.restore_dormant(*dormant) {
                    return Err(RestoreError::Dormant(id));
                }
                Last::Dormant
            }
            (
                part @ Part::Grant { .. },
                Last::Head | Last::Books | Last::Dormant | Last::Grant(_),
            ) => self.grant(part)?,
            (part @ Part::Marks { .. }, Last::Grant(number)) => {
                self.take_marks(number, &part)?;
                last
            }
            (
                Part::Key(key),
                Last::Head | Last::Books | Last::Dormant | Last::Grant(_) | Last::Key,
            ) => {
                self.bank.keys.add(key)?;
                Last::Key
            }
            (
                Part::AnswerSecret(secret),
                Last::Head | Last::Books | Last::Dormant | Last::Grant(_) | Last::Key,
            ) => {
                self.bank.answers.secret = Some(secret);
                Last::AnswerSecret
            }
            (
                Part::Answer { kept, verdict, at_ms },
                Last::Head
                | Last::Books
                | Last::Dormant
                | Last::Grant(_)
                | Last::Key
                | Last::AnswerSecret
                | Last::Answer,
            ) => self.answer(&kept, verdict, at_ms)?,
            (Part::Memo { memo, at_ms }, last) if last.may_be_followed_by_memos() => {
                self.memo(last, &memo, at_ms)?
            }
            (part @ (Part::Named(_) | Part::Timed(_)), last)
                if last.may_be_followed_by_memos() || matches!(last, Last::Named(..)) =>
            {
                self.take_named(last, &part)?
            }
            (Part::End { parts, digest }, last)
                if last.may_be_followed_by_memos() || matches!(last, Last::Named(..)) =>
            {
                self.end = (parts, digest);
                Last::End
            }
            _ => return Err(RestoreError::Order { part: name, after }),
        };
        self.parts += 1;
        Ok(())
    }

    fn take_head(&mut self, part: &Part) -> Result<Last, RestoreError> {
        let Part::Head {
            now_ms,
            hold_ms_max,
            billing_ms,
            win_notices,
            lease_ms,
            handed_over,
            next_grant,
            run: number,
            next_made,
            kept,
        } = *part
        else {
            unreachable!("chosen by the caller")
        };
        if next_made < MADE_ID_MIN {
            return Err(RestoreError::Head("next made budget"));
        }
        (self.next_grant, self.next_made, self.bank.kept) = (next_grant, next_made, kept);
        let run = Run { number, hold_ms_max, billing_ms, win_notices, lease_ms, handed_over };
        self.head(now_ms, run)
    }

    fn take_marks(&mut self, number: u64, part: &Part) -> Result<(), RestoreError> {
        let Part::Marks { page, marks, whole, amounts } = part else {
            unreachable!("chosen by the caller")
        };
        let grant = self.bank.grants.get_mut(number).expect("the part before");
        let read = Page::of(*marks, *whole, amounts);
        if !read.is_some_and(|read| grant.add_page(*page, read)) {
            return Err(wrong(number, "its marks or amounts cannot be, or are not in order"));
        }
        self.bank.pages += 1;
        self.bank.amounts += amounts.len();
        Ok(())
    }

    /// The bank, if all parts came and lead to the state that was written.
    ///
    /// # Errors
    /// If not.
    pub fn finish(mut self) -> Result<Bank, RestoreError> {
        if self.last != Last::End {
            return Err(RestoreError::Unfinished(self.last.name()));
        }
        let (expected, digest) = self.end;
        let found = self.parts - 1;
        if found != expected {
            return Err(RestoreError::Count { found, expected });
        }
        if !self.bank.grants.skip_to(self.next_grant) {
            return Err(RestoreError::Head("next grant"));
        }
        if self.next_made < self.bank.made.next_id {
            return Err(RestoreError::Head("next made budget"));
        }
        self.bank.made.next_id = self.next_made;
        self.bank.audit_state().map_err(RestoreError::Audit)?;
        let found = self.bank.digest();
        if found != digest {
            return Err(RestoreError::Digest { found, expected: digest });
        }
        self.sum_beside();
        Ok(self.bank)
    }

    fn answer(&mut self, kept: &Kept, verdict: Verdict, at_ms: u64) -> Result<Last, RestoreError> {
        if verdict != Verdict::Granted && crate::page::Mark::of(verdict).is_none() {
            return Err(RestoreError::Answer("its verdict books nothing"));
        }
        if at_ms > self.bank.now_ms {
            return Err(RestoreError::Answer(
                "it is kept from an instant on that the head does not know",
            ));
        }
        let answers = &mut self.bank.answers;
        answers.check(kept, at_ms).map_err(|_| RestoreError::Answer("too long, or twice"))?;
        // Whatever is over is forgotten with the next one that is recorded.
        answers.keep(kept, verdict, at_ms, u64::MAX);
        Ok(Last::Answer)
    }

    fn memo(&mut self, last: Last, memo: &Memo, at_ms: u64) -> Result<Last, RestoreError> {
        if memo.bytes.is_empty() || Memos::check(memo).is_err() {
            return Err(RestoreError::Memo("it has no bytes, or too many"));
        }
        if at_ms > self.bank.now_ms {
            return Err(RestoreError::Memo(
                "it counts from an instant on that the head does not know",
            ));
        }
        let place = (memo.door, memo.key);
        if let Last::Memo(door, key) = last
            && place <= (door, key)
        {
            return Err(RestoreError::Memo("out of order, or twice"));
        }
        self.bank.memos.keep(memo, at_ms);
        Ok(Last::Memo(memo.door, memo.key))
    }

    fn take_named(&mut self, last: Last, part: &Part) -> Result<Last, RestoreError> {
        let hold = match part {
            Part::Named(hold) => hold,
            Part::Timed(row) => &row.hold,
            _ => unreachable!("chosen by the caller"),
        };
        let (place, key) = ((hold.door, hold.key), hold.key);
        let wrong = |error| RestoreError::Named { key, error };
        if matches!(last, Last::Named(door, key) if place <= (door, key)) {
            return Err(wrong(NamedError::Missing));
        }
        match part {
            Part::Timed(row) => self.bank.restore_timed(row),
            _ => self.bank.restore_named(hold, Line::Held),
        }
        .map_err(wrong)?;
        Ok(Last::Named(hold.door, key))
    }

    fn head(&mut self, now_ms: u64, run: Run) -> Result<Last, RestoreError> {
        let instants = [
            ("now", now_ms),
            ("hold_ms_max", run.hold_ms_max),
            ("billing_ms", run.billing_ms),
            ("lease_ms", run.lease_ms),
        ];
        let beyond = instants.iter().find(|(_, ms)| *ms > Bank::MS_MAX);
        if let Some((what, _)) = beyond {
            return Err(RestoreError::Head(what));
        }
        if run.number > RUN_MAX {
            return Err(RestoreError::Head("run"));
        }
        if !(1..=GRANT_MAX + 1).contains(&self.next_grant) {
            return Err(RestoreError::Head("next grant"));
        }
        (self.bank.now_ms, self.bank.run) = (now_ms, run);
        self.bank.safe_ms.fill(now_ms);
        Ok(Last::Head)
    }

    fn budget(&mut self, spec: &BudgetSpec) -> Result<Last, RestoreError> {
        if self.bank.slot(spec.id).is_some() {
            return Err(SpecError::IdTwice { id: spec.id }.into());
        }
        self.bank.check_spec(spec)?;
        let live = spec.handle.as_ref().filter(|_| spec.status != Status::Ended);
        let slot = self.bank.add_slot(spec);
        if slot < MADE_SLOT {
            self.bank.rename(slot, live);
        }
        Ok(Last::Budget(slot))
    }

    fn books(&mut self, slot: u32, part: &Part) -> Result<Last, RestoreError> {
        let Part::Books {
            day_start_ms,
            day_end_ms,
            lines,
            day_lines,
            evidence,
            period,
            ref windows,
        } = *part
        else {
            return Ok(self.last);
        };
        let budget = &mut self.bank.budgets[slot as usize];
        let wrong = |what| RestoreError::Books { budget: budget.spec.id, what };
        if day_end_ms > Bank::MS_MAX || day_start_ms > day_end_ms {
            return Err(wrong("its day ends before it begins, or too late"));
        }
        exposure(&day_lines).ok_or(wrong("a line of its day is out of range"))?;
        budget.books = Books::of(budget.spec.limit, lines)
            .ok_or(wrong("its lines do not add up to the limit, or one is out of range"))?;
        budget.day = Bank::window(day_start_ms, day_end_ms);
        budget.day_lines[1..].copy_from_slice(&day_lines);
        if !evidence.is_sound() {
            return Err(wrong("more of its holds was paid than resolved, or less than nothing"));
        }
        budget.evidence = evidence;
        let of_period = |window: &WindowLimit| match window.period > Period::Day {
            true => period,
            false => WindowUse::default(),
        };
        let mut windows: Vec<WindowUse> = match windows.is_empty() {
            true => budget.spec.windows.all().iter().map(of_period).collect(),
            false => windows.clone(),
        };
        if !windows.iter().all(is_possible) {
            return Err(wrong("a window ends too late, or what is used of it is out of range"));
        }
        let known = budget.spec.windows.all().len();
        let of_day = windows.len() == known + 1 && budget.spec.windows.day_limit().is_none();
        budget.day_named = windows.pop_if(|_| of_day).map_or(0, |used| used.rest);
        if windows.len() != known {
            return Err(wrong("it has another number of windows than uses of them"));
        }
        budget.windows = windows.into_boxed_slice();
        budget.take_day_named();
        Ok(Last::Books)
    }

    fn grant(&mut self, part: Part) -> Result<Last, RestoreError> {
        let Part::Grant {
            grant: number,
            budget,
            worker,
            billing_ms,
            out,
            keeps,
            stage,
            days,
            billing,
            expired_ms,
            unconfirmed,
            unbilled,
            rests,
        } = part
        else {
            return Ok(self.last);
        };
        let slot = self.bank.slot(budget).ok_or(wrong(number, "its budget is not known"))?;
        let stage_ms = match stage {
            Stage::Open => 0,
            Stage::Retired { deadline_ms } => deadline_ms,
            Stage::Suspended { until_ms } | Stage::Expired { until_ms } => until_ms,
        };
        if billing_ms.max(stage_ms).max(expired_ms) > Bank::MS_MAX {
            return Err(wrong(number, "an instant is out of range"));
        }
        let unpaid_yet = sum(&billing).ok_or(wrong(number, "its billing deadlines cannot be"))?;
        let kept = sum(&rests).ok_or(wrong(number, "its rests of settled holds cannot be"))?;
        let held = exposure(&[unpaid_yet, kept]);
        let held = held.ok_or(wrong(number, "what is held is out of range"))?;
        let unspoken = sum(&unconfirmed).ok_or(wrong(number, "its expired holds cannot be"))?;
        let unpaid = sum(&unbilled).ok_or(wrong(number, "its unbilled holds cannot be"))?;
        let all = exposure(&[out, held, unspoken, unpaid]);
        all.ok_or(wrong(number, "what is out, held or expired is out of range"))?;
        if number >= self.next_grant {
            return Err(wrong(number, "its number is not given to anybody yet"));
        }
        let mut grant = Grant::new(slot, worker, billing_ms, keeps);
        (grant.out, grant.held, grant.stage, grant.days) = (out, held, stage, days);
        grant.billing = Sums::of(billing);
        grant.rests = Sums::of(rests);
        grant.expired = Expired {
            until_ms: expired_ms,
            unconfirmed: Sums::of(unconfirmed),
            unbilled: Sums::of(unbilled),
        };
        if !self.bank.grants.place(number, grant) {
            return Err(wrong(number, "its number is not in order, or too far from the first"));
        }
        self.bank.budgets[slot as usize].grants += 1;
        Ok(Last::Grant(number))
    }

    /// What is kept beside the grants. The audit has seen that their sums are in range.
    fn sum_beside(&mut self) {
        let Bank { grants, budgets, .. } = &mut self.bank;
        for (_, grant) in grants.numbers() {
            match grant.stage {
                Stage::Retired { .. } => budgets.shift_retired(grant.slot, grant.out, plus),
                Stage::Suspended { .. } if !grant.keeps.unconfirmed => {
                    budgets.shift_returning(grant.slot, grant.out, plus);
                }
                _ => {}
            }
            let rests = grant.rests.total();
            grant.each_level(budgets, |budget, _| budget.rests = plus(budget.rests, rests));
        }
    }
}

pub(super) fn is_possible(used: &WindowUse) -> bool {
    // Of a week or month, the rest is a part of what is used.
    let rest = i64::try_from(used.rest).map(Amount::new);
    let sound =
        rest.is_ok_and(|rest| exposure(&[rest]).is_some()) && exposure(&[used.used]).is_some();
    sound && used.until_ms <= Bank::MS_MAX
}

fn wrong(grant: u64, what: &'static str) -> RestoreError {
    RestoreError::Grant { grant, what }
}

/// What sums by deadline come to; `None` if a deadline appears twice, or something is out of range.
fn sum(sums: &[(u64, Amount)]) -> Option<Amount> {
    let mut deadlines: Vec<u64> = sums.iter().map(|(deadline_ms, _)| *deadline_ms).collect();
    deadlines.sort_unstable();
    let twice = deadlines.windows(2).any(|pair| pair[0] == pair[1]);
    let beyond = deadlines.last().is_some_and(|last| *last > 4 * Bank::MS_MAX);
    let amounts: Vec<Amount> = sums.iter().map(|(_, amount)| *amount).collect();
    exposure(&amounts).filter(|_| !twice && !beyond)
}
