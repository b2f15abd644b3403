//! The versions of one key.

use std::collections::BTreeMap;
use std::fmt;

use thiserror::Error;

use crate::{Drbg, Item, ItemError, Key};

/// A version cannot be used. The texts are Transit's.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum VersionError {
    /// A message names a version that does not exist yet.
    #[error("invalid ciphertext: version is too new")]
    TooNew,
    /// A message names a version below the least that may open.
    #[error("ciphertext or signature version is disallowed by policy (too old)")]
    TooOld,
    /// Sealing was asked with a version above the latest.
    #[error("requested version for encryption is higher than the latest key version")]
    AboveLatest,
    /// Sealing was asked with a version below the least that may seal.
    #[error("requested version for encryption is less than the minimum encryption key version")]
    BelowMinimum,
    /// The version was destroyed.
    #[error("no such key version")]
    Gone,
    /// A version is added that does not follow the latest one.
    #[error("a new version follows the latest one")]
    NotNext,
}

/// The versions of one key that are at hand, with the rules which of them may do what.
///
/// A message says which version sealed it; no other is ever tried. So a key that an attacker brought in cannot be made to open another's
/// messages.
///
/// `K` is what stands for a version: a [`Key`], or what a keyring keeps beside it.
#[derive(Clone)]
pub struct Versions<K = Key> {
    keys: BTreeMap<u32, K>,
    latest: u32,
    /// The least version that opens; 0 and 1 mean all.
    pub min_decryption: u32,
    /// The least version that seals; 0 means all.
    pub min_encryption: u32,
}

impl<K> Default for Versions<K> {
    fn default() -> Versions<K> {
        Versions { keys: BTreeMap::new(), latest: 0, min_decryption: 0, min_encryption: 0 }
    }
}

impl<K> Versions<K> {
    /// Adds a version: the next one, or any for the first (the ones before it were destroyed).
    ///
    /// # Errors
    /// [`VersionError::NotNext`] for any other, and for 0.
    pub fn add(&mut self, version: u32, key: K) -> Result<(), VersionError> {
        let is_next = self.latest.checked_add(1) == Some(version);
        if version == 0 || (self.latest > 0 && !is_next) {
            return Err(VersionError::NotNext);
        }
        self.keys.insert(version, key);
        self.latest = version;
        Ok(())
    }

    /// Destroys every version below `version`, but never the latest one.
    pub fn trim(&mut self, version: u32) {
        self.keys = self.keys.split_off(&version.min(self.latest));
    }

    /// Returns the latest version; 0 if there is none.
    pub fn latest(&self) -> u32 {
        self.latest
    }

    /// Returns the key that seals with `version` (0: the latest), and its version.
    ///
    /// # Errors
    /// A [`VersionError`] if it may not or does not exist.
    pub fn sealing(&self, version: u32) -> Result<(u32, &K), VersionError> {
        let version = if version == 0 { self.latest } else { version };
        if version > self.latest {
            return Err(VersionError::AboveLatest);
        }
        if version < self.min_encryption {
            return Err(VersionError::BelowMinimum);
        }
        self.keys.get(&version).map(|key| (version, key)).ok_or(VersionError::Gone)
    }

    /// Returns the key that opens messages of `version`.
    ///
    /// # Errors
    /// A [`VersionError`] if it may not or does not exist.
    pub fn opening(&self, version: u32) -> Result<&K, VersionError> {
        if version > self.latest {
            return Err(VersionError::TooNew);
        }
        if version < self.min_decryption {
            return Err(VersionError::TooOld);
        }
        self.keys.get(&version).ok_or(VersionError::Gone)
    }

    /// Returns the version of this number, whatever it may do.
    pub fn get(&self, version: u32) -> Option<&K> {
        self.keys.get(&version)
    }

    /// Returns the versions that there are, with their numbers in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u32, &K)> {
        self.keys.iter().map(|(version, key)| (*version, key))
    }

    /// Returns the same versions with another thing for each.
    pub(crate) fn map<T>(&self, make: impl Fn(&K) -> T) -> Versions<T> {
        let keys = self.keys.iter().map(|(version, key)| (*version, make(key))).collect();
        let Versions { latest, min_decryption, min_encryption, .. } = *self;
        Versions { keys, latest, min_decryption, min_encryption }
    }
}

impl Versions<Key> {
    /// Returns a key without versions.
    pub fn new() -> Versions {
        Versions::default()
    }

    /// Opens items of many versions: `version` says the version of each. Runs of one version are opened together; an item whose version
    /// may not be used gets [`ItemError::Refused`] (ask [`Versions::opening`] for the text).
    pub fn open(&self, items: &mut [Item<'_>], version: impl Fn(usize) -> u32) {
        let (mut rest, mut at) = (items, 0);
        while !rest.is_empty() {
            let wanted = version(at);
            let count = (0..rest.len()).take_while(|next| version(at + next) == wanted).count();
            let (run, later) = rest.split_at_mut(count.max(1));
            at += run.len();
            match self.opening(wanted) {
                Ok(key) => key.open(run),
                Err(_) => run.iter_mut().for_each(|item| item.outcome = Err(ItemError::Refused)),
            }
            rest = later;
        }
    }

    /// Seals items with `version` (0: the latest) and returns the version.
    ///
    /// # Errors
    /// A [`VersionError`] if the version may not be used; no item was worked on.
    pub fn seal(
        &self,
        items: &mut [Item<'_>],
        version: u32,
        random: &mut Drbg,
    ) -> Result<u32, VersionError> {
        let (version, key) = self.sealing(version)?;
        key.seal(items, random);
        Ok(version)
    }
}

impl<K> fmt::Debug for Versions<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Versions {{ latest: {}, .. }}", self.latest)
    }
}
