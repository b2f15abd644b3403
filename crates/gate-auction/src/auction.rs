//! One request's auction: candidates, ranking, creatives, prices.

use crate::bits::BLOCK_BITS;
use crate::campaign::Creative;
use crate::index::{Entry, Extra, Index};
use crate::key::mix;
use crate::price::{At, Price, price_to_send};
use crate::rank::{NO_DEAL, Ranked, Ranking};
use crate::reason::{Reason, Tally};
use crate::request::{Deal, Exclusive, Impression, Placement, Request};
use crate::scratch::Scratch;

/// Who is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bidder {
    /// Its slot in the snapshot.
    pub slot: u32,
    /// Its id.
    pub campaign: u64,
}

/// What stands behind the auction: paces, caps, purses. `()` lets everything through.
pub trait Desk {
    /// What this candidate bids now, at most `bid`: the place of pacing. Asked of every candidate, so it should be
    /// cheap.
    ///
    /// # Errors
    /// Why it does not bid.
    #[inline]
    fn price(&mut self, bidder: Bidder, bid: Price) -> Result<Price, Reason> {
        let _ = bidder;
        Ok(bid)
    }

    /// Can it pay `bid`, and may it be shown? Asked only of the few that may win or set the price, before a price is
    /// made: a campaign that could not pay must not raise another's price.
    ///
    /// # Errors
    /// Why not.
    #[inline]
    fn able(&mut self, bidder: Bidder, bid: Price) -> Result<(), Reason> {
        let _ = (bidder, bid);
        Ok(())
    }

    /// Takes the money for a choice out of its purse ([`Auction::fill`]).
    ///
    /// # Errors
    /// Why not; then the next best is chosen and priced anew.
    #[inline]
    fn hold(&mut self, choice: &Choice) -> Result<(), Reason> {
        let _ = choice;
        Ok(())
    }

    /// Undoes a hold: the rest of its group was not filled. Called once for each such choice.
    #[inline]
    fn release(&mut self, choice: &Choice) {
        let _ = choice;
    }
}

impl Desk for () {}

/// Who bids for an impression, with what, at what price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Position in the request's impressions.
    pub impression: usize,
    /// The campaign's slot in the snapshot.
    pub slot: u32,
    /// The campaign's id.
    pub campaign: u64,
    /// Position in the campaign's creatives, see [`Index::creatives`].
    pub creative: usize,
    /// Where it is shown, with the creative's size where the impression says none.
    pub placement: Placement,
    /// Position in the impression's deals.
    pub deal: Option<usize>,
    /// What it would pay at most.
    pub bid: Price,
    /// The floor that holds for it.
    pub floor: Price,
    /// What is sent: from `floor` to `bid`.
    pub price: Price,
}

/// A ranked campaign that has a creative and can pay.
#[derive(Clone, Copy, Debug)]
struct Contender {
    ranked: Ranked,
    creative: usize,
    placement: Placement,
}

/// The auction of one request. Impressions are auctioned one after the other: either all by [`Auction::fill`], or by
/// hand: [`Auction::impression`], then [`Auction::accept`] or any number of [`Auction::refuse`].
pub struct Auction<'a> {
    pub(crate) index: &'a Index,
    pub(crate) request: &'a Request<'a>,
    pub(crate) scratch: &'a mut Scratch,
    currency_taken: bool,
    /// The floor for campaigns without conditions of their own, where the impression has none either.
    plain_floor: Option<Price>,
    at: usize,
    chosen: Option<Choice>,
    runner_up: Option<Contender>,
}

impl Index {
    /// Starts the auction of a request: finds who wants it.
    pub fn auction<'a>(
        &'a self,
        request: &'a Request<'a>,
        scratch: &'a mut Scratch,
    ) -> Auction<'a> {
        scratch.start(self, request);
        let taken = &request.currencies;
        let currency_taken = taken.is_empty() || taken.contains(&self.currency);
        Auction {
            index: self,
            request,
            scratch,
            currency_taken,
            plain_floor: None,
            at: 0,
            chosen: None,
            runner_up: None,
        }
    }
}

impl Auction<'_> {
    /// Chooses for one impression. `None`: nobody bids, or there is no such impression.
    pub fn impression(
        &mut self,
        at: usize,
        desk: &mut impl Desk,
        tally: &mut impl Tally,
    ) -> Option<Choice> {
        (self.at, self.chosen, self.runner_up) = (at, None, None);
        self.rank(desk, tally)?;
        self.choose(desk, tally)
    }

    /// The chosen one does not bid after all, for instance because its purse is empty. Chooses the next best, whose
    /// price depends on the one after it. Nothing is worked out again.
    pub fn refuse(
        &mut self,
        reason: Reason,
        desk: &mut impl Desk,
        tally: &mut impl Tally,
    ) -> Option<Choice> {
        tally.dropped(self.chosen.take()?.slot, reason);
        self.choose(desk, tally)
    }

    /// The chosen one bids; from now on it excludes what the rules say.
    pub fn accept(&mut self, tally: &mut impl Tally) {
        if let Some(choice) = self.keep() {
            tally.won(choice.slot);
        }
    }

    /// How many were ranked for the impression that was auctioned last.
    #[must_use]
    pub fn ranked(&self) -> usize {
        self.scratch.ranking.len()
    }

    /// Chooses for all impressions, holds the money, and leaves in `out` who bids. Groups are filled whole or not at
    /// all. Impressions are taken in the request's order, each gets the best that is left: where campaigns exclude each
    /// other another assignment might fill a group that this one does not.
    pub fn fill(&mut self, desk: &mut impl Desk, tally: &mut impl Tally, out: &mut Vec<Choice>) {
        out.clear();
        self.scratch.taken.clear();
        self.scratch.failed_groups.clear();
        for (at, impression) in self.request.impressions.iter().enumerate() {
            let group = impression.group;
            if group != 0 && self.scratch.failed_groups.contains(&group) {
                continue;
            }
            match self.hold_one(at, desk, tally) {
                Some(choice) => out.push(choice),
                None if group != 0 => self.give_up(group, desk, tally, out),
                None => {}
            }
        }
        out.iter().for_each(|choice| tally.won(choice.slot));
    }

    fn hold_one(
        &mut self,
        at: usize,
        desk: &mut impl Desk,
        tally: &mut impl Tally,
    ) -> Option<Choice> {
        let mut choice = self.impression(at, desk, tally)?;
        while let Err(reason) = desk.hold(&choice) {
            choice = self.refuse(reason, desk, tally)?;
        }
        self.keep()
    }

    fn give_up(
        &mut self,
        group: u32,
        desk: &mut impl Desk,
        tally: &mut impl Tally,
        out: &mut Vec<Choice>,
    ) {
        self.scratch.failed_groups.push(group);
        self.scratch.taken.retain(|(_, _, of)| *of != group);
        out.retain(|choice| {
            let stays = self.request.impressions[choice.impression].group != group;
            if !stays {
                desk.release(choice);
                tally.dropped(choice.slot, Reason::Group);
            }
            stays
        });
    }

    /// Notes whom the chosen one excludes.
    fn keep(&mut self) -> Option<Choice> {
        let choice = self.chosen.take()?;
        let advertiser = self.index.advertiser(choice.slot);
        let group = self.request.impressions[choice.impression].group;
        self.scratch.taken.push((choice.slot, advertiser, group));
        Some(choice)
    }

    /// Ranks the candidates of the impression.
    fn rank(&mut self, desk: &mut impl Desk, tally: &mut impl Tally) -> Option<()> {
        let impression = self.request.impressions.get(self.at)?;
        tally.impression();
        self.scratch.enter(self.index, self.request, impression);
        self.plain_floor = self.scratch.place.floor.filter(|_| self.is_plain(impression));
        // Taken out of the work space while `self` is asked about each candidate; put back below, so that their memory
        // is used again.
        let candidates = std::mem::take(&mut self.scratch.candidates);
        let mut ranking = std::mem::take(&mut self.scratch.ranking);
        for &(at, block) in &candidates {
            // Snapshots hold at most 2^20 campaigns.
            let first = u32::try_from(at).unwrap_or(0) * BLOCK_BITS;
            for (word, bits) in (0..).zip(block) {
                let slots = Ones(bits).map(|bit| first + word * 64 + bit);
                slots.for_each(|slot| self.rank_one(impression, slot, &mut ranking, desk, tally));
            }
        }
        (self.scratch.candidates, self.scratch.ranking) = (candidates, ranking);
        Some(())
    }

    #[inline]
    fn rank_one(
        &self,
        impression: &Impression<'_>,
        slot: u32,
        ranking: &mut Ranking,
        desk: &mut impl Desk,
        tally: &mut impl Tally,
    ) {
        match self.offer(impression, slot, desk) {
            Ok(ranked) => {
                tally.ranked(slot);
                ranking.push(ranked, |slot| self.index.tie(self.request.id_hash, slot));
            }
            Err(reason) => tally.rejected(slot, reason),
        }
    }

    /// Is there nothing that has to be looked up for each candidate?
    fn is_plain(&self, impression: &Impression<'_>) -> bool {
        let Request { seats_allowed, seats_blocked, .. } = self.request;
        let any_seat = seats_allowed.is_empty() && seats_blocked.is_empty();
        self.currency_taken && any_seat && !impression.private && self.kind(None) != At::Fixed
    }

    /// What a candidate offers for the impression. Most candidates and impressions have no conditions; for these it is
    /// one comparison.
    #[inline(always)]
    pub(crate) fn offer(
        &self,
        impression: &Impression<'_>,
        slot: u32,
        desk: &mut impl Desk,
    ) -> Result<Ranked, Reason> {
        let entry = self.index.entry(slot);
        match self.plain_floor {
            Some(floor) if entry.is_plain() => {
                let price = desk.price(self.bidder(slot), entry.bid)?.min(entry.bid);
                if price < floor {
                    Err(Reason::Floor)
                } else {
                    Ok(Ranked { price, slot, deal: NO_DEAL })
                }
            }
            _ => self.conditional_offer(impression, entry, slot, desk),
        }
    }

    #[inline(never)]
    fn conditional_offer(
        &self,
        impression: &Impression<'_>,
        entry: &Entry,
        slot: u32,
        desk: &mut impl Desk,
    ) -> Result<Ranked, Reason> {
        let extra = self.index.extra(entry);
        if !self.currency_taken {
            return Err(Reason::Currency);
        }
        if !self.seat_may_bid(entry.seat) {
            return Err(Reason::Seat);
        }
        let bid = match extra {
            None => entry.bid,
            Some(extra) if extra.segments_all.iter().all(|key| self.scratch.segments.has(*key)) => {
                self.modified(entry.bid, extra)
            }
            Some(_) => return Err(Reason::Targeting),
        };
        let price = desk.price(self.bidder(slot), bid)?.min(bid);
        match extra {
            Some(extra) if !extra.deals.is_empty() => {
                self.with_deal(impression, entry, extra, slot, price)
            }
            _ => self.without_deal(impression, slot, price),
        }
    }

    #[inline]
    pub(crate) fn bidder(&self, slot: u32) -> Bidder {
        Bidder { slot, campaign: self.index.ids()[slot as usize] }
    }

    fn seat_may_bid(&self, seat: u32) -> bool {
        let Request { seats_allowed, seats_blocked, .. } = self.request;
        listed_or_empty(seats_allowed, seat) && !seats_blocked.contains(&seat)
    }

    fn modified(&self, bid: Price, extra: &Extra) -> Price {
        let modifiers = extra.modifiers.iter();
        let apply = modifiers.filter(|modifier| self.scratch.segments.has(modifier.segment));
        apply.fold(bid, |bid, modifier| bid.scaled(modifier.factor))
    }

    /// The first deal that the campaign may use and whose floor it meets, else without one where it may.
    fn with_deal(
        &self,
        impression: &Impression<'_>,
        entry: &Entry,
        extra: &Extra,
        slot: u32,
        price: Price,
    ) -> Result<Ranked, Reason> {
        let mut refusal = Reason::Deal;
        let floors = &self.scratch.place.deal_floors;
        for ((at, deal), floor) in (0..).zip(impression.deals).zip(floors) {
            if !extra.deals.contains(&deal.id) {
                continue;
            }
            refusal = match *floor {
                _ if !listed_or_empty(deal.seats, entry.seat) => Reason::Seat,
                None => Reason::Currency,
                Some(floor) if price < floor => Reason::Floor,
                Some(floor) => return Ok(self.placed(slot, at, Some(deal), price, floor)),
            };
        }
        if extra.deals_only { Err(refusal) } else { self.without_deal(impression, slot, price) }
    }

    #[inline]
    fn without_deal(
        &self,
        impression: &Impression<'_>,
        slot: u32,
        price: Price,
    ) -> Result<Ranked, Reason> {
        if impression.private {
            return Err(Reason::Deal);
        }
        match self.scratch.place.floor {
            None => Err(Reason::Currency),
            Some(floor) if price < floor => Err(Reason::Floor),
            Some(floor) => Ok(self.placed(slot, NO_DEAL, None, price, floor)),
        }
    }

    /// Where the price is fixed nobody can offer more than it.
    #[inline]
    fn placed(
        &self,
        slot: u32,
        at: u32,
        deal: Option<&Deal<'_>>,
        price: Price,
        floor: Price,
    ) -> Ranked {
        let price = if self.kind(deal) == At::Fixed { floor } else { price };
        Ranked { price, slot, deal: at }
    }

    #[inline]
    fn kind(&self, deal: Option<&Deal<'_>>) -> At {
        let at = deal.and_then(|deal| deal.at).unwrap_or(self.request.at);
        self.request.rules.pricing.kind(at)
    }

    /// The best that is left, priced.
    fn choose(&mut self, desk: &mut impl Desk, tally: &mut impl Tally) -> Option<Choice> {
        let impression = self.request.impressions.get(self.at)?;
        let best = match self.runner_up.take() {
            Some(runner_up) => runner_up,
            None => self.next(impression, desk, tally)?,
        };
        let Ranked { price: bid, slot, deal: deal_at } = best.ranked;
        let deal_at = Some(deal_at as usize).filter(|_| deal_at != NO_DEAL);
        let deal = deal_at.and_then(|at| impression.deals.get(at));
        let floor = self.floor(deal_at)?;
        let kind = self.kind(deal);
        if kind == At::SecondPlus {
            self.runner_up = self.next(impression, desk, tally);
        }
        let second = self.runner_up.map(|runner_up| runner_up.ranked.price);
        self.chosen = Some(Choice {
            impression: self.at,
            slot,
            campaign: self.bidder(slot).campaign,
            creative: best.creative,
            placement: best.placement,
            deal: deal_at,
            bid,
            floor,
            price: price_to_send(kind, bid, second, floor),
        });
        self.chosen
    }

    fn floor(&self, deal: Option<usize>) -> Option<Price> {
        let place = &self.scratch.place;
        deal.map_or(place.floor, |at| place.deal_floors.get(at).copied().flatten())
    }

    /// The next in rank that has a creative to show and is able to pay.
    fn next(
        &mut self,
        impression: &Impression<'_>,
        desk: &mut impl Desk,
        tally: &mut impl Tally,
    ) -> Option<Contender> {
        let (index, request) = (self.index, self.request.id_hash);
        while let Some(ranked) = self.scratch.ranking.pop(|slot| index.tie(request, slot)) {
            match self.contend(impression, ranked, desk) {
                Ok((creative, placement)) => {
                    return Some(Contender { ranked, creative, placement });
                }
                Err(reason) => tally.dropped(ranked.slot, reason),
            }
        }
        None
    }

    /// Position and placement of the creative that is shown, if the campaign is not held back.
    pub(crate) fn contend(
        &self,
        impression: &Impression<'_>,
        ranked: Ranked,
        desk: &mut impl Desk,
    ) -> Result<(usize, Placement), Reason> {
        let deal = impression.deals.get(ranked.deal as usize);
        if self.is_excluded(ranked.slot) {
            return Err(Reason::Exclusive);
        }
        let found = self.creative(impression, ranked.slot, deal)?;
        desk.able(self.bidder(ranked.slot), ranked.price)?;
        Ok(found)
    }

    fn is_excluded(&self, slot: u32) -> bool {
        let mut taken = self.scratch.taken.iter();
        match self.request.rules.exclusive {
            Exclusive::No => false,
            Exclusive::Campaign => taken.any(|(other, _, _)| *other == slot),
            Exclusive::Advertiser => {
                let own = self.index.advertiser(slot);
                taken.any(|(_, other, _)| *other == own)
            }
        }
    }

    /// The first creative that fits and is not blocked, beginning where a hash says, so that all have their turn.
    fn creative(
        &self,
        impression: &Impression<'_>,
        slot: u32,
        deal: Option<&Deal<'_>>,
    ) -> Result<(usize, Placement), Reason> {
        let creatives = self.index.creatives(slot);
        let turn = mix(self.index.tie(self.request.id_hash, slot) ^ self.at as u64);
        let start = usize::try_from(turn % (creatives.len().max(1) as u64)).unwrap_or(0);
        let mut refusal = Reason::Targeting;
        for at in (start..creatives.len()).chain(0..start) {
            let creative = &creatives[at];
            let Some(placement) = fitting(impression, creative) else { continue };
            if self.is_blocked(impression, creative, deal) {
                refusal = Reason::Blocked;
            } else if !impression.secure || creative.secure {
                return Ok((at, placement));
            } else if refusal == Reason::Targeting {
                refusal = Reason::Insecure;
            }
        }
        Err(refusal)
    }

    fn is_blocked(
        &self,
        impression: &Impression<'_>,
        creative: &Creative,
        deal: Option<&Deal<'_>>,
    ) -> bool {
        let Scratch { categories_allowed, categories_blocked, advertisers_blocked, .. } =
            &*self.scratch;
        let Creative { categories, domains, attributes, .. } = creative;
        let only = !self.request.categories_allowed.is_empty();
        let deal_for = deal.map_or(&[][..], |deal| deal.domains);
        categories.iter().any(|key| categories_blocked.has(*key))
            || (only && !within(categories, |key| categories_allowed.has(key)))
            || domains.iter().any(|key| advertisers_blocked.has(*key))
            || (!deal_for.is_empty() && !within(domains, |key| deal_for.contains(&key)))
            || attributes.iter().any(|attribute| impression.attributes_blocked.contains(attribute))
    }
}

/// Are all keys allowed? Who says nothing about itself cannot show that it is.
fn within(keys: &[u32], allowed: impl Fn(u32) -> bool) -> bool {
    !keys.is_empty() && keys.iter().all(|key| allowed(*key))
}

#[inline]
fn listed_or_empty(list: &[u32], key: u32) -> bool {
    list.is_empty() || list.contains(&key)
}

/// The first place of the impression where the creative fits, with the size that is known.
fn fitting(impression: &Impression<'_>, creative: &Creative) -> Option<Placement> {
    for placement in impression.placements {
        let mut sizes = creative.sizes.iter();
        if let Some(&size) = sizes.find(|size| placement.takes(creative.format, **size)) {
            let known = (placement.width, placement.height) != (0, 0);
            let (width, height) = if known { (placement.width, placement.height) } else { size };
            return Some(Placement { format: placement.format, width, height });
        }
    }
    None
}

/// The positions of set bits.
struct Ones(u64);

impl Iterator for Ones {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        if self.0 == 0 {
            return None;
        }
        let bit = self.0.trailing_zeros();
        self.0 &= self.0 - 1;
        Some(bit)
    }
}
