//! Integration tests.
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "tests: helpers stop at any fault, and numbers are small"
)]

mod caps;
mod cold;
mod loading;
mod never_above;
mod restart;
mod rolling;
mod support;
mod threads;
