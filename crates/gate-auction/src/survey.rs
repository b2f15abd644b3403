//! The fate of every campaign in one request.

use std::ops::Range;

use crate::auction::{Auction, BidContext, Peek};
use crate::index::{Asked, Index};
use crate::reason::{Reason, Tally};
use crate::request::{Impression, Request};
use crate::scratch::Scratch;

/// The number of campaigns that are asked while a line comes from memory.
const AHEAD: usize = 8;

/// Campaigns that a part of a survey asks at most, whole blocks of slots: some ten microseconds.
pub(crate) const PART: u32 = 8_192;

impl Index {
    /// Tells `tally` what becomes of every campaign in every impression of a request, as [`Auction::fill`] would decide
    /// it. An auction stops when it is decided, so it cannot tell; a survey asks everybody who might bid, but only peeks
    /// at the context. It costs as much as some sixty auctions: run it for a small sample of requests, chosen by a hash of
    /// their ids, or [a part](Index::survey_part) of it. [`Fates`](crate::Fates) tell how many impressions were surveyed.
    ///
    /// Impressions of a group that already failed are not auctioned, so they are not surveyed either.
    pub fn survey(
        &self,
        request: &Request<'_>,
        scratch: &mut Scratch,
        context: &impl BidContext,
        tally: &mut impl Tally,
    ) {
        self.survey_slots(0..u32::MAX, request, scratch, context, tally);
    }

    /// How many parts a survey has.
    #[must_use]
    pub fn survey_parts(&self) -> u32 {
        parts(self.ids().len())
    }

    /// Tells the same of the campaigns of one part, the place of which is below [`Index::survey_parts`]: what a survey does in one go keeps
    /// auctions waiting for as long.
    pub fn survey_part(
        &self,
        part: u32,
        request: &Request<'_>,
        scratch: &mut Scratch,
        context: &impl BidContext,
        tally: &mut impl Tally,
    ) {
        let first = part.saturating_mul(PART);
        self.survey_slots(first..first.saturating_add(PART), request, scratch, context, tally);
    }

    fn survey_slots(
        &self,
        slots: Range<u32>,
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
            let bids = auction.survey_one(at, impression, &slots, context, tally);
            if group != 0 && bids == 0 {
                auction.fail(group, &slots, tally);
            }
        }
        let taken = auction.scratch.taken.iter().map(|taken| taken.slot);
        taken.filter(|slot| slots.contains(slot)).for_each(|slot| tally.won(slot));
    }
}

/// How many parts a survey of so many campaigns has.
pub(crate) fn parts(campaigns: usize) -> u32 {
    u32::try_from(campaigns).unwrap_or(u32::MAX).div_ceil(PART).max(1)
}

impl Auction<'_> {
    /// The number of bids the impression gets.
    fn survey_one(
        &mut self,
        at: usize,
        impression: &Impression<'_>,
        slots: &Range<u32>,
        context: &impl BidContext,
        tally: &mut impl Tally,
    ) -> usize {
        if self.begin(at).is_none() {
            return 0;
        }
        tally.impression(slots);
        let dealers = self.gather(slots);
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
        self.survey_winners(at, context)
    }

    /// Finds everybody of these slots who may want the impression. Those that may use a deal come first; how many these are.
    fn gather(&mut self, slots: &Range<u32>) -> usize {
        self.scratch.begin_scan(self.index, self.request, false);
        let Scratch { found, dealers, scan, .. } = &mut *self.scratch;
        found.clear();
        dealers.iter().for_each(|dealers| found.extend_from_slice(&dealers.slots));
        found.retain(|slot| slots.contains(slot));
        let dealers = found.len();
        scan.only_within(slots);
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
        let able = offer.and_then(|offer| context.able(asked.bidder(), offer.price));
        match able {
            Ok(()) => tally.ranked(slot),
            Err(reason) => tally.rejected(slot, reason),
        }
    }

    /// Has the auction choose, which only peeks; how many bid.
    fn survey_winners(&mut self, at: usize, context: &impl BidContext) -> usize {
        let (mut context, mut bids) = (Peek(context), 0);
        let mut next = self.impression(at, &mut context);
        while next.is_some() {
            self.accept();
            bids += 1;
            // Of a pod, its first ad.
            next = if self.pod.is_some() { None } else { self.another(&mut context) };
        }
        bids
    }

    fn fail(&mut self, group: u32, slots: &Range<u32>, tally: &mut impl Tally) {
        self.scratch.failed_groups.push(group);
        self.scratch.taken.retain(|taken| {
            if taken.group == group && slots.contains(&taken.slot) {
                tally.dropped(taken.slot, Reason::Group);
            }
            taken.group != group
        });
    }
}
