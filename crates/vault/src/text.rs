//! Sealed messages as Transit writes them: `vault:v7:` and base64.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use thiserror::Error;

const PREFIX: &str = "vault:v";

/// Go's `base64.StdEncoding`, which Transit uses: padding is needed, bits behind the last byte are not looked at.
const ENGINE: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

/// Why a text is no sealed message. The texts are Transit's.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum TextError {
    /// It does not begin with `vault:v`.
    #[error("invalid ciphertext: no prefix")]
    NoPrefix,
    /// Nothing ends the version.
    #[error("invalid ciphertext: wrong number of fields")]
    Fields,
    /// The version is no number, or one that no key can have.
    #[error("invalid ciphertext: version number could not be decoded")]
    Version,
    /// The rest is no base64.
    #[error("invalid ciphertext: could not decode base64")]
    Base64,
}

/// Appends a sealed message of a key version to `text`.
pub fn write_text(version: u32, sealed: &[u8], text: &mut String) {
    // Writing to a string cannot fail.
    let _ = write!(text, "{PREFIX}{version}:");
    ENGINE.encode_string(sealed, text);
}

/// Reads the version of a text and appends its message to `sealed`. Version 0 reads as 1, as in Transit; line ends inside the base64 are
/// skipped, as Go does.
///
/// # Errors
/// What is wrong; `sealed` is as it was then. Whether the version is one that a key has is the caller's to judge.
pub fn read_text(text: &str, sealed: &mut Vec<u8>) -> Result<u32, TextError> {
    let (version, encoded) = split_text(text)?;
    let before = sealed.len();
    let is_line_end = |byte: u8| byte == b'\n' || byte == b'\r';
    let decoded = if encoded.bytes().any(is_line_end) {
        let joined: Vec<u8> = encoded.bytes().filter(|byte| !is_line_end(*byte)).collect();
        ENGINE.decode_vec(joined, sealed)
    } else {
        ENGINE.decode_vec(encoded, sealed)
    };
    decoded.map_err(|_| {
        sealed.truncate(before);
        TextError::Base64
    })?;
    Ok(version)
}

/// Splits a text into the version and the base64 of its message, for callers with a reader of base64 of their own. Version 0 reads as 1.
///
/// # Errors
/// What is wrong with what stands before the base64.
#[inline]
pub fn split_text(text: &str) -> Result<(u32, &str), TextError> {
    let rest = text.strip_prefix(PREFIX).ok_or(TextError::NoPrefix)?;
    // A version has ten digits at most, so this ends soon.
    let colon = rest.bytes().position(|byte| byte == b':').ok_or(TextError::Fields)?;
    let (version, encoded) = rest.split_at(colon);
    // Go's Atoi takes a sign. A negative version is no version of any key.
    let version: u32 = version.parse().map_err(|_| TextError::Version)?;
    Ok((version.max(1), encoded.get(1..).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(u32, Vec<u8>), TextError> {
        let mut sealed = Vec::new();
        read_text(text, &mut sealed).map(|version| (version, sealed))
    }

    #[test]
    fn texts_are_read_as_transit_does() {
        let good = |version, bytes: &[u8]| Ok((version, bytes.to_vec()));
        assert_eq!(read("vault:v1:AQI="), good(1, &[1, 2]));
        assert_eq!(read("vault:v0:AQI="), good(1, &[1, 2]));
        assert_eq!(read("vault:v4294967295:"), good(u32::MAX, &[]));
        assert_eq!(read("vault:v12:A\r\nQI\n="), good(12, &[1, 2]));
        assert_eq!(read("vault:v1:AQJ="), good(1, &[1, 2]), "bits behind the last byte");
        for text in ["", "vault", "vault:1:AQI=", "Vault:v1:AQI=", " vault:v1:AQI="] {
            assert_eq!(read(text), Err(TextError::NoPrefix), "{text:?}");
        }
        assert_eq!(read("vault:v1"), Err(TextError::Fields));
        for version in ["", "x", "-1", "1.0", "4294967296", "99999999999999999999", " 1"] {
            let text = format!("vault:v{version}:AQI=");
            assert_eq!(read(&text), Err(TextError::Version), "{text:?}");
        }
        for encoded in ["AQI", "AQ", "A", "AQI=AQI=", "AQ_-", "AQI= ", "A=I=", "vault:v1:AQI=", "é"]
        {
            let text = format!("vault:v1:{encoded}");
            assert_eq!(read(&text), Err(TextError::Base64), "{text:?}");
        }
    }

    #[test]
    fn a_text_that_is_refused_leaves_the_buffer_as_it_was() {
        let mut sealed = vec![9, 9];
        assert_eq!(read_text("vault:v1:AQIDBAUG!", &mut sealed), Err(TextError::Base64));
        assert_eq!(sealed, [9, 9]);
        assert_eq!(read_text("vault:v3:AQI=", &mut sealed), Ok(3));
        assert_eq!(sealed, [9, 9, 1, 2]);
    }

    #[test]
    fn what_is_written_is_read() {
        let mut text = String::from("x");
        write_text(7, &[0, 255, 3, 4, 5], &mut text);
        assert_eq!(text, "xvault:v7:AP8DBAU=");
        assert_eq!(read(&text[1..]), Ok((7, vec![0, 255, 3, 4, 5])));
    }
}
