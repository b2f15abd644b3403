//! Rules of the house that neither the compiler nor clippy checks.
//!
//! Each rule here is a function over the files of a [`Tree`] that returns its breaches, sorted. `tests/it` holds the repository against all
//! of them, and plants one breach of each in a small tree to show that it is found; the rules over whole crates and pages stand in
//! `tests/it/architecture.rs`, without one. What stands in tests (`#[cfg(test)]`, `tests/`) is
//! held to the length of functions only: a test may name its fixtures as it likes.

mod circles;
mod functions;
mod links;
mod pages;
mod sizes;
mod threads;
mod tree;
mod types;
mod words;

pub use circles::circles;
pub use functions::{LINES_MAX, long_functions};
pub use links::{broken_links, documentation};
pub use pages::{doubly_defined, missing_names};
pub use sizes::{SIZES, sizes};
pub use threads::{Threads, queues_without_a_row, threads_of};
pub use tree::{Breach, Source, Tree};
pub use types::doubled_types;
pub use words::{tics, tics_of_sources};
