//! Tests of the crate from outside: oracles, attacks, secrets.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod attacks;
mod fork;
mod golden;
mod keyring;
mod keys;
mod lanes;
mod support;
mod wiped;
