//! What may be done to keys, and what becomes of it: an intent in, a record out.

use thiserror::Error;
use zeroize::Zeroizing;

use super::name::KeyName;
use super::policy::{KeyConfig, KeyKind, KeyPolicy, ROTATE_MIN_S};
use super::record::{Record, StoredVersion};
use super::version::Sealed;
use super::{Keys, NamedKey, place};
use crate::{Drbg, ItemError, KEY_BYTES, KeyError, MessageCount};

/// Messages that are reserved at once. A crash loses at most so many of a version's 2^32.
pub const RESERVED_BLOCK: u64 = 1 << 17;

/// Something to be done to keys.
#[derive(Debug)]
pub enum Change {
    /// Makes a key with one version. There is nothing to do where the name is taken.
    Create {
        /// The name.
        name: KeyName,
        /// What the key is; its least versions are not looked at.
        policy: KeyPolicy,
    },
    /// Adds a version, which is the latest then.
    Rotate(KeyName),
    /// Changes the policy.
    Configure {
        /// Whose.
        name: KeyName,
        /// What of it.
        config: KeyConfig,
    },
    /// Destroys all versions below one. Records that are kept, and backups, have them still, wrapped.
    Trim {
        /// Whose.
        name: KeyName,
        /// The least version that stays.
        min_available: u32,
    },
    /// Deletes a key that may be deleted.
    Delete(KeyName),
    /// Reserves messages of a version ([`VersionCount`](super::VersionCount)), in blocks of [`RESERVED_BLOCK`].
    Reserve {
        /// Whose.
        name: KeyName,
        /// Of which version.
        version: u32,
        /// So many will be sealed.
        messages: u64,
    },
    /// Brings a key in from elsewhere.
    Restore {
        /// Its name here.
        name: KeyName,
        /// What was kept of it.
        backup: KeyBackup,
        /// In the place of a key of this name.
        force: bool,
    },
    /// Says whether sealing with a name that is not there makes the key.
    Upsert(bool),
}

/// A key in clear, as it leaves and comes back.
#[derive(Debug)]
pub struct KeyBackup {
    /// What it is.
    pub policy: KeyPolicy,
    /// Its versions, one after the other, the latest last.
    pub versions: Vec<KeyBackupVersion>,
}

/// A version of a [`KeyBackup`].
pub struct KeyBackupVersion {
    /// Its number.
    pub number: u32,
    /// When it was made, in seconds since 1970.
    pub created_s: u64,
    /// How many messages it may have sealed; 0 where nobody knows.
    pub messages: u64,
    /// As many bytes as its type has ([`KeyType::key_bytes`](crate::KeyType::key_bytes)); of the type `hmac` 32 to 512.
    pub key: Zeroizing<Vec<u8>>,
    /// The key of tags, 32 bytes; of the type `hmac` it is not looked at.
    pub tag_key: Zeroizing<Vec<u8>>,
}

impl std::fmt::Debug for KeyBackupVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KeyBackupVersion {{ number: {}, .. }}", self.number)
    }
}

/// Why a change is not possible. Nothing was changed. The texts are Transit's where it has one.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ChangeError {
    /// See [`Sealed`].
    #[error(transparent)]
    Sealed(#[from] Sealed),
    /// No key has the name.
    #[error("key not found")]
    NoKey,
    /// A restore would replace a key.
    #[error("key {0:?} already exists: restore it under another name, or with force")]
    Exists(KeyName),
    /// The key is not used until it is taken back.
    #[error("refusing to use soft-deleted key")]
    SoftDeleted,
    /// There are as many keys as there may be.
    #[error("there are {0} keys, as many as there may be: delete one, or allow more")]
    TooMany(usize),
    /// Convergent encryption of a key that is not derived.
    #[error("convergent encryption requires derivation to be enabled")]
    ConvergentNotDerived,
    /// The type knows no contexts.
    #[error("key derivation and convergent encryption not supported for keys of type {0}")]
    NotDerivable(KeyKind),
    /// See [`KeyError`].
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A key of the type `hmac` of another length.
    #[error("invalid key_size for algorithm hmac: must be between 32 and 512, not {0}")]
    KeySize(u16),
    /// The period of rotation is too short.
    #[error("auto rotate period must be 0 to disable or at least an hour")]
    RotatePeriod,
    /// The least version of opening is above the latest.
    #[error("cannot set min decryption version of {found}, latest key version is {latest}")]
    MinDecryption {
        /// What was asked for.
        found: u32,
        /// The latest.
        latest: u32,
    },
    /// The least version of sealing is above the latest.
    #[error("cannot set min encryption version of {found}, latest key version is {latest}")]
    MinEncryption {
        /// What was asked for.
        found: u32,
        /// The latest.
        latest: u32,
    },
    /// What may seal could not open.
    #[error(
        "cannot set min encryption/decryption values; min encryption version of {encryption} must be greater than or equal to min decryption version of {decryption}"
    )]
    MinOrder {
        /// The least version that would seal.
        encryption: u32,
        /// The least version that would open.
        decryption: u32,
    },
    /// The least versions are not as trimming needs them, or would name what was destroyed.
    #[error("{0}")]
    Available(&'static str),
    /// The key may not be deleted.
    #[error("deletion is not allowed for this key")]
    DeletionForbidden,
    /// A version has sealed all messages that its type allows.
    #[error(transparent)]
    Item(#[from] ItemError),
    /// A key has 2^32 - 1 versions.
    #[error("the key has as many versions as there are numbers")]
    VersionsUsed,
    /// A backup that is no key.
    #[error("the backup is no key: {0}")]
    Backup(&'static str),
}

impl Keys {
    /// Decides on a change and returns its record, or `None` where there is nothing to change. The keys are as they were: make the record
    /// durable, then [apply](Keys::apply) it, and let no other change be decided in between.
    ///
    /// # Errors
    /// Why it is not possible.
    pub fn decide(
        &self,
        change: &Change,
        now_s: u64,
        random: &mut Drbg,
    ) -> Result<Option<Vec<u8>>, ChangeError> {
        let record = match change {
            Change::Create { name, policy } => self.create(name, policy, now_s, random)?,
            Change::Rotate(name) => Some(self.rotate(name, now_s, random)?),
            Change::Configure { name, config } => configured(self.known(name)?, config)?,
            Change::Trim { name, min_available } => trimmed(self.known(name)?, *min_available)?,
            Change::Delete(name) => {
                let key = self.known(name)?;
                let allowed = key.policy.deletion_allowed.then(|| Record::Deleted(name.clone()));
                Some(allowed.ok_or(ChangeError::DeletionForbidden)?)
            }
            Change::Reserve { name, version, messages } => {
                reserved(self.known(name)?, *version, *messages)?
            }
            Change::Restore { name, backup, force } => {
                Some(self.restore(name, backup, *force, random)?)
            }
            Change::Upsert(on) => (*on != self.upsert).then_some(Record::Upsert(*on)),
        };
        Ok(record.map(|record| record.write()))
    }

    fn known(&self, name: &KeyName) -> Result<&NamedKey, ChangeError> {
        self.kek()?;
        self.get(name.as_str()).ok_or(ChangeError::NoKey)
    }

    fn room_for(&self, name: &KeyName) -> Result<(), ChangeError> {
        let is_full = self.len() >= self.keys_max && self.get(name.as_str()).is_none();
        if is_full { Err(ChangeError::TooMany(self.keys_max)) } else { Ok(()) }
    }

    fn create(
        &self,
        name: &KeyName,
        policy: &KeyPolicy,
        now_s: u64,
        random: &mut Drbg,
    ) -> Result<Option<Record>, ChangeError> {
        self.kek()?;
        if self.get(name.as_str()).is_some() {
            return Ok(None);
        }
        check_policy(policy)?;
        self.room_for(name)?;
        let policy =
            KeyPolicy { min_decryption: 1, min_encryption: 0, min_available: 0, ..*policy };
        let versions = vec![self.new_version(name, policy.kind, 1, now_s, random)?];
        Ok(Some(Record::Put { name: name.clone(), policy, versions }))
    }

    fn rotate(&self, name: &KeyName, now_s: u64, random: &mut Drbg) -> Result<Record, ChangeError> {
        let key = self.known(name)?;
        if key.policy.soft_deleted {
            return Err(ChangeError::SoftDeleted);
        }
        let number = key.versions.latest().checked_add(1).ok_or(ChangeError::VersionsUsed)?;
        let version = self.new_version(name, key.policy.kind, number, now_s, random)?;
        Ok(Record::Rotated { name: name.clone(), version })
    }

    fn new_version(
        &self,
        name: &KeyName,
        kind: KeyKind,
        number: u32,
        created_s: u64,
        random: &mut Drbg,
    ) -> Result<StoredVersion, ChangeError> {
        let mut bytes = Zeroizing::new(vec![0; kind.secret_bytes()]);
        random.reseed()?;
        random.fill(&mut bytes)?;
        let wrapped = self.kek()?.wrap_bytes(&bytes, &place(kind, name), number, random)?.into();
        Ok(StoredVersion { number, created_s, reserved: 0, wrapped })
    }

    fn restore(
        &self,
        name: &KeyName,
        backup: &KeyBackup,
        force: bool,
        random: &mut Drbg,
    ) -> Result<Record, ChangeError> {
        let kek = self.kek()?;
        if self.get(name.as_str()).is_some() && !force {
            return Err(ChangeError::Exists(name.clone()));
        }
        self.room_for(name)?;
        check_backup(backup)?;
        let policy = KeyPolicy { imported: true, ..backup.policy };
        let mut versions = Vec::with_capacity(backup.versions.len());
        for version in &backup.versions {
            let bytes = secret_of(policy.kind, version)?;
            let wrapped =
                kek.wrap_bytes(&bytes, &place(policy.kind, name), version.number, random)?;
            versions.push(StoredVersion {
                number: version.number,
                created_s: version.created_s,
                reserved: version.messages,
                wrapped: wrapped.into(),
            });
        }
        Ok(Record::Put { name: name.clone(), policy, versions })
    }
}

fn check_policy(policy: &KeyPolicy) -> Result<(), ChangeError> {
    if policy.convergent && !policy.derived {
        return Err(ChangeError::ConvergentNotDerived);
    }
    match policy.kind {
        KeyKind::Hmac { .. } if policy.derived => {
            return Err(ChangeError::NotDerivable(policy.kind));
        }
        KeyKind::Hmac { key_bytes } if !(32..=512).contains(&key_bytes) => {
            return Err(ChangeError::KeySize(key_bytes));
        }
        KeyKind::Sealing(kind) if policy.convergent && !kind.is_convergent() => {
            return Err(KeyError::NotConvergent(kind).into());
        }
        _ => {}
    }
    let period = policy.auto_rotate_s;
    if period != 0 && period < ROTATE_MIN_S { Err(ChangeError::RotatePeriod) } else { Ok(()) }
}

fn check_backup(backup: &KeyBackup) -> Result<(), ChangeError> {
    check_policy(&backup.policy)?;
    let policy = &backup.policy;
    let numbers = backup.versions.iter().map(|version| version.number);
    let (Some(first), Some(latest)) = (numbers.clone().next(), numbers.clone().next_back()) else {
        return Err(ChangeError::Backup("it has no versions"));
    };
    let follow = numbers.zip(u64::from(first)..).all(|(found, next)| u64::from(found) == next);
    if first == 0 || !follow {
        return Err(ChangeError::Backup("its versions do not follow each other from 1 or above"));
    }
    let least = [policy.min_decryption, policy.min_encryption, policy.min_available];
    if least.iter().any(|least| *least > latest) || policy.min_decryption == 0 {
        return Err(ChangeError::Backup(
            "its least versions are not among those from 1 to the latest",
        ));
    }
    if policy.min_available.max(1) != first {
        return Err(ChangeError::Backup("its first version is not the least that it says it has"));
    }
    Ok(())
}

/// Returns the secret bytes of a version that was kept.
fn secret_of(kind: KeyKind, version: &KeyBackupVersion) -> Result<Zeroizing<Vec<u8>>, ChangeError> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(kind.secret_bytes()));
    let good = match kind {
        KeyKind::Sealing(kind) => {
            version.key.len() == kind.key_bytes() && version.tag_key.len() == KEY_BYTES
        }
        KeyKind::Hmac { key_bytes } => version.key.len() == usize::from(key_bytes),
    };
    if !good {
        return Err(ChangeError::Backup("a key has another length than its type has"));
    }
    bytes.extend_from_slice(&version.key);
    if kind.sealing().is_some() {
        bytes.extend_from_slice(&version.tag_key);
    }
    Ok(bytes)
}

fn configured(key: &NamedKey, config: &KeyConfig) -> Result<Option<Record>, ChangeError> {
    let (mut policy, latest) = (key.policy, key.versions.latest());
    if let Some(found) = config.min_decryption {
        policy.min_decryption = found.max(1);
        if found > latest {
            return Err(ChangeError::MinDecryption { found, latest });
        }
    }
    if let Some(found) = config.min_encryption {
        policy.min_encryption = found;
        if found > latest {
            return Err(ChangeError::MinEncryption { found, latest });
        }
    }
    let (encryption, decryption) = (policy.min_encryption, policy.min_decryption);
    if encryption != 0 && encryption < decryption {
        return Err(ChangeError::MinOrder { encryption, decryption });
    }
    if decryption < policy.min_available {
        return Err(ChangeError::Available(
            "min decryption version should not be less than min available version",
        ));
    }
    if policy.min_available != 0 && encryption < policy.min_available {
        return Err(ChangeError::Available(
            "min encryption version should not be less than min available version",
        ));
    }
    if let Some(period) = config.auto_rotate_s {
        policy.auto_rotate_s = period;
    }
    policy.soft_deleted = config.soft_deleted.unwrap_or(policy.soft_deleted);
    policy.deletion_allowed = config.deletion_allowed.unwrap_or(policy.deletion_allowed);
    policy.exportable |= config.exportable.unwrap_or(false);
    policy.allow_plaintext_backup |= config.allow_plaintext_backup.unwrap_or(false);
    check_policy(&policy)?;
    let record = Record::Configured { name: key.name.clone(), policy };
    Ok((policy != key.policy).then_some(record))
}

fn trimmed(key: &NamedKey, min_available: u32) -> Result<Option<Record>, ChangeError> {
    let policy = &key.policy;
    let wrong = if min_available < policy.min_available {
        "minimum available version cannot be decremented"
    } else if policy.min_encryption == 0 {
        "minimum available version cannot be set when minimum encryption version is not set"
    } else if min_available > policy.min_encryption {
        "minimum available version cannot be higher than minimum encryption version"
    } else if min_available > policy.min_decryption {
        "minimum available version cannot be higher than minimum decryption version"
    } else {
        let policy = KeyPolicy { min_available, ..*policy };
        let record = Record::Configured { name: key.name.clone(), policy };
        return Ok((policy != key.policy).then_some(record));
    };
    Err(ChangeError::Available(wrong))
}

fn reserved(key: &NamedKey, version: u32, messages: u64) -> Result<Option<Record>, ChangeError> {
    let Some(kind) = key.policy.kind.sealing() else { return Ok(None) };
    let count = key.versions.get(version).ok_or(ChangeError::NoKey)?.count();
    let durable = count.reserved();
    let free = durable.saturating_sub(count.used());
    let Some(missing) = messages.checked_sub(free).filter(|missing| *missing > 0) else {
        return Ok(None);
    };
    let mut total = MessageCount::resume(kind, durable);
    total.reserve(missing.max(RESERVED_BLOCK.min(total.left())))?;
    let (name, up_to) = (key.name.clone(), total.reserved());
    Ok(Some(Record::Reserved { name, version, up_to }))
}
