//! The batch door over a real socket, with a gate behind it that only counts.
#![allow(clippy::unwrap_used)] // reason: a failed set-up is a failed test
#![allow(clippy::print_stdout)] // reason: what was skipped, and why, is a result

mod model;
mod pipelines;
mod sessions;
mod strangers;
mod support;
