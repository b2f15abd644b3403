//! The state as parts, for snapshots, and a bank again from them.
//!
//! Parts are read from a file, so they are a stranger's: whatever they say, the answer is a bank whose books add up
//! or an error, and no number in them decides how much memory is taken.

use super::{Bank, Options, Run};
use crate::books::{exposure, plus};
use crate::grant::{Expired, Grant, Sums};
use crate::part::{Part, Stage};
use crate::spec::SpecError;
use crate::token::GRANT_MAX;
use crate::{Amount, Books, BudgetSpec, KeyError};

impl Bank {
    /// Hands out the state, part by part.
    pub fn parts(&self, each: &mut dyn FnMut(Part)) {
        let mut parts = 0;
        let mut count = |part| {
            parts += 1;
            each(part);
        };
        count(self.head());
        for budget in &self.budgets {
            count(Part::Budget { spec: Box::new(budget.spec.clone()) });
            let [_, day_lines @ ..] = budget.day_lines;
            let (day_start_ms, day_end_ms) = (budget.day.start.ms(), budget.day.end.ms());
            count(Part::Books {
                day_start_ms,
                day_end_ms,
                lines: budget.books.lines(),
                day_lines,
                evidence: budget.evidence,
                period_start_ms: budget.period.start.ms(),
                period_end_ms: budget.period.end.ms(),
                period_used: budget.period_used,
            });
        }
        for (number, grant) in self.grants.numbers() {
            count(self.grant_part(number, grant));
            grant.marks().for_each(|(page, marks)| count(Part::Marks { page, marks: *marks }));
        }
        self.keys().iter().for_each(|key| count(Part::Key(*key)));
        each(Part::End { parts, digest: self.digest() });
    }

    fn head(&self) -> Part {
        let Run { number: run, hold_ms_max, billing_ms, win_notices } = self.run;
        let (now_ms, next_grant) = (self.now_ms, self.grants.next_number());
        Part::Head { now_ms, hold_ms_max, billing_ms, win_notices, next_grant, run }
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
        }
    }
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
    Budget,
    Books,
    Grant(u64),
    Key,
    End,
    /// A part was refused; nothing can follow.
    Refused,
}

impl Last {
    fn name(self) -> &'static str {
        match self {
            Last::Nothing => "nothing",
            Last::Head => "the head",
            Last::Budget => "a budget",
            Last::Books => "books",
            Last::Grant(_) => "a grant",
            Last::Key => "a key",
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
    end: (u64, u64),
}

impl Restore {
    /// Begins. The options are those of the bank to be, as for [`Bank::new`].
    pub fn new(options: Options) -> Restore {
        let bank = Bank::new(options);
        Restore { bank, last: Last::Nothing, parts: 0, next_grant: 1, end: (0, 0) }
    }

    /// Takes the next part.
    ///
    /// # Errors
    /// If it cannot be; then nothing can follow it.
    pub fn take(&mut self, part: Part) -> Result<(), RestoreError> {
        let last = std::mem::replace(&mut self.last, Last::Refused);
        let (name, after) = (part.name(), last.name());
        self.last = match (part, last) {
            (
                Part::Head { now_ms, hold_ms_max, billing_ms, win_notices, next_grant, run },
                Last::Nothing,
            ) => {
                self.next_grant = next_grant;
                self.head(now_ms, Run { number: run, hold_ms_max, billing_ms, win_notices })?
            }
            (Part::Budget { spec }, Last::Head | Last::Books) => self.budget(&spec)?,
            (part @ Part::Books { .. }, Last::Budget) => self.books(&part)?,
            (part @ Part::Grant { .. }, Last::Head | Last::Books | Last::Grant(_)) => {
                self.grant(part)?
            }
            (Part::Marks { page, marks }, Last::Grant(number)) => {
                let grant = self.bank.grants.get_mut(number).expect("the part before");
                if !grant.add_marks(page, marks) {
                    return Err(wrong(number, "its marks cannot be, or are not in order"));
                }
                self.bank.pages += 1;
                last
            }
            (Part::Key(key), Last::Head | Last::Books | Last::Grant(_) | Last::Key) => {
                self.bank.keys.add(key)?;
                Last::Key
            }
            (
                Part::End { parts, digest },
                Last::Head | Last::Books | Last::Grant(_) | Last::Key,
            ) => {
                self.end = (parts, digest);
                Last::End
            }
            _ => return Err(RestoreError::Order { part: name, after }),
        };
        self.parts += 1;
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
        self.bank.audit().map_err(RestoreError::Audit)?;
        let found = self.bank.digest();
        if found != digest {
            return Err(RestoreError::Digest { found, expected: digest });
        }
        self.sum_retired();
        Ok(self.bank)
    }

    fn head(&mut self, now_ms: u64, run: Run) -> Result<Last, RestoreError> {
        let instants =
            [("now", now_ms), ("hold_ms_max", run.hold_ms_max), ("billing_ms", run.billing_ms)];
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
        self.bank.add_slot(spec);
        Ok(Last::Budget)
    }

    fn books(&mut self, part: &Part) -> Result<Last, RestoreError> {
        let Part::Books {
            day_start_ms,
            day_end_ms,
            lines,
            day_lines,
            evidence,
            period_start_ms,
            period_end_ms,
            period_used,
        } = *part
        else {
            return Ok(self.last);
        };
        let budget = self.bank.budgets.last_mut().expect("the part before");
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
        if period_end_ms > Bank::MS_MAX || period_start_ms > period_end_ms {
            return Err(wrong("its week or month ends before it begins, or too late"));
        }
        exposure(&[period_used]).ok_or(wrong("what its week or month used is out of range"))?;
        budget.period = Bank::window(period_start_ms, period_end_ms);
        budget.period_used = period_used;
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
        let held = sum(&billing).ok_or(wrong(number, "its billing deadlines cannot be"))?;
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
        grant.expired = Expired {
            until_ms: expired_ms,
            unconfirmed: Sums::of(unconfirmed),
            unbilled: Sums::of(unbilled),
        };
        if !self.bank.grants.place(number, grant) {
            return Err(wrong(number, "its number is not in order, or too far from the first"));
        }
        Ok(Last::Grant(number))
    }

    /// What is kept beside the grants. The audit has seen that their sums are in range.
    fn sum_retired(&mut self) {
        let Bank { grants, budgets, .. } = &mut self.bank;
        for (_, grant) in grants.numbers() {
            if matches!(grant.stage, Stage::Retired { .. }) {
                let budget = &mut budgets[grant.slot as usize];
                budget.retired_out = plus(budget.retired_out, grant.out);
            }
        }
    }
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
