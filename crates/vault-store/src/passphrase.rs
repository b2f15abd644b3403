//! A passphrase as the key that wraps all keys: Argon2id (RFC 9106) over it, with a salt of the folder.
//!
//! ```text
//!   vault/passphrase    argon2id v=19 m=65536 t=3 p=4 salt=32 HEXADECIMAL DIGITS
//! ```
//! The file has no secret. It is written once, before the first key is wrapped: without it the passphrase is worth nothing.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use argon2::{Algorithm, Argon2, Params, Version};
use vault::{Drbg, KEY_BYTES, KeyEncryptionKey, SecretKey};
use zeroize::Zeroizing;

/// Bytes that a new passphrase has at least.
pub const PASSPHRASE_BYTES_MIN: usize = 12;
/// Bytes that a passphrase has at most.
pub const PASSPHRASE_BYTES_MAX: usize = 1024;
pub(crate) const FILE: &str = "passphrase";
const FILE_BYTES_MAX: u64 = 256;
const SALT_BYTES: usize = 16;
/// The second recommended set of RFC 9106: 64 MiB, three passes, four lanes.
const NEW: (u32, u32, u32) = (64 << 10, 3, 4);
/// What a file may ask for at most: 2 GiB, so that a foreign one does not hold the node up for ever.
const MEMORY_KIB_MAX: u32 = 2 << 20;
const PASSES_MAX: u32 = 64;
const LANES_MAX: u32 = 64;

/// Why a passphrase is no key. Nothing of it is repeated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PassphraseError {
    /// It has too few bytes, or too many.
    #[error(
        "the passphrase has {found} bytes, expected {PASSPHRASE_BYTES_MIN} to {PASSPHRASE_BYTES_MAX}"
    )]
    Length {
        /// How many it has.
        found: usize,
    },
    /// The folder was begun with a key, or not at all.
    #[error("the keys in {} were not begun with a passphrase: give the key that they were begun with", folder.display())]
    None {
        /// The folder.
        folder: PathBuf,
    },
    /// The file was changed, or is another one.
    #[error("{}: expected `argon2id v=19 m=KIB t=PASSES p=LANES salt=HEX`; restore it from a copy", path.display())]
    Form {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be read or written.
    #[error(transparent)]
    Disk(#[from] disk::Error),
    /// No randomness, or too little memory.
    #[error("the passphrase cannot be made a key: {0}")]
    Making(String),
}

struct Recipe {
    params: Params,
    salt: [u8; SALT_BYTES],
}

/// Makes a KEK of a passphrase, as the keys' folder says; with `first` also where the folder does not say yet. It takes 64 MiB of memory.
///
/// # Errors
/// A [`PassphraseError`].
pub fn kek_of_passphrase(
    folder: &Path,
    passphrase: &[u8],
    first: bool,
) -> Result<KeyEncryptionKey, PassphraseError> {
    let found = passphrase.len();
    let recipe = read(folder)?;
    let least = if recipe.is_some() { 1 } else { PASSPHRASE_BYTES_MIN };
    if !(least..=PASSPHRASE_BYTES_MAX).contains(&found) {
        return Err(PassphraseError::Length { found });
    }
    let recipe = match recipe {
        Some(recipe) => recipe,
        None if first => make(folder)?,
        None => return Err(PassphraseError::None { folder: folder.to_owned() }),
    };
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, recipe.params);
    let mut key = Zeroizing::new([0; KEY_BYTES]);
    let made = argon2.hash_password_into(passphrase, &recipe.salt, key.as_mut_slice());
    made.map_err(|error| PassphraseError::Making(error.to_string()))?;
    Ok(KeyEncryptionKey::new(&SecretKey::from_bytes(&key)))
}

/// What to say where a plain key is not the one of a folder that was begun with a passphrase; empty for other folders.
#[must_use]
pub fn passphrase_hint(folder: &Path) -> &'static str {
    match folder.join(FILE).exists() {
        true => "; these keys were begun with a passphrase: try --passphrase",
        false => "",
    }
}

fn params((memory, passes, lanes): (u32, u32, u32)) -> Option<Params> {
    Params::new(memory, passes, lanes, Some(KEY_BYTES)).ok()
}

fn read(folder: &Path) -> Result<Option<Recipe>, PassphraseError> {
    let path = folder.join(FILE);
    let bytes = match access::file::read_regular(&path, FILE_BYTES_MAX) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        read => read.map_err(|error| disk::Error::io(&path, "read", error))?,
    };
    let text = String::from_utf8(bytes).ok();
    let recipe = text.and_then(|text| parse(text.trim_end()));
    recipe.map(Some).ok_or(PassphraseError::Form { path })
}

fn parse(text: &str) -> Option<Recipe> {
    let ["argon2id", "v=19", memory, passes, lanes, salt] = text.split(' ').collect::<Vec<_>>()[..]
    else {
        return None;
    };
    let number = |text: &str, name: &str, max: u32| {
        let number: u32 = text.strip_prefix(name)?.parse().ok()?;
        (number <= max).then_some(number)
    };
    let wanted = (
        number(memory, "m=", MEMORY_KIB_MAX)?,
        number(passes, "t=", PASSES_MAX)?,
        number(lanes, "p=", LANES_MAX)?,
    );
    let digits = salt.strip_prefix("salt=").filter(|digits| digits.len() == 2 * SALT_BYTES)?;
    let salt = u128::from_str_radix(digits, 16).ok()?.to_be_bytes();
    Some(Recipe { params: params(wanted)?, salt })
}

fn make(folder: &Path) -> Result<Recipe, PassphraseError> {
    let none = |error: &dyn std::fmt::Display| PassphraseError::Making(error.to_string());
    let mut salt = [0; SALT_BYTES];
    Drbg::new().and_then(|mut random| random.fill(&mut salt)).map_err(|error| none(&error))?;
    let (memory, passes, lanes) = NEW;
    let digits = u128::from_be_bytes(salt);
    let text = format!("argon2id v=19 m={memory} t={passes} p={lanes} salt={digits:032x}\n");
    disk::make_folder(folder)?;
    let new = folder.join("passphrase.new");
    disk::replace(&new, &folder.join(FILE), text.as_bytes()).map_err(disk::Error::from)?;
    let params = params(NEW).ok_or_else(|| none(&io::Error::from(ErrorKind::InvalidInput)))?;
    Ok(Recipe { params, salt })
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPECTED: &str = "b09a699527a45dec3590459e9883493d8d60af3aa709f9e278e9ac3d0913372d";
    const WORDS: &[u8] = b"correct horse battery";

    fn file(folder: &Path, text: &str) {
        std::fs::write(folder.join(FILE), text).unwrap();
    }

    /// Of `secret`, made by the reference's tool: `printf secret | argon2 somesalt12345678 -id -t 1 -m 6 -p 1 -l 32 -r`.
    #[test]
    fn the_key_is_what_argon2id_makes() {
        let folder = tempfile::tempdir().unwrap();
        file(folder.path(), "argon2id v=19 m=64 t=1 p=1 salt=736f6d6573616c743132333435363738\n");
        let made = kek_of_passphrase(folder.path(), b"secret", false).unwrap();
        let expected = SecretKey::parse(EXPECTED.as_bytes()).unwrap();
        assert_eq!(made.fingerprint(), KeyEncryptionKey::new(&expected).fingerprint());
    }

    #[test]
    fn a_folder_keeps_its_salt_and_has_one_of_its_own() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let vault = one.path().join("vault");
        let made = kek_of_passphrase(&vault, WORDS, true).unwrap().fingerprint();
        let kept = std::fs::read(vault.join(FILE)).unwrap();
        assert_eq!(kek_of_passphrase(&vault, WORDS, true).unwrap().fingerprint(), made);
        assert_eq!(kek_of_passphrase(&vault, WORDS, false).unwrap().fingerprint(), made);
        assert_eq!(std::fs::read(vault.join(FILE)).unwrap(), kept, "it is written once");
        assert!(!String::from_utf8(kept).unwrap().contains("horse"));
        assert!(passphrase_hint(&vault).contains("try --passphrase"));
        assert_eq!(passphrase_hint(other.path()), "");
        let differs = kek_of_passphrase(other.path(), WORDS, true).unwrap().fingerprint();
        assert_ne!(differs, made);
        assert_ne!(kek_of_passphrase(&vault, b"x", false).unwrap().fingerprint(), made);
    }

    #[test]
    fn what_cannot_be_a_passphrase_is_told_and_nothing_is_written() {
        let folder = tempfile::tempdir().unwrap();
        for (words, first, expected) in [
            (&b"short"[..], true, "has 5 bytes, expected 12 to 1024"),
            (&[b'x'; 1025], true, "has 1025 bytes"),
            (WORDS, false, "were not begun with a passphrase"),
        ] {
            let error = kek_of_passphrase(folder.path(), words, first).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        }
        let good = "argon2id v=19 m=64 t=1 p=1 salt=736f6d6573616c743132333435363738";
        for (from, to) in
            [("argon2id", "argon2i"), ("m=64", "m=999999999"), ("t=1", "t=0"), ("738", "73")]
        {
            file(folder.path(), &good.replace(from, to));
            let error = kek_of_passphrase(folder.path(), WORDS, true).unwrap_err().to_string();
            assert!(error.contains("restore it from a copy"), "{error}");
        }
    }
}
