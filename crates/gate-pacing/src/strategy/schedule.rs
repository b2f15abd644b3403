//! A schedule: what the plan wants by the next tick and is not spent yet may be reserved now. No coin: the first
//! who ask get it.
//!
//! ```text
//!   gap   = T(now + tick) - S                        behind the plan, with the coming tick's share
//!   pull  = min(gap, 8 * one tick's share)           after an outage spend catches up, but does not burst
//!   allow = min(gap / w, max(pull / w, ask_max), left)
//! ```

use super::{Situation, Terms};

/// A tick may spend so many ticks' shares where spend is behind its plan.
const CATCH_UP: i128 = 8;

pub(super) fn terms(situation: &Situation) -> Terms {
    let gap = situation.planned_next - situation.spent;
    let share = (situation.planned_next - situation.planned).max(situation.mean_share).max(1);
    let pull = situation.reservable(gap.min(CATCH_UP * share));
    // A share that is smaller than an ask is of no use to anybody: let it add up to one.
    let one = i64::try_from(situation.ask_max).unwrap_or(i64::MAX);
    Terms { threshold: u64::MAX, allowance: situation.reservable(gap).min(pull.max(one)) }
}
