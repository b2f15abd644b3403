//! The store behind the table: `fjall`, one value a user.

use std::path::Path;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use crate::error::StoreError;
use crate::stored::Stored;

/// Up to which delta the stored counters are folded.
const FOLDED: &str = "folded";
const CACHE_BYTES: u64 = 64 << 20;

pub(crate) struct Db {
    database: Database,
    users: Keyspace,
    meta: Keyspace,
}

/// Changes that become visible, and survive a kill, together.
pub(crate) struct Changes<'a> {
    db: &'a Db,
    batch: fjall::OwnedWriteBatch,
}

impl Db {
    pub(crate) fn open(folder: &Path) -> Result<Db, StoreError> {
        let database =
            Database::builder(folder).worker_threads(1).cache_size(CACHE_BYTES).open()?;
        let users = database.keyspace("users", KeyspaceCreateOptions::default)?;
        let meta = database.keyspace("meta", KeyspaceCreateOptions::default)?;
        Ok(Db { database, users, meta })
    }

    pub(crate) fn get(&self, user: u64) -> Result<Option<Stored>, StoreError> {
        let Some(bytes) = self.users.get(user.to_be_bytes())? else { return Ok(None) };
        Stored::decode(&bytes).map(Some).ok_or(StoreError::Value { user })
    }

    /// Up to `count` users from `first` on, in order of their keys.
    pub(crate) fn scan(&self, first: u64, count: usize) -> Result<Vec<(u64, Stored)>, StoreError> {
        let mut found = Vec::with_capacity(count);
        for entry in self.users.range(first.to_be_bytes()..).take(count) {
            let (key, value) = entry.into_inner()?;
            let user = key.first_chunk().map_or(0, |&key| u64::from_be_bytes(key));
            found.push((user, Stored::decode(&value).ok_or(StoreError::Value { user })?));
        }
        Ok(found)
    }

    pub(crate) fn folded(&self) -> Result<u64, StoreError> {
        let bytes = self.meta.get(FOLDED)?;
        Ok(bytes.and_then(|bytes| Some(u64::from_le_bytes(*bytes.first_chunk()?))).unwrap_or(0))
    }

    pub(crate) fn changes(&self) -> Changes<'_> {
        Changes { db: self, batch: self.database.batch() }
    }

    /// Everything so far survives a power cut.
    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        Ok(self.database.persist(PersistMode::SyncData)?)
    }
}

impl Changes<'_> {
    pub(crate) fn put(&mut self, user: u64, stored: &Stored) {
        self.batch.insert(&self.db.users, user.to_be_bytes(), stored.encode());
    }

    pub(crate) fn folded(&mut self, seq: u64) {
        self.batch.insert(&self.db.meta, FOLDED, seq.to_le_bytes());
    }

    pub(crate) fn commit(self) -> Result<(), StoreError> {
        Ok(self.batch.commit()?)
    }
}
