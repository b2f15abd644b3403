//! Questions that are alone in their frames: which budgets handles stand for, and later ends of holds.

use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use money::Unit;

use crate::{Extended, Verdict};

/// Handles that are remembered; then all are forgotten.
const KNOWN_MAX: usize = 1 << 16;

/// What a handle stands for on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Its number there. Another node may have another for a budget that it made of a template.
    pub id: u64,
    /// What it counts in, where this client knows the unit.
    pub unit: Option<Unit>,
}

/// What came of looking for a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// It is there, or was made.
    Budget(Budget),
    /// It is not, and why.
    Refused(Verdict),
}

/// What a node says to a question.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Said {
    Found(Found),
    Extended(Extended),
    /// Nothing, and why.
    Nothing(Verdict),
}

/// A question that waits for its answer.
#[derive(Debug, Default)]
pub(crate) struct Lookup {
    answer: Mutex<Option<Said>>,
    changed: Condvar,
}

impl Lookup {
    /// Takes the answer.
    pub(crate) fn tell(&self, said: Said) {
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(said);
        self.changed.notify_all();
    }

    /// Waits for the answer.
    pub(crate) fn wait(&self, until: Instant) -> Said {
        let answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
        let left = until.saturating_duration_since(Instant::now());
        let waited = self.changed.wait_timeout_while(answer, left, |answer| answer.is_none());
        let answer = *waited.unwrap_or_else(PoisonError::into_inner).0;
        answer.unwrap_or(Said::Nothing(Verdict::TIMEOUT))
    }
}

/// The answers of before, by node and handle.
#[derive(Debug, Default)]
pub(crate) struct Handles {
    known: Mutex<HashMap<(usize, String), Budget>>,
}

impl Handles {
    fn lock(&self) -> MutexGuard<'_, HashMap<(usize, String), Budget>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, node: usize, handle: &str) -> Option<Budget> {
        self.lock().get(&(node, handle.to_string())).copied()
    }

    pub(crate) fn put(&self, node: usize, handle: &str, budget: Budget) {
        let mut known = self.lock();
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert((node, handle.to_string()), budget);
    }

    pub(crate) fn forget(&self, node: usize, handle: &str) {
        self.lock().remove(&(node, handle.to_string()));
    }
}
