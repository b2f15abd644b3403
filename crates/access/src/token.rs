//! Access tokens: how one is made, and the digest that a node compares.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

/// Begins a token that [`AccessToken::random`] made, so that a scanner of secrets finds it: `weir_[A-Za-z0-9_-]{48}`.
const PREFIX: &str = "weir_";
/// Begins a token of a file of which only the digest is written.
const DIGEST_PREFIX: &str = "sha256:";
/// Random bytes of a token.
const RANDOM_BYTES: usize = 32;
/// Bytes of the checksum behind them: CRC-32C, little-endian.
const CHECKSUM_BYTES: usize = 4;
/// Least and most characters of a token.
const TOKEN_MIN: usize = 16;
const TOKEN_MAX: usize = 256;

/// The text that a caller shows at a door. `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct AccessToken(String);

impl AccessToken {
    /// What a token looks like, for errors.
    pub const EXPECTED: &'static str =
        "16 to 256 of A-Za-z0-9_-, or sha256: and the 64 hexadecimal digits of its digest";

    /// A new token out of 32 bytes of the system's randomness, with a checksum behind them.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn random() -> std::io::Result<AccessToken> {
        let mut bytes = [0; RANDOM_BYTES];
        getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
        Ok(AccessToken::of_bytes(bytes))
    }

    fn of_bytes(bytes: [u8; RANDOM_BYTES]) -> AccessToken {
        let mut whole = [0; RANDOM_BYTES + CHECKSUM_BYTES];
        let (random, checksum) = whole.split_at_mut(RANDOM_BYTES);
        random.copy_from_slice(&bytes);
        checksum.copy_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        AccessToken(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(whole)))
    }

    /// A token out of its text; `None` where it is not 16 to 256 of `A-Za-z0-9_-`.
    #[must_use]
    pub fn parse(text: &str) -> Option<AccessToken> {
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        let is_sound = (TOKEN_MIN..=TOKEN_MAX).contains(&text.len()) && text.bytes().all(is_token);
        is_sound.then(|| AccessToken(text.to_owned()))
    }

    /// The token itself, to be shown once to whoever is to use it.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    /// What a file and a node keep of it.
    #[must_use]
    pub fn digest(&self) -> TokenDigest {
        TokenDigest::of(self.0.as_bytes())
    }

    /// Does it begin as a token that was made here, with a checksum that does not hold? Then it was cut or mistyped.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        let Some(rest) = self.0.strip_prefix(PREFIX) else { return false };
        let Ok(bytes) = URL_SAFE_NO_PAD.decode(rest) else { return true };
        let Some((random, checksum)) = bytes.split_last_chunk::<CHECKSUM_BYTES>() else {
            return true;
        };
        random.len() != RANDOM_BYTES || crc32c::crc32c(random).to_le_bytes() != *checksum
    }
}

impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessToken(hidden)")
    }
}

/// The SHA-256 of a token's text. `Display` writes it as a file has it: `sha256:` and 64 hexadecimal digits.
#[derive(Clone, Copy)]
pub struct TokenDigest([u8; 32]);

impl TokenDigest {
    /// The digest of what a caller shows, whatever that is.
    #[must_use]
    pub fn of(shown: &[u8]) -> TokenDigest {
        TokenDigest(Sha256::digest(shown).into())
    }

    /// A digest as a file has it; `None` where the text does not begin with `sha256:`, an error where the rest is not 64
    /// hexadecimal digits.
    pub(crate) fn parse(text: &str) -> Option<Result<TokenDigest, ()>> {
        let digits = text.strip_prefix(DIGEST_PREFIX)?.as_bytes();
        let mut bytes = [0; 32];
        if digits.len() != 2 * bytes.len() {
            return Some(Err(()));
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.as_chunks::<2>().0) {
            let [Some(high), Some(low)] = pair.map(|digit| char::from(digit).to_digit(16)) else {
                return Some(Err(()));
            };
            *byte = u8::try_from(high << 4 | low).expect("two hexadecimal digits");
        }
        Some(Ok(TokenDigest(bytes)))
    }

    /// Are they the same? Compares all bytes, wherever the first difference is.
    #[must_use]
    pub fn is_same(&self, other: &TokenDigest) -> bool {
        let differences = self.0.iter().zip(&other.0).fold(0, |all, (a, b)| all | (a ^ b));
        std::hint::black_box(differences) == 0
    }
}

impl fmt::Display for TokenDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(DIGEST_PREFIX)?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TokenDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenDigest(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_token_is_found_by_scanners_and_a_cut_one_is_seen() {
        let token = AccessToken::random().unwrap();
        let text = token.text();
        assert_eq!((text.len(), &text[..5]), (53, "weir_"));
        assert_eq!(AccessToken::parse(text), Some(token.clone()));
        assert!(!token.is_broken() && !AccessToken("handmade_0123456".into()).is_broken());
        assert_ne!(AccessToken::random().unwrap(), token);
        let cut = AccessToken(text[..52].to_owned());
        let last = if text.ends_with('A') { "B" } else { "A" };
        let mistyped = AccessToken(format!("{}{last}", &text[..52]));
        assert!(cut.is_broken() && mistyped.is_broken());
        assert!(!format!("{token:?} {:?}", token.digest()).contains(&text[5..]));
    }

    #[test]
    fn the_checksum_is_the_documented_one() {
        let token = AccessToken::of_bytes([0; 32]);
        // CRC-32C of 32 zero bytes is the test vector of RFC 3720, B.4: aa 36 91 8a.
        let bytes = URL_SAFE_NO_PAD.decode(&token.text()[5..]).unwrap();
        assert_eq!(bytes[32..], [0xaa, 0x36, 0x91, 0x8a]);
    }

    /// What `printf %s TOKEN | sha256sum` prints.
    #[test]
    fn a_digest_is_that_of_the_text() {
        let written = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(TokenDigest::of(b"abc").to_string(), written);
        let read = |text: &str| TokenDigest::parse(text).map(|read| read.map(|d| d.to_string()));
        assert_eq!(read(written), Some(Ok(written.to_string())));
        assert_eq!(read(&written.replace("ba78", "BA78")), Some(Ok(written.to_string())));
        assert_eq!(read("0123456789abcdef"), None);
        for wrong in ["sha256:", "sha256:00", &written.replace("ba", "bg"), &format!("{written}0")]
        {
            assert_eq!(read(wrong), Some(Err(())), "{wrong}");
        }
        assert!(TokenDigest::of(b"a").is_same(&TokenDigest::of(b"a")));
        assert!(!TokenDigest::of(b"a").is_same(&TokenDigest::of(b"b")));
    }
}
