//! The auction once more, as short as can be: every campaign is asked everything, all are sorted, no index.

use gate_auction::{
    At, Campaign, Creative, Deal, Dimension, Exclusive, Floor, Impression, Price, Pricing, Request,
};
use money::CurrencyCode;

/// Who bids, with what, at what price.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bid {
    pub(crate) impression: usize,
    pub(crate) campaign: u64,
    pub(crate) deal: Option<usize>,
    pub(crate) price: Price,
}

/// Ranked: price, hash of ties, the campaign, its deal, its floor.
struct Offer<'a> {
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
    let dimension = |of: &Dimension| targeting.lists(*of).admit(request.keys(*of));
    let offered = |deal: &Deal<'_>| targeting.deals.contains(&deal.id);
    Dimension::ALL.iter().all(dimension)
        && targeting.segments_all.iter().all(|segment| request.segments.contains(segment))
        && campaign.creatives.iter().any(|creative| fits(creative, impression))
        && (!targeting.deals_only || impression.deals.iter().any(offered))
}

fn fits(creative: &Creative, impression: &Impression<'_>) -> bool {
    let fits = |size| impression.placements.iter().any(|place| place.takes(creative.format, size));
    creative.sizes.iter().any(|size| fits(*size))
}

pub(crate) fn bids(
    campaigns: &[Campaign],
    own: CurrencyCode,
    request: &Request<'_>,
    at: usize,
    taken: &[&Campaign],
) -> Option<Bid> {
    let impression = &request.impressions[at];
    let mut offers: Vec<Offer<'_>> = campaigns
        .iter()
        .filter(|campaign| wants(campaign, request, impression))
        .filter(|campaign| !is_excluded(campaign, request, taken))
        .filter_map(|campaign| offer(campaign, own, request, impression))
        .filter(|offer| shows(offer, request, impression))
        .collect();
    offers.sort_by_key(|offer| std::cmp::Reverse((offer.price, offer.tie)));
    let best = offers.first()?;
    let second = offers.get(1).map_or(0, |offer| offer.price.micros() + 1);
    let price = match kind(request, best.deal.map(|at| &impression.deals[at])) {
        At::First => best.price,
        At::Fixed => best.floor,
        At::SecondPlus => {
            let second = second.max(best.floor.micros()).min(best.price.micros());
            Price::from_micros(second).unwrap()
        }
    };
    Some(Bid { impression: at, campaign: best.campaign.id, deal: best.deal, price })
}

/// All impressions, groups whole or not at all.
pub(crate) fn fill(campaigns: &[Campaign], own: CurrencyCode, request: &Request<'_>) -> Vec<Bid> {
    let (mut bids_made, mut failed): (Vec<Bid>, Vec<u32>) = (Vec::new(), Vec::new());
    for (at, impression) in request.impressions.iter().enumerate() {
        if failed.contains(&impression.group) {
            continue;
        }
        let of = |bid: &Bid| campaigns.iter().find(|campaign| campaign.id == bid.campaign).unwrap();
        let taken: Vec<&Campaign> = bids_made.iter().map(of).collect();
        match bids(campaigns, own, request, at, &taken) {
            Some(bid) => bids_made.push(bid),
            None if impression.group != 0 => {
                failed.push(impression.group);
                bids_made
                    .retain(|bid| request.impressions[bid.impression].group != impression.group);
            }
            None => {}
        }
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

fn kind(request: &Request<'_>, deal: Option<&Deal<'_>>) -> At {
    let at = deal.and_then(|deal| deal.at).unwrap_or(request.at);
    match (request.rules.pricing, at) {
        (_, At::Fixed) | (Pricing::ByAt, _) => at,
        (Pricing::First, _) => At::First,
        (Pricing::Second, _) => At::SecondPlus,
    }
}

fn offer<'a>(
    campaign: &'a Campaign,
    own: CurrencyCode,
    request: &Request<'_>,
    impression: &Impression<'_>,
) -> Option<Offer<'a>> {
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
    // No rates in these tests: a floor in another currency is not met.
    let met = |floor: Floor| {
        let micros = floor.micros.max(request.rules.price_min.micros());
        let met = floor.currency == own && i128::from(micros) <= bid;
        Price::from_micros(micros).filter(|_| met)
    };
    let usable = |(at, deal): (usize, &Deal<'_>)| {
        let listed = campaign.targeting.deals.contains(&deal.id) && seat_of(deal.seats);
        met(deal.floor).filter(|_| listed).map(|floor| (Some(at), floor))
    };
    let open = || {
        let open = !impression.private && !campaign.targeting.deals_only;
        met(impression.floor).filter(|_| open).map(|floor| (None, floor))
    };
    let (deal, floor) = impression.deals.iter().enumerate().find_map(usable).or_else(open)?;
    let fixed = kind(request, deal.map(|at| &impression.deals[at])) == At::Fixed;
    let bid = Price::from_micros(i64::try_from(bid).unwrap()).unwrap();
    let price = if fixed { floor } else { bid };
    Some(Offer { price, tie: tie(request.id_hash, campaign.id), campaign, deal, floor })
}

fn shows(offer: &Offer<'_>, request: &Request<'_>, impression: &Impression<'_>) -> bool {
    let only_for = offer.deal.map_or(&[][..], |at| impression.deals[at].domains);
    let within = |keys: &[u32], allowed: &[u32]| {
        allowed.is_empty() || (!keys.is_empty() && keys.iter().all(|key| allowed.contains(key)))
    };
    offer.campaign.creatives.iter().any(|creative| {
        fits(creative, impression)
            && (creative.secure || !impression.secure)
            && !creative.categories.iter().any(|key| request.categories_blocked.contains(key))
            && !creative.domains.iter().any(|key| request.advertisers_blocked.contains(key))
            && !creative.attributes.iter().any(|key| impression.attributes_blocked.contains(key))
            && within(&creative.categories, request.categories_allowed)
            && within(&creative.domains, only_for)
    })
}

/// Pinned here too: a recorded run must replay.
fn tie(request: u64, campaign: u64) -> u64 {
    mix(request ^ mix(campaign ^ u64::from_le_bytes(*b"tie/1\0\0\0")))
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
