//! One version of a named key.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use subtle::ConstantTimeEq;
use thiserror::Error;
use zeroize::Zeroizing;

use super::policy::{KeyKind, KeyPolicy};
use crate::{HashAlgorithm, HashSum, Key, KeyError, KeyType, SecretKey};

/// The keys are wrapped and the key that unwraps them is not here.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("Vault is sealed")]
pub struct Sealed;

/// Why a key of a context cannot be had.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ContextError {
    /// See [`Sealed`].
    #[error(transparent)]
    Sealed(#[from] Sealed),
    /// The context or the type is wrong.
    #[error(transparent)]
    Key(#[from] KeyError),
}

/// One version of a named key. Threads share it.
pub struct KeyVersion {
    pub(super) number: u32,
    pub(super) created_s: u64,
    pub(super) wrapped: Box<[u8]>,
    pub(super) count: Arc<VersionCount>,
    secret: Option<Secret>,
}

/// What of a version is secret, in the clear.
struct Secret {
    kind: KeyKind,
    /// Of sealing kinds the key, then the key of tags.
    bytes: Zeroizing<Vec<u8>>,
    /// Expanded on first use.
    key: OnceLock<Key>,
}

impl KeyVersion {
    /// Returns a version; without `bytes` it is sealed.
    pub(super) fn new(
        stored: &super::record::StoredVersion,
        kind: KeyKind,
        bytes: Option<Zeroizing<Vec<u8>>>,
        count: Arc<VersionCount>,
    ) -> KeyVersion {
        let secret = bytes.map(|bytes| Secret { kind, bytes, key: OnceLock::new() });
        let (number, created_s) = (stored.number, stored.created_s);
        KeyVersion { number, created_s, wrapped: stored.wrapped.clone(), count, secret }
    }

    /// Returns its number, from 1.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns when it was made, in seconds since 1970.
    pub fn created_s(&self) -> u64 {
        self.created_s
    }

    /// Returns the count of messages that it has sealed.
    pub fn count(&self) -> &VersionCount {
        &self.count
    }

    /// Returns the key of a key that is not derived, or `None` if the type seals nothing.
    ///
    /// # Errors
    /// [`Sealed`].
    pub fn key(&self) -> Result<Option<&Key>, Sealed> {
        let secret = self.secret()?;
        let Some((kind, bytes)) = secret.sealing() else { return Ok(None) };
        Ok(Some(secret.key.get_or_init(|| Key::new(kind, &SecretKey::beginning(bytes)))))
    }

    /// Returns the key of a context, or `None` if the type seals nothing.
    ///
    /// # Errors
    /// A [`ContextError`] if the versions are sealed, the context is empty or the type is not one for convergent keys.
    pub fn context_key(
        &self,
        policy: &KeyPolicy,
        context: &[u8],
    ) -> Result<Option<Key>, ContextError> {
        let Some((kind, bytes)) = self.secret()?.sealing() else { return Ok(None) };
        let secret = SecretKey::beginning(bytes);
        let key = if policy.convergent {
            Key::convergent(kind, &secret, context)
        } else {
            Key::derived(kind, &secret, context)
        };
        Ok(Some(key?))
    }

    /// Returns the tag of a message under the version's key of tags.
    ///
    /// # Errors
    /// [`Sealed`].
    pub fn tag(&self, algorithm: HashAlgorithm, message: &[u8]) -> Result<HashSum, Sealed> {
        Ok(algorithm.tag(self.secret()?.tag_key(), message))
    }

    /// Tells whether `tag` is the tag of a message; takes the same time wherever they differ.
    ///
    /// # Errors
    /// [`Sealed`].
    pub fn verify(
        &self,
        algorithm: HashAlgorithm,
        message: &[u8],
        tag: &[u8],
    ) -> Result<bool, Sealed> {
        Ok(self.tag(algorithm, message)?.as_bytes().ct_eq(tag).into())
    }

    /// Returns the bytes of the key: of sealing kinds the one that seals, else the one of tags. For export.
    ///
    /// # Errors
    /// [`Sealed`].
    pub fn expose_key(&self) -> Result<&[u8], Sealed> {
        let secret = self.secret()?;
        Ok(secret.sealing().map_or(secret.bytes.as_slice(), |(_, bytes)| bytes))
    }

    /// Returns the bytes of the key of tags. For export.
    ///
    /// # Errors
    /// [`Sealed`].
    pub fn expose_tag_key(&self) -> Result<&[u8], Sealed> {
        Ok(self.secret()?.tag_key())
    }

    /// Returns all secret bytes, to be wrapped again.
    pub(super) fn secret_bytes(&self) -> Result<&[u8], Sealed> {
        Ok(&self.secret()?.bytes)
    }

    fn secret(&self) -> Result<&Secret, Sealed> {
        self.secret.as_ref().ok_or(Sealed)
    }
}

impl Secret {
    fn sealing(&self) -> Option<(KeyType, &[u8])> {
        let kind = self.kind.sealing()?;
        Some((kind, self.bytes.get(..kind.key_bytes())?))
    }

    fn tag_key(&self) -> &[u8] {
        let from = self.kind.sealing().map_or(0, KeyType::key_bytes);
        self.bytes.get(from..).unwrap_or_default()
    }
}

impl fmt::Debug for KeyVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyVersion {{ number: {}, .. }}", self.number)
    }
}

/// How many messages a version has sealed, shared by all threads that seal with it.
///
/// Messages are taken out of a block that was reserved durably before. So after a crash the durable number may be too high and is never
/// too low.
#[derive(Debug, Default)]
pub struct VersionCount {
    used: AtomicU64,
    reserved: AtomicU64,
}

/// Fewer messages are reserved than wanted: reserve a block ([`Change::Reserve`](crate::Change::Reserve)) and ask again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockUsed;

impl VersionCount {
    /// Takes `messages` out of what is reserved, all or none.
    ///
    /// # Errors
    /// [`BlockUsed`] if fewer are left.
    pub fn take(&self, messages: u64) -> Result<(), BlockUsed> {
        let fits = |used: u64| {
            let after = used.checked_add(messages)?;
            (after <= self.reserved.load(Ordering::Acquire)).then_some(after)
        };
        let taken = self.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, fits);
        taken.map(|_| ()).map_err(|_| BlockUsed)
    }

    /// Returns how many messages were sealed; after a restart, how many may have been.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Acquire)
    }

    /// Returns how many messages are reserved durably.
    pub fn reserved(&self) -> u64 {
        self.reserved.load(Ordering::Acquire)
    }

    /// Raises what is reserved; never lowers it.
    pub(super) fn raise(&self, up_to: u64) {
        self.reserved.fetch_max(up_to, Ordering::AcqRel);
    }

    /// Takes everything that is reserved as used: nobody knows any more what of it was.
    pub(super) fn use_up(&self) {
        self.used.fetch_max(self.reserved(), Ordering::AcqRel);
    }
}
