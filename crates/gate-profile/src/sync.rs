//! What threads share, in one place: `proof/interleavings` puts a model checker's types here.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
pub(crate) use std::sync::{Mutex, MutexGuard, PoisonError};
