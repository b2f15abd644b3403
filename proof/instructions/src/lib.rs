//! Counts the instructions of the hot path, and refuses what makes it dearer.
//!
//! The same program counted twice gives the same number, to the instruction; so a limit of 2 % can be a gate. Time is not
//! like that: on a shared machine the same program differs from itself by more. So the clock shuts the gate only where two
//! programs, interleaved ([`ab`]), differ by 2 % beyond doubt.
//!
//! - [`workload`]: the fixed work that is counted.
//! - [`callgrind`]: runs it under valgrind, and reads what was counted.
//! - [`baseline`]: the figures that were accepted, and the history of reasons.
//! - [`gate`]: what became dearer, and who did it. [`check`]: the commands around it.
//! - [`step`]: what one change did, counted and by the clock.
//! - [`rates`]: whether the gate tells what it should.
//! - [`ab`]: two builds by the clock.

pub mod ab;
pub mod baseline;
pub mod callgrind;
pub mod check;
pub mod gate;
mod parallel;
pub mod rates;
pub mod step;
pub mod toolchain;
pub mod workload;
