//! The auction as its callers see it, beside a reference that has no index.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bench;
mod counterexamples;
mod differential;
mod explain;
mod generator;
mod laws;
mod pods;
mod reference;
mod refusals;
mod rules;
mod several;
mod simple;
