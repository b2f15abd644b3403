//! The made-up budgets.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use money::{Amount, Unit};
use probe::compare::Random;
use watch::board::View;
use watch::{Budget, Flags, Pacing, Reason, State, Status};

use crate::Plan;

/// Which budgets change at a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// Any: of those on a screen, as many as of all.
    Spread,
    /// Those that spend most, which a page shows first: everything on a screen changes.
    Hot,
}

const MICROS: i64 = 1_000_000;
const DAY_MS: u64 = 86_400_000;
const ZONES: [&str; 5] =
    ["UTC", "Europe/Berlin", "America/New_York", "Asia/Tokyo", "Australia/Sydney"];
const UNITS: [&str; 4] = ["USD", "EUR", "GBP", "JPY"];
const MAKERS: [&str; 8] =
    ["Aldgate", "Boreal", "Cobalt", "Dovetail", "Ember", "Fjord", "Gable", "Harbour"];
const PARTS: [&str; 6] = ["spring", "launch", "retargeting", "loyalty", "clearance", "awareness"];
/// The verdict `paced` of `schema/weir.xml`.
const PACED: u8 = 7;

#[derive(Debug)]
pub(crate) struct World {
    plan: Plan,
    random: Random,
    budgets: Arc<[Budget]>,
    states: Vec<State>,
}

impl World {
    pub(crate) fn new(plan: Plan) -> World {
        let mut random = Random::new(1);
        let now_ms = now_ms();
        let budgets = (0..plan.rows).map(|row| budget(row, now_ms)).collect();
        let states = (0..plan.rows).map(|row| state(row, plan.rows, now_ms, &mut random)).collect();
        World { plan, random, budgets, states }
    }

    /// Lets some budgets spend.
    pub(crate) fn step(&mut self) {
        let World { plan, random, states, .. } = self;
        let rows = states.len();
        for i in 0..plan.deltas.min(rows) {
            let row = match plan.mode {
                Mode::Hot => i,
                // One of each stretch of equal length: as many distinct rows as asked for.
                Mode::Spread => stretch(i, plan.deltas, rows, random),
            };
            spend(&mut states[row], random);
        }
    }

    pub(crate) fn view(&self) -> View {
        View {
            as_of_ms: now_ms(),
            run: 1,
            generation: 1,
            budgets: Arc::clone(&self.budgets),
            states: self.states.as_slice().into(),
            ..View::default()
        }
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A row of the `i`-th of `count` stretches of `rows`.
fn stretch(i: usize, count: usize, rows: usize, random: &mut Random) -> usize {
    let (from, to) = (i * rows / count, (i + 1) * rows / count);
    from + random.below(to - from)
}

fn pick<'a>(list: &[&'a str], at: usize) -> &'a str {
    list[at % list.len()]
}

fn budget(row: usize, now_ms: u64) -> Budget {
    Budget {
        id: row as u64 + 1,
        name: format!("{} {} {row:05}", pick(&MAKERS, row), pick(&PARTS, row / 7)).into(),
        handle: None,
        unit: Unit::parse(pick(&UNITS, row)).unwrap_or(Unit::Count),
        parent: None,
        campaign: true,
        start_ms: Some(now_ms.saturating_sub(DAY_MS)),
        end_ms: Some(now_ms + 30 * DAY_MS),
        zone: pick(&ZONES, row).into(),
        pacing: Pacing::Curve,
        revision: 1,
    }
}

fn state(row: usize, rows: usize, now_ms: u64, random: &mut Random) -> State {
    let limit = amount(random, 1_000_000) + 1_000 * MICROS;
    let day = limit / 30;
    let (status, reason) = match row % 10 {
        7 => (Status::Limited, Reason::Paced),
        8 => (Status::Limited, Reason::Floor),
        9 => (Status::Paused, Reason::Owner),
        _ => (Status::Active, Reason::None),
    };
    State {
        status,
        reason,
        since_ms: now_ms,
        top_refusal: PACED,
        flags: Flags::OPEN,
        limit: Amount::new(limit),
        available: Amount::new(limit),
        window_start_ms: now_ms.saturating_sub(DAY_MS / 2),
        window_end_ms: now_ms + DAY_MS / 2,
        window_budget: Some(Amount::new(day)),
        window_planned: Some(Amount::new(day / 2)),
        window_spent: Some(Amount::new(0)),
        daily: Some(Amount::new(day)),
        day_ends_ms: Some(now_ms + DAY_MS / 2),
        // Lower rows spend more, by steps above what a tick adds: so which rows a page shows first stays the same.
        spend_minute: Amount::new(i64::try_from(rows - row).unwrap_or(i64::MAX / MICROS) * MICROS),
        ..State::default()
    }
}

/// An amount below so many whole units.
fn amount(random: &mut Random, units: usize) -> i64 {
    i64::try_from(random.below(units)).unwrap_or(0) * MICROS + jitter(random)
}

/// Less than one unit.
fn jitter(random: &mut Random) -> i64 {
    i64::try_from(random.below(999_999)).unwrap_or(0)
}

fn spend(state: &mut State, random: &mut Random) {
    let more = jitter(random) / 100 + 1;
    let plus = |amount: Amount| Amount::new(amount.get().saturating_add(more));
    state.spent = plus(state.spent);
    state.day_spent = plus(state.day_spent);
    state.window_spent = state.window_spent.map(plus);
    state.available = Amount::new(state.limit.get().saturating_sub(state.spent.get()));
    state.spend_minute = Amount::new(state.spend_minute.get() / MICROS * MICROS + jitter(random));
    state.asks = 10_000 + u32::try_from(random.below(50_000)).unwrap_or(0);
    state.grants = state.asks / 3;
    state.refusals = state.asks - state.grants;
    state.top_refusals = state.refusals / 2;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(mode: Mode) -> Vec<usize> {
        let mut world = World::new(Plan { rows: 1_000, deltas: 60, mode });
        let before = world.states.clone();
        world.step();
        (0..before.len()).filter(|&row| before[row] != world.states[row]).collect()
    }

    #[test]
    fn as_many_change_as_planned() {
        assert_eq!(changed(Mode::Hot), (0..60).collect::<Vec<_>>());
        let spread = changed(Mode::Spread);
        assert_eq!(spread.len(), 60);
        assert!(spread[0] < 17 && spread[59] >= 983, "{spread:?}");
    }

    #[test]
    fn who_spends_most_stays_so_and_sums_hold() {
        let mut world = World::new(Plan { rows: 100, deltas: 100, mode: Mode::Hot });
        world.step();
        assert!(world.states.is_sorted_by(|a, b| a.spend_minute > b.spend_minute));
        for state in &world.states {
            assert_eq!(
                state.limit.get(),
                state.spent.get() + state.held.get() + state.available.get()
            );
        }
    }
}
