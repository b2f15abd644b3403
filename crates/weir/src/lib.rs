//! Weir's composition: the one crate that knows all the others, and its command line.

pub mod budgets;
pub mod campaigns;
pub mod check;
pub mod config;
pub mod costs;
pub mod edits;
pub mod journal;
pub mod market;
pub mod node;
pub mod profiles;
pub mod reconcile;
pub mod sample;
pub mod stat;
pub mod why;
pub mod words;

pub use watch::ui_version;
