//! The OpenRTB door with a small bidder behind it: what is read, what is answered, what is refused.
#![allow(clippy::unwrap_used)] // reason: a failed set-up is a failed test
#![allow(clippy::print_stdout)] // reason: what was skipped, and why, is a result

mod answers;
mod bad_input;
mod bidder;
mod bodies;
mod corpus;
mod http;
mod native;
mod privacy;
mod reading;
mod violations;
