//! Budgets that are made on their first ask, through a node.

use std::time::Duration;

use wire::{Action, DecideFlags, Verdict, resolve};

use crate::client::{Client, ask, find_frame, fresh_id};
use crate::support::{Setup, line, over_transports, wait_for};

const TEMPLATES: &str = r#"{"template":"llm/{team}","limit":"100","parent":1}
{"template":"llm/{team}/{user}","limit":"5","parent":"llm/{team}"}
"#;

fn patient(templates: &str) -> Setup {
    let budgets = line(1, "1000", "") + templates;
    Setup::new(&budgets).with("batch.wait_ms", "10000")
}

fn first(client: &mut Client, budget: u64, amount: i64) -> (Verdict, [u8; 32]) {
    client.decide_with(DecideFlags::AWAIT_FILL, &[ask(fresh_id(), budget, amount)])[0]
}

fn settle(client: &mut Client, token: [u8; 32], amount: i64) -> Verdict {
    client.resolve_all(&[resolve::Item::new(token, amount, Action::Settle, 0)])[0].0
}

/// Asks for a budget until the node has the templates of its file.
fn find(client: &mut Client, handle: &str) -> u64 {
    let mut found = Err(Verdict::UnknownBudget);
    wait_for("the templates", || {
        found = client.find(handle);
        found.is_ok()
    });
    found.unwrap()
}

#[test]
fn the_first_ask_of_a_budget_that_nobody_configured_is_granted() {
    over_transports(
        || patient(TEMPLATES),
        |node| {
            let mut client = node.client();
            let ann = find(&mut client, "llm/a/ann");
            assert!(ann >= 1 << 62);
            let (verdict, token) = first(&mut client, ann, 3_000_000);
            assert_eq!(verdict, Verdict::Granted);
            assert_eq!(settle(&mut client, token, 2_500_000), Verdict::Settled);
            assert_eq!(client.find("llm/a/ann"), Ok(ann));
            // Another connection, perhaps of another worker, and another user of the team.
            let mut other = node.client();
            assert_eq!(other.find("llm/a/ann"), Ok(ann));
            assert_ne!(find(&mut other, "llm/a/bob"), ann);
            assert_ne!(first(&mut other, ann, 2_600_000).0, Verdict::Granted, "2.50 are left");
            assert_eq!(other.find("strange/a"), Err(Verdict::UnknownBudget));
            assert_eq!(other.verdict((1 << 62) + 99, 1), Verdict::UnknownBudget);
            // Many at once: whoever asks first, there is one.
            let stream: Vec<u8> = (1..=500).flat_map(|n| find_frame(n, "llm/b/x")).collect();
            other.send(&stream);
            let replies: Vec<_> = (0..500).map(|_| format!("{:?}", other.receive())).collect();
            let ids = replies.iter().map(|reply| reply.split_once("id: ").unwrap().1);
            assert_eq!(ids.collect::<std::collections::BTreeSet<_>>().len(), 1, "{}", replies[0]);
        },
    );
}

#[test]
fn they_outlive_a_restart_with_what_they_spent() {
    let mut node = patient(TEMPLATES).start();
    let mut client = node.client();
    let ann = find(&mut client, "llm/a/ann");
    let (_, token) = first(&mut client, ann, 4_000_000);
    assert_eq!(settle(&mut client, token, 4_000_000), Verdict::Settled);
    drop(client);
    node = node.restart();
    let mut client = node.client();
    assert_eq!(find(&mut client, "llm/a/ann"), ann);
    wait_for("the purses of the run before", || {
        let (verdict, token) = first(&mut client, ann, 1_000_000);
        verdict == Verdict::Granted && settle(&mut client, token, 1_000_000) == Verdict::Settled
    });
    assert_ne!(first(&mut client, ann, 1).0, Verdict::Granted, "5 in its life");
}

#[test]
fn one_that_ended_comes_back_with_its_books_and_its_id() {
    let template = r#"{"template":"u/{user}","limit":"5","idle":"1s"}"#;
    let node = patient(&format!("{template}\n"))
        .with("ledger.hold_ms", "200")
        .with("ledger.billing_ms", "1000")
        .with("ledger.late_ms", "0")
        .start();
    let mut client = node.client();
    let ann = find(&mut client, "u/ann");
    for round in 1..=2 {
        let (verdict, token) = first(&mut client, ann, 2_000_000);
        assert_eq!(verdict, Verdict::Granted, "round {round}");
        assert_eq!(settle(&mut client, token, 2_000_000), Verdict::Settled);
        wait_for("its end", || {
            std::thread::sleep(Duration::from_millis(200));
            // A look at another budget: an ask of this one would keep it alive.
            node.stat()["bank"]["budgets_idled"] == round
        });
        client.wait_verdict(ann, 1, Verdict::UnknownBudget);
        assert_eq!(client.find("u/ann"), Ok(ann), "the same budget");
    }
    assert_ne!(first(&mut client, ann, 2_000_000).0, Verdict::Granted, "of 5 are 4 spent");
}

#[test]
fn a_flood_of_made_up_names_is_refused_and_counted_and_others_go_on() {
    let node = patient(TEMPLATES).with("budgets.templates_max", "50").start();
    let mut client = node.client();
    let ann = find(&mut client, "llm/a/ann");
    let mut refused = 0;
    for user in 0..100 {
        refused += u64::from(client.find(&format!("llm/a/{user}")) == Err(Verdict::Busy));
    }
    assert_eq!(refused, 52, "the team and ann were there");
    assert_eq!(node.stat()["bank"]["templates_full"], refused);
    assert_eq!(first(&mut client, ann, 1_000).0, Verdict::Granted);
    assert_eq!(client.find(&"x/".repeat(5_000)), Err(Verdict::UnknownBudget));
}

#[test]
fn a_token_for_some_budgets_makes_none() {
    let data = tempfile::tempdir().unwrap();
    let tokens = data.path().join("tokens");
    std::fs::write(&tokens, "some spend some-01234567890 budget:1\n").unwrap();
    let mut permissions = std::fs::metadata(&tokens).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o600);
    std::fs::set_permissions(&tokens, permissions).unwrap();
    let node = patient(TEMPLATES).with("batch.tokens_file", tokens.to_str().unwrap()).start();
    let mut client = node.stranger();
    client.send(&crate::client::hello_frame((1, 3), 1, b"some-01234567890"));
    client.receive();
    assert_eq!(client.find("llm/a/ann"), Err(Verdict::UnknownBudget));
    assert_eq!(node.stat()["bank"]["budgets_made"], 0);
}
