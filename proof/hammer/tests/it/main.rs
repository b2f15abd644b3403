//! The hammer against a node and a bidder of our own that keep their books right, or wrong on purpose.

// A test may stop where something that cannot fail does.
#![allow(clippy::unwrap_used)]

mod audit;
mod bidder;
mod corpus;
mod exchange;
mod fake;
mod faults;
mod honest;
