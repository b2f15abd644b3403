//! One message of a batch, and what became of it.

use std::fmt;

use thiserror::Error;

/// One message of a batch: what goes in, what it is bound to, where the answer goes.
///
/// A batch is a slice of items. Each is judged by itself: one that fails says so in its `outcome`, and the others go on. Nothing is
/// allocated for an item; the buffers are the caller's.
pub struct Item<'a> {
    /// The plaintext when the item is sealed, the sealed message when it is opened.
    pub input: &'a [u8],
    /// Associated data: authenticated and not stored. Opening needs the same bytes again; empty is legal and differs from every other.
    pub aad: &'a [u8],
    /// Where the result goes. Sealing needs the length that [`KeyType::sealed_len`](crate::KeyType::sealed_len) says, opening what
    /// [`KeyType::opened_max`](crate::KeyType::opened_max) says; longer is legal. An item that fails leaves nothing here that depends
    /// on a plaintext.
    pub output: &'a mut [u8],
    /// Bytes of `output` that were written, or why there are none. [`ItemError::Pending`] before the item was worked on.
    pub outcome: Result<usize, ItemError>,
}

impl<'a> Item<'a> {
    /// Returns an item that waits for its batch.
    #[inline]
    pub fn new(input: &'a [u8], aad: &'a [u8], output: &'a mut [u8]) -> Item<'a> {
        Item { input, aad, output, outcome: Err(ItemError::Pending) }
    }

    /// Returns what was written, once the item has succeeded.
    ///
    /// # Errors
    /// The item's own failure.
    pub fn written(&self) -> Result<&[u8], ItemError> {
        self.output.get(..self.outcome?).ok_or(ItemError::Pending)
    }
}

/// Shows lengths and the outcome: an item may hold a plaintext.
impl fmt::Debug for Item<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (input, aad, output) = (self.input.len(), self.aad.len(), self.output.len());
        let outcome = self.outcome;
        write!(f, "Item {{ input: {input} B, aad: {aad} B, output: {output} B, {outcome:?} }}")
    }
}

/// Why an item has no result. The texts that OpenBao's clients know are kept to the letter.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ItemError {
    /// No batch has worked on the item yet.
    #[error("the item was not worked on")]
    Pending,
    /// The message does not open: wrong key, wrong associated data, changed, cut, or never sealed here. One text for all of them,
    /// because a difference would tell an attacker which guess came closer.
    #[error("cipher: message authentication failed")]
    Refused,
    /// The caller's buffer is shorter than the result may be.
    #[error("the output buffer is shorter than the result")]
    OutputShort,
    /// The message or its associated data is longer than [`INPUT_BYTES_MAX`].
    #[error("the message or its associated data is longer than 1 GiB")]
    TooLong,
    /// The operating system gave no randomness; nothing was sealed.
    #[error("the operating system gave no randomness")]
    NoRandomness,
    /// The key has sealed as many messages as its type allows; a new version is needed.
    #[error("the key version has sealed as many messages as its type allows: rotate the key")]
    Exhausted,
    /// Associated data with convergent encryption of a type whose nonce does not depend on it: two messages would share a nonce.
    #[error("associated data is not possible with convergent encryption of this key type")]
    ConvergentAad,
}

/// Refuses what is longer than any type takes.
pub(crate) fn check_lengths(item: &Item<'_>) -> Result<(), ItemError> {
    let longest = item.input.len().max(item.aad.len());
    if longest > INPUT_BYTES_MAX { Err(ItemError::TooLong) } else { Ok(()) }
}

/// Longest plaintext, sealed message and associated data, in bytes (1 GiB): far above every body that a door takes, far below what
/// any of the types could bear.
pub const INPUT_BYTES_MAX: usize = 1 << 30;
