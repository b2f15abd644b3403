//! Which certificates are trusted.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use ureq::tls::{Certificate, RootCerts};

use crate::OpenError;

/// Bytes of a file of CA certificates; the store of a whole system has some hundred thousand.
const BYTES_MAX: u64 = 16 << 20;

/// Whose certificates are trusted.
#[derive(Clone)]
pub struct Trust {
    roots: RootCerts,
    /// The file that they are from; `None` for the system's.
    file: Option<PathBuf>,
}

impl std::fmt::Debug for Trust {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Trust")
    }
}

impl Trust {
    /// What the system trusts. A store that is empty or cannot be read trusts nobody, which the first connection says.
    #[must_use]
    pub fn system() -> Trust {
        Trust::of(&rustls_native_certs::load_native_certs().certs, None)
    }

    /// Only the certificates of a PEM file.
    ///
    /// # Errors
    /// [`OpenError::File`], [`OpenError::Ca`]: the file cannot be read, or holds no sound certificate.
    pub fn of_file(path: &Path) -> Result<Trust, OpenError> {
        let wrong = |text: String| OpenError::Ca { path: path.to_owned(), text };
        let unreadable = |source| OpenError::File { path: path.to_owned(), source };
        let mut bytes = Vec::new();
        File::open(path)
            .and_then(|file| file.take(BYTES_MAX).read_to_end(&mut bytes))
            .map_err(unreadable)?;
        let certificates: Vec<CertificateDer<'_>> = CertificateDer::pem_slice_iter(&bytes)
            .collect::<Result<_, _>>()
            .map_err(|error| wrong(error.to_string()))?;
        if certificates.is_empty() {
            return Err(wrong("no certificate in it".to_owned()));
        }
        let mut store = RootCertStore::empty();
        for certificate in &certificates {
            store.add(certificate.clone()).map_err(|error| wrong(error.to_string()))?;
        }
        Ok(Trust::of(&certificates, Some(path.to_owned())))
    }

    fn of(certificates: &[CertificateDer<'_>], file: Option<PathBuf>) -> Trust {
        let certificates = certificates.iter().map(|der| Certificate::from_der(der).to_owned());
        let roots = RootCerts::new_with_certs(&certificates.collect::<Vec<_>>());
        Trust { roots, file }
    }

    /// What is trusted, and the file that it is from.
    pub(crate) fn parts(self) -> (RootCerts, Option<PathBuf>) {
        (self.roots, self.file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_sound_certificate_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.pem");
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let garbage = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for wrong in [
            "",
            "not PEM",
            &made.signing_key.serialize_pem(),
            garbage,
            "-----BEGIN CERTIFICATE-----\n!",
        ] {
            std::fs::write(&path, wrong).unwrap();
            let error = Trust::of_file(&path).unwrap_err().to_string();
            assert!(
                error.contains("ca.pem") && error.contains("expected certificates in PEM"),
                "{error}"
            );
        }
        std::fs::write(&path, made.cert.pem()).unwrap();
        Trust::of_file(&path).unwrap();
        let error = Trust::of_file(Path::new("/nowhere/ca.pem")).unwrap_err().to_string();
        assert!(error.contains("/nowhere/ca.pem"), "{error}");
    }
}
