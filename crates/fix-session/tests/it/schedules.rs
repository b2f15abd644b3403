//! Schedules, and what a session does at their ends (row L14, section "Schedule").

use fix_session::{Disconnect, MessageStore, Notice, Role, Schedule, SessionState};

use crate::desk::{Desk, START_UNIX_MS};

const HOUR_MS: i64 = 3_600_000;
/// 2026-11-23 was a Monday.
const MONDAY: i64 = START_UNIX_MS - (10 * 3_600 + 15 * 60 + 30) * 1_000;
/// 2026-03-28, the Saturday before clocks of London go forward, and 2026-10-24, before they go back.
const SPRING: i64 = 1_774_656_000_000;
const AUTUMN: i64 = 1_792_800_000_000;

fn period(text: &str, unix_ms: i64) -> Option<(i64, i64)> {
    let period = Schedule::parse(text).unwrap().period_at(unix_ms)?;
    Some((period.start_unix_ms, period.end_unix_ms))
}

#[test]
fn nothing_is_non_stop() {
    assert_eq!(period("", 0), Some((i64::MIN, i64::MAX)));
    assert_eq!(Schedule::parse(" ").unwrap().next_start_unix_ms(0), None);
}

#[test]
fn hours_are_those_of_the_zone() {
    let london = "mon-fri 08:00-17:00 Europe/London";
    let open = Some((MONDAY + 8 * HOUR_MS, MONDAY + 17 * HOUR_MS));
    assert_eq!(period(london, MONDAY + 8 * HOUR_MS - 1), None);
    assert_eq!(period(london, MONDAY + 8 * HOUR_MS), open);
    assert_eq!(period(london, MONDAY + 17 * HOUR_MS - 1), open);
    assert_eq!(period(london, MONDAY + 17 * HOUR_MS), None);
    assert_eq!(period(london, MONDAY - 12 * HOUR_MS), None, "a Sunday");
    let next = |from| Schedule::parse(london).unwrap().next_start_unix_ms(from);
    let friday_evening = MONDAY + (4 * 24 + 18) * HOUR_MS;
    assert_eq!(next(friday_evening), Some(MONDAY + (7 * 24 + 8) * HOUR_MS));
    assert_eq!(next(MONDAY), Some(MONDAY + 8 * HOUR_MS));
    let new_york = "mon-fri 09:30-16:00 America/New_York";
    let opens = MONDAY + 14 * HOUR_MS + HOUR_MS / 2;
    assert_eq!(period(new_york, opens), Some((opens, opens + 13 * HOUR_MS / 2)));
}

#[test]
fn hours_may_lead_over_midnight_and_the_weekend() {
    let night = "sun-thu 17:00-16:00 America/Chicago";
    let opened = MONDAY - HOUR_MS;
    assert_eq!(period(night, MONDAY), Some((opened, opened + 23 * HOUR_MS)));
    assert_eq!(period(night, MONDAY + 22 * HOUR_MS), None);
    assert_eq!(period(night, MONDAY + 5 * 24 * HOUR_MS), None, "a Saturday");
    let weekend = "fri-mon 00:00-12:00 UTC";
    assert!(period(weekend, MONDAY + HOUR_MS).is_some());
    assert_eq!(period(weekend, MONDAY + 25 * HOUR_MS), None);
}

#[test]
fn a_day_of_the_reset_has_23_or_25_hours() {
    let hours = |unix_ms: i64| {
        let (start, end) = period("daily 17:00 Europe/London", unix_ms).unwrap();
        assert!((start..end).contains(&unix_ms));
        (end - start) / HOUR_MS
    };
    assert_eq!([SPRING, SPRING + 20 * HOUR_MS, SPRING + 48 * HOUR_MS].map(hours), [24, 23, 24]);
    assert_eq!([AUTUMN, AUTUMN + 20 * HOUR_MS, AUTUMN + 48 * HOUR_MS].map(hours), [24, 25, 24]);
}

#[test]
fn times_that_clocks_skip_or_show_twice() {
    // 01:30 does not exist on 2026-03-29: 02:00 follows 01:00 at 01:00 UTC.
    let skipped = period("daily 01:30 Europe/London", SPRING + 30 * HOUR_MS).unwrap();
    assert_eq!(skipped.0, SPRING + 25 * HOUR_MS);
    // 01:30 comes at 00:30 and at 01:30 UTC on 2026-10-25.
    let twice = period("daily 01:30 Europe/London", AUTUMN + 30 * HOUR_MS).unwrap();
    assert_eq!(twice.0, AUTUMN + 24 * HOUR_MS + HOUR_MS / 2);
}

#[test]
fn every_time_of_a_daily_reset_is_in_one_period() {
    let schedule = Schedule::parse("daily 00:00 America/Havana").unwrap();
    let mut at = MONDAY;
    for _ in 0..800 {
        let period = schedule.period_at(at).unwrap();
        assert_eq!(schedule.next_start_unix_ms(at), Some(period.end_unix_ms));
        assert!(schedule.period_at(period.end_unix_ms - 1) == Some(period));
        at = period.end_unix_ms;
    }
}

#[test]
fn other_texts_are_refused() {
    let texts = [
        "mon-fri",
        "mon-fri 08:00 Europe/London",
        "mon-fri 08:00-25:00 UTC",
        "mon-fry 08:00-17:00 UTC",
        "daily 8:00 UTC",
        "daily 17:60 UTC",
        "daily 17:00",
        "daily 17:00 UTC x",
        "Mon 08:00-09:00 UTC",
    ];
    for text in texts {
        let error = Schedule::parse(text).unwrap_err().to_string();
        assert!(error.contains("expected") && error.contains("Europe/London"), "{error}");
    }
    let error = Schedule::parse("daily 17:00 Europe/Londn").unwrap_err().to_string();
    assert!(error.contains("did you mean \"Europe/London\"?"), "{error}");
}

fn desk(text: &str) -> Desk {
    Desk::with(|config| config.schedule = Schedule::parse(text).unwrap())
}

#[test]
fn l14_a_logon_outside_the_schedule_is_not_answered() {
    let mut desk = desk("tue 08:00-17:00 UTC");
    desk.connect();
    assert_eq!(desk.gets("35=A|34=1|98=0|108=30|"), "");
    assert_eq!(desk.closed, Some(Disconnect::Closed));
    assert_eq!(desk.store.next_in(), 1);
}

#[test]
fn an_initiator_says_nothing_outside_the_schedule() {
    let mut desk = Desk::with(|config| {
        config.role = Role::Initiator;
        config.schedule = Schedule::parse("tue 08:00-17:00 UTC").unwrap();
    });
    assert_eq!(desk.connect(), "");
    assert_eq!(desk.closed, Some(Disconnect::Closed));
}

#[test]
fn the_end_of_a_period_logs_out_and_the_next_begins_with_1() {
    for text in ["mon-fri 08:00-10:16 UTC", "daily 10:16 UTC"] {
        let mut desk = desk(text);
        desk.connect();
        desk.gets("35=A|34=1|98=0|108=60|");
        desk.sends("a");
        assert_eq!(desk.waits(29_999), "");
        assert_eq!(desk.waits(1), "35=5|34=3|58=Session period is over|");
        desk.gets("35=5|34=2|");
        assert_eq!((desk.store.next_in(), desk.store.next_out()), (3, 4));
        let next = desk.session.config().schedule.next_start_unix_ms(desk.now.unix_ms - 1).unwrap();
        let wait = u64::try_from(next - desk.now.unix_ms).unwrap();
        desk.waits(wait);
        desk.connect();
        assert_eq!(desk.gets("35=A|34=1|98=0|108=60|"), "35=A|34=1|98=0|108=60|");
        assert!(desk.notices.contains(&Notice::Reset));
        assert_eq!(desk.session.state(), SessionState::LoggedOn);
    }
}

#[test]
fn a_connection_from_before_the_period_logs_on_in_it() {
    let mut desk = desk("daily 10:16 UTC");
    desk.sends("a");
    desk.store.set_next_in(9).unwrap();
    desk.now.unix_ms += 25_000;
    desk.connect();
    desk.waits(6_000);
    assert_eq!(desk.gets("35=A|34=1|98=0|108=30|"), "35=A|34=1|98=0|108=30|");
}

#[test]
fn a_message_of_the_new_period_has_a_number_of_it() {
    let mut desk = desk("daily 10:16 UTC");
    desk.sends("a");
    desk.waits(60_000);
    desk.now.ms += 60_000;
    desk.now.unix_ms += 60_000;
    desk.sends("b");
    assert_eq!(desk.store.next_out(), 2);
}

#[test]
fn a_clock_that_jumps_over_the_end_ends_the_session() {
    let mut desk = desk("daily 17:00 UTC");
    desk.connect();
    desk.gets("35=A|34=1|98=0|108=30|");
    desk.now.unix_ms += 24 * HOUR_MS;
    assert_eq!(desk.waits(30_000), "35=5|34=2|58=Session period is over|");
    // One that is set back before the end leaves it logged on.
    let mut back = self::desk("daily 10:16 UTC");
    back.connect();
    back.gets("35=A|34=1|98=0|108=0|");
    back.now.unix_ms -= HOUR_MS;
    assert_eq!(back.waits(60_000), "");
    assert_eq!(back.session.state(), SessionState::LoggedOn);
}
