//! The rules of the ledger, one by one, in a small world: a bank, some workers' purses and the messages between
//! them, without delays or faults. Faults are the simulator's part.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bench;
mod bounds;
mod crash;
mod expiry;
mod judge;
mod keyed;
mod limits;
mod made;
mod memos;
mod named;
mod names;
mod notices;
mod parents;
mod period;
mod purses;
mod random;
mod restore;
mod speed;
mod time;
mod timed;
mod trail;
mod windows;
