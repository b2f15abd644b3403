//! The snapshot: all campaigns, and who is a candidate for what.

use money::CurrencyCode;
use table::{Map, Secret};

use crate::bits::{Admission, DimensionBuilder, blocks_for};
use crate::campaign::{CAMPAIGNS_MAX, Campaign, CampaignError, Creative, Modifier};
use crate::key::{UNKNOWN, mix};
use crate::price::Price;
use crate::request::{Dimension, Format, Placement};

/// Separates the hash of ties from other uses of hashed ids: paces, experiments.
const DOMAIN: u64 = u64::from_le_bytes(*b"tie/1\0\0\0");
/// A size that stands for "any creative of this format", in the keys of placements.
const EVERY_SIZE: (u16, u16) = (u16::MAX, u16::MAX);
/// No [`Extra`].
const NOTHING_MORE: u32 = u32::MAX;

/// What every candidate is asked for. Four fit a cache line, and those of 50,000 campaigns the second-level cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) bid: Price,
    pub(crate) seat: u32,
    extra: u32,
}

const _: () = assert!(size_of::<Entry>() == 16);

impl Entry {
    /// Has it no [`Extra`]?
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.extra == NOTHING_MORE
    }
}

/// What only the best few are asked for.
#[derive(Clone, Copy, Debug)]
struct Rest {
    /// The id mixed, for ties.
    salt: u64,
    advertiser: u32,
    creatives: u32,
    creatives_count: u32,
}

/// What only some campaigns have.
#[derive(Debug)]
pub(crate) struct Extra {
    pub(crate) segments_all: Box<[u32]>,
    pub(crate) modifiers: Box<[Modifier]>,
    pub(crate) deals: Box<[u32]>,
    pub(crate) deals_only: bool,
}

/// How large the sets of a request must be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeySizes {
    pub(crate) segments: usize,
    pub(crate) categories: usize,
    pub(crate) domains: usize,
}

/// An immutable snapshot of all campaigns whose bids are in one currency. Build a new one when they change, and share
/// it between threads.
///
/// Campaigns get a **slot**, their position in [`Index::ids`]: dense numbers for the caller's own arrays. A slot means
/// nothing in another snapshot.
pub struct Index {
    pub(crate) currency: CurrencyCode,
    ids: Vec<u64>,
    entries: Vec<Entry>,
    rest: Vec<Rest>,
    extras: Vec<Extra>,
    creatives: Vec<Creative>,
    pub(crate) dimensions: Vec<Admission>,
    pub(crate) placements: Admission,
    placement_keys: Map<u32>,
    pub(crate) deals: Admission,
    pub(crate) sizes: KeySizes,
}

impl Index {
    /// Builds a snapshot. The order of the campaigns does not matter. `secret` is for a hash table; any number will do
    /// in tests, and no answer depends on it.
    ///
    /// # Errors
    /// Everything that is wrong with the campaigns; then there is no snapshot, and the one before should stay.
    pub fn build(
        currency: CurrencyCode,
        campaigns: &[Campaign],
        secret: u128,
    ) -> Result<Index, Vec<CampaignError>> {
        let order = in_order(campaigns)?;
        let mut builder = Builder::new(currency, &order, secret);
        for (slot, campaign) in (0..).zip(&order) {
            builder.add(slot, campaign);
        }
        Ok(builder.finish())
    }

    /// The campaigns' ids, in the order of slots.
    #[must_use]
    pub fn ids(&self) -> &[u64] {
        &self.ids
    }

    /// What all prices are in.
    #[must_use]
    pub fn currency(&self) -> CurrencyCode {
        self.currency
    }

    /// The creatives of a slot, in the order of the campaign; empty where there is no such slot.
    #[must_use]
    pub fn creatives(&self, slot: u32) -> &[Creative] {
        let Some(rest) = self.rest.get(slot as usize) else { return &[] };
        let start = rest.creatives as usize;
        &self.creatives[start..start + rest.creatives_count as usize]
    }

    pub(crate) fn blocks(&self) -> usize {
        blocks_for(self.entries.len())
    }

    #[inline]
    pub(crate) fn entry(&self, slot: u32) -> &Entry {
        &self.entries[slot as usize]
    }

    pub(crate) fn advertiser(&self, slot: u32) -> u32 {
        self.rest[slot as usize].advertiser
    }

    #[inline]
    pub(crate) fn extra(&self, entry: &Entry) -> Option<&Extra> {
        self.extras.get(entry.extra as usize)
    }

    /// The hash that breaks ties. Different campaigns never have the same one for a request: all steps are bijections.
    #[inline]
    pub(crate) fn tie(&self, request: u64, slot: u32) -> u64 {
        mix(request ^ self.rest[slot as usize].salt)
    }

    /// Adds the keys of the placements that serve one of an impression: creatives of just this size and those that fit all.
    pub(crate) fn placement_keys(&self, placements: &[Placement], keys: &mut Vec<u32>) {
        for &Placement { format, width, height } in placements {
            let sizes = match (width, height) {
                (0, 0) => [EVERY_SIZE, EVERY_SIZE],
                size => [size, (0, 0)],
            };
            let found = sizes.map(|size| self.placement_keys.get(placement_key(format, size)));
            keys.push(found[0].unwrap_or(UNKNOWN));
            // The same key twice would only cost time.
            if found[0] != found[1] {
                keys.push(found[1].unwrap_or(UNKNOWN));
            }
        }
    }
}

/// Checks the campaigns and puts similar ones side by side, so that most blocks hold nobody for a given request.
fn in_order(campaigns: &[Campaign]) -> Result<Vec<&Campaign>, Vec<CampaignError>> {
    if campaigns.len() > CAMPAIGNS_MAX {
        return Err(vec![CampaignError::TooMany { found: campaigns.len() }]);
    }
    let mut errors = Vec::new();
    campaigns.iter().for_each(|campaign| campaign.check(&mut errors));
    let mut order: Vec<&Campaign> = campaigns.iter().collect();
    order.sort_by_key(|campaign| campaign.id);
    let twice = order.windows(2).filter(|pair| pair[0].id == pair[1].id);
    errors.extend(twice.map(|pair| CampaignError::Duplicate { id: pair[0].id }));
    if !errors.is_empty() {
        return Err(errors);
    }
    let first = |campaign: &Campaign, of| campaign.targeting.lists(of).any.first().copied();
    order.sort_by_cached_key(|campaign| {
        let creative = &campaign.creatives[0];
        let devices = first(campaign, Dimension::Devices);
        let oses = first(campaign, Dimension::Oses);
        (
            first(campaign, Dimension::Geo),
            creative.format,
            creative.sizes[0],
            devices,
            oses,
            campaign.id,
        )
    });
    Ok(order)
}

fn placement_key(format: Format, (width, height): (u16, u16)) -> u64 {
    (format as u64) << 32 | u64::from(width) << 16 | u64::from(height)
}

struct Builder {
    index: Index,
    dimensions: Vec<DimensionBuilder>,
    placements: DimensionBuilder,
    deals: DimensionBuilder,
    /// How many campaigns demand a segment, by segment.
    demand: Vec<u32>,
}

impl Builder {
    fn new(currency: CurrencyCode, campaigns: &[&Campaign], secret: u128) -> Builder {
        let builder = || DimensionBuilder::new(campaigns.len());
        let index = Index {
            currency,
            ids: Vec::with_capacity(campaigns.len()),
            entries: Vec::with_capacity(campaigns.len()),
            rest: Vec::with_capacity(campaigns.len()),
            extras: Vec::new(),
            creatives: Vec::new(),
            dimensions: Vec::new(),
            placements: DimensionBuilder::new(0).build(),
            placement_keys: Map::with_capacity(Secret::new(secret), 0),
            deals: DimensionBuilder::new(0).build(),
            sizes: KeySizes::default(),
        };
        let dimensions = Dimension::ALL.map(|_| builder()).into();
        let demand = demand(campaigns);
        Builder { index, dimensions, placements: builder(), deals: builder(), demand }
    }

    fn add(&mut self, slot: u32, campaign: &Campaign) {
        for (builder, dimension) in self.dimensions.iter_mut().zip(Dimension::ALL) {
            let lists = campaign.targeting.lists(dimension);
            let any = match dimension {
                Dimension::Segments if lists.any.is_empty() => rarest(&self.demand, campaign),
                _ => &lists.any[..],
            };
            builder.add(slot, any.is_empty(), any, &lists.none);
        }
        let targeting = &campaign.targeting;
        self.deals.add(slot, !targeting.deals_only, &targeting.deals, &[]);
        let keys = self.placements_of(campaign);
        self.placements.add(slot, false, &keys, &[]);
        let extra = self.extra(campaign);
        self.index.entries.push(Entry { bid: campaign.bid, seat: campaign.seat, extra });
        self.index.rest.push(Rest {
            salt: mix(campaign.id ^ DOMAIN),
            advertiser: campaign.advertiser,
            creatives: small(self.index.creatives.len()),
            creatives_count: small(campaign.creatives.len()),
        });
        self.index.ids.push(campaign.id);
        self.index.sizes.grow(campaign);
        self.index.creatives.extend_from_slice(&campaign.creatives);
    }

    /// Keys of what the campaign's creatives fit, each once.
    fn placements_of(&mut self, campaign: &Campaign) -> Vec<u32> {
        let mut keys = Vec::new();
        for creative in &campaign.creatives {
            for &size in creative.sizes.iter().chain([&EVERY_SIZE]) {
                let name = placement_key(creative.format, size);
                // Fewer than 2^34 names exist and each takes a creative, so 32 bits are never used up.
                let next = u32::try_from(self.index.placement_keys.len()).unwrap_or(UNKNOWN - 1);
                let key = self.index.placement_keys.get(name).unwrap_or(next);
                self.index.placement_keys.insert(name, key);
                keys.push(key);
            }
        }
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Where the campaign's [`Extra`] is, if it needs one.
    fn extra(&mut self, campaign: &Campaign) -> u32 {
        let targeting = &campaign.targeting;
        let plain = targeting.segments_all.is_empty()
            && targeting.deals.is_empty()
            && campaign.modifiers.is_empty();
        if plain {
            return NOTHING_MORE;
        }
        self.index.extras.push(Extra {
            segments_all: targeting.segments_all.clone().into(),
            modifiers: campaign.modifiers.clone().into(),
            deals: targeting.deals.clone().into(),
            deals_only: targeting.deals_only,
        });
        small(self.index.extras.len() - 1)
    }

    fn finish(self) -> Index {
        let Builder { index, dimensions, placements, deals, .. } = self;
        let dimensions = dimensions.into_iter().map(DimensionBuilder::build).collect();
        Index { dimensions, placements: placements.build(), deals: deals.build(), ..index }
    }
}

/// At most 2^20 campaigns of 2^8 creatives: everything that is counted here fits.
fn small(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

impl KeySizes {
    fn grow(&mut self, campaign: &Campaign) {
        let size =
            |keys: &mut dyn Iterator<Item = u32>| keys.max().map_or(0, |key| key as usize + 1);
        let modified = campaign.modifiers.iter().map(|modifier| modifier.segment);
        let segments = campaign.targeting.segments_all.iter().copied().chain(modified);
        self.segments = self.segments.max(size(&mut { segments }));
        for creative in &campaign.creatives {
            self.categories = self.categories.max(size(&mut creative.categories.iter().copied()));
            self.domains = self.domains.max(size(&mut creative.domains.iter().copied()));
        }
    }
}

/// How many campaigns demand each segment.
fn demand(campaigns: &[&Campaign]) -> Vec<u32> {
    let mut demand = Vec::new();
    for &segment in campaigns.iter().flat_map(|campaign| &campaign.targeting.segments_all) {
        let at = segment as usize;
        if demand.len() <= at {
            demand.resize(at + 1, 0);
        }
        demand[at] += 1;
    }
    demand
}

/// A campaign that demands all of some segments is found by the rarest of them; the others are verified then.
fn rarest<'a>(demand: &[u32], campaign: &'a Campaign) -> &'a [u32] {
    let all = &campaign.targeting.segments_all;
    let rarest = (0..all.len()).min_by_key(|at| demand.get(all[*at] as usize));
    rarest.map_or(&[], |at| &all[at..=at])
}

impl std::fmt::Debug for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Index of {} campaigns in {:?}", self.ids.len(), self.currency)
    }
}
