//! The slow half: from where a budget stands to what its workers may let through until the next tick.

use money::{Amount, Instant, Window, Zone, day_at};

use crate::fixed::{ONE_Q62, narrow_i64, share_q62};
use crate::pace::{Pace, salt};
use crate::strategy::Situation;
use crate::{Counters, Curve, Spend, Strategy};

/// Longest flight that a plan can follow: 100 years of 365.25 days.
pub const FLIGHT_MS_MAX: u64 = 36_525 * 24 * 3_600 * 1_000;
/// A plan is ahead of time by this part, so that everything is spent when 199 / 200 = 99.5 % of its window are over:
/// what is reserved last has to come back and be spent again.
const FINISH_EARLY_PART: u64 = 199;
/// Longest time between ticks; a longer one is cut, so that a clock that jumped does not allow a day's spend.
const TICK_MS_MAX: u64 = 10_000;

/// How a budget is to be spent: configuration, nothing that changes by spending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    strategy: Strategy,
    salt: u64,
    flight: Window,
    zone: Zone,
    curve: Option<Curve>,
}

/// Why a budget cannot have this plan. What to do is in the message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// It follows time, but nothing says from when.
    #[error(
        "plan {strategy}: the budget has no start, expected `start` and `end` to spread the limit over, or \
         `daily` to spread over each day; or use the plan asap"
    )]
    NoStart {
        /// The plan.
        strategy: Strategy,
    },
    /// It follows time, but nothing says until when.
    #[error(
        "plan {strategy}: the budget has no end, expected `start` and `end` to spread the limit over, or \
         `daily` to spread over each day; or use the plan asap"
    )]
    NoEnd {
        /// The plan.
        strategy: Strategy,
    },
    /// The flight is longer than [`FLIGHT_MS_MAX`].
    #[error(
        "plan {strategy}: the flight is {days} days long, expected at most 36,525; or give `daily`"
    )]
    TooLong {
        /// The plan.
        strategy: Strategy,
        /// Length of the flight in days of 24 hours.
        days: u64,
    },
    /// There is a curve where none is followed.
    #[error(
        "plan {strategy}: a curve is given but this plan follows none; use the plan traffic or throttle"
    )]
    CurveUnused {
        /// The plan.
        strategy: Strategy,
    },
}

/// Where a budget stands on its plan, for reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The window of the plan: the day where there is a daily limit, else the flight.
    pub window: Window,
    /// What may be spent in it.
    pub budget: Amount,
    /// What the plan wants spent by now.
    pub planned: Amount,
    /// What is spent, with what will probably be spent of open holds.
    pub spent: Amount,
    /// The pace index, spent over planned, in millionths; `None` while nothing is planned.
    pub index_ppm: Option<u64>,
}

impl Plan {
    /// A plan for a budget. `daily` says whether it has a daily limit. `start` and `end` that are not given are the
    /// ends of [`Window::ALWAYS`]. Without a curve, `traffic` follows [`Curve::default`] and `throttle` a straight
    /// line.
    ///
    /// # Errors
    /// [`PlanError`]: a plan that follows time needs a daily limit or a flight with both ends.
    pub fn new(
        budget_id: u64,
        strategy: Strategy,
        flight: Window,
        daily: bool,
        zone: Zone,
        curve: Option<Curve>,
    ) -> Result<Plan, PlanError> {
        if strategy.follows_time() && !daily {
            check_flight(strategy, flight)?;
        }
        if curve.is_some() && !matches!(strategy, Strategy::Traffic | Strategy::Throttle) {
            return Err(PlanError::CurveUnused { strategy });
        }
        let curve = curve.or_else(|| strategy.wants_curve().then(Curve::default));
        Ok(Plan { strategy, salt: salt(budget_id), flight, zone, curve })
    }

    /// How it spends.
    #[must_use]
    pub fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// What each of `workers` workers may let through from `now` until the next tick in `tick_ms`: a pure function.
    ///
    /// Outside the flight nothing. Ask for the ledger's own state first where the reason of a refusal matters: it
    /// knows *not started* from *ended*. Where the day of the counters is over at `now`, nothing counts as spent in
    /// the new one; where it has not begun (a clock went back), nothing is let through.
    #[must_use]
    pub fn parameters(
        &self,
        counters: &Counters,
        now: Instant,
        tick_ms: u64,
        workers: u32,
    ) -> Pace {
        let counters = &self.of_today(*counters, now);
        let window = self.window(counters);
        if !window.contains(now) {
            return Pace::CLOSED;
        }
        let situation = self.situation(&window, counters, now, tick_ms.clamp(1, TICK_MS_MAX));
        let terms = situation.terms(self.strategy);
        let allowance = share_among(terms.allowance, workers, situation.ask_max);
        Pace::new(terms.threshold, self.salt, allowance)
    }

    /// Where the budget stands.
    #[must_use]
    pub fn progress(&self, counters: &Counters, now: Instant) -> Progress {
        let counters = &self.of_today(*counters, now);
        let window = self.window(counters);
        let situation = self.situation(&window, counters, now, 1);
        let amount = |wide: i128| Amount::new(narrow_i64(wide));
        let index = (situation.spent.max(0) * 1_000_000).checked_div(situation.planned);
        Progress {
            window,
            budget: amount(situation.budget),
            planned: amount(situation.planned),
            spent: amount(situation.spent),
            index_ppm: index.and_then(|index| u64::try_from(index).ok()),
        }
    }

    /// The counters with the day of `now`, if they are of an earlier one that nobody ended yet.
    fn of_today(&self, counters: Counters, now: Instant) -> Counters {
        if counters.day_limit.is_none() || now < counters.day.end {
            return counters;
        }
        Counters { day: day_at(now, &self.zone), today: Spend::default(), ..counters }
    }

    /// The window that the plan spreads its budget over.
    fn window(&self, counters: &Counters) -> Window {
        match counters.day_limit {
            Some(_) => counters.day.intersect(&self.flight),
            None => self.flight,
        }
    }

    fn situation(
        &self,
        window: &Window,
        counters: &Counters,
        now: Instant,
        tick_ms: u64,
    ) -> Situation {
        let limit = i128::from(counters.limit.get());
        let life_left = limit - counters.life.exposed();
        let (spend, budget, left) = match counters.day_limit {
            None => (&counters.life, limit, life_left),
            Some(day_limit) => {
                let day_limit = i128::from(day_limit.get());
                // What earlier days left of the limit, of which the day may have its own limit.
                let start_left = life_left + counters.today.exposed();
                let day_left = day_limit - counters.today.exposed();
                (&counters.today, day_limit.min(start_left), life_left.min(day_left))
            }
        };
        let budget = budget.max(0);
        let paid_share_q32 = counters.paid_share_q32(budget);
        let open = i128::from(spend.open.get().max(0));
        let next = now.plus_ms(tick_ms).unwrap_or(Instant::MAX);
        let [planned, planned_next] = self.planned(window, budget, [now, next]);
        Situation {
            budget,
            planned,
            planned_next,
            mean_share: budget * i128::from(tick_ms) / i128::from(window.len_ms().max(1)),
            spent: spend.certain() + ((open * i128::from(paid_share_q32)) >> 32),
            left: left.max(0),
            paid_share_q32,
            ask_max: i128::from(counters.ask_max.get().max(0)),
            asked: i128::from(counters.demand.asked.get()),
            asked_ms: i128::from(counters.demand.ms),
            tick_ms: i128::from(tick_ms),
        }
    }

    /// What the plan wants spent by two instants: T = B * min(1, P / 0.995).
    fn planned(&self, window: &Window, budget: i128, at: [Instant; 2]) -> [i128; 2] {
        let shares = match &self.curve {
            Some(curve) => curve.shares_q62(window, at, &self.zone),
            None => at.map(|at| share_q62(window.elapsed_ms(at), window.len_ms())),
        };
        shares.map(|share| {
            let ahead = (share + share / FINISH_EARLY_PART).min(ONE_Q62);
            // Below 2^63 * 2^62.
            (budget * i128::from(ahead)) >> 62
        })
    }
}

/// What one worker may reserve of what all may. Parts that are smaller than an ask would be of no use, so where
/// there is enough for an ask, every worker gets as much: at most one ask too many for every further worker.
fn share_among(allowance: i64, workers: u32, ask_max: i128) -> i64 {
    if allowance == i64::MAX {
        return allowance;
    }
    let part = allowance / i64::from(workers.max(1));
    let one = i64::try_from(ask_max).unwrap_or(i64::MAX);
    if allowance >= one { part.max(one) } else { part }
}

fn check_flight(strategy: Strategy, flight: Window) -> Result<(), PlanError> {
    let len_ms = flight.len_ms();
    match flight {
        Window { start: Instant::EPOCH, .. } => Err(PlanError::NoStart { strategy }),
        Window { end: Instant::MAX, .. } => Err(PlanError::NoEnd { strategy }),
        _ if len_ms > FLIGHT_MS_MAX => {
            Err(PlanError::TooLong { strategy, days: len_ms / (24 * 3_600 * 1_000) })
        }
        _ => Ok(()),
    }
}
