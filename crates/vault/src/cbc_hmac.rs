//! `aes256-cbc-hmac-sha256`: CBC for those whose rules ask for HMAC. It commits to its key and costs ten times the bulk type.
//!
//! ```text
//!  0          16                        16 + n                   48 + n
//!  +----------+-------------------------+------------------------+
//!  |    IV    |  AES-256-CBC (PKCS #7)  |  HMAC-SHA256 (whole)   |        n = 16 x (length / 16 + 1)
//!  +----------+-------------------------+------------------------+
//!
//!  MACed:  "cbc-hmac" | length of the AAD in bytes, u64 big-endian | AAD | IV | ciphertext
//! ```
//!
//! Encrypt, then MAC, under two keys that HKDF-SHA256 makes of the one that is given. The tag is judged before the padding is looked at, so a
//! stranger's message never reaches the padding.

use aes::cipher::common::InnerIvInit;
use aes::cipher::{BlockModeDecrypt, BlockModeEncrypt, KeyInit};
use aes::{Aes256Dec, Aes256Enc, Block};
use cbc::cipher::block_padding::Pkcs7;

use crate::hmac_key::{HMAC_BYTES, HmacKey};
use crate::item::{Item, ItemError, check_lengths};
use crate::lanes::{BLOCK, LANES};
use crate::{Drbg, NonceNeed, SecretKey};

/// Bytes that a sealed message has besides its padded plaintext.
pub(crate) const FRAME: usize = BLOCK + HMAC_BYTES;

/// A key of the type, expanded.
pub(crate) struct CbcHmac {
    encrypt: Aes256Enc,
    decrypt: Aes256Dec,
    mac: HmacKey,
}

/// Returns the bytes of a sealed message of `plaintext` bytes.
pub(crate) fn sealed_len(plaintext: usize) -> usize {
    (plaintext / BLOCK + 1) * BLOCK + FRAME
}

impl CbcHmac {
    pub(crate) fn new(key: &SecretKey) -> CbcHmac {
        let enc = key.sub_key("aes256-cbc-hmac-sha256 enc");
        CbcHmac {
            encrypt: Aes256Enc::new(enc.expose().into()),
            decrypt: Aes256Dec::new(enc.expose().into()),
            mac: HmacKey::of(key.sub_key("aes256-cbc-hmac-sha256 mac").expose()),
        }
    }

    /// Seals every item.
    pub(crate) fn seal(&self, items: &mut [Item<'_>], random: &mut Drbg) {
        if let Err(error) = random.begin(items.len(), NonceNeed::Spread) {
            return items.iter_mut().for_each(|item| item.outcome = Err(error));
        }
        for group in items.chunks_mut(LANES) {
            let mut ivs = [Block::default(); LANES];
            random.blocks(ivs.get_mut(..group.len()).unwrap_or_default());
            for (item, iv) in group.iter_mut().zip(&ivs) {
                item.outcome = self.seal_one(item, iv);
            }
        }
    }

    /// Opens every item.
    pub(crate) fn open(&self, items: &mut [Item<'_>]) {
        for item in items {
            item.outcome = self.open_one(item);
        }
    }

    fn seal_one(&self, item: &mut Item<'_>, iv: &Block) -> Result<usize, ItemError> {
        check_lengths(item)?;
        let sealed = sealed_len(item.input.len());
        let output = item.output.get_mut(..sealed).ok_or(ItemError::OutputShort)?;
        let (text, tag) =
            output.split_last_chunk_mut::<HMAC_BYTES>().ok_or(ItemError::OutputShort)?;
        let (front, padded) = text.split_first_chunk_mut().ok_or(ItemError::OutputShort)?;
        *front = iv.0;
        cbc::Encryptor::inner_iv_init(&self.encrypt, iv)
            .encrypt_padded_b2b::<Pkcs7>(item.input, padded)
            .map_err(|_| ItemError::OutputShort)?;
        *tag = self.mac.tag_of(&[&header(item.aad), item.aad, text]);
        Ok(sealed)
    }

    fn open_one(&self, item: &mut Item<'_>) -> Result<usize, ItemError> {
        check_lengths(item)?;
        let (text, tag) = item.input.split_last_chunk::<HMAC_BYTES>().ok_or(ItemError::Refused)?;
        let (iv, padded) = text.split_first_chunk().ok_or(ItemError::Refused)?;
        if padded.is_empty() || !padded.len().is_multiple_of(BLOCK) {
            return Err(ItemError::Refused);
        }
        let output = item.output.get_mut(..padded.len()).ok_or(ItemError::OutputShort)?;
        if !self.mac.verify_of(&[&header(item.aad), item.aad, text], tag) {
            output.fill(0);
            return Err(ItemError::Refused);
        }
        let opened = cbc::Decryptor::inner_iv_init(&self.decrypt, &Block::from(*iv))
            .decrypt_padded_b2b::<Pkcs7>(padded, output)
            .map(<[u8]>::len);
        opened.map_err(|_| {
            output.fill(0);
            ItemError::Refused
        })
    }
}

/// Returns the first block of the MACed text.
fn header(aad: &[u8]) -> [u8; BLOCK] {
    let length = u64::try_from(aad.len()).unwrap_or(u64::MAX);
    (u128::from(u64::from_be_bytes(*b"cbc-hmac")) << 64 | u128::from(length)).to_be_bytes()
}
