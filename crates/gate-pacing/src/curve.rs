//! Hourly curves: how the traffic of a day or a week is spread.

use std::sync::{Arc, LazyLock};

use money::{HOURS_OF_WEEK, Instant, Window, Zone};

use crate::fixed::{narrow_u64, share_q62};

/// Largest weight of an hour.
pub const WEIGHT_MAX: u16 = 10_000;

const HOUR_MS: i64 = 3_600_000;
const HOURS: usize = HOURS_OF_WEEK as usize;
const HOURS_OF_DAY: usize = 24;
const WEEK_MS: i64 = 168 * HOUR_MS;
/// The epoch was a Thursday: its week began three days before.
const EPOCH_IN_WEEK_MS: i64 = 3 * 24 * HOUR_MS;

/// A day as people browse it: little at night, rising through the morning, a plateau, the peak at nine in the
/// evening. Its highest hour has eight times the traffic of the lowest.
const DAY_SHAPE: [u16; HOURS_OF_DAY] =
    [22, 15, 11, 9, 9, 12, 20, 32, 43, 50, 54, 56, 58, 57, 56, 56, 57, 60, 65, 71, 75, 72, 58, 38];

/// Weights of the hours of a week, in local time of the budget. Only their proportions matter. A clone is cheap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Curve {
    /// Entry `h`: the sum of the weights of the hours before `h`.
    sums: Arc<[u32; HOURS + 1]>,
}

/// Weights that make no curve.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CurveError {
    /// Neither a day nor a week.
    #[error(
        "curve: found {found} weights, expected 24 (the hours of a day from 00:00) or 168 (the hours of a week \
         from Monday 00:00)"
    )]
    Length {
        /// How many weights were given.
        found: usize,
    },
    /// A weight outside its range.
    #[error("curve: the weight of hour {hour} is {found}, expected 0 to {WEIGHT_MAX}")]
    Weight {
        /// Which hour, from 0.
        hour: usize,
        /// Its weight.
        found: u16,
    },
    /// No hour has traffic.
    #[error("curve: all weights are 0, expected at least one above 0")]
    Nothing,
}

impl Curve {
    /// A curve from weights of the 24 hours of every day (from 00:00), or the 168 hours of the week (from Monday
    /// 00:00); each 0 to [`WEIGHT_MAX`].
    ///
    /// # Errors
    /// [`CurveError`] says what was found and expected.
    pub fn hourly(weights: &[u16]) -> Result<Curve, CurveError> {
        if weights.len() != HOURS_OF_DAY && weights.len() != HOURS {
            return Err(CurveError::Length { found: weights.len() });
        }
        let too_large = weights.iter().position(|weight| *weight > WEIGHT_MAX);
        if let Some(hour) = too_large {
            return Err(CurveError::Weight { hour, found: weights[hour] });
        }
        if weights.iter().all(|weight| *weight == 0) {
            return Err(CurveError::Nothing);
        }
        Ok(Curve::of(weights))
    }

    /// Repeats the weights over a week and adds them up.
    fn of(weights: &[u16]) -> Curve {
        let mut sums = [0; HOURS + 1];
        for (hour, weight) in weights.iter().cycle().take(HOURS).enumerate() {
            sums[hour + 1] = sums[hour] + u32::from(*weight);
        }
        Curve { sums: Arc::new(sums) }
    }

    /// How much of the traffic of a window has come by each of two instants, the first not after the second, in
    /// Q62. A missing hour has no traffic and a repeated one has it twice, as on the days when clocks change. A
    /// window in which no hour has a weight counts as evenly busy.
    pub(crate) fn shares_q62(&self, window: &Window, at: [Instant; 2], zone: &Zone) -> [u64; 2] {
        let end = window.end.max(window.start);
        let cuts = at.map(|at| at.clamp(window.start, end));
        let [before, between, after] = self.parts(window.start, [cuts[0], cuts[1], end], zone);
        let whole = before + between + after;
        if whole == 0 {
            return cuts.map(|at| share_q62(window.elapsed_ms(at), window.len_ms()));
        }
        [share_q62(before, whole), share_q62(before + between, whole)]
    }

    /// Weight times milliseconds from `start` to the first cut, from there to the second, and so on: over every
    /// stretch of one offset from UTC, the difference of the sum at its ends in local time.
    fn parts(&self, start: Instant, cuts: [Instant; 3], zone: &Zone) -> [u64; 3] {
        let mut spans = zone.offsets_from(start);
        let mut from = start;
        cuts.map(|cut| {
            let mut sum = 0;
            while let [span, later @ ..] = spans
                && from < cut
            {
                let to = span.end.min(cut);
                sum += self.until(local_ms(to, span.offset_ms));
                sum -= self.until(local_ms(from, span.offset_ms));
                from = to;
                spans = if to == span.end { later } else { spans };
            }
            narrow_u64(i128::from(sum))
        })
    }

    /// Weight times milliseconds from the Monday before the epoch until a local time. At most 168 * 10,000 * 420,000
    /// weeks * 3,600,000 ms = 2.6e18 in the year 9999, which fits.
    fn until(&self, local_ms: i64) -> i64 {
        let (weeks, rest_ms) = (local_ms.div_euclid(WEEK_MS), local_ms.rem_euclid(WEEK_MS));
        // 0 to 167, because `rest_ms` is below a week.
        let hour = usize::try_from(rest_ms / HOUR_MS).unwrap_or(0).min(HOURS - 1);
        let [before, after, week] =
            [self.sums[hour], self.sums[hour + 1], self.sums[HOURS]].map(i64::from);
        (weeks * week + before) * HOUR_MS + (after - before) * (rest_ms % HOUR_MS)
    }
}

/// The [day shape](Curve::hourly) of people who browse, every day of the week alike; of our own making.
impl Default for Curve {
    fn default() -> Curve {
        static SHARED: LazyLock<Curve> = LazyLock::new(|| Curve::of(&DAY_SHAPE));
        SHARED.clone()
    }
}

/// Local time as milliseconds since the Monday before the epoch.
fn local_ms(at: Instant, offset_ms: i64) -> i64 {
    // At most 253,402,041,600,000: it fits.
    i64::try_from(at.ms()).unwrap_or(i64::MAX / 2) + offset_ms + EPOCH_IN_WEEK_MS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixed::ONE_Q62;
    use money::day_at;
    use proptest::prelude::*;

    fn at(text: &str) -> Instant {
        Instant::parse(text).unwrap()
    }

    /// At the end of the window the second share is all of it.
    fn share_at(curve: &Curve, window: &Window, at: Instant, zone: &Zone) -> u64 {
        let [share, all] = curve.shares_q62(window, [at, window.end.max(at)], zone);
        assert_eq!((all, curve.shares_q62(window, [at, at], zone)), (ONE_Q62, [share, share]));
        share
    }

    fn ppm(share: u64) -> u64 {
        u64::try_from(u128::from(share) * 1_000_000 / u128::from(ONE_Q62)).unwrap()
    }

    #[test]
    fn wrong_weights_are_explained() {
        let error = |weights: &[u16]| Curve::hourly(weights).unwrap_err().to_string();
        assert!(error(&[1; 23]).contains("found 23 weights, expected 24"));
        assert!(error(&[]).contains("found 0 weights"));
        assert!(error(&[0; 24]).contains("all weights are 0"));
        let mut weights = [1; 168];
        weights[167] = 10_001;
        assert_eq!(error(&weights), "curve: the weight of hour 167 is 10001, expected 0 to 10000");
    }

    #[test]
    fn the_default_is_shared_and_shaped_like_a_day() {
        assert!(Arc::ptr_eq(&Curve::default().sums, &Curve::default().sums));
        let (low, high) = (DAY_SHAPE.iter().min().unwrap(), DAY_SHAPE.iter().max().unwrap());
        assert_eq!((DAY_SHAPE[3], DAY_SHAPE[20], high / low), (*low, *high, 8));
        assert_eq!(Curve::hourly(&DAY_SHAPE).unwrap(), Curve::default());
    }

    #[test]
    fn a_week_starts_on_monday() {
        let mut weights = [0; 168];
        weights[0] = 1;
        let (curve, utc) = (Curve::hourly(&weights).unwrap(), Zone::utc());
        let week = Window { start: at("2026-11-14T00:00:00Z"), end: at("2026-11-21T00:00:00Z") };
        let share = |text| ppm(share_at(&curve, &week, at(text), &utc));
        assert_eq!(share("2026-11-16T00:00:00Z"), 0);
        assert_eq!(share("2026-11-16T00:15:00Z"), 250_000);
        assert_eq!(share("2026-11-16T01:00:00Z"), 1_000_000);
        assert_eq!(share("2026-11-21T00:00:00Z"), 1_000_000);
    }

    /// All traffic from two to three: an hour that is missing in March and comes twice in October.
    #[test]
    fn missing_and_repeated_hours() {
        let paris = Zone::parse("Europe/Paris").unwrap();
        let mut weights = [0; 24];
        weights[2] = 1;
        let curve = Curve::hourly(&weights).unwrap();
        let share = |day: &str, text: &str| {
            let day = day_at(at(day), &paris);
            ppm(share_at(&curve, &day, at(text), &paris))
        };
        // March: nothing has a weight, so the day counts as evenly busy: one hour of 23.
        assert_eq!(share("2026-03-29T12:00:00Z", "2026-03-29T00:00:00Z"), 43_478);
        // October: 00:00Z is 02:00 for the first time, 01:00Z for the second.
        for (text, expected) in [
            ("2026-10-25T00:00:00Z", 0),
            ("2026-10-25T00:30:00Z", 250_000),
            ("2026-10-25T01:00:00Z", 500_000),
            ("2026-10-25T01:30:00Z", 750_000),
            ("2026-10-25T02:00:00Z", 1_000_000),
        ] {
            assert_eq!(share("2026-10-25T12:00:00Z", text), expected, "{text}");
        }
    }

    #[test]
    fn long_flights_are_added_up_over_all_changes_of_the_clock() {
        let zone = Zone::parse("America/New_York").unwrap();
        let flight = Window { start: at("2000-01-01T00:00:00Z"), end: at("2099-12-31T00:00:00Z") };
        let half = at("2050-01-01T00:00:00Z");
        let share = ppm(share_at(&Curve::default(), &flight, half, &zone));
        assert!(share.abs_diff(u64::from(flight.elapsed_ppm(half))) < 20, "{share}");
    }

    proptest! {
        /// A flat curve is a straight line, in every zone and over every change of the clock.
        #[test]
        fn flat_is_even(name in prop::sample::select(&["UTC", "Europe/Paris", "Antarctica/Troll", "Asia/Kathmandu"][..]),
                        start in 0_u64..4_000_000_000_000, len in 1_u64..100_000_000_000, part in 0_u64..=1_000) {
            let zone = Zone::parse(name).unwrap();
            let window = Window { start: Instant::from_ms(start), end: Instant::from_ms(start + len) };
            let at = Instant::from_ms(start + len / 1_000 * part);
            let share = share_at(&Curve::hourly(&[7; 24]).unwrap(), &window, at, &zone);
            prop_assert_eq!(share, share_q62(window.elapsed_ms(at), window.len_ms()));
        }

        #[test]
        fn monotone_from_nothing_to_all(weights in prop::collection::vec(0_u16..=10_000, 168),
                                        start in 0_u64..4_000_000_000_000, len in 1_u64..10_000_000_000,
                                        a in 0_u64..10_000_000_000, b in 0_u64..10_000_000_000) {
            let zone = Zone::parse("America/Havana").unwrap();
            let curve = Curve::hourly(&weights).unwrap_or_default();
            let window = Window { start: Instant::from_ms(start), end: Instant::from_ms(start + len) };
            let share = |ms: u64| share_at(&curve, &window, Instant::from_ms(ms), &zone);
            prop_assert!(share(start + a.min(b)) <= share(start + a.max(b)));
            prop_assert_eq!((share(start), share(start + len)), (0, ONE_Q62));
            prop_assert_eq!((share(0), share(u64::MAX)), (0, ONE_Q62));
        }
    }
}
