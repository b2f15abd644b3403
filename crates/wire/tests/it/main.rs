//! Tests of the batch protocol from outside.

mod corpus;
mod evolution;
mod formats;
mod generator;
mod golden;
mod hostile;
mod property;
mod samples;
mod split;
