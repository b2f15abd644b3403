//! The made-up market: segments of traffic with their prices, and campaigns that want them.
//!
//! A market is drawn from a seed, and any number of days from a market: yesterday and today differ only by chance.

use super::day::{DayRequest, Eligible, MINUTES, SECONDS};
use super::make_rng::{Rng, whole};

/// Kinds of audience, each in its own time zone.
const SEGMENTS: usize = 6;

/// How a segment's requests are spread over its local day: weights of the hours, of our own making. The busiest hour of
/// any segment has 25 times the share of the quietest, and a segment's busiest 1.65 to 1.85 times its mean.
const HOURS: [[u16; 24]; SEGMENTS] = [
    // An evening of video: next to nothing at night, rising all day.
    [
        44, 26, 13, 7, 5, 7, 16, 32, 52, 68, 76, 80, 84, 84, 84, 86, 90, 96, 104, 112, 118, 120,
        108, 78,
    ],
    // The office: a plateau from nine to five.
    [9, 7, 6, 6, 7, 14, 34, 68, 94, 102, 104, 102, 96, 98, 100, 98, 94, 82, 62, 50, 42, 34, 24, 14],
    // Commuters: before and after work.
    [
        20, 12, 8, 7, 10, 26, 64, 96, 102, 82, 70, 68, 76, 72, 68, 70, 84, 100, 104, 92, 78, 64,
        48, 32,
    ],
    // At home: a mild day and a busy evening.
    [
        40, 26, 18, 14, 14, 20, 36, 54, 68, 76, 78, 80, 82, 80, 76, 78, 84, 92, 102, 110, 112, 104,
        86, 62,
    ],
    // Games: late to bed.
    [
        98, 76, 52, 34, 22, 15, 12, 14, 20, 30, 42, 52, 60, 66, 72, 80, 88, 94, 98, 104, 112, 120,
        122, 114,
    ],
    // Shoppers: noon and early evening.
    [
        18, 11, 8, 7, 8, 14, 26, 46, 68, 84, 96, 104, 108, 104, 100, 98, 96, 96, 94, 96, 98, 88,
        62, 34,
    ],
];
/// Hours by which each segment's local time is ahead of the day's.
const AHEAD_H: [usize; SEGMENTS] = [0, 1, 22, 18, 8, 5];
/// Each segment's part of the requests.
const SHARES: [f64; SEGMENTS] = [0.26, 0.20, 0.17, 0.15, 0.12, 0.10];

/// Chance that a campaign wants a segment other than its home.
const WANTED: f64 = 0.05;
/// The part of a wanted segment's requests that fit a campaign: drawn between these, evenly.
const REACH: [f64; 2] = [0.1, 0.25];
/// Median value of a campaign in micros: drawn between these, evenly over the logarithm. Above the median outside bid,
/// see the calibration in [`make`](super::make).
const VALUE: [f64; 2] = [1500.0, 3500.0];
/// Deviation of the logarithm of a value.
const VALUE_SIGMA: f64 = 0.6;

/// Median outside bid of a segment at noon, in micros: drawn between these, evenly over the logarithm.
const PRICE: [f64; 2] = [900.0, 2200.0];
/// Deviation of the logarithm of an outside bid: drawn between these, evenly.
const PRICE_SIGMA: [f64; 2] = [0.84, 1.15];
/// How far a segment's median moves: over the day its logarithm goes evenly from minus to plus a number drawn between
/// minus this and this.
const PRICE_DRIFT: f64 = 0.2;
/// Chance that an outside bid is a round number.
const ROUND: f64 = 0.25;
/// Round outside bids are whole units of currency for a thousand impressions.
const ROUND_STEP: f64 = 1000.0;

/// A market, see the module.
pub(crate) struct Market {
    segments: Vec<Segment>,
    /// The number of campaigns.
    pub(crate) campaigns: u16,
}

struct Segment {
    /// Part of the day's requests that come in each minute; the sum over all minutes is its share of the traffic.
    minutes: Vec<f64>,
    /// Logarithm of the median outside bid in micros, at noon.
    price: f64,
    /// Deviation of the logarithm.
    sigma: f64,
    /// The logarithm of the median moves evenly from minus to plus this over the day.
    drift: f64,
    /// Who wants it, in order of campaigns.
    audience: Vec<Wish>,
}

/// A campaign that wants a part of a segment.
struct Wish {
    campaign: u16,
    /// Chance that a request fits.
    reach: f64,
    /// Logarithm of the median value in micros.
    value: f64,
}

/// What a day has besides the market: how many requests, and what is unusual.
pub(crate) struct Weather<'a> {
    /// Requests expected on a usual day.
    pub(crate) requests: f64,
    /// Factor on the requests of a minute.
    pub(crate) traffic: &'a dyn Fn(usize) -> f64,
    /// Factor on the prices of a minute.
    pub(crate) price: &'a dyn Fn(usize) -> f64,
}

/// The requests of a day.
#[derive(Default)]
pub(crate) struct Traffic {
    pub(crate) requests: Vec<DayRequest>,
    pub(crate) eligible: Vec<Eligible>,
}

impl Market {
    /// The market of a seed with so many campaigns.
    pub(crate) fn new(seed: u64, campaigns: u16) -> Market {
        let mut rng = Rng::new(seed, "market");
        let mut segments: Vec<_> =
            (0..SEGMENTS).map(|place| Segment::new(place, &mut rng)).collect();
        for campaign in 0..campaigns {
            let home = rng.index(SEGMENTS);
            let value = rng.between(VALUE.map(f64::ln));
            for (place, segment) in segments.iter_mut().enumerate() {
                if place == home || rng.unit() < WANTED {
                    segment.audience.push(Wish { campaign, reach: rng.between(REACH), value });
                }
            }
        }
        Market { segments, campaigns }
    }

    /// Requests of each minute that a campaign may expect to be eligible for, of so many in the day.
    pub(crate) fn expected(&self, campaign: u16, requests: f64) -> Vec<f64> {
        let mut expected = vec![0.0; MINUTES];
        for segment in &self.segments {
            for wish in segment.audience.iter().filter(|wish| wish.campaign == campaign) {
                for (expected, part) in expected.iter_mut().zip(&segment.minutes) {
                    *expected += part * wish.reach * requests;
                }
            }
        }
        expected
    }

    /// Requests of each minute that all segments together may expect, of so many in the day.
    pub(crate) fn expected_in_all(&self, requests: f64) -> Vec<f64> {
        let in_minute = |minute: usize| {
            self.segments.iter().map(|segment| segment.minutes[minute] * requests).sum()
        };
        (0..MINUTES).map(in_minute).collect()
    }

    /// Draws a day: a Poisson process whose rate is constant within a minute.
    pub(crate) fn draw(&self, mut rng: Rng, weather: &Weather<'_>) -> Traffic {
        let mut traffic = Traffic::default();
        traffic.requests.reserve(room(weather.requests));
        traffic.eligible.reserve(room(weather.requests * self.eligible()));
        let mut gap = rng.gap();
        for minute in 0..MINUTES {
            let now = self.minute(minute, weather);
            let mut left = now.rate;
            while gap <= left {
                left -= gap;
                let at_ms = (minute as f64 + 1.0 - left / now.rate) * 60_000.0;
                self.request(at_ms, &now, &mut rng, &mut traffic);
                gap = rng.gap();
            }
            gap -= left;
        }
        traffic
    }

    /// Campaigns that a request fits, on average.
    fn eligible(&self) -> f64 {
        let each = |(segment, share): (&Segment, f64)| {
            segment.audience.iter().map(|wish| wish.reach).sum::<f64>() * share
        };
        self.segments.iter().zip(SHARES).map(each).sum()
    }

    /// What is the same for all requests of a minute.
    fn minute(&self, minute: usize, weather: &Weather<'_>) -> Minute {
        let requests = weather.requests * (weather.traffic)(minute);
        let price = (weather.price)(minute).ln();
        // From -1 at the day's beginning to 1 at its end.
        let drifted = minute as f64 / (MINUTES as f64 / 2.0) - 1.0;
        let mut now = Minute { rate: 0.0, below: [0.0; SEGMENTS], price: [0.0; SEGMENTS] };
        for (index, segment) in self.segments.iter().enumerate() {
            now.rate += segment.minutes[minute] * requests;
            now.below[index] = now.rate;
            now.price[index] = segment.price + segment.drift * drifted + price;
        }
        now
    }

    /// Draws a request: its segment, the outside bid, and who is eligible with what value.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the size of a day bounds the tables"
    )]
    fn request(&self, at_ms: f64, now: &Minute, rng: &mut Rng, traffic: &mut Traffic) {
        let id = rng.next();
        let place = rng.unit() * now.rate;
        let place = now.below.iter().filter(|&&below| below <= place).count().min(SEGMENTS - 1);
        let segment = &self.segments[place];
        let price = outside_bid(now.price[place] + segment.sigma * rng.normal(), rng);
        let first = traffic.eligible.len();
        for wish in &segment.audience {
            if rng.unit() < wish.reach {
                let value = micros((wish.value + VALUE_SIGMA * rng.normal()).exp());
                traffic.eligible.push(Eligible { campaign: wish.campaign, value });
            }
        }
        let count = traffic.eligible.len() - first;
        // Rounding may reach the end of the minute, so of the day.
        let at_ms = (at_ms as u32).min(SECONDS * 1000 - 1);
        let (first, count) = (first as u32, count as u16);
        traffic.requests.push(DayRequest { id, at_ms, first, count, price });
    }
}

struct Minute {
    /// Requests expected in it.
    rate: f64,
    /// The same of the segments up to each.
    below: [f64; SEGMENTS],
    /// Logarithm of the median outside bid in each segment.
    price: [f64; SEGMENTS],
}

/// The outside bid of a logarithm, in micros; sometimes a round number.
fn outside_bid(log_micros: f64, rng: &mut Rng) -> i64 {
    let price = log_micros.exp();
    let round = rng.unit() < ROUND;
    micros(if round { (price / ROUND_STEP).round().max(1.0) * ROUND_STEP } else { price })
}

/// An amount in whole micros, at least 1.
fn micros(amount: f64) -> i64 {
    i64::try_from(whole(amount)).unwrap_or(i64::MAX).max(1)
}

/// Room for a little more than so many.
fn room(count: f64) -> usize {
    usize::try_from(whole(count * 1.02)).unwrap_or(0)
}

impl Segment {
    fn new(segment: usize, rng: &mut Rng) -> Segment {
        let weights = day_curve(&HOURS[segment], AHEAD_H[segment]);
        let sum: f64 = weights.iter().sum();
        Segment {
            minutes: weights.iter().map(|weight| weight / sum * SHARES[segment]).collect(),
            price: rng.between(PRICE.map(f64::ln)),
            sigma: rng.between(PRICE_SIGMA),
            drift: rng.between([-PRICE_DRIFT, PRICE_DRIFT]),
            audience: Vec::new(),
        }
    }
}

/// Weights of the minutes of a day whose clock is behind: straight lines between the middles of the hours.
fn day_curve(hours: &[u16; 24], ahead_h: usize) -> Vec<f64> {
    let weight = |hour: usize| f64::from(hours[hour % 24]);
    let at = |minute: usize| {
        // From the middle of the hour before.
        let local = minute + ahead_h * 60 + MINUTES - 30;
        let (hour, part) = (local / 60, (local % 60) as f64 / 60.0);
        weight(hour) + (weight(hour + 1) - weight(hour)) * part
    };
    (0..MINUTES).map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usual(requests: f64) -> Weather<'static> {
        Weather { requests, traffic: &|_| 1.0, price: &|_| 1.0 }
    }

    #[test]
    fn segments_peak_as_told() {
        let mean = |hours: &[u16; 24]| f64::from(hours.iter().sum::<u16>()) / 24.0;
        let of =
            |hours: &[u16; 24], extreme: Option<&u16>| f64::from(*extreme.unwrap()) / mean(hours);
        let peaks = HOURS.map(|hours| of(&hours, hours.iter().max()));
        let troughs = HOURS.map(|hours| of(&hours, hours.iter().min()));
        assert!(peaks.iter().all(|peak| (1.65..1.86).contains(peak)), "{peaks:?}");
        let highest = peaks.into_iter().fold(0.0, f64::max);
        let lowest = troughs.into_iter().fold(f64::MAX, f64::min);
        assert!((highest / lowest - 25.0).abs() < 1.0, "{}", highest / lowest);
        assert!((SHARES.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_clock_that_is_ahead_peaks_earlier() {
        let busiest = |ahead_h| {
            let curve = day_curve(&HOURS[1], ahead_h);
            (0..MINUTES).max_by(|&a, &b| curve[a].total_cmp(&curve[b])).unwrap()
        };
        // The middle of the hour from ten to eleven.
        assert_eq!(busiest(0) / 10, 63);
        assert_eq!(busiest(5), busiest(0) - 300);
        assert_eq!(busiest(18), busiest(0) + 360);
    }

    #[test]
    fn requests_come_as_expected_in_every_hour() {
        let market = Market::new(5, 3);
        let traffic = market.draw(Rng::new(5, "day"), &usual(50_000.0));
        let expected = market.expected_in_all(50_000.0);
        for hour in 0..24_u32 {
            let came = traffic.requests.iter().filter(|request| request.at_ms / 3_600_000 == hour);
            let expected: f64 = expected[hour as usize * 60..][..60].iter().sum();
            // Four deviations of a Poisson number.
            assert!((came.count() as f64 - expected).abs() < 4.0 * expected.sqrt(), "hour {hour}");
        }
    }

    #[test]
    fn a_quarter_of_the_prices_is_round() {
        let traffic = Market::new(5, 1).draw(Rng::new(5, "day"), &usual(20_000.0));
        let round = traffic.requests.iter().filter(|request| request.price % 1000 == 0).count();
        let part = round as f64 / traffic.requests.len() as f64;
        assert!((part - 0.25).abs() < 0.02, "{part}");
    }

    #[test]
    fn audiences_overlap() {
        let traffic = Market::new(5, 24).draw(Rng::new(5, "day"), &usual(10_000.0));
        let each = traffic.eligible.len() as f64 / traffic.requests.len() as f64;
        assert!(each > 0.7 && each < 1.5, "{each}");
        let several = traffic.requests.iter().filter(|request| request.count > 1).count();
        let wanted = traffic.requests.iter().filter(|request| request.count > 0).count();
        assert!(several * 3 > wanted, "{several} of {wanted}");
    }
}
