//! What became of a budget: minute by minute, and why asks were refused.

use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;

use super::answer::Base;
use super::budgets::json;
use super::extract::{Number, Params};
use super::types::HistoryParams;
use super::{App, Parts};
use crate::history::{Counts, QueryError, Series};
use crate::node::Refusals;
use crate::problem::{Kind, Problem};

const MINUTE_MS: u64 = 60_000;
const DAY_MS: u64 = 24 * 60 * MINUTE_MS;
/// The latest time there is, as of `money::Instant`.
const TIME_MAX_MS: u64 = 253_402_041_600_000;
/// About so many points where the caller does not say how long a step is.
const POINTS: u64 = 720;

/// Columns of equal length, one entry a step. A step of which nothing is recorded is null in all.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct HistoryAnswer {
    step_ms: u64,
    /// Where the first step begins.
    from_ms: u64,
    /// Nothing older is kept.
    kept_from_ms: u64,
    /// Where each step ends.
    t_ms: Vec<u64>,
    /// Spent in the pacing window by then; null where nothing happened in the step, too.
    spent: Vec<Option<Base>>,
    /// What the plan would have spent by then.
    planned: Vec<Option<Base>>,
    /// Counts of the step.
    asks: Vec<Option<u64>>,
    grants: Vec<Option<u64>>,
    wins: Vec<Option<u64>>,
    refusals: Vec<Option<u64>>,
    /// The slowest minute of the step: 99 of 100 answers took at most so long.
    latency_p99_us: Vec<Option<u32>>,
}

impl HistoryAnswer {
    fn new(series: &Series, from: u64) -> HistoryAnswer {
        let ms = |minute: u64| minute.saturating_mul(MINUTE_MS);
        let points = &series.points;
        let count =
            |pick: fn(&Counts) -> u64| points.iter().map(|p| p.counts.as_ref().map(pick)).collect();
        let base = |amount: Option<i64>| amount.map(|amount| Base(amount.into()));
        HistoryAnswer {
            step_ms: ms(series.step),
            from_ms: ms(points.first().map_or(from, |point| point.minute)),
            kept_from_ms: ms(series.kept_from),
            t_ms: points.iter().map(|point| ms(point.minute.saturating_add(series.step))).collect(),
            spent: points.iter().map(|point| base(point.spent)).collect(),
            planned: points.iter().map(|point| base(point.planned)).collect(),
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
        if view.row(id).is_none() && self.node.fields(id).is_none() {
            return Err(Problem::no_budget(id));
        }
        let (from, to, step) = minutes(params, view.as_of_ms)?;
        let series = self.history.query(id, from, to, step).map_err(|error| match error {
            QueryError::Points { .. } => {
                Problem::malformed("step_ms", &error.to_string(), "fewer points")
            }
            error => Problem::new(Kind::Internal, error.to_string()),
        })?;
        Ok(json(&HistoryAnswer::new(&series, from)))
    }
}

/// Shows what a budget spent, and was asked for, step by step.
#[utoipa::path(get, path = "/v1/budgets/{id}/history", tag = "budgets",
    params(("id" = String, Path, description = "The budget", pattern = "^(0|[1-9][0-9]{0,19})$", example = "17"),
        HistoryParams),
    responses((status = 200, description = "Its history, as columns", body = HistoryAnswer)))]
pub(super) async fn history(
    State(app): State<App>,
    Number(id): Number,
    Params(params): Params<HistoryParams>,
) -> Result<Response, Problem> {
    app.wait(move |parts| parts.history(id, &params)).await?
}

/// Why asks of a budget were refused, or why its campaign did not bid.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RefusalAnswer {
    /// Counts since the start of the run, most first.
    verdicts: Vec<VerdictCount>,
    /// One impression in so many is surveyed for `why`; 0: none.
    survey_every: u64,
    /// Impressions surveyed.
    surveyed: u64,
    /// Why the campaign did not bid, surveyed, most first.
    why: Vec<ReasonCount>,
    /// The last refusals that were noted, newest first.
    recent: Vec<RecentRefusal>,
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
    count: u64,
}

/// One refusal.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RecentRefusal {
    at_ms: u64,
    /// The verdict, or the reason of an auction.
    #[schema(example = "paced")]
    verdict: String,
    /// What was asked for, base units; empty where nobody knows.
    #[schema(pattern = "^(-?[0-9]{1,20})?$", example = "2100")]
    amount: String,
}

impl From<Refusals> for RefusalAnswer {
    fn from(refusals: Refusals) -> RefusalAnswer {
        let recent = refusals.recent.into_iter().map(|one| RecentRefusal {
            at_ms: one.at_ms,
            verdict: one.verdict,
            amount: one.amount,
        });
        let verdicts = refusals.verdicts.into_iter();
        let why = refusals.why.into_iter();
        RefusalAnswer {
            verdicts: verdicts.map(|(verdict, count)| VerdictCount { verdict, count }).collect(),
            survey_every: refusals.survey_every,
            surveyed: refusals.surveyed,
            why: why.map(|(reason, count)| ReasonCount { reason, count }).collect(),
            recent: recent.collect(),
        }
    }
}

/// Counts what kept a budget from spending.
#[utoipa::path(get, path = "/v1/budgets/{id}/refusals", tag = "budgets",
    params(("id" = String, Path, description = "The budget", pattern = "^(0|[1-9][0-9]{0,19})$", example = "17")),
    responses((status = 200, description = "Verdicts and reasons with their counts", body = RefusalAnswer)))]
pub(super) async fn refusals(
    State(app): State<App>,
    Number(id): Number,
) -> Result<Response, Problem> {
    let found = app.wait(move |parts| parts.node.refusals(id)).await?;
    Ok(json(&RefusalAnswer::from(found.ok_or_else(|| Problem::no_budget(id))?)))
}
