//! InputLines and words of the input, with their numbers for errors. Nothing is allocated a line.

use std::io::{BufRead, Read};

use super::error::{Fault, StdioError};

/// Longest line, bytes: a table of 1,441 values takes some 30,000.
pub(super) const LINE_BYTES_MAX: u64 = 1 << 20;
/// Characters of a word that an error repeats.
const SHOWN_MAX: usize = 40;

/// The lines of an input.
pub(super) struct InputLines<R> {
    input: R,
    buffer: Vec<u8>,
    number: u64,
}

impl<R: BufRead> InputLines<R> {
    pub(super) fn new(input: R) -> InputLines<R> {
        InputLines { input, buffer: Vec::new(), number: 0 }
    }

    /// The next line.
    ///
    /// # Errors
    /// There is none, though something is `expected`; it is too long; the input cannot be read.
    pub(super) fn next(&mut self, expected: &'static str) -> Result<Words<'_>, StdioError> {
        self.buffer.clear();
        let after = self.number;
        self.number += 1;
        let line = self.number;
        let mut bounded = (&mut self.input).take(LINE_BYTES_MAX + 1);
        let read = bounded.read_until(b'\n', &mut self.buffer);
        if read.map_err(|error| StdioError::Read { line, error })? == 0 {
            return Err(StdioError::Ended { after, expected });
        }
        if self.buffer.last() != Some(&b'\n') && self.buffer.len() as u64 > LINE_BYTES_MAX {
            return Err(StdioError::Input { line, fault: Fault::Bytes });
        }
        let end = self.buffer.trim_ascii_end().len();
        Ok(Words { line, rest: &self.buffer[..end] })
    }
}

/// The words of a line, separated by spaces.
#[derive(Clone, Copy)]
pub(super) struct Words<'a> {
    pub(super) line: u64,
    rest: &'a [u8],
}

impl<'a> Words<'a> {
    /// The next word, if there is one.
    #[inline]
    pub(super) fn next(&mut self) -> Option<&'a [u8]> {
        let start = self.rest.iter().position(|byte| *byte != b' ')?;
        let rest = &self.rest[start..];
        let len = rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len());
        let (word, rest) = rest.split_at(len);
        self.rest = rest;
        Some(word)
    }

    /// The next word.
    ///
    /// # Errors
    /// The line ends.
    pub(super) fn word(&mut self, expected: &'static str) -> Result<&'a [u8], StdioError> {
        self.next().ok_or(self.input(Fault::Short { expected }))
    }

    /// The next word, as a whole number of at most `max`.
    ///
    /// # Errors
    /// It is none.
    pub(super) fn number(&mut self, max: u64, expected: &'static str) -> Result<u64, StdioError> {
        let word = self.word(expected)?;
        number(word).filter(|number| *number <= max).ok_or_else(|| self.wrong(word, expected))
    }

    /// # Errors
    /// The line goes on.
    pub(super) fn end(&mut self) -> Result<(), StdioError> {
        match self.next() {
            None => Ok(()),
            Some(word) => Err(self.input(Fault::Long { found: shown(word) })),
        }
    }

    /// The error that a word is not what is expected.
    #[cold]
    pub(super) fn wrong(&self, word: &[u8], expected: &'static str) -> StdioError {
        self.input(Fault::Word { found: shown(word), expected })
    }

    /// An error in this line.
    #[cold]
    pub(super) fn input(&self, fault: Fault) -> StdioError {
        StdioError::Input { line: self.line, fault }
    }
}

/// A whole number in decimal digits.
#[inline]
pub(super) fn number(word: &[u8]) -> Option<u64> {
    if word.is_empty() {
        return None;
    }
    word.iter().try_fold(0_u64, |number, byte| {
        let digit = u64::from(byte.wrapping_sub(b'0'));
        if digit > 9 { None } else { number.checked_mul(10)?.checked_add(digit) }
    })
}

/// A number that may have a fraction and an exponent; not negative, and no infinity.
pub(super) fn decimal(word: &[u8]) -> Option<f64> {
    // The library also reads "inf" and "nan".
    let starts = word.first().is_some_and(|first| first.is_ascii_digit() || *first == b'.');
    let text = std::str::from_utf8(word).ok().filter(|_| starts)?;
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

fn shown(word: &[u8]) -> String {
    String::from_utf8_lossy(word).chars().take(SHOWN_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Words<'_> {
        Words { line: 7, rest: text.as_bytes() }
    }

    #[test]
    fn words_are_what_stands_between_spaces() {
        let mut line = words("  R  a 1:2 ");
        let found: Vec<&[u8]> = std::iter::from_fn(|| line.next()).collect();
        assert_eq!(found, [&b"R"[..], b"a", b"1:2"]);
        assert!(line.end().is_ok());
    }

    #[test]
    fn numbers_are_digits_within_64_bits() {
        let table = [
            ("0", Some(0)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("", None),
            ("-1", None),
            ("+1", None),
            ("1.0", None),
            ("1 ", None),
        ];
        for (text, expected) in table {
            assert_eq!(number(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn decimals_have_fractions_and_exponents() {
        let table =
            [("0", Some(0.0)), ("1e-05", Some(0.00001)), (".5", Some(0.5)), ("12.25", Some(12.25))];
        for (text, expected) in table {
            assert_eq!(decimal(text.as_bytes()), expected, "{text:?}");
        }
        for text in ["", "-1", "inf", "nan", "NaN", "1e999", "1,5", "0x1", "1.2.3"] {
            assert_eq!(decimal(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn lines_carry_their_number_and_end_with_or_without_cr() {
        let mut lines = InputLines::new(&b"GO\r\nEND"[..]);
        for (line, word) in [(1, b"GO".as_slice()), (2, b"END")] {
            let mut words = lines.next("more").unwrap();
            assert_eq!((words.line, words.next()), (line, Some(word)));
        }
        let end = lines.next("END").map(|_| ()).unwrap_err().to_string();
        assert_eq!(end, "the input ends after line 2, expected END");
    }

    #[test]
    fn a_line_without_end_is_refused_in_bounded_memory() {
        let mut lines = InputLines::new(std::io::BufReader::new(std::io::repeat(b'x')));
        let error = lines.next("GO").map(|_| ()).unwrap_err().to_string();
        assert_eq!(error, "line 1: more than 1048576 bytes in a line");
    }

    #[test]
    fn errors_say_where_what_and_what_was_expected() {
        let mut line = words("T x");
        line.next();
        let error = line.number(9, "a second").unwrap_err().to_string();
        assert_eq!(error, "line 7: found \"x\", expected a second");
        let error = line.number(9, "the number of requests").unwrap_err().to_string();
        assert_eq!(error, "line 7: the line ends, expected the number of requests");
        let error = words("a").end().unwrap_err().to_string();
        assert_eq!(error, "line 7: found \"a\" where the line should end");
    }
}
