//! Notices on their way: first to the profiles' log, where a billed impression is counted, then to the bank, then back
//! to who sent them. Nothing is acknowledged before it is on disk.

use door_transport::ConnId;
use ledger::{Action, Amount, Hold};
use openrtb::ClickStatus;

use super::note::Note;

/// What waits for its seal.
#[derive(Debug)]
pub(crate) enum Waiting {
    Notice(WaitingNotice),
    Click(WaitingClick),
}

/// A click that was found genuine, of a person.
#[derive(Debug)]
pub(crate) struct WaitingClick {
    /// Who waits.
    pub(crate) conn: ConnId,
    /// Which of the worker's clicks it is.
    pub(crate) number: u64,
    /// What is answered; `None` once it is, as the seal took long.
    pub(crate) status: Option<ClickStatus>,
}

/// A notice that was found genuine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitingNotice {
    /// Who waits.
    pub(crate) conn: ConnId,
    /// What it wants of the hold.
    pub(crate) action: Action,
    /// The hold.
    pub(crate) hold: Hold,
    /// Settle: what was spent.
    pub(crate) amount: Amount,
    /// What the bid noted.
    pub(crate) note: Note,
}
