//! What pacing costs: `cargo run --release -p gate-pacing --example cost`.
//!
//! Prints nanoseconds a request for the fast half, hot and over 50,000 budgets in random order, and
//! nanoseconds a budget for the slow half: the best of several rounds, because machines are shared.
#![allow(
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    reason = "it prints figures of small numbers"
)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant as Stopwatch;

use gate_pacing::{
    Counters, Demand, Evidence, Forecast, Landscape, MULTIPLIERS, Memo, Pace, Plan, PlanSpec,
    Shape, Spend, Strategy,
};
use money::{Amount, Instant, Window, Zone};

const BUDGETS: usize = 50_000;
const REQUESTS: usize = 1 << 17;
const ROUNDS: usize = 40;
const START_MS: u64 = 1_790_035_200_000;
const DAY_MS: u64 = 86_400_000;

fn main() {
    for strategy in Strategy::ALL {
        let mut rows: Vec<Row> = (0..BUDGETS).map(|id| Row::new(strategy, id as u64)).collect();
        let first = refresh(&mut rows, DAY_MS / 2);
        let mut ms = DAY_MS / 2;
        let tick = best(|| {
            ms += 1_000;
            refresh(&mut rows, ms)
        });
        println!("parameters, {strategy:8}: {tick:5.1} ns per budget, {first:5.1} without memo");
    }
    let draw = draw();
    let mut paces: Vec<Pace> =
        (0..BUDGETS).map(|id| Row::new(Strategy::Curve, id as u64).pace(DAY_MS / 2)).collect();
    for (name, budgets) in [("hot", 1), ("50,000 random", BUDGETS)] {
        let places: Vec<u32> = draw.iter().map(|place| place % budgets as u32).collect();
        let bid = best(|| {
            per_request(&places, |place, id| u64::from(paces[place].bid(id, 5_000).is_some()))
        });
        let decide = best(|| {
            per_request(&places, |place, id| paces[place].decide(id, Amount::new(50)) as u64)
        });
        let reserve = best(|| {
            per_request(&places, |place, id| {
                let bid = paces[place].bid(id, 5_000).map(Amount::new);
                if let Some(bid) = bid.filter(|bid| paces[place].allows(*bid)) {
                    paces[place].take(bid);
                    paces[place].give_back(bid);
                }
                u64::from(bid.is_some())
            })
        });
        println!(
            "{name:13}: bid {bid:4.1} ns, decide {decide:4.1} ns, bid + allows + take {reserve:4.1} ns"
        );
    }
}

struct Row {
    plan: Plan,
    counters: Counters,
    forecast: Forecast,
    memo: Memo,
}

impl Row {
    fn new(strategy: Strategy, id: u64) -> Row {
        let day =
            Window { start: Instant::from_ms(START_MS), end: Instant::from_ms(START_MS + DAY_MS) };
        let follows = strategy.follows_time();
        let shape = if follows { Shape::default_day() } else { Shape::linear() };
        let spec = PlanSpec { shape, ..PlanSpec::new(id, strategy, day, Zone::utc()) };
        let points = MULTIPLIERS.map(|multiplier| (multiplier, multiplier >> 8));
        let forecast = Forecast {
            requests: 1_000_000 + id,
            landscape: Landscape::from_points(&points).ok().map(Arc::new),
            ..Forecast::default()
        };
        let amount = |base_units: u64| Amount::new(base_units as i64);
        let spread = id * 7_919 % 1_000;
        let counters = Counters {
            limit: amount(1_000_000_000 + id),
            life: Spend {
                settled: amount(450_000_000 + 50_000 * spread),
                open: amount(1_000_000 + spread),
                confirmed: amount(100_000 + spread),
                expired: amount(10_000 * (id % 2)),
            },
            evidence: Evidence {
                resolved: amount(800_000_000),
                paid: amount(400_000_000 + spread),
                won: amount(700_000_000),
                ..Evidence::default()
            },
            demand: Demand { seen: 10_000, ms: 10_000 },
            seen: 500_000 + 100 * spread,
            predicted: amount(480_000_000),
            ask_max: amount(10_000),
            ..Counters::default()
        };
        Row {
            plan: Plan::new(spec).expect("a valid plan"),
            counters,
            forecast,
            memo: Memo::default(),
        }
    }

    fn pace(&mut self, ms: u64) -> Pace {
        let now = Instant::from_ms(START_MS + ms);
        self.plan.parameters(&self.counters, &self.forecast, now, 1_000, 4, &mut self.memo)
    }
}

fn refresh(rows: &mut [Row], ms: u64) -> f64 {
    let mut table = vec![Pace::CLOSED; rows.len()];
    let start = Stopwatch::now();
    for (pace, row) in table.iter_mut().zip(rows.iter_mut()) {
        *pace = row.pace(ms);
    }
    let took = start.elapsed().as_nanos() as f64 / rows.len() as f64;
    black_box(table);
    took
}

fn per_request(places: &[u32], mut one: impl FnMut(usize, u64) -> u64) -> f64 {
    let (start, mut sum) = (Stopwatch::now(), 0);
    for (id, place) in (0..).zip(places) {
        sum += one(*place as usize, id);
    }
    black_box(sum);
    start.elapsed().as_nanos() as f64 / places.len() as f64
}

fn best(mut round: impl FnMut() -> f64) -> f64 {
    (0..ROUNDS).map(|_| round()).fold(f64::INFINITY, f64::min)
}

/// Places without a pattern.
fn draw() -> Vec<u32> {
    let mut x = 88_172_645_463_325_252_u64;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 33) as u32 % BUDGETS as u32
    };
    (0..REQUESTS).map(|_| next()).collect()
}
