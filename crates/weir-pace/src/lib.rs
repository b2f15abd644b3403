//! The simulator of `weir pace`: the slow loop that a node runs (`weir-pacer`) and the real ledger, on a day of traffic.
//!
//! | part | what it is |
//! | --- | --- |
//! | [`engine`] | bank, purses and slow loop without threads, with a clock that is told the time |
//! | [`stdio`] | the engine driven by an outside simulator over standard input and output |
//! | [`sim`] | days of traffic, what a run on one comes to, reports |
//!
//! Only `sim` and the numbers that [`stdio`] reads use floats; what decides about money or pace does not.

pub mod engine;
pub mod sim;
pub mod stdio;
