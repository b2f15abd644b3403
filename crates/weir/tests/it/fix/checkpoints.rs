//! The journal knows how far sessions were: files that are older than that use no number again.

use std::path::Path;

use serde_json::json;

use super::operating::{call, session, wait_state};
use super::{Client, SESSION, field, setup};
use crate::support::{Node, output, stdout, text, wait_for, weir};

/// Does the journal know this of the session?
fn knows(node: &Node, what: &str) -> bool {
    let data = node.data();
    let records = ["journal", "inspect", "--type", "memo", "--json", "--data", text(&data)];
    stdout(&output(weir().args(records))).contains(&format!("\"memo_text\":\"CLIENT1: {what}"))
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (entry, to) = (entry.unwrap(), to.to_owned());
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => _ = std::fs::copy(entry.path(), to).unwrap(),
        }
    }
}

#[test]
fn files_that_are_older_than_the_journal_use_no_number_again() {
    let node = setup(SESSION).start();
    let (folder, old) = (node.data().join("fix"), node.data().join("old"));
    let mut client = Client::log_on(&node, 1);
    for (place, order) in ["first", "second", "third"].into_iter().enumerate() {
        client.order(order);
        assert_eq!(field(&client.receive_message(), "11"), order);
        if place == 0 {
            copy(&folder, &old);
        }
    }
    wait_for("the journal to know the last order", || knows(&node, "next out 5, next in 5"));
    let node = node.restart_as(|setup| {
        std::fs::remove_dir_all(&folder).unwrap();
        std::fs::rename(&old, &folder).unwrap();
        setup
    });
    assert!(node.log().contains("the files of a session are older than the journal"));
    let after = session(&node, "CLIENT1");
    assert_eq!((&after["next_out"], &after["next_in"]), (&json!(100_005), &json!(5)));
    let mut client = Client { next_out: 5, ..Client::connect(&node) };
    client.send("A", "98=0|108=30|");
    let logon = client.receive().unwrap();
    assert_eq!(["35", "34"].map(|tag| field(&logon, tag)), ["A", "100005"]);
    client.order("fourth");
    assert_eq!(field(&client.receive_message(), "11"), "fourth");
}

#[test]
fn numbers_that_an_operator_sets_back_stay_so() {
    let node = setup(SESSION).start();
    let client = Client::log_on(&node, 1);
    wait_for("the journal to know the logon", || knows(&node, "next out 2, next in 2"));
    drop(client);
    wait_state(&node, "CLIENT1", "waiting");
    let body = json!({"next_out": 1, "next_in": 1, "reason": "agreed with the desk"});
    let (status, set) = call(node.admin, "PUT", "/v1/fix/sessions/CLIENT1/sequence", &body);
    assert_eq!(status, 200, "{set}");
    assert!(knows(&node, "next out 1, next in 1"), "as soon as it is answered");
    let node = node.restart();
    let after = session(&node, "CLIENT1");
    assert_eq!((&after["next_out"], &after["next_in"]), (&json!(1), &json!(1)));
    assert!(!node.log().contains("older than the journal"));
}
