//! Properties of plans, tables of single cases, and whole days of simulated traffic under each strategy.

mod civil;
mod days;
mod laws;
mod plans;

use money::{Instant, Window};

/// 2026-09-22T00:00:00Z, a Tuesday.
const START_MS: u64 = 1_790_035_200_000;
const DAY_MS: u64 = 86_400_000;

/// So many ms after the start.
fn instant(ms: u64) -> Instant {
    Instant::from_ms(START_MS + ms)
}

/// From the start, so many days.
fn flight(days: u64) -> Window {
    Window { start: instant(0), end: instant(days * DAY_MS) }
}
