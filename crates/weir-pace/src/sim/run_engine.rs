//! The engine as a bidder: the real strategies over the real ledger.

use std::sync::Arc;

use gate_auction::Rank;
use gate_pacing::{Forecast, Landscape, LandscapeError, PlanSpec, Shape, ShapeError, Strategy};
use ledger::{Amount, Hold, OnExpiry};
use money::{Instant, Window, Zone};

use super::day::{ARRIVALS_ONE, Day, DayCampaign, Notices, SECONDS};
use super::run::Bidder;
use crate::engine::{Engine, EngineCampaign, EngineError, EngineOptions};

/// How strategies are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Settings {
    /// How hard a campaign is pulled to its plan.
    pub gain: u32,
    /// Workers that share the requests.
    pub workers: u16,
    /// The amount that may be spent in spite of bids that nobody spoke of, millionths of the budget.
    pub tolerance_ppm: u32,
    /// What nobody spoke of is free again at its deadline, instead of kept until it is reconciled.
    pub release: bool,
    /// Campaigns are ranked by value, not by bid alone.
    pub by_value: bool,
}

impl Settings {
    pub(crate) fn rank(&self) -> Rank {
        if self.by_value { Rank::Value } else { Rank::Bid }
    }
}

/// Why a day cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The engine does not take it.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A campaign's plan or forecast is no rising table.
    #[error("campaign {id}: {error}")]
    Shape {
        /// The campaign.
        id: u64,
        /// What is wrong with the table.
        error: ShapeError,
    },
    /// A campaign's landscape is none.
    #[error("campaign {id}: {error}")]
    Landscape {
        /// The campaign.
        id: u64,
        /// The fault in it.
        error: LandscapeError,
    },
    /// The ledger's state is not sound after the run: a bug.
    #[error("the ledger's audit after the run: {0}; please report this with the command")]
    Audit(String),
}

/// An engine with the campaigns of a day, all with one strategy.
///
/// # Errors
/// [`RunError`] if the day has something in it that the engine does not take.
pub fn engine(
    day: &Day,
    strategy: Strategy,
    notices: &Notices,
    settings: &Settings,
) -> Result<Engine, RunError> {
    let options = EngineOptions {
        workers: settings.workers,
        loss_notices: Some(notices.losses && notices.lost_ppm < 1_000_000),
        rank: settings.rank(),
        ..EngineOptions::default()
    };
    let start = Instant::from_ms(day.start_ms);
    let end = Instant::from_ms(day.start_ms + u64::from(SECONDS) * 1000);
    let flight = Window { start, end };
    let campaigns = day.campaigns.iter().map(|campaign| {
        Ok(EngineCampaign {
            id: campaign.id,
            limit: Amount::new(campaign.budget),
            day: flight,
            plan: plan(campaign, strategy, flight, settings.gain)?,
            forecast: forecast(campaign)?,
            on_expiry: if settings.release { OnExpiry::Release } else { OnExpiry::Hold },
            tolerance_ppm: settings.tolerance_ppm,
        })
    });
    let campaigns = campaigns.collect::<Result<Vec<_>, RunError>>()?;
    Ok(Engine::new(options, campaigns, day.start_ms)?)
}

fn plan(
    campaign: &DayCampaign,
    strategy: Strategy,
    flight: Window,
    gain: u32,
) -> Result<PlanSpec, RunError> {
    let mut spec = PlanSpec::new(campaign.id, strategy, flight, Zone::utc());
    spec.gain = gain;
    if strategy.follows_time() {
        spec.shape = shape(campaign.id, &campaign.plan)?;
    }
    Ok(spec)
}

fn forecast(campaign: &DayCampaign) -> Result<Forecast, RunError> {
    let id = campaign.id;
    let requests = campaign.arrivals.last().map_or(0, |all| all / ARRIVALS_ONE);
    let known = |points: &[(u64, u64)]| {
        let landscape = Landscape::from_points(points);
        landscape.map(Arc::new).map_err(|error| RunError::Landscape { id, error })
    };
    let landscape = match campaign.landscape.as_slice() {
        [] => None,
        points => Some(known(points)?),
    };
    // Nobody came the day before: nothing is known of when they come.
    let arrivals = if requests > 0 { Some(shape(id, &campaign.arrivals)?) } else { None };
    Ok(Forecast { requests, arrivals, landscape, multiplier_q32: None })
}

fn shape(id: u64, table: &[u64]) -> Result<Shape, RunError> {
    Shape::table(table).map_err(|error| RunError::Shape { id, error })
}

impl Bidder for Engine {
    type Hold = Hold;

    fn tick(&mut self, now_ms: u64) {
        Engine::tick(self, now_ms);
    }

    #[inline]
    fn bid(&mut self, worker: u16, campaign: usize, request: u64, value: i64) -> Option<i64> {
        Engine::bid(self, worker, campaign, request, value)
    }

    #[inline]
    fn score(&self, value: i64, bid: i64) -> u64 {
        Engine::score(self, value, bid)
    }

    #[inline]
    fn able(&mut self, worker: u16, campaign: usize, amount: i64) -> bool {
        Engine::able(self, worker, campaign, amount)
    }

    fn reserve(&mut self, worker: u16, campaign: usize, amount: i64) -> Option<Hold> {
        Engine::reserve(self, worker, campaign, amount)
    }

    fn settle(&mut self, worker: u16, _campaign: usize, hold: &Hold, price: i64) {
        // What the verdict says is in the books, and those are compared with the truth.
        let _ = Engine::settle(self, worker, hold, price);
    }

    fn release(&mut self, worker: u16, _campaign: usize, hold: &Hold) {
        let _ = Engine::release(self, worker, hold);
    }

    fn reconcile(&mut self, decided_until_ms: u64) {
        Engine::reconcile(self, decided_until_ms);
    }

    fn restart(&mut self) {
        Engine::restart(self);
    }

    fn booked(&self, campaign: usize) -> i64 {
        self.settled(campaign)
    }
}
