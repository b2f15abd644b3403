//! Where a session keeps its sequence numbers and the messages that it sent.

use std::collections::BTreeMap;

/// The store cannot take a message: its disk is full or gone. The session logs out and sends nothing that it could not send again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the message store failed: {reason}")]
pub struct StoreError {
    /// What failed, for the operator.
    pub reason: String,
}

/// The memory of one session, which outlives its connections.
///
/// It may hold more than one process's life; what it has taken must be there again whatever ends the process.
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
    /// damaged is not there.
    fn get(&self, seq: u64, into: &mut Vec<u8>) -> bool;

    /// Begins a new life of the session: both numbers are 1 and no message is there to be sent again.
    ///
    /// # Errors
    /// [`StoreError`] if it cannot be kept; nothing has changed then.
    fn reset(&mut self, unix_ms: i64) -> Result<(), StoreError>;

    /// Returns when the session's present life began, in milliseconds since 1970-01-01T00:00:00Z.
    fn created_unix_ms(&self) -> i64;
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

    fn get(&self, seq: u64, into: &mut Vec<u8>) -> bool {
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
