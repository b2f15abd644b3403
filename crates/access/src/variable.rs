//! Names of environment variables that have a secret, and secrets that somebody put in the place of such a name.

/// So many hexadecimal digits and nothing else are a key, or a token, and nobody's name for a variable.
const SECRET_DIGITS: usize = 32;
/// Digits of a key.
const KEY_DIGITS: usize = 64;
/// A token that was made here: `weir_` and 48 characters.
const TOKEN_PREFIX: &str = "weir_";
const TOKEN_CHARACTERS: usize = 53;

/// Tells whether a text can be the name of an environment variable and is hardly a secret itself. What is none must not be repeated in an
/// error or a log: it may be the secret that should be in the variable.
#[must_use]
pub fn names_variable(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let is_name =
        text.bytes().all(is_part) && text.bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
    is_name && !is_digits(text, SECRET_DIGITS) && !is_secret(text)
}

/// Tells whether a text is a key of 32 bytes in hexadecimal digits, or a token of `weir token new`: nobody calls a file so. It must not be
/// repeated.
#[must_use]
pub fn is_secret(text: &str) -> bool {
    let is_token = text.len() == TOKEN_CHARACTERS && text.starts_with(TOKEN_PREFIX);
    is_token || is_digits(text, KEY_DIGITS)
}

/// So many hexadecimal digits or more, and nothing else.
fn is_digits(text: &str, least: usize) -> bool {
    text.len() >= least && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_and_secrets_in_their_place_are_not() {
        for name in ["K", "_", "WEIR_KEK", "kek2", "weir_token", "deadbeef", "_0"] {
            assert!(names_variable(name), "{name}");
        }
        let key = "abcdef01".repeat(8);
        let token = format!("weir_{}", "a".repeat(48));
        for other in ["", "2K", "A-B", "A B", "A=B", "$KEK", "ä", &key, &key.to_uppercase(), &token]
        {
            assert!(!names_variable(other), "{other}");
        }
        assert!(is_secret(&key) && is_secret(&token) && !is_secret(&key[..63]));
        assert!(!is_secret(&format!("keys/{key}")) && !is_secret("weir_token"));
        assert!(!names_variable(&format!("{key}\n")) && !names_variable(&key[..32]));
        assert!(names_variable(&key[..31]) && names_variable(&format!("{key}_")));
    }
}
