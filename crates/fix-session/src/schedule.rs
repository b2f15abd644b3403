//! When a session is open, and when its numbers begin again.

use money::{Instant, Zone, ZoneError};

const DAY_MS: i64 = 86_400_000;
const MINUTE_MS: i64 = 60_000;
const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// The times at which a session is open. Each stretch of it is a period: the numbers begin again at 1 with each.
///
/// Times are those of a clock on a wall of the time zone: a period has 23 or 25 hours where that clock is changed. A time that the
/// clock skips is the first one after it, a time that comes twice is the first of the two.
///
/// ```
/// use fix_session::Schedule;
/// let london = Schedule::parse("mon-fri 08:00-17:00 Europe/London")?;
/// let monday = 1_795_428_930_000; // 2026-11-23 10:15:30 UTC
/// let period = london.period_at(monday).expect("open");
/// assert_eq!(period.end_unix_ms - period.start_unix_ms, 9 * 3_600_000);
/// # Ok::<(), fix_session::ScheduleError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule(Plan);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Plan {
    #[default]
    NonStop,
    Daily {
        minute: i64,
        zone: Zone,
    },
    Hours {
        first_day: usize,
        last_day: usize,
        start_minute: i64,
        end_minute: i64,
        zone: Zone,
    },
}

/// A stretch of time in which a session is open: from its start until just before its end, milliseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    /// The first millisecond.
    pub start_unix_ms: i64,
    /// The first millisecond behind it; the largest number if there is none.
    pub end_unix_ms: i64,
}

impl Period {
    /// Reports whether a time is in it.
    #[must_use]
    pub fn contains(&self, unix_ms: i64) -> bool {
        (self.start_unix_ms..self.end_unix_ms).contains(&unix_ms)
    }
}

/// A text that is no schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// It has another form.
    #[error(
        "schedule {text:?}: expected nothing (non-stop), \"mon-fri 08:00-17:00 Europe/London\" (open hours), or \
         \"daily 17:00 America/New_York\" (always open, the numbers begin again at that time)"
    )]
    Form {
        /// The text, at most its first 64 characters.
        text: String,
    },
    /// Its time zone does not exist.
    #[error(transparent)]
    Zone(#[from] ZoneError),
}

impl Schedule {
    /// Reads a schedule: nothing for non-stop, days and hours with a time zone, or the time of a daily reset with a time zone.
    ///
    /// Days are `mon` to `sun`, one or a range that may lead over the weekend. Hours whose end is not after their start end on the next
    /// day, and belong to the day on which they start.
    ///
    /// # Errors
    /// [`ScheduleError`].
    pub fn parse(text: &str) -> Result<Schedule, ScheduleError> {
        if text.trim().is_empty() {
            return Ok(Schedule::default());
        }
        let form = || ScheduleError::Form { text: text.chars().take(64).collect() };
        let mut words = text.split_whitespace();
        let (Some(days), Some(times), Some(zone), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(form());
        };
        if days == "daily" {
            let minute = minute_of_day(times).ok_or_else(form)?;
            return Ok(Schedule(Plan::Daily { minute, zone: Zone::parse(zone)? }));
        }
        let (first, last) = days.split_once('-').unwrap_or((days, days));
        let day = |name: &str| DAYS.iter().position(|day| *day == name);
        let (start, end) = times.split_once('-').ok_or_else(form)?;
        Ok(Schedule(Plan::Hours {
            first_day: day(first).ok_or_else(form)?,
            last_day: day(last).ok_or_else(form)?,
            start_minute: minute_of_day(start).ok_or_else(form)?,
            end_minute: minute_of_day(end).ok_or_else(form)?,
            zone: Zone::parse(zone)?,
        }))
    }

    /// Returns the period that a time belongs to; `None` while the session is closed.
    #[must_use]
    pub fn period_at(&self, unix_ms: i64) -> Option<Period> {
        match &self.0 {
            Plan::NonStop => Some(Period { start_unix_ms: i64::MIN, end_unix_ms: i64::MAX }),
            Plan::Daily { zone, .. } | Plan::Hours { zone, .. } => {
                let today = local_day(unix_ms, zone);
                // A period that holds this time began today or yesterday, by a clock that may have been set back meanwhile.
                let periods = (today - 2..=today + 1).filter_map(|day| self.period_of(day));
                periods.rev().find(|period| period.contains(unix_ms))
            }
        }
    }

    /// Returns when the next period after a time begins; `None` if there is none, because the session is non-stop.
    #[must_use]
    pub fn next_start_unix_ms(&self, unix_ms: i64) -> Option<i64> {
        let (Plan::Daily { zone, .. } | Plan::Hours { zone, .. }) = &self.0 else { return None };
        let today = local_day(unix_ms, zone);
        let starts = (today - 1..=today + 8).filter_map(|day| self.period_of(day));
        starts.map(|period| period.start_unix_ms).find(|start| *start > unix_ms)
    }

    /// The period that begins on a local day, counted from 1970-01-01.
    fn period_of(&self, day: i64) -> Option<Period> {
        let (start, end) = match &self.0 {
            Plan::NonStop => return None,
            Plan::Daily { minute, zone } => (at(day, *minute, zone), at(day + 1, *minute, zone)),
            Plan::Hours { first_day, last_day, start_minute, end_minute, zone } => {
                // 1970-01-01 was a Thursday.
                let weekday = usize::try_from((day + 3).rem_euclid(7)).ok()?;
                let open = match first_day <= last_day {
                    true => (*first_day..=*last_day).contains(&weekday),
                    false => weekday >= *first_day || weekday <= *last_day,
                };
                if !open {
                    return None;
                }
                let end_day = if end_minute > start_minute { day } else { day + 1 };
                (at(day, *start_minute, zone), at(end_day, *end_minute, zone))
            }
        };
        Some(Period { start_unix_ms: start, end_unix_ms: end })
    }
}

/// Reads `HH:MM` as minutes.
fn minute_of_day(text: &str) -> Option<i64> {
    let (hours, minutes) = text.split_once(':')?;
    let number = |digits: &str| {
        let two = digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
        two.then(|| digits.parse::<i64>().ok()).flatten()
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    (hours < 24 && minutes < 60).then_some(hours * 60 + minutes)
}

fn local_day(unix_ms: i64, zone: &Zone) -> i64 {
    unix_ms.saturating_add(offset_ms(unix_ms, zone)).div_euclid(DAY_MS)
}

fn offset_ms(unix_ms: i64, zone: &Zone) -> i64 {
    zone.offset_at(instant(unix_ms)).offset_ms
}

fn instant(unix_ms: i64) -> Instant {
    Instant::from_ms(u64::try_from(unix_ms).unwrap_or(0))
}

/// The time at which the clocks of a zone show a minute of a local day.
fn at(day: i64, minute: i64, zone: &Zone) -> i64 {
    let local_ms = day.saturating_mul(DAY_MS).saturating_add(minute * MINUTE_MS);
    // The offsets a day before and a day later: no clock is changed twice between them.
    let [before, after] =
        [-DAY_MS, DAY_MS].map(|far| offset_ms(local_ms.saturating_add(far), zone));
    let [with_before, with_after] = [before, after].map(|offset| local_ms.saturating_sub(offset));
    let shown = |unix_ms: i64, offset: i64| offset_ms(unix_ms, zone) == offset;
    match (shown(with_before, before), shown(with_after, after)) {
        (true, true) => with_before.min(with_after),
        (true, false) => with_before,
        (false, true) => with_after,
        // The clock skips this time: the first one after it.
        (false, false) => {
            let change = zone.offset_at(instant(with_before)).start.ms();
            i64::try_from(change).unwrap_or(with_before)
        }
    }
}
