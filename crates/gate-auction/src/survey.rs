//! The fate of every campaign in one request.

use crate::auction::{Auction, BidContext, Peek};
use crate::index::{Asked, Index};
use crate::rank::Offer;
use crate::reason::{Reason, Tally};
use crate::request::{Impression, Request};
use crate::scratch::{Scratch, Taken};

/// The number of campaigns that are asked while a line comes from memory.
const AHEAD: usize = 8;

impl Index {
    /// Tells `tally` what becomes of every campaign in every impression of a request, as [`Auction::fill`] would decide
    /// it. An auction stops when it is decided, so it cannot tell; a survey asks everybody who might bid, but only peeks
    /// at the context. It costs as much as some sixty auctions: run it for a small sample of requests, chosen by a hash of
    /// their ids. [`Counters`](crate::Counters) know how many impressions were surveyed.
    ///
    /// Impressions of a group that already failed are not auctioned, so they are not surveyed either.
    pub fn survey(
        &self,
        request: &Request<'_>,
        scratch: &mut Scratch,
        context: &impl BidContext,
        tally: &mut impl Tally,
    ) {
        let mut auction = self.auction(request, scratch);
        for (at, impression) in request.impressions.iter().enumerate() {
            let group = impression.group;
            if group != 0 && auction.scratch.failed_groups.contains(&group) {
                continue;
            }
            let bids = auction.survey_one(at, impression, context, tally);
            if group != 0 && bids == 0 {
                auction.fail(group, tally);
            }
        }
        auction.scratch.taken.iter().for_each(|taken| tally.won(taken.slot));
    }
}

impl Auction<'_> {
    /// The number of bids the impression gets.
    fn survey_one(
        &mut self,
        at: usize,
        impression: &Impression<'_>,
        context: &impl BidContext,
        tally: &mut impl Tally,
    ) -> usize {
        if self.begin(at).is_none() {
            return 0;
        }
        tally.impression();
        let dealers = self.gather();
        for at in 0..self.scratch.found.len() {
            self.prefetch(at, context, tally);
            let asked = self.index.asked(self.scratch.found[at]);
            let is_dealer = at < dealers;
            let wants =
                if is_dealer { self.wants(impression, &asked) } else { self.is_candidate(&asked) };
            if wants {
                self.survey_slot(impression, &asked, context, tally);
            }
        }
        self.survey_winners(impression.group)
    }

    /// Finds everybody who may want the impression. Those that may use a deal come first; how many these are.
    fn gather(&mut self) -> usize {
        self.scratch.begin_scan(self.index, self.request, false);
        let Scratch { found, dealers, scan, .. } = &mut *self.scratch;
        found.clear();
        dealers.iter().for_each(|dealers| found.extend_from_slice(&dealers.slots));
        let dealers = found.len();
        scan.take_all(&self.index.rows, found);
        dealers
    }

    /// Those that are found lie all over the memory: asks for the ones that come next.
    #[inline]
    fn prefetch(&self, at: usize, context: &impl BidContext, tally: &impl Tally) {
        let found = &self.scratch.found;
        if let Some(slot) = found.get(at + 2 * AHEAD) {
            self.index.prefetch_entry(*slot);
        }
        if let Some(slot) = found.get(at + AHEAD) {
            self.index.prefetch_record(*slot);
            context.prefetch(*slot);
            tally.prefetch(*slot);
        }
    }

    #[inline]
    fn survey_slot(
        &mut self,
        impression: &Impression<'_>,
        asked: &Asked<'_>,
        context: &impl BidContext,
        tally: &mut impl Tally,
    ) {
        let (mut context, slot) = (Peek(context), asked.slot);
        let offer = self.offer(impression, asked, &mut context);
        let able = offer.and_then(|offer| {
            context.able(asked.bidder(), offer.price)?;
            Ok(offer)
        });
        match able {
            Ok(offer) => {
                tally.ranked(slot);
                self.keep(offer);
            }
            Err(reason) => tally.rejected(slot, reason),
        }
    }

    /// Keeps the best offers, as many as there may be bids.
    fn keep(&mut self, offer: Offer) {
        let most = self.request.rules.bids_per_impression_max.max(1);
        let best = &mut self.scratch.best;
        let at = best.partition_point(|other| *other > offer);
        if at < most {
            best.truncate(most - 1);
            best.insert(at, offer);
        }
    }

    fn survey_winners(&mut self, group: u32) -> usize {
        let Scratch { best, taken, .. } = &mut *self.scratch;
        let bids = best.len();
        taken.extend(best.drain(..).map(|offer| Taken {
            impression: self.at,
            slot: offer.slot,
            advertiser: self.index.entry(offer.slot).advertiser,
            group,
        }));
        bids
    }

    fn fail(&mut self, group: u32, tally: &mut impl Tally) {
        self.scratch.failed_groups.push(group);
        self.scratch.taken.retain(|taken| {
            if taken.group == group {
                tally.dropped(taken.slot, Reason::Group);
            }
            taken.group != group
        });
    }
}
