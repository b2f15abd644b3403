//! An OpenRTB body: from its bytes to the bytes of its answer, as the node's worker does it.
//!
//! Reading, auction, plans, purses, tokens, the check and the answer are the node's own. Between them stands a short
//! form of what `crates/door-openrtb/src/` does: texts to keys, a desk, bids. It leaves out HTTP, users' profiles
//! and the survey of one request in 128: what these cost is seen by the benchmarks alone.

use std::hint::black_box;

use door_transport::ConnId;
use gate_auction::{
    BidContext, Bidder, BlockedAttribute, Choice, Deal, Dictionary, Floor, Format, Impression,
    Placement, Price, PriceRule, Reason, Request, Rules, Scratch, Space, UNKNOWN,
};
use gate_pacing::Pace;
use ledger::note::{NOTE_END_LEN, NOTE_START_LEN};
use ledger::{Amount, Hold, KeyRing, Purses};
use openrtb::{
    Answer, Bid, BidId, BidRequest, Door, Event, Gate, Imp, NoBidReason, Notice, NoticeIds,
    NoticeStatus, Noticed, Outcome, Settings,
};

use super::Workload;
use super::market::{self, CAMPAIGNS, Market, usd};
use super::purses::{self, START_MS};
use super::random::Random;

/// Different requests.
const BODIES: usize = 128;
/// The hour of the week is a key like any other.
const HOUR: u32 = 36;

/// Bid requests that are answered.
pub(crate) struct Bodies {
    bodies: Vec<Vec<u8>>,
    next_body: usize,
    /// Reading takes escapes away in place, so each request is copied, as HTTP does.
    room: Vec<u8>,
    door: Door,
    bidding: Bidding,
    /// Requests that were answered with bids.
    pub(crate) bid: u64,
}

impl Bodies {
    pub(crate) fn new() -> Bodies {
        let mut random = Random::new(2);
        let market = Market::new(&mut random);
        let bodies: Vec<Vec<u8>> = (0..BODIES).map(|_| market::body(&mut random)).collect();
        let settings =
            Settings { notice_base_url: "https://rtb.example".into(), ..Settings::default() };
        Bodies {
            bodies,
            next_body: 0,
            room: Vec::new(),
            door: Door::new(settings).expect("sound settings"),
            bidding: Bidding::new(market),
            bid: 0,
        }
    }
}

impl Workload for Bodies {
    fn step(&mut self) -> u64 {
        let body = black_box(&self.bodies[self.next_body]);
        self.next_body = (self.next_body + 1) % self.bodies.len();
        self.room.clear();
        self.room.extend_from_slice(body);
        let response = self.door.bid(&mut self.room, &mut self.bidding);
        self.bid += u64::from(response.status == 200);
        black_box(response.body);
        self.bidding.turn();
        1
    }
}

/// What a worker bids with.
struct Bidding {
    now_ms: u64,
    market: Market,
    paces: Vec<Pace>,
    purses: Purses,
    keys: KeyRing,
    lists: Lists,
    scratch: Scratch,
    held: Vec<(Choice, Hold)>,
    choices: Vec<Choice>,
}

impl Bidding {
    fn new(market: Market) -> Bidding {
        Bidding {
            now_ms: START_MS,
            market,
            paces: vec![Pace::OPEN; CAMPAIGNS as usize],
            purses: purses::full(CAMPAIGNS),
            keys: KeyRing::new(1, 1, [7; 16]),
            lists: Lists::default(),
            scratch: Scratch::default(),
            held: Vec::new(),
            choices: Vec::new(),
        }
    }

    fn auction(&mut self, request: &BidRequest<'_>) {
        let Bidding { market, paces, purses, lists, scratch, held, choices, .. } = self;
        held.clear();
        let at = purses.at(self.now_ms);
        let id_hash = id_hash(request.id);
        let mut desk = Purchases { paces, purses, at, id_hash, held };
        lists.with(request, id_hash, &market.words, |keys| {
            market.index.auction(keys, scratch).fill(&mut desk, choices);
        });
    }

    fn push(&self, place: usize, request: &BidRequest<'_>, answer: &mut Answer<'_>) {
        let (choice, hold) = &self.held[place];
        let offer = &self.market.offers[choice.slot as usize];
        let mut note = [0; NOTE_START_LEN];
        note[..8].copy_from_slice(&choice.campaign.to_le_bytes());
        note[8..16].copy_from_slice(&choice.price.micros().to_le_bytes());
        let ends = [1_u8, 2, 3].map(|kind| [kind; NOTE_END_LEN]);
        let sealed = self.keys.seal_notes(hold, &note, &ends);
        let [win, bill, loss] = &sealed.ends;
        let pushed = answer.push(&Bid {
            id: BidId::Number(u128::from(hold.grant) << 24 | u128::from(hold.seq)),
            imp: choice.impression,
            deal: choice.deal,
            ad: &offer.ads[choice.creative],
            price_micros: choice.price.micros(),
            currency: usd(),
            floor_micros: Some(choice.floor.micros()),
            seat: &offer.seat,
            group: None,
            cid: &offer.cid,
            width: choice.placement.width.into(),
            height: choice.placement.height.into(),
            notice_ids: NoticeIds { start: &sealed.start, ends: [win, bill, loss], click: None },
            expires_s: request.imps[choice.impression].expires_s,
            slot_in_pod: None,
        });
        assert_eq!(pushed, Ok(()), "a bid of the auction passes the check");
    }

    /// A request's share of the end of a wake-up.
    fn turn(&mut self) {
        self.now_ms += 1;
        self.purses.turn(self.now_ms);
        while let Some(message) = self.purses.next_message() {
            black_box(&message);
        }
    }
}

impl Gate for Bidding {
    fn now_ms(&self) -> u64 {
        self.now_ms
    }

    fn bid(&mut self, request: &BidRequest<'_>, answer: &mut Answer<'_>) -> Outcome {
        self.auction(request);
        if self.held.is_empty() {
            return Outcome::NoBid(NoBidReason::NoMatch);
        }
        for place in 0..self.held.len() {
            self.push(place, request, answer);
        }
        Outcome::Bids
    }

    fn notice(&mut self, _: ConnId, _: &Notice<'_>) -> Noticed {
        Noticed::Now(NoticeStatus::Taken)
    }

    fn refused(&mut self, _: door_http::Refusal) {}

    fn count(&mut self, event: Event) {
        black_box(&event);
    }
}

/// Plans and purses behind one request.
struct Purchases<'a> {
    paces: &'a mut [Pace],
    purses: &'a mut Purses,
    at: ledger::At,
    id_hash: u64,
    held: &'a mut Vec<(Choice, Hold)>,
}

impl BidContext for Purchases<'_> {
    #[inline]
    fn price(&mut self, bidder: Bidder, bid: Price) -> Result<Price, Reason> {
        let pace = &mut self.paces[bidder.slot as usize];
        let paced = pace.bid(self.id_hash, bid.micros()).and_then(Price::from_micros);
        let price = paced.ok_or(Reason::Paced)?;
        let amount = cost(price);
        pace.note_ask(amount);
        if pace.allows(amount) { Ok(price) } else { Err(Reason::Paced) }
    }

    fn able(&mut self, bidder: Bidder, bid: Price) -> Result<(), Reason> {
        self.purses.able(bidder.slot, cost(bid), self.at).map_err(|_| Reason::Purse)
    }

    #[inline]
    fn prefetch(&self, slot: u32) {
        table::prefetch(&self.paces[slot as usize]);
        self.purses.prefetch(slot);
    }

    fn hold(&mut self, choice: &Choice) -> Result<(), Reason> {
        let amount = cost(choice.price);
        let reserved = self.purses.reserve(choice.slot, amount, self.at);
        let hold = reserved.map_err(|_| Reason::Purse)?;
        self.paces[choice.slot as usize].take(amount);
        self.held.push((*choice, hold));
        Ok(())
    }
}

/// One impression at a price for a thousand, rounded up.
fn cost(price: Price) -> Amount {
    Amount::new((price.micros() + 999) / 1_000)
}

fn id_hash(id: &str) -> u64 {
    id.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// A request's texts as keys, in memory that is used again.
#[derive(Default)]
struct Lists {
    geo: Vec<u32>,
    devices: Vec<u32>,
    oses: Vec<u32>,
    languages: Vec<u32>,
    supply: Vec<u32>,
    domains: Vec<u32>,
    categories: Vec<u32>,
    segments: Vec<u32>,
    categories_blocked: Vec<u32>,
    advertisers_blocked: Vec<u32>,
    /// Of all impressions, one after the other.
    placements: Vec<Placement>,
    attributes: Vec<BlockedAttribute>,
    impressions: Vec<Impression<'static>>,
    deals: Vec<Deal<'static>>,
}

impl Lists {
    fn with(
        &mut self,
        request: &BidRequest<'_>,
        id_hash: u64,
        words: &Dictionary,
        auction: impl FnOnce(&Request<'_>),
    ) {
        self.read_top(request, words);
        self.read_imps(request);
        let mut deals = recycle(std::mem::take(&mut self.deals));
        for imp in request.imps {
            deals.extend(request.deals(imp).iter().map(|deal| self::deal(deal, words)));
        }
        let mut impressions = recycle(std::mem::take(&mut self.impressions));
        let (mut places, mut attributes) = (&self.placements[..], &self.attributes[..]);
        let mut offered = &deals[..];
        for imp in request.imps {
            let counts = (placements(request, imp).count(), attributes_of(imp).count());
            impressions.push(Impression {
                placements: take(&mut places, counts.0),
                timings: &[],
                floor: Floor { micros: imp.floor.micros, currency: imp.floor.currency },
                secure: imp.secure,
                attributes_blocked: take(&mut attributes, counts.1),
                deals: take(&mut offered, request.deals(imp).len()),
                private: imp.private_auction,
                group: 0,
            });
        }
        auction(&Request {
            id_hash,
            geo: &self.geo,
            devices: &self.devices,
            oses: &self.oses,
            languages: &self.languages,
            supply: &self.supply,
            domains: &self.domains,
            categories: &self.categories,
            categories_possible: &[],
            segments: &self.segments,
            unknown: &[],
            quarter_of_week: HOUR,
            at: if request.top.auction_type == Some(1) {
                PriceRule::First
            } else {
                PriceRule::SecondPlus
            },
            currencies: &[],
            conversions: &[],
            seats_allowed: &[],
            seats_blocked: &[],
            categories_allowed: &[],
            categories_blocked: &self.categories_blocked,
            advertisers_blocked: &self.advertisers_blocked,
            bundles_blocked: &[],
            languages_allowed: &[],
            impressions: &impressions,
            rules: Rules::default(),
        });
        self.impressions = recycle(impressions);
        self.deals = recycle(deals);
    }

    fn read_top(&mut self, request: &BidRequest<'_>, words: &Dictionary) {
        let top = &request.top;
        let (place, device) = (&top.place, &top.device);
        let key = |space| move |text: &str| words.key(space, text);
        refill(&mut self.geo, device.country.map(key(Space::Geo)));
        refill(&mut self.devices, device.device_type);
        refill(&mut self.oses, device.os.map(key(Space::Os)));
        let language = device.language.or(place.content_language);
        refill(&mut self.languages, language.map(key(Space::Language)));
        refill(&mut self.supply, place.id.map(key(Space::Supply)));
        refill(&mut self.domains, place.domain.map(key(Space::Domain)));
        refill(&mut self.categories, place.categories.iter().map(key(Space::Category)));
        let segments =
            top.user.segments.iter().map(|segment| words.key(Space::Segment, segment.id));
        refill(&mut self.segments, segments.filter(|key| *key != UNKNOWN));
        let blocked = top.categories_blocked.iter().flat_map(|text| words.family(text)).copied();
        refill(&mut self.categories_blocked, blocked);
        refill(
            &mut self.advertisers_blocked,
            top.advertisers_blocked.iter().map(key(Space::Domain)),
        );
    }

    fn read_imps(&mut self, request: &BidRequest<'_>) {
        refill(&mut self.placements, request.imps.iter().flat_map(|imp| placements(request, imp)));
        refill(&mut self.attributes, request.imps.iter().flat_map(attributes_of));
    }
}

fn refill<T>(list: &mut Vec<T>, items: impl IntoIterator<Item = T>) {
    list.clear();
    list.extend(items);
}

/// Cuts the first so many off.
fn take<'a, T>(list: &mut &'a [T], count: usize) -> &'a [T] {
    let (first, rest) = list.split_at(count);
    *list = rest;
    first
}

/// A vector of things of another lifetime, empty, in the memory of `used`.
fn recycle<A, B>(mut used: Vec<A>) -> Vec<B> {
    used.clear();
    // Collected in place: the same layout, so the same memory.
    used.into_iter().map(|_| unreachable!("it is empty")).collect()
}

fn placements<'t>(request: &BidRequest<'t>, imp: &Imp<'t>) -> impl Iterator<Item = Placement> {
    let banner = imp.banner.into_iter().flat_map(|banner| request.formats(&banner));
    let banner = banner.map(|size| placement(Format::Banner, size.width, size.height));
    let video = imp.video.into_iter();
    banner.chain(video.map(|video| placement(Format::Video, video.width, video.height)))
}

fn placement(format: Format, width: Option<u32>, height: Option<u32>) -> Placement {
    let pixels = |size: Option<u32>| u16::try_from(size.unwrap_or(0)).unwrap_or(u16::MAX);
    Placement { format, width: pixels(width), height: pixels(height) }
}

fn attributes_of(imp: &Imp<'_>) -> impl Iterator<Item = BlockedAttribute> {
    let banner = imp.banner.map(|banner| (Format::Banner, banner.attributes_blocked));
    let video = imp.video.map(|video| (Format::Video, video.attributes_blocked));
    let lists = [banner, video].into_iter().flatten();
    let numbers = lists.flat_map(|(format, list)| list.iter().map(move |number| (format, number)));
    numbers.filter_map(|(format, number)| {
        Some(BlockedAttribute { format, attribute: u16::try_from(number).ok()? })
    })
}

fn deal<'a>(deal: &openrtb::Deal<'_>, words: &Dictionary) -> Deal<'a> {
    Deal {
        id: words.key(Space::Deal, deal.id),
        floor: Floor { micros: deal.floor.micros, currency: deal.floor.currency },
        floor_per_second_micros: None,
        floors: &[],
        at: deal
            .auction_type
            .map(|number| if number == 1 { PriceRule::First } else { PriceRule::SecondPlus }),
        guaranteed: deal.guaranteed,
        seats: &[],
        domains: &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_takes_the_whole_way() {
        let mut bodies = Bodies::new();
        let asked: u64 = (0..256).map(|_| bodies.step()).sum();
        assert_eq!(bodies.bid, asked, "answers with bids");
    }
}
