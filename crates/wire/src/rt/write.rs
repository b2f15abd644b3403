//! Writing a message into a caller's buffer, behind a framing header or bare.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, big_endian};

use super::{DataLen, GroupSize, MessageHeader, SchemaInfo};
use crate::frame::{ENCODING_TYPE, FrameHeader};
use crate::{EncodeError, Entry};

/// Most entries of a group: the largest u16 means null in SBE.
const GROUP_COUNT_MAX: usize = 65_534;

/// Bytes that a group takes with its size.
pub const fn group_len(count: usize, entry_len: usize) -> usize {
    count.saturating_mul(entry_len).saturating_add(size_of::<GroupSize>())
}

/// Bytes that data takes with its length.
pub const fn data_len(len: usize) -> usize {
    len.saturating_add(size_of::<DataLen>())
}

/// A message being written: the part behind is complete, but for the length in the framing header where there is one.
#[derive(Debug)]
pub struct Out<'a> {
    /// `None` where the schema has no framing header.
    frame_len: Option<&'a mut big_endian::U32>,
    rest: &'a mut [u8],
    /// Bytes written, with all headers.
    written: usize,
}

impl<'a> Out<'a> {
    /// Writes the headers and the root block.
    ///
    /// # Errors
    /// The buffer is too small.
    #[inline]
    pub fn begin<B: Entry + IntoBytes>(
        buf: &'a mut [u8],
        template_id: u16,
        schema: &SchemaInfo,
        block: &B,
    ) -> Result<Self, EncodeError> {
        let (need, left) = (schema.headers_len() + size_of::<B>(), buf.len());
        let full = EncodeError::Full { need, left };
        let Some((start, rest)) = buf.split_at_mut_checked(need) else { return Err(full) };
        let (frame_len, message) = match schema.framed {
            true => begin_frame(start).ok_or(full)?,
            false => (None, start),
        };
        let Ok((header, room)) = MessageHeader::mut_from_prefix(message) else { return Err(full) };
        if block.write_to(room).is_err() {
            return Err(full);
        }
        header.block_len.set(len_u16(size_of::<B>()));
        header.template_id.set(template_id);
        header.schema_id.set(schema.id);
        header.version.set(schema.version);
        Ok(Self { frame_len, rest, written: need })
    }

    /// Writes the size of a group and gives out the room of its entries.
    ///
    /// # Errors
    /// The buffer is too small, or there are more entries than a group can have.
    #[inline]
    pub fn group_mut<E>(
        &mut self,
        name: &'static str,
        count: usize,
    ) -> Result<&'a mut [E], EncodeError>
    where
        E: FromBytes + IntoBytes + KnownLayout + 'a,
    {
        if count > GROUP_COUNT_MAX {
            return Err(EncodeError::TooMany { group: name, count, max: GROUP_COUNT_MAX });
        }
        let room = self.take(group_len(count, size_of::<E>()))?;
        let full = EncodeError::Full { need: room.len(), left: room.len() };
        let Ok((size, entries)) = GroupSize::mut_from_prefix(room) else { return Err(full) };
        size.block_len.set(len_u16(size_of::<E>()));
        size.count.set(len_u16(count));
        // The room has exactly the length of the entries, and they need no alignment: this does not fail.
        <[E]>::mut_from_bytes(entries).map_err(|_| full)
    }

    /// Writes a group from a slice.
    ///
    /// # Errors
    /// As for [`Out::group_mut`].
    #[inline]
    pub fn group<E>(&mut self, name: &'static str, entries: &[E]) -> Result<(), EncodeError>
    where
        E: FromBytes + IntoBytes + KnownLayout + Immutable + Copy + 'a,
    {
        self.group_mut::<E>(name, entries.len())?.copy_from_slice(entries);
        Ok(())
    }

    /// Writes a data element.
    ///
    /// # Errors
    /// The buffer is too small, or the data longer than `len_max`.
    #[inline]
    pub fn data(
        &mut self,
        name: &'static str,
        bytes: &[u8],
        len_max: u32,
    ) -> Result<(), EncodeError> {
        let too_long = EncodeError::TooLong { data: name, len: bytes.len(), max: len_max };
        let len = u32::try_from(bytes.len()).ok().filter(|len| *len <= len_max).ok_or(too_long)?;
        let room = self.take(data_len(bytes.len()))?;
        let (len_room, bytes_room) = room.split_at_mut(size_of::<DataLen>());
        len_room.copy_from_slice(&len.to_le_bytes());
        bytes_room.copy_from_slice(bytes);
        Ok(())
    }

    /// Writes the length into the framing header, where there is one; returns it.
    #[inline]
    pub fn finish(self) -> usize {
        if let Some(frame_len) = self.frame_len {
            // `take` keeps the length within u32.
            frame_len.set(u32::try_from(self.written).unwrap_or(u32::MAX));
        }
        self.written
    }

    /// The next `len` bytes of the buffer.
    #[inline]
    fn take(&mut self, len: usize) -> Result<&'a mut [u8], EncodeError> {
        let left = self.rest.len();
        let end = self.written.saturating_add(len);
        if len > left || u32::try_from(end).is_err() {
            return Err(EncodeError::Full { need: len, left });
        }
        let (room, rest) = std::mem::take(&mut self.rest).split_at_mut(len);
        self.rest = rest;
        self.written = end;
        Ok(room)
    }
}

/// Writes the framing header but for its length; gives out the room of the length and that of the message.
#[inline]
fn begin_frame(start: &mut [u8]) -> Option<(Option<&mut big_endian::U32>, &mut [u8])> {
    let (header, message) = FrameHeader::mut_from_prefix(start).ok()?;
    header.encoding_type.set(ENCODING_TYPE);
    Some((Some(&mut header.frame_len), message))
}

/// Lengths of blocks are checked to fit by the generator, counts by the caller.
#[inline]
fn len_u16(len: usize) -> u16 {
    debug_assert!(u16::try_from(len).is_ok());
    u16::try_from(len).unwrap_or(u16::MAX)
}
