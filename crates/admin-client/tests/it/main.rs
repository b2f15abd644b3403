//! The client against doors that are slow, huge, broken, hostile, or not what they should be.

#![allow(
    clippy::unwrap_used,
    reason = "clippy takes only the tests themselves for tests, not their helpers"
)]

mod doors;
mod plain;
mod tls;
