//! Keys under a key: how data keys are stored.
//!
//! ```text
//!  0     1           13                 45          61
//!  +-----+-----------+------------------+-----------+
//!  |  1  |   nonce   |  wrapped key     |    tag    |        AES-256-GCM-SIV under a sub-key of the KEK
//!  +-----+-----------+------------------+-----------+
//!  AAD:  version of the data key, u32 big-endian | name of the data key
//! ```
//!
//! The AAD binds a wrapped key to its place: it does not open under another name or as another version.

use aes_gcm_siv::Aes256GcmSiv;
use zeroize::Zeroizing;

use crate::aead::{self, AeadKey};
use crate::{Drbg, Item, ItemError, KEY_BYTES, SecretKey};

/// Bytes of a wrapped key.
pub const WRAPPED_BYTES: usize = KEY_BYTES + FRAME;
/// Bytes that a wrapped secret has besides the secret.
const FRAME: usize = 1 + aead::FRAME;
/// Bytes of a [fingerprint](KeyEncryptionKey::fingerprint).
pub const FINGERPRINT_BYTES: usize = 8;
/// The format's number, the first byte of what is wrapped.
const FORMAT: u8 = 1;

/// The key that wraps data keys (the KEK). It seals nothing else.
pub struct KeyEncryptionKey {
    wrap: AeadKey<Aes256GcmSiv>,
    fingerprint: [u8; FINGERPRINT_BYTES],
}

impl KeyEncryptionKey {
    /// Expands a KEK.
    pub fn new(secret: &SecretKey) -> KeyEncryptionKey {
        let print = secret.sub_key("kek fingerprint");
        KeyEncryptionKey {
            wrap: AeadKey::of_gcm_siv(&secret.sub_key("kek wrap")),
            fingerprint: print.expose().first_chunk().copied().unwrap_or_default(),
        }
    }

    /// Returns what tells one KEK from another and nothing else of it. Stored beside wrapped keys, it tells a wrong KEK from a damaged file
    /// before anything is written.
    pub fn fingerprint(&self) -> [u8; FINGERPRINT_BYTES] {
        self.fingerprint
    }

    /// Wraps a data key for its name and version.
    ///
    /// # Errors
    /// [`ItemError::NoRandomness`] if there are no bits for a nonce.
    pub fn wrap(
        &self,
        key: &SecretKey,
        name: &str,
        version: u32,
        random: &mut Drbg,
    ) -> Result<[u8; WRAPPED_BYTES], ItemError> {
        let mut wrapped = [0; WRAPPED_BYTES];
        self.wrap_into(key.expose(), name, version, &mut wrapped, random)?;
        Ok(wrapped)
    }

    /// Wraps secret bytes of any length for their name and version; `WRAPPED_BYTES - KEY_BYTES` more come out.
    ///
    /// # Errors
    /// [`ItemError::NoRandomness`] if there are no bits for a nonce, [`ItemError::TooLong`] above 1 GiB.
    pub fn wrap_bytes(
        &self,
        bytes: &[u8],
        name: &str,
        version: u32,
        random: &mut Drbg,
    ) -> Result<Vec<u8>, ItemError> {
        let mut wrapped = vec![0; bytes.len() + FRAME];
        self.wrap_into(bytes, name, version, &mut wrapped, random)?;
        Ok(wrapped)
    }

    fn wrap_into(
        &self,
        bytes: &[u8],
        name: &str,
        version: u32,
        wrapped: &mut [u8],
        random: &mut Drbg,
    ) -> Result<(), ItemError> {
        let (format, rest) = wrapped.split_first_mut().ok_or(ItemError::OutputShort)?;
        *format = FORMAT;
        let aad = place(name, version);
        let mut items = [Item::new(bytes, &aad, rest)];
        self.wrap.seal(&mut items, random);
        items.iter().try_for_each(|item| item.outcome.map(|_| ()))
    }

    /// Unwraps a data key.
    ///
    /// # Errors
    /// [`ItemError::Refused`] if it was not wrapped by this KEK for this name and version, or was changed since.
    pub fn unwrap(&self, wrapped: &[u8], name: &str, version: u32) -> Result<SecretKey, ItemError> {
        let bytes = self.unwrap_bytes(wrapped, name, version)?;
        bytes.as_slice().try_into().map(SecretKey::from_bytes).map_err(|_| ItemError::Refused)
    }

    /// Unwraps secret bytes of any length. They lie in one place that is wiped when it is dropped.
    ///
    /// # Errors
    /// [`ItemError::Refused`] if they were not wrapped by this KEK for this name and version, or were changed since.
    pub fn unwrap_bytes(
        &self,
        wrapped: &[u8],
        name: &str,
        version: u32,
    ) -> Result<Zeroizing<Vec<u8>>, ItemError> {
        let Some((&FORMAT, sealed)) = wrapped.split_first() else {
            return Err(ItemError::Refused);
        };
        let mut bytes = Zeroizing::new(vec![0; sealed.len().saturating_sub(aead::FRAME)]);
        let aad = place(name, version);
        let mut items = [Item::new(sealed, &aad, bytes.as_mut_slice())];
        self.wrap.open(&mut items);
        items.iter().try_for_each(|item| item.outcome.map(|_| ()))?;
        Ok(bytes)
    }
}

/// Returns the AAD of a wrapped key.
fn place(name: &str, version: u32) -> Vec<u8> {
    [&version.to_be_bytes()[..], name.as_bytes()].concat()
}

impl std::fmt::Debug for KeyEncryptionKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyEncryptionKey { .. }")
    }
}
