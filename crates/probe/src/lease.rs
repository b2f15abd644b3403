//! The lease of a bank whose log is on other machines: until when its workers may grant without news of the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use crate::clock::{HandClock, TimeSource};

const US_PER_MS: u64 = 1_000;
const NS_PER_MS: u64 = 1_000_000;

/// The time that this process may act as the bank: `term_ms` from when it **sent** the append that was acknowledged last. Another bank
/// can only have begun its run behind that append, and leaves the purses of this one alone for as long.
///
/// It ends by the monotonic clock **or** by the system's time of day, whichever is first: the monotonic one stands still while the machine
/// sleeps, and the time of day may be set back. The journal's writer renews it, every worker reads it when it wakes up.
#[derive(Debug)]
pub struct Lease {
    term_ms: u64,
    source: TimeSource,
    /// When it ends: by the monotonic clock since `source` began, and by the time of day. Two words are enough: a reader that meets one
    /// old and one new end sees the lease end early.
    end_ms: [AtomicU64; 2],
}

/// When an append was sent first, by both clocks of its [`Lease`], ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent([u64; 2]);

impl Lease {
    /// A lease that is over until the first append is acknowledged.
    #[must_use]
    pub fn new(term_ms: u64) -> Arc<Lease> {
        Lease::of(term_ms, TimeSource::System(Instant::now()))
    }

    /// The same by a clock that is set by hand.
    #[must_use]
    pub fn by_hand(term_ms: u64, hand: Arc<HandClock>) -> Arc<Lease> {
        Lease::of(term_ms, TimeSource::Hand(hand))
    }

    fn of(term_ms: u64, source: TimeSource) -> Arc<Lease> {
        Arc::new(Lease { term_ms, source, end_ms: [AtomicU64::new(0), AtomicU64::new(0)] })
    }

    /// To be called before an append is sent, and once for all its repeats: which of them was taken is not known.
    #[must_use]
    pub fn send(&self) -> Sent {
        Sent(self.now_ms())
    }

    /// The append that was sent first at this time is acknowledged.
    pub fn renew(&self, sent: Sent) {
        for (end_ms, sent_ms) in self.end_ms.iter().zip(sent.0) {
            end_ms.store(sent_ms.saturating_add(self.term_ms), Relaxed);
        }
    }

    /// How long ago that was, by the monotonic clock, ms.
    #[must_use]
    pub fn since_ms(&self, sent: Sent) -> u64 {
        self.now_ms()[0].saturating_sub(sent.0[0])
    }

    /// How long ago the append was sent that was acknowledged last, by the monotonic clock, ms.
    #[must_use]
    pub fn silent_ms(&self) -> u64 {
        let sent_ms = self.end_ms[0].load(Relaxed).saturating_sub(self.term_ms);
        self.now_ms()[0].saturating_sub(sent_ms)
    }

    /// How long it lasts from now on, ms.
    #[must_use]
    pub fn left_ms(&self) -> u64 {
        let left = self.end_ms.iter().zip(self.now_ms());
        left.map(|(end_ms, now_ms)| end_ms.load(Relaxed).saturating_sub(now_ms)).min().unwrap_or(0)
    }

    /// Is it over?
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.left_ms() == 0
    }

    fn now_ms(&self) -> [u64; 2] {
        let (monotonic_ns, wall_us) = self.source.read();
        [monotonic_ns / NS_PER_MS, wall_us / US_PER_MS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERM_MS: u64 = 15_000;

    #[test]
    fn it_ends_a_term_after_the_first_send_by_either_clock() {
        let hand = HandClock::new(1_700_000_000_000);
        let lease = Lease::by_hand(TERM_MS, Arc::clone(&hand));
        assert!(lease.is_over(), "nothing is acknowledged yet");
        let sent = lease.send();
        hand.pass(4_000);
        lease.renew(sent);
        assert_eq!(lease.left_ms(), TERM_MS - 4_000, "from the send, not from the acknowledgement");
        assert_eq!((lease.since_ms(sent), lease.silent_ms()), (4_000, 4_000));
        // The machine sleeps: only the time of day goes on.
        hand.step(11_000);
        assert!(lease.is_over());
        lease.renew(lease.send());
        assert_eq!(lease.left_ms(), TERM_MS);
        // The time of day is set back: the other clock ends it all the same.
        hand.step(-3_600_000);
        hand.pass(TERM_MS - 1);
        assert_eq!(lease.left_ms(), 1);
        hand.pass(1);
        assert!(lease.is_over());
    }
}
