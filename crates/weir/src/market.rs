//! The market: all campaigns that bid, as the auction and the OpenRTB door need them. Built from the campaigns of the
//! budgets file when it changes, then only read.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::path::Path;
use std::sync::Arc;

use door_openrtb::{Ad, AdSpec, Mtype};
use gate_auction as auction;
use gate_auction::{
    CampaignError, Dictionary, DictionaryFull, Dimension, Format, Index, Price, Space, UNKNOWN,
};
use gate_profile::{Cap, Window};
use money::{CurrencyCode, Instant, OffsetSpan, Zone};

use crate::budgets::{self, Budget, LineError};
use crate::campaigns::{self, CapOf, CapWindow, Hold};

/// Quarters of an hour in a week: the auction's hours, so that zones like Nepal's (+05:45) come out right.
const QUARTERS: i64 = 7 * 24 * 4;
const QUARTER_MS: i64 = 15 * 60 * 1_000;
/// The first of January 1970 was a Thursday; weeks begin on Monday.
const EPOCH_QUARTER: i64 = 3 * 24 * 4;
const DAY_MINUTES: i64 = 24 * 60;

/// Why a campaign cannot take part. The operator's mistake: the file has to change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct MarketError {
    /// Whose.
    pub campaign: u64,
    /// What is wrong.
    pub text: String,
}

/// All campaigns that bid.
#[derive(Debug)]
pub struct Market {
    index: Index,
    dictionary: Dictionary,
    /// By the campaign's slot in the index.
    offers: Box<[Offer]>,
    /// How much of a price is held, by the same slots: apart, because every candidate is asked for it.
    holds: Box<[Hold]>,
    /// Has a creative of the campaign caps of its own? Apart for the same reason.
    creative_caps: Box<[bool]>,
    slots: Keys<u64>,
    /// The auction's keys of segments by the profiles' keys of them.
    segments: Keys<u32>,
    /// Keys of creatives' domains by these domains and by those above them.
    advertisers: Families,
    /// Keys of creatives' categories.
    categories: Box<[u32]>,
    until: Instant,
}

/// The taxonomy of campaigns' categories, as OpenRTB's `cattax` numbers it: the first of the IAB.
pub const CATEGORY_TAXONOMY: u32 = 1;

type Keys<K> = HashMap<K, u32, BuildHasherDefault<Mixed>>;
type Families = HashMap<Box<str>, Vec<u32>, BuildHasherDefault<Mixed>>;

/// What a campaign offers beside its bid.
#[derive(Debug)]
pub struct Offer {
    /// The buyer's seat; empty where it has none.
    pub seat: Box<str>,
    /// The campaign's id as text, OpenRTB's `cid`.
    pub cid: Box<str>,
    /// Caps of the whole campaign.
    pub caps: Box<[Cap]>,
    /// By the position of the creative.
    pub creatives: Box<[Shown]>,
}

/// A creative as it is sent.
#[derive(Debug)]
pub struct Shown {
    /// Ready to be written.
    pub ad: Ad,
    /// What its caps count: of the campaign's creatives, this one.
    pub item: u64,
    /// All caps that count it: the campaign's and its own.
    pub caps: Box<[Cap]>,
    /// How long it plays, seconds; `None` where it does not.
    pub duration_s: Option<u32>,
}

impl Market {
    /// No campaigns.
    #[must_use]
    pub fn empty() -> Arc<Market> {
        let usd = CurrencyCode::new("USD").expect("a currency");
        let market = Market::build(usd, &[], Instant::from_ms(0));
        Arc::new(market.expect("no campaigns, no errors"))
    }

    /// The campaigns among `budgets`, with the hours of the week as clocks stand at `now`.
    ///
    /// # Errors
    /// Everything that is wrong, campaign by campaign.
    pub fn build(
        currency: CurrencyCode,
        budgets: &[Budget],
        now: Instant,
    ) -> Result<Market, Vec<MarketError>> {
        let mut builder = Builder::new(now);
        let mut errors = Vec::new();
        let mut compiled = Vec::new();
        for budget in budgets {
            let Some(campaign) = &budget.campaign else { continue };
            if campaign.currency != currency {
                errors.push(wrong_currency(campaign, currency));
                continue;
            }
            match builder.campaign(campaign, &budget.spec.zone) {
                Ok(one) => compiled.push(one),
                Err(full) => {
                    errors.push(MarketError { campaign: campaign.id, text: full.to_string() });
                }
            }
        }
        let Builder { dictionary, advertisers, categories, until, .. } = builder;
        let categories = categories.into_iter().collect();
        // Nobody sends keys of placements to collide: the secret may be known.
        let index = Index::build(currency, &compiled, 0);
        let index = match index {
            Ok(index) if errors.is_empty() => index,
            Ok(_) => return Err(errors),
            Err(more) => {
                errors.extend(more.iter().map(market_error));
                return Err(errors);
            }
        };
        let slots: Keys<u64> = index.ids().iter().copied().zip(0..).collect();
        let (offers, holds) = offers(&slots, budgets);
        let own = |offer: &Offer| offer.creatives.iter().any(|c| c.caps.len() > offer.caps.len());
        let creative_caps = offers.iter().map(own).collect();
        let segments = segments(&dictionary, budgets);
        let market = Market {
            index,
            dictionary,
            offers,
            holds,
            creative_caps,
            slots,
            segments,
            advertisers,
            categories,
            until,
        };
        Ok(market)
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
    /// If there is no such slot: slots come from the same market.
    #[must_use]
    pub fn offer(&self, slot: u32) -> &Offer {
        &self.offers[slot as usize]
    }

    /// How much of a price the campaign of a slot holds.
    ///
    /// # Panics
    /// If there is no such slot.
    #[inline]
    #[must_use]
    pub fn hold(&self, slot: u32) -> Hold {
        self.holds[slot as usize]
    }

    /// Has a creative of the campaign of a slot caps of its own, beside the campaign's?
    ///
    /// # Panics
    /// If there is no such slot.
    #[inline]
    #[must_use]
    pub fn has_creative_caps(&self, slot: u32) -> bool {
        self.creative_caps[slot as usize]
    }

    /// The slot of a campaign, if it is in this market.
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

    /// The keys of all categories that creatives have.
    #[must_use]
    pub fn categories(&self) -> &[u32] {
        &self.categories
    }

    /// How many campaigns there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.offers.len()
    }

    /// Are there none?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.offers.is_empty()
    }

    /// From then on clocks stand differently in some campaign's time zone: build it anew.
    #[must_use]
    pub fn until(&self) -> Instant {
        self.until
    }
}

/// Reads a budgets file and builds the market of its campaigns.
///
/// # Errors
/// Everything that is wrong, with the line that it stands on.
pub fn read(
    path: &Path,
    currency: CurrencyCode,
    now: Instant,
) -> Result<(Vec<Budget>, Market), Vec<LineError>> {
    let budgets = budgets::read(path)?;
    match Market::build(currency, &budgets, now) {
        Ok(market) => Ok((budgets, market)),
        Err(errors) => {
            let lines: HashMap<u64, usize> =
                budgets.iter().map(|budget| (budget.spec.id, budget.line)).collect();
            let place = |error: MarketError| LineError {
                file: path.display().to_string(),
                line: lines.get(&error.campaign).copied().unwrap_or(1),
                text: error.text,
            };
            Err(errors.into_iter().map(place).collect())
        }
    }
}

/// The auction's hour of an instant.
#[must_use]
pub fn hour_key(now: Instant) -> u32 {
    let quarter = i64::try_from(now.ms()).unwrap_or(0) / QUARTER_MS + EPOCH_QUARTER;
    u32::try_from(quarter.rem_euclid(QUARTERS)).unwrap_or(0)
}

fn wrong_currency(campaign: &campaigns::Campaign, expected: CurrencyCode) -> MarketError {
    let (found, expected) = (campaign.currency.as_str(), expected.as_str());
    let text = format!(
        "campaign {} bids in {found}, openrtb.currency is {expected}: all campaigns of a node bid in one currency",
        campaign.id
    );
    MarketError { campaign: campaign.id, text }
}

fn market_error(error: &CampaignError) -> MarketError {
    MarketError { campaign: error.campaign().unwrap_or(0), text: error.to_string() }
}

/// Turns texts into keys.
struct Builder {
    dictionary: Dictionary,
    advertisers: Families,
    categories: BTreeSet<u32>,
    until: Instant,
    now: Instant,
}

impl Builder {
    fn new(now: Instant) -> Builder {
        Builder {
            dictionary: Dictionary::default(),
            advertisers: Families::default(),
            categories: BTreeSet::new(),
            until: Instant::MAX,
            now,
        }
    }

    fn campaign(
        &mut self,
        campaign: &campaigns::Campaign,
        zone: &Zone,
    ) -> Result<auction::Campaign, DictionaryFull> {
        let modifier = |builder: &mut Builder, modifier: &campaigns::Modifier| {
            let segment = builder.key(Space::Segment, &modifier.segment)?;
            Ok(auction::Modifier { segment, factor: modifier.factor })
        };
        Ok(auction::Campaign {
            id: campaign.id,
            bid: Price::from_micros(campaign.bid_micros).unwrap_or(Price::ZERO),
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
                .map(|(id, creative)| self.creative(id, creative))
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
            targeting.lists_mut(Dimension::Hours).any = self.quarters(hours, zone);
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
    ) -> Result<auction::Creative, DictionaryFull> {
        let optional = |builder: &mut Builder, space, text: &Option<String>| {
            text.as_ref().map(|text| builder.key(space, text)).transpose()
        };
        let domains = self.keys(Space::Domain, &creative.adomain)?;
        let categories = self.keys(Space::Category, &creative.cat)?;
        for (domain, key) in creative.adomain.iter().zip(&domains) {
            self.add_advertiser(domain, *key);
        }
        self.categories.extend(&categories);
        Ok(auction::Creative {
            id,
            format: format(creative.format),
            sizes: creative.sizes.clone(),
            domains,
            categories,
            attributes: creative.attr.clone(),
            secure: creative.secure,
            duration_s: creative.duration_s.unwrap_or(0),
            bundle: optional(self, Space::Bundle, &creative.bundle)?,
            language: optional(self, Space::Language, &creative.language)?,
        })
    }

    /// Notes a domain under its name and under those above it, up to the last two labels: who blocks all of `com` means
    /// nobody's campaigns, and would make a long list of one word.
    fn add_advertiser(&mut self, domain: &str, key: u32) {
        let mut rest = Some(domain);
        while let Some(name) = rest.filter(|name| *name == domain || name.contains('.')) {
            let family = self.advertisers.entry(name.into()).or_default();
            if let Err(place) = family.binary_search(&key) {
                family.insert(place, key);
            }
            rest = name.split_once('.').map(|(_, above)| above);
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

fn offers(slots: &Keys<u64>, budgets: &[Budget]) -> (Box<[Offer]>, Box<[Hold]>) {
    let mut offers: Vec<Option<(Offer, Hold)>> = (0..slots.len()).map(|_| None).collect();
    for budget in budgets {
        let Some(campaign) = &budget.campaign else { continue };
        if let Some(slot) = slots.get(&campaign.id) {
            offers[*slot as usize] = Some((offer(campaign, &budget.spec.zone), campaign.hold));
        }
    }
    let offers = offers.into_iter().map(|offer| offer.expect("each slot is a campaign's"));
    let (offers, holds): (Vec<Offer>, Vec<Hold>) = offers.unzip();
    (offers.into(), holds.into())
}

fn offer(campaign: &campaigns::Campaign, zone: &Zone) -> Offer {
    let caps = |of: CapOf, item: u64| {
        let caps = campaign.caps.iter().filter(move |cap| cap.of == of);
        caps.map(move |cap| profile_cap(cap, item, zone))
    };
    let shown = |creative: &campaigns::Creative| {
        let item = creative_item(campaign.id, &creative.id);
        Shown {
            ad: Ad::new(&AdSpec {
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
            }),
            item,
            caps: caps(CapOf::Campaign, campaign.id).chain(caps(CapOf::Creative, item)).collect(),
            duration_s: creative.duration_s,
        }
    };
    Offer {
        seat: campaign.seat.as_deref().unwrap_or("").into(),
        cid: campaign.id.to_string().into(),
        caps: caps(CapOf::Campaign, campaign.id).collect(),
        creatives: campaign.creatives.iter().map(shown).collect(),
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

/// Days and weeks of caps begin with those of the budget's zone as its clocks stand in winter: a cap is no money, and a
/// day whose beginning moves would forget counts.
fn profile_cap(cap: &campaigns::Cap, item: u64, zone: &Zone) -> Cap {
    let window = match cap.per {
        CapWindow::Minute => Window::Minute,
        CapWindow::Hour => Window::Hour,
        CapWindow::Day => Window::Day,
        CapWindow::Week => Window::Week,
        CapWindow::Lifetime => Window::Lifetime,
    };
    let limit = u16::try_from(cap.max).unwrap_or(u16::MAX);
    Cap { item, window, limit, offset_minutes: standard_offset_min(zone) }
}

fn standard_offset_min(zone: &Zone) -> i16 {
    const JANUARY: u64 = 1_768_435_200_000;
    const JULY: u64 = 1_784_073_600_000;
    let offset = |ms| zone.offset_at(Instant::from_ms(ms)).offset_ms / 60_000;
    let minutes = offset(JANUARY).min(offset(JULY)).clamp(-DAY_MINUTES, DAY_MINUTES);
    i16::try_from(minutes).unwrap_or(0)
}

fn segments(dictionary: &Dictionary, budgets: &[Budget]) -> Keys<u32> {
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
