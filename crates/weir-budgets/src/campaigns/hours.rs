//! Hours of the week.

/// Hours of a day.
const DAY: u8 = 24;
/// Hours of a week.
pub const WEEK: u8 = 7 * DAY;

const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// A set of hours of the week: 0 is Monday from 00:00 to 01:00, 167 Sunday from 23:00 to 24:00, as
/// [`money::hour_of_week`] counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hours([u64; 3]);

impl Hours {
    /// Is an hour in it? None from 168 on is.
    #[must_use]
    pub fn contains(&self, hour: u8) -> bool {
        let (word, bit) = (usize::from(hour / 64), hour % 64);
        self.0.get(word).is_some_and(|bits| bits >> bit & 1 == 1)
    }

    /// All hours in it, the first one first.
    pub fn iter(&self) -> impl Iterator<Item = u8> {
        (0..WEEK).filter(|hour| self.contains(*hour))
    }

    /// Is no hour in it?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0 == [0; 3]
    }

    /// These hours and those of the other.
    #[must_use]
    pub fn with(self, other: Hours) -> Hours {
        let [a, b, c] = self.0;
        let [d, e, f] = other.0;
        Hours([a | d, b | e, c | f])
    }

    /// One hour; `None` from 168 on.
    #[must_use]
    pub fn one(hour: u8) -> Option<Hours> {
        (hour < WEEK).then(|| Hours::default().and(hour))
    }

    /// Reads days, hours or both: `mon-fri 08-20`, `sat,sun`, `08-20` (every day), `mon 8`. Days and hours are in lower
    /// case; the end hour is not included. `fri 22-06` is the night from Friday to Saturday, `sat-mon` goes over
    /// the end of the week.
    #[must_use]
    pub fn parse(text: &str) -> Option<Hours> {
        let (days, hours) = match text.split_once(' ') {
            Some((days, hours)) => (parse_days(days)?, parse_hours(hours)?),
            None if text.starts_with(|first: char| first.is_ascii_digit()) => {
                (vec![0, 1, 2, 3, 4, 5, 6], parse_hours(text)?)
            }
            None => (parse_days(text)?, (0, DAY)),
        };
        let (start, count) = hours;
        let mut all = Hours::default();
        for day in days {
            for hour in start..start + count {
                all = all.and((day * DAY + hour) % WEEK);
            }
        }
        Some(all)
    }

    fn and(mut self, hour: u8) -> Hours {
        self.0[usize::from(hour / 64)] |= 1 << (hour % 64);
        self
    }
}

/// Days from 0, of `mon`, `mon-fri` or `mon,wed-thu`.
fn parse_days(text: &str) -> Option<Vec<u8>> {
    let mut days = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (parse_day(first)?, parse_day(last)?);
        let last = if last < first { last + 7 } else { last };
        days.extend((first..=last).map(|day| day % 7));
    }
    Some(days)
}

fn parse_day(text: &str) -> Option<u8> {
    DAYS.iter().position(|day| *day == text).and_then(|day| u8::try_from(day).ok())
}

/// The first hour and how many, of `08-20`, `22-06` or `8`.
fn parse_hours(text: &str) -> Option<(u8, u8)> {
    let Some((start, end)) = text.split_once('-') else {
        return parse_hour(text).filter(|hour| *hour < DAY).map(|hour| (hour, 1));
    };
    let (start, end) = (parse_hour(start).filter(|hour| *hour < DAY)?, parse_hour(end)?);
    match end {
        end if end > start => Some((start, end - start)),
        // Over midnight; the same hour twice could be nothing or a day.
        end if end < start => Some((start, end + DAY - start)),
        _ => None,
    }
}

/// 0 to 24, one or two digits.
fn parse_hour(text: &str) -> Option<u8> {
    let digits = (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|hour| digits && *hour <= DAY)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hours(text: &str) -> Vec<u8> {
        Hours::parse(text).unwrap().iter().collect()
    }

    #[test]
    fn texts_by_table() {
        assert_eq!(hours("mon 08-10"), [8, 9]);
        assert_eq!(hours("mon,wed 8"), [8, 56]);
        assert_eq!(hours("mon-fri 08-20").len(), 5 * 12);
        assert_eq!(hours("sat,sun").len(), 48);
        assert_eq!(hours("sat-mon 0"), [0, 120, 144]);
        assert_eq!(hours("fri 22-02"), [118, 119, 120, 121]);
        assert_eq!(hours("sun 23-01"), [0, 167]);
        assert_eq!(hours("00-24").len(), 168);
        assert_eq!(hours("12-13"), [12, 36, 60, 84, 108, 132, 156]);
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "", " ", "monday", "Mon", "mon-", "mon 8-8", "mon 25", "24", "8-25", "+8-9", "008-9",
            "mon  8", "mon 8 9", "168", "mon,", "8-9-10",
        ] {
            assert_eq!(Hours::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_set_holds_what_was_put_in(list in proptest::collection::btree_set(0..WEEK, 0..=168)) {
            let one = |set: Hours, hour: &u8| set.with(Hours::one(*hour).unwrap());
            let set = list.iter().fold(Hours::default(), one);
            prop_assert_eq!(set.iter().collect::<Vec<_>>(), list.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(set.is_empty(), list.is_empty());
            prop_assert!((WEEK..=u8::MAX).all(|hour| !set.contains(hour)));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[a-z0-9 ,-]{0,20}") {
            prop_assert!(Hours::parse(&text).is_none_or(|hours| !hours.is_empty()));
        }
    }
}
