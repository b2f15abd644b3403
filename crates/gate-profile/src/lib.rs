//! Users' segments and frequency counters: a table in memory, a store behind it.
//!
//! | part | what it is |
//! | --- | --- |
//! | [`Profiles`] | the front: read, reserve, confirm, release, count; 256 stripes, each behind a lock |
//! | [`Profile`] | a user as one request sees it: segments, and "is this candidate capped?" without a lock |
//! | [`Cap`] | at most so many impressions of an item to a user in a window |
//! | [`load_segments`] | bulk load from a file |
//! | [`user_key`], [`segment_key`] | the stable hashes that profiles are kept under |
//!
//! **On the hot path** (reading, reserving) nobody waits for a disk: a user is in memory, or new, or
//! *cold*, which is said honestly while a background thread loads him. There is one lock per call, of a
//! 256th of the table: a cap is a promise over all workers, so somebody must say who was first.
//!
//! **Behind it** one thread appends counts to a log (`gate_store`, time windows: its files are unlinked
//! whole), says when they are written, folds them into the store (`fjall`, one value a user) and loads
//! users from there. A count that was acknowledged survives `kill -9`. Reservations do not survive a
//! restart: what was bid just before a crash may be billed beyond a cap.

mod counted;
mod db;
mod delta;
mod error;
mod filter;
mod key;
mod load;
mod options;
mod positions;
mod profile;
mod profiles;
mod queue;
mod shared;
mod slot;
mod stored;
mod stripe;
mod stripes;
mod sync;
mod window;
mod writer;

pub use error::{Busy, CloseError, LoadError, OpenError, Refused, StoreError, UpdateError};
pub use key::{segment_key, user_key};
pub use load::{BadLine, Mode, Progress, Rejected, Summary, load_segments};
pub use options::Options;
pub use profile::{Profile, cap_items};
pub use profiles::{Counted, Figures, Presence, Profiles};
pub use window::{Cap, Window};

/// Most segments of a user.
pub const SEGMENTS_MAX: usize = 255;
/// Most counters of a user, one per item and kind of window. Those of past windows are used again.
pub const COUNTERS_MAX: usize = 255;
/// Most reservations of a user at one time.
pub const RESERVATIONS_MAX: usize = 32;
/// Most caps of one reservation.
pub const CAPS_MAX: usize = 8;
