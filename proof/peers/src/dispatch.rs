//! How a pacing strategy is reached: generic, enum, `Box<dyn>`, or not at all.
//!
//! The first three evaluate the budget's strategy for every request: a limit, a line through time, an hourly curve,
//! a coin. `gate_pacing::Pace` evaluates it some times a second instead and compiles the result into one form, so
//! that a request costs the same whatever the strategy is. Traffic comes in two orders: budgets drawn at random, so
//! that the kinds of neighbours cannot be predicted; and the same requests sorted by the kind of their budget, which
//! is the best that dispatch can hope for (and the only order in which a generic function can be used at all).

use std::hint::black_box;

use gate_pacing::{
    Counters, Decision, Demand, Forecast, Memo, Pace, Plan, PlanSpec, Shape, Spend, Strategy,
};
use money::{Amount, Instant, Window, Zone};

use crate::Size;
use crate::rounds::{Case, Random, compare};

const ROUNDS: usize = 21;
/// Requests of a round.
const REQUESTS: usize = 65_536;
/// Requests that share a reading of the clock, as in a frame of the batch door.
const FRAME: usize = 10;
const DAY_MS: u64 = 86_400_000;
const START_MS: u64 = 1_790_035_200_000;
/// What a budget may spend: enough for all rounds, so that every round does the same.
const LIMIT: i64 = 1_000_000_000_000_000_000;
/// The coin lets through three requests in ten.
const COIN: u64 = u64::MAX / 10 * 3;

/// Prints the tables.
pub fn run(size: Size) {
    let rounds = size.pick(ROUNDS, 1);
    for budgets in size.pick(vec![64, 16_384, 65_536], vec![64]) {
        let traffic = Traffic::new(budgets, size.pick(REQUESTS, 1_000));
        let table = Table::new(budgets);
        let (mixed, sorted) = (&traffic.mixed, &traffic.sorted);
        let mut cases: Vec<Case<'_>> = vec![
            ("generic, sorted", table.generic(sorted)),
            ("enum, sorted", table.by_enum(sorted)),
            ("Box<dyn>, sorted", table.by_vtable(sorted)),
            ("Pace, sorted", table.by_pace(sorted)),
            ("enum, random", table.by_enum(mixed)),
            ("Box<dyn>, random", table.by_vtable(mixed)),
            ("Pace, random", table.by_pace(mixed)),
        ];
        compare(&format!("pacing a request, {budgets} budgets of four kinds"), rounds, &mut cases);
    }
}

#[derive(Clone, Copy)]
struct Request {
    id: u64,
    budget: u32,
    amount: i64,
}

/// The same requests in two orders.
struct Traffic {
    mixed: Vec<Request>,
    sorted: Vec<Request>,
}

impl Traffic {
    fn new(budgets: usize, requests: usize) -> Traffic {
        let mut random = Random::new(11);
        let request = |_| Request {
            id: random.next(),
            budget: random.below(budgets) as u32,
            amount: 1_000 + random.below(9_000) as i64,
        };
        let mixed: Vec<Request> = (0..requests).map(request).collect();
        let mut sorted = mixed.clone();
        sorted.sort_by_key(|request| kind(request.budget as usize) as u8);
        Traffic { mixed, sorted }
    }
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
    fn decide(&mut self, id: u64, amount: i64, now_ms: u64) -> bool;
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
}

impl PerRequest for Asap {
    #[inline]
    fn decide(&mut self, _: u64, amount: i64, _: u64) -> bool {
        take(&mut self.spent, amount, LIMIT)
    }
}

impl PerRequest for Even {
    #[inline]
    fn decide(&mut self, _: u64, amount: i64, now_ms: u64) -> bool {
        let planned = self.per_ms * (now_ms - START_MS) as i64;
        take(&mut self.spent, amount, planned)
    }
}

impl PerRequest for Hourly {
    #[inline]
    fn decide(&mut self, _: u64, amount: i64, now_ms: u64) -> bool {
        let of_day = (now_ms - START_MS) % DAY_MS;
        let (hour, part) = ((of_day / 3_600_000) as usize, (of_day % 3_600_000) as i64);
        let share = (self.planned[hour + 1] - self.planned[hour]) / 3_600_000;
        take(&mut self.spent, amount, self.planned[hour] + share * part)
    }
}

impl PerRequest for Coin {
    #[inline]
    fn decide(&mut self, id: u64, amount: i64, _: u64) -> bool {
        mix(id ^ self.salt) <= COIN && take(&mut self.spent, amount, LIMIT)
    }
}

fn take(spent: &mut i64, amount: i64, planned: i64) -> bool {
    let passes = *spent + amount <= planned;
    *spent += if passes { amount } else { 0 };
    passes
}

/// The same hash as `Pace` uses.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
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
        let salt = Random::new(!(budget as u64)).next();
        match kind(budget) {
            Kind::Even => Any::Even(Even { per_ms: LIMIT / DAY_MS as i64, spent: 0 }),
            Kind::Hourly => {
                let planned = std::array::from_fn(|hour| LIMIT / 24 * hour as i64);
                Any::Hourly(Box::new(Hourly { planned, spent: 0 }))
            }
            Kind::Coin => Any::Coin(Coin { salt, spent: 0 }),
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
    fn decide(&mut self, id: u64, amount: i64, now_ms: u64) -> bool {
        match self {
            Any::Asap(kind) => kind.decide(id, amount, now_ms),
            Any::Even(kind) => kind.decide(id, amount, now_ms),
            Any::Hourly(kind) => kind.decide(id, amount, now_ms),
            Any::Coin(kind) => kind.decide(id, amount, now_ms),
        }
    }
}

/// Budgets, from which every case makes a table of its own.
struct Table {
    budgets: usize,
}

impl Table {
    fn new(budgets: usize) -> Table {
        Table { budgets }
    }

    fn all(&self) -> Vec<Any> {
        (0..self.budgets).map(Any::of).collect()
    }

    /// One vector and one loop a kind, all of them compiled for it.
    fn generic<'a>(&self, requests: &'a [Request]) -> Box<dyn FnMut() -> u64 + 'a> {
        let count = self.budgets;
        let (mut asap, mut coin) = (vec![Asap::default(); count], vec![Coin::default(); count]);
        let (mut even, mut hourly) = (vec![Even::default(); count], vec![Hourly::default(); count]);
        for (budget, any) in self.all().into_iter().enumerate() {
            match any {
                Any::Asap(kind) => asap[budget] = kind,
                Any::Even(kind) => even[budget] = kind,
                Any::Hourly(kind) => hourly[budget] = *kind,
                Any::Coin(kind) => coin[budget] = kind,
            }
        }
        let of_kind = |wanted: Kind| {
            let start = requests.partition_point(|at| kind(at.budget as usize) < wanted);
            let end = requests.partition_point(|at| kind(at.budget as usize) <= wanted);
            &requests[start..end]
        };
        let parts = KINDS.map(of_kind);
        Box::new(move || {
            let passed = serve(&mut asap, parts[0])
                + serve(&mut even, parts[1])
                + serve(&mut hourly, parts[2])
                + serve(&mut coin, parts[3]);
            black_box(passed);
            requests.len() as u64
        })
    }

    fn by_enum<'a>(&self, requests: &'a [Request]) -> Box<dyn FnMut() -> u64 + 'a> {
        let mut table = self.all();
        Box::new(move || {
            black_box(serve(&mut table, requests));
            requests.len() as u64
        })
    }

    fn by_vtable<'a>(&self, requests: &'a [Request]) -> Box<dyn FnMut() -> u64 + 'a> {
        let mut table: Vec<Box<dyn PerRequest>> = self.all().into_iter().map(Any::boxed).collect();
        Box::new(move || {
            let mut passed = 0_u64;
            for (at, request) in requests.iter().enumerate() {
                let budget = &mut table[request.budget as usize];
                passed += u64::from(budget.decide(request.id, request.amount, clock(at)));
            }
            black_box(passed);
            requests.len() as u64
        })
    }

    fn by_pace<'a>(&self, requests: &'a [Request]) -> Box<dyn FnMut() -> u64 + 'a> {
        let mut table: Vec<Pace> = (0..self.budgets).map(pace).collect();
        Box::new(move || {
            let mut passed = 0_u64;
            for request in requests {
                let budget = &mut table[request.budget as usize];
                let decision = budget.decide(request.id, Amount::new(request.amount));
                passed += u64::from(decision == Decision::Pass);
            }
            black_box(passed);
            requests.len() as u64
        })
    }
}

/// Serves all requests; compiled for every kind.
fn serve<S: PerRequest>(table: &mut [S], requests: &[Request]) -> u64 {
    let mut passed = 0;
    for (at, request) in requests.iter().enumerate() {
        let budget = &mut table[request.budget as usize];
        passed += u64::from(budget.decide(request.id, request.amount, clock(at)));
    }
    passed
}

/// One reading of the clock a frame, in the afternoon.
fn clock(at: usize) -> u64 {
    START_MS + DAY_MS / 2 + (at / FRAME) as u64
}

/// What the slow half makes of a budget of the same kind.
fn pace(budget: usize) -> Pace {
    let flight =
        Window { start: Instant::from_ms(START_MS), end: Instant::from_ms(START_MS + DAY_MS) };
    let (strategy, shape) = match kind(budget) {
        Kind::Asap => (Strategy::Asap, Shape::linear()),
        Kind::Even => (Strategy::Schedule, Shape::linear()),
        Kind::Hourly => (Strategy::Schedule, Shape::default_day()),
        Kind::Coin => (Strategy::Coin, Shape::linear()),
    };
    let spec = PlanSpec::new(budget as u64, strategy, flight, Zone::utc());
    let now = Instant::from_ms(START_MS + DAY_MS / 2);
    let spent = if strategy == Strategy::Coin { LIMIT / 1_000 * 502 } else { 0 };
    // Ten requests a millisecond, which cost three times what the plan wants.
    let ask_max = Amount::new(LIMIT / DAY_MS as i64);
    let counters = Counters {
        limit: Amount::new(LIMIT),
        life: Spend { settled: Amount::new(spent), ..Spend::default() },
        demand: Demand { seen: 10_000, ms: 1_000 },
        ask_max,
        ..Counters::default()
    };
    let (forecast, mut memo) = (Forecast::default(), Memo::default());
    Plan::new(PlanSpec { shape, ..spec })
        .map_or(Pace::OPEN, |plan| plan.parameters(&counters, &forecast, now, 1_000, 1, &mut memo))
}
