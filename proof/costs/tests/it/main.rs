//! Every comparison runs, in small.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod pairs;
