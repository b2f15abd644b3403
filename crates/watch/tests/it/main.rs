//! The door over real HTTP, with a node in memory behind it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod access;
mod changes;
mod described;
mod fake;
mod files;
mod history;
mod http;
mod lists;
mod live;
mod malformed;
