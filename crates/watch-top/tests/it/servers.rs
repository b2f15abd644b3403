//! Rounds of questions, and the thread that asks them, against a server that answers as a node does.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use admin_client::Client;
use serde_json::Value;
use watch_top::poll::{Poller, Update, round};
use watch_top::query::{Query, Wants};

use crate::canned;

/// Nothing here takes longer on a healthy machine, however busy.
const PATIENCE: Duration = Duration::from_secs(90);

fn client(address: &str) -> Client {
    Client::new(address.parse().unwrap(), None, None).with_wait(PATIENCE)
}

/// Serves so many connections, each by `serve` with the question's head.
fn server(
    connections: usize,
    serve: impl Fn(&mut TcpStream, &str) + Send + 'static,
) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let thread = std::thread::spawn(move || {
        let mut heads = Vec::new();
        for _ in 0..connections {
            let (mut stream, _) = listener.accept().unwrap();
            let head = read_head(&mut stream);
            serve(&mut stream, &head);
            heads.push(head);
        }
        heads
    });
    (address, thread)
}

fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

fn ok(body: &Value) -> String {
    let body = body.to_string();
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// A node that answers what a round asks for.
fn node(stream: &mut TcpStream, head: &str) {
    let path = head.split(' ').nth(1).unwrap();
    let body = match path.split('?').next().unwrap() {
        "/v1/node" => canned::node(),
        "/v1/budgets" if path.contains("q=nonsense") => {
            let refusal = "HTTP/1.1 400 Bad Request\r\n\r\n{\"detail\":\"no such column\"}";
            return drop(stream.write_all(refusal.as_bytes()));
        }
        "/v1/budgets" => canned::page(),
        "/v1/budgets/17" => canned::detail(),
        "/v1/budgets/17/refusals" => canned::refusals(),
        "/v1/audit" => canned::audit(),
        _ => {
            return drop(
                stream.write_all(b"HTTP/1.1 404 Not Found\r\n\r\n{\"detail\":\"no such budget\"}"),
            );
        }
    };
    let _ = stream.write_all(ok(&body).as_bytes());
}

#[test]
fn a_round_asks_for_what_is_wanted() {
    let (address, thread) = server(5 + 3 + 2, node);
    let client = client(&address);
    let wants = Wants { detail: Some("17".to_owned()), ..Wants::default() };
    let whole = round(&client, &wants).unwrap();
    assert_eq!(whole.page.unwrap().budgets.len(), 7);
    assert_eq!(whole.detail.unwrap().unwrap().detail.budget.name, "Summer sale, all shops");
    let gone =
        round(&client, &Wants { detail: Some("99".to_owned()), ..Wants::default() }).unwrap();
    assert_eq!(gone.detail.unwrap().unwrap_err().0, "no such budget");
    let query = Query { filter: "nonsense".to_owned(), ..Query::default() };
    let refused = round(&client, &Wants { query, detail: None }).unwrap();
    assert_eq!(refused.page.unwrap_err().0, "no such column");
    thread.join().unwrap();
}

#[test]
fn the_poller_reports_and_asks_at_once_when_something_else_is_wanted() {
    // The first answer of the third round is missing.
    let asked = AtomicUsize::new(0);
    let (address, thread) = server(2 + 2 + 1, move |stream, head| {
        if asked.fetch_add(1, Ordering::Relaxed) < 4 {
            node(stream, head);
        }
    });
    let hour = Duration::from_secs(3_600);
    let poller = Poller::start(client(&address), hour, Wants::default()).unwrap();
    let next = || {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if let Some(update) = poller.next().unwrap() {
                return update;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("no update");
    };
    assert!(matches!(next(), Update::Round(_)));
    let query = Query { filter: "sale".to_owned(), ..Query::default() };
    let wants = Wants { query, detail: None };
    poller.want(wants.clone());
    match next() {
        Update::Round(round) => assert_eq!(round.wants, wants),
        Update::Lost { why, .. } => panic!("{why}"),
    }
    poller.want(Wants::default());
    assert!(matches!(next(), Update::Lost { .. }));
    thread.join().unwrap();
}
