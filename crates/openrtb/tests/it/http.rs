//! The door over a real socket.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use door_http::{Refusal, Room, Session};
use door_transport::{
    CloseReason, ConnId, Handle, Listeners, Options, Out, Outbox, Peer, RunError, Service, Step,
    Turn, run,
};
use openrtb::{
    Answer, BidRequest, Door, Event, Front, Gate, Notice, NoticeStatus, Noticed, Outcome, noticed,
};

use crate::bidder::{Bidder, door};
use crate::bodies;

const PATIENCE: Duration = Duration::from_secs(90);

/// A bidder that the test can look at.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Bidder>>);

impl Gate for Shared {
    fn now_ms(&self) -> u64 {
        self.0.lock().unwrap().now_ms()
    }

    fn bid(&mut self, request: &BidRequest<'_>, answer: &mut Answer<'_>) -> Outcome {
        self.0.lock().unwrap().bid(request, answer)
    }

    fn notice(&mut self, conn: ConnId, notice: &Notice<'_>) -> Noticed {
        self.0.lock().unwrap().notice(conn, notice)
    }

    fn refused(&mut self, why: Refusal) {
        self.0.lock().unwrap().refused(why);
    }

    fn count(&mut self, event: Event) {
        self.0.lock().unwrap().count(event);
    }
}

struct Node {
    door: Door,
    room: Room,
    gate: Shared,
}

impl Service for Node {
    type Conn = Session;

    fn opened(&mut self, _: ConnId, _: Peer, _: usize) -> Session {
        Session::default()
    }

    fn received(&mut self, id: ConnId, s: &mut Session, input: &[u8], out: &mut Out<'_>) -> Step {
        let mut front = Front { door: &mut self.door, gate: &mut self.gate };
        s.received(id, input, out, &mut self.room, &mut front)
    }

    fn closed(&mut self, _: ConnId, _: Session, _: CloseReason) {}

    fn turn(&mut self, outbox: &mut Outbox<'_, Session>) -> Turn {
        let waiting = std::mem::take(&mut self.gate.0.lock().unwrap().waiting);
        for id in waiting {
            let answer = noticed(NoticeStatus::Taken);
            let after = outbox.with(id, |session, out| session.answer(out, &answer)).flatten();
            after.unwrap().settle(outbox, id);
        }
        Turn::IDLE
    }
}

struct Server {
    address: SocketAddr,
    handle: Handle,
    gate: Shared,
    thread: Option<JoinHandle<Result<Node, RunError>>>,
}

impl Server {
    fn start() -> Server {
        let listeners = Listeners::bind("127.0.0.1:0".parse().unwrap(), 1).unwrap();
        let address = listeners[0].local_addr().unwrap();
        let (handle, gate) = (Handle::new().unwrap(), Shared::default());
        let node = Node { door: door(), room: Room::default(), gate: gate.clone() };
        // No time-outs: a busy machine keeps any thread off its core for seconds.
        let options = Options {
            input_bytes_max: node.door.settings().http.request_bytes_max(),
            idle_ms_max: 0,
            partial_ms_max: 0,
            stalled_ms_max: 0,
            ..Options::default()
        };
        let remote = handle.clone();
        let thread = std::thread::spawn(move || run(listeners, &options, node, &remote));
        Server { address, handle, gate, thread: Some(thread) }
    }

    fn client(&self) -> Client {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream, received: Vec::new() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.handle.stop();
        let ended = self.thread.take().unwrap().join();
        if !std::thread::panicking() {
            assert!(matches!(ended, Ok(Ok(_))), "the door panicked or failed");
        }
    }
}

struct Client {
    stream: TcpStream,
    received: Vec<u8>,
}

struct Got {
    status: u16,
    head: String,
    body: String,
}

impl Client {
    fn send(&mut self, method: &str, path: &str, headers: &str, body: &[u8]) {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\n{headers}Content-Length: {}\r\n\r\n",
            body.len()
        );
        self.stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
    }

    fn receive(&mut self, is_head: bool) -> Got {
        let end = loop {
            if let Some(at) = self.received.windows(4).position(|at| at == b"\r\n\r\n") {
                break at + 4;
            }
            self.more();
        };
        let head = String::from_utf8(self.received.drain(..end).collect()).unwrap();
        let field = |name: &str| {
            head.lines().find_map(|line| line.to_lowercase().strip_prefix(name).map(str::to_owned))
        };
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let len = field("content-length:").map_or(0, |len| len.trim().parse().unwrap());
        let len = if is_head { 0 } else { len };
        while self.received.len() < len {
            self.more();
        }
        let body = String::from_utf8(self.received.drain(..len).collect()).unwrap();
        Got { status, head, body }
    }

    fn more(&mut self) {
        let mut chunk = [0; 4096];
        let len = self.stream.read(&mut chunk).unwrap();
        assert!(len > 0, "closed, with {:?} left", String::from_utf8_lossy(&self.received));
        self.received.extend_from_slice(&chunk[..len]);
    }

    fn ask(&mut self, method: &str, path: &str, headers: &str, body: &[u8]) -> Got {
        self.send(method, path, headers, body);
        self.receive(method == "HEAD")
    }
}

#[test]
fn bids_no_bids_and_what_is_wrong() {
    let server = Server::start();
    let mut client = server.client();
    let got = client.ask("POST", "/openrtb2/bid", "", bodies::usual().as_bytes());
    assert_eq!(got.status, 200);
    assert!(got.head.contains("x-openrtb-version: 2.6\r\n"), "{}", got.head);
    assert!(got.head.to_lowercase().contains("content-type: application/json;charset=utf-8\r\n"));
    let answer: serde_json::Value = serde_json::from_str(&got.body).unwrap();
    assert_eq!(answer["id"], "0b6f1a52-7b6b-4a3c-9e54-2f8f6a1d9c11");

    let dear = bodies::usual().replace("0.85", "99").replace("2.5,", "99,");
    let no_json = "the body is not JSON\n";
    for (body, status, told) in
        [(dear.as_bytes(), 204, ""), (b"{", 400, no_json), (b"", 400, no_json)]
    {
        let got =
            client.ask("POST", "/openrtb2/bid?debug=1", "Content-Type: application/json\r\n", body);
        assert_eq!((got.status, got.body.as_str()), (status, told));
        assert!(got.head.contains("x-openrtb-version: 2.6\r\n"));
    }
    for kind in ["application/octet-stream", "application/x-protobuf", "application/Protobuf"] {
        let headers = format!("Content-Type: {kind}\r\n");
        let got = client.ask("POST", "/openrtb2/bid", &headers, bodies::usual().as_bytes());
        assert_eq!(
            (got.status, got.body.as_str()),
            (415, "expected Content-Type: application/json\n")
        );
    }
    let gate = server.gate.0.lock().unwrap();
    let count = |wanted: &Event| gate.events.iter().filter(|event| *event == wanted).count();
    assert_eq!((count(&Event::UnknownFormat), count(&Event::Bids(1))), (3, 1));
}

#[test]
fn paths_and_methods() {
    let server = Server::start();
    let mut client = server.client();
    for (method, path, status, allow) in [
        ("GET", "/health", 200, None),
        ("HEAD", "/health", 200, None),
        ("POST", "/health", 405, Some("Allow: GET, HEAD")),
        ("GET", "/openrtb2/bid", 405, Some("Allow: POST")),
        ("HEAD", "/openrtb2/bid", 405, Some("Allow: POST")),
        ("PUT", "/openrtb2/bid", 405, Some("Allow: ")),
        ("GET", "/", 404, None),
        ("POST", "/openrtb2/bids", 404, None),
    ] {
        let got = client.ask(method, path, "", b"");
        assert_eq!(got.status, status, "{method} {path}");
        assert!(allow.is_none_or(|allow| got.head.contains(allow)), "{}", got.head);
    }
}

#[test]
fn notices_by_any_method_now_or_later() {
    let server = Server::start();
    let mut client = server.client();
    for method in ["GET", "POST", "HEAD"] {
        for (path, status) in [
            ("/n/win/aG9sZA/p-1.5/c-USD", 204),
            ("/n/bill/aG9sZA/p-${AUCTION_PRICE}/c-${AUCTION_CURRENCY}", 204),
            ("/n/loss/aG9sZA/p-%24%7BAUCTION_PRICE%7D/c-USD/l-102?x=1", 204),
            ("/n/win/Zm9yZ2Vk/p-1.5/c-USD", 404),
            ("/n/win/****/p-1.5", 404),
            ("/n/won/aG9sZA", 404),
        ] {
            let got = client.ask(method, path, "", b"");
            assert_eq!((got.status, got.body.as_str()), (status, ""), "{method} {path}");
        }
    }
    {
        let mut gate = server.gate.0.lock().unwrap();
        let said = ["win Micros(1500000) Some(USD)", "bill Literal None", "loss Literal Some(USD)"];
        assert_eq!(gate.notices[..3], said);
        let bad = gate.events.iter().filter(|event| matches!(event, Event::BadNotice(_)));
        assert_eq!(bad.count(), 6);
        gate.is_late = true;
    }
    // The answers keep their order, the late one in the middle too.
    client.send("GET", "/health", "", b"");
    client.send("GET", "/n/bill/aG9sZA/p-1/c-USD", "", b"");
    client.send("GET", "/health", "", b"");
    let statuses = [(); 3].map(|()| client.receive(false).status);
    assert_eq!(statuses, [200, 204, 200]);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = Server::start();
    let mut client = server.client();
    for number in 0..50 {
        let body = bodies::small().replace("7d9e1c0a", &format!("{number:08}"));
        client.send("POST", "/openrtb2/bid", "", body.as_bytes());
    }
    for number in 0..50 {
        let got = client.receive(false);
        assert_eq!(got.status, 200);
        assert!(got.body.contains(&format!("{number:08}-55f2")), "{}", got.body);
    }
}

#[test]
fn bombs_are_refused_by_size() {
    let server = Server::start();
    let huge = vec![b'['; 10_000_000];
    let mut client = server.client();
    let head =
        format!("POST /openrtb2/bid HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", huge.len());
    client.stream.write_all(head.as_bytes()).unwrap();
    assert_eq!(client.receive(false).status, 413);

    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(&huge).unwrap();
    let bomb = encoder.finish().unwrap();
    assert!(bomb.len() < 20_000);
    let mut client = server.client();
    let got = client.ask("POST", "/openrtb2/bid", "Content-Encoding: gzip\r\n", &bomb);
    assert_eq!((got.status, got.body.as_str()), (413, ""));

    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bodies::usual().as_bytes()).unwrap();
    let sound = encoder.finish().unwrap();
    let got = server.client().ask("POST", "/openrtb2/bid", "Content-Encoding: gzip\r\n", &sound);
    assert_eq!(got.status, 200);
}
