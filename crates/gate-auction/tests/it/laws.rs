//! Laws of the price. Not asserted, because they do not hold: truthfulness with an increment, revenue that grows with
//! the floor, revenue that grows with bidders where campaigns exclude each other.

use gate_auction::{
    At, Campaign, Choice, Creative, Floor, Format, Impression, Index, Placement, Price, Pricing,
    Request, Rules, Scratch, Targeting, price_to_send,
};
use proptest::prelude::*;

use crate::generator::currency;

fn price(micros: i64) -> Price {
    Price::from_micros(micros).unwrap()
}

fn campaign(id: u64, bid: i64) -> Campaign {
    let creative = Creative {
        id,
        format: Format::Banner,
        sizes: vec![(300, 250)],
        domains: Vec::new(),
        categories: Vec::new(),
        attributes: Vec::new(),
        secure: true,
    };
    Campaign {
        id,
        bid: price(bid),
        advertiser: 0,
        seat: 0,
        modifiers: Vec::new(),
        targeting: Targeting::default(),
        creatives: vec![creative],
    }
}

/// Auctions a banner among these bids; campaign `n` is number `n`.
fn auction(bids: &[i64], floor: i64, id_hash: u64, pricing: Pricing) -> Option<Choice> {
    let campaigns: Vec<Campaign> = (0..).zip(bids).map(|(id, bid)| campaign(id, *bid)).collect();
    let index = Index::build(currency("USD"), &campaigns, 1).unwrap();
    let placements = [Placement { format: Format::Banner, width: 300, height: 250 }];
    let impressions = [Impression {
        placements: &placements,
        floor: Floor { micros: floor, currency: currency("USD") },
        secure: true,
        attributes_blocked: &[],
        deals: &[],
        private: false,
        group: 0,
    }];
    let request = Request {
        id_hash,
        geo: &[],
        devices: &[],
        oses: &[],
        languages: &[],
        supply: &[],
        domains: &[],
        categories: &[],
        segments: &[],
        hour: 0,
        at: At::SecondPlus,
        currencies: &[],
        conversions: &[],
        seats_allowed: &[],
        seats_blocked: &[],
        categories_allowed: &[],
        categories_blocked: &[],
        advertisers_blocked: &[],
        impressions: &impressions,
        rules: Rules { pricing, ..Rules::default() },
    };
    let mut scratch = Scratch::default();
    index.auction(&request, &mut scratch).impression(0, &mut (), &mut ())
}

fn second(bids: &[i64], floor: i64, id_hash: u64) -> Option<Choice> {
    auction(bids, floor, id_hash, Pricing::Second)
}

/// What campaign 0 gains if the impression is worth `value` to it. The increment of one micro is handed back: with it
/// second price is not quite truthful.
fn utility(bids: &[i64], floor: i64, id_hash: u64, value: i64) -> i64 {
    let Some(choice) = second(bids, floor, id_hash) else { return 0 };
    if choice.campaign != 0 {
        return 0;
    }
    let runner_up = bids[1..].iter().copied().filter(|bid| *bid >= floor).max();
    value - runner_up.unwrap_or(floor).max(floor)
}

fn bids() -> impl Strategy<Value = Vec<i64>> {
    // Few values, so that many are equal.
    prop::collection::vec(1_i64..12, 1..8)
}

#[test]
fn a_single_bidder_pays_the_floor() {
    assert_eq!(second(&[9], 4, 0).map(|choice| choice.price), Some(price(4)));
    assert_eq!(second(&[9], 0, 0).map(|choice| choice.price), Some(price(1)), "never nothing");
    assert_eq!(second(&[3], 4, 0), None);
}

#[test]
fn equals_pay_their_bid_and_win_equally_often() {
    let mut wins = [0_u32; 4];
    for id in 0..4_000 {
        let choice = second(&[5, 5, 5, 5], 1, id).unwrap();
        assert_eq!(choice.price, price(5));
        wins[usize::try_from(choice.campaign).unwrap()] += 1;
    }
    assert!(wins.iter().all(|wins| (850..1_150).contains(wins)), "{wins:?}");
}

proptest! {
    #[test]
    fn price_is_between_floor_and_bid(bids in bids(), floor in 0_i64..12, id: u64) {
        for pricing in [Pricing::First, Pricing::Second] {
            let highest = bids.iter().copied().max().unwrap();
            let Some(choice) = auction(&bids, floor, id, pricing) else {
                prop_assert!(highest < floor);
                continue;
            };
            prop_assert_eq!(choice.bid, price(highest));
            prop_assert!(choice.price >= price(floor.max(1)) && choice.price <= choice.bid);
            prop_assert!(pricing == Pricing::Second || choice.price == choice.bid);
        }
    }

    #[test]
    fn price_to_send_is_between_floor_and_bid(bid in 0_i64..1_000, below in 0_i64..1_000, other: Option<u32>) {
        let floor = price((bid - below).max(0));
        let other = other.map(|micros| price(i64::from(micros % 1_000)));
        for at in [At::First, At::SecondPlus, At::Fixed] {
            let sent = price_to_send(at, price(bid), other, floor);
            prop_assert!(floor <= sent && sent <= price(bid), "{at:?}");
        }
    }

    /// Telling one's value is never worse than any other bid, whatever the others do.
    #[test]
    fn second_price_is_truthful(others in bids(), floor in 1_i64..12, id: u64,
                                value in 1_i64..12, lie in 1_i64..12) {
        let with = |own: i64| [&[own][..], &others].concat();
        let (truth, lied) =
            (utility(&with(value), floor, id, value), utility(&with(lie), floor, id, value));
        prop_assert!(truth >= lied, "value {value}: told {truth}, with {lie} {lied}");
        prop_assert!(truth >= 0);
    }

    #[test]
    fn revenue_grows_with_bidders_and_bids(bids in bids(), one_more in 1_i64..12, floor in 0_i64..12,
                                           id: u64, raised in 0_usize..8) {
        let revenue = |bids: &[i64], pricing| {
            auction(bids, floor, id, pricing).map_or(0, |choice| choice.price.micros())
        };
        for pricing in [Pricing::First, Pricing::Second] {
            let before = revenue(&bids, pricing);
            prop_assert!(revenue(&[&bids[..], &[one_more]].concat(), pricing) >= before);
            let mut higher = bids.clone();
            let at = raised % bids.len();
            higher[at] += one_more;
            prop_assert!(revenue(&higher, pricing) >= before);
        }
    }

    /// Who wins still wins, at the same price, with a higher bid; and bids below the second price do not matter.
    #[test]
    fn the_winners_own_bid_moves_nothing(bids in bids(), id: u64, more in 1_i64..10) {
        let choice = second(&bids, 1, id).unwrap();
        let winner = usize::try_from(choice.campaign).unwrap();
        let mut higher = bids.clone();
        higher[winner] += more;
        let again = second(&higher, 1, id).unwrap();
        prop_assert_eq!(again.campaign, choice.campaign);
        let tied = choice.price == choice.bid;
        prop_assert!(again.price == choice.price || (tied && again.price.micros() == choice.price.micros() + 1));
        if bids.len() > 2 {
            let lowest = (0..bids.len()).min_by_key(|at| bids[*at]).unwrap();
            let mut without = bids.clone();
            without[lowest] = 1;
            let seconds = bids.iter().filter(|bid| **bid == bids[lowest]).count();
            if seconds == 1 {
                prop_assert_eq!(second(&without, 1, id).unwrap().price, choice.price);
            }
        }
    }
}
