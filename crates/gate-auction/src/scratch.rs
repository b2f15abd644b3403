//! Work space that one worker reuses for every request.

use crate::bits::{Block, KeySet, Live, all_live};
use crate::index::{Index, KeySizes};
use crate::price::Price;
use crate::rank::Ranking;
use crate::request::{Dimension, Impression, Request};

/// Work space of auctions, one a worker. It grows to what the largest request needs; then nothing allocates.
#[derive(Debug, Default)]
pub struct Scratch {
    sizes: KeySizes,
    /// Work space of one dimension's bitmap.
    pub(crate) room: Vec<Block>,
    /// Who wants the request.
    pub(crate) live: Live,
    /// Who of these is a candidate for the impression.
    pub(crate) candidates: Live,
    pub(crate) segments: KeySet,
    pub(crate) categories_allowed: KeySet,
    pub(crate) categories_blocked: KeySet,
    pub(crate) advertisers_blocked: KeySet,
    pub(crate) place: Place,
    pub(crate) ranking: Ranking,
    /// Who got impressions of the request: slot, advertiser, group.
    pub(crate) taken: Vec<(u32, u32, u32)>,
    pub(crate) failed_groups: Vec<u32>,
}

/// What is worked out once an impression.
#[derive(Debug, Default)]
pub(crate) struct Place {
    pub(crate) placement_keys: Vec<u32>,
    pub(crate) deal_keys: Vec<u32>,
    /// Lowest price without a deal; `None` where the floor's currency has no rate.
    pub(crate) floor: Option<Price>,
    /// The same for each deal.
    pub(crate) deal_floors: Vec<Option<Price>>,
}

impl Scratch {
    /// Reads the request into sets and finds who wants it, impressions aside.
    pub(crate) fn start(&mut self, index: &Index, request: &Request<'_>) {
        if self.sizes != index.sizes {
            self.sizes = index.sizes;
            self.segments.resize(index.sizes.segments);
            self.categories_allowed.resize(index.sizes.categories);
            self.categories_blocked.resize(index.sizes.categories);
            self.advertisers_blocked.resize(index.sizes.domains);
        }
        self.segments.fill(request.segments);
        self.categories_allowed.fill(request.categories_allowed);
        self.categories_blocked.fill(request.categories_blocked);
        self.advertisers_blocked.fill(request.advertisers_blocked);
        self.taken.clear();
        self.failed_groups.clear();
        self.join(index, request);
    }

    fn join(&mut self, index: &Index, request: &Request<'_>) {
        let Scratch { room, live, place, .. } = self;
        all_live(index.blocks(), live);
        let [geo, others @ ..] = Dimension::ALL;
        index.dimensions[geo as usize].narrow(request.keys(geo), live, room);
        // Whoever fits none of the impressions need not be asked the rest. Campaigns of a country lie sorted by format,
        // so this empties most of its blocks.
        place.placement_keys.clear();
        for impression in request.impressions {
            index.placement_keys(impression.placements, &mut place.placement_keys);
        }
        index.placements.narrow(&place.placement_keys, live, room);
        for dimension in others {
            let keys = request.keys(dimension);
            index.dimensions[dimension as usize].narrow(keys, live, room);
        }
    }

    /// Works out what holds for one impression.
    pub(crate) fn enter(
        &mut self,
        index: &Index,
        request: &Request<'_>,
        impression: &Impression<'_>,
    ) {
        self.ranking.clear();
        let place = &mut self.place;
        place.placement_keys.clear();
        index.placement_keys(impression.placements, &mut place.placement_keys);
        let in_currency = |floor: crate::price::Floor| {
            let floor = floor.in_currency(index.currency, request.conversions)?;
            Some(floor.max(request.rules.price_min))
        };
        place.floor = in_currency(impression.floor);
        place.deal_keys.clear();
        place.deal_keys.extend(impression.deals.iter().map(|deal| deal.id));
        place.deal_floors.clear();
        place.deal_floors.extend(impression.deals.iter().map(|deal| in_currency(deal.floor)));
        let Scratch { room, live, candidates, place, .. } = self;
        candidates.clone_from(live);
        if request.impressions.len() > 1 {
            index.placements.narrow(&place.placement_keys, candidates, room);
        }
        index.deals.narrow(&place.deal_keys, candidates, room);
    }
}
