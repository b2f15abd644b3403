//! Integration tests.
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "tests: a panic is how they fail, and their numbers are small"
)]

mod crash;
mod faults;
mod model;
mod policies;
mod refusals;
mod sample;
