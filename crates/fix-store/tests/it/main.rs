//! What the crate promises, from outside.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod files;
mod sessions;
