//! What a plan need not work out at every tick: the present straight stretch of its shapes.

use std::sync::Arc;

use money::{Amount, Instant, Window};
use table::spread;

use crate::fixed::{Divisor, ONE_Q62, share_q62};
use crate::shape::{Segment, Shape};
use crate::strategy::start_q32;
use crate::{Counters, Forecast, Landscape, Plan, Strategy};

const HOUR_MS: u64 = 3_600_000;

/// Keeps the present segment of a plan's shapes from tick to tick. It saves work and never changes an answer:
/// it knows what it was worked out for. Keep one for each plan; losing it costs the work of one tick.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memo {
    /// Of the plan and the forecast.
    print: u64,
    window: Window,
    rebase: Option<Instant>,
    plan: Segment,
    arrivals: Segment,
    rebased_q62: u64,
    today_q62: u64,
    hour_q62: u64,
    start: Start,
}

/// What follows from a budget and its forecast alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Start {
    strategy: Strategy,
    requests: u64,
    /// Kept, so that no other can be at its address.
    landscape: Option<Arc<Landscape>>,
    multiplier_q32: Option<u64>,
    by_budget: Divisor,
    start_q32: Option<u64>,
}

impl Default for Memo {
    fn default() -> Memo {
        Memo {
            print: 0,
            window: Window { start: Instant::EPOCH, end: Instant::EPOCH },
            rebase: None,
            plan: Segment::NONE,
            arrivals: Segment::NONE,
            rebased_q62: 0,
            today_q62: 0,
            hour_q62: 0,
            start: Start::default(),
        }
    }
}

impl Memo {
    /// Makes it be of this plan, window and instant.
    pub(crate) fn refresh(
        &mut self,
        plan: &Plan,
        forecast: &Forecast,
        window: &Window,
        rebase: Option<Instant>,
        now: Instant,
    ) {
        if self.is_of(plan, forecast, window, rebase, now) {
            return;
        }
        let (arrivals, print) = shapes(plan, forecast);
        let of_window = self.is_of_window(print, window, rebase);
        let (shape, zone) = (plan.shape(), &plan.spec().zone);
        let plan_segment = shape.segment(window, now, zone);
        *self = Memo {
            plan: plan_segment,
            arrivals: arrivals.map_or(plan_segment, |shape| shape.segment(window, now, zone)),
            print,
            ..if of_window { self.clone() } else { Memo::of_window(plan, window, rebase) }
        };
    }

    /// Is it worked out for this instant?
    pub(crate) fn is_of(
        &self,
        plan: &Plan,
        forecast: &Forecast,
        window: &Window,
        rebase: Option<Instant>,
        now: Instant,
    ) -> bool {
        let (arrivals, print) = shapes(plan, forecast);
        self.is_of_window(print, window, rebase)
            && self.plan.contains(now)
            && (arrivals.is_none() || self.arrivals.contains(now))
    }

    fn is_of_window(&self, print: u64, window: &Window, rebase: Option<Instant>) -> bool {
        self.print == print && self.window == *window && self.rebase == rebase
    }

    /// What does not change within a window.
    fn of_window(plan: &Plan, window: &Window, rebase: Option<Instant>) -> Memo {
        let (spec, shape) = (plan.spec(), plan.shape());
        let rest = Window { start: window.start, end: spec.flight.end };
        let carries = spec.daily && spec.flight.end < Instant::MAX;
        Memo {
            window: *window,
            rebase,
            rebased_q62: rebase.map_or(0, |at| shape.share_q62(window, at, &spec.zone)),
            today_q62: if carries {
                shape.part_q62(&rest, window.end, &spec.zone)
            } else {
                ONE_Q62
            },
            hour_q62: share_q62(HOUR_MS, window.len_ms()),
            ..Memo::default()
        }
    }

    pub(crate) fn window(&self) -> &Window {
        &self.window
    }

    /// Is the present inside the day-parts?
    pub(crate) fn is_open(&self) -> bool {
        self.plan.is_open()
    }

    /// The share of the plan that is over at an instant of the present segment.
    pub(crate) fn share_q62(&self, at: Instant) -> u64 {
        self.clamped(&self.plan, at)
    }

    /// The share of the plan that is over at any later instant.
    pub(crate) fn next_share_q62(&self, plan: &Plan, at: Instant) -> u64 {
        if self.plan.contains(at) {
            return self.plan.share_q62(at);
        }
        plan.shape().share_q62(&self.window, at, &plan.spec().zone)
    }

    /// The share of requests that came by an instant of the present segment.
    pub(crate) fn arrived_q62(&self, at: Instant) -> u64 {
        self.clamped(&self.arrivals, at)
    }

    /// The amount that was planned at the change of the plan, and the share of it that was over.
    pub(crate) fn rebase(&self, counters: &Counters) -> Option<(Amount, u64)> {
        let rebase = counters.rebase.filter(|_| self.rebase.is_some())?;
        Some((rebase.planned, self.rebased_q62))
    }

    /// The window's share of the rest of the flight.
    pub(crate) fn today_q62(&self) -> u64 {
        self.today_q62
    }

    /// An hour's part of the window, if all hours were alike.
    pub(crate) fn hour_q62(&self) -> u64 {
        self.hour_q62
    }

    /// What divides by the budget, and what the forecast says to start from.
    pub(crate) fn start(
        &mut self,
        strategy: Strategy,
        budget: u64,
        forecast: &Forecast,
    ) -> (Divisor, Option<u64>) {
        let known = self.start.strategy == strategy
            && self.start.by_budget.whole() == budget
            && self.start.requests == forecast.requests
            && self.start.multiplier_q32 == forecast.multiplier_q32
            && same(self.start.landscape.as_ref(), forecast.landscape.as_ref());
        if !known {
            self.start = Start {
                strategy,
                requests: forecast.requests,
                landscape: forecast.landscape.clone(),
                multiplier_q32: forecast.multiplier_q32,
                by_budget: Divisor::new(budget),
                start_q32: start_q32(strategy, budget, forecast),
            };
        }
        (self.start.by_budget, self.start.start_q32)
    }

    fn clamped(&self, segment: &Segment, at: Instant) -> u64 {
        match at {
            at if at >= self.window.end => ONE_Q62,
            at if at <= self.window.start => 0,
            at => segment.share_q62(at),
        }
    }
}

/// The very same landscape: what is shared never changes.
fn same(a: Option<&Arc<Landscape>>, b: Option<&Arc<Landscape>>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        (a, b) => a.is_none() && b.is_none(),
    }
}

/// The arrivals that the plan follows, and the print of both shapes.
fn shapes<'a>(plan: &Plan, forecast: &'a Forecast) -> (Option<&'a Shape>, u64) {
    let arrivals = forecast.arrivals.as_ref().filter(|_| plan.spec().strategy.steers());
    let print = arrivals.map_or(plan.print(), |arrivals| spread(plan.print() ^ arrivals.print()));
    (arrivals, print)
}
