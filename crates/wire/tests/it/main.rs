//! Tests of the batch protocol and the journal's records from outside.

mod corpus;
mod evolution;
mod formats;
mod generator;
mod golden;
mod hostile;
mod journal;
mod property;
mod samples;
mod split;
