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
        let before = bytes.len();
        bytes.resize(before + room_for(text.len()), 0);
        let read = self.read_into(text, bytes.get_mut(before..).unwrap_or_default());
        bytes.truncate(before + read.unwrap_or(0));
        read.map(|_| ())
    }

    /// Writes what `text` stands for to the beginning of `target`, which has the [`room_for`] it. Returns how many bytes that are.
    ///
    /// # Errors
    /// As [`Base64::read`]; `target` may hold a part then.
    #[inline]
    pub(crate) fn read_into(&self, text: &str, target: &mut [u8]) -> Result<usize, usize> {
        // The quick reader skips no line ends, and its places are not Go's.
        let read = self.0.decode_slice(text, target);
        read.or_else(|_| read_slowly(text.as_bytes(), target))
    }

    /// Reads texts that were put behind each other by [`make_whole`]. Tells whether all of them are sound; which is not is not known, and
    /// nothing in `target` counts then.
    #[inline]
    pub(crate) fn read_whole(&self, texts: &[u8], target: &mut [u8]) -> bool {
        self.0.decode_slice(texts, target).is_ok()
    }

    /// Appends the base64 of `bytes` to `text`.
    #[inline]
    pub(crate) fn write(&self, bytes: &[u8], text: &mut Vec<u8>) {
        let before = text.len();
        text.resize(before + written_len(bytes.len()), 0);
        let written = self.write_into(bytes, text.get_mut(before..).unwrap_or_default());
        text.truncate(before + written);
    }

    /// Writes the base64 of `bytes` to the beginning of `target`, which has [`written_len`] bytes or more. Returns how many it took.
    #[inline]
    pub(crate) fn write_into(&self, bytes: &[u8], target: &mut [u8]) -> usize {
        // The room is enough.
        self.0.encode_slice(bytes, target).unwrap_or(0)
    }
}

/// Returns the bytes of the base64 of so many bytes.
#[inline]
pub(crate) fn written_len(bytes: usize) -> usize {
    bytes.div_ceil(3) * 4
}

/// Returns the room that a text of so many bytes needs while it is read.
#[inline]
pub(crate) fn room_for(text: usize) -> usize {
    text / 4 * 3 + 3
}

/// Makes `text`, which was copied from a client's, a run of whole groups that may stand before another one: signs of filling become symbols.
/// Returns how many bytes it stands for, `None` where it is no run of whole groups. Whether its symbols are sound is not looked at.
///
/// Short texts are cheap only together: the quick reader takes none below 64 bytes, and reads what is left of others symbol by symbol.
#[inline]
pub(crate) fn make_whole(text: &mut [u8]) -> Option<usize> {
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let mut bytes = text.len() / 4 * 3;
    if let Some(last) = text.last_chunk_mut::<2>() {
        for symbol in last.iter_mut().rev().take_while(|symbol| **symbol == b'=') {
            *symbol = b'A';
            bytes -= 1;
        }
    }
    Some(bytes)
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
