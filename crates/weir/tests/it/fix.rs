//! The FIX door of a node: clients log on, are echoed, and go on after a crash where they were.

mod checkpoints;
mod kills;
mod operating;
mod passwords;
mod prices;
mod reloads;
mod secured;
mod stopped;
mod tool;
mod venues;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use crate::support::{
    Node, PATIENCE, Setup, cores, line, output, over_transports, stderr, text, weir,
};

const SESSION: &str = "[[fix.session]]\nsender_comp_id = \"GATE\"\ntarget_comp_id = \"CLIENT1\"\n\
                       limits = \"none\"\nroute = \"echo\"\n";

fn setup(config: &str) -> Setup {
    let setup = Setup::new(&line(1, "10", ""));
    std::fs::write(setup.folder().join("weir.toml"), config).unwrap();
    setup
}

fn door(node: &Node) -> SocketAddr {
    let line = node.said.iter().find_map(|line| line.strip_prefix("fix "));
    line.unwrap_or_else(|| panic!("no FIX door: {:?}", node.said)).parse().unwrap()
}

/// A connection, with TLS or without.
trait Stream: Read + Write {}

impl<S: Read + Write> Stream for S {}

/// The other side of a session: a client's, or a venue's.
struct Client {
    stream: Box<dyn Stream>,
    /// Its own end.
    address: SocketAddr,
    input: Vec<u8>,
    next_out: u64,
    /// What its messages say of sender and target.
    ids: (&'static str, &'static str),
}

impl Client {
    fn connect(node: &Node) -> Client {
        Client::over(TcpStream::connect(door(node)).unwrap(), ("CLIENT1", "GATE"))
    }

    fn over(stream: TcpStream, ids: (&'static str, &'static str)) -> Client {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let address = stream.local_addr().unwrap();
        Client { stream: Box::new(stream), address, input: Vec::new(), next_out: 1, ids }
    }

    /// A venue to which the node has just connected and said its Logon, which is answered.
    fn venue(listener: &TcpListener) -> Client {
        let mut venue = Client::over(listener.accept().unwrap().0, ("VENUE", "GATE"));
        let logon = venue.receive().expect("a Logon");
        assert!(logon.contains("|35=A|") && logon.contains("|108=30|"), "{logon}");
        venue.send("A", "98=0|108=30|");
        venue
    }

    /// A client whose Logon was answered; its numbers go on at `next_out`.
    fn log_on(node: &Node, next_out: u64) -> Client {
        let mut client = Client { next_out, ..Client::connect(node) };
        client.send("A", "98=0|108=30|");
        let answer = client.receive().expect("a Logon");
        assert!(answer.contains("|35=A|"), "{answer}");
        client
    }

    fn send(&mut self, kind: &str, body: &str) {
        self.send_bytes(kind, body.replace('|', "\x01").as_bytes());
    }

    fn send_bytes(&mut self, kind: &str, body: &[u8]) {
        let bytes = self.message(kind, body);
        self.stream.write_all(&bytes).unwrap();
    }

    /// The bytes of its next message.
    fn message(&mut self, kind: &str, body: &[u8]) -> Vec<u8> {
        let seq = self.next_out;
        self.next_out += 1;
        let (sender, target) = self.ids;
        let header = format!("35={kind}|34={seq}|49={sender}|52={}|56={target}|", now());
        let head = format!("8=FIX.4.4|9={}|{header}", header.len() + body.len());
        let mut bytes = head.replace('|', "\x01").into_bytes();
        bytes.extend_from_slice(body);
        let sum: u32 = bytes.iter().copied().map(u32::from).sum();
        bytes.extend_from_slice(format!("10={:03}\x01", sum % 256).as_bytes());
        bytes
    }

    fn order(&mut self, id: &str) {
        let body = format!("11={id}|21=1|55=ACME|54=1|60={}|38=100|40=2|44=10|", now());
        self.send("D", &body);
    }

    /// The next message, with bars for its delimiters; `None` once the node has closed the connection.
    fn receive(&mut self) -> Option<String> {
        loop {
            let sum = self.input.windows(4).position(|part| part == b"\x0110=");
            if let Some(at) = sum.filter(|at| self.input.len() >= at + 8) {
                let message: Vec<u8> = self.input.drain(..at + 8).collect();
                return Some(String::from_utf8_lossy(&message).replace('\x01', "|"));
            }
            let mut piece = [0; 4_096];
            match self.stream.read(&mut piece) {
                Ok(0) | Err(_) => return None,
                Ok(read) => self.input.extend_from_slice(&piece[..read]),
            }
        }
    }

    /// The next message that is no Heartbeat.
    fn receive_message(&mut self) -> String {
        loop {
            let message = self.receive().expect("a message");
            if !message.contains("|35=0|") {
                return message;
            }
        }
    }
}

/// SendingTime of now, from the system's own clock.
fn now() -> String {
    let ms =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    let instant = money::Instant::from_ms(u64::try_from(ms).unwrap()).to_string();
    let [date, time] = instant.trim_end_matches('Z').split('T').collect::<Vec<_>>()[..] else {
        panic!("{instant}")
    };
    let time = if time.contains('.') { time.to_owned() } else { format!("{time}.000") };
    format!("{}-{}", date.replace('-', ""), &time[..12])
}

fn field(message: &str, tag: &str) -> String {
    let start =
        message.find(&format!("|{tag}=")).unwrap_or_else(|| panic!("no {tag} in {message}"));
    message[start + tag.len() + 2..].split('|').next().unwrap().to_owned()
}

#[test]
fn a_client_logs_on_is_echoed_and_logs_out() {
    let node = setup(SESSION).start();
    let mut client = Client::log_on(&node, 1);
    client.order("first");
    let echo = client.receive_message();
    assert!(echo.contains("|35=D|") && field(&echo, "11") == "first", "{echo}");
    assert_eq!((field(&echo, "49"), field(&echo, "56")), ("GATE".into(), "CLIENT1".into()));
    client.send("1", "112=ping|");
    let pong = client.receive().expect("a Heartbeat");
    assert_eq!((field(&pong, "35"), field(&pong, "112")), ("0".into(), "ping".into()));
    client.send("5", "");
    assert!(client.receive_message().contains("|35=5|"));
    assert_eq!(client.receive(), None, "the node closes");
    node.wait_stat("a logon", |stat| stat["doors"]["fix"]["logons"] == 1);
}

#[test]
fn strangers_and_second_connections_are_told_nothing() {
    let node = setup(SESSION).start();
    let _first = Client::log_on(&node, 1);
    let mut second = Client::connect(&node);
    second.send("A", "98=0|108=30|");
    assert_eq!(second.receive(), None);
    let mut stranger = Client::connect(&node);
    stranger.stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    assert_eq!(stranger.receive(), None);
    node.wait_stat("two refused", |stat| stat["doors"]["fix"]["refused_logons"] == 2);
    // Another name is told nothing, either, and the operator which it was. A line of the log is one, whatever the name is.
    let mut wrong = Client { ids: ("CLIENT\n7", "GATE"), ..Client::connect(&node) };
    wrong.send("A", "98=0|108=30|");
    assert_eq!(wrong.receive(), None);
    node.wait_stat("three refused", |stat| stat["doors"]["fix"]["refused_logons"] == 3);
    let log = node.log();
    let lines: Vec<&str> =
        log.lines().filter(|line| line.contains("a Logon was refused")).collect();
    let [second, wrong] = lines[..] else { panic!("{log}") };
    assert!(second.contains("WARN") && second.contains("has a connection already"), "{second}");
    for part in ["no session has", r"CLIENT\n7", "GATE", "127.0.0.1"] {
        assert!(wrong.contains(part), "{part} is not in {wrong}");
    }
}

#[test]
fn after_a_kill_numbers_go_on_and_what_was_missed_is_sent_again() {
    for durability in ["written", "sealed"] {
        let config = format!("{SESSION}durability = \"{durability}\"\n");
        let node = setup(&config).start();
        let mut client = Client::log_on(&node, 1);
        for id in ["a", "b", "c"] {
            client.order(id);
            assert_eq!(field(&client.receive_message(), "11"), id);
        }
        let node = node.restart();
        let mut client = Client { next_out: 5, ..Client::connect(&node) };
        client.send("A", "98=0|108=30|");
        let logon = client.receive_message();
        assert_eq!((field(&logon, "35"), field(&logon, "34")), ("A".into(), "5".into()));
        assert!(!logon.contains("|141=Y|"), "{logon}");
        // The client says that it missed the last two.
        client.send("2", "7=3|16=0|");
        for id in ["b", "c"] {
            let again = client.receive_message();
            assert_eq!((field(&again, "43"), field(&again, "11")), ("Y".into(), id.into()));
        }
        let rest = client.receive_message();
        assert_eq!((field(&rest, "35"), field(&rest, "36")), ("4".into(), "6".into()));
        client.order("d");
        assert_eq!(field(&client.receive_message(), "34"), "6");
    }
}

#[test]
fn orders_and_fills_pass_between_a_client_and_its_venue() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let venue = format!(
        "[[fix.venue]]\nname = \"venue1\"\nsender_comp_id = \"GATE\"\ntarget_comp_id = \"VENUE\"\nconnect = [\"{address}\"]\n"
    );
    let node = setup(&format!("{}{venue}", SESSION.replace("echo", "venue1"))).start();
    let mut client = Client::log_on(&node, 1);
    let mut venue = Client::venue(&listener);
    node.wait_stat("both", |stat| stat["doors"]["fix"]["logons"] == 2);
    client.order("first");
    let order = venue.receive_message();
    assert_eq!(
        [field(&order, "35"), field(&order, "11"), field(&order, "49")],
        ["D", "first", "GATE"]
    );
    venue.send("8", "37=V1|11=first|17=E1|150=2|39=2|55=ACME|54=1|38=100|32=100|31=9.99|151=0|14=100|6=9.99|9999=ours|");
    let fill = client.receive_message();
    let found = ["35", "11", "17", "31", "9999", "56"].map(|tag| field(&fill, tag));
    assert_eq!(found, ["8", "first", "E1", "9.99", "ours", "CLIENT1"]);
    // The venue goes. The node comes back to it, and until it is logged on again the client is told.
    drop(venue);
    let stream = listener.accept().unwrap().0;
    let mut venue = Client { next_out: 3, ..Client::over(stream, ("VENUE", "GATE")) };
    let logon = venue.receive().expect("another Logon");
    assert!(!logon.contains("|141=Y|"), "{logon}");
    client.order("second");
    let refused = client.receive_message();
    let found = ["35", "372", "380", "58"].map(|tag| field(&refused, tag));
    assert_eq!(found, ["j", "D", "4", "Application not available"]);
    venue.send("A", "98=0|108=30|");
    node.wait_stat("the venue again", |stat| stat["doors"]["fix"]["logons"] == 3);
    client.order("third");
    assert_eq!(field(&venue.receive_message(), "11"), "third");
}

#[test]
fn of_two_workers_one_has_the_door_and_its_dials() {
    for worker in ["0", "last"] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let venue = format!(
            "[[fix.venue]]\nname = \"venue1\"\nsender_comp_id = \"GATE\"\ntarget_comp_id = \"VENUE\"\nconnect = [\"{address}\"]\n"
        );
        let config =
            format!("[fix]\nworker = \"{worker}\"\n{}{venue}", SESSION.replace("echo", "venue1"));
        let node = setup(&config).with("workers.cores", &cores(2)).start();
        let mut venue = Client::venue(&listener);
        let mut client = Client::log_on(&node, 1);
        node.wait_stat("both", |stat| stat["doors"]["fix"]["logons"] == 2);
        // The kernel has one listener to give connections to: each meets the live session.
        for _ in 0..8 {
            let mut second = Client::connect(&node);
            second.send("A", "98=0|108=30|");
            assert_eq!(second.receive(), None);
        }
        client.order("first");
        assert_eq!(field(&venue.receive_message(), "11"), "first");
        listener.set_nonblocking(true).unwrap();
        let again = listener.accept().map(|_| ()).map_err(|error| error.kind());
        assert_eq!(again, Err(ErrorKind::WouldBlock), "the venue was dialled once");
    }
}

#[test]
fn a_node_that_stops_says_so_and_hears_the_last_word() {
    let mut node = setup(SESSION).start();
    let mut client = Client::log_on(&node, 1);
    let mut silent = Client::connect(&node);
    node.interrupt();
    let logout = client.receive_message();
    assert_eq!(
        (field(&logout, "35"), field(&logout, "58")),
        ("5".into(), "the gate is stopping".into())
    );
    assert_eq!(silent.receive(), None, "who has not logged on is not waited for");
    client.send("5", "");
    assert_eq!(client.receive(), None, "the node closes");
    assert!(node.wait_end().success());
    // It counted the client's Logout: nothing is asked for again.
    let node = node.restart();
    let mut client = Client::log_on(&node, 3);
    client.order("next");
    assert_eq!(field(&client.receive_message(), "11"), "next");
}

#[test]
fn a_peer_that_does_not_answer_the_last_logout_delays_a_stop_by_two_seconds() {
    let mut node = setup(SESSION).start();
    let mut client = Client::log_on(&node, 1);
    node.interrupt();
    assert_eq!(field(&client.receive_message(), "35"), "5");
    assert!(node.wait_end().success());
    assert_eq!(client.receive(), None);
}

/// A Heartbeat of the node's own leaves between two wake-ups; what comes right behind it is answered.
#[test]
fn what_comes_right_behind_a_heartbeat_is_answered() {
    over_transports(
        || setup(SESSION),
        |node| {
            let mut client = Client::connect(node);
            client.send("A", "98=0|108=1|");
            assert_eq!(field(&client.receive().unwrap(), "35"), "A");
            for round in 0..3 {
                let beat = client.receive().unwrap();
                assert!(matches!(field(&beat, "35").as_str(), "0" | "1"), "{beat}");
                client.order(&format!("order-{round}"));
                while field(&client.receive().unwrap(), "35") != "D" {}
            }
        },
    );
}

#[test]
fn sessions_are_judged_with_file_and_line_all_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("weir.toml");
    let check = |config: &str| {
        std::fs::write(&file, config).unwrap();
        let told =
            output(weir().args(["check", "--config", text(&file)]).current_dir(folder.path()));
        (told.status.code(), stderr(&told))
    };
    assert_eq!(check(SESSION).0, Some(0), "{}", check(SESSION).1);
    let wrong = "[fix]\nworker = \"first\"\n[[fix.session]]\nsender_comp_id = \"GATE\"\nbegin = 1\nvalidation = \"some\"\n\
                 limits = \"none\"\nroute = \"venue9\"\nschedule = \"sometimes\"\nsource_addresses = [\"10.0.0.0/33\"]\n\
                 body_bytes_max = 1\npassword_file = \"nowhere\"\n";
    let (code, told) = check(wrong);
    assert_eq!(code, Some(1));
    for expected in [
        "weir.toml:2: fix.worker: found \"first\", expected \"last\" or the number of a worker",
        "weir.toml:5: fix.session.begin: there is no such key",
        "weir.toml:6: fix.session.validation: found \"some\", expected \"off\", \"structure\" or \"full\"",
        "weir.toml:3: fix.session.target_comp_id: is not set",
        "weir.toml:8: fix.session.route: found \"venue9\", expected the name of a venue or \"echo\"; known here: echo",
        "weir.toml:9: fix.session.schedule",
        "weir.toml:10: fix.session.source_addresses",
        "weir.toml:11: fix.session.body_bytes_max: found 1, expected 64 to 16777216",
        "weir.toml:12: fix.session.password_file: nowhere: ",
    ] {
        assert!(told.contains(expected), "{expected} not in\n{told}");
    }
    let venue = "[[fix.venue]]\nsender_comp_id = \"GATE\"\ntarget_comp_id = \"V\"\n";
    assert!(
        check(venue).1.contains("weir.toml:1: fix.venue.connect: is not set"),
        "{}",
        check(venue).1
    );
    let named = check(&format!("{venue}connect = [\"venue.example:1\"]\n")).1;
    assert!(
        named.contains(
            "fix.venue.connect: found \"venue.example:1\", expected an address in numbers"
        ),
        "{named}"
    );
    let twice = format!("{SESSION}{SESSION}");
    assert!(check(&twice).1.contains("two sessions are called \"CLIENT1\""), "{}", check(&twice).1);
    let scalar = check("[fix]\nsession = 1\n").1;
    assert!(
        scalar.contains("fix.session: found 1, expected entries that begin with [[fix.session]]"),
        "{scalar}"
    );
    let open = format!("[fix]\nlisten = \"0.0.0.0:7702\"\n{SESSION}");
    assert!(check(&open).1.contains("fix.listen is 0.0.0.0:7702, beyond loopback: set fix.tls_cert and fix.tls_key, and fix.tls_clients"), "{}", check(&open).1);
}
