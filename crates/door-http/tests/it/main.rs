//! The door over its public interface: what is asked, what comes back, whatever the pieces it arrives in.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(unreachable_pub, reason = "a binary of modules; `pub` says what the others use")]

mod answers;
mod bodies;
mod loops;
mod pieces;
mod smuggling;
mod streams;
mod support;
mod workbench;
