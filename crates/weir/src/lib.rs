//! Weir's composition: the one crate that knows all the others, and its command line.

pub mod budgets;
pub mod config;
pub mod journal;
pub mod node;
pub mod sample;
pub mod stat;
