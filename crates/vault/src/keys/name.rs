//! Names of keys.

use std::fmt;
use std::sync::Arc;

use thiserror::Error;

/// Bytes of the longest name.
const LONGEST: usize = 255;

/// The name of a key: word characters, dots and dashes, a word character first and last, as Transit has it. A realm and a slash may stand
/// before it (`stock/game`): such keys belong to the program that made them, and no client of Transit reaches them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyName(Arc<str>);

/// A text is no name.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error(
    "invalid key name: expected 1 to 255 of A-Z, a-z, 0-9, _, . and -, the first and the last no dot and no dash"
)]
pub struct BadName;

impl KeyName {
    /// Returns the name that a text is.
    ///
    /// # Errors
    /// [`BadName`] if it is none.
    pub fn new(text: &str) -> Result<KeyName, BadName> {
        let (realm, own) = text.split_once('/').map_or((None, text), |(r, own)| (Some(r), own));
        let good = text.len() <= LONGEST && is_word(own) && realm.is_none_or(is_word);
        if good { Ok(KeyName(text.into())) } else { Err(BadName) }
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Tells whether the key belongs to a realm, and so to no client of Transit.
    pub fn has_realm(&self) -> bool {
        self.0.contains('/')
    }
}

fn is_word(text: &str) -> bool {
    let is_edge = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let bytes = text.as_bytes();
    bytes.first().is_some_and(is_edge)
        && bytes.last().is_some_and(is_edge)
        && bytes.iter().all(|byte| is_edge(byte) || b".-".contains(byte))
}

impl std::borrow::Borrow<str> for KeyName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_transit() {
        let long = "a".repeat(255);
        for name in ["a", "_", "a.b-c", "stock/game", "0", "A_9", &long] {
            assert_eq!(KeyName::new(name).unwrap().as_str(), name);
        }
        let longer = "a".repeat(256);
        for bad in
            ["", ".", "-a", "a-", "a.", "a b", "a/", "/a", "a/b/c", "é", "a\n", "..", &longer]
        {
            assert_eq!(KeyName::new(bad), Err(BadName), "{bad:?}");
        }
        assert!(KeyName::new("stock/game").unwrap().has_realm());
    }
}
