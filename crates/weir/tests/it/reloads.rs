//! Budgets that change while the node runs.

use std::time::Instant;

use serde_json::json;
use wire::Verdict;

use crate::spend::Caller;
use crate::support::{Setup, line, output, over_transports, stderr, wait_for};

#[test]
fn changes_take_effect_without_a_restart() {
    let setup = || {
        let budgets = line(1, "0.0001", "") + &line(2, "1", "") + &line(3, "1", "");
        Setup::new(&budgets).with("ledger.hold_ms", "600000")
    };
    over_transports(setup, |node| {
        let mut client = node.client();
        client.grant(1, 100);
        client.wait_verdict(1, 100, Verdict::Exhausted);
        client.grant(2, 100);
        let removed = client.grant(3, 100);
        assert_eq!(client.verdict(4, 1), Verdict::UnknownBudget);

        // Raised, paused, removed, new.
        let changed = line(1, "0.0003", "") + &line(2, "1", r#","status":"paused""#);
        node.reload(&(changed + &line(4, "1", "")));
        client.wait_verdict(1, 200, Verdict::Granted);
        client.wait_verdict(1, 1, Verdict::Exhausted);
        client.wait_verdict(2, 1, Verdict::Paused);
        client.wait_verdict(3, 1, Verdict::Ended);
        client.grant(4, 1);
        let books = node.budget(1);
        assert_eq!((books.limit, books.held + books.unspent()), (300, 300));
        assert_eq!(client.settle(removed, 100), (Verdict::Settled, false), "promised is promised");
        assert_eq!(node.budget(3).settled, 100);

        let told = "1 added, 2 changed, 1 left out: budget 1: limit 0.0001 -> 0.0003; budget 2: status active -> paused; budget 3: left out";
        wait_for("the log", || node.log().contains(told));

        // Resumed, lowered below what is out, back again.
        let changed = line(1, "0.0001", "") + &line(2, "1", "") + &line(3, "1", "");
        node.reload(&(changed + &line(4, "1", "")));
        client.wait_verdict(2, 100, Verdict::Granted);
        client.wait_verdict(3, 100, Verdict::Granted);
        client.wait_verdict(1, 1, Verdict::Exhausted);
        let books = node.budget(1);
        assert_eq!((books.limit, books.free), (100, -200), "it says by how much");
        assert_eq!(books.held + books.purses, 300, "promised is promised");
        node.wait_stat("the snapshot", |stat| stat["bank"]["snapshot"] == 3);
    });
}

#[test]
fn a_bad_file_changes_nothing_and_is_told() {
    let setup = || Setup::new(&(line(1, "1", "") + &line(2, "1", "")));
    over_transports(setup, |node| {
        let mut client = node.client();
        client.grant(1, 1);
        let bad = line(1, "5", "") + "{\"id\":2,\"limit\":\"much\"}\n" + &line(1, "1", "") + "x\n";
        node.replace_budgets(&bad);
        let stat = node.wait_stat("the refusal", |stat| stat["budgets_file"]["refused"] == 1);
        let errors: Vec<&str> = stat["budgets_file"]["errors"]
            .as_array()
            .unwrap()
            .iter()
            .map(|e| e.as_str().unwrap())
            .collect();
        let file = node.budgets_file().display().to_string();
        for (number, expected) in
            [(2, "limit: found \"much\""), (1, "id is used twice"), (4, "not JSON")]
        {
            let place = format!("{file}:{number}: ");
            let told = errors.iter().any(|e| e.starts_with(&place) && e.contains(expected));
            assert!(told, "{place}{expected} not in {errors:#?}");
        }
        assert_eq!(node.budget(1).limit, 1_000_000, "refused whole");
        client.grant(2, 1);
        wait_for("the log", || node.log().contains("budgets refused whole"));

        // What a known budget is made of cannot change.
        node.replace_budgets(&(line(1, "1", r#","unit":"EUR""#) + &line(2, "1", "")));
        let stat = node.wait_stat("the refusal", |stat| stat["budgets_file"]["refused"] == 2);
        assert!(stat["budgets_file"]["errors"][0].as_str().unwrap().contains("unit"), "{stat:#}");
        client.grant(1, 1);

        node.reload(&line(1, "7", ""));
        let stat = node.stat();
        assert_eq!(stat["budgets_file"]["errors"].as_array().unwrap().len(), 0, "{stat:#}");
        assert_eq!(node.budget(1).limit, 7_000_000);
        client.wait_verdict(2, 1, Verdict::Ended);
    });
}

#[test]
fn a_file_that_is_gone_ends_nothing_and_is_told_once() {
    let node = Setup::new(&(line(1, "1", "") + &line(2, "1", ""))).start();
    let file = node.budgets_file();
    for round in 1..=2 {
        std::fs::remove_file(&file).unwrap();
        let told = format!("{} is gone; the 2 budgets in force stay", file.display());
        wait_for("the word of it", || node.log().matches(&told).count() == round);
        // Some looks later it is still the same file that is gone.
        std::thread::sleep(std::time::Duration::from_millis(100));
        assert_eq!(node.log().matches(&told).count(), round, "{}", node.log());
        node.client().grant(1, 1);
        node.reload(&(line(1, "2", "") + &line(2, "2", "")));
        assert_eq!(node.budget(1).limit, 2_000_000);
    }
}

#[test]
fn budgets_that_a_file_leaves_out_are_told_when_they_end() {
    let lines = |ids: std::ops::RangeInclusive<u64>| -> String {
        ids.map(|id| line(id, "1", "")).collect()
    };
    let node = Setup::new(&lines(1..=40)).start();
    assert!(!node.log().contains("leaves out"), "{}", node.log());
    node.reload(&lines(2..=40));
    let file = node.budgets_file().display().to_string();
    let one =
        format!("{file} has 39 budgets and leaves out 1 that was live, which has ended: id 1");
    wait_for("the word of one", || node.log().contains(&one));
    node.reload(&lines(9..=40));
    let more = format!(
        "{file} has 32 budgets and leaves out 7 that were live, which have ended: ids 2, 3, 4, 5, 6, ..."
    );
    wait_for("the word of seven", || node.log().contains(&more));
    // A file that ends nobody says nothing.
    node.reload(&lines(9..=41));
    assert_eq!(node.log().matches("leaves out").count(), 2, "{}", node.log());
}

/// Refused at the start, no budget runs: the log and `/readyz` say that, until a file is right.
#[test]
fn a_file_that_is_refused_at_the_start_leaves_no_budget_in_force_and_says_so() {
    let five: Vec<String> = (1..=5).map(|id| line(id, "10", "")).collect();
    let node = Setup::new(&five.concat()).start();
    node.replace_budgets(&five[..2].concat());
    node.wait_stat("the refusal", |stat| stat["budgets_file"]["refused"] == 1);
    wait_for("the log", || node.log().contains("budgets refused whole; the running ones stay"));
    assert_eq!(node.get("/readyz").0, 200, "the running ones stay");

    let node = node.restart();
    let sentence = format!(
        "{} was refused at this start, so no budget is in force: every ask is answered with busy until the file is right",
        node.budgets_file().display()
    );
    wait_for("the log", || node.log().contains(&sentence));
    let is_told = || {
        let (status, why) = node.get("/readyz");
        assert!(status == 503 && why.contains(&sentence), "{status} {why}");
        assert_eq!(node.client().verdict(1, 1), Verdict::Busy);
        let mut caller = Caller::to(&node);
        assert_eq!(caller.get("/healthz").status, 503, "also for balancers");
        assert_eq!(caller.get("/v1/budgets/1").status, 503);
        let (status, answer) = caller.call("spend", &json!({"budget": 1, "amount": "1"}));
        assert_eq!((status, &answer["verdict"]), (503, &json!("busy")), "{answer}");
    };
    is_told();
    // Another bad one changes nothing about it; nor does one that is gone.
    node.replace_budgets("nonsense\n");
    node.wait_stat("the refusal", |stat| stat["budgets_file"]["refused"] == 2);
    is_told();
    std::fs::remove_file(node.budgets_file()).unwrap();
    wait_for("the log", || node.log().contains("is gone; no budget is in force"));
    is_told();
    node.reload(&five.concat());
    assert_eq!(node.get("/readyz").0, 200);
    node.client().grant(1, 1);
    assert!(!node.log().contains("the running ones stay"), "{}", node.log());
}

#[test]
fn a_bad_file_at_the_start_is_told_line_by_line() {
    let setup = Setup::new("{\"id\":1,\"limit\":\"1\"}\n{\"id\":2}\nnot a line\n");
    let output = output(&mut setup.command());
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty(), "nothing accepts: {}", crate::support::stdout(&output));
    let file = setup.budgets_file().display().to_string();
    for expected in [":2: limit: missing", ":3: not JSON"] {
        let expected = format!("{file}{expected}");
        assert!(stderr(&output).contains(&expected), "{expected} not in {}", stderr(&output));
    }
}

#[test]
fn fifty_thousand_budgets_are_loaded_and_changed() {
    let lines = |limit: &str| -> String {
        (1..=50_000)
            .map(|id| {
                line(id, limit, r#","daily":"10.00","pacing":"schedule","tz":"Europe/Paris""#)
            })
            .collect()
    };
    let start = Instant::now();
    let node = Setup::new(&lines("1000.00")).start();
    println!("ready with 50,000 budgets after {} ms", start.elapsed().as_millis());
    assert_eq!(node.stat()["bank"]["budgets"], 50_000);
    println!("memory: {} MiB", node.resident_bytes() >> 20);
    let mut client = node.client();
    assert_ne!(client.verdict(50_000, 1), Verdict::UnknownBudget, "ready means ready");
    let start = Instant::now();
    node.reload(&lines("2000.00"));
    println!("50,000 budgets changed after {} ms", start.elapsed().as_millis());
    assert_eq!(node.budget(50_000).limit, 2_000_000_000);
    println!("memory: {} MiB", node.resident_bytes() >> 20);
}

#[test]
fn budgets_are_in_force_when_the_node_says_ready() {
    for _ in 0..10 {
        let node = Setup::new(&line(1, "1000", "")).start();
        assert_eq!(node.client().verdict(1, 1), Verdict::Granted);
    }
}

/// It has no plan in that run, and "the plan says not now" would make clients ask for ever.
#[test]
fn a_budget_that_left_the_file_is_ended_in_the_next_run_too() {
    let three = [1, 2, 3].map(|id| line(id, "10", "")).concat();
    let setup = Setup::new(&three);
    let node = setup.clone().start();
    node.reload(&[1, 3].map(|id| line(id, "10", "")).concat());
    node.client().wait_verdict(2, 1, Verdict::Ended);
    drop(node);
    let node = setup.start();
    node.client().wait_verdict(1, 1, Verdict::Granted);
    node.client().wait_verdict(2, 1, Verdict::Ended);
}
