//! Who bids what: prices, floors, currencies, deals, exclusions, pods, as an exchange sees them.

use serde_json::{Value, json};

use crate::openrtb::{
    BID_PATH, Bid, Http, campaign, check_no_violation, creative, imp, patient, request, wait_count,
    with,
};
use crate::support::{Node, wait_for};

fn campaigns_of(bids: &[Bid]) -> Vec<u64> {
    bids.iter().map(|bid| bid.campaign).collect()
}

/// Waits until the workers have money of each of these campaigns: then each bids where it alone may.
fn wait_money(http: &mut Http, seats: &[&str]) {
    for seat in seats {
        let others: Vec<&&str> = seats.iter().filter(|other| other != &seat).collect();
        let bid = http.bid_soon(&request("money", json!({"bseat": others})));
        assert_eq!(http.lose(&bid), 204);
    }
}

#[test]
fn the_next_best_bids_when_the_best_has_no_money() {
    let campaigns = [
        campaign(1, json!({"bid": "5.00", "seat": "s1"})),
        campaign(2, json!({"bid": "4.00", "seat": "s2", "limit": "0.004"})),
        campaign(3, json!({"bid": "2.00", "seat": "s3"})),
    ];
    let node = patient(&campaigns).with("openrtb.pricing", "at").start();
    let mut http = Http::to(&node);
    wait_money(&mut http, &["s1", "s2", "s3"]);
    let second = |id: &str| request(id, json!({"at": 2}));
    // The money of a bid that lost takes a moment to come back.
    http.bid_when("the runner-up's price", &second("a"), |bid| {
        assert_eq!(bid.campaign, 1);
        bid.price_micros == 4_000_001
    });
    assert_eq!(http.bid_soon(&request("b", json!({}))).price_micros, 5_000_000, "first price");
    // Without the best one, the second has money for one bid, and then the third bids.
    let without = |id: &str| request(id, json!({"bseat": ["s1"]}));
    http.bid_when("the second", &without("c"), |bid| bid.campaign == 2);
    let bids = http.bids_in_one(&[without("d"), without("e"), second("f")]).concat();
    assert_eq!(campaigns_of(&bids), [3, 3, 1]);
    // Who cannot pay does not make the price.
    assert_eq!(bids[2].price_micros, 2_000_001);
    check_no_violation(&node);
}

/// In a second-price auction it is the exchange that finds the price: who sends less than its bid loses to rivals that it
/// would have beaten.
#[test]
fn a_bid_is_sent_in_full_in_first_and_second_price_auctions() {
    let deal = json!({"deals": ["d"]});
    let campaigns = [
        campaign(1, json!({"bid": "5.00", "seat": "s1", "targeting": deal})),
        campaign(2, json!({"bid": "0.30", "seat": "s2"})),
    ];
    let node = patient(&campaigns).start();
    let mut http = Http::to(&node);
    wait_money(&mut http, &["s1", "s2"]);
    for at in [json!(1), json!(2), json!(null), json!(500), json!(9_000)] {
        for among in [json!({}), json!({"wseat": ["s1"]})] {
            let bid = http.bid(&with(request("v", json!({"at": at})), among)).unwrap();
            assert_eq!((bid.campaign, bid.price_micros), (1, 5_000_000), "at {at}");
        }
    }
    // A deal may have a price of its own.
    for (at, price) in [(1, 5_000_000), (2, 5_000_000), (3, 1_250_000)] {
        let terms = json!([{"id": "d", "at": at, "bidfloor": 1.25}]);
        let request = request("d", json!({"at": 2, "imp": [imp("1", deal_imp(1, &terms))]}));
        assert_eq!(http.bid(&request).unwrap().price_micros, price, "a deal with at {at}");
    }
    check_no_violation(&node);
}

/// One banner with these fields, in a second-price auction.
fn priced(imp_fields: Value, fields: Value) -> Value {
    with(request("p", json!({"at": 2, "imp": [imp("1", imp_fields)]})), fields)
}

#[test]
fn floors_count_with_fees_and_rates() {
    let node = patient(&[campaign(1, json!({})), video_campaign(2, json!({}))])
        .with("openrtb.pricing", "second")
        .with("openrtb.fee_bp", "1000")
        .with("openrtb.rates", "EUR=1.10")
        .start();
    let mut http = Http::to(&node);
    http.bid_soon(&request("money", json!({})));
    let floor = |micros: &str, currency: &str| {
        let floor: Value = serde_json::from_str(micros).unwrap();
        json!({"bidfloor": floor, "bidfloorcur": currency})
    };
    for (fields, expected) in [
        (floor("0.9", "USD"), Some(1_000_000)),
        (floor("0.95", "USD"), Some(1_055_556)),
        (floor("1.8", "USD"), Some(2_000_000)),
        (floor("1.800001", "USD"), None),
        (floor("0.9", "EUR"), Some(1_100_000)),
        (floor("\"0.9\"", "eur"), Some(1_100_000)),
        (floor("1.7", "EUR"), None),
        (floor("0.01", "JPY"), None),
        (floor("0.01", "XXX"), None),
        (floor("0", "JPY"), Some(1)),
        (floor("1000000", "USD"), None),
    ] {
        let bid = http.bid(&priced(fields.clone(), json!({})));
        let price = bid.map(|bid| bid.price_micros);
        match expected {
            // No floor: any price will do.
            Some(1) => assert!(price.is_some(), "{fields}"),
            expected => assert_eq!(price, expected, "{fields}"),
        }
    }
    // 15 seconds of video: a tenth a second, and the fee on top, rounded up each time.
    for (currency, price) in [("USD", 1_666_680), ("EUR", 1_833_348)] {
        let by_second = json!({
            "banner": null, "bidfloorcur": currency,
            "video": {"mimes": ["video/mp4"], "maxduration": 30, "mincpmpersec": 0.1},
        });
        let request = priced(by_second, json!({}));
        let bid = http.bid_soon(&request);
        assert_eq!((bid.campaign, bid.price_micros), (2, price), "{currency}");
    }
    for (currencies, bids) in [
        (json!(["USD"]), true),
        (json!(["EUR", "USD"]), true),
        (json!(["usd"]), true),
        (json!(["EUR"]), true),
        (json!(["JPY"]), false),
        (json!(["???"]), false),
        (json!([]), true),
    ] {
        let request = request("cur", json!({"cur": currencies}));
        assert_eq!(http.bid(&request).is_some(), bids, "{currencies}");
    }
    check_no_violation(&node);
}

#[test]
fn a_node_of_another_currency_bids_in_it() {
    let node = patient(&[campaign(1, json!({"unit": "EUR"}))])
        .with("openrtb.currency", "EUR")
        .with("openrtb.pricing", "second")
        .with("openrtb.rates", "USD=0.9")
        .start();
    let mut http = Http::to(&node);
    for fields in [json!({}), json!({"cur": ["EUR"]}), json!({"cur": ["usd", "eur"]})] {
        let request = request("e", fields);
        http.bid_soon(&request);
        let answer = http.post(BID_PATH, request.to_string().as_bytes());
        assert_eq!(answer.json()["cur"], "EUR");
    }
    assert!(http.bid(&request("e", json!({"cur": ["JPY"]}))).is_none());
    let bid = http.bid(&priced(json!({"bidfloor": 1.0}), json!({}))).unwrap();
    assert_eq!(bid.price_micros, 900_000, "a floor without a currency is in USD");
    check_no_violation(&node);
}

fn deal_imp(private: u8, deals: &Value) -> Value {
    json!({"pmp": {"private_auction": private, "deals": deals}})
}

#[test]
fn deals_open_private_auctions_and_have_terms_of_their_own() {
    let wants = json!({"deals": ["d1", "d2"]});
    let campaigns = [
        campaign(1, json!({"bid": "3.00", "seat": "s1", "targeting": wants})),
        campaign(2, json!({"bid": "5.00", "seat": "s2"})),
    ];
    let node = patient(&campaigns).with("openrtb.rates", "EUR=1.10").start();
    let mut http = Http::to(&node);
    wait_money(&mut http, &["s1", "s2"]);
    let nobody = (0, "", 0);
    let open = (2, "", 5_000_000);
    for (private, deals, expected) in [
        (1, json!([{"id": "d1"}]), (1, "d1", 3_000_000)),
        (1, json!([{"id": "other"}]), nobody),
        (1, json!([]), nobody),
        // A deal goes before a higher bid without one.
        (0, json!([{"id": "d1"}]), (1, "d1", 3_000_000)),
        (0, json!([{"id": "other"}]), open),
        (1, json!([{"id": "d1", "bidfloor": 3.000_001}]), nobody),
        (0, json!([{"id": "d1", "bidfloor": 3.000_001}]), open),
        (
            1,
            json!([{"id": "d1", "bidfloor": 9}, {"id": "d2", "bidfloor": 1}]),
            (1, "d2", 3_000_000),
        ),
        (1, json!([{"id": "d1", "bidfloor": 2.72, "bidfloorcur": "EUR"}]), (1, "d1", 3_000_000)),
        (1, json!([{"id": "d1", "bidfloor": 2.73, "bidfloorcur": "EUR"}]), nobody),
        (1, json!([{"id": "d1", "bidfloor": 0.01, "bidfloorcur": "JPY"}]), nobody),
        (1, json!([{"id": "d1", "at": 3, "bidfloor": 1.25}]), (1, "d1", 1_250_000)),
        (
            1,
            json!([{"id": "d1", "at": 3, "bidfloor": 1, "bidfloorcur": "EUR"}]),
            (1, "d1", 1_100_000),
        ),
        (1, json!([{"id": "d1", "wseat": ["s1", "x"]}]), (1, "d1", 3_000_000)),
        (1, json!([{"id": "d1", "wseat": ["s2"]}]), nobody),
        (1, json!([{"id": "d1", "wadomain": ["a1.example"]}]), (1, "d1", 3_000_000)),
        (1, json!([{"id": "d1", "wadomain": ["a2.example"]}]), nobody),
    ] {
        let request = request("d", json!({"imp": [imp("1", deal_imp(private, &deals))]}));
        let bid = http.bid(&request);
        let found =
            bid.as_ref().map_or(nobody, |bid| (bid.campaign, bid.text("dealid"), bid.price_micros));
        assert_eq!(found, expected, "private {private}, {deals}");
    }
    // The impression's floor and its currency say nothing about the deal's.
    let fields = with(
        deal_imp(0, &json!([{"id": "d1", "at": 3, "bidfloor": 2}])),
        json!({"bidfloor": 900, "bidfloorcur": "EUR"}),
    );
    let bid = http.bid(&request("d", json!({"imp": [imp("1", fields)]}))).unwrap();
    assert_eq!((bid.campaign, bid.price_micros), (1, 2_000_000));
    check_no_violation(&node);
}

/// Creatives that differ in everything that can be blocked.
fn blockable() -> Value {
    let shown = creative(
        "cr",
        json!({
            "adomain": ["shop.brand.example"], "cat": ["IAB7-39"], "attr": [7], "secure": false,
            "bundle": "com.brand", "language": "en",
        }),
    );
    campaign(1, json!({"seat": "s1", "creatives": [shown]}))
}

#[test]
fn what_a_publisher_rules_out_is_not_bid() {
    let node = patient(&[blockable()]).start();
    let mut http = Http::to(&node);
    http.bid_soon(&request("money", json!({})));
    let in_imp = |fields: Value| json!({"imp": [imp("1", fields)]});
    let banner = |banner: Value| in_imp(json!({"banner": banner}));
    let twice = json!({"imp": [imp("1", json!({})), imp("1", json!({}))]});
    for (fields, bids) in [
        (json!({"bcat": ["IAB7-39"]}), false),
        (json!({"bcat": ["IAB7"]}), false),
        (json!({"bcat": ["IAB8", "IAB7-38", "IAB70"]}), true),
        // 287 is diseases in the content taxonomies 2.x, 483 sports; 90210 is in no table.
        (json!({"bcat": ["287"], "cattax": 6}), false),
        (json!({"bcat": ["483"], "cattax": 6}), true),
        (json!({"bcat": ["483", "90210"], "cattax": 6}), false),
        (json!({"acat": ["287"], "cattax": 2}), true),
        (json!({"acat": ["483"], "cattax": 2}), false),
        // Numbers of another taxonomy: nobody knows whether they mean ours.
        (json!({"bcat": ["483"], "cattax": 7}), false),
        (json!({"cattax": 6}), true),
        (json!({"acat": ["IAB7"]}), true),
        (json!({"acat": ["IAB8"]}), false),
        (json!({"badv": ["shop.brand.example"]}), false),
        (json!({"badv": ["SHOP.Brand.example"]}), false),
        (json!({"badv": ["brand.example"]}), false),
        (json!({"badv": ["rand.example", "x.shop.brand.example", ""]}), true),
        (json!({"bapp": ["com.brand"]}), false),
        (json!({"bapp": ["com.other"]}), true),
        (json!({"badv": ["example"]}), false),
        (json!({"wlang": ["de"]}), false),
        (json!({"wlang": ["de", "en"]}), true),
        (json!({"wseat": ["s1"]}), true),
        (json!({"wseat": ["s2"]}), false),
        (json!({"bseat": ["s1"]}), false),
        (json!({"bseat": ["s2"]}), true),
        (in_imp(json!({"secure": 1})), false),
        (in_imp(json!({"secure": "1"})), false),
        (in_imp(json!({"secure": 0})), true),
        (banner(json!({"w": 300, "h": 250, "battr": [3, 7]})), false),
        (banner(json!({"w": 300, "h": 250, "battr": [3]})), true),
        (banner(json!({"w": 320, "h": 50})), false),
        (banner(json!({"w": "300", "h": 250.0})), true),
        (banner(json!({"format": [{"w": 320, "h": 50}, {"w": 300, "h": 250}]})), true),
        (banner(json!({"format": [{"w": 320, "h": 50}]})), false),
        (banner(json!({"format": [{"wratio": 16, "hratio": 9, "wmin": 100}]})), false),
        (banner(json!({"w": 0, "h": 0})), false),
        (banner(json!({})), true),
        (
            in_imp(json!({"banner": null, "video": {"mimes": ["video/mp4"], "w": 300, "h": 250}})),
            false,
        ),
        (in_imp(json!({"banner": null, "native": {"request": "{}"}})), false),
        (twice, false),
    ] {
        let found = http.bids(&request("x", fields.clone()));
        assert_eq!(found.len(), usize::from(bids), "{fields}: {found:?}");
    }
    check_no_violation(&node);
}

/// A video of 15 seconds.
fn video_campaign(id: u64, fields: Value) -> Value {
    let format = json!({"format": "video", "sizes": "any", "duration_s": 15, "markup": "<VAST/>"});
    campaign(id, with(json!({"creatives": [creative("v", format)]}), fields))
}

fn slot(id: &str, duration_max_s: u32) -> Value {
    let video = json!({
        "mimes": ["video/mp4"], "podid": "pod", "maxduration": duration_max_s, "poddur": 90,
    });
    imp(id, json!({"banner": null, "video": video}))
}

fn pod(id: &str, last_max_s: u32) -> Value {
    request(id, json!({"imp": [slot("1", 30), slot("2", 30), slot("3", last_max_s)]}))
}

fn check_nothing_held(node: &Node, id: u64) {
    node.wait_budget(id, "no holds", |books| books.held == 0);
}

#[test]
fn a_pod_is_filled_whole_or_not_at_all() {
    // Money for two slots of three.
    let poor = video_campaign(2, json!({"seat": "s2", "bid": "9.00", "limit": "0.018"}));
    let campaigns = [video_campaign(1, json!({"seat": "s1"})), poor];
    let node = patient(&campaigns).with("openrtb.pods", "together").start();
    let mut http = Http::to(&node);
    let only = |seat: &str, request: Value| with(request, json!({"wseat": [seat]}));
    let mut bids = Vec::new();
    wait_for("a whole pod", || {
        bids = http.bids(&only("s1", pod("a", 30)));
        assert!(bids.is_empty() || bids.len() == 3, "{bids:?}");
        !bids.is_empty()
    });
    assert!(bids.iter().all(|bid| bid.group), "{bids:?}");
    assert!(bids.iter().zip(["1", "2", "3"]).all(|(bid, imp)| bid.text("impid") == imp));
    node.wait_budget(1, "three holds", |books| books.held == 6_000);
    for bid in &bids {
        assert_eq!(http.lose(bid), 204);
    }
    check_nothing_held(&node, 1);
    // The third slot is too short for the ad: the first two are given up.
    for number in 0..20 {
        assert!(http.bids(&only("s1", pod(&number.to_string(), 5))).is_empty());
    }
    check_nothing_held(&node, 1);
    // Two bids use all the money up: the same.
    let pair = request("b", json!({"imp": [slot("1", 30), slot("2", 30)]}));
    wait_for("money for two", || {
        let bids = http.bids(&only("s2", pair.clone()));
        bids.iter().for_each(|bid| assert_eq!(http.lose(bid), 204));
        bids.len() == 2
    });
    check_nothing_held(&node, 2);
    for number in 0..20 {
        assert!(http.bids(&only("s2", pod(&number.to_string(), 30))).is_empty());
    }
    check_nothing_held(&node, 2);
    assert_eq!(node.budget(2).unspent(), 18_000);
    // A slot outside the pod is filled whatever becomes of the pod.
    let mut mixed = pod("c", 5);
    mixed["imp"]
        .as_array_mut()
        .unwrap()
        .push(with(slot("4", 30), json!({"video": {"maxduration": 30}})));
    let bids = http.bids(&only("s1", mixed));
    assert_eq!(bids.len(), 1, "{bids:?}");
    assert_eq!((bids[0].text("impid"), bids[0].group), ("4", false));
    check_no_violation(&node);
}

#[test]
fn videos_go_where_their_campaign_wants_them() {
    let wants = |video: Value| json!({"bid": "5.00", "targeting": {"video": video}});
    let film =
        |fields: Value| with(json!({"format": "video", "sizes": "any", "duration_s": 15}), fields);
    let skippable = "<VAST version=\"4.0\"><Linear skipoffset=\"00:00:05\"></Linear></VAST>";
    let node = patient(&[
        campaign(1, with(wants(json!({"plcmt": {"any": ["instream"]}, "startdelay": {"none": ["post-roll"]}, "skip": false})),
            json!({"creatives": [creative("v", film(json!({}))), creative("b", json!({}))]}))),
        campaign(2, json!({"bid": "2.00", "seat": "s2", "creatives": [creative("v", film(json!({"markup": skippable})))]})),
    ])
    .start();
    let mut http = Http::to(&node);
    let of = |fields: Value| {
        request("v", json!({"imp": [imp("1", with(json!({"banner": null}), fields))]}))
    };
    let player = |video: Value| of(json!({"video": video}));
    let instream = json!({"plcmt": 1, "skip": 0});
    for open in [player(instream.clone()), with(player(json!({})), json!({"wseat": ["s2"]}))] {
        let bid = http.bid_soon(&open);
        assert_eq!(http.lose(&bid), 204);
    }
    for (asked, expected) in [
        (player(instream.clone()), Some(1)),
        (player(with(instream.clone(), json!({"startdelay": 30}))), Some(1)),
        (player(with(instream.clone(), json!({"startdelay": -2}))), Some(2)),
        (player(with(instream.clone(), json!({"plcmt": 4}))), Some(2)),
        (player(json!({"skip": 0, "placement": 1})), Some(2)),
        (player(json!({"plcmt": 1})), Some(2)),
        (player(json!({"plcmt": 4, "battr": [16]})), None),
        // What is wanted of players is not asked of banners.
        (of(json!({"banner": {}, "video": {"plcmt": 4}})), Some(1)),
    ] {
        let bid = http.bid(&asked);
        assert_eq!(bid.as_ref().map(|bid| bid.campaign), expected, "{asked}");
        if let Some(bid) = bid {
            assert_eq!(bid.json["attr"] == json!([16]), bid.campaign == 2, "{asked}");
            assert_eq!(http.lose(&bid), 204);
        }
    }
    check_no_violation(&node);
}

#[test]
fn pods_apart_are_slots_like_others() {
    let node = patient(&[video_campaign(1, json!({}))]).start();
    let mut http = Http::to(&node);
    let mut bids = Vec::new();
    wait_for("two slots", || {
        bids = http.bids(&pod("a", 5));
        bids.len() == 2
    });
    assert!(bids.iter().all(|bid| !bid.group));
    check_no_violation(&node);
}

#[test]
fn a_dynamic_pod_gets_as_many_ads_as_it_has_room_for() {
    let film = |id: u64, bid: &str, advertiser: &str, seconds: u32| {
        let own =
            json!({"format": "video", "sizes": "any", "duration_s": seconds, "markup": "<VAST/>"});
        let shown = creative("v", own);
        campaign(
            id,
            json!({"bid": bid, "advertiser": advertiser, "creatives": [shown], "caps": [{"per": "day", "max": 1}]}),
        )
    };
    let node = patient(&[
        film(1, "9.00", "a.example", 30),
        film(2, "8.00", "a.example", 15),
        film(3, "7.00", "b.example", 30),
        film(4, "6.00", "c.example", 15),
    ])
    .start();
    let mut http = Http::to(&node);
    let of = |id: &str, user: &str, video: Value| {
        let video = with(json!({"podid": "p", "slotinpod": 1, "maxduration": 30}), video);
        let fields = json!({"imp": [imp("1", json!({"banner": null, "video": video}))], "user": {"id": user}});
        request(id, fields)
    };
    for (at, (video, expected)) in [
        (json!({"poddur": 90, "maxseq": 5}), vec![1, 3, 4]),
        (json!({"poddur": 74}), vec![1, 3]),
        (json!({"poddur": 90, "maxseq": 2}), vec![1, 3]),
        (json!({"poddur": 45, "maxseq": 5}), vec![1, 4]),
        (json!({"poddur": 30, "maxseq": 5, "maxduration": 20}), vec![2, 4]),
        (json!({"poddur": 29, "maxseq": 5}), vec![2]),
        (json!({"poddur": 90, "maxseq": 5, "mincpmpersec": 0.27}), vec![1, 4]),
        (json!({"poddur": 0, "maxseq": 5}), vec![1]),
        (json!({"poddur": 10}), vec![]),
    ]
    .into_iter()
    .enumerate()
    {
        let user = format!("u{at}");
        let mut bids = Vec::new();
        wait_for("all that fit", || {
            bids.drain(..).for_each(|bid| assert_eq!(http.lose(&bid), 204));
            bids = http.bids(&of("r", &user, video.clone()));
            bids.len() == expected.len()
        });
        assert_eq!(campaigns_of(&bids), expected, "{video}");
        let is_pod = video["poddur"] != 0;
        assert!(bids.iter().all(|bid| bid.json.get("slotinpod").is_none() == is_pod), "{video}");
        bids.iter().for_each(|bid| assert_eq!(http.lose(bid), 204));
    }
    // Each ad has a hold of its own: one is billed, one lost, and the third is left to its clock.
    let bids = http.bids(&of("last", "one", json!({"poddur": 90, "maxseq": 5})));
    assert_eq!(campaigns_of(&bids), [1, 3, 4]);
    assert_eq!((http.bill(&bids[0]), http.lose(&bids[1])), (204, 204));
    assert_eq!((node.budget(1).settled, node.budget(3).settled), (9_000, 0));
    check_nothing_held(&node, 3);
    node.wait_budget(4, "its hold", |books| (books.held, books.settled) == (6_000, 0));
    // Who was billed is capped for this user, who was lost is not.
    let again = http.bids(&of("again", "one", json!({"poddur": 60, "maxseq": 5})));
    assert_eq!(campaigns_of(&again), [2, 3]);
    check_no_violation(&node);
}

#[test]
fn a_screen_that_many_see_costs_so_many_times_its_price() {
    let node = patient(&[campaign(1, json!({"bid": "2.50"}))]).start();
    let mut http = Http::to(&node);
    let seen_by = |multiplier: Value| {
        let screen = json!({"at": 2, "site": null, "dooh": {"id": "screen"}});
        let seen = json!({"qty": {"multiplier": multiplier}});
        with(request("s", screen), json!({"imp": [imp("1", seen)]}))
    };
    let bid = http.bid_soon(&seen_by(json!(12.5)));
    assert_eq!(bid.price_micros, 2_500_000, "the price is for one of them");
    node.wait_budget(1, "the hold", |books| books.held == 31_250);
    assert_eq!(http.bill(&bid), 204);
    assert_eq!(node.budget(1).settled, 31_250);
    let bid = http.bid_soon(&seen_by(json!(12.5)));
    assert_eq!(http.notice(&bid.path("burl", Some("1.00"), Some("USD"))), 204);
    assert_eq!(node.budget(1).settled, 31_250 + 12_500);
    let bid = http.bid_soon(&seen_by(json!(0.0001)));
    assert_eq!(http.bill(&bid), 204);
    assert_eq!(node.budget(1).settled, 31_250 + 12_500 + 1);
    for odd in [json!(0), json!(-2), json!(1e30), json!(999_999_999_999_i64)] {
        assert!(http.bid(&seen_by(odd.clone())).is_none(), "{odd}");
    }
    check_no_violation(&node);
}

/// Two impressions.
fn pair(id: &str) -> Value {
    request(id, json!({"imp": [imp("1", json!({})), imp("2", json!({}))]}))
}

#[test]
fn one_request_may_be_for_one_campaign_or_one_advertiser_only() {
    let of = |advertiser: &str| json!({"advertiser": advertiser});
    let all =
        [campaign(1, of("a.example")), campaign(2, of("a.example")), campaign(3, of("b.example"))];
    for (rule, among, expected) in [
        ("no", &all[..1], vec![1, 1]),
        ("campaign", &all[..1], vec![1]),
        ("campaign", &all[..2], vec![1, 2]),
        ("advertiser", &all[..2], vec![1]),
        ("advertiser", &all[1..], vec![2, 3]),
    ] {
        let node = patient(among).with("openrtb.exclusive", rule).start();
        let mut http = Http::to(&node);
        let mut found = Vec::new();
        wait_for("as many bids as may be", || {
            found = campaigns_of(&http.bids(&pair("x")));
            assert!(found.len() <= expected.len(), "{rule}: {found:?}");
            found.len() == expected.len()
        });
        found.sort_unstable();
        let same = found == expected || (rule == "advertiser" && found.len() == 1);
        assert!(same, "{rule}: {found:?}");
        check_no_violation(&node);
    }
}

#[test]
fn an_impression_may_get_two_bids() {
    let campaigns = [
        campaign(1, json!({"bid": "3.00"})),
        campaign(2, json!({"bid": "2.00"})),
        campaign(3, json!({"bid": "1.00"})),
    ];
    let node = patient(&campaigns).with("openrtb.bids_per_impression_max", "2").start();
    let mut http = Http::to(&node);
    let two = |bids: &[Bid]| {
        let seen: Vec<(u64, i64)> =
            bids.iter().map(|bid| (bid.campaign, bid.price_micros)).collect();
        seen == [(1, 3_000_000), (2, 2_000_000)]
    };
    let mut bids = Vec::new();
    wait_for("the two best", || {
        bids = http.bids(&request("x", json!({})));
        assert!(bids.len() <= 2, "{bids:?}");
        two(&bids)
    });
    assert_ne!(bids[0].text("id"), bids[1].text("id"));
    for bid in &bids {
        assert_eq!(http.bill(bid), 204);
    }
    assert_eq!((node.budget(1).settled, node.budget(2).settled), (3_000, 2_000));
    check_no_violation(&node);
}

#[test]
fn videos_go_where_they_can_be_played() {
    let markup = "<VAST version=\"4.0\"><Ad><InLine><Creatives><Creative><Linear><MediaFiles>\
        <MediaFile type=\"video/mp4\"/></MediaFiles></Linear></Creative></Creatives></InLine></Ad></VAST>";
    let vpaid = "<VAST version=\"3.0\"><Linear/><MediaFile type=\"application/javascript\" apiFramework=\"VPAID\"/></VAST>";
    let film = |id: &str, markup: &str| {
        creative(id, json!({"format": "video", "sizes": "any", "duration_s": 15, "markup": markup}))
    };
    let node = patient(&[
        campaign(1, json!({"bid": "5.00", "seat": "s1", "creatives": [film("v", vpaid)]})),
        campaign(2, json!({"bid": "2.00", "seat": "s2", "creatives": [film("f", markup)]})),
    ])
    .start();
    let mut http = Http::to(&node);
    let of = |video: Value| {
        request("v", json!({"imp": [imp("1", json!({"banner": null, "video": video}))]}))
    };
    for seat in ["s1", "s2"] {
        let open = with(of(json!({"api": [2]})), json!({"wseat": [seat]}));
        let bid = http.bid_soon(&open);
        assert_eq!(http.lose(&bid), 204);
    }
    for (video, expected) in [
        (json!({"api": [1]}), Some(1)),
        (json!({"api": [1], "protocols": [2, 3]}), Some(1)),
        (json!({"api": [1], "protocols": [2, 7]}), Some(2)),
        (json!({"api": [1], "protocol": 3}), Some(1)),
        (json!({"api": [1], "mimes": ["application/javascript", "video/mp4"]}), Some(1)),
        (json!({"api": [1], "mimes": ["VIDEO/MP4"]}), Some(2)),
        (json!({"api": [7]}), Some(2)),
        (json!({}), Some(2)),
        (json!({"linearity": 1}), Some(2)),
        (json!({"linearity": 2}), None),
        (json!({"mimes": ["video/webm"]}), None),
        (json!({"protocols": [1, 8]}), None),
    ] {
        let bid = http.bid(&of(video.clone()));
        assert_eq!(bid.as_ref().map(|bid| bid.campaign), expected, "{video}");
        if let Some(bid) = bid {
            let protocol = if bid.campaign == 1 { 3 } else { 7 };
            assert_eq!(bid.json["protocol"], protocol);
            assert_eq!(http.lose(&bid), 204);
        }
    }
    check_no_violation(&node);
}

#[test]
fn why_there_is_no_bid_is_told_of_who_came_farthest() {
    let geo = json!({"geo": {"any": ["DEU"]}});
    let cap = json!([{"per": "day", "max": 100}]);
    let film = json!({"format": "video", "sizes": "any", "duration_s": 15, "markup": "<VAST version=\"4.0\"/>"});
    let both = json!([creative("b", json!({})), creative("v", film)]);
    let node = patient(&[
        campaign(1, json!({"bid": "2.00", "seat": "s1"})),
        campaign(2, json!({"bid": "5.00", "seat": "s2", "targeting": geo, "creatives": both})),
        campaign(3, json!({"bid": "1.00", "seat": "s3", "caps": cap})),
    ])
    .with("openrtb.no_bid_body", "true")
    .start();
    let mut http = Http::to(&node);
    wait_money(&mut http, &["s1"]);
    let only = |seat: &str, fields: Value| with(json!({"wseat": [seat]}), fields);
    let in_imp = |fields: Value| json!({"imp": [imp("1", fields)]});
    for (fields, code) in [
        (only("s2", json!({})), 500),
        (only("s2", json!({"device": {"geo": {"country": "FRA"}}})), 500),
        (in_imp(json!({"bidfloor": 3})), 504),
        (in_imp(json!({"bidfloor": 1_000_000})), 504),
        (in_imp(json!({"banner": {"w": 728, "h": 90}})), 505),
        (in_imp(json!({"banner": null, "native": {"request": "{}"}})), 505),
        // Only one that does not want the request has a video.
        (in_imp(json!({"banner": null, "video": {}})), 505),
        (with(only("s2", json!({})), in_imp(json!({"banner": null, "video": {}}))), 500),
        (json!({"badv": ["example"]}), 505),
        (in_imp(json!({"pmp": {"private_auction": 1, "deals": [{"id": "none"}]}})), 506),
        (json!({"cur": ["EUR"]}), 507),
        (in_imp(json!({"bidfloor": 1, "bidfloorcur": "JPY"})), 507),
        (only("s3", json!({"regs": {"gpc": 1}})), 508),
        (only("s3", json!({"user": {"id": ""}})), 9),
        // Who came farthest counts, not who failed first.
        (
            in_imp(
                json!({"bidfloor": 3, "banner": {"format": [{"w": 728, "h": 90}, {"w": 300, "h": 250}]}}),
            ),
            504,
        ),
    ] {
        let body = request("n", fields.clone()).to_string();
        let answer = http.post(BID_PATH, body.as_bytes());
        assert_eq!(answer.json()["nbr"], code, "{fields}");
    }
    check_no_violation(&node);
}

#[test]
fn a_native_ad_is_made_of_what_is_asked_for() {
    let markup = json!({
        "link": {"url": "https://brand.example/?a=${AUCTION_ID}"}, "imptrackers": ["${WEIR_BURL}"],
        "assets": [{"title": {"text": "All new"}}, {"img": {"url": "https://i.example/a.png", "w": 1200, "h": 627}}],
    });
    let shown =
        creative("n", json!({"format": "native", "sizes": "any", "markup": markup.to_string()}));
    let node = patient(&[campaign(1, json!({"creatives": [shown]}))])
        .with("openrtb.no_bid_body", "true")
        .with("openrtb.public_url", "http://win.example")
        .start();
    let mut http = Http::to(&node);
    let of = |native: Value| request("n", json!({"imp": [{"id": "1", "native": native}]}));
    let asked =
        |assets: Value| of(json!({"request": json!({"ver": "1.2", "assets": assets}).to_string()}));
    let title = json!({"id": 11, "required": 1, "title": {"len": 25}});
    let image = json!({"id": 12, "img": {"type": 3, "wmin": 600, "hmin": 300}});
    let mut bids = Vec::new();
    let both = asked(json!([title, image]));
    wait_for("a native bid", || {
        let answer = http.post(BID_PATH, both.to_string().as_bytes()).json();
        bids = answer["seatbid"].as_array().cloned().unwrap_or_default();
        !bids.is_empty()
    });
    let bid = &bids[0]["bid"][0];
    let made: Value = serde_json::from_str(bid["adm"].as_str().unwrap()).unwrap();
    assert_eq!((&bid["mtype"], &made["assets"][0]["id"]), (&json!(4), &json!(11)));
    assert_eq!(made["assets"][1]["img"]["url"], "https://i.example/a.png");
    assert_eq!(made["link"]["url"], "https://brand.example/?a=${AUCTION_ID}");
    // The billing notice stands in the markup, and so not beside it.
    let tracker = made["imptrackers"][0].as_str().unwrap();
    assert!(
        tracker.starts_with("http://win.example/n/bill/") && bid["burl"].is_null(),
        "{tracker}"
    );
    let icon = json!({"id": 1, "required": 1, "img": {"type": 1}});
    for native in [
        asked(json!([title, icon])),
        asked(json!([{"id": 1, "required": 1, "title": {"len": 3}}])),
        asked(json!([])),
        of(json!({"request": ""})),
        of(json!({"request": "{"})),
        of(json!({})),
    ] {
        let answer = http.post(BID_PATH, native.to_string().as_bytes()).json();
        assert_eq!(answer["nbr"], 505, "{native}");
    }
    check_no_violation(&node);
}

/// The addresses of notices are HTTP by default. A video that has one in its markup is not bid where HTTPS is asked for, and
/// takes no money and no other bid with it.
#[test]
fn a_creative_that_is_not_secure_stops_no_other() {
    let film = |id: &str, markup: &str| {
        creative(id, json!({"format": "video", "sizes": "any", "duration_s": 15, "markup": markup}))
    };
    let telling = film("t", "<VAST version=\"4.0\"><Impression>${WEIR_BURL}</Impression></VAST>");
    let node = patient(&[
        campaign(1, json!({"bid": "5.00", "seat": "s1", "creatives": [telling]})),
        campaign(2, json!({"bid": "2.00", "seat": "s2", "creatives": [film("f", "<VAST version=\"4.0\"/>")]})),
        campaign(3, json!({"bid": "1.00", "seat": "s3"})),
    ])
    .start();
    let mut http = Http::to(&node);
    let two = |secure: u8, seats: Value| {
        let video = json!({"banner": null, "secure": secure, "video": {}});
        let banner = imp("2", json!({"secure": secure}));
        request("s", json!({"imp": [imp("1", video), banner], "wseat": seats}))
    };
    for seat in ["s1", "s2", "s3"] {
        let bid = http.bid_soon(&two(0, json!([seat])));
        assert_eq!(http.lose(&bid), 204);
    }
    for (secure, seats, expected) in [
        (1, json!(["s1", "s2", "s3"]), vec![2, 3]),
        (0, json!(["s1", "s2", "s3"]), vec![1, 3]),
        (1, json!(["s1", "s3"]), vec![3]),
    ] {
        let bids = http.bids(&two(secure, seats.clone()));
        let mut found = campaigns_of(&bids);
        found.sort_unstable();
        assert_eq!(found, expected, "secure {secure} among {seats}");
        bids.iter().for_each(|bid| assert_eq!(http.lose(bid), 204));
    }
    check_nothing_held(&node, 1);
    check_no_violation(&node);
}

/// A price that is too large for the currency of the answer is not bid, and the next best is.
fn check_large_bids(http: &mut Http) {
    for (best, cur, bidder) in [("s4", "USD", 4), ("s4", "KRW", 1), ("s5", "USD", 1)] {
        let request = request("l", json!({"wseat": ["s1", best], "cur": [cur]}));
        let bid = http.bid(&request).unwrap_or_else(|| panic!("{best} in {cur}"));
        assert_eq!((bid.campaign, http.lose(&bid)), (bidder, 204), "{best} in {cur}");
    }
}

/// An exchange that does not take our currency gets bids in one that it takes, at the operator's rate. What is held, noted
/// and booked is the same money.
#[test]
fn bids_are_in_a_currency_that_the_exchange_takes() {
    let campaigns = [
        campaign(1, json!({"seat": "s1"})),
        campaign(2, json!({"seat": "s2", "unit": "EUR"})),
        // A yen is so little in pounds that its rate would be too coarse.
        campaign(3, json!({"seat": "s3", "unit": "VND", "bid": "90000.00"})),
        // More than a million won, and dollars.
        campaign(4, json!({"seat": "s4", "bid": "7000.00"})),
        campaign(5, json!({"seat": "s5", "bid": "1000000", "limit": "9000"})),
    ];
    let rates = "EUR=1.10,GBP=2.00,VND=0.00004,KRW=0.00072";
    let node = patient(&campaigns).with("openrtb.rates", rates).start();
    let mut http = Http::to(&node);
    wait_money(&mut http, &["s1", "s2", "s3", "s4"]);
    check_large_bids(&mut http);
    let mut settled = [0, 0];
    for (seat, cur, currency, price_micros, cost) in [
        (1, json!(["EUR"]), "EUR", 1_818_181, 2_001),
        (1, json!(["JPY", "eur", "GBP"]), "EUR", 1_818_181, 2_001),
        (1, json!(["EUR", "USD"]), "USD", 2_000_000, 2_000),
        (1, json!(["GBP"]), "GBP", 1_000_000, 2_000),
        (2, json!(["USD"]), "USD", 2_200_000, 2_000),
        (2, json!(["EUR"]), "EUR", 2_000_000, 2_000),
        (2, json!(["GBP"]), "GBP", 1_100_000, 2_000),
    ] {
        let request = request("c", json!({"wseat": [format!("s{seat}")], "cur": cur}));
        let answer = http.post(BID_PATH, request.to_string().as_bytes());
        let bid = answer.bids().remove(0);
        let found = (answer.json()["cur"].clone(), bid.price_micros);
        assert_eq!(found, (json!(currency), price_micros), "{seat} in {cur}");
        node.wait_budget(seat, "the hold", |books| books.held == cost);
        // Its own price in its own currency; then a repeat.
        let price = format!("{}.{:06}", price_micros / 1_000_000, price_micros % 1_000_000);
        for _ in 0..2 {
            assert_eq!(http.notice(&bid.path("burl", Some(&price), Some(currency))), 204);
        }
        let of = usize::try_from(seat - 1).unwrap();
        settled[of] += cost;
        let books = node.wait_budget(seat, "no hold", |books| books.held == 0);
        assert_eq!((books.settled, books.over_settled), (settled[of], 0), "{seat} in {cur}");
    }
    // A price in ours is not that of a bid in euros: what was sent is booked.
    let euros =
        |fields: Value| with(request("e", json!({"wseat": ["s1"], "cur": ["EUR"]})), fields);
    let bid = http.bid(&euros(json!({}))).unwrap();
    assert_eq!(http.notice(&bid.path("burl", Some("1.82"), Some("USD"))), 204);
    wait_count(&node, "price_other_currency", 1);
    assert_eq!(node.budget(1).settled, settled[0] + 2_001);
    // Floors in any currency are met by what is sent, to the last micro.
    for (floor, currency, price) in [
        ("1.818180", "EUR", Some(1_818_181)),
        // The auction is in ours, so the floor was rounded up there and back.
        ("1.818181", "EUR", Some(1_818_182)),
        ("1.818182", "EUR", None),
        ("2", "USD", Some(1_818_182)),
        ("2.000001", "USD", None),
        ("1", "GBP", Some(1_818_182)),
    ] {
        let floor: Value = serde_json::from_str(floor).unwrap();
        let fields = json!({"bidfloor": floor, "bidfloorcur": currency});
        let found = http.bid(&euros(json!({"imp": [imp("1", fields)]})));
        assert_eq!(found.map(|bid| bid.price_micros), price, "{floor} {currency}");
    }
    for (seat, cur) in [("s1", json!(["JPY"])), ("s3", json!(["GBP"])), ("s1", json!(["???"]))] {
        let request = request("n", json!({"wseat": [seat], "cur": cur}));
        assert!(http.bid(&request).is_none(), "{seat} in {cur}");
    }
    wait_count(&node, "no_bids/currency", 3);
    check_no_violation(&node);
}
