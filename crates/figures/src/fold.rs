//! The fold.

use std::collections::{BTreeMap, BTreeSet};

use ledger::spec::LEVELS_MAX;
use ledger::{Amount, BudgetSpec, Part, Record, Verdict};
use money::{Instant, Window};

use crate::cells::{Cells, hour_of, key_of};

/// What was counted of a budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// Holds that were settled.
    pub impressions: u64,
    /// Those of them that were clicked.
    pub clicks: u64,
    /// What was booked for them, in base units of the budget's unit.
    pub spend: Amount,
}

impl Total {
    pub(crate) fn plus(self, more: Total) -> Option<Total> {
        let impressions = self.impressions.checked_add(more.impressions)?;
        let clicks = self.clicks.checked_add(more.clicks)?;
        let spend = self.spend.checked_add(more.spend)?;
        (more.spend >= Amount::ZERO).then_some(Total { impressions, clicks, spend })
    }
}

/// Why records cannot be folded. Nothing of the record that is named was counted; all before it were.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FoldError {
    /// Records are missing.
    #[error("record {found} follows, expected {expected}: begin again at the oldest record")]
    Gap {
        /// The sequence found.
        found: u64,
        /// The sequence that should be there.
        expected: u64,
    },
    /// A sum that no books can have.
    #[error("record {sequence}: the figures of a budget become more than can be counted")]
    TooMuch {
        /// Sequence of the record.
        sequence: u64,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    pub(crate) parent: Option<u64>,
    /// The place of its unit and zone in those of [`Cells`].
    pub(crate) kind: u32,
    /// The hour of its zone that was counted in last.
    pub(crate) hour: Window,
    pub(crate) total: Total,
    /// It is among those that changed.
    pub(crate) is_noted: bool,
}

/// The hour of a budget that was not counted in yet.
pub(crate) const NO_HOUR: Window = Window { start: Instant::EPOCH, end: Instant::EPOCH };

/// What changed since it was saved last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changed {
    /// One that was forgotten and made again is in it twice.
    pub(crate) budgets: Vec<u64>,
    pub(crate) grants: BTreeSet<u64>,
}

/// The figures of all budgets, and the sequence that they stand at.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Sequence of the next record.
    pub(crate) sequence: u64,
    /// The same when it was saved last; 0 before the first time.
    pub(crate) saved: u64,
    /// When the first record that was folded was made; 0 before it.
    pub(crate) since_ms: u64,
    pub(crate) budgets: BTreeMap<u64, Budget>,
    /// Budgets of the grants that are not closed.
    pub(crate) grants: BTreeMap<u64, u64>,
    /// What was settled of grants that are not known.
    pub(crate) unplaced: Total,
    pub(crate) cells: Cells,
    pub(crate) changed: Changed,
}

impl Figures {
    /// Figures that begin with the record of this sequence; the first record of a journal has 1.
    pub fn begin(sequence: u64) -> Figures {
        Figures {
            sequence,
            saved: 0,
            since_ms: 0,
            budgets: BTreeMap::new(),
            grants: BTreeMap::new(),
            unplaced: Total::default(),
            cells: Cells::default(),
            changed: Changed::default(),
        }
    }

    /// Learns which budgets and grants there are from the state of the bank that all records before [`Figures::sequence`] lead to. What was
    /// spent before is not counted.
    pub fn learn(&mut self, part: &Part) {
        match part {
            Part::Budget { spec } => self.know(spec),
            Part::Grant { grant, budget, .. } => self.place(*grant, *budget),
            _ => {}
        }
    }

    /// Folds records that follow each other; `first` is the sequence of the first one, `at_ms` when their group was made. Those that were
    /// folded before are passed over.
    ///
    /// # Errors
    /// [`FoldError`].
    pub fn fold(&mut self, first: u64, at_ms: u64, records: &[Record]) -> Result<(), FoldError> {
        if first > self.sequence {
            return Err(FoldError::Gap { found: first, expected: self.sequence });
        }
        let known = usize::try_from(self.sequence - first).unwrap_or(usize::MAX);
        for record in records.iter().skip(known) {
            if self.since_ms == 0 {
                self.since_ms = at_ms;
            }
            self.take(record).ok_or(FoldError::TooMuch { sequence: self.sequence })?;
            self.sequence += 1;
        }
        Ok(())
    }

    /// `None` if a sum would become too large.
    fn take(&mut self, record: &Record) -> Option<()> {
        match record {
            Record::Resolved {
                hold,
                verdict: Verdict::Settled | Verdict::SettledOver | Verdict::SettledLate,
                amount: spend,
                clicked,
                at_ms,
                origin,
                ..
            } => {
                let (impressions, clicks) = (1, u64::from(*clicked));
                let more = Total { impressions, clicks, spend: *spend };
                return self.count(hold.grant, key_of(*origin), *at_ms, more);
            }
            Record::ToppedUp { hold, amount: spend, at_ms, origin, .. } => {
                let more = Total { spend: *spend, ..Total::default() };
                return self.count(hold.grant, key_of(*origin), *at_ms, more);
            }
            // One that was clicked before it was billed counts with the bill.
            Record::Clicked { hold, billed: true, at_ms, origin } => {
                let more = Total { clicks: 1, ..Total::default() };
                return self.count(hold.grant, key_of(*origin), *at_ms, more);
            }
            Record::Granted { grant, budget, .. } => self.place(*grant, *budget),
            Record::GrantClosed { grant } => self.close(*grant),
            Record::Budget { spec } => self.know(spec),
            Record::BudgetIdled { id } => self.idle(*id),
            Record::BudgetForgotten { id } => self.forget(*id),
            _ => {}
        }
        Some(())
    }

    /// Counts on the budget of a grant and all above it, and in the budget's cell: on all or, where a sum would become too large, on none.
    fn count(&mut self, grant: u64, key: u64, at_ms: u64, more: Total) -> Option<()> {
        let placed = self.grants.get(&grant).filter(|id| self.budgets.contains_key(id));
        let Some(id) = placed.copied() else {
            self.unplaced = self.unplaced.plus(more)?;
            return Some(());
        };
        let (mut chain, mut next) = ([None; LEVELS_MAX], Some(id));
        for level in &mut chain {
            let Some((id, budget)) = next.and_then(|id| Some((id, self.budgets.get(&id)?))) else {
                break;
            };
            *level = Some((id, budget.total.plus(more)?));
            next = budget.parent;
        }
        let budget = self.budgets.get_mut(&id)?;
        let minute = hour_of(at_ms, self.cells.zone(budget.kind), &mut budget.hour);
        self.cells.add((minute, budget.kind, id), key, more)?;
        for (id, total) in chain.into_iter().flatten() {
            let Some(budget) = self.budgets.get_mut(&id) else { continue };
            budget.total = total;
            if !std::mem::replace(&mut budget.is_noted, true) {
                self.changed.budgets.push(id);
            }
        }
        Some(())
    }

    fn know(&mut self, spec: &BudgetSpec) {
        let kind = self.cells.kind(spec.unit, &spec.zone);
        let before = self.budgets.get(&spec.id).copied();
        if before.is_some_and(|before| (before.parent, before.kind) == (spec.parent, kind)) {
            return;
        }
        let total = before.map_or(Total::default(), |before| before.total);
        let (parent, hour) = (spec.parent, NO_HOUR);
        self.budgets.insert(spec.id, Budget { parent, kind, hour, total, is_noted: true });
        self.changed.budgets.push(spec.id);
    }

    /// Where a budget spent nothing, the bank keeps nothing of it, and no record says that it is forgotten.
    fn idle(&mut self, id: u64) {
        if self.total(id).is_some_and(|total| total.spend == Amount::ZERO) {
            self.forget(id);
        }
    }

    fn forget(&mut self, id: u64) {
        if self.budgets.remove(&id).is_some() {
            self.changed.budgets.push(id);
        }
    }

    fn place(&mut self, grant: u64, budget: u64) {
        if self.grants.insert(grant, budget) != Some(budget) {
            self.changed.grants.insert(grant);
        }
    }

    fn close(&mut self, grant: u64) {
        if self.grants.remove(&grant).is_some() {
            self.changed.grants.insert(grant);
        }
    }

    /// Sequence of the next record: all before it are folded.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// When the first record that was folded was made, ms since the Unix epoch; `None` before it.
    pub fn since_ms(&self) -> Option<u64> {
        (self.since_ms > 0).then_some(self.since_ms)
    }

    /// What was counted of a budget and of those under it; `None` if there is no such budget.
    pub fn total(&self, id: u64) -> Option<Total> {
        self.budgets.get(&id).map(|budget| budget.total)
    }

    /// All budgets, by id.
    pub fn totals(&self) -> impl Iterator<Item = (u64, Total)> {
        self.budgets.iter().map(|(id, budget)| (*id, budget.total))
    }

    /// What was counted by hour and key.
    pub fn cells(&self) -> &Cells {
        &self.cells
    }

    /// The same, to close hours and to forget them.
    pub fn cells_mut(&mut self) -> &mut Cells {
        &mut self.cells
    }

    /// Is a budget one of these, or under one?
    pub fn is_under(&self, id: u64, of: &BTreeSet<u64>) -> bool {
        let mut next = Some(id);
        for _ in 0..LEVELS_MAX {
            let Some(id) = next else { return false };
            if of.contains(&id) {
                return true;
            }
            next = self.budgets.get(&id).and_then(|budget| budget.parent);
        }
        false
    }

    /// What was settled of grants that are not known: of figures that began in the middle of a journal and did not
    /// [learn](Figures::learn).
    pub fn unplaced(&self) -> Total {
        self.unplaced
    }
}
