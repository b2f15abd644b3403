//! The deterministic simulator: workers, the bank and its journal in one thread, with messages delayed, repeated
//! and lost, a disk that tears, fails, fills up and stands still, crashes at any step and within any call of the
//! disk, and clocks that lag and jump; beside them an oracle that keeps the books in 128-bit integers. Everything is
//! drawn from a seed, and a seed replays exactly.
//!
//! ```text
//!   asks, resolves             to_bank              records              groups
//!  ───────────────▶  workers ───────────▶  bank ───────────────▶  journal ────────▶  disk (tears, loses, fails)
//!       oracle ◀──── answers ◀────────────────────── messages ◀── once sealed
//! ```
//!
//! In three runs of ten the log is also on other machines (`engine`): it doubts, fences and forgets.
//!
//! Ledger and journal are those of the node. Simulated are clients (`client`), the turns of the node's threads
//! and what is drawn of them ([`World`]), and the folder ([`files`]).

mod bank;
mod book;
mod clicks;
mod client;
mod crash;
mod draw;
mod engine;
mod faults;
pub mod files;
mod journal;
mod keyed;
mod lease;
mod made;
mod memos;
mod named;
mod named_oracle;
mod oracle;
mod orders;
mod owner;
mod planted;
mod reconcile;
mod rest;
mod rng;
mod stats;
mod timed;
mod verdicts;
mod windows;
mod world;

use std::fmt;

use files::FAULTS;
pub use stats::{EVENTS, Stats};
pub use world::World;

/// Steps of a run, unless somebody asks for another number.
pub const STEPS: u32 = 2_000;
/// So many seeds reach everything that is counted.
pub const SEEDS_TO_REACH: u64 = 1_000;

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
    /// A recovered bank does not know which holds were settled: their money is booked, their marks are others'.
    ForgetMarks,
    /// A recovered bank frees the money of holds of which nothing was heard in time, where it should keep it.
    FreeExpired,
    /// A recovered bank does not know the first answers to requests with keys.
    ForgetAnswers,
    /// A recovered bank takes fixed windows for buckets: what comes back counts in the window that is present.
    CountReturnsAnew,
    /// A recovered bank ends windows when half of them is over.
    RollEarly,
    /// A recovered bank knows budgets that were made on their first ask by other handles.
    ForgetHandles,
    /// Such a budget begins anew when it is asked for after it ended.
    MakeAnew,
    /// A recovery takes what is there of a group that was not written to its end.
    AcceptTorn,
    /// After a failed sync the same one is called again, and believed.
    SyncAgain,
    /// Names of files are never sealed.
    LoseNames,
    /// Snapshots are taken from the running bank: they have what is not sealed.
    EarlySnapshot,
    /// A group of which nobody knows whether the log has it counts as appended.
    DoubtIsDone,
    /// Such a group is closed anew, with other bytes, and appended again.
    DoubtIsFailure,
    /// The log takes every group, whatever stands before it.
    NoCompare,
    /// A bank that is fenced goes on.
    FenceIgnored,
    /// Money that lies in other purses is said to be used up.
    EmptyIsFinal,
    /// Workers hear that a memo is recorded before it is sealed: a crash loses it after its answer left.
    MemoBeforeSeal,
    /// A memo is recorded, and its money in a later turn.
    MemoWithoutMoney,
    /// Every memo is new to the door's judge.
    MemoTwice,
    /// A recovered bank does not know the holds that were reserved under keys.
    ForgetOrders,
    /// The digest of a request with a key leaves its amount out.
    DigestOfKey,
    /// Billing notices come to the bank as if from another door: a later higher price books nothing.
    DropTopUps,
    /// Of a later higher price all is booked beside what was booked, not the difference.
    TopUpInFull,
    /// A recovered bank does not know what holds were settled with.
    ForgetAmounts,
    /// What a billing notice leaves of its hold is free at once, and may be handed out before the true price comes.
    FreeRests,
    /// A door hears that its order is granted before that is sealed.
    OrderBeforeSeal,
    /// Of an order with several legs the first one is booked alone.
    LegAlone,
    /// What a door says is booked is added to what was booked.
    AddAmounts,
    /// The end of an order frees once more what it held.
    FreeTwice,
    /// A snapshot has all named holds but one.
    LoseRow,
    /// A day that begins with open named holds is taken to begin without.
    DayForgetsHolds,
    /// An ask is answered before its seal out of money whose release is not sealed.
    LeanOnUnsealed,
    /// Figures are folded from records that are not sealed.
    CountBeforeSeal,
    /// A click counts when it comes, and again with its bill.
    CountTwice,
    /// A click counts when it comes, billed or not.
    CountUnbilled,
    /// A recovered bank ends holds when half of their time is over.
    EndEarly,
    /// A bank that takes over waits for the holds of the one before alone, not for its lease.
    NoLeaseTerm,
    /// Workers count their lease from when an acknowledgement came, not from when the append was sent.
    LeaseFromReceipt,
    /// An owner hears of a change by the API before the message about it is sealed.
    KeptAfterAnswer,
}

impl Bug {
    /// All of them, with the number of seeds, counted from 1, within which each must be found.
    pub const ALL: [(Bug, u64); 44] = [
        (Bug::AnswerBeforeSeal, 50),
        (Bug::LapseTwice, 50),
        (Bug::ForgetSuspension, 50),
        (Bug::TickAhead, 50),
        (Bug::LoseRetire, 50),
        (Bug::ForgetMarks, 50),
        (Bug::FreeExpired, 50),
        (Bug::ForgetAnswers, 50),
        (Bug::CountReturnsAnew, 50),
        (Bug::RollEarly, 50),
        (Bug::ForgetHandles, 50),
        (Bug::MakeAnew, 500),
        (Bug::AcceptTorn, 300),
        (Bug::SyncAgain, 100),
        (Bug::LoseNames, 50),
        (Bug::EarlySnapshot, 50),
        (Bug::DoubtIsDone, 50),
        (Bug::DoubtIsFailure, 50),
        (Bug::NoCompare, 50),
        (Bug::FenceIgnored, 50),
        (Bug::EmptyIsFinal, 50),
        (Bug::MemoBeforeSeal, 50),
        (Bug::MemoWithoutMoney, 50),
        (Bug::MemoTwice, 50),
        (Bug::ForgetOrders, 50),
        (Bug::DigestOfKey, 50),
        (Bug::DropTopUps, 50),
        (Bug::TopUpInFull, 50),
        (Bug::ForgetAmounts, 50),
        (Bug::FreeRests, 50),
        (Bug::OrderBeforeSeal, 50),
        (Bug::LegAlone, 50),
        (Bug::AddAmounts, 50),
        (Bug::FreeTwice, 50),
        (Bug::LoseRow, 50),
        (Bug::DayForgetsHolds, 200),
        (Bug::LeanOnUnsealed, 50),
        (Bug::CountBeforeSeal, 50),
        (Bug::CountTwice, 50),
        (Bug::CountUnbilled, 50),
        (Bug::EndEarly, 50),
        (Bug::NoLeaseTerm, 50),
        (Bug::LeaseFromReceipt, 50),
        (Bug::KeptAfterAnswer, 50),
    ];

    /// Is it one of how a bank uses a log on other machines?
    pub(crate) fn is_of_the_log(self) -> bool {
        let uses = [Bug::DoubtIsDone, Bug::DoubtIsFailure, Bug::NoCompare, Bug::FenceIgnored];
        uses.contains(&self) || self.is_of_the_lease()
    }

    /// Is it one of what a bank does beside one that does not know of it?
    pub(crate) fn is_of_the_lease(self) -> bool {
        matches!(self, Bug::NoLeaseTerm | Bug::LeaseFromReceipt)
    }

    /// Is it one of budgets that are made on their first ask?
    pub(crate) fn is_of_made(self) -> bool {
        matches!(self, Bug::ForgetHandles | Bug::MakeAnew)
    }

    /// Is it one of orders, which are named holds?
    pub(crate) fn is_of_named(self) -> bool {
        matches!(
            self,
            Bug::OrderBeforeSeal
                | Bug::LegAlone
                | Bug::AddAmounts
                | Bug::FreeTwice
                | Bug::LoseRow
                | Bug::DayForgetsHolds
                | Bug::LeanOnUnsealed
        )
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Bug::AnswerBeforeSeal => "answer-before-seal",
            Bug::LapseTwice => "lapse-twice",
            Bug::ForgetSuspension => "forget-suspension",
            Bug::TickAhead => "tick-ahead",
            Bug::LoseRetire => "lose-retire",
            Bug::ForgetMarks => "forget-marks",
            Bug::FreeExpired => "free-expired",
            Bug::ForgetAnswers => "forget-answers",
            Bug::CountReturnsAnew => "count-returns-anew",
            Bug::RollEarly => "roll-early",
            Bug::ForgetHandles => "forget-handles",
            Bug::MakeAnew => "make-anew",
            Bug::AcceptTorn => "accept-torn",
            Bug::SyncAgain => "sync-again",
            Bug::LoseNames => "lose-names",
            Bug::EarlySnapshot => "early-snapshot",
            Bug::DoubtIsDone => "doubt-is-done",
            Bug::DoubtIsFailure => "doubt-is-failure",
            Bug::NoCompare => "no-compare",
            Bug::FenceIgnored => "fence-ignored",
            Bug::EmptyIsFinal => "empty-is-final",
            Bug::MemoBeforeSeal => "memo-before-seal",
            Bug::MemoWithoutMoney => "memo-without-money",
            Bug::MemoTwice => "memo-twice",
            Bug::ForgetOrders => "forget-orders",
            Bug::DigestOfKey => "digest-of-key",
            Bug::DropTopUps => "drop-top-ups",
            Bug::TopUpInFull => "top-up-in-full",
            Bug::ForgetAmounts => "forget-amounts",
            Bug::FreeRests => "free-rests",
            Bug::OrderBeforeSeal => "order-before-seal",
            Bug::LegAlone => "leg-alone",
            Bug::AddAmounts => "add-amounts",
            Bug::FreeTwice => "free-twice",
            Bug::LoseRow => "lose-row",
            Bug::DayForgetsHolds => "day-forgets-holds",
            Bug::LeanOnUnsealed => "lean-on-unsealed",
            Bug::CountBeforeSeal => "count-before-seal",
            Bug::CountTwice => "count-twice",
            Bug::CountUnbilled => "count-unbilled",
            Bug::EndEarly => "end-early",
            Bug::NoLeaseTerm => "no-lease-term",
            Bug::LeaseFromReceipt => "lease-from-receipt",
            Bug::KeptAfterAnswer => "kept-after-answer",
        }
    }
}

/// Runs one seed. An invariant that the ledger itself asserts counts as found, too.
///
/// # Errors
/// The promise that was broken, and when.
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
    /// Steps of each.
    pub steps: u32,
    /// The fault that was planted.
    pub bug: Option<Bug>,
    /// Sums over them.
    pub stats: Stats,
    /// The first seed that broke a promise, and which.
    pub violation: Option<(u64, String)>,
}

/// Runs seeds until one breaks a promise.
pub fn run_seeds(from: u64, seeds: u64, steps: u32, bug: Option<Bug>) -> Outcome {
    let mut outcome = Outcome { seeds: 0, steps, bug, stats: Stats::default(), violation: None };
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

/// A fault of the disk that a journal cannot meet which writes no sector twice without sealing it between.
const NOT_MET: &str = "lost write: an older one of the sector survived";

impl Outcome {
    /// Everything that is counted: of the ledger and the journal, then of the disk.
    fn counted() -> impl Iterator<Item = &'static str> {
        EVENTS.into_iter().chain(FAULTS.into_iter().filter(|fault| *fault != NOT_MET))
    }

    /// What these seeds should have reached and did not. With fewer than [`SEEDS_TO_REACH`] nothing is expected.
    pub fn missed(&self) -> Vec<&'static str> {
        let few = self.seeds < SEEDS_TO_REACH || self.steps < STEPS;
        Outcome::counted().filter(|event| !few && self.stats.get(event) == 0).collect()
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} seeds, digest {:016x}", self.seeds, self.stats.digest)?;
        for event in Outcome::counted() {
            writeln!(f, "{:>12}  {event}", self.stats.get(event))?;
        }
        let missed = self.missed();
        if !missed.is_empty() {
            writeln!(f, "never reached: {}", missed.join("; "))?;
        }
        let Some((seed, error)) = &self.violation else {
            return write!(f, "no promise was broken");
        };
        writeln!(f, "seed {seed}: {error}")?;
        let command = "cargo run --release -p sim --";
        write!(f, "replay it with: {command} --from {seed} --seeds 1 --steps {}", self.steps)?;
        self.bug.map_or(Ok(()), |bug| write!(f, " --bug {}", bug.name()))
    }
}
