//! What pacing costs: the fast path that every request takes, the slow loop that works out its parameters once a
//! tick, and the memory of that loop.
//!
//! The fast path is measured with one budget, whose 32 bytes stay in the nearest cache, and with budgets drawn at
//! random. Each table begins with the same loop over the same memory that decides nothing: what a case takes longer is
//! its work. Beside it stands what a pacer does that works the law out for every request, in floats.
//!
//! The slow loop runs over a real bank. Beside it stand the law alone, over an array that needs no bank, and the dearest
//! of the bank's sums. A tick is one round, so ns per operation are ns per budget.

use std::hint::black_box;
use std::sync::Arc;

use gate_pacing::{
    Counters, Decision, Evidence, Forecast, Landscape, MULTIPLIERS, Memo, Pace, Plan, PlanSpec,
    Shape, Spend, Strategy,
};
use ledger::{
    Action, Bank, BudgetSpec, Door, Options, Origin, Out, PurseOptions, Purses, ToBank, ToWorker,
};
use money::{Amount, Instant, Unit, Window, Zone};
use probe::compare::{Case, Outcome, Random, compare};
use weir_pacer::{Learned, Look, Pacer, PacerOptions, Pacing};

use crate::Size;

const ROUNDS: usize = 15;
const BUDGETS: usize = 50_000;
/// Requests of a round.
const REQUESTS: usize = 1 << 16;
/// Requests that arrive together, as in a frame of the batch door.
const FRAME: usize = 10;
const DAY_MS: u64 = 86_400_000;
const HOUR_MS: u64 = 3_600_000;
const TICK_MS: u64 = 1_000;
const START_MS: u64 = 1_790_035_200_000;
const FLIGHT_MS: u64 = 10 * DAY_MS;
/// A quarter of an hour into the flight: the first filling of a purse covers what should be spent by then.
const NOW_MS: u64 = START_MS + HOUR_MS / 4;
/// What a budget may spend, micros.
const LIMIT: i64 = 1_000_000_000;
/// What it has spent at [`NOW_MS`].
const SPENT: i64 = LIMIT / 1_000;
/// Enough for all rounds of the fast path, so that every round does the same.
const PLENTY: i64 = 1_000_000_000_000_000;

/// Prints the tables.
pub fn run(size: Size) {
    let budgets = size.pick(BUDGETS, 100);
    print_memory(budgets, size.pick(49, 25));
    for (name, budgets) in [("one budget", 1), ("budgets at random", budgets)] {
        let requests = requests(budgets, size.pick(REQUESTS, 1_000));
        let title = format!("{name} ({budgets})");
        compare_decisions(&title, budgets, &requests, size.pick(ROUNDS, 1));
        compare_holds(&title, budgets, &requests, size.pick(ROUNDS, 1));
    }
    for strategy in [Strategy::Curve, Strategy::Steer] {
        compare_refresh(strategy, budgets, size.pick(ROUNDS, 1));
    }
}

/// A request that a budget may bid for.
#[derive(Clone, Copy)]
struct Request {
    id: u64,
    slot: u32,
    value: i64,
}

fn requests(budgets: usize, count: usize) -> Vec<Request> {
    let mut random = Random::new(21);
    let request = |_| Request {
        id: random.draw(),
        slot: random.below(budgets) as u32,
        value: 1_000 + random.below(9_000) as i64,
    };
    (0..count).map(request).collect()
}

/// The plan's part of the fast path.
fn compare_decisions(title: &str, budgets: usize, requests: &[Request], rounds: usize) {
    let (mut touched, mut bidding) = (paces(budgets), paces(budgets));
    let (mut deciding, naive) = (paces(budgets), naive(budgets));
    let mut cases: Vec<Case<'_>> = vec![
        ("the table touched", each(requests, move |_, request| touch(pace(&mut touched, request)))),
        (
            "Pace::bid",
            each(requests, move |_, request| {
                pace(&mut bidding, request).bid(request.id, request.value).unwrap_or(0)
            }),
        ),
        (
            "Pace::decide",
            each(requests, move |_, request| {
                let decision = pace(&mut deciding, request).decide(request.id, price(request));
                i64::from(decision == Decision::Pass)
            }),
        ),
        (
            "the law a request, floats",
            each(requests, move |at, request| {
                naive[request.slot as usize].bid(request.value, clock(at)).unwrap_or(0)
            }),
        ),
    ];
    print!("{}", compare(&format!("pacing a request, {title}"), rounds, &mut cases));
}

/// The whole of it: the price, the allowance, and the money set aside.
fn compare_holds(title: &str, budgets: usize, requests: &[Request], rounds: usize) {
    let mut touched = Gate::new(budgets);
    let [mut bidding, mut deciding, mut ahead, mut naive] = [(); 4].map(|()| Gate::new(budgets));
    let laws = self::naive(budgets);
    let mut cases: Vec<Case<'_>> = vec![
        (
            "both tables touched",
            each(requests, move |_, request| {
                touch(pace(&mut touched.paces, request)) + touched.purses.free(request.slot).get()
            }),
        ),
        ("bid, allows, reserve, take", each(requests, move |_, request| bidding.bid(request))),
        (
            "the same, frames fetched ahead",
            Box::new(move || {
                let frames = requests.chunks(FRAME).map(|frame| ahead.bid_all(frame));
                black_box(frames.fold(0, i64::wrapping_add));
                requests.len() as u64
            }),
        ),
        ("decide, reserve", each(requests, move |_, request| deciding.decide(request))),
        (
            "the law a request, reserve",
            each(requests, move |at, request| {
                let bid = laws[request.slot as usize].bid(request.value, clock(at));
                bid.map_or(0, |bid| naive.reserve(request.slot, Amount::new(bid)))
            }),
        ),
    ];
    let title = format!("pacing a request and holding its money, {title}");
    print!("{}", compare(&title, rounds, &mut cases));
}

/// Runs a case over all requests. What comes of each is summed up, so that it must be worked out.
fn each<'a>(
    requests: &'a [Request],
    mut one: impl FnMut(usize, &Request) -> i64 + 'a,
) -> Box<dyn FnMut() -> u64 + 'a> {
    Box::new(move || {
        let mut sum = 0_i64;
        for (at, request) in requests.iter().enumerate() {
            sum = sum.wrapping_add(one(at, request));
        }
        black_box(sum);
        requests.len() as u64
    })
}

fn pace<'a>(paces: &'a mut [Pace], request: &Request) -> &'a mut Pace {
    &mut paces[request.slot as usize]
}

/// Reads and writes a pace without deciding anything.
fn touch(pace: &mut Pace) -> i64 {
    pace.take(Amount::ZERO);
    pace.allowance().get()
}

fn price(request: &Request) -> Amount {
    Amount::new(request.value)
}

/// One reading of the clock a frame.
fn clock(at: usize) -> u64 {
    NOW_MS + (at / FRAME) as u64
}

/// What a worker has of every budget.
struct Gate {
    paces: Vec<Pace>,
    purses: Purses,
}

impl Gate {
    fn new(budgets: usize) -> Gate {
        let mut purses = Purses::new(PurseOptions { node: 1, hold_ms: 2_000 }, budgets);
        for slot in 0..budgets as u32 {
            let amount = Amount::new(PLENTY);
            let (valid_from_ms, valid_until_ms) = (0, u64::MAX);
            let fill = ToWorker::Fill { slot, grant: 7, amount, valid_from_ms, valid_until_ms };
            purses.take(fill, NOW_MS);
        }
        Gate { paces: paces(budgets), purses }
    }

    fn bid(&mut self, request: &Request) -> i64 {
        let bid = pace(&mut self.paces, request).bid(request.id, request.value).map(Amount::new);
        let allowed = bid.filter(|bid| pace(&mut self.paces, request).allows(*bid));
        let Some(amount) = allowed else { return 0 };
        let held = self.reserve(request.slot, amount);
        pace(&mut self.paces, request).take(amount);
        held
    }

    /// As the node's worker does it: what a frame needs is on its way from memory before the first of it is decided.
    fn bid_all(&mut self, frame: &[Request]) -> i64 {
        for request in frame {
            table::prefetch(&self.paces[request.slot as usize]);
            self.purses.prefetch(request.slot);
        }
        frame.iter().map(|request| self.bid(request)).sum()
    }

    fn decide(&mut self, request: &Request) -> i64 {
        let amount = price(request);
        match pace(&mut self.paces, request).decide(request.id, amount) {
            Decision::Pass => self.reserve(request.slot, amount),
            Decision::Paced => 0,
        }
    }

    fn reserve(&mut self, slot: u32, amount: Amount) -> i64 {
        let at = self.purses.at(NOW_MS);
        self.purses.reserve(slot, amount, at).map_or(0, |hold| i64::from(hold.seq))
    }
}

/// How far a budget is ahead of its plan or behind it, millionths of its limit: up to 1 %, without a pattern.
fn lead_ppm(budget: usize) -> i64 {
    Random::new(budget as u64).below(20_001) as i64 - 10_000
}

/// What the slow loop makes of a budget whose allowance no round uses up.
fn paces(budgets: usize) -> Vec<Pace> {
    let now = Instant::from_ms(START_MS + FLIGHT_MS / 2);
    let pace = |budget: usize| {
        let settled = PLENTY / 2 + PLENTY / 1_000_000 * lead_ppm(budget);
        let counters = Counters {
            limit: Amount::new(PLENTY),
            life: Spend { settled: Amount::new(settled), ..Spend::default() },
            ..Counters::default()
        };
        let plan = plan(budget as u64, Strategy::Curve, &Shape::linear());
        plan.parameters(&counters, &Forecast::default(), now, TICK_MS, 1, &mut Memo::default())
    };
    (0..budgets).map(pace).collect()
}

/// A pacer that works its law out for every request.
#[derive(Clone, Copy)]
struct Naive {
    budget: f64,
    spent: f64,
    start: f64,
    gain: f64,
}

impl Naive {
    fn bid(&self, value: i64, now_ms: u64) -> Option<i64> {
        let planned = self.budget * ((now_ms - START_MS) as f64 / FLIGHT_MS as f64);
        let feedback = (self.gain * (planned - self.spent) / self.budget).exp();
        let multiplier = (self.start * feedback).clamp(0.005, 1.0);
        let bid = (value as f64 * multiplier) as i64;
        (bid > 0 && self.spent + bid as f64 <= self.budget).then_some(bid)
    }
}

fn naive(budgets: usize) -> Vec<Naive> {
    let naive = |budget: usize| {
        let planned = (NOW_MS - START_MS) as f64 / FLIGHT_MS as f64;
        let spent = LIMIT as f64 * (planned + lead_ppm(budget) as f64 / 1e6);
        Naive { budget: LIMIT as f64, spent, start: 0.4, gain: 64.0 }
    };
    (0..budgets).map(naive).collect()
}

/// The slow loop over a real bank.
fn compare_refresh(strategy: Strategy, budgets: usize, rounds: usize) {
    let node = Node::new(budgets);
    let (mut whole, mut told) = (node.pacer(strategy, false), node.pacer(strategy, false));
    let mut rows = rows(strategy, budgets);
    let mut used = node.refresh(&mut told, NOW_MS);
    for pace in &mut used {
        black_box(pace.bid(1, 5_000));
    }
    let mut cases: Vec<Case<'_>> = vec![
        (
            "Plan::parameters over an array",
            ticks(budgets, move |now_ms| {
                black_box(rows.iter_mut().map(|row| row.pace(now_ms)).collect::<Box<[Pace]>>());
            }),
        ),
        (
            "Pacer::parameters",
            ticks(budgets, |now_ms| {
                black_box(node.refresh(&mut whole, now_ms));
            }),
        ),
        (
            "Pacer::used and ::parameters",
            ticks(budgets, |now_ms| {
                told.pass(TICK_MS);
                told.used(0, &used);
                black_box(node.refresh(&mut told, now_ms));
            }),
        ),
        (
            "of it: Bank::unconfirmed",
            ticks(budgets, |_| {
                let held = |slot| node.purses.held(slot);
                let open = (0..budgets as u32).map(|slot| node.bank.unconfirmed(slot, &held).get());
                black_box(open.fold(0, i64::wrapping_add));
            }),
        ),
    ];
    let title = format!("a tick of {budgets} budgets, {strategy}: ns per budget");
    let comparison = compare(&title, rounds, &mut cases);
    print!("{comparison}");
    print_ticks(budgets, &comparison.outcomes);
}

fn print_ticks(budgets: usize, outcomes: &[Outcome]) {
    let tick = |outcome: &Outcome| {
        let ms = outcome.median_ns * budgets as f64 / 1e6;
        format!("{} {ms:.2} ms", outcome.name)
    };
    println!("\nA tick: {}.", outcomes.iter().map(tick).collect::<Vec<_>>().join(", "));
}

/// A case that does all budgets once, one tick later each time.
fn ticks<'a>(budgets: usize, mut tick: impl FnMut(u64) + 'a) -> Box<dyn FnMut() -> u64 + 'a> {
    let mut now_ms = NOW_MS;
    Box::new(move || {
        now_ms += TICK_MS;
        tick(now_ms);
        budgets as u64
    })
}

/// A bank and a worker, each budget with a hold that was settled, one that was lost and one that is open.
struct Node {
    bank: Bank,
    purses: Purses,
}

impl Node {
    fn new(budgets: usize) -> Node {
        let options = PurseOptions { node: 1, hold_ms: 2_000 };
        let (hold_ms_max, mut out) = (options.hold_ms_max(), Out::default());
        let mut bank = Bank::new(Options { hold_ms_max, ..Options::default() });
        bank.start_run(NOW_MS, &mut out);
        let specs: Vec<BudgetSpec> = (0..budgets as u64).map(spec).collect();
        bank.configure(&specs, &mut out).expect("the budgets are sound");
        let mut purses = Purses::new(options, budgets);
        for (_, message) in out.messages.drain(..) {
            purses.take(message, NOW_MS);
        }
        let mut node = Node { bank, purses };
        for slot in 0..budgets as u32 {
            node.hold(slot, SPENT, Some((Action::Settle, SPENT)));
            node.hold(slot, SPENT / 100, Some((Action::Release, 0)));
            node.hold(slot, SPENT / 100, None);
        }
        node
    }

    fn hold(&mut self, slot: u32, amount: i64, end: Option<(Action, i64)>) {
        let at = self.purses.at(NOW_MS);
        let hold = self.purses.reserve(slot, Amount::new(amount), at);
        let hold = hold.expect("the first filling covers it");
        let Some((action, amount)) = end else { return };
        let origin = Origin { door: Door::Batch, request_id: 0 };
        let (amount, at_ms) = (Amount::new(amount), NOW_MS);
        let resolve = ToBank::Resolve { action, hold, amount, at_ms, origin, reply: 0 };
        self.bank.step(0, resolve, &mut Out::default());
    }

    /// A slow loop with a plan and a forecast for each budget.
    fn pacer(&self, strategy: Strategy, learned: bool) -> Pacer {
        let mut pacer = Pacer::new(PacerOptions::default());
        pacer.grow(self.bank.slots());
        let shape = Shape::default_day();
        for slot in 0..self.bank.slots() as u32 {
            let plan = plan(u64::from(slot), strategy, &shape);
            pacer.set_plan(slot, Pacing { learned, ..Pacing::of(plan) });
            if !learned {
                pacer.set_forecast(slot, forecast(u64::from(slot)));
            }
        }
        pacer
    }

    fn refresh(&self, pacer: &mut Pacer, now_ms: u64) -> Box<[Pace]> {
        let held = |slot| self.purses.held(slot);
        let now = Instant::from_ms(now_ms);
        let look = Look { bank: &self.bank, held: &held, now, tick_ms: TICK_MS, workers: 1 };
        pacer.parameters(look).into()
    }
}

fn flight() -> Window {
    Window { start: Instant::from_ms(START_MS), end: Instant::from_ms(START_MS + FLIGHT_MS) }
}

fn spec(id: u64) -> BudgetSpec {
    let Window { start, end } = flight();
    BudgetSpec {
        start,
        end,
        ..BudgetSpec::plain(id, Unit::parse("USD").expect("a currency"), Amount::new(LIMIT))
    }
}

fn plan(id: u64, strategy: Strategy, shape: &Shape) -> Plan {
    let spec = PlanSpec::new(id, strategy, flight(), Zone::utc());
    Plan::new(PlanSpec { shape: shape.clone(), ..spec }).expect("the plan is sound")
}

/// What is known of a budget's traffic, a landscape of its own with it.
fn forecast(id: u64) -> Forecast {
    let points = MULTIPLIERS.map(|multiplier| (multiplier, multiplier >> 20));
    Forecast {
        requests: 1_000_000 + id,
        landscape: Landscape::from_points(&points).ok().map(Arc::new),
        ..Forecast::default()
    }
}

/// Everything that the law needs, without a bank.
struct Row {
    plan: Plan,
    counters: Counters,
    forecast: Forecast,
    memo: Memo,
}

impl Row {
    fn pace(&mut self, now_ms: u64) -> Pace {
        let now = Instant::from_ms(now_ms);
        self.plan.parameters(&self.counters, &self.forecast, now, TICK_MS, 1, &mut self.memo)
    }
}

fn rows(strategy: Strategy, budgets: usize) -> Vec<Row> {
    let shape = Shape::default_day();
    let spent = Amount::new(SPENT);
    let evidence = Evidence { resolved: spent, paid: spent, won: spent, ..Evidence::default() };
    let counters = Counters {
        limit: Amount::new(LIMIT),
        life: Spend { settled: spent, open: Amount::new(SPENT / 100), ..Spend::default() },
        evidence,
        ..Counters::default()
    };
    let row = |id| Row {
        plan: plan(id, strategy, &shape),
        counters,
        forecast: forecast(id),
        memo: Memo::default(),
    };
    (0..budgets as u64).map(row).collect()
}

/// Says how much memory the slow loop takes: with plans alone, and when all budgets have learned for some hours.
fn print_memory(budgets: usize, hours: u64) {
    let mut node = Node::new(budgets);
    let before = resident_bytes();
    let mut pacer = node.pacer(Strategy::Curve, true);
    black_box(node.refresh(&mut pacer, NOW_MS));
    let plans = resident_bytes();
    for hour in 1..=hours {
        let now_ms = NOW_MS + hour * HOUR_MS;
        node.bank.tick(now_ms, &mut Out::default());
        let mut paces = node.refresh(&mut pacer, now_ms);
        for pace in &mut paces {
            black_box(pace.bid(hour, 5_000));
        }
        pacer.pass(HOUR_MS);
        pacer.used(0, &paces);
    }
    let learned = resident_bytes();
    let (Some(before), Some(plans), Some(learned)) = (before, plans, learned) else {
        println!("\nMemory of the slow loop: NOT MEASURED, /proc/self/status is not there.");
        return;
    };
    let each = |bytes: u64| bytes / budgets as u64;
    println!(
        "\nMemory of the slow loop, {budgets} budgets, growth of the process: {} B a budget, and {} B more when all of \
         them have learned for {hours} hours ({} B of it what they remember, the rest what follows for the day).",
        each(plans.saturating_sub(before)),
        each(learned.saturating_sub(plans)),
        size_of::<Learned>(),
    );
}

/// Memory of this process that is in use.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1_024)
}
