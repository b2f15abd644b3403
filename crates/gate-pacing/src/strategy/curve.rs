//! A multiplier of bids that keeps spend on the plan.
//!
//! ```text
//!   a0 = yesterday's mean multiplier, or G^-1(B / (0.995 * N)), or 0.4
//!   a  = clamp(a0 * exp(clamp(K * (T - S) / B, -4, 4)), 0.005, 1)
//! ```

use super::{EXPONENT_MAX, MULTIPLIER_MIN_Q32, Situation, Terms};
use crate::Forecast;
use crate::fixed::{ONE_Q32, mul_q32, narrow_u64};

/// The multiplier to start from while nothing is known: 0.4.
const UNKNOWN_Q32: u64 = ONE_Q32 / 5 * 2;

pub(super) fn terms(situation: &Situation<'_>, gain: u32) -> Terms {
    let feedback = situation.feedback_q32(situation.behind(), gain, EXPONENT_MAX);
    let multiplier_q32 = mul_q32(situation.start_q32.unwrap_or(UNKNOWN_Q32), feedback);
    Terms { coin_q32: ONE_Q32, multiplier_q32, reserve: Some(situation.hour) }
}

/// The multiplier that spends the budget by the end of its window: a0.
pub(super) fn start_q32(budget: u64, forecast: &Forecast) -> Option<u64> {
    let by_landscape = || {
        let landscape = forecast.landscape.as_ref()?;
        let requests = u128::from(forecast.requests) * 995 / 1_000;
        let spend_q16 = (u128::from(budget) << 16).checked_div(requests)?;
        Some(landscape.multiplier_for(narrow_u64(spend_q16.cast_signed())))
    };
    let multiplier = forecast.multiplier_q32.or_else(by_landscape)?;
    Some(multiplier.clamp(MULTIPLIER_MIN_Q32, ONE_Q32))
}
