//! One message in a segment.

/// Length of what stands before a message.
pub(crate) const RECORD_BYTES: usize = 32;

/// Which way a message went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Sent,
    Received,
}

/// What stands before a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) kind: Kind,
    /// MsgSeqNum of a sent message, 0 of a received one.
    pub(crate) seq: u64,
    /// Microseconds since 1970-01-01T00:00:00Z.
    pub(crate) at_us: i64,
    /// Length of the message.
    pub(crate) bytes: u32,
    message_sum: u32,
}

impl Record {
    /// Appends a record and its message.
    pub(crate) fn append(out: &mut Vec<u8>, kind: Kind, seq: u64, at_us: i64, message: &[u8]) {
        let mut head = [0; RECORD_BYTES];
        head[4..8].copy_from_slice(&crc32c::crc32c(message).to_le_bytes());
        // A message is no longer than a frame: below 2^31 bytes.
        let bytes = u32::try_from(message.len()).unwrap_or(u32::MAX);
        head[8..12].copy_from_slice(&bytes.to_le_bytes());
        head[12] = match kind {
            Kind::Sent => 1,
            Kind::Received => 2,
        };
        head[16..24].copy_from_slice(&seq.to_le_bytes());
        head[24..32].copy_from_slice(&at_us.to_le_bytes());
        let sum = crc32c::crc32c(&head[4..]);
        head[..4].copy_from_slice(&sum.to_le_bytes());
        out.extend_from_slice(&head);
        out.extend_from_slice(message);
    }

    /// Reads what stands before a message; `None` if it is damaged or none.
    pub(crate) fn read(head: &[u8; RECORD_BYTES]) -> Option<Record> {
        if u32_at(head, 0) != crc32c::crc32c(&head[4..]) {
            return None;
        }
        let kind = match head[12] {
            1 => Kind::Sent,
            2 => Kind::Received,
            _ => return None,
        };
        Some(Record {
            kind,
            seq: u64_at(head, 16),
            at_us: u64_at(head, 24).cast_signed(),
            bytes: u32_at(head, 8),
            message_sum: u32_at(head, 4),
        })
    }

    /// Length of the record and its message.
    pub(crate) fn len(&self) -> u64 {
        RECORD_BYTES as u64 + u64::from(self.bytes)
    }

    /// Reports whether these bytes are the message that was written.
    pub(crate) fn is_of(&self, message: &[u8]) -> bool {
        crc32c::crc32c(message) == self.message_sum
    }
}

/// Reads four bytes at a place; 0 where there are none.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |found| u32::from_le_bytes(*found))
}

/// Reads eight bytes at a place; 0 where there are none.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |found| u64::from_le_bytes(*found))
}
