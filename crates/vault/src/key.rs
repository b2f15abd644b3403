//! Keys, expanded for use, and their types.

use std::fmt;
use std::str::FromStr;

use aes_gcm::{Aes128Gcm, Aes256Gcm};
use aes_gcm_siv::Aes256GcmSiv;
use thiserror::Error;

use crate::aead::{self, AeadKey};
use crate::cbc_cmac::{self, CbcCmac};
use crate::cbc_hmac::{self, CbcHmac};
use crate::{Drbg, Item, KEY_BYTES, SecretKey};

/// How messages are sealed. The crate's README says what each type promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyType {
    /// AES-256-GCM with random 96-bit nonces, byte for byte as Transit.
    Aes256Gcm96,
    /// The same with AES-128, byte for byte as Transit.
    Aes128Gcm96,
    /// AES-256-GCM-SIV (RFC 8452): forgives a repeated nonce. The default for rows that are kept.
    Aes256GcmSiv,
    /// AES-256 in CBC mode, then AES-CMAC, over lanes: the bulk type.
    Aes256CbcCmac,
    /// AES-256 in CBC mode, then HMAC-SHA256.
    Aes256CbcHmacSha256,
}

impl KeyType {
    /// Every type.
    pub const ALL: [KeyType; 5] = [
        KeyType::Aes256Gcm96,
        KeyType::Aes128Gcm96,
        KeyType::Aes256GcmSiv,
        KeyType::Aes256CbcCmac,
        KeyType::Aes256CbcHmacSha256,
    ];

    /// Returns the name that clients write.
    pub const fn name(self) -> &'static str {
        match self {
            KeyType::Aes256Gcm96 => "aes256-gcm96",
            KeyType::Aes128Gcm96 => "aes128-gcm96",
            KeyType::Aes256GcmSiv => "aes256-gcm-siv",
            KeyType::Aes256CbcCmac => "aes256-cbc-cmac",
            KeyType::Aes256CbcHmacSha256 => "aes256-cbc-hmac-sha256",
        }
    }

    /// Returns the number that stands for the type where it is stored. Numbers are never given anew.
    pub const fn code(self) -> u8 {
        match self {
            KeyType::Aes256Gcm96 => 1,
            KeyType::Aes256GcmSiv => 2,
            KeyType::Aes256CbcCmac => 3,
            KeyType::Aes256CbcHmacSha256 => 4,
            KeyType::Aes128Gcm96 => 5,
        }
    }

    /// Returns how many bytes a key has. Of a [`SecretKey`] the first so many are it, and the rest is not looked at.
    pub const fn key_bytes(self) -> usize {
        match self {
            KeyType::Aes128Gcm96 => KEY_BYTES / 2,
            KeyType::Aes256Gcm96
            | KeyType::Aes256GcmSiv
            | KeyType::Aes256CbcCmac
            | KeyType::Aes256CbcHmacSha256 => KEY_BYTES,
        }
    }

    /// Returns the bytes of a sealed message whose plaintext has `plaintext` bytes.
    pub fn sealed_len(self, plaintext: usize) -> usize {
        match self {
            KeyType::Aes256Gcm96 | KeyType::Aes128Gcm96 | KeyType::Aes256GcmSiv => {
                plaintext + aead::FRAME
            }
            KeyType::Aes256CbcCmac => cbc_cmac::sealed_len(plaintext),
            KeyType::Aes256CbcHmacSha256 => cbc_hmac::sealed_len(plaintext),
        }
    }

    /// Returns the bytes that the output must have to open a message of `sealed` bytes: the plaintext's, with its padding.
    pub fn opened_max(self, sealed: usize) -> usize {
        let frame = match self {
            KeyType::Aes256Gcm96 | KeyType::Aes128Gcm96 | KeyType::Aes256GcmSiv => aead::FRAME,
            KeyType::Aes256CbcCmac => cbc_cmac::FRAME,
            KeyType::Aes256CbcHmacSha256 => cbc_hmac::FRAME,
        };
        sealed.saturating_sub(frame)
    }

    /// Tells whether equal plaintexts can be made to give equal messages.
    pub const fn is_convergent(self) -> bool {
        matches!(self, KeyType::Aes256Gcm96 | KeyType::Aes128Gcm96 | KeyType::Aes256GcmSiv)
    }

    /// Returns how many messages one key version may seal.
    ///
    /// 2^32 where nonces are random and have 96 bits: the chance that two are equal stays below 2^-32 (NIST SP 800-38D, 8.3). 2^48 with CBC, whose
    /// IVs have 128 bits, from the birthday bound of a 128-bit block.
    pub const fn messages_max(self) -> u64 {
        match self {
            KeyType::Aes256Gcm96 | KeyType::Aes128Gcm96 | KeyType::Aes256GcmSiv => 1 << 32,
            KeyType::Aes256CbcCmac | KeyType::Aes256CbcHmacSha256 => 1 << 48,
        }
    }
}

impl fmt::Display for KeyType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why there is no key.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum KeyError {
    /// No type has this name.
    #[error("unknown key type")]
    UnknownType,
    /// A derived key needs a context, and an empty one is none.
    #[error(
        "missing 'context' for key derivation; the key was created using a derived key, which means additional, per-request information must be included in order to perform operations with the key"
    )]
    NoContext,
    /// Convergent encryption is possible with the GCM types only.
    #[error("convergent encryption is not supported for keys of type {0}")]
    NotConvergent(KeyType),
}

impl FromStr for KeyType {
    type Err = KeyError;

    fn from_str(name: &str) -> Result<KeyType, KeyError> {
        KeyType::ALL.into_iter().find(|kind| kind.name() == name).ok_or(KeyError::UnknownType)
    }
}

/// A key of one type, expanded for use. Sealing and opening take `&self`: threads share it.
pub struct Key {
    kind: KeyType,
    cipher: Cipher,
}

enum Cipher {
    Gcm(Box<AeadKey<Aes256Gcm>>),
    Gcm128(Box<AeadKey<Aes128Gcm>>),
    GcmSiv(Box<AeadKey<Aes256GcmSiv>>),
    CbcCmac(Box<CbcCmac>),
    CbcHmac(Box<CbcHmac>),
}

impl Key {
    /// Expands a key for a type. Two types make nothing of each other's messages, even with the same bytes.
    pub fn new(kind: KeyType, secret: &SecretKey) -> Key {
        let cipher = match kind {
            KeyType::Aes256Gcm96 => Cipher::Gcm(Box::new(AeadKey::gcm(secret))),
            KeyType::Aes128Gcm96 => Cipher::Gcm128(Box::new(AeadKey::gcm_128(secret))),
            KeyType::Aes256GcmSiv => Cipher::GcmSiv(Box::new(AeadKey::gcm_siv(secret))),
            KeyType::Aes256CbcCmac => Cipher::CbcCmac(Box::new(CbcCmac::new(secret))),
            KeyType::Aes256CbcHmacSha256 => Cipher::CbcHmac(Box::new(CbcHmac::new(secret))),
        };
        Key { kind, cipher }
    }

    /// Returns the key of a context (a customer, a tenant): HKDF-SHA256 without salt of `secret`. For Transit's types the info is the context
    /// alone, as there; the other types put a label before it.
    ///
    /// # Errors
    /// [`KeyError::NoContext`] if the context is empty.
    pub fn derived(kind: KeyType, secret: &SecretKey, context: &[u8]) -> Result<Key, KeyError> {
        if context.is_empty() {
            return Err(KeyError::NoContext);
        }
        let derived = match kind {
            KeyType::Aes256Gcm96 => secret.expand(&[context]),
            KeyType::Aes128Gcm96 => secret.expand_half(&[context]),
            _ => secret.expand(&[b"vault/1 context ", context]),
        };
        Ok(Key::new(kind, &derived))
    }

    /// Returns the convergent key of a context: equal plaintexts make equal sealed messages, so they can be looked up, and so everybody who
    /// sees them sees which are equal.
    ///
    /// `aes256-gcm96` and `aes128-gcm96` do it as Transit (its version 3), where the nonce depends on the plaintext alone. The same plaintext with other
    /// associated data would repeat a nonce with another tag, which gives GCM's authentication key away; so such messages are opened here,
    /// and not sealed ([`ItemError::ConvergentAad`](crate::ItemError::ConvergentAad)). `aes256-gcm-siv` makes nonces of both and takes any.
    ///
    /// # Errors
    /// [`KeyError::NoContext`] if the context is empty, [`KeyError::NotConvergent`] for the CBC types.
    pub fn convergent(kind: KeyType, secret: &SecretKey, context: &[u8]) -> Result<Key, KeyError> {
        if context.is_empty() {
            return Err(KeyError::NoContext);
        }
        let cipher = match kind {
            KeyType::Aes256Gcm96 => Cipher::Gcm(Box::new(AeadKey::gcm_convergent(secret, context))),
            KeyType::Aes128Gcm96 => {
                Cipher::Gcm128(Box::new(AeadKey::gcm_128_convergent(secret, context)))
            }
            KeyType::Aes256GcmSiv => {
                Cipher::GcmSiv(Box::new(AeadKey::gcm_siv_convergent(secret, context)))
            }
            KeyType::Aes256CbcCmac | KeyType::Aes256CbcHmacSha256 => {
                return Err(KeyError::NotConvergent(kind));
            }
        };
        Ok(Key { kind, cipher })
    }

    /// Returns the type.
    pub fn kind(&self) -> KeyType {
        self.kind
    }

    /// Seals every item; each has its own outcome. The caller counts messages: see [`MessageCount`](crate::MessageCount).
    pub fn seal(&self, items: &mut [Item<'_>], random: &mut Drbg) {
        match &self.cipher {
            Cipher::Gcm(key) => key.seal(items, random),
            Cipher::Gcm128(key) => key.seal(items, random),
            Cipher::GcmSiv(key) => key.seal(items, random),
            Cipher::CbcCmac(key) => key.seal(items, random),
            Cipher::CbcHmac(key) => key.seal(items, random),
        }
    }

    /// Opens every item; each has its own outcome.
    pub fn open(&self, items: &mut [Item<'_>]) {
        match &self.cipher {
            Cipher::Gcm(key) => key.open(items),
            Cipher::Gcm128(key) => key.open(items),
            Cipher::GcmSiv(key) => key.open(items),
            Cipher::CbcCmac(key) => key.open(items),
            Cipher::CbcHmac(key) => key.open(items),
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key {{ kind: {}, .. }}", self.kind)
    }
}
