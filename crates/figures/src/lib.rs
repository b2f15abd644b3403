//! Figures of campaigns: impressions and spend per budget, a fold over the ledger's records.
//!
//! The journal has each billed impression once, sealed. So figures that are folded from sealed records are exact over a kill, and never at
//! odds with the books: the spend of a budget here is what the records put on the lines `Settled`, `OverSettled` and `Late` of its books
//! for holds of purses; what named holds book is no part of it.
//!
//! - **An impression** is a hold that was settled: once, whether within the hold, above it or late. A repeat makes no record. A higher price
//!   that comes later adds spend and no impression. A hold for a screen with many viewers (`qty.multiplier`) is one.
//! - **A click** counts once, with the impression that it is of: where that was billed before, at once; else when it is. Of a hold that is
//!   never billed no click counts.
//! - **A budget** has its own impressions and those of all budgets under it, as its books have their spend.
//! - [`Figures::fold`] takes records in order, in any cut. [`Figures::unsaved`] gives what changed as bytes, together with the sequence that
//!   it stands at; [`Figures::read`] and [`Figures::merge`] take them back. So a store needs one batch for both, and can never hold one without the other.
//! - Figures that begin in the middle of a journal [learn](Figures::learn) budgets and grants from a snapshot of the bank.
//!
//! The crate is pure: no I/O, no threads, no clock.

#![forbid(unsafe_code)]

mod cells;
mod closed;
mod fold;
mod saved;

pub use cells::{CELLS_PER_HOUR_MAX, CellId, Cells, KEY_NONE, KEY_OTHER, KEY_UNKNOWN, Kept};
pub use closed::{NoCells, read_cells, write_cells};
pub use fold::{Figures, FoldError, Total};
pub use saved::MergeError;
