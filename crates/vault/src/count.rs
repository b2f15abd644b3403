//! How many messages a key version has sealed.

use crate::{ItemError, KeyType};

/// Counts the messages that a key version seals, and refuses those beyond what its type allows.
///
/// The count is the caller's to keep: reserve ahead ([`MessageCount::reserve`]), make what [`MessageCount::reserved`] says durable, and only then seal. After
/// a crash go on from the durable number ([`MessageCount::resume`]): it may be too high, never too low.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageCount {
    reserved: u64,
    max: u64,
}

impl MessageCount {
    /// Returns the count of a version that has sealed nothing.
    pub const fn new(kind: KeyType) -> MessageCount {
        MessageCount::resume(kind, 0)
    }

    /// Returns the count of a version for which `reserved` messages are durably reserved.
    pub const fn resume(kind: KeyType, reserved: u64) -> MessageCount {
        MessageCount { reserved, max: kind.messages_max() }
    }

    /// Reserves `messages`, all or none.
    ///
    /// # Errors
    /// [`ItemError::Exhausted`] if fewer are left; nothing is reserved.
    pub fn reserve(&mut self, messages: u64) -> Result<(), ItemError> {
        let reserved = self.reserved.checked_add(messages).ok_or(ItemError::Exhausted)?;
        if reserved > self.max {
            return Err(ItemError::Exhausted);
        }
        self.reserved = reserved;
        Ok(())
    }

    /// Returns how many messages are reserved.
    pub const fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Returns how many messages are left.
    pub const fn left(&self) -> u64 {
        self.max.saturating_sub(self.reserved)
    }

    /// Tells whether it is time for a new version: half of the messages are used.
    pub const fn is_rotation_due(&self) -> bool {
        self.reserved >= self.max / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_message_is_the_2_to_the_32nd_and_no_more() {
        for kind in KeyType::ALL {
            let max = kind.messages_max();
            let mut count = MessageCount::resume(kind, max - 3);
            assert_eq!(count.reserve(4), Err(ItemError::Exhausted));
            assert_eq!(count.reserve(u64::MAX), Err(ItemError::Exhausted));
            assert_eq!(count.left(), 3, "what was refused took nothing");
            count.reserve(3).unwrap();
            assert_eq!((count.left(), count.reserved()), (0, max));
            assert_eq!(count.reserve(1), Err(ItemError::Exhausted));
            count.reserve(0).unwrap();
        }
        assert_eq!(KeyType::Aes256Gcm96.messages_max(), 4_294_967_296);
        // A number from a damaged record is too high, and refuses.
        let mut count = MessageCount::resume(KeyType::Aes256Gcm96, u64::MAX);
        assert_eq!((count.left(), count.reserve(1)), (0, Err(ItemError::Exhausted)));
    }

    #[test]
    fn rotation_is_due_at_half() {
        let mut count = MessageCount::new(KeyType::Aes256GcmSiv);
        count.reserve((1 << 31) - 1).unwrap();
        assert!(!count.is_rotation_due());
        count.reserve(1).unwrap();
        assert!(count.is_rotation_due());
    }
}
