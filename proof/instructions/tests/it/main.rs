//! The gate over its public interface: its files, its command line, and what callgrind counts.
#![allow(clippy::unwrap_used, reason = "a set-up that failed is a failed test")]

mod cli;
mod counts;
mod files;
