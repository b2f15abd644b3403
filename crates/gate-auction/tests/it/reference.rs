//! The auction once more, as short as can be: every campaign is asked everything, all are sorted, no index.

use gate_auction::{
    BidContext, Bidder, BlockedAttribute, Campaign, Creative, Deal, Dimension, DurationFloor,
    Exclusive, Format, Impression, Lists, Price, PriceRule, Pricing, Rank, Reason, Request, Timing,
};
use money::CurrencyCode;
use table::spread;

/// Who bids, with what, at what price.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bid {
    pub(crate) impression: usize,
    pub(crate) campaign: u64,
    pub(crate) deal: Option<usize>,
    pub(crate) price: Price,
}

/// Ranked: class, score, hash of ties, the campaign, its deal, its floor.
struct Offer<'a> {
    class: u8,
    score: u128,
    price: Price,
    tie: u64,
    campaign: &'a Campaign,
    deal: Option<usize>,
    floor: Price,
}

/// What the index must find: everybody who wants the request and has something that fits.
pub(crate) fn wants(
    campaign: &Campaign,
    request: &Request<'_>,
    impression: &Impression<'_>,
) -> bool {
    let targeting = &campaign.targeting;
    let dimension = |of: &Dimension| is_wanted(targeting.lists(*of), request, *of);
    let offered = |deal: &Deal<'_>| targeting.deals.contains(&deal.id);
    Dimension::ALL.iter().all(dimension)
        && targeting.segments_all.iter().all(|segment| request.segments.contains(segment))
        && campaign.creatives.iter().any(|creative| fits(creative, impression))
        && (!targeting.deals_only || impression.deals.iter().any(offered))
}

/// Does what the request is, or what is not known of it, agree with these lists?
pub(crate) fn is_wanted(lists: &Lists, request: &Request<'_>, dimension: Dimension) -> bool {
    let possible = match dimension {
        Dimension::Categories => request.categories_possible,
        _ => &[],
    };
    let may_be = possible.iter().any(|key| lists.none.contains(key));
    let is_known = !request.unknown.contains(&dimension) && !may_be;
    lists.admit(request.keys(dimension)) && (lists.none.is_empty() || is_known)
}

fn fits(creative: &Creative, impression: &Impression<'_>) -> bool {
    let fits = |size| impression.placements.iter().any(|place| place.takes(creative.format, size));
    creative.sizes.iter().any(|size| fits(*size))
}

/// What stands behind the auction here: by a hash of the campaign some bid less, some do not bid, some
/// cannot pay, and some creatives may not be shown.
#[derive(Clone, Copy)]
pub(crate) struct Moods(pub(crate) u64);

impl Moods {
    /// Everybody is in a good mood.
    pub(crate) const NONE: Moods = Moods(0);

    fn of(self, campaign: u64) -> u64 {
        if self.0 == 0 { 7 } else { spread(self.0 ^ campaign) % 8 }
    }

    fn offers(self, campaign: u64, bid: Price) -> Option<Price> {
        match self.of(campaign) {
            0 => None,
            1 | 2 => Price::from_micros(bid.micros() / 2),
            _ => Some(bid),
        }
    }

    fn pays(self, campaign: u64) -> bool {
        self.of(campaign) != 3
    }

    fn shows(self, campaign: u64, creative: usize) -> bool {
        self.0 == 0 || !spread(self.0 ^ spread(campaign ^ creative as u64)).is_multiple_of(4)
    }
}

impl BidContext for Moods {
    fn price(&mut self, bidder: Bidder, bid: Price) -> Result<Price, Reason> {
        self.peek_price(bidder, bid)
    }

    fn able(&mut self, bidder: Bidder, bid: Price) -> Result<(), Reason> {
        self.peek_able(bidder, bid)
    }

    fn may_show(&self, bidder: Bidder, _: usize, creative: usize) -> Result<(), Reason> {
        if self.shows(bidder.campaign, creative) { Ok(()) } else { Err(Reason::Cap) }
    }

    fn peek_price(&self, bidder: Bidder, bid: Price) -> Result<Price, Reason> {
        self.offers(bidder.campaign, bid).ok_or(Reason::Paced)
    }

    fn peek_able(&self, bidder: Bidder, _: Price) -> Result<(), Reason> {
        if self.pays(bidder.campaign) { Ok(()) } else { Err(Reason::Purse) }
    }
}

/// All campaigns, their currency and their moods.
#[derive(Clone, Copy)]
pub(crate) struct House<'a> {
    pub(crate) campaigns: &'a [Campaign],
    pub(crate) own: CurrencyCode,
    pub(crate) moods: Moods,
}

/// The bids for an impression, best first.
pub(crate) fn bids(
    house: House<'_>,
    request: &Request<'_>,
    at: usize,
    taken: &[&Campaign],
) -> Vec<Bid> {
    let impression = &request.impressions[at];
    let mut offers: Vec<Offer<'_>> = house
        .campaigns
        .iter()
        .filter(|campaign| wants(campaign, request, impression))
        .filter(|campaign| !is_excluded(campaign, request, taken))
        .filter_map(|campaign| offer(house, campaign, request, at))
        .filter(|offer| house.moods.pays(offer.campaign.id))
        .collect();
    offers.sort_by_key(|offer| std::cmp::Reverse((offer.class, offer.score, offer.tie)));
    let most = request.rules.bids_per_impression_max.min(offers.len());
    (0..most).map(|nth| bid(request, at, &offers[nth..])).collect()
}

/// The bid of the first of these.
fn bid(request: &Request<'_>, at: usize, offers: &[Offer<'_>]) -> Bid {
    let best = &offers[0];
    let rival = offers.get(1).filter(|other| other.class == best.class);
    let second = rival.map_or(0, |offer| offer.price.micros() + 1);
    let price = match kind(request, best.deal.map(|deal| &request.impressions[at].deals[deal])) {
        PriceRule::First => best.price,
        PriceRule::Fixed => best.floor,
        PriceRule::SecondPlus => {
            let second = second.max(best.floor.micros()).min(best.price.micros());
            Price::from_micros(second).unwrap()
        }
    };
    Bid { impression: at, campaign: best.campaign.id, deal: best.deal, price }
}

/// All impressions, groups whole or not at all.
pub(crate) fn fill(house: House<'_>, request: &Request<'_>) -> Vec<Bid> {
    let (mut bids_made, mut failed): (Vec<Bid>, Vec<u32>) = (Vec::new(), Vec::new());
    for (at, impression) in request.impressions.iter().enumerate() {
        if failed.contains(&impression.group) {
            continue;
        }
        let find = |id: u64| house.campaigns.iter().find(|campaign| campaign.id == id).unwrap();
        let of = |bid: &Bid| find(bid.campaign);
        let taken: Vec<&Campaign> = bids_made.iter().map(of).collect();
        let made = bids(house, request, at, &taken);
        if made.is_empty() && impression.group != 0 {
            failed.push(impression.group);
            bids_made.retain(|bid| request.impressions[bid.impression].group != impression.group);
        }
        bids_made.extend(made);
    }
    bids_made
}

fn is_excluded(campaign: &Campaign, request: &Request<'_>, taken: &[&Campaign]) -> bool {
    taken.iter().any(|other| match request.rules.exclusive {
        Exclusive::No => false,
        Exclusive::Campaign => other.id == campaign.id,
        Exclusive::Advertiser => other.advertiser == campaign.advertiser,
    })
}

fn kind(request: &Request<'_>, deal: Option<&Deal<'_>>) -> PriceRule {
    let at = deal.and_then(|deal| deal.at).unwrap_or(request.at);
    match (request.rules.pricing, at) {
        (_, PriceRule::Fixed) | (Pricing::ByAt, _) => at,
        (Pricing::First, _) => PriceRule::First,
        (Pricing::Second, _) => PriceRule::SecondPlus,
    }
}

fn offer<'a>(
    house: House<'_>,
    campaign: &'a Campaign,
    request: &Request<'_>,
    at: usize,
) -> Option<Offer<'a>> {
    let impression = &request.impressions[at];
    let seat_of = |list: &[u32]| list.is_empty() || list.contains(&campaign.seat);
    if !seat_of(request.seats_allowed) || request.seats_blocked.contains(&campaign.seat) {
        return None;
    }
    let mut bid = i128::from(campaign.bid.micros());
    for modifier in &campaign.modifiers {
        if request.segments.contains(&modifier.segment) {
            bid = (bid * i128::from(modifier.factor) / 10_000).min(i128::from(Price::MAX.micros()));
        }
    }
    let value = Price::from_micros(i64::try_from(bid).unwrap()).unwrap();
    let bid = house.moods.offers(campaign.id, value)?;
    let tie = tie(request.id_hash, campaign.id);
    let usable = |at: usize| {
        let deal = &impression.deals[at];
        campaign.targeting.deals.contains(&deal.id) && seat_of(deal.seats)
    };
    let open = !impression.private && !campaign.targeting.deals_only;
    let deals = (0..impression.deals.len()).filter(|at| usable(*at)).map(Some);
    let (deal, floor) = deals.chain(open.then_some(None)).find_map(|deal| {
        let deal_at = deal.map(|at| &impression.deals[at]);
        // The creatives' turn begins where a hash says.
        let (count, start) = (campaign.creatives.len(), spread(tie ^ at as u64));
        let first = usize::try_from(start % count as u64).unwrap();
        let mut turn = (0..count).map(|n| (first + n) % count);
        turn.find_map(|position| {
            let creative = &campaign.creatives[position];
            let floor = floor(creative, house.own, request, impression, deal_at)?;
            let shown = floor <= bid
                && shows(creative, deal_at, request, impression)
                && house.moods.shows(campaign.id, position);
            shown.then_some((deal, floor))
        })
    })?;
    let class = match deal.map(|at| impression.deals[at].guaranteed) {
        Some(true) => 2,
        Some(false) if request.rules.deals_first => 1,
        _ => 0,
    };
    let fixed = kind(request, deal.map(|at| &impression.deals[at])) == PriceRule::Fixed;
    let price = if fixed { floor } else { bid };
    let [worth, offered] = [value, price].map(|price| u128::from(price.micros().unsigned_abs()));
    let score = match request.rules.rank {
        Rank::Bid => offered,
        Rank::Value => worth * offered.pow(3),
    };
    Some(Offer { class, score, price, tie, campaign, deal, floor })
}

/// No rates in these tests: a floor in another currency is not met.
fn floor(
    creative: &Creative,
    own: CurrencyCode,
    request: &Request<'_>,
    impression: &Impression<'_>,
    deal: Option<&Deal<'_>>,
) -> Option<Price> {
    let plays = matches!(creative.format, Format::Video | Format::Audio);
    let seconds = i64::from(creative.duration_s);
    let timing = impression.timings.iter().find(|timing| timing.format == creative.format);
    let by_duration = |per_second: Option<i64>, floors: &[DurationFloor]| {
        let fits = |floor: &&DurationFloor| {
            seconds == 0 || i64::from(floor.min_s) <= seconds && seconds <= i64::from(floor.max_s)
        };
        let ranges = floors.iter().filter(fits).map(|floor| floor.micros);
        ranges.chain(per_second.map(|micros| micros * seconds)).max()
    };
    let (stated, timed) = match deal {
        Some(deal) => {
            let timed = by_duration(deal.floor_per_second_micros, deal.floors);
            (deal.floor, timed.map(|micros| micros.max(deal.floor.micros)))
        }
        None => {
            let timed = timing
                .and_then(|timing| by_duration(timing.floor_per_second_micros, timing.floors));
            (impression.floor, timed)
        }
    };
    let micros = timed.filter(|_| plays).unwrap_or(stated.micros);
    let micros = micros.max(request.rules.price_min.micros());
    Price::from_micros(micros).filter(|_| stated.currency == own)
}

fn shows(
    creative: &Creative,
    deal: Option<&Deal<'_>>,
    request: &Request<'_>,
    impression: &Impression<'_>,
) -> bool {
    let only_for = deal.map_or(&[][..], |deal| deal.domains);
    let within = |keys: &[u32], allowed: &[u32]| {
        allowed.is_empty() || (!keys.is_empty() && keys.iter().all(|key| allowed.contains(key)))
    };
    let language = creative.language.as_slice();
    fits(creative, impression)
        && lasts(creative, deal, impression)
        && (creative.secure || !impression.secure)
        && !creative.categories.iter().any(|key| request.categories_blocked.contains(key))
        && !creative.domains.iter().any(|key| request.advertisers_blocked.contains(key))
        && !creative.attributes.iter().any(|attribute| {
            let blocked = BlockedAttribute { format: creative.format, attribute: *attribute };
            impression.attributes_blocked.contains(&blocked)
        })
        && !creative.bundle.is_some_and(|bundle| request.bundles_blocked.contains(&bundle))
        && (language.is_empty() || within(language, request.languages_allowed))
        && within(&creative.categories, request.categories_allowed)
        && within(&creative.domains, only_for)
}

fn lasts(creative: &Creative, deal: Option<&Deal<'_>>, impression: &Impression<'_>) -> bool {
    if !matches!(creative.format, Format::Video | Format::Audio) {
        return true;
    }
    let seconds = creative.duration_s;
    let by_second = deal.is_some_and(|deal| deal.floor_per_second_micros.is_some());
    let mut timings = impression.timings.iter().filter(|timing| timing.format == creative.format);
    let fine = |timing: &Timing<'_>| {
        let open_floor = timing.floor_per_second_micros.is_some();
        let anything = timing.min_s == 0 && timing.max_s == u32::MAX && timing.exact_s.is_empty();
        if seconds == 0 {
            return anything && !open_floor;
        }
        let exact = timing.exact_s.is_empty() || timing.exact_s.contains(&seconds);
        timing.min_s <= seconds && seconds <= timing.max_s && exact
    };
    timings.all(fine) && (seconds > 0 || !by_second)
}

/// Pinned here too: a recorded run must replay.
fn tie(request: u64, campaign: u64) -> u64 {
    spread(request ^ spread(campaign ^ u64::from_le_bytes(*b"tie/1\0\0\0")))
}
