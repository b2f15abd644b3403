//! Reading sealed groups beside a live writer.
//!
//! The writer's folder does not say where its last seal is: a group can be there whole, and a crash of the system can still take it back. So
//! the reader is told up to where records are sealed ([`Journal::sealed`](crate::Journal::sealed)), and hands out nothing behind that place,
//! whatever the files hold.

use std::io;
use std::ops::ControlFlow;

use ledger::Record;

use crate::codec;
use crate::files::Folder;
use crate::format::Position;
use crate::read::{End, Fault, ReadError, Reader};
use crate::walk::{misplaced, missing, open, segments};

/// A group that is sealed.
#[derive(Debug)]
pub struct SealedGroup<'a> {
    /// Where it begins: [`Group::read`](crate::Group::read) judges `entry` by it.
    pub before: Position,
    /// When it was gathered, ms since the Unix epoch.
    pub at_ms: u64,
    /// Head and records: what another log holds of it.
    pub entry: &'a [u8],
    /// Its records. The first one has the sequence `before.sequence`.
    pub records: &'a [Record],
}

/// Why groups cannot be read. Groups before the error were handed out; the next call goes on behind them.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// The retention removed the records that come next.
    #[error(
        "record {wanted} was removed from the journal, which begins with record {first} now: begin again there"
    )]
    Removed {
        /// Sequence of the record that was to be read.
        wanted: u64,
        /// Sequence of the first record that is there.
        first: u64,
    },
    /// The journal cannot be read, or is damaged.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// A reader of sealed groups that goes on where it was. It keeps a segment open, so that a call reads what is new and no more, and a segment
/// that is removed under it can still be read to its end.
pub struct Follower<F: Folder> {
    folder: F,
    /// Sequence of the next record.
    next: u64,
    reader: Option<Reader<F::File>>,
    records: Vec<Record>,
}

impl<F: Folder> Follower<F> {
    /// Begins with the group that has the record of this sequence; the first record of a journal has 1.
    pub fn new(folder: F, next: u64) -> Follower<F> {
        Follower { folder, next, reader: None, records: Vec::new() }
    }

    /// Sequence of the next record: all before it were handed out.
    pub fn sequence(&self) -> u64 {
        self.next
    }

    /// Hands out groups, in order, up to the first record that is not sealed: `sealed` is its sequence, which was asked for before this call. A
    /// group that `each` answers with `Break` is the last one of this call.
    ///
    /// # Errors
    /// [`FollowError`].
    pub fn read_groups(
        &mut self,
        sealed: u64,
        each: &mut dyn FnMut(&SealedGroup<'_>) -> ControlFlow<()>,
    ) -> Result<(), FollowError> {
        while self.next < sealed {
            let mut reader = match self.reader.take() {
                Some(reader) => reader,
                None => self.find()?,
            };
            // What is sealed was sealed in this segment or in one that was begun before this call. Where the next one begins, this one ends:
            // what stands behind that place is a group that failed, and was written again.
            let follows = self.open_if_there(reader.head().number + 1)?;
            let end = follows.as_ref().map_or(sealed, |next| next.head().position.sequence);
            reader.look_again()?;
            while reader.at().sequence < end.min(sealed) {
                let went_on = self.take(&mut reader, sealed, each)?;
                if went_on.is_break() {
                    self.reader = Some(reader).filter(|reader| reader.at().sequence <= sealed);
                    return Ok(());
                }
            }
            self.reader = match follows {
                Some(next) if *reader.at() == next.head().position => Some(next),
                Some(next) if reader.at().sequence >= end => {
                    return Err(ReadError::from(misplaced(&next, reader.at())).into());
                }
                _ => Some(reader),
            };
        }
        Ok(())
    }

    /// Takes the next group, and hands it out unless it was before.
    fn take(
        &mut self,
        reader: &mut Reader<F::File>,
        sealed: u64,
        each: &mut dyn FnMut(&SealedGroup<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, FollowError> {
        let (before, next, mut at_ms) = (*reader.at(), self.next, 0);
        self.records.clear();
        let end = reader.next(|at, message| {
            at_ms = at.at_ms;
            self.records.push(codec::record(message).map_err(|text| at.unreadable(text))?);
            Ok(())
        })?;
        match end {
            None => {}
            Some(End::Damaged(damage)) => return Err(ReadError::from(damage).into()),
            // What is sealed stands in later segments, then: they were removed, or are missing.
            Some(End::Clean | End::Torn { .. }) => {
                self.find()?;
                return Err(ReadError::from(missing(reader.head().number + 1, &before)).into());
            }
        }
        let after = reader.at().sequence;
        if after > sealed {
            // It is not known to be sealed to its end.
            return Ok(ControlFlow::Break(()));
        }
        if after <= next {
            return Ok(ControlFlow::Continue(()));
        }
        self.next = after;
        let (entry, records) = (reader.last_entry(), &self.records[..]);
        Ok(each(&SealedGroup { before, at_ms, entry, records }))
    }

    /// The segment that has the next record: the last one that begins at it or before.
    fn find(&self) -> Result<Reader<F::File>, FollowError> {
        let wanted = self.next;
        let mut first = None;
        for number in segments(&self.folder)?.into_iter().rev() {
            // The retention removes the oldest first: where one is gone, so are those before it.
            let Some(reader) = self.open_if_there(number)? else { break };
            let begins = reader.head().position.sequence;
            if begins <= wanted {
                return Ok(reader);
            }
            first = Some(begins);
        }
        match first {
            Some(first) => Err(FollowError::Removed { wanted, first }),
            None => {
                let at = Position { sequence: wanted, ..Position::START };
                Err(ReadError::from(missing(1, &at)).into())
            }
        }
    }

    fn open_if_there(&self, number: u64) -> Result<Option<Reader<F::File>>, ReadError> {
        match open(&self.folder, number) {
            Err(ReadError::Damage(damage)) if damage.what == Fault::Missing => Ok(None),
            Err(ReadError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(None)
            }
            opened => opened.map(Some),
        }
    }
}
