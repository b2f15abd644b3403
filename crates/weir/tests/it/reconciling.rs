//! What becomes of money that no notice speaks of: kept, reconciled by file, freed by a complete one; and how budgets
//! stand on their plans.

use std::process::Command;
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

pub(crate) fn reconcile(node: &Node, query: &str, body: &str) -> (u16, Value) {
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
    assert_eq!(node.budget(1).settled, 0);
}

/// What an answer tells of its lines: number, field, what was found.
fn told(answer: &Value) -> Vec<(u64, &str, &str)> {
    let lines = answer["lines"].as_array().unwrap_or_else(|| panic!("no lines: {answer}")).iter();
    let line = |line: &'_ Value| {
        assert!(!line["expected"].as_str().unwrap().is_empty(), "{line}");
        line["line"].as_u64().unwrap()
    };
    lines
        .map(|told| (line(told), told["field"].as_str().unwrap(), told["found"].as_str().unwrap()))
        .collect()
}

/// A line that is refused was perhaps billed: its money must not be free because of what the file says of others.
#[test]
fn a_file_with_a_refused_line_books_nothing_and_frees_nothing() {
    let node = silent("").start();
    let mut client = node.client();
    let holds: Vec<String> = (0..3).map(|_| text(client.grant(1, 100_000_000))).collect();
    node.wait_stat("all holds kept", |_| expired(&node) == 300_000_000);
    // Sums are kept in steps of ten seconds: now all of it could be freed.
    std::thread::sleep(Duration::from_secs(11));
    let file = |second: &str| {
        let [a, b, c] = &holds[..] else { unreachable!() };
        format!("id,billed,amount\n{a},true,99.1234567\n{b},true,{second}\n{c},true,99.5\n")
    };
    let until = "?until=2099-01-01T00:00:00Z";
    for amount in ["-5", "-0", "1e2", "1000000000.000001", "99999999999999999999", "1.5.5", "."] {
        for query in [until, ""] {
            let (status, answer) = reconcile(&node, query, &file(amount));
            assert_eq!(status, 422, "{amount}: {answer}");
            assert_eq!(told(&answer), [(3, "amount", amount)], "{answer}");
            assert_eq!(answer["type"], "/docs/api#refused_lines", "{answer}");
            assert!(answer["detail"].as_str().unwrap().contains("nothing was booked"), "{answer}");
        }
    }
    // In the form of an id, but not one of this node.
    let strange = file("1").replace(&holds[1], &text([7; 32]));
    let (status, answer) = reconcile(&node, until, &strange);
    assert_eq!((status, told(&answer)[0].0, told(&answer)[0].1), (422, 3, "id"), "{answer}");
    let mut forged = URL_SAFE_NO_PAD.decode(&holds[1]).unwrap();
    forged[20] ^= 1;
    let (status, answer) =
        reconcile(&node, until, &file("1").replace(&holds[1], &URL_SAFE_NO_PAD.encode(forged)));
    assert_eq!((status, told(&answer)[0].0), (422, 3), "{answer}");
    let books = node.budget(1);
    assert_eq!((books.settled, expired(&node)), (0, 300_000_000), "{books:?}");
    // Mended, all of it is booked; a part of a micro is a whole one.
    let (status, answer) = reconcile(&node, until, &file("5"));
    assert_eq!((status, answer["verdicts"]["settled"].as_u64()), (200, Some(3)), "{answer}");
    assert_eq!(answer["rounded"], 1, "{answer}");
    let books = node.wait_budget(1, "nothing kept", |books| books.held == 0);
    assert_eq!((books.settled, books.late), (99_123_457 + 5_000_000 + 99_500_000, 0));
}

#[test]
fn a_bid_that_a_file_names_twice_is_booked_once_or_the_file_is_refused() {
    let node = silent("").start();
    let mut client = node.client();
    let (one, two) = (text(client.grant(1, 5_000)), text(client.grant(1, 5_000)));
    node.wait_stat("both holds kept", |_| expired(&node) == 10_000);
    for second in ["true,0.003", "false,", "true,"] {
        let file = format!("id,billed,amount\n{one},true,0.002\n{two},true,\n{one},{second}\n");
        let (status, answer) = reconcile(&node, "?until=2099-01-01T00:00:00Z", &file);
        assert_eq!(status, 422, "{second}: {answer}");
        let (line, field, found) = told(&answer)[0];
        assert_eq!((line, field), (4, "id"), "{answer}");
        assert!(found.contains("line 2"), "{answer}");
        assert_eq!(node.budget(1).settled, 0);
    }
    let file = format!("id,billed,amount\n{one},true,0.002\n{one},true,0.0020\n{two},false,\n");
    let (status, answer) = reconcile(&node, "", &file);
    assert_eq!((status, answer["repeats"].as_u64()), (200, Some(1)), "{answer}");
    assert_eq!(node.budget(1).settled, 2_000);
}

/// `0.0021` cut to `0.00` is an amount, too: without the end of its line nobody can tell.
#[test]
fn a_file_that_ends_within_a_line_is_refused_whole() {
    let node = silent("").start();
    let mut client = node.client();
    let (one, two) = (text(client.grant(1, 5_000)), text(client.grant(1, 5_000)));
    node.wait_stat("both holds kept", |_| expired(&node) == 10_000);
    let csv = format!("id,billed,amount\n{one},true,0.0021\n{two},true,0.0021\n");
    let json = format!("{{\"id\":\"{one}\",\"billed\":true,\"amount\":\"0.0021\"}}\n");
    for file in [&csv, &json] {
        // All but the last line, and at each place within it.
        let last = file.trim_end().rfind('\n').map_or(0, |at| at + 1);
        for cut in last + 1..file.trim_end().len() {
            let (status, answer) = reconcile(&node, "?until=2099-01-01T00:00:00Z", &file[..cut]);
            assert_eq!(status, 400, "{:?}: {answer}", &file[last..cut]);
        }
    }
    let (status, answer) = reconcile(&node, "", csv.trim_end());
    assert_eq!(status, 400, "{answer}");
    assert!(answer["detail"].as_str().unwrap().starts_with("line 3: "), "{answer}");
    assert_eq!((node.budget(1).settled, expired(&node)), (0, 10_000));
    // A whole object is one without the end of its line.
    let (status, _) = reconcile(&node, "", json.trim_end());
    assert_eq!((status, node.budget(1).settled), (200, 2_100));
}

/// What is not known to be sealed is said, nothing is completed, and sending the file again books the rest, once.
#[test]
fn a_journal_that_fails_meanwhile_is_told_and_the_file_can_be_sent_again() {
    let limit_files = |node: &Node, bytes: &str| {
        let (pid, limit) = (node.child.id().to_string(), format!("--fsize={bytes}:"));
        assert!(Command::new("prlimit").args(["--pid", &pid, &limit]).status().unwrap().success());
    };
    let node = silent("").start();
    let mut client = node.client();
    let (billed, lost) = (client.grant(1, 5_000), client.grant(1, 7_000));
    node.wait_stat("both holds kept", |_| expired(&node) == 12_000);
    let file = format!("id,billed,amount\n{},true,0.003\n{},true,\n", text(billed), text(lost));
    let until = "?until=2099-01-01T00:00:00Z";
    limit_files(&node, "4096");
    for _ in 0..2 {
        // Under way when it fails, then with a journal that is known to fail.
        let (status, answer) = reconcile(&node, until, &file);
        assert_eq!((status, &answer["type"]), (503, &json!("/docs/api#unfinished")), "{answer}");
        let detail = answer["detail"].as_str().unwrap();
        assert!(detail.contains("0 of 2 lines") && detail.contains("send it again"), "{answer}");
        node.wait_stat("a failing journal", |stat| stat["journal"]["state"] == "failing");
    }
    limit_files(&node, "unlimited");
    node.wait_stat("a journal that seals", |stat| stat["journal"]["state"] == "sealing");
    let settled = |node: &Node| (node.budget(1).settled, node.budget(1).late);
    let (status, answer) = reconcile(&node, "", &file);
    assert_eq!((status, settled(&node)), (200, (10_000, 0)), "{answer}");
    let node = node.restart();
    let (status, answer) = reconcile(&node, until, &file);
    assert_eq!((status, answer["repeats"].as_u64()), (200, Some(2)), "{answer}");
    assert_eq!(settled(&node), (10_000, 0));
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
        (Some("auto"), Some(100_000_000))
    );
    assert!(
        pace["multiplier_ppm"].as_u64().is_some_and(|ppm| ppm > 0 && ppm <= 1_000_000),
        "{pace}"
    );
    let row = node.get("/books").1.parse::<Value>().unwrap()["budgets"][0]["pace"].clone();
    assert_eq!(row["pacing"], "auto", "{row}");
    // What was learned is kept by a stop.
    let data = node.data();
    let mut node = node;
    node.interrupt();
    assert!(node.wait_end().success());
    assert!(data.join("pacing.bin").exists());
}
