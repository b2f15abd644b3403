//! Clicks: each counts once, with its bill; a person is sent on in any case, and nobody is sent to where no creative leads.

use serde_json::{Value, json};

use crate::openrtb::{
    Answer, Bid, Http, campaign, check_no_violation, counts, creative, patient, request, wait_count,
};
use crate::openrtb_disk::{limit_files, wait_journal};
use crate::support::{Node, Setup, over_transports, wait_for};

const LANDING: &str = "https://brand.example/landing?a=1";
const PERSON: &str = "User-Agent: Mozilla/5.0 (X11; Linux x86_64) Chrome/120.0\r\n";

fn clickable() -> Setup {
    let markup = "<a href=\"${WEIR_CLICK}\"></a><i data-e=\"${WEIR_CLICK_ESC}\"></i><img src=\"${WEIR_CLICK_PIXEL}\">";
    let shown = creative("a", json!({"markup": markup, "click": LANDING, "secure": false}));
    patient(&[campaign(1, json!({"creatives": [shown]}))])
}

/// What stands in one of the markup's attributes, as a path.
fn address(bid: &Bid, attribute: &str) -> String {
    let (_, rest) = bid.text("adm").split_once(&format!("{attribute}=\"")).unwrap();
    let url = rest.split_once('"').unwrap().0.replace("%3A", ":").replace("%2F", "/");
    let (_, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    format!("/{path}")
}

fn follow(http: &mut Http, method: &str, path: &str, headers: &str) -> Answer {
    http.send(format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n").as_bytes());
    http.receive()
}

fn check_sent_on(answer: &Answer, what: &str) {
    let found = ["location", "cache-control"].map(|name| answer.header(name));
    assert_eq!((answer.status, found), (302, [Some(LANDING), Some("no-store")]), "{what}");
}

/// What the API says of the campaign's impressions and clicks.
fn shown(node: &Node) -> [Value; 2] {
    let budget: Value = serde_json::from_str(&node.get("/v1/budgets/1").1).unwrap();
    ["impressions", "clicks"].map(|name| budget[name].clone())
}

#[test]
fn a_click_counts_once_with_its_bill_and_leads_where_the_creative_does() {
    over_transports(clickable, |node| {
        let mut http = Http::to(node);
        // Clicked before its bill, and once more, by any of its addresses.
        let bid = http.bid_soon(&request("r", json!({})));
        let [click, escaped, pixel] = ["href", "data-e", "src"].map(|name| address(&bid, name));
        assert_eq!(click, escaped);
        check_sent_on(&follow(&mut http, "GET", &format!("{click}?x=1"), PERSON), "the first");
        check_sent_on(&follow(&mut http, "GET", &click, PERSON), "a repeat");
        for method in ["GET", "POST"] {
            assert_eq!(follow(&mut http, method, &pixel, PERSON).status, 204);
        }
        assert_eq!(http.bill(&bid), 204);
        // Of nobody, or nobody that counts: sent on.
        let next = http.bid_soon(&request("s", json!({})));
        let click = address(&next, "href");
        for (method, headers) in [
            ("HEAD", PERSON.to_string()),
            ("GET", String::new()),
            ("GET", "User-Agent: Googlebot/2.1\r\n".into()),
            ("GET", format!("{PERSON}Sec-Purpose: prefetch;prerender\r\n")),
        ] {
            check_sent_on(&follow(&mut http, method, &click, &headers), &headers);
        }
        assert_eq!(http.bill(&next), 204);
        // Never billed.
        let lost = http.bid_soon(&request("t", json!({})));
        check_sent_on(&follow(&mut http, "GET", &address(&lost, "href"), PERSON), "never billed");
        // A test has no hold.
        let test = http.bid_soon(&request("u", json!({"test": 1})));
        check_sent_on(&follow(&mut http, "GET", &address(&test, "href"), PERSON), "a test");
        for (name, count) in [
            ("clicks", 10),
            ("clicks_taken", 2),
            ("click_repeats", 3),
            ("click_heads", 1),
            ("click_crawlers", 2),
            ("click_prefetches", 1),
            ("click_tests", 1),
        ] {
            wait_count(node, name, count);
        }
        wait_for("figures", || shown(node) == [json!(2), json!(1)]);
        check_no_violation(node);
    });
}

/// A click under way when the journal fails is sent on before its seal, and counts once that comes; later ones do not count.
#[test]
fn while_the_journal_fails_people_are_sent_on() {
    let node = clickable().start();
    let mut http = Http::to(&node);
    let bids: Vec<Bid> = (0..2).map(|n| http.bid_soon(&request(n, json!({})))).collect();
    assert_eq!([http.bill(&bids[0]), http.bill(&bids[1])], [204; 2]);
    limit_files(&node, "4096");
    check_sent_on(&follow(&mut http, "GET", &address(&bids[0], "href"), PERSON), "under way");
    wait_journal(&node, "failing");
    wait_for("one that is not counted", || {
        check_sent_on(&follow(&mut http, "GET", &address(&bids[1], "href"), PERSON), "uncounted");
        counts(&node)["clicks_unsealed"] != json!(0)
    });
    wait_count(&node, "clicks_hurried", 1);
    limit_files(&node, "unlimited");
    wait_journal(&node, "sealing");
    wait_for("figures", || shown(&node) == [json!(2), json!(1)]);
    let node = node.restart();
    let mut http = Http::to(&node);
    check_sent_on(&follow(&mut http, "GET", &address(&bids[0], "href"), PERSON), "a repeat");
    wait_count(&node, "click_repeats", 1);
    wait_for("figures", || shown(&node) == [json!(2), json!(1)]);
}

#[test]
fn an_id_of_another_kind_is_none_of_a_click() {
    let node = clickable().start();
    let mut http = Http::to(&node);
    let bid = http.bid_soon(&request("r", json!({})));
    let click = address(&bid, "href");
    for kind in ["win", "bill", "loss"] {
        assert_eq!(http.notice(&click.replace("/click/", &format!("/{kind}/"))), 404, "{kind}");
    }
    let win = bid.path("nurl", Some("1"), Some("USD")).replace("/win/", "/click/");
    assert_eq!(follow(&mut http, "GET", &win, PERSON).status, 404);
    wait_count(&node, "wrong_kind_notices", 4);
    assert_eq!(follow(&mut http, "GET", "/n/click/AAAA", PERSON).status, 404);
    assert_eq!(follow(&mut http, "GET", "/n/click/", PERSON).status, 404);
    wait_count(&node, "forged_notices", 2);
    let answer = follow(&mut http, "POST", &click, PERSON);
    assert_eq!((answer.status, answer.header("allow")), (405, Some("get, head")));
    assert_eq!(counts(&node)["clicks"], json!(0));
    let books = node.budget(1);
    assert_eq!((books.held, books.settled), (2_000, 0), "no click moves money");
}

#[test]
fn who_clicks_on_what_is_gone_goes_to_the_fallback() {
    let node = clickable().with("openrtb.click_fallback", "https://brand.example/").start();
    let mut http = Http::to(&node);
    for (path, status) in [("/n/click/AAAA", 302), ("/n/track/AAAA", 404)] {
        let answer = follow(&mut http, "GET", path, PERSON);
        let leads = (status == 302).then_some("https://brand.example/");
        assert_eq!((answer.status, answer.header("location")), (status, leads), "{path}");
    }
}

#[test]
fn only_so_many_clicks_of_an_address_count() {
    let node = clickable()
        .with("openrtb.clicks_per_address", "1")
        .with("openrtb.address_header", "x-forwarded-for")
        .start();
    let mut http = Http::to(&node);
    let mut click = |name: &str, from: &str| {
        let bid = http.bid_soon(&request(name, json!({})));
        let answer = follow(&mut http, "GET", &address(&bid, "href"), &format!("{PERSON}{from}"));
        check_sent_on(&answer, from);
    };
    for (name, from) in [
        ("a", ""),
        ("b", "X-Forwarded-For: 192.0.2.1\r\n"),
        ("c", "X-Forwarded-For: 192.0.2.9\r\nX-Forwarded-For: 192.0.2.2, 192.0.2.1\r\n"),
        ("d", "X-Forwarded-For: 192.0.2.1, unknown\r\n"),
        ("e", "X-Forwarded-For: 192.0.2.2\r\n"),
    ] {
        click(name, from);
    }
    wait_count(&node, "clicks_taken", 3);
    wait_count(&node, "clicks_crowded", 2);
}
