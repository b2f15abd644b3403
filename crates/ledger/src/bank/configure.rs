//! Taking over a new set of budgets, whole.

use std::collections::{BTreeMap, BTreeSet};

use wire::Handle;

use super::{Bank, Out};
use crate::spec::MADE_ID_MIN;
use crate::{BudgetSpec, Record, SpecError, Status, WindowLimit, spec};

impl Bank {
    /// What is wrong with a set of budgets as the next configuration; empty if it can be taken over.
    pub fn check(&self, specs: &[BudgetSpec]) -> Vec<SpecError> {
        let mut errors = spec::check(specs);
        let new = specs.iter().filter(|spec| self.slot(spec.id).is_none()).count();
        let found = self.slots() + new;
        if found > spec::BUDGETS_MAX && specs.len() <= spec::BUDGETS_MAX {
            errors.push(SpecError::TooMany { found });
        }
        specs.iter().for_each(|spec| self.check_fixed(spec, &mut errors));
        errors
    }

    /// What of a known budget would change that cannot.
    pub(super) fn check_fixed(&self, spec: &BudgetSpec, errors: &mut Vec<SpecError>) {
        let Some(slot) = self.slot(spec.id) else { return };
        let (id, known) = (spec.id, &self.budget(slot).spec);
        if known.unit != spec.unit {
            errors.push(SpecError::Fixed { id, field: "unit" });
        }
        if known.parent != spec.parent {
            errors.push(SpecError::Fixed { id, field: "parent" });
        }
    }

    /// Takes over a set of budgets: new ones begin, changed ones change at once, missing ones end. Either all
    /// of it or, with errors, nothing.
    pub fn configure(&mut self, specs: &[BudgetSpec], out: &mut Out) -> Result<(), Vec<SpecError>> {
        let errors = self.check(specs);
        if !errors.is_empty() {
            return Err(errors);
        }
        let mut changed = Vec::new();
        for spec in parents_first(specs) {
            changed.extend(self.take_over(spec, out));
        }
        let kept: BTreeSet<u64> = specs.iter().map(|spec| spec.id).collect();
        // No configuration names those that were made on their first ask.
        let named = self.slots.range(..MADE_ID_MIN).map(|(id, _)| *id);
        let gone: Vec<u64> = named.filter(|id| !kept.contains(id)).collect();
        for id in gone {
            let slot = self.slot(id).expect("from the index");
            if self.budget(slot).spec.status != Status::Ended {
                self.book(Record::BudgetEnded { id }, out);
                changed.push(slot);
            }
        }
        for slot in changed {
            self.review(slot, out);
        }
        Ok(())
    }

    /// Changes known budgets, as [`Bank::configure`] would; others stay as they are. Either all of it or, with errors,
    /// nothing.
    ///
    /// # Errors
    /// What is wrong with each budget that cannot be so; one that is not known is an error too.
    pub fn amend(&mut self, specs: &[BudgetSpec], out: &mut Out) -> Result<(), Vec<SpecError>> {
        let mut errors: Vec<SpecError> = specs.iter().filter_map(|spec| self.judge(spec)).collect();
        self.check_handles(specs, &mut errors);
        if !errors.is_empty() {
            return Err(errors);
        }
        let changed: Vec<u32> = specs.iter().filter_map(|spec| self.take_over(spec, out)).collect();
        for slot in changed {
            self.review(slot, out);
        }
        Ok(())
    }

    /// Would two live budgets have one handle, once these are changed and the others as they are?
    fn check_handles(&self, specs: &[BudgetSpec], errors: &mut Vec<SpecError>) {
        let mut changed: BTreeMap<u64, Option<&Handle>> = BTreeMap::new();
        let mut taken: BTreeMap<&Handle, u64> = BTreeMap::new();
        for spec in specs.iter().filter(|spec| spec.id < MADE_ID_MIN) {
            let handle = spec.handle.as_ref().filter(|_| spec.status != Status::Ended);
            changed.insert(spec.id, handle);
            if let Some(handle) = handle {
                taken.entry(handle).or_insert(spec.id);
            }
        }
        for (id, handle) in &changed {
            let Some(handle) = handle else { continue };
            let known = self.named.get(*handle).map(|slot| self.budget(*slot).spec.id);
            let known = known.filter(|known| !changed.contains_key(known));
            let other = known.or_else(|| taken.get(handle).copied());
            if let Some(other) = other.filter(|other| other != id) {
                errors.push(SpecError::HandleTwice { id: *id, handle: (*handle).clone(), other });
            }
        }
    }

    fn judge(&self, spec: &BudgetSpec) -> Option<SpecError> {
        match self.slot(spec.id) {
            Some(_) => self.check_spec(spec).err(),
            None => Some(SpecError::Unknown { id: spec.id }),
        }
    }

    /// One budget begins or changes; its slot, if it was not so before. To be reviewed once all are taken over.
    fn take_over(&mut self, spec: &BudgetSpec, out: &mut Out) -> Option<u32> {
        let known = self.slot(spec.id).map(|slot| (slot, &self.budget(slot).spec));
        if known.is_some_and(|(_, known)| known == spec) {
            return None;
        }
        // Holds made from now on have another life: the purses' grants end.
        let life = |spec: &BudgetSpec| (spec.start, spec.end, spec.on_expiry);
        if let Some((slot, _)) = known.filter(|(_, known)| life(known) != life(spec)) {
            self.recall_under(slot, out);
        }
        if let Some(slot) = self.slot(spec.id) {
            self.refill_buckets(slot, out);
            if self.has_new_window(slot, spec) {
                self.recall_under(slot, out);
            }
        }
        self.book(Record::Budget { spec: Box::new(spec.clone()) }, out);
        self.slot(spec.id)
    }

    /// Would purses be filled that a new bucket, or window shorter than a day, does not count?
    fn has_new_window(&self, slot: u32, spec: &BudgetSpec) -> bool {
        let known = &self.budget(slot).spec.windows;
        let is_known = |window: &WindowLimit| {
            known.get(window.period).is_some_and(|known| known.kind == window.kind)
        };
        spec.windows.all().iter().any(|window| window.is_tight() && !is_known(window))
    }

    /// Fills the purses of all budgets that may spend. For the start of a run.
    pub fn open_all(&mut self, out: &mut Out) {
        for slot in
            0..u32::try_from(self.budgets.configured.len()).expect("BUDGETS_MAX is below 2^32")
        {
            self.review_one(slot, out);
        }
    }
}

/// Budgets without parents first, then their children, and so on.
fn parents_first(specs: &[BudgetSpec]) -> impl Iterator<Item = &BudgetSpec> {
    let mut done: BTreeSet<u64> = BTreeSet::new();
    let mut levels: Vec<Vec<&BudgetSpec>> = Vec::new();
    let mut waiting: Vec<&BudgetSpec> = specs.iter().collect();
    while !waiting.is_empty() {
        let (ready, rest): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|spec| spec.parent.is_none_or(|p| done.contains(&p)));
        assert!(!ready.is_empty(), "the set was checked: every parent is there, no circle");
        done.extend(ready.iter().map(|spec| spec.id));
        levels.push(ready);
        waiting = rest;
    }
    levels.into_iter().flatten()
}
