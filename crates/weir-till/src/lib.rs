//! The till: what stands between the doors of a worker and the ledger. Doors translate bytes to asks and verdicts to bytes; how money is
//! asked for, held, taken back and settled, who may name a budget, and what waits for a seal is here, once for all of them.
//!
//! ```text
//!  a door ── Ask ──▶ Till: check ─▶ plan ─▶ purse ─▶ Hold        or a Verdict, why not
//!    ▲                 │ resolve, claim, memo, named, open, echo, question
//!    │                 ▼
//!    └── Reply ◀──── the bank, once it is sealed
//! ```
//!
//! | part | what it is for |
//! | --- | --- |
//! | [`Till`] | one worker's part that its doors share: every word to purses and to the bank |
//! | [`Ask`], [`Money`] | the verbs: `check`, `reserve`, `reserve_all`, `undo`, and the same for bids of an auction |
//! | [`Pending`], [`DueQueue`], [`Arrivals`] | the waiting room of a door |
//! | [`FillWait`] | how often and until when the bank is asked for money that somebody waits for |
//! | [`Reply`] | who hears an answer |
//! | [`Snapshot`], [`Names`], [`Facts`] | the configuration in force, and what does not change in a run |
//! | [`Opened`], [`Made`] | budgets that are made on their first ask |
//! | [`BookLine`], [`Totals`] | balances and sums as the outside sees them |
//! | [`Questions`], [`Question`], [`Answer`] | what clients want to know from the bank |
//! | [`cells`], [`LastRefusals`] | what a worker says of budgets for other threads to read |
//! | [`stages`] | what a worker's time goes into |
//!
//! No socket, no thread and no file is here: the threads are those of `weir-node`, the bytes those of the doors.

#![forbid(unsafe_code)]

mod apart;
mod books;
pub mod cells;
mod fill_wait;
mod money;
mod named;
mod opened;
mod pending;
mod questions;
mod refusals;
mod reply;
mod snapshot;
pub mod stages;
mod till;

pub use apart::{Apart, ApartMessage};
pub use books::{BookLine, Totals};
pub use fill_wait::{FillWait, Waits};
pub use money::{Ask, Money};
pub use named::NamedRequest;
pub use opened::{Made, OPENINGS_MAX, Opened};
pub use pending::{Arrivals, DueQueue, Owed, Pending};
pub use questions::{Answer, BudgetStanding, Question, Questions};
pub use refusals::{LAST_MAX, LastRefusal, LastRefusals};
pub use reply::Reply;
pub use snapshot::{Facts, Names, Snapshot};
pub use till::Till;
