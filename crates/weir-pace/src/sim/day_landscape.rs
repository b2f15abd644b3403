//! What a campaign would have spent on a day at each bid multiplier while its rivals kept to theirs: its landscape.

use gate_pacing::MULTIPLIERS;

use super::bound::best_fixed_of;
use super::day::{Auction, Day, Eligible};
use super::make_rng::whole;

/// A bid multiplier of one, Q32.
const MULTIPLIER_ONE: f64 = 4_294_967_296.0;
const POINTS: usize = MULTIPLIERS.len();

/// A campaign's wins on a day, by the lowest multiplier that wins them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Replay {
    /// Requests it was eligible for.
    seen: u64,
    /// Wins whose lowest winning multiplier is this one.
    wins: [u64; POINTS],
    /// What those wins pay: the outside bids, or in a first-price auction the full values, of which the multiplier's
    /// part is paid.
    micros: [u128; POINTS],
}

/// Replays a day for each campaign while the others keep to the multipliers that were best for them on that day: what
/// its logs would have taught, had all been paced well.
pub(crate) fn replay_among_rivals(day: &Day, auction: Auction) -> Vec<Replay> {
    let multipliers = best_fixed_of(day, auction);
    replay(
        day,
        &multipliers.into_iter().map(|a| whole(a * MULTIPLIER_ONE)).collect::<Vec<_>>(),
        auction,
    )
}

/// Replays a day for each campaign as if it were alone.
pub(crate) fn replay_alone(day: &Day, auction: Auction) -> Vec<Replay> {
    replay(day, &vec![0; day.campaigns.len()], auction)
}

/// Replays a day for each campaign against the others, which bid with these multipliers (Q32, one per campaign).
fn replay(day: &Day, multipliers: &[u64], auction: Auction) -> Vec<Replay> {
    let mut replays = vec![Replay::default(); multipliers.len()];
    for request in &day.requests {
        let pairs = day.eligible(request);
        let bid = |pair: &Eligible| times(pair.value, multipliers[usize::from(pair.campaign)]);
        for one in pairs {
            let rivals = pairs.iter().filter(|other| other.campaign != one.campaign).map(bid);
            replays[usize::from(one.campaign)].meet(one, request.price, rivals.max(), auction);
        }
    }
    replays
}

/// A value bid at a multiplier.
fn times(value: i64, multiplier_q32: u64) -> i64 {
    // At most the value, because no multiplier is above one.
    i64::try_from((i128::from(value) * i128::from(multiplier_q32)) >> 32).unwrap_or(i64::MAX)
}

impl Replay {
    /// Adds a request with this outside bid; a rival loses with the same bid.
    fn meet(&mut self, one: &Eligible, price: i64, rival: Option<i64>, auction: Auction) {
        self.seen += 1;
        let wanted = rival.map_or(price, |rival| rival.max(price));
        let point = MULTIPLIERS.partition_point(|&at| times(one.value, at) < wanted);
        if point < POINTS {
            self.wins[point] += 1;
            let pays = auction.pays(one.value, price).unwrap_or(0);
            self.micros[point] += u128::from(pays.unsigned_abs());
        }
    }

    /// Multiplier (Q32) to spend per eligible request (micros, Q16); nothing if no request was seen.
    pub(crate) fn landscape(&self, auction: Auction) -> Vec<(u64, u64)> {
        if self.seen == 0 {
            return Vec::new();
        }
        let spend = |(point, multiplier): (usize, u64)| {
            let won: u128 = self.micros[..=point].iter().sum();
            let paid = match auction {
                Auction::Second => won,
                Auction::First => (won * u128::from(multiplier)) >> 32,
            };
            let each_q16 = (paid << 16) / u128::from(self.seen);
            (multiplier, u64::try_from(each_q16).unwrap_or(u64::MAX))
        };
        MULTIPLIERS.into_iter().enumerate().map(spend).collect()
    }

    /// What it pays for an eligible request and for a win, micros, on average, with full bids.
    pub(crate) fn full(&self) -> Full {
        let paid = self.micros.iter().sum::<u128>() as f64;
        let wins = self.wins.iter().sum::<u64>();
        Full { a_request: paid / self.seen.max(1) as f64, a_win: paid / wins.max(1) as f64 }
    }
}

/// Mean spend with full bids, micros.
pub(crate) struct Full {
    /// For each eligible request.
    pub(crate) a_request: f64,
    /// For each win.
    pub(crate) a_win: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::day::{DayCampaign, DayRequest};

    /// Campaigns that want each of the requests, one a price, for the same value.
    fn day(campaigns: u16, value: i64, prices: &[i64]) -> Day {
        let pair = |campaign| Eligible { campaign, value };
        let request = |(first, &price): (u32, &i64)| {
            let first = first * u32::from(campaigns);
            DayRequest { id: 0, at_ms: 0, first, count: campaigns, price }
        };
        Day {
            campaigns: vec![DayCampaign::default(); usize::from(campaigns)],
            requests: (0..).zip(prices).map(request).collect(),
            eligible: prices.iter().flat_map(|_| (0..campaigns).map(pair)).collect(),
            ..Day::default()
        }
    }

    /// One campaign, one request a price.
    fn landscape(value: i64, prices: &[i64], auction: Auction) -> (Vec<(u64, u64)>, Full) {
        let replay = replay_alone(&day(1, value, prices), auction).remove(0);
        (replay.landscape(auction), replay.full())
    }

    /// The definition, one multiplier and one request at a time.
    fn slowly(value: i64, prices: &[i64], auction: Auction, multiplier: u64) -> u64 {
        let bid = times(value, multiplier);
        let spent: i64 = prices.iter().filter_map(|&price| auction.pays(bid, price)).sum();
        (spent.unsigned_abs() << 16) / prices.len() as u64
    }

    #[test]
    fn a_landscape_is_the_spend_at_each_multiplier() {
        let prices = [1, 10, 99, 100, 101, 500, 999, 1000, 1001, 0];
        for auction in Auction::ALL {
            let (points, _) = landscape(1000, &prices, auction);
            for (multiplier, spend) in points {
                let expected = slowly(1000, &prices, auction, multiplier);
                // A first-price bid is rounded down each time, the landscape only once.
                let slack = if auction == Auction::First { 1 << 16 } else { 0 };
                assert!((expected..=expected + slack).contains(&spend), "{auction:?} {multiplier}");
            }
        }
    }

    #[test]
    fn a_rival_must_be_outbid_but_sets_no_price() {
        let replays = replay(&day(2, 1000, &[100]), &[1 << 31, 0], Auction::Second);
        let spend = |campaign: usize, multiplier: u64| {
            let points = replays[campaign].landscape(Auction::Second);
            points.into_iter().find(|point| point.0 >= multiplier).unwrap().1 >> 16
        };
        assert_eq!([MULTIPLIERS[11], MULTIPLIERS[12]].map(|at| spend(0, at)), [0, 100]);
        // The first below a half, and the first above it.
        assert_eq!([MULTIPLIERS[20], MULTIPLIERS[21]].map(|at| spend(1, at)), [0, 100]);
    }

    #[test]
    fn full_bids_pay_their_mean() {
        let (_, full) = landscape(1000, &[600, 200, 1001, 2000], Auction::Second);
        assert_eq!((full.a_request, full.a_win), (200.0, 400.0));
        let (_, full) = landscape(1000, &[600, 200, 1001, 2000], Auction::First);
        assert_eq!((full.a_request, full.a_win), (500.0, 1000.0));
    }

    #[test]
    fn a_campaign_that_saw_nothing_has_no_landscape() {
        let replay = replay_alone(&day(1, 1, &[]), Auction::Second).remove(0);
        assert_eq!(replay.landscape(Auction::Second), []);
        assert_eq!(replay.full().a_request, 0.0);
    }
}
