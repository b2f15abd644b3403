//! The market, and the judge who keeps its own books beside a design's.

use std::collections::BTreeMap;

use super::{Ack, Bid, Design, Kind, Moment, NODES, Notice};
use crate::rng::Rng;

/// Noon of a day in UTC, so that no day ends in a run.
const START_MS: u64 = 1_767_268_800_000;
const STEP_MS: u64 = 2;
/// Bids are made, and faults happen, this long at most...
const BIDS_MS: u64 = 600_000;
/// ...or until no bid went out for so long...
const QUIET_MS: u64 = 40_000;
/// ...and then every notice finds its way.
const REST_MS: u64 = 60_000;
/// All budgets together pay for about 120 seconds of this market.
const LIMITS: i64 = 21_600_000;
const WIN_PERMILLE: u64 = 300;
const LATE_PERMILLE: u64 = 10;
const TWICE_PERMILLE: u64 = 20;
/// With faults: notices, and acknowledgements of them, that get lost.
const LOST_PERMILLE: u64 = 50;
/// An unacknowledged notice is sent again after this long.
const REPEAT_MS: u64 = 1_000;
/// With faults each process crashes, each node is cut off from its store, about once in this time.
const FAULT_EVERY_MS: u64 = 60_000;

/// What a run came to, in micros, as the judge's books have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MarketOutcome {
    /// All limits together.
    pub limit: i128,
    /// What the world spent: every win, once.
    pub spent: i128,
    /// Spent above limits, budget by budget.
    pub overspent: i128,
    /// Spent above limits, but for what the design booked as late debts.
    pub authorised_over: i128,
    /// What the design booked as late debts.
    pub late: i128,
    /// Spent in the world and unknown to the design's own books.
    pub missing: i128,
    /// The most that stood for two things at a time: the world's bids could cost that much more than the design had
    /// spent and set aside in its books.
    pub twice_peak: i128,
    /// The most that was set aside at a time.
    pub aside_peak: i128,
    /// Bids that went out.
    pub bids: u64,
    /// Crashes of processes.
    pub crashes: u64,
    /// When 99 % of the limits were spent, milliseconds from the start; 0 if never.
    pub most_spent_ms: u64,
}

/// A losing bid might have won this long: the ordinary delay of a notice.
const OPEN_MS: u64 = 800;
/// A win must be covered by the books this long, and again once it is acknowledged.
const COVERED_MS: u64 = 2_000;

/// A bid that won.
#[derive(Clone, Copy, Debug)]
struct Win {
    bid: Bid,
    price: i64,
    acked: [bool; 2],
    /// It is part of the exposure.
    counted: bool,
}

/// Why a notice is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Try {
    First,
    /// Only if nobody acknowledged it meanwhile.
    Again,
}

/// The simulated market of one design.
pub(super) struct Market {
    seed: u64,
    faults: bool,
    now_ms: u64,
    design: Box<dyn Design>,
    hold_ms: u64,
    limits: Vec<i64>,
    /// Asks are the same for every design, whatever it answers; so are faults.
    asks: Rng,
    fate: Rng,
    wire: Rng,
    asked: u64,
    last_bid_ms: u64,
    down_until_ms: [u64; NODES],
    cut_until_ms: [u64; NODES],
    wins: BTreeMap<usize, Win>,
    /// Notices on their way by when they arrive, and a number.
    notices: BTreeMap<(u64, u64), (usize, Notice, Try)>,
    sent: u64,
    acks: Vec<Ack>,
    /// By budget: acknowledged wins, and bids that can still win in time.
    exposed: Vec<i128>,
    /// Bids by when they stop being exposed, with what they add.
    ends: BTreeMap<(u64, usize), (usize, i64)>,
    spent: Vec<i128>,
    late: Vec<i128>,
    outcome: MarketOutcome,
    notes: Option<Vec<(usize, usize, String)>>,
    story: Story,
}

/// Notes by when and of which budget.
#[derive(Default)]
pub(super) struct Story {
    pub(super) lines: Vec<(u64, usize, String)>,
    /// The first line at which a budget had been overspent, and the budget.
    pub(super) crossing: Option<(usize, usize)>,
}

impl Market {
    pub(super) fn new(kind: Kind, seed: u64, faults: bool) -> Market {
        let mut asks = Rng::new(seed);
        let count = 1 + asks.index(3);
        let limits = vec![LIMITS / i64::try_from(count).expect("few"); count];
        let mut market = Market {
            seed: asks.next(),
            faults,
            now_ms: START_MS,
            design: kind.build(&limits, START_MS),
            hold_ms: if let Kind::Grants { hold_ms } = kind { hold_ms } else { 0 },
            asks,
            fate: Rng::new(!seed),
            wire: Rng::new(seed.rotate_left(32) ^ 1),
            asked: 0,
            last_bid_ms: START_MS,
            down_until_ms: [0; NODES],
            cut_until_ms: [0; NODES],
            wins: BTreeMap::new(),
            notices: BTreeMap::new(),
            sent: 0,
            acks: Vec::new(),
            exposed: vec![0; count],
            ends: BTreeMap::new(),
            spent: vec![0; count],
            late: vec![0; count],
            outcome: MarketOutcome::default(),
            notes: None,
            story: Story::default(),
            limits,
        };
        market.outcome.limit = market.limits.iter().map(|limit| i128::from(*limit)).sum();
        market
    }

    /// Listens to what the design tells.
    pub(super) fn with_story(mut self) -> Market {
        self.notes = Some(Vec::new());
        self
    }

    pub(super) fn run(mut self) -> Result<(MarketOutcome, Story), String> {
        let mut bids_end_ms = START_MS + BIDS_MS;
        while self.now_ms < bids_end_ms + REST_MS {
            self.now_ms += STEP_MS;
            if self.now_ms <= bids_end_ms {
                if self.now_ms > self.last_bid_ms + QUIET_MS {
                    bids_end_ms = self.now_ms;
                }
                if self.faults {
                    self.strike();
                }
                // 800 bids per second: 1.6 per step.
                for _ in 0..1 + u32::from(self.asks.chance(600)) {
                    self.ask();
                }
            }
            self.deliver();
            self.with_design(|design, moment| design.pass(moment));
            self.take_acks()?;
            self.end_exposure();
            self.judge()?;
            self.tell();
        }
        self.close()?;
        Ok((self.outcome, self.story))
    }

    fn with_design<T>(&mut self, act: impl FnOnce(&mut dyn Design, &mut Moment<'_>) -> T) -> T {
        let now_ms = self.now_ms;
        let linked = std::array::from_fn(|node| self.cut_until_ms[node] <= now_ms);
        let notes = self.notes.as_mut();
        let mut moment = Moment { now_ms, linked, acks: &mut self.acks, notes };
        act(self.design.as_mut(), &mut moment)
    }

    fn strike(&mut self) {
        for node in 0..NODES {
            let [crash, cut] = [0, 1].map(|_| self.fate.below(FAULT_EVERY_MS / STEP_MS) == 0);
            let [rest_ms, cut_ms] = [500 + self.fate.below(1_500), 1_000 + self.fate.below(4_000)];
            if crash {
                let died = self.with_design(|design, moment| design.crash(node, moment));
                self.outcome.crashes += u64::from(!died.is_empty());
                self.down_until_ms[died].fill(self.now_ms + rest_ms);
            }
            if cut {
                self.cut_until_ms[node] = self.now_ms + cut_ms;
            }
        }
    }

    /// An exchange asks for a bid. What comes of it depends on the seed and the number of the ask alone.
    fn ask(&mut self) {
        self.asked += 1;
        let mut draw = Rng::new(self.seed ^ self.asked.wrapping_mul(0xd134_2543_de82_ef95));
        let (node, budget) = (draw.index(NODES), draw.index(self.limits.len()));
        let amount = draw.between(500, 1_500);
        let price = draw.between(amount / 2, amount);
        if self.down_until_ms[node] > self.now_ms {
            return;
        }
        let id = usize::try_from(self.outcome.bids).expect("fits");
        let bid = Bid { id, node, budget, amount, made_ms: self.now_ms };
        if !self.with_design(|design, moment| design.ask(&bid, moment)) {
            return;
        }
        self.outcome.bids += 1;
        self.last_bid_ms = self.now_ms;
        if !draw.chance(WIN_PERMILLE) {
            self.expose(&bid, amount, OPEN_MS);
            return;
        }
        self.spend(budget, price);
        self.expose(&bid, price, COVERED_MS);
        self.wins.insert(id, Win { bid, price, acked: [false; 2], counted: true });
        let late = draw.chance(LATE_PERMILLE);
        let won_ms =
            self.now_ms + if late { 1_000 + draw.below(19_000) } else { 50 + draw.below(750) };
        let billed_ms = won_ms + 200 + draw.below(4_800);
        for (notice, at_ms) in [(Notice::Won, won_ms), (Notice::Billed, billed_ms)] {
            self.send(id, notice, at_ms, Try::First);
            if draw.chance(TWICE_PERMILLE) {
                self.send(id, notice, at_ms + draw.below(2_000), Try::First);
            }
        }
    }

    fn expose(&mut self, bid: &Bid, amount: i64, for_ms: u64) {
        self.exposed[bid.budget] += i128::from(amount);
        self.ends.insert((bid.made_ms + for_ms, bid.id), (bid.budget, amount));
    }

    /// Bids whose time is over are nobody's promise any more, but for wins that were acknowledged.
    fn end_exposure(&mut self) {
        while let Some(entry) = self.ends.first_entry()
            && entry.key().0 <= self.now_ms
        {
            let ((_, id), (budget, amount)) = entry.remove_entry();
            match self.wins.get_mut(&id) {
                Some(win) if win.acked != [false; 2] => continue,
                Some(win) => win.counted = false,
                None => {}
            }
            self.exposed[budget] -= i128::from(amount);
        }
    }

    /// The judge counts a win when its auction is held, whenever the notice comes.
    fn spend(&mut self, budget: usize, price: i64) {
        let limit = i128::from(self.limits[budget]);
        let before = self.spent[budget];
        self.spent[budget] += i128::from(price);
        if self.story.crossing.is_none() && before <= limit && self.spent[budget] > limit {
            self.story.crossing = Some((self.story.lines.len(), budget));
        }
        let total: i128 = self.spent.iter().sum();
        if self.outcome.most_spent_ms == 0 && total * 100 >= self.outcome.limit * 99 {
            self.outcome.most_spent_ms = self.now_ms - START_MS;
        }
    }

    fn send(&mut self, bid: usize, notice: Notice, at_ms: u64, why: Try) {
        self.sent += 1;
        self.notices.insert((at_ms, self.sent), (bid, notice, why));
    }

    fn lost(&mut self) -> bool {
        self.faults && self.wire.chance(LOST_PERMILLE)
    }

    fn deliver(&mut self) {
        while let Some(entry) = self.notices.first_entry() {
            if entry.key().0 > self.now_ms {
                return;
            }
            let (id, notice, why) = entry.remove();
            let win = self.wins[&id];
            let acked = win.acked[notice as usize];
            if acked && why == Try::Again {
                continue;
            }
            let lost = self.lost();
            if !lost && self.down_until_ms[win.bid.node] <= self.now_ms {
                self.with_design(|design, moment| {
                    design.notice(&win.bid, notice, win.price, moment);
                });
            }
            if !acked {
                self.send(id, notice, self.now_ms + REPEAT_MS, Try::Again);
            }
        }
    }

    fn take_acks(&mut self) -> Result<(), String> {
        for ack in std::mem::take(&mut self.acks) {
            if self.lost() {
                continue;
            }
            let win = self.wins.get_mut(&ack.bid).expect("only wins have notices");
            let first = !std::mem::replace(&mut win.acked[ack.notice as usize], true);
            // A late win is told by its first notice, and booked with its second.
            if !win.counted && (ack.notice == Notice::Billed || !self.design.is_exact()) {
                win.counted = true;
                self.exposed[win.bid.budget] += i128::from(win.price);
            }
            if !first || !ack.late {
                continue;
            }
            let (budget, price, age_ms) =
                (win.bid.budget, win.price, self.now_ms - win.bid.made_ms);
            self.late[budget] += i128::from(price);
            if age_ms < self.hold_ms {
                return Err(format!("bid {} was called late after {age_ms} ms", ack.bid));
            }
        }
        Ok(())
    }

    /// What the design's books authorise stays within the limit, at every step.
    fn judge(&mut self) -> Result<(), String> {
        let (mut aside, mut twice) = (0, 0);
        for (budget, limit) in self.limits.iter().enumerate() {
            let books = self.design.statement(budget);
            aside += books.aside;
            let covered = books.spent + books.aside - books.idle;
            twice += (self.exposed[budget] - covered).max(0);
            let authorised = books.spent - books.late + books.aside;
            if self.design.is_exact() && authorised > i128::from(*limit) {
                return Err(format!("budget {budget}: {authorised} authorised of {limit}"));
            }
        }
        self.outcome.aside_peak = self.outcome.aside_peak.max(aside);
        self.outcome.twice_peak = self.outcome.twice_peak.max(twice);
        Ok(())
    }

    /// Every notice has arrived: the design's books against the judge's.
    fn close(&mut self) -> Result<(), String> {
        for (budget, limit) in self.limits.iter().enumerate() {
            let (spent, limit) = (self.spent[budget], i128::from(*limit));
            let books = self.design.statement(budget);
            if self.design.is_exact() && (books.spent, books.late) != (spent, self.late[budget]) {
                let late = self.late[budget];
                return Err(format!("budget {budget}: {spent} spent, {late} late, but {books:?}"));
            }
            self.outcome.spent += spent;
            self.outcome.overspent += (spent - limit).max(0);
            self.outcome.authorised_over += (spent - books.late - limit).max(0);
            self.outcome.late += books.late;
            self.outcome.missing += (spent - books.spent).max(0);
        }
        Ok(())
    }

    /// Writes down what the design told, beside what is true.
    fn tell(&mut self) {
        let Some(notes) = &mut self.notes else { return };
        for (node, budget, text) in notes.drain(..) {
            let left = i128::from(self.limits[budget]) - self.spent[budget];
            let at_ms = self.now_ms - START_MS;
            let line = format!("{at_ms:>7} ms  node {node}: {text:<76} really left {left:>8}");
            self.story.lines.push((at_ms, budget, line));
        }
    }
}
