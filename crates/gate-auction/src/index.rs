//! The snapshot: all campaigns in the order of what they can bid, and who wants what.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use money::CurrencyCode;
use table::{Map, Secret, spread};

use crate::auction::Bidder;
use crate::campaign::{CAMPAIGNS_MAX, Campaign, CampaignError, Creative};
use crate::conditions;
use crate::keyset::KeySet;
use crate::price::{MODIFIER_ONE, Price};
use crate::record::{Record, Records, Span};
use crate::request::{Dimension, Format, Placement};
use crate::rows::{Rows, RowsBuilder};
use crate::signature::Signature;

/// Separates the hash of ties from other uses of hashed ids: paces, experiments.
const DOMAIN: u64 = u64::from_le_bytes(*b"tie/1\0\0\0");
/// A size that stands for "any creative of this format", in the keys of placements.
const EVERY_SIZE: (u16, u16) = (u16::MAX, u16::MAX);

/// What every campaign is asked for: one cache line. Those with the highest bounds lie side by side, and most auctions
/// read no others.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Entry {
    pub(crate) bid: Price,
    pub(crate) id: u64,
    pub(crate) seat: u32,
    pub(crate) advertiser: u32,
    pub(crate) span: Span,
    /// The caller's.
    note: Note,
    place: AtomicU32,
}

/// Words of a caller's own about a campaign, in the line that its candidates are asked from.
pub type Note = [u32; 5];

/// What few candidates are asked for.
#[derive(Clone, Copy, Debug)]
struct Starts {
    /// Where its creatives begin.
    creatives: u32,
    /// Where what it wants begins; it ends where the next one's begins.
    wishes: u32,
}

const _: () = assert!(size_of::<Entry>() == 64);

/// A campaign that is asked.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) slot: u32,
    pub(crate) entry: &'a Entry,
    pub(crate) record: Record<'a>,
}

impl Asked<'_> {
    pub(crate) fn bidder(&self) -> Bidder {
        Bidder { slot: self.slot, campaign: self.entry.id }
    }
}

/// A campaign that may use a deal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    pub(crate) signature: Signature,
    pub(crate) slot: u32,
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
    starts: Vec<Starts>,
    /// The highest that a campaign's modifiers can make of its bid. Slots are in this order.
    bounds: Vec<Price>,
    /// Segments for which some campaign modifies its bid.
    pub(crate) modified: KeySet,
    records: Records,
    /// What each wants, one after the other.
    wishes: Vec<u32>,
    creatives: Vec<Creative>,
    placement_keys: Map<u32>,
    pub(crate) rows: Rows,
    /// Deal to the campaigns that may use it, ascending by slot.
    deals: Vec<Vec<Member>>,
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
        builder.index.note_modified(campaigns);
        Ok(builder.finish())
    }

    fn note_modified(&mut self, campaigns: &[Campaign]) {
        let modifiers = campaigns.iter().flat_map(|campaign| &campaign.modifiers);
        let modified: Vec<u32> = modifiers.map(|modifier| modifier.segment).collect();
        self.modified.resize(self.sizes.segments);
        self.modified.fill(&modified);
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
        let Some(starts) = self.starts.get(slot as usize) else { return &[] };
        let start = starts.creatives as usize;
        &self.creatives[start..start + self.entry(slot).span.creatives()]
    }

    /// Takes what the caller wants to know of each slot's campaign while it is asked.
    pub fn annotate(&mut self, note: impl Fn(u32) -> Note) {
        (0..).zip(&mut self.entries).for_each(|(slot, entry)| entry.note = note(slot));
    }

    /// What [`Index::annotate`] took.
    ///
    /// # Panics
    /// If there is no such slot, here and below.
    #[inline]
    #[must_use]
    pub fn note(&self, slot: u32) -> &Note {
        &self.entry(slot).note
    }

    /// Where the caller has each campaign's own things, by its id: known later than the rest, and the same ever after.
    pub fn put(&self, place: impl Fn(u64) -> u32) {
        self.entries.iter().for_each(|entry| entry.place.store(place(entry.id), Relaxed));
    }

    /// What [`Index::put`] was told; 0 before.
    #[inline]
    #[must_use]
    pub fn place(&self, slot: u32) -> u32 {
        self.entry(slot).place.load(Relaxed)
    }

    #[inline]
    pub(crate) fn entry(&self, slot: u32) -> &Entry {
        &self.entries[slot as usize]
    }

    #[inline]
    pub(crate) fn bound(&self, slot: u32) -> Price {
        // Who goes on asks the entry next, so its own number costs nothing.
        let entry = self.entry(slot);
        if entry.span.has_modifiers() { self.bounds[slot as usize] } else { entry.bid }
    }

    #[inline]
    pub(crate) fn asked(&self, slot: u32) -> Asked<'_> {
        let entry = self.entry(slot);
        Asked { slot, entry, record: self.records.get(&entry.span) }
    }

    /// What a campaign wants, packed as [`conditions`].
    pub(crate) fn wishes(&self, slot: u32) -> &[u32] {
        let next = self.starts.get(slot as usize + 1);
        let end = next.map_or(self.wishes.len(), |next| next.wishes as usize);
        &self.wishes[self.starts[slot as usize].wishes as usize..end]
    }

    /// Asks for the memory of a campaign's entry.
    #[inline]
    pub(crate) fn prefetch_entry(&self, slot: u32) {
        table::prefetch(self.entry(slot));
    }

    /// Asks for the memory of a campaign's record, whose entry is near.
    #[inline]
    pub(crate) fn prefetch_record(&self, slot: u32) {
        self.records.prefetch(&self.entry(slot).span);
    }

    /// The campaigns that may use a deal.
    pub(crate) fn with_deal(&self, deal: u32) -> &[Member] {
        self.deals.get(deal as usize).map_or(&[], Vec::as_slice)
    }

    /// Adds the keys of the placements that serve one of an impression: creatives of just this size and those that fit
    /// all. Sizes that no campaign has are left out.
    pub(crate) fn placement_keys(&self, placements: &[Placement], keys: &mut Vec<u32>) {
        keys.clear();
        for &Placement { format, width, height } in placements {
            let sizes = match (width, height) {
                (0, 0) => [Some(EVERY_SIZE), None],
                size => [Some(size), Some((0, 0))],
            };
            for size in sizes.into_iter().flatten() {
                let key = self.placement_keys.get(placement_name(format, size));
                // The same list twice would only cost time.
                keys.extend(key.filter(|key| !keys.contains(key)));
            }
        }
    }
}

impl Entry {
    /// The hash that breaks ties. Different campaigns never have the same one for a request: all steps are bijections.
    #[inline]
    pub(crate) fn tie(&self, request: u64) -> u64 {
        spread(request ^ spread(self.id ^ DOMAIN))
    }
}

/// Checks the campaigns and puts those first that can bid the most.
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
    order.sort_by_key(|campaign| std::cmp::Reverse(bound(campaign)));
    Ok(order)
}

/// The highest price that the campaign can bid: a user in all segments that raise it and in none that lower it. Applying
/// a modifier keeps the order of prices, so no other user makes more of it.
fn bound(campaign: &Campaign) -> Price {
    let raising = campaign.modifiers.iter().filter(|modifier| modifier.factor > MODIFIER_ONE);
    raising.fold(campaign.bid, |bid, modifier| bid.scaled(modifier.factor))
}

fn placement_name(format: Format, (width, height): (u16, u16)) -> u64 {
    (format as u64) << 32 | u64::from(width) << 16 | u64::from(height)
}

struct Builder {
    index: Index,
    rows: RowsBuilder,
}

impl Builder {
    fn new(currency: CurrencyCode, campaigns: &[&Campaign], secret: u128) -> Builder {
        let index = Index {
            currency,
            ids: Vec::with_capacity(campaigns.len()),
            entries: Vec::with_capacity(campaigns.len()),
            starts: Vec::with_capacity(campaigns.len()),
            bounds: Vec::with_capacity(campaigns.len()),
            modified: KeySet::default(),
            records: Records::default(),
            wishes: Vec::new(),
            creatives: Vec::new(),
            placement_keys: Map::with_capacity(Secret::new(secret), 0),
            rows: RowsBuilder::default().build(),
            deals: Vec::new(),
            sizes: KeySizes::default(),
        };
        Builder { index, rows: RowsBuilder::default() }
    }

    fn add(&mut self, slot: u32, campaign: &Campaign) {
        let targeting = &campaign.targeting;
        let placements = self.placements_of(campaign);
        // Whoever bids with a deal only is found by its deals.
        if !targeting.deals_only {
            self.rows.add(slot, campaign, &placements);
        }
        let member = Member { signature: Signature::of_campaign(targeting, &placements), slot };
        targeting.deals.iter().for_each(|deal| self.add_deal(*deal, member));
        let entry = Entry {
            bid: campaign.bid,
            id: campaign.id,
            seat: campaign.seat,
            advertiser: campaign.advertiser,
            span: self.index.records.add(campaign),
            note: Note::default(),
            place: AtomicU32::new(0),
        };
        let starts = Starts {
            creatives: small(self.index.creatives.len()),
            wishes: small(self.index.wishes.len()),
        };
        conditions::push_wishes(targeting, &mut self.index.wishes);
        self.index.entries.push(entry);
        self.index.starts.push(starts);
        self.index.bounds.push(bound(campaign));
        self.index.ids.push(campaign.id);
        self.index.sizes.grow(campaign);
        self.index.creatives.extend_from_slice(&campaign.creatives);
    }

    fn add_deal(&mut self, deal: u32, member: Member) {
        let (deals, at) = (&mut self.index.deals, deal as usize);
        if deals.len() <= at {
            deals.resize_with(at + 1, Vec::new);
        }
        // A deal that a campaign names twice.
        if deals[at].last().is_none_or(|last| last.slot != member.slot) {
            deals[at].push(member);
        }
    }

    /// Keys of what the campaign's creatives fit, each once.
    fn placements_of(&mut self, campaign: &Campaign) -> Vec<u32> {
        let mut keys = Vec::new();
        for creative in &campaign.creatives {
            for &size in creative.sizes.iter().chain([&EVERY_SIZE]) {
                let name = placement_name(creative.format, size);
                // Fewer than 2^34 names exist and each takes a creative, so 32 bits are never used up.
                let next = small(self.index.placement_keys.len());
                let key = self.index.placement_keys.get(name).unwrap_or(next);
                self.index.placement_keys.insert(name, key);
                keys.push(key);
            }
        }
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    fn finish(self) -> Index {
        let mut entries = table::in_huge_pages(self.index.entries);
        let records = self.index.records.settle(entries.iter_mut().map(|entry| &mut entry.span));
        Index { rows: self.rows.build(), entries, records, ..self.index }
    }
}

/// At most 2^20 campaigns of 2^8 creatives: everything that is counted here fits.
fn small(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

impl KeySizes {
    fn grow(&mut self, campaign: &Campaign) {
        let size = |before: usize, keys: &mut dyn Iterator<Item = u32>| {
            keys.fold(before, |size, key| size.max(key as usize + 1))
        };
        let targeting = &campaign.targeting;
        let lists = targeting.lists(Dimension::Segments);
        let modified = campaign.modifiers.iter().map(|modifier| modifier.segment);
        let targeted = lists.any.iter().chain(&lists.none).chain(&targeting.segments_all);
        self.segments = size(self.segments, &mut targeted.copied().chain(modified));
        for creative in &campaign.creatives {
            self.categories = size(self.categories, &mut creative.categories.iter().copied());
            self.domains = size(self.domains, &mut creative.domains.iter().copied());
        }
    }
}

impl std::fmt::Debug for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Index of {} campaigns in {:?}", self.ids.len(), self.currency)
    }
}
