//! Authenticated encryption of many short messages in one call: the key types of Transit, and a bulk type over lanes.
//!
//! A [`Key`] of a [`KeyType`] seals and opens slices of [`Item`]s; each item has its own outcome, and nothing is allocated for it. Nonces
//! come from a [`Drbg`]. [`Versions`] keeps the versions of a key, [`MessageCount`] refuses what is too much for one of them,
//! [`KeyEncryptionKey`] wraps keys,
//! [`Keys`] are named keys with policies and versions, [`KeyStore`] keeps their changes, [`HmacKey`] makes tags of messages that stay where they are. [`write_text`] and [`read_text`] are
//! Transit's form of a sealed message.
//!
//! The README of the crate says what each type promises and what it does not, and states the formats.

mod aead;
mod cbc_cmac;
mod cbc_hmac;
mod count;
mod drbg;
mod hash;
mod hmac_key;
mod item;
mod key;
mod keys;
mod lanes;
mod memory;
mod row;
mod secret;
mod text;
mod versions;
mod wiped;
mod wrap;

pub use count::MessageCount;
pub use drbg::{Drbg, NonceNeed};
pub use hash::{HashAlgorithm, HashSum, UnknownAlgorithm};
pub use hmac_key::{HMAC_BYTES, HmacKey, HmacKeyLength};
pub use item::{INPUT_BYTES_MAX, Item, ItemError};
pub use key::{Key, KeyError, KeyType};
pub use keys::{
    AppendError, BadName, BlockUsed, Change, ChangeError, ContextError, HMAC_KEY_BYTES, KeyBackup,
    KeyBackupVersion, KeyConfig, KeyKind, KeyName, KeyPolicy, KeyRecords, KeyStore, KeyStoreError,
    KeyVersion, Keys, MemoryRecords, NamedKey, RESERVED_BLOCK, RecordError, Sealed, UnsealError,
    VersionCount,
};
pub use memory::protect_process;
pub use row::{ROW_AAD_BYTES, RowPlace};
pub use secret::{KEY_BYTES, SecretKey};
pub use text::{TextError, read_text, split_text, write_text};
pub use versions::{VersionError, Versions};
pub use wiped::{WipedBytes, reserve_wiped};
pub use wrap::{FINGERPRINT_BYTES, KeyEncryptionKey, WRAPPED_BYTES};
