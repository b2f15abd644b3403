//! The slow half: from where a budget stands to what its workers may let through until the next tick.

use money::{Amount, Instant, Window, Zone, day_at};
use table::spread;

use crate::fixed::{Divisor, ONE_Q62, narrow_u64, part_q62, share_q62};
use crate::memo::Memo;
use crate::pace::{Pace, salt};
use crate::strategy::Situation;
use crate::{Counters, DayParts, Forecast, Shape, Spend, Strategy};

/// Longest flight that a plan can follow: 100 years of 365.25 days.
pub const FLIGHT_MS_MAX: u64 = 36_525 * DAY_MS;
/// Gains that a plan may have.
pub const GAINS: std::ops::RangeInclusive<u32> = 8..=512;

const DAY_MS: u64 = 24 * 3_600 * 1_000;
const GAIN: u32 = 64;
/// A plan is ahead of time by this part, so that everything is spent when 199 / 200 = 99.5 % of its window
/// are over: what is reserved last has to come back and be spent again.
const FINISH_EARLY_PART: u64 = 199;
/// Longest time between ticks; a longer one is cut, so that a clock that jumped does not allow a day's spend.
const TICK_MS_MAX: u64 = 10_000;

/// How a budget is to be spent: configuration, nothing that changes by spending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanSpec {
    /// The budget; its coin is made of it.
    pub budget_id: u64,
    /// What slows spend down.
    pub strategy: Strategy,
    /// When it may be spent. Ends that are not given are those of [`Window::ALWAYS`].
    pub flight: Window,
    /// Does the plan spread each civil day's part over that day? Else it spreads all over the flight.
    pub daily: bool,
    /// Whose days and hours these are.
    pub zone: Zone,
    /// How spend is spread over the window; linear by default.
    pub shape: Shape,
    /// When nothing may be spent at all; always by default.
    pub day_parts: Option<DayParts>,
    /// K: a deviation of 1/K of the budget changes the multiplier by a factor of e. 8 is loose, 64 the
    /// default, 256 strict.
    pub gain: u32,
    /// Value that is wanted for each 1,000,000 base units of spend; none by default.
    pub roi_micros: Option<i64>,
    /// In first-price auctions: never bid above the point of the largest expected surplus.
    pub shade: bool,
}

impl PlanSpec {
    /// A plan with everything else at its default.
    #[must_use]
    pub fn new(budget_id: u64, strategy: Strategy, flight: Window, zone: Zone) -> PlanSpec {
        PlanSpec {
            budget_id,
            strategy,
            flight,
            daily: false,
            zone,
            shape: Shape::linear(),
            day_parts: None,
            gain: GAIN,
            roi_micros: None,
            shade: false,
        }
    }
}

/// Why a budget cannot have this plan. What to do is in the message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// It follows time, but nothing says from when.
    #[error(
        "pacing {strategy}: the budget has no start, expected `start` and `end` to spread the limit over, or \
         `daily` to spread over each day; or use asap"
    )]
    NoStart {
        /// How it is paced.
        strategy: Strategy,
    },
    /// It follows time, but nothing says until when.
    #[error(
        "pacing {strategy}: the budget has no end, expected `start` and `end` to spread the limit over, or \
         `daily` to spread over each day; or use asap"
    )]
    NoEnd {
        /// How it is paced.
        strategy: Strategy,
    },
    /// The flight is longer than [`FLIGHT_MS_MAX`].
    #[error(
        "pacing {strategy}: the flight is {days} days long, expected at most 36,525; or give `daily`"
    )]
    TooLong {
        /// How it is paced.
        strategy: Strategy,
        /// Length of the flight in days of 24 hours.
        days: u64,
    },
    /// There is a shape where none is followed.
    #[error(
        "pacing asap: a plan is given but asap follows none; leave it out or use schedule, coin, curve, steer or auto"
    )]
    ShapeUnused,
    /// Day-parts over a table.
    #[error(
        "pacing {strategy}: a plan given as a table has its day-parts in it; leave out the day-parts or use hourly weights"
    )]
    TableParts {
        /// How it is paced.
        strategy: Strategy,
    },
    /// A gain outside of [`GAINS`].
    #[error("pacing {strategy}: the gain is {found}, expected 8 to 512; 64 is usual")]
    Gain {
        /// How it is paced.
        strategy: Strategy,
        /// The gain that was given.
        found: u32,
    },
    /// A return that is none.
    #[error(
        "pacing {strategy}: the wanted value is {found} for each 1,000,000 spent, expected at least 1"
    )]
    Roi {
        /// How it is paced.
        strategy: Strategy,
        /// The value that was given.
        found: i64,
    },
}

/// A change of the plan in the middle of its window (by an edit, or a resume after a pause). From then on the
/// rest of the money is spread over the rest of the plan. [`Plan::edited`] says what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rebase {
    /// When it was changed: e. Changes outside the present window do not matter any more.
    pub at: Instant,
    /// What the plan wants spent at that instant: T_e.
    pub planned: Amount,
}

/// Where a budget stands on its plan, for reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The window of the plan: the day of a daily plan, else the flight.
    pub window: Window,
    /// The amount that may be spent in it: B.
    pub budget: Amount,
    /// What the plan wants spent by now: T.
    pub planned: Amount,
    /// What is spent, with what will probably be spent of holds: S.
    pub spent: Amount,
    /// The pace index, spent over planned, in millionths; `None` while nothing is planned.
    pub index_ppm: Option<u64>,
    /// Is it inside the flight and the day-parts?
    pub open: bool,
}

/// How a budget is to be spent, checked and worked out as far as it can be beforehand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    spec: PlanSpec,
    salt: u64,
    /// The shape inside the day-parts.
    shape: Shape,
    /// A hash of everything that says what share of a window is over: what a memo is for.
    print: u64,
}

impl Plan {
    /// A plan of what a specification says.
    ///
    /// # Errors
    /// [`PlanError`]: a plan that follows time needs days or a flight with both ends, and all numbers their
    /// ranges.
    pub fn new(spec: PlanSpec) -> Result<Plan, PlanError> {
        let strategy = spec.strategy;
        if strategy.follows_time() && !spec.daily {
            check_flight(strategy, spec.flight)?;
        }
        if !strategy.follows_time() && spec.shape != Shape::linear() {
            return Err(PlanError::ShapeUnused);
        }
        if !GAINS.contains(&spec.gain) {
            return Err(PlanError::Gain { strategy, found: spec.gain });
        }
        if let Some(found) = spec.roi_micros.filter(|wanted| *wanted <= 0) {
            return Err(PlanError::Roi { strategy, found });
        }
        let shape = match &spec.day_parts {
            None => spec.shape.clone(),
            Some(parts) => spec.shape.masked(parts).ok_or(PlanError::TableParts { strategy })?,
        };
        let flight = [spec.flight.start.ms(), spec.flight.end.ms(), u64::from(spec.daily)];
        let zone = spec.zone.name().bytes().map(u64::from);
        let print = zone
            .chain(flight)
            .fold(shape.print(), |print, part| spread(print ^ part).wrapping_add(1));
        Ok(Plan { salt: salt(spec.budget_id), spec, shape, print })
    }

    /// What it was made from.
    #[must_use]
    pub fn spec(&self) -> &PlanSpec {
        &self.spec
    }

    /// What each of `workers` workers may let through from `now` until the next tick in `tick_ms`: a pure
    /// function. The memo only saves work: one for each plan, or any other, gives the same answer.
    ///
    /// Outside the flight and the day-parts nothing. Ask for the ledger's own state first where the reason of
    /// a refusal matters: it knows *not started* from *ended*. Where the day of the counters is over at
    /// `now`, nothing counts as spent in the new one; where it has not begun (a clock went back), nothing is
    /// let through.
    #[must_use]
    pub fn parameters(
        &self,
        counters: &Counters,
        forecast: &Forecast,
        now: Instant,
        tick_ms: u64,
        workers: u32,
        memo: &mut Memo,
    ) -> Pace {
        let (window, today) = self.window(counters, now);
        if !window.contains(now) {
            return Pace::CLOSED;
        }
        memo.refresh(self, forecast, &window, rebase_in(&window, counters), now);
        if !memo.is_open() {
            return Pace::CLOSED;
        }
        let tick_ms = tick_ms.clamp(1, TICK_MS_MAX);
        let mut situation = self.situation(memo, counters, today, forecast, now, tick_ms);
        let start = memo.start(self.spec.strategy, situation.budget.unsigned_abs(), forecast);
        (situation.by_budget, situation.start_q32) = start;
        let terms = situation.terms(self.spec.strategy);
        let allowance = situation.allowance(terms.reserve, workers);
        Pace::new(self.salt, allowance, terms.coin_q32, situation.bounded(terms.multiplier_q32))
    }

    /// Where the budget stands.
    #[must_use]
    pub fn progress(&self, counters: &Counters, now: Instant) -> Progress {
        self.progress_by(&Memo::default(), counters, &Forecast::default(), now)
    }

    /// The same, with what [`Plan::parameters`] has worked out for this instant and forecast. Neither changes the answer.
    #[must_use]
    pub fn progress_by(
        &self,
        memo: &Memo,
        counters: &Counters,
        forecast: &Forecast,
        now: Instant,
    ) -> Progress {
        let (window, today) = self.window(counters, now);
        let rebase = rebase_in(&window, counters);
        let mut anew = Memo::default();
        let memo = match memo.is_of(self, forecast, &window, rebase, now) {
            true => memo,
            false => {
                anew.refresh(self, forecast, &window, rebase, now);
                &anew
            }
        };
        let situation = self.situation(memo, counters, today, forecast, now, 1);
        let index = (i128::from(situation.spent.max(0)) * 1_000_000)
            .checked_div(i128::from(situation.planned));
        Progress {
            window,
            budget: Amount::new(situation.budget),
            planned: Amount::new(situation.planned),
            spent: Amount::new(situation.spent),
            index_ppm: index.and_then(|index| u64::try_from(index).ok()),
            open: window.contains(now) && memo.is_open(),
        }
    }

    /// What [`Counters::seen`] and [`Counters::predicted`] go on from where they were forgotten (a restart):
    /// as if the forecast had been right so far.
    #[must_use]
    pub fn resume(&self, counters: &Counters, forecast: &Forecast, now: Instant) -> (u64, Amount) {
        (self.expected(counters, forecast, now), self.progress(counters, now).spent)
    }

    /// How many requests the forecast has of the window until now.
    #[must_use]
    pub fn expected(&self, counters: &Counters, forecast: &Forecast, now: Instant) -> u64 {
        let (window, _) = self.window(counters, now);
        let shape = forecast.arrivals.as_ref().unwrap_or(&self.shape);
        let share = shape.share_q62(&window, now, &self.spec.zone);
        narrow_u64(((u128::from(forecast.requests) * u128::from(share)) >> 62).cast_signed())
    }

    pub(crate) fn shape(&self) -> &Shape {
        &self.shape
    }

    pub(crate) fn print(&self) -> u64 {
        self.print
    }

    /// The window that the plan spreads its budget over, and what became of money in the day of `now`. Where
    /// nobody ended the day of the counters yet, nothing did.
    fn window<'a>(&self, counters: &'a Counters, now: Instant) -> (Window, &'a Spend) {
        const NOTHING: &Spend = &Spend {
            settled: Amount::ZERO,
            open: Amount::ZERO,
            confirmed: Amount::ZERO,
            expired: Amount::ZERO,
        };
        if !self.spec.daily {
            let over = now >= counters.day.end;
            return (self.spec.flight, if over { NOTHING } else { &counters.today });
        }
        if now < counters.day.end {
            return (counters.day.intersect(&self.spec.flight), &counters.today);
        }
        (day_at(now, &self.spec.zone).intersect(&self.spec.flight), NOTHING)
    }

    fn situation<'a>(
        &'a self,
        memo: &Memo,
        counters: &'a Counters,
        today: &Spend,
        forecast: &'a Forecast,
        now: Instant,
        tick_ms: u64,
    ) -> Situation<'a> {
        let spec = &self.spec;
        let limit = counters.limit.get();
        let wish = counters.day_target.or(counters.day_cap).filter(|_| spec.daily);
        let wish = wish.map_or(limit, Amount::get);
        let next_tick = spec.strategy.asks_of_next_tick();
        let cost = counters.evidence.cost(wish, [&counters.life, today], next_tick);
        let (spent, budget) = if spec.daily {
            let spent = cost.spend(today);
            let earlier = cost.spend(&counters.life).saturating_sub(spent).max(0);
            // Unspent money of earlier days carries itself: it is in the rest.
            let rest = part_q62(limit.saturating_sub(earlier), memo.today_q62());
            (spent, wish.min(rest).max(0))
        } else {
            (cost.spend(&counters.life), limit.max(0))
        };
        let left = limit.saturating_sub(counters.life.held());
        let left_today =
            counters.day_cap.map_or(left, |cap| cap.get().saturating_sub(today.held()));
        let rebase = memo.rebase(counters);
        let planned = |share| planned(budget, share, rebase);
        let planned_now = planned(memo.share_q62(now));
        let planned_next = if next_tick {
            let next = now.plus_ms(tick_ms).unwrap_or(Instant::MAX);
            planned(memo.next_share_q62(self, next))
        } else {
            planned_now
        };
        Situation {
            budget,
            planned: planned_now,
            planned_next,
            spent,
            left: left.min(left_today).max(0),
            paid_share_q32: cost.open_q32,
            // A budget of some items a day has no item for every hour.
            hour: part_q62(budget, memo.hour_q62()).max(i64::from(budget > 0)),
            by_budget: Divisor::default(),
            start_q32: None,
            arrived_q62: memo.arrived_q62(now),
            window_ms: memo.window().len_ms(),
            tick_ms,
            spec,
            counters,
            forecast,
        }
    }
}

/// What the plan wants spent at a share of its window: T = B * min(1, P / 0.995), since a change of the rest
/// alone.
fn planned(budget: i64, share: u64, rebase: Option<(Amount, u64)>) -> i64 {
    let ahead = |share: u64| (share + share / FINISH_EARLY_PART).min(ONE_Q62);
    let Some((base, since)) = rebase else { return part_q62(budget, ahead(share)) };
    let base = base.get().clamp(0, budget);
    let share = share_q62(share.saturating_sub(since), ONE_Q62 - since.min(ONE_Q62));
    base + part_q62(budget - base, ahead(share))
}

fn rebase_in(window: &Window, counters: &Counters) -> Option<Instant> {
    counters.rebase.map(|rebase| rebase.at).filter(|at| window.contains(*at))
}

fn check_flight(strategy: Strategy, flight: Window) -> Result<(), PlanError> {
    let len_ms = flight.len_ms();
    match flight {
        Window { start: Instant::EPOCH, .. } => Err(PlanError::NoStart { strategy }),
        Window { end: Instant::MAX, .. } => Err(PlanError::NoEnd { strategy }),
        _ if len_ms > FLIGHT_MS_MAX => Err(PlanError::TooLong { strategy, days: len_ms / DAY_MS }),
        _ => Ok(()),
    }
}
