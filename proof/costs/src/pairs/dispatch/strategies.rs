//! How a pacing strategy is reached: generic, enum, `Box<dyn>`, or not at all.
//!
//! `gate_pacing::Plan` evaluates a strategy some times per second and compiles the result into one form, `Pace`, so that a
//! request costs the same whatever the strategy is. Beside it stand-ins that evaluate the strategy for every request (a
//! limit, a line through time, an hourly curve, a coin) and the real `Plan` evaluated for every request. All let the same
//! requests through.
//!
//! Traffic comes in two orders: budgets drawn at random, so that the kinds of neighbours cannot be foreseen; and the same
//! requests sorted by the kind of their budget, which is the best that dispatch can hope for (and the only order in which a
//! generic function can be used at all).

use std::hint::black_box;

use gate_pacing::{
    Counters, Decision, Demand, Forecast, Memo, Pace, Plan, PlanSpec, Shape, Spend, Strategy,
};
use money::{Amount, Instant, Window, Zone};
use probe::compare::Random;
use table::spread;

use crate::pairs::{Meaning, Pair};
use crate::race::{Done, Way, race};
use crate::{Error, Size};

const ROUNDS: usize = 21;
/// Requests of a round.
const REQUESTS: usize = 65_536;
/// Requests that share a reading of the clock, as in a frame of the batch door.
const FRAME: usize = 10;
const DAY_MS: u64 = 86_400_000;
const START_MS: u64 = 1_790_035_200_000;
/// What a budget may spend: enough for all rounds, so that every round does the same.
const LIMIT: i64 = 1_000_000_000_000_000_000;

/// Many budgets share the caches with nobody here; a node's own data would take part of them.
const MEANING: Meaning = Meaning {
    rival: None,
    faster: "plans are compiled into one form, and a worker has nothing to dispatch",
    slower: "the compiled form is kept because a request costs the same whatever its strategy, not because it is faster here",
    level: "the compiled form is kept because a request costs the same whatever its strategy",
};

pub(super) fn pairs(size: Size) -> Result<Vec<Pair>, Error> {
    let (rounds, requests) = (size.pick(ROUNDS, 1), size.pick(REQUESTS, 1_000));
    let mut pairs = Vec::new();
    for (id, budgets) in [
        ("dispatch/strategies", size.pick(16_384, 128)),
        ("dispatch/strategies-few", 64),
        ("dispatch/strategies-many", size.pick(65_536, 256)),
    ] {
        let mut ways = random_order(budgets, &traffic(budgets, requests));
        if id == "dispatch/strategies" {
            ways.push(("Plan, evaluated a request", by_plan(budgets, traffic(budgets, requests))));
        }
        let what = format!(
            "Is a request within its budget's plan? {budgets} budgets of four kinds, requests in random order."
        );
        pairs.push(Pair::new(id, what, "request", race(rounds, ways)?, &MEANING));
    }
    let budgets = size.pick(16_384, 128);
    let outcomes = race(rounds, sorted_order(budgets, traffic(budgets, requests)))?;
    let what = format!(
        "The same with {budgets} budgets and the requests sorted by kind, which no real traffic is."
    );
    pairs.push(Pair::new("dispatch/strategies-sorted", what, "request", outcomes, &MEANING));
    Ok(pairs)
}

fn random_order(budgets: usize, requests: &[Request]) -> Vec<Way<'static>> {
    vec![
        ("Pace", by_pace(budgets, requests.to_vec())),
        ("enum", by_enum(budgets, requests.to_vec())),
        ("Box<dyn>", by_vtable(budgets, requests.to_vec())),
    ]
}

fn sorted_order(budgets: usize, mut requests: Vec<Request>) -> Vec<Way<'static>> {
    requests.sort_by_key(|request| kind(request.budget));
    let mut ways = random_order(budgets, &requests);
    ways.insert(1, ("generic", by_kind(budgets, requests)));
    ways
}

#[derive(Clone, Copy)]
struct Request {
    id: u64,
    budget: usize,
    amount: i64,
}

fn traffic(budgets: usize, requests: usize) -> Vec<Request> {
    let mut random = Random::new(11);
    let mut request = |_| Request {
        id: random.draw(),
        budget: random.below(budgets),
        amount: 1_000 + i64::try_from(random.below(9_000)).unwrap_or(0),
    };
    (0..requests).map(&mut request).collect()
}

/// How a budget is paced.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Asap,
    Even,
    Hourly,
    Coin,
}

const KINDS: [Kind; 4] = [Kind::Asap, Kind::Even, Kind::Hourly, Kind::Coin];

/// The kind of a budget, without a pattern that a branch predictor could learn.
fn kind(budget: usize) -> Kind {
    KINDS[Random::new(budget as u64).below(KINDS.len())]
}

/// A strategy that is evaluated for every request.
trait PerRequest {
    fn passes(&mut self, id: u64, amount: i64, now_ms: u64) -> bool;
}

#[derive(Clone, Default)]
struct Asap {
    spent: i64,
}

#[derive(Clone, Default)]
struct Even {
    spent: i64,
    per_ms: i64,
}

#[derive(Clone, Default)]
struct Hourly {
    spent: i64,
    /// Planned before each hour of the day.
    planned: [i64; 25],
}

#[derive(Clone, Default)]
struct Coin {
    spent: i64,
    salt: u64,
    threshold: u64,
}

impl PerRequest for Asap {
    #[inline]
    fn passes(&mut self, _: u64, amount: i64, _: u64) -> bool {
        take(&mut self.spent, amount, LIMIT)
    }
}

impl PerRequest for Even {
    #[inline]
    fn passes(&mut self, _: u64, amount: i64, now_ms: u64) -> bool {
        take(&mut self.spent, amount, self.per_ms.saturating_mul(since_start(now_ms)))
    }
}

impl PerRequest for Hourly {
    #[inline]
    fn passes(&mut self, _: u64, amount: i64, now_ms: u64) -> bool {
        const HOUR_MS: i64 = 3_600_000;
        let of_day = since_start(now_ms);
        let hour = usize::try_from(of_day / HOUR_MS).unwrap_or(0) % 24;
        let (before, after) = (self.planned[hour], self.planned[hour + 1]);
        let planned = before + (after - before) / HOUR_MS * (of_day % HOUR_MS);
        take(&mut self.spent, amount, planned)
    }
}

impl PerRequest for Coin {
    #[inline]
    fn passes(&mut self, id: u64, amount: i64, _: u64) -> bool {
        spread(id ^ self.salt) >> 32 <= self.threshold && take(&mut self.spent, amount, LIMIT)
    }
}

fn since_start(now_ms: u64) -> i64 {
    (now_ms - START_MS).cast_signed()
}

fn take(spent: &mut i64, amount: i64, planned: i64) -> bool {
    let passes = *spent + amount <= planned;
    *spent += if passes { amount } else { 0 };
    passes
}

#[derive(Clone)]
enum Any {
    Asap(Asap),
    Even(Even),
    // In a box, or every budget would be as large as this kind.
    Hourly(Box<Hourly>),
    Coin(Coin),
}

impl Any {
    fn of(budget: usize) -> Any {
        match kind(budget) {
            Kind::Even => Any::Even(Even { per_ms: LIMIT / DAY_MS.cast_signed(), spent: 0 }),
            Kind::Hourly => {
                let planned =
                    std::array::from_fn(|hour| LIMIT / 24 * i64::try_from(hour).unwrap_or(0));
                Any::Hourly(Box::new(Hourly { planned, spent: 0 }))
            }
            Kind::Coin => {
                let pace = Budget::new(budget).pace();
                let threshold = pace.threshold_q32().min(pace.multiplier_q32()) - 1;
                Any::Coin(Coin { salt: pace.salt(), threshold, spent: 0 })
            }
            Kind::Asap => Any::Asap(Asap { spent: 0 }),
        }
    }

    fn boxed(self) -> Box<dyn PerRequest> {
        match self {
            Any::Asap(kind) => Box::new(kind),
            Any::Even(kind) => Box::new(kind),
            Any::Hourly(kind) => kind,
            Any::Coin(kind) => Box::new(kind),
        }
    }
}

impl PerRequest for Any {
    #[inline]
    fn passes(&mut self, id: u64, amount: i64, now_ms: u64) -> bool {
        match self {
            Any::Asap(kind) => kind.passes(id, amount, now_ms),
            Any::Even(kind) => kind.passes(id, amount, now_ms),
            Any::Hourly(kind) => kind.passes(id, amount, now_ms),
            Any::Coin(kind) => kind.passes(id, amount, now_ms),
        }
    }
}

impl PerRequest for Box<dyn PerRequest> {
    #[inline]
    fn passes(&mut self, id: u64, amount: i64, now_ms: u64) -> bool {
        (**self).passes(id, amount, now_ms)
    }
}

type Round = Box<dyn FnMut() -> Done>;

fn by_pace(budgets: usize, requests: Vec<Request>) -> Round {
    let mut table: Vec<Pace> = (0..budgets).map(|budget| Budget::new(budget).pace()).collect();
    Box::new(move || {
        let mut passed = 0;
        for request in &requests {
            let decision = table[request.budget].decide(request.id, Amount::new(request.amount));
            passed += u64::from(decision == Decision::Pass);
        }
        Done { operations: requests.len() as u64, result: black_box(passed) }
    })
}

/// The real strategies, evaluated when they are asked.
fn by_plan(budgets: usize, requests: Vec<Request>) -> Round {
    let mut table: Vec<Budget> = (0..budgets).map(Budget::new).collect();
    Box::new(move || {
        let mut passed = 0;
        for request in &requests {
            let mut pace = table[request.budget].pace();
            let decision = pace.decide(request.id, Amount::new(request.amount));
            passed += u64::from(decision == Decision::Pass);
        }
        Done { operations: requests.len() as u64, result: black_box(passed) }
    })
}

fn by_enum(budgets: usize, requests: Vec<Request>) -> Round {
    let mut table: Vec<Any> = (0..budgets).map(Any::of).collect();
    served(requests, move |requests| serve(&mut table, requests))
}

fn by_vtable(budgets: usize, requests: Vec<Request>) -> Round {
    let mut table: Vec<Box<dyn PerRequest>> = (0..budgets).map(|at| Any::of(at).boxed()).collect();
    served(requests, move |requests| serve(&mut table, requests))
}

/// One vector and one loop a kind, all of them compiled for it.
fn by_kind(budgets: usize, requests: Vec<Request>) -> Round {
    let (mut asap, mut coin) = (vec![Asap::default(); budgets], vec![Coin::default(); budgets]);
    let (mut even, mut hourly) = (vec![Even::default(); budgets], vec![Hourly::default(); budgets]);
    for budget in 0..budgets {
        match Any::of(budget) {
            Any::Asap(kind) => asap[budget] = kind,
            Any::Even(kind) => even[budget] = kind,
            Any::Hourly(kind) => hourly[budget] = *kind,
            Any::Coin(kind) => coin[budget] = kind,
        }
    }
    let ends = KINDS.map(|of| requests.partition_point(|request| kind(request.budget) <= of));
    served(requests, move |requests| {
        serve(&mut asap, &requests[..ends[0]])
            + serve(&mut even, &requests[ends[0]..ends[1]])
            + serve(&mut hourly, &requests[ends[1]..ends[2]])
            + serve(&mut coin, &requests[ends[2]..])
    })
}

fn served(requests: Vec<Request>, mut serve: impl FnMut(&[Request]) -> u64 + 'static) -> Round {
    Box::new(move || Done {
        operations: requests.len() as u64,
        result: black_box(serve(&requests)),
    })
}

/// Serves all requests; compiled for every kind. Returns how many pass.
fn serve<S: PerRequest>(table: &mut [S], requests: &[Request]) -> u64 {
    let mut passed = 0;
    for (at, request) in requests.iter().enumerate() {
        let budget = &mut table[request.budget];
        passed += u64::from(budget.passes(request.id, request.amount, clock(at)));
    }
    passed
}

/// One reading of the clock a frame, in the afternoon.
fn clock(at: usize) -> u64 {
    START_MS + DAY_MS / 2 + (at / FRAME) as u64
}

/// What the slow half knows of a budget.
struct Budget {
    plan: Plan,
    counters: Counters,
    memo: Memo,
}

impl Budget {
    fn new(budget: usize) -> Budget {
        let flight =
            Window { start: Instant::from_ms(START_MS), end: Instant::from_ms(START_MS + DAY_MS) };
        let (strategy, shape) = match kind(budget) {
            Kind::Asap => (Strategy::Asap, Shape::linear()),
            Kind::Even => (Strategy::Schedule, Shape::linear()),
            Kind::Hourly => (Strategy::Schedule, Shape::default_day()),
            Kind::Coin => (Strategy::Coin, Shape::linear()),
        };
        let spec = PlanSpec::new(budget as u64, strategy, flight, Zone::utc());
        let plan = Plan::new(PlanSpec { shape, ..spec }).expect("a plan of nothing but defaults");
        let spent = if strategy == Strategy::Coin { LIMIT / 1_000 * 502 } else { 0 };
        let counters = Counters {
            limit: Amount::new(LIMIT),
            life: Spend { settled: Amount::new(spent), ..Spend::default() },
            // Ten requests a millisecond, which cost three times what the plan wants.
            demand: Demand { seen: 10_000, ms: 1_000 },
            ask_max: Amount::new(LIMIT / DAY_MS.cast_signed()),
            ..Counters::default()
        };
        Budget { plan, counters, memo: Memo::default() }
    }

    fn pace(&mut self) -> Pace {
        let (forecast, now) = (Forecast::default(), Instant::from_ms(START_MS + DAY_MS / 2));
        self.plan.parameters(&self.counters, &forecast, now, 1_000, 1, &mut self.memo)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without coins that let some through and refuse some, all would agree on "yes".
    #[test]
    fn some_requests_pass_and_some_do_not() {
        let requests = traffic(64, 4_000);
        let passed = by_pace(64, requests.clone())().result;
        assert!((2_000..3_990).contains(&passed), "{passed} of 4,000");
        assert_eq!(passed, by_enum(64, requests)().result);
    }

    #[test]
    fn budgets_are_of_all_kinds() {
        for wanted in KINDS {
            assert!((0..64).any(|budget| kind(budget) == wanted));
        }
    }
}
