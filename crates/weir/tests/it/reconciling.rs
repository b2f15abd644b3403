//! What becomes of money that no notice speaks of: kept, reconciled by file, freed by a complete one; and how budgets
//! stand on their plans.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use wire::{Action, Verdict};

use crate::client::Token;
use crate::openrtb::{Http, campaign, patient, post, request};
use crate::support::{Node, Setup, line, wait_for};

/// Nobody tells who won, and holds are over at once.
fn silent(more: &str) -> Setup {
    Setup::new(&line(1, "1000", more))
        .with("ledger.hold_ms", "80")
        .with("ledger.win_notices", "false")
}

fn reconcile(node: &Node, query: &str, body: &str) -> (u16, Value) {
    let mut http = Http::connect(node.admin);
    http.send(&post(&format!("/v1/reconcile{query}"), "", body.as_bytes()));
    let answer = http.receive();
    (answer.status, answer.json())
}

fn text(token: Token) -> String {
    URL_SAFE_NO_PAD.encode(token)
}

fn expired(node: &Node) -> i64 {
    node.get("/stat?budget=1").1.parse::<Value>().unwrap()["expired"].as_i64().unwrap()
}

#[test]
fn kept_money_is_settled_or_freed_by_a_file_and_once() {
    let node = silent("").start();
    let mut client = node.client();
    let (billed, lost) = (client.grant(1, 5_000), client.grant(1, 7_000));
    node.wait_stat("both holds kept", |_| expired(&node) == 12_000);
    assert_eq!(node.budget(1).unspent(), 1_000_000_000 - 12_000);
    let file = format!("id,billed,amount\n{},true,0.003\n{},false,\n", text(billed), text(lost));
    let (status, answer) = reconcile(&node, "", &file);
    assert_eq!(
        (status, &answer["verdicts"]),
        (200, &json!({"settled": 1, "released": 1})),
        "{answer}"
    );
    let books = node.wait_budget(1, "nothing kept", |books| books.held == 0);
    assert_eq!((books.settled, books.late, books.over_settled), (3_000, 0, 0));
    assert_eq!(books.unspent(), 1_000_000_000 - 3_000);
    let (_, again) = reconcile(&node, "", &file);
    assert_eq!(again["repeats"], 2, "{again}");
    assert_eq!(node.budget(1).settled, 3_000);
}

#[test]
fn a_notice_that_comes_late_settles_within_its_kept_hold() {
    let node = silent("").start();
    let mut client = node.client();
    let token = client.grant(1, 5_000);
    node.wait_stat("the hold kept", |_| expired(&node) == 5_000);
    assert_eq!(client.settle(token, 4_000), (Verdict::Settled, false));
    let books = node.wait_budget(1, "nothing kept", |books| books.held == 0);
    assert_eq!((books.settled, books.late), (4_000, 0));
}

#[test]
fn a_complete_file_frees_the_rest() {
    let node = silent("").start();
    let mut client = node.client();
    let (billed, _) = (client.grant(1, 5_000), client.grant(1, 7_000));
    node.wait_stat("both holds kept", |_| expired(&node) == 12_000);
    let line = format!("{{\"id\":\"{}\",\"billed\":true}}\n", text(billed));
    wait_for("nothing kept", || {
        // Only what lies in the past of every worker is taken, in steps of ten seconds.
        let (status, answer) = reconcile(&node, "?until=2099-01-01T00:00:00Z", &line);
        assert_eq!(status, 200, "{answer}");
        expired(&node) == 0
    });
    let books = node.budget(1);
    assert_eq!((books.settled, books.unspent()), (5_000, 1_000_000_000 - 5_000));
}

#[test]
fn who_prefers_utilisation_gets_the_money_back_and_debts() {
    let node = silent(r#","on_expiry":"release""#).start();
    let mut client = node.client();
    let token = client.grant(1, 5_000);
    // Its time is over, and the money is back.
    std::thread::sleep(Duration::from_millis(300));
    node.wait_budget(1, "the money back", |books| books.unspent() == 1_000_000_000);
    assert_eq!(client.settle(token, 4_000), (Verdict::SettledLate, false));
    assert_eq!(node.budget(1).late, 4_000);
}

#[test]
fn a_win_without_a_bill_is_kept_over_a_crash() {
    let setup = Setup::new(&line(1, "1000", ""))
        .with("ledger.billing_ms", "1000")
        .with("ledger.hold_ms", "600");
    let node = setup.start();
    let mut client = node.client();
    let (won, silent) = (client.grant(1, 5_000), client.grant(1, 7_000));
    assert_eq!(client.resolve(won, 0, Action::Confirm), (Verdict::Confirmed, false));
    node.wait_stat("the win kept, the loss free", |_| {
        expired(&node) == 5_000 && node.budget(1).unspent() == 1_000_000_000 - 5_000
    });
    let node = node.restart();
    assert_eq!(expired(&node), 5_000);
    let file = format!("id,billed,amount\n{},true,0.005\n{},true,0.001\n", text(won), text(silent));
    let (status, answer) = reconcile(&node, "", &file);
    assert_eq!(
        (status, &answer["verdicts"]),
        (200, &json!({"settled": 1, "settled_late": 1})),
        "{answer}"
    );
    assert_eq!((node.budget(1).settled, node.budget(1).late), (5_000, 1_000));
}

#[test]
fn a_bad_file_is_refused_whole_with_its_lines() {
    let node = silent("").start();
    let mut client = node.client();
    let token = client.grant(1, 5_000);
    let good = text(token);
    let file = format!("id,billed\n{good},true\nnonsense,true\n{good},perhaps\n");
    let (status, answer) = reconcile(&node, "", &file);
    let detail = answer["detail"].as_str().unwrap();
    assert_eq!(status, 400);
    assert!(
        detail.contains("line 3: id: found \"nonsense\"") && detail.contains("line 4: billed"),
        "{detail}"
    );
    assert_eq!(node.budget(1).settled, 0);
    let (status, answer) = reconcile(&node, "?until=yesterday", "");
    assert!(status == 400 && answer["detail"].as_str().unwrap().starts_with("until: "), "{answer}");
    // Genuine form, but not made here.
    let (status, answer) = reconcile(&node, "", &format!("id,billed\n{},true\n", text([7; 32])));
    assert_eq!((status, answer["refused"].as_u64()), (200, Some(1)), "{answer}");
    let (_, answer) = reconcile(&node, "", &format!("id,billed,amount\n{good},true,0.0000001\n"));
    assert_eq!(answer["refused_lines"][0]["line"], 2, "{answer}");
    assert_eq!(node.budget(1).settled, 0);
}

/// Of a flight that began years ago a new budget owes nothing, and an edited one only what it owed.
#[test]
fn a_plan_begins_where_its_budget_appears_or_is_edited() {
    let flight = r#","start":"2020-01-01T00:00:00Z","end":"2090-01-01T00:00:00Z","pacing":"schedule","plan":"linear""#;
    let node = Setup::new(&line(1, "1000", flight)).start();
    let pace = |node: &Node| node.get("/stat?budget=1").1.parse::<Value>().unwrap()["pace"].clone();
    let owed = |node: &Node| pace(node)["planned"].as_i64().unwrap();
    assert!(owed(&node) < 10_000, "{}", pace(&node));
    node.reload(&line(1, "5000", flight));
    assert!(owed(&node) < 50_000 && pace(&node)["budget"] == 5_000_000_000_i64, "{}", pace(&node));
    // It is remembered over a crash.
    wait_for("the plan on disk", || {
        std::fs::metadata(node.data().join("pacing.bin")).is_ok_and(|file| file.len() > 12)
    });
    std::thread::sleep(Duration::from_millis(500));
    let node = node.restart();
    assert!(owed(&node) < 50_000, "{}", pace(&node));
}

/// A budget in euros at an exchange in dollars: held and booked in euros, at the rate of the bid.
#[test]
fn another_currency_is_held_and_billed_at_the_rate_of_the_bid() {
    let euros = campaign(1, json!({"unit": "EUR", "bid": "2.00"}));
    let node = patient(&[euros]).with("openrtb.rates", "EUR=1.25").start();
    let mut http = Http::to(&node);
    let bid = http.bid_soon(&request("r", json!({})));
    assert_eq!(bid.price_micros, 2_500_000, "2.00 EUR are 2.50 USD");
    node.wait_budget(1, "the hold in euros", |books| books.held == 2_000);
    assert_eq!(http.bill(&bid), 204);
    let books = node.budget(1);
    assert_eq!((books.settled, books.over_settled, books.late), (2_000, 0, 0));
    // Told by file, as the notice would have been: its id is in the address of its notices.
    let next = http.bid_soon(&request("s", json!({})));
    let path = next.bill_path();
    let id = path.split('/').nth(3).unwrap();
    let (status, answer) = reconcile(&node, "", &format!("id,billed\n{id},true\n"));
    assert_eq!((status, &answer["verdicts"]), (200, &json!({"settled": 1})), "{answer}");
    assert_eq!(node.budget(1).settled, 4_000);
}

#[test]
fn a_budget_says_how_it_stands_on_its_plan() {
    let node = patient(&[campaign(1, json!({"daily": "100"}))]).start();
    let mut http = Http::to(&node);
    let stat = || node.get("/stat?budget=1").1.parse::<Value>().unwrap();
    http.bid_soon(&request("r", json!({})));
    node.wait_stat("a request counted", |_| stat()["pace"]["requests"].as_u64() > Some(0));
    let pace = stat()["pace"].clone();
    assert_eq!(
        (pace["pacing"].as_str(), pace["budget"].as_i64()),
        (Some("curve"), Some(100_000_000))
    );
    assert!(
        pace["multiplier_ppm"].as_u64().is_some_and(|ppm| ppm > 0 && ppm <= 1_000_000),
        "{pace}"
    );
    let row = node.get("/books").1.parse::<Value>().unwrap()["budgets"][0]["pace"].clone();
    assert_eq!(row["pacing"], "curve", "{row}");
    // What was learned is kept by a stop.
    let data = node.data();
    let mut node = node;
    node.interrupt();
    assert!(node.wait_end().success());
    assert!(data.join("pacing.bin").exists());
}
