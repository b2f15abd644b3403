//! Four ways to keep a budget on several nodes, in one simulated market: three that lose money and ours. The
//! losing ones are must-fail tests: a judge that does not catch them proves nothing about ours. The story for
//! readers is in `docs/ledger.md`.
//!
//! The losing designs get every benefit of the doubt: a central store that never fails, exact removal of
//! duplicates, no acknowledgement before the store has it. Only what gives them their name is wrong with them.

mod grants;
mod losing;
mod market;
mod report;

pub use market::MarketOutcome;
pub use report::command;

use market::Market;

/// How many nodes (ours: workers of one node) bid for the same budgets.
pub(crate) const NODES: usize = 4;

/// A way to keep budgets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Every node caches what is left, reads it again each second and deducts what it wins.
    CachedRemaining,
    /// Every node has a fixed slice in memory, with a journal that is flushed each second.
    FlushedSlice,
    /// Leases of two seconds; what was not spent by then is refunded at once.
    LeaseRefund,
    /// The ledger of this workspace, its holds as long as given.
    Grants {
        /// Its `hold_ms`.
        hold_ms: u64,
    },
}

impl Kind {
    /// Those that lose money.
    pub const LOSING: [Kind; 3] = [Kind::CachedRemaining, Kind::FlushedSlice, Kind::LeaseRefund];

    /// Ours: with the default holds, and with holds longer than any notice of the market takes.
    pub const OURS: [Kind; 2] = [Kind::Grants { hold_ms: 2_000 }, Kind::Grants { hold_ms: 25_000 }];

    /// Its name on the command line and in tables.
    pub fn name(self) -> String {
        match self {
            Kind::CachedRemaining => "cached-remaining".into(),
            Kind::FlushedSlice => "flushed-slice".into(),
            Kind::LeaseRefund => "lease-refund".into(),
            Kind::Grants { hold_ms } => format!("grants-{}s", hold_ms / 1_000),
        }
    }

    /// Those that lose money, then ours.
    pub fn all() -> impl Iterator<Item = Kind> {
        Kind::LOSING.into_iter().chain(Kind::OURS)
    }

    fn build(self, limits: &[i64], now_ms: u64) -> Box<dyn Design> {
        match self {
            Kind::CachedRemaining => Box::new(losing::CachedRemaining::new(limits)),
            Kind::FlushedSlice => Box::new(losing::FlushedSlice::new(limits)),
            Kind::LeaseRefund => Box::new(losing::LeaseRefund::new(limits)),
            Kind::Grants { hold_ms } => Box::new(grants::Grants::new(limits, hold_ms, now_ms)),
        }
    }
}

/// Runs one seed of the market on a design.
///
/// # Errors
/// If the design's own books contradict themselves or the judge's, in a way that only ours promises not to.
pub fn run(kind: Kind, seed: u64, faults: bool) -> Result<MarketOutcome, String> {
    Market::new(kind, seed, faults).run().map(|(outcome, _)| outcome)
}

/// A bid that a design let out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bid {
    /// Counts up from 0.
    pub(crate) id: usize,
    pub(crate) node: usize,
    pub(crate) budget: usize,
    /// The most that it can cost.
    pub(crate) amount: i64,
    pub(crate) made_ms: u64,
}

/// What an exchange tells of a bid, each until it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// It won. The notice names the price, as OpenRTB's `nurl` does.
    Won,
    /// It was shown and will be billed, some seconds after it won.
    Billed,
}

/// A design has taken a notice in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ack {
    pub(crate) bid: usize,
    pub(crate) notice: Notice,
    /// The design booked the price as a debt: the bid's time was over.
    pub(crate) late: bool,
}

/// What a design's own books say of a budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Statement {
    /// Debts included.
    pub(crate) spent: i128,
    /// Of that, debts on a line of their own.
    pub(crate) late: i128,
    /// Set aside for bids that went out, or given to a node so that it may do that.
    pub(crate) aside: i128,
    /// Of that, for no bid yet.
    pub(crate) idle: i128,
}

/// One step of the market, and where a design tells what it does.
pub(crate) struct Moment<'a> {
    pub(crate) now_ms: u64,
    /// By node: can it talk with the store, the bank?
    pub(crate) linked: [bool; NODES],
    pub(crate) acks: &'a mut Vec<Ack>,
    /// For a story: (node, budget, what happened). `None` if nobody listens.
    pub(crate) notes: Option<&'a mut Vec<(usize, usize, String)>>,
}

impl Moment<'_> {
    pub(crate) fn note(&mut self, node: usize, budget: usize, text: impl FnOnce() -> String) {
        if let Some(notes) = &mut self.notes {
            notes.push((node, budget, text()));
        }
    }

    pub(crate) fn ack(&mut self, bid: usize, notice: Notice) {
        self.acks.push(Ack { bid, notice, late: false });
    }
}

/// A way to keep budgets on several nodes.
pub(crate) trait Design {
    /// May the bid go out?
    fn ask(&mut self, bid: &Bid, moment: &mut Moment<'_>) -> bool;
    /// A notice reaches the node that bid.
    fn notice(&mut self, bid: &Bid, notice: Notice, price: i64, moment: &mut Moment<'_>);
    /// Time has passed.
    fn pass(&mut self, moment: &mut Moment<'_>);
    /// A node dies and comes back with what it had made durable. Returns the nodes of its process.
    fn crash(&mut self, node: usize, moment: &mut Moment<'_>) -> std::ops::Range<usize>;
    /// Its own books.
    fn statement(&self, budget: usize) -> Statement;
    /// Does it promise that its books never authorise more than the limit, and in the end match the world's?
    fn is_exact(&self) -> bool {
        false
    }
}
