//! The deterministic simulator: workers, the bank and its journal in one thread, with messages delayed, repeated
//! and lost, a disk that is slow or stuck, crashes at any step and clocks that lag and jump; beside them an
//! oracle that keeps the books in 128-bit integers. Everything is drawn from a seed, and a seed replays exactly.
//!
//! ```text
//!   asks, resolves             to_bank                    records
//!  ───────────────▶  workers ───────────▶  bank ───────────────────▶  disk (seals late, tears)
//!       oracle ◀──── answers ◀───────────────────── messages ◀──────── once sealed
//! ```

mod client;
mod disk;
mod draw;
mod oracle;
mod rng;
mod stats;
mod world;

use std::fmt;

pub use stats::{EVENTS, Stats};
pub use world::World;

/// Faults planted on purpose, in the simulated surroundings of the ledger: a simulator that does not find them
/// proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Workers hear of fillings and answers before their records are sealed.
    AnswerBeforeSeal,
    /// A worker reports lapsed holds twice.
    LapseTwice,
    /// A restart does not suspend what the crashed run had out.
    ForgetSuspension,
    /// A worker's ticks promise more than its stamps keep.
    TickAhead,
    /// The message that a grant is retired gets lost.
    LoseRetire,
}

impl Bug {
    /// All of them.
    pub const ALL: [Bug; 5] = [
        Bug::AnswerBeforeSeal,
        Bug::LapseTwice,
        Bug::ForgetSuspension,
        Bug::TickAhead,
        Bug::LoseRetire,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Bug::AnswerBeforeSeal => "answer-before-seal",
            Bug::LapseTwice => "lapse-twice",
            Bug::ForgetSuspension => "forget-suspension",
            Bug::TickAhead => "tick-ahead",
            Bug::LoseRetire => "lose-retire",
        }
    }
}

/// Runs one seed. An invariant that the ledger itself asserts counts as found, too.
///
/// # Errors
/// What promise was broken, and when.
pub fn run(seed: u64, steps: u32, bug: Option<Bug>) -> Result<Stats, String> {
    let run = std::panic::AssertUnwindSafe(|| World::new(seed, bug).run(steps));
    std::panic::catch_unwind(run).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!("assertion: {}", text.unwrap_or("a panic")))
    })
}

/// What a row of seeds came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Seeds that ran.
    pub seeds: u64,
    /// Sums over them.
    pub stats: Stats,
    /// The first seed that broke a promise, and which.
    pub violation: Option<(u64, String)>,
}

/// Runs seeds until one breaks a promise.
pub fn run_seeds(from: u64, seeds: u64, steps: u32, bug: Option<Bug>) -> Outcome {
    let mut outcome = Outcome { seeds: 0, stats: Stats::default(), violation: None };
    for seed in from..from + seeds {
        outcome.seeds += 1;
        match run(seed, steps, bug) {
            Ok(stats) => outcome.stats.add(&stats),
            Err(error) => {
                outcome.violation = Some((seed, error));
                break;
            }
        }
    }
    outcome
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} seeds, digest {:016x}", self.seeds, self.stats.digest)?;
        for event in EVENTS {
            writeln!(f, "{:>12}  {event}", self.stats.get(event))?;
        }
        match &self.violation {
            None => write!(f, "no promise was broken"),
            Some((seed, error)) => {
                writeln!(f, "seed {seed}: {error}")?;
                write!(f, "replay it with: cargo run -p sim -- --from {seed} --seeds 1")
            }
        }
    }
}
