//! The engine against an outside market that loses, delays and repeats notices, and on days of the simulator.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod engine;
mod engine_market;
mod sim;
mod stdio;
