//! From a bid request in texts to the auction's request in keys.
//!
//! Everything of one request is written into flat lists first and borrowed from there afterwards, so that the lists are
//! used again for the next request: nothing is allocated once they are warm.

use std::ops::Range;

use door_openrtb::{
    Banner, BidRequest, Imp, PersonalData, Privacy, PrivacyTerms, Stream, Texts, Top, domains_above,
};
use gate_auction::{
    Deal, Dictionary, Floor, Format, Impression, Placement, PriceRule, Request, Rules, Space,
    Timing, UNKNOWN,
};
use gate_profile::Profile;
use money::CurrencyCode;
use weir_config::campaign_index::{CATEGORY_TAXONOMY, CampaignIndex};
use weir_config::campaigns::normal;
use weir_config::config::{Config, Pods};

/// Stands for what is no currency: the code for tests, in which nobody bids. A list of nothing else must not become an
/// empty one, which takes every currency.
const NO_CURRENCY: &str = "XTS";

/// What is agreed with the exchange, from the configuration.
#[derive(Clone, Debug)]
pub struct Terms {
    rules: Rules,
    currency: CurrencyCode,
    rates: Vec<gate_auction::Conversion>,
    fee_bp: u16,
    pods: Pods,
    privacy: PrivacyTerms,
}

/// What is known of the user, and which of it may be used.
#[derive(Clone, Copy, Debug)]
pub struct User<'a> {
    /// Empty where ids must not be used.
    pub profile: &'a Profile,
    /// What the request leaves us of its data.
    pub privacy: Privacy,
}

impl Terms {
    /// Those of a configuration.
    #[must_use]
    pub fn new(config: &Config) -> Terms {
        let o = &config.openrtb;
        let rules = Rules {
            pricing: o.pricing,
            exclusive: o.exclusive,
            deals_first: o.deals_first,
            bids_per_impression_max: usize::from(o.bids_per_impression_max),
            ..Rules::default()
        };
        let rates = o.rates.conversions().to_vec();
        let vendor = Some(o.tcf_vendor).filter(|vendor| *vendor > 0);
        let privacy = PrivacyTerms { vendor, ..PrivacyTerms::default() };
        Terms { rules, currency: o.currency, rates, fee_bp: o.fee_bp, pods: o.pods, privacy }
    }

    /// What a request leaves us of its data.
    #[must_use]
    pub fn privacy(&self, top: &Top<'_>) -> Privacy {
        Privacy::of(top, &self.privacy)
    }

    /// A floor that our price meets after the exchange took its fee. Where nothing is asked for, `by_second` neither, no
    /// rate is needed.
    fn floor(&self, floor: door_openrtb::Floor, by_second: bool) -> Floor {
        if floor.micros == 0 && !by_second {
            return Floor { micros: 0, currency: self.currency };
        }
        Floor { micros: self.gross(floor.micros), currency: floor.currency }
    }

    /// A floor with the exchange's fee on top, rounded up.
    fn gross(&self, micros: i64) -> i64 {
        let left = i128::from(10_000 - self.fee_bp.min(9_999));
        let gross = (i128::from(micros) * 10_000 + left - 1) / left;
        i64::try_from(gross).unwrap_or(i64::MAX)
    }
}

/// Work space, one per worker.
#[derive(Debug, Default)]
pub struct Lists {
    keys: Vec<u32>,
    currencies: Vec<CurrencyCode>,
    placements: Vec<Placement>,
    attributes: Vec<u16>,
    imps: Vec<ImpLists>,
    deals: Vec<DealLists>,
    timings: Vec<TimingLists>,
    text: String,
    spare: Spare,
}

/// Vectors of borrowing things, empty between two requests, kept for their memory.
#[derive(Debug, Default)]
struct Spare {
    impressions: Vec<Impression<'static>>,
    deals: Vec<Deal<'static>>,
    timings: Vec<Timing<'static>>,
}

type Part = Range<usize>;

#[derive(Debug)]
struct ImpLists {
    placements: Part,
    attributes: Part,
    deals: Part,
    timings: Part,
    floor: Floor,
    secure: bool,
    private: bool,
    group: u32,
}

#[derive(Debug)]
struct DealLists {
    id: u32,
    floor: Floor,
    floor_per_second_micros: Option<i64>,
    at: Option<PriceRule>,
    guaranteed: bool,
    seats: Part,
    domains: Part,
}

#[derive(Debug)]
struct TimingLists {
    format: Format,
    min_s: u32,
    max_s: u32,
    exact_s: Part,
    floor_per_second_micros: Option<i64>,
}

/// The lists of a request outside its impressions.
struct TopLists {
    geo: Part,
    devices: Part,
    oses: Part,
    languages: Part,
    supply: Part,
    domains: Part,
    categories: Part,
    segments: Part,
    seats_allowed: Part,
    seats_blocked: Part,
    categories_allowed: Part,
    categories_blocked: Part,
    advertisers_blocked: Part,
    bundles_blocked: Part,
    languages_allowed: Part,
}

/// A vector of things of another lifetime, empty, in the memory of `used`.
fn recycle<A, B>(mut used: Vec<A>) -> Vec<B> {
    used.clear();
    // Collected in place: the same layout, so the same memory.
    used.into_iter().map(|_| unreachable!("it is empty")).collect()
}

impl Lists {
    /// Translates a request and hands it to `auction`.
    pub fn with<R>(
        &mut self,
        request: &BidRequest<'_>,
        campaign_index: &CampaignIndex,
        terms: &Terms,
        user: &User<'_>,
        now: money::Instant,
        auction: impl FnOnce(&Request<'_>) -> R,
    ) -> R {
        self.clear();
        let top = self.read_top(request, campaign_index, user);
        for imp in request.imps {
            self.read_imp(request, imp, campaign_index, terms);
        }
        let mut spare = std::mem::take(&mut self.spare);
        let mut deals = recycle(spare.deals);
        deals.extend(self.deals.iter().map(|deal| self.deal(deal)));
        let mut timings = recycle(spare.timings);
        timings.extend(self.timings.iter().map(|timing| self.timing(timing)));
        let mut impressions = recycle(spare.impressions);
        impressions.extend(self.imps.iter().map(|imp| self.impression(imp, &deals, &timings)));
        let keys = |part: &Part| &self.keys[part.clone()];
        let answer = auction(&Request {
            id_hash: id_hash(request.id),
            geo: keys(&top.geo),
            devices: keys(&top.devices),
            oses: keys(&top.oses),
            languages: keys(&top.languages),
            supply: keys(&top.supply),
            domains: keys(&top.domains),
            categories: keys(&top.categories),
            segments: keys(&top.segments),
            quarter_of_week: weir_config::campaign_index::quarter_of_week(now),
            at: at(request.top.auction_type).unwrap_or(PriceRule::SecondPlus),
            currencies: &self.currencies,
            conversions: &terms.rates,
            seats_allowed: keys(&top.seats_allowed),
            seats_blocked: keys(&top.seats_blocked),
            categories_allowed: keys(&top.categories_allowed),
            categories_blocked: keys(&top.categories_blocked),
            advertisers_blocked: keys(&top.advertisers_blocked),
            bundles_blocked: keys(&top.bundles_blocked),
            languages_allowed: keys(&top.languages_allowed),
            impressions: &impressions,
            rules: terms.rules,
        });
        spare.impressions = recycle(impressions);
        spare.timings = recycle(timings);
        spare.deals = recycle(deals);
        self.spare = spare;
        answer
    }

    /// The number of the group that an impression of the last request belongs to.
    pub(crate) fn group(&self, impression: usize) -> Option<u16> {
        let group = self.imps.get(impression)?.group;
        u16::try_from(group).ok().filter(|group| *group != 0)
    }

    fn clear(&mut self) {
        self.keys.clear();
        self.currencies.clear();
        self.placements.clear();
        self.attributes.clear();
        self.imps.clear();
        self.deals.clear();
        self.timings.clear();
    }

    fn read_top(
        &mut self,
        request: &BidRequest<'_>,
        campaign_index: &CampaignIndex,
        user: &User<'_>,
    ) -> TopLists {
        let (top, words) = (&request.top, campaign_index.dictionary());
        let (place, device) = (&top.place, &top.device);
        let currency = |text| currency_of(text).or_else(|| currency_of(NO_CURRENCY));
        self.currencies.extend(top.currencies.iter().filter_map(currency));
        let pages = [
            place.categories,
            place.section_categories,
            place.page_categories,
            place.content_categories,
        ];
        let language = device.language.or(place.content_language);
        let device_type = device.device_type;
        TopLists {
            geo: self.geo(words, device.country, device.region),
            devices: self.part(device_type.into_iter()),
            oses: self.one(device.os, |text| words.key(Space::Os, &normal::os(text))),
            languages: self
                .one(language, |text| words.key(Space::Language, &normal::language(text))),
            supply: self.one(place.id, |text| words.key(Space::Supply, text)),
            domains: self.places(words, place),
            categories: self.pages(words, pages),
            segments: self.segments(campaign_index, request, user),
            seats_allowed: self.texts(top.seats_allowed, |text| words.key(Space::Seat, text)),
            seats_blocked: self.texts(top.seats_blocked, |text| words.key(Space::Seat, text)),
            categories_allowed: self.families(words, top.categories_allowed, true),
            categories_blocked: self.blocked_categories(campaign_index, request),
            advertisers_blocked: self.advertisers(campaign_index, top.advertisers_blocked, false),
            bundles_blocked: self.texts(top.apps_blocked, |text| words.key(Space::Bundle, text)),
            languages_allowed: self.allowed_languages(words, request),
        }
    }

    fn part(&mut self, keys: impl Iterator<Item = u32>) -> Part {
        let from = self.keys.len();
        self.keys.extend(keys);
        from..self.keys.len()
    }

    fn one(&mut self, text: Option<&str>, key: impl Fn(&str) -> u32) -> Part {
        self.part(text.into_iter().map(key))
    }

    fn texts(&mut self, texts: Texts<'_>, key: impl Fn(&str) -> u32) -> Part {
        self.part(texts.iter().map(key))
    }

    /// The country, and the region with it.
    fn geo(&mut self, words: &Dictionary, country: Option<&str>, region: Option<&str>) -> Part {
        let from = self.keys.len();
        if let Some(country) = country {
            self.keys.push(words.key(Space::Geo, &normal::country(country)));
            if let Some(region) = region {
                let text = normal::region(country, region, &mut self.text);
                self.keys.push(words.key(Space::Geo, text));
            }
        }
        from..self.keys.len()
    }

    /// The domain of a page with all domains above it, the bundle of an app.
    fn places(&mut self, words: &Dictionary, place: &door_openrtb::Place<'_>) -> Part {
        let from = self.keys.len();
        if let Some(domain) = place.domain.or(place.publisher_domain) {
            let domain = normal::domain(domain);
            let keys = domains_above(&domain).map(|text| words.key(Space::Domain, text));
            self.keys.extend(keys.filter(|key| *key != UNKNOWN));
        }
        self.keys.extend(place.bundle.map(|text| words.key(Space::Domain, text)));
        from..self.keys.len()
    }

    /// Categories of the content, each with the one above it: who wants `IAB17` takes a page of `IAB17-12`.
    fn pages(&mut self, words: &Dictionary, lists: [Texts<'_>; 4]) -> Part {
        let from = self.keys.len();
        for text in lists.into_iter().flat_map(Texts::iter) {
            let text = normal::category(text);
            self.keys.push(words.key(Space::Category, &text));
            if let Some((parent, _)) = text.split_once('-') {
                self.keys.push(words.key(Space::Category, parent));
            }
        }
        from..self.keys.len()
    }

    /// Segments that the request tells, where they may be used, and those that we know.
    fn segments(
        &mut self,
        campaign_index: &CampaignIndex,
        request: &BidRequest<'_>,
        user: &User<'_>,
    ) -> Part {
        let User { profile, privacy } = user;
        let told = privacy.permits(PersonalData::Segments).then_some(request.top.user.segments);
        let told = told.into_iter().flat_map(|segments| segments.iter());
        let told = told.map(|segment| campaign_index.dictionary().key(Space::Segment, segment.id));
        let known = profile.segments().iter().map(|segment| campaign_index.segment(*segment));
        // Those that no campaign mentions match nothing; there are many of them.
        self.part(told.chain(known).filter(|key| *key != UNKNOWN))
    }

    /// Categories with all below them. An allowlist of strangers stays a list.
    fn families(&mut self, words: &Dictionary, texts: Texts<'_>, allowed: bool) -> Part {
        let from = self.keys.len();
        for text in texts.iter() {
            let family = words.family(&normal::category(text));
            self.keys.extend_from_slice(family);
            if allowed && family.is_empty() {
                self.keys.push(UNKNOWN);
            }
        }
        from..self.keys.len()
    }

    /// Where the lists are of a taxonomy that is not ours, whatever has a category may be meant.
    fn blocked_categories(
        &mut self,
        campaign_index: &CampaignIndex,
        request: &BidRequest<'_>,
    ) -> Part {
        let top = &request.top;
        let (allowed, blocked) = (top.categories_allowed, top.categories_blocked);
        let is_ours = top.category_taxonomy.unwrap_or(CATEGORY_TAXONOMY) == CATEGORY_TAXONOMY;
        if is_ours || (allowed.is_empty() && blocked.is_empty()) {
            return self.families(campaign_index.dictionary(), blocked, false);
        }
        self.part(campaign_index.categories().iter().copied())
    }

    /// Advertisers with all below them: who blocks `brand.example` blocks `shop.brand.example`.
    fn advertisers(
        &mut self,
        campaign_index: &CampaignIndex,
        texts: Texts<'_>,
        allowed: bool,
    ) -> Part {
        let from = self.keys.len();
        for text in texts.iter() {
            let family = campaign_index.advertisers(&normal::domain(text));
            self.keys.extend_from_slice(family);
            if allowed && family.is_empty() {
                self.keys.push(UNKNOWN);
            }
        }
        from..self.keys.len()
    }

    fn allowed_languages(&mut self, words: &Dictionary, request: &BidRequest<'_>) -> Part {
        let both = [request.top.languages_allowed, request.top.languages_allowed_bcp47];
        let texts = both.into_iter().flat_map(Texts::iter);
        let from = self.keys.len();
        self.keys.extend(texts.map(|text| words.key(Space::Language, &normal::language(text))));
        from..self.keys.len()
    }

    fn read_imp(
        &mut self,
        request: &BidRequest<'_>,
        imp: &Imp<'_>,
        campaign_index: &CampaignIndex,
        terms: &Terms,
    ) {
        let lists = ImpLists {
            placements: self.read_placements(request, imp),
            attributes: self.read_attributes(imp),
            deals: self.read_deals(request, imp, campaign_index, terms),
            timings: self.read_timings(imp, terms),
            floor: terms.floor(floor_of(imp), has_floor_by_second(imp)),
            secure: imp.secure,
            private: imp.private_auction,
            group: if terms.pods == Pods::Together { group(request, imp) } else { 0 },
        };
        self.imps.push(lists);
    }

    /// None where another impression has the same id: a bid for one could be taken for the other.
    fn read_placements(&mut self, request: &BidRequest<'_>, imp: &Imp<'_>) -> Part {
        let from = self.placements.len();
        if request.imps.iter().filter(|other| other.id == imp.id).count() > 1 {
            return from..from;
        }
        if let Some(banner) = &imp.banner {
            self.read_banner(request, banner);
        }
        for (format, stream) in [(Format::Video, &imp.video), (Format::Audio, &imp.audio)] {
            if let Some(stream) = stream {
                self.placements.push(placement(format, stream.width, stream.height));
            }
        }
        if imp.native.is_some() {
            self.placements.push(placement(Format::Native, None, None));
        }
        from..self.placements.len()
    }

    /// Every size that it takes. One that names none takes any; sizes of 0, and shapes without a size, none of ours.
    fn read_banner(&mut self, request: &BidRequest<'_>, banner: &Banner<'_>) {
        let formats = request.formats(banner);
        let of_banner = (banner.width, banner.height);
        if formats.is_empty() && (of_banner.0.is_none() || of_banner.1.is_none()) {
            self.placements.push(placement(Format::Banner, None, None));
            return;
        }
        let sizes = formats.iter().map(|format| (format.width, format.height));
        let is_size = |size: &(Option<u32>, Option<u32>)| {
            size.0.is_some_and(|width| width > 0) && size.1.is_some_and(|height| height > 0)
        };
        let before = self.placements.len();
        let add = |(width, height)| placement(Format::Banner, width, height);
        self.placements.extend(sizes.filter(is_size).map(add));
        if self.placements.len() == before && is_size(&of_banner) {
            self.placements.push(add(of_banner));
        }
    }

    /// What is blocked for one format of an impression is blocked for the impression.
    fn read_attributes(&mut self, imp: &Imp<'_>) -> Part {
        let from = self.attributes.len();
        let lists = [
            imp.banner.map(|banner| banner.attributes_blocked),
            imp.video.map(|video| video.attributes_blocked),
            imp.audio.map(|audio| audio.attributes_blocked),
            imp.native.map(|native| native.attributes_blocked),
        ];
        let numbers = lists.into_iter().flatten().flat_map(|list| list.iter());
        self.attributes.extend(numbers.filter_map(|number| u16::try_from(number).ok()));
        from..self.attributes.len()
    }

    fn read_deals(
        &mut self,
        request: &BidRequest<'_>,
        imp: &Imp<'_>,
        campaign_index: &CampaignIndex,
        terms: &Terms,
    ) -> Part {
        let (from, words) = (self.deals.len(), campaign_index.dictionary());
        for deal in request.deals(imp) {
            let timed = highest_range(deal.timed_floors);
            let micros = deal.floor.micros.max(timed.unwrap_or(0));
            let by_second = deal.timed_floors.per_second_micros.map(|micros| terms.gross(micros));
            let lists = DealLists {
                id: words.key(Space::Deal, deal.id),
                floor: terms
                    .floor(door_openrtb::Floor { micros, ..deal.floor }, by_second.is_some()),
                floor_per_second_micros: by_second,
                at: at(deal.auction_type),
                guaranteed: deal.guaranteed,
                seats: self.texts(deal.seats_allowed, |text| words.key(Space::Seat, text)),
                domains: self.advertisers(campaign_index, deal.advertisers_allowed, true),
            };
            self.deals.push(lists);
        }
        from..self.deals.len()
    }

    fn read_timings(&mut self, imp: &Imp<'_>, terms: &Terms) -> Part {
        let from = self.timings.len();
        for (format, stream) in [(Format::Video, &imp.video), (Format::Audio, &imp.audio)] {
            if let Some(stream) = stream {
                let (exact, floors) = (stream.durations_s.iter(), stream.timed_floors);
                let by_second = floors.per_second_micros.map(|micros| terms.gross(micros));
                let timing = TimingLists {
                    format,
                    min_s: stream.duration_min_s.unwrap_or(0),
                    max_s: stream.duration_max_s.unwrap_or(u32::MAX),
                    exact_s: self.part(exact.filter_map(|seconds| u32::try_from(seconds).ok())),
                    floor_per_second_micros: by_second,
                };
                self.timings.push(timing);
            }
        }
        from..self.timings.len()
    }

    fn deal<'a>(&'a self, deal: &DealLists) -> Deal<'a> {
        Deal {
            id: deal.id,
            floor: deal.floor,
            floor_per_second_micros: deal.floor_per_second_micros,
            at: deal.at,
            guaranteed: deal.guaranteed,
            seats: &self.keys[deal.seats.clone()],
            domains: &self.keys[deal.domains.clone()],
        }
    }

    fn timing<'a>(&'a self, timing: &TimingLists) -> Timing<'a> {
        Timing {
            format: timing.format,
            min_s: timing.min_s,
            max_s: timing.max_s,
            exact_s: &self.keys[timing.exact_s.clone()],
            floor_per_second_micros: timing.floor_per_second_micros,
        }
    }

    fn impression<'a>(
        &'a self,
        imp: &ImpLists,
        deals: &'a [Deal<'a>],
        timings: &'a [Timing<'a>],
    ) -> Impression<'a> {
        Impression {
            placements: &self.placements[imp.placements.clone()],
            floor: imp.floor,
            secure: imp.secure,
            attributes_blocked: &self.attributes[imp.attributes.clone()],
            deals: &deals[imp.deals.clone()],
            timings: &timings[imp.timings.clone()],
            private: imp.private,
            group: imp.group,
        }
    }
}

/// In any case of letters.
fn currency_of(text: &str) -> Option<CurrencyCode> {
    let mut letters: [u8; 3] = text.as_bytes().try_into().ok()?;
    letters.make_ascii_uppercase();
    CurrencyCode::new(std::str::from_utf8(&letters).ok()?)
}

/// Breaks ties and tosses coins.
pub(crate) fn id_hash(id: &str) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for chunk in id.as_bytes().chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = (hash.rotate_left(5) ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    hash ^ hash >> 32
}

fn at(number: Option<u32>) -> Option<PriceRule> {
    number.map(|number| match number {
        1 => PriceRule::First,
        3 => PriceRule::Fixed,
        _ => PriceRule::SecondPlus,
    })
}

fn placement(format: Format, width: Option<u32>, height: Option<u32>) -> Placement {
    let pixels = |size: Option<u32>| u16::try_from(size.unwrap_or(0)).unwrap_or(u16::MAX);
    match (pixels(width), pixels(height)) {
        (0, _) | (_, 0) => Placement { format, width: 0, height: 0 },
        (width, height) => Placement { format, width, height },
    }
}

/// Floors of ranges of durations count with the highest of them: no bid is ever too low, some are not made.
fn highest_range(floors: door_openrtb::TimedFloors<'_>) -> Option<i64> {
    floors.ranges().map(|range| range.floor_micros).max()
}

fn floor_of(imp: &Imp<'_>) -> door_openrtb::Floor {
    let timed = |stream: &Option<Stream<'_>>| stream.and_then(|s| highest_range(s.timed_floors));
    let highest = timed(&imp.video).max(timed(&imp.audio)).unwrap_or(0);
    door_openrtb::Floor { micros: imp.floor.micros.max(highest), ..imp.floor }
}

fn has_floor_by_second(imp: &Imp<'_>) -> bool {
    let streams = [&imp.video, &imp.audio].into_iter().flatten();
    streams.into_iter().any(|stream| stream.timed_floors.per_second_micros.is_some())
}

/// Impressions of one pod have one number: the position of the first of them, from 1. 0 is no pod.
fn group(request: &BidRequest<'_>, imp: &Imp<'_>) -> u32 {
    let Some(pod) = pod_of(imp) else { return 0 };
    let mut members = (1..).zip(request.imps).filter(|(_, other)| pod_of(other) == Some(pod));
    let first = members.next().map_or(0, |(at, _)| at);
    if members.next().is_some() { first } else { 0 }
}

fn pod_of<'t>(imp: &Imp<'t>) -> Option<&'t str> {
    [&imp.video, &imp.audio].into_iter().flatten().find_map(|stream| stream.pod_id)
}
