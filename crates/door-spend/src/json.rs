//! A strict reader of JSON for flat objects: no value is copied, no number becomes a float, and what stands within each other is
//! bounded.
//!
//! Texts stay as they are written, escapes and all, until somebody wants to know what one says ([`Written::read`]): what is
//! hashed as the request are its own bytes.

use crate::problem::BadCall;
use crate::text::Text;

/// How many objects and arrays may stand within each other.
pub(crate) const DEPTH_MAX: usize = 16;

/// A text between its quotes, as it is written; its escapes are those of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written<'a>(&'a str);

impl<'a> Written<'a> {
    /// What it says; `None`: it is longer than the room.
    pub(crate) fn read<'r>(self, room: &'r mut [u8]) -> Option<&'r str>
    where
        'a: 'r,
    {
        if !self.0.contains('\\') {
            return (self.0.len() <= room.len()).then_some(self.0);
        }
        let len = self.unescape(room, false)?;
        std::str::from_utf8(&room[..len]).ok()
    }

    /// As much of what it says as there is room for, for errors.
    pub(crate) fn shown(self) -> Text<40> {
        if !self.0.contains('\\') {
            return Text::cut(self.0);
        }
        let mut room = [0; 40];
        let len = self.unescape(&mut room, true).unwrap_or(0);
        Text::cut(std::str::from_utf8(&room[..len]).unwrap_or_default())
    }

    /// Characters of what it says.
    pub(crate) fn chars(self) -> usize {
        let (mut rest, mut count) = (self.0, 0);
        while let Some((_, len)) = next(rest) {
            (rest, count) = (&rest[len..], count + 1);
        }
        count
    }

    /// Bytes of what it says.
    pub(crate) fn bytes(self) -> usize {
        let (mut rest, mut count) = (self.0, 0);
        while let Some((found, len)) = next(rest) {
            (rest, count) = (&rest[len..], count + found.len_utf8());
        }
        count
    }

    /// Writes what it says, and returns the length; `None`: it is longer than the room, unless it may be cut.
    fn unescape(self, room: &mut [u8], cut: bool) -> Option<usize> {
        let (mut rest, mut to) = (self.0, 0);
        while let Some((found, len)) = next(rest) {
            let end = to + found.len_utf8();
            let Some(place) = room.get_mut(to..end) else { return cut.then_some(to) };
            found.encode_utf8(place);
            (rest, to) = (&rest[len..], end);
        }
        Some(to)
    }
}

/// The character that begins a text whose escapes are sound, and the bytes that it takes.
fn next(text: &str) -> Option<(char, usize)> {
    match text.as_bytes().first()? {
        b'\\' => escaped(text.as_bytes()),
        _ => text.chars().next().map(|found| (found, found.len_utf8())),
    }
}

/// A value of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Text(Written<'a>),
    /// As it was written.
    Number(&'a str),
    Flag(bool),
    Null,
    /// An object or an array, as it was written.
    Nested(&'a str),
}

/// Where a reader stands in a body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// At the beginning, behind a byte order mark.
    pub(crate) fn new(text: &'a str) -> Cursor<'a> {
        let at = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        Cursor { text, at }
    }

    /// The place of the next byte, from 0.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// What stands between two places.
    pub(crate) fn between(&self, from: usize, to: usize) -> &'a str {
        self.text.get(from..to).unwrap_or_default()
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn wrong(&self, expected: &'static str) -> BadCall {
        BadCall::Json { at: self.at + 1, expected }
    }

    /// The next byte that is no space.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.byte() {
            self.at += 1;
        }
        self.byte()
    }

    /// Takes this byte, if it is the next one after spaces.
    pub(crate) fn take(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    /// Takes this byte.
    pub(crate) fn expect(&mut self, byte: u8, expected: &'static str) -> Result<(), BadCall> {
        if self.take(byte) { Ok(()) } else { Err(self.wrong(expected)) }
    }

    /// Nothing but spaces may follow.
    pub(crate) fn end(&mut self) -> Result<(), BadCall> {
        if self.peek().is_none() { Ok(()) } else { Err(self.wrong("the end")) }
    }

    /// A text in quotes.
    pub(crate) fn text(&mut self) -> Result<Written<'a>, BadCall> {
        self.expect(b'"', "a text in quotes")?;
        let from = self.at;
        loop {
            match self.byte() {
                Some(b'"') => break,
                Some(b'\\') => {
                    let (_, len) = escaped(&self.text.as_bytes()[self.at..])
                        .ok_or_else(|| self.wrong("an escape of JSON, those of a pair together"))?;
                    self.at += len;
                }
                Some(0..=0x1f) | None => return Err(self.wrong("the end of a text")),
                Some(_) => self.at += 1,
            }
        }
        let text = self.between(from, self.at);
        self.at += 1;
        Ok(Written(text))
    }

    /// A value that stands within so many objects and arrays.
    pub(crate) fn value(&mut self, depth: usize) -> Result<Value<'a>, BadCall> {
        match self.peek() {
            Some(b'"') => self.text().map(Value::Text),
            Some(b'-' | b'0'..=b'9') => self.number().map(Value::Number),
            Some(b't') => self.word("true", Value::Flag(true)),
            Some(b'f') => self.word("false", Value::Flag(false)),
            Some(b'n') => self.word("null", Value::Null),
            Some(b'{' | b'[') => {
                let from = self.at;
                self.nested(depth).map(|()| Value::Nested(self.between(from, self.at)))
            }
            _ => Err(self.wrong("a value")),
        }
    }

    /// Passes over an object or an array.
    fn nested(&mut self, depth: usize) -> Result<(), BadCall> {
        if depth >= DEPTH_MAX {
            return Err(BadCall::Deep { at: self.at + 1 });
        }
        let is_object = self.take(b'{');
        let (end, expected) = match is_object {
            true => (b'}', "a comma or the end of the object"),
            false => {
                self.expect(b'[', "an array")?;
                (b']', "a comma or the end of the array")
            }
        };
        if self.take(end) {
            return Ok(());
        }
        loop {
            if is_object {
                self.text()?;
                self.expect(b':', "a colon")?;
            }
            self.value(depth + 1)?;
            if !self.take(b',') {
                return self.expect(end, expected);
            }
        }
    }

    fn word(&mut self, word: &'static str, value: Value<'a>) -> Result<Value<'a>, BadCall> {
        if self.text[self.at..].starts_with(word) {
            self.at += word.len();
            return Ok(value);
        }
        Err(self.wrong(word))
    }

    /// A number by the grammar of RFC 8259, section 6, as it is written.
    fn number(&mut self) -> Result<&'a str, BadCall> {
        let from = self.at;
        self.at += usize::from(self.byte() == Some(b'-'));
        let whole = self.at;
        self.digits()?;
        if self.at - whole > 1 && self.text.as_bytes().get(whole) == Some(&b'0') {
            return Err(BadCall::Json {
                at: whole + 1,
                expected: "a number without leading zeros",
            });
        }
        if self.byte() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.byte() {
            self.at += 1;
            self.at += usize::from(matches!(self.byte(), Some(b'+' | b'-')));
            self.digits()?;
        }
        Ok(self.between(from, self.at))
    }

    fn digits(&mut self) -> Result<(), BadCall> {
        let from = self.at;
        while self.byte().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at > from { Ok(()) } else { Err(self.wrong("a digit")) }
    }
}

/// What the escape at the beginning stands for, and how long it is (RFC 8259, section 7); half a pair stands for nothing.
fn escaped(bytes: &[u8]) -> Option<(char, usize)> {
    let plain = match bytes.get(1)? {
        b'u' => None,
        b'n' => Some('\n'),
        b't' => Some('\t'),
        b'r' => Some('\r'),
        b'b' => Some('\u{8}'),
        b'f' => Some('\u{c}'),
        byte @ (b'"' | b'\\' | b'/') => Some(char::from(*byte)),
        _ => return None,
    };
    if let Some(plain) = plain {
        return Some((plain, 2));
    }
    let first = hex(bytes.get(1..6)?)?;
    if (0xd800..0xdc00).contains(&first) {
        bytes.get(6).filter(|byte| **byte == b'\\')?;
        let second = hex(bytes.get(7..12)?)?.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
        let pair = char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + second)?;
        return Some((pair, 12));
    }
    Some((char::from_u32(first)?, 6))
}

/// `u` and four hexadecimal digits.
fn hex(bytes: &[u8]) -> Option<u32> {
    let digits = bytes.strip_prefix(b"u")?;
    digits.iter().try_fold(0, |value, digit| Some(value << 4 | char::from(*digit).to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value(text: &str) -> Option<Value<'_>> {
        let mut cursor = Cursor::new(text);
        let value = cursor.value(0).ok()?;
        cursor.end().ok().map(|()| value)
    }

    fn says(text: &str) -> Option<String> {
        let Some(Value::Text(written)) = value(text) else { return None };
        let mut room = [0; 256];
        written.read(&mut room).map(ToOwned::to_owned)
    }

    #[test]
    fn values_are_read_as_they_are_written() {
        for number in ["0", "-0", "1.50", "1e5", "-1.5E-10", "123456789012345678901234567890"] {
            assert_eq!(value(number), Some(Value::Number(number)));
        }
        for bad in ["01", "-", "1.", ".5", "+1", "1e", "0x1", "NaN", "1 2", "tru", "'a'", "\"a"] {
            assert_eq!(value(bad), None, "{bad}");
        }
        for (text, found) in
            [("true", Value::Flag(true)), ("false", Value::Flag(false)), ("null", Value::Null)]
        {
            assert_eq!(value(text), Some(found));
        }
        assert_eq!(value("\u{feff} [1,{\"a\":[]}] "), Some(Value::Nested("[1,{\"a\":[]}]")));
    }

    #[test]
    fn escapes_are_read_or_refused() {
        assert_eq!(says(r#""team\/a""#).as_deref(), Some("team/a"));
        assert_eq!(says(r#""\u0041\u00e9\ud83d\ude00!""#).as_deref(), Some("A\u{e9}\u{1f600}!"));
        assert_eq!(says(r#""\"\\\n\u000a""#).as_deref(), Some("\"\\\n\n"));
        for bad in [
            r#""\u12""#,
            r#""\ud83d""#,
            r#""\ude00""#,
            r#""\ud83d\u0041""#,
            r#""\x41""#,
            r#""\""#,
            r#""\u""#,
            r#""\u+123""#,
        ] {
            assert_eq!(value(bad), None, "{bad}");
        }
        let Some(Value::Text(long)) = value(r#""ab\u00e9d""#) else { panic!() };
        assert_eq!((long.read(&mut [0; 4]), long.chars()), (None, 4));
        assert_eq!(long.shown().as_str(), "ab\u{e9}d");
    }

    #[test]
    fn what_stands_within_each_other_is_bounded() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(value(&nested(DEPTH_MAX)).is_some() && value(&nested(DEPTH_MAX + 1)).is_none());
        let deep = "[".repeat(1_000_000);
        assert!(matches!(Cursor::new(&deep).value(0), Err(BadCall::Deep { at: 17 })));
    }

    proptest! {
        /// Whatever a stranger sends is read or refused, as a general reader does.
        #[test]
        fn no_text_panics_and_another_reader_agrees(text in "[-0-9.eE+ \"\\\\a-u{}:,\\[\\]]{0,24}") {
            let known: Result<serde_json::Value, _> = serde_json::from_str(&text);
            // The other reader refuses numbers that no float holds.
            let too_large = known.as_ref().is_err_and(|error| error.to_string().contains("out of range"));
            prop_assert_eq!(value(&text).is_some(), known.is_ok() || too_large, "{:?}", text);
            if let Ok(serde_json::Value::String(known)) = known {
                prop_assert_eq!(says(&text), Some(known));
            }
        }
    }
}
