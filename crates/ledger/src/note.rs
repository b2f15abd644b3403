//! Notes: what a door wants to find again when a hold comes back, sealed together with it.
//!
//! A win notice passes through strangers: browsers, logs, exchanges. It carries the hold and everything that the door must
//! know to judge it, so that nothing is kept a bid. Amount and note are enciphered, so that none of them reads a price or a
//! user, and one MAC covers all: nothing can be changed, nor moved to another's company.
//!
//! ```text
//!  0                  16       24                             80        88
//!  +------------------+--------+------------------------------+---------+
//!  | content of token, its amount |         note (56 B)       |   MAC   |
//!  +------------------+--------+------------------------------+---------+
//!        as it is     |              enciphered               |
//! ```
//!
//! The cipher is AES-128 in counter mode, with a key made from the token key. Its blocks are numbered by the content's
//! first 16 bytes, which no two holds have in common, with the number of the block in place of the key's id.
//!
//! The MAC is AES-128 in CBC-MAC mode over six blocks, the first of them `ENCIPHERED`, cut to 64 bits. No token's content
//! begins with that block, so no message of one kind is the beginning of one of the other: CBC-MAC is a pseudo-random
//! function for such a prefix-free set of messages (Petrank, Rackoff, "CBC MAC for real-time data sources", 2000).
//!
//! Earlier versions had notes of 40 bytes, and began with `SHORT`; still earlier ones enciphered nothing and began with `OPEN`. What they
//! sealed is still read, with zeros behind its note: bids outlive an update of the node.
//!
//! One hold can be sealed with several notes that differ in their last eight bytes, each good for something else
//! ([`KeyRing::seal_notes`]): all blocks but the last are enciphered once for all of them.

use aes::Aes128Enc;
use aes::cipher::BlockCipherEncrypt;

use crate::token::{Block, CONTENT_LEN, TOKEN_LEN, Token, le_u64};
use crate::{Hold, KeyRing, TokenError};

/// Bytes of a note.
pub const NOTE_LEN: usize = 56;
/// Bytes of a hold and its note, sealed.
pub const NOTED_LEN: usize = CONTENT_LEN + NOTE_LEN + 8;
/// Bytes of a note of earlier versions.
pub const SHORT_NOTE_LEN: usize = 40;
/// Bytes of a hold and such a note, sealed.
pub const SHORT_NOTED_LEN: usize = CONTENT_LEN + SHORT_NOTE_LEN + 8;

/// Bytes that notes sealed together have in common.
pub const NOTE_START_LEN: usize = NOTE_LEN - NOTE_END_LEN;
/// Bytes in which they may differ.
pub const NOTE_END_LEN: usize = 8;
/// Bytes with which all that was sealed together begins; a multiple of three, so that base64 of them can be shared as well.
pub const SEALED_START_LEN: usize = CONTENT_LEN + NOTE_START_LEN;
/// Bytes behind them.
pub const SEALED_END_LEN: usize = NOTED_LEN - SEALED_START_LEN;

const MESSAGE_LEN: usize = CONTENT_LEN + NOTE_LEN;
/// Where the last block begins.
const LAST_BLOCK: usize = MESSAGE_LEN - 16;
/// Bytes that are not enciphered: which hold it is, of which node, sealed with which key, until when.
const OPEN_LEN: usize = 16;
const ENCIPHERED_LEN: usize = MESSAGE_LEN - OPEN_LEN;
/// Where the content has the id of the key.
const KEY_ID: usize = 10;

/// What comes first under the MAC of what is enciphered.
const ENCIPHERED: [u8; 16] = [0xfc; 16];
/// What came first where notes were short.
const SHORT: [u8; 16] = [0xfe; 16];
/// What came first where nothing was enciphered.
const OPEN: [u8; 16] = [0xff; 16];

const _: () = assert!(MESSAGE_LEN.is_multiple_of(16), "whole blocks, so nothing is padded");
const _: () = assert!((CONTENT_LEN + SHORT_NOTE_LEN).is_multiple_of(16), "the same of short ones");
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
    ///
    /// Two notes of one hold that both leave the node must be sealed together: they share the bits that encipher them.
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
        let bits = self.bits(self.current(), &token).expect("the minting key is kept");
        let (of_start, of_end) = bits.split_at(SEALED_START_LEN - OPEN_LEN);
        mix(&mut sealed.start[OPEN_LEN..], of_start);
        let mut hidden = *ends;
        hidden.iter_mut().for_each(|end| mix(end, of_end));
        let cipher = self.cipher(self.current()).expect("the minting key is kept");
        let mut chain = first_block(cipher, ENCIPHERED);
        chain_over(cipher, &mut chain, &sealed.start[..LAST_BLOCK]);
        mix(&mut chain, &sealed.start[LAST_BLOCK..]);
        let mut blocks = [chain; N];
        for (block, end) in blocks.iter_mut().zip(&hidden) {
            mix(&mut block[SHARED..], end);
        }
        cipher.encrypt_blocks(&mut blocks);
        for ((sealed, block), end) in sealed.ends.iter_mut().zip(&blocks).zip(&hidden) {
            sealed[..NOTE_END_LEN].copy_from_slice(end);
            sealed[NOTE_END_LEN..].copy_from_slice(&block[..8]);
        }
        sealed
    }

    /// Reads a hold and its note back, if this node sealed them with a key it still has. Behind a note of an earlier version are zeros.
    ///
    /// # Errors
    /// As [`KeyRing::open`]; bytes of another length are [`TokenError::NotText`].
    pub fn open_note(&self, sealed: &[u8]) -> Result<(Hold, [u8; NOTE_LEN]), TokenError> {
        let is_short = sealed.len() == SHORT_NOTED_LEN;
        if !is_short && sealed.len() != NOTED_LEN {
            return Err(TokenError::NotText(sealed.len()));
        }
        let (message, mac) = sealed.split_at(sealed.len() - 8);
        let mut token: Token = [0; TOKEN_LEN];
        token[..OPEN_LEN].copy_from_slice(&message[..OPEN_LEN]);
        let (Hold { node, .. }, key_id) = KeyRing::read(&token);
        let Some((cipher, bits)) = self.cipher(key_id).zip(self.bits(key_id, &token)) else {
            return Err(self.unknown_key(node, key_id));
        };
        let is_of = |first| {
            let mut block = first_block(cipher, first);
            chain_over(cipher, &mut block, message);
            le_u64(mac) == le_u64(&block[..8])
        };
        let mut hidden = [0; ENCIPHERED_LEN];
        let text = &mut hidden[..message.len() - OPEN_LEN];
        text.copy_from_slice(&message[OPEN_LEN..]);
        if is_of(if is_short { SHORT } else { ENCIPHERED }) {
            mix(text, &bits);
        } else if !(is_short && is_of(OPEN)) {
            return Err(self.not_ours(node));
        }
        let (amount, text) = hidden.split_at(CONTENT_LEN - OPEN_LEN);
        token[OPEN_LEN..CONTENT_LEN].copy_from_slice(amount);
        let mut note = [0; NOTE_LEN];
        note.copy_from_slice(text);
        Ok((KeyRing::read(&token).0, note))
    }

    /// Seals as versions did that enciphered nothing: for tests of what they left behind.
    #[doc(hidden)]
    #[must_use]
    pub fn seal_note_openly(
        &self,
        hold: &Hold,
        note: &[u8; SHORT_NOTE_LEN],
    ) -> [u8; SHORT_NOTED_LEN] {
        const LEN: usize = CONTENT_LEN + SHORT_NOTE_LEN;
        let mut token: Token = [0; TOKEN_LEN];
        self.write(hold, &mut token);
        let mut sealed = [0; SHORT_NOTED_LEN];
        sealed[..CONTENT_LEN].copy_from_slice(&token[..CONTENT_LEN]);
        sealed[CONTENT_LEN..LEN].copy_from_slice(note);
        let cipher = self.cipher(self.current()).expect("the minting key is kept");
        let mut block = first_block(cipher, OPEN);
        chain_over(cipher, &mut block, &sealed[..LEN]);
        sealed[LEN..].copy_from_slice(&block[..8]);
        sealed
    }

    /// What enciphers the amount and the note of a hold; mixed in again it deciphers them. `None`: the key is retired.
    fn bits(&self, key_id: u8, token: &Token) -> Option<[u8; ENCIPHERED_LEN]> {
        let cipher = self.note_cipher(key_id)?;
        let mut blocks = [Block::default(); ENCIPHERED_LEN / 16];
        for (number, block) in (0..).zip(&mut blocks) {
            block.copy_from_slice(&token[..OPEN_LEN]);
            block[KEY_ID] = number;
        }
        cipher.encrypt_blocks(&mut blocks);
        let mut bits = [0; ENCIPHERED_LEN];
        bits.chunks_exact_mut(16)
            .zip(&blocks)
            .for_each(|(bits, block)| bits.copy_from_slice(block));
        Some(bits)
    }
}

fn first_block(cipher: &Aes128Enc, first: [u8; 16]) -> Block {
    let mut block = Block::from(first);
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

    /// Notes live in other people's systems while a node is replaced by its next version, so they must never change. The first
    /// was sealed by the version before notes were sealed together, the others by another implementation of AES.
    #[test]
    fn golden_notes() {
        let note: [u8; NOTE_LEN] = std::array::from_fn(|at| u8::try_from(at).unwrap());
        let short: [u8; SHORT_NOTE_LEN] = note[..SHORT_NOTE_LEN].try_into().unwrap();
        let mut filled = [0; NOTE_LEN];
        filled[..SHORT_NOTE_LEN].copy_from_slice(&short);
        let open = ring().seal_note_openly(&hold(), &short);
        assert_eq!(open[SHORT_NOTED_LEN - 8..], [72, 129, 24, 253, 109, 105, 224, 98]);
        assert_eq!(ring().open_note(&open), Ok((hold(), filled)));
        assert_eq!(ring().open_note(&GOLDEN_SHORT), Ok((hold(), filled)));
        let sealed = ring().seal_note(&hold(), &note);
        assert_eq!(sealed, GOLDEN);
        assert_eq!(ring().open_note(&sealed), Ok((hold(), note)));
    }

    /// Who knows a hold and sees ids of its and of the next one learns nothing of amounts, prices and users.
    #[test]
    fn nothing_but_the_number_of_the_hold_can_be_read() {
        let note = [0x5a; NOTE_LEN];
        let sealed = |seq| ring().seal_note(&Hold { seq, ..hold() }, &note);
        let (one, next) = (sealed(6), sealed(7));
        let mut open = one;
        ring().write(&hold(), (&mut open[..TOKEN_LEN]).try_into().unwrap());
        open[CONTENT_LEN..MESSAGE_LEN].copy_from_slice(&note);
        assert_eq!(one[..OPEN_LEN], open[..OPEN_LEN]);
        for at in OPEN_LEN..MESSAGE_LEN - 4 {
            // Four bytes are alike by chance once in four thousand million times; the key is fixed.
            assert_ne!(one[at..at + 4], open[at..at + 4], "byte {at} as it is");
            assert_ne!(one[at..at + 4], next[at..at + 4], "byte {at} as in the next");
        }
    }

    proptest! {
        /// What an earlier version sealed is what it was; made to look like the other kind it is neither.
        #[test]
        fn what_earlier_versions_sealed_opens(
            note: [u8; SHORT_NOTE_LEN], bit in 0usize..SHORT_NOTED_LEN * 8,
        ) {
            let mut open = ring().seal_note_openly(&hold(), &note);
            let opened = ring().open_note(&open);
            prop_assert_eq!(opened.map(|(of, bytes)| (of, bytes[..40] == note, bytes[40..] == [0; 16])), Ok((hold(), true, true)));
            open[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(ring().open_note(&open).is_err());
        }
    }

    const GOLDEN_SHORT: [u8; SHORT_NOTED_LEN] = [
        5, 0, 0, 0, 0, 6, 0, 0, 7, 0, 1, 25, 36, 202, 148, 39, 95, 54, 60, 193, 154, 20, 131, 69,
        141, 31, 149, 54, 30, 104, 143, 2, 48, 136, 111, 237, 140, 90, 93, 158, 6, 39, 21, 40, 3,
        252, 235, 164, 39, 161, 124, 118, 60, 193, 23, 167, 148, 227, 12, 128, 173, 23, 177, 129,
        81, 116, 155, 249, 86, 240, 140, 75,
    ];

    const GOLDEN: [u8; NOTED_LEN] = [
        5, 0, 0, 0, 0, 6, 0, 0, 7, 0, 1, 25, 36, 202, 148, 39, 95, 54, 60, 193, 154, 20, 131, 69,
        141, 31, 149, 54, 30, 104, 143, 2, 48, 136, 111, 237, 140, 90, 93, 158, 6, 39, 21, 40, 3,
        252, 235, 164, 39, 161, 124, 118, 60, 193, 23, 167, 148, 227, 12, 128, 173, 23, 177, 129,
        122, 93, 148, 49, 11, 15, 216, 146, 232, 246, 9, 145, 119, 223, 184, 98, 222, 161, 210,
        161, 122, 222, 201, 244,
    ];
}
