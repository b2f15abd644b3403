//! The bank, the purses and the slow loop of a node, composed without threads and with a clock that is told the time.
//!
//! Everything that decides about money or pace is what the node runs: [`ledger::Bank`], [`ledger::Purses`] and
//! [`Pacer`]. What is left out: threads, sockets, the journal (a restart rebuilds the bank from its parts, as a start
//! from a snapshot does).
//!
//! # What a simulated second does to purses
//! A node's worker and its bank exchange messages some 200 times per second. In a purse lies what the worker needs until
//! the next exchange; an ask that finds the purse empty is refused, and right again 5 ms later. Here the clock stands
//! still between two ticks, so an exchange costs nothing: the engine asks the bank for each hold, exactly as much as
//! it takes, and a purse that is given more (the first filling, the next day's, holds that lapsed) gives it back at
//! once. So between two calls no money lies in purses, and answers depend neither on how many workers there are nor on
//! how near its end the budget is: what can be reserved is what is free in the bank. All workers share one table of
//! paces, and no rail is put on what a tick may reserve (see [`Pacer::asked`]): it would depend on bids that a restart
//! forgets.
//!
//! # What a restart changes
//! The bank does not know which holds a killed worker had made, only what it had been given; that is suspended until
//! the last of its holds is over, then expired. As nothing else lies in purses, what is suspended is what was held, and
//! the answers after a restart are those without it, but for what nobody speaks of: such holds expire up to two minutes
//! later than they would have, and until then the plan expects of them what it expects of open holds. `steer` also
//! forgets what it measured of the day's traffic.

use gate_auction::Rank;
use gate_pacing::{Forecast, Pace, Plan, PlanError, PlanSpec, Progress};
use ledger::{
    Action, Amount, At, Bank, Books, BudgetSpec, Door, Hold, Line, Need, No, OnExpiry, Options,
    Origin, Out, PurseOptions, Purses, Restore, SpecError, ToBank, ToWorker, Verdict,
};
use money::{ASK_MAX, Instant, Unit, Window};
use table::spread;
use weir_pacer::{Look, Pacer, PacerOptions, Pacing};

/// Most workers of an engine.
pub const WORKERS_MAX: u16 = 16;
/// Grants are replaced when their numbers run out or their day ends, not because time passed: each replacement would
/// fill a purse that nobody asked to be filled.
const NEVER_MS: u64 = 100 * 365 * 86_400_000;
/// Number of the simulated node.
const NODE: u16 = 1;
/// Separates ties from other uses of hashed ids.
const TIE: u64 = u64::from_le_bytes(*b"tie/1\0\0\0");

/// How an engine behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineOptions {
    /// Workers, 1 ..= [`WORKERS_MAX`].
    pub workers: u16,
    /// Time between two calls of [`Engine::tick`], ms.
    pub tick_ms: u64,
    /// A bid of which nothing is heard for this long, rounded up by an eighth at most, is expired, ms.
    pub hold_ms: u64,
    /// A bid that was confirmed waits this long for its settlement, ms.
    pub billing_ms: u64,
    /// Wins are confirmed within `hold_ms`, so that a bid of which nothing is heard is lost. If not, its money is kept
    /// (see [`OnExpiry`]).
    pub win_notices: bool,
    /// Losses are told too. `None`: find out from whether any was.
    pub loss_notices: Option<bool>,
    /// Whose offer goes first where several campaigns want a request.
    pub rank: Rank,
}

impl Default for EngineOptions {
    fn default() -> EngineOptions {
        EngineOptions {
            workers: 1,
            tick_ms: 1_000,
            hold_ms: 120_000,
            billing_ms: 3_600_000,
            win_notices: false,
            loss_notices: None,
            rank: Rank::Bid,
        }
    }
}

/// A campaign with a budget of its own, in USD micros.
#[derive(Clone, Debug)]
pub struct EngineCampaign {
    /// Its id, unique.
    pub id: u64,
    /// What it may spend, 0 ..= [`money::LIMIT_MAX`].
    pub limit: Amount,
    /// Its flight.
    pub day: Window,
    /// How it spends.
    pub plan: PlanSpec,
    /// What is known of its traffic beforehand.
    pub forecast: Forecast,
    /// What becomes of bids of which nothing is heard.
    pub on_expiry: OnExpiry,
    /// The amount that may be spent in spite of such bids, millionths of the limit.
    pub tolerance_ppm: u32,
}

/// Why there is no engine for these campaigns.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum EngineError {
    /// More workers than an engine can have, or none.
    #[error("{found} workers, expected 1 to {WORKERS_MAX}")]
    Workers {
        /// How many were asked for.
        found: u16,
    },
    /// Times that do not make sense.
    #[error("{field} is {found} ms, expected 1 to {max}")]
    Time {
        /// Which option.
        field: &'static str,
        /// The value that was given.
        found: u64,
        /// The largest.
        max: u64,
    },
    /// The ledger does not take the budgets: the first of its reasons.
    #[error(transparent)]
    Budget(#[from] SpecError),
    /// A campaign cannot be spent as it says.
    #[error("campaign {id}: {error}")]
    Plan {
        /// The campaign.
        id: u64,
        /// Why not.
        error: PlanError,
    },
}

/// One worker.
struct Worker {
    purses: Purses,
    at: At,
}

/// The composition. Campaigns are known by their place in the list given to [`Engine::new`].
pub struct Engine {
    options: EngineOptions,
    campaigns: Vec<EngineCampaign>,
    bank: Bank,
    workers: Vec<Worker>,
    pacer: Pacer,
    paces: Box<[Pace]>,
    out: Out,
    now_ms: u64,
    refreshed_ms: u64,
    ties: Vec<u64>,
}

impl Engine {
    /// An engine at `start_ms` (milliseconds since 1970).
    ///
    /// # Errors
    /// [`EngineError`] if an option or a campaign cannot be.
    pub fn new(
        options: EngineOptions,
        campaigns: Vec<EngineCampaign>,
        start_ms: u64,
    ) -> Result<Engine, EngineError> {
        check(&options)?;
        let specs: Vec<BudgetSpec> = campaigns.iter().map(spec).collect();
        let pacer = pacer(&options, &campaigns)?;
        let mut out = Out::default();
        let mut bank = Bank::new(bank_options(&options));
        bank.start_run(start_ms, &mut out);
        bank.configure(&specs, &mut out).map_err(first)?;
        for (place, campaign) in (0..).zip(&campaigns) {
            assert_eq!(bank.slot(campaign.id), Some(place), "slots follow the order of the set");
        }
        let ties = campaigns.iter().map(|campaign| spread(campaign.id ^ TIE)).collect();
        let mut engine = Engine {
            options,
            campaigns,
            bank,
            workers: Vec::new(),
            pacer,
            paces: Box::default(),
            out,
            now_ms: start_ms,
            refreshed_ms: start_ms,
            ties,
        };
        engine.begin();
        Ok(engine)
    }

    /// Lets time pass: what is due happens, then all paces are made anew. Call it once a simulated second.
    pub fn tick(&mut self, now_ms: u64) {
        self.advance(now_ms);
        self.refresh();
    }

    /// The first half of [`Engine::tick`]: holds expire, days and flights begin and end. A time before the last one
    /// counts as the last one. Who settles and releases between the two halves has it in the paces at once.
    pub fn advance(&mut self, now_ms: u64) {
        self.now_ms = self.now_ms.max(now_ms);
        for worker in &mut self.workers {
            worker.at = worker.purses.at(self.now_ms);
            worker.purses.turn(self.now_ms);
            worker.purses.tick(self.now_ms);
        }
        self.exchange();
        self.bank.tick(self.now_ms, &mut self.out);
        self.exchange();
    }

    /// The second half of [`Engine::tick`]: new paces.
    pub fn refresh(&mut self) {
        let passed_ms = self.now_ms - self.refreshed_ms;
        self.refreshed_ms = self.now_ms;
        self.pacer.pass(passed_ms);
        self.pacer.used(0, &self.paces);
        let workers = &self.workers;
        let held = |slot| held(workers, slot);
        let (now, tick_ms) = (Instant::from_ms(self.now_ms), self.options.tick_ms);
        let look = Look { bank: &self.bank, held: &held, now, tick_ms, workers: 1 };
        self.paces.copy_from_slice(self.pacer.parameters(look));
    }

    /// What the campaign bids for a request that is worth `value` to it: at most that. `None`: not now. Nothing is
    /// reserved. `request_hash` must be spread over all 64 bits.
    #[inline]
    pub fn bid(
        &mut self,
        worker: u16,
        campaign: usize,
        request_hash: u64,
        value: i64,
    ) -> Option<i64> {
        debug_assert!(worker < self.options.workers, "there are {}", self.options.workers);
        self.paces[campaign].bid(request_hash, value)
    }

    /// The larger the better a campaign's offer is: of what a request is worth to it and of what it bids.
    #[inline]
    pub fn score(&self, value: i64, bid: i64) -> u64 {
        self.options.rank.score(value, bid)
    }

    /// Would [`Engine::reserve`] take it? Who cannot reserve is out of an auction before prices are made.
    #[inline]
    pub fn able(&self, worker: u16, campaign: usize, amount: i64) -> bool {
        debug_assert!(worker < self.options.workers, "there are {}", self.options.workers);
        let amount = Amount::new(amount);
        amount.is_ask() && self.paces[campaign].allows(amount) && amount <= self.available(campaign)
    }

    /// Sets the amount aside. `None`: the plan, the flight or the money that is left does not allow it.
    pub fn reserve(&mut self, worker: u16, campaign: usize, amount: i64) -> Option<Hold> {
        if !self.able(worker, campaign, amount) {
            return None;
        }
        let (slot, amount) = (slot(campaign), Amount::new(amount));
        self.fill(worker, slot, amount);
        let Worker { purses, at } = &mut self.workers[usize::from(worker)];
        let Ok(hold) = purses.reserve(slot, amount, *at) else {
            // The flight is over, or has not begun: whatever was filled in goes back.
            self.empty(worker, slot);
            self.exchange();
            return None;
        };
        self.paces[campaign].take(amount);
        Some(hold)
    }

    /// Books a bid that was won and costs `price`. Repeating it gives the first answer again, here and below.
    pub fn settle(&mut self, worker: u16, hold: &Hold, price: i64) -> Verdict {
        self.resolve(worker, Action::Settle, hold, Amount::new(price)).0
    }

    /// Gives back a bid that was lost.
    pub fn release(&mut self, worker: u16, hold: &Hold) -> Verdict {
        self.resolve(worker, Action::Release, hold, Amount::ZERO).0
    }

    /// Says that a bid was won: its settlement follows within `billing_ms`.
    pub fn confirm(&mut self, worker: u16, hold: &Hold) -> Verdict {
        self.resolve(worker, Action::Confirm, hold, Amount::ZERO).0
    }

    /// Everything that was billed for bids made up to this instant is settled by now: what of them is expired and was
    /// not spoken of was lost.
    pub fn reconcile(&mut self, decided_until_ms: u64) {
        // A hold lives at least `hold_ms`: one with a deadline up to this was made early enough.
        let until_ms = decided_until_ms.saturating_add(self.options.hold_ms);
        self.bank.reconcile(None, until_ms, &mut self.out);
        self.exchange();
    }

    /// A kill -9 and a start: purses, paces and everything the slow loop remembers are gone; the bank comes back from
    /// its parts, and a new run begins.
    ///
    /// # Panics
    /// If the bank does not come back as it was: a bug of the ledger.
    pub fn restart(&mut self) {
        let mut restore = Restore::new(bank_options(&self.options));
        let mut refused = None;
        self.bank.parts(&mut |part| {
            if refused.is_none() {
                refused = restore.take(part).err();
            }
        });
        assert_eq!(refused, None, "a bank takes its own parts");
        self.bank = restore.finish().expect("a bank takes its own parts");
        self.out = Out::default();
        self.bank.start_run(self.now_ms, &mut self.out);
        self.pacer = pacer(&self.options, &self.campaigns).expect("it was made before");
        self.begin();
    }

    /// What of the campaign's money is spent: settled, over-settled and late.
    pub fn settled(&self, campaign: usize) -> i64 {
        self.books(campaign).spent().get()
    }

    /// The books of the campaign.
    pub fn books(&self, campaign: usize) -> Books {
        *self.bank.books(slot(campaign))
    }

    /// The bid multiplier of the campaign until the next tick, Q32.
    pub fn multiplier_q32(&self, campaign: usize) -> u64 {
        self.paces[campaign].multiplier_q32()
    }

    /// Where the campaign stands on its plan.
    pub fn progress(&self, campaign: usize) -> Option<Progress> {
        let now = Instant::from_ms(self.now_ms);
        let of_slot = |slot| held(&self.workers, slot);
        let standing = self.pacer.standing(&self.bank, slot(campaign), &of_slot, now);
        standing.map(|standing| standing.progress)
    }

    /// Counts value that was won, for campaigns that want a return on what they spend.
    pub fn won_value(&mut self, campaign: usize, value: i64) {
        self.pacer.won_value(slot(campaign), Amount::new(value));
    }

    /// The campaigns, in their order.
    pub fn campaigns(&self) -> &[EngineCampaign] {
        &self.campaigns
    }

    /// Is it the campaign's flight now?
    pub fn is_in_flight(&self, campaign: usize) -> bool {
        self.campaigns[campaign].day.contains(Instant::from_ms(self.now_ms))
    }

    /// The hash that breaks ties between campaigns, to be mixed with the request's.
    #[inline]
    pub fn tie(&self, campaign: usize) -> u64 {
        self.ties[campaign]
    }

    /// The bank, for reports.
    pub fn bank(&self) -> &Bank {
        &self.bank
    }

    /// Is all of the bank's state sound, and nothing handed out above a limit?
    ///
    /// # Errors
    /// What is not.
    pub fn audit(&self) -> Result<(), String> {
        self.bank.audit()?;
        for (place, campaign) in self.campaigns.iter().enumerate() {
            let books = self.books(place);
            let within = i128::from(books.exposure().get()) - i128::from(books.debts().get());
            let limit = i128::from(campaign.limit.get());
            let more = limit * i128::from(campaign.tolerance_ppm) / 1_000_000;
            if within > limit + more {
                return Err(format!(
                    "campaign {}: {within} is out, the limit is {limit}",
                    campaign.id
                ));
            }
        }
        Ok(())
    }

    /// Workers with nothing, at the start of a run.
    fn begin(&mut self) {
        let purse_options = PurseOptions { node: NODE, hold_ms: self.options.hold_ms };
        let slots = self.campaigns.len();
        let worker = || {
            let purses = Purses::new(purse_options, slots);
            let at = purses.at(self.now_ms);
            Worker { purses, at }
        };
        self.paces = vec![Pace::CLOSED; slots].into();
        self.workers = (0..self.options.workers).map(|_| worker()).collect();
        self.exchange();
        self.tick(self.now_ms);
    }

    /// The amount that may still be reserved: all that is free, and what the owner lets us spend in spite of expired bids. As the
    /// bank works it out, which only tells it by filling a purse.
    fn available(&self, campaign: usize) -> Amount {
        let books = self.bank.books(slot(campaign));
        let free = books.line(Line::Free);
        let tolerance_ppm = self.campaigns[campaign].tolerance_ppm;
        if tolerance_ppm == 0 {
            return free;
        }
        let wide = |amount: Amount| i128::from(amount.get());
        let evidence = self.bank.evidence(slot(campaign));
        let (resolved, paid) = (wide(evidence.expired_resolved), wide(evidence.expired_paid));
        let unspent = wide(books.line(Line::Expired)) * (resolved - paid);
        let unspent = unspent.checked_div(resolved).unwrap_or(0);
        let most = wide(books.limit()) * i128::from(tolerance_ppm) / 1_000_000;
        let available = wide(free) + unspent.min(most);
        Amount::new(i64::try_from(available).unwrap_or(0))
    }

    /// Has the bank put into an empty purse what a hold takes.
    fn fill(&mut self, worker: u16, slot: u32, amount: Amount) {
        // Nothing was asked for before, so the purse gets what it is short of and no more.
        let standing = self.workers[usize::from(worker)].purses.standing(slot);
        let need = Need { short: amount, ..standing };
        self.step(worker, ToBank::Want { slot, need });
        self.records_are_sealed();
        for (to, message) in self.out.messages.drain(..) {
            self.workers[usize::from(to)].purses.take(message, self.now_ms);
        }
    }

    /// As [`Engine::settle`] and the others; also says whether it is the first answer once more.
    pub(crate) fn resolve(
        &mut self,
        worker: u16,
        action: Action,
        hold: &Hold,
        amount: Amount,
    ) -> (Verdict, bool) {
        let origin = Origin { door: Door::Batch, request_id: 0 };
        let (hold, at_ms) = (*hold, self.now_ms);
        self.step(worker, ToBank::Resolve { action, hold, amount, at_ms, origin, reply: 0 });
        // The answer is the last message of its step.
        let answer = match self.out.messages.pop() {
            Some((_, ToWorker::Resolved { resolution, .. })) => {
                (resolution.verdict, resolution.is_repeat())
            }
            other => panic!("a resolve was answered by {other:?}"),
        };
        if let (Some(slot), (Verdict::Settled, false)) = (self.bank.slot_of(&hold), answer) {
            self.pacer.settled(slot, hold.amount, amount);
        }
        if self.out.messages.is_empty() {
            self.records_are_sealed();
        } else {
            self.exchange();
        }
        answer
    }

    /// Delivers what the bank and the workers have to say to each other, until nobody has more.
    fn exchange(&mut self) {
        loop {
            self.records_are_sealed();
            for at in 0..self.out.messages.len() {
                let (to, message) = self.out.messages[at];
                self.take(to, message);
            }
            self.out.messages.clear();
            let mut said = false;
            for worker in 0..self.options.workers {
                while let Some(message) = self.workers[usize::from(worker)].purses.next_message() {
                    // A purse's own wish would fill it for longer than a moment.
                    if !matches!(message, ToBank::Want { .. }) {
                        self.pacer.watch(&message);
                        self.step(worker, message);
                        said = true;
                    }
                }
            }
            if !said {
                return;
            }
        }
    }

    /// A worker takes a message. What it is given without having asked goes back.
    fn take(&mut self, worker: u16, message: ToWorker) {
        self.workers[usize::from(worker)].purses.take(message, self.now_ms);
        if let ToWorker::Fill { slot, .. } | ToWorker::Restore { slot, .. } = message {
            self.empty(worker, slot);
        }
    }

    /// Gives back what lies in a purse, if anything does.
    fn empty(&mut self, worker: u16, slot: u32) {
        let purses = &mut self.workers[usize::from(worker)].purses;
        if purses.free(slot) > Amount::ZERO {
            // As if the bank had asked for it, which makes no difference to the bank.
            purses.take(ToWorker::Recall { slot, no: No::LATER }, self.now_ms);
        }
    }

    fn step(&mut self, worker: u16, message: ToBank) {
        self.bank.step(worker, message, &mut self.out);
    }

    /// There is no journal: a restart takes the bank's parts instead.
    fn records_are_sealed(&mut self) {
        self.out.records.clear();
    }
}

/// What all workers hold for a slot.
fn held(workers: &[Worker], slot: u32) -> Amount {
    let held = workers.iter().map(|worker| worker.purses.held(slot));
    Amount::total(held).unwrap_or(Amount::ZERO)
}

fn slot(campaign: usize) -> u32 {
    u32::try_from(campaign).expect("a place in the list of campaigns")
}

fn check(options: &EngineOptions) -> Result<(), EngineError> {
    const DAY_MS: u64 = 86_400_000;
    if !(1..=WORKERS_MAX).contains(&options.workers) {
        return Err(EngineError::Workers { found: options.workers });
    }
    let times = [
        ("tick_ms", options.tick_ms, DAY_MS),
        ("hold_ms", options.hold_ms, DAY_MS),
        ("billing_ms", options.billing_ms, 400 * DAY_MS),
    ];
    match times.into_iter().find(|(_, found, max)| !(1..=*max).contains(found)) {
        Some((field, found, max)) => Err(EngineError::Time { field, found, max }),
        None => Ok(()),
    }
}

fn bank_options(options: &EngineOptions) -> Options {
    let purses = PurseOptions { node: NODE, hold_ms: options.hold_ms };
    Options {
        workers: options.workers,
        hold_ms_max: purses.hold_ms_max(),
        billing_ms: options.billing_ms,
        win_notices: options.win_notices,
        grant_ms_max: NEVER_MS,
        ..Options::default()
    }
}

fn pacer(options: &EngineOptions, campaigns: &[EngineCampaign]) -> Result<Pacer, EngineError> {
    let mut pacer = Pacer::new(PacerOptions {
        win_notices: options.win_notices,
        loss_notices: options.loss_notices,
    });
    pacer.grow(campaigns.len());
    for (place, campaign) in (0..).zip(campaigns) {
        let plan = Plan::new(campaign.plan.clone());
        let plan = plan.map_err(|error| EngineError::Plan { id: campaign.id, error })?;
        pacer.set_plan(place, Pacing::of(plan));
        // No rail on what a tick may reserve: answers depend on requests and books alone.
        pacer.asked(place, ASK_MAX);
        pacer.set_forecast(place, campaign.forecast.clone());
    }
    Ok(pacer)
}

fn spec(campaign: &EngineCampaign) -> BudgetSpec {
    BudgetSpec {
        start: campaign.day.start,
        end: campaign.day.end,
        on_expiry: campaign.on_expiry,
        tolerance_ppm: campaign.tolerance_ppm,
        ..BudgetSpec::plain(campaign.id, Unit::parse("USD").expect("a currency"), campaign.limit)
    }
}

fn first(errors: Vec<SpecError>) -> EngineError {
    let first = errors.into_iter().next();
    first.expect("a set is refused with a reason").into()
}
