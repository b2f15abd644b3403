//! What people see of a running node: how budgets stand and why, rates, the proof, readiness, the history.

use serde_json::Value;
use wire::Verdict;

use crate::client::{ask, fresh_id};
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
    let two = budget(&node, 2);
    assert_eq!(two["top_refusal"], "bad_amount", "{two:#}");
    assert_eq!(two["grants_per_s"], 0.0);
    assert!(two["refusals_per_s"].as_f64().unwrap() > 0.0);
    let one = budget(&node, 1);
    assert!(one["grants_per_s"].as_f64().unwrap() > 0.0, "{one:#}");
    assert_eq!((&one["spent"], &one["spend_minute"]), (&"90".into(), &"90".into()));
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
    let node =
        setup(&line(1, "5", "")).with("probes.every", "1").with("workers.cores", "0").start();
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
    assert_eq!(node.get("/readyz").0, 200);
}

#[test]
fn a_minute_goes_into_the_history() {
    let node = setup(&line(1, "5", "")).start();
    let mut client = node.client();
    let token = client.grant(1, 100);
    assert_eq!(client.settle(token, 70), (Verdict::Settled, false));
    // At most a minute until it is over.
    let end = std::time::Instant::now() + std::time::Duration::from_secs(75);
    loop {
        let found = json(&node, "/v1/budgets/1/history?step_ms=60000");
        let spent = found["spent"].as_array().unwrap();
        if spent.iter().any(|spent| spent == "70") {
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
