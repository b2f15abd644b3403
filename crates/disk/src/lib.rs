//! The disk of the stores that are not the journal: files whose errors name them, a folder that one process has at a time, a file that is
//! replaced when the new one is whole, a [`Mark`], which is a number, and a [`LogFile`] of records that is replayed, cut at its torn end and written anew.
//!
//! Every operation that changes a disk goes through one place. With the feature `planted`, which only dev-dependencies enable, a test makes any
//! of them fail, counts them, and gets what a kill or a loss of power leaves behind each: see the module `planted`.
//!
//! ```text
//!   KeyFile, figures ──▶ LogFile ──┐                         planted: a fault here? torn, full, dead
//!   fix-store, gate-store ─────────┴─▶ DiskFile, replace ──▶ operate ──▶ the system
//! ```

mod error;
mod file;
mod folder;
mod log;
mod mark;
#[cfg(any(test, feature = "planted"))]
pub mod planted;
mod system;

pub use error::{Error, Result};
pub use file::DiskFile;
pub use folder::{
    Lock, NotReplaced, Step, lock, make_folder, names, remove, rename, replace, sync_folder,
};
pub use log::{LogFile, LogKind};
pub use mark::Mark;
