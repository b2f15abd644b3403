//! How long what came over a session stayed in the gate: from the worker's look at it until everything that it led to was kept and on its way.

use probe::Cycles;

/// So many of the last times count.
const LAST: usize = 512;

/// The last times of one session.
#[derive(Debug, Default)]
pub(super) struct Latency {
    /// Ticks of the processor, in any order.
    last: Vec<u64>,
    /// The oldest, once there are [`LAST`].
    oldest: usize,
}

impl Latency {
    pub(super) fn note(&mut self, ticks: u64) {
        if self.last.len() < LAST {
            self.last.push(ticks);
        } else {
            self.last[self.oldest] = ticks;
            self.oldest = (self.oldest + 1) % LAST;
        }
    }

    /// The median and the 99th percentile, microseconds; `None` if nothing came.
    pub(super) fn p50_p99_us(&self) -> Option<[u64; 2]> {
        let mut sorted = self.last.clone();
        sorted.sort_unstable();
        // The nearest rank: so many in a hundred took no longer.
        let rank = |percent: usize| (sorted.len() * percent).div_ceil(100).checked_sub(1);
        let [p50, p99] = [rank(50)?, rank(99)?];
        Some([microseconds(sorted[p50]), microseconds(sorted[p99])])
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a time in the gate is far below 2^53 ticks"
)]
fn microseconds(ticks: u64) -> u64 {
    (ticks as f64 * Cycles::get().ns_per_tick() / 1e3) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_times_count_and_earlier_ones_do_not() {
        let mut latency = Latency::default();
        assert_eq!(latency.p50_p99_us(), None);
        latency.note(1 << 50);
        assert_eq!(latency.p50_p99_us(), Some([microseconds(1 << 50); 2]));
        (0..LAST).for_each(|_| latency.note(0));
        assert_eq!(latency.p50_p99_us(), Some([0, 0]));
        (0..LAST / 100 + 1).for_each(|_| latency.note(1 << 50));
        assert_eq!(latency.p50_p99_us(), Some([0, microseconds(1 << 50)]));
        assert_eq!(latency.last.len(), LAST);
    }
}
