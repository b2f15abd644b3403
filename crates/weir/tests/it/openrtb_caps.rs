//! How often one user sees what, and what is known of users.

use serde_json::{Value, json};

use crate::openrtb::{
    Bid, Http, campaign, check_no_violation, counts_at_rest, creative, patient, post, request,
    setup, wait_count, wait_warm, with,
};
use crate::support::{Node, wait_for};

fn capped(fields: Value) -> Value {
    campaign(1, with(json!({"caps": [{"per": "lifetime", "max": 3}]}), fields))
}

fn of_user(id: impl ToString, user: &str) -> Value {
    request(id, json!({"user": {"id": user}}))
}

/// Fifty requests of a user in one piece.
fn burst(http: &mut Http, user: &str) -> Vec<Bid> {
    let requests: Vec<Value> = (0..50).map(|n| of_user(n, user)).collect();
    http.bids_in_one(&requests).concat()
}

/// Waits until the worker has money: another user's bid, which is lost.
fn wait_money(node: &Node, http: &mut Http) {
    wait_warm(node);
    let bid = http.bid_soon(&of_user("m", "somebody else"));
    assert_eq!(http.lose(&bid), 204);
}

#[test]
fn a_burst_never_gets_more_places_than_its_cap_has() {
    let node = patient(&[capped(json!({}))]).start();
    let mut http = Http::to(&node);
    wait_money(&node, &mut http);
    let bids = burst(&mut http, "ann");
    assert_eq!(bids.len(), 3);
    assert!(burst(&mut http, "ann").is_empty());
    assert_eq!(burst(&mut http, "bob").len(), 3, "everybody has places of their own");
    node.wait_stat("the reason", |stat| {
        stat["doors"]["openrtb"]["no_bids"]["user_cap"].as_u64() == Some(47 + 50 + 47)
    });
    // A loss gives its place back; a win keeps it; a billing counts, once.
    assert_eq!(http.lose(&bids[0]), 204);
    let again = burst(&mut http, "ann");
    assert_eq!(again.len(), 1);
    assert_eq!([http.win(&bids[1]), http.bill(&bids[1]), http.bill(&bids[1])], [204; 3]);
    assert_eq!([http.lose(&bids[2]), http.lose(&again[0])], [204; 2]);
    assert_eq!(burst(&mut http, "ann").len(), 2);
    check_no_violation(&node);
}

#[test]
fn silence_gives_places_back_and_what_was_billed_stays_counted() {
    let node = setup(&[capped(json!({}))]).with("ledger.hold_ms", "500").start();
    let mut http = Http::to(&node);
    wait_money(&node, &mut http);
    let bids = burst(&mut http, "ann");
    assert!((1..=3).contains(&bids.len()), "{}", bids.len());
    assert_eq!(http.bill(&bids[0]), 204);
    // All places that are left, at once, come back again and again.
    for _ in 0..2 {
        wait_for("the places of two that nobody spoke of", || {
            let bids = burst(&mut http, "ann");
            assert!(bids.len() <= 2, "one of three is counted: {}", bids.len());
            bids.len() == 2
        });
    }
    // Billed after its place was given away: it happened all the same.
    wait_for("one more bid", || {
        let bids = burst(&mut http, "ann");
        let Some(bid) = bids.first() else { return false };
        node.wait_budget(1, "no holds", |books| books.held == 0);
        assert_eq!(http.bill(bid), 204);
        true
    });
    assert_eq!(node.budget(1).late, 2_000);
    wait_for("the last place", || {
        let bids = burst(&mut http, "ann");
        assert!(bids.len() <= 1, "two of three are counted: {}", bids.len());
        bids.len() == 1
    });
}

#[test]
fn each_creative_has_its_own_cap() {
    let brand = |id: &str| creative(id, json!({}));
    let fields = json!({
        "caps": [{"per": "day", "max": 1, "of": "creative"}],
        "creatives": [brand("one"), brand("two")],
    });
    let node = patient(&[capped(fields)]).start();
    let mut http = Http::to(&node);
    wait_money(&node, &mut http);
    let bids = burst(&mut http, "ann");
    let mut shown: Vec<&str> = bids.iter().map(|bid| bid.text("crid")).collect();
    shown.sort_unstable();
    assert_eq!(shown, ["one", "two"]);
    for bid in &bids {
        assert_eq!(http.bill(bid), 204);
    }
    assert!(burst(&mut http, "ann").is_empty());
}

#[test]
fn who_cannot_be_told_from_others_sees_nothing_that_is_capped() {
    let campaigns = [capped(json!({"bid": "5.00"})), campaign(2, json!({}))];
    let node = patient(&campaigns).start();
    let mut http = Http::to(&node);
    wait_money(&node, &mut http);
    http.bid_when("the better one", &of_user("k", "known"), |bid| bid.campaign == 1);
    let strangers = [
        json!({"user": null}),
        json!({"user": {"id": ""}}),
        json!({"user": null, "device": {"ifa": "00000000-0000-0000-0000-000000000000"}}),
        json!({"user": null, "device": {"ifa": "d", "lmt": 1}}),
        json!({"regs": {"coppa": 1}}),
        json!({"regs": {"gdpr": 1}}),
        json!({"regs": {"us_privacy": "1YYN"}}),
    ];
    for (number, fields) in strangers.iter().enumerate() {
        let bid = http.bid_soon(&request(number, fields.clone()));
        assert_eq!(bid.campaign, 2, "{fields}");
    }
    node.wait_stat("no users", |stat| {
        stat["doors"]["openrtb"]["no_user"].as_u64() >= Some(strangers.len() as u64)
    });
}

#[test]
fn acknowledged_billings_are_counted_after_a_kill() {
    let node = patient(&[capped(json!({}))]).start();
    let mut http = Http::to(&node);
    wait_money(&node, &mut http);
    let bids = burst(&mut http, "ann");
    assert_eq!(bids.len(), 3);
    assert_eq!([http.bill(&bids[0]), http.bill(&bids[1])], [204; 2]);
    let node = node.restart();
    let mut http = Http::to(&node);
    wait_money(&node, &mut http);
    let mut more = Vec::new();
    wait_for("the user from the disk", || {
        more = burst(&mut http, "ann");
        assert!(more.len() <= 1, "two of three are counted: {}", more.len());
        !more.is_empty()
    });
    assert_eq!(node.budget(1).settled, 4_000);
    // Told again to the new process: the same answer, nothing booked, nothing counted.
    assert_eq!([http.bill(&bids[0]), http.bill(&bids[1])], [204; 2]);
    assert_eq!(node.budget(1).settled, 4_000);
    wait_count(&node, "repeated_notices", 2);
    assert_eq!(http.lose(&more[0]), 204);
    assert_eq!(burst(&mut http, "ann").len(), 1);
}

/// `POST /profiles` of the admin door.
fn update(node: &Node, body: &Value) -> u16 {
    let mut http = Http::connect(node.admin);
    let json = "Content-Type: application/json\r\nConnection: close\r\n";
    http.send(&post("/profiles", json, body.to_string().as_bytes()));
    http.receive().status
}

#[test]
fn segments_that_are_told_count_from_the_next_request_on() {
    let wants = |lists: Value| json!({"targeting": {"segments": lists}});
    let fields = |bid: &str, lists: Value| with(wants(lists), json!({"bid": bid}));
    let campaigns = [
        campaign(1, fields("9.00", json!({"all": ["a", "b"]}))),
        campaign(2, fields("8.00", json!({"any": ["a", "c"], "none": ["x"]}))),
        campaign(3, json!({"bid": "2.00", "modifiers": [{"segment": "gold", "factor": "1.5"}]})),
    ];
    let node = patient(&campaigns).start();
    let mut http = Http::to(&node);
    wait_warm(&node);
    // Money of all three.
    let data = |names: &[&str]| {
        let segments: Vec<Value> = names.iter().map(|name| json!({"id": name})).collect();
        json!({"user": {"id": "u", "data": [{"segment": segments}]}})
    };
    let told = |names: &[&str]| request("told", data(names));
    for (names, campaign) in [(&["a", "b"][..], 1), (&["c"], 2), (&[], 3)] {
        http.bid_when("each with money", &told(names), |bid| bid.campaign == campaign);
    }
    let mut seen = |user: &str| {
        let bid = http.bid(&of_user("s", user)).unwrap();
        (bid.campaign, bid.price_micros)
    };
    assert_eq!(seen("ann"), (3, 2_000_000));
    for (body, expected) in [
        (json!({"user": "ann", "set": ["a"]}), (2, 8_000_000)),
        (json!({"user": "ann", "add": ["b"]}), (1, 9_000_000)),
        (json!({"user": "ann", "remove": ["a"]}), (3, 2_000_000)),
        (json!({"user": "ann", "set": ["c"]}), (2, 8_000_000)),
        (json!({"user": "ann", "add": ["x"]}), (3, 2_000_000)),
        (json!({"user": "ann", "set": ["gold", "unheard-of"]}), (3, 3_000_000)),
        (json!({"user": "ann", "set": []}), (3, 2_000_000)),
    ] {
        assert_eq!(update(&node, &body), 204, "{body}");
        assert_eq!(seen("ann"), expected, "{body}");
        assert_eq!(seen("bob"), (3, 2_000_000));
    }
    for bad in [json!({"user": 1}), json!({"set": []}), json!({"user": "u", "sets": []}), json!([])]
    {
        assert_eq!(update(&node, &bad), 400, "{bad}");
    }
    // Segments survive a kill: the update was answered.
    assert_eq!(update(&node, &json!({"user": "ann", "set": ["gold"]})), 204);
    let node = node.restart();
    let mut http = Http::to(&node);
    wait_warm(&node);
    let bid = http.bid_when("the user from the disk", &of_user("s", "ann"), |bid| {
        bid.price_micros != 2_000_000
    });
    assert_eq!((bid.campaign, bid.price_micros), (3, 3_000_000));
}

/// Where the law keeps the user from us, who needs to know them does not bid, the next one does, and why is counted.
#[test]
fn what_is_withheld_is_counted_by_its_cause() {
    let campaigns = [capped(json!({"bid": "5.00"})), campaign(2, json!({}))];
    let node = patient(&campaigns).with("openrtb.tcf_vendor", "25").start();
    let mut http = Http::to(&node);
    wait_money(&node, &mut http);
    http.bid_when("the better one", &of_user("k", "known"), |bid| bid.campaign == 1);
    // Consent to vendor 25, with all purposes and with the first three.
    let all = "CAAAAAAAAAAAAABABAENABEoAP___wAAAAYYAMgAAAIAAAAA";
    let three = "CAAAAAAAAAAAAABABAENABEgAOAAAAAAAAYYAMgAAAIAAAAA";
    let consent =
        |text: &str| json!({"regs": {"gdpr": 1}, "user": {"id": "known", "consent": text}});
    let regs = |fields: Value| json!({"regs": fields});
    let cases = [
        (json!({}), vec![]),
        (consent(all), vec![]),
        (regs(json!({"coppa": 1})), vec!["coppa"]),
        (regs(json!({"gdpr": 1})), vec!["consent_absent"]),
        (consent("x"), vec!["consent_unreadable"]),
        (consent("CPXxRfAPXxRfAAfKABENB-CgAAAAAAAAAAYgAAAAAAAA"), vec!["consent_vendor"]),
        // Nor has it the special feature of the precise place.
        (consent(three), vec!["consent_ids", "consent_segments", "consent_place"]),
        (regs(json!({"us_privacy": "1YYN"})), vec!["us_privacy"]),
        (regs(json!({"gpp": "DBABLA~BVQaAAAAAgA.QA", "gpp_sid": [7]})), vec!["gpp_opt_out"]),
        (regs(json!({"gpp": "DBABLA~BVQqAAAAQgA.QA"})), vec!["gpp_child"]),
        (regs(json!({"gpp": "none"})), vec!["gpp_unreadable"]),
        (regs(json!({"gpc": 1})), vec!["gpc"]),
        (json!({"device": {"lmt": 1, "dnt": 1}}), vec!["lmt", "dnt"]),
    ];
    for (fields, causes) in cases {
        let bid = http.bid(&with(of_user("w", "known"), fields.clone())).unwrap();
        assert_eq!(bid.campaign, if causes.is_empty() { 1 } else { 2 }, "{fields}");
        assert_eq!(http.lose(&bid), 204);
        for cause in causes {
            wait_count(&node, &format!("withheld/{cause}"), 1);
        }
    }
    // Each cause once, and no other.
    let withheld = counts_at_rest(&node)["withheld"].clone();
    let counts: Vec<i64> =
        withheld.as_object().unwrap().values().filter_map(Value::as_i64).collect();
    assert_eq!((counts.iter().max(), counts.iter().sum()), (Some(&1), 14), "{withheld}");
    check_no_violation(&node);
}
