//! Entries as the engine holds them.
//!
//! ```text
//!  0     1               9           21                            end - 16
//!  +-----+---------------+-----------+-----------------------------+-----------+
//!  |  1  |  fingerprint  |   nonce   |  the group, encrypted       |    tag    |      AES-256-GCM-SIV, random nonce
//!  +-----+---------------+-----------+-----------------------------+-----------+
//!  AAD:  "weir log 1 " | name of the cluster | 0 | number of the entry, u64 little-endian
//! ```
//!
//! What lies beside the log is sealed the same way; its place is `base` and the piece's name instead of a number.
//!
//! The key is derived from the cluster's secret and its name. The AAD binds an entry to its place: it does not open as another entry or in
//! another cluster. Two nodes may propose different groups for one place, so the nonce is random and not the number; GCM-SIV forgives a
//! repeated one. The fingerprint tells a wrong secret from damage and nothing else of the secret.

use vault::{Drbg, FINGERPRINT_BYTES, Item, Key, KeyEncryptionKey, KeyType, SecretKey};

use crate::ClusterName;

/// The format's number.
const FORMAT: u8 = 1;
const HEAD_BYTES: usize = 1 + FINGERPRINT_BYTES;
/// Bytes that an entry has more than its group.
pub const SEAL_BYTES: usize = HEAD_BYTES + 12 + 16;

/// The key of a cluster's entries.
pub struct EntryKey {
    key: Key,
    fingerprint: [u8; FINGERPRINT_BYTES],
    aad: Vec<u8>,
    random: Drbg,
}

/// Why bytes do not open as an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Encrypted by somebody with another secret.
    #[error(
        "it was encrypted with another secret: give all nodes of the cluster the same `secret_file`"
    )]
    Secret,
    /// Another layout, of a later version.
    #[error("it has format {0}, this version reads format {FORMAT}: update this node")]
    Format(u8),
    /// The secret is the right one, and the bytes are not what was sealed for this place.
    #[error(
        "it was changed, cut or moved after it was written: the engine's storage is damaged, or somebody wrote to the stream"
    )]
    Damaged,
    /// It was sealed for this place, and is no group.
    #[error(
        "it holds no group of a journal: another program has the secret and writes to the stream"
    )]
    NoGroup,
}

impl std::fmt::Debug for EntryKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EntryKey { .. }")
    }
}

impl EntryKey {
    /// Makes the key of a cluster of its secret.
    ///
    /// # Errors
    /// The operating system gives no random bytes.
    pub fn new(name: &ClusterName, secret: &SecretKey) -> Result<EntryKey, vault::ItemError> {
        let context = format!("weir log 1 {name}\0").into_bytes();
        let key = Key::derived(KeyType::Aes256GcmSiv, secret, &context);
        let key = key.unwrap_or_else(|_| unreachable!("the context is not empty"));
        let fingerprint = KeyEncryptionKey::new(secret).fingerprint();
        Ok(EntryKey { key, fingerprint, aad: context, random: Drbg::new()? })
    }

    fn aad(&self, place: &[u8]) -> Vec<u8> {
        [&self.aad[..], place].concat()
    }

    /// Encrypts a group as an entry.
    ///
    /// # Errors
    /// The operating system gives no random bytes.
    pub fn seal(&mut self, entry: u64, group: &[u8]) -> Result<Vec<u8>, vault::ItemError> {
        self.seal_for(&entry.to_le_bytes(), group)
    }

    /// Encrypts bytes for a place, which no entry has where it is longer than 8 bytes.
    pub(crate) fn seal_for(
        &mut self,
        place: &[u8],
        group: &[u8],
    ) -> Result<Vec<u8>, vault::ItemError> {
        let mut sealed = vec![0; SEAL_BYTES + group.len()];
        sealed[0] = FORMAT;
        sealed[1..HEAD_BYTES].copy_from_slice(&self.fingerprint);
        let aad = self.aad(place);
        let mut items = [Item::new(group, &aad, &mut sealed[HEAD_BYTES..])];
        self.key.seal(&mut items, &mut self.random);
        items[0].outcome?;
        Ok(sealed)
    }

    /// Decrypts an entry to its group.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(&self, entry: u64, sealed: &[u8]) -> Result<Vec<u8>, OpenError> {
        self.open_for(&entry.to_le_bytes(), sealed)
    }

    pub(crate) fn open_for(&self, place: &[u8], sealed: &[u8]) -> Result<Vec<u8>, OpenError> {
        let (head, rest) = sealed.split_at_checked(HEAD_BYTES).ok_or(OpenError::Damaged)?;
        match head {
            [FORMAT, print @ ..] if *print == self.fingerprint => {}
            [FORMAT, ..] => return Err(OpenError::Secret),
            [other, ..] => return Err(OpenError::Format(*other)),
            [] => return Err(OpenError::Damaged),
        }
        let mut group = vec![0; KeyType::Aes256GcmSiv.opened_max(rest.len())];
        let aad = self.aad(place);
        let mut items = [Item::new(rest, &aad, &mut group)];
        self.key.open(&mut items);
        let bytes = items[0].outcome.map_err(|_| OpenError::Damaged)?;
        group.truncate(bytes);
        Ok(group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str, secret: u8) -> EntryKey {
        EntryKey::new(&name.parse().unwrap(), &SecretKey::from_bytes(&[secret; 32])).unwrap()
    }

    #[test]
    fn an_entry_opens_at_its_place_only_and_says_why_not() {
        let group = b"a group of records";
        let mut own = key("a", 1);
        let sealed = own.seal(7, group).unwrap();
        assert_eq!(sealed.len(), group.len() + SEAL_BYTES);
        assert_ne!(sealed, own.seal(7, group).unwrap(), "the nonce is random");
        assert!(!sealed.windows(6).any(|bytes| bytes == b"record"));
        assert_eq!(own.open(7, &sealed).as_deref(), Ok(&group[..]));
        for (other, entry, expected) in [
            (key("a", 2), 7, OpenError::Secret),
            (key("a", 1), 8, OpenError::Damaged),
            (key("b", 1), 7, OpenError::Damaged),
        ] {
            assert_eq!(other.open(entry, &sealed), Err(expected));
        }
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 0x10;
            let expected = match at {
                0 => OpenError::Format(FORMAT ^ 0x10),
                1..HEAD_BYTES => OpenError::Secret,
                _ => OpenError::Damaged,
            };
            assert_eq!(own.open(7, &changed), Err(expected), "{at}");
            assert_eq!(own.open(7, &sealed[..at]), Err(OpenError::Damaged), "{at}");
        }
    }
}
