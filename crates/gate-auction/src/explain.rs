//! One request against all campaigns, step by step.

use crate::auction::{Auction, BidContext, Choice, Peek};
use crate::conditions;
use crate::index::{Asked, Index};
use crate::price::Price;
use crate::reason::Reason;
use crate::request::{Dimension, Impression, Request};
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
    /// What it offers, with a creative that may be shown, or why not. Asked only if all before was yes.
    Offers(Result<Price, Reason>),
    /// The creative that it shows.
    Shows(u64),
    /// Is it able to pay?
    Able(Result<(), Reason>),
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
    /// answers come from the functions of the auction itself. It allocates and asks everybody, so it is for people. The
    /// context is only peeked at; impressions before this one are not auctioned, so nothing is exclusive.
    ///
    /// Empty where there is no such impression.
    #[must_use]
    pub fn explain(
        &self,
        request: &Request<'_>,
        impression: usize,
        scratch: &mut Scratch,
        context: &impl BidContext,
    ) -> Vec<Explanation> {
        let Some(place) = request.impressions.get(impression) else { return Vec::new() };
        let mut auction = self.auction(request, scratch);
        let choices = auction.choices(impression, context);
        let explain = |slot| auction.explain_one(place, slot, &choices, context);
        (0..).take(self.ids().len()).map(explain).collect()
    }
}

impl Auction<'_> {
    /// All bids for the impression.
    fn choices(&mut self, impression: usize, context: &impl BidContext) -> Vec<Choice> {
        let (mut context, mut choices) = (Peek(context), Vec::new());
        let mut next = self.impression(impression, &mut context);
        while let Some(choice) = next {
            choices.push(choice);
            self.accept();
            next = self.another(&mut context);
        }
        choices
    }

    fn explain_one(
        &self,
        impression: &Impression<'_>,
        slot: u32,
        choices: &[Choice],
        context: &impl BidContext,
    ) -> Explanation {
        let mut steps = self.targeting(impression, slot);
        let judged = self.judge(impression, slot, &mut steps, context);
        let outcome = match (judged, choices.iter().find(|choice| choice.slot == slot)) {
            (_, Some(choice)) => Outcome::Bids(choice.price),
            (Ok(()), None) => Outcome::Outbid,
            (Err(reason), None) => Outcome::Not(reason),
        };
        Explanation { slot, campaign: self.bidder(slot).campaign, steps, outcome }
    }

    fn targeting(&self, impression: &Impression<'_>, slot: u32) -> Vec<Step> {
        let Asked { entry, record, .. } = self.index.asked(slot);
        let wants = |dimension| {
            let hold =
                |words| conditions::hold_in(dimension, words, self.request, &self.scratch.segments);
            let holds = hold(self.index.wishes(slot)) && hold(record.conditions);
            Step::Wants(dimension, holds)
        };
        let fits = self.fits(impression, record);
        let mut offered = impression.deals.iter().map(|deal| deal.id);
        let may = !entry.span.deals_only || offered.any(|deal| record.deals.contains(&deal));
        let wanted = Dimension::ALL.into_iter().map(wants);
        wanted.chain([Step::Fits(fits), Step::MayDeal(may)]).collect()
    }

    fn judge(
        &self,
        impression: &Impression<'_>,
        slot: u32,
        steps: &mut Vec<Step>,
        context: &impl BidContext,
    ) -> Result<(), Reason> {
        let no = |step: &Step| {
            matches!(step, Step::Wants(_, false) | Step::Fits(false) | Step::MayDeal(false))
        };
        if steps.iter().any(no) {
            return Err(Reason::Targeting);
        }
        let offer = self.offer(impression, &self.index.asked(slot), &mut Peek(context));
        steps.push(Step::Offers(offer.map(|offer| offer.price)));
        let offer = offer?;
        steps.push(Step::Shows(self.index.creatives(slot)[offer.creative as usize].id));
        let able = context.peek_able(self.bidder(slot), offer.price);
        steps.push(Step::Able(able));
        able
    }
}
