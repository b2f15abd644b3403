//! Laws of one impression's price. What looks like a law and is none is in `counterexamples`.

use gate_auction::{
    BidContext, Bidder, Campaign, Choice, Price, PriceRule, Pricing, Reason, Rules, price_to_send,
};
use proptest::prelude::*;

use crate::simple::{Scene, campaign, paid, price};

/// Micros of a unit. Where bids are whole units and the price is rounded down to them, the increment of one micro is
/// gone: these are the prices of an auction without one.
const UNIT: i64 = 1_000;

/// Auctions a banner among these bids; campaign `n` is number `n`. Who bids 0 is not there.
fn auction(bids: &[i64], floor: i64, id_hash: u64, pricing: Pricing) -> Option<Choice> {
    let there = (0..).zip(bids).filter(|(_, bid)| **bid > 0);
    let campaigns: Vec<Campaign> = there.map(|(id, bid)| campaign(id, *bid)).collect();
    scene(floor, id_hash, pricing).bids(&campaigns, &mut ()).first().copied()
}

fn scene(floor: i64, id_hash: u64, pricing: Pricing) -> Scene<'static> {
    let rules = Rules { pricing, ..Rules::default() };
    Scene { floor, id_hash, rules, ..Scene::default() }
}

pub(crate) fn second(bids: &[i64], floor: i64, id_hash: u64) -> Option<Choice> {
    auction(bids, floor, id_hash, Pricing::Second)
}

/// Winner and price, in units, of a second-price auction without an increment.
fn no_increment(bids: &[i64], floor: i64, id_hash: u64) -> Option<(usize, i64)> {
    let bids: Vec<i64> = bids.iter().map(|bid| bid * UNIT).collect();
    let choice = second(&bids, floor * UNIT, id_hash)?;
    Some((winner(&choice), choice.price.micros() / UNIT))
}

fn winner(choice: &Choice) -> usize {
    usize::try_from(choice.campaign).unwrap()
}

/// With another bid of this one.
fn with(bids: &[i64], at: usize, bid: i64) -> Vec<i64> {
    let mut bids = bids.to_vec();
    bids[at] = bid;
    bids
}

/// What campaign 0 gains that bids `own` where the impression is worth `value` to it.
fn gain(own: i64, others: &[i64], floor: i64, id_hash: u64, value: i64) -> i64 {
    match no_increment(&[&[own], others].concat(), floor, id_hash) {
        Some((0, price)) => value - price,
        _ => 0,
    }
}

fn bids() -> impl Strategy<Value = Vec<i64>> {
    // Few values, so that many are equal.
    prop::collection::vec(1_i64..12, 1..8)
}

/// The statistic of Pearson's test that all of these are equally likely, rounded up.
fn chi_squared(counts: &[u64]) -> u64 {
    let expected = counts.iter().sum::<u64>() / counts.len() as u64;
    let squares: u64 = counts.iter().map(|count| count.abs_diff(expected).pow(2)).sum();
    squares.div_ceil(expected)
}

/// Also by the bidders' ids far apart, and by requests' hashes that lie close together or do not.
#[test]
fn four_equals_win_equally_often() {
    for spread in [1, 0x9e37_79b9_7f4a_7c15_u64] {
        let mut wins = [0_u64; 4];
        let equals: Vec<Campaign> =
            (0..4_u64).map(|id| campaign(id.wrapping_mul(spread), 5)).collect();
        for request in 0..4_000_u64 {
            let scene = scene(1, request.wrapping_mul(spread), Pricing::Second);
            let [(won, 5)] = scene.prices(&equals)[..] else { panic!("one of equals wins, at 5") };
            wins[equals.iter().position(|campaign| campaign.id == won).unwrap()] += 1;
        }
        // Three degrees of freedom: fair coins exceed 16.3 once in a thousand times.
        assert!(chi_squared(&wins) <= 16, "{wins:?}");
    }
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
    fn price_to_send_is_between_floor_and_bid(bid in 0_i64..1_000, below in 0_i64..1_000,
                                              other: Option<u32>) {
        let floor = price((bid - below).max(0));
        let other = other.map(|micros| price(i64::from(micros % 1_000)));
        for at in [PriceRule::First, PriceRule::SecondPlus, PriceRule::Fixed] {
            let sent = price_to_send(at, price(bid), other, floor);
            prop_assert!(floor <= sent && sent <= price(bid), "{at:?}");
        }
    }

    #[test]
    fn a_single_bidder_pays_the_floor(bid in 1_i64..12, floor in 0_i64..12, id: u64) {
        let paid = second(&[bid], floor, id).map(|choice| choice.price);
        // Never nothing: an exchange drops a bid of 0.
        prop_assert_eq!(paid, (bid >= floor).then(|| price(floor.max(1))));
    }

    /// The increment gives way to the bid: b2 = b1.
    #[test]
    fn the_best_of_equals_pays_its_bid(bids in bids(), id: u64) {
        let highest = bids.iter().copied().max().unwrap();
        let choice = second(&[&bids[..], &[highest]].concat(), 1, id).unwrap();
        prop_assert_eq!((choice.bid, choice.price), (price(highest), price(highest)));
    }

    /// A bid of one's value is never worse than any other bid, whatever the others do, and never a loss.
    #[test]
    fn truth_is_best_where_no_increment_is_added(others in bids(), floor in 0_i64..12, id: u64,
                                                 value in 1_i64..12, lie in 1_i64..12) {
        let (truth, lied) = (gain(value, &others, floor, id, value), gain(lie, &others, floor, id, value));
        prop_assert!(truth >= lied, "value {value}: told {truth}, with {lie} {lied}");
        prop_assert!(truth >= 0);
    }

    #[test]
    fn raising_the_own_bid_moves_neither_winner_nor_price(bids in bids(), floor in 1_i64..12, id: u64,
                                                          more in 1_i64..10) {
        let Some((won, paid)) = no_increment(&bids, floor, id) else { return Ok(()) };
        let higher = with(&bids, won, bids[won] + more);
        prop_assert_eq!(no_increment(&higher, floor, id), Some((won, paid)));
        // With an increment the price moves only where the bid had cut the increment off, and by no more than that.
        let before = second(&bids, floor, id).unwrap();
        let after = second(&higher, floor, id).unwrap();
        prop_assert_eq!(after.campaign, before.campaign);
        let moved = after.price.micros() - before.price.micros();
        let cut_off = before.price == before.bid && moved == Price::STEP.micros();
        prop_assert!(moved == 0 || cut_off, "{before:?} {after:?}");
    }

    #[test]
    fn a_bid_of_exactly_the_price_still_wins_or_ties(bids in bids(), floor in 1_i64..12, id: u64) {
        let Some((won, paid)) = no_increment(&bids, floor, id) else { return Ok(()) };
        let (wins, pays) = no_increment(&with(&bids, won, paid), floor, id).unwrap();
        prop_assert!(wins == won || bids[wins] == paid, "{wins} bids more than {paid}");
        prop_assert_eq!(pays, paid);
        // With an increment the price is one that nobody else bid: it wins.
        let choice = second(&bids, floor, id).unwrap();
        let again = second(&with(&bids, won, choice.price.micros()), floor, id).unwrap();
        prop_assert_eq!((again.campaign, again.price), (choice.campaign, choice.price));
    }

    /// Whoever neither wins nor sets the price may bid less, or stay away, and nothing changes.
    #[test]
    fn losers_are_inert(bids in bids(), floor in 1_i64..12, id: u64, less in 0_i64..12) {
        for pricing in [Pricing::First, Pricing::Second] {
            let Some(choice) = auction(&bids, floor, id, pricing) else { continue };
            let won = winner(&choice);
            let setter = auction(&with(&bids, won, 0), floor, id, pricing).map(|next| winner(&next));
            let losers = (0..bids.len()).filter(|at| *at != won && Some(*at) != setter);
            for loser in losers {
                let fewer = with(&bids, loser, (bids[loser] - less).max(0));
                let same = auction(&fewer, floor, id, pricing).unwrap();
                prop_assert_eq!((same.campaign, same.price), (choice.campaign, choice.price));
            }
        }
    }

    /// In cents or in thousands: the same winner, at the same price in that measure.
    #[test]
    fn the_scale_of_prices_changes_nothing(bids in bids(), floor in 0_i64..12, id: u64,
                                           scale in 1_i64..50_000_000) {
        let unscaled = no_increment(&bids, floor, id);
        let scaled: Vec<i64> = bids.iter().map(|bid| bid * scale).collect();
        let expected = unscaled.map(|(won, paid)| (won, paid * scale));
        let in_units = no_increment(&scaled, floor * scale, id);
        // A price is a bid or the floor, so it is a whole number of the larger units too.
        prop_assert_eq!(in_units, expected);
        let first = |bids: &[i64], floor| {
            let choice = auction(bids, floor, id, Pricing::First);
            choice.map(|choice| (choice.campaign, choice.price.micros()))
        };
        let expected = first(&bids, floor).map(|(won, paid)| (won, paid * scale));
        prop_assert_eq!(first(&scaled, floor * scale), expected);
    }

    #[test]
    fn revenue_never_falls_with_bidders_or_bids(
        bids in bids(), one_more in 1_i64..12, floor in 0_i64..12, id: u64, raised: prop::sample::Index,
    ) {
        let revenue = |bids: &[i64], pricing| {
            auction(bids, floor, id, pricing).map_or(0, |choice| choice.price.micros())
        };
        for pricing in [Pricing::First, Pricing::Second] {
            let before = revenue(&bids, pricing);
            prop_assert!(revenue(&[&bids[..], &[one_more]].concat(), pricing) >= before);
            let at = raised.index(bids.len());
            prop_assert!(revenue(&with(&bids, at, bids[at] + one_more), pricing) >= before);
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

    /// Whoever cannot reserve the most that it might pay is dropped before pricing: it neither wins nor sets the price.
    #[test]
    fn who_cannot_reserve_its_worst_case_is_dropped_before_pricing(
        purses in prop::collection::vec((1_i64..12, 0_i64..12), 1..8), floor in 1_i64..12, id: u64,
    ) {
        let campaigns: Vec<Campaign> =
            (0..).zip(&purses).map(|(id, (bid, _))| campaign(id, *bid)).collect();
        let can = campaigns.iter().zip(&purses).filter(|(_, (bid, purse))| purse >= bid);
        let can: Vec<Campaign> = can.map(|(campaign, _)| campaign.clone()).collect();
        for pricing in [Pricing::First, Pricing::Second] {
            let scene = scene(floor, id, pricing);
            let mut context = Purses(purses.iter().map(|(_, purse)| *purse).collect());
            prop_assert_eq!(paid(&scene.bids(&campaigns, &mut context)), scene.prices(&can));
        }
    }

    /// The purse says no when it comes to it: the next best takes the place, at the price of an auction without those
    /// that were refused.
    #[test]
    fn a_refused_hold_promotes_the_runner_up_and_reprices(
        bids in prop::collection::vec(1_i64..12, 1..8), refuses: u8, floor in 1_i64..12, id: u64,
    ) {
        let campaigns: Vec<Campaign> = (0..).zip(&bids).map(|(id, bid)| campaign(id, *bid)).collect();
        for pricing in [Pricing::First, Pricing::Second] {
            let scene = scene(floor, id, pricing);
            let mut context = Refusing { who: refuses, refused: Vec::new() };
            let made = scene.bids(&campaigns, &mut context);
            let left = campaigns.iter().filter(|campaign| !context.refused.contains(&campaign.id));
            let left: Vec<Campaign> = left.cloned().collect();
            let without = scene.bids(&left, &mut ());
            let bid = |choice: &Choice| (choice.campaign, choice.bid, choice.price);
            prop_assert_eq!(made.first().map(bid), without.first().map(bid));
            context.refused.sort_unstable();
            prop_assert!(context.refused.windows(2).all(|pair| pair[0] < pair[1]), "nobody is asked twice");
        }
    }
}

/// What each campaign has: all of a worst case must be there.
struct Purses(Vec<i64>);

impl BidContext for Purses {
    fn able(&mut self, bidder: Bidder, bid: Price) -> Result<(), Reason> {
        let purse = self.0[usize::try_from(bidder.campaign).unwrap()];
        if purse >= bid.micros() { Ok(()) } else { Err(Reason::Purse) }
    }
}

/// Holds nothing for some, by bits of the campaign's id.
struct Refusing {
    who: u8,
    refused: Vec<u64>,
}

impl BidContext for Refusing {
    fn hold(&mut self, choice: &Choice) -> Result<(), Reason> {
        if self.who >> choice.campaign & 1 == 0 {
            return Ok(());
        }
        self.refused.push(choice.campaign);
        Err(Reason::Purse)
    }
}
