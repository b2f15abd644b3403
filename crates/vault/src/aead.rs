//! The types that are one call of a known AEAD: `aes256-gcm96`, `aes128-gcm96` and `aes256-gcm-siv`.
//!
//! ```text
//!  0           12                12 + n       28 + n
//!  +-----------+-----------------+------------+
//!  |   nonce   |   ciphertext    |    tag     |        n = bytes of the plaintext
//!  +-----------+-----------------+------------+
//! ```
//!
//! The first two are byte for byte what Transit of OpenBao (and Vault) makes: the key version's 32 or 16 bytes are the AES key (NIST SP
//! 800-38D), the associated data goes in as it is. `aes256-gcm-siv` is RFC 8452 under a sub-key of its own.

use aes_gcm::aead::inout::InOutBuf;
use aes_gcm::aead::{AeadInOut, Nonce, Tag};
use aes_gcm::{Aes128Gcm, Aes256Gcm, KeyInit as _};
use aes_gcm_siv::Aes256GcmSiv;

use aes::Block;
use aes::cipher::array::Array;
use aes::cipher::consts::{U12, U16, U48};
use zeroize::Zeroizing;

use crate::hmac_key::HmacKey;
use crate::item::{Item, ItemError, check_lengths};
use crate::{Drbg, NonceNeed, SecretKey};

const NONCE: usize = 12;
const TAG: usize = 16;
/// Bytes that a sealed message has besides its ciphertext.
pub(crate) const FRAME: usize = NONCE + TAG;
/// Nonces that are drawn at once: each group of so many messages begins with fresh randomness where nonces must not repeat.
const DRAWN: usize = 256;

/// A key of one of the types, expanded.
pub(crate) struct AeadKey<A> {
    aead: A,
    nonces: Nonces,
    need: NonceNeed,
}

/// Where nonces come from.
enum Nonces {
    Random,
    /// The first 12 bytes of HMAC-SHA256 over the plaintext: equal plaintexts make equal messages.
    OfPlaintext(HmacKey),
    /// The same over associated data and plaintext, so that a nonce repeats only where the whole message does.
    OfMessage(HmacKey),
}

impl AeadKey<Aes256Gcm> {
    /// Returns the key of exactly these bytes, as Transit uses a key version.
    pub(crate) fn gcm(key: &SecretKey) -> AeadKey<Aes256Gcm> {
        let aead = Aes256Gcm::new(key.expose().into());
        AeadKey { aead, nonces: Nonces::Random, need: NonceNeed::Unique }
    }

    /// Returns Transit's convergent key (its version 3): 64 bytes of HKDF-SHA256 with the context as info, the first half for the
    /// cipher, the second for the nonces.
    pub(crate) fn gcm_convergent(key: &SecretKey, context: &[u8]) -> AeadKey<Aes256Gcm> {
        let (enc, nonce) = key.expand_pair(&[context]);
        let aead = Aes256Gcm::new(enc.expose().into());
        AeadKey {
            aead,
            nonces: Nonces::OfPlaintext(HmacKey::of(nonce.expose())),
            need: NonceNeed::Unique,
        }
    }
}

impl AeadKey<Aes128Gcm> {
    /// Returns the key of exactly the first 16 bytes.
    pub(crate) fn gcm_128(key: &SecretKey) -> AeadKey<Aes128Gcm> {
        let aead = Aes128Gcm::new(key.half());
        AeadKey { aead, nonces: Nonces::Random, need: NonceNeed::Unique }
    }

    /// Returns Transit's convergent key (its version 3): 48 bytes of HKDF-SHA256 with the context as info, 16 for the cipher, 32 for the
    /// nonces.
    pub(crate) fn gcm_128_convergent(key: &SecretKey, context: &[u8]) -> AeadKey<Aes128Gcm> {
        let mut bytes = Zeroizing::new([0; 48]);
        key.expand_half_into(&[context], bytes.as_mut_slice());
        let (enc, nonce) = <&Array<u8, U48>>::from(&*bytes).split_ref::<U16>();
        AeadKey {
            aead: Aes128Gcm::new(enc),
            nonces: Nonces::OfPlaintext(HmacKey::of(nonce.as_ref())),
            need: NonceNeed::Unique,
        }
    }
}

impl AeadKey<Aes256GcmSiv> {
    /// Returns the key of the sub-key for this type.
    pub(crate) fn gcm_siv(key: &SecretKey) -> AeadKey<Aes256GcmSiv> {
        AeadKey::of_gcm_siv(&key.sub_key("aes256-gcm-siv enc"))
    }

    /// Returns the key of exactly these bytes.
    pub(crate) fn of_gcm_siv(key: &SecretKey) -> AeadKey<Aes256GcmSiv> {
        let aead = Aes256GcmSiv::new(key.expose().into());
        AeadKey { aead, nonces: Nonces::Random, need: NonceNeed::Spread }
    }

    /// Returns the convergent key of a context.
    pub(crate) fn gcm_siv_convergent(key: &SecretKey, context: &[u8]) -> AeadKey<Aes256GcmSiv> {
        let (enc, nonce) = key.expand_pair(&[b"vault/1 aes256-gcm-siv convergent ", context]);
        let aead = Aes256GcmSiv::new(enc.expose().into());
        AeadKey {
            aead,
            nonces: Nonces::OfMessage(HmacKey::of(nonce.expose())),
            need: NonceNeed::Spread,
        }
    }
}

impl<A: AeadInOut<NonceSize = U12, TagSize = U16>> AeadKey<A> {
    /// Seals every item.
    pub(crate) fn seal(&self, items: &mut [Item<'_>], random: &mut Drbg) {
        for group in items.chunks_mut(DRAWN) {
            let mut drawn = [Block::default(); DRAWN];
            let blocks = drawn.get_mut(..group.len()).unwrap_or_default();
            if let Err(error) = self.draw(blocks, random) {
                group.iter_mut().for_each(|item| item.outcome = Err(error));
                continue;
            }
            for (item, drawn) in group.iter_mut().zip(&drawn) {
                item.outcome =
                    self.nonce(item, drawn).and_then(|nonce| seal_one(&self.aead, item, &nonce));
            }
        }
    }

    /// Draws the nonces of a group, where they are random.
    fn draw(&self, blocks: &mut [Block], random: &mut Drbg) -> Result<(), ItemError> {
        match (&self.nonces, self.need) {
            (Nonces::OfPlaintext(_) | Nonces::OfMessage(_), _) => Ok(()),
            (Nonces::Random, NonceNeed::Unique) => random.unique_blocks(blocks),
            (Nonces::Random, NonceNeed::Spread) => {
                random.begin(blocks.len(), NonceNeed::Spread)?;
                random.blocks(blocks);
                Ok(())
            }
        }
    }

    /// Opens every item.
    pub(crate) fn open(&self, items: &mut [Item<'_>]) {
        for item in items {
            item.outcome = open_one(&self.aead, item);
        }
    }

    fn nonce(&self, item: &Item<'_>, drawn: &Block) -> Result<[u8; NONCE], ItemError> {
        let long: [u8; 32] = match &self.nonces {
            Nonces::Random => return Ok(drawn.first_chunk().copied().unwrap_or_default()),
            Nonces::OfPlaintext(_) if !item.aad.is_empty() => return Err(ItemError::ConvergentAad),
            Nonces::OfPlaintext(key) => key.tag(item.input),
            Nonces::OfMessage(key) => {
                let length = u64::try_from(item.aad.len()).unwrap_or(u64::MAX).to_be_bytes();
                key.tag_of(&[&length, item.aad, item.input])
            }
        };
        Ok(long.first_chunk().copied().unwrap_or_default())
    }
}

fn seal_one(
    aead: &impl AeadInOut<NonceSize = U12, TagSize = U16>,
    item: &mut Item<'_>,
    nonce: &[u8; NONCE],
) -> Result<usize, ItemError> {
    check_lengths(item)?;
    let sealed = item.input.len() + FRAME;
    let output = item.output.get_mut(..sealed).ok_or(ItemError::OutputShort)?;
    let (front, rest) = output.split_first_chunk_mut().ok_or(ItemError::OutputShort)?;
    let (text, back) = rest.split_last_chunk_mut().ok_or(ItemError::OutputShort)?;
    let buffer = InOutBuf::new(item.input, text).map_err(|_| ItemError::OutputShort)?;
    let tag = aead
        .encrypt_inout_detached(&(*nonce).into(), item.aad, buffer)
        .map_err(|_| ItemError::TooLong)?;
    *front = *nonce;
    *back = tag.into();
    Ok(sealed)
}

fn open_one<A: AeadInOut<NonceSize = U12, TagSize = U16>>(
    aead: &A,
    item: &mut Item<'_>,
) -> Result<usize, ItemError> {
    check_lengths(item)?;
    let (nonce, rest) = item.input.split_first_chunk::<NONCE>().ok_or(ItemError::Refused)?;
    let (text, tag) = rest.split_last_chunk::<TAG>().ok_or(ItemError::Refused)?;
    let output = item.output.get_mut(..text.len()).ok_or(ItemError::OutputShort)?;
    let (nonce, tag): (Nonce<A>, Tag<A>) = ((*nonce).into(), (*tag).into());
    let buffer = InOutBuf::new(text, &mut *output).map_err(|_| ItemError::OutputShort)?;
    if aead.decrypt_inout_detached(&nonce, item.aad, buffer, &tag).is_err() {
        output.fill(0);
        return Err(ItemError::Refused);
    }
    Ok(text.len())
}

#[cfg(test)]
mod tests;
