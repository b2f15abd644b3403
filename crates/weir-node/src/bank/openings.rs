//! Budgets that are made on their first ask: what workers ask for, made from the templates in force.

use std::collections::VecDeque;
use std::sync::Arc;

use ledger::spec::LEVELS_MAX;
use ledger::{Bank, BudgetSpec, MADE_SLOT, OpenError, Owner, SpecError, ToWorker};
use weir_budgets::templates::{Parent, Template, Templates};
use weir_till::Made;
use wire::{Handle, Verdict};

use super::{AwaitingSeal, BankThread};
use crate::messages::Down;

/// Budgets that a turn makes at most: well below a millisecond. Others wait for the next turn.
const OPENS_MAX: usize = 64;
/// Budgets that a turn compares with changed templates.
const SWEEP_MAX: usize = 64;

/// What workers wait for, and what their budgets are made from.
#[derive(Debug, Default)]
pub(super) struct Openings {
    templates: Arc<Templates>,
    /// The worker, and the handle that it asks for: as many as workers let wait.
    waiting: VecDeque<(usize, Box<str>)>,
    /// Answers whose records are still to be handed to the journal.
    answers: Vec<(usize, Down)>,
    /// The next slot to be compared with templates that changed.
    pub(super) sweep: Option<u32>,
}

impl Openings {
    /// The template that makes the budget with this handle.
    pub(super) fn template_of(&self, handle: &Handle) -> Option<&Template> {
        self.templates.of(handle.as_str())
    }

    /// A worker asks for a budget.
    pub(super) fn ask(&mut self, link: usize, handle: Box<str>) {
        self.waiting.push_back((link, handle));
    }
}

/// What a worker must hear before it is told whose budget a grant was made from, where that was made on its first ask: it may have met
/// the budget never, and scopes may name it by its handle alone.
pub(super) fn met_by(bank: &Bank, message: &ToWorker) -> Option<Down> {
    let (ToWorker::Owner { of: Some(Owner { slot, id, unit, .. }), .. }
    | ToWorker::TimedOwner { slot, id, unit, .. }) = *message
    else {
        return None;
    };
    if slot < MADE_SLOT || bank.is_vacant(slot) || bank.spec(slot).id != id {
        return None;
    }
    let handle: Arc<str> = bank.spec(slot).handle.as_ref()?.as_str().into();
    Some(Down::Opened(handle, Ok(Made { slot, id, unit: unit.to_code() })))
}

impl BankThread {
    /// Makes some of the budgets that are asked for, and changes some whose templates changed; how many it looked at.
    pub(super) fn take_openings(&mut self, refuse: bool) -> usize {
        let mut done = 0;
        while done < OPENS_MAX
            && let Some((link, handle)) = self.openings.waiting.pop_front()
        {
            done += 1;
            let opened = match refuse {
                true => Err(Verdict::Journal),
                false => self.open(&handle),
            };
            let answer = Down::Opened(handle.into(), opened);
            self.openings.answers.push((link, answer));
        }
        done + if refuse { 0 } else { self.sweep() }
    }

    /// Other templates are in force: for budgets from now on, and bit by bit for those that were made. Of
    /// those it looks at none yet.
    pub(super) fn take_templates(&mut self, templates: Arc<Templates>) -> usize {
        if self.openings.templates != templates {
            self.openings.sweep = Some(MADE_SLOT);
        }
        for link in &mut self.links {
            link.backlog.push_back(Down::Templates(Arc::clone(&templates)));
        }
        self.openings.templates = templates;
        1
    }

    /// Once the records are with the journal: answers wait for it, and so does what is said of budgets that ended.
    pub(super) fn hold_openings(&mut self, needed: u64) {
        for handle in self.out.ended.drain(..) {
            let handle: Arc<str> = handle.as_str().into();
            for link in 0..self.links.len() {
                let ended = Down::Ended(Arc::clone(&handle));
                self.held.push_back((needed, AwaitingSeal::Down(link, ended)));
            }
        }
        for (link, answer) in self.openings.answers.drain(..) {
            self.held.push_back((needed, AwaitingSeal::Down(link, answer)));
        }
    }

    fn open(&mut self, handle: &str) -> Result<Made, Verdict> {
        let handle = Handle::parse(handle).map_err(|_| Verdict::UnknownBudget)?;
        let templates = Arc::clone(&self.openings.templates);
        let slot = self.open_level(&handle, &templates, 1)?;
        if slot < MADE_SLOT {
            // A file that names it has just been taken over, and its snapshot is on the way to the worker.
            return Err(Verdict::Busy);
        }
        let spec = self.bank.spec(slot);
        Ok(Made { slot, id: spec.id, unit: spec.unit.to_code() })
    }

    /// The slot of a budget that is there or is made, and of what it is bound by.
    fn open_level(
        &mut self,
        handle: &Handle,
        templates: &Templates,
        level: usize,
    ) -> Result<u32, Verdict> {
        if let Some(slot) = self.bank.named(handle) {
            return Ok(slot);
        }
        let template = templates.of(handle.as_str()).filter(|_| level <= LEVELS_MAX);
        let template = template.ok_or(Verdict::UnknownBudget)?;
        let parent = template.parent_of(handle.as_str()).map_err(|_| Verdict::UnknownBudget)?;
        let parent = match parent {
            None => None,
            Some(Parent::Id(id)) => Some(id),
            Some(Parent::Handle(above)) => {
                let slot = self.open_level(&above, templates, level + 1)?;
                Some(self.bank.spec(slot).id)
            }
        };
        let spec = template.budget(handle.clone(), parent);
        self.bank.open(spec, &mut self.out).map_err(|error| match error {
            OpenError::Full => Verdict::Busy,
            OpenError::Spec(SpecError::ParentUnit { .. }) => Verdict::UnitMismatch,
            // The file changed since: its parent is gone.
            OpenError::Spec(_) => Verdict::UnknownBudget,
        })
    }

    /// Compares some budgets with their templates; those without one go on as they are until nobody asks of them.
    fn sweep(&mut self) -> usize {
        let Some(from) = self.openings.sweep else { return 0 };
        let end = MADE_SLOT + u32::try_from(self.bank.made_slots()).expect("far below 2^31");
        let to = end.min(from + u32::try_from(SWEEP_MAX).expect("a few"));
        for slot in from..to {
            if let Some(changed) = self.changed(slot) {
                // Its unit and parent stay, so nothing of it can be refused that was not in the file.
                if let Err(errors) = self.bank.amend(&[changed], &mut self.out) {
                    tracing::warn!(error = %errors[0], "a budget keeps what its template said before");
                }
            }
        }
        self.openings.sweep = (to < end).then_some(to);
        (to - from) as usize
    }

    /// What its template says of a budget, where it says something else by now.
    fn changed(&self, slot: u32) -> Option<BudgetSpec> {
        if self.bank.is_vacant(slot) {
            return None;
        }
        let known = self.bank.spec(slot);
        let handle = known.handle.as_ref()?;
        let template = self.openings.templates.of(handle.as_str())?;
        let spec = template.budget(handle.clone(), known.parent);
        let spec = BudgetSpec { id: known.id, ..spec };
        (spec.unit == known.unit && spec != *known).then_some(spec)
    }
}
