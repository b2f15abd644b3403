//! Keys with the place where their changes are durable.

use thiserror::Error;

use super::{Change, ChangeError, Keys, RecordError, UnsealError};
use crate::{Drbg, KeyEncryptionKey};

/// Where changes of keys are made durable.
pub trait KeyRecords {
    /// Makes a record durable. Once it returns, a restart finds the record after all earlier ones.
    ///
    /// # Errors
    /// [`AppendError`] if it is not durable; a restart may find it nevertheless, as the last one.
    fn append(&mut self, record: &[u8]) -> Result<(), AppendError>;

    /// Is told the keys after a record was applied to them. A place that has grown may write itself anew with [`Keys::snapshot`]; if that
    /// fails, the change stands all the same.
    fn applied(&mut self, keys: &Keys) {
        let _ = keys;
    }
}

/// A change could not be made durable.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("a change of keys could not be made durable: {0}")]
pub struct AppendError(pub String);

/// Records in memory: what is gone with the process.
#[derive(Clone, Debug, Default)]
pub struct MemoryRecords(pub Vec<Vec<u8>>);

impl KeyRecords for MemoryRecords {
    fn append(&mut self, record: &[u8]) -> Result<(), AppendError> {
        self.0.push(record.to_vec());
        Ok(())
    }
}

/// Why a [`KeyStore`] did not do what it was asked.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum KeyStoreError {
    /// The change is not possible.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// The key encryption key does not fit.
    #[error(transparent)]
    Unseal(#[from] UnsealError),
    /// It is not durable. What it would have changed is as it was; ask again.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// A bug of this crate: what it decided could not be applied.
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// Keys with the place where their changes are durable: the only writer of both.
#[derive(Debug)]
pub struct KeyStore<R> {
    keys: Keys,
    records: R,
    random: Drbg,
}

impl<R: KeyRecords> KeyStore<R> {
    /// Returns a store of keys that were replayed out of `records`.
    ///
    /// # Errors
    /// [`ChangeError::Item`] if the operating system gives no randomness.
    pub fn new(keys: Keys, records: R) -> Result<KeyStore<R>, ChangeError> {
        Ok(KeyStore { keys, records, random: Drbg::new()? })
    }

    /// Returns the keys as they are now.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Returns the place of the records.
    pub fn records(&self) -> &R {
        &self.records
    }

    /// The same, for what is beside the records.
    pub fn records_mut(&mut self) -> &mut R {
        &mut self.records
    }

    /// Unseals the keys; an empty store takes any key encryption key, and from then on this one.
    ///
    /// # Errors
    /// [`KeyStoreError::Unseal`] for another one, before anything is written.
    pub fn unseal(&mut self, kek: KeyEncryptionKey) -> Result<(), KeyStoreError> {
        if let Some(record) = self.keys.adopt(&kek)? {
            self.write(&record)?;
        }
        Ok(self.keys.unseal(kek)?)
    }

    /// Forgets the key encryption key and everything that it unwrapped.
    pub fn seal(&mut self) {
        self.keys.seal();
    }

    /// Makes a change durable and then applies it. Returns whether there was anything to change. `now_s`: seconds since 1970.
    ///
    /// # Errors
    /// A [`KeyStoreError`]; nothing has changed.
    pub fn change(&mut self, change: &Change, now_s: u64) -> Result<bool, KeyStoreError> {
        let Some(record) = self.keys.decide(change, now_s, &mut self.random)? else {
            return Ok(false);
        };
        self.write(&record)?;
        Ok(true)
    }

    /// Wraps all keys under another key encryption key, which counts from then on.
    ///
    /// # Errors
    /// A [`KeyStoreError`]; the old one counts still.
    pub fn rewrap(&mut self, kek: KeyEncryptionKey) -> Result<(), KeyStoreError> {
        let record = self.keys.rewrap(&kek, &mut self.random)?;
        self.write(&record)?;
        Ok(self.keys.unseal(kek)?)
    }

    fn write(&mut self, record: &[u8]) -> Result<(), KeyStoreError> {
        self.records.append(record)?;
        self.keys.apply(record)?;
        self.records.applied(&self.keys);
        Ok(())
    }
}
