//! Reports: what was booked, by exchange, place, creative, country and time, is what the books say; also over kills.

use serde_json::{Value, json};

use crate::openrtb::{Http, campaign, creative, patient, request};
use crate::reconciling::reconcile;
use crate::support::{Node, output, stdout, text, wait_for, weir};

fn report(node: &Node, query: &str) -> Value {
    let (status, body) = node.get(&format!("/v1/report?{query}"));
    assert_eq!(status, 200, "{query}: {body}");
    serde_json::from_str(&body).unwrap()
}

/// Impressions and spend of all rows, and what the totals say.
fn sums(report: &Value) -> (u64, f64) {
    let rows = report["rows"].as_array().unwrap().iter();
    let spent = |row: &Value| row["spent"].as_str().unwrap().parse::<f64>().unwrap();
    let sums = rows.fold((0, 0.0), |sums, row| {
        (sums.0 + row["impressions"].as_u64().unwrap(), sums.1 + spent(row))
    });
    let Some(total) = report["totals"].as_array().unwrap().first() else {
        assert_eq!(sums.0, 0, "{report}");
        return sums;
    };
    let same = (total["impressions"].as_u64().unwrap(), spent(total));
    assert_eq!(sums.0, same.0);
    assert!((sums.1 - same.1).abs() < 1e-9, "{report}");
    same
}

/// Places of campaigns, with how much each was seen, and what it cost.
fn places(node: &Node) -> Vec<String> {
    let found = report(node, "by=campaign,exchange,place,creative,country");
    let rows = found["rows"].as_array().unwrap().iter().map(|row| {
        let field = |name: &str| row[name].as_str().unwrap().to_owned();
        let names = ["campaign", "exchange", "place", "creative", "country"].map(field).join(" ");
        format!("{names}: {} {} {}", row["impressions"], row["clicks"], field("spent"))
    });
    rows.collect()
}

/// Whatever a report is by, it has all impressions, and what the books have booked.
fn check_sums(node: &Node, billed: u64) {
    for by in
        ["", "campaign", "exchange", "place,day", "creative", "country,hour", "campaign,hour,place"]
    {
        let (impressions, spent) = sums(&report(node, &format!("by={by}")));
        let books = [1, 2].map(|id| node.budget(id).settled);
        assert_eq!(impressions, billed, "{by}");
        let spent = (spent * 1e6).round();
        assert!((spent - books.iter().sum::<i64>() as f64).abs() < 0.5, "{by}: {spent} {books:?}");
    }
}

#[test]
fn what_a_report_adds_up_is_what_the_books_say_over_kills() {
    let shown = |id: &str| creative(id, json!({"adomain": ["a.example"], "secure": false}));
    let only = |country: &str| json!({"geo": {"any": [country]}});
    let mut node = patient(&[
        campaign(1, json!({"creatives": [shown("a")], "targeting": only("DEU")})),
        campaign(2, json!({"creatives": [shown("b")], "targeting": only("FRA")})),
    ])
    .start();
    let places_of = [
        json!({"site": {"domain": "News.example"}, "device": {"geo": {"country": "DEU"}}}),
        json!({"site": {"page": "https://blog.example/x?y"}, "device": {"geo": {"country": "deu"}}}),
        json!({"site": null, "app": {"bundle": "com.game"}, "device": {"geo": {"country": "FRA"}}}),
        json!({"site": {"id": "s"}, "device": {"geo": {"country": "FRA"}}}),
    ];
    // More of them by hand: WEIR_REPORT_LIVES=21.
    let lives = std::env::var("WEIR_REPORT_LIVES").map_or(3, |lives| lives.parse().unwrap());
    for life in 0..lives {
        let mut http = Http::to(&node);
        for (n, place) in places_of.iter().enumerate() {
            let bid = http.bid_soon(&request(format!("{life}-{n}"), place.clone()));
            let bill = bid.path("burl", Some("2"), Some("USD"));
            if (life, n) == (0, 1) {
                // Its notice never came: it is counted as what it was, too.
                let id = bill.strip_prefix("/n/bill/").and_then(|rest| rest.split('/').next());
                let file = format!("id,billed,amount\n{},true,\n", id.unwrap());
                assert_eq!(reconcile(&node, "", &file).0, 200);
                continue;
            }
            assert_eq!(http.notice(&bill), 204);
        }
        if life % 2 == 1 {
            // Killed with its bills sealed, before they are counted.
            node = node.restart();
        }
        let billed = 4 * (life + 1);
        wait_for("figures", || sums(&report(&node, "by=")).0 == billed);
        if life == 0 {
            // The names are on the disk a second later.
            wait_for("names", || {
                std::fs::metadata(node.data().join("figures/names/names"))
                    .is_ok_and(|file| file.len() > 200)
            });
        }
        check_sums(&node, billed);
        if life + 1 < lives {
            node = node.restart();
        }
    }
    let sold = format!("{lives} 0 {}", 0.002 * lives as f64);
    let expected = [
        "1 default blog.example a DEU",
        "1 default news.example a DEU",
        "2 default  b FRA",
        "2 default com.game b FRA",
    ];
    assert_eq!(places(&node), expected.map(|place| format!("{place}: {sold}")));
    if lives == 3 {
        check_forms(&node);
    }
}

/// Which rows there are, what is refused, and the same in other forms.
fn check_forms(node: &Node) {
    let rows = |query: &str| report(node, query)["rows"].as_array().unwrap().len();
    assert_eq!(
        [rows("budgets=2"), rows("from_ms=0&to_ms=9"), rows("by=campaign,place")],
        [1, 0, 4]
    );
    for wrong in ["by=x", "by=hour,day", "by=day,day", "from_ms=9&to_ms=9", "budgets=nobody", "x=1"]
    {
        let (status, body) = node.get(&format!("/v1/report?{wrong}"));
        assert_eq!(status, 400, "{wrong}: {body}");
    }
    let (_, csv) = node.get("/v1/report.csv?by=country");
    assert_eq!(
        csv,
        "country,unit,impressions,clicks,spent,ctr,cpm,cpc\r\nDEU,USD,6,0,0.012,0.000000,2.00,\r\nFRA,USD,6,0,0.012,0.000000,2.00,\r\n"
    );
    let printed = output(weir().args(["report", "--by", "country", "--data"]).arg(node.data()));
    assert!(stdout(&printed).lines().count() == 4, "{}", stdout(&printed));
    let csv_printed = output(weir().args([
        "report",
        "--by",
        "country",
        "--format",
        "csv",
        "--data",
        text(&node.data()),
    ]));
    assert_eq!(stdout(&csv_printed), csv);
}
