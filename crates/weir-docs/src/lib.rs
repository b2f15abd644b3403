//! The pages of `docs/`, packed when the crate is compiled: the admin door serves them under `/docs/`, where its errors lead.
//!
//! Only the binary depends on this crate, so that an edit of a page compiles these few lines and links the binary, and nothing of
//! the node. `crates/watch/build/pack.rs` does the packing, for the dashboard too.

#![forbid(unsafe_code)]

use watch::Asset;

include!(concat!(env!("OUT_DIR"), "/pages.rs"));
