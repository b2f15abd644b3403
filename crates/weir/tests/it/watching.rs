//! What people see of a running node: how budgets stand and why, rates, the proof, readiness, the history.

use serde_json::{Value, json};
use wire::Verdict;

use crate::client::{ask, fresh_id};
use crate::openrtb::{campaign, lines, patient};
use crate::support::{Node, PATIENCE, Setup, line, wait_for};

fn setup(budgets: &str) -> Setup {
    Setup::new(budgets).with("admin.tick_ms", "50")
}

fn json(node: &Node, path: &str) -> Value {
    let (status, body) = node.get(path);
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap()
}

fn budget(node: &Node, id: u64) -> Value {
    json(node, &format!("/v1/budgets/{id}"))
}

/// Waits until a budget stands so.
fn wait_standing(node: &Node, id: u64, status: &str, reason: &str) -> Value {
    let end = std::time::Instant::now() + PATIENCE;
    let reason = if reason == "none" { Value::Null } else { reason.into() };
    loop {
        let found = budget(node, id);
        if found["status"] == status && found["reason"] == reason {
            return found;
        }
        assert!(std::time::Instant::now() < end, "{id} is not {status} ({reason}): {found:#}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn every_budget_says_how_it_stands_and_why() {
    let budgets = [
        line(1, "5", ""),
        line(2, "5", r#","status":"paused""#),
        line(3, "5", r#","start":"2999-01-01T00:00:00Z""#),
        line(4, "5", r#","end":"2001-01-01T00:00:00Z""#),
        line(5, "0.00001", ""),
        line(6, "5", r#","daily":"0.00001""#),
        line(7, "5", r#","parent":2"#),
        line(8, "0", ""),
    ];
    let node = setup(&budgets.concat()).start();
    let mut client = node.client();
    for id in [5, 6] {
        let token = client.grant(id, 10);
        assert_eq!(client.settle(token, 10), (Verdict::Settled, false));
    }
    for (id, status, reason) in [
        (1, "active", "none"),
        (2, "paused", "owner"),
        (3, "waiting", "flight_ahead"),
        (4, "ended", "flight_over"),
        (5, "exhausted", "limit"),
        (6, "limited", "day_limit"),
        (7, "limited", "parent"),
        (8, "exhausted", "limit"),
    ] {
        wait_standing(&node, id, status, reason);
    }
    let since = budget(&node, 2)["since_ms"].clone();
    node.reload(&budgets.concat().replace(r#""limit":"0""#, r#""limit":"1""#));
    wait_standing(&node, 8, "active", "none");
    assert_eq!(budget(&node, 2)["since_ms"], since, "it stands as before");
    node.reload(&budgets[1..].concat());
    wait_standing(&node, 1, "ended", "removed");
}

/// An ask for more than is left is no end of the budget, nor of those above it: smaller ones pass.
#[test]
fn one_ask_for_more_than_is_left_exhausts_nobody() {
    let budgets = [
        line(1, "5", ""),
        line(2, "0.0001", r#","parent":1"#),
        line(3, "0.00001", ""),
        line(4, "5", r#","parent":3"#),
        line(5, "0.0001", r#","late_reserve_bp":1000"#),
    ];
    let node = setup(&budgets.concat()).start();
    let mut client = node.client();
    client.wait_verdict(2, 101, Verdict::Exhausted);
    client.wait_verdict(4, 11, Verdict::Exhausted);
    wait_standing(&node, 2, "limited", "limit");
    wait_standing(&node, 4, "limited", "parent");
    wait_standing(&node, 3, "limited", "limit");
    assert_eq!(budget(&node, 1)["status"], "active");
    let token = client.grant(2, 100);
    assert_eq!(client.settle(token, 100), (Verdict::Settled, false));
    wait_standing(&node, 2, "exhausted", "limit");
    assert_eq!(budget(&node, 1)["status"], "active");
    let token = client.grant(5, 90);
    assert_eq!(client.settle(token, 90), (Verdict::Settled, false));
    let found = wait_standing(&node, 5, "exhausted", "limit");
    assert_eq!(found["available"], "0.00001", "the late reserve: {found}");
}

/// The dashboard's red bar, and the status behind it: while the file is refused, and while nothing is in force.
#[test]
fn a_refused_file_is_told_to_all_pages_and_budgets_without_a_set_in_force_say_so() {
    let budgets =
        line(1, "5", r#","name":"shoes""#) + &line(2, "5", r#","status":"paused","name":"books""#);
    let node = setup(&budgets).start();
    let file = |node: &Node| json(node, "/v1/node")["budgets_file"].clone();
    let well = json!({ "in_force": true, "refused_ms": null, "errors": [], "more_errors": 0 });
    let amounts = |file: &Value| {
        (file["errors"].as_array().unwrap().len(), file["more_errors"].as_u64().unwrap())
    };
    let is_like_well = |file: &Value| {
        ["in_force", "refused_ms", "errors", "more_errors"]
            .iter()
            .all(|key| file[*key] == well[*key])
    };
    assert!(is_like_well(&file(&node)), "{}", file(&node));

    node.replace_budgets(&"nonsense\n".repeat(23));
    wait_for("the refusal", || !is_like_well(&file(&node)));
    let refused = file(&node);
    let now_ms = json(&node, "/v1/node")["as_of_ms"].as_u64().unwrap();
    assert!(refused["refused_ms"].as_u64().unwrap().abs_diff(now_ms) < 60_000, "{refused}");
    assert!(refused["errors"][0].as_str().unwrap().contains(":1: not JSON"), "{refused}");
    assert_eq!((amounts(&refused), &refused["in_force"]), ((20, 3), &true.into()));
    assert_eq!(budget(&node, 1)["status"], "active", "the running ones stay");

    // Refused at the start as a whole, because it ends too much: nothing is in force.
    node.reload(&(budgets.clone() + &line(3, "5", "") + &line(4, "5", "") + &line(5, "5", "")));
    node.replace_budgets(&budgets);
    wait_for("the refusal", || !is_like_well(&file(&node)));
    let node = node.restart();
    for id in [1, 2, 5] {
        wait_standing(&node, id, "error", "not_in_force");
    }
    let refused = file(&node);
    assert!(refused["errors"][0].as_str().unwrap().contains("--data"), "{refused}");
    assert_eq!(refused["in_force"], false);
    // They have the names of the last good set.
    let names = [1, 2, 5].map(|id| budget(&node, id)["name"].clone());
    assert_eq!(names, ["shoes", "books", "budget 5"]);
    assert_eq!(json(&node, "/stat?budget=2")["name"], "books");
    node.reload(&(budgets + &line(3, "5", "") + &line(4, "5", "") + &line(5, "5", "")));
    wait_standing(&node, 1, "active", "none");
    wait_standing(&node, 2, "paused", "owner");
    assert!(is_like_well(&file(&node)), "{}", file(&node));
}

/// The file's changes stand in the audit log beside those of people, those of a stop too; a file that says the same leaves no row.
#[test]
fn what_the_budgets_file_changes_is_in_the_audit_log() {
    let before = line(1, "5", r#","name":"shoes""#) + &line(2, "5", "") + &line(3, "5", "");
    let after = line(1, "777.00", r#","name":"shoes","daily":"9""#) + &line(2, "5", "");
    let node = setup(&before).start();
    let records = |node: &Node| json(node, "/v1/audit")["records"].as_array().unwrap().clone();
    assert_eq!(records(&node), Vec::<Value>::new());
    node.reload(&(after.clone() + &line(4, "1", "")));
    let told = records(&node);
    let [record] = &told[..] else { panic!("{told:#?}") };
    assert_eq!((&record["action"], &record["who"]), (&"file".into(), &"budgets file".into()));
    assert_eq!(record["file"], json!({ "added": 1, "changed": 1, "ended": 1 }));
    let change = json!({ "id": "1", "name": "shoes", "unit": "USD", "large": true, "before": { "limit": "5", "daily": null },
        "after": { "limit": "777.00", "daily": "9" } });
    assert_eq!((&record["rows"], &record["changes"][0]), (&3.into(), &change));
    assert_eq!(record["changes"][2]["large"], false);
    wait_for("the warning", || node.log().contains("makes a limit more than 100 times as large"));
    assert!(record["why"].as_str().unwrap().ends_with("budgets.jsonl has 3 budgets"), "{record}");
    // Another order of the lines.
    node.reload(&(line(4, "1", "") + &after));
    let node = node.restart();
    assert_eq!(records(&node), told);
    assert_eq!(json(&node, "/v1/audit?budget=3")["records"].as_array().unwrap().len(), 1);
    node.replace_budgets(&before);
    wait_for("the record of the file", || records(&node).len() == 2);
    assert_eq!(records(&node)[0]["changes"][0]["after"]["limit"], "5");
}

#[test]
fn what_was_asked_is_what_is_counted() {
    let node = setup(&(line(1, "1", "") + &line(2, "1", r#","unit":"EUR""#))).start();
    let mut client = node.client();
    let token = client.grant(1, 100);
    let granted = |client: &mut crate::support::Client, id, amount| -> usize {
        let asks: Vec<_> = (0..100).map(|_| ask(fresh_id(), id, amount)).collect();
        let answers = client.decide(&asks).into_iter();
        answers.filter(|(verdict, _)| *verdict == Verdict::Granted).count()
    };
    let mut made = 1;
    wait_for("a hundred grants", || {
        made += granted(&mut client, 1, 10);
        made > 100
    });
    assert_eq!(granted(&mut client, 1, 0), 0);
    assert_eq!(granted(&mut client, 2, -1), 0);
    assert_eq!(client.settle(token, 90), (Verdict::Settled, false));

    let count = |of: &Value, verdict: &str| {
        let all = of["verdicts"].as_array().unwrap().iter();
        all.filter(|row| row["verdict"] == verdict).map(|row| row["count"].as_u64().unwrap()).sum()
    };
    wait_for("all of them", || {
        let [one, two] = [1, 2].map(|id| json(&node, &format!("/v1/budgets/{id}/refusals")));
        let counts: [u64; 2] = [count(&one, "bad_amount"), count(&two, "bad_amount")];
        assert!(counts[0] <= 100 && counts[1] <= 100, "{counts:?}");
        counts == [100, 100]
    });
    wait_for("the holds", || {
        let holds = budget(&node, 1)["holds"].clone();
        let found = holds["made"].as_u64().unwrap();
        assert!(found <= made as u64, "{holds}");
        found == made as u64 && holds["settled"] == 1
    });
    // Rates are those of the last seconds, which on a busy machine may be over when they are asked for.
    wait_for("rates", || {
        granted(&mut client, 1, 10);
        granted(&mut client, 2, -1);
        let [one, two] = [1, 2].map(|id| budget(&node, id));
        assert_eq!(
            (&two["top_refusal"], &two["grants_per_s"]),
            (&"bad_amount".into(), &0.0.into())
        );
        one["grants_per_s"].as_f64() > Some(0.0) && two["refusals_per_s"].as_f64() > Some(0.0)
    });
    let one = budget(&node, 1);
    assert_eq!((&one["spent"], &one["spend_minute"]), (&"0.00009".into(), &"0.00009".into()));
}

#[test]
fn the_last_refused_asks_are_listed_newest_first() {
    let budgets = [line(1, "1", ""), line(2, "1", r#","parent":1"#), line(3, "1", "")];
    let node = setup(&budgets.concat()).start();
    let mut client = node.client();
    let mut refuse = |id, times: usize| {
        let asks: Vec<_> = (0..times).map(|_| ask(fresh_id(), id, 0)).collect();
        let answers = client.decide(&asks);
        assert!(answers.iter().all(|(verdict, _)| *verdict == Verdict::BadAmount));
    };
    refuse(1, 150);
    // So that it has a later time.
    std::thread::sleep(std::time::Duration::from_millis(5));
    refuse(2, 1);
    let refusals = |id| json(&node, &format!("/v1/budgets/{id}/refusals"));
    // Which budget is under which, a survey finds out.
    wait_for("the survey", || refusals(1)["recent"][0]["budget"] == "2");
    let [one, two, three] = [1, 2, 3].map(refusals);
    let recent = one["recent"].as_array().unwrap();
    assert_eq!(recent.len(), 100, "the last hundred, those of budgets under it too");
    assert!(recent[1..].iter().all(|row| row["budget"] == "1" && row["verdict"] == "bad_amount"));
    let times: Vec<u64> = recent.iter().map(|row| row["at_ms"].as_u64().unwrap()).collect();
    assert!(times.is_sorted_by(|newer, older| newer >= older), "{times:?}");
    let now_ms = json(&node, "/v1/node")["as_of_ms"].as_u64().unwrap();
    assert!(times[0].abs_diff(now_ms) < 120_000, "{} at {now_ms}", times[0]);
    assert_eq!(two["recent"].as_array().unwrap().len(), 1);
    assert_eq!(three["recent"].as_array().unwrap().len(), 0);
    for found in [one, two, three] {
        assert_eq!(found["recent_of"], 151, "all that the node refused");
    }
}

#[test]
fn every_hold_is_open_settled_released_or_expired() {
    let node = setup(&line(1, "1", "")).with("ledger.hold_ms", "80").start();
    let mut client = node.client();
    let [paid, back, won, _, late] = [0; 5].map(|_| client.grant(1, 10));
    let _ = (client.settle(paid, 10), client.resolve(back, 0, wire::Action::Release));
    let confirmed = client.resolve(won, 0, wire::Action::Confirm).0 == Verdict::Confirmed;
    let holds = || budget(&node, 1)["holds"].clone();
    let count = |holds: &Value, kind: &str| holds[kind].as_u64().unwrap();
    wait_for("the deadlines", || {
        let holds = holds();
        let kinds = ["open", "settled", "released", "expired"].map(|kind| count(&holds, kind));
        // On a slow machine some are over before somebody speaks of them: they expire, too.
        let of_all = kinds.iter().sum::<u64>() == 5 && count(&holds, "made") == 5;
        of_all && count(&holds, "open") == u64::from(confirmed)
    });
    let expired = count(&holds(), "expired");
    assert!(expired >= 2, "nobody spoke of two: {expired}");
    assert_eq!(client.settle(late, 10), (Verdict::SettledLate, false));
    wait_for("the late one", || count(&holds(), "late") >= 1);
    assert_eq!(count(&holds(), "expired"), expired, "it stays among them");
}

#[test]
fn the_proof_looks_at_every_budget_at_every_survey() {
    let node = setup(&(1..=700).map(|id| line(id, "5", "")).collect::<String>()).start();
    let mut client = node.client();
    for id in [1, 300, 700] {
        let token = client.grant(id, 100);
        // Above its hold: a debt that is allowed, and told.
        assert_eq!(client.settle(token, 150).0, Verdict::SettledOver);
    }
    wait_for("the debts in the proof", || {
        let proof = json(&node, "/v1/node")["proof"].clone();
        assert_eq!((&proof["budgets"], &proof["violations"]), (&700.into(), &0.into()), "{proof}");
        assert_eq!((&proof["sums_ok"], &proof["held_and_spent_ok"]), (&true.into(), &true.into()));
        proof["debts"] == 3
    });
    let checks = || json(&node, "/v1/node")["proof"]["checks"].as_u64().unwrap();
    let before = checks();
    wait_for("the next check", || checks() > before);
    let list = json(&node, "/v1/budgets?max=1000");
    assert_eq!(list["budgets"].as_array().unwrap().len(), 700);
}

#[test]
fn the_node_says_how_it_stands() {
    let node = setup(&line(1, "5", "")).with("probes.every", "1").start();
    let mut client = node.client();
    client.grant(1, 1);
    wait_for("the traffic", || {
        let found = json(&node, "/v1/node");
        let batch = &found["doors"][0];
        let granted = batch["verdicts"].as_array().unwrap().iter();
        granted.clone().any(|row| row["verdict"] == "granted" && row["total"].as_u64() > Some(0))
            && batch["latency"]["max_us"].as_u64() > Some(0)
    });
    let found = json(&node, "/v1/node");
    assert_eq!(found["workers"].as_array().unwrap().len(), 1);
    assert_eq!(found["workers"][0]["core"], Value::Null, "it is not pinned");
    for part in ["busy_ppm", "idle_ppm", "wait_ppm"] {
        assert!(found["workers"][0][part].as_u64() <= Some(1_000_000), "{found:#}");
    }
    assert_eq!(
        (&found["journal"]["state"], &found["connections"]["open"]),
        (&"sealing".into(), &1.into())
    );
    let queues = found["queues"].as_array().unwrap();
    assert!(
        queues.iter().all(|queue| queue["depth"].as_u64() < queue["max"].as_u64()),
        "{found:#}"
    );
    let errors = found["errors"].as_array().unwrap();
    assert!(errors.iter().all(|error| error["doc"].as_str().unwrap().starts_with("/docs/")));
    let config = json(&node, "/v1/config");
    assert_eq!(
        (&config["admin"]["tick_ms"], &config["batch"]["auth_token"]),
        (&50.into(), &"not set".into())
    );
    let costs = json(&node, "/v1/costs");
    let rows = |group: &Value| group["rows"].as_array().unwrap().len();
    let groups = costs["groups"].as_array().unwrap();
    assert!(groups.iter().map(rows).sum::<usize>() > 0, "{costs:#}");
    let accepted = json(&node, "/v1/costs/history");
    assert!(accepted["workloads"].as_array().unwrap().len() >= 5, "{accepted:#}");
    assert_eq!(node.get("/readyz").0, 200);
}

#[test]
fn a_minute_goes_into_the_history() {
    let node = setup(&line(1, "5", "")).start();
    let mut client = node.client();
    let token = client.grant(1, 100);
    assert_eq!(client.settle(token, 70), (Verdict::Settled, false));
    // At most a minute until it is over, and what a busy machine takes.
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60) + PATIENCE;
    loop {
        let found = json(&node, "/v1/budgets/1/history?step_ms=60000");
        let spent = found["spent"].as_array().unwrap();
        if spent.iter().any(|spent| spent == "0.00007") {
            let sum = |column: &str| -> u64 {
                found[column].as_array().unwrap().iter().filter_map(Value::as_u64).sum()
            };
            assert_eq!([sum("grants"), sum("wins")], [1, 1], "{found:#}");
            return;
        }
        assert!(std::time::Instant::now() < end, "no minute with it: {found:#}");
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
}

/// A campaign's bid, targeting and creatives are on its page as they are in the file; markup is text like any other.
#[test]
fn a_campaign_is_shown_as_it_stands_in_the_file() {
    let hostile = "<script>alert(1)</script>\u{202e}\u{1}";
    let one = campaign(1, json!({"targeting": {"geo": {"any": ["DEU"]}}, "seat": "s1"}));
    let two = campaign(
        2,
        json!({"name": "\u{202e}<b>x</b>", "creatives": [{
            "id": "cr", "format": "banner", "sizes": ["300x250"], "adomain": ["brand.example"], "markup": hostile,
        }]}),
    );
    let text = lines(&[one.clone(), two.clone()]);
    let node = patient(&[one.clone(), two.clone()]).with("admin.tick_ms", "50").start();
    let file = |id: u64| budget(&node, id)["file"].clone();
    for (id, said) in [(1, &one), (2, &two)] {
        let found = file(id);
        assert_eq!(found["line"], id);
        let text: Value = serde_json::from_str(found["text"].as_str().unwrap()).unwrap();
        assert_eq!((&text, &found["problem"]), (said, &Value::Null));
        assert_eq!(found["changed"], json!([]));
    }
    // A file that is being saved, and is no good yet: the node goes on with what it has, and says so.
    node.replace_budgets(&text.replace("2.00", "free"));
    wait_for("a line that is another", || file(1)["text"].is_null());
    let told = file(1)["problem"].as_str().unwrap().to_string();
    assert!(told.contains("has changed since line 1 was read"), "{told}");
    node.reload(&lines(&[two, one]));
    wait_for("the line where it is now", || file(1)["line"] == 2 && file(1)["problem"].is_null());
}

/// `asap` follows no plan, so nothing is ahead of it or behind.
#[test]
fn what_follows_no_plan_has_no_pace() {
    let daily = r#","daily":"2""#;
    let budgets = [line(1, "5", daily), line(2, "5", &format!(r#"{daily},"pacing":"schedule""#))];
    let node = setup(&budgets.concat()).start();
    let mut client = node.client();
    let token = client.grant(1, 1_000_000);
    assert_eq!(client.settle(token, 1_000_000), (Verdict::Settled, false));
    wait_for("the survey", || budget(&node, 1)["spent"] == "1.00");
    let (asap, schedule) = (budget(&node, 1), budget(&node, 2));
    for field in ["index_ppm", "window_planned", "window_budget"] {
        assert_eq!(asap[field], Value::Null, "{field}: {asap:#}");
    }
    assert_eq!(asap["window_spent"], "1.00");
    assert_ne!(schedule["window_planned"], Value::Null, "{schedule:#}");
    let ahead = json(&node, "/v1/budgets?filter=pace:..9000");
    assert!(ahead["budgets"].as_array().unwrap().iter().all(|row| row["id"] != "1"), "{ahead:#}");
}

#[test]
fn the_pages_that_errors_lead_to_are_served() {
    let node = Setup::new(&line(1, "10", "")).start();
    let page = include_str!("../../../../docs/operations.md");
    assert_eq!(node.get("/docs/operations.md"), (200, page.to_string()));
    assert_eq!(node.get("/docs/attacks/batch.md").0, 200);
    assert_eq!(node.get("/docs/no-such-page.md").0, 404);
}
