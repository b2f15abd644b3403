//! One question to the admin door: HTTP/1.1 over one connection that ends with the answer. Everything has a limit: the
//! time of the whole exchange, the head, the body.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde::de::DeserializeOwned;

/// How long a whole exchange may take.
pub const WAIT: Duration = Duration::from_secs(5);
/// Bytes of an answer's head.
const HEAD_MAX: usize = 16 << 10;
/// Bytes of an answer's body.
const BODY_MAX: usize = 8 << 20;
/// Bytes of the line that says how long a chunk is.
const CHUNK_LINE_MAX: usize = 256;
/// Fields of an answer's head.
const FIELDS_MAX: usize = 64;
/// First byte of a TLS alert: the answer of a TLS door to a plain question.
const TLS_ALERT: u8 = 0x15;
/// Characters of a stranger's text that are shown.
const SHOWN_MAX: usize = 200;

/// Where the node is, or the token, cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// TLS is not spoken here.
    #[error(
        "{0}: weir top speaks plain http only; run it beside the node on its loopback address, or through an ssh tunnel: \
         ssh -L 7780:127.0.0.1:7780 HOST"
    )]
    Https(String),
    /// Not an address.
    #[error("address {0:?}: expected HOST:PORT or http://HOST:PORT, such as 127.0.0.1:7780")]
    Shape(String),
    /// A character that no header may hold.
    #[error("the token holds a character that is not visible ASCII; is there a line break in it?")]
    Token,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// No connection.
    #[error("node at {address}: {source}; is it running?")]
    Unreachable {
        /// Where it should be.
        address: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The answer is not complete in time.
    #[error("node at {address}: no whole answer to {path} within {} ms", WAIT.as_millis())]
    Slow {
        /// Where it is.
        address: String,
        /// What was asked for.
        path: String,
    },
    /// The connection ended in the middle.
    #[error("node at {address}: the connection ended before the answer to {path} did: {text}")]
    Broken {
        /// Where it is.
        address: String,
        /// What was asked for.
        path: String,
        /// What happened.
        text: String,
    },
    /// The door speaks TLS.
    #[error(
        "{address} speaks TLS; weir top speaks plain http only: give the address of a door without TLS, on the node's \
         loopback or through an ssh tunnel"
    )]
    Tls {
        /// Where that is.
        address: String,
    },
    /// The answer is not HTTP, or too long.
    #[error("{address}: {text}; is this the admin door of a node?")]
    NotHttp {
        /// Where that is.
        address: String,
        /// What is wrong.
        text: String,
    },
    /// No token, or an unknown one.
    #[error(
        "node at {address} wants a token that it knows: one of the lines `name role token` of its admin.tokens_file, \
         role read or operate"
    )]
    Unauthorised {
        /// Where it is.
        address: String,
    },
    /// The token may not.
    #[error(
        "node at {address}: this token may not read {path}; give one with the role read or operate"
    )]
    Forbidden {
        /// Where it is.
        address: String,
        /// What was asked for.
        path: String,
    },
    /// No such path, or no such thing.
    #[error("node at {address} has no {path}: {text}")]
    Unknown {
        /// Where it is.
        address: String,
        /// What was asked for.
        path: String,
        /// Its words.
        text: String,
    },
    /// It understood, and does not answer.
    #[error("node at {address} answers {path} with {status}: {text}")]
    Refused {
        /// Where it is.
        address: String,
        /// What was asked for.
        path: String,
        /// The status code.
        status: u16,
        /// Its words.
        text: String,
    },
    /// An answer of another form.
    #[error(
        "node at {address}: the answer to {path} has another form than this weir top ({}) expects: {text}; use the weir top \
         of the node's release",
        env!("CARGO_PKG_VERSION")
    )]
    OtherForm {
        /// Where it is.
        address: String,
        /// What was asked for.
        path: String,
        /// What does not fit.
        text: String,
    },
}

/// Whom to ask, and as whom.
#[derive(Clone)]
pub struct Client {
    /// `HOST:PORT`.
    address: String,
    token: Option<String>,
    wait: Duration,
}

/// A problem as of RFC 9457.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Problem {
    title: Option<String>,
    detail: Option<String>,
}

impl Client {
    /// For `HOST:PORT` or `http://HOST:PORT`, perhaps with a bearer token.
    ///
    /// # Errors
    /// [`AddressError`].
    pub fn new(address: &str, token: Option<&str>) -> Result<Client, AddressError> {
        let address = address.trim();
        if address.starts_with("https:") {
            return Err(AddressError::Https(address.to_owned()));
        }
        let bare = address.strip_prefix("http://").unwrap_or(address);
        let bare = bare.strip_suffix('/').unwrap_or(bare);
        let (host, port) =
            bare.rsplit_once(':').ok_or_else(|| AddressError::Shape(address.to_owned()))?;
        let host_is_sound = !host.is_empty()
            && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte));
        if !host_is_sound || port.parse::<u16>().is_err() {
            return Err(AddressError::Shape(address.to_owned()));
        }
        let token = token.map(str::trim).filter(|token| !token.is_empty());
        if token.is_some_and(|token| !token.bytes().all(|byte| byte.is_ascii_graphic())) {
            return Err(AddressError::Token);
        }
        Ok(Client { address: bare.to_owned(), token: token.map(str::to_owned), wait: WAIT })
    }

    /// The same with another limit of time for an exchange.
    #[must_use]
    pub fn with_wait(self, wait: Duration) -> Client {
        Client { wait, ..self }
    }

    /// `HOST:PORT`.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Asks for a path (with its query, encoded) and reads the JSON of the answer.
    ///
    /// # Errors
    /// [`FetchError`].
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, FetchError> {
        let (status, body) = Exchange::start(self, path)?.run()?;
        if status == 200 {
            return serde_json::from_slice(&body).map_err(|error| FetchError::OtherForm {
                address: self.address.clone(),
                path: bare(path),
                text: error.to_string(),
            });
        }
        Err(self.refusal(path, status, &body))
    }

    fn refusal(&self, path: &str, status: u16, body: &[u8]) -> FetchError {
        let problem: Problem = serde_json::from_slice(body).unwrap_or_default();
        let text = problem.detail.or(problem.title).unwrap_or_else(|| "no reason given".to_owned());
        let text: String = text.chars().take(SHOWN_MAX).collect();
        let (address, path) = (self.address.clone(), bare(path));
        match status {
            401 => FetchError::Unauthorised { address },
            403 => FetchError::Forbidden { address, path },
            404 => FetchError::Unknown { address, path, text },
            status => FetchError::Refused { address, path, status, text },
        }
    }
}

/// Hides the token.
impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let token = self.token.as_ref().map(|_| "hidden");
        f.debug_struct("Client").field("address", &self.address).field("token", &token).finish()
    }
}

/// A path without its query.
fn bare(path: &str) -> String {
    path.split('?').next().unwrap_or(path).to_owned()
}

/// Percent-encodes everything but unreserved characters (RFC 3986), for a value in a query or a part of a path.
#[must_use]
pub fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte));
            }
            byte => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// How a body ends.
enum Framing {
    Length(usize),
    Chunked,
    Close,
}

struct Head {
    status: u16,
    framing: Framing,
    /// Bytes of it.
    len: usize,
}

/// One question and what has come of its answer.
struct Exchange<'a> {
    client: &'a Client,
    path: &'a str,
    stream: TcpStream,
    end: Instant,
    received: Vec<u8>,
    /// How much of it is read.
    at: usize,
}

impl<'a> Exchange<'a> {
    fn start(client: &'a Client, path: &'a str) -> Result<Exchange<'a>, FetchError> {
        let unreachable = |source| {
            let address = client.address.clone();
            FetchError::Unreachable { address, source }
        };
        let end = Instant::now() + client.wait;
        let mut stream = connect(&client.address, end).map_err(unreachable)?;
        stream.set_write_timeout(Some(client.wait)).map_err(unreachable)?;
        let bearer = client.token.as_ref();
        let bearer = bearer.map(|token| format!("Authorization: Bearer {token}\r\n"));
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nAccept: application/json\r\n{}Connection: close\r\n\r\n",
            client.address,
            bearer.unwrap_or_default(),
        );
        stream.write_all(head.as_bytes()).map_err(unreachable)?;
        Ok(Exchange { client, path, stream, end, received: Vec::new(), at: 0 })
    }

    /// The status code and the body.
    fn run(mut self) -> Result<(u16, Vec<u8>), FetchError> {
        let head = self.head()?;
        self.at = head.len;
        let body = match head.framing {
            Framing::Length(len) => self.exactly(len)?,
            Framing::Chunked => self.chunks()?,
            Framing::Close => self.rest()?,
        };
        Ok((head.status, body))
    }

    fn head(&mut self) -> Result<Head, FetchError> {
        loop {
            if let Some(head) = self.parse_head()? {
                return Ok(head);
            }
            if self.received.len() > HEAD_MAX {
                return Err(self.not_http(format!("a head above {HEAD_MAX} bytes")));
            }
            self.must_fill()?;
        }
    }

    fn parse_head(&self) -> Result<Option<Head>, FetchError> {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut response = httparse::Response::new(&mut fields);
        let parsed = response.parse(&self.received);
        let len = match parsed {
            Ok(httparse::Status::Complete(len)) => len,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(_) if self.received.first() == Some(&TLS_ALERT) => {
                return Err(FetchError::Tls { address: self.client.address.clone() });
            }
            Err(error) => return Err(self.not_http(format!("no HTTP answer ({error})"))),
        };
        let framing = self.framing(response.headers)?;
        Ok(Some(Head { status: response.code.unwrap_or(0), framing, len }))
    }

    fn framing(&self, fields: &[httparse::Header<'_>]) -> Result<Framing, FetchError> {
        let value = |name: &str| {
            let field = fields.iter().find(|field| field.name.eq_ignore_ascii_case(name))?;
            Some(std::str::from_utf8(field.value).unwrap_or_default().trim())
        };
        if let Some(encoding) = value("transfer-encoding") {
            return match encoding.eq_ignore_ascii_case("chunked") {
                true => Ok(Framing::Chunked),
                false => Err(self.not_http("an unknown transfer encoding".to_owned())),
            };
        }
        let Some(length) = value("content-length") else {
            return Ok(Framing::Close);
        };
        let length = length.parse().ok().filter(|length| *length <= BODY_MAX);
        length.map(Framing::Length).ok_or_else(|| self.too_long())
    }

    /// The next so many bytes.
    fn exactly(&mut self, len: usize) -> Result<Vec<u8>, FetchError> {
        while self.received.len() - self.at < len {
            self.must_fill()?;
        }
        let bytes = self.received[self.at..self.at + len].to_vec();
        self.at += len;
        Ok(bytes)
    }

    /// All bytes up to the end of the connection.
    fn rest(&mut self) -> Result<Vec<u8>, FetchError> {
        while self.fill()? > 0 {}
        Ok(self.received.split_off(self.at))
    }

    fn chunks(&mut self) -> Result<Vec<u8>, FetchError> {
        let mut body = Vec::new();
        loop {
            let line = self.chunk_line()?;
            let digits = line.split(';').next().unwrap_or_default().trim();
            let len = usize::from_str_radix(digits, 16);
            let len = len.map_err(|_| self.not_http("a chunk without a length".to_owned()))?;
            if len > BODY_MAX - body.len() {
                return Err(self.too_long());
            }
            if len == 0 {
                return Ok(body);
            }
            body.extend(self.exactly(len)?);
            if self.exactly(2)? != b"\r\n" {
                return Err(self.not_http("a chunk longer than it says".to_owned()));
            }
        }
    }

    /// A line that ends with CRLF, without it.
    fn chunk_line(&mut self) -> Result<String, FetchError> {
        loop {
            let unread = &self.received[self.at..];
            if let Some(end) = unread.windows(2).position(|pair| pair == b"\r\n") {
                let line = String::from_utf8_lossy(&unread[..end]).into_owned();
                self.at += end + 2;
                return Ok(line);
            }
            if unread.len() > CHUNK_LINE_MAX {
                return Err(self.not_http("a chunk without a length".to_owned()));
            }
            self.must_fill()?;
        }
    }

    /// Receives more; the end of the connection is an error.
    fn must_fill(&mut self) -> Result<(), FetchError> {
        match self.fill()? {
            0 => Err(self.broken("it was closed".to_owned())),
            _ => Ok(()),
        }
    }

    /// Receives more: how many bytes, 0 at the end.
    fn fill(&mut self) -> Result<usize, FetchError> {
        // Every chunk has some bytes around it; twice is room enough for any honest answer.
        if self.received.len() > HEAD_MAX + 2 * BODY_MAX {
            return Err(self.too_long());
        }
        let mut buffer = [0; 16 << 10];
        loop {
            let left = self.end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(self.slow());
            }
            let waits = self.stream.set_read_timeout(Some(left));
            match waits.and_then(|()| self.stream.read(&mut buffer)) {
                Ok(len) => {
                    self.received.extend_from_slice(&buffer[..len]);
                    return Ok(len);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_timeout(&error) => return Err(self.slow()),
                Err(error) => return Err(self.broken(error.to_string())),
            }
        }
    }

    fn slow(&self) -> FetchError {
        FetchError::Slow { address: self.client.address.clone(), path: bare(self.path) }
    }

    fn broken(&self, text: String) -> FetchError {
        FetchError::Broken { address: self.client.address.clone(), path: bare(self.path), text }
    }

    fn not_http(&self, text: String) -> FetchError {
        FetchError::NotHttp { address: self.client.address.clone(), text }
    }

    fn too_long(&self) -> FetchError {
        self.not_http(format!("an answer above {BODY_MAX} bytes"))
    }
}

/// Tries every address of a host until one answers.
fn connect(address: &str, end: Instant) -> std::io::Result<TcpStream> {
    let mut last = std::io::Error::new(ErrorKind::NotFound, "the host has no address");
    for candidate in address.to_socket_addrs()? {
        let left = end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        match TcpStream::connect_timeout(&candidate, left) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_plain_http() {
        for sound in ["127.0.0.1:7780", "http://node:1/", "[::1]:80", " localhost:7780 "] {
            assert!(Client::new(sound, None).is_ok(), "{sound}");
        }
        for wrong in
            ["", "node", ":80", "node:", "node:70000", "a b:1", "ftp://a:1", "n:1/x", "n\r\n:1"]
        {
            assert!(matches!(Client::new(wrong, None), Err(AddressError::Shape(_))), "{wrong}");
        }
        let error = Client::new("https://node:7780", None).unwrap_err().to_string();
        assert!(error.contains("ssh -L") && error.contains("loopback"), "{error}");
    }

    #[test]
    fn a_token_cannot_smuggle_a_header() {
        let made = |token| Client::new("a:1", Some(token));
        assert_eq!(made("x\r\nEvil: 1").unwrap_err(), AddressError::Token);
        assert_eq!(made("schlüssel").unwrap_err(), AddressError::Token);
        let client = made("0123456789abcdef\n").unwrap();
        assert_eq!(client.token.as_deref(), Some("0123456789abcdef"), "a file's last line break");
        assert!(!format!("{client:?}").contains("0123"), "a token is not for logs");
    }

    #[test]
    fn values_are_encoded() {
        assert_eq!(encode("a&b=ü ~"), "a%26b%3D%C3%BC%20~");
    }
}
