//! A bidder that decides nothing: 204 to most requests, the same small bid to every tenth, 204 to every notice, from one
//! readiness loop. What the hammer does against it is what the hammer itself can do.
//!
//! `cargo run --release -p hammer --example free_bidder -- 127.0.0.1:7798` serves until it is killed.

// An example may stop where something that cannot fail does, and it talks on standard output.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::io::{ErrorKind, Read, Write};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use serde_json::{Value, json};

const NO_BID: &[u8] = b"HTTP/1.1 204 No Content\r\n\r\n";

struct Conn {
    stream: TcpStream,
    input: Vec<u8>,
    filled: usize,
    out: Vec<u8>,
}

fn main() {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7798".into());
    let mut poll = Poll::new().unwrap();
    let mut listener = TcpListener::bind(address.parse().unwrap()).unwrap();
    poll.registry().register(&mut listener, Token(usize::MAX), Interest::READABLE).unwrap();
    println!("openrtb {}", listener.local_addr().unwrap());
    let mut conns: Vec<Conn> = Vec::new();
    let mut events = Events::with_capacity(1_024);
    let mut requests = 0;
    loop {
        poll.poll(&mut events, None).unwrap();
        for event in &events {
            if let Some(conn) = conns.get_mut(event.token().0) {
                serve(conn, &mut requests);
                continue;
            }
            while let Ok((mut stream, _)) = listener.accept() {
                stream.set_nodelay(true).unwrap();
                let interest = Interest::READABLE | Interest::WRITABLE;
                poll.registry().register(&mut stream, Token(conns.len()), interest).unwrap();
                conns.push(Conn { stream, input: vec![0; 1 << 18], filled: 0, out: Vec::new() });
            }
        }
    }
}

fn serve(conn: &mut Conn, requests: &mut u64) {
    loop {
        match conn.stream.read(&mut conn.input[conn.filled..]) {
            Ok(0) => return,
            Ok(n) => conn.filled += n,
            Err(e) if e.kind() == ErrorKind::WouldBlock => break,
            Err(_) => return,
        }
        let mut used = 0;
        while let Some(len) = answer(&conn.input[used..conn.filled], &mut conn.out, requests) {
            used += len;
        }
        conn.input.copy_within(used..conn.filled, 0);
        conn.filled -= used;
    }
    let mut sent = 0;
    while let Ok(n) = conn.stream.write(&conn.out[sent..]) {
        sent += n;
        if n == 0 || sent == conn.out.len() {
            break;
        }
    }
    conn.out.drain(..sent);
}

/// Answers the first whole request and returns its length.
fn answer(input: &[u8], out: &mut Vec<u8>, requests: &mut u64) -> Option<usize> {
    let mut headers = [httparse::EMPTY_HEADER; 16];
    let mut head = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(head_len) = head.parse(input).unwrap() else { return None };
    let header = head.headers.iter().find(|header| header.name == "Content-Length");
    let len: usize = header.map_or(0, |h| std::str::from_utf8(h.value).unwrap().parse().unwrap());
    let body = input.get(head_len..head_len + len)?;
    *requests += u64::from(len > 0);
    let is_bid = len > 0 && requests.is_multiple_of(10);
    // A compressed body is no JSON here: no bid.
    match is_bid.then(|| serde_json::from_slice(body)) {
        Some(Ok(request)) => {
            let answer = bid(&request);
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", answer.len());
            out.extend_from_slice(head.as_bytes());
            out.extend_from_slice(answer.as_bytes());
        }
        _ => out.extend_from_slice(NO_BID),
    }
    Some(head_len + len)
}

/// A bid far above any floor of the first impression, or `{}` for private auctions.
fn bid(request: &Value) -> String {
    let imp = &request["imp"][0];
    if imp["pmp"].is_object() {
        return "{}".into();
    }
    let url =
        |kind: &str| format!("http://bidder.example/n/{kind}/0123456789abcdef/${{AUCTION_PRICE}}");
    let bid = json!({
        "id": "b", "impid": imp["id"], "price": 20.5, "crid": "c", "cid": "1", "adm": "<b>\"ad\"</b>",
        "nurl": url("win"), "burl": url("bill")
    });
    json!({"id": request["id"], "seatbid": [{"bid": [bid]}]}).to_string()
}
