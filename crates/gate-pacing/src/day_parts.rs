//! Day-parts: the quarter hours of a week in which a budget may spend.

use std::fmt;
use std::sync::Arc;

use crate::shape::QUARTERS;

const QUARTERS_OF_DAY: usize = 96;
const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
/// Longest text that an error repeats.
const FOUND_MAX: usize = 40;

/// A mask over the quarter hours of the week, local time. A clone is cheap.
///
/// Outside it nothing is spent and the plan stands still: a plan spreads its budget over the open quarters
/// alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DayParts(Arc<[bool; QUARTERS]>);

/// A text that gives no day-parts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DayPartsError {
    /// No part at all.
    #[error(
        "day-parts: nothing is given, expected such as \"mon-fri 08:00-20:00, sat 10:00-18:00\""
    )]
    Nothing,
    /// Something that is no day and no range of days.
    #[error(
        "day-parts: {found:?} is no day, expected mon, tue, wed, thu, fri, sat, sun or a range such as mon-fri"
    )]
    Day {
        /// The text, at most its first 40 characters.
        found: String,
    },
    /// Something that is no range of times.
    #[error(
        "day-parts: {found:?} is no time range, expected such as 08:00-20:00 in quarter hours from 00:00 to 24:00"
    )]
    Time {
        /// The text, at most its first 40 characters.
        found: String,
    },
}

impl DayParts {
    /// Reads parts such as `mon-fri 08:00-20:00, sat 10:00-18:00`: days (left out, all of them) and a time
    /// range, in quarter hours. A range of days may go over the weekend (`fri-mon`); a time range that ends
    /// before it starts (`22:00-02:00`) goes over midnight and belongs to the day of its start.
    ///
    /// # Errors
    /// [`DayPartsError`] says what was found and expected.
    pub fn parse(text: &str) -> Result<DayParts, DayPartsError> {
        if text.trim().is_empty() {
            return Err(DayPartsError::Nothing);
        }
        let mut open = [false; QUARTERS];
        for part in text.split(',') {
            let (days, times) = match part.trim().rsplit_once(char::is_whitespace) {
                Some((days, times)) => (day_range(days.trim())?, times),
                None => ((0, DAYS.len()), part.trim()),
            };
            let (start, len) = time_range(times)?;
            for day in (days.0..days.0 + days.1).map(|day| day % DAYS.len()) {
                let first = day * QUARTERS_OF_DAY + start;
                (first..first + len).for_each(|quarter| open[quarter % QUARTERS] = true);
            }
        }
        Ok(DayParts(Arc::new(open)))
    }

    /// Is a quarter of the week open, 0 (Monday 00:00) to 671?
    pub(crate) fn is_open(&self, quarter: usize) -> bool {
        self.0[quarter]
    }

    fn day(&self, day: usize) -> &[bool] {
        &self.0[day * QUARTERS_OF_DAY..(day + 1) * QUARTERS_OF_DAY]
    }
}

/// First day and number of days.
fn day_range(text: &str) -> Result<(usize, usize), DayPartsError> {
    let error = || DayPartsError::Day { found: text.chars().take(FOUND_MAX).collect() };
    let day = |name: &str| {
        DAYS.iter().position(|day| day.eq_ignore_ascii_case(name.trim())).ok_or_else(error)
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (day(first)?, day(last)?);
    Ok((first, (last + DAYS.len() - first) % DAYS.len() + 1))
}

/// First quarter of the day and number of quarters.
fn time_range(text: &str) -> Result<(usize, usize), DayPartsError> {
    let error = || DayPartsError::Time { found: text.chars().take(FOUND_MAX).collect() };
    let (start, end) = text.split_once('-').ok_or_else(error)?;
    let (start, end) = (quarter(start).ok_or_else(error)?, quarter(end).ok_or_else(error)?);
    match end.checked_sub(start) {
        Some(0) => Err(error()),
        _ if start == QUARTERS_OF_DAY => Err(error()),
        Some(len) => Ok((start, len)),
        None => Ok((start, end + QUARTERS_OF_DAY - start)),
    }
}

/// `HH:MM` as quarters of the day.
fn quarter(text: &str) -> Option<usize> {
    let number = |digits: &str| match digits.as_bytes() {
        [a, b] if a.is_ascii_digit() && b.is_ascii_digit() => digits.parse::<usize>().ok(),
        _ => None,
    };
    let (hours, minutes) = text.split_once(':')?;
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let quarter = hours * 4 + minutes / 15;
    (minutes < 60 && minutes % 15 == 0 && quarter <= QUARTERS_OF_DAY).then_some(quarter)
}

/// In a form that [`DayParts::parse`] reads back: days that are alike together, one part for each time range.
impl fmt::Display for DayParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        let mut first = 0;
        while first < DAYS.len() {
            let alike =
                (first..DAYS.len()).take_while(|day| self.day(*day) == self.day(first)).count();
            let last = first + alike - 1;
            for (start, end) in runs(self.day(first)) {
                let (name, until) = (DAYS[first], DAYS[last]);
                write!(f, "{separator}{name}")?;
                if last > first {
                    write!(f, "-{until}")?;
                }
                let clock = |quarter: usize| (quarter / 4, quarter % 4 * 15);
                let ((h, m), (to_h, to_m)) = (clock(start), clock(end));
                write!(f, " {h:02}:{m:02}-{to_h:02}:{to_m:02}")?;
                separator = ", ";
            }
            first = last + 1;
        }
        Ok(())
    }
}

/// Starts and ends of the stretches that are open.
fn runs(day: &[bool]) -> impl Iterator<Item = (usize, usize)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + day[at..].iter().position(|open| *open)?;
        let len = day[start..].iter().take_while(|open| **open).count();
        at = start + len;
        Some((start, at))
    })
}

impl std::str::FromStr for DayParts {
    type Err = DayPartsError;
    fn from_str(text: &str) -> Result<DayParts, DayPartsError> {
        DayParts::parse(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn texts_are_read_and_printed() {
        for (text, printed) in [
            ("mon-fri 08:00-20:00, sat 10:00-18:00", "mon-fri 08:00-20:00, sat 10:00-18:00"),
            ("00:00-24:00", "mon-sun 00:00-24:00"),
            ("fri-mon 09:15-09:45", "mon 09:15-09:45, fri-sun 09:15-09:45"),
            ("Sun  22:00-02:00", "mon 00:00-02:00, sun 22:00-24:00"),
            ("tue 08:00-12:00,tue 10:00-14:00", "tue 08:00-14:00"),
            ("tue 14:00-24:00, tue 08:00-12:00", "tue 08:00-12:00, tue 14:00-24:00"),
        ] {
            let parts = DayParts::parse(text).unwrap();
            assert_eq!(parts.to_string(), printed, "{text}");
            assert_eq!(DayParts::parse(printed).unwrap(), parts, "{text}");
        }
    }

    #[test]
    fn wrong_texts_are_explained() {
        let error = |text: &str| DayParts::parse(text).unwrap_err().to_string();
        assert!(error(" ").contains("nothing is given"));
        assert!(error("monday 08:00-20:00").contains("\"monday\" is no day"));
        assert!(error("mon-xyz 08:00-20:00").contains("\"mon-xyz\" is no day"));
        for times in [
            "08:00",
            "08:00-08:00",
            "8:00-20:00",
            "08:10-20:00",
            "08:00-24:15",
            "24:00-02:00",
            "08:60-09:00",
        ] {
            assert!(error(&format!("mon {times}")).contains("is no time range"), "{times}");
        }
        assert!(error("mon 08:00-20:00,").contains("\"\" is no time range"));
        assert!(error(&"x".repeat(10_000)).len() < 200);
    }

    proptest! {
        #[test]
        fn printed_parts_are_read_back(days in prop::collection::vec((0_usize..7, 0_usize..96, 1_usize..97), 1..9)) {
            let mut open = [false; QUARTERS];
            for (day, start, len) in days {
                let first = day * QUARTERS_OF_DAY + start;
                (first..first + len).for_each(|quarter| open[quarter % QUARTERS] = true);
            }
            let parts = DayParts(Arc::new(open));
            prop_assert_eq!(DayParts::parse(&parts.to_string()), Ok(parts));
        }

        #[test]
        fn no_text_breaks_it(text in "[a-z0-9:, -]{0,40}") {
            let _ = DayParts::parse(&text);
        }
    }
}
