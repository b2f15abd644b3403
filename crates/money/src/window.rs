//! Windows of time: the life of a budget, and its civil days.

use jiff::civil::{Date, Time};

use crate::zone::TABLE_END;
use crate::{Instant, Zone};

/// Hours of a week.
pub const HOURS_OF_WEEK: u8 = 168;
const PPM: u64 = 1_000_000;
/// A day on which no clock changes.
const DAY_MS: i64 = 86_400_000;
const MINUTE_MS: i64 = 60_000;

/// A stretch of time: from `start` until just before `end`. Empty where `end` is not after `start`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Window {
    /// First instant in it.
    pub start: Instant,
    /// First instant after it.
    pub end: Instant,
}

impl Window {
    /// All of time.
    pub const ALWAYS: Window = Window { start: Instant::EPOCH, end: Instant::MAX };

    /// Is the instant in it?
    #[inline]
    #[must_use]
    pub fn contains(&self, at: Instant) -> bool {
        self.start <= at && at < self.end
    }

    /// Does it contain nothing?
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.end <= self.start
    }

    /// How long it is, milliseconds.
    #[inline]
    #[must_use]
    pub fn len_ms(&self) -> u64 {
        self.end.ms_since(self.start).unwrap_or(0)
    }

    /// What both contain; empty where they do not meet.
    #[must_use]
    pub fn intersect(&self, other: &Window) -> Window {
        Window { start: self.start.max(other.start), end: self.end.min(other.end) }
    }

    /// How much of it is over at an instant, milliseconds: 0 before it, its length after it.
    #[inline]
    #[must_use]
    pub fn elapsed_ms(&self, at: Instant) -> u64 {
        at.ms_since(self.start).unwrap_or(0).min(self.len_ms())
    }

    /// How much of it is over at an instant, in millionths, rounded down. An empty window is over.
    #[must_use]
    pub fn elapsed_ppm(&self, at: Instant) -> u32 {
        let ppm = self.elapsed_in(at, PPM);
        u32::try_from(ppm).unwrap_or(1_000_000)
    }

    /// How much of it is over at an instant, in 1 / 2^32, rounded down: 0 to 2^32. An empty window is over.
    #[must_use]
    pub fn elapsed_q32(&self, at: Instant) -> u64 {
        self.elapsed_in(at, 1 << 32)
    }

    fn elapsed_in(&self, at: Instant, whole: u64) -> u64 {
        match self.len_ms() {
            0 => whole,
            len_ms => {
                let part = u128::from(self.elapsed_ms(at)) * u128::from(whole) / u128::from(len_ms);
                u64::try_from(part).unwrap_or(whole)
            }
        }
    }
}

/// The civil day that an instant belongs to in a time zone: from the first instant of its date to the first
/// instant of the next one. It is never assumed to have 24 hours.
///
/// - A day has 23 or 25 hours where clocks change by an hour, 23.5 or 24.5 in `Australia/Lord_Howe`, 22 or 26 in
///   `Antarctica/Troll`.
/// - Where a date has no midnight it starts at its first instant, such as 01:00 (`Africa/Cairo`).
/// - Where it has two it starts at the first (`America/Havana`).
/// - Where clocks went back across midnight *after* the new date had begun (St. John's at 00:01, until 2011), the
///   repeated end of the old date belongs to the new day: days never overlap.
/// - A date that a zone skipped (Samoa, 2011-12-30) has no day.
///
/// Days that reach beyond the range of [`Instant`] are cut there. Every instant but [`Instant::MAX`] is in its day.
#[must_use]
pub fn day_at(at: Instant, zone: &Zone) -> Window {
    plain_day_at(at, zone).unwrap_or_else(|| any_day_at(at, zone))
}

/// The day of an instant if no clock changes anywhere near it, which is so on 99 of 100 days: from the table of
/// offsets, over ten times as fast. Fifty thousand budgets may share one midnight.
fn plain_day_at(at: Instant, zone: &Zone) -> Option<Window> {
    let span = zone.offset_at(at);
    let local_ms = i64::try_from(at.ms()).ok()? + span.offset_ms;
    let start_ms = local_ms.div_euclid(DAY_MS) * DAY_MS - span.offset_ms;
    let start = Instant::checked_from_ms(u64::try_from(start_ms).ok()?)?;
    let end = start.plus_ms(DAY_MS.unsigned_abs())?;
    // Two days: more than any clock was ever moved.
    let far_ms = 2 * DAY_MS.unsigned_abs();
    let plain = span.start <= start.minus_ms(far_ms)? && end.plus_ms(far_ms)? <= span.end;
    (plain && end < TABLE_END).then_some(Window { start, end })
}

/// The day of any instant.
fn any_day_at(at: Instant, zone: &Zone) -> Window {
    let date = zone.tz().to_datetime(at.to_timestamp()).date();
    let next = date.saturating_add(jiff::Span::new().days(1));
    let end = first_instant(next, zone);
    if at >= end && end < Instant::MAX {
        let after = next.saturating_add(jiff::Span::new().days(1));
        return Window { start: end, end: first_instant(after, zone) };
    }
    Window { start: first_instant(date, zone), end }
}

/// The minute that an instant belongs to in a time zone, by its clocks.
#[must_use]
pub fn minute_at(at: Instant, zone: &Zone) -> Window {
    by_the_clock(at, zone, MINUTE_MS)
}

/// The hour that an instant belongs to in a time zone, by its clocks: one that begins and ends with the full hour there, which
/// may be at 15, 30 or 45 minutes of one in UTC. Where clocks change, an hour ends and another begins, so that one may be
/// shorter (`Australia/Lord_Howe` moves them by half an hour); hours never overlap.
#[must_use]
pub fn hour_at(at: Instant, zone: &Zone) -> Window {
    by_the_clock(at, zone, 60 * MINUTE_MS)
}

/// The stretch of `length_ms`, counted from a local midnight, that an instant is in; cut where the offset changes.
fn by_the_clock(at: Instant, zone: &Zone, length_ms: i64) -> Window {
    let span = zone.offset_at(at);
    let Ok(ms) = i64::try_from(at.ms()) else {
        return Window { start: at, end: Instant::MAX };
    };
    let start_ms = (ms + span.offset_ms).div_euclid(length_ms) * length_ms - span.offset_ms;
    let instant = |ms: i64| match u64::try_from(ms) {
        Ok(ms) => Instant::checked_from_ms(ms).unwrap_or(Instant::MAX),
        Err(_) => Instant::EPOCH,
    };
    Window { start: instant(start_ms), end: instant(start_ms + length_ms) }
        .intersect(&Window { start: span.start, end: span.end })
}

/// The civil week that an instant belongs to in a time zone: Sunday to Saturday, from the first instant of the one date
/// until just before the first of the next Sunday. Made of whole days, as [`day_at`] knows them.
#[must_use]
pub fn week_at(at: Instant, zone: &Zone) -> Window {
    let date = date_of_day_at(at, zone);
    let first = date.saturating_sub(days(date.weekday().to_sunday_zero_offset()));
    Window {
        start: first_instant(first, zone),
        end: first_instant(first.saturating_add(days(7)), zone),
    }
}

/// The civil month that an instant belongs to in a time zone. Made of whole days, as [`day_at`] knows them.
#[must_use]
pub fn month_at(at: Instant, zone: &Zone) -> Window {
    let date = date_of_day_at(at, zone);
    let next = date.last_of_month().saturating_add(days(1));
    Window { start: first_instant(date.first_of_month(), zone), end: first_instant(next, zone) }
}

/// The date of the civil day that an instant belongs to.
fn date_of_day_at(at: Instant, zone: &Zone) -> Date {
    zone.tz().to_datetime(day_at(at, zone).start.to_timestamp()).date()
}

fn days(count: i8) -> jiff::Span {
    jiff::Span::new().days(count)
}

/// The first instant of a date; for a skipped date that of the next one.
fn first_instant(date: Date, zone: &Zone) -> Instant {
    let midnight = date.to_datetime(Time::midnight());
    // "Compatible" disambiguation (RFC 5545): the earlier of two midnights, and for a missing one the time
    // shifted by the gap...
    let Ok(found) = zone.tz().to_ambiguous_timestamp(midnight).compatible() else {
        return Instant::MAX;
    };
    if zone.tz().to_datetime(found) == midnight {
        return Instant::from_timestamp(found);
    }
    // ...which may lie after the end of the gap.
    let gap_end = zone.tz().preceding(found).next().map(|transition| transition.timestamp());
    let earlier = gap_end.filter(|end| *end < found && zone.tz().to_datetime(*end).date() == date);
    Instant::from_timestamp(earlier.unwrap_or(found))
}

/// The hour of the week of an instant in a time zone: 0 (Monday, 00:00 to 01:00) to 167 (Sunday, 23:00 to 24:00).
#[must_use]
pub fn hour_of_week(at: Instant, zone: &Zone) -> u8 {
    let local = zone.tz().to_datetime(at.to_timestamp());
    let day = local.date().weekday().to_monday_zero_offset();
    // 0 to 6 and 0 to 23.
    day.unsigned_abs() * 24 + local.hour().unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn window(start_ms: u64, end_ms: u64) -> Window {
        Window { start: Instant::from_ms(start_ms), end: Instant::from_ms(end_ms) }
    }

    #[test]
    fn the_end_is_not_inside() {
        let (window, at) = (window(10, 20), Instant::from_ms);
        assert!(!window.contains(at(9)) && window.contains(at(10)));
        assert!(window.contains(at(19)) && !window.contains(at(20)));
        assert!(!Window::ALWAYS.contains(Instant::MAX) && Window::ALWAYS.contains(Instant::EPOCH));
    }

    #[test]
    fn backward_and_empty_windows_contain_nothing() {
        for empty in [window(10, 10), window(20, 10)] {
            assert!(empty.is_empty() && !empty.contains(empty.start));
            assert_eq!((empty.len_ms(), empty.elapsed_ms(Instant::MAX)), (0, 0));
            assert_eq!(
                (empty.elapsed_ppm(empty.start), empty.elapsed_q32(empty.start)),
                (1_000_000, 1 << 32)
            );
        }
        assert!(window(0, 10).intersect(&window(10, 20)).is_empty());
        assert_eq!(window(0, 15).intersect(&window(10, 20)), window(10, 15));
    }

    #[test]
    fn the_week_starts_on_monday() {
        let hour = |text| hour_of_week(Instant::parse(text).unwrap(), &Zone::utc());
        assert_eq!(hour("2026-11-16T00:00:00Z"), 0);
        assert_eq!(hour("2026-11-15T23:59:59.999Z"), 167);
        assert_eq!(hour("1970-01-01T00:00:00Z"), 3 * 24);
        let paris = Zone::parse("Europe/Paris").unwrap();
        assert_eq!(hour_of_week(Instant::parse("2026-11-15T23:00:00Z").unwrap(), &paris), 0);
    }

    #[test]
    fn weeks_and_months_are_made_of_whole_days() {
        let cases = [
            ("UTC", "2026-06-07T00:00:00Z", "2026-06-07", "2026-06-14"),
            ("UTC", "2026-06-06T23:59:59.999Z", "2026-05-31", "2026-06-07"),
            ("America/New_York", "2026-11-01T03:00:00Z", "2026-10-25", "2026-11-01"),
            ("America/New_York", "2026-11-01T04:00:00Z", "2026-11-01", "2026-11-08"),
        ];
        for (zone, at, first, next) in cases {
            let zone = Zone::parse(zone).unwrap();
            let at = Instant::parse(at).unwrap();
            let [start, end] =
                [first, next].map(|date| first_instant(date.parse().unwrap(), &zone));
            assert_eq!(week_at(at, &zone), Window { start, end });
        }
        let cairo = Zone::parse("Africa/Cairo").unwrap();
        let february = month_at(Instant::parse("2028-02-29T12:00:00Z").unwrap(), &cairo);
        assert_eq!(february.start, Instant::parse("2028-01-31T22:00:00Z").unwrap());
        assert_eq!(february.end, Instant::parse("2028-02-29T22:00:00Z").unwrap());
        for at in [february.start, february.end] {
            assert_eq!(day_at(at, &cairo).start, at);
        }
    }

    #[test]
    fn hours_and_minutes_follow_the_clocks_of_the_zone() {
        let at = |text| Instant::parse(text).unwrap();
        let hour = |zone, text| {
            let window = hour_at(at(text), &Zone::parse(zone).unwrap());
            (window.start.to_string(), window.len_ms() / 60_000)
        };
        let cases = [
            ("UTC", "2026-06-07T10:59:59.999Z", "2026-06-07T10:00:00Z", 60),
            ("Asia/Kathmandu", "2026-06-07T10:14:59Z", "2026-06-07T09:15:00Z", 60),
            // The hour that appears twice is two hours.
            ("Europe/Paris", "2026-10-25T00:30:00Z", "2026-10-25T00:00:00Z", 60),
            ("Europe/Paris", "2026-10-25T01:30:00Z", "2026-10-25T01:00:00Z", 60),
            // Clocks go back by half an hour at 15:00 UTC: half an hour appears twice.
            ("Australia/Lord_Howe", "2026-04-04T14:59:00Z", "2026-04-04T14:00:00Z", 60),
            ("Australia/Lord_Howe", "2026-04-04T15:01:00Z", "2026-04-04T15:00:00Z", 30),
            ("Australia/Lord_Howe", "2026-04-04T15:30:00Z", "2026-04-04T15:30:00Z", 60),
        ];
        for (zone, text, start, minutes) in cases {
            assert_eq!(hour(zone, text), (at(start).to_string(), minutes), "{zone} {text}");
        }
        let minute = minute_at(at("2026-06-07T10:59:59.999Z"), &Zone::utc());
        assert_eq!((minute.start, minute.len_ms()), (at("2026-06-07T10:59:00Z"), 60_000));
    }

    #[test]
    fn the_first_and_the_last_day_are_cut() {
        let new_york = Zone::parse("America/New_York").unwrap();
        let (first, last) =
            (day_at(Instant::EPOCH, &new_york), day_at(Instant::from_ms(u64::MAX - 1), &new_york));
        assert_eq!(first, window(0, 5 * 3_600_000));
        assert_eq!(last.end, Instant::MAX);
        let kiritimati = Zone::parse("Pacific/Kiritimati").unwrap();
        let before = Instant::from_ms(Instant::MAX.ms() - 1);
        assert!(day_at(before, &kiritimati).contains(before));
        assert!(day_at(before, &new_york).contains(before));
    }

    proptest! {
        #[test]
        fn weeks_and_months_contain_the_days_of_their_instants(
            at_ms in 0..4_000_000_000_000u64,
            zone in prop::sample::select(vec!["UTC", "America/Havana", "Australia/Lord_Howe", "Pacific/Apia"]),
        ) {
            let (at, zone) = (Instant::from_ms(at_ms), Zone::parse(zone).unwrap());
            let day = day_at(at, &zone);
            for window in [week_at(at, &zone), month_at(at, &zone)] {
                prop_assert!(window.contains(at) && window.intersect(&day) == day, "{window:?}");
                prop_assert_eq!(day_at(window.end, &zone).start, window.end);
            }
        }

        #[test]
        fn hours_and_minutes_meet_and_never_overlap(
            ms in 0..Instant::MAX.ms(),
            zone in prop::sample::select(vec!["UTC", "America/Havana", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Monrovia"]),
        ) {
            let (at, zone) = (Instant::from_ms(ms), Zone::parse(zone).unwrap());
            for of in [minute_at, hour_at] {
                let window = of(at, &zone);
                prop_assert!(window.contains(at) && window.len_ms() <= 3_600_000, "{window:?}");
                if window.end < Instant::MAX {
                    prop_assert_eq!(of(window.end, &zone).start, window.end);
                }
                prop_assert_eq!(of(window.start, &zone), window);
            }
        }

        #[test]
        fn the_short_cut_agrees(name in prop::sample::select(&["UTC", "Europe/Paris", "America/Havana", "Antarctica/Troll",
                                    "Pacific/Apia", "Africa/Casablanca", "America/St_Johns", "Asia/Kathmandu"][..]),
                                ms in prop_oneof![0_u64..10_000_000_000_000, 0..Instant::MAX.ms()]) {
            let (zone, at) = (Zone::parse(name).unwrap(), Instant::from_ms(ms));
            prop_assert_eq!(day_at(at, &zone), any_day_at(at, &zone));
        }

        #[test]
        fn elapsed_time_is_monotone_and_whole(start in 0..=Instant::MAX.ms(), len in 1_u64..1 << 45,
                                               a in 0..=Instant::MAX.ms(), b in 0..=Instant::MAX.ms()) {
            let window = window(start, start + len);
            let (early, late) = (Instant::from_ms(a.min(b)), Instant::from_ms(a.max(b)));
            prop_assert!(window.elapsed_ppm(early) <= window.elapsed_ppm(late));
            prop_assert!(window.elapsed_q32(early) <= window.elapsed_q32(late));
            prop_assert_eq!(window.elapsed_ms(early) == window.len_ms(), early >= window.end);
            prop_assert_eq!((window.elapsed_ppm(window.start) == 0, window.elapsed_q32(window.end)),
                            (!window.is_empty(), 1 << 32));
        }
    }
}
