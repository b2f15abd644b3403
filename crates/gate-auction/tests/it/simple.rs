//! The smallest campaigns and requests, for tests of one rule.

use gate_auction::{
    BidContext, Campaign, Choice, Creative, Deal, Floor, Format, Impression, Index, Placement,
    Price, PriceRule, Pricing, Reason, Request, Rules, Scratch, Targeting, Timing,
};

use crate::generator::currency;

pub(crate) fn price(micros: i64) -> Price {
    Price::from_micros(micros).unwrap()
}

pub(crate) fn usd(micros: i64) -> Floor {
    Floor { micros, currency: currency("USD") }
}

pub(crate) fn creative(id: u64, format: Format) -> Creative {
    Creative {
        id,
        format,
        sizes: vec![(300, 250)],
        domains: Vec::new(),
        categories: Vec::new(),
        attributes: Vec::new(),
        secure: true,
        duration_s: 0,
        bundle: None,
        language: None,
    }
}

/// Wants everything, has a banner.
pub(crate) fn campaign(id: u64, bid: i64) -> Campaign {
    Campaign {
        id,
        bid: price(bid),
        advertiser: 0,
        seat: 0,
        modifiers: Vec::new(),
        targeting: Targeting::default(),
        creatives: vec![creative(id, Format::Banner)],
    }
}

/// May use these deals, and bid without.
pub(crate) fn dealer(id: u64, bid: i64, deals: &[u32]) -> Campaign {
    let mut campaign = campaign(id, bid);
    campaign.targeting.deals = deals.to_vec();
    campaign
}

pub(crate) fn deal(id: u32, floor: i64) -> Deal<'static> {
    Deal {
        id,
        floor: usd(floor),
        at: None,
        seats: &[],
        domains: &[],
        guaranteed: false,
        floor_per_second_micros: None,
        floors: &[],
    }
}

/// A request: an impression for each of `formats`, all on the same terms. One for a banner, if nothing else is said.
#[derive(Clone, Copy)]
pub(crate) struct Scene<'a> {
    pub(crate) formats: &'a [Format],
    pub(crate) floor: i64,
    pub(crate) at: PriceRule,
    pub(crate) id_hash: u64,
    pub(crate) deals: &'a [Deal<'a>],
    pub(crate) timings: &'a [Timing<'a>],
    pub(crate) private: bool,
    pub(crate) seats_allowed: &'a [u32],
    pub(crate) seats_blocked: &'a [u32],
    pub(crate) categories_blocked: &'a [u32],
    pub(crate) bundles_blocked: &'a [u32],
    pub(crate) languages_allowed: &'a [u32],
    pub(crate) rules: Rules,
}

/// The rules in which the request's `at` makes the price, so that one scene has all three kinds.
pub(crate) fn by_at() -> Rules {
    Rules { pricing: Pricing::ByAt, ..Rules::default() }
}

impl Default for Scene<'_> {
    fn default() -> Self {
        Scene {
            formats: &[Format::Banner],
            floor: 1,
            at: PriceRule::SecondPlus,
            id_hash: 0,
            deals: &[],
            timings: &[],
            private: false,
            seats_allowed: &[],
            seats_blocked: &[],
            categories_blocked: &[],
            bundles_blocked: &[],
            languages_allowed: &[],
            rules: by_at(),
        }
    }
}

impl Scene<'_> {
    /// All bids among these campaigns.
    pub(crate) fn bids(
        &self,
        campaigns: &[Campaign],
        context: &mut impl BidContext,
    ) -> Vec<Choice> {
        self.outcome(campaigns, context).0
    }

    /// The same, and why there are no others.
    pub(crate) fn outcome(
        &self,
        campaigns: &[Campaign],
        context: &mut impl BidContext,
    ) -> (Vec<Choice>, Option<Reason>) {
        let index = Index::build(currency("USD"), campaigns, 1).unwrap();
        let placement = |format: &Format| [Placement { format: *format, width: 300, height: 250 }];
        let placements: Vec<_> = self.formats.iter().map(placement).collect();
        let impressions: Vec<_> = placements.iter().map(|of| self.impression(of)).collect();
        let request = Request {
            id_hash: self.id_hash,
            geo: &[],
            devices: &[],
            oses: &[],
            languages: &[],
            supply: &[],
            domains: &[],
            categories: &[],
            categories_possible: &[],
            segments: &[],
            unknown: &[],
            quarter_of_week: 0,
            at: self.at,
            currencies: &[],
            conversions: &[],
            seats_allowed: self.seats_allowed,
            seats_blocked: self.seats_blocked,
            categories_allowed: &[],
            categories_blocked: self.categories_blocked,
            advertisers_blocked: &[],
            bundles_blocked: self.bundles_blocked,
            languages_allowed: self.languages_allowed,
            impressions: &impressions,
            rules: self.rules,
        };
        let (mut scratch, mut out) = (Scratch::default(), Vec::new());
        let mut auction = index.auction(&request, &mut scratch);
        auction.fill(context, &mut out);
        let refusal = auction.refusal();
        (out, refusal)
    }

    fn impression<'b>(&'b self, placements: &'b [Placement]) -> Impression<'b> {
        Impression {
            placements,
            timings: self.timings,
            floor: usd(self.floor),
            secure: true,
            attributes_blocked: &[],
            deals: self.deals,
            private: self.private,
            group: 0,
        }
    }

    /// Campaign and price of each bid, by impression and best first.
    pub(crate) fn prices(&self, campaigns: &[Campaign]) -> Vec<(u64, i64)> {
        paid(&self.bids(campaigns, &mut ()))
    }
}

/// Campaign and price of each.
pub(crate) fn paid(made: &[Choice]) -> Vec<(u64, i64)> {
    made.iter().map(|choice| (choice.campaign, choice.price.micros())).collect()
}
