//! What the threads of a node hand to each other: messages over rings.

use std::sync::Arc;
use std::sync::mpsc::Sender as Reply;

use gate_auction::Fates;
use gate_pacing::Pace;
use ledger::{Claimed, KeyRing, MemoAnswer, TimedAnswer, ToBank, ToWorker};
use weir_budgets::templates::Templates;
use weir_till::cells::SlotCells;
use weir_till::{Answer, Apart, Made, NamedRequest, Question, Snapshot};
use wire::Verdict;

/// From a worker to the bank.
#[derive(Debug)]
pub(crate) enum Up {
    /// The ledger's business.
    Ledger(ToBank),
    /// The ledger's business, of requests with keys of idempotency, of memos, of named holds, and of askers whose scopes it judges.
    Apart(Box<Apart>),
    /// A client's question; `conn` comes back with the answer.
    Question { conn: u64, question: Question },
    /// A door wants the budget with this handle, which no configuration names: make it, if a template matches.
    Open(Box<str>),
    /// Replaced on the worker, to be freed elsewhere: freeing a large table takes long.
    Old(Old),
}

/// What workers do not free themselves.
#[derive(Debug)]
#[allow(dead_code, reason = "only carried to where it is dropped")]
pub(crate) enum Old {
    Snapshot(Arc<Snapshot>, Box<BySlot>),
    /// As it was in force; the bank uses its memory again.
    Piece(Piece),
}

/// What a worker has of each slot of a snapshot.
#[derive(Debug, Clone)]
pub(crate) struct BySlot {
    /// What it says.
    pub(crate) cells: SlotCells,
    /// The parameters of the plans.
    pub(crate) paces: Box<[Pace]>,
}

/// Parameters of the plans of some budgets, from a slot on.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) first: u32,
    pub(crate) paces: Vec<Pace>,
}

/// From the bank to a worker.
#[derive(Debug)]
pub(crate) enum Down {
    /// The ledger's business.
    Ledger(ToWorker),
    /// What became of a claim of a key.
    Claimed { reply: u64, claimed: Box<Claimed> },
    /// What became of a memo of a door.
    Memo { reply: u64, answer: Box<MemoAnswer> },
    /// What became of named holds.
    Named(Box<NamedRequest>),
    /// What became of a hold that ends by time.
    Timed { reply: u64, answer: Box<TimedAnswer> },
    /// A new configuration, in force from the next batch on.
    Snapshot(Arc<Snapshot>, Box<BySlot>),
    /// New parameters of some plans.
    Paces(Piece),
    /// The token keys from now on.
    Keys(Arc<KeyRing>),
    /// Other templates are in force.
    Templates(Arc<Templates>),
    /// The budget that was asked for by its handle, or why there is none.
    Opened(Arc<str>, Result<Made, Verdict>),
    /// A budget that was made on its first ask ended.
    Ended(Arc<str>),
    /// Somebody wants to know what became of a campaign in this worker's auctions.
    Why { campaign: u64, reply: Reply<Option<Fates>> },
    /// The same of many campaigns; those that the worker does not know are left out.
    Fates { campaigns: Arc<[u64]>, reply: Reply<Vec<(u64, Fates)>> },
    /// The journal cannot seal records (true), or can again (false).
    JournalFails(bool),
    /// The answer to a question.
    Answer { conn: u64, answer: Box<Answer> },
}
