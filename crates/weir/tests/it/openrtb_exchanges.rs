//! Several exchanges at one door: each has its path, seat, currency and counters, and comes, changes and goes while the node runs.

use serde_json::{Value, json};

use crate::openrtb::{BID_PATH, Http, campaign, counts, patient, request};
use crate::support::{Node, output, stderr, stdout, text, wait_for, weir};

const EU: &str = "[[openrtb.exchange]]\nname = \"eu\"\npath = \"/eu/rtb\"\nseat = \"s-9\"\ncurrency = \"EUR\"\n\
                  rates = \"EUR=2\"\nno_bid_body = true\nloss_notices = false\n";
const SMALL: &str = "[[openrtb.exchange]]\nname = \"small\"\nqps_max = 1\nfee_bp = 5000\n";

/// Asks for a configuration; what `weir reload` says of it, where it is to be taken.
fn reload(node: &Node, config: &str, is_taken: bool) -> String {
    let file = node.budgets_file().with_file_name("weir.toml");
    std::fs::write(file, config).unwrap();
    let done = output(weir().args(["reload", "--data", text(&node.data())]));
    assert_eq!(done.status.success(), is_taken, "{}\n{}", stderr(&done), node.log());
    stdout(&done)
}

fn ask(http: &mut Http, path: &str, fields: Value) -> (u16, Value) {
    let answer = http.post(path, request("r", fields).to_string().as_bytes());
    (answer.status, if answer.status == 200 { answer.json() } else { Value::Null })
}

/// Path of the billing notice of the only bid, with its own price.
fn bill_of(answer: &Value, price: &str) -> String {
    let url = answer["seatbid"][0]["bid"][0]["burl"].as_str().unwrap();
    let currency = answer["cur"].as_str().unwrap();
    let path = &url[url.find("/n/bill/").unwrap()..];
    path.replace("${AUCTION_PRICE}", price).replace("${AUCTION_CURRENCY}", currency)
}

fn impressions(node: &Node) -> Vec<(String, u64, String)> {
    let (_, body) = node.get("/v1/report?by=exchange");
    let report: Value = serde_json::from_str(&body).unwrap();
    let rows = report["rows"].as_array().unwrap().iter().map(|row| {
        let field = |name: &str| row[name].as_str().unwrap().to_owned();
        (field("exchange"), row["impressions"].as_u64().unwrap(), field("spent"))
    });
    rows.collect()
}

#[test]
fn each_exchange_has_its_own_terms_and_bids_outlive_it() {
    let setup = patient(&[campaign(1, json!({"seat": "ours"}))]);
    std::fs::write(setup.folder().join("weir.toml"), format!("{EU}{SMALL}")).unwrap();
    let node = setup.start();
    let mut http = Http::to(&node);
    http.bid_soon(&request("first", json!({})));
    // Its seat, its currency also where `cur` is absent, its form of no bid, and no loss notices.
    let (_, eu) = ask(&mut http, "/eu/rtb", json!({"wseat": ["s-9"]}));
    let (seat, bid) = (&eu["seatbid"][0]["seat"], &eu["seatbid"][0]["bid"][0]);
    assert_eq!((&eu["cur"], seat, &bid["lurl"]), (&json!("EUR"), &json!("s-9"), &Value::Null));
    assert_eq!(bid["price"].to_string().parse::<f64>(), Ok(1.0), "{bid}");
    for refused in [json!({"wseat": ["ours"]}), json!({"bseat": ["s-9"]})] {
        assert_eq!(ask(&mut http, "/eu/rtb", refused), (200, json!({"id": "r", "nbr": 500})));
    }
    let deal = |seat: &str| {
        let deal = json!({"id": "d", "wseat": [seat], "bidfloor": 0});
        json!({"imp": [{"id": "1", "banner": {}, "pmp": {"private_auction": 1, "deals": [deal]}}]})
    };
    assert_eq!(ask(&mut http, "/eu/rtb", deal("ours")).1["nbr"], json!(506));
    let (_, own) = ask(&mut http, BID_PATH, json!({"wseat": ["ours"]}));
    assert_eq!((&own["cur"], &own["seatbid"][0]["seat"]), (&json!("USD"), &json!("ours")));
    let unused = json!({"cur": ["JPY"]});
    assert_eq!(ask(&mut http, BID_PATH, unused).0, 204);
    // Half of the bid is the exchange's fee; beyond its requests of a second nothing is read.
    let floor = json!({"imp": [{"id": "1", "banner": {}, "bidfloor": 1.01}]});
    let path = "/openrtb2/small";
    assert!((0..40).all(|_| ask(&mut http, path, floor.clone()).0 == 204));
    assert_eq!(ask(&mut http, "/openrtb2/eu", json!({})).0, 404);
    for (answer, price) in [(&eu, "1.00"), (&own, "2.00")] {
        assert_eq!(http.notice(&bill_of(answer, price)), 204);
    }
    let (_, out) = ask(&mut http, "/eu/rtb", json!({}));

    let small = |name: &str| counts(&node)["exchanges"]["small"][name].as_u64().unwrap_or(0);
    assert_eq!(small("requests") + small("over_qps"), 40);
    assert!(small("over_qps") > 0 && small("no_bids") == small("requests") && small("bids") == 0);
    let eu_counts = counts(&node)["exchanges"]["eu"].clone();
    let expected = json!({
        "requests": 5, "answers_with_bids": 2, "bids": 2, "no_bids": 3, "billing_notices": 1,
    });
    assert_eq!(eu_counts, expected);

    // Another seat, then nobody: what is out is booked, and counted as what it was.
    let told = reload(&node, &format!("{}{SMALL}", EU.replace("s-9", "s-10")), true);
    assert!(told.contains("openrtb.exchange.seat of eu: was \"s-9\", is \"s-10\""), "{told}");
    assert_eq!(ask(&mut http, "/eu/rtb", json!({})).1["seatbid"][0]["seat"], json!("s-10"));
    reload(&node, &format!("{EU}{EU}"), false);
    reload(&node, "# nobody\n", true);
    assert_eq!(ask(&mut http, "/eu/rtb", json!({})).0, 404);
    assert_eq!(http.notice(&bill_of(&out, "1.00")), 204);
    wait_for("figures", || {
        let sums = [("default", 1, "0.002"), ("eu", 2, "0.004")];
        impressions(&node) == sums.map(|(name, count, spent)| (name.into(), count, spent.into()))
    });
    assert_eq!(node.budget(1).settled, 6_000);
    let (_, metrics) = node.get("/metrics");
    assert!(metrics.contains("weir_exchange_billing_notices_total{exchange=\"eu\"} 2\n"));
    let node = node.restart();
    assert_eq!(Http::to(&node).notice(&bill_of(&out, "1.00")), 204);
    assert_eq!(node.budget(1).settled, 6_000);
}

#[test]
fn exchanges_are_judged_with_file_and_line_all_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("weir.toml");
    let check = |config: &str| {
        std::fs::write(&file, config).unwrap();
        let told = output(weir().args(["check", "--config", text(&file)]).current_dir(&folder));
        (told.status.code(), stderr(&told))
    };
    let open = "[[openrtb.exchange]]\n";
    let config = [
        EU,
        open,
        "name = \"EU\"\npath = \"/n/win\"\n",
        open,
        "name = \"eu\"\npath = \"/eu/rtb\"\n",
    ];
    let more = [
        open,
        "name = \"default\"\npath = \"/openrtb2/bid\"\n",
        open,
        "name = \"jp\"\ncurrency = \"JPY\"\nfee_bp = 9001\ntmax = 1\n",
    ];
    let (code, told) = check(&[config.concat(), more.concat()].concat());
    assert_eq!(code, Some(1));
    for expected in [
        "weir.toml:10: openrtb.exchange.name: found \"EU\", expected 1 to 32 of a to z",
        "weir.toml:11: openrtb.exchange.path: found \"/n/win\", expected / and",
        "weir.toml:13: openrtb.exchange.name: found \"eu\", expected a name of its own",
        "weir.toml:14: openrtb.exchange.path: found \"/eu/rtb\", expected a path of its own",
        "weir.toml:16: openrtb.exchange.name: found \"default\", expected another name",
        "weir.toml:17: openrtb.exchange.path: found \"/openrtb2/bid\", expected a path of its own",
        "weir.toml:20: openrtb.exchange.currency: found \"JPY\", expected USD, or one of",
        "weir.toml:21: openrtb.exchange.fee_bp: found 9001, expected 0 to 9000",
        "weir.toml:22: openrtb.exchange.tmax: there is no such key",
    ] {
        assert!(told.contains(expected), "{expected} not in\n{told}");
    }
    assert!(!check(&[EU, SMALL].concat()).1.contains("openrtb.exchange"));
}
