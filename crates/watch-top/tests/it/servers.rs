//! The client against servers that are slow, huge, broken, or not what they should be.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use watch_top::http::{Client, FetchError};
use watch_top::poll::{Poller, Update, round};
use watch_top::query::{Query, Wants};

use crate::canned;

/// Nothing here takes longer on a healthy machine, however busy.
const PATIENCE: Duration = Duration::from_secs(90);

fn client(address: &str) -> Client {
    Client::new(address, None).unwrap().with_wait(PATIENCE)
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

/// What the client makes of these bytes.
fn answer(bytes: &'static [u8]) -> Result<Value, FetchError> {
    let (address, thread) = server(1, move |stream, _| drop(stream.write_all(bytes)));
    let found = client(&address).get("/v1/node?x=1");
    thread.join().unwrap();
    found
}

fn ok(body: &Value) -> String {
    let body = body.to_string();
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

#[test]
fn bodies_of_every_framing_are_read() {
    let framings: [&'static [u8]; 5] = [
        b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{\"a\":1}",
        b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n{\"a\":1}and what nobody asked for",
        b"HTTP/1.0 200 OK\r\n\r\n{\"a\":1}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\n{\"a\r\n4\r\n\":1}\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\nContent-Length: 3\r\n\r\n07\r\n{\"a\":1}\r\n0\r\nX: y\r\n\r\n",
    ];
    for bytes in framings {
        assert_eq!(answer(bytes).unwrap(), json!({"a": 1}), "{}", bytes.escape_ascii());
    }
}

#[test]
fn a_question_is_one_request_with_its_token() {
    let (address, thread) = server(1, |stream, _| drop(stream.write_all(ok(&json!(1)).as_bytes())));
    let client = Client::new(&format!("http://{address}/"), Some("0123456789abcdef")).unwrap();
    let client = client.with_wait(PATIENCE);
    assert_eq!(client.get::<Value>("/v1/node").unwrap(), json!(1));
    let head = &thread.join().unwrap()[0];
    assert_eq!(
        head,
        &format!(
            "GET /v1/node HTTP/1.1\r\nHost: {address}\r\nAccept: application/json\r\n\
             Authorization: Bearer 0123456789abcdef\r\nConnection: close\r\n\r\n"
        )
    );
}

#[test]
fn garbage_is_explained() {
    let table: [(&'static [u8], &str); 9] = [
        (b"SSH-2.0-OpenSSH_10.2\r\n", "no HTTP answer"),
        (b"\x00\xff\x00\xff", "no HTTP answer"),
        (b"", "the connection ended"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", "the connection ended"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", "the connection ended"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n{}", "above"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n{}", "above"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
            "chunk without a length",
        ),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n",
            "longer than it says",
        ),
    ];
    for (bytes, expected) in table {
        let found = answer(bytes).unwrap_err().to_string();
        assert!(found.contains(expected), "{}: {found}", bytes.escape_ascii());
    }
    let chunk = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n{}";
    assert!(answer(chunk).unwrap_err().to_string().contains("above"));
}

#[test]
fn a_door_with_tls_is_recognised() {
    let found = answer(b"\x15\x03\x01\x00\x02\x02\x46").unwrap_err();
    assert!(matches!(found, FetchError::Tls { .. }), "{found}");
    assert!(found.to_string().contains("ssh tunnel"), "{found}");
}

#[test]
fn refusals_say_what_to_do() {
    let problem =
        b"HTTP/1.1 400 Bad Request\r\n\r\n{\"title\":\"malformed\",\"detail\":\"no column x\"}";
    let table: [(&'static [u8], &str); 5] = [
        (b"HTTP/1.1 401 Unauthorized\r\n\r\n", "name role token"),
        (b"HTTP/1.1 403 Forbidden\r\n\r\n{}", "may not read /v1/node;"),
        (b"HTTP/1.1 404 Not Found\r\n\r\nnot here", "has no /v1/node"),
        (problem, "400: no column x"),
        (b"HTTP/1.1 200 OK\r\n\r\n<html>", "another form"),
    ];
    for (bytes, expected) in table {
        let found = answer(bytes).unwrap_err().to_string();
        assert!(found.contains(expected), "{found}");
    }
}

#[test]
fn a_slow_server_is_given_up() {
    // One byte every now and then would keep a time-out of each read alive for ever.
    let drip = |stream: &mut TcpStream, _: &str| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        let began = Instant::now();
        while began.elapsed() < PATIENCE && stream.write_all(b" ").is_ok() {
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let (address, thread) = server(1, drip);
    let client = client(&address).with_wait(Duration::from_secs(1));
    let found = client.get::<Value>("/v1/node").unwrap_err();
    assert!(matches!(found, FetchError::Slow { .. }), "{found}");
    thread.join().unwrap();
}

#[test]
fn an_endless_answer_is_cut_off() {
    for head in ["HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nX: "] {
        let flood = move |stream: &mut TcpStream, _: &str| {
            let _ = stream.write_all(head.as_bytes());
            let block = [b' '; 1 << 16];
            // Ends when the client hangs up.
            while stream.write_all(&block).is_ok() {}
        };
        let (address, thread) = server(1, flood);
        let found = client(&address).get::<Value>("/v1/node").unwrap_err();
        assert!(matches!(found, FetchError::NotHttp { .. }), "{found}");
        thread.join().unwrap();
    }
}

#[test]
fn nobody_there_is_said() {
    // The near end of a connection: nobody listens there, and nobody else is given the port.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let found = client(&address).get::<Value>("/v1/node").unwrap_err();
    assert!(found.to_string().ends_with("is it running?"), "{found}");
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
