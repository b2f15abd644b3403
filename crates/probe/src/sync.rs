//! What threads share, in one place: `proof/interleavings` puts a model checker's types here.

pub(crate) use std::sync::Arc;
pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
