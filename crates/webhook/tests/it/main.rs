//! The sender against receivers on this machine.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use webhook::{
    Endpoint, EndpointError, Message, Options, Outcome, Reach, Report, Secret, SendError, Sender,
    Trust, signatures,
};

/// Nothing here takes longer on a healthy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const PAYLOAD: &[u8] = br#"{"type":"budget.low","data":{"id":"1001"}}"#;

/// A request as it came: head in lower case, body.
#[derive(Clone, Debug)]
struct Request {
    head: String,
    body: Vec<u8>,
}

impl Request {
    fn read(stream: &mut impl Read) -> Option<Request> {
        let mut reader = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        let head = head.replace("\r\n", "\n");
        let request = Request { head, body: Vec::new() };
        let mut body = vec![0; request.header("content-length").parse().ok()?];
        reader.read_exact(&mut body).ok()?;
        Some(Request { body, ..request })
    }

    fn header(&self, name: &str) -> &str {
        let of = |line: &'_ str| {
            line.split_once(": ").is_some_and(|(n, _)| n.eq_ignore_ascii_case(name))
        };
        let line = self.head.lines().find(|line| of(line)).unwrap_or_default();
        line.split_once(": ").map_or("", |(_, value)| value)
    }

    /// Is it signed with exactly these secrets, and recent?
    fn is_signed(&self, secrets: &[Secret]) -> bool {
        let timestamp: u64 = self.header("webhook-timestamp").parse().unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let expected = signatures(secrets, self.header("webhook-id"), timestamp, &self.body);
        now.abs_diff(timestamp) < 300 && self.header("webhook-signature") == expected
    }
}

/// A receiver that gives these answers in turn, the last one again and again; it lives as long as the test's process.
struct Door {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Door {
    fn open(answers: &[&str]) -> Door {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let door = Door { address: listener.local_addr().unwrap(), requests: Arc::default() };
        let requests = Arc::clone(&door.requests);
        let answers: Vec<String> = answers.iter().map(ToString::to_string).collect();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let Some(request) = Request::read(&mut stream) else { continue };
                let count = {
                    let mut all = requests.lock().unwrap();
                    all.push(request);
                    all.len()
                };
                let answer = answers.get(count - 1).or(answers.last()).unwrap();
                // Who has gone reads no answer.
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        door
    }

    fn url(&self) -> String {
        format!("http://{}/hooks", self.address)
    }

    fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

fn status(status: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n")
}

fn sender(change: impl FnOnce(&mut Options)) -> (Sender, Receiver<Report>) {
    let mut options = Options {
        retries: vec![Duration::from_millis(5); 3],
        reach: Reach::Any,
        trust: Trust::Only(Vec::new()),
        wait: PATIENCE,
        ..Options::default()
    };
    change(&mut options);
    let (tell, reports) = channel();
    // A report after the test has ended has nobody to hear it.
    let sender = Sender::start(&options, move |report| drop(tell.send(report))).unwrap();
    (sender, reports)
}

fn put(sender: &Sender, name: &str, url: &str) -> Secret {
    let secret = Secret::random().unwrap();
    sender.put(Endpoint::new(name, url, vec![secret.clone()]).unwrap()).unwrap();
    secret
}

fn message(id: &str) -> Message {
    Message::new(id, PAYLOAD.to_vec()).unwrap()
}

fn next(reports: &Receiver<Report>) -> (String, usize, Outcome) {
    let report = reports.recv_timeout(PATIENCE).expect("a report in time");
    (report.id, report.attempts, report.outcome)
}

#[test]
fn a_message_is_posted_signed_and_reported() {
    let door = Door::open(&[&status("204 No Content")]);
    let (sender, reports) = sender(|_| {});
    let secret = put(&sender, "shop", &door.url());
    sender.send("shop", message("msg_1")).unwrap();
    assert_eq!(next(&reports), ("msg_1".into(), 1, Outcome::Delivered));
    let all = door.requests();
    let request = &all[0];
    assert!(request.head.starts_with("POST /hooks HTTP/1.1\n"), "{}", request.head);
    assert_eq!((request.header("content-type"), &*request.body), ("application/json", PAYLOAD));
    assert_eq!(request.header("webhook-id"), "msg_1");
    assert!(request.is_signed(std::slice::from_ref(&secret)));
    assert!(!request.is_signed(&[Secret::random().unwrap()]));
}

#[test]
fn what_failed_comes_again_under_the_same_id_and_with_both_secrets_of_a_rotation() {
    let door = Door::open(&[&status("500 No"), "garbage\r\n\r\n", "", &status("200 OK")]);
    let (sender, reports) = sender(|_| {});
    let secrets = vec![Secret::random().unwrap(), Secret::random().unwrap()];
    sender.put(Endpoint::new("shop", &door.url(), secrets.clone()).unwrap()).unwrap();
    sender.send("shop", message("msg_1")).unwrap();
    assert_eq!(next(&reports), ("msg_1".into(), 4, Outcome::Delivered));
    for request in door.requests() {
        assert_eq!(request.header("webhook-id"), "msg_1");
        assert!(request.is_signed(&secrets));
    }
}

#[test]
fn a_receiver_that_never_takes_it_is_given_up() {
    let door = Door::open(&[&status("400 Bad Request")]);
    let (sender, reports) = sender(|_| {});
    put(&sender, "shop", &door.url());
    sender.send("shop", message("msg_1")).unwrap();
    assert_eq!(next(&reports), ("msg_1".into(), 4, Outcome::GaveUp("status 400".into())));
    assert_eq!(door.requests().len(), 4);
    // A port on which nobody listens.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    put(&sender, "none", &format!("http://{free}/"));
    sender.send("none", message("msg_2")).unwrap();
    assert!(matches!(next(&reports), (_, 4, Outcome::GaveUp(_))));
}

#[test]
fn gone_disables_the_endpoint() {
    let door = Door::open(&[&status("410 Gone"), &status("200 OK")]);
    let (sender, reports) = sender(|_| {});
    put(&sender, "shop", &door.url());
    sender.send("shop", message("msg_1")).unwrap();
    assert_eq!(next(&reports), ("msg_1".into(), 1, Outcome::Gone));
    assert_eq!(sender.send("shop", message("msg_2")), Err(SendError::Gone));
    put(&sender, "shop", &door.url());
    sender.send("shop", message("msg_2")).unwrap();
    assert_eq!(next(&reports), ("msg_2".into(), 1, Outcome::Delivered));
}

#[test]
fn a_redirect_is_not_followed() {
    let other = Door::open(&[&status("200 OK")]);
    let redirect =
        format!("HTTP/1.1 307 There\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", other.url());
    let door = Door::open(&[&redirect]);
    let (sender, reports) = sender(|_| {});
    put(&sender, "shop", &door.url());
    sender.send("shop", message("msg_1")).unwrap();
    let (_, attempts, outcome) = next(&reports);
    let why = "status 307: redirects are not followed".to_string();
    assert_eq!((attempts, outcome), (4, Outcome::GaveUp(why)));
    assert!(other.requests().is_empty());
}

#[test]
fn the_own_network_is_out_of_reach_by_address_and_by_name() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, reports) = sender(|options| options.reach = Reach::Public);
    let secrets = || vec![Secret::random().unwrap()];
    let plain = Endpoint::new("plain", &format!("http://localhost:{port}/"), secrets()).unwrap();
    assert_eq!(sender.put(plain), Err(EndpointError::Plain));
    for host in ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "2130706433"] {
        put(&sender, host, &format!("https://{host}:{port}/"));
        sender.send(host, message("msg_1")).unwrap();
        assert!(matches!(next(&reports), (_, 4, Outcome::GaveUp(_))), "{host}");
    }
    assert!(listener.accept().is_err(), "nobody came");
}

#[test]
fn a_receiver_that_hangs_holds_up_nobody_else_and_what_waits_is_bounded() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let door = Door::open(&[&status("200 OK")]);
    let (sender, reports) = sender(|options| {
        (options.threads, options.messages_max) = (2, 3);
        (options.wait, options.retries) = (Duration::from_secs(2), Vec::new());
    });
    put(&sender, "silent", &format!("http://{}/", silent.local_addr().unwrap()));
    put(&sender, "shop", &door.url());
    for id in ["1", "2"] {
        sender.send("silent", message(id)).unwrap();
    }
    sender.send("shop", message("3")).unwrap();
    let mut told: Vec<_> = (0..3).map(|_| next(&reports)).collect();
    told.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(
        matches!(
            &told[..],
            [(_, 1, Outcome::GaveUp(_)), (_, 1, Outcome::GaveUp(_)), (_, 1, Outcome::Delivered)]
        ),
        "{told:?}"
    );
    for id in ["4", "5", "6"] {
        sender.send("silent", message(id)).unwrap();
    }
    assert_eq!(sender.send("shop", message("7")), Err(SendError::Full));
    sender.stop();
    let mut ends: Vec<_> = (0..3).map(|_| next(&reports)).collect();
    ends.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(
        ends.iter()
            .skip(1)
            .all(|(_, attempts, outcome)| (*attempts, outcome) == (0, &Outcome::Stopped)),
        "{ends:?}"
    );
}

#[test]
fn an_answer_without_end_is_not_read() {
    let endless = format!("HTTP/1.1 200 OK\r\n{}", "x: y\r\n".repeat(10_000));
    let door = Door::open(&[&endless]);
    let (sender, reports) = sender(|options| options.retries = Vec::new());
    put(&sender, "shop", &door.url());
    sender.send("shop", message("msg_1")).unwrap();
    assert!(matches!(next(&reports), (_, 1, Outcome::GaveUp(_))));
}

/// Over TLS nothing is sent before the certificate holds.
#[test]
fn a_certificate_that_is_not_trusted_gets_nothing() {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let config = || {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der());
        let config = rustls::ServerConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        Arc::new(config.with_single_cert(vec![made.cert.der().clone()], key.unwrap()).unwrap())
    };
    for trusted in [true, false] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let config = config();
        let served = std::thread::spawn(move || {
            let (mut socket, _): (TcpStream, _) = listener.accept().unwrap();
            let mut session = rustls::ServerConnection::new(config).unwrap();
            let mut stream = rustls::Stream::new(&mut session, &mut socket);
            let request = Request::read(&mut stream)?;
            stream.write_all(status("200 OK").as_bytes()).ok()?;
            Some(request)
        });
        let given = if trusted { vec![made.cert.der().to_vec()] } else { Vec::new() };
        let (sender, reports) =
            sender(|options| (options.trust, options.retries) = (Trust::Only(given), Vec::new()));
        put(&sender, "shop", &format!("https://localhost:{port}/"));
        sender.send("shop", message("msg_1")).unwrap();
        let delivered = next(&reports).2 == Outcome::Delivered;
        assert_eq!((delivered, served.join().unwrap().is_some()), (trusted, trusted));
    }
}
