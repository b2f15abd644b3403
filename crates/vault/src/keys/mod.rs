//! Named keys with versions, as Transit has them.
//!
//! ```text
//!  KEK ──wraps──▶ versions of a key (64 random bytes each) ──▶ key that seals, key of tags ──▶ keys of contexts
//!
//!  Change ── Keys::decide ──▶ record ── KeyRecords::append (durable) ── Keys::apply ──▶ the keys as they are now
//!                                └──────────────── after a restart: Keys::replay ────────────▶ the same
//! ```
//!
//! A record holds wrapped keys only, so it may be stored and copied. Without the key encryption key the keys are sealed: records can be
//! replayed, and nothing can be sealed, opened or changed.

mod change;
mod name;
mod policy;
mod record;
mod store;
mod version;

pub use change::{Change, ChangeError, KeyBackup, KeyBackupVersion, RESERVED_BLOCK};
pub use name::{BadName, KeyName};
pub use policy::{HMAC_KEY_BYTES, KeyConfig, KeyKind, KeyPolicy};
pub use record::RecordError;
pub use store::{AppendError, KeyRecords, KeyStore, KeyStoreError, MemoryRecords};
pub use version::{BlockUsed, ContextError, KeyVersion, Sealed, VersionCount};

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use thiserror::Error;

use crate::{Drbg, FINGERPRINT_BYTES, ItemError, KeyEncryptionKey, Versions};
use record::{Record, StoredVersion};

/// A key with its name, its policy and its versions. It never changes: a change makes another one in its place.
pub struct NamedKey {
    name: KeyName,
    policy: KeyPolicy,
    versions: Versions<Arc<KeyVersion>>,
}

impl NamedKey {
    /// Returns the name.
    pub fn name(&self) -> &KeyName {
        &self.name
    }

    /// Returns what it is and may do.
    pub fn policy(&self) -> &KeyPolicy {
        &self.policy
    }

    /// Returns its versions, with the rules which of them may do what.
    pub fn versions(&self) -> &Versions<Arc<KeyVersion>> {
        &self.versions
    }

    fn with_policy(&self, policy: KeyPolicy) -> NamedKey {
        let mut versions = self.versions.map(Arc::clone);
        versions.trim(policy.min_available);
        NamedKey::new(self.name.clone(), policy, versions)
    }

    fn new(name: KeyName, policy: KeyPolicy, mut versions: Versions<Arc<KeyVersion>>) -> NamedKey {
        versions.min_decryption = policy.min_decryption;
        versions.min_encryption = policy.min_encryption;
        NamedKey { name, policy, versions }
    }

    fn stored(&self) -> Vec<StoredVersion> {
        let stored = |(_, version): (u32, &Arc<KeyVersion>)| StoredVersion {
            number: version.number,
            created_s: version.created_s,
            reserved: version.count.reserved(),
            wrapped: version.wrapped.clone(),
        };
        self.versions.iter().map(stored).collect()
    }
}

impl fmt::Debug for NamedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NamedKey {{ {}, {:?} }}", self.name, self.versions)
    }
}

/// All keys. A clone is a snapshot that shares keys and counts with what it was cloned from; secrets are wiped with the last clone that
/// has them.
#[derive(Clone)]
pub struct Keys {
    names: BTreeMap<KeyName, Arc<NamedKey>>,
    fingerprint: Option<[u8; FINGERPRINT_BYTES]>,
    kek: Option<Arc<KeyEncryptionKey>>,
    upsert: bool,
    keys_max: usize,
}

/// Why keys stay sealed. They are as they were.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum UnsealError {
    /// Another key encryption key than the one that wrapped the keys.
    #[error(
        "this is not the key encryption key that wrapped the stored keys: nothing was written; give the one that was used before"
    )]
    WrongKek,
    /// A version does not open.
    #[error(transparent)]
    Record(#[from] RecordError),
}

impl Keys {
    /// Returns keys without any, sealed. There will be at most `keys_max`.
    pub fn new(keys_max: usize) -> Keys {
        Keys { names: BTreeMap::new(), fingerprint: None, kek: None, upsert: true, keys_max }
    }

    /// Returns how many keys there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Tells whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Tells whether the key encryption key is not here.
    pub fn is_sealed(&self) -> bool {
        self.kek.is_none()
    }

    /// Tells whether there is a key encryption key that wraps these keys, here or not.
    pub fn is_begun(&self) -> bool {
        self.fingerprint.is_some()
    }

    /// Tells whether sealing with a name that is not there makes the key.
    pub fn is_upsert_allowed(&self) -> bool {
        self.upsert
    }

    /// Returns the key of a name.
    pub fn get(&self, name: &str) -> Option<&NamedKey> {
        self.names.get(name).map(Arc::as_ref)
    }

    /// Returns all keys, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &NamedKey> {
        self.names.values().map(Arc::as_ref)
    }

    /// Returns the names of keys whose period of rotation has ended at `now_s`, in seconds since 1970, but for those that are soft-deleted.
    pub fn due(&self, now_s: u64) -> impl Iterator<Item = &KeyName> {
        let is_due = move |key: &&NamedKey| {
            let period = key.policy.auto_rotate_s;
            let made = key.versions.get(key.versions.latest()).map(|latest| latest.created_s);
            let is_used = period > 0 && !key.policy.soft_deleted;
            is_used && made.is_some_and(|made| now_s >= made.saturating_add(period))
        };
        self.iter().filter(is_due).map(NamedKey::name)
    }

    /// Returns the record that makes `kek` the one of these keys, if none is yet.
    ///
    /// # Errors
    /// [`UnsealError::WrongKek`] if another one is.
    pub fn adopt(&self, kek: &KeyEncryptionKey) -> Result<Option<Vec<u8>>, UnsealError> {
        match self.fingerprint {
            None => Ok(Some(Record::Kek(kek.fingerprint()).write())),
            Some(known) if known == kek.fingerprint() => Ok(None),
            Some(_) => Err(UnsealError::WrongKek),
        }
    }

    /// Unwraps all keys. The record of [`Keys::adopt`] comes before, durable and applied.
    ///
    /// # Errors
    /// An [`UnsealError`] if the key encryption key is another one or a version does not open.
    pub fn unseal(&mut self, kek: KeyEncryptionKey) -> Result<(), UnsealError> {
        if self.fingerprint != Some(kek.fingerprint()) {
            return Err(UnsealError::WrongKek);
        }
        let names = self.remade(Some(&kek))?;
        self.names = names;
        self.kek = Some(Arc::new(kek));
        Ok(())
    }

    /// Forgets the key encryption key and everything that it unwrapped.
    pub fn seal(&mut self) {
        self.kek = None;
        // Without a key there is nothing that could fail to open.
        if let Ok(names) = self.remade(None) {
            self.names = names;
        }
    }

    fn remade(
        &self,
        kek: Option<&KeyEncryptionKey>,
    ) -> Result<BTreeMap<KeyName, Arc<NamedKey>>, RecordError> {
        let remake = |key: &Arc<NamedKey>| {
            let counts = |number| key.versions.get(number).map(|version| version.count.clone());
            let made = named(kek, &key.name, key.policy, &key.stored(), counts)?;
            Ok((key.name.clone(), Arc::new(made)))
        };
        self.names.values().map(remake).collect()
    }

    fn kek(&self) -> Result<&KeyEncryptionKey, Sealed> {
        self.kek.as_deref().ok_or(Sealed)
    }

    /// Returns the record that wraps all keys under another key encryption key. Once it is durable and applied, [`Keys::unseal`] takes the
    /// new one only. The versions themselves stay as they are.
    ///
    /// # Errors
    /// [`ChangeError::Sealed`], or [`ChangeError::Item`] without randomness.
    pub fn rewrap(
        &self,
        kek: &KeyEncryptionKey,
        random: &mut Drbg,
    ) -> Result<Vec<u8>, ChangeError> {
        self.kek()?;
        let mut wraps = Vec::new();
        for key in self.iter() {
            let place = place(key.policy.kind, &key.name);
            for (number, version) in key.versions.iter() {
                let wrapped = kek.wrap_bytes(version.secret_bytes()?, &place, number, random)?;
                wraps.push((key.name.clone(), number, wrapped.into()));
            }
        }
        Ok(Record::Rewrapped { fingerprint: kek.fingerprint(), wraps }.write())
    }

    /// Returns records that make the same keys again, for a snapshot: what is reserved counts as used in it.
    pub fn snapshot(&self) -> impl Iterator<Item = Vec<u8>> {
        let kek = self.fingerprint.map(|fingerprint| Record::Kek(fingerprint).write());
        let upsert = (!self.upsert).then(|| Record::Upsert(false).write());
        let put = |key: &NamedKey| {
            let (name, policy) = (key.name.clone(), key.policy);
            Record::Put { name, policy, versions: key.stored() }.write()
        };
        kek.into_iter().chain(upsert).chain(self.iter().map(put))
    }

    /// Applies a record that was just decided and is durable.
    ///
    /// # Errors
    /// A [`RecordError`]; the keys are as they were.
    pub fn apply(&mut self, record: &[u8]) -> Result<(), RecordError> {
        match Record::read(record)? {
            Record::Kek(fingerprint) if self.fingerprint.is_none() => {
                self.fingerprint = Some(fingerprint);
            }
            Record::Kek(_) => return Err(RecordError::Order("a second key encryption key")),
            Record::Put { name, policy, versions } => {
                if self.fingerprint.is_none() {
                    return Err(RecordError::Order("a key before the key encryption key"));
                }
                let made = named(self.kek.as_deref(), &name, policy, &versions, |_| None)?;
                self.names.insert(name, Arc::new(made));
            }
            Record::Rotated { name, version } => self.add(&name, &version)?,
            Record::Configured { name, policy } => {
                let key = self.named(&name)?;
                if policy.kind != key.policy.kind {
                    return Err(RecordError::Order("a key that changes its type"));
                }
                let made = key.with_policy(policy);
                self.names.insert(name, Arc::new(made));
            }
            Record::Deleted(name) => {
                let gone = self.names.remove(&name);
                gone.ok_or(RecordError::Order("a key that is not there is deleted"))?;
            }
            Record::Reserved { name, version, up_to } => {
                let version = self.named(&name)?.versions.get(version);
                let version = version.ok_or(RecordError::Order("messages of no version"))?;
                version.count.raise(up_to);
            }
            Record::Upsert(on) => self.upsert = on,
            Record::Rewrapped { fingerprint, wraps } => self.rewrapped(fingerprint, wraps)?,
        }
        Ok(())
    }

    /// Applies a record of an earlier run: what it reserved counts as used.
    ///
    /// # Errors
    /// A [`RecordError`]; the keys are as they were.
    pub fn replay(&mut self, record: &[u8]) -> Result<(), RecordError> {
        self.apply(record)?;
        if let Record::Reserved { name, version, .. } = Record::read(record)?
            && let Some(version) = self.named(&name)?.versions.get(version)
        {
            version.count.use_up();
        }
        Ok(())
    }

    fn named(&self, name: &KeyName) -> Result<&NamedKey, RecordError> {
        self.get(name.as_str()).ok_or(RecordError::Order("a key that is not there is changed"))
    }

    fn add(&mut self, name: &KeyName, stored: &StoredVersion) -> Result<(), RecordError> {
        let key = self.named(name)?;
        let version = version(self.kek.as_deref(), name, key.policy.kind, stored, None)?;
        let mut versions = key.versions.map(Arc::clone);
        let added = versions.add(stored.number, Arc::new(version));
        added.map_err(|_| RecordError::Order("a version that does not follow the latest"))?;
        let made = NamedKey::new(name.clone(), key.policy, versions);
        self.names.insert(name.clone(), Arc::new(made));
        Ok(())
    }

    fn rewrapped(
        &mut self,
        fingerprint: [u8; FINGERPRINT_BYTES],
        wraps: Vec<(KeyName, u32, Box<[u8]>)>,
    ) -> Result<(), RecordError> {
        let versions: usize = self.iter().map(|key| key.versions.iter().count()).sum();
        let mut wraps: BTreeMap<_, _> =
            wraps.into_iter().map(|(name, number, wrapped)| ((name, number), wrapped)).collect();
        if wraps.len() != versions {
            return Err(RecordError::Order("other versions than there are were wrapped again"));
        }
        let mut names = BTreeMap::new();
        for key in self.iter() {
            let mut stored = key.stored();
            for version in &mut stored {
                let wrapped = wraps.remove(&(key.name.clone(), version.number));
                version.wrapped = wrapped
                    .ok_or(RecordError::Order("a version was not wrapped again with the others"))?;
            }
            let counts = |number| key.versions.get(number).map(|version| version.count.clone());
            let made = named(None, &key.name, key.policy, &stored, counts)?;
            names.insert(key.name.clone(), Arc::new(made));
        }
        // Sealed from here on, until the new key encryption key comes.
        (self.names, self.fingerprint, self.kek) = (names, Some(fingerprint), None);
        Ok(())
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys {{ {} keys, sealed: {} }}", self.len(), self.is_sealed())
    }
}

/// Returns what a wrapped version is bound to besides its number: another type or name does not open it.
fn place(kind: KeyKind, name: &KeyName) -> String {
    format!("{kind} {name}")
}

/// Makes a key of what is stored. `counts` are those of versions that there are already.
fn named(
    kek: Option<&KeyEncryptionKey>,
    name: &KeyName,
    policy: KeyPolicy,
    stored: &[StoredVersion],
    counts: impl Fn(u32) -> Option<Arc<VersionCount>>,
) -> Result<NamedKey, RecordError> {
    let mut versions = Versions::default();
    for stored in stored {
        let made = version(kek, name, policy.kind, stored, counts(stored.number))?;
        let added = versions.add(stored.number, Arc::new(made));
        added.map_err(|_| RecordError::Order("versions that do not follow each other"))?;
    }
    if versions.latest() == 0 {
        return Err(RecordError::Order("a key without versions"));
    }
    Ok(NamedKey::new(name.clone(), policy, versions))
}

fn version(
    kek: Option<&KeyEncryptionKey>,
    name: &KeyName,
    kind: KeyKind,
    stored: &StoredVersion,
    count: Option<Arc<VersionCount>>,
) -> Result<KeyVersion, RecordError> {
    let damaged = |_: ItemError| RecordError::Wrap { name: name.clone(), version: stored.number };
    let bytes = match kek {
        None => None,
        Some(kek) => {
            let opened = kek.unwrap_bytes(&stored.wrapped, &place(kind, name), stored.number);
            let opened = opened.map_err(damaged)?;
            if opened.len() != kind.secret_bytes() {
                return Err(damaged(ItemError::Refused));
            }
            Some(opened)
        }
    };
    let count = count.unwrap_or_else(|| {
        let count = Arc::new(VersionCount::default());
        count.raise(stored.reserved);
        count.use_up();
        count
    });
    Ok(KeyVersion::new(stored, kind, bytes, count))
}
