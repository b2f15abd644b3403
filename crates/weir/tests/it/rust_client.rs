//! The Rust client against a real node. The scripted node of `clients/conform` plays everything that a real one does seldom.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use weir_client::{Ask, Client, Decision, Hold, Options, Verdict};

use crate::support::{PATIENCE, Setup, line};

fn options(address: SocketAddr) -> Options {
    Options::new(&address.to_string()).deadline(PATIENCE).wait(PATIENCE).linger(Duration::ZERO)
}

fn hold(client: &Client, budget: u64, amount: &str) -> Hold {
    let ask = Ask::text(budget, amount, "USD").unwrap();
    let decision = client.reserve(&ask).unwrap();
    let verdict = decision.verdict();
    decision.granted().unwrap_or_else(|| panic!("{verdict}"))
}

/// An address that stays the same while the node behind it is another: connections end with the node's.
fn stable(node: Arc<Mutex<SocketAddr>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(server) = TcpStream::connect(*node.lock().unwrap()) else { continue };
            for (from, to) in [(&client, &server), (&server, &client)] {
                let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                std::thread::spawn(move || pump(from, to));
            }
        }
    });
    address
}

fn pump(mut from: TcpStream, mut to: TcpStream) {
    let mut bytes = [0; 16384];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

#[test]
fn a_hold_is_settled_released_or_dropped() {
    let node = Setup::new(&line(1, "10", "")).with("batch.wait_ms", "10000").start();
    let client = Client::open(options(node.batch)).unwrap();
    let mut settled = hold(&client, 1, "2");
    assert_eq!(settled.confirm().unwrap().verdict, Verdict::CONFIRMED);
    assert_eq!(settled.settle_text("1.5").unwrap().verdict, Verdict::SETTLED);
    assert!(settled.release().is_err(), "it is done");
    let mut released = hold(&client, 1, "3");
    assert_eq!(released.release().unwrap().verdict, Verdict::RELEASED);
    drop(hold(&client, 1, "4"));
    node.wait_budget(1, "all but what was settled", |books| {
        books.settled == 1_500_000 && books.held == 0
    });
    let decision = client.reserve(&Ask::text(1, "9", "USD").unwrap()).unwrap();
    // Whether the bank or the worker's purse knows first is chance.
    let noes = [Verdict::EXHAUSTED, Verdict::PURSE_EMPTY];
    assert!(matches!(decision, Decision::Refused(why) if noes.contains(&why)), "{decision:?}");
    let other = client.reserve(&Ask::text(1, "1", "EUR").unwrap()).unwrap();
    assert_eq!(other.verdict(), Verdict::UNIT_MISMATCH);
}

#[test]
fn settlements_outlive_a_killed_node_and_are_booked_once() {
    let setup = Setup::new(&line(1, "100", "")).with("batch.wait_ms", "10000");
    let mut node = setup.with("ledger.hold_ms", "600000").start();
    let now = Arc::new(Mutex::new(node.batch));
    let address = stable(Arc::clone(&now));
    let folder = tempfile::tempdir().unwrap();
    let spool = folder.path().join("spool");
    let client = Client::open(options(address).spool(&spool)).unwrap();
    let holds: Vec<Hold> = (0..60).map(|_| hold(&client, 1, "1")).collect();
    let node = std::thread::scope(|scope| {
        let callers = holds
            .into_iter()
            .map(|mut hold| scope.spawn(move || hold.settle_text("0.5").unwrap().verdict));
        let callers: Vec<_> = callers.collect();
        for _ in 0..2 {
            node = node.restart();
            *now.lock().unwrap() = node.batch;
        }
        for caller in callers {
            let verdict = caller.join().unwrap();
            assert!(verdict.is_booked(), "{verdict}");
        }
        node
    });
    assert_eq!(client.unanswered(), 0);
    assert!(client.close(PATIENCE));
    let books = node.wait_budget(1, "all settled", |books| books.settled + books.late > 0);
    assert_eq!((books.settled + books.late, books.over_settled), (60 * 500_000, 0), "{books:?}");
    // Nothing is left to do for the next client.
    let client = Client::open(options(address).spool(&spool)).unwrap();
    assert_eq!(client.unanswered(), 0);
}

#[test]
fn many_asks_of_many_callers_are_answered_each() {
    let node = Setup::new(&line(1, "1000", "")).with("batch.wait_ms", "10000").start();
    let client = Client::open(options(node.batch).linger(Duration::from_micros(50))).unwrap();
    let asks = vec![Ask::text(1, "0.01", "USD").unwrap(); 2500];
    let mut answers = Vec::new();
    client.reserve_all(&asks, &mut answers).unwrap();
    assert!(answers.iter().all(|answer| answer.verdict.is_granted()));
    let releases: Vec<_> = answers
        .iter()
        .map(|answer| (answer.token, weir_client::Action::Release, 0, answer.request_id))
        .collect();
    client.resolve_all(&releases).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for _ in 0..50 {
                    hold(&client, 1, "0.02").settle_text("0.01").unwrap();
                }
            });
        }
    });
    let books = node.wait_budget(1, "all is answered", |books| books.held == 0);
    assert_eq!(books.settled, 16 * 50 * 10_000, "{books:?}");
}

#[test]
fn a_door_with_tls_is_asked_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let write = |name: &str, pem: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, pem).unwrap();
        path.to_str().unwrap().to_string()
    };
    // Sealing a filling takes a busy disk longer than the default patience.
    let node = Setup::new(&line(1, "10", ""))
        .with("batch.wait_ms", "10000")
        .with("batch.tls_cert", &write("cert", certificate.pem()))
        .with("batch.tls_key", &write("key", key.serialize_pem()))
        .start();
    let trusting = |roots: rustls::RootCertStore| {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions().unwrap();
        Arc::new(config.with_root_certificates(roots).with_no_client_auth())
    };
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.der().clone()).unwrap();
    let client = Client::open(options(node.batch).tls(trusting(roots))).unwrap();
    for _ in 0..3 {
        assert_eq!(hold(&client, 1, "0.01").settle_text("0.01").unwrap().verdict, Verdict::SETTLED);
    }
    let asks = vec![Ask::text(1, "0.0001", "USD").unwrap(); 2000];
    let mut answers = Vec::new();
    client.reserve_all(&asks, &mut answers).unwrap();
    assert!(answers.iter().all(|answer| answer.verdict.is_granted()), "more than a record of TLS");
    // Nobody is asked whose certificate is not trusted, and a node with TLS is not asked without.
    let short = || options(node.batch).deadline(Duration::from_secs(1));
    for options in [short().tls(trusting(rustls::RootCertStore::empty())), short()] {
        let client = Client::open(options).unwrap();
        let verdict = client.reserve(&asks[0]).unwrap().verdict();
        assert!([Verdict::UNREACHABLE, Verdict::TIMEOUT].contains(&verdict), "{verdict}");
    }
}

#[test]
fn a_budget_of_a_template_is_asked_by_its_handle() {
    let template = r#"{"template":"llm/{team}","unit":"USD","limit":"5.00"}"#;
    let budgets = format!("{}{template}\n", line(1, "10", ""));
    let node = Setup::new(&budgets).with("batch.wait_ms", "10000").start();
    let client = Client::open(options(node.batch)).unwrap();
    let ask = Ask::text(0, "3", "USD").unwrap();
    let mut first = client.reserve_from("llm/red", &ask).unwrap().granted().unwrap();
    assert_eq!(first.settle_text("3").unwrap().verdict, Verdict::SETTLED);
    assert!(!client.reserve_from("llm/red", &ask).unwrap().verdict().is_granted(), "3 of 2");
    assert!(client.reserve_from("llm/blue", &ask).unwrap().verdict().is_granted());
    let nobody = client.reserve_from("shop/red", &ask).unwrap();
    assert_eq!(nobody.verdict(), Verdict::UNKNOWN_BUDGET);
}
