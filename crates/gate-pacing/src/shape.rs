//! Shapes: how spend or traffic is spread over a window of time.

use std::sync::{Arc, LazyLock};

use money::{Instant, Window, Zone};
use table::spread;

use crate::DayParts;
use crate::fixed::{ONE_Q62, narrow_u64, share_q62};

/// Largest weight of an hour.
pub const WEIGHT_MAX: u16 = 10_000;

pub(crate) const QUARTERS: usize = 672;
pub(crate) const QUARTER_MS: i64 = 900_000;
const HOURS: usize = 168;
const HOURS_OF_DAY: usize = 24;
const WEEK_MS: i64 = 7 * 24 * 3_600_000;
/// The epoch was a Thursday: its week began three days before.
const EPOCH_IN_WEEK_MS: i64 = 3 * 24 * 3_600_000;

/// A day as people browse it: little at night, rising through the morning, a plateau, the peak at nine in the
/// evening. Its highest hour has eight times the traffic of the lowest.
const DAY_SHAPE: [u16; HOURS_OF_DAY] =
    [22, 15, 11, 9, 9, 12, 20, 32, 43, 50, 54, 56, 58, 57, 56, 56, 57, 60, 65, 71, 75, 72, 58, 38];

/// How something is spread over a window of time. Only proportions matter: whatever the window is, its share
/// of it rises from nothing to all. A clone is cheap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    form: Form,
    /// Tells shapes apart: a hash of the form.
    print: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Form {
    Linear,
    Week(Arc<Week>),
    Table(Arc<[u64]>),
}

/// Weights of the quarter hours of a week from Monday 00:00, local time.
#[derive(Debug, PartialEq, Eq)]
struct Week {
    /// Entry `q`: the sum of the weights of the quarters before `q`.
    sums: [u32; QUARTERS + 1],
    /// Quarters in which nothing may happen at all.
    parts: Option<DayParts>,
}

/// Numbers that make no shape.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// Neither a day nor a week.
    #[error(
        "shape: found {found} weights, expected 24 (the hours of a day from 00:00) or 168 (the hours of a week \
         from Monday 00:00)"
    )]
    Length {
        /// The number of weights that were given.
        found: usize,
    },
    /// A weight outside its range.
    #[error("shape: the weight of hour {hour} is {found}, expected 0 to {WEIGHT_MAX}")]
    Weight {
        /// Which hour, from 0.
        hour: usize,
        /// Its weight.
        found: u16,
    },
    /// No hour has weight.
    #[error("shape: all weights are 0, expected at least one above 0")]
    Nothing,
    /// A table of too few points.
    #[error(
        "shape: a table of {found} points, expected at least 2: the share at the start and at the end"
    )]
    Points {
        /// The number of points that were given.
        found: usize,
    },
    /// A table that falls.
    #[error(
        "shape: point {point} of the table is below the one before, expected cumulative shares"
    )]
    Falls {
        /// Which point, from 0.
        point: usize,
    },
    /// A table that stays where it begins.
    #[error("shape: the table does not rise, expected its last point above its first")]
    Flat,
}

impl Shape {
    /// A straight line.
    #[must_use]
    pub fn linear() -> Shape {
        Shape { form: Form::Linear, print: 1 }
    }

    /// From weights of the 24 hours of every day (from 00:00), or of the 168 hours of the week (from Monday
    /// 00:00), in local time; each 0 to [`WEIGHT_MAX`].
    ///
    /// A missing hour has no share and a repeated one has it twice, as on the days when clocks change; the
    /// rest is scaled so that the window adds up. A window in which no hour has a weight counts as evenly
    /// busy.
    ///
    /// # Errors
    /// [`ShapeError`] says what was found and expected.
    pub fn hourly(weights: &[u16]) -> Result<Shape, ShapeError> {
        if weights.len() != HOURS_OF_DAY && weights.len() != HOURS {
            return Err(ShapeError::Length { found: weights.len() });
        }
        let too_large = weights.iter().position(|weight| *weight > WEIGHT_MAX);
        if let Some(hour) = too_large {
            return Err(ShapeError::Weight { hour, found: weights[hour] });
        }
        if weights.iter().all(|weight| *weight == 0) {
            return Err(ShapeError::Nothing);
        }
        Ok(Shape::week(|quarter| weights[quarter / 4 % weights.len()], None))
    }

    /// The day of people who browse, every day of the week alike; of our own making.
    #[must_use]
    pub fn default_day() -> Shape {
        static SHARED: LazyLock<Shape> =
            LazyLock::new(|| Shape::week(|quarter| DAY_SHAPE[quarter / 4 % HOURS_OF_DAY], None));
        SHARED.clone()
    }

    /// From cumulative shares at even steps of the window, the first at its start and the last at its end, in
    /// any scale. Between two points it is a straight line.
    ///
    /// # Errors
    /// [`ShapeError`]: expected are at least 2 points that never fall, the last above the first.
    pub fn table(cumulative: &[u64]) -> Result<Shape, ShapeError> {
        let [first, .., last] = cumulative else {
            return Err(ShapeError::Points { found: cumulative.len() });
        };
        if let Some(before) = cumulative.windows(2).position(|pair| pair[1] < pair[0]) {
            return Err(ShapeError::Falls { point: before + 1 });
        }
        if first == last {
            return Err(ShapeError::Flat);
        }
        let print = cumulative.iter().fold(2, |print, share| spread(print ^ share).wrapping_add(1));
        Ok(Shape { form: Form::Table(cumulative.into()), print })
    }

    /// This shape inside day-parts, nothing outside. `None` for a table, whose steps are of no length known
    /// here.
    pub(crate) fn masked(&self, parts: &DayParts) -> Option<Shape> {
        let weight = |quarter| match &self.form {
            Form::Linear => Some(1),
            Form::Week(week) => u16::try_from(week.weight(quarter)).ok(),
            Form::Table(_) => None,
        };
        weight(0)?;
        let masked = |quarter| match parts.is_open(quarter) {
            true => weight(quarter).unwrap_or(0),
            false => 0,
        };
        Some(Shape::week(masked, Some(parts.clone())))
    }

    fn week(weight: impl Fn(usize) -> u16, parts: Option<DayParts>) -> Shape {
        let mut sums = [0; QUARTERS + 1];
        let mut print = 3;
        for quarter in 0..QUARTERS {
            let (weight, open) =
                (weight(quarter), parts.as_ref().is_none_or(|p| p.is_open(quarter)));
            sums[quarter + 1] = sums[quarter] + u32::from(weight);
            print = spread(print ^ (u64::from(weight) << 1 | u64::from(open))).wrapping_add(1);
        }
        Shape { form: Form::Week(Arc::new(Week { sums, parts })), print }
    }

    /// The same for equal shapes, and nearly surely different for others.
    pub(crate) fn print(&self) -> u64 {
        self.print
    }

    /// The stretch around an instant of the window in which the share rises in a straight line.
    pub(crate) fn segment(&self, window: &Window, at: Instant, zone: &Zone) -> Segment {
        match &self.form {
            Form::Linear => Segment::whole(window),
            Form::Table(points) => table_segment(points, window, at),
            Form::Week(week) => week.segment(window, at, zone),
        }
    }

    /// The share of a window that is over at an instant, in Q62: nothing before it, all of it after.
    pub(crate) fn share_q62(&self, window: &Window, at: Instant, zone: &Zone) -> u64 {
        match at {
            at if at >= window.end => ONE_Q62,
            at if at <= window.start => 0,
            at => self.segment(window, at, zone).share_q62(at),
        }
    }

    /// The part of `rest` that falls into its beginning until `until`, in Q62. A table is of one window only,
    /// so windows count by their length.
    pub(crate) fn part_q62(&self, rest: &Window, until: Instant, zone: &Zone) -> u64 {
        let by_time = || share_q62(rest.elapsed_ms(until), rest.len_ms());
        let Form::Week(week) = &self.form else { return by_time() };
        let [before, after] = week.parts(rest.start, [until.min(rest.end), rest.end], zone);
        match (before + after, &week.parts) {
            (0, None) => by_time(),
            (0, Some(_)) => 0,
            (whole, _) => share_q62(before, whole),
        }
    }
}

/// The straight line.
impl Default for Shape {
    fn default() -> Shape {
        Shape::linear()
    }
}

/// A stretch of a window in which the share rises in a straight line.
///
/// Every share is worked out from the segment of its instant, so that keeping one changes no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    start: Instant,
    end: Instant,
    /// At the start, Q62.
    share: u64,
    /// Rise a millisecond, Q94.
    slope: u128,
    /// Is it inside the day-parts?
    open: bool,
}

impl Segment {
    /// Contains nothing.
    pub(crate) const NONE: Segment =
        Segment { start: Instant::EPOCH, end: Instant::EPOCH, share: 0, slope: 0, open: false };

    /// A straight line over a window.
    fn whole(window: &Window) -> Segment {
        Segment::new(window.start, window.end, [0, ONE_Q62], true)
    }

    fn new(start: Instant, end: Instant, shares: [u64; 2], open: bool) -> Segment {
        let len_ms = end.ms_since(start).unwrap_or(0).max(1);
        let rise = shares[1].saturating_sub(shares[0]);
        Segment {
            start,
            end,
            share: shares[0],
            slope: (u128::from(rise) << 32) / u128::from(len_ms),
            open,
        }
    }

    pub(crate) fn contains(&self, at: Instant) -> bool {
        self.start <= at && at < self.end
    }

    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// The share at one of its instants, Q62. What is outside counts as its nearer end.
    pub(crate) fn share_q62(&self, at: Instant) -> u64 {
        let along_ms = at.min(self.end).ms_since(self.start).unwrap_or(0);
        // At most the rise in Q94, because `along_ms` is at most the length.
        let risen = self.slope.wrapping_mul(u128::from(along_ms)) >> 32;
        self.share + narrow_u64(risen.cast_signed())
    }
}

/// Point `i` of a table is at the first millisecond that is not before `i` steps.
fn table_segment(points: &[u64], window: &Window, at: Instant) -> Segment {
    let (steps, len_ms) = (points.len() as u128 - 1, u128::from(window.len_ms()));
    // The instant is inside the window, so the step is one of the table's.
    let step =
        (u128::from(window.elapsed_ms(at)) * steps / len_ms.max(1)).min(steps.saturating_sub(1));
    let place = |step: u128| {
        let after_ms = narrow_u64((step * len_ms).div_ceil(steps.max(1)).cast_signed());
        window.start.plus_ms(after_ms).unwrap_or(window.end)
    };
    let first = points[0];
    let whole = points[points.len() - 1] - first;
    let index = usize::try_from(step).unwrap_or(0);
    let shares = [index, index + 1].map(|point| share_q62(points[point] - first, whole));
    Segment::new(place(step), place(step + 1), shares, true)
}

impl Week {
    fn weight(&self, quarter: usize) -> u32 {
        self.sums[quarter + 1] - self.sums[quarter]
    }

    fn is_open(&self, quarter: usize) -> bool {
        self.parts.as_ref().is_none_or(|parts| parts.is_open(quarter))
    }

    /// Neighbouring quarters of the same kind are one segment, as far as the offset from UTC is the same.
    fn segment(&self, window: &Window, at: Instant, zone: &Zone) -> Segment {
        let span = zone.offset_at(at);
        let local_ms = local_ms(at, span.offset_ms);
        let quarter = quarter_of(local_ms);
        let same = |other: &usize| {
            self.weight(*other) == self.weight(quarter)
                && self.is_open(*other) == self.is_open(quarter)
        };
        let before = (0..quarter).rev().take_while(same).count();
        let after = (quarter + 1..QUARTERS).take_while(same).count();
        let into_ms = local_ms.rem_euclid(QUARTER_MS).unsigned_abs();
        let quarters_ms = |quarters: usize| quarters as u64 * QUARTER_MS.unsigned_abs();
        let start = at.minus_ms(into_ms + quarters_ms(before)).unwrap_or(Instant::EPOCH);
        let end = at.plus_ms(quarters_ms(after + 1) - into_ms).unwrap_or(Instant::MAX);
        let start = start.max(span.start).max(window.start);
        let end = end.min(span.end).min(window.end);
        let [until_start, until_end, rest] =
            self.parts(window.start, [start, end, window.end], zone);
        let whole = until_start + until_end + rest;
        let shares = match (whole, &self.parts) {
            (0, None) => return Segment::whole(window),
            (0, Some(_)) => [0, 0],
            _ => [share_q62(until_start, whole), share_q62(until_start + until_end, whole)],
        };
        Segment::new(start, end, shares, self.is_open(quarter))
    }

    /// Weight times milliseconds from `start` to the first cut, from there to the second, and so on: over
    /// every stretch of one offset from UTC, the difference of the sum at its ends in local time.
    fn parts<const N: usize>(&self, start: Instant, cuts: [Instant; N], zone: &Zone) -> [u64; N] {
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

    /// Weight times milliseconds from the Monday before the epoch until a local time. At most 672 * 10,000 *
    /// 420,000 weeks * 900,000 ms = 2.6e18 in the year 9999, which fits.
    fn until(&self, local_ms: i64) -> i64 {
        let weeks = local_ms.div_euclid(WEEK_MS);
        let quarter = quarter_of(local_ms);
        let [before, after, week] =
            [self.sums[quarter], self.sums[quarter + 1], self.sums[QUARTERS]].map(i64::from);
        (weeks * week + before) * QUARTER_MS + (after - before) * local_ms.rem_euclid(QUARTER_MS)
    }
}

/// Quarter of the week of a local time, 0 to 671.
fn quarter_of(local_ms: i64) -> usize {
    let quarter = local_ms.rem_euclid(WEEK_MS) / QUARTER_MS;
    usize::try_from(quarter).unwrap_or(0).min(QUARTERS - 1)
}

/// Local time as milliseconds since the Monday before the epoch.
fn local_ms(at: Instant, offset_ms: i64) -> i64 {
    // At most 253,402,041,600,000: it fits.
    i64::try_from(at.ms()).unwrap_or(i64::MAX / 2) + offset_ms + EPOCH_IN_WEEK_MS
}

#[cfg(test)]
mod tests {
    use super::*;
    use money::day_at;
    use proptest::prelude::*;

    fn at(text: &str) -> Instant {
        Instant::parse(text).unwrap()
    }

    fn ppm(share: u64) -> u64 {
        // Rounded to the nearest: slopes are rounded down.
        u64::try_from((u128::from(share) * 1_000_000 + (1 << 61)) >> 62).unwrap()
    }

    #[test]
    fn wrong_weights_are_explained() {
        let error = |weights: &[u16]| Shape::hourly(weights).unwrap_err().to_string();
        assert!(error(&[1; 23]).contains("found 23 weights, expected 24"));
        assert!(error(&[]).contains("found 0 weights"));
        assert!(error(&[0; 24]).contains("all weights are 0"));
        let mut weights = [1; 168];
        weights[167] = 10_001;
        assert_eq!(error(&weights), "shape: the weight of hour 167 is 10001, expected 0 to 10000");
    }

    #[test]
    fn wrong_tables_are_explained() {
        let error = |points: &[u64]| Shape::table(points).unwrap_err();
        assert_eq!(error(&[]), ShapeError::Points { found: 0 });
        assert_eq!(error(&[7]), ShapeError::Points { found: 1 });
        assert_eq!(error(&[0, 5, 4]), ShapeError::Falls { point: 2 });
        assert_eq!(error(&[5, 5, 5]), ShapeError::Flat);
    }

    #[test]
    fn the_default_is_shared_and_shaped_like_a_day() {
        let (Form::Week(a), Form::Week(b)) = (Shape::default_day().form, Shape::default_day().form)
        else {
            panic!("a day is a week of hours");
        };
        assert!(Arc::ptr_eq(&a, &b));
        let (low, high) = (DAY_SHAPE.iter().min().unwrap(), DAY_SHAPE.iter().max().unwrap());
        assert_eq!((DAY_SHAPE[3], DAY_SHAPE[20], high / low), (*low, *high, 8));
        assert_eq!(Shape::hourly(&DAY_SHAPE).unwrap(), Shape::default_day());
    }

    #[test]
    fn a_week_starts_on_monday() {
        let mut weights = [0; 168];
        weights[0] = 1;
        let (shape, utc) = (Shape::hourly(&weights).unwrap(), Zone::utc());
        let week = Window { start: at("2026-11-14T00:00:00Z"), end: at("2026-11-21T00:00:00Z") };
        let share = |text| ppm(shape.share_q62(&week, at(text), &utc));
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
        let shape = Shape::hourly(&weights).unwrap();
        let share = |day: &str, text: &str| {
            let day = day_at(at(day), &paris);
            ppm(shape.share_q62(&day, at(text), &paris))
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
            assert!(share("2026-10-25T12:00:00Z", text).abs_diff(expected) <= 1, "{text}");
        }
    }

    #[test]
    fn long_flights_are_added_up_over_all_changes_of_the_clock() {
        let zone = Zone::parse("America/New_York").unwrap();
        let flight = Window { start: at("2000-01-01T00:00:00Z"), end: at("2099-12-31T00:00:00Z") };
        let half = at("2050-01-01T00:00:00Z");
        let share = ppm(Shape::default_day().share_q62(&flight, half, &zone));
        assert!(share.abs_diff(u64::from(flight.elapsed_ppm(half))) < 20, "{share}");
    }

    /// Steps of a table that are no whole milliseconds, and more steps than milliseconds.
    #[test]
    fn tables_are_stretched_over_the_window() {
        let utc = Zone::utc();
        let shape = Shape::table(&[10, 10, 20, 50, 110]).unwrap();
        let share = |len: u64, after: u64| {
            let window = Window { start: Instant::from_ms(5), end: Instant::from_ms(5 + len) };
            ppm(shape.share_q62(&window, Instant::from_ms(5 + after), &utc))
        };
        let steps = [0, 1_000, 1_500, 2_000, 3_000, 4_000].map(|after| share(4_000, after));
        assert_eq!(steps, [0, 0, 50_000, 100_000, 400_000, 1_000_000]);
        assert_eq!([0, 1, 2, 3].map(|after| share(3, after)), [0, 0, 100_000, 1_000_000]);
        assert_eq!([0, 1, 2].map(|after| share(2, after)), [0, 100_000, 1_000_000]);
    }

    #[test]
    fn parts_of_the_rest() {
        let utc = Zone::utc();
        let rest = Window { start: at("2026-11-16T00:00:00Z"), end: at("2026-11-20T00:00:00Z") };
        let first = |shape: &Shape| ppm(shape.part_q62(&rest, at("2026-11-17T00:00:00Z"), &utc));
        let mut weights = [1; 168];
        weights[..24].fill(3);
        for (shape, expected) in [
            (Shape::linear(), 250_000),
            (Shape::table(&[0, 1, 9]).unwrap(), 250_000),
            (Shape::default_day(), 250_000),
            (Shape::hourly(&weights).unwrap(), 500_000),
        ] {
            assert_eq!(first(&shape), expected);
        }
        let parts = DayParts::parse("tue 08:00-09:00").unwrap();
        assert_eq!(first(&Shape::linear().masked(&parts).unwrap()), 0);
    }

    fn shapes() -> impl Strategy<Value = Shape> {
        let parts = DayParts::parse("mon-fri 00:15-23:30").unwrap();
        let masked =
            move |weights: Vec<u16>| Shape::hourly(&weights).unwrap().masked(&parts).unwrap();
        prop_oneof![
            Just(Shape::linear()),
            prop::collection::vec(1_u16..=10_000, 168).prop_map(masked),
            prop::collection::vec(0_u16..=10_000, 168)
                .prop_map(|weights| Shape::hourly(&weights).unwrap_or_default()),
            prop::collection::btree_set(any::<u64>(), 2..40)
                .prop_map(|points| Shape::table(&points.into_iter().collect::<Vec<_>>()).unwrap()),
        ]
    }

    proptest! {
        /// A flat curve is a straight line, in every zone and over every change of the clock.
        #[test]
        fn flat_is_even(name in prop::sample::select(&["UTC", "Europe/Paris", "Antarctica/Troll", "Asia/Kathmandu"][..]),
                        start in 0_u64..4_000_000_000_000, len in 1_u64..100_000_000_000, part in 0_u64..=1_000) {
            let zone = Zone::parse(name).unwrap();
            let window = Window { start: Instant::from_ms(start), end: Instant::from_ms(start + len) };
            let at = Instant::from_ms(start + len / 1_000 * part);
            let share = Shape::hourly(&[7; 24]).unwrap().share_q62(&window, at, &zone);
            prop_assert!(share.abs_diff(share_q62(window.elapsed_ms(at), window.len_ms())) <= 2);
        }

        #[test]
        fn monotone_from_nothing_to_all(shape in shapes(), start in 0_u64..4_000_000_000_000, len in 1_u64..10_000_000_000,
                                        a in 0_u64..10_000_000_000, b in 0_u64..10_000_000_000) {
            let zone = Zone::parse("America/Havana").unwrap();
            let window = Window { start: Instant::from_ms(start), end: Instant::from_ms(start + len) };
            let share = |ms: u64| shape.share_q62(&window, Instant::from_ms(ms), &zone);
            prop_assert!(share(start + a.min(b)) <= share(start + a.max(b)));
            prop_assert_eq!((share(start), share(start + len)), (0, ONE_Q62));
            prop_assert_eq!((share(0), share(u64::MAX)), (0, ONE_Q62));
        }

        /// Wherever in a segment it is looked for, it is the same segment: keeping it changes nothing.
        #[test]
        fn a_segment_is_the_same_from_everywhere(shape in shapes(), start in 0_u64..4_000_000_000_000,
                                                 len in 1_u64..10_000_000_000, a in 0_u64..10_000_000_000, b: u64) {
            let zone = Zone::parse("Australia/Lord_Howe").unwrap();
            let window = Window { start: Instant::from_ms(start), end: Instant::from_ms(start + len) };
            let segment = shape.segment(&window, Instant::from_ms(start + a % len), &zone);
            prop_assert!(segment.contains(Instant::from_ms(start + a % len)));
            let inside = segment.start.ms() + b % (segment.end.ms() - segment.start.ms());
            prop_assert_eq!(shape.segment(&window, Instant::from_ms(inside), &zone), segment);
        }

        #[test]
        fn different_shapes_have_different_prints(a in shapes(), b in shapes()) {
            prop_assert_eq!(a == b, a.print() == b.print());
        }
    }
}
