//! The client against the scripted node of the conformance suite.

#![allow(clippy::unwrap_used)] // reason: a failed set-up is a failed test

mod conform;
mod driver;
mod silent;
