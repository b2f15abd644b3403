//! What a door needs to speak TLS: certificates, keys, whom it trusts; read once, replaced while running.
//!
//! A worker reads the current configuration once per handshake, so a [`reload`](ServerTls::reload) is in force for
//! the next handshake and touches no connection that is open. Tickets of sessions are encrypted with a key that
//! belongs to one configuration: what an earlier one vouched for is not resumed under a later one.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::client::WebPkiServerVerifier;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{NoServerSessionStorage, VerifierBuilderError, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use thiserror::Error;

/// Why certificates cannot be used. Nothing changes where a reload fails.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A text is not PEM, or lacks what it is to hold.
    #[error("{what}: {source}; expected PEM")]
    Pem {
        /// Which of the texts.
        what: &'static str,
        /// What is wrong with it.
        source: pem::Error,
    },
    /// A text holds no certificate.
    #[error("{what}: no certificate; expected at least one in PEM")]
    Empty {
        /// Which of the texts.
        what: &'static str,
    },
    /// Certificate and key are no pair, or of a kind that is not supported.
    #[error("certificate and key: {0}; expected a certificate and its key")]
    Pair(#[source] rustls::Error),
    /// The roots for client certificates cannot be used.
    #[error("roots: {0}")]
    Roots(#[from] VerifierBuilderError),
    /// A root is no certificate of an authority.
    #[error("roots: {0}; expected certificates of those who sign the other side's")]
    Root(#[source] rustls::Error),
    /// The name of a server is neither a DNS name nor an address.
    #[error("{name:?} is no name of a server: expected a DNS name or an IP address")]
    Name {
        /// The name as given.
        name: String,
    },
}

/// Which certificates a server asks its clients for.
#[derive(Clone, Copy, Debug, Default)]
pub enum ClientCertificates<'a> {
    /// None.
    #[default]
    None,
    /// A client may show one; one that these roots (PEM) did not sign ends the handshake.
    Optional(&'a [u8]),
    /// Every client shows one that these roots (PEM) signed.
    Required(&'a [u8]),
}

/// Who we are: a certificate and its key.
#[derive(Clone, Copy)]
pub struct Identity<'a> {
    /// PEM: the certificate, followed by those that signed it, except the root.
    pub chain_pem: &'a [u8],
    /// PEM: the private key of the first certificate.
    pub key_pem: &'a [u8],
}

impl fmt::Debug for Identity<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity")
    }
}

impl Identity<'_> {
    fn read(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
        let chain = certificates("certificate", self.chain_pem)?;
        let key = PrivateKeyDer::from_pem_slice(self.key_pem)
            .map_err(|source| TlsError::Pem { what: "private key", source })?;
        Ok((chain, key))
    }
}

/// What the TLS of a listening door is made of.
#[derive(Clone, Copy, Debug)]
pub struct ServerOptions<'a> {
    /// The server's certificate and key.
    pub identity: Identity<'a>,
    /// The certificates asked of clients.
    pub clients: ClientCertificates<'a>,
    /// The protocols offered by ALPN, the preferred one first; none = ALPN is not used. A client that offers only
    /// others is refused.
    pub alpn: &'a [&'a [u8]],
}

/// The TLS of listening doors: a handle to one configuration, which can be replaced while workers use it.
#[derive(Clone)]
pub struct ServerTls(Arc<Mutex<Arc<ServerConfig>>>);

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerTls")
    }
}

impl ServerTls {
    /// Reads certificates and key.
    ///
    /// # Errors
    /// What cannot be used, and what was expected.
    pub fn new(options: &ServerOptions<'_>) -> Result<Self, TlsError> {
        Ok(Self(Arc::new(Mutex::new(server_config(options)?))))
    }

    /// Uses other certificates from the next handshake on. Open connections go on as they are, and no session of
    /// before is resumed.
    ///
    /// # Errors
    /// What cannot be used; the present certificates stay.
    pub fn reload(&self, options: &ServerOptions<'_>) -> Result<(), TlsError> {
        *lock(&self.0) = server_config(options)?;
        Ok(())
    }

    /// Uses the certificates of another one from the next handshake on, as [`reload`](Self::reload) does.
    pub fn replace(&self, with: &ServerTls) {
        let config = with.config();
        *lock(&self.0) = config;
    }

    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&lock(&self.0))
    }
}

/// What the TLS of outgoing connections is made of.
#[derive(Clone, Copy, Debug)]
pub struct ClientOptions<'a> {
    /// PEM: the certificates of whoever signs the servers' ones.
    pub roots_pem: &'a [u8],
    /// What we show to a server that asks for a certificate.
    pub identity: Option<Identity<'a>>,
    /// The protocols offered by ALPN; none = ALPN is not used.
    pub alpn: &'a [&'a [u8]],
}

/// The TLS of outgoing connections: whom to trust, who we are, and the name that the server must prove.
#[derive(Clone)]
pub struct ClientTls {
    config: Arc<Mutex<Arc<ClientConfig>>>,
    name: ServerName<'static>,
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientTls").field("name", &self.name).finish_non_exhaustive()
    }
}

impl ClientTls {
    /// Reads certificates and key. `name` is what the server's certificate must be for.
    ///
    /// # Errors
    /// What cannot be used, and what was expected.
    pub fn new(name: &str, options: &ClientOptions<'_>) -> Result<Self, TlsError> {
        let config = Arc::new(Mutex::new(client_config(options)?));
        let wrong = |_| TlsError::Name { name: name.to_owned() };
        Ok(Self { config, name: ServerName::try_from(name.to_owned()).map_err(wrong)? })
    }

    /// Uses other certificates from the next handshake on.
    ///
    /// # Errors
    /// What cannot be used; the present certificates stay.
    pub fn reload(&self, options: &ClientOptions<'_>) -> Result<(), TlsError> {
        *lock(&self.config) = client_config(options)?;
        Ok(())
    }

    pub(crate) fn config(&self) -> (Arc<ClientConfig>, ServerName<'static>) {
        (Arc::clone(&lock(&self.config)), self.name.clone())
    }
}

/// A configuration is replaced whole, so a panic beside the lock left a whole one.
fn lock<T>(config: &Mutex<T>) -> MutexGuard<'_, T> {
    config.lock().unwrap_or_else(PoisonError::into_inner)
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn owned(alpn: &[&[u8]]) -> Vec<Vec<u8>> {
    alpn.iter().map(|name| name.to_vec()).collect()
}

fn server_config(options: &ServerOptions<'_>) -> Result<Arc<ServerConfig>, TlsError> {
    let (chain, key) = options.identity.read()?;
    let verifier = |roots_pem| {
        let roots = Arc::new(roots(roots_pem)?);
        Ok::<_, TlsError>(WebPkiClientVerifier::builder_with_provider(roots, provider()))
    };
    let verifier = match options.clients {
        ClientCertificates::None => WebPkiClientVerifier::no_client_auth(),
        ClientCertificates::Optional(pem) => verifier(pem)?.allow_unauthenticated().build()?,
        ClientCertificates::Required(pem) => verifier(pem)?.build()?,
    };
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .and_then(|config| config.with_client_cert_verifier(verifier).with_single_cert(chain, key))
        .map_err(TlsError::Pair)?;
    config.alpn_protocols = owned(options.alpn);
    // Sessions are kept by the clients, in tickets: no memory of ours grows with them.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.ticketer = ring::Ticketer::new().map_err(TlsError::Pair)?;
    Ok(Arc::new(config))
}

fn client_config(options: &ClientOptions<'_>) -> Result<Arc<ClientConfig>, TlsError> {
    let roots = Arc::new(roots(options.roots_pem)?);
    let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider()).build()?;
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Pair)?
        .with_webpki_verifier(verifier);
    let mut config = match &options.identity {
        Some(identity) => {
            let (chain, key) = identity.read()?;
            config.with_client_auth_cert(chain, key).map_err(TlsError::Pair)?
        }
        None => config.with_no_client_auth(),
    };
    config.alpn_protocols = owned(options.alpn);
    Ok(Arc::new(config))
}

fn certificates(what: &'static str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|source| TlsError::Pem { what, source })?;
    if all.is_empty() { Err(TlsError::Empty { what }) } else { Ok(all) }
}

fn roots(pem: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    for root in certificates("roots", pem)? {
        store.add(root).map_err(TlsError::Root)?;
    }
    Ok(store)
}

/// What a handshake agreed on, and whom it showed. Certificates in here are verified.
#[derive(Clone, Copy, Debug)]
pub struct Secured<'a> {
    pub(crate) alpn: Option<&'a [u8]>,
    pub(crate) certificates: &'a [CertificateDer<'static>],
}

impl<'a> Secured<'a> {
    /// The protocol that ALPN chose, if it was used.
    pub fn alpn(&self) -> Option<&'a [u8]> {
        self.alpn
    }

    /// The peer's certificate in DER; `None` where it showed none.
    pub fn certificate(&self) -> Option<&'a [u8]> {
        self.certificates.first().map(AsRef::as_ref)
    }

    /// The common name of the subject of the peer's certificate, if it has exactly one, in UTF-8.
    pub fn common_name(&self) -> Option<String> {
        let certificate = webpki::EndEntityCert::try_from(self.certificates.first()?).ok()?;
        common_name(certificate.subject()).map(str::to_owned)
    }

    /// The DNS names that the peer's certificate is for.
    pub fn dns_names(&self) -> Vec<String> {
        let certificate = self.certificates.first();
        let parsed = certificate.and_then(|first| webpki::EndEntityCert::try_from(first).ok());
        parsed.map_or(Vec::new(), |one| one.valid_dns_names().map(str::to_owned).collect())
    }
}

/// The first element of DER bytes: its tag, its content, and what follows it.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81 => (usize::from(*rest.first()?), &rest[1..]),
        0x82 => {
            let (length, rest) = rest.split_first_chunk::<2>()?;
            (usize::from(u16::from_be_bytes(*length)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// The one common name of a subject; two are none, since either could be the one that the signer looked at.
fn common_name(mut subject: &[u8]) -> Option<&str> {
    const SET: u8 = 0x31;
    const OBJECT: u8 = 0x06;
    const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
    const TEXTS: [u8; 3] = [0x0c, 0x13, 0x16];
    let mut found = None;
    while !subject.is_empty() {
        let (tag, mut set, rest) = element(subject)?;
        if tag != SET {
            return None;
        }
        subject = rest;
        while !set.is_empty() {
            let (_, pair, rest) = element(set)?;
            set = rest;
            let (tag, name, value) = element(pair)?;
            if (tag, name) == (OBJECT, COMMON_NAME) {
                let (tag, text, _) = element(value)?;
                if found.is_some() || !TEXTS.contains(&tag) {
                    return None;
                }
                found = Some(str::from_utf8(text).ok()?);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_subject_has_one_common_name_or_none() {
        let attribute = |kind: u8, text: &str| {
            let mut value = vec![0x06, 3, 0x55, 0x04, kind, 0x0c];
            value.push(u8::try_from(text.len()).unwrap());
            value.extend_from_slice(text.as_bytes());
            let length = u8::try_from(value.len()).unwrap();
            [vec![0x31, length + 2, 0x30, length], value].concat()
        };
        let name = attribute(3, "bidder-7");
        // The organisation's text looks like a common name; it is none.
        let forged = attribute(10, "\u{6}\u{3}U\u{4}\u{3}\u{c}\u{3}abc");
        assert_eq!(common_name(&name), Some("bidder-7"));
        assert_eq!(common_name(&[forged.clone(), name.clone()].concat()), Some("bidder-7"));
        assert_eq!(common_name(&forged), None);
        assert_eq!(common_name(&name.repeat(2)), None);
        for end in 1..name.len() {
            assert_eq!(common_name(&name[..end]), None, "cut at {end}");
        }
    }

    #[test]
    fn what_is_no_pem_is_refused_with_its_name() {
        let identity = Identity { chain_pem: b"no certificate", key_pem: b"" };
        let options = ServerOptions { identity, clients: ClientCertificates::None, alpn: &[] };
        assert!(matches!(ServerTls::new(&options), Err(TlsError::Empty { what: "certificate" })));
        let options = ClientOptions { roots_pem: b"", identity: None, alpn: &[] };
        let error = ClientTls::new("localhost", &options).unwrap_err();
        assert!(matches!(error, TlsError::Empty { what: "roots" }), "{error}");
    }
}
