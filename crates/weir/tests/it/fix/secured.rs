//! TLS both ways: clients that show certificates, and a venue that the node shows its own.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned,
};
use tempfile::TempDir;

use super::{Client, SESSION, door, field, setup};
use crate::support::{Node, PATIENCE, Setup, text};

/// Signs certificates, each with its key in files of its name.
struct Authority {
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
    folder: TempDir,
}

impl Authority {
    fn new(names: &[&str]) -> Authority {
        let mut params = rcgen::CertificateParams::default();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca"), params.self_signed(&key).unwrap().pem()).unwrap();
        let authority = Authority { issuer: rcgen::Issuer::new(params, key), folder };
        names.iter().for_each(|name| authority.sign(name));
        authority
    }

    fn sign(&self, name: &str) {
        let params = rcgen::CertificateParams::new([name.to_owned()]).unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        std::fs::write(self.path(name, "cert"), certificate.pem()).unwrap();
        std::fs::write(self.path(name, "key"), key.serialize_pem()).unwrap();
    }

    fn path(&self, name: &str, kind: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.{kind}"))
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.folder.path().join("ca")).unwrap()).unwrap();
        roots
    }

    fn identity(&self, name: &str) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let certificate = CertificateDer::from_pem_file(self.path(name, "cert")).unwrap();
        (vec![certificate], PrivateKeyDer::from_pem_file(self.path(name, "key")).unwrap())
    }

    /// A client of the door, which shows the certificate of a name.
    fn client(&self, node: &Node, shown: Option<&str>) -> Client {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(self.roots());
        let config = match shown.map(|name| self.identity(name)) {
            Some((chain, key)) => config.with_client_auth_cert(chain, key).unwrap(),
            None => config.with_no_client_auth(),
        };
        let name = ServerName::try_from("door.example").unwrap();
        let session = ClientConnection::new(Arc::new(config), name).unwrap();
        let socket = TcpStream::connect(door(node)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let address = socket.local_addr().unwrap();
        secured(Box::new(StreamOwned::new(session, socket)), address, ("CLIENT1", "GATE"))
    }

    /// A venue that shows the certificate of a name, and wants one.
    fn venue(&self, listener: &TcpListener, shown: &str) -> Client {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let asks = WebPkiClientVerifier::builder_with_provider(
            Arc::new(self.roots()),
            Arc::clone(&provider),
        );
        let (chain, key) = self.identity(shown);
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(asks.build().unwrap())
            .with_single_cert(chain, key)
            .unwrap();
        let session = ServerConnection::new(Arc::new(config)).unwrap();
        let socket = listener.accept().unwrap().0;
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let address = socket.local_addr().unwrap();
        secured(Box::new(StreamOwned::new(session, socket)), address, ("VENUE", "GATE"))
    }

    /// A node whose door and venue have TLS, and whose client has a certificate of a name.
    fn setup(&self, venues: &[SocketAddr]) -> Setup {
        let file = |name, kind| format!("{:?}", text(&self.path(name, kind)));
        let ca = format!("{:?}", text(&self.folder.path().join("ca")));
        let venues: Vec<String> = venues.iter().map(|address| format!("\"{address}\"")).collect();
        let config = format!(
            "[fix]\ntls_cert = {}\ntls_key = {}\ntls_clients = {ca}\n{}certificate_name = \"client1.example\"\n\
             [[fix.venue]]\nname = \"venue1\"\nsender_comp_id = \"GATE\"\ntarget_comp_id = \"VENUE\"\nconnect = [{}]\n\
             tls = true\ntls_ca = {ca}\ntls_name = \"venue.example\"\ntls_cert = {}\ntls_key = {}\n",
            file("door.example", "cert"),
            file("door.example", "key"),
            SESSION.replace("echo", "venue1"),
            venues.join(", "),
            file("gate.example", "cert"),
            file("gate.example", "key"),
        );
        setup(&config)
    }
}

fn secured(
    stream: Box<dyn super::Stream>,
    address: SocketAddr,
    ids: (&'static str, &'static str),
) -> Client {
    Client { stream, address, input: Vec::new(), next_out: 1, ids }
}

const NAMES: [&str; 5] =
    ["door.example", "client1.example", "client2.example", "venue.example", "gate.example"];

/// Says Logon; what comes back.
fn logon(mut client: Client) -> Option<String> {
    let bytes = client.message("A", b"98=0\x01108=30\x01");
    // The door may have closed already.
    client.stream.write_all(&bytes).ok()?;
    client.receive()
}

#[test]
fn orders_and_fills_pass_through_tls_on_both_sides() {
    let authority = Authority::new(&NAMES);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let node = authority.setup(&[listener.local_addr().unwrap()]).start();
    let mut venue = authority.venue(&listener, "venue.example");
    assert!(venue.receive().expect("a Logon").contains("|35=A|"));
    venue.send("A", "98=0|108=30|");
    let mut client = authority.client(&node, Some("client1.example"));
    client.send("A", "98=0|108=30|");
    assert!(client.receive().expect("a Logon").contains("|35=A|"));
    node.wait_stat("both", |stat| stat["doors"]["fix"]["logons"] == 2);
    for id in ["first", "second"] {
        client.order(id);
        let order = venue.receive_message();
        assert_eq!(field(&order, "11"), id);
        venue.send("8", &format!("37=V|11={id}|17=E-{id}|150=0|39=0|9999=ours|"));
        let report = client.receive_message();
        let found = ["11", "17", "9999"].map(|tag| field(&report, tag));
        assert_eq!(found, [id.to_owned(), format!("E-{id}"), "ours".to_owned()]);
    }
    client.send("5", "");
    assert_eq!(field(&client.receive_message(), "35"), "5");
    assert_eq!(client.receive(), None);
}

#[test]
fn clients_without_their_certificate_are_told_nothing() {
    let authority = Authority::new(&NAMES);
    let stranger = Authority::new(&["client1.example"]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let node = authority.setup(&[listener.local_addr().unwrap()]).start();
    assert_eq!(logon(authority.client(&node, None)), None);
    assert_eq!(logon(authority.client(&node, Some("client2.example"))), None);
    node.wait_stat("the other name", |stat| stat["doors"]["fix"]["refused_logons"] == 1);
    // Trusts the door, and shows what somebody else has signed under the right name.
    for kind in ["cert", "key"] {
        let (from, to) =
            (stranger.path("client1.example", kind), authority.path("forged.example", kind));
        std::fs::copy(from, to).unwrap();
    }
    assert_eq!(logon(authority.client(&node, Some("forged.example"))), None);
    let plain = Client::connect(&node);
    let heard = logon(plain).unwrap_or_default();
    assert!(!heard.contains("35="), "{heard}");
    assert!(logon(authority.client(&node, Some("client1.example"))).is_some());
}

#[test]
fn a_venue_whose_certificate_is_not_its_own_gets_no_logon_and_the_next_address_is_tried() {
    let authority = Authority::new(&NAMES);
    let stranger = Authority::new(&["venue.example"]);
    let listeners = [(); 4].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let addresses = listeners.each_ref().map(|listener| listener.local_addr().unwrap());
    let node = authority.setup(&addresses).start();
    // Of this authority with another name; of another authority; no TLS at all.
    assert_eq!(authority.venue(&listeners[0], "client1.example").receive(), None);
    assert_eq!(stranger.venue(&listeners[1], "venue.example").receive(), None);
    let mut plain = Client::over(listeners[2].accept().unwrap().0, ("VENUE", "GATE"));
    plain.send("5", "");
    let heard = plain.receive().unwrap_or_default();
    assert!(!heard.contains("35=A"), "{heard}");
    let mut venue = authority.venue(&listeners[3], "venue.example");
    assert!(venue.receive().expect("a Logon").contains("|35=A|34=1|"));
    assert_eq!(node.log().matches("a venue cannot be reached").count(), 3, "{}", node.log());
}
