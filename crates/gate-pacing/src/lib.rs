//! Plans and pacing: how much of a budget should be spent by when, and whether a request may spend now.
//!
//! Nothing here reads a clock, does I/O or starts a thread, and no float takes part in a decision: the same
//! input gives the same bits on every machine. The two halves run at very different rates:
//!
//! ```text
//!   bank, 1 to 10 times per second, every budget          worker, every request
//!   Plan::parameters(counters, now) ──── Pace ────▶     Pace::bid(request id, value)
//!            ▲                                                   │
//!            └────── Counters (plain sums) ◀── seen, reserved ───┘
//! ```
//!
//! - The **slow half** is a pure function of (configuration, counters, now). There is no controller memory, so a
//!   restart changes nothing, and counters of several workers may be added in any order.
//! - The **fast half** is a hash, two compares and a subtraction, the same for every strategy.
//!
//! A plan never enforces a limit, the ledger does; it only says *not now*, or *not so much*.
//!
//! | module | what it says |
//! | --- | --- |
//! | [`Shape`], [`DayParts`] | P(t): how a plan is spread over its window, civil days and hours as they are |
//! | [`Plan`], [`Memo`] | T(t): what should be spent by now, and the law that keeps spend there |
//! | [`Strategy`] | the laws: one file each in `strategy/` |
//! | [`Plan::edited`] | what an edit of the budget does to its plan |
//! | [`Counters`] | S: what is spent, with what holds will probably cost |
//! | [`Forecast`], [`Landscape`], [`History`] | what is known beforehand, and how it is learned |
//! | [`Pace`] | the fast half |
//!
//! # A new strategy
//! One file in `strategy/` with a function from `Situation` to `Terms`, one variant of [`Strategy`], one arm
//! in `Situation::terms`.

mod counters;
mod day_parts;
mod edit;
mod fixed;
mod forecast;
mod history;
mod landscape;
mod memo;
mod pace;
mod plan;
mod shape;
mod strategy;

pub use counters::{Bought, Counters, Demand, Evidence, Spend};
pub use day_parts::{DayParts, DayPartsError};
pub use edit::{Before, Mode};
pub use forecast::Forecast;
pub use history::{History, Hour};
pub use landscape::{Bin, Landscape, LandscapeError, LandscapeLearner, MULTIPLIERS};
pub use memo::Memo;
pub use pace::{Decision, Pace};
pub use plan::{FLIGHT_MS_MAX, GAINS, Plan, PlanError, PlanSpec, Progress, Rebase};
pub use shape::{Shape, ShapeError, WEIGHT_MAX};
pub use strategy::{ParseStrategyError, Strategy};
