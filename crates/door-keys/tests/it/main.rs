//! Tests of the door from outside: Transit's exchanges, bad input, scopes, keys that come and go.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod attacks;
mod batch;
mod bulk;
mod exchange;
mod keys;
mod support;
