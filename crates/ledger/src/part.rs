//! A bank's state as a row of values that can be written, and read back by [`crate::Restore`].
//!
//! The row is: the head; each budget followed by its books, parents before their children; what is kept of budgets that were made on
//! their first ask and ended; each grant followed by the marks of its holds; the token keys, oldest first; the secret that keys of
//! idempotency are hashed under, and the answers that are kept for them, oldest first; the memos of doors; the named holds; the end. Only what further records, the digest, the audit
//! and the start of a run need is in it: not what a live run keeps beside it, which ends with the run.

use crate::books::LINES;
use crate::spec::LEVELS_MAX;
use crate::{
    Amount, BudgetSpec, Dormant, Kept, KeyBytes, LedgerEvidence, Memo, NamedHold, TimedHold,
    TokenKey, Verdict, WindowUse,
};

/// Bytes of the marks of a page of 256 holds.
pub const MARKS_BYTES: usize = 128;

/// Where a grant is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The worker may make holds from it.
    Open,
    /// No more holds will be made.
    Retired {
        /// The latest deadline of its holds.
        deadline_ms: u64,
    },
    /// It belongs to an earlier run.
    Suspended {
        /// Its money is free, or expired, from then on.
        until_ms: u64,
    },
    /// It was suspended, and what it still has is expired.
    Expired {
        /// No deadline of its holds is after this.
        until_ms: u64,
    },
}

/// Which of a grant's money stays held when its time is over, until it is reconciled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keeps {
    /// That of unconfirmed holds.
    pub unconfirmed: bool,
    /// That of confirmed holds.
    pub confirmed: bool,
}

/// One part of a bank's state.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// The first part.
    Head {
        /// The latest instant that the bank has seen.
        now_ms: u64,
        /// Longest life of an unconfirmed hold of the last run.
        hold_ms_max: u64,
        /// How long a confirmed hold of the last run waits to be settled.
        billing_ms: u64,
        /// Whoever wins in the last run says so before the deadline of the hold.
        win_notices: bool,
        /// How long workers of the last run may spend without hearing of its log; 0 if that is on the own disk.
        lease_ms: u64,
        /// The last run ended with its workers stopped.
        handed_over: bool,
        /// Number that the next grant will have.
        next_grant: u64,
        /// Number of the last run; 0 before the first.
        run: u32,
        /// The id of the next budget that is made on its first ask.
        next_made: u64,
        /// Whole messages, by [`crate::Room::ALL`].
        kept: [u64; crate::Room::ALL.len()],
    },
    /// A budget. Its books are the next part.
    Budget {
        /// Its configuration.
        spec: Box<BudgetSpec>,
    },
    /// The books of the budget before.
    Books {
        /// First instant of the day that its day lines are about; 0 before its first day.
        day_start_ms: u64,
        /// First instant after it.
        day_end_ms: u64,
        /// In the order of [`crate::Bank::LINES`].
        lines: [Amount; LINES],
        /// What became of the money handed out on that day, in the same order; without `Free`.
        day_lines: [Amount; LINES - 1],
        /// What its holds came to so far.
        evidence: LedgerEvidence,
        /// In files before version 4: what is used of the only week or month that a budget had.
        period: WindowUse,
        /// What is used of each of its windows, in their order; empty in files before version 4.
        windows: Vec<WindowUse>,
    },
    /// What is kept of a budget that was made on its first ask and ended.
    Dormant(Box<Dormant>),
    /// A grant that is not closed.
    Grant {
        /// Its number.
        grant: u64,
        /// The budget's id.
        budget: u64,
        /// Who made holds from it.
        worker: u16,
        /// How long its confirmed holds wait to be settled.
        billing_ms: u64,
        /// With the worker, or suspended, or expired after it was.
        out: Amount,
        /// What of it stays held.
        keeps: Keeps,
        /// Where it is in its life.
        stage: Stage,
        /// First instant of the day its spend belongs to, for the budget and then for each parent.
        days: [u64; LEVELS_MAX],
        /// Per billing deadline: what is confirmed and not yet settled.
        billing: Vec<(u64, Amount)>,
        /// Latest deadline of unconfirmed holds that are expired; 0 if none are.
        expired_ms: u64,
        /// Per deadline, rounded up: what is expired of unconfirmed holds.
        unconfirmed: Vec<(u64, Amount)>,
        /// Per billing deadline: what is expired of confirmed holds.
        unbilled: Vec<(u64, Amount)>,
        /// Per billing deadline: what of holds that are settled stays held.
        rests: Vec<(u64, Amount)>,
    },
    /// What became of 256 holds of the grant before.
    Marks {
        /// Holds from 256 times this on.
        page: u32,
        /// Four bits each, low half first: 0 open, 1 confirmed, 2 settled, 3 settled over, 4 settled late,
        /// 5 released, 6 settled while the rest of the hold stays held, 7 one that ends by time since; and 8 more for a hold that was clicked.
        marks: [u8; MARKS_BYTES],
        /// A settled hold without an entry in `amounts` was settled with its own amount. False: it is not known with which, as in files
        /// before version 6.
        whole: bool,
        /// What settled holds were settled with in all: place in the page, and amount.
        amounts: Vec<(u8, Amount)>,
    },
    /// A token key that is not retired.
    Key(TokenKey),
    /// What keys of idempotency are hashed under.
    AnswerSecret(KeyBytes),
    /// An answer that is kept for a key.
    Answer {
        /// The key, what was asked, and what repeats get.
        kept: Kept,
        /// What the first one came to.
        verdict: Verdict,
        /// From when on it is kept, ms since the Unix epoch.
        at_ms: u64,
    },
    /// A door's memo that counts.
    Memo {
        /// Whose, about what, and the bytes.
        memo: Memo,
        /// The stamp of its request.
        at_ms: u64,
    },
    /// A named hold that is open.
    Named(Box<NamedHold>),
    /// One that ends by time, among the others.
    Timed(Box<TimedHold>),
    /// The last part.
    End {
        /// How many came before.
        parts: u64,
        /// The digest of the state.
        digest: u64,
    },
}

impl Part {
    /// What it is called in errors.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Part::Head { .. } => "the head",
            Part::Budget { .. } => "a budget",
            Part::Books { .. } => "books",
            Part::Dormant(_) => "a budget that ended",
            Part::Grant { .. } => "a grant",
            Part::Marks { .. } => "marks",
            Part::Key(_) => "a key",
            Part::AnswerSecret(_) => "the secret of answers",
            Part::Answer { .. } => "an answer",
            Part::Memo { .. } => "a memo",
            Part::Named(_) | Part::Timed(_) => "a named hold",
            Part::End { .. } => "the end",
        }
    }
}
