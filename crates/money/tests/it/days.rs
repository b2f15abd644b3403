//! Days on which clocks change: the cases that break systems that believe in days of 24 hours.

use money::{HOURS_OF_WEEK, Instant, Window, Zone, day_at, hour_of_week};
use proptest::prelude::*;

const HOUR_MS: u64 = 3_600_000;
const MINUTE_MS: u64 = 60_000;

fn at(text: &str) -> Instant {
    Instant::parse(text).expect("an instant")
}

fn zone(name: &str) -> Zone {
    Zone::parse(name).expect("a zone")
}

/// Zone, any instant in the day, its first instant, the first after it, minutes.
const DAYS: &[(&str, &str, &str, &str, u64)] = &[
    ("UTC", "2026-03-29T12:00:00Z", "2026-03-29T00:00:00Z", "2026-03-30T00:00:00Z", 1_440),
    // Changes by an hour, away from midnight.
    ("Europe/Paris", "2026-03-29T12:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z", 1_380),
    ("Europe/Paris", "2026-10-25T12:00:00Z", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z", 1_500),
    ("Europe/Paris", "2026-07-01T12:00:00Z", "2026-06-30T22:00:00Z", "2026-07-01T22:00:00Z", 1_440),
    (
        "America/New_York",
        "2026-03-08T12:00:00Z",
        "2026-03-08T05:00:00Z",
        "2026-03-09T04:00:00Z",
        1_380,
    ),
    (
        "America/New_York",
        "2026-11-01T12:00:00Z",
        "2026-11-01T04:00:00Z",
        "2026-11-02T05:00:00Z",
        1_500,
    ),
    // By half an hour.
    (
        "Australia/Lord_Howe",
        "2026-10-04T00:00:00Z",
        "2026-10-03T13:30:00Z",
        "2026-10-04T13:00:00Z",
        1_410,
    ),
    (
        "Australia/Lord_Howe",
        "2026-04-05T00:00:00Z",
        "2026-04-04T13:00:00Z",
        "2026-04-05T13:30:00Z",
        1_470,
    ),
    // By two hours.
    (
        "Antarctica/Troll",
        "2026-03-29T12:00:00Z",
        "2026-03-29T00:00:00Z",
        "2026-03-29T22:00:00Z",
        1_320,
    ),
    (
        "Antarctica/Troll",
        "2026-10-25T12:00:00Z",
        "2026-10-24T22:00:00Z",
        "2026-10-26T00:00:00Z",
        1_560,
    ),
    // No midnight: the day starts at 01:00 local time.
    (
        "America/Havana",
        "2026-03-08T12:00:00Z",
        "2026-03-08T05:00:00Z",
        "2026-03-09T04:00:00Z",
        1_380,
    ),
    (
        "Atlantic/Azores",
        "2026-03-29T12:00:00Z",
        "2026-03-29T01:00:00Z",
        "2026-03-30T00:00:00Z",
        1_380,
    ),
    ("Africa/Cairo", "2026-04-24T12:00:00Z", "2026-04-23T22:00:00Z", "2026-04-24T21:00:00Z", 1_380),
    ("Asia/Beirut", "2026-03-29T12:00:00Z", "2026-03-28T22:00:00Z", "2026-03-29T21:00:00Z", 1_380),
    (
        "America/Santiago",
        "2026-09-06T12:00:00Z",
        "2026-09-06T04:00:00Z",
        "2026-09-07T03:00:00Z",
        1_380,
    ),
    // Midnight twice: the day starts at the first.
    (
        "America/Havana",
        "2026-11-01T12:00:00Z",
        "2026-11-01T04:00:00Z",
        "2026-11-02T05:00:00Z",
        1_500,
    ),
    (
        "Atlantic/Azores",
        "2026-10-25T12:00:00Z",
        "2026-10-25T00:00:00Z",
        "2026-10-26T01:00:00Z",
        1_500,
    ),
    // Back from midnight to 23:00: the day before is the long one.
    ("Africa/Cairo", "2026-10-29T12:00:00Z", "2026-10-28T21:00:00Z", "2026-10-29T22:00:00Z", 1_500),
    ("Asia/Beirut", "2026-10-24T12:00:00Z", "2026-10-23T21:00:00Z", "2026-10-24T22:00:00Z", 1_500),
    (
        "America/Santiago",
        "2026-04-04T12:00:00Z",
        "2026-04-04T03:00:00Z",
        "2026-04-05T04:00:00Z",
        1_500,
    ),
    // A date that was skipped, and what is left of a day around it.
    ("Pacific/Apia", "2011-12-30T09:59:59Z", "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z", 1_440),
    ("Pacific/Apia", "2011-12-30T10:00:00Z", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z", 1_440),
    // Back across midnight one minute after it: the repeated evening belongs to the new day.
    (
        "America/St_Johns",
        "2010-11-07T02:30:30Z",
        "2010-11-07T02:30:00Z",
        "2010-11-08T03:30:00Z",
        1_500,
    ),
    (
        "America/St_Johns",
        "2010-11-07T03:00:00Z",
        "2010-11-07T02:30:00Z",
        "2010-11-08T03:30:00Z",
        1_500,
    ),
];

#[test]
fn days_have_their_own_lengths() {
    for (name, inside, start, end, minutes) in DAYS {
        let day = day_at(at(inside), &zone(name));
        assert_eq!(
            day,
            Window { start: at(start), end: at(end) },
            "{name}, {inside}: {}, {}",
            day.start,
            day.end
        );
        assert_eq!(day.len_ms(), minutes * MINUTE_MS, "{name}, {inside}");
    }
}

#[test]
fn both_midnights_belong_to_the_day_that_starts_at_the_first() {
    let (havana, first, second) =
        (zone("America/Havana"), at("2026-11-01T04:00:00Z"), at("2026-11-01T05:00:00Z"));
    assert_eq!(day_at(first, &havana), day_at(second, &havana));
    assert_eq!(hour_of_week(first, &havana), hour_of_week(second, &havana));
}

/// Every day of zones with odd habits, from 1970 to 2040: they follow each other without gap or overlap.
#[test]
fn days_follow_each_other() {
    let odd = [
        "Europe/Paris",
        "Antarctica/Troll",
        "America/St_Johns",
        "Pacific/Apia",
        "Pacific/Kwajalein",
        "Africa/Casablanca",
        "America/Toronto",
        "Asia/Gaza",
        "Africa/Monrovia",
    ];
    let (first, last) = (at("1970-01-03T00:00:00Z"), at("2040-01-01T00:00:00Z"));
    for name in odd {
        let zone = zone(name);
        let mut day = day_at(first, &zone);
        while day.start < last {
            let next = day_at(day.end, &zone);
            assert_eq!(next.start, day.end, "{name}: {} is not where a day starts", day.end);
            let hours = (22 * HOUR_MS)..=(26 * HOUR_MS);
            assert!(hours.contains(&day.len_ms()), "{name}: {} to {}", day.start, day.end);
            day = next;
        }
    }
}

const ZONES: &[&str] = &[
    "UTC",
    "Europe/Paris",
    "America/New_York",
    "Australia/Lord_Howe",
    "Antarctica/Troll",
    "America/Havana",
    "Atlantic/Azores",
    "Africa/Cairo",
    "Asia/Beirut",
    "America/Santiago",
    "America/St_Johns",
    "Pacific/Apia",
    "Asia/Kathmandu",
    "Pacific/Kiritimati",
    "Africa/Casablanca",
];

proptest! {
    #[test]
    fn an_instant_is_in_its_day(name in prop::sample::select(ZONES), ms in 0..Instant::MAX.ms()) {
        let (zone, at) = (zone(name), Instant::from_ms(ms));
        let day = day_at(at, &zone);
        prop_assert!(day.contains(at));
        prop_assert_eq!(day_at(day.start, &zone), day);
        prop_assert_eq!(day_at(Instant::from_ms(day.end.ms() - 1), &zone), day);
        prop_assert!(day.end == Instant::MAX || day_at(day.end, &zone).start == day.end);
    }

    #[test]
    fn hours_of_the_week_agree_with_offsets(name in prop::sample::select(ZONES),
                                            ms in 0_u64..7_258_118_400_000) {
        let (zone, at) = (zone(name), Instant::from_ms(ms));
        let span = zone.offset_at(at);
        prop_assert!(span.start <= at && at < span.end);
        // The epoch was a Thursday.
        let local_ms = i64::try_from(ms).unwrap() + span.offset_ms;
        let hour = (local_ms.div_euclid(3_600_000) + 3 * 24).rem_euclid(168);
        prop_assert_eq!(i64::from(hour_of_week(at, &zone)), hour);
        prop_assert!(hour_of_week(at, &zone) < HOURS_OF_WEEK);
    }
}
