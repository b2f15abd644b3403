//! A multiplier that is worked out anew from the rest of the window: what is left of the budget for a request
//! that is still to come, through the landscape.
//!
//! ```text
//!   k = (n + 0.02 * N) / (N(t) + 0.02 * N)               how many more requests came than were forecast
//!   b = (S + 0.02 * B) / (predicted + 0.02 * B)          how much more they cost than the landscape said
//!   y = (B - S) / (k * (0.995 * N - N(t))) / b           what a coming request may cost
//!   a = clamp(G^-1(y) * exp(clamp(K' * (T - S) / B, -1, 1)), 0.005, 1)
//!   K' = clamp(m / 5, 2, 5/8 * K)                        m: how many impressions the budget is worth
//! ```
//! Without a forecast or a landscape it is `curve`, with a gain of clamp(m / 5, 4, K).

use super::{Situation, Terms, amount, curve};
use crate::Landscape;
use crate::fixed::{ONE_Q32, ONE_Q62, mul_q32, narrow_u64, quotient};

/// Largest exponent of the pull towards the plan.
const PULL_MAX: u32 = 1;
/// The pull is this part, in eighths, of the feedback of `curve`, because most of the law is in y. Simulated days: with 3 it takes 17
/// minutes to come back from an outage, with 5 it takes 10; with 8 it wins no more than `curve` in a burst.
const GAIN_EIGHTHS: u32 = 5;
/// The pull of the smallest budgets...
const GAIN_MIN: u32 = 2;
/// ...and where it is `curve`.
const CURVE_GAIN_MIN: u32 = 4;
/// Forecasts weigh as much as this part of the whole.
const PRIOR_PART: u64 = 50;
/// A forecast is never believed to be off by more than this factor.
const RATIO_MAX_Q32: u64 = ONE_Q32 << 9;
/// At the end of the window there are still requests to come: this part of all.
const REST_MIN_PART: u64 = 1_024;

pub(super) fn terms(situation: &Situation<'_>) -> Terms {
    let Some(landscape) = &situation.forecast.landscape else { return curve_terms(situation) };
    if situation.forecast.requests == 0 || situation.budget <= 0 {
        return curve_terms(situation);
    }
    let most = (situation.spec.gain * GAIN_EIGHTHS / 8).max(GAIN_MIN);
    let pull = situation.feedback_q32(situation.behind(), situation.gain(GAIN_MIN, most), PULL_MAX);
    let multiplier_q32 = mul_q32(level_q32(situation, landscape), pull);
    Terms { coin_q32: ONE_Q32, multiplier_q32, reserve: Some(situation.hour) }
}

fn curve_terms(situation: &Situation<'_>) -> Terms {
    curve::terms(situation, situation.gain(CURVE_GAIN_MIN, situation.spec.gain))
}

/// The multiplier that spends what is left on the requests that are left.
fn level_q32(situation: &Situation<'_>, landscape: &Landscape) -> u64 {
    let requests = situation.forecast.requests;
    let share =
        |q62: u64| narrow_u64(((u128::from(requests) * u128::from(q62)) >> 62).cast_signed());
    let arrived = share(situation.arrived_q62);
    let wanted = share(ONE_Q62 / 1_000 * 995);
    let rest = wanted.saturating_sub(arrived).max(requests / REST_MIN_PART).max(1);
    let more = over_forecast_q32(situation.counters.seen, arrived, requests);
    let budget = amount(situation.budget);
    let dearer = over_forecast_q32(
        amount(situation.spent),
        amount(situation.counters.predicted.get()),
        budget,
    );
    // In Q8, so that a handful of requests is still divided finely.
    let coming_q8 = mul_q32(mul_q32(rest.saturating_mul(256), more), dearer).max(1);
    let left = budget.saturating_sub(amount(situation.spent));
    let spend_q16 = (u128::from(left) << 24) / u128::from(coming_q8);
    landscape.multiplier_for(narrow_u64(spend_q16.cast_signed()))
}

/// How much more there is than was forecast, in Q32: near one while there is little of either.
fn over_forecast_q32(found: u64, forecast: u64, whole: u64) -> u64 {
    let prior = whole / PRIOR_PART + 1;
    let (found, forecast) = (found.saturating_add(prior), forecast.saturating_add(prior));
    quotient(u128::from(found) << 32, forecast).clamp(1, RATIO_MAX_Q32)
}
