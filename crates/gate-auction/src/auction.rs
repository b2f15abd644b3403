//! One request's auction: who is looked at, in which order, and when that is enough.

use crate::conditions;
use crate::index::{Asked, Index};
use crate::price::{Price, PriceRule, price_to_send};
use crate::rank::{Class, Offer};
use crate::reason::Reason;
use crate::request::{Format, Impression, Placement, Request};
use crate::scratch::{DEALING, Scratch, Taken};

/// Where nobody bids, so many steps of the scan are taken to learn the reason: whether the floor is above those that are left, or
/// whether those that want the request have no creative for it.
const REASON_STEPS_MAX: usize = 8;
const FLOOR_STEP: u8 = Reason::Floor.step();

/// Who is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bidder {
    /// Its slot in the snapshot.
    pub slot: u32,
    /// Its id.
    pub campaign: u64,
}

/// What stands behind the auction: paces, caps, purses. `()` lets everything through.
///
/// What asks without meaning it, [`Index::survey`] and [`Index::explain`], borrows the context immutably and calls the
/// `peek` methods: they should answer as their twins would and leave no trace.
pub trait BidContext {
    /// What this candidate bids now, at most `bid`: the place of pacing. Asked at most once per impression, or ad of a dynamic pod, and
    /// only until the impression is decided: first of those that may use a guaranteed deal, then of those that may use another deal,
    /// then of the rest; of each kind in falling order of what they can bid at most.
    ///
    /// # Errors
    /// Why it does not bid.
    #[inline]
    fn price(&mut self, bidder: Bidder, bid: Price) -> Result<Price, Reason> {
        let _ = bidder;
        Ok(bid)
    }

    /// May this creative of its campaign be shown in this impression: is no cap of its own reached, does the campaign want
    /// its player, and can it be played? Asked of a creative that may be shown otherwise; if not, another one of the campaign may be.
    /// `impression` is its position in the request, `creative` its position in [`Index::creatives`].
    ///
    /// # Errors
    /// [`Reason::Cap`], [`Reason::Targeting`]; anything else counts as [`Reason::Blocked`].
    #[inline]
    fn may_show(&self, bidder: Bidder, impression: usize, creative: usize) -> Result<(), Reason> {
        let _ = (bidder, impression, creative);
        Ok(())
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

    /// Is there time to look for a further ad of a dynamic pod? Each takes as long as an auction.
    #[inline]
    fn has_time(&mut self) -> bool {
        true
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

    /// [`BidContext::peek_price`] may soon be asked of this slot: a chance to ask for its memory.
    #[inline]
    fn prefetch(&self, slot: u32) {
        let _ = slot;
    }

    /// What [`BidContext::price`] would say.
    ///
    /// # Errors
    /// Why it would not bid.
    #[inline]
    fn peek_price(&self, bidder: Bidder, bid: Price) -> Result<Price, Reason> {
        let _ = bidder;
        Ok(bid)
    }

    /// What [`BidContext::able`], and then [`BidContext::hold`], would say.
    ///
    /// # Errors
    /// Why not.
    #[inline]
    fn peek_able(&self, bidder: Bidder, bid: Price) -> Result<(), Reason> {
        let _ = (bidder, bid);
        Ok(())
    }
}

impl BidContext for () {}

/// A context that is only peeked at.
pub(crate) struct Peek<'a, D>(pub(crate) &'a D);

impl<D: BidContext> BidContext for Peek<'_, D> {
    #[inline]
    fn price(&mut self, bidder: Bidder, bid: Price) -> Result<Price, Reason> {
        self.0.peek_price(bidder, bid)
    }

    #[inline]
    fn may_show(&self, bidder: Bidder, impression: usize, creative: usize) -> Result<(), Reason> {
        self.0.may_show(bidder, impression, creative)
    }

    #[inline]
    fn able(&mut self, bidder: Bidder, bid: Price) -> Result<(), Reason> {
        self.0.peek_able(bidder, bid)
    }
}

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

/// What is left of a dynamic pod.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PodLeft {
    pub(crate) format: Format,
    pub(crate) seconds: u32,
    ads: u32,
}

/// The auction of one request. Impressions are auctioned one after the other: either all by [`Auction::fill`], or by
/// hand: [`Auction::impression`], then any number of [`Auction::refuse`], then [`Auction::accept`], and the last two
/// again after each [`Auction::another`].
pub struct Auction<'a> {
    pub(crate) index: &'a Index,
    pub(crate) request: &'a Request<'a>,
    pub(crate) scratch: &'a mut Scratch,
    pub(crate) currency_taken: bool,
    /// The impression.
    pub(crate) at: usize,
    chosen: Option<Choice>,
    runner_up: Option<Offer>,
    /// Bids that were accepted for the impression.
    accepted: usize,
    /// What is left of the dynamic pod that the impression is, once it has an ad.
    pub(crate) pod: Option<PodLeft>,
    looked_at: usize,
    refusal: Option<Reason>,
}

impl Index {
    /// Starts the auction of a request.
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
            at: 0,
            chosen: None,
            runner_up: None,
            accepted: 0,
            pod: None,
            looked_at: 0,
            refusal: None,
        }
    }
}

impl Auction<'_> {
    /// Chooses for one impression. `None`: nobody bids, or there is no such impression.
    pub fn impression(&mut self, at: usize, context: &mut impl BidContext) -> Option<Choice> {
        self.enter(at)?;
        self.choose(context)
    }

    /// The chosen one does not bid after all, for instance because its purse is empty. Chooses the next best, whose
    /// price depends on the one after it. Goes on where the search stopped.
    pub fn refuse(&mut self, context: &mut impl BidContext) -> Option<Choice> {
        self.chosen.take()?;
        self.choose(context)
    }

    /// The chosen one bids; from now on it excludes what the rules say.
    pub fn accept(&mut self) {
        let Some(choice) = self.chosen.take() else { return };
        self.accepted += 1;
        self.pod = self.pod_after(&choice);
        self.scratch.taken.push(Taken {
            impression: choice.impression,
            slot: choice.slot,
            advertiser: self.index.entry(choice.slot).advertiser,
            group: self.request.impressions[choice.impression].group,
        });
    }

    /// After [`Auction::accept`]: a further bid for the same impression, priced as if those before it were not there; of a
    /// dynamic pod, its next ad. `None` also when there are as many as the rules allow, or the pod.
    pub fn another(&mut self, context: &mut impl BidContext) -> Option<Choice> {
        if let Some(pod) = self.pod {
            return self.next_of_pod(pod, context);
        }
        let most = self.request.rules.bids_per_impression_max;
        if self.chosen.is_some() || self.accepted == 0 || self.accepted >= most {
            return None;
        }
        self.choose(context)
    }

    /// What is left of a pod after an ad; `None` where the impression is none for this format.
    fn pod_after(&self, choice: &Choice) -> Option<PodLeft> {
        let format = choice.placement.format;
        let timings = self.request.impressions.get(choice.impression)?.timings;
        let left = self.pod.or_else(|| {
            let timing = timings.iter().find(|timing| timing.format == format)?;
            timing.pod.map(|pod| PodLeft { format, seconds: pod.duration_s, ads: pod.ads_max })
        })?;
        let creative = self.index.creatives(choice.slot).get(choice.creative)?;
        let seconds = left.seconds.saturating_sub(creative.duration_s);
        Some(PodLeft { format, seconds, ads: left.ads.saturating_sub(1) })
    }

    /// Chooses among those for which time is left: others may have a creative that fits it than before.
    fn next_of_pod(&mut self, pod: PodLeft, context: &mut impl BidContext) -> Option<Choice> {
        if self.chosen.is_some() || pod.ads == 0 || pod.seconds == 0 {
            return None;
        }
        let accepted = self.accepted;
        self.enter(self.at)?;
        (self.pod, self.accepted) = (Some(pod), accepted);
        self.choose(context)
    }

    /// The number of campaigns that were looked at so far: the index said that they may want an impression.
    #[must_use]
    pub fn looked_at(&self) -> usize {
        self.looked_at
    }

    /// What stood in the way of who came farthest in any impression, in the order of [`Reason::step`], among those that
    /// were looked at; `None` where nobody wanted the request. It tells why there is no bid.
    #[must_use]
    pub fn refusal(&self) -> Option<Reason> {
        self.refusal
    }

    /// Notes what stood in the way of somebody.
    #[inline]
    fn note(&mut self, reason: Reason) {
        if self.refusal.is_none_or(|noted| noted.step() < reason.step()) {
            self.refusal = Some(reason);
        }
    }

    /// How many blocks of 512 campaigns were searched so far.
    #[must_use]
    pub fn blocks_read(&self) -> usize {
        self.scratch.scan.blocks_read
    }

    /// Chooses for all impressions, holds the money, and leaves in `out` who bids. Groups are filled whole or not at
    /// all. Impressions are taken in the request's order, each gets the best that is left: where campaigns exclude each
    /// other another assignment might fill a group that this one does not.
    pub fn fill(&mut self, context: &mut impl BidContext, out: &mut Vec<Choice>) {
        out.clear();
        self.scratch.taken.clear();
        self.scratch.failed_groups.clear();
        let mut further_ads = self.request.rules.further_ads_max;
        for (at, impression) in self.request.impressions.iter().enumerate() {
            let group = impression.group;
            if group != 0 && self.scratch.failed_groups.contains(&group) {
                continue;
            }
            let before = out.len();
            let mut next = self.impression(at, context);
            while let Some(choice) = self.hold(next, context) {
                out.push(choice);
                if self.pod.is_some() {
                    if further_ads == 0 || !context.has_time() {
                        break;
                    }
                    further_ads -= 1;
                }
                next = self.another(context);
            }
            if group != 0 && out.len() == before {
                self.give_up(group, context, out);
            }
        }
        if self.refusal.is_none() && out.is_empty() {
            self.note_unfit();
        }
    }

    /// Is there somebody among the first who wants the request, and has no creative for any of its impressions? It is asked once
    /// a request, and only where nobody was found.
    #[cold]
    fn note_unfit(&mut self) {
        let mut impressions = self.request.impressions.iter();
        if impressions.any(|impression| !impression.placements.is_empty()) {
            self.scratch.begin_scan_of_all(self.index, self.request);
            if self.finds_candidate() {
                self.note(Reason::Blocked);
            }
        }
    }

    /// Is somebody who may bid among the next few of the scan?
    fn finds_candidate(&mut self) -> bool {
        for _ in 0..REASON_STEPS_MAX {
            if self.scratch.scan.reach().is_none() {
                return false;
            }
            let Some(slot) = self.scratch.scan.take(&self.index.rows) else { continue };
            // Where no set of the scan restricts, it goes on behind the last campaign.
            if slot as usize >= self.index.ids().len() {
                return false;
            }
            let asked = self.index.asked(slot);
            let is_found_here = !asked.entry.span.deals_only && self.is_candidate(&asked);
            if is_found_here && self.seat_may_bid(asked.entry.seat) {
                return true;
            }
        }
        false
    }

    /// The choice, or the best after it, whose money could be held.
    fn hold(&mut self, mut next: Option<Choice>, context: &mut impl BidContext) -> Option<Choice> {
        while let Some(choice) = next {
            match context.hold(&choice) {
                Ok(()) => {
                    self.accept();
                    return Some(choice);
                }
                Err(reason) => self.note(reason),
            }
            next = self.refuse(context);
        }
        None
    }

    fn give_up(&mut self, group: u32, context: &mut impl BidContext, out: &mut Vec<Choice>) {
        self.scratch.failed_groups.push(group);
        self.scratch.taken.retain(|taken| taken.group != group);
        out.retain(|choice| {
            let stays = self.request.impressions[choice.impression].group != group;
            if !stays {
                context.release(choice);
            }
            stays
        });
    }

    /// Prepares the impression.
    fn enter(&mut self, at: usize) -> Option<()> {
        self.begin(at)?;
        let (place, impression) = (&self.scratch.place, &self.request.impressions[at]);
        let open = place.floor.is_some() || place.by_duration;
        if open && self.currency_taken && !impression.private {
            self.scratch.begin_scan(self.index, self.request, true);
        }
        // Where all are refused at once nobody is asked.
        if !self.currency_taken {
            self.note(Reason::Currency);
        } else if impression.private {
            self.note(Reason::Deal);
        } else if !open {
            let is_own = impression.floor.currency == self.index.currency;
            self.note(if is_own { Reason::Floor } else { Reason::Currency });
        }
        if self.scratch.nothing_fits() && !impression.placements.is_empty() {
            self.note(Reason::Blocked);
        }
        Some(())
    }

    /// Forgets the impression before.
    pub(crate) fn begin(&mut self, at: usize) -> Option<()> {
        (self.at, self.chosen, self.runner_up, self.accepted) = (at, None, None, 0);
        self.pod = None;
        self.scratch.offers.clear();
        self.scratch.scan.stop();
        let impression = self.request.impressions.get(at)?;
        self.scratch.enter(self.index, self.request, impression);
        Some(())
    }

    /// Does the campaign want the impression? Asked of those who were not found by the scan.
    pub(crate) fn wants(&self, impression: &Impression<'_>, asked: &Asked<'_>) -> bool {
        let (request, segments) = (self.request, &self.scratch.segments);
        conditions::hold(self.index.wishes(asked.slot), request, segments)
            && conditions::hold(asked.record.conditions, request, segments)
            && self.fits(impression, asked.record)
    }

    /// Does a campaign that the scan found want the request, and was it not asked as a dealer?
    #[inline]
    pub(crate) fn is_candidate(&self, asked: &Asked<'_>) -> bool {
        conditions::hold(asked.record.conditions, self.request, &self.scratch.segments)
            && (asked.record.deals.is_empty() || !self.scratch.is_dealer(asked.slot))
    }

    pub(crate) fn bidder(&self, slot: u32) -> Bidder {
        self.index.asked(slot).bidder()
    }

    /// The best that is left, priced.
    fn choose(&mut self, context: &mut impl BidContext) -> Option<Choice> {
        let impression = self.request.impressions.get(self.at)?;
        let best = match self.runner_up.take() {
            Some(runner_up) => runner_up,
            None => self.next(impression, Class::Open, context)?,
        };
        let deal = best.deal.map(|at| at as usize);
        let kind = self.kind(deal.and_then(|at| impression.deals.get(at)));
        if kind == PriceRule::SecondPlus {
            // Classes below cannot take the place of this one, so they do not set its price.
            self.runner_up = self.next(impression, best.class, context);
        }
        let second = self.runner_up.map(|runner_up| runner_up.price);
        self.chosen = Some(Choice {
            impression: self.at,
            slot: best.slot,
            campaign: self.bidder(best.slot).campaign,
            creative: best.creative as usize,
            placement: best.placement,
            deal,
            bid: best.price,
            floor: best.floor,
            price: price_to_send(kind, best.price, second, best.floor),
        });
        self.chosen
    }

    /// The next in rank, of this class or one above, that is able to pay.
    fn next(
        &mut self,
        impression: &Impression<'_>,
        class: Class,
        context: &mut impl BidContext,
    ) -> Option<Offer> {
        loop {
            self.look_for_better(impression, class, context);
            if self.scratch.offers.peek()?.class < class {
                return None;
            }
            let offer = self.scratch.offers.pop()?;
            match context.able(self.bidder(offer.slot), offer.price) {
                Ok(()) => return Some(offer),
                Err(reason) => self.note(reason),
            }
        }
    }

    /// Looks at campaigns until none that is left can go before the best offer: those that may use a guaranteed deal, a
    /// deal, and then all others, as far as these can be of `class`.
    fn look_for_better(
        &mut self,
        impression: &Impression<'_>,
        class: Class,
        context: &mut impl BidContext,
    ) {
        for (at, of) in (0..).zip(DEALING) {
            if of >= class && !self.look_at_dealers(at, of, impression, context) {
                return;
            }
        }
        if class == Class::Open {
            self.look_at_rest(impression, context);
        }
    }

    /// In falling order of their bounds. Whether all were asked.
    fn look_at_dealers(
        &mut self,
        at: usize,
        class: Class,
        impression: &Impression<'_>,
        context: &mut impl BidContext,
    ) -> bool {
        while let Some(&slot) = self.scratch.dealers[at].left() {
            if self.is_beaten(class, slot) {
                return false;
            }
            self.scratch.dealers[at].asked += 1;
            self.looked_at += 1;
            let asked = self.index.asked(slot);
            if self.wants(impression, &asked) {
                self.take_offer(impression, &asked, context);
            }
        }
        true
    }

    /// In falling order of their bounds, until nobody who is left meets the floor.
    fn look_at_rest(&mut self, impression: &Impression<'_>, context: &mut impl BidContext) {
        let lowest = match self.scratch.place.floor {
            Some(floor) if !self.scratch.place.by_duration => floor,
            _ => self.request.rules.price_min,
        };
        while let Some(reach) = self.scratch.scan.reach() {
            if self.index.bound(reach) < lowest {
                if self.scratch.offers.is_empty() {
                    self.note_floor();
                }
                self.scratch.scan.stop();
                return;
            }
            if self.is_beaten(Class::Open, reach) {
                return;
            }
            let Some(slot) = self.scratch.scan.take(&self.index.rows) else { continue };
            self.looked_at += 1;
            let asked = self.index.asked(slot);
            if self.is_candidate(&asked) {
                self.take_offer(impression, &asked, context);
            }
        }
    }

    #[inline]
    fn take_offer(
        &mut self,
        impression: &Impression<'_>,
        asked: &Asked<'_>,
        context: &mut impl BidContext,
    ) {
        match self.offer(impression, asked, context) {
            Ok(offer) => self.scratch.offers.push(offer),
            Err(reason) => self.note(reason),
        }
    }

    /// Is there somebody who wants the impression among the next few that do not reach the floor? It is asked once an
    /// impression, and only where nobody else came as far.
    #[cold]
    fn note_floor(&mut self) {
        if self.accepted > 0 || self.refusal.is_some_and(|noted| noted.step() >= FLOOR_STEP) {
            return;
        }
        if self.finds_candidate() {
            self.note(Reason::Floor);
        }
    }

    /// Does the best offer go before this campaign's, and before those of all behind it?
    #[inline]
    fn is_beaten(&self, class: Class, slot: u32) -> bool {
        let bound = self.index.bound(slot).micros();
        let bound = self.request.rules.rank.score(bound, bound);
        self.scratch.offers.peek().is_some_and(|best| best.beats(class, bound))
    }
}
