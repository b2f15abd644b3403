//! The lock-free files of the node under [`loom`](https://docs.rs/loom): each model runs under every order of its threads' steps, and
//! with every stale value that an atomic of its ordering may give.
//!
//! The files are the product's own, included by their path. They take what threads share from their crate's `sync` module, and here
//! that module has loom's types. What they need beside it is replaced by something small (`histogram`), because loom looks at every
//! atomic at every step.
//!
//! | file | what is shown |
//! | --- | --- |
//! | `probe/src/shared.rs` | a reader never sees a value whose maximum it does not see, and counts nothing twice |
//! | `gate-profile/src/filter.rs` | a stored user is never taken for a stranger, also at the moment when the filter is complete |
//! | `ledger-journal/src/handover.rs` | what is called sealed is written, in order; the bank hears of each record; no thread sleeps for ever |
//! | `gate-profile/src/{stripes,positions}.rs` | a user who left memory is found in the filter by every worker |
//!
//! To add a file: give its crate a `sync` module, include the file below, and plant a weaker form by hand to see the test fail. A test
//! failed for each of these, planted one at a time:
//!
//! - histogram: the count stored `Relaxed`; the count read `Relaxed`; the maximum stored after the count;
//! - filter: *complete* stored `Relaxed`; *complete* read `Relaxed`; *complete* asked after the bits (which the product did until
//!   this model found it); bits set by a load and a store instead of one `fetch_or`;
//! - positions: *folded* stored `Relaxed`; *folded* read `Relaxed`;
//! - handover: *sealed* stored `Relaxed`; *sealed* read `Relaxed`; the bank unparked before *sealed* is stored; the end told without the
//!   lock; the lock let go between the look and the sleep; a gathering writer not woken by who waits; who waits forgotten when others come.
//!
//! Not here: `table::ring`, which has no atomics of its own (they are `rtrb`'s).
// The included files have tests of their own, which run where the files belong, also under `cargo test --lib`.
#![cfg(not(test))]

#[path = "../../../crates/gate-profile/src/filter.rs"]
#[allow(dead_code, reason = "the file is the product's; a model needs a part of it")]
mod filter;
#[path = "../../../crates/ledger-journal/src/handover.rs"]
mod handover;
mod histogram;
#[path = "../../../crates/gate-profile/src/positions.rs"]
#[allow(dead_code, reason = "the file is the product's; a model needs a part of it")]
mod positions;
#[path = "../../../crates/probe/src/shared.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "the file is the product's; a model needs a part of it"
)]
mod shared;
#[path = "../../../crates/gate-profile/src/stripes.rs"]
#[allow(dead_code, reason = "the file is the product's; a model needs a part of it")]
mod stripes;
mod sync;

pub mod histograms;
pub mod journal;
pub mod profiles;
