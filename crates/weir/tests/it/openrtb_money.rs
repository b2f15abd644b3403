//! The money of bids: what is held, what notices book, and what they do not.

use std::time::Duration;

use serde_json::{Value, json};

use crate::openrtb::{
    Bid, Http, campaign, cost, counts, get, imp, patient, request, setup, wait_count,
};
use crate::support::{Node, over_transports, wait_for};

/// 2.345678 for a thousand: no whole number of micros for one.
const ODD_CPM: &str = "2.345678";
const ODD_COST: i64 = 2_346;

#[test]
fn a_billed_impression_books_its_price_rounded_up_and_once() {
    let setup = || patient(&[campaign(1, json!({"bid": ODD_CPM}))]);
    over_transports(setup, |node| {
        let mut http = Http::to(node);
        let bid = http.bid_soon(&request("r", json!({})));
        assert_eq!((bid.price_micros, cost(bid.price_micros)), (2_345_678, ODD_COST));
        node.wait_budget(1, "the hold", |books| books.held == ODD_COST);
        assert_eq!(http.win(&bid), 204);
        assert_eq!(node.wait_budget(1, "the hold", |b| b.held == ODD_COST).settled, 0);
        assert_eq!(http.bill(&bid), 204);
        assert_eq!(node.budget(1).settled, ODD_COST);
        assert_eq!((http.bill(&bid), http.bill(&bid)), (204, 204));
        node.wait_budget(1, "no hold", |books| books.held == 0);
        assert_eq!(node.budget(1).settled, ODD_COST);
        wait_count(node, "repeated_notices", 2);
        // The same notice at the same moment on many connections.
        let bid = http.bid_soon(&request("r2", json!({})));
        let mut many: Vec<Http> = (0..4).map(|_| Http::to(node)).collect();
        many.iter_mut().for_each(|http| http.send(&get(&bid.bill_path())));
        let statuses: Vec<u16> = many.iter_mut().map(|http| http.receive().status).collect();
        assert_eq!(statuses, [204; 4]);
        assert_eq!(node.budget(1).settled, 2 * ODD_COST);
        wait_count(node, "repeated_notices", 5);
        // Lost: nothing is spent, the money is free again.
        let bid = http.bid_soon(&request("r3", json!({})));
        node.wait_budget(1, "the hold", |books| books.held == ODD_COST);
        assert_eq!((http.lose(&bid), http.lose(&bid)), (204, 204));
        let books = node.wait_budget(1, "no hold", |books| books.held == 0);
        assert_eq!(books.settled, 2 * ODD_COST);
        assert_eq!((books.over_settled, books.late), (0, 0));
        for (name, count) in [("win_notices", 1), ("billing_notices", 7), ("loss_notices", 2)] {
            wait_count(node, name, count);
        }
    });
}

/// More bids than an answer may have, which only the check before sending finds: the rest leaves, and holds its money alone.
#[test]
fn a_bid_that_breaks_a_rule_takes_neither_its_neighbours_nor_money_along() {
    let campaigns: Vec<Value> = (1..=5).map(|id| campaign(id, json!({}))).collect();
    let node = patient(&campaigns).with("openrtb.bids_per_impression_max", "5").start();
    let mut http = Http::to(&node);
    let imps: Vec<Value> = (0..64).map(|n| imp(&n.to_string(), json!({}))).collect();
    let many = request("many", json!({"imp": imps}));
    let mut left = Vec::new();
    wait_for("money for more than fits", || {
        left.iter().for_each(|bid| assert_eq!(http.lose(bid), 204));
        left = http.bids(&many);
        counts(&node)["violations"]["too_many_bids"].as_u64() > Some(0)
    });
    assert_eq!(left.len(), 256);
    for id in 1..=5 {
        let bids = left.iter().filter(|bid| bid.campaign == id).count();
        let held = 2_000 * i64::try_from(bids).unwrap();
        node.wait_budget(id, "what left is held", |books| books.held == held);
    }
}

#[test]
fn silence_frees_the_money_and_a_late_bill_books_it_as_late() {
    // Money for one bid.
    let node =
        setup(&[campaign(1, json!({"limit": "0.002"}))]).with("ledger.hold_ms", "400").start();
    let mut http = Http::to(&node);
    let first = http.bid_soon(&request("a", json!({})));
    // In one piece with the one that gets the money back, so that no time passes between them.
    assert_eq!(http.lose(&first), 204);
    let mut taken = Vec::new();
    wait_for("the only bid", || {
        let pair = [request("b", json!({})), request("c", json!({}))];
        taken = http.bids_in_one(&pair).into_iter().flatten().collect();
        assert!(taken.len() <= 1, "the money is there once: {taken:?}");
        !taken.is_empty()
    });
    let silent = taken.remove(0);
    node.wait_budget(1, "the money back", |books| books.held == 0 && books.unspent() == 2_000);
    // Its time is over; what was shown is a debt all the same.
    let next = http.bid_soon(&request("d", json!({})));
    assert_eq!((http.bill(&silent), http.bill(&silent)), (204, 204));
    let books = node.budget(1);
    assert_eq!((books.late, books.settled), (2_000, 0));
    wait_count(&node, "late_notices", 1);
    wait_count(&node, "repeated_notices", 1);
    assert_eq!(http.win(&silent), 204, "told twice is told once");
    assert_eq!(http.bill(&next), 204);
}

#[test]
fn a_won_bid_waits_longer_for_its_bill_than_one_that_nobody_spoke_of() {
    let node = setup(&[campaign(1, json!({}))]).with("ledger.hold_ms", "300").start();
    let mut http = Http::to(&node);
    let mut confirmed = None;
    wait_for("a win in time", || {
        let bid = http.bid_soon(&request("w", json!({})));
        assert_eq!(http.win(&bid), 204);
        confirmed = Some(bid);
        // Twice as long as a hold lives that nobody spoke of.
        std::thread::sleep(Duration::from_millis(600));
        node.budget(1).held == 2_000
    });
    assert_eq!(http.bill(&confirmed.unwrap()), 204);
    let books = node.budget(1);
    assert_eq!((books.settled, books.late), (2_000, 0));
}

#[test]
fn forged_notices_book_nothing_and_are_counted() {
    let node = patient(&[campaign(1, json!({}))]).start();
    let mut http = Http::to(&node);
    let bid = http.bid_soon(&request("r", json!({})));
    let path = bid.bill_path();
    let id = path.split('/').nth(3).unwrap();
    let changed: Vec<String> = (0..id.len())
        .map(|at| {
            let mut other = id.to_string().into_bytes();
            other[at] = if other[at] == b'A' { b'B' } else { b'A' };
            path.replace(id, std::str::from_utf8(&other).unwrap())
        })
        .collect();
    for path in &changed {
        assert_eq!(http.notice(path), 404, "{path}");
    }
    for path in ["/n/bill/", "/n/bill/AAAA", "/n/bill/%", "/n/pay/AAAA", "/n/", "/n/bill//p-1"] {
        assert_eq!(http.notice(path), 404, "{path}");
    }
    assert_eq!(http.notice(&path.replace(id, &id[..id.len() - 4])), 404);
    assert_eq!(http.notice(&path.replace(id, &format!("{id}AAAA"))), 404);
    node.wait_stat("the forged ones", |stat| {
        let forged = stat["doors"]["openrtb"]["forged_notices"].as_u64().unwrap_or(0);
        let foreign = stat["doors"]["openrtb"]["foreign_notices"].as_u64().unwrap_or(0);
        let old = stat["doors"]["openrtb"]["too_old_notices"].as_u64().unwrap_or(0);
        forged > 0 && forged + foreign + old == changed.len() as u64 + 8
    });
    let books = node.budget(1);
    assert_eq!((books.settled, books.late, books.over_settled), (0, 0, 0));
    assert_eq!(http.bill(&bid), 204, "the true one");
    assert_eq!(node.budget(1).settled, 2_000);
}

/// What stands where the price should be; what is booked of a bid of 2.00; the counter.
const PRICES: [(&str, &str, i64, &str); 20] = [
    ("2.000000", "USD", 2_000, ""),
    ("1.5", "USD", 1_500, ""),
    ("1.5", "usd", 1_500, ""),
    ("1.5", "", 1_500, ""),
    ("1.5", "${AUCTION_CURRENCY}", 1_500, ""),
    ("1%2E5", "USD", 1_500, ""),
    ("MS41", "USD", 1_500, ""),
    ("0.0000001", "USD", 2_000, "price_too_low"),
    ("1.5", "EUR", 2_000, "price_other_currency"),
    ("${AUCTION_PRICE}", "USD", 2_000, "price_missing"),
    ("%24%7BAUCTION_PRICE%7D", "USD", 2_000, "price_missing"),
    ("${AUCTION_PRICE:B64}", "USD", 2_000, "price_missing"),
    ("", "USD", 2_000, "price_missing"),
    ("AUDIT", "USD", 0, "audit_notices"),
    ("0", "USD", 2_000, "price_absurd"),
    ("-1", "USD", 2_000, "price_absurd"),
    ("NaN", "USD", 2_000, "price_absurd"),
    ("4.000001", "USD", 2_000, "price_absurd"),
    ("c2VjcmV0c2VjcmV0", "USD", 2_000, "price_encoded"),
    ("4", "USD", 4_000, "price_above_bid"),
];

#[test]
fn whatever_became_of_the_price_macro_something_sensible_is_booked() {
    let node = patient(&[campaign(1, json!({}))]).start();
    let mut http = Http::to(&node);
    let mut booked = 0;
    for (number, (price, currency, expected, counter)) in PRICES.into_iter().enumerate() {
        let before = counts(&node);
        let bid = http.bid_soon(&request(number, json!({"at": 2})));
        assert_eq!(http.notice(&bid.path("burl", Some(price), Some(currency))), 204);
        booked += expected;
        let books = node.budget(1);
        let case = format!("{price:?} {currency:?}: {books:?}");
        assert_eq!(books.settled + books.over_settled, booked, "{case}");
        assert_eq!(books.over_settled, if expected == 4_000 { 2_000 } else { 0 }, "{case}");
        if !counter.is_empty() {
            wait_count(&node, counter, before[counter].as_u64().unwrap() + 1);
        }
    }
    // No place for a price at all, and a query that says something else.
    let bid = http.bid_soon(&request("bare", json!({})));
    let path = bid.bill_path();
    let bare = path.split("/p-").next().unwrap();
    assert_eq!(http.notice(&format!("{bare}?price=0.01")), 204);
    let books = node.budget(1);
    assert_eq!(books.settled + books.over_settled, booked + 2_000);
    let own: i64 =
        ["price_missing", "price_absurd", "price_encoded", "price_other_currency", "price_too_low"]
            .map(|name| counts(&node)[name].as_i64().unwrap())
            .iter()
            .sum();
    assert!((11..=12).contains(&own), "the last one may not be counted yet: {own}");
}

#[test]
fn a_test_request_gets_bids_and_moves_no_money() {
    let campaigns = [campaign(1, json!({})), campaign(2, json!({"bid": "1.00"}))];
    let node = patient(&campaigns).with("openrtb.bids_per_impression_max", "2").start();
    let mut http = Http::to(&node);
    // A test looks whether there is money, too.
    let mut asked = 0;
    let mut ask = || {
        asked += 1;
        http.bids(&request("t", json!({"test": 1})))
    };
    wait_for("both bids", || ask().len() == 2);
    let bids = ask();
    for bid in &bids {
        assert_eq!([http.win(bid), http.bill(bid), http.bill(bid), http.lose(bid)], [204; 4]);
    }
    wait_count(&node, "test_requests", asked);
    wait_count(&node, "test_notices", 8);
    for id in [1, 2] {
        assert_eq!(node.budget(id).unspent(), 1_000_000_000);
    }
}

/// Bids until nothing is left that a bid could hold; `before` of the way the holds are looked at.
fn exhaust(node: &Node, http: &mut Http, budget: u64, left: i64) -> Vec<Bid> {
    let mut bids = Vec::new();
    wait_for("nothing left to hold", || {
        let requests: Vec<Value> =
            (0..100).map(|n| request(format!("{}-{n}", bids.len()), json!({}))).collect();
        bids.extend(http.bids_in_one(&requests).into_iter().flatten());
        let books = node.budget(budget);
        assert!(books.held <= books.limit);
        books.unspent() < left
    });
    bids
}

#[test]
fn thousands_of_requests_never_overspend_a_tiny_budget() {
    // 25 bids and a half.
    let node = patient(&[campaign(1, json!({"limit": "0.051"}))]).start();
    let mut http = Http::to(&node);
    let bids = exhaust(&node, &mut http, 1, 2_000);
    for _ in 0..30 {
        let requests: Vec<Value> = (0..100).map(|n| request(n, json!({}))).collect();
        assert!(http.bids_in_one(&requests).iter().all(Vec::is_empty));
    }
    assert_eq!(bids.len(), 25);
    for bid in &bids {
        assert_eq!(http.bill(bid), 204);
    }
    let books = node.budget(1);
    assert_eq!((books.settled, books.over_settled, books.late), (50_000, 0, 0));
    assert_eq!(http.bid(&request("x", json!({}))).map(|bid| bid.campaign), None);
    node.wait_stat("the reasons", |stat| {
        let reasons = &stat["doors"]["openrtb"]["no_bids"];
        let count = |name: &str| reasons[name].as_u64().unwrap_or(0);
        count("budget_spent") + count("purse_empty") > 3_000
    });
}

#[test]
fn an_expected_share_is_held_and_the_overspend_stays_within_its_bound() {
    let hold = json!({"expected": {"win_rate": "0.2", "safety": "1.5"}});
    // A bid of 1.00 costs 1,000 and holds 300.
    let fields = json!({"bid": "1.00", "limit": "0.003", "hold": hold});
    let node = patient(&[campaign(1, fields)]).start();
    let mut http = Http::to(&node);
    let bids = exhaust(&node, &mut http, 1, 300);
    assert_eq!(bids.len(), 10);
    node.wait_budget(1, "a share of each", |books| books.held == 3_000);
    assert_eq!(http.bill(&bids[0]), 204);
    let books = node.budget(1);
    assert_eq!((books.settled, books.over_settled), (300, 700));
    // The worst case: all that is open wins.
    for bid in &bids[1..] {
        assert_eq!(http.bill(bid), 204);
    }
    let books = node.budget(1);
    assert_eq!((books.settled, books.over_settled, books.late), (3_000, 7_000, 0));
    // Limit x (1 / (0.2 x 1.5) - 1) = 7,000.
    assert!(books.settled + books.over_settled - books.limit <= 7_000);
    assert!(http.bid(&request("after", json!({}))).is_none());
}

/// Impressions and their spend, of the campaign and of what stands above it, are those of the books: live, after kills, and where the file of
/// figures is gone or of another time.
#[test]
fn impressions_are_exact_after_kills() {
    let above = json!({"id": 9, "name": "all", "unit": "USD", "limit": "1000"});
    let mut node = patient(&[above, campaign(1, json!({"parent": 9}))]).start();
    let mut billed = 0;
    for life in 0..3 {
        let mut http = Http::to(&node);
        for number in 0..5 {
            let bid = http.bid_soon(&request(format!("{life}/{number}"), json!({})));
            assert_eq!([http.bill(&bid), http.bill(&bid)], [204; 2]);
            billed += 1;
        }
        for id in [1, 9] {
            let shown = || -> Value {
                serde_json::from_str(&node.get(&format!("/v1/budgets/{id}")).1).unwrap()
            };
            wait_for("figures", || shown()["impressions"] == billed);
            assert_eq!(
                (node.budget(id).settled, &shown()["cpm"]),
                (billed * 2_000, &json!("2.00"))
            );
        }
        let file = node.data().join("figures/figures");
        assert!(file.exists());
        if life == 1 {
            std::fs::remove_file(file).unwrap();
        }
        node = node.restart();
    }
    // No money depends on them: a node that cannot have them says so, and bids.
    let folder = node.data().join("figures");
    std::fs::remove_dir_all(&folder).unwrap();
    std::fs::write(&folder, "no folder").unwrap();
    let node = node.restart();
    let mut http = Http::to(&node);
    let bid = http.bid_soon(&request("without", json!({})));
    assert_eq!(http.bill(&bid), 204);
    assert!(node.log().contains("impressions are not counted"), "{}", node.log());
}
