//! The scripted node over its sockets, and the file of scenarios.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use fake_node::{SCENARIOS, Suite};
use serde_json::{Value, json};

fn suite() -> Suite {
    serde_json::from_str(SCENARIOS).unwrap()
}

/// A driver of its own.
struct Control(BufReader<TcpStream>);

impl Control {
    fn new() -> Control {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        std::thread::spawn(move || fake_node::serve(&listener, &suite()));
        Control(BufReader::new(stream))
    }

    fn say(&mut self, order: &Value) -> Value {
        self.0.get_mut().write_all(format!("{order}\n").as_bytes()).unwrap();
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    fn play(&mut self, name: &str) -> TcpStream {
        let answer = self.say(&json!({ "play": name }));
        let address: SocketAddr = answer["nodes"][0].as_str().unwrap().parse().unwrap();
        TcpStream::connect(address).unwrap()
    }
}

fn hello() -> Vec<u8> {
    let mut buf = vec![0; 64];
    let block = wire::hello::Block::new(1, 2, 7);
    let encoder = wire::hello::encode(&mut buf, &block).unwrap();
    let len = encoder.auth(b"").unwrap().name("").unwrap().finish();
    buf.truncate(len);
    buf
}

fn ask(frame: u64, request_id: u64) -> Vec<u8> {
    let mut buf = vec![0; 256];
    let block = wire::decide::Block::new(frame, wire::DecideFlags::NONE);
    let ask = wire::decide::Ask::new(request_id, 1001, 150_000, 77, *b"USD\0", 0, 0);
    let len = wire::decide::encode(&mut buf, &block).unwrap().asks(&[ask]).unwrap().finish();
    buf.truncate(len);
    buf
}

#[test]
fn a_client_that_forgets_its_grant_is_told() {
    let mut control = Control::new();
    let mut node = control.play("reserve-and-settle");
    node.write_all(&hello()).unwrap();
    node.write_all(&ask(1, 9)).unwrap();
    let wanted = json!({ "await": { "what": { "saw": "ask" } } });
    assert_eq!(control.say(&wanted), json!({ "ok": true }));
    let mut bytes = vec![0; wire::welcome::encoded_len() + wire::decided::encoded_len(1)];
    node.read_exact(&mut bytes).unwrap();
    let decided = &bytes[wire::welcome::encoded_len()..];
    let Ok(wire::Message::Decided(decided)) = wire::Message::decode(decided) else {
        panic!("no Decided")
    };
    assert_eq!(decided.answers().get(0).unwrap().verdict(), Some(wire::Verdict::Granted));
    let verdict = control.say(&json!("judge"));
    assert_eq!(verdict["passed"], false);
    let text = verdict["failures"].to_string();
    assert!(text.contains("came 0 times, expected 1 to 1"), "{text}");
    assert!(text.contains("the grants [1] were neither settled nor released"), "{text}");
}

#[test]
fn what_no_client_may_do_is_noted() {
    let mut control = Control::new();
    let mut node = control.play("reserve-and-settle");
    node.write_all(&ask(0, 9)).unwrap();
    node.write_all(&ask(2, 9)).unwrap();
    let wanted = json!({ "await": { "what": { "saw": "ask" }, "count": 2 } });
    assert_eq!(control.say(&wanted), json!({ "ok": true }));
    let text = control.say(&json!("judge"))["failures"].to_string();
    for fault in ["its first message is no Hello", "has the number 0", "was asked again"] {
        assert!(text.contains(fault), "{fault}: {text}");
    }
    assert_eq!(control.say(&json!({ "play": "no such" }))["ok"], false);
    assert_eq!(control.say(&json!({ "send": "nothing" }))["ok"], false);
}

#[test]
fn the_file_of_scenarios_is_sound() {
    let suite = suite();
    assert_eq!(suite.format, 1);
    let names: BTreeSet<&str> = suite.scenarios.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names.len(), suite.scenarios.len(), "two scenarios have the same name");
    let members = [
        "saw",
        "node",
        "entries",
        "budget",
        "amount",
        "unit",
        "request_id",
        "user",
        "pod",
        "remember",
        "grant",
        "auth",
        "handle",
        "count",
        "min",
        "max",
    ];
    let raw: Value = serde_json::from_str(SCENARIOS).unwrap();
    for scenario in raw["scenarios"].as_array().unwrap() {
        for must in scenario["must"].as_array().into_iter().flatten() {
            let unknown =
                must.as_object().unwrap().keys().find(|key| !members.contains(&key.as_str()));
            assert_eq!(unknown, None, "{}: {must}", scenario["name"]);
        }
    }
    let acts = suite.scenarios.iter().flat_map(|one| &one.nodes).flat_map(|node| &node.rules);
    for act in acts.flat_map(|rule| &rule.acts) {
        match act {
            fake_node::Act::Answer(answer) => {
                assert!(answer.verdicts.iter().all(|code| code.verdict().is_ok()));
            }
            fake_node::Act::Refuse(code) => assert!(code.reason().is_ok()),
            _ => {}
        }
    }
}
