//! Work taken off the hot path: a bounded queue to a background thread.
//!
//! A thread that must not wait (in the node: its bank) pushes items; a thread that may wait (for a disk, a socket, a
//! parser) works on them, batch by batch. Every producer has a ring of its own, so producers share nothing that they
//! write, and all rings have one worker.
//!
//! ```
//! use std::time::Duration;
//!
//! let mut setup = after::Setup::new("settled-lines", 1_024);
//! let mut settled = setup.producer();
//! let (to_test, lines) = std::sync::mpsc::channel();
//! let after = setup.start(move |batch: &mut after::Items<'_, u64>| {
//!     let text: String = batch.map(|micros| format!("settled {micros}\n")).collect();
//!     let _ = to_test.send(text); // once per batch, however many items it holds
//! })?;
//!
//! settled.push(1_500_000).expect("an empty queue has room");
//! let ended = after.finish(Duration::from_secs(5));
//! assert!(ended.is_complete());
//! assert_eq!(lines.recv().as_deref(), Ok("settled 1500000\n"));
//! # Ok::<(), after::StartError>(())
//! ```
//!
//! # What it promises
//! - [`Producer::push`] never blocks and never allocates. A full queue gives the item back, and counts it.
//! - Items of one producer are worked on in their order. Between producers there is none.
//! - Nothing is lost in silence and nothing is done twice: `pushed = done + in_doubt + depth` ([`Figures`]).
//! - A panic of the work ends that call and nothing else. What the call had taken is in doubt, what it had not yet
//!   taken is given to the next call.
//! - [`After::finish`] refuses new items, works off the queue, and returns within its time, saying what was not done.
//!   Dropping does the same with five seconds.
//!
//! # When the worker wakes up
//! A batch is all that was there when the worker looked. With nothing there it naps for a tenth of a millisecond,
//! and only if it still finds nothing it falls asleep and says so in a flag. So under load a push costs its place in
//! the ring and one look at a flag that nobody writes: no fence, no system call. A push that finds the flag up takes
//! it down and wakes the worker, which costs some microseconds, at most once for each pause of the load.
//!
//! The flag is read without a fence (which would cost more than the rest of the push). A push at the very moment of
//! falling asleep may therefore miss the flag; the worker looks again by itself a millisecond later, when no processor
//! can still be holding that push back.

#![forbid(unsafe_code)]

mod figures;
mod handle;
mod items;
mod producer;
mod setup;
mod shared;
mod worker;

pub use figures::{Figures, Gauge};
pub use handle::{After, Ended};
pub use items::Items;
pub use producer::{Producer, PushError};
pub use setup::{Setup, StartError};
