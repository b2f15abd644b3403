//! Random numbers that two runs draw alike.

use table::SplitMix64;

/// [`SplitMix64`] that draws orders, keys and resamples. Not for secrets.
#[derive(Clone, Debug)]
pub struct Random(SplitMix64);

impl Random {
    /// A stream of its own for every seed.
    #[must_use]
    pub fn new(seed: u64) -> Random {
        Random(SplitMix64::new(seed))
    }

    /// 64 random bits.
    pub fn draw(&mut self) -> u64 {
        self.0.draw()
    }

    /// A number below `limit`; 0 where `limit` is 0.
    #[allow(clippy::cast_possible_truncation, reason = "a product of less than limit * 2^64")]
    pub fn below(&mut self, limit: usize) -> usize {
        ((u128::from(self.draw()) * limit as u128) >> 64) as usize
    }

    /// Shuffles in place; every order is equally likely.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at + 1));
        }
    }

    /// The numbers below `count` in random order.
    pub fn order(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        self.shuffle(&mut order);
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_permutations_and_differ() {
        let mut random = Random::new(7);
        let (first, mut second) = (random.order(20), random.order(20));
        assert_ne!(first, second);
        second.sort_unstable();
        assert!(second.into_iter().eq(0..20));
    }

    #[test]
    fn numbers_stay_below_their_limit_and_reach_all_of_it() {
        let mut random = Random::new(1);
        let mut seen = [false; 5];
        (0..200).for_each(|_| seen[random.below(5)] = true);
        assert_eq!((seen, random.below(0), random.below(1)), ([true; 5], 0, 0));
    }
}
