//! Laws of the price. Not asserted, because they do not hold: truthfulness with an increment, revenue that grows with
//! the floor, revenue that grows with bidders where campaigns exclude each other.

use gate_auction::{
    At, Bidder, Campaign, Choice, Desk, Price, Pricing, Reason, Rules, price_to_send,
};
use proptest::prelude::*;

use crate::simple::{Scene, campaign, price};

/// Auctions a banner among these bids; campaign `n` is number `n`.
fn auction(bids: &[i64], floor: i64, id_hash: u64, pricing: Pricing) -> Option<Choice> {
    let campaigns: Vec<Campaign> = (0..).zip(bids).map(|(id, bid)| campaign(id, *bid)).collect();
    let rules = Rules { pricing, ..Rules::default() };
    let scene = Scene { floor, id_hash, rules, ..Scene::default() };
    scene.bids(&campaigns, &mut ()).first().copied()
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

    /// A campaign that does not win never lowers what the winner pays.
    #[test]
    fn a_loser_never_lowers_the_price(bids in bids(), one_more in 1_i64..12, floor in 0_i64..12, id: u64) {
        for pricing in [Pricing::First, Pricing::Second] {
            let Some(before) = auction(&bids, floor, id, pricing) else { continue };
            let after = auction(&[&bids[..], &[one_more]].concat(), floor, id, pricing).unwrap();
            prop_assert!(after.campaign != before.campaign || after.price >= before.price);
        }
    }

    /// The price is that of an auction without those that cannot pay: they neither win nor set it.
    #[test]
    fn the_unable_set_no_price(bids in bids(), unable: u8, floor in 1_i64..12, id: u64) {
        let campaigns: Vec<Campaign> = (0..).zip(&bids).map(|(id, bid)| campaign(id, *bid)).collect();
        let can = campaigns.iter().filter(|campaign| unable >> campaign.id & 1 == 0);
        let can: Vec<Campaign> = can.cloned().collect();
        let rules = Rules { pricing: Pricing::Second, ..Rules::default() };
        let scene = Scene { floor, id_hash: id, rules, ..Scene::default() };
        let with = scene.bids(&campaigns, &mut Unable(unable));
        let with: Vec<(u64, i64)> = with.iter().map(|c| (c.campaign, c.price.micros())).collect();
        prop_assert_eq!(with, scene.prices(&can));
    }
}

/// By bits of the campaign's id.
struct Unable(u8);

impl Desk for Unable {
    fn able(&mut self, bidder: Bidder, _: Price) -> Result<(), Reason> {
        if self.0 >> bidder.campaign & 1 == 1 { Err(Reason::Purse) } else { Ok(()) }
    }
}
