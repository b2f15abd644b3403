//! The bearer token of whoever asks: from a file or from the environment, never from an argument, which every user of the
//! machine could read.

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::OpenError;

/// The variable of the environment that may hold the token.
pub(crate) const VARIABLE: &str = "WEIR_TOKEN";
/// Bytes of a token file; more is not a token.
const BYTES_MAX: u64 = 4 << 10;
/// Permissions that let others than the owner read a file.
const OTHERS_READ: u32 = 0o044;

/// A bearer token. Neither `Debug` nor any error shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    text: String,
    /// The file or the variable that it came from.
    place: String,
}

impl Token {
    /// A token out of its text; white space around it does not count.
    ///
    /// # Errors
    /// [`OpenError::Token`]: it is empty, or holds what no header may hold. `place` says where it came from.
    pub fn new(text: &str, place: &str) -> Result<Token, OpenError> {
        let wrong = |what| Err(OpenError::Token { place: place.to_owned(), what });
        let text = text.trim();
        if text.is_empty() {
            return wrong(
                "there is no token; put one in, or leave it out where the node wants none",
            );
        }
        if text.contains(char::is_whitespace) {
            return wrong(
                "more than a token; expected the token alone, not a line `name role token` of the node's admin.tokens_file",
            );
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return wrong(
                "a character that is not visible ASCII; expected the token alone, as plain text",
            );
        }
        Ok(Token { text: text.to_owned(), place: place.to_owned() })
    }

    /// The token in a file, and what is wrong with the file without being an error.
    pub(crate) fn of_file(path: &Path) -> Result<(Token, Option<String>), OpenError> {
        let place = path.display().to_string();
        let unreadable = |source| OpenError::File { path: path.to_owned(), source };
        let file = File::open(path).map_err(unreadable)?;
        let mode = file.metadata().map_err(unreadable)?.permissions().mode();
        let mut bytes = Vec::new();
        file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        let text = match String::from_utf8(bytes) {
            Ok(text) if text.len() as u64 <= BYTES_MAX => text,
            _ => {
                return Err(OpenError::Token {
                    place,
                    what: "not a token; expected one short line of plain text",
                });
            }
        };
        let warning = (mode & OTHERS_READ != 0).then(|| {
            format!(
                "{place}: others can read this token (mode {:o}); chmod 600 {place}",
                mode & 0o7777
            )
        });
        Ok((Token::new(&text, &place)?, warning))
    }

    /// The token in the environment, where there is one.
    pub(crate) fn of_environment(value: Option<&OsStr>) -> Result<Option<Token>, OpenError> {
        let Some(value) = value else { return Ok(None) };
        // What is not text is no visible ASCII either.
        Token::new(&value.to_string_lossy(), VARIABLE).map(Some)
    }

    /// The value of the header `Authorization`.
    pub(crate) fn bearer(&self) -> String {
        format!("Bearer {}", self.text)
    }

    /// The file or the variable that it came from.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    const SOUND: &str = "0123456789abcdef";

    fn file(bytes: &[u8], mode: u32) -> Result<(Token, Option<String>), OpenError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, bytes).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        Token::of_file(&path)
    }

    #[test]
    fn a_token_cannot_smuggle_a_header() {
        for wrong in
            ["", " \n", "x\r\nEvil: 1", "schlüssel", "alice operate 0123456789abcdef", "a\u{0}b"]
        {
            let error = Token::new(wrong, "here").unwrap_err().to_string();
            assert!(error.starts_with("here: ") && !error.contains("0123456789abcdef"), "{error}");
        }
        let token = Token::new(&format!("{SOUND}\n"), "here").unwrap();
        assert_eq!(token.bearer(), "Bearer 0123456789abcdef", "a file's last line break");
        assert!(!format!("{token:?}").contains("0123"), "a token is not for logs");
    }

    #[test]
    fn a_file_holds_one_token_and_is_for_its_owner() {
        let (token, warning) = file(SOUND.as_bytes(), 0o600).unwrap();
        assert_eq!((token.bearer(), warning), (format!("Bearer {SOUND}"), None));
        for mode in [0o644, 0o640, 0o604] {
            let warning = file(SOUND.as_bytes(), mode).unwrap().1.unwrap();
            assert!(warning.contains("chmod 600") && !warning.contains(SOUND), "{warning}");
        }
        for (bytes, expected) in [
            (&b""[..], "no token"),
            (b"\xff\xfe", "not a token"),
            (&[b'a'; 1 << 20], "not a token"),
        ] {
            let error = file(bytes, 0o600).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let error = Token::of_file(Path::new("/nowhere/token")).unwrap_err().to_string();
        assert!(error.contains("/nowhere/token"), "{error}");
    }

    #[test]
    fn the_environment_is_judged_too() {
        assert_eq!(Token::of_environment(None).unwrap(), None);
        for wrong in [&b""[..], b"\xff", b"two words"] {
            let error =
                Token::of_environment(Some(OsStr::from_bytes(wrong))).unwrap_err().to_string();
            assert!(error.starts_with("WEIR_TOKEN: "), "{error}");
        }
    }
}
