//! What is known of a session: its numbers, and how far its messages count.

use std::path::PathBuf;

use crate::OpenError;
use crate::record::u64_at;

/// A place in the messages of a session: before a record, or behind the last one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Number of the segment, from 1; 0 before the first one.
    pub segment: u64,
    /// Bytes from the start of its file.
    pub offset: u64,
}

/// All that a session needs to go on, besides the bytes of its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memo {
    /// MsgSeqNum of the next message to send.
    pub next_out: u64,
    /// MsgSeqNum that is expected from the peer.
    pub next_in: u64,
    /// When the session's present life began, milliseconds since 1970-01-01T00:00:00Z.
    pub created_unix_ms: i64,
    /// Messages before this place belong to an earlier life: they are kept and never sent again.
    pub life: Place,
    /// Messages before this place count.
    pub end: Place,
    /// From this MsgSeqNum on messages may not have reached the peer; 0 if nobody wants to know.
    pub unsure_from: u64,
    /// Messages that were sent from this place on...
    pub waiting_from: Place,
    /// ...and before this one wait to be sent as new ones. Nothing waits if it is not behind the other.
    pub waiting_to: Place,
}

/// Bytes of a memo without its name.
pub(crate) const MEMO_BYTES: usize = 96;

impl Memo {
    /// Returns the memo of a session that begins at a time.
    pub(crate) fn new(unix_ms: i64) -> Memo {
        let [life, end, waiting_from, waiting_to] = [Place::default(); 4];
        Memo {
            next_out: 1,
            next_in: 1,
            created_unix_ms: unix_ms,
            life,
            end,
            unsure_from: 0,
            waiting_from,
            waiting_to,
        }
    }

    pub(crate) fn append(&self, name: &str, out: &mut Vec<u8>) {
        // Names have at most 80 characters.
        out.extend_from_slice(&u16::try_from(name.len()).unwrap_or(u16::MAX).to_le_bytes());
        out.extend_from_slice(name.as_bytes());
        let numbers = [
            self.next_out,
            self.next_in,
            self.created_unix_ms.cast_unsigned(),
            self.life.segment,
            self.life.offset,
            self.end.segment,
            self.end.offset,
            self.unsure_from,
            self.waiting_from.segment,
            self.waiting_from.offset,
            self.waiting_to.segment,
            self.waiting_to.offset,
        ];
        for number in numbers {
            out.extend_from_slice(&number.to_le_bytes());
        }
    }

    /// Takes a memo and its name from the front of `bytes`.
    pub(crate) fn take(bytes: &mut &[u8]) -> Option<(String, Memo)> {
        let (length, rest) = bytes.split_first_chunk::<2>()?;
        let (name, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
        let (memo, rest) = rest.split_first_chunk::<MEMO_BYTES>()?;
        let number = |at: usize| u64_at(memo, at * 8);
        let place = |at| Place { segment: number(at), offset: number(at + 1) };
        *bytes = rest;
        let memo = Memo {
            next_out: number(0),
            next_in: number(1),
            created_unix_ms: number(2).cast_signed(),
            life: place(3),
            end: place(5),
            unsure_from: number(7),
            waiting_from: place(8),
            waiting_to: place(10),
        };
        Some((String::from_utf8_lossy(name).into_owned(), memo))
    }
}

/// What a step changed of one session.
#[derive(Clone, Copy, Debug)]
pub struct Change<'c> {
    /// The session's name.
    pub name: &'c str,
    /// What is known of it from now on.
    pub memo: Memo,
    /// Where the records belong.
    pub place: Place,
    /// Records and their messages; empty if only numbers changed.
    pub records: &'c [u8],
}

/// Where changes are kept. [`crate::NumbersFile`] is a file of its own; a journal that already seals a group per step can keep them in it, so
/// that an order, its money, its messages and its numbers are one group.
pub trait Numbers {
    /// Returns the newest memo of a session, of this run or of one before; `None` for a session that never had one.
    fn newest(&self, name: &str) -> Option<Memo>;

    /// Reports whether [`Numbers::begin_anew`] is to be called before more is kept.
    fn is_full(&mut self) -> bool {
        false
    }

    /// Forgets records: all that were kept are with the system in the files that they belong to, if that went well. Those of sealed steps may
    /// be forgotten once `written` are on the disk, too. Returns whether it sees to that; it need not, where there is room for more.
    ///
    /// # Errors
    /// [`OpenError`] if it cannot be done, and nothing can be kept until it is.
    fn begin_anew(&mut self, written: Result<Vec<PathBuf>, OpenError>) -> Result<bool, OpenError> {
        written.map(|_| false)
    }

    /// A session goes whose records could not all be written to the files that they belong to: those that were kept are not forgotten before
    /// [`Numbers::bring_back`].
    ///
    /// # Errors
    /// [`OpenError`] if they cannot be found.
    fn hold_back(&mut self, _name: &str) -> Result<(), OpenError> {
        Ok(())
    }

    /// A session comes: writes the records that are not forgotten to the files that they belong to, as far as these are there.
    ///
    /// # Errors
    /// [`OpenError`] if they cannot be written; they are still not forgotten then.
    fn bring_back(&mut self, _name: &str) -> Result<(), OpenError> {
        Ok(())
    }

    /// Finds out whether what is kept is still where the next process will look for it. Where it is not, it is begun anew there with the next
    /// change.
    ///
    /// # Errors
    /// [`OpenError`]: it was moved away or removed since this was asked last.
    fn look(&mut self) -> Result<(), OpenError> {
        Ok(())
    }

    /// Keeps the changes of one step, all or none. With `sealed` they are on the disk when this returns, otherwise with the system: a crash
    /// of the process loses nothing.
    ///
    /// # Errors
    /// [`OpenError`] if they cannot be kept; the memos before them then still count.
    fn keep(&mut self, changes: &[Change<'_>], sealed: bool) -> Result<(), OpenError>;
}
