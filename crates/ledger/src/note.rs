//! Notes: what a door wants to find again when a hold comes back, sealed together with it.
//!
//! A win notice passes through strangers. It carries the hold and everything that the door must know to judge it, so
//! that nothing is kept a bid. One MAC covers both: neither can be changed, nor moved to the other's company.
//!
//! ```text
//!  0                  24                                      64        72
//!  +------------------+---------------------------------------+---------+
//!  | content of token |              note (40 B)              |   MAC   |
//!  +------------------+---------------------------------------+---------+
//! ```
//!
//! The MAC is AES-128 in CBC-MAC mode over five blocks, the first of them all ones, cut to 64 bits. No token's content
//! begins with that block, so no message of one kind is the beginning of one of the other: CBC-MAC is a pseudo-random
//! function for such a prefix-free set of messages (Petrank, Rackoff, "CBC MAC for real-time data sources", 2000).

use aes::cipher::BlockCipherEncrypt;

use crate::token::{Block, CONTENT_LEN, TOKEN_LEN, Token, le_u64};
use crate::{Hold, KeyRing, TokenError};

/// Bytes of a note.
pub const NOTE_LEN: usize = 40;
/// Bytes of a hold and its note, sealed.
pub const NOTED_LEN: usize = CONTENT_LEN + NOTE_LEN + 8;

const MESSAGE_LEN: usize = CONTENT_LEN + NOTE_LEN;
const DOMAIN: [u8; 16] = [0xff; 16];

const _: () = assert!(MESSAGE_LEN.is_multiple_of(16), "whole blocks, so nothing is padded");

impl KeyRing {
    /// Seals a hold together with a note.
    #[must_use]
    pub fn seal_note(&self, hold: &Hold, note: &[u8; NOTE_LEN]) -> [u8; NOTED_LEN] {
        let mut token: Token = [0; TOKEN_LEN];
        self.write(hold, &mut token);
        let mut sealed = [0; NOTED_LEN];
        sealed[..CONTENT_LEN].copy_from_slice(&token[..CONTENT_LEN]);
        sealed[CONTENT_LEN..MESSAGE_LEN].copy_from_slice(note);
        let mac = self.mac_of_note(self.current(), &sealed[..MESSAGE_LEN]);
        sealed[MESSAGE_LEN..].copy_from_slice(&mac.expect("the minting key is kept").to_le_bytes());
        sealed
    }

    /// Reads a hold and its note back, if this node sealed them with a key it still has.
    ///
    /// # Errors
    /// As [`KeyRing::open`]; bytes of another length are [`TokenError::NotText`].
    pub fn open_note(&self, sealed: &[u8]) -> Result<(Hold, [u8; NOTE_LEN]), TokenError> {
        let sealed: &[u8; NOTED_LEN] =
            sealed.try_into().map_err(|_| TokenError::NotText(sealed.len()))?;
        let mut token: Token = [0; TOKEN_LEN];
        token[..CONTENT_LEN].copy_from_slice(&sealed[..CONTENT_LEN]);
        let (hold, key_id) = KeyRing::read(&token);
        let Some(mac) = self.mac_of_note(key_id, &sealed[..MESSAGE_LEN]) else {
            return Err(self.unknown_key(hold.node, key_id));
        };
        if le_u64(&sealed[MESSAGE_LEN..]) != mac {
            return Err(self.not_ours(hold.node));
        }
        let mut note = [0; NOTE_LEN];
        note.copy_from_slice(&sealed[CONTENT_LEN..MESSAGE_LEN]);
        Ok((hold, note))
    }

    fn mac_of_note(&self, key_id: u8, message: &[u8]) -> Option<u64> {
        let cipher = self.cipher(key_id)?;
        let mut block = Block::from(DOMAIN);
        cipher.encrypt_block(&mut block);
        for chunk in message.chunks(16) {
            block.iter_mut().zip(chunk).for_each(|(byte, more)| *byte ^= more);
            cipher.encrypt_block(&mut block);
        }
        Some(le_u64(&block[..8]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Amount;
    use proptest::prelude::*;

    fn ring() -> KeyRing {
        KeyRing::new(7, 1, [9; 16])
    }

    fn hold() -> Hold {
        let amount = Amount::new(1_500_000);
        Hold { grant: 5, seq: 6, node: 7, deadline_ms: 1_700_000_000_250, amount }
    }

    proptest! {
        #[test]
        fn opens_what_it_sealed(seq in 0..=crate::token::SEQ_MAX, note: [u8; NOTE_LEN]) {
            let hold = Hold { seq, ..hold() };
            prop_assert_eq!(ring().open_note(&ring().seal_note(&hold, &note)), Ok((hold, note)));
        }

        #[test]
        fn any_changed_bit_is_refused(bit in 0usize..NOTED_LEN * 8, note: [u8; NOTE_LEN]) {
            let mut sealed = ring().seal_note(&hold(), &note);
            sealed[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(ring().open_note(&sealed).is_err());
        }

        #[test]
        fn any_length_is_refused_or_judged(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(ring().open_note(&bytes).is_err());
        }
    }

    #[test]
    fn tells_forged_foreign_and_too_old_apart() {
        let mut sealed = ring().seal_note(&hold(), &[3; NOTE_LEN]);
        assert_eq!(KeyRing::new(8, 1, [1; 16]).open_note(&sealed), Err(TokenError::Foreign(7)));
        let mut rotated = ring();
        rotated.rotate(2, [3; 16]);
        assert!(rotated.open_note(&sealed).is_ok());
        rotated.retire(1);
        assert_eq!(rotated.open_note(&sealed), Err(TokenError::TooOld(1)));
        sealed[NOTED_LEN - 1] ^= 1;
        assert_eq!(ring().open_note(&sealed), Err(TokenError::Forged));
        assert_eq!(ring().open_note(&sealed[1..]), Err(TokenError::NotText(NOTED_LEN - 1)));
    }

    /// A token is worth nothing as a note, nor the other way round.
    #[test]
    fn notes_and_tokens_are_different_messages() {
        let sealed = ring().seal_note(&hold(), &[0; NOTE_LEN]);
        let mut token: Token = [0; TOKEN_LEN];
        token[..CONTENT_LEN].copy_from_slice(&sealed[..CONTENT_LEN]);
        token[CONTENT_LEN..].copy_from_slice(&sealed[MESSAGE_LEN..]);
        assert_eq!(ring().open(&token), Err(TokenError::Forged));
    }
}
