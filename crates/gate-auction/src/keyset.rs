//! A set of small numbers that is cheap to empty.

/// A set of keys that is emptied at the cost of what is in it. Keys beyond its size are those that no campaign
/// mentions; they are left out.
#[derive(Debug, Default)]
pub(crate) struct KeySet {
    words: Vec<u64>,
    keys: Vec<u32>,
}

impl KeySet {
    /// Empties it and makes room for keys below `size`.
    pub(crate) fn resize(&mut self, size: usize) {
        self.words.clear();
        self.words.resize(size.div_ceil(64), 0);
        self.keys.clear();
    }

    /// Holds these and no others.
    #[inline]
    pub(crate) fn fill(&mut self, keys: &[u32]) {
        for key in self.keys.drain(..) {
            self.words[(key / 64) as usize] = 0;
        }
        for &key in keys {
            if let Some(word) = self.words.get_mut((key / 64) as usize) {
                *word |= 1 << (key % 64);
                self.keys.push(key);
            }
        }
    }

    #[inline]
    pub(crate) fn has(&self, key: u32) -> bool {
        self.words.get((key / 64) as usize).is_some_and(|word| word >> (key % 64) & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_sets_forget() {
        let mut keys = KeySet::default();
        keys.resize(100);
        keys.fill(&[1, 64, 99, 4_000, u32::MAX]);
        let found: Vec<u32> = (0..5_000).filter(|key| keys.has(*key)).collect();
        assert_eq!((found, keys.has(u32::MAX)), (vec![1, 64, 99], false));
        keys.fill(&[2]);
        assert!(keys.has(2) && !keys.has(1) && !keys.has(64));
    }
}
