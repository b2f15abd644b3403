//! Where a session keeps its sequence numbers and the messages that it sent.

use std::collections::BTreeMap;

/// The store cannot take a message: its disk is full or gone. The session logs out and sends nothing that it could not send again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the message store failed: {reason}")]
pub struct StoreError {
    /// What failed, for the operator.
    pub reason: String,
}

/// When bytes that a session wrote may leave for the peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When the system has the messages: a crash of the process loses nothing; a crash of the machine may lose the last seconds.
    Written,
    /// When the disk has them: nothing is lost that left.
    #[default]
    Sealed,
}

/// The memory of one session, which outlives its connections.
///
/// What it takes counts at once for who asks it, and outlives the process from the next [`MessageStores::flush`] on. All that changed
/// between two flushes is one change: a message that was taken, the move of the expected number, what the application sent because of
/// it, and a reset with the numbers that follow it. Nothing leaves for the peer before the flush behind it.
pub trait MessageStore {
    /// Returns the MsgSeqNum of the next message to send; at least 1.
    fn next_out(&self) -> u64;

    /// Returns the MsgSeqNum that is expected from the peer; at least 1.
    fn next_in(&self) -> u64;

    /// Sets the MsgSeqNum that is expected from the peer.
    ///
    /// # Errors
    /// [`StoreError`] if it cannot be kept.
    fn set_next_in(&mut self, seq: u64) -> Result<(), StoreError>;

    /// Keeps a message under [`MessageStore::next_out`] and moves that number on, both or neither.
    ///
    /// # Errors
    /// [`StoreError`] if it cannot be kept; nothing has changed then.
    fn put(&mut self, bytes: &[u8]) -> Result<(), StoreError>;

    /// Appends the message that was sent under a number to `into` and reports whether there is one. A message that the store finds
    /// damaged is not there. Numbers are asked for in ascending order, so a store may read ahead; it keeps no more than a part of the
    /// range in memory.
    fn get(&mut self, seq: u64, into: &mut Vec<u8>) -> bool;

    /// Keeps a copy of a whole message from the peer, for those who ask later what was said. Called before it is judged; of what comes
    /// before a logon only the Logon that is taken. A store that keeps nothing of the peer's does nothing.
    fn note_received(&mut self, _bytes: &[u8]) {}

    /// Begins a new life of the session: both numbers are 1 and no message is there to be sent again.
    ///
    /// # Errors
    /// [`StoreError`] if it cannot be kept; nothing has changed then.
    fn reset(&mut self, unix_ms: i64) -> Result<(), StoreError>;

    /// Returns when the session's present life began, in milliseconds since 1970-01-01T00:00:00Z.
    fn created_unix_ms(&self) -> i64;
}

/// The stores of several sessions, numbered from 0, that can change together: a message that one session took and another passed on is
/// then taken and passed on, or neither, whatever ends the process.
pub trait MessageStores {
    /// The store of one session.
    type Store: MessageStore;

    /// Says what time it is, microseconds since 1970-01-01T00:00:00Z; what is kept from now on is kept with it.
    fn set_time(&mut self, _unix_us: i64) {}

    /// Returns the store of a session.
    ///
    /// # Panics
    /// If there is no session of that number.
    fn store(&mut self, session: usize) -> &mut Self::Store;

    /// Makes everything that changed in the stores of some sessions outlive the process: all of it or nothing. Bytes that a session
    /// wrote may leave once this has returned.
    ///
    /// # Errors
    /// [`StoreError`] if it cannot be kept. The stores are then as they were at the last flush, so what the sessions wrote since must not
    /// leave: the caller drops it and tells each of these sessions with [`crate::Session::store_failed`].
    fn flush(&mut self, sessions: &[usize]) -> Result<(), StoreError>;
}

impl MessageStores for Vec<MemoryStore> {
    type Store = MemoryStore;

    fn store(&mut self, session: usize) -> &mut MemoryStore {
        &mut self[session]
    }

    fn flush(&mut self, _sessions: &[usize]) -> Result<(), StoreError> {
        Ok(())
    }
}

/// A store that forgets everything with its process; for tests, and for sessions that reset with each logon.
#[derive(Clone, Debug)]
pub struct MemoryStore {
    next_in: u64,
    next_out: u64,
    created_unix_ms: i64,
    messages: BTreeMap<u64, Box<[u8]>>,
}

impl MemoryStore {
    /// Returns an empty store of a session whose life begins at a time.
    #[must_use]
    pub fn new(unix_ms: i64) -> MemoryStore {
        MemoryStore { next_in: 1, next_out: 1, created_unix_ms: unix_ms, messages: BTreeMap::new() }
    }

    /// Sets the number of the next message to send, as an operator does between two connections. Messages at or above it are forgotten.
    pub fn set_next_out(&mut self, seq: u64) {
        self.next_out = seq.max(1);
        self.messages.split_off(&self.next_out);
    }

    /// Forgets the message that was sent under a number, as retention does.
    pub fn forget(&mut self, seq: u64) {
        self.messages.remove(&seq);
    }
}

impl MessageStore for MemoryStore {
    fn next_out(&self) -> u64 {
        self.next_out
    }

    fn next_in(&self) -> u64 {
        self.next_in
    }

    fn set_next_in(&mut self, seq: u64) -> Result<(), StoreError> {
        self.next_in = seq.max(1);
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.messages.insert(self.next_out, bytes.into());
        self.next_out += 1;
        Ok(())
    }

    fn get(&mut self, seq: u64, into: &mut Vec<u8>) -> bool {
        let Some(bytes) = self.messages.get(&seq) else { return false };
        into.extend_from_slice(bytes);
        true
    }

    fn reset(&mut self, unix_ms: i64) -> Result<(), StoreError> {
        *self = MemoryStore::new(unix_ms);
        Ok(())
    }

    fn created_unix_ms(&self) -> i64 {
        self.created_unix_ms
    }
}
