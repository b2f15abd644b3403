//! A seeded generator: the only source of chance in a day.

use table::{SplitMix64, spread};

/// [`SplitMix64`] that also draws real and normal numbers.
#[derive(Clone, Debug)]
pub(crate) struct Rng {
    bits: SplitMix64,
    /// The second number of the last pair of normal ones.
    spare: Option<f64>,
}

impl Rng {
    /// A generator that gives the same numbers for the same seed and purpose, and unrelated ones for another purpose.
    pub(crate) fn new(seed: u64, purpose: &str) -> Rng {
        Rng { bits: SplitMix64::new(hash(seed, purpose)), spare: None }
    }

    /// The next 64 bits.
    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        self.bits.draw()
    }

    /// Evenly spread in `0.0 .. 1.0`.
    #[inline]
    pub(crate) fn unit(&mut self) -> f64 {
        unit(self.next())
    }

    /// Evenly spread between two numbers.
    pub(crate) fn between(&mut self, [from, to]: [f64; 2]) -> f64 {
        from + (to - from) * self.unit()
    }

    /// An index below `end`, which is small and not 0.
    pub(crate) fn index(&mut self, end: usize) -> usize {
        // The remainder is below a `usize`.
        usize::try_from(self.next() % end as u64).unwrap_or(0)
    }

    /// The gap between two events that come once in 1.0 on average.
    #[inline]
    pub(crate) fn gap(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }

    /// A normal number of mean 0 and deviation 1 (Marsaglia's polar method: two at a time).
    #[inline]
    pub(crate) fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        loop {
            let (x, y) = (2.0 * self.unit() - 1.0, 2.0 * self.unit() - 1.0);
            let square = x * x + y * y;
            if square < 1.0 && square > 0.0 {
                let scale = (-2.0 * square.ln() / square).sqrt();
                self.spare = Some(y * scale);
                return x * scale;
            }
        }
    }
}

/// A number rounded to a whole one; 0 if it is negative or no number, the largest if it is too large.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
pub(crate) fn whole(number: f64) -> u64 {
    number.round() as u64
}

/// A text hashed under a seed.
pub(crate) fn hash(seed: u64, text: &str) -> u64 {
    text.bytes()
        .fold(spread(seed ^ 0x5745_4952_5041_4345), |state, byte| spread(state ^ u64::from(byte)))
}

/// The upper 53 bits as a part of one.
#[inline]
fn unit(bits: u64) -> f64 {
    const ONE: f64 = (1_u64 << 53) as f64;
    (bits >> 11) as f64 / ONE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(count: u32, mut draw: impl FnMut() -> f64) -> f64 {
        (0..count).map(|_| draw()).sum::<f64>() / f64::from(count)
    }

    #[test]
    fn a_seed_and_a_purpose_replay_and_differ_from_others() {
        let first = |seed, purpose| Rng::new(seed, purpose).next();
        assert_eq!(first(1, "day"), first(1, "day"));
        assert_ne!(first(1, "day"), first(2, "day"));
        assert_ne!(first(1, "day"), first(1, "days"));
    }

    #[test]
    fn the_moments_are_right() {
        let mut rng = Rng::new(7, "moments");
        assert!((mean(100_000, || rng.unit()) - 0.5).abs() < 0.005);
        assert!((mean(100_000, || rng.gap()) - 1.0).abs() < 0.02);
        assert!(mean(100_000, || rng.normal()).abs() < 0.02);
        assert!((mean(100_000, || rng.normal().powi(2)) - 1.0).abs() < 0.03);
        let beyond_two = mean(100_000, || f64::from(u8::from(rng.normal().abs() > 2.0)));
        assert!((beyond_two - 0.0455).abs() < 0.004, "{beyond_two}");
    }
}
