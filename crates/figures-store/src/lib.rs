//! Keeps the figures of campaigns: follows the journal's sealed records, folds them, and has the result on a disk.
//!
//! ```text
//!  journal ── Follower ──▶ Figures::fold ──▶ FigureFile: each second what changed, with the record that it leads to
//!                              │
//!                              ├─▶ cells-N: hours that are over, two hours after they began
//!                              └─▶ Desk: read by other threads; reports
//!  workers ── what a key means ── NameDesk ──▶ names: each second what is new
//! ```
//!
//! - A kill loses nothing: the records that were folded and not saved are folded again. The journal keeps them until they are saved
//!   ([`Desk::unread`]).
//! - Figures that do not belong to the journal (damaged, lost, or of records that a rollback took away) are set aside, and the fold begins
//!   again at the oldest record that the journal has: [`Desk::since_ms`] says when that was.
//! - Which files of cells there are stands in the same batch as what they took over, so no cell is ever counted twice: a file that no batch
//!   tells of is removed at the next start, and its cells are still open.
//! - A disk that refuses to save stops nothing: the figures stay in memory, and it is tried again; where the disk left it open what a crash
//!   would leave, a restart is needed. The retention waits for it until the journal has twice the bytes that it may have.

#![forbid(unsafe_code)]

mod desk;
mod file;
mod follow;
mod kept;
mod names;
mod report;

pub use desk::{Desk, Progress};
pub use figures::Total;
pub use follow::{Follow, FollowError, Limits};
pub use names::NameDesk;
pub use report::{Ask, By, ByTime, ROWS_MAX, Report, ReportError, Row};
