//! Venues that do not let the node in, and what it sends them in which order.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::operating::wait_state;
use super::reloads::reloads;
use super::{Client, SESSION, field, setup};
use crate::support::{Node, Setup, over_transports, wait_for};

/// A client of a venue, which is at the first of these addresses that lets the node in.
pub(super) fn with_venue(addresses: &[SocketAddr], more: &str) -> Setup {
    let addresses: Vec<String> = addresses.iter().map(|address| format!("\"{address}\"")).collect();
    let venue = format!(
        "[[fix.venue]]\nname = \"venue1\"\nsender_comp_id = \"GATE\"\ntarget_comp_id = \"VENUE\"\nconnect = [{}]\n{more}",
        addresses.join(", ")
    );
    setup(&format!("{}{venue}", SESSION.replace("echo", "venue1")))
}

pub(super) fn listeners<const COUNT: usize>() -> ([TcpListener; COUNT], Vec<SocketAddr>) {
    let listeners = [(); COUNT].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let addresses = listeners.iter().map(|listener| listener.local_addr().unwrap()).collect();
    (listeners, addresses)
}

/// The connection of the node, and its Logon.
pub(super) fn accept(listener: &TcpListener, next_out: u64) -> Client {
    let stream = listener.accept().unwrap().0;
    let mut venue = Client { next_out, ..Client::over(stream, ("VENUE", "GATE")) };
    let logon = venue.receive().expect("a Logon");
    assert_eq!(field(&logon, "35"), "A", "{logon}");
    venue
}

#[test]
fn after_a_failed_logon_the_next_address_is_tried() {
    let ([closes, refuses, lies, lets_in], addresses) = listeners();
    let node = with_venue(&addresses, "").start();
    drop(accept(&closes, 1));
    let mut venue = accept(&refuses, 1);
    venue.send("5", "58=not here|");
    while venue.receive().is_some() {}
    let mut venue = accept(&lies, 2);
    venue.ids = ("ANOTHER", "GATE");
    venue.send("A", "98=0|108=30|");
    while venue.receive().is_some() {}
    let mut client = Client::log_on(&node, 1);
    client.order("early");
    let told = client.receive_message();
    assert_eq!(["35", "380"].map(|tag| field(&told, tag)), ["j", "4"], "{told}");
    let mut venue = accept(&lets_in, 2);
    venue.send("A", "98=0|108=30|");
    node.wait_stat("both", |stat| stat["doors"]["fix"]["logons"] == 2);
    client.order("first");
    assert_eq!(field(&venue.receive_message(), "11"), "first");
    let log = node.log();
    assert!(log.contains("a venue ended the connection in place of answering our Logon"), "{log}");
    drop(client);
    wait_for("the log", || node.log().contains("is gone without a Logout session=\"CLIENT1\""));
}

/// A venue is dialled when its schedule has it open, and not before.
#[test]
fn a_venue_that_is_closed_is_not_dialled() {
    let ([listener], addresses) = listeners();
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let hour = |later: u64| (seconds / 3_600 + later) % 24;
    let schedule = format!("schedule = \"mon-sun {:02}:00-{:02}:00 UTC\"\n", hour(2), hour(3));
    let setup = with_venue(&addresses, &schedule);
    let config = setup.folder().join("weir.toml");
    let node = setup.start();
    wait_state(&node, "venue1", "out_of_schedule");
    std::thread::sleep(Duration::from_millis(1_500));
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    listener.set_nonblocking(false).unwrap();
    let text = std::fs::read_to_string(&config).unwrap().replace(&schedule, "");
    reloads(&node, &text);
    let mut venue = accept(&listener, 1);
    venue.send("A", "98=0|108=30|");
    wait_state(&node, "venue1", "logged_on");
}

/// Waits grow whatever the venue says over its connections, and only a logon makes them short again.
#[test]
fn a_venue_that_takes_connections_and_refuses_logons_is_not_dialled_in_a_tight_loop() {
    let ([listener], addresses) = listeners();
    let node = with_venue(&addresses, "").start();
    let mut first = None;
    for seq in 1..7 {
        let mut venue = accept(&listener, seq);
        first.get_or_insert_with(Instant::now);
        venue.send("5", "58=not today|");
        while venue.receive().is_some() {}
    }
    let mut venue = accept(&listener, 7);
    // Six waits of at least half of 0.1 to 3.2 s. A machine that is busy makes them longer.
    let waited = first.unwrap().elapsed();
    assert!(waited >= Duration::from_millis(3_100), "{waited:?}");
    venue.send("A", "98=0|108=30|");
    node.wait_stat("the venue", |stat| stat["doors"]["fix"]["logons"] == 1);
}

/// Has the node find in one wake-up what is written while it does not run.
fn at_once(node: &Node, write: impl FnOnce()) {
    node.signal("STOP");
    write();
    node.signal("CONT");
}

#[test]
fn orders_that_pass_while_the_venue_speaks_leave_in_the_order_of_their_numbers() {
    let ([listener], addresses) = listeners();
    let node = with_venue(&addresses, "").start();
    let mut venue = accept(&listener, 1);
    venue.send("A", "98=0|108=30|");
    let mut client = Client::log_on(&node, 1);
    node.wait_stat("both", |stat| stat["doors"]["fix"]["logons"] == 2);
    let mut last = 1;
    for round in 0..20 {
        let id = format!("order-{round}");
        at_once(&node, || {
            // Who speaks first is met first.
            if round % 2 == 0 {
                client.order(&id);
            }
            venue.send("1", "112=are you there|");
            venue.send("2", &format!("7={last}|16=0|"));
            if round % 2 == 1 {
                client.order(&id);
            }
        });
        let (mut has_order, mut has_answer) = (false, false);
        while !(has_order && has_answer) {
            let message = venue.receive().expect("a message");
            let seq: u64 = field(&message, "34").parse().unwrap();
            if message.contains("|43=Y|") {
                assert!(seq <= last, "{seq} again, and never before: {message}");
                continue;
            }
            assert_eq!(seq, last + 1, "{message}");
            last = seq;
            has_order |= message.contains(&format!("|11={id}|"));
            has_answer |= message.contains("|112=are you there|");
        }
    }
}

#[test]
fn a_client_that_never_reads_is_disconnected_and_gets_everything_by_a_gap() {
    let ([listener], addresses) = listeners();
    let setup = || {
        let setup = with_venue(&addresses, "durability = \"written\"\n");
        let config = setup.folder().join("weir.toml");
        let text = std::fs::read_to_string(&config).unwrap();
        let small = "durability = \"written\"\noutbound_bytes_max = 65536\n[[fix.venue]]";
        std::fs::write(&config, text.replace("[[fix.venue]]", small)).unwrap();
        // Only the limit ends it.
        setup.with("transport.stalled_ms_max", "600000")
    };
    over_transports(setup, |node| {
        let mut venue = accept(&listener, 1);
        venue.send("A", "98=0|108=30|");
        let mut client = Client::log_on(node, 1);
        node.wait_stat("both", |stat| stat["doors"]["fix"]["logons"] == 2);
        client.order("mine");
        venue.receive_message();
        let text = "x".repeat(20_000);
        let mut sent = 0;
        // Buffers of the kernel on both sides take some MiB before the node has to keep anything.
        while node.stat()["doors"]["fix"]["unread"] == 0 {
            assert!(sent < 6_000, "120 MB are unread, and the client is still there");
            for _ in 0..50 {
                sent += 1;
                venue.send("8", &format!("11=mine|17=E{sent}|150=0|39=0|58={text}|"));
            }
        }
        wait_state(node, "CLIENT1", "waiting");
        drop(client);
        let mut client = Client::log_on(node, 3);
        client.send("2", "7=2|16=0|");
        // The last ones may come for the first time meanwhile.
        let mut reports = HashSet::new();
        while reports.len() < sent {
            reports.insert(field(&client.receive_message(), "17"));
        }
    });
}
