//! Waking and stopping a worker from other threads.
//!
//! # The handshake
//! One atomic says what the worker is doing: `AWAKE`, `ASLEEP`, or `NOTIFIED` (somebody called
//! since it last looked). The worker sets `AWAKE` right before each turn, then polls its queues,
//! and may sleep only by changing `AWAKE` to `ASLEEP`. A waker first puts its item into a queue,
//! then swaps in `NOTIFIED`; only if it swapped out `ASLEEP` does it pay for the eventfd write.
//!
//! No wake-up is lost: both sides use read-modify-write operations on one atomic, so they are in one
//! order. If the waker's swap came before the worker's, the worker's acquire sees the item in the
//! poll that follows. If it came after, the worker finds `NOTIFIED` and does not sleep, or the
//! waker finds `ASLEEP` and writes the eventfd. `AcqRel` is enough; there is no second location
//! whose order matters. The swap may not be skipped on a plain load: that load could be older than
//! the item.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use crate::counters::Counters;
use crate::sys;

const AWAKE: u8 = 0;
const NOTIFIED: u8 = 1;
const ASLEEP: u8 = 2;

#[derive(Debug)]
struct Bell {
    state: AtomicU8,
    event: File,
}

/// Wakes one worker. Cheap while the worker is awake: one atomic swap.
#[derive(Clone, Debug)]
pub struct Waker(Arc<Bell>);

impl Waker {
    fn new() -> io::Result<Self> {
        let event = File::from(sys::event()?);
        Ok(Self(Arc::new(Bell { state: AtomicU8::new(AWAKE), event })))
    }

    /// Makes the worker take a turn soon. What the caller wrote before is visible in that turn.
    pub fn wake(&self) {
        if self.0.state.swap(NOTIFIED, Ordering::AcqRel) == ASLEEP {
            // The only error of this write is a full counter, and then the worker wakes anyway.
            let _ = (&self.0.event).write(&1u64.to_ne_bytes());
        }
    }

    /// The worker is about to poll its queues.
    pub(crate) fn look(&self) {
        self.0.state.swap(AWAKE, Ordering::AcqRel);
    }

    /// Whether the worker may sleep: nobody called since it looked.
    pub(crate) fn may_sleep(&self) -> bool {
        let state = &self.0.state;
        state.compare_exchange(AWAKE, ASLEEP, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Empties the eventfd after it became readable.
    pub(crate) fn clear(&self) {
        let _ = (&self.0.event).read(&mut [0; 8]);
    }

    pub(crate) fn raw_fd(&self) -> RawFd {
        self.0.event.as_raw_fd()
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.event.as_fd()
    }
}

/// The outside's hold on one worker's loop: wake it, stop it, read its counters.
#[derive(Clone, Debug)]
pub struct Handle {
    waker: Waker,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    running: AtomicBool,
    counters: Counters,
}

impl Handle {
    /// A handle for one worker, to be given to [`run`](crate::run).
    ///
    /// # Errors
    /// The kernel gave no eventfd: the process is out of descriptors.
    pub fn new() -> io::Result<Self> {
        Ok(Self { waker: Waker::new()?, shared: Arc::default() })
    }

    /// What other threads use to make this worker look at its queues.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Asks the loop to stop: accept and read nothing more, let the service answer what it has,
    /// send it, close, return. Bounded by `stop_grace_ms_max`. Also works before `run`.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Whether a stop was asked for.
    pub fn stopping(&self) -> bool {
        self.shared.stop.load(Ordering::Acquire)
    }

    /// What the loop did so far.
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    pub(crate) fn bell(&self) -> &Waker {
        &self.waker
    }

    /// Claims the handle for a loop; false when another one runs with it.
    pub(crate) fn claim(&self) -> bool {
        !self.shared.running.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn unclaim(&self) {
        self.shared.running.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_since_the_last_look_forbids_sleep() {
        let waker = Waker::new().unwrap();
        waker.look();
        waker.wake();
        assert!(!waker.may_sleep());
        waker.look();
        assert!(waker.may_sleep());
        // Asleep: exactly this call writes the eventfd, so that the read below returns.
        waker.wake();
        waker.wake();
        waker.clear();
        waker.look();
        assert!(waker.may_sleep());
    }

    #[test]
    fn a_handle_serves_one_loop_at_a_time() {
        let handle = Handle::new().unwrap();
        assert!(handle.claim());
        assert!(!handle.clone().claim());
        handle.unclaim();
        assert!(handle.claim());
    }
}
