//! Hold tokens: what a hold is known by outside the node.
//!
//! A token says everything that must be known of a hold to judge it later, so the ledger keeps no object
//! a hold. It is 32 bytes: 24 bytes of content and 8 bytes of MAC.
//!
//! ```text
//!  0      5     8    10   11       16            24        32
//!  +------+-----+----+----+--------+-------------+---------+
//!  |grant | seq |node|key |deadline|   amount    |   MAC   |
//!  | 5 B  | 3 B |2 B |1 B |  5 B   |     8 B     |   8 B   |      all little-endian
//!  +------+-----+----+----+--------+-------------+---------+
//! ```
//!
//! The MAC is AES-128 in CBC-MAC mode over exactly two blocks (the content, then eight bytes of domain
//! text), cut to 64 bits. CBC-MAC is a pseudo-random function for messages of one fixed length
//! (Bellare, Kilian, Rogaway, "The security of the cipher block chaining message authentication code",
//! 2000), which these are.

use aes::Aes128Enc;
use aes::cipher::{Array, BlockCipherEncrypt, KeyInit, array::sizes::U16};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::Amount;

/// Bytes of a token.
pub const TOKEN_LEN: usize = 32;
/// Deadlines are multiples of this many milliseconds, so that five bytes reach the year 2318.
pub const DEADLINE_UNIT_MS: u64 = 10;
/// Largest grant number (40 bits).
pub const GRANT_MAX: u64 = (1 << 40) - 1;
/// Largest sequence number of a hold within its grant (24 bits).
pub const SEQ_MAX: u32 = (1 << 24) - 1;

pub(crate) const CONTENT_LEN: usize = 24;
const DEADLINE_UNITS_MAX: u64 = (1 << 40) - 1;
const DOMAIN: [u8; 8] = *b"weirhold";
/// Enciphered, it is the key for notes. No message under a MAC begins with it.
const NOTE_KEY: [u8; 16] = [0xfd; 16];

pub(crate) type Block = Array<u8, U16>;

/// The 32 bytes that go out.
pub type Token = [u8; TOKEN_LEN];

/// What a token says of its hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The grant (numbered purse filling) that the hold was reserved from; at most [`GRANT_MAX`].
    pub grant: u64,
    /// Number of the hold within its grant; at most [`SEQ_MAX`].
    pub seq: u32,
    /// The node that issued it.
    pub node: u16,
    /// First deadline, milliseconds since the Unix epoch, a multiple of [`DEADLINE_UNIT_MS`]: until then the
    /// hold may be confirmed.
    pub deadline_ms: u64,
    /// The amount set aside; positive.
    pub amount: Amount,
}

/// Why a token was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The MAC does not match: not a token of ours, or a changed one.
    #[error("the token's MAC does not match: it is forged or damaged")]
    Forged,
    /// Issued by another node, which is the only one that can judge it.
    #[error("the token was issued by node {0}: send it there")]
    Foreign(u16),
    /// The key it was made with is retired.
    #[error("the token's key {0} is retired: the token is older than every deadline it could have")]
    TooOld(u8),
    /// The text form has the wrong length or alphabet.
    #[error("a token is 43 characters of URL-safe base64 without padding, found {0} bytes")]
    NotText(usize),
}

/// A node's token keys: one mints, the older ones still verify until they are retired.
#[derive(Clone)]
pub struct KeyRing {
    node: u16,
    current: u8,
    keys: Vec<Option<Aes128Enc>>,
    /// What enciphers notes, of the keys with the same ids.
    note_keys: Vec<Option<Aes128Enc>>,
}

impl std::fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyRing").field("node", &self.node).field("current", &self.current).finish()
    }
}

impl KeyRing {
    /// A ring with one key. `key` must come from the operating system's randomness.
    pub fn new(node: u16, key_id: u8, key: [u8; 16]) -> KeyRing {
        let mut ring =
            KeyRing { node, current: key_id, keys: vec![None; 256], note_keys: vec![None; 256] };
        ring.rotate(key_id, key);
        ring
    }

    /// Adds a key and mints with it from now on. Key ids go round after 256 rotations, so a key must be
    /// retired before its id comes again; a key under the same id is replaced.
    pub fn rotate(&mut self, key_id: u8, key: [u8; 16]) {
        let cipher = Aes128Enc::new(&key.into());
        let mut note_key = Block::from(NOTE_KEY);
        cipher.encrypt_block(&mut note_key);
        self.note_keys[usize::from(key_id)] = Some(Aes128Enc::new(&note_key));
        self.keys[usize::from(key_id)] = Some(cipher);
        self.current = key_id;
    }

    /// Forgets a key that no token within its life can have been made with. The minting key stays.
    pub fn retire(&mut self, key_id: u8) {
        if key_id != self.current {
            self.keys[usize::from(key_id)] = None;
            self.note_keys[usize::from(key_id)] = None;
        }
    }

    /// Id of the key that mints.
    pub fn current(&self) -> u8 {
        self.current
    }

    /// Writes into a token what it says of its hold. It is worth nothing before it is [sealed](KeyRing::seal).
    #[inline]
    pub fn write(&self, hold: &Hold, token: &mut Token) {
        let units = hold.deadline_ms / DEADLINE_UNIT_MS;
        assert!(
            hold.grant <= GRANT_MAX && hold.seq <= SEQ_MAX && units <= DEADLINE_UNITS_MAX,
            "grants, sequences and deadlines are bounded where they are made"
        );
        let first = hold.grant | u64::from(hold.seq) << 40;
        let second = u64::from(self.node) | u64::from(self.current) << 16 | units << 24;
        token[0..8].copy_from_slice(&first.to_le_bytes());
        token[8..16].copy_from_slice(&second.to_le_bytes());
        token[16..CONTENT_LEN].copy_from_slice(&hold.amount.get().to_le_bytes());
    }

    /// Seals written tokens where they are: those of `items` at `places`. A whole frame at once, so that the
    /// cipher's pipeline is full; in place, so that nothing is copied.
    ///
    /// # Panics
    /// If a place is outside of `items`.
    pub fn seal<T>(&self, items: &mut [T], places: &[u16], token: impl Fn(&mut T) -> &mut Token) {
        let cipher =
            self.keys[usize::from(self.current)].as_ref().expect("the minting key is kept");
        let mut blocks = [Block::default(); SEAL_CHUNK];
        for places in places.chunks(SEAL_CHUNK) {
            let blocks = &mut blocks[..places.len()];
            for (block, place) in blocks.iter_mut().zip(places) {
                block.copy_from_slice(&token(&mut items[usize::from(*place)])[..16]);
            }
            cipher.encrypt_blocks(blocks);
            for (block, place) in blocks.iter_mut().zip(places) {
                let token = token(&mut items[usize::from(*place)]);
                mix_second(block, token);
            }
            cipher.encrypt_blocks(blocks);
            for (block, place) in blocks.iter().zip(places) {
                let token = token(&mut items[usize::from(*place)]);
                token[CONTENT_LEN..].copy_from_slice(&block[..8]);
            }
        }
    }

    /// Reads a token back, if this node made it with a key it still has.
    pub fn open(&self, token: &Token) -> Result<Hold, TokenError> {
        let (hold, key_id) = KeyRing::read(token);
        let Some(cipher) = self.cipher(key_id) else {
            return Err(self.unknown_key(hold.node, key_id));
        };
        let mut block = Block::default();
        block.copy_from_slice(&token[..16]);
        cipher.encrypt_block(&mut block);
        mix_second(&mut block, token);
        cipher.encrypt_block(&mut block);
        // Compared as one integer: no early exit tells an attacker how much of a guess was right.
        if le_u64(&token[CONTENT_LEN..]) == le_u64(&block[..8]) {
            Ok(hold)
        } else {
            Err(self.not_ours(hold.node))
        }
    }

    /// What the content of a token says, true or not, and the id of its key.
    pub(crate) fn read(token: &Token) -> (Hold, u8) {
        let hold = Hold {
            grant: le_u64(&token[0..5]),
            seq: u32::from_le_bytes([token[5], token[6], token[7], 0]),
            node: u16::from_le_bytes([token[8], token[9]]),
            deadline_ms: le_u64(&token[11..16]) * DEADLINE_UNIT_MS,
            amount: Amount::new(i64::from_le_bytes(token[16..24].try_into().expect("eight bytes"))),
        };
        (hold, token[10])
    }

    pub(crate) fn cipher(&self, key_id: u8) -> Option<&Aes128Enc> {
        self.keys[usize::from(key_id)].as_ref()
    }

    /// What enciphers notes.
    pub(crate) fn note_cipher(&self, key_id: u8) -> Option<&Aes128Enc> {
        self.note_keys[usize::from(key_id)].as_ref()
    }

    pub(crate) fn unknown_key(&self, node: u16, key_id: u8) -> TokenError {
        match node == self.node {
            true => TokenError::TooOld(key_id),
            false => TokenError::Foreign(node),
        }
    }

    /// Why a MAC does not match.
    pub(crate) fn not_ours(&self, node: u16) -> TokenError {
        match node == self.node {
            true => TokenError::Forged,
            false => TokenError::Foreign(node),
        }
    }
}

/// Tokens sealed together: sixteen independent AES streams fill the pipeline of every CPU we know.
const SEAL_CHUNK: usize = 16;

/// Mixes the second block of the message into the enciphered first one: eight bytes of content, eight of domain.
#[inline]
fn mix_second(block: &mut Block, token: &Token) {
    let (content, domain) = block.split_at_mut(8);
    content.iter_mut().zip(&token[16..CONTENT_LEN]).for_each(|(byte, more)| *byte ^= more);
    domain.iter_mut().zip(DOMAIN).for_each(|(byte, more)| *byte ^= more);
}

#[inline]
pub(crate) fn le_u64(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// The text form of a token, for URLs: 43 characters of URL-safe base64 without padding (RFC 4648, section 5).
pub fn to_text(token: &Token) -> String {
    URL_SAFE_NO_PAD.encode(token)
}

/// Reads the text form.
pub fn from_text(text: &str) -> Result<Token, TokenError> {
    let mut token = [0; TOKEN_LEN];
    match URL_SAFE_NO_PAD.decode_slice(text, &mut token) {
        Ok(TOKEN_LEN) => Ok(token),
        _ => Err(TokenError::NotText(text.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ring() -> KeyRing {
        KeyRing::new(7, 1, [9; 16])
    }

    fn seal_one(ring: &KeyRing, hold: Hold) -> Token {
        let mut token = [[0; TOKEN_LEN]];
        ring.write(&hold, &mut token[0]);
        ring.seal(&mut token, &[0], |token| token);
        token[0]
    }

    fn hold() -> Hold {
        Hold {
            grant: 5,
            seq: 6,
            node: 7,
            deadline_ms: 1_700_000_000_250,
            amount: Amount::new(1_500_000),
        }
    }

    proptest! {
        #[test]
        fn opens_what_it_sealed(
            grant in 0..=GRANT_MAX, seq in 0..=SEQ_MAX, deadline in 0u64..1 << 40, amount in 1..i64::MAX,
        ) {
            let deadline_ms = deadline * DEADLINE_UNIT_MS;
            let hold = Hold { grant, seq, node: 7, deadline_ms, amount: Amount::new(amount) };
            prop_assert_eq!(ring().open(&seal_one(&ring(), hold)), Ok(hold));
        }

        #[test]
        fn any_changed_bit_is_refused(bit in 0usize..TOKEN_LEN * 8) {
            let mut token = seal_one(&ring(), hold());
            token[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(ring().open(&token).is_err());
        }

        #[test]
        fn text_form_round_trips(token in any::<Token>()) {
            prop_assert_eq!(from_text(&to_text(&token)), Ok(token));
        }
    }

    #[test]
    fn a_frame_seals_as_its_tokens_one_by_one() {
        let holds: Vec<Hold> = (0..90).map(|seq| Hold { seq, ..hold() }).collect();
        let mut tokens = vec![[0; TOKEN_LEN]; holds.len()];
        let places: Vec<u16> = (0..90).step_by(2).collect();
        holds.iter().zip(&mut tokens).for_each(|(hold, token)| ring().write(hold, token));
        ring().seal(&mut tokens, &places, |token| token);
        for (i, (hold, token)) in holds.iter().zip(&tokens).enumerate() {
            let sealed = *token == seal_one(&ring(), *hold);
            assert_eq!(sealed, i % 2 == 0, "only the chosen ones are sealed: {i}");
        }
    }

    #[test]
    fn tells_forged_foreign_and_too_old_apart() {
        let token = seal_one(&ring(), hold());
        let mut forged = token;
        forged[31] ^= 1;
        assert_eq!(ring().open(&forged), Err(TokenError::Forged));
        assert_eq!(KeyRing::new(8, 1, [1; 16]).open(&token), Err(TokenError::Foreign(7)));
        let mut rotated = ring();
        rotated.rotate(2, [3; 16]);
        assert_eq!(rotated.open(&token), Ok(hold()));
        rotated.retire(1);
        assert_eq!(rotated.open(&token), Err(TokenError::TooOld(1)));
    }

    #[test]
    fn text_of_wrong_shape_is_refused() {
        for text in ["", "abc", "*******************************************"] {
            assert_eq!(from_text(text), Err(TokenError::NotText(text.len())));
        }
    }

    /// Tokens live in other people's systems, so they must never change between versions. The MAC was computed
    /// by another implementation of AES: CBC-MAC over the content and `weirhold`, first eight bytes.
    #[test]
    fn golden_token() {
        let token = seal_one(&ring(), hold());
        assert_eq!(token, GOLDEN);
        assert_eq!(to_text(&token), GOLDEN_TEXT);
        assert_eq!(ring().open(&from_text(GOLDEN_TEXT).unwrap()), Ok(hold()));
    }

    const GOLDEN: Token = [
        0x05, 0x00, 0x00, 0x00, 0x00, 0x06, 0x00, 0x00, 0x07, 0x00, 0x01, 0x19, 0x24, 0xca, 0x94,
        0x27, 0x60, 0xe3, 0x16, 0x00, 0x00, 0x00, 0x00, 0x00, 0xd7, 0xed, 0x5d, 0xd6, 0x4c, 0x2b,
        0x33, 0x3c,
    ];
    const GOLDEN_TEXT: &str = "BQAAAAAGAAAHAAEZJMqUJ2DjFgAAAAAA1-1d1kwrMzw";
}
