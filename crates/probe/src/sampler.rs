//! Which ones of many are measured.

/// Picks one in N on average. The gaps vary, each from 1 to 2 N - 1 with equal chances, so that they cannot fall into step
/// with a period of what is measured. The same every run.
#[derive(Clone, Debug)]
pub struct Sampler {
    every: u32,
    left: u64,
    random: u64,
}

impl Sampler {
    /// Picks one in `every`; none if that is 0.
    #[must_use]
    pub fn new(every: u32) -> Sampler {
        let mut sampler = Sampler { every, left: u64::MAX, random: 0x9e37_79b9_7f4a_7c15 };
        if every > 0 {
            sampler.draw();
        }
        sampler
    }

    /// Is the next one picked? One subtraction and one branch where it is not.
    #[inline(always)]
    pub fn pick(&mut self) -> bool {
        self.left = self.left.wrapping_sub(1);
        self.left == 0 && self.draw()
    }

    /// Of how many one is picked; 0 for none.
    #[must_use]
    pub fn every(&self) -> u32 {
        self.every
    }

    #[cold]
    fn draw(&mut self) -> bool {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let gaps = u64::from(self.every.max(1)) * 2 - 1;
        self.left = self.random % gaps + 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picked(every: u32, of: u64) -> u64 {
        let mut sampler = Sampler::new(every);
        (0..of).map(|_| u64::from(sampler.pick())).sum()
    }

    #[test]
    fn one_in_n_is_picked() {
        assert_eq!((picked(0, 10_000), picked(1, 10_000)), (0, 10_000));
        for every in [2, 7, 64, 1_000] {
            let (of, expected) = (u64::from(every) * 2_000, 2_000);
            let found = picked(every, of);
            assert!(found.abs_diff(expected) < expected / 10, "1 in {every}: {found}");
        }
        assert_eq!(picked(u32::MAX, 1), 0, "the widest gap does not overflow");
    }

    /// Work that repeats with any short period is seen in each of its phases alike.
    #[test]
    fn no_phase_of_a_period_is_favoured() {
        for period in [2_u64, 3, 8, 64] {
            let mut sampler = Sampler::new(8);
            let mut seen = vec![0_u64; 64];
            for turn in 0..period * 80_000 {
                seen[usize::try_from(turn % period).unwrap()] += u64::from(sampler.pick());
            }
            let seen = &seen[..usize::try_from(period).unwrap()];
            assert!(seen.iter().all(|seen| seen.abs_diff(10_000) < 600), "{period}: {seen:?}");
        }
    }
}
