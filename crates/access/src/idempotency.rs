//! Keys of idempotency: what a request with one is known by.

use std::fmt;

use sha2::{Digest, Sha256};

/// Bits of a hash below those that say whose it is.
const CALLER_SHIFT: u32 = 96;

/// The secret of a node that keys are hashed under, so that nobody outside can choose two that meet, or find out from a hash
/// what the key was.
#[derive(Clone, PartialEq, Eq)]
pub struct KeySecret([u8; 16]);

impl fmt::Debug for KeySecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeySecret(..)")
    }
}

/// What hashes of one purpose begin with, so that none is one of another.
#[derive(Clone, Copy)]
enum Purpose {
    Key = 1,
    Request,
    Caller,
}

impl KeySecret {
    /// A secret of 16 random bytes.
    #[must_use]
    pub fn new(random: [u8; 16]) -> KeySecret {
        KeySecret(random)
    }

    /// The hash of a principal's key for a call: in its 32 high bits [`KeySecret::caller`], so that whoever keeps hashes can count
    /// them by caller. The same key of another principal, or of another call, has another hash: nobody gets what another one was
    /// answered. An open door has one principal, with the empty name.
    #[must_use]
    pub fn key_hash(&self, principal: &str, call: &str, key: &[u8]) -> u128 {
        let of_key = self.hash(Purpose::Key, &[principal.as_bytes(), call.as_bytes(), key]);
        u128::from(self.caller(principal)) << CALLER_SHIFT | of_key >> (u128::BITS - CALLER_SHIFT)
    }

    /// What the hashes of all keys of a principal begin with.
    #[must_use]
    pub fn caller(&self, principal: &str) -> u32 {
        let hash = self.hash(Purpose::Caller, &[principal.as_bytes()]);
        u32::try_from(hash >> CALLER_SHIFT).unwrap_or(u32::MAX)
    }

    /// The digest of what is asked: the path, the body, whatever decides about the answer.
    #[must_use]
    pub fn digest(&self, parts: &[&[u8]]) -> u128 {
        self.hash(Purpose::Request, parts)
    }

    /// SHA-256 over the secret and the parts, each behind its length, cut to 128 bits: what is cut off keeps anybody from
    /// going on from a hash that he knows.
    fn hash(&self, purpose: Purpose, parts: &[&[u8]]) -> u128 {
        let mut sum = Sha256::new();
        sum.update(self.0);
        sum.update([purpose as u8]);
        for part in parts {
            sum.update((part.len() as u64).to_le_bytes());
            sum.update(part);
        }
        let sum: [u8; 32] = sum.finalize().into();
        let (half, _) = sum.split_first_chunk().expect("32 bytes are more than 16");
        u128::from_le_bytes(*half)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret() -> KeySecret {
        KeySecret::new(*b"0123456789abcdef")
    }

    #[test]
    fn every_part_of_a_name_counts() {
        let hash = secret().key_hash("ab", "spend", b"c");
        assert_eq!(hash, secret().key_hash("ab", "spend", b"c"));
        let others = [
            secret().key_hash("a", "spend", b"bc"),
            secret().key_hash("a", "bspend", b"c"),
            secret().key_hash("ab", "settle", b"c"),
            secret().key_hash("", "spend", b"abc"),
            secret().key_hash("ab", "spend", b"d"),
            secret().digest(&[b"ab", b"c"]),
            KeySecret::new([0; 16]).key_hash("ab", "spend", b"c"),
        ];
        assert!(!others.contains(&hash), "{others:x?}");
        let of = |principal| u128::from(secret().caller(principal));
        assert!(hash >> 96 == of("ab") && others[2] >> 96 == of("ab") && of("a") != of("ab"));
    }

    #[test]
    fn parts_of_a_request_do_not_run_together() {
        let digests = [
            secret().digest(&[b"/v1/spend", b"{}"]),
            secret().digest(&[b"/v1/spend{", b"}"]),
            secret().digest(&[b"/v1/spend{}"]),
            secret().digest(&[b"/v1/spend{}", b""]),
        ];
        for (index, digest) in digests.iter().enumerate() {
            assert!(!digests[..index].contains(digest), "{index}");
        }
    }

    /// Hashes are in journals, so they must never change between versions. Computed by another implementation of SHA-256.
    #[test]
    fn golden_hash() {
        assert_eq!(secret().key_hash("team", "spend", b"k-1"), GOLDEN);
    }

    const GOLDEN: u128 = 0x2f3f_e6e8_68f8_4eac_9867_b70b_57b7_e09f;

    #[test]
    fn debug_output_does_not_show_the_secret() {
        assert_eq!(format!("{:?}", secret()), "KeySecret(..)");
    }
}
