//! JSON read in place: the body is the one copy, and what is found in it are places.
//!
//! Numbers are kept as they are written; a text is looked at once, eight bytes at a time; what nobody asks for is passed over. Recursion
//! ends at [`DEPTH_MAX`].

use std::fmt;

/// Objects and arrays within each other at most.
pub(crate) const DEPTH_MAX: usize = 32;
/// Largest body: places are 31 bits.
pub(crate) const BODY_MAX: usize = (1 << 31) - 1;

/// Why a body is no JSON object. The first four texts are those of Go's reader, which clients know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadJson {
    /// It ends too early.
    End,
    /// It is something else than an object.
    Kind(&'static str),
    /// Something else was expected.
    At { at: usize, expected: &'static str },
    /// Not UTF-8.
    Utf8 { at: usize },
    /// Too much within each other.
    Deep { at: usize },
    /// Too long for places.
    Long,
}

impl fmt::Display for BadJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("failed to decode JSON input: ")?;
        match self {
            BadJson::End => f.write_str("unexpected EOF"),
            BadJson::Kind(kind) => {
                write!(
                    f,
                    "json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
                )
            }
            BadJson::At { at, expected } => write!(f, "expected {expected} at byte {at}"),
            BadJson::Utf8 { at } => write!(f, "byte {at} is not UTF-8"),
            BadJson::Deep { at } => {
                write!(
                    f,
                    "at byte {at}: more than {DEPTH_MAX} objects and arrays within each other"
                )
            }
            BadJson::Long => f.write_str("a body has at most 2 GiB"),
        }
    }
}

/// The place of a text in the body, without its quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    at: u32,
    /// The highest bit: there are escapes in it.
    len: u32,
}

const ESCAPED: u32 = 1 << 31;

impl Span {
    /// The place of nothing.
    pub(crate) const NONE: Span = Span { at: u32::MAX, len: 0 };

    fn new(from: usize, to: usize, escaped: bool) -> Span {
        // A body is below 2 GiB.
        let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        let flag = if escaped { ESCAPED } else { 0 };
        Span { at: place(from), len: place(to.saturating_sub(from)) | flag }
    }

    pub(crate) fn is_some(self) -> bool {
        self != Span::NONE
    }

    /// Returns the bytes of the text as it is written, which are at least those of what it says.
    pub(crate) fn len(self) -> usize {
        (self.len & !ESCAPED) as usize
    }

    /// Returns the text as it is written.
    pub(crate) fn raw(self, body: &str) -> &str {
        let from = self.at as usize;
        body.get(from..from + self.len()).unwrap_or_default()
    }

    /// Returns what the text says; `room` is used where it has escapes.
    #[inline]
    pub(crate) fn text<'a>(self, body: &'a str, room: &'a mut String) -> &'a str {
        let raw = self.raw(body);
        if self.len & ESCAPED == 0 {
            return raw;
        }
        room.clear();
        unescape(raw, room);
        room
    }
}

/// A value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Null,
    Flag(bool),
    Number(Span),
    Text(Span),
    /// An object, as it is written.
    Object(&'a str),
    /// An array, as it is written.
    Array(&'a str),
}

impl Value<'_> {
    /// Returns the name that Go has for its type.
    pub(crate) fn go_type(&self) -> &'static str {
        match self {
            Value::Null => "<nil>",
            Value::Flag(_) => "bool",
            Value::Number(_) => "json.Number",
            Value::Text(_) => "string",
            Value::Object(_) => "map[string]interface {}",
            Value::Array(_) => "[]interface {}",
        }
    }
}

/// A place in a body.
pub(crate) struct Cursor<'a> {
    body: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Returns the beginning of a body.
    pub(crate) fn new(body: &'a [u8]) -> Result<Cursor<'a>, BadJson> {
        if body.len() > BODY_MAX {
            return Err(BadJson::Long);
        }
        let body = std::str::from_utf8(body)
            .map_err(|error| BadJson::Utf8 { at: error.valid_up_to() + 1 })?;
        Ok(Cursor { body, at: 0 })
    }

    pub(crate) fn body(&self) -> &'a str {
        self.body
    }

    #[inline]
    fn byte(&self) -> Option<u8> {
        self.body.as_bytes().get(self.at).copied()
    }

    /// Returns the next byte that is no space.
    #[inline]
    pub(crate) fn peek(&mut self) -> Option<u8> {
        loop {
            match self.byte() {
                Some(b' ' | b'\n' | b'\r' | b'\t') => self.at += 1,
                other => return other,
            }
        }
    }

    #[inline]
    pub(crate) fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn wrong(&self, expected: &'static str) -> BadJson {
        match self.byte() {
            None => BadJson::End,
            Some(_) => BadJson::At { at: self.at + 1, expected },
        }
    }

    #[inline]
    pub(crate) fn expect(&mut self, byte: u8, expected: &'static str) -> Result<(), BadJson> {
        if self.take(byte) { Ok(()) } else { Err(self.wrong(expected)) }
    }

    /// Nothing but spaces may follow.
    pub(crate) fn end(&mut self) -> Result<(), BadJson> {
        if self.peek().is_none() { Ok(()) } else { Err(self.wrong("the end")) }
    }

    /// Reads a text in quotes.
    #[inline]
    pub(crate) fn text(&mut self) -> Result<Span, BadJson> {
        self.expect(b'"', "a text in quotes")?;
        self.text_left()
    }

    /// Reads a text from behind its first quote.
    #[inline]
    pub(crate) fn text_left(&mut self) -> Result<Span, BadJson> {
        let (from, mut escaped) = (self.at, false);
        loop {
            self.at += plain(self.body.as_bytes().get(self.at..).unwrap_or_default());
            match self.byte() {
                Some(b'"') => break,
                Some(b'\\') => {
                    escaped = true;
                    let rest = self.body.as_bytes().get(self.at + 1..).unwrap_or_default();
                    self.at += 1 + escape_len(rest).ok_or_else(|| self.bad_escape(rest))?;
                }
                _ => return Err(self.wrong("the end of a text")),
            }
        }
        self.at += 1;
        Ok(Span::new(from, self.at - 1, escaped))
    }

    fn bad_escape(&self, rest: &[u8]) -> BadJson {
        let is_cut = rest.is_empty() || rest.len() < 5 && rest.first() == Some(&b'u');
        if is_cut { BadJson::End } else { self.wrong("an escape of JSON") }
    }

    /// Reads a value that stands within so many objects and arrays.
    #[inline]
    pub(crate) fn value(&mut self, depth: usize) -> Result<Value<'a>, BadJson> {
        match self.peek() {
            Some(b'"') => self.text().map(Value::Text),
            Some(b'-' | b'0'..=b'9') => self.number().map(Value::Number),
            Some(b't') => self.word("true", Value::Flag(true)),
            Some(b'f') => self.word("false", Value::Flag(false)),
            Some(b'n') => self.word("null", Value::Null),
            Some(b'{') => self.nested(depth).map(Value::Object),
            Some(b'[') => self.nested(depth).map(Value::Array),
            _ => Err(self.wrong("a value")),
        }
    }

    /// Passes over an object or an array, and returns it as it is written.
    fn nested(&mut self, depth: usize) -> Result<&'a str, BadJson> {
        if depth >= DEPTH_MAX {
            return Err(BadJson::Deep { at: self.at + 1 });
        }
        let from = self.at;
        if self.byte() == Some(b'{') {
            self.members(|cursor, _| cursor.value(depth + 1).map(|_| ()))?;
        } else {
            self.elements(|cursor| cursor.value(depth + 1).map(|_| ()))?;
        }
        Ok(self.body.get(from..self.at).unwrap_or_default())
    }

    /// Reads an object: `member` reads the value of each name.
    #[inline]
    pub(crate) fn members(
        &mut self,
        member: impl FnMut(&mut Cursor<'a>, Span) -> Result<(), BadJson>,
    ) -> Result<(), BadJson> {
        self.expect(b'{', "an object")?;
        if self.take(b'}') { Ok(()) } else { self.members_left(member) }
    }

    /// Passes over `written` if it stands right here.
    #[inline]
    pub(crate) fn pass(&mut self, written: &str) -> bool {
        let rest = self.body.as_bytes().get(self.at..).unwrap_or_default();
        let found = rest.starts_with(written.as_bytes());
        self.at += if found { written.len() } else { 0 };
        found
    }

    /// Reads the members of an object from a name to its end.
    #[inline]
    pub(crate) fn members_left(
        &mut self,
        mut member: impl FnMut(&mut Cursor<'a>, Span) -> Result<(), BadJson>,
    ) -> Result<(), BadJson> {
        loop {
            let name = self.text()?;
            self.expect(b':', "a colon")?;
            member(self, name)?;
            if !self.take(b',') {
                return self.expect(b'}', "a comma or the end of the object");
            }
        }
    }

    /// Reads an array: `element` reads each value.
    #[inline]
    pub(crate) fn elements(
        &mut self,
        mut element: impl FnMut(&mut Cursor<'a>) -> Result<(), BadJson>,
    ) -> Result<(), BadJson> {
        self.expect(b'[', "an array")?;
        if self.take(b']') {
            return Ok(());
        }
        loop {
            element(self)?;
            if !self.take(b',') {
                return self.expect(b']', "a comma or the end of the array");
            }
        }
    }

    fn word(&mut self, word: &'static str, value: Value<'a>) -> Result<Value<'a>, BadJson> {
        let rest = self.body.get(self.at..).unwrap_or_default();
        if rest.starts_with(word) {
            self.at += word.len();
            return Ok(value);
        }
        Err(if word.starts_with(rest) { BadJson::End } else { self.wrong(word) })
    }

    /// Reads a number by the grammar of RFC 8259, section 6.
    fn number(&mut self) -> Result<Span, BadJson> {
        let from = self.at;
        self.at += usize::from(self.byte() == Some(b'-'));
        let whole = self.at;
        self.digits()?;
        if self.at - whole > 1 && self.body.as_bytes().get(whole) == Some(&b'0') {
            return Err(BadJson::At { at: whole + 1, expected: "a number without leading zeros" });
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
        Ok(Span::new(from, self.at, false))
    }

    fn digits(&mut self) -> Result<(), BadJson> {
        let from = self.at;
        while self.byte().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at > from { Ok(()) } else { Err(self.wrong("a digit")) }
    }
}

/// Returns how many bytes at the beginning are neither a quote, a backslash nor a control character.
#[inline]
fn plain(bytes: &[u8]) -> usize {
    // Three comparisons of 16 bytes at once.
    let (chunks, _) = bytes.as_chunks::<16>();
    let is_special = |byte: &u8| (*byte == b'"') | (*byte == b'\\') | (*byte < 0x20);
    let has_none =
        |chunk: &&[u8; 16]| !chunk.iter().fold(false, |any, byte| any | is_special(byte));
    let at = chunks.iter().take_while(has_none).count() * 16;
    at + plain_by_words(bytes.get(at..).unwrap_or_default())
}

/// As [`plain`], eight bytes at a time.
#[inline]
fn plain_by_words(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::MAX / 0xff;
    const HIGHS: u64 = ONES << 7;
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word & HIGHS;
    let (words, rest) = bytes.as_chunks::<8>();
    let mut at = 0;
    for word in words {
        let word = u64::from_le_bytes(*word);
        let quote = zeros(word ^ (ONES * u64::from(b'"')));
        let backslash = zeros(word ^ (ONES * u64::from(b'\\')));
        // A byte below 0x20 has none of its three highest bits.
        let control = zeros(word & (ONES * 0xe0));
        let found = quote | backslash | control;
        if found != 0 {
            // The lowest mark is exact; those above it may be echoes.
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    let is_plain = |byte: &&u8| !matches!(**byte, b'"' | b'\\' | 0..=0x1f);
    at + rest.iter().take_while(is_plain).count()
}

/// Returns the length of an escape behind its backslash, by the grammar.
fn escape_len(rest: &[u8]) -> Option<usize> {
    match rest.first()? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(1),
        b'u' => rest.get(1..5)?.iter().all(u8::is_ascii_hexdigit).then_some(5),
        _ => None,
    }
}

/// Appends what a text with escapes says. Half a pair of surrogates stands for U+FFFD, as in Go.
fn unescape(raw: &str, to: &mut String) {
    let mut rest = raw;
    while let Some((before, behind)) = rest.split_once('\\') {
        to.push_str(before);
        let (found, len) = escaped(behind);
        to.push(found);
        rest = behind.get(len..).unwrap_or_default();
    }
    to.push_str(rest);
}

/// Returns what an escape stands for, and its length behind the backslash.
fn escaped(behind: &str) -> (char, usize) {
    let unit = |at: usize| u32::from_str_radix(behind.get(at..at + 4)?, 16).ok();
    match behind.as_bytes().first() {
        Some(b'n') => ('\n', 1),
        Some(b't') => ('\t', 1),
        Some(b'r') => ('\r', 1),
        Some(b'b') => ('\u{8}', 1),
        Some(b'f') => ('\u{c}', 1),
        Some(b'u') => {
            let high = unit(1).unwrap_or_default();
            let low = behind.get(5..7).filter(|next| *next == "\\u").and_then(|_| unit(7));
            let pair = match (high, low) {
                (0xd800..0xdc00, Some(low @ 0xdc00..0xe000)) => {
                    char::from_u32(0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00))
                }
                _ => None,
            };
            match pair {
                Some(pair) => (pair, 11),
                None => (char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER), 5),
            }
        }
        Some(byte) => (char::from(*byte), 1),
        None => (char::REPLACEMENT_CHARACTER, 0),
    }
}

/// Appends a text in quotes, with what JSON needs escaped.
pub(crate) fn write_text(text: &str, to: &mut Vec<u8>) {
    to.push(b'"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => to.extend_from_slice(&[b'\\', byte]),
            b'\n' => to.extend_from_slice(b"\\n"),
            b'\t' => to.extend_from_slice(b"\\t"),
            0..=0x1f => {
                let digit = |value: u8| b"0123456789abcdef"[usize::from(value & 15)];
                to.extend_from_slice(&[b'\\', b'u', b'0', b'0', digit(byte >> 4), digit(byte)]);
            }
            _ => to.push(byte),
        }
    }
    to.push(b'"');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn reads(text: &str) -> Result<Value<'_>, BadJson> {
        let mut cursor = Cursor::new(text.as_bytes())?;
        let value = cursor.value(0)?;
        cursor.end().map(|()| value)
    }

    fn says(text: &str) -> Option<String> {
        let Ok(Value::Text(span)) = reads(text) else { return None };
        let mut room = String::new();
        Some(span.text(text, &mut room).to_owned())
    }

    #[test]
    fn what_stands_within_each_other_is_bounded() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(reads(&nested(DEPTH_MAX)).is_ok());
        assert_eq!(reads(&nested(DEPTH_MAX + 1)), Err(BadJson::Deep { at: DEPTH_MAX + 1 }));
        assert!(matches!(reads(&"[".repeat(10_000_000)), Err(BadJson::Deep { .. })));
        assert!(matches!(reads(&"{\"a\":".repeat(1_000_000)), Err(BadJson::Deep { .. })));
    }

    #[test]
    fn a_text_ends_where_it_ends() {
        for before in 0..20 {
            for special in
                ["\"", "\\n\"", "\u{1}\"", "\u{1f}\"", "\u{20}\"", "\u{7f}\"", "\u{e9}\""]
            {
                let text = format!("\"{}{special}", "x".repeat(before));
                let known = serde_json::from_str::<String>(&text).ok();
                assert_eq!(says(&text), known, "{text:?}");
            }
        }
        assert_eq!(says("\"\\ud83d\\ude00\\ud83d!\\u0041\""), Some("\u{1f600}\u{fffd}!A".into()));
    }

    #[test]
    fn a_cut_body_says_so() {
        let whole = r#"{"a":[1.5e3,true,null,"x\u00e9\n"],"b":{}}"#;
        for length in 0..whole.len() {
            assert_eq!(reads(&whole[..length]), Err(BadJson::End), "{}", &whole[..length]);
        }
        assert!(reads(whole).is_ok());
    }

    proptest! {
        /// Whatever a stranger sends is read or refused, as a general reader does.
        #[test]
        fn no_text_panics_and_another_reader_agrees(text in "[-0-9.eE+ \"\\\\a-u{}:,\\[\\]]{0,24}") {
            let known: Result<serde_json::Value, _> = serde_json::from_str(&text);
            // The other reader refuses numbers that no float holds, and half pairs.
            let other = known.as_ref().is_err_and(|error| {
                let error = error.to_string();
                error.contains("out of range") || error.contains("surrogate") || error.contains("hex escape")
            });
            let read = reads(&text).is_ok();
            prop_assert!(read == known.is_ok() || (read && other), "{:?} {:?}", text, known);
            if let Ok(serde_json::Value::String(known)) = known {
                prop_assert_eq!(says(&text), Some(known));
            }
        }

        #[test]
        fn what_is_written_is_read(text in any::<String>()) {
            let mut written = Vec::new();
            write_text(&text, &mut written);
            let written = String::from_utf8(written).unwrap();
            prop_assert_eq!(says(&written), Some(text.clone()));
            prop_assert_eq!(serde_json::from_str::<String>(&written).unwrap(), text);
        }
    }
}
