//! What generated code stands on. Public only because generated code may be compiled in another crate; callers use the
//! generated types.

mod read;
mod write;

pub use read::{Cursor, late, open, prefix};
pub use write::{Out, data_len, group_len};

/// The numbers of a schema that every message header carries, and what stands in front of that header.
///
/// Generated code passes a constant, so that after inlining only the branches of its own framing are left.
#[derive(Clone, Copy, Debug)]
pub struct SchemaInfo {
    /// Schema id.
    pub id: u16,
    /// The version that is written, and the newest that is fully known.
    pub version: u16,
    /// The oldest version that is read.
    pub version_min: u16,
    /// Whether a framing header stands in front of each message.
    pub framed: bool,
}

impl SchemaInfo {
    /// Bytes in front of the root block.
    pub const fn headers_len(&self) -> usize {
        if self.framed { crate::FRAME_LEN_MIN } else { crate::MESSAGE_HEADER_LEN }
    }
}

/// The SBE message header, in front of the root block.
#[derive(
    Clone,
    Copy,
    Debug,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::KnownLayout,
    zerocopy::Immutable,
    zerocopy::Unaligned,
)]
#[repr(C)]
pub(crate) struct MessageHeader {
    pub(crate) block_len: zerocopy::little_endian::U16,
    pub(crate) template_id: zerocopy::little_endian::U16,
    pub(crate) schema_id: zerocopy::little_endian::U16,
    pub(crate) version: zerocopy::little_endian::U16,
}

/// The size of a repeating group, in front of its entries.
#[derive(
    Clone,
    Copy,
    Debug,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::KnownLayout,
    zerocopy::Immutable,
    zerocopy::Unaligned,
)]
#[repr(C)]
struct GroupSize {
    block_len: zerocopy::little_endian::U16,
    count: zerocopy::little_endian::U16,
}

/// The length of variable-length data, in front of it.
type DataLen = zerocopy::little_endian::U32;
