//! What all sending threads share and none changes: the encoded asks and the settings of the run.

use wire::{DecideFlags, decide};

use crate::args::Args;
use crate::asks::AskTable;
use crate::control::Welcome;

/// What an answer's row means to the books.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target {
    /// Micros asked for.
    pub amount: i64,
    /// Budget index.
    pub budget: u32,
}

/// The shared plan of a run.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The asks as they travel; only the request id is changed on the way.
    pub asks: Vec<decide::Ask>,
    /// The same rows for the scan of the answers.
    pub targets: Vec<Target>,
    /// Fates and ids.
    pub table: AskTable,
    /// Asks per frame.
    pub batch: usize,
    /// Flags of every frame of asks.
    pub flags: DecideFlags,
    /// Frames in flight per connection (closed loop).
    pub depth: usize,
    /// Decisions per second (open loop).
    pub rate: Option<u64>,
    /// Sending threads.
    pub threads: u64,
    /// Seed.
    pub seed: u64,
    /// How long asks are sent, in ns.
    pub load_ns: u64,
    /// How long answers may take after that, in ns.
    pub drain_ns: u64,
    /// From grant to settle, in ns.
    pub settle_delay_ns: u64,
    /// Life of an unconfirmed hold, in ns.
    pub hold_ns: u64,
    /// How long a hold lives at least, as seen from here, in ns: a little less than the node says.
    pub hold_sure_ns: u64,
    /// Notices a frame may hold.
    pub notices_max: usize,
}

/// A settle that is late on purpose comes this long after its hold's end, in ns: beyond any clock granularity.
pub(crate) const LATE_MARGIN_NS: u64 = 500_000_000;
/// What the node's clock may be behind ours when it stamps a hold (it reads it now and then), in ns.
const CLOCK_MARGIN_NS: u64 = 50_000_000;
/// Notices a frame at most, whatever the node would take: the answer of a frame waits for one seal.
const NOTICES_MAX: usize = 512;

impl Plan {
    /// Encodes a table. `ids[i]` is the budget with index i.
    #[must_use]
    pub(crate) fn new(args: &Args, welcome: &Welcome, table: AskTable, ids: &[u64]) -> Self {
        let asks = table
            .rows
            .iter()
            .map(|row| {
                let id = ids.get(row.budget as usize).copied().unwrap_or(0);
                decide::Ask::new(row.request_id, id, row.amount, row.user, row.unit, 0, 0)
            })
            .collect();
        let targets = table
            .rows
            .iter()
            .map(|row| Target { amount: row.amount, budget: row.budget })
            .collect();
        let hold_ns = u64::from(welcome.hold_ms) * 1_000_000;
        let settle_delay_ns = ns(args.settle_delay);
        let late_ns = if args.late > 0.0 { hold_ns + LATE_MARGIN_NS } else { 0 };
        let drain_ns = ns(args.drain) + 2 * settle_delay_ns + late_ns;
        Self {
            asks,
            targets,
            table,
            batch: usize::from(args.batch),
            flags: if args.remember { DecideFlags::REMEMBER } else { DecideFlags::NONE },
            depth: usize::try_from(args.depth).unwrap_or(usize::MAX),
            rate: args.rate,
            threads: u64::from(args.threads),
            seed: args.seed,
            load_ns: ns(args.duration),
            drain_ns,
            settle_delay_ns,
            hold_ns,
            hold_sure_ns: hold_ns - CLOCK_MARGIN_NS.min(hold_ns / 10),
            notices_max: usize::from(welcome.batch_max).min(NOTICES_MAX),
        }
    }
}

/// A duration of at most a year, in ns.
pub(crate) fn ns(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 4)
}
