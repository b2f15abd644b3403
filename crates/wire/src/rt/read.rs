//! The checked walk over a message, behind a framing header or bare.

use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::{DataLen, GroupSize, MessageHeader, SchemaInfo};
use crate::frame::{ENCODING_TYPE, FRAME_LEN_MIN, FrameHeader, MESSAGE_HEADER_LEN};
use crate::{Entry, FrameError, Group};

/// A place in a message: everything before it is checked.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    rest: &'a [u8],
    block_len: u16,
    template_id: u16,
    /// The writer's schema version.
    version: u16,
    /// Our schema version.
    version_known: u16,
}

/// Checks what stands in front of the root block: both headers of a frame, or the message header of a bare message.
///
/// # Errors
/// The frame is not exactly as long as it says, the message has no whole header, or it is of another encoding, schema
/// or a too old version.
#[inline]
pub fn open<'a>(bytes: &'a [u8], schema: &SchemaInfo) -> Result<Cursor<'a>, FrameError> {
    let message = if schema.framed { unframed(bytes)? } else { bytes };
    let Ok((header, rest)) = MessageHeader::ref_from_prefix(message) else {
        return Err(FrameError::HeaderOutside { need: MESSAGE_HEADER_LEN, left: message.len() });
    };
    let (schema_id, version) = (header.schema_id.get(), header.version.get());
    if schema_id != schema.id {
        return Err(FrameError::UnknownSchema { found: schema_id, expected: schema.id });
    }
    if version < schema.version_min {
        return Err(FrameError::VersionUnsupported { found: version, min: schema.version_min });
    }
    Ok(Cursor {
        rest,
        block_len: header.block_len.get(),
        template_id: header.template_id.get(),
        version,
        version_known: schema.version,
    })
}

/// The message in a frame.
#[inline]
fn unframed(frame: &[u8]) -> Result<&[u8], FrameError> {
    if frame.len() < FRAME_LEN_MIN {
        return Err(too_short(frame));
    }
    let Ok((header, message)) = FrameHeader::ref_from_prefix(frame) else {
        return Err(too_short(frame));
    };
    let encoding_type = header.encoding_type.get();
    if encoding_type != ENCODING_TYPE {
        return Err(FrameError::UnknownEncoding { found: encoding_type });
    }
    let said = header.frame_len.get();
    if usize::try_from(said) != Ok(frame.len()) {
        return Err(FrameError::LengthMismatch { said, given: frame.len() });
    }
    Ok(message)
}

#[cold]
fn too_short(frame: &[u8]) -> FrameError {
    let said = frame.first_chunk().map_or(0, |len| u32::from_be_bytes(*len));
    debug_assert!(frame.len() < FRAME_LEN_MIN);
    FrameError::LengthMismatch { said, given: frame.len() }
}

impl<'a> Cursor<'a> {
    /// The template id in the message header.
    #[inline]
    pub fn template_id(&self) -> u16 {
        self.template_id
    }

    /// The writer's schema version.
    #[inline]
    pub fn version(&self) -> u16 {
        self.version
    }

    /// Checks that the frame holds this message.
    ///
    /// # Errors
    /// It holds another.
    #[inline]
    pub fn expect(&self, template_id: u16) -> Result<(), FrameError> {
        if self.template_id == template_id {
            return Ok(());
        }
        Err(FrameError::UnknownTemplate { found: self.template_id })
    }

    /// The root block; what a newer writer added to it is skipped.
    ///
    /// # Errors
    /// It is shorter than its first version, or does not fit the frame.
    #[inline]
    pub fn block<B: Entry>(&mut self) -> Result<B::View<'a>, FrameError> {
        let Some((block, rest)) = self.rest.split_at_checked(usize::from(self.block_len)) else {
            let left = self.rest.len();
            return Err(FrameError::BlockOutside { block_len: self.block_len, left });
        };
        self.rest = rest;
        B::view(block, self.version)
            .ok_or(FrameError::BlockTooShort { found: self.block_len, min: B::LEN_MIN })
    }

    /// A repeating group with all its entries.
    ///
    /// # Errors
    /// Its entries are shorter than their first version, or do not fit the frame.
    #[inline]
    pub fn group<E: Entry>(&mut self, name: &'static str) -> Result<Group<'a, E>, FrameError> {
        let Ok((size, rest)) = GroupSize::ref_from_prefix(self.rest) else {
            let (need, left) = (size_of::<GroupSize>(), self.rest.len());
            return Err(FrameError::GroupSizeOutside { group: name, need, left });
        };
        let (block_len, count) = (size.block_len.get(), size.count.get());
        if usize::from(block_len) < E::LEN_MIN {
            let min = E::LEN_MIN;
            return Err(FrameError::GroupBlockTooShort { group: name, found: block_len, min });
        }
        // Two 16-bit numbers: their product fits 32 bits.
        let len = usize::from(block_len) * usize::from(count);
        let Some((entries, rest)) = rest.split_at_checked(len) else {
            let left = rest.len();
            return Err(FrameError::GroupOutside { group: name, count, block_len, left });
        };
        self.rest = rest;
        Ok(Group::new(entries, count, block_len, self.version))
    }

    /// A variable-length data element.
    ///
    /// # Errors
    /// It is longer than `len_max`, or does not fit the frame.
    #[inline]
    pub fn data(&mut self, name: &'static str, len_max: u32) -> Result<&'a [u8], FrameError> {
        let Ok((len, rest)) = DataLen::ref_from_prefix(self.rest) else {
            let (need, left) = (size_of::<DataLen>(), self.rest.len());
            return Err(FrameError::DataLengthOutside { data: name, need, left });
        };
        let len = len.get();
        if len > len_max {
            return Err(FrameError::DataTooLong { data: name, len, max: len_max });
        }
        let len_usize = usize::try_from(len).unwrap_or(usize::MAX);
        let Some((bytes, rest)) = rest.split_at_checked(len_usize) else {
            return Err(FrameError::DataOutside { data: name, len, left: rest.len() });
        };
        self.rest = rest;
        Ok(bytes)
    }

    /// The end of what this schema knows of the message.
    ///
    /// # Errors
    /// Bytes are left although the writer's version is not newer than ours.
    #[inline]
    pub fn finish(self) -> Result<(), FrameError> {
        if self.rest.is_empty() || self.version > self.version_known {
            return Ok(());
        }
        Err(FrameError::TrailingBytes { left: self.rest.len() })
    }
}

/// A struct at the beginning of some bytes.
#[inline]
pub fn prefix<T: FromBytes + KnownLayout + Immutable + Unaligned>(bytes: &[u8]) -> Option<&T> {
    T::ref_from_prefix(bytes).ok().map(|(value, _)| value)
}

/// A field that was added to a block: `None` where the writer is older than the field or its block ends before it.
#[inline]
pub fn late<T: FromBytes + KnownLayout + Immutable + Unaligned>(
    block: &[u8],
    offset: usize,
    version: u16,
    since: u16,
) -> Option<&T> {
    if version < since {
        return None;
    }
    prefix(block.get(offset..)?)
}
