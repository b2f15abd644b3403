//! A hash table from short texts to a few bytes, built once: handles of budgets to where they stand.
//!
//! ```text
//! slots:  [ mark of the hash | place ]  ──▶  entries:  [ length of the text | value | text | up to a multiple of 8 ]
//! ```
//!
//! A slot has four bytes, so the slots of 50,000 texts fit the second cache, and the mark keeps a lookup from entries of other texts: it
//! waits for memory once. The standard map has a bucket, and a text elsewhere that it points to (`costs pairs names`).
//!
//! What was tried and lost: a [`Map`](crate::Map) of hashes before entries of one cache line each, which is three times as large and took
//! longer than the standard map; and hashbrown's table of offsets, which reads its control bytes before a slot.

use crate::mix::{Secret, are_same};

/// Bytes before a value: the length of its text.
const LEN_BYTES: usize = 2;
/// Entries begin at multiples of it.
const WORD_BYTES: usize = 8;

/// A table from texts of at most 65,535 bytes to values of `N` bytes. It is built whole and does not change; share it as a snapshot.
///
/// Who does not know the secret cannot choose texts that fall on one another.
#[derive(Debug)]
pub struct TextMap<const N: usize> {
    /// A power of two of them, at most half of them taken. The upper bits of a slot are of the hash, the lower `place_bits` say where the
    /// entry begins, in words and from 1 on; 0 is nobody's. A text stands in the first free slot from the one on that its hash names.
    slots: Box<[u32]>,
    place_bits: u32,
    entries: Vec<u8>,
    len: usize,
    secret: Secret,
}

/// Why a [`TextMap`] cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextMapError {
    /// A text stood twice in the input.
    #[error(
        "{text:?} is given twice; a table is built from distinct texts, so drop one of the two"
    )]
    Twice {
        /// The text that came again.
        text: String,
    },
    /// A text, or all of them together, are longer than a table has room for.
    #[error(
        "a text of {bytes} bytes; a table holds texts of at most 65,535 bytes, and less than 32 GiB of them"
    )]
    TooLong {
        /// Bytes of the text.
        bytes: usize,
    },
}

impl<const N: usize> TextMap<N> {
    /// Builds a table from all of `entries`.
    ///
    /// # Errors
    /// [`TextMapError`]: a text comes twice, or is too long.
    pub fn build<'t>(
        secret: Secret,
        entries: impl IntoIterator<Item = (&'t str, [u8; N])>,
    ) -> Result<TextMap<N>, TextMapError> {
        let (mut bytes, mut texts) = (Vec::new(), Vec::new());
        for (text, value) in entries {
            texts.push((text, write(&mut bytes, text, &value)?));
        }
        let last = texts.last().map_or(0, |(_, place)| *place);
        let slots = vec![0; (texts.len() * 2).next_power_of_two()].into_boxed_slice();
        let place_bits = u32::BITS - last.leading_zeros();
        let mut map = TextMap { slots, place_bits, entries: bytes, len: texts.len(), secret };
        for (text, place) in texts {
            map.put(text, place)?;
        }
        Ok(map)
    }

    /// Enters a text that is among the entries already.
    fn put(&mut self, text: &str, place: u32) -> Result<(), TextMapError> {
        let hash = self.secret.hash(text.as_bytes());
        let mut at = self.first(hash);
        while let Some(slot) = self.slots.get(at).filter(|slot| **slot != 0) {
            if self.entry(*slot, hash, text.as_bytes()).is_some() {
                return Err(TextMapError::Twice { text: text.to_owned() });
            }
            at = self.next(at);
        }
        let marked = u64::from(place) | mark(hash, self.place_bits) << self.place_bits;
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = u32::try_from(marked).unwrap_or(place);
        }
        Ok(())
    }

    /// The value of `text`.
    #[inline]
    #[must_use]
    pub fn get(&self, text: &str) -> Option<[u8; N]> {
        let hash = self.secret.hash(text.as_bytes());
        let mut at = self.first(hash);
        loop {
            // Half of the slots are free, so one is met.
            let slot = self.slots.get(at).filter(|slot| **slot != 0)?;
            let found = self.entry(*slot, hash, text.as_bytes());
            if found.is_some() {
                return found;
            }
            at = self.next(at);
        }
    }

    /// The slot that a hash names.
    #[inline(always)]
    fn first(&self, hash: u64) -> usize {
        #[allow(clippy::cast_possible_truncation, reason = "the bits above are masked away")]
        let upper = hash.rotate_left(32) as usize;
        upper & (self.slots.len() - 1)
    }

    #[inline(always)]
    fn next(&self, at: usize) -> usize {
        (at + 1) & (self.slots.len() - 1)
    }

    /// The value of the entry of a slot, if its text is this one.
    #[inline(always)]
    fn entry(&self, slot: u32, hash: u64, text: &[u8]) -> Option<[u8; N]> {
        if u64::from(slot) >> self.place_bits != mark(hash, self.place_bits) {
            return None;
        }
        let place = u64::from(slot) & ((1 << self.place_bits) - 1);
        let begin = usize::try_from(place).ok()?.checked_sub(1)? * WORD_BYTES;
        let (len, rest) = self.entries.get(begin..)?.split_first_chunk::<LEN_BYTES>()?;
        let (value, rest) = rest.split_first_chunk::<N>()?;
        let is_it = usize::from(u16::from_le_bytes(*len)) == text.len()
            && are_same(rest.get(..text.len())?, text);
        is_it.then_some(*value)
    }

    /// How many texts it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// It has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// What a slot keeps of a hash: as many of its lower 32 bits as a slot has room for above the place.
#[inline(always)]
fn mark(hash: u64, place_bits: u32) -> u64 {
    (hash & u64::from(u32::MAX)) >> place_bits
}

/// Writes an entry. Returns where it begins, in words and from 1 on.
fn write(bytes: &mut Vec<u8>, text: &str, value: &[u8]) -> Result<u32, TextMapError> {
    let too_long = || TextMapError::TooLong { bytes: text.len() };
    let len = u16::try_from(text.len()).map_err(|_| too_long())?;
    let place = u32::try_from(bytes.len() / WORD_BYTES + 1).map_err(|_| too_long())?;
    bytes.extend_from_slice(&len.to_le_bytes());
    bytes.extend_from_slice(value);
    bytes.extend_from_slice(text.as_bytes());
    bytes.resize(bytes.len().next_multiple_of(WORD_BYTES), 0);
    Ok(place)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn secret() -> Secret {
        Secret::new(0x1234_5678_9abc_def0_0fed_cba9_8765_4321)
    }

    proptest! {
        #[test]
        fn it_finds_what_the_standard_map_finds(
            texts in prop::collection::hash_set("[a-c/]{0,3}|[a-z0-9/]{30,90}", 0..60),
            asked in prop::collection::vec("[a-c/]{0,3}", 0..40),
        ) {
            let known: HashMap<&str, u32> = texts.iter().map(String::as_str).zip(0..).collect();
            let entries = known.iter().map(|(text, at)| (*text, at.to_le_bytes()));
            let map: TextMap<4> = TextMap::build(secret(), entries).unwrap();
            prop_assert_eq!(map.len(), known.len());
            let found = |text: &str| map.get(text).map(u32::from_le_bytes);
            for text in texts.iter().chain(&asked) {
                prop_assert_eq!(found(text), known.get(text.as_str()).copied());
                let longer = format!("{text}x");
                prop_assert_eq!(found(&longer), known.get(longer.as_str()).copied());
            }
        }

        #[test]
        fn a_text_hashes_by_all_its_bytes(text in prop::collection::vec(any::<u8>(), 1..70), at in any::<prop::sample::Index>(), bit in 0..8_u32) {
            let mut other = text.clone();
            other[at.index(text.len())] ^= 1 << bit;
            prop_assert_ne!(secret().hash(&text), secret().hash(&other));
            prop_assert_ne!(secret().hash(&text), secret().hash(&text[..text.len() - 1]));
            prop_assert_ne!(secret().hash(&text), Secret::new(7).hash(&text));
        }
    }

    #[test]
    fn a_text_that_comes_twice_or_is_too_long_is_refused() {
        let build = |entries: &[(&str, [u8; 1])]| TextMap::build(secret(), entries.iter().copied());
        let twice = build(&[("a", [1]), ("b", [2]), ("a", [3])]).unwrap_err();
        assert_eq!(twice, TextMapError::Twice { text: "a".into() });
        let long = "h".repeat(65_536);
        assert_eq!(build(&[(&long, [1])]).unwrap_err(), TextMapError::TooLong { bytes: 65_536 });
        let longest = "h".repeat(65_535);
        let map = build(&[(&longest, [1]), ("h", [2])]).unwrap();
        assert_eq!((map.get(&longest), map.get("h"), map.get("hh")), (Some([1]), Some([2]), None));
        assert!(!map.is_empty() && build(&[]).unwrap().is_empty());
    }
}
