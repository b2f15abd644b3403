//! Random numbers that a seed repeats, and the Zipf law. Nothing here touches money but the draw of test amounts.

use table::{SplitMix64, spread};

/// [`SplitMix64`] with the draws of a load.
#[derive(Debug, Clone)]
pub(crate) struct Random(SplitMix64);

/// A hash of bytes that is the same on every machine and in every version: FNV-1a, then mixed.
#[must_use]
pub(crate) fn hash_bytes(seed: u64, bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325 ^ spread(seed);
    for &byte in bytes {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    spread(hash)
}

impl Random {
    /// A stream for a seed; `stream` separates uses of the same seed.
    #[must_use]
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let stream = spread(stream.wrapping_add(0x9e37_79b9)).rotate_left(17);
        Self(SplitMix64::new(spread(seed) ^ stream))
    }

    /// The next 64 bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0.draw()
    }

    /// A number in `0..bound`; `bound` 0 gives 0. Multiply-shift: the bias is below 2^-32 for our bounds.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.bits()) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    /// A number in `0.0..1.0`.
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit a double exactly")]
    pub(crate) fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// True with this probability.
    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// A number in `min..=max`; `min` where the range is empty.
    pub(crate) fn between(&mut self, min: i64, max: i64) -> i64 {
        let span = u64::try_from(max.saturating_sub(min)).unwrap_or(0);
        let step = self.below(span.saturating_add(1));
        min.saturating_add(i64::try_from(step).unwrap_or(0))
    }
}

/// The Zipf law over ranks `0..n`: rank r is drawn in proportion to 1 / (r + 1)^skew.
#[derive(Debug)]
pub(crate) struct Zipf {
    cumulated: Vec<f64>,
}

impl Zipf {
    /// `n` ranks (at least one) and a skew; skew 0 is the uniform law.
    #[must_use]
    pub(crate) fn new(n: usize, skew: f64) -> Self {
        let mut sum = 0.0;
        let cumulated = (0..n.max(1))
            .map(|rank| {
                #[expect(clippy::cast_precision_loss, reason = "ranks are far below 2^53")]
                let place = (rank + 1) as f64;
                sum += place.powf(-skew);
                sum
            })
            .collect();
        Self { cumulated }
    }

    /// Draws a rank.
    pub(crate) fn draw(&self, random: &mut Random) -> usize {
        let total = self.cumulated.last().copied().unwrap_or(1.0);
        let at = random.unit() * total;
        self.cumulated.partition_point(|&c| c <= at).min(self.cumulated.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_repeats_and_another_does_not() {
        let draw = |seed, stream| {
            let mut r = Random::new(seed, stream);
            [r.bits(), r.bits(), r.bits()]
        };
        assert_eq!(draw(1, 2), draw(1, 2));
        assert_ne!(draw(1, 2), draw(1, 3));
        assert_ne!(draw(1, 2), draw(2, 2));
    }

    #[test]
    fn hashes_are_stable_across_versions() {
        assert_eq!(hash_bytes(0, b""), spread(0xcbf2_9ce4_8422_2325));
        assert_ne!(hash_bytes(0, b"a"), hash_bytes(1, b"a"));
        assert_ne!(hash_bytes(0, b"ab"), hash_bytes(0, b"ba"));
    }

    #[test]
    fn bounds_hold() {
        let mut r = Random::new(3, 0);
        for _ in 0..10_000 {
            assert!(r.below(7) < 7);
            assert!((0.0..1.0).contains(&r.unit()));
            assert!((-3..=3).contains(&r.between(-3, 3)));
        }
        assert_eq!(r.below(0), 0);
        assert_eq!(r.between(5, 5), 5);
        assert_eq!(r.between(5, 1), 5);
    }

    /// Chi-square against the law itself: 99 degrees of freedom, 99.99 % of fair draws stay below 161.
    #[test]
    fn zipf_draws_follow_the_law() {
        for skew in [0.0, 0.7, 1.0, 1.5] {
            let zipf = Zipf::new(100, skew);
            let mut random = Random::new(42, 7);
            let draws = 200_000_u32;
            let mut seen = [0_u32; 100];
            for _ in 0..draws {
                seen[zipf.draw(&mut random)] += 1;
            }
            let chi_square: f64 = (0..100)
                .map(|rank| {
                    let before = if rank == 0 { 0.0 } else { zipf.cumulated[rank - 1] };
                    let expected =
                        (zipf.cumulated[rank] - before) / zipf.cumulated[99] * f64::from(draws);
                    (f64::from(seen[rank]) - expected).powi(2) / expected
                })
                .sum();
            assert!(chi_square < 161.0, "skew {skew}: chi-square {chi_square}");
        }
    }

    #[test]
    fn zipf_of_one_rank_always_draws_it() {
        let mut random = Random::new(1, 1);
        assert_eq!(Zipf::new(1, 2.0).draw(&mut random), 0);
        assert_eq!(Zipf::new(0, 2.0).draw(&mut random), 0);
    }
}
