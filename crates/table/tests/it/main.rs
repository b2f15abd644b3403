//! The structures beside models that are obviously right.

mod buckets;
mod map;
mod mixing;
mod ring;
