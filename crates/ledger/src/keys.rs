//! The keys of hold tokens, as the bank keeps them: they outlive a run, because tokens do.

use std::fmt;

/// The bytes of a key. They never show in debug output, so they cannot reach a log by it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyBytes(pub [u8; 16]);

impl fmt::Debug for KeyBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyBytes(secret)")
    }
}

impl From<[u8; 16]> for KeyBytes {
    fn from(bytes: [u8; 16]) -> KeyBytes {
        KeyBytes(bytes)
    }
}

/// A key that is not retired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenKey {
    /// What tokens call it.
    pub id: u8,
    /// The key.
    pub key: KeyBytes,
    /// When it was added.
    pub since_ms: u64,
}

/// Why the keys cannot change this way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Tokens made with the older key of this id could not be told from those of the new one.
    #[error("token key {0} is in use: retire it before its id is used again")]
    Twice(u8),
    /// There is no such key.
    #[error("token key {0} is not known, or retired")]
    Unknown(u8),
    /// Without it no token could be made.
    #[error("token key {0} makes the new tokens: add another key before you retire this one")]
    Minting(u8),
}

/// Oldest first; the last one mints.
#[derive(Clone, Debug, Default)]
pub(crate) struct TokenKeys(Vec<TokenKey>);

impl TokenKeys {
    pub(crate) fn all(&self) -> &[TokenKey] {
        &self.0
    }

    pub(crate) fn add(&mut self, key: TokenKey) -> Result<(), KeyError> {
        if self.0.iter().any(|known| known.id == key.id) {
            return Err(KeyError::Twice(key.id));
        }
        self.0.push(key);
        Ok(())
    }

    pub(crate) fn retire(&mut self, id: u8) -> Result<(), KeyError> {
        let found = self.0.iter().position(|key| key.id == id).ok_or(KeyError::Unknown(id))?;
        if found + 1 == self.0.len() {
            return Err(KeyError::Minting(id));
        }
        self.0.remove(found);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: u8) -> TokenKey {
        TokenKey { id, key: KeyBytes([0xAB; 16]), since_ms: u64::from(id) }
    }

    #[test]
    fn the_last_key_mints_and_stays() {
        let mut keys = TokenKeys::default();
        assert_eq!(keys.retire(1), Err(KeyError::Unknown(1)));
        keys.add(key(1)).unwrap();
        assert_eq!(keys.retire(1), Err(KeyError::Minting(1)));
        keys.add(key(2)).unwrap();
        assert_eq!(keys.add(key(1)), Err(KeyError::Twice(1)));
        assert_eq!(keys.retire(1), Ok(()));
        assert_eq!(keys.all(), [key(2)]);
        keys.add(key(1)).unwrap();
        assert_eq!(keys.all().last(), Some(&key(1)));
    }

    #[test]
    fn debug_output_does_not_show_a_key() {
        let text = format!("{:?}", key(7));
        assert!(text.contains("id: 7") && text.contains("secret"), "{text}");
        assert!(!text.contains("171") && !text.to_lowercase().contains("ab, "), "{text}");
    }
}
