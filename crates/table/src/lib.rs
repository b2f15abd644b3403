//! The u64 hash table, timing buckets and rings of the hot path.
//!
//! | part | what it is for |
//! | --- | --- |
//! | [`Map`] | an id (u64) to a small number: budget id to slot, looked up a frame at a time |
//! | [`TextMap`] | a short text to a small value: a budget's handle to its place |
//! | [`Buckets`] | sums of holds by deadline, so that expiry costs one visit a purse, not one per hold |
//! | [`ring`] | one thread hands items to one other thread without a lock |
//! | [`SplitMix64`], [`spread`] | the numbers that a seed repeats; what mixes an id |
//!
//! The crate is pure: no I/O, no threads, no clock, no randomness (the secret of a [`Map`] and the seed of a
//! [`SplitMix64`] are passed in), and nothing allocates after construction except where a method says that it grows.
//! All `unsafe` code lives in one private module, `hot`: cache prefetch and the huge page advice.

mod buckets;
mod hot;
mod map;
mod mix;
pub mod ring;
mod text_map;

pub use buckets::{BucketError, Buckets};
pub use hot::{in_huge_pages, prefetch};
pub use map::{DuplicateKey, Map, ProbeLengths};
pub use mix::{Secret, SplitMix64, spread};
pub use text_map::{TextMap, TextMapError};
