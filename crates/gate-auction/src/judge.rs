//! What one campaign is asked: may it bid, what, with which deal and creative?

use table::spread;

use crate::auction::{Auction, BidContext, PodLeft};
use crate::index::Asked;
use crate::key::UNKNOWN;
use crate::price::{Floor, Price, PriceRule};
use crate::rank::{Class, Offer};
use crate::reason::Reason;
use crate::record::{Outline, Record, pack, unpack};
use crate::request::{Deal, Exclusive, Format, Impression, Placement, Request, timed_floor};
use crate::scratch::{Scratch, floor};

/// Where a bid is placed.
#[derive(Clone, Copy)]
struct Terms<'a> {
    /// The deal and its position among the impression's.
    deal: Option<(u32, &'a Deal<'a>)>,
    worth: Worth,
    /// The floor, where it depends on no duration.
    floor: Option<Price>,
}

/// What an impression is worth to a campaign.
#[derive(Clone, Copy)]
struct Worth {
    value: Price,
    /// What it bids of that.
    price: Price,
}

/// A creative that may be shown.
struct Shown {
    creative: u32,
    placement: Placement,
    floor: Price,
}

impl Auction<'_> {
    /// What a campaign offers whose targeting fits.
    #[inline]
    pub(crate) fn offer(
        &self,
        impression: &Impression<'_>,
        asked: &Asked<'_>,
        context: &mut impl BidContext,
    ) -> Result<Offer, Reason> {
        if !self.currency_taken {
            return Err(Reason::Currency);
        }
        if !self.seat_may_bid(asked.entry.seat) {
            return Err(Reason::Seat);
        }
        if self.is_excluded(asked) {
            return Err(Reason::Exclusive);
        }
        let bid = self.modified(asked.entry.bid, asked.record);
        let price = context.price(asked.bidder(), bid)?.min(bid);
        let worth = Worth { value: bid, price };
        if asked.record.deals.is_empty() {
            self.without_deal(impression, asked, worth, context)
        } else {
            self.with_deal(impression, asked, worth, context)
        }
    }

    #[inline]
    pub(crate) fn seat_may_bid(&self, seat: u32) -> bool {
        let Request { seats_allowed, seats_blocked, .. } = self.request;
        listed_or_empty(seats_allowed, seat) && !(seat != UNKNOWN && seats_blocked.contains(&seat))
    }

    /// Does another impression of the request exclude it?
    #[inline]
    fn is_excluded(&self, asked: &Asked<'_>) -> bool {
        if self.pod.is_some() && self.is_in_pod(asked) {
            return true;
        }
        let mut others = self.scratch.taken.iter().filter(|taken| taken.impression != self.at);
        match self.request.rules.exclusive {
            Exclusive::No => false,
            Exclusive::Campaign => others.any(|taken| taken.slot == asked.slot),
            Exclusive::Advertiser => others.any(|taken| taken.advertiser == asked.entry.advertiser),
        }
    }

    /// Has its campaign or advertiser an ad in the dynamic pod already?
    #[cold]
    fn is_in_pod(&self, asked: &Asked<'_>) -> bool {
        let mut ads = self.scratch.taken.iter().filter(|taken| taken.impression == self.at);
        ads.any(|ad| ad.slot == asked.slot || ad.advertiser == asked.entry.advertiser)
    }

    #[inline]
    fn modified(&self, bid: Price, record: Record<'_>) -> Price {
        if !self.scratch.modifies {
            return bid;
        }
        let apply =
            record.modifiers().filter(|modifier| self.scratch.segments.has(modifier.segment));
        apply.fold(bid, |bid, modifier| bid.scaled(modifier.factor))
    }

    /// With the first deal that it may use, whose floor it meets and for which it has a creative, else without one where
    /// it may. The reason is the last one.
    fn with_deal(
        &self,
        impression: &Impression<'_>,
        asked: &Asked<'_>,
        worth: Worth,
        context: &impl BidContext,
    ) -> Result<Offer, Reason> {
        let mut refusal = Reason::Deal;
        let floors = &self.scratch.place.deal_floors;
        for ((at, deal), floor) in (0..).zip(impression.deals).zip(floors) {
            if !asked.record.deals.contains(&deal.id) {
                continue;
            }
            if !listed_or_empty(deal.seats, asked.entry.seat) {
                refusal = Reason::Seat;
                continue;
            }
            let terms = Terms { deal: Some((at, deal)), worth, floor: *floor };
            match self.place(impression, asked, terms, context) {
                Ok(offer) => return Ok(offer),
                Err(reason) => refusal = reason,
            }
        }
        if asked.entry.span.deals_only {
            return Err(refusal);
        }
        self.without_deal(impression, asked, worth, context)
    }

    #[inline]
    fn without_deal(
        &self,
        impression: &Impression<'_>,
        asked: &Asked<'_>,
        worth: Worth,
        context: &impl BidContext,
    ) -> Result<Offer, Reason> {
        if impression.private {
            return Err(Reason::Deal);
        }
        let terms = Terms { deal: None, worth, floor: self.scratch.place.floor };
        self.place(impression, asked, terms, context)
    }

    #[inline]
    fn place(
        &self,
        impression: &Impression<'_>,
        asked: &Asked<'_>,
        terms: Terms<'_>,
        context: &impl BidContext,
    ) -> Result<Offer, Reason> {
        let Terms { deal, worth: Worth { value, price }, floor } = terms;
        if !self.scratch.place.by_duration {
            match floor {
                None => return Err(Reason::Currency),
                Some(floor) if price < floor => return Err(Reason::Floor),
                Some(_) => {}
            }
        }
        let tie = asked.entry.tie(self.request.id_hash);
        let shown = self.creative(impression, asked, terms, tie, context)?;
        let Shown { creative, placement, floor } = shown;
        let class = match deal {
            Some((_, deal)) if deal.guaranteed => Class::Guaranteed,
            Some(_) if self.request.rules.deals_first => Class::Deal,
            _ => Class::Open,
        };
        // Where the price is fixed nobody can offer more than it.
        let fixed = self.kind(deal.map(|(_, deal)| deal)) == PriceRule::Fixed;
        let price = if fixed { floor } else { price };
        let deal = deal.map(|(at, _)| at);
        let score = self.request.rules.rank.score(value.micros(), price.micros());
        Ok(Offer { class, price, score, tie, slot: asked.slot, deal, creative, placement, floor })
    }

    #[inline]
    pub(crate) fn kind(&self, deal: Option<&Deal<'_>>) -> PriceRule {
        let at = deal.and_then(|deal| deal.at).unwrap_or(self.request.at);
        self.request.rules.pricing.kind(at)
    }

    /// The first creative that may be shown, beginning where a hash says, so that all have their turn. If there is none
    /// the reason is that of the one that came farthest.
    #[inline]
    fn creative(
        &self,
        impression: &Impression<'_>,
        asked: &Asked<'_>,
        terms: Terms<'_>,
        tie: u64,
        context: &impl BidContext,
    ) -> Result<Shown, Reason> {
        let count = asked.record.count;
        let start = match count as u64 {
            0 | 1 => 0,
            // Less than the number of creatives.
            count => usize::try_from(spread(tie ^ self.at as u64) % count).unwrap_or(0),
        };
        let mut farthest = Refused::DoesNotFit;
        for at in (start..count).chain(0..start) {
            let Some(outline) = asked.record.creative(at) else { continue };
            let shown = self.show(impression, outline, terms).and_then(|shown| {
                let may_show = context.may_show(asked.bidder(), self.at, at);
                may_show.map(|()| shown).map_err(Refused::of_context)
            });
            match shown {
                Ok((placement, floor)) => {
                    // At most 256 creatives.
                    let creative = u32::try_from(at).unwrap_or(0);
                    return Ok(Shown { creative, placement, floor });
                }
                Err(refused) => farthest = farthest.max(refused),
            }
        }
        Err(farthest.reason())
    }

    /// The size that a creative is shown in, and the floor that holds for it.
    #[inline]
    fn show(
        &self,
        impression: &Impression<'_>,
        outline: Outline<'_>,
        terms: Terms<'_>,
    ) -> Result<(Placement, Price), Refused> {
        let deal = terms.deal.map(|(_, deal)| deal);
        let placement = fitting(impression, outline).ok_or(Refused::DoesNotFit)?;
        if outline.format().plays() && !lasts(impression, deal, outline) {
            return Err(Refused::DoesNotFit);
        }
        let is_left =
            |pod: PodLeft| pod.format == outline.format() && pod.seconds >= outline.duration_s();
        if self.pod.is_some_and(|pod| !is_left(pod)) {
            return Err(Refused::DoesNotFit);
        }
        if self.is_blocked(impression, outline, deal) {
            return Err(Refused::Blocked);
        }
        if impression.secure && !outline.secure() {
            return Err(Refused::Insecure);
        }
        let floor = self.floor_of(impression, outline, terms).ok_or(Refused::NoRate)?;
        if terms.worth.price < floor { Err(Refused::Floor) } else { Ok((placement, floor)) }
    }

    /// A deal's floor goes before that of video or audio, and this before the impression's.
    #[inline]
    fn floor_of(
        &self,
        impression: &Impression<'_>,
        outline: Outline<'_>,
        terms: Terms<'_>,
    ) -> Option<Price> {
        if !self.scratch.place.by_duration || !outline.format().plays() {
            return terms.floor;
        }
        let seconds = outline.duration_s();
        let stated = match terms.deal {
            Some((_, deal)) => {
                let micros = timed_floor(deal.floor_per_second_micros, deal.floors, seconds);
                micros.map(|micros| Floor { micros: micros.max(deal.floor.micros), ..deal.floor })
            }
            None => {
                let timing =
                    impression.timings.iter().find(|timing| timing.format == outline.format());
                let micros = timing.and_then(|timing| {
                    timed_floor(timing.floor_per_second_micros, timing.floors, seconds)
                });
                micros.map(|micros| Floor { micros, ..impression.floor })
            }
        };
        stated.map_or(terms.floor, |stated| floor(self.index, self.request, stated))
    }

    /// Has it a creative of a format and size that fits?
    pub(crate) fn fits(&self, impression: &Impression<'_>, record: Record<'_>) -> bool {
        record.creatives().any(|outline| fitting(impression, outline).is_some())
    }

    #[inline]
    fn is_blocked(
        &self,
        impression: &Impression<'_>,
        outline: Outline<'_>,
        deal: Option<&Deal<'_>>,
    ) -> bool {
        let Scratch { categories_allowed, categories_blocked, advertisers_blocked, .. } =
            &*self.scratch;
        let categories = outline.categories();
        let domains = outline.domains();
        let attributes = outline.attributes();
        let only = !self.request.categories_allowed.is_empty();
        let deal_for = deal.map_or(&[][..], |deal| deal.domains);
        categories.iter().any(|key| categories_blocked.has(*key))
            || (only && !within(categories, |key| categories_allowed.has(key)))
            || domains.iter().any(|key| advertisers_blocked.has(*key))
            || (!deal_for.is_empty() && !within(domains, |key| deal_for.contains(&key)))
            || (!attributes.is_empty() && has_blocked(impression, outline.format(), attributes))
            || self.is_bundle_or_language_blocked(outline)
    }

    /// A creative that says neither is on no list, and may be shown in all languages. Lists may hold [`UNKNOWN`].
    #[inline]
    fn is_bundle_or_language_blocked(&self, outline: Outline<'_>) -> bool {
        let Request { bundles_blocked, languages_allowed, .. } = self.request;
        let on = |list: &[u32], key: u32| key != UNKNOWN && list.contains(&key);
        on(bundles_blocked, outline.bundle())
            || (outline.language() != UNKNOWN
                && !listed_or_empty(languages_allowed, outline.language()))
    }
}

fn has_blocked(impression: &Impression<'_>, format: Format, attributes: &[u32]) -> bool {
    let mut blocked = impression.attributes_blocked.iter().filter(|one| one.format == format);
    blocked.any(|one| attributes.contains(&u32::from(one.attribute)))
}

/// The first place of the impression where the creative fits, with the size that is known.
#[inline]
fn fitting(impression: &Impression<'_>, outline: Outline<'_>) -> Option<Placement> {
    let format = outline.format();
    let of_format = impression.placements.iter().filter(|placement| placement.format == format);
    for placement in of_format {
        let asked = pack((placement.width, placement.height));
        // 0 stands for any size, on both sides.
        let fits = |size: &&u32| **size == asked || **size == 0 || asked == 0;
        if let Some(size) = outline.sizes().iter().find(fits) {
            let (width, height) = unpack(if asked == 0 { *size } else { asked });
            return Some(Placement { format, width, height });
        }
    }
    None
}

/// Why a creative is not shown: how far it came.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Refused {
    DoesNotFit,
    Blocked,
    Insecure,
    NoRate,
    Floor,
    Unsuited,
    Capped,
}

impl Refused {
    fn of_context(reason: Reason) -> Refused {
        match reason {
            Reason::Cap => Refused::Capped,
            Reason::Targeting => Refused::DoesNotFit,
            _ => Refused::Unsuited,
        }
    }

    fn reason(self) -> Reason {
        match self {
            Refused::DoesNotFit => Reason::Targeting,
            Refused::Blocked | Refused::Unsuited => Reason::Blocked,
            Refused::Insecure => Reason::Insecure,
            Refused::NoRate => Reason::Currency,
            Refused::Floor => Reason::Floor,
            Refused::Capped => Reason::Cap,
        }
    }
}

/// May a video or sound play as long as it does? One of unknown length has no price by the second.
fn lasts(impression: &Impression<'_>, deal: Option<&Deal<'_>>, outline: Outline<'_>) -> bool {
    let mut timings = impression.timings.iter().filter(|timing| timing.format == outline.format());
    let by_second = deal.is_some_and(|deal| deal.floor_per_second_micros.is_some());
    timings.all(|timing| timing.admits(outline.duration_s()))
        && !(by_second && outline.duration_s() == 0)
}

/// Are all keys allowed? Who says nothing about itself cannot show that it is.
fn within(keys: &[u32], allowed: impl Fn(u32) -> bool) -> bool {
    !keys.is_empty() && keys.iter().all(|key| allowed(*key))
}

/// Lists may hold [`UNKNOWN`]; whoever is unknown is on none.
#[inline]
fn listed_or_empty(list: &[u32], key: u32) -> bool {
    list.is_empty() || (key != UNKNOWN && list.contains(&key))
}
