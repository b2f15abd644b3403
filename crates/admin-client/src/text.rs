//! Texts that go into a request, and those that come out of a stranger's answer.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Characters of a stranger's text that an error shows.
const SHOWN_MAX: usize = 200;

/// Everything but the unreserved characters of RFC 3986.
const RESERVED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Percent-encodes everything but unreserved characters (RFC 3986), for a value in a query or a part of a path.
#[must_use]
pub fn encode(text: &str) -> String {
    utf8_percent_encode(text, &RESERVED).to_string()
}

/// A text of a stranger without what would disturb a terminal: control characters, and characters that turn the
/// direction of writing.
#[must_use]
pub fn harmless(text: &str) -> String {
    let turns = |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().filter(|c| !c.is_control() && !turns(*c)).collect()
}

/// The beginning of a stranger's text, for one line of an error.
pub(crate) fn shown(text: &str) -> String {
    harmless(text).chars().take(SHOWN_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_encoded() {
        assert_eq!(encode("a&b=ü ~-._/?#%"), "a%26b%3D%C3%BC%20~-._%2F%3F%23%25");
    }

    #[test]
    fn a_strangers_text_cannot_move_the_cursor() {
        assert_eq!(harmless("a\u{202e}b\u{1b}[2Jc\r\n"), "ab[2Jc");
        assert_eq!(shown(&"x".repeat(10_000)).len(), SHOWN_MAX);
    }
}
