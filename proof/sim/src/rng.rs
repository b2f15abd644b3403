//! A seeded generator: the only source of chance in a run.

use table::SplitMix64;

/// [`SplitMix64`] with the draws of a run.
#[derive(Clone, Debug)]
pub(crate) struct Rng(SplitMix64);

impl Rng {
    /// A generator that gives the same numbers for the same seed.
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(SplitMix64::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5757_4549_5253_494d))
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0.draw()
    }

    /// A number below `end`; 0 if `end` is 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.next() % end }
    }

    /// An index below `end`.
    pub(crate) fn index(&mut self, end: usize) -> usize {
        usize::try_from(self.below(end as u64)).expect("below a length")
    }

    /// A number in `from ..= to`.
    pub(crate) fn between(&mut self, from: i64, to: i64) -> i64 {
        let width = u64::try_from(to - from).expect("from <= to") + 1;
        from + i64::try_from(self.below(width)).expect("a small width")
    }

    /// True in `permille` of 1,000 cases.
    pub(crate) fn chance(&mut self, permille: u64) -> bool {
        self.below(1000) < permille
    }
}
