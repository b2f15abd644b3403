//! Memory that a disk takes and gives without a copy.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::files::BLOCK_BYTES;

/// Bytes at an address that can go around the page cache.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(4096))]
pub(crate) struct Block(pub(crate) [u8; BLOCK_BYTES]);

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Block")
    }
}

/// Room for a whole group or for reading many blocks.
pub(crate) fn blocks(bytes: usize) -> Vec<Block> {
    vec![Block([0; BLOCK_BYTES]); bytes.div_ceil(BLOCK_BYTES)]
}
