//! TLS at the doors of the workers, with and without certificates of clients.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tempfile::TempDir;
use weir_config::config::Config;
use weir_node::known::Permits;
use wire::{DecideFlags, Split, Verdict, frame};

use crate::client::{Reply, ask, decide_frame, fresh_id, hello_frame, reply};
use crate::support::{
    Node, PATIENCE, Setup, at_any_port, line, output, stderr, stdout, text, wait_for, weir,
};

type Stream = StreamOwned<ClientConnection, TcpStream>;

/// A signer of certificates, with files of what it signed for the node.
struct Authority {
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
    folder: TempDir,
}

impl Authority {
    fn new() -> Authority {
        let mut params = rcgen::CertificateParams::default();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca"), params.self_signed(&key).unwrap().pem()).unwrap();
        let authority = Authority { issuer: rcgen::Issuer::new(params, key), folder };
        authority.sign();
        authority
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes another certificate for the node, and its key; returns the certificate.
    fn sign(&self) -> CertificateDer<'static> {
        let params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        std::fs::write(self.path("cert"), certificate.pem()).unwrap();
        std::fs::write(self.path("key"), key.serialize_pem()).unwrap();
        certificate.der().clone()
    }

    /// Both doors of the node with its certificate.
    fn setup(&self) -> Setup {
        let setup = Setup::new(&line(1, "1", ""));
        ["batch", "openrtb"].iter().fold(setup, |setup, door| {
            setup
                .with(&format!("{door}.tls_cert"), text(&self.path("cert")))
                .with(&format!("{door}.tls_key"), text(&self.path("key")))
        })
    }

    /// A client of a door; `known`: it shows the node's own certificate, which this authority signed.
    fn connect(&self, address: SocketAddr, known: bool) -> Stream {
        let read = |name| CertificateDer::from_pem_file(self.path(name)).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(read("ca")).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let key = || PrivateKeyDer::from_pem_file(self.path("key")).unwrap();
        let mut config = match known {
            true => config.with_client_auth_cert(vec![read("cert")], key()).unwrap(),
            false => config.with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let name = ServerName::try_from("localhost").unwrap();
        let session = ClientConnection::new(Arc::new(config), name).unwrap();
        let socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        StreamOwned::new(session, socket)
    }
}

/// Sends a frame and takes the answer.
fn exchange(stream: &mut Stream, bytes: &[u8]) -> io::Result<Reply> {
    stream.write_all(bytes)?;
    let mut unread = Vec::new();
    loop {
        if let Split::Frame(frame) = frame::split(&unread, 1 << 20).unwrap() {
            return Ok(reply(frame));
        }
        let mut chunk = [0; 4_096];
        match stream.read(&mut chunk)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => unread.extend_from_slice(&chunk[..count]),
        }
    }
}

fn hello(stream: &mut Stream) -> io::Result<Reply> {
    exchange(stream, &hello_frame((1, 1), fresh_id(), b""))
}

/// A bid request, for which there is no campaign; the status of the answer.
fn bid(stream: &mut Stream) -> io::Result<String> {
    let body = r#"{"id":"1","imp":[{"id":"1","banner":{"w":300,"h":250}}]}"#;
    let size = body.len();
    write!(
        stream,
        "POST /openrtb2/bid HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {size}\r\n\r\n{body}"
    )?;
    status(stream)
}

/// Takes the head of an answer; returns its status.
fn status(stream: &mut Stream) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.extend_from_slice(&byte);
    }
    Ok(String::from_utf8_lossy(&head[..12]).into_owned())
}

/// The address that the node said at its start.
fn openrtb(node: &Node) -> SocketAddr {
    let found = node.said.iter().find_map(|line| line.strip_prefix("openrtb "));
    found.unwrap().parse().unwrap()
}

/// Both doors answer this client.
fn both_answer(node: &Node, authority: &Authority, known: bool) {
    let mut client = authority.connect(node.batch, known);
    assert!(matches!(hello(&mut client).unwrap(), Reply::Welcome { .. }));
    wait_for("a grant", || {
        let asks = [ask(fresh_id(), 1, 1)];
        let sent = decide_frame(1, DecideFlags::default(), &asks);
        let Reply::Decided { answers, .. } = exchange(&mut client, &sent).unwrap() else {
            panic!("no decision")
        };
        answers[0].0 == Verdict::Granted
    });
    let mut bidder = authority.connect(openrtb(node), known);
    assert_eq!(bid(&mut bidder).unwrap(), "HTTP/1.1 204");
    assert_eq!(bid(&mut bidder).unwrap(), "HTTP/1.1 204", "the connection lives on");
    assert_eq!(bidder.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
}

#[test]
fn clients_of_both_doors_speak_tls() {
    let authority = Authority::new();
    let node = authority.setup().start();
    both_answer(&node, &authority, false);
    // Without TLS nobody is heard.
    let mut plain = TcpStream::connect(node.batch).unwrap();
    plain.set_read_timeout(Some(PATIENCE)).unwrap();
    plain.write_all(&hello_frame((1, 1), 7, b"")).unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(answer.len() < 16, "an alert at most: {answer:?}");
}

/// The keys door with a certificate, which asks for those of clients: calls of every way to be answered, and nobody else.
#[test]
fn the_keys_door_speaks_tls() {
    let authority = Authority::new();
    let setup = ["tls_cert", "tls_key", "tls_clients"]
        .iter()
        .zip(["cert", "key", "ca"])
        .fold(crate::keys::unsealed(), |setup, (key, file)| {
            setup.with(&format!("keys.{key}"), text(&authority.path(file)))
        });
    let node = setup.start();
    let said = node.said.iter().find_map(|line| line.strip_prefix("keys ")).unwrap();
    let (address, token) = (said.parse().unwrap(), crate::keys::own_token(&node.data()));
    let post = |stream: &mut Stream, path: &str, body: &str| {
        let size = body.len();
        write!(
            stream,
            "POST /v1/transit/{path} HTTP/1.1\r\nHost: localhost\r\nX-Vault-Token: {token}\r\nContent-Length: {size}\r\n\r\n{body}"
        )?;
        status(stream)
    };
    let mut client = authority.connect(address, true);
    assert_eq!(post(&mut client, "keys/a", "{}").unwrap(), "HTTP/1.1 200");
    // Of the worker, and of the pool.
    for items in [1, 10_000] {
        let item = format!("{{\"plaintext\":\"{}\"}}", crate::keys::HELLO);
        let body = format!("{{\"batch_input\":[{}]}}", vec![item; items].join(","));
        let mut client = authority.connect(address, true);
        assert_eq!(post(&mut client, "encrypt/a", &body).unwrap(), "HTTP/1.1 200", "{items}");
    }
    assert!(post(&mut authority.connect(address, false), "keys/b", "{}").is_err());
    let mut plain = TcpStream::connect(address).unwrap();
    plain.set_read_timeout(Some(PATIENCE)).unwrap();
    plain.write_all(b"GET /v1/sys/health HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(answer.len() < 16, "an alert at most: {answer:?}");
}

#[test]
fn only_clients_with_a_certificate_enter_where_one_is_asked_for() {
    let authority = Authority::new();
    let ca = authority.path("ca");
    let setup = authority.setup().with("batch.tls_clients", text(&ca));
    let node = setup.with("openrtb.tls_clients", text(&ca)).start();
    both_answer(&node, &authority, true);
    assert!(hello(&mut authority.connect(node.batch, false)).is_err());
    assert!(bid(&mut authority.connect(openrtb(&node), false)).is_err());
    // One that signed itself, with the same names.
    let stranger = Authority::new();
    std::fs::copy(&ca, stranger.path("ca")).unwrap();
    assert!(hello(&mut stranger.connect(node.batch, true)).is_err());
}

/// What `weir check` says of these keys; empty where all is well.
fn check(folder: &Path, keys: &str) -> String {
    let config = folder.join("weir.toml");
    std::fs::write(&config, keys).unwrap();
    let found = output(weir().args(["check", "--config", text(&config)]));
    if found.status.success() { String::new() } else { stdout(&found) + &stderr(&found) }
}

#[test]
fn check_judges_certificates_as_a_start_does() {
    let authority = Authority::new();
    let path = |name: &str| text(&authority.path(name)).to_owned();
    let keys = |door: &str, cert: &str, key: &str| {
        format!("[{door}]\ntls_cert = \"{cert}\"\ntls_key = \"{key}\"\n")
    };
    let folder = tempfile::tempdir().unwrap();
    let check = |keys: &str| check(folder.path(), keys);
    assert_eq!(check(&keys("batch", &path("cert"), &path("key"))), "");
    let open = "listen = \"0.0.0.0:7700\"\n";
    let sound = keys("batch", &path("cert"), &path("key")) + open;
    assert!(
        check(&sound).contains("batch.tls_clients, or listen on 127.0.0.1"),
        "{}",
        check(&sound)
    );
    assert_eq!(check(&format!("{sound}tls_clients = \"{}\"\n", path("ca"))), "");
    for (wrong, expected) in [
        ("[batch]\ntls_cert = \"x\"\n".into(), "batch.tls_cert and batch.tls_key: one is set"),
        ("[openrtb]\ntls_clients = \"x\"\n".into(), "openrtb.tls_clients is set without"),
        (keys("batch", "/nowhere", &path("key")), ":2: batch.tls_cert /nowhere: No such file"),
        (keys("batch", "/nowhere", "/gone"), ":3: batch.tls_key /gone: No such file"),
        // Also where something else is wrong.
        (
            keys("batch", "/nowhere", "/gone") + "[log]\nlevel = \"loud\"\n",
            ":2: batch.tls_cert /nowhere: No such file",
        ),
        (
            keys("openrtb", &path("cert"), &path("cert")),
            &format!(":3: openrtb.tls_key {}: private key: ", path("cert")),
        ),
        (
            keys("openrtb", &path("key"), &path("key")),
            &format!(":2: openrtb.tls_cert {}: certificate: ", path("key")),
        ),
        (
            keys("batch", &path("cert"), &path("key"))
                + &format!("tls_clients = \"{}\"\n", path("key")),
            &format!(":4: batch.tls_clients {}: roots: ", path("key")),
        ),
        (
            keys("openrtb", &path("ca"), &path("key")),
            &format!(":2: openrtb.tls_cert {} and openrtb.tls_key {}: ", path("ca"), path("key")),
        ),
        (keys("openrtb", &path("ca"), &path("key")), "expected a certificate and its key"),
    ] {
        let said = check(&wrong);
        assert!(said.contains(expected), "{expected} not in {said}");
    }
    let setup = Setup::new(&line(1, "10", ""));
    let wrong = keys("batch", "/nowhere", "/gone");
    std::fs::write(setup.folder().join("weir.toml"), wrong).unwrap();
    let said = setup.try_start().err().expect("it does not start");
    for expected in ["weir.toml:2: batch.tls_cert /nowhere: ", "weir.toml:3: batch.tls_key /gone: "]
    {
        assert!(said.contains(expected), "{expected} not in {said}");
    }
}

#[test]
fn certificates_are_read_again_while_the_node_runs() {
    let (authority, folder) = (Authority::new(), tempfile::tempdir().unwrap());
    let mut config = Config::default();
    config.node.data_dir = folder.path().join("data");
    config.budgets.file = folder.path().join("budgets.jsonl");
    std::fs::write(&config.budgets.file, line(1, "1", "")).unwrap();
    config.workers.pin = false;
    config.journal.segment_bytes = 4_194_304;
    at_any_port(&mut config);
    config.batch.tls_cert = text(&authority.path("cert")).into();
    config.batch.tls_key = text(&authority.path("key")).into();
    // Where the node reads its configuration again.
    let source = Arc::new(Mutex::new(config.clone()));
    let read = Arc::clone(&source);
    let looks = Arc::new(AtomicUsize::new(0));
    let look = Arc::clone(&looks);
    let read = Box::new(move || {
        look.fetch_add(1, Ordering::AcqRel);
        Ok(read.lock().unwrap().clone())
    });
    let node =
        weir_survey::Node::start_permitted(&config, Permits::default(), &[], read, None).unwrap();
    let shown = || {
        let mut client = authority.connect(node.address("batch"), false);
        assert!(matches!(hello(&mut client).unwrap(), Reply::Welcome { .. }));
        let shown = client.conn.peer_certificates().unwrap()[0].clone().into_owned();
        (client, shown)
    };
    let (mut old, first) = shown();
    // A file that is no certificate changes nothing; neither does TLS for a door that began without.
    std::fs::write(authority.path("cert"), "no certificate").unwrap();
    let refused = node.reload().unwrap_err().lines();
    assert!(refused[0].contains("batch.tls_cert"), "{refused:?}");
    assert_eq!(shown().1, first);
    let renewed = authority.sign();
    let mut more = config.clone();
    more.openrtb.tls_cert.clone_from(&config.batch.tls_cert);
    more.openrtb.tls_key.clone_from(&config.batch.tls_key);
    *source.lock().unwrap() = more;
    let refused = node.reload().unwrap_err().lines();
    assert!(refused[0].contains("only at a start"), "{refused:?}");
    // Nor does it begin to ask clients for certificates, or cease to.
    let mut asks = config.clone();
    asks.batch.tls_clients = text(&authority.path("ca")).into();
    *source.lock().unwrap() = asks;
    let refused = node.reload().unwrap_err().lines();
    assert!(refused[0].starts_with("batch.tls_clients: "), "{refused:?}");
    assert_eq!(shown().1, first);
    *source.lock().unwrap() = config;
    let applied = node.reload().unwrap();
    assert!(applied.iter().any(|line| line.starts_with("batch.tls_cert: ")), "{applied:?}");
    assert_eq!(shown().1, renewed);
    assert!(hello(&mut old).is_ok(), "it lives on");
    // While one reload waits for its disk, a second one is refused at once; a signal, which nobody is told of, reads again afterwards.
    let (held, before) = (source.lock().unwrap(), looks.load(Ordering::Acquire));
    let aside = node.reload_aside().unwrap();
    wait_for("the reload's look", || looks.load(Ordering::Acquire) > before);
    assert_eq!(node.reload(), Err(weir_survey::NotReloaded::UnderWay));
    let by_signal = node.reload_aside().unwrap();
    let before = looks.load(Ordering::Acquire);
    drop(held);
    aside.join().unwrap();
    by_signal.join().unwrap();
    assert_eq!(looks.load(Ordering::Acquire), before + 1);
    node.reload().unwrap();
    drop(old);
    assert!(node.stop());
}
