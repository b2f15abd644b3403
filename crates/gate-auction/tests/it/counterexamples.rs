//! What must not be asserted of an auction, because it does not hold, each with one that breaks it.

use gate_auction::{Campaign, Exclusive, Format, Pricing, Rules};

use crate::laws::second;
use crate::simple::{Scene, by_at, campaign, creative, deal, dealer};

/// A bidder to which the impression is worth 5, against one that bids 4: true to itself it wins at 4 and the increment,
/// which is 5, and gains nothing. With a bid of 4 it ties, and where the tie falls to it, it gains 1.
#[test]
fn truth_with_an_increment() {
    const VALUE: i64 = 5;
    let gain = |own: i64, request: u64| match second(&[own, 4], 1, request) {
        Some(choice) if choice.campaign == 0 => VALUE - choice.price.micros(),
        _ => 0,
    };
    assert!((0..16).all(|request| gain(VALUE, request) == 0));
    assert!((0..16).any(|request| gain(4, request) == 1));
}

/// Nobody meets it.
#[test]
fn revenue_with_a_higher_floor() {
    let revenue = |floor| second(&[5], floor, 0).map_or(0, |choice| choice.price.micros());
    assert_eq!([3, 5, 6].map(revenue), [3, 5, 0]);
}

/// At first prices, of a banner and a video.
fn revenue(campaigns: &[Campaign], exclusive: Exclusive) -> i64 {
    let rules = Rules { pricing: Pricing::First, exclusive, ..Rules::default() };
    let formats = [Format::Banner, Format::Video];
    let scene = Scene { formats: &formats, rules, ..Scene::default() };
    scene.prices(campaigns).iter().map(|(_, price)| price).sum()
}

fn video(id: u64, bid: i64) -> Campaign {
    Campaign { creatives: vec![creative(1, Format::Video)], ..campaign(id, bid) }
}

/// A cheap banner takes the first impression, and so shuts its advertiser's dear video out of the second.
#[test]
fn revenue_with_exclusive_advertisers() {
    let campaigns = [video(1, 10), campaign(2, 2)];
    assert_eq!(campaigns[0].advertiser, campaigns[1].advertiser);
    assert_eq!(revenue(&campaigns[..1], Exclusive::Advertiser), 10);
    assert_eq!(revenue(&campaigns, Exclusive::Advertiser), 2);
    assert_eq!(revenue(&campaigns, Exclusive::No), 12);
}

/// It now wins the banner, from another bidder, and may not have the video that nobody else wants.
#[test]
fn revenue_with_exclusive_campaigns() {
    let with_both = |bid| {
        let mut both = video(1, bid);
        both.creatives.push(creative(2, Format::Banner));
        [both, campaign(2, 6)]
    };
    assert_eq!(revenue(&with_both(5), Exclusive::Campaign), 6 + 5);
    assert_eq!(revenue(&with_both(7), Exclusive::Campaign), 7);
}

/// It goes before a higher bid, and that bid does not set its price.
#[test]
fn revenue_with_deals_first() {
    let deals = [deal(7, 50)];
    let campaigns = [campaign(1, 500), campaign(2, 400), dealer(3, 100, &[7])];
    let scene = Scene { deals: &deals, ..Scene::default() };
    assert_eq!(scene.prices(&campaigns[..2]), [(1, 401)]);
    assert_eq!(scene.prices(&campaigns), [(3, 50)]);
    let rules = Rules { deals_first: false, ..by_at() };
    assert_eq!(Scene { rules, ..scene }.prices(&campaigns), [(1, 401)]);
}
