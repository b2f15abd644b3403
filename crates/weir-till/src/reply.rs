//! Who hears an answer.

/// Who hears an answer of the bank: a door, and a place that means something to it. Travels as one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The door, by its place in the set.
    pub door: u8,
    /// A place among what the door has waiting, below 2^28.
    pub index: u32,
    /// An entry of it.
    pub entry: u32,
}

impl Reply {
    const DOOR_BITS: u32 = 4;
    const INDEX_BITS: u32 = 64 - Reply::DOOR_BITS - u32::BITS;

    /// The reply as a number.
    #[inline(always)]
    pub fn to_bits(self) -> u64 {
        debug_assert!(self.door >> Reply::DOOR_BITS == 0 && self.index >> Reply::INDEX_BITS == 0);
        u64::from(self.door) << (64 - Reply::DOOR_BITS)
            | u64::from(self.index) << u32::BITS
            | u64::from(self.entry)
    }

    /// The reply that [`Reply::to_bits`] gave.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the parts of the number")]
    pub fn from_bits(bits: u64) -> Reply {
        let index = (bits >> u32::BITS) as u32 & ((1 << Reply::INDEX_BITS) - 1);
        Reply { door: (bits >> (64 - Reply::DOOR_BITS)) as u8, index, entry: bits as u32 }
    }

    /// A reply to a door that counts instead of keeping places; numbers are below 2^60.
    pub fn numbered(door: u8, number: u64) -> Reply {
        let of_door = u64::from(door) << (64 - Reply::DOOR_BITS);
        Reply::from_bits(of_door | number & (u64::MAX >> Reply::DOOR_BITS))
    }

    /// The number that [`Reply::numbered`] was given.
    pub fn number(self) -> u64 {
        self.to_bits() & (u64::MAX >> Reply::DOOR_BITS)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_reply_survives_its_trip(door in 0..16_u8, index in 0..1_u32 << 28, entry: u32, number in 0..1_u64 << 60) {
            let reply = Reply { door, index, entry };
            prop_assert_eq!(Reply::from_bits(reply.to_bits()), reply);
            let counted = Reply::numbered(door, number);
            prop_assert_eq!((counted.door, Reply::from_bits(counted.to_bits()).number()), (door, number));
        }
    }
}
