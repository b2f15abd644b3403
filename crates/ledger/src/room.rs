//! Rooms: what else of a data folder every node of a log has alike, beside the books.
//!
//! A room is a file or two of the data folder. Each change of it is a message: bytes that the ledger does not read. In the journal a message is one
//! or more [`Record::Kept`], one behind the other, cut so that each fits. The bank counts whole messages by room, so that a start knows how many of
//! them a file must have; what they do to it is up to whoever has the file.

use crate::Record;

/// Most bytes of a message in one record.
pub const PART_BYTES_MAX: usize = 1 << 15;
/// Most bytes of a message.
pub const MESSAGE_BYTES_MAX: usize = 1 << 27;

/// What a message is about. The numbers are those of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Room {
    /// Changes by the API.
    Edits = 1,
    /// The keys of the vault.
    Vault,
    /// The digest of the budgets file that is in force.
    Budgets,
}

impl Room {
    /// All of them.
    pub const ALL: [Room; 3] = [Room::Edits, Room::Vault, Room::Budgets];

    /// Its name, for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Room::Edits => "edits",
            Room::Vault => "vault",
            Room::Budgets => "budgets",
        }
    }

    pub(crate) const fn index(self) -> usize {
        self as usize - 1
    }
}

/// What a message does to the file of its room: its first byte, and the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoomChange<'m> {
    /// The file has this content from now on.
    Whole(&'m [u8]),
    /// This comes behind what is there.
    Append(&'m [u8]),
}

impl<'m> RoomChange<'m> {
    /// As a message.
    #[must_use]
    pub fn message(&self) -> Vec<u8> {
        let (kind, bytes) = match self {
            RoomChange::Whole(bytes) => (0, bytes),
            RoomChange::Append(bytes) => (1, bytes),
        };
        [&[kind], *bytes].concat()
    }

    /// Reads a message; `None`: this version does not know what it does.
    #[must_use]
    pub fn of(message: &'m [u8]) -> Option<RoomChange<'m>> {
        match message.split_first()? {
            (0, bytes) => Some(RoomChange::Whole(bytes)),
            (1, bytes) => Some(RoomChange::Append(bytes)),
            _ => None,
        }
    }
}

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RoomError {
    /// A part is missing.
    #[error("part {found} of a message for the {} follows, expected {expected}", room.name())]
    Part {
        /// Whose message.
        room: Room,
        /// The part.
        found: u32,
        /// The one that had to come.
        expected: u32,
    },
    /// A part that is longer than any that is cut.
    #[error("a part of {bytes} bytes for the {}, at most {PART_BYTES_MAX} are written", room.name())]
    PartTooLong {
        /// Whose message.
        room: Room,
        /// How long it is.
        bytes: usize,
    },
    /// Too much for a message.
    #[error("a message of {bytes} bytes for the {}, at most {MESSAGE_BYTES_MAX} travel", room.name())]
    TooLong {
        /// Whose message.
        room: Room,
        /// How long it is, as far as it was read.
        bytes: usize,
    },
}

/// Cuts a message into its records.
///
/// # Errors
/// [`RoomError::TooLong`].
pub fn cut(room: Room, message: &[u8]) -> Result<impl Iterator<Item = Record>, RoomError> {
    let bytes = message.len();
    if bytes > MESSAGE_BYTES_MAX {
        return Err(RoomError::TooLong { room, bytes });
    }
    let ends = bytes.div_ceil(PART_BYTES_MAX).max(1);
    let part = move |part: usize| {
        let rest = &message[part * PART_BYTES_MAX..];
        let bytes = rest[..rest.len().min(PART_BYTES_MAX)].into();
        let part_number = u32::try_from(part).expect("at most 2^12 parts");
        Record::Kept { room, part: part_number, last: part + 1 == ends, bytes }
    };
    Ok((0..ends).map(part))
}

/// Whole messages out of records.
#[derive(Debug, Default)]
pub struct Messages {
    /// By room: the parts so far, and how many.
    begun: [(Vec<u8>, u32); Room::ALL.len()],
}

impl Messages {
    /// Takes the next record; returns the message that it ends. Where a bank ended within a message, the next one of the room takes its place.
    ///
    /// # Errors
    /// [`RoomError`]; the message is left out.
    pub fn take(&mut self, record: &Record) -> Result<Option<(Room, Vec<u8>)>, RoomError> {
        let Record::Kept { room, part, last, bytes } = record else { return Ok(None) };
        let (room, (begun, expected)) = (*room, &mut self.begun[room.index()]);
        if *part == 0 {
            (*begun, *expected) = (Vec::new(), 0);
        }
        let length = begun.len() + bytes.len();
        let wrong = match () {
            () if part != expected => {
                Some(RoomError::Part { room, found: *part, expected: *expected })
            }
            () if bytes.len() > PART_BYTES_MAX => {
                Some(RoomError::PartTooLong { room, bytes: bytes.len() })
            }
            () if length > MESSAGE_BYTES_MAX => Some(RoomError::TooLong { room, bytes: length }),
            () => None,
        };
        if let Some(wrong) = wrong {
            (*begun, *expected) = (Vec::new(), 0);
            return Err(wrong);
        }
        begun.extend_from_slice(bytes);
        *expected += 1;
        if !last {
            return Ok(None);
        }
        *expected = 0;
        Ok(Some((room, std::mem::take(begun))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of records: messages by their lengths, or the error that ends it.
    fn read(records: &[Record]) -> Result<Vec<(Room, usize)>, RoomError> {
        let (mut messages, mut whole) = (Messages::default(), Vec::new());
        for record in records {
            whole.extend(messages.take(record)?.map(|(room, bytes)| (room, bytes.len())));
        }
        Ok(whole)
    }

    #[test]
    fn what_is_cut_is_whole_again() {
        for length in [0, 1, PART_BYTES_MAX, PART_BYTES_MAX + 1, 3 * PART_BYTES_MAX] {
            let message: Vec<u8> = (0..=250).cycle().take(length).collect();
            let mut messages = Messages::default();
            let records: Vec<Record> = cut(Room::Vault, &message).unwrap().collect();
            assert_eq!(records.len(), length.div_ceil(PART_BYTES_MAX).max(1));
            let whole: Vec<_> =
                records.iter().filter_map(|record| messages.take(record).unwrap()).collect();
            assert_eq!(whole, [(Room::Vault, message)]);
        }
        let long = vec![0; MESSAGE_BYTES_MAX + 1];
        let error = RoomError::TooLong { room: Room::Edits, bytes: long.len() };
        assert_eq!(cut(Room::Edits, &long).err(), Some(error));
    }

    #[test]
    fn a_message_says_what_it_does() {
        for change in
            [RoomChange::Whole(b""), RoomChange::Whole(b"ab"), RoomChange::Append(b"\x00")]
        {
            assert_eq!(RoomChange::of(&change.message()), Some(change));
        }
        assert_eq!([RoomChange::of(b""), RoomChange::of(b"\x02ab")], [None, None]);
    }

    #[test]
    fn parts_that_do_not_follow_are_refused_and_an_unfinished_message_is_none() {
        use Room::{Edits, Vault};
        let kept = |room, part, last, length: usize| Record::Kept {
            room,
            part,
            last,
            bytes: vec![7; length].into(),
        };
        let missing = |found, expected| Err(RoomError::Part { room: Edits, found, expected });
        let most = u32::MAX;
        let rows = [
            (
                vec![kept(Edits, 0, true, 3), kept(Edits, 0, true, 4)],
                Ok(vec![(Edits, 3), (Edits, 4)]),
            ),
            // Another room's parts may come between.
            (
                vec![kept(Edits, 0, false, 3), kept(Vault, 0, true, 1), kept(Edits, 1, true, 4)],
                Ok(vec![(Vault, 1), (Edits, 7)]),
            ),
            // The bank ended within the first one.
            (
                vec![kept(Edits, 0, false, 3), kept(Edits, 1, false, 3), kept(Edits, 0, true, 1)],
                Ok(vec![(Edits, 1)]),
            ),
            (vec![kept(Edits, 0, false, 3)], Ok(vec![])),
            (vec![kept(Edits, 1, true, 3)], missing(1, 0)),
            (vec![kept(Edits, 0, true, 3), kept(Edits, 1, true, 3)], missing(1, 0)),
            (vec![kept(Edits, 0, false, 3), kept(Edits, 2, true, 3)], missing(2, 1)),
            (vec![kept(Edits, 0, false, 3), kept(Edits, most, true, 3)], missing(most, 1)),
            (
                vec![kept(Edits, 0, true, PART_BYTES_MAX + 1)],
                Err(RoomError::PartTooLong { room: Edits, bytes: PART_BYTES_MAX + 1 }),
            ),
            (vec![Record::Beat { at_ms: 1 }], Ok(vec![])),
        ];
        for (records, expected) in rows {
            assert_eq!(read(&records), expected);
        }
        let mut messages = Messages::default();
        let parts = u32::try_from(MESSAGE_BYTES_MAX / PART_BYTES_MAX).unwrap();
        let ends = (0..=parts).map(|part| messages.take(&kept(Vault, part, false, PART_BYTES_MAX)));
        let bytes = MESSAGE_BYTES_MAX + PART_BYTES_MAX;
        assert_eq!(ends.last(), Some(Err(RoomError::TooLong { room: Vault, bytes })));
    }
}
