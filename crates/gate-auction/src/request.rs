//! What a door hands in: borrowed lists of keys.

use money::CurrencyCode;

use crate::price::{Conversion, Floor, Price, PriceRule, Pricing, Rank};

/// What a creative is, with the numbers of OpenRTB's `mtype`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Format {
    /// A picture or HTML.
    Banner = 1,
    /// A film.
    Video = 2,
    /// Sound.
    Audio = 3,
    /// Parts that the publisher puts together.
    Native = 4,
}

impl Format {
    /// Does it play for a while?
    #[must_use]
    pub fn plays(self) -> bool {
        matches!(self, Format::Video | Format::Audio)
    }
}

/// A format with a size. 0 x 0 stands for any size: in a request "say what you have", in a creative "fits all".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// What it takes.
    pub format: Format,
    /// Pixels.
    pub width: u16,
    /// Pixels.
    pub height: u16,
}

impl Placement {
    /// Does a creative of this format and size fit?
    #[must_use]
    pub fn takes(&self, format: Format, size: (u16, u16)) -> bool {
        let own = (self.width, self.height);
        self.format == format && (own == size || own == (0, 0) || size == (0, 0))
    }
}

/// A deal that an impression offers.
#[derive(Clone, Copy, Debug)]
pub struct Deal<'a> {
    /// Which.
    pub id: u32,
    /// Replaces the impression's floor.
    pub floor: Floor,
    /// Replaces the request's `at`.
    pub at: Option<PriceRule>,
    /// Seats that may use it; empty: all.
    pub seats: &'a [u32],
    /// Domains of advertisers that may use it; empty: all.
    pub domains: &'a [u32],
    /// The bidder is expected to bid with it: goes before everything else.
    pub guaranteed: bool,
    /// For each second that a video or audio plays, in micros of the floor's currency; the largest of this, `floors` and
    /// `floor` holds. OpenRTB's `mincpmpersec`.
    pub floor_per_second_micros: Option<i64>,
    /// By how long a video or audio plays, in the floor's currency. OpenRTB's `durfloors`.
    pub floors: &'a [DurationFloor],
}

/// The floor of what plays for so long, OpenRTB's `durfloors`. Of several that fit the highest counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DurationFloor {
    /// At least so many seconds.
    pub min_s: u32,
    /// At most so many seconds.
    pub max_s: u32,
    /// Micros of the currency of the floor that it belongs to.
    pub micros: i64,
}

/// The floor of what plays for `duration_s` seconds, in micros: the higher of that by the second and that of its range.
/// `None` where these say nothing of it. Of an unknown duration (0) the highest range counts.
pub(crate) fn timed_floor(
    per_second_micros: Option<i64>,
    floors: &[DurationFloor],
    duration_s: u32,
) -> Option<i64> {
    let by_second = per_second_micros.map(|micros| micros.saturating_mul(i64::from(duration_s)));
    let fits = |floor: &&DurationFloor| {
        duration_s == 0 || (floor.min_s..=floor.max_s).contains(&duration_s)
    };
    by_second.max(floors.iter().filter(fits).map(|floor| floor.micros).max())
}

/// A dynamic pod: an impression that several ads fill one after the other, each of another campaign and advertiser. The
/// best is chosen first, then the best of those for which time is left. A survey looks at its first ad only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Seconds that all of them may play together, OpenRTB's `poddur`.
    pub duration_s: u32,
    /// How many there may be, OpenRTB's `maxseq`.
    pub ads_max: u32,
}

/// What an impression says about how long a format may play.
#[derive(Clone, Copy, Debug)]
pub struct Timing<'a> {
    /// Of this format; only video and audio play.
    pub format: Format,
    /// At least so many seconds.
    pub min_s: u32,
    /// At most so many seconds; `u32::MAX`: no matter.
    pub max_s: u32,
    /// Exactly one of these, OpenRTB's `rqddurs`; empty: no matter.
    pub exact_s: &'a [u32],
    /// It is a dynamic pod: what is said here holds for each of its ads.
    pub pod: Option<Pod>,
    /// For each second, in micros of the impression's floor's currency: replaces the impression's floor for bids without
    /// a deal. OpenRTB's `mincpmpersec`.
    pub floor_per_second_micros: Option<i64>,
    /// By how long it plays, in the same currency: replaces the impression's floor where a range fits. Beside
    /// `floor_per_second_micros` the higher one counts.
    pub floors: &'a [DurationFloor],
}

impl Timing<'_> {
    /// May a creative play so long? Where something is demanded a creative of unknown length (0) cannot show it.
    #[must_use]
    pub fn admits(&self, duration_s: u32) -> bool {
        let free = self.min_s == 0 && self.max_s == u32::MAX && self.exact_s.is_empty();
        let is_in = |pod: Pod| pod.ads_max > 0 && (1..=pod.duration_s).contains(&duration_s);
        if self.pod.is_some_and(|pod| !is_in(pod)) {
            return false;
        }
        if duration_s == 0 {
            return free && self.floor_per_second_micros.is_none();
        }
        let exact = self.exact_s.is_empty() || self.exact_s.contains(&duration_s);
        (self.min_s..=self.max_s).contains(&duration_s) && exact
    }
}

/// An attribute that a creative of this format must not have, OpenRTB's `battr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockedAttribute {
    /// Of these creatives.
    pub format: Format,
    /// The attribute.
    pub attribute: u16,
}

/// A place for one creative.
#[derive(Clone, Copy, Debug)]
pub struct Impression<'a> {
    /// Any of these.
    pub placements: &'a [Placement],
    /// How long a creative may play, at most one a format.
    pub timings: &'a [Timing<'a>],
    /// Of bids without a deal.
    pub floor: Floor,
    /// Only creatives that load everything by HTTPS.
    pub secure: bool,
    /// What a creative must not have.
    pub attributes_blocked: &'a [BlockedAttribute],
    /// Deals offered here, the preferred one first.
    pub deals: &'a [Deal<'a>],
    /// Only bids with a deal.
    pub private: bool,
    /// Impressions with the same number are filled all or not at all; 0 stands alone.
    pub group: u32,
}

/// Whether what one impression got excludes another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exclusive {
    /// No.
    #[default]
    No,
    /// A campaign gets at most one impression of a request.
    Campaign,
    /// An advertiser gets at most one impression of a request.
    Advertiser,
}

/// What is agreed with an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Which price is sent.
    pub pricing: Pricing,
    /// The lowest price that is worth sending; exchanges drop a bid of 0. A floor below it counts as this.
    pub price_min: Price,
    /// Between the impressions of a request.
    pub exclusive: Exclusive,
    /// In which order offers of the same class go.
    pub rank: Rank,
    /// A bid with a deal goes before all without one, whatever the prices. Otherwise they compete by price. Guaranteed
    /// deals go before all others either way.
    pub deals_first: bool,
    /// The number of bids that are sent for one impression, each of another campaign. Exchanges that run deals beside an open
    /// auction want several.
    pub bids_per_impression_max: usize,
    /// The ads of dynamic pods beyond the first of each, over all of a request: for each every campaign is looked at anew.
    pub further_ads_max: usize,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            pricing: Pricing::First,
            price_min: Price::STEP,
            exclusive: Exclusive::No,
            rank: Rank::Bid,
            deals_first: true,
            bids_per_impression_max: 1,
            further_ads_max: usize::MAX,
        }
    }
}

/// A bid request, strings turned to keys. What the request does not say is an empty list.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Hash of the request's id: breaks ties.
    pub id_hash: u64,
    /// Country, region.
    pub geo: &'a [u32],
    /// Device type, OpenRTB's number.
    pub devices: &'a [u32],
    /// Operating system.
    pub oses: &'a [u32],
    /// Languages of device or content.
    pub languages: &'a [u32],
    /// Site or app.
    pub supply: &'a [u32],
    /// Domain of the page, bundle of the app.
    pub domains: &'a [u32],
    /// Categories of page or app.
    pub categories: &'a [u32],
    /// Categories that it may be as well, as far as is known: who wants none of these does not take part.
    pub categories_possible: &'a [u32],
    /// Segments of the user.
    pub segments: &'a [u32],
    /// Dimensions of which it is not known what the request is: who wants none of something there does not take part.
    pub unknown: &'a [Dimension],
    /// Quarter of an hour of the week in UTC, 0 to 671; beyond that only campaigns without hours take part.
    pub quarter_of_week: u32,
    /// The request's `at`.
    pub at: PriceRule,
    /// Currencies that the exchange takes; empty: all.
    pub currencies: &'a [CurrencyCode],
    /// For floors in other currencies.
    pub conversions: &'a [Conversion],
    /// Seats that may bid; empty: all.
    pub seats_allowed: &'a [u32],
    /// Seats that may not bid.
    pub seats_blocked: &'a [u32],
    /// The only categories that a creative may have; empty: all.
    pub categories_allowed: &'a [u32],
    /// Categories that a creative must not have.
    pub categories_blocked: &'a [u32],
    /// Domains that an advertiser must not have.
    pub advertisers_blocked: &'a [u32],
    /// Apps that must not be advertised, OpenRTB's `bapp`.
    pub bundles_blocked: &'a [u32],
    /// The only languages that a creative may have, if it says one; empty: all.
    pub languages_allowed: &'a [u32],
    /// The places.
    pub impressions: &'a [Impression<'a>],
    /// Agreed with the exchange.
    pub rules: Rules,
}

/// What campaigns are asked about a request, each answered by lists of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Dimension {
    /// Countries and regions.
    Geo,
    /// Sites and apps.
    Supply,
    /// Segments.
    Segments,
    /// Device types.
    Devices,
    /// Operating systems.
    Oses,
    /// Domains of publishers.
    Domains,
    /// Categories of content.
    Categories,
    /// Languages.
    Languages,
    /// Quarters of an hour of the week.
    Quarters,
}

impl Dimension {
    /// All of them.
    pub const ALL: [Dimension; 9] = [
        Dimension::Geo,
        Dimension::Supply,
        Dimension::Segments,
        Dimension::Devices,
        Dimension::Oses,
        Dimension::Domains,
        Dimension::Categories,
        Dimension::Languages,
        Dimension::Quarters,
    ];
}

impl Request<'_> {
    /// The request's keys of a dimension.
    #[inline]
    #[must_use]
    pub fn keys(&self, dimension: Dimension) -> &[u32] {
        match dimension {
            Dimension::Geo => self.geo,
            Dimension::Supply => self.supply,
            Dimension::Segments => self.segments,
            Dimension::Devices => self.devices,
            Dimension::Oses => self.oses,
            Dimension::Domains => self.domains,
            Dimension::Categories => self.categories,
            Dimension::Languages => self.languages,
            Dimension::Quarters => std::slice::from_ref(&self.quarter_of_week),
        }
    }
}
