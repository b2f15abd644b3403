//! Records from the bank's thread to the writer's, and back up to where they are sealed.
//!
//! The bank adds records under a lock, and wakes the writer only if it waits for such records. The writer takes all that
//! gathered; what it sealed it says in one number, and unparks the bank.

use std::time::{Duration, Instant};

use crate::sync::{
    AtomicBool, AtomicU64, Condvar, Mutex, MutexGuard,
    Ordering::{Acquire, Relaxed, Release},
    PoisonError, Thread,
};

/// What records wait in.
pub(crate) trait Waiting {
    /// What the writer takes at once.
    type Taken;

    fn is_empty(&self) -> bool;

    /// The oldest of what waits.
    fn take(&mut self) -> Option<Self::Taken>;
}

/// Between the two threads.
#[derive(Debug)]
pub(crate) struct Handover<W> {
    queue: Mutex<Queue<W>>,
    /// There is something in the queue, or it is time to stop.
    work: Condvar,
    /// Nothing more will come: what waits is written at once, and then the writer ends.
    ending: AtomicBool,
    /// All records before this sequence are sealed.
    sealed: AtomicU64,
}

/// What waits for the writer.
#[derive(Debug)]
struct Queue<W> {
    waiting: W,
    /// Somebody waits for a record in it.
    urgent: bool,
    writer: WaitsFor,
}

/// What the writer is to be woken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitsFor {
    /// It is writing, or gathers until a time.
    Nothing,
    /// Anything at all.
    Records,
    /// Something that somebody waits for.
    Urgent,
}

impl<W: Waiting> Handover<W> {
    pub(crate) fn new(waiting: W, sealed: u64) -> Handover<W> {
        let queue = Queue { waiting, urgent: false, writer: WaitsFor::Nothing };
        Handover {
            queue: Mutex::new(queue),
            work: Condvar::new(),
            ending: AtomicBool::new(false),
            sealed: AtomicU64::new(sealed),
        }
    }

    /// Lets `add` add records; a client waits for one of them if they are `urgent`.
    #[inline]
    pub(crate) fn append<R>(&self, urgent: bool, add: impl FnOnce(&mut W) -> R) -> R {
        let mut queue = self.lock();
        let added = add(&mut queue.waiting);
        queue.urgent |= urgent;
        let wake = match queue.writer {
            WaitsFor::Nothing => false,
            WaitsFor::Records => true,
            WaitsFor::Urgent => queue.urgent,
        };
        drop(queue);
        if wake {
            self.work.notify_one();
        }
        added
    }

    /// Everything that gathered; waits for it, and until it is time for another write after the one at `last`. There are
    /// two least times between writes: where somebody waits, and where nobody does. `None` once there is nothing and it
    /// is time to stop.
    pub(crate) fn next(&self, last: Option<Instant>, gather: [Duration; 2]) -> Option<W::Taken> {
        let mut queue = self.lock();
        while queue.waiting.is_empty() {
            if self.ending.load(Relaxed) {
                return None;
            }
            queue.writer = WaitsFor::Records;
            queue = self.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.writer = WaitsFor::Nothing;
        }
        if let Some(last) = last {
            let [urgent, idle] = gather;
            queue = self.gather(queue, last + idle, WaitsFor::Urgent);
            queue = self.gather(queue, last + urgent, WaitsFor::Nothing);
        }
        queue.urgent = false;
        queue.waiting.take()
    }

    /// Lets more gather until this time, but not beyond the end, nor beyond what it waits for.
    fn gather<'a>(
        &self,
        mut queue: MutexGuard<'a, Queue<W>>,
        end: Instant,
        until: WaitsFor,
    ) -> MutexGuard<'a, Queue<W>> {
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let is_over = until == WaitsFor::Urgent && queue.urgent;
            if left.is_zero() || is_over || self.ending.load(Relaxed) {
                return queue;
            }
            queue.writer = until;
            let waited = self.work.wait_timeout(queue, left);
            (queue, _) = waited.unwrap_or_else(PoisonError::into_inner);
            queue.writer = WaitsFor::Nothing;
        }
    }

    /// For the writer: all records before this sequence are sealed; `bank` hears of it.
    pub(crate) fn seal(&self, sequence: u64, bank: &Thread) {
        self.sealed.store(sequence, Release);
        bank.unpark();
    }

    /// All records before this sequence are sealed, and what the writer did before is seen.
    pub(crate) fn sealed(&self) -> u64 {
        self.sealed.load(Acquire)
    }

    /// For the writer: gives back what it took.
    pub(crate) fn give_back(&self, give: impl FnOnce(&mut W)) {
        give(&mut self.lock().waiting);
    }

    /// Nothing more will come.
    pub(crate) fn end(&self) {
        self.ending.store(true, Relaxed);
        // Under the lock, so that the writer is either waiting or will look at the flag before it does.
        drop(self.lock());
        self.work.notify_one();
    }

    /// Only whole values are written under this lock: a panic elsewhere leaves them good.
    fn lock(&self) -> MutexGuard<'_, Queue<W>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
