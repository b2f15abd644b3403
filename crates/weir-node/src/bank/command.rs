//! What other threads may ask of the bank, and what it answers.

use std::sync::Arc;
use std::sync::mpsc::{Sender as Reply, channel};
use std::time::Duration;

use gate_auction::Fates;
use ledger::{Amount, BudgetSpec, Door, EditReason, Memo, Room, SpecError, WindowLimit};
use weir_budgets::budgets::Budget;
use weir_budgets::campaign_index::CampaignIndex;
use weir_budgets::templates::Templates;
use weir_pacer::Standing;
use weir_till::{BookLine, Totals};
use wire::{Handle, Verdict};

use super::reconcile::{Booking, Fault, Freed, Outcome};
use super::rows::{Scene, SlotSpec, SurveyPart, SurveyRow};
use crate::reconcile_file::Row;

/// What others may ask of the bank.
pub enum Command {
    /// Take over these budgets, all or none.
    Configure {
        /// All of them: those that the bank knows and that are not here end.
        budgets: Vec<Budget>,
        /// The campaigns of these budgets.
        campaign_index: Arc<CampaignIndex>,
        /// Who changes it, and why.
        reason: EditReason,
        /// Answered once it is sealed.
        reply: Reply<Result<Applied, Refusal>>,
    },
    /// Make budgets from these templates from now on, and change those that were made from them. Behind the `Configure` with the
    /// budgets of the same file.
    Templates {
        /// All of the file.
        templates: Arc<Templates>,
    },
    /// Change these known budgets, all or none; others stay, and so do the campaigns. Few at a time: the bank does nothing
    /// else meanwhile.
    Amend {
        /// As they are to be.
        budgets: Vec<Budget>,
        /// Who changes them, and why.
        reason: EditReason,
        /// Answered once it is sealed.
        reply: Reply<Result<(), Refusal>>,
    },
    /// Could this budget be added?
    Judge {
        /// The budget.
        spec: Box<BudgetSpec>,
        /// Answered at once.
        reply: Reply<Judged>,
    },
    /// What became of a campaign in the auctions: one answer a worker, straight to the asker.
    Why {
        /// The budget's id.
        campaign: u64,
        /// One answer a worker; `None`: it does not know the campaign.
        reply: Reply<Option<Fates>>,
    },
    /// The same of many campaigns: a bounded list, for every worker looks each of them up.
    Fates {
        /// The budgets' ids.
        campaigns: Arc<[u64]>,
        /// One answer a worker, with the campaigns that it knows.
        reply: Reply<Vec<(u64, Fates)>>,
    },
    /// How at most `max` budgets stand, by slot from `from_slot` on; `rows` is memory to be used again.
    Survey {
        /// The first slot.
        from_slot: u32,
        /// Budgets at most.
        max: u32,
        /// Is emptied, filled and sent back.
        rows: Vec<SurveyRow>,
        /// Answered at once.
        reply: Reply<SurveyPart>,
    },
    /// What is the same for all budgets.
    Scene {
        /// Answered at once.
        reply: Reply<Scene>,
    },
    /// The configuration of at most `max` budgets, by slot from `from_slot` on.
    Specs {
        /// The first slot.
        from_slot: u32,
        /// Budgets at most.
        max: u32,
        /// Answered at once.
        reply: Reply<Vec<SlotSpec>>,
    },
    /// Can these lines of what an exchange says of bids be booked? Books nothing.
    JudgeRows {
        /// The lines.
        rows: Vec<Row>,
        /// By line.
        reply: Reply<Vec<Result<Booking, Fault>>>,
    },
    /// Book them; answered once they are sealed.
    Reconcile {
        /// Lines that were judged before.
        rows: Vec<Booking>,
        /// By line; or why nothing can be sealed.
        reply: Reply<Result<Vec<Outcome>, String>>,
    },
    /// Everything that was decided until then is reconciled: what is still kept of it is free.
    Complete {
        /// The instant, milliseconds of Unix time.
        until_ms: u64,
        /// For the journal.
        why: String,
        /// What became free, by budget; or why nothing can be sealed.
        reply: Reply<Result<Vec<Freed>, String>>,
    },
    /// The books of at most `max` budgets and how they stand on their plans, in the order of ids, from the id `from` on.
    Books {
        /// The first id.
        from: u64,
        /// Budgets at most.
        max: usize,
        /// Answered at once.
        reply: Reply<BooksPage>,
    },
    /// The id of the live budget with this handle: a configured one before one that was made on its first ask.
    Find {
        /// A text that may be no handle at all.
        handle: Box<str>,
        /// Answered at once.
        reply: Reply<Option<u64>>,
    },
    /// What else is told of one budget; `None`: there is none with this id.
    About {
        /// The budget.
        id: u64,
        /// Answered at once.
        reply: Reply<Option<AboutBudget>>,
    },
    /// Record these memos; answered once they are sealed.
    Keep {
        /// Of a door without a worker.
        memos: Vec<Memo>,
        /// Whether each is recorded; or why nothing can be sealed.
        reply: Reply<Result<Vec<bool>, String>>,
    },
    /// Record a message about a room; answered once it is sealed.
    Carry {
        /// Which one.
        room: Room,
        /// A [`ledger::room::RoomChange`].
        message: Vec<u8>,
        /// Its number; or why nothing can be sealed.
        reply: Reply<Result<u64, String>>,
    },
    /// At most `max` memos of a door, in the order of keys, from `from` on.
    Memos {
        /// Whose.
        door: Door,
        /// The first key.
        from: u128,
        /// Memos at most.
        max: usize,
        /// Answered at once.
        reply: Reply<Vec<(u128, Box<[u8]>)>>,
    },
    /// The counters.
    Report {
        /// Answered at once.
        reply: Reply<Report>,
    },
    /// Say when everything that was booked before is sealed.
    Seal {
        /// Answered then.
        reply: Reply<()>,
    },
    /// Stop once everything taken so far is answered.
    Stop,
}

/// What the bank knows of a budget that somebody wants to add.
#[derive(Debug)]
pub struct Judged {
    /// It has one with this id, perhaps of an earlier time.
    pub known: bool,
    /// Why it cannot be so.
    pub error: Option<SpecError>,
}

/// What beside its books is told of a budget.
#[derive(Debug, Default)]
pub struct AboutBudget {
    /// Its unique text name.
    pub handle: Option<Handle>,
    /// Its windows, what of each is used, and the first instant after it in ms; of a bucket now.
    pub windows: Vec<(WindowLimit, Amount, u64)>,
}

/// Some of the books, all of one instant.
#[derive(Debug)]
pub struct BooksPage {
    /// The budgets, in the order of ids; with how one stands on its plan, if it has one.
    pub lines: Vec<(BookLine, Option<Standing>)>,
    /// The id of the budget that follows, if one does.
    pub next: Option<u64>,
}

/// Why a configuration is not taken over.
#[derive(Debug)]
pub enum Refusal {
    /// It does not make sense, or does not fit what is there.
    Specs(Vec<SpecError>),
    /// Nothing can be sealed at present.
    Journal(String),
}

/// What a configuration led to.
#[derive(Clone, Copy, Debug)]
pub struct Applied {
    /// Number of the new snapshot.
    pub snapshot: u32,
}

/// How the bank stands.
#[derive(Clone, Debug)]
pub struct Report {
    /// What the workers count, all together.
    pub totals: Totals,
    /// What became of resolves: how often each verdict was given.
    pub resolved: Vec<(Verdict, u64)>,
    /// What the bank counts itself.
    pub bank: ledger::Counts,
    /// Budgets that it knows, ended ones with them.
    pub budgets: usize,
    /// Grants that are open.
    pub grants: usize,
    /// Answers that are kept for keys of idempotency.
    pub keys: usize,
    /// Of these, who has how many, by name: at most 16 callers, the largest first, and `others`.
    pub keys_by_caller: Vec<(String, u64)>,
    /// Number of the last snapshot that workers were sent.
    pub snapshot: u32,
    /// How the journal stands.
    pub journal: ledger_journal::Figures,
}

/// Sends a command and waits for the answer; `None` if the bank does not answer in time.
pub fn ask<T>(
    commands: &std::sync::mpsc::Sender<Command>,
    command: impl FnOnce(Reply<T>) -> Command,
) -> Option<T> {
    let (reply, answer) = channel();
    commands.send(command(reply)).ok()?;
    // The bank answers within milliseconds; a bound, so that a stuck bank does not hang others.
    answer.recv_timeout(Duration::from_secs(10)).ok()
}
