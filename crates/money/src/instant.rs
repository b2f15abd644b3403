//! Instants: milliseconds since the Unix epoch, UTC.

use jiff::Timestamp;

/// A point of wall time in UTC: milliseconds since the Unix epoch, 0 to [`Instant::MAX`]. Leap seconds do not
/// exist in it, as in POSIX time.
///
/// Not to be mistaken for `std::time::Instant`, which is monotonic and has no date: this one can be written down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Instant(u64);

/// A text that is not an instant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseInstantError {
    /// It does not have the shape of RFC 3339.
    #[error(
        "instant {text:?}: found {found} at character {position}, expected {expected}, as in \
         \"2026-01-31T23:59:59Z\" or \"2026-01-31T23:59:59.999+01:00\" (RFC 3339)"
    )]
    Shape {
        /// The text, at most the first 40 characters of it.
        text: String,
        /// What was found: a quoted character, or `the end`.
        found: String,
        /// Where, counted in characters from 1.
        position: usize,
        /// The value that was expected there.
        expected: &'static str,
    },
    /// It has the shape, but there is no such date or time, or it is outside 1970 to 9999.
    #[error(
        "instant {text:?}: {why}; expected a date and time that exists, from 1970 to 9999-12-29"
    )]
    Value {
        /// The text.
        text: String,
        /// The fault, as text.
        why: String,
    },
}

impl Instant {
    /// 1970-01-01T00:00:00Z.
    pub const EPOCH: Instant = Instant(0);
    /// The last instant, 9999-12-29T00:00:00Z. It stands for "never": no [`Window`](crate::Window) contains it.
    pub const MAX: Instant = Instant(253_402_041_600_000);

    /// The instant so many milliseconds after the epoch. Numbers beyond [`Instant::MAX`] are never reached, so
    /// they are all the same "never": `MAX`. Use [`Instant::checked_from_ms`] where that must be noticed.
    #[inline]
    #[must_use]
    pub const fn from_ms(ms: u64) -> Instant {
        if ms > Instant::MAX.0 { Instant::MAX } else { Instant(ms) }
    }

    /// The instant so many milliseconds after the epoch; `None` beyond [`Instant::MAX`].
    #[inline]
    #[must_use]
    pub const fn checked_from_ms(ms: u64) -> Option<Instant> {
        if ms > Instant::MAX.0 { None } else { Some(Instant(ms)) }
    }

    /// Milliseconds since the epoch.
    #[inline]
    #[must_use]
    pub const fn ms(self) -> u64 {
        self.0
    }

    /// So much later; `None` beyond [`Instant::MAX`].
    #[inline]
    #[must_use]
    pub const fn plus_ms(self, ms: u64) -> Option<Instant> {
        match self.0.checked_add(ms) {
            Some(sum) => Instant::checked_from_ms(sum),
            None => None,
        }
    }

    /// So much earlier; `None` before the epoch.
    #[inline]
    #[must_use]
    pub const fn minus_ms(self, ms: u64) -> Option<Instant> {
        match self.0.checked_sub(ms) {
            Some(difference) => Some(Instant(difference)),
            None => None,
        }
    }

    /// Milliseconds since an earlier instant; `None` where it is later.
    #[inline]
    #[must_use]
    pub const fn ms_since(self, earlier: Instant) -> Option<u64> {
        self.0.checked_sub(earlier.0)
    }

    /// Reads RFC 3339 (<https://www.rfc-editor.org/rfc/rfc3339#section-5.6>), `T` and `Z` as capital letters.
    /// Parts of a millisecond are cut off; second 60 is read as 59.
    ///
    /// ```
    /// use money::Instant;
    /// let instant = Instant::parse("2026-01-01T01:00:00.5+01:00")?;
    /// assert_eq!(instant.to_string(), "2026-01-01T00:00:00.500Z");
    /// # Ok::<(), money::ParseInstantError>(())
    /// ```
    ///
    /// # Errors
    /// [`ParseInstantError`] says what was found where, and what was expected.
    pub fn parse(text: &str) -> Result<Instant, ParseInstantError> {
        check_shape(text)?;
        let wrong = |why: String| ParseInstantError::Value { text: text.to_owned(), why };
        let timestamp: Timestamp =
            text.parse().map_err(|error: jiff::Error| wrong(error.to_string()))?;
        // Rounds towards zero, which is down for everything that is accepted.
        let ms = u64::try_from(timestamp.as_millisecond());
        let before = timestamp < Timestamp::UNIX_EPOCH;
        let instant = ms.ok().filter(|_| !before).and_then(Instant::checked_from_ms);
        instant.ok_or_else(|| wrong("out of range".to_owned()))
    }

    /// The same for the time zone library.
    pub(crate) fn to_timestamp(self) -> Timestamp {
        let ms = i64::try_from(self.0).unwrap_or(i64::MAX);
        Timestamp::from_millisecond(ms).unwrap_or(Timestamp::MAX)
    }

    /// From the time zone library; what lies before the epoch is the epoch, what lies after `MAX` is `MAX`.
    pub(crate) fn from_timestamp(timestamp: Timestamp) -> Instant {
        Instant::from_ms(u64::try_from(timestamp.as_millisecond()).unwrap_or(0))
    }
}

/// RFC 3339 in UTC, with milliseconds where there are any.
impl std::fmt::Display for Instant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let decimals = if self.0.is_multiple_of(1_000) { 0 } else { 3 };
        f.pad(&format!("{:.decimals$}", self.to_timestamp()))
    }
}

impl std::str::FromStr for Instant {
    type Err = ParseInstantError;
    fn from_str(text: &str) -> Result<Instant, ParseInstantError> {
        Instant::parse(text)
    }
}

/// Is it `dddd-dd-ddTdd:dd:dd[.d+](Z|±dd:dd)`? The library below also reads other forms; a file of budgets
/// should have one only.
fn check_shape(text: &str) -> Result<(), ParseInstantError> {
    let mut shape = Shape { text, at: 0 };
    shape.pattern("dddd-dd-ddTdd:dd:dd")?;
    if shape.next() == Some('.') {
        shape.pattern(".d")?;
        while shape.next().is_some_and(|found| found.is_ascii_digit()) {
            shape.at += 1;
        }
    }
    match shape.next() {
        Some('Z') => shape.at += 1,
        Some('+' | '-') => {
            shape.at += 1;
            shape.pattern("dd:dd")?;
        }
        _ => return Err(shape.error("'Z' or an offset")),
    }
    if shape.next().is_some() { Err(shape.error("the end")) } else { Ok(()) }
}

struct Shape<'a> {
    text: &'a str,
    /// Bytes read; all of them ASCII, so characters too.
    at: usize,
}

impl Shape<'_> {
    fn next(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    /// Reads digits where the pattern says `d`, and itself elsewhere.
    fn pattern(&mut self, pattern: &str) -> Result<(), ParseInstantError> {
        for expected in pattern.chars() {
            let fits = match expected {
                'd' => self.next().is_some_and(|found| found.is_ascii_digit()),
                other => self.next() == Some(other),
            };
            if !fits {
                return Err(self.error(name(expected)));
            }
            self.at += 1;
        }
        Ok(())
    }

    fn error(&self, expected: &'static str) -> ParseInstantError {
        let found = self.next().map_or("the end".to_owned(), |found| format!("{found:?}"));
        let text = self.text.chars().take(40).collect();
        ParseInstantError::Shape { text, found, position: self.at + 1, expected }
    }
}

fn name(expected: char) -> &'static str {
    match expected {
        'd' => "a digit",
        '-' => "'-'",
        'T' => "'T'",
        ':' => "':'",
        _ => "'.'",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_range_has_ends() {
        assert_eq!(Instant::MAX.to_string(), "9999-12-29T00:00:00Z");
        assert_eq!(Instant::from_ms(u64::MAX), Instant::MAX);
        assert_eq!(Instant::checked_from_ms(Instant::MAX.ms() + 1), None);
        assert_eq!(Instant::MAX.plus_ms(1), None);
        assert_eq!(Instant::EPOCH.plus_ms(u64::MAX), None);
        assert_eq!(Instant::EPOCH.minus_ms(1), None);
        assert_eq!(Instant::EPOCH.ms_since(Instant::MAX), None);
        assert_eq!(Instant::MAX.ms_since(Instant::EPOCH), Some(Instant::MAX.ms()));
    }

    #[test]
    fn reads_rfc_3339() {
        let table = [
            ("1970-01-01T00:00:00Z", 0),
            ("1970-01-01T00:00:00.001Z", 1),
            ("1970-01-01T00:00:00.0019999Z", 1),
            ("2026-01-01T00:00:00Z", 1_767_225_600_000),
            ("2026-01-01T02:00:00+02:00", 1_767_225_600_000),
            ("2025-12-31T18:30:00-05:30", 1_767_225_600_000),
            ("2024-02-29T00:00:00Z", 1_709_164_800_000),
        ];
        for (text, ms) in table {
            assert_eq!(Instant::parse(text), Ok(Instant::from_ms(ms)), "{text}");
        }
    }

    #[test]
    fn wrong_instants_say_what_where_and_what_was_expected() {
        let table = [
            ("", "found the end at character 1, expected a digit"),
            ("2026-01-01", "found the end at character 11, expected 'T'"),
            ("2026-01-01 00:00:00Z", "found ' ' at character 11, expected 'T'"),
            ("2026-1-01T00:00:00Z", "found '-' at character 7, expected a digit"),
            ("2026-01-01T00:00Z", "found 'Z' at character 17, expected ':'"),
            ("2026-01-01T00:00:00", "found the end at character 20, expected 'Z' or an offset"),
            ("2026-01-01T00:00:00.Z", "found 'Z' at character 21, expected a digit"),
            ("2026-01-01T00:00:00z", "found 'z' at character 20, expected 'Z' or an offset"),
            ("2026-01-01T00:00:00+0100", "found '0' at character 23, expected ':'"),
            ("2026-01-01T00:00:00ZZ", "found 'Z' at character 21, expected the end"),
            ("２026-01-01T00:00:00Z", "at character 1, expected a digit"),
            ("1969-12-31T23:59:59.9999Z", "out of range"),
            ("9999-12-29T00:00:01Z", "out of range"),
            ("2026-02-29T00:00:00Z", "expected a date and time that exists"),
            ("2026-01-01T24:00:00Z", "expected a date and time that exists"),
        ];
        for (text, expected) in table {
            let found = Instant::parse(text).unwrap_err().to_string();
            assert!(found.contains(expected), "{found}");
        }
    }

    proptest! {
        #[test]
        fn text_round_trips(ms in 0..=Instant::MAX.ms()) {
            let instant = Instant::from_ms(ms);
            prop_assert_eq!(Instant::parse(&instant.to_string()), Ok(instant));
        }

        #[test]
        fn any_text_is_answered(text in "\\PC*") {
            prop_assert!(Instant::parse(&text).is_err() || text.len() >= 20);
        }

        #[test]
        fn near_instants_are_answered(text in "[0-9]{4}-[0-1][0-9]-[0-3][0-9]T[0-2][0-9]:[0-6][0-9]:[0-6][0-9](\\.[0-9]{1,12})?(Z|[+-][0-2][0-9]:[0-6][0-9])") {
            if let Ok(instant) = Instant::parse(&text) {
                prop_assert_eq!(Instant::parse(&instant.to_string()), Ok(instant));
            }
        }

        #[test]
        fn steps_can_be_taken_back(ms in 0..=Instant::MAX.ms(), step in 0..=Instant::MAX.ms()) {
            let instant = Instant::from_ms(ms);
            if let Some(later) = instant.plus_ms(step) {
                prop_assert_eq!(later.minus_ms(step), Some(instant));
                prop_assert_eq!(later.ms_since(instant), Some(step));
            }
        }
    }
}
