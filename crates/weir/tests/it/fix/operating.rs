//! What an operator sees of FIX sessions and does to them, over the admin door.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use serde_json::{Value, json};

use super::{Client, SESSION, field, setup};
use crate::support::{Node, PATIENCE, output, stdout, wait_for, weir};

/// Calls the admin door; status and body.
pub(super) fn call(to: SocketAddr, method: &str, path: &str, body: &Value) -> (u16, Value) {
    call_with(to, (method, path), body, "")
}

/// The same, with more lines of a head.
pub(super) fn call_with(
    to: SocketAddr,
    (method, path): (&str, &str),
    body: &Value,
    head: &str,
) -> (u16, Value) {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let kind = "Content-Type: application/json";
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.0\r\nHost: {to}\r\n{head}{kind}\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or_else(|_| panic!("{answer}")))
}

fn act(node: &Node, session: &str, act: &str, body: &Value) -> (u16, Value) {
    let method = if act == "sequence" { "PUT" } else { "POST" };
    call(node.admin, method, &format!("/v1/fix/sessions/{session}/{act}"), body)
}

/// The session of a name, as the list has it.
pub(super) fn session(node: &Node, name: &str) -> Value {
    let (status, answer) = call(node.admin, "GET", "/v1/fix/sessions", &Value::Null);
    assert_eq!(status, 200, "{answer}");
    let sessions = answer["sessions"].as_array().unwrap();
    sessions.iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("{answer}")).clone()
}

pub(super) fn wait_state(node: &Node, name: &str, state: &str) {
    wait_for(&format!("{name} to be {state}"), || session(node, name)["state"] == state);
}

/// What the audit says, the newest first: action and why.
fn audited(node: &Node) -> Vec<(String, String)> {
    let (status, answer) = call(node.admin, "GET", "/v1/audit", &Value::Null);
    assert_eq!(status, 200, "{answer}");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let records = answer["records"].as_array().unwrap();
    records.iter().map(|record| (text(&record["action"]), text(&record["why"]))).collect()
}

fn problem(answer: &(u16, Value)) -> (u16, &str) {
    let kind = answer.1["type"].as_str().unwrap();
    (answer.0, kind.strip_prefix("/docs/api#").unwrap())
}

#[test]
fn all_sessions_are_listed_with_how_they_stand() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let venue = format!(
        "[[fix.venue]]\nname = \"venue1\"\nsender_comp_id = \"GATE\"\ntarget_comp_id = \"VENUE\"\n\
         durability = \"written\"\nconnect = [\"{address}\"]\n"
    );
    let node = setup(&format!("{}{venue}", SESSION.replace("echo", "venue1"))).start();
    let before = session(&node, "CLIENT1");
    let expected = json!({
        "name": "CLIENT1", "kind": "client", "begin_string": "FIX.4.4", "sender_comp_id": "GATE",
        "target_comp_id": "CLIENT1", "state": "waiting", "next_out": 1, "next_in": 1, "address": null,
        "last_in_ms": null, "last_out_ms": null, "route": "venue1", "durability": "sealed", "gaps": 0,
        "messages_in": 0, "messages_out": 0, "latency_p50_us": null, "latency_p99_us": null,
    });
    assert_eq!(before, expected);
    let mut client = Client::log_on(&node, 1);
    let mut far = Client::venue(&listener);
    wait_state(&node, "venue1", "logged_on");
    let venue = session(&node, "venue1");
    assert_eq!((&venue["kind"], &venue["route"]), (&json!("venue"), &Value::Null));
    assert_eq!((&venue["durability"], &venue["address"]), (&json!("written"), &json!(address)));
    client.order("first");
    assert_eq!(field(&far.receive_message(), "11"), "first");
    let order = json!({
        "session": "CLIENT1", "venue": "venue1", "cl_ord_id": "first", "order_id": null, "account": null,
        "symbol": "ACME", "side": "1", "quantity": "100", "price": "10", "cum": "0", "leaves": "100",
        "state": "open", "hold": null, "booked": null,
    });
    for (query, orders) in [
        ("?max=1", vec![&order]),
        ("?cursor=4294967296", vec![&order]),
        ("?cursor=99999999999999999", vec![]),
        ("?budget=7", vec![]),
    ] {
        let answer = call(node.admin, "GET", &format!("/v1/fix/orders{query}"), &Value::Null);
        assert_eq!(answer, (200, json!({ "orders": orders, "next": null })), "{query}");
    }
    let answer = call(node.admin, "GET", "/v1/fix/orders?cursor=x", &Value::Null);
    assert_eq!((problem(&answer), &answer.1["field"]), ((400, "malformed"), &json!("cursor")));
    let target = node.admin.to_string();
    let listed = stdout(&output(weir().args(["fix", "orders", "--target", &target])));
    let words: Vec<&str> = listed.lines().nth(1).unwrap().split_whitespace().collect();
    let shown =
        ["CLIENT1", "venue1", "first", "-", "-", "ACME", "1", "100", "10", "0", "100", "open"];
    assert_eq!(words, shown, "{listed}");
    wait_for("the order to be counted", || session(&node, "CLIENT1")["messages_in"] == 2);
    let after = session(&node, "CLIENT1");
    assert_eq!(after["address"], json!(client.address));
    assert_eq!((&after["next_in"], &after["next_out"]), (&json!(3), &json!(2)));
    assert!(after["last_in_ms"].as_u64().unwrap() > 1_700_000_000_000, "{after}");
    let [p50, p99] = ["latency_p50_us", "latency_p99_us"].map(|name| after[name].as_u64().unwrap());
    assert!(p50 <= p99, "{after}");
    client.next_out = 5;
    client.send("0", "");
    wait_state(&node, "CLIENT1", "resending");
    assert_eq!(session(&node, "CLIENT1")["gaps"], 1);
}

#[test]
fn a_node_without_sessions_has_none() {
    let node = setup("").start();
    let none = json!({"sessions": [], "refused_logons": 0});
    assert_eq!(call(node.admin, "GET", "/v1/fix/sessions", &Value::Null), (200, none));
    let nobody = act(&node, "CLIENT1", "reset", &json!({"reason": "a test"}));
    assert_eq!(problem(&nobody), (404, "unknown"));
    assert!(nobody.1["detail"].as_str().unwrap().contains("the FIX door is off"), "{nobody:?}");
}

#[test]
fn numbers_are_set_between_two_connections_survive_a_kill_and_are_in_the_audit() {
    let node = setup(SESSION).start();
    let client = Client::log_on(&node, 1);
    let body = json!({"next_out": 20, "next_in": 30, "reason": "agreed with the desk"});
    let refused = act(&node, "CLIENT1", "sequence", &body);
    assert_eq!(problem(&refused), (409, "logged_on"));
    let reset = act(&node, "CLIENT1", "reset", &json!({"reason": "a test"}));
    assert_eq!(problem(&reset), (409, "logged_on"));
    assert_eq!(audited(&node), [], "what was refused is not recorded");
    drop(client);
    wait_state(&node, "CLIENT1", "waiting");
    let (status, set) = act(&node, "CLIENT1", "sequence", &body);
    assert_eq!((status, &set["next_out"], &set["next_in"]), (200, &json!(20), &json!(30)), "{set}");
    let node = node.restart();
    let set = session(&node, "CLIENT1");
    assert_eq!((&set["next_out"], &set["next_in"]), (&json!(20), &json!(30)));
    let (_, audit) = call(node.admin, "GET", "/v1/audit", &Value::Null);
    let record = &audit["records"][0];
    let expected = json!({"name": "CLIENT1", "before": {"next_out": 2, "next_in": 2},
        "after": {"next_out": 20, "next_in": 30}});
    assert_eq!((&record["action"], &record["session"]), (&json!("fix_sequence"), &expected));
    assert_eq!((&record["who"], &record["why"]), (&json!("local"), &json!("agreed with the desk")));
    let mut client = Client { next_out: 30, ..Client::connect(&node) };
    client.send("A", "98=0|108=30|");
    assert_eq!(field(&client.receive().unwrap(), "34"), "20");
    // What was done is not taken back, but done again otherwise.
    let number = record["record"].as_str().unwrap();
    let undo = json!({"why": "a test", "dry_run": true});
    let (status, _) = call(node.admin, "POST", &format!("/v1/audit/{number}/undo"), &undo);
    assert_eq!(status, 422);
}

#[test]
fn an_operator_logs_out_asks_again_and_resets() {
    let node = setup(SESSION).start();
    let reason = |text: &str| json!({ "reason": text });
    let early = act(&node, "CLIENT1", "logout", &reason("too early"));
    assert_eq!(problem(&early), (409, "not_logged_on"));
    let mut client = Client::log_on(&node, 1);
    client.order("first");
    assert_eq!(field(&client.receive_message(), "11"), "first");
    let (status, _) =
        act(&node, "CLIENT1", "resend", &json!({"from": 2, "to": 0, "reason": "we lost it"}));
    assert_eq!(status, 200);
    let asked = client.receive_message();
    assert_eq!(["35", "7", "16"].map(|tag| field(&asked, tag)), ["2", "2", "0"]);
    let (status, said) = act(&node, "CLIENT1", "logout", &reason("end of the day"));
    assert_eq!((status, &said["state"]), (200, &json!("logging_out")));
    let logout = client.receive_message();
    assert_eq!(["35", "58"].map(|tag| field(&logout, tag)), ["5", "logged out by the operator"]);
    client.send("5", "");
    assert_eq!(client.receive(), None);
    wait_state(&node, "CLIENT1", "waiting");
    let (status, reset) = act(&node, "CLIENT1", "reset", &reason("a new week"));
    assert_eq!((status, &reset["next_out"], &reset["next_in"]), (200, &json!(1), &json!(1)));
    let mut client = Client::log_on(&node, 1);
    client.order("first");
    assert_eq!(field(&client.receive_message(), "34"), "2");
    let acts = [
        ("fix_reset", "a new week"),
        ("fix_logout", "end of the day"),
        ("fix_resend", "we lost it"),
    ];
    assert_eq!(audited(&node), acts.map(|(action, why)| (action.to_owned(), why.to_owned())));
}

#[test]
fn what_cannot_be_is_told_and_nothing_is_recorded() {
    let node = setup(SESSION).start();
    let good = "agreed with the desk";
    for (what, body, expected) in [
        ("reset", json!({}), (422, "unfit")),
        ("reset", json!({"reason": "no"}), (422, "unfit")),
        ("reset", json!({"reason": "x".repeat(501)}), (422, "unfit")),
        ("reset", json!({"reason": "a\nb c"}), (422, "unfit")),
        ("reset", json!({"reason": good, "why": good}), (400, "malformed")),
        ("sequence", json!({"next_out": 0, "next_in": 1, "reason": good}), (422, "unfit")),
        (
            "sequence",
            json!({"next_out": 1, "next_in": 1_000_000_000, "reason": good}),
            (422, "unfit"),
        ),
        ("sequence", json!({"next_out": -1, "next_in": 1, "reason": good}), (400, "malformed")),
        ("sequence", json!({"next_in": 1, "reason": good}), (400, "malformed")),
        ("resend", json!({"from": 1, "to": 0, "reason": good}), (409, "not_logged_on")),
    ] {
        let answer = act(&node, "CLIENT1", what, &body);
        assert_eq!(problem(&answer), expected, "{what} {body}: {}", answer.1);
    }
    // Whatever is no number of a session is told with those that there are.
    for found in [json!(0), json!(-1), json!(1e20), json!(1.5), json!("7"), json!(null)] {
        for field in ["next_out", "next_in"] {
            let mut body = json!({"next_out": 1, "next_in": 1, "reason": good});
            body[field] = found.clone();
            let (_, answer) = act(&node, "CLIENT1", "sequence", &body);
            let told = (answer["field"].as_str().unwrap(), answer["expected"].as_str().unwrap());
            assert!(told.0 == field && told.1.ends_with("1 to 999999999"), "{answer}");
        }
    }
    let unknown = act(&node, "CLIENT%2F9", "reset", &json!({"reason": good}));
    assert_eq!(problem(&unknown), (404, "unknown"));
    let detail = unknown.1["detail"].as_str().unwrap();
    assert!(detail.contains("\"CLIENT/9\"") && detail.contains("there are: CLIENT1"), "{detail}");
    let mut client = Client::log_on(&node, 1);
    let future = json!({"from": 2, "to": 0, "reason": good});
    let answer = act(&node, "CLIENT1", "resend", &future);
    assert_eq!((problem(&answer), &answer.1["field"]), ((422, "unfit"), &json!("from")));
    client.send("1", "112=still here|");
    assert_eq!(field(&client.receive().unwrap(), "112"), "still here");
    assert_eq!(audited(&node), []);
}
