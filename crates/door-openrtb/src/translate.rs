//! From a bid request in texts to the auction's request in keys.
//!
//! Everything of one request is written into flat lists first and borrowed from there afterwards, so that the lists are
//! used again for the next request: nothing is allocated once they are warm. `imps` has the impressions.

#[path = "translate/imps.rs"]
mod imps;

use std::fmt::Write as _;
use std::ops::Range;

use gate_auction::{
    BlockedAttribute, Deal, Dictionary, Dimension, DurationFloor, Floor, Format, Impression,
    Placement, Pod, PriceRule, Request, Rules, Space, Timing, UNKNOWN,
};
use gate_profile::Profile;
use money::CurrencyCode;
use openrtb::{
    BidRequest, CategoryList, FirstCategory, PersonalData, PlaceKind, Privacy, PrivacyTerms, Texts,
    Top, domains_above, first_categories, is_mapped, unsaid,
};
use weir_budgets::campaign_index::{CATEGORY_TAXONOMY, CampaignIndex, PinnedRate};
use weir_budgets::campaigns::normal;
use weir_config::config::{Config, Pods, sections};

use super::currency::BidCurrency;

/// Stands for what is no currency: the code for tests, in which nobody bids. A list of nothing else must not become an
/// empty one, which takes every currency.
const NO_CURRENCY: &str = "XTS";

/// Ads of dynamic pods beyond the first of each, in one request. Each looks at every campaign that the index lets through, which takes
/// about a millisecond among 50,000.
const FURTHER_ADS_MAX: usize = 64;

/// A domain that so many advertisers are below, as of `com`, is remembered, to be read once a list.
const FAMILY_LARGE: usize = 16;

/// What is agreed with the exchange, from the configuration.
#[derive(Clone, Debug)]
pub struct Terms {
    rules: Rules,
    /// The auction's.
    own: CurrencyCode,
    /// That of bids, wherever it is taken.
    currency: BidCurrency,
    rates: Vec<gate_auction::Conversion>,
    fee_bp: u16,
    pods: Pods,
    privacy: PrivacyTerms,
    /// Ours at the exchange; empty: the campaigns'.
    seat: String,
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
    /// Those of a configuration's first exchange.
    #[must_use]
    pub fn new(config: &Config) -> Terms {
        Terms::of(&config.openrtb, &config.openrtb, "")
    }

    /// Those of an exchange, with its seat; `section` has the currency of the auction.
    #[must_use]
    pub(crate) fn of(section: &sections::openrtb, o: &sections::openrtb, seat: &str) -> Terms {
        let rules = Rules {
            pricing: o.pricing,
            exclusive: o.exclusive,
            rank: o.rank,
            deals_first: o.deals_first,
            bids_per_impression_max: usize::from(o.bids_per_impression_max),
            further_ads_max: FURTHER_ADS_MAX,
            ..Rules::default()
        };
        let rates = o.rates.conversions().to_vec();
        let vendor = Some(o.tcf_vendor).filter(|vendor| *vendor > 0);
        let privacy = PrivacyTerms {
            vendor,
            purposes_of_ids: o.tcf_purposes_ids,
            purposes_of_segments: o.tcf_purposes_segments,
        };
        let (own, fee_bp, pods, seat) = (section.currency, o.fee_bp, o.pods, seat.to_owned());
        let mut terms = Terms {
            rules,
            own,
            currency: BidCurrency::own(own),
            rates,
            fee_bp,
            pods,
            privacy,
            seat,
        };
        terms.currency = terms.in_currency(o.currency).unwrap_or(terms.currency);
        terms
    }

    /// The seat of bids, in place of their campaigns'.
    pub(crate) fn seat(&self) -> Option<&str> {
        Some(&*self.seat).filter(|seat| !seat.is_empty())
    }

    /// May our seat bid where these may, and these may not?
    fn seat_may_bid(&self, seat: &str, allowed: Texts<'_>, blocked: Texts<'_>) -> bool {
        (allowed.is_empty() || allowed.contains(seat)) && !blocked.contains(seat)
    }

    /// Bids in a currency; `None` without a rate.
    fn in_currency(&self, code: CurrencyCode) -> Option<BidCurrency> {
        if code == self.own {
            return Some(BidCurrency::own(code));
        }
        let rate = self.rates.iter().find(|rate| rate.from == code)?;
        let rate = u32::try_from(rate.micros_per_unit).ok().and_then(PinnedRate::from_micros)?;
        Some(BidCurrency::other(code, rate))
    }

    /// What a request leaves us of its data.
    #[must_use]
    pub fn privacy(&self, top: &Top<'_>) -> Privacy {
        Privacy::of(top, &self.privacy)
    }

    /// What the bids of a request are in: the exchange's currency where `cur` takes it, else the first of `cur` that is ours or has a rate.
    /// `None` where there is none.
    #[inline]
    pub(crate) fn bid_currency(&self, top: &Top<'_>) -> Option<BidCurrency> {
        let mut accepted = top.currencies.iter().filter_map(currency_of);
        if top.currencies.is_empty() || accepted.any(|one| one == self.currency.code()) {
            return Some(self.currency);
        }
        top.currencies.iter().filter_map(currency_of).find_map(|code| self.in_currency(code))
    }

    /// A floor that our price meets after the exchange took its fee. Where nothing is asked for, `by_second` neither, no
    /// rate is needed.
    fn floor(&self, floor: openrtb::Floor, by_second: bool) -> Floor {
        if floor.micros == 0 && !by_second {
            return Floor { micros: 0, currency: self.own };
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
    attributes: Vec<BlockedAttribute>,
    floors: Vec<DurationFloor>,
    unknown: Vec<Dimension>,
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

/// The lists of a request outside its impressions.
struct TopLists {
    geo: Part,
    devices: Part,
    oses: Part,
    languages: Part,
    supply: Part,
    domains: Part,
    categories: Part,
    categories_possible: Part,
    segments: Part,
    seats_allowed: Part,
    seats_blocked: Part,
    categories_allowed: Part,
    categories_blocked: Part,
    advertisers_blocked: Part,
    bundles_blocked: Part,
    languages_allowed: Part,
}

/// Of one impression.
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

/// Of one deal.
#[derive(Debug)]
struct DealLists {
    id: u32,
    floor: Floor,
    floor_per_second_micros: Option<i64>,
    floors: Part,
    at: Option<PriceRule>,
    guaranteed: bool,
    seats: Part,
    domains: Part,
}

/// Of one format of an impression that plays.
#[derive(Debug)]
struct TimingLists {
    format: Format,
    min_s: u32,
    max_s: u32,
    exact_s: Part,
    pod: Option<Pod>,
    floor_per_second_micros: Option<i64>,
    floors: Part,
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
        let top = self.read_top(request, campaign_index, terms, user);
        // Where bids can be in one of them, the auction is in ours.
        if terms.bid_currency(&request.top).is_none() {
            let currency = |text| currency_of(text).or_else(|| currency_of(NO_CURRENCY));
            self.currencies.extend(request.top.currencies.iter().filter_map(currency));
        }
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
            categories_possible: keys(&top.categories_possible),
            segments: keys(&top.segments),
            unknown: &self.unknown,
            quarter_of_week: weir_budgets::campaign_index::quarter_of_week(now),
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
        self.floors.clear();
        self.unknown.clear();
        self.imps.clear();
        self.deals.clear();
        self.timings.clear();
    }

    fn read_top(
        &mut self,
        request: &BidRequest<'_>,
        campaign_index: &CampaignIndex,
        terms: &Terms,
        user: &User<'_>,
    ) -> TopLists {
        let (top, words) = (&request.top, campaign_index.dictionary());
        let (place, device) = (&top.place, &top.device);
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
            categories: self.pages(words, place),
            categories_possible: self.possible_pages(words, place),
            segments: self.segments(campaign_index, request, user),
            seats_allowed: self.seats(words, terms, top.seats_allowed, top.seats_blocked),
            seats_blocked: match terms.seat() {
                None => self.texts(top.seats_blocked, |text| words.key(Space::Seat, text)),
                Some(_) => self.part(std::iter::empty()),
            },
            categories_allowed: self.allowed_categories(campaign_index, request),
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

    /// The seats that may bid. With one seat for all bids, that one decides for all campaigns: all may bid, or none.
    fn seats(
        &mut self,
        words: &Dictionary,
        terms: &Terms,
        allowed: Texts<'_>,
        blocked: Texts<'_>,
    ) -> Part {
        match terms.seat() {
            None => self.texts(allowed, |text| words.key(Space::Seat, text)),
            Some(seat) if terms.seat_may_bid(seat, allowed, blocked) => {
                self.part(std::iter::empty())
            }
            Some(_) => self.part(std::iter::once(UNKNOWN)),
        }
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

    /// The domain of a page with all domains above it, the bundle of an app. Of a place that says neither it is unknown
    /// which it is, but for screens, which have none.
    fn places(&mut self, words: &Dictionary, place: &openrtb::Place<'_>) -> Part {
        let from = self.keys.len();
        let domain = place.domain.or(place.publisher_domain);
        if let Some(domain) = domain {
            let domain = normal::domain(domain);
            let keys = domains_above(&domain).map(|text| words.key(Space::Domain, text));
            self.keys.extend(keys.filter(|key| *key != UNKNOWN));
        }
        self.keys.extend(place.bundle.map(|text| words.key(Space::Domain, text)));
        let is_said = domain.is_some() || place.bundle.is_some();
        if !is_said && place.kind != PlaceKind::Dooh {
            self.unknown.push(Dimension::Domains);
        }
        from..self.keys.len()
    }

    /// Categories of the page and its content, each with the one above it: who wants `IAB17` takes a page of `IAB17-12`.
    /// Of a taxonomy that can be compared with the campaigns' they are what each is there; of another one, or where one is in
    /// no table, the page's are unknown.
    fn pages(&mut self, words: &Dictionary, place: &openrtb::Place<'_>) -> Part {
        let from = self.keys.len();
        let mut is_known = true;
        for (list, taxonomy) in place.category_lists() {
            let is_first = taxonomy.is_none_or(|one| one == CATEGORY_TAXONOMY);
            is_known &= is_first || is_mapped(taxonomy) || list.is_empty();
            for text in list.iter().filter(|_| is_first) {
                let text = normal::category(text);
                self.keys.push(words.key(Space::Category, &text));
                if let Some((parent, _)) = text.split_once('-') {
                    self.keys.push(words.key(Space::Category, parent));
                }
            }
            for text in list.iter().filter(|_| is_mapped(taxonomy)) {
                is_known &= self.mapped_page(words, text);
            }
        }
        if !is_known {
            self.unknown.push(Dimension::Categories);
        }
        from..self.keys.len()
    }

    /// What a category of another taxonomy surely is in the campaigns': the only one that it may be, or what all of those
    /// have in common. Is it in a table?
    fn mapped_page(&mut self, words: &Dictionary, name: &str) -> bool {
        let may_be = || first_categories(name.trim());
        let Some(first) = may_be().next() else { return false };
        let is_one = may_be().nth(1).is_none();
        let wholes = || may_be().filter(|one| one.is_whole());
        let is_alike = may_be().all(|one| one.whole() == first.whole());
        if is_one {
            self.category(words, first);
        }
        if is_one || is_alike {
            self.category(words, first.whole());
        } else {
            wholes().for_each(|whole| self.category(words, whole));
        }
        true
    }

    fn category(&mut self, words: &Dictionary, category: FirstCategory) {
        self.text.clear();
        // Writing to a String does not fail.
        let _ = write!(self.text, "{category}");
        self.keys.push(words.key(Space::Category, &self.text));
    }

    /// What a page may be though it does not say so: all that its categories of another taxonomy may be, and what that taxonomy
    /// has no words for.
    fn possible_pages(&mut self, words: &Dictionary, place: &openrtb::Place<'_>) -> Part {
        let from = self.keys.len();
        for (list, taxonomy) in place.category_lists() {
            if list.is_empty() || !is_mapped(taxonomy) {
                continue;
            }
            for category in list.iter().flat_map(|text| first_categories(text.trim())) {
                self.category(words, category);
                self.category(words, category.whole());
            }
            for name in unsaid(taxonomy) {
                self.keys.extend_from_slice(words.family(name));
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

    /// Of a taxonomy that can be compared with ours, what may be meant; of another one whatever has a category.
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
        let all = campaign_index.categories().iter();
        if !is_mapped(top.category_taxonomy) {
            return self.part(all.map(|(key, _)| *key));
        }
        let list = CategoryList::read(blocked);
        self.part(all.filter(|(_, name)| list.may_have(name)).map(|(key, _)| *key))
    }

    /// An allowlist of strangers stays a list.
    fn allowed_categories(
        &mut self,
        campaign_index: &CampaignIndex,
        request: &BidRequest<'_>,
    ) -> Part {
        let top = &request.top;
        let allowed = top.categories_allowed;
        if allowed.is_empty() || !is_mapped(top.category_taxonomy) {
            return self.families(campaign_index.dictionary(), allowed, true);
        }
        let list = CategoryList::read(allowed);
        let all = campaign_index.categories().iter();
        let keys = all.filter(|(_, name)| list.has_surely(name)).map(|(key, _)| *key);
        self.part(keys.chain([UNKNOWN]))
    }

    /// Advertisers with all below them: who blocks `brand.example` blocks `shop.brand.example`. What is named again, as
    /// a list of nothing but `com` does, must not fill the memory.
    fn advertisers(
        &mut self,
        campaign_index: &CampaignIndex,
        texts: Texts<'_>,
        allowed: bool,
    ) -> Part {
        let from = self.keys.len();
        let mut large: Vec<*const u32> = Vec::new();
        for text in texts.iter() {
            let family = campaign_index.advertisers(&normal::domain(text));
            if family.len() > FAMILY_LARGE {
                if large.contains(&family.as_ptr()) {
                    continue;
                }
                large.push(family.as_ptr());
            }
            self.keys.extend_from_slice(family);
            if allowed && family.is_empty() {
                self.keys.push(UNKNOWN);
            }
        }
        from..self.keys.len()
    }

    /// Languages that both lists allow, where there are both.
    fn allowed_languages(&mut self, words: &Dictionary, request: &BidRequest<'_>) -> Part {
        let Top { languages_allowed: plain, languages_allowed_bcp47: tags, .. } = &request.top;
        let key = |text: &str| words.key(Space::Language, &normal::language(text));
        if plain.is_empty() || tags.is_empty() {
            return self.part(plain.iter().chain(tags.iter()).map(key));
        }
        let from = self.keys.len();
        self.keys
            .extend(tags.iter().map(key).filter(|tag| plain.iter().any(|one| key(one) == *tag)));
        if self.keys.len() == from {
            // Not an empty list, which allows all.
            self.keys.push(UNKNOWN);
        }
        from..self.keys.len()
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

/// The kind of auction that a number names.
pub(super) fn at(number: Option<u32>) -> Option<PriceRule> {
    number.map(|number| match number {
        1 => PriceRule::First,
        3 => PriceRule::Fixed,
        _ => PriceRule::SecondPlus,
    })
}
