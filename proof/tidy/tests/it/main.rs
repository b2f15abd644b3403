//! The repository held against the rules of the house, and each rule against a planted breach.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod architecture;
mod house;
mod planted;
