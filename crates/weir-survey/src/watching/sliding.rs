//! Sums over the last seconds of many counters of which few change at a time.

use std::collections::VecDeque;

/// The changes of a stretch of time that ends now and is at most so long. Costs memory for what changed in it, and eight
/// bytes a counter.
#[derive(Debug)]
pub(super) struct Sliding {
    length_ms: u64,
    sums: Vec<i64>,
    /// Oldest first.
    parts: VecDeque<Part>,
}

/// What changed between two looks.
#[derive(Debug)]
struct Part {
    from_ms: u64,
    to_ms: u64,
    changes: Vec<(u32, i64)>,
}

impl Sliding {
    pub(super) fn new(length_ms: u64) -> Sliding {
        Sliding { length_ms, sums: Vec::new(), parts: VecDeque::new() }
    }

    /// Adds what changed from one look to the next, and forgets what is too old by then. Counters are made as they are named.
    pub(super) fn add(&mut self, from_ms: u64, to_ms: u64, changes: Vec<(u32, i64)>) {
        for (counter, change) in &changes {
            let at = *counter as usize;
            if at >= self.sums.len() {
                self.sums.resize(at + 1, 0);
            }
            self.sums[at] = self.sums[at].saturating_add(*change);
        }
        self.parts.push_back(Part { from_ms, to_ms, changes });
        let old = |part: &mut Part| part.to_ms.saturating_add(self.length_ms) <= to_ms;
        while let Some(part) = self.parts.pop_front_if(old) {
            for (counter, change) in part.changes {
                let sum = &mut self.sums[counter as usize];
                *sum = sum.saturating_sub(change);
            }
        }
    }

    /// The sum of a counter's changes.
    pub(super) fn sum(&self, counter: u32) -> i64 {
        self.sums.get(counter as usize).copied().unwrap_or(0)
    }

    /// How much time the sums are of, ms.
    pub(super) fn covered_ms(&self) -> u64 {
        let ends = self.parts.front().zip(self.parts.back());
        ends.map_or(0, |(first, last)| last.to_ms.saturating_sub(first.from_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_too_old_is_forgotten() {
        let mut sliding = Sliding::new(10_000);
        assert_eq!((sliding.sum(3), sliding.covered_ms()), (0, 0));
        sliding.add(0, 2_000, vec![(3, 5)]);
        sliding.add(2_000, 4_000, vec![(3, 1), (0, 7)]);
        assert_eq!((sliding.sum(3), sliding.sum(0), sliding.covered_ms()), (6, 7, 4_000));
        sliding.add(4_000, 12_000, Vec::new());
        assert_eq!((sliding.sum(3), sliding.covered_ms()), (1, 10_000));
        sliding.add(12_000, 14_000, vec![(3, -2)]);
        assert_eq!((sliding.sum(3), sliding.sum(0), sliding.covered_ms()), (-2, 0, 10_000));
    }

    proptest! {
        #[test]
        fn sums_are_those_of_the_parts_within(looks in prop::collection::vec((1..4_000_u64, -9..9_i64), 1..60)) {
            let (mut sliding, mut now_ms, mut all) = (Sliding::new(10_000), 0, Vec::new());
            for (passed, change) in looks {
                sliding.add(now_ms, now_ms + passed, vec![(1, change)]);
                now_ms += passed;
                all.push((now_ms, change));
                let within = all.iter().filter(|(to_ms, _)| to_ms + 10_000 > now_ms);
                prop_assert_eq!(sliding.sum(1), within.map(|(_, change)| change).sum::<i64>());
            }
        }
    }
}
