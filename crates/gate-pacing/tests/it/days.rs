//! A day of traffic through two workers and a bank that ticks once a second: does spend follow the plan, and is the
//! budget used up? Integers only, one seed, so every run is the same.

use gate_pacing::{Counters, Decision, Demand, Pace, Plan, Spend, Strategy};
use money::{Amount, Instant, Window, Zone, day_at};

const START_MS: u64 = 1_790_035_200_000;
const DAY_MS: u64 = 86_400_000;
const WORKERS: usize = 2;
/// A hold that nobody won is back after so many ms.
const HOLD_MS: u64 = 2_000;

/// Traffic of an hour of the day: a trough at night, a peak in the evening; on average about 100.
const BUSY: [u64; 24] = [
    40, 30, 25, 20, 20, 30, 50, 70, 90, 105, 115, 120, 120, 118, 118, 120, 125, 135, 150, 165, 170,
    160, 120, 70,
];

#[derive(Clone, Copy)]
struct Market {
    /// Requests a second at traffic 100.
    rate: u64,
    /// Asks are between half of this and one and a half times.
    ask: i64,
    /// One in so many is won.
    win: u64,
    /// What a win costs of its hold, percent.
    cost: i64,
    tick_ms: u64,
    /// The bank sees reservations only this many ticks late.
    late_ticks: usize,
    /// No traffic between these ms of the day.
    outage: (u64, u64),
}

const MARKET: Market = Market {
    rate: 40,
    ask: 4_000,
    win: 10,
    cost: 80,
    tick_ms: 1_000,
    late_ticks: 0,
    outage: (0, 0),
};

/// What came out of a day.
#[derive(Debug)]
struct Outcome {
    spent: i64,
    /// Largest distance of expected spend from the plan, in millionths of the budget, and how far above it.
    off_ppm: i64,
    above_ppm: i64,
}

struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below
    }
}

fn add(line: &mut Amount, amount: i64) {
    *line = line.checked_add(Amount::new(amount)).expect("small numbers");
}

/// The books and the two workers.
struct Node {
    counters: Counters,
    paces: [Pace; WORKERS],
    /// Open holds: when they end, and their sum with what of them was won.
    holds: std::collections::VecDeque<(u64, i64, i64)>,
    /// Counters as the pacing sees them, oldest first.
    seen: std::collections::VecDeque<Counters>,
    random: Random,
    requests: u64,
}

impl Node {
    fn left(&self) -> i64 {
        let life = self.counters.life;
        self.counters.limit.get() - life.settled.get() - life.open.get()
    }

    /// One tick's requests: decided by either worker, reserved where the ledger has the money.
    fn serve(&mut self, market: &Market, now_ms: u64) {
        let of_day = now_ms - START_MS;
        let busy = BUSY[usize::try_from(of_day / 3_600_000).expect("an hour")];
        let down = (market.outage.0..market.outage.1).contains(&of_day);
        let thousandths = if down { 0 } else { market.rate * busy * market.tick_ms / 100 };
        let count = thousandths / 1_000 + u64::from(self.random.next(1_000) < thousandths % 1_000);
        let (mut reserved, mut won) = (0, 0);
        for _ in 0..count {
            self.requests += 1;
            let ask = market.ask / 2
                + i64::try_from(self.random.next(market.ask.unsigned_abs())).expect("small");
            let worker = usize::try_from(self.requests).expect("small") % WORKERS;
            let (wins, amount) = (self.random.next(market.win) == 0, Amount::new(ask));
            self.counters.ask_max = self.counters.ask_max.max(amount);
            if self.paces[worker].decide(self.requests, amount) == Decision::Paced {
                continue;
            }
            if ask + reserved > self.left() {
                self.paces[worker].give_back(amount);
                continue;
            }
            reserved += ask;
            won += if wins { ask } else { 0 };
        }
        add(&mut self.counters.life.open, reserved);
        self.holds.push_back((now_ms + HOLD_MS, reserved, won));
    }

    /// Holds that end now: the won part is billed, the rest comes back.
    fn close(&mut self, market: &Market, now_ms: u64) {
        while self.holds.front().is_some_and(|(end_ms, ..)| *end_ms <= now_ms) {
            let Some((_, reserved, won)) = self.holds.pop_front() else { return };
            let paid = won * market.cost / 100;
            add(&mut self.counters.life.open, -reserved);
            add(&mut self.counters.life.settled, paid);
            add(&mut self.counters.reserved_closed, reserved);
            add(&mut self.counters.paid_closed, paid);
        }
    }

    fn tick(&mut self, plan: &Plan, market: &Market, now_ms: u64) {
        let asked = self.paces.iter().map(Pace::asked);
        self.counters.demand.add(Amount::total(asked).expect("small"), market.tick_ms);
        self.counters.today = self.counters.life;
        self.seen.push_back(self.counters);
        if self.seen.len() > market.late_ticks + 1 {
            self.seen.pop_front();
        }
        let workers = u32::try_from(WORKERS).expect("two");
        let pace =
            plan.parameters(&self.seen[0], Instant::from_ms(now_ms), market.tick_ms, workers);
        self.paces = [pace; WORKERS];
    }
}

fn run(strategy: Strategy, limit: i64, daily: bool, market: Market) -> Outcome {
    let flight =
        Window { start: Instant::from_ms(START_MS), end: Instant::from_ms(START_MS + DAY_MS) };
    let plan = Plan::new(7, strategy, flight, daily, Zone::utc(), None).expect("a valid plan");
    let day_limit = daily.then_some(Amount::new(limit));
    let limit_life = if daily { limit * 30 } else { limit };
    let counters = Counters {
        limit: Amount::new(limit_life),
        life: Spend::default(),
        day: day_at(flight.start, &Zone::utc()),
        day_limit,
        demand: Demand::default(),
        ..Counters::default()
    };
    let mut node = Node {
        counters,
        paces: [Pace::CLOSED; WORKERS],
        holds: std::collections::VecDeque::new(),
        seen: std::collections::VecDeque::new(),
        random: Random(1),
        requests: 0,
    };
    let (mut off_ppm, mut above_ppm) = (0, 0);
    let mut now_ms = START_MS;
    while now_ms < START_MS + DAY_MS {
        node.close(&market, now_ms);
        node.tick(&plan, &market, now_ms);
        node.serve(&market, now_ms);
        let progress = plan.progress(&node.counters, Instant::from_ms(now_ms));
        let ahead = i128::from(progress.spent.get() - progress.planned.get()) * 1_000_000
            / i128::from(limit);
        let ahead = i64::try_from(ahead).expect("millionths");
        off_ppm = off_ppm.max(ahead.abs());
        above_ppm = above_ppm.max(ahead);
        now_ms += market.tick_ms;
    }
    node.close(&market, u64::MAX);
    Outcome { spent: node.counters.life.settled.get(), off_ppm, above_ppm }
}

/// The market's 3.5 M requests cost 1,120 million micros if all take part: 320 micros each.
const LIMIT: i64 = 200_000_000;

#[allow(clippy::print_stdout, reason = "the figures of the documentation come from here")]
fn check(name: &str, outcome: &Outcome, limit: i64, off_ppm_max: i64) {
    println!(
        "{name}: spent {} ppm, off {} ppm, above {} ppm",
        outcome.spent * 1_000 / (limit / 1_000),
        outcome.off_ppm,
        outcome.above_ppm
    );
    assert!(outcome.spent <= limit, "{name}: {outcome:?}");
    assert!(outcome.spent >= limit / 1_000 * 990, "{name}: less than 99 % spent: {outcome:?}");
    assert!(outcome.off_ppm <= off_ppm_max, "{name}: far from its plan: {outcome:?}");
}

#[test]
fn asap_spends_all_of_it_early() {
    let outcome = run(Strategy::Asap, LIMIT, false, MARKET);
    check("asap", &outcome, LIMIT, 1_000_000);
}

#[test]
fn even_follows_a_straight_line() {
    check("even", &run(Strategy::Even, LIMIT, false, MARKET), LIMIT, 1_000);
    check("even, a day's limit", &run(Strategy::Even, LIMIT, true, MARKET), LIMIT, 1_000);
    let quick = Market { tick_ms: 100, ..MARKET };
    check("even, 10 ticks a second", &run(Strategy::Even, LIMIT, false, quick), LIMIT, 1_000);
}

#[test]
fn traffic_follows_its_curve() {
    check("traffic", &run(Strategy::Traffic, LIMIT, false, MARKET), LIMIT, 1_000);
    // 60 % of all there is to buy: a straight line could not be followed at night.
    let tight = 650_000_000;
    check("traffic, tight", &run(Strategy::Traffic, tight, true, MARKET), tight, 30_000);
}

#[test]
fn throttle_stays_near_its_line() {
    check("throttle", &run(Strategy::Throttle, LIMIT, false, MARKET), LIMIT, 10_000);
    check("throttle, a day's limit", &run(Strategy::Throttle, LIMIT, true, MARKET), LIMIT, 10_000);
}

/// Budgets of some hundred asks: a tick's share is much less than one of them.
#[test]
fn small_budgets_are_spent_too() {
    let small = Market { win: 1, cost: 100, ..MARKET };
    for strategy in [Strategy::Even, Strategy::Traffic, Strategy::Throttle] {
        check(
            &format!("{strategy}, small"),
            &run(strategy, 2_000_000, false, small),
            2_000_000,
            40_000,
        );
    }
}

/// A straight line that cannot be followed at night: it is caught up with in the day, without a burst beyond it.
#[test]
fn a_line_above_demand_is_caught_up_with() {
    let tight = 450_000_000;
    let outcome = run(Strategy::Even, tight, false, MARKET);
    check("even, tight", &outcome, tight, 150_000);
    assert!(outcome.above_ppm < 1_000, "{outcome:?}");
}

/// Everything reserved is paid, in full: the first guess of three in ten is far too low.
#[test]
fn fixed_prices_do_not_run_ahead() {
    let fixed = Market { win: 1, cost: 100, rate: 4, ..MARKET };
    for strategy in [Strategy::Even, Strategy::Traffic, Strategy::Throttle] {
        let outcome = run(strategy, LIMIT, false, fixed);
        check(&format!("{strategy}, fixed price"), &outcome, LIMIT, 10_000);
    }
}

/// Reservations that the bank learns of two ticks late may be allowed twice, but only a few ticks' shares.
#[test]
fn late_counters_bend_but_do_not_break() {
    let late = Market { late_ticks: 2, ..MARKET };
    check("even, late", &run(Strategy::Even, LIMIT, false, late), LIMIT, 3_000);
    check("throttle, late", &run(Strategy::Throttle, LIMIT, false, late), LIMIT, 10_000);
}

/// Half an hour without traffic: spend falls behind, catches up, and does not shoot beyond the plan.
#[test]
fn an_outage_is_made_up_for() {
    let outage = Market { outage: (12 * 3_600_000, 12 * 3_600_000 + 1_800_000), ..MARKET };
    for strategy in [Strategy::Even, Strategy::Traffic, Strategy::Throttle] {
        let outcome = run(strategy, LIMIT, false, outage);
        check(&format!("{strategy}, outage"), &outcome, LIMIT, 50_000);
        assert!(outcome.above_ppm < 10_000, "{strategy}: {outcome:?}");
    }
}
