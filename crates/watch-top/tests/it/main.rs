//! `weir top` from the outside: canned answers to screens, and servers that mean no good.

#![allow(
    clippy::unwrap_used,
    reason = "clippy takes only the tests themselves for tests, not their helpers"
)]

mod any;
mod canned;
mod screens;
mod servers;
