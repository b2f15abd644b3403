//! One attempt: the request, and what its answer means.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::pki_types::CertificateDer;
use ureq::http::Uri;
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};
use ureq::{Agent, Error};

use crate::endpoint::{Endpoint, Reach};
use crate::queue::Message;
use crate::secret::signatures;

/// Bytes of the head of an answer at most; its body is not read.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// A receiver that wants to be left alone for longer is asked again after this.
const RETRY_AFTER_MAX_S: u64 = 86_400;

/// Whose certificates are trusted.
#[derive(Clone, Debug)]
pub enum Trust {
    /// What the system trusts.
    System,
    /// These, in DER.
    Only(Vec<Vec<u8>>),
}

impl Trust {
    /// # Errors
    /// The system has no certificates, or they cannot be read.
    fn roots(&self) -> std::io::Result<RootCerts> {
        let certificates = match self {
            Trust::System => system_roots()?,
            Trust::Only(given) => given.iter().cloned().map(CertificateDer::from).collect(),
        };
        let certificates: Vec<_> =
            certificates.iter().map(|der| Certificate::from_der(der).to_owned()).collect();
        Ok(RootCerts::new_with_certs(&certificates))
    }
}

fn system_roots() -> std::io::Result<Vec<CertificateDer<'static>>> {
    let found = rustls_native_certs::load_native_certs();
    if !found.certs.is_empty() {
        return Ok(found.certs);
    }
    let why: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
    let text = format!(
        "the system has no certificates of authorities, so no endpoint could be trusted: install them (ca-certificates) {}",
        why.join("; ")
    );
    Err(std::io::Error::new(std::io::ErrorKind::NotFound, text))
}

/// What an attempt came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A status of 200 to 299.
    Taken,
    /// 410: the receiver wants no message any more.
    Gone,
    /// Anything else, in words; and for how long the receiver wants to be left alone.
    Failed { why: String, pause: Pause },
}

/// For how long a receiver wants to be left alone, with all its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// It did not say so.
    None,
    /// It has too much to do (429, 502, 503, 504): until this message is due again.
    Retry,
    /// It said for how long.
    For(Duration),
}

/// Resolves names, and leaves out the addresses that messages may not go to.
#[derive(Debug)]
struct Guarded(Reach);

impl Resolver for Guarded {
    fn resolve(
        &self,
        uri: &Uri,
        config: &ureq::config::Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, Error> {
        let found = DefaultResolver::default().resolve(uri, config, timeout)?;
        let mut allowed = self.empty();
        found.iter().filter(|at| self.0.allows(at.ip())).for_each(|at| allowed.push(*at));
        match allowed.is_empty() {
            true => Err(Error::Other("the address is not one of the public internet".into())),
            false => Ok(allowed),
        }
    }
}

/// What posts messages: no redirects, no proxy, no connection that is kept.
pub(crate) fn agent(reach: Reach, trust: &Trust, wait: Duration) -> std::io::Result<Agent> {
    let tls = TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .root_certs(trust.roots()?)
        .build();
    let config = Agent::config_builder()
        .tls_config(tls)
        .timeout_global(Some(wait))
        .http_status_as_error(false)
        .max_redirects(0)
        .proxy(None)
        .max_response_header_size(HEAD_BYTES_MAX)
        .max_idle_connections(0)
        .user_agent(concat!("weir/", env!("CARGO_PKG_VERSION")))
        .build();
    Ok(Agent::with_parts(config, DefaultConnector::default(), Guarded(reach)))
}

/// Posts a message once. The timestamp is that of this attempt: receivers refuse old ones as replays.
pub(crate) fn post(agent: &Agent, endpoint: &Endpoint, message: &Message) -> Answer {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let timestamp_s = since_epoch.as_secs();
    let (id, payload) = (message.id(), message.payload());
    let sent = agent
        .post(&endpoint.url)
        .header("content-type", "application/json")
        .header("connection", "close")
        .header("webhook-id", id)
        .header("webhook-timestamp", timestamp_s.to_string())
        .header("webhook-signature", signatures(&endpoint.secrets, id, timestamp_s, payload))
        .send(payload);
    match sent {
        Ok(answer) => {
            let retry_after = answer.headers().get("retry-after");
            judge(answer.status().as_u16(), retry_after.and_then(|value| value.to_str().ok()))
        }
        Err(error) => Answer::Failed { why: error.to_string(), pause: Pause::None },
    }
}

/// What a status means. `Retry-After` counts in seconds; a date in it does not.
fn judge(status: u16, retry_after: Option<&str>) -> Answer {
    let seconds = retry_after.and_then(|text| text.trim().parse::<u64>().ok());
    let pause = match (seconds, status) {
        (Some(s), _) => Pause::For(Duration::from_secs(s.min(RETRY_AFTER_MAX_S))),
        (None, 429 | 502 | 503 | 504) => Pause::Retry,
        _ => Pause::None,
    };
    match status {
        200..=299 => Answer::Taken,
        410 => Answer::Gone,
        300..=399 => {
            Answer::Failed { why: format!("status {status}: redirects are not followed"), pause }
        }
        _ => Answer::Failed { why: format!("status {status}"), pause },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_says_what_to_do() {
        let pause = |status, after| match judge(status, after) {
            Answer::Failed { pause, .. } => pause,
            other => panic!("{status}: {other:?}"),
        };
        assert_eq!(
            (judge(200, None), judge(299, Some("9")), judge(410, None)),
            (Answer::Taken, Answer::Taken, Answer::Gone)
        );
        for status in [301, 307, 400, 401, 404, 500] {
            assert_eq!(pause(status, None), Pause::None, "{status}");
        }
        for status in [429, 502, 503, 504] {
            assert_eq!(pause(status, None), Pause::Retry, "{status}");
            assert_eq!(pause(status, Some(" 7 ")), Pause::For(Duration::from_secs(7)));
        }
        assert_eq!(
            pause(503, Some("18446744073709551615")),
            Pause::For(Duration::from_secs(86_400))
        );
        for wrong in ["", "-1", "soon", "Fri, 31 Dec 1999 23:59:59 GMT", "18446744073709551616"] {
            assert_eq!(pause(429, Some(wrong)), Pause::Retry, "{wrong}");
        }
    }
}
