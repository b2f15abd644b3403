//! What people see of the node: a thread looks at all budgets every now and then, and everything else reads what it found.
//!
//! - `tallies`, `sliding`: what workers count anyway, as rates.
//! - `condition`: how a budget stands and why, by a table of rules.
//! - `short`: whose limit asks met that were for more than is left.
//! - `proof`: do all books add up, and does nobody spend above a limit?
//! - `load`: threads, doors and queues; `status` and `metrics` write it down.
//! - `minutes`: what the history is told.
//! - `breath`: breaks in what is long.
//! - `survey`: the round that does all of it; `node` answers the admin API.

mod breath;
mod condition;
mod fix;
mod load;
mod made;
pub(crate) mod metrics;
mod minutes;
mod node;
mod proof;
mod report;
mod short;
mod sliding;
mod status;
mod survey;
mod tallies;
mod vault;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender as Commands;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use watch::board::View;
use watch::history::Minute;
use watch::{Board, History};
use weir_config::config::Config;
use weir_config::doors::DOORS;
use weir_edits::Edits;
use weir_node::bank::Command;
use weir_node::memory::{self, Part};

use crate::StartError;
use crate::admin::Status;
use crate::alerts::{Alerts, receiver};
use crate::costs::metrics::NOTE_EVERY;
use minutes::MinuteRow;
pub(crate) use node::Watched;
use status::{Bounds, Identity};
use survey::{Latest, Outlet, SharedTallies, Survey};
use tallies::Tallies;
use weir_door::{Tokens, thread::spawn};

/// Counts of billed impressions that may wait for the profiles' log.
const PROFILE_COUNTS_MAX: u64 = 65_536;

/// The running survey.
#[derive(Debug)]
pub(crate) struct Watching {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Watched {
    /// For a node with a worker on each of these cores.
    pub(crate) fn new(
        config: &Config,
        cores: &[Option<usize>],
        (commands, status, edits): (Commands<Command>, Status, Edits),
        tokens: Tokens,
    ) -> Watched {
        let workers = cores.len() as u64;
        let of_all = |one: usize| (one as u64).saturating_mul(workers);
        let waiting = DOORS.iter().map(|door| (door.waiting_max)(config)).sum();
        let pinned = |core: &Option<usize>| core.filter(|_| config.workers.pin);
        let identity = Identity {
            node: config.node.id,
            version: env!("CARGO_PKG_VERSION"),
            cores: cores.iter().map(pinned).collect(),
        };
        let bounds = Bounds {
            resolves_waiting: of_all(waiting),
            connections: of_all(config.transport.connections_max),
            output_bytes: of_all(config.transport.output_total_bytes_max),
            unsealed_bytes: config.journal.unsealed_bytes_max as u64,
            grants: config.ledger.grants_max as u64,
            keys: config.spend.keys_max as u64,
            profile_counts: PROFILE_COUNTS_MAX,
        };
        Watched {
            commands,
            status,
            edits,
            latest: Arc::new(Latest::default()),
            tallies: SharedTallies::new(Mutex::new(Tallies::new())),
            identity,
            bounds,
            config: config.clone(),
            tokens,
        }
    }

    /// Looks at everything once, so that there is something to see, and goes on every `admin.tick_ms`.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub(crate) fn survey(
        &self,
        board: Arc<Board>,
        history: Arc<History>,
    ) -> Result<Watching, StartError> {
        let tick = Duration::from_millis(self.config.admin.tick_ms);
        let (status, outlet) = (self.status.clone(), Published { board, history });
        let shared = (Arc::clone(&self.latest), Arc::clone(&self.tallies));
        let (commands, edits) = (self.commands.clone(), self.edits.clone());
        let receiver = receiver::start(&self.config).map_err(StartError::Alerts)?;
        let node = self.config.node.id;
        let alerts = receiver.map(|receiver| {
            Alerts::new(node, commands.clone(), Arc::clone(status.alerts()), receiver)
        });
        let mut survey = Survey::new(commands, status.clone(), edits, shared, outlet, alerts);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        memory::built(Part::Surveys, || survey.look());
        let thread = spawn("survey", move || {
            let (mut next, mut note) = (Instant::now() + tick, Instant::now() + NOTE_EVERY);
            while !stopped.load(Ordering::Acquire) {
                let now = Instant::now();
                if now < next {
                    std::thread::park_timeout(next - now);
                    continue;
                }
                survey.look();
                if now >= note {
                    status.metrics().note();
                    note = now + NOTE_EVERY;
                }
                // After a pause of the machine the rounds that were missed are not made up for.
                next = (next + tick).max(Instant::now());
            }
        })?;
        Ok(Watching { stop, thread })
    }
}

impl Watching {
    /// Ends at once; a round that is going on ends first.
    pub(crate) fn stop(self) {
        self.stop.store(true, Ordering::Release);
        self.thread.thread().unpark();
        let _ = self.thread.join();
    }
}

/// The board and the history of the admin door.
struct Published {
    board: Arc<Board>,
    history: Arc<History>,
}

impl Outlet for Published {
    fn publish(&mut self, view: View) {
        self.board.publish(view);
    }

    fn record(&mut self, minute: u64, rows: &[MinuteRow], latency_p99_us: u32) {
        let small = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        let row = |row: &MinuteRow| {
            let minute = Minute {
                spent: row.spent,
                planned: row.planned,
                asks: small(row.counts.asks),
                grants: small(row.counts.grants),
                wins: small(row.wins),
                refusals: small(row.counts.refusals),
                latency_p99_us,
            };
            (row.budget, minute)
        };
        let rows: Vec<(u64, Minute)> = rows.iter().map(row).collect();
        if let Err(error) = self.history.record(minute, &rows) {
            tracing::error!(%error, minute, "the history has a gap");
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use gate_pacing::{Progress, Strategy};
    use ledger::{Amount, Status};
    use money::{Unit, Window};
    use weir_pacer::Standing;

    use weir_node::bank::rows::{Resolutions, SurveyRow};
    use weir_till::BookLine;

    /// An active budget of which nothing is spent.
    pub(crate) fn row(id: u64, limit: i64) -> SurveyRow {
        let zero = Amount::ZERO;
        let line = BookLine {
            id,
            unit: Unit::parse("USD").unwrap(),
            limit: Amount::new(limit),
            free: Amount::new(limit),
            purses: zero,
            held: zero,
            expired: zero,
            settled: zero,
            over_settled: zero,
            late: zero,
            inferred: zero,
            unknown_order: zero,
        };
        SurveyRow {
            slot: 0,
            line,
            suspended: zero,
            status: Status::Active,
            flight: Window::ALWAYS,
            parent: None,
            daily: None,
            day: Window::ALWAYS,
            day_spent: zero,
            calendar_left: None,
            windows: [None; 5],
            window_ends_ms: [0; 5],
            tolerated: zero,
            reserve: zero,
            standing: None,
            resolved: Resolutions::default(),
            expired_holds: 0,
            forced: 0,
        }
    }

    /// On its plan.
    pub(super) fn standing(open: bool) -> Standing {
        Standing {
            strategy: Strategy::Curve,
            progress: Progress {
                window: Window::ALWAYS,
                budget: Amount::new(100),
                planned: Amount::new(50),
                spent: Amount::new(50),
                index_ppm: Some(1_000_000),
                open,
            },
            multiplier_q32: 1 << 32,
            coin_q32: 1 << 32,
            seen: 100,
            expected: None,
        }
    }
}
