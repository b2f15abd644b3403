//! One request against all campaigns, step by step.

use crate::auction::{Auction, Desk};
use crate::bits::{Admission, Live, all_live, has};
use crate::index::Index;
use crate::price::Price;
use crate::reason::Reason;
use crate::request::{Dimension, Request};
use crate::scratch::Scratch;

/// One thing that a campaign is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Does it want what the request is in this dimension?
    Wants(Dimension, bool),
    /// Has it a creative of a format and size that fits?
    Fits(bool),
    /// May it bid without a deal, or is one of its deals offered?
    MayDeal(bool),
    /// What it bids, or why not. Asked only if all before was yes.
    Offer(Result<Price, Reason>),
    /// The creative that it shows, or why it is held back.
    Shows(Result<u64, Reason>),
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It bids.
    Bids(Price),
    /// Another campaign of ours bids more.
    Outbid,
    /// It could not.
    Not(Reason),
}

/// What one campaign was asked about one impression, and how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The campaign's slot in the snapshot.
    pub slot: u32,
    /// The campaign's id.
    pub campaign: u64,
    /// All steps until the one that ended it; of targeting always all.
    pub steps: Vec<Step>,
    /// How it ended.
    pub outcome: Outcome,
}

impl Index {
    /// Runs the auction of one impression and tells of every campaign what it was asked, in the order of slots. The
    /// answers come from the bitmaps and functions of the auction itself. It allocates and asks everybody, so it is
    /// for people. `desk` should be one on which asking leaves no trace; impressions before this one are not
    /// auctioned, so nothing is exclusive.
    ///
    /// Empty where there is no such impression.
    #[must_use]
    pub fn explain(
        &self,
        request: &Request<'_>,
        impression: usize,
        scratch: &mut Scratch,
        desk: &mut impl Desk,
    ) -> Vec<Explanation> {
        if impression >= request.impressions.len() {
            return Vec::new();
        }
        let mut auction = self.auction(request, scratch);
        let chosen = auction.impression(impression, desk, &mut ());
        let targeting = auction.targeting();
        let explain = |(slot, steps)| {
            let mut explanation = auction.explain_one(impression, slot, steps, desk);
            if let Some(choice) = chosen.filter(|choice| choice.slot == slot) {
                explanation.outcome = Outcome::Bids(choice.price);
            }
            explanation
        };
        (0..).zip(targeting).map(explain).collect()
    }
}

impl Auction<'_> {
    /// The steps of targeting, by slot, for the impression that was auctioned last.
    fn targeting(&self) -> Vec<Vec<Step>> {
        let place = &self.scratch.place;
        let mut steps = vec![Vec::new(); self.index.ids().len()];
        for (admission, dimension) in self.index.dimensions.iter().zip(Dimension::ALL) {
            let keys = self.request.keys(dimension);
            self.ask(admission, keys, &mut steps, |wants| Step::Wants(dimension, wants));
        }
        self.ask(&self.index.placements, &place.placement_keys, &mut steps, Step::Fits);
        self.ask(&self.index.deals, &place.deal_keys, &mut steps, Step::MayDeal);
        steps
    }

    /// Asks everybody one thing.
    fn ask(
        &self,
        admission: &Admission,
        keys: &[u32],
        steps: &mut [Vec<Step>],
        step: impl Fn(bool) -> Step,
    ) {
        let (mut live, mut room) = (Live::new(), Vec::new());
        all_live(self.index.blocks(), &mut live);
        admission.narrow(keys, &mut live, &mut room);
        for (slot, steps) in (0..).zip(steps) {
            steps.push(step(has(&live, slot)));
        }
    }

    fn explain_one(
        &self,
        impression: usize,
        slot: u32,
        mut steps: Vec<Step>,
        desk: &mut impl Desk,
    ) -> Explanation {
        let campaign = self.bidder(slot).campaign;
        let outcome = match self.judge(impression, slot, &mut steps, desk) {
            Ok(()) => Outcome::Outbid,
            Err(reason) => Outcome::Not(reason),
        };
        Explanation { slot, campaign, steps, outcome }
    }

    fn judge(
        &self,
        impression: usize,
        slot: u32,
        steps: &mut Vec<Step>,
        desk: &mut impl Desk,
    ) -> Result<(), Reason> {
        let no = |step: &Step| {
            matches!(step, Step::Wants(_, false) | Step::Fits(false) | Step::MayDeal(false))
        };
        if steps.iter().any(no) {
            return Err(Reason::Targeting);
        }
        let impression = &self.request.impressions[impression];
        let offer = self.offer(impression, slot, desk);
        steps.push(Step::Offer(offer.map(|ranked| ranked.price)));
        let shows = self.contend(impression, offer?, desk);
        let creatives = self.index.creatives(slot);
        steps.push(Step::Shows(shows.map(|(at, _)| creatives[at].id)));
        shows.map(|_| ())
    }
}
