//! Orders that are capped beside their budgets, stopped by a kill, and cancelled by the gate, in a whole node.

use std::net::TcpListener;
use std::path::Path;

use serde_json::{Value, json};

use super::operating::{call_with, wait_state};
use super::venues::{accept, listeners};
use super::{Client, field};
use crate::full_disk::{SmallDisk, limit_files, with_own_mounts};
use crate::principals::token;
use crate::support::{Node, Setup, output, stderr, stdout, text, wait_for, weir};

const KILL: &str = "/v1/fix/kill";

/// A call with a token; status and body.
fn call(node: &Node, method: &str, body: &Value, head: &str) -> (u16, Value) {
    call_with(node.admin, (method, KILL), body, head)
}

/// The counters of the door.
fn counts(node: &Node, head: &str) -> Value {
    call_with(node.admin, ("GET", "/stat"), &Value::Null, head).1["doors"]["fix"].clone()
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

/// A client of a firm, whose orders a budget binds, and a venue at the listener.
fn gate(listener: &TcpListener, keys: &str) -> Setup {
    let setup = Setup::new("{\"id\":1,\"limit\":\"100000\",\"orders\":{\"firm\":\"ACME\"}}\n");
    let address = listener.local_addr().unwrap();
    let config = format!(
        "[[fix.session]]\nsender_comp_id = \"GATE\"\ntarget_comp_id = \"CLIENT1\"\nlimits = \"budgets\"\nfirm = \"ACME\"\nroute = \"venue1\"\n{keys}\
         [[fix.venue]]\nname = \"venue1\"\nsender_comp_id = \"GATE\"\ntarget_comp_id = \"VENUE\"\nconnect = [\"{address}\"]\n"
    );
    std::fs::write(setup.folder().join("weir.toml"), config).unwrap();
    setup
}

fn venue_of(node: &Node, listener: &TcpListener, next_out: u64) -> Client {
    let mut venue = accept(listener, next_out);
    venue.send("A", "98=0|108=30|");
    wait_state(node, "venue1", "logged_on");
    venue
}

/// The types and fields of the next message.
fn next<const COUNT: usize>(side: &mut Client, tags: [&str; COUNT]) -> [String; COUNT] {
    let message = side.receive_message();
    tags.map(|tag| field(&message, tag).to_owned())
}

#[test]
fn an_order_above_the_caps_of_its_session_is_refused_and_counted() {
    let ([listener], _) = listeners();
    let caps = "order_value_max = \"1000\"\norder_quantity_max = \"200\"\nrestricted = [\"BAD\"]\n";
    let node = gate(&listener, caps).start();
    let mut venue = venue_of(&node, &listener, 1);
    let mut client = Client::log_on(&node, 1);
    let order = |id: &str, symbol: &str, rest: &str| {
        format!("11={id}|21=1|55={symbol}|54=1|60={}|40=2|{rest}", super::now())
    };
    client.send("D", &order("fits", "GOOD", "38=100|44=10|"));
    assert_eq!(next(&mut venue, ["35", "11"]), ["D", "fits"]);
    for (symbol, rest, reason, told) in [
        ("GOOD", "38=101|44=10|", "3", "order_value_max: 1000 of this session"),
        ("GOOD", "38=201|44=1|", "3", "order_quantity_max: 200 of this session"),
        ("BAD", "38=1|44=1|", "99", "the instrument is restricted for this session"),
    ] {
        client.send("D", &order("no", symbol, rest));
        assert_eq!(next(&mut client, ["35", "150", "103", "58"]), ["8", "8", reason, told]);
    }
    node.wait_stat("three refusals", |stat| {
        let of = &stat["doors"]["fix"];
        ["refused_value", "refused_quantity", "refused_restricted"].iter().all(|one| of[one] == 1)
    });
}

/// The heads of the calls of two who operate and of one who reads, at a node with tokens.
fn guarded(listener: &TcpListener, file: &Path) -> (Node, [String; 3]) {
    let heads = [("ada", "operate"), ("bob", "operate"), ("eve", "read")]
        .map(|(name, role)| bearer(&token(file, &["--name", name, "--role", role])));
    (gate(listener, "").with("admin.tokens_file", text(file)).start(), heads)
}

fn kill_of(scope: &str, name: &str) -> Value {
    json!({"scope": scope, "name": name, "reason": "a fat finger"})
}

#[test]
fn orders_are_stopped_by_who_may_and_with_a_name_and_a_reason() {
    let (([listener], _), folder) = (listeners(), tempfile::tempdir().unwrap());
    let (node, [ada, bob, eve]) = guarded(&listener, &folder.path().join("tokens"));
    let (of, origin) = (kill_of, format!("{ada}Origin: http://evil.example\r\n"));
    let firm = of("firm", "ACME");
    for (method, body, head, status) in [
        ("POST", &firm, "", 401),
        ("POST", &firm, &*eve, 403),
        ("DELETE", &firm, &*eve, 403),
        ("POST", &firm, &*origin, 403),
        ("DELETE", &firm, &*ada, 404),
        ("POST", &of("desk", "ACME"), &*ada, 400),
        ("POST", &of("firm", ""), &*ada, 422),
        ("POST", &of("firm", &"f".repeat(129)), &*ada, 422),
        ("POST", &of("account", "A\n"), &*ada, 422),
        ("POST", &json!({"scope": "firm", "name": "ACME", "reason": "no"}), &*ada, 422),
        ("POST", &json!({"scope": "firm", "name": "ACME"}), &*ada, 422),
        // A name that nobody has yet, of 128 bytes; twice is as once.
        ("POST", &of("account", &"\u{e9}".repeat(64)), &*ada, 200),
        ("POST", &of("account", &"\u{e9}".repeat(64)), &*ada, 200),
        ("POST", &firm, &*ada, 200),
        ("DELETE", &firm, &*ada, 403),
        ("DELETE", &firm, &*bob, 200),
        ("DELETE", &firm, &*bob, 404),
    ] {
        let answer = call(&node, method, body, head);
        assert_eq!(answer.0, status, "{method} {body} {head}: {}", answer.1);
    }
    let found = call(&node, "GET", &Value::Null, &eve).1;
    assert_eq!(found["kills"].as_array().unwrap().len(), 1, "the account's: {found}");
}

/// A kill is in force over kill -9 before anybody is let in, the gate cancels with ids of its own, and another token ends it.
#[test]
fn a_kill_outlives_the_process_and_is_ended_by_another_token() {
    let (([listener], _), folder) = (listeners(), tempfile::tempdir().unwrap());
    let (node, [ada, bob, eve]) = guarded(&listener, &folder.path().join("tokens"));
    let mut venue = accept(&listener, 1);
    venue.send("A", "98=0|108=30|");
    let mut client = Client::log_on(&node, 1);
    wait_for("both", || counts(&node, &eve)["logons"] == 2);
    client.order("open");
    assert_eq!(next(&mut venue, ["35", "11"]), ["D", "open"]);
    let firm = kill_of("firm", "ACME");
    assert_eq!(call(&node, "POST", &firm, &ada).0, 200);
    let [kind, first, original] = next(&mut venue, ["35", "11", "41"]);
    assert_eq!([&*kind, &*original], ["F", "open"]);
    assert!(first.starts_with("KILL-"), "{first}");
    client.order("late");
    let told = "orders of this firm are stopped";
    assert_eq!(next(&mut client, ["35", "39", "58"]), ["8", "8", told]);
    wait_for("both to be counted", || {
        let counts = counts(&node, &eve);
        counts["refused_killed"] == 1 && counts["cancels"] == 1
    });
    // Whatever the venue got before the process died, it gets another one.
    let node = node.restart();
    let (status, found) = call(&node, "GET", &Value::Null, &eve);
    let expected = json!({"scope": "firm", "name": "ACME", "reason": "a fat finger", "who": "ada",
        "at_ms": found["kills"][0]["at_ms"], "sealed": true, "sessions": ["CLIENT1"]});
    assert_eq!((status, found), (200, json!({ "kills": [expected] })));
    let mut venue = accept(&listener, venue.next_out);
    venue.send("A", "98=0|108=30|");
    let again = loop {
        let message = venue.receive_message();
        if message.contains("|35=F|") && field(&message, "11") != first {
            break (field(&message, "11"), field(&message, "41"));
        }
    };
    assert!(again.0.starts_with("KILL-") && again.1 == "open", "{again:?}");
    let mut client = Client::log_on(&node, client.next_out);
    client.order("later");
    assert_eq!(next(&mut client, ["35", "39", "58"]), ["8", "8", told]);
    venue.send("9", &format!("11={}|41=open|37=V|39=0|434=1|102=0|58=no|", first));
    venue.send(
        "8",
        &format!("11={}|41=open|37=V|17=1|150=4|39=4|14=0|151=0|6=0|55=ACME|54=1|", again.0),
    );
    let [kind, id, original] = next(&mut client, ["35", "11", "41"]);
    assert_eq!([&*kind, &*id, &*original], ["8", &*again.0, "open"], "a 9 is not the client's");
    let own = call(&node, "DELETE", &firm, &ada);
    assert_eq!(own.0, 403, "{}", own.1);
    assert!(own.1["detail"].as_str().unwrap().contains("another token"), "{}", own.1);
    assert_eq!(call(&node, "DELETE", &firm, &bob).0, 200);
    client.order("again");
    assert_eq!(next(&mut venue, ["35", "11"]), ["D", "again"]);
    let node = node.restart();
    assert_eq!(call(&node, "GET", &Value::Null, &eve).1, json!({ "kills": [] }));
}

/// Its time begins anew with the process, and ends without it; the venue hears of it once.
#[test]
fn orders_of_a_client_that_does_not_come_back_are_cancelled_also_after_a_start() {
    let ([listener], _) = listeners();
    let node = gate(&listener, "cancel_on_disconnect_s = 1\n").start();
    let mut venue = venue_of(&node, &listener, 1);
    let mut client = Client::log_on(&node, 1);
    client.order("open");
    assert_eq!(next(&mut venue, ["35", "11"]), ["D", "open"]);
    let node = node.restart();
    let mut venue = venue_of(&node, &listener, venue.next_out);
    let message = loop {
        let message = venue.receive_message();
        if message.contains("|35=F|") {
            break message;
        }
    };
    assert!(field(&message, "11").starts_with("KILL-"), "{message}");
    assert_eq!(field(&message, "41"), "open");
    node.wait_stat("it to be counted", |stat| {
        let of = &stat["doors"]["fix"];
        of["away"] == 1 && of["cancels"] == 1
    });
}

/// Nothing can be sealed: the orders are stopped, and the answer does not say that it is done.
#[test]
fn a_kill_that_cannot_be_sealed_is_in_force_and_is_not_answered_as_done() {
    let ([listener], _) = listeners();
    let node = gate(&listener, "").start();
    let mut venue = venue_of(&node, &listener, 1);
    let mut client = Client::log_on(&node, 1);
    client.order("open");
    assert_eq!(next(&mut venue, ["35", "11"]), ["D", "open"]);
    let kill = json!({"scope": "session", "name": "CLIENT1", "reason": "a full disk"});
    limit_files(&node, "4096");
    let (status, answer) = call(&node, "POST", &kill, "");
    assert_eq!(status, 503, "{answer}");
    let stopped = || call(&node, "GET", &Value::Null, "").1["kills"].clone();
    assert_eq!(
        (&stopped()[0]["name"], &stopped()[0]["sealed"]),
        (&json!("CLIENT1"), &json!(false))
    );
    // The end of it cannot be sealed either, so it stays.
    let (status, answer) = call(&node, "DELETE", &kill, "");
    assert_eq!(status, 503, "{answer}");
    limit_files(&node, "unlimited");
    wait_for("it to be sealed", || stopped()[0]["sealed"] == true);
    let node = node.restart();
    let tool = |words: &[&str]| {
        let ran = output(weir().arg("fix").args(words).args(["--target", &node.admin.to_string()]));
        assert!(ran.status.success(), "{words:?}: {}", stderr(&ran));
        stdout(&ran)
    };
    let listed = tool(&["kills"]);
    let words: Vec<&str> = listed.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(words[..2], ["session", "CLIENT1"], "{listed}");
    assert_eq!(words[3..], ["-", "true", "a", "full", "disk"], "{listed}");
    let of = |act: &str, scope: &str, name: &str| {
        tool(&[act, "--scope", scope, "--name", name, "--reason", "by hand"])
    };
    assert!(of("enable", "session", "CLIENT1").contains("no orders are stopped"));
    assert!(of("kill", "account", "A 1").contains("account  A 1"));
    let [(_, all), (_, audit)] = [KILL, "/v1/audit"].map(|path| node.get(path));
    assert!(all.contains("A 1") && !all.contains("CLIENT1"), "{all}");
    for told in
        ["fix_kill", "fix_enable", "session CLIENT1", "account A 1", "a full disk", "by hand"]
    {
        assert!(audit.contains(told), "{told} is not in {audit}");
    }
}

/// Receives until a message of this type and ClOrdID comes; the side stays logged on.
fn until(side: &mut Client, kind: &str, id: &str) -> String {
    let fields = [format!("|35={kind}|"), format!("|11={id}|")];
    loop {
        let message = side.receive_message();
        assert!(!message.contains("|35=5|"), "{message}");
        if fields.iter().all(|field| message.contains(field)) {
            return message;
        }
    }
}

#[test]
fn a_full_disk_refuses_orders_and_lets_cancels_pass() {
    let test = "fix::stopped::a_full_disk_refuses_orders_and_lets_cancels_pass";
    with_own_mounts(test, || {
        let ([listener], _) = listeners();
        let setup = gate(&listener, "");
        let disk = SmallDisk::at(setup.data().join("fix"), 48 << 20);
        let node = setup.start();
        let mut venue = venue_of(&node, &listener, 1);
        let mut client = Client::log_on(&node, 1);
        let order = |id: &str, text: &str| {
            let time = super::now();
            format!("11={id}|21=1|55=A|54=1|60={time}|38=1|40=2|44=1|58={text}|")
        };
        client.send("D", &order("a", "-"));
        until(&mut venue, "D", "a");
        disk.fill();
        let text = "x".repeat(8_000);
        (0..60).for_each(|id| client.send("D", &order(&format!("n{id}"), &text)));
        node.wait_stat("a refusal", |stat| {
            stat["doors"]["fix"]["refused_journal"].as_u64() > Some(0)
        });
        let refused = until(&mut client, "8", "n59");
        assert_eq!(field(&refused, "58"), "the gate cannot record orders at present");
        let time = super::now();
        client.send("F", &format!("11=c|41=a|55=A|54=1|60={time}|"));
        until(&mut venue, "F", "c");
        client.send("H", "11=a|55=A|54=1|");
        until(&mut venue, "H", "a");
        venue.send("8", "11=c|41=a|37=V|17=1|150=4|39=4|55=A|54=1|14=0|151=0|6=0|");
        until(&mut client, "8", "c");
        disk.free();
        wait_for("room", || node.log().contains("the disk has room again"));
        client.send("D", &order("again", "-"));
        until(&mut venue, "D", "again");
        assert!(node.log().contains("new orders and replaces are refused from now on"));
    });
}
