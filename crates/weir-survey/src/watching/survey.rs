//! The survey: every now and then all budgets are looked at, and the board is told how they stand.

use std::collections::HashMap;
use std::sync::mpsc::{Sender as Commands, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant as Clock};

use figures_store::Total;
use gate_auction::Fates;
use ledger::{Amount, WindowKind, WindowLimit};
use money::Instant;
use watch::board::View;
use watch::model::WindowUse;
use watch::{Budget, Counted, Flags, Pacing, Reason, State, Status};
use weir_budgets::campaign_index::CampaignIndex;
use weir_edits::Statics;
use weir_node::bank::rows::{Scene, SlotSpec, SurveyRow};
use weir_node::bank::{Command, ask};

use super::breath::Breath;
use super::condition::{Above, Amiss, Facts, condition, under};
use super::load::{self, Figures, Load};
use super::made::Made;
use super::minutes::{MinuteRow, Minutes};
use super::proof::Prover;
use super::short::{Short, Shorts};
use super::sliding::Sliding;
use super::tallies::{Counts, Tallies, Top};
use crate::admin;
use crate::alerts::{Alerts, Looked, is_told_of};
use crate::pace_text;

/// Budgets that the bank tells of in one go: some ten microseconds of its time.
pub(super) const SLICE: u32 = 256;
/// Campaigns that workers are asked of in one survey: those behind their plans, in turn.
const FATES_MAX: usize = 1_024;
/// How long workers may take to answer.
const WORKERS_WAIT: Duration = Duration::from_secs(1);
/// "In the last minute".
pub(super) const MINUTE_MS: u64 = 60_000;
/// Rates are counted a hundred seconds.
const RATE_MS: u128 = 100_000;

/// Where what was found goes.
pub(super) trait Outlet: Send {
    /// How all budgets stand.
    fn publish(&mut self, view: View);
    /// What happened in a minute since 1970, and the 99th percentile of latency in it, microseconds.
    fn record(&mut self, minute: u64, rows: &[MinuteRow], latency_p99_us: u32);
}

/// Who knows the configuration.
pub(super) trait Catalogue: Send {
    /// What is configured now; cheap while nothing changed.
    fn statics(&self) -> Statics;
}

/// What others may read of the last survey.
#[derive(Debug, Default)]
pub(super) struct Latest(Mutex<Option<Arc<Found>>>);

/// The last survey.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) figures: Figures,
    /// Slots by budget.
    pub(super) slots: Arc<HashMap<u64, u32>>,
}

impl Latest {
    pub(super) fn get(&self) -> Option<Arc<Found>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, found: Found) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(found));
    }
}

/// Counts of budgets, shared with those who are asked for details.
pub(super) type SharedTallies = Arc<Mutex<Tallies>>;

/// What is remembered from survey to survey.
pub(super) struct Survey<C, O> {
    commands: Commands<Command>,
    status: admin::Status,
    catalogue: C,
    latest: Arc<Latest>,
    tallies: SharedTallies,
    outlet: O,
    alerts: Option<Alerts>,
    rows: Vec<SurveyRow>,
    slice: Vec<SurveyRow>,
    spends: Sliding,
    /// What was spent at the last look, by slot, and when that was.
    spent: Vec<Amount>,
    looked_ms: Option<u64>,
    conditions: Vec<(Status, Reason, u64)>,
    roll: Roll,
    made: Made,
    fates: HashMap<u64, Vec<Fates>>,
    next_fate: usize,
    prover: Prover,
    minutes: Minutes,
    minute_latency: Option<probe::Histogram>,
    load: Load,
}

/// Which budgets there are, in the order of ids, and their slots.
#[derive(Debug, Default)]
struct Roll {
    /// Of the view.
    generation: u64,
    /// What it was made of.
    made_of: (u64, u64, usize, u64),
    budgets: Arc<[Budget]>,
    slots: Vec<u32>,
    edited: Vec<bool>,
    /// By slot: it bids, or a budget under it does.
    bids: Vec<bool>,
    by_id: Arc<HashMap<u64, u32>>,
}

impl<C: Catalogue, O: Outlet> Survey<C, O> {
    pub(super) fn new(
        commands: Commands<Command>,
        status: admin::Status,
        catalogue: C,
        (latest, tallies): (Arc<Latest>, SharedTallies),
        outlet: O,
        alerts: Option<Alerts>,
    ) -> Survey<C, O> {
        Survey {
            commands,
            status,
            catalogue,
            latest,
            tallies,
            outlet,
            alerts,
            rows: Vec::new(),
            slice: Vec::new(),
            spends: Sliding::new(MINUTE_MS),
            spent: Vec::new(),
            looked_ms: None,
            conditions: Vec::new(),
            roll: Roll::default(),
            made: Made::default(),
            fates: HashMap::new(),
            next_fate: 0,
            prover: Prover::default(),
            minutes: Minutes::default(),
            minute_latency: None,
            load: Load::default(),
        }
    }

    /// Looks at everything once. `None` when the bank does not answer: the board keeps what it has, and its age tells.
    pub(super) fn look(&mut self) -> Option<()> {
        let began = Clock::now();
        // Before the rows: whoever sees a revision sees at least the figures that came with it.
        let statics = self.catalogue.statics();
        let scene = ask(&self.commands, |reply| Command::Scene { reply })?;
        let now_ms = self.read_rows(scene.slots)?;
        self.made.look(&self.commands, &scene, now_ms)?;
        self.enrol(&statics, &scene)?;
        self.tallies().read(&scene.cells, &self.rows, now_ms);
        self.follow_spend(now_ms);
        let behind = self.behind(&scene.campaign_index);
        self.ask_fates(&behind);
        let amiss = Amiss {
            none_in_force: !self.status.is_in_force(),
            journal: scene.report.journal.failure.is_some(),
        };
        let states = self.states(now_ms, amiss);
        self.outlet.publish(View {
            as_of_ms: now_ms,
            run: scene.run,
            generation: self.roll.generation,
            budgets: Arc::clone(&self.roll.budgets),
            states,
            made: self.made.rows(),
            figures_since_ms: self.status.figures().since_ms(),
        });
        let proof = self.prover.check(&self.rows, now_ms);
        if proof.violations() > 0 {
            let budgets = &proof.examples;
            tracing::error!(?budgets, "books that break an invariant: see docs/ledger.md");
        }
        let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let survey = load::Surveyed { as_of_ms: now_ms, scene, proof, took_ms };
        let figures = self.load.figures(&self.status, survey);
        self.record_minute(&figures);
        self.alert(&statics, now_ms);
        self.latest.set(Found { figures, slots: Arc::clone(&self.roll.by_id) });
        Some(())
    }

    /// Reads all rows, slice by slice; the bank does its own work in between. Returns its clock at the last one.
    fn read_rows(&mut self, slots: u32) -> Option<u64> {
        self.rows.clear();
        let mut now_ms = 0;
        while self.rows.len() < slots as usize || now_ms == 0 {
            let from_slot = u32::try_from(self.rows.len()).ok()?;
            let rows = std::mem::take(&mut self.slice);
            let part = ask(&self.commands, |reply| Command::Survey {
                from_slot,
                max: SLICE,
                rows,
                reply,
            })?;
            now_ms = part.now_ms;
            if part.rows.is_empty() && from_slot < slots {
                return None;
            }
            self.rows.extend_from_slice(&part.rows);
            self.slice = part.rows;
        }
        Some(now_ms)
    }

    /// Makes the list of budgets anew where somebody changed one.
    fn enrol(&mut self, statics: &Statics, scene: &Scene) -> Option<()> {
        let made = self.made.generation;
        let made_of = (statics.generation, scene.generation, self.rows.len(), made);
        if self.roll.generation > 0 && self.roll.made_of == made_of {
            return Some(());
        }
        let by_id: HashMap<u64, u32> =
            (0..).zip(&self.rows).map(|(slot, row)| (row.line.id, slot)).collect();
        let known = |budget: &&Budget| by_id.contains_key(&budget.id);
        let configured = statics.budgets.iter().zip(statics.edited.iter());
        let mut budgets: Vec<(Budget, bool)> = configured
            .filter(|(budget, _)| known(budget))
            .map(|(budget, edited)| (budget.clone(), *edited))
            .collect();
        if budgets.len() < self.rows.len() {
            let configured: std::collections::HashSet<u64> =
                budgets.iter().map(|(budget, _)| budget.id).collect();
            let removed = self.removed(&configured, &scene.campaign_index)?;
            budgets.extend(removed.into_iter().map(|budget| (budget, false)));
            budgets.sort_by_key(|(budget, _)| budget.id);
        }
        let slots = budgets.iter().filter_map(|(budget, _)| by_id.get(&budget.id).copied());
        let slots = slots.collect();
        let edited = budgets.iter().map(|(_, edited)| *edited).collect();
        let campaigns = budgets.iter().filter(|(budget, _)| budget.campaign);
        let bids = bids(&self.rows, campaigns.filter_map(|(budget, _)| by_id.get(&budget.id)));
        let made = self.made.budgets();
        let by_id = by_id.into_iter().chain(made.map(|(budget, slot)| (budget.id, slot))).collect();
        let made = self.made.budgets().map(|(budget, _)| budget.clone());
        let budgets = budgets.into_iter().map(|(budget, _)| budget).chain(made).collect();
        self.roll = Roll {
            generation: self.roll.generation + 1,
            made_of,
            slots,
            edited,
            bids,
            budgets,
            by_id: Arc::new(by_id),
        };
        Some(())
    }

    /// Budgets that the bank knows and nobody configures any more.
    fn removed(
        &self,
        configured: &std::collections::HashSet<u64>,
        campaign_index: &CampaignIndex,
    ) -> Option<Vec<Budget>> {
        let mut removed = Vec::new();
        let slots = u32::try_from(self.rows.len()).ok()?;
        for from_slot in (0..slots).step_by(SLICE as usize) {
            let slice = &self.rows[from_slot as usize..];
            let mut slice = slice.iter().take(SLICE as usize);
            if slice.all(|row| configured.contains(&row.line.id)) {
                continue;
            }
            let specs =
                ask(&self.commands, |reply| Command::Specs { from_slot, max: SLICE, reply })?;
            let unknown = specs.iter().filter(|spec| !configured.contains(&spec.spec.id));
            removed.extend(unknown.map(|spec| budget(spec, campaign_index)));
        }
        self.status.give_names(&mut removed);
        Some(removed)
    }

    /// What was spent since the last look, and what is too old for the last minute.
    fn follow_spend(&mut self, now_ms: u64) {
        let known = self.spent.len();
        let (mut changes, mut breath) = (Vec::new(), Breath::new());
        for (slot, row) in (0..).zip(&self.rows) {
            breath.take();
            let (now, at) = (row.spent(), slot as usize);
            match self.spent.get_mut(at) {
                Some(before) if *before != now => {
                    changes.push((slot, now.get().saturating_sub(before.get())));
                    *before = now;
                }
                Some(_) => {}
                None => self.spent.push(now),
            }
        }
        debug_assert!(known <= self.spent.len(), "slots are never taken back");
        if let Some(from_ms) = self.looked_ms.replace(now_ms) {
            self.spends.add(from_ms, now_ms, changes);
        }
    }

    /// Campaigns that are behind their plans: a part of them, others at the next survey.
    fn behind(&mut self, campaign_index: &CampaignIndex) -> Arc<[u64]> {
        let lags = |row: &SurveyRow| {
            let index = row.standing.and_then(|standing| standing.progress.index_ppm);
            index.is_some()
                && under(row, &[]).is_some()
                && campaign_index.slot(row.line.id).is_some()
        };
        let all = self.rows.len().max(1);
        let from = self.next_fate % all;
        let turn =
            (from..all).chain(0..from).filter_map(|at| self.rows.get(at).map(|row| (at, row)));
        let (mut behind, mut breath) = (Vec::new(), Breath::new());
        let turn = turn.inspect(|_| breath.take());
        for (at, row) in turn.filter(|(_, row)| lags(row)).take(FATES_MAX) {
            behind.push(row.line.id);
            self.next_fate = at + 1;
        }
        behind.into()
    }

    /// Asks all workers what became of these campaigns in their auctions.
    fn ask_fates(&mut self, campaigns: &Arc<[u64]>) {
        if campaigns.is_empty() {
            return;
        }
        let (reply, answers) = channel();
        let campaigns = Arc::clone(campaigns);
        if self.commands.send(Command::Fates { campaigns: Arc::clone(&campaigns), reply }).is_err()
        {
            return;
        }
        for id in campaigns.iter() {
            self.fates.remove(id);
        }
        let until = Clock::now() + WORKERS_WAIT;
        for _ in self.status.counters() {
            let wait = until.saturating_duration_since(Clock::now());
            // A worker that does not answer in time is missing in the reasons.
            let Ok(fates) = answers.recv_timeout(wait) else { return };
            for (id, fates) in fates {
                self.fates.entry(id).or_default().push(fates);
            }
        }
    }

    /// The states of all budgets, in the order of the roll.
    fn states(&mut self, now_ms: u64, amiss: Amiss) -> Arc<[State]> {
        let now = Instant::from_ms(now_ms);
        let above = above(&self.rows, now);
        self.conditions.resize(self.rows.len(), (Status::Active, Reason::None, 0));
        let tallies = Arc::clone(&self.tallies);
        let tallies = tallies.lock().unwrap_or_else(PoisonError::into_inner);
        let shorts = Shorts::of(&self.rows, &tallies);
        let roll = std::mem::take(&mut self.roll);
        let is_counting = self.status.figures().since_ms().is_some();
        let mut breath = Breath::new();
        let mut totals = Vec::with_capacity(roll.slots.len());
        for slots in roll.slots.chunks(SLICE as usize) {
            let ids = slots.iter().map(|slot| self.rows[*slot as usize].line.id);
            totals.extend(self.status.figures().totals(ids));
            breath.took_long();
        }
        let all = roll.slots.iter().zip(&roll.edited).zip(totals);
        let states = all.map(|((slot, edited), Total { impressions, clicks, spend })| {
            breath.take();
            let at = *slot as usize;
            let clicks = Some(clicks);
            let counted =
                (is_counting && roll.bids[at]).then_some(Counted { impressions, clicks, spend });
            let row = &self.rows[at];
            let fates = self.fates.get(&row.line.id).map_or(&[][..], Vec::as_slice);
            let recent = tallies.recent(at);
            // Most budgets are not refused anything: looking for what they met most would be half of a survey's work.
            let top = (recent.refusals > 0).then(|| tallies.top(at)).flatten();
            let short =
                top.map_or(Short::default(), |top| shorts.stands(&self.rows, *slot, top.verdict));
            let (above, under) = (above[at], under(row, fates));
            let facts = Facts { now, row, above, recent, top, short, under, amiss };
            let (status, reason) = condition(&facts);
            let (was, why, since_ms) = &mut self.conditions[at];
            if (*was, *why) != (status, reason) || *since_ms == 0 {
                (*was, *why, *since_ms) = (status, reason, now_ms);
            }
            let since_ms = *since_ms;
            let spend_minute = Amount::new(self.spends.sum(*slot));
            let rates = Rates { recent, top, covered_ms: tallies.covered_ms() };
            let row = of_row(row, *edited);
            let state = State { status, reason, since_ms, spend_minute, counted, ..row };
            rates.put(state)
        });
        let above = |slot: u32| {
            let at = slot as usize;
            above
                .get(at)
                .zip(self.rows.get(at))
                .map_or(Above::default(), |(above, row)| above.and(row, now))
        };
        // Where the list tells its length, it is written where it stays: a copy of it would be another millisecond.
        let made = self.made.states(now, amiss, &above);
        let states = states.chain(made).collect();
        self.roll = roll;
        states
    }

    /// Looks at the budgets that alert.
    fn alert(&mut self, statics: &Statics, now_ms: u64) {
        let Some(alerts) = &mut self.alerts else { return };
        let (roll, rows) = (&self.roll, &self.rows);
        let configured = roll.budgets.iter().zip(&roll.slots).filter_map(|(budget, slot)| {
            Some((budget, rows.get(*slot as usize)?, statics.alerts.get(&budget.id)?))
        });
        let all = configured.chain(self.made.alerting());
        let budgets: Vec<_> = all.filter(|(_, row, shares)| is_told_of(row, shares)).collect();
        let files = self.status.refused_files();
        if alerts.look(&Looked { now_ms, budgets: &budgets, files }).is_none() {
            tracing::warn!("the bank did not tell what alerts were sent; the next look asks again");
        }
    }

    fn record_minute(&mut self, figures: &Figures) {
        let latency = figures.answers();
        let told = {
            let tallies = self.tallies.lock().unwrap_or_else(PoisonError::into_inner);
            self.minutes.look(&self.rows, &tallies, figures.as_of_ms)
        };
        let begun = self.minute_latency.get_or_insert_with(|| latency.clone());
        if let Some((minute, rows)) = told {
            let p99_us = load::micros(latency.since(begun).quantile(0.99));
            *begun = latency;
            self.outlet.record(minute, &rows, u32::try_from(p99_us).unwrap_or(u32::MAX));
        }
    }

    fn tallies(&self) -> std::sync::MutexGuard<'_, Tallies> {
        self.tallies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which budgets bid, or have some under them that do, by slot; `campaigns` are the slots of those that bid.
fn bids<'s>(rows: &[SurveyRow], campaigns: impl Iterator<Item = &'s u32>) -> Vec<bool> {
    let mut bids = vec![false; rows.len()];
    campaigns.for_each(|slot| bids[*slot as usize] = true);
    for (at, row) in rows.iter().enumerate().rev() {
        if let Some(parent) = row.parent.filter(|_| bids[at]) {
            bids[parent as usize] = true;
        }
    }
    bids
}

/// How the budgets above each one stand, by slot. The ledger keeps parents in slots before their children.
fn above(rows: &[SurveyRow], now: Instant) -> Vec<Above> {
    let mut above: Vec<Above> = Vec::with_capacity(rows.len());
    let mut breath = Breath::new();
    for row in rows {
        breath.take();
        let parent = row.parent.map(|slot| slot as usize);
        let parent = parent.and_then(|slot| Some((above.get(slot)?, rows.get(slot)?)));
        above.push(parent.map_or(Above::default(), |(above, parent)| above.and(parent, now)));
    }
    above
}

/// A budget of an earlier configuration.
pub(super) fn budget(known: &SlotSpec, campaign_index: &CampaignIndex) -> Budget {
    let spec = &known.spec;
    let bound = |at: Instant, open: Instant| (at != open).then(|| at.ms());
    let always = money::Window::ALWAYS;
    Budget {
        id: spec.id,
        name: format!("budget {}", spec.id).into(),
        handle: spec.handle.as_ref().map(|handle| handle.as_str().into()),
        unit: spec.unit,
        parent: spec.parent,
        campaign: campaign_index.slot(spec.id).is_some(),
        start_ms: bound(spec.start, always.start),
        end_ms: bound(spec.end, always.end),
        zone: spec.zone.name().into(),
        pacing: known.strategy.map_or(Pacing::Asap, pacing),
        revision: 0,
    }
}

fn pacing(strategy: gate_pacing::Strategy) -> Pacing {
    Pacing::parse(strategy.name()).unwrap_or_default()
}

/// What the row alone tells.
pub(super) fn of_row(row: &SurveyRow, edited: bool) -> State {
    let progress = row.standing.map(|standing| standing.progress);
    let window = progress.map_or(row.day, |progress| progress.window);
    // A flight without an end has no plan either: nothing says how much of it is due by now.
    let planned = row.standing.as_ref().and_then(pace_text::on_plan);
    let planned = planned.filter(|progress| progress.window.end < Instant::MAX);
    let lowered = row.excess() > i128::from(row.tolerated.get());
    let flags = Flags::default()
        .with(Flags::DEBT, row.debt() > Amount::ZERO)
        .with(Flags::OPEN, progress.is_some_and(|progress| progress.open))
        .with(Flags::LOWERED, lowered)
        .with(Flags::EDITED, edited);
    State {
        flags,
        limit: row.line.limit,
        spent: row.spent(),
        debt: row.debt(),
        held: row.line.held,
        available: row.available(),
        window_start_ms: window.start.ms(),
        window_end_ms: window.end.ms(),
        window_budget: planned.map(|progress| progress.budget),
        window_planned: planned.map(|progress| progress.planned),
        window_spent: progress.map(|progress| progress.spent),
        daily: row.daily,
        day_spent: row.day_spent,
        day_ends_ms: row.daily.map(|_| row.day.end.ms()),
        windows: row.windows.map(|of| of.map(window_use)),
        ..State::default()
    }
}

fn window_use((window, used): (WindowLimit, Amount)) -> WindowUse {
    WindowUse { bucket: window.kind == WindowKind::Bucket, limit: window.limit, used }
}

/// What happened in the last seconds, for a state.
struct Rates {
    recent: Counts,
    top: Option<Top>,
    covered_ms: u64,
}

impl Rates {
    fn put(self, state: State) -> State {
        let rate = |count: u64| {
            let hundred_s = u128::from(count) * RATE_MS;
            let rate = hundred_s.checked_div(u128::from(self.covered_ms)).unwrap_or(0);
            u32::try_from(rate).unwrap_or(u32::MAX)
        };
        State {
            top_refusal: self.top.map_or(0, |top| top.verdict.as_raw()),
            asks: rate(self.recent.asks),
            grants: rate(self.recent.grants),
            refusals: rate(self.recent.refusals),
            top_refusals: rate(self.top.map_or(0, |top| top.count)),
            ..state
        }
    }
}
