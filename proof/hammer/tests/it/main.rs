//! The hammer against a node of our own that keeps its books right, or wrong on purpose.

// A test may stop where something that cannot fail does.
#![allow(clippy::unwrap_used)]

mod audit;
mod corpus;
mod fake;
mod faults;
mod honest;
