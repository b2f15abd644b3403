//! Random bits for nonces, at a nanosecond each.
//!
//! Asking the operating system costs 260 ns and more, as much as sealing ten messages. So a generator stands between: `CTR_DRBG` of NIST SP
//! 800-90A (section 10.2.1) over AES-256, without derivation function, seeded with 48 bytes from the operating system. 16 KiB
//! are one request of the standard and end with its update, so that a stolen state tells of what was handed out before at most that much.
//!
//! What a copy of the generator could do harm, and what is done about it:
//!
//! | a copy by | answer |
//! | --- | --- |
//! | `fork` | a page that the kernel wipes in the child; seen before the next bit is handed out, and seeded anew |
//! | a restored backup | nothing of the generator is stored; a process seeds it when it starts |
//! | a snapshot of a virtual machine, started twice | fresh seed material at the beginning of each batch of 1,000 messages and more, at the latest after 1,000 messages in smaller ones, and for **every** batch (each 256 messages of it) of a type whose nonces must not repeat (GCM). A copy taken within a batch ends that batch with the same messages, so it makes the same ciphertexts, not others under the same nonces |

use aes::cipher::{BlockCipherEncrypt, KeyInit};
use aes::{Aes256Enc, Block};
use zeroize::{Zeroize, Zeroizing};

use crate::ItemError;
use crate::lanes::{self, BLOCK, LANES};
use crate::memory::ForkGuard;

/// Blocks of a request of the standard (16 KiB; it allows 64).
const REQUEST: usize = 16 * LANES;
/// Bytes of key and counter: what a seed consists of.
const SEED: usize = 48;
/// Messages after which a generator that serves small batches takes a fresh seed.
const MESSAGES_MAX: usize = 1000;

/// Blocks up to which the operating system is asked for them directly.
const DIRECT_MAX: usize = 8;

/// How much a type loses when a nonce repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NonceNeed {
    /// A repeated nonce breaks the key: every batch begins with a fresh seed.
    Unique,
    /// A repeated nonce shows that two plaintexts (or their beginnings) are equal.
    Spread,
}

/// A generator of random bits. It belongs to one thread: make one for each.
pub struct Drbg {
    cipher: Aes256Enc,
    counter: u128,
    store: Box<[Block; LANES]>,
    used: usize,
    generated: usize,
    messages: usize,
    guard: ForkGuard,
}

impl Drbg {
    /// Returns a generator with a fresh seed.
    ///
    /// # Errors
    /// [`ItemError::NoRandomness`] if the operating system gives none.
    pub fn new() -> Result<Drbg, ItemError> {
        let mut drbg = Drbg::from_seed(&[0; SEED]);
        drbg.reseed()?;
        Ok(drbg)
    }

    /// Returns the generator of a seed, as the standard instantiates it: the update of an all-zero state.
    fn from_seed(seed: &[u8; SEED]) -> Drbg {
        let mut drbg = Drbg {
            cipher: Aes256Enc::new(&[0; 32].into()),
            counter: 0,
            store: Box::new([Block::default(); LANES]),
            used: LANES,
            generated: 0,
            messages: 0,
            guard: ForkGuard::new(),
        };
        drbg.update(seed);
        drbg
    }

    /// Prepares for a batch of `messages`: takes a fresh seed where one is due.
    ///
    /// # Errors
    /// [`ItemError::NoRandomness`] if one is due and the operating system gives none. Nothing may be sealed then.
    pub(crate) fn begin(&mut self, messages: usize, need: NonceNeed) -> Result<(), ItemError> {
        self.messages = self.messages.saturating_add(messages);
        let due = need == NonceNeed::Unique || self.messages >= MESSAGES_MAX;
        if due || self.guard.is_other_process() { self.reseed() } else { Ok(()) }
    }

    /// Mixes 48 bytes from the operating system into the state and forgets what was not handed out.
    ///
    /// # Errors
    /// [`ItemError::NoRandomness`] if the operating system gives none; the generator is as it was.
    pub fn reseed(&mut self) -> Result<(), ItemError> {
        let mut seed = Zeroizing::new([0; SEED]);
        getrandom::fill(seed.as_mut_slice()).map_err(|_| ItemError::NoRandomness)?;
        self.update(&seed);
        lanes::wipe(self.store.as_mut_slice());
        self.used = LANES;
        self.messages = 0;
        self.guard.arm();
        Ok(())
    }

    /// Fills `blocks` for messages of which each needs a block that never repeats: fresh from the operating system, directly where they are
    /// few, else through a fresh seed.
    ///
    /// # Errors
    /// [`ItemError::NoRandomness`] if the operating system gives none. Nothing may be sealed then.
    pub(crate) fn unique_blocks(&mut self, blocks: &mut [Block]) -> Result<(), ItemError> {
        if blocks.len() > DIRECT_MAX {
            self.begin(blocks.len(), NonceNeed::Unique)?;
            self.blocks(blocks);
            return Ok(());
        }
        let mut bytes = [0; DIRECT_MAX * BLOCK];
        let bytes = bytes.get_mut(..blocks.len() * BLOCK).unwrap_or_default();
        getrandom::fill(bytes).map_err(|_| ItemError::NoRandomness)?;
        for (block, bytes) in blocks.iter_mut().zip(bytes.as_chunks().0) {
            block.0 = *bytes;
        }
        Ok(())
    }

    /// Fills `blocks` with random bits. After a fork call [`Drbg::begin`] first.
    #[inline]
    pub(crate) fn blocks(&mut self, blocks: &mut [Block]) {
        // Whole steps go to the caller without a detour over the store.
        let (steps, mut left) = blocks.as_chunks_mut::<LANES>();
        for step in steps {
            generate(&self.cipher, &mut self.counter, step);
            self.count();
        }
        while !left.is_empty() {
            if self.used == LANES {
                generate(&self.cipher, &mut self.counter, &mut self.store);
                self.used = 0;
                self.count();
            }
            let stored = self.store.get_mut(self.used..).unwrap_or_default();
            let count = stored.len().min(left.len());
            let (now, later) = left.split_at_mut(count);
            for (to, from) in now.iter_mut().zip(stored) {
                *to = *from;
                *from = Block::default();
            }
            self.used += count;
            left = later;
        }
    }

    /// Fills `bytes` with random bits.
    ///
    /// # Errors
    /// [`ItemError::NoRandomness`] if a fresh seed is due and the operating system gives none.
    pub fn fill(&mut self, bytes: &mut [u8]) -> Result<(), ItemError> {
        self.begin(bytes.len().div_ceil(BLOCK), NonceNeed::Spread)?;
        for chunk in bytes.chunks_mut(BLOCK) {
            let mut block = [Block::default()];
            self.blocks(&mut block);
            for (to, from) in chunk.iter_mut().zip(block.iter().flatten()) {
                *to = *from;
            }
            lanes::wipe(&mut block);
        }
        Ok(())
    }

    /// Counts what was generated, and ends the request of the standard where it is long enough: the key that made it is gone then.
    #[inline]
    fn count(&mut self) {
        self.generated += LANES;
        if self.generated >= REQUEST {
            self.generated = 0;
            self.update(&[0; SEED]);
        }
    }

    /// Replaces key and counter by the next 48 bytes, XORed with `data` (section 10.2.1.2).
    fn update(&mut self, data: &[u8; SEED]) {
        let mut state = [Block::default(); SEED / BLOCK];
        for block in &mut state {
            self.counter = self.counter.wrapping_add(1);
            *block = self.counter.to_be_bytes().into();
        }
        self.cipher.encrypt_blocks(&mut state);
        let mut bytes = Zeroizing::new([0; SEED]);
        for ((to, from), data) in bytes.iter_mut().zip(state.iter().flatten()).zip(data) {
            *to = from ^ data;
        }
        lanes::wipe(&mut state);
        if let (Some(key), Some(counter)) = (bytes.first_chunk::<32>(), bytes.last_chunk::<16>()) {
            self.cipher = Aes256Enc::new(key.into());
            self.counter = u128::from_be_bytes(*counter);
        }
    }
}

/// Generates the next bits of a counter.
#[inline]
fn generate(cipher: &Aes256Enc, counter: &mut u128, blocks: &mut [Block; LANES]) {
    for block in blocks.iter_mut() {
        *counter = counter.wrapping_add(1);
        *block = counter.to_be_bytes().into();
    }
    cipher.encrypt_blocks(blocks);
}

impl std::fmt::Debug for Drbg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Drbg { .. }")
    }
}

impl Drop for Drbg {
    fn drop(&mut self) {
        lanes::wipe(self.store.as_mut_slice());
        self.counter.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes<const N: usize>(hex: &str) -> [u8; N] {
        let digits = |at: usize| u8::from_str_radix(&hex[at * 2..at * 2 + 2], 16).unwrap();
        std::array::from_fn(digits)
    }

    /// NIST's CAVP vectors of CTR_DRBG, AES-256 without derivation function, no prediction resistance, count 0: the second request of 64
    /// bytes. The generator's own requests are longer, so the test ends the first one itself.
    #[test]
    fn requests_are_those_of_the_standard() {
        let mut drbg = Drbg::from_seed(&bytes(concat!(
            "df5d73faa468649edda33b5cca79b0b05600419ccb7a879ddfec9db32ee494e5",
            "531b51de16a30f769262474c73bec010"
        )));
        drbg.counter = drbg.counter.wrapping_add(4);
        drbg.update(&[0; SEED]);
        let mut blocks = [Block::default(); LANES];
        drbg.blocks(&mut blocks);
        let expected: [u8; 64] = bytes(concat!(
            "d1c07cd95af8a7f11012c84ce48bb8cb87189e99d40fccb1771c619bdf82ab22",
            "80b1dc2f2581f39164f7ac0c510494b3a43c41b7db17514c87b107ae793e01c5"
        ));
        assert_eq!(Block::cast_slice_to_core(&blocks[..4]).as_flattened(), expected);
    }

    #[test]
    fn what_is_handed_out_is_forgotten_and_not_repeated() {
        let mut drbg = Drbg::from_seed(&[7; SEED]);
        let mut seen = std::collections::HashSet::new();
        for count in [1, 3, 63, 64, 65, 200, 1, 130, 7].into_iter().cycle().take(60) {
            let mut blocks = vec![Block::default(); count];
            drbg.blocks(&mut blocks);
            assert!(blocks.iter().all(|block| seen.insert(block.0)), "a block came twice");
            assert!(drbg.store[..drbg.used].iter().all(|block| block.0 == [0; 16]), "wiped");
        }
        let cipher_before = {
            let mut block = Block::default();
            drbg.cipher.encrypt_block(&mut block);
            block
        };
        drbg.blocks(&mut vec![Block::default(); REQUEST]);
        let mut block = Block::default();
        drbg.cipher.encrypt_block(&mut block);
        assert_ne!(block, cipher_before, "the key of a request ends with it");
    }

    #[test]
    fn a_seed_is_due_where_the_table_says() {
        let mut drbg = Drbg::new().unwrap();
        drbg.begin(MESSAGES_MAX - 1, NonceNeed::Spread).unwrap();
        assert_eq!(drbg.messages, MESSAGES_MAX - 1, "no seed yet");
        drbg.begin(1, NonceNeed::Spread).unwrap();
        assert_eq!(drbg.messages, 0, "a seed");
        drbg.begin(1, NonceNeed::Unique).unwrap();
        assert_eq!(drbg.messages, 0, "a seed for every batch");
    }
}
