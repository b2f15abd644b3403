//! What producers, worker and lookers-on share: the state that producers look at, and the worker's counters.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering, compiler_fence};
use std::thread::Thread;
use std::time::{Duration, Instant};

use crate::figures::Figures;

/// The worker works, or looks again soon by itself.
const AWAKE: u8 = 0;
/// The worker sleeps: who pushes wakes it.
const ASLEEP: u8 = 1;
/// The queue ends: nothing more is taken.
const CLOSED: u8 = 2;

/// Lines of their own, so that the worker's counting does not slow the producers' look at the state.
#[derive(Debug)]
pub(crate) struct Shared {
    state: State,
    worked: Worked,
    /// Where all times here count from.
    began: Instant,
    thread: OnceLock<Thread>,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct State {
    state: AtomicU8,
    wakes: AtomicU64,
    /// When a push last woke the worker, ns.
    woken_at: AtomicU64,
    /// When the worker gives up after the queue was closed, ns.
    give_up_at: AtomicU64,
}

/// Written by the worker alone.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Worked {
    done: AtomicU64,
    in_doubt: AtomicU64,
    panics: AtomicU64,
    batches: AtomicU64,
    longest_wait: AtomicU64,
}

impl Default for Shared {
    fn default() -> Shared {
        let (state, worked) = (State::default(), Worked::default());
        Shared { state, worked, began: Instant::now(), thread: OnceLock::new() }
    }
}

/// For producers.
impl Shared {
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.state.state.load(Ordering::Acquire) == CLOSED
    }

    /// After a push. The state must be read after the item was stored: the compiler may not swap the two, and what the
    /// processor may do to them is over before the worker's look after [`FIRST_SLEEP`](crate::worker::FIRST_SLEEP).
    #[inline]
    pub(crate) fn wake_if_asleep(&self) {
        compiler_fence(Ordering::SeqCst);
        if self.state.state.load(Ordering::Relaxed) == ASLEEP {
            self.wake();
        }
    }

    /// Of several producers that find the worker asleep, one makes the call.
    #[cold]
    fn wake(&self) {
        if self.change(ASLEEP, AWAKE) {
            self.state.woken_at.store(self.now(), Ordering::Release);
            self.state.wakes.fetch_add(1, Ordering::Relaxed);
            self.unpark();
        }
    }

    fn unpark(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    fn change(&self, from: u8, to: u8) -> bool {
        self.state.state.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }
}

/// For the worker.
impl Shared {
    /// Says that this thread is the worker.
    pub(crate) fn enlist(&self) {
        let _ = self.thread.set(std::thread::current());
    }

    /// From here on who pushes wakes the worker. False when the queue has been closed: do not sleep.
    pub(crate) fn fall_asleep(&self) -> bool {
        self.change(AWAKE, ASLEEP)
    }

    pub(crate) fn is_asleep(&self) -> bool {
        self.state.state.load(Ordering::SeqCst) == ASLEEP
    }

    pub(crate) fn get_up(&self) {
        self.change(ASLEEP, AWAKE);
    }

    /// Time since the queue was made, ns.
    pub(crate) fn now(&self) -> u64 {
        nanos(self.began.elapsed())
    }

    pub(crate) fn woken_at(&self) -> u64 {
        self.state.woken_at.load(Ordering::Acquire)
    }

    pub(crate) fn is_time_over(&self) -> bool {
        self.now() >= self.state.give_up_at.load(Ordering::Acquire)
    }

    /// A call of the work took `items` and returned.
    pub(crate) fn count_done(&self, items: u64) {
        add(&self.worked.done, items);
        add(&self.worked.batches, 1);
    }

    /// A call of the work took `items` and panicked.
    pub(crate) fn count_panic(&self, items: u64) {
        add(&self.worked.in_doubt, items);
        add(&self.worked.panics, 1);
    }

    pub(crate) fn count_wait(&self, ns: u64) {
        let longest = &self.worked.longest_wait;
        longest.store(longest.load(Ordering::Relaxed).max(ns), Ordering::Relaxed);
    }
}

/// For the owner.
impl Shared {
    /// Takes nothing more; the worker has `within` to do what is there.
    pub(crate) fn close(&self, within: Duration) {
        let give_up_at = self.now().saturating_add(nanos(within));
        self.state.give_up_at.store(give_up_at, Ordering::Release);
        self.state.state.store(CLOSED, Ordering::SeqCst);
        self.unpark();
    }

    /// The worker's part of the figures.
    pub(crate) fn worked(&self) -> Figures {
        let read = |counter: &AtomicU64| counter.load(Ordering::Acquire);
        Figures {
            done: read(&self.worked.done),
            in_doubt: read(&self.worked.in_doubt),
            panics: read(&self.worked.panics),
            batches: read(&self.worked.batches),
            wakes: read(&self.state.wakes),
            longest_wait: Duration::from_nanos(read(&self.worked.longest_wait)),
            ..Figures::default()
        }
    }
}

/// Only one thread writes the counter, so no read-modify-write is needed.
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(more), Ordering::Release);
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_push_of_many_wakes() {
        let shared = Shared::default();
        shared.wake_if_asleep();
        assert_eq!(shared.worked().wakes, 0);
        assert!(shared.fall_asleep() && shared.is_asleep());
        shared.wake_if_asleep();
        shared.wake_if_asleep();
        assert_eq!(shared.worked().wakes, 1);
        assert!(!shared.is_asleep());
    }

    #[test]
    fn a_closed_queue_neither_sleeps_nor_opens() {
        let shared = Shared::default();
        shared.close(Duration::MAX);
        assert!(!shared.fall_asleep());
        shared.get_up();
        shared.wake_if_asleep();
        assert!(shared.is_closed() && !shared.is_time_over());
        shared.close(Duration::ZERO);
        assert!(shared.is_time_over());
    }
}
