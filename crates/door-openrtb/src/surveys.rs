//! Which requests are surveyed for why-not: one in so many, and the first of each 10 ms, so that little traffic says something, too.

use std::time::Duration;

/// A request is surveyed this long after the one before at the latest, ms...
const EVERY_MS: u64 = 10;
/// ...unless surveys would take more of the worker's time than one part in so many: each asks thousands of campaigns.
const PART: u128 = 100;

/// Chooses them on one worker.
#[derive(Debug)]
pub(super) struct Surveys {
    /// One request in so many, by a hash of its id; 0: none is surveyed.
    every: u64,
    due_ms: u64,
    /// The next one asks another part of the campaigns.
    next: u32,
}

impl Surveys {
    pub(super) fn new(every: u64) -> Surveys {
        Surveys { every, due_ms: 0, next: 0 }
    }

    /// Is a request to be surveyed? The low bits of its hash choose among ties and coins; the sample takes the high ones.
    #[inline]
    pub(super) fn is_due(&self, id_hash: u64, now_ms: u64) -> bool {
        self.every > 0 && (now_ms >= self.due_ms || (id_hash >> 32).is_multiple_of(self.every))
    }

    /// Whom to ask of so many parts: one after the other.
    pub(super) fn part(&mut self, parts: u32) -> u32 {
        self.next = self.next.wrapping_add(1);
        self.next % parts.max(1)
    }

    /// One was surveyed, which took so long.
    pub(super) fn took(&mut self, now_ms: u64, took: Duration) {
        let rest_ms = u64::try_from(took.as_micros() * PART / 1_000).unwrap_or(u64::MAX);
        self.due_ms = now_ms.saturating_add(rest_ms.max(EVERY_MS));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Those of requests that come at these times, with ids that no sample takes.
    fn surveyed(every: u64, took: Duration, times_ms: impl Iterator<Item = u64>) -> usize {
        let mut surveys = Surveys::new(every);
        let is_surveyed = |now_ms: &u64| {
            let is_due = surveys.is_due(1 << 32, *now_ms);
            if is_due {
                surveys.took(*now_ms, took);
            }
            is_due
        };
        times_ms.filter(is_surveyed).count()
    }

    #[test]
    fn the_first_of_each_ten_ms_is_surveyed_as_long_as_that_takes_a_hundredth_of_the_time() {
        let second = || 5_000..6_000_u64;
        assert_eq!(surveyed(1_024, Duration::from_micros(20), second()), 100);
        assert_eq!(surveyed(1_024, Duration::from_micros(500), second()), 20, "50,000 campaigns");
        assert_eq!(
            surveyed(1_024, Duration::from_micros(20), (0..10).map(|s| s * 1_000)),
            10,
            "slow traffic"
        );
        assert_eq!(surveyed(0, Duration::ZERO, second()), 0, "switched off");
    }

    #[test]
    fn one_in_so_many_is_surveyed_whatever_the_time() {
        let mut surveys = Surveys::new(4);
        surveys.took(1_000, Duration::ZERO);
        let due = (0..16_u64).filter(|number| surveys.is_due(number << 32, 1_001)).count();
        assert_eq!(due, 4);
        assert_eq!([3, 3, 3, 1].map(|parts| surveys.part(parts)), [1, 2, 0, 0]);
    }
}
