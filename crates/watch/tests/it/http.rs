//! A small HTTP client: one request a connection.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// A request under construction.
pub(crate) struct Call {
    method: &'static str,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

pub(crate) fn call(method: &'static str, path: impl Into<String>) -> Call {
    Call { method, path: path.into(), headers: Vec::new(), body: Vec::new() }
}

pub(crate) fn get(path: impl Into<String>) -> Call {
    call("GET", path)
}

impl Call {
    pub(crate) fn with(mut self, name: &str, value: impl Into<String>) -> Call {
        self.headers.push((name.to_string(), value.into()));
        self
    }

    pub(crate) fn text(mut self, body: impl Into<Vec<u8>>) -> Call {
        self.body = body.into();
        self
    }

    pub(crate) fn json(self, body: &Value) -> Call {
        self.with("Content-Type", "application/json").text(body.to_string())
    }

    /// The bytes of the request.
    pub(crate) fn bytes(&self, host: &str) -> Vec<u8> {
        let has =
            |wanted: &str| self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(wanted));
        let mut head = format!("{} {} HTTP/1.1\r\nConnection: close\r\n", self.method, self.path);
        if !has("host") {
            head.push_str(&format!("Host: {host}\r\n"));
        }
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !self.body.is_empty() && !has("content-length") {
            head.push_str(&format!("Content-Length: {}\r\n", self.body.len()));
        }
        head.push_str("\r\n");
        [head.as_bytes(), &self.body].concat()
    }

    pub(crate) fn send(&self, to: SocketAddr) -> Answer {
        let mut stream = TcpStream::connect(to).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(90))).unwrap();
        // The server may answer and close before it has read everything.
        let _ = stream.write_all(&self.bytes(&to.to_string()));
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        Answer::parse(&bytes, self.method == "HEAD")
    }
}

impl Answer {
    pub(crate) fn parse(bytes: &[u8], head_only: bool) -> Answer {
        let end = bytes.windows(4).position(|part| part == b"\r\n\r\n").expect("a head");
        let head = std::str::from_utf8(&bytes[..end]).unwrap();
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let header = |line: &str| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.to_ascii_lowercase(), value.to_string())
        };
        let headers: Vec<(String, String)> = lines.map(header).collect();
        let mut answer = Answer { status, headers, body: bytes[end + 4..].to_vec() };
        if answer.header("transfer-encoding") == Some("chunked") && !head_only {
            answer.body = dechunk(&answer.body);
        }
        answer
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The answer, which must have this status.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Answer {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        self
    }

    /// The error, which must have this status and be of this kind, in the form of RFC 9457.
    #[track_caller]
    pub(crate) fn problem(self, status: u16, kind: &str) -> Value {
        let answer = self.expect(status);
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
        let problem = answer.json();
        assert_eq!(problem["type"], format!("/docs/api#{kind}"), "{problem}");
        assert_eq!(problem["status"], status);
        for field in ["title", "detail"] {
            assert!(problem[field].as_str().is_some_and(|text| !text.is_empty()), "{problem}");
        }
        for field in ["field", "found", "expected"] {
            assert!(problem.get(field).is_some(), "{field} of {problem}");
        }
        problem
    }
}

fn dechunk(mut bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let end = bytes.windows(2).position(|part| part == b"\r\n").expect("a chunk's head");
        let length =
            usize::from_str_radix(std::str::from_utf8(&bytes[..end]).unwrap(), 16).unwrap();
        if length == 0 {
            return body;
        }
        body.extend_from_slice(&bytes[end + 2..end + 2 + length]);
        bytes = &bytes[end + 4 + length..];
    }
}
