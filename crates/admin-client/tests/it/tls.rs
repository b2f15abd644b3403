//! Over TLS.

use std::io::Write;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;

use admin_client::{Client, FetchError, Trust};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::doors::{PATIENCE, SECRET, read_head, token};

/// A CA with its certificate in a file.
struct Authority {
    folder: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), issuer.pem()).unwrap();
        Authority { folder, issuer }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// A door with a certificate for `name`; serves one connection, whose request's head it returns.
    fn door(
        &self,
        name: &str,
        change: impl Fn(&mut CertificateParams),
    ) -> (u16, std::thread::JoinHandle<String>) {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let secret = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], secret)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let thread = std::thread::spawn(move || {
            let (socket, _) = listener.accept().unwrap();
            let mut stream =
                StreamOwned::new(ServerConnection::new(Arc::new(config)).unwrap(), socket);
            let head = read_head(&mut stream);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1");
            stream.conn.send_close_notify();
            let _ = stream.flush();
            head
        });
        (port, thread)
    }
}

fn ask(target: &str, trust: Trust) -> Result<Value, FetchError> {
    Client::new(target.parse().unwrap(), Some(token()), Some(trust))
        .with_wait(PATIENCE)
        .get("/v1/node")
}

#[test]
fn a_door_whose_ca_is_given_answers() {
    let authority = Authority::new();
    for (name, host) in [("localhost", "localhost"), ("127.0.0.1", "127.0.0.1")] {
        let (port, thread) = authority.door(name, |_| {});
        let found =
            ask(&format!("https://{host}:{port}"), Trust::of_file(&authority.file()).unwrap());
        assert_eq!(found.unwrap(), json!(1), "{name}");
        assert!(thread.join().unwrap().contains(SECRET));
    }
}

#[test]
fn a_certificate_that_does_not_hold_is_told_and_gets_no_token() {
    let (authority, other) = (Authority::new(), Authority::new());
    let trust = |authority: &Authority| Trust::of_file(&authority.file()).unwrap();
    let fresh: fn(&mut CertificateParams) = |_| {};
    let expired: fn(&mut CertificateParams) = |params| {
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(2002, 1, 1);
    };
    let future: fn(&mut CertificateParams) = |params| params.not_before = date_time_ymd(3000, 1, 1);
    for (name, change, trust, expected) in [
        ("localhost", fresh, trust(&other), "its certificate is not signed by a CA in "),
        ("localhost", fresh, Trust::system(), "give --ca FILE"),
        ("weir.example", fresh, trust(&authority), "its certificate is not for localhost, but for"),
        ("localhost", expired, trust(&authority), "has expired; renew it"),
        ("localhost", future, trust(&authority), "is not valid yet"),
    ] {
        let (port, thread) = authority.door(name, change);
        let found = ask(&format!("https://localhost:{port}"), trust).unwrap_err().to_string();
        assert!(found.contains(expected), "{found}");
        assert_eq!(thread.join().unwrap(), "", "nothing was said before the certificate held");
    }
}

/// What the words of the library are for a chain that its own leaf signed: told in plain words.
#[test]
fn a_certificate_that_is_a_cas_own_is_told_with_what_to_do() {
    let authority = Authority::new();
    let is_ca: fn(&mut CertificateParams) =
        |params| params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let (port, thread) = authority.door("localhost", is_ca);
    let trust = Trust::of_file(&authority.file()).unwrap();
    let found = ask(&format!("https://localhost:{port}"), trust).unwrap_err().to_string();
    assert!(found.contains("it is a CA's own; make one for the server"), "{found}");
    assert_eq!(thread.join().unwrap(), "");
}

#[test]
fn a_door_without_tls_is_recognised() {
    let bytes = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let thread = std::thread::spawn(move || drop(listener.accept().unwrap().0.write_all(bytes)));
    let found = ask(&format!("https://{address}"), Trust::system()).unwrap_err();
    assert!(matches!(found, FetchError::SpeaksNoTls { .. } | FetchError::Broken { .. }), "{found}");
    thread.join().unwrap();
}

#[test]
fn a_door_that_hangs_in_the_handshake_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = format!("https://{}", listener.local_addr().unwrap()).parse().unwrap();
    let client = Client::new(target, None, Some(Trust::system()));
    let found =
        client.with_wait(std::time::Duration::from_millis(300)).get::<Value>("/").unwrap_err();
    assert!(matches!(found, FetchError::Slow { .. }), "{found}");
}
