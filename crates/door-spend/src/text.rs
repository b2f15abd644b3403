//! Short texts of strangers, kept without an allocation.

use std::fmt;

/// A text of at most `MAX` bytes (`MAX` at most 255), kept in place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Text<const MAX: usize> {
    len: u8,
    bytes: [u8; MAX],
}

impl<const MAX: usize> Text<MAX> {
    /// The text; `None` where it is longer than that.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let mut bytes = [0; MAX];
        bytes.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        Some(Self { len: u8::try_from(text.len()).ok()?, bytes })
    }

    /// As much of the beginning as there is room for, for errors.
    pub(crate) fn cut(text: &str) -> Self {
        let mut end = text.len().min(MAX).min(usize::from(u8::MAX));
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        Self::new(&text[..end]).unwrap_or(Self { len: 0, bytes: [0; MAX] })
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // Only whole characters are ever copied in.
        std::str::from_utf8(&self.bytes[..usize::from(self.len)]).unwrap_or_default()
    }
}

impl<const MAX: usize> fmt::Debug for Text<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_fits_or_is_cut_between_two_characters() {
        assert_eq!(Text::<4>::new("abcd").unwrap().as_str(), "abcd");
        assert!(Text::<4>::new("abcde").is_none());
        assert_eq!(Text::<4>::cut("abc\u{e9}").as_str(), "abc");
        assert_eq!(Text::<4>::cut("").as_str(), "");
    }
}
