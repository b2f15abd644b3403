//! Many days, each with every strategy, on a few threads. Answers do not depend on how many.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use gate_pacing::Strategy;

use super::bound::Hindsight;
use super::day::{Auction, Day, Notices};
use super::make::{self, Size};
use super::measure::Measures;
use super::report::Cell;
use super::run::{self, Fixed, Run};
use super::run_engine::{self, RunError, Settings};
use super::scenario::Scenario;
use super::trace::Trace;

/// A day to run strategies on.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    /// Where it comes from.
    pub source: Source<'a>,
    /// How impressions are sold.
    pub auction: Auction,
}

/// Where a day comes from.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// Made up.
    Made {
        /// What is unusual.
        scenario: &'a Scenario,
        /// What it is drawn from.
        seed: u64,
        /// How large it is.
        size: Size,
    },
    /// Somebody's own.
    Trace(&'a Trace),
}

/// What is run on every day.
#[derive(Clone, Debug)]
pub struct Entrants {
    /// The strategies, in the order of reports.
    pub strategies: Vec<Strategy>,
    /// Whether the best fixed multipliers are reported too.
    pub fixed: bool,
    /// How strategies are run.
    pub settings: Settings,
    /// How word of wins and losses comes back, where the scenario does not say.
    pub notices: Notices,
}

/// The name under which the best fixed multipliers in hindsight are reported.
pub const FIXED: &str = "fixed";

/// Runs all cases on so many threads; cells come in the order of the cases, then of the entrants. `done` hears of each
/// run that is over; a case has [`runs`] of them.
///
/// # Errors
/// That of the first case that has one.
pub fn run_all(
    cases: &[Case<'_>],
    entrants: &Entrants,
    threads: usize,
    done: &(dyn Fn() + Sync),
) -> Result<Vec<Cell>, RunError> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut mine = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(case) = cases.get(place) else {
                return mine;
            };
            mine.push((place, judge(case, entrants, done)));
        }
    };
    let mut results = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        let all = joined.map(|mine| mine.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        all.flatten().collect::<Vec<_>>()
    });
    results.sort_by_key(|(place, _)| *place);
    let cells = results.into_iter().map(|(_, cells)| cells).collect::<Result<Vec<_>, _>>()?;
    Ok(cells.into_iter().flatten().collect())
}

/// The number of runs a case has: its strategies, and the fixed multipliers that they are compared with.
pub fn runs(entrants: &Entrants) -> usize {
    entrants.strategies.len() + 1
}

impl Case<'_> {
    fn day(&self) -> Day {
        match self.source {
            Source::Made { scenario, seed, size } => {
                make::make(seed, &size, scenario, self.auction)
            }
            Source::Trace(trace) => trace.day(self.auction),
        }
    }

    fn notices(&self, base: Notices) -> Notices {
        match self.source {
            Source::Made { scenario, .. } => scenario.notices(base),
            Source::Trace(_) => base,
        }
    }

    /// When the event of the day is over, in seconds.
    fn event_end_s(&self, day: &Day) -> Option<u32> {
        match self.source {
            Source::Made { scenario, .. } => scenario.event(day).map(|(_, end)| end),
            Source::Trace(_) => None,
        }
    }

    fn name(&self) -> (&str, &str) {
        match self.source {
            Source::Made { scenario, .. } => (scenario.name, scenario.about),
            Source::Trace(_) => ("trace", "Your own traffic."),
        }
    }
}

/// Makes the day, runs every entrant on it and judges them.
fn judge(
    case: &Case<'_>,
    entrants: &Entrants,
    done: &(dyn Fn() + Sync),
) -> Result<Vec<Cell>, RunError> {
    let day = case.day();
    let notices = case.notices(entrants.notices);
    let rank = entrants.settings.rank();
    let hindsight = Hindsight::of(&day, case.auction, rank);
    let mut fixed = Fixed::new(&day, rank, hindsight.multipliers.clone());
    let fixed = run::run(&day, case.auction, &Fixed::NOTICES, 1, &mut fixed);
    done();
    let verdict = Verdict { case, day: &day, hindsight: &hindsight, fixed_value: fixed.value() };
    let mut cells = Vec::new();
    if entrants.fixed {
        cells.push(verdict.on(FIXED, &fixed));
    }
    for &strategy in &entrants.strategies {
        let mut engine = run_engine::engine(&day, strategy, &notices, &entrants.settings)?;
        let workers = entrants.settings.workers;
        let run = run::run(&day, case.auction, &notices, workers, &mut engine);
        engine.audit().map_err(RunError::Audit)?;
        cells.push(verdict.on(strategy.name(), &run));
        done();
    }
    Ok(cells)
}

/// What runs of one day are judged with.
struct Verdict<'a> {
    case: &'a Case<'a>,
    day: &'a Day,
    hindsight: &'a Hindsight,
    fixed_value: i64,
}

impl Verdict<'_> {
    fn on(&self, strategy: &'static str, run: &Run) -> Cell {
        let campaigns = 0..self.day.campaigns.len();
        let (scenario, about) = self.case.name();
        let end = self.case.event_end_s(self.day);
        Cell {
            scenario: scenario.to_string(),
            about: about.to_string(),
            auction: self.case.auction,
            seed: match self.case.source {
                Source::Made { seed, .. } => Some(seed),
                Source::Trace(_) => None,
            },
            strategy,
            requests: self.day.requests.len() as u64,
            campaigns: campaigns.len() as u64,
            binding: campaigns.filter(|&campaign| self.hindsight.binds(campaign)).count() as u64,
            bids: run.bids,
            wins: run.wins,
            bound_gap: self.hindsight.bound.gap(),
            measures: Measures::of(self.day, run, self.hindsight, self.fixed_value, end),
        }
    }
}
