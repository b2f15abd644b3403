//! A hash table from short texts to a few bytes, built once: handles of budgets to where they stand.
//!
//! A table of offsets, which is small enough for the second cache, and one place for all texts with what they stand for: a lookup waits
//! for memory once. The standard map has a bucket, and a text elsewhere that it points to, and is twice as large (`costs pairs names`).
//!
//! What was tried and lost: a [`Map`](crate::Map) of hashes before entries of one cache line each. It is three times as large, and took
//! longer than the standard map.

use hashbrown::HashTable;

use crate::mix::Secret;

/// Bytes before a value: the length of its text.
const LEN_BYTES: usize = 2;

/// A table from texts of at most 65,535 bytes to values of `N` bytes. It is built whole and does not change; share it as a snapshot.
///
/// Who does not know the secret cannot choose texts that fall on one another.
#[derive(Debug)]
pub struct TextMap<const N: usize> {
    /// Where entries begin in `bytes`.
    offsets: HashTable<u32>,
    /// Entries: the length of a text, little-endian, the value, the text.
    bytes: Vec<u8>,
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
        "a text of {bytes} bytes; a table holds texts of at most 65,535 bytes, and less than 4 GiB of them"
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
        let entries = entries.into_iter();
        let offsets = HashTable::with_capacity(entries.size_hint().0);
        let mut map = TextMap { offsets, bytes: Vec::new(), secret };
        for (text, value) in entries {
            map.add(text, value)?;
        }
        Ok(map)
    }

    fn add(&mut self, text: &str, value: [u8; N]) -> Result<(), TextMapError> {
        let too_long = || TextMapError::TooLong { bytes: text.len() };
        let len = u16::try_from(text.len()).map_err(|_| too_long())?;
        let offset = u32::try_from(self.bytes.len()).map_err(|_| too_long())?;
        let TextMap { offsets, bytes, secret } = self;
        let hash = secret.hash(text.as_bytes());
        if offsets.find(hash, |at| entry::<N>(bytes, *at, text).is_some()).is_some() {
            return Err(TextMapError::Twice { text: text.to_owned() });
        }
        bytes.extend_from_slice(&len.to_le_bytes());
        bytes.extend_from_slice(&value);
        bytes.extend_from_slice(text.as_bytes());
        offsets.insert_unique(hash, offset, |at| secret.hash(text_at::<N>(bytes, *at)));
        Ok(())
    }

    /// The value of `text`.
    #[inline]
    #[must_use]
    pub fn get(&self, text: &str) -> Option<[u8; N]> {
        let mut value = None;
        self.offsets.find(self.secret.hash(text.as_bytes()), |at| {
            value = entry(&self.bytes, *at, text);
            value.is_some()
        });
        value
    }

    /// How many texts it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.offsets.len()
    }

    /// It has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }
}

/// The value of the entry at this offset, if its text is this one.
#[inline]
fn entry<const N: usize>(bytes: &[u8], at: u32, text: &str) -> Option<[u8; N]> {
    let (len, rest) = bytes.get(at as usize..)?.split_first_chunk::<LEN_BYTES>()?;
    let (value, rest) = rest.split_first_chunk::<N>()?;
    let is_it = usize::from(u16::from_le_bytes(*len)) == text.len()
        && rest.get(..text.len())? == text.as_bytes();
    is_it.then_some(*value)
}

/// The text of the entry at this offset.
fn text_at<const N: usize>(bytes: &[u8], at: u32) -> &[u8] {
    let entry = bytes.get(at as usize..).and_then(|rest| rest.split_first_chunk::<LEN_BYTES>());
    let Some((len, rest)) = entry else { return &[] };
    rest.get(N..N + usize::from(u16::from_le_bytes(*len))).unwrap_or_default()
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
