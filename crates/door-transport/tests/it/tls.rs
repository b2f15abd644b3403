//! TLS below the doors: the same service, which sees plain bytes.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use door_transport::tls::{ClientCertificates, Identity, ServerOptions, ServerTls};
use door_transport::{CloseReason, HandshakeFailure, Listeners, Options};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::support::{Client, Dice, Server, frame, wait_for};

/// A signer of certificates, and what it signed.
pub struct Authority {
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
    pub root_pem: String,
}

/// A certificate and its key, in PEM.
#[derive(Clone)]
pub struct Certificate {
    pub chain: String,
    pub key: String,
}

impl Certificate {
    pub fn identity(&self) -> Identity<'_> {
        Identity { chain_pem: self.chain.as_bytes(), key_pem: self.key.as_bytes() }
    }
}

impl Authority {
    pub fn new() -> Self {
        let mut params = rcgen::CertificateParams::default();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().unwrap();
        let root_pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: rcgen::Issuer::new(params, key), root_pem }
    }

    /// A certificate for `localhost` and 127.0.0.1 whose subject is `name`.
    pub fn sign(&self, name: &str) -> Certificate {
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut params = rcgen::CertificateParams::new(names).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        let key = rcgen::KeyPair::generate().unwrap();
        let chain = params.signed_by(&key, &self.issuer).unwrap().pem();
        Certificate { chain, key: key.serialize_pem() }
    }

    /// What a client needs to trust what this one signed.
    pub fn client(&self, identity: Option<&Certificate>) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.root_pem.as_bytes()).unwrap()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS12, &TLS13])
            .unwrap()
            .with_root_certificates(roots);
        match identity {
            None => config.with_no_client_auth(),
            Some(identity) => {
                let chain = CertificateDer::from_pem_slice(identity.chain.as_bytes()).unwrap();
                let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
                config.with_client_auth_cert(vec![chain], key).unwrap()
            }
        }
    }
}

/// A server with TLS, and what its clients trust.
pub struct Secure {
    pub server: Server,
    pub tls: ServerTls,
    pub authority: Authority,
    pub config: Arc<ClientConfig>,
}

pub type TlsClient = Client<StreamOwned<ClientConnection, TcpStream>>;

impl Secure {
    pub fn start(options: Options) -> Self {
        Self::start_with(options, &[], |_| None)
    }

    /// `roots` says, in PEM, who signs the certificates that clients must show.
    pub fn start_with(
        options: Options,
        alpn: &[&[u8]],
        roots: impl Fn(&Authority) -> Option<String>,
    ) -> Self {
        let authority = Authority::new();
        let certificate = authority.sign("the server");
        let roots = roots(&authority);
        let clients = match &roots {
            None => ClientCertificates::None,
            Some(roots) => ClientCertificates::Required(roots.as_bytes()),
        };
        let identity = certificate.identity();
        let tls = ServerTls::new(&ServerOptions { identity, clients, alpn }).unwrap();
        let mut listeners = Listeners::bind("127.0.0.1:0".parse().unwrap(), 1).unwrap();
        listeners = listeners.into_iter().map(|one| one.with_tls(tls.clone())).collect();
        let server = Server::start_on(listeners, options);
        let config = Arc::new(authority.client(None));
        Self { server, tls, authority, config }
    }

    pub fn client(&self) -> TlsClient {
        connect(&self.server, &self.config)
    }

    pub fn stop(self) {
        self.server.stop();
    }

    pub fn failed(&self, why: HandshakeFailure) -> u64 {
        self.server.handle.counters().handshakes_failed(why)
    }

    pub fn wait_failed(&self, why: HandshakeFailure, count: u64) {
        wait_for(|| self.failed(why) >= count, why.name());
    }
}

/// A connection whose handshake begins with the first byte that is sent.
pub fn connect(server: &Server, config: &Arc<ClientConfig>) -> TlsClient {
    let name = ServerName::try_from("localhost").unwrap();
    let session = ClientConnection::new(Arc::clone(config), name).unwrap();
    Client(StreamOwned::new(session, server.client().0))
}

/// Says that nothing more comes, as TLS says it.
pub fn close_notify(client: &mut TlsClient) {
    client.0.conn.send_close_notify();
    while client.0.conn.wants_write() {
        client.0.conn.write_tls(&mut client.0.sock).unwrap();
    }
}

pub fn random_pieces_come_back(options: Options) {
    let secure = Secure::start(options);
    for (seed, version) in [&TLS12, &TLS13].into_iter().enumerate() {
        let mut roots = RootCertStore::empty();
        let root = CertificateDer::from_pem_slice(secure.authority.root_pem.as_bytes()).unwrap();
        roots.add(root).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut client = connect(&secure.server, &Arc::new(config));
        let mut dice = Dice::new(seed as u64);
        for _ in 0..200 {
            let count = dice.below(30_000);
            let bytes = frame(b'E', &dice.bytes(count));
            let (head, tail) = bytes.split_at(dice.below(bytes.len()));
            client.send(head);
            client.send(tail);
            client.expect(&bytes);
        }
        assert_eq!(client.0.conn.protocol_version(), Some(version.version));
    }
    assert_eq!(secure.server.handle.counters().handshakes.get(), 2);
    secure.stop();
}

pub fn a_large_message_arrives_whole(options: Options) {
    let secure = Secure::start(options);
    let payload = Dice::new(1).bytes(1024 * 1024 - 5);
    secure.client().echo(&payload);
    secure.stop();
}

pub fn pipelined_frames_are_answered_together(options: Options) {
    let secure = Secure::start(options);
    let mut client = secure.client();
    client.echo(b"the handshake is over");
    let counters = secure.server.handle.counters();
    let (sends, receives) = (counters.sends.get(), counters.receives.get());
    let bytes = frame(b'E', b"0123456789").repeat(1000);
    client.send(&bytes);
    client.expect(&bytes);
    wait_for(|| counters.output_bytes.get() == 0, "the count of the last send");
    let (sends, receives) = (counters.sends.get() - sends, counters.receives.get() - receives);
    // The first answer may be counted as sent after it arrived: one more.
    assert!(sends <= receives + 1 && receives < 100, "{counters:?}");
    drop(client);
    secure.stop();
}

pub fn close_notify_ends_both_directions(options: Options) {
    let secure = Secure::start(options);
    let mut client = secure.client();
    let bytes = frame(b'E', &[1; 5000]).repeat(20);
    client.send(&bytes);
    close_notify(&mut client);
    let mut answers = Vec::new();
    // An end of stream without our close_notify would be an error here.
    client.0.read_to_end(&mut answers).unwrap();
    assert!(answers == bytes, "what was asked before the end is answered");
    secure.server.wait_closed(CloseReason::PeerClosed, 1);
    // The same the other way round: the service closes.
    let mut client = secure.client();
    client.send(&frame(b'C', b"the last answer"));
    let mut answers = Vec::new();
    client.0.read_to_end(&mut answers).unwrap();
    assert_eq!(answers, frame(b'C', b"the last answer"));
    drop(client);
    secure.server.wait_closed(CloseReason::ServiceClosed, 1);
    secure.stop();
}

pub fn a_stop_says_goodbye(options: Options) {
    let secure = Secure::start(options);
    secure.server.shared().answer_at_stop = true;
    let mut client = secure.client();
    client.send(&frame(b'L', b"in flight"));
    // One that has not shaken hands holds up nothing.
    let half = secure.server.client();
    let handle = secure.server.handle.clone();
    let both = || secure.server.shared().later.len() == 1 && handle.counters().accepted.get() == 2;
    wait_for(both, "both");
    handle.stop();
    let mut answers = Vec::new();
    client.0.read_to_end(&mut answers).unwrap();
    assert_eq!(answers, frame(b'L', b"in flight"));
    drop((client, half));
    secure.stop();
    assert_eq!(handle.counters().closed(CloseReason::Shutdown), 1);
    assert_eq!(handle.counters().handshakes_failed(HandshakeFailure::Abandoned), 1);
}

pub fn client_certificates_are_asked_for_and_shown(options: Options) {
    let secure = Secure::start_with(options, &[], |authority| Some(authority.root_pem.clone()));
    let certificate = secure.authority.sign("bidder-7");
    let config = Arc::new(secure.authority.client(Some(&certificate)));
    connect(&secure.server, &config).echo(b"who I am");
    let shown = secure.server.shared().secured.pop().unwrap();
    assert_eq!(shown.common_name.as_deref(), Some("bidder-7"));
    assert_eq!(shown.dns_names, ["localhost"]);
    let der = CertificateDer::from_pem_slice(certificate.chain.as_bytes()).unwrap();
    assert_eq!(shown.certificate.as_deref(), Some(der.as_ref()));
    // None, and one of a stranger's who calls itself the same.
    let strange = Authority::new().sign("bidder-7");
    for (count, identity) in [(1, None), (2, Some(&strange))] {
        let mut client = connect(&secure.server, &Arc::new(secure.authority.client(identity)));
        let refused = client.0.write_all(b"x").and_then(|()| client.0.read(&mut [0; 1]));
        assert!(refused.is_err(), "{refused:?}");
        secure.wait_failed(HandshakeFailure::Certificate, count);
    }
    assert_eq!(secure.server.shared().opened.len(), 1, "the service never heard of them");
    secure.stop();
}

pub fn a_protocol_that_nobody_speaks_is_refused(options: Options) {
    let secure = Secure::start_with(options, &[b"fix", b"weir"], |_| None);
    let mut config = secure.authority.client(None);
    config.alpn_protocols = vec![b"h2".to_vec(), b"weir".to_vec()];
    connect(&secure.server, &Arc::new(config.clone())).echo(b"we agree");
    assert_eq!(secure.server.shared().secured[0].alpn.as_deref(), Some(b"weir".as_slice()));
    config.alpn_protocols = vec![b"h2".to_vec()];
    let mut client = connect(&secure.server, &Arc::new(config));
    let refused = client.0.write_all(b"x").and_then(|()| client.0.read(&mut [0; 1]));
    assert!(refused.is_err(), "{refused:?}");
    secure.wait_failed(HandshakeFailure::Refused, 1);
    secure.stop();
}

/// The certificate that the server showed.
fn shown(client: &TlsClient) -> Vec<u8> {
    client.0.conn.peer_certificates().unwrap()[0].to_vec()
}

pub fn a_renewed_certificate_is_shown_from_the_next_handshake_on(options: Options) {
    let secure = Secure::start(options);
    let fresh = || secure.authority.client(None);
    let mut old = connect(&secure.server, &Arc::new(fresh()));
    old.echo(b"before");
    let renewed = secure.authority.sign("renewed");
    let clients = ClientCertificates::None;
    let wrong = Identity { chain_pem: renewed.chain.as_bytes(), key_pem: b"no key" };
    let refused = secure.tls.reload(&ServerOptions { identity: wrong, clients, alpn: &[] });
    assert!(refused.is_err(), "a file without a key changes nothing");
    let mut same = connect(&secure.server, &Arc::new(fresh()));
    same.echo(b"still the first");
    assert_eq!(shown(&same), shown(&old));
    let identity = renewed.identity();
    secure.tls.reload(&ServerOptions { identity, clients, alpn: &[] }).unwrap();
    let mut new = connect(&secure.server, &Arc::new(fresh()));
    new.echo(b"after");
    let der = CertificateDer::from_pem_slice(renewed.chain.as_bytes()).unwrap();
    assert_eq!(shown(&new), der.as_ref());
    assert_ne!(shown(&old), der.as_ref());
    old.echo(b"old connections go on");
    drop((old, same, new));
    secure.stop();
}

pub fn a_ticket_of_before_a_reload_buys_nothing(options: Options) {
    let secure = Secure::start(options);
    let resumed = || {
        let mut client = secure.client();
        client.echo(b"some bytes, with which a ticket comes");
        client.0.conn.handshake_kind() == Some(rustls::HandshakeKind::Resumed)
    };
    assert!(!resumed());
    assert!(resumed(), "a ticket saves a signature");
    let other = secure.authority.sign("another");
    let (identity, clients) = (other.identity(), ClientCertificates::None);
    secure.tls.reload(&ServerOptions { identity, clients, alpn: &[] }).unwrap();
    assert!(!resumed(), "what an earlier configuration vouched for is checked again");
    secure.stop();
}

/// Whether reading ended because the stream was cut.
pub fn is_cut(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
    )
}
