//! Budgets that were made from templates: they come and go by themselves, and there may be a million of them. So only the first
//! slots are shown, and how many live ones are not is told. Which rows there are is decided anew every now and then only: another
//! list means that every page loads the whole table again.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::Sender as Commands;

use ledger::{Amount, MADE_SLOT};
use money::Instant;
use watch::board::MadeRows;
use watch::{Budget, Flags, Reason, State, Status};
use weir_budgets::alerts::Shares;
use weir_node::bank::rows::{Scene, SurveyRow};
use weir_node::bank::{Command, ask};

use super::condition::{Above, Amiss, Facts, condition};
use super::short::Short;
use super::sliding::Sliding;
use super::survey::{self, MINUTE_MS, SLICE};
use super::tallies::Counts;

/// Rows of such budgets.
const ROWS_MAX: usize = 10_000;
/// So long a list stands, whoever comes or goes.
const LIST_MS: u64 = 15_000;

/// What is remembered of them from survey to survey.
#[derive(Debug)]
pub(super) struct Made {
    /// Rises with every other list.
    pub(super) generation: u64,
    listed_ms: u64,
    /// In the order of ids.
    list: Vec<Listed>,
    from: Arc<[u32]>,
    templates: Arc<[Box<str>]>,
    live: usize,
    /// By slot, counted from [`MADE_SLOT`]: figures of now.
    rows: HashMap<u32, SurveyRow>,
    spends: Sliding,
    looked_ms: Option<u64>,
}

/// A budget with a row.
#[derive(Debug)]
struct Listed {
    slot: u32,
    budget: Budget,
    state: State,
    /// At which shares of its limits it alerts.
    alerts: Shares,
}

impl Default for Made {
    fn default() -> Made {
        Made {
            generation: 0,
            listed_ms: 0,
            list: Vec::new(),
            from: Arc::default(),
            templates: Arc::default(),
            live: 0,
            rows: HashMap::new(),
            spends: Sliding::new(MINUTE_MS),
            looked_ms: None,
        }
    }
}

impl Made {
    /// Reads their figures, and makes the list anew where that is due. `None`: the bank does not answer.
    pub(super) fn look(
        &mut self,
        commands: &Commands<Command>,
        scene: &Scene,
        now_ms: u64,
    ) -> Option<()> {
        self.live = scene.made;
        let slots = self.read(commands, scene.made_slots)?;
        self.follow_spend(now_ms);
        let stands = now_ms < self.listed_ms.saturating_add(LIST_MS) && !self.list.is_empty();
        let is_listed = |one: &Listed| self.row(one).is_some();
        let same = self.list.len() == self.rows.len() && self.list.iter().all(is_listed);
        if stands || same {
            return Some(());
        }
        self.listed_ms = now_ms;
        self.enrol(commands, slots, &scene.campaign_index)
    }

    /// The figures of the first slots; how many slots it looked at.
    fn read(&mut self, commands: &Commands<Command>, slots: u32) -> Option<u32> {
        self.rows.clear();
        let (mut from, mut memory) = (0, Vec::new());
        while from < slots && self.rows.len() < ROWS_MAX {
            let rows = std::mem::take(&mut memory);
            let part = ask(commands, |reply| Command::Survey {
                from_slot: MADE_SLOT + from,
                max: SLICE,
                rows,
                reply,
            })?;
            self.rows.extend(part.rows.iter().map(|row| (row.slot - MADE_SLOT, *row)));
            memory = part.rows;
            from += SLICE;
        }
        Some(from.min(slots))
    }

    /// Another list, of the budgets that are there now.
    fn enrol(
        &mut self,
        commands: &Commands<Command>,
        slots: u32,
        campaign_index: &weir_budgets::campaign_index::CampaignIndex,
    ) -> Option<()> {
        let mut found = Vec::with_capacity(self.rows.len());
        for from in (0..slots).step_by(SLICE as usize) {
            let specs = ask(commands, |reply| Command::Specs {
                from_slot: MADE_SLOT + from,
                max: SLICE,
                reply,
            })?;
            found.extend(specs);
        }
        let slot_of: HashMap<u64, u32> =
            self.rows.values().map(|row| (row.line.id, row.slot)).collect();
        found.retain(|known| slot_of.contains_key(&known.spec.id));
        found.sort_by_key(|known| known.spec.id);
        let (mut templates, mut from): (Vec<Box<str>>, Vec<u32>) = (Vec::new(), Vec::new());
        for known in &found {
            from.push(place(&mut templates, known.template.as_deref()));
        }
        let before: HashMap<u64, State> =
            self.list.drain(..).map(|one| (one.budget.id, one.state)).collect();
        let listed = found.into_iter().map(|known| {
            let mut budget = survey::budget(&known, campaign_index);
            if let Some(handle) = &budget.handle {
                budget.name = handle.clone();
            }
            let state = before.get(&budget.id).copied().unwrap_or_default();
            Listed { slot: slot_of[&budget.id] - MADE_SLOT, budget, state, alerts: known.alerts }
        });
        self.list = listed.collect();
        (self.from, self.templates) = (from.into(), templates.into());
        self.generation += 1;
        Some(())
    }

    fn follow_spend(&mut self, now_ms: u64) {
        let spent = |one: &Listed| {
            let now = self.row(one)?.spent().get();
            let change = now.saturating_sub(one.state.spent.get());
            // Before its first state nothing is known of a budget that an earlier list did not have.
            (change != 0 && one.state.since_ms > 0).then_some((one.slot, change))
        };
        let changes = self.list.iter().filter_map(spent).collect();
        if let Some(from_ms) = self.looked_ms.replace(now_ms) {
            self.spends.add(from_ms, now_ms, changes);
        }
    }

    /// The figures of one that is still there: its slot may be another's by now.
    fn row(&self, one: &Listed) -> Option<&SurveyRow> {
        self.rows.get(&one.slot).filter(|row| row.line.id == one.budget.id)
    }

    /// The budgets with a row, in the order of ids.
    pub(super) fn budgets(&self) -> impl Iterator<Item = (&Budget, u32)> {
        self.list.iter().map(|one| (&one.budget, MADE_SLOT + one.slot))
    }

    /// Those that are still there, with how they stand and at which shares of their limits they alert.
    pub(super) fn alerting(&self) -> impl Iterator<Item = (&Budget, &SurveyRow, &Shares)> {
        self.list.iter().filter_map(|one| Some((&one.budget, self.row(one)?, &one.alerts)))
    }

    /// Their states; `above` tells how a configured budget stands with those above it.
    pub(super) fn states(
        &mut self,
        now: Instant,
        amiss: Amiss,
        above: &dyn Fn(u32) -> Above,
    ) -> Vec<State> {
        let states = self.list.iter().map(|one| {
            let Some(row) = self.row(one) else { return ended(one.state, now) };
            let facts = Facts {
                now,
                row,
                above: self.above(row, now, above),
                recent: Counts::default(),
                top: None,
                short: Short::default(),
                under: None,
                amiss,
            };
            let (status, reason) = condition(&facts);
            let before = &one.state;
            let stands = (before.status, before.reason) == (status, reason) && before.since_ms > 0;
            let since_ms = if stands { before.since_ms } else { now.ms() };
            let spend_minute = Amount::new(self.spends.sum(one.slot));
            State { status, reason, since_ms, spend_minute, ..survey::of_row(row, false) }
        });
        let states: Vec<State> = states.collect();
        self.list.iter_mut().zip(&states).for_each(|(one, state)| one.state = *state);
        states
    }

    fn above(&self, row: &SurveyRow, now: Instant, above: &dyn Fn(u32) -> Above) -> Above {
        match row.parent {
            None => Above::default(),
            Some(slot) if slot < MADE_SLOT => above(slot),
            Some(slot) => match self.rows.get(&(slot - MADE_SLOT)) {
                Some(parent) => self.above(parent, now, above).and(parent, now),
                None => Above::default(),
            },
        }
    }

    /// What a view tells of their rows.
    pub(super) fn rows(&self) -> MadeRows {
        let hidden = self.live.saturating_sub(self.rows.len());
        MadeRows {
            from: Arc::clone(&self.from),
            templates: Arc::clone(&self.templates),
            hidden: u64::try_from(hidden).unwrap_or(u64::MAX),
        }
    }
}

/// Where the pattern stands among these, where it is put if it does not; beyond any for a template that is gone.
fn place(templates: &mut Vec<Box<str>>, pattern: Option<&str>) -> u32 {
    let Some(pattern) = pattern else { return u32::MAX - 1 };
    let at = templates.iter().position(|known| **known == *pattern).unwrap_or_else(|| {
        templates.push(pattern.into());
        templates.len() - 1
    });
    u32::try_from(at).unwrap_or(u32::MAX - 1)
}

/// One that ended since the list was made.
fn ended(before: State, now: Instant) -> State {
    let stands = before.status == Status::Ended;
    State {
        status: Status::Ended,
        reason: Reason::Removed,
        since_ms: if stands { before.since_ms } else { now.ms() },
        spend_minute: Amount::ZERO,
        flags: Flags::default(),
        ..before
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watching::tests::row;

    fn made_of(ids: &[u64]) -> Made {
        let rows = (0..)
            .zip(ids)
            .map(|(slot, id)| (slot, SurveyRow { slot: MADE_SLOT + slot, ..row(*id, 100) }));
        let budget = |id| Budget {
            id,
            name: "".into(),
            handle: None,
            unit: money::Unit::Count,
            parent: None,
            campaign: false,
            start_ms: None,
            end_ms: None,
            zone: "UTC".into(),
            pacing: watch::Pacing::Asap,
            revision: 0,
        };
        let list = (0..).zip(ids).map(|(slot, id)| Listed {
            slot,
            budget: budget(*id),
            state: State::default(),
            alerts: Shares::default(),
        });
        Made { rows: rows.collect(), list: list.collect(), live: 1_000_000, ..Made::default() }
    }

    fn statuses(made: &mut Made, now_ms: u64) -> Vec<Status> {
        let states = made.states(Instant::from_ms(now_ms), Amiss::default(), &|_| Above::default());
        states.iter().map(|state| state.status).collect()
    }

    #[test]
    fn one_that_ended_says_so_until_the_list_is_made_anew() {
        let mut made = made_of(&[7, 9]);
        assert_eq!(statuses(&mut made, 1), [Status::Active; 2]);
        // Its slot has another budget by now.
        made.rows.insert(0, row(8, 100));
        assert_eq!(statuses(&mut made, 2), [Status::Ended, Status::Active]);
        assert_eq!(made.rows().hidden, 999_998);
    }

    #[test]
    fn one_under_a_made_budget_that_is_spent_stands_behind_it() {
        let mut made = made_of(&[7, 9]);
        let spent = SurveyRow { slot: MADE_SLOT, ..row(7, 0) };
        made.rows.insert(0, spent);
        made.rows
            .insert(1, SurveyRow { slot: MADE_SLOT + 1, parent: Some(MADE_SLOT), ..row(9, 100) });
        let states = made.states(Instant::from_ms(1), Amiss::default(), &|_| Above::default());
        assert_eq!(states[1].reason, Reason::Parent);
    }

    #[test]
    fn templates_stand_there_once_and_those_that_are_gone_beyond_them() {
        let mut templates = Vec::new();
        let places = [Some("a/{x}"), None, Some("b/{x}"), Some("a/{x}")]
            .map(|one| place(&mut templates, one));
        assert_eq!((places, templates.len()), ([0, u32::MAX - 1, 1, 0], 2));
    }
}
