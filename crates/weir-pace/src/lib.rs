//! Pacing over the ledger: the slow loop that a node runs, and a simulator that runs the same code on a day of traffic.
//!
//! | part | what it is |
//! | --- | --- |
//! | [`pacer`] | from the bank's books to the parameters of every worker's fast path, once a tick |
//! | [`engine`] | bank, purses and slow loop without threads, with a clock that is told the time |
//! | [`stdio`] | the engine driven by an outside simulator over standard input and output |
//! | [`sim`] | days of traffic, what a run on one comes to, reports |
//!
//! Only `sim` and the numbers that [`stdio`] reads use floats; what decides about money or pace does not.

pub mod engine;
pub mod pacer;
pub mod sim;
pub mod stdio;
