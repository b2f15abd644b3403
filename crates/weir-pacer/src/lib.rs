//! The slow loop of pacing: from the bank's books to the parameters of every worker's fast path.
//!
//! What decides is derived at each tick from sums that the bank keeps. What the loop itself remembers are measurements:
//! requests seen, value won, what the landscape made it expect, the largest ask. After a restart they begin anew:
//! requests as if the forecast had been right so far, the others from where the books stand. `steer`, `auto` and a return on
//! spend look at them; `coin` does where there is no forecast.

use std::ops::Range;

use gate_pacing::{
    Before, Bought, Counters, Demand, Evidence, Forecast, History, LandscapeLearner, Memo, Mode,
    Pace, Plan, PlanSpec, Progress, Rebase, Spend, Strategy,
};
use ledger::{Amount, Bank, BudgetSpec, Line, Status, ToBank};
use money::{Instant, Window};

/// Parameters are handed out so long before a flight begins, beside ten ticks: workers are told with a delay.
const EARLY_MS: u64 = 2_000;

/// Forecasts made anew in one go, some ten microseconds each: at midnight thousands are due. Until its turn comes a budget
/// keeps the day before's.
const NEW_DAYS: usize = 16;

/// A budget that nobody asked, and of which nothing changed, gets new parameters this often.
const REST_MS: u64 = 1_000;

/// What a slow loop must know of the notices that come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacerOptions {
    /// As [`ledger::Options::win_notices`]: a hold that lapses was lost.
    pub win_notices: bool,
    /// Losses are told. `None`: find out, by whether most of what was resolved in time was lost.
    pub loss_notices: Option<bool>,
}

/// Those of a node: wins are told in time, losses perhaps.
impl Default for PacerOptions {
    fn default() -> PacerOptions {
        PacerOptions { win_notices: true, loss_notices: None }
    }
}

/// What a budget's own traffic has taught, for its later days. Keep the parts of both where a restart finds them.
#[derive(Clone, Debug, Default)]
pub struct Learned {
    /// Requests and spend by hour of the week.
    pub history: History,
    /// Spend by bid multiplier.
    pub landscape: LandscapeLearner,
}

impl Learned {
    /// What it says of a window, as far as it says anything.
    pub fn forecast(&self, window: &Window, zone: &money::Zone) -> Forecast {
        Forecast {
            requests: self.history.requests_in(window, zone),
            arrivals: self.history.arrivals(),
            landscape: self.landscape.landscape().map(std::sync::Arc::new),
            multiplier_q32: self.history.multiplier_q32(),
        }
    }
}

/// How a budget's spend is spread over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Pacing {
    /// The strategy and its plan. Where the plan is learned, this is what it begins with.
    pub plan: Plan,
    /// The plan's shape and what is expected of its traffic are learned from the traffic that comes.
    pub learned: bool,
    /// What a day should spend, where its cap allows more.
    pub day_target: Option<Amount>,
}

impl Pacing {
    /// Nothing is learned, and a day's target is its cap.
    pub fn of(plan: Plan) -> Pacing {
        Pacing { plan, learned: false, day_target: None }
    }

    /// Is the same traffic expected in the same window as of another?
    fn expects_as(&self, other: &Pacing) -> bool {
        let (a, b) = (self.plan.spec(), other.plan.spec());
        let window = a.daily && b.daily || !a.daily && !b.daily && a.flight == b.flight;
        let same = (a.strategy, &a.zone, &a.shape, &a.day_parts)
            == (b.strategy, &b.zone, &b.shape, &b.day_parts);
        self.learned == other.learned && window && same
    }
}

/// What a run leaves to the next one of a budget.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// What its traffic taught, if it had any.
    pub learned: Option<Box<Learned>>,
    /// The last change of its plan.
    pub rebase: Option<Rebase>,
}

/// How a budget stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// What slows its spend down.
    pub strategy: Strategy,
    /// Where it is on its plan.
    pub progress: Progress,
    /// The part of its value that it bids, Q32.
    pub multiplier_q32: u64,
    /// The part of requests that it takes part in, Q32.
    pub coin_q32: u64,
    /// Eligible requests of its window so far.
    pub seen: u64,
    /// How many would have come by now if the forecast were right; `None` without one.
    pub expected: Option<u64>,
}

/// The books, the budget, and what all workers together hold.
type Money<'a> = (&'a Bank, u32, &'a dyn Fn(u32) -> Amount);

/// What parameters are worked out from.
#[derive(Clone, Copy)]
pub struct Look<'a> {
    /// The books.
    pub bank: &'a Bank,
    /// What all workers together hold of the budget in a slot (see [`ledger::Purses::held`]).
    pub held: &'a dyn Fn(u32) -> Amount,
    /// The present.
    pub now: Instant,
    /// How long parameters are in use.
    pub tick_ms: u64,
    /// Each of so many workers gets a copy.
    pub workers: u32,
}

/// Plans by slot of the bank, and what pacing measures beside the books.
#[derive(Debug, Default)]
pub struct Pacer {
    options: PacerOptions,
    rows: Vec<Row>,
    /// The parameters that are live, by slot...
    live: Vec<Pace>,
    /// ...and whose budget was asked, or changed, since they were worked out.
    asked: Vec<bool>,
    /// How long parameters were in use, all in all.
    passed_ms: u64,
}

#[derive(Debug, Default)]
struct Row {
    /// As configured...
    pacing: Option<Pacing>,
    /// ...and as followed today.
    plan: Option<Plan>,
    forecast: Forecast,
    memo: Memo,
    parent: Option<u32>,
    rebase: Option<Rebase>,
    /// The plan's window, and the budget's civil day, that the measurements below belong to.
    window: Option<Window>,
    day: Option<Window>,
    /// Eligible requests since the last tick, and in the window.
    fresh: u64,
    seen: u64,
    predicted: Amount,
    value: Amount,
    demand: Demand,
    /// The time that `demand` knows of.
    passed_ms: u64,
    ask_max: Amount,
    bought: Bought,
    /// Reserved by holds that lapsed.
    lapsed: Amount,
    /// The multiplier and the coin that are live, Q32.
    live_q32: u64,
    coin_q32: u64,
    learned: Option<Box<Learned>>,
    /// The amount that was spent when `learned` saw it last.
    spent: Option<Amount>,
}

impl Pacer {
    /// A slow loop without plans.
    pub fn new(options: PacerOptions) -> Pacer {
        Pacer { options, ..Pacer::default() }
    }

    /// Makes room for the budgets of a bank. Those without a plan (an earlier run's) stay closed.
    pub fn grow(&mut self, slots: usize) {
        let slots = slots.max(self.rows.len());
        let passed_ms = self.passed_ms;
        self.rows.resize_with(slots, || Row { passed_ms, ..Row::default() });
        self.live.resize(slots, Pace::CLOSED);
        self.asked.resize(slots, true);
    }

    /// Gives the budget in a slot a plan, or another one.
    ///
    /// # Panics
    /// If there is no such slot, here and below: slots come from the bank, after [`Pacer::grow`].
    pub fn set_plan(&mut self, slot: u32, pacing: Pacing) {
        let row = self.row(slot);
        let same_traffic = row.plan.as_ref().zip(row.pacing.as_ref());
        let same_traffic = same_traffic.filter(|(_, known)| pacing.expects_as(known));
        let shape = same_traffic.map(|(plan, _)| plan.spec().shape.clone());
        if shape.is_none() {
            // What was learned may shape it: found out at the next tick.
            row.day = None;
        }
        if row.plan.as_ref().is_some_and(|plan| plan.spec().strategy != pacing.plan.spec().strategy)
        {
            // What this strategy looks at was not counted by the other.
            row.window = None;
        }
        // Learned this morning, it goes on as it is: it is of the same window.
        let spec = shape.map(|shape| PlanSpec { shape, ..pacing.plan.spec().clone() });
        let plan = spec.and_then(|spec| Plan::new(spec).ok());
        (row.plan, row.memo) = (Some(plan.unwrap_or_else(|| pacing.plan.clone())), Memo::default());
        row.pacing = Some(pacing);
    }

    /// Takes over what an earlier run left of a budget.
    pub fn recall(&mut self, slot: u32, known: Known) {
        let row = self.row(slot);
        row.learned = known.learned;
        row.rebase = known.rebase;
        row.day = None;
    }

    /// The last change of a budget's plan.
    pub fn rebased(&self, slot: u32) -> Option<Rebase> {
        self.rows.get(slot as usize)?.rebase
    }

    /// Says what is expected of the traffic of the plan's window.
    pub fn set_forecast(&mut self, slot: u32, forecast: Forecast) {
        self.row(slot).forecast = forecast;
    }

    /// Begins the plan of a budget that is new here at an instant, with nothing spent.
    pub fn begin(&mut self, slot: u32, at: Instant) {
        self.row(slot).rebase = Some(Rebase { at, planned: Amount::ZERO });
    }

    /// How a budget stands that is about to be edited; `None` without a plan. Arguments as of [`Pacer::standing`].
    pub fn before(
        &self,
        bank: &Bank,
        slot: u32,
        held: &dyn Fn(u32) -> Amount,
        now: Instant,
    ) -> Option<Before> {
        let Standing { strategy, progress, .. } = self.standing(bank, slot, held, now)?;
        Some(Before { progress, strategy, mode: mode(bank.spec(slot)) })
    }

    /// The bank and [`Pacer::set_plan`] have taken an edit of the budget: its plan changes where the edit changed what the
    /// plan is of, and goes on from where it was.
    pub fn edited(
        &mut self,
        bank: &Bank,
        slot: u32,
        held: &dyn Fn(u32) -> Amount,
        now: Instant,
        before: &Before,
    ) {
        let row = &self.rows[slot as usize];
        let Some(plan) = &row.plan else { return };
        let counters = row.counters((bank, slot, held), self.options);
        let rebase = plan.edited(before, mode(bank.spec(slot)), &counters, now);
        let row = self.row(slot);
        row.rebase = rebase.or(row.rebase);
    }

    /// Everything that was learned so far.
    pub fn learned(&self, slot: u32) -> Option<&Learned> {
        self.rows.get(slot as usize)?.learned.as_deref()
    }

    /// Somebody wanted to reserve this much. What a plan lets through in a tick is bounded by a rail of some of the
    /// largest asks; while no ask is known, what is behind the plan adds up until one passes.
    pub fn asked(&mut self, slot: u32, amount: Amount) {
        self.each_level(slot, |row| row.ask_max = row.ask_max.max(amount));
    }

    /// Watches what workers tell the bank.
    pub fn watch(&mut self, message: &ToBank) {
        match message {
            ToBank::Lapse { slot, amount, .. } => {
                self.each_level(*slot, |row| row.lapsed = saturating(row.lapsed, *amount));
            }
            ToBank::Want { slot, need } => self.asked(*slot, need.short),
            _ => {}
        }
    }

    /// Parameters were in use for so long: time passes once, however many workers there are.
    pub fn pass(&mut self, ms: u64) {
        self.passed_ms = self.passed_ms.saturating_add(ms);
    }

    /// Takes back parameters of the budgets from slot `first` on that a worker has used: they counted requests.
    pub fn used(&mut self, first: u32, paces: &[Pace]) {
        let passed_ms = self.passed_ms;
        for (slot, pace) in (first..).zip(paces).filter(|(_, pace)| pace.seen() > 0) {
            let (seen, ask_max) = (u64::from(pace.seen()), pace.ask_max());
            self.each_level(slot, |row| {
                row.pass(passed_ms);
                row.count(seen, ask_max);
            });
        }
    }

    /// A hold of the budget was settled within its amount: the landscape learns from it.
    pub fn settled(&mut self, slot: u32, reserved: Amount, paid: Amount) {
        self.each_level(slot, |row| {
            row.bought.add(paid);
            if let Some(learned) = &mut row.learned {
                learned.landscape.won(row.live_q32, reserved, paid);
            }
        });
    }

    /// The budget won something that is worth this much to it: for plans that want a return on what they spend.
    pub fn won_value(&mut self, slot: u32, value: Amount) {
        self.each_level(slot, |row| row.value = saturating(row.value, value));
    }

    /// It won something for which it had reserved this: worth what it would have bid at a multiplier of one.
    pub fn won_reserved(&mut self, slot: u32, reserved: Amount) {
        let Some(row) = self.rows.get(slot as usize) else { return };
        let value = (i128::from(reserved.get()) << 32) / i128::from(row.live_q32.max(1));
        self.won_value(slot, Amount::new(i64::try_from(value).unwrap_or(i64::MAX)));
    }

    /// New parameters of all budgets, one per slot.
    pub fn parameters(&mut self, look: Look<'_>) -> &[Pace] {
        self.asked.fill(true);
        self.work_out(0..self.rows.len(), 0, look);
        &self.live
    }

    /// Works the parameters of the budgets in some slots out anew where these were asked, or changed, or it is their turn in this round,
    /// the next of those that come every [`Look::tick_ms`]; of how many, is returned. A round goes over all slots in rising order: so
    /// parents, which are in the bank before their children, come before these.
    pub fn work_out(&mut self, slots: Range<usize>, round: u64, look: Look<'_>) -> usize {
        let rests = (REST_MS / look.tick_ms.max(1)).max(1);
        let (mut new_days, mut worked) = (NEW_DAYS, 0);
        for at in slots {
            let is_turn = (at as u64).wrapping_add(round).is_multiple_of(rests);
            if std::mem::take(&mut self.asked[at]) || is_turn {
                self.live[at] = self.work_out_one(at, look, &mut new_days);
                worked += 1;
            }
        }
        worked
    }

    fn work_out_one(&mut self, at: usize, look: Look<'_>, new_days: &mut usize) -> Pace {
        let Look { bank, held, now, tick_ms, workers } = look;
        let slot = u32::try_from(at).expect("slots are counted in 32 bits");
        let row = &mut self.rows[at];
        row.pass(self.passed_ms);
        row.learn(bank, slot, now, new_days);
        let pace = row.pace((bank, slot, held), self.options, (now, tick_ms, workers));
        row.parent = bank.spec(slot).parent.and_then(|id| bank.slot(id));
        let pool = row.parent.and_then(|parent| self.live.get(parent as usize));
        let pace = pool.map_or(pace, |pool| pace.within(pool));
        (row.live_q32, row.coin_q32) = (pace.multiplier_q32(), pace.threshold_q32());
        pace
    }

    /// The parameters that are live, by slot: as they were worked out last.
    pub fn live(&self) -> &[Pace] {
        &self.live
    }

    /// How the budget stands; `None` without a plan.
    pub fn standing(
        &self,
        bank: &Bank,
        slot: u32,
        held: &dyn Fn(u32) -> Amount,
        now: Instant,
    ) -> Option<Standing> {
        let row = self.rows.get(slot as usize)?;
        let plan = row.plan.as_ref()?;
        let counters = row.counters((bank, slot, held), self.options);
        let expected =
            (row.forecast.requests > 0).then(|| plan.expected(&counters, &row.forecast, now));
        Some(Standing {
            strategy: plan.spec().strategy,
            progress: plan.progress_by(&row.memo, &counters, &row.forecast, now),
            multiplier_q32: row.live_q32,
            coin_q32: row.coin_q32,
            seen: row.seen,
            expected,
        })
    }

    /// The budget and its parents. One that was made on its first ask has no row here, as it has no plan; and the plans of its
    /// parents learn nothing from it.
    fn each_level(&mut self, slot: u32, mut each: impl FnMut(&mut Row)) {
        let mut level = Some(slot);
        while let Some(at) = level.map(|slot| slot as usize).filter(|at| *at < self.rows.len()) {
            self.asked[at] = true;
            each(&mut self.rows[at]);
            level = self.rows[at].parent;
        }
    }

    /// A row that changes.
    fn row(&mut self, slot: u32) -> &mut Row {
        self.asked[slot as usize] = true;
        &mut self.rows[slot as usize]
    }
}

impl Row {
    /// Takes note of the time that passed, `passed_ms` all in all.
    fn pass(&mut self, passed_ms: u64) {
        let before_ms = std::mem::replace(&mut self.passed_ms, passed_ms);
        self.demand.add(0, passed_ms.saturating_sub(before_ms));
    }

    /// Counts eligible requests.
    fn count(&mut self, seen: u64, ask_max: Amount) {
        self.demand.add(seen, 0);
        self.ask_max = self.ask_max.max(ask_max);
        self.fresh = self.fresh.saturating_add(seen);
        self.seen = self.seen.saturating_add(seen);
        if let Some(landscape) = self.forecast.landscape.as_ref().filter(|_| self.predicts()) {
            let expected = landscape.expected(seen, self.live_q32);
            self.predicted = saturating(self.predicted, expected);
        }
        if self.pacing.as_ref().is_some_and(|pacing| pacing.learned) {
            // Made with the first request: most budgets of a large node rest.
            let learned = self.learned.get_or_insert_default();
            learned.landscape.seen(self.live_q32, seen);
        }
    }

    /// Does the strategy look at what the landscape made it expect? Working that out is half of counting.
    fn predicts(&self) -> bool {
        self.plan.as_ref().is_some_and(|plan| plan.spec().strategy.steers())
    }

    /// Takes what came since the last tick into what is learned, and a new day's forecast out of it.
    fn learn(&mut self, bank: &Bank, slot: u32, now: Instant, new_days: &mut usize) {
        let fresh = std::mem::take(&mut self.fresh);
        let (Some(pacing), Some(learned)) = (&self.pacing, &mut self.learned) else { return };
        let plan = &pacing.plan;
        let (spent, zone) = (bank.books(slot).spent(), &plan.spec().zone);
        let before = self.spent.replace(spent).unwrap_or(spent);
        let more = spent.checked_sub(before).unwrap_or(Amount::ZERO);
        learned.history.observe(now, zone, fresh, more, self.live_q32);
        let day = bank.day(slot).0;
        if self.day == Some(day) || *new_days == 0 {
            return;
        }
        *new_days -= 1;
        if self.day.replace(day).is_some() {
            learned.landscape.forget_half();
        }
        if !pacing.learned {
            return;
        }
        self.forecast = learned.forecast(&window(plan, day), zone);
        let shaped =
            learned.history.plan_shape().map(|shape| PlanSpec { shape, ..plan.spec().clone() });
        // A shape of hours fits every plan that is learned; if ever not, the configured one goes on.
        let shaped = shaped.and_then(|spec| Plan::new(spec).ok());
        self.plan = Some(shaped.unwrap_or_else(|| plan.clone()));
    }

    fn pace(
        &mut self,
        (bank, slot, held): Money<'_>,
        options: PacerOptions,
        (now, tick_ms, workers): (Instant, u64, u32),
    ) -> Pace {
        let spec = bank.spec(slot);
        if far_from_flight(spec, now, tick_ms) || spec.status == Status::Ended {
            // The purses are empty and know why: that is a better answer than "the plan says not now". A budget that left
            // the file before this run has no plan, either.
            return Pace::OPEN;
        }
        let Some(plan) = &self.plan else { return Pace::CLOSED };
        let mut counters = self.counters((bank, slot, held), options);
        let window = window(plan, counters.day);
        if self.window.replace(window) != Some(window) {
            self.value = Amount::ZERO;
            self.bought.forget_half();
            (self.seen, self.predicted) = plan.resume(&counters, &self.forecast, now);
            (counters.seen, counters.predicted, counters.value) =
                (self.seen, self.predicted, self.value);
        }
        plan.parameters(&counters, &self.forecast, now, tick_ms, workers, &mut self.memo)
    }

    fn counters(&self, (bank, slot, held): Money<'_>, options: PacerOptions) -> Counters {
        let books = bank.books(slot);
        let open = bank.unconfirmed(slot, &held);
        let today = |line| bank.day_line(slot, line);
        let spent_today = Line::SPENT.map(today);
        let daily = bank.spec(slot).windows.day_limit();
        Counters {
            limit: books.limit(),
            life: Spend {
                settled: books.spent(),
                confirmed: bank.confirmed(slot),
                open: saturating(open, books.line(Line::Suspended)),
                expired: books.line(Line::Expired),
            },
            day: bank.day(slot).0,
            day_cap: daily,
            day_target: self.pacing.as_ref().and_then(|pacing| pacing.day_target),
            today: Spend {
                settled: Amount::total(spent_today).unwrap_or(books.limit()),
                // Rests are of the last hour or so, thus nearly always of today.
                confirmed: today(Line::Held).min(bank.confirmed(slot)),
                open: saturating(open.min(today(Line::Purses)), today(Line::Suspended)),
                expired: today(Line::Expired),
            },
            evidence: self.evidence(bank, slot, options),
            demand: self.demand,
            seen: self.seen,
            predicted: self.predicted,
            value: self.value,
            ask_max: self.ask_max,
            bought: self.bought,
            rebase: self.rebase,
        }
    }

    fn evidence(&self, bank: &Bank, slot: u32, options: PacerOptions) -> Evidence {
        let known = bank.evidence(slot);
        let in_time = known.resolved.get().saturating_sub(known.expired_resolved.get());
        let (mut resolved, mut paid) = (known.resolved, known.paid);
        if options.win_notices {
            // The ledger has no record of holds that were lost in silence, but they lapsed as all others did. Those that
            // were won and wait for their bill are among them, so what they will come to counts as well.
            resolved = resolved.max(self.lapsed);
            let won = bank.confirmed(slot);
            paid = saturating(paid, share(won, known.paid, known.won));
        }
        Evidence {
            resolved,
            paid,
            won: known.won,
            expired_resolved: known.expired_resolved,
            expired_paid: known.expired_paid,
            loss_notices: options.loss_notices.unwrap_or(in_time > known.won.get()),
        }
    }
}

/// `amount * part / whole`, and all of it where the whole is nothing.
fn share(amount: Amount, part: Amount, whole: Amount) -> Amount {
    let product = i128::from(amount.get()) * i128::from(part.get());
    let share = product.checked_div(i128::from(whole.get()));
    Amount::new(share.and_then(|share| i64::try_from(share).ok()).unwrap_or(amount.get()))
}

/// Whether its owner lets a budget spend.
fn mode(spec: &BudgetSpec) -> Mode {
    match spec.status {
        Status::Active => Mode::Active,
        Status::Paused => Mode::Paused,
        Status::Ended => Mode::Ended,
    }
}

/// What the plan spreads its budget over.
fn window(plan: &Plan, day: Window) -> Window {
    if plan.spec().daily { day } else { plan.spec().flight }
}

/// Is the flight over, or does it begin so late that there will be other parameters by then?
fn far_from_flight(spec: &BudgetSpec, now: Instant, tick_ms: u64) -> bool {
    let soon_ms = now.ms().saturating_add(EARLY_MS).saturating_add(tick_ms.saturating_mul(10));
    now >= spec.end || soon_ms < spec.start.ms()
}

/// For measurements, which are no balances: at the end of the range they stay there.
fn saturating(a: Amount, b: Amount) -> Amount {
    Amount::new(a.get().saturating_add(b.get()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gate_pacing::{PlanSpec, Strategy};
    use ledger::{Need, Options, Out};
    use money::{Unit, Zone};
    use proptest::prelude::{Strategy as _, any, prop, prop_assert_eq, proptest};

    const START_MS: u64 = 978_307_200_000;
    const HOUR_MS: u64 = 3_600_000;
    const DAY_MS: u64 = 24 * HOUR_MS;

    fn at(ms: u64) -> Instant {
        Instant::from_ms(START_MS + ms)
    }

    fn flight() -> Window {
        Window { start: at(0), end: at(30 * DAY_MS) }
    }

    fn spec(id: u64, parent: Option<u64>) -> BudgetSpec {
        BudgetSpec {
            start: flight().start,
            end: flight().end,
            parent,
            ..BudgetSpec::plain(id, Unit::parse("USD").unwrap(), Amount::new(1_000_000))
        }
    }

    fn bank(specs: &[BudgetSpec]) -> Bank {
        let (mut bank, mut out) = (Bank::new(Options::default()), Out::default());
        bank.start_run(START_MS, &mut out);
        bank.configure(specs, &mut out).unwrap();
        bank
    }

    fn plan(id: u64, strategy: Strategy) -> Plan {
        Plan::new(PlanSpec::new(id, strategy, flight(), Zone::utc())).unwrap()
    }

    fn pacer(plans: &[Option<Plan>]) -> Pacer {
        let mut pacer = Pacer::default();
        pacer.grow(plans.len());
        for (slot, plan) in (0..).zip(plans) {
            plan.iter().for_each(|plan| pacer.set_plan(slot, Pacing::of(plan.clone())));
        }
        pacer
    }

    fn paces(pacer: &mut Pacer, bank: &Bank, now: Instant) -> Box<[Pace]> {
        pacer.parameters(look(bank, now)).into()
    }

    fn look(bank: &Bank, now: Instant) -> Look<'_> {
        Look { bank, held: &|_| Amount::ZERO, now, tick_ms: 1_000, workers: 1 }
    }

    #[test]
    fn only_what_is_near_its_flight_and_has_a_plan_is_paced() {
        let bank = bank(&[spec(1, None), spec(2, None)]);
        let mut pacer = pacer(&[Some(plan(1, Strategy::Curve)), None]);
        let during = paces(&mut pacer, &bank, at(HOUR_MS));
        assert!(during[0].multiplier_q32() < 1 << 32);
        assert_eq!(during[1], Pace::CLOSED);
        let after = paces(&mut pacer, &bank, flight().end);
        assert_eq!(after[..2], [Pace::OPEN; 2], "the ledger knows that it has ended");
    }

    #[test]
    fn budgets_that_templates_made_are_not_paced() {
        let mut pacer = pacer(&[None]);
        let (slot, amount) = (ledger::MADE_SLOT, Amount::new(5));
        let need = Need { asked: amount, short: amount, called: amount, ..Need::default() };
        pacer.watch(&ToBank::Want { slot, need });
        pacer.watch(&ToBank::Lapse { slot, grant: 1, deadline_ms: 1, amount, holds: 1 });
        pacer.settled(slot, amount, amount);
        pacer.won_reserved(slot, amount);
        assert_eq!(pacer.rows[0].ask_max, Amount::ZERO);
    }

    #[test]
    fn a_parent_paces_its_children_and_counts_their_requests() {
        let bank = bank(&[spec(1, None), spec(2, Some(1)), spec(3, Some(2))]);
        let plans = [(1, Strategy::Curve), (2, Strategy::Asap), (3, Strategy::Asap)];
        let mut pacer = pacer(&plans.map(|(id, strategy)| Some(plan(id, strategy))));
        let mut paces = paces(&mut pacer, &bank, at(HOUR_MS));
        let pool = paces[0].multiplier_q32();
        assert!(pool < 1 << 32);
        assert_eq!([1, 2].map(|slot: usize| paces[slot].multiplier_q32()), [pool, pool]);
        (0..10).for_each(|id| assert!(paces[2].bid(id, 100).is_some()));
        pacer.pass(1_000);
        pacer.used(0, &paces);
        pacer.used(2, &paces[2..]);
        assert_eq!([0, 1, 2].map(|slot: usize| pacer.rows[slot].seen), [20, 20, 20]);
        assert_eq!(pacer.rows[0].demand.ms, 1_000, "time passes once");
        pacer.won_value(2, Amount::new(9));
        assert_eq!([0, 1, 2].map(|slot: usize| pacer.rows[slot].value.get()), [9, 9, 9]);
    }

    #[test]
    fn a_budget_that_was_made_on_its_first_ask_has_nothing_here() {
        let mut pacer = pacer(&[Some(plan(1, Strategy::Curve))]);
        let made = 1 << 31;
        pacer.asked(made, Amount::new(5));
        pacer.settled(made, Amount::new(5), Amount::new(4));
        pacer.won_reserved(made, Amount::new(5));
        assert_eq!(pacer.rows[0].ask_max, Amount::ZERO);
    }

    #[test]
    fn measurements_are_of_the_window() {
        let mut daily = spec(1, None);
        daily.windows = ledger::Windows::daily(Some(Amount::new(1_000)));
        let (mut bank, mut out) = (bank(&[daily]), Out::default());
        let mut of_days = PlanSpec::new(1, Strategy::Curve, flight(), Zone::utc());
        of_days.daily = true;
        let mut pacer = pacer(&[Some(Plan::new(of_days).unwrap())]);
        paces(&mut pacer, &bank, at(HOUR_MS));
        pacer.won_value(0, Amount::new(7));
        paces(&mut pacer, &bank, at(DAY_MS - 1));
        assert_eq!(pacer.rows[0].value, Amount::new(7));
        bank.tick(START_MS + DAY_MS, &mut out);
        paces(&mut pacer, &bank, at(DAY_MS));
        assert_eq!(pacer.rows[0].value, Amount::ZERO);
    }

    #[test]
    fn what_a_day_taught_is_the_forecast_of_the_next() {
        let (mut bank, mut out) = (bank(&[spec(1, None)]), Out::default());
        let mut pacer = pacer(&[Some(plan(1, Strategy::Curve))]);
        let learning = Pacing { learned: true, ..Pacing::of(plan(1, Strategy::Curve)) };
        pacer.set_plan(0, learning);
        for ms in (0..2 * DAY_MS).step_by(60_000) {
            bank.tick(START_MS + ms, &mut out);
            let mut paces = paces(&mut pacer, &bank, at(ms));
            (0..5).for_each(|id| assert!(paces[0].bid(ms + id, 100).is_some()));
            pacer.pass(60_000);
            pacer.used(0, &paces);
            pacer.settled(0, Amount::new(100), Amount::new(50));
        }
        bank.tick(START_MS + 2 * DAY_MS, &mut out);
        paces(&mut pacer, &bank, at(2 * DAY_MS));
        let forecast = &pacer.rows[0].forecast;
        let expected = 5 * 60 * 24 * 30;
        assert!(forecast.requests.abs_diff(expected) < expected / 10, "{}", forecast.requests);
        assert!(forecast.arrivals.is_some() && forecast.multiplier_q32.is_some());
        assert!(pacer.learned(0).is_some_and(|learned| learned.landscape.landscape().is_some()));
    }

    /// Does this to the budget in slot 0, as the bank's thread does.
    fn edit(
        pacer: &mut Pacer,
        bank: &mut Bank,
        now: Instant,
        change: impl FnOnce(&mut BudgetSpec),
    ) {
        let before = pacer.before(bank, 0, &|_| Amount::ZERO, now).unwrap();
        let mut spec = bank.spec(0).clone();
        change(&mut spec);
        bank.amend(&[spec], &mut Out::default()).unwrap();
        pacer.edited(bank, 0, &|_| Amount::ZERO, now, &before);
    }

    fn of_days(strategy: Strategy) -> (Bank, Pacer) {
        let windows = ledger::Windows::daily(Some(Amount::new(10_000)));
        let daily = BudgetSpec { windows, ..spec(1, None) };
        let plan = PlanSpec { daily: true, ..PlanSpec::new(1, strategy, flight(), Zone::utc()) };
        let pacing = Pacing { learned: true, ..Pacing::of(Plan::new(plan).unwrap()) };
        let mut pacer = Pacer::default();
        pacer.grow(1);
        pacer.set_plan(0, pacing);
        (bank(&[daily]), pacer)
    }

    #[test]
    fn edits_beside_the_days_target_change_no_parameter() {
        for strategy in Strategy::ALL {
            let (mut bank, mut pacer) = of_days(strategy);
            bank.tick(START_MS + 6 * HOUR_MS, &mut Out::default());
            let now = at(6 * HOUR_MS);
            let before = paces(&mut pacer, &bank, now);
            edit(&mut pacer, &mut bank, now, |spec| spec.limit = Amount::new(1_000_100));
            assert_eq!(paces(&mut pacer, &bank, now), before, "{strategy}: a limit");
            edit(&mut pacer, &mut bank, now, |spec| spec.end = at(29 * DAY_MS));
            assert_eq!(paces(&mut pacer, &bank, now), before, "{strategy}: an end far away");
            assert_eq!(pacer.rebased(0), None, "{strategy}");
        }
    }

    #[test]
    fn a_pause_of_hours_stops_the_plan_and_one_over_midnight_begins_it() {
        let (mut bank, mut pacer) = of_days(Strategy::Curve);
        let mut at_hour = |pacer: &mut Pacer, hour: u64, status: Option<Status>| {
            bank.tick(START_MS + hour * HOUR_MS, &mut Out::default());
            let now = at(hour * HOUR_MS);
            if let Some(status) = status {
                edit(pacer, &mut bank, now, |spec| spec.status = status);
            }
            let planned =
                pacer.standing(&bank, 0, &|_| Amount::ZERO, now).unwrap().progress.planned;
            (planned.get(), paces(pacer, &bank, now)[0].multiplier_q32())
        };
        let (planned, multiplier) = at_hour(&mut pacer, 6, Some(Status::Paused));
        assert!((2_450..2_550).contains(&planned), "{planned}");
        // Twelve hours later a quarter of the day's money is planned as it was, and the rest is for the six that are left.
        assert_eq!(at_hour(&mut pacer, 18, Some(Status::Active)), (planned, multiplier));
        let (later, _) = at_hour(&mut pacer, 21, None);
        assert!((6_200..6_400).contains(&later), "{later}");
        at_hour(&mut pacer, 22, Some(Status::Paused));
        let (resumed, _) = at_hour(&mut pacer, 24 + 12, Some(Status::Active));
        assert_eq!(resumed, 0, "the plan of a new day begins at the resume");
        let (later, _) = at_hour(&mut pacer, 24 + 18, None);
        assert!((4_950..5_100).contains(&later), "{later}");
    }

    #[test]
    fn an_edit_of_a_learned_plan_keeps_what_the_day_began_with() {
        let (mut bank, mut pacer) = of_days(Strategy::Curve);
        let mut out = Out::default();
        for ms in (0..2 * DAY_MS + HOUR_MS).step_by(60_000) {
            bank.tick(START_MS + ms, &mut out);
            let mut paces = paces(&mut pacer, &bank, at(ms));
            (0..5 + ms / HOUR_MS % 24).for_each(|id| assert!(paces[0].bid(ms + id, 1).is_some()));
            pacer.pass(60_000);
            pacer.used(0, &paces);
            pacer.settled(0, Amount::new(100), Amount::new(50));
        }
        let now = at(2 * DAY_MS + HOUR_MS);
        let tick = |pacer: &mut Pacer| {
            let paces = paces(pacer, &bank, now);
            let Row { plan, forecast, .. } = &pacer.rows[0];
            (paces, forecast.clone(), plan.as_ref().unwrap().spec().shape.clone())
        };
        let before = tick(&mut pacer);
        assert!(before.1.requests > 0 && before.2 != gate_pacing::Shape::linear());
        let known = pacer.rows[0].pacing.clone().unwrap();
        pacer.set_plan(0, Pacing { day_target: Some(Amount::new(10_000)), ..known.clone() });
        assert_eq!(tick(&mut pacer), before);
        let shape = gate_pacing::Shape::default_day();
        let other = PlanSpec { shape: shape.clone(), ..known.plan.spec().clone() };
        pacer.set_plan(0, Pacing::of(Plan::new(other).unwrap()));
        assert_eq!(tick(&mut pacer).2, shape, "another plan is another plan");
    }

    #[test]
    fn whether_losses_are_told_is_found_out() {
        let bank = bank(&[spec(1, None)]);
        let of = |loss_notices| {
            let options = PacerOptions { win_notices: false, loss_notices };
            Row::default().evidence(&bank, 0, options).loss_notices
        };
        assert_eq!([None, Some(true), Some(false)].map(of), [false, true, false]);
    }

    #[test]
    fn silent_losses_count_as_resolved_where_wins_are_told() {
        let bank = bank(&[spec(1, None)]);
        let mut pacer = pacer(&[Some(plan(1, Strategy::Curve))]);
        let amount = Amount::new(70);
        pacer.watch(&ToBank::Lapse { slot: 0, grant: 1, deadline_ms: 1, amount, holds: 1 });
        assert_eq!(pacer.rows[0].evidence(&bank, 0, PacerOptions::default()).resolved, amount);
        let silent = PacerOptions { win_notices: false, loss_notices: None };
        assert_eq!(pacer.rows[0].evidence(&bank, 0, silent).resolved, Amount::ZERO);
    }

    /// A budget of a test: the id of its parent, if it has one, and whether it is asked in every round.
    #[derive(Clone, Copy, Debug)]
    struct Member {
        parent: Option<u32>,
        strategy: Strategy,
        is_busy: bool,
    }

    fn member() -> impl proptest::strategy::Strategy<Value = Member> {
        let one_of = proptest::sample::select(Strategy::ALL.to_vec());
        (proptest::option::of(1..4_u32), one_of, any::<bool>())
            .prop_map(|(parent, strategy, is_busy)| Member { parent, strategy, is_busy })
    }

    /// A bank with these budgets, and who they are by its slots.
    fn family(mut members: Vec<Member>) -> (Bank, Vec<Member>) {
        for at in (0..members.len()).rev() {
            members[at].parent = members[at].parent.filter(|parent| *parent as usize <= at);
            // A parent of one that rests is asked by another: else both come once per second, each in its own turn.
            let parent = members[at].parent;
            parent.into_iter().for_each(|parent| members[parent as usize - 1].is_busy = true);
        }
        let specs: Vec<_> = (1..)
            .zip(&members)
            .map(|(id, member)| spec(id, member.parent.map(u64::from)))
            .collect();
        let bank = bank(&specs);
        let by_slot =
            (0..40).map(|slot| members[usize::try_from(bank.spec(slot).id).unwrap() - 1]).collect();
        (bank, by_slot)
    }

    /// Everybody who is busy asks, and wins.
    fn ask(pacer: &mut Pacer, members: &[Member], (round, tick_ms): (u64, u64)) {
        let mut live = pacer.live().to_vec();
        for (slot, _) in (0..).zip(members).filter(|(_, member)| member.is_busy) {
            (0..5).for_each(|id| _ = live[slot as usize].bid(id << 40 ^ round, 1_000));
            pacer.settled(slot, Amount::new(900), Amount::new(700));
            pacer.won_reserved(slot, Amount::new(900 + i64::from(slot)));
        }
        pacer.pass(tick_ms);
        pacer.used(0, &live[..20]);
        pacer.used(20, &live[20..]);
    }

    proptest! {
        #[test]
        fn rounds_in_pieces_come_to_what_all_at_once_does(
            members in prop::collection::vec(member(), 40), hour in 0..48_u64, slow: bool,
            cuts in prop::collection::vec(1..40_usize, 40),
        ) {
            let (mut bank, members) = family(members);
            let tick_ms = if slow { 1_000 } else { 250 };
            let pacing = |slot: u32| {
                let plan = plan(bank.spec(slot).id, members[slot as usize].strategy);
                Pacing { learned: slot.is_multiple_of(4), ..Pacing::of(plan) }
            };
            let mut whole = Pacer::default();
            let mut pieces = Pacer::default();
            for pacer in [&mut whole, &mut pieces] {
                pacer.grow(members.len());
                (0..40).for_each(|slot| pacer.set_plan(slot, pacing(slot)));
            }
            let mut expected = vec![Pace::CLOSED; members.len()];
            let mut cuts = cuts.into_iter().cycle();
            for round in 0..16 {
                let now = at(hour * HOUR_MS + round * tick_ms);
                bank.tick(now.ms(), &mut Out::default());
                let look = Look { tick_ms, ..look(&bank, now) };
                let all = whole.parameters(look).to_vec();
                let mut from = 0;
                while from < members.len() {
                    let to = members.len().min(from + cuts.next().unwrap());
                    pieces.work_out(from..to, round, look);
                    from = to;
                }
                for at in 0..members.len() {
                    let is_turn = (at as u64 + round).is_multiple_of(1_000 / tick_ms);
                    if members[at].is_busy || round == 0 || is_turn {
                        expected[at] = all[at];
                    }
                    prop_assert_eq!(pieces.live()[at], expected[at], "round {}, slot {}", round, at);
                }
                for pacer in [&mut whole, &mut pieces] {
                    ask(pacer, &members, (round, tick_ms));
                }
            }
        }
    }
}
