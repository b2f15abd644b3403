//! Numbers from a seed.

/// Numbers that are the same in every run, as workloads want them.
pub(crate) struct Random(probe::compare::Random);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(probe::compare::Random::new(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.draw()
    }

    /// 0 to `end` - 1.
    pub(crate) fn below(&mut self, end: u32) -> u32 {
        u32::try_from(self.next() % u64::from(end.max(1))).unwrap_or(0)
    }

    /// True so many times in a hundred.
    pub(crate) fn percent(&mut self, percent: u32) -> bool {
        self.below(100) < percent
    }

    /// One of a list that is not empty.
    pub(crate) fn one<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        let end = u32::try_from(list.len()).unwrap_or(u32::MAX);
        &list[self.below(end) as usize]
    }
}
