//! Budgets that are made on their first ask, end when nobody asks any more, and come back with the books they had.
//!
//! An idle budget gives its purses back, waits until no token of it can be judged any more, and ends: its slot is free for another
//! one. What it spent stays here, small, for as long as a limit of it could still be affected: for good where it has a limit for its
//! life, and until its last window is over where it has none.

use std::collections::{BTreeMap, VecDeque};

use money::{Unit, Window};
use wire::Handle;

use super::restore::is_possible;
use super::{Bank, Budget, Out, PurseNote, ReplayError, Search, Slots};
use crate::books::{LINES, SPENT, exposure};
use crate::spec::{BUDGETS_MAX, LEVELS_MAX, MADE_ID_MIN, MADE_SLOT, SpecError};
use crate::{
    Amount, Books, BudgetSpec, LedgerEvidence, Line, No, Record, Status, WindowLimit, WindowUse,
    Windows,
};

/// A slot is not given to another budget for so long after its budget ended: a worker may still be on its way with what it looked up
/// before it heard of the end. Longer than any frame waits.
const REST_MS: u64 = 120_000;
/// Idle budgets that end in one go: many may be due at once, and other work waits for them.
const ENDS_MAX: usize = 128;
/// Ends that were due are looked at in steps of this length, so that many share a place in the timeline.
const STEP_MS: u64 = 1_024;
/// Ended budgets whose spend is kept. Beyond it idle budgets do not end.
const DORMANT_MAX: usize = BUDGETS_MAX;

/// Why a budget is not made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// As many are live as may be, of the node or under the parent.
    #[error(
        "as many budgets as may be are live, of the node or under one parent; see budgets.templates_max and budgets.templates_under_max"
    )]
    Full,
    /// It cannot be so.
    #[error(transparent)]
    Spec(#[from] SpecError),
}

/// What is kept of a budget that ended: about 130 bytes and its handle, and 80 more where it has windows.
#[derive(Clone, Debug, PartialEq)]
pub struct Dormant {
    /// Its id, which it will have again.
    pub id: u64,
    /// Its handle.
    pub handle: Handle,
    /// The unit of what it spent.
    pub unit: Unit,
    /// It has a limit for its life, so what it spent is never forgotten.
    pub limited: bool,
    /// What it spent, in the order of [`Line::SPENT`].
    pub spent: [Amount; SPENT],
    /// What its holds came to.
    pub evidence: LedgerEvidence,
    /// Its windows, if it had any.
    pub windows: Option<Box<DormantWindows>>,
}

/// What a budget that ended used of its windows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DormantWindows {
    /// The civil day that its day lines are about.
    pub day: Window,
    /// What of the money handed out on that day was spent, in the order of [`Line::SPENT`].
    pub day_spent: [Amount; SPENT],
    /// Its windows...
    pub limits: Windows,
    /// ...and what was used of each, in the same order.
    pub uses: Box<[WindowUse]>,
}

impl DormantWindows {
    /// From when on no window can be affected by what was used.
    fn over_ms(&self) -> u64 {
        let each = self.limits.all().iter().zip(&self.uses).map(|(window, used)| {
            if window.is_bucket() { full_ms(window, used) } else { used.until_ms }
        });
        each.fold(self.day.end.ms(), u64::max)
    }
}

/// When a bucket is full again: a period for each limit that was used of it, rounded up.
fn full_ms(window: &WindowLimit, used: &WindowUse) -> u64 {
    let periods = used.used.get().max(0) / window.limit.get().max(1) + 1;
    let periods = u64::try_from(periods).unwrap_or(u64::MAX);
    let refill_ms = window.period.refill_ms().saturating_mul(periods);
    used.until_ms.saturating_add(refill_ms).min(Bank::MS_MAX)
}

impl Dormant {
    /// From when on no limit can be affected by it; `None`: never.
    pub(super) fn over_ms(&self) -> Option<u64> {
        let windows = self.windows.as_ref();
        let over = windows.map_or(0, |windows| windows.over_ms());
        (!self.limited).then_some(over)
    }

    /// Can a bank have kept it?
    pub(super) fn is_sound(&self) -> bool {
        let windows = self.windows.as_ref().is_none_or(|w| {
            let sound = |window: Window| {
                window.end.ms() <= Bank::MS_MAX && window.start.ms() <= window.end.ms()
            };
            let uses = w.uses.len() == w.limits.all().len() && w.uses.iter().all(is_possible);
            sound(w.day) && exposure(&w.day_spent).is_some() && uses
        });
        self.id >= MADE_ID_MIN
            && exposure(&self.spent).is_some()
            && self.evidence.is_sound()
            && windows
    }
}

/// The bank's part that is about them.
#[derive(Clone, Debug)]
pub(super) struct MadeBudgets {
    /// The id of the next one.
    pub(super) next_id: u64,
    /// Ids by handle, of those that are live and of those that are kept.
    by_handle: BTreeMap<Handle, u64>,
    /// Those that ended.
    pub(super) dormant: BTreeMap<u64, Dormant>,
    /// Slots without a budget, from [`MADE_SLOT`] on...
    vacant: Vec<u32>,
    /// ...and those that are not given away yet, with the instant from which on they are.
    resting: VecDeque<(u64, u32)>,
    /// Those that are live.
    live: usize,
    /// Ids that are due to end, or to be forgotten.
    due: VecDeque<u64>,
    pub(super) purse_notes: Vec<PurseNote>,
}

impl Default for MadeBudgets {
    fn default() -> MadeBudgets {
        MadeBudgets {
            next_id: MADE_ID_MIN,
            by_handle: BTreeMap::new(),
            dormant: BTreeMap::new(),
            vacant: Vec::new(),
            resting: VecDeque::new(),
            live: 0,
            due: VecDeque::new(),
            purse_notes: Vec::new(),
        }
    }
}

impl MadeBudgets {
    /// A slot for another budget: one that is free by now, or a new one.
    fn take_slot(&mut self, steady_ms: u64, slots: usize) -> (u32, bool) {
        while let Some((from_ms, slot)) = self.resting.front().copied()
            && from_ms <= steady_ms
        {
            self.resting.pop_front();
            self.vacant.push(slot);
        }
        match self.vacant.pop() {
            Some(slot) => (slot, false),
            None => (MADE_SLOT + u32::try_from(slots).expect("far below 2^31"), true),
        }
    }
}

impl Bank {
    /// The slot of the live budget with this handle: a configured one before one that was made on its first ask.
    pub fn named(&self, handle: &Handle) -> Option<u32> {
        self.named.get(handle).copied().or_else(|| self.made(handle))
    }

    /// Configured budgets that are live and have a handle, with their slots.
    pub fn handles(&self) -> impl Iterator<Item = (&Handle, u32)> {
        self.named.iter().map(|(handle, slot)| (handle, *slot))
    }

    /// The slot of the live budget with this handle that was made on its first ask.
    pub fn made(&self, handle: &Handle) -> Option<u32> {
        self.made.by_handle.get(handle).and_then(|id| self.slot(*id))
    }

    /// What is kept of the budget with this handle, which ended.
    pub fn dormant(&self, handle: &Handle) -> Option<&Dormant> {
        self.made.by_handle.get(handle).and_then(|id| self.made.dormant.get(id))
    }

    /// Budgets that were made on their first ask and did not end.
    pub fn made_live(&self) -> usize {
        self.made.live
    }

    /// Budgets that ended and whose spend is kept.
    pub fn made_dormant(&self) -> usize {
        self.made.dormant.len()
    }

    /// Slots from [`MADE_SLOT`] on that were ever used, those without a budget included.
    pub fn made_slots(&self) -> usize {
        self.budgets.made.len()
    }

    /// Is there no budget in this slot at present?
    pub fn is_vacant(&self, slot: u32) -> bool {
        slot >= MADE_SLOT && self.budget(slot).levels == 0
    }

    /// Live budgets directly under this one that were made on their first ask.
    pub fn made_under(&self, slot: u32) -> usize {
        self.budget(slot).made_children.len()
    }

    /// Makes the budget with this handle, or wakes it with the books that it had: its slot. One that is live stays as it is. The
    /// id of `spec` counts for nothing; its handle must be there. No purse is filled before somebody asks.
    ///
    /// # Errors
    /// What is wrong with it, or that there is no room. It is not there.
    pub fn open(&mut self, spec: BudgetSpec, out: &mut Out) -> Result<u32, OpenError> {
        let Some(handle) = &spec.handle else {
            return Err(SpecError::NoHandle { id: spec.id }.into());
        };
        let known = self.made.by_handle.get(handle).copied();
        if let Some(slot) = known.and_then(|id| self.slot(id)) {
            self.use_made(slot);
            return Ok(slot);
        }
        let parent = spec.parent.and_then(|parent| self.slot(parent));
        let under = parent.map_or(0, |parent| self.made_under(parent));
        if self.made.live >= self.options.made_max || under >= self.options.made_under_max {
            self.counts.made_full += 1;
            return Err(OpenError::Full);
        }
        let other_unit = |id: &u64| self.made.dormant.get(id).is_some_and(|d| d.unit != spec.unit);
        let forget = known.filter(other_unit);
        let id = known.filter(|_| forget.is_none()).unwrap_or(self.made.next_id);
        let spec = BudgetSpec { id: forget.unwrap_or(id), ..spec };
        self.check_spec(&spec)?;
        if let Some(id) = forget {
            // What it spent was of another unit: no limit of the new one is about it.
            self.book(Record::BudgetForgotten { id }, out);
        }
        let spec = BudgetSpec { id, ..spec };
        self.counts.made += 1;
        self.book(Record::Budget { spec: Box::new(spec) }, out);
        Ok(self.slot(id).expect("just made"))
    }

    /// What is wrong with a budget made on its first ask, beside what can be wrong with any.
    pub(super) fn check_made(&self, spec: &BudgetSpec, errors: &mut Vec<SpecError>) {
        let id = spec.id;
        if id < MADE_ID_MIN {
            return;
        }
        let Some(handle) = &spec.handle else { return errors.push(SpecError::NoHandle { id }) };
        match self.made.by_handle.get(handle) {
            Some(other) if *other != id => errors.push(SpecError::MadeTwice { id, other: *other }),
            _ => {}
        }
    }

    /// Ids are never given twice: one below the next is that of a budget that is live, or that ended and comes back.
    pub(super) fn check_made_id(&self, id: u64) -> Result<(), SpecError> {
        let known = self.slots.contains_key(&id) || self.made.dormant.contains_key(&id);
        let given = (MADE_ID_MIN..self.made.next_id).contains(&id);
        if given && !known { Err(SpecError::IdTwice { id }) } else { Ok(()) }
    }

    /// Adds a checked budget made on its first ask to those that are live, with the books it had.
    pub(super) fn add_made(&mut self, spec: &BudgetSpec) -> u32 {
        let steady_ms = self.steady_ms();
        let (slot, is_new) = self.made.take_slot(steady_ms, self.budgets.made.len());
        if is_new {
            self.budgets.made.push(Budget::vacant());
            let notes = self.budgets.made.len() * usize::from(self.options.workers);
            self.made.purse_notes.resize(notes, PurseNote::default());
        }
        self.make_at(slot, spec);
        if let Some(parent) = spec.parent {
            let parent = self.slots[&parent] as usize;
            let under = &mut self.budgets[parent].made_children;
            under.push(slot);
            let place = under.len() - 1;
            self.budgets[slot as usize].place = u32::try_from(place).expect("far below 2^32");
        }
        self.made.live += 1;
        self.made.next_id = self.made.next_id.max(spec.id + 1);
        let handle = spec.handle.clone().expect("checked before");
        self.made.by_handle.insert(handle, spec.id);
        if let Some(dormant) = self.made.dormant.remove(&spec.id) {
            self.budgets[slot as usize].wake(dormant);
        }
        let budget = &mut self.budgets[slot as usize];
        budget.used_ms = self.now_ms;
        self.timeline.idle(spec.id, self.now_ms + spec.idle_ms.max(1));
        slot
    }

    /// Somebody asked of it.
    pub(super) fn use_made(&mut self, slot: u32) {
        if slot >= MADE_SLOT {
            let now_ms = self.now_ms;
            self.budgets[slot as usize].used_ms = now_ms;
        }
    }

    /// An idle budget ended.
    pub(super) fn apply_idled(&mut self, id: u64) -> Result<(), ReplayError> {
        let slot = self.known(id)?;
        let budget = self.budget(slot);
        let empty = [Line::Purses, Line::Held, Line::Suspended, Line::Expired]
            .iter()
            .all(|line| budget.books.line(*line) == Amount::ZERO);
        let childless = budget.made_children.is_empty() && budget.children.is_empty();
        if slot < MADE_SLOT || budget.grants > 0 || budget.named > 0 || !empty || !childless {
            return Err(ReplayError::NotIdle(id));
        }
        let rest_until_ms = self.steady_ms() + REST_MS;
        let budget = std::mem::replace(&mut self.budgets[slot as usize], Budget::vacant());
        self.slots.remove(&id);
        self.made.live -= 1;
        self.made.resting.push_back((rest_until_ms, slot));
        self.leave_parent(&budget);
        let handle = budget.spec.handle.clone().expect("checked when it was made");
        match budget.rest() {
            Some(dormant) => {
                if let Some(over_ms) = dormant.over_ms() {
                    self.timeline.idle(id, over_ms);
                }
                self.made.dormant.insert(id, dormant);
            }
            None => {
                self.made.by_handle.remove(&handle);
            }
        }
        Ok(())
    }

    /// The budget above has one less under it, and can perhaps end now.
    fn leave_parent(&mut self, budget: &Budget) {
        for level in &budget.chain[1..budget.levels] {
            self.budgets[*level as usize].below -= 1;
        }
        if budget.levels < 2 {
            return;
        }
        let (parent, place) = (budget.chain[1] as usize, budget.place as usize);
        let under = &mut self.budgets[parent].made_children;
        under.swap_remove(place);
        if let Some(moved) = under.get(place).copied() {
            self.budgets[moved as usize].place = budget.place;
        }
        let above = &self.budgets[parent];
        if above.made_children.is_empty() && above.spec.idle_ms > 0 {
            let (id, due_ms) = (above.spec.id, above.used_ms + above.spec.idle_ms);
            self.timeline.idle(id, due_ms);
        }
    }

    pub(super) fn apply_forgotten(&mut self, id: u64) -> Result<(), ReplayError> {
        let dormant = self.made.dormant.remove(&id).ok_or(ReplayError::NoBudget(id))?;
        self.made.by_handle.remove(&dormant.handle);
        Ok(())
    }

    /// Takes one from a snapshot; false if it cannot be.
    pub(super) fn restore_dormant(&mut self, dormant: Dormant) -> bool {
        let Dormant { id, handle, .. } = &dormant;
        let known = self.slots.contains_key(id) || self.made.dormant.contains_key(id);
        let sound = dormant.is_sound() && *id < self.made.next_id;
        if known || !sound || self.made.by_handle.contains_key(handle) {
            return false;
        }
        self.made.by_handle.insert(handle.clone(), *id);
        self.made.dormant.insert(*id, dormant);
        true
    }

    /// Those that are live, parents before their children.
    pub(super) fn made_in_order(&self) -> impl Iterator<Item = u32> {
        (1..=LEVELS_MAX).flat_map(move |levels| {
            let of_level = self.slots.range(MADE_ID_MIN..).map(|(_, slot)| *slot);
            of_level.filter(move |slot| self.budget(*slot).levels == levels)
        })
    }

    /// Notes that a budget is to be looked at: it may be idle, or what was kept of it may be over.
    pub(super) fn note_due(&mut self, id: u64) {
        self.made.due.push_back(id);
    }

    /// Ends some of the budgets that are due to.
    pub(super) fn run_due(&mut self, out: &mut Out) {
        for _ in 0..ENDS_MAX {
            let Some(id) = self.made.due.pop_front() else { return };
            match self.slot(id) {
                Some(slot) => self.end_if_idle(id, slot, out),
                None => self.forget_if_over(id, out),
            }
        }
    }

    fn forget_if_over(&mut self, id: u64, out: &mut Out) {
        let over_ms = self.made.dormant.get(&id).and_then(Dormant::over_ms);
        match over_ms {
            Some(over_ms) if over_ms <= self.now_ms => {
                self.book(Record::BudgetForgotten { id }, out);
            }
            Some(over_ms) => self.timeline.idle(id, over_ms),
            None => {}
        }
    }

    fn end_if_idle(&mut self, id: u64, slot: u32, out: &mut Out) {
        let budget = self.budget(slot);
        let (idle_ms, grants) = (budget.spec.idle_ms, budget.grants);
        let due_ms = budget.used_ms + idle_ms;
        if idle_ms == 0 || !budget.made_children.is_empty() || budget.named > 0 {
            // The end of the last one of these brings it here again.
            return;
        }
        if due_ms > self.now_ms {
            return self.timeline.idle(id, due_ms);
        }
        self.recall_all(slot, out);
        if grants > 0 {
            // The end of the last one brings it here again.
            return;
        }
        if self.made.dormant.len() >= DORMANT_MAX {
            return self.timeline.idle(id, self.now_ms + idle_ms);
        }
        out.ended.extend(self.budget(slot).spec.handle.clone());
        self.counts.idled += 1;
        self.book(Record::BudgetIdled { id }, out);
    }

    /// A grant of the budget ended: if it was the last one, and nobody asked for long, the budget ends.
    pub(super) fn grant_ended(&mut self, slot: u32) {
        let now_ms = self.now_ms;
        let budget = &mut self.budgets[slot as usize];
        budget.grants -= 1;
        let is_due = budget.used_ms + budget.spec.idle_ms <= now_ms;
        if slot >= MADE_SLOT && budget.grants == 0 && is_due {
            let id = budget.spec.id;
            self.timeline.idle(id, self.now_ms);
        }
    }

    /// Is nobody asking of a made budget, so that its purse is not to be filled again by itself?
    pub(super) fn is_resting(&self, slot: u32) -> bool {
        let budget = self.budget(slot);
        let quiet_ms = self.options.grant_ms_max.min(budget.spec.idle_ms);
        slot >= MADE_SLOT && budget.used_ms + quiet_ms <= self.now_ms
    }

    fn recall_all(&mut self, slot: u32, out: &mut Out) {
        for worker in 0..self.options.workers {
            if self.purse_note_mut(slot, worker).grant != 0 {
                self.recall(worker, slot, No::LATER, out);
            }
        }
    }
}

/// The end of a step: what is due within it shares a place in the timeline.
pub(super) fn step_ms(due_ms: u64) -> u64 {
    due_ms.next_multiple_of(STEP_MS)
}

impl Budget {
    /// A slot without a budget.
    fn vacant() -> Budget {
        let unit = Unit::Count;
        let spec = BudgetSpec { status: Status::Ended, ..BudgetSpec::plain(0, unit, Amount::ZERO) };
        Budget { levels: 0, ..Budget::new(spec, [0; LEVELS_MAX], 0) }
    }

    /// What is to be kept of it, if anything was spent.
    fn rest(self) -> Option<Dormant> {
        let spent = Line::SPENT.map(|line| self.books.line(line));
        let has_windows = !self.day.is_empty() || !self.windows.is_empty();
        let used = spent.iter().any(|amount| *amount != Amount::ZERO)
            || self.day_used() != Amount::ZERO
            || self.windows.iter().any(|window| window.used != Amount::ZERO);
        let windows = has_windows.then(|| {
            Box::new(DormantWindows {
                day: self.day,
                day_spent: Line::SPENT.map(|line| self.day_lines[line as usize]),
                limits: self.spec.windows.clone(),
                uses: self.told_windows().take(self.windows.len()).collect(),
            })
        });
        used.then(|| Dormant {
            id: self.spec.id,
            handle: self.spec.handle.clone().expect("checked when it was made"),
            unit: self.spec.unit,
            limited: self.spec.limit < money::LIMIT_MAX,
            spent,
            evidence: self.evidence,
            windows,
        })
    }

    /// Goes on from what was kept.
    fn wake(&mut self, dormant: Dormant) {
        let mut lines = [Amount::ZERO; LINES];
        for (line, spent) in Line::SPENT.into_iter().zip(dormant.spent) {
            lines[line as usize] = spent;
        }
        self.books = Books::spent_before(lines);
        self.evidence = dormant.evidence;
        let Some(windows) = dormant.windows else { return };
        self.day = windows.day;
        for (line, spent) in Line::SPENT.into_iter().zip(windows.day_spent) {
            self.day_lines[line as usize] = spent;
        }
        let kept: Vec<_> = windows.limits.all().iter().zip(&windows.uses).collect();
        for (limit, used) in self.spec.windows.all().iter().zip(&mut self.windows) {
            let same = |(known, _): &&(&WindowLimit, &WindowUse)| {
                (known.period, known.kind) == (limit.period, limit.kind)
            };
            if let Some((_, before)) = kept.iter().find(same) {
                *used = **before;
            }
        }
        self.take_day_named();
    }

    /// What is used of its windows, and what named holds booked on its day: with the window of days, else behind all.
    pub(super) fn told_windows(&self) -> impl Iterator<Item = WindowUse> + '_ {
        let of_day = |used: WindowUse| WindowUse { rest: self.day_named, ..used };
        let told = move |(window, used): (&WindowLimit, &WindowUse)| {
            if window.is_day() { of_day(*used) } else { *used }
        };
        let has_day = self.spec.windows.day_limit().is_some();
        let behind = (!has_day && self.day_named > 0).then(|| of_day(WindowUse::default()));
        self.spec.windows.all().iter().zip(&self.windows).map(told).chain(behind)
    }

    /// The reverse, where the window of days has it.
    pub(super) fn take_day_named(&mut self) {
        let mut windows = self.spec.windows.all().iter().zip(&mut self.windows);
        if let Some((_, used)) = windows.find(|(window, _)| window.is_day()) {
            self.day_named = std::mem::take(&mut used.rest);
        }
    }
}

impl Bank {
    /// Puts a new budget into a slot that is there, and counts it with those above that bind it.
    pub(super) fn make_at(&mut self, slot: u32, spec: &BudgetSpec) {
        let mut chain = [slot; LEVELS_MAX];
        let mut levels = 1;
        if let Some(parent) = spec.parent {
            let parent = self.slots[&parent];
            for level in self.chain(parent) {
                chain[levels] = level;
                levels += 1;
                self.budgets[level as usize].below += 1;
            }
        }
        self.slots.insert(spec.id, slot);
        self.budgets[slot as usize] = Budget::new(spec.clone(), chain, levels);
    }
}

impl Budget {
    /// A budget of which nothing was spent.
    pub(super) fn new(spec: BudgetSpec, chain: [u32; LEVELS_MAX], levels: usize) -> Budget {
        let windows = vec![WindowUse::default(); spec.windows.all().len()].into_boxed_slice();
        Budget {
            spec,
            chain,
            levels,
            children: Vec::new(),
            made_children: Vec::new(),
            place: 0,
            below: 0,
            grants: 0,
            used_ms: 0,
            books: Books::default(),
            day: Bank::window(0, 0),
            day_lines: [Amount::ZERO; LINES],
            day_named: 0,
            windows,
            evidence: LedgerEvidence::default(),
            retired_out: Amount::ZERO,
            retired_below: Amount::ZERO,
            returning: Amount::ZERO,
            resolved_early: 0,
            rests: Amount::ZERO,
            search: Search::default(),
            expired_holds: 0,
            named: 0,
            named_held: Amount::ZERO,
            named_expired: Amount::ZERO,
            forced: 0,
        }
    }
}

impl Slots<Budget> {
    /// Adds to, or takes from, what is out under the retired grants of a budget.
    pub(super) fn shift_retired(
        &mut self,
        slot: u32,
        amount: Amount,
        shift: fn(Amount, Amount) -> Amount,
    ) {
        let budget = &mut self[slot as usize];
        budget.retired_out = shift(budget.retired_out, amount);
        let (chain, levels) = (budget.chain, budget.levels);
        for level in &chain[..levels] {
            let budget = &mut self[*level as usize];
            budget.retired_below = shift(budget.retired_below, amount);
        }
    }

    /// Adds to, or takes from, what comes back to a budget and its parents when the suspension of a grant is over.
    pub(super) fn shift_returning(
        &mut self,
        slot: u32,
        amount: Amount,
        shift: fn(Amount, Amount) -> Amount,
    ) {
        let budget = &self[slot as usize];
        let (chain, levels) = (budget.chain, budget.levels);
        for level in &chain[..levels] {
            let budget = &mut self[*level as usize];
            budget.returning = shift(budget.returning, amount);
        }
    }

    /// Some budgets of those under one, itself included, in a fixed order: `take` of them, after `skip`.
    pub(super) fn under(&self, slot: u32, skip: usize, take: usize) -> Vec<u32> {
        let mut found = Vec::with_capacity(take);
        let mut skip = skip;
        self.collect(slot, &mut skip, take, &mut found);
        found
    }

    fn collect(&self, slot: u32, skip: &mut usize, take: usize, found: &mut Vec<u32>) {
        let budget = &self[slot as usize];
        let all = budget.below as usize + 1;
        if found.len() >= take {
            return;
        }
        if *skip >= all {
            *skip -= all;
            return;
        }
        match *skip {
            0 => found.push(slot),
            _ => *skip -= 1,
        }
        for children in [&budget.children, &budget.made_children] {
            let leaves =
                budget.below as usize == budget.children.len() + budget.made_children.len();
            // Leaves are passed over without a look at each.
            let passed = if leaves { (*skip).min(children.len()) } else { 0 };
            *skip -= passed;
            for child in &children[passed..] {
                if found.len() >= take {
                    return;
                }
                self.collect(*child, skip, take, found);
            }
        }
    }
}
