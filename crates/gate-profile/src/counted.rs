//! Which holds were counted: so that an impression that is reported twice counts once.

use std::collections::HashSet;

/// The holds of the last one to two spans of time, in two generations; the older one is dropped whole.
#[derive(Debug)]
pub(crate) struct CountedHolds {
    young: HashSet<u64>,
    old: HashSet<u64>,
    turns_at_ms: u64,
    keep_ms: u64,
    young_max: usize,
}

impl CountedHolds {
    /// Remembers each hold for `keep_ms` at least, unless more than `max` come in that time.
    pub(crate) fn new(keep_ms: u64, max: usize) -> CountedHolds {
        let young_max = (max / 2).max(1);
        CountedHolds {
            young: HashSet::new(),
            old: HashSet::new(),
            turns_at_ms: 0,
            keep_ms,
            young_max,
        }
    }

    pub(crate) fn contains(&self, hold: u64) -> bool {
        self.young.contains(&hold) || self.old.contains(&hold)
    }

    /// Remembers a hold; true when another one that was to be kept had to go for it.
    pub(crate) fn insert(&mut self, hold: u64, now_ms: u64) -> bool {
        let full = self.young.len() >= self.young_max;
        if full || now_ms >= self.turns_at_ms {
            self.turns_at_ms = now_ms.saturating_add(self.keep_ms);
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(hold);
        full
    }

    pub(crate) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_is_remembered_for_its_time_and_not_for_ever() {
        let mut counted = CountedHolds::new(100, 1_000);
        for hold in 0..1_000 {
            counted.insert(hold, hold);
            assert!((hold.saturating_sub(100)..=hold).all(|hold| counted.contains(hold)));
        }
        assert!(!counted.contains(700) && counted.len() <= 200);
    }

    #[test]
    fn memory_is_bounded_and_the_bound_is_reported() {
        let mut counted = CountedHolds::new(1_000, 10);
        let early = (0..1_000).filter(|&hold| counted.insert(hold, 0)).count();
        assert!(early > 0 && counted.len() <= 10);
        assert!(counted.contains(999));
    }
}
