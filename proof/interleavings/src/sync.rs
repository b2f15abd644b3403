//! Loom's types in the place of the standard library's.

pub(crate) use std::sync::PoisonError;

pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
pub(crate) use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
pub(crate) use loom::thread::Thread;
