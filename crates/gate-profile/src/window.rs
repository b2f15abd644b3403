//! Caps and the windows they count in.

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const DAY_MS: i64 = 24 * HOUR_MS;
const WEEK_MS: i64 = 7 * DAY_MS;
/// The Unix epoch was a Thursday; weeks start on Monday.
const MONDAY_MS: i64 = 3 * DAY_MS;
/// No time zone is further from UTC than this.
const OFFSET_MS_MAX: i64 = DAY_MS;

/// How long a cap counts before it starts again from nothing.
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
}

impl Window {
    /// All of them, shortest first.
    pub const ALL: [Window; 5] =
        [Window::Minute, Window::Hour, Window::Day, Window::Week, Window::Lifetime];

    const fn length_ms(self) -> Option<i64> {
        match self {
            Window::Minute => Some(MINUTE_MS),
            Window::Hour => Some(HOUR_MS),
            Window::Day => Some(DAY_MS),
            Window::Week => Some(WEEK_MS),
            Window::Lifetime => None,
        }
    }

    const fn shift_ms(self) -> i64 {
        if matches!(self, Window::Week) { MONDAY_MS } else { 0 }
    }
}

/// At most `limit` impressions of `item` to one user in each window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cap {
    /// What is capped: the id of a campaign or a creative. Ids of both kinds share one space.
    pub item: u64,
    /// How long it counts.
    pub window: Window,
    /// Impressions allowed; 0 allows none.
    pub limit: u16,
    /// Minutes that the campaign's local time is ahead of UTC now: windows start at local midnight.
    /// When it changes (summer time), the running window keeps its count and ends at the new boundary.
    pub offset_minutes: i16,
}

impl Cap {
    /// The window that `now_ms` (Unix milliseconds) falls into.
    #[inline]
    pub(crate) fn at(&self, now_ms: u64) -> WindowId {
        let Some(length) = self.window.length_ms() else {
            return WindowId::new(self.window, 0);
        };
        let offset = i64::from(self.offset_minutes) * MINUTE_MS + self.window.shift_ms();
        let local = i64::try_from(now_ms).unwrap_or(i64::MAX).saturating_add(offset);
        let number = (local / length).clamp(0, i64::from(NUMBER_MAX));
        WindowId::new(self.window, u32::try_from(number).unwrap_or(NUMBER_MAX))
    }
}

/// One window of one kind: three bits of kind above its number since the epoch.
///
/// Of two of the same kind the later one is the greater one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WindowId(pub(crate) u32);

const NUMBER_BITS: u32 = 29;
/// Minutes since 1970 reach it in the year 2990.
const NUMBER_MAX: u32 = (1 << NUMBER_BITS) - 1;

impl WindowId {
    fn new(window: Window, number: u32) -> WindowId {
        WindowId((window as u32) << NUMBER_BITS | number)
    }

    /// Both are of the same kind.
    pub(crate) fn same_kind(self, other: WindowId) -> bool {
        self.0 >> NUMBER_BITS == other.0 >> NUMBER_BITS
    }

    /// It has passed in every time zone of the world.
    pub(crate) fn is_over(self, now_ms: u64) -> bool {
        let kind = Window::ALL.get((self.0 >> NUMBER_BITS) as usize);
        let Some((window, length)) = kind.and_then(|window| Some((window, window.length_ms()?)))
        else {
            return false;
        };
        let end = (i64::from(self.0 & NUMBER_MAX) + 1) * length - window.shift_ms();
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

    #[test]
    fn windows_turn_at_local_boundaries() {
        const HOUR: u64 = 3_600_000;
        for (window, offset, turns_after) in [
            (Window::Minute, 0, 60_000),
            (Window::Hour, 0, HOUR),
            (Window::Hour, 330, HOUR / 2),
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
    fn a_window_is_over_a_day_after_its_end_and_a_lifetime_never() {
        for window in [Window::Minute, Window::Hour, Window::Day, Window::Week] {
            let at = cap(window, 0).at(SUNDAY_2300);
            assert!(!at.is_over(SUNDAY_2300));
            assert!(at.is_over(SUNDAY_2300 + 8 * 86_400_000 + 3_600_000));
        }
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
}
