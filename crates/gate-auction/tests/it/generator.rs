//! Plausible campaigns and requests from a seed, integers only. Used by tests, and by the example at full size.

use gate_auction::{
    BlockedAttribute, Campaign, Creative, Deal, Dimension, DurationFloor, Exclusive, Floor, Format,
    Impression, Modifier, Placement, Price, PriceRule, Pricing, Rank, Request, Rules, Targeting,
    Timing,
};
use money::CurrencyCode;
use table::SplitMix64;

/// Numbers from a seed.
pub(crate) struct Dice(SplitMix64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(SplitMix64::new(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.draw()
    }

    /// 0 to `n` - 1.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0.below(n)
    }

    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// 0 to `n` - 1, small ones far more often: the cube of an even number.
    pub(crate) fn skewed(&mut self, n: u32) -> u32 {
        let even = self.below(1 << 16);
        u32::try_from((((even * even * even) >> 16) * u64::from(n)) >> 32).unwrap()
    }

    fn some(&mut self, percent: u64, most: u64, n: u32) -> Vec<u32> {
        if !self.percent(percent) {
            return Vec::new();
        }
        self.always(most, n)
    }

    fn always(&mut self, most: u64, n: u32) -> Vec<u32> {
        (0..1 + self.below(most)).map(|_| self.skewed(n)).collect()
    }
}

/// How many keys of each kind the world has. A small world makes more of them meet.
#[derive(Clone, Copy)]
pub(crate) struct World {
    pub(crate) countries: u32,
    pub(crate) segments: u32,
    pub(crate) sites: u32,
    pub(crate) domains: u32,
    pub(crate) categories: u32,
    pub(crate) deals: u32,
    pub(crate) seats: u32,
    pub(crate) bundles: u32,
    /// Bids are multiples of so many micros: a large step makes ties.
    pub(crate) bid_step: i64,
    /// How many of a hundred requests say what few say: durations, floors by the second, languages, bundles.
    pub(crate) rare: u64,
}

pub(crate) const LARGE: World = World {
    countries: 40,
    segments: 3_000,
    sites: 5_000,
    domains: 8_000,
    categories: 400,
    deals: 500,
    seats: 50,
    bundles: 2_000,
    bid_step: 1,
    rare: 3,
};

/// Everything is close together: rare cases become common.
pub(crate) const SMALL: World = World {
    countries: 3,
    segments: 6,
    sites: 4,
    domains: 8,
    categories: 5,
    deals: 4,
    seats: 3,
    bundles: 3,
    bid_step: 500_000,
    rare: 40,
};

const BANNERS: [(u16, u16); 8] =
    [(300, 250), (728, 90), (320, 50), (160, 600), (300, 600), (970, 250), (336, 280), (468, 60)];

pub(crate) fn currency(letters: &str) -> CurrencyCode {
    CurrencyCode::new(letters).unwrap()
}

pub(crate) fn campaigns(count: u64, world: World, seed: u64) -> Vec<Campaign> {
    let mut dice = Dice::new(seed);
    (1..=count).map(|id| campaign(id, world, &mut dice)).collect()
}

fn campaign(id: u64, world: World, dice: &mut Dice) -> Campaign {
    let advertiser = dice.skewed(world.domains);
    let steps = 1 + dice.below(8_000_000 / world.bid_step.unsigned_abs());
    let bid = i64::try_from(steps).unwrap() * world.bid_step;
    let modifiers = dice.some(15, 3, world.segments).into_iter();
    let modifiers = modifiers.map(|segment| Modifier { segment, factor: 5_000 + segment % 10_001 });
    Campaign {
        id,
        bid: Price::from_micros(bid).unwrap(),
        advertiser,
        seat: dice.skewed(world.seats),
        modifiers: modifiers.collect(),
        targeting: targeting(world, dice),
        creatives: (0..1 + dice.below(4))
            .map(|n| creative(id * 8 + n, advertiser, world, dice))
            .collect(),
    }
}

fn targeting(world: World, dice: &mut Dice) -> Targeting {
    let mut targeting = Targeting::default();
    // Regions are keys behind those of countries, twenty a country.
    let geo = match dice.below(100) {
        0..5 => Vec::new(),
        5..85 => vec![dice.skewed(world.countries)],
        85..93 => dice.always(5, world.countries),
        _ => vec![world.countries + dice.skewed(world.countries * 20)],
    };
    targeting.lists_mut(Dimension::Geo).any = geo;
    let parts = [
        // any: percent, at most; none: percent, at most; how many there are
        (Dimension::Supply, 8, 20, 15, 5, world.sites),
        (Dimension::Segments, 45, 6, 10, 3, world.segments),
        (Dimension::Devices, 40, 2, 5, 1, 7),
        (Dimension::Oses, 25, 2, 2, 1, 6),
        (Dimension::Domains, 3, 20, 20, 8, world.domains),
        (Dimension::Categories, 10, 4, 10, 4, world.categories),
        (Dimension::Languages, 10, 2, 0, 1, 12),
    ];
    for (dimension, any, any_most, none, none_most, keys) in parts {
        let lists = targeting.lists_mut(dimension);
        lists.any = dice.some(any, any_most, keys);
        lists.none = dice.some(none, none_most, keys);
    }
    if dice.percent(20) {
        let (from, to) = (6 + dice.below(6), 15 + dice.below(9));
        let hours = (0..168_u32).filter(|hour| (from..to).contains(&u64::from(hour % 24)));
        targeting.lists_mut(Dimension::Quarters).any = hours.collect();
    }
    targeting.segments_all = dice.some(6, 3, world.segments);
    targeting.deals = dice.some(5, 3, world.deals);
    targeting.deals_only = !targeting.deals.is_empty() && dice.percent(50);
    targeting
}

fn creative(id: u64, advertiser: u32, world: World, dice: &mut Dice) -> Creative {
    let (format, sizes) = match dice.below(100) {
        0..70 => (
            Format::Banner,
            (0..1 + dice.below(2)).map(|_| BANNERS[dice.skewed(8) as usize]).collect(),
        ),
        70..88 => (Format::Video, vec![(0, 0)]),
        88..92 => (Format::Audio, vec![(0, 0)]),
        92..95 => (Format::Video, vec![(640, 360)]),
        _ => (Format::Native, vec![(0, 0)]),
    };
    Creative {
        id,
        format,
        sizes,
        domains: vec![advertiser],
        categories: dice.some(90, 2, world.categories),
        attributes: dice.some(20, 2, 12).into_iter().map(|n| u16::try_from(n).unwrap()).collect(),
        secure: dice.percent(95),
        duration_s: if format.plays() { u32::try_from(dice.below(7) * 5).unwrap() } else { 0 },
        bundle: dice.percent(20).then(|| dice.skewed(world.bundles)),
        language: dice.percent(50).then(|| dice.skewed(12)),
    }
}

/// What a [`Request`] borrows.
pub(crate) struct Body {
    pub(crate) id_hash: u64,
    geo: Vec<u32>,
    devices: Vec<u32>,
    oses: Vec<u32>,
    languages: Vec<u32>,
    supply: Vec<u32>,
    domains: Vec<u32>,
    categories: Vec<u32>,
    categories_possible: Vec<u32>,
    segments: Vec<u32>,
    unknown: Vec<Dimension>,
    quarter_of_week: u32,
    at: PriceRule,
    seats_allowed: Vec<u32>,
    seats_blocked: Vec<u32>,
    categories_allowed: Vec<u32>,
    categories_blocked: Vec<u32>,
    advertisers_blocked: Vec<u32>,
    bundles_blocked: Vec<u32>,
    languages_allowed: Vec<u32>,
    impressions: Vec<Place>,
    pub(crate) rules: Rules,
}

struct Place {
    placements: Vec<Placement>,
    floor: Floor,
    secure: bool,
    attributes_blocked: Vec<BlockedAttribute>,
    deals: Vec<Offer>,
    timings: Vec<Limits>,
    private: bool,
    group: u32,
}

struct Limits {
    format: Format,
    min_s: u32,
    max_s: u32,
    exact_s: Vec<u32>,
    floor_per_second_micros: Option<i64>,
    floors: Vec<DurationFloor>,
}

struct Offer {
    id: u32,
    floor: Floor,
    at: Option<PriceRule>,
    seats: Vec<u32>,
    domains: Vec<u32>,
    guaranteed: bool,
    floor_per_second_micros: Option<i64>,
    floors: Vec<DurationFloor>,
}

impl Body {
    pub(crate) fn new(world: World, dice: &mut Dice) -> Body {
        let country = dice.skewed(world.countries);
        let impressions = if dice.percent(85) { 1 } else { 2 + dice.below(3) };
        let rare = |dice: &mut Dice, most, n| dice.some(2, most, n);
        Body {
            id_hash: dice.next(),
            geo: vec![country, world.countries + country * 20 + dice.skewed(20)],
            devices: vec![dice.skewed(7)],
            oses: vec![dice.skewed(6)],
            languages: vec![dice.skewed(12)],
            supply: vec![dice.skewed(world.sites)],
            domains: vec![dice.skewed(world.domains)],
            categories: dice.always(3, world.categories),
            segments: dice.some(80, 20, world.segments),
            categories_possible: dice.some(10, 3, world.categories),
            unknown: if dice.percent(5) { vec![Dimension::Categories] } else { Vec::new() },
            quarter_of_week: u32::try_from(dice.below(168)).unwrap(),
            at: if dice.percent(60) { PriceRule::First } else { PriceRule::SecondPlus },
            seats_allowed: rare(dice, 2, world.seats),
            seats_blocked: rare(dice, 2, world.seats),
            categories_allowed: rare(dice, 4, world.categories),
            categories_blocked: dice.some(70, 6, world.categories),
            advertisers_blocked: dice.some(30, 10, world.domains),
            bundles_blocked: dice.some(world.rare, 3, world.bundles),
            languages_allowed: dice.some(world.rare / 2, 3, 12),
            impressions: (0..impressions).map(|_| Place::new(world, dice)).collect(),
            rules: Rules::default(),
        }
    }

    /// As [`Body::new`], with rules of all kinds.
    pub(crate) fn with_rules(world: World, dice: &mut Dice) -> Body {
        let mut body = Body::new(world, dice);
        body.rules.pricing =
            [Pricing::ByAt, Pricing::First, Pricing::Second][dice.skewed(3) as usize];
        let exclusive = [Exclusive::No, Exclusive::Campaign, Exclusive::Advertiser];
        body.rules.exclusive = exclusive[dice.skewed(3) as usize];
        body.rules.deals_first = dice.percent(50);
        body.rules.rank = if dice.percent(30) { Rank::Value } else { Rank::Bid };
        body.rules.bids_per_impression_max = 1 + dice.skewed(4) as usize;
        body
    }

    /// Lends the request to `ask`.
    pub(crate) fn lend<T>(&self, ask: impl FnOnce(&Request<'_>) -> T) -> T {
        let lists: Vec<(Vec<Deal<'_>>, Vec<Timing<'_>>)> =
            self.impressions.iter().map(|place| (place.deals(), place.timings())).collect();
        let places = self.impressions.iter().zip(&lists);
        let impressions: Vec<Impression<'_>> =
            places.map(|(place, (deals, timings))| place.lend(deals, timings)).collect();
        ask(&Request {
            id_hash: self.id_hash,
            geo: &self.geo,
            devices: &self.devices,
            oses: &self.oses,
            languages: &self.languages,
            supply: &self.supply,
            domains: &self.domains,
            categories: &self.categories,
            categories_possible: &self.categories_possible,
            segments: &self.segments,
            unknown: &self.unknown,
            quarter_of_week: self.quarter_of_week,
            at: self.at,
            currencies: &[],
            conversions: &[],
            seats_allowed: &self.seats_allowed,
            seats_blocked: &self.seats_blocked,
            categories_allowed: &self.categories_allowed,
            categories_blocked: &self.categories_blocked,
            advertisers_blocked: &self.advertisers_blocked,
            bundles_blocked: &self.bundles_blocked,
            languages_allowed: &self.languages_allowed,
            impressions: &impressions,
            rules: self.rules,
        })
    }
}

impl Place {
    fn new(world: World, dice: &mut Dice) -> Place {
        let placement = |format, (width, height)| Placement { format, width, height };
        let mut placements = match dice.below(100) {
            0..75 => vec![placement(Format::Banner, BANNERS[dice.skewed(8) as usize])],
            75..90 => vec![placement(Format::Video, (640, 360))],
            90..94 => vec![placement(Format::Audio, (0, 0))],
            _ => vec![placement(Format::Native, (0, 0))],
        };
        if dice.percent(25) {
            placements.push(placement(Format::Banner, BANNERS[dice.skewed(8) as usize]));
        }
        Place {
            placements,
            floor: floor(world, dice, 3_000_000),
            secure: dice.percent(90),
            attributes_blocked: (0..dice.below(4))
                .map(|_| BlockedAttribute {
                    format: if dice.percent(80) { Format::Banner } else { Format::Video },
                    attribute: u16::try_from(dice.below(12)).unwrap(),
                })
                .collect(),
            deals: (0..dice.below(15).saturating_sub(11))
                .map(|_| Offer::new(world, dice))
                .collect(),
            timings: Limits::all(world, dice),
            private: dice.percent(2),
            group: dice.skewed(3),
        }
    }

    fn timings(&self) -> Vec<Timing<'_>> {
        self.timings.iter().map(Limits::lend).collect()
    }

    fn deals(&self) -> Vec<Deal<'_>> {
        self.deals.iter().map(Offer::lend).collect()
    }

    fn lend<'a>(&'a self, deals: &'a [Deal<'a>], timings: &'a [Timing<'a>]) -> Impression<'a> {
        Impression {
            placements: &self.placements,
            timings,
            floor: self.floor,
            secure: self.secure,
            attributes_blocked: &self.attributes_blocked,
            deals,
            private: self.private,
            group: self.group,
        }
    }
}

impl Offer {
    fn lend(&self) -> Deal<'_> {
        Deal {
            id: self.id,
            floor: self.floor,
            at: self.at,
            seats: &self.seats,
            domains: &self.domains,
            guaranteed: self.guaranteed,
            floor_per_second_micros: self.floor_per_second_micros,
            floors: &self.floors,
        }
    }

    fn new(world: World, dice: &mut Dice) -> Offer {
        let at =
            [None, Some(PriceRule::First), Some(PriceRule::SecondPlus), Some(PriceRule::Fixed)];
        Offer {
            id: dice.skewed(world.deals),
            floor: floor(world, dice, 5_000_000),
            at: at[usize::try_from(dice.below(4)).unwrap()],
            seats: dice.some(20, 2, world.seats),
            domains: dice.some(10, 4, world.domains),
            guaranteed: dice.percent(world.rare / 2),
            floor_per_second_micros: per_second(world, dice),
            floors: ranges(world, dice),
        }
    }
}

impl Limits {
    fn all(world: World, dice: &mut Dice) -> Vec<Limits> {
        let mut limits = Vec::new();
        for format in [Format::Video, Format::Audio] {
            if dice.percent(world.rare) {
                limits.push(Limits::new(format, world, dice));
            }
        }
        limits
    }

    fn new(format: Format, world: World, dice: &mut Dice) -> Limits {
        Limits {
            format,
            min_s: u32::try_from(dice.below(2) * 10).unwrap(),
            max_s: if dice.percent(50) { u32::MAX } else { 25 },
            exact_s: dice.some(20, 3, 7).into_iter().map(|n| n * 5).collect(),
            floor_per_second_micros: per_second(world, dice),
            floors: ranges(world, dice),
        }
    }

    fn lend(&self) -> Timing<'_> {
        let Limits { format, min_s, max_s, floor_per_second_micros, .. } = *self;
        let (exact_s, floors) = (&self.exact_s, &self.floors);
        Timing { format, min_s, max_s, exact_s, pod: None, floor_per_second_micros, floors }
    }
}

fn per_second(world: World, dice: &mut Dice) -> Option<i64> {
    let micros = i64::try_from(dice.below(200_000)).unwrap();
    dice.percent(world.rare / 2).then_some(micros)
}

fn ranges(world: World, dice: &mut Dice) -> Vec<DurationFloor> {
    let count = if dice.percent(world.rare / 2) { dice.below(3) } else { 0 };
    let range = |dice: &mut Dice| {
        let min_s = u32::try_from(dice.below(4) * 5).unwrap();
        let micros = i64::try_from(dice.below(3_000_000)).unwrap();
        DurationFloor { min_s, max_s: min_s + 10, micros }
    };
    (0..count).map(|_| range(dice)).collect()
}

fn floor(world: World, dice: &mut Dice, most: u64) -> Floor {
    let steps = i64::try_from(dice.below(most / world.bid_step.unsigned_abs())).unwrap();
    let letters = if dice.percent(97) { "USD" } else { "EUR" };
    Floor { micros: steps * world.bid_step, currency: currency(letters) }
}
