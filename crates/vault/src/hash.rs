//! Hashes of data, plain and under a key, by the names that Transit gives them.

use std::fmt;
use std::str::FromStr;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};
use sha3::{Sha3_224, Sha3_256, Sha3_384, Sha3_512};
use thiserror::Error;

/// Bytes of the longest hash.
const LONGEST: usize = 64;

/// A hash of the SHA-2 family (FIPS 180-4) or the SHA-3 family (FIPS 202).
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
    /// SHA3-224.
    Sha3With224,
    /// SHA3-256.
    Sha3With256,
    /// SHA3-384.
    Sha3With384,
    /// SHA3-512.
    Sha3With512,
}

/// No algorithm has this name.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("unsupported algorithm: expected sha2- or sha3- and 224, 256, 384 or 512")]
pub struct UnknownAlgorithm;

impl FromStr for HashAlgorithm {
    type Err = UnknownAlgorithm;

    fn from_str(name: &str) -> Result<HashAlgorithm, UnknownAlgorithm> {
        match name {
            "sha2-224" => Ok(HashAlgorithm::Sha224),
            "sha2-256" => Ok(HashAlgorithm::Sha256),
            "sha2-384" => Ok(HashAlgorithm::Sha384),
            "sha2-512" => Ok(HashAlgorithm::Sha512),
            "sha3-224" => Ok(HashAlgorithm::Sha3With224),
            "sha3-256" => Ok(HashAlgorithm::Sha3With256),
            "sha3-384" => Ok(HashAlgorithm::Sha3With384),
            "sha3-512" => Ok(HashAlgorithm::Sha3With512),
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
            HashAlgorithm::Sha3With224 => HashSum::of(&Sha3_224::digest(data)),
            HashAlgorithm::Sha3With256 => HashSum::of(&Sha3_256::digest(data)),
            HashAlgorithm::Sha3With384 => HashSum::of(&Sha3_384::digest(data)),
            HashAlgorithm::Sha3With512 => HashSum::of(&Sha3_512::digest(data)),
        }
    }

    /// Returns the HMAC (RFC 2104) of a message under a key of any length.
    pub(crate) fn tag(self, key: &[u8], message: &[u8]) -> HashSum {
        match self {
            HashAlgorithm::Sha224 => tagged::<Hmac<Sha224>>(key, message),
            HashAlgorithm::Sha256 => tagged::<Hmac<Sha256>>(key, message),
            HashAlgorithm::Sha384 => tagged::<Hmac<Sha384>>(key, message),
            HashAlgorithm::Sha512 => tagged::<Hmac<Sha512>>(key, message),
            HashAlgorithm::Sha3With224 => tagged::<Hmac<Sha3_224>>(key, message),
            HashAlgorithm::Sha3With256 => tagged::<Hmac<Sha3_256>>(key, message),
            HashAlgorithm::Sha3With384 => tagged::<Hmac<Sha3_384>>(key, message),
            HashAlgorithm::Sha3With512 => tagged::<Hmac<Sha3_512>>(key, message),
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
        for name in ["", "sha2", "sha256", "SHA2-256", "sha3", "sha3-128", "md5"] {
            assert_eq!(name.parse::<HashAlgorithm>(), Err(UnknownAlgorithm), "{name}");
        }
    }

    /// FIPS 202's example "abc", NIST's of HMAC with the key "Jefe", and keys longer than a block, as Python's hashlib over OpenSSL has them.
    #[test]
    fn sha3_has_the_vectors_of_the_standards() {
        let hex = |sum: HashSum| -> String {
            sum.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
        };
        let known = [
            (
                "sha3-224",
                "e642824c3f8cf24ad09234ee7d3c766fc9a3a5168d0c94ad73b46fdf",
                "7fdb8dd88bd2f60d1b798634ad386811c2cfc85bfaf5d52bbace5e66",
                "d9016ebbf443ee5380e4693f48218973b40bf6e14358a302adaba272",
            ),
            (
                "sha3-256",
                "3a985da74fe225b2045c172d6bd390bd855f086e3e9d525b46bfe24511431532",
                "c7d4072e788877ae3596bbb0da73b887c9171f93095b294ae857fbe2645e1ba5",
                "29565b577630949e0ede51a9b21c505987709e280d18f07852d81df8a560b673",
            ),
            (
                "sha3-384",
                "ec01498288516fc926459f58e2c6ad8df9b473cb0fc08c2596da7cf0e49be4b298d88cea927ac7f539f1edf228376d25",
                "f1101f8cbf9766fd6764d2ed61903f21ca9b18f57cf3e1a23ca13508a93243ce48c045dc007f26a21b3f5e0e9df4c20a",
                "b285979a3ee203bf747a527cc4eb58eeab4013e19276e065695913d7e2fd0c94db896a124fafc70d8a6ebb54b9740721",
            ),
            (
                "sha3-512",
                "b751850b1a57168a5693cd924b6b096e08f621827444f70d884f5d0240d2712e10e116e9192af3c91a7ec57647e3934057340b4cf408d5a56592f8274eec53f0",
                "5a4bfeab6166427c7a3647b747292b8384537cdb89afb3bf5665e4c5e709350b287baec921fd7ca0ee7a0c31d022a95e1fc92ba9d77df883960275beb4e62024",
                "924882f1f48e17f9ca1cb67a89e2e6ed43f96c87841486e6fa4ddd7045582783c9ec6b7acac8117c65cab855f7e0229dda1e31e6d1d7dd6709b26c554ae09e2a",
            ),
        ];
        for (name, sum, tag, of_long) in known {
            let algorithm: HashAlgorithm = name.parse().unwrap();
            assert_eq!(hex(algorithm.sum(b"abc")), sum, "{name}");
            let message = b"what do ya want for nothing?";
            assert_eq!(hex(algorithm.tag(b"Jefe", message)), tag, "{name}");
            assert_eq!(hex(algorithm.tag(&[9; 200], &[7; 200])), of_long, "{name}");
        }
    }
}
