//! What the journal needs of a log: an engine that keeps closed groups in order, on this machine or on others.
//!
//! One operation decides everything: **compare-and-append**. A group is taken only directly behind the one that it
//! names with [`Group::before`]: its sequence, the checksum of the record before it, the hash of the group before it.
//! So two processes that both believe to be the bank cannot both append: whoever comes second is told
//! [`NotAppended::Fenced`]. One group is under way at a time; only the last one can be in doubt, and the answer to doubt
//! is to append the same bytes again. The hash of a group covers all groups before it, so "is it there already?" has
//! an exact answer that needs no message ids.
//!
//! What a reader of a log learns may be old. Nothing follows from it alone: a bank that begins a run appends its
//! `RunStarted` behind the last group that it has read, and reads on if that is refused.

use std::io;
use std::ops::ControlFlow;

use crate::disk::Durability;
use crate::format::{GROUP_BYTES_MAX, Position};
use crate::group::Group;
use crate::read::ReadError;

/// An ordered log that takes a group only behind the one that it names. [`Writer`](crate::Writer) is the log in a folder.
pub trait Log {
    /// After the last group that this process knows to be in the log.
    fn position(&self) -> &Position;

    /// Appends a group behind `group.before()`. `Ok` says that the log holds it as durably as [`Log::attest`] states,
    /// also where an earlier call with the same group had appended it already.
    ///
    /// # Errors
    /// [`NotAppended`]. After [`NotAppended::Unknown`] the only group that may be appended is the same one.
    fn append(&mut self, group: &Group) -> Result<(), NotAppended>;

    /// Hands the groups behind `at` to `each`, in order, as far as there are any: the bytes of [`Group::entry`], which
    /// [`Group::read`] judges. `at` is the end of a group or the beginning of the log. What is read may be old.
    ///
    /// # Errors
    /// [`ReadError`]. Groups before the error were handed on.
    fn read(
        &mut self,
        at: &Position,
        each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), ReadError>;

    /// How durable a group is once it is appended. [`Journal::start`](crate::Journal::start) refuses a log that is less
    /// durable than it is asked to be.
    ///
    /// # Errors
    /// Why nobody can tell: which server does not answer, or which setting is not what it must be.
    fn attest(&mut self) -> Result<Durability, String>;

    /// How long a group may be, bytes.
    fn group_bytes_max(&self) -> usize {
        GROUP_BYTES_MAX
    }

    /// Segments that were begun on this node's disk so far: the housekeeper is told whenever it rises.
    fn segments_begun(&self) -> u64;
}

/// Which log it is, is known when the node starts.
impl<L: Log + ?Sized> Log for Box<L> {
    fn position(&self) -> &Position {
        (**self).position()
    }

    fn append(&mut self, group: &Group) -> Result<(), NotAppended> {
        (**self).append(group)
    }

    fn read(
        &mut self,
        at: &Position,
        each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), ReadError> {
        (**self).read(at, each)
    }

    fn attest(&mut self) -> Result<Durability, String> {
        (**self).attest()
    }

    fn group_bytes_max(&self) -> usize {
        (**self).group_bytes_max()
    }

    fn segments_begun(&self) -> u64 {
        (**self).segments_begun()
    }
}

/// Why a group is not known to be in the log.
#[derive(Debug, thiserror::Error)]
pub enum NotAppended {
    /// Another group stands in its place: another process is the bank now. This one has to stop.
    #[error("another group stands in its place: another process writes this journal now")]
    Fenced,
    /// The log ends before a place that this process knows to be in it: it lost what it had acknowledged. The bank has to
    /// stop; the next start compares what it has with what the log has.
    #[error("the log lost what it had acknowledged: it ends with record {last}")]
    Forgot {
        /// The last record that it still holds; 0 if it holds none.
        last: u64,
    },
    /// Nobody knows whether it was appended. Append the same group again.
    #[error(transparent)]
    Unknown(#[from] io::Error),
}

impl NotAppended {
    /// What a group that does not follow the end of a log means.
    pub fn misplaced(group: &Group, end: &Position) -> NotAppended {
        match end.sequence < group.before().sequence {
            true => NotAppended::Forgot { last: end.sequence - 1 },
            false => NotAppended::Fenced,
        }
    }
}

impl From<NotAppended> for io::Error {
    fn from(error: NotAppended) -> io::Error {
        match error {
            NotAppended::Unknown(error) => error,
            other => io::Error::other(other),
        }
    }
}
