//! Every change of the bank's state as a value that can be written and replayed. The bank changes its
//! state by applying records and in no other way, so a replay is the same code.

use wire::Verdict;

use crate::{
    Amount, BudgetSpec, Hold, KeptWith, KeyBytes, Memo, NamedHold, Period, Room, TimedChange,
};

/// Where a request came in. The numbers are those of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Door {
    /// The binary batch protocol.
    Batch = 1,
    /// OpenRTB notices over HTTP.
    Openrtb,
    /// A FIX session.
    Fix,
    /// Serial keys and bulk encryption over HTTP.
    Keys,
    /// The admin API.
    Admin,
    /// Calls as JSON over HTTP.
    Spend,
}

/// Who asked for a change, as far as the node can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Where the request came in.
    pub door: Door,
    /// What the client calls it; 0 where it gave no name.
    pub request_id: u64,
}

/// Longest text, in bytes, that is kept of who acted and why.
pub const OPERATOR_TEXT_MAX: usize = 256;
/// Longest name of a machine that a record keeps.
pub const NODE_BYTES_MAX: usize = 64;

/// Longest text, in bytes, that is kept of an edited budget's fields.
pub const EDIT_TEXT_MAX: usize = 2_048;

/// What an edit of a budget's configuration was. The numbers are those of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EditAction {
    /// A new budget.
    Create = 1,
    /// Fields were set.
    Set,
    /// It was paused.
    Pause,
    /// It was paused, and goes on.
    Resume,
    /// An earlier edit was taken back.
    Undo,
}

/// Which time is over for holds that nobody spoke of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Clock {
    /// The one of unconfirmed holds.
    Hold = 1,
    /// The one of confirmed holds.
    Billing,
    /// The one of what workers of an earlier run had.
    Suspension,
}

/// One change.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// A run of the node began. Money that earlier runs had in purses and holds is suspended.
    RunStarted {
        /// Number of the run; the first is 1.
        run: u32,
        /// When.
        at_ms: u64,
        /// No unconfirmed hold of an earlier run has a deadline after this.
        suspended_until_ms: u64,
        /// How long an unconfirmed hold of this run may live at most. The next run needs it, whatever its
        /// own configuration says.
        hold_ms_max: u64,
        /// How long a confirmed hold of this run waits to be settled.
        billing_ms: u64,
        /// Whoever wins says so before the deadline of the hold; see [`crate::Options::win_notices`].
        win_notices: bool,
        /// How long workers of this run may spend after the last append that is known to be in the log was sent; 0: the log
        /// is on the own disk, and they end with the process.
        lease_ms: u64,
        /// The machine that runs it; empty where it is not known.
        node: Box<str>,
    },
    /// The bank of this run is alive. It changes nothing but the time.
    Beat {
        /// When.
        at_ms: u64,
    },
    /// The bank of this run stopped, and its workers before it: the next run suspends no purse's money.
    Handover {
        /// When.
        at_ms: u64,
    },
    /// A part of a message about a room, which the ledger does not read: see [`crate::room`].
    Kept {
        /// Which one.
        room: Room,
        /// From 0.
        part: u32,
        /// The message ends with it.
        last: bool,
        /// At most [`crate::room::PART_BYTES_MAX`].
        bytes: Box<[u8]>,
    },
    /// A budget was created or changed.
    Budget {
        /// Its configuration from now on.
        spec: Box<BudgetSpec>,
    },
    /// A budget was removed from the configuration.
    BudgetEnded {
        /// Its id.
        id: u64,
    },
    /// A budget that was made on its first ask ended, as nobody asked any more. What it spent is kept until it is made again or
    /// forgotten; where it spent nothing, there is nothing to keep.
    BudgetIdled {
        /// Its id.
        id: u64,
    },
    /// What was kept of an idle budget affects no limit any more.
    BudgetForgotten {
        /// Its id.
        id: u64,
    },
    /// A budget's civil day began; the day's spend starts at zero.
    DayRolled {
        /// The budget.
        id: u64,
        /// First instant of the day.
        start_ms: u64,
        /// First instant after it.
        end_ms: u64,
    },
    /// As [`Record::WindowRolled`] for the only week or month that a budget had: in journals before version 4.
    PeriodRolled {
        /// The budget.
        id: u64,
        /// It counts the money of days from this instant on.
        start_ms: u64,
        /// First instant after it.
        end_ms: u64,
    },
    /// A window of a budget began, but for its day. Of weeks and months is used what is used of the present day, of shorter ones
    /// nothing. A bucket is refilled up to now, or begins.
    WindowRolled {
        /// The budget.
        id: u64,
        /// Which of its windows.
        period: Period,
        /// Weeks and months count the money of days from this instant on, shorter windows what is handed out from here on. Of a
        /// bucket now.
        start_ms: u64,
        /// First instant after it. Of a bucket now.
        end_ms: u64,
    },
    /// A purse was filled: money left the free balance of the budget and its parents. Sealed before any
    /// of it is used.
    Granted {
        /// Number of the grant; numbers rise by one. A known number is filled again.
        grant: u64,
        /// The budget's id.
        budget: u64,
        /// Who may reserve from it.
        worker: u16,
        /// How much.
        amount: Amount,
        /// When.
        at_ms: u64,
    },
    /// Money of a grant went back to the free balance: unused, or from holds that lapsed.
    Returned {
        /// The grant.
        grant: u64,
        /// How much.
        amount: Amount,
    },
    /// A hold was confirmed, settled or released; or it was made for a request with a key, whose answer this is.
    Resolved {
        /// The hold.
        hold: Hold,
        /// What it is now: one of `Confirmed`, `Settled`, `SettledOver`, `SettledLate`, `Released`. `Granted`: what it was, and nothing
        /// changes but that `kept` is kept.
        verdict: Verdict,
        /// Booked as spend; zero for confirm and release.
        amount: Amount,
        /// The stamp it was judged by.
        at_ms: u64,
        /// Who asked for it.
        origin: Origin,
        /// Settled within the hold, the rest stays held until its billing time is over: a later notice may name a higher price.
        keeps_rest: bool,
        /// It is settled now, and was clicked before: the click counts from here on.
        clicked: bool,
        /// What repeats of the request are answered, where it had a key, or the memo that it belongs to. In this record, so that neither
        /// is ever sealed without the other.
        kept: Option<Box<KeptWith>>,
    },
    /// A billing notice named a higher price than what was booked for its hold, which is settled and stays so: the difference is booked.
    ToppedUp {
        /// The hold.
        hold: Hold,
        /// What the hold is now: `Settled` where the rest of it covers the difference, `SettledOver` where that is not enough within its billing
        /// time, `SettledLate` after it, and where it was settled late.
        verdict: Verdict,
        /// The difference: booked as spend now.
        amount: Amount,
        /// What is booked for the hold in all.
        total: Amount,
        /// The rest of the hold pays the difference, as far as it goes; else it is free money. See [`Record::of_rest`].
        uses_rest: bool,
        /// The stamp it was judged by.
        at_ms: u64,
        /// Who asked for it.
        origin: Origin,
    },
    /// Somebody clicked what was bought with a hold, for the first time.
    Clicked {
        /// The hold.
        hold: Hold,
        /// It is settled, so the click counts. False: it counts once the hold is settled, by the flag of that record.
        billed: bool,
        /// When.
        at_ms: u64,
        /// Where the click came in.
        origin: Origin,
    },
    /// A door's memo, without money.
    Memo {
        /// What is known of its key from now on.
        memo: Box<Memo>,
        /// The stamp of its request.
        at_ms: u64,
    },
    /// A named hold: what its legs hold and have booked from now on. The difference moves on every level of each.
    Named {
        /// The legs that are said something of; the label where it begins.
        hold: Box<NamedHold>,
        /// It happened outside; else it was asked for, and raises holds only.
        fact: bool,
        /// It begins.
        opens: bool,
        /// When.
        at_ms: u64,
    },
    /// A named hold that holds nothing is forgotten.
    NamedEnded {
        /// Whose.
        door: Door,
        /// What its door calls it.
        key: u128,
        /// When.
        at_ms: u64,
    },
    /// A named hold that ends by time: what it is from now on, whole.
    Timed(Box<TimedChange>),
    /// The billing window of holds is over: what confirmed ones had that were not settled, and the rests of settled ones, is free again.
    BillingLapsed {
        /// The grant.
        grant: u64,
        /// The billing deadline.
        deadline_ms: u64,
        /// Their sum.
        amount: Amount,
    },
    /// The time of holds is over, nobody knows what became of them, and their money is kept until somebody does.
    Expired {
        /// The grant.
        grant: u64,
        /// Which time.
        clock: Clock,
        /// When it was over: the holds' deadline, their billing deadline, or the end of the suspension.
        deadline_ms: u64,
        /// Their sum.
        amount: Amount,
    },
    /// What was expired of holds with deadlines up to this instant will never be billed: it is free again.
    Reconciled {
        /// The grant.
        grant: u64,
        /// Everything up to here is known.
        until_ms: u64,
        /// How much became free.
        amount: Amount,
    },
    /// No more holds will be made from the grant.
    Retired {
        /// The grant.
        grant: u64,
        /// Latest deadline of its holds.
        deadline_ms: u64,
    },
    /// The start of a run suspended this in a grant of an earlier one. It changes nothing: `RunStarted` did, for
    /// all grants at once; this says so for one of them, for whoever reads the trail.
    Suspended {
        /// The grant.
        grant: u64,
        /// Until when.
        until_ms: u64,
        /// How much.
        amount: Amount,
    },
    /// The suspension of an earlier run's grant ended; its money is free again.
    Resumed {
        /// The grant.
        grant: u64,
        /// How much was suspended until now.
        amount: Amount,
    },
    /// Nothing more is known of the grant: its tokens are too old for any answer but that.
    GrantClosed {
        /// The grant.
        grant: u64,
    },
    /// Tokens are made with this key from now on.
    KeyAdded {
        /// Its id, which tokens name.
        key_id: u8,
        /// The key.
        key: KeyBytes,
        /// When.
        at_ms: u64,
    },
    /// No token made with the key can be judged any more.
    KeyRetired {
        /// Its id.
        key_id: u8,
    },
    /// Keys of idempotency are hashed under this secret from now on.
    AnswerSecret {
        /// The secret.
        secret: KeyBytes,
        /// When.
        at_ms: u64,
    },
    /// Somebody acted on the node; the records that follow in the same step are what it led to.
    Operator {
        /// When.
        at_ms: u64,
        /// Who, at most [`OPERATOR_TEXT_MAX`] bytes.
        who: Box<str>,
        /// Why, at most [`OPERATOR_TEXT_MAX`] bytes.
        why: Box<str>,
    },
    /// Somebody edited a budget's configuration. It changes nothing: the `Budget` records that follow in the same step
    /// do; this says what was asked for, for whoever reads the trail. A name or a pacing is said nowhere else.
    Edited {
        /// When.
        at_ms: u64,
        /// Number of the edit; one edit may be about many budgets.
        record: u64,
        /// The budget.
        budget: u64,
        /// What was done.
        action: EditAction,
        /// The changed fields before, as a JSON object; cut to [`EDIT_TEXT_MAX`] bytes, and no JSON then.
        before: Box<str>,
        /// The same fields after.
        after: Box<str>,
    },
}

impl Record {
    /// What of a later price the rest of its hold pays; nothing for other records.
    pub fn of_rest(&self) -> Amount {
        match self {
            Record::ToppedUp { hold, amount, total, uses_rest: true, .. } => {
                let spent = total.get().saturating_sub(amount.get());
                Amount::new(hold.amount.get().saturating_sub(spent).min(amount.get()))
            }
            _ => Amount::ZERO,
        }
    }
}
