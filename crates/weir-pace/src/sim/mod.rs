//! The simulator: the real strategies and the real ledger code on a day of traffic.
//!
//! A [`day::Day`] is [made up](make) under a [scenario], or [read](trace) from somebody's own traffic. A [run] takes
//! it through our own auction and the outside market; [measure] judges it by what hindsight knows ([bound]). [cli] is the
//! command `weir pace`.

pub mod bound;
pub mod cli;
pub mod day;
mod day_landscape;
pub mod make;
mod make_market;
mod make_rng;
pub mod measure;
pub mod report;
pub mod run;
pub mod run_cells;
pub mod run_engine;
pub mod scenario;
pub mod trace;
mod trace_read;
