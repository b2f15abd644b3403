//! Many who say nothing, and few who do not listen: others are served and memory stays bounded.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use wire::{DecideFlags, Verdict};

use crate::client::{
    Client, Reply, ask, books_frame, decide_frame, fresh_id, hello_frame, ping_frame,
};
use crate::support::{Node, PATIENCE, Setup, line, over_transports};

/// What a node may take in all of these cases.
const RESIDENT_BYTES_MAX: u64 = 256 << 20;
/// Marks the process that has the descriptors for a crowd.
const CROWD: &str = "WEIRTEST_CROWD";

fn check_memory(node: &Node, what: &str) {
    let bytes = node.resident_bytes();
    println!("{what}: {} MiB", bytes >> 20);
    assert!(bytes < RESIDENT_BYTES_MAX, "{what}: {} MiB", bytes >> 20);
}

/// This test once more in a process that may have as many descriptors as the system allows: std cannot raise the
/// limit of the process it runs in.
#[test]
fn ten_thousand_silent_connections() {
    let script =
        "ulimit -S -n $(ulimit -H -n); exec \"$0\" --ignored --exact --nocapture crowds::crowd";
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(std::env::current_exe().unwrap()).env(CROWD, "1");
    let output = command.stdin(Stdio::null()).output().unwrap();
    let (said, errors) = (crate::support::stdout(&output), crate::support::stderr(&output));
    assert!(output.status.success(), "{said}{errors}");
    assert!(said.contains("1 passed"), "{said}");
    print!("{said}");
}

#[test]
#[ignore = "run by ten_thousand_silent_connections, with more descriptors"]
fn crowd() {
    if std::env::var(CROWD).is_err() {
        return;
    }
    let setup = || Setup::new(&line(1, "1000", "")).with_all_descriptors();
    over_transports(setup, |node| {
        let mut live = node.client();
        let mut crowd = Vec::new();
        while crowd.len() < 10_000 {
            match std::net::TcpStream::connect(node.batch) {
                Ok(stream) => crowd.push(stream),
                Err(error) => {
                    println!("no more than {} connections here: {error}", crowd.len());
                    break;
                }
            }
        }
        // The admin door, which is asked below, needs some too.
        crowd.truncate(crowd.len() - usize::from(crowd.len() < 10_000) * 100);
        assert!(crowd.len() >= 500, "{} connections are no crowd", crowd.len());
        let count = u64::try_from(crowd.len()).unwrap();
        node.wait_stat("the crowd", |s| s["doors"]["batch"]["connections"] == count + 1);
        let start = Instant::now();
        for _ in 0..100 {
            assert_ne!(live.verdict(1, 1), Verdict::UnknownBudget);
        }
        println!("{count} silent, 100 asks in {} ms", start.elapsed().as_millis());
        let mut newcomer = node.client();
        newcomer.ping();
        check_memory(node, "silent connections");
        drop(crowd);
        node.wait_stat("the crowd's end", |s| s["doors"]["batch"]["connections"] == 2);
        live.ping();
    });
}

/// Accepting pauses and is counted; those who are in are served, and it goes on once there is room.
#[test]
fn a_node_without_descriptors_serves_those_it_has() {
    let setup = || Setup::new("").with_descriptors("64");
    over_transports(setup, |node| {
        let mut live = node.client();
        let crowd: Vec<_> =
            (0..100).map(|_| std::net::TcpStream::connect(node.batch).unwrap()).collect();
        for _ in 0..50 {
            live.ping();
        }
        // Behind the crowd nobody is let in; the admin door cannot be asked either.
        let mut behind = node.stranger();
        behind.send(&hello_frame((1, 1), 1, b""));
        behind.stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        assert!(std::io::Read::read(&mut behind.stream, &mut [0]).is_err(), "no room, no answer");
        live.ping();
        drop(crowd);
        behind.stream.set_read_timeout(Some(PATIENCE)).unwrap();
        assert!(matches!(behind.receive(), Reply::Welcome { .. }));
        assert!(node.door()["accept_backoffs"].as_u64() > Some(0));
    });
}

#[test]
fn silent_connections_are_closed_in_time() {
    let setup = || Setup::new("").with("transport.idle_ms_max", "300");
    over_transports(setup, |node| {
        let mut silent: Vec<Client> = (0..20).map(|_| node.stranger()).collect();
        silent.extend((0..20).map(|_| node.client()));
        for client in &mut silent {
            client.expect_end();
        }
        node.wait_closed("idle", 40);
    });
}

#[test]
fn one_connection_too_many_is_closed_and_counted() {
    let setup = || Setup::new("").with("transport.connections_max", "3");
    over_transports(setup, |node| {
        let mut clients: Vec<Client> = (0..3).map(|_| node.client()).collect();
        node.stranger().expect_end();
        node.wait_stat("the refusal", |s| s["doors"]["batch"]["refused_full"] == 1);
        clients.iter_mut().for_each(Client::ping);
        clients.pop();
        node.wait_stat("a free place", |s| s["doors"]["batch"]["connections"] == 2);
        node.client().ping();
    });
}

/// Writes `bytes` again and again until the node, which reads no more, ends the connection.
fn flood(mut writer: std::net::TcpStream, bytes: &[u8], bytes_max: usize) -> usize {
    writer.set_write_timeout(Some(PATIENCE)).unwrap();
    let mut sent = 0;
    while sent < bytes_max {
        // A frame that was cut goes on where it was cut.
        match writer.write(&bytes[sent % bytes.len()..]) {
            Ok(count) => sent += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    sent
}

#[test]
fn whoever_never_reads_is_paused_and_then_closed() {
    let setup = || Setup::new(&line(1, "1000", "")).with("transport.stalled_ms_max", "1000");
    over_transports(setup, |node| {
        let mut bystander = node.client();
        let deaf = node.client();
        let asks: Vec<_> = (0..100).map(|_| ask(fresh_id(), 404, 1)).collect();
        let frame = decide_frame(1, DecideFlags::default(), &asks);
        let sent = flood(deaf.writer(), &frame, 512 << 20);
        assert!(sent < 512 << 20, "the node stops reading");
        let door = node.door();
        assert!(door["reads_paused"].as_u64() > Some(0), "{door:#}");
        bystander.ping();
        node.wait_closed("stalled", 1);
        node.wait_stat("its memory", |s| s["doors"]["batch"]["output_bytes_waiting"] == 0);
        check_memory(node, "a client that never reads");
        bystander.ping();
    });
}

#[test]
fn questions_of_whoever_never_reads_cost_bounded_memory() {
    let setup = || {
        let lines: String = (1..=1_000).map(|id| line(id, "1", "")).collect();
        Setup::new(&lines).with("transport.stalled_ms_max", "1000")
    };
    over_transports(setup, |node| {
        let mut bystander = node.client();
        let deaf = node.client();
        // Each of these small frames wants an answer of 60 kB.
        let questions: Vec<u8> = (0..1_000).flat_map(|n| books_frame(n, 0, 1_000)).collect();
        let sent = flood(deaf.writer(), &questions, questions.len() * 20);
        println!("{sent} bytes of questions");
        for _ in 0..20 {
            bystander.ping();
            check_memory(node, "questions");
            std::thread::sleep(Duration::from_millis(20));
        }
        node.wait_closed("stalled", 1);
        bystander.books(0, 1);
    });
}

#[test]
fn all_who_never_read_together_are_bounded_too() {
    let setup = || {
        Setup::new("")
            .with("transport.stalled_ms_max", "2000")
            .with("transport.output_total_bytes_max", "4000000")
    };
    over_transports(setup, |node| {
        let deaf: Vec<Client> = (0..30).map(|_| node.client()).collect();
        let pings: Vec<u8> = (0..10_000).flat_map(ping_frame).collect();
        std::thread::scope(|scope| {
            for client in &deaf {
                let writer = client.writer();
                scope.spawn(|| flood(writer, &pings, 64 << 20));
            }
            for _ in 0..20 {
                let waiting = node.door()["output_bytes_waiting"].as_u64().unwrap();
                assert!(waiting < 40_000_000, "{waiting} bytes wait, 4,000,000 allowed");
                std::thread::sleep(Duration::from_millis(30));
            }
        });
        check_memory(node, "thirty who never read");
        // What was under way when reading stopped is bounded, too: whoever passes that bound goes sooner.
        node.wait_stat("their end", |stat| {
            let closed = &stat["doors"]["batch"]["closed"];
            let count = |reason: &str| closed[reason].as_u64().unwrap_or(0);
            count("stalled") + count("overload") == 30
        });
        node.client().ping();
    });
}
