//! What workers hand to the background thread: counts to write, users to load.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::delta::Delta;
use crate::error::Busy;
use crate::positions::Positions;
use crate::window::Cap;

/// How the background thread ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Write and fold what is queued first.
    Drain,
    /// At once: what is not written is lost, as in a crash.
    Drop,
}

/// Work for one turn.
#[derive(Debug, Default)]
pub(crate) struct Work {
    pub(crate) deltas: Vec<Delta>,
    pub(crate) loads: Vec<u64>,
    pub(crate) stop: Option<Stop>,
}

type Wake = Box<dyn Fn() + Send>;

/// Bounded; a full queue refuses, it never waits.
pub(crate) struct Queue {
    inner: Mutex<Inner>,
    arrived: Condvar,
    positions: Positions,
    failing: AtomicBool,
    wakes: Mutex<Vec<Wake>>,
    deltas_max: usize,
    loads_max: usize,
}

struct Inner {
    deltas: Vec<Delta>,
    loads: HashSet<u64>,
    last_seq: u64,
    stop: Option<Stop>,
}

impl Queue {
    pub(crate) fn new(deltas_max: usize, loads_max: usize, last_seq: u64) -> Queue {
        let deltas = Vec::with_capacity(deltas_max);
        Queue {
            inner: Mutex::new(Inner { deltas, loads: HashSet::new(), last_seq, stop: None }),
            arrived: Condvar::new(),
            positions: Positions::new(last_seq),
            failing: AtomicBool::new(false),
            wakes: Mutex::new(Vec::new()),
            deltas_max,
            loads_max,
        }
    }

    /// Queues one impression's counts and returns its number.
    pub(crate) fn push(
        &self,
        user: u64,
        hold: u64,
        caps: &[Cap],
        now_ms: u64,
    ) -> Result<u64, Busy> {
        let mut inner = self.lock();
        if inner.stop.is_some() || inner.deltas.len() + caps.len() > self.deltas_max {
            return Err(Busy);
        }
        inner.last_seq += 1;
        let seq = inner.last_seq;
        let idle = inner.deltas.is_empty();
        inner.deltas.extend(distinct(caps).map(|cap| Delta {
            user,
            seq,
            hold,
            item: cap.item,
            at_ms: now_ms,
            window: cap.at(now_ms),
        }));
        drop(inner);
        if idle {
            self.arrived.notify_one();
        }
        Ok(seq)
    }

    /// Asks for a user; when too many are asked for already, a later read asks again.
    pub(crate) fn load(&self, user: u64) {
        let mut inner = self.lock();
        let idle = inner.loads.is_empty();
        if inner.loads.len() < self.loads_max {
            inner.loads.insert(user);
        }
        drop(inner);
        if idle {
            self.arrived.notify_one();
        }
    }

    /// Waits for work, at most `wait`, and takes all of it. The list that `work` had is
    /// filled next.
    pub(crate) fn take(&self, work: &mut Work, wait: Duration) {
        let idle = |inner: &mut Inner| {
            inner.deltas.is_empty() && inner.loads.is_empty() && inner.stop.is_none()
        };
        work.deltas.clear();
        // Workers push into it later, and do not allocate.
        work.deltas.reserve(self.deltas_max);
        let waited = self.arrived.wait_timeout_while(self.lock(), wait, idle);
        let (mut inner, _) = waited.unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut work.deltas, &mut inner.deltas);
        work.loads.clear();
        work.loads.extend(inner.loads.drain());
        work.stop = inner.stop;
    }

    pub(crate) fn stop(&self, how: Stop) {
        self.lock().stop.get_or_insert(how);
        self.arrived.notify_one();
    }

    pub(crate) fn stopped(&self) -> Option<Stop> {
        self.lock().stop
    }

    /// The number of the last impression that was queued.
    pub(crate) fn last_seq(&self) -> u64 {
        self.lock().last_seq
    }

    pub(crate) fn waiting(&self) -> (usize, usize) {
        let inner = self.lock();
        (inner.deltas.len(), inner.loads.len())
    }

    pub(crate) fn written(&self) -> u64 {
        self.positions.written()
    }

    /// Publishes what is on disk, and tells those who wait.
    pub(crate) fn set_written(&self, seq: u64) {
        self.positions.set_written(seq);
        let wakes = self.wakes.lock().unwrap_or_else(PoisonError::into_inner);
        wakes.iter().for_each(|wake| wake());
    }

    pub(crate) fn folded(&self) -> u64 {
        self.positions.folded()
    }

    pub(crate) fn set_folded(&self, seq: u64) {
        self.positions.set_folded(seq);
    }

    pub(crate) fn failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed)
    }

    pub(crate) fn set_failing(&self, failing: bool) {
        self.failing.store(failing, Ordering::Relaxed);
    }

    pub(crate) fn on_written(&self, wake: Wake) {
        self.wakes.lock().unwrap_or_else(PoisonError::into_inner).push(wake);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Each (item, window) once: two caps on one counter count an impression once.
pub(crate) fn distinct(caps: &[Cap]) -> impl Iterator<Item = &Cap> {
    let same = |a: &Cap, b: &Cap| (a.item, a.window) == (b.item, b.window);
    caps.iter()
        .enumerate()
        .filter(move |(at, cap)| !caps[..*at].iter().any(|earlier| same(earlier, cap)))
        .map(|(_, cap)| cap)
}
