//! What became of a budget: minute by minute, and why asks were refused.

use axum::extract::State;
use axum::response::Response;
use money::Unit;
use serde::Serialize;
use utoipa::ToSchema;

use super::answer::DecimalAmount;
use super::budgets::json;
use super::extract::{Named, Params};
use super::params::BudgetName;
use super::types::{HistoryParams, Id};
use super::{App, Parts};
use crate::history::{Counts, QueryError, Series};
use crate::node::Refusals;
use crate::problem::{Kind, Problem};

const MINUTE_MS: u64 = 60_000;
const DAY_MS: u64 = 24 * 60 * MINUTE_MS;
/// The latest time there is, as of `money::Instant`.
const TIME_MAX_MS: u64 = 253_402_041_600_000;
/// The reason of who was not looked for: it does not want such a place, person or time.
const TARGETING: &str = "targeting";
/// About so many points where the caller does not say how long a step is.
const POINTS: u64 = 720;

/// Columns of equal length, one entry per step. A step of which nothing is recorded is null in all.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct HistoryAnswer {
    step_ms: u64,
    /// Where the first step begins.
    from_ms: u64,
    /// Nothing older is kept.
    kept_from_ms: u64,
    /// Of its amounts: ISO 4217, with an `n` where it counts nanos, or `count`.
    #[schema(pattern = "^([A-Z]{3}n?|count)$", example = "USD")]
    unit: &'static str,
    /// Where each step ends.
    t_ms: Vec<u64>,
    /// Spent in the pacing window by then; null where nothing happened in the step, too.
    spent: Vec<Option<DecimalAmount>>,
    /// What the plan would have spent by then.
    planned: Vec<Option<DecimalAmount>>,
    /// Counts of the step.
    asks: Vec<Option<u64>>,
    grants: Vec<Option<u64>>,
    wins: Vec<Option<u64>>,
    refusals: Vec<Option<u64>>,
    /// Of the node, not of this budget: 99 of 100 answers of all its budgets and doors took at most so long, in the slowest
    /// minute of the step.
    latency_p99_us: Vec<Option<u32>>,
}

impl HistoryAnswer {
    fn new(series: &Series, from: u64, unit: Unit) -> HistoryAnswer {
        let ms = |minute: u64| minute.saturating_mul(MINUTE_MS);
        let points = &series.points;
        let count =
            |pick: fn(&Counts) -> u64| points.iter().map(|p| p.counts.as_ref().map(pick)).collect();
        let decimal =
            |amount: Option<i64>| amount.map(|amount| DecimalAmount::sum(amount.into(), unit));
        HistoryAnswer {
            step_ms: ms(series.step),
            from_ms: ms(points.first().map_or(from, |point| point.minute)),
            kept_from_ms: ms(series.kept_from),
            unit: unit.as_str(),
            t_ms: points.iter().map(|point| ms(point.minute.saturating_add(series.step))).collect(),
            spent: points.iter().map(|point| decimal(point.spent)).collect(),
            planned: points.iter().map(|point| decimal(point.planned)).collect(),
            asks: count(|counts| counts.asks),
            grants: count(|counts| counts.grants),
            wins: count(|counts| counts.wins),
            refusals: count(|counts| counts.refusals),
            latency_p99_us: points
                .iter()
                .map(|p| p.counts.map(|counts| counts.latency_p99_us))
                .collect(),
        }
    }
}

/// Minutes from, to before, and of a step.
fn minutes(params: &HistoryParams, now_ms: u64) -> Result<(u64, u64, u64), Problem> {
    let to_ms = params.to_ms.unwrap_or(now_ms);
    let from_ms = params.from_ms.unwrap_or_else(|| to_ms.saturating_sub(DAY_MS));
    for (field, ms) in [("to_ms", to_ms), ("from_ms", from_ms)] {
        if ms > TIME_MAX_MS {
            let expected = format!("at most {TIME_MAX_MS}");
            return Err(Problem::malformed(field, &ms.to_string(), &expected));
        }
    }
    if from_ms > to_ms {
        let expected = format!("at most to_ms, {to_ms}");
        return Err(Problem::malformed("from_ms", &from_ms.to_string(), &expected));
    }
    let (from, to) = (from_ms / MINUTE_MS, to_ms.div_ceil(MINUTE_MS));
    let step = match params.step_ms {
        None => (to_ms - from_ms).div_ceil(MINUTE_MS * POINTS).max(1),
        Some(ms) if ms.is_multiple_of(MINUTE_MS) && (MINUTE_MS..=DAY_MS).contains(&ms) => {
            ms / MINUTE_MS
        }
        Some(ms) => {
            let expected = format!("a multiple of {MINUTE_MS}, at most {DAY_MS}");
            return Err(Problem::malformed("step_ms", &ms.to_string(), &expected));
        }
    };
    Ok((from, to, step))
}

impl Parts {
    fn history(&self, id: u64, params: &HistoryParams) -> Result<Response, Problem> {
        let view = self.board.view();
        let unit = match view.row(id) {
            Some(row) => row.budget.unit,
            None => self.fresh(id)?.unit(),
        };
        let (from, to, step) = minutes(params, view.as_of_ms)?;
        let series = self.history.query(id, from, to, step).map_err(|error| match error {
            QueryError::Points { .. } => {
                Problem::malformed("step_ms", &error.to_string(), "fewer points")
            }
            error => Problem::new(Kind::Internal, error.to_string()),
        })?;
        Ok(json(&HistoryAnswer::new(&series, from, unit)))
    }
}

/// Shows what a budget spent, and was asked for, step by step. The latency beside it is the node's.
#[utoipa::path(get, path = "/v1/budgets/{id}/history", tag = "budgets",
    params(BudgetName, HistoryParams),
    responses((status = 200, description = "Its history, as columns", body = HistoryAnswer)))]
pub(super) async fn history(
    State(app): State<App>,
    name: Named,
    Params(params): Params<HistoryParams>,
) -> Result<Response, Problem> {
    app.wait(move |parts| parts.history(parts.id_of(&name)?, &params)).await?
}

/// Why asks of a budget were refused, or why its campaign did not bid.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RefusalAnswer {
    /// Counts since the start of the run, most first.
    verdicts: Vec<VerdictCount>,
    /// One request in so many is surveyed for `why`, and the first of each 10 ms; 0: none.
    survey_every: u64,
    /// Impressions auctioned since the campaigns last changed.
    auctioned: u64,
    /// Of these, surveyed.
    surveyed: u64,
    /// Why the campaign did not bid, most first: a sample, counted since the campaigns last changed.
    why: Vec<ReasonCount>,
    /// The first of these, but for `targeting`, which is no refusal; null where there is none.
    #[schema(required, example = "floor")]
    top_reason: Option<String>,
    /// The last 100 asks that got nothing, newest first: those for this budget, and for budgets under it, among the last
    /// `recent_of` refused asks of the node. Bid requests are not asks: `why` tells of them.
    recent: Vec<RecentRefusal>,
    /// Refused asks that the node remembers, of all budgets.
    recent_of: u64,
}

/// How often a verdict was given.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct VerdictCount {
    #[schema(example = "paced")]
    verdict: String,
    count: u64,
}

/// How often a reason kept a campaign from bidding.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ReasonCount {
    #[schema(example = "floor")]
    reason: String,
    /// In the sample.
    count: u64,
    /// About how often in all: the count times `auctioned` per `surveyed`. A small count says little: it is off by about its square root.
    estimate: u64,
}

/// One refused ask.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RecentRefusal {
    at_ms: u64,
    #[schema(example = "paced")]
    verdict: String,
    /// Whom it named: this budget, or one under it.
    budget: Id,
}

/// What a count in a sample means for all.
fn estimate(count: u64, all: u64, sampled: u64) -> u64 {
    let estimate = u128::from(count) * u128::from(all) / u128::from(sampled.max(1));
    u64::try_from(estimate).unwrap_or(u64::MAX)
}

impl From<Refusals> for RefusalAnswer {
    fn from(refusals: Refusals) -> RefusalAnswer {
        let recent = refusals.recent.into_iter().map(|one| RecentRefusal {
            at_ms: one.at_ms,
            verdict: one.verdict,
            budget: Id(one.budget),
        });
        let verdicts = refusals.verdicts.into_iter();
        let why = refusals.why.into_iter().map(|(reason, count)| {
            let estimate = estimate(count, refusals.auctioned, refusals.surveyed);
            ReasonCount { reason, count, estimate }
        });
        let why: Vec<ReasonCount> = why.collect();
        let top = why.iter().find(|row| row.reason != TARGETING);
        RefusalAnswer {
            verdicts: verdicts.map(|(verdict, count)| VerdictCount { verdict, count }).collect(),
            survey_every: refusals.survey_every,
            auctioned: refusals.auctioned,
            surveyed: refusals.surveyed,
            top_reason: top.map(|row| row.reason.clone()),
            why,
            recent: recent.collect(),
            recent_of: refusals.recent_of,
        }
    }
}

/// Counts what kept a budget from spending.
#[utoipa::path(get, path = "/v1/budgets/{id}/refusals", tag = "budgets",
    params(BudgetName),
    responses((status = 200, description = "Verdicts and reasons with their counts", body = RefusalAnswer)))]
pub(super) async fn refusals(State(app): State<App>, name: Named) -> Result<Response, Problem> {
    app.wait(move |parts| {
        let id = parts.id_of(&name)?;
        let found = parts.node.refusals(id).ok_or_else(|| Problem::no_budget(id))?;
        Ok(json(&RefusalAnswer::from(found)))
    })
    .await?
}
