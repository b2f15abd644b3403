//! Caps and the windows they count in.

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const DAY_MS: i64 = 24 * HOUR_MS;
const WEEK_MS: i64 = 7 * DAY_MS;
/// The Unix epoch was a Thursday; weeks start on Monday.
const MONDAY_MS: i64 = 3 * DAY_MS;
/// No time zone is further from UTC than this.
const OFFSET_MS_MAX: i64 = DAY_MS;
/// Whole steps of a rolling window. One more is counted, the running one: so the steps that count are never shorter
/// than the window.
const STEPS: i64 = 7;

/// How long a cap counts: in a window of the calendar, which starts again from nothing, or in a rolling one, which
/// always ends now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Window {
    /// A minute of the clock.
    Minute,
    /// An hour of the clock.
    Hour,
    /// A day, from midnight.
    Day,
    /// A week, from Monday's midnight.
    Week,
    /// For ever.
    Lifetime,
    /// Any 60 minutes. A place comes back 60 to 69 minutes after its impression.
    RollingHour,
    /// Any 24 hours. A place comes back 24 to 27.5 hours after its impression.
    RollingDay,
    /// Any 7 days of 24 hours. A place comes back 7 to 8 days after its impression.
    RollingWeek,
}

impl Window {
    /// All of them: the calendar's, shortest first, then the rolling ones. Their positions are on disk.
    pub const ALL: [Window; 8] = [
        Window::Minute,
        Window::Hour,
        Window::Day,
        Window::Week,
        Window::Lifetime,
        Window::RollingHour,
        Window::RollingDay,
        Window::RollingWeek,
    ];

    /// It always ends now.
    #[must_use]
    pub const fn is_rolling(self) -> bool {
        matches!(self, Window::RollingHour | Window::RollingDay | Window::RollingWeek)
    }

    /// The most that a cap of this window can allow: each step of a rolling window is counted in a byte.
    #[must_use]
    pub const fn limit_max(self) -> u16 {
        if self.is_rolling() { u8::MAX as u16 } else { u16::MAX }
    }

    /// How long a number lasts: a window of the calendar, or a step of a rolling one, rounded up.
    const fn step_ms(self) -> Option<i64> {
        match self {
            Window::Minute => Some(MINUTE_MS),
            Window::Hour => Some(HOUR_MS),
            Window::Day => Some(DAY_MS),
            Window::Week => Some(WEEK_MS),
            Window::Lifetime => None,
            Window::RollingHour => Some((HOUR_MS + STEPS - 1) / STEPS),
            Window::RollingDay => Some((DAY_MS + STEPS - 1) / STEPS),
            Window::RollingWeek => Some(WEEK_MS / STEPS),
        }
    }

    /// How far its numbers are moved from those of UTC since the epoch. Minutes and hours only by what is not whole of
    /// them, so that summer time does not make the last one before it longer.
    fn shift_ms(self, offset_minutes: i16) -> i64 {
        let offset_ms = i64::from(offset_minutes) * MINUTE_MS;
        match self {
            Window::Hour => offset_ms % HOUR_MS,
            Window::Day => offset_ms,
            Window::Week => offset_ms + MONDAY_MS,
            _ => 0,
        }
    }

    /// The window, or the step of a rolling one, that `now_ms` falls into.
    #[inline]
    pub(crate) fn at(self, offset_minutes: i16, now_ms: u64) -> WindowId {
        let Some(step) = self.step_ms() else {
            return WindowId::new(self, 0);
        };
        let now = i64::try_from(now_ms).unwrap_or(i64::MAX);
        let local = now.saturating_add(self.shift_ms(offset_minutes));
        let number = (local / step).clamp(0, i64::from(NUMBER_MAX));
        WindowId::new(self, u32::try_from(number).unwrap_or(NUMBER_MAX))
    }
}

/// At most `limit` impressions of `item` to one user in each window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cap {
    /// What is capped: the id of a campaign or a creative. Ids of both kinds share one space.
    pub item: u64,
    /// How long it counts.
    pub window: Window,
    /// Impressions allowed; 0 allows none. Above [`Window::limit_max`] it is taken for that.
    pub limit: u16,
    /// Minutes that the campaign's local time is ahead of UTC now: days and weeks start at local midnight, hours at
    /// local full hours. When it changes (summer time), the running window keeps its count and ends at the new
    /// boundary. Rolling windows do not look at it.
    pub offset_minutes: i16,
}

impl Cap {
    /// The window that `now_ms` (Unix milliseconds) falls into.
    #[inline]
    pub(crate) fn at(&self, now_ms: u64) -> WindowId {
        self.window.at(self.offset_minutes, now_ms)
    }

    /// No place is left when so many are used.
    #[inline]
    pub(crate) fn is_full(&self, used: u32) -> bool {
        used >= u32::from(self.limit.min(self.window.limit_max()))
    }
}

/// One window, or one step of a rolling one: three bits of kind above its number since the epoch.
///
/// Of two of the same kind the later one is the greater one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WindowId(pub(crate) u32);

const NUMBER_BITS: u32 = 29;
/// Minutes since 1970 reach it in the year 2990.
const NUMBER_MAX: u32 = (1 << NUMBER_BITS) - 1;

const _: () = assert!(Window::ALL.len() == 1 << (32 - NUMBER_BITS), "all kinds are taken");

impl WindowId {
    fn new(window: Window, number: u32) -> WindowId {
        WindowId((window as u32) << NUMBER_BITS | number)
    }

    pub(crate) fn kind(self) -> Window {
        Window::ALL[(self.0 >> NUMBER_BITS) as usize]
    }

    /// Both are of the same kind.
    pub(crate) fn same_kind(self, other: WindowId) -> bool {
        self.0 >> NUMBER_BITS == other.0 >> NUMBER_BITS
    }

    /// The number of windows, or steps, of the same kind it comes after `earlier`; 0 when it does not.
    pub(crate) fn after(self, earlier: WindowId) -> u32 {
        self.0.saturating_sub(earlier.0)
    }

    /// What was counted in it counts nowhere any more, in every time zone of the world.
    pub(crate) fn is_over(self, now_ms: u64) -> bool {
        let kind = self.kind();
        let Some(step) = kind.step_ms() else { return false };
        let later = if kind.is_rolling() { STEPS } else { 0 };
        let end = (i64::from(self.0 & NUMBER_MAX) + 1 + later) * step - kind.shift_ms(0);
        i64::try_from(now_ms).unwrap_or(i64::MAX) >= end + OFFSET_MS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cap(window: Window, offset_minutes: i16) -> Cap {
        Cap { item: 1, window, limit: 1, offset_minutes }
    }

    /// Sunday 2026-11-22, 23:00 UTC.
    const SUNDAY_2300: u64 = 1_795_388_400_000;
    const HOUR: u64 = 3_600_000;
    const DAY: u64 = 24 * HOUR;

    #[test]
    fn windows_turn_at_local_boundaries() {
        for (window, offset, turns_after) in [
            (Window::Minute, 0, 60_000),
            (Window::Minute, 330, 60_000),
            (Window::Hour, 0, HOUR),
            (Window::Hour, 330, HOUR / 2),
            (Window::Hour, -210, HOUR / 2),
            (Window::Day, 0, HOUR),
            (Window::Day, -60, 2 * HOUR),
            (Window::Week, 0, HOUR),
            (Window::Week, -300, 6 * HOUR),
        ] {
            let cap = cap(window, offset);
            let first = cap.at(SUNDAY_2300);
            assert_eq!(cap.at(SUNDAY_2300 + turns_after - 1), first, "{window:?} {offset}");
            assert!(cap.at(SUNDAY_2300 + turns_after) > first, "{window:?} {offset}");
        }
    }

    #[test]
    fn whole_hours_of_offset_move_neither_minutes_nor_hours_nor_rolling_windows() {
        let indifferent =
            Window::ALL.into_iter().filter(|w| !matches!(w, Window::Day | Window::Week));
        for window in indifferent {
            for offset in [-600, -60, 60, 120] {
                let moved = cap(window, offset).at(SUNDAY_2300);
                assert_eq!(moved, cap(window, 0).at(SUNDAY_2300), "{window:?} {offset}");
            }
        }
    }

    /// Of any two moments no further apart than the window, the later one still counts the earlier one's step.
    #[test]
    fn steps_cover_the_window_and_at_most_a_seventh_more() {
        for (window, length) in
            [(Window::RollingHour, HOUR), (Window::RollingDay, DAY), (Window::RollingWeek, 7 * DAY)]
        {
            let at = |ms: u64| cap(window, 0).at(ms);
            let start = (SUNDAY_2300..).step_by(1_000).find(|&ms| at(ms) > at(ms - 1_000)).unwrap();
            for early in (0..97).map(|part| start + length * part / 97) {
                assert!(at(early + length).after(at(early)) <= 7, "{window:?}");
                assert!(at(early + 8 * (length / 7 + 1)).after(at(early)) >= 8, "{window:?}");
            }
        }
    }

    #[test]
    fn a_window_is_over_a_day_after_its_counts_are_and_a_lifetime_never() {
        for window in Window::ALL.into_iter().filter(|window| *window != Window::Lifetime) {
            let at = cap(window, 0).at(SUNDAY_2300);
            assert!(!at.is_over(SUNDAY_2300));
            assert!(at.is_over(SUNDAY_2300 + 9 * DAY + HOUR), "{window:?}");
        }
        let step = cap(Window::RollingDay, 0).at(SUNDAY_2300);
        assert!(!step.is_over(SUNDAY_2300 + 2 * DAY - 1), "it counts for a day, and a day more");
        assert!(!cap(Window::Lifetime, 0).at(SUNDAY_2300).is_over(u64::MAX));
    }

    #[test]
    fn extremes_do_not_wrap() {
        for window in Window::ALL {
            for offset in [i16::MIN, 0, i16::MAX] {
                assert!(cap(window, offset).at(0) <= cap(window, offset).at(u64::MAX));
            }
        }
    }

    #[test]
    fn a_rolling_cap_allows_no_more_than_a_byte_can_tell() {
        let wide = |window| Cap { limit: 1_000, ..cap(window, 0) };
        assert!(wide(Window::RollingDay).is_full(255) && !wide(Window::RollingDay).is_full(254));
        assert!(wide(Window::Day).is_full(1_000) && !wide(Window::Day).is_full(999));
    }
}
