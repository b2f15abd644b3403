//! Deadlines of a worker that asked for them: a heap, of which only what is due is looked at.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::conns::NEVER;
use crate::service::ConnId;

/// Entries of connections that are gone, above twice the live ones, before they are swept out.
const STALE_MAX: usize = 1_024;

/// Whose deadline it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// A connection's tick, by the bits of its id.
    Connection(u64),
    /// The service's own tick.
    Service,
}

/// At most one entry per open connection, and one of the service.
#[derive(Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(u64, Timer)>>,
}

impl Timers {
    /// When the next one is due, or `NEVER`.
    pub(crate) fn due_ms(&self) -> u64 {
        self.heap.peek().map_or(NEVER, |Reverse((due_ms, _))| *due_ms)
    }

    /// Adds one; `is_live` tells who is still there when the heap is full of those who are not.
    pub(crate) fn set(
        &mut self,
        due_ms: u64,
        timer: Timer,
        live: usize,
        mut is_live: impl FnMut(ConnId) -> bool,
    ) {
        if self.heap.len() > 2 * live + STALE_MAX {
            self.heap.retain(|Reverse((_, timer))| match timer {
                Timer::Connection(bits) => is_live(ConnId::from_bits(*bits)),
                Timer::Service => true,
            });
        }
        self.heap.push(Reverse((due_ms, timer)));
    }

    /// The next one that is due, with its deadline.
    pub(crate) fn take(&mut self, now_ms: u64) -> Option<(u64, Timer)> {
        if self.due_ms() > now_ms {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_comes_in_order_and_those_who_are_gone_take_bounded_memory() {
        let mut timers = Timers::default();
        assert_eq!((timers.due_ms(), timers.take(NEVER - 1)), (NEVER, None));
        for due_ms in [30, 10, 20] {
            timers.set(due_ms, Timer::Connection(due_ms), 3, |_| true);
        }
        assert_eq!(timers.due_ms(), 10);
        assert_eq!(timers.take(9), None);
        assert_eq!(timers.take(25), Some((10, Timer::Connection(10))));
        assert_eq!(timers.take(25), Some((20, Timer::Connection(20))));
        assert_eq!(timers.take(25), None);
        // Each connection asks for a tick in an hour and goes.
        for bits in 0..100_000 {
            timers.set(3_600_000, Timer::Connection(bits), 1, |id| id.to_bits() == bits);
            assert!(timers.heap.len() <= STALE_MAX + 4);
        }
    }
}
