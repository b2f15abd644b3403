//! The journal against everything a disk, a crash or a stranger can do to its files.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod corpus;
mod damage;
mod faults;
mod files;
mod follow;
mod groups;
mod history;
mod logs;
mod snapshots;
mod threads;
mod torn;
mod watermark;
