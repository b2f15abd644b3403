//! What can be wrong with a frame or a bare message, and what can go wrong while writing one.

use crate::Reason;

/// Why a frame, or a message of the [journal](crate::journal), cannot be read. Always the writer's fault; the numbers
/// are what was found in the bytes.
///
/// [`FrameError::reason`] is what a refusal says on the wire; the text of the error is its detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The framing header names another encoding; most likely these bytes are no frame at all.
    #[error("encoding type {found:#06x}, expected 0xeb50 (SBE 1.0, little-endian)")]
    UnknownEncoding {
        /// The encoding type found.
        found: u16,
    },
    /// The framing header gives a length that cannot hold the two headers.
    #[error("frame length {found}, expected at least {min}")]
    FrameTooShort {
        /// The length found, in bytes.
        found: u32,
        /// The shortest frame there is, in bytes.
        min: u32,
    },
    /// The framing header gives a length beyond the limit.
    #[error("frame length {found}, accepted up to {max}")]
    FrameTooLarge {
        /// The length found, in bytes.
        found: u32,
        /// The limit, in bytes.
        max: u32,
    },
    /// The bytes given to decode are not exactly the frame that the framing header describes.
    #[error("frame length {said} in the framing header, but {given} bytes are given")]
    LengthMismatch {
        /// The length in the framing header, in bytes; 0 if not even that is there.
        said: u32,
        /// The bytes given.
        given: usize,
    },
    /// A message without framing ends before the end of its header.
    #[error("the message header takes {need} bytes, but {left} are given")]
    HeaderOutside {
        /// The bytes that the message header takes.
        need: usize,
        /// The bytes given.
        left: usize,
    },
    /// The message belongs to another schema.
    #[error("schema id {found}, expected {expected}")]
    UnknownSchema {
        /// The schema id found.
        found: u16,
        /// The schema id of this protocol.
        expected: u16,
    },
    /// The message was written with a version of the schema that is no longer read.
    #[error("schema version {found}, expected {min} or newer")]
    VersionUnsupported {
        /// The version found.
        found: u16,
        /// The oldest version that is read.
        min: u16,
    },
    /// The schema has no message with this id, or another message was expected.
    #[error("unknown or unexpected message with template id {found}")]
    UnknownTemplate {
        /// The template id found.
        found: u16,
    },
    /// The root block is shorter than its first version.
    #[error("root block of {found} bytes, expected at least {min}")]
    BlockTooShort {
        /// The block length found, in bytes.
        found: u16,
        /// The length of the block's first version, in bytes.
        min: usize,
    },
    /// The root block does not fit the message.
    #[error("root block of {block_len} bytes, but {left} are left")]
    BlockOutside {
        /// The block length found, in bytes.
        block_len: u16,
        /// The bytes left.
        left: usize,
    },
    /// The message ends before the size of a group.
    #[error("group {group}: its size takes {need} bytes, but {left} are left")]
    GroupSizeOutside {
        /// Name of the group in the schema.
        group: &'static str,
        /// The bytes that a group size takes.
        need: usize,
        /// The bytes left.
        left: usize,
    },
    /// The entries of a group are shorter than their first version.
    #[error("group {group}: entries of {found} bytes, expected at least {min}")]
    GroupBlockTooShort {
        /// Name of the group in the schema.
        group: &'static str,
        /// The block length found, in bytes.
        found: u16,
        /// The length of an entry's first version, in bytes.
        min: usize,
    },
    /// The entries of a group do not fit the message.
    #[error("group {group}: {count} entries of {block_len} bytes, but {left} are left")]
    GroupOutside {
        /// Name of the group in the schema.
        group: &'static str,
        /// The number of entries found.
        count: u16,
        /// The block length found, in bytes.
        block_len: u16,
        /// The bytes left.
        left: usize,
    },
    /// The message ends before the length of a data element.
    #[error("data {data}: its length takes {need} bytes, but {left} are left")]
    DataLengthOutside {
        /// Name of the data element in the schema.
        data: &'static str,
        /// The bytes that a data length takes.
        need: usize,
        /// The bytes left.
        left: usize,
    },
    /// A data element is longer than the schema allows.
    #[error("data {data}: {len} bytes, allowed up to {max}")]
    DataTooLong {
        /// Name of the data element in the schema.
        data: &'static str,
        /// The length found, in bytes.
        len: u32,
        /// The limit of the schema, in bytes.
        max: u32,
    },
    /// A data element does not fit the message.
    #[error("data {data}: {len} bytes, but {left} are left")]
    DataOutside {
        /// Name of the data element in the schema.
        data: &'static str,
        /// The length found, in bytes.
        len: u32,
        /// The bytes left.
        left: usize,
    },
    /// Bytes stand after the message, which only a newer version may do.
    #[error("{left} bytes after the end of the message")]
    TrailingBytes {
        /// The bytes left.
        left: usize,
    },
}

impl FrameError {
    /// What a refusal of this frame says on the wire.
    pub fn reason(&self) -> Reason {
        match self {
            Self::UnknownEncoding { .. } => Reason::UnknownEncoding,
            Self::FrameTooLarge { .. } => Reason::FrameTooLarge,
            Self::UnknownSchema { .. } => Reason::UnknownSchema,
            Self::VersionUnsupported { .. } => Reason::VersionUnsupported,
            Self::UnknownTemplate { .. } => Reason::UnknownTemplate,
            Self::FrameTooShort { .. }
            | Self::LengthMismatch { .. }
            | Self::HeaderOutside { .. }
            | Self::BlockTooShort { .. }
            | Self::BlockOutside { .. }
            | Self::GroupSizeOutside { .. }
            | Self::GroupBlockTooShort { .. }
            | Self::GroupOutside { .. }
            | Self::DataLengthOutside { .. }
            | Self::DataTooLong { .. }
            | Self::DataOutside { .. }
            | Self::TrailingBytes { .. } => Reason::Malformed,
        }
    }

    /// Whether the end of the frame is unknown after this error, so that the stream cannot go on.
    pub fn is_fatal(&self) -> bool {
        matches!(
            self,
            Self::UnknownEncoding { .. } | Self::FrameTooShort { .. } | Self::FrameTooLarge { .. }
        )
    }
}

/// Why a message cannot be written. The caller's fault; what is in the buffer then is no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The buffer is too small; `encoded_len` says how much a message takes.
    #[error("the buffer is full: the next part takes {need} bytes and {left} are left")]
    Full {
        /// Bytes that the next part of the message takes.
        need: usize,
        /// Bytes left in the buffer.
        left: usize,
    },
    /// More entries than a group can have.
    #[error("group {group}: {count} entries, a group has at most {max}")]
    TooMany {
        /// Name of the group in the schema.
        group: &'static str,
        /// Entries wanted.
        count: usize,
        /// Entries possible.
        max: usize,
    },
    /// More data than the schema allows.
    #[error("data {data}: {len} bytes, allowed up to {max}")]
    TooLong {
        /// Name of the data element in the schema.
        data: &'static str,
        /// Bytes wanted.
        len: usize,
        /// Bytes allowed.
        max: u32,
    },
}
