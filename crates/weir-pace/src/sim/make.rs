//! Makes a day of traffic from a seed: the market, the campaigns, and what the evening before knew about them.
//!
//! - **Requests**: a Poisson process over six segments of audience, each with its own hours and time zone.
//! - **Outside bids**: log-normal in each segment (deviation of the logarithm 0.84 to 1.15), the median moving by up to
//!   +-20 % over the day; one in four is a whole unit of currency for a thousand impressions, so that ties happen.
//! - **Campaigns** want some of the segments and a part of each, so their audiences overlap: a request fits one of
//!   24 on average. Values are log-normal (0.6) and do not depend on the time.
//! - **Forecast** of eligible requests by minute: the expectation, which chance and the scenario then miss. The plan of
//!   a campaign follows its own forecast.
//! - **Landscape**: another day of the same market, outside bids 10 % lower, replayed for each campaign while the
//!   others keep to their best fixed multipliers of that day: what the logs of that day would have taught.
//! - **Budgets**: see [`Budgets`]. Yesterday's were the same.
//!
//! # Calibration
//! The spread of outside bids and their round numbers are those of public auction logs. The number of campaigns, the
//! range of budgets, the deviation of values and yesterday's cheaper market are assumptions. Two things were fitted, on
//! the days of seeds 1 to 3: the level of values against prices, and how much audiences overlap. They were fitted to
//! figures that do not depend on how we pace: the best fixed multipliers reach 99.2 % of the bound, and a quarter of
//! what they reserve is paid in the end (0.18 in the mean of campaigns: the tighter a budget, the less). Higher values
//! and more overlap raise the second figure and lower the first, because the highest bid of ours is then less often the
//! best use of a request.
//!
//! The same arguments give the same day. Logarithms and powers are those of the platform, so that another platform may
//! differ by a micro here or there.

use std::f64::consts::TAU;

use super::day::{ARRIVALS_ONE, Auction, Day, DayCampaign, MINUTES, PLAN_ONE, SECONDS};
use super::day_landscape::{Full, Replay, replay_alone, replay_among_rivals};
use super::make_market::{Market, Traffic, Weather};
use super::make_rng::{Rng, whole};
use super::scenario::{Budgets, Change, Scenario};

/// The simulated day: 2026-11-20, UTC.
const START_MS: u64 = 1_795_132_800_000;
/// Outside bids of yesterday against today's.
const YESTERDAY_PRICE: f64 = 0.9;
/// Where an outage may fall: the afternoon, in minutes of the day.
const AFTERNOON: std::ops::Range<usize> = 12 * 60..18 * 60;

/// How large a day to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Requests expected on a usual day, 1 to [`Size::REQUESTS_MAX`]; chance makes it a few more or fewer.
    pub requests: u32,
    /// Campaigns, 1 to [`Size::CAMPAIGNS_MAX`].
    pub campaigns: u16,
}

/// A day that cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// Too few or too many requests.
    #[error("requests: found {found}, expected 1 to {}", Size::REQUESTS_MAX)]
    Requests {
        /// What was asked for.
        found: u32,
    },
    /// Too few or too many campaigns.
    #[error("campaigns: found {found}, expected 1 to {}", Size::CAMPAIGNS_MAX)]
    Campaigns {
        /// What was asked for.
        found: u16,
    },
}

impl Size {
    /// Most requests of a day.
    pub const REQUESTS_MAX: u32 = 10_000_000;
    /// Most campaigns of a day.
    pub const CAMPAIGNS_MAX: u16 = 200;

    /// The same size if a day of it can be made.
    ///
    /// # Errors
    /// [`SizeError`] says what was found and what was expected.
    pub fn checked(self) -> Result<Size, SizeError> {
        if !(1..=Size::REQUESTS_MAX).contains(&self.requests) {
            return Err(SizeError::Requests { found: self.requests });
        }
        if !(1..=Size::CAMPAIGNS_MAX).contains(&self.campaigns) {
            return Err(SizeError::Campaigns { found: self.campaigns });
        }
        Ok(self)
    }
}

impl Default for Size {
    /// 1.2 million requests and 24 campaigns.
    fn default() -> Size {
        Size { requests: 1_200_000, campaigns: 24 }
    }
}

/// The day of a seed. A size beyond its limits counts as the limit, see [`Size::checked`].
pub fn make(seed: u64, size: &Size, scenario: &Scenario, auction: Auction) -> Day {
    let campaigns = size.campaigns.clamp(1, Size::CAMPAIGNS_MAX);
    let requests = f64::from(size.requests.clamp(1, Size::REQUESTS_MAX));
    let market = Market::new(seed, campaigns);
    let today = Weather {
        requests,
        traffic: &|minute| Change::in_minute(scenario.traffic, minute),
        price: &|minute| Change::in_minute(scenario.price, minute),
    };
    let Traffic { requests: arrived, eligible } = market.draw(Rng::new(seed, "today"), &today);
    Day {
        campaigns: known(seed, &market, requests, scenario, auction),
        requests: arrived,
        eligible,
        start_ms: START_MS,
        outages: outages(scenario.outage_s, &market.expected_in_all(requests)),
        restarts: restarts(scenario.restart_every_s),
    }
}

/// What the evening before knows about each campaign.
fn known(
    seed: u64,
    market: &Market,
    requests: f64,
    scenario: &Scenario,
    auction: Auction,
) -> Vec<DayCampaign> {
    let usual = Weather { requests, traffic: &|_| 1.0, price: &|_| YESTERDAY_PRICE };
    let traffic = market.draw(Rng::new(seed, "yesterday"), &usual);
    let mut yesterday = Day {
        campaigns: vec![DayCampaign::default(); usize::from(market.campaigns)],
        requests: traffic.requests,
        eligible: traffic.eligible,
        ..Day::default()
    };
    let alone = replay_alone(&yesterday, auction);
    for ((place, alone), campaign) in (0..).zip(&alone).zip(&mut yesterday.campaigns) {
        let size = (f64::from(place) + 0.5) / f64::from(market.campaigns);
        let expected = market.expected(place, requests).iter().sum();
        campaign.budget = budget(scenario.budgets, size, &alone.full(), expected);
    }
    let replays = replay_among_rivals(&yesterday, auction);
    let mistake = mistake(seed, scenario);
    // Owners who count on more requests give more money, but for those who buy some impressions.
    let follows = match scenario.budgets {
        Budgets::Parts => mistake.whole,
        Budgets::Impressions(..) => 1.0,
    };
    let campaign = |((place, yesterday), replay): ((u16, &DayCampaign), &Replay)| {
        let forecast = forecast(&market.expected(place, requests), &mistake);
        let promised = forecast.iter().sum::<f64>();
        DayCampaign {
            id: u64::from(place) + 1,
            budget: micros(yesterday.budget as f64 * follows),
            plan: cumulative(&forecast, PLAN_ONE as f64 / promised),
            arrivals: cumulative(&forecast, ARRIVALS_ONE as f64),
            landscape: replay.landscape(auction),
        }
    };
    (0..).zip(&yesterday.campaigns).zip(&replays).map(campaign).collect()
}

/// A budget in whole micros, at least 1.
fn micros(budget: f64) -> i64 {
    i64::try_from(whole(budget)).unwrap_or(i64::MAX).max(1)
}

/// How far off a forecast is.
struct Mistake {
    /// Factor on everything.
    whole: f64,
    /// Height of the wave over the day.
    wave: f64,
    /// Where in the wave the day begins, 0 to 1.
    phase: f64,
}

fn mistake(seed: u64, scenario: &Scenario) -> Mistake {
    Mistake {
        whole: f64::from(scenario.forecast_percent) / 100.0,
        wave: f64::from(scenario.shape_percent) / 100.0,
        phase: Rng::new(seed, "shape").unit(),
    }
}

/// The forecast of eligible requests by minute where these are expected.
fn forecast(expected: &[f64], mistake: &Mistake) -> Vec<f64> {
    let wave = |minute: usize| {
        let time = (minute as f64 + 0.5) / MINUTES as f64;
        1.0 + mistake.wave * (TAU * (time + mistake.phase)).sin()
    };
    let waved: Vec<f64> =
        expected.iter().enumerate().map(|(minute, expected)| expected * wave(minute)).collect();
    let kept = expected.iter().sum::<f64>() / waved.iter().sum::<f64>();
    waved.into_iter().map(|waved| waved * kept * mistake.whole).collect()
}

/// Sums at the ends of minutes, from 0, times a scale.
fn cumulative(minutes: &[f64], scale: f64) -> Vec<u64> {
    let sums = minutes.iter().scan(0.0, |sum, minute| {
        *sum += minute;
        Some(whole(*sum * scale))
    });
    std::iter::once(0).chain(sums).collect()
}

/// The budget of a campaign whose place among all is `size`, 0 to 1, and that expects so many requests.
fn budget(budgets: Budgets, size: f64, full: &Full, requests: f64) -> i64 {
    let between = |from: f64, to: f64| from * (to / from).powf(size);
    micros(match budgets {
        Budgets::Parts => between(0.01, 2.0) * full.a_request * requests,
        Budgets::Impressions(from, to) => between(from.into(), to.into()) * full.a_win,
    })
}

/// The busiest stretch of the afternoon, if there is an outage.
fn outages(outage_s: u32, expected: &[f64]) -> Vec<(u32, u32)> {
    let minutes = (outage_s / 60) as usize;
    if minutes == 0 {
        return Vec::new();
    }
    let busy = |from: usize| expected[from..(from + minutes).min(MINUTES)].iter().sum::<f64>();
    let last = AFTERNOON.end.saturating_sub(minutes).max(AFTERNOON.start);
    let busiest = (AFTERNOON.start..=last).max_by(|&a, &b| busy(a).total_cmp(&busy(b)));
    let from_s = busiest.and_then(|minute| u32::try_from(minute * 60).ok()).unwrap_or(0);
    vec![(from_s, from_s + outage_s)]
}

/// Every so many seconds within the day.
fn restarts(every_s: u32) -> Vec<u32> {
    let every = (every_s as usize).max(1);
    let restarts = (0..SECONDS).step_by(every).skip(1);
    if every_s == 0 { Vec::new() } else { restarts.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::scenario::BASE;

    const SMALL: Size = Size { requests: 20_000, campaigns: 4 };

    fn small(name: &str) -> Day {
        make(1, &SMALL, Scenario::find(name).unwrap(), Auction::Second)
    }

    /// Requests in these seconds.
    fn between(day: &Day, from_s: u32, to_s: u32) -> usize {
        day.requests
            .iter()
            .filter(|request| (from_s..to_s).contains(&(request.at_ms / 1000)))
            .count()
    }

    fn median_price(day: &Day, from_s: u32) -> i64 {
        let later = day.requests.iter().filter(|request| request.at_ms / 1000 >= from_s);
        let mut prices: Vec<_> = later.map(|request| request.price).collect();
        prices.sort_unstable();
        prices[prices.len() / 2]
    }

    fn budgets(day: &Day) -> Vec<i64> {
        day.campaigns.iter().map(|campaign| campaign.budget).collect()
    }

    fn forecast_total(day: &Day) -> f64 {
        day.campaigns.iter().map(|campaign| campaign.arrivals[MINUTES] as f64).sum()
    }

    /// The largest distance of a campaign's plan from how its requests really came, as a share.
    fn worst_gap(day: &Day) -> f64 {
        let gap = |campaign: usize| {
            let mut came = vec![0_u64; MINUTES + 1];
            for request in &day.requests {
                let wants =
                    |one: &super::super::day::Eligible| usize::from(one.campaign) == campaign;
                came[request.at_ms as usize / 60_000 + 1] +=
                    day.eligible(request).iter().filter(|one| wants(one)).count() as u64;
            }
            let all: u64 = came.iter().sum();
            let mut sum = 0.0;
            let share = |(minute, came): (usize, &u64)| {
                sum += *came as f64 / all as f64;
                (day.campaigns[campaign].plan[minute] as f64 / PLAN_ONE as f64 - sum).abs()
            };
            came.iter().enumerate().map(share).fold(0.0, f64::max)
        };
        (0..day.campaigns.len()).map(gap).fold(0.0, f64::max)
    }

    #[test]
    fn every_day_is_well_formed() {
        for scenario in Scenario::ALL {
            for auction in Auction::ALL {
                let day = make(3, &SMALL, scenario, auction);
                assert!(day.requests.is_sorted_by_key(|request| request.at_ms));
                let mut next = 0;
                for request in &day.requests {
                    assert!(request.at_ms < SECONDS * 1000 && request.price > 0);
                    assert_eq!(request.first, next);
                    next += u32::from(request.count);
                    let eligible = day.eligible(request);
                    assert!(eligible.is_sorted_by(|a, b| a.campaign < b.campaign));
                    assert!(eligible.iter().all(|one| one.campaign < 4 && one.value > 0));
                }
                assert_eq!(next as usize, day.eligible.len());
                for campaign in &day.campaigns {
                    assert_eq!((campaign.plan.len(), campaign.arrivals.len()), (1441, 1441));
                    assert_eq!((campaign.plan[0], campaign.plan[1440]), (0, PLAN_ONE));
                    assert!(campaign.plan.is_sorted() && campaign.arrivals.is_sorted());
                    assert_eq!((campaign.arrivals[0], campaign.landscape.len()), (0, 25));
                    assert!(gate_pacing::Landscape::from_points(&campaign.landscape).is_ok());
                    assert!(campaign.budget > 0);
                }
            }
        }
    }

    #[test]
    fn a_seed_replays_and_another_differs() {
        assert_eq!(small("base"), small("base"));
        let other = make(2, &SMALL, &BASE, Auction::Second);
        assert_ne!(small("base").requests, other.requests);
    }

    #[test]
    fn scenarios_of_the_same_day_make_the_same_day() {
        for scenario in Scenario::ALL.iter().filter(|scenario| scenario.same_day(&BASE)) {
            assert_eq!(small(scenario.name), small("base"));
        }
    }

    #[test]
    fn the_auction_changes_only_what_is_known_and_the_budgets() {
        let [second, first] = Auction::ALL.map(|auction| make(1, &SMALL, &BASE, auction));
        assert_eq!((&second.requests, &second.eligible), (&first.requests, &first.eligible));
        assert_eq!(second.campaigns[0].plan, first.campaigns[0].plan);
        assert!(second.campaigns[0].budget < first.campaigns[0].budget);
    }

    #[test]
    fn the_forecast_is_right_on_a_usual_day() {
        let day = small("base");
        assert!((forecast_total(&day) / 256.0 / day.eligible.len() as f64 - 1.0).abs() < 0.03);
        // The smallest campaign has a few hundred requests.
        assert!(worst_gap(&day) < 0.08, "{}", worst_gap(&day));
    }

    #[test]
    fn budgets_go_from_one_percent_to_twice_what_could_be_spent() {
        let day = make(1, &Size { requests: 20_000, campaigns: 24 }, &BASE, Auction::Second);
        let part = |campaign: &DayCampaign| {
            let (full, requests) = (campaign.landscape[24].1, campaign.arrivals[MINUTES]);
            campaign.budget as f64 / (full as f64 / 65536.0 * requests as f64 / 256.0)
        };
        let parts: Vec<_> = day.campaigns.iter().map(part).collect();
        assert!(parts.is_sorted_by(|a, b| a < b));
        assert!(parts[0] > 0.01 && parts[0] < 0.012, "{parts:?}");
        assert!(parts[23] > 1.7 && parts[23] < 2.0, "{parts:?}");
    }

    #[test]
    fn a_wrong_forecast_takes_the_budgets_with_it() {
        let (base, high, low) = (small("base"), small("forecast+40"), small("forecast-40"));
        assert_eq!((&base.requests, &base.requests), (&high.requests, &low.requests));
        assert_eq!(base.campaigns[2].plan, high.campaigns[2].plan);
        assert!((forecast_total(&high) / forecast_total(&base) - 1.4).abs() < 1e-3);
        assert!((forecast_total(&low) / forecast_total(&base) - 0.6).abs() < 1e-3);
        for (base, high) in budgets(&base).into_iter().zip(budgets(&high)) {
            assert!((high as f64 / base as f64 - 1.4).abs() < 1e-3);
        }
    }

    #[test]
    fn a_wrong_shape_keeps_the_sum() {
        let (base, shape) = (small("base"), small("shape"));
        assert!((forecast_total(&shape) / forecast_total(&base) - 1.0).abs() < 1e-3);
        assert_eq!(budgets(&base), budgets(&shape));
        let gap = worst_gap(&shape);
        assert!(gap > 0.05 && gap < 0.25, "{gap}");
    }

    #[test]
    fn an_outage_lies_in_the_busiest_half_hour_of_the_afternoon() {
        let (base, day) = (small("base"), small("outage"));
        assert_eq!(base.requests, day.requests);
        let [(from_s, to_s)] = day.outages[..] else { panic!("{:?}", day.outages) };
        assert_eq!(to_s - from_s, 1800);
        assert!(from_s >= 43_200 && to_s <= 64_800);
        let market = Market::new(1, 4).expected_in_all(1.0);
        let busy = |from_s: u32| market[from_s as usize / 60..][..30].iter().sum::<f64>();
        assert!((43_200..=63_000).step_by(60).all(|other| busy(other) <= busy(from_s)));
        assert_eq!(Scenario::find("outage").unwrap().event(&day), Some((from_s, to_s)));
    }

    #[test]
    fn a_spike_is_five_times_the_usual() {
        let (base, day) = (small("base"), small("spike"));
        let times = between(&day, 54_000, 54_900) as f64 / between(&base, 54_000, 54_900) as f64;
        assert!((times / 5.0 - 1.0).abs() < 0.2, "{times}");
        assert_eq!(budgets(&base), budgets(&day));
        assert_eq!(base.campaigns[0].arrivals, day.campaigns[0].arrivals);
        assert_eq!(Scenario::find("spike").unwrap().event(&day), Some((54_000, 54_900)));
    }

    #[test]
    fn prices_double_at_noon_only_for_today() {
        let (base, day) = (small("base"), small("price"));
        let times = median_price(&day, 43_200) as f64 / median_price(&base, 43_200) as f64;
        // Round prices make it a little more or less.
        assert!((times - 2.0).abs() < 0.2, "{times}");
        assert_eq!(base.campaigns, day.campaigns);
        assert_eq!(Scenario::find("price").unwrap().event(&day), None);
    }

    #[test]
    fn a_crunch_brings_less_and_dearer_traffic_in_the_evening() {
        let (base, day) = (small("base"), small("crunch"));
        let times = between(&day, 75_600, 86_400) as f64 / between(&base, 75_600, 86_400) as f64;
        assert!((times - 0.4).abs() < 0.05, "{times}");
        assert!(median_price(&day, 75_600) > median_price(&base, 75_600) * 5 / 4);
        assert_eq!(base.campaigns, day.campaigns);
    }

    #[test]
    fn tiny_budgets_buy_a_few_impressions() {
        let day = small("tiny");
        for (place, budget) in (0_u16..).zip(budgets(&day)) {
            let (mut paid, mut wins) = (0, 0);
            for request in &day.requests {
                let own = day.eligible(request).iter().find(|one| one.campaign == place);
                if own.is_some_and(|own| own.value >= request.price) {
                    (paid, wins) = (paid + request.price, wins + 1);
                }
            }
            let impressions = budget * wins / paid;
            assert!((8..600).contains(&impressions), "{impressions}");
        }
    }

    #[test]
    fn restarts_are_every_hour_within_the_day() {
        let day = small("restarts");
        assert_eq!((day.restarts.len(), day.restarts[0], day.restarts[22]), (23, 3600, 82_800));
        assert_eq!(day.requests, small("base").requests);
    }

    #[test]
    fn a_size_out_of_range_is_told_and_counts_as_the_limit() {
        let size = |requests, campaigns| Size { requests, campaigns };
        assert_eq!(SMALL.checked(), Ok(SMALL));
        assert_eq!(
            size(0, 1).checked().unwrap_err().to_string(),
            "requests: found 0, expected 1 to 10000000"
        );
        assert_eq!(size(1, 201).checked(), Err(SizeError::Campaigns { found: 201 }));
        let day = make(1, &size(0, 0), &BASE, Auction::Second);
        assert_eq!(day.campaigns.len(), 1);
        assert!(day.requests.len() < 20);
    }
}
