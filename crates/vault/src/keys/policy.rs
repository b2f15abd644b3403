//! What a named key is and may do.

use std::fmt;

use crate::{HmacKey, KEY_BYTES, KeyType};

/// Bytes that a key of the type `hmac` has where nobody says.
pub const HMAC_KEY_BYTES: u16 = 32;
/// Shortest period of rotation, in seconds.
pub(crate) const ROTATE_MIN_S: u64 = 3600;

/// What a named key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyKind {
    /// Seals and opens messages; makes tags with a key of its own beside.
    Sealing(KeyType),
    /// Makes tags only.
    Hmac {
        /// Bytes of a version's key, 32 to 512.
        key_bytes: u16,
    },
}

impl KeyKind {
    /// Returns the name that clients write.
    pub const fn name(self) -> &'static str {
        match self {
            KeyKind::Sealing(kind) => kind.name(),
            KeyKind::Hmac { .. } => HmacKey::NAME,
        }
    }

    /// Returns the type of its messages, if it seals any.
    pub const fn sealing(self) -> Option<KeyType> {
        match self {
            KeyKind::Sealing(kind) => Some(kind),
            KeyKind::Hmac { .. } => None,
        }
    }

    /// Returns how many secret bytes a version has.
    pub(crate) fn secret_bytes(self) -> usize {
        match self {
            KeyKind::Sealing(kind) => kind.key_bytes() + KEY_BYTES,
            KeyKind::Hmac { key_bytes } => usize::from(key_bytes),
        }
    }
}

impl fmt::Display for KeyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a named key is and may do. The words are Transit's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyPolicy {
    /// The type.
    pub kind: KeyKind,
    /// Each context has a key of its own, derived from the version's.
    pub derived: bool,
    /// Equal plaintexts of a context make equal messages. Only of derived keys.
    pub convergent: bool,
    /// The bytes of its versions may be read. Once on, it stays on.
    pub exportable: bool,
    /// It may leave as a whole, in clear. Once on, it stays on.
    pub allow_plaintext_backup: bool,
    /// It may be deleted.
    pub deletion_allowed: bool,
    /// Its bytes were made elsewhere.
    pub imported: bool,
    /// It seals and opens nothing until it is taken back ([`KeyConfig::soft_deleted`]).
    pub soft_deleted: bool,
    /// The least version that opens; from 1.
    pub min_decryption: u32,
    /// The least version that seals; 0: the latest alone is meant where nobody says, and any may be asked for.
    pub min_encryption: u32,
    /// The least version that was not destroyed; 0: none was.
    pub min_available: u32,
    /// Seconds after which a new version is due; 0: never.
    pub auto_rotate_s: u64,
}

impl KeyPolicy {
    /// Returns the policy of a new key without options.
    pub const fn new(kind: KeyKind) -> KeyPolicy {
        KeyPolicy {
            kind,
            derived: false,
            convergent: false,
            exportable: false,
            allow_plaintext_backup: false,
            deletion_allowed: false,
            imported: false,
            soft_deleted: false,
            min_decryption: 1,
            min_encryption: 0,
            min_available: 0,
            auto_rotate_s: 0,
        }
    }
}

/// What to change of a policy; `None` leaves a member as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyConfig {
    /// [`KeyPolicy::min_decryption`]; 0 means 1.
    pub min_decryption: Option<u32>,
    /// [`KeyPolicy::min_encryption`].
    pub min_encryption: Option<u32>,
    /// [`KeyPolicy::deletion_allowed`].
    pub deletion_allowed: Option<bool>,
    /// [`KeyPolicy::soft_deleted`].
    pub soft_deleted: Option<bool>,
    /// [`KeyPolicy::exportable`]; `false` is ignored once it is on, as in Transit.
    pub exportable: Option<bool>,
    /// [`KeyPolicy::allow_plaintext_backup`]; `false` is ignored once it is on.
    pub allow_plaintext_backup: Option<bool>,
    /// [`KeyPolicy::auto_rotate_s`]; 0, or at least an hour.
    pub auto_rotate_s: Option<u64>,
}
