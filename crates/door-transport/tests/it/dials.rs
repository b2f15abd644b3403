//! Connections that the worker opens itself.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use door_transport::tls::{ClientOptions, ClientTls};
use door_transport::{
    CloseReason, ConnId, Dial, DialFailure, DialId, Limits, Options, Out, Outbox, Peer, Service,
    Step, Turn,
};

use crate::support::{Client, Running, frame, start, wait_for};
use crate::tls::{Authority, Secure};

#[derive(Default)]
struct Seen {
    orders: Vec<Order>,
    dial: Option<DialId>,
    dialled: Vec<(DialId, Peer)>,
    failed: Vec<(SocketAddr, DialFailure, u64)>,
    closed: Vec<CloseReason>,
    received: Vec<u8>,
    hung_up: Option<bool>,
}

enum Order {
    Dial(Dial),
    HangUp,
    Write(Vec<u8>),
}

/// Does in its turn what the test orders.
#[derive(Clone, Default)]
struct Dialler(Arc<Mutex<Seen>>);

impl Service for Dialler {
    type Conn = DialId;

    fn opened(&mut self, _: ConnId, _: Peer, _: usize) -> DialId {
        panic!("nobody connects to it")
    }

    fn dialled(&mut self, id: ConnId, dial: DialId, peer: Peer) -> Option<DialId> {
        let mut seen = self.0.lock().unwrap();
        seen.dialled.push((dial, peer));
        let bytes = id.to_bits();
        assert_eq!(ConnId::from_bits(bytes), id);
        Some(dial)
    }

    fn dial_failed(
        &mut self,
        _: DialId,
        address: SocketAddr,
        why: DialFailure,
        retry_ms: u64,
        _: &mut Outbox<'_, DialId>,
    ) {
        self.0.lock().unwrap().failed.push((address, why, retry_ms));
    }

    fn received(&mut self, id: ConnId, _: &mut DialId, input: &[u8], _: &mut Out<'_>) -> Step {
        let _ = id;
        self.0.lock().unwrap().received.extend_from_slice(input);
        Step::Read { consumed: input.len(), need: 0 }
    }

    fn tick_ms(&self, _: &DialId) -> u64 {
        5
    }

    fn tick(
        &mut self,
        _: ConnId,
        _: &mut DialId,
        _: u64,
        out: &mut Out<'_>,
    ) -> door_transport::Then {
        let mut seen = self.0.lock().unwrap();
        if let Some(Order::Write(bytes)) =
            seen.orders.pop_if(|order| matches!(order, Order::Write(_)))
        {
            out.write(&bytes);
        }
        door_transport::Then::Stay
    }

    fn closed(&mut self, _: ConnId, _: DialId, why: CloseReason) {
        self.0.lock().unwrap().closed.push(why);
    }

    fn turn(&mut self, outbox: &mut Outbox<'_, DialId>) -> Turn {
        let mut seen = self.0.lock().unwrap();
        match seen.orders.pop_if(|order| !matches!(order, Order::Write(_))) {
            Some(Order::Dial(dial)) => seen.dial = outbox.dial(dial),
            Some(Order::HangUp) => {
                let dial = seen.dial.unwrap();
                seen.hung_up = Some(outbox.hang_up(dial) && !outbox.hang_up(dial));
            }
            _ => {}
        }
        Turn::IDLE
    }
}

fn quick(addresses: Vec<SocketAddr>) -> Dial {
    Dial { backoff_ms_min: 5, backoff_ms_max: 40, ..Dial::new(addresses) }
}

fn begin(options: Options, dial: Dial) -> (Running, Dialler) {
    let service = Dialler::default();
    let running = start(Vec::new(), options, service.clone());
    order(&running, &service, Order::Dial(dial));
    (running, service)
}

fn order(running: &Running, service: &Dialler, order: Order) {
    service.0.lock().unwrap().orders.push(order);
    running.handle.waker().wake();
}

/// Where nobody listens.
fn closed_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 1))
}

pub fn a_dial_finds_the_address_that_answers_and_comes_back(options: Options) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let open = listener.local_addr().unwrap();
    let (running, service) = begin(options, quick(vec![closed_port(), open]));
    for round in 1..=3 {
        let mut server = Client::over(listener.accept().unwrap().0);
        order(&running, &service, Order::Write(b"from the dial".to_vec()));
        server.expect(b"from the dial");
        server.send(b"to the dial");
        wait_for(|| service.0.lock().unwrap().received.len() == 11 * round, "the bytes");
        assert_eq!(service.0.lock().unwrap().dialled.len(), round);
    }
    let seen = service.0.lock().unwrap();
    let (dial, peer) = seen.dialled[0];
    assert!(Some(dial) == seen.dial && peer == Peer::Tcp(open));
    // The closed port is tried again in each round, since addresses take turns.
    let refused = DialFailure::Refused(111);
    assert!(seen.failed.iter().all(|(at, why, _)| *at == closed_port() && *why == refused));
    assert!(seen.failed.len() >= 3 && seen.failed.iter().all(|(.., retry_ms)| *retry_ms <= 40));
    assert_eq!(seen.closed[..2], [CloseReason::PeerClosed; 2]);
    drop(seen);
    let counters = running.handle.counters();
    assert!(counters.dialled.get() >= 3 && counters.dials_failed.get() >= 3);
    running.stop();
}

pub fn a_dial_may_have_limits_of_its_own(options: Options) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let limits = Limits {
        input_bytes_max: options.input_bytes_max,
        idle_ms_max: 20,
        reads_while_stopping: false,
    };
    let dial = Dial { limits: Some(limits), ..quick(vec![listener.local_addr().unwrap()]) };
    let (running, service) = begin(options, dial);
    let _silent = [listener.accept().unwrap(), listener.accept().unwrap()];
    assert_eq!(service.0.lock().unwrap().closed, [CloseReason::Idle]);
    running.stop();
}

pub fn a_refused_line_waits_longer_each_time(options: Options) {
    let (running, service) = begin(options, quick(vec![closed_port()]));
    let failed = || service.0.lock().unwrap().failed.len();
    wait_for(|| failed() >= 6, "some attempts");
    let waits: Vec<u64> =
        service.0.lock().unwrap().failed.iter().map(|(.., retry_ms)| *retry_ms).collect();
    for (wait_ms, most) in waits.iter().zip([5, 10, 20, 40, 40, 40]) {
        assert!((most / 2..=most).contains(wait_ms), "{waits:?}");
    }
    order(&running, &service, Order::HangUp);
    wait_for(|| service.0.lock().unwrap().hung_up.is_some(), "the end of the dial");
    assert_eq!(service.0.lock().unwrap().hung_up, Some(true), "once");
    let before = failed();
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(failed(), before, "nothing is tried any more");
    running.stop();
}

/// A listener whose queue of connections is full: whoever asks gets no answer.
fn deaf() -> (TcpListener, Vec<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut crowd = Vec::new();
    while let Ok(client) = TcpStream::connect_timeout(&address, Duration::from_millis(200)) {
        crowd.push(client);
        assert!(crowd.len() < 10_000, "the queue has no end");
    }
    (listener, crowd)
}

pub fn no_answer_is_a_time_out(options: Options) {
    let (listener, _crowd) = deaf();
    let address = listener.local_addr().unwrap();
    let dial = Dial { connect_ms_max: 50, ..quick(vec![address]) };
    let (running, service) = begin(options, dial);
    wait_for(|| service.0.lock().unwrap().failed.len() >= 2, "two time-outs");
    let seen = service.0.lock().unwrap();
    assert!(
        seen.failed.iter().all(|(_, why, _)| *why == DialFailure::TimedOut),
        "{:?}",
        seen.failed
    );
    drop(seen);
    running.stop();
}

pub fn a_stop_does_not_wait_for_an_attempt(options: Options) {
    let (listener, _crowd) = deaf();
    let (running, service) = begin(options, quick(vec![listener.local_addr().unwrap()]));
    wait_for(|| running.handle.counters().connections.get() == 1, "the attempt");
    running.stop();
    let seen = service.0.lock().unwrap();
    assert!(seen.dialled.is_empty() && seen.closed.is_empty());
}

pub fn a_full_worker_does_not_dial(options: Options) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (running, service) = begin(Options { connections_max: 1, ..options }, quick(vec![address]));
    let first = listener.accept().unwrap();
    order(&running, &service, Order::Dial(quick(vec![address])));
    wait_for(|| !service.0.lock().unwrap().failed.is_empty(), "the refusal");
    assert_eq!(service.0.lock().unwrap().failed[0].1, DialFailure::Full);
    drop(first);
    running.stop();
}

fn client_tls(secure: &Secure, roots: &Authority, name: &str) -> ClientTls {
    let certificate = secure.authority.sign("the dialler");
    let identity = Some(certificate.identity());
    let roots_pem = roots.root_pem.as_bytes();
    ClientTls::new(name, &ClientOptions { roots_pem, identity, alpn: &[] }).unwrap()
}

pub fn a_dial_speaks_tls_and_shows_its_certificate(options: Options) {
    let secure =
        Secure::start_with(options.clone(), &[], |authority| Some(authority.root_pem.clone()));
    let tls = Some(client_tls(&secure, &secure.authority, "localhost"));
    let (running, service) = begin(options, Dial { tls, ..quick(vec![secure.server.address]) });
    wait_for(|| !service.0.lock().unwrap().dialled.is_empty(), "the dial");
    let message = frame(b'E', &[7; 40_000]);
    order(&running, &service, Order::Write(message.clone()));
    wait_for(|| service.0.lock().unwrap().received.len() == message.len(), "the echo");
    assert!(service.0.lock().unwrap().received == message);
    let shown = secure.server.shared().secured.pop().unwrap();
    assert_eq!(shown.common_name.as_deref(), Some("the dialler"));
    running.stop();
    secure.server.wait_closed(CloseReason::PeerClosed, 1);
    secure.stop();
}

pub fn a_dial_trusts_nobody_else(options: Options) {
    let secure = Secure::start(options.clone());
    let stranger = Authority::new();
    for (roots, name) in [(&stranger, "localhost"), (&secure.authority, "another.example")] {
        let tls = Some(client_tls(&secure, roots, name));
        let (running, service) =
            begin(options.clone(), Dial { tls, ..quick(vec![secure.server.address]) });
        wait_for(|| !service.0.lock().unwrap().failed.is_empty(), "the refusal");
        let told = service.0.lock().unwrap().failed[0].1.to_string();
        assert!(told.starts_with("the TLS handshake failed: invalid peer certificate"), "{told}");
        assert!(name == "localhost" || told.contains(name), "{told}");
        assert!(service.0.lock().unwrap().dialled.is_empty());
        running.stop();
    }
    secure.stop();
}

/// A server that takes the connection and says nothing, or something that is not TLS.
pub fn a_dial_to_no_tls_server_fails_in_time(options: Options) {
    let secure = Secure::start(options.clone());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let tls = Some(client_tls(&secure, &secure.authority, "localhost"));
    let dial = Dial { tls, ..quick(vec![listener.local_addr().unwrap()]) };
    let (running, service) = begin(Options { tls_handshake_ms_max: 200, ..options }, dial);
    let silent = listener.accept().unwrap();
    wait_for(|| service.0.lock().unwrap().failed.len() == 1, "the time-out");
    let mut plain = Client::over(listener.accept().unwrap().0);
    plain.send(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    wait_for(|| service.0.lock().unwrap().failed.len() >= 2, "the refusal");
    let tls = "the TLS handshake failed:";
    let wanted = [
        format!("{tls} it took longer than it may"),
        format!("{tls} what the peer sent is not TLS"),
    ];
    let told = |at: usize| service.0.lock().unwrap().failed[at].1.to_string();
    assert_eq!([told(0), told(1)], wanted);
    drop((silent, plain));
    running.stop();
    secure.stop();
}
