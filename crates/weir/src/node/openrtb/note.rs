//! What a bid's notices bring back: enough to book it without having kept anything.
//!
//! ```text
//!  0          8        16        24           32       35     36          40
//!  +----------+--------+---------+------------+--------+------+-----------+
//!  | campaign |  user  |  price  | multiplier |currency| flags| creative  |   little-endian
//!  +----------+--------+---------+------------+--------+------+-----------+
//! ```

use ledger::note::NOTE_LEN;

const CAPPED: u8 = 1;
const TEST: u8 = 2;

/// What is known of a bid when its notice comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    /// Whose bid.
    pub(crate) campaign: u64,
    /// Key of who saw it.
    pub(crate) user: u64,
    /// What was sent, micros for a thousand impressions.
    pub(crate) price_micros: i64,
    /// People who see it, in millionths.
    pub(crate) multiplier_micros: i64,
    /// Of the price.
    pub(crate) currency: [u8; 3],
    /// Somebody counts how often the user sees this.
    pub(crate) capped: bool,
    /// No money: the request said `test`.
    pub(crate) test: bool,
    /// Position of the creative in its campaign.
    pub(crate) creative: u32,
}

impl Note {
    pub(crate) fn to_bytes(self) -> [u8; NOTE_LEN] {
        let mut bytes = [0; NOTE_LEN];
        let flags = (u8::from(self.capped) * CAPPED) | (u8::from(self.test) * TEST);
        bytes[0..8].copy_from_slice(&self.campaign.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.user.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.price_micros.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.multiplier_micros.to_le_bytes());
        bytes[32..35].copy_from_slice(&self.currency);
        bytes[35] = flags;
        bytes[36..40].copy_from_slice(&self.creative.to_le_bytes());
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8; NOTE_LEN]) -> Note {
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            word
        };
        Note {
            campaign: u64::from_le_bytes(word(0)),
            user: u64::from_le_bytes(word(8)),
            price_micros: i64::from_le_bytes(word(16)),
            multiplier_micros: i64::from_le_bytes(word(24)),
            currency: [bytes[32], bytes[33], bytes[34]],
            capped: bytes[35] & CAPPED != 0,
            test: bytes[35] & TEST != 0,
            creative: u32::from_le_bytes([bytes[36], bytes[37], bytes[38], bytes[39]]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn comes_back_as_it_went(
            campaign: u64, user: u64, price_micros: i64, multiplier_micros: i64, currency: [u8; 3],
            capped: bool, test: bool, creative: u32,
        ) {
            let note = Note {
                campaign, user, price_micros, multiplier_micros, currency, capped, test, creative,
            };
            prop_assert_eq!(Note::from_bytes(&note.to_bytes()), note);
        }
    }
}
