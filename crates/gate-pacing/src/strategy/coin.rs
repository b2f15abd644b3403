//! A coin decides which requests take part.
//!
//! ```text
//!   q0 = B / (0.995 * N * G(1))                                           the part of all requests that B can buy
//!   q  = clamp(q0 * exp(clamp(K * (T - S) / B, -6, 6)), 1e-4, 1)
//! ```
//! Without a landscape a request is taken to cost what the largest ask will probably cost; without a forecast
//! there are as many requests as there were of late.

use super::{Situation, Terms, amount};
use crate::Forecast;
use crate::fixed::{ONE_Q32, mul_q32, narrow_u64};

/// Largest exponent either way.
const EXPONENT_MAX: u32 = 6;
/// The coin never falls below a ten-thousandth, so that there is always something to learn from.
const COIN_MIN_Q32: u64 = ONE_Q32 / 10_000;
/// While nothing at all is known, one request in 64 takes part: a first guess that a tick corrects.
const UNKNOWN_Q32: u64 = ONE_Q32 / 64;
/// The first guess is kept within 2^16 of one, so that the feedback always has a say.
const FORWARD_MIN_Q32: u64 = ONE_Q32 >> 16;
const FORWARD_MAX_Q32: u64 = ONE_Q32 << 16;

pub(super) fn terms(situation: &Situation<'_>) -> Terms {
    let feedback = situation.feedback_q32(situation.behind(), situation.spec.gain, EXPONENT_MAX);
    let coin_q32 = mul_q32(forward_q32(situation), feedback).clamp(COIN_MIN_Q32, ONE_Q32);
    Terms { coin_q32, multiplier_q32: ONE_Q32, reserve: Some(situation.hour) }
}

/// The part of requests that the budget can buy, by forecast and landscape: q0.
pub(super) fn start_q32(budget: u64, forecast: &Forecast) -> Option<u64> {
    let landscape = forecast.landscape.as_ref().filter(|_| forecast.requests > 0)?;
    Some(bought_q32(budget, forecast.requests, landscape.at(ONE_Q32)))
}

/// The same, by whatever is known.
fn forward_q32(situation: &Situation<'_>) -> u64 {
    if let Some(start) = situation.start_q32 {
        return start;
    }
    let forecast = situation.forecast;
    let per_request_q16 = match &forecast.landscape {
        Some(landscape) => landscape.at(ONE_Q32),
        None => ask_cost_q16(situation),
    };
    if forecast.requests > 0 {
        return bought_q32(amount(situation.budget), forecast.requests, per_request_q16);
    }
    let demand = &situation.counters.demand;
    // What the plan wants in a tick over what all who came in one would cost; below 2^64 * 2^64.
    let cost_q16 = u128::from(demand.seen) * u128::from(per_request_q16);
    let tick_ms = u128::from(situation.tick_ms);
    let cost_q16 = cost_q16.saturating_mul(tick_ms).checked_div(u128::from(demand.ms));
    part_q32(amount(situation.planned_next - situation.planned), cost_q16.unwrap_or(0))
}

fn bought_q32(budget: u64, requests: u64, per_request_q16: u64) -> u64 {
    let requests = u128::from(requests) * 995 / 1_000;
    part_q32(budget, requests * u128::from(per_request_q16))
}

/// What the largest ask will probably cost, Q16.
fn ask_cost_q16(situation: &Situation<'_>) -> u64 {
    let ask = u128::from(amount(situation.counters.ask_max.get()));
    narrow_u64(((ask * u128::from(situation.paid_share_q32)) >> 16).cast_signed())
}

/// An amount over a cost in Q16; a guess where that is nothing.
fn part_q32(amount: u64, cost_q16: u128) -> u64 {
    match (u128::from(amount) << 48).checked_div(cost_q16) {
        Some(part) => narrow_u64(part.cast_signed()).clamp(FORWARD_MIN_Q32, FORWARD_MAX_Q32),
        None => UNKNOWN_Q32,
    }
}
