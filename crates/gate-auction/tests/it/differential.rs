//! The index and the auction against brute force, on random campaigns and requests.

use gate_auction::{
    Auction, Bidder, Choice, Counters, Desk, Index, Price, Reason, Request, Scratch,
};
use proptest::prelude::*;

use crate::generator::{Body, Dice, LARGE, SMALL, World, campaigns, currency};
use crate::reference::{self, Bid};

/// Remembers who was asked for a price: the candidates.
#[derive(Default)]
struct Asked(Vec<u64>);

impl Desk for Asked {
    fn price(&mut self, bidder: Bidder, bid: Price) -> Result<Price, Reason> {
        self.0.push(bidder.campaign);
        Ok(bid)
    }
}

fn bid(choice: &Choice) -> Bid {
    let Choice { impression, campaign, deal, price, .. } = *choice;
    Bid { impression, campaign, deal, price }
}

fn seat_may_bid(request: &Request<'_>, seat: u32) -> bool {
    let allowed = request.seats_allowed;
    (allowed.is_empty() || allowed.contains(&seat)) && !request.seats_blocked.contains(&seat)
}

/// How many bids were compared.
fn compare(world: World, count: u64, requests: u32, seed: u64) -> usize {
    let (own, mut dice) = (currency("USD"), Dice::new(!seed));
    let campaigns = campaigns(count, world, seed);
    let index = Index::build(own, &campaigns, u128::from(seed)).unwrap();
    let (mut scratch, mut out, mut bids) = (Scratch::default(), Vec::new(), 0);
    for _ in 0..requests {
        Body::with_rules(world, &mut dice).lend(|request| {
            for (at, impression) in request.impressions.iter().enumerate() {
                let mut asked = Asked::default();
                let mut auction: Auction<'_> = index.auction(request, &mut scratch);
                let chosen = auction.impression(at, &mut asked, &mut ());
                let expected = reference::bids(&campaigns, own, request, at, &[]);
                assert_eq!(chosen.as_ref().map(bid), expected, "seed {seed}");
                asked.0.sort_unstable();
                let wants = |campaign: &&gate_auction::Campaign| {
                    reference::wants(campaign, request, impression)
                        && seat_may_bid(request, campaign.seat)
                };
                let wanting: Vec<u64> = campaigns.iter().filter(wants).map(|c| c.id).collect();
                assert_eq!(asked.0, wanting, "candidates, seed {seed}");
            }
            index.auction(request, &mut scratch).fill(&mut (), &mut (), &mut out);
            let found: Vec<Bid> = out.iter().map(bid).collect();
            assert_eq!(found, reference::fill(&campaigns, own, request), "fill, seed {seed}");
            bids += found.len();
        });
    }
    bids
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn index_and_brute_force_agree(seed: u64, count in 0_u64..120) {
        compare(SMALL, count, 15, seed);
    }
}

#[test]
fn they_agree_among_many_campaigns() {
    let bids = compare(LARGE, 4_000, 40, 1);
    assert!(bids > 10, "{bids} bids: the test compares too little");
    let bids = compare(SMALL, 2_000, 40, 2);
    assert!(bids > 30, "{bids} bids: the test compares too little");
}

proptest! {
    /// The order of the campaigns' file changes nothing, ties included: in this world many bids are equal.
    #[test]
    fn order_changes_nothing(seed: u64, count in 2_u64..150, turn in 1_usize..100) {
        let own = currency("USD");
        let straight = campaigns(count, SMALL, seed);
        let mut turned = straight.clone();
        turned.reverse();
        turned.rotate_left(turn % straight.len());
        let indexes = [straight, turned].map(|campaigns| Index::build(own, &campaigns, 7).unwrap());
        let mut dice = Dice::new(seed);
        for _ in 0..20 {
            Body::with_rules(SMALL, &mut dice).lend(|request| {
                let [one, other] = [0, 1].map(|at| {
                    let (mut scratch, mut out) = (Scratch::default(), Vec::new());
                    indexes[at].auction(request, &mut scratch).fill(&mut (), &mut (), &mut out);
                    out
                });
                assert_eq!(one, other);
            });
        }
    }

    /// A worker's work space carries nothing from one request, or snapshot, to the next.
    #[test]
    fn scratch_forgets(seed: u64) {
        let own = currency("USD");
        let sizes = [40, 900, 3].map(|count| campaigns(count, SMALL, seed ^ count));
        let indexes = sizes.map(|campaigns| Index::build(own, &campaigns, 7).unwrap());
        let (mut dice, mut used) = (Dice::new(seed), Scratch::default());
        for turn in 0..30 {
            let index = &indexes[turn % 3];
            Body::with_rules(SMALL, &mut dice).lend(|request| {
                let (mut fresh, mut one, mut other) = (Scratch::default(), Vec::new(), Vec::new());
                index.auction(request, &mut used).fill(&mut (), &mut (), &mut one);
                index.auction(request, &mut fresh).fill(&mut (), &mut (), &mut other);
                assert_eq!(one, other);
            });
        }
    }

    /// Every campaign has exactly one fate an impression, so the counters add up.
    #[test]
    fn fates_add_up(seed: u64, count in 1_u64..200) {
        let campaigns = campaigns(count, SMALL, seed);
        let index = Index::build(currency("USD"), &campaigns, 7).unwrap();
        let (mut dice, mut scratch, mut out) = (Dice::new(seed), Scratch::default(), Vec::new());
        let (mut counters, mut won) = (Counters::new(index.ids().len()), 0);
        for _ in 0..20 {
            Body::with_rules(SMALL, &mut dice).lend(|request| {
                index.auction(request, &mut scratch).fill(&mut (), &mut counters, &mut out);
                won += out.len();
            });
        }
        let mut counted = 0;
        for slot in (0..).take(index.ids().len()) {
            let fates = counters.fates(slot).unwrap();
            let not: u64 = Reason::ALL.iter().map(|reason| fates.of(*reason)).sum();
            prop_assert_eq!(not + u64::from(fates.won + fates.outbid), fates.impressions);
            counted += fates.won as usize;
        }
        prop_assert_eq!(counted, won);
    }
}
