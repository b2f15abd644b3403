//! Strategies: what to let through until the next tick. One file each.

mod asap;
mod coin;
mod curve;
mod schedule;
mod steer;

use crate::fixed::{Divisor, ONE_Q32, exp_q32, narrow_i64};
use crate::{Counters, Forecast, PlanSpec};

/// Multipliers never fall below this, so that there is always something to learn from: 0.005 in Q32.
const MULTIPLIER_MIN_Q32: u64 = ONE_Q32 / 200;
/// Largest exponent of a multiplier's feedback, either way.
const EXPONENT_MAX: u32 = 4;
/// An impression moves the bid by the gain over how many of them the budget is worth, in e-folds: by one part of so many at most.
const GAIN_PART: u64 = 5;
/// Every worker may reserve so many of the largest asks a tick, whatever its part of a small allowance is.
const ASKS_MIN: i64 = 4;

/// What slows a budget's spend down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Strategy {
    /// Nothing: as soon as possible, only the ledger's limits hold.
    #[default]
    Asap,
    /// On while spend is not ahead of the plan, off while it is.
    Schedule,
    /// A coin with a probability that keeps spend on the plan: requests of all kinds keep taking part.
    Coin,
    /// A multiplier of bids that keeps spend on the plan: it buys where that is cheapest. The choice for
    /// auctions.
    Curve,
    /// `Steer` where a landscape and a forecast are known, else `Curve`.
    Auto,
    /// As `Curve`, with what forecast and landscape say of the rest of the window: for bursts and tiny
    /// budgets.
    Steer,
}

/// A text that names no strategy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "pacing {found:?}: expected \"asap\", \"schedule\", \"coin\", \"curve\", \"steer\" or \"auto\""
)]
pub struct ParseStrategyError {
    /// The text that was found, at most its first 32 characters.
    pub found: String,
}

impl Strategy {
    /// All of them.
    pub const ALL: [Strategy; 6] = [
        Strategy::Asap,
        Strategy::Schedule,
        Strategy::Coin,
        Strategy::Curve,
        Strategy::Steer,
        Strategy::Auto,
    ];

    /// Reads a name as it stands in a file of budgets.
    ///
    /// # Errors
    /// [`ParseStrategyError`] with the names there are.
    pub fn parse(text: &str) -> Result<Strategy, ParseStrategyError> {
        let named = Strategy::ALL.into_iter().find(|strategy| strategy.name() == text);
        named.ok_or_else(|| ParseStrategyError { found: text.chars().take(32).collect() })
    }

    /// Its name in a file of budgets.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Strategy::Asap => "asap",
            Strategy::Schedule => "schedule",
            Strategy::Coin => "coin",
            Strategy::Curve => "curve",
            Strategy::Steer => "steer",
            Strategy::Auto => "auto",
        }
    }

    /// Does it look at what forecast and landscape say of the rest of the window?
    #[must_use]
    pub const fn steers(self) -> bool {
        matches!(self, Strategy::Steer | Strategy::Auto)
    }

    /// Does it follow a plan through time, and so need a beginning and an end?
    #[must_use]
    pub const fn follows_time(self) -> bool {
        !matches!(self, Strategy::Asap)
    }

    /// Does it look at the coming tick, and at what reserving costs?
    pub(crate) const fn asks_of_next_tick(self) -> bool {
        matches!(self, Strategy::Schedule | Strategy::Coin)
    }
}

impl std::fmt::Display for Strategy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl std::str::FromStr for Strategy {
    type Err = ParseStrategyError;
    fn from_str(text: &str) -> Result<Strategy, ParseStrategyError> {
        Strategy::parse(text)
    }
}

/// Where a budget stands at a tick: all that a strategy may look at. Amounts are base units of the budget.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Situation<'a> {
    /// What the window of the plan may spend: B.
    pub(crate) budget: i64,
    /// What of it the plan wants spent by now: T(now), 0 to B.
    pub(crate) planned: i64,
    /// What of it the plan wants spent by the next tick; for who asks.
    pub(crate) planned_next: i64,
    /// What is spent, with what will be spent of holds: S.
    pub(crate) spent: i64,
    /// The amount that may still be reserved, by every limit.
    pub(crate) left: i64,
    /// Divides by B.
    pub(crate) by_budget: Divisor,
    /// What the forecast says to start from: a0 or q0. `None` where it says nothing.
    pub(crate) start_q32: Option<u64>,
    /// Paid per reserved: w, in Q32, above 0; for who asks.
    pub(crate) paid_share_q32: u64,
    /// What an hour spends on average: the rail of whoever does not need a closer one.
    pub(crate) hour: i64,
    /// The share of requests that should have come by now: N(t) / N.
    pub(crate) arrived_q62: u64,
    /// Length of the window.
    pub(crate) window_ms: u64,
    /// Until the next tick.
    pub(crate) tick_ms: u64,
    pub(crate) spec: &'a PlanSpec,
    pub(crate) counters: &'a Counters,
    pub(crate) forecast: &'a Forecast,
}

/// What all workers together may let through until the next tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    /// The part of requests that take part.
    pub(crate) coin_q32: u64,
    /// What bids are multiplied by.
    pub(crate) multiplier_q32: u64,
    /// What all workers together may reserve until the next tick, before the law can look again. `None`: as
    /// much as the ledger lets.
    pub(crate) reserve: Option<i64>,
}

/// What a forecast says to start from, Q32: a0 or q0. `None` where it says nothing.
pub(crate) fn start_q32(strategy: Strategy, budget: u64, forecast: &Forecast) -> Option<u64> {
    match strategy {
        Strategy::Asap | Strategy::Schedule => None,
        Strategy::Coin => coin::start_q32(budget, forecast),
        Strategy::Curve | Strategy::Steer | Strategy::Auto => curve::start_q32(budget, forecast),
    }
}

impl Situation<'_> {
    /// The terms of a strategy: the one place where strategies are told apart.
    pub(crate) fn terms(&self, strategy: Strategy) -> Terms {
        match strategy {
            Strategy::Asap => asap::terms(),
            Strategy::Schedule => schedule::terms(self),
            Strategy::Coin => coin::terms(self),
            Strategy::Curve => curve::terms(self, self.spec.gain),
            Strategy::Steer | Strategy::Auto => steer::terms(self),
        }
    }

    /// What each worker may reserve. The allowance is a rail, not the law: it bounds what one tick can do
    /// wrong. So the parts of the workers are never smaller than some asks, and how many workers there are
    /// changes no answer as long as no part is used up.
    pub(crate) fn allowance(&self, reserve: Option<i64>, workers: u32) -> i64 {
        let Some(reserve) = reserve else { return i64::MAX };
        if reserve <= 0 {
            return 0;
        }
        let part = reserve / i64::from(workers.max(1));
        let asks = match self.counters.ask_max.get() {
            // Nobody knows how large an ask is: what is behind the plan adds up until one passes.
            ..=0 => self.behind(),
            ask_max => ask_max.saturating_mul(ASKS_MIN),
        };
        part.max(asks).min(self.left)
    }

    /// The amount that may be reserved so that about `spend` of it will be paid in the end.
    fn reservable(&self, spend: i64) -> i64 {
        narrow_i64((i128::from(spend.max(0)) << 32) / i128::from(self.paid_share_q32.max(1)))
    }

    /// A multiplier under the other rules of the plan: the smallest of them holds.
    pub(crate) fn bounded(&self, multiplier_q32: u64) -> u64 {
        let landscape = self.forecast.landscape.as_deref().filter(|_| self.spec.shade);
        let shade = landscape.map_or(ONE_Q32, crate::Landscape::shade_q32);
        let roi = self.spec.roi_micros.map_or(ONE_Q32, |wanted| self.roi_q32(wanted));
        multiplier_q32.min(roi).min(shade).clamp(MULTIPLIER_MIN_Q32, ONE_Q32)
    }

    /// The same law with what the value won may cost as its plan.
    fn roi_q32(&self, wanted_micros: i64) -> u64 {
        let value = i128::from(self.counters.value.get()) * 1_000_000;
        let may_cost = narrow_i64(value / i128::from(wanted_micros.max(1)));
        self.feedback_q32(may_cost.saturating_sub(self.spent), self.spec.gain, EXPONENT_MAX)
    }

    /// How hard the plan pulls: K, and less where the budget is worth so few impressions that each moved the bid by more than a fifth
    /// of an e-fold. Such a budget would answer every win with another bid.
    fn gain(&self, least: u32, most: u32) -> u32 {
        let worth = self.counters.bought.worth(self.budget);
        let gain = worth.and_then(|worth| u32::try_from(worth / GAIN_PART).ok());
        gain.map_or(most, |gain| gain.max(least).min(most))
    }

    /// T - S.
    fn behind(&self) -> i64 {
        self.planned.saturating_sub(self.spent)
    }

    /// exp(K * (T - S) / B), the exponent within `-max..=max`.
    ///
    /// It is entropic mirror descent on the budget's dual variable in its lazy form: the multiplicative steps
    /// telescope to the spend so far. So there is no controller state to keep, and no wind-up: the clamp is
    /// at evaluation.
    fn feedback_q32(&self, behind: i64, gain: u32, max: u32) -> u64 {
        exp_q32(self.by_budget.ratio_q32(behind, gain, max))
    }
}

/// What is below nothing counts as nothing.
fn amount(base_units: i64) -> u64 {
    base_units.max(0).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_printed() {
        for strategy in Strategy::ALL {
            assert_eq!(Strategy::parse(&strategy.to_string()), Ok(strategy));
        }
        let error = Strategy::parse("Even").unwrap_err().to_string();
        assert_eq!(
            error,
            "pacing \"Even\": expected \"asap\", \"schedule\", \"coin\", \"curve\", \"steer\" or \"auto\""
        );
        assert!(Strategy::parse(&"x".repeat(1_000)).unwrap_err().to_string().len() < 120);
    }
}
