//! Hashes of data, plain and under a key, by the names that Transit gives them.

use std::fmt;
use std::str::FromStr;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};
use thiserror::Error;

/// Bytes of the longest hash.
const LONGEST: usize = 64;

/// A hash of the SHA-2 family (FIPS 180-4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HashAlgorithm {
    /// SHA-224.
    Sha224,
    /// SHA-256, which is meant where nobody says.
    #[default]
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

/// No algorithm has this name.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("unsupported algorithm: expected sha2-224, sha2-256, sha2-384 or sha2-512")]
pub struct UnknownAlgorithm;

impl FromStr for HashAlgorithm {
    type Err = UnknownAlgorithm;

    fn from_str(name: &str) -> Result<HashAlgorithm, UnknownAlgorithm> {
        match name {
            "sha2-224" => Ok(HashAlgorithm::Sha224),
            "sha2-256" => Ok(HashAlgorithm::Sha256),
            "sha2-384" => Ok(HashAlgorithm::Sha384),
            "sha2-512" => Ok(HashAlgorithm::Sha512),
            _ => Err(UnknownAlgorithm),
        }
    }
}

/// A hash or a tag: 28 to 64 bytes.
#[derive(Clone, Copy)]
pub struct HashSum {
    bytes: [u8; LONGEST],
    len: usize,
}

impl HashSum {
    fn of(bytes: &[u8]) -> HashSum {
        let mut sum = HashSum { bytes: [0; LONGEST], len: bytes.len().min(LONGEST) };
        sum.bytes.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        sum
    }

    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

impl fmt::Debug for HashSum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HashSum {{ {} B }}", self.len)
    }
}

impl HashAlgorithm {
    /// Returns the hash of data.
    pub fn sum(self, data: &[u8]) -> HashSum {
        match self {
            HashAlgorithm::Sha224 => HashSum::of(&Sha224::digest(data)),
            HashAlgorithm::Sha256 => HashSum::of(&Sha256::digest(data)),
            HashAlgorithm::Sha384 => HashSum::of(&Sha384::digest(data)),
            HashAlgorithm::Sha512 => HashSum::of(&Sha512::digest(data)),
        }
    }

    /// Returns the HMAC (RFC 2104) of a message under a key of any length.
    pub(crate) fn tag(self, key: &[u8], message: &[u8]) -> HashSum {
        match self {
            HashAlgorithm::Sha224 => tagged::<Hmac<Sha224>>(key, message),
            HashAlgorithm::Sha256 => tagged::<Hmac<Sha256>>(key, message),
            HashAlgorithm::Sha384 => tagged::<Hmac<Sha384>>(key, message),
            HashAlgorithm::Sha512 => tagged::<Hmac<Sha512>>(key, message),
        }
    }
}

fn tagged<M: Mac + KeyInit>(key: &[u8], message: &[u8]) -> HashSum {
    // HMAC takes a key of any length, so an empty sum, which verifies nothing, never comes of it.
    let Ok(mut mac) = <M as KeyInit>::new_from_slice(key) else { return HashSum::of(&[]) };
    mac.update(message);
    HashSum::of(&mac.finalize().into_bytes())
}

#[cfg(test)]
mod tests {
    use ring::{digest, hmac};

    use super::*;

    #[test]
    fn sums_and_tags_are_those_of_another_implementation() {
        let known = [
            ("sha2-256", &digest::SHA256, hmac::HMAC_SHA256),
            ("sha2-384", &digest::SHA384, hmac::HMAC_SHA384),
            ("sha2-512", &digest::SHA512, hmac::HMAC_SHA512),
        ];
        for (name, plain, keyed) in known {
            let algorithm: HashAlgorithm = name.parse().unwrap();
            for length in [0, 1, 63, 64, 65, 127, 128, 129, 1000] {
                let (data, key) = (vec![7; length], vec![9; length]);
                assert_eq!(algorithm.sum(&data).as_bytes(), digest::digest(plain, &data).as_ref());
                let tag = hmac::sign(&hmac::Key::new(keyed, &key), &data);
                assert_eq!(algorithm.tag(&key, &data).as_bytes(), tag.as_ref(), "{name} {length}");
            }
        }
    }

    /// RFC 4231, test case 2, and FIPS 180-4's example "abc".
    #[test]
    fn sha224_has_the_vectors_of_the_standards() {
        let hex = |sum: HashSum| -> String {
            sum.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
        };
        let algorithm: HashAlgorithm = "sha2-224".parse().unwrap();
        assert_eq!(
            hex(algorithm.tag(b"Jefe", b"what do ya want for nothing?")),
            "a30e01098bc6dbbf45690f3a7e9e6d0f8bbea2a39e6148008fd05e44"
        );
        assert_eq!(
            hex(algorithm.sum(b"abc")),
            "23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7"
        );
        for name in ["", "sha2", "sha256", "SHA2-256", "sha3-256", "md5"] {
            assert_eq!(name.parse::<HashAlgorithm>(), Err(UnknownAlgorithm), "{name}");
        }
    }
}
