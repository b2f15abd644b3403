//! Changes of keys as bytes.
//!
//! ```text
//!  0     1     2
//!  +-----+-----+------------------------------+
//!  |  1  | what|  its members, little-endian  |        1: the format
//!  +-----+-----+------------------------------+
//!
//!  name     u8 length, bytes
//!  policy   kind u8, key bytes u16, flags u8 (1 derived, 2 convergent, 4 exportable, 8 plaintext backup, 16 deletion, 32 imported,
//!           64 soft-deleted),
//!           min decryption u32, min encryption u32, min available u32, rotation in seconds u64
//!  version  number u32, created u64, messages reserved u64, wrapped: u16 length, bytes
//!
//!  1 kek        fingerprint of 8 bytes
//!  2 put        name, policy, count u32, versions
//!  3 rotated    name, version
//!  4 configured name, policy
//!  5 deleted    name
//!  6 reserved   name, version u32, messages u64
//!  7 upsert     u8: 1 if a key that is not there is made when somebody seals with it
//!  8 rewrapped  fingerprint, count u32, of each: name, version u32, wrapped
//! ```

use thiserror::Error;

use super::name::KeyName;
use super::policy::{KeyKind, KeyPolicy};
use crate::{FINGERPRINT_BYTES, KeyType};

const FORMAT: u8 = 1;

/// A version as it is stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct StoredVersion {
    pub(super) number: u32,
    pub(super) created_s: u64,
    pub(super) reserved: u64,
    pub(super) wrapped: Box<[u8]>,
}

/// One change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Record {
    Kek([u8; FINGERPRINT_BYTES]),
    Put { name: KeyName, policy: KeyPolicy, versions: Vec<StoredVersion> },
    Rotated { name: KeyName, version: StoredVersion },
    Configured { name: KeyName, policy: KeyPolicy },
    Deleted(KeyName),
    Reserved { name: KeyName, version: u32, up_to: u64 },
    Upsert(bool),
    Rewrapped { fingerprint: [u8; FINGERPRINT_BYTES], wraps: Vec<(KeyName, u32, Box<[u8]>)> },
}

/// Why a record cannot be applied.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum RecordError {
    /// Its bytes are no record.
    #[error(
        "a record of keys cannot be read at byte {at}: it is damaged, or a newer version wrote it"
    )]
    Malformed {
        /// Where reading ended.
        at: usize,
    },
    /// It does not follow from those before.
    #[error(
        "a record of keys does not follow from those before: {0}; one is missing, or came twice"
    )]
    Order(&'static str),
    /// A version does not open under the key encryption key.
    #[error(
        "version {version} of the key {name} does not open under the key encryption key: its record is damaged"
    )]
    Wrap {
        /// Whose.
        name: KeyName,
        /// Which.
        version: u32,
    },
}

impl Record {
    pub(super) fn write(&self) -> Vec<u8> {
        let mut to = Writer(vec![FORMAT, self.code()]);
        match self {
            Record::Kek(fingerprint) => to.bytes(fingerprint),
            Record::Put { name, policy, versions } => {
                to.name(name);
                to.policy(policy);
                to.count(versions.len());
                versions.iter().for_each(|version| to.version(version));
            }
            Record::Rotated { name, version } => {
                to.name(name);
                to.version(version);
            }
            Record::Configured { name, policy } => {
                to.name(name);
                to.policy(policy);
            }
            Record::Deleted(name) => to.name(name),
            Record::Reserved { name, version, up_to } => {
                to.name(name);
                to.bytes(&version.to_le_bytes());
                to.bytes(&up_to.to_le_bytes());
            }
            Record::Upsert(on) => to.bytes(&[u8::from(*on)]),
            Record::Rewrapped { fingerprint, wraps } => {
                to.bytes(fingerprint);
                to.count(wraps.len());
                for (name, version, wrapped) in wraps {
                    to.name(name);
                    to.bytes(&version.to_le_bytes());
                    to.wrapped(wrapped);
                }
            }
        }
        to.0
    }

    fn code(&self) -> u8 {
        match self {
            Record::Kek(_) => 1,
            Record::Put { .. } => 2,
            Record::Rotated { .. } => 3,
            Record::Configured { .. } => 4,
            Record::Deleted(_) => 5,
            Record::Reserved { .. } => 6,
            Record::Upsert(_) => 7,
            Record::Rewrapped { .. } => 8,
        }
    }

    pub(super) fn read(bytes: &[u8]) -> Result<Record, RecordError> {
        let mut from = Reader { rest: bytes };
        let read = from.record().filter(|_| from.rest.is_empty());
        read.ok_or(RecordError::Malformed { at: bytes.len() - from.rest.len() })
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn name(&mut self, name: &KeyName) {
        // A name has at most 255 bytes.
        self.0.push(u8::try_from(name.as_str().len()).unwrap_or(u8::MAX));
        self.bytes(name.as_str().as_bytes());
    }

    fn count(&mut self, count: usize) {
        self.bytes(&u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
    }

    fn wrapped(&mut self, wrapped: &[u8]) {
        // The longest secret has 512 bytes.
        self.bytes(&u16::try_from(wrapped.len()).unwrap_or(u16::MAX).to_le_bytes());
        self.bytes(wrapped);
    }

    fn version(&mut self, version: &StoredVersion) {
        self.bytes(&version.number.to_le_bytes());
        self.bytes(&version.created_s.to_le_bytes());
        self.bytes(&version.reserved.to_le_bytes());
        self.wrapped(&version.wrapped);
    }

    fn policy(&mut self, policy: &KeyPolicy) {
        let (code, key_bytes) = match policy.kind {
            KeyKind::Sealing(kind) => (kind.code(), 0),
            KeyKind::Hmac { key_bytes } => (HMAC_CODE, key_bytes),
        };
        self.bytes(&[code]);
        self.bytes(&key_bytes.to_le_bytes());
        let flags = [
            policy.derived,
            policy.convergent,
            policy.exportable,
            policy.allow_plaintext_backup,
            policy.deletion_allowed,
            policy.imported,
            policy.soft_deleted,
        ];
        let bits = flags.into_iter().rev().fold(0, |bits, flag| bits << 1 | u8::from(flag));
        self.bytes(&[bits]);
        for least in [policy.min_decryption, policy.min_encryption, policy.min_available] {
            self.bytes(&least.to_le_bytes());
        }
        self.bytes(&policy.auto_rotate_s.to_le_bytes());
    }
}

/// The code of `hmac`, beside those of [`KeyType`].
const HMAC_CODE: u8 = 16;
/// Flags that there are.
const FLAGS: u32 = 7;

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn record(&mut self) -> Option<Record> {
        if self.byte()? != FORMAT {
            return None;
        }
        Some(match self.byte()? {
            1 => Record::Kek(self.array()?),
            2 => {
                let (name, policy, count) = (self.name()?, self.policy()?, self.number()?);
                let versions = (0..count).map(|_| self.version()).collect::<Option<_>>()?;
                Record::Put { name, policy, versions }
            }
            3 => Record::Rotated { name: self.name()?, version: self.version()? },
            4 => Record::Configured { name: self.name()?, policy: self.policy()? },
            5 => Record::Deleted(self.name()?),
            6 => {
                let (name, version, up_to) = (self.name()?, self.number()?, self.long()?);
                Record::Reserved { name, version, up_to }
            }
            7 => Record::Upsert(self.flag()?),
            8 => {
                let (fingerprint, count) = (self.array()?, self.number()?);
                let wraps = (0..count)
                    .map(|_| Some((self.name()?, self.number()?, self.wrapped()?)))
                    .collect::<Option<_>>()?;
                Record::Rewrapped { fingerprint, wraps }
            }
            _ => return None,
        })
    }

    fn slice(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.slice(N)?.try_into().ok()
    }

    fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]: [u8; 1]| byte)
    }

    fn flag(&mut self) -> Option<bool> {
        self.byte().filter(|byte| *byte < 2).map(|byte| byte == 1)
    }

    fn number(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn long(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn name(&mut self) -> Option<KeyName> {
        let count = usize::from(self.byte()?);
        KeyName::new(std::str::from_utf8(self.slice(count)?).ok()?).ok()
    }

    fn wrapped(&mut self) -> Option<Box<[u8]>> {
        let count = usize::from(self.array().map(u16::from_le_bytes)?);
        self.slice(count).map(Box::from)
    }

    fn version(&mut self) -> Option<StoredVersion> {
        Some(StoredVersion {
            number: self.number()?,
            created_s: self.long()?,
            reserved: self.long()?,
            wrapped: self.wrapped()?,
        })
    }

    fn policy(&mut self) -> Option<KeyPolicy> {
        let (code, key_bytes) = (self.byte()?, self.array().map(u16::from_le_bytes)?);
        let kind = match code {
            HMAC_CODE => KeyKind::Hmac { key_bytes },
            _ => KeyKind::Sealing(KeyType::ALL.into_iter().find(|kind| kind.code() == code)?),
        };
        let bits = self.byte().filter(|bits| u32::from(*bits) < 1 << FLAGS)?;
        let flag = |at: u32| bits >> at & 1 == 1;
        Some(KeyPolicy {
            kind,
            derived: flag(0),
            convergent: flag(1),
            exportable: flag(2),
            allow_plaintext_backup: flag(3),
            deletion_allowed: flag(4),
            imported: flag(5),
            soft_deleted: flag(6),
            min_decryption: self.number()?,
            min_encryption: self.number()?,
            min_available: self.number()?,
            auto_rotate_s: self.long()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn examples() -> Vec<Record> {
        let name = KeyName::new("stock/game").unwrap();
        let version = StoredVersion {
            number: 7,
            created_s: 1_763_816_555,
            reserved: 1 << 40,
            wrapped: vec![9; 93].into(),
        };
        let mut policy = KeyPolicy::new(KeyKind::Hmac { key_bytes: 512 });
        (policy.derived, policy.deletion_allowed, policy.imported) = (true, true, true);
        policy.soft_deleted = true;
        (policy.min_decryption, policy.min_encryption, policy.min_available) = (3, 4, 2);
        policy.auto_rotate_s = 86_400;
        let gcm = KeyPolicy::new(KeyKind::Sealing(KeyType::Aes256CbcHmacSha256));
        vec![
            Record::Kek([1, 2, 3, 4, 5, 6, 7, 8]),
            Record::Put { name: name.clone(), policy, versions: vec![version.clone(); 3] },
            Record::Rotated { name: name.clone(), version: version.clone() },
            Record::Configured { name: name.clone(), policy: gcm },
            Record::Deleted(name.clone()),
            Record::Reserved { name: name.clone(), version: 7, up_to: u64::MAX },
            Record::Upsert(true),
            Record::Rewrapped { fingerprint: [8; 8], wraps: vec![(name, 7, version.wrapped); 2] },
        ]
    }

    #[test]
    fn what_is_written_is_read_and_a_part_of_it_is_not() {
        for record in examples() {
            let bytes = record.write();
            assert_eq!(Record::read(&bytes), Ok(record));
            for length in 0..bytes.len() {
                let read = Record::read(&bytes[..length]);
                assert!(matches!(read, Err(RecordError::Malformed { at }) if at <= length));
            }
            let longer = [&bytes[..], &[0]].concat();
            assert_eq!(Record::read(&longer), Err(RecordError::Malformed { at: bytes.len() }));
            let newer = [&[2], &bytes[1..]].concat();
            assert!(Record::read(&newer).is_err());
        }
    }

    #[test]
    fn a_count_that_lies_takes_no_memory() {
        let name = KeyName::new("a").unwrap();
        let policy = KeyPolicy::new(KeyKind::Sealing(KeyType::Aes256Gcm96));
        let mut bytes = Record::Put { name, policy, versions: Vec::new() }.write();
        let at = bytes.len() - 4;
        bytes[at..].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(Record::read(&bytes), Err(RecordError::Malformed { at: bytes.len() }));
    }
}
