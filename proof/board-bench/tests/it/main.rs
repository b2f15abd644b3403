//! The server answers, and what it answers changes with a tick.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use board_bench::{Bench, Mode, Plan};
use serde_json::Value;

fn get(address: SocketAddr, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_string(), body.to_string())
}

fn spent(address: SocketAddr) -> Vec<String> {
    let (head, body) = get(address, "/v1/budgets?max=1000");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let answer: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(answer["matched"], 300);
    let budgets = answer["budgets"].as_array().unwrap();
    budgets.iter().map(|budget| budget["spent"].as_str().unwrap().to_string()).collect()
}

#[test]
fn a_tick_changes_as_many_budgets_as_planned() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let plan = Plan { rows: 300, deltas: 20, mode: Mode::Spread };
    let mut bench = Bench::start(listener, plan, Vec::new()).unwrap();
    assert!(get(bench.address(), "/readyz").0.starts_with("HTTP/1.1 200"));
    let before = spent(bench.address());
    bench.tick();
    let after = spent(bench.address());
    let differ = before.iter().zip(&after).filter(|(a, b)| a != b).count();
    assert_eq!(differ, 20);
}
