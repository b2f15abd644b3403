//! Bodies and answers of megabytes at the keys door: they arrive and leave in parts, whatever a client does meanwhile.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

use crate::full_disk::{SmallDisk, with_own_mounts};
use crate::keys::{Client, HELLO, audit, door, own_token, unsealed, write_secret};
use crate::keys_attacks::{TOKENS, of, with_tokens};
use crate::support::{Node, cores, over_transports, wait_for, wait_value};

/// More than a worker moves in one go.
const ITEMS: usize = 30_000;
const PATIENCE: Duration = Duration::from_secs(60);

fn body(items: usize) -> String {
    let items: Vec<Value> = (0..items).map(|_| json!({"plaintext": HELLO})).collect();
    json!({"batch_input": items}).to_string()
}

/// A connection with the head of an encrypt whose body has so many bytes.
fn begun(node: &Node, bytes: usize, token: &str) -> TcpStream {
    let mut wire = TcpStream::connect(door(node)).unwrap();
    wire.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!(
        "POST /v1/transit/encrypt/a HTTP/1.1\r\nHost: localhost\r\nX-Vault-Token: {token}\r\nContent-Length: {bytes}\r\n\r\n"
    );
    wire.write_all(head.as_bytes()).unwrap();
    wire
}

/// Reads one answer: its status and its body.
fn answer(wire: &mut impl Read) -> (u16, Vec<u8>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        wire.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let length = head.split("Content-Length: ").nth(1).unwrap().lines().next().unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    wire.read_exact(&mut body).unwrap();
    (status, body)
}

fn results(body: &[u8]) -> usize {
    let answer: Value = serde_json::from_slice(body).unwrap();
    answer["data"]["batch_results"].as_array().unwrap().len()
}

/// It comes in small parts, its answer is read late and slowly, and what was sent behind it is answered behind it; also where the client has
/// ended its side.
#[test]
fn a_large_call_comes_and_goes_in_parts_and_the_next_follows() {
    over_transports(unsealed, |node| {
        Client::to(node).encrypt("a", HELLO);
        let body = body(ITEMS);
        for ends in [false, true] {
            let mut wire = begun(node, body.len(), &own_token(&node.data()));
            for part in body.as_bytes().chunks(50_001) {
                wire.write_all(part).unwrap();
            }
            let next = "GET /v1/sys/health HTTP/1.1\r\nHost: localhost\r\n\r\n";
            wire.write_all(next.as_bytes()).unwrap();
            if ends {
                wire.shutdown(Shutdown::Write).unwrap();
            }
            let done = |line: &Value| line["items"] == ITEMS;
            let calls = 1 + usize::from(ends);
            wait_for("the call", || {
                audit(&node.data()).iter().filter(|l| done(l)).count() == calls
            });
            std::thread::sleep(Duration::from_millis(50));
            let mut lone = Client::to(node);
            lone.encrypt("a", HELLO);
            let (status, body) = answer(&mut wire);
            assert_eq!((status, results(&body)), (200, ITEMS));
            assert_eq!(answer(&mut wire).0, 200);
        }
    });
}

fn gathered(node: &Node) -> u64 {
    node.stat()["doors"]["keys"]["gathered"].as_u64().unwrap()
}

/// Whether a worker has room for a body that arrives in parts: one for which there is none is put together otherwise.
fn has_room(node: &Node, bytes: usize, token: &str) -> bool {
    let before = gathered(node);
    let mut wire = begun(node, bytes, token);
    wire.write_all(b"x").unwrap();
    // The door has seen the head before it answers a call that came later.
    Client::to(node).encrypt("a", HELLO);
    gathered(node) > before
}

/// Who goes away with half of a body, or of an answer, leaves nothing behind: neither a line of what was not done, nor what it held. While
/// they hold all the room others are served as ever.
#[test]
fn clients_that_vanish_give_their_room_back() {
    let node =
        unsealed().with("keys.body_bytes_max", "4000000").with("workers.cores", &cores(1)).start();
    let (token, bytes, body) = (own_token(&node.data()), 4_000_000, body(ITEMS));
    Client::to(&node).encrypt("a", HELLO);
    for _ in 0..3 {
        let mut held: Vec<TcpStream> = (0..4).map(|_| begun(&node, bytes, &token)).collect();
        held.iter_mut().for_each(|wire| wire.write_all(&[b' '; 300_000]).unwrap());
        wait_for("all room is taken", || !has_room(&node, bytes, &token));
        let mut other = begun(&node, body.len(), &token);
        other.write_all(body.as_bytes()).unwrap();
        let (status, answer) = answer(&mut other);
        assert_eq!((status, results(&answer)), (200, ITEMS));
        drop(held);
        wait_for("room again", || has_room(&node, bytes, &token));
    }
    assert_eq!(audit(&node.data()).iter().filter(|line| line["items"] != 1).count(), 3);
    for _ in 0..20 {
        let mut wire = begun(&node, body.len(), &token);
        wire.write_all(body.as_bytes()).unwrap();
        let mut start = [0; 1_000];
        wire.read_exact(&mut start).unwrap();
        assert!(start.starts_with(b"HTTP/1.1 200"), "{}", start.escape_ascii());
    }
    let most = || {
        let all: Vec<TcpStream> = (0..4).map(|_| begun(&node, bytes - 1, &token)).collect();
        let is_full = !has_room(&node, bytes, &token);
        drop(all);
        is_full
    };
    wait_for("room for four again", || {
        let before = gathered(&node);
        most() && gathered(&node) == before + 4
    });
}

/// A connection with the head of an encrypt whose body comes in chunks.
fn in_chunks(node: &Node, token: &str) -> TcpStream {
    in_chunks_to(node, "encrypt/a", token)
}

fn in_chunks_to(node: &Node, path: &str, token: &str) -> TcpStream {
    let mut wire = TcpStream::connect(door(node)).unwrap();
    wire.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!(
        "POST /v1/transit/{path} HTTP/1.1\r\nHost: localhost\r\nX-Vault-Token: {token}\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    wire.write_all(head.as_bytes()).unwrap();
    wire
}

fn chunk(wire: &mut TcpStream, bytes: &[u8]) -> std::io::Result<()> {
    wire.write_all(format!("{:x}\r\n", bytes.len()).as_bytes())?;
    wire.write_all(bytes)?;
    wire.write_all(b"\r\n")
}

/// A body of unknown size: small ones and large ones one after the other, on both transports; one that is too large; one that ends within itself; one
/// of somebody without a token, of which nothing is kept.
#[test]
fn bodies_in_chunks_are_answered_whatever_their_size_and_kept_for_nobody_without_a_token() {
    let setup = || unsealed().with("keys.body_bytes_max", "1500000");
    over_transports(setup, |node| {
        let token = own_token(&node.data());
        for items in [1, 3, 2_000, ITEMS] {
            let body = body(items);
            let mut wire = in_chunks(node, &token);
            body.as_bytes().chunks(9_001).for_each(|part| chunk(&mut wire, part).unwrap());
            chunk(&mut wire, b"").unwrap();
            let (status, answer) = answer(&mut wire);
            assert_eq!((status, results(&answer)), (200, items));
        }
        let lines = audit(&node.data());
        let items: Vec<&Value> = lines.iter().map(|line| &line["items"]).collect();
        assert_eq!(items, [1, 3, 2_000, ITEMS], "each has its line");
        let mut wire = in_chunks(node, &token);
        for _ in 0..30 {
            // Its door may have closed before all of it is sent.
            let _ = chunk(&mut wire, &[b' '; 60_000]);
        }
        // It is refused before it ends; its client may be cut off while it still sends.
        let mut start = [0; 12];
        match wire.read_exact(&mut start) {
            Ok(()) => assert_eq!(start.escape_ascii().to_string(), "HTTP/1.1 413"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        }
        let refused = node.stat()["doors"]["keys"]["refused_http"].clone();
        assert_eq!(refused, 1, "as too large");
        let mut wire = in_chunks(node, &token);
        chunk(&mut wire, &[b' '; 300_000]).unwrap();
        drop(wire);
        let mut wire = in_chunks(node, "nobody-123456789");
        assert_eq!(answer(&mut wire).0, 403);
        assert_eq!(wire.read(&mut [0]).unwrap(), 0, "it is closed");
        let mut last = Client::to(node);
        last.encrypt("a", HELLO);
        assert_eq!(audit(&node.data()).len(), 5, "of what was not whole is no line");
    });
}

/// Bodies in chunks that are begun and do not go on take all the room there is for such: who comes then is served otherwise. After a while they are
/// closed, and their room is there again.
#[test]
fn bodies_that_do_not_go_on_refuse_nobody_and_are_closed_after_a_while() {
    let node = unsealed()
        .with("keys.body_bytes_max", "4000000")
        .with("transport.partial_ms_max", "3000")
        .with("workers.cores", &cores(1))
        .start();
    let token = own_token(&node.data());
    Client::to(&node).encrypt("a", HELLO);
    let mut idle: Vec<TcpStream> = (0..4).map(|_| in_chunks(&node, &token)).collect();
    idle.iter_mut().for_each(|wire| chunk(wire, b"{").unwrap());
    wait_for("all room is taken", || !has_room(&node, 4_000_000, &token));
    let before = gathered(&node);
    for items in [1, ITEMS] {
        let mut wire = in_chunks(&node, &token);
        body(items).as_bytes().chunks(60_000).for_each(|part| chunk(&mut wire, part).unwrap());
        chunk(&mut wire, b"").unwrap();
        let (status, answer) = answer(&mut wire);
        assert_eq!((status, results(&answer)), (200, items));
    }
    assert_eq!(gathered(&node), before, "they were put together otherwise");
    for mut wire in idle {
        assert_eq!(wire.read(&mut [0]).unwrap_or(0), 0, "it is closed");
    }
    assert!(node.stat()["doors"]["keys"]["bodies_slow"].as_u64() >= Some(4));
    wait_for("room again", || has_room(&node, 4_000_000, &token));
    // One that comes slowly, and on, is not.
    let body = body(ITEMS);
    let mut slow = begun(&node, body.len(), &token);
    for part in body.as_bytes().chunks(body.len() / 8) {
        std::thread::sleep(Duration::from_millis(300));
        slow.write_all(part).unwrap();
    }
    assert_eq!(answer(&mut slow).0, 200);
}

/// Answers that nobody reads are kept in parts up to a bound; beyond it they are the transport's, which keeps less and closes the slowest.
#[test]
fn large_answers_that_nobody_reads_are_bounded() {
    let node = unsealed()
        .with("keys.body_bytes_max", "2000000")
        .with("transport.output_total_bytes_max", "8000000")
        .with("workers.cores", &cores(1))
        .start();
    let token = own_token(&node.data());
    Client::to(&node).encrypt("a", HELLO);
    let body = body(ITEMS);
    let mut unread = Vec::new();
    for number in 1..=24 {
        let mut wire = begun(&node, body.len(), &token);
        wire.write_all(body.as_bytes()).unwrap();
        let done = || audit(&node.data()).iter().filter(|line| line["items"] == ITEMS).count();
        wait_for("the call", || done() == number);
        unread.push(wire);
    }
    wait_for("some to be closed", || node.stat()["transport"]["closed"]["overload"] != 0);
    Client::to(&node).encrypt("a", HELLO);
}

/// A token is asked for with the head, and once more when the body is whole.
#[test]
fn a_large_body_has_to_be_allowed_from_its_head_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let node = with_tokens(folder.path()).start();
    let mut all = of(&node, "all-0123456789ab");
    all.data("POST", "transit/keys/a", &json!({}));
    let mut wire = begun(&node, 1_000_000, "nobody-123456789");
    assert_eq!(answer(&mut wire).0, 403);
    assert_eq!(wire.read(&mut [0]).unwrap(), 0, "it is closed");
    let body = body(ITEMS);
    let mut wire = begun(&node, body.len(), "all-0123456789ab");
    let (first, rest) = body.as_bytes().split_at(300_000);
    wire.write_all(first).unwrap();
    write_secret(&folder.path().join("tokens"), &TOKENS.replace("all keys all", "all keys new"));
    node.signal("HUP");
    wait_for("the new file", || all.ask("GET", "transit/keys/a", "").status == 403);
    wire.write_all(rest).unwrap();
    assert_eq!(answer(&mut wire).0, 403);
}

/// The audit can be written when the head of a call comes, and not when its body ends.
#[test]
fn a_call_that_ends_when_the_audit_cannot_be_written_is_not_done() {
    let name = "keys_large::a_call_that_ends_when_the_audit_cannot_be_written_is_not_done";
    with_own_mounts(name, || {
        let setup = unsealed();
        let _disk = SmallDisk::at(setup.data(), (1 << 30) + (64 << 20));
        let node = setup.start();
        let mut client = Client::to(&node);
        client.encrypt("a", HELLO);
        let mut wire = in_chunks_to(&node, "keys/a/rotate", &own_token(&node.data()));
        chunk(&mut wire, b"{").unwrap();
        client.encrypt("a", HELLO);
        let filler = node.data().join("filler");
        std::fs::write(&filler, vec![7; 64 << 20]).unwrap();
        node.wait_stat("the alarm", |stat| stat["doors"]["keys"]["audit_failures"] == 1);
        chunk(&mut wire, b"}").unwrap();
        chunk(&mut wire, b"").unwrap();
        let (status, errors) = answer(&mut wire);
        assert_eq!(status, 503, "{}", errors.escape_ascii());
        std::fs::remove_file(&filler).unwrap();
        let key = wait_value("the audit", || {
            let answer = client.ask("GET", "transit/keys/a", "");
            (answer.status == 200).then_some(answer)
        });
        assert_eq!(key.json()["data"]["latest_version"], 1, "it was not rotated");
    });
}

/// A stop waits until an answer has left.
#[test]
fn a_stop_lets_a_large_answer_leave() {
    let mut node = unsealed().start();
    Client::to(&node).encrypt("a", HELLO);
    let body = body(ITEMS);
    let mut wire = begun(&node, body.len(), &own_token(&node.data()));
    wire.write_all(body.as_bytes()).unwrap();
    wait_for("the call", || audit(&node.data()).iter().any(|line| line["items"] == ITEMS));
    node.interrupt();
    std::thread::sleep(Duration::from_millis(100));
    let (status, body) = answer(&mut wire);
    assert_eq!((status, results(&body)), (200, ITEMS));
    drop(wire);
    assert!(node.wait_end().success());
}
