//! A worker whose doors are the batch door and the echo door, over TLS.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use door_batch::gate::{BatchDoor, BatchTerms};
use door_transport::tls::{ClientCertificates, ClientOptions, Identity, ServerOptions, ServerTls};
use door_transport::{Handle, Listener, Listeners, Options};
use ledger::{EditReason, KeyRing, PurseOptions, Purses};
use probe::Laps;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use table::ring;
use weir_budgets::campaign_index::CampaignIndex;
use weir_config::config::Config;
use weir_door::{DoorSet, OnDoors, doors};
use weir_till::stages::WorkerProbes;
use wire::{Message, hello};

use super::*;
use crate::bank::recover::recover;
use crate::bank::{BankProbes, BankThread, Command, Link, ask};
use crate::bench::facts;
use crate::known::Permits;
use crate::measured::Sources;
use crate::worker::{Lines, Worker};

doors! {
    /// Another set of doors in the same worker.
    EchoDoors, EchoSession, EchoDoorId {
        Batch = batch: BatchDoor,
        Echo = echo: EchoDoor,
    }
}

/// Nothing here takes longer on a healthy machine, however busy.
const PATIENCE: Duration = Duration::from_secs(60);
const OUTPUT_BYTES_MAX: usize = 100_000;

/// A signer of certificates.
struct Authority {
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
    root_pem: String,
}

/// A certificate and its key in PEM.
struct Certificate {
    chain: String,
    key: String,
}

impl Authority {
    fn new() -> Authority {
        let mut params = rcgen::CertificateParams::default();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().unwrap();
        let root_pem = params.self_signed(&key).unwrap().pem();
        Authority { issuer: rcgen::Issuer::new(params, key), root_pem }
    }

    fn sign(&self, name: &str) -> Certificate {
        let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        let key = rcgen::KeyPair::generate().unwrap();
        let chain = params.signed_by(&key, &self.issuer).unwrap().pem();
        Certificate { chain, key: key.serialize_pem() }
    }

    /// The door with `certificate`, which asks each client for one of this authority's.
    fn server<'a>(&'a self, certificate: &'a Certificate) -> ServerOptions<'a> {
        let clients = ClientCertificates::Required(self.root_pem.as_bytes());
        ServerOptions { identity: certificate.identity(), clients, alpn: &[] }
    }
}

impl Certificate {
    fn identity(&self) -> Identity<'_> {
        Identity { chain_pem: self.chain.as_bytes(), key_pem: self.key.as_bytes() }
    }
}

/// A worker with a batch door and an echo door, its bank, the thread that answers its `l` lines, and who may speak with it.
struct EchoNode {
    listeners: [std::net::SocketAddr; 2],
    handle: Handle,
    threads: Vec<JoinHandle<()>>,
    bank: JoinHandle<()>,
    commands: mpsc::Sender<Command>,
    _data: Option<tempfile::TempDir>,
    seen: Arc<EchoSeen>,
    authority: Authority,
    tls: ServerTls,
}

impl EchoNode {
    fn start() -> EchoNode {
        let data = tempfile::tempdir().unwrap();
        let node = EchoNode::start_on(data.path());
        EchoNode { _data: Some(data), ..node }
    }

    /// Starts a node whose journal is in this folder.
    fn start_on(data: &Path) -> EchoNode {
        let authority = Authority::new();
        let certificate = authority.sign("the door");
        let tls = ServerTls::new(&authority.server(&certificate)).unwrap();
        let bind = || Listeners::bind("127.0.0.1:0".parse().unwrap(), 1).unwrap().remove(0);
        let (batch, echo) = (bind(), bind().with_tls(tls.clone()));
        let listeners = [&batch, &echo].map(|one| one.local_addr().unwrap());
        let dialler = authority.sign("the dialler");
        let options = ClientOptions {
            roots_pem: authority.root_pem.as_bytes(),
            identity: Some(dialler.identity()),
            alpn: &[],
        };
        // It dials its own worker, behind an address where nobody listens.
        let addresses = vec![SocketAddr::from(([127, 0, 0, 1], 1)), listeners[1]];
        let client_tls = ClientTls::new("localhost", &options).unwrap();
        let (asks, asked) = mpsc::channel();
        let number = EchoDoorId::Echo as u8;
        let (handle, seen) = (Handle::new().unwrap(), Arc::new(EchoSeen::default()));
        let late = (asks, Arrivals::new(handle.waker()));
        let door = EchoDoor::new(number, addresses, client_tls, late, Arc::clone(&seen));
        let (up, from_worker) = ring::channel(65_536);
        let (to_worker, down) = ring::channel(1_024);
        let control = handle.clone();
        let counters = Arc::new(EchoDoors::counters());
        let link = Link {
            up: from_worker,
            down: to_worker,
            waker: handle.waker(),
            counters: Arc::clone(&counters),
            backlog: VecDeque::new(),
            is_full: false,
        };
        let (bank, commands) = start_bank(data, link);
        let bank_thread = bank.thread().clone();
        let threads = vec![
            thread::spawn(move || answer_in_pairs(&asked)),
            thread::spawn(move || {
                let lines = Lines { up, down, bank: bank_thread, counters };
                run(vec![batch, echo], door, lines, &control);
            }),
        ];
        EchoNode { listeners, handle, threads, bank, commands, _data: None, seen, authority, tls }
    }

    fn client(&self, name: &str) -> Client {
        let certificate = self.authority.sign(name);
        let mut roots = RootCertStore::empty();
        let root = CertificateDer::from_pem_slice(self.authority.root_pem.as_bytes()).unwrap();
        roots.add(root).unwrap();
        let chain = CertificateDer::from_pem_slice(certificate.chain.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(certificate.key.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![chain], key)
            .unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let session = ClientConnection::new(Arc::new(config), name).unwrap();
        let socket = TcpStream::connect(self.listeners[1]).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Client(BufReader::new(StreamOwned::new(session, socket)))
    }

    fn stop(self) {
        self.handle.stop();
        for thread in self.threads {
            thread.join().unwrap();
        }
        self.commands.send(Command::Stop).unwrap();
        self.bank.thread().unpark();
        self.bank.join().unwrap();
    }
}

/// The bank of the worker at the other end of the link.
fn start_bank(data: &Path, link: Link) -> (JoinHandle<()>, mpsc::Sender<Command>) {
    let mut config = Config::default();
    config.node.data_dir = data.to_path_buf();
    let start = recover(&config, Permits::default(), 1, EchoDoors::FACTS).unwrap();
    let (probes, _) = Sources::new(0, &[Arc::clone(&link.counters)]);
    let (commands, inbox) = mpsc::channel();
    let bank = thread::spawn(move || {
        let probes = BankProbes { bank: probes.bank, writer: probes.writer };
        let (secret, tick_ms) = (table::Secret::new(7), 1 << 40);
        let bank = BankThread::new(start, vec![link], inbox, secret, tick_ms, probes).unwrap();
        assert!(bank.run(), "not everything was sealed");
    });
    (bank, commands)
}

/// Runs the worker until it is stopped.
fn run(listeners: Vec<Listener>, echo: EchoDoor, lines: Lines, handle: &Handle) {
    let facts = Arc::new(facts(&Config::default()));
    let purses = Purses::new(PurseOptions { node: 1, hold_ms: 2_000 }, 1);
    let keys = Arc::new(KeyRing::new(1, 1, [7; 16]));
    let probes = WorkerProbes::new(Laps::new(0).0, Laps::new(0).0);
    let terms = Arc::new(BatchTerms::new(&Config::default(), None));
    let batch = BatchDoor::new(EchoDoorId::Batch as u8, terms, &lines.counters);
    let refusals = Arc::clone(&lines.counters.refusals);
    let till = Till::new(0, facts, refusals, purses, keys, probes);
    let options = Options { output_bytes_max: OUTPUT_BYTES_MAX, ..Options::default() };
    let worker = Worker::new(till, EchoDoors { on: OnDoors::ALL, batch, echo }, lines);
    door_transport::run(listeners, &options, worker, handle).unwrap();
}

/// Answers two at a time, the later one first; a line `lost` never.
fn answer_in_pairs(asked: &Receiver<LateEcho>) {
    while let (Ok(first), Ok(second)) = (asked.recv(), asked.recv()) {
        for (owed, text) in [second, first] {
            match text.as_slice() {
                b"lost\n" => drop(owed),
                _ => owed.give(text),
            }
        }
    }
}

struct Client(BufReader<StreamOwned<ClientConnection, TcpStream>>);

impl Client {
    fn send(&mut self, text: &str) {
        self.0.get_mut().write_all(text.as_bytes()).unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn ask(&mut self, text: &str) -> String {
        self.send(text);
        self.line()
    }

    /// The certificate that the door showed.
    fn shown(&self) -> Vec<u8> {
        self.0.get_ref().conn.peer_certificates().unwrap()[0].to_vec()
    }
}

fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < end, "still waiting for {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn ticks_come_by_door_and_by_connection_and_a_dial_finds_its_way() {
    let node = EchoNode::start();
    let seen = &node.seen;
    wait_for("ticks of the door", || seen.door_ticks.load(Relaxed) > 3);
    wait_for("heartbeats of its connection", || seen.heartbeats.load(Relaxed) > 3);
    assert!(seen.dials_failed.load(Relaxed) > 0, "the first address is closed");
    assert_eq!(node.handle.counters().dialled.get(), 1);
    node.stop();
}

#[test]
fn bytes_go_to_another_connection_and_its_answer_comes_back() {
    let node = EchoNode::start();
    wait_for("the dial", || node.seen.heartbeats.load(Relaxed) > 0);
    let mut client = node.client("bidder-7");
    assert_eq!(client.ask("whoami\n"), "Some(\"bidder-7\")");
    // What the door answers to itself, over the connection that it opened.
    assert_eq!(client.ask("pwho\n"), "Some(\"the dialler\")");
    assert_eq!(client.ask("pethere and back\n"), "there and back");
    node.stop();
}

#[test]
fn answers_of_another_thread_reach_who_asked_in_the_order_of_their_lines() {
    let node = EchoNode::start();
    let mut clients = ["bidder-7", "bidder-8"].map(|name| node.client(name));
    // Of each connection one is on its way, the rest waits unread; and the other connection's comes first.
    for (client, from) in clients.iter_mut().zip([0, 1_000]) {
        let asked: String = (from..from + 300).map(|number| format!("l{number}\n")).collect();
        client.send(&format!("{asked}eat once\n"));
    }
    for (client, from) in clients.iter_mut().zip([0, 1_000]) {
        for number in from..from + 300 {
            assert_eq!(client.line(), number.to_string());
        }
        assert_eq!(client.line(), "at once");
    }
    node.stop();
}

#[test]
fn who_waits_for_a_thread_that_has_no_answer_hears_so_and_who_goes_is_missed_by_nobody() {
    let node = EchoNode::start();
    let [mut one, mut other] = ["bidder-7", "bidder-8"].map(|name| node.client(name));
    one.send("llost\n");
    assert_eq!(other.ask("lback\n"), "back");
    assert_eq!(one.line(), "lost");
    // It goes before its answer comes, which is not the next one's either.
    one.send("lfor nobody\n");
    drop(one);
    let mut next = node.client("bidder-9");
    assert_eq!(next.ask("lfor the next\n"), "for the next");
    assert_eq!(other.ask("estill here\n"), "still here");
    node.stop();
}

#[test]
fn a_body_comes_back_as_fast_as_it_is_taken() {
    const BODY: usize = 8 << 20;
    let node = EchoNode::start();
    let (mut client, counters) = (node.client("bidder-7"), node.handle.counters());
    client.send(&format!("b{BODY}\n"));
    let body: Vec<u8> = (0..BODY).map(|at| u8::try_from(at % 251).unwrap()).collect();
    let (mut back, mut sent) = (vec![0; BODY], 0);
    // A share is sent before any is read, which is more than the door may keep; then both take turns.
    for share in body.chunks(1 << 18) {
        client.0.get_mut().write_all(share).unwrap();
        // A record of TLS adds a few bytes to each 16 KiB.
        let most = OUTPUT_BYTES_MAX + OUTPUT_BYTES_MAX / 100;
        assert!(counters.output_bytes.get() <= most as u64, "{counters:?}");
        client.0.read_exact(&mut back[sent..sent + share.len()]).unwrap();
        sent += share.len();
    }
    assert!(back == body, "the body differs");
    assert!(node.seen.pauses.load(Relaxed) > 0, "the door never had to wait for its peer");
    assert_eq!(client.ask("eafter it\n"), "after it");
    node.stop();
}

#[test]
fn a_certificate_is_replaced_while_the_worker_runs() {
    let node = EchoNode::start();
    let mut old = node.client("bidder-7");
    assert_eq!(old.ask("ebefore\n"), "before");
    let renewed = node.authority.sign("the door, renewed");
    node.tls.reload(&node.authority.server(&renewed)).unwrap();
    let mut new = node.client("bidder-7");
    assert_eq!((old.ask("estays\n"), new.ask("eafter\n")), ("stays".into(), "after".into()));
    let der = CertificateDer::from_pem_slice(renewed.chain.as_bytes()).unwrap();
    assert_eq!(new.shown(), der.as_ref());
    assert_ne!(old.shown(), der.as_ref());
    node.stop();
}

#[test]
fn a_memo_is_answered_once_it_is_sealed_and_known_in_the_next_run() {
    let data = tempfile::tempdir().unwrap();
    let node = EchoNode::start_on(data.path());
    let [mut one, mut other] = ["bidder-7", "bidder-8"].map(|name| node.client(name));
    assert_eq!(one.ask("m1 first\n"), "new");
    assert_eq!(other.ask("m1 second\n"), "known first");
    assert_eq!(other.ask("m2 second\n"), "new");
    let long = "x".repeat(ledger::memo::MEMO_BYTES_MAX + 1);
    let refusal = one.ask(&format!("m3 {long}\n"));
    assert!(refusal.starts_with("a memo of 257 bytes; at most 256 are recorded"), "{refusal}");
    // Others are on their way.
    one.send("m3 third\nm3 again\nm4 fourth\n");
    let lines: Vec<String> = (0..3).map(|_| one.line()).collect();
    assert_eq!(lines, ["new", "known third", "new"]);
    node.stop();

    let node = EchoNode::start_on(data.path());
    let mut client = node.client("bidder-7");
    assert_eq!(client.ask("m1 third\n"), "known first");
    assert_eq!(client.ask("m5 fifth\n"), "new");
    node.stop();
}

/// What lies in the worker's own purse is called back, and the till asks again: the client hears of the money alone.
#[test]
fn a_named_hold_gets_what_purses_have_and_is_there_in_the_next_run() {
    let data = tempfile::tempdir().unwrap();
    let node = EchoNode::start_on(data.path());
    let file = data.path().join("budgets.jsonl");
    std::fs::write(&file, r#"{"id":1,"name":"one","unit":"USD","limit":"100"}"#).unwrap();
    let applied = ask(&node.commands, |reply| Command::Configure {
        budgets: weir_budgets::budgets::read(&file).unwrap(),
        campaign_index: CampaignIndex::empty(),
        reason: EditReason { who: "a test".into(), why: "".into(), edits: Vec::new() },
        reply,
    });
    applied.unwrap().unwrap();
    let mut client = node.client("bidder-7");
    assert_eq!(client.ask("n1 7 60000000\n"), "[Ok(true)]");
    assert_eq!(client.ask("n1 8 40000000\n"), "[Ok(true)]", "a 64th of it was in the purse");
    let refused = client.ask("n1 9 1\n");
    assert!(refused.starts_with("[Err(Leg { leg: 0, why: Exhausted, left"), "{refused}");
    node.stop();

    let node = EchoNode::start_on(data.path());
    assert_eq!(node.client("bidder-7").ask("n1 8 40000000\n"), "[Ok(false)]");
    node.stop();
}

#[test]
fn the_batch_door_beside_it_is_the_one_of_every_node() {
    let node = EchoNode::start();
    let mut client = TcpStream::connect(node.listeners[0]).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut frame = vec![0; hello::encoded_len(0, 1)];
    let block = hello::Block::new(1, 1, 7);
    hello::encode(&mut frame, &block).unwrap().auth(b"").unwrap().name("x").unwrap().finish();
    client.write_all(&frame).unwrap();
    let mut answer = vec![0; wire::welcome::encoded_len()];
    client.read_exact(&mut answer).unwrap();
    assert!(matches!(Message::decode(&answer), Ok(Message::Welcome(_))));
    node.stop();
}
