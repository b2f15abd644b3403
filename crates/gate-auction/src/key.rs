//! Strings to small numbers: everything that is compared is a key.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use table::spread;

/// Keys are below this: bitmaps are as long as the largest key. A snapshot that needs more is refused.
pub const KEY_MAX: u32 = 1 << 22;
/// The key of a text that no campaign mentions. It is in no list, so it matches nothing; but a list that holds it is
/// not empty, so that a whitelist of strangers does not become "everybody".
pub const UNKNOWN: u32 = u32::MAX;

/// What a text names. The same text in two spaces has two unrelated keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Space {
    /// Countries and regions, `USA` and `US-CA`: a request has both.
    Geo,
    /// Operating systems.
    Os,
    /// Languages.
    Language,
    /// Sites and apps by the exchange's id.
    Supply,
    /// Domains: of publishers, and of advertisers in blocklists and creatives.
    Domain,
    /// Content categories: of pages, and of creatives.
    Category,
    /// Segments of users.
    Segment,
    /// Deals.
    Deal,
    /// Buyers' seats.
    Seat,
    /// Apps that are advertised, by bundle.
    Bundle,
}

/// The number of spaces.
const SPACES: usize = Space::Bundle as usize + 1;

/// There are too many different texts in one space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "more than {KEY_MAX} different texts in space {space:?}; split the campaigns over several nodes"
)]
pub struct DictionaryFull {
    /// Where.
    pub space: Space,
}

/// The keys of all texts that campaigns mention. Filled when a snapshot is built, then only read; reading allocates
/// nothing. Texts are compared byte by byte: who fills and who reads must agree on upper and lower case.
#[derive(Debug, Default)]
pub struct Dictionary {
    spaces: [Texts<u32>; SPACES],
    /// Of each category that campaigns mention, or that is the parent of one: its own key and its children's.
    families: Texts<Vec<u32>>,
}

type Texts<T> = HashMap<Box<str>, T, BuildHasherDefault<TextHasher>>;

impl Dictionary {
    /// The key of a text, a new one where it is new.
    ///
    /// # Errors
    /// [`DictionaryFull`] at [`KEY_MAX`] texts.
    pub fn intern(&mut self, space: Space, text: &str) -> Result<u32, DictionaryFull> {
        let texts = &mut self.spaces[space as usize];
        if let Some(&key) = texts.get(text) {
            return Ok(key);
        }
        let key = u32::try_from(texts.len()).ok().filter(|key| *key < KEY_MAX);
        let key = key.ok_or(DictionaryFull { space })?;
        texts.insert(text.into(), key);
        if space == Space::Category {
            self.join_families(text, key);
        }
        Ok(key)
    }

    fn join_families(&mut self, text: &str, key: u32) {
        for name in std::iter::once(text).chain(parent(text)) {
            self.families.entry(name.into()).or_default().push(key);
        }
    }

    /// The keys of a category of a block- or allowlist and of all below it that campaigns mention: who blocks `IAB12`
    /// blocks `IAB12-3`. Empty where campaigns mention none; an allowlist needs [`UNKNOWN`] then. Other taxonomies have
    /// flat numbers: a category there is its whole family.
    #[inline]
    #[must_use]
    pub fn family(&self, category: &str) -> &[u32] {
        self.families.get(category).map_or(&[], Vec::as_slice)
    }

    /// The key of a text, [`UNKNOWN`] where no campaign mentions it.
    #[inline]
    #[must_use]
    pub fn key(&self, space: Space, text: &str) -> u32 {
        self.spaces[space as usize].get(text).copied().unwrap_or(UNKNOWN)
    }
}

/// `IAB12` of `IAB12-3`: the content taxonomy 1.0 has two levels.
fn parent(category: &str) -> Option<&str> {
    let (parent, _) = category.split_once('-')?;
    parent.starts_with("IAB").then_some(parent)
}

/// Eight bytes per step. It needs no secret: only the operator's own texts are stored, so a stranger who sends chosen
/// texts cannot make a chain longer.
#[derive(Default)]
struct TextHasher(u64);

impl Hasher for TextHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0 = spread(self.0.rotate_left(5) ^ u64::from_le_bytes(word));
        }
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_keys_of_their_space() {
        let mut dictionary = Dictionary::default();
        assert_eq!(dictionary.intern(Space::Geo, "USA"), Ok(0));
        assert_eq!(dictionary.intern(Space::Geo, "US-CA"), Ok(1));
        assert_eq!(dictionary.intern(Space::Os, "US-CA"), Ok(0));
        assert_eq!(dictionary.intern(Space::Geo, "USA"), Ok(0));
        assert_eq!(dictionary.key(Space::Geo, "US-CA"), 1);
        assert_eq!(dictionary.key(Space::Geo, "US-C"), UNKNOWN);
        assert_eq!(dictionary.key(Space::Seat, "USA"), UNKNOWN);
    }

    #[test]
    fn families_hold_parent_and_children() {
        let mut dictionary = Dictionary::default();
        let texts = ["IAB12-3", "IAB1", "IAB12", "IAB12-1", "IAB1-2", "7-8"];
        for text in texts.iter().chain(&texts) {
            dictionary.intern(Space::Category, text).unwrap();
        }
        dictionary.intern(Space::Domain, "IAB12-9").unwrap();
        assert_eq!(dictionary.family("IAB12"), [0, 2, 3]);
        assert_eq!(dictionary.family("IAB1"), [1, 4]);
        assert_eq!(dictionary.family("IAB12-3"), [0]);
        assert_eq!(dictionary.family("7-8"), [5]);
        assert!(dictionary.family("7").is_empty() && dictionary.family("IAB12-9").is_empty());
    }

    #[test]
    fn many_texts_are_told_apart() {
        let mut dictionary = Dictionary::default();
        let text = |n: u32| format!("shop-{n}.example");
        for n in 0..20_000 {
            assert_eq!(dictionary.intern(Space::Domain, &text(n)), Ok(n));
        }
        assert!((0..20_000).all(|n| dictionary.key(Space::Domain, &text(n)) == n));
    }
}
