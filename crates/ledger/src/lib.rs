//! The ledger: budgets, purses, holds and settlement as a pure state machine.
//!
//! Nothing here reads a clock, does I/O or starts a thread: every function takes what it needs, so the same
//! code runs in the node and in the simulator, and a recorded run replays to the same bytes.
//!
//! There are two sides. A **worker** owns [`Purses`]: the money it may reserve from without asking anyone. The
//! **bank** ([`Bank`]) is the single writer of balances: it fills purses by numbered **grants** and judges every
//! confirm, settle and release. They talk by [`ToBank`] and [`ToWorker`], in order.
//!
//! ```text
//!   worker                                        bank
//!   Purses ──Want──────────────────────────────▶  free ─▶ purses            (Record::Granted)
//!          ◀──────────────────────────────Fill──
//!   reserve: purse ─▶ hold (a share of a sum)
//!          ──Resolve(token)────────────────────▶  purses ─▶ held / settled  (Record::Resolved)
//!          ──Lapse(grant, deadline, sum)───────▶  sum - resolved comes back
//!          ◀──────────────────────────Restore──
//! ```
//!
//! # The two clocks of a hold
//! Until it is confirmed a hold expires at the deadline in its token. Losses are silent, so this is the normal
//! way back and costs one addition a hold and one message a (purse, deadline): see [`Purses`]. Once confirmed
//! it lives until its billing deadline, which follows from the first one, so nothing needs to be kept a hold.
//! What becomes of its money then is the budget's choice, [`OnExpiry`].
//!
//! # Invariants
//! 1. For every budget and window: settled + held + with purses + expired <= limit, but for debts the outside world made
//!    (`OverSettled`, `Late`, `UnknownOrder`, facts of named holds) and limits lowered below what is already out.
//! 2. A hold settles at most once; repeating a request returns the first answer. Of billing notices the highest price counts: what a later
//!    one is higher is booked beside what was booked.
//! 3. The lines of the [`Books`] add up to the limit after every change.
//! 4. A deadline is judged by the stamp of the request, never by whether a sweep already ran.

mod bank;
mod books;
mod edit;
mod evidence;
mod grant;
pub mod keyed;
mod keys;
pub mod memo;
mod message;
pub mod named;
pub mod note;
mod page;
mod part;
mod purse;
mod record;
mod remembered;
pub mod room;
pub mod spec;
pub mod timed;
pub mod token;
mod window;

pub use bank::{
    Bank, Counts, Dormant, DormantWindows, OpenError, Options, Out, ReplayError, Restore,
    RestoreError, UnsealedCredits,
};
pub use books::{Books, Line};
pub use edit::{Edit, EditReason, EditRecord};
pub use evidence::LedgerEvidence;
pub use keyed::{Claimed, Kept, Keyed};
pub use keys::{KeyBytes, KeyError, TokenKey};
pub use memo::{
    DoorMemos, KeptWith, MEMO_BYTES_MAX, Memo, MemoAnswer, MemoJudge, MemoJudgement, MemoMoney,
    MemoRefusal, MemoRequest,
};
pub use message::{
    Handled, Need, No, Owner, Resolution, ToBank, ToWorker, UsedUp, WindowUsedUp,
    billing_deadline_ms,
};
pub use money::Amount;
pub use named::{
    LegAmounts, NamedAnswer, NamedError, NamedHold, NamedKind, NamedLeg, NamedRefusal, NamedSay,
};
pub use part::{Keeps, MARKS_BYTES, Part, Stage};
pub use purse::{At, PurseOptions, Purses};
pub use record::{
    Clock, Door, EDIT_TEXT_MAX, EditAction, NODE_BYTES_MAX, OPERATOR_TEXT_MAX, Origin, Record,
};
pub use remembered::{Answer, Recall, Remembered, Request};
pub use room::{Room, RoomError};
pub use spec::{BUDGETS_MAX, BudgetSpec, MADE_SLOT, OnExpiry, SpecError, Status};
pub use timed::{
    Timed, TimedAnswer, TimedAsk, TimedChange, TimedFacts, TimedHold, TimedRefusal, TimedRequest,
};
pub use token::{Hold, KeyRing, Token, TokenError};
pub use window::{Period, WindowKind, WindowLimit, WindowUse, Windows};
pub use wire::{Action, Verdict};

#[cfg(test)]
mod testing {
    use super::*;
    use money::Unit;

    /// An active budget in USD that began long ago and ends far away.
    pub(crate) fn spec(id: u64, limit: i64) -> BudgetSpec {
        BudgetSpec::plain(id, Unit::parse("USD").unwrap(), Amount::new(limit))
    }
}
