//! One request to the admin door, and what its answer or its failure means.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::CertificateError;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use ureq::http::{Response, StatusCode, header};
use ureq::tls::{TlsConfig, TlsProvider};
use ureq::typestate::WithBody;
use ureq::{Agent, Body, Error, RequestBuilder};
use zeroize::Zeroizing;

use crate::target::is_of_data;
use crate::text::shown;
use crate::{FetchError, Target, Token, Trust};

/// How long a whole exchange may take, from the name's look-up to the last byte.
pub const WAIT: Duration = Duration::from_secs(15);
/// The header in which a node says which run of which node it is.
const RUN_ID: &str = "weir-run-id";
/// Bytes of an answer's head.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Bytes of an answer's body, where nobody said otherwise.
const BODY_BYTES_MAX: u64 = 8 << 20;
/// Bytes of a refusal's body that are looked at.
const PROBLEM_BYTES_MAX: u64 = 64 << 10;
/// How long the look may take whether a port speaks TLS.
const LOOK_WAIT: Duration = Duration::from_secs(2);
/// First byte of a TLS alert: the answer of a door with TLS to a request without.
const TLS_ALERT: u8 = 0x15;

/// Whom to ask, and as whom. Its requests are independent of each other; a clone asks the same node.
#[derive(Clone)]
pub struct Client {
    target: Target,
    token: Option<Token>,
    wait: Duration,
    /// Bytes of an answer's body.
    body_bytes_max: u64,
    /// The data folder whose node must be the one that answers.
    data: Option<PathBuf>,
    /// The file of the CA certificates that are trusted in place of the system's.
    ca: Option<PathBuf>,
    agent: Agent,
}

/// A problem as of RFC 9457, or the errors of the keys door.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Problem {
    title: Option<String>,
    detail: Option<String>,
    errors: Vec<String>,
    /// Problems of the spend door have one.
    verdict: Option<String>,
}

impl Client {
    /// A client of a door. `trust` counts for `https://` only; without one nobody is trusted.
    #[must_use]
    pub fn new(target: Target, token: Option<Token>, trust: Option<Trust>) -> Client {
        let nobody = || (ureq::tls::RootCerts::new_with_certs(&[]), None);
        let (roots, ca) = trust.map_or_else(nobody, Trust::parts);
        let tls = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .root_certs(roots)
            .build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .http_status_as_error(false)
            .max_redirects(0)
            // The environment's proxy would be another host that sees the token.
            .proxy(None)
            .max_response_header_size(HEAD_BYTES_MAX)
            // The node closes connections that are idle, at a moment that cannot be known here: none is kept.
            .max_idle_connections(0)
            .user_agent(concat!("weir/", env!("CARGO_PKG_VERSION")))
            .build();
        let (wait, body_bytes_max, agent) = (WAIT, BODY_BYTES_MAX, config.new_agent());
        Client { target, token, wait, body_bytes_max, data: None, ca, agent }
    }

    /// The same with another limit of time for an exchange.
    #[must_use]
    pub fn with_wait(self, wait: Duration) -> Client {
        Client { wait, ..self }
    }

    /// The same with another limit of the bytes of an answer.
    #[must_use]
    pub fn with_body_bytes_max(self, body_bytes_max: u64) -> Client {
        Client { body_bytes_max, ..self }
    }

    /// The same, for the node that runs on this data folder only: what another one answers there is not taken.
    #[must_use]
    pub fn of_data(self, data: &Path) -> Client {
        Client { data: Some(data.to_owned()), ..self }
    }

    /// `HOST:PORT`.
    #[must_use]
    pub fn address(&self) -> &str {
        self.target.address()
    }

    /// Asks for a path (with its query, encoded) and reads the JSON of the answer.
    ///
    /// # Errors
    /// [`FetchError`].
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, FetchError> {
        let body = self.body(path, "application/json")?;
        serde_json::from_slice(&body).map_err(|error| FetchError::OtherForm {
            address: self.address().to_owned(),
            path: bare(path),
            text: error.to_string(),
        })
    }

    /// Asks for a path (with its query, encoded) and reads the text of the answer. What is not UTF-8 is replaced.
    ///
    /// # Errors
    /// [`FetchError`].
    pub fn get_text(&self, path: &str) -> Result<String, FetchError> {
        let body = self.body(path, "*/*")?;
        Ok(String::from_utf8(body)
            .unwrap_or_else(|wrong| String::from_utf8_lossy(wrong.as_bytes()).into_owned()))
    }

    /// Asks the node to do something, without a body, and reads the JSON of what it says: `Ok` where it did it, `Err` where it
    /// understood and refused (422), with its reasons.
    ///
    /// # Errors
    /// [`FetchError`].
    pub fn post(&self, path: &str) -> Result<Result<Value, Value>, FetchError> {
        let json = "application/json";
        let answer = self.headed(self.agent.post(self.target.url(path)), json).send_empty();
        let is_refused =
            |answer: &Response<Body>| answer.status() == StatusCode::UNPROCESSABLE_ENTITY;
        let refused = answer.as_ref().is_ok_and(is_refused);
        let body = self.read(path, answer, refused)?;
        let value = serde_json::from_slice(&body).map_err(|error| FetchError::OtherForm {
            address: self.address().to_owned(),
            path: bare(path),
            text: error.to_string(),
        })?;
        Ok(if refused { Err(value) } else { Ok(value) })
    }

    /// Asks the node to do something that a JSON body says, and reads the JSON of what it says: null where that is nothing. Both bodies may
    /// hold secrets: what is kept of them here is wiped.
    ///
    /// # Errors
    /// [`FetchError`]; a refusal, too.
    pub fn post_json(&self, path: &str, body: &Value) -> Result<Value, FetchError> {
        self.send_json(path, self.agent.post(self.target.url(path)), body)
    }

    /// The same with DELETE.
    ///
    /// # Errors
    /// As of [`post_json`](Self::post_json).
    pub fn delete_json(&self, path: &str, body: &Value) -> Result<Value, FetchError> {
        self.send_json(path, self.agent.delete(self.target.url(path)).force_send_body(), body)
    }

    fn send_json(
        &self,
        path: &str,
        request: RequestBuilder<WithBody>,
        body: &Value,
    ) -> Result<Value, FetchError> {
        let json = "application/json";
        let request = self.headed(request, json).header(header::CONTENT_TYPE, json);
        let text = Zeroizing::new(body.to_string());
        let body = Zeroizing::new(self.read(path, request.send(text.as_str()), false)?);
        if body.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&body).map_err(|error| FetchError::OtherForm {
            address: self.address().to_owned(),
            path: bare(path),
            text: error.to_string(),
        })
    }

    fn body(&self, path: &str, accept: &str) -> Result<Vec<u8>, FetchError> {
        let answer = self.headed(self.agent.get(self.target.url(path)), accept).call();
        self.read(path, answer, false)
    }

    /// A request with its limit of time and its headers.
    fn headed<B>(&self, request: RequestBuilder<B>, accept: &str) -> RequestBuilder<B> {
        let mut request = request
            .config()
            .timeout_global(Some(self.wait))
            .build()
            .header(header::ACCEPT, accept)
            .header(header::CONNECTION, "close");
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, token.bearer());
        }
        request
    }

    /// The body of an answer: of one with the status 200, or whose refusal is `wanted`.
    fn read(
        &self,
        path: &str,
        answer: Result<Response<Body>, Error>,
        wanted: bool,
    ) -> Result<Vec<u8>, FetchError> {
        let mut answer = answer.map_err(|error| self.failure(path, error))?;
        if let Some(data) = &self.data {
            let run_id = answer.headers().get(RUN_ID).map(header::HeaderValue::as_bytes);
            if !is_of_data(data, run_id) {
                let address = self.address().to_owned();
                return Err(FetchError::OtherNode { address, data: data.clone() });
            }
        }
        let is_done = matches!(answer.status(), StatusCode::OK | StatusCode::NO_CONTENT);
        if !is_done && !wanted {
            return Err(self.refusal(path, answer));
        }
        let length = answer.body().content_length();
        if length.is_some_and(|length| length > self.body_bytes_max) {
            return Err(self.failure(path, Error::BodyExceedsLimit(self.body_bytes_max)));
        }
        let limited = answer.body_mut().with_config().limit(self.body_bytes_max);
        limited.read_to_vec().map_err(|error| self.failure(path, error))
    }

    /// What a status other than 200 and 204 means.
    fn refusal(&self, path: &str, mut answer: Response<Body>) -> FetchError {
        let (address, path) = (self.address().to_owned(), bare(path));
        let status = answer.status();
        if status.is_redirection() {
            let to = answer.headers().get(header::LOCATION).map(header::HeaderValue::as_bytes);
            let to = shown(&String::from_utf8_lossy(to.unwrap_or_default()));
            return FetchError::Redirect { address, path, to };
        }
        // A refusal counts even where its words do not come.
        let body = answer.body_mut().with_config().limit(PROBLEM_BYTES_MAX).read_to_vec();
        let problem: Problem =
            serde_json::from_slice(&body.unwrap_or_default()).unwrap_or_default();
        let is_spend_door = problem.verdict.is_some();
        let text = problem.detail.or(problem.title).or(problem.errors.into_iter().next());
        if status == StatusCode::NOT_FOUND && (text.is_none() || is_spend_door) {
            return FetchError::NotAdmin { address, path };
        }
        let text = text.unwrap_or_else(|| "no reason given".to_owned());
        let text = shown(&text);
        match status.as_u16() {
            401 => match &self.token {
                Some(token) => {
                    FetchError::UnknownToken { address, place: token.place().to_owned() }
                }
                None => FetchError::Unauthorised { address },
            },
            403 => FetchError::Forbidden { address, path, text },
            404 => FetchError::Unknown { address, path, text },
            status => FetchError::Refused { address, path, status, text },
        }
    }

    /// What a request without an answer means.
    fn failure(&self, path: &str, error: Error) -> FetchError {
        let (address, path) = (self.address().to_owned(), bare(path));
        let error = match error {
            // A handshake's error comes wrapped in that of its socket.
            Error::Io(error) => match error.downcast::<rustls::Error>() {
                Ok(error) => Error::Rustls(error),
                Err(error) => Error::Io(error),
            },
            error => error,
        };
        match error {
            Error::Timeout(_) | Error::BodyStalled => {
                FetchError::Slow { address, path, wait: self.wait }
            }
            Error::HostNotFound => FetchError::Unreachable {
                address,
                text: "no host of this name is known".to_owned(),
            },
            Error::ConnectionFailed => {
                FetchError::Unreachable { address, text: "no connection".to_owned() }
            }
            Error::BodyExceedsLimit(bytes_max) => FetchError::TooLong { address, path, bytes_max },
            Error::LargeResponseHeader(..) => {
                FetchError::TooLong { address, path, bytes_max: HEAD_BYTES_MAX as u64 }
            }
            Error::Rustls(error) => self.tls_failure(&error),
            Error::Tls(text) => FetchError::Tls { address, text: text.to_owned() },
            Error::Io(error) if is_broken(&error) => self.cut_off(path, &error.to_string()),
            Error::Io(error) => FetchError::Unreachable { address, text: error.to_string() },
            _ if self.speaks_tls() => FetchError::SpeaksTls { address },
            error => FetchError::NotHttp {
                address,
                text: format!("no HTTP answer ({})", shown(&error.to_string())),
            },
        }
    }

    /// The connection ended early: mostly a node that was stopped, but also how a port of the other kind ends it.
    fn cut_off(&self, path: String, text: &str) -> FetchError {
        let address = self.address().to_owned();
        if !self.target.is_tls() && self.speaks_tls() {
            return FetchError::SpeaksTls { address };
        }
        FetchError::Broken { address, path, text: shown(text) }
    }

    fn tls_failure(&self, error: &rustls::Error) -> FetchError {
        let address = self.address().to_owned();
        let host = self.target.host().to_owned();
        let rustls::Error::InvalidCertificate(error) = error else {
            return match error {
                rustls::Error::InvalidMessage(_) => FetchError::SpeaksNoTls { address },
                error => FetchError::Tls { address, text: shown(&error.to_string()) },
            };
        };
        match error {
            // A bad signature: another CA of the same name, such as one that was made anew.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                match self.ca.clone() {
                    Some(ca) => FetchError::OtherCa { address, ca },
                    None => FetchError::UnknownCa { address },
                }
            }
            CertificateError::NotValidForName => {
                FetchError::WrongName { address, host, names: String::new() }
            }
            CertificateError::NotValidForNameContext { presented, .. } => {
                let names = shown(&names(presented));
                FetchError::WrongName { address, host, names }
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                FetchError::Expired { address, text: "has expired".to_owned() }
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                FetchError::Expired { address, text: "is not valid yet".to_owned() }
            }
            error => FetchError::Tls { address, text: shown(&refusal(error)) },
        }
    }

    /// Asks a port that gave no HTTP answer once more, without the token: does a TLS alert come back?
    fn speaks_tls(&self) -> bool {
        let look = || -> std::io::Result<bool> {
            let address = self.target.address().to_socket_addrs()?.next();
            let mut stream = TcpStream::connect_timeout(
                &address.ok_or(std::io::ErrorKind::NotFound)?,
                LOOK_WAIT,
            )?;
            stream.set_read_timeout(Some(LOOK_WAIT))?;
            stream.set_write_timeout(Some(LOOK_WAIT))?;
            stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
            let mut first = [0];
            Ok(stream.read(&mut first)? == 1 && first[0] == TLS_ALERT)
        };
        !self.target.is_tls() && look().unwrap_or(false)
    }
}

/// Hides the token.
impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("target", &self.target)
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}

/// A path without its query.
fn bare(path: &str) -> String {
    path.split('?').next().unwrap_or(path).to_owned()
}

/// The other side ended a connection that was there.
fn is_broken(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

/// Says for which names a certificate is, in the words of who made it; rustls hands them over in those of a programmer.
fn names(presented: &[String]) -> String {
    let plain = |name: &String| {
        let inner = name.strip_prefix("DnsName(\"").and_then(|rest| rest.strip_suffix("\")"));
        inner.unwrap_or(name).to_owned()
    };
    match presented {
        [] => ", and has no subject alternative name at all (a common name alone does not count)"
            .into(),
        all => format!(", but for {}", all.iter().map(plain).collect::<Vec<_>>().join(", ")),
    }
}

/// Says why a certificate is refused.
fn refusal(error: &CertificateError) -> String {
    let why = match error {
        CertificateError::Other(other) => match other.to_string() {
            text if text.contains("EndEntityUsedAsCa") => {
                "one that is no CA's signed it; sign it with the CA's own key".into()
            }
            text if text.contains("CaUsedAsEndEntity") => {
                "it is a CA's own; make one for the server, signed by that CA".into()
            }
            text => text,
        },
        error => error.to_string(),
    };
    format!("its certificate is refused: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_certificate_is_told_in_plain_words() {
        let presented = ["DnsName(\"weir.example\")".to_owned(), "10.0.0.1".to_owned()];
        assert_eq!(names(&presented), ", but for weir.example, 10.0.0.1");
        assert!(names(&[]).contains("no subject alternative name"));
        let other = |text: &str| {
            let source = std::sync::Arc::new(std::io::Error::other(text.to_owned()));
            refusal(&CertificateError::Other(rustls::OtherError(source)))
        };
        let told = other("EndEntityUsedAsCa");
        assert!(told.contains("sign it with the CA's own key"), "{told}");
        let told = other("CaUsedAsEndEntity");
        assert!(told.contains("make one for the server"), "{told}");
    }
}
