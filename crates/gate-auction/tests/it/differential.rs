//! The index and the auction against brute force, on random campaigns and requests.

use std::cell::RefCell;
use std::sync::LazyLock;

use gate_auction::{
    BidContext, Bidder, Campaign, Choice, Counters, Index, Price, Reason, Request, Scratch,
};
use proptest::prelude::*;

use crate::generator::{Body, Dice, LARGE, SMALL, World, campaigns, currency};
use crate::reference::{self, Bid, House, Moods};

/// Remembers who was asked for a price: the candidates.
#[derive(Default)]
struct Asked(RefCell<Vec<u64>>);

impl BidContext for Asked {
    fn price(&mut self, bidder: Bidder, bid: Price) -> Result<Price, Reason> {
        self.peek_price(bidder, bid)
    }

    fn peek_price(&self, bidder: Bidder, bid: Price) -> Result<Price, Reason> {
        self.0.borrow_mut().push(bidder.campaign);
        Ok(bid)
    }
}

impl Asked {
    fn sorted(self) -> Vec<u64> {
        let mut asked = self.0.into_inner();
        asked.sort_unstable();
        asked
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

/// A survey asks exactly those that want the impression, and who wins again, an auction some of them, nobody twice.
fn compare_asked(index: &Index, campaigns: &[Campaign], request: &Request<'_>, at: usize) {
    let impressions = [request.impressions[at]];
    let alone = Request { impressions: &impressions, ..*request };
    let wants = |campaign: &&Campaign| {
        reference::wants(campaign, request, &impressions[0]) && seat_may_bid(request, campaign.seat)
    };
    let wanting: Vec<u64> = campaigns.iter().filter(wants).map(|c| c.id).collect();
    let (surveyed, mut auctioned) = (Asked::default(), Asked::default());
    let mut scratch = Scratch::default();
    index.survey(&alone, &mut scratch, &surveyed, &mut ());
    index.auction(&alone, &mut scratch).impression(0, &mut auctioned);
    let mut surveyed = surveyed.sorted();
    surveyed.dedup();
    assert_eq!(surveyed, wanting);
    let auctioned = auctioned.sorted();
    assert!(auctioned.windows(2).all(|pair| pair[0] < pair[1]), "{auctioned:?}");
    assert!(auctioned.iter().all(|id| wanting.binary_search(id).is_ok()));
}

/// The number of bids that were compared.
fn compare(world: World, count: u64, requests: u32, seed: u64, moods: Moods) -> usize {
    let (own, mut dice) = (currency("USD"), Dice::new(!seed));
    let campaigns = campaigns(count, world, seed);
    let house = House { campaigns: &campaigns, own, moods };
    let index = Index::build(own, &campaigns, u128::from(seed)).unwrap();
    let (mut scratch, mut out, mut bids, mut context) = (Scratch::default(), Vec::new(), 0, moods);
    for _ in 0..requests {
        Body::with_rules(world, &mut dice).lend(|request| {
            for at in 0..request.impressions.len() {
                let mut auction = index.auction(request, &mut scratch);
                let mut found = Vec::new();
                let mut next = auction.impression(at, &mut context);
                while let Some(choice) = next {
                    found.push(bid(&choice));
                    auction.accept();
                    next = auction.another(&mut context);
                }
                assert_eq!(found, reference::bids(house, request, at, &[]), "seed {seed}");
                compare_asked(&index, &campaigns, request, at);
            }
            index.auction(request, &mut scratch).fill(&mut context, &mut out);
            let found: Vec<Bid> = out.iter().map(bid).collect();
            assert_eq!(found, reference::fill(house, request), "fill, seed {seed}");
            bids += found.len();
        });
    }
    bids
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn index_and_brute_force_agree(seed: u64, count in 0_u64..120, moods in 0_u64..4) {
        compare(SMALL, count, 15, seed, Moods(moods));
    }
}

#[test]
fn they_agree_among_many_campaigns() {
    let bids = compare(LARGE, 4_000, 60, 1, Moods(1));
    assert!(bids > 30, "{bids} bids: the test compares too little");
    let bids = compare(SMALL, 2_000, 40, 2, Moods::NONE);
    assert!(bids > 60, "{bids} bids: the test compares too little");
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
                    indexes[at].auction(request, &mut scratch).fill(&mut (), &mut out);
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
                index.auction(request, &mut used).fill(&mut (), &mut one);
                index.auction(request, &mut fresh).fill(&mut (), &mut other);
                assert_eq!(one, other);
                if turn % 5 == 0 {
                    index.survey(request, &mut used, &(), &mut ());
                }
            });
        }
    }

    /// The parts of a survey tell of each campaign what the whole does.
    #[test]
    fn parts_of_a_survey_come_to_the_whole(seed in 0_u64..64, moods in 0_u64..4) {
        static LARGE_INDEX: LazyLock<Index> =
            LazyLock::new(|| Index::build(currency("USD"), &campaigns(17_000, SMALL, 3), 7).unwrap());
        let (index, mut dice, mut scratch) = (&*LARGE_INDEX, Dice::new(seed), Scratch::default());
        prop_assert_eq!(index.survey_parts(), 3);
        let context = Moods(moods);
        let mut counters = [(); 2].map(|()| Counters::new(index.ids().len()));
        Body::with_rules(SMALL, &mut dice).lend(|request| {
            let [whole, parts] = &mut counters;
            index.survey(request, &mut scratch, &context, whole);
            (0..3).for_each(|part| index.survey_part(part, request, &mut scratch, &context, parts));
        });
        let [whole, parts] = counters;
        (0..17_000).try_for_each(|slot| {
            prop_assert_eq!(whole.fates(slot), parts.fates(slot), "slot {}", slot);
            Ok(())
        })?;
    }

    /// A survey finds the auction's winners, and gives every campaign exactly one fate an impression.
    #[test]
    fn surveys_agree_with_auctions(seed: u64, count in 1_u64..200, moods in 0_u64..4) {
        let campaigns = campaigns(count, SMALL, seed);
        let index = Index::build(currency("USD"), &campaigns, 7).unwrap();
        let (mut dice, mut scratch, mut out) = (Dice::new(seed), Scratch::default(), Vec::new());
        let mut context = Moods(moods);
        let mut counters = Counters::new(index.ids().len());
        let mut wins = vec![0; index.ids().len()];
        for _ in 0..20 {
            Body::with_rules(SMALL, &mut dice).lend(|request| {
                index.survey(request, &mut scratch, &context, &mut counters);
                index.auction(request, &mut scratch).fill(&mut context, &mut out);
                out.iter().for_each(|choice| wins[choice.slot as usize] += 1);
            });
        }
        for (slot, won) in (0..).zip(wins) {
            let fates = counters.fates(slot).unwrap();
            let not: u64 = Reason::ALL.iter().map(|reason| fates.of(*reason)).sum();
            prop_assert_eq!(not + u64::from(fates.won + fates.outbid), fates.impressions);
            prop_assert_eq!(fates.won, won);
        }
    }
}
