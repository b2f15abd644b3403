//! What generated code stands on. Public only because generated code may be compiled in another crate; callers use the
//! generated types.

mod read;
mod write;

pub use read::{Cursor, late, open, prefix};
pub use write::{Out, data_len, group_len};

/// The numbers of a schema that every message header carries.
#[derive(Clone, Copy, Debug)]
pub struct SchemaInfo {
    /// Schema id.
    pub id: u16,
    /// The version that is written, and the newest that is fully known.
    pub version: u16,
    /// The oldest version that is read.
    pub version_min: u16,
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
