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
//! # Guarantees
//!
//! - **An append that returned survives `kill -9`**, because it is in the page cache. A power cut can take what was appended
//!   since the last [`Store::sync`]. Closing a segment syncs it, so at most `segment_ms_max` of records are at stake.
//! - **A batch is there whole or not at all**, window by window: one block, one checksum. A batch of more than 65,536
//!   records is several blocks. After an error some windows of a batch may be written; append it again if its records
//!   have ids.
//! - **A repeat counts once.** Records with equal key, sub, window and id (but 0) are one. Under time windows that holds
//!   until the window closes; a later repeat is refused like any late record. Without windows it holds for a repeat
//!   within `ID_LIFE_MS` of its time.
//! - **Expired records leave the disk.** Under time windows until the first [`Store::maintain`] after the window's
//!   `dead_ms`; under the other policies, with `keep_ms`, after at most twice that.
//! - **After a crash, a full disk or a failed write** the store opens as it was after some prefix of its appends that holds
//!   all that returned. Left-over files are removed and counted.
//! - **A failed sync is final**, because the kernel may have dropped the pages. The store answers `Broken` until it is
//!   opened again.
//! - **Damage in a closed file is an error** that names file and byte, never a wrong record. An open segment ends at its
//!   first unsound block; `Recovered::cut_bytes` says how much was behind it.
//!
//! [`Store::get`] sees sealed runs only. Records with ids are merged in order of id, so their merge must be commutative.
//! There is no cache but the system's. A lock keeps a folder to one process.
//!
//! # Policies
//!
//! | | [`TimeWindow`] | [`SizeTiered`] | [`Leveled`] |
//! | --- | --- | --- | --- |
//! | for | data that nobody needs after its time: caps, events | counters that never end, written all the time | data that is read by key |
//! | runs per read | per window: few while open, then one | at most (`fan_in` - 1) x (3.1 x log2(n) + 1) | level 0, and one per level |
//! | rewrites per record | as size-tiered in its window, and once | at most 2.4 x log2(n) + 2 | about `ratio` / 2 + 1 per level |
//! | extra disk in a merge | one window | up to the whole store | a few runs |
//! | expiry | removes a window's files unread | removes dead runs, rewrites overdue ones | the same |
//!
//! n is all bytes divided by those of the smallest segment. [`SizeTiered`] merges at least `fan_in` neighbours in age, each
//! at most a quarter larger than the newer ones together. A window takes records until its end plus `lateness_ms`; later
//! ones, and those of windows that begin more than `ahead_ms_max` after now, are refused and counted (`Appended::late`).
//! A window is dead at its end plus the larger of `keep_ms` and `lateness_ms`. A store of one kind of policy is refused by
//! another; the parameters of a policy may change.
//!
//! # How a change becomes true
//!
//! 1. New files are written and synced. 2. The new manifest is written to `MANIFEST.tmp` and synced. 3. The folder is
//!    synced. 4. The manifest is renamed. 5. The folder is synced. 6. Files that the manifest no longer names are removed.
//!
//! A crash before 4 leaves the old store and left-overs, after 4 the new one and left-overs. If 5 fails, the store stops
//! until it is opened again.
//!
//! Three things are not cut into steps: the sort of one segment (`segment_bytes_max`), the sync of a finished run, and the
//! records of one (key, sub, window). An owner that must not wait for them runs the store on a background thread.
//!
//! The bytes on disk are drawn in the modules `format` (header), `segment`, `run` and `manifest`.

mod error;
mod format;
mod manifest;
mod merge;
mod policy;
mod run;
mod segment;
mod store;

pub use disk::Error as DiskError;
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
