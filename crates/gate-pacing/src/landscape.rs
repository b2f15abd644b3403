//! Landscapes: what an eligible request costs on average, by the multiplier of the bids.

use money::Amount;

use crate::fixed::{ONE_Q32, narrow_i64, narrow_u64};

/// The multipliers of a learned landscape, Q32: 25 from 0.01 to 1, each the 12th root of 10 times the one
/// before.
pub const MULTIPLIERS: [u64; BINS] = [
    42_949_673,
    52_034_717,
    63_041_499,
    76_376_519,
    92_532_265,
    112_105_399,
    135_818_791,
    164_548_222,
    199_354_722,
    241_523_760,
    292_612_716,
    354_508_398,
    429_496_730,
    520_347_167,
    630_414_985,
    763_765_191,
    925_322_654,
    1_121_053_988,
    1_358_187_913,
    1_645_482_222,
    1_993_547_224,
    2_415_237_601,
    2_926_127_156,
    3_545_083_982,
    4_294_967_296,
];

const BINS: usize = 25;
/// Fewer requests than this teach nothing.
const SEEN_MIN: u64 = 64;
/// A multiplier that was live for less than this part of the requests teaches nothing about itself.
const SEEN_PART: u64 = 256;

/// Spend for an eligible request at each multiplier: the function G, as straight lines between points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Landscape {
    shade_q32: u64,
    len: usize,
    /// In place: looking one up goes to one place in memory. What is beyond the length is 0.
    points: [(u64, u64); BINS],
}

/// Points that make no landscape.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LandscapeError {
    /// None, or too many.
    #[error("landscape: {found} points, expected 1 to 25")]
    Length {
        /// How many were given.
        found: usize,
    },
    /// A multiplier out of its range or order.
    #[error(
        "landscape: the multiplier of point {point} is not above the one before, or not above 0 and at most 1"
    )]
    Multiplier {
        /// Which point, from 0.
        point: usize,
    },
    /// Higher bids that cost less.
    #[error(
        "landscape: the spend of point {point} is below the one before, expected that it never falls"
    )]
    Spend {
        /// Which point, from 0.
        point: usize,
    },
}

impl Landscape {
    /// From pairs of a multiplier (Q32, rising, at most one) and the spend for an eligible request (base
    /// units, Q16, never falling).
    ///
    /// # Errors
    /// [`LandscapeError`] says what was found and expected.
    pub fn from_points(points: &[(u64, u64)]) -> Result<Landscape, LandscapeError> {
        if points.is_empty() || points.len() > BINS {
            return Err(LandscapeError::Length { found: points.len() });
        }
        let mut before = (0, 0);
        for (point, (multiplier, spend)) in points.iter().enumerate() {
            if *multiplier <= before.0 || *multiplier > ONE_Q32 {
                return Err(LandscapeError::Multiplier { point });
            }
            if *spend < before.1 {
                return Err(LandscapeError::Spend { point });
            }
            before = (*multiplier, *spend);
        }
        let all = std::array::from_fn(|point| points.get(point).copied().unwrap_or_default());
        let mut landscape = Landscape { shade_q32: ONE_Q32, len: points.len(), points: all };
        landscape.shade_q32 = landscape.best_shade();
        Ok(landscape)
    }

    /// The points it was made from.
    #[must_use]
    pub fn points(&self) -> &[(u64, u64)] {
        &self.points[..self.len]
    }

    /// Spend for an eligible request at a multiplier, base units in Q16. Below the first point in proportion,
    /// above the last one as there.
    #[must_use]
    pub fn at(&self, multiplier_q32: u64) -> u64 {
        let after = self.points().partition_point(|(multiplier, _)| *multiplier < multiplier_q32);
        match self.points().get(after) {
            None => self.last().1,
            Some(above) => line(self.below(after), *above, multiplier_q32),
        }
    }

    /// The smallest multiplier that spends as much, Q32. Where none does, one.
    #[must_use]
    pub fn multiplier_for(&self, spend_q16: u64) -> u64 {
        let after = self.points().partition_point(|(_, spend)| *spend < spend_q16);
        let swap = |(multiplier, spend): (u64, u64)| (spend, multiplier);
        match self.points().get(after) {
            None => ONE_Q32,
            Some(above) => line(swap(self.below(after)), swap(*above), spend_q16),
        }
    }

    /// What so many eligible requests are expected to cost at a multiplier.
    #[must_use]
    pub fn expected(&self, requests: u64, multiplier_q32: u64) -> Amount {
        let cost = (u128::from(requests) * u128::from(self.at(multiplier_q32))) >> 16;
        Amount::new(narrow_i64(cost.cast_signed()))
    }

    /// The multiplier with the largest expected surplus in a first-price auction, Q32: where `(1 - m) *
    /// win_rate(m)` is largest. There, spend is the bid times the win rate, so the win rate at `m` is in
    /// proportion to `at(m) / m`.
    #[must_use]
    pub fn shade_q32(&self) -> u64 {
        self.shade_q32
    }

    /// Looks at every point and three places between each two.
    fn best_shade(&self) -> u64 {
        let between = |pair: &[(u64, u64)]| {
            let (low, high) = (pair[0].0, pair[1].0);
            (0..4).map(move |step| low + (high - low) / 4 * step)
        };
        let places = self.points().windows(2).flat_map(between).chain([self.last().0]);
        // The first of equals: the cheapest.
        let best =
            places.map(|m| (self.surplus(m), m)).reduce(|a, b| if b.0 > a.0 { b } else { a });
        best.map_or(
            ONE_Q32,
            |(surplus, multiplier)| if surplus == 0 { ONE_Q32 } else { multiplier },
        )
    }

    fn surplus(&self, multiplier_q32: u64) -> u128 {
        // Below 2^64 * 2^32.
        let kept =
            u128::from(self.at(multiplier_q32)) * u128::from(ONE_Q32 - multiplier_q32.min(ONE_Q32));
        (kept << 16) / u128::from(multiplier_q32.max(1))
    }

    fn below(&self, point: usize) -> (u64, u64) {
        point.checked_sub(1).map_or((0, 0), |below| self.points[below])
    }

    fn last(&self) -> (u64, u64) {
        self.points[self.len - 1]
    }
}

/// The height at `x` of the line between two points, the first not right of the second.
fn line(from: (u64, u64), to: (u64, u64), x: u64) -> u64 {
    let (width, rise) = (to.0.saturating_sub(from.0), to.1.saturating_sub(from.1));
    let along = x.clamp(from.0, to.0.max(from.0)) - from.0;
    if width == 0 {
        return to.1;
    }
    from.1 + narrow_u64((u128::from(rise) * u128::from(along) / u128::from(width)).cast_signed())
}

/// What was seen of one multiplier: the raw part of a [`LandscapeLearner`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bin {
    /// Eligible requests while the live multiplier was this one, or above it and below the next.
    pub seen: u64,
    /// Cost of wins that this multiplier would just have won, base units.
    pub critical: u64,
    /// Cost of wins at this multiplier that paid all of the bid, base units: nobody can tell what would have
    /// won.
    pub full: u64,
}

/// Learns a [`Landscape`] from requests and wins. Sums only: any order will do, and learners may be added up.
///
/// A second-price win at price `p` of a bid `b` under multiplier `a` would have been won at the same price by
/// every multiplier from `a * p / b` on, its *critical* one. So it tells about multipliers that were never
/// live. A first-price win tells only about its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LandscapeLearner {
    bins: [Bin; BINS],
}

impl LandscapeLearner {
    /// From its raw parts, one for each of [`MULTIPLIERS`].
    #[must_use]
    pub fn from_bins(bins: [Bin; BINS]) -> LandscapeLearner {
        LandscapeLearner { bins }
    }

    /// Its raw parts.
    #[must_use]
    pub fn bins(&self) -> &[Bin; BINS] {
        &self.bins
    }

    /// Counts eligible requests while a multiplier was live. Multipliers below the smallest bin teach
    /// nothing.
    pub fn seen(&mut self, multiplier_q32: u64, requests: u64) {
        if let Some(bin) = bin_below(multiplier_q32) {
            let seen = &mut self.bins[bin].seen;
            *seen = seen.saturating_add(requests);
        }
    }

    /// Counts a win: what was bid (reserved) under a multiplier, and what was paid.
    pub fn won(&mut self, multiplier_q32: u64, reserved: Amount, paid: Amount) {
        let (Some(live), true) = (bin_below(multiplier_q32), reserved > Amount::ZERO) else {
            return;
        };
        let cost = paid.get().max(0).unsigned_abs();
        if paid >= reserved {
            self.bins[live].full = self.bins[live].full.saturating_add(cost);
            return;
        }
        let product = u128::from(multiplier_q32) * u128::from(cost)
            / u128::from(reserved.get().unsigned_abs());
        let critical_q32 = narrow_u64(product.cast_signed());
        let bin = MULTIPLIERS.partition_point(|multiplier| *multiplier < critical_q32);
        // Between its bin and the next a live multiplier wins what neither of them is exposed to.
        if bin <= live {
            self.bins[bin].critical = self.bins[bin].critical.saturating_add(cost);
        }
    }

    /// Halves all it knows: once per day, so that a week ago counts a hundredth.
    pub fn forget_half(&mut self) {
        for Bin { seen, critical, full } in &mut self.bins {
            (*seen, *critical, *full) = (*seen / 2, *critical / 2, *full / 2);
        }
    }

    /// What it knows, or `None` while that is too little. Multipliers that were never live continue as their
    /// neighbours below.
    #[must_use]
    pub fn landscape(&self) -> Option<Landscape> {
        let total = self.bins.iter().fold(0_u64, |sum, bin| sum.saturating_add(bin.seen));
        let bought = self.bins.iter().any(|bin| bin.critical > 0 || bin.full > 0);
        if total < SEEN_MIN || !bought {
            return None;
        }
        let enough = total / SEEN_PART + 1;
        let full = self.full_q16(enough);
        let (mut exposed, mut risen, mut rise, mut spend) = (total, 0_u64, 0, 0);
        let points: [(u64, u64); BINS] = std::array::from_fn(|bin| {
            if exposed >= enough {
                rise = per_request_q16(self.bins[bin].critical, exposed);
            }
            exposed = exposed.saturating_sub(self.bins[bin].seen);
            risen = risen.saturating_add(rise);
            spend = risen.saturating_add(full[bin]).max(spend);
            (MULTIPLIERS[bin], spend)
        });
        Landscape::from_points(&points).ok()
    }

    /// Spend for a request on wins that paid all of the bid: as seen where enough was seen, a straight line
    /// between, in proportion below.
    fn full_q16(&self, enough: u64) -> [u64; BINS] {
        let known = |bin: usize| {
            let Bin { seen, full, .. } = self.bins[bin];
            (seen >= enough).then(|| (MULTIPLIERS[bin], per_request_q16(full, seen)))
        };
        let mut before = (0, 0);
        std::array::from_fn(|bin| {
            if let Some(point) = known(bin) {
                before = point;
                return point.1;
            }
            let next = (bin + 1..BINS).find_map(known);
            next.map_or(before.1, |next| line_any(before, next, MULTIPLIERS[bin]))
        })
    }
}

/// As [`line`], rising or falling.
fn line_any(from: (u64, u64), to: (u64, u64), x: u64) -> u64 {
    if to.1 >= from.1 {
        return line(from, to, x);
    }
    from.1 - line((from.0, 0), (to.0, from.1 - to.1), x)
}

fn per_request_q16(cost: u64, requests: u64) -> u64 {
    narrow_u64(((u128::from(cost) << 16) / u128::from(requests.max(1))).cast_signed())
}

/// The largest bin that is not above a multiplier.
fn bin_below(multiplier_q32: u64) -> Option<usize> {
    MULTIPLIERS.partition_point(|multiplier| *multiplier <= multiplier_q32).checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ONE: u64 = ONE_Q32;

    fn landscape(points: &[(u64, u64)]) -> Landscape {
        Landscape::from_points(points).unwrap()
    }

    #[test]
    fn multipliers_are_evenly_spaced_in_the_logarithm() {
        #[allow(clippy::cast_precision_loss, reason = "the reference is in floats")]
        for (bin, multiplier) in (0_i32..).zip(MULTIPLIERS) {
            let exact = 10_f64.powf(f64::from(bin) / 12.0 - 2.0) * ONE as f64;
            assert!((multiplier as f64 - exact).abs() <= 0.6, "{bin}: {multiplier} for {exact}");
        }
    }

    #[test]
    fn wrong_points_are_explained() {
        let error = |points: &[(u64, u64)]| Landscape::from_points(points).unwrap_err();
        assert_eq!(error(&[]), LandscapeError::Length { found: 0 });
        assert_eq!(error(&[(1, 1); 26]), LandscapeError::Length { found: 26 });
        assert_eq!(error(&[(0, 1)]), LandscapeError::Multiplier { point: 0 });
        assert_eq!(error(&[(1, 1), (1, 2)]), LandscapeError::Multiplier { point: 1 });
        assert_eq!(error(&[(1, 1), (ONE + 1, 2)]), LandscapeError::Multiplier { point: 1 });
        assert_eq!(error(&[(1, 2), (2, 1)]), LandscapeError::Spend { point: 1 });
    }

    #[test]
    fn between_points_it_is_a_line() {
        let landscape = landscape(&[(ONE / 4, 100), (ONE / 2, 300), (ONE, 300)]);
        let at = |eighths: u64| landscape.at(ONE / 8 * eighths);
        assert_eq!([0, 1, 2, 3, 4, 6, 8].map(at), [0, 50, 100, 200, 300, 300, 300]);
        let inverse = |spend: u64| landscape.multiplier_for(spend) * 8 / ONE;
        assert_eq!([0, 50, 100, 200, 300, 301].map(inverse), [0, 1, 2, 3, 4, 8]);
        assert_eq!(landscape.expected(1 << 16, ONE), Amount::new(300));
        assert_eq!(
            landscape.expected(u64::MAX, ONE),
            Amount::new(i64::MAX / (1 << 15) * 300 + 299)
        );
    }

    #[test]
    fn shading_finds_the_largest_surplus() {
        // The price is anything up to the value: win rate m, spend with its square. Best is a half.
        let square =
            |m: u64| (m, narrow_u64(((u128::from(m) * u128::from(m)) >> 32).cast_signed()));
        let shade = landscape(&MULTIPLIERS.map(square)).shade_q32();
        assert!(shade.abs_diff(ONE / 2) < ONE / 50, "{shade}");
        // Everybody asks a fifth of the value, and nobody sells for less.
        let step = |m: u64| (m, if m >= MULTIPLIERS[16] { m } else { 0 });
        let shade = landscape(&MULTIPLIERS.map(step)).shade_q32();
        assert_eq!(shade, MULTIPLIERS[16]);
        assert_eq!(landscape(&[(ONE, 0)]).shade_q32(), ONE, "nothing is known");
    }

    /// A market in which the price is anything up to the value, and what it costs a request at each
    /// multiplier: half its square. Learned at one multiplier, known below.
    #[test]
    fn second_prices_teach_about_lower_multipliers() {
        let (mut learner, live, value) = (LandscapeLearner::default(), MULTIPLIERS[20], 10_000_i64);
        let bid = (value * i64::try_from(live).unwrap()) >> 32;
        for request in 0..200_000_i64 {
            let price = 1 + request * 7_919 % value;
            learner.seen(live, 1);
            if price < bid {
                learner.won(live, Amount::new(bid), Amount::new(price));
            }
        }
        let learned = learner.landscape().unwrap();
        for multiplier in &MULTIPLIERS[4..20] {
            let spend = u64::try_from((u128::from(*multiplier).pow(2) * 5_000) >> 48).unwrap();
            let found = learned.at(*multiplier);
            assert!(found.abs_diff(spend) < spend / 20 + 1_000, "{multiplier}: {found} {spend}");
        }
        assert!(learned.at(ONE) > learned.at(live), "it goes on above what was live");
    }

    #[test]
    fn first_prices_teach_about_their_own_multiplier() {
        let mut learner = LandscapeLearner::default();
        for (live, cost) in [(MULTIPLIERS[12], 10), (MULTIPLIERS[20], 50)] {
            learner.seen(live, 1_000);
            let cost = Amount::new(cost * 1_000);
            learner.won(live, cost, cost);
        }
        let learned = learner.landscape().unwrap();
        let at = |bin: usize| learned.at(MULTIPLIERS[bin]) >> 16;
        assert_eq!((at(12), at(20), at(24)), (10, 50, 50));
        assert!(at(6) < 10 && (11..50).contains(&at(16)), "{} {}", at(6), at(16));
    }

    #[test]
    fn too_little_teaches_nothing() {
        let mut learner = LandscapeLearner::default();
        learner.seen(ONE, 1_000);
        assert_eq!(learner.landscape(), None, "nothing was bought");
        learner.won(ONE, Amount::new(10), Amount::new(5));
        assert!(learner.landscape().is_some());
        let few = LandscapeLearner::from_bins({
            let mut bins = *learner.bins();
            bins[24].seen = SEEN_MIN - 1;
            bins
        });
        assert_eq!(few.landscape(), None);
        learner.won(ONE, Amount::ZERO, Amount::ZERO);
        learner.seen(MULTIPLIERS[0] - 1, 1_000_000);
        learner.won(MULTIPLIERS[0] - 1, Amount::new(10), Amount::new(5));
        assert_eq!(learner.bins()[24].seen, 1_000, "below the smallest: not counted");
        learner.forget_half();
        assert_eq!(learner.bins()[24].seen, 500);
    }

    proptest! {
        #[test]
        fn rising_and_inverse(spends in prop::collection::vec(0_u64..1 << 40, 25), a in 0..=ONE, b in 0..=ONE) {
            let mut spends = spends;
            spends.sort_unstable();
            let points: Vec<_> = MULTIPLIERS.into_iter().zip(spends).collect();
            let landscape = landscape(&points);
            let (low, high) = (a.min(b), a.max(b));
            prop_assert!(landscape.at(low) <= landscape.at(high));
            let found = landscape.multiplier_for(landscape.at(high));
            prop_assert!(found <= high + 1, "the smallest that spends as much");
            let (again, spend) = (landscape.at(found), landscape.at(high));
            // A steep line rises by much within one step of the multiplier.
            prop_assert!(again <= spend && spend - again <= (1 << 40) / 1_000_000, "{} {}", again, spend);
            prop_assert!((MULTIPLIERS[0]..=ONE).contains(&landscape.shade_q32()));
        }

        #[test]
        fn any_order_teaches_the_same(events in prop::collection::vec((0..=ONE, 0_u64..1_000, -5_i64..1_000, -5_i64..1_000), 1..40)) {
            let learn = |events: &mut dyn Iterator<Item = &(u64, u64, i64, i64)>| {
                let mut learner = LandscapeLearner::default();
                for (multiplier, seen, reserved, paid) in events {
                    learner.seen(*multiplier, *seen);
                    learner.won(*multiplier, Amount::new(*reserved), Amount::new(*paid));
                }
                learner
            };
            let learner = learn(&mut events.iter());
            prop_assert_eq!(&learner, &learn(&mut events.iter().rev()));
            prop_assert_eq!(&learner, &LandscapeLearner::from_bins(*learner.bins()));
            let _ = learner.landscape();
        }
    }
}
