//! Over plain HTTP.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use admin_client::{Client, FetchError};
use serde_json::{Value, json};

use crate::doors::{PATIENCE, SECRET, answer, client, server};

#[test]
fn bodies_of_every_framing_are_read() {
    let framings: [&'static [u8]; 5] = [
        b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{\"a\":1}",
        b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n{\"a\":1}and what nobody asked for",
        b"HTTP/1.0 200 OK\r\n\r\n{\"a\":1}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\n{\"a\r\n4\r\n\":1}\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n07\r\n{\"a\":1}\r\n0\r\nX: y\r\n\r\n",
    ];
    for bytes in framings {
        assert_eq!(answer(bytes).unwrap(), json!({"a": 1}), "{}", bytes.escape_ascii());
    }
}

#[test]
fn a_request_carries_its_token_and_nothing_is_kept() {
    let ok = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1";
    let (address, thread) = server(2, move |stream, _| drop(stream.write_all(ok)));
    let client = client(&format!("http://{address}/"));
    for _ in 0..2 {
        // Each on a connection of its own: the server would wait for ever on the first.
        assert_eq!(client.get::<Value>("/v1/node?a=%20").unwrap(), json!(1));
    }
    let head = thread.join().unwrap()[0].to_lowercase();
    assert!(head.starts_with("get /v1/node?a=%20 http/1.1\r\n"), "{head}");
    for expected in [
        &format!("host: {address}"),
        &format!("authorization: bearer {SECRET}"),
        "connection: close",
    ] {
        assert!(head.contains(&format!("\r\n{expected}\r\n")), "{expected} is not in {head}");
    }
}

#[test]
fn garbage_is_explained() {
    let table: [(&'static [u8], &str); 9] = [
        (b"SSH-2.0-OpenSSH_10.2\r\n", "is this the admin door of a node?"),
        (b"\x00\xff\x00\xff", "is this the admin door of a node?"),
        (b"", "the connection ended"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", "the connection ended"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", "the connection ended"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n{}", "is this the admin door of a node?"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9999999999\r\n\r\n{}", "bytes; is this"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
            "is this the admin door of a node?",
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}\xff", "another form"),
    ];
    for (bytes, expected) in table {
        let found = answer(bytes).unwrap_err().to_string();
        assert!(found.contains(expected), "{}: {found}", bytes.escape_ascii());
    }
}

#[test]
fn a_plain_question_to_a_door_with_tls_is_recognised() {
    let found = answer(b"\x15\x03\x01\x00\x02\x02\x46").unwrap_err();
    assert!(matches!(found, FetchError::SpeaksTls { .. }), "{found}");
    assert!(found.to_string().contains("--target https://127.0.0.1:"), "{found}");
}

#[test]
fn refusals_say_what_to_do() {
    let problem = b"HTTP/1.1 400 Bad Request\r\n\r\n{\"title\":\"malformed\",\"detail\":\"no \x1b[2Jcolumn x\"}";
    let missing = b"HTTP/1.1 404 Not Found\r\n\r\n{\"detail\":\"there is no budget 9\"}";
    let spend =
        b"HTTP/1.1 404 Not Found\r\n\r\n{\"title\":\"no such path\",\"verdict\":\"malformed\"}";
    let table: [(&'static [u8], &str); 8] = [
        (missing, "there is no budget 9 at 127.0.0.1:"),
        (b"HTTP/1.1 401 Unauthorized\r\n\r\n", "does not know the token in the test"),
        (b"HTTP/1.1 403 Forbidden\r\n\r\n{}", "the role read or operate"),
        (b"HTTP/1.1 404 Not Found\r\n\r\nnot here", "has no /v1/node: it is not the admin door"),
        (spend, "has no /v1/node: it is not the admin door"),
        (problem, "400: no reason given"),
        (b"HTTP/1.1 503 Busy\r\n\r\n{\"detail\":\"no \\u001b[2Jcolumn x\"}", "503: no [2Jcolumn x"),
        (b"HTTP/1.1 200 OK\r\n\r\n<html>", "another form"),
    ];
    for (bytes, expected) in table {
        let found = answer(bytes).unwrap_err().to_string();
        assert!(found.contains(expected), "{found}");
    }
}

#[test]
fn a_redirect_is_told_and_not_followed() {
    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    elsewhere.set_nonblocking(true).unwrap();
    let to = elsewhere.local_addr().unwrap();
    for status in [301, 302, 303, 307, 308] {
        let head = format!(
            "HTTP/1.1 {status} X\r\nLocation: http://{to}/v1/node\r\nContent-Length: 0\r\n\r\n"
        );
        let (address, thread) = server(1, move |stream, _| drop(stream.write_all(head.as_bytes())));
        let found = client(&address).get::<Value>("/v1/node").unwrap_err();
        assert!(matches!(found, FetchError::Redirect { .. }), "{found}");
        assert!(found.to_string().contains(&to.to_string()), "{found}");
        thread.join().unwrap();
    }
    // Nobody has come there, with the token or without.
    assert_eq!(elsewhere.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn a_slow_server_is_given_up() {
    // One byte every now and then would keep a time-out of each read alive for ever.
    for head in ["HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nX: "] {
        let drip = move |stream: &mut TcpStream, _: &str| {
            let _ = stream.write_all(head.as_bytes());
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
}

#[test]
fn a_server_that_never_answers_is_given_up() {
    // The kernel takes the connection; nobody reads it.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let client = client(&address).with_wait(Duration::from_millis(300));
    let found = client.get::<Value>("/v1/node").unwrap_err();
    assert!(found.to_string().contains("no whole answer to /v1/node within 300 ms"), "{found}");
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
        assert!(matches!(found, FetchError::TooLong { .. }), "{found}");
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
    assert!(matches!(found, FetchError::Unreachable { .. }), "{found}");
}

#[test]
fn a_proxy_of_the_environment_never_sees_the_token() {
    // In a process of its own: the environment belongs to all tests of this one.
    if let Ok(target) = std::env::var("ADMIN_CLIENT_TEST_TARGET") {
        let client = Client::new(target.parse().unwrap(), Some(crate::doors::token()), None);
        assert_eq!(client.with_wait(PATIENCE).get::<Value>("/x").unwrap(), json!(1));
        return;
    }
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    proxy.set_nonblocking(true).unwrap();
    let url = format!("http://{}", proxy.local_addr().unwrap());
    let ok = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1";
    let (address, thread) = server(1, move |stream, _| drop(stream.write_all(ok)));
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "plain::a_proxy_of_the_environment_never_sees_the_token"]);
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"] {
        child.env(name, &url);
    }
    let child = child.env("ADMIN_CLIENT_TEST_TARGET", &address).output().unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
    thread.join().unwrap();
    assert_eq!(proxy.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}
