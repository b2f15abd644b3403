//! Base64 as Go's `StdEncoding` reads and writes it: padded, line ends skipped, bits behind the last byte not looked at.

use base64::Engine as _;
use base64::engine::general_purpose::GeneralPurposeConfig;
use base64::engine::{DecodePaddingMode, Simd};

/// Reads and writes base64; what reads finds out what the processor can, once.
pub(crate) struct Base64(Simd);

impl Base64 {
    pub(crate) fn new() -> Base64 {
        let config = GeneralPurposeConfig::new()
            .with_decode_allow_trailing_bits(true)
            .with_decode_padding_mode(DecodePaddingMode::RequireCanonical);
        Base64(Simd::standard(config))
    }

    /// Appends what `text` stands for to `bytes`.
    ///
    /// # Errors
    /// Where it is wrong, counted in bytes from 0 as Go does; `bytes` is as it was then.
    #[inline]
    pub(crate) fn read(&self, text: &str, bytes: &mut Vec<u8>) -> Result<(), usize> {
        let (before, room) = (bytes.len(), text.len() / 4 * 3 + 3);
        bytes.resize(before + room, 0);
        let target = bytes.get_mut(before..).unwrap_or_default();
        let read = self.0.decode_slice(text, target);
        // The quick reader skips no line ends, and its places are not Go's.
        let read = read.or_else(|_| read_slowly(text.as_bytes(), target));
        bytes.truncate(before + read.unwrap_or(0));
        read.map(|_| ())
    }

    /// Appends the base64 of `bytes` to `text`.
    #[inline]
    pub(crate) fn write(&self, bytes: &[u8], text: &mut Vec<u8>) {
        let before = text.len();
        text.resize(before + bytes.len().div_ceil(3) * 4, 0);
        let target = text.get_mut(before..).unwrap_or_default();
        // The room is exact.
        let written = self.0.encode_slice(bytes, target).unwrap_or(0);
        text.truncate(before + written);
    }
}

/// Reads one symbol after the other. Returns how many bytes were written, or where it is wrong: at the first byte that cannot stand where
/// it stands, or where the last group begins if that ends too early.
fn read_slowly(text: &[u8], target: &mut [u8]) -> Result<usize, usize> {
    let is_line_end = |byte: u8| byte == b'\n' || byte == b'\r';
    let mut symbols = text.iter().copied().enumerate().filter(|(_, byte)| !is_line_end(*byte));
    let mut written = 0;
    let mut put = |count: usize, group: u32| {
        let bytes = group.to_be_bytes();
        for (to, from) in target.iter_mut().skip(written).zip(bytes.iter().skip(1).take(count)) {
            *to = *from;
        }
        written += count;
        written
    };
    let mut total = 0;
    loop {
        let mut group = 0;
        for place in 0..4_usize {
            let Some((at, byte)) = symbols.next() else {
                // Line ends within the cut group count for the place, as in Go.
                return if place == 0 { Ok(total) } else { Err(text.len() - place) };
            };
            if let Some(bits) = bits_of(byte) {
                group = group << 6 | bits;
                continue;
            }
            if byte != b'=' || place < 2 {
                return Err(at);
            }
            if place == 2 {
                match symbols.next() {
                    Some((_, b'=')) => {}
                    Some((at, _)) => return Err(at.saturating_sub(1)),
                    None => return Err(text.len()),
                }
            }
            let last = group << (6 * (4 - place));
            return match symbols.next() {
                Some((at, _)) => Err(at),
                None => Ok(put(place - 1, last)),
            };
        }
        total = put(3, group);
    }
}

fn bits_of(byte: u8) -> Option<u32> {
    let bits = match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(u32::from(bits))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Vec<u8>, usize> {
        let mut bytes = vec![9];
        let read = Base64::new().read(text, &mut bytes);
        if read.is_err() {
            assert_eq!(bytes, [9], "a refused text leaves nothing");
        }
        read.map(|()| bytes.split_off(1))
    }

    /// Places as Go 1.26 gives them.
    #[test]
    fn errors_stand_where_go_sees_them() {
        let known = [
            ("!", 0),
            ("hello world", 5),
            ("aGVsbG8", 4),
            ("a", 0),
            ("aGVs=", 4),
            ("a===", 1),
            ("ab=c", 2),
            ("ab=", 3),
            ("ab==c", 4),
            ("abc=d", 4),
            ("ab_-", 2),
            ("aGVsbG8=aGVs", 8),
            ("é", 0),
        ];
        for (text, at) in known {
            assert_eq!(read(text), Err(at), "{text:?}");
        }
    }

    #[test]
    fn line_ends_and_last_bits_are_not_looked_at() {
        assert_eq!(read("aGVs\r\nbG8=\n").unwrap(), b"hello");
        assert_eq!(read("aGVsbG9=").unwrap(), b"hello");
        assert_eq!(read("aG\n=\r=").unwrap(), b"h");
        assert_eq!(read("").unwrap(), b"");
        assert_eq!(read("\n").unwrap(), b"");
    }

    proptest! {
        #[test]
        fn both_readers_agree(bytes in prop::collection::vec(any::<u8>(), 0..200), lines in any::<bool>()) {
            let mut text = Vec::new();
            Base64::new().write(&bytes, &mut text);
            if lines {
                text = text.chunks(7).collect::<Vec<_>>().join(&b"\r\n"[..]);
            }
            let text = String::from_utf8(text).unwrap();
            let mut slow = vec![0; text.len()];
            let count = read_slowly(text.as_bytes(), &mut slow).unwrap();
            prop_assert_eq!(&slow[..count], &bytes[..]);
            prop_assert_eq!(read(&text).unwrap(), bytes);
        }

        #[test]
        fn no_text_panics(text in "[A-Za-z0-9+/=\r\n!]{0,30}") {
            let slow = read_slowly(text.as_bytes(), &mut vec![0; text.len() + 3]);
            prop_assert_eq!(read(&text).map(|bytes| bytes.len()), slow);
        }
    }
}
