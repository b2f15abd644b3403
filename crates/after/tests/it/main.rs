//! The queue as its users see it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod ending;
mod order;
mod panics;
mod pressure;
mod sleep;
