//! Deals, several bids for one impression, durations, and what a creative may be.

use gate_auction::{
    BidContext, Bidder, Campaign, Deal, DurationFloor, Format, PriceRule, Pricing, Reason, Rules,
    Timing, UNKNOWN,
};
use proptest::prelude::*;

use crate::simple::{Scene, by_at, campaign, creative, deal, dealer, paid};

#[test]
fn deals_go_first_or_compete_by_price() {
    let campaigns = [campaign(1, 500), dealer(2, 100, &[7]), dealer(3, 80, &[7])];
    let deals = [deal(7, 50)];
    let first = Scene { deals: &deals, ..Scene::default() };
    // Whoever has no deal does not set the price of one that has.
    assert_eq!(first.prices(&campaigns), [(2, 81)]);
    assert_eq!(first.prices(&campaigns[..2]), [(2, 50)]);
    let rules = Rules { deals_first: false, ..by_at() };
    let by_price = Scene { rules, ..first };
    assert_eq!(by_price.prices(&campaigns), [(1, 101)]);
    // Below the deal's floor it bids without, and competes by price.
    let deals = [deal(7, 101)];
    assert_eq!(Scene { deals: &deals, ..first }.prices(&campaigns), [(1, 101)]);
    assert_eq!(Scene { deals: &deals, private: true, ..first }.prices(&campaigns), []);
}

#[test]
fn guaranteed_deals_go_before_all_others() {
    let campaigns = [campaign(1, 500), dealer(2, 400, &[7]), dealer(3, 80, &[8])];
    let mut guaranteed = deal(8, 50);
    (guaranteed.guaranteed, guaranteed.at) = (true, Some(PriceRule::Fixed));
    let deals = [deal(7, 50), guaranteed];
    for deals_first in [false, true] {
        let rules = Rules { deals_first, bids_per_impression_max: 3, ..by_at() };
        let scene = Scene { deals: &deals, rules, ..Scene::default() };
        let rest = if deals_first { [(2, 50), (1, 1)] } else { [(1, 401), (2, 50)] };
        assert_eq!(scene.prices(&campaigns), [(3, 50), rest[0], rest[1]]);
    }
}

#[test]
fn a_deal_that_has_no_creative_gives_way_to_the_next() {
    let mut campaign = dealer(1, 100, &[7, 8]);
    campaign.creatives[0].domains = vec![3];
    let (mut strange, own) = (deal(7, 50), deal(8, 60));
    strange.domains = &[4];
    let deals = [strange, own];
    let scene = Scene { deals: &deals, ..Scene::default() };
    assert_eq!(scene.prices(std::slice::from_ref(&campaign)), [(1, 60)]);
    assert_eq!(scene.bids(&[campaign], &mut ())[0].deal, Some(1));
}

/// A bidder's bid, and whether it may use deal 7.
fn bidder() -> impl Strategy<Value = (i64, bool)> {
    (1_i64..12, any::<bool>())
}

/// Campaign `n` is number `n`.
fn bidders(of: &[(i64, bool)]) -> Vec<Campaign> {
    let make = |(id, (bid, with)): (u64, &(i64, bool))| {
        if *with { dealer(id, *bid, &[7]) } else { campaign(id, *bid) }
    };
    (0..).zip(of).map(make).collect()
}

fn at() -> impl Strategy<Value = PriceRule> {
    prop::sample::select(vec![PriceRule::First, PriceRule::SecondPlus, PriceRule::Fixed])
}

proptest! {
    /// Lower or higher: with the deal its own floor counts, without it the impression's.
    #[test]
    fn a_deals_floor_replaces_the_impressions(bid in 1_i64..12, floor in 1_i64..12, deal_floor in 1_i64..12,
                                              private: bool) {
        let deals = [deal(7, deal_floor)];
        let scene = Scene { floor, deals: &deals, private, ..Scene::default() };
        let made = scene.bids(&[dealer(1, bid, &[7])], &mut ());
        let placed = made.first().map(|choice| (choice.deal, choice.price.micros()));
        let expected = if bid >= deal_floor {
            Some((Some(0), deal_floor))
        } else {
            (!private && bid >= floor).then_some((None, floor))
        };
        prop_assert_eq!(placed, expected);
    }

    /// `private_auction`: the auction of those that have a deal, by which alone they bid.
    #[test]
    fn a_private_impression_takes_only_bids_with_a_deal(
        of in prop::collection::vec(bidder(), 1..8), deal_floor in 1_i64..12, id_hash: u64, deals_first: bool,
    ) {
        let deals = [deal(7, deal_floor)];
        let rules = Rules { deals_first, bids_per_impression_max: 3, ..by_at() };
        let scene = Scene { deals: &deals, private: true, id_hash, rules, ..Scene::default() };
        let mut campaigns = bidders(&of);
        let made = scene.bids(&campaigns, &mut ());
        prop_assert!(made.iter().all(|choice| choice.deal == Some(0)));
        campaigns.retain(|campaign| !campaign.targeting.deals.is_empty());
        campaigns.retain(|campaign| campaign.bid.micros() >= deal_floor);
        prop_assert_eq!(made.len(), campaigns.len().min(3));
        let open = Scene { private: false, ..scene };
        prop_assert_eq!(paid(&made), open.prices(&campaigns));
    }

    /// 1, 2 and 3; the deal's goes before the request's, and what is agreed with the exchange before both, except that
    /// a fixed price stays fixed.
    #[test]
    fn the_kind_of_auction_makes_the_price(
        best in 6_i64..12, next in 1_i64..6, floor in 1_i64..4,
        request in at(), of_deal in prop::option::of(at()),
    ) {
        let campaigns = [dealer(0, best, &[7]), dealer(1, next, &[7])];
        let mut deals = [deal(7, floor)];
        deals[0].at = of_deal;
        for pricing in [Pricing::ByAt, Pricing::First, Pricing::Second] {
            let rules = Rules { pricing, ..by_at() };
            let scene = Scene { at: request, deals: &deals, rules, ..Scene::default() };
            let second = if next >= floor { next + 1 } else { floor };
            let expected = match (of_deal.unwrap_or(request), pricing) {
                (PriceRule::Fixed, _) => floor,
                (PriceRule::First, Pricing::ByAt) | (_, Pricing::First) => best,
                _ => second,
            };
            // At a fixed price both offer the same, and either may win.
            let prices: Vec<i64> = scene.prices(&campaigns).iter().map(|(_, price)| *price).collect();
            prop_assert_eq!(prices, [expected]);
        }
    }

    /// Each bid is priced as if those before it were not there, and no campaign bids twice.
    #[test]
    fn several_bids_are_the_auctions_without_the_ones_before(
        of in prop::collection::vec(bidder(), 1..9), most in 1_usize..5, id_hash: u64, deals_first: bool,
    ) {
        let deals = [deal(7, 3)];
        let mut campaigns = bidders(&of);
        let one = Rules { deals_first, ..by_at() };
        let many = Rules { bids_per_impression_max: most, ..one };
        let scene = |rules| Scene { id_hash, deals: &deals, rules, ..Scene::default() };
        let made = scene(many).prices(&campaigns);
        prop_assert_eq!(made.len(), most.min(campaigns.len()));
        for bid in made {
            prop_assert_eq!(scene(one).prices(&campaigns), [bid]);
            campaigns.retain(|campaign| campaign.id != bid.0);
        }
    }
}

/// Some creatives of campaign 1 reached a cap of their own.
struct Capped(&'static [usize]);

impl BidContext for Capped {
    fn may_show(&self, bidder: Bidder, _: usize, creative: usize) -> Result<(), Reason> {
        let is_free = bidder.campaign != 1 || !self.0.contains(&creative);
        if is_free { Ok(()) } else { Err(Reason::Cap) }
    }
}

#[test]
fn a_capped_creative_gives_way_to_another() {
    let mut two = campaign(1, 100);
    two.creatives.push(creative(2, Format::Banner));
    let campaigns = [two, campaign(2, 90)];
    let mut shown = [0; 2];
    for id_hash in 0..64 {
        let scene = Scene { id_hash, ..Scene::default() };
        let choice = |capped| scene.bids(&campaigns, &mut Capped(capped))[0];
        shown[choice(&[]).creative] += 1;
        assert_eq!((choice(&[0]).campaign, choice(&[0]).creative), (1, 1));
        assert_eq!((choice(&[1]).campaign, choice(&[1]).creative), (1, 0));
        assert_eq!(choice(&[0, 1]).campaign, 2);
    }
    assert!(shown[0] > 16 && shown[1] > 16, "{shown:?}: creatives take turns");
}

#[test]
fn a_campaign_of_no_seat_is_on_no_list_of_seats() {
    let mut stray = campaign(1, 100);
    stray.seat = UNKNOWN;
    let campaigns = [stray, campaign(2, 90)];
    let winner = |allowed, blocked| {
        let scene = Scene { seats_allowed: allowed, seats_blocked: blocked, ..Scene::default() };
        scene.prices(&campaigns).first().map(|(id, _)| *id)
    };
    assert_eq!(winner(&[], &[]), Some(1));
    assert_eq!(winner(&[], &[UNKNOWN]), Some(1));
    assert_eq!(winner(&[], &[0]), Some(1));
    assert_eq!(winner(&[UNKNOWN, 0], &[]), Some(2));
    assert_eq!(winner(&[UNKNOWN], &[]), None);
}

fn timing(exact_s: &[u32]) -> Timing<'_> {
    Timing {
        format: Format::Video,
        min_s: 0,
        max_s: u32::MAX,
        exact_s,
        pod: None,
        floor_per_second_micros: None,
        floors: &[],
    }
}

#[test]
fn videos_play_as_long_as_they_may() {
    let free = timing(&[]);
    let some = [
        // limits, seconds that fit
        (free, [true, true, true, true]),
        (Timing { min_s: 10, ..free }, [false, false, true, true]),
        (Timing { max_s: 15, ..free }, [false, true, true, false]),
        (timing(&[5, 30]), [false, true, false, true]),
        (Timing { floor_per_second_micros: Some(1), ..free }, [false, true, true, true]),
        (Timing { format: Format::Audio, min_s: 40, ..free }, [true, true, true, true]),
    ];
    for (timing, expected) in some {
        let fits = [0, 5, 15, 30].map(|duration_s| {
            let mut campaign = campaign(1, 1_000);
            campaign.creatives[0] = creative(1, Format::Video);
            campaign.creatives[0].duration_s = duration_s;
            let scene = Scene { formats: &[Format::Video], timings: &[timing], ..Scene::default() };
            !scene.prices(&[campaign]).is_empty()
        });
        assert_eq!(fits, expected, "{timing:?}");
    }
}

#[test]
fn floors_by_ranges_of_durations() {
    let floors = [(0, 15, 300), (16, 60, 900), (10, 20, 500)]
        .map(|(min_s, max_s, micros)| DurationFloor { min_s, max_s, micros });
    let timings = [Timing { floors: &floors, ..timing(&[]) }];
    let formats = [Format::Video];
    let scene = Scene { formats: &formats, floor: 100, timings: &timings, ..Scene::default() };
    let mut video = dealer(1, 1_000, &[7]);
    video.creatives[0] = creative(1, Format::Video);
    let mut price = |scene: Scene<'_>, duration_s| {
        video.creatives[0].duration_s = duration_s;
        scene.prices(std::slice::from_ref(&video)).first().map(|(_, price)| *price)
    };
    // Of ranges that overlap the higher one counts, of an unknown duration the highest; beyond all the plain floor.
    let paid = [5, 15, 18, 30, 90, 0].map(|duration_s| price(scene, duration_s));
    assert_eq!(paid, [300, 500, 900, 900, 100, 900].map(Some));
    let by_second = [Timing { floor_per_second_micros: Some(30), ..timings[0] }];
    let both = Scene { timings: &by_second, ..scene };
    assert_eq!([5, 30].map(|duration_s| price(both, duration_s)), [300, 900].map(Some));
    assert_eq!(price(both, 40), None, "1,200 by the second");
    // A deal's own range or its floor, whichever is higher.
    let deals = [deal(7, 400)].map(|deal| Deal { floors: &floors[..1], ..deal });
    let dealt = Scene { deals: &deals, ..scene };
    assert_eq!([5, 30].map(|duration_s| price(dealt, duration_s)), [400, 400].map(Some));
    // A banner of the same impression has the plain floor.
    let banners = Scene { formats: &[Format::Banner], ..scene };
    assert_eq!(banners.prices(&[campaign(2, 1_000)]), [(2, 100)]);
}

#[test]
fn floors_by_the_second() {
    let mut video = dealer(1, 1_000, &[7]);
    video.creatives[0] = creative(1, Format::Video);
    video.creatives[0].duration_s = 30;
    let timings = [Timing { floor_per_second_micros: Some(20), ..timing(&[]) }];
    // The impression's floor gives way to that of video, both to the deal's.
    let scene =
        Scene { formats: &[Format::Video], floor: 900, timings: &timings, ..Scene::default() };
    assert_eq!(scene.prices(std::slice::from_ref(&video)), [(1, 600)]);
    let mut deals = [deal(7, 100)];
    assert_eq!(Scene { deals: &deals, ..scene }.prices(std::slice::from_ref(&video)), [(1, 100)]);
    deals[0].floor_per_second_micros = Some(5);
    assert_eq!(Scene { deals: &deals, ..scene }.prices(std::slice::from_ref(&video)), [(1, 150)]);
    // Too dear by the second: a longer creative is left out, the shorter one bids.
    let dear = [Timing { floor_per_second_micros: Some(50), ..timing(&[]) }];
    let scene = Scene { timings: &dear, ..scene };
    assert_eq!(scene.prices(std::slice::from_ref(&video)), []);
    video.creatives.push(creative(2, Format::Video));
    video.creatives[1].duration_s = 15;
    for id_hash in 0..8 {
        assert_eq!(Scene { id_hash, ..scene }.prices(std::slice::from_ref(&video)), [(1, 750)]);
    }
}

#[test]
fn blocked_categories_bundles_and_languages() {
    let mut plain = campaign(1, 100);
    plain.creatives[0].categories = vec![4];
    plain.creatives[0].bundle = Some(5);
    plain.creatives[0].language = Some(6);
    let silent = campaign(2, 90);
    let campaigns = [plain, silent];
    let free = Scene::default();
    let winner = |scene: Scene<'_>| scene.prices(&campaigns).first().map(|(id, _)| *id);
    assert_eq!(winner(free), Some(1));
    assert_eq!(winner(Scene { categories_blocked: &[4], ..free }), Some(2));
    assert_eq!(winner(Scene { bundles_blocked: &[9, 5], ..free }), Some(2));
    assert_eq!(winner(Scene { bundles_blocked: &[9, UNKNOWN], ..free }), Some(1));
    assert_eq!(winner(Scene { languages_allowed: &[6, 1], ..free }), Some(1));
    assert_eq!(
        winner(Scene { languages_allowed: &[UNKNOWN], ..free }),
        Some(2),
        "one that says none"
    );
}
