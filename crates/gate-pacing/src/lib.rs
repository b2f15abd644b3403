//! Plans and pacing: how much of a budget should be spent by when, and whether a request may spend now.
//!
//! Nothing here reads a clock, does I/O or starts a thread, and no float takes part in a decision: the same input
//! gives the same bits on every machine. The two halves run at very different rates:
//!
//! ```text
//!   bank, 1 to 10 times a second, every budget          worker, every request
//!   Plan::parameters(counters, now) ──── Pace ────▶     Pace::decide(request id, amount)
//!            ▲                                                   │
//!            └────── Counters (plain sums) ◀── asked, reserved ──┘
//! ```
//!
//! - The **slow half** is a pure function of (configuration, counters, now). There is no controller memory, so a
//!   restart changes nothing, and counters of shards may be added in any order.
//! - The **fast half** is a hash, two compares and a subtraction, the same for every strategy.
//!
//! A plan never enforces a limit, the ledger does; it only says *not now*.
//!
//! # A new strategy
//! One file in `strategy/` with a function from `Situation` to `Terms`, one variant of [`Strategy`], one arm in
//! `Situation::terms`.

mod counters;
mod curve;
mod fixed;
mod pace;
mod plan;
mod strategy;

pub use counters::{Counters, Demand, Spend};
pub use curve::{Curve, CurveError, WEIGHT_MAX};
pub use pace::{Decision, Pace};
pub use plan::{FLIGHT_MS_MAX, Plan, PlanError, Progress};
pub use strategy::{ParseStrategyError, Strategy};
