//! Empty purses, groups, and campaigns that are refused.

use gate_auction::{
    BidContext, Bidder, Campaign, CampaignError, Choice, Conversion, Counters, Creative, Dimension,
    Floor, Format, Impression, Index, Modifier, Price, Rank, Reason, Request, Scratch, UNKNOWN,
};
use proptest::prelude::*;

use crate::generator::{Body, Dice, SMALL, campaigns, currency};
use crate::simple::{Scene, campaign, creative, dealer};

/// Refuses some, by a coin that each answer of `hold`, and each `able`, is asked of.
struct Purses {
    refuses: u64,
    unable: u64,
    held: Vec<(usize, u64)>,
    released: Vec<(usize, u64)>,
}

impl Purses {
    fn new(unable: u64, refuses: u64) -> Purses {
        Purses { refuses, unable, held: Vec::new(), released: Vec::new() }
    }
}

impl BidContext for Purses {
    fn able(&mut self, bidder: Bidder, _: Price) -> Result<(), Reason> {
        if self.unable >> (bidder.campaign % 64) & 1 == 1 { Err(Reason::Cap) } else { Ok(()) }
    }

    fn hold(&mut self, choice: &Choice) -> Result<(), Reason> {
        if self.refuses >> (choice.campaign % 64) & 1 == 1 {
            return Err(Reason::Purse);
        }
        self.held.push((choice.impression, choice.campaign));
        Ok(())
    }

    fn release(&mut self, choice: &Choice) {
        self.released.push((choice.impression, choice.campaign));
    }
}

type Bid = (usize, u64, Price, usize);

fn bids(made: &[Choice]) -> Vec<Bid> {
    made.iter().map(|c| (c.impression, c.campaign, c.price, c.creative)).collect()
}

proptest! {
    /// Whoever cannot pay might as well not exist, for winners and for prices: `able` and leaving them out agree.
    #[test]
    fn the_unable_might_as_well_not_exist(seed: u64, count in 1_u64..63, unable: u64, refuses: u64) {
        let all = campaigns(count, SMALL, seed);
        let can: Vec<Campaign> = all.iter().filter(|c| unable >> c.id & 1 == 0).cloned().collect();
        let own = currency("USD");
        let (index, without) = (Index::build(own, &all, 1).unwrap(), Index::build(own, &can, 1).unwrap());
        let (mut dice, mut scratch) = (Dice::new(seed), Scratch::default());
        for _ in 0..10 {
            Body::with_rules(SMALL, &mut dice).lend(|request| {
                let (mut one, mut other) = (Vec::new(), Vec::new());
                index.auction(request, &mut scratch).fill(&mut Purses::new(unable, refuses), &mut one);
                without.auction(request, &mut scratch).fill(&mut Purses::new(0, refuses), &mut other);
                assert_eq!(bids(&one), bids(&other));
            });
        }
    }

    /// What is held is bid or, where its group was not filled, released: each once. A group is filled whole or not at
    /// all.
    #[test]
    fn what_is_held_is_bid_or_released_exactly_once(seed: u64, count in 1_u64..63, unable: u64, refuses: u64) {
        let index = Index::build(currency("USD"), &campaigns(count, SMALL, seed), 1).unwrap();
        let (mut dice, mut scratch, mut made) = (Dice::new(seed), Scratch::default(), Vec::new());
        for _ in 0..10 {
            Body::with_rules(SMALL, &mut dice).lend(|request| {
                let mut context = Purses::new(unable, refuses);
                index.auction(request, &mut scratch).fill(&mut context, &mut made);
                let mut accounted = context.released.clone();
                accounted.extend(made.iter().map(|choice| (choice.impression, choice.campaign)));
                accounted.sort_unstable();
                context.held.sort_unstable();
                assert_eq!(context.held, accounted);
                for choice in &made {
                    let group = request.impressions[choice.impression].group;
                    let whole = |(at, impression): (usize, &Impression<'_>)| {
                        impression.group != group || made.iter().any(|other| other.impression == at)
                    };
                    assert!(group == 0 || request.impressions.iter().enumerate().all(whole));
                }
            });
        }
    }

    /// Refusing all, one after the other, gives every campaign that can bid once, prices falling.
    #[test]
    fn refusing_goes_through_all(seed: u64, count in 1_u64..200) {
        let campaigns = campaigns(count, SMALL, seed);
        let index = Index::build(currency("USD"), &campaigns, 1).unwrap();
        let (mut dice, mut scratch) = (Dice::new(seed), Scratch::default());
        for _ in 0..10 {
            Body::with_rules(SMALL, &mut dice).lend(|request| {
                let mut auction = index.auction(request, &mut scratch);
                let (mut seen, mut last) = (std::collections::BTreeSet::new(), (2, Price::MAX));
                let mut next = auction.impression(0, &mut ());
                while let Some(choice) = next {
                    let deal = choice.deal.map(|at| request.impressions[0].deals[at].guaranteed);
                    let class = match deal {
                        Some(true) => 2,
                        Some(false) => u8::from(request.rules.deals_first),
                        None => 0,
                    };
                    // By value a lower bid may go before a higher one.
                    let by_bid = if request.rules.rank == Rank::Bid { choice.bid } else { Price::ZERO };
                    assert!(seen.insert(choice.campaign) && (class, by_bid) <= last);
                    assert!(choice.floor <= choice.price && choice.price <= choice.bid);
                    last = (class, by_bid);
                    next = auction.refuse(&mut ());
                }
                let mut counters = Counters::new(index.ids().len());
                let impressions = &request.impressions[..1];
                let alone = Request { impressions, ..*request };
                index.survey(&alone, &mut scratch, &(), &mut counters);
                let fates = (0..).take(index.ids().len()).map(|slot| counters.fates(slot).unwrap());
                let could: usize = fates.map(|fates| (fates.won + fates.outbid) as usize).sum();
                assert_eq!(could, seen.len());
            });
        }
    }
}

#[test]
fn every_mistake_is_named_and_nothing_is_built() {
    let mut wrong = campaigns(4, SMALL, 1);
    wrong[1].id = 1;
    wrong[2].bid = Price::ZERO;
    wrong[2].creatives = Vec::new();
    wrong[2].targeting.deals = Vec::new();
    wrong[2].targeting.deals_only = true;
    wrong[3].modifiers = vec![Modifier { segment: 0, factor: 1_000_001 }];
    wrong[3].targeting.lists_mut(Dimension::Geo).any = vec![UNKNOWN];
    let none: [Creative; 0] = [];
    wrong[3].creatives[0].sizes = Vec::new();
    let errors = Index::build(currency("USD"), &wrong, 1).unwrap_err();
    assert_eq!(wrong[2].creatives, none);
    assert_eq!(errors.len(), 7, "{errors:#?}");
    assert!(errors.contains(&CampaignError::Duplicate { id: 1 }));
    assert!(errors.contains(&CampaignError::NoBid { id: 3 }));
    let ids: Vec<u64> = errors.iter().filter_map(CampaignError::campaign).collect();
    assert!(ids.len() == 7 && ids.iter().all(|id| [1, 3, 4].contains(id)), "{ids:?}");
    assert_eq!(CampaignError::TooMany { found: 9 }.campaign(), None);
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert!(texts.iter().all(|text| text.contains("campaign")), "{texts:?}");
}

/// A campaign that wants the request is told from none, also where others have the format and want something else.
#[test]
fn who_has_no_creative_for_the_request_came_farther_than_who_does_not_want_it() {
    let video = |id: u64, geo: &[u32]| {
        let mut elsewhere = campaign(id, 5);
        elsewhere.creatives = vec![creative(id, Format::Video)];
        elsewhere.targeting.lists_mut(Dimension::Geo).any = geo.to_vec();
        elsewhere
    };
    let banner = campaign(1, 5);
    let mut of_deals = dealer(1, 5, &[7]);
    of_deals.targeting.deals_only = true;
    let mut french = campaign(1, 5);
    french.targeting.lists_mut(Dimension::Geo).any = vec![3];
    let far = |seat: u32| Campaign { seat, ..campaign(1, 5) };
    let formats = [Format::Video];
    let scene = Scene { formats: &formats, ..Scene::default() };
    let of_seat = Scene { seats_allowed: &[4], ..scene };
    let blocked = Scene { seats_blocked: &[4], ..scene };
    for (scene, first, expected) in [
        (scene, banner, Some(Reason::Blocked)),
        (scene, of_deals, None),
        (scene, french, None),
        (of_seat, far(4), Some(Reason::Blocked)),
        (of_seat, far(5), None),
        (blocked, far(5), Some(Reason::Blocked)),
        (blocked, far(4), None),
    ] {
        let all = [first, video(2, &[3])];
        let (bids, refusal) = scene.outcome(&all, &mut ());
        assert_eq!((bids.len(), refusal), (0, expected), "{all:?}");
        let nowhere = Scene { formats: &[], ..scene };
        assert_eq!(nowhere.outcome(&all, &mut ()).1, None, "no impression");
    }
    // Everybody has the format, and bids.
    assert_eq!(scene.outcome(&[video(2, &[])], &mut ()).0.len(), 1);
}

#[test]
fn a_snapshot_of_nobody_answers() {
    let index = Index::build(currency("USD"), &[], 1).unwrap();
    let mut scratch = Scratch::default();
    Body::new(SMALL, &mut Dice::new(1)).lend(|request| {
        let mut auction = index.auction(request, &mut scratch);
        assert_eq!(auction.impression(0, &mut ()), None);
        assert_eq!(auction.impression(usize::MAX, &mut ()), None);
        assert_eq!(auction.refuse(&mut ()), None);
        auction.accept();
        assert_eq!(auction.another(&mut ()), None);
        index.survey(request, &mut Scratch::default(), &(), &mut ());
    });
}

#[test]
fn a_foreign_currency_is_neither_bid_in_nor_guessed() {
    let (usd, eur) = (currency("USD"), currency("EUR"));
    let campaigns = campaigns(200, SMALL, 3);
    let index = Index::build(usd, &campaigns, 1).unwrap();
    let (mut dice, mut scratch) = (Dice::new(4), Scratch::default());
    let mut bids = [0; 4];
    for _ in 0..100 {
        Body::new(SMALL, &mut dice).lend(|request| {
            let floor = Floor { micros: 1_000_000, currency: eur };
            let impressions =
                [Impression { floor, deals: &[], timings: &[], ..request.impressions[0] }];
            let rates = |micros_per_unit| [Conversion { from: eur, micros_per_unit }];
            let euros = Request { impressions: &impressions, ..*request };
            let requests = [
                Request { currencies: &[eur], ..*request },
                euros,
                Request { conversions: &rates(1_100_000), ..euros },
                Request { conversions: &rates(1_100_000), currencies: &[eur, usd], ..euros },
            ];
            for (bids, request) in bids.iter_mut().zip(&requests) {
                let mut auction = index.auction(request, &mut scratch);
                let Some(choice) = auction.impression(0, &mut ()) else { continue };
                *bids += 1;
                assert_eq!(choice.floor.micros(), 1_100_000);
            }
        });
    }
    assert_eq!(bids[..2], [0, 0]);
    assert!(bids[2] > 10 && bids[2] == bids[3], "{bids:?}");
}
