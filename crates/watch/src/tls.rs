//! TLS of the door.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use access::file::read_regular;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;

/// Bytes of a file in PEM at most.
const PEM_BYTES_MAX: u64 = 1 << 20;

/// A certificate and its key, one pair for all who hold a clone; it can be replaced while the door is open.
#[derive(Clone)]
pub struct Tls(Arc<Mutex<Arc<ServerConfig>>>);

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    /// Reads PEM files: the certificate with those that signed it, and its private key.
    ///
    /// # Errors
    /// Which file cannot be used, and what was expected in it.
    pub fn read(certificate: &Path, key: &Path) -> Result<Tls, String> {
        let bytes = |path: &Path| {
            read_regular(path, PEM_BYTES_MAX)
                .map_err(|error| format!("{}: {error}", path.display()))
        };
        let chain = CertificateDer::pem_slice_iter(&bytes(certificate)?)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| {
                format!("{}: {error}; expected certificates in PEM", certificate.display())
            })?;
        if chain.is_empty() {
            return Err(format!("{}: no certificate, expected one in PEM", certificate.display()));
        }
        let secret = PrivateKeyDer::from_pem_slice(&bytes(key)?).map_err(|error| {
            format!("{}: {error}; expected a private key in PEM", key.display())
        })?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|config| config.with_no_client_auth().with_single_cert(chain, secret));
        let mut config = config.map_err(|error| {
            format!(
                "{} and {}: {error}; expected a certificate and its key",
                certificate.display(),
                key.display()
            )
        })?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Tls(Arc::new(Mutex::new(Arc::new(config)))))
    }

    /// Puts another pair in the place of this one: for connections that come from now on.
    pub fn replace(&self, other: &Tls) {
        let config = other.config();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = config;
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.config())
    }

    fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
