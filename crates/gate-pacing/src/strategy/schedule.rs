//! A schedule: on while spend is not ahead of what the plan wants by the next tick, off while it is. No coin:
//! the first who ask get it.
//!
//! ```text
//!   on    = S <= T(now + tick)
//!   allow = 8 * one tick's share / w         so it is ahead by 8 ticks at most, and some asks of each worker
//! ```

use super::{Situation, Terms};
use crate::fixed::{ONE_Q32, narrow_i64};

/// A tick may spend so many ticks' shares.
const BURST_TICKS: i64 = 8;

pub(super) fn terms(situation: &Situation<'_>) -> Terms {
    let on = situation.spent <= situation.planned_next && situation.budget > 0;
    let spend = if on { tick_share(situation).saturating_mul(BURST_TICKS) } else { 0 };
    let reserve = Some(situation.reservable(spend));
    Terms { coin_q32: ONE_Q32, multiplier_q32: ONE_Q32, reserve }
}

/// What the plan spends until the next tick, or on average.
fn tick_share(situation: &Situation<'_>) -> i64 {
    // Below 2^63 * 2^14.
    let all = i128::from(situation.budget) * i128::from(situation.tick_ms);
    let mean = narrow_i64(all / i128::from(situation.window_ms.max(1)));
    (situation.planned_next - situation.planned).max(mean).max(1)
}
