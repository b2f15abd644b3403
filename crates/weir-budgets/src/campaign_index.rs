//! The campaign index: all campaigns that bid, as the auction and the OpenRTB door need them. Built from the campaigns of the
//! budgets file when it changes, then only read.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::path::Path;
use std::sync::Arc;

use gate_auction as auction;
use gate_auction::{
    CampaignError, Dictionary, DictionaryFull, Dimension, Format, Index, Note, Price, Space,
    UNKNOWN,
};
use gate_profile::{Cap, cap_items};
use money::{CurrencyCode, Instant, OffsetSpan, Zone};
use openrtb::{
    Ad, AdSpec, Imp, MACRO_BILL, MACRO_CLICK_PIXEL, MACRO_WIN, Mtype, NativeSet, Redirect,
    StreamSpec, domains_above,
};

use crate::budgets::{self, Budget, LineError};
use crate::campaigns::native::native_set;
use crate::campaigns::video::VideoTargeting;
use crate::campaigns::{self, CapOf, ReserveRule};
use weir_config::config::{Config, Rates};

/// Quarters of an hour in a week: the auction's hours, so that zones like Nepal's (+05:45) come out right.
const QUARTERS: i64 = 7 * 24 * 4;
const QUARTER_MS: i64 = 15 * 60 * 1_000;
/// The first of January 1970 was a Thursday; weeks begin on Monday.
const EPOCH_QUARTER: i64 = 3 * 24 * 4;
const DAY_MINUTES: i64 = 24 * 60;

/// Why a campaign cannot take part. The operator's mistake: the file has to change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct CampaignIndexError {
    /// Whose.
    pub campaign: u64,
    /// The fault, as text.
    pub text: String,
}

/// What all bids of a node have in common: their currency, what others are worth in it, and how notices come.
#[derive(Clone, Debug)]
pub struct ExchangeTerms {
    own: CurrencyCode,
    rates: Rates,
    /// Over HTTPS.
    notices_secure: bool,
}

impl ExchangeTerms {
    /// As configured.
    #[must_use]
    pub fn of(config: &Config) -> ExchangeTerms {
        let o = &config.openrtb;
        let notices_secure = match o.public_url.as_str() {
            "" => !o.tls_cert.is_empty(),
            url => url.starts_with("https://"),
        };
        ExchangeTerms { own: o.currency, rates: o.rates.clone(), notices_secure }
    }

    /// Does everything of a creative come over HTTPS, notices that its markup tells included?
    fn is_secure(&self, creative: &campaigns::Creative) -> bool {
        let tells = [MACRO_WIN, MACRO_BILL, MACRO_CLICK_PIXEL];
        let tells = tells.iter().any(|one| creative.markup.contains(one));
        creative.secure && (self.notices_secure || !tells)
    }

    /// How many creatives claim to be secure and are not, since their markup has addresses of notices that are not HTTPS.
    /// They are shown only where an impression does not ask for it.
    #[must_use]
    pub fn insecure_creatives(&self, budgets: &[Budget]) -> usize {
        let campaigns = budgets.iter().filter_map(|budget| budget.campaign.as_ref());
        let claim = campaigns.flat_map(|campaign| &campaign.creatives).filter(|one| one.secure);
        claim.filter(|creative| !self.is_secure(creative)).count()
    }

    /// What one unit of a currency is worth; `None` where nobody said.
    fn rate(&self, of: CurrencyCode) -> Option<PinnedRate> {
        if of == self.own {
            return Some(PinnedRate::ONE);
        }
        let rate = self.rates.conversions().iter().find(|rate| rate.from == of)?;
        u32::try_from(rate.micros_per_unit).ok().and_then(PinnedRate::from_micros)
    }
}

/// What one unit of a budget's currency is worth in the currency of bids. A bid's notice carries it: the spend is booked
/// at the rate that its money was set aside with, whatever the configuration says by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PinnedRate(u32);

impl PinnedRate {
    /// The same currency.
    pub const ONE: PinnedRate = PinnedRate(1_000_000);

    /// A rate in millionths; `None` for 0.
    #[must_use]
    pub const fn from_micros(micros: u32) -> Option<PinnedRate> {
        if micros == 0 { None } else { Some(PinnedRate(micros)) }
    }

    /// In millionths.
    #[must_use]
    pub const fn micros(self) -> u32 {
        self.0
    }

    /// A price in the budget's currency as one in that of bids, rounded down, at most [`Price::MAX`].
    fn to_bid(self, price: Price) -> Price {
        let wide = i128::from(price.micros()) * i128::from(self.0) / i128::from(PinnedRate::ONE.0);
        let micros = i64::try_from(wide).ok();
        micros.and_then(Price::from_micros).unwrap_or(Price::MAX)
    }
}

/// All campaigns that bid.
#[derive(Debug)]
pub struct CampaignIndex {
    index: Index,
    dictionary: Dictionary,
    /// By the campaign's slot in the index.
    ads: Box<[CampaignAd]>,
    slots: Keys<u64>,
    /// The auction's keys of segments by the profiles' keys of them.
    segments: Keys<u32>,
    /// Keys of creatives' domains by these domains and by those above them.
    advertisers: Families,
    /// Creatives' categories.
    categories: Box<[(u32, Box<str>)]>,
    /// Sizes of creatives of banners, the largest first.
    banner_sizes: Box<[(u16, u16)]>,
    until: Instant,
}

/// What each candidate of an auction is asked for, beside what the auction asks itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MarketRow {
    /// Which users may have reached a cap of the campaign or of one of its creatives: [`gate_profile::cap_items`].
    cap_items: u64,
    /// What its currency is worth.
    rate: PinnedRate,
    /// How much of a price is held.
    hold: ReserveRule,
    /// Do its creatives need something of a player, or of a native request?
    asks_player: bool,
}

/// In a note, beside the win rate of its rule: [`MarketRow::asks_player`].
const ASKS_PLAYER: u32 = 1 << 31;

impl MarketRow {
    /// As the index keeps it. No win rate of a rule is 0: that stands for all of the price.
    #[allow(clippy::cast_possible_truncation, reason = "the halves are taken apart")]
    fn note(self) -> Note {
        let (low, high) = (self.cap_items as u32, (self.cap_items >> 32) as u32);
        let (win_rate, safety) = match self.hold {
            ReserveRule::Full => (0, 0),
            ReserveRule::Expected { win_rate, safety } => (win_rate, safety),
        };
        let player = if self.asks_player { ASKS_PLAYER } else { 0 };
        [low, high, self.rate.0, win_rate | player, safety]
    }

    #[inline]
    fn of([low, high, rate, win_rate, safety]: Note) -> MarketRow {
        let hold = match win_rate & !ASKS_PLAYER {
            0 => ReserveRule::Full,
            win_rate => ReserveRule::Expected { win_rate, safety },
        };
        MarketRow {
            cap_items: u64::from(low) | u64::from(high) << 32,
            rate: PinnedRate(rate),
            hold,
            asks_player: win_rate & ASKS_PLAYER != 0,
        }
    }
}

/// The taxonomy of campaigns' categories, as OpenRTB's `cattax` numbers it: the first of the IAB.
pub const CATEGORY_TAXONOMY: u32 = 1;

type Keys<K> = HashMap<K, u32, BuildHasherDefault<Mixed>>;
type Families = HashMap<Box<str>, Vec<u32>, BuildHasherDefault<Mixed>>;

/// What a campaign offers beside its bid.
#[derive(Debug)]
pub struct CampaignAd {
    /// The buyer's seat; empty where it has none.
    pub seat: Box<str>,
    /// The campaign's id as text, OpenRTB's `cid`.
    pub cid: Box<str>,
    /// Caps of the whole campaign.
    pub caps: Box<[Cap]>,
    /// By the position of the creative.
    pub creatives: Box<[ServedCreative]>,
    /// What it wants of players of its videos; `None` where it takes all.
    pub video: Option<Box<VideoTargeting>>,
}

/// A creative as it is sent.
#[derive(Debug)]
pub struct ServedCreative {
    /// Its id in the campaign.
    pub id: Box<str>,
    /// Ready to be written.
    pub ad: Ad,
    /// What a native ad is made of, for each request anew; `None` for other formats.
    pub native: Option<NativeSet>,
    /// What its caps count: of the campaign's creatives, this one.
    pub item: u64,
    /// All caps that count it: the campaign's and its own.
    pub caps: Box<[Cap]>,
    /// How long it plays, seconds; `None` where it does not.
    pub duration_s: Option<u32>,
    /// Where clicks on it lead.
    pub click: Option<Redirect>,
}

impl CampaignAd {
    /// Does the campaign want the player that would show one of its creatives? It is asked of videos only.
    #[must_use]
    pub fn wants_player(&self, creative: usize, imp: &Imp<'_>) -> bool {
        let Some(wanted) = self.video.as_ref() else { return true };
        let is_video =
            self.creatives.get(creative).is_some_and(|one| one.ad.mtype() == Mtype::Video);
        !is_video || imp.video.is_none_or(|player| wanted.admits(&player))
    }
}

impl ServedCreative {
    /// Can the impression's player show it? Formats and durations are not looked at here, nor what is not played.
    #[must_use]
    pub fn fits_player(&self, imp: &Imp<'_>) -> bool {
        let player = match self.ad.mtype() {
            Mtype::Video => imp.video,
            Mtype::Audio => imp.audio,
            Mtype::Banner | Mtype::Native => None,
        };
        player.is_none_or(|player| self.ad.fits_player(&player).is_ok())
    }
}

impl CampaignIndex {
    /// No campaigns.
    #[must_use]
    pub fn empty() -> Arc<CampaignIndex> {
        let usd = CurrencyCode::new("USD").expect("a currency");
        let terms = ExchangeTerms { own: usd, rates: Rates::default(), notices_secure: false };
        let campaign_index = CampaignIndex::build(&terms, &[], Instant::from_ms(0));
        Arc::new(campaign_index.expect("no campaigns, no errors"))
    }

    /// The campaigns among `budgets`, with the hours of the week as clocks stand at `now`.
    ///
    /// # Errors
    /// Everything that is wrong, campaign by campaign.
    pub fn build(
        terms: &ExchangeTerms,
        budgets: &[Budget],
        now: Instant,
    ) -> Result<CampaignIndex, Vec<CampaignIndexError>> {
        CampaignIndex::build_of(terms, &budgets.iter().collect::<Vec<_>>(), now)
    }

    fn build_of(
        terms: &ExchangeTerms,
        budgets: &[&Budget],
        now: Instant,
    ) -> Result<CampaignIndex, Vec<CampaignIndexError>> {
        let mut builder = Builder::new(now);
        let mut errors = Vec::new();
        let mut compiled = Vec::new();
        for budget in budgets {
            let Some(campaign) = &budget.campaign else { continue };
            let Some(rate) = terms.rate(campaign.currency) else {
                errors.push(no_rate(campaign, terms.own));
                continue;
            };
            match builder.campaign(campaign, terms, rate, &budget.spec.zone) {
                Ok(one) => compiled.push(one),
                Err(full) => {
                    errors
                        .push(CampaignIndexError { campaign: campaign.id, text: full.to_string() });
                }
            }
        }
        let Builder { dictionary, advertisers, categories, until, .. } = builder;
        let categories = categories.into_iter().collect();
        // Nobody sends keys of placements to collide: the secret may be known.
        let index = Index::build(terms.own, &compiled, 0);
        let mut index = match index {
            Ok(index) if errors.is_empty() => index,
            Ok(_) => return Err(errors),
            Err(more) => {
                errors.extend(more.iter().map(campaign_error));
                return Err(errors);
            }
        };
        let slots: Keys<u64> = index.ids().iter().copied().zip(0..).collect();
        let (ads, rows) = ads(&slots, budgets, terms, now);
        index.annotate(|slot| rows[slot as usize].note());
        let segments = segments(&dictionary, budgets);
        let banner_sizes = banner_sizes(budgets);
        let campaign_index = CampaignIndex {
            index,
            dictionary,
            ads,
            slots,
            segments,
            advertisers,
            categories,
            banner_sizes,
            until,
        };
        Ok(campaign_index)
    }

    /// The auction's index.
    #[must_use]
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// The keys of texts.
    #[must_use]
    pub fn dictionary(&self) -> &Dictionary {
        &self.dictionary
    }

    /// What the campaign of a slot offers.
    ///
    /// # Panics
    /// If there is no such slot: slots come from the same index.
    #[must_use]
    pub fn ad(&self, slot: u32) -> &CampaignAd {
        &self.ads[slot as usize]
    }

    #[inline]
    fn row(&self, slot: u32) -> MarketRow {
        MarketRow::of(*self.index.note(slot))
    }

    /// How much of a price the campaign of a slot holds.
    ///
    /// # Panics
    /// If there is no such slot.
    #[inline]
    #[must_use]
    pub fn reserve_rule(&self, slot: u32) -> ReserveRule {
        self.row(slot).hold
    }

    /// What the currency of the campaign of a slot is worth.
    ///
    /// # Panics
    /// If there is no such slot.
    #[inline]
    #[must_use]
    pub fn rate(&self, slot: u32) -> PinnedRate {
        self.row(slot).rate
    }

    /// Do creatives of the campaign of a slot need something of a player, or of a native request?
    ///
    /// # Panics
    /// If there is no such slot, here and below.
    #[inline]
    #[must_use]
    pub fn asks_player(&self, slot: u32) -> bool {
        self.row(slot).asks_player
    }

    /// What the caps of the campaign of a slot and of its creatives count, as [`gate_profile::cap_items`]; 0 without caps.
    #[inline]
    #[must_use]
    pub fn cap_items(&self, slot: u32) -> u64 {
        self.row(slot).cap_items
    }

    /// The slot of a campaign, if it is in this index.
    #[must_use]
    pub fn slot(&self, campaign: u64) -> Option<u32> {
        self.slots.get(&campaign).copied()
    }

    /// The auction's key of a segment that a profile names; [`UNKNOWN`] where no campaign mentions it.
    #[must_use]
    pub fn segment(&self, key: u32) -> u32 {
        self.segments.get(&key).copied().unwrap_or(UNKNOWN)
    }

    /// The keys of a domain, in its normal form, and of all below it that creatives have.
    #[must_use]
    pub fn advertisers(&self, domain: &str) -> &[u32] {
        self.advertisers.get(domain).map_or(&[], Vec::as_slice)
    }

    /// All categories that creatives have: the key and the name of each.
    #[must_use]
    pub fn categories(&self) -> &[(u32, Box<str>)] {
        &self.categories
    }

    /// The sizes that creatives of banners have, the largest first.
    #[must_use]
    pub fn banner_sizes(&self) -> &[(u16, u16)] {
        &self.banner_sizes
    }

    /// The number of campaigns.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ads.len()
    }

    /// Are there none?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ads.is_empty()
    }

    /// From then on clocks stand differently in some campaign's time zone: build it anew.
    #[must_use]
    pub fn until(&self) -> Instant {
        self.until
    }
}

/// Reads a budgets file and builds the index of its campaigns.
///
/// # Errors
/// Everything that is wrong, with the line that it stands on.
pub fn read(
    path: &Path,
    terms: &ExchangeTerms,
    now: Instant,
) -> Result<(Vec<Budget>, CampaignIndex), Vec<LineError>> {
    let budgets = budgets::read(path)?;
    let campaign_index = of_file(path, terms, &budgets.iter().collect::<Vec<_>>(), now)?;
    Ok((budgets, campaign_index))
}

/// The index of a file's campaigns.
pub fn of_file(
    path: &Path,
    terms: &ExchangeTerms,
    budgets: &[&Budget],
    now: Instant,
) -> Result<CampaignIndex, Vec<LineError>> {
    CampaignIndex::build_of(terms, budgets, now).map_err(|errors| {
        let lines: HashMap<u64, usize> =
            budgets.iter().map(|budget| (budget.spec.id, budget.line)).collect();
        let place = |error: CampaignIndexError| LineError {
            file: path.display().to_string(),
            line: lines.get(&error.campaign).copied().unwrap_or(1),
            text: error.text,
        };
        errors.into_iter().map(place).collect()
    })
}

/// The quarter of an hour of the week of an instant, in UTC.
#[must_use]
pub fn quarter_of_week(now: Instant) -> u32 {
    let quarter = i64::try_from(now.ms()).unwrap_or(0) / QUARTER_MS + EPOCH_QUARTER;
    u32::try_from(quarter.rem_euclid(QUARTERS)).unwrap_or(0)
}

fn no_rate(campaign: &campaigns::Campaign, own: CurrencyCode) -> CampaignIndexError {
    let (found, own) = (campaign.currency.as_str(), own.as_str());
    let text = format!(
        "campaign {} is in {found}, openrtb.currency is {own} and openrtb.rates has no usable rate: add \"{found}=1.0\" with what \
         1 {found} is worth in {own} (0.000001 to 4294)",
        campaign.id
    );
    CampaignIndexError { campaign: campaign.id, text }
}

fn campaign_error(error: &CampaignError) -> CampaignIndexError {
    CampaignIndexError { campaign: error.campaign().unwrap_or(0), text: error.to_string() }
}

/// Turns texts into keys.
struct Builder {
    dictionary: Dictionary,
    advertisers: Families,
    categories: BTreeMap<u32, Box<str>>,
    until: Instant,
    now: Instant,
}

impl Builder {
    fn new(now: Instant) -> Builder {
        Builder {
            dictionary: Dictionary::default(),
            advertisers: Families::default(),
            categories: BTreeMap::new(),
            until: Instant::MAX,
            now,
        }
    }

    fn campaign(
        &mut self,
        campaign: &campaigns::Campaign,
        terms: &ExchangeTerms,
        rate: PinnedRate,
        zone: &Zone,
    ) -> Result<auction::Campaign, DictionaryFull> {
        if !campaign.caps.is_empty() {
            self.until = self.until.min(zone.offset_at(self.now).end);
        }
        let modifier = |builder: &mut Builder, modifier: &campaigns::Modifier| {
            let segment = builder.key(Space::Segment, &modifier.segment)?;
            Ok(auction::Modifier { segment, factor: modifier.factor })
        };
        Ok(auction::Campaign {
            id: campaign.id,
            bid: rate.to_bid(Price::from_micros(campaign.bid_micros).unwrap_or(Price::ZERO)),
            advertiser: self.key(Space::Domain, &campaign.advertiser)?,
            seat: match &campaign.seat {
                Some(seat) => self.key(Space::Seat, seat)?,
                None => UNKNOWN,
            },
            modifiers: campaign
                .modifiers
                .iter()
                .map(|each| modifier(self, each))
                .collect::<Result<_, _>>()?,
            targeting: self.targeting(&campaign.targeting, zone)?,
            creatives: (0..)
                .zip(&campaign.creatives)
                .map(|(id, creative)| self.creative(id, creative, terms.is_secure(creative)))
                .collect::<Result<_, _>>()?,
        })
    }

    fn targeting(
        &mut self,
        wants: &campaigns::Targeting,
        zone: &Zone,
    ) -> Result<auction::Targeting, DictionaryFull> {
        let mut targeting = auction::Targeting::default();
        for (dimension, space, lists) in [
            (Dimension::Geo, Space::Geo, &wants.geo),
            (Dimension::Supply, Space::Supply, &wants.supply),
            (Dimension::Segments, Space::Segment, &wants.segments),
            (Dimension::Oses, Space::Os, &wants.os),
            (Dimension::Domains, Space::Domain, &wants.domains),
            (Dimension::Categories, Space::Category, &wants.categories),
            (Dimension::Languages, Space::Language, &wants.languages),
        ] {
            let keys = targeting.lists_mut(dimension);
            keys.any = self.keys(space, &lists.any)?;
            keys.none = self.keys(space, &lists.none)?;
        }
        let devices = targeting.lists_mut(Dimension::Devices);
        devices.any = wants.devices.any.iter().map(|device| u32::from(*device)).collect();
        devices.none = wants.devices.none.iter().map(|device| u32::from(*device)).collect();
        if let Some(hours) = &wants.hours {
            targeting.lists_mut(Dimension::Quarters).any = self.quarters(hours, zone);
        }
        targeting.segments_all = self.keys(Space::Segment, &wants.segments_all)?;
        targeting.deals = self.keys(Space::Deal, &wants.deals)?;
        targeting.deals_only = wants.deals_only;
        Ok(targeting)
    }

    /// The quarters of the week of UTC in which it is one of these hours in the zone, as its clocks stand now.
    fn quarters(&mut self, hours: &campaigns::hours::Hours, zone: &Zone) -> Vec<u32> {
        let OffsetSpan { end, offset_ms, .. } = zone.offset_at(self.now);
        self.until = self.until.min(end);
        let local = hours.iter().flat_map(|hour| (0..4).map(move |n| i64::from(hour) * 4 + n));
        let utc =
            local.map(|quarter| (quarter - offset_ms.div_euclid(QUARTER_MS)).rem_euclid(QUARTERS));
        utc.filter_map(|quarter| u32::try_from(quarter).ok()).collect()
    }

    fn creative(
        &mut self,
        id: u64,
        creative: &campaigns::Creative,
        secure: bool,
    ) -> Result<auction::Creative, DictionaryFull> {
        let optional = |builder: &mut Builder, space, text: &Option<String>| {
            text.as_ref().map(|text| builder.key(space, text)).transpose()
        };
        let domains = self.keys(Space::Domain, &creative.adomain)?;
        let categories = self.keys(Space::Category, &creative.cat)?;
        for (domain, key) in creative.adomain.iter().zip(&domains) {
            self.add_advertiser(domain, *key);
        }
        for (name, key) in creative.cat.iter().zip(&categories) {
            self.categories.entry(*key).or_insert_with(|| name.as_str().into());
        }
        Ok(auction::Creative {
            id,
            format: format(creative.format),
            sizes: creative.sizes.clone(),
            domains,
            categories,
            attributes: creative.attr.clone(),
            secure,
            duration_s: creative.duration_s.unwrap_or(0),
            bundle: optional(self, Space::Bundle, &creative.bundle)?,
            language: optional(self, Space::Language, &creative.language)?,
        })
    }

    /// Notes a domain under its name and under those above it, the last label alone included: as the check of a bid has
    /// it.
    fn add_advertiser(&mut self, domain: &str, key: u32) {
        for name in domains_above(domain) {
            let family = self.advertisers.entry(name.into()).or_default();
            if let Err(place) = family.binary_search(&key) {
                family.insert(place, key);
            }
        }
    }

    fn key(&mut self, space: Space, text: &str) -> Result<u32, DictionaryFull> {
        self.dictionary.intern(space, text)
    }

    fn keys(&mut self, space: Space, texts: &[String]) -> Result<Vec<u32>, DictionaryFull> {
        texts.iter().map(|text| self.key(space, text)).collect()
    }
}

fn format(format: campaigns::Format) -> Format {
    match format {
        campaigns::Format::Banner => Format::Banner,
        campaigns::Format::Video => Format::Video,
        campaigns::Format::Audio => Format::Audio,
        campaigns::Format::Native => Format::Native,
    }
}

fn ads(
    slots: &Keys<u64>,
    budgets: &[&Budget],
    terms: &ExchangeTerms,
    now: Instant,
) -> (Box<[CampaignAd]>, Box<[MarketRow]>) {
    let mut ads: Vec<Option<(CampaignAd, MarketRow)>> = (0..slots.len()).map(|_| None).collect();
    for budget in budgets {
        let Some(campaign) = &budget.campaign else { continue };
        if let Some(slot) = slots.get(&campaign.id) {
            let ad = ad(campaign, offset_min(&budget.spec.zone, now));
            let row = MarketRow {
                cap_items: ad
                    .creatives
                    .iter()
                    .fold(cap_items(&ad.caps), |items, shown| items | cap_items(&shown.caps)),
                rate: terms.rate(campaign.currency).unwrap_or(PinnedRate::ONE),
                hold: campaign.hold,
                asks_player: ad.creatives.iter().any(|shown| shown.ad.mtype() != Mtype::Banner),
            };
            ads[*slot as usize] = Some((ad, row));
        }
    }
    let ads = ads.into_iter().map(|ad| ad.expect("each slot is a campaign's"));
    let (ads, rows): (Vec<CampaignAd>, Vec<MarketRow>) = ads.unzip();
    (ads.into(), rows.into())
}

fn banner_sizes(budgets: &[&Budget]) -> Box<[(u16, u16)]> {
    let campaigns = budgets.iter().filter_map(|budget| budget.campaign.as_ref());
    let banners = campaigns
        .flat_map(|campaign| &campaign.creatives)
        .filter(|creative| creative.format == campaigns::Format::Banner);
    let sizes: BTreeSet<(u16, u16)> = banners
        .flat_map(|banner| banner.sizes.iter().copied())
        .filter(|of| *of != (0, 0))
        .collect();
    let mut sizes: Vec<(u16, u16)> = sizes.into_iter().collect();
    sizes.sort_by_key(|(width, height)| Reverse(u32::from(*width) * u32::from(*height)));
    sizes.into()
}

fn ad(campaign: &campaigns::Campaign, offset_minutes: i16) -> CampaignAd {
    let caps = |of: CapOf, item: u64| {
        let caps = campaign.caps.iter().filter(move |cap| cap.of == of);
        caps.map(move |cap| profile_cap(cap, item, offset_minutes))
    };
    let shown = |creative: &campaigns::Creative| {
        let item = creative_item(campaign.id, &creative.id);
        let ad = Ad::new(&AdSpec {
            crid: &creative.id,
            mtype: mtype(creative.format),
            adomain: &texts(&creative.adomain),
            cat: &texts(&creative.cat),
            cattax: CATEGORY_TAXONOMY,
            attr: &creative.attr.iter().copied().map(u32::from).collect::<Vec<_>>(),
            bundle: creative.bundle.as_deref(),
            language: creative.language.as_deref(),
            iurl: None,
            duration_s: creative.duration_s,
            secure: creative.secure,
            markup: &creative.markup,
        });
        ServedCreative {
            id: creative.id.as_str().into(),
            ad: match creative.format.plays() {
                true => ad.with_stream(&StreamSpec::of_vast(&creative.markup)),
                false => ad,
            },
            native: (creative.format == campaigns::Format::Native)
                .then(|| native_set(&creative.markup).ok())
                .flatten(),
            item,
            caps: caps(CapOf::Campaign, campaign.id).chain(caps(CapOf::Creative, item)).collect(),
            duration_s: creative.duration_s,
            click: creative.click.as_deref().and_then(Redirect::to),
        }
    };
    CampaignAd {
        seat: campaign.seat.as_deref().unwrap_or("").into(),
        cid: campaign.id.to_string().into(),
        caps: caps(CapOf::Campaign, campaign.id).collect(),
        creatives: campaign.creatives.iter().map(shown).collect(),
        video: Some(&campaign.targeting.video)
            .filter(|wanted| **wanted != VideoTargeting::default())
            .map(|wanted| Box::new(wanted.clone())),
    }
}

fn texts(list: &[String]) -> Vec<&str> {
    list.iter().map(String::as_str).collect()
}

/// What is counted of one creative of one campaign. It must stay the same over restarts: it is on disk.
fn creative_item(campaign: u64, creative: &str) -> u64 {
    let mut hasher = Mixed(!campaign);
    hasher.write(creative.as_bytes());
    hasher.finish()
}

fn mtype(format: campaigns::Format) -> Mtype {
    match format {
        campaigns::Format::Banner => Mtype::Banner,
        campaigns::Format::Video => Mtype::Video,
        campaigns::Format::Audio => Mtype::Audio,
        campaigns::Format::Native => Mtype::Native,
    }
}

/// A cap of a campaign whose local time is so far ahead of UTC now.
fn profile_cap(cap: &campaigns::Cap, item: u64, offset_minutes: i16) -> Cap {
    Cap { item, window: cap.per, limit: cap.max, offset_minutes }
}

/// Days and weeks of caps begin with those of the budget's zone as its clocks stand now. When they change, no count is
/// forgotten: the window that is running keeps its count, and ends at the new boundary.
fn offset_min(zone: &Zone, now: Instant) -> i16 {
    let minutes = zone.offset_at(now).offset_ms / 60_000;
    i16::try_from(minutes.clamp(-DAY_MINUTES, DAY_MINUTES)).unwrap_or(0)
}

fn segments(dictionary: &Dictionary, budgets: &[&Budget]) -> Keys<u32> {
    let campaigns = budgets.iter().filter_map(|budget| budget.campaign.as_ref());
    let texts = campaigns.flat_map(|campaign| {
        let campaigns::Targeting { segments, segments_all, .. } = &campaign.targeting;
        let modifiers = campaign.modifiers.iter().map(|modifier| &modifier.segment);
        segments.any.iter().chain(&segments.none).chain(segments_all).chain(modifiers)
    });
    let key =
        |text: &String| (gate_profile::segment_key(text), dictionary.key(Space::Segment, text));
    texts.map(key).collect()
}

/// Mixes numbers and texts of the operator's own, which nobody chose to collide.
#[derive(Default)]
struct Mixed(u64);

impl Hasher for Mixed {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
        self.write_u64(bytes.len() as u64);
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        // The finaliser of SplitMix64.
        let mut z = self.0.rotate_left(29) ^ number;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        self.0 = z ^ (z >> 31);
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use gate_profile::{Profiles, Window};
    use money::{Window as Span, ZoneCache, day_at};
    use proptest::prelude::*;

    use super::*;

    fn rate(micros: u32) -> PinnedRate {
        PinnedRate::from_micros(micros).unwrap()
    }

    #[test]
    fn a_note_says_what_its_row_said() {
        let part = ReserveRule::Expected { win_rate: campaigns::FACTOR_ONE, safety: 1 << 20 };
        for (cap_items, hold, asks_player) in
            [(0, ReserveRule::Full, true), (u64::MAX, part, true), (1 << 40 | 1, part, false)]
        {
            let row = MarketRow { cap_items, rate: rate(u32::MAX), hold, asks_player };
            assert_eq!(MarketRow::of(row.note()), row);
        }
    }

    /// Shows all that a daily cap of 3 allows, minute by minute; at which minutes.
    fn shown(
        profiles: &Profiles,
        user: u64,
        zone: &Zone,
        days: Span,
        late_ms: u64,
    ) -> Vec<Instant> {
        let cap = campaigns::Cap { per: Window::Day, max: 3, of: CapOf::Campaign };
        let mut shown = Vec::new();
        for ms in (days.start.ms()..days.end.ms()).step_by(60_000) {
            // The index is built anew a little after clocks change.
            let built = Instant::from_ms(ms - late_ms);
            let caps = [profile_cap(&cap, 1, offset_min(zone, built))];
            let holds = (shown.len() as u64..).map(|n| user << 32 | n);
            let taken = holds.take_while(|&hold| {
                profiles.reserve(user, hold, &caps, ms + 1, ms).is_ok()
                    && profiles.count(user, hold, &caps, ms).is_ok()
            });
            shown.extend(std::iter::repeat_n(Instant::from_ms(ms), taken.count()));
        }
        shown
    }

    /// Both changes of the clock, also where it goes over midnight: a cap's day is the budget's day, and each has its
    /// three impressions and no more. An index that is built five minutes late gives no place twice either.
    #[test]
    fn days_of_caps_are_civil_days_when_clocks_change() {
        let folder = tempfile::tempdir().unwrap();
        let profiles = Profiles::open(folder.path(), &gate_profile::Options::default()).unwrap();
        while !profiles.figures().warm {
            std::thread::yield_now();
        }
        let mut users = 0..;
        let mut changes = 0;
        for name in [
            "Europe/Berlin",
            "America/New_York",
            "Africa/Cairo",
            "America/Havana",
            "Atlantic/Azores",
            "America/Santiago",
            "Australia/Lord_Howe",
        ] {
            let zone = ZoneCache::default().get(name).unwrap();
            let start = Instant::from_ms(1_767_225_600_000);
            for change in zone.offsets_from(start)[1..3].iter().map(|span| span.start) {
                changes += 1;
                let day = day_at(change, &zone);
                let eve = day_at(day.start.minus_ms(1).unwrap(), &zone);
                let next = day_at(day.end, &zone);
                let days = Span { start: eve.start, end: next.end };
                let mut shown = |late| shown(&profiles, users.next().unwrap(), &zone, days, late);
                let expected = [eve, day, next].map(|day| [day.start; 3]);
                assert_eq!(shown(0), expected.as_flattened(), "{name} {change:?}");
                assert_eq!(shown(5 * 60_000).len(), 9, "{name} {change:?}");
            }
        }
        assert_eq!(changes, 14);
    }

    #[test]
    fn rates_by_table() {
        // 1 EUR is 1.0834 USD.
        let eur = rate(1_083_400);
        assert_eq!(eur.to_bid(Price::from_micros(1_000_001).unwrap()).micros(), 1_083_401);
        assert_eq!(PinnedRate::from_micros(0), None);
    }

    proptest! {
        /// A converted bid costs its budget at most what its owner bid.
        #[test]
        fn a_bid_is_never_raised(micros in 1_u32..4_000_000_000, bid in 0_i64..1_000_000_000) {
            let rate = rate(micros);
            let converted = rate.to_bid(Price::from_micros(bid).unwrap());
            prop_assert!(i128::from(converted.micros()) * 1_000_000 <= i128::from(bid) * i128::from(micros));
        }
    }
}
