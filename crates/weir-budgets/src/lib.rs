//! The budgets file: what may be spent, by whom, when, and what bids for it.
//!
//! | part | what it is |
//! | --- | --- |
//! | [`budgets`] | the file, line by line, accepted whole or not at all |
//! | [`templates`] | lines that make budgets on their first ask |
//! | [`windows`] | days, weeks, months and short windows, as files write them |
//! | [`orders`] | the orders that a budget limits, and the index that finds the budgets of an order |
//! | [`prices`] | what symbols cost, by which orders without a limit are held |
//! | [`alerts`] | at which shares of its limits a budget alerts |
//! | [`campaigns`] | the part of a line that bids: targeting, creatives, caps |
//! | [`campaign_index`] | the campaigns of a file as the index that the auction asks, with currencies |
//!
//! Everything here is a function of files: there is no thread, and no clock but the time that a caller gives.

#![forbid(unsafe_code)]

pub mod alerts;
pub mod budgets;
pub mod campaign_index;
pub mod campaigns;
pub mod orders;
pub mod prices;
pub mod templates;
pub mod windows;
