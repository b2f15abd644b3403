//! Fixed-width records in immutable sorted runs, compacted by a policy chosen when it is compiled.
//!
//! Not a general store: no deletes, no ranges, no transactions, no variable lengths. What it does is keep
//! deltas (a counter went up, an event happened) that somebody holds folded in memory, so that a restart
//! finds them again, and so that what nobody needs any more leaves the disk without being rewritten.
//!
//! - [`Store::append`] writes a batch to an open **segment**, one `write` a batch and window. What it returned
//!   from survives `kill -9`; [`Store::sync`] makes it survive a power cut.
//! - A segment that is full, old or whose window has closed is **sealed**: its records are sorted, repeats
//!   dropped, equal ones folded ([`Record::merge`]), and written as an immutable **run**.
//! - A [`Policy`] looks at the list of runs and says: nothing, merge these, drop these. It is a pure function,
//!   so it is tested as one; the store is compiled for it, so it costs no dispatch.
//!
//! One owner calls everything; there are no threads and no clock in here. [`Store::maintain`] does the sealing
//! and merging in bounded steps between two appends.
//!
//! The bytes on disk and the guarantees are in `docs/segment-store.md`.

mod disk;
mod error;
mod format;
mod manifest;
mod merge;
mod policy;
mod run;
mod segment;
mod store;

pub use error::StoreError;
pub use format::RECORD_BYTES_MAX;
pub use policy::{
    Choice, LEVELS_MAX, Leveled, Policy, RunId, RunMeta, SizeTiered, TimeWindow, Window,
};
pub use store::{Appended, Options, Progress, Recovered, Scan, Stats, Store};

/// A record of fixed width: a key, what tells it from others of the same key, a time, and a value.
///
/// Records are kept in the order (key, sub, window, id). Those that agree in the first three are folded: of
/// equal ids but 0 only the first counts, and the rest become one by [`Record::merge`]. On disk they become one
/// only when no repeat of their ids can turn up any more; whoever reads gets them as one always.
pub trait Record: Copy + Send + 'static {
    /// Bytes of a whole record on disk, 1 to [`RECORD_BYTES_MAX`].
    const BYTES: usize;
    /// The number of this byte layout. A store written with another one, or with another width, is refused.
    const LAYOUT: u32;
    /// How long after its time a record's id matters, milliseconds: a repeat that is appended before that counts
    /// once. Where the policy has windows ids matter until the window closes, if that is longer.
    const ID_LIFE_MS: u64 = 0;

    /// What point reads ask for.
    fn key(&self) -> u64;

    /// Records of one key with a different `sub` are never folded together. Events that must all be kept have
    /// one each.
    fn sub(&self) -> u64 {
        0
    }

    /// What makes a repeat of this record recognisable; 0 for none.
    fn id(&self) -> u64 {
        0
    }

    /// When it happened, milliseconds since the Unix epoch.
    fn time_ms(&self) -> u64;

    /// This record and a newer one as one record, with id 0 and the later of the two times.
    ///
    /// It must be associative. Records without ids arrive oldest first, so "the newer one" is a good merge;
    /// records with ids arrive in any order, so theirs must also be commutative.
    #[must_use]
    fn merge(&self, newer: &Self) -> Self;

    /// Writes the record; `out` has [`Record::BYTES`] bytes.
    fn to_bytes(&self, out: &mut [u8]);

    /// Reads what [`Record::to_bytes`] wrote; `bytes` has [`Record::BYTES`] bytes. Any bytes give a record.
    #[must_use]
    fn from_bytes(bytes: &[u8]) -> Self;
}
