//! Where a session keeps its sequence numbers and the messages that it sent.

use std::collections::{BTreeMap, VecDeque};

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

    /// Holds back what outlives the process: whatever [`MessageStore::next_in`] says meanwhile, this number is expected after a crash, because
    /// what came with it is not done yet; `None` holds no longer, and neither does a reset.
    fn hold_next_in(&mut self, _seq: Option<u64>) {}

    /// Keeps a message under [`MessageStore::next_out`] and moves that number on, both or neither.
    ///
    /// # Errors
    /// [`StoreError`] if it cannot be kept; nothing has changed then. Where that is for want of room, the next flush fails, too: what belongs to
    /// the message does not leave without it.
    fn put(&mut self, bytes: &[u8]) -> Result<(), StoreError>;

    /// Appends the message that was sent under a number to `into` and reports whether there is one. A message that the store finds
    /// damaged is not there. Numbers are asked for in ascending order, so a store may read ahead; it keeps no more than a part of the
    /// range in memory.
    fn get(&mut self, seq: u64, into: &mut Vec<u8>) -> bool;

    /// Returns the first number at or above `seq` under which there may be a message; `None` if there is none. Between two messages there can be
    /// any distance: an operator sets numbers. A store that does not know says `seq`.
    fn next_kept(&mut self, seq: u64) -> Option<u64> {
        Some(seq)
    }

    /// Keeps a copy of a whole message from the peer, for those who ask later what was said. Called before it is judged; of what comes
    /// before a logon only the Logon that is taken. A store that keeps nothing of the peer's does nothing.
    fn note_received(&mut self, _bytes: &[u8]) {}

    /// Begins a new life of the session at a time, or a millisecond after the one before, where that began then or later: both numbers are 1 and no
    /// message is there to be sent again. Messages that may not have reached the
    /// peer ([`MessageStore::unsure_from`]) wait from then on for [`MessageStore::next_waiting`].
    ///
    /// # Errors
    /// [`StoreError`] if it cannot be kept; nothing has changed then.
    fn reset(&mut self, unix_ms: i64) -> Result<(), StoreError>;

    /// Returns when the session's present life began, in milliseconds since 1970-01-01T00:00:00Z.
    fn created_unix_ms(&self) -> i64;

    /// Returns the time, in milliseconds since 1970-01-01T00:00:00Z: what the peer sent before it may have been taken under other numbers than the
    /// present ones. When the present life began, or later where messages of it are missing.
    fn doubtful_before_unix_ms(&self) -> i64 {
        self.created_unix_ms()
    }

    /// Keeps a later time as [`MessageStore::doubtful_before_unix_ms`]. It outlives the process when this returns.
    ///
    /// # Errors
    /// [`StoreError`] if it cannot be kept.
    fn doubt_before(&mut self, _unix_ms: i64) -> Result<(), StoreError> {
        Ok(())
    }

    /// Returns the number from which on messages may not have reached the peer; `None` if nobody wants to know.
    fn unsure_from(&self) -> Option<u64> {
        None
    }

    /// Says from which number on messages may not have reached the peer, or that nobody wants to know: then none waits, and none will.
    fn set_unsure_from(&mut self, _seq: Option<u64>) {}

    /// Reports whether messages of earlier lives wait to be sent as new ones.
    fn has_waiting(&self) -> bool {
        false
    }

    /// Appends the oldest message that waits to `into`, which may be one of the session itself. It waits until it is passed.
    fn next_waiting(&mut self, _into: &mut Vec<u8>) -> Waiting {
        Waiting::None
    }

    /// What [`MessageStore::next_waiting`] found last waits no longer.
    fn pass_waiting(&mut self) {}
}

/// What [`MessageStore::next_waiting`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// Nothing waits.
    None,
    /// What waits was not flushed yet; it can be read after the next flush.
    Later,
    /// A message.
    Message,
    /// A message, or some, that the store does not have any more, or finds damaged.
    Lost,
}

/// The stores of several sessions, numbered from 0, that can change together: a message that one session took and another passed on is
/// then taken and passed on, or neither, whatever ends the process.
pub trait MessageStores {
    /// The store of one session.
    type Store: MessageStore;

    /// Says what time it is, microseconds since 1970-01-01T00:00:00Z; what is kept from now on is kept with it.
    fn set_time(&mut self, _unix_us: i64) {}

    /// Reports whether there is little room: what only ends orders is to be kept, and nothing else.
    fn is_short(&self) -> bool {
        false
    }

    /// Returns the store of a session.
    ///
    /// # Panics
    /// If there is no session of that number.
    fn store(&mut self, session: usize) -> &mut Self::Store;

    /// Returns a further store that belongs to a session and changes together with its own: a book in which what stands behind the session
    /// keeps records, each put under the next number and read by it; `next_in` is the oldest that is needed. `None` where nothing of that
    /// kind outlives the process.
    ///
    /// # Errors
    /// [`StoreError`] if there should be one, but it cannot be opened.
    fn book(&mut self, _session: usize) -> Result<Option<&mut Self::Store>, StoreError> {
        Ok(None)
    }

    /// Reports whether a session has a book of before.
    fn has_book(&self, _session: usize) -> bool {
        false
    }

    /// Makes everything that changed in the stores and books of some sessions outlive the process: all of it or nothing. Bytes that a session
    /// wrote may leave once this has returned.
    ///
    /// # Errors
    /// [`StoreError`] if it cannot be kept. The stores are then as they were at the last flush, so what the sessions wrote since must not
    /// leave: the caller drops it and tells each of these sessions with [`crate::Session::store_failed`].
    fn flush(&mut self, sessions: &[usize]) -> Result<(), StoreError>;

    /// The same, but where the changes of one session cannot be kept others' are. `groups` has the group of each session: of the sessions of a
    /// group everything is kept or nothing, because one passed on what another took. Returns the sessions of which nothing was kept, each with
    /// the reason; for these it is as if their flush had failed.
    fn flush_apart(&mut self, sessions: &[usize], _groups: &[usize]) -> Vec<(usize, StoreError)> {
        match self.flush(sessions) {
            Ok(()) => Vec::new(),
            Err(error) => sessions.iter().map(|at| (*at, error.clone())).collect(),
        }
    }
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
    unsure_from: Option<u64>,
    /// Messages of earlier lives.
    waiting: VecDeque<Box<[u8]>>,
}

impl MemoryStore {
    /// Returns an empty store of a session whose life begins at a time.
    #[must_use]
    pub fn new(unix_ms: i64) -> MemoryStore {
        MemoryStore {
            next_in: 1,
            next_out: 1,
            created_unix_ms: unix_ms,
            messages: BTreeMap::new(),
            unsure_from: None,
            waiting: VecDeque::new(),
        }
    }

    /// Sets the number of the next message to send, as an operator does between two connections. Messages at or above it are forgotten, and
    /// those that may not have reached the peer wait for [`MessageStore::next_waiting`].
    pub fn set_next_out(&mut self, seq: u64) {
        let seq = seq.max(1);
        if seq != self.next_out {
            self.let_wait(seq);
        }
        self.next_out = seq;
        self.messages.split_off(&self.next_out);
    }

    /// Lets the messages wait that may not have reached the peer, as the next number becomes another.
    fn let_wait(&mut self, next_out: u64) {
        let Some(unsure_from) = self.unsure_from.as_mut() else { return };
        let messages = self.messages.range(*unsure_from..);
        self.waiting.extend(messages.map(|(_, bytes)| bytes.clone()));
        *unsure_from = next_out;
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

    fn next_kept(&mut self, seq: u64) -> Option<u64> {
        self.messages.range(seq..).next().map(|(seq, _)| *seq)
    }

    fn reset(&mut self, unix_ms: i64) -> Result<(), StoreError> {
        self.let_wait(1);
        let (unsure_from, waiting) = (self.unsure_from, std::mem::take(&mut self.waiting));
        let unix_ms = unix_ms.max(self.created_unix_ms.saturating_add(1));
        *self = MemoryStore { unsure_from, waiting, ..MemoryStore::new(unix_ms) };
        Ok(())
    }

    fn created_unix_ms(&self) -> i64 {
        self.created_unix_ms
    }

    fn unsure_from(&self) -> Option<u64> {
        self.unsure_from
    }

    fn set_unsure_from(&mut self, seq: Option<u64>) {
        self.unsure_from = seq;
        if seq.is_none() {
            self.waiting.clear();
        }
    }

    fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn next_waiting(&mut self, into: &mut Vec<u8>) -> Waiting {
        let Some(bytes) = self.waiting.front() else { return Waiting::None };
        into.extend_from_slice(bytes);
        Waiting::Message
    }

    fn pass_waiting(&mut self) {
        self.waiting.pop_front();
    }
}
