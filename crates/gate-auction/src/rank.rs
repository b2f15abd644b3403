//! The order of those that may bid.

use crate::price::Price;

/// How many are kept sorted. Rarely more than a few are looked at; then the next ones are sorted.
const BEST: usize = 8;

/// One that may bid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ranked {
    pub(crate) price: Price,
    pub(crate) slot: u32,
    /// Position in the impression's deals; [`NO_DEAL`] for none.
    pub(crate) deal: u32,
}

/// Without a deal.
pub(crate) const NO_DEAL: u32 = u32::MAX;

type Key = (Price, u64);

/// Gives out what is pushed from the highest price down, ties by hash. A heap would order all of them; this keeps the
/// best few sorted, and most pushes cost one comparison that goes the same way.
#[derive(Debug, Default)]
pub(crate) struct Ranking {
    all: Vec<Ranked>,
    /// Ascending, the best is last.
    best: Vec<(Key, Ranked)>,
    /// Whoever is not in `best` and was not given out yet is below.
    bound: Option<Key>,
}

impl Ranking {
    pub(crate) fn clear(&mut self) {
        self.all.clear();
        self.best.clear();
        self.bound = None;
    }

    /// `tie` is only called where it may matter. It must differ between slots.
    #[inline]
    pub(crate) fn push(&mut self, ranked: Ranked, tie: impl FnOnce(u32) -> u64) {
        self.all.push(ranked);
        self.keep(ranked, tie);
    }

    #[inline]
    fn keep(&mut self, ranked: Ranked, tie: impl FnOnce(u32) -> u64) {
        if self.best.len() == BEST && ranked.price < self.best[0].0.0 {
            return;
        }
        let key = (ranked.price, tie(ranked.slot));
        let place = self.best.partition_point(|(other, _)| *other < key);
        if self.best.len() < BEST {
            self.best.insert(place, (key, ranked));
        } else if place > 0 {
            self.best[..place].rotate_left(1);
            self.best[place - 1] = (key, ranked);
        }
    }

    /// The next one.
    pub(crate) fn pop(&mut self, tie: impl Fn(u32) -> u64) -> Option<Ranked> {
        if self.best.is_empty() {
            self.refill(tie);
        }
        let (key, ranked) = self.best.pop()?;
        self.bound = Some(key);
        Some(ranked)
    }

    /// Sorts the next best few. Runs once for every eight that were given out.
    fn refill(&mut self, tie: impl Fn(u32) -> u64) {
        let Some(bound) = self.bound else { return };
        for at in 0..self.all.len() {
            let ranked = self.all[at];
            if ranked.price <= bound.0 && (ranked.price, tie(ranked.slot)) < bound {
                self.keep(ranked, &tie);
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::mix;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn gives_out_in_order(prices in prop::collection::vec(0_i64..20, 0..60)) {
            let tie = |slot: u32| mix(u64::from(slot));
            let mut ranking = Ranking::default();
            let price = |micros| Price::from_micros(micros).unwrap();
            let mut expected: Vec<Ranked> = (0..).zip(prices)
                .map(|(slot, micros)| Ranked { price: price(micros), slot, deal: NO_DEAL }).collect();
            expected.iter().for_each(|ranked| ranking.push(*ranked, tie));
            expected.sort_by_key(|ranked| std::cmp::Reverse((ranked.price, tie(ranked.slot))));
            let given: Vec<Ranked> = std::iter::from_fn(|| ranking.pop(tie)).collect();
            prop_assert_eq!(given, expected);
        }
    }
}
