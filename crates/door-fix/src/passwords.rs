//! Who may log on with which password: a file of lines `username argon2id-text`.
//!
//! Checking a password takes some ten milliseconds and megabytes of memory by design, so nobody does it on a thread that others wait for.

use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use subtle::ConstantTimeEq;

/// What a hash may cost: a file must not make a check take for ever.
const MEMORY_KIB_MAX: u32 = 256 << 10;
const PASSES_MAX: u32 = 16;
const LANES_MAX: u32 = 16;
const USERS_MAX: usize = 10_000;
const EXPECTED: &str =
    "`username argon2id-text`, the text as $argon2id$v=19$m=19456,t=2,p=1$SALT$HASH";

/// The users of one file.
#[derive(Clone, Debug)]
pub struct PasswordFile {
    users: Vec<(String, PasswordHash)>,
}

/// One hash of a password. It is never shown.
#[derive(Clone)]
pub struct PasswordHash {
    params: Params,
    salt: Vec<u8>,
    hash: Vec<u8>,
}

impl std::fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PasswordHash")
    }
}

/// What is wrong with a line of the file. No hash is repeated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}: {what}")]
pub struct PasswordFileError {
    /// The line, from 1; 0 for the whole file.
    pub line: usize,
    /// The fault, and what was expected.
    pub what: String,
}

impl PasswordFile {
    /// Reads the text of a file. Empty lines and lines that begin with `#` are passed over.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse(text: &str) -> Result<PasswordFile, Vec<PasswordFileError>> {
        let (mut users, mut errors) = (Vec::new(), Vec::new());
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let mut wrong = |what: String| errors.push(PasswordFileError { line: at + 1, what });
            match read_line(line) {
                Ok((name, _)) if users.iter().any(|(known, _)| known == name) => {
                    wrong(format!("user {name:?} appears twice"));
                }
                Ok((name, hash)) => users.push((name.to_owned(), hash)),
                Err(what) => wrong(what),
            }
        }
        if errors.is_empty() && !(1..=USERS_MAX).contains(&users.len()) {
            let what = format!("found {} users, expected 1 to {USERS_MAX}", users.len());
            errors.push(PasswordFileError { line: 0, what });
        }
        if errors.is_empty() { Ok(PasswordFile { users }) } else { Err(errors) }
    }

    /// Returns the hash of a user, and whether there is such a user: the hash is another's if not, so that a check takes as long.
    #[must_use]
    pub fn hash_of(&self, user: &[u8]) -> (PasswordHash, bool) {
        let found = self.users.iter().find(|(name, _)| name.as_bytes() == user);
        let hash = found.or(self.users.first()).map(|(_, hash)| hash.clone());
        // A file without users is refused.
        (hash.unwrap_or_else(PasswordHash::nobodys), found.is_some())
    }
}

impl PasswordHash {
    fn nobodys() -> PasswordHash {
        PasswordHash { params: Params::DEFAULT, salt: vec![0; 16], hash: Vec::new() }
    }

    /// Reads a text in the form of the password hashing competition.
    fn parse(text: &str) -> Option<PasswordHash> {
        let ["", "argon2id", "v=19", params, salt, hash] = text.split('$').collect::<Vec<_>>()[..]
        else {
            return None;
        };
        let [m, t, p] = params.split(',').collect::<Vec<_>>()[..] else { return None };
        let number = |text: &str, name: &str, max: u32| {
            let number: u32 = text.strip_prefix(name)?.parse().ok()?;
            (number <= max).then_some(number)
        };
        let (m, t, p) = (
            number(m, "m=", MEMORY_KIB_MAX)?,
            number(t, "t=", PASSES_MAX)?,
            number(p, "p=", LANES_MAX)?,
        );
        let salt =
            STANDARD_NO_PAD.decode(salt).ok().filter(|salt| (8..=64).contains(&salt.len()))?;
        let hash =
            STANDARD_NO_PAD.decode(hash).ok().filter(|hash| (16..=64).contains(&hash.len()))?;
        let params = Params::new(m, t, p, Some(hash.len())).ok()?;
        Some(PasswordHash { params, salt, hash })
    }

    /// Reports whether this is the password. Takes as long as the hash says.
    #[must_use]
    pub fn is_of(&self, password: &[u8]) -> bool {
        let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, self.params.clone());
        let mut found = vec![0; self.hash.len()];
        let hashed = argon2.hash_password_into(password, &self.salt, &mut found);
        hashed.is_ok() && bool::from(found.ct_eq(&self.hash)) && !self.hash.is_empty()
    }
}

fn read_line(line: &str) -> Result<(&str, PasswordHash), String> {
    let (name, text) = line
        .split_once(char::is_whitespace)
        .ok_or_else(|| format!("found one word, expected {EXPECTED}"))?;
    let hash = PasswordHash::parse(text.trim()).ok_or_else(|| {
        let bounds = format!("m at most {MEMORY_KIB_MAX}, t and p at most {PASSES_MAX}");
        format!("user {name:?}: found no such hash, expected {EXPECTED}; {bounds}")
    })?;
    Ok((name, hash))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of `secret`, made by the reference's tool: `printf secret | argon2 somesalt -id -t 1 -k 64 -p 1 -l 32 -e`.
    const SECRET: &str =
        "$argon2id$v=19$m=64,t=1,p=1$c29tZXNhbHQ$4mqQiyq0VpIzuZmp+8eSF3YJ7Av58TkEJ4LIdOVsAc4";

    #[test]
    fn a_password_is_known_by_its_hash_alone() {
        let file = PasswordFile::parse(&format!("# desk\n\nann {SECRET}\n")).unwrap();
        let (hash, is_user) = file.hash_of(b"ann");
        assert!(is_user && hash.is_of(b"secret"));
        for other in [&b""[..], b"Secret", b"secret\0", b"secretsecret", &[0xff; 300]] {
            assert!(!hash.is_of(other), "{other:?}");
        }
        assert!(!file.hash_of(b"bob").1);
        assert_eq!(format!("{file:?}").matches('$').count(), 0, "no hash is shown");
    }

    #[test]
    fn what_is_no_line_is_told_without_its_hash() {
        let secret = SECRET;
        for (line, expected) in [
            ("ann", "found one word"),
            ("ann plain", "found no such hash"),
            (&secret.replace("argon2id", "ann $argon2i"), "found no such hash"),
            (&format!("ann {}", secret.replace("m=64", "m=99999999")), "found no such hash"),
            (&format!("ann {}", secret.replace("t=1", "t=0")), "found no such hash"),
            (&format!("ann {}", &secret[..secret.len() - 1]), "found no such hash"),
            (&format!("ann {secret}\nann {secret}"), "appears twice"),
            ("", "found 0 users"),
        ] {
            let errors = PasswordFile::parse(line).unwrap_err();
            let told = errors[0].to_string();
            assert!(told.contains(expected), "{line}: {told}");
            assert!(!told.contains(secret.rsplit('$').next().unwrap()), "{told}");
        }
    }
}
