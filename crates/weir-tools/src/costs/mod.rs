//! `weir costs`: the sheet of a running node, or of one that is started and loaded for it.

mod bench;
mod cli;

pub use bench::BenchError;
pub use cli::{CostsArgs, CostsError, main};
