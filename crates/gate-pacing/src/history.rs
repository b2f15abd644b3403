//! History: what the hours of the week have seen, for plans and forecasts.

use money::{Amount, Instant, Window, Zone, hour_of_week};

use crate::fixed::{ONE_Q32, narrow_u64};
use crate::{Shape, WEIGHT_MAX};

const HOURS: usize = 168;
const HOURS_OF_DAY: usize = 24;
const HOUR_MS: u64 = 3_600_000;
const WEEK_MS: u64 = 168 * HOUR_MS;
/// An hour of which less than this was watched teaches nothing.
const WATCHED_MS_MIN: u64 = HOUR_MS / 2;
/// A new week counts for one part in so many.
const WEEK_PART: u128 = 4;
/// So many different hours must be known: fewer say nothing of a day.
const KNOWN_MIN: usize = HOURS_OF_DAY;
/// No hour of a shape weighs less than this part of the mean.
const FLOOR_PART: u128 = 20;

/// What an hour of the week has seen: a mean over weeks in which later ones count more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hour {
    /// Weeks in which it was watched; 0: nothing is known.
    pub weeks: u32,
    /// Eligible requests.
    pub requests: u64,
    /// Spend, base units.
    pub spent: u64,
    /// Mean multiplier, Q32.
    pub multiplier_q32: u64,
}

/// The hour that is being watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Present {
    hour: u8,
    start: Instant,
    last: Instant,
    requests: u64,
    spent: u64,
    /// Multiplier times milliseconds.
    multiplier: u128,
}

/// Requests and spend of the hours of the week, local time.
///
/// An hour that is over goes into its mean; the present one is lost at a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    hours: [Hour; HOURS],
    /// Mean multipliers of the last hours by hour of the day, Q32; 0 where unknown.
    recent: [u64; HOURS_OF_DAY],
    present: Option<Present>,
}

impl Default for History {
    fn default() -> History {
        History { hours: [Hour::default(); HOURS], recent: [0; HOURS_OF_DAY], present: None }
    }
}

impl History {
    /// From what [`History::hours`] and [`History::recent`] gave.
    #[must_use]
    pub fn from_parts(hours: [Hour; HOURS], recent: [u64; HOURS_OF_DAY]) -> History {
        History { hours, recent, present: None }
    }

    /// The hours of the week from Monday 00:00.
    #[must_use]
    pub fn hours(&self) -> &[Hour; HOURS] {
        &self.hours
    }

    /// Mean multipliers of the last day, by hour of the day, Q32; 0 where unknown.
    #[must_use]
    pub fn recent(&self) -> &[u64; HOURS_OF_DAY] {
        &self.recent
    }

    /// Adds what came since the last call: eligible requests and spend, at a live multiplier (Q32). To be
    /// called at every tick, also where nothing came: an hour that was not watched for half of its time does
    /// not count.
    pub fn observe(
        &mut self,
        at: Instant,
        zone: &Zone,
        seen: u64,
        spent: Amount,
        multiplier_q32: u64,
    ) {
        let hour = hour_of_week(at, zone);
        let same = |present: &Present| {
            present.hour == hour && at.ms().abs_diff(present.start.ms()) < 2 * HOUR_MS
        };
        let mut present = match self.present.take() {
            Some(present) if same(&present) => present,
            over => {
                if let Some(over) = over {
                    self.fold(&over);
                }
                Present { hour, start: at, last: at, requests: 0, spent: 0, multiplier: 0 }
            }
        };
        let passed_ms = at.ms().saturating_sub(present.last.ms());
        present.last = present.last.max(at);
        present.requests = present.requests.saturating_add(seen);
        present.spent = present.spent.saturating_add(spent.get().max(0).unsigned_abs());
        present.multiplier += u128::from(multiplier_q32.min(ONE_Q32)) * u128::from(passed_ms);
        self.present = Some(present);
    }

    /// Takes an hour that is over into its mean, as if all of it had been watched.
    fn fold(&mut self, over: &Present) {
        let watched_ms = over.last.ms().saturating_sub(over.start.ms());
        if watched_ms < WATCHED_MS_MIN {
            return;
        }
        let hour = &mut self.hours[usize::from(over.hour).min(HOURS - 1)];
        let multiplier_q32 = narrow_u64((over.multiplier / u128::from(watched_ms)).cast_signed());
        let whole = |part: u64| {
            let scaled =
                u128::from(part) * u128::from(HOUR_MS) / u128::from(watched_ms.min(HOUR_MS));
            narrow_u64(scaled.cast_signed())
        };
        let known = hour.weeks > 0;
        let mean = |old: u64, new: u64| {
            let sum = u128::from(old) * (WEEK_PART - 1) + u128::from(new);
            if known { narrow_u64((sum / WEEK_PART).cast_signed()) } else { new }
        };
        *hour = Hour {
            weeks: hour.weeks.saturating_add(1),
            requests: mean(hour.requests, whole(over.requests)),
            spent: mean(hour.spent, whole(over.spent)),
            multiplier_q32: mean(hour.multiplier_q32, multiplier_q32),
        };
        self.recent[usize::from(over.hour) % HOURS_OF_DAY] = multiplier_q32;
    }

    /// The mean multiplier of the last day's hours, Q32, or `None` while no hour is over.
    #[must_use]
    pub fn multiplier_q32(&self) -> Option<u64> {
        let known = self.recent.iter().filter(|multiplier| **multiplier > 0);
        let (sum, count) =
            known.fold((0_u128, 0_u128), |(sum, count), one| (sum + u128::from(*one), count + 1));
        Some(narrow_u64(sum.checked_div(count)?.cast_signed()))
    }

    /// Eligible requests that a window is expected to have; 0 while less than a day is known.
    #[must_use]
    pub fn requests_in(&self, window: &Window, zone: &Zone) -> u64 {
        const STEP_MS: u64 = 900_000;
        let Some(hours) = self.filled() else { return 0 };
        let week = hours.iter().map(|hour| u128::from(hour.requests)).sum::<u128>();
        let weeks = window.len_ms() / WEEK_MS;
        let mut sum = week * u128::from(weeks) * u128::from(HOUR_MS);
        let mut at = window.start.plus_ms(weeks * WEEK_MS).unwrap_or(window.end);
        while at < window.end {
            // To the next quarter hour: every offset from UTC is a multiple of it, or nearly.
            let next =
                at.plus_ms(STEP_MS - at.ms() % STEP_MS).unwrap_or(window.end).min(window.end);
            let hour = usize::from(hour_of_week(at, zone)).min(HOURS - 1);
            sum += u128::from(hours[hour].requests) * u128::from(next.ms() - at.ms());
            at = next;
        }
        narrow_u64((sum / u128::from(HOUR_MS)).cast_signed())
    }

    /// How requests are spread over a window, or `None` while less than a day is known.
    #[must_use]
    pub fn arrivals(&self) -> Option<Shape> {
        let hours = self.filled()?;
        shape(std::array::from_fn(|hour| u128::from(hours[hour].requests)))
    }

    /// How spend should be spread over a window, or `None` while less than a day is known.
    ///
    /// A budget buys most for its money where its multiplier is the same all day. So an hour gets the spend
    /// that it had, more where the multiplier had to be low to follow the old plan, less where it was high;
    /// within a factor of two of its share of requests. Without spend it gets its share of requests.
    #[must_use]
    pub fn plan_shape(&self) -> Option<Shape> {
        let hours = self.filled()?;
        let level = mean(hours.iter().map(|hour| u128::from(hour.multiplier_q32)))?.max(1);
        let at_level = hours.map(|hour| {
            let multiplier = u128::from(hour.multiplier_q32);
            let factor = (level << 16) / multiplier.max(level / 4 + 1);
            u128::from(hour.spent >> 16) * factor
                + ((u128::from(hour.spent & 0xFFFF) * factor) >> 16)
        });
        let (spend, requests) = (
            at_level.iter().sum::<u128>(),
            hours.iter().map(|hour| u128::from(hour.requests)).sum::<u128>(),
        );
        if spend == 0 {
            return self.arrivals();
        }
        // In proportion to spend: requests times mean spend. Both are scaled to fit.
        let per_request_q16 = (spend << 16) / requests.max(1);
        shape(std::array::from_fn(|hour| {
            let usual = (u128::from(hours[hour].requests) * per_request_q16) >> 16;
            at_level[hour].clamp(usual / 2, usual * 2)
        }))
    }

    /// All hours: those nobody watched as the same hour of other days, or as all.
    fn filled(&self) -> Option<[Hour; HOURS]> {
        let known = |hour: &&Hour| hour.weeks > 0;
        if self.hours.iter().filter(known).count() < KNOWN_MIN {
            return None;
        }
        let all = mean_hour(self.hours.iter().filter(known));
        Some(std::array::from_fn(|at| {
            let same = self.hours.iter().skip(at % HOURS_OF_DAY).step_by(HOURS_OF_DAY);
            match self.hours[at].weeks {
                0 => mean_hour(same.filter(known)).or(all).unwrap_or_default(),
                _ => self.hours[at],
            }
        }))
    }
}

fn mean_hour<'a>(hours: impl Iterator<Item = &'a Hour> + Clone) -> Option<Hour> {
    let of = |part: fn(&Hour) -> u64| {
        mean(hours.clone().map(|hour| u128::from(part(hour)))).map(|m| narrow_u64(m.cast_signed()))
    };
    Some(Hour {
        weeks: 1,
        requests: of(|hour| hour.requests)?,
        spent: of(|hour| hour.spent)?,
        multiplier_q32: of(|hour| hour.multiplier_q32)?,
    })
}

fn mean(values: impl Iterator<Item = u128>) -> Option<u128> {
    let (sum, count) =
        values.fold((0_u128, 0), |(sum, count), value| (sum.saturating_add(value), count + 1));
    sum.checked_div(count)
}

/// Weights for a shape: smoothed over neighbouring hours, with a floor, the largest [`WEIGHT_MAX`].
fn shape(hours: [u128; HOURS]) -> Option<Shape> {
    // A quarter from each side. Below 2^100, so that nothing overflows.
    let near = |at: usize, step: usize| hours[(at + HOURS + step - 1) % HOURS].min(1 << 100);
    let smooth: [u128; HOURS] =
        std::array::from_fn(|at| near(at, 0) + 2 * near(at, 1) + near(at, 2));
    let floor = mean(smooth.into_iter())? / FLOOR_PART;
    let most = smooth.iter().max().copied()?.max(1);
    let weights = smooth.map(|weight| {
        let scaled = weight.max(floor) * u128::from(WEIGHT_MAX) / most;
        u16::try_from(scaled).unwrap_or(WEIGHT_MAX).max(1)
    });
    Shape::hourly(&weights).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MONDAY: u64 = 1_790_553_600_000;

    /// Watches hours from Monday 2026-09-28 in UTC, a call a minute, with requests, spend and multiplier of
    /// the hour.
    fn watch(
        history: &mut History,
        hours: std::ops::Range<u64>,
        of: impl Fn(u64) -> (u64, i64, u64),
    ) {
        for minute in hours.start * 60..hours.end * 60 {
            let (requests, spent, multiplier) = of(minute / 60);
            let at = Instant::from_ms(MONDAY + minute * 60_000);
            history.observe(at, &Zone::utc(), requests / 60, Amount::new(spent / 60), multiplier);
        }
    }

    fn share_ppm(shape: &Shape, hours: u64) -> u64 {
        let at = |hour: u64| Instant::from_ms(MONDAY + hour * HOUR_MS);
        let day = Window { start: at(0), end: at(24) };
        let share = shape.share_q62(&day, at(hours), &Zone::utc());
        u64::try_from((u128::from(share) * 1_000_000 + (1 << 61)) >> 62).unwrap()
    }

    #[test]
    fn less_than_a_day_says_nothing() {
        let mut history = History::default();
        watch(&mut history, 0..24, |_| (6_000, 600, ONE_Q32));
        assert_eq!(
            (history.arrivals(), history.plan_shape()),
            (None, None),
            "the last hour is not over"
        );
        watch(&mut history, 24..25, |_| (6_000, 600, ONE_Q32));
        assert!(history.arrivals().is_some() && history.plan_shape().is_some());
        assert_eq!(history.multiplier_q32(), Some(ONE_Q32));
        assert_eq!(History::default().multiplier_q32(), None);
    }

    #[test]
    fn a_day_stands_for_the_week_until_more_is_known() {
        let mut history = History::default();
        let busy = |hour: u64| if hour % 24 < 12 { 6_000 } else { 60_000 };
        watch(&mut history, 0..25, |hour| (busy(hour), 0, ONE_Q32));
        let day = 12 * 66_000;
        let at = |hour: u64| Instant::from_ms(MONDAY + hour * HOUR_MS);
        let expected = |from: u64, to: u64| {
            history.requests_in(&Window { start: at(from), end: at(to) }, &Zone::utc())
        };
        let near = |found: u64, expected: u64| {
            assert!(found.abs_diff(expected) <= expected / 50, "{found}")
        };
        near(expected(0, 24), day);
        near(expected(48, 72), day);
        near(expected(0, 168 * 3 + 24), day * 22);
        near(expected(12, 13), 60_000);
        assert_eq!(expected(5, 5), 0);
        let morning = share_ppm(&history.arrivals().unwrap(), 12);
        // A share of one eleventh, a little more because neighbours are smoothed into each other.
        assert!((90_910..150_000).contains(&morning), "{morning}");
    }

    #[test]
    fn empty_hours_keep_a_floor() {
        let mut history = History::default();
        watch(&mut history, 0..25, |hour| (if hour % 24 == 12 { 6_000 } else { 0 }, 0, ONE_Q32));
        let shape = history.arrivals().unwrap();
        assert!(share_ppm(&shape, 6) > 5_000);
        let nothing = {
            let mut history = History::default();
            watch(&mut history, 0..25, |_| (0, 0, ONE_Q32));
            history.arrivals().unwrap()
        };
        assert_eq!(share_ppm(&nothing, 12), 500_000, "all alike");
    }

    /// The same traffic all day, but it took half the multiplier to spend as little in the second half: that
    /// is where money buys more.
    #[test]
    fn the_plan_moves_to_where_money_buys_more() {
        let mut history = History::default();
        let half = |hour: u64| if hour % 24 < 12 { ONE_Q32 / 2 } else { ONE_Q32 / 4 };
        watch(&mut history, 0..25, |hour| (6_000, 600_000, half(hour)));
        let morning = share_ppm(&history.plan_shape().unwrap(), 12);
        assert!((333_000..360_000).contains(&morning), "{morning}");
        let arrivals = share_ppm(&history.arrivals().unwrap(), 12);
        assert!(arrivals.abs_diff(500_000) < 100, "{arrivals}");
    }

    #[test]
    fn weeks_are_averaged_and_hours_half_watched_dropped() {
        let mut history = History::default();
        watch(&mut history, 0..1, |_| (6_000, 0, ONE_Q32));
        watch(&mut history, 168..169, |_| (12_000, 0, ONE_Q32));
        let hour = |history: &History| history.hours()[0];
        let near = |found: u64, expected: u64| {
            assert!(found.abs_diff(expected) <= expected / 50, "{found}")
        };
        near(hour(&history).requests, 6_000);
        watch(&mut history, 336..337, |_| (60, 0, ONE_Q32));
        near(hour(&history).requests, 7_500);
        // Of this third hour only a few minutes.
        let mut short = history.clone();
        for minute in 0..20 {
            let at = Instant::from_ms(MONDAY + 504 * HOUR_MS + minute * 60_000);
            short.observe(at, &Zone::utc(), 1_000_000, Amount::ZERO, 0);
        }
        watch(&mut short, 505..506, |_| (0, 0, 0));
        assert_eq!(hour(&short).weeks, 3);
        near(hour(&short).requests, 5_640);
        assert_eq!(History::from_parts(*short.hours(), *short.recent()).hours(), short.hours());
    }

    proptest! {
        #[test]
        fn no_number_breaks_it(cells in prop::collection::vec((0_u32..3, any::<u64>(), any::<u64>(), any::<u64>()), 168),
                               len in 0_u64..100 * WEEK_MS, start in 0_u64..4_000_000_000_000,
                               seen in prop::collection::vec((any::<u64>(), any::<i64>(), any::<u64>()), 0..5)) {
            let hours: [Hour; HOURS] = std::array::from_fn(|at| {
                let (weeks, requests, spent, multiplier_q32) = cells[at];
                Hour { weeks, requests, spent, multiplier_q32 }
            });
            let zone = Zone::parse("Australia/Lord_Howe").unwrap();
            let mut history = History::from_parts(hours, [u64::MAX; HOURS_OF_DAY]);
            for (ms, spent, multiplier) in seen {
                history.observe(Instant::from_ms(ms), &zone, ms, Amount::new(spent), multiplier);
            }
            let (start, end) = (Instant::from_ms(start), Instant::from_ms(start + len));
            let _ = (history.requests_in(&Window { start, end }, &zone), history.arrivals(), history.plan_shape());
            let _ = history.multiplier_q32();
        }
    }
}
