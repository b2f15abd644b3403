//! UTC times as messages write them.

/// A time in UTC, as UTCTimestamp has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    /// Seconds since 1970-01-01T00:00:00Z.
    pub seconds: i64,
    /// Nanoseconds of the second, 0 to 999,999,999.
    pub nanos: u32,
}

impl Timestamp {
    /// Reads `YYYYMMDD-HH:MM:SS` with a fraction of 1 to 9 digits or none (FIX 4.4 volume 1, "Data types"; more digits than
    /// milliseconds since FIX 5.0 SP2). A leap second (`:60`) is the first of the next minute. `None` for anything else.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Timestamp> {
        let (date, time) = (text.get(..8)?, text.get(8..)?);
        let days = days(date)?;
        let (seconds, nanos) = time_of_day(time.strip_prefix(b"-")?)?;
        Some(Timestamp { seconds: days * 86_400 + seconds, nanos })
    }

    /// Returns the time of a number of milliseconds since 1970-01-01T00:00:00Z.
    #[must_use]
    pub fn of_unix_ms(unix_ms: i64) -> Timestamp {
        let nanos = u32::try_from(unix_ms.rem_euclid(1_000)).unwrap_or(0) * 1_000_000;
        Timestamp { seconds: unix_ms.div_euclid(1_000), nanos }
    }

    /// Returns the milliseconds since 1970-01-01T00:00:00Z, rounded down.
    #[must_use]
    pub fn unix_ms(self) -> i64 {
        self.seconds.saturating_mul(1_000).saturating_add(i64::from(self.nanos / 1_000_000))
    }
}

/// Reads `YYYYMMDD` as days since 1970-01-01.
pub(crate) fn days(text: &[u8]) -> Option<i64> {
    let [year, month, day] = [text.get(..4)?, text.get(4..6)?, text.get(6..8)?].map(digits);
    let (year, month, day) = (year?, month?, day?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_max = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 => 28 + i64::from(leap),
        _ => return None,
    };
    if text.len() != 8 || !(1..=days_max).contains(&day) {
        return None;
    }
    // Years begin in March, so that the leap day is a year's last. Source: Howard Hinnant, "chrono-compatible low-level date algorithms".
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
}

/// Reads `HH:MM:SS` with a fraction or none as seconds and nanoseconds of the day.
pub(crate) fn time_of_day(text: &[u8]) -> Option<(i64, u32)> {
    let (clock, fraction) = (text.get(..8)?, text.get(8..)?);
    let [hour, minute, second] = [&clock[..2], &clock[3..5], &clock[6..]].map(digits);
    let (hour, minute, second) = (hour?, minute?, second?);
    if clock[2] != b':' || clock[5] != b':' || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    Some((hour * 3_600 + minute * 60 + second, nanos(fraction)?))
}

fn nanos(fraction: &[u8]) -> Option<u32> {
    if fraction.is_empty() {
        return Some(0);
    }
    let places = fraction.strip_prefix(b".")?;
    if !(1..=9).contains(&places.len()) {
        return None;
    }
    let scale = 10_i64.pow(u32::try_from(9 - places.len()).ok()?);
    u32::try_from(digits(places)? * scale).ok()
}

fn digits(text: &[u8]) -> Option<i64> {
    crate::index::digits(text).and_then(|number| i64::try_from(number).ok())
}

/// Reads times of which most are in the second of the one before: as [`Timestamp::parse`], with that second kept.
#[derive(Clone, Debug, Default)]
pub struct TimestampReader {
    /// `YYYYMMDD-HH:MM:SS`, once one was read, and its second.
    text: [u8; 17],
    seconds: Option<i64>,
}

impl TimestampReader {
    /// Reads a time; `None` for what is none.
    pub fn parse(&mut self, text: &[u8]) -> Option<Timestamp> {
        let Some((second, fraction)) = text.split_first_chunk::<17>() else {
            return Timestamp::parse(text);
        };
        if let Some(seconds) = self.seconds.filter(|_| *second == self.text) {
            return Some(Timestamp { seconds, nanos: nanos(fraction)? });
        }
        let read = Timestamp::parse(text)?;
        (self.text, self.seconds) = (*second, Some(read.seconds));
        Some(read)
    }
}

/// The text of a SendingTime with milliseconds. The second that was written last is kept, so that most calls change three digits.
#[derive(Clone, Debug)]
pub struct TimestampText {
    text: [u8; 21],
    second: i64,
}

impl Default for TimestampText {
    fn default() -> TimestampText {
        TimestampText { text: *b"19700101-00:00:00.000", second: 0 }
    }
}

impl TimestampText {
    /// Returns `YYYYMMDD-HH:MM:SS.sss` of a number of milliseconds since 1970-01-01T00:00:00Z, of the years 1970 to 9999; times outside
    /// become the nearest inside.
    pub fn of_unix_ms(&mut self, unix_ms: i64) -> &[u8; 21] {
        const LAST_MS: i64 = 253_402_300_799_999;
        let unix_ms = unix_ms.clamp(0, LAST_MS);
        let second = unix_ms / 1_000;
        if second != self.second {
            self.write_second(second);
        }
        put(&mut self.text[18..], unix_ms % 1_000);
        &self.text
    }

    fn write_second(&mut self, second: i64) {
        // The inverse of `days`, from the same source.
        let shifted = second / 86_400 + 719_468;
        let (era, of_era) = (shifted / 146_097, shifted % 146_097);
        let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let march_month = (5 * of_year + 2) / 153;
        let month = (march_month + 2) % 12 + 1;
        put(&mut self.text[..4], era * 400 + year + i64::from(month <= 2));
        put(&mut self.text[4..6], month);
        put(&mut self.text[6..8], of_year - (153 * march_month + 2) / 5 + 1);
        put(&mut self.text[9..11], second / 3_600 % 24);
        put(&mut self.text[12..14], second / 60 % 60);
        put(&mut self.text[15..17], second % 60);
        self.second = second;
    }
}

/// Fills a place with the last digits of a number.
fn put(place: &mut [u8], mut number: i64) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_times_are_read() {
        let read = |text: &str| Timestamp::parse(text.as_bytes());
        assert_eq!(read("19700101-00:00:00"), Some(Timestamp { seconds: 0, nanos: 0 }));
        let known = Timestamp { seconds: 1_795_428_930, nanos: 123_000_000 };
        assert_eq!(read("20261123-10:15:30.123"), Some(known));
        assert_eq!(read("20261123-10:15:30.1230"), Some(known));
        assert_eq!(read("20261123-10:15:30.123000001").unwrap().nanos, 123_000_001);
        assert_eq!(read("20240229-23:59:60"), read("20240301-00:00:00"));
        assert_eq!(known.unix_ms(), 1_795_428_930_123);
    }

    #[test]
    fn what_is_no_time_is_refused() {
        let mut reader = TimestampReader::default();
        for text in [
            "",
            "20261123",
            "20261123-",
            "20261123-10:15",
            "20261123-10:15:3",
            "20261123 10:15:30",
            "20261123-24:00:00",
            "20261123-10:60:00",
            "20261123-10:15:61",
            "20261301-00:00:00",
            "20260229-00:00:00",
            "20260431-00:00:00",
            "20260400-00:00:00",
            "20261123-10:15:30.",
            "20261123-10:15:30.1234567890",
            "20261123-10:15:30Z",
            "2026112a-10:15:30",
            "20261123-1:015:30",
            "+0261123-10:15:30",
            "21000229-00:00:00",
        ] {
            // Also of a second that was read.
            assert!(reader.parse(b"20261123-10:15:30").is_some());
            assert_eq!(Timestamp::parse(text.as_bytes()), None, "{text}");
            assert_eq!(reader.parse(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn text_and_back_is_the_same_time(times in proptest::collection::vec(0_i64..253_402_300_800_000, 1..5), step in 0_i64..2_000) {
            let (mut text, mut reader) = (TimestampText::default(), TimestampReader::default());
            for time in times.iter().flat_map(|time| [*time, (time + step).min(253_402_300_799_999)]) {
                let written = *text.of_unix_ms(time);
                prop_assert_eq!(Timestamp::parse(&written).unwrap().unix_ms(), time);
                prop_assert_eq!(Timestamp::parse(&written).unwrap(), Timestamp::of_unix_ms(time));
                prop_assert_eq!(reader.parse(&written), Timestamp::parse(&written));
                prop_assert_eq!(reader.parse(&written[..17]), Timestamp::parse(&written[..17]));
            }
        }
    }
}
