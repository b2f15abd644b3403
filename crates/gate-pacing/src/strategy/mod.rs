//! Strategies: what to let through until the next tick. One file each.

mod asap;
mod even;
mod schedule;
mod throttle;
mod traffic;

use crate::fixed::{ONE_Q32, narrow_i64};

/// How a plan spends. More will come; see the crate's page for their place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Strategy {
    /// As soon as possible: only the ledger's limits hold.
    #[default]
    Asap,
    /// A straight line over the day where there is a daily limit, else over the flight.
    Even,
    /// As `Even`, along an hourly curve of traffic.
    Traffic,
    /// A coin with a probability that keeps spend on the plan: requests of all kinds keep taking part.
    Throttle,
}

/// A text that names no strategy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("plan {found:?}: expected \"asap\", \"even\", \"traffic\" or \"throttle\"")]
pub struct ParseStrategyError {
    /// What was found, at most the first 32 characters of it.
    pub found: String,
}

impl Strategy {
    /// All of them.
    pub const ALL: [Strategy; 4] =
        [Strategy::Asap, Strategy::Even, Strategy::Traffic, Strategy::Throttle];

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
            Strategy::Even => "even",
            Strategy::Traffic => "traffic",
            Strategy::Throttle => "throttle",
        }
    }

    /// Does it follow a plan through time, and so need a beginning and an end?
    #[must_use]
    pub const fn follows_time(self) -> bool {
        !matches!(self, Strategy::Asap)
    }

    /// Does it follow a curve of traffic even where none is given?
    pub(crate) const fn wants_curve(self) -> bool {
        matches!(self, Strategy::Traffic)
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

/// Where a budget stands at a tick: all that a strategy may look at. Amounts are base units of the budget, wide
/// enough that nothing overflows in between.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Situation {
    /// What the window of the plan may spend: B.
    pub(crate) budget: i128,
    /// What of it the plan wants spent by now: T(now), 0 to B.
    pub(crate) planned: i128,
    /// What of it the plan wants spent by the next tick.
    pub(crate) planned_next: i128,
    /// A tick's share of B if it were spread evenly over the window.
    pub(crate) mean_share: i128,
    /// What is spent, with what will be spent of open holds: S.
    pub(crate) spent: i128,
    /// What may still be reserved, by every limit.
    pub(crate) left: i128,
    /// Paid per reserved: w, in Q32, above 0.
    pub(crate) paid_share_q32: u64,
    /// Largest ask of late, 0 if unknown.
    pub(crate) ask_max: i128,
    /// Sum of asks of late...
    pub(crate) asked: i128,
    /// ...in this time.
    pub(crate) asked_ms: i128,
    /// Until the next tick.
    pub(crate) tick_ms: i128,
}

/// What all workers together may let through until the next tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    /// Requests whose hash is at most this take part.
    pub(crate) threshold: u64,
    /// How much may be reserved.
    pub(crate) allowance: i64,
}

impl Situation {
    /// The terms of a strategy: the one place where strategies are told apart.
    pub(crate) fn terms(&self, strategy: Strategy) -> Terms {
        match strategy {
            Strategy::Asap => asap::terms(self),
            Strategy::Even => even::terms(self),
            Strategy::Traffic => traffic::terms(self),
            Strategy::Throttle => throttle::terms(self),
        }
    }

    /// What may be reserved so that about `spend` of it will be paid in the end: at most what is left.
    fn reservable(&self, spend: i128) -> i64 {
        let reserved = (spend.max(0) << 32) / i128::from(self.paid_share_q32.clamp(1, ONE_Q32));
        narrow_i64(reserved.min(self.left).max(0))
    }
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
            "plan \"Even\": expected \"asap\", \"even\", \"traffic\" or \"throttle\""
        );
        assert!(Strategy::parse(&"x".repeat(1_000)).unwrap_err().to_string().len() < 120);
    }
}
