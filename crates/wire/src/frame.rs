//! Framing: where a message begins and ends in a stream of bytes.
//!
//! The framing header is the FIX Simple Open Framing Header 1.0: message length (u32, big-endian, the whole frame with
//! this header) and encoding type (u16, big-endian). These two numbers are the only big-endian ones of the protocol.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, big_endian};

use crate::FrameError;
use crate::rt::MessageHeader;

/// Bytes of the framing header.
pub const FRAME_HEADER_LEN: usize = size_of::<FrameHeader>();
/// Bytes of the SBE message header.
pub const MESSAGE_HEADER_LEN: usize = size_of::<MessageHeader>();
/// Bytes of the shortest frame: framing header and SBE message header. (A real message has at least a root block.)
pub const FRAME_LEN_MIN: usize = FRAME_HEADER_LEN + MESSAGE_HEADER_LEN;
/// The encoding type in the framing header: SBE 1.0, little-endian.
pub const ENCODING_TYPE: u16 = 0xEB50;

const FRAME_LEN_MIN_U32: u32 = 14;
const _: () = assert!(FRAME_LEN_MIN == FRAME_LEN_MIN_U32 as usize);

/// The framing header.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct FrameHeader {
    pub(crate) frame_len: big_endian::U32,
    pub(crate) encoding_type: big_endian::U16,
}

/// The framing header and the SBE message header behind it.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Headers {
    frame: FrameHeader,
    message: MessageHeader,
}

/// What stands at the beginning of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split<'a> {
    /// More bytes are needed: `need` in all from the beginning of this frame. Until the framing header is in, that is
    /// the framing header; then the whole frame.
    Incomplete {
        /// Bytes wanted in all, never more than the limit given to [`split`] (or the framing header).
        need: usize,
    },
    /// One whole frame, with its framing header; the next one begins right behind it.
    Frame(&'a [u8]),
}

/// Finds the frame at the beginning of `buf`. Call it again with the bytes behind the frame for the next one.
///
/// `frame_len_max` is the longest frame accepted, in bytes with the framing header.
///
/// # Errors
/// [`FrameError::UnknownEncoding`], [`FrameError::FrameTooShort`] or [`FrameError::FrameTooLarge`], as soon as the six
/// bytes of the framing header are in. After that the end of the frame is unknown: refuse and close.
#[inline]
pub fn split(buf: &[u8], frame_len_max: u32) -> Result<Split<'_>, FrameError> {
    let Some((header, _)) = buf.split_first_chunk::<FRAME_HEADER_LEN>() else {
        return Ok(Split::Incomplete { need: FRAME_HEADER_LEN });
    };
    let [l0, l1, l2, l3, e0, e1] = *header;
    let encoding_type = u16::from_be_bytes([e0, e1]);
    if encoding_type != ENCODING_TYPE {
        return Err(FrameError::UnknownEncoding { found: encoding_type });
    }
    let said = u32::from_be_bytes([l0, l1, l2, l3]);
    if said < FRAME_LEN_MIN_U32 {
        return Err(FrameError::FrameTooShort { found: said, min: FRAME_LEN_MIN_U32 });
    }
    if said > frame_len_max {
        return Err(FrameError::FrameTooLarge { found: said, max: frame_len_max });
    }
    let len = usize::try_from(said).unwrap_or(usize::MAX);
    Ok(buf.get(..len).map_or(Split::Incomplete { need: len }, Split::Frame))
}

/// The frame number of a frame, even if the frame is broken further on, so that a refusal can echo it; 0 where there is
/// none or it cannot be read.
pub fn frame_number_hint(frame: &[u8]) -> u64 {
    let Ok((headers, block)) = Headers::ref_from_prefix(frame) else { return 0 };
    let message = headers.message;
    let is_ours = headers.frame.encoding_type.get() == ENCODING_TYPE
        && message.schema_id.get() == crate::SCHEMA_ID
        && crate::is_numbered(message.template_id.get());
    match block.first_chunk() {
        Some(number) if is_ours && message.block_len.get() >= 8 => u64::from_le_bytes(*number),
        _ => 0,
    }
}

/// The template id of a frame without checking anything else; `None` if the frame is too short to have one.
#[inline]
pub fn template_id(frame: &[u8]) -> Option<u16> {
    let (headers, _) = Headers::ref_from_prefix(frame).ok()?;
    Some(headers.message.template_id.get())
}
