//! The keyed mixing of a [`Map`](crate::Map), and the numbers that a seed repeats.

/// The secret that decides where keys land, 128 bits, drawn once per process by the caller (this crate
/// has no randomness). Whoever does not know it cannot choose keys that fall on one another. It is
/// no cryptographic key: it protects the speed of a table, nothing else.
#[derive(Clone, Copy)]
pub struct Secret {
    blind: u64,
    factor: u64,
}

impl Secret {
    /// Takes 16 random bytes as a number. Weak values (zero, small) are harmless for ordinary keys:
    /// they are spread first; but then the secret can be guessed.
    #[must_use]
    pub const fn new(random: u128) -> Secret {
        #[allow(clippy::cast_possible_truncation, reason = "the two halves are wanted")]
        let (low, high) = (random as u64, (random >> 64) as u64);
        let blind = spread(low ^ 0x9e37_79b9_7f4a_7c15);
        // Odd, so that multiplying by it loses no key bit.
        let factor = spread(high ^ blind.rotate_left(32)) | 1;
        Secret { blind, factor }
    }

    /// Mixes a key to 64 bits whose high bits are the best ones.
    ///
    /// Folding breaks up what is regular in the keys, the second multiplication carries every bit to
    /// the top. One of the two alone is not enough: under one secret in fifty, counters and multiples
    /// of powers of two gather in long runs (up to 24 lines on average instead of 0.05), whichever
    /// bits of the result are used; `tests/it/mixing.rs` shows it.
    #[inline(always)]
    pub(crate) fn mix(self, key: u64) -> u64 {
        let once = fold(key ^ self.blind, self.factor);
        once.wrapping_mul(self.factor)
    }

    /// Hashes a text to 64 bits by folding its words under the secret, as wyhash does (Wang Yi, 2019), and its length at the end. Texts
    /// of 8 to 32 bytes, as names are, take one way without a branch; of others each word is folded into what came before.
    #[inline]
    #[must_use]
    pub fn hash(self, text: &[u8]) -> u64 {
        let sum = match four_words(text) {
            Some([first, second, third, last]) => {
                let front = fold(first ^ self.blind, second ^ self.factor);
                let (blind, factor) = (self.blind.rotate_left(32), self.factor.rotate_left(32));
                front ^ fold(third ^ blind, last ^ factor).rotate_left(1)
            }
            None => self.chain(text),
        };
        fold(sum ^ text.len() as u64, self.factor ^ 0x9e37_79b9_7f4a_7c15)
    }

    /// Short and long texts, eight bytes at a time. The last eight bytes may have been read in part.
    fn chain(self, text: &[u8]) -> u64 {
        let sum = text.chunks_exact(8).fold(self.factor.rotate_left(32), |sum, word| {
            fold(word_of(word) ^ sum ^ self.blind, self.factor)
        });
        fold(last_word(text) ^ sum ^ self.blind, self.factor)
    }
}

/// Compares two texts, a word at a time: a call for a few bytes costs more than they do.
#[inline(always)]
pub(crate) fn are_same(one: &[u8], other: &[u8]) -> bool {
    match (four_words(one), four_words(other)) {
        (Some(words), Some(others)) => one.len() == other.len() && words == others,
        _ => one == other,
    }
}

/// The words of a text of 8 to 32 bytes: of 16 or more the first two and the last two, of fewer the first and the last, which all may
/// overlap.
#[inline(always)]
fn four_words(text: &[u8]) -> Option<[u64; 4]> {
    let back = text.len().checked_sub(8).filter(|back| *back <= 24)?;
    let word = |at: usize| Some(u64::from_le_bytes(*text.get(at..)?.first_chunk::<8>()?));
    Some([word(0)?, word(back.min(8))?, word(back.saturating_sub(8))?, word(back)?])
}

/// Eight bytes as a number.
#[inline(always)]
fn word_of(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

/// The last eight bytes of a text as a number, or all where there are fewer.
#[inline(always)]
fn last_word(text: &[u8]) -> u64 {
    match text.last_chunk::<8>() {
        Some(word) => u64::from_le_bytes(*word),
        None => text.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
}

impl core::fmt::Debug for Secret {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The full 128-bit product with its halves folded together: every key bit reaches every result bit.
#[inline(always)]
const fn fold(left: u64, right: u64) -> u64 {
    let product = left as u128 * right as u128;
    #[allow(clippy::cast_possible_truncation, reason = "the two halves are wanted")]
    let (low, high) = (product as u64, (product >> 64) as u64);
    low ^ high
}

/// The finisher of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014): a bijection of
/// 64 bits that leaves no visible relation between neighbours. Recorded runs depend on it, so it never changes.
///
/// It has no secret: keys that strangers choose need a [`Secret`].
#[inline]
#[must_use]
pub const fn spread(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// SplitMix64: the one generator of random numbers here. A seed gives the same numbers on every machine and in every
/// version; neighbouring seeds give unrelated ones. It passes BigCrush and holds no secret.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// A stream of its own for every seed.
    #[must_use]
    pub const fn new(seed: u64) -> SplitMix64 {
        SplitMix64(seed)
    }

    /// The next 64 bits.
    #[inline]
    pub const fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        spread(self.0)
    }

    /// A number below `limit` (the remainder of a draw, so even to one part in 2^64 / `limit`); 0 where `limit` is 0.
    #[inline]
    pub const fn below(&mut self, limit: u64) -> u64 {
        match self.draw().checked_rem(limit) {
            Some(rest) => rest,
            None => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// What an attacker learnt of one process is worth nothing against the next: keys found by trying
    /// that all share a line under one secret are scattered under another.
    #[test]
    fn collisions_under_one_secret_are_gone_under_another() {
        let (one, other) = (Secret::new(1), Secret::new(2));
        let line = |secret: Secret, key| secret.mix(key) >> 56;
        let colliding: Vec<u64> = (0..).filter(|&key| line(one, key) == 77).take(64).collect();
        let scattered: HashSet<u64> = colliding.iter().map(|&key| line(other, key)).collect();
        // 64 balls into 256 places fill 56.7 on average.
        assert!(scattered.len() > 45, "only {} places", scattered.len());
    }

    /// Keys that fold to the same number collide whatever comes after, so the folding itself must
    /// depend on the secret: undo the last multiplication and compare.
    #[test]
    fn what_folds_together_depends_on_the_secret() {
        let inverse = |odd: u64| {
            (0..6).fold(odd, |x, _| x.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(x))))
        };
        let folded = |random, key| {
            let secret = Secret::new(random);
            secret.mix(key).wrapping_mul(inverse(secret.factor))
        };
        for key in [0, 1, 42, u64::MAX] {
            assert_ne!(folded(1, key), folded(2, key));
            assert_ne!(folded(1, key), folded(1 << 64, key));
        }
    }

    /// The vector that other implementations publish (Vigna's `splitmix64.c`, seed 1234567).
    #[test]
    fn the_generator_is_splitmix64() {
        let mut random = SplitMix64::new(1_234_567);
        let drawn = [random.draw(), random.draw(), random.draw()];
        assert_eq!(
            drawn,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn numbers_below_a_limit_reach_all_of_it() {
        let mut random = SplitMix64::new(7);
        let mut seen = [false; 5];
        (0..200).for_each(|_| seen[usize::try_from(random.below(5)).unwrap()] = true);
        assert_eq!((seen, random.below(0), random.below(1)), ([true; 5], 0, 0));
    }

    #[test]
    fn each_half_of_the_secret_matters() {
        let base = Secret::new(0).mix(42);
        assert_ne!(base, Secret::new(1).mix(42));
        assert_ne!(base, Secret::new(1 << 64).mix(42));
    }
}
