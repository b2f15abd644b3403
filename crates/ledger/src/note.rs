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
//!
//! One hold can be sealed with several notes that differ in their last ten bytes, each good for something else
//! ([`KeyRing::seal_notes`]): all blocks but the last are enciphered once for all of them.

use aes::Aes128Enc;
use aes::cipher::BlockCipherEncrypt;

use crate::token::{Block, CONTENT_LEN, TOKEN_LEN, Token, le_u64};
use crate::{Hold, KeyRing, TokenError};

/// Bytes of a note.
pub const NOTE_LEN: usize = 40;
/// Bytes of a hold and its note, sealed.
pub const NOTED_LEN: usize = CONTENT_LEN + NOTE_LEN + 8;

/// Bytes that notes sealed together have in common.
pub const NOTE_START_LEN: usize = NOTE_LEN - NOTE_END_LEN;
/// Bytes in which they may differ.
pub const NOTE_END_LEN: usize = 10;
/// Bytes with which all that was sealed together begins; a multiple of three, so that base64 of them can be shared as well.
pub const SEALED_START_LEN: usize = CONTENT_LEN + NOTE_START_LEN;
/// Bytes behind them.
pub const SEALED_END_LEN: usize = NOTED_LEN - SEALED_START_LEN;

const MESSAGE_LEN: usize = CONTENT_LEN + NOTE_LEN;
/// Where the last block begins.
const LAST_BLOCK: usize = MESSAGE_LEN - 16;
const DOMAIN: [u8; 16] = [0xff; 16];

const _: () = assert!(MESSAGE_LEN.is_multiple_of(16), "whole blocks, so nothing is padded");
const _: () = assert!(LAST_BLOCK <= SEALED_START_LEN, "what differs is within the last block");
const _: () =
    assert!(SEALED_START_LEN.is_multiple_of(3), "base64 of it needs nothing of what follows");

/// A hold sealed with `N` notes: each is `start` and one of `ends`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sealed<const N: usize> {
    /// What they have in common.
    pub start: [u8; SEALED_START_LEN],
    /// What stands behind it, note by note.
    pub ends: [[u8; SEALED_END_LEN]; N],
}

impl KeyRing {
    /// Seals a hold together with a note.
    #[must_use]
    pub fn seal_note(&self, hold: &Hold, note: &[u8; NOTE_LEN]) -> [u8; NOTED_LEN] {
        let (mut start, mut end) = ([0; NOTE_START_LEN], [0; NOTE_END_LEN]);
        start.copy_from_slice(&note[..NOTE_START_LEN]);
        end.copy_from_slice(&note[NOTE_START_LEN..]);
        let Sealed { start, ends: [end] } = self.seal_notes(hold, &start, &[end]);
        let mut sealed = [0; NOTED_LEN];
        sealed[..SEALED_START_LEN].copy_from_slice(&start);
        sealed[SEALED_START_LEN..].copy_from_slice(&end);
        sealed
    }

    /// Seals a hold together with each of some notes, which are alike but for their ends.
    #[must_use]
    pub fn seal_notes<const N: usize>(
        &self,
        hold: &Hold,
        note: &[u8; NOTE_START_LEN],
        ends: &[[u8; NOTE_END_LEN]; N],
    ) -> Sealed<N> {
        const SHARED: usize = SEALED_START_LEN - LAST_BLOCK;
        let mut token: Token = [0; TOKEN_LEN];
        self.write(hold, &mut token);
        let mut sealed = Sealed { start: [0; SEALED_START_LEN], ends: [[0; SEALED_END_LEN]; N] };
        sealed.start[..CONTENT_LEN].copy_from_slice(&token[..CONTENT_LEN]);
        sealed.start[CONTENT_LEN..].copy_from_slice(note);
        let cipher = self.cipher(self.current()).expect("the minting key is kept");
        let mut chain = first_block(cipher);
        chain_over(cipher, &mut chain, &sealed.start[..LAST_BLOCK]);
        mix(&mut chain, &sealed.start[LAST_BLOCK..]);
        let mut blocks = [chain; N];
        for (block, end) in blocks.iter_mut().zip(ends) {
            mix(&mut block[SHARED..], end);
        }
        cipher.encrypt_blocks(&mut blocks);
        for ((sealed, block), end) in sealed.ends.iter_mut().zip(&blocks).zip(ends) {
            sealed[..NOTE_END_LEN].copy_from_slice(end);
            sealed[NOTE_END_LEN..].copy_from_slice(&block[..8]);
        }
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
        let mut block = first_block(cipher);
        chain_over(cipher, &mut block, message);
        Some(le_u64(&block[..8]))
    }
}

fn first_block(cipher: &Aes128Enc) -> Block {
    let mut block = Block::from(DOMAIN);
    cipher.encrypt_block(&mut block);
    block
}

fn chain_over(cipher: &Aes128Enc, block: &mut Block, message: &[u8]) {
    for chunk in message.chunks(16) {
        mix(block, chunk);
        cipher.encrypt_block(block);
    }
}

fn mix(block: &mut [u8], bytes: &[u8]) {
    block.iter_mut().zip(bytes).for_each(|(byte, more)| *byte ^= more);
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

        /// Each of them is what it would be alone, and no two are good for each other.
        #[test]
        fn notes_that_are_sealed_together_are_sealed_each(
            note: [u8; NOTE_START_LEN], ends: [[u8; NOTE_END_LEN]; 3],
        ) {
            let together = ring().seal_notes(&hold(), &note, &ends);
            for (end, sealed) in ends.iter().zip(&together.ends) {
                let whole: Vec<u8> = note.iter().chain(end).copied().collect();
                let alone = ring().seal_note(&hold(), &whole.clone().try_into().unwrap());
                prop_assert_eq!([&together.start[..], sealed].concat(), alone);
                for other in ends.iter().filter(|other| *other != end) {
                    let mut swapped = alone;
                    swapped[SEALED_START_LEN..MESSAGE_LEN].copy_from_slice(other);
                    prop_assert_eq!(ring().open_note(&swapped), Err(TokenError::Forged));
                }
            }
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
    /// Notes live in other people's systems while a node is replaced by its next version, so they must never change. This one
    /// was sealed by the version before notes were sealed together.
    #[test]
    fn golden_note() {
        let note: [u8; NOTE_LEN] = std::array::from_fn(|at| u8::try_from(at).unwrap());
        let sealed = ring().seal_note(&hold(), &note);
        assert_eq!(sealed[MESSAGE_LEN..], GOLDEN_MAC);
        assert_eq!(ring().open_note(&sealed), Ok((hold(), note)));
    }

    const GOLDEN_MAC: [u8; 8] = [72, 129, 24, 253, 109, 105, 224, 98];
}
