//! `aes256-cbc-cmac`: the bulk type.
//!
//! ```text
//!  0          16                        16 + n        32 + n
//!  +----------+-------------------------+-------------+
//!  |    IV    |  AES-256-CBC (PKCS #7)  |  AES-CMAC   |        n = 16 x (length / 16 + 1)
//!  +----------+-------------------------+-------------+
//!
//!  MACed:  "cbc-cmac" | length of the AAD in bytes, u64 big-endian | AAD, filled up with zeros to 16 | IV | ciphertext
//! ```
//!
//! Encrypt, then MAC: CBC of NIST SP 800-38A (6.2) with PKCS #7 padding (RFC 5652, 6.3), the MAC of SP 800-38B and RFC 4493 with AES-256,
//! under two keys that HKDF-SHA256 makes of the one that is given. The MACed text can be read in one way only: the first block says where the AAD
//! ends, and CMAC itself where the text ends. The whole text is a multiple of 16 bytes, so CMAC's second sub-key is never used.
//!
//! IVs are random 128 bits: CBC needs IVs that nobody foresees. A repeated IV shows how many first blocks two plaintexts share, no more. Keep a
//! key version below 2^48 messages (the MAC's bound for a forgery chance of 2^-32 and less).
//!
//! Opening compares the tag and checks the padding as one value, without a branch between: there is no difference to tell them apart
//! by.

use aes::cipher::consts::U16;
use aes::cipher::{BlockCipherEncrypt, KeyInit};
use aes::{Aes256Dec, Aes256Enc, Block};
use subtle::ConstantTimeEq;
use zeroize::Zeroize;

use crate::item::{Item, ItemError, check_lengths};
use crate::lanes::{self, BLOCK, FEW, LANES, STEPS, Scratch};
use crate::{Drbg, NonceNeed, SecretKey};

/// Bytes that a sealed message has besides its padded plaintext: IV and tag.
pub(crate) const FRAME: usize = 2 * BLOCK;
/// One in every byte.
const EVERY_BYTE: u128 = u128::MAX / 0xff;
const LABEL: [u8; 8] = *b"cbc-cmac";

/// A key of the type, expanded.
pub(crate) struct CbcCmac {
    encrypt: Aes256Enc,
    decrypt: Aes256Dec,
    mac: CmacKey,
}

/// Returns the bytes of a sealed message of `plaintext` bytes.
pub(crate) fn sealed_len(plaintext: usize) -> usize {
    padded_len(plaintext) + FRAME
}

#[inline]
fn padded_len(plaintext: usize) -> usize {
    (plaintext / BLOCK + 1) * BLOCK
}

impl CbcCmac {
    pub(crate) fn new(key: &SecretKey) -> CbcCmac {
        let enc = key.sub_key("aes256-cbc-cmac enc");
        CbcCmac::of_sub_keys(&enc, &key.sub_key("aes256-cbc-cmac mac"))
    }

    fn of_sub_keys(enc: &SecretKey, mac: &SecretKey) -> CbcCmac {
        CbcCmac {
            encrypt: Aes256Enc::new(enc.expose().into()),
            decrypt: Aes256Dec::new(enc.expose().into()),
            mac: CmacKey::new(Aes256Enc::new(mac.expose().into())),
        }
    }

    /// Seals every item.
    pub(crate) fn seal(&self, items: &mut [Item<'_>], random: &mut Drbg) {
        if let Err(error) = random.begin(items.len(), NonceNeed::Spread) {
            return items.iter_mut().for_each(|item| item.outcome = Err(error));
        }
        match items.len() {
            0..=1 => self.seal_in::<1>(items, random),
            2..=FEW => self.seal_in::<FEW>(items, random),
            _ => self.seal_in::<LANES>(items, random),
        }
    }

    /// Opens every item.
    pub(crate) fn open(&self, items: &mut [Item<'_>]) {
        match items.len() {
            0..=1 => self.open_in::<1>(items),
            2..=FEW => self.open_in::<FEW>(items),
            _ => self.open_in::<LANES>(items),
        }
    }

    fn open_in<const L: usize>(&self, items: &mut [Item<'_>]) {
        let mut scratch = Scratch::<L>::new();
        let mut groups = items.chunks_mut(L);
        let mut next = groups.next();
        while let Some(group) = next {
            next = groups.next();
            self.open_group(group, next.as_deref().unwrap_or_default(), &mut scratch);
        }
        lanes::wipe(scratch.text.as_flattened_mut());
    }

    fn seal_in<const L: usize>(&self, items: &mut [Item<'_>], random: &mut Drbg) {
        let mut scratch = Scratch::<L>::new();
        let mut groups = items.chunks_mut(L);
        let mut next = groups.next();
        while let Some(group) = next {
            next = groups.next();
            self.seal_group(group, next.as_deref().unwrap_or_default(), &mut scratch, random);
        }
    }

    fn seal_group<const L: usize>(
        &self,
        group: &mut [Item<'_>],
        next: &[Item<'_>],
        scratch: &mut Scratch<L>,
        random: &mut Drbg,
    ) {
        load(group, scratch, judge_plaintext, |item| item.input.len() / BLOCK + 1);
        random.blocks(scratch.ivs.get_mut(..group.len()).unwrap_or_default());
        for (lane, item) in group.iter().enumerate() {
            gather_plaintext(scratch, lane, item, 0);
            lanes::prefetch(next, lane);
        }
        self.mac.begin(group, scratch);
        scratch.chain = scratch.ivs;
        let longest = scratch.text_blocks.longest();
        for first in (0..longest).step_by(STEPS) {
            if first > 0 {
                for (lane, item) in group.iter().enumerate() {
                    gather_plaintext(scratch, lane, item, first);
                }
            }
            let Scratch { chain, mac, text, text_blocks, .. } = &mut *scratch;
            text_blocks.advance(&self.encrypt, chain, text, first, true, None);
            text_blocks.advance(&self.mac.cipher, mac, text, first, false, Some(&self.mac.last));
            for (lane, item) in group.iter_mut().enumerate() {
                write_sealed(item, scratch, lane, first);
            }
        }
    }

    fn open_group<const L: usize>(
        &self,
        group: &mut [Item<'_>],
        next: &[Item<'_>],
        scratch: &mut Scratch<L>,
    ) {
        load(group, scratch, judge_sealed, |item| item.outcome.unwrap_or_default() / BLOCK);
        for (lane, item) in group.iter().enumerate() {
            if let Some(block) = scratch.ivs.get_mut(lane) {
                block.0 = item.input.first_chunk().copied().unwrap_or_default();
            }
            lanes::gather(&mut scratch.text, lane, item.input, 1, None);
            lanes::prefetch(next, lane);
        }
        self.mac.begin(group, scratch);
        let longest = scratch.text_blocks.longest();
        for first in (0..longest).step_by(STEPS) {
            if first > 0 {
                for (lane, item) in group.iter().enumerate() {
                    lanes::gather(&mut scratch.text, lane, item.input, first + 1, None);
                }
            }
            let Scratch { mac, text, text_blocks, .. } = &mut *scratch;
            text_blocks.advance(&self.mac.cipher, mac, text, first, false, Some(&self.mac.last));
            lanes::decrypt(&self.decrypt, text, group.len(), longest - first);
            for (lane, item) in group.iter_mut().enumerate() {
                write_opened(item, scratch, lane, first);
            }
        }
    }
}

/// Judges every item of a group and copies its AAD, as far as a window reaches.
#[inline(always)]
fn load<'a, const L: usize>(
    group: &mut [Item<'a>],
    scratch: &mut Scratch<L>,
    judge: impl Fn(&Item<'a>) -> Result<usize, ItemError>,
    blocks: impl Fn(&Item<'a>) -> usize,
) {
    scratch.aad_blocks.clear();
    scratch.text_blocks.clear();
    for (lane, item) in group.iter_mut().enumerate() {
        item.outcome = judge(item);
        let works = item.outcome.is_ok();
        scratch.text_blocks.push(if works { blocks(item) } else { 0 });
        scratch.aad_blocks.push(if works { item.aad.len().div_ceil(BLOCK) } else { 0 });
        lanes::gather(&mut scratch.aad, lane, item.aad, 0, Some(0));
    }
}

#[inline(always)]
fn gather_plaintext<const L: usize>(
    scratch: &mut Scratch<L>,
    lane: usize,
    item: &Item<'_>,
    first: usize,
) {
    let filler = u8::try_from(BLOCK - item.input.len() % BLOCK).unwrap_or_default();
    lanes::gather(&mut scratch.text, lane, item.input, first, Some(filler));
}

/// Writes what a window has for an item: the IV at the beginning, blocks, the tag where the message ends.
#[inline(always)]
fn write_sealed<const L: usize>(
    item: &mut Item<'_>,
    scratch: &Scratch<L>,
    lane: usize,
    first: usize,
) {
    let Ok(sealed) = item.outcome else { return };
    let Some((iv, rest)) = item.output.get_mut(..sealed).and_then(<[u8]>::split_first_chunk_mut)
    else {
        return;
    };
    let Some((text, tag)) = rest.split_last_chunk_mut::<BLOCK>() else { return };
    if first == 0
        && let Some(block) = scratch.ivs.get(lane)
    {
        *iv = block.0;
    }
    lanes::scatter(&scratch.text, lane, text, first);
    if scratch.text_blocks.has_ended(lane, first + STEPS)
        && let Some(block) = scratch.mac.get(lane)
    {
        *tag = block.0;
    }
}

/// Writes what a window has for an item, and judges it where it ends.
#[inline(always)]
fn write_opened<const L: usize>(
    item: &mut Item<'_>,
    scratch: &Scratch<L>,
    lane: usize,
    first: usize,
) {
    let Ok(padded) = item.outcome else { return };
    // The outcome is the padded length until the item is judged; an item that is has ended before.
    if first * BLOCK >= padded {
        return;
    }
    // CBC: what was decrypted is the plaintext XORed with the sealed block before it, for the first one the IV.
    let output = item.output.get_mut(..padded).unwrap_or_default();
    lanes::scatter_xored(&scratch.text, lane, output, item.input, first);
    if scratch.text_blocks.has_ended(lane, first + STEPS)
        && let Some(tag) = scratch.mac.get(lane)
    {
        item.outcome = finish(item, padded, tag);
    }
}

/// Returns the bytes that the sealed item will have.
#[inline]
fn judge_plaintext(item: &Item<'_>) -> Result<usize, ItemError> {
    check_lengths(item)?;
    let sealed = sealed_len(item.input.len());
    if item.output.len() < sealed { Err(ItemError::OutputShort) } else { Ok(sealed) }
}

/// Returns the bytes of the padded plaintext.
#[inline]
fn judge_sealed(item: &Item<'_>) -> Result<usize, ItemError> {
    check_lengths(item)?;
    let padded = item.input.len().checked_sub(FRAME).ok_or(ItemError::Refused)?;
    if padded == 0 || !padded.is_multiple_of(BLOCK) {
        return Err(ItemError::Refused);
    }
    if item.output.len() < padded { Err(ItemError::OutputShort) } else { Ok(padded) }
}

/// Returns the length of the plaintext if neither tag nor padding differs from what it should be; wipes the plaintext otherwise.
#[inline]
fn finish(item: &mut Item<'_>, padded: usize, tag: &Block) -> Result<usize, ItemError> {
    let output = item.output.get_mut(..padded).ok_or(ItemError::OutputShort)?;
    let found = item.input.last_chunk::<BLOCK>().ok_or(ItemError::Refused)?;
    let last = output.last_chunk::<BLOCK>().ok_or(ItemError::Refused)?;
    let difference = u128::from_ne_bytes(*found) ^ u128::from_ne_bytes(tag.0);
    let last = u128::from_be_bytes(*last);
    // The last byte says how many of the bytes before it, 1 to 16 with itself, are equal to it.
    let filler = last & 0xff;
    let bits = u32::try_from(filler * 8).unwrap_or_default();
    let counted = u128::MAX.wrapping_shr(128_u32.wrapping_sub(bits));
    let outside = u128::from(filler.wrapping_sub(1) >= 16);
    let wrong = ((last ^ (filler * EVERY_BYTE)) & counted) | outside;
    if (difference | wrong).ct_eq(&0).into() {
        return Ok(padded - usize::try_from(filler).unwrap_or(padded));
    }
    output.fill(0);
    Err(ItemError::Refused)
}

/// The key of AES-CMAC with its first sub-key (RFC 4493, 2.3).
struct CmacKey<C = Aes256Enc> {
    cipher: C,
    last: [u8; BLOCK],
}

impl<C: BlockCipherEncrypt<BlockSize = U16>> CmacKey<C> {
    fn new(cipher: C) -> CmacKey<C> {
        let mut zero = Block::default();
        cipher.encrypt_block(&mut zero);
        let number = u128::from_be_bytes(zero.0);
        lanes::wipe(std::slice::from_mut(&mut zero));
        // Doubling in GF(2^128): the polynomial is added, without a branch, when a bit is shifted out.
        let carry = (number >> 127).wrapping_neg() & 0x87;
        CmacKey { cipher, last: ((number << 1) ^ carry).to_be_bytes() }
    }

    /// Takes header, AAD and IV of all lanes into fresh chains. The first window of the AAD is there already.
    #[inline]
    fn begin<const L: usize>(&self, group: &[Item<'_>], scratch: &mut Scratch<L>) {
        let first_len = group.first().map_or(0, |item| item.aad.len());
        if group.iter().all(|item| item.aad.len() == first_len) {
            let mut block = header(first_len);
            self.cipher.encrypt_block(&mut block);
            scratch.mac.fill(block);
        } else {
            for (block, item) in scratch.mac.iter_mut().zip(group) {
                *block = header(item.aad.len());
            }
            lanes::encrypt(&self.cipher, &mut scratch.mac, group.len());
        }
        let longest = scratch.aad_blocks.longest();
        for first in (0..longest).step_by(STEPS) {
            if first > 0 {
                for (lane, item) in group.iter().enumerate() {
                    lanes::gather(&mut scratch.aad, lane, item.aad, first, Some(0));
                }
            }
            let Scratch { mac, aad, aad_blocks, .. } = &mut *scratch;
            aad_blocks.advance(&self.cipher, mac, aad, first, false, None);
        }
        lanes::xor_all(&mut scratch.mac, &scratch.ivs, group.len());
        lanes::encrypt(&self.cipher, &mut scratch.mac, group.len());
    }
}

/// Returns the first block of the MACed text.
#[inline]
fn header(aad: usize) -> Block {
    let mut block = [0; BLOCK];
    let length = u64::try_from(aad).unwrap_or(u64::MAX).to_be_bytes();
    for (to, from) in block.iter_mut().zip(LABEL.into_iter().chain(length)) {
        *to = from;
    }
    block.into()
}

impl<C> Drop for CmacKey<C> {
    fn drop(&mut self) {
        self.last.zeroize();
    }
}

#[cfg(test)]
mod tests;
