//! The journal: the append-only record of everything that changed money, how it is sealed, and how a start gets
//! the state back from it.
//!
//! - [`files`]: what is needed of a folder; [`Disk`] is a real one. The simulator has one that lies.
//! - `format`: heads and checksums of files, groups and records. `codec`: records as messages of `schema/journal.xml`.
//! - [`Gather`]: records become groups. [`Log`]: what takes them in order, each behind the one that it names. [`Writer`]:
//!   the log in a folder, where groups become segments. [`Journal`]: all of it, on threads.
//! - [`walk`]: reads records back, and says exactly where something is wrong. [`recover`]: what a start does, after
//!   [`read_back`] has judged whether it can.
//! - [`Follower`]: reads sealed groups beside the writer, for whoever keeps something that follows from the records.
//! - [`repair`]: reads what is sound of a damaged journal, before the damage and behind it.
//! - [`Watermark`]: what is known to be sealed, noted outside of the folder, so that a journal that was rolled back
//!   shows.
//! - [`snapshot`]: the state at a place, so that a start need not read all records.
//!
//! # Rules
//! 1. A record counts once its group is sealed. Sequences have no gaps; each record's checksum covers the one before,
//!    each group's hash covers the group before: a change, a hole or a swap shows.
//! 2. A run never writes into a segment of an earlier one, nor into one that a write failed in: it goes on in a new
//!    segment, whose head says what it continues. (A start writes the last group again, with the same bytes: it cannot
//!    know whether the process before lived to seal it.)
//! 3. At most one group is under way, so only the last one can be torn. A torn group has a sector that was never
//!    written; whatever else is wrong is damage, and a start refuses it with its place.

#![forbid(unsafe_code)]

mod block;
mod codec;
mod disk;
pub mod files;
mod follow;
pub mod format;
mod group;
mod handover;
mod housekeeper;
mod journal;
mod log;
mod names;
mod probes;
mod read;
mod recover;
pub mod repair;
mod replay;
pub mod snapshot;
mod sync;
mod walk;
mod watermark;
mod write;

pub use disk::{Disk, DiskFile, Durability, Method};
pub use follow::{FollowError, Follower, SealedGroup};
pub use format::Position;
pub use group::{EntryHead, Gather, Group};
pub use housekeeper::Kept;
pub use journal::{Figures, Journal, JournalOptions, Status};
pub use log::{Log, NotAppended};
pub use probes::{WriterProbes, WriterStage};
pub use read::{Damage, End, Fault, ReadError, RecordAt};
pub use recover::{
    Cut, Known, ReadBack, RecoverError, Recovered, Report, Tail, read_back, recover, recover_known,
};
pub use snapshot::Keep;
pub use walk::{Each, Place, Start, Walked, segment_head, segments, walk};
pub use watermark::{Rollback, RollbackError, WATERMARK, Watermark, WatermarkError, Watermarks};
pub use write::{SEGMENT_BYTES_MIN, Writer, prepare, prepare_short};
