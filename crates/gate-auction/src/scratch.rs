//! Work space that one worker reuses for every request.

use std::collections::BinaryHeap;

use crate::index::{Index, KeySizes};
use crate::keyset::KeySet;
use crate::price::{Floor, Price};
use crate::rank::{Class, Offer};
use crate::request::{DurationFloor, Impression, Request};
use crate::rows::Scan;
use crate::signature::Signature;

/// Work space of auctions, one per worker. It grows to what the largest request needs; then nothing allocates.
#[derive(Debug, Default)]
pub struct Scratch {
    sizes: KeySizes,
    pub(crate) segments: KeySet,
    /// Does some campaign modify its bid for one of them?
    pub(crate) modifies: bool,
    pub(crate) categories_allowed: KeySet,
    pub(crate) categories_blocked: KeySet,
    pub(crate) advertisers_blocked: KeySet,
    placements: Vec<u32>,
    pub(crate) place: Place,
    pub(crate) scan: Scan,
    /// Found and not given out yet.
    pub(crate) offers: BinaryHeap<Offer>,
    /// Who may use one of the impression's guaranteed deals, and who one of the others and none of these.
    pub(crate) dealers: [Dealers; 2],
    /// A survey's: who may want the impression.
    pub(crate) found: Vec<u32>,
    /// Who got impressions of the request.
    pub(crate) taken: Vec<Taken>,
    pub(crate) failed_groups: Vec<u32>,
}

/// The classes of [`Scratch::dealers`], the highest first.
pub(crate) const DEALING: [Class; 2] = [Class::Guaranteed, Class::Deal];

/// Who may use one of some deals, and may want the impression.
#[derive(Debug, Default)]
pub(crate) struct Dealers {
    /// Ascending.
    pub(crate) slots: Vec<u32>,
    /// How many were asked.
    pub(crate) asked: usize,
}

impl Dealers {
    fn clear(&mut self) {
        self.slots.clear();
        self.asked = 0;
    }

    fn fill(&mut self, index: &Index, deals: impl Iterator<Item = u32>, signature: Signature) {
        for deal in deals {
            let members = index.with_deal(deal).iter();
            let may_want = members.filter(|member| member.signature.meets(signature));
            self.slots.extend(may_want.map(|member| member.slot));
        }
        self.slots.sort_unstable();
        self.slots.dedup();
    }

    /// The first who was not asked.
    #[inline]
    pub(crate) fn left(&self) -> Option<&u32> {
        self.slots.get(self.asked)
    }

    #[inline]
    fn has(&self, slot: u32) -> bool {
        !self.slots.is_empty() && self.slots.binary_search(&slot).is_ok()
    }
}

/// A bid that was accepted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub(crate) impression: usize,
    pub(crate) slot: u32,
    pub(crate) advertiser: u32,
    pub(crate) group: u32,
}

/// What is worked out once per impression.
#[derive(Debug, Default)]
pub(crate) struct Place {
    /// Lowest price without a deal, before durations; `None` where the floor's currency has no rate.
    pub(crate) floor: Option<Price>,
    /// The same for each deal.
    pub(crate) deal_floors: Vec<Option<Price>>,
    /// A floor depends on how long a creative plays.
    pub(crate) by_duration: bool,
}

impl Scratch {
    /// Reads the request.
    pub(crate) fn start(&mut self, index: &Index, request: &Request<'_>) {
        if self.sizes != index.sizes {
            self.sizes = index.sizes;
            self.segments.resize(index.sizes.segments);
            self.categories_allowed.resize(index.sizes.categories);
            self.categories_blocked.resize(index.sizes.categories);
            self.advertisers_blocked.resize(index.sizes.domains);
        }
        self.segments.fill(request.segments);
        self.modifies = request.segments.iter().any(|segment| index.modified.has(*segment));
        self.categories_allowed.fill(request.categories_allowed);
        self.categories_blocked.fill(request.categories_blocked);
        self.advertisers_blocked.fill(request.advertisers_blocked);
        self.scan.request(&index.rows, request);
        self.taken.clear();
        self.failed_groups.clear();
        self.offers.clear();
    }

    /// Works out what holds for one impression. Nobody was found yet, and nobody will be before [`Scratch::begin_scan`].
    pub(crate) fn enter(
        &mut self,
        index: &Index,
        request: &Request<'_>,
        impression: &Impression<'_>,
    ) {
        self.offers.clear();
        self.scan.stop();
        let is_timed = |per_second: Option<i64>, floors: &[DurationFloor]| {
            per_second.is_some() || !floors.is_empty()
        };
        let (deals, timings) = (impression.deals, impression.timings);
        self.place.by_duration =
            deals.iter().any(|deal| is_timed(deal.floor_per_second_micros, deal.floors))
                || timings.iter().any(|one| is_timed(one.floor_per_second_micros, one.floors));
        self.place.floor = floor(index, request, impression.floor);
        let floors = impression.deals.iter().map(|deal| floor(index, request, deal.floor));
        self.place.deal_floors.clear();
        self.place.deal_floors.extend(floors);
        index.placement_keys(impression.placements, &mut self.placements);
        self.gather_dealers(index, request, impression);
    }

    fn gather_dealers(
        &mut self,
        index: &Index,
        request: &Request<'_>,
        impression: &Impression<'_>,
    ) {
        self.dealers.iter_mut().for_each(Dealers::clear);
        if impression.deals.is_empty() {
            return;
        }
        let signature = Signature::of_request(request).placed(&self.placements);
        let [guaranteed, others] = &mut self.dealers;
        let deals = |are_guaranteed| {
            let deals = impression.deals.iter();
            deals.filter(move |deal| deal.guaranteed == are_guaranteed).map(|deal| deal.id)
        };
        guaranteed.fill(index, deals(true), signature);
        others.fill(index, deals(false), signature);
        others.slots.retain(|slot| !guaranteed.has(*slot));
    }

    /// Has no campaign a creative for any place of the impression?
    pub(crate) fn nothing_fits(&self) -> bool {
        self.placements.is_empty()
    }

    /// May the campaign use one of the impression's deals?
    #[inline]
    pub(crate) fn is_dealer(&self, slot: u32) -> bool {
        self.dealers.iter().any(|dealers| dealers.has(slot))
    }

    /// From now on the scan finds everybody who wants the impression and does not depend on a deal; with `allowed` only
    /// those that the request may allow.
    pub(crate) fn begin_scan(&mut self, index: &Index, request: &Request<'_>, allowed: bool) {
        self.scan.begin(&index.rows, request, Some(&self.placements), allowed);
    }

    /// The same, whatever creatives they have.
    pub(crate) fn begin_scan_of_all(&mut self, index: &Index, request: &Request<'_>) {
        self.scan.begin(&index.rows, request, None, true);
    }
}

/// A floor in the index's currency, at least the lowest price that is worth sending.
pub(crate) fn floor(index: &Index, request: &Request<'_>, floor: Floor) -> Option<Price> {
    let floor = floor.in_currency(index.currency, request.conversions)?;
    Some(floor.max(request.rules.price_min))
}
