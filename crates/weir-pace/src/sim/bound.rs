//! What was to be had: an upper bound for every strategy, and the best fixed multipliers in hindsight.
//!
//! # The bound
//! Who had known the whole day would have solved a linear program: of every pair (request, campaign) take a share `x`,
//! such that
//!
//! ```text
//!   maximise   sum of x * value
//!   where      sum of x         <= 1        for every request
//!              sum of x * price <= budget   for every campaign
//! ```
//!
//! over the pairs that could be won at all: the request is answered, and its outside bid is at most the campaign's
//! value. A winner pays the outside bid, the least that any auction lets it pay. For **any** rates >= 0, what a unit of
//! a campaign's money must bring at least,
//!
//! ```text
//!   D(rates) = sum of rate * budget  +  sum over requests of max(0, best of value - rate * price)
//! ```
//!
//! is no less than that maximum (weak duality). So the figure is a bound wherever the search for the least `D` stops.
//! How far it can be from the truth is its **gap** to a plan that keeps within the budgets.
//!
//! # The search
//! The spend of a campaign falls as its rate rises. All rates move at once, in their logarithm, by the logarithm of
//! spend over budget times a gain of their own, which grows while the sign stays and halves when it turns. The first
//! rounds look at every 16th request only; the others leave out pairs that are far too dear by then. Best fixed multipliers are found by the same search: there a rate is
//! 1 / multiplier.

use gate_auction::Rank;

use super::day::{Auction, Day, DayRequest, Eligible};

/// A rate this low is none: the budget does not bind.
const RATE_MIN: f64 = 1e-4;
/// At this rate nothing is worth its price.
const RATE_MAX: f64 = 1e6;
/// Where the search starts.
const RATE_START: f64 = 2.5;
/// Requests skipped from one to the next in the first rounds, and how many rounds these are.
const COARSE_STRIDE: usize = 16;
const COARSE_ROUNDS: usize = 40;
/// Rounds over all requests, at most.
const ROUNDS_MAX: usize = 48;
/// The search ends when this share is left to gain, or when so many rounds in a row gained nothing.
const GAP_ENOUGH: f64 = 2e-4;
const IN_VAIN_MAX: usize = 6;
/// How far, as a factor, a rate may fall below what the first rounds found.
const REACH: f64 = 4.0;

/// What is known of a day when it is over.
#[derive(Clone, Debug, PartialEq)]
pub struct Hindsight {
    /// The most value that anybody could have won.
    pub bound: Bound,
    /// For each campaign the one bid multiplier, at most 1, with which it spends its budget over the whole day and no
    /// more, while all the others keep to theirs.
    pub multipliers: Vec<f64>,
}

impl Hindsight {
    /// Of a day whose impressions are sold like this, to the best of the own offers.
    pub fn of(day: &Day, auction: Auction, rank: Rank) -> Hindsight {
        let market = PackedMarket::of(day);
        Hindsight {
            bound: Bound::of(day, &market),
            multipliers: best_fixed(&market, auction, rank),
        }
    }

    /// Whether a campaign must be paced: its best multiplier is below 1. The others cannot spend their budgets, whatever
    /// is done.
    pub fn binds(&self, campaign: usize) -> bool {
        self.multipliers.get(campaign).is_some_and(|&multiplier| multiplier < 1.0)
    }
}

/// The best fixed multipliers of [`Hindsight`] alone.
pub(crate) fn best_fixed_of(day: &Day, auction: Auction) -> Vec<f64> {
    best_fixed(&PackedMarket::of(day), auction, Rank::Bid)
}

/// An upper bound of the value that all campaigns together could win on a day.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// No strategy wins more, micros of value.
    pub value: f64,
    /// What a plan with these rates wins within every budget; the least bound is between this and `value`.
    pub reached: f64,
    /// What a unit of each campaign's money must bring; 0 if its budget does not bind.
    pub rates: Vec<f64>,
}

impl Bound {
    fn of(day: &Day, market: &PackedMarket) -> Bound {
        let mut best = (f64::INFINITY, vec![0.0; market.budgets.len()]);
        market.search(RATE_MIN, |market, rates, stride, spent| {
            let rates: Vec<f64> =
                rates.iter().map(|&rate| if rate <= RATE_MIN { 0.0 } else { rate }).collect();
            let dual = market.dual(&rates, stride, spent);
            let idle = market.off_budget(spent).zip(&rates).map(|(off, rate)| off.abs() * rate);
            let left = idle.sum::<f64>() / dual.max(1.0);
            if stride == 1 && dual < best.0 {
                best = (dual, rates);
            }
            left
        });
        let rates = best.1;
        Bound { value: dual_of_day(day, &rates), reached: taken_within_budgets(day, &rates), rates }
    }

    /// How far the figure can be above the least bound, as a share of it.
    pub fn gap(&self) -> f64 {
        if self.value > 0.0 { 1.0 - self.reached / self.value } else { 0.0 }
    }
}

fn best_fixed(market: &PackedMarket, auction: Auction, rank: Rank) -> Vec<f64> {
    let campaigns = market.budgets.len().max(1) as f64;
    let mut best = (f64::INFINITY, vec![1.0; market.budgets.len()]);
    market.search(1.0, |market, rates, stride, spent| {
        let multipliers: Vec<f64> = rates.iter().map(|rate| 1.0 / rate).collect();
        market.fixed(&multipliers, (auction, rank), stride, spent);
        let off = market.off_budget(spent).zip(&market.budgets).zip(&multipliers);
        let wrong = off.map(|((off, budget), &multiplier)| {
            let off = off / budget.max(1.0);
            if multiplier < 1.0 { off.abs() } else { off.max(0.0) }
        });
        let wrong = wrong.sum::<f64>() / campaigns;
        if stride == 1 && wrong < best.0 {
            best = (wrong, multipliers);
        }
        wrong
    });
    best.1
}

/// The requests that are answered, each with the pairs that could be won.
fn winnable(day: &Day) -> impl Iterator<Item = (&DayRequest, impl Iterator<Item = &Eligible>)> {
    day.requests.iter().filter(|request| day.answers(request.at_ms)).map(|request| {
        let pairs = day.eligible(request).iter();
        (request, pairs.filter(|pair| pair.value >= request.price))
    })
}

/// `D` at these rates, from the day itself.
fn dual_of_day(day: &Day, rates: &[f64]) -> f64 {
    let budgets = day.campaigns.iter().zip(rates).map(|(c, rate)| real(c.budget) * rate);
    let requests = winnable(day).map(|(request, pairs)| {
        pairs.map(|pair| surplus(request, pair, rates)).fold(0.0, f64::max)
    });
    budgets.sum::<f64>() + requests.sum::<f64>()
}

/// The value of one way to take requests at these rates: in their order, by whom they bring the most, while its budget
/// lasts.
fn taken_within_budgets(day: &Day, rates: &[f64]) -> f64 {
    let mut left: Vec<i64> = day.campaigns.iter().map(|campaign| campaign.budget).collect();
    let mut value = 0.0;
    for (request, pairs) in winnable(day) {
        let price = request.price.max(0);
        let able = pairs.filter(|pair| left[usize::from(pair.campaign)] >= price);
        let best = able.map(|pair| (surplus(request, pair, rates), pair));
        let best = best.filter(|(surplus, _)| *surplus >= 0.0);
        if let Some((_, pair)) = best.max_by(|a, b| a.0.total_cmp(&b.0)) {
            left[usize::from(pair.campaign)] -= price;
            value += real(pair.value);
        }
    }
    value
}

fn surplus(request: &DayRequest, pair: &Eligible, rates: &[f64]) -> f64 {
    real(pair.value) - rates[usize::from(pair.campaign)] * real(request.price.max(0))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "exact up to 2^53 micros; a bound is reported in percent"
)]
fn real(micros: i64) -> f64 {
    micros as f64
}

#[expect(clippy::cast_possible_truncation, reason = "single precision is for the search only")]
fn single(number: f64) -> f32 {
    number as f32
}

fn singles(numbers: impl Iterator<Item = f64>) -> Vec<f32> {
    numbers.map(single).collect()
}

/// A pair that could be won.
#[derive(Clone, Copy)]
struct Pair {
    value: f32,
    campaign: u32,
}

/// The pairs of a day that could be won, packed for many sweeps. Single precision is for the search; what is reported
/// is computed from the day itself.
#[derive(Default)]
struct PackedMarket {
    prices: Vec<f32>,
    /// The pairs of request `r` are `first[r]..first[r + 1]`.
    first: Vec<usize>,
    pairs: Vec<Pair>,
    budgets: Vec<f64>,
}

impl PackedMarket {
    fn of(day: &Day) -> PackedMarket {
        let mut market = PackedMarket {
            prices: Vec::with_capacity(day.requests.len()),
            first: Vec::with_capacity(day.requests.len() + 1),
            pairs: Vec::with_capacity(day.eligible.len()),
            budgets: day.campaigns.iter().map(|campaign| real(campaign.budget)).collect(),
        };
        market.first.push(0);
        for (request, pairs) in winnable(day) {
            let packed = pairs.map(|pair| Pair {
                value: single(real(pair.value)),
                campaign: u32::from(pair.campaign),
            });
            market.push(single(real(request.price.max(0))), packed);
        }
        market
    }

    /// Every `stride`-th request: its price and its pairs.
    fn requests(&self, stride: usize) -> impl Iterator<Item = (f32, &[Pair])> {
        let places = (0..self.prices.len()).step_by(stride);
        places.map(|r| (self.prices[r], &self.pairs[self.first[r]..self.first[r + 1]]))
    }

    /// Moves the rates until `sweep(market, rates, stride, spent)` says that little is left to gain, or the rounds are
    /// over. A sweep looks at every `stride`-th request and sets what each campaign spends, scaled to the whole day.
    fn search(
        &self,
        rate_min: f64,
        mut sweep: impl FnMut(&PackedMarket, &[f64], usize, &mut [f64]) -> f64,
    ) {
        let mut search = Search::new(self.budgets.len(), rate_min);
        search.run(&self.budgets, COARSE_ROUNDS, |rates, spent| {
            sweep(self, rates, COARSE_STRIDE, spent)
        });
        let market = self.narrowed(&search.rates);
        search.stay_within_reach();
        search.run(&self.budgets, ROUNDS_MAX, |rates, spent| sweep(&market, rates, 1, spent));
    }

    /// Without the pairs that would not be taken even if a rate fell to 1 / [`REACH`].
    fn narrowed(&self, rates: &[f64]) -> PackedMarket {
        let mut market = PackedMarket {
            first: vec![0],
            budgets: self.budgets.clone(),
            ..PackedMarket::default()
        };
        let least = singles(rates.iter().map(|rate| rate / REACH));
        for (price, pairs) in self.requests(1) {
            let near = |pair: &&Pair| pair.value >= least[pair.campaign as usize] * price;
            market.push(price, pairs.iter().filter(near).copied());
        }
        market
    }

    /// Adds a request, unless nobody wants it.
    fn push(&mut self, price: f32, pairs: impl Iterator<Item = Pair>) {
        let before = self.pairs.len();
        self.pairs.extend(pairs);
        if self.pairs.len() > before {
            self.prices.push(price);
            self.first.push(self.pairs.len());
        }
    }

    /// `D` at these rates, and what each campaign spends then.
    fn dual(&self, rates: &[f64], stride: usize, spent: &mut [f64]) -> f64 {
        let rates = singles(rates.iter().copied());
        let scale = stride as f64;
        let mut surplus = 0.0;
        for (price, pairs) in self.requests(stride) {
            let (mut most, mut who) = (0.0_f32, None);
            for pair in pairs {
                let surplus = pair.value - rates[pair.campaign as usize] * price;
                if surplus > most {
                    (most, who) = (surplus, Some(pair.campaign));
                }
            }
            if let Some(campaign) = who {
                surplus += f64::from(most);
                spent[campaign as usize] += f64::from(price) * scale;
            }
        }
        let budgets =
            self.budgets.iter().zip(&rates).map(|(budget, &rate)| budget * f64::from(rate));
        budgets.sum::<f64>() + surplus * scale
    }

    /// What each campaign spends with these multipliers.
    fn fixed(
        &self,
        multipliers: &[f64],
        (auction, rank): (Auction, Rank),
        stride: usize,
        spent: &mut [f64],
    ) {
        let multipliers = singles(multipliers.iter().copied());
        let scale = stride as f64;
        for (price, pairs) in self.requests(stride) {
            let (mut best, mut highest, mut who) = (0.0_f32, 0.0_f32, 0);
            for pair in pairs {
                let bid = pair.value * multipliers[pair.campaign as usize];
                // The order of [`Rank::score`], in single precision.
                let score = if rank == Rank::Bid { bid } else { pair.value.cbrt() * bid };
                if score > best {
                    (best, highest, who) = (score, bid, pair.campaign);
                }
            }
            if highest >= price {
                let pays = if auction == Auction::First { highest } else { price };
                spent[who as usize] += f64::from(pays) * scale;
            }
        }
    }

    /// Spend above the budget of each campaign, negative below.
    fn off_budget<'a>(&'a self, spent: &'a [f64]) -> impl Iterator<Item = f64> + 'a {
        spent.iter().zip(&self.budgets).map(|(spent, budget)| spent - budget)
    }
}

/// The rates on their way.
struct Search {
    rates: Vec<f64>,
    rates_min: Vec<f64>,
    gains: Vec<f64>,
    errors: Vec<f64>,
}

impl Search {
    const GAIN_START: f64 = 0.5;
    const GAIN_MAX: f64 = 6.0;

    fn new(campaigns: usize, rate_min: f64) -> Search {
        Search {
            rates: vec![RATE_START; campaigns],
            rates_min: vec![rate_min; campaigns],
            gains: vec![Search::GAIN_START; campaigns],
            errors: vec![0.0; campaigns],
        }
    }

    /// From here on no rate falls below 1 / [`REACH`] of what it is.
    fn stay_within_reach(&mut self) {
        for (least, rate) in self.rates_min.iter_mut().zip(&self.rates) {
            *least = least.max(rate / REACH);
        }
        self.gains.fill(Search::GAIN_START);
    }

    fn run(
        &mut self,
        budgets: &[f64],
        rounds: usize,
        mut sweep: impl FnMut(&[f64], &mut [f64]) -> f64,
    ) {
        let mut spent = vec![0.0; budgets.len()];
        let (mut least, mut in_vain) = (f64::INFINITY, 0);
        for _ in 0..rounds {
            spent.fill(0.0);
            let left = sweep(&self.rates, &mut spent);
            in_vain = if left < least { 0 } else { in_vain + 1 };
            least = least.min(left);
            if least < GAP_ENOUGH || in_vain == IN_VAIN_MAX {
                return;
            }
            self.step(&spent, budgets);
        }
    }

    fn step(&mut self, spent: &[f64], budgets: &[f64]) {
        for c in 0..self.rates.len() {
            let error = (spent[c].max(1e-9) / budgets[c].max(1e-9)).ln().clamp(-1.0, 1.0);
            let turned = error * self.errors[c] < 0.0;
            let gain = self.gains[c] * if turned { 0.5 } else { 1.2 };
            self.gains[c] = gain.min(Search::GAIN_MAX);
            self.errors[c] = error;
            let moved = self.rates[c] * (self.gains[c] * error).exp();
            self.rates[c] = moved.clamp(self.rates_min[c], RATE_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::day::DayCampaign;
    use crate::sim::make::{Size, make};
    use crate::sim::run::{self, Fixed};
    use crate::sim::scenario::BASE;

    /// A day of requests (price, values of campaigns 0, 1, ..) a second, and budgets.
    fn day(budgets: &[i64], requests: &[(i64, &[i64])]) -> Day {
        let of = |&budget| DayCampaign { budget, ..DayCampaign::default() };
        let mut day = Day { campaigns: budgets.iter().map(of).collect(), ..Day::default() };
        for (at, (price, values)) in (0..).zip(requests) {
            let first = u32::try_from(day.eligible.len()).unwrap();
            let pairs = (0..).zip(values.iter());
            day.eligible.extend(pairs.map(|(campaign, &value)| Eligible { campaign, value }));
            let count = u16::try_from(values.len()).unwrap();
            let (id, price) = (u64::from(at) + 1, *price);
            day.requests.push(DayRequest { id, at_ms: at * 1000, first, count, price });
        }
        day
    }

    fn close(found: f64, expected: f64, within: f64) {
        assert!((found / expected - 1.0).abs() <= within, "{found} for {expected}");
    }

    /// The best value of whole impressions within the budgets, by trying everything.
    fn best_of_all(day: &Day, place: usize, left: &mut Vec<i64>) -> i64 {
        let Some(request) = day.requests.get(place) else {
            return 0;
        };
        let mut best = best_of_all(day, place + 1, left);
        for pair in day.eligible(request).to_vec() {
            let campaign = usize::from(pair.campaign);
            if pair.value < request.price || left[campaign] < request.price {
                continue;
            }
            left[campaign] -= request.price;
            best = best.max(pair.value + best_of_all(day, place + 1, left));
            left[campaign] += request.price;
        }
        best
    }

    #[test]
    fn a_budget_that_is_enough_for_everything_costs_nothing() {
        let day = day(&[1_000], &[(10, &[20]), (30, &[40]), (50, &[40])]);
        let hindsight = Hindsight::of(&day, Auction::Second, Rank::Bid);
        close(hindsight.bound.value, 60.0, 1e-6);
        assert_eq!(hindsight.bound.rates, [0.0], "the third is dearer than it may bid");
        assert_eq!((hindsight.multipliers[0], hindsight.binds(0)), (1.0, false));
    }

    #[test]
    fn a_scarce_budget_buys_what_brings_the_most_for_its_money() {
        // 4, 3 and 2 for each unit; the money is for half of them, the middle one in part.
        let day = day(&[15], &[(10, &[20]), (10, &[40]), (10, &[30])]);
        let bound = Hindsight::of(&day, Auction::Second, Rank::Bid).bound;
        assert!(bound.value >= 55.0, "40 and half of 30: {}", bound.value);
        assert!(bound.value <= 60.0, "{}", bound.value);
    }

    #[test]
    fn who_is_not_asked_wins_nothing() {
        let mut day = day(&[1_000], &[(10, &[20]), (30, &[40])]);
        day.outages = vec![(1, 2)];
        close(Hindsight::of(&day, Auction::Second, Rank::Bid).bound.value, 20.0, 1e-6);
    }

    #[test]
    fn nobody_wins_more_than_the_bound() {
        for seed in 0..40_u64 {
            let draw = |salt: u64, of: u64| {
                let x = (seed * 7919 + salt).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                i64::try_from((x >> 33) % of).unwrap()
            };
            let values: Vec<[i64; 2]> =
                (0..7).map(|r| [1 + draw(r, 90), 1 + draw(r + 50, 90)]).collect();
            let prices = (0..7).map(|r| draw(r + 100, 60));
            let requests: Vec<(i64, &[i64])> =
                prices.zip(&values).map(|(price, values)| (price, &values[..])).collect();
            let day = day(&[1 + draw(200, 100), 1 + draw(201, 100)], &requests);
            let mut left = day.campaigns.iter().map(|campaign| campaign.budget).collect();
            let best = real(best_of_all(&day, 0, &mut left));
            let bound = Hindsight::of(&day, Auction::Second, Rank::Bid).bound;
            assert!(bound.value >= best - 1e-6, "seed {seed}: {} below {best}", bound.value);
            assert!(bound.reached <= best, "seed {seed}: {} is more than there is", bound.reached);
        }
    }

    #[test]
    fn on_a_day_of_traffic_the_bound_is_tight_and_fixed_multipliers_spend_the_budgets() {
        let size = Size { requests: 60_000, campaigns: 8 };
        for auction in Auction::ALL {
            let day = make(3, &size, &BASE, auction);
            let hindsight = Hindsight::of(&day, auction, Rank::Bid);
            assert!(hindsight.bound.gap() < 0.01, "{}", hindsight.bound.gap());
            let mut fixed = Fixed::new(&day, Rank::Bid, hindsight.multipliers.clone());
            let run = run::run(&day, auction, &Fixed::NOTICES, 1, &mut fixed);
            assert!(real(run.value()) < hindsight.bound.value);
            assert!((0..8).any(|campaign| hindsight.binds(campaign)), "the day is too easy");
            // A tiny budget is a few impressions, so they are judged together.
            let binding = || (0..8).filter(|&campaign| hindsight.binds(campaign));
            let spent: i64 = binding().map(|campaign| run.campaigns[campaign].total()).sum();
            let budgets: i64 = binding().map(|campaign| day.campaigns[campaign].budget).sum();
            close(real(spent), real(budgets), 0.01);
        }
    }
}
