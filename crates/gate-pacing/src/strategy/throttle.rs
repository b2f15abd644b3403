//! Throttle: a coin decides which requests take part.
//!
//! ```text
//!   q0 = what the plan wants per second / (w * what is asked per second)      feed-forward
//!   q  = clamp(q0 * exp(clamp(K * (T - S) / B, -6, 6)), 1e-6, 1),   K = 64    feed-back
//! ```
//! The feed-back is entropic mirror descent on the budget's dual in its lazy form: the multiplicative steps telescope
//! to the spend so far, so there is no controller state to keep (and no wind-up: the clamp is at evaluation).
//! A rail bounds it: spend never runs ahead of its plan by more than 1/32 of the budget.

use super::{Situation, Terms};
use crate::fixed::{ONE_Q32, exp_q32, narrow_i64, narrow_u64};

/// Gain: a deviation of 1/64 of the budget changes the coin by a factor of e. 16 is loose, 256 is strict.
const GAIN: i128 = 64;
/// Largest exponent either way.
const EXPONENT_MAX: i128 = 6 << 32;
/// While nobody is known to ask, one request in 64 takes part: a first guess that a tick corrects.
const UNKNOWN_Q32: i128 = (ONE_Q32 / 64) as i128;
/// The coin never falls below about a millionth, so that there is always something to learn from.
const COIN_MIN_Q32: u64 = ONE_Q32 / 1_000_000;
/// Feed-forward is kept within 2^16 of one, so that the feed-back always has a say.
const FORWARD_MAX_Q32: i128 = (ONE_Q32 as i128) << 16;
/// How far spend may run ahead of its plan: this part of the budget.
const RAIL_PART: i128 = 32;

pub(super) fn terms(situation: &Situation) -> Terms {
    let ahead_max = situation.budget / RAIL_PART;
    let allowance = situation.reservable(situation.planned_next + ahead_max - situation.spent);
    Terms { threshold: threshold(coin_q32(situation)), allowance }
}

/// The probability with which a request takes part.
fn coin_q32(situation: &Situation) -> u64 {
    let behind = situation.planned - situation.spent;
    let exponent = ((GAIN * behind) << 32) / situation.budget.max(1);
    let factor = exp_q32(narrow_i64(exponent.clamp(-EXPONENT_MAX, EXPONENT_MAX)));
    // Below 2^48 * 2^41.
    let coin = (forward_q32(situation) * i128::from(factor)) >> 32;
    narrow_u64(coin).clamp(COIN_MIN_Q32, ONE_Q32)
}

/// The part of the present demand that the plan wants: its share of spend over what would be spent if all took part.
fn forward_q32(situation: &Situation) -> i128 {
    if situation.asked <= 0 || situation.asked_ms <= 0 {
        return UNKNOWN_Q32;
    }
    let share = (situation.planned_next - situation.planned).max(1);
    // What all asks of a tick would spend; 2^63 * 2^32 at most before the tick's length comes in.
    let demand = (situation.asked * i128::from(situation.paid_share_q32)) >> 32;
    let demand = (demand * situation.tick_ms / situation.asked_ms).max(1);
    ((share << 32) / demand).clamp(1, FORWARD_MAX_Q32)
}

/// A probability as the largest hash that takes part.
fn threshold(coin_q32: u64) -> u64 {
    if coin_q32 >= ONE_Q32 { u64::MAX } else { coin_q32 << 32 }
}
