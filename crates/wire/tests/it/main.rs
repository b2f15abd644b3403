//! Tests of the batch protocol, the journal's records and the live stream from outside.

mod corpus;
mod evolution;
mod formats;
mod generator;
mod golden;
mod hostile;
mod journal;
mod live;
mod property;
mod samples;
mod split;
