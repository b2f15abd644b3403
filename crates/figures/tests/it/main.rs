//! The fold against a naive model and against the books of a bank that replays the same records.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[allow(dead_code, unreachable_pub, reason = "the ledger's tests use all of it")]
#[path = "../../../ledger/tests/it/bench.rs"]
mod bench;
mod fold;
mod naive;
#[allow(dead_code, reason = "the ledger's tests use all of it")]
#[path = "../../../ledger/tests/it/random.rs"]
mod random;
mod saved;
